//! Processes that do not outlive the test that started them, and what tests wait for.

use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Output};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Looks again and again until it is so.
///
/// # Panics
/// If it takes longer than that.
#[track_caller]
pub fn wait_until(what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !is_so() {
        assert!(
            Instant::now() < deadline,
            "not within {} s: {what}",
            patience.as_secs()
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that goes with the test, however that ends: it is killed when this is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts one.
    ///
    /// # Panics
    /// If it does not start.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("started"))
    }

    /// Sends a signal to it.
    ///
    /// # Panics
    /// If somebody waited for its end before.
    #[track_caller]
    pub fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.id().cast_signed()), signal).expect("it is running");
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If that cannot be told.
    pub fn has_ended(&mut self) -> bool {
        self.try_wait().expect("it can be waited for").is_some()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        wait_until("it ends", PATIENCE, || self.has_ended());
        self.wait().expect("it has ended")
    }

    /// Waits for its end; how it ended, and what it wrote into pipes.
    ///
    /// # Panics
    /// If the end does not come.
    #[track_caller]
    pub fn output(mut self) -> Output {
        // Nobody would write to it any more.
        drop(self.stdin.take());
        // Whoever writes more than a pipe holds waits for somebody who reads.
        let (stdout, stderr) = (read(self.stdout.take()), read(self.stderr.take()));
        let status = self.end();
        Output {
            status,
            stdout: stdout.join().expect("read"),
            stderr: stderr.join().expect("read"),
        }
    }
}

/// Reads a pipe to its end.
fn read(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        }
        bytes
    })
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
