//! The ioctl that takes a file system down as it is.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `EXT4_IOC_SHUTDOWN`, `XFS_IOC_GOINGDOWN` and `F2FS_IOC_SHUTDOWN`: _IOR('X', 125, __u32).
const SHUTDOWN: libc::c_ulong = 0x8004_587D;

/// `EXT4_GOING_FLAGS_NOLOGFLUSH` and what others call it: nothing more is written.
const NOTHING_MORE: u32 = 2;

/// Has a file system stop working: whatever it did not write by now it never will.
///
/// # Errors
/// If it has no such ioctl.
#[allow(unsafe_code)]
pub(crate) fn shutdown(root: &File) -> io::Result<()> {
    // SAFETY: the kernel reads one u32.
    match unsafe {
        libc::ioctl(
            root.as_raw_fd(),
            SHUTDOWN,
            std::ptr::from_ref(&NOTHING_MORE),
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
