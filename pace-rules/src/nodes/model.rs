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
    /// What may be seen of bytes past the old end of a file before they are those written.
    pub growth: Growth,
    /// What `fallocate` does to a file before the log is written.
    pub allocation: Allocation,
    /// Whether operations on names and sizes are atomic. Else a rename is three steps, and a file
    /// is cut off piece by piece.
    pub atomic_names: bool,
    /// Whether a rename that replaces a file waits for the size of the one that is renamed. It never
    /// waits for its bytes.
    pub replace_by_rename: bool,
    /// What of the log fdatasync waits for.
    pub data_sync: DataSync,
    /// Of what an exchange of names is a change, for the sync of a file.
    pub exchange: Exchange,
    /// Whether sync and syncfs have the disk empty its cache even if there is nothing to be written
    /// to the log. Else what was written in place is not durable after them.
    pub sync_flushes: bool,
    /// What is written to a new place is there or not in multiples of so many bytes of the file.
    /// With a [`Log`], a page also goes to the disk with all that was written to it until then: to
    /// lose one write is to lose the later ones to its pages. Of a page that has its place the disk
    /// may write some sectors only: there that is so of the writes to a sector.
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
    /// and the new directories above it. What has been logged follows changes of names at once.
    LogTree,
}

/// Which changes of a file or directory fdatasync makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSync {
    /// Those that fsync does; without a log, but for modes and attributes.
    Names,
    /// Of a file, that it exists, its size and its blocks. Any sync of a directory commits everything.
    Sizes,
}

/// Which inodes an exchange of names changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Those of the files and directories.
    Files,
    /// Only those of the directories that have the names.
    Directories,
}

/// Which writes are kept only if all earlier operations on names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataOrder {
    /// None.
    Free,
    /// Those that need new blocks. Others go to the place that the file has already.
    Allocating,
    /// The same, and the end of a file that shrinks is zeros before the file is shorter.
    Ordered,
    /// All: nothing is written in place.
    All,
}

/// What a crash leaves where a file has grown and its bytes were not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Zeros, then garbage, then the bytes.
    ZerosAndGarbage,
    /// Zeros, then the bytes. Where pages have their place already only the size is new, which is
    /// kept like a name.
    Zeros,
    /// The file grows with its bytes.
    WithData,
}

/// What `fallocate` does to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// The size on the disk becomes what is allocated of the size in memory. A zeroed range keeps its
    /// blocks: until the log says that they are zeros, what is written there takes the place of the
    /// bytes of before. A hole past the end has the last page whole.
    InPlace,
    /// None of that: space is taken and given back with the names.
    Anew,
}

const EXT4_ALLOCATION: &str = "fs/ext4/extents.c, ext4_do_fallocate, ext4_zero_range; fs/ext4/inode.c, ext4_punch_hole, \
                               ext4_update_disksize_before_punch: the size on disk is set at once, and a zeroed range \
                               keeps its blocks as unwritten extents";
const EXT4_SYNC: &str = "fs/ext4/fsync.c, ext4_sync_file: the journal is committed up to the transaction that changed \
                         the inode, for fdatasync up to the one that changed its size or blocks";
const EXT4_JOURNAL: &str = "Documentation/filesystems/ext4/journal.rst: one journal, replayed up to the last commit \
                            record";
const DELALLOC: &str = "Documentation/admin-guide/ext4.rst, delalloc: \"Defer block allocation until just before ext4 \
                        writes out the block(s) in question\"";

const EXT4_UNWRITTEN: &str = "fs/ext4/super.c sets dioread_nolock: fs/ext4/inode.c, mpage_map_and_submit_extent \
                              gives new pages their place and sets the size as it sends them to the disk, and \
                              ext4_map_blocks leaves such extents out of ordered data; they are zeros until \
                              ext4_convert_unwritten_io_end_vec";
const EXT4_IN_PLACE: &str = "fs/ext4/inode.c, ext4_da_do_write_end: the size on disk is set at once where no block has \
                             to be allocated (docs/results.md has a program that shows it)";
const EXT4_RENAME: &str = "fs/ext4/namei.c, ext4_rename: ext4_alloc_da_blocks starts to write the file that replaces \
                           another (auto_da_alloc), which sets its size, and waits for nothing";
const EXT4_DIRECTORY: &str =
    "fs/ext4/fsync.c, ext4_fsync_journal: what is no regular file is synced by ext4_force_commit";
const EXT4_DATASYNC: &str = "fs/ext4/ext4_jbd2.h, ext4_update_inode_fsync_trans: i_datasync_tid is the transaction that \
                             changed size or blocks; fs/ext4/inode.c, ext4_do_update_inode";
