//! Some of very many numbers, drawn without looking at them all.

use std::collections::BTreeSet;

/// `size` different numbers below `below`, ascending, each set of them as likely as any other;
/// all there are if those are fewer. (R. W. Floyd's method, Communications of the ACM, 1987.)
pub(crate) fn draw(size: u32, below: u128, seed: u64) -> Vec<u128> {
    let mut random = Random(seed);
    let mut drawn = BTreeSet::new();
    for last in below.saturating_sub(size.into())..below {
        let number = random.up_to(last);
        if !drawn.insert(number) {
            drawn.insert(last);
        }
    }
    drawn.into_iter().collect()
}

/// Some of the states of several kinds, of which there are so many each, one kind after the other:
/// `size` numbers, or all if those are fewer. For each kind those that were drawn, ascending, each
/// choice as likely as any other. Each kind has the same part of them, and what one is short of goes
/// to the others: what is rare would hardly be drawn beside millions of another kind.
pub fn sample_of_kinds(kinds: &[u64], size: u64, seed: u64) -> Vec<Vec<u64>> {
    // What lies beyond all numbers has none that could be drawn.
    let within = |first: &mut u64, states: &u64| {
        let own = (*states).min(u64::MAX - *first);
        *first += own;
        Some(own)
    };
    let kinds: Vec<_> = kinds.iter().scan(0, within).collect();
    let parts = parts(&kinds, size.min(u32::MAX.into()));
    let mut first = 0_u64;
    let mut drawn_of = |(kind, (states, part)): (usize, (&u64, u64))| {
        let end = first + *states;
        let part = u32::try_from(part).expect("no more were asked for");
        let drawn = draw(part, (end - first).into(), seed.wrapping_add(kind as u64));
        let drawn: Vec<_> = drawn
            .into_iter()
            .map(|number| first + number as u64)
            .collect();
        first = end;
        drawn
    };
    let kinds = kinds.iter().zip(parts).enumerate();
    kinds.map(&mut drawn_of).collect()
}

/// How many are drawn of each kind.
fn parts(kinds: &[u64], size: u64) -> Vec<u64> {
    let mut by_size: Vec<_> = (0..kinds.len()).collect();
    by_size.sort_by_key(|kind| kinds[*kind]);
    let mut parts = vec![0; kinds.len()];
    let mut left = size;
    for (place, kind) in by_size.into_iter().enumerate() {
        parts[kind] = kinds[kind].min(left / (kinds.len() - place) as u64);
        left -= parts[kind];
    }
    parts
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Our own, because a seed that is printed with
/// a finding must give the same numbers with every later version of this program.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn up_to(&mut self, last: u128) -> u128 {
        let mask = u128::MAX.checked_shr(last.leading_zeros()).unwrap_or(0);
        loop {
            let number = (u128::from(self.next()) << 64 | u128::from(self.next())) & mask;
            if number <= last {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_what_it_always_gave() {
        // The first output for seed 0 in the reference implementation.
        assert_eq!(Random(0).next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(draw(3, 1 << 60, 7), draw(3, 1 << 60, 7));
        assert_ne!(draw(3, 1 << 60, 7), draw(3, 1 << 60, 8));
    }

    #[test]
    fn each_kind_has_its_part_of_a_sample() {
        let sizes = |kinds: &[u64], size| {
            let drawn = sample_of_kinds(kinds, size, 1);
            drawn.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[1_000_000, 10, 500], 60), [25, 10, 25]);
        assert_eq!(sizes(&[1_000_000, 10, 500], 2), [1, 0, 1]);
        assert_eq!(sizes(&[3, 0, 2], 60), [3, 0, 2]);
        assert_eq!(sizes(&[u64::MAX - 3, u64::MAX, 7], 10), [7, 3, 0]);
        assert!(sizes(&[], 10).is_empty());
        let drawn = sample_of_kinds(&[100, 100], 20, 1);
        assert!(drawn[0].iter().all(|number| *number < 100), "{drawn:?}");
        let second = drawn[1].iter().map(|number| number - 100);
        assert!(second.clone().all(|number| number < 100), "{drawn:?}");
        assert_ne!(drawn[0], second.collect::<Vec<_>>());
        assert_eq!(drawn, sample_of_kinds(&[100, 100], 20, 1));
        assert_ne!(drawn, sample_of_kinds(&[100, 100], 20, 3));
    }

    #[test]
    fn no_number_is_drawn_twice_and_none_is_out_of_reach() {
        assert_eq!(draw(5, 3, 1), [0, 1, 2]);
        assert_eq!(draw(1, 0, 1), []);
        let mut times = [0; 10];
        for seed in 0..1000 {
            let drawn = draw(3, 10, seed);
            assert_eq!(drawn.len(), 3);
            for number in drawn {
                times[number as usize] += 1;
            }
        }
        // 300 each if it is fair; 6 standard deviations are 87.
        assert!(
            times.iter().all(|times| (213..387).contains(times)),
            "{times:?}"
        );
    }
}
