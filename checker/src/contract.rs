//! What file systems promise after a crash: data, not code paths. A check runs only where the
//! contract has its line.

use local_fs::Lack;

use crate::{NoContract, Promise};

/// A promise, and where it is made.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// What is promised.
    pub promise: Promise,
    /// Documentation, test or mail that says so.
    pub source: &'static str,
}

/// What one file system promises.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    /// The file system it is for.
    pub name: &'static str,
    /// Promised by every file system that is mounted after a crash.
    common: &'static [Line],
    /// Its own.
    own: &'static [Line],
    /// Promises of those lines that are not made after all: a bit each.
    dropped: u64,
    /// What cannot be stored or done, and so is not compared.
    lacks: &'static [Lack],
    /// How names in the root start that its checker gives to what it finds.
    found_names: &'static [&'static str],
}

const fn line(promise: Promise, source: &'static str) -> Line {
    Line { promise, source }
}

/// What every file system that recovers from a log, or by writing no place twice, promises.
static COMMON: &[Line] = &[
    line(
        Promise::Mountable,
        "B3 (OSDI 2018), section 3; fstests generic/479, 480, 502 assert nothing else",
    ),
    line(
        Promise::Repairable,
        "fstests: _check_scratch_fs after every log-replay test",
    ),
    line(
        Promise::Readable,
        "B3, section 3: internal structures are consistent",
    ),
    line(
        Promise::Usable,
        "CrashMonkey's write checks; fstests generic/034, 039, 104, 481",
    ),
    line(
        Promise::FsckClean,
        "fstests: every log-replay test checks the scratch device at its end",
    ),
    line(
        Promise::KernelQuiet,
        "fstests: _check_dmesg fails a test on a warning or an error in the kernel's log",
    ),
    line(
        Promise::AtomicMetadata,
        "B3, section 3: internal structures are consistent, by the log alone",
    ),
    line(
        Promise::ReusedSpace,
        "fstests generic/042, 044-049: no data of other files",
    ),
    line(
        Promise::NoForeignNames,
        "B3, section 3: internal structures are consistent",
    ),
    line(
        Promise::NoForeignData,
        "fstests generic/042 (\"We should /never/ see 0xCD\"), 044-049",
    ),
    line(
        Promise::LinkCount,
        "fstests generic/040, 041, 065, 104; T. Ts'o, linux-fsdevel 2019 (msg145789)",
    ),
    line(
        Promise::RenameAtomic,
        "rename(2): \"an instance of newpath\" stays in place; fstests generic/321, 335, 640; commit 657ed1aa4898 \
         (a file that was moved must not be in the old and the new directory after log replay)",
    ),
    line(Promise::SymlinkComplete, "fstests generic/348, 690, 779"),
    line(Promise::Sync, SYNC),
    line(Promise::FsyncData, FSYNC_DATA),
    line(Promise::FsyncAttributes, FSYNC_ATTRIBUTES),
    line(Promise::FsyncXattrs, "fstests generic/066, 489"),
    line(
        Promise::FsyncDirectory,
        "fsync(2) on the directory's descriptor; fstests generic/321, 348, 557, 779",
    ),
    line(Promise::FdatasyncData, FDATASYNC_DATA),
    line(
        Promise::RangeData,
        "msync(2) MS_SYNC; open(2) O_SYNC, O_DSYNC; fstests generic/325",
    ),
    line(Promise::Preallocation, "fstests generic/468, 483, 677"),
    line(
        Promise::HoleLayout,
        "fstests generic/177, 695: a punched range stays a hole over log replay",
    ),
];

const SYNC: &str = "sync(2): all pending modifications to metadata and cached data are written";
const FSYNC_DATA: &str =
    "fsync(2): \"all modified in-core data\", and the size as metadata of the file";
const FSYNC_ATTRIBUTES: &str =
    "fsync(2): \"the metadata information associated with the file\"; fstests generic/535";
const FDATASYNC_DATA: &str =
    "fdatasync(2): what is needed \"to allow a subsequent data retrieval\", the size too";

