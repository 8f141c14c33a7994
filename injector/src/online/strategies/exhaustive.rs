//! Every failure at every failure point, in the order of FTS: one of each ID first.

mod further;
mod numbers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::time::Duration;

use brief::counted;
use cluster::ClusterFile;

use super::super::directory::InjectResult;
use super::super::plan::{Awaited, FaultPlan, PlannedFault, Trigger, What};
use super::super::points::{Collected, Disks, Occurrence, Order, PointFailure, SeenPoint};
use super::super::ran::Ran;
use super::super::strategy::Strategy;
use further::{Next, Tried};
use numbers::Numbers;

/// How long a run without faults goes on where no client ends by itself.
const WATCHED: Duration = Duration::from_secs(5);

/// How long clients go on there after a failure.
const AFTER: Duration = Duration::from_secs(3);

/// How long a failure point is waited for after the clients have ended; where none does, from the
/// beginning on.
const WITHIN: Duration = Duration::from_secs(5);

/// So long after a node has ended by itself it is started again: how it recovers belongs to the
/// failure.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// What came of runs, by their index.
type Results<'a> = BTreeMap<u64, &'a InjectResult>;

/// A failure at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Single {
    /// Which of the points.
    pub(super) point: usize,
    pub(super) failure: PointFailure,
    at: Time,
}

/// Which of the times that a point comes up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Time {
    node: String,
    /// Of a message, to whom.
    to: Option<String>,
    nth: u64,
}

impl From<Occurrence<'_>> for Time {
    fn from(one: Occurrence) -> Self {
        Self {
            node: one.node.to_owned(),
            to: one.to.map(str::to_owned),
            nth: one.nth,
        }
    }
}

/// All single failures, then all pairs, and so on: each further failure is at a call that was made after the
/// last one, in the run that had only those before.
///
/// The single failures have the indices from 0 on. Of `n` of them, runs that begin with number `i` and have more
/// failures are `n + i`, `2n + i` and so on: first its pairs, then in the same way what begins with one of
/// these ([`Numbers`]). So an index means the same whatever else was tried.
pub struct Exhaustive {
    seed: u64,
    is_endless: bool,
    disks: Disks,
    /// Those that the probe says, if there is one.
    roles: Option<Vec<String>>,
    collected: Collected,
    singles: Vec<Single>,
    /// The IDs of the points of a run without failures.
    known: BTreeSet<String>,
}

/// The plan of a run without faults, in which failure points are collected. Clients have the seed: with
/// another one they might do something else than in the runs with failures.
pub fn without_faults(file: &ClusterFile, seed: u64) -> FaultPlan {
    let end = endless_for(file).map(|time| heal(Awaited::Time(time)));
    FaultPlan {
        within: WITHIN,
        ..FaultPlan::new(seed, end.into_iter().collect())
    }
}

/// How long clients work in such a run, if it has no end by itself.
pub(in super::super) fn endless_for(file: &ClusterFile) -> Option<Duration> {
    is_endless(file).then_some(WATCHED)
}

/// Whether a run has no end by itself.
fn is_endless(file: &ClusterFile) -> bool {
    file.all_clients().iter().all(|client| client.endless)
}

fn heal(awaited: Awaited) -> PlannedFault {
    PlannedFault {
        at: Trigger::at(awaited),
        what: What::Heal,
        on: Vec::new(),
        until: None,
    }
}

impl Exhaustive {
    /// For a cluster, of which these points are known.
    pub fn new(file: &ClusterFile, seed: u64, collected: &Collected) -> Self {
        let disks = Disks::of(file);
        Self {
            seed,
            is_endless: is_endless(file),
            roles: file.probe.as_ref().map(|probe| probe.roles.clone()),
            singles: singles(collected, &disks),
            disks,
            known: collected
                .points
                .iter()
                .map(|seen| seen.id.clone())
                .collect(),
            collected: collected.clone(),
        }
    }

    /// How many single failures there are.
    pub(super) fn len(&self) -> u64 {
        self.singles.len() as u64
    }

    pub(super) fn singles(&self) -> &[Single] {
        &self.singles
    }

    /// Where a single failure comes.
    pub(super) fn seen(&self, single: &Single) -> &SeenPoint {
        &self.collected.points[single.point]
    }

