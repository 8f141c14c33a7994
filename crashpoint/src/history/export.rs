//! `crashpoint history DIR N --export FORM`: what the clients of a run of `crashpoint inject` saw.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use campaign::Outcome;
use clap::Args;
use cluster::ClusterFile;
use history::{History, Rule, Settings};
use injector::online::{HISTORY, InjectManifest, RUNS, manifest};

use super::{Form, TIME_LIMIT, put, refused_in, written};

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
    let (path, history) = read(directory, number)?;
    let settings = Settings {
        rules: rules(&manifest, directory)?,
        time_limit: Some(TIME_LIMIT),
        describe: true,
        ..Settings::default()
    };
    let bytes = written(&history, arguments.export, || {
        history::check(&history, &settings).map_err(|refused| refused_in(refused, &history, &path))
    })?;
    put(&bytes, arguments.out.as_deref())?;
    Ok(Outcome::Clean)
}

/// The history that a run left, and where it is.
fn read(directory: &Path, number: u64) -> anyhow::Result<(PathBuf, History)> {
    let run = directory.join(RUNS).join(number.to_string());
    let path = run.join(HISTORY);
    if !run.is_dir() {
        bail!(
            "there is no run {number} in {0}: `crashpoint show {0}` lists its runs",
            directory.display()
        );
    }
    let file = File::open(&path).with_context(|| format!("read {}", path.display()))?;
    let history = history::read(BufReader::new(file));
    let history = history.with_context(|| format!("read {}", path.display()))?;
    if history.operations().is_empty() {
        bail!(
            "run {number} has no history: its clients printed none (docs/histories.md says what \
             they would print)"
        );
    }
    Ok((path, history))
}

/// What the cluster file of the campaign says of objects.
fn rules(manifest: &InjectManifest, directory: &Path) -> anyhow::Result<Vec<Rule>> {
    let file = Path::new(&manifest.file);
    let folder = file.parent().unwrap_or(Path::new("/"));
    let file = ClusterFile::parse(&manifest.text, file, folder);
    let file = file.with_context(|| format!("read the cluster file of {}", directory.display()))?;
    Ok(file.histories)
}
