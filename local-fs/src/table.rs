use std::path::PathBuf;

use crate::{Error, Result};

/// A program of a file system's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name on the PATH.
    pub name: &'static str,
    /// Another build of it that starts faster, taken where it is installed.
    pub faster: Option<&'static str>,
    /// What it is always given.
    pub arguments: &'static [&'static str],
    /// The Debian package that holds it.
    pub package: &'static str,
    /// The bit of its exit status by which it says that somebody asked it to end, if it catches
    /// such signals.
    pub canceled_bit: Option<i32>,
}

/// A program that checks an unmounted file system without changing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fsck {
    /// The program.
    pub program: Program,
    /// The exit statuses by which it says that it found damage; with any other but 0 it failed.
    pub damage_statuses: &'static [i32],
}

/// A program that makes a crashed file system one that can be mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// The program.
    pub program: Program,
    /// The exit statuses by which it says that all is well now.
    pub done_statuses: &'static [i32],
}

/// Programs that say what the blocks of an unmounted file system hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Debugger {
    /// Prints where it keeps what is not in files, as dumpe2fs does.
    pub layout: Program,
    /// Says which file has a block, and which path a file has, as debugfs does.
    pub debugger: Program,
}

/// The driver of a FUSE file system: a process that serves it as long as it is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// The program. It gets the device, the directory, its arguments, and options after `-o`; with
    /// these it stays in the foreground.
    pub program: Program,
    /// What it is mounted as: the kernel's name of that.
    pub kernel_name: &'static str,
    /// The exit statuses by which it says that what is on the disk cannot be mounted.
    pub refusal_statuses: &'static [i32],
    /// Words of the lines that it prints when nothing is wrong.
    pub usual_words: &'static [&'static str],
    /// How the lines start in which it reports that something is wrong with the file system.
    pub error_starts: &'static [&'static str],
    /// How names start under which it keeps files that were removed while open.
    pub removed_starts: &'static [&'static str],
}

/// How the disk of a mounted file system is made to hold what its checker can look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It is unmounted, and mounted again later.
    Unmounted,
    /// It is made read-only, which writes everything and ends its log, and writable again later.
    ReadOnly,
    /// syncfs does where nothing is in its journal, which is one of jbd2; otherwise it is
    /// unmounted. To make it read-only and writable costs tens of milliseconds when it is unmounted.
    Synced,
    /// Nothing needs to be done: it writes nothing in place, so its disk is whole at any time, and what
    /// it recovers from its log is committed before it is mounted.
    Mounted,
}

/// Something that a file system cannot store, or cannot do. What a workload does with it is not
/// applicable, and what it would show is not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Permission bits of its own for each file, and chmod.
    Modes,
    /// Owners, and chown.
    Owners,
    /// Several names for a file.
    HardLinks,
    /// Symbolic links.
    Symlinks,
    /// Named pipes and device files.
    SpecialFiles,
    /// Extended attributes.
    Xattrs,
    /// Holes: every byte up to the size takes space.
    Holes,
    /// Space that is reserved before it is written, by fallocate.
    Preallocation,
    /// Ranges that fallocate sets to zero.
    ZeroRange,
    /// Renames that exchange two names, or leave a whiteout.
    RenameFlags,
    /// Renames that are refused where the new name is taken.
    RenameNoReplace,
    /// Files without a name, by `O_TMPFILE`.
    Tmpfiles,
    /// Reads and writes past the cache, by `O_DIRECT`.
    DirectIo,
}

/// What is known of a file system: a row of [`TABLE`].
#[derive(Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The kernel's name of it, or the program's that drives it.
    pub name: &'static str,
    /// Drives it where the kernel does not.
    pub driver: Option<Driver>,
    /// Kernel modules that it needs beside the one of its name, where they are not built in.
    pub modules: &'static [&'static str],
    /// Makes one.
    pub mkfs: Program,
    /// Checks one; none where there is no such program.
    pub fsck: Option<Fsck>,
    /// Runs on a crashed disk before it is mounted, where nothing is promised without.
    pub repair: Option<Repair>,
    /// Says what a block holds. A sweep does without where it is not installed.
    pub debugger: Option<Debugger>,
    /// What mkfs is given besides for a disk that programs keep their data on: room for more files
    /// than a workload makes.
    pub mkfs_for_programs: &'static [&'static str],
    /// The size of the disk unless another is asked for, in MiB.
    pub size_mib: u64,
    /// The smallest disk that mkfs accepts, in MiB.
    pub size_min_mib: u64,
    /// Mount options that our use of it needs.
    pub mount_options: &'static [&'static str],
    /// How it comes to rest while it is mounted, by what takes least time.
    pub rest: Rest,
    /// The kernel remembers devices by an identity that is part of the disk's content. Then copies
    /// must not be mounted side by side, and must be forgotten once they are unmounted.
    pub remembered_by_identity: bool,
    /// Names in the root that are the file system's own.
    pub own_names: &'static [&'static str],
    /// How the names of extended attributes of the root start that are the file system's own.
    pub own_attributes: &'static [&'static str],
    /// How names in the root start under which `repair` puts what it finds without a name.
    pub found_names: &'static [&'static str],
    /// What it cannot store or do.
    pub lacks: &'static [Lack],
}

