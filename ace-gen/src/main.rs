//! `ace-gen`: prints the workloads within bounds.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use ace_gen::{BoundsError, Format, Generator, GeneratorArgs, OutputError, SelectionArgs};
use clap::Parser;
use clap::error::ErrorKind;

/// Generates every workload within bounds, after ACE
#[derive(Debug, Parser)]
#[command(name = "ace-gen", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    bounds: GeneratorArgs,

    #[command(flatten)]
    selection: SelectionArgs,

    /// Print only how many workloads there are
    #[arg(long)]
    count: bool,

    /// text (one workload a line), jlang or json (one object a line)
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// Could not run: usage.
const COULD_NOT_RUN: u8 = 2;

/// Why no workloads are printed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to use the bounds: {0}")]
    Bounds(#[from] BoundsError),
    #[error("there is no workload {index}; the last is {last}")]
    NoWorkload { index: u64, last: u64 },
    #[error(transparent)]
    Output(#[from] OutputError),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn run(cli: &Cli) -> Result<(), Error> {
    let generator = cli.bounds.generator()?;
    if let Some(index) = cli
        .selection
        .index
        .filter(|index| *index >= generator.len())
    {
        let last = generator.len() - 1;
        return Err(Error::NoWorkload { index, last });
    }
    if let Some(count) = cli.selection.sample {
        eprintln!("sampling {count} with --seed {}", cli.selection.seed);
    }
    match print(cli, &generator) {
        Err(error) if error.is_closed_pipe() => Ok(()),
        result => Ok(result?),
    }
}

fn print(cli: &Cli, generator: &Generator) -> Result<(), OutputError> {
    let selection = cli.selection.selection();
    let mut out = std::io::stdout().lock();
    let removed = if cli.count {
        let (count, removed) = selection.count(generator);
        writeln!(out, "{count}")?;
        removed
    } else {
        let mut indices = selection.indices(generator);
        ace_gen::write(generator, &mut indices, cli.format, &mut out)?;
        indices.removed()
    };
    if let Some(removed) = removed {
        eprintln!("{removed}");
    }
    Ok(())
}

/// Prints help, or what was wrong with the arguments in one line.
fn usage(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // The reader may be gone.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    fail(
        text.lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: "),
    )
}

fn fail(message: &str) -> ExitCode {
    eprintln!("ace-gen: {message}");
    ExitCode::from(COULD_NOT_RUN)
}
