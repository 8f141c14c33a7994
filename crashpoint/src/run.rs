//! `crashpoint run`: a workload on a file system that is mounted already.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use block_dev::OperationMark;
use campaign::Outcome;
use clap::Args;
use machine::Logged;
use replayer::WorkloadFiles;

/// The arguments of `crashpoint run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    workload: WorkloadFiles,

    /// The directory that is the root for the workload: where the file system is mounted
    #[arg(long, value_name = "DIR")]
    on: PathBuf,

    /// A device of dm-log-writes, as dmsetup names it, that gets a mark before and after each
    /// operation
    #[arg(long, value_name = "NAME")]
    mark: Option<String>,
}

/// Does it.
pub(crate) fn run(arguments: &RunArgs) -> anyhow::Result<Outcome> {
    let [workload] = &arguments.workload.read_all()?[..] else {
        bail!(
            "one workload is run at a time, and {} has several",
            arguments.workload.names()
        );
    };
    let root =
        File::open(&arguments.on).with_context(|| format!("open {}", arguments.on.display()))?;
    let mut refused = 0;
    let mut mark = |mark: OperationMark| {
        if let OperationMark::Refused(number, errno) = mark {
            refused += 1;
            let reason = io::Error::from_raw_os_error(errno);
            let op = workload
                .operations()
                .nth(number as usize)
                .map(ToString::to_string)
                .unwrap_or_default();
            campaign::say(&format!("operation {number}, {op}, was refused: {reason}"));
        }
        arguments
            .mark
            .as_ref()
            .map_or(Ok(()), |name| set_mark(name, mark))
    };
    recorder::perform(&root.into(), workload, &mut mark)
        .with_context(|| format!("run {}", workload.name))?;
    Ok(if refused == 0 {
        Outcome::Clean
    } else {
        Outcome::Incomplete
    })
}

fn set_mark(device: &str, mark: OperationMark) -> io::Result<()> {
    let message = ["message", device, "0", "mark", &mark.text()];
    let output = Command::new("dmsetup").args(message).output_logged();
    let failed = |why: String| io::Error::other(format!("dmsetup {}: {why}", message.join(" ")));
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ))
    }
}
