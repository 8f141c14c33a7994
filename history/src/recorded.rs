//! A history: its events in order, and the operations that they are of.

use std::collections::HashMap;
use std::fmt;

use crate::{Event, Kind, Process, Value};

/// What the clients of a run did and saw, in the order in which it happened.
///
/// It is well formed, always: [`History::push`] refuses an event that cannot follow.
#[derive(Debug, Clone, Default)]
pub struct History {
    events: Vec<Event>,
    operations: Vec<Operation>,
    /// Of each process the operation that it has open.
    open: HashMap<u64, usize>,
    /// The processes whose last operation ended unknown.
    ended: HashMap<u64, usize>,
    /// Of each event the line of the file that it begins in, from 1. Empty if it is of no file.
    lines: Vec<usize>,
}

/// Where an event is, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The line of the file in which it begins, from 1.
    Line(usize),
    /// Its index: it is of no file.
    Event(u64),
}

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(formatter, "line {line}"),
            Self::Event(index) => write!(formatter, "event {index}"),
        }
    }
}

/// An operation of a client: its call, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The client.
    pub process: u64,
    /// What it did.
    pub f: String,
    /// The object.
    pub key: Option<Value>,
    /// What it was called with.
    pub argument: Value,
    /// What it returned. [`Value::Null`] unless it is [`Outcome::Ok`].
    pub result: Value,
    /// What became of it.
    pub outcome: Outcome,
    /// Where the call is in [`History::events`].
    pub call: usize,
    /// Where the answer is in [`History::events`], also if it says that the outcome is unknown.
    pub end: Option<usize>,
    /// When it was called.
    pub call_ns: u64,
    /// When the answer came, also if it says that the outcome is unknown.
    pub return_ns: Option<u64>,
    /// What the client said of a failure or an unknown outcome.
    pub error: Option<Value>,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It took effect between call and return.
    Ok,
    /// It took no effect.
    Fail,
    /// It took effect after its call, at any time, or never.
    Unknown,
}

/// Why an event cannot be the next one of a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A process does one thing after the other.
    #[error(
        "process {process} calls {f}, but its {open} ({since}) has not been answered; give each client that is busy at the same time a number of its own"
    )]
    StillOpen {
        /// The process.
        process: u64,
        /// What it calls.
        f: String,
        /// What it has open.
        open: String,
        /// Where that call is.
        since: At,
    },
    /// There is nothing that it could be an answer to.
    #[error("process {process} is answered {kind} to {f}, but it has called nothing", kind = kind.word())]
    NoCall {
        /// The process.
        process: u64,
        /// The answer.
        kind: Kind,
        /// What is answered.
        f: String,
    },
    /// The answer is to something else than the call.
    #[error("process {process} is answered to {answered}, but it has called {called} ({since})")]
    OtherCall {
        /// The process.
        process: u64,
        /// What is answered, and of which object.
        answered: String,
        /// What was called, and of which object.
        called: String,
        /// Where the call is.
        since: At,
    },
    /// Its operation may still take effect, so it cannot be known to have ended before the next.
    #[error(
        "process {process} calls {f} after the outcome of its {last} ({since}) was unknown; a client goes on under a new number then"
    )]
    GoesOn {
        /// The process.
        process: u64,
        /// What it calls.
        f: String,
        /// What ended unknown.
        last: String,
        /// Where that call is.
        since: At,
    },
    /// The order of the events is the order in which they happened.
    #[error(
        "its time, {time_ns} ns, is before that of the event before it, {last_ns} ns; sort the events by time, or leave the times out"
    )]
    TimeGoesBack {
        /// The time of the event.
        time_ns: u64,
        /// The time of the event before it.
        last_ns: u64,
    },
    /// Numbers of events grow.
    #[error("its index, {index}, is not above that of the event before it, {last}")]
    IndexGoesBack {
        /// The index of the event.
        index: u64,
        /// The index of the event before it.
        last: u64,
    },
    /// What a nemesis does has no outcome.
    #[error("an event of the nemesis is info, not {}", kind.word())]
    NemesisKind {
        /// What it was.
        kind: Kind,
    },
}

/// An operation's name in a sentence: one that is no word is quoted.
fn name(f: &str) -> String {
    Value::from(f).to_string()
}

fn of_key(f: &str, key: Option<&Value>) -> String {
    let f = name(f);
    key.map_or_else(|| f.clone(), |key| format!("{f} of key {key}"))
}

impl History {
    /// A history of these events.
    ///
    /// # Errors
    /// The position of the first event that cannot follow the ones before it, and why.
    pub fn new(events: impl IntoIterator<Item = Event>) -> Result<Self, (usize, Malformed)> {
        let mut history = Self::default();
        for (position, event) in events.into_iter().enumerate() {
            history.push(event).map_err(|wrong| (position, wrong))?;
        }
        Ok(history)
    }

    /// The events, in the order in which they happened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The operations, in the order of their calls. One that was not answered is
    /// [`Outcome::Unknown`].
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What the nemesis did.
    pub fn marks(&self) -> impl Iterator<Item = &Event> {
        let nemesis = |event: &&Event| event.process == Process::Nemesis;
        self.events.iter().filter(nemesis)
    }

    /// The index that the next event gets if it has none of its own.
    pub fn next_index(&self) -> u64 {
        self.events.last().map_or(0, |event| event.index + 1)
    }

