use std::io;
use std::path::PathBuf;

/// The result of tracing processes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why processes could not be traced.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program did not start.
    #[error("failed to start {program}: {source}")]
    Start {
        /// Its name, as it was given.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It has privileges of its own, which it would not have under a tracer.
    #[error(
        "{0} is set-uid or set-gid: traced it would run without its privileges, so run what it \
         would run as that user"
    )]
    SetUid(PathBuf),
    /// The kernel does not let us.
    #[error("failed to {doing} of {node}: {source}")]
    Trace {
        /// What was being done.
        doing: &'static str,
        /// Of which node.
        node: String,
        /// Why.
        source: io::Error,
    },
}
