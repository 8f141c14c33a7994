use std::io;
use std::path::PathBuf;

use nix::sys::signal::Signal;

use crate::process::Ending;

/// The result of what is done with a cluster.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a cluster cannot be described, started or asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster file cannot be read.
    #[error("read {path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The cluster file does not follow its syntax.
    #[error("{path} line {line}{}: {what}", column_words(*.column))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where in it.
        line: usize,
        /// Where in that line, if that is known.
        column: Option<usize>,
        /// What is wrong.
        what: String,
    },
    /// The cluster file asks for what there is not.
    #[error("{path}: {what}")]
    Meaning {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A command of the cluster file does not exist.
    #[error("{whose}: there is no program {program}: install it, or give its path")]
    NoProgram {
        /// What it is for.
        whose: String,
        /// Its name.
        program: String,
    },
    /// The kernel refuses something.
    #[error("{doing}: {error}")]
    System {
        /// What was to be done.
        doing: String,
        /// Why it is not.
        error: io::Error,
    },
    /// A node does not become ready.
    #[error("node {node} {what}{}", log_words(.tail))]
    NotReady {
        /// Its name.
        node: String,
        /// What it does instead.
        what: String,
        /// The last lines of its log.
        tail: Vec<String>,
    },
    /// A command did not do what it is for.
    #[error("{whose} {what}")]
    Command {
        /// What it is for.
        whose: String,
        /// How it ended.
        what: String,
    },
    /// A disk could not be made, or does not do what it is asked for.
    #[error(transparent)]
    BlockDevice(#[from] block_dev::Error),
    /// A file system could not be made, mounted or unmounted.
    #[error(transparent)]
    FileSystem(#[from] local_fs::Error),
    /// A power failure was to cost what no power failure may.
    #[error(transparent)]
    Selection(#[from] pace_rules::disk::NoSuchState),
    /// The machines of a cluster cannot be simulated.
    #[error(transparent)]
    Simulation(simulation::Error),
    /// A simulated machine cannot be set up, or does not do what it is asked for, and nothing on its disk
    /// is why: it is short of something, a program that it needs is missing or was killed, or its kernel was.
    #[error("the machine of {node} does not do what it is asked for: {what}")]
    Unable {
        /// Whose machine.
        node: String,
        /// What it says.
        what: String,
    },
    /// A disk that was mounted has no longer the directory of its node's data.
    #[error("the directory {path} is lost: {error}")]
    NoData {
        /// The directory's name on it.
        path: PathBuf,
        /// What the kernel says of it.
        error: io::Error,
    },
    /// A disk is mounted somewhere else, or somebody has a file on it open.
    #[error("the disk of {0} is still in use")]
    InUse(PathBuf),
    /// A node has no disk of its own, so nothing is known of what a power failure leaves of it.
    #[error("node {0} has no disk of its own")]
    NoDisk(String),
    /// The simulation stands still at the point that it was asked to stop at, while something else
    /// was waited for.
    #[error("the simulation is at the point at which it was to stop")]
    AtPoint,
    /// The simulation stands still at the time at which it was asked to stop.
    #[error("the simulation is at the time at which it was to stop")]
    AtTime,
    /// Somebody asked for the end.
    #[error("it was interrupted")]
    Interrupted,
}

/// What a node does whose machine cannot use what is on its disk.
pub const UNUSABLE_DISK: &str = "cannot use its disk";

/// Whether a command that ended as these words say ([`Ending`]) was killed by somebody else, such as a kernel
/// that is short of memory: that says nothing of the node.
pub fn is_killed(how: &str) -> bool {
    how.starts_with(&Ending::Signal(Signal::SIGKILL).to_string())
}

impl Error {
    /// Whether a node's command was killed by somebody else ([`is_killed`]).
    pub fn is_killed(&self) -> bool {
        matches!(self, Self::NotReady { what, .. } if is_killed(what))
    }

    /// Whether a node is not ready since its machine cannot use what is on its disk.
    pub fn is_of_disk(&self) -> bool {
        matches!(self, Self::NotReady { what, .. } if what.starts_with(UNUSABLE_DISK))
    }
}

impl From<simulation::Error> for Error {
    fn from(error: simulation::Error) -> Self {
        match error {
            simulation::Error::Interrupted => Self::Interrupted,
            error => Self::Simulation(error),
        }
    }
}

/// A column, after the words for a line.
fn column_words(column: Option<usize>) -> String {
    column.map_or_else(String::new, |column| format!(", column {column}"))
}

/// The end of a log, after other words.
pub(crate) fn log_words(tail: &[String]) -> String {
    if tail.is_empty() {
        "; it logged nothing".into()
    } else {
        format!("; its log ends: {}", tail.join(" | "))
    }
}

/// Says what was being done when something failed.
pub(crate) trait Context<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::System {
            doing: doing(),
            error: error.into(),
        })
    }
}
