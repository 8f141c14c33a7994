//! Which nodes lose something together: PACE's exploration rules, and all there are.

use itertools::Itertools;
use trace::Node;

use super::space::{Error, Explore};

/// A set of nodes whose places are tried in all ways, and those of them that lose something.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// Its name in tables.
    pub(super) name: String,
    /// The nodes whose places are tried. All others have what they have in the greatest cut.
    pub(super) nodes: Vec<usize>,
    /// Those that are relaxed, all of them at once.
    pub(super) relaxed: Vec<usize>,
    /// How.
    pub(super) how: How,
    /// Of those, the ones that lose alone what they can at no time lose together with the others:
    /// no other rule relaxes them alone.
    pub(super) alone: Vec<usize>,
    /// Whether states in which all that had happened is there are this rule's to visit.
    pub(super) prefix: bool,
    /// Whether it has no states but those that lose at once what nothing had made durable: all others
    /// of all nodes would be as many as there are places of each.
    pub(super) only_at_once: bool,
}

/// How the nodes of a rule are relaxed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// All in the same way.
    Alike,
    /// Each as it can be, or not at all.
    Each,
}

/// The rules of an exploration of some of all nodes, which have files.
pub(super) fn rules(
    explore: Explore,
    all: &[Node],
    with_files: &[usize],
) -> Result<Vec<Rule>, Error> {
    if with_files.is_empty() {
        return Err(Error::NoFiles);
    }
    Ok(match explore {
        Explore::ReplicatedStateMachine { majority } => of_majorities(majority, all, with_files)?,
        Explore::PrimaryReplicas { primary } => of_primary(primary, with_files)?,
        Explore::SameOnAll => of_subsets(all, with_files),
        Explore::BruteForce => vec![Rule {
            how: How::Each,
            ..Rule::of_all(with_files)
        }],
    })
}

impl Rule {
    /// That these nodes are relaxed alike, where the places of those are tried.
    fn alike(name: String, nodes: &[usize], relaxed: &[usize], prefix: bool) -> Self {
        Self {
            name,
            nodes: nodes.into(),
            relaxed: relaxed.into(),
            how: How::Alike,
            alone: Vec::new(),
            prefix,
            only_at_once: false,
        }
    }

    fn of_all(nodes: &[usize]) -> Self {
        Self::alike("all nodes".into(), nodes, nodes, true)
    }
}

/// How many nodes are a majority, where 0 stands for more than half.
pub(super) fn majority_of(count: usize, wanted: usize) -> usize {
    if wanted == 0 { count / 2 + 1 } else { wanted }
}

/// The majorities that lose something together: as many as there are nodes, each beginning with another
/// one. Nodes do not do the same where one of them leads, and which one does is not known: each is in
/// some of these majorities, and not in all of them.
pub(super) fn majorities(
    majority: usize,
    nodes: &[usize],
) -> Result<Vec<Vec<usize>>, (usize, usize)> {
    let count = nodes.len();
    let majority = majority_of(count, majority);
    if majority > count {
        return Err((majority, count));
    }
    let from = |first: usize| {
        let all = nodes.iter().copied().cycle().skip(first);
        all.take(majority).sorted_unstable().collect()
    };
    let sets = if majority == count { 1 } else { count };
    Ok((0..sets).map(from).collect())
}

/// The majorities. Where it is not said how many nodes are one, also each node alone, and all of them at
/// once: a majority says nothing of nodes that do not do the same, or of what any one of them may keep.
fn of_majorities(wanted: usize, all: &[Node], with_files: &[usize]) -> Result<Vec<Rule>, Error> {
    let count = with_files.len();
    let has_others = wanted == 0 && count > 1;
    let sets = majorities(wanted, with_files);
    let sets = sets.map_err(|(majority, count)| Error::Majority(majority, count))?;
    let mut known = Vec::new();
    let mut rules = Vec::new();
    for relaxed in sets {
        let majority = relaxed.len();
        let name = match (count, majority == count) {
            (1, _) => "the node".into(),
            (_, true) => format!("a majority, {majority} of {count}"),
            (_, false) => format!(
                "a majority, {majority} of {count}: {}",
                words(all, &relaxed)
            ),
        };
        // Each loses alone what it can only lose alone, once.
        let alone = relaxed.iter().filter(|node| !known.contains(*node));
        let alone = alone.copied().filter(|_| majority > 1 && !has_others);
        let alone: Vec<_> = alone.collect();
        known.extend(&relaxed);
        rules.push(Rule {
            alone,
            ..Rule::alike(name, &relaxed, &relaxed, rules.is_empty())
        });
    }
    if has_others {
        rules.extend(beside_majorities(all, with_files));
    }
    Ok(rules)
}

/// Each node alone, and all of them at once if they are no majority.
fn beside_majorities<'a>(
    all: &'a [Node],
    with_files: &'a [usize],
) -> impl Iterator<Item = Rule> + use<'a> {
    let count = with_files.len();
    let alone = with_files.iter().map(move |node| {
        let name = format!("1 of {count}: {}", words(all, &[*node]));
        Rule::alike(name, &[*node], &[*node], false)
    });
    let at_once = || Rule {
        only_at_once: true,
        prefix: false,
        ..Rule::of_all(with_files)
    };
    alone.chain((majority_of(count, 0) < count).then(at_once))
}

/// All nodes, the primary, and one of the replicas.
fn of_primary(primary: usize, with_files: &[usize]) -> Result<Vec<Rule>, Error> {
    if !with_files.contains(&primary) {
        return Err(Error::Primary(primary));
    }
    let replica = with_files.iter().copied().find(|node| *node != primary);
    let has_no_rule = |node: &usize| *node != primary && Some(*node) != replica;
    let mut rules = vec![Rule {
        alone: with_files.iter().copied().filter(has_no_rule).collect(),
        ..Rule::of_all(with_files)
    }];
    if let Some(replica) = replica {
        let alone = |name: &str, node| Rule::alike(name.into(), &[node], &[node], false);
        rules.push(alone("the primary", primary));
        rules.push(alone("a replica", replica));
    }
    Ok(rules)
}

/// All sets of nodes, from all of them down to each alone.
fn of_subsets(all: &[Node], with_files: &[usize]) -> Vec<Rule> {
    let count = with_files.len();
    let rule = |set: usize| {
        let relaxed: Vec<_> = (0..count)
            .filter(|bit| set >> bit & 1 == 1)
            .map(|bit| with_files[bit])
            .collect();
        let name = format!(
            "{} of {count} nodes: {}",
            relaxed.len(),
            words(all, &relaxed)
        );
        Rule::alike(name, with_files, &relaxed, relaxed.len() == count)
    };
    (1..1_usize << count).rev().map(rule).collect()
}

/// The names of some of all nodes.
fn words(all: &[Node], nodes: &[usize]) -> String {
    nodes.iter().map(|node| &all[*node].name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_in_some_majorities_and_not_in_all() {
        let nodes = [1, 2, 4, 5, 7];
        let five = majorities(0, &nodes).expect("there are majorities");
        assert_eq!(five.len(), 5);
        for node in nodes {
            let with = five.iter().filter(|set| set.contains(&node)).count();
            assert_eq!(with, 3, "{node}");
        }
        let two = majorities(2, &nodes[..3]).expect("there are majorities");
        assert_eq!(two, [[1, 2], [2, 4], [1, 4]]);
        let all = majorities(3, &nodes[..3]).expect("there is one");
        assert_eq!(all, [[1, 2, 4]]);
        assert_eq!(majorities(4, &nodes[..3]), Err((4, 3)));
    }
}
