//! Logs of dm-log-writes are read or refused, and what is read lies on the disk.

#![no_main]

use block_dev::{LogWrites, LogWritesError};
use libfuzzer_sys::fuzz_target;

const DISK_BYTES: u64 = 1 << 24;

fuzz_target!(|bytes: &[u8]| {
    match LogWrites::read(bytes, bytes.len() as u64, DISK_BYTES) {
        Ok(found) => {
            assert_eq!(found.log.len(), found.entry_numbers.len());
            for (place, entry) in found.log.entries().iter().enumerate() {
                let (offset, length) = entry.range();
                assert!(offset + length <= DISK_BYTES);
                assert!(found.log.data(place).len() as u64 <= length);
            }
        }
        Err(LogWritesError::Damaged { offset, .. } | LogWritesError::Io { offset, .. }) => {
            assert!(offset <= bytes.len() as u64);
        }
    }
});
