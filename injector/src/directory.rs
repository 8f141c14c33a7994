//! The directory of a sweep's results.

use std::path::Path;

use campaign::{Directory, Lines, Part, Parts, RESULTS, Records, Shard};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::files;
use crate::results::{FORMAT, KIND, LiveManifest, LiveResult, SeedPlan};
use crate::sweep::Summary;
use crate::text::table;

/// What is known of the runs without a failure.
const PLANS: &str = "plans.jsonl";

/// What it has beside what every sweep has.
const KEPT: &[&str] = &[PLANS];

/// Results that grow while a sweep goes on.
pub struct LiveDirectory {
    directory: Directory,
    records: Records,
    plan_lines: Lines,
    /// What the sweep is.
    pub manifest: LiveManifest,
    /// The runs without a failure that were made.
    pub plans: Vec<SeedPlan>,
    /// What was known when it was opened.
    pub known: Vec<LiveResult>,
}

impl LiveDirectory {
    /// Says whether [`LiveDirectory::create`] would refuse a directory because of what is in it.
    ///
    /// # Errors
    /// If it would.
    pub fn refuse(path: &Path) -> Result<()> {
        Ok(Directory::refuse(path, KEPT)?)
    }

    /// Begins one.
    ///
    /// # Errors
    /// If there is something in it, or it cannot be written.
    pub fn create(path: &Path, manifest: LiveManifest) -> Result<Self> {
        Self::opened(files::begin(path, KEPT, &manifest)?, manifest)
    }

    /// Opens one, to go on with it.
    ///
    /// # Errors
    /// If it is no such directory, or damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let manifest = manifest(path)?.ok_or_else(|| Error::NotLive(path.into()))?;
        Self::opened(Directory::open(path, KEPT)?, manifest)
    }

    fn opened(directory: Directory, manifest: LiveManifest) -> Result<Self> {
        let mut plans = Vec::new();
        let plan_lines = Lines::open(&directory.join(PLANS), |_, plan| {
            plans.push(plan);
            Ok::<_, campaign::Error>(())
        })?;
        let (records, known) = files::open_results(&directory)?;
        Ok(Self {
            directory,
            records,
            plan_lines,
            manifest,
            plans,
            known,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Keeps what is known of the run of a seed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append_plan(&mut self, plan: &SeedPlan) -> Result<()> {
        Ok(self.plan_lines.append(&files::line(plan))?)
    }

    /// Keeps a result: it survives a kill from now on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, result: &LiveResult) -> Result<()> {
        Ok(self.records.append(&files::line(result))?)
    }

    /// Writes what the sweep came to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.plan_lines.sync()?;
        self.records.sync()?;
        let line = json!({
            "seeds": summary.seeds,
            "all": summary.all,
            "wanted": summary.wanted,
            "tried": summary.results.len(),
            "broken": summary.broken(),
            "inconclusive": summary.inconclusive(),
            "is_cut_off": summary.is_cut_off,
        });
        files::conclude(&self.directory, &table(summary, &self.manifest), &line)
    }
}

impl Part for LiveDirectory {
    fn directory(&self) -> &Path {
        self.path()
    }

    fn shard(&self) -> campaign::Result<Option<Shard>> {
        Shard::of_manifest(self.manifest.shard.as_deref())
    }

    fn is_finished(&self) -> bool {
        files::is_finished(self.path())
    }

    fn difference(&self, other: &Self) -> Option<String> {
        self.manifest.difference(&other.manifest)
    }
}

/// Puts shards of a sweep together in a new directory. With `incomplete` some may be missing or
/// unfinished. Returns also whether all were there, and finished.
///
/// # Errors
/// If they are not the shards of one sweep, or something cannot be read or written.
pub fn merge(
    parts: &[impl AsRef<Path>],
    out: &Path,
    incomplete: bool,
) -> Result<(LiveDirectory, bool)> {
    let shards = Parts::open(parts, incomplete, LiveDirectory::open)?;
    let manifest = LiveManifest {
        shard: None,
        ..shards.first()?.manifest.clone()
    };
    let mut merged = LiveDirectory::create(out, manifest)?;
    for part in shards.iter() {
        for plan in &part.plans {
            if !merged.plans.contains(plan) {
                merged.append_plan(plan)?;
                merged.plans.push(plan.clone());
            }
        }
        for result in &part.known {
            merged.append(result)?;
            merged.known.push(result.clone());
        }
    }
    Ok((merged, shards.is_whole()))
}

/// The manifest of a directory, if it is one of a live sweep.
///
/// # Errors
/// If it is, and of another version.
pub fn manifest(path: &Path) -> Result<Option<LiveManifest>> {
    files::read_manifest(path, KIND, FORMAT)
}

/// The results in a directory, whether its sweep has ended or not.
///
/// # Errors
/// If they cannot be read.
pub fn results(path: &Path) -> Result<Vec<LiveResult>> {
    let mut results: Vec<LiveResult> = files::read_lines(&path.join(RESULTS))?;
    results.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(results)
}

/// What is known of the runs without a failure.
///
/// # Errors
/// If it cannot be read.
pub fn plans(path: &Path) -> Result<Vec<SeedPlan>> {
    files::read_lines(&path.join(PLANS))
}

/// The summary in a directory, if the sweep in it has ended or was stopped.
pub fn summary(path: &Path) -> Option<Value> {
    files::read_summary(path)
}
