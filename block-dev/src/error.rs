use std::io;
use std::path::PathBuf;

/// What went wrong with a disk.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A device node that the front ends need is missing or may not be used.
    #[error("open {path}: {source} ({hint})")]
    Device {
        /// The device node.
        path: PathBuf,
        /// What to do about it.
        hint: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// No loop device could be had.
    #[error(
        "attach a loop device: {source} (is every loop device in use? `losetup -a` lists them)"
    )]
    NoLoopDevice {
        /// The system's answer.
        source: io::Error,
    },
    /// Any other system call.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done to what; fits after "failed to".
        doing: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was being done when a system call failed.
pub(crate) trait Context<T> {
    fn doing<D: Into<String>>(self, doing: impl FnOnce() -> D) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn doing<D: Into<String>>(self, doing: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing: doing().into(),
            source: source.into(),
        })
    }
}
