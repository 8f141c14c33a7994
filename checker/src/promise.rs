//! What can be promised of a file system after a crash, and the words for it.

use serde::{Deserialize, Serialize};

/// One thing that can be promised. The names in `kebab-case` appear in results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// A crash never leaves it unmountable.
    Mountable,
    /// Everything in it can be listed and read.
    Readable,
    /// Files can be made, written, renamed and deleted in every directory, and everything can be
    /// removed.
    Usable,
    /// Its own checker finds nothing to repair after recovery.
    FsckClean,
    /// The kernel logs no error of it and no warning with a stack trace.
    KernelQuiet,
    /// No name appears that nobody ever made.
    NoForeignNames,
    /// No byte appears in a file that was never written there.
    NoForeignData,
    /// The link count is the number of names.
    LinkCount,
    /// A renamed file is at its old name or its new one, never at both or neither.
    RenameAtomic,
    /// A symlink that exists has its target.
    SymlinkComplete,
    /// After sync or syncfs everything is durable.
    Sync,
    /// After fsync of a file its content and size are durable.
    FsyncData,
    /// After fsync its mode and owner are durable.
    FsyncAttributes,
    /// After fsync its extended attributes are durable, removals included.
    FsyncXattrs,
    /// After fsync of a file that was created, linked or renamed, its names are durable, and
    /// so are the directories made since on the way to it; names it lost are gone.
    FsyncNames,
    /// After fsync of a directory the names in it are durable: made, removed, moved in or out.
    FsyncDirectory,
    /// ... and those in directories below it that were made since anything was last made durable.
    FsyncNewSubdirectories,
    /// When a file is made durable at a name that another one had durably, the other one's new
    /// name is durable too.
    NameConflict,
    /// After fdatasync content, size and allocation are durable; a new file does not vanish.
    FdatasyncData,
    /// After msync(MS_SYNC), or a write with O_SYNC or O_DSYNC, the range is durable.
    RangeData,
    /// Space allocated by fallocate is durable with the file.
    Preallocation,
    /// The number of blocks of a durable file is what it was.
    BlocksExact,
    /// A hole of a durable file stays a hole.
    HoleLayout,
    /// Metadata operations are durable in the order in which they were done: what is found is
    /// the state after some first part of them.
    OrderedMetadata,
    /// A directory's link count is two and one for each directory in it.
    DirectoryLinkCount,
    /// An operation on names is found whole or not at all: a name leads to what it was given to.
    AtomicMetadata,
    /// What has to be repaired before it is mounted can be, by its own checker.
    Repairable,
    /// After fsync of a file that has a name it is somewhere: at a name, or where its checker puts
    /// what it finds without one.
    FsyncExists,
    /// After fsync of a file the names it has are durable; those it lost may be back.
    FsyncNewNames,
    /// After fsync of a file whose data it had to write, its names are durable too.
    NamesWithData,
    /// What was made durable does not suffer from names and files that were removed before, and are
    /// back: space that was theirs is not shared with it.
    ReusedSpace,
    /// What was done before it was unmounted is durable.
    Unmounted,
    /// Its driver, a process, neither is killed by what it finds nor fails.
    DriverAlive,
    /// Its driver, a process, reports nothing that is wrong with the file system.
    DriverQuiet,
    /// A file that has grown has what was written at its end: its size is not ahead of its data.
    DataWithSize,
    /// Where a file was renamed over another one, the name has the new data whole, or the old.
    ReplaceByRename,
    /// After fsync of a file, what its directory was renamed to before the file was made is durable,
    /// and so is what was renamed into that directory before.
    EarlierRenames,
    /// No rule of a specification that was given is violated. No contract has it.
    Rule,
}

impl Promise {
    /// Its bit in a set of promises.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u32
    }

    /// The promise in words, to be read after "promised: ".
    pub fn words(self) -> &'static str {
        match self {
            Self::Mountable => "a crash never leaves the file system unmountable",
            Self::Readable => "everything that has a name can be listed and read",
            Self::Usable => {
                "files can be made, written, renamed and deleted in every directory after recovery"
            }
            Self::FsckClean => "its own checker finds nothing to repair after recovery",
            Self::KernelQuiet => "recovery and use of the file system raise no error in the kernel",
            Self::NoForeignNames => "no name appears that nobody made",
            Self::NoForeignData => "no byte appears in a file that was never written there",
            Self::LinkCount => "a file's link count is the number of its names",
            Self::RenameAtomic => {
                "a renamed file is at its old name or its new one, never at both or neither"
            }
            Self::SymlinkComplete => "a symlink that exists has its target",
            Self::Sync => "what was done before sync is durable",
            Self::FsyncData => "content and size of a file are durable after fsync",
            Self::FsyncAttributes => "mode and owner are durable after fsync",
            Self::FsyncXattrs => "extended attributes, and their removal, are durable after fsync",
            Self::FsyncNames => {
                "the names of a file are durable after fsync of it, and names it lost are gone"
            }
            Self::FsyncDirectory => "the names in a directory are durable after fsync of it",
            Self::FsyncNewSubdirectories => {
                "names in new directories below a directory are durable after fsync of it"
            }
            Self::NameConflict => {
                "a file whose old durable name is taken by one made durable keeps its new name"
            }
            Self::FdatasyncData => {
                "content, size and allocation of a file are durable after fdatasync"
            }
            Self::RangeData => {
                "the range is durable after msync, or after a write with O_SYNC or O_DSYNC"
            }
            Self::Preallocation => "space that fallocate allocated is durable with the file",
            Self::BlocksExact => "a durable file has as many blocks as before the crash",
            Self::HoleLayout => "a hole of a durable file stays a hole",
            Self::OrderedMetadata => {
                "metadata operations are durable in the order in which they were done"
            }
            Self::DirectoryLinkCount => {
                "a directory's link count is two and one for each directory in it"
            }
            Self::AtomicMetadata => "an operation on names is there whole or not at all",
            Self::Repairable => "its own checker can repair it after a crash",
            Self::FsyncExists => {
                "a file is somewhere after fsync of it, if only where the checker puts what it finds"
            }
            Self::FsyncNewNames => "the names that a file has are durable after fsync of it",
            Self::NamesWithData => {
                "the names of a file are durable after fsync of it that has data to write"
            }
            Self::Unmounted => "what was done before the file system was unmounted is durable",
            Self::DriverAlive => "the driver survives recovery and use of the file system",
            Self::DriverQuiet => "recovery and use of the file system raise no error in its driver",
            Self::DataWithSize => "a file that has grown has the data at its end that made it grow",
            Self::ReplaceByRename => {
                "after a rename over a file the name has the new data whole, or the old"
            }
            Self::EarlierRenames => {
                "renames of a directory, and into it, are durable after fsync of a file that was made in it later"
            }
            Self::Rule => "no rule of a specification that was given is violated",
            Self::ReusedSpace => "what is durable shares no space with removed files that are back",
        }
    }

    /// Its name in results (`rename-atomic`).
    pub fn name(self) -> String {
        let debug = format!("{self:?}");
        let mut name = String::new();
        for letter in debug.chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(letter.to_ascii_lowercase());
        }
        name
    }
}
