//! Local file systems: how each is made, mounted, walked and checked.
//!
//! [`FileSystem`] is a row of a table: adding a file system is adding a row. [`Variant`] is one
//! with its options, [`Mounted`] a mount that goes when it is dropped, with its driver where that
//! is a process, [`Tree`] everything a file system shows of itself.

#![deny(unsafe_code)]

mod areas;
mod block_names;
mod btrfs_control;
mod dies_with_thread;
mod driver;
mod error;
mod format;
mod fsck;
mod holes;
mod kernel_log;
mod mount;
mod scratch;
mod shown_name;
mod shutdown;
mod table;
mod tree;
mod variant;
mod walk;

pub use areas::{Area, Areas};
pub use block_names::block_names;
pub use dies_with_thread::dies_with_thread;
pub use error::{Error, Result, is_about_machine};
pub use format::{format, format_device};
pub use fsck::{FsckReport, RunningFsck, repair, repair_device, start_fsck};
pub use holes::with_data;
pub use kernel_log::{KernelLog, KernelMessage, KernelMessages};
pub use mount::Mounted;
pub use scratch::{NAME_PREFIX, Scratch, enter_mount_namespace};
pub use shown_name::raw_path;
pub use table::{
    Debugger, Driver, FileSystem, Fsck, Lack, Program, Repair, Rest, TABLE, find, find_program,
};
pub use tree::{Content, Inode, InodeKind, Segment, Tree, WalkError};
pub use variant::{PROGRAM_DISK_MIB, Variant};
pub use walk::{WalkOptions, walk};
