use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use machine::{Logged, words_of};

use crate::error::Context;
use crate::{Error, Result, Variant};

/// Makes an empty file system in a new sparse file at `path` and opens it.
///
/// # Errors
/// If mkfs is missing or fails, or the size is too small.
pub fn format(variant: &Variant, path: &Path) -> Result<File> {
    let row = variant.file_system;
    let given_mib = variant.size_bytes >> 20;
    if given_mib < row.size_min_mib {
        return Err(Error::TooSmall {
            name: row.name,
            given_mib,
            needed_mib: row.size_min_mib,
        });
    }
    // A missing program leaves no file.
    row.mkfs.find()?;
    let file = File::create_new(path).doing(|| format!("create {}", path.display()))?;
    file.set_len(variant.size_bytes)
        .doing(|| format!("size {}", path.display()))?;
    format_device(variant, path)?;
    File::open(path).doing(|| format!("open {}", path.display()))
}

/// Makes an empty file system on a device, or in a file, that is there.
///
/// # Errors
/// If mkfs is missing or fails.
pub fn format_device(variant: &Variant, path: &Path) -> Result<()> {
    let row = variant.file_system;
    let mut command = Command::new(row.mkfs.find()?);
    command
        .args(row.mkfs.arguments)
        .args(&variant.mkfs_options)
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    // Ctrl-C is for whoever started us to act on.
    command.process_group(0);
    let output = command
        .output_logged()
        .doing(|| format!("run {}", row.mkfs.name))?;
    if !output.status.success() {
        return Err(program_failed(&command, &output));
    }
    Ok(())
}

/// Signals that a program gets for what it does itself.
const OWN_FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// The error for a program that ended with a failure.
pub(crate) fn program_failed(command: &Command, output: &Output) -> Error {
    if output
        .status
        .signal()
        .is_some_and(|signal| !OWN_FAULTS.contains(&signal))
    {
        return Error::Killed {
            what: format!(
                "{}: killed from outside, {}",
                words_of(command),
                output.status
            ),
        };
    }
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    Error::Program {
        command: words_of(command),
        status: output.status.to_string(),
        output: lines[lines.len().saturating_sub(3)..].join("; "),
    }
}
