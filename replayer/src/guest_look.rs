//! A crash state mounted in a guest, for a look: what runs there, and how that is seen here.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use campaign::{Interrupt, one_line, quoted, say};
use nix::pty::{Winsize, openpty};
use serde::{Deserialize, Serialize};
use workloads::Workload;

use crate::engine::search::{Recovered, Search};
use crate::error::{Context as _, Error, Result};
use crate::pool::{Gone, Worker};
use crate::result::StateFindings;
use crate::sweep::Workers;
use crate::terminal::RawTerminal;
use crate::worker::{Answer, Job, answer};

/// Bytes that are read at once of what a program prints.
const PRINTED_BYTES: usize = 4096;

/// Bytes that are typed at once: far fewer than may be on their way into a guest.
const TYPED_BYTES: usize = 256;

/// How long there may be nothing to read once a program has ended: what it started may hold its
/// output open for ever.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(1);

const PAUSE: Duration = Duration::from_millis(10);

/// What is done with a crash state in a guest, as root there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum GuestLook {
    /// A shell runs a command, with `{}` in it the directory, or the block device if it cannot be
    /// mounted.
    Command {
        /// What the shell is given.
        script: String,
        /// Where it starts, if the guest has that; it sees the host's files.
        directory: PathBuf,
    },
    /// A shell at our terminal.
    Shell {
        /// The program.
        program: String,
        /// What kind of terminal it is, as TERM says it.
        terminal: String,
        /// Its size: rows and columns.
        size: (u16, u16),
    },
}

/// What came of a look.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// The state was there again.
    pub seen: bool,
    /// What there is to say of how it ended; why it was not there, if that is known.
    pub why: Option<String>,
}

/// A crash state in a guest that is about to be looked at.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Seen {
    directory: Option<PathBuf>,
    device: PathBuf,
    state: StateFindings,
    kernel: Vec<String>,
}

/// Where what a program printed belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stream {
    Output,
    Errors,
}

/// Where what is typed goes. Its host sends no more before it was told that what it sent last has
/// been taken.
#[derive(Clone, Default)]
pub(crate) struct Keyboard(Arc<Mutex<Typing>>);

#[derive(Default)]
struct Typing {
    /// None as long as there is no shell.
    terminal: Option<File>,
    /// What was typed before.
    early: Vec<u8>,
}

impl Keyboard {
    fn connect(&self, mut terminal: File) -> io::Result<()> {
        let mut typing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        terminal.write_all(&std::mem::take(&mut typing.early))?;
        typing.terminal = Some(terminal);
        Ok(())
    }

    /// Types, and says so.
    pub(crate) fn put(&self, typed: &[u8]) -> io::Result<()> {
        let mut typing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut typing.terminal {
            // A shell that has ended reads nothing.
            Some(terminal) => drop(terminal.write_all(typed)),
            None => typing.early.extend(typed),
        }
        drop(typing);
        answer(&Answer::Typed)
    }
}

impl GuestLook {
    /// Shows a crash state in the guest that we are in.
    pub(crate) fn show(&self, recovered: Recovered<'_>, keyboard: &Keyboard) -> io::Result<()> {
        let Recovered {
            directory,
            device,
            state,
            kernel,
        } = recovered;
        answer(&Answer::Seen(Box::new(Seen {
            directory: directory.map(Path::to_owned),
            device: device.to_owned(),
            state: state.clone(),
            kernel: kernel.to_vec(),
        })))?;
        let ended = match self {
            Self::Command {
                script,
                directory: start,
            } => run(
                &script.replace(
                    "{}",
                    &quoted(&directory.unwrap_or(device).to_string_lossy()),
                ),
                start,
            ),
            Self::Shell {
                program,
                terminal,
                size,
            } => run_shell(
                program,
                terminal,
                *size,
                directory.unwrap_or(Path::new("/")),
                keyboard,
            ),
        };
        answer(&Answer::Ended(
            ended.unwrap_or_else(|error| Some(one_line(&error))),
        ))
    }
}

