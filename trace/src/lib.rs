//! What programs and clusters do, in the words that recorders, rules, sweeps and reports share: a
//! [`Run`] is what was recorded of every node, as operations on files, messages and marks.
//!
//! It holds no bytes: those are in the recording, of which a [`Data`] is a range.

#![forbid(unsafe_code)]

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What was recorded of every node of a cluster, or of one program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The nodes, the clients among them, in the order of the cluster file.
    pub nodes: Vec<Node>,
}

/// One node: processes that share a directory of data, or a client, which has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name in the cluster file.
    pub name: String,
    /// What was in its directory at the beginning, parents before their children. The first one is
    /// the directory itself, if it has one.
    pub initial: Vec<InitialFile>,
    /// What it did, in the order in which it was done: by [`Event::end_ns`].
    pub events: Vec<Event>,
}

/// A file, directory or symbolic link of one node. One that is removed never comes back: the number
/// of an inode that is used again is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u32);

impl FileId {
    /// The node's directory of data.
    pub const ROOT: Self = Self(0);
}

/// The name of a directory's entry: bytes, without a slash.
pub type Name = Arc<[u8]>;

/// Bytes of the run, of which it knows only the place: the trace has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Data {
    /// The first byte's place in the data of the trace.
    pub at: u64,
    /// How many there are.
    pub len: u64,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link to a path.
    Symlink {
        /// The path.
        target: Data,
    },
    /// A socket or a device: it has a name, and nothing to lose.
    Special,
    /// A named pipe: the same.
    Fifo,
}

/// A file that was there at the beginning. One with several names is listed for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialFile {
    /// Which one.
    pub file: FileId,
    /// The directory that has the name; the node's directory itself has none.
    pub parent: Option<FileId>,
    /// Its name there.
    pub name: Name,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// A regular file's size in bytes.
    pub size: u64,
    /// Its content as `(offset, data)`, in order: what is in no piece is zeros.
    pub content: Vec<(u64, Data)>,
}

impl InitialFile {
    /// The directory of a node that has nothing in it yet.
    pub fn empty_root() -> Self {
        Self {
            file: FileId::ROOT,
            parent: None,
            name: Name::from(*b""),
            kind: FileKind::Directory,
            mode: 0o755,
            size: 0,
            content: Vec::new(),
        }
    }
}

/// Something that a node did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When the call was entered, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// When it returned. A call that never did has `u64::MAX`.
    pub end_ns: u64,
    /// The process, as the kernel numbered it.
    pub process: u32,
    /// The thread of it.
    pub thread: u32,
    /// The name of the system call, for people.
    pub call: Arc<str>,
    /// Where in the program it came from: a hash of the stack by module and offset, 0 if that is
    /// not known.
    pub stack: u64,
    /// What it did.
    pub action: Action,
}

/// What an event is to the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Something was done to a file.
    File(FileOp),
    /// Bytes went into a connection.
    Send(Message),
    /// Bytes came out of one.
    Receive(Message),
    /// A line on the standard output of a client: it had this, it says, from the cluster.
    Mark {
        /// The line, without its end.
        line: Data,
    },
}

/// A range of the bytes that go one way over a connection. A receive happens after every send of
/// the same `stream` whose range overlaps its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// One direction of one connection, the same number at both of its ends.
    pub stream: u32,
    /// The first byte.
    pub from: u64,
    /// After the last one. A close, and the end of the stream that is read, is a byte of its own
    /// after all others.
    pub to: u64,
}

/// What the name of an entry was and became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeOfName {
    /// The directory and the name that it had.
    pub from: (FileId, Name),
    /// The directory and the name that it has now.
    pub to: (FileId, Name),
}

