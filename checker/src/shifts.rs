//! Collapse and insert move the bytes of a file, extent by extent. Until that is durable, a crash
//! may show the file before it, after it, or with some of the extents moved.
//!
//! `ext4_collapse_range` and `ext4_insert_range` (fs/ext4/extents.c), `xfs_collapse_file_space` and
//! `xfs_insert_file_space` (fs/xfs/xfs_bmap_util.c) write out what lies past the offset first. Then
//! they move extents, to the left from the first one on, to the right from the last one on, in
//! transactions of which a log may hold only the first ones. So there is one place up to which the
//! bytes are at their old places and from which they are at their new ones, or the other way round,
//! and a hole between the two as long as the range.

use local_fs::Content;

use crate::content::{FileContent, is_zero, zeros_from};
use crate::history::{Bound, Time};
use crate::model::{DurableRange, ModelInode};

/// An operation that moved the bytes past an offset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shift {
    pub(crate) time: Time,
    pub(crate) to: Direction,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Where bytes were moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// To the start of the file: a range was collapsed.
    Left,
    /// To the end: a range was inserted.
    Right,
}

impl Shift {
    /// A file's content as it would be with the range removed, or with a hole in it.
    fn moved(&self, content: &FileContent, to: Direction) -> FileContent {
        let mut content = content.clone();
        let size_bytes = self.place(content.size_bytes(), to);
        match to {
            Direction::Left => content.collapse(self.offset, self.length),
            Direction::Right => content.insert(self.offset, self.length),
        }
        content.extend(size_bytes);
        content.truncate(size_bytes);
        content
    }

    /// Where the end of a range that ends at `at` is moved.
    fn place(&self, at: u64, to: Direction) -> u64 {
        match to {
            _ if at <= self.offset => at,
            Direction::Left => at.saturating_sub(self.length).max(self.offset),
            Direction::Right => at + self.length,
        }
    }

    /// Whether a file may be one in which it was begun and not ended, by which of its bytes are
    /// wrong before it and after it, in order: up to a hole it is as on the one side, from the end
    /// of the hole on as on the other.
    pub(crate) fn may_be_half_done(
        &self,
        found: &Content,
        wrong_before: &[u64],
        wrong_after: &[u64],
    ) -> bool {
        let (left, right) = match self.to {
            Direction::Left => (wrong_after, wrong_before),
            Direction::Right => (wrong_before, wrong_after),
        };
        let Some(latest) = left.first().copied() else {
            return true;
        };
        let end = right.last().map_or(0, |at| at + 1);
        let earliest = end.saturating_sub(self.length).max(self.offset);
        let starts = zeros_from(found).filter(|start| (earliest..=latest).contains(start));
        let mut starts = starts.chain((earliest <= latest).then_some(earliest));
        starts.any(|start| is_zero(found, start..start + self.length))
    }
}

impl Direction {
    fn back(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// The shifts of a file that a crash may show or not.
pub(crate) fn open_shifts(file: &ModelInode) -> Vec<Shift> {
    let allowed = file.content.allowed(Bound::START);
    let first = allowed[0].0;
    let shifts = file.shifts.iter().copied();
    shifts.filter(|shift| shift.time > first).collect()
}

/// A file with all of its versions laid out as they are after the first `done` of its open shifts.
///
/// Bytes that were written after a later shift are where they are on the disk, which a crash may
/// have left with the extents at their old places; so are older ones that were not moved yet.
pub(crate) fn laid_out(file: &ModelInode, shifts: &[Shift], done: usize) -> ModelInode {
    let mut layout = file.clone();
    layout.content = file
        .content
        .map(|time, content| lay_out(content, time, shifts, done));
    for range in &mut layout.durable_ranges {
        let made = made(shifts, range.bound.time);
        for shift in shifts.iter().take(done).skip(made) {
            *range = DurableRange {
                start: shift.place(range.start, shift.to),
                end: shift.place(range.end, shift.to),
                ..*range
            };
        }
    }
    // What a collapse takes out is given back before anything is moved.
    if let Some(next) = shifts.get(done).filter(|next| next.to == Direction::Left) {
        let mut punched = layout.content.at(next.time - 1).clone();
        punched.zero(next.offset, next.offset + next.length);
        layout.content.insert_before(next.time, punched);
    }
    layout
}

/// How many of the shifts had been made at a time.
fn made(shifts: &[Shift], time: Time) -> usize {
    shifts.partition_point(|shift| shift.time <= time)
}

fn lay_out(content: &FileContent, time: Time, shifts: &[Shift], done: usize) -> FileContent {
    let made = made(shifts, time);
    let mut content = content.clone();
    for shift in shifts[..made].iter().skip(done).rev() {
        content = shift.moved(&content, shift.to.back());
    }
    for shift in shifts[..done].iter().skip(made) {
        content = shift.moved(&content, shift.to);
    }
    content
}

/// From how many open shifts on the file may be found: a range that was made durable on its own is
/// where it was then.
pub(crate) fn first_layout(file: &ModelInode, shifts: &[Shift]) -> usize {
    let bounds = file.durable_ranges.iter().map(|range| range.bound.time);
    made(shifts, bounds.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_ranges_move_with_the_bytes_after_the_offset() {
        let shift = |to| Shift {
            time: 0,
            to,
            offset: 8192,
            length: 4096,
        };
        let (left, right) = (Direction::Left, Direction::Right);
        for at in [0, 4096, 8192] {
            assert_eq!(shift(left).place(at, left), at);
            assert_eq!(shift(right).place(at, right), at);
        }
        // What was collapsed is where it began.
        let collapsed = [8193, 12288, 12289, 16384].map(|at| shift(left).place(at, left));
        assert_eq!(collapsed, [8192, 8192, 8193, 12288]);
        let inserted = [8193, 12288].map(|at| shift(right).place(at, right));
        assert_eq!(inserted, [12289, 16384]);
    }
}
