//! `crashpoint cluster`: real systems of several nodes.

mod bench;
mod guest;
mod live;
mod live_bench;
mod record;
mod recover;
mod run;
mod simulate;
mod states;
mod surroundings;
mod workspace;

pub(crate) use bench::{Bench, bench};
use campaign::{Interrupt, Outcome};
use clap::Subcommand;
pub(crate) use guest::TraceGuest;
pub(crate) use live::{
    laboratory_of, listed, merge as merge_live, replay_row, summed_up as live_table,
};
pub(crate) use live_bench::{LiveBench, bench as bench_live};
pub(crate) use record::{FRAMES, record_again, run_hidden};
pub(crate) use run::show;
pub(crate) use simulate::{MachinesArgs, settings};
pub(crate) use states::Ground;
pub(crate) use surroundings::Surroundings;
pub(crate) use workspace::Workspace;

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start a cluster, look, stop it: nothing is left
    ///
    /// Runs it until Ctrl-C; with --client or --check it runs these and stops. What it has is in
    /// memory, and gone in the end, unless --data names a directory. Exit status: 0 all went well,
    /// 1 the check found something, 2 it could not run, 3 the check could not decide.
    Run(run::RunArgs),
    /// Record what the nodes do and say while the client runs
    ///
    /// Starts the cluster with every node recorded, runs the client once, and kills everything. With
    /// --simulate the nodes are simulated machines: the same seed gives the same trace, to the byte.
    /// Exit status: 0 everything was recorded, 2 it could not run, 3 something was done that the
    /// trace does not have, or it was interrupted.
    Record(record::RecordArgs),
    /// Count the states that a sweep would try, before anything runs
    States(states::StatesArgs),
    /// Start the cluster on the states that a crash of all nodes could leave, and ask its check
    ///
    /// The trace is what `crashpoint cluster record` made. Its states are those within --lost, --split
    /// and --sector. Each is made as directories, one for each node; the cluster is started on them,
    /// its check is asked whether what was acknowledged is there, and everything is killed. Findings
    /// that are alike are shown once.
    /// Who is not root needs a kernel of scripts/build-uml.sh: the sweep runs in a guest then.
    ///
    /// With --live, of a cluster file: the power fails while the cluster runs on simulated machines,
    /// which go on, and the check is asked at the end.
    Sweep(Box<states::SweepArgs>),
}

/// Does it.
pub(crate) fn run(command: ClusterCommand, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    match command {
        ClusterCommand::Run(arguments) => run::run(&arguments, interrupt),
        ClusterCommand::Record(arguments) => record::record(&arguments, interrupt),
        ClusterCommand::States(arguments) => states::states(&arguments),
        ClusterCommand::Sweep(arguments) => states::sweep(&arguments, interrupt),
    }
}
