//! A command that goes on while other things are done: a client among faults, or a probe.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use machine::Logged;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::{Context, Result};
use crate::log;
use crate::process::{Ending, kill_group};

/// A command that runs, and whose lines are taken without waiting for them. It is killed when this is
/// dropped.
///
/// A thread of its own reads for all commands as soon as there is something, before all that has to wait
/// for a processor: what several commands print is in order by the times of their lines, even if whoever
/// takes these is busy for a while.
pub struct Background {
    whose: String,
    child: Child,
    /// What the child prints, while that is read.
    heard: Option<Heard>,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
    ended: Option<Ending>,
    is_drained: bool,
}

/// What the reader tells of a command.
enum Piece {
    /// It has printed this, which was there at this time.
    Output(Instant, Vec<u8>),
    /// There is no more to come, at this time.
    Drained(Instant),
    /// It cannot be read any more.
    Failed(io::Error),
}

/// What a command has printed that was not taken yet. It is read until this is dropped.
struct Heard {
    pieces: Receiver<Piece>,
    is_wanted: Arc<AtomicBool>,
    asks: Asks,
}

/// What the reader knows of a command.
struct Source {
    output: ChildStdout,
    pieces: Sender<Piece>,
    is_wanted: Arc<AtomicBool>,
}

/// What the reader is asked to do.
enum Ask {
    /// To read this, too.
    Read(Source),
    /// To read all that is there, and to say so.
    Look(SyncSender<()>),
}

/// The way to the reader. Whoever takes lines never reads them, and shares no lock with the reader: one
/// that stood still in the midst of that, as it has to wait for a processor, would keep all lines from their
/// times.
#[derive(Clone)]
struct Asks {
    asks: Sender<Ask>,
    /// Counts up to wake it.
    wakes: Arc<EventFd>,
}

impl Asks {
    /// The way to the one reader of this process, which is started if it does not run yet.
    fn of_reader() -> io::Result<Self> {
        static STARTED: Mutex<Option<Asks>> = Mutex::new(None);
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(asks) = &*started {
            return Ok(asks.clone());
        }
        let wakes = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let wakes = Arc::new(wakes);
        let (asks, asked) = mpsc::channel();
        let reader = ReaderOfAll {
            asked,
            woken: Arc::clone(&wakes),
            all: Vec::new(),
        };
        let thread = thread::Builder::new().name("reader of commands".into());
        thread.spawn(move || reader.read_for_ever())?;
        Ok(started.insert(Asks { asks, wakes }).clone())
    }

    fn ask(&self, ask: Ask) {
        // It never ends.
        let _ = self.asks.send(ask);
        self.wake();
    }

    fn wake(&self) {
        // Only a counter that is full refuses that, and then it wakes up anyway.
        let _ = self.wakes.write(1);
    }
}

/// The thread that reads for all commands.
struct ReaderOfAll {
    asked: Receiver<Ask>,
    woken: Arc<EventFd>,
    all: Vec<Source>,
}

impl ReaderOfAll {
    fn read_for_ever(mut self) {
        // Without root lines come late where there is much else to do.
        let _ = machine::go_first();
        loop {
            self.wait();
            // Before what was asked is looked for: what is asked later wakes it again.
            let _ = self.woken.read();
            let mut waiting = Vec::new();
            for ask in self.asked.try_iter() {
                match ask {
                    Ask::Read(source) => self.all.push(source),
                    Ask::Look(looked) => waiting.push(looked),
                }
            }
            self.read_all();
            for looked in waiting {
                let _ = looked.send(());
            }
        }
    }

    /// Waits until there is something to read or to do.
    fn wait(&self) {
        let outputs = self.all.iter().map(|source| source.output.as_fd());
        let all = outputs.chain([self.woken.as_fd()]);
        let mut polled: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut polled, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            // The kernel has no memory for that.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }

    /// Takes what is there. What is read together has one time: nobody knows what of it was there first.
    fn read_all(&mut self) {
        let now = Instant::now();
        self.all.retain_mut(|source| {
            let (piece, is_more) = match read_some(&mut source.output) {
                Ok(None) => return source.is_wanted.load(Ordering::Relaxed),
                Ok(Some(some)) if some.is_empty() => (Piece::Drained(now), false),
                Ok(Some(some)) => (Piece::Output(now, some), true),
                Err(error) => (Piece::Failed(error), false),
            };
            source.pieces.send(piece).is_ok() && is_more
        });
    }
}

/// What can be read now, nothing at its end, and none if nothing is there yet. Of very much it is a part: the
/// rest is there the next time.
fn read_some(output: &mut ChildStdout) -> io::Result<Option<Vec<u8>>> {
    let mut some = [0; 1 << 14];
    match output.read(&mut some) {
        Ok(count) => Ok(Some(some[..count].to_vec())),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Heard {
    fn start(output: ChildStdout) -> io::Result<Self> {
        fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let asks = Asks::of_reader()?;
        let (told, pieces) = mpsc::channel();
        let is_wanted = Arc::new(AtomicBool::new(true));
        asks.ask(Ask::Read(Source {
            output,
            pieces: told,
            is_wanted: Arc::clone(&is_wanted),
        }));
        Ok(Self {
            pieces,
            is_wanted,
            asks,
        })
    }

    /// All that is there by now and was not taken yet.
    fn take(&self) -> impl Iterator<Item = Piece> {
        let (looked, is_looked) = mpsc::sync_channel(1);
        self.asks.ask(Ask::Look(looked));
        let _ = is_looked.recv();
        self.pieces.try_iter()
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        // What the command left behind may have its output, and never say anything.
        self.is_wanted.store(false, Ordering::Relaxed);
        self.asks.wake();
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
            heard: None,
            begun: Vec::new(),
            ended: None,
            is_drained: false,
        };
        let output = started.child.stdout.take().expect("piped");
        let heard = Heard::start(output).doing(|| format!("read from {whose}"))?;
        started.heard = Some(heard);
        Ok(started)
    }

    /// The lines that it has printed by now, and that were not taken yet, each with the time at which it
    /// was whole. Those with an earlier time than that of this call are all there.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn lines(&mut self) -> Result<Vec<(Instant, Vec<u8>)>> {
        let Some(heard) = &self.heard else {
            return Ok(Vec::new());
        };
        let mut lines = Vec::new();
        for piece in heard.take() {
            match piece {
                Piece::Output(at, some) => {
                    for part in some.split_inclusive(|byte| *byte == b'\n') {
                        self.begun.extend_from_slice(part);
                        if self.begun.pop_if(|last| *last == b'\n').is_some() {
                            lines.push((at, mem::take(&mut self.begun)));
                        }
                    }
                }
                Piece::Drained(at) => {
                    self.is_drained = true;
                    // What it did not end with a line feed is its last line.
                    if !self.begun.is_empty() {
                        lines.push((at, mem::take(&mut self.begun)));
                    }
                }
                Piece::Failed(error) => {
                    return Err(error).doing(|| format!("read from {}", self.whose));
                }
            }
        }
        Ok(lines)
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
