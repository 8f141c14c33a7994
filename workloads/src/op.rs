//! What a workload is made of.

use serde::{Deserialize, Serialize};

/// The mode of a file, fifo or tmpfile that is made without one.
pub const DEFAULT_FILE_MODE: u32 = 0o644;
/// The mode of a directory that is made without one.
pub const DEFAULT_DIRECTORY_MODE: u32 = 0o755;

/// One workload: operations with a setup part, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Workload {
    /// Identifies the workload in results; for a generated one `PRESET/INDEX`.
    pub name: String,
    /// Where it comes from: a paper, a test case, a bug report.
    pub source: Vec<String>,
    /// What must hold after the crash, in words, for the reader.
    pub expect: Vec<String>,
    /// Operations whose effect is durable before recording starts.
    pub setup: Vec<Op>,
    /// What is recorded.
    pub run: Vec<Step>,
}

/// One step of the run part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// An operation.
    Op(Op),
    /// `!`: the power fails here. A workload without any crashes after each
    /// persistence operation ([`Op::is_persistence`]) of its run part.
    CrashPoint,
}

/// What an operation is applied to: a name, or a descriptor that was opened under a handle.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// A path relative to the root of the file system; `.` is the root itself.
    Path(String),
    /// `@name`: a descriptor from `open … as @name` or `tmpfile … as @name`. It stays valid
    /// when the file's names are gone.
    Handle(String),
}

/// Durability that a write asks for by itself (`O_SYNC`, `O_DSYNC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum WriteSync {
    /// None: durable at the next persistence operation.
    #[default]
    None,
    /// `O_DSYNC`: as if followed by fdatasync.
    Dsync,
    /// `O_SYNC`: as if followed by fsync.
    Sync,
}

/// How rename treats an existing destination (`renameat2(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum RenameFlag {
    /// Replace it.
    #[default]
    Replace,
    /// `RENAME_NOREPLACE`: fail if it exists.
    NoReplace,
    /// `RENAME_EXCHANGE`: swap the two.
    Exchange,
    /// `RENAME_WHITEOUT`: leave a whiteout (character device 0:0) at the source.
    Whiteout,
}

/// What kind of special file `mknod` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeviceKind {
    /// Character device.
    Char,
    /// Block device.
    Block,
}

/// The mode argument of fallocate(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FallocMode {
    /// 0: allocate, and extend the size.
    Allocate,
    /// `KEEP_SIZE`: allocate, size unchanged.
    KeepSize,
    /// `ZERO_RANGE`.
    ZeroRange,
    /// `ZERO_RANGE|KEEP_SIZE`.
    ZeroRangeKeepSize,
    /// `PUNCH_HOLE|KEEP_SIZE` (the kernel demands both).
    PunchHole,
    /// `COLLAPSE_RANGE`.
    CollapseRange,
    /// `INSERT_RANGE`.
    InsertRange,
    /// `UNSHARE_RANGE`.
    UnshareRange,
}

