//! Bytes that are not what they should be: of a call that reads or writes, where the program has them.

use block_dev::Corruption;
use libc::pid_t;
use tracer::{read_memory, write_memory};

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

/// Corrupts what is in a buffer. Nothing if there is nothing to corrupt, or nothing that it changes.
pub(super) fn spoil(what: Corruption, buffer: Buffer) -> Option<Spoilt> {
    let range = what.range(buffer.len.min(BYTES_MAX));
    let address = buffer.address.checked_add(range.start as u64)?;
    let mut before = vec![0; range.len()];
    read_memory(buffer.thread, address, &mut before).ok()?;
    let mut bytes = before.clone();
    what.apply(&mut bytes);
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
    fn memory_is_as_it_was_afterwards() {
        let text = std::hint::black_box([b'x'; 4096]);
        let buffer = Buffer {
            thread: std::process::id().cast_signed(),
            address: text.as_ptr() as u64,
            len: text.len(),
        };
        let spoilt = spoil(Corruption::Torn, buffer).expect("something changed");
        let mut now = [1; 4096];
        read_memory(buffer.thread, buffer.address, &mut now).expect("read");
        assert!(now[..2048].iter().all(|byte| *byte == b'x') && now[2048..] == [0; 2048]);
        assert!(
            spoil(Corruption::Torn, buffer).is_none(),
            "it is so already"
        );
        assert!(spoilt.is_in(2049) && !spoilt.is_in(2048));
        spoilt.restore();
        read_memory(buffer.thread, buffer.address, &mut now).expect("read");
        assert_eq!(now, [b'x'; 4096]);
    }
}
