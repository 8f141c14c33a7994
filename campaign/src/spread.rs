//! In which order items are visited of which a sweep may see only some.

/// The numbers below `count`, from the last one on, so that the first so many are always spread
/// over all of them (the sequence of van der Corput).
pub fn spread(count: u64) -> impl Iterator<Item = u64> + Send {
    let bits = count.next_power_of_two().trailing_zeros();
    let turned = move |number: u64| match bits {
        0 => 0,
        bits => number.reverse_bits() >> (u64::BITS - bits),
    };
    let all = 0..count.next_power_of_two();
    let below = all.map(turned).filter(move |number| *number < count);
    below.map(move |number| count - 1 - number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_so_many_are_spread_over_all() {
        assert_eq!(spread(0).count(), 0);
        assert_eq!(spread(1).collect::<Vec<_>>(), [0]);
        let mut all: Vec<_> = spread(100).collect();
        for part in [2, 4, 8] {
            let quarter = 100 / part;
            let mut seen: Vec<_> = all[..part as usize].iter().map(|n| n / quarter).collect();
            seen.sort_unstable();
            seen.dedup();
            assert!(seen.len() as u64 >= part / 2, "{seen:?}");
        }
        assert_eq!(all[0], 99, "the end of a run comes first");
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}
