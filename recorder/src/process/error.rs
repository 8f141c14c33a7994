use std::io;
use std::path::PathBuf;

/// The result of recording processes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why processes could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program did not start.
    #[error("failed to start {program}: {error}")]
    Start {
        /// Its name, as it was given.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// It has privileges of its own, which it would not have under a recorder.
    #[error(
        "{0} is set-uid or set-gid: recorded it would run without its privileges, so run what it would run as that user"
    )]
    SetUid(PathBuf),
    /// The directory of data cannot be read.
    #[error("failed to read {path}: {error}")]
    Directory {
        /// What of it.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The kernel does not let us.
    #[error("failed to {doing} of {node}: {error}")]
    Trace {
        /// What was being done.
        doing: &'static str,
        /// Of which node.
        node: String,
        /// Why.
        error: io::Error,
    },
}
