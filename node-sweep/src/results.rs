//! The directory of a sweep's results: the manifest first, the trace beside it, the findings, and last
//! and whole the summary. One without a summary was stopped before its end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use replayer::write_whole;
use serde::{Deserialize, Serialize};
use trace::Trace;

use crate::findings::Finding;

/// The version of the directory.
const FORMAT: u32 = 1;

const MANIFEST: &str = "manifest.json";
const TRACE: &str = "trace";
const RESULTS: &str = "results.jsonl";
const SUMMARY: &str = "summary.jsonl";
const TABLE: &str = "summary.txt";

/// What a sweep of the crash states of nodes is. docs/json.md has its fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    #[serde(rename = "type")]
    kind: Kind,
    format: u32,
    version: String,
    /// What was swept: the command of the program, or the name of the cluster.
    pub name: String,
    /// The model of the nodes' file systems.
    pub model: String,
    /// Which nodes are relaxed.
    pub explore: String,
    /// How many operations may be lost.
    pub lost: usize,
    /// How many states were drawn, if not all are visited, and from which seed.
    pub sample: Option<(u64, u64)>,
    /// How states are judged.
    pub check: String,
    /// How it was started.
    pub command_line: Vec<String>,
    /// The kernel's release.
    pub kernel_release: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    #[serde(rename = "states-manifest")]
    States,
}

/// What a sweep came to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The model.
    pub model: String,
    /// States that were visited.
    pub states: u64,
    /// How many of them equal one that was looked at before.
    pub equal: u64,
    /// How many of them no file system would show.
    pub impossible: u64,
    /// Different states that were looked at.
    pub checked: u64,
    /// Those of them that are broken.
    pub broken: u64,
    /// Findings: broken states that are alike are one.
    pub findings: usize,
    /// States that nothing can be said of.
    pub not_measured: u64,
    /// Why, each with how many.
    pub reasons: BTreeMap<String, u64>,
    /// Calls of the recorded run that are not in the states, each with how often.
    pub not_recorded: BTreeMap<String, u64>,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// How long it took, in seconds, without the recording.
    pub seconds: f64,
    /// What each level came to, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Summary>,
}

impl Summary {
    /// What sweeps at several levels of the same run came to.
    ///
    /// # Panics
    /// If there is none.
    pub fn of_levels(mut levels: Vec<Self>) -> Self {
        if levels.len() == 1 {
            return levels.remove(0);
        }
        let mut all = Self { not_recorded: levels[0].not_recorded.clone(), ..Self::default() };
        all.model = levels.iter().map(|level| level.model.as_str()).collect::<Vec<_>>().join("; ");
        for level in &levels {
            all.states += level.states;
            all.equal += level.equal;
            all.impossible += level.impossible;
            all.checked += level.checked;
            all.broken += level.broken;
            all.findings += level.findings;
            all.not_measured += level.not_measured;
            for (why, states) in &level.reasons {
                *all.reasons.entry(why.clone()).or_default() += states;
            }
            all.interrupted |= level.interrupted;
            all.seconds += level.seconds;
        }
        all.levels = levels;
        all
    }
}

/// A line of results or summary.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type")]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Line {
    #[serde(rename = "states-finding")]
    Finding(Finding),
    #[serde(rename = "states-summary")]
    Summary(Summary),
}

impl Manifest {
    /// Of a sweep that is about to begin, with nothing in it yet but who makes it.
    pub fn new(name: String, check: String) -> Self {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            kind: Kind::States,
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name,
            model: String::new(),
            explore: String::new(),
            lost: 0,
            sample: None,
            check,
            command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
            kernel_release: kernel.trim().to_owned(),
        }
    }
}

impl Finding {
    /// As one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(&Line::Finding(self.clone())).expect("it holds nothing that JSON cannot")
    }
}

impl Summary {
    /// As one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(&Line::Summary(self.clone())).expect("it holds nothing that JSON cannot")
    }
}

/// A directory that is written.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
}

impl Results {
    /// Refuses a directory that there is and that something is in.
    ///
    /// # Errors
    /// If it is, or cannot be read.
    pub fn refuse(directory: &Path) -> anyhow::Result<()> {
        if directory.exists()
            && directory.read_dir().with_context(|| format!("read {}", directory.display()))?.next().is_some()
        {
            bail!("{} is not empty: choose another directory for --out", directory.display());
        }
        Ok(())
    }

    /// Begins one.
    ///
    /// # Errors
    /// If there is something in it already, or it cannot be written.
    pub fn create(directory: &Path, manifest: &Manifest, trace: &Trace) -> anyhow::Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        Self::refuse(directory)?;
        let text = serde_json::to_string_pretty(manifest).expect("it holds nothing that JSON cannot");
        write_whole(&directory.join(MANIFEST), &(text + "\n"))?;
        trace.save(&directory.join(TRACE))?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// Writes what came of it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&self, findings: &[Finding], summary: &Summary, table: &str) -> anyhow::Result<()> {
        let lines: String = findings.iter().map(|finding| finding.json() + "\n").collect();
        write_whole(&self.directory.join(RESULTS), &lines)?;
        write_whole(&self.directory.join(TABLE), table)?;
        write_whole(&self.directory.join(SUMMARY), &(summary.json() + "\n"))
    }
}

/// What is in a directory of results.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What was swept.
    pub manifest: Manifest,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What it came to, if it came to an end.
    pub summary: Option<Summary>,
}

impl Recorded {
    /// Reads one; none if it is one of another kind of sweep.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn read(directory: &Path) -> anyhow::Result<Option<Self>> {
        let path = directory.join(MANIFEST);
        let Ok(text) = fs::read_to_string(&path) else { return Ok(None) };
        if !text.contains("\"states-manifest\"") {
            return Ok(None);
        }
        let manifest: Manifest = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a manifest of this version", path.display()))?;
        let mut this = Self { manifest, findings: Vec::new(), summary: None };
        for name in [RESULTS, SUMMARY] {
            let path = directory.join(name);
            let text = match fs::read_to_string(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                read => read.with_context(|| format!("read {}", path.display()))?,
            };
            for (number, line) in text.lines().enumerate() {
                let place = || format!("{}:{} is damaged", path.display(), number + 1);
                match serde_json::from_str(line).with_context(place)? {
                    Line::Finding(finding) => this.findings.push(finding),
                    Line::Summary(summary) => this.summary = Some(summary),
                }
            }
        }
        Ok(Some(this))
    }
}
