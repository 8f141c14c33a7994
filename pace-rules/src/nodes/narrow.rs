//! Numbers of events, operations, micros and groups in half of the room of a `usize`: of a long run
//! there are very many of them.

use std::ops::Range;

/// More things of a node than this are not numbered.
pub(super) const NARROW_MAX: usize = u32::MAX as usize - 1;

/// The number of something of a node, or [`Self::NEVER`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Narrow(u32);

impl Narrow {
    /// Greater than all others: `usize::MAX`.
    pub(super) const NEVER: Self = Self(u32::MAX);

    /// # Panics
    /// If it is greater than [`NARROW_MAX`]. A run with so many events, or parts of them, is refused
    /// before they are numbered.
    pub(super) fn new(number: usize) -> Self {
        assert!(number <= NARROW_MAX, "{number} cannot be numbered");
        Self(number as u32)
    }

    pub(super) fn get(self) -> usize {
        if self == Self::NEVER {
            usize::MAX
        } else {
            self.0 as usize
        }
    }
}

/// Things with numbers in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: Narrow,
    end: Narrow,
}

impl Span {
    pub(super) const NONE: Self = Self {
        start: Narrow(0),
        end: Narrow(0),
    };

    /// # Panics
    /// As [`Narrow::new`] does.
    pub(super) fn new(range: Range<usize>) -> Self {
        Self {
            start: Narrow::new(range.start),
            end: Narrow::new(range.end),
        }
    }

    pub(super) fn range(self) -> Range<usize> {
        self.start.get()..self.end.get()
    }
}

/// Those of some numbers, ascending, that are in a range.
pub(super) fn within(numbers: &[Narrow], range: Range<usize>) -> impl Iterator<Item = usize> {
    let first = numbers.partition_point(|number| number.get() < range.start);
    let after = numbers[first..].iter().map(|number| number.get());
    after.take_while(move |number| *number < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_as_they_were_and_never_is_after_all_of_them() {
        for number in [0, 1, 70_000, NARROW_MAX] {
            assert_eq!(Narrow::new(number).get(), number);
            assert!(Narrow::new(number) < Narrow::NEVER);
        }
        assert_eq!(Narrow::NEVER.get(), usize::MAX);
        assert_eq!(Span::new(7..9).range(), 7..9);
    }

    #[test]
    #[should_panic(expected = "4294967295 cannot be numbered")]
    fn a_number_that_is_too_great_does_not_become_another_one() {
        Narrow::new(NARROW_MAX + 1);
    }
}
