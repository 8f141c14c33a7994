//! The failures that may follow those of a run.

use std::collections::BTreeSet;

use brief::without_numbers;

use super::super::super::directory::InjectResult;
use super::super::super::plan::{PlannedFault, Selector};
use super::super::super::points::{PointFailure, SeenPoint};
use super::super::super::ran::{FaultCame, Ran};
use super::numbers::Numbers;
use super::{Exhaustive, Single};
use crate::laboratory::Judged;

/// A failure that a run may have after those that it begins with.
pub(super) struct Next<'a> {
    pub(super) failure: PointFailure,
    seen: &'a SeenPoint,
    on: Selector,
    /// Which time of those that it comes to the point.
    nth: u64,
}

/// A run that was made, with so many failures.
pub(super) struct Tried<'a> {
    pub(super) result: &'a InjectResult,
    failures: u64,
    /// The last one of them.
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
    pub(super) fn fault(self) -> PlannedFault {
        self.failure.fault(self.seen, self.on, self.nth)
    }
}

impl<'a> Tried<'a> {
    /// A run of which this is the last of so many failures.
    pub(super) fn new(
        result: &'a InjectResult,
        (failures, last): (u64, PointFailure),
        numbers: Numbers,
    ) -> Self {
        Self {
            result,
            failures,
            last,
            numbers,
        }
    }

    /// The last failure, if all of them happened and nothing was broken after them.
    fn recovered_from(&self) -> Option<&'a FaultCame> {
        let Ran { judged, faults, .. } = &self.result.ran;
        let came = faults.get(..usize::try_from(self.failures).ok()?)?;
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
        let first = |single: &Single| {
            let seen = &self.collected.points[single.point];
            let (node, nth) = single.at.clone();
            let role = seen.point.role.clone().map(Selector::Role);
            Next {
                failure: single.failure,
                seen,
                on: role.unwrap_or(Selector::Node(node)),
                nth,
            }
        };
        self.singles.iter().map(first).collect()
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
        let mut all = Vec::new();
        for (rank, seen) in tried.result.ran.points.iter().enumerate() {
            let spot = Spot {
                rank,
                is_known: self.known.contains(&seen.id),
                is_elsewhere: !seen.by_node.keys().any(|node| last.on.contains(node)),
            };
            for (on, nth) in self.times(seen, &last.on) {
                for failure in PointFailure::at(seen, self.has_disks) {
                    let next = Next {
                        failure,
                        seen,
                        on: on.clone(),
                        nth,
                    };
                    all.push((spot.place(failure, tried.last.is_of_call()), next));
                }
            }
        }
        all
    }

    /// At which of its times a point is tried after a failure, and on whom: the first one, on a node that
    /// the failure hit if one of them came there.
    fn times(&self, seen: &SeenPoint, hit: &[String]) -> Vec<(Selector, u64)> {
        let on = |node: &String| match &seen.point.role {
            _ if !self.has_roles => Selector::Node(node.clone()),
            _ if hit.contains(node) => Selector::Hit,
            Some(role) => Selector::Role(role.clone()),
            None => Selector::Node(node.clone()),
        };
        if self.collected.all_occurrences {
            let times = seen.by_node.iter();
            let times = times.flat_map(|(node, count)| (1..=*count).map(move |nth| (node, nth)));
            return times.map(|(node, nth)| (on(node), nth)).collect();
        }
        let mut nodes = seen.by_node.keys();
        let of_hit = nodes.clone().find(|node| hit.contains(node));
        of_hit
            .or_else(|| nodes.next())
            .map(|node| (on(node), 1))
            .into_iter()
            .collect()
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
