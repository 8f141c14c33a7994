//! Why a fact holds.

use std::collections::BTreeMap;
use std::fmt;

use crate::answers::{Fact, fact_columns, read_fact};
use crate::database::Database;
use crate::error::{Doing, Result};
use crate::program::{Atom, Program, Rule};
use crate::replay::{Bindings, bind};
use crate::sql::{RULE, premise, quoted, ways};
use crate::syntax::{Aggregate, Term, Value};

/// So many facts of a derivation are kept.
const FACTS_MAX: usize = 500;

/// So deep a derivation is drawn.
const DEPTH_MAX: usize = 24;

/// So many of the facts that an aggregate is over are shown.
const OF_AGGREGATE_MAX: u64 = 4;

/// So much of a text is shown.
const TEXT_MAX: usize = 160;

/// A fact that was derived, with where it comes from.
pub(crate) struct Row {
    pub(crate) fact: Fact,
    pub(crate) rule: usize,
    /// The rows of its premises; none if it is of an aggregate.
    pub(crate) premises: Vec<i64>,
}

/// Why a fact holds: the first derivation of it, down to what was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The fact, and those that it rests on. The first is what is derived; each is there once.
    pub facts: Vec<(Fact, Ground)>,
    /// The names of the columns of given facts, by their relations.
    columns: BTreeMap<String, Vec<String>>,
}

/// What a fact rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ground {
    /// It was given.
    Given,
    /// A rule.
    Rule {
        /// The rule, as it was written.
        rule: String,
        /// The facts of its atoms, as they are in [`Derivation::facts`].
        premises: Vec<usize>,
        /// What is absent.
        absent: Vec<String>,
        /// How many more facts an aggregate is over.
        more: u64,
    },
    /// It is not said: the derivation is too long.
    NotShown,
}

/// What is in a derivation so far.
#[derive(Default)]
struct Drawn {
    facts: Vec<(Fact, Ground)>,
    /// Of which relation each of them is.
    relations: Vec<usize>,
    /// Where they are, by relation and row.
    places: BTreeMap<(usize, i64), usize>,
}

impl Drawn {
    /// The place of a fact, which gets one if it has none.
    fn place(&mut self, relation: usize, fact: Fact) -> usize {
        let place = self.places.entry((relation, fact.id));
        *place.or_insert_with(|| {
            self.relations.push(relation);
            self.facts.push((fact, Ground::NotShown));
            self.facts.len() - 1
        })
    }
}

impl Database {
    /// Why a fact holds.
    ///
    /// # Errors
    /// If facts cannot be read.
    ///
    /// # Panics
    /// If the program does not know its relation.
    pub fn derivation(&self, program: &Program, fact: &Fact) -> Result<Derivation> {
        let root = program.id(&fact.relation).expect("the program knows it");
        let mut drawn = Drawn::default();
        drawn.place(root, fact.clone());
        let mut place = 0;
        while place < drawn.facts.len() {
            drawn.facts[place].1 = if program.relations[drawn.relations[place]].is_input() {
                Ground::Given
            } else if drawn.facts.len() > FACTS_MAX {
                Ground::NotShown
            } else {
                self.ground(program, &mut drawn, place)?
            };
            place += 1;
        }
        let inputs = program.relations.iter();
        let inputs = inputs.filter(|relation| relation.is_input());
        let named = inputs.map(|relation| {
            let columns = relation.columns.iter().map(|column| column.name.clone());
            (relation.name.clone(), columns.collect())
        });
        Ok(Derivation {
            facts: drawn.facts,
            columns: named.collect(),
        })
    }

    /// What a derived fact rests on, which is drawn as well.
    fn ground(&self, program: &Program, drawn: &mut Drawn, place: usize) -> Result<Ground> {
        let id = drawn.facts[place].0.id;
        let row = self.derived_row(program, drawn.relations[place], id)?;
        let step = self.step(program, &row)?;
        let mut premises = Vec::new();
        for (relation, premise) in step.premises {
            let known = drawn.place(relation, premise);
            if !premises.contains(&known) {
                premises.push(known);
            }
        }
        Ok(Ground::Rule {
            rule: program.rules[row.rule].text.clone(),
            premises,
            absent: step.absent,
            more: step.more,
        })
    }

