use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
}

/// What is known of a file system: a row of [`TABLE`].
#[derive(Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The kernel's name of it.
    pub name: &'static str,
    /// Makes one.
    pub mkfs: Program,
    /// Checks an unmounted one without changing it.
    pub fsck: Program,
    /// The exit statuses by which it says that it found damage; with any other but 0 it failed.
    pub fsck_damage_statuses: &'static [i32],
    /// The size of the disk unless another is asked for, in MiB.
    pub size_mib: u64,
    /// The smallest disk that mkfs accepts, in MiB.
    pub size_min_mib: u64,
    /// Mount options that our use of it needs.
    pub mount_options: &'static [&'static str],
    /// The kernel remembers devices by an identity that is part of the disk's content. Then copies
    /// must not be mounted side by side, and must be forgotten once they are unmounted.
    pub remembered_by_identity: bool,
    /// Names in the root that are the file system's own.
    pub own_names: &'static [&'static str],
}

/// Every file system that can be tested.
pub static TABLE: &[FileSystem] = &[
    FileSystem {
        name: "ext4",
        mkfs: Program {
            name: "mkfs.ext4",
            faster: None,
            // No lazy initialisation: its thread would write whenever it likes. 4 KiB blocks are
            // what everybody uses; for a disk this small mke2fs would take 1 KiB.
            arguments: &["-q", "-F", "-b", "4096", "-N", "512", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
            package: "e2fsprogs",
        },
        fsck: Program {
            name: "e2fsck",
            // Without shared libraries a check of a disk this small takes half as long.
            faster: Some("e2fsck.static"),
            arguments: &["-f", "-n"],
            package: "e2fsprogs",
        },
        // e2fsck(8): 4 for errors left uncorrected.
        fsck_damage_statuses: &[4],
        size_mib: 16,
        size_min_mib: 8,
        mount_options: &[],
        remembered_by_identity: false,
        own_names: &["lost+found"],
    },
    FileSystem {
        name: "xfs",
        mkfs: Program { name: "mkfs.xfs", faster: None, arguments: &["-q", "-f"], package: "xfsprogs" },
        fsck: Program {
            name: "xfs_repair",
            faster: None,
            // Prefetching threads and a large cache cost more than the whole check of a disk this small.
            arguments: &["-n", "-f", "-P", "-o", "bhash=64", "-o", "phase2_threads=1"],
            package: "xfsprogs",
        },
        // xfs_repair(8): 1 for corruption, 2 for a log that was not replayed.
        fsck_damage_statuses: &[1, 2],
        size_mib: 300,
        size_min_mib: 300,
        // Every worker mounts a copy of the same disk.
        mount_options: &["nouuid"],
        remembered_by_identity: false,
        own_names: &[],
    },
    FileSystem {
        name: "btrfs",
        mkfs: Program { name: "mkfs.btrfs", faster: None, arguments: &["-q", "-f"], package: "btrfs-progs" },
        fsck: Program { name: "btrfs", faster: None, arguments: &["check", "--readonly"], package: "btrfs-progs" },
        fsck_damage_statuses: &[1],
        size_mib: 128,
        size_min_mib: 110,
        mount_options: &[],
        remembered_by_identity: true,
        own_names: &[],
    },
];

/// The row with this name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static FileSystem> {
    TABLE.iter().find(|row| row.name == name).ok_or_else(|| Error::UnknownFileSystem {
        name: name.to_owned(),
        known: TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", "),
    })
}

/// Where a program is; looks in the administrator's directories too, which a PATH may lack.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let also = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(also).map(|directory| directory.join(name)).find(|program| program.is_file())
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
            .ok_or(Error::ProgramMissing { program: self.name, package: self.package })
    }
}

/// A file system with the options it is made and mounted with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Which file system.
    pub file_system: &'static FileSystem,
    /// Arguments for mkfs beyond those of the table.
    pub mkfs_options: Vec<String>,
    /// Mount options beyond those of the table.
    pub mount_options: Vec<String>,
    /// Size of the disk in bytes.
    pub size_bytes: u64,
}

impl Variant {
    /// A file system as most people use it.
    pub fn plain(file_system: &'static FileSystem) -> Self {
        let size_bytes = file_system.size_mib << 20;
        Self { file_system, mkfs_options: Vec::new(), mount_options: Vec::new(), size_bytes }
    }

    /// The options for mount(2), separated by commas.
    pub(crate) fn mount_data(&self) -> String {
        let table = self.file_system.mount_options.iter().copied();
        table.chain(self.mount_options.iter().map(String::as_str)).collect::<Vec<_>>().join(",")
    }
}

/// `ext4`, or `ext4 (-o barrier=0)`.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_system.name)?;
        if !self.mount_options.is_empty() {
            write!(f, " (-o {})", self.mount_options.join(","))?;
        }
        if !self.mkfs_options.is_empty() {
            write!(f, " (mkfs {})", self.mkfs_options.join(" "))?;
        }
        Ok(())
    }
}

/// A [`Variant`] that can be sent to another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct VariantText {
    file_system: String,
    mkfs_options: Vec<String>,
    mount_options: Vec<String>,
    size_bytes: u64,
}

impl Serialize for Variant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        VariantText {
            file_system: self.file_system.name.to_owned(),
            mkfs_options: self.mkfs_options.clone(),
            mount_options: self.mount_options.clone(),
            size_bytes: self.size_bytes,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Variant {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = VariantText::deserialize(deserializer)?;
        let file_system = find(&text.file_system).map_err(serde::de::Error::custom)?;
        let VariantText { mkfs_options, mount_options, size_bytes, .. } = text;
        Ok(Self { file_system, mkfs_options, mount_options, size_bytes })
    }
}
