//! A command that goes on while other things are done: a client among faults, or a probe.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use machine::Logged;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe2};

use crate::error::{Context, Result};
use crate::log;
use crate::process::{Ending, kill_group};

/// A command that runs, and whose lines are taken without waiting for them. It is killed when this is
/// dropped.
///
/// A thread reads on its behalf as soon as there is something, before all that has to wait for a
/// processor, and what others have printed by then as well: what several commands print is in order by the
/// times of their lines, even if whoever takes these is busy for a while.
pub struct Background {
    whose: String,
    child: Child,
    reader: Option<Reader>,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    ended: Option<Ending>,
    is_drained: bool,
}

/// Who reads what a command prints.
struct Reader {
    /// Where that is in [`HEARD`].
    number: u64,
    /// The thread ends when this is closed.
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

/// What commands have printed, by a number for each.
static HEARD: Mutex<BTreeMap<u64, Heard>> = Mutex::new(BTreeMap::new());

/// What a command has printed that was not taken yet.
struct Heard {
    output: ChildStdout,
    /// In pieces, each with the time at which it was there.
    pieces: Vec<(Instant, Vec<u8>)>,
    /// The time at which there was no more to come.
    drained: Option<Instant>,
    error: Option<io::Error>,
}

/// All that commands have printed by now. What is read together has one time: nobody knows what of it was
/// there first. The clock is read where nobody else reads, so that what comes later has a later time.
fn listen() -> MutexGuard<'static, BTreeMap<u64, Heard>> {
    let mut all = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    all.values_mut().for_each(|heard| heard.read(now));
    all
}

impl Heard {
    fn new(output: ChildStdout) -> Self {
        Self {
            output,
            pieces: Vec::new(),
            drained: None,
            error: None,
        }
    }

    /// Takes what is there; of very much, a part: the rest is there the next time.
    fn read(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        let mut some = [0; 1 << 14];
        match self.output.read(&mut some) {
            Ok(0) => self.drained = Some(now),
            Ok(count) => self.pieces.push((now, some[..count].to_vec())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => self.error = Some(error),
        }
    }

    fn is_over(&self) -> bool {
        self.drained.is_some() || self.error.is_some()
    }
}

impl Reader {
    fn start(output: ChildStdout) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let waits = output.as_fd().try_clone_to_owned()?;
        let (stopped, stop) = pipe2(OFlag::O_CLOEXEC)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        listen().insert(number, Heard::new(output));
        let thread = thread::Builder::new().name("reader of a command".into());
        let started = thread.spawn(move || {
            // Without root lines come late where there is much else to do.
            let _ = machine::go_first();
            while is_more(&waits, &stopped)
                && listen().get(&number).is_some_and(|heard| !heard.is_over())
            {}
        });
        match started {
            Ok(thread) => Ok(Self {
                number,
                stop,
                thread,
            }),
            Err(error) => {
                listen().remove(&number);
                Err(error)
            }
        }
    }

    /// Ends it. What it has not read by then is lost.
    fn end(self) {
        listen().remove(&self.number);
        drop(self.stop);
        // It does not panic, and has nothing else to tell.
        let _ = self.thread.join();
    }
}

/// Waits until there is something to read, or the end of it; not if it is to be stopped. If that cannot be
/// waited for, lines are read when they are taken.
fn is_more(output: &OwnedFd, stopped: &OwnedFd) -> bool {
    loop {
        let mut polled = [output, stopped].map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN));
        match poll(&mut polled, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(_) => return false,
            Ok(_) => return !polled[1].any().unwrap_or(true),
        }
    }
}

impl Background {
    /// Starts one. What it says on standard error goes to `log`; it reads what [`Self::ask`] says.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(whose: &str, mut command: Command, log: &Path) -> Result<Self> {
        let errors = log::open(log).doing(|| format!("open {}", log.display()))?;
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn_logged()
            .doing(|| format!("start {whose}"))?;
        let mut started = Self {
            whose: whose.into(),
            child,
            reader: None,
            begun: Vec::new(),
            ended: None,
            is_drained: false,
        };
        let output = started.child.stdout.take().expect("piped");
        let reader = Reader::start(output).doing(|| format!("read from {whose}"))?;
        started.reader = Some(reader);
        Ok(started)
    }

    /// The lines that it has printed by now, and that were not taken yet, each with the time at which it
    /// was whole. Those with an earlier time than that of this call are all there.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn lines(&mut self) -> Result<Vec<(Instant, Vec<u8>)>> {
        let Some(reader) = &self.reader else {
            return Ok(Vec::new());
        };
        let mut all = listen();
        let heard = all
            .get_mut(&reader.number)
            .expect("it is read until this is dropped");
        let (pieces, drained) = (mem::take(&mut heard.pieces), heard.drained);
        let error = heard.error.take();
        drop(all);
        let mut lines = Vec::new();
        for (at, piece) in pieces {
            for part in piece.split_inclusive(|byte| *byte == b'\n') {
                self.begun.extend_from_slice(part);
                if self.begun.pop_if(|last| *last == b'\n').is_some() {
                    lines.push((at, mem::take(&mut self.begun)));
                }
            }
        }
        if let Some(at) = drained {
            self.is_drained = true;
            // What it did not end with a line feed is its last line.
            if !self.begun.is_empty() {
                lines.push((at, mem::take(&mut self.begun)));
            }
        }
        match error {
            Some(error) => Err(error).doing(|| format!("read from {}", self.whose)),
            None => Ok(lines),
        }
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
        match self.child.try_wait() {
            Ok(None) => {
                // It has not been waited for, so the number is its own.
                let _ = kill(
                    Pid::from_raw(self.child.id().cast_signed()),
                    Signal::SIGTERM,
                );
            }
            Ok(Some(status)) => self.ended = Some(Ending::from(status)),
            Err(_) => {}
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.ended.is_none() {
            kill_group(&mut self.child);
        }
        if let Some(reader) = self.reader.take() {
            reader.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn started(words: &str) -> (tempfile::TempDir, Background) {
        let folder = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("sh");
        command.args(["-c", words]);
        let started = Background::start("one", command, &folder.path().join("log"));
        (folder, started.expect("started"))
    }

    #[test]
    fn lines_have_the_times_at_which_they_came_and_not_at_which_they_were_taken() {
        let (_folder, mut started) = started("echo one; sleep 0.5; printf 'two\\nthr'; printf ee");
        let begun = Instant::now();
        thread::sleep(Duration::from_secs(2));
        let lines = started.lines().expect("read");
        let texts: Vec<_> = lines.iter().map(|(_, line)| line.as_slice()).collect();
        assert_eq!(texts, [&b"one"[..], b"two", b"three"]);
        let after = lines[1].0.duration_since(lines[0].0);
        assert!(after >= Duration::from_millis(400), "{after:?}");
        let before = lines[2].0.duration_since(begun);
        assert!(before < Duration::from_millis(1900), "{before:?}");
        assert_eq!(started.ended().expect("known"), Some(Ending::Status(0)));
    }

    #[test]
    fn what_it_left_behind_keeps_nobody_waiting() {
        let (_folder, mut started) = started("setsid sleep 5 & echo one");
        let begun = Instant::now();
        while started.lines().expect("read").is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        // Something still has its output.
        assert_eq!(started.ended().expect("known"), None);
        drop(started);
        assert!(begun.elapsed() < Duration::from_secs(4));
    }
}
