//! Which failures there are: all of them have an address.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use campaign::spread;
use clap::ValueEnum;
use pace_rules::disk::Relaxation;
use serde::{Deserialize, Serialize};

use crate::disks::Keeps;

/// Whose power fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victims {
    /// All nodes, at one instant
    All,
    /// One node, the one that asks its disk or sends a frame; after an acknowledgement, each in turn. The
    /// others go on
    One,
    /// That node and at least one other, but not all; the moment decides which. Only for clusters of
    /// three nodes or more
    Several,
}

impl Victims {
    /// The name for so many of so many nodes.
    pub fn of(victims: usize, nodes: usize) -> Self {
        match victims {
            all if all == nodes => Self::All,
            1 => Self::One,
            _ => Self::Several,
        }
    }
}

/// At what the power can fail while the client runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// Right after each acknowledgement
    Acks,
    /// Before each request of a node to its disk
    Requests,
    /// Before each frame that a node sends
    Frames,
}

/// A moment of a run, which every run of the same simulation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// At what.
    pub at: At,
    /// The node that asks or sends, as an index in the cluster file; none at an acknowledgement.
    pub node: Option<usize>,
    /// How many acknowledgements there are, how many entries the log of the node's disk has since its
    /// last power failure, or how many frames the node has sent.
    pub position: usize,
}

/// Moments at which power can fail, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRange {
    /// At what.
    pub at: At,
    /// The node; none if these are acknowledgements.
    pub node: Option<usize>,
    /// The positions.
    pub positions: Range<usize>,
}

/// What happens to a cluster at a moment: the power of nodes fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// When.
    #[serde(flatten)]
    pub when: Moment,
    /// The nodes whose power fails, at one instant.
    pub victims: Vec<usize>,
    /// What their disks keep.
    pub keeps: Keeps,
    /// What the disks of nodes are left with, where that is not drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<(usize, Relaxation)>,
}

/// What happens in a run: one fault after the other. The first is at a moment of the run of the
/// client, each other at one of the recovery from the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The faults, in order.
    pub faults: Vec<Fault>,
    /// When the run is forked, in nanoseconds of the simulation's time; everything happens in the fork.
    /// Nothing: it is not.
    pub forked_ns: Option<u64>,
}

/// A time at which the run of the client can be forked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// The time, in nanoseconds of the simulation's.
    pub time_ns: u64,
    /// Of each range of points the first position that is after it.
    pub after: Vec<usize>,
}

/// Where a failure is among all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Address {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the first fault in the plan of that seed.
    pub index: u64,
    /// The number of each other in the plan of the recovery from the one before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<u64>,
}

/// `17`, and of a failure during recoveries `17/3/0`; the seed goes without saying.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index)?;
        self.again
            .iter()
            .try_for_each(|index| write!(f, "/{index}"))
    }
}

/// All faults of one run of a cluster, or of a recovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The points.
    pub points: Vec<PointRange>,
    /// The numbers of those that come first: acknowledgements, and the first request after each.
    pub first: Vec<u64>,
    /// Whose power fails at each.
    pub victims: Vec<Victims>,
    /// What disks keep, in each case.
    pub keeps: Vec<Keeps>,
    /// How many nodes there are.
    pub nodes: usize,
    /// When the run can be forked, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<ForkPoint>,
}

impl Plan {
    /// The last time before a moment at which the run can be forked.
    pub fn fork_before(&self, moment: Moment) -> Option<u64> {
        let is_its = |range: &PointRange| {
            (range.at, range.node) == (moment.at, moment.node)
                && range.positions.contains(&moment.position)
        };
        let range = self.points.iter().position(is_its)?;
        let before = self.forks.iter().rev();
        let mut before = before.filter(|fork| fork.after[range] <= moment.position);
        before.next().map(|fork| fork.time_ns)
    }

    /// The plan of a recovery in such a run.
    pub(crate) fn of_recovery(&self, points: &[PointRange]) -> Self {
        Self {
            points: points.to_vec(),
            first: Vec::new(),
            forks: Vec::new(),
            ..self.clone()
        }
    }

    /// How many points there are.
    fn points(&self) -> u64 {
        let points = self.points.iter().map(|range| range.positions.len() as u64);
        points.sum()
    }

