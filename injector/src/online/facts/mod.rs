//! What happened in a run, as facts in a database, and specifications that are held against them.

mod calls;
mod fill;
mod logs;
mod looks;

use std::path::{Path, PathBuf};

use datalog::{Database, Program};
use specification::{About, Examined, Specification, facts, facts_version};

use super::ran::Ran;
use super::run::HISTORY;
use crate::error::{Error, Result};

pub use calls::KnownCalls;
pub use logs::LogTime;
pub(crate) use logs::write_times;
pub(super) use logs::{log_of, log_times};
pub use looks::wanted_reading;
pub(super) use looks::write_looks;

/// What the file with every line of the clients is called.
pub const ACKNOWLEDGEMENTS: &str = "acknowledgements";

/// The directory of logs.
pub const LOGS: &str = "logs";

/// The file that says when logs grew.
pub const LOG_TIMES: &str = "log-times.jsonl";

/// The file with what directories of data had.
pub const LOOKS: &str = "looks.jsonl";

/// The database of a run.
pub const FACTS_FILE: &str = "facts.sqlite";

/// The relation of calls that were counted.
const MADE: &str = "made";

/// The relation of messages that were counted.
const MADE_MESSAGE: &str = "made_message";

/// Where a run left what it left.
#[derive(Debug, Clone)]
pub struct RunFiles {
    /// What clients did.
    pub history: PathBuf,
    /// Every line that they printed.
    pub acknowledgements: PathBuf,
    /// The directory of logs.
    pub logs: PathBuf,
    /// When these grew.
    pub log_times: PathBuf,
    /// What directories of data had, if somebody looked.
    pub looks: PathBuf,
}

impl RunFiles {
    /// Those in a directory of `runs`.
    pub fn kept(directory: &Path) -> Self {
        Self {
            history: directory.join(HISTORY),
            acknowledgements: directory.join(ACKNOWLEDGEMENTS),
            logs: directory.join(LOGS),
            log_times: directory.join(LOG_TIMES),
            looks: directory.join(LOOKS),
        }
    }

    /// Whether it is there what clients did and said: every run whose clients were started has left that.
    fn are_there(&self) -> bool {
        self.history.exists() && self.acknowledgements.exists()
    }
}

/// A run that rules are about.
#[derive(Debug, Clone)]
pub struct RunFacts<'a> {
    /// Which kind of run it is: what there can be facts of.
    pub about: About,
    /// The names of nodes.
    pub nodes: &'a [String],
    /// The names of clients.
    pub clients: &'a [String],
    /// Of each fault how a plan calls it.
    pub kinds: Vec<&'static str>,
    /// What is known of its calls.
    pub calls: KnownCalls,
    /// What happened.
    pub ran: &'a Ran,
    /// What it left.
    pub files: &'a RunFiles,
    /// Of a live run, when each line of the first client came, in nanoseconds from its start on.
    pub lines_ns: &'a [u64],
}

#[cfg(test)]
impl<'a> RunFacts<'a> {
    /// Those of a run with no nodes and no clients.
    pub(in crate::online) fn bare(ran: &'a Ran, files: &'a RunFiles) -> Self {
        Self {
            about: About::Run,
            nodes: &[],
            clients: &[],
            kinds: Vec::new(),
            calls: KnownCalls::default(),
            ran,
            files,
            lines_ns: &[],
        }
    }
}

