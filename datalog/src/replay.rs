//! A rule applied to the facts that it is said to rest on, without the database's help.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::answers::Fact;
use crate::database::Database;
use crate::derivation::Row;
use crate::error::{Error, Result};
use crate::functions;
use crate::program::{Atom, Head, Program, Rule};
use crate::safety;
use crate::syntax::{Aggregate, Comparison, Condition, Expression, Term, Value};

/// A fact that does not follow from what it is said to rest on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fact}: {what}")]
pub struct Mistake {
    /// The fact.
    pub fact: String,
    /// What is wrong with its derivation.
    pub what: String,
}

pub(crate) type Bindings = BTreeMap<String, Value>;

/// What the variables of a rule are, if these are the facts of its atoms and its conditions hold.
pub(crate) fn bind(rule: &Rule, premises: &[Fact]) -> Option<Bindings> {
    let mut bound = Bindings::new();
    for (atom, premise) in rule.atoms.iter().zip(premises) {
        for (term, value) in atom.terms.iter().zip(&premise.values) {
            match term {
                Term::Any => {}
                Term::Constant(constant) if constant == value => {}
                Term::Constant(_) => return None,
                Term::Variable(name) => {
                    let known = bound.entry(name.clone()).or_insert_with(|| value.clone());
                    if known != value {
                        return None;
                    }
                }
            }
        }
    }
    for (condition, _) in &rule.conditions {
        if !holds(condition, &mut bound)? {
            return None;
        }
    }
    Some(bound)
}

fn holds(condition: &Condition, bound: &mut Bindings) -> Option<bool> {
    match condition {
        Condition::Match(of, pattern, is_there) => {
            let text = text(of, bound)?;
            Some(Regex::new(pattern).ok()?.is_match(&text) == *is_there)
        }
        Condition::Compare(left, comparison, right) => {
            let names = bound.keys().cloned().collect();
            if let Some((name, is)) = crate::safety::assignment(condition, &names) {
                let is = value(is, bound)?;
                bound.insert(name.to_owned(), is);
                return Some(true);
            }
            let (left, right) = (value(left, bound)?, value(right, bound)?);
            Some(match comparison {
                Comparison::Equal => left == right,
                Comparison::Different => left != right,
                Comparison::Less => left < right,
                Comparison::AtMost => left <= right,
                Comparison::More => left > right,
                Comparison::AtLeast => left >= right,
            })
        }
    }
}

/// What an expression is; nothing if it has no value.
fn value(expression: &Expression, bound: &Bindings) -> Option<Value> {
    match expression {
        Expression::Variable(name, _) => bound.get(name).cloned(),
        Expression::Constant(value, _) => Some(value.clone()),
        Expression::Arithmetic(left, operation, right) => {
            let (Value::Integer(left), Value::Integer(right)) =
                (value(left, bound)?, value(right, bound)?)
            else {
                return None;
            };
            let number = functions::calculated(left, *operation, right).ok()?;
            number.map(Value::Integer)
        }
        Expression::Capture(of, pattern) => {
            let pattern = Regex::new(pattern).ok()?;
            functions::capture(&pattern, &text(of, bound)?).map(Value::from)
        }
        Expression::Number(of) => functions::number(&text(of, bound)?).map(Value::Integer),
    }
}

/// The text that an expression is; nothing if it is none.
fn text(expression: &Expression, bound: &Bindings) -> Option<String> {
    match value(expression, bound)? {
        Value::Text(text) => Some(text),
        Value::Integer(_) => None,
    }
}

/// The row of a rule without atoms; none if it has no value, or its conditions do not hold.
pub(crate) fn row(rule: &Rule) -> Option<Vec<Value>> {
    let bound = bind(rule, &[])?;
    let head = rule.head.iter().map(|head| match head {
        Head::Is(expression) => value(expression, &bound),
        Head::Aggregate(..) => None,
    });
    head.collect()
}

