//! Where files have data: what is not there is zeros, and need not be read.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// The ranges of a file that are no holes, in order, as first byte and end.
pub(crate) fn data_extents(file: &File, size_bytes: u64) -> Result<Vec<(u64, u64)>, Errno> {
    let mut extents = Vec::new();
    let mut at = 0;
    while at < size_bytes {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno),
        };
        at = seek(file, SeekFrom::Hole(start))?.min(size_bytes);
        if start < at {
            extents.push((start, at));
        }
    }
    Ok(extents)
}

/// Where a file has data in its first `size_bytes` bytes, or `known` has: ranges in order, of which
/// none touches another. Everything else is zeros in both.
///
/// # Errors
/// If it cannot be asked.
pub fn with_data(
    file: &File,
    size_bytes: u64,
    known: impl Iterator<Item = Range<u64>>,
) -> io::Result<Vec<Range<u64>>> {
    let extents = data_extents(file, size_bytes)?;
    let real = extents.into_iter().map(|(start, end)| start..end);
    let known = known.map(|range| range.start..range.end.min(size_bytes));
    let mut all: Vec<_> = real
        .chain(known)
        .filter(|range| !range.is_empty())
        .collect();
    all.sort_unstable_by_key(|range| range.start);
    all.dedup_by(|later, range| {
        let touches = later.start <= range.end;
        if touches {
            range.end = range.end.max(later.end);
        }
        touches
    });
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_hole_that_nobody_knows_data_in_is_left_out() {
        const GIB: u64 = 1 << 30;
        let file = tempfile::tempfile_in("/dev/shm").expect("a file");
        file.set_len(8 * GIB).expect("grown");
        file.write_all_at(b"here", 5 * GIB).expect("written");
        let known = [10..20, 15..30, 7 * GIB..9 * GIB];
        let ranges = with_data(&file, 8 * GIB, known.into_iter()).expect("asked");
        let page = 5 * GIB..5 * GIB + 4096;
        assert_eq!(ranges, [10..30, page, 7 * GIB..8 * GIB]);
    }
}
