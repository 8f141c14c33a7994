//! `crashpoint`: the command line. Parse, call, print.

#![forbid(unsafe_code)]

mod bench;
mod clean;
mod doctor;
mod fs;
mod source;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use replayer::{Interrupt, Outcome};

/// Cuts the power of a file system at every point where it has promised something, and says
/// what was not there afterwards.
///
/// Exit status: 0 nothing found, 1 findings, 2 could not run, 3 not everything was measured.
#[derive(Debug, Parser)]
#[command(name = "crashpoint", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Test file systems with workloads, generated or from files
    ///
    /// Runs each workload, cuts the power at every persistence point, lets the file system
    /// recover, and says which promises it broke. Of generated workloads (--ops, --preset) those
    /// that a file system could not tell from an earlier one are left out.
    Fs(Box<fs::FsArgs>),
    /// Say what this machine lacks, and whether the tester itself may be believed
    Doctor(doctor::DoctorArgs),
    /// Remove what a killed run left behind
    Clean(clean::CleanArgs),
    /// Measure how fast this machine can be swept, and where the time goes
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    if let Some(status) = replayer::run_hidden() {
        return status;
    }
    match parse() {
        Ok(cli) => replayer::exit(run(cli.command)),
        Err(error) => replayer::exit_usage(&error),
    }
}

fn parse() -> Result<Cli, clap::Error> {
    // Only the unique ones is what `fs` does anyway; the flag stays valid.
    let command = Cli::command().mut_subcommand("fs", |fs| fs.mut_arg("unique", |flag| flag.hide(true)));
    Cli::from_arg_matches(&command.try_get_matches()?)
}

fn run(command: Command) -> anyhow::Result<Outcome> {
    let interrupt = Interrupt::watch()?;
    match command {
        Command::Fs(arguments) => fs::run(&arguments, &interrupt),
        Command::Doctor(arguments) => doctor::run(&arguments, &interrupt),
        Command::Clean(arguments) => clean::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments, &interrupt),
    }
}
