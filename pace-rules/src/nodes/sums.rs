//! Sums of counts, one after the other.

/// For each of some counts, the sum of those up to it, in as little room as they need: mostly there
/// is one state of each tuple, or few.
#[derive(Debug, Clone)]
pub(super) enum Sums {
    /// So many counts, all of them 1.
    Ones(usize),
    /// Sums that are small.
    Narrow(Vec<u32>),
    /// Any. `u64::MAX` stands for that or more.
    Wide(Vec<u64>),
}

impl Sums {
    pub(super) fn of(counts: impl Iterator<Item = u64>) -> Self {
        let mut sums = Self::Ones(0);
        let mut sum = 0_u64;
        for count in counts {
            sum = sum.saturating_add(count);
            sums.push(sum);
        }
        match &mut sums {
            Self::Ones(_) => {}
            Self::Narrow(sums) => sums.shrink_to_fit(),
            Self::Wide(sums) => sums.shrink_to_fit(),
        }
        sums
    }

    fn push(&mut self, sum: u64) {
        match self {
            Self::Ones(counts) if sum == *counts as u64 + 1 => *counts += 1,
            Self::Ones(counts) => {
                let ones = (1..).take(*counts);
                *self = Self::Narrow(ones.collect());
                self.push(sum);
            }
            Self::Narrow(sums) => {
                if let Ok(sum) = u32::try_from(sum) {
                    return sums.push(sum);
                }
                let wide = sums.iter().copied().map(u64::from);
                *self = Self::Wide(wide.chain([sum]).collect());
            }
            Self::Wide(sums) => sums.push(sum),
        }
    }

    /// How many counts there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Ones(counts) => *counts,
            Self::Narrow(sums) => sums.len(),
            Self::Wide(sums) => sums.len(),
        }
    }

    /// The sum of the first so many counts.
    pub(super) fn of_first(&self, counts: usize) -> u64 {
        let Some(last) = counts.checked_sub(1) else {
            return 0;
        };
        match self {
            Self::Ones(_) => counts as u64,
            Self::Narrow(sums) => sums[last].into(),
            Self::Wide(sums) => sums[last],
        }
    }

    /// The sum of all counts.
    pub(super) fn total(&self) -> u64 {
        self.of_first(self.len())
    }

    /// The place of the count that reaches beyond a number that is less than all together.
    pub(super) fn find(&self, number: u64) -> usize {
        match self {
            Self::Ones(_) => number as usize,
            Self::Narrow(sums) => sums.partition_point(|sum| u64::from(*sum) <= number),
            Self::Wide(sums) => sums.partition_point(|sum| *sum <= number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a list of all.
    fn check(counts: &[u64]) -> Sums {
        let sums = Sums::of(counts.iter().copied());
        assert_eq!(sums.len(), counts.len());
        let mut before = 0_u64;
        for (place, count) in counts.iter().enumerate() {
            assert_eq!(sums.of_first(place), before);
            let after = before.saturating_add(*count);
            if after > before {
                assert_eq!((sums.find(before), sums.find(after - 1)), (place, place));
            }
            before = after;
        }
        assert_eq!(sums.total(), before);
        sums
    }

    #[test]
    fn sums_are_the_same_in_whatever_room() {
        assert!(matches!(check(&[]), Sums::Ones(0)));
        assert!(matches!(check(&[1, 1, 1]), Sums::Ones(3)));
        assert!(matches!(check(&[0, 0, 3]), Sums::Narrow(_)));
        assert!(matches!(check(&[1, 1, 0, 2, 0]), Sums::Narrow(_)));
        assert!(matches!(
            check(&[1, 2, u32::MAX.into(), 0, 1]),
            Sums::Wide(_)
        ));
        assert!(matches!(check(&[1, 1 << 40, 5]), Sums::Wide(_)));
        assert!(matches!(check(&[1, u64::MAX, 0]), Sums::Wide(_)));
    }
}
