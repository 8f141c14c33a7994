//! `crashpoint merge`: the shards of a sweep put together.

use std::path::PathBuf;

use campaign::{Outcome, OutputFormat};
use clap::Args;

/// The arguments of `crashpoint merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The directories of all shards of one sweep, in any order
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,

    /// A new directory for the results of the whole sweep
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Shards may be missing or unfinished: the result can be gone on with by fs --resume
    #[arg(long)]
    incomplete: bool,

    /// How to print the summary
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// Does it.
pub(crate) fn run(arguments: &MergeArgs) -> anyhow::Result<Outcome> {
    replayer::merge(&arguments.parts, &arguments.out, arguments.incomplete, arguments.format)
}
