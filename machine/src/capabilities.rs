//! Rights that a process gives up for itself and all that it starts. nix has no such calls.

#![allow(unsafe_code)]

use nix::errno::Errno;

/// Numbers of capabilities (capabilities(7), `linux/capability.h`).
pub(crate) const NET_ADMIN: u32 = 12;
pub(crate) const SYS_MODULE: u32 = 16;
pub(crate) const SYS_RAWIO: u32 = 17;
pub(crate) const SYS_CHROOT: u32 = 18;
pub(crate) const SYS_ADMIN: u32 = 21;
pub(crate) const SYS_BOOT: u32 = 22;
pub(crate) const SYS_TIME: u32 = 25;
pub(crate) const MKNOD: u32 = 27;

/// What is started from here on cannot have this capability.
///
/// # Errors
/// EPERM without root.
pub(crate) fn drop_from_bounding_set(capability: u32) -> nix::Result<()> {
    // SAFETY: the call takes numbers.
    let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability)) };
    Errno::result(dropped).map(drop)
}
