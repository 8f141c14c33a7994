//! Which failures there are: all of them have an index.

use std::collections::BTreeSet;
use std::ops::Range;

use campaign::spread;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Whose power fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Victims {
    /// All nodes, at one instant
    All,
    /// The node that is asking its disk, after an acknowledgement each in turn; the others go on
    One,
}

/// What the disks of the victims keep of what no flush covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeps {
    /// Nothing of it: what a disk does whose cache is lost
    Flushed,
    /// All of it
    Prefix,
    /// Each write of it or not, as the seed says
    Some,
}

/// Where power can fail while the client runs: before a request of a node to its disk, or right
/// after an acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointRange {
    /// The node's index in the cluster file; none if these are acknowledgements.
    pub node: Option<usize>,
    /// The lengths of the log of its disk before each request, or how many acknowledgements there
    /// are.
    pub positions: Range<usize>,
}

/// A power failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The node before whose request it is; none if it is right after an acknowledgement.
    pub node: Option<usize>,
    /// How many entries the log of its disk has then, or how many acknowledgements there are.
    pub position: usize,
    /// Whose power fails.
    pub victims: Victims,
    /// What is kept.
    pub keeps: Keeps,
}

impl Failure {
    /// The nodes whose power fails, of so many.
    pub fn victims(&self, nodes: usize) -> Vec<usize> {
        match (self.victims, self.node) {
            (Victims::All, _) => (0..nodes).collect(),
            (Victims::One, Some(node)) => vec![node],
            (Victims::One, None) => vec![self.position % nodes],
        }
    }
}

/// All failures of one run of a cluster.
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
}

impl Plan {
    /// How many points there are.
    fn points(&self) -> u64 {
        let points = self.points.iter().map(|range| range.positions.len() as u64);
        points.sum()
    }

    /// All indices, in the order in which failures are tried: those right after an acknowledgement
    /// first, then all others; each time spread over the run, its end first. The kinds take turns.
    pub fn order(&self) -> impl Iterator<Item = u64> {
        let kinds = (self.victims.len() * self.keeps.len()) as u64;
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
    pub fn number(&self, node: Option<usize>, position: usize) -> Option<u64> {
        let mut before = 0;
        for range in &self.points {
            if range.node == node && range.positions.contains(&position) {
                return Some(before + (position - range.positions.start) as u64);
            }
            before += range.positions.len() as u64;
        }
        None
    }

    /// How many failures there are.
    pub fn len(&self) -> u64 {
        self.points() * (self.victims.len() * self.keeps.len()) as u64
    }

    /// Whether there is nowhere where power can fail.
    pub fn is_without_points(&self) -> bool {
        self.points() == 0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The failure with an index, without looking at those before it.
    pub fn failure(&self, index: u64) -> Option<Failure> {
        if index >= self.len() {
            return None;
        }
        // The kinds take turns: at each point all of them stand together.
        let kinds = (self.victims.len() * self.keeps.len()) as u64;
        let (mut point, kind) = ((index / kinds) as usize, (index % kinds) as usize);
        let (keeps, victims) = (kind / self.victims.len(), kind % self.victims.len());
        for range in &self.points {
            if let Some(position) = range.positions.clone().nth(point) {
                return Some(Failure {
                    node: range.node,
                    position,
                    victims: self.victims[victims],
                    keeps: self.keeps[keeps],
                });
            }
            point -= range.positions.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_is_another_failure() {
        let plan = Plan {
            points: vec![
                PointRange {
                    node: Some(0),
                    positions: 5..8,
                },
                PointRange {
                    node: None,
                    positions: 0..2,
                },
            ],
            first: vec![1, 3],
            victims: vec![Victims::All, Victims::One],
            keeps: vec![Keeps::Flushed, Keeps::Prefix],
        };
        assert_eq!(
            (plan.number(None, 0), plan.number(None, 2)),
            (Some(3), None)
        );
        assert_eq!(plan.len(), 20);
        let all = (0..20).map(|index| plan.failure(index).expect("one of them"));
        let distinct: BTreeSet<_> = all
            .map(|failure| {
                (
                    failure.node,
                    failure.position,
                    failure.victims,
                    failure.keeps,
                )
            })
            .collect();
        assert_eq!(distinct.len(), 20);
        assert!(distinct.iter().all(|(node, position, ..)| match node {
            Some(node) => *node == 0 && (5..8).contains(position),
            None => *position < 2,
        }));
        assert_eq!(plan.failure(20), None);
        let last = plan.failure(19).expect("the last");
        assert_eq!((last.node, last.victims), (None, Victims::One));
        assert_eq!(last.victims(3), [1]);
        let order: Vec<_> = plan.order().collect();
        let tried: BTreeSet<_> = order.iter().copied().collect();
        assert_eq!((order.len(), tried.len()), (20, 20), "each is tried once");
        let kinds: BTreeSet<_> = order[..4].iter().map(|index| index % 4).collect();
        assert_eq!(kinds.len(), 4, "kinds take turns");
        let points: BTreeSet<_> = order[..5].iter().map(|index| index / 4).collect();
        assert_eq!(
            points.len(),
            5,
            "each point is tried before any is tried again"
        );
        let first = plan.failure(0).expect("the first");
        assert_eq!((first.victims, first.keeps), (Victims::All, Keeps::Flushed));
        assert_eq!(first.victims(3), [0, 1, 2]);
    }
}
