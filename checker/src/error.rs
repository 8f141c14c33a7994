//! Why a file system, or what a crash left of it, cannot be judged.

/// Why there is no contract by which a file system could be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoContract {
    /// Nothing is known of what it promises.
    #[error("there is no contract for {0}")]
    Unknown(&'static str),
    /// It is mounted so that it does not recover from a crash.
    #[error("{name} with '-o {option}' promises nothing: it does not recover")]
    NoRecovery {
        /// The file system.
        name: &'static str,
        /// The mount option.
        option: &'static str,
    },
    /// It is mounted so that nothing can be written.
    #[error("{0} with '-o ro' cannot be tested: nothing can be written to it")]
    ReadOnly(&'static str),
    /// It is made without its journal.
    #[error("{0} without a journal is not supported: ext2 is, with the same fsck")]
    NoJournal(&'static str),
    /// f2fs is mounted without checkpoints.
    #[error("f2fs with 'checkpoint=disable' promises nothing until it is enabled")]
    NoCheckpoints,
}

/// Why it could not be decided whether a tree is what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Undecided {
    /// The model has lost track of what was done.
    #[error("the model cannot follow operation {number}, {op}")]
    NotFollowed {
        /// The operation's index.
        number: usize,
        /// The operation.
        op: String,
    },
    /// The model has lost track of what is durable.
    #[error("the model cannot follow what operation {number}, {op}, makes durable")]
    DurabilityNotFollowed {
        /// The operation's index.
        number: usize,
        /// The operation.
        op: String,
    },
    /// Many files look the same.
    #[error(
        "its names can be read in too many ways, of which {tried} were tried: many files look the same"
    )]
    TooManyReadings {
        /// How many ways were tried.
        tried: usize,
    },
    /// The running file system could not be read.
    #[error("{doing} of '{path}' failed while it was running")]
    NotRead {
        /// What failed.
        doing: String,
        /// Of what.
        path: String,
    },
    /// There is more than is read, or the machine had no room for it.
    #[error("{doing} of '{path}' is too much: {reason}")]
    TooMuch {
        /// What was not read.
        doing: String,
        /// Of what.
        path: String,
        /// What there is too much of, in words.
        reason: String,
    },
    /// The running file system shows something else than the model.
    #[error("'{path}': {what}")]
    Differs {
        /// Where.
        path: String,
        /// How.
        what: String,
    },
}