    /// The runs with one failure, those with two, and so on, each in the order in which they are tried, as far
    /// as it is known.
    pub(super) fn ranks<'a>(
        &'a self,
        so_far: &'a [InjectResult],
    ) -> impl Iterator<Item = Vec<u64>> + use<'a> {
        let levels = self.levels(so_far);
        let most = self.failures_max().min(levels.len() + 1);
        (1..=most).map(move |failures| self.with(failures, &levels))
    }

    /// How many failures a run has at most.
    fn failures_max(&self) -> usize {
        usize::try_from(self.collected.failures_max).unwrap_or(usize::MAX)
    }

    fn with(&self, failures: usize, levels: &[Vec<Tried>]) -> Vec<u64> {
        if failures == 1 {
            return (0..self.len()).collect();
        }
        let mut all = Vec::new();
        let [first, others] = self.groups(failures, levels);
        let is_pruned = self.collected.order == Order::Pruned;
        for group in iter::once(first).chain((!is_pruned).then_some(others)) {
            // One further failure after each run, before any has its next.
            let most = group.iter().map(|(_, count)| *count).max().unwrap_or(0);
            for rank in 0..most {
                let have_one = group.iter().filter(|(_, count)| rank < *count);
                all.extend(have_one.filter_map(|(numbers, _)| numbers.number(rank)));
            }
        }
        all
    }

    /// The runs that were made with one failure, those with two, and so on, each by what they are numbered,
    /// as long as there are some.
    fn levels<'a>(&self, so_far: &'a [InjectResult]) -> Vec<Vec<Tried<'a>>> {
        let results: Results = so_far.iter().map(|result| (result.index, result)).collect();
        let mut levels = Vec::new();
        let mut level = made((0, Numbers::ALL), &self.firsts(), &results);
        let mut known = 0;
        while !level.is_empty() {
            known += level.len();
            levels.push(level);
            // Without others, whose further failures are not worth to be looked for.
            level = Vec::new();
            if known < results.len() && levels.len() < self.failures_max() {
                level = self.further(levels.last().expect("one"), &results);
            }
        }
        levels
    }

    /// The runs that were made with one failure more than these.
    fn further<'a>(&self, before: &[Tried<'a>], results: &Results<'a>) -> Vec<Tried<'a>> {
        let with = before.iter().flat_map(|one| {
            let nexts = self.nexts(one);
            made((one.faults, one.numbers), &nexts, results)
        });
        let mut all: Vec<_> = with.collect();
        all.sort_by_key(|one| one.result.index);
        all
    }

    /// After which runs that were made there are runs with so many failures, and how many: those that come
    /// first, which are after errors that changed nothing and then after what was recovered from as nothing
    /// before, and the others.
    fn groups(&self, failures: usize, levels: &[Vec<Tried>]) -> [Vec<(Numbers, u64)>; 2] {
        let [mut ignored, mut new, mut others] = [const { Vec::new() }; 3];
        let before = levels.get(failures - 2).into_iter().flatten();
        let fewer = levels.iter().take(failures - 2).flatten();
        let mut behaviours: BTreeSet<_> = fewer.filter_map(Tried::behaviour).collect();
        for one in before {
            let is_new = one.behaviour().is_some_and(|it| behaviours.insert(it));
            let group = match self.collected.order {
                Order::Plain => &mut new,
                _ if self.is_ignored(one) => &mut ignored,
                _ if is_new => &mut new,
                _ => &mut others,
            };
            group.push((one.numbers, self.count_after(one)));
        }
        ignored.append(&mut new);
        [ignored, others]
    }

    fn plan(&self, faults: Vec<PlannedFault>) -> FaultPlan {
        let end = self.is_endless.then(|| heal(Awaited::After(AFTER)));
        let within = if self.is_endless { 2 * WITHIN } else { WITHIN };
        let faults = faults.into_iter().chain(end).collect();
        FaultPlan {
            within,
            restart_after: Some(RESTART_AFTER),
            ..FaultPlan::new(self.seed, faults)
        }
    }
}

