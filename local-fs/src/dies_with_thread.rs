//! Children that do not outlive whoever started them.

use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

/// Has the kernel kill what `command` starts as soon as the thread that starts it ends.
#[allow(unsafe_code)]
pub(crate) fn dies_with_thread(command: &mut Command) {
    let parent = std::process::id();
    let ask = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        // It may have ended before we asked.
        if parent_id() == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: between fork and exec it makes two system calls, and takes no lock and no memory.
    unsafe { command.pre_exec(ask) };
}
