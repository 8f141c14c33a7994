//! The failures that may follow those of a run.

use std::collections::BTreeSet;
use std::time::Duration;

use brief::without_numbers;

use super::super::super::directory::InjectResult;
use super::super::super::plan::{Awaited, PlannedFault, Selector};
use super::super::super::points::{
    MessagePoint, Occurrence, Pair, Placed, Point, PointFailure, SeenPoint,
};
use super::super::super::ran::{FaultCame, Ran};
use super::numbers::Numbers;
use super::{Exhaustive, Single, Time};
use crate::laboratory::Judged;

/// A failure that a run may have after those that it begins with.
pub(super) struct Next<'a> {
    pub(super) failure: PointFailure,
    seen: &'a SeenPoint,
    placed: Placed,
}

/// A run that was made.
pub(super) struct Tried<'a> {
    pub(super) result: &'a InjectResult,
    /// So many faults are its failures.
    pub(super) faults: usize,
    /// The last failure.
    last: PointFailure,
    /// Of the runs that begin as this one and have more failures.
    pub(super) numbers: Numbers,
}

/// When a further failure is tried: what is declared first comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A loss of power after a call that failed, on the same node: which of the points it is at.
    LossAfterError(usize),
    /// At a call that only the failure before made appear: the failure, whether it is on another node
    /// than that, and which of the points it is.
    New(PointFailure, bool, usize),
    /// At any other: whether it is on another node, which of the points, and the failure.
    Known(bool, usize, PointFailure),
}

/// A point that nodes came to after the last failure of a run.
struct Spot {
    /// Which one of the run's points it is.
    rank: usize,
    /// Whether it is there without a failure too.
    is_known: bool,
    /// Whether nobody came there whom the last failure hit.
    is_elsewhere: bool,
}

impl Spot {
    /// When it is the turn of a failure there. `is_of_call` if the one before was an error of a call.
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

impl Next<'_> {
    pub(super) fn faults(self) -> Vec<PlannedFault> {
        self.failure.faults(self.seen, self.placed)
    }
}

impl<'a> Tried<'a> {
    /// A run whose failures are so many faults, and whose last failure is this one.
    pub(super) fn new(
        result: &'a InjectResult,
        (faults, last): (usize, PointFailure),
        numbers: Numbers,
    ) -> Self {
        Self {
            result,
            faults,
            last,
            numbers,
        }
    }

    /// The last fault of the failures, if all of them happened and nothing was broken after them.
    fn recovered_from(&self) -> Option<&'a FaultCame> {
        let Ran { judged, faults, .. } = &self.result.ran;
        let came = faults.get(..self.faults)?;
        let is_over = *judged == Judged::Ok && came.iter().all(FaultCame::happened);
        came.last().filter(|_| is_over)
    }

    /// What nodes did after the last failure, and what came of it: where that is the same, the cluster
    /// recovered in the same way. It is not known where calls were lost.
    pub(super) fn behaviour(&self) -> Option<(BTreeSet<&'a str>, String)> {
        let ran = &self.result.ran;
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
}

