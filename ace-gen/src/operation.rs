//! What a skeleton is made of: the operations, and the parameters other than names.

use workloads::FallocMode;

use crate::names::{UnknownName, find, named};

named! {
    /// An operation of a skeleton. The first 14 are ACE's; the order is the order of enumeration.
    pub enum Operation ("operation") {
        /// Make a regular file that did not exist.
        Creat = "creat",
        /// Make a directory.
        Mkdir = "mkdir",
        /// fallocate(2), in one of the modes and ranges.
        Falloc = "falloc",
        /// Buffered write.
        Write = "write",
        /// Direct write.
        Dwrite = "dwrite",
        /// Stores through a mapping, followed by msync of the same range.
        MmapWrite = "mmapwrite",
        /// Another name for a file.
        Link = "link",
        /// Take a name away.
        Unlink = "unlink",
        /// remove(3); for a file the same as unlink.
        Remove = "remove",
        /// Rename a file or a directory, replacing what is there.
        Rename = "rename",
        /// Set an extended attribute.
        Fsetxattr = "fsetxattr",
        /// Remove it.
        Removexattr = "removexattr",
        /// Change the size.
        Truncate = "truncate",
        /// fdatasync as an operation of its own.
        Fdatasync = "fdatasync",
        /// Make a character device.
        Mknod = "mknod",
        /// Make a named pipe.
        Mkfifo = "mkfifo",
        /// Remove an empty directory.
        Rmdir = "rmdir",
        /// Make a symbolic link.
        Symlink = "symlink",
        /// Change the mode of a file.
        Chmod = "chmod",
        /// Change the owner of a file.
        Chown = "chown",
        /// Share the blocks of one file with another.
        Reflink = "reflink",
        /// Rename to a name that does not exist (`RENAME_NOREPLACE`).
        RenameNoreplace = "rename_noreplace",
        /// Swap two names (`RENAME_EXCHANGE`).
        RenameExchange = "rename_exchange",
        /// Rename a file and leave a whiteout (`RENAME_WHITEOUT`).
        RenameWhiteout = "rename_whiteout",
    }
}

impl Operation {
    /// The 14 operations of the paper.
    pub const PAPER: &'static [Operation] = &[
        Operation::Creat,
        Operation::Mkdir,
        Operation::Falloc,
        Operation::Write,
        Operation::Dwrite,
        Operation::MmapWrite,
        Operation::Link,
        Operation::Unlink,
        Operation::Remove,
        Operation::Rename,
        Operation::Fsetxattr,
        Operation::Removexattr,
        Operation::Truncate,
        Operation::Fdatasync,
    ];

    /// Whether it is a persistence point by itself, so that ACE puts none after it.
    pub const fn persists_itself(self) -> bool {
        matches!(self, Operation::Fdatasync | Operation::MmapWrite)
    }
}

named! {
    /// Which part of a file is written or allocated. Names are those of ACE.
    pub enum DataRange ("range") {
        /// 32 KiB after the end.
        Append = "append",
        /// The first 5000 bytes.
        OverlapUnalignedStart = "overlap_unaligned_start",
        /// 5000 bytes of which the last 3000 are after the end.
        OverlapExtend = "overlap_extend",
        /// The last 5000 bytes.
        OverlapUnalignedEnd = "overlap_unaligned_end",
        /// 3000 bytes at 1000.
        OverlapUnaligned = "overlap_unaligned",
        /// The first 4096 bytes.
        OverlapAligned = "overlap_aligned",
        /// The first 8192 bytes.
        OverlapStart = "overlap_start",
        /// The last 8192 bytes.
        OverlapEnd = "overlap_end",
    }
}

/// Direct and mapped writes start and end at multiples of this, in bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;

impl DataRange {
    /// Offset and length in bytes in a file of `size` bytes.
    pub(crate) const fn at(self, size: u64) -> (u64, u64) {
        match self {
            DataRange::Append => (size, 32768),
            DataRange::OverlapUnalignedStart => (0, 5000),
            DataRange::OverlapExtend => (size.saturating_sub(2000), 5000),
            DataRange::OverlapUnalignedEnd => (size.saturating_sub(5000), 5000),
            DataRange::OverlapUnaligned => (1000, 3000),
            DataRange::OverlapAligned => (0, BLOCK_BYTES),
            DataRange::OverlapStart => (0, 8192),
            DataRange::OverlapEnd => (size.saturating_sub(8192), 8192),
        }
    }

    /// The same in whole blocks: an append begins at the first block after the end, all
    /// others at the block that the range begins in.
    pub(crate) const fn blocks_at(self, size: u64) -> (u64, u64) {
        let (offset, length) = self.at(size);
        let offset = match self {
            DataRange::Append => offset.next_multiple_of(BLOCK_BYTES),
            _ => offset - offset % BLOCK_BYTES,
        };
        (offset, length.next_multiple_of(BLOCK_BYTES))
    }
}

/// The modes of fallocate with the names that the text form gives them, ACE's five first.
pub const FALLOC_MODES: &[(FallocMode, &str)] = &[
    (FallocMode::ZeroRange, "zero_range"),
    (FallocMode::ZeroRangeKeepSize, "zero_range|keep_size"),
    (FallocMode::PunchHole, "punch_hole|keep_size"),
    (FallocMode::KeepSize, "keep_size"),
    (FallocMode::Allocate, "alloc"),
    (FallocMode::CollapseRange, "collapse_range"),
    (FallocMode::InsertRange, "insert_range"),
    (FallocMode::UnshareRange, "unshare_range"),
];

/// Parses the name of a mode of fallocate.
///
/// # Errors
/// [`UnknownName`], which lists the known ones.
pub fn parse_falloc_mode(text: &str) -> Result<FallocMode, UnknownName> {
    find("falloc mode", FALLOC_MODES, text)
}

/// The name of a mode of fallocate in the text form.
pub(crate) const fn falloc_mode_name(mode: FallocMode) -> &'static str {
    match mode {
        FallocMode::ZeroRange => "zero_range",
        FallocMode::ZeroRangeKeepSize => "zero_range|keep_size",
        FallocMode::PunchHole => "punch_hole|keep_size",
        FallocMode::KeepSize => "keep_size",
        FallocMode::Allocate => "alloc",
        FallocMode::CollapseRange => "collapse_range",
        FallocMode::InsertRange => "insert_range",
        FallocMode::UnshareRange => "unshare_range",
    }
}
