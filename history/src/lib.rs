//! What clients saw: a [`History`] is the calls of clients and their answers, in the order in which
//! they happened, with the faults between them.
//!
//! It has no opinion on where a history comes from. It reads from readers and writes to writers
//! that it is given, and does nothing else.

#![forbid(unsafe_code)]

mod event;
mod format;
mod lines;
mod recorded;
mod value;

pub use event::{Event, Kind, Process};
pub use format::{Format, Partition, ReadError, Step, json_lines_header, porcupine, read, write};
pub use lines::{LineError, Lines};
pub use recorded::{History, Malformed, Operation, Outcome};
pub use value::{Float, Value};
