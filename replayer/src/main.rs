//! `replay`: workloads in, findings out.

use std::process::ExitCode;

use campaign::{Cause, Interrupt, OutputFormat};
use clap::Parser;
use replayer::{FileSystemArgs, SweepCommand, WorkloadFiles};

/// Runs workloads on a file system, crashes it at every persistence point, and says what it
/// broke. Exit status: 0 nothing found, 1 findings, 2 could not run, 3 inconclusive.
#[derive(Debug, Parser)]
#[command(name = "replay", version)]
struct Arguments {
    #[command(flatten)]
    file_system: FileSystemArgs,

    #[command(flatten)]
    files: WorkloadFiles,

    /// What virtual time and random numbers start from.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,

    /// How to print results.
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

fn main() -> ExitCode {
    if let Some(status) = replayer::run_hidden() {
        return status;
    }
    match Arguments::try_parse() {
        Ok(mut arguments) => {
            arguments.file_system.kernel.seed = arguments.seed;
            campaign::exit(run(&arguments))
        }
        Err(error) => campaign::exit_usage(&error),
    }
}

fn run(arguments: &Arguments) -> Result<campaign::Outcome, Cause> {
    let interrupt = Interrupt::watch()?;
    let command = SweepCommand::new(
        &arguments.file_system,
        arguments.file_system.machine()?,
        arguments.format,
    );
    if let Some(stream) = arguments.files.stream() {
        let numbered = (0..)
            .zip(stream)
            .map(|(number, workload)| workload.map(|workload| (number, workload)));
        return Ok(command.run_stream(Box::new(numbered), &interrupt)?);
    }
    let workloads = arguments.files.read_all()?;
    let source = || -> replayer::NumberedWorkloads<'_> {
        Box::new((0..).zip(workloads.iter().cloned()).map(Ok))
    };
    Ok(command.run(&source, workloads.len() as u64, None, &interrupt)?)
}
