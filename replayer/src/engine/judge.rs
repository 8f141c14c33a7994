//! What a crash state that has recovered breaks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use block_dev::{BlockLog, ImageHash, Unordered};
use brief::counted;
use checker::{Finding, Model, Promise, Undecided, oracle};
use crash_images::rebuild_swapped;
use local_fs::{FsckReport, Tree};
use pace_rules::disk::Log;

use super::{Engine, Result, Tell, Unfinished};
use crate::import::Places;
use crate::moment::Progress;
use crate::result::{StateFindings, Timing, WorkloadResult};
use crate::specs::{Done, WriteOrigins};
use crate::test_bed::{Recovery, Seen, Ticket};

/// So many pairs of writes whose order is open are tried in every order. With more of them, what is
/// found is not counted.
const OPEN_MAX: usize = 4;

/// What was found on one crash state that does not depend on the crash point it stands for.
pub(super) struct Visited {
    pub(super) tree: Option<Tree>,
    pub(super) findings: Vec<Finding>,
    /// What the file system's own checker will have said of it.
    pub(super) check: Option<Ticket>,
}

impl Visited {
    /// A crash state of which this is all that can be said.
    fn nothing(finding: Finding) -> Self {
        Self {
            tree: None,
            findings: vec![finding],
            check: None,
        }
    }
}

/// Which crash state of a workload.
pub(super) struct StateId<'a> {
    pub(super) progress: Progress,
    /// What the file system showed at that moment, where it was looked at.
    pub(super) live: Option<&'a Tree>,
    /// Without findings.
    pub(super) state: StateFindings,
    /// The pairs of its writes whose order is not known.
    pub(super) open: Vec<Unordered>,
    /// What it is made of, if it was imported.
    pub(super) source: Option<(&'a Log, &'a BlockLog, &'a Places)>,
    /// What was done, and how far the run had come at each position of its log.
    pub(super) of_rules: (&'a Done, WriteOrigins<'a>),
    /// The same content was judged at the same moment: only what rules say of the disk may differ.
    pub(super) is_known: bool,
}

impl Engine {
    /// Has a crash state that is in the image recover, unless that was done, and compares it with
    /// what may be there, or without a model with itself.
    pub(super) fn judge(
        &mut self,
        model: Option<&Model>,
        hash: ImageHash,
        id: StateId<'_>,
        visited: &mut HashMap<ImageHash, Visited>,
        unfinished: &mut Unfinished,
        tell: Tell<'_>,
    ) -> Result<()> {
        let Unfinished { result, checks } = unfinished;
        if let Entry::Vacant(place) = visited.entry(hash) {
            place.insert(self.recover(&id, result, tell)?);
        } else {
            self.watch.lap(&mut result.timing.enumerate_us);
            // A crash in a recovery may stand for several moments: whoever has it counts it once.
            result.states_equal += u32::from(id.state.again.is_empty());
        }
        let seen = &visited[&hash];
        let mut findings = self.findings_of(model, &id, seen, result)?;
        self.watch.lap(&mut result.timing.oracle_us);
        if !findings.is_empty()
            && let Some(why) = self.depends_on_order(model, hash, &id, result)?
        {
            result.inconclusive.get_or_insert(why);
            findings.clear();
        }
        let StateId {
            state, is_known, ..
        } = id;
        if let Some(ticket) = seen.check.filter(|_| !is_known) {
            checks.entry(ticket).or_default().push(state.clone());
        }
        if !findings.is_empty() {
            result.add_findings(StateFindings { findings, ..state });
        }
        Ok(())
    }

