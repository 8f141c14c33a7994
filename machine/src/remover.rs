//! Directories of ours that are removed when we have ended, however that came about.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use tempfile::TempDir;

use crate::NAME_PREFIX;
use crate::error::{Context as _, Error, Result};

/// The argument by which the program is told to be a remover; the directory follows.
pub(crate) const REMOVER_COMMAND: &str = "__remover";

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
    match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).doing(|| format!("remove {}", directory.display()))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
