//! Torn writes. What disks promise is that a sector is written whole or not at all (NVM Command
//! Set Specification, "Atomic Operations": AWUPF is at least one logical block); of a longer
//! write any part may be missing after a power failure, and not only its end.

use std::ops::Range;

/// The bytes that are lost of a write, one way of tearing it after the other: the second half,
/// the first half, the last unit, the first one, one in the middle. All other parts that could be
/// missing are between these. A unit begins at a multiple of `unit` on the disk, not in the
/// write; a write within one cannot be torn.
pub(super) fn cuts(offset: u64, length: u64, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let first = offset / unit;
    let units = offset
        .saturating_add(length)
        .div_ceil(unit)
        .saturating_sub(first);
    let half = units / 2;
    let parts = [
        (units > 1, half..units),
        (units > 1, 0..half),
        (units > 2, units.saturating_sub(1)..units),
        (units > 3, 0..1),
        (units > 2, half..half + 1),
    ];
    let byte = move |unit_number: u64| {
        (first + unit_number)
            .saturating_mul(unit)
            .saturating_sub(offset)
            .min(length)
    };
    parts
        .into_iter()
        .filter(|(exists, _)| *exists)
        .map(move |(_, part)| byte(part.start)..byte(part.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(offset: u64, length: u64, unit: u64) -> Vec<Range<u64>> {
        cuts(offset, length, unit).collect()
    }

    #[test]
    fn a_write_is_torn_between_units_of_the_disk() {
        assert_eq!(of(512, 512, 512), []);
        assert_eq!(of(0, 1024, 512), [512..1024, 0..512]);
        assert_eq!(
            of(4096, 1536, 512),
            [512..1536, 0..512, 1024..1536, 512..1024]
        );
        assert_eq!(
            of(0, 4096, 512),
            [2048..4096, 0..2048, 3584..4096, 0..512, 2048..2560]
        );
        // From 3 KiB to 9 KiB: the units are the disk's, and a part of one is written or not.
        assert_eq!(
            of(3072, 6144, 4096),
            [1024..6144, 0..1024, 5120..6144, 1024..5120]
        );
        assert_eq!(of(1024, 3072, 4096), []);
        assert_eq!(of(0, 0, 512), []);
    }
}