/// What is left where nothing is logged, and each block is written in its place: what sync and
/// fsync wrote, once the file system's own checker has repaired the rest.
static IN_PLACE: &[Line] = &[
    line(
        Promise::Repairable,
        "fsck(8): run on it after every crash, \"used to check and repair\"",
    ),
    line(
        Promise::Mountable,
        "fsck(8): exit status 0 or 1, errors corrected",
    ),
    line(
        Promise::Readable,
        "fsck(8): exit status 0 or 1, errors corrected",
    ),
    line(
        Promise::Usable,
        "fsck(8): exit status 0 or 1, errors corrected",
    ),
    line(
        Promise::FsckClean,
        "fsck(8): exit status 0 or 1, errors corrected",
    ),
    line(
        Promise::KernelQuiet,
        "fsck(8): exit status 0 or 1, errors corrected",
    ),
    line(
        Promise::LinkCount,
        "fsck(8): exit status 0 or 1, errors corrected",
    ),
    line(
        Promise::NoForeignNames,
        "sync(2), fsync(2) of the directory: its names are those that were written",
    ),
    line(
        Promise::SymlinkComplete,
        "sync(2): a symlink that was written has its target",
    ),
    line(Promise::Sync, SYNC),
    line(Promise::FsyncData, FSYNC_DATA),
    line(Promise::FsyncAttributes, FSYNC_ATTRIBUTES),
    line(
        Promise::FsyncDirectory,
        "fsync(2): the entry in the directory needs \"an explicit fsync() on a file descriptor for the directory\"",
    ),
    line(Promise::FdatasyncData, FDATASYNC_DATA),
    line(
        Promise::RangeData,
        "msync(2) MS_SYNC; open(2) O_SYNC, O_DSYNC",
    ),
];

/// Why fsync of one thing makes everything durable.
const FUSE2FS_FSYNC: &str =
    "misc/fuse2fs.c of e2fsprogs 1.47, op_fsync: \"flush everything, even if it's slow\"";
const NTFS_3G_FSYNC: &str =
    "src/ntfs-3g.c of ntfs-3g 2022.10.3, ntfs_fuse_fsync: \"sync the full device\"";

/// What ntfs-3g promises: its repair looks at what is needed to mount it, so that nothing is said
/// of what was written by half.
static NTFS_3G: &[Line] = &[
    line(
        Promise::Repairable,
        "ntfsfix(8): \"repairs some fundamental NTFS inconsistencies\"",
    ),
    line(
        Promise::Mountable,
        "ntfs-3g(8), recover: \"try to mount a partition which was not unmounted properly\"",
    ),
    line(
        Promise::FsckClean,
        "ntfsfix(8): run on it after every crash",
    ),
    line(
        Promise::KernelQuiet,
        "fs/fuse: whatever a server answers is no error of the kernel",
    ),
    line(
        Promise::DriverAlive,
        "ntfs-3g(8), recover: \"try to mount a partition which was not unmounted properly\"",
    ),
    line(Promise::NoForeignNames, NTFS_3G_FSYNC),
    line(
        Promise::Unmounted,
        "src/ntfs-3g.c, ntfs_close; libntfs-3g/unix_io.c: the device is synced when it is closed",
    ),
    line(Promise::FsyncData, NTFS_3G_FSYNC),
    line(Promise::FsyncAttributes, NTFS_3G_FSYNC),
    line(Promise::FsyncXattrs, NTFS_3G_FSYNC),
    line(Promise::FsyncNames, NTFS_3G_FSYNC),
    line(Promise::FsyncDirectory, NTFS_3G_FSYNC),
    line(Promise::FdatasyncData, NTFS_3G_FSYNC),
    line(Promise::RangeData, NTFS_3G_FSYNC),
    line(Promise::ReusedSpace, NTFS_3G_FSYNC),
];

/// A contract that starts out from lines for all.
const fn contract(name: &'static str, common: &'static [Line], own: &'static [Line]) -> Contract {
    Contract {
        name,
        common,
        own,
        dropped: 0,
        lacks: &[],
        found_names: &[],
    }
}