impl Exhaustive {
    /// The first failures. Where nodes have roles, the role says which node, since another one may have it
    /// in another run.
    pub(super) fn firsts(&self) -> Vec<Next<'_>> {
        let first = |single: &Single| Next {
            failure: single.failure,
            seen: self.seen(single),
            placed: self.placed_first(single),
        };
        self.singles.iter().map(first).collect()
    }

    fn placed_first(&self, single: &Single) -> Placed {
        let (seen, Time { node, to, nth }) = (self.seen(single), &single.at);
        let named = |name: &String| Selector::Node(name.clone());
        let (on, to) = match &seen.point {
            Point::Call(point) => {
                let role = point.role.clone().map(Selector::Role);
                (role.unwrap_or_else(|| named(node)), None)
            }
            Point::Request(point) => {
                let mut roles = self.roles.iter().flatten();
                let is_role = roles.any(|role| *role == point.of);
                let role = is_role.then(|| Selector::Role(point.of.clone()));
                (role.unwrap_or_else(|| named(node)), None)
            }
            Point::Message(point) => match self.roles_of(seen, point) {
                [Some(from), Some(to)] => (from, Some(to)),
                // A role may be another node's in the next run, and that one the other end.
                _ => (named(node), to.as_ref().map(named)),
            },
        };
        Placed {
            on,
            to,
            nth: *nth,
            since: Awaited::Time(Duration::ZERO),
        }
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

    /// The failures that may come after those of a run, in the order in which they are tried. Calls that only
    /// the last failure made appear come first, one failure at all of them before the next failure. Of the
    /// others those of a node that the last failure hit come first, the nearest of them before others, with
    /// all failures: whatever happens next happens right after that failure.
    ///
    /// After a call that failed, a loss of power of that node comes before all else: what the failed call did
    /// not write, nobody misses before.
    pub(super) fn nexts<'a>(&self, tried: &Tried<'a>) -> Vec<Next<'a>> {
        let mut all = self.unsorted(tried);
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, next)| next).collect()
    }

    /// How many they are.
    pub(super) fn count_after(&self, tried: &Tried) -> u64 {
        self.unsorted(tried).len() as u64
    }

    fn unsorted<'a>(&self, tried: &Tried<'a>) -> Vec<(Place, Next<'a>)> {
        let Some(last) = tried.recovered_from() else {
            return Vec::new();
        };
        let is_off = tried.last.is_power_loss();
        let mut all = Vec::new();
        for (rank, seen) in tried.result.ran.points.iter().enumerate() {
            let spot = Spot {
                rank,
                is_known: self.known.contains(&seen.id),
                is_elsewhere: !seen.by_node.keys().any(|node| last.on.contains(node)),
            };
            for one in self.times(seen, &last.on) {
                let placed = self.placed_again(seen, one, &last.on, is_off);
                let has_disk_fault = tried.last.is_of_disk() && !spot.is_elsewhere;
                let failures = self.collected.failures_at(seen, one, &self.disks);
                // A disk has one fault at a time.
                for failure in failures.filter(|it| !has_disk_fault || !it.is_of_disk()) {
                    let next = Next {
                        failure,
                        seen,
                        placed: placed.clone(),
                    };
                    all.push((spot.place(failure, tried.last.is_of_call()), next));
                }
            }
        }
        all
    }

    /// At which of its times a point is tried after a failure: the first one, of a node that the failure hit
    /// if one of them came there.
    fn times<'a>(&self, seen: &'a SeenPoint, hit: &[String]) -> Vec<Occurrence<'a>> {
        if self.collected.all_occurrences {
            let all = 0..seen.count();
            return all.filter_map(|place| seen.occurrence(place)).collect();
        }
        let is_hit = |one: &Occurrence| hit.iter().any(|hit| hit == one.node);
        let of_hit = seen.firsts().find(is_hit);
        let one = of_hit.or_else(|| seen.firsts().next());
        one.into_iter().collect()
    }

    /// When and on whom a further failure is to happen, after one that may have left those off that it hit.
    fn placed_again(
        &self,
        seen: &SeenPoint,
        one: Occurrence,
        hit: &[String],
        is_off: bool,
    ) -> Placed {
        let is_hit = |node: &str| hit.iter().any(|hit| hit == node);
        Placed {
            on: self.on_again(seen, one.node, hit),
            to: one.to.map(|to| self.on_again(seen, to, hit)),
            nth: one.nth,
            // There is no link to a node without power.
            since: if is_off && (is_hit(one.node) || one.to.is_some_and(is_hit)) {
                Awaited::Ended
            } else {
                Awaited::After(Duration::ZERO)
            },
        }
    }

    /// A node that a further failure hits: where there are roles another one may have been hit by the failure
    /// before, or come to a point.
    fn on_again(&self, seen: &SeenPoint, node: &str, hit: &[String]) -> Selector {
        match seen.point.role() {
            _ if self.roles.is_none() => Selector::Node(node.to_owned()),
            _ if hit.iter().any(|hit| hit == node) => Selector::Hit,
            Some(role) => Selector::Role(role.clone()),
            None => Selector::Node(node.to_owned()),
        }
    }

    /// Whether a call failed, and all went on as if it had not: somebody took the error for nothing.
    pub(super) fn is_ignored(&self, tried: &Tried) -> bool {
        let ran = &tried.result.ran;
        let mut points = ran.points.iter();
        tried.last.is_of_call()
            && !ran.has_lost_points
            && points.all(|seen| self.known.contains(&seen.id))
    }
}
