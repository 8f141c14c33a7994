//! In which ways the nodes of a tuple lose something, each with a number.

use std::collections::BTreeMap;

use itertools::Itertools;

use super::choice::Choice;
use super::choices::Choices;
use crate::nodes::operations::Operations;
use crate::nodes::rules::Rule;
use crate::nodes::space::Space;

/// In which ways the nodes of a tuple lose something.
pub(super) enum Ways<'a> {
    One,
    /// What each node loses, for each way.
    Listed(Vec<Vec<Choice>>),
    /// Each loses something or nothing; not all of them nothing, if that is not said.
    Each {
        choices: Vec<Choices<'a>>,
        nothing_too: bool,
    },
    /// Sets of choices, of which each node takes one.
    Alike(Vec<Vec<Vec<Choice>>>),
}

impl Ways<'_> {
    /// Way number `number`: what each of so many nodes loses.
    pub(super) fn pick(&self, number: u64, nodes: usize) -> Vec<Choice> {
        match self {
            Self::One => vec![Choice::NOTHING; nodes],
            Self::Listed(ways) => ways[number as usize].clone(),
            Self::Each {
                choices,
                nothing_too,
            } => each(choices, number + u64::from(!nothing_too)),
            Self::Alike(alike) => pick(alike, number),
        }
    }
}

/// In which ways the nodes of a rule lose the same, all that are relaxed.
pub(super) fn alike<'a>(
    space: &'a Space,
    rule: &'a Rule,
    choices: &[Vec<Choice>],
) -> impl Iterator<Item = Vec<Vec<Choice>>> + 'a {
    let mut kinds: BTreeMap<Vec<u32>, Vec<Vec<Choice>>> = BTreeMap::new();
    for (place, of_node) in choices.iter().enumerate() {
        let operations = &space.nodes()[rule.nodes[place]].operations;
        for choice in of_node {
            kinds
                .entry(kind(operations, choice))
                .or_insert_with(|| vec![Vec::new(); rule.nodes.len()])[place]
                .push(choice.clone());
        }
    }
    kinds.into_values().filter_map(|mut choices| {
        for (of_node, node) in choices.iter_mut().zip(&rule.nodes) {
            if !rule.relaxed.contains(node) {
                of_node.push(Choice::NOTHING);
            }
        }
        let of_all = choices.iter().all(|of_node| !of_node.is_empty());
        of_all.then_some(choices)
    })
}

/// What makes choices of several nodes alike.
fn kind(operations: &Operations, choice: &Choice) -> Vec<u32> {
    let of_each = |lost: &[usize]| -> Vec<u32> {
        let likenesses = lost.iter().map(|lost| operations.all[*lost].likeness);
        likenesses.sorted_unstable().collect()
    };
    match choice {
        Choice::Operations { lost, .. } => of_each(lost),
        Choice::Half { operation, .. } => vec![operations.all[*operation].likeness, u32::MAX],
        Choice::Tear {
            operation,
            tear,
            lost,
            ..
        } => {
            let mut kind = of_each(lost);
            let own = operations.all[*operation].likeness;
            kind.extend([own, u32::MAX - 1 - *tear as u32]);
            kind
        }
        Choice::Group(group) => {
            let operation = &operations.all[operations.groups[*group].operation()];
            vec![
                operation.likeness,
                (group - operation.groups().start) as u32,
            ]
        }
        Choice::AtOnce { .. } => unreachable!("what is lost at once has a section of its own"),
    }
}

pub(super) fn product(factors: impl Iterator<Item = u64>) -> u64 {
    factors.fold(1, u64::saturating_mul)
}

/// Choice number `number` of all in which each node loses something or nothing.
fn each(choices: &[Choices<'_>], number: u64) -> Vec<Choice> {
    let mut rest = number;
    let mut of_node = |of_node: &Choices<'_>| {
        let radix = 1 + of_node.len();
        let digit = rest % radix;
        rest /= radix;
        digit
            .checked_sub(1)
            .map_or(Choice::NOTHING, |place| of_node.nth(place))
    };
    choices.iter().map(&mut of_node).collect()
}

/// Choice number `number` of sets of choices, of which each node takes one.
fn pick(alike: &[Vec<Vec<Choice>>], number: u64) -> Vec<Choice> {
    let mut rest = number;
    for choices in alike {
        let count = product(choices.iter().map(|of_node| of_node.len() as u64));
        if rest >= count {
            rest -= count;
            continue;
        }
        let mut of_node = |of_node: &Vec<Choice>| {
            let digit = rest % of_node.len() as u64;
            rest /= of_node.len() as u64;
            of_node[digit as usize].clone()
        };
        return choices.iter().map(&mut of_node).collect();
    }
    unreachable!("the number is less than all of them together")
}
