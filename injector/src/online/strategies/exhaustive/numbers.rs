//! Which numbers runs have that begin with the same failures.

/// The numbers of all runs that begin with the same failures and have more: every so-manieth from the first
/// one on.
///
/// Of the `count` runs with one failure more, these have the first ranks. The other ranks go round: the next
/// `count` are one run of each that begins as those do, and so on. So a number means the same whatever else was
/// tried, as soon as it is known what came of the runs that it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    first: u64,
    step: u64,
}

impl Numbers {
    /// Those of all runs.
    pub(super) const ALL: Self = Self { first: 0, step: 1 };

    /// The number with that rank; nothing if there are no numbers for so many runs.
    pub(super) fn number(self, rank: u64) -> Option<u64> {
        self.first.checked_add(self.step.checked_mul(rank)?)
    }

    /// Of a number of these, the rank.
    fn rank(self, number: u64) -> u64 {
        (number - self.first) / self.step
    }

    /// Those that begin as the run with that rank, of `count` with one failure more.
    pub(super) fn after(self, rank: u64, count: u64) -> Option<Self> {
        Some(Self {
            first: self.number(count.checked_add(rank)?)?,
            step: self.step.checked_mul(count)?,
        })
    }

    /// Which one of `count` runs with one failure more a number is of: its rank, and whether it has no other
    /// failure beside. Nothing if there are none.
    pub(super) fn place(self, number: u64, count: u64) -> Option<(u64, bool)> {
        let rank = self.rank(number);
        Some((rank.checked_rem(count)?, rank < count))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// How many runs there are with one failure more than one with these.
    fn count(failures: &[u64]) -> u64 {
        match failures {
            [] => 3,
            [first] => first + 1,
            [first, second] => 2 * first + second,
            _ => 2,
        }
    }

    /// Adds the numbers of all runs of up to four failures that begin with these; each is read back.
    fn number_all(failures: &mut Vec<u64>, numbers: Numbers, all: &mut BTreeSet<u64>) {
        let most = count(failures);
        for rank in 0..most {
            let number = numbers.number(rank).expect("a number");
            assert!(all.insert(number), "{failures:?} {rank}: {number} is taken");
            failures.push(rank);
            assert_eq!(&read(number), failures);
            if failures.len() < 4 {
                number_all(failures, numbers.after(rank, most).expect("numbers"), all);
            }
            failures.pop();
        }
    }

    fn read(number: u64) -> Vec<u64> {
        let (mut numbers, mut failures) = (Numbers::ALL, Vec::new());
        loop {
            let most = count(&failures);
            let (rank, is_last) = numbers.place(number, most).expect("there is one");
            numbers = numbers.after(rank, most).expect("numbers");
            failures.push(rank);
            if is_last {
                return failures;
            }
        }
    }

    #[test]
    fn each_number_is_of_one_run_and_those_of_singles_and_pairs_are_simple() {
        let mut all = BTreeSet::new();
        number_all(&mut Vec::new(), Numbers::ALL, &mut all);
        assert_eq!(read(2), [2]);
        assert_eq!(read(3 + 1), [1, 0]);
        assert_eq!(read(2 * 3 + 1), [1, 1]);
        // The first of three singles has one pair, which has no triple.
        assert_eq!(
            Numbers::ALL.after(0, 3),
            Some(Numbers { first: 3, step: 3 })
        );
        assert_eq!(Numbers::ALL.place(1, 0), None);
        assert_eq!(
            Numbers {
                first: 1,
                step: u64::MAX
            }
            .number(2),
            None
        );
    }
}
