//! The path at which a program had its directory when it was recorded: programs write it into their
//! files, and the check is to see each crash state there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use local_fs::{NAME_PREFIX, enter_mount_namespace};
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::geteuid;
use trace_store::Trace;

use crate::error::{Context as _, Error, Result};

/// That path, for as long as this is there.
#[derive(Debug)]
pub struct Place {
    /// None if states cannot be shown there, and need not be.
    seen_at: Option<PathBuf>,
    _top: Option<Top>,
}

/// A directory like that of the process which recorded, which has ended: empty for others, a file
/// system in memory for us.
#[derive(Debug)]
struct Top {
    path: PathBuf,
    /// Everybody who needs it has it open and locked: the last one removes it.
    lock: Flock<File>,
    /// The directories above it that were not there, from below.
    made: Vec<PathBuf>,
}

impl Place {
    /// Makes the path at which `node` of a trace had its directory. `scratch` is a directory of
    /// this process. Unless the path is in there, the calling thread gets a mount namespace of its
    /// own.
    ///
    /// # Errors
    /// If the path is none of ours or cannot be made, or it is needed and nobody is root.
    pub fn of(trace: &Trace, node: &str, scratch: &Path) -> Result<Self> {
        let data = trace
            .about
            .directories
            .get(node)
            .ok_or(Error::DirectoryNotRecorded)?;
        if !geteuid().is_root() {
            if mentions(trace, data) {
                return Err(Error::NeedsRoot);
            }
            return Ok(Self {
                seen_at: None,
                _top: None,
            });
        }
        let data = Path::new(data);
        let top = if data.starts_with(scratch) {
            None
        } else {
            Some(Top::of(data)?)
        };
        fs::create_dir_all(data).doing(|| format!("create {}", data.display()))?;
        Ok(Self {
            seen_at: Some(data.to_owned()),
            _top: top,
        })
    }

    /// Where each state is to be seen, if not just anywhere.
    pub fn seen_at(&self) -> Option<&Path> {
        self.seen_at.as_deref()
    }
}

impl Top {
    fn of(data: &Path) -> Result<Self> {
        let is_ours = |path: &&Path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(NAME_PREFIX))
        };
        let Some(path) = data.ancestors().filter(is_ours).last() else {
            return Err(Error::NotOurs(data.into()));
        };
        enter_mount_namespace()?;
        let above = path.ancestors().skip(1);
        let made = above.take_while(|above| !above.exists());
        let made = made.map(Path::to_owned).collect();
        let lock = lock(path).doing(|| format!("make {}", path.display()))?;
        mount(
            Some("crashpoint"),
            path,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("mode=0700"),
        )
        .doing(|| format!("mount a tmpfs on {}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            lock,
            made,
        })
    }
}

/// Makes a directory, if it is not there, and locks it together with others who do.
fn lock(path: &Path) -> io::Result<Flock<File>> {
    loop {
        fs::create_dir_all(path)?;
        let Ok(file) = File::open(path) else { continue };
        let lock = Flock::lock(file, FlockArg::LockShared).map_err(|(_, error)| error)?;
        // Whoever was the last one may have removed it meanwhile.
        if fs::metadata(path)
            .is_ok_and(|now| lock.metadata().is_ok_and(|own| own.ino() == now.ino()))
        {
            return Ok(lock);
        }
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
        // To remove what somebody else has mounted something on would take that away from him.
        if self.lock.relock(FlockArg::LockExclusiveNonblock).is_ok() {
            let _ = fs::remove_dir(&self.path);
            for above in &self.made {
                let _ = fs::remove_dir(above);
            }
        }
    }
}

/// Whether a path is somewhere in what a program wrote.
pub fn mentions(trace: &Trace, path: &str) -> bool {
    contains(&trace.data, path.as_bytes())
}

/// Whether bytes are somewhere among others.
fn contains(all: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else {
        return true;
    };
    let begins = all.iter().enumerate().filter(|(_, byte)| *byte == first);
    begins
        .into_iter()
        .any(|(place, _)| all[place..].starts_with(part))
}