    /// What a fact rests on directly.
    fn step(&self, program: &Program, row: &Row) -> Result<Step> {
        let rule = &program.rules[row.rule];
        if !rule.is_aggregate() {
            let premises = self.premises(program, rule, &row.premises)?;
            let bound = bind(rule, &premises).unwrap_or_default();
            let absent = rule.absent.iter();
            return Ok(Step {
                absent: absent.map(|atom| told(program, atom, &bound)).collect(),
                premises: with_relations(rule, premises),
                more: 0,
            });
        }
        // What is least or most is that of one row.
        let is_of_one = matches!(
            rule.aggregates()[..],
            [(Aggregate::Min | Aggregate::Max, _)]
        );
        let most = if is_of_one { 1 } else { OF_AGGREGATE_MAX };
        let ways = self.ways(program, row, most)?;
        let shown = ways.len() as u64;
        let mut premises = Vec::new();
        for way in ways {
            let facts = self.premises(program, rule, &way)?;
            premises.extend(with_relations(rule, facts));
        }
        Ok(Step {
            premises,
            absent: Vec::new(),
            more: self.count_ways(program, row)? - shown,
        })
    }

    /// In how many ways the body of an aggregate holds.
    fn count_ways(&self, program: &Program, row: &Row) -> Result<u64> {
        let ways = ways(program, row.rule, &row.fact.values);
        let sql = format!("SELECT count(*) FROM ({ways})");
        let count = self
            .connection
            .query_row(&sql, [], |found| found.get::<_, i64>(0));
        Ok(count.doing(|| "count what an aggregate is over".into())? as u64)
    }

    /// The rows of the atoms of an aggregate, in each way in which its body holds, but at most so many:
    /// first the one that a minimum or a maximum is of, and of several the one that held first.
    pub(crate) fn ways(&self, program: &Program, row: &Row, most: u64) -> Result<Vec<Vec<i64>>> {
        let rule = &program.rules[row.rule];
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let sql = format!("{} LIMIT {most}", ways(program, row.rule, &row.fact.values));
        let doing = || "look for what an aggregate is over".to_owned();
        let mut statement = self.connection.prepare(&sql).doing(doing)?;
        let ids = statement.query_map([], |found| {
            let ids = (0..rule.atoms.len()).map(|place| found.get(place));
            ids.collect::<rusqlite::Result<Vec<i64>>>()
        });
        let ids = ids.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        ids.doing(doing)
    }

    /// A fact by its row, if it is there.
    pub(crate) fn row(&self, program: &Program, relation: usize, id: i64) -> Result<Option<Fact>> {
        let sql = format!(
            "SELECT {} FROM {} WHERE {} = ?1",
            fact_columns(program, relation),
            quoted(&program.table(relation)),
            crate::sql::ID
        );
        let doing = || format!("read a fact of {}", program.relations[relation].name);
        let mut statement = self.connection.prepare_cached(&sql).doing(doing)?;
        let mut facts = statement
            .query_map([id], |row| read_fact(program, relation, row))
            .doing(doing)?;
        facts.next().transpose().doing(doing)
    }

    /// A derived fact by its row, with where it comes from.
    fn derived_row(&self, program: &Program, relation: usize, id: i64) -> Result<Row> {
        let rows = self.rows_where(program, relation, &format!("{} = {id}", crate::sql::ID))?;
        let mut rows = rows.into_iter();
        rows.next().ok_or_else(|| crate::Error::Database {
            doing: format!("read row {id} of {}", program.relations[relation].name),
            error: rusqlite::Error::QueryReturnedNoRows,
        })
    }

    /// All facts of a relation of rules.
    pub(crate) fn rows(&self, program: &Program, relation: usize) -> Result<Vec<Row>> {
        self.rows_where(program, relation, "1")
    }

    fn rows_where(&self, program: &Program, relation: usize, which: &str) -> Result<Vec<Row>> {
        let known = &program.relations[relation];
        let mut columns = vec![fact_columns(program, relation), RULE.to_owned()];
        columns.extend((0..program.premises_max(relation)).map(premise));
        let sql = format!(
            "SELECT {} FROM {} WHERE {which}",
            columns.join(", "),
            quoted(&program.table(relation))
        );
        let doing = || format!("read the facts of {}", known.name);
        let mut statement = self.connection.prepare_cached(&sql).doing(doing)?;
        let rows = statement.query_map([], |found| read_row(program, relation, found));
        let rows = rows.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
        rows.doing(doing)
    }
}

