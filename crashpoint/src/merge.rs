//! `crashpoint merge`: the shards of a sweep put together.

use std::path::PathBuf;

use anyhow::Context;
use campaign::{Interrupt, Outcome, OutputFormat};
use clap::Args;

use crate::{cluster, inject, states};

/// The arguments of `crashpoint merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The directories of all shards of one sweep, in any order
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,

    /// A new directory for the results of the whole sweep
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,

    /// Shards may be missing or unfinished: --resume continues with the result
    #[arg(long)]
    incomplete: bool,

    /// How to print the summary
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,
}

/// Does it.
pub(crate) fn run(arguments: &MergeArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let first = arguments.parts.first().context("clap wants one")?;
    if node_sweep::Manifest::read(first)?.is_some() {
        let merged = node_sweep::merge(&arguments.parts, &arguments.out, arguments.incomplete)?;
        return states::sum_up(merged, arguments.format, interrupt);
    }
    if injector::manifest(first)?.is_some() {
        return cluster::merge_live(
            &arguments.parts,
            &arguments.out,
            arguments.incomplete,
            arguments.format,
        );
    }
    if injector::online::manifest(first)?.is_some() {
        return inject::merge(
            &arguments.parts,
            &arguments.out,
            arguments.incomplete,
            arguments.format,
            interrupt,
        );
    }
    Ok(replayer::merge(
        &arguments.parts,
        &arguments.out,
        arguments.incomplete,
        arguments.format,
    )?)
}