/// Runs a command; says how it ended, unless well.
fn run(script: &str, start: &Path) -> Result<Option<String>> {
    let start = if start.is_dir() {
        start
    } else {
        Path::new("/")
    };
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .current_dir(start)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = shell.spawn().doing(|| "run sh in the guest".into())?;
    let mut readers = Vec::new();
    readers.extend(
        child
            .stdout
            .take()
            .map(|pipe| pass_on(pipe, Stream::Output)),
    );
    readers.extend(
        child
            .stderr
            .take()
            .map(|pipe| pass_on(pipe, Stream::Errors)),
    );
    let status = finish(&mut child, &readers)?;
    Ok((!status.success()).then(|| format!("the command ended with {status}")))
}

/// Runs a shell at a terminal of its own, which is ours at its other end.
fn run_shell(
    program: &str,
    terminal: &str,
    (ws_row, ws_col): (u16, u16),
    directory: &Path,
    keyboard: &Keyboard,
) -> Result<Option<String>> {
    let size = Winsize {
        ws_row,
        ws_col,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pair = openpty(Some(&size), None).doing(|| "make a terminal in the guest".into())?;
    let (ours, its) = (File::from(pair.master), File::from(pair.slave));
    let share = |end: &File| {
        end.try_clone()
            .doing(|| "share a terminal in the guest".into())
    };
    keyboard
        .connect(share(&ours)?)
        .doing(|| "connect the keyboard to the guest".into())?;
    // A shell controls its jobs only at the terminal of its session.
    let mut shell = Command::new("setsid");
    shell
        .args(["--ctty", program])
        .current_dir(directory)
        .env("TERM", terminal);
    shell.stdin(share(&its)?).stdout(share(&its)?).stderr(its);
    let child = shell.spawn();
    // The command has the terminal open as well, and would keep it so.
    drop(shell);
    let mut child = child.doing(|| "run setsid in the guest".into())?;
    finish(&mut child, &[pass_on(ours, Stream::Output)])?;
    Ok(None)
}

/// What sends to the host what a program prints, until that ends.
struct Reader {
    thread: JoinHandle<()>,
    /// It has read something that the host has not taken yet.
    is_sending: Arc<AtomicBool>,
}

fn pass_on(mut from: impl Read + Send + 'static, stream: Stream) -> Reader {
    let is_sending = Arc::new(AtomicBool::new(false));
    let sends = Arc::clone(&is_sending);
    let thread = std::thread::spawn(move || {
        let mut buffer = [0; PRINTED_BYTES];
        // A terminal that nobody has open any more ends with an error.
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            sends.store(true, Ordering::Relaxed);
            if answer(&Answer::Printed(stream, buffer[..length].to_vec())).is_err() {
                return;
            }
            sends.store(false, Ordering::Relaxed);
        }
    });
    Reader { thread, is_sending }
}

/// Waits for a program, and for what it printed, however long the host takes to take it.
fn finish(child: &mut Child, readers: &[Reader]) -> Result<ExitStatus> {
    let status = child.wait().doing(|| "wait for it".into())?;
    let mut read = Instant::now();
    while readers.iter().any(|reader| !reader.thread.is_finished())
        && read.elapsed() < LAST_WORDS_PATIENCE
    {
        if readers
            .iter()
            .any(|reader| reader.is_sending.load(Ordering::Relaxed))
        {
            read = Instant::now();
        }
        std::thread::sleep(PAUSE);
    }
    Ok(status)
}

