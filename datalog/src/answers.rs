//! What there is in a database after an evaluation.

use std::collections::BTreeSet;
use std::fmt;

use rusqlite::Row;

use crate::database::Database;
use crate::error::{Doing, Result};
use crate::program::{Atom, Origin, Program, Rule};
use crate::replay::Bindings;
use crate::sql::{AT, ID, constant, quoted};
use crate::syntax::{Comparison, Condition, Expression, Term, Value};

/// A fact: given, or derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its relation.
    pub relation: String,
    /// Its row in the table of the relation.
    pub id: i64,
    /// The values of its columns.
    pub values: Vec<Value>,
    /// From when on it holds, in nanoseconds. A given fact without a time always holds: 0.
    pub since_ns: i64,
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<_> = self.values.iter().map(ToString::to_string).collect();
        write!(f, "{}({})", self.relation, values.join(", "))
    }
}

/// A violation that could not have been found, since there was nothing to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// The relation of the violation.
    pub relation: String,
    /// Of which facts there is none.
    pub missing: Vec<String>,
}

/// The columns of a relation that a fact is read from: its row, from when on it holds, its values.
pub(crate) fn fact_columns(program: &Program, relation: usize) -> String {
    let known = &program.relations[relation];
    let since = match known.origin {
        Origin::Rules { .. } => AT.to_owned(),
        Origin::Input { time: None, .. } => "0".into(),
        Origin::Input {
            time: Some(time), ..
        } => quoted(&known.columns[time].name),
    };
    let mut columns = vec![ID.to_owned(), since];
    columns.extend(known.columns.iter().map(|column| quoted(&column.name)));
    columns.join(", ")
}

/// A fact of a relation, from a row of [`fact_columns`].
pub(crate) fn read_fact(
    program: &Program,
    relation: usize,
    row: &Row<'_>,
) -> rusqlite::Result<Fact> {
    let known = &program.relations[relation];
    let values = (0..known.columns.len()).map(|place| row.get(place + 2));
    Ok(Fact {
        relation: known.name.clone(),
        id: row.get(0)?,
        since_ns: row.get(1)?,
        values: values.collect::<rusqlite::Result<_>>()?,
    })
}

impl Database {
    /// The facts of a relation that a program knows, those first that hold first, and at most so
    /// many; and how many there are.
    ///
    /// # Errors
    /// If they cannot be read.
    ///
    /// # Panics
    /// If the program does not know the relation.
    pub fn facts(&self, program: &Program, relation: &str, most: u64) -> Result<(Vec<Fact>, u64)> {
        let id = program.id(relation).expect("the program knows it");
        let table = program.table(id);
        let doing = || format!("read the facts of {relation}");
        let columns = fact_columns(program, id);
        let sql = format!(
            "SELECT {columns} FROM {} ORDER BY 2, {ID} LIMIT {most}",
            quoted(&table)
        );
        let mut statement = self.connection.prepare(&sql).doing(doing)?;
        let facts = statement.query_map([], |row| read_fact(program, id, row));
        let facts = facts.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        Ok((facts.doing(doing)?, self.count(&table)?))
    }

    /// The violations for which there was nothing to look at: all rules of each need a fact of which
    /// there is none, and whose absence says nothing.
    ///
    /// # Errors
    /// If facts cannot be read.
    pub fn unseen(&self, program: &Program) -> Result<Vec<Unseen>> {
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        loop {
            let before = seen.len();
            for rule in &program.rules {
                if !seen.contains(&rule.relation) && self.lacks(program, rule, &seen)?.is_none() {
                    seen.insert(rule.relation);
                }
            }
            if seen.len() == before {
                break;
            }
        }
        let mut unseen = Vec::new();
        for (id, relation) in program.relations.iter().enumerate() {
            if relation.is_violation() && !seen.contains(&id) {
                let missing = self.missing(program, id, &seen, &mut BTreeSet::new())?;
                unseen.push(Unseen {
                    relation: relation.name.clone(),
                    missing: missing.into_iter().collect(),
                });
            }
        }
        Ok(unseen)
    }

