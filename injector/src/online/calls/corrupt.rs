//! Bytes that are not what they should be: of a call that reads or writes, where the program has them.

use std::ops::Range;

use libc::pid_t;
use tracer::{read_memory, write_memory};

use super::super::plan::Corruption;

/// What a disk writes at once or not at all, in bytes.
const SECTOR: usize = 512;

/// How many bytes one call does at most (`MAX_RW_COUNT` of Linux).
const BYTES_MAX: usize = 0x7fff_f000;

/// Where the bytes of a call are in the memory of the thread that makes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    pub(super) thread: pid_t,
    pub(super) address: u64,
    /// In bytes.
    pub(super) len: usize,
}

/// Bytes as they were before they were corrupted, and as they are.
#[derive(Debug)]
pub(super) struct Spoilt {
    thread: pid_t,
    address: u64,
    before: Vec<u8>,
    now: Vec<u8>,
    /// How many bytes of the call come before the first that is wrong.
    right: usize,
}

impl Corruption {
    /// Which of so many bytes it is about.
    fn range(self, len: usize) -> Range<usize> {
        match self {
            Self::Bit => len / 2..(len / 2 + 1).min(len),
            Self::Zeros => 0..len,
            Self::Torn if len <= SECTOR => len..len,
            // At least one sector is as it should be, and at least one byte is not.
            Self::Torn => (len / 2).next_multiple_of(SECTOR).min(len - 1) / SECTOR * SECTOR..len,
        }
    }

    fn apply(self, bytes: &mut [u8]) {
        match self {
            Self::Bit => bytes.iter_mut().for_each(|byte| *byte ^= 1),
            Self::Zeros | Self::Torn => bytes.fill(0),
        }
    }

    /// Corrupts what is in a buffer. Nothing if there is nothing to corrupt, or nothing that it changes.
    pub(super) fn spoil(self, buffer: Buffer) -> Option<Spoilt> {
        let range = self.range(buffer.len.min(BYTES_MAX));
        let address = buffer.address.checked_add(range.start as u64)?;
        let mut before = vec![0; range.len()];
        read_memory(buffer.thread, address, &mut before).ok()?;
        let mut bytes = before.clone();
        self.apply(&mut bytes);
        if bytes == before {
            return None;
        }
        write_memory(buffer.thread, address, &bytes).ok()?;
        let first = before
            .iter()
            .zip(&bytes)
            .position(|(one, other)| one != other);
        Some(Spoilt {
            thread: buffer.thread,
            address,
            before,
            now: bytes,
            right: range.start + first?,
        })
    }
}

impl Spoilt {
    /// Whether a call that did so many bytes did a wrong one.
    pub(super) fn is_in(&self, bytes: usize) -> bool {
        bytes > self.right
    }

    /// Has the program's memory be as it was, but for what it has changed itself meanwhile. That of a
    /// thread which is no more needs nothing.
    pub(super) fn restore(&self) {
        let mut bytes = vec![0; self.now.len()];
        if read_memory(self.thread, self.address, &mut bytes).is_err() {
            return;
        }
        for ((byte, before), now) in bytes.iter_mut().zip(&self.before).zip(&self.now) {
            if byte == now {
                *byte = *before;
            }
        }
        let _ = write_memory(self.thread, self.address, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corruption_is_of_bytes_that_there_are() {
        for len in 0..3000 {
            for what in [Corruption::Bit, Corruption::Zeros, Corruption::Torn] {
                let range = what.range(len);
                assert!(
                    range.start <= range.end && range.end <= len,
                    "{what:?} {len}"
                );
                let is_nothing = len == 0 || (what == Corruption::Torn && len <= SECTOR);
                assert_eq!(range.is_empty(), is_nothing, "{what:?} {len}");
            }
        }
        assert_eq!(Corruption::Bit.range(4096), 2048..2049);
        assert_eq!(Corruption::Zeros.range(4096), 0..4096);
        let torn = [513, 600, 1024, 1025, 1600, 4096];
        let torn = torn.map(|len| Corruption::Torn.range(len).start);
        assert_eq!(torn, [512, 512, 512, 512, 1024, 2048]);
    }

    #[test]
    fn memory_is_as_it_was_afterwards() {
        let text = std::hint::black_box([b'x'; 4096]);
        let buffer = Buffer {
            thread: std::process::id().cast_signed(),
            address: text.as_ptr() as u64,
            len: text.len(),
        };
        let spoilt = Corruption::Torn.spoil(buffer).expect("something changed");
        let mut now = [1; 4096];
        read_memory(buffer.thread, buffer.address, &mut now).expect("read");
        assert!(now[..2048].iter().all(|byte| *byte == b'x') && now[2048..] == [0; 2048]);
        assert!(Corruption::Torn.spoil(buffer).is_none(), "it is so already");
        assert!(spoilt.is_in(2049) && !spoilt.is_in(2048));
        spoilt.restore();
        read_memory(buffer.thread, buffer.address, &mut now).expect("read");
        assert_eq!(now, [b'x'; 4096]);
    }
}
