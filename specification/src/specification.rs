//! Specifications: rules whose violations are findings.

use std::path::Path;

use datalog::{Database, Problem, Program, Source};
use serde::{Deserialize, Serialize};

use crate::schema::{About, FACTS, Known, facts, given};

/// So many facts of each violation are told with their derivations.
const TOLD_MAX: u64 = 3;

/// Rules in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Specification {
    /// The name of the file without its ending: what the tables of its relations begin with.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// What a run violates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violated {
    /// The name of the specification.
    pub specification: String,
    /// The violation.
    pub fact: String,
    /// From when on it holds.
    pub since_ns: u64,
    /// How many facts of the same relation there are.
    pub of: u64,
    /// What it follows from, as a tree.
    pub derivation: String,
}

/// A violation that could not have been found in a run, since there was nothing to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unlooked {
    /// The name of the specification.
    pub specification: String,
    /// The relation of the violation.
    pub violation: String,
    /// Of which facts there are none.
    pub lacks: Vec<String>,
}

/// What specifications come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// What is violated.
    pub violated: Vec<Violated>,
    /// What had nothing to look at.
    pub unlooked: Vec<Unlooked>,
    /// Why one could not be evaluated. What the others say stands.
    pub unsaid: Option<String>,
}

impl Specification {
    /// Reads the rules of a file.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        let name = path.file_stem().unwrap_or(path.as_os_str());
        Ok(Self {
            name: name.to_string_lossy().replace('"', ""),
            text: std::fs::read_to_string(path)?,
        })
    }

    /// Its program; `called` is what the file is called in messages.
    ///
    /// # Errors
    /// The first mistake in the text.
    pub fn program(&self, called: &str, about: About) -> Result<Program, Problem> {
        let source = Source::new(called, self.text.as_str());
        let program = Program::new(&source, &facts(about), &given(about), &self.name);
        program.map_err(|problem| with_hint(problem, about))
    }
}

/// Says of a relation that nothing is known of it here, if there are facts of it elsewhere.
fn with_hint(problem: Problem, about: About) -> Problem {
    let mut others = FACTS.iter().filter(|known| !known.is_of(about));
    let is_meant = |known: &&Known| {
        let words = format!("nothing is known of {}:", known.relation.name);
        problem.what.starts_with(&words)
    };
    let Some(known) = others.find(is_meant) else {
        return problem;
    };
    let what = format!(
        "nothing is known of {} of {}: there are such facts of {} only",
        known.relation.name,
        about.words(),
        known.of()
    );
    Problem { what, ..problem }
}

impl Examined {
    /// Adds why a specification could not be evaluated.
    pub fn leave_out(&mut self, name: &str, why: &dyn std::fmt::Display) {
        self.unsaid.get_or_insert_with(|| format!("{name}: {why}"));
    }

    /// Adds what a specification comes to, whose program was evaluated.
    ///
    /// # Errors
    /// If facts cannot be read.
    pub fn add(
        &mut self,
        name: &str,
        program: &Program,
        database: &Database,
    ) -> datalog::Result<()> {
        let relations = program.relations();
        for relation in relations.filter(|relation| relation.is_violation()) {
            let (facts, of) = database.facts(program, &relation.name, TOLD_MAX)?;
            for fact in facts {
                let derivation = database.derivation(program, &fact)?;
                self.violated.push(Violated {
                    specification: name.to_owned(),
                    fact: fact.to_string(),
                    since_ns: fact.since_ns.unsigned_abs(),
                    of,
                    derivation: derivation.to_string(),
                });
            }
        }
        for unseen in database.unseen(program)? {
            self.unlooked.push(Unlooked {
                specification: name.to_owned(),
                violation: unseen.relation,
                lacks: unseen.missing,
            });
        }
        Ok(())
    }
}

impl Violated {
    /// The specification and the relation.
    pub fn kind(&self) -> String {
        let (relation, _) = self.fact.split_once('(').unwrap_or((&self.fact, ""));
        format!("{}: {relation}", self.specification)
    }

    /// In a line.
    pub fn words(&self) -> String {
        let since = self.since_ns as f64 / 1e9;
        format!("{}: {} from {since:.3} s on", self.specification, self.fact)
    }
}

impl Unlooked {
    /// What had nothing to look at in any of these runs.
    pub fn in_all<'a>(mut runs: impl Iterator<Item = &'a [Self]> + Clone) -> Vec<&'a Self> {
        let Some(first) = runs.next() else {
            return Vec::new();
        };
        let is_in_all = |one: &&Self| {
            let mut others = runs.clone();
            others.all(|unlooked| unlooked.iter().any(|other| one.is_of_the_same(other)))
        };
        first.iter().filter(is_in_all).collect()
    }

    /// Leaves of some that had nothing to look at those that had nothing here either.
    pub fn narrow(all: &mut Vec<Self>, here: &[Self]) {
        all.retain_mut(|one| {
            let same = here.iter().find(|other| one.is_of_the_same(other));
            if let Some(other) = same.filter(|_| one.lacks.is_empty()) {
                one.lacks.clone_from(&other.lacks);
            }
            same.is_some()
        });
    }

    /// Whether both are of one violation.
    fn is_of_the_same(&self, other: &Self) -> bool {
        (&self.specification, &self.violation) == (&other.specification, &other.violation)
    }

    /// In a line; one that lacks nothing was not asked.
    pub fn words(&self) -> String {
        let Self {
            specification,
            violation,
            lacks,
        } = self;
        if lacks.is_empty() {
            return format!("{specification}: {violation} was asked of no state");
        }
        format!(
            "{specification}: {violation} never had a fact to look at: there is no {}",
            lacks.join(", and no ")
        )
    }
}
