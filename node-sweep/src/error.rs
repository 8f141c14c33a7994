//! Why crash states of programs and clusters cannot be looked at.

use std::io;
use std::path::PathBuf;

use crate::tree::Impossible;

/// The result of what is done with crash states.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why crash states cannot be made or looked at, or results not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses something. The cause is in the words, and is no source: a pipe that was
    /// closed is one of standard output only where that is printed.
    #[error("{doing}: {error}")]
    System {
        /// What was to be done, and to what.
        doing: String,
        /// Why it is not.
        error: io::Error,
    },
    /// Something larger was under way when it failed.
    #[error("{doing}")]
    During {
        /// What.
        doing: String,
        /// Why it failed.
        #[source]
        why: Box<Error>,
    },
    /// The results cannot be read or kept.
    #[error(transparent)]
    Campaign(#[from] campaign::Error),
    /// The cluster cannot be started, or asked.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// A file system cannot be mounted.
    #[error(transparent)]
    FileSystem(#[from] local_fs::Error),
    /// A disk cannot be made.
    #[error(transparent)]
    Disk(#[from] block_dev::Error),
    /// The trace cannot be read or kept.
    #[error(transparent)]
    Trace(#[from] trace_store::Error),
    /// What is asked for does not fit what was recorded of the calls.
    #[error(transparent)]
    Calls(#[from] pace_rules::nodes::Error),
    /// What is asked for does not fit what was recorded of the disks.
    #[error(transparent)]
    Blocks(#[from] pace_rules::nodes::BlockError),
    /// No file system has such a tree.
    #[error(transparent)]
    Tree(#[from] Impossible),
    /// A line of results cannot be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),

    /// There is no model of that name.
    #[error("there is no model {0}")]
    NoModel(String),
    /// Nothing was recorded of a node of the cluster file.
    #[error("nothing was recorded of node {0}: record the cluster again")]
    NodeNotRecorded(String),
    /// Nothing was recorded of the primary.
    #[error("nothing was recorded of the primary, {0}")]
    PrimaryNotRecorded(String),
    /// Nothing was recorded of a program's files.
    #[error("nothing was recorded of the program's directory")]
    DirectoryNotRecorded,
    /// A program that was recorded as if it were a cluster.
    #[error("a program has one directory, and {0} were recorded")]
    SeveralDirectories(usize),
    /// A program finds its files by a path, which only root can put a state at.
    #[error(
        "the program keeps the path of its directory in its files, where only root can show a crash \
         state: run this as root"
    )]
    NeedsRoot,
    /// The trace names a directory that is none of ours.
    #[error("{0} is no directory that a program was recorded in")]
    NotOurs(PathBuf),
    /// There is a mistake in rules.
    #[error(transparent)]
    Rules(datalog::Problem),
    /// There are no facts of states of disks.
    #[error("specifications are for --level syscalls: say so, or leave --spec out")]
    RulesOfCalls,
    /// An earlier version did not write down what came before a recovery.
    #[error(
        "an earlier version recorded the recoveries of this trace, and rules need what it did not \
         write down: record them again, with --again"
    )]
    NoPast,
    /// Facts cannot be put into a database, or rules not be evaluated.
    #[error(transparent)]
    Facts(#[from] datalog::Error),
    /// The facts of a state cannot be told.
    #[error("{0}")]
    NotTold(String),
    /// There are no facts of states of disks.
    #[error(
        "there are no facts of finding {0}: it is of a disk, and rules can be asked of the level of \
         system calls"
    )]
    NoFacts(usize),
    /// There are too many states.
    #[error(
        "there are more states than can be counted: draw some with --sample, or lose less with \
         --lost"
    )]
    TooMany,
    /// No file system would show a state.
    #[error("no file system would show state {0}")]
    NotShown(u64),
    /// A thread of the sweep is gone.
    #[error("what {0} states has panicked")]
    Panicked(&'static str),
    /// The check has something to say of what no crash has touched.
    #[error("{0}")]
    NotOk(String),
    /// The disk of a node cannot be mounted.
    #[error("node {node}: {why}")]
    NotMounted {
        /// Its name.
        node: String,
        /// Why.
        why: String,
    },
    /// No cluster can be started on a state.
    #[error("{0}")]
    NotPut(String),
    /// There are files where some are to be written.
    #[error("{0} is not empty: name a new directory for --keep")]
    NotEmpty(PathBuf),
    /// A directory could not be copied.
    #[error("{from} cannot be copied to {to}")]
    NotCopied {
        /// Which.
        from: PathBuf,
        /// Where to.
        to: PathBuf,
    },

    /// A directory of another kind of sweep.
    #[error("{0} is not of a program or a cluster: continue it with crashpoint fs --resume")]
    OfFileSystems(PathBuf),
    /// A manifest that this version does not understand.
    #[error("{path} is not a manifest of this version")]
    NoManifest {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        why: serde_json::Error,
    },
    /// The trace of a sweep was replaced.
    #[error("{0} is not the trace of this sweep: put it back, or begin anew")]
    OtherTrace(PathBuf),
    /// Results are of another sweep than the files beside them.
    #[error(
        "the results name state {state}, and the sweep has {len}: its files do not belong together"
    )]
    StateBeyond {
        /// The state.
        state: u64,
        /// How many states there are.
        len: u64,
    },
    /// A line that does not belong there.
    #[error("{0}")]
    Line(&'static str),
    /// There is nothing to put together.
    #[error("no part to merge")]
    NoParts,
    /// There is no finding of that number.
    #[error("there is no finding {number}: {what}")]
    NoFinding {
        /// The number.
        number: usize,
        /// What there is.
        what: String,
    },
}

impl Error {
    /// Whether somebody interrupted it, and nothing failed.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Calls(pace_rules::nodes::Error::Unwanted))
    }
}

/// Says what was being done when something failed.
pub(crate) trait Context<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::System {
            doing: doing(),
            error: error.into(),
        })
    }
}

/// Says what larger thing was under way when something failed.
pub(crate) trait During<T> {
    fn during(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Error>> During<T> for Result<T, E> {
    fn during(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::During {
            doing: doing(),
            why: Box::new(error.into()),
        })
    }
}
