//! System calls that no library here wraps.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

fn answer(result: libc::c_int) -> Result<(), Errno> {
    if result < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(())
}

/// sync_file_range(2) that waits before and after writing.
pub(crate) fn sync_file_range(file: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
    let waits = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    call_sync_file_range(file, offset, length, waits | libc::SYNC_FILE_RANGE_WRITE)
}

/// sync_file_range(2) that waits for nothing.
pub(crate) fn begin_writeback(file: impl AsFd, offset: u64, length: u64) -> Result<(), Errno> {
    call_sync_file_range(file, offset, length, libc::SYNC_FILE_RANGE_WRITE)
}

fn call_sync_file_range(
    file: impl AsFd,
    offset: u64,
    length: u64,
    flags: libc::c_uint,
) -> Result<(), Errno> {
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the call takes numbers only.
    answer(unsafe {
        libc::sync_file_range(
            file,
            offset as libc::off64_t,
            length as libc::off64_t,
            flags,
        )
    })
}

/// `struct file_clone_range` of linux/fs.h.
#[repr(C)]
struct CloneRange {
    source: i64,
    source_offset: u64,
    length: u64,
    dest_offset: u64,
}

/// `FICLONERANGE`, _IOW(0x94, 13, struct file_clone_range).
const FICLONERANGE: libc::c_ulong = 0x4020_940D;

/// Makes a range of `dest` share the blocks of `source` (ioctl_ficlonerange(2)).
pub(crate) fn clone_range(
    source: impl AsFd,
    source_offset: u64,
    length: u64,
    dest: impl AsFd,
    dest_offset: u64,
) -> Result<(), Errno> {
    let range = CloneRange {
        source: i64::from(source.as_fd().as_raw_fd()),
        source_offset,
        length,
        dest_offset,
    };
    // SAFETY: the kernel reads one `struct file_clone_range`, which `CloneRange` lays out.
    answer(unsafe {
        libc::ioctl(
            dest.as_fd().as_raw_fd(),
            FICLONERANGE,
            std::ptr::from_ref(&range),
        )
    })
}

/// `BTRFS_IOC_START_SYNC` and `BTRFS_IOC_WAIT_SYNC` of linux/btrfs.h: _IOR(0x94, 24, __u64) and
/// _IOW(0x94, 22, __u64).
const BTRFS_IOC_START_SYNC: libc::c_ulong = 0x8008_9418;
const BTRFS_IOC_WAIT_SYNC: libc::c_ulong = 0x4008_9416;

/// Has btrfs commit its transaction, as it does from time to time: data that nobody has written back
/// stay where they are. Other file systems do nothing.
pub(crate) fn commit_btrfs(file: impl AsFd) -> Result<(), Errno> {
    let file = file.as_fd().as_raw_fd();
    let mut transaction: u64 = 0;
    // SAFETY: both calls take a pointer to a number, which the first one writes.
    let done = answer(unsafe {
        libc::ioctl(
            file,
            BTRFS_IOC_START_SYNC,
            std::ptr::from_mut(&mut transaction),
        )
    })
    .and_then(|()| {
        // SAFETY: as above; it reads the number.
        answer(unsafe { libc::ioctl(file, BTRFS_IOC_WAIT_SYNC, std::ptr::from_ref(&transaction)) })
    });
    match done {
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
        done => done,
    }
}