/// Something done to a node's files, with all that is needed to do it again.
///
/// Operations that failed are not recorded, and one that does not change what could be read after a
/// crash (the times of an inode) is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileOp {
    /// A new file, directory or symbolic link.
    Create {
        /// The directory that has its name.
        parent: FileId,
        /// Its name.
        name: Name,
        /// What got it.
        file: FileId,
        /// What it is.
        kind: FileKind,
        /// Permission bits.
        mode: u32,
    },
    /// A new file without a name (`O_TMPFILE`).
    CreateNameless {
        /// Which one.
        file: FileId,
        /// Permission bits.
        mode: u32,
    },
    /// One more name.
    Link {
        /// The directory that has it.
        parent: FileId,
        /// The name.
        name: Name,
        /// Of what.
        file: FileId,
    },
    /// A name less: unlink and rmdir.
    Unlink {
        /// The directory that had it.
        parent: FileId,
        /// The name.
        name: Name,
        /// Of what.
        file: FileId,
    },
    /// Another name.
    Rename {
        /// What is renamed.
        file: FileId,
        /// From where to where.
        names: ChangeOfName,
        /// What had the new name before.
        replaced: Option<FileId>,
        /// Whether that has the old one now (`RENAME_EXCHANGE`).
        exchange: bool,
    },
    /// Bytes into a file.
    Write {
        /// Which one.
        file: FileId,
        /// Where the first of them went.
        offset: u64,
        /// The bytes.
        data: Data,
        /// How large the file was before: what lies past that was appended.
        size_before: u64,
    },
    /// A size set: truncate, and fallocate of what lies past the end.
    Resize {
        /// Of which file.
        file: FileId,
        /// The size before, in bytes.
        from: u64,
        /// The size now.
        to: u64,
    },
    /// Bytes that are zeros now: a punched hole. The size is as it was. In a trace of version 4 or
    /// earlier it may be a zeroed range.
    Zero {
        /// Of which file.
        file: FileId,
        /// The first one.
        offset: u64,
        /// How many. It may reach past the end of the file, up to that of its last page.
        len: u64,
    },
    /// Other permission bits.
    SetMode {
        /// Of which file.
        file: FileId,
        /// The bits.
        mode: u32,
    },
    /// A call after whose return something is durable; what, a model says.
    Sync {
        /// The file or directory that was synced.
        file: FileId,
        /// What of it.
        scope: SyncScope,
    },
    /// sync(2) or syncfs(2): all files of the node.
    SyncAll,
    /// Another extended attribute.
    SetXattr {
        /// Of which file.
        file: FileId,
        /// Its name, such as `user.checksum`.
        name: Name,
        /// Its value; nothing if it was removed.
        value: Option<Data>,
    },
    /// Bytes that are zeros now, in blocks that the file keeps (`FALLOC_FL_ZERO_RANGE`). The size is
    /// as it was.
    ZeroBlocks {
        /// Of which file.
        file: FileId,
        /// The first one.
        offset: u64,
        /// How many. It may reach past the end of the file, up to that of its last page.
        len: u64,
    },
    /// Space for bytes (`fallocate`). What is in them, and the size, stay as they are.
    Allocate {
        /// Of which file.
        file: FileId,
        /// The first one.
        offset: u64,
        /// How many.
        len: u64,
        /// Whether they may be past the end of the file (`FALLOC_FL_KEEP_SIZE`). Else the file has
        /// them already.
        keeps_size: bool,
    },
}

impl FileOp {
    /// The file or directory that it is about; of [`FileOp::SyncAll`] the node's directory.
    pub fn subject(&self) -> FileId {
        match self {
            Self::Create { file, .. }
            | Self::CreateNameless { file, .. }
            | Self::Link { file, .. }
            | Self::Unlink { file, .. }
            | Self::Rename { file, .. }
            | Self::Write { file, .. }
            | Self::Resize { file, .. }
            | Self::Zero { file, .. }
            | Self::ZeroBlocks { file, .. }
            | Self::Allocate { file, .. }
            | Self::SetMode { file, .. }
            | Self::SetXattr { file, .. }
            | Self::Sync { file, .. } => *file,
            Self::SyncAll => FileId::ROOT,
        }
    }

    /// Whether it changes nothing, and makes something durable.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncAll)
    }
}

impl Action {
    /// Whether it makes something durable.
    pub fn is_sync(&self) -> bool {
        matches!(self, Self::File(op) if op.is_sync())
    }
}

/// What of a file a call makes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SyncScope {
    /// fsync: its data and all that is known of it.
    File,
    /// fdatasync: its data, and what is needed to read that.
    Data,
    /// msync, or a write with `O_DSYNC`: a range of its data, and what is needed to read that.
    Range {
        /// The first one.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// A write with `O_SYNC`: a range of its data, and all that is known of it.
    FileRange {
        /// The first one.
        offset: u64,
        /// How many.
        len: u64,
    },
}
