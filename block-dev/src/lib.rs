//! The disk in user space.
//!
//! - [`Base`] and [`Image`]: a formatted disk, and copy-on-write images that share it.
//! - [`BlockLog`]: every write, flush and discard that a disk was asked for, when it was completed,
//!   and marks.
//! - [`Behaviour`]: what a disk does with each request, and how it keeps its word: an honest or
//!   lying one (`pace_rules::disk::Disk`), a lazy one ([`Completion`]), one that fails, or
//!   corrupts what it reads or writes ([`Faulty`]).
//! - [`RequestTrace`]: tells the flush that stands for FUA from one of its own.
//! - [`LogWrites`]: what the kernel's own target log-writes logged.
//! - [`FrontEnd`]: a disk that the kernel can mount: [`FuseDisk`] (FUSE + loop) records what
//!   it is asked for, [`MemfdDisk`] (memfd + loop) is the fastest to mount.

mod base;
mod behaviour;
mod completion;
mod corruption;
mod error;
mod front_end;
mod fua;
mod fuse_disk;
mod held_writes;
mod image;
mod image_file;
mod late_answers;
mod log;
mod log_writes;
pub mod loop_device;
mod memfd_disk;
mod onlooker;
mod page_writer;

pub use base::Base;
pub use behaviour::{Answer, Behaviour, DiskRequest, Fault, Faulty, Predicate};
pub use completion::Completion;
pub use corruption::Corruption;
pub use error::{Error, Result};
pub use front_end::FrontEnd;
pub use fua::{FlaggedRequest, RequestTrace, annotate, recognise_fua, try_request_trace};
pub use fuse_disk::FuseDisk;
pub use image::{Image, ImageHash};
pub use image_file::{ChangedPage, ImageFile};
pub use log::{BlockLog, Entry, Kind, Mark, NEVER};
pub use log_writes::{LogMark, LogWrites, LogWritesError, OperationMark, Unordered};
pub use loop_device::is_unmounted;
pub use memfd_disk::MemfdDisk;
pub use onlooker::Onlooker;

/// Everything this crate makes that the kernel gives a name to carries this mark, so that
/// what a killed process left behind can be told from what others made.
pub const NAME_MARK: &str = "crashpoint";

/// The unit in which images are kept and compared, in bytes.
pub const PAGE_SIZE: usize = 4096;

/// One page of an image.
pub type Page = [u8; PAGE_SIZE];
