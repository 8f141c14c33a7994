//! What a client prints while it runs.

use crate::format::{Line, parse_line};
use crate::{Event, History, Kind, Malformed, Outcome, Process};

/// Takes the lines that clients print on standard output, one JSON object each, and makes a history
/// of them:
///
/// ```text
/// {"type":"invoke","process":0,"f":"write","key":"k1","value":3}
/// ```
///
/// A line without a time has that at which it was read. What it says of its index is not looked at.
#[derive(Debug, Default)]
pub struct Lines {
    history: History,
}

/// Why a line was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is no event.
    #[error("{problem}: {line}")]
    NoEvent {
        /// What is wrong with it.
        problem: String,
        /// The line.
        line: String,
    },
    /// It cannot follow what was said before.
    #[error("{malformed}: {line}")]
    Malformed {
        /// Why not.
        malformed: Malformed,
        /// The line.
        line: String,
    },
}

impl Lines {
    /// Takes a line, which was read at this time. Times are made to grow, since lines of several
    /// clients are read one after the other.
    ///
    /// # Errors
    /// If it is no event, or cannot follow the ones before it. It is left out then.
    pub fn take(&mut self, line: &str, now_ns: u64) -> Result<Option<&Event>, LineError> {
        let refused = |problem: String| LineError::NoEvent {
            problem,
            line: line.to_owned(),
        };
        if line.trim().is_empty() {
            return Ok(None);
        }
        let raw = match parse_line(line).map_err(|problem| refused(problem.to_string()))? {
            Line::Header => return Ok(None),
            Line::Event(raw) => raw,
        };
        let last_ns = self.last_ns();
        let event = Event {
            time_ns: raw.time_ns.unwrap_or(now_ns).max(last_ns),
            ..raw.event
        };
        self.put(event)
            .map(Some)
            .map_err(|malformed| LineError::Malformed {
                malformed,
                line: line.to_owned(),
            })
    }

    /// Takes an event that is not a line: what the nemesis did.
    ///
    /// # Errors
    /// If it cannot follow the ones before it.
    pub fn put(&mut self, event: Event) -> Result<&Event, Malformed> {
        let event = Event {
            index: self.history.next_index(),
            time_ns: event.time_ns.max(self.last_ns()),
            ..event
        };
        self.history.push(event)?;
        Ok(self.history.events().last().expect("it was pushed"))
    }

    /// The nemesis did something.
    pub fn mark(&mut self, f: &str, value: crate::Value, now_ns: u64) -> &Event {
        self.put(Event {
            index: 0,
            time_ns: now_ns,
            process: Process::Nemesis,
            kind: Kind::Info,
            f: f.to_owned(),
            key: None,
            value,
            error: None,
        })
        .expect("the nemesis may do anything at any time")
    }

    /// What has been taken so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The history, at the end.
    pub fn finish(self) -> History {
        self.history
    }

    /// The number that a client goes on under: none that was used.
    pub fn fresh_process(&self) -> u64 {
        let used = self.history.operations().iter();
        used.map(|operation| operation.process + 1)
            .max()
            .unwrap_or(0)
    }

    /// Whether a process must not call again: its last outcome is unknown.
    pub fn is_ended(&self, process: u64) -> bool {
        let mut operations = self.history.operations().iter().rev();
        operations
            .find(|operation| operation.process == process)
            .is_some_and(|last| last.end.is_some() && last.outcome == Outcome::Unknown)
    }

    fn last_ns(&self) -> u64 {
        self.history.events().last().map_or(0, |last| last.time_ns)
    }
}