/// What most rows have; each names what is its own.
const USUAL: FileSystem = FileSystem {
    name: "",
    driver: None,
    modules: &[],
    mkfs: program("", &[], ""),
    fsck: None,
    repair: None,
    debugger: None,
    mkfs_for_programs: &[],
    size_mib: 16,
    size_min_mib: 8,
    mount_options: &[],
    rest: Rest::Unmounted,
    remembered_by_identity: false,
    own_names: &[],
    own_attributes: &[],
    found_names: &[],
    lacks: &[],
};

const fn program(
    name: &'static str,
    arguments: &'static [&'static str],
    package: &'static str,
) -> Program {
    Program {
        name,
        faster: None,
        arguments,
        package,
        canceled_bit: None,
    }
}

const E2FSPROGS: &str = "e2fsprogs";

const NTFS_3G: &str = "ntfs-3g";

/// Since Debian 13; before, they are in a package that is always there.
const UTIL_LINUX: &str = "util-linux-extra";

const MKFS_EXT4: Program = program(
    "mkfs.ext4",
    // No lazy initialisation: its thread would write whenever it likes. 4 KiB blocks are
    // what everybody uses; for a disk this small mke2fs would take 1 KiB.
    &[
        "-q",
        "-F",
        "-b",
        "4096",
        "-N",
        "512",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0",
    ],
    E2FSPROGS,
);

const fn e2fsck(arguments: &'static [&'static str]) -> Program {
    // Without shared libraries a check of a disk this small takes half as long. e2fsck(8): 32 for
    // "canceled by user request", added to what else there is to say.
    Program {
        faster: Some("e2fsck.static"),
        canceled_bit: Some(32),
        ..program("e2fsck", arguments, E2FSPROGS)
    }
}

/// e2fsck(8): 4 for errors left uncorrected.
/// 4 is errors left uncorrected; with 8 it gave up at them (e2fsck(8): the sum of conditions).
const E2FSCK: Option<Fsck> = Some(Fsck {
    program: e2fsck(&["-f", "-n"]),
    damage_statuses: &[4, 12],
});

/// e2fsck(8): 1 and 2 for errors that were corrected.
const E2FSCK_REPAIR: Option<Repair> = Some(Repair {
    program: e2fsck(&["-f", "-y"]),
    done_statuses: &[0, 1, 2],
});

/// Both read the file system as it is, without its journal.
const DEBUGFS: Option<Debugger> = Some(Debugger {
    layout: program("dumpe2fs", &[], E2FSPROGS),
    debugger: program("debugfs", &["-f", "-"], E2FSPROGS),
});

/// What libfuse 2 and the part of it in ntfs-3g call files that are removed while open.
const FUSE_REMOVED: &[&str] = &[".fuse_hidden"];

