//! What clients print, kept: every line as it came, and those of a history with their times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// A line as one of a history: an object with a type.
pub(super) fn operation_of(line: &[u8]) -> Option<Map<String, Value>> {
    let operation: Option<Map<String, Value>> = serde_json::from_slice(line).ok();
    operation.filter(|operation| operation.contains_key("type"))
}

/// Keeps what clients print.
pub(crate) struct Scribe {
    /// Every line, as it came.
    lines: File,
    /// Those that are of a history, with their times.
    history: File,
    /// The number in the history of each process of a client, which has a place.
    processes: BTreeMap<(usize, String), usize>,
}

impl Scribe {
    /// Begins both files.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn new(acknowledgements: &Path, history: &Path) -> Result<Self> {
        let create = |path: &Path| {
            File::create(path).map_err(|error| Error::System {
                doing: format!("create {}", path.display()),
                error,
            })
        };
        let mut scribe = Self {
            lines: create(acknowledgements)?,
            history: create(history)?,
            processes: BTreeMap::new(),
        };
        let first = json!({"type": "history", "version": 1});
        scribe.write(&first).map_err(keeping)?;
        Ok(scribe)
    }

    /// Goes on with copies of both files, which are made here.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(super) fn of_copies(&self, from: [&Path; 2], to: [&Path; 2]) -> Result<Self> {
        let copied = |place: usize| {
            let (from, to) = (from[place], to[place]);
            let copied = std::fs::copy(from, to);
            let opened = copied.and_then(|_| File::options().append(true).open(to));
            opened.map_err(|error| Error::System {
                doing: format!("copy {} to {}", from.display(), to.display()),
                error,
            })
        };
        Ok(Self {
            lines: copied(0)?,
            history: copied(1)?,
            processes: self.processes.clone(),
        })
    }

    /// Keeps a line of the client at a place, which came so many nanoseconds after the start of the
    /// clients.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn keep(&mut self, place: usize, line: &[u8], time_ns: u64) -> Result<()> {
        self.keep_as(place, line, operation_of(line), time_ns)
    }

    /// The same of a line of which it is known what it is in a history.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn keep_as(
        &mut self,
        place: usize,
        line: &[u8],
        operation: Option<Map<String, Value>>,
        time_ns: u64,
    ) -> Result<()> {
        let ended = [line, b"\n"].concat();
        self.lines.write_all(&ended).map_err(keeping)?;
        let Some(mut operation) = operation else {
            return Ok(());
        };
        let process = operation.get("process").map(Value::to_string);
        let next = self.processes.len();
        let key = (place, process.unwrap_or_default());
        let process = *self.processes.entry(key).or_insert(next);
        operation.insert("process".into(), process.into());
        operation.insert("time".into(), time_ns.into());
        self.write(&Value::Object(operation)).map_err(keeping)
    }

    /// Keeps what happened to the cluster among the operations.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn nemesis(&mut self, what: &str, words: &str, time_ns: u64) -> Result<()> {
        let event = json!({
            "time": time_ns, "process": "nemesis", "type": "info", "f": what, "value": words,
        });
        self.write(&event).map_err(keeping)
    }

    /// Of each process of the history the name of its client, of which these are all.
    pub(crate) fn processes(&self, clients: &[&str]) -> Vec<String> {
        let mut names = vec![String::new(); self.processes.len()];
        for ((place, _), process) in &self.processes {
            clients[*place].clone_into(&mut names[*process]);
        }
        names
    }

    fn write(&mut self, line: &Value) -> io::Result<()> {
        writeln!(self.history, "{line}")
    }
}

fn keeping(error: io::Error) -> Error {
    Error::System {
        doing: "keep what a client says".into(),
        error,
    }
}
