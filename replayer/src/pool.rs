//! Worker processes, and the threads that feed them.

use std::io::{self, BufReader, BufWriter};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::worker::{Answer, Job, Start, WORKER_COMMAND, receive, send};

/// The exit status of a run that was broken off.
const INCOMPLETE: i32 = 3;

/// A signal that comes this long after the first one means that patience is at its end.
const SECOND_THOUGHT: Duration = Duration::from_secs(1);

/// How long a worker may take to end by itself.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// Whether the user asked to stop (Ctrl-C, SIGTERM). From then on nothing new is begun.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for SIGINT, SIGTERM and SIGHUP. Asked again after a while, the process does not
    /// wait for anything any more: the workers end by themselves.
    ///
    /// # Errors
    /// If they cannot be caught.
    pub fn watch() -> io::Result<Self> {
        let this = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let requested = this.clone();
        std::thread::spawn(move || {
            let mut first = None;
            for _ in signals.forever() {
                requested.request();
                // Whoever signals a whole group may reach us twice at once.
                if first.get_or_insert_with(Instant::now).elapsed() > SECOND_THOUGHT {
                    std::process::exit(INCOMPLETE);
                }
            }
        });
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
    recognises_fua: bool,
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
            // Ctrl-C reaches a whole process group; what becomes of the workers we decide.
            .process_group(0)
            .spawn()
            .map_err(|error| anyhow::anyhow!("start a worker process: {error}"))?;
        let input = BufWriter::new(process.stdin.take().expect("piped"));
        let output = BufReader::new(process.stdout.take().expect("piped"));
        let mut this = Self { process, input: Some(input), output, recognises_fua: false };
        this.send(start)?;
        match this.receive()? {
            Answer::Ready { recognises_fua } => {
                this.recognises_fua = recognises_fua;
                Ok(this)
            }
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
        // It may be alive and talk nonsense.
        let _ = self.process.kill();
        match self.process.wait() {
            Ok(status) => anyhow::anyhow!("the worker process died ({status})"),
            Err(_) => anyhow::anyhow!("the worker process died: {error}"),
        }
    }

    /// Whether it can tell FUA from flushes.
    pub(crate) fn recognises_fua(&self) -> bool {
        self.recognises_fua
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
