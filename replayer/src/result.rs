use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use block_dev::{BlockLog, Kind, Mark};
use checker::Finding;
use pace_rules::disk::{Relaxation, State};
use serde::{Deserialize, Serialize};
use specification::Unlooked;

use crate::specs::KeptFacts;

/// What came of one workload on one file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// The workload's name.
    pub workload: String,
    /// Crash states that were mounted and checked.
    pub states_checked: u32,
    /// Crash states that equal one of this workload that was visited before, and so were not
    /// mounted.
    pub states_equal: u32,
    /// Crash states that were not visited, because the workload's time was up.
    pub states_left: u64,
    /// What came of crashes in recoveries; none if they were not asked for.
    pub again: Option<AgainCounts>,
    /// The crash states that break a promise.
    pub broken: Vec<StateFindings>,
    /// What the disk was asked during the run, up to the last crash of `broken`; none if there is
    /// none.
    pub log: Option<RunLog>,
    /// The kernel died of it, or something in the kernel never came back.
    pub death: Option<Death>,
    /// Why nothing, or not everything, can be said.
    pub inconclusive: Option<String>,
    /// Why it cannot be run as it is written on this file system, which has no such thing. What
    /// was run of it was measured.
    pub not_applicable: Option<String>,
    /// It is worth another try with no other worker at work.
    pub retry_alone: bool,
    /// A hash of all that the recorded disk was asked to do, in hexadecimal, where it was asked
    /// for.
    pub block_log: Option<String>,
    /// The violations of rules that had nothing to look at in any of its states; none if no rule was
    /// asked.
    pub unlooked: Option<Vec<Unlooked>>,
    /// What rules say is violated while it ran, without a crash: they say nothing about crashes.
    pub violated_without_crash: Option<String>,
    /// Which rules have no end, and so are asked nothing more.
    pub endless_rules: Option<String>,
    /// All that rules can be about of the crash state that was searched for, where that was asked
    /// for.
    pub facts: Option<KeptFacts>,
    /// Where the time went.
    pub timing: Timing,
}

/// How the kernel died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// The step of ours that it did not survive.
    pub during: String,
    /// In one line.
    pub what: String,
    /// What the kernel said last.
    pub log: Vec<String>,
}

impl Death {
    /// Two that have the same died of the same in the same kind of step, as far as the words tell
    /// that: numbers, addresses and devices are others each time, and so may be the crash state.
    pub(crate) fn kind(&self) -> String {
        let step = self.during.split('(').next().unwrap_or_default();
        let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
        let words = step.split_whitespace().chain(self.what.split_whitespace());
        words.filter(is_word).collect::<Vec<_>>().join(" ")
    }
}

/// The findings of one crash state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFindings {
    /// How many operations had returned when the power failed.
    pub operations_done: u32,
    /// The next one had been begun.
    pub under_way: bool,
    /// Where in the block log it failed, and what the disk made of what it need not have kept.
    pub state: State,
    /// How many writes it need not have kept.
    pub pending: u32,
    /// What of them it had not.
    pub lost: Vec<LostBytes>,
    /// Where in the log that is, in words, if it is one that was imported.
    pub place: Option<String>,
    /// Where the power failed again, in each recovery since.
    pub again: Vec<Again>,
    /// The promises it breaks.
    pub findings: Vec<Finding>,
    /// How many other states, all of them later in the order of the space, break the same promises
    /// at the same paths, and rules with the same facts but for numbers, and were not kept.
    pub more: u32,
}

/// The power failed again, while the file system recovered from the crash before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    /// Where in the block log of the recovery it failed, and what the disk made of what it need not
    /// have kept.
    pub state: State,
    /// How many writes of the recovery the disk had been sent by then.
    pub written: u32,
    /// How many the whole recovery has.
    pub writes: u32,
    /// How many of them it need not have kept.
    pub pending: u32,
    /// What of them it had not.
    pub lost: Vec<LostBytes>,
    /// The same recovery, when the power did not fail, breaks no promise.
    pub clean: bool,
    /// What the disk was asked during the recovery, also after the crash; in a state that breaks
    /// nothing there is nothing in it.
    pub log: RunLog,
}