    /// Where an event is, by its place in [`History::events`].
    pub fn at(&self, event: usize) -> At {
        let line = self.lines.get(event);
        line.map_or_else(
            || At::Event(self.events[event].index),
            |&line| At::Line(line),
        )
    }

    /// Whether a client has called and is waiting for the answer.
    pub fn is_open(&self, process: u64) -> bool {
        self.open.contains_key(&process)
    }

    /// Appends an event.
    ///
    /// # Errors
    /// If it cannot follow the others. The history is what it was then.
    pub fn push(&mut self, event: Event) -> Result<(), Malformed> {
        self.check_order(&event)?;
        match (event.process, event.kind) {
            (Process::Nemesis, Kind::Info) => {}
            (Process::Nemesis, kind) => return Err(Malformed::NemesisKind { kind }),
            (Process::Client(process), Kind::Invoke) => self.call(process, &event)?,
            (Process::Client(process), _) => self.answer(process, &event)?,
        }
        self.events.push(event);
        Ok(())
    }

    /// Appends an event of a file, which begins in this line. All others of the history are of it too.
    pub(crate) fn push_line(&mut self, event: Event, line: usize) -> Result<(), Malformed> {
        self.push(event)?;
        self.lines.push(line);
        Ok(())
    }

    /// The same, but for the answers to those of these operations.
    pub(crate) fn without_results(&self, places: &[usize], those: fn(&Operation) -> bool) -> Self {
        let mut history = self.clone();
        for &place in places {
            let operation = &mut history.operations[place];
            if those(operation) {
                operation.result = Value::Null;
            }
        }
        history
    }

    fn check_order(&self, event: &Event) -> Result<(), Malformed> {
        let Some(last) = self.events.last() else {
            return Ok(());
        };
        if event.time_ns < last.time_ns {
            return Err(Malformed::TimeGoesBack {
                time_ns: event.time_ns,
                last_ns: last.time_ns,
            });
        }
        if event.index <= last.index {
            return Err(Malformed::IndexGoesBack {
                index: event.index,
                last: last.index,
            });
        }
        Ok(())
    }

    fn call(&mut self, process: u64, event: &Event) -> Result<(), Malformed> {
        let f = event.f.clone();
        if let Some(&open) = self.open.get(&process) {
            let open = &self.operations[open];
            return Err(Malformed::StillOpen {
                process,
                f: name(&f),
                open: name(&open.f),
                since: self.at(open.call),
            });
        }
        if let Some(&last) = self.ended.get(&process) {
            let last = &self.operations[last];
            return Err(Malformed::GoesOn {
                process,
                f: name(&f),
                last: name(&last.f),
                since: self.at(last.call),
            });
        }
        self.open.insert(process, self.operations.len());
        self.operations.push(Operation {
            process,
            f,
            key: event.key.clone(),
            argument: event.value.clone(),
            result: Value::Null,
            outcome: Outcome::Unknown,
            call: self.events.len(),
            end: None,
            call_ns: event.time_ns,
            return_ns: None,
            error: None,
        });
        Ok(())
    }

    fn answer(&mut self, process: u64, event: &Event) -> Result<(), Malformed> {
        let Some(&number) = self.open.get(&process) else {
            return Err(Malformed::NoCall {
                process,
                kind: event.kind,
                f: name(&event.f),
            });
        };
        self.refuse_other_call(&self.operations[number], event)?;
        let operation = &mut self.operations[number];
        operation.outcome = match event.kind {
            Kind::Ok => Outcome::Ok,
            Kind::Fail => Outcome::Fail,
            Kind::Info | Kind::Invoke => Outcome::Unknown,
        };
        if operation.outcome == Outcome::Ok {
            operation.result = event.value.clone();
        }
        operation.error.clone_from(&event.error);
        operation.end = Some(self.events.len());
        operation.return_ns = Some(event.time_ns);
        self.open.remove(&process);
        if operation.outcome == Outcome::Unknown {
            self.ended.insert(process, number);
        }
        Ok(())
    }

    /// Fails if an event answers to another call than that of an operation.
    fn refuse_other_call(&self, operation: &Operation, event: &Event) -> Result<(), Malformed> {
        // A key that is not repeated is that of the call.
        let other_key = event.key.is_some() && event.key != operation.key;
        if event.f == operation.f && !other_key {
            return Ok(());
        }
        Err(Malformed::OtherCall {
            process: operation.process,
            answered: of_key(&event.f, event.key.as_ref()),
            called: of_key(&operation.f, operation.key.as_ref()),
            since: self.at(operation.call),
        })
    }
}

impl Operation {
    /// Where in [`History::events`] it certainly had ended: nowhere if its outcome is unknown.
    pub fn returned(&self) -> Option<usize> {
        self.end.filter(|_| self.outcome != Outcome::Unknown)
    }

    /// The operation in words: `write k1 3`, `read k1 -> 3`, `cas [1,2] -> unknown`.
    pub fn words(&self) -> String {
        let mut words = self.f.clone();
        if let Some(key) = &self.key {
            words += &format!(" {key}");
        }
        if !self.argument.is_null() {
            words += &format!(" {}", self.argument);
        }
        match self.outcome {
            // Many clients answer a write with nothing.
            Outcome::Ok if self.result == self.argument && !self.result.is_null() => {}
            Outcome::Ok if self.result.is_null() && !self.argument.is_null() => {}
            Outcome::Ok => words += &format!(" -> {}", self.result),
            Outcome::Fail => words += " -> failed",
            Outcome::Unknown => words += " -> unknown",
        }
        words
    }
}
