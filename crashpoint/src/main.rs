//! `crashpoint`: the command line. Parse, call, print.

#![forbid(unsafe_code)]

mod app;
mod bench;
mod blocks;
mod clean;
mod cluster;
mod doctor;
mod finding;
mod fs;
mod groups;
mod history;
mod import;
mod inject;
mod logging;
mod machine;
mod manual;
mod merge;
mod options;
mod processes;
mod recover;
mod report;
mod rules;
mod run;
mod source;
mod specs;
mod states;
mod terminal;

use std::process::ExitCode;

use campaign::{Interrupt, Outcome};

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use replayer::Options;

/// Cuts the power of file systems, programs and clusters at many points of a run, and says which
/// promises did not hold afterwards.
///
/// Exit status: 0 nothing found, 1 findings, 2 could not run, 3 incomplete or inconclusive.
#[derive(Debug, Parser)]
#[command(name = "crashpoint", version, max_term_width = 100)]
struct Cli {
    /// Log on standard error what is done: programs that are run, mounts, guests, nodes. Twice:
    /// more of it, three times: every state. Without it, RUST_LOG says what is logged
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Test file systems with workloads, generated or from files
    ///
    /// Runs each workload, cuts the power at every persistence point, lets the file system
    /// recover, and says which promises it broke. Of generated workloads (--ops, --preset) those
    /// that a file system could not tell from an earlier one are left out. With --out the sweep can
    /// be stopped and killed at any moment, and continued by --resume.
    Fs(Box<fs::FsArgs>),
    /// Test a program: cut the power at many points of a run of it
    ///
    /// Records what the program does to the files in its directory of data, makes the states that a
    /// crash could have left there, within --lost, --split and --sector, and has a command look at
    /// each. Each line that the program prints is a promise: after a crash it must still hold.
    /// Findings that are alike are shown once, with what was lost, what would have prevented it, and
    /// which file systems save the program.
    App(Box<app::AppArgs>),
    /// Put the shards of a sweep together
    ///
    /// Makes the directory that one sweep of everything would have made of those of its parts
    /// (--shard I/N --out DIR), and exits as that sweep would have.
    Merge(merge::MergeArgs),
    /// Write a finding as a test for others: a case of fstests, a shell script, or J-lang
    ///
    /// The test needs nothing of Crashpoint. It checks what must be so in every state that a crash
    /// may leave there.
    Export(finding::ExportArgs),
    /// Check a log that the kernel's dm-log-writes made
    ///
    /// Cuts the power after every write, flush and mark of the log, or where --states says, and
    /// checks what needs no knowledge of what was done: whether it can be mounted, read and
    /// written, and what the kernel and the file system's own checker say. With the workload that
    /// was run, and marks around its operations as `crashpoint run --mark` sets them, it checks
    /// everything that `fs` does.
    Import(Box<import::ImportArgs>),
    /// Run a workload on a file system that is mounted, with marks for dm-log-writes
    Run(run::RunArgs),
    /// List the findings of a sweep, tell the story of one, or show a trace
    ///
    /// Findings are numbered from 1, by file system, workload and crash state. Of those that break
    /// the same promises of the same file system the smallest is listed, with how many are alike.
    /// Of the trace of a program or a cluster every event is a line.
    Show(finding::ShowArgs),
    /// Make a finding smaller: fewer operations, fewer lost writes, the same broken promise
    ///
    /// Of a program or a cluster less is lost of what was recorded, on fewer nodes, in an earlier
    /// crash, as long as the check finds the same, twice. States are checked for that which the
    /// sweep did not visit. With --shorter it is recorded again, with fewer operations of the
    /// client. Exit status: 1 if the finding came again, 3 if not, or if it was interrupted.
    Minimize(finding::MinimizeArgs),
    /// Make the crash state of a finding again, and show it
    ///
    /// Of a program it is a directory, of a cluster the nodes are started on it; their check is
    /// asked again. Of a file system the workload is run again, and the state that breaks the same
    /// promise at the same path is mounted, the one most like that of the finding first. Enter or
    /// Ctrl-C takes it away. What was found in a guest is mounted in a guest: there is a shell, or
    /// without a terminal a list of the files.
    Replay(finding::ReplayArgs),
    /// Write the results of sweeps as a page to read, or for CI
    ///
    /// The page (--html) needs no network. It has a table, filters and every finding, with a timeline
    /// except for findings of `cluster sweep --live`. JUnit (--junit) has a suite for each file system
    /// that `fs` swept, and one for each other sweep and each campaign of `inject`. What was
    /// inconclusive is an error there. Exit status: 0 if that was written, whatever was found, 2 if not.
    Report(report::ReportArgs),
    /// Run a command in a User-Mode Linux guest
    ///
    /// The guest sees the host's files, read-only, and has a network of its own. The exit status is
    /// that of the command.
    Machine(Box<machine::MachineArgs>),
    /// Run, record and test a real system of several nodes
    ///
    /// A cluster file says what the system is: docs/clusters.md. Each node has a network, processes
    /// and mounts of its own, which end with this program.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Inject faults into a cluster that runs, as a plan says, and judge by what clients saw
    ///
    /// Runs the cluster of a cluster file and its clients, puts the faults of the plan in place when
    /// their triggers fire, heals everything, and has the check look. With --strategy it makes plans
    /// itself: `exhaustive` tries each kind of failure at each failure point that --points lists, at
    /// up to three occurrences of the point unless --all-occurrences is given. Exit status: 0 nothing
    /// was broken, 1 something was, 2 it could not run, 3 the check did not decide, a fault of the
    /// plan did not happen, or it was interrupted.
    Inject(Box<inject::InjectArgs>),
    /// Check what clients saw, or write it in another form
    ///
    /// A history is the calls of clients and their answers, in order: docs/histories.md.
    /// `crashpoint history RESULTS N --export FORM` writes that of a run of `crashpoint inject`.
    History(history::HistoryArgs),
    /// Ask a finished run, or a finding, in Datalog: what must hold, and why it did not
    ///
    /// The run is one of `crashpoint inject`, the finding one of `fs`, `app` or `cluster sweep`, also with --live.
    /// `crashpoint rules results 4 'lost(K) :- acked(K), !served(K).'` prints the facts that follow.
    /// With `violation` before a rule, its facts are violations, and each is told with what it rests
    /// on. docs/specifications.md has the rules and the facts. Exit status: 0 no violation, 1 one, 2
    /// the rules are wrong or there is no such run, 3 a violation is not certain or never had a fact to
    /// look at, the finding did not come again, or it was interrupted.
    Rules(rules::RulesArgs),
    /// Say what this machine lacks, and whether the tester itself may be believed
    Doctor(doctor::DoctorArgs),
    /// Remove what a killed run left behind
    Clean(clean::CleanArgs),
    /// Measure how fast this machine can be swept, and where the time goes
    Bench(bench::BenchArgs),
    /// Print a completion script for a shell
    Completions(manual::CompletionsArgs),
    /// Write the manual pages
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    logging::inherit();
    let hidden = replayer::run_hidden().or_else(::cluster::run_hidden);
    let hidden = hidden
        .or_else(cluster::run_hidden)
        .or_else(injector::online::run_hidden);
    if let Some(status) = hidden.or_else(bench::run_hidden) {
        return status;
    }
    match parse() {
        // As it was, not as anyhow holds it: a reader that is gone is told by what it is.
        Ok(parsed) => campaign::exit(
            run(parsed).map_err(anyhow::Error::reallocate_into_boxed_dyn_error_without_backtrace),
        ),
        Err(error) => campaign::exit_usage(&error),
    }
}