const EXT4_NAMES: &str =
    "fstests generic/322, 520, 106, 107, 534; fs/ext4/fsync.c waits for i_sync_tid";
const EXT4_ORDER: &str = "Documentation/filesystems/ext4/journal.rst: one journal, replayed up to the last commit \
                          record; A. Goldstein, linux-fsdevel 2019 (msg140973)";

/// f2fs as it is without options: what a checkpoint holds, and the files that were fsynced since.
static F2FS: &[Line] = &[line(
    Promise::FsyncNewNames,
    "Documentation/filesystems/f2fs.rst, fsync_mode=posix: \"will follow POSIX semantics\"; fs/f2fs/recovery.c, \
     recover_dentry; fstests generic/322, 520",
)];

/// ... and with `fsync_mode=strict`.
static F2FS_STRICT: &[Line] = &[
    line(Promise::FsyncNames, F2FS_STRICT_SOURCE),
    line(Promise::NameConflict, F2FS_STRICT_SOURCE),
    line(
        Promise::EarlierRenames,
        "fs/f2fs/file.c, need_do_checkpoint: CP_RECOVER_DIR where the directory of a new file is in TRANS_DIR_INO; \
         fs/f2fs/namei.c, f2fs_rename: that list has directories that were renamed, or got a name by rename; B3, new \
         bug 10",
    ),
];
const F2FS_STRICT_SOURCE: &str = "Documentation/filesystems/f2fs.rst, fsync_mode=strict: \"behaves in line with xfs, \
                                  ext4 and btrfs, where xfstest generic/342 will pass\"";

/// Whether an option is among these.
fn given(options: &[String], option: &str) -> bool {
    let words = options.iter().flat_map(|text| text.split([',', ' ']));
    words.into_iter().any(|word| word.trim() == option)
}

/// Whether a feature was asked for: `-O feature` and `-Ofeature`.
fn is_made_with(variant: &local_fs::Variant, feature: &str) -> bool {
    let options = &variant.mkfs_options;
    given(options, feature) || given(options, &format!("-O{feature}"))
}

fn has_no_journal(variant: &local_fs::Variant) -> bool {
    let taken_away = |text: &String| text.contains("^has_journal");
    is_made_with(variant, "none") || variant.mkfs_options.iter().any(taken_away)
}

/// What an ext4 does not promise of the order of data and metadata, by its mount options.
fn unordered(mounted: &impl Fn(&str) -> bool) -> Vec<Promise> {
    // "in the default data=ordered mode", and unless it is switched off.
    let takes_back = mounted("data=writeback") || mounted("noauto_da_alloc");
    if takes_back {
        vec![Promise::ReplaceByRename]
    } else {
        Vec::new()
    }
}

