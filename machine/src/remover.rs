//! A process that removes a directory of ours when we have ended, however that came about.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::Context;

/// The argument by which the program is told to be a remover; the directory follows.
pub(crate) const REMOVER_COMMAND: &str = "__remover";

/// Whatever becomes of this process, the directory is removed. It lasts as long as this does: who
/// drops it removes the directory by itself.
#[derive(Debug)]
pub struct Remover(Child);

impl Remover {
    /// Starts one for a directory.
    ///
    /// # Errors
    /// If there is no process to be had.
    pub fn new(directory: &Path) -> io::Result<Self> {
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
pub(crate) fn remove_later(
    mut arguments: impl Iterator<Item = OsString>,
) -> anyhow::Result<ExitCode> {
    let directory = PathBuf::from(arguments.next().context("no directory is named")?);
    io::stdin()
        .read_to_end(&mut Vec::new())
        .context("wait for the end")?;
    match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", directory.display()))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
