//! Subsets of a given size, counted and addressed.

/// How many ways there are to choose `size` of `of`; `u128::MAX` stands for that many or more.
pub(crate) fn count(of: usize, size: usize) -> u128 {
    if size > of {
        return 0;
    }
    // Chosen or left out is the same number, and with the smaller one every step counts upwards:
    // the first that does not fit decides.
    let size = size.min(of - size);
    let mut count: u128 = 1;
    for step in 1..=size as u128 {
        let factor = of as u128 - step + 1;
        // `count * factor` is a multiple of `step`, but need not fit.
        let common = greatest_common_divisor(count, step);
        match (count / common).checked_mul(factor / (step / common)) {
            Some(next) => count = next,
            None => return u128::MAX,
        }
    }
    count
}

/// The subset number `index` of those with `size` members of `0..of`, ascending. They are in
/// lexical order: first the one with the lowest members.
pub(crate) fn nth(mut index: u128, of: usize, size: usize) -> Vec<usize> {
    let mut members = Vec::with_capacity(size);
    let mut next = 0;
    for left in (0..size).rev() {
        loop {
            let with_next = count(of - next - 1, left);
            next += 1;
            if index < with_next {
                members.push(next - 1);
                break;
            }
            index -= with_next;
        }
    }
    members
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_counted_exactly_as_far_as_128_bits_go() {
        assert_eq!(count(0, 0), 1);
        assert_eq!(count(5, 6), 0);
        assert_eq!(count(60, 30), 118_264_581_564_861_424);
        // Pascal's rule, up to the last row of which all fits.
        for of in 1..=130 {
            for size in 1..=of {
                assert_eq!(
                    count(of, size),
                    count(of - 1, size - 1) + count(of - 1, size),
                    "{size} of {of}"
                );
            }
        }
        assert_eq!(count(140, 70), u128::MAX);
        assert_eq!(count(1000, 998), 499_500);
    }

    #[test]
    fn subsets_come_in_lexical_order_each_once() {
        let all: Vec<_> = (0..count(4, 2)).map(|index| nth(index, 4, 2)).collect();
        assert_eq!(all, [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!(nth(0, 3, 0), Vec::<usize>::new());
        assert_eq!(
            nth(count(130, 65) - 1, 130, 65),
            (65..130).collect::<Vec<_>>()
        );
    }
}
