//! Worker processes, and the threads that feed them.

use std::io::{self, BufReader, BufWriter};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::worker::{Answer, Job, Start, WORKER_COMMAND, receive, send};

/// How long a worker may take to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// Whether the user asked to stop (Ctrl-C, SIGTERM). From then on nothing new is begun.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT and SIGTERM.
    ///
    /// # Errors
    /// If they cannot be caught.
    pub fn watch() -> io::Result<Self> {
        let this = Self::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&this.0))?;
        }
        Ok(this)
    }

    /// Whether it was asked for.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks for it from within: the output is closed, or the disk is full.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A worker process; ended when dropped.
pub(crate) struct Worker {
    process: Child,
    input: Option<BufWriter<ChildStdin>>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(start: &Start) -> anyhow::Result<Self> {
        // It may have been replaced by a newer build since we were started.
        let program = std::env::current_exe().ok().filter(|program| program.exists());
        let program = program.unwrap_or_else(|| Path::new("/proc/self/exe").into());
        let mut process = Command::new(program)
            .arg(WORKER_COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| anyhow::anyhow!("start a worker process: {error}"))?;
        let input = BufWriter::new(process.stdin.take().expect("piped"));
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let mut this = Self { process, input: Some(input), output };
        this.send(start)?;
        match this.receive()? {
            Answer::Ready => Ok(this),
            Answer::Failed(why) => anyhow::bail!("{why}"),
            other => anyhow::bail!("a worker answered {other:?} before it had work"),
        }
    }

    pub(crate) fn send<T: serde::Serialize>(&mut self, message: &T) -> anyhow::Result<()> {
        let input = self.input.as_mut().expect("open until dropped");
        send(input, message).map_err(|error| self.died(&error))
    }

    pub(crate) fn receive(&mut self) -> anyhow::Result<Answer> {
        match receive(&mut self.output) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.died(&io::Error::from(io::ErrorKind::UnexpectedEof))),
            Err(error) => Err(self.died(&error)),
        }
    }

    fn died(&mut self, error: &io::Error) -> anyhow::Error {
        match self.process.wait() {
            Ok(status) => anyhow::anyhow!("the worker process died ({status})"),
            Err(_) => anyhow::anyhow!("the worker process died: {error}"),
        }
    }

    /// Has a job done.
    pub(crate) fn work(&mut self, job: &Job) -> anyhow::Result<Answer> {
        self.send(job)?;
        self.receive()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // End of input: it takes its mounts and disks down and ends.
        self.input = None;
        let deadline = Instant::now() + END_PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
