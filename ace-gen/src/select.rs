//! Which of the workloads are wanted: a range, a sample, a shard, only the unique ones.

use std::collections::BTreeSet;
use std::iter::StepBy;
use std::ops::Range;

use campaign::Shard;

use crate::generator::Generator;
use crate::unique::{Removed, Unique};

/// Some workloads chosen at random, the same ones for the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// How many.
    pub count: u64,
    /// What decides which.
    pub seed: u64,
}

/// Which workloads are wanted. Applied in this order: unique, range, sample, shard.
/// Workloads keep their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Only those that differ from all earlier ones, earlier than the range too.
    pub unique: bool,
    /// Only these numbers.
    pub range: Option<Range<u64>>,
    /// Only some at random.
    pub sample: Option<Sample>,
    /// Only those of one part.
    pub shard: Option<Shard>,
}

impl Selection {
    /// The numbers of the wanted workloads, in order.
    pub fn indices<'a>(&self, generator: &'a Generator) -> Indices<'a> {
        let range = self.range_in(generator);
        let wanted = Wanted {
            range: range.clone(),
            shard: self.shard,
        };
        match (self.unique, self.sample) {
            (false, None) => Indices {
                source: Source::steps(range, self.shard),
                removed: None,
            },
            (true, None) => Indices {
                source: Source::Unique(Box::new(generator.unique()), wanted),
                removed: Some(Removed::default()),
            },
            (false, Some(sample)) => {
                let chosen = sample
                    .positions(range.end - range.start)
                    .into_iter()
                    .map(|at| range.start + at);
                Indices {
                    source: wanted.list(chosen),
                    removed: None,
                }
            }
            (true, Some(sample)) => {
                let (unique, removed) = all_unique(generator, &range);
                let chosen = sample
                    .positions(unique.len() as u64)
                    .into_iter()
                    .map(|at| unique[at as usize]);
                Indices {
                    source: wanted.list(chosen),
                    removed: Some(removed),
                }
            }
        }
    }

    /// How many are wanted, and how many were left out because they are not unique.
    pub fn count(&self, generator: &Generator) -> (u64, Option<Removed>) {
        let mut indices = self.indices(generator);
        let count = match &indices.source {
            Source::Steps(steps) => steps.size_hint().0 as u64,
            _ => indices.by_ref().count() as u64,
        };
        (count, indices.removed())
    }

    fn range_in(&self, generator: &Generator) -> Range<u64> {
        let range = self.range.clone().unwrap_or(0..u64::MAX);
        let end = range.end.min(generator.len());
        range.start.min(end)..end
    }
}

fn all_unique(generator: &Generator, range: &Range<u64>) -> (Vec<u64>, Removed) {
    let mut unique = generator.unique();
    let kept = std::iter::from_fn(|| unique.next_index())
        .filter(|index| range.contains(index))
        .collect();
    (kept, unique.removed())
}

impl Sample {
    /// Distinct positions below `len`, in order (Floyd's algorithm).
    fn positions(self, len: u64) -> BTreeSet<u64> {
        let mut chosen = BTreeSet::new();
        let mut state = self.seed;
        for last in len.saturating_sub(self.count)..len {
            let at = below(last + 1, &mut state);
            chosen.insert(if chosen.contains(&at) { last } else { at });
        }
        chosen
    }
}

/// A number below `bound` (SplitMix64).
fn below(bound: u64, state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    ((u128::from(z) * u128::from(bound)) >> 64) as u64
}

/// What a number must satisfy.
#[derive(Debug, Clone)]
struct Wanted {
    range: Range<u64>,
    shard: Option<Shard>,
}

impl Wanted {
    fn contains(&self, index: u64) -> bool {
        self.range.contains(&index) && self.shard.is_none_or(|shard| shard.contains(index))
    }

    fn list<'a>(&self, indices: impl Iterator<Item = u64>) -> Source<'a> {
        let kept: Vec<_> = indices.filter(|index| self.contains(*index)).collect();
        Source::List(kept.into_iter())
    }
}

/// The numbers of wanted workloads, in order. See [`Selection::indices`].
#[derive(Debug)]
pub struct Indices<'a> {
    source: Source<'a>,
    removed: Option<Removed>,
}

#[derive(Debug)]
enum Source<'a> {
    Steps(Steps),
    List(std::vec::IntoIter<u64>),
    Unique(Box<Unique<'a>>, Wanted),
}

type Steps = StepBy<Range<u64>>;

impl Source<'_> {
    fn steps(range: Range<u64>, shard: Option<Shard>) -> Self {
        let (start, step) = shard.map_or((range.start, 1), |shard| {
            (shard.first_from(range.start), shard.count())
        });
        Source::Steps((start..range.end).step_by(step as usize))
    }
}

impl Indices<'_> {
    /// What was left out as not unique so far; `None` if everything is wanted.
    pub fn removed(&self) -> Option<Removed> {
        match &self.source {
            Source::Unique(unique, _) => Some(unique.removed()),
            _ => self.removed,
        }
    }
}

impl Iterator for Indices<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match &mut self.source {
            Source::Steps(steps) => steps.next(),
            Source::List(list) => list.next(),
            Source::Unique(unique, wanted) => loop {
                let index = unique.next_index()?;
                if wanted.contains(index) {
                    return Some(index);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_distinct_positions_and_repeats_itself() {
        let sample = Sample { count: 50, seed: 7 };
        assert_eq!(sample.positions(60).len(), 50);
        assert_eq!(sample.positions(60), sample.positions(60));
        assert_ne!(
            sample.positions(1000),
            Sample { seed: 8, ..sample }.positions(1000)
        );
        assert_eq!(sample.positions(10), (0..10).collect());
    }

    #[test]
    fn a_shard_has_a_number_from_1_to_n() {
        for bad in ["0/3", "4/3", "1", "a/b", "1/0", ""] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
        let shard: Shard = "2/3".parse().unwrap();
        assert_eq!(
            (
                shard.first_from(0),
                shard.first_from(1),
                shard.first_from(2)
            ),
            (1, 1, 4)
        );
    }
}