    /// The first atom of a rule for which there is nothing; or, if it is one that is watched for, what says
    /// that somebody watched.
    fn lacks(
        &self,
        program: &Program,
        rule: &Rule,
        seen: &BTreeSet<usize>,
    ) -> Result<Option<Atom>> {
        let given = constants(rule);
        for atom in rule.atoms.iter().flat_map(|atom| needed(program, atom)) {
            let is_there = match program.relations[atom.relation].origin {
                Origin::Rules { .. } => seen.contains(&atom.relation),
                Origin::Input { .. } => {
                    let conditions = [
                        fitting(program, &atom, &given),
                        listed(program, rule, &atom),
                    ];
                    self.has_fact_where(program, atom.relation, &conditions.concat())?
                }
            };
            if !is_there {
                return Ok(Some(atom));
            }
        }
        Ok(None)
    }

    /// Whether there is a fact that fits an atom, with these values of its variables. Others may have
    /// any.
    pub(crate) fn has_fact(
        &self,
        program: &Program,
        atom: &Atom,
        bound: &Bindings,
    ) -> Result<bool> {
        self.has_fact_where(program, atom.relation, &fitting(program, atom, bound))
    }

    /// Whether there is a fact of a relation, which is `it`, with these conditions.
    fn has_fact_where(
        &self,
        program: &Program,
        relation: usize,
        conditions: &[String],
    ) -> Result<bool> {
        let sql = format!("SELECT {}", exists(program, relation, "it", conditions));
        let found = self.connection.query_row(&sql, [], |row| row.get(0));
        found.doing(|| format!("look for facts of {}", program.relations[relation].name))
    }

    /// The given facts that the rules of a relation lack.
    fn missing(
        &self,
        program: &Program,
        relation: usize,
        seen: &BTreeSet<usize>,
        known: &mut BTreeSet<usize>,
    ) -> Result<BTreeSet<String>> {
        let mut missing = BTreeSet::new();
        if !known.insert(relation) {
            return Ok(missing);
        }
        for rule in program
            .rules
            .iter()
            .filter(|rule| rule.relation == relation)
        {
            let Some(atom) = self.lacks(program, rule, seen)? else {
                continue;
            };
            if program.relations[atom.relation].is_input() {
                missing.insert(pattern(program, rule, &atom));
            } else {
                missing.extend(self.missing(program, atom.relation, seen, known)?);
            }
        }
        Ok(missing)
    }
}

/// What has to be there for an atom: a fact of it. Of one that is watched for, who watches, and whom it
/// names.
fn needed(program: &Program, atom: &Atom) -> Vec<Atom> {
    let relation = &program.relations[atom.relation];
    let Origin::Input {
        is_watched: true,
        beside,
        ..
    } = relation.origin
    else {
        return vec![atom.clone()];
    };
    let of = |relation: usize, terms| Atom {
        relation,
        terms,
        at: atom.at,
    };
    let beside = beside.map(|id| of(id, vec![Term::Any; program.relations[id].columns.len()]));
    let named = relation.columns.iter().zip(&atom.terms);
    let named = named.filter_map(|(column, term)| {
        let id = program.id(&column.name).filter(|_| *term != Term::Any)?;
        let names = &program.relations[id];
        (names.is_input() && names.columns.len() == 1).then(|| of(id, vec![term.clone()]))
    });
    beside.into_iter().chain(named).collect()
}

/// Whether there is a row of a relation, called so, with these conditions.
fn exists(program: &Program, relation: usize, called: &str, conditions: &[String]) -> String {
    let table = quoted(&program.table(relation));
    let conditions = [conditions, &["1".to_owned()]].concat();
    let conditions = conditions.join(" AND ");
    format!("EXISTS (SELECT 1 FROM {table} AS {called} WHERE {conditions})")
}

