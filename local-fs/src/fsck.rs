use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Context;
use crate::{Result, Variant};

/// What a file system's own checker said of an unmounted image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsckReport {
    /// It found nothing to repair.
    pub clean: bool,
    /// What it printed, if it found something.
    pub output: String,
}

/// Runs the file system's own checker on an unmounted image, read-only.
///
/// # Errors
/// If the checker is missing or cannot be run.
pub fn fsck(variant: &Variant, image: &Path) -> Result<FsckReport> {
    let row = variant.file_system;
    let mut command = Command::new(row.fsck.find()?);
    command.args(row.fsck.arguments).arg(image).env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().doing(|| format!("run {}", row.fsck.name))?;
    let clean = output.status.success();
    let text = if clean { Vec::new() } else { [output.stdout, output.stderr].concat() };
    Ok(FsckReport { clean, output: String::from_utf8_lossy(&text).into_owned() })
}