/// What came of crashes in recoveries, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgainCounts {
    /// Recoveries that were recorded.
    pub recoveries: u64,
    /// Those of them that wrote nothing: no crash can interrupt them.
    pub silent: u64,
    /// Recoveries that were not recorded, because the workload's time was up.
    pub recoveries_left: u64,
    /// Crash states in recoveries that were mounted and checked.
    pub states_checked: u64,
    /// Those that equal one of the workload that was visited before.
    pub states_equal: u64,
    /// Those that were not visited, because the workload's time was up.
    pub states_left: u64,
    /// Those that break no promise, and recovered to another tree than the recovery that was
    /// interrupted.
    pub differing: u64,
}

impl AgainCounts {
    /// Whether the time was enough for all of them.
    pub(crate) fn is_complete(&self) -> bool {
        self.recoveries_left == 0 && self.states_left == 0
    }

    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.recoveries += other.recoveries;
        self.silent += other.silent;
        self.recoveries_left = self.recoveries_left.saturating_add(other.recoveries_left);
        self.states_checked += other.states_checked;
        self.states_equal += other.states_equal;
        self.states_left = self.states_left.saturating_add(other.states_left);
        self.differing += other.differing;
    }
}

/// A write, or a part of one, that a disk had not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostBytes {
    /// The write's place in the block log.
    pub place: u32,
    /// Where on the disk, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u64,
}

/// What the disk was asked during the run, in the order in which it completed, few enough to keep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLog {
    /// So many came first and were not kept.
    pub left_out: u32,
    /// The others, with the marks of the operations.
    pub entries: Vec<LogEntry>,
    /// What the blocks hold that a write at a place wrote, where the file system's own debugger
    /// could tell.
    pub holds: BTreeMap<u32, String>,
}

/// One thing that the disk was asked, or a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its place in the block log.
    pub place: u32,
    /// `W` a write, `U` one with FUA, `D` a discard, `F` a flush; `B` an operation begins, `E` it
    /// has returned.
    pub kind: char,
    /// Where on the disk, in bytes; 0 for a flush or a mark.
    pub offset: u64,
    /// How much, in bytes; 0 for a flush or a mark.
    pub length: u64,
    /// The operation that was in flight, or begins or has returned.
    pub operation: Option<u32>,
    /// The position in the block log at which it was completed, if not at once; `u32::MAX` for
    /// never.
    pub completed: Option<u32>,
}

/// So many entries of a run's log are kept: those of a small workload are a tenth of it.
const LOG_ENTRIES_MAX: usize = 400;

/// Their places lie closer together than this: between them is only what FUA looks like.
const LOG_PLACES_MAX: usize = 1 << 16;

impl RunLog {
    /// That of a run whose operations began at `start`.
    pub(crate) fn of(log: &BlockLog, start: usize) -> Self {
        let mut under_way = None;
        let mut entries = Vec::new();
        for (place, entry) in log.entries().iter().enumerate().skip(start) {
            let (kind, operation) = match entry.kind {
                Kind::Write { fua: false, .. } => ('W', under_way),
                Kind::Write { fua: true, .. } => ('U', under_way),
                Kind::Discard { .. } => ('D', under_way),
                Kind::Flush => ('F', under_way),
                // It is no flush, but how the kernel asks for FUA.
                Kind::FuaFlush => continue,
                Kind::Mark(Mark::OperationStart(number)) => {
                    under_way = Some(number);
                    ('B', under_way)
                }
                Kind::Mark(Mark::OperationEnd(_)) => ('E', under_way.take()),
            };
            let (offset, length) = entry.range();
            let late = entry.completed != place + 1;
            let completed = late.then(|| u32::try_from(entry.completed).unwrap_or(u32::MAX));
            entries.push(LogEntry {
                place: place as u32,
                kind,
                offset,
                length,
                operation,
                completed,
            });
        }
        Self {
            left_out: 0,
            entries,
            holds: BTreeMap::new(),
        }
    }

