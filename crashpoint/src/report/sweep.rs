//! A directory of results, and its findings in words.

use std::path::{Path, PathBuf};

use checker::{Contract, Finding};
use replayer::{Findings, Found, FoundWhat, Overview, quoted, state_words};
use workloads::Op;

use crate::fs::{self, FsArgs};

/// What a sweep came to.
pub(super) struct Sweep {
    pub(super) directory: PathBuf,
    pub(super) findings: Findings,
    pub(super) overview: Overview,
    /// The arguments that it was begun with.
    arguments: FsArgs,
}

impl Sweep {
    /// Reads it.
    pub(super) fn read(directory: &Path, fs: &clap::Command) -> anyhow::Result<Self> {
        let findings = Findings::read(directory)?;
        let overview = Overview::read(directory)?;
        let arguments = fs::recorded_arguments(fs, &findings.manifest)?;
        Ok(Self { directory: directory.into(), findings, overview, arguments })
    }

    /// The command that tests a finding's workload again, as a shell takes it anywhere.
    pub(super) fn replay(&self, found: &Found) -> String {
        let flags = self.arguments.replay_flags(&found.variant);
        // Who mounts must be root, but for a guest.
        let sudo = if flags.contains("--kernel ") { "" } else { "sudo " };
        format!("printf '%s\\n' {} | {sudo}crashpoint fs {flags} -", quoted(&found.workload.to_line()))
    }

    /// A finding as a story: what was run, what the disk did, what is broken, and how to see it again.
    pub(super) fn story(&self, found: &Found) -> String {
        let operations: Vec<&Op> = found.workload.operations().collect();
        let (mut text, crash) = (String::new(), Crash::of(found));
        for (number, op) in operations.iter().enumerate() {
            let part = if number < found.workload.setup.len() { "setup" } else { "run" };
            text += &format!("{part:<9} {number:>3}  {op}{}\n", crash.mark(number));
        }
        match &found.what {
            FoundWhat::State(state) => {
                text += &format!("disk      {}\n", state_words(state));
                if state.more > 0 {
                    text += &format!("likewise  {} more states of this workload break the same\n", state.more);
                }
                for finding in &state.findings {
                    text += &self.finding(found, finding, &operations);
                }
            }
            FoundWhat::Death(death) => {
                text += &format!("during    {}\n", death.during);
                text += &format!("broken    the kernel died, or never came back: {}\n", death.what);
            }
        }
        text + &format!("replay    {}\n", self.replay(found))
    }

    fn finding(&self, found: &Found, finding: &Finding, operations: &[&Op]) -> String {
        let place = if finding.path.is_empty() { String::new() } else { format!("{}: ", finding.path) };
        let mut text = format!("broken    {place}{}\n", finding.what);
        text += &format!("promised  {} ({})\n", finding.promise.words(), finding.promise.name());
        if let Some(op) = finding.promised_by.and_then(|number| operations.get(number).map(|op| (number, op))) {
            text += &format!("          by operation {}, {}\n", op.0, op.1);
        }
        if let Some(source) = source(found, finding) {
            text += &format!("source    {source}\n");
        }
        text
    }
}

/// Where the file system promises it.
pub(super) fn source(found: &Found, finding: &Finding) -> Option<&'static str> {
    let contract = Contract::for_variant(&found.variant).ok()?;
    contract.line(finding.promise).map(|line| line.source)
}

/// Where among the operations the power failed.
#[derive(Clone, Copy)]
pub(super) struct Crash {
    /// How many had returned.
    pub(super) operations_done: usize,
    /// The next had been begun.
    pub(super) under_way: bool,
}

impl Crash {
    /// That of a finding; a kernel that died did so at no known place.
    pub(super) fn of(found: &Found) -> Self {
        match &found.what {
            FoundWhat::State(state) => {
                Self { operations_done: state.operations_done as usize, under_way: state.under_way }
            }
            FoundWhat::Death(_) => Self { operations_done: 0, under_way: false },
        }
    }

    fn mark(self, number: usize) -> &'static str {
        match self.under_way {
            true if number == self.operations_done => "      <- the power fails while this is done",
            false if number + 1 == self.operations_done => "      <- the power fails here",
            _ => "",
        }
    }
}

/// A finding in one line.
pub(super) fn headline(found: &Found) -> String {
    match &found.what {
        FoundWhat::Death(death) => format!("the kernel died: {}", death.what),
        FoundWhat::State(state) => state.findings.first().map_or_else(String::new, |finding| {
            if finding.path.is_empty() { finding.what.clone() } else { format!("{}: {}", finding.path, finding.what) }
        }),
    }
}

/// What a finding breaks, by name.
pub(super) fn promises(found: &Found) -> Vec<String> {
    let mut names: Vec<_> = found.findings().iter().map(|finding| finding.promise.name()).collect();
    if let FoundWhat::Death(_) = found.what {
        names.push(KERNEL_DIED.into());
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Stands for the promise where the kernel died.
pub(super) const KERNEL_DIED: &str = "kernel-died";
