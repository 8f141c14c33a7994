//! What is kept of a sweep.

use std::path::Path;

use pace_rules::disk::States;
use serde::{Deserialize, Serialize};
use specification::Specification;

use crate::laboratory::{Happened, Held, Judged, Laboratory, LiveRun};
use crate::plan::{Address, At, Failure, Fault, Plan, PointRange, Victims};
use crate::surrounded::Surrounded;

/// The version of these files.
pub(crate) const FORMAT: u64 = 2;

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
    /// What is asked for.
    #[serde(flatten)]
    pub asked: Asked,
    /// What each run is held against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specifications: Vec<Specification>,
    /// The nodes' names.
    pub nodes: Vec<String>,
    /// Which part of the failures it tries, as `I/N`.
    pub shard: Option<String>,
    /// The command line, for people.
    pub command: Vec<String>,
}

/// What is asked of a sweep: which failures there are, and which of them are tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The first seed and the last one.
    pub seeds: (u64, u64),
    /// What surrounds the machines.
    #[serde(flatten)]
    pub surrounded: Surrounded,
    /// At what the power fails.
    pub points: Vec<At>,
    /// Whose power fails.
    pub victims: Vec<Victims>,
    /// What disks keep.
    pub states: States,
    /// How often the power fails again, while the cluster recovers.
    pub again: u64,
    /// In how many recoveries, each time.
    pub recoveries: u64,
    /// How many failures are tried at most: of each seed, and of those in recoveries each time.
    pub sample: Option<u64>,
    /// Whether runs are forked, and not each begun anew.
    #[serde(default)]
    pub fork: bool,
}

impl LiveManifest {
    /// That of a new sweep of a cluster file, which is absolute, without its specifications.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn new(
        laboratory: &Laboratory,
        file: &Path,
        asked: Asked,
        shard: Option<String>,
    ) -> std::io::Result<Self> {
        let (config, settings) = (laboratory.file(), laboratory.settings());
        let kernel = &settings.kernel.kernel;
        Ok(Self {
            version: campaign::VERSION.into(),
            format: FORMAT,
            kind: KIND.into(),
            file: file.display().to_string(),
            text: config.text.clone(),
            kernel: kernel.display().to_string(),
            kernel_hash: kernel_hash(kernel)?,
            asked,
            specifications: Vec::new(),
            nodes: config.nodes.iter().map(|node| node.name.clone()).collect(),
            shard,
            command: campaign::command_line(),
        })
    }

    /// In what it is another sweep than another one, if it is; shards of one sweep are the same.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let differences = [
            (self.version != other.version, "versions of Crashpoint"),
            (self.text != other.text, "cluster files"),
            (self.kernel_hash != other.kernel_hash, "kernels"),
            (
                (self.asked.surrounded).has_other_environment(&other.asked.surrounded),
                "environments (PATH, HOME, LANG)",
            ),
            (self.asked != other.asked, "failures"),
            (
                self.specifications != other.specifications,
                "specifications",
            ),
        ];
        let different = differences.into_iter().find(|(is_so, _)| *is_so);
        different.map(|(_, what)| format!("they are of different {what}"))
    }
}

/// The BLAKE3 hash of a kernel, in hexadecimal.
///
/// # Errors
/// If it cannot be read.
pub fn kernel_hash(kernel: &Path) -> std::io::Result<String> {
    let bytes = std::fs::read(kernel)?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}

/// What is known of the run of one seed without a failure: a line of plans.jsonl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeedPlan {
    /// The seed.
    pub seed: u64,
    /// All first faults.
    pub plan: Plan,
    /// Why nothing can be said of a failure of some nodes and not all, if that is so.
    pub not_alone: Option<String>,
    /// Why nothing can be said of a failure of several nodes and not all, if it was looked at and that is
    /// so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_several: Option<String>,
}

/// What came of one failure: a line of results.jsonl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveResult {
    /// Where it is among all.
    #[serde(flatten)]
    pub address: Address,
    /// What happened.
    pub faults: Vec<Happened>,
    /// What was to happen after that, and did not: the run was over before, or did not come to its moment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Fault>,
    /// How many acknowledgements there were in all.
    pub acknowledged: usize,
    /// Where the power can fail again, in the recovery from the last fault.
    pub recovery: Vec<PointRange>,
    /// What came of it.
    #[serde(flatten)]
    pub judged: Judged,
    /// What two equal runs have in common.
    pub history: String,
    /// Whether it was tried again, and came to the same.
    pub repeated: bool,
    /// When the run was forked, in nanoseconds of the simulation's time, if it was: the rest is that of
    /// the fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_ns: Option<u64>,
    /// What specifications come to in it.
    #[serde(flatten)]
    pub held: Held,
}

impl LiveResult {
    pub(crate) fn new(address: Address, run: LiveRun, repeated: bool) -> Self {
        Self {
            address,
            faults: run.happened,
            missed: run.missed,
            acknowledged: run.acknowledged.len(),
            recovery: run.recovery,
            judged: run.judged,
            history: run.history,
            repeated,
            forked_ns: run.forked_ns,
            held: run.held,
        }
    }

    /// The faults that were to happen.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = &Fault> {
        let happened = self.faults.iter().map(|happened| &happened.fault);
        happened.chain(&self.missed)
    }

    /// What has it happen again.
    pub fn failure(&self) -> Failure {
        Failure {
            faults: self.wanted().cloned().collect(),
            forked_ns: self.forked_ns,
        }
    }

    /// What is broken, if something is.
    pub fn broken(&self) -> Option<&[String]> {
        match &self.judged {
            Judged::Broken { broken } => Some(broken),
            _ => None,
        }
    }

    /// How many writes are lost, on all disks and each time.
    pub fn lost(&self) -> usize {
        let disks = self.faults.iter().flat_map(|happened| &happened.disks);
        disks.map(|disk| disk.lost.len()).sum()
    }
}