/// Every file system that can be tested.
pub static TABLE: &[FileSystem] = &[
    FileSystem {
        name: "ext4",
        mkfs: MKFS_EXT4,
        fsck: E2FSCK,
        debugger: DEBUGFS,
        mkfs_for_programs: &["-N", "16384"],
        rest: Rest::Synced,
        own_names: &["lost+found"],
        ..USUAL
    },
    FileSystem {
        name: "xfs",
        mkfs: program("mkfs.xfs", &["-q", "-f"], "xfsprogs"),
        fsck: Some(Fsck {
            program: program(
                "xfs_repair",
                // Prefetching threads and a large cache cost more than the whole check of a disk
                // this small.
                &["-n", "-f", "-P", "-o", "bhash=64", "-o", "phase2_threads=1"],
                "xfsprogs",
            ),
            // xfs_repair(8): 1 for corruption, 2 for a log that was not replayed.
            damage_statuses: &[1, 2],
        }),
        size_mib: 300,
        size_min_mib: 300,
        // Every worker mounts a copy of the same disk.
        mount_options: &["nouuid"],
        rest: Rest::ReadOnly,
        // mkfs.xfs sets trusted.xfs:autofsck where it is told to, and that of xfsprogs 7.2 where it
        // is not.
        own_attributes: &["trusted.xfs:"],
        ..USUAL
    },
    FileSystem {
        name: "btrfs",
        mkfs: program("mkfs.btrfs", &["-q", "-f"], "btrfs-progs"),
        fsck: Some(Fsck {
            program: program("btrfs", &["check", "--readonly"], "btrfs-progs"),
            damage_statuses: &[1],
        }),
        size_mib: 128,
        size_min_mib: 110,
        rest: Rest::Mounted,
        remembered_by_identity: true,
        ..USUAL
    },
    FileSystem {
        name: "ext3",
        mkfs: program(
            "mkfs.ext3",
            &[
                "-q",
                "-F",
                "-b",
                "4096",
                "-N",
                "512",
                "-E",
                "lazy_itable_init=0",
            ],
            E2FSPROGS,
        ),
        fsck: E2FSCK,
        debugger: DEBUGFS,
        mkfs_for_programs: &["-N", "16384"],
        rest: Rest::Synced,
        own_names: &["lost+found"],
        ..USUAL
    },
    FileSystem {
        name: "ext2",
        mkfs: program(
            "mkfs.ext2",
            &[
                "-q",
                "-F",
                "-b",
                "4096",
                "-N",
                "512",
                "-E",
                "lazy_itable_init=0",
            ],
            E2FSPROGS,
        ),
        fsck: E2FSCK,
        repair: E2FSCK_REPAIR,
        debugger: DEBUGFS,
        mkfs_for_programs: &["-N", "16384"],
        own_names: &["lost+found"],
        found_names: &["lost+found"],
        ..USUAL
    },
    FileSystem {
        name: "f2fs",
        // Asked for by the name of its algorithm when it is mounted.
        modules: &["crc32_generic"],
        mkfs: program("mkfs.f2fs", &["-q", "-f"], "f2fs-tools"),
        fsck: Some(Fsck {
            program: program("fsck.f2fs", &["--dry-run", "-f"], "f2fs-tools"),
            // fsck.f2fs exits with 255 (-1) where it found errors.
            damage_statuses: &[1, 255],
        }),
        size_mib: 64,
        size_min_mib: 64,
        ..USUAL
    },
    FileSystem {
        name: "jfs",
        mkfs: program("mkfs.jfs", &["-q"], "jfsutils"),
        fsck: Some(Fsck {
            // fsck.jfs(8): 4 for errors left uncorrected.
            program: program("fsck.jfs", &["-n", "-f"], "jfsutils"),
            damage_statuses: &[4],
        }),
        // The kernel mounts a clean one only: its journal is replayed by fsck.
        repair: Some(Repair {
            program: program("fsck.jfs", &["-a"], "jfsutils"),
            done_statuses: &[0, 1],
        }),
        size_min_mib: 16,
        ..USUAL
    },
    FileSystem {
        name: "nilfs2",
        // 64 KiB segments: with the usual 8 MiB it takes a disk of 129 MiB.
        mkfs: program(
            "mkfs.nilfs2",
            &["-q", "-b", "4096", "-B", "16"],
            "nilfs-tools",
        ),
        size_mib: 64,
        size_min_mib: 16,
        // Where its cleaner looks.
        own_names: &[".nilfs"],
        lacks: &[Lack::Xattrs, Lack::Preallocation],
        ..USUAL
    },
    FileSystem {
        name: "reiserfs",
        mkfs: program(
            "mkfs.reiserfs",
            &["-q", "-f", "-f", "-s", "513"],
            "reiserfsprogs",
        ),
        fsck: Some(Fsck {
            // reiserfsck(8): 1 for errors that can be fixed, 2 for those that need a new tree.
            program: program("reiserfsck", &["--check", "-y", "-q"], "reiserfsprogs"),
            damage_statuses: &[1, 2],
        }),
        size_mib: 40,
        size_min_mib: 16,
        // Attributes are files of its own, which it shows only so.
        mount_options: &["user_xattr"],
        ..USUAL
    },
    FileSystem {
        name: "vfat",
        modules: &["nls_cp437", "nls_iso8859_1"],
        mkfs: program("mkfs.vfat", &[], "dosfstools"),
        fsck: Some(Fsck {
            program: program("fsck.vfat", &["-n"], "dosfstools"),
            damage_statuses: &[1],
        }),
        // fsck.fat(8): 1 for errors that were found, and corrected.
        repair: Some(Repair {
            program: program("fsck.vfat", &["-a"], "dosfstools"),
            done_statuses: &[0, 1],
        }),
        found_names: &["FSCK"],
        lacks: &[
            Lack::Modes,
            Lack::Owners,
            Lack::HardLinks,
            Lack::Symlinks,
            Lack::SpecialFiles,
            Lack::Xattrs,
            Lack::Holes,
            Lack::Preallocation,
            Lack::RenameFlags,
            Lack::Tmpfiles,
        ],
        ..USUAL
    },
    FileSystem {
        name: "minix",
        // Version 2: fsck.minix of util-linux 2.38 writes its bitmaps over the data of version 3.
        mkfs: program("mkfs.minix", &["-2"], UTIL_LINUX),
        // fsck.minix(8): 3 for errors that were corrected, 4 for those that were not.
        fsck: Some(Fsck {
            program: program("fsck.minix", &["-f"], UTIL_LINUX),
            damage_statuses: &[4],
        }),
        repair: Some(Repair {
            program: program("fsck.minix", &["-f", "-a"], UTIL_LINUX),
            done_statuses: &[0, 3],
        }),
        lacks: &[Lack::Xattrs, Lack::Preallocation, Lack::DirectIo],
        ..USUAL
    },
    FileSystem {
        name: "fuse2fs",
        driver: Some(Driver {
            // One thread: with several, the close of a file may be seen after it was removed, which
            // then is kept under another name for a moment.
            program: program("fuse2fs", &["-f", "-s"], "fuse2fs"),
            kernel_name: "fuse",
            // misc/fuse2fs.c, main: 2 where it cannot be opened, 3 where the journal or the bitmaps
            // are no good.
            refusal_statuses: &[2, 3],
            usual_words: &[
                "Writing to the journal is not supported",
                "recovering journal",
                "Warning: ",
            ],
            error_starts: &["FUSE2FS ("],
            removed_starts: FUSE_REMOVED,
        }),
        // As for ext4: that is what it is for.
        mkfs: MKFS_EXT4,
        fsck: E2FSCK,
        repair: E2FSCK_REPAIR,
        own_names: &["lost+found"],
        found_names: &["lost+found"],
        lacks: &[Lack::ZeroRange, Lack::RenameFlags, Lack::RenameNoReplace],
        ..USUAL
    },
    FileSystem {
        name: "ntfs-3g",
        driver: Some(Driver {
            program: program("ntfs-3g", &[], NTFS_3G),
            kernel_name: "fuseblk",
            // include/ntfs-3g/volume.h: not NTFS, corrupt, hibernated, not unmounted.
            refusal_statuses: &[12, 13, 14, 15],
            usual_words: &[
                "Version ",
                "Mounted ",
                "Cmdline options: ",
                "Mount options: ",
                "Ownership and permissions disabled",
                "User mapping built",
                "Unmounting ",
            ],
            // It says as much of what it cannot find as of what is damaged.
            error_starts: &[],
            removed_starts: FUSE_REMOVED,
        }),
        mkfs: program("mkfs.ntfs", &["-q", "-F", "-f"], NTFS_3G),
        // ntfsfix(8): no chkdsk, it looks at what is needed to mount it.
        fsck: Some(Fsck {
            program: program("ntfsfix", &["-n"], NTFS_3G),
            damage_statuses: &[1],
        }),
        repair: Some(Repair {
            program: program("ntfsfix", &["-d"], NTFS_3G),
            done_statuses: &[0],
        }),
        mount_options: &["no_detach"],
        lacks: &[
            Lack::Modes,
            Lack::Owners,
            Lack::RenameFlags,
            Lack::RenameNoReplace,
        ],
        ..USUAL
    },
];

