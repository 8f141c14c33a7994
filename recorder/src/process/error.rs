use std::io;
use std::path::PathBuf;

/// The result of recording processes.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why processes could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They could not be traced.
    #[error(transparent)]
    Trace(#[from] tracer::Error),
    /// The directory of data cannot be read.
    #[error("failed to read {path}: {error}")]
    Directory {
        /// What of it.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What a schedule does on the disk beside the program cannot be done.
    #[error(
        "what the schedule {schedule} does on the disk beside the program failed: {error}; --schedules quiet does nothing"
    )]
    Bystander {
        /// The schedule.
        schedule: String,
        /// Why.
        error: io::Error,
    },
}
