//! Rules that the crash states of a file system are held against: about what was done, what the disk
//! lost, and what is there once it has recovered.

mod facts;
mod leftover;
mod names;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use checker::{BrokenRule, Finding};
use datalog::{Database, Problem, Program, Value};
use local_fs::Tree;
use specification::rows::{self, Fact};
use specification::{About, Specification, Unlooked, facts_version, misled_by_unreadable};

use crate::error::Result;

pub(crate) use facts::{Done, WriteOrigins, of_crash, of_run};

/// So many facts of each violation are told.
const TOLD_MAX: u64 = 3;

/// So many facts of a relation are derived from one state: the database is in memory, and rules that
/// derive more and more are to be found before that is full.
const DERIVED_MAX: u64 = 1_000_000;

/// Relations that tell states apart that recover from the same content, after the same operations.
const OF_DISKS: [&str; 2] = ["disk_state", "lost_write"];

type Rows = Vec<Vec<Value>>;

/// Facts of a crash state, each with its relation.
pub type KeptFacts = Vec<(String, Vec<Value>)>;

/// Specifications that are ready to be asked, and what is known of the state that was asked about
/// last.
#[derive(Default)]
pub(crate) struct Rules {
    /// Each with its name.
    programs: Vec<(String, Program)>,
    /// Somebody may ask for any fact.
    are_all: bool,
    database: Option<Database>,
    /// What is in it.
    rows: BTreeMap<&'static str, Rows>,
    /// What came of it, and what was not told.
    last: Option<(Vec<Untold>, Said)>,
    /// Something failed in the database: it is made anew for the next state.
    is_spoilt: bool,
    /// The rows are those of the state that is judged, and not of an earlier one.
    are_of_state: bool,
}

/// What is known of a state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) facts: Vec<Fact>,
    /// What is known, and not told.
    pub(crate) untold: Vec<Untold>,
}

/// Facts about a file that nobody is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Untold {
    relation: &'static str,
    path: String,
    /// Why not.
    why: String,
}

/// What rules say of a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// What is violated: one for each relation.
    pub(crate) broken: Vec<Finding>,
    /// What had nothing to look at.
    pub(crate) unlooked: Vec<Unlooked>,
    /// Why not everything can be said.
    pub(crate) undecided: Option<String>,
    /// Rules that have no end, in no state: nothing is to be asked any more.
    pub(crate) endless: Option<String>,
}