impl Program {
    /// As it is called, without its last argument, the disk: `e2fsck -f -y`.
    pub fn words(&self) -> String {
        [&[self.name], self.arguments].concat().join(" ")
    }
}

impl FileSystem {
    /// What the kernel calls that as which it is mounted.
    pub fn kernel_name(&self) -> &'static str {
        self.driver.map_or(self.name, |driver| driver.kernel_name)
    }

    /// The programs that it takes to test it.
    pub fn programs(&self) -> impl Iterator<Item = Program> {
        let driver = self.driver.map(|driver| driver.program);
        let others = [
            driver,
            self.fsck.map(|fsck| fsck.program),
            self.repair.map(|repair| repair.program),
        ];
        std::iter::once(self.mkfs).chain(others.into_iter().flatten())
    }

    /// Names in the root that are not looked at in a file system that has just recovered. What its
    /// checker found is.
    pub fn names_not_walked(&self) -> &'static [&'static str] {
        if self.found_names.is_empty() {
            self.own_names
        } else {
            &[]
        }
    }
}

/// The row with this name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static FileSystem> {
    TABLE
        .iter()
        .find(|row| row.name == name)
        .ok_or_else(|| Error::UnknownFileSystem {
            name: name.to_owned(),
            known: TABLE
                .iter()
                .map(|row| row.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

/// Where a program is; looks in the administrator's directories too, which a PATH may lack.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let also = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(also)
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

impl Program {
    /// Where it is.
    ///
    /// # Errors
    /// If it is not installed; the message says which package has it.
    pub fn find(&self) -> Result<PathBuf> {
        let faster = self.faster.and_then(find_program);
        faster
            .or_else(|| find_program(self.name))
            .ok_or(Error::ProgramMissing {
                program: self.name,
                package: self.package,
            })
    }
}
