//! The directory of a sweep's results.

use std::path::Path;

use campaign::{
    Directory, Lines, MANIFEST, Part, Parts, Record, Records, SUMMARY, Shard, TABLE, check_version,
    write_whole,
};
use serde_json::{Value, json};

use crate::error::{Error, Result};
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
        let directory = Directory::create(path, KEPT)?;
        let text = serde_json::to_string_pretty(&manifest).expect("it has only text and numbers");
        write_whole(&directory.join(MANIFEST), &text)?;
        Self::opened(directory, manifest)
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
        let (mut known, mut plans) = (Vec::new(), Vec::new());
        let plan_lines = Lines::open(&directory.join(PLANS), |_, plan| {
            plans.push(plan);
            Ok::<_, campaign::Error>(())
        })?;
        let records = Records::open(&directory, |record: Record<LiveResult, Value>| {
            if let Record::Result(result) = record {
                known.push(result);
            }
            Ok::<_, campaign::Error>(())
        })?;
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
        let line = serde_json::to_string(plan).expect("it has only text and numbers");
        Ok(self.plan_lines.append(&line)?)
    }

    /// Keeps a result: it survives a kill from now on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, result: &LiveResult) -> Result<()> {
        let line = serde_json::to_string(result).expect("it has only text and numbers");
        Ok(self.records.append(&line)?)
    }

    /// Writes what the sweep came to.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.plan_lines.sync()?;
        self.records.sync()?;
        write_whole(&self.directory.join(TABLE), &table(summary, &self.manifest))?;
        let line = json!({
            "seeds": summary.seeds,
            "all": summary.all,
            "wanted": summary.wanted,
            "tried": summary.results.len(),
            "broken": summary.broken(),
            "inconclusive": summary.inconclusive(),
            "is_cut_off": summary.is_cut_off,
        });
        Ok(write_whole(
            &self.directory.join(SUMMARY),
            &format!("{line}\n"),
        )?)
    }

    /// The summary that was written, if the sweep has come to its end.
    fn is_finished(&self) -> bool {
        summary(self.path()).is_some_and(|summary| summary["is_cut_off"] == false)
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
        self.is_finished()
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
    let file = path.join(MANIFEST);
    let Ok(text) = std::fs::read_to_string(&file) else {
        return Ok(None);
    };
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return Ok(None);
    };
    if value["kind"] != KIND {
        return Ok(None);
    }
    check_version(&file, &value, FORMAT)?;
    let manifest = serde_json::from_value(value);
    manifest.map(Some).map_err(|error| Error::System {
        doing: format!("read {}", file.display()),
        error: error.into(),
    })
}

/// The results in a directory, whether its sweep has ended or not.
///
/// # Errors
/// If they cannot be read.
pub fn results(path: &Path) -> Result<Vec<LiveResult>> {
    let mut results: Vec<LiveResult> = Vec::new();
    let file = path.join(campaign::RESULTS);
    campaign::read_lines(&file, |_, line| {
        results.push(line);
        Ok::<_, campaign::Error>(())
    })?;
    results.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(results)
}

/// What is known of the runs without a failure.
///
/// # Errors
/// If it cannot be read.
pub fn plans(path: &Path) -> Result<Vec<SeedPlan>> {
    let mut plans = Vec::new();
    campaign::read_lines(&path.join(PLANS), |_, line| {
        plans.push(line);
        Ok::<_, campaign::Error>(())
    })?;
    Ok(plans)
}

/// The summary in a directory, if the sweep in it has ended or was stopped.
pub fn summary(path: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(path.join(SUMMARY)).ok()?;
    serde_json::from_str(text.lines().next()?).ok()
}
