//! The system calls that are looked at. Which they are is data: the kernel's filter and the tracer
//! are made of this table.

/// What a call is to the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Bytes out of a descriptor: a socket's are received. The flags are in this argument.
    Read { flags: Option<usize> },
    /// The same, into several messages.
    ReceiveMany,
    /// Bytes into a descriptor.
    Write(Write),
    /// Several messages into a socket.
    SendMany,
    /// Bytes of a file into a descriptor: where the descriptors and their offsets are in the arguments.
    Copy { from: usize, to: usize, to_offset: Option<usize> },
    /// A file opened: where the path and the flags are.
    Open { base: Option<usize>, path: usize, flags: OpenFlags },
    /// A name more for something new.
    Make { base: Option<usize>, path: usize, what: New },
    /// A name more for something old.
    Link { base: Option<usize>, path: usize },
    /// A name for a socket.
    Bind,
    /// A name less.
    Remove { base: Option<usize>, path: usize },
    /// Another name.
    Rename { bases: Option<(usize, usize)>, paths: (usize, usize), flags: Option<usize> },
    /// Other permission bits of a path.
    SetMode { base: Option<usize>, path: usize, flags: Option<usize> },
    /// Other permission bits of a descriptor.
    SetModeOf,
    /// Another size of a path.
    Truncate,
    /// Another size of a descriptor.
    TruncateOf,
    /// fallocate(2).
    Allocate,
    /// fsync(2), fdatasync(2).
    Sync { data_only: bool },
    /// sync(2).
    SyncAll,
    /// syncfs(2).
    SyncFileSystem,
    /// msync(2).
    SyncMapping,
    /// A shared mapping of a file.
    Map,
    /// A mapping less.
    Unmap,
    /// A mapping that can be written to from now on.
    Protect,
    /// A mapping somewhere else.
    Move,
    /// Something done to what a mapping shows, which is not followed.
    UnfollowedMapping,
    /// A descriptor less.
    Close,
    /// A socket that nothing will be sent to.
    Shutdown,
    /// Descriptors less, as a side effect.
    MayClose,
    /// Something that changes a descriptor's file, and is not followed.
    Unfollowed { descriptor: usize },
    /// Something that changes the file of a path, and is not followed.
    UnfollowedPath { base: Option<usize>, path: usize },
    /// io_submit(2): not followed, where it writes.
    Submit,
    /// ioctl(2) of a file system.
    Control,
    /// fchown and the like: not followed, where it changes something.
    SetOwner { descriptor: bool, base: Option<usize>, path: usize, owner: usize, flags: Option<usize> },
    /// unshare(2) of descriptors by one of several threads.
    Unshare,
    /// A call of another architecture.
    Foreign,
}

impl Call {
    /// Whether it has to do with the files of paths.
    pub(super) fn has_path(self) -> bool {
        matches!(
            self,
            Self::Open { .. }
                | Self::Make { .. }
                | Self::Link { .. }
                | Self::Bind
                | Self::Remove { .. }
                | Self::Rename { .. }
                | Self::SetMode { .. }
                | Self::Truncate
                | Self::UnfollowedPath { .. }
                | Self::SetOwner { descriptor: false, .. }
        )
    }
}

/// How a call has the bytes, and where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Write {
    pub bytes: Bytes,
    /// The argument with the offset in the file, if there is one.
    pub offset: Option<usize>,
    /// The argument with the flags of pwritev2(2).
    pub flags: Option<usize>,
}

/// How a call has the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// A buffer.
    Buffer,
    /// Buffers.
    Vector,
    /// A `struct msghdr`, for sockets.
    Message,
}

/// Where the flags of an open are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenFlags {
    /// In an argument.
    Argument(usize),
    /// In memory (openat2).
    Structure(usize),
    /// creat(2).
    Creat,
}

/// What is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum New {
    Directory,
    Symlink,
    Node,
}

/// When the kernel asks about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Always.
    Always,
    /// If an argument has one of these bits.
    Bits { argument: u32, bits: u32 },
    /// If an argument is this.
    Is { argument: u32, value: u32 },
    /// If it is a shared mapping of a file.
    SharedFile,
    /// If it is an ioctl of file systems.
    FileSystemControl,
}

/// A system call: its number, its name, what it is, and when it is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub number: libc::c_long,
    pub name: &'static str,
    pub call: Call,
    pub when: When,
}

const fn row(number: libc::c_long, name: &'static str, call: Call) -> Row {
    Row { number, name, call, when: When::Always }
}

const fn when(row: Row, when: When) -> Row {
    Row { when, ..row }
}

const fn write(bytes: Bytes, offset: Option<usize>, flags: Option<usize>) -> Call {
    Call::Write(Write { bytes, offset, flags })
}