/// Whether the conditions of a rule may hold if a term of it is this value, and what is listed by name
/// has it. What rests on other values is not known.
fn may_be(program: &Program, rule: &Rule, term: &Term, value: &Value) -> bool {
    let mut bound = match term {
        Term::Any => return true,
        Term::Constant(constant) => return constant == value,
        Term::Variable(name) => Bindings::from([(name.clone(), value.clone())]),
    };
    let is_listed = |atom: &Atom| {
        let rows = program.listed(atom.relation);
        rows.is_none_or(|rows| rows.iter().any(|row| may_have(atom, row, &bound)))
    };
    if !rule.atoms.iter().all(is_listed) {
        return false;
    }
    rule.conditions.iter().all(|(condition, _)| {
        let names = bound.keys().cloned().collect();
        !safety::is_ready(condition, &names) || holds(condition, &mut bound) == Some(true)
    })
}

/// Whether an atom may be of a row, as far as its variables are known.
fn may_have(atom: &Atom, row: &[Value], bound: &Bindings) -> bool {
    let mut terms = atom.terms.iter().zip(row);
    terms.all(|(term, value)| match term {
        Term::Any => true,
        Term::Constant(constant) => constant == value,
        Term::Variable(name) => bound.get(name).is_none_or(|is| is == value),
    })
}

impl Program {
    /// Whether a rule asks for facts of a relation with this value in a column, or for their absence: no
    /// constant and no condition says that it is another value.
    pub fn may_ask(&self, relation: &str, column: &str, value: &Value) -> bool {
        self.rules.iter().any(|rule| {
            let mut atoms = rule.atoms.iter().chain(&rule.absent);
            atoms.any(|atom| {
                let of = &self.relations[atom.relation];
                let mut columns = of.columns.iter().zip(&atom.terms);
                let term = columns.find(|(named, _)| named.name == column);
                of.name == relation && term.is_none_or(|(_, term)| may_be(self, rule, term, value))
            })
        })
    }
}

impl Database {
    /// Applies to every fact that was derived the rule that it is said to follow from, and looks
    /// whether no fact rests on itself. How many facts there are, or the first that is wrong.
    ///
    /// # Errors
    /// If facts cannot be read.
    pub fn check_derivations(
        &self,
        program: &Program,
    ) -> Result<std::result::Result<u64, Mistake>> {
        let mut rests_on: BTreeMap<(usize, i64), Vec<(usize, i64)>> = BTreeMap::new();
        for (id, relation) in program.relations.iter().enumerate() {
            if relation.is_input() {
                continue;
            }
            for row in self.rows(program, id)? {
                if let Err(what) = self.check_row(program, id, &row)? {
                    let fact = row.fact.to_string();
                    return Ok(Err(Mistake { fact, what }));
                }
                let rule = &program.rules[row.rule];
                let relations = rule.atoms.iter().map(|atom| atom.relation);
                let premises = relations.zip(row.premises.iter().copied());
                rests_on.insert((id, row.fact.id), premises.collect());
            }
        }
        let count = rests_on.len() as u64;
        Ok(match circle(&rests_on) {
            None => Ok(count),
            Some((relation, id)) => Err(Mistake {
                fact: format!("row {id} of {}", program.relations[relation].name),
                what: "it rests on itself".into(),
            }),
        })
    }

    fn check_row(
        &self,
        program: &Program,
        relation: usize,
        row: &Row,
    ) -> Result<std::result::Result<(), String>> {
        let Some(rule) = program
            .rules
            .get(row.rule)
            .filter(|rule| rule.relation == relation)
        else {
            return Ok(Err(format!("rule {} is not of its relation", row.rule)));
        };
        if rule.is_aggregate() {
            return self.check_aggregate(program, row, rule);
        }
        let premises = self.premises(program, rule, &row.premises)?;
        let Some(bound) = bind(rule, &premises) else {
            return Ok(Err(format!("its facts do not fit its rule, {}", rule.text)));
        };
        if let Err(what) = check_head(rule, &row.fact, &bound, &premises) {
            return Ok(Err(what));
        }
        for atom in &rule.absent {
            if self.has_fact(program, atom, &bound)? {
                let name = &program.relations[atom.relation].name;
                return Ok(Err(format!("what was to be absent is there, of {name}")));
            }
        }
        Ok(Ok(()))
    }

