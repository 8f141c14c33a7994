//! How a program is started so that nothing of it is missed, and how it is waited for.

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use libc::pid_t;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use crate::calls::Row;
use crate::follow::Follower;
use crate::observer::Observer;
use crate::{Error, allowed, filter, system};

/// How often it is looked whether a node has ended, or somebody asks for the end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How long a question may be unheard: the tracer may have been between two waits.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// So soon the tracer hears of an end that others see.
const HEARD_WITHIN: Duration = Duration::from_millis(200);

/// How a program is traced.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The name of the node, for messages.
    pub name: String,
    /// On which of the processors that this process may use it runs, with its tracer; on any of
    /// them if that is not said. The two take turns, and to wake each other on another processor
    /// takes longer than most turns. So it is for nodes of which there are as many as processors,
    /// or more.
    pub processor: Option<usize>,
}

/// Which calls are looked at.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// At these the observer is asked.
    pub rows: Vec<Row>,
}

#[derive(Debug, Default)]
struct Living {
    processes: BTreeSet<pid_t>,
    killed: bool,
}

/// The processes of a node, for those who may kill them, and the questions to their tracer.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    living: Mutex<Living>,
    /// The thread that is the tracer; 0 as long as there is none.
    tracer: AtomicI32,
    /// How many questions there were, and how many of these have been answered.
    asked: AtomicU64,
    answered: AtomicU64,
    /// How the first process ended.
    status: OnceLock<ExitStatus>,
}

impl Shared {
    fn living(&self) -> MutexGuard<'_, Living> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, process: pid_t) {
        let mut living = self.living();
        living.processes.insert(process);
        if living.killed {
            system::kill(process);
        }
    }

    pub(crate) fn remove(&self, process: pid_t) {
        self.living().processes.remove(&process);
    }

    /// Kills the processes, and those that will be added.
    pub(crate) fn kill_all(&self) {
        let mut living = self.living();
        living.killed = true;
        for process in &living.processes {
            system::kill(*process);
        }
    }

    /// The first process has ended so.
    pub(crate) fn first_ended(&self, status: ExitStatus) {
        // It ends once.
        let _ = self.status.set(status);
    }

    /// The number of the last question, if it is open.
    pub(crate) fn open_question(&self) -> Option<u64> {
        let last = self.asked.load(Ordering::SeqCst);
        (last > self.answered.load(Ordering::SeqCst)).then_some(last)
    }

    /// That question, and those before it, are answered.
    pub(crate) fn answer(&self, question: u64) {
        self.answered.store(question, Ordering::SeqCst);
    }
}

/// A program that is traced. Its processes are killed when it is dropped, or this program ends.
#[derive(Debug)]
pub struct Traced<T, E: From<Error>> {
    pid: u32,
    shared: Arc<Shared>,
    tracer: Option<JoinHandle<Result<T, E>>>,
}

/// Makes the observer, starts the program, and has the observer asked about it and all that it
/// starts. Both is done in a new thread, which is the tracer. `command` may have hooks of its own
/// to be run before its program is; nobody is asked about them.
///
/// # Errors
/// If there is no observer, or the program cannot be started.
pub fn start<O: Observer + 'static>(
    options: Options,
    table: Table,
    command: Command,
    observer: impl FnOnce() -> Result<O, O::Error> + Send + 'static,
) -> Result<Traced<O::Output, O::Error>, O::Error> {
    let shared = Arc::<Shared>::default();
    let (tell, told) = mpsc::channel();
    let of_tracer = Arc::clone(&shared);
    let node = options.name.clone();
    let tracer = thread::Builder::new()
        .name(format!("trace {node}"))
        .spawn(move || trace(options, &table, command, observer, of_tracer, &tell))
        .map_err(|source| Error::Trace {
            doing: "start the tracer",
            node,
            source,
        })?;
    match told.recv() {
        Ok(pid) => Ok(Traced {
            pid: pid as u32,
            shared,
            tracer: Some(tracer),
        }),
        Err(_) => match result(tracer) {
            Err(error) => Err(error),
            Ok(_) => unreachable!("it tells of the program before it ends well"),
        },
    }
}