/// Every contract.
pub static CONTRACTS: &[Contract] = &[
    contract(
        "ext4",
        COMMON,
        &[
            line(Promise::FsyncNames, EXT4_NAMES),
            line(Promise::OrderedMetadata, EXT4_ORDER),
            line(Promise::BlocksExact, "fstests generic/468 (blocks and size), 520 (blocks)"),
            line(Promise::DirectoryLinkCount, "Documentation/filesystems/ext4/directory.rst, dir_nlink"),
            line(
                Promise::ReplaceByRename,
                "Documentation/admin-guide/ext4.rst, auto_da_alloc: \"the data blocks of the new file are forced to \
                 disk before the rename() operation is committed\"",
            ),
        ],
    ),
    contract(
        "xfs",
        COMMON,
        &[
            line(
                Promise::DataWithSize,
                "fstests generic/044-046; fs/xfs/xfs_aops.c, xfs_end_ioend: the size on disk is updated once the data \
                 has been written",
            ),
            line(Promise::FsyncNames, "fstests generic/322, 520, 106, 107, 534; fs/xfs/xfs_file.c, xfs_file_fsync"),
            line(
                Promise::OrderedMetadata,
                "Documentation/filesystems/xfs/xfs-delayed-logging-design.rst: \"all metadata modifications that were \
                 committed prior to that change will also be seen\"",
            ),
            line(
                Promise::DirectoryLinkCount,
                "fs/xfs/libxfs/xfs_inode_util.c: a directory's link count counts subdirectories",
            ),
        ],
    ),
    contract(
        "btrfs",
        COMMON,
        &[
            line(
                Promise::FsyncNames,
                "fstests generic/322, 520, 106, 107, 498; fs/btrfs/tree-log.c, log_new_ancestors",
            ),
            line(Promise::FsyncNewSubdirectories, "fstests generic/065; fs/btrfs/tree-log.c, log_new_dir_dentries"),
            line(
                Promise::NameConflict,
                "fstests generic/341, 342, 502, 526, 527; commit 6b5fc433a7ad (conflicts are followed transitively)",
            ),
        ],
    ),
    contract(
        "ext3",
        COMMON,
        &[
            // Documentation/filesystems/ext3.rst: "ext3 ... is now supported by the ext4 driver".
            line(Promise::FsyncNames, EXT4_NAMES),
            line(Promise::OrderedMetadata, EXT4_ORDER),
            line(Promise::BlocksExact, "fstests generic/520 (blocks)"),
            line(Promise::DirectoryLinkCount, "Documentation/filesystems/ext4/directory.rst, dir_nlink"),
        ],
    ),
    contract(
        "ext2",
        IN_PLACE,
        &[
            line(
                Promise::FsyncExists,
                "e2fsck/pass3.c, pass4.c: an inode in use without a name is connected to /lost+found, unless it has no \
                 blocks",
            ),
            line(Promise::ReusedSpace, "e2fsck/pass1b.c: blocks that several inodes claim are cloned for each"),
            line(Promise::HoleLayout, "fs/ext2/inode.c: a block that was never written has no number in the inode"),
            line(Promise::DirectoryLinkCount, "e2fsck/pass4.c: link counts are set to what pass 2 counted"),
        ],
    ),
    contract("f2fs", COMMON, F2FS),
    contract(
        "jfs",
        COMMON,
        &[line(
            Promise::FsyncNames,
            "fs/jfs/file.c, jfs_fsync: \"Make sure committed changes hit the disk\"; fs/jfs/jfs_logmgr.c: one log, \
             written in order",
        )],
    )
    // Its log does not wait for data: a block may be in a file before what was written is in it.
    .without(&[Promise::NoForeignData]),
    contract(
        "nilfs2",
        COMMON,
        &[
            line(
                Promise::NamesWithData,
                "fs/nilfs2/file.c, nilfs_sync_file: where nilfs_inode_dirty, which is about data, \"construct_segment\" of \
                 everything",
            ),
            line(
                Promise::OrderedMetadata,
                "Documentation/filesystems/nilfs2.rst, order=relaxed: data blocks without a checkpoint only \"if no \
                 metadata update is going\"",
            ),
            line(Promise::DirectoryLinkCount, "fs/nilfs2/namei.c: mkdir and rename count subdirectories, as ext2 does"),
        ],
    ),
    contract(
        "reiserfs",
        COMMON,
        &[
            line(Promise::FsyncNames, "fs/reiserfs/file.c and dir.c: reiserfs_commit_for_inode"),
            line(
                Promise::OrderedMetadata,
                "fs/reiserfs/journal.c: transactions are replayed in order, up to the last one that is whole",
            ),
        ],
    ),
    contract("vfat", IN_PLACE, &[]),
    contract(
        "fuse2fs",
        IN_PLACE,
        &[
            line(Promise::Unmounted, "misc/fuse2fs.c of e2fsprogs 1.47, op_destroy: ext2fs_flush2"),
            line(Promise::FsyncNames, FUSE2FS_FSYNC),
            line(Promise::FsyncXattrs, FUSE2FS_FSYNC),
            line(Promise::Preallocation, FUSE2FS_FSYNC),
            line(Promise::FsyncExists, FUSE2FS_FSYNC),
            line(Promise::ReusedSpace, "e2fsck/pass1b.c: blocks that several inodes claim are cloned for each"),
            line(Promise::DirectoryLinkCount, "e2fsck/pass4.c: link counts are set to what pass 2 counted"),
            line(Promise::DriverAlive, "fsck(8): exit status 0 or 1, errors corrected"),
            line(Promise::DriverQuiet, "fsck(8): exit status 0 or 1, errors corrected"),
        ],
    )
    // fs/fuse/inode.c, fuse_sync_fs: a server is not asked to sync but on virtiofs and, since 6.18,
    // for a block device of the kernel's, which this has not. Nor would it know the request.
    .without(&[Promise::Sync]),
    // It has such a device, but does not know the request either (libfuse-lite/fuse_lowlevel.c).
    contract("ntfs-3g", NTFS_3G, &[]),
    // fsck.minix leaves names whose inodes were never written: they cannot be read or removed.
    contract("minix", IN_PLACE, &[]).without(&[Promise::Readable, Promise::Usable]),
];

