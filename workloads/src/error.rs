//! What can be wrong with a text, and where.

use std::io;

/// A text that is not a workload: where, and what was expected there.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct ParseError {
    /// The name that the caller gave the text.
    pub file: String,
    /// Counted from 1.
    pub line: u64,
    /// In characters, counted from 1.
    pub column: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong at one place of a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The first word of a statement is none that the language knows.
    #[error("unknown operation '{}'{}", shown(word), did_you_mean(*suggestion))]
    UnknownOperation {
        /// The word.
        word: String,
        /// The known word that it resembles.
        suggestion: Option<&'static str>,
    },
    /// An argument is missing or is not of its kind.
    #[error("expected {what}, found {}", found_words(found.as_deref()))]
    Expected {
        /// The argument, in words.
        what: &'static str,
        /// What stands there; nothing at the end of the operation.
        found: Option<String>,
    },
    /// A number is larger than its argument can be.
    #[error(
        "{} is too large for {} (at most {limit})",
        shown(number),
        without_example(what)
    )]
    TooLarge {
        /// The number as written.
        number: String,
        /// The argument, in words.
        what: &'static str,
        /// The largest value, written as the argument is.
        limit: String,
    },
    /// A path that does not name something below the root of the file system.
    #[error("path '{}' {reason}", shown(path))]
    BadPath {
        /// The path as written.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A handle is used before `open … as @name` or after `close @name`.
    #[error(
        "handle '@{}' is not open: open it with 'open PATH as @{}' first",
        shown(name),
        shown(name)
    )]
    HandleNotOpen {
        /// Its name without the `@`.
        name: String,
    },
    /// A handle is opened again before it was closed.
    #[error("handle '@{}' is already open", shown(name))]
    HandleOpen {
        /// Its name without the `@`.
        name: String,
    },
    /// More words than the operation takes.
    #[error("unexpected '{}' after a complete '{after}'", shown(word))]
    Trailing {
        /// The first word too many.
        word: String,
        /// The operation.
        after: String,
    },
    /// `workload`, `setup`, `run` or `!` where it may not stand.
    #[error("'{word}' {reason}")]
    Misplaced {
        /// The word.
        word: &'static str,
        /// Why it may not stand here.
        reason: &'static str,
    },
    /// The text is malformed before its meaning matters: a quote, an escape, its bytes, its size.
    #[error("{0}")]
    Malformed(&'static str),
    /// The bound on operations, which `repeat` reaches easily.
    #[error("the workload has more than {limit} operations")]
    TooManyOperations {
        /// The bound.
        limit: usize,
    },
    /// The stream could not be read.
    #[error("failed to read: {0}")]
    Read(io::Error),
}

/// A problem at a byte of the line that is being parsed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub offset: usize,
    pub problem: Problem,
}

impl Fault {
    pub fn new(offset: usize, problem: Problem) -> Fault {
        Fault { offset, problem }
    }

    /// Where that is in the file. Columns are counted here so that a good line pays nothing.
    pub fn locate(self, file: &str, line: u64, text: &str) -> ParseError {
        let before = text
            .char_indices()
            .take_while(|(offset, _)| *offset < self.offset)
            .count();
        ParseError {
            file: file.to_owned(),
            line,
            column: before as u64 + 1,
            problem: self.problem,
        }
    }
}

/// A word of the input as it may be shown: short, and without control characters.
fn shown(word: &str) -> String {
    const CHARS_MAX: usize = 60;
    let mut short: String = word
        .chars()
        .take(CHARS_MAX)
        .map(|character| {
            if character.is_control() {
                '\u{fffd}'
            } else {
                character
            }
        })
        .collect();
    if word.chars().nth(CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}

fn found_words(found: Option<&str>) -> String {
    match found {
        Some(word) => format!("'{}'", shown(word)),
        None => "the end of the operation".to_owned(),
    }
}

fn without_example(what: &str) -> &str {
    what.split(" (").next().unwrap_or(what)
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion
        .map(|word| format!("; did you mean '{word}'?"))
        .unwrap_or_default()
}
