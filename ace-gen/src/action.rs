//! What a workload does in the end: operations on numbers instead of names, small enough to
//! copy, from which text, [`workloads::Op`] and digests are made.

use workloads::{FallocMode, RenameFlag};

use crate::paths::PathId;

/// One operation. Offsets, lengths and sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Creat(PathId),
    Mkdir(PathId),
    Mkfifo(PathId),
    Mknod(PathId),
    Symlink {
        target: PathId,
        path: PathId,
    },
    Link {
        source: PathId,
        dest: PathId,
    },
    Unlink(PathId),
    Rmdir(PathId),
    Remove(PathId),
    Rename {
        source: PathId,
        dest: PathId,
        flag: RenameFlag,
    },
    Write {
        path: PathId,
        offset: u64,
        length: u64,
    },
    DirectWrite {
        path: PathId,
        offset: u64,
        length: u64,
    },
    MmapWrite {
        path: PathId,
        offset: u64,
        length: u64,
    },
    Msync {
        path: PathId,
        offset: u64,
        length: u64,
    },
    Truncate {
        path: PathId,
        size: u64,
    },
    Falloc {
        path: PathId,
        mode: FallocMode,
        offset: u64,
        length: u64,
    },
    SetXattr(PathId),
    RemoveXattr(PathId),
    Chmod(PathId),
    Chown(PathId),
    Reflink {
        source: PathId,
        dest: PathId,
    },
    Fsync(PathId),
    Fdatasync(PathId),
    Syncfs,
    Sync,
}

/// Takes the operations of a workload, one after the other.
pub(crate) trait Sink {
    fn act(&mut self, action: Action);
}

/// The mode that `chmod` sets.
pub(crate) const CHMOD_MODE: u32 = 0o600;
/// The user and group that `chown` sets.
pub(crate) const CHOWN_IDS: (u32, u32) = (1000, 1000);
/// The extended attribute that `fsetxattr` sets; the one that CrashMonkey sets.
pub(crate) const XATTR_NAME: &str = "user.xattr1";
/// Its value.
pub(crate) const XATTR_VALUE: &str = "val1";
