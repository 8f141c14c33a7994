//! Children that do not outlive whoever started them.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::dup;

/// Has the kernel kill what `command` starts as soon as the thread that starts it ends.
#[allow(unsafe_code)]
pub fn dies_with_thread(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // It may have ended before we asked.
        if parent_id() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and takes no lock and no memory.
    unsafe { command.pre_exec(ask) };
}

/// Has what `command` starts keep a descriptor of its mount namespace for as long as it lives.
///
/// A server of FUSE that is the last one in the namespace of its mount cannot be killed otherwise:
/// the kernel unmounts what is left in a namespace when the last process leaves it, and a mount on
/// a block device then waits for an answer of its server, which is that very process. With the
/// descriptor the namespace goes only after all files of the process are closed, and with them the
/// connection. (Linux 6.18: `fuse_send_destroy` under `do_exit`. Only writing to the connection's
/// `abort` helps who waits there.)
///
/// # Errors
/// If the namespace cannot be opened.
#[allow(unsafe_code)]
pub(crate) fn keeps_its_mount_namespace(command: &mut Command) -> io::Result<()> {
    let namespace = File::open("/proc/thread-self/ns/mnt")?;
    let keep = move || {
        // The copy stays open over exec, unlike ours.
        let _kept = dup(&namespace)?.into_raw_fd();
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call, and takes no lock and no memory.
    unsafe { command.pre_exec(keep) };
    Ok(())
}

/// Gives the calling thread a table of descriptors of its own that has only the standard ones, so
/// that its end never waits for whoever serves what the others of its process have open. It takes
/// no signals from then on: a handler may write to a descriptor.
///
/// What the thread owns of descriptors must be gone before: it would close those of others.
///
/// # Errors
/// On kernels before 5.9.
#[allow(unsafe_code)]
pub(crate) fn leave_descriptors() -> io::Result<()> {
    SigSet::all().thread_block()?;
    let first = libc::STDERR_FILENO as u32 + 1;
    // SAFETY: the table that is closed from `first` on is a new one, and nobody else has it.
    match unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_UNSHARE as i32) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
