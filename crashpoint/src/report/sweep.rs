//! A directory of results, and its findings in words.

use std::path::{Path, PathBuf};

use anyhow::Context;
use campaign::quoted;
use checker::{Contract, Finding};
use replayer::{
    DiskKind, Evidence, FileSystemArgs, Findings, Found, FoundWhat, Overview, Story, death_text,
    replay_text,
};

use crate::fs;

/// What a sweep came to.
pub(super) struct Sweep {
    pub(super) directory: PathBuf,
    pub(super) findings: Findings,
    pub(super) overview: Overview,
    /// The arguments that it was begun with.
    arguments: FileSystemArgs,
}

impl Sweep {
    /// Reads it.
    pub(super) fn read(directory: &Path, fs: &clap::Command) -> anyhow::Result<Self> {
        let findings = Findings::read(directory)?;
        let overview = Overview::read(directory)?;
        let arguments = fs::recorded_arguments(fs, &findings.manifest)
            .with_context(|| format!("read the manifest in {}", directory.display()))?
            .into_file_system();
        Ok(Self {
            directory: directory.into(),
            findings,
            overview,
            arguments,
        })
    }

    /// The command that tests a finding's workload again, wherever that is.
    pub(super) fn replay(&self, found: &Found) -> String {
        format!(
            "printf '%s\\n' {} | {}",
            quoted(&found.workload.to_line()),
            self.command(found)
        )
    }

    fn command(&self, found: &Found) -> String {
        let flags = self.arguments.replay_flags(&found.variant);
        // Who mounts must be root, but for a guest.
        let sudo = if flags.contains("--kernel ") {
            ""
        } else {
            "sudo "
        };
        format!("{sudo}crashpoint fs {flags} -")
    }

    /// A finding as `crashpoint show` tells it, with a command that does not depend on who asks.
    pub(super) fn story(&self, found: &Found) -> String {
        let text = match &found.what {
            FoundWhat::State(state) => {
                let (variant, workload) = (&found.variant, &found.workload);
                let story = Story {
                    variant,
                    contract: self.contract(found),
                    workload,
                    state,
                };
                match self.evidence(found) {
                    Some(evidence) => story.in_full(&evidence),
                    None => story.text(),
                }
            }
            FoundWhat::Death(death) => death_text(&found.workload, death, &death.log),
        };
        text + &replay_text(&found.workload, &self.command(found))
    }

    /// What the log says of a finding.
    pub(super) fn evidence<'a>(&self, found: &'a Found) -> Option<Evidence<'a>> {
        let disk: DiskKind = self.findings.manifest.disk.parse().ok()?;
        found
            .log
            .as_ref()
            .map(|log| Evidence::new(log, disk.honesty))
    }

    /// Whose promises counted.
    fn contract(&self, found: &Found) -> Option<Contract> {
        Contract::for_variant(self.arguments.contract.as_ref().unwrap_or(&found.variant)).ok()
    }

    /// Where the file system promises it.
    pub(super) fn source(&self, found: &Found, finding: &Finding) -> Option<&'static str> {
        self.contract(found)?
            .line(finding.promise)
            .map(|line| line.source)
    }
}

/// A finding in one line.
pub(super) fn headline(found: &Found) -> String {
    match &found.what {
        FoundWhat::Death(death) => format!("the kernel died: {}", death.what),
        FoundWhat::State(state) => state.findings.first().map_or_else(String::new, |finding| {
            if finding.path.is_empty() {
                finding.what.clone()
            } else {
                format!("{}: {}", finding.path, finding.what)
            }
        }),
    }
}

/// What a finding breaks, by name.
pub(super) fn promises(found: &Found) -> Vec<String> {
    let mut names: Vec<_> = found
        .findings()
        .iter()
        .map(|finding| finding.promise.name())
        .collect();
    if let FoundWhat::Death(_) = found.what {
        names.push(KERNEL_DIED.into());
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Stands for the promise where the kernel died.
pub(super) const KERNEL_DIED: &str = "kernel-died";