/// Opens that make something or cut something off. Others are seen by what is done with the
/// descriptor.
const CHANGING_OPEN: u32 = (libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u32;

/// Calls of Linux 6.13 and 6.17, which have the same number on every architecture.
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

/// The row of calls that are made as those of another architecture, whose numbers are others.
pub(super) const FOREIGN: u32 = 0xffff;

/// What is said of those.
pub(super) const FOREIGN_ROW: Row = row(-1, "a system call of another architecture", Call::Foreign);

/// What the filter refuses, so that programs do without.
pub(super) const REFUSED: [libc::c_long; 1] = [libc::SYS_io_uring_setup];

/// The table, the most frequent first.
pub(super) const ROWS: &[Row] = &[
    row(libc::SYS_read, "read", Call::Read { flags: None }),
    row(libc::SYS_write, "write", write(Bytes::Buffer, None, None)),
    row(libc::SYS_recvfrom, "recvfrom", Call::Read { flags: Some(3) }),
    row(libc::SYS_sendto, "sendto", write(Bytes::Buffer, None, None)),
    row(libc::SYS_pwrite64, "pwrite64", write(Bytes::Buffer, Some(3), None)),
    row(libc::SYS_fdatasync, "fdatasync", Call::Sync { data_only: true }),
    row(libc::SYS_writev, "writev", write(Bytes::Vector, None, None)),
    row(libc::SYS_readv, "readv", Call::Read { flags: None }),
    row(libc::SYS_sendmsg, "sendmsg", write(Bytes::Message, None, None)),
    row(libc::SYS_recvmsg, "recvmsg", Call::Read { flags: Some(2) }),
    row(libc::SYS_fsync, "fsync", Call::Sync { data_only: false }),
    row(libc::SYS_close, "close", Call::Close),
    when(
        row(libc::SYS_openat, "openat", Call::Open { base: Some(0), path: 1, flags: OpenFlags::Argument(2) }),
        When::Bits { argument: 2, bits: CHANGING_OPEN },
    ),
    row(libc::SYS_munmap, "munmap", Call::Unmap),
    when(row(libc::SYS_mmap, "mmap", Call::Map), When::SharedFile),
    when(row(libc::SYS_mprotect, "mprotect", Call::Protect), When::Bits { argument: 2, bits: libc::PROT_WRITE as u32 }),
    row(libc::SYS_mremap, "mremap", Call::Move),
    row(libc::SYS_msync, "msync", Call::SyncMapping),
    row(libc::SYS_ftruncate, "ftruncate", Call::TruncateOf),
    row(libc::SYS_fallocate, "fallocate", Call::Allocate),
    row(libc::SYS_pwritev, "pwritev", write(Bytes::Vector, Some(3), None)),
    row(libc::SYS_pwritev2, "pwritev2", write(Bytes::Vector, Some(3), Some(5))),
    row(libc::SYS_preadv2, "preadv2", Call::Read { flags: None }),
    row(libc::SYS_sendmmsg, "sendmmsg", Call::SendMany),
    row(libc::SYS_recvmmsg, "recvmmsg", Call::ReceiveMany),
    row(libc::SYS_sendfile, "sendfile", Call::Copy { from: 1, to: 0, to_offset: None }),
    row(libc::SYS_copy_file_range, "copy_file_range", Call::Copy { from: 0, to: 2, to_offset: Some(3) }),
    row(libc::SYS_splice, "splice", Call::Copy { from: 0, to: 2, to_offset: Some(3) }),
    row(libc::SYS_bind, "bind", Call::Bind),
    row(libc::SYS_shutdown, "shutdown", Call::Shutdown),
    row(libc::SYS_openat2, "openat2", Call::Open { base: Some(0), path: 1, flags: OpenFlags::Structure(2) }),
    row(libc::SYS_mkdirat, "mkdirat", Call::Make { base: Some(0), path: 1, what: New::Directory }),
    row(libc::SYS_mknodat, "mknodat", Call::Make { base: Some(0), path: 1, what: New::Node }),
    row(libc::SYS_symlinkat, "symlinkat", Call::Make { base: Some(1), path: 2, what: New::Symlink }),
    row(libc::SYS_linkat, "linkat", Call::Link { base: Some(2), path: 3 }),
    row(libc::SYS_unlinkat, "unlinkat", Call::Remove { base: Some(0), path: 1 }),
    row(libc::SYS_renameat2, "renameat2", Call::Rename { bases: Some((0, 2)), paths: (1, 3), flags: Some(4) }),
    row(libc::SYS_fchmod, "fchmod", Call::SetModeOf),
    row(libc::SYS_fchmodat, "fchmodat", Call::SetMode { base: Some(0), path: 1, flags: None }),
    row(libc::SYS_fchmodat2, "fchmodat2", Call::SetMode { base: Some(0), path: 1, flags: Some(3) }),
    row(libc::SYS_truncate, "truncate", Call::Truncate),
    row(libc::SYS_sync, "sync", Call::SyncAll),
    row(libc::SYS_syncfs, "syncfs", Call::SyncFileSystem),
    row(libc::SYS_dup3, "dup3", Call::MayClose),
    row(libc::SYS_close_range, "close_range", Call::MayClose),
    row(libc::SYS_fchown, "fchown", Call::SetOwner { descriptor: true, base: None, path: 0, owner: 1, flags: None }),
    row(
        libc::SYS_fchownat,
        "fchownat",
        Call::SetOwner { descriptor: false, base: Some(0), path: 1, owner: 2, flags: Some(4) },
    ),
    row(libc::SYS_fsetxattr, "fsetxattr", Call::Unfollowed { descriptor: 0 }),
    row(libc::SYS_fremovexattr, "fremovexattr", Call::Unfollowed { descriptor: 0 }),
    row(libc::SYS_setxattr, "setxattr", Call::UnfollowedPath { base: None, path: 0 }),
    row(libc::SYS_lsetxattr, "lsetxattr", Call::UnfollowedPath { base: None, path: 0 }),
    row(libc::SYS_removexattr, "removexattr", Call::UnfollowedPath { base: None, path: 0 }),
    row(libc::SYS_lremovexattr, "lremovexattr", Call::UnfollowedPath { base: None, path: 0 }),
    row(SETXATTRAT, "setxattrat", Call::UnfollowedPath { base: Some(0), path: 1 }),
    row(REMOVEXATTRAT, "removexattrat", Call::UnfollowedPath { base: Some(0), path: 1 }),
    row(FILE_SETATTR, "file_setattr", Call::UnfollowedPath { base: Some(0), path: 1 }),
    row(libc::SYS_mount, "mount", Call::UnfollowedPath { base: None, path: 1 }),
    row(libc::SYS_umount2, "umount2", Call::UnfollowedPath { base: None, path: 0 }),
    row(libc::SYS_move_mount, "move_mount", Call::UnfollowedPath { base: Some(2), path: 3 }),
    row(libc::SYS_pivot_root, "pivot_root", Call::UnfollowedPath { base: None, path: 0 }),
    row(libc::SYS_swapon, "swapon", Call::UnfollowedPath { base: None, path: 0 }),
    row(libc::SYS_acct, "acct", Call::UnfollowedPath { base: None, path: 0 }),
    row(libc::SYS_io_submit, "io_submit", Call::Submit),
    when(row(libc::SYS_ioctl, "ioctl", Call::Control), When::FileSystemControl),
    when(
        row(libc::SYS_madvise, "madvise", Call::UnfollowedMapping),
        When::Is { argument: 2, value: libc::MADV_REMOVE as u32 },
    ),
    row(libc::SYS_remap_file_pages, "remap_file_pages", Call::UnfollowedMapping),
    when(row(libc::SYS_unshare, "unshare", Call::Unshare), When::Bits { argument: 0, bits: libc::CLONE_FILES as u32 }),
    when(
        row(libc::SYS_open_by_handle_at, "open_by_handle_at", Call::Foreign),
        When::Bits { argument: 2, bits: CHANGING_OPEN },
    ),
    #[cfg(target_arch = "x86_64")]
    when(
        row(libc::SYS_open, "open", Call::Open { base: None, path: 0, flags: OpenFlags::Argument(1) }),
        When::Bits { argument: 1, bits: CHANGING_OPEN },
    ),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_creat, "creat", Call::Open { base: None, path: 0, flags: OpenFlags::Creat }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_mkdir, "mkdir", Call::Make { base: None, path: 0, what: New::Directory }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_mknod, "mknod", Call::Make { base: None, path: 0, what: New::Node }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_symlink, "symlink", Call::Make { base: None, path: 1, what: New::Symlink }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_link, "link", Call::Link { base: None, path: 1 }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_unlink, "unlink", Call::Remove { base: None, path: 0 }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_rmdir, "rmdir", Call::Remove { base: None, path: 0 }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_rename, "rename", Call::Rename { bases: None, paths: (0, 1), flags: None }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_renameat, "renameat", Call::Rename { bases: Some((0, 2)), paths: (1, 3), flags: None }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_chmod, "chmod", Call::SetMode { base: None, path: 0, flags: None }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_dup2, "dup2", Call::MayClose),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_chown, "chown", Call::SetOwner { descriptor: false, base: None, path: 0, owner: 1, flags: None }),
    #[cfg(target_arch = "x86_64")]
    row(libc::SYS_lchown, "lchown", Call::SetOwner { descriptor: false, base: None, path: 0, owner: 1, flags: None }),
];
