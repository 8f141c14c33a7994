//! Mounts that nobody else sees.

use std::io;

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{chroot, fchdir};

/// This thread's mount namespace.
const NAMESPACE: &str = "/proc/thread-self/ns/mnt";

/// Gives the calling thread, and those it starts, a copy of all mounts that is its own: what is
/// mounted or unmounted from now on nobody else sees. Its root stays where it is, also in a chroot.
///
/// # Errors
/// Without root, or `/proc`.
pub fn have_own_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Not before that: they are to be of the copy.
    let directory = |path: &str| {
        open(
            path,
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
    };
    let (root, here) = (directory("/")?, directory(".")?);
    share_none()?;
    fchdir(&root)?;
    chroot(".")?;
    Ok(fchdir(&here)?)
}

/// Gives the calling thread a mount namespace with nothing in it but a root, which leads nowhere.
///
/// # Errors
/// Without root, or `/proc`.
pub fn have_no_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    share_none()?;
    Ok(umount2("/", MntFlags::MNT_DETACH)?)
}

/// Has no mount of this thread's namespace shared with another one, and leads to its root. That of
/// the thread may be a directory anywhere, or a mount on one that is shared: of the first the
/// kernel makes nothing private, and of the second others see that it is unmounted. It is a
/// namespace's root where one enters.
fn share_none() -> io::Result<()> {
    let namespace = std::fs::File::open(NAMESPACE).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("open {NAMESPACE}, for which /proc must be mounted: {error}"),
        )
    })?;
    setns(namespace, CloneFlags::CLONE_NEWNS)?;
    Ok(mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )?)
}
