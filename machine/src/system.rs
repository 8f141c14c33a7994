//! Makes a system of a guest's bare kernel.

use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::error::{Context as _, Error, Result};
use crate::guest::{GUEST_SHARED, GuestCommand};

/// A directory that is the guest's own.
const TEMPORARY: &str = "/tmp";

/// What a program expects of a running system. The root is the host's, read-only; `directory` is
/// where the guest may write there.
pub(crate) fn mount_system(directory: &Path) -> Result<()> {
    mount_guest_system(Path::new("/dev/ttyS0"))?;
    host(directory, Path::new(GUEST_SHARED), MsFlags::empty())
}

/// What a program expects of a running system, for the init of a guest whose root is the host's,
/// read-only. `device` is one that it must see.
///
/// # Errors
/// If the guest's kernel cannot do it.
pub fn mount_guest_system(device: &Path) -> Result<()> {
    place("proc", "/proc", "")?;
    place("sysfs", "/sys", "")?;
    if !Path::new("/dev/kmsg").exists() || !device.exists() {
        place("devtmpfs", "/dev", "")?;
    }
    place("tmpfs", "/run", "mode=0755")?;
    // Who needs no terminal does without.
    let _ = std::fs::create_dir_all("/dev/pts");
    let _ = place("devpts", "/dev/pts", "ptmxmode=0666");
    // Only some kernels have these.
    let _ = place("tracefs", "/sys/kernel/tracing", "");
    let _ = place("fusectl", "/sys/fs/fuse/connections", "");
    Ok(())
}

/// Gives a guest directories of its own for temporary files, in which the host's are not seen, but
/// for those below `visible`.
///
/// # Errors
/// If the guest's kernel cannot do it.
pub fn cover_guest_temporary(visible: &[&Path]) -> Result<()> {
    std::fs::create_dir_all("/dev/shm").doing(|| "create /dev/shm".into())?;
    for directory in [TEMPORARY, "/var/tmp", "/dev/shm"] {
        place("tmpfs", directory, "mode=1777")?;
        for path in visible {
            if path.starts_with(directory) && *path != Path::new(directory) {
                host(path, path, MsFlags::MS_RDONLY)?;
            }
        }
    }
    Ok(())
}

fn place(kind: &str, path: &str, options: &str) -> Result<()> {
    mount(
        Some(kind),
        path,
        Some(kind),
        MsFlags::MS_NOSUID,
        Some(options),
    )
    .doing(|| format!("mount {kind} on {path}"))
}

/// Shows a directory of the host's.
fn host(directory: &Path, at: &Path, flags: MsFlags) -> Result<()> {
    std::fs::create_dir_all(at).doing(|| format!("create {}", at.display()))?;
    mount(Some("host"), at, Some("hostfs"), flags, Some(directory))
        .doing(|| format!("mount {} of the host", directory.display()))
}

/// Has a file of the host's be seen where a directory of our own hides it.
pub(crate) fn show(file: &Path) -> Result<()> {
    let Some(directory) = file.parent().filter(|_| !file.exists()) else {
        return Ok(());
    };
    if directory.exists() {
        return Err(Error::Hidden {
            directory: directory.into(),
            file: file.into(),
        });
    }
    host(directory, directory, MsFlags::MS_RDONLY)
}

/// What any command expects beyond that: directories to write to, and a network of its own.
pub(crate) fn prepare_for_command(command: &GuestCommand) -> Result<()> {
    place("tmpfs", TEMPORARY, "mode=1777")?;
    std::fs::create_dir_all("/dev/shm").doing(|| "create /dev/shm".into())?;
    place("tmpfs", "/dev/shm", "mode=1777")?;
    let program = command.words.first().map(PathBuf::from);
    let program = program
        .as_deref()
        .and_then(Path::parent)
        .map(Path::to_owned);
    // What our own directories hide of what the command is about.
    let hidden = [Some(command.directory.clone()), program]
        .into_iter()
        .flatten();
    for directory in
        hidden.filter(|path| path.starts_with(TEMPORARY) && path != Path::new(TEMPORARY))
    {
        host(&directory, &directory, MsFlags::MS_RDONLY)?;
    }
    for directory in &command.shared {
        host(directory, directory, MsFlags::empty())?;
    }
    loopback_up()
}

/// Switches the first network device on, which is the loopback device, where there is a network
/// (rtnetlink(7): `RTM_NEWLINK` with `IFF_UP`).
fn loopback_up() -> Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_WITH_ANSWER: u16 = 5;
    const LENGTH: u32 = 32;
    const FIRST_DEVICE: u32 = 1;
    const IFF_UP: u32 = 1;
    let route = SockProtocol::NetlinkRoute;
    let Ok(socket) = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        route,
    ) else {
        return Ok(());
    };
    let mut request = Vec::new();
    request.extend(LENGTH.to_ne_bytes());
    request.extend(RTM_NEWLINK.to_ne_bytes());
    request.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    // Sequence and sender, then family and type: any.
    request.extend([0; 8 + 4]);
    request.extend(FIRST_DEVICE.to_ne_bytes());
    request.extend(IFF_UP.to_ne_bytes());
    request.extend(IFF_UP.to_ne_bytes());
    let socket = std::os::fd::AsRawFd::as_raw_fd(&socket);
    send(socket, &request, MsgFlags::empty()).doing(|| "switch the loopback device on".into())?;
    let mut answer = [0; 256];
    let length = recv(socket, &mut answer, MsgFlags::empty())
        .doing(|| "switch the loopback device on".into())?;
    // After the header of the answer: the error, or 0.
    if length >= 20 && answer[16..20] == [0; 4] {
        Ok(())
    } else {
        Err(Error::NoLoopback)
    }
}
