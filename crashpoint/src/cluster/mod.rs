//! `crashpoint cluster`: real systems of several nodes.

mod run;
mod scene;

use clap::Subcommand;
use replayer::{Interrupt, Outcome};

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Start a cluster, look, stop it: nothing is left
    ///
    /// Runs it until Ctrl-C; with --client or --check it runs these and stops. What it has is in
    /// memory, and gone in the end, unless --data names a directory. Exit status: 0 all went well,
    /// 1 the check found something, 2 it could not run, 3 the check could not decide.
    Run(run::RunArgs),
}

/// Does it.
pub(crate) fn run(command: ClusterCommand, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    match command {
        ClusterCommand::Run(arguments) => run::run(&arguments, interrupt),
    }
}
