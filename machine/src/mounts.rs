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
    all_become(MsFlags::MS_PRIVATE)
}

/// Has namespaces that are made as copies of this thread's, which must be its own, see what is
/// mounted and unmounted here, if they [follow](follow_mounts).
///
/// # Errors
/// Without root, or `/proc`.
pub(crate) fn let_others_follow() -> io::Result<()> {
    all_become(MsFlags::MS_SHARED)
}

/// As [`have_own_mounts`], but what is mounted where the copy was made is seen here too.
///
/// # Errors
/// Without root, or `/proc`.
pub(crate) fn follow_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    all_become(MsFlags::MS_SLAVE)
}

/// Gives the calling thread a mount namespace with nothing in it but a root, which leads nowhere.
///
/// # Errors
/// Without root, or `/proc`.
pub fn have_no_mounts() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    at_root_all_become(MsFlags::MS_PRIVATE)?;
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

/// Sets what is seen elsewhere of each mount of this thread's namespace. Its root and its working
/// directory stay where they are.
fn all_become(propagation: MsFlags) -> io::Result<()> {
    // Those of the copy, if one was just made.
    let directory = |path: &str| {
        open(
            path,
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
    };
    let (root, here) = (directory("/")?, directory(".")?);
    at_root_all_become(propagation)?;
    fchdir(&root)?;
    chroot(".")?;
    Ok(fchdir(&here)?)
}

/// The same, and leads to the namespace's root. That of the thread may be a directory anywhere, or a
/// mount on one that is shared: of the first the kernel changes nothing, and of the second others
/// see that it is unmounted. It is a namespace's root where one enters.
fn at_root_all_become(propagation: MsFlags) -> io::Result<()> {
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
        MsFlags::MS_REC | propagation,
        None::<&str>,
    )?)
}
