//! Handles of processes (pidfd_open(2)): each stays that of one process, whose number may be used
//! again. nix has no such calls.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// Opens a handle of a process. It becomes readable when the process ends, whoever waits for it.
///
/// # Errors
/// ESRCH if there is no such process.
pub fn open_process(pid: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes two numbers.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let descriptor = Errno::result(opened)?;
    // SAFETY: the descriptor is new, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Sends a signal to the process of a handle.
///
/// # Errors
/// ESRCH if it has been waited for.
pub fn signal_process(process: impl AsFd, signal: Signal) -> nix::Result<()> {
    let descriptor = process.as_fd().as_raw_fd();
    let information = ptr::null::<libc::siginfo_t>();
    // SAFETY: without information about the signal, the kernel reads no memory of ours.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            descriptor,
            signal as i32,
            information,
            0,
        )
    };
    Errno::result(sent).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    #[test]
    fn a_handle_is_readable_once_its_process_has_ended_and_names_nobody_after() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("started");
        let pid = Pid::from_raw(child.id() as i32);
        let process = open_process(pid).expect("a process");
        let ended = |patience: PollTimeout| {
            poll(
                &mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)],
                patience,
            )
        };
        assert_eq!(ended(PollTimeout::ZERO), Ok(0));
        signal_process(&process, Signal::SIGKILL).expect("sent");
        assert_eq!(ended(PollTimeout::NONE), Ok(1));
        assert_eq!(child.wait().expect("waited").signal(), Some(libc::SIGKILL));
        assert_eq!(signal_process(&process, Signal::SIGKILL), Err(Errno::ESRCH));
        assert_eq!(open_process(pid).map(drop), Err(Errno::ESRCH));
    }
}