impl Workers {
    /// Records a workload in a guest, looks for a crash state, mounts it there, calls `seen`, and
    /// does with it what `look` says, until that ends or the user stops it.
    ///
    /// # Errors
    /// If there is no guest to be had, or what is printed cannot be passed on.
    pub fn look(
        &mut self,
        workload: &Workload,
        search: &Search,
        look: &GuestLook,
        interrupt: &Interrupt,
        seen: &mut dyn FnMut(Recovered<'_>),
    ) -> Result<Looked> {
        let job = Job::Look(workload.clone(), search.clone(), look.clone());
        if self.machine.has_virtual_time() {
            let mut worker = Worker::start_with(&self.machine, &self.start, &[job])?;
            worker.obey(interrupt);
            return watch(&mut worker, look, interrupt, seen);
        }
        let worker = self.processes.first_mut().ok_or(Error::NoWorker)?;
        worker.obey(interrupt);
        match worker.send(&job) {
            Ok(()) => watch(worker, look, interrupt, seen),
            Err(gone) => Ok(Looked {
                seen: false,
                why: Some(gone.words().to_owned()),
            }),
        }
    }
}

fn watch(
    worker: &mut Worker,
    look: &GuestLook,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(Recovered<'_>),
) -> Result<Looked> {
    let seen = match await_seen(worker)? {
        Ok(seen) => seen,
        Err(looked) => return Ok(looked),
    };
    let Seen {
        directory,
        device,
        state,
        kernel,
    } = *seen;
    tell(Recovered {
        directory: directory.as_deref(),
        device: &device,
        state: &state,
        kernel: &kernel,
    });
    worker.be_patient();
    let terminal = match look {
        GuestLook::Shell { .. } => Some(Typist::start(worker)?),
        GuestLook::Command { .. } => None,
    };
    let ended = pass_back(worker, terminal.as_ref(), interrupt);
    // What is said from here on needs a terminal as it was.
    drop(terminal);
    let why = match ended? {
        Ok(how) => how,
        Err(_) if interrupt.requested() => None,
        Err(Gone::Kernel { what, log }) => {
            for line in log {
                say(&format!("kernel: {line}"));
            }
            Some(format!("the guest's kernel died: {what}"))
        }
        Err(Gone::Other(why)) => Some(why),
    };
    Ok(Looked { seen: true, why })
}

/// Waits until a worker has the state, or it is known that it will not have it.
fn await_seen(worker: &mut Worker) -> Result<Result<Box<Seen>, Looked>> {
    let mut during = String::new();
    let why = loop {
        match worker.receive() {
            Ok(Answer::Step(step)) => during = format!(" while {step}"),
            Ok(Answer::Seen(seen)) => return Ok(Ok(seen)),
            Ok(Answer::Result(result)) => break result.inconclusive,
            Ok(other) => return Err(Error::unexpected(&other, "to a look")),
            Err(Gone::Kernel { what, .. }) => {
                break Some(format!("the guest's kernel died{during}: {what}"));
            }
            Err(Gone::Other(why)) => break Some(why),
        }
    };
    Ok(Err(Looked { seen: false, why }))
}

/// Prints what a guest's program prints, until it has ended; then says how, if there is something
/// to say.
fn pass_back(
    worker: &mut Worker,
    typist: Option<&Typist>,
    interrupt: &Interrupt,
) -> Result<Result<Option<String>, Gone>> {
    loop {
        // There may be something to receive all the time.
        if interrupt.requested() {
            return Ok(Err(Gone::Other("it was interrupted".into())));
        }
        match worker.receive() {
            Ok(Answer::Printed(Stream::Output, bytes)) => {
                let mut out = io::stdout().lock();
                let written = out.write_all(&bytes).and_then(|()| out.flush());
                written.map_err(Error::Output)?;
            }
            Ok(Answer::Printed(Stream::Errors, bytes)) => {
                io::stderr()
                    .lock()
                    .write_all(&bytes)
                    .map_err(Error::Output)?;
            }
            Ok(Answer::Typed) => typist.into_iter().for_each(Typist::go_on),
            Ok(Answer::Ended(how)) => return Ok(Ok(how)),
            Ok(other) => return Err(Error::unexpected(&other, "while something ran in it")),
            Err(gone) => return Ok(Err(gone)),
        }
    }
}

/// Passes on what is typed at our terminal, as it is, as long as this is there.
struct Typist {
    taken: Sender<()>,
    _terminal: RawTerminal,
}

impl Typist {
    fn start(worker: &Worker) -> Result<Self> {
        let terminal = RawTerminal::new()?;
        let (taken, is_taken) = channel();
        let mut send = worker.sender();
        // It ends with the process, or when the guest has: nobody else reads our input.
        std::thread::spawn(move || {
            let mut buffer = [0; TYPED_BYTES];
            let mut input = io::stdin();
            while let Ok(length @ 1..) = input.read(&mut buffer) {
                if send(&Job::Typed(buffer[..length].to_vec())).is_err() || is_taken.recv().is_err()
                {
                    return;
                }
            }
        });
        Ok(Self {
            taken,
            _terminal: terminal,
        })
    }

    fn go_on(&self) {
        let _ = self.taken.send(());
    }
}