impl RunFacts<'_> {
    /// Its facts, in a file that stays, or in memory. A file that is there already has them; it is made anew
    /// if it is of another version.
    ///
    /// # Errors
    /// If something of the run cannot be read, or the database not be made; if there is a file of
    /// another version, and what the run left is gone.
    pub fn database(&self, path: Option<&Path>) -> Result<Database> {
        let (inputs, version) = (facts(self.about), facts_version(self.about));
        let Some(path) = path else {
            let mut database = Database::in_memory(&inputs)?;
            fill::fill(&mut database, self)?;
            return Ok(database);
        };
        match path.exists().then(|| Database::open(path, version)) {
            None => {}
            Some(Err(datalog::Error::OtherVersion { .. })) if self.files.are_there() => {}
            Some(opened) => return Ok(opened?),
        }
        Database::create(path, &inputs, version, |database| {
            fill::fill(database, self)
        })
    }

    /// Its facts in a new file that stays, with what nodes logged: nothing else of it is there later.
    ///
    /// # Errors
    /// If something of the run cannot be read, or the database not be made.
    pub fn keep(&self, path: &Path) -> Result<()> {
        let (inputs, version) = (facts(self.about), facts_version(self.about));
        let made = Database::create(path, &inputs, version, |database| {
            fill::fill(database, self)?;
            fill::fill_logs(database, self)
        });
        made.map(drop)
    }

    /// Puts in what a program needs and was left out so far: what nodes logged, and what their directories had. If
    /// that is interrupted, none of it is there.
    ///
    /// # Errors
    /// If logs cannot be read, or a program asks for calls or messages that were not counted, or for directories at
    /// which nobody looked: what it says of them would be wrong.
    pub fn complete(&self, database: &mut Database, program: &Program) -> Result<()> {
        // Of others these are names that rules may have for themselves.
        if self.about == About::Run {
            self.refuse_uncounted(program)?;
            if looks::are_asked_for(program) {
                let seen = looks::read(&self.files.looks)?;
                looks::refuse_unknown(&seen, program)?;
                if database.count(looks::LOOKED)? == 0 {
                    database.add_whole(|database| looks::fill(database, &seen))?;
                }
            }
        }
        if program.mentions("logged") && database.count("logged")? == 0 {
            database.add_whole(|database| fill::fill_logs(database, self))?;
        }
        Ok(())
    }

    /// Fails if a program asks for what was not counted.
    fn refuse_uncounted(&self, program: &Program) -> Result<()> {
        let mut counted = [MADE, MADE_MESSAGE].into_iter();
        let unknown = counted.find_map(|relation| {
            let is_asked = program.mentions(relation);
            let why = self.calls.unknown(relation, self.ran)?;
            is_asked.then_some((relation, why))
        });
        match unknown {
            None => Ok(()),
            Some((relation, why)) => Err(Error::System {
                doing: format!("look at `{relation}`"),
                error: std::io::Error::other(why),
            }),
        }
    }
}

/// Holds specifications against a run, whose database is a file or in memory. One that cannot be evaluated
/// keeps no other from what it finds.
///
/// # Errors
/// If the facts cannot be read; [`datalog::Error::Interrupted`] soon after `stops` says so.
pub fn examine(
    specifications: &[Specification],
    run: &RunFacts<'_>,
    path: Option<&Path>,
    stops: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Examined> {
    let mut examined = Examined::default();
    if specifications.is_empty() {
        return Ok(examined);
    }
    let mut database = run.database(path)?;
    database.stop_when(stops)?;
    for specification in specifications {
        match examine_one(specification, run, &mut database, &mut examined) {
            Err(error @ Error::Facts(datalog::Error::Interrupted)) => return Err(error),
            Err(error) => examined.leave_out(&specification.name, &error),
            Ok(()) => {}
        }
    }
    Ok(examined)
}

fn examine_one(
    specification: &Specification,
    run: &RunFacts<'_>,
    database: &mut Database,
    examined: &mut Examined,
) -> Result<()> {
    let name = &specification.name;
    let program = specification
        .program(&format!("{name}.dl"), run.about)
        .map_err(|problem| refused_file(Path::new(name), &problem))?;
    run.complete(database, &program)?;
    database.evaluate(&program)?;
    Ok(examined.add(name, &program, database)?)
}

fn refused_file(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::System {
        doing: format!("read {}", path.display()),
        error: std::io::Error::other(why.to_string()),
    }
}

#[cfg(test)]
mod tests;
