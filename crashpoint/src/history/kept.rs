//! `crashpoint history check RESULTS N`: what the clients of a run of `crashpoint inject` saw, held against
//! `[[histories]]` of its cluster file, as it was then.

use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, bail};
use campaign::{Outcome, own_call, quoted, say};
use history::History;
use injector::online::{HISTORY, RUNS, manifest, seen};

use super::{CheckArgs, tell};
use crate::inject::{history_of, history_path, rules_of};

/// Checks the history of a run, and tells what its campaign did.
pub(super) fn check(arguments: &CheckArgs, number: u64) -> anyhow::Result<Outcome> {
    let directory = &arguments.of.file;
    let name = directory.display();
    let Some(manifest) = manifest(directory)? else {
        bail!(
            "{name} has no results of `crashpoint inject`: the history of a file is checked without \
             a number"
        );
    };
    let rules = rules_of(&manifest).with_context(|| format!("read the cluster file of {name}"))?;
    let path = history_path(directory, number);
    if rules.is_empty() {
        bail!(
            "the cluster file of {name} has no [[histories]], so what clients saw was held against \
             nothing: say what objects are with `{} history check {} --model MODEL`",
            own_call(),
            quoted(&path.to_string_lossy())
        );
    }
    let history = read(directory, number)?;
    let report = seen(&rules, &history, arguments.of.time_limit)
        .with_context(|| format!("check {}", path.display()))?;
    tell(&history, &report, arguments.format)
}

/// The history that a run left.
pub(super) fn read(directory: &Path, number: u64) -> anyhow::Result<History> {
    if !directory.join(RUNS).join(number.to_string()).is_dir() {
        bail!(
            "there is no run {number} in {0}: `crashpoint show {0}` lists its runs",
            directory.display()
        );
    }
    let history = history_of(directory, number)?;
    history.with_context(|| without_history(number))
}

/// A run has nothing to read.
pub(super) fn without_history(number: u64) -> String {
    format!(
        "run {number} has no history: its clients printed none (docs/histories.md says what they would \
         print)"
    )
}

/// Says of the history of a run that there is more to go by, if it is looked at as a file.
pub(super) fn hint(file: &Path) {
    let Some((directory, number)) = run_of(file) else {
        return;
    };
    let Ok(Some(manifest)) = manifest(&directory) else {
        return;
    };
    if rules_of(&manifest).is_ok_and(|rules| !rules.is_empty()) {
        say(&format!(
            "this is of a run whose cluster file has [[histories]]: `{} history check {} {number}` goes by them",
            own_call(),
            quoted(&directory.to_string_lossy())
        ));
    }
}

/// The directory of results that a file is in, as the history of a run, and the run's number.
fn run_of(file: &Path) -> Option<(PathBuf, u64)> {
    let whole = absolute(file).ok()?;
    let run = whole.parent()?;
    let number = run.file_name()?.to_str()?.parse().ok()?;
    let runs = run.parent()?;
    if whole.file_name()? != HISTORY || runs.file_name()? != RUNS {
        return None;
    }
    // As people wrote it, if they did.
    let short = file.ancestors().nth(3);
    let short = short.filter(|short| !short.as_os_str().is_empty());
    Some((short.or(runs.parent())?.to_owned(), number))
}
