//! Logs of dm-log-writes are read or refused, and what is read lies on the disk.

#![no_main]

use block_dev::{LogWrites, LogWritesError};
use libfuzzer_sys::fuzz_target;

const DISK_BYTES: u64 = 1 << 24;
const SECTOR_BYTES: usize = 512;
/// So many entries are spelled out, of writes of fewer sectors than this.
const ENTRIES_MAX: usize = 64;
const SECTORS_MAX: u8 = 8;
/// Of what has data or text after it in its sector (drivers/md/dm-log-writes.c).
const DISCARD: u8 = 4;
const MARK: u8 = 8;

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes);
    let refused = read(&spelled_out(bytes)).err();
    assert!(
        bytes.len() >= 5 || refused.is_none(),
        "a log without an entry is refused: {refused:?}"
    );
});

fn read(bytes: &[u8]) -> Result<(), LogWritesError> {
    match LogWrites::read(bytes, bytes.len() as u64, DISK_BYTES) {
        Ok(found) => {
            assert_eq!(found.log.len(), found.entry_numbers.len());
            for (place, entry) in found.log.entries().iter().enumerate() {
                let (offset, length) = entry.range();
                assert!(offset + length <= DISK_BYTES);
                assert!(found.log.data(place).len() as u64 <= length);
            }
            for pair in &found.unordered {
                for place in [pair.place, pair.fua_place] {
                    let (offset, length) = found.log.entries()[place].range();
                    assert!(offset <= pair.offset && pair.offset + pair.length <= offset + length);
                }
            }
            Ok(())
        }
        Err(error) => {
            let (LogWritesError::Damaged { offset, .. } | LogWritesError::Io { offset, .. }) =
                &error;
            assert!(*offset <= bytes.len() as u64);
            Err(error)
        }
    }
}

/// A log with an entry for each five bytes. In a real one 32 of 512 bytes say something, and most
/// damage misses them or is refused at once: how entries act together is not tried by that.
fn spelled_out(short: &[u8]) -> Vec<u8> {
    let entries = short.chunks_exact(5).take(ENTRIES_MAX);
    let mut log = b"rhswfsj\0".to_vec();
    for number in [1, entries.len() as u64, SECTOR_BYTES as u64] {
        log.extend(number.to_le_bytes());
    }
    log.resize(SECTOR_BYTES, 0);
    for (number, entry) in entries.enumerate() {
        let [sector, sectors, flags, text_bytes, fill] = *entry else {
            unreachable!("chunks of five")
        };
        let (start, sectors) = (log.len(), sectors % SECTORS_MAX);
        for field in [sector, sectors, flags, text_bytes] {
            log.extend(u64::from(field).to_le_bytes());
        }
        // What comes next is text too.
        log.extend(short[number * 5 + 5..].iter().take(text_bytes.into()));
        log.resize(start + SECTOR_BYTES, 0);
        if flags & (DISCARD | MARK) == 0 {
            log.resize(log.len() + usize::from(sectors) * SECTOR_BYTES, fill);
        }
    }
    log
}
