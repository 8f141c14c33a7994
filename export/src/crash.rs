use std::collections::BTreeSet;
use std::error::Error;

use checker::facts::{Fact, FactKind, certain};
use checker::{CONTRACTS, Contract, Finding, Model, Promise};
use local_fs::Variant;
use pace_rules::disk::Relaxation;
use workloads::{Op, RenameFlag, Workload};

/// A crash, and what was found in it.
#[derive(Debug, Clone, Copy)]
pub struct Crash<'a> {
    /// The file system.
    pub variant: &'a Variant,
    /// What was run.
    pub workload: &'a Workload,
    /// How many operations had returned when the power failed.
    pub operations_done: usize,
    /// The next one had been begun.
    pub under_way: bool,
    /// What the disk had kept.
    pub relaxation: &'a Relaxation,
    /// The promises that were broken. Without any, everything that is certain is checked.
    pub findings: &'a [Finding],
    /// The release of the kernel that broke them.
    pub kernel: &'a str,
}

/// Why something cannot be said in some form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct NotExpressible {
    /// What, such as an operation.
    pub what: String,
    /// Why not, or what to do instead.
    pub why: String,
}

impl NotExpressible {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            why: why.into(),
        }
    }
}

impl Crash<'_> {
    /// The operations of the setup, and those of the run that were begun.
    pub(crate) fn operations(&self) -> (Vec<&Op>, Vec<&Op>) {
        let begun = self.operations_done + usize::from(self.under_way);
        let mut setup: Vec<&Op> = self.workload.operations().take(begun).collect();
        let run = setup.split_off(self.workload.setup.len().min(begun));
        (setup, run)
    }

    /// Whether the disk had kept all that was written when the last operation had returned.
    pub(crate) fn is_prefix(&self) -> bool {
        !self.under_way && *self.relaxation == Relaxation::Prefix
    }

    pub(crate) fn has_broken(&self, promises: &[Promise]) -> bool {
        self.findings
            .iter()
            .any(|finding| promises.contains(&finding.promise))
    }

    /// What is certain of what was found to be broken; if that is nothing, all that is certain.
    pub(crate) fn facts(&self) -> Result<Vec<Fact>, NotExpressible> {
        let contract = Contract::for_variant(self.variant).map_err(|why| self.failed(&why))?;
        let all = certain(&self.model(&contract)?);
        let broken = |fact: &&Fact| {
            self.findings
                .iter()
                .any(|finding| finding.path == fact.path)
        };
        let some: Vec<Fact> = all.iter().filter(broken).cloned().collect();
        let is_covered = |finding: &Finding| is_covered(finding, &some);
        if !self.findings.is_empty() && !self.findings.iter().any(is_covered) {
            let what = &self.findings[0].what;
            let why = "a crash may leave several things there, and a test without a model cannot tell which are legal";
            return Err(NotExpressible::new(what, why));
        }
        Ok(if some.is_empty() { all } else { some })
    }

    fn failed(&self, why: &dyn Error) -> NotExpressible {
        NotExpressible::new(self.workload.name.clone(), why.to_string())
    }

    /// The numbers of the renames that do nothing: both paths are names of one file.
    pub(crate) fn idle_renames(&self) -> Result<BTreeSet<usize>, NotExpressible> {
        let contract = Contract::for_variant(self.variant).map_err(|why| self.failed(&why))?;
        let mut model = Model::new(&contract);
        let mut idle = BTreeSet::new();
        let begun = self.operations_done + usize::from(self.under_way);
        for (number, op) in self.workload.operations().enumerate().take(begun) {
            if let Op::Rename { source, dest, flag } = op
                && *flag == RenameFlag::Replace
                && model.are_one_file(source, dest)
            {
                idle.insert(number);
            }
            model.apply(op, false).map_err(|why| self.failed(&why))?;
        }
        Ok(idle)
    }

    /// What was done when the crash came.
    fn model(&self, contract: &Contract) -> Result<Model, NotExpressible> {
        let mut model = Model::new(contract);
        let mut operations = self.workload.operations().enumerate();
        let setup = self.workload.setup.len();
        for (number, op) in operations.by_ref().take(self.operations_done) {
            if number == setup && setup > 0 {
                model.commit(None);
            }
            model.apply(op, false).map_err(|why| self.failed(&why))?;
        }
        if setup > 0 && self.operations_done == setup {
            model.commit(None);
        }
        if self.under_way
            && let Some((_, op)) = operations.next()
        {
            model.begin(op, false).map_err(|why| self.failed(&why))?;
        }
        Ok(model)
    }

    /// Whether every file system with a log makes the promises that were broken.
    pub(crate) fn is_general(&self) -> bool {
        let usual = CONTRACTS
            .iter()
            .filter(|contract| ["ext4", "xfs", "btrfs"].contains(&contract.name));
        let all_promise = |finding: &Finding| {
            usual
                .clone()
                .all(|contract| contract.promises(finding.promise))
        };
        let plain = self.variant.mount_options.is_empty() && self.variant.mkfs_options.is_empty();
        plain && self.findings.iter().all(all_promise)
    }
}

/// Whether tests check what a finding is about.
fn is_covered(finding: &Finding, facts: &[Fact]) -> bool {
    let there = |kind: FactKind| {
        facts
            .iter()
            .any(|fact| fact.path == finding.path && fact.kind == kind)
    };
    match finding.promise {
        // Whatever was done.
        Promise::Mountable
        | Promise::Readable
        | Promise::Usable
        | Promise::FsckClean
        | Promise::KernelQuiet
        | Promise::NoForeignNames => true,
        Promise::FsyncData
        | Promise::FdatasyncData
        | Promise::RangeData
        | Promise::NoForeignData
        | Promise::ReusedSpace
        | Promise::Preallocation
        | Promise::BlocksExact
        | Promise::HoleLayout => there(FactKind::SameContent),
        Promise::FsyncAttributes => there(FactKind::SameAttributes),
        Promise::FsyncXattrs => there(FactKind::SameXattrs),
        Promise::SymlinkComplete => there(FactKind::SameTarget),
        Promise::RenameAtomic => facts
            .iter()
            .any(|fact| matches!(fact.kind, FactKind::OrAt(_))),
        Promise::OrderedMetadata | Promise::DirectoryLinkCount | Promise::Rule => false,
        _ => facts.iter().any(|fact| fact.path == finding.path),
    }
}

#[cfg(test)]
mod tests {
    use local_fs::find;

    use super::*;
    use crate::{fstests, script};

    #[test]
    fn two_names_of_one_file_are_not_renamed() {
        let text = "setup; creat foo; link foo bar; creat baz; run; rename foo bar; rename foo baz; fsync baz";
        let workload = workloads::parse(text, "test").expect("one").remove(0);
        let crash = Crash {
            variant: &Variant::plain(find("ext4").expect("known")),
            workload: &workload,
            operations_done: 6,
            under_way: false,
            relaxation: &Relaxation::Prefix,
            findings: &[],
            kernel: "6.18",
        };
        let texts = [
            script(&crash).expect("expressible"),
            fstests(&crash, "999").expect("expressible").test,
        ];
        for text in texts {
            let renames = text.lines().filter(|line| line.starts_with("mv "));
            let ends: Vec<_> = renames.map(|line| line.contains("/baz")).collect();
            assert_eq!(ends, [true], "{text}");
            assert!(text.contains("# rename(2) leaves"), "{text}");
        }
    }
}
