//! Histories in files: JSON lines, the EDN of Jepsen, and what Porcupine's page draws.

mod edn;
mod jepsen;
mod jsonl;
mod porcupine;

use std::io::{self, BufRead, Write};

pub use self::porcupine::{Partition, Step, porcupine};
use crate::{Event, History, Malformed, Process, Value};

/// A form in which a history can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line: `docs/histories.md`.
    JsonLines,
    /// One map of EDN a line, as Jepsen has in `history.edn`.
    Jepsen,
}

/// Why a history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The reader failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// There are no events.
    #[error("there are no events in it")]
    Empty,
    /// Neither form.
    #[error(
        "it is no history: expected JSON lines ({{\"type\":\"invoke\",…}}) or Jepsen's EDN ({{:type :invoke, …}}), but it begins with '{0}'"
    )]
    Unrecognised(String),
    /// A line is not what it should be.
    #[error("line {line}: {problem}")]
    Wrong {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// An event is not what it should be.
    #[error("event {index}: {problem}")]
    Event {
        /// Its index.
        index: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The file ends within an event.
    #[error(
        "line {line} is torn: the file ends within it; delete the line if whoever wrote it was killed"
    )]
    Torn {
        /// The line, from 1.
        line: usize,
    },
    /// An event that cannot follow the ones before it.
    #[error("line {line}: {malformed}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// Why not.
        malformed: Malformed,
    },
}

/// How much of a wrong file an error shows, in characters.
const SHOWN_CHARACTERS: usize = 40;

/// Reads a history of either form.
///
/// # Errors
/// If it is of another form, a line is torn or wrong, or an event cannot follow the ones before.
pub fn read(mut reader: impl BufRead) -> Result<History, ReadError> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| ReadError::Wrong {
        line: bytes[..error.valid_up_to()]
            .split(|&byte| byte == b'\n')
            .count(),
        problem: "it is not text in UTF-8".to_owned(),
    })?;
    match detect(text)? {
        Format::JsonLines => jsonl::read(text),
        Format::Jepsen => jepsen::read(text),
    }
}

/// Writes a history.
///
/// # Errors
/// What the writer says.
pub fn write(history: &History, format: Format, mut writer: impl Write) -> io::Result<()> {
    match format {
        Format::JsonLines => {
            writeln!(writer, "{}", jsonl::header())?;
            for event in history.events() {
                writeln!(writer, "{}", jsonl::line(event))?;
            }
        }
        Format::Jepsen => {
            for event in history.events() {
                writeln!(writer, "{}", jepsen::line(event))?;
            }
        }
    }
    Ok(())
}

impl Event {
    /// The event as a line of [`Format::JsonLines`], without its end.
    pub fn to_json_line(&self) -> String {
        jsonl::line(self)
    }
}

/// A value that is written as JSON.
///
/// # Errors
/// What is wrong with it.
pub fn parse_value(text: &str) -> Result<Value, String> {
    let json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Value::from_json(json)
}

/// The history with the keys that are in its values, as pairs of a key and a value.
///
/// # Errors
/// The first event of a client that carries no pair.
pub fn independent(history: &History) -> Result<History, ReadError> {
    let mut split = History::default();
    for event in history.events() {
        let mut event = event.clone();
        if let Process::Client(_) = event.process {
            let Value::List(pair) = &event.value else {
                return Err(no_pair(&event));
            };
            let [key, value] = pair.as_slice() else {
                return Err(no_pair(&event));
            };
            (event.key, event.value) = (Some(key.clone()), value.clone());
        }
        let index = event.index;
        split.push(event).map_err(|malformed| ReadError::Event {
            index,
            problem: malformed.to_string(),
        })?;
    }
    Ok(split)
}

fn no_pair(event: &Event) -> ReadError {
    ReadError::Event {
        index: event.index,
        problem: format!("{} carries {}, not [key, value]", event.f, event.value),
    }
}

/// The first line of [`Format::JsonLines`], without its end.
pub fn json_lines_header() -> String {
    jsonl::header()
}

fn detect(text: &str) -> Result<Format, ReadError> {
    let Some(line) = text.lines().find(|line| !line.trim().is_empty()) else {
        return Err(ReadError::Empty);
    };
    let mut bytes = line.bytes().filter(|byte| !byte.is_ascii_whitespace());
    match (bytes.next(), bytes.next()) {
        (Some(b'{'), Some(b'"')) => Ok(Format::JsonLines),
        (Some(b'{'), Some(b':')) | (Some(b';' | b'#'), _) => Ok(Format::Jepsen),
        (Some(b'['), Some(b'{')) if line.contains("\":") => Err(ReadError::Wrong {
            line: 1,
            problem:
                "a JSON array, where each event has a line of its own (jq -c '.[]' makes them)"
                    .to_owned(),
        }),
        (Some(b'['), Some(b'{' | b'#') | None) if !text.contains("\":") => Ok(Format::Jepsen),
        _ => Err(ReadError::Unrecognised(
            line.trim().chars().take(SHOWN_CHARACTERS).collect(),
        )),
    }
}

/// A history of events and the lines that they are in.
fn collect(
    events: impl IntoIterator<Item = Result<(usize, Raw), ReadError>>,
) -> Result<History, ReadError> {
    let mut history = History::default();
    for event in events {
        let (line, raw) = event?;
        let last_ns = history.events().last().map_or(0, |last| last.time_ns);
        let event = raw.settle(history.next_index(), last_ns);
        history
            .push(event)
            .map_err(|malformed| ReadError::Malformed { line, malformed })?;
    }
    if history.events().is_empty() {
        return Err(ReadError::Empty);
    }
    Ok(history)
}

/// An event as a file has it: index and time may be missing.
pub(crate) struct Raw {
    pub(crate) index: Option<u64>,
    pub(crate) time_ns: Option<u64>,
    pub(crate) event: Event,
}

impl Raw {
    /// With what it lacks: its place, and a time that is after none of those that follow.
    fn settle(self, index: u64, last_ns: u64) -> Event {
        Event {
            index: self.index.unwrap_or(index),
            time_ns: self.time_ns.unwrap_or(last_ns),
            ..self.event
        }
    }
}

pub(crate) use self::jsonl::{Line, parse_line};
