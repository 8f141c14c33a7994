//! Mounts that nobody else sees.

use std::path::Path;
use std::{fs, io};

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{chroot, fchdir};

/// What says which boot of a machine this is.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Gives a new identifier each time it is read.
const UUID: &str = "/proc/sys/kernel/random/uuid";

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

/// Has what is started in this thread's mount namespace, which must be its own, see the boot id of
/// a machine that was started anew: a program that trusts what another one left in the same boot
/// must not take a crash state for that. `directory` must be writable, and nothing is left in it.
///
/// # Errors
/// Without root, or `/proc`.
pub fn have_other_boot_id(directory: &Path) -> io::Result<()> {
    let file = directory.join("boot-id");
    fs::write(&file, fs::read(UUID)?)?;
    let (none, flags) = (None::<&str>, MsFlags::MS_BIND);
    let mounted = mount(Some(&file), BOOT_ID, none, flags, none);
    // The mount keeps what is in it.
    fs::remove_file(&file)?;
    Ok(mounted?)
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
