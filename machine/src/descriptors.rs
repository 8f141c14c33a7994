//! Descriptors that a process has from whoever started it. nix has no such call.

#![allow(unsafe_code)]

use std::os::fd::RawFd;

use nix::errno::Errno;

/// What is started from here on does not have this process's descriptors from this one on.
///
/// # Errors
/// EINVAL on kernels before 5.11, ENOSYS before 5.9.
pub(crate) fn keep_from_others(first: RawFd) -> nix::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC as libc::c_int;
    // SAFETY: nothing is closed as long as this program runs.
    let kept = unsafe { libc::close_range(first as libc::c_uint, libc::c_uint::MAX, flags) };
    Errno::result(kept).map(drop)
}
