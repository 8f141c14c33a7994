//! The order in which relations are evaluated: what depends on itself together, and nothing before
//! what it rests on.

use std::collections::BTreeSet;

use crate::problem::{Problem, Wrong};
use crate::program::{Relation, Rule};

/// The relations of rules, in groups of those that depend on each other.
pub(crate) fn strata(relations: &[Relation], rules: &[Rule]) -> Result<Vec<Vec<usize>>, Problem> {
    let reach = reach(&needs(relations.len(), rules));
    let depend_on_each_other =
        |one: usize, other: usize| reach[one].contains(&other) && reach[other].contains(&one);
    for rule in rules {
        refuse_unstratified(relations, rule, &depend_on_each_other)?;
    }
    let mut left: Vec<usize> = (0..relations.len())
        .filter(|id| !relations[*id].is_input())
        .collect();
    let mut strata = Vec::new();
    // The one that rests on the fewest, itself among them, cannot need one that is left, but those of
    // its own group.
    left.sort_by_key(|id| reach[*id].len() + usize::from(!reach[*id].contains(id)));
    while let Some(first) = left.first().copied() {
        let is_of_group = |id: &usize| *id == first || depend_on_each_other(first, *id);
        let (group, rest) = left.into_iter().partition(is_of_group);
        strata.push(group);
        left = rest;
    }
    Ok(strata)
}

/// Of each relation those that its rules ask for.
fn needs(relations: usize, rules: &[Rule]) -> Vec<BTreeSet<usize>> {
    let mut needs = vec![BTreeSet::new(); relations];
    for rule in rules {
        let atoms = rule.atoms.iter().chain(&rule.absent);
        needs[rule.relation].extend(atoms.map(|atom| atom.relation));
    }
    needs
}

/// Of each relation all those that it needs, directly or not.
fn reach(needs: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let from = |id: usize| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<usize> = needs[id].iter().copied().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(&needs[next]);
            }
        }
        seen
    };
    (0..needs.len()).map(from).collect()
}

/// What is absent, or counted, has to be known before.
fn refuse_unstratified(
    relations: &[Relation],
    rule: &Rule,
    depends: &dyn Fn(usize, usize) -> bool,
) -> Result<(), Problem> {
    let name = &relations[rule.relation].name;
    let refused = |at, how: &str, other: usize| {
        let other = &relations[other].name;
        let what = format!(
            "{name} {how} {other}, which depends on {name}: whether {other} holds cannot be known \
             before {name} is. Define one of them without the other"
        );
        Err(Wrong::new(at, what).in_source(&rule.source, Some(name)))
    };
    let within = |id: usize| depends(rule.relation, id);
    if let Some(atom) = rule.absent.iter().find(|atom| within(atom.relation)) {
        return refused(atom.at, "needs the absence of", atom.relation);
    }
    let counted = rule.atoms.iter().find(|atom| within(atom.relation));
    match counted.filter(|_| rule.is_aggregate()) {
        Some(atom) => refused(atom.at, "is an aggregate over", atom.relation),
        None => Ok(()),
    }
}
