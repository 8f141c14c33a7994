//! The workload language: what is run against a file system before the power fails.
//!
//! A [`Workload`] has a *setup* part, which is made durable before anything is recorded, and
//! a *run* part, which is recorded. The grammar of the text form is in `docs/workloads.md`.
//!
//! [`parse`] reads a whole text, [`Reader`] an endless stream; [`Workload::to_text`] and
//! [`Workload::to_line`] write what both read back. [`jlang`] reads and writes the language
//! of CrashMonkey's generator.

#![forbid(unsafe_code)]

mod arguments;
mod draft;
mod error;
mod format;
pub mod jlang;
mod op;
mod operation;
mod parse;
pub mod pattern;
mod print;
mod repeat;
mod suggest;
mod token;

pub use error::{ParseError, Problem};
pub use format::{Format, parse_any};
pub use op::{
    DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DeviceKind, FallocMode, Op, RenameFlag, Step,
    Target, Workload, WriteSync,
};
pub use parse::{LINE_BYTES_MAX, OPERATIONS_MAX, Reader, parse};
