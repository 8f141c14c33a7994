//! Whether every variable of a rule is bound, and in which order its conditions bind them.

use std::collections::{BTreeMap, BTreeSet};

use crate::parse::{PARTS_MAX, too_long};
use crate::problem::{Checked, Position, Wrong};
use crate::program::{Atom, Head, Rule};
use crate::syntax::{Comparison, Condition, Expression, Term};

/// Orders the conditions of a rule so that each comes after what binds its variables, and refuses one
/// of which a variable is bound by nothing.
pub(crate) fn order(rule: &mut Rule) -> Checked<()> {
    let mut bound: BTreeSet<String> = rule.atoms.iter().flat_map(variables).collect();
    let mut left = std::mem::take(&mut rule.conditions);
    let mut parts = Parts::default();
    while let Some(place) = left.iter().position(|(one, _)| is_ready(one, &bound)) {
        let (condition, at) = left.remove(place);
        parts.see_condition(&condition)?;
        if let Some((name, is)) = assignment(&condition, &bound) {
            parts.of.insert(name.to_owned(), parts.check(is)?);
            bound.insert(name.to_owned());
        }
        rule.conditions.push((condition, at));
    }
    if let Some((condition, at)) = left.first() {
        return Err(unbound_in(condition, &bound, *at));
    }
    check_head(rule, &bound)?;
    parts.see_head(rule)?;
    check_absent(rule, &bound)
}

/// Of how many parts the variables are that conditions bind. Each stands for its parts wherever it is
/// used, so a few doublings would make a statement of any length.
#[derive(Default)]
struct Parts {
    of: BTreeMap<String, usize>,
}

impl Parts {
    fn check(&self, expression: &Expression) -> Checked<usize> {
        let parts = expression.parts(&|name| self.of.get(name).copied().unwrap_or(1));
        if parts > PARTS_MAX {
            return Err(too_long(expression.at()));
        }
        Ok(parts)
    }

    fn see_condition(&self, condition: &Condition) -> Checked<()> {
        match condition {
            Condition::Compare(left, _, right) => {
                self.check(left)?;
                self.check(right)?;
            }
            Condition::Match(of, ..) => {
                self.check(of)?;
            }
        }
        Ok(())
    }

    fn see_head(&self, rule: &Rule) -> Checked<()> {
        for head in &rule.head {
            if let Head::Is(expression) = head {
                self.check(expression)?;
            }
        }
        Ok(())
    }
}

fn check_head(rule: &Rule, bound: &BTreeSet<String>) -> Checked<()> {
    for head in &rule.head {
        let (name, at) = match head {
            Head::Is(expression) => match unbound(expression, bound) {
                Some(found) => found,
                None => continue,
            },
            Head::Aggregate(_, name, at) if !bound.contains(name) => (name.clone(), *at),
            Head::Aggregate(..) => continue,
        };
        return Err(missing(&name, at));
    }
    Ok(())
}

fn check_absent(rule: &Rule, bound: &BTreeSet<String>) -> Checked<()> {
    for atom in &rule.absent {
        if let Some(name) = variables(atom).find(|name| !bound.contains(name)) {
            let what = format!(
                "{name} is bound by nothing but what must be absent: bind it before, or write `_` \
                 for anything"
            );
            return Err(Wrong::new(atom.at, what));
        }
    }
    Ok(())
}

/// The variables of an atom.
pub(crate) fn variables(atom: &Atom) -> impl Iterator<Item = String> + '_ {
    atom.terms.iter().filter_map(|term| match term {
        Term::Variable(name) => Some(name.clone()),
        _ => None,
    })
}

fn missing(name: &str, at: Position) -> Wrong {
    let what = format!(
        "nothing binds {name}: it stands in no atom of the body, and equals nothing that is known"
    );
    Wrong::new(at, what)
}

fn unbound(expression: &Expression, bound: &BTreeSet<String>) -> Option<(String, Position)> {
    let mut found = None;
    expression.variables(&mut |name, at| {
        if found.is_none() && !bound.contains(name) {
            found = Some((name.to_owned(), at));
        }
    });
    found
}

/// The variable that a condition binds, and to what, if the others of it are known.
pub(crate) fn assignment<'a>(
    condition: &'a Condition,
    bound: &BTreeSet<String>,
) -> Option<(&'a str, &'a Expression)> {
    let Condition::Compare(left, Comparison::Equal, right) = condition else {
        return None;
    };
    let binds = |one: &'a Expression, other: &'a Expression| match one {
        Expression::Variable(name, _)
            if !bound.contains(name) && unbound(other, bound).is_none() =>
        {
            Some((name.as_str(), other))
        }
        _ => None,
    };
    binds(left, right).or_else(|| binds(right, left))
}

/// Whether all is known that a condition needs, or all but a variable that it binds.
pub(crate) fn is_ready(condition: &Condition, bound: &BTreeSet<String>) -> bool {
    let is_known = match condition {
        Condition::Compare(left, _, right) => {
            unbound(left, bound).is_none() && unbound(right, bound).is_none()
        }
        Condition::Match(of, ..) => unbound(of, bound).is_none(),
    };
    is_known || assignment(condition, bound).is_some()
}

fn unbound_in(condition: &Condition, bound: &BTreeSet<String>, at: Position) -> Wrong {
    let found = match condition {
        Condition::Compare(left, _, right) => {
            unbound(left, bound).or_else(|| unbound(right, bound))
        }
        Condition::Match(of, ..) => unbound(of, bound),
    };
    let (name, at) = found.unwrap_or_else(|| ("a variable".into(), at));
    missing(&name, at)
}