impl Rules {
    /// Those of specifications.
    ///
    /// # Errors
    /// The first mistake in one.
    pub(crate) fn of(specifications: &[Specification]) -> std::result::Result<Self, Problem> {
        let program = |specification: &Specification| {
            let name = &specification.name;
            let program = specification.program(&format!("{name}.dl"), About::FileSystem)?;
            Ok((name.clone(), program))
        };
        let programs = specifications.iter().map(program);
        Ok(Self {
            programs: programs.collect::<std::result::Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// Has all facts of a state be there, for rules that are not known yet.
    pub(crate) fn keep_everything(&mut self, is_wanted: bool) {
        self.are_all = is_wanted;
        self.forget();
    }

    /// Whether states are to be looked at.
    pub(crate) fn are_asked(&self) -> bool {
        self.are_all || !self.programs.is_empty()
    }

    /// Whether a rule may say other things of states that recover from the same.
    pub(crate) fn tell_disks_apart(&self) -> bool {
        let mut programs = self.programs.iter();
        programs.any(|(_, program)| {
            let mut of_disks = OF_DISKS.iter();
            of_disks.any(|relation| program.mentions(relation))
        })
    }

    fn mention(&self, relation: &str) -> bool {
        let mut programs = self.programs.iter();
        self.are_all || programs.any(|(_, program)| program.mentions(relation))
    }

    /// Whether the lines of a file are told, of which this is the node, the path and the size; or why
    /// nothing can be said of a state that has it.
    fn are_lines_told(&self, file: (&str, &str, u64)) -> std::result::Result<bool, String> {
        let programs = self.programs.iter().map(|(_, program)| program);
        rows::are_lines_told(programs, self.are_all, file)
    }

    /// The same of what a file holds.
    fn is_content_told(&self, file: (&str, &str, u64)) -> std::result::Result<bool, String> {
        let programs = self.programs.iter().map(|(_, program)| program);
        rows::is_content_told(programs, self.are_all, file)
    }

    /// All violations, as those that had nothing to look at yet.
    pub(crate) fn unlooked(&self) -> Vec<Unlooked> {
        let of = |(name, program): &(String, Program)| {
            let relations = program.relations();
            let violations = relations.filter(|relation| relation.is_violation());
            let unlooked = violations.map(|relation| Unlooked {
                specification: name.clone(),
                violation: relation.name.clone(),
                lacks: Vec::new(),
            });
            unlooked.collect::<Vec<_>>()
        };
        self.programs.iter().flat_map(of).collect()
    }

    /// What the specifications say of a state of which this is known. What one of them cannot say keeps
    /// no other from saying what it does.
    pub(crate) fn examine(&mut self, told: Told) -> Said {
        let Told { facts, untold } = told;
        match self.fill(facts) {
            Ok(is_another) => self.last = self.last.take().filter(|_| !is_another),
            Err(error) => {
                // What is in the database is not known.
                self.forget();
                return Said {
                    undecided: Some(error.to_string()),
                    ..Said::default()
                };
            }
        }
        if let Some((_, said)) = self.last.as_ref().filter(|(last, _)| *last == untold) {
            return said.clone();
        }
        let said = self.evaluate(&untold);
        self.last = Some((untold, said.clone()));
        said
    }

    /// What each specification says of what is in the database.
    fn evaluate(&mut self, untold: &[Untold]) -> Said {
        let mut said = Said::default();
        let Some(database) = &mut self.database else {
            return said;
        };
        for (name, program) in &self.programs {
            if let Some(untold) = untold.iter().find(|untold| untold.may_matter_to(program)) {
                said.undecided.get_or_insert_with(|| untold.why.clone());
                continue;
            }
            let evaluated = database.evaluate(program);
            let added = evaluated.and_then(|()| said.add(name, program, database));
            let Err(error) = added else { continue };
            self.is_spoilt = true;
            let why = format!("{name}: {error}");
            if matches!(error, datalog::Error::NoEnd { .. }) {
                said.endless = Some(why);
                return said;
            }
            said.undecided.get_or_insert(why);
        }
        said
    }

    /// Leaves of what is violated what can be told of a tree that the file system did not show whole:
    /// what it would not show may be there.
    pub(crate) fn doubt(&self, said: Said, tree: &Tree) -> Said {
        let Some(error) = tree.errors.first().filter(|_| !said.broken.is_empty()) else {
            return said;
        };
        let is_misled = |finding: &Finding| {
            self.programs.iter().any(|(name, program)| {
                let mut misled = misled_by_unreadable(program).into_iter();
                misled.any(|relation| finding.rule_name() == Some(&*rule_name(name, relation)))
            })
        };
        let (doubtful, broken): (Vec<_>, Vec<_>) = said.broken.into_iter().partition(is_misled);
        let undecided = doubtful.first().map(|finding| {
            let why = std::io::Error::from_raw_os_error(error.errno);
            let (doing, path) = (error.doing, named(&error.path));
            format!(
                "{}, but not everything was shown: {doing} {path}: {why}",
                finding.what
            )
        });
        Said {
            broken,
            undecided: said.undecided.or(undecided),
            ..said
        }
    }

    fn forget(&mut self) {
        (self.database, self.last) = (None, None);
        self.rows.clear();
        (self.is_spoilt, self.are_of_state) = (false, false);
    }

    /// Another state is judged: nothing is known of it until it was asked about.
    pub(crate) fn begin_state(&mut self) {
        self.are_of_state = false;
    }

    /// Has the database have these facts, and no others. Says whether it had others.
    fn fill(&mut self, facts: Vec<Fact>) -> datalog::Result<bool> {
        let known = specification::facts(About::FileSystem);
        if self.is_spoilt {
            self.forget();
        }
        if self.database.is_none() {
            let database = self.database.insert(Database::in_memory(&known)?);
            database.derive_at_most(DERIVED_MAX);
        }
        let database = self.database.as_mut().expect("it was made");
        let mut new: BTreeMap<&'static str, Rows> = BTreeMap::new();
        for (relation, row) in facts {
            new.entry(relation).or_default().push(row);
        }
        let mut is_another = false;
        for relation in known {
            let rows = new.remove(relation.name).unwrap_or_default();
            let old = self.rows.entry(relation.name).or_default();
            if *old == rows {
                continue;
            }
            is_another = true;
            if !old.is_empty() {
                database.remove(relation.name, &[], None)?;
            }
            old.clone_from(&rows);
            database.add(relation.name, rows)?;
        }
        debug_assert!(new.is_empty(), "{new:?}");
        self.are_of_state = true;
        Ok(is_another)
    }

    /// The facts of the state that was judged last; none if nothing could be asked about it.
    pub(crate) fn facts(&self) -> KeptFacts {
        if !self.are_of_state {
            return KeptFacts::new();
        }
        let of = |(relation, rows): (&&'static str, &Rows)| {
            let rows = rows.iter().cloned();
            let relation = (*relation).to_owned();
            rows.map(move |row| (relation.clone(), row))
                .collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(of).collect()
    }
}

/// Writes facts into a new file, which is there when it is whole, with the name of the crash state that
/// they are of.
///
/// # Errors
/// If it cannot be written.
pub fn keep_facts(path: &Path, address: &str, facts: KeptFacts) -> Result<()> {
    let known = specification::facts(About::FileSystem);
    let mut of_each: BTreeMap<String, Rows> = BTreeMap::new();
    for (relation, row) in facts {
        of_each.entry(relation).or_default().push(row);
    }
    let fill = |database: &mut Database| {
        for (relation, rows) in of_each {
            database.add(&relation, rows)?;
        }
        database.set_note(address)
    };
    let version = facts_version(About::FileSystem);
    let made = Database::create::<datalog::Error>(path, &known, version, fill);
    Ok(made.map(drop)?)
}

/// The name of the crash state that kept facts are of; none if there is no such file, or it does not say.
///
/// # Errors
/// If the file is something else, or of another version.
pub fn state_of_facts(path: &Path) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    Ok(Database::open(path, facts_version(About::FileSystem))?.note())
}

impl Untold {
    /// Whether rules may ask for it.
    fn may_matter_to(&self, program: &Program) -> bool {
        program.may_ask(self.relation, "path", &self.path.as_str().into())
    }
}

impl Said {
    /// Adds what a specification comes to, which was evaluated.
    fn add(&mut self, name: &str, program: &Program, database: &Database) -> datalog::Result<()> {
        let relations = program.relations();
        for relation in relations.filter(|relation| relation.is_violation()) {
            let broken = broken(name, &relation.name, program, database)?;
            self.broken.extend(broken);
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

/// What the relation of a specification is called in findings.
fn rule_name(specification: &str, relation: &str) -> String {
    format!("{specification}: {relation}")
}

/// A path of a tree as facts have it: the root has a name, too.
fn named(path: &str) -> String {
    if path.is_empty() {
        ".".into()
    } else {
        path.replace('\0', "")
    }
}

/// What a relation of violations comes to: nothing if it has no facts.
fn broken(
    name: &str,
    relation: &str,
    program: &Program,
    database: &Database,
) -> datalog::Result<Option<Finding>> {
    let (facts, of) = database.facts(program, relation, TOLD_MAX)?;
    if facts.is_empty() {
        return Ok(None);
    }
    let mut trees = Vec::new();
    for fact in &facts {
        let derivation = database.derivation(program, fact)?.to_string();
        trees.push(derivation.trim_end().to_owned());
    }
    let rule = BrokenRule {
        name: rule_name(name, relation),
        derivation: trees.join("\n"),
    };
    let told: Vec<_> = facts.iter().map(ToString::to_string).collect();
    let mut what = format!("{name}: {}", told.join(", "));
    let more = of.saturating_sub(facts.len() as u64);
    if more > 0 {
        what += &format!(", and {more} more");
    }
    Ok(Some(Finding::of_rule(rule, what)))
}
