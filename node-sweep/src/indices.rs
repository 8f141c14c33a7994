//! Which states of a space are visited, and in which order.
//!
//! A sweep may be stopped at any time, by a budget or a user. So whatever was visited by then is of
//! all kinds and from the whole run: kinds take turns, and within a kind the states are spread, the
//! last of the run first, since most was promised by then. Those right after a sync or an
//! acknowledgement take turns with the others of their kind, which are mostly more. A sample is one
//! of all.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

use campaign::spread;
use pace_rules::nodes::Spaces;
use pace_rules::sample_of_kinds;
use trace::Run;

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
    /// All states that models allow of a run, or a `sample` of them, drawn with `seed`.
    ///
    /// # Errors
    /// If they are too many.
    pub(crate) fn of_calls(
        spaces: &Spaces,
        run: &Run,
        sample: Option<u64>,
        seed: u64,
    ) -> Result<Self> {
        let states = spaces.counts().into_iter().map(|(_, count)| count.states);
        if sample.is_some() {
            return Self::of(states, sample, seed);
        }
        let kinds = states.zip(spaces.promised(run));
        Self::of(
            kinds.map(|(states, early)| Kind { states, early }),
            sample,
            seed,
        )
    }

    /// All states of these kinds, or a `sample` of them, drawn with `seed`.
    ///
    /// # Errors
    /// If they are too many.
    pub(crate) fn of(
        kinds: impl IntoIterator<Item = impl Into<Kind>>,
        sample: Option<u64>,
        seed: u64,
    ) -> Result<Self> {
        let kinds: Vec<Kind> = kinds.into_iter().map(Into::into).collect();
        if let Some(size) = sample {
            let states: Vec<_> = kinds.iter().map(|kind| kind.states).collect();
            let drawn = sample_of_kinds(&states, size, seed);
            let count = drawn.iter().map(|drawn| drawn.len() as u64).sum();
            let one_by_one = drawn.into_iter().map(|drawn| {
                spread(drawn.len() as u64).map(move |place| {
                    let number = drawn[place as usize];
                    vec![number..number + 1]
                })
            });
            return Ok(Self {
                count,
                all: Box::new(in_turns(one_by_one)),
            });
        }
        let count = kinds.iter().map(|kind| kind.states);
        let count = count.fold(0, u64::saturating_add);
        if count == u64::MAX {
            return Err(Error::TooMany);
        }
        let next = |start: &mut u64, kind: Kind| {
            let first = *start;
            *start += kind.states;
            let (early, late) = kind.in_order(first);
            Some([chunks(early), chunks(late)])
        };
        let kinds: Vec<_> = kinds.into_iter().scan(0, next).flatten().collect();
        Ok(Self {
            count,
            all: Box::new(in_turns(kinds)),
        })
    }
}

/// The states of a kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kind {
    /// How many they are.
    pub(crate) states: u64,
    /// Those that take turns with the others, by their numbers in it. Ascending.
    pub(crate) early: Vec<Range<u64>>,
}

impl From<u64> for Kind {
    /// Of which all are visited alike.
    fn from(states: u64) -> Self {
        Self {
            states,
            early: Vec::new(),
        }
    }
}

impl Kind {
    /// These of its states, and the others, if the number of its first one is this.
    fn in_order(self, first: u64) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let after = self.early.iter().map(|range| range.end);
        let before = self.early.iter().map(|range| range.start);
        let late = [0].into_iter().chain(after);
        let late = late.zip(before.chain([self.states]));
        let late = late.filter(|(start, end)| start < end);
        let late = late
            .map(|(start, end)| first + start..first + end)
            .collect();
        let early = self.early.into_iter();
        let early = early.map(|range| first + range.start..first + range.end);
        (early.collect(), late)
    }
}

/// The chunks in which some ranges are visited.
fn chunks(ranges: Vec<Range<u64>>) -> impl Iterator<Item = Vec<Range<u64>>> + Send {
    let sum = |sum: &mut u64, range: &Range<u64>| {
        *sum += range.end - range.start;
        Some(*sum)
    };
    let ends: Vec<_> = ranges.iter().scan(0, sum).collect();
    let states = ends.last().copied().unwrap_or(0);
    let len = (states / PARTS).clamp(*CHUNK.start(), *CHUNK.end());
    spread(states.div_ceil(len)).map(move |chunk| {
        let (first, end) = (chunk * len, states.min((chunk + 1) * len));
        let from = ends.partition_point(|range_end| *range_end <= first);
        let own = ranges.iter().zip(&ends).skip(from);
        // The places of a range among all.
        let own = own.map(|(range, end)| (range, end - (range.end - range.start)));
        let own = own.take_while(|(_, start)| *start < end);
        let within = |(range, start): (&Range<u64>, u64)| {
            let last = range.end.min(range.start + (end - start));
            range.start + first.saturating_sub(start)..last
        };
        own.map(within).collect()
    })
}

/// All numbers of the chunks of some kinds: the kinds take turns.
fn in_turns<Chunks: Iterator<Item = Vec<Range<u64>>> + Send + 'static>(
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
    std::iter::from_fn(next).flatten().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The numbers of the states of each kind.
    fn ranges(kinds: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let next = |start: &mut u64, states: u64| {
            let first = *start;
            *start += states;
            Some(first..*start)
        };
        kinds.into_iter().scan(0, next).collect()
    }

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
    fn those_to_be_visited_early_take_turns_with_the_others_and_each_is_visited_once() {
        // Few of one kind, in many small ranges, and the end of another.
        let kinds = [
            (
                60_000,
                (0..1000)
                    .map(|number| 60 * number..60 * number + 2)
                    .collect(),
            ),
            (0, Vec::new()),
            (700, vec![690..700]),
            (5, Vec::new()),
        ];
        let kinds = kinds.map(|(states, early)| Kind { states, early });
        let indices = Indices::of(kinds.clone(), None, 0).expect("they are few");
        assert_eq!(indices.count, 60_705);
        let all: Vec<_> = indices.all.collect();
        assert_eq!(all.len(), 60_705);
        let different: BTreeSet<_> = all.iter().copied().collect();
        assert_eq!(different, (0..60_705).collect());
        let part = |kind: &Kind, first: u64, visited: &[u64]| {
            let is_early = |number: &&u64| {
                let mut early = kind.early.iter();
                early.any(|range| (range.start + first..range.end + first).contains(number))
            };
            visited.iter().filter(is_early).count()
        };
        // All of them are visited when the first part of the others is.
        assert_eq!(part(&kinds[0], 0, &all[..36_000]), 2000);
        assert_eq!(part(&kinds[2], 60_000, &all[..2000]), 10);
        // The end of the run comes first of these, too.
        assert!(all[..2000].contains(&59_941));
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
