//! What every kind of sweep shares, whatever it tests.
//!
//! A sweep judges many items and keeps its results in a [`Directory`], where a kill at any moment
//! costs nothing that was done. It is divided into [`Shard`]s, stopped by an [`Interrupt`], watched
//! on a [`Progress`] bar, and ends as an [`Outcome`], which is the exit status.

#![forbid(unsafe_code)]

mod columns;
mod ddmin;
mod directory;
mod error;
mod exit;
mod interrupt;
mod lines;
mod output;
mod parts;
mod progress;
mod records;
mod shard;
mod shell;
mod spread;
mod version;

pub use columns::columns;
pub use ddmin::ddmin;
pub use directory::{Directory, LOCK, MANIFEST, RESULTS, SUMMARY, TABLE, TIMES, command_line};
pub use error::{Cause, Error, NoShard, Result};
pub use exit::{Outcome, exit, exit_usage, one_line};
pub use interrupt::Interrupt;
pub use lines::{Lines, read_lines, write_whole};
pub use output::{OutputFormat, is_closed, say};
pub use parts::{Mismatch, Part, Parts};
pub use progress::Progress;
pub use records::{Record, Records};
pub use shard::Shard;
pub use shell::{own_call, quoted};
pub use spread::spread;
pub use version::{VERSION, check_version};
