//! Worker processes, and the threads that feed them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::{Activity, End, Machine, Running};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use workloads::Workload;

use crate::result::{Death, WorkloadResult};
use crate::worker::{Answer, Job, Start, WORKER_COMMAND, receive, send, send_to_guest};

/// The exit status of a run that was broken off.
const INCOMPLETE: i32 = 3;

/// A signal that comes this long after the first one means that patience is at its end.
const SECOND_THOUGHT: Duration = Duration::from_secs(1);

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

/// How often a worker that does not answer is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why a worker does not answer any more.
#[derive(Debug)]
pub(crate) enum Gone {
    /// The kernel died, or something in it never came back.
    Kernel {
        /// In one line.
        what: String,
        /// What the kernel said last.
        log: Vec<String>,
    },
    /// What says nothing of the kernel.
    Other(String),
}

impl Gone {
    /// In one line.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Kernel { what, .. } | Self::Other(what) => what,
        }
    }
}

/// A worker under its kernel; ended when dropped.
pub(crate) struct Worker {
    running: Running,
    /// Messages that were sent.
    messages: u32,
    recognises_fua: bool,
}

impl Worker {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(machine: &Machine, start: &Start) -> anyhow::Result<Self> {
        let running = machine.start(&[WORKER_COMMAND])?;
        let mut this = Self { running, messages: 0, recognises_fua: false };
        let answer = this.send(start).and_then(|()| this.receive());
        match answer.map_err(|gone| anyhow::anyhow!("{}", gone.words()))? {
            Answer::Ready { recognises_fua } => {
                this.recognises_fua = recognises_fua;
                Ok(this)
            }
            Answer::Failed(why) => anyhow::bail!("{why}"),
            other => anyhow::bail!("a worker answered {other:?} before it had work"),
        }
    }

    pub(crate) fn send<T: serde::Serialize>(&mut self, message: &T) -> Result<(), Gone> {
        self.messages += 1;
        let shared = self.running.shared().map(Path::to_owned);
        let input = self.running.input();
        let sent = match shared {
            Some(shared) => send_to_guest(input, message, &shared, self.messages),
            None => send(input, message),
        };
        sent.map_err(|error| self.broke_off(&error))
    }

    /// Waits for the next answer, as long as something goes on.
    pub(crate) fn receive(&mut self) -> Result<Answer, Gone> {
        let mut activity = Activity::default();
        while !self.running.readable(LOOK_EVERY) {
            if self.running.has_ended() {
                return Err(self.broke_off(&io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
            if let Some(why) = activity.look(self.running.pid()) {
                return Err(self.stuck(&why));
            }
        }
        match receive(self.running.output()) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.broke_off(&io::Error::from(io::ErrorKind::UnexpectedEof))),
            Err(error) => Err(self.broke_off(&error)),
        }
    }

    fn broke_off(&mut self, error: &io::Error) -> Gone {
        match self.running.end() {
            End::Kernel { what, log } => Gone::Kernel { what, log },
            End::Process(how) => Gone::Other(format!("the worker died ({how}; {error})")),
            End::Host(why) => Gone::Other(why),
        }
    }

    /// It does not move any more. If that is so because the kernel holds one of its tasks, the
    /// kernel is to blame; otherwise we are.
    fn stuck(&mut self, why: &str) -> Gone {
        let held = self.running.held_by_kernel();
        let log = self.running.console();
        self.running.kill();
        match held {
            Some(task) => Gone::Kernel { what: format!("{task}: {why}"), log },
            None => Gone::Other(format!("the worker is stuck: {why}")),
        }
    }

    /// Whether it can tell FUA from flushes.
    pub(crate) fn recognises_fua(&self) -> bool {
        self.recognises_fua
    }

    /// Has a job done.
    pub(crate) fn work(&mut self, job: &Job) -> Result<Answer, Gone> {
        self.send(job)?;
        self.receive()
    }

    /// Has a workload done while no other worker works under this kernel. Where the kernel dies
    /// of it, that is the result.
    pub(crate) fn work_alone(&mut self, workload: &Workload) -> Result<WorkloadResult, Gone> {
        let mut during = "starting".to_owned();
        let mut answer = self.work(&Job::Alone(workload.clone()));
        while let Ok(Answer::Step(step)) = answer {
            during = step;
            answer = self.receive();
        }
        match answer {
            Ok(Answer::Result(result)) => Ok(*result),
            Ok(other) => Err(Gone::Other(format!("the worker answered {other:?} to a workload"))),
            Err(Gone::Kernel { what, log }) => {
                let death = Death { during, what, log };
                Ok(WorkloadResult { death: Some(death), ..WorkloadResult::new(workload.name.clone()) })
            }
            Err(other) => Err(other),
        }
    }
}
