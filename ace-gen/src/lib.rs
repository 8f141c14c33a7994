//! Bounded, exhaustive generation of workloads after ACE, the automatic crash explorer of
//! CrashMonkey (Mohan et al., "Finding Crash-Consistency Bugs with Bounded Black-Box Crash
//! Testing", OSDI 2018; `ace.py` and `common.py` in its repository).
//!
//! ACE has four phases, and so has this crate:
//!
//! 1. skeletons: every sequence of operations (`index`);
//! 2. parameters: every choice of names and ranges for them, less those that reuse no names
//!    where the bounds ask for that (`choice`, `graph`);
//! 3. persistence: after each operation one of the persistence operations or none (`menu`);
//! 4. dependencies: what the operations still need in order to succeed (`resolve`).
//!
//! The first three are numbers only: [`Generator::get`] finds workload `i` without visiting
//! those before it. The fourth runs on a small model of the file system (`namespace`) and its
//! result is written as text or made into [`workloads::Workload`].
//!
//! ```
//! use ace_gen::{Generator, Preset};
//!
//! let generator = Generator::new(Preset::Seq1.bounds())?;
//! assert_eq!(generator.len(), 336);
//! assert_eq!(generator.get(17).unwrap().name, "seq-1/17");
//! # Ok::<(), ace_gen::BoundsError>(())
//! ```
//!
//! # Where it differs from ACE
//!
//! The counts are ACE's ([`Preset`]). So are the operations of all but 16 of the 328 workloads
//! that its repository holds for one operation: 8 with an older `mmapwrite`, 8 with
//! `fdatasync` where ace.py now has `truncate` to 0. What differs on purpose:
//!
//! - The order is fixed; ACE's follows Python's sets.
//! - There is no open and close: an operation opens what it needs, and a file that must exist
//!   is made by `creat`.
//! - Sizes belong to files, not to names, and are what they really are. `append` is at the end
//!   of the file also after `truncate`, a write over the end, or `falloc` with `keep_size`; a
//!   file that is made anew is empty. Offsets of `dwrite` and `mmapwrite` are multiples of
//!   4096: after an end that is not, an append begins at the next block.
//! - What is below a renamed directory moves with it. A directory that is renamed onto one
//!   that is not empty empties it first, as `mkdir` does. A rename of a directory into itself,
//!   which `seq-3-nested` would have, is left out.
//! - `removexattr` sets the attribute first only where it is not set.
//! - `dwrite` is not `O_SYNC`, as CrashMonkey opens it; J-lang output says what CrashMonkey does.
//! - A symbolic link or a special file cannot be opened as a file: what persists it is fsync of
//!   the directory it is in, and an operation on data replaces it by a regular file.
//!
//! With that every operation of every workload succeeds on a file system that follows POSIX,
//! without exception (`tests/succeeds.rs`).

#![forbid(unsafe_code)]

mod action;
mod args;
mod bounds;
mod choice;
mod convert;
mod cursor;
mod generator;
mod graph;
mod index;
mod menu;
mod names;
mod namespace;
mod operation;
mod output;
mod paths;
mod preset;
mod resolve;
mod select;
mod text;
mod unique;

pub use args::{GeneratorArgs, SelectionArgs};
pub use bounds::{Bounds, BoundsError, LinkPairs, PersistNames, Persistence, Reuse};
pub use generator::{Generator, MAX_OPS, Walker, Workloads};
pub use names::UnknownName;
pub use operation::{DataRange, FALLOC_MODES, Operation, parse_falloc_mode};
pub use output::{Format, OutputError, write};
pub use preset::Preset;
pub use select::{Indices, Sample, Selection};
pub use unique::{Removed, Unique};
