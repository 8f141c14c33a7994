//! What clients saw: a [`History`] is the calls of clients and their answers, in the order in which
//! they happened, with the faults between them.
//!
//! It has no opinion on where a history comes from. It reads from readers and writes to writers
//! that it is given, and does nothing else.

#![forbid(unsafe_code)]

mod check;
mod consistency;
mod contract;
mod event;
mod format;
mod kinds;
mod linear;
mod lines;
mod model;
mod recorded;
mod transactions;
mod value;

pub use check::{Object, RECOVER_WITHIN, Report, Settings, Verdict, check};
pub use consistency::Consistency;
pub use contract::{Contract, Guess, Rule, guess};
pub use event::{Event, Kind, Process};
pub use format::{
    Format, Partition, ReadError, Step, independent, json_lines_header, parse_value, porcupine,
    read, write,
};
pub use kinds::{Anomaly, Failure, HEAL};
pub use linear::{Limits, Linear};
pub use lines::{LineError, Lines};
pub use model::{MODELS, Model, ModelRow, Refused};
pub use recorded::{At, History, Malformed, Operation, Outcome};
pub use value::{Float, Value};
