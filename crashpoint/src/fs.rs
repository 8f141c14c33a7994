//! `crashpoint fs`: sweeps file systems with workloads.

use std::path::PathBuf;

use ace_gen::{GeneratorArgs, SelectionArgs};
use clap::Args;
use replayer::{FileSystemArgs, Interrupt, Outcome, OutputFormat, SweepCommand, WorkloadFiles, WorkloadIterator};

use crate::source::Source;

/// The arguments of `crashpoint fs`.
#[derive(Debug, Args)]
pub(crate) struct FsArgs {
    #[command(flatten)]
    files: WorkloadFiles,

    #[command(flatten)]
    file_system: FileSystemArgs,

    /// A new directory for the results: manifest.json, results.jsonl and summary.txt
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// How to print results
    #[arg(long, value_enum, default_value_t)]
    format: OutputFormat,

    #[command(flatten)]
    selection: SelectionArgs,

    /// Also those that a file system cannot tell from an earlier one
    #[arg(long, conflicts_with = "unique", help_heading = "Selection of generated workloads")]
    all: bool,

    #[command(flatten)]
    bounds: GeneratorArgs,
}

/// Does it.
pub(crate) fn run(arguments: &FsArgs, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let variants = arguments.file_system.variants()?;
    let FsArgs { files, bounds, selection, all, .. } = arguments;
    let source = Source::of(bounds, selection, *all, files, variants.len() == 1)?;
    replayer::prepare(&variants, &arguments.file_system.machine()?)?;
    let words = source.words();
    let command = SweepCommand {
        file_system: &arguments.file_system,
        format: arguments.format,
        out: arguments.out.as_deref(),
        source: &words,
    };
    match source {
        Source::Generated(generated) => {
            if let Some(sample) = arguments.selection.sample {
                replayer::say(&format!("sampling {sample} with --seed {}", arguments.selection.seed));
            }
            if let Some(removed) = generated.removed().filter(|removed| removed.count() > 0) {
                replayer::say(&removed.to_string());
            }
            command.run(&|| generated.iter(), Some(generated.count()), interrupt)
        }
        Source::Read { workloads, .. } => {
            let total = Some(workloads.len() as u64);
            command.run(&|| -> WorkloadIterator<'_> { Box::new(workloads.iter().cloned().map(Ok)) }, total, interrupt)
        }
        Source::Stream(stream) => command.run_stream(stream, interrupt),
    }
}
