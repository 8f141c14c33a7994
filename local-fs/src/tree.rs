use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use brief::{Brief, BriefList};

/// Everything a file system shows of itself.
///
/// What is not UTF-8 in a name is shown as `\xff`; [`raw_path`](crate::raw_path) has its bytes.
/// Directories name inodes by number, so that hard links, and damage such as a directory with
/// two parents, show as what they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// The number of the root's inode.
    pub root: u64,
    /// By number.
    pub inodes: BTreeMap<u64, Inode>,
    /// What could not be read, and why.
    pub errors: Vec<WalkError>,
}

/// Something in a tree that the file system would not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkError {
    /// Where, relative to the root.
    pub path: String,
    /// What was tried.
    pub doing: &'static str,
    /// The error number.
    pub errno: i32,
    /// The file system did not refuse it: it is more than a walk reads, or the machine had no room
    /// for it.
    pub is_ours: bool,
}

/// One inode as stat(2), listxattr(2), lseek(2) and read(2) show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Type and what belongs to it.
    pub kind: InodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Allocated blocks of 512 bytes.
    pub blocks: u64,
    /// Link count.
    pub link_count: u64,
    /// Extended attributes by name.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// The type of an inode, and what only that type has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InodeKind {
    /// A regular file.
    File(Content),
    /// A directory: names and inode numbers.
    Directory(BTreeMap<String, u64>),
    /// A symbolic link and its target.
    Symlink(String),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device and its number.
    CharDevice(u64),
    /// A block device and its number.
    BlockDevice(u64),
}

impl InodeKind {
    /// What people call it.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Directory(_) => "directory",
            Self::Symlink(_) => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::CharDevice(_) => "character device",
            Self::BlockDevice(_) => "block device",
        }
    }
}

/// The content of a file: what lies between the segments reads as zeros.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// In order of offset, as SEEK_DATA and SEEK_HOLE show them.
    pub segments: Vec<Segment>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("segments", &BriefList(self.segments.iter()))
            .finish()
    }
}

/// A stretch of a file that holds data.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment {
    /// Where it starts, in bytes.
    pub offset: u64,
    /// What it holds.
    pub data: Vec<u8>,
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("offset", &self.offset)
            .field("data", &Brief(&self.data))
            .finish()
    }
}

impl Tree {
    /// The inode with this number, if it could be read.
    pub fn inode(&self, number: u64) -> Option<&Inode> {
        self.inodes.get(&number)
    }

    /// The files whose content, and the symbolic links whose target, could not be read: what is in the
    /// tree in its place says nothing. By inode, since a file may have other names.
    pub fn unread(&self) -> BTreeSet<u64> {
        let of_content = |error: &&WalkError| ["open", "read", "readlink"].contains(&error.doing);
        let errors = self.errors.iter().filter(of_content);
        errors
            .filter_map(|error| self.lookup(&error.path))
            .collect()
    }

    /// What a walk did not read although the file system may have shown it: nothing can be said of
    /// all of the tree.
    pub fn own_limit(&self) -> Option<&WalkError> {
        self.errors.iter().find(|error| error.is_ours)
    }

    /// Whether names may be missing that the file system would have shown.
    pub fn misses_names(&self) -> bool {
        let of_names =
            |error: &WalkError| error.is_ours && ["open", "stat", "list"].contains(&error.doing);
        self.errors.iter().any(of_names)
    }

    /// The entries of a directory; none if it is not one.
    pub fn entries(&self, number: u64) -> impl Iterator<Item = (&str, u64)> {
        let entries = match self.inodes.get(&number).map(|inode| &inode.kind) {
            Some(InodeKind::Directory(entries)) => Some(entries),
            _ => None,
        };
        entries
            .into_iter()
            .flatten()
            .map(|(name, number)| (name.as_str(), *number))
    }

    /// The number of the inode at a path relative to the root (`A/foo`, `.`).
    pub fn lookup(&self, path: &str) -> Option<u64> {
        path.split('/')
            .filter(|name| !name.is_empty() && *name != ".")
            .try_fold(self.root, |directory, name| {
                match &self.inodes.get(&directory)?.kind {
                    InodeKind::Directory(entries) => entries.get(name).copied(),
                    _ => None,
                }
            })
    }
}

impl Content {
    /// The byte at an offset.
    pub fn byte(&self, offset: u64) -> u8 {
        let after = self
            .segments
            .partition_point(|segment| segment.offset <= offset);
        let segment = after.checked_sub(1).map(|index| &self.segments[index]);
        segment
            .and_then(|segment| segment.data.get((offset - segment.offset) as usize))
            .copied()
            .unwrap_or(0)
    }
}
