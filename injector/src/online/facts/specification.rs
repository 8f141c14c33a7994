//! Specifications: rules whose violations are findings.

use std::path::Path;

use datalog::{Database, Problem, Program, Source};
use serde::{Deserialize, Serialize};

use super::RunFacts;
use super::schema::{FACTS, given};
use crate::error::Result;

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
    pub fn program(&self, called: &str) -> std::result::Result<Program, Problem> {
        let source = Source::new(called, self.text.as_str());
        Program::new(&source, FACTS, &given(), &self.name)
    }

    /// Holds it against a run.
    ///
    /// # Errors
    /// If the rules have no end, or facts cannot be read.
    fn examine(
        &self,
        database: &mut Database,
        run: &RunFacts<'_>,
        examined: &mut Examined,
    ) -> Result<()> {
        let program = self
            .program(&format!("{}.dl", self.name))
            .map_err(|problem| super::refused_file(Path::new(&self.name), &problem))?;
        run.complete(database, &program)?;
        database.evaluate(&program)?;
        for relation in program
            .relations()
            .filter(|relation| relation.is_violation())
        {
            let (facts, of) = database.facts(&program, &relation.name, TOLD_MAX)?;
            for fact in facts {
                let derivation = database.derivation(&program, &fact)?;
                examined.violated.push(Violated {
                    specification: self.name.clone(),
                    fact: fact.to_string(),
                    since_ns: fact.since_ns.unsigned_abs(),
                    of,
                    derivation: derivation.to_string(),
                });
            }
        }
        for unseen in database.unseen(&program)? {
            examined.unlooked.push(Unlooked {
                specification: self.name.clone(),
                violation: unseen.relation,
                lacks: unseen.missing,
            });
        }
        Ok(())
    }
}

impl Examined {
    /// Holds specifications against a run, whose database is a file or in memory.
    ///
    /// # Errors
    /// If the facts cannot be read, or the rules of a specification have no end;
    /// [`datalog::Error::Interrupted`] soon after `stops` says so.
    pub fn of(
        specifications: &[Specification],
        run: &RunFacts<'_>,
        path: Option<&Path>,
        stops: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut examined = Self::default();
        if specifications.is_empty() {
            return Ok(examined);
        }
        let mut database = run.database(path)?;
        database.stop_when(stops)?;
        for specification in specifications {
            specification.examine(&mut database, run, &mut examined)?;
        }
        Ok(examined)
    }
}

impl Violated {
    /// In a line.
    pub fn words(&self) -> String {
        let since = self.since_ns as f64 / 1e9;
        format!("{}: {} from {since:.3} s on", self.specification, self.fact)
    }
}

impl Unlooked {
    /// In a line.
    pub fn words(&self) -> String {
        let Self {
            specification,
            violation,
            lacks,
        } = self;
        format!(
            "{specification}: {violation} never had a fact to look at: there is no {}",
            lacks.join(", and no ")
        )
    }
}