    /// How many faults there are at each.
    fn kinds(&self) -> u64 {
        (self.victims.len() * self.keeps.len()) as u64
    }

    /// All indices, in the order in which faults are tried: those right after an acknowledgement
    /// first, then all others; each time spread over the run, its end first. The kinds take turns.
    pub fn order(&self) -> impl Iterator<Item = u64> + use<> {
        let kinds = self.kinds();
        let early: BTreeSet<_> = self.first.iter().copied().collect();
        let first = spread(self.first.len() as u64).map(|place| self.first[place as usize]);
        let others = spread(self.points()).filter(|point| !early.contains(point));
        let points: Vec<_> = first.chain(others).collect();
        (0..kinds).flat_map(move |round| {
            let turns: Vec<_> = points.iter().copied().zip(0..).collect();
            let index = move |(point, turn): (u64, u64)| point * kinds + (turn + round) % kinds;
            turns.into_iter().map(index)
        })
    }

    /// The number of a point.
    pub fn number(&self, moment: Moment) -> Option<u64> {
        let mut before = 0;
        for range in &self.points {
            let is_here = (range.at, range.node) == (moment.at, moment.node);
            if is_here && range.positions.contains(&moment.position) {
                return Some(before + (moment.position - range.positions.start) as u64);
            }
            before += range.positions.len() as u64;
        }
        None
    }

    /// How many faults there are.
    pub fn len(&self) -> u64 {
        self.points() * self.kinds()
    }

    /// Whether there is nowhere where power can fail.
    pub fn is_without_points(&self) -> bool {
        self.points() == 0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fault with an index, without looking at those before it.
    pub fn fault(&self, index: u64) -> Option<Fault> {
        if index >= self.len() {
            return None;
        }
        // The kinds take turns: at each point all of them stand together.
        let kinds = self.kinds();
        let (mut point, kind) = ((index / kinds) as usize, (index % kinds) as usize);
        let (keeps, victims) = (kind / self.victims.len(), kind % self.victims.len());
        for range in &self.points {
            if let Some(position) = range.positions.clone().nth(point) {
                let when = Moment {
                    at: range.at,
                    node: range.node,
                    position,
                };
                return Some(Fault {
                    when,
                    victims: self.victims_of(self.victims[victims], when),
                    keeps: self.keeps[keeps],
                    left: Vec::new(),
                });
            }
            point -= range.positions.len();
        }
        None
    }

    fn victims_of(&self, victims: Victims, when: Moment) -> Vec<usize> {
        // After acknowledgements each node has its turn, then the next sets of others have theirs.
        let (one, turn) = match when.node {
            Some(node) => (node, mixed(when.position)),
            None => (when.position % self.nodes, when.position / self.nodes),
        };
        match victims {
            Victims::All => (0..self.nodes).collect(),
            Victims::One => vec![one],
            Victims::Several => several(self.nodes, one, turn),
        }
    }
}

/// A number that goes with no other property of a position: at a disk every second request may be a flush.
fn mixed(position: usize) -> usize {
    let mixed = (position as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 33) as usize
}

/// A node and others, in order: with each turn it is one more, until only one node is left, and then the
/// others begin with the next node.
fn several(nodes: usize, one: usize, turn: usize) -> Vec<usize> {
    let others = nodes - 1;
    let (count, first) = (1 + turn % (nodes - 2), turn / (nodes - 2));
    let others = (0..count).map(|place| (one + 1 + (first + place) % others) % nodes);
    let mut victims: Vec<_> = others.chain([one]).collect();
    victims.sort_unstable();
    victims
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let range = |at, node, positions| PointRange {
            at,
            node,
            positions,
        };
        Plan {
            points: vec![
                range(At::Requests, Some(0), 5..7),
                range(At::Frames, Some(0), 5..6),
                range(At::Acks, None, 1..3),
            ],
            first: vec![1, 3],
            victims: vec![Victims::All, Victims::One],
            keeps: vec![Keeps::Flushed, Keeps::Prefix],
            nodes: 3,
            forks: vec![
                ForkPoint {
                    time_ns: 10,
                    after: vec![5, 5, 1],
                },
                ForkPoint {
                    time_ns: 20,
                    after: vec![6, 6, 2],
                },
            ],
        }
    }