    fn check_aggregate(
        &self,
        program: &Program,
        row: &Row,
        rule: &Rule,
    ) -> Result<std::result::Result<(), String>> {
        let mut ways = BTreeSet::new();
        for premises in self.ways(program, row, u64::MAX)? {
            let premises = self.premises(program, rule, &premises)?;
            match bind(rule, &premises) {
                Some(bound) => ways.insert(bound),
                None => return Ok(Err("its facts do not fit its rule".into())),
            };
        }
        for (head, is) in rule.head.iter().zip(&row.fact.values) {
            if let Head::Aggregate(aggregate, name, _) = head
                && aggregated(*aggregate, name, &ways).as_ref() != Some(is)
            {
                return Ok(Err(format!("its {} is not {is}", aggregate.word())));
            }
        }
        Ok(Ok(()))
    }

    /// The facts of the atoms of a rule, by their rows.
    pub(crate) fn premises(
        &self,
        program: &Program,
        rule: &Rule,
        ids: &[i64],
    ) -> Result<Vec<Fact>> {
        let atoms = rule.atoms.iter().zip(ids);
        let facts = atoms.map(|(atom, id)| self.fact(program, atom.relation, *id));
        facts.collect()
    }

    /// A fact by its row.
    pub(crate) fn fact(&self, program: &Program, relation: usize, id: i64) -> Result<Fact> {
        let row = self.row(program, relation, id)?;
        row.ok_or_else(|| Error::Database {
            doing: format!("read row {id} of {}", program.relations[relation].name),
            error: rusqlite::Error::QueryReturnedNoRows,
        })
    }
}

/// Whether a fact is what its rule says, and begins when it should.
fn check_head(
    rule: &Rule,
    fact: &Fact,
    bound: &Bindings,
    premises: &[Fact],
) -> std::result::Result<(), String> {
    let head = rule.head.iter().map(|head| match head {
        Head::Is(expression) => value(expression, bound),
        Head::Aggregate(..) => None,
    });
    if head.collect::<Option<Vec<_>>>().as_ref() != Some(&fact.values) {
        return Err(format!("its rule derives another fact: {}", rule.text));
    }
    let began = premises.iter().map(|premise| premise.since_ns).max();
    if fact.since_ns != began.unwrap_or(0).max(0) {
        return Err("it does not begin when what it rests on has begun".into());
    }
    Ok(())
}

fn aggregated(aggregate: Aggregate, name: &str, ways: &BTreeSet<Bindings>) -> Option<Value> {
    let values = ways.iter().filter_map(|way| way.get(name));
    match aggregate {
        Aggregate::Count => Some(Value::Integer(values.collect::<BTreeSet<_>>().len() as i64)),
        Aggregate::Min => values.min().cloned(),
        Aggregate::Max => values.max().cloned(),
        Aggregate::Sum => {
            let number = |value: &Value| match value {
                Value::Integer(number) => Some(*number),
                Value::Text(_) => None,
            };
            let numbers: Option<Vec<_>> = values.map(number).collect();
            Some(Value::Integer(numbers?.iter().sum()))
        }
    }
}

/// A node that is reached from itself.
fn circle(edges: &BTreeMap<(usize, i64), Vec<(usize, i64)>>) -> Option<(usize, i64)> {
    let mut done = BTreeSet::new();
    for begin in edges.keys() {
        let mut path = vec![(*begin, 0)];
        let mut on_path = BTreeSet::from([*begin]);
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            let Some(to) = edges.get(&node).and_then(|to| to.get(*next)) else {
                path.pop();
                on_path.remove(&node);
                done.insert(node);
                continue;
            };
            *next += 1;
            if on_path.contains(to) {
                return Some(*to);
            }
            if !done.contains(to) {
                on_path.insert(*to);
                path.push((*to, 0));
            }
        }
    }
    None
}
