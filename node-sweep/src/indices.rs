//! Which states of a space are visited, and in which order.
//!
//! A sweep may be stopped at any time, by a budget or a user. So whatever was visited by then is of
//! all kinds and from the whole run: kinds take turns, and within a kind the states are spread, the
//! last of the run first, since most was promised by then.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use campaign::spread;
use pace_rules::sample_of_kinds;

use crate::error::{Error, Result};

/// At least and at most so many neighbours are visited together: what is the same in them is made
/// once, and to go elsewhere takes as long as to make some dozens of them.
const CHUNK: RangeInclusive<u64> = 64..=1024;

/// As long as that allows it, a kind is cut into so many parts.
const PARTS: u64 = 16;

/// States to visit, and how many they are.
pub(crate) struct Indices {
    /// Their numbers, none of them twice.
    pub(crate) all: Box<dyn Iterator<Item = u64> + Send>,
    /// How many.
    pub(crate) count: u64,
}

impl Indices {
    /// All states of the kinds that have so many each, or a `sample` of them, drawn with `seed`.
    ///
    /// # Errors
    /// If they are too many.
    pub(crate) fn of(
        kinds: impl IntoIterator<Item = u64>,
        sample: Option<u64>,
        seed: u64,
    ) -> Result<Self> {
        let kinds: Vec<_> = kinds.into_iter().collect();
        if let Some(size) = sample {
            let drawn = sample_of_kinds(&kinds, size, seed);
            let count = drawn.iter().map(|drawn| drawn.len() as u64).sum();
            let one_by_one = drawn.into_iter().map(|drawn| {
                spread(drawn.len() as u64).map(move |place| {
                    let number = drawn[place as usize];
                    number..number + 1
                })
            });
            return Ok(Self {
                count,
                all: Box::new(in_turns(one_by_one)),
            });
        }
        let ranges = ranges(kinds);
        let count = ranges.last().map_or(0, |range| range.end);
        if count == u64::MAX {
            return Err(Error::TooMany);
        }
        Ok(Self {
            count,
            all: Box::new(in_turns(ranges.into_iter().map(chunks))),
        })
    }
}

/// The numbers of the states of each kind.
fn ranges(kinds: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
    let next = |start: &mut u64, states: u64| {
        let first = *start;
        *start = start.saturating_add(states);
        Some(first..*start)
    };
    kinds.into_iter().scan(0, next).collect()
}

/// The chunks in which a range is visited.
fn chunks(range: Range<u64>) -> impl Iterator<Item = Range<u64>> + Send {
    let states = range.end - range.start;
    let len = (states / PARTS).clamp(*CHUNK.start(), *CHUNK.end());
    spread(states.div_ceil(len)).map(move |chunk| {
        let first = range.start + chunk * len;
        first..range.end.min(first + len)
    })
}

/// All numbers of the chunks of some kinds: the kinds take turns.
fn in_turns<Chunks: Iterator<Item = Range<u64>> + Send + 'static>(
    kinds: impl IntoIterator<Item = Chunks>,
) -> impl Iterator<Item = u64> + Send {
    let mut waiting: VecDeque<_> = kinds.into_iter().collect();
    let next = move || {
        loop {
            let mut chunks = waiting.pop_front()?;
            if let Some(chunk) = chunks.next() {
                waiting.push_back(chunks);
                return Some(chunk);
            }
        }
    };
    std::iter::from_fn(next).flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn visited(kinds: &[u64]) -> Vec<u64> {
        let indices = Indices::of(kinds.iter().copied(), None, 0).expect("they are few");
        let all: Vec<_> = indices.all.collect();
        assert_eq!(all.len() as u64, indices.count);
        all
    }

    #[test]
    fn each_state_is_visited_once() {
        for kinds in [
            &[][..],
            &[0],
            &[1],
            &[5, 0, 700],
            &[64, 65, 63],
            &[3000, 1, 129],
        ] {
            let all = visited(kinds);
            let sum: u64 = kinds.iter().sum();
            assert_eq!(
                all.iter().copied().collect::<BTreeSet<_>>(),
                (0..sum).collect(),
                "{kinds:?}"
            );
            assert_eq!(all.len() as u64, sum, "{kinds:?}");
        }
    }

    #[test]
    fn what_is_visited_first_is_of_all_kinds_and_from_the_whole_run() {
        const KINDS: [u64; 3] = [10_000, 40_000, 500];
        let begun: Vec<_> = visited(&KINDS).into_iter().take(10_000).collect();
        for (kind, range) in ranges(KINDS).into_iter().enumerate() {
            let len = range.end - range.start;
            for quarter in 0..4 {
                let part = range.start + quarter * len / 4..range.start + (quarter + 1) * len / 4;
                let some = begun.iter().any(|number| part.contains(number));
                assert!(some, "quarter {quarter} of kind {kind}");
            }
        }
        assert!(
            begun[..*CHUNK.end() as usize].contains(&9_999),
            "the end of the run comes first"
        );
    }

    #[test]
    fn of_a_sample_each_beginning_is_of_all_kinds_and_spread() {
        const KINDS: [u64; 3] = [1_000_000, 7000, 20];
        let indices = Indices::of(KINDS, Some(1020), 1).expect("they are few");
        assert_eq!(indices.count, 1020);
        let all: Vec<_> = indices.all.collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 1020);
        for (range, parts) in ranges(KINDS).into_iter().zip([500, 500, 20]) {
            let of_kind = |numbers: &[u64]| -> Vec<u64> {
                let of_kind = numbers.iter().filter(|number| range.contains(number));
                of_kind.copied().collect()
            };
            assert_eq!(of_kind(&all).len(), parts);
            let begun = of_kind(&all[..60]);
            assert_eq!(begun.len(), 20);
            let middle = range.start.midpoint(range.end);
            let early = begun.iter().filter(|number| **number < middle).count();
            assert!((5..=15).contains(&early), "{early} of 20");
        }
    }

    #[test]
    fn more_than_can_be_counted_are_refused() {
        assert!(Indices::of([u64::MAX, 7], None, 0).is_err());
    }
}