    /// What a crash state breaks that has recovered, as far as that is not known.
    fn findings_of(
        &mut self,
        model: Option<&Model>,
        id: &StateId<'_>,
        seen: &Visited,
        result: &mut WorkloadResult,
    ) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        if !id.is_known {
            match self.compare(model, id.live, seen) {
                Ok(found) => findings = found,
                Err(undecided) => {
                    result
                        .inconclusive
                        .get_or_insert_with(|| undecided.to_string());
                }
            }
        }
        findings.extend(self.hold(id, seen, result)?);
        Ok(findings)
    }

    /// Has a crash state that is in the image recover, and counts it.
    fn recover(
        &mut self,
        id: &StateId<'_>,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<Visited> {
        // The position of the crash need not be the same in another run.
        let done = id.progress.operations_done;
        let again = if id.state.again.is_empty() {
            ""
        } else {
            " again"
        };
        tell(&format!(
            "recovering{again} from a crash after {} ({})",
            counted(done, "operation"),
            id.state.relaxations()
        ));
        let timing = &mut result.timing;
        let seen = if id.open.is_empty() {
            self.visit(timing)?
        } else {
            self.visit_and_check(timing)?
        };
        match &mut result.again {
            Some(counts) if !id.state.again.is_empty() => counts.states_checked += 1,
            _ => result.states_checked += 1,
        }
        Ok(seen)
    }

    /// What is wrong with a state that was visited: with a model compared with what may be there,
    /// else with itself.
    ///
    /// # Errors
    /// Why it could not be decided.
    pub(super) fn compare(
        &self,
        model: Option<&Model>,
        live: Option<&Tree>,
        seen: &Visited,
    ) -> Result<Vec<Finding>, Undecided> {
        let compared = match (&seen.tree, model) {
            (None, _) => Ok(Vec::new()),
            (Some(tree), Some(model)) => oracle::check(model, live, tree),
            (Some(tree), None) => oracle::check_itself(&self.contract, tree),
        };
        let mut findings = match compared {
            // What is wrong whatever the tree shows needs no comparison.
            Err(_) if !seen.findings.is_empty() => Vec::new(),
            compared => compared?,
        };
        findings.extend(seen.findings.iter().cloned());
        Ok(findings)
    }

    /// Whether nothing is wrong with a state in another order of the writes whose order is open:
    /// then that is why nobody can be accused of what is in the order of the log.
    fn depends_on_order(
        &mut self,
        model: Option<&Model>,
        hash: ImageHash,
        id: &StateId<'_>,
        result: &mut WorkloadResult,
    ) -> Result<Option<String>> {
        let Some((rules, log, places)) = id.source else {
            return Ok(None);
        };
        let state = &id.state.state;
        let mut differing = Vec::new();
        for pair in &id.open {
            rebuild_swapped(&mut self.image, log, rules, state, &[*pair]);
            // Most have been written over since.
            if self.image.hash() != hash {
                differing.push(*pair);
            }
        }
        if differing.len() > OPEN_MAX {
            return Ok(Some(places.why_open(&differing[0])));
        }
        for subset in 1..1_u32 << differing.len() {
            let chosen = (0..differing.len()).filter(|bit| subset & (1 << bit) != 0);
            let swapped: Vec<_> = chosen.map(|bit| differing[bit]).collect();
            rebuild_swapped(&mut self.image, log, rules, state, &swapped);
            let seen = self.visit_and_check(&mut result.timing)?;
            if self
                .compare(model, id.live, &seen)
                .is_ok_and(|findings| findings.is_empty())
            {
                return Ok(Some(places.why_open(&swapped[0])));
            }
        }
        Ok(None)
    }

    /// The same as [`Self::visit`], and waits for the file system's own checker.
    pub(super) fn visit_and_check(&mut self, timing: &mut Timing) -> Result<Visited> {
        let mut seen = self.visit(timing)?;
        if let Some(ticket) = seen.check.take() {
            let report = self.bed.report(ticket)?;
            self.watch.lap(&mut timing.fsck_us);
            seen.findings.extend(self.dissatisfaction(&report));
        }
        Ok(seen)
    }

    /// Has the image recover, and notes what is wrong with it whatever was done before the crash.
    fn visit(&mut self, timing: &mut Timing) -> Result<Visited> {
        self.watch.lap(&mut timing.enumerate_us);
        let recovery = self.bed.recover(&self.image, &mut self.watch, timing)?;
        let (promise, what) = match recovery {
            Recovery::Mounted(seen) => return Ok(self.visited(*seen)),
            Recovery::RepairFails(why) => (Promise::Repairable, format!("its repair fails: {why}")),
            Recovery::MountFails(why) => (Promise::Mountable, format!("mount fails: {why}")),
            Recovery::DriverDies(how) => (Promise::DriverAlive, how),
        };
        Ok(Visited::nothing(Finding::new(promise, "", what)))
    }

    fn visited(&mut self, seen: Seen) -> Visited {
        let Seen {
            tree,
            unusable,
            stays_mounted,
            driver_says,
            kernel_says,
            check,
        } = seen;
        let of_all = |promise, what| Finding::new(promise, "", what);
        let mut findings = Vec::from_iter(unusable);
        findings.extend(stays_mounted.map(|why| {
            let what = format!("unmounting fails after recovery: {why}");
            of_all(Promise::Usable, what)
        }));
        findings.extend(driver_says.map(|said| {
            let what = format!("the driver says: {said}");
            of_all(Promise::DriverQuiet, what)
        }));
        findings.extend(self.about_us(kernel_says).map(|said| {
            let what = format!("the kernel says: {said}");
            of_all(Promise::KernelQuiet, what)
        }));
        findings.retain(|finding| self.contract.promises(finding.promise));
        Visited {
            tree: Some(tree),
            findings,
            check,
        }
    }

    /// What is wrong by a report of the file system's own checker.
    pub(super) fn dissatisfaction(&self, report: &FsckReport) -> Option<Finding> {
        let name = self
            .variant
            .file_system
            .fsck
            .map_or("fsck", |fsck| fsck.program.name);
        let what = || format!("{name} is not satisfied: {}", summary(&report.output));
        let wrong = !report.clean && self.contract.promises(Promise::FsckClean);
        wrong.then(|| Finding::new(Promise::FsckClean, "", what()))
    }
}

/// The lines of a checker's output that say something, few enough to read.
fn summary(output: &str) -> String {
    const LINES_MAX: usize = 4;
    let boring = |line: &&str| {
        let line = line.trim();
        !line.is_empty()
            && !line.starts_with("Phase")
            && !line.starts_with("Pass")
            && !line.starts_with("        -")
    };
    let lines: Vec<_> = output.lines().filter(boring).map(str::trim).collect();
    lines[..lines.len().min(LINES_MAX)].join("; ")
}
