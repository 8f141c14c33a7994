//! Calls that nobody wraps: what is stored through shared mappings, `msync`, `sync_file_range`.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MsFlags, ProtFlags, mmap, msync, munmap};

/// All of a file in memory, shared; unmapped when dropped.
struct Mapping {
    start: NonNull<libc::c_void>,
    len: usize,
}

impl Mapping {
    fn of(file: &File) -> io::Result<Self> {
        let len = file.metadata()?.len() as usize;
        let size = NonZeroUsize::new(len).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let start = unsafe { mmap(None, size, protection, MapFlags::MAP_SHARED, file, 0)? };
        Ok(Self { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is this mapping, and nobody has a reference into it.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

/// Stores a byte in a range of a file.
pub fn store(file: &File, offset: u64, len: u64, byte: u8) -> io::Result<()> {
    let mapping = Mapping::of(file)?;
    assert!(
        (offset + len) as usize <= mapping.len,
        "it is within the file"
    );
    // SAFETY: the range is within the mapping, whose file nobody else has open.
    unsafe {
        let first = mapping.start.cast::<u8>().add(offset as usize);
        first.write_bytes(byte, len as usize);
    }
    Ok(())
}

/// Syncs a range of a file by its pages in memory. `offset` is a multiple of the page size.
pub fn sync_mapped(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let mapping = Mapping::of(file)?;
    assert!(
        (offset + len) as usize <= mapping.len,
        "it is within the file"
    );
    // SAFETY: the range is within the mapping; it is written to the disk, and stays as it is.
    unsafe {
        let first = mapping.start.byte_add(offset as usize);
        msync(first, len as usize, MsFlags::MS_SYNC)?;
    }
    Ok(())
}

/// Has the kernel write a file's dirty pages, and waits until it has.
pub fn push(file: &File) -> io::Result<()> {
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: it takes no memory of ours.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    nix::errno::Errno::result(result)?;
    Ok(())
}