/// Mount options by which nothing is logged, or replayed after a crash.
const NO_RECOVERY: [&str; 7] = [
    "noload",
    "norecovery",
    "nologreplay",
    "rescue=nologreplay",
    // f2fs, jfs, reiserfs
    "disable_roll_forward",
    "nointegrity",
    "nolog",
];

/// Why nothing is promised of a crash of a file system that is made and mounted with options, if so.
fn refusal(variant: &local_fs::Variant) -> Option<NoContract> {
    let name = variant.file_system.name;
    let mounted = |option: &str| given(&variant.mount_options, option);
    if let Some(option) = NO_RECOVERY.into_iter().find(|option| mounted(option)) {
        return Some(NoContract::NoRecovery { name, option });
    }
    if mounted("ro") {
        return Some(NoContract::ReadOnly(name));
    }
    let disables = |option: &String| option.trim().starts_with("checkpoint=disable");
    match name {
        "ext4" | "ext3" => has_no_journal(variant).then_some(NoContract::NoJournal(name)),
        // Documentation/filesystems/f2fs.rst: after a crash all is "as they did when the filesystem
        // was mounted with that option".
        "f2fs" => {
            let mut options = variant.mount_options.iter();
            options.any(disables).then_some(NoContract::NoCheckpoints)
        }
        _ => None,
    }
}

