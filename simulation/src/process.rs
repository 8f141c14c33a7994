//! The process of a kernel: we have started it, or another kernel of ours has forked itself.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
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

    /// A kernel that was forked, of this id: it is a child of whoever started the first one.
    pub(crate) fn of_fork(id: i64) -> Self {
        Self(Pid::from_raw(id as i32))
    }

    /// Something that can be read once it has ended.
    pub(crate) fn end(&self) -> io::Result<OwnedFd> {
        Ok(machine::open_process(self.0)?)
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

    /// Waits for its end, but not for longer than that: then it is killed, and there is no status.
    pub(crate) fn wait_or_kill(self, within: Duration) -> io::Result<Option<ExitStatus>> {
        let patience = PollTimeout::try_from(within).unwrap_or(PollTimeout::MAX);
        let process = self.end()?;
        let ended = loop {
            match poll(
                &mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)],
                patience,
            ) {
                Err(Errno::EINTR) => {}
                ended => break ended?,
            }
        };
        if ended == 0 {
            self.kill();
            return Ok(None);
        }
        self.wait().map(Some)
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_does_not_end_in_time_is_killed_and_has_no_status() {
        let start = |seconds: &str| {
            let child = Command::new("sleep").arg(seconds).spawn();
            Process::spawned(&child.expect("started"))
        };
        let ended = start("0").wait_or_kill(Duration::from_secs(60));
        assert!(ended.expect("waited").expect("it ended").success());
        let lives = start("1000");
        let pid = lives.0;
        let ended = lives.wait_or_kill(Duration::from_millis(10));
        assert_eq!(ended.expect("waited"), None);
        assert_eq!(kill(pid, None), Err(Errno::ESRCH));
    }
}
