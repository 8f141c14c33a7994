//! The process of a kernel: we have started it, or another kernel of ours has forked itself.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// A child of ours that was not waited for yet, so its id is its own.
#[derive(Debug)]
pub(crate) struct Process(Pid);

impl Process {
    /// One that we have started.
    pub(crate) fn spawned(child: &Child) -> Self {
        Self(Pid::from_raw(child.id().cast_signed()))
    }

    /// The one at the other end of a stream: a kernel that was forked is a child of whoever started the
    /// first one.
    pub(crate) fn at_other_end(stream: &UnixStream) -> io::Result<Self> {
        let other = getsockopt(stream, PeerCredentials)?;
        Ok(Self(Pid::from_raw(other.pid())))
    }

    /// Its id.
    pub(crate) fn id(&self) -> u32 {
        self.0.as_raw().cast_unsigned()
    }

    /// Ends it at once, and waits for that.
    pub(crate) fn kill(self) {
        let _ = kill(self.0, Signal::SIGKILL);
        let _ = self.wait();
    }

    /// Waits for its end.
    pub(crate) fn wait(self) -> io::Result<ExitStatus> {
        loop {
            // As wait(2) has it.
            let status = match waitpid(self.0, None) {
                Ok(WaitStatus::Exited(_, status)) => status << 8,
                Ok(WaitStatus::Signaled(_, signal, _)) => signal as i32,
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            return Ok(ExitStatus::from_raw(status));
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
