use trace::{Data, FileId, FileKind, Name};

/// Something that reached a node's disk: an operation, or the part of one that a crash can leave.
///
/// What is on a node's disk in a crash state is the initial files and the effects of the state on
/// them, in order. They can all be carried out: a file that has lost its names is still one, and
/// what is written to it is of no consequence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// A file begins to exist, without a name, empty.
    NewFile {
        /// Which one.
        file: FileId,
        /// What it is.
        kind: FileKind,
        /// Permission bits.
        mode: u32,
    },
    /// A directory has a name, whatever it was the name of before.
    SetEntry {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
        /// Of what.
        file: FileId,
    },
    /// A directory has a name, if it does not have it: it stays with the one that has it.
    AddEntry {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
        /// Of what.
        file: FileId,
    },
    /// A directory does not have a name any more, if it had it.
    RemoveEntry {
        /// The directory.
        parent: FileId,
        /// The name.
        name: Name,
        /// Only if it is the name of this one; nothing if it goes whatever it is the name of.
        of: Option<FileId>,
    },
    /// Bytes of a file. It grows if they go beyond its end.
    Write {
        /// Which one.
        file: FileId,
        /// Where the first of them is.
        offset: u64,
        /// The bytes.
        content: Content,
    },
    /// Bytes of a file, which does not grow: so is a page that was written, where the size on the
    /// disk does not say so yet. What of them is past the end, in its last page, is seen once the
    /// file grows.
    Overwrite {
        /// Which one.
        file: FileId,
        /// Where the first of them is.
        offset: u64,
        /// The bytes.
        content: Content,
    },
    /// A file is at least so large. What is new is zeros, but for what the last page had past the
    /// end.
    Grow {
        /// Which one.
        file: FileId,
        /// In bytes.
        size: u64,
    },
    /// A file's size. What is new is zeros. What is past the end, in the last page, is not gone: a
    /// [`Self::Grow`] shows it again.
    SetSize {
        /// Of which one.
        file: FileId,
        /// In bytes.
        size: u64,
    },
    /// Permission bits.
    SetMode {
        /// Of which file.
        file: FileId,
        /// The bits.
        mode: u32,
    },
    /// An extended attribute.
    SetXattr {
        /// Of which file.
        file: FileId,
        /// Its name.
        name: Name,
        /// Its value; nothing if it is removed.
        value: Option<Data>,
    },
}

/// Bytes that a crash can leave where something was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Content {
    /// What was written.
    Written(Data),
    /// Zeros, so many.
    Zeros(u64),
    /// Anything: bytes that nobody wrote there, so many.
    Garbage(u64),
}

impl Content {
    /// How many bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Written(data) => data.len,
            Self::Zeros(len) | Self::Garbage(len) => *len,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
