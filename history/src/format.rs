//! Histories in files: JSON lines, the EDN of Jepsen, and what Porcupine's page draws.

mod edn;
mod jepsen;
mod jsonl;
mod porcupine;

use std::io::{self, BufRead, Write};
use std::str::Utf8Error;

pub use self::porcupine::{Partition, Step, porcupine};
use crate::{At, Event, History, Malformed, Process, Value};

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
        "line {line}: it is no history: expected JSON lines ({{\"type\":\"invoke\",…}}) or Jepsen's EDN ({{:type :invoke, …}}), but it begins with '{beginning}'"
    )]
    Unrecognised {
        /// The first line that is not empty, from 1.
        line: usize,
        /// What is there.
        beginning: String,
    },
    /// A line is not what it should be.
    #[error("line {line}: {problem}")]
    Wrong {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// An event is not what it should be.
    #[error("{at}: {problem}")]
    Event {
        /// Where it is.
        at: At,
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
    let text = std::str::from_utf8(&bytes).map_err(|error| no_text(&bytes, error))?;
    match detect(text)? {
        Format::JsonLines => jsonl::read(text),
        Format::Jepsen => jepsen::read(text),
    }
}

/// Why bytes are no text.
fn no_text(bytes: &[u8], error: Utf8Error) -> ReadError {
    let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
    let (line, column) = position(&before);
    match error.error_len() {
        // The last character has more bytes than are there.
        None => ReadError::Torn { line },
        Some(_) => ReadError::Wrong {
            line,
            problem: format!("it is not text in UTF-8 at column {column}"),
        },
    }
}

/// The line and the column, from 1, of what follows a text.
fn position(before: &str) -> (usize, usize) {
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&one| one != '\n').count() + 1;
    (line, column)
}

/// A text as it can stand in a sentence of one line.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// The beginning of a text that may be long.
fn beginning(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_CHARACTERS).collect();
    printable(&shown)
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
    Value::from_json(json, text)
}

/// The history with the keys that are in its values, as pairs of a key and a value.
///
/// # Errors
/// The first event of a client that carries no pair.
pub fn independent(history: &History) -> Result<History, ReadError> {
    let mut split = History::default();
    for (place, event) in history.events().iter().enumerate() {
        let mut event = event.clone();
        let at = history.at(place);
        let wrong = |problem| ReadError::Event { at, problem };
        if let Process::Client(_) = event.process {
            let Some([key, value]) = event.value.as_list() else {
                return Err(wrong(format!(
                    "{} carries {}, not [key, value]",
                    event.f, event.value
                )));
            };
            (event.key, event.value) = (Some(key.clone()), value.clone());
        }
        let pushed = match at {
            At::Line(line) => split.push_line(event, line),
            At::Event(_) => split.push(event),
        };
        pushed.map_err(|malformed| wrong(malformed.to_string()))?;
    }
    Ok(split)
}

/// The first line of [`Format::JsonLines`], without its end.
pub fn json_lines_header() -> String {
    jsonl::header()
}

fn detect(text: &str) -> Result<Format, ReadError> {
    let mut lines = (1..).zip(text.lines());
    let Some((number, line)) = lines.find(|(_, line)| !line.trim().is_empty()) else {
        return Err(ReadError::Empty);
    };
    let mut bytes = line.bytes().filter(|byte| !byte.is_ascii_whitespace());
    let is_json = is_json(text);
    match (bytes.next(), bytes.next()) {
        (Some(b'{'), Some(b'"')) => Ok(Format::JsonLines),
        (Some(b'{'), Some(b':')) | (Some(b';' | b'#'), _) => Ok(Format::Jepsen),
        (Some(b'['), Some(b'{') | None) if is_json => Err(ReadError::Wrong {
            line: number,
            problem:
                "a JSON array, where each event has a line of its own (jq -c '.[]' makes them)"
                    .to_owned(),
        }),
        (Some(b'{'), None) if is_json => Err(ReadError::Wrong {
            line: number,
            problem:
                "a JSON object of several lines, where each event has one line (jq -c . makes them)"
                    .to_owned(),
        }),
        (Some(b'['), Some(b'{' | b'#') | None) if !is_json => Ok(Format::Jepsen),
        _ => Err(ReadError::Unrecognised {
            line: number,
            beginning: beginning(line.trim()),
        }),
    }
}

/// What comes first in an object tells: a text of Jepsen's may look like a key of JSON.
fn is_json(text: &str) -> bool {
    let object = text.split_once('{').map(|(_, object)| object.trim_start());
    object.is_some_and(|object| object.starts_with('"'))
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
            .push_line(event, line)
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
