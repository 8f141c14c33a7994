//! What a run left, as lanes.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use cluster::ClusterFile;
use history::{History, Rule};
use injector::online::{HISTORY, InjectManifest, InjectResult, Lanes, RUNS, anomalies};

/// How long is looked for the operations that show what is broken: it was found once.
const FOUND_WITHIN: Duration = Duration::from_secs(20);

/// Where the history of a run is.
pub(crate) fn history_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(RUNS).join(number.to_string()).join(HISTORY)
}

/// The history that a run left, if it is there.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn history_of(directory: &Path, number: u64) -> anyhow::Result<Option<History>> {
    let path = history_path(directory, number);
    if !path.exists() {
        return Ok(None);
    }
    let file = File::open(&path).with_context(|| format!("read {}", path.display()))?;
    let history = history::read(BufReader::new(file));
    Ok(Some(
        history.with_context(|| format!("read {}", path.display()))?,
    ))
}

/// What the cluster file of a campaign says of objects, as it was then.
///
/// # Errors
/// If it is none.
pub(crate) fn rules_of(manifest: &InjectManifest) -> anyhow::Result<Vec<Rule>> {
    let file = Path::new(&manifest.file);
    let folder = file.parent().unwrap_or(Path::new("/"));
    Ok(ClusterFile::parse(&manifest.text, file, folder)?.histories)
}

/// A run as lanes. What clients printed that is no history leaves their lanes out, which is said.
pub(crate) fn lanes_of(
    directory: &Path,
    manifest: &InjectManifest,
    result: &InjectResult,
) -> (Lanes, Option<String>) {
    let (history, why) = match history_of(directory, result.index + 1) {
        Ok(history) => (history, None),
        Err(error) => (None, Some(format!("no client is shown: {error:#}"))),
    };
    let broken = history.as_ref().filter(|_| result.ran.broken().is_some());
    let rules = rules_of(manifest).unwrap_or_default();
    let found = broken.map_or_else(Vec::new, |history| anomalies(&rules, history, FOUND_WITHIN));
    let lanes = Lanes::of(manifest, result, history.as_ref(), &found);
    (lanes, why)
}
