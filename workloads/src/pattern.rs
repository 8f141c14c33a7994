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
    (offset..offset + length)
        .map(|offset| byte(operation, offset))
        .collect()
}

/// Within a piece of a file of this size each byte follows from the one before it.
const PIECE_BYTES: usize = 256;

/// Fewer such bytes than this may be there by chance.
const FOLLOWING_BYTES_MIN: usize = 16;

/// How far [`begins`] looks for the first byte that is not zero: a write need not begin where its
/// block does.
const LEADING_ZEROS_MAX: usize = 4096;

/// Whether what lies on a disk begins with bytes that a workload wrote, as a block of a file does,
/// whatever operation wrote them and wherever the file has them. Zeros before them do not matter. A
/// block of metadata begins with other things, even one that has a small file in it. Of a file with
/// a few bytes, or of data that is compressed or encrypted, this says no.
pub fn begins(content: &[u8]) -> bool {
    let content = &content[..content.len().min(LEADING_ZEROS_MAX)];
    let Some(start) = content.iter().position(|byte| *byte != 0) else {
        return false;
    };
    let end = (start / PIECE_BYTES + 1) * PIECE_BYTES;
    let follows = |pair: &[u8]| pair[1] == pair[0] % 251 + 1;
    let Some(first) = content.get(start..end.min(start + FOLLOWING_BYTES_MIN)) else {
        return false;
    };
    first.len() == FOLLOWING_BYTES_MIN && first.windows(2).all(follows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_files_are_known_whoever_wrote_them_and_wherever() {
        for (operation, offset) in [(0, 0), (7, 4096), (250, 512), (1000, 1 << 30)] {
            assert!(
                begins(&bytes(operation, offset, 512)),
                "{operation} at {offset}"
            );
        }
        // The rest of the block was never written.
        assert!(begins(&[vec![0; 1000], bytes(3, 5096, 3096)].concat()));
        assert!(begins(&[bytes(3, 0, 16), vec![0; 496]].concat()));
    }

    #[test]
    fn what_only_has_such_bytes_in_it_is_not_a_block_of_a_file() {
        assert!(!begins(&[]));
        assert!(!begins(&[0; 4096]));
        assert!(!begins(&[1; 4096]));
        assert!(!begins(
            &(0..=255)
                .map(|byte: u8| byte.reverse_bits())
                .collect::<Vec<_>>()
        ));
        // A small file in its inode, or in a leaf of a tree.
        assert!(!begins(&[b"XDB3".to_vec(), bytes(3, 0, 508)].concat()));
        assert!(!begins(&bytes(3, 0, 15)));
    }

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
