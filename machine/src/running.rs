use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::causes::{self, Given};
use crate::console::Console;
use crate::error::{Context as _, Result};
use crate::thread::ThreadBody;
use crate::{guest, held, keeper, logged};

/// How long one may take to end by itself when its input has ended.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// How long a guest whose streams have ended may take to say why. If it is not waited for that
/// long, the death of its kernel is taken for something of ours.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(60);

/// Lines of a console that are shown where they are all that is known.
const LAST_LINES: usize = 3;

const PAUSE: Duration = Duration::from_millis(2);

/// How something that ran came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The process ended, or somebody ended it. That is no word about any kernel.
    Process(String),
    /// The guest's kernel gave up.
    Kernel {
        /// In one line.
        what: String,
        /// The end of its console.
        log: Vec<String>,
    },
    /// The host could not give the guest what it needed; with what to do.
    Host(String),
}

/// The program at work somewhere. It is ended when dropped, with all that it started.
#[derive(Debug)]
pub struct Running {
    process: Process,
    input: Option<File>,
    output: File,
    guest: Option<Guest>,
}

#[derive(Debug)]
enum Process {
    Child(Child),
    Thread(JoinHandle<()>),
}

/// What only a guest has.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) console: Console,
    /// Files of its kernel's and ours, on the host.
    pub(crate) directory: TempDir,
    /// What it was started with.
    pub(crate) given: Given,
}

impl Running {
    /// A process under this kernel.
    pub(crate) fn process(arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(crate::own_program());
        logged::hand_on(&mut command);
        let mut process = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C reaches a whole process group; what becomes of the workers we decide.
            .process_group(0)
            .spawn()
            .doing(|| "start a worker process".into())?;
        tracing::info!(pid = process.id(), "started a worker");
        let input = process
            .stdin
            .take()
            .map(|pipe| File::from(OwnedFd::from(pipe)));
        Ok(Self::new(process, input, None))
    }

    /// A thread of this process.
    pub(crate) fn thread(body: &ThreadBody) -> Result<Self> {
        let pipe = || std::io::pipe().doing(|| "make a pipe to a worker".into());
        let ((its_input, input), (output, its_output)) = (pipe()?, pipe()?);
        let (its_input, its_output) = (OwnedFd::from(its_input), OwnedFd::from(its_output));
        let body = Arc::clone(&body.0);
        let thread = std::thread::spawn(move || body(its_input.into(), its_output.into()));
        Ok(Self {
            process: Process::Thread(thread),
            input: Some(OwnedFd::from(input).into()),
            output: OwnedFd::from(output).into(),
            guest: None,
        })
    }

    /// A process with a stream into it, whose output is a pipe of ours.
    pub(crate) fn new(mut process: Child, input: Option<File>, guest: Option<Guest>) -> Self {
        let output = OwnedFd::from(process.stdout.take().expect("piped"));
        Self {
            process: Process::Child(process),
            input,
            output: output.into(),
            guest,
        }
    }

    /// Its process id; for a guest, that of its keeper, and for a thread our own.
    pub fn pid(&self) -> u32 {
        match &self.process {
            Process::Child(child) => child.id(),
            Process::Thread(_) => std::process::id(),
        }
    }

    /// The directory that we share with a guest, which sees it as
    /// [`GUEST_SHARED`](crate::GUEST_SHARED).
    pub fn shared(&self) -> Option<&Path> {
        self.guest.as_ref().map(|guest| guest.directory.path())
    }

    /// The stream into it. A process takes its end for the wish that it ends.
    ///
    /// # Panics
    /// If it was taken before.
    pub fn take_input(&mut self) -> File {
        self.input.take().expect("taken once")
    }

    /// The stream out of it.
    pub fn output(&mut self) -> &mut File {
        &mut self.output
    }

