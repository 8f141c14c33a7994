//! Delta debugging: what of a list is needed.

/// The smallest part of `items` that was found for which `test` still holds, which it does for all
/// of them: without any single one of its items it does not. Larger pieces are tried first.
///
/// It is the algorithm ddmin of Zeller and Hildebrandt, "Simplifying and Isolating
/// Failure-Inducing Input" (2002), without its step to a subset: what is left of a workload when
/// most of it is taken away hardly ever runs.
///
/// # Errors
/// If `test` fails.
pub fn ddmin<T: Clone, E>(
    items: &[T],
    mut test: impl FnMut(&[T]) -> Result<bool, E>,
) -> Result<Vec<T>, E> {
    let mut left = items.to_vec();
    let mut piece = left.len();
    while piece > 0 {
        let mut taken = false;
        let mut end = left.len();
        // What comes late rests on what came early, and goes first.
        while end > 0 {
            let start = end.saturating_sub(piece);
            let without: Vec<T> = left[..start].iter().chain(&left[end..]).cloned().collect();
            if test(&without)? {
                left = without;
                taken = true;
            }
            end = start;
        }
        // One that is gone may have been all that needed another.
        if !(taken && piece == 1) {
            piece /= 2;
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn minimal(items: &[u32], holds: impl Fn(&[u32]) -> bool) -> (Vec<u32>, usize) {
        let mut tests = 0;
        let test = |part: &[u32]| {
            tests += 1;
            Ok::<_, Infallible>(holds(part))
        };
        let Ok(left) = ddmin(items, test);
        (left, tests)
    }

    #[test]
    fn what_is_needed_is_left_and_nothing_else() {
        let items: Vec<_> = (0..40).collect();
        for needed in [vec![], vec![0], vec![39], vec![3, 17, 18], items.clone()] {
            let (left, _) = minimal(&items, |part| needed.iter().all(|item| part.contains(item)));
            assert_eq!(left, needed);
        }
    }

    #[test]
    fn what_is_needed_only_by_what_goes_goes_too() {
        // 1 cannot go before 2, which cannot go before 3.
        let consistent = |part: &[u32]| {
            part.contains(&0)
                && (!part.contains(&2) || part.contains(&1))
                && (!part.contains(&3) || part.contains(&2))
        };
        assert_eq!(minimal(&[0, 1, 2, 3], consistent).0, [0]);
    }

    #[test]
    fn one_of_many_is_found_soon() {
        let items: Vec<_> = (0..1000).collect();
        let (left, tests) = minimal(&items, |part| part.contains(&777));
        assert_eq!(left, [777]);
        assert!(tests < 40, "{tests}");
    }
}
