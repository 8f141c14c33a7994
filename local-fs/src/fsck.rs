use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use machine::{Logged, log_end};
use serde::{Deserialize, Serialize};

use crate::driver;
use crate::error::Context;
use crate::format::program_failed;
use crate::table::{Fsck, Program, Repair};
use crate::{Error, Result, Variant};

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
    begun: Instant,
    command: Command,
    fsck: Fsck,
}

/// Starts the file system's own checker on an unmounted image, read-only. The image must stay
/// as it is until it has finished. None if it has none.
///
/// # Errors
/// If the checker is missing or cannot be run.
pub fn start_fsck(variant: &Variant, image: &Path) -> Result<Option<RunningFsck>> {
    let Some(fsck) = variant.file_system.fsck else {
        return Ok(None);
    };
    let mut command = command(&fsck.program, image)?;
    let child = command
        .spawn_logged()
        .doing(|| format!("run {}", fsck.program.name))?;
    Ok(Some(RunningFsck {
        child: Some(child),
        begun: Instant::now(),
        command,
        fsck,
    }))
}

/// A repair is run again as long as it has something to do, but not more often than this: what
/// one run deletes may leave something to the next.
const REPAIRS_MAX: usize = 4;

/// Repairs an unmounted image, where that has to be done before it is mounted; says otherwise why
/// that did not work.
///
/// # Errors
/// If the program is missing, cannot be run, is killed, or has no room on this machine.
pub fn repair(variant: &Variant, image: &Path) -> Result<std::result::Result<(), String>> {
    let Some(Repair {
        program,
        done_statuses,
    }) = variant.file_system.repair
    else {
        return Ok(Ok(()));
    };
    let mut command = command(&program, image)?;
    for _ in 0..REPAIRS_MAX {
        let output = command
            .output_logged()
            .doing(|| format!("run {}", program.name))?;
        match output.status.code() {
            Some(0) => break,
            Some(status) if done_statuses.contains(&status) => {}
            _ => {
                return match failed(&program, &command, &output) {
                    // That says nothing of what is on the disk.
                    killed @ Error::Killed { .. } => Err(killed),
                    failed => Ok(Err(failed.to_string())),
                };
            }
        }
    }
    Ok(Ok(()))
}

/// Repairs what is on a device, where that has to be done before it is mounted.
///
/// # Errors
/// As [`repair`], and [`Error::Unrepaired`] if it did not work.
pub fn repair_device(variant: &Variant, device: &Path) -> Result<()> {
    repair(variant, device)?.map_err(|said| Error::Unrepaired { said })
}

/// The error for a program that did not do what it was started for.
fn failed(program: &Program, command: &Command, output: &Output) -> Error {
    let is_canceled = |status| program.canceled_bit.is_some_and(|bit| status & bit != 0);
    match program_failed(command, output) {
        Error::Program {
            command, status, ..
        } if output.status.code().is_some_and(is_canceled) => Error::Killed {
            what: format!("{command}: canceled from outside, {status}"),
        },
        failed @ Error::Program { .. } if is_about_us(output) => Error::Killed {
            what: failed.to_string(),
        },
        error => error,
    }
}

/// Whether what a program says is about the machine, which has no room for what it wants, and not
/// about what is on the disk. Its exit status need not tell: xfs_repair has the same one for both.
fn is_about_us(output: &Output) -> bool {
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let no_room = [libc::ENOSPC, libc::EAGAIN].map(driver::system_words);
    let is_said = |words: &String| said.contains(words);
    no_room.iter().any(is_said) || said.contains("malloc") || driver::is_about_us(&said)
}

fn command(program: &Program, image: &Path) -> Result<Command> {
    let mut command = Command::new(program.find()?);
    command
        .args(program.arguments)
        .arg(image)
        .env("LC_ALL", "C");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Ctrl-C is for whoever started us to act on.
    command.process_group(0);
    Ok(command)
}

impl RunningFsck {
    /// Waits for its end.
    ///
    /// # Errors
    /// If it neither found the image clean nor found damage: it failed.
    pub fn finish(mut self) -> Result<FsckReport> {
        let child = self.child.take().expect("there until finished");
        let output: Output = child.wait_with_output().doing(|| "wait for the checker")?;
        log_end(&self.command, output.status, self.begun);
        match output.status.code() {
            Some(0) => Ok(FsckReport {
                clean: true,
                output: String::new(),
            }),
            Some(status)
                if self.fsck.damage_statuses.contains(&status) && !is_about_us(&output) =>
            {
                let text = [output.stdout, output.stderr].concat();
                Ok(FsckReport {
                    clean: false,
                    output: String::from_utf8_lossy(&text).into_owned(),
                })
            }
            _ => Err(failed(&self.fsck.program, &self.command, &output)),
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
