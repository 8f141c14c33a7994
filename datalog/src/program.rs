//! Rules that have been checked: every name is known, every variable bound, every column has a kind,
//! and the relations are in strata.

use std::collections::BTreeSet;

use crate::kinds;
use crate::parse::parse;
use crate::problem::{Position, Problem, Source};
use crate::replay;
use crate::resolve;
use crate::safety;
use crate::strata;
use crate::syntax::{Aggregate, Condition, Expression, Kind, Term, Value};

/// A relation whose facts are put in from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputRelation {
    /// Its name, which begins with a small letter.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [(&'static str, Kind)],
    /// The column that says when a fact began to hold. A fact of a relation without one always holds.
    pub time: Option<&'static str>,
    /// Whether it says something that it has no facts: then what is looked for was not there, while
    /// without that nobody looked. Nobody looks for what is of a name that is not there: a column that is
    /// called as an input relation of one column has a name of those.
    pub is_watched: bool,
    /// Of one that is watched, a relation without whose facts nobody looked.
    pub beside: Option<&'static str>,
    /// What its facts say, for people.
    pub about: &'static str,
}

/// A column of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds; of a relation that can have no facts, nobody knows.
    pub kind: Option<Kind>,
}

/// A relation of a program.
#[derive(Debug, Clone)]
pub struct Relation {
    /// Its name in rules.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Where its facts come from.
    pub(crate) origin: Origin,
}

/// Where the facts of a relation come from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// From outside.
    Input {
        /// Which column has the time.
        time: Option<usize>,
        is_watched: bool,
        beside: Option<usize>,
    },
    /// From rules.
    Rules {
        is_violation: bool,
        /// From a source of the host, and not of the user.
        is_given: bool,
    },
}

impl Relation {
    /// Whether its facts come from outside.
    pub fn is_input(&self) -> bool {
        matches!(self.origin, Origin::Input { .. })
    }

    /// Whether its facts are violations.
    pub fn is_violation(&self) -> bool {
        let Origin::Rules { is_violation, .. } = self.origin else {
            return false;
        };
        is_violation
    }

    /// Whether the user has written its rules.
    pub fn is_own(&self) -> bool {
        matches!(self.origin, Origin::Rules { is_given, .. } if !is_given)
    }
}

/// An atom: the id of a relation, and what stands at its places.
#[derive(Debug, Clone)]
pub(crate) struct Atom {
    pub(crate) relation: usize,
    pub(crate) terms: Vec<Term>,
    pub(crate) at: Position,
}

/// What stands at a place of a head.
#[derive(Debug, Clone)]
pub(crate) enum Head {
    Is(Expression),
    Aggregate(Aggregate, String, Position),
}

/// A rule.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) source: String,
    pub(crate) at: Position,
    pub(crate) relation: usize,
    pub(crate) head: Vec<Head>,
    pub(crate) atoms: Vec<Atom>,
    pub(crate) absent: Vec<Atom>,
    /// Those that bind a variable come after what they need.
    pub(crate) conditions: Vec<(Condition, Position)>,
    /// As people wrote it, on a line.
    pub(crate) text: String,
}

impl Rule {
    pub(crate) fn is_aggregate(&self) -> bool {
        !self.aggregates().is_empty()
    }

    /// The aggregates of the head, and of which variables they are.
    pub(crate) fn aggregates(&self) -> Vec<(Aggregate, &str)> {
        let aggregates = self.head.iter().filter_map(|head| match head {
            Head::Aggregate(aggregate, name, _) => Some((*aggregate, name.as_str())),
            Head::Is(_) => None,
        });
        aggregates.collect()
    }
}

/// Rules that can be evaluated.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) relations: Vec<Relation>,
    pub(crate) rules: Vec<Rule>,
    /// Which relations depend on each other, those first that others rest on.
    pub(crate) strata: Vec<Vec<usize>>,
    /// What the names of its tables begin with.
    pub(crate) prefix: String,
    /// The relations that rest on nothing from outside: what a specification lists by name, such as
    /// `log("log").`
    pub(crate) lists: BTreeSet<usize>,
}

