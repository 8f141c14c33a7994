//! A command that goes on while other things are done: a client among faults, or a probe.

use std::io::{ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use machine::Logged;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Context, Result};
use crate::log;
use crate::process::{Ending, kill_group};

/// A command that runs, and whose lines are taken without waiting for them. It is killed when this is
/// dropped.
///
/// Nobody reads on its behalf: what [`Self::lines`] does not return has not been printed yet, so
/// whoever asks several commands one after the other knows what was printed before what.
pub struct Background {
    whose: String,
    child: Child,
    output: ChildStdout,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    ended: Option<Ending>,
    is_drained: bool,
}

impl Background {
    /// Starts one. What it says on standard error goes to `log`; it reads what [`Self::ask`] says.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(whose: &str, mut command: Command, log: &Path) -> Result<Self> {
        let errors = log::open(log).doing(|| format!("open {}", log.display()))?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn_logged()
            .doing(|| format!("start {whose}"))?;
        let output = child.stdout.take().expect("piped");
        let set = fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        set.doing(|| format!("read from {whose}"))?;
        Ok(Self {
            whose: whose.into(),
            child,
            output,
            begun: Vec::new(),
            ended: None,
            is_drained: false,
        })
    }

    /// The lines that it has printed by now, and that were not taken yet.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn lines(&mut self) -> Result<Vec<Vec<u8>>> {
        let mut some = [0; 1 << 12];
        while !self.is_drained {
            match self.output.read(&mut some) {
                Ok(0) => self.is_drained = true,
                Ok(count) => self.begun.extend_from_slice(&some[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).doing(|| format!("read from {}", self.whose)),
            }
        }
        let whole = match self.begun.iter().rposition(|byte| *byte == b'\n') {
            // What it did not end with a line feed is its last line.
            _ if self.is_drained => self.begun.len(),
            Some(end) => end + 1,
            None => 0,
        };
        let rest = self.begun.split_off(whole);
        let whole = std::mem::replace(&mut self.begun, rest);
        let whole = whole.strip_suffix(b"\n").unwrap_or(&whole);
        let lines = whole.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
        Ok(if whole.is_empty() {
            Vec::new()
        } else {
            lines.collect()
        })
    }

    /// Gives it a line to read. One that does not read any more is told by how it ends.
    pub fn ask(&mut self, line: &str) {
        if let Some(input) = self.child.stdin.as_mut() {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// How it ended, if it has, and all of its lines were taken.
    ///
    /// # Errors
    /// If that cannot be known.
    pub fn ended(&mut self) -> Result<Option<Ending>> {
        if self.ended.is_none() {
            let status = self.child.try_wait();
            let status = status.doing(|| format!("look after {}", self.whose))?;
            self.ended = status.map(Ending::from);
        }
        Ok(self.ended.filter(|_| self.is_drained))
    }

    /// Asks it to end (SIGTERM).
    pub fn ask_to_end(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // It has not been waited for, so the number is its own.
            let _ = kill(
                Pid::from_raw(self.child.id().cast_signed()),
                Signal::SIGTERM,
            );
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.ended.is_none() {
            kill_group(&mut self.child);
        }
    }
}
