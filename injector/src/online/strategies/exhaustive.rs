//! Every failure at every failure point, in the order of FTS: one of each ID first.

use std::collections::BTreeSet;
use std::time::Duration;

use brief::{counted, without_numbers};
use cluster::ClusterFile;

use super::super::directory::InjectResult;
use super::super::plan::{Awaited, FaultPlan, PlannedFault, Selector, Trigger, What};
use super::super::points::{
    Collected, Disks, MessagePoint, Occurrence, Order, Pair, Placed, Point, PointFailure, SeenPoint,
};
use super::super::ran::{FaultCame, Ran};
use super::super::strategy::Strategy;
use crate::laboratory::Judged;

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

/// When a second failure is tried: what is declared first comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A loss of power after a call that failed, on the same node: which of the points it is at.
    LossAfterError(usize),
    /// At a call that only the first failure made appear: the failure, whether it is on another node
    /// than the first, and which of the points it is.
    New(PointFailure, bool, usize),
    /// At any other: whether it is on another node, which of the points, and the failure.
    Known(bool, usize, PointFailure),
}

/// All single failures, and then all pairs: a second failure is at a call that was made after the first.
///
/// The single failures have the indices from 0 on. Of `n` of them, the pairs that begin with number `i`
/// are `n + i`, `2n + i` and so on, so an index means the same whatever else was tried.
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

/// The plan of a run without faults, in which failure points are collected.
pub fn without_faults(file: &ClusterFile) -> FaultPlan {
    let end = is_endless(file).then(|| heal(Awaited::Time(WATCHED)));
    FaultPlan {
        within: WITHIN,
        ..FaultPlan::new(0, end.into_iter().collect())
    }
}

/// Whether a run has no end by itself.
fn is_endless(file: &ClusterFile) -> bool {
    file.all_clients().iter().all(|client| client.endless)
}

fn heal(awaited: Awaited) -> PlannedFault {
    PlannedFault {
        at: Trigger {
            awaited,
            delay: Duration::ZERO,
        },
        what: What::Heal,
        on: Vec::new(),
        until: None,
    }
}

/// The first failure of a run, if it happened and nothing was broken after it.
fn recovered_from(ran: &Ran) -> Option<&FaultCame> {
    let first = ran.faults.first()?;
    (ran.judged == Judged::Ok && first.happened()).then_some(first)
}

/// A point of a run with a first failure, at which a second one may come.
struct Second {
    /// Which one of the run's points it is.
    rank: usize,
    /// Whether it is there without a failure too.
    is_known: bool,
    /// Whether nobody came there whom the first failure hit.
    is_elsewhere: bool,
}

