//! What a node's file system may have kept of the operations before a crash: a table.

/// What a local file system may do. A line of the table; nothing else knows its name.
///
/// Where it is not known what a file system does, the table allows it less: a crash state that
/// cannot be would accuse a program of nothing it did. What is allowed has a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Where it is said that the file system does so.
    pub sources: &'static [&'static str],
    /// What fsync of a file or directory makes durable of what was done to names.
    pub log: Log,
    /// What of a file's data waits for what was done to names before.
    pub data: DataOrder,
    /// What may be seen of bytes behind the old end of a file before they are those written.
    pub growth: Growth,
    /// Whether operations on names and sizes are atomic. Else a rename is three steps, and a file
    /// is cut off piece by piece.
    pub atomic_names: bool,
    /// Whether a rename that replaces a file waits for the data of the one that is renamed.
    pub replace_by_rename: bool,
    /// Whether names wait for data behind the cut of a file that was emptied.
    pub replace_by_truncate: bool,
    /// Writes are torn at multiples of so many bytes of the file only. With a [`Log`], a page also
    /// goes to the disk with all that was written to it until then: to lose one write is to lose
    /// the later ones to its pages.
    pub block_bytes: u64,
}

/// How a file system keeps names, sizes and modes, and so what a sync of one file says of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log {
    /// Nothing is known: each operation is kept or not. A sync of a file covers the file, and not
    /// its name; one of a directory the names in it.
    None,
    /// One log in the order of the operations. A sync of what has changed covers all before it.
    Journal,
    /// All operations in order, but what a sync covers is kept for itself: a file with its names
    /// and the directories above it.
    LogTree,
}

/// Which writes are kept only if all earlier operations on names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataOrder {
    /// None.
    Free,
    /// Those that need new blocks. Others go to the place that the file has already.
    Allocating,
    /// All: nothing is written in place.
    All,
}

/// What a crash leaves where a file has grown and its bytes were not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Zeros, then garbage, then the bytes.
    ZerosAndGarbage,
    /// Garbage, then the bytes.
    Garbage,
    /// The file grows with its bytes. But where its last block has its place already only the size
    /// is new, which is kept like a name: in that block zeros come first.
    ZerosInPlace,
    /// The file grows with its bytes.
    WithData,
}

const EXT4_SYNC: &str = "fs/ext4/fsync.c, ext4_sync_file: the journal is committed up to the transaction that changed \
                         the inode, for fdatasync up to the one that changed its size or blocks";
const EXT4_JOURNAL: &str = "Documentation/filesystems/ext4/journal.rst: one journal, replayed up to the last commit \
                            record";
const DELALLOC: &str = "Documentation/admin-guide/ext4.rst, delalloc: \"Defer block allocation until just before ext4 \
                        writes out the block(s) in question\"";

/// Every model.
pub const MODELS: &[Model] = &[
    Model {
        name: "posix",
        sources: &[
            "PACE (OSDI 2016) and ALICE (OSDI 2014), default file system: what POSIX does not forbid",
            "fsync(2): the entry in the directory needs \"an explicit fsync() on a file descriptor for the directory\"",
        ],
        log: Log::None,
        data: DataOrder::Free,
        growth: Growth::ZerosAndGarbage,
        atomic_names: false,
        replace_by_rename: false,
        replace_by_truncate: false,
        block_bytes: 1,
    },
    Model {
        name: "ext4-ordered",
        sources: &[
            EXT4_JOURNAL,
            EXT4_SYNC,
            DELALLOC,
            "Documentation/admin-guide/ext4.rst, data=ordered: \"All data are forced directly out to the main file \
             system prior to its metadata being committed to the journal\"",
            "Documentation/admin-guide/ext4.rst, auto_da_alloc: \"the data blocks of the new file are forced to disk \
             before the rename() operation is committed\"",
            "fs/ext4/inode.c, ext4_da_do_write_end: the size on disk is set at once where no block has to be \
             allocated, and only data in new blocks is ordered (docs/results.md has a program that shows it)",
        ],
        log: Log::Journal,
        data: DataOrder::Allocating,
        growth: Growth::ZerosInPlace,
        atomic_names: true,
        replace_by_rename: true,
        replace_by_truncate: true,
        block_bytes: 4096,
    },
    Model {
        name: "ext4-writeback",
        sources: &[
            EXT4_JOURNAL,
            EXT4_SYNC,
            DELALLOC,
            "Documentation/admin-guide/ext4.rst, data=writeback: \"Data ordering is not preserved, data may be written \
             into the main file system after its metadata has been committed to the journal\"",
        ],
        log: Log::Journal,
        data: DataOrder::Allocating,
        growth: Growth::Garbage,
        atomic_names: true,
        replace_by_rename: false,
        replace_by_truncate: false,
        block_bytes: 4096,
    },
    Model {
        name: "xfs",
        sources: &[
            "Documentation/filesystems/xfs/xfs-delayed-logging-design.rst: \"all metadata modifications that were \
             committed prior to that change will also be seen\"",
            "fs/xfs/xfs_file.c, xfs_fsync_flush_log: the log is forced up to the last change of the inode",
            "fs/xfs/xfs_aops.c, xfs_end_ioend: the size on disk is updated once the data has been written",
        ],
        log: Log::Journal,
        data: DataOrder::Allocating,
        growth: Growth::WithData,
        atomic_names: true,
        replace_by_rename: false,
        replace_by_truncate: false,
        block_bytes: 4096,
    },
    Model {
        name: "btrfs",
        sources: &[
            "fs/btrfs/tree-log.c: fsync logs the inode, its names, new directories above it, and whatever had one of \
             the names before; fsync of a directory its entries, those of new directories below it too",
            "fs/btrfs/transaction.c: a transaction holds all operations up to it, but waits for data only with \
             flushoncommit",
            "fs/btrfs/inode.c, btrfs_finish_one_ordered: extents and size are changed once the data has been written",
            "the project's FAQ: \"Overwriting an existing file using a rename is atomic\", the data included",
        ],
        log: Log::LogTree,
        data: DataOrder::All,
        growth: Growth::WithData,
        atomic_names: true,
        replace_by_rename: true,
        replace_by_truncate: false,
        block_bytes: 4096,
    },
];

impl Model {
    /// The model of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }
}