/// First each failure at the first occurrence of each point, then at others: of every kind of failure
/// all points, before the next kind.
fn singles(collected: &Collected, disks: &Disks) -> Vec<Single> {
    let mut all = Vec::new();
    for (point, seen) in collected.points.iter().enumerate() {
        let occurrences = if collected.all_occurrences {
            let places = 0..seen.count();
            places.filter_map(|place| seen.occurrence(place)).collect()
        } else {
            seen.occurrences()
        };
        for (round, one) in occurrences.into_iter().enumerate() {
            for failure in collected.failures_at(seen, one, disks) {
                let at = one.into();
                all.push((round, failure, Single { point, failure, at }));
            }
        }
    }
    // Stable: points stay in the order in which nodes came there.
    all.sort_by_key(|(round, failure, _)| (*round, *failure));
    all.into_iter().map(|(_, _, single)| single).collect()
}

/// Of the failures that may come after those of some runs' beginning, which are so many faults, the runs that
/// were made.
fn made<'a>(
    (faults, numbers): (usize, Numbers),
    nexts: &[Next],
    so_far: &Results<'a>,
) -> Vec<Tried<'a>> {
    let count = nexts.len() as u64;
    let all = nexts.iter().zip(0..).filter_map(|(next, rank)| {
        let result = so_far.get(&numbers.number(rank)?)?;
        let after = numbers.after(rank, count)?;
        let faults = faults + next.failure.fault_count();
        Some(Tried::new(result, (faults, next.failure), after))
    });
    all.collect()
}

impl Strategy for Exhaustive {
    /// Of runs with more failures it is not known before.
    fn count(&self) -> Option<u64> {
        Some(self.len())
    }

    fn order<'a>(
        &'a self,
        so_far: &'a [InjectResult],
        end: u64,
    ) -> Box<dyn Iterator<Item = u64> + 'a> {
        let all = self.ranks(so_far).flatten();
        Box::new(all.filter(move |index| *index < end))
    }

    fn root(&self, index: u64) -> u64 {
        index % self.len().max(1)
    }

    fn propose(&mut self, index: u64, so_far: &[InjectResult]) -> Option<FaultPlan> {
        let (mut nexts, mut numbers) = (self.firsts(), Numbers::ALL);
        let mut faults = Vec::new();
        loop {
            let count = nexts.len() as u64;
            let (rank, is_last) = numbers.place(index, count)?;
            let next = nexts.into_iter().nth(usize::try_from(rank).ok()?)?;
            let failure = next.failure;
            faults.extend(next.faults());
            if is_last {
                return Some(self.plan(faults));
            }
            let before = numbers.number(rank)?;
            numbers = numbers.after(rank, count)?;
            let result = so_far.iter().find(|result| result.index == before)?;
            let tried = Tried::new(result, (faults.len(), failure), numbers);
            nexts = self.nexts(&tried);
        }
    }

    fn tells(&self, so_far: &[InjectResult]) -> Vec<String> {
        let levels = self.levels(so_far);
        let tried = |failures: usize| levels.get(failures - 1).map_or(0, Vec::len);
        let mut lines = vec![format!(
            "single failures: {} of {} tried, at {}",
            tried(1),
            self.len(),
            counted(self.collected.points.len(), "failure point")
        )];
        // What comes after those that were tried is told as well.
        for failures in 2..=self.failures_max().min(levels.len() + 2) {
            let [first, others] = self.groups(failures, &levels);
            let counts = (tried(failures), tried(failures - 1));
            lines.push(told(failures, counts, &first, &others));
        }
        lines
    }

    fn tries_again(&self, ran: &Ran) -> bool {
        // On simulated machines it would come to the same.
        ran.missed_its_point() && ran.simulated.is_none()
    }
}

/// What there is to tell of the runs with so many failures: how many were tried, and how many with one failure
/// less.
fn told(
    failures: usize,
    (tried, before): (usize, usize),
    first: &[(Numbers, u64)],
    others: &[(Numbers, u64)],
) -> String {
    let sum = |group: &[(Numbers, u64)]| group.iter().map(|(_, count)| count).sum::<u64>();
    let (what, after) = match failures {
        2 => ("pairs".to_owned(), "first failures".to_owned()),
        3 => ("triples".to_owned(), "pairs".to_owned()),
        4 => ("runs with 4 failures".to_owned(), "triples".to_owned()),
        more => (
            format!("runs with {more} failures"),
            format!("runs with {} failures", more - 1),
        ),
    };
    format!(
        "{what}: {tried} of {} tried; after the {after} that changed nothing though a call failed, or \
         that the cluster recovered from in a way of their own ({} of {before}): {}",
        sum(first) + sum(others),
        first.len(),
        sum(first),
    )
}
