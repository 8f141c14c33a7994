//! A thread that works until it is told to end.

use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use crate::error::{Context, Result};

/// A thread that works. It ends when this is dropped.
pub(crate) struct Stoppable {
    /// Closed to end it.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Stoppable {
    /// Starts one, which gets a pipe whose other end is closed when it is to end.
    ///
    /// # Errors
    /// If there can be no more threads or descriptors.
    pub(crate) fn start(name: &str, work: impl FnOnce(&OwnedFd) + Send + 'static) -> Result<Self> {
        let (stopped, stop) = pipe2(OFlag::O_CLOEXEC).doing(|| "make a pipe".into())?;
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || work(&stopped));
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread.doing(|| "start a thread".into())?),
        })
    }

    /// Whether it still works.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // One that has panicked works no more, which `is_alive` tells.
            let _ = thread.join();
        }
    }
}