    /// That of a recovery.
    pub(crate) fn of_recovery(log: &BlockLog) -> Self {
        Self::of(log, 0).up_to(log.len())
    }

    /// From the place of the first entry to that of the last.
    pub(crate) fn places(&self) -> Range<usize> {
        let place = |entry: &LogEntry| entry.place as usize;
        self.entries.first().map_or(0, place)
            ..self.entries.last().map_or(0, |entry| place(entry) + 1)
    }

    /// Whether it can be one, which that of a damaged file need not be.
    ///
    /// # Errors
    /// Which entry is wrong.
    pub fn check(&self) -> Result<(), String> {
        for (number, entry) in self.entries.iter().enumerate() {
            let LogEntry {
                place, completed, ..
            } = *entry;
            if number > 0 && self.entries[number - 1].place >= place {
                return Err(format!(
                    "entry {number} of its log, at {place}, does not lie after the one before it"
                ));
            }
            if place as usize - self.places().start >= LOG_PLACES_MAX {
                return Err(format!(
                    "entry {number} of its log, at {place}, lies too far after the first"
                ));
            }
            if completed.is_some_and(|completed| completed <= place) {
                return Err(format!(
                    "entry {number} of its log, at {place}, was completed before it arrived"
                ));
            }
        }
        Ok(())
    }

    /// Without what came after `position` of the block log, and with no more than can be kept.
    fn up_to(mut self, position: usize) -> Self {
        self.entries
            .retain(|entry| (entry.place as usize) < position);
        let surplus = self.entries.len().saturating_sub(LOG_ENTRIES_MAX);
        self.entries.drain(..surplus);
        self.holds
            .retain(|place, _| self.entries.iter().any(|entry| entry.place == *place));
        Self {
            left_out: surplus as u32,
            ..self
        }
    }
}

impl StateFindings {
    /// Its name: the crash state, and after each `/again/` the one of the recovery that follows,
    /// such as `prefix@12/again/flushed@3`.
    pub fn address(&self) -> String {
        let again = self.again.iter();
        again.fold(self.state.to_string(), |address, again| {
            format!("{address}/again/{}", again.state)
        })
    }

    /// What became of the writes in each crash, without the positions.
    pub(crate) fn relaxations(&self) -> String {
        let again = self.again.iter();
        again.fold(self.state.relaxation.to_string(), |text, again| {
            format!("{text}/again/{}", again.state.relaxation)
        })
    }

    /// How many writes were lost, or torn, in all crashes.
    pub fn lost_writes(&self) -> usize {
        self.lost.len()
            + self
                .again
                .iter()
                .map(|again| again.lost.len())
                .sum::<usize>()
    }

    /// The order of states: that of the first crash, and then of those in recoveries.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let again = |of: &Self| -> Vec<State> {
            of.again.iter().map(|again| again.state.clone()).collect()
        };
        let same = || again(self).cmp(&again(other));
        self.state.cmp(&other.state).then_with(same)
    }

    /// The name of the state that recovered when the power failed for the `number`-th time, counted
    /// from 1, in a recovery.
    pub(crate) fn address_before(&self, number: usize) -> String {
        let again = self.again[..number - 1].to_vec();
        Self {
            again,
            ..self.clone()
        }
        .address()
    }

    /// Whether it is one of the states that are always visited: at a crash point of the run, all or
    /// nothing of what was written.
    fn is_ordinary(&self) -> bool {
        !self.under_way
            && self.again.is_empty()
            && matches!(
                self.state.relaxation,
                Relaxation::Prefix | Relaxation::Flushed
            )
    }

    /// How many crashes in recoveries it took to break it: the recovery after the last of these
    /// breaks nothing when it is not interrupted.
    fn recoveries_needed(&self) -> usize {
        let last = self.again.iter().rposition(|again| again.clean);
        last.map_or(0, |place| place + 1)
    }

    /// Whether it took a crash in a recovery to break it.
    pub(crate) fn is_by_recovery(&self) -> bool {
        self.recoveries_needed() > 0
    }

    fn breaks_the_same(&self, other: &Self) -> bool {
        let what = |finding: &Finding| finding.rule_facts();
        // What only a second failure breaks is not what the first has broken elsewhere.
        self.recoveries_needed() == other.recoveries_needed()
            && self
                .findings
                .iter()
                .map(Finding::kind)
                .eq(other.findings.iter().map(Finding::kind))
            && self
                .findings
                .iter()
                .map(what)
                .eq(other.findings.iter().map(what))
    }
}