const EXT4_SYNC_FS: &str = "fs/ext4/super.c, ext4_sync_fs: a flush where the journal sends none";

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
        allocation: Allocation::Anew,
        atomic_names: false,
        replace_by_rename: false,
        data_sync: DataSync::Names,
        exchange: Exchange::Files,
        sync_flushes: true,
        block_bytes: 1,
    },
    Model {
        name: "ext4-ordered",
        sources: &[
            EXT4_JOURNAL,
            EXT4_SYNC,
            EXT4_DATASYNC,
            EXT4_DIRECTORY,
            DELALLOC,
            EXT4_UNWRITTEN,
            EXT4_IN_PLACE,
            EXT4_RENAME,
            EXT4_ALLOCATION,
            EXT4_SYNC_FS,
            "fs/ext4/inode.c, __ext4_block_zero_page_range: with data=ordered the end of a file that shrinks is ordered \
             data",
        ],
        log: Log::Journal,
        data: DataOrder::Ordered,
        growth: Growth::Zeros,
        allocation: Allocation::InPlace,
        atomic_names: true,
        replace_by_rename: true,
        data_sync: DataSync::Sizes,
        exchange: Exchange::Files,
        sync_flushes: true,
        block_bytes: 4096,
    },
    Model {
        name: "ext4-writeback",
        sources: &[
            EXT4_JOURNAL,
            EXT4_SYNC,
            EXT4_DATASYNC,
            EXT4_DIRECTORY,
            DELALLOC,
            EXT4_UNWRITTEN,
            EXT4_IN_PLACE,
            EXT4_RENAME,
            EXT4_ALLOCATION,
            EXT4_SYNC_FS,
            "Documentation/admin-guide/ext4.rst, data=writeback: \"Data ordering is not preserved, data may be written \
             into the main file system after its metadata has been committed to the journal\"",
        ],
        log: Log::Journal,
        data: DataOrder::Allocating,
        growth: Growth::Zeros,
        allocation: Allocation::InPlace,
        atomic_names: true,
        replace_by_rename: true,
        data_sync: DataSync::Sizes,
        exchange: Exchange::Files,
        sync_flushes: true,
        block_bytes: 4096,
    },
    Model {
        name: "xfs",
        sources: &[
            "Documentation/filesystems/xfs/xfs-delayed-logging-design.rst: \"all metadata modifications that were \
             committed prior to that change will also be seen\"",
            "fs/xfs/xfs_file.c, xfs_fsync_flush_log: the log is forced up to the last change of the inode; for \
             fdatasync too, unless only its times changed (ili_fsync_fields)",
            "fs/xfs/xfs_aops.c, xfs_end_ioend: the size on disk is updated once the data has been written",
            "fs/xfs/libxfs/xfs_dir2.c, xfs_dir_exchange_children: of regular files that change their names nothing is \
             logged",
            "fs/xfs/xfs_super.c, xfs_fs_sync_fs: the log is forced, and nothing is sent to the disk if it is clean",
        ],
        log: Log::Journal,
        data: DataOrder::Allocating,
        growth: Growth::WithData,
        allocation: Allocation::Anew,
        atomic_names: true,
        replace_by_rename: false,
        data_sync: DataSync::Names,
        exchange: Exchange::Directories,
        sync_flushes: false,
        block_bytes: 4096,
    },
    Model {
        name: "btrfs",
        sources: &[
            "fs/btrfs/tree-log.c: fsync logs the inode, its names, new directories above it, and whatever had one of \
             the names before; fsync of a directory its entries, those of new directories below it too",
            "fs/btrfs/tree-log.c, log_all_new_ancestors: of the directories above a file those that are new; \
             btrfs_log_all_parents: if the names of the file changed, the directories that have them, whole; \
             log_new_dir_dentries: with a directory those that have a new name in it, whole",
            "fs/btrfs/tree-log.c, btrfs_log_new_name, btrfs_del_inode_ref_in_log, btrfs_del_dir_entries_in_log: what \
             is in the log gets new names and loses old ones there at once; what takes the name of it may not be there",
            "fs/btrfs/transaction.c: a transaction holds all operations up to it, but waits for data only with \
             flushoncommit",
            "fs/btrfs/inode.c, btrfs_finish_one_ordered: extents are changed once the data has been written",
            "fs/btrfs/file-item.c, btrfs_inode_safe_disk_i_size_write: with no-holes, the size on disk is then that \
             in memory, whatever is written of the rest",
            "fs/btrfs/inode.c, btrfs_rename: it starts to write the file that replaces another, and waits for nothing",
        ],
        log: Log::LogTree,
        data: DataOrder::All,
        growth: Growth::Zeros,
        allocation: Allocation::Anew,
        atomic_names: true,
        replace_by_rename: false,
        data_sync: DataSync::Names,
        exchange: Exchange::Files,
        sync_flushes: true,
        block_bytes: 4096,
    },
];

impl Model {
    /// The model of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }
}