impl Second {
    /// When it is the turn of a failure there. `is_of_call` if the first one was an error of a call.
    fn place(&self, failure: PointFailure, is_of_call: bool) -> Place {
        let Self {
            rank, is_elsewhere, ..
        } = *self;
        if is_of_call && failure == PointFailure::PowerLoss && !is_elsewhere {
            Place::LossAfterError(rank)
        } else if self.is_known {
            Place::Known(is_elsewhere, rank, failure)
        } else {
            Place::New(failure, is_elsewhere, rank)
        }
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
            singles: singles(&collected.points, &disks, collected.all_occurrences),
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

    /// A first failure. Where nodes have roles, the role says which node, since another one may have
    /// it in another run.
    fn first(&self, index: u64) -> Option<Vec<PlannedFault>> {
        let single = self.singles.get(usize::try_from(index).ok()?)?;
        let (seen, Time { node, to, nth }) = (self.seen(single), &single.at);
        let named = |name: &String| Selector::Node(name.clone());
        let (on, to) = match &seen.point {
            Point::Call(point) => {
                let role = point.role.clone().map(Selector::Role);
                (role.unwrap_or_else(|| named(node)), None)
            }
            Point::Message(point) => {
                let [from_role, to_role] = self.roles_of(seen, point);
                let to = to.as_ref().map(|to| to_role.unwrap_or_else(|| named(to)));
                (from_role.unwrap_or_else(|| named(node)), to)
            }
        };
        let placed = Placed {
            on,
            to,
            nth: *nth,
            since: Awaited::Time(Duration::ZERO),
        };
        Some(single.failure.faults(seen, placed))
    }

    /// The roles of who sends a message and who gets it, as far as they say which nodes those are.
    fn roles_of(&self, seen: &SeenPoint, point: &MessagePoint) -> [Option<Selector>; 2] {
        let pairs = &seen.by_pair;
        let is_one = |node: fn(&Pair) -> &String| {
            let all: BTreeSet<_> = pairs.iter().map(node).collect();
            all.len() == 1 && point.from != point.to
        };
        let ends = [
            (&point.from, is_one(|pair| &pair.from)),
            (&point.to, is_one(|pair| &pair.to)),
        ];
        ends.map(|(name, is_one)| {
            let mut roles = self.roles.iter().flatten();
            (is_one && roles.any(|role| role == name)).then(|| Selector::Role(name.clone()))
        })
    }

    /// The second failures after a run with a first one. Calls that only that made appear come first,
    /// one failure at all of them before the next failure. Of the others those of a node that the first
    /// failure hit come first, the nearest of them before others, with all failures: whatever happens
    /// next happens right after the first failure.
    ///
    /// After a call that failed, a loss of power of that node comes before all else: what the failed
    /// call did not write, nobody misses before.
    fn seconds(&self, result: &InjectResult) -> Vec<Vec<PlannedFault>> {
        let Some(first) = recovered_from(&result.ran) else {
            return Vec::new();
        };
        let is_of_call = self.failure(result).is_some_and(PointFailure::is_of_call);
        let is_off = self
            .failure(result)
            .is_some_and(PointFailure::is_power_loss);
        // There is no link to a node without power.
        let since = if is_off {
            Awaited::Ended
        } else {
            Awaited::After(Duration::ZERO)
        };
        let mut all = Vec::new();
        for (rank, seen) in result.ran.points.iter().enumerate() {
            let second = Second {
                rank,
                is_known: self.known.contains(&seen.id),
                is_elsewhere: !seen.by_node.keys().any(|node| first.on.contains(node)),
            };
            for placed in self.second_times(seen, &first.on, &since) {
                for failure in PointFailure::at(seen, &self.disks) {
                    let place = second.place(failure, is_of_call);
                    all.push((place, failure.faults(seen, placed.clone())));
                }
            }
        }
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, faults)| faults).collect()
    }

    /// The first failure of a run.
    fn failure(&self, result: &InjectResult) -> Option<PointFailure> {
        let single = usize::try_from(self.root(result.index)).ok()?;
        self.singles.get(single).map(|single| single.failure)
    }

    /// Whether a call failed, and all went on as if it had not: somebody took the error for nothing.
    fn is_ignored(&self, result: &InjectResult) -> bool {
        let is_error = self.failure(result).is_some_and(PointFailure::is_of_call);
        let mut points = result.ran.points.iter();
        is_error && !result.ran.has_lost_points && points.all(|seen| self.known.contains(&seen.id))
    }

    /// At which of its times a point is tried after a first failure, and on whom: the first one, on a
    /// node that the first failure hit if one of them came there.
    fn second_times(&self, seen: &SeenPoint, hit: &[String], since: &Awaited) -> Vec<Placed> {
        let placed = |one: Occurrence| Placed {
            on: self.second_on(seen, one.node, hit),
            to: one.to.map(|to| self.second_on(seen, to, hit)),
            nth: one.nth,
            since: since.clone(),
        };
        if self.collected.all_occurrences {
            let all = (0..seen.count()).filter_map(|place| seen.occurrence(place));
            return all.map(placed).collect();
        }
        let of_hit = seen
            .firsts()
            .find(|one| hit.iter().any(|hit| hit == one.node));
        let one = of_hit.or_else(|| seen.firsts().next());
        one.map(placed).into_iter().collect()
    }

    /// A node that a second failure hits: where there are roles another one may have been hit by the first
    /// failure, or come to a point.
    fn second_on(&self, seen: &SeenPoint, node: &str, hit: &[String]) -> Selector {
        match seen.point.role() {
            _ if self.roles.is_none() => Selector::Node(node.to_owned()),
            _ if hit.iter().any(|hit| hit == node) => Selector::Hit,
            Some(role) => Selector::Role(role.clone()),
            None => Selector::Node(node.to_owned()),
        }
    }

    /// How many second failures there are after each first one that was tried, by its index: of those
    /// that come first, which are errors that changed nothing and then what was recovered from as
    /// nothing before, and of the others.
    fn pairs(&self, so_far: &[InjectResult]) -> [Vec<(u64, u64)>; 2] {
        let [mut ignored, mut new, mut others] = [const { Vec::new() }; 3];
        if self.collected.failures_max < 2 {
            return [new, others];
        }
        let mut firsts: Vec<_> = so_far.iter().filter(|one| one.index < self.len()).collect();
        firsts.sort_by_key(|result| result.index);
        let mut behaviours = BTreeSet::new();
        for result in firsts {
            let behaviour = behaviour(&result.ran);
            let is_new = behaviour.is_some_and(|one| behaviours.insert(one));
            let group = match self.collected.order {
                Order::Plain => &mut new,
                Order::Novel if self.is_ignored(result) => &mut ignored,
                Order::Novel if is_new => &mut new,
                Order::Novel => &mut others,
            };
            group.push((result.index, self.seconds(result).len() as u64));
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
fn singles(points: &[SeenPoint], disks: &Disks, all_occurrences: bool) -> Vec<Single> {
    let mut all = Vec::new();
    for (point, seen) in points.iter().enumerate() {
        let occurrences = if all_occurrences {
            let places = 0..seen.count();
            places.filter_map(|place| seen.occurrence(place)).collect()
        } else {
            seen.occurrences()
        };
        for (round, one) in occurrences.into_iter().enumerate() {
            for failure in PointFailure::at(seen, disks) {
                let at = one.into();
                all.push((round, failure, Single { point, failure, at }));
            }
        }
    }
    // Stable: points stay in the order in which nodes came there.
    all.sort_by_key(|(round, failure, _)| (*round, *failure));
    all.into_iter().map(|(_, _, single)| single).collect()
}

/// What nodes did after a failure, and what came of it: failures for which that is the same are
/// recovered from in the same way. It is not known where calls were lost.
fn behaviour(ran: &Ran) -> Option<(BTreeSet<&str>, String)> {
    if ran.has_lost_points {
        return None;
    }
    let points = ran.points.iter().map(|seen| seen.id.as_str());
    let outcome = match &ran.judged {
        Judged::Ok => String::new(),
        Judged::Broken { broken } => broken.first().cloned().unwrap_or_default(),
        Judged::Inconclusive { why } => why.clone(),
    };
    Some((points.collect(), without_numbers(&outcome)))
}

impl Strategy for Exhaustive {
    /// Of pairs it is not known before.
    fn count(&self) -> Option<u64> {
        Some(self.len())
    }

    fn order(&self, so_far: &[InjectResult], end: u64) -> Box<dyn Iterator<Item = u64> + '_> {
        let len = self.len();
        let mut all: Vec<u64> = (0..len).collect();
        for group in self.pairs(so_far) {
            // One second failure after each first one, before any has its next.
            let most = group.iter().map(|(_, count)| *count).max().unwrap_or(0);
            for second in 0..most {
                let has_one = group.iter().filter(|(_, count)| second < *count);
                all.extend(has_one.map(|(first, _)| (second + 1) * len + first));
            }
        }
        Box::new(all.into_iter().filter(move |index| *index < end))
    }

    fn root(&self, index: u64) -> u64 {
        index % self.len().max(1)
    }

    fn propose(&mut self, index: u64, so_far: &[InjectResult]) -> Option<FaultPlan> {
        let root = self.root(index);
        let first = self.first(root)?;
        if index == root {
            return Some(self.plan(first));
        }
        let result = so_far.iter().find(|result| result.index == root)?;
        let place = usize::try_from(index / self.len() - 1).ok()?;
        let second = self.seconds(result).into_iter().nth(place)?;
        Some(self.plan([first, second].concat()))
    }

    fn tells(&self, so_far: &[InjectResult]) -> Vec<String> {
        let (len, tried) = (self.len(), |is_meant: &dyn Fn(u64) -> bool| {
            so_far
                .iter()
                .filter(|result| is_meant(result.index))
                .count()
        });
        let singles = tried(&|index| index < len);
        let mut lines = vec![format!(
            "single failures: {singles} of {len} tried, at {}",
            counted(self.collected.points.len(), "failure point")
        )];
        if self.collected.failures_max > 1 {
            let [first, others] = self.pairs(so_far);
            let sum = |group: &[(u64, u64)]| group.iter().map(|(_, count)| count).sum::<u64>();
            lines.push(format!(
                "pairs: {} of {} tried; after the first failures that changed nothing though a call \
                 failed, or that the cluster recovered from in a way of their own ({} of {singles}): {}",
                tried(&|index| index >= len),
                sum(&first) + sum(&others),
                first.len(),
                sum(&first),
            ));
        }
        lines
    }

    fn tries_again(&self, ran: &Ran) -> bool {
        // On simulated machines it would come to the same.
        ran.missed_its_point() && ran.simulated.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::points::{CallPoint, Point};
    use super::super::super::ran::State;
    use super::*;

    fn file(client: &str) -> ClusterFile {
        let text = format!(
            "disk = \"ext4\"\n[[nodes]]\nnames = [\"a\", \"b\"]\ncommand = \"sh\"\n[[clients]]\nname = \"x\"\ncommand = \"sh\"\n{client}\n[probe]\ncommand = \"sh\"\nroles = [\"leader\"]\n"
        );
        ClusterFile::parse(&text, Path::new("c.toml"), Path::new("/")).expect("a cluster")
    }

    fn collected() -> Collected {
        let seen =
            |call: &str, file: &str, role: Option<&str>, by_node: &[(&str, u64)]| SeenPoint {
                by_node: by_node
                    .iter()
                    .map(|(node, count)| ((*node).to_owned(), *count))
                    .collect(),
                bytes_min: (call == "write").then_some(9),
                ..SeenPoint::of(Point::Call(CallPoint {
                    call: call.into(),
                    file: file.into(),
                    site: "00000000000000ff".into(),
                    role: role.map(str::to_owned),
                }))
            };
        Collected {
            points: vec![
                seen("write", "log/wal-#", None, &[("a", 3), ("b", 5)]),
                seen("fsync", "", Some("leader"), &[("a", 1)]),
            ],
            all_occurrences: false,
            failures_max: 1,
            order: Order::Novel,
        }
    }

    #[test]
    fn every_plan_can_be_read_and_none_is_proposed_twice() {
        for client in ["", "endless = true"] {
            let file = file(client);
            let mut all = Exhaustive::new(&file, 3, &collected());
            let mut seen = BTreeSet::new();
            for index in 0..all.count().expect("an end") {
                let plan = all.propose(index, &[]).expect("there is one");
                let text = plan.to_string();
                assert_eq!(
                    FaultPlan::parse(&text, Path::new("p"), &file).as_ref(),
                    Ok(&plan),
                    "{text}"
                );
                assert!(seen.insert(text));
            }
            // Seven failures of three writes and of one fsync: it has no short, and one for kills after it.
            assert_eq!(seen.len(), 3 * 7 + 7);
            assert!(all.propose(seen.len() as u64, &[]).is_none());
        }
    }

    #[test]
    fn each_failure_is_tried_at_each_point_before_any_is_at_another_occurrence() {
        let mut all = Exhaustive::new(&file(""), 0, &collected());
        let text = |all: &mut Exhaustive, index| all.propose(index, &[]).expect("one").to_string();
        let first = "\
seed = 0
within_s = 5.0
restart_after_s = 1.0

[[faults]]
at = { call = \"write\", path = \"log/wal-*\", site = \"00000000000000ff\", node = \"a\" }
fault = \"kill\"
on = \"a\"
until = { after_s = 1.0 }
";
        assert_eq!(text(&mut all, 0), first);
        let second = text(&mut all, 1);
        assert!(
            second.contains("call = \"fsync\", path = \".\"") && second.contains("on = \"leader\"")
        );
        let is_of_first = |index| !text(&mut all, index).contains("nth");
        assert!((0..14).all(is_of_first));
        assert!(text(&mut all, 14).contains("node = \"b\""));
    }

    /// A run in which the first fault hit a node, with the points that came up after it.
    fn ran(index: u64, hit: &str, points: Vec<SeenPoint>) -> InjectResult {
        let mut ran = Ran::without(&cluster::Error::Interrupted);
        ran.judged = Judged::Ok;
        ran.points = points;
        ran.faults.push(FaultCame {
            state: State::Undone,
            on: vec![hit.to_owned()],
            ..FaultCame::not_yet()
        });
        InjectResult {
            index,
            plan: String::new(),
            ran,
        }
    }

    fn in_recovery(call: &str, file: &str, role: Option<&str>, node: &str) -> SeenPoint {
        SeenPoint {
            by_node: [(node.to_owned(), 2)].into(),
            ..SeenPoint::of(Point::Call(CallPoint {
                call: call.into(),
                file: file.into(),
                site: String::new(),
                role: role.map(str::to_owned),
            }))
        }
    }

    #[test]
    fn a_second_failure_is_at_a_call_after_the_first_and_calls_of_recovery_come_before_others() {
        let file = file("");
        let pairs = Collected {
            failures_max: 2,
            ..collected()
        };
        let mut all = Exhaustive::new(&file, 0, &pairs);
        let mut old = pairs.points[1].clone();
        old.by_node = [("b".to_owned(), 1)].into();
        let new = in_recovery("unlink", "log/wal-#", None, "a");
        let results = [ran(0, "a", vec![old, new])];
        let len = all.count().expect("known");
        let order: Vec<_> = all.order(&results, u64::MAX).collect();
        // Five failures of the unlink, and then seven of the fsync.
        assert_eq!(order.len() as u64, len + 5 + 7);
        assert_eq!(order[len as usize..][..2], [len, 2 * len]);
        let text =
            |all: &mut Exhaustive, index| all.propose(index, &results).expect("one").to_string();
        let first = text(&mut all, len);
        let second = "\
at = { call = \"unlink\", path = \"log/wal-*\", node = \"hit\" }
fault = \"kill\"
on = \"hit\"
until = { after_s = 1.0 }
";
        assert!(first.ends_with(second), "{first}");
        assert_eq!(first.matches("[[faults]]").count(), 2);
        // The leader did not fall: it is the same one.
        let last = text(&mut all, 12 * len);
        assert!(
            last.contains("node = \"leader\"") && last.contains("hold = true"),
            "{last}"
        );
        assert!(
            all.propose(13 * len, &results).is_none() && all.propose(len + 1, &results).is_none()
        );
        let read = FaultPlan::parse(&last, Path::new("p"), &file);
        assert_eq!(read.expect("a plan").to_string(), last);
    }

    #[test]
    fn what_was_recovered_from_as_before_comes_later_unless_the_order_is_plain() {
        let point = || vec![in_recovery("unlink", "x", None, "a")];
        let other = vec![in_recovery("rename", "x", None, "a")];
        let mut results = [
            ran(0, "a", point()),
            ran(1, "a", point()),
            ran(2, "a", other),
        ];
        let order_of = |results: &[InjectResult], order| {
            let pairs = Collected {
                failures_max: 2,
                order,
                ..collected()
            };
            let all = Exhaustive::new(&file(""), 0, &pairs);
            let len = all.count().expect("known");
            let firsts = all.order(results, u64::MAX).filter(|index| *index >= len);
            firsts.map(|index| all.root(index)).collect::<Vec<_>>()
        };
        let order = |order| order_of(&results, order);
        let novel = order(Order::Novel);
        assert_eq!(novel[..4], [0, 2, 0, 2]);
        assert_eq!(novel[novel.len() - 5..], [1; 5]);
        assert_eq!(order(Order::Plain)[..4], [0, 1, 2, 0]);
        // How it was recovered from is not known where calls were lost.
        results[0].ran.has_lost_points = true;
        let novel = order_of(&results, Order::Novel);
        assert_eq!(novel[..4], [1, 2, 1, 2]);
        // What broke something, or came to nothing, is not gone on with.
        let mut missed = ran(0, "a", point());
        missed.ran.faults[0].state = State::NeverFired;
        let mut broken = ran(1, "a", point());
        broken.ran.judged = Judged::Broken {
            broken: vec!["it is".into()],
        };
        let pairs = Collected {
            failures_max: 2,
            ..collected()
        };
        let all = Exhaustive::new(&file(""), 0, &pairs);
        assert_eq!(
            Some(all.order(&[missed, broken], u64::MAX).count() as u64),
            all.count()
        );
    }

    /// An error that nobody minds shows when the power fails: on the node that had it, not on another
    /// one that makes the next call.
    #[test]
    fn after_an_error_that_changed_nothing_the_power_of_that_node_fails_first() {
        let pairs = Collected {
            failures_max: 2,
            ..collected()
        };
        let mut all = Exhaustive::new(&file(""), 0, &pairs);
        let len = all.count().expect("known");
        let index_of = |failure| {
            let place = all.singles.iter().position(|one| one.failure == failure);
            place.expect("there is one") as u64
        };
        let (kill, eio) = (index_of(PointFailure::Kill), index_of(PointFailure::Eio));
        let after = |hit: &str| {
            let mut elsewhere = pairs.points[1].clone();
            elsewhere.by_node = [(if hit == "a" { "b" } else { "a" }.to_owned(), 1)].into();
            let mut here = pairs.points[0].clone();
            here.by_node = [(hit.to_owned(), 1)].into();
            vec![elsewhere, here]
        };
        let results = [ran(kill, "a", after("a")), ran(eio, "b", after("b"))];
        let order: Vec<_> = all.order(&results, u64::MAX).collect();
        assert_eq!(order[len as usize..][..2], [len + eio, len + kill]);
        let mut second = |index| {
            let plan = all.propose(index, &results).expect("one").to_string();
            let (_, second) = plan.rsplit_once("[[faults]]\n").expect("two");
            second.to_owned()
        };
        let first = second(len + eio);
        assert!(
            first.contains("node = \"hit\"") && first.contains("fault = \"power-loss\""),
            "{first}"
        );
        // After a kill there is nothing of that kind.
        let first = second(len + kill);
        assert!(
            first.contains("node = \"hit\"") && first.contains("fault = \"kill\""),
            "{first}"
        );
        // With the calls of recovery the node minded the error.
        let recovers = vec![in_recovery("unlink", "log/wal-#", None, "b")];
        let results = [ran(kill, "a", after("a")), ran(eio, "b", recovers)];
        let order: Vec<_> = all.order(&results, u64::MAX).collect();
        assert_eq!(order[len as usize..][..2], [len + kill, len + eio]);
    }

    /// A message of the leader to two others, which have the same role.
    fn message() -> SeenPoint {
        let pair = |to: &str, times| Pair {
            from: "a".into(),
            to: to.into(),
            times,
        };
        SeenPoint {
            by_node: [("a".to_owned(), 5)].into(),
            by_pair: vec![pair("b", 5)],
            ..SeenPoint::of(Point::Message(MessagePoint {
                from: "leader".into(),
                to: "b".into(),
                from_port: None,
                to_port: Some(7000),
            }))
        }
    }

    #[test]
    fn a_message_is_cut_off_and_its_sender_may_die() {
        let file = file("");
        let collected = Collected {
            points: vec![message()],
            ..collected()
        };
        let mut all = Exhaustive::new(&file, 0, &collected);
        // Four failures at the first, the last and the middle one.
        assert_eq!(all.count(), Some(12));
        let text = |all: &mut Exhaustive, index| all.propose(index, &[]).expect("one").to_string();
        let expected = "\
seed = 0
within_s = 5.0
restart_after_s = 1.0

[[faults]]
at = { time_s = 0.0 }
fault = \"partition\"
on = \"leader\"
from = \"b\"
flow = \"out\"
with_message = { nth = 1, from = \"leader\", to = \"b\", to_port = 7000 }
until = { after_s = 3.0 }
";
        assert_eq!(text(&mut all, 0), expected);
        assert_eq!(text(&mut all, 1), expected.replace("flow = \"out\"\n", ""));
        assert_eq!(text(&mut all, 4), expected.replace("nth = 1", "nth = 5"));
        assert_eq!(text(&mut all, 8), expected.replace("nth = 1", "nth = 3"));
        let dies = expected.replace("after_s = 3.0", "after_s = 1.0");
        let then = "
[[faults]]
at = { after_s = 0.0 }
fault = \"kill\"
on = \"hit\"
until = { after_s = 1.0 }
";
        assert_eq!(text(&mut all, 2), dies.clone() + then);
        let then = then.replace("\"kill\"", "\"power-loss\"");
        let then = then.replace("\nuntil", "\nkeeps = \"flushed\"\nuntil");
        assert_eq!(text(&mut all, 3), dies + &then);
        for index in 0..12 {
            let text = text(&mut all, index);
            let read = FaultPlan::parse(&text, Path::new("p"), &file);
            assert_eq!(read.expect("a plan").to_string(), text);
        }
        let none = Exhaustive::new(&without_disks(), 0, &collected);
        assert_eq!(none.count(), Some(9));
    }

    fn without_disks() -> ClusterFile {
        let text = file("").text.replace("disk = \"ext4\"\n", "");
        ClusterFile::parse(&text, Path::new("c.toml"), Path::new("/")).expect("a cluster")
    }

    /// Messages are counted from when the first failure is in place, or its end, where a node has no link
    /// before.
    #[test]
    fn a_message_after_a_first_failure_is_one_of_the_second_failures() {
        let pairs = Collected {
            failures_max: 2,
            ..collected()
        };
        let file = file("");
        let mut all = Exhaustive::new(&file, 0, &pairs);
        let len = all.count().expect("known");
        let loss = |one: &Single| one.failure == PointFailure::PowerLoss;
        let loss = all.singles.iter().position(loss).expect("there is one") as u64;
        let results = [
            ran(0, "a", vec![message()]),
            ran(loss, "b", vec![message()]),
        ];
        let kill = all.propose(len, &results).expect("one");
        let (_, second) = kill
            .to_string()
            .rsplit_once("[[faults]]\n")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("two");
        assert!(second.contains("at = { after_s = 0.0 }\n") && second.contains("on = \"hit\"\n"));
        assert!(
            second.contains("with_message = { nth = 1, from = \"hit\", to = \"b\""),
            "{second}"
        );
        let loss = all.propose(len + loss, &results).expect("one").to_string();
        assert!(
            loss.contains("at = { ended = true }\n") && loss.contains("from = \"hit\"\n"),
            "{loss}"
        );
        let read = FaultPlan::parse(&loss, Path::new("p"), &file);
        assert_eq!(read.expect("a plan").to_string(), loss);
    }

    #[test]
    fn all_occurrences_are_tried_if_that_is_asked_for() {
        let collected = Collected {
            all_occurrences: true,
            ..collected()
        };
        let all = Exhaustive::new(&file(""), 0, &collected);
        assert_eq!(all.count(), Some(8 * 7 + 7));
    }
}
