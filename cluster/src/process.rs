//! How a node's command is started, which who traces it does in a way of its own.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::disk::Disk;
use crate::error::Error;
use crate::file::NodeConfig;
use crate::hidden::KILL_COMMAND;

/// Starts the commands of nodes.
pub trait Starter {
    /// Starts one. The command enters the node's namespaces by itself; its output goes to the
    /// node's log. `disk` is the node's own, if it has one.
    ///
    /// # Errors
    /// If it cannot be started.
    fn start(
        &mut self,
        node: &NodeConfig,
        disk: Option<&mut Disk>,
        command: Command,
    ) -> io::Result<Box<dyn Process>>;
}

/// The command of a node, while it runs.
pub trait Process: Send {
    /// Its process id, as we see it.
    fn pid(&self) -> u32;

    /// How it ended, if it did.
    ///
    /// # Errors
    /// If that cannot be known.
    fn ended(&mut self) -> io::Result<Option<Ending>>;
}

/// How a command ended. Its text fits after the command's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Status(i32),
    /// By a signal.
    Signal(Signal),
    /// Who watches it does not say.
    Unknown,
}

/// How the words begin of an end with a status, and of one by a signal.
const STATUS: &str = "ended with status ";
const SIGNAL: &str = "was ended by ";

impl Ending {
    /// Whether words are of an end of a command that is known: not those of a kernel that gave up.
    pub(crate) fn is_known(how: &str) -> bool {
        how.starts_with(STATUS) || how.starts_with(SIGNAL)
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{STATUS}{status}"),
            Self::Signal(signal) => write!(f, "{SIGNAL}{signal}"),
            Self::Unknown => f.write_str("ended"),
        }
    }
}

/// Starts them as children, with nobody who watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spawn;

impl Starter for Spawn {
    fn start(
        &mut self,
        _: &NodeConfig,
        _: Option<&mut Disk>,
        mut command: Command,
    ) -> io::Result<Box<dyn Process>> {
        Ok(Box::new(Spawned(command.spawn()?)))
    }
}

/// A child, waited for when it is dropped: by then its command has been killed with all of the
/// node.
struct Spawned(Child);

impl Process for Spawned {
    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn ended(&mut self) -> io::Result<Option<Ending>> {
        Ok(self.0.try_wait()?.map(Ending::from))
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

impl From<ExitStatus> for Ending {
    /// It is our own program that ran the command, and says a signal as shells do.
    fn from(status: ExitStatus) -> Self {
        let signal = status.signal().or_else(|| {
            status
                .code()
                .filter(|code| *code > 128)
                .map(|code| code - 128)
        });
        match (
            signal.and_then(|number| Signal::try_from(number).ok()),
            status.code(),
        ) {
            (Some(signal), _) => Self::Signal(signal),
            (None, Some(code)) => Self::Status(code),
            (None, None) => Self::Unknown,
        }
    }
}

/// How often it is looked whether something has ended, or somebody asks for the end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Waits for a command in a node, which is killed, with all that it started, if it takes too long
/// or is not to go on. Says how it ended by itself, if it did.
pub(crate) fn finish(
    child: &mut Child,
    within: Duration,
    cancelled: &dyn Fn() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + within;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline || cancelled() {
            kill_group(child);
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// How a command failed that [`finish`] has waited for so long, if it did.
pub(crate) fn failure(
    ended: Option<ExitStatus>,
    within: Duration,
    cancelled: &dyn Fn() -> bool,
) -> crate::Result<Option<String>> {
    match ended {
        Some(status) if status.success() => Ok(None),
        Some(status) => Ok(Some(Ending::from(status).to_string())),
        None if cancelled() => Err(Error::Interrupted),
        None => Ok(Some(format!("did not end within {within:?}"))),
    }
}

/// The lines of a command's output, as they come.
pub(crate) fn lines_of(output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(output)
            .split(b'\n')
            .map_while(Result::ok)
            .try_for_each(|line| send.send(line))
    });
    lines
}

/// Why no more lines are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// There are no more.
    All,
    /// One was the last that was wanted.
    Enough,
    /// It takes too long, or is not to go on.
    Stopped,
}

/// Takes lines as they come.
pub(crate) fn each_line(
    lines: &Receiver<Vec<u8>>,
    deadline: Instant,
    cancelled: &dyn Fn() -> bool,
    mut wants_more: impl FnMut(&[u8]) -> bool,
) -> Heard {
    loop {
        match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) if wants_more(&line) => {}
            Ok(_) => return Heard::Enough,
            Err(RecvTimeoutError::Disconnected) => return Heard::All,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if Instant::now() >= deadline || cancelled() {
            return Heard::Stopped;
        }
    }
}

/// Kills a command in a node, with what it started, as far as that has not left its process group.
pub(crate) fn kill_group(child: &mut Child) {
    // It has not been waited for, so the number is its own.
    let _ = kill(Pid::from_raw(child.id().cast_signed()), KILL_COMMAND);
    let _ = child.wait();
}
