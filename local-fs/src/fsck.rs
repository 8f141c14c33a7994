use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde::{Deserialize, Serialize};

use crate::error::Context;
use crate::format::program_failed;
use crate::{Result, Variant};

/// What a file system's own checker said of an unmounted image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FsckReport {
    /// It found nothing to repair.
    pub clean: bool,
    /// What it printed, if it found something.
    pub output: String,
}

/// A checker at work; ended when dropped.
#[derive(Debug)]
pub struct RunningFsck {
    child: Option<Child>,
    command: Command,
    damage_statuses: &'static [i32],
}

/// Starts the file system's own checker on an unmounted image, read-only. The image must stay
/// as it is until it has finished.
///
/// # Errors
/// If the checker is missing or cannot be run.
pub fn start_fsck(variant: &Variant, image: &Path) -> Result<RunningFsck> {
    let row = variant.file_system;
    let mut command = Command::new(row.fsck.find()?);
    command.args(row.fsck.arguments).arg(image).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C is for whoever started us to act on.
    command.process_group(0);
    let child = command.spawn().doing(|| format!("run {}", row.fsck.name))?;
    Ok(RunningFsck { child: Some(child), command, damage_statuses: row.fsck_damage_statuses })
}

impl RunningFsck {
    /// Waits for its end.
    ///
    /// # Errors
    /// If it neither found the image clean nor found damage: it failed.
    pub fn finish(mut self) -> Result<FsckReport> {
        let child = self.child.take().expect("there until finished");
        let output: Output = child.wait_with_output().doing(|| "wait for the checker")?;
        match output.status.code() {
            Some(0) => Ok(FsckReport { clean: true, output: String::new() }),
            Some(status) if self.damage_statuses.contains(&status) => {
                let text = [output.stdout, output.stderr].concat();
                Ok(FsckReport { clean: false, output: String::from_utf8_lossy(&text).into_owned() })
            }
            _ => Err(program_failed(&self.command, &output)),
        }
    }
}

impl Drop for RunningFsck {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