/// What an atom demands of a fact `it`, with these values of its variables.
fn fitting(program: &Program, atom: &Atom, bound: &Bindings) -> Vec<String> {
    let columns = program.relations[atom.relation].columns.iter();
    let known = columns.zip(&atom.terms).filter_map(|(column, term)| {
        let value = known(term, bound)?;
        Some(format!("it.{} = {}", quoted(&column.name), constant(value)))
    });
    known.collect()
}

fn known<'a>(term: &'a Term, bound: &'a Bindings) -> Option<&'a Value> {
    match term {
        Term::Any => None,
        Term::Constant(value) => Some(value),
        Term::Variable(name) => bound.get(name),
    }
}

/// The atoms of a rule that list by name what stands in another atom of it: of `log(L), entry(path: L)`
/// only entries with these paths are meant.
fn lists_of<'a>(program: &Program, rule: &'a Rule, atom: &Atom) -> Vec<&'a Atom> {
    let is_list = |other: &&Atom| {
        let mut shared = other.terms.iter();
        let is_shared =
            |term: &Term| matches!(term, Term::Variable(_)) && atom.terms.contains(term);
        program.lists.contains(&other.relation) && shared.any(is_shared)
    };
    rule.atoms.iter().filter(is_list).collect()
}

/// What these lists demand of a fact `it` of the atom.
fn listed(program: &Program, rule: &Rule, atom: &Atom) -> Vec<String> {
    let (given, columns) = (constants(rule), &program.relations[atom.relation].columns);
    let demand = |list: &Atom| {
        let listed = program.relations[list.relation].columns.iter();
        let mut conditions = Vec::new();
        for (column, term) in listed.zip(&list.terms) {
            let column = format!("listed.{}", quoted(&column.name));
            let value = known(term, &given).map(|value| format!("{column} = {}", constant(value)));
            conditions.extend(value);
            let is_shared =
                |(_, other): &(_, &Term)| matches!(term, Term::Variable(_)) && *other == term;
            let shared = columns.iter().zip(&atom.terms).filter(is_shared);
            conditions
                .extend(shared.map(|(other, _)| format!("{column} = it.{}", quoted(&other.name))));
        }
        exists(program, list.relation, "listed", &conditions)
    };
    lists_of(program, rule, atom)
        .into_iter()
        .map(demand)
        .collect()
}

/// The variables that a condition of the rule gives one value: `P = "log"` says of an atom what a
/// constant in it says.
fn constants(rule: &Rule) -> Bindings {
    let given = rule.conditions.iter().filter_map(|(condition, _)| {
        let Condition::Compare(left, Comparison::Equal, right) = condition else {
            return None;
        };
        match (left, right) {
            (Expression::Variable(name, _), Expression::Constant(value, _))
            | (Expression::Constant(value, _), Expression::Variable(name, _)) => {
                Some((name.clone(), value.clone()))
            }
            _ => None,
        }
    });
    given.collect()
}

/// An atom of an input relation, with its constants, those that it is compared with, and the relations
/// that list what may stand there.
fn pattern(program: &Program, rule: &Rule, atom: &Atom) -> String {
    let relation = &program.relations[atom.relation];
    let (given, lists) = (constants(rule), lists_of(program, rule, atom));
    let named = |term: &Term| {
        if let Some(value) = known(term, &given) {
            return Some(value.to_string());
        }
        let is_of = |list: &&&Atom| *term != Term::Any && list.terms.contains(term);
        let list = lists.iter().find(is_of)?;
        Some(format!("one of {}", program.relations[list.relation].name))
    };
    let columns = relation.columns.iter().zip(&atom.terms);
    let constants: Vec<_> = columns
        .filter_map(|(column, term)| Some(format!("{}: {}", column.name, named(term)?)))
        .collect();
    if constants.is_empty() {
        relation.name.clone()
    } else {
        format!("{}({})", relation.name, constants.join(", "))
    }
}