impl Contract {
    /// The contract of a file system.
    pub fn of(file_system: &str) -> Option<&'static Contract> {
        CONTRACTS
            .iter()
            .find(|contract| contract.name == file_system)
    }

    /// The contract of a file system that is made and mounted with options. Those that are not
    /// known to change a promise leave it.
    ///
    /// # Errors
    /// If there is no contract: nothing is promised of a crash, or nothing is known of it.
    pub fn for_variant(variant: &local_fs::Variant) -> Result<Contract, NoContract> {
        let name = variant.file_system.name;
        let mut contract = *Self::of(name).ok_or(NoContract::Unknown(name))?;
        contract.lacks = variant.file_system.lacks;
        contract.found_names = variant.file_system.found_names;
        if let Some(why) = refusal(variant) {
            return Err(why);
        }
        let mounted = |option: &str| given(&variant.mount_options, option);
        let mut dropped = Vec::new();
        if name == "ext4" {
            dropped.extend(unordered(&mounted));
        }
        if matches!(name, "ext4" | "ext3") && is_made_with(variant, "fast_commit") {
            // Documentation/filesystems/ext4/journal.rst: a log of its own of what changed.
            dropped.push(Promise::OrderedMetadata);
        }
        if name == "f2fs" && mounted("fsync_mode=strict") {
            contract.own = F2FS_STRICT;
        }
        if matches!(name, "ext4" | "ext3" | "reiserfs") && mounted("data=writeback") {
            // Documentation/admin-guide/ext4.rst: "may also expose stale data".
            dropped.push(Promise::NoForeignData);
        }
        Ok(contract.without(&dropped))
    }

    /// By which promise something is durable: where there is no sync, what was there from the start
    /// is so because it was unmounted.
    pub(crate) fn by(&self, promise: Promise) -> Promise {
        if promise == Promise::Sync && !self.promises(Promise::Sync) {
            Promise::Unmounted
        } else {
            promise
        }
    }

    /// Whether something cannot be stored, and so is not compared.
    pub(crate) fn lacks(&self, lack: Lack) -> bool {
        self.lacks.contains(&lack)
    }

    /// Whether a name in the root is one under which the checker puts what it finds.
    pub(crate) fn is_found_name(&self, name: &str) -> bool {
        self.found_names.iter().any(|start| name.starts_with(start))
    }

    /// The same without some of its promises.
    #[must_use]
    pub const fn without(&self, promises: &[Promise]) -> Contract {
        let mut dropped = self.dropped;
        let mut rest = promises;
        while let [promise, others @ ..] = rest {
            dropped |= promise.bit();
            rest = others;
        }
        Contract { dropped, ..*self }
    }

    /// The line that makes a promise, if it is made.
    pub fn line(&self, promise: Promise) -> Option<&'static Line> {
        self.lines().find(|line| line.promise == promise)
    }

    /// Whether a promise is made.
    pub fn promises(&self, promise: Promise) -> bool {
        self.line(promise).is_some()
    }

    /// All lines, those of its own first.
    pub fn lines(&self) -> impl Iterator<Item = &'static Line> {
        let dropped = self.dropped;
        self.own
            .iter()
            .chain(self.common)
            .filter(move |line| line.promise.bit() & dropped == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_contract_has_a_source_and_stands_there_once() {
        for contract in CONTRACTS {
            let mut promises: Vec<_> = contract.lines().map(|line| line.promise).collect();
            assert!(
                contract.lines().all(|line| line.source.len() > 10),
                "{}",
                contract.name
            );
            let count = promises.len();
            promises.sort_unstable();
            promises.dedup();
            assert_eq!(promises.len(), count, "{} repeats a promise", contract.name);
        }
    }

    #[test]
    fn every_file_system_of_the_table_has_a_contract() {
        for row in local_fs::TABLE {
            assert!(Contract::of(row.name).is_some(), "{}", row.name);
        }
    }
    fn variant(file_system: &str, mount: &[&str], mkfs: &[&str]) -> local_fs::Variant {
        let owned = |options: &[&str]| options.iter().map(|option| (*option).to_owned()).collect();
        let plain =
            local_fs::Variant::plain(local_fs::find(file_system).expect("it is in the table"));
        local_fs::Variant {
            mount_options: owned(mount),
            mkfs_options: owned(mkfs),
            ..plain
        }
    }

    /// What the options take from the contract.
    fn dropped(file_system: &str, mount: &[&str], mkfs: &[&str]) -> Vec<Promise> {
        let contract =
            Contract::for_variant(&variant(file_system, mount, mkfs)).expect("it has a contract");
        let whole = Contract::of(file_system).expect("it has a contract");
        whole
            .lines()
            .map(|line| line.promise)
            .filter(|promise| !contract.promises(*promise))
            .collect()
    }

    #[test]
    fn options_take_back_what_they_are_known_to_take_back_and_nothing_else() {
        for contract in CONTRACTS {
            assert_eq!(dropped(contract.name, &[], &[]), [], "{}", contract.name);
        }
        let writeback = [Promise::ReplaceByRename, Promise::NoForeignData];
        let harmless = [
            "barrier=0",
            "nobarrier",
            "noatime",
            "commit=1",
            "discard",
            "data=journal,nodelalloc",
        ];
        assert_eq!(dropped("ext4", &harmless, &["-O", "^metadata_csum"]), []);
        assert_eq!(
            dropped(
                "btrfs",
                &["nobarrier", "compress=zstd,notreelog"],
                &["-O", "no-holes"]
            ),
            []
        );
        assert_eq!(
            dropped(
                "xfs",
                &["logbsize=256k", "data=writeback"],
                &["-m", "crc=1"]
            ),
            []
        );
        assert_eq!(dropped("ext4", &["data=writeback"], &[]), writeback);
        assert_eq!(dropped("ext4", &["noatime,data=writeback"], &[]), writeback);
        assert_eq!(
            dropped("ext4", &["noauto_da_alloc"], &[]),
            [Promise::ReplaceByRename]
        );
        for fast in [
            &["-O", "fast_commit"][..],
            &["-Ofast_commit"],
            &["-O 64bit,fast_commit"],
        ] {
            assert_eq!(
                dropped("ext4", &[], fast),
                [Promise::OrderedMetadata],
                "{fast:?}"
            );
        }
        assert_eq!(dropped("ext4", &[], &["-O", "^fast_commit"]), []);
        assert_eq!(dropped("ext3", &["data=journal"], &[]), []);
        assert_eq!(
            dropped("ext3", &["data=writeback"], &[]),
            [Promise::NoForeignData]
        );
        assert_eq!(
            dropped("reiserfs", &["data=writeback"], &[]),
            [Promise::NoForeignData]
        );
        assert_eq!(
            dropped("f2fs", &["mode=lfs", "fsync_mode=posix", "nobarrier"], &[]),
            []
        );
        assert_eq!(dropped("nilfs2", &["order=strict"], &[]), []);
        assert_eq!(dropped("vfat", &["sync", "tz=UTC"], &[]), []);
    }

    #[test]
    fn an_option_of_f2fs_has_it_promise_what_others_do() {
        let strict = Contract::for_variant(&variant("f2fs", &["fsync_mode=strict"], &[]))
            .expect("it has a contract");
        let plain = Contract::of("f2fs").expect("it has a contract");
        for promise in [
            Promise::FsyncNames,
            Promise::NameConflict,
            Promise::EarlierRenames,
        ] {
            assert!(
                strict.promises(promise) && !plain.promises(promise),
                "{promise:?}"
            );
        }
    }

    #[test]
    fn what_is_repaired_without_a_log_promises_less() {
        for row in local_fs::TABLE {
            let contract = Contract::of(row.name).expect("it has a contract");
            let whole = contract.promises(Promise::AtomicMetadata);
            assert_eq!(
                contract.promises(Promise::RenameAtomic),
                whole,
                "{}",
                row.name
            );
            assert!(
                whole || row.repair.is_some(),
                "{} has nothing that recovers it",
                row.name
            );
            assert!(contract.promises(Promise::FsyncData), "{}", row.name);
            // How the recorder makes the setup durable.
            assert_eq!(
                contract.promises(Promise::Sync),
                row.driver.is_none(),
                "{}",
                row.name
            );
            assert_eq!(
                contract.promises(Promise::Unmounted),
                row.driver.is_some(),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn where_nothing_is_promised_there_is_no_contract() {
        let refused = |file_system, mount: &[&str], mkfs: &[&str]| {
            Contract::for_variant(&variant(file_system, mount, mkfs)).is_err()
        };
        assert!(refused("ext4", &[], &["-O", "^has_journal"]));
        assert!(refused("ext4", &[], &["-O64bit,^has_journal"]));
        assert!(refused("ext4", &[], &["-O", "none"]));
        assert!(refused("ext4", &["noload"], &[]));
        assert!(refused("xfs", &["ro,norecovery"], &[]));
        assert!(!refused("ext4", &[], &["-O", "has_journal"]));
        assert!(refused("ext3", &[], &["-O", "^has_journal"]));
        assert!(
            refused("f2fs", &["checkpoint=disable:10%"], &[])
                && !refused("f2fs", &["checkpoint_merge"], &[])
        );
        assert!(refused("fuse2fs", &["ro"], &[]) && refused("fuse2fs", &["norecovery"], &[]));
        assert!(!refused("fuse2fs", &["minixdf"], &["-O", "^has_journal"]));
        assert!(refused("jfs", &["nointegrity"], &[]) && refused("reiserfs", &["nolog"], &[]));
    }

    #[test]
    fn a_contract_without_a_promise_has_all_its_other_lines() {
        let ext4 = Contract::of("ext4").expect("it has a contract");
        let less = ext4
            .without(&[Promise::Sync, Promise::DirectoryLinkCount])
            .without(&[Promise::Sync]);
        assert_eq!(less.lines().count(), ext4.lines().count() - 2);
        assert!(!less.promises(Promise::Sync) && less.line(Promise::DirectoryLinkCount).is_none());
        assert!(less.promises(Promise::Mountable));
    }
}
