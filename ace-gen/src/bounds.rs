//! The bounds of an enumeration: everything that decides what is generated and in which order.

use workloads::FallocMode;

use crate::names::named;
use crate::operation::{DataRange, Operation};

named! {
    /// A persistence operation that may follow an operation.
    pub enum Persistence ("persistence operation") {
        /// fsync of each of the names.
        Fsync = "fsync",
        /// fdatasync of each of the names.
        Fdatasync = "fdatasync",
        /// sync of everything.
        Sync = "sync",
        /// syncfs of the file system.
        Syncfs = "syncfs",
        /// Nothing; not after the last operation.
        None = "none",
    }
}

named! {
    /// Which names are persisted.
    pub enum PersistNames ("set of names to persist") {
        /// The names that the workload uses.
        Used = "used",
        /// Those, their siblings and their parents.
        Related = "related",
    }
}

named! {
    /// Which sequences of parameters are kept.
    pub enum Reuse ("reuse rule") {
        /// All.
        Any = "any",
        /// An operation after the first must share a name with an earlier one, be on a
        /// directory, or follow operations on two directories only (ACE's rule for three).
        Overlap = "overlap",
    }
}

named! {
    /// Which pairs of names `link`, `symlink` and `reflink` take.
    pub enum LinkPairs ("link pairs") {
        /// Any file to a second file, as `rename` (ace.py).
        IntoSecond = "into-second",
        /// A first file to any file (seq3nestedgenerator.py).
        FromFirst = "from-first",
    }
}

/// Everything that decides what is generated. Lists keep their order: it is the order of
/// enumeration. Names are paths relative to the root of the file system under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The first part of the names of the workloads.
    pub name: String,
    /// The number of operations in a workload.
    pub ops: usize,
    /// The operations.
    pub operations: Vec<Operation>,
    /// Files that every operation on files is applied to.
    pub first_files: Vec<String>,
    /// Files that are only the other name of `link` and `rename`, or taken away.
    pub second_files: Vec<String>,
    /// Directories that are made and renamed.
    pub first_dirs: Vec<String>,
    /// Directories that are renamed, and renamed to. A directory is never renamed to a place
    /// inside itself or around itself, which cannot succeed.
    pub second_dirs: Vec<String>,
    /// Modes of `falloc`.
    pub falloc_modes: Vec<FallocMode>,
    /// Ranges of `write` and `falloc`.
    pub write_ranges: Vec<DataRange>,
    /// Ranges of `dwrite` and `mmapwrite`, which are widened to whole blocks.
    pub block_ranges: Vec<DataRange>,
    /// Sizes of `truncate` in bytes.
    pub truncate_sizes: Vec<u64>,
    /// Pairs of `link`.
    pub link_pairs: LinkPairs,
    /// Persistence operations.
    pub persistence: Vec<Persistence>,
    /// What they are applied to.
    pub persist_names: PersistNames,
    /// Which sequences of parameters are kept.
    pub reuse: Reuse,
    /// Leave out workloads of which every operation is `write`.
    pub skip_all_write: bool,
    /// The first operation appends and not all of them do.
    pub append_first: bool,
}

impl Bounds {
    /// ACE's bounds for `ops` operations: seq-1, seq-2, and from 3 on those of ace.py for
    /// three, in which only used names are persisted and operations must overlap.
    pub fn of_length(ops: usize) -> Self {
        let long = ops >= 3;
        Bounds {
            name: format!("seq-{ops}"),
            ops,
            operations: Operation::PAPER.to_vec(),
            first_files: names(&["foo", "A/foo"]),
            second_files: names(&["bar", "A/bar"]),
            first_dirs: names(&["A"]),
            second_dirs: names(&["B"]),
            falloc_modes: vec![
                FallocMode::ZeroRange,
                FallocMode::ZeroRangeKeepSize,
                FallocMode::PunchHole,
                FallocMode::KeepSize,
                FallocMode::Allocate,
            ],
            write_ranges: vec![
                DataRange::Append,
                DataRange::OverlapUnalignedStart,
                DataRange::OverlapExtend,
            ],
            block_ranges: vec![DataRange::Append, DataRange::OverlapStart],
            truncate_sizes: vec![0, 2500],
            link_pairs: LinkPairs::IntoSecond,
            persistence: vec![Persistence::Fsync, Persistence::Sync, Persistence::None],
            persist_names: if long {
                PersistNames::Used
            } else {
                PersistNames::Related
            },
            reuse: if long { Reuse::Overlap } else { Reuse::Any },
            skip_all_write: long,
            append_first: false,
        }
    }

    /// Adds ACE's third level: `A/C/foo`, `A/C/bar` and `A/C`.
    pub fn nest(&mut self) {
        self.first_files.push("A/C/foo".to_owned());
        self.second_files.push("A/C/bar".to_owned());
        self.second_dirs.push("A/C".to_owned());
    }

    /// Takes `fdatasync` away, which the published ace.py does not have among its operations.
    pub fn as_shipped(&mut self) {
        self.operations
            .retain(|operation| *operation != Operation::Fdatasync);
    }

    /// Names bounds that are nobody's preset, so that their indices are not taken for another's.
    pub fn name_as_custom(&mut self) {
        self.name.clear();
        let digest = blake3::hash(format!("{self:?}").as_bytes()).to_hex();
        self.name = format!("custom-{}-{}", self.ops, &digest[..6]);
    }
}

/// Owned names.
pub(crate) fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// Why bounds cannot be enumerated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BoundsError {
    /// Neither a preset nor a number of operations was given.
    #[error("no bounds: give a preset or a number of operations")]
    Missing,
    /// The number of operations is 0 or more than [`crate::MAX_OPS`].
    #[error("cannot generate workloads of {0} operations; 1 to {max} are possible", max = crate::MAX_OPS)]
    Ops(usize),
    /// There is nothing to choose from.
    #[error("no workload is within these bounds: {0}")]
    Empty(&'static str),
    /// A name that the text form could not show, or that leaves the file system.
    #[error("'{0}' is not a relative path of plain components")]
    Path(String),
    /// One name is used for a file and for a directory, perhaps after a rename.
    #[error("'{0}' would be a file and a directory")]
    FileAndDirectory(String),
    /// More names than fit.
    #[error("more than {max} names, counting those that renames of directories make", max = crate::paths::MAX_PATHS)]
    TooManyPaths,
    /// More skeletons or workloads than can be addressed.
    #[error("too many workloads to address; narrow the operations, names or length")]
    TooMany,
}
