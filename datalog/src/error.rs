//! What can go wrong with a database.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why rules could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database refused something.
    #[error("{doing}: {error}")]
    Database {
        /// What was being done.
        doing: String,
        /// Why it failed.
        error: rusqlite::Error,
    },
    /// The file is something else.
    #[error("{path} is no database of facts; if nothing else needs it, remove it")]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file was made by another version.
    #[error(
        "{path} is a database of version {found}, and this program reads version {known}: remove it, and it is made again"
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The version that is known.
        known: String,
    },
    /// Rules that derive more and more.
    #[error(
        "the rules of {relation} do not end: they have derived {facts} facts in {rounds} rounds; something in them has to have a bound, such as `N < 100`"
    )]
    NoEnd {
        /// A relation that they are of.
        relation: String,
        /// How many facts there are of it.
        facts: u64,
        /// In how many rounds.
        rounds: u64,
    },
    /// Rules that derive too much at once.
    #[error(
        "the rules of {relation} derive more than {facts} facts, or more than there is memory for"
    )]
    TooMany {
        /// A relation that they are of.
        relation: String,
        /// So many facts may be derived.
        facts: u64,
    },
    /// A number does not fit.
    #[error("in the rules of {relation}: a number does not fit into 64 bits")]
    TooLarge {
        /// The relation.
        relation: String,
    },
    /// It was to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What was done, or why it could not be.
pub type Result<T> = std::result::Result<T, Error>;

/// Says what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Error::Interrupted,
            _ => Error::Database {
                doing: what(),
                error,
            },
        })
    }
}
