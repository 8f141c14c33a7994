//! Local file systems: how each is made, mounted, walked and checked.
//!
//! [`FileSystem`] is a row of a table: adding a file system is adding a row. [`Variant`] is one
//! with its options, [`Mounted`] a mount that goes when it is dropped, [`Tree`] everything a
//! file system shows of itself.

#![deny(unsafe_code)]

mod btrfs_control;
mod error;
mod format;
mod fsck;
mod kernel_log;
mod mount;
mod scratch;
mod table;
mod tree;
mod walk;

pub use error::{Error, Result};
pub use format::format;
pub use fsck::{FsckReport, RunningFsck, start_fsck};
pub use kernel_log::{KernelLog, KernelMessage};
pub use mount::Mounted;
pub use scratch::{NAME_PREFIX, Scratch, enter_mount_namespace};
pub use table::{FileSystem, Program, TABLE, Variant, find, find_program};
pub use tree::{Content, Inode, InodeKind, Segment, Tree, WalkError};
pub use walk::{WalkOptions, walk};