/// Microseconds spent, summed over the states of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Timing {
    /// Mounting, running and unmounting the recorded disk, and recording recoveries.
    pub record_us: u64,
    /// Finding the next crash state, and building and hashing its image.
    #[serde(default)]
    pub enumerate_us: u64,
    /// Making the disk hold the crash state.
    pub load_us: u64,
    /// Mounting with recovery, and unmounting.
    pub mount_us: u64,
    /// Walking the recovered tree; in results of before there was `oracle_us`, comparing it too.
    pub compare_us: u64,
    /// Comparing the tree with what may be there.
    #[serde(default)]
    pub oracle_us: u64,
    /// Writing in the recovered file system and removing everything.
    pub write_us: u64,
    /// The file system's own checker.
    pub fsck_us: u64,
}

impl Timing {
    /// Adds another's times.
    pub fn add(&mut self, other: Self) {
        self.record_us += other.record_us;
        self.enumerate_us += other.enumerate_us;
        self.load_us += other.load_us;
        self.mount_us += other.mount_us;
        self.compare_us += other.compare_us;
        self.oracle_us += other.oracle_us;
        self.write_us += other.write_us;
        self.fsck_us += other.fsck_us;
    }
}

/// What a result amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every crash state keeps every promise.
    Clean,
    /// Some crash state breaks one.
    Finding,
    /// It could not be measured, wholly or in part, and no finding stands.
    #[serde(alias = "not-measured")]
    Inconclusive,
    /// The file system has no place for what the workload does, or no way to do it; no finding
    /// stands.
    NotApplicable,
}

impl WorkloadResult {
    /// Whether everything can be said, and the kernel lived.
    pub(crate) fn is_measured(&self) -> bool {
        self.inconclusive.is_none() && self.death.is_none()
    }

    /// Adds what was found in a crash state, which may have findings already.
    pub(crate) fn add_findings(&mut self, found: StateFindings) {
        let place = self
            .broken
            .partition_point(|other| other.order(&found).is_lt());
        if let Some(known) = self
            .broken
            .get_mut(place)
            .filter(|known| known.order(&found).is_eq())
        {
            known.findings.extend(found.findings);
            return;
        }
        let same = self
            .broken
            .iter_mut()
            .find(|other| !found.is_ordinary() && other.breaks_the_same(&found));
        match same {
            Some(same) => same.more += 1,
            None => self.broken.insert(place, found),
        }
    }

    /// Keeps the log of a recovery with the states that break something after a crash in it.
    pub(crate) fn keep_recovery(&mut self, address: &str, log: &BlockLog) {
        for state in &mut self.broken {
            let number =
                (1..=state.again.len()).find(|number| state.address_before(*number) == address);
            if let Some(number) = number {
                state.again[number - 1].log = RunLog::of_recovery(log);
            }
        }
    }

    /// Keeps of the log what findings need; nothing is added to them any more.
    pub(crate) fn cut_log(&mut self) {
        let last = self.broken.iter().map(|state| state.state.requests()).max();
        self.log = self.log.take().zip(last).map(|(log, last)| log.up_to(last));
    }

