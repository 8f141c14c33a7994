//! Bytes that become very many while they are gathered: some are held in memory, more in a file
//! without a name that is mapped into memory. The kernel can write that to the disk and take its
//! memory back.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// So many bytes are held in memory.
const HELD_BYTES_MAX: usize = if cfg!(test) { 100 } else { 16 << 20 };

/// Where the file is made, unless `TMPDIR` says where: on a disk, where `/tmp` may be in memory.
const DIRECTORY: &str = "/var/tmp";

/// Bytes that are added at the end and are read as a slice. Where no file can be made, or the disk is
/// full, they are all held in memory.
#[derive(Default)]
pub struct Spool {
    held: Vec<u8>,
    /// All of them, once they are more than are held.
    file: Option<Mapped>,
}

impl Spool {
    /// Adds bytes at the end.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file {
            if file.add(bytes).is_ok() {
                return;
            }
            self.held = file.to_vec();
            self.file = None;
        } else if self.held.len() + bytes.len() > HELD_BYTES_MAX {
            // If that is not possible once, it is not tried for each byte that is added.
            let is_first = self.held.len() <= HELD_BYTES_MAX;
            let file = is_first.then(|| Mapped::of(&[&self.held, bytes]));
            if let Some(Ok(file)) = file {
                self.file = Some(file);
                self.held = Vec::new();
                return;
            }
        }
        self.held.extend_from_slice(bytes);
    }

    /// Takes away all but the first so many.
    pub fn truncate(&mut self, len: usize) {
        match &mut self.file {
            Some(file) => file.len = file.len.min(len),
            None => self.held.truncate(len),
        }
    }
}

impl Deref for Spool {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.file.as_deref().unwrap_or(&self.held)
    }
}

impl From<Vec<u8>> for Spool {
    fn from(held: Vec<u8>) -> Self {
        Self { held, file: None }
    }
}

impl io::Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Serialize for Spool {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Spool {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}

impl Clone for Spool {
    fn clone(&self) -> Self {
        let mut clone = Self::default();
        clone.extend_from_slice(self);
        clone
    }
}

impl PartialEq for Spool {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Spool {}

/// A file that nobody else has, and its pages.
struct Mapped {
    file: File,
    /// So many bytes were written.
    len: usize,
    start: NonNull<libc::c_void>,
    /// So many are mapped, whether the file has them yet or not.
    range_bytes: NonZeroUsize,
}

// SAFETY: the mapping is of a file that only this has, and belongs to no thread.
unsafe impl Send for Mapped {}
// SAFETY: who shares it can only read it.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// A new one with these bytes, one after the other.
    fn of(all: &[&[u8]]) -> io::Result<Self> {
        let named = std::env::var_os("TMPDIR");
        let directory = named.as_deref().map_or(Path::new(DIRECTORY), Path::new);
        let file = tempfile::tempfile_in(directory)?;
        let len = all.iter().map(|bytes| bytes.len()).sum();
        let (start, mapped) = map(&file, len)?;
        let mut this = Self {
            file,
            len: 0,
            start,
            range_bytes: mapped,
        };
        all.iter().try_for_each(|bytes| this.add(bytes))?;
        Ok(this)
    }

    /// Adds bytes at the end. They are written, and not stored: a full disk is an error then, and
    /// not the end of the program.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.len as u64)?;
        let len = self.len + bytes.len();
        if len > self.range_bytes.get() {
            let (start, mapped) = map(&self.file, len)?;
            self.unmap();
            (self.start, self.range_bytes) = (start, mapped);
        }
        self.len = len;
        Ok(())
    }

    fn unmap(&mut self) {
        // SAFETY: the range is exactly the mapping, and nothing borrows it.
        let _ = unsafe { munmap(self.start, self.range_bytes.get()) };
    }
}

/// Maps a file, and twice as much as is asked for: it will grow.
fn map(file: impl AsFd, len: usize) -> io::Result<(NonNull<libc::c_void>, NonZeroUsize)> {
    let mapped = NonZeroUsize::new(len.saturating_mul(2).max(1)).expect("at least one");
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let start = unsafe {
        mmap(
            None,
            mapped,
            ProtFlags::PROT_READ,
            MapFlags::MAP_SHARED,
            file,
            0,
        )?
    };
    Ok((start, mapped))
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes of the file were written and are mapped, nobody makes it shorter,
        // and they change only where this is borrowed mutably.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        self.unmap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_same_in_memory_and_in_a_file() {
        let (mut spool, mut plain) = (Spool::default(), Vec::new());
        for round in 0..2000_u32 {
            let bytes: Vec<u8> = (0..round % 37).map(|byte| (byte + round) as u8).collect();
            spool.extend_from_slice(&bytes);
            plain.extend_from_slice(&bytes);
            if round % 50 == 49 {
                let len = plain.len() - 10;
                spool.truncate(len);
                plain.truncate(len);
            }
            assert_eq!(*spool, *plain);
            assert_eq!(
                spool.file.is_some(),
                plain.len() > HELD_BYTES_MAX,
                "{round}"
            );
        }
        assert!(spool.clone() == spool);
        assert!(spool != Spool::from(plain[1..].to_vec()));
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_held_in_memory() {
        let mut spool = Spool::from(vec![1; HELD_BYTES_MAX]);
        spool.extend_from_slice(&[2; 10]);
        let file = spool.file.as_mut().expect("it is in a file");
        // Nothing can be written to this one, as if the disk were full.
        file.file = File::open("/dev/null").expect("it is there");
        spool.extend_from_slice(&[3; 10]);
        assert!(spool.file.is_none());
        assert_eq!(spool[HELD_BYTES_MAX..], [[2; 10], [3; 10]].concat());
        spool.extend_from_slice(&[4; 10]);
        assert_eq!(spool.len(), HELD_BYTES_MAX + 30);
    }
}
