//! Which nodes lose something together: PACE's exploration rules, and all there are.

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
}

/// How the nodes of a rule are relaxed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// All in the same way.
    Alike,
    /// Each as it can be, or not at all.
    Each,
}

/// The rules of an exploration of these nodes, which have files.
pub(super) fn rules(explore: Explore, with_files: &[usize]) -> Result<Vec<Rule>, Error> {
    if with_files.is_empty() {
        return Err(Error::NoFiles);
    }
    let alike = |name: String, nodes: &[usize], relaxed: &[usize], prefix: bool| Rule {
        name,
        nodes: nodes.into(),
        relaxed: relaxed.into(),
        how: How::Alike,
        alone: Vec::new(),
        prefix,
    };
    let count = with_files.len();
    Ok(match explore {
        Explore::ReplicatedStateMachine { majority } => {
            let majority = if majority == 0 {
                count / 2 + 1
            } else {
                majority
            };
            let relaxed = with_files
                .get(..majority)
                .ok_or(Error::Majority(majority, count))?;
            let name = if count == 1 {
                "the node".into()
            } else {
                format!("a majority, {majority} of {count}")
            };
            let alone = if majority > 1 { relaxed } else { &[] };
            vec![Rule {
                alone: alone.into(),
                ..alike(name, relaxed, relaxed, true)
            }]
        }
        Explore::PrimaryReplicas { primary } => {
            if !with_files.contains(&primary) {
                return Err(Error::Primary(primary));
            }
            let replica = with_files.iter().copied().find(|node| *node != primary);
            let has_no_rule = |node: &usize| *node != primary && Some(*node) != replica;
            let mut rules = vec![Rule {
                alone: with_files.iter().copied().filter(has_no_rule).collect(),
                ..alike("all nodes".into(), with_files, with_files, true)
            }];
            if let Some(replica) = replica {
                rules.push(alike("the primary".into(), &[primary], &[primary], false));
                rules.push(alike("a replica".into(), &[replica], &[replica], false));
            }
            rules
        }
        Explore::SameOnAll => {
            // From all of them down to each alone.
            let sets = (1..1_usize << count).rev();
            let of = |set: usize| -> Vec<_> {
                (0..count)
                    .filter(|bit| set >> bit & 1 == 1)
                    .map(|bit| with_files[bit])
                    .collect()
            };
            let rule = |set| {
                let relaxed = of(set);
                alike(
                    format!("{} of {count} nodes: {}", relaxed.len(), words(&relaxed)),
                    with_files,
                    &relaxed,
                    relaxed.len() == count,
                )
            };
            sets.map(rule).collect()
        }
        Explore::BruteForce => vec![Rule {
            how: How::Each,
            ..alike("all nodes".into(), with_files, with_files, true)
        }],
    })
}

fn words(nodes: &[usize]) -> String {
    nodes
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