impl Program {
    /// The rules of a source. Those of `given` are taken as well, where its relations are used and
    /// the source has none of that name. In the database its tables are called `PREFIX.NAME`, or
    /// `NAME` if the prefix is empty.
    ///
    /// # Errors
    /// The first mistake in the text.
    ///
    /// # Panics
    /// If there is a mistake in `given`.
    pub fn new(
        source: &Source,
        inputs: &[InputRelation],
        given: &Source,
        prefix: &str,
    ) -> Result<Self, Problem> {
        let own = parse(source)?;
        let given_rules = parse(given).unwrap_or_else(|problem| panic!("{problem}"));
        let (mut relations, mut rules) =
            resolve::resolve((source, own), (given, given_rules), inputs)?;
        for rule in &mut rules {
            let told = relations[rule.relation].name.clone();
            safety::order(rule).map_err(|wrong| wrong.in_source(&rule.source, Some(&told)))?;
        }
        kinds::infer(&mut relations, &rules)
            .map_err(|problem| resolve::of_user(problem, given, &relations, &rules))?;
        let strata = strata::strata(&relations, &rules)?;
        let mut program = Self {
            relations,
            rules,
            strata,
            prefix: prefix.to_owned(),
            lists: BTreeSet::new(),
        };
        // Here, since each state is asked what its rules never looked at.
        program.lists = program.resting_on_nothing();
        Ok(program)
    }

    /// All relations that it knows.
    pub fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.relations.iter()
    }

    /// The relations that the user has rules for and that no other of these rules asks for: what the
    /// rules are about.
    pub fn answers(&self) -> Vec<&str> {
        let is_asked_for = |id: usize| {
            let mut others = self.rules.iter().filter(|rule| rule.relation != id);
            others.any(|rule| {
                let mut atoms = rule.atoms.iter().chain(&rule.absent);
                atoms.any(|atom| atom.relation == id)
            })
        };
        let own = self.relations.iter().enumerate();
        let own = own.filter(|(id, relation)| relation.is_own() && !is_asked_for(*id));
        own.map(|(_, relation)| relation.name.as_str()).collect()
    }

    /// The rows of a relation whose rules have no atoms: what a specification lists by name. None if it
    /// is another relation.
    pub(crate) fn listed(&self, relation: usize) -> Option<Vec<Vec<Value>>> {
        if self.relations[relation].is_input() {
            return None;
        }
        let rules = self.rules.iter().filter(|rule| rule.relation == relation);
        let mut rows = Vec::new();
        for rule in rules {
            if !rule.atoms.is_empty() || !rule.absent.is_empty() || rule.is_aggregate() {
                return None;
            }
            rows.extend(replay::row(rule));
        }
        Some(rows)
    }

    /// Whether a rule mentions a relation.
    pub fn mentions(&self, name: &str) -> bool {
        let mut atoms = self
            .rules
            .iter()
            .flat_map(|rule| rule.atoms.iter().chain(&rule.absent));
        atoms.any(|atom| self.relations[atom.relation].name == name)
    }

    /// The name of the table of a relation.
    pub(crate) fn table(&self, relation: usize) -> String {
        let Relation { name, .. } = &self.relations[relation];
        if self.prefix.is_empty() || self.relations[relation].is_input() {
            name.clone()
        } else {
            format!("{}.{name}", self.prefix)
        }
    }

    pub(crate) fn id(&self, name: &str) -> Option<usize> {
        self.relations
            .iter()
            .position(|relation| relation.name == name)
    }

    /// How many premises are kept of a fact of this relation at most.
    pub(crate) fn premises_max(&self, relation: usize) -> usize {
        let rules = self.rules.iter().filter(|rule| rule.relation == relation);
        rules.map(|rule| rule.atoms.len()).max().unwrap_or(0)
    }
}
