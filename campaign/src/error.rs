//! Why the files of a sweep cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::version::VERSION;

/// An error of whoever reads the lines of a file, or opens the results of a shard.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why the files of a sweep cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses something. The cause is in the words, and is no source: a pipe that was
    /// closed is one of standard output only where that is printed.
    #[error("{doing} {path}: {error}{}", advice(error))]
    File {
        /// What was done to it, such as `open`.
        doing: &'static str,
        /// What it is.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A line that does not count is followed by one that does.
    #[error(
        "{path}:{line} is damaged, and results follow it: remove that line to have its workload \
         repeated"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// A line means nothing that can be used.
    #[error("{path}:{line}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// Why.
        #[source]
        why: Cause,
    },
    /// Results are there already.
    #[error(
        "{0} holds results already: continue them with --resume {0}, or choose another directory \
         for --out"
    )]
    HasResults(PathBuf),
    /// Files are there that are not of a sweep.
    #[error(
        "{directory} has other files in it, such as {other}: choose a new or an empty directory \
         for --out"
    )]
    HasOthers {
        /// Where.
        directory: PathBuf,
        /// One of them.
        other: PathBuf,
    },
    /// There is no manifest.
    #[error("no sweep was begun in {0}: begin one with --out {0}")]
    NotBegun(PathBuf),
    /// Another process has the lock.
    #[error("another crashpoint is at work in {0}: wait for its end")]
    Busy(PathBuf),
    /// Another version wrote it.
    #[error(
        "{path} was written by Crashpoint {version} (format {written} of its results), and this is \
         {VERSION} (format {format}): use that version, or begin anew with another directory for \
         --out"
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// The version of the program that wrote it.
        version: String,
        /// The format of the directory.
        written: u64,
        /// The format that this program reads.
        format: u64,
    },
    /// A manifest was changed.
    #[error("the manifest names the shard {shard:?}: {why}")]
    ManifestShard {
        /// What it says.
        shard: String,
        /// What is wrong with it.
        why: NoShard,
    },
    /// Shards do not belong together, or are not all there.
    #[error(transparent)]
    Parts(#[from] crate::parts::Mismatch),
    /// The results of a shard cannot be opened.
    #[error(transparent)]
    Part(Cause),
}

/// A text is no shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a shard is I/N with I from 1 to N")]
pub struct NoShard;

/// What this crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of something that was done to a file.
pub(crate) fn cannot(doing: &'static str, path: &Path, error: io::Error) -> Error {
    Error::File {
        doing,
        path: path.into(),
        error,
    }
}

/// What to do, where that is known.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (free some space, or choose another directory for --out)"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            " (name a directory that is empty, or one that is not there yet)"
        }
        _ => "",
    }
}
