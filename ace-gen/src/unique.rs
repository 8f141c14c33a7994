//! Leaves out workloads that a file system could not tell from an earlier one.
//!
//! Two workloads are the same to a file system if they make the same sequence of system calls
//! with the same arguments after phase 4. Such pairs come from the permutations that ACE
//! enumerates after fdatasync and mmapwrite, where they are not used, and from operations
//! whose dependencies are another's operation. remove(3) of a file is unlink(2). Workloads that
//! differ only in the names of files are kept: names have an order in a directory.

use std::collections::{HashMap, HashSet};
use std::fmt;

use workloads::Workload;

use crate::action::{Action, Sink};
use crate::generator::{Generator, Walker};
use crate::paths::PathTable;
use crate::text::TextSink;

/// How many workloads were left out, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Of how many.
    pub total: u64,
    /// Identical to an earlier one but for the number.
    pub equal: u64,
    /// Identical to an earlier one but for `remove` in place of `unlink`.
    pub remove_is_unlink: u64,
}

impl Removed {
    /// How many were left out.
    pub fn count(&self) -> u64 {
        self.equal + self.remove_is_unlink
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (
            count,
            Removed {
                total,
                equal,
                remove_is_unlink,
            },
        ) = (self.count(), *self);
        write!(
            f,
            "removed {count} of {total}: {equal} equal, {remove_is_unlink} that say remove for unlink"
        )
    }
}

/// The workloads that differ from all earlier ones, with their numbers. It keeps a digest of
/// 128 bits for each of them.
#[derive(Debug, Clone)]
pub struct Unique<'a> {
    walk: Walker<'a>,
    paths: &'a PathTable,
    next: u64,
    len: u64,
    /// Digests of what a file system sees, and whether it was written like that, with `unlink`.
    seen: HashMap<Digest, bool>,
    /// Digests of the texts with `remove`.
    with_remove: HashSet<Digest>,
    removed: Removed,
    seen_text: Vec<u8>,
    own_text: Vec<u8>,
}

type Digest = [u8; 16];

impl<'a> Unique<'a> {
    pub(crate) fn new(generator: &'a Generator, paths: &'a PathTable) -> Self {
        Unique {
            walk: generator.walk(),
            paths,
            next: 0,
            len: generator.len(),
            seen: HashMap::new(),
            with_remove: HashSet::new(),
            removed: Removed::default(),
            seen_text: Vec::new(),
            own_text: Vec::new(),
        }
    }

    /// The number of the next workload that differs from all earlier ones.
    pub fn next_index(&mut self) -> Option<u64> {
        while self.next < self.len {
            let index = self.next;
            self.next += 1;
            self.removed.total += 1;
            if self.is_new(index) {
                return Some(index);
            }
        }
        None
    }

    /// What was left out so far.
    pub fn removed(&self) -> Removed {
        self.removed
    }

    fn is_new(&mut self, index: u64) -> bool {
        self.seen_text.clear();
        self.own_text.clear();
        let mut sink = SeenSink {
            paths: self.paths,
            seen: &mut self.seen_text,
            own: &mut self.own_text,
        };
        self.walk.resolve(index, &mut sink);
        let seen = digest(&self.seen_text);
        let as_written = self.seen_text == self.own_text;
        let known = self.seen.get(&seen).copied();
        let equal = if as_written {
            known == Some(true)
        } else {
            !self.with_remove.insert(digest(&self.own_text))
        };
        match known {
            Some(_) if equal => self.removed.equal += 1,
            Some(_) => self.removed.remove_is_unlink += 1,
            None => {}
        }
        self.seen.insert(seen, known == Some(true) || as_written);
        known.is_none()
    }
}

impl Iterator for Unique<'_> {
    type Item = (u64, Workload);

    fn next(&mut self) -> Option<(u64, Workload)> {
        self.next_index()
            .map(|index| (index, self.walk.workload(index)))
    }
}

fn digest(text: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(&blake3::hash(text).as_bytes()[..16]);
    digest
}

/// Writes what a file system sees, and beside it what the workload says.
struct SeenSink<'a> {
    paths: &'a PathTable,
    seen: &'a mut Vec<u8>,
    own: &'a mut Vec<u8>,
}

impl Sink for SeenSink<'_> {
    fn act(&mut self, action: Action) {
        let effect = match action {
            Action::Remove(path) => Action::Unlink(path),
            other => other,
        };
        TextSink {
            paths: self.paths,
            line: &mut *self.own,
        }
        .act(action);
        TextSink {
            paths: self.paths,
            line: &mut *self.seen,
        }
        .act(effect);
    }
}
