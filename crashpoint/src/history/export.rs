//! `crashpoint history DIR N --export FORM`: what the clients of a run of `crashpoint inject` saw.

use std::path::PathBuf;

use anyhow::{Context, bail};
use campaign::Outcome;
use clap::Args;
use history::Settings;
use injector::online::manifest;

use super::kept::{read, without_history};
use super::{Form, TIME_LIMIT, put, written};
use crate::inject::{history_path, rules_of};

/// Which run, and in which form.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The results of `crashpoint inject`, which --out named
    #[arg(value_name = "RESULTS")]
    directory: PathBuf,

    /// The number of the run
    #[arg(value_name = "N")]
    number: u64,

    /// Write its history in this form
    #[arg(long, value_enum, value_name = "FORM")]
    export: Form,

    /// Where to write it. Without it, standard output
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Writes the history of a run, with the models that the cluster file names.
pub(super) fn export(arguments: &ExportArgs) -> anyhow::Result<Outcome> {
    let (directory, number) = (&arguments.directory, arguments.number);
    let Some(manifest) = manifest(directory)? else {
        bail!(
            "{} has no results of `crashpoint inject`: the history of a file is written with \
             `crashpoint history convert FILE --to FORM`",
            directory.display()
        );
    };
    let history = read(directory, number)?;
    if history.operations().is_empty() {
        bail!(without_history(number));
    }
    let rules = rules_of(&manifest)
        .with_context(|| format!("read the cluster file of {}", directory.display()))?;
    let settings = Settings {
        rules,
        time_limit: Some(TIME_LIMIT),
        describe: true,
        ..Settings::default()
    };
    let bytes = written(&history, arguments.export, || {
        let path = history_path(directory, number);
        history::check(&history, &settings).with_context(|| format!("check {}", path.display()))
    })?;
    put(&bytes, arguments.out.as_deref())?;
    Ok(Outcome::Clean)
}