/// A derived fact, from a row of [`fact_columns`], its rule and its premises.
fn read_row(
    program: &Program,
    relation: usize,
    found: &rusqlite::Row<'_>,
) -> rusqlite::Result<Row> {
    let after = program.relations[relation].columns.len() + 2;
    let rule = found.get::<_, i64>(after)? as usize;
    let rule_of = program.rules.get(rule);
    let count = rule_of
        .filter(|rule| !rule.is_aggregate())
        .map_or(0, |rule| rule.atoms.len());
    let premises = (0..count).map(|place| found.get(after + 1 + place));
    Ok(Row {
        fact: read_fact(program, relation, found)?,
        rule,
        premises: premises.collect::<rusqlite::Result<_>>()?,
    })
}

struct Step {
    premises: Vec<(usize, Fact)>,
    absent: Vec<String>,
    more: u64,
}

fn with_relations(rule: &Rule, facts: Vec<Fact>) -> Vec<(usize, Fact)> {
    let relations = rule.atoms.iter().map(|atom| atom.relation);
    relations.zip(facts).collect()
}

/// An atom with the values that its variables have.
fn told(program: &Program, atom: &Atom, bound: &Bindings) -> String {
    let relation = &program.relations[atom.relation];
    let terms = relation
        .columns
        .iter()
        .zip(&atom.terms)
        .map(|(column, term)| {
            let value = match term {
                Term::Any => None,
                Term::Constant(value) => Some(value.clone()),
                Term::Variable(name) => bound.get(name).cloned(),
            };
            (column.name.as_str(), value)
        });
    if !relation.is_input() {
        let values = terms.map(|(_, value)| value.as_ref().map_or_else(|| "_".into(), shown));
        return format!(
            "{}({})",
            relation.name,
            values.collect::<Vec<_>>().join(", ")
        );
    }
    let known = terms.filter_map(|(name, value)| Some(format!("{name}: {}", shown(&value?))));
    format!(
        "{}({})",
        relation.name,
        known.collect::<Vec<_>>().join(", ")
    )
}

/// A value, as much of it as people want to see.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= TEXT_MAX {
        return text;
    }
    text.chars().take(TEXT_MAX).chain("…\"".chars()).collect()
}

impl Derivation {
    /// The moment, and the fact with the names of its columns if it was given.
    fn line(&self, fact: &Fact) -> String {
        let values = fact.values.iter().map(shown);
        let values: Vec<_> = match self.columns.get(&fact.relation) {
            Some(names) => names
                .iter()
                .zip(values)
                .map(|(name, value)| format!("{name}: {value}"))
                .collect(),
            None => values.collect(),
        };
        let since = fact.since_ns as f64 / 1e9;
        format!("{:9.3} s  {}({})", since, fact.relation, values.join(", "))
    }

    fn draw(
        &self,
        f: &mut fmt::Formatter<'_>,
        (place, depth): (usize, usize),
        drawn: &mut Vec<bool>,
    ) -> fmt::Result {
        let (fact, ground) = &self.facts[place];
        let indent = "  ".repeat(depth);
        let line = self.line(fact);
        let (time, words) = line.split_at(line.find('s').map_or(0, |end| end + 3));
        write!(f, "{time}{indent}{words}")?;
        let Ground::Rule {
            rule,
            premises,
            absent,
            more,
        } = ground
        else {
            let is_cut = *ground == Ground::NotShown;
            return writeln!(f, "{}", if is_cut { ", and what it rests on" } else { "" });
        };
        if std::mem::replace(&mut drawn[place], true) {
            return writeln!(f, ", as above");
        }
        if depth >= DEPTH_MAX {
            return writeln!(f, ", and what it rests on");
        }
        writeln!(f)?;
        let blank = " ".repeat(time.chars().count());
        // A rule without a body says what the fact says.
        if rule.contains(":-") {
            writeln!(f, "{blank}{indent}  by {rule}")?;
        }
        for premise in premises {
            self.draw(f, (*premise, depth + 1), drawn)?;
        }
        for absent in absent {
            writeln!(f, "{blank}{indent}  no {absent}")?;
        }
        if *more > 0 {
            writeln!(f, "{blank}{indent}  and {more} more")?;
        }
        Ok(())
    }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.draw(f, (0, 0), &mut vec![false; self.facts.len()])
    }
}
