//! Directories of ours that are removed when we have ended, however that came about.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::NAME_PREFIX;
use crate::error::{Context as _, Error, Result};

/// The argument by which the program is told to be a remover; the directory follows.
pub(crate) const REMOVER_COMMAND: &str = "__remover";

/// How long those that were killed may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a directory is tried to be removed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A directory with our mark. It is removed when this is dropped, and by a process of its own if we
/// are killed.
#[derive(Debug)]
pub struct OwnDirectory {
    // Dropped in this order.
    directory: TempDir,
    _remover: Remover,
}

impl OwnDirectory {
    /// Makes one in `parent`, in whose name stands what it is for.
    ///
    /// # Errors
    /// If it cannot be made, or there is no process to be had.
    pub fn new(parent: &Path, what: &str) -> io::Result<Self> {
        let prefix = format!("{NAME_PREFIX}{}-{what}-", std::process::id());
        let directory = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(parent)?;
        let remover = Remover::new(directory.path())?;
        Ok(Self {
            directory,
            _remover: remover,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A process that waits for our end.
#[derive(Debug)]
struct Remover(Child);

impl Remover {
    fn new(directory: &Path) -> io::Result<Self> {
        let child = Command::new(crate::own_program())
            .arg(REMOVER_COMMAND)
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .current_dir("/")
            // What ends us need not end it.
            .process_group(0)
            .spawn()?;
        Ok(Self(child))
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the end of whoever started this, and removes the directory.
pub(crate) fn remove_later(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let directory = PathBuf::from(arguments.next().ok_or(Error::NotNamed("directory"))?);
    io::stdin()
        .read_to_end(&mut Vec::new())
        .doing(|| "wait for the end".into())?;
    remove(&directory).doing(|| format!("remove {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Removes a directory in which those that we started may still write: they are being killed, and
/// the kernel takes its time.
fn remove(directory: &Path) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let removed = std::fs::remove_dir_all(directory);
        // If it is something in it that is gone, it is there.
        if !directory.exists() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return removed;
        }
        sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// One of some fifty removals meets a file that was made after the directory had been read.
    #[test]
    fn a_directory_is_removed_although_somebody_still_writes_in_it() {
        let place = tempfile::tempdir().expect("a directory");
        for round in 0..400 {
            let directory = place.path().join(round.to_string());
            std::fs::create_dir(&directory).expect("created");
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for writer in ["a", "b"] {
                    let (directory, is_over) = (&directory, &is_over);
                    scope.spawn(move || {
                        let numbers = (0..).take_while(|_| !is_over.load(Ordering::Relaxed));
                        for number in numbers {
                            let path = directory.join(format!("{writer}{number}"));
                            let _ = std::fs::write(path, "");
                        }
                    });
                }
                sleep(Duration::from_micros(300));
                let removed = scope.spawn(|| remove(&directory));
                sleep(Duration::from_micros(300));
                is_over.store(true, Ordering::Relaxed);
                removed.join().expect("no panic").expect("removed");
            });
            assert!(!directory.exists());
        }
    }

    #[test]
    fn a_directory_that_is_gone_is_removed() {
        let place = tempfile::tempdir().expect("a directory");
        assert!(remove(&place.path().join("gone")).is_ok());
    }
}
