//! What is kept of a sweep.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::laboratory::{Judged, Laboratory, LiveRun};
use crate::plan::{Failure, Plan};

/// The version of these files.
pub(crate) const FORMAT: u64 = 1;

/// What they say of their kind.
pub(crate) const KIND: &str = "live";

/// What a sweep is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveManifest {
    /// The version of Crashpoint.
    pub version: String,
    /// That of these files.
    pub format: u64,
    /// Which kind of sweep it is: `live`.
    pub kind: String,
    /// The cluster file, absolute.
    pub file: String,
    /// The cluster file's text.
    pub text: String,
    /// The kernel of the machines, absolute: another one has another history.
    pub kernel: String,
    /// The BLAKE3 hash of that kernel, in hexadecimal.
    pub kernel_hash: String,
    /// The seed.
    pub seed: u64,
    /// `off`, `low` or `high`.
    pub chaos: String,
    /// All failures.
    pub plan: Plan,
    /// The nodes' names.
    pub nodes: Vec<String>,
    /// Which part of the failures it tries, as `I/N`.
    pub shard: Option<String>,
    /// How many failures it tries at most.
    pub sample: Option<u64>,
    /// The command line, for people.
    pub command: Vec<String>,
}

impl LiveManifest {
    /// That of a new sweep.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn new(laboratory: &Laboratory, plan: Plan, how: How) -> std::io::Result<Self> {
        let (file, settings) = (laboratory.file(), laboratory.settings());
        let kernel = &settings.kernel.kernel;
        Ok(Self {
            version: campaign::VERSION.into(),
            format: FORMAT,
            kind: KIND.into(),
            file: how.file,
            text: file.text.clone(),
            kernel: kernel.display().to_string(),
            kernel_hash: kernel_hash(kernel)?,
            seed: settings.seed,
            chaos: how.chaos,
            plan,
            nodes: file.nodes.iter().map(|node| node.name.clone()).collect(),
            shard: how.shard,
            sample: how.sample,
            command: campaign::command_line(),
        })
    }
}

/// How a sweep was asked for.
#[derive(Debug, Clone, Default)]
pub struct How {
    /// The cluster file, absolute.
    pub file: String,
    /// `off`, `low` or `high`.
    pub chaos: String,
    /// `I/N`.
    pub shard: Option<String>,
    /// How many failures at most.
    pub sample: Option<u64>,
}

/// The BLAKE3 hash of a kernel, in hexadecimal.
///
/// # Errors
/// If it cannot be read.
pub fn kernel_hash(kernel: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(kernel)?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// What came of one failure: a line of results.jsonl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveResult {
    /// Its index.
    pub index: u64,
    /// What failed.
    #[serde(flatten)]
    pub failure: Failure,
    /// When, in seconds of the simulation's time.
    pub time_s: f64,
    /// How many acknowledgements there were by then, and in all.
    pub acknowledged_before: usize,
    /// In all.
    pub acknowledged: usize,
    /// The last one before the failure.
    pub last: Option<String>,
    /// How many writes the disk of each victim lost: node, number.
    pub lost: Vec<(usize, usize)>,
    /// What came of it.
    #[serde(flatten)]
    pub judged: Judged,
    /// What two equal runs have in common.
    pub history: String,
    /// Whether it was tried again, and came to the same.
    pub repeated: bool,
}

impl LiveResult {
    pub(crate) fn new(index: u64, failure: Failure, run: &LiveRun, repeated: bool) -> Self {
        let last = run.acknowledged_before.checked_sub(1);
        Self {
            index,
            failure,
            time_s: run.failed_ns as f64 / 1e9,
            acknowledged_before: run.acknowledged_before,
            acknowledged: run.acknowledged.len(),
            last: last.and_then(|last| run.acknowledged.get(last).cloned()),
            lost: run.lost.clone(),
            judged: run.judged.clone(),
            history: run.history.clone(),
            repeated,
        }
    }

    /// What is broken, if something is.
    pub fn broken(&self) -> Option<&[String]> {
        match &self.judged {
            Judged::Broken { broken } => Some(broken),
            _ => None,
        }
    }
}
