//! The ends of nodes, as events.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::open_process;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use crate::process::{Ending, Process};

/// A node's command has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEnd {
    /// The node's index in the cluster file.
    pub node: usize,
    /// How it ended.
    pub how: Ending,
    /// Whether it was asked for: the node was killed, stopped, or switched off.
    pub asked: bool,
    /// When that was seen.
    pub at: Instant,
}

/// A process that several look at.
pub(crate) type SharedProcess = Arc<Mutex<Box<dyn Process>>>;

/// Waits for the end of one process and tells it, once. Whoever drops it waits for that: the
/// process is being killed then.
pub(crate) struct Watch {
    asked: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// So soon who traces a process hears of its end.
const HEARD_WITHIN: Duration = Duration::from_millis(200);

/// How a process ended, whose end can be seen. Who traces it may not have heard of that yet.
fn how(process: &SharedProcess) -> Ending {
    let until = Instant::now() + HEARD_WITHIN;
    loop {
        match process.lock().expect(NO_PANIC).ended() {
            Ok(None) if Instant::now() < until => {}
            how => return how.ok().flatten().unwrap_or(Ending::Unknown),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Watch {
    /// Watches the command of a node.
    pub(crate) fn start(
        node: usize,
        process: &SharedProcess,
        ends: Sender<NodeEnd>,
    ) -> io::Result<Self> {
        let pid = process.lock().expect(NO_PANIC).pid();
        let handle = handle(pid)?;
        let (process, asked) = (Arc::clone(process), Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&asked);
        let watch = move || {
            if handle.is_some_and(|handle| await_end(&handle).is_err()) {
                return;
            }
            let asked = seen.load(Ordering::SeqCst);
            let how = how(&process);
            // Nobody may listen any more.
            let _ = ends.send(NodeEnd {
                node,
                how,
                asked,
                at: Instant::now(),
            });
        };
        let thread = std::thread::Builder::new().name("end".into());
        Ok(Self {
            asked,
            thread: Some(thread.spawn(watch)?),
        })
    }

    /// What ends from now on was asked to.
    pub(crate) fn end_is_asked_for(&self) {
        self.asked.store(true, Ordering::SeqCst);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const NO_PANIC: &str = "no holder panics";

/// What becomes readable when a process ends, whoever waits for it (pidfd_open(2)). None if there
/// is no such process any more.
fn handle(pid: u32) -> io::Result<Option<OwnedFd>> {
    match open_process(Pid::from_raw(pid.cast_signed())) {
        Ok(handle) => Ok(Some(handle)),
        Err(Errno::ESRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn await_end(handle: &OwnedFd) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