/// One operation. Offsets and lengths are bytes.
///
/// An operation on a path opens the file if no descriptor of that path is open yet and leaves
/// it open, as ACE's workloads do; unlink, rmdir, rename and the end of the workload close
/// it, and so do `close` and a direct write. Bytes written are never zero and differ between
/// operations, so that old, new and foreign data can be told apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the fields are those of the system calls the variants are named after
pub enum Op {
    Creat {
        path: String,
        mode: u32,
    },
    Mkdir {
        path: String,
        mode: u32,
    },
    Mkfifo {
        path: String,
        mode: u32,
    },
    Mknod {
        path: String,
        kind: DeviceKind,
        major: u32,
        minor: u32,
    },
    Symlink {
        target: String,
        path: String,
    },
    Link {
        source: Target,
        dest: String,
    },
    Unlink {
        path: String,
    },
    Rmdir {
        path: String,
    },
    /// remove(3): unlink, or rmdir where it is a directory.
    Remove {
        path: String,
    },
    Rename {
        source: String,
        dest: String,
        flag: RenameFlag,
    },
    /// A descriptor of its own, `@handle`, on an existing file or directory.
    Open {
        path: String,
        handle: String,
    },
    /// `O_TMPFILE` in `dir`; give it a name with `Link { source: Handle }`.
    Tmpfile {
        dir: String,
        handle: String,
        mode: u32,
    },
    Close {
        target: Target,
    },
    /// Buffered pwrite(2).
    Write {
        target: Target,
        offset: u64,
        length: u64,
        sync: WriteSync,
    },
    /// `O_APPEND` write.
    Append {
        target: Target,
        length: u64,
    },
    /// `O_DIRECT` pwrite(2); offset and length must be multiples of the block size.
    DirectWrite {
        target: Target,
        offset: u64,
        length: u64,
        sync: WriteSync,
    },
    /// Stores through a shared mapping (the file is extended first if it is too short). Not durable
    /// by itself: see `Msync`.
    MmapWrite {
        target: Target,
        offset: u64,
        length: u64,
    },
    Truncate {
        target: Target,
        size: u64,
    },
    Falloc {
        target: Target,
        mode: FallocMode,
        offset: u64,
        length: u64,
    },
    SetXattr {
        target: Target,
        name: String,
        value: String,
    },
    RemoveXattr {
        target: Target,
        name: String,
    },
    Chmod {
        target: Target,
        mode: u32,
    },
    Chown {
        target: Target,
        uid: u32,
        gid: u32,
    },
    /// `FICLONERANGE`; length 0 is to the end of the source (`reflink SRC DST` is 0 0 0).
    Reflink {
        source: Target,
        source_offset: u64,
        length: u64,
        dest: Target,
        dest_offset: u64,
    },
    /// Write 1, 2 or 3 to /proc/sys/vm/drop_caches.
    DropCaches {
        what: u8,
    },
    Fsync {
        target: Target,
    },
    Fdatasync {
        target: Target,
    },
    /// msync(2) with MS_SYNC of a range.
    Msync {
        target: Target,
        offset: u64,
        length: u64,
    },
    /// sync_file_range(2) with all three flags. Promises nothing about metadata or the disk's
    /// cache.
    SyncFileRange {
        target: Target,
        offset: u64,
        length: u64,
    },
    Syncfs,
    Sync,
}

impl Workload {
    /// The operations of setup and run, in order: this is how results number them.
    pub fn operations(&self) -> impl Iterator<Item = &Op> {
        let run = self.run.iter().filter_map(|step| match step {
            Step::Op(op) => Some(op),
            Step::CrashPoint => None,
        });
        self.setup.iter().chain(run)
    }
}

impl Op {
    /// Whether its return is a persistence point: fsync, fdatasync, msync, sync, syncfs, or a
    /// write with `O_SYNC`/`O_DSYNC`. `sync_file_range` is not one: it promises nothing.
    pub fn is_persistence(&self) -> bool {
        match self {
            Op::Fsync { .. } | Op::Fdatasync { .. } | Op::Msync { .. } | Op::Syncfs | Op::Sync => {
                true
            }
            Op::Write { sync, .. } | Op::DirectWrite { sync, .. } => *sync != WriteSync::None,
            _ => false,
        }
    }

    /// The file that it works on through a descriptor, which it opens where none is open. Link
    /// and reflink, which have two, have none here.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Op::Close { target }
            | Op::Write { target, .. }
            | Op::Append { target, .. }
            | Op::DirectWrite { target, .. }
            | Op::MmapWrite { target, .. }
            | Op::Truncate { target, .. }
            | Op::Falloc { target, .. }
            | Op::SetXattr { target, .. }
            | Op::RemoveXattr { target, .. }
            | Op::Chmod { target, .. }
            | Op::Chown { target, .. }
            | Op::Fsync { target }
            | Op::Fdatasync { target }
            | Op::Msync { target, .. }
            | Op::SyncFileRange { target, .. } => Some(target),
            _ => None,
        }
    }
}
