//! One line of a history.

use std::fmt;

use crate::Value;

/// Something that happened: a client called or was answered, or a fault began or ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its number in the history, which grows from event to event.
    pub index: u64,
    /// When it happened, since the start of the run.
    pub time_ns: u64,
    /// Whose event it is.
    pub process: Process,
    /// What it is of an operation.
    pub kind: Kind,
    /// The operation: `read`, `write`, `acquire`; of the nemesis what it did.
    pub f: String,
    /// The object, where there are several.
    pub key: Option<Value>,
    /// What is written, or was read.
    pub value: Value,
    /// Why it failed, or nobody knows what became of it.
    pub error: Option<Value>,
}

/// Who does things one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    /// A client. One whose operation ended unknown goes on under a new number.
    Client(u64),
    /// What injects faults. Its events are [`Kind::Info`].
    Nemesis,
}

/// What an event is of its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The call.
    Invoke,
    /// It took effect.
    Ok,
    /// It certainly took no effect, and never will.
    Fail,
    /// Nobody knows whether it took effect, or it still may. Of the nemesis: anything.
    Info,
}

impl Kind {
    /// All of them, with their words.
    const WORDS: [(Self, &'static str); 4] = [
        (Self::Invoke, "invoke"),
        (Self::Ok, "ok"),
        (Self::Fail, "fail"),
        (Self::Info, "info"),
    ];

    /// The word for it in files.
    pub fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(kind, _)| *kind == self);
        found.expect("each kind has a word").1
    }

    /// The kind that a word of a file means.
    pub fn from_word(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(_, known)| *known == word);
        found.map(|(kind, _)| *kind)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(number) => write!(formatter, "{number}"),
            Self::Nemesis => formatter.write_str("nemesis"),
        }
    }
}