    /// A result in which nothing was measured yet.
    pub fn new(workload: String) -> Self {
        let (states_checked, states_equal, states_left, broken, log) = <_>::default();
        let (death, inconclusive, not_applicable) = <_>::default();
        let (retry_alone, block_log, timing) = <_>::default();
        let (unlooked, violated_without_crash, endless_rules, facts) = <_>::default();
        Self {
            workload,
            states_checked,
            states_equal,
            states_left,
            again: None,
            broken,
            log,
            death,
            inconclusive,
            not_applicable,
            retry_alone,
            block_log,
            unlooked,
            violated_without_crash,
            endless_rules,
            facts,
            timing,
        }
    }

    /// A result without any measurement.
    pub fn inconclusive(workload: String, why: String) -> Self {
        Self {
            inconclusive: Some(why),
            ..Self::new(workload)
        }
    }

    /// The result of a second try, with what the first one saw: that stays seen.
    pub(crate) fn after(mut self, first: Self) -> Self {
        let missing = self.missing_of(&first);
        // A kernel that died, and then lived through all of it, may have died of anything.
        if self.inconclusive.is_some() {
            self.death = self.death.or(first.death);
        }
        if missing.is_empty() {
            return self;
        }
        let also = format!("only the first of two tries found: {}", missing.join("; "));
        let inconclusive = match &self.inconclusive {
            Some(why) => format!("{why}; {also}"),
            None => also,
        };
        self.inconclusive = Some(inconclusive);
        if self.broken.is_empty() {
            // The places of its states are places in its log.
            (self.broken, self.log) = (first.broken, first.log);
        }
        self
    }

    /// What another try found and this one did not, each kind once.
    fn missing_of(&self, other: &Self) -> Vec<String> {
        let findings = |of: &Self| -> Vec<Finding> {
            let states = of.broken.iter();
            states.flat_map(|state| state.findings.clone()).collect()
        };
        let mut known = findings(self);
        let mut missing = Vec::new();
        for finding in findings(other) {
            if known.iter().all(|known| known.kind() != finding.kind()) {
                missing.push(
                    format!("{} {}", finding.path, finding.what)
                        .trim()
                        .to_owned(),
                );
                known.push(finding);
            }
        }
        missing
    }

    /// What it amounts to.
    pub fn verdict(&self) -> Verdict {
        match (
            self.broken.is_empty() && self.death.is_none(),
            &self.inconclusive,
            &self.not_applicable,
        ) {
            (false, _, _) => Verdict::Finding,
            (true, _, Some(_)) => Verdict::NotApplicable,
            (true, Some(_), None) => Verdict::Inconclusive,
            (true, None, None) => Verdict::Clean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(log: &RunLog) -> String {
        log.entries.iter().map(|entry| entry.kind).collect()
    }

    #[test]
    fn of_a_log_what_came_before_the_crash_is_kept_and_not_too_much_of_it() {
        let mut log = BlockLog::default();
        log.push_write(0, &[1; 512], 0);
        log.push(Kind::Mark(Mark::OperationStart(3)), 0);
        log.push_write(4096, &[1; 512], 0);
        log.push(Kind::FuaFlush, 0);
        log.push(Kind::Flush, 0);
        log.push(Kind::Mark(Mark::OperationEnd(3)), 0);
        log.push(
            Kind::Discard {
                offset: 8192,
                length: 4096,
            },
            0,
        );
        let kept = RunLog::of(&log, 1);
        assert_eq!(kinds(&kept), "BWFED");
        assert_eq!(
            kept.entries[1],
            LogEntry {
                place: 2,
                kind: 'W',
                offset: 4096,
                length: 512,
                operation: Some(3),
                completed: None
            }
        );
        assert_eq!(
            kept.entries[4],
            LogEntry {
                place: 6,
                kind: 'D',
                offset: 8192,
                length: 4096,
                operation: None,
                completed: None
            }
        );
        assert_eq!(kinds(&kept.clone().up_to(5)), "BWF");
        for _ in 0..LOG_ENTRIES_MAX {
            log.push(Kind::Flush, 0);
        }
        let long = RunLog::of(&log, 1).up_to(log.len());
        assert_eq!((long.left_out, long.entries.len()), (5, LOG_ENTRIES_MAX));
        assert_eq!(long.entries[0].place, 7);
    }
}
