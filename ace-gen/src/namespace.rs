//! A small model of a file system: which names exist and what they are. It lets phase 4 know
//! what an operation still needs in order to succeed.

use crate::paths::{PathId, PathTable};

/// What a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Dir,
    Symlink,
    Special,
}

/// A file, whatever its names are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// In bytes.
    pub(crate) size: u64,
    /// Whether data was ever written to it.
    pub(crate) written: bool,
    pub(crate) xattr: bool,
}

/// No file has this number.
const ABSENT: u16 = u16::MAX;

/// The names that exist.
#[derive(Debug, Clone)]
pub(crate) struct Namespace {
    at: Vec<u16>,
    nodes: Vec<Node>,
}

impl Namespace {
    pub(crate) fn new(paths: &PathTable) -> Self {
        Namespace {
            at: vec![ABSENT; paths.len()],
            nodes: Vec::new(),
        }
    }

    /// An empty file system with its root.
    pub(crate) fn clear(&mut self, root: PathId) {
        self.at.fill(ABSENT);
        self.nodes.clear();
        self.make(root, Kind::Dir);
    }

    pub(crate) fn exists(&self, path: PathId) -> bool {
        self.at[usize::from(path)] != ABSENT
    }

    pub(crate) fn kind(&self, path: PathId) -> Option<Kind> {
        self.exists(path)
            .then(|| self.nodes[usize::from(self.at[usize::from(path)])].kind)
    }

    /// The file called `path`, which exists.
    pub(crate) fn node(&mut self, path: PathId) -> &mut Node {
        &mut self.nodes[usize::from(self.at[usize::from(path)])]
    }

    pub(crate) fn make(&mut self, path: PathId, kind: Kind) {
        self.at[usize::from(path)] = self.nodes.len() as u16;
        self.nodes.push(Node {
            kind,
            size: 0,
            written: false,
            xattr: false,
        });
    }

    pub(crate) fn remove(&mut self, path: PathId) {
        self.at[usize::from(path)] = ABSENT;
    }

    pub(crate) fn link(&mut self, source: PathId, dest: PathId) {
        self.at[usize::from(dest)] = self.at[usize::from(source)];
    }

    /// Whether both names exist and are links of one file.
    pub(crate) fn same_file(&self, one: PathId, other: PathId) -> bool {
        self.exists(one) && self.at[usize::from(one)] == self.at[usize::from(other)]
    }

    /// Moves each name, all at once; `from` and `to` do not meet.
    pub(crate) fn move_all(&mut self, names: &[(PathId, PathId)]) {
        for &(from, to) in names {
            self.at[usize::from(to)] = std::mem::replace(&mut self.at[usize::from(from)], ABSENT);
        }
    }

    /// Swaps two files, or two directories with what is below each.
    pub(crate) fn swap(&mut self, there: &[(PathId, PathId)], back: &[(PathId, PathId)]) {
        let values: Vec<_> = there
            .iter()
            .chain(back)
            .map(|&(from, to)| (to, self.at[usize::from(from)]))
            .collect();
        for &(from, _) in there.iter().chain(back) {
            self.remove(from);
        }
        for (to, value) in values {
            self.at[usize::from(to)] = value;
        }
    }
}
