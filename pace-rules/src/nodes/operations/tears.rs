//! The ways to tear a write.

use std::ops::{Range, RangeInclusive};

use super::{Operation, Operations};
use crate::nodes::Effect;
use crate::nodes::micro::Micros;
use crate::nodes::narrow::{Narrow, Span};

/// A write is torn in so many ways at most, if its pieces are not [`MANY`].
pub(in crate::nodes) const TEARS_MAX: usize = 6;

/// Of a write in so many pieces each is lost alone. A split into as few as PACE's makes fewer: three
/// times three, where the write begins within the file and ends past that, and four more where sectors
/// end. Where there are more, it would take too long to say of each until when it can be lost.
const MANY: RangeInclusive<usize> = 14..=1024;

/// A part of the bytes of a write that a crash can cost while it leaves the rest.
#[derive(Debug, Clone)]
pub(super) struct Tear {
    /// The groups that are lost, ascending.
    groups: Box<[Narrow]>,
    /// The last event after which that can be: what is lost is not durable, and neither is all of
    /// what is left.
    pub(super) until: Narrow,
}

impl Operations {
    /// The ways to tear an operation that a crash after so many events can take, as numbers.
    pub(in crate::nodes) fn tears(
        &self,
        operation: usize,
        events: usize,
    ) -> impl Iterator<Item = usize> {
        let operation = &self.all[operation];
        let is_ahead = move |tear: &Tear| operation.event() < events && events <= tear.until.get();
        let tears = self.tears_of(operation).iter().enumerate();
        tears
            .filter(move |(_, tear)| is_ahead(tear))
            .map(|(number, _)| number)
    }

    /// The groups that are lost if an operation is torn in one of its ways.
    pub(in crate::nodes) fn torn(&self, operation: usize, tear: usize) -> Vec<usize> {
        let tear = &self.tears_of(&self.all[operation])[tear];
        tear.groups.iter().map(|group| group.get()).collect()
    }

    /// Whether there are ways to tear an operation.
    pub(in crate::nodes) fn has_tears(&self, operation: usize) -> bool {
        !self.tears_of(&self.all[operation]).is_empty()
    }

    /// The ways to tear an operation.
    pub(super) fn tears_of(&self, operation: &Operation) -> &[Tear] {
        &self.tears[operation.tears.range()]
    }

    /// Finds the ways to tear each operation.
    pub(super) fn tear(&mut self, micros: &Micros) {
        for operation in 0..self.all.len() {
            let pieces = self.pieces(operation, micros);
            let first = self.tears.len();
            let parts = parts(&pieces).into_iter();
            let tears = parts.filter_map(|part| self.tear_of(operation, part));
            let tears: Vec<_> = tears.collect();
            self.tears.extend(tears);
            self.all[operation].tears = Span::new(first..self.tears.len());
        }
        self.tears.shrink_to_fit();
    }

    /// An operation without some of its pieces; nothing if these are none, or all.
    fn tear_of(&self, operation: usize, pieces: &[Range<usize>]) -> Option<Tear> {
        let cover = |group: usize| self.groups[group].cover;
        let groups: Vec<_> = pieces.iter().cloned().flatten().collect();
        let lost = groups.iter().map(|group| cover(*group)).min()?;
        let all = self.all[operation].groups();
        let rest = all.filter(|group| !groups.contains(group));
        let until = lost.min(rest.map(cover).max()?);
        let groups = groups.into_iter().map(Narrow::new).collect();
        Some(Tear { groups, until })
    }

    /// The pieces into which the bytes of an operation are cut, as groups. Those in which the same
    /// bytes become one thing after the other are one piece.
    fn pieces(&self, operation: usize, micros: &Micros) -> Vec<Range<usize>> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut last_place = None;
        for group in self.all[operation].groups() {
            let place = place_of(&micros.all[self.groups[group].micros().end - 1].effect);
            let is_bytes = place.is_some() && self.is_bytes(group);
            match pieces.last_mut() {
                _ if !is_bytes => {}
                Some(last) if place == last_place => last.end = group + 1,
                _ => pieces.push(group..group + 1),
            }
            if is_bytes {
                last_place = place;
            }
        }
        pieces
    }
}

/// What a write that is torn lacks of its pieces: the last one, the first one, or all between them,
/// and of many also the last two, the first two or all between those. A few are enough: a record that is torn lacks its
/// head, its end, or its middle. A write that somebody wants split into more also lacks each alone.
fn parts(pieces: &[Range<usize>]) -> Vec<&[Range<usize>]> {
    let [head, middle @ .., end] = pieces else {
        return Vec::new();
    };
    let (head, end) = (std::slice::from_ref(head), std::slice::from_ref(end));
    let none = &pieces[..0];
    let (first_two, inner, last_two) = match pieces {
        [_, _, inner @ .., _, _] => (&pieces[..2], inner, &pieces[pieces.len() - 2..]),
        _ => (none, none, none),
    };
    let parts: [_; TEARS_MAX] = [end, head, middle, last_two, first_two, inner];
    let each = if MANY.contains(&pieces.len()) {
        middle
    } else {
        &[]
    };
    let each = each.iter().map(std::slice::from_ref);
    parts.into_iter().chain(each).collect()
}

/// Which bytes of a file an effect changes: the first, and how many.
fn place_of(effect: &Effect) -> Option<(u64, u64)> {
    match effect {
        Effect::Write {
            offset, content, ..
        }
        | Effect::Overwrite {
            offset, content, ..
        } => Some((*offset, content.len())),
        _ => None,
    }
}
