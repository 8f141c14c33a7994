//! How a node is started so that nothing of it is missed, and how it is waited for.

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use libc::pid_t;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};

use super::allowed;
use super::calls::{ROWS, Row};
use super::log::NodeTrace;
use super::recording::Recording;
use super::{Error, NodeOptions, Result, filter, system};

/// How often it is looked whether a node has ended, or somebody asks for the end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Starts programs and records them.
#[derive(Debug)]
pub struct Tracer;

/// The processes of a node, and whether they are to be killed.
#[derive(Debug, Default)]
pub(super) struct Living {
    pub processes: BTreeSet<pid_t>,
    pub killed: bool,
}

/// The processes of a node, for those who may kill them.
pub(super) type Shared = Arc<Mutex<Living>>;

/// A node that is recorded. Its processes are killed when it is dropped, or this program ends.
#[derive(Debug)]
pub struct Traced {
    pid: u32,
    living: Shared,
    tracer: Option<JoinHandle<Result<NodeTrace>>>,
}

impl Tracer {
    /// Takes a snapshot of the node's directory, starts the program, and records it and all that it
    /// starts. `command` may have hooks of its own to be run before its program is; they are not
    /// recorded.
    ///
    /// # Errors
    /// If the directory cannot be read, or the program not be started.
    pub fn start(options: NodeOptions, command: Command) -> Result<Traced> {
        let living = Shared::default();
        let (tell, told) = mpsc::channel();
        let of_tracer = Arc::clone(&living);
        let node = options.name.clone();
        let tracer = thread::Builder::new()
            .name(format!("trace {node}"))
            .spawn(move || trace(options, command, of_tracer, &tell))
            .map_err(|error| Error::Trace {
                doing: "start the tracer",
                node,
                error,
            })?;
        match told.recv() {
            Ok(pid) => Ok(Traced {
                pid: pid as u32,
                living,
                tracer: Some(tracer),
            }),
            Err(_) => Err(result(tracer).expect_err("it ended before the program began")),
        }
    }
}

impl Traced {
    /// The process that was started, as it is numbered here.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills all processes of the node, and those that they are about to start.
    pub fn kill(&self) {
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.killed = true;
        for process in &living.processes {
            system::kill(*process);
        }
    }

    /// Waits until all processes of the node have ended, also those in the background, or somebody
    /// wants no more of it: then they are killed, and what was recorded is not told.
    ///
    /// # Errors
    /// If something could not be recorded.
    pub fn wait_unless(self, cancelled: &dyn Fn() -> bool) -> Result<Option<NodeTrace>> {
        while !self.tracer.as_ref().is_none_or(JoinHandle::is_finished) {
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
    /// If something could not be recorded.
    pub fn wait(mut self) -> Result<NodeTrace> {
        result(self.tracer.take().expect("it is waited for once"))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Some(tracer) = self.tracer.take() {
            self.kill();
            let _ = result(tracer);
        }
    }
}

fn result(tracer: JoinHandle<Result<NodeTrace>>) -> Result<NodeTrace> {
    tracer
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The whole life of a tracer.
fn trace(
    options: NodeOptions,
    command: Command,
    living: Shared,
    tell: &Sender<pid_t>,
) -> Result<NodeTrace> {
    if let Some(number) = options.processor {
        // It is faster so, and the same otherwise.
        let _ = machine::stay_on_one_processor(number);
    }
    let node = options.name.clone();
    let failed = |doing| {
        let node = node.clone();
        move |error| Error::Trace { doing, node, error }
    };
    system::forgo_signals_of_stops();
    let mut recording = Recording::new(options, living)?;
    let program = command.get_program().to_string_lossy().into_owned();
    let (mut ours, theirs) = pair().map_err(failed("make a socket for the first process"))?;
    // Whoever starts a process lives as long as it does: it may ask to be killed with its parent.
    let (end, ended) = mpsc::channel::<()>();
    let started =
        start(command, theirs, ended).map_err(failed("start a thread for the first process"))?;
    let first = match seize(&mut ours) {
        Ok(first) => first,
        Err(error) => {
            // It has a copy of our end of the socket, and would wait for itself.
            let _ = ours.shutdown(Shutdown::Both);
            let began = error.kind() != io::ErrorKind::UnexpectedEof;
            return Err(match started.recv() {
                Ok(Err(error)) if !began => Error::Start { program, error },
                _ => failed("trace the processes")(error),
            });
        }
    };
    drop(ours);
    // Nobody may want to know.
    let ran = recording.follow(first, || tell.send(first).unwrap_or_default());
    let refused = match &ran {
        // Behind the point from which an exec does not return the kernel can only kill.
        Ok(false) => Some(
            started
                .recv()
                .ok()
                .and_then(Result::err)
                .unwrap_or_else(killed_by_kernel),
        ),
        _ => None,
    };
    if ran.is_err() {
        recording.give_up();
    }
    drop(end);
    match refused {
        Some(error) => Err(Error::Start { program, error }),
        None => ran.and_then(|_| recording.finish()),
    }
}

/// What is wrong with a program that the kernel begins to run and then kills.
fn killed_by_kernel() -> io::Error {
    io::Error::other(
        "it was killed before it began; its file may be damaged, or too large for the memory there is",
    )
}

/// Starts the program in a thread of its own, which says how that went.
fn start(
    mut command: Command,
    theirs: UnixStream,
    ended: Receiver<()>,
) -> io::Result<Receiver<io::Result<()>>> {
    let (tell, told) = mpsc::channel();
    hook(&mut command, theirs);
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

/// The calls that are looked at.
#[cfg(not(test))]
fn table(_: &Command) -> Vec<Row> {
    ROWS.to_vec()
}

/// A test may have some of them forgotten.
#[cfg(test)]
fn table(command: &Command) -> Vec<Row> {
    let mut rows = ROWS.to_vec();
    for forgotten in command
        .get_envs()
        .filter(|(name, _)| *name == "FORGET")
        .filter_map(|(_, value)| value)
    {
        let forgotten = forgotten.to_string_lossy();
        for row in rows
            .iter_mut()
            .filter(|row| forgotten.split(' ').any(|name| name == row.name))
        {
            row.numbers = super::calls::Numbers::NONE;
        }
    }
    rows
}

/// Has the process wait, right before it runs the program, until it is traced.
#[allow(unsafe_code)]
fn hook(command: &mut Command, theirs: UnixStream) {
    let program = filter::program(&table(command));
    let wait = move || {
        let mut socket = &theirs;
        socket.write_all(&[1])?;
        // If it is refused the tracer says why.
        socket.read_exact(&mut [0])?;
        system::install_filter(&program)
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
pub(super) fn proc() -> io::Result<OwnedFd> {
    let flags =
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open("/proc", flags, rustix::fs::Mode::empty())?)
}
