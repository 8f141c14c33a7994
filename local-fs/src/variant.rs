use std::fmt;

use nix::mount::MsFlags;
use serde::{Deserialize, Serialize};

use crate::{Error, FileSystem, Result, TABLE, find};

/// The size of a disk that programs keep their data on, in MiB. What is not written takes no
/// memory.
pub const PROGRAM_DISK_MIB: u64 = 1024;

/// Options that are flags of mount(2), as mount(8) knows them.
const FLAGS: [(&str, MsFlags); 4] = [
    ("sync", MsFlags::MS_SYNCHRONOUS),
    ("dirsync", MsFlags::MS_DIRSYNC),
    ("lazytime", MsFlags::MS_LAZYTIME),
    ("nodiratime", MsFlags::MS_NODIRATIME),
];

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
        Self {
            file_system,
            mkfs_options: Vec::new(),
            mount_options: Vec::new(),
            size_bytes,
        }
    }

    /// One for a disk that programs keep their data on, as people write it: `ext4:data=journal`. It
    /// has [`PROGRAM_DISK_MIB`], and can be mounted as a crash left it.
    ///
    /// # Errors
    /// If it is not one that the kernel mounts without repairing it first.
    pub fn for_programs(text: &str) -> Result<Self> {
        Self::that_can(text, |row| row.repair.is_none() && row.driver.is_none())
    }

    /// One for the disk of a simulated machine, which [repairs](crate::repair_device) it when it
    /// boots if that has to be done. Otherwise as [`for_programs`](Self::for_programs).
    ///
    /// # Errors
    /// If it is not one of the kernel's.
    pub fn for_machines(text: &str) -> Result<Self> {
        Self::that_can(text, |row| row.driver.is_none())
    }

    fn that_can(text: &str, can: impl Fn(&FileSystem) -> bool) -> Result<Self> {
        let known = || {
            TABLE
                .iter()
                .filter(|row| can(row))
                .map(|row| row.name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut variant = Self::parse(text).map_err(|error| match error {
            Error::UnknownFileSystem { name, .. } => Error::UnknownFileSystem {
                name,
                known: known(),
            },
            other => other,
        })?;
        let row = variant.file_system;
        if !can(row) {
            return Err(Error::NotForPrograms { name: row.name });
        }
        let options = row.mkfs_for_programs.iter().map(|word| (*word).to_owned());
        variant.mkfs_options.splice(..0, options);
        variant.size_bytes = PROGRAM_DISK_MIB.max(row.size_mib) << 20;
        Ok(variant)
    }

    /// Variants as people write them, separated by commas: `ext4,ext4:data=journal,nodelalloc`.
    ///
    /// After a file system's name and a colon come mount options; after a colon and a hyphen,
    /// arguments for mkfs: `ext4:data=journal:-O ^64bit`. What follows a comma belongs to the
    /// variant before it unless it starts with the name of a file system.
    ///
    /// # Errors
    /// If it starts with no file system, or one that has no options goes on with an unknown one.
    pub fn parse_list(text: &str) -> Result<Vec<Self>> {
        let mut texts: Vec<String> = Vec::new();
        for part in text.split(',') {
            let known = TABLE.iter().any(|row| row.name == name_of(part));
            match texts.last_mut() {
                Some(before) if !known && before.contains(':') => *before += &format!(",{part}"),
                _ => texts.push(part.to_owned()),
            }
        }
        texts.iter().map(|text| Self::parse(text)).collect()
    }

    /// One variant.
    fn parse(text: &str) -> Result<Self> {
        let mut variant = Self::plain(find(name_of(text))?);
        for options in text.split(':').skip(1) {
            if options.trim_start().starts_with('-') {
                variant
                    .mkfs_options
                    .extend(options.split_whitespace().map(str::to_owned));
            } else {
                let options = options
                    .split(',')
                    .map(str::trim)
                    .filter(|option| !option.is_empty());
                variant.mount_options.extend(options.map(str::to_owned));
            }
        }
        Ok(variant)
    }

    /// The options for mount(2): flags, and what the file system reads, separated by commas.
    pub(crate) fn mount_arguments(&self) -> (MsFlags, String) {
        let (mut flags, mut data) = (MsFlags::empty(), Vec::new());
        let given = self
            .mount_options
            .iter()
            .flat_map(|options| options.split(','));
        for option in self.file_system.mount_options.iter().copied().chain(given) {
            match FLAGS.iter().find(|(name, _)| *name == option) {
                Some((_, flag)) => flags |= *flag,
                None => data.push(option),
            }
        }
        (flags, data.join(","))
    }
}

/// The name that a variant starts with.
fn name_of(text: &str) -> &str {
    text.split(':').next().unwrap_or_default().trim()
}

/// As [`Variant::parse_list`] reads it: `ext4`, or `ext4:barrier=0:-O ^64bit`.
impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file_system.name)?;
        if !self.mount_options.is_empty() {
            write!(f, ":{}", self.mount_options.join(","))?;
        }
        if !self.mkfs_options.is_empty() {
            write!(f, ":{}", self.mkfs_options.join(" "))?;
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
        let VariantText {
            mkfs_options,
            mount_options,
            size_bytes,
            ..
        } = text;
        Ok(Self {
            file_system,
            mkfs_options,
            mount_options,
            size_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mount options, arguments for mkfs of each.
    fn parsed(text: &str) -> Vec<(&'static str, String, String)> {
        let variants = Variant::parse_list(text).expect("well formed");
        let words = |variant: Variant| {
            (
                variant.file_system.name,
                variant.mount_options.join("|"),
                variant.mkfs_options.join("|"),
            )
        };
        variants.into_iter().map(words).collect()
    }

    fn one(name: &'static str, mount: &str, mkfs: &str) -> (&'static str, String, String) {
        (name, mount.to_owned(), mkfs.to_owned())
    }

    #[test]
    fn what_is_repaired_is_for_machines_and_what_has_a_driver_is_for_nobody() {
        assert!(Variant::for_programs("ext4").is_ok() && Variant::for_machines("ext4").is_ok());
        for name in ["ext2", "vfat", "minix", "jfs"] {
            let refused = Variant::for_programs(name).expect_err("it is repaired");
            assert!(matches!(refused, Error::NotForPrograms { .. }), "{refused}");
            assert!(Variant::for_machines(name).is_ok(), "{name}");
        }
        let refused = Variant::for_machines("fuse2fs").expect_err("it has a driver");
        assert!(matches!(refused, Error::NotForPrograms { .. }), "{refused}");
    }

    #[test]
    fn commas_separate_file_systems_and_their_options() {
        assert_eq!(
            parsed("ext4, xfs"),
            [one("ext4", "", ""), one("xfs", "", "")]
        );
        assert_eq!(
            parsed("ext4,ext4:data=journal,nodelalloc,btrfs:compress=zstd"),
            [
                one("ext4", "", ""),
                one("ext4", "data=journal|nodelalloc", ""),
                one("btrfs", "compress=zstd", "")
            ]
        );
        assert_eq!(
            parsed("ext4:-O ^metadata_csum,^64bit,xfs:logbsize=256k:-m crc=0"),
            [
                one("ext4", "", "-O|^metadata_csum,^64bit"),
                one("xfs", "logbsize=256k", "-m|crc=0")
            ]
        );
        assert_eq!(
            parsed("ext4:data=journal:-O^64bit"),
            [one("ext4", "data=journal", "-O^64bit")]
        );
        assert_eq!(parsed("ext4:"), [one("ext4", "", "")]);
    }

    #[test]
    fn what_is_no_file_system_and_no_option_of_one_is_refused() {
        for wrong in [
            "",
            "ext5",
            "ext4,xsf",
            "ext4,data=journal",
            "data=journal",
            "ext4,,xfs",
        ] {
            assert!(Variant::parse_list(wrong).is_err(), "'{wrong}'");
        }
    }

    #[test]
    fn flags_of_mount_are_told_from_options_of_the_file_system() {
        let variant = Variant::parse_list("xfs:sync,logbsize=256k,lazytime")
            .expect("well formed")
            .remove(0);
        let flags = MsFlags::MS_SYNCHRONOUS | MsFlags::MS_LAZYTIME;
        assert_eq!(
            variant.mount_arguments(),
            (flags, "nouuid,logbsize=256k".to_owned())
        );
    }

    #[test]
    fn a_variant_reads_as_it_was_written() {
        for text in [
            "ext4",
            "ext4:data=journal,nodelalloc",
            "xfs:-m crc=0",
            "ext4:barrier=0:-O ^64bit -b 1024",
        ] {
            let variants = Variant::parse_list(text).expect("well formed");
            assert_eq!(variants.len(), 1, "{text}");
            assert_eq!(variants[0].to_string(), text);
        }
    }
}
