//! One JSON object a line.

use std::collections::BTreeMap;

use super::{Raw, ReadError, collect};
use crate::{Event, History, Kind, Process, Value};

/// The version that this program writes, and the newest that it reads.
const VERSION: i64 = 1;
/// What the first line is called, which tells a history from other files of JSON lines.
const HEADER: &str = "history";

/// All that is read of a line.
const FIELDS: [&str; 9] = [
    "type", "version", "process", "f", "key", "value", "time", "index", "error",
];

pub(super) fn header() -> String {
    format!("{{\"type\":\"{HEADER}\",\"version\":{VERSION}}}")
}

/// In the order in which people read it.
pub(super) fn line(event: &Event) -> String {
    let mut line = format!(
        "{{\"index\":{},\"time\":{},\"process\":{},\"type\":\"{}\",\"f\":{}",
        event.index,
        event.time_ns,
        match event.process {
            Process::Client(number) => number.to_string(),
            Process::Nemesis => "\"nemesis\"".to_owned(),
        },
        event.kind.word(),
        serde_json::Value::from(event.f.as_str()),
    );
    if let Some(key) = &event.key {
        line += &format!(",\"key\":{}", key.to_json());
    }
    line += &format!(",\"value\":{}", event.value.to_json());
    if let Some(error) = &event.error {
        line += &format!(",\"error\":{}", error.to_json());
    }
    line + "}"
}

pub(super) fn read(text: &str) -> Result<History, ReadError> {
    let ends_whole = text.ends_with('\n');
    let count = text.lines().count();
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    collect(
        lines
            .filter(|(_, line)| !line.trim().is_empty())
            .filter_map(|(number, line)| {
                let torn = number == count && !ends_whole;
                match parse_line(line) {
                    Ok(Line::Header) => None,
                    Ok(Line::Event(raw)) => Some(Ok((number, *raw))),
                    Err(Problem::Ends) if torn => Some(Err(ReadError::Torn { line: number })),
                    Err(problem) => Some(Err(ReadError::Wrong {
                        line: number,
                        problem: problem.to_string(),
                    })),
                }
            }),
    )
}

/// What a line is.
pub(crate) enum Line {
    /// The first one.
    Header,
    /// Any other.
    Event(Box<Raw>),
}

/// Why a line is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    /// It ends too early.
    #[error("the line ends within the event")]
    Ends,
    /// It is no JSON.
    #[error("it is no JSON: {0}")]
    Syntax(String),
    /// It says something that is not an event.
    #[error("{0}")]
    Content(String),
}

impl From<String> for Problem {
    fn from(content: String) -> Self {
        Self::Content(content)
    }
}

/// Reads a line.
pub(crate) fn parse_line(line: &str) -> Result<Line, Problem> {
    let json: serde_json::Value =
        serde_json::from_str(line).map_err(|error| no_json(&error, line))?;
    let serde_json::Value::Object(json) = json else {
        return Err(Problem::Content("it is no object".to_owned()));
    };
    let json = json
        .into_iter()
        .filter(|(name, _)| FIELDS.contains(&name.as_str()));
    let fields = json.map(|(name, value)| Ok((name, Value::from_json(value, line)?)));
    let mut fields: BTreeMap<_, _> = fields.collect::<Result<_, String>>()?;
    if fields.get("type").and_then(Value::as_text) == Some(HEADER) {
        return match fields.get("version").and_then(Value::as_int) {
            Some(version) if version <= VERSION => Ok(Line::Header),
            _ => Err(Problem::Content(format!(
                "a history of a newer version than {VERSION}"
            ))),
        };
    }
    Ok(Line::Event(Box::new(event(&mut fields)?)))
}

/// What is wrong with a line that is no JSON.
fn no_json(error: &serde_json::Error, line: &str) -> Problem {
    if error.is_eof() {
        return Problem::Ends;
    }
    let said = error.to_string();
    let said = said.split(" at line").next().unwrap_or_default();
    // It counts bytes.
    let bytes = line.bytes().take(error.column());
    let is_first = |byte: &u8| byte & 0xc0 != 0x80;
    let column = bytes.filter(is_first).count().max(1);
    Problem::Syntax(format!("{said} at column {column}"))
}

fn kind(field: Option<Value>) -> Result<Kind, String> {
    let field = field.ok_or("it has no type")?;
    let kind = field.as_text().and_then(Kind::from_word);
    kind.ok_or_else(|| format!("type is {field}, not one of invoke, ok, fail, info"))
}

fn process(field: Option<Value>) -> Result<Process, String> {
    match field {
        Some(Value::Int(number)) if number >= 0 => Ok(Process::Client(number as u64)),
        Some(Value::Text(word)) if word == "nemesis" => Ok(Process::Nemesis),
        Some(other) => Err(format!("process is {other}, not a number or \"nemesis\"")),
        None => Err("it has no process".to_owned()),
    }
}

/// Jepsen's tests of transactions may leave it out.
fn f(field: Option<Value>, value: Option<&Value>) -> Result<String, String> {
    match field {
        Some(Value::Text(word)) => Ok(word),
        Some(Value::Null) | None if matches!(value, Some(Value::List(_))) => Ok("txn".to_owned()),
        Some(other) => Err(format!("f is {other}, not a word")),
        None => Err("it has no f".to_owned()),
    }
}

/// An event of its fields. Both forms have the same.
pub(super) fn event(fields: &mut BTreeMap<String, Value>) -> Result<Raw, String> {
    let kind = kind(fields.remove("type"))?;
    let process = process(fields.remove("process"))?;
    let f = f(fields.remove("f"), fields.get("value"))?;
    let mut whole = |name: &str| match fields.remove(name) {
        Some(Value::Int(number)) if number >= 0 => Ok(Some(number as u64)),
        // What was made by hand for Jepsen has no time.
        Some(Value::Int(-1) | Value::Null) | None => Ok(None),
        Some(other) => Err(format!("{name} is {other}, not a whole number from 0 on")),
    };
    let (index, time_ns) = (whole("index")?, whole("time")?);
    let some = |value: Option<Value>| value.filter(|value| !value.is_null());
    Ok(Raw {
        index,
        time_ns,
        event: Event {
            index: 0,
            time_ns: 0,
            process,
            kind,
            f,
            key: some(fields.remove("key")),
            value: fields.remove("value").unwrap_or_default(),
            error: some(fields.remove("error")),
        },
    })
}