impl<T, E: From<Error>> Traced<T, E> {
    /// The process that was started, as it is numbered here.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How the process that was started ended. Others see that it has before the tracer hears of it:
    /// that is waited for, for a moment.
    pub fn status(&self) -> Option<ExitStatus> {
        let until = Instant::now() + HEARD_WITHIN;
        while self.shared.status.get().is_none() && !self.has_ended() && Instant::now() < until {
            thread::sleep(ASK_EVERY);
        }
        self.shared.status.get().copied()
    }

    /// Kills all processes of the node, and those that they are about to start.
    pub fn kill(&self) {
        self.shared.kill_all();
    }

    /// Has the observer asked again about every thread that it holds. Returns when it was, and those
    /// go on that may.
    pub fn ask_again(&self) {
        let question = self.shared.asked.fetch_add(1, Ordering::SeqCst) + 1;
        while self.shared.answered.load(Ordering::SeqCst) < question && !self.has_ended() {
            system::interrupt_wait(self.shared.tracer.load(Ordering::SeqCst));
            thread::sleep(ASK_EVERY);
        }
    }

    /// Whether all processes of the node have ended.
    pub fn has_ended(&self) -> bool {
        self.tracer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until all processes of the node have ended, also those in the background, or somebody
    /// wants no more of it: then they are killed, and what was seen is not told.
    ///
    /// # Errors
    /// If the tracer or its observer failed.
    pub fn wait_unless(self, cancelled: &dyn Fn() -> bool) -> Result<Option<T>, E> {
        while !self.has_ended() {
            if cancelled() {
                return Ok(None);
            }
            thread::sleep(LOOK_EVERY);
        }
        self.wait().map(Some)
    }

    /// Waits until all processes of the node have ended, also those in the background.
    ///
    /// # Errors
    /// If the tracer or its observer failed.
    pub fn wait(mut self) -> Result<T, E> {
        result(self.tracer.take().expect("it is waited for once"))
    }
}

impl<T, E: From<Error>> Drop for Traced<T, E> {
    fn drop(&mut self) {
        if let Some(tracer) = self.tracer.take() {
            self.kill();
            let _ = result(tracer);
        }
    }
}

fn result<T>(tracer: JoinHandle<T>) -> T {
    tracer
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The whole life of a tracer.
fn trace<O: Observer>(
    options: Options,
    table: &Table,
    command: Command,
    observer: impl FnOnce() -> Result<O, O::Error>,
    shared: Arc<Shared>,
    tell: &Sender<pid_t>,
) -> Result<O::Output, O::Error> {
    if let Some(number) = options.processor {
        // It is faster so, and the same otherwise.
        let _ = machine::stay_on_one_processor(number);
    }
    let node = options.name;
    system::forgo_signals_of_stops();
    system::let_waits_be_interrupted();
    shared.tracer.store(system::this_thread(), Ordering::SeqCst);
    let observer = observer()?;
    let mut follower = Follower::new(node.clone(), table.rows.clone(), observer, shared);
    let program = command.get_program().to_string_lossy().into_owned();
    let begun = begin(&node, command, table)?;
    // Nobody may want to know.
    let ran = follower.follow(begun.first, || tell.send(begun.first).unwrap_or_default());
    // After the point from which an exec does not return the kernel can only kill.
    let refused =
        matches!(ran, Ok(false)).then(|| begun.refusal().unwrap_or_else(killed_by_kernel));
    if ran.is_err() {
        follower.give_up();
    }
    drop(begun);
    if let Some(source) = refused {
        return Err(Error::Start { program, source }.into());
    }
    ran?;
    follower.finish()
}

/// A program that was started, and whoever started it, who lives as long as it does: it may ask to
/// be killed with its parent.
struct Begun {
    first: pid_t,
    started: Receiver<io::Result<()>>,
    /// Whoever started it ends once this is dropped.
    _end: Sender<()>,
}

impl Begun {
    /// Why the program could not be started, once that is known.
    fn refusal(&self) -> Option<io::Error> {
        self.started.recv().ok().and_then(Result::err)
    }
}

/// Starts the first process of a node, and takes it over before it runs the program.
fn begin(node: &str, command: Command, table: &Table) -> Result<Begun, Error> {
    let failed = |doing| {
        let node = node.to_owned();
        move |source| Error::Trace {
            doing,
            node,
            source,
        }
    };
    let program = command.get_program().to_string_lossy().into_owned();
    let (mut ours, theirs) = pair().map_err(failed("make a socket for the first process"))?;
    let (end, ended) = mpsc::channel();
    let sockets = (theirs, ours.as_raw_fd());
    let started = launch(command, filter::program(table), sockets, ended)
        .map_err(failed("start a thread for the first process"))?;
    let seized = seize(&mut ours);
    let mut begun = Begun {
        first: 0,
        started,
        _end: end,
    };
    match seized {
        Ok(first) => begun.first = first,
        Err(source) => {
            // Now it does not wait any more.
            drop(ours);
            let began = source.kind() != io::ErrorKind::UnexpectedEof;
            return Err(match begun.refusal().filter(|_| !began) {
                Some(source) => Error::Start { program, source },
                None => failed("trace the processes")(source),
            });
        }
    }
    Ok(begun)
}

/// What is wrong with a program that the kernel begins to run and then kills.
fn killed_by_kernel() -> io::Error {
    io::Error::other(
        "it was killed before it began; its file may be damaged, or too large for the memory there is",
    )
}

/// Starts the program in a thread of its own, which says how that went. The first process has one socket,
/// and the tracer the other one.
fn launch(
    mut command: Command,
    filter: Vec<libc::sock_filter>,
    sockets: (UnixStream, RawFd),
    ended: Receiver<()>,
) -> io::Result<Receiver<io::Result<()>>> {
    let (tell, told) = mpsc::channel();
    hook(&mut command, filter, sockets);
    thread::Builder::new()
        .name("parent of a node".into())
        .spawn(move || {
            let spawned = command.spawn().map(drop);
            // The hook has the other end of the tracer's socket.
            drop(command);
            let _ = tell.send(spawned);
            let _ = ended.recv();
        })?;
    Ok(told)
}

/// Has the process wait, right before it runs the program, until it is traced.
#[allow(unsafe_code)]
fn hook(
    command: &mut Command,
    filter: Vec<libc::sock_filter>,
    (theirs, tracers): (UnixStream, RawFd),
) {
    let wait = move || {
        // With a copy of it, it would wait for itself when the tracer is gone.
        nix::unistd::close(tracers)?;
        let mut socket = &theirs;
        socket.write_all(&[1])?;
        // If it is refused the tracer says why.
        socket.read_exact(&mut [0])?;
        system::install_filter(&filter)
    };
    // SAFETY: between fork and exec it makes system calls, and takes no lock and no memory.
    unsafe { command.pre_exec(wait) };
}

/// A socket for us, which is told who is at the other end, and that end.
fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    setsockopt(&ours, sockopt::PassCred, &true)?;
    Ok((ours, theirs))
}

/// Begins to trace the process at the other end, whichever its number is there.
fn seize(ours: &mut UnixStream) -> io::Result<pid_t> {
    let mut byte = [0];
    let mut space = nix::cmsg_space!(nix::sys::socket::UnixCredentials);
    let mut into = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(
        ours.as_raw_fd(),
        &mut into,
        Some(&mut space),
        MsgFlags::empty(),
    )?;
    if message.bytes == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it ended before it ran its program",
        ));
    }
    let sender = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmCredentials(credentials) => Some(credentials.pid()),
        _ => None,
    });
    let first =
        sender.ok_or_else(|| io::Error::other("the kernel does not say which process it is"))?;
    system::seize(first).map_err(allowed::not_traced)?;
    allowed::check(first, proc()?)?;
    ours.write_all(&[1])?;
    Ok(first)
}

/// A descriptor of this thread's `/proc`, which numbers processes as the tracer does.
///
/// # Errors
/// If there is none.
pub fn proc() -> io::Result<OwnedFd> {
    let flags =
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open("/proc", flags, rustix::fs::Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_process_ends_when_its_tracer_is_gone() {
        let (mut ours, theirs) = pair().expect("made");
        let (end, ended) = mpsc::channel();
        let sockets = (theirs, ours.as_raw_fd());
        let launched = launch(Command::new("true"), Vec::new(), sockets, ended);
        let launched = launched.expect("a thread");
        ours.read_exact(&mut [0]).expect("it waits");
        drop(ours);
        let started = launched.recv_timeout(Duration::from_secs(60));
        assert!(started.expect("it does not wait any more").is_err());
        drop(end);
    }
}
