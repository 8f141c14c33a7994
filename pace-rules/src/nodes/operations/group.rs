//! Groups: what persists as a whole.

use std::ops::Range;

use trace::FileId;

/// What persists as a whole.
#[derive(Debug, Clone)]
pub(in crate::nodes) struct Group {
    /// The operation it is part of, as an index.
    pub(in crate::nodes) operation: usize,
    /// Its micros.
    pub(in crate::nodes) micros: Range<usize>,
    /// The event after whose return it is durable; `usize::MAX` if nothing made it so.
    pub(in crate::nodes) cover: usize,
    /// The event after whose return it is not durable any more, and the one that makes it so
    /// again; `usize::MAX` if there is none.
    pub(super) reopened: usize,
    pub(super) covered_again: usize,
    /// It is kept only if all groups of names before this number are.
    pub(super) after: usize,
    /// Whether it is one of those itself.
    pub(super) is_named: bool,
    /// Whether it goes where nothing of the file has a place on the disk.
    pub(super) is_new: bool,
    /// The event from which on it may be kept without them: a sync that keeps its file for itself.
    pub(super) logged: usize,
    pub(super) file: FileId,
    /// Whether it only sets a size.
    pub(super) is_size: bool,
    /// The group without which it is not lost, nor that one without it; `usize::MAX` if there is
    /// none.
    pub(super) pair: usize,
    /// The first group of names that is kept only if the data of this one is; `usize::MAX` if there
    /// is none.
    pub(super) awaited_by: usize,
    /// The groups that it repeats: it is lost if one of them is, and never else. Nothing if it is
    /// something of its own.
    pub(in crate::nodes) repeats: Box<[usize]>,
}

impl Group {
    /// The event after whose return it is durable, for a crash after so many events.
    pub(in crate::nodes) fn cover_at(&self, events: usize) -> usize {
        if events > self.reopened {
            self.covered_again
        } else {
            self.cover
        }
    }

    /// Whether a crash after so many events can cost it.
    pub(in crate::nodes) fn is_open(&self, events: usize) -> bool {
        self.cover_at(events) >= events
    }

    /// Whether it is nothing of its own.
    pub(in crate::nodes) fn is_repetition(&self) -> bool {
        !self.repeats.is_empty()
    }

    /// When a crash can cost it: after more events than the first number, and up to the second.
    pub(super) fn at_risk(&self, event: usize) -> impl Iterator<Item = (usize, usize)> {
        let again = (self.reopened < usize::MAX).then_some((self.reopened, self.covered_again));
        [(event, self.cover)].into_iter().chain(again)
    }
}