    /// Waits until there is something to read, or the stream has ended; says whether it is so.
    pub fn readable(&self, patience: Duration) -> bool {
        let mut fds = [PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
        let patience = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        !matches!(poll(&mut fds, patience), Ok(0) | Err(Errno::EINTR))
    }

    /// Has what is said on a guest's console shown on standard error from now on.
    pub fn show_console(&self) {
        if let Some(guest) = &self.guest {
            guest.console.show();
        }
    }

    /// What a guest's kernel said on its console.
    pub fn console(&self) -> Vec<String> {
        self.guest
            .as_ref()
            .map(|guest| guest.console.so_far())
            .unwrap_or_default()
    }

    /// How a guest's command ended, as a shell gives it; none if it did not.
    pub fn command_status(&self) -> Option<i32> {
        guest::command_status(self.shared()?)
    }

    /// Has the command of a guest, in which time is not virtual, get SIGTERM.
    ///
    /// # Errors
    /// If the guest is gone.
    ///
    /// # Panics
    /// If the stream into the guest was taken.
    pub fn terminate_command(&mut self) -> Result<()> {
        let input = self.input.as_mut().expect("nobody took it");
        // It stays open: its end would be the end of the terminal that the command writes to.
        let written = input.write_all(&[guest::TERMINATE]);
        written.doing(|| "ask the command in the guest to end".into())
    }

    /// The task that the kernel does not let go of, if that is why nothing moves.
    pub fn held_by_kernel(&self) -> Option<String> {
        match (&self.guest, &self.process) {
            (Some(guest), _) => held::said(guest.directory.path()),
            (None, Process::Child(child)) => held::of_family(child.id()),
            (None, Process::Thread(_)) => None,
        }
    }

    /// Whether the process has ended. What a guest had started has ended then too.
    pub fn has_ended(&mut self) -> bool {
        match &mut self.process {
            Process::Child(child) => !matches!(child.try_wait(), Ok(None)),
            Process::Thread(thread) => thread.is_finished(),
        }
    }

    /// Ends it, if it has broken off, and says how it ended by itself.
    pub fn end(&mut self) -> End {
        let by_itself = self.ended_within(LAST_WORDS_PATIENCE);
        let status = self.kill().filter(|_| by_itself);
        let Some(own) = &mut self.guest else {
            return End::Process(how_ended(status));
        };
        let log = own.console.finish();
        if let Some(advice) = causes::of_an_end(&log, &own.given) {
            return End::Host(advice);
        }
        let failure = guest::failure(own.directory.path());
        let signal = status
            .and_then(|status| status.code())
            .and_then(keeper::signal);
        match (panic_line(log.iter().map(String::as_str)), signal, status) {
            (Some(what), ..) => End::Kernel { what, log },
            (None, Some(Signal::SIGABRT), _) => End::Kernel {
                what: "the guest's kernel aborted without a word".into(),
                log,
            },
            (None, Some(signal), _) => End::Process(format!("its kernel got {signal}")),
            (None, None, status) => End::Process(failure.unwrap_or_else(|| how_ended(status))),
        }
    }

    /// Ends a guest that did not start, and says in one line what its kernel said and the likely
    /// cause. `end` is how it came to that, if it did not end by itself.
    pub(crate) fn why_not_started(&mut self, end: Option<String>) -> String {
        let end = end.unwrap_or_else(|| match self.end() {
            End::Process(what) | End::Host(what) | End::Kernel { what, .. } => what,
        });
        let console = self.console();
        let said: Vec<_> = console
            .iter()
            .map(|line| line.trim())
            .filter(|line| !line.is_empty())
            .collect();
        let cause = self
            .guest
            .as_ref()
            .and_then(|guest| causes::of_no_start(&console, &end, &guest.given));
        match cause {
            Some((said, cause)) => format!("{said}; likely cause: {cause}"),
            None if said.iter().any(|line| line.contains(&end)) => end,
            None => format!(
                "{end}; its console says: {}",
                said[said.len().saturating_sub(LAST_LINES)..].join("; ")
            ),
        }
    }

    /// Ends it at once. A thread cannot be ended: it ends with its input.
    pub fn kill(&mut self) -> Option<ExitStatus> {
        let is_guest_at_work = self.guest.is_some() && !self.has_ended();
        let Process::Child(child) = &mut self.process else {
            return None;
        };
        if is_guest_at_work {
            // Its keeper ends all of it.
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        } else {
            let _ = child.kill();
        }
        let ended = self.ended_within(END_PATIENCE);
        match &mut self.process {
            Process::Child(child) if ended => child.wait().ok(),
            _ => None,
        }
    }

    fn ended_within(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }
}

impl Running {
    /// Ends it, as far as it has not ended.
    fn finish(&mut self) {
        if self.guest.is_none() {
            // Its input has ended, or does now: it takes its mounts and disks down and ends.
            self.input = None;
            if self.ended_within(END_PATIENCE) {
                return;
            }
        }
        // What a guest has mounted goes with it.
        self.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.finish();
        let what = match (&self.guest, &self.process) {
            (Some(_), _) => "a guest",
            (None, Process::Child(_)) => "a worker",
            (None, Process::Thread(_)) => return,
        };
        tracing::info!(pid = self.pid(), "{what} has ended");
    }
}

/// What a console says of why its kernel gave up, if it did.
pub fn panic_line<'a>(log: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let log: Vec<_> = log.into_iter().collect();
    let said = |start: &str| {
        log.iter()
            .find_map(|line| line.find(start).map(|at| line[at..].to_owned()))
    };
    // What went wrong comes first; that nothing is synced says only that it did.
    let cause = [
        "BUG: ",
        "kernel BUG at",
        "Oops",
        "Kernel mode fault",
        "Kernel stack overflow",
    ];
    let panic = said("Kernel panic - not syncing")?;
    Some(match cause.iter().find_map(|start| said(start)) {
        Some(cause) if !panic.contains(&cause) => format!("{panic} ({cause})"),
        _ => panic,
    })
}

/// How a process ended, if it did by itself.
fn how_ended(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "it broke off".to_owned(), |status| status.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_known_with_its_cause() {
        let quiet = ["EXT4-fs (loop0): mounted", "reboot: Power down"];
        assert_eq!(panic_line(quiet), None);
        let panic = "Kernel panic - not syncing: Kernel mode fault at addr 0x0, ip 0x60";
        assert_eq!(
            panic_line(["[ 1.2] x", &format!("[ 1.3] {panic}")]),
            Some(panic.into())
        );
        let bug = [
            "[ 1.2] kernel BUG at fs/x.c:1!",
            "[ 1.3] Kernel panic - not syncing: Fatal exception",
        ];
        let what = "Kernel panic - not syncing: Fatal exception (kernel BUG at fs/x.c:1!)";
        assert_eq!(panic_line(bug), Some(what.into()));
    }
}
