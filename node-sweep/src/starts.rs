//! In which order the nodes of a cluster are started on a crash state.

use std::collections::BTreeSet;
use std::path::Path;

use clap::ValueEnum;
use cluster::ClusterFile;
use pace_rules::nodes::StartOrder;
use serde::{Deserialize, Serialize};
use trace_store::Trace;

use crate::tree::Fingerprint;

/// In which order the nodes are started on a state.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// All nodes at once, except as `after` says
    #[default]
    Together,
    /// First the nodes that lost something, then the others
    LostFirst,
    /// First the nodes that lost nothing, then the others
    LostLast,
}

impl Start {
    /// To the rules.
    pub(crate) fn order(self) -> StartOrder {
        match self {
            Self::Together => StartOrder::Together,
            Self::LostFirst => StartOrder::LostFirst,
            Self::LostLast => StartOrder::LostLast,
        }
    }

    /// As results have it.
    pub fn of(order: StartOrder) -> Self {
        match order {
            StartOrder::Together => Self::Together,
            StartOrder::LostFirst => Self::LostFirst,
            StartOrder::LostLast => Self::LostLast,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The order that sweeps had which did not say.
    pub(crate) fn usual() -> Vec<Self> {
        vec![Self::Together]
    }

    /// Whether it is that one.
    pub(crate) fn are_usual(starts: &[Self]) -> bool {
        starts == Self::usual()
    }
}

/// Nodes of a run that are started before others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Turns {
    /// These are waited for.
    pub first: Vec<usize>,
    /// These wait.
    pub later: Vec<usize>,
}

impl Turns {
    /// A key of what is started so, if that has this one.
    pub(crate) fn key(&self, of: Fingerprint) -> Fingerprint {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&of);
        for nodes in [&self.first, &self.later] {
            for number in std::iter::once(&nodes.len()).chain(nodes) {
                hasher.update(&(*number as u64).to_le_bytes());
            }
        }
        *hasher.finalize().as_bytes()
    }
}

/// Which nodes the cluster file has start after which others.
#[derive(Debug, Default)]
pub(crate) struct Afters {
    /// For each node of the run, all that it waits for in any case.
    after: Vec<BTreeSet<usize>>,
}

impl Afters {
    /// Those of the cluster of a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let nodes = &trace.run.nodes;
        let mut after = vec![BTreeSet::new(); nodes.len()];
        let parsed = trace.about.cluster.as_ref().and_then(|text| {
            // Neither programs nor places are looked for. Who starts a cluster has said what is
            // wrong with its file.
            ClusterFile::parse(text, Path::new("the trace"), Path::new("/")).ok()
        });
        let Some(file) = parsed else {
            return Self { after };
        };
        let place = |name: &str| nodes.iter().position(|node| node.name == name);
        // As often as it can take to come from the first to the last.
        for _ in &file.nodes {
            for node in &file.nodes {
                let Some(own) = place(&node.name) else {
                    continue;
                };
                let others = node.after.iter().map(|other| &file.nodes[*other].name);
                for other in others.filter_map(|name| place(name)) {
                    let all = after[other].clone();
                    after[own].extend(all);
                    after[own].insert(other);
                }
            }
        }
        Self { after }
    }

    /// Who is started before whom; none if that is as if all were started together. `nodes` are
    /// those that have disks, each with whether it lost something.
    pub(crate) fn turns(
        &self,
        order: StartOrder,
        nodes: impl IntoIterator<Item = (usize, bool)>,
    ) -> Option<Turns> {
        let (mut first, later) = order.divide(nodes)?;
        first.retain(|node| later.iter().all(|later| !self.after[*node].contains(later)));
        let waits_anyway =
            |later: &usize| first.iter().all(|first| self.after[*later].contains(first));
        // Of none that are first it would be true.
        let is_as_ever = later.iter().all(waits_anyway);
        (!is_as_ever).then_some(Turns { first, later })
    }
}

#[cfg(test)]
mod tests {
    use trace::{InitialFile, Node};

    use super::*;

    /// Who comes first in a cluster with these lines in the tables of its nodes a, b and c, if
    /// only the first of them lost something.
    fn first_of(lines: [&str; 3], order: StartOrder) -> Option<(Vec<usize>, Vec<usize>)> {
        let mut trace = Trace::default();
        let mut text = String::new();
        for (name, line) in ["a", "b", "c"].into_iter().zip(lines) {
            text += &format!("[[nodes]]\nname = '{name}'\ncommand = 'true'\n{line}\n");
            trace.run.nodes.push(Node {
                name: name.into(),
                initial: vec![InitialFile::empty_root()],
                events: Vec::new(),
            });
        }
        trace.about.cluster = Some(text);
        let turns = Afters::of(&trace).turns(order, [(0, true), (1, false), (2, false)]);
        turns.map(|turns| (turns.first, turns.later))
    }

    #[test]
    fn what_the_file_has_in_after_comes_first() {
        use StartOrder::{LostFirst, LostLast, Together};
        let free = ["", "", ""];
        assert_eq!(first_of(free, Together), None);
        assert_eq!(first_of(free, LostFirst), Some((vec![0], vec![1, 2])));
        assert_eq!(first_of(free, LostLast), Some((vec![1, 2], vec![0])));
        // It cannot be before another one that it is after, by a third one or not.
        assert_eq!(first_of(["after = ['b']", "", ""], LostFirst), None);
        let chain = ["after = ['b']", "after = ['c']", ""];
        assert_eq!(first_of(chain, LostFirst), None);
        // It would come last anyway.
        assert_eq!(first_of(chain, LostLast), None);
        assert_eq!(
            first_of(["after = ['b']", "", ""], LostLast),
            Some((vec![1, 2], vec![0]))
        );
        // All others come after it anyway.
        let leader = ["", "after = ['a']", "after = ['b']"];
        assert_eq!(first_of(leader, LostFirst), None);
        assert_eq!(first_of(leader, LostLast), None);
        // Only one of two can be first.
        let one = ["", "after = ['a']", ""];
        assert_eq!(first_of(one, LostLast), Some((vec![2], vec![0])));
    }

    #[test]
    fn the_key_tells_who_is_first() {
        let turns = |first: &[usize], later: &[usize]| {
            let (first, later) = (first.to_vec(), later.to_vec());
            Turns { first, later }.key([7; 32])
        };
        let keys = [
            [7; 32],
            turns(&[0], &[1, 2]),
            turns(&[1, 2], &[0]),
            turns(&[0, 1], &[2]),
            turns(&[0], &[1]),
        ];
        assert_eq!(BTreeSet::from(keys).len(), keys.len());
    }
}