    #[test]
    fn a_run_is_forked_as_late_as_it_can_be_before_a_moment() {
        let fork = |at, node, position| plan().fork_before(Moment { at, node, position });
        assert_eq!(fork(At::Requests, Some(0), 5), Some(10));
        assert_eq!(fork(At::Requests, Some(0), 6), Some(20));
        assert_eq!(fork(At::Frames, Some(0), 5), Some(10));
        assert_eq!(fork(At::Acks, None, 2), Some(20));
        assert_eq!(fork(At::Acks, None, 1), Some(10));
        assert_eq!(fork(At::Acks, None, 9), None, "there is no such point");
        let mut late = plan();
        late.forks.remove(0);
        let first = Moment {
            at: At::Acks,
            node: None,
            position: 1,
        };
        assert_eq!(late.fork_before(first), None);
    }

    #[test]
    fn each_index_is_another_fault() {
        let plan = plan();
        let moment = |at, node, position| Moment { at, node, position };
        assert_eq!(plan.number(moment(At::Frames, Some(0), 5)), Some(2));
        assert_eq!(plan.number(moment(At::Acks, None, 1)), Some(3));
        assert_eq!(plan.number(moment(At::Acks, None, 3)), None);
        assert_eq!(plan.len(), 20);
        let all = (0..20).map(|index| plan.fault(index).expect("one of them"));
        let distinct: BTreeSet<_> = all
            .map(|fault| (fault.when, fault.victims, fault.keeps))
            .collect();
        assert_eq!(distinct.len(), 20);
        assert!(
            distinct
                .iter()
                .all(|(when, ..)| plan.number(*when).is_some())
        );
        assert_eq!(plan.fault(20), None);
        let last = plan.fault(19).expect("the last");
        assert_eq!((last.when.node, last.victims), (None, vec![2]));
        let first = plan.fault(0).expect("the first");
        assert_eq!(
            (first.victims, first.keeps),
            (vec![0, 1, 2], Keeps::Flushed)
        );
    }

    #[test]
    fn several_are_one_node_and_all_choices_of_neighbours_but_all() {
        let pairs: Vec<_> = (0..4).map(|turn| several(3, 1, turn)).collect();
        assert_eq!(pairs, [[1, 2], [0, 1], [1, 2], [0, 1]]);
        let of_five: BTreeSet<_> = (0..12).map(|turn| several(5, 3, turn)).collect();
        assert_eq!(of_five.len(), 12);
        for victims in of_five {
            assert!(
                victims.contains(&3) && (2..5).contains(&victims.len()),
                "{victims:?}"
            );
            assert!(victims.windows(2).all(|two| two[0] < two[1]), "{victims:?}");
            assert_eq!(Victims::of(victims.len(), 5), Victims::Several);
        }
        // Of four nodes there are six pairs and four triples.
        let mut of_four = Plan {
            victims: vec![Victims::Several],
            nodes: 4,
            ..plan()
        };
        let sets = |plan: &Plan, at, node| -> BTreeSet<_> {
            let moments = (0..200).map(|position| Moment { at, node, position });
            moments
                .map(|when| plan.victims_of(Victims::Several, when))
                .collect()
        };
        assert_eq!(
            sets(&of_four, At::Acks, None).len(),
            10,
            "each pair and each triple"
        );
        assert_eq!(sets(&of_four, At::Requests, Some(2)).len(), 6);
        of_four.nodes = 3;
        let even = (0..200).step_by(2).map(|position| Moment {
            at: At::Requests,
            node: Some(0),
            position,
        });
        let before_even: BTreeSet<_> = even
            .map(|when| of_four.victims_of(Victims::Several, when))
            .collect();
        assert_eq!(before_even.len(), 2);
    }

    #[test]
    fn each_fault_is_tried_once_and_each_point_before_any_is_tried_again() {
        let order: Vec<_> = plan().order().collect();
        let tried: BTreeSet<_> = order.iter().copied().collect();
        assert_eq!((order.len(), tried.len()), (20, 20), "each is tried once");
        let kinds: BTreeSet<_> = order[..4].iter().map(|index| index % 4).collect();
        assert_eq!(kinds.len(), 4, "kinds take turns");
        let points: BTreeSet<_> = order[..5].iter().map(|index| index / 4).collect();
        assert_eq!(points.len(), 5, "each point comes before any comes again");
    }
}
