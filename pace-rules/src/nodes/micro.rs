//! Operations cut into what can persist alone.

mod cutter;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::Effect;
use super::model::Model;
use super::narrow::{NARROW_MAX, Narrow, Span};
use super::space::Request;
use crate::Sector;
use cutter::Cutter;
use trace::Node;

/// Something that is on a node's disk or not, if a crash comes in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Micro {
    /// The event it is part of, as an index into the node's events.
    pub event: usize,
    /// What it does.
    pub effect: Effect,
}

/// Into how many pieces a write is cut that can persist by half.
///
/// With a model of a file system the pieces are whole pages. What goes to a place that the file has
/// already is also torn within a page, between sectors: a write to one page is cut into so many
/// pieces as any other, and of one to several pages the first and the last sector are pieces too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// So many, equal but for rounding. One is never torn.
    Count(u64),
    /// At multiples of so many bytes of the file.
    Aligned(u64),
}

impl Default for Split {
    /// As PACE cuts.
    fn default() -> Self {
        Self::Count(3)
    }
}

/// `3` or `aligned:4096`, as it is read.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(pieces) => write!(f, "{pieces}"),
            Self::Aligned(bytes) => write!(f, "aligned:{bytes}"),
        }
    }
}

/// The most pieces: a write is cut into a list of them.
const PIECES_MAX: u64 = 4096;

/// The largest multiple at which writes are cut, in bytes. No write is larger.
const ALIGNED_MAX: u64 = 1 << 32;

impl FromStr for Split {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        let number = |words: &str, most: u64| {
            let number = words.parse().ok();
            number.filter(|number| (1..=most).contains(number))
        };
        let split = match words.strip_prefix("aligned:") {
            Some(bytes) => number(bytes, ALIGNED_MAX).map(Self::Aligned),
            None => number(words, PIECES_MAX).map(Self::Count),
        };
        split.ok_or_else(|| {
            format!(
                "a number of pieces up to {PIECES_MAX}, or aligned:BYTES with up to {ALIGNED_MAX}"
            )
        })
    }
}

/// What the page cache keeps, and writes as a whole.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Micros that persist as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    /// Which ones.
    pub(super) micros: Span,
    pub(super) order: Order,
    /// The group of the same operation without which this one is not kept either.
    pub(super) requires: Option<Neighbour>,
    /// Micros of the groups that it repeats: it is lost if one of them is, and never else. Nothing if
    /// it is something of its own.
    pub(super) repeats: Box<[usize]>,
}

/// For each event of a node the groups that can persist without one another, in order. An event
/// that leaves nothing to lose has none.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    all: Vec<Cut>,
    /// Where those of each event end.
    ends: Vec<Narrow>,
}

impl Cuts {
    /// Those of an event.
    pub(super) fn of(&self, event: usize) -> &[Cut] {
        let start = event.checked_sub(1).map_or(0, |last| self.ends[last].get());
        &self.all[start..self.ends[event].get()]
    }

    /// How many there are of all events.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many events have any.
    pub(super) fn operations(&self) -> usize {
        let is_one = |event: &usize| !self.of(*event).is_empty();
        (0..self.ends.len()).filter(is_one).count()
    }

    /// Adds one to the next event.
    fn push(&mut self, cut: Cut) {
        self.all.push(cut);
    }

    /// The next event has no more.
    fn end_event(&mut self) {
        self.ends.push(Narrow::new(self.all.len()));
    }

    fn shrink_to_fit(&mut self) {
        self.all.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// What a group waits for, of what was done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// It is kept in the order of names and sizes.
    Named,
    /// It can be kept whatever else is: it takes the place of bytes that have one on the disk.
    InPlace,
    /// It is kept only if all names and sizes are of events before this one.
    After(Narrow),
}

/// Another group of the same operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbour {
    Previous,
    Next,
    /// The next one, and that one not without this one: until a sync keeps one of them, they are
    /// one.
    Paired,
}

/// A node's operations as micros.
#[derive(Debug, Clone)]
pub(super) struct Micros {
    pub(super) all: Arc<[Micro]>,
    /// For each event: how many micros there are up to it.
    ends: Arc<[Narrow]>,
}

/// A node's operations, cut into what can persist alone, in order; nothing if there are more than
/// can be numbered ([`Error::TooLong`](super::Error::TooLong)).
pub fn micros(node: &Node, model: &Model) -> Option<Vec<Micro>> {
    let sector_bytes = Sector::default().bytes();
    let cutter = Cutter::cut_all(node, model, Split::default(), sector_bytes, NARROW_MAX);
    Some(cutter?.micros)
}

impl Micros {
    /// Those of a node, and the groups that they are; nothing if the events, the micros and what
    /// is numbered of both are more than `most`. What other models make the same of is shared with
    /// them.
    pub(super) fn of(
        node: &Node,
        request: &Request,
        most: usize,
        others: &[&Self],
    ) -> Option<(Self, Cuts)> {
        let sector_bytes = request.sector.bytes();
        let cutter = Cutter::cut_all(node, request.model, request.split, sector_bytes, most)?;
        let is_same = |other: &&&Self| *other.all == *cutter.micros && *other.ends == *cutter.ends;
        let shared = others.iter().find(is_same).map(|other| (**other).clone());
        let micros = shared.unwrap_or_else(|| Self {
            all: cutter.micros.into(),
            ends: cutter.ends.into(),
        });
        Some((micros, cutter.groups))
    }

    /// How many micros the first so many events have.
    pub(super) fn until(&self, events: usize) -> usize {
        if events == 0 {
            0
        } else {
            self.ends[events - 1].get()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_cut_without_end_is_refused() {
        for text in ["1", "4096", "aligned:1", "aligned:4294967296"] {
            let split: Split = text.parse().unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(split.to_string(), text);
        }
        for text in [
            "",
            "0",
            "-1",
            "4097",
            "4000000000",
            "aligned:0",
            "aligned:4294967297",
            "aligned:18446744073709551615",
        ] {
            let why = text.parse::<Split>().expect_err(text);
            assert!(
                why.starts_with("a number of pieces up to 4096, or "),
                "{why}"
            );
        }
    }
}
