//! The directory of a sweep's results. Whatever stops the sweep at whatever moment, it can be
//! continued:
//!
//! - The manifest is written last of what describes the sweep, and whole. Before it is there,
//!   nothing has begun.
//! - Results are appended one by one; what a kill leaves of the last line is cut off.
//! - The summary is written last, whole. While it is not there, or does not agree with the
//!   results, the sweep is not finished.
//! - A lock, which the kernel takes away from a process that dies, keeps a second one out.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::{Error, Result, cannot};

/// Keeps a second process out.
pub const LOCK: &str = "crashpoint.lock";
/// What the sweep is.
pub const MANIFEST: &str = "manifest.json";
/// What came of each item.
pub const RESULTS: &str = "results.jsonl";
/// The time that was spent.
pub const TIMES: &str = "times.jsonl";
/// What it came to.
pub const SUMMARY: &str = "summary.jsonl";
/// The same, for people.
pub const TABLE: &str = "summary.txt";

/// What every sweep has. The lock is removed last: from then on another process may begin here.
const OWN: [&str; 6] = [MANIFEST, RESULTS, TIMES, SUMMARY, TABLE, LOCK];

/// A process that was just killed may still hold the lock for a moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// A directory of results that is this process's alone.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// What else a sweep of this kind keeps in it.
    kept: &'static [&'static str],
    /// What was made for it, the deepest directory first, if it is new.
    made: Option<Vec<PathBuf>>,
    /// Held until the end.
    _lock: Flock<File>,
}

impl Directory {
    /// Makes the directory of a new sweep, which beside what every sweep has keeps `kept` in it.
    ///
    /// # Errors
    /// If results are there already, or other files, another process is at work there, or it cannot
    /// be written. Then nothing is left.
    pub fn create(path: &Path, kept: &'static [&'static str]) -> Result<Self> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made: Vec<PathBuf> = path
            .ancestors()
            .take_while(missing)
            .map(Path::to_owned)
            .collect();
        fs::create_dir_all(path).map_err(|error| cannot("create", path, error))?;
        refuse(path, kept)?;
        let lock = lock(path).inspect_err(|_| remove_directories(&made))?;
        refuse_results(path, &[MANIFEST])?;
        tracing::info!(directory = %path.display(), "results go here");
        Ok(Self {
            path: path.to_owned(),
            kept,
            made: Some(made),
            _lock: lock,
        })
    }

    /// Says whether [`Directory::create`] would refuse a directory because of what is in it.
    ///
    /// # Errors
    /// If it would.
    pub fn refuse(path: &Path, kept: &'static [&'static str]) -> Result<()> {
        if path.exists() {
            refuse(path, kept)
        } else {
            Ok(())
        }
    }

    /// Opens the directory of a sweep that was begun.
    ///
    /// # Errors
    /// If none was begun there, or another process is at work there.
    pub fn open(path: &Path, kept: &'static [&'static str]) -> Result<Self> {
        fs::metadata(path).map_err(|error| cannot("open", path, error))?;
        if !path.join(MANIFEST).exists() {
            return Err(Error::NotBegun(path.into()));
        }
        let lock = lock(path)?;
        tracing::info!(directory = %path.display(), "results are continued here");
        Ok(Self {
            path: path.to_owned(),
            kept,
            made: None,
            _lock: lock,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of it is.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Takes everything back if it is new, the manifest first: without it nothing has begun.
    pub fn remove_if_new(&self) {
        let Some(made) = &self.made else { return };
        for name in [MANIFEST].iter().chain(self.kept).chain(&OWN) {
            let path = self.join(name);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        remove_directories(made);
    }
}

/// How this program was started.
pub fn command_line() -> Vec<String> {
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Fails if a sweep may not begin here.
fn refuse(path: &Path, kept: &[&str]) -> Result<()> {
    refuse_results(path, &[MANIFEST, RESULTS, SUMMARY, TABLE])?;
    if !path.join(LOCK).exists() {
        // What is ours without a lock is not of a start that was killed.
        refuse_results(path, &[TIMES])?;
        refuse_results(path, kept)?;
    }
    refuse_others(path, kept)
}

/// Fails if one of these files is there with something in it.
fn refuse_results(directory: &Path, names: &[&str]) -> Result<()> {
    let holds =
        |name: &&str| fs::symlink_metadata(directory.join(name)).is_ok_and(|data| data.len() > 0);
    if names.iter().any(holds) {
        return Err(Error::HasResults(directory.into()));
    }
    Ok(())
}

/// Fails if the directory has files that are not of a sweep: the results would be lost among them.
fn refuse_others(directory: &Path, kept: &[&str]) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(|error| cannot("read", directory, error))?;
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .collect();
    names.sort();
    // A file that was being written when its writer was killed has a name of ours with something
    // after it.
    let is_ours = |name: &OsString| {
        OWN.iter()
            .chain(kept)
            .any(|own| name.to_string_lossy().contains(own))
    };
    if let Some(other) = names.iter().find(|name| !is_ours(name)) {
        return Err(Error::HasOthers {
            directory: directory.into(),
            other: other.into(),
        });
    }
    Ok(())
}

/// Takes the directory for this process.
fn lock(directory: &Path) -> Result<Flock<File>> {
    let path = directory.join(LOCK);
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        let opened = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&path);
        let file = opened.map_err(|error| cannot("open", &path, error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            // Whoever had it may have removed it.
            Ok(lock) if lock.metadata().is_ok_and(|data| data.nlink() > 0) => return Ok(lock),
            Ok(_) => {}
            Err((_, Errno::EAGAIN)) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_PATIENCE / 40);
            }
            Err((_, Errno::EAGAIN)) => {
                return Err(Error::Busy(directory.into()));
            }
            Err((_, error)) => return Err(cannot("lock", &path, error.into())),
        }
    }
}

/// Removes directories, the deepest first, as far as they are empty.
fn remove_directories(made: &[PathBuf]) {
    for directory in made {
        let _ = fs::remove_dir(directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_removed_last() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("out");
        let new = Directory::create(&path, &[]).expect("made");
        // It takes a while to remove.
        let results = new.join(RESULTS);
        fs::create_dir(&results).expect("made");
        for number in 0..3000 {
            fs::write(results.join(number.to_string()), "").expect("written");
        }
        let remover = std::thread::spawn(move || new.remove_if_new());
        while path.join(LOCK).exists() {}
        assert!(!results.exists());
        remover.join().expect("no panic");
        assert!(!path.exists());
    }
}
