//! Trace and crash point to a mounted file system, checked: the engine of `replay` and
//! `crashpoint fs`.
//!
//! [`Engine`] takes one workload through record, crash, recover and check. [`sweep()`] has
//! many workloads done by worker processes. [`Report`] prints what came of it.

mod args;
mod command;
mod crash_again;
mod crashed_disk;
mod disk_kind;
mod drain;
mod engine;
mod error;
mod evidence;
mod findings;
mod fsck;
mod guest_look;
mod import;
mod journal;
mod kernel;
mod look;
mod manifest;
mod merge;
mod minimize;
mod moment;
mod overview;
mod pool;
mod prepare;
mod report;
mod result;
mod results_directory;
mod specs;
mod stopwatch;
mod story;
mod sweep;
mod terminal;
mod test_bed;
#[cfg(test)]
mod tests;
mod virtual_time;
mod worker;

pub use args::{
    FileSystemArgs, NumberedWorkloads, Variants, WorkloadFiles, WorkloadIterator, parse_variants,
};
pub use command::{SweepCommand, read_to_end};
pub use crash_again::CrashAgain;
pub use disk_kind::{DiskKind, UnknownDiskKind};
pub use engine::search::{LookHook, Recovered, Search};
pub use engine::{Engine, Floor, RecoveredHook, Tell, Unfinished};
pub use error::{Error, Result};
pub use evidence::Evidence;
pub use findings::{Findings, Found, FoundWhat, Group};
pub use guest_look::{GuestLook, Looked};
pub use import::Import;
pub use kernel::{KernelArgs, KernelChoice};
pub use look::look;
pub use manifest::{Kernel, Manifest, Options};
pub use merge::merge;
pub use minimize::{Minimized, minimize, search_for};
pub use overview::{Open, Overview, Swept};
pub use prepare::{DEVICES, check_device, kernel_has, prepare};
pub use report::Report;
pub use result::{
    Again, AgainCounts, Death, LogEntry, LostBytes, RunLog, StateFindings, Timing, Verdict,
    WorkloadResult,
};
pub use results_directory::Results;
pub use specs::{KeptFacts, keep_facts, state_of_facts};
pub use story::{Story, again_sentence, death_text, replay_text, state_words};
pub use sweep::{Summary, SweepOptions, Workers, sweep};
pub use terminal::terminal_size;
pub use worker::run_hidden;
