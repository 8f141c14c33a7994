//! The bytes that a workload writes.

/// The byte that operation number `operation` (setup and run counted together, from 0) writes
/// at `offset` of a file. It is never zero, and two operations less than 251 apart write
/// different bytes at every offset, so that old, new, foreign and lost data can be told apart.
pub fn byte(operation: usize, offset: u64) -> u8 {
    let place = offset + offset / 256 * 3 + offset / 4096 * 7;
    ((operation as u64 * 37 + place) % 251 + 1) as u8
}

/// The bytes of a whole write.
pub fn bytes(operation: usize, offset: u64, length: u64) -> Vec<u8> {
    (offset..offset + length).map(|offset| byte(operation, offset)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_operations_never_write_the_same_byte_and_never_a_zero() {
        for offset in (0..70_000).step_by(97) {
            let mut seen: Vec<u8> = (0..251).map(|operation| byte(operation, offset)).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 251, "at offset {offset}");
            assert!(!seen.contains(&0));
        }
    }
}