/// What the command line says.
struct Parsed {
    command: Command,
    /// How many `-v` were given.
    verbose: u8,
    /// `fs` as it was parsed.
    fs: clap::Command,
    /// The flags of `fs` that were given.
    given: Options,
}

/// The command line, as it is parsed, completed and described.
fn command() -> clap::Command {
    groups::grouped(
        Cli::command()
            .mut_subcommand("fs", fs::adapt)
            .mut_subcommand("import", import::adapt),
    )
}

fn parse() -> Result<Parsed, clap::Error> {
    let mut command = command();
    // Defaults and values are known once it is built.
    command.build();
    let fs = command
        .find_subcommand("fs")
        .expect("it is one of ours")
        .clone();
    let matches = command.try_get_matches()?;
    let given = matches
        .subcommand_matches("fs")
        .map(|matches| options::given(&fs, matches))
        .unwrap_or_default();
    let Cli { verbose, command } = Cli::from_arg_matches(&matches)?;
    Ok(Parsed {
        command,
        verbose,
        fs,
        given,
    })
}

fn run(parsed: Parsed) -> anyhow::Result<Outcome> {
    logging::start(parsed.verbose)?;
    let interrupt = Interrupt::watch()?;
    match parsed.command {
        Command::Fs(arguments) => {
            let arguments = arguments.settle().with_specifications()?;
            fs::run(&arguments, &parsed.fs, &parsed.given, &interrupt)
        }
        Command::App(arguments) => app::run(&arguments.settle(), &interrupt),
        Command::Merge(arguments) => merge::run(&arguments, &interrupt),
        Command::Export(arguments) => finding::export(&arguments, &parsed.fs, &interrupt),
        Command::Import(arguments) => import::run(*arguments, &interrupt),
        Command::Run(arguments) => run::run(&arguments),
        Command::Show(arguments) => finding::show(arguments, &parsed.fs),
        Command::Minimize(arguments) => finding::minimize(&arguments, &parsed.fs, &interrupt),
        Command::Replay(arguments) => finding::replay(&arguments, &parsed.fs, &interrupt),
        Command::Report(arguments) => report::run(&arguments, &parsed.fs),
        Command::Machine(arguments) => machine::run(*arguments, &interrupt),
        Command::Cluster(command) => cluster::run(command, &interrupt),
        Command::Inject(arguments) => inject::run(&arguments, &interrupt),
        Command::History(arguments) => history::run(&arguments),
        Command::Rules(arguments) => rules::run(&arguments, &parsed.fs, &interrupt),
        Command::Doctor(arguments) => doctor::run(&arguments, &interrupt),
        Command::Clean(arguments) => clean::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments, &interrupt),
        Command::Completions(arguments) => manual::completions(&arguments),
        Command::Man(arguments) => manual::man(&arguments),
    }
}
