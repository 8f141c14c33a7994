//! Memory with properties that a `Vec` lacks: aligned for O_DIRECT, or a file's own pages.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{Errno, pread, pwrite};

use nix::sys::mman::{MapFlags, MsFlags, ProtFlags, mmap, mmap_anonymous, msync, munmap};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// A mapping; unmapped when dropped.
pub(crate) struct Mapping {
    start: NonNull<libc::c_void>,
    length: usize,
}

impl Mapping {
    /// Zeroed memory that starts at a page boundary.
    pub(crate) fn anonymous(length: usize) -> io::Result<Self> {
        let size = NonZeroUsize::new(length.max(1)).expect("at least one");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice disturbs nothing.
        let start = unsafe { mmap_anonymous(None, size, protection, MapFlags::MAP_PRIVATE)? };
        Ok(Self {
            start,
            length: size.get(),
        })
    }

    /// `length` bytes of a file from `offset`, which must be a multiple of the page size, shared.
    pub(crate) fn shared(file: impl AsFd, offset: u64, length: usize) -> io::Result<Self> {
        let size = NonZeroUsize::new(length.max(1)).expect("at least one");
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: as above; only this process maps the file, and nobody truncates it meanwhile.
        let start = unsafe {
            mmap(
                None,
                size,
                protection,
                MapFlags::MAP_SHARED,
                file,
                offset as libc::off_t,
            )?
        };
        Ok(Self {
            start,
            length: size.get(),
        })
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable and writable, lives as long as self, and self is
        // borrowed mutably, so that nothing else of ours looks at it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.length) }
    }

    /// Stores bytes from `start` of the shared mapping on.
    ///
    /// A page fault may wait for the disk while it holds the lock of the address space, and the
    /// thread that serves the disk takes that lock to get memory. So a child stores, in an address
    /// space of its own. In the child the kernel does it: where a page cannot be had because the
    /// disk is full it answers with an error, and a store of the child's own would be a SIGBUS.
    pub(crate) fn store(&mut self, start: usize, data: &[u8]) -> Result<(), Errno> {
        let source = file_in_memory(data)?;
        let place = &mut self.bytes_mut()[start..start + data.len()];
        // SAFETY: the child makes system calls only, and takes no lock and no memory.
        match unsafe { libc::fork() } {
            -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
            0 => {
                let is_stored = read_whole(&source, place);
                // SAFETY: it ends at once, and runs nothing of ours.
                unsafe { libc::_exit(i32::from(!is_stored)) }
            }
            child => wait_for_success(Pid::from_raw(child)),
        }
    }

    /// msync(2) with MS_SYNC of all of it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // SAFETY: the range is exactly the mapping.
        unsafe { msync(self.start, self.length, MsFlags::MS_SYNC)? };
        Ok(())
    }
}

/// A file without a name that holds `data`.
fn file_in_memory(data: &[u8]) -> Result<OwnedFd, Errno> {
    let file = memfd_create("crashpoint-store", MemfdFlags::CLOEXEC)?;
    let mut copied = 0;
    while copied < data.len() {
        copied += pwrite(&file, &data[copied..], copied as u64)?;
    }
    Ok(file)
}

/// Reads from the begin of a file until `place` is full, and says whether it is. Makes system
/// calls only.
fn read_whole(file: &OwnedFd, place: &mut [u8]) -> bool {
    let mut stored = 0;
    while stored < place.len() {
        match pread(file, &mut place[stored..], stored as u64) {
            Ok(0) | Err(_) => return false,
            Ok(more) => stored += more,
        }
    }
    true
}

/// Waits until a child has ended.
///
/// # Errors
/// `EIO` if it did not succeed.
fn wait_for_success(child: Pid) -> Result<(), Errno> {
    loop {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(_) => return Err(Errno::IO),
            Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(Errno::from_raw_os_error(errno as i32)),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the mapping, and nothing borrows it any more.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
