//! All crash states of a run that are to be visited, each with a number.

use super::cuts::Clocks;
use super::micro::{Micro, Micros, Split};
use super::model::Model;
use super::{Action, Run};

/// Which nodes are relaxed, and together with which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explore {
    /// PACE's rule for replicated state machines: the first so many nodes with files are relaxed, all
    /// at once and in the same way; the others stand for any. 0 is a majority of them.
    ReplicatedStateMachine {
        /// How many.
        majority: usize,
    },
    /// PACE's rules for a primary with replicas: the primary alone (r3), one replica (r4), all nodes
    /// in the same way (r5).
    PrimaryReplicas {
        /// The primary, as an index into the run's nodes.
        primary: usize,
    },
    /// Every set of nodes, each with all that it could have lost.
    BruteForce,
    /// Every set of nodes, each in the same way: what PACE calls brute force.
    SameOnAll,
}

/// Which states to visit besides others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of them without the others")]
pub struct Relaxations {
    /// All that had happened.
    pub prefix: bool,
    /// Without some of the operations.
    pub lost: bool,
    /// Without a part of the last append or change of size.
    pub cut: bool,
    /// The last operation stopped midway.
    pub stopped: bool,
}

impl Relaxations {
    /// Those of PACE.
    pub const ALL: Self = Self { prefix: true, lost: true, cut: true, stopped: true };
}

impl Default for Relaxations {
    fn default() -> Self {
        Self::ALL
    }
}

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What a node's file system may keep.
    pub model: &'static Model,
    /// Which nodes are relaxed.
    pub explore: Explore,
    /// How many operations a node loses at most; those that cannot be kept without them are not
    /// counted.
    pub lost: usize,
    /// How writes are torn.
    pub split: Split,
    /// Which states to visit.
    pub relaxations: Relaxations,
}

/// What a crash did to the operations of the relaxed nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relaxation {
    /// Nothing: all that had happened is there.
    Prefix,
    /// The last operation was stopped midway.
    Stopped,
    /// A part of the last append or change of size is missing.
    Cut,
    /// Operations are missing.
    Lost,
}

/// How many states there are of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Which nodes were relaxed, by whose rule.
    pub rule: String,
    /// How.
    pub relaxation: Relaxation,
    /// How many states; `u64::MAX` stands for that many or more.
    pub states: u64,
}

/// What is on the nodes' disks after a crash of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// For each node: so many of its events had happened.
    pub cut: Vec<usize>,
    /// What of them is on its disk.
    pub nodes: Vec<NodeState>,
    /// What was done to them.
    pub relaxation: Relaxation,
    /// The nodes to which it was done, ascending.
    pub relaxed: Vec<usize>,
}

/// What is on one node's disk: its initial files, and the effects of micros on them, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeState {
    /// The first so many micros of the node…
    pub micros: usize,
    /// …but for these, ascending.
    pub lost: Vec<usize>,
}

/// Why there are no states to visit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A node that does not exist or has no files.
    #[error("node {0} has no files: name one with a data directory as the primary")]
    Primary(usize),
    /// More nodes than there are.
    #[error("a majority of {0} nodes, where {1} have files: ask for fewer")]
    Majority(usize, usize),
    /// Nothing to crash.
    #[error("no node has files: record at least one with a data directory")]
    NoFiles,
}

/// The crash states of a run.
#[derive(Debug, Clone)]
pub struct Space {
    micros: Vec<Micros>,
    cuts: Vec<Vec<usize>>,
}

impl Space {
    /// The states of a run.
    ///
    /// # Errors
    /// If what is wanted does not fit the run.
    pub fn new(run: &Run, request: &Request) -> Result<Self, Error> {
        let clocks = Clocks::of(run);
        let micros: Vec<_> = run.nodes.iter().map(|node| Micros::of(node, request.model, request.split)).collect();
        let mut cuts: Vec<Vec<usize>> = vec![Vec::new()];
        for (number, node) in run.nodes.iter().enumerate() {
            let matters = |event: &usize| match &node.events[*event].action {
                Action::File(_) => !micros[number].groups[*event].is_empty(),
                Action::Mark { .. } => true,
                _ => false,
            };
            let relevant: Vec<_> =
                std::iter::once(0).chain((0..node.events.len()).filter(matters).map(|event| event + 1)).collect();
            cuts = cuts
                .iter()
                .flat_map(|cut| relevant.iter().map(move |events| [cut.as_slice(), &[*events]].concat()))
                .collect();
        }
        let mut least: Vec<_> = cuts
            .iter()
            .map(|cut| {
                let mut all = vec![0; cut.len()];
                for (node, events) in cut.iter().enumerate() {
                    super::cuts::join(&mut all, clocks.least(node, *events));
                }
                all
            })
            .collect();
        least.sort_by_key(|cut| (cut.iter().sum::<usize>(), cut.clone()));
        least.dedup();
        Ok(Self { micros, cuts: least })
    }

    /// How many there are; `u64::MAX` stands for that many or more.
    pub fn len(&self) -> u64 {
        self.cuts.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are of each kind, in the order of the states.
    pub fn counts(&self) -> Vec<Count> {
        vec![Count { rule: "all nodes".into(), relaxation: Relaxation::Prefix, states: self.len() }]
    }

    /// State number `index`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn state(&self, index: u64) -> State {
        let cut = self.cuts[index as usize].clone();
        let node =
            |(node, events): (usize, &usize)| NodeState { micros: self.micros[node].until(*events), lost: Vec::new() };
        State {
            nodes: cut.iter().enumerate().map(node).collect(),
            cut,
            relaxation: Relaxation::Prefix,
            relaxed: vec![],
        }
    }

    /// The numbers of some of the states, ascending, none of them twice; each choice is as likely as
    /// any other.
    pub fn sample(&self, size: u64, seed: u64) -> Vec<u64> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        crate::sample::draw(size, self.len().into(), seed).into_iter().map(|number| number as u64).collect()
    }

    /// A node's operations, cut into what can persist alone, in order.
    pub fn micros(&self, node: usize) -> &[Micro] {
        &self.micros[node].all
    }
}
