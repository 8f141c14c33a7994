//! Worker processes, and the threads that feed them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use block_dev::Base;
use campaign::Interrupt;
use local_fs::{Variant, format};
use machine::{Activity, End, Machine, Running};
use serde::Serialize;

use workloads::Workload;

use crate::engine::search::Search;
use crate::error::{Context as _, Error, Result};
use crate::fsck::{Slot, Task, help, shared_name};
use crate::result::{Death, WorkloadResult};
use crate::worker::{Answer, BASE_NAME, Job, Start, WORKER_COMMAND, receive, send, send_to_guest};

/// Formats a disk for a guest, and puts it at `path`. Where that does not work the guest does it,
/// which takes longer: as an ordinary user mkfs.btrfs fails as soon as anything at all is mounted
/// from a loop device, whose backing file it may not ask for.
fn make_base(variant: &Variant, path: &Path) -> Result<()> {
    let base = format(variant, path).map(|file| Base::from_file(&file));
    let made = match base {
        Ok(Ok(base)) => std::fs::write(path, base.pack()),
        Ok(Err(error)) => Err(error),
        Err(_) if !path.exists() => Ok(()),
        Err(_) => std::fs::remove_file(path),
    };
    made.doing(|| format!("write {}", path.display()))
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

impl From<Gone> for Error {
    fn from(gone: Gone) -> Self {
        Self::Worker(gone.words().to_owned())
    }
}

/// The way into a worker.
struct Input {
    stream: File,
    /// The directory that a guest shares with us.
    shared: Option<PathBuf>,
    /// Messages that were sent.
    messages: u32,
}

impl Input {
    fn send<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        self.messages += 1;
        match &self.shared {
            Some(shared) => send_to_guest(&mut self.stream, message, shared, self.messages),
            None => send(&mut self.stream, message),
        }
    }
}

fn told_at_once(start: &Start, jobs: &[Job]) -> io::Result<Vec<u8>> {
    let mut told = Vec::new();
    send(&mut told, start)?;
    jobs.iter().try_for_each(|job| send(&mut told, job))?;
    Ok(told)
}

/// A worker under its kernel; ended when dropped.
pub(crate) struct Worker {
    // Dropped first: a worker takes the end of its input for the wish that it ends.
    input: Arc<Mutex<Input>>,
    running: Running,
    variant: Variant,
    /// How many of the file system's own programs are at work for it.
    helping: Arc<AtomicU32>,
    recognises_fua: bool,
    /// It may take as long as the user likes.
    is_patient: bool,
    interrupt: Interrupt,
}

impl Worker {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(machine: &Machine, start: &Start) -> Result<Self> {
        Self::start_with(machine, start, &[])
    }

    /// Starts one that gets all its work at once.
    pub(crate) fn start_with(machine: &Machine, start: &Start, jobs: &[Job]) -> Result<Self> {
        let known = told_at_once(start, jobs).doing(|| "write what a worker is told".into())?;
        let mut running = machine.start(&[WORKER_COMMAND], &known)?;
        let shared = running.shared().map(Path::to_owned);
        if let Some(shared) = shared.as_ref().filter(|_| start.host_helps) {
            make_base(&start.variant, &shared.join(BASE_NAME))?;
        }
        let input = Arc::new(Mutex::new(Input {
            stream: running.take_input(),
            shared,
            messages: 0,
        }));
        let (variant, helping) = (start.variant.clone(), Arc::default());
        let mut this = Self {
            input,
            running,
            variant,
            helping,
            recognises_fua: false,
            is_patient: false,
            interrupt: Interrupt::default(),
        };
        let sent = if machine.has_virtual_time() {
            Ok(())
        } else {
            this.send(start)
        };
        let answer = sent.and_then(|()| this.receive());
        match answer? {
            Answer::Ready { recognises_fua } => {
                this.recognises_fua = recognises_fua;
                Ok(this)
            }
            Answer::Failed(why) => Err(Error::Worker(why)),
            other => Err(Error::unexpected(&other, "before it had work")),
        }
    }

    /// Has it not be waited for for long once the user wants to stop.
    pub(crate) fn obey(&mut self, interrupt: &Interrupt) {
        self.interrupt = interrupt.clone();
    }

    /// Has it be waited for for as long as the user likes, and no longer.
    pub(crate) fn be_patient(&mut self) {
        self.is_patient = true;
    }

    /// What sends it jobs from another thread.
    pub(crate) fn sender(&self) -> impl FnMut(&Job) -> io::Result<()> + Send + 'static {
        let input = Arc::clone(&self.input);
        move |job| {
            input
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .send(job)
        }
    }

    pub(crate) fn send<T: Serialize>(&mut self, message: &T) -> Result<(), Gone> {
        let sent = self
            .input
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .send(message);
        sent.map_err(|error| self.broke_off(&error))
    }

    /// Waits for the next answer, as long as something goes on.
    pub(crate) fn receive(&mut self) -> Result<Answer, Gone> {
        loop {
            self.wait()?;
            match receive(self.running.output()) {
                Ok(Some(Answer::Help(slot, task))) => self.help(slot, task),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    return Err(self.broke_off(&io::Error::from(io::ErrorKind::UnexpectedEof)));
                }
                Err(error) => return Err(self.broke_off(&error)),
            }
        }
    }

    /// Waits until there is something to receive.
    fn wait(&mut self) -> Result<(), Gone> {
        let mut activity = Activity::default();
        while !self.running.readable(LOOK_EVERY) {
            if self.running.has_ended() {
                return Err(self.broke_off(&io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
            if self.interrupt.is_out_of_patience()
                || (self.is_patient && self.interrupt.requested())
            {
                self.running.kill();
                return Err(Gone::Other("it was interrupted".into()));
            }
            if self.is_patient || self.helping.load(Ordering::Relaxed) > 0 {
                activity = Activity::default();
            } else if let Some(why) = activity.look(self.running.pid()) {
                return Err(self.stuck(&why));
            }
        }
        Ok(())
    }

    /// Has the file system's own program do what a guest asks for with what it has left for it, and
    /// tells the guest.
    fn help(&self, slot: Slot, task: Task) {
        let (input, helping) = (Arc::clone(&self.input), Arc::clone(&self.helping));
        let image = self
            .running
            .shared()
            .map(|shared| shared.join(shared_name(slot)));
        let variant = self.variant.clone();
        helping.fetch_add(1, Ordering::Relaxed);
        std::thread::spawn(move || {
            let done = image.ok_or("it shares nothing with us".to_owned());
            let done = done.and_then(|image| help(&variant, &image, task));
            // If it is gone, whoever waits for it notices.
            let _ = input
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .send(&Job::Helped(slot, done));
            helping.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn broke_off(&mut self, error: &io::Error) -> Gone {
        match self.running.end() {
            End::Kernel { what, log } => Gone::Kernel { what, log },
            End::Process(how) => Gone::Other(format!("the worker died: {how} ({error})")),
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
            Some(task) => Gone::Kernel {
                what: format!("{task}: {why}"),
                log,
            },
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
        let answer = self.work(&Job::Alone(workload.clone()));
        self.steps(workload, answer)
    }

    /// Has a workload done and nothing besides, while other workers may work under this kernel.
    /// Where the kernel dies of it, that is the result.
    pub(crate) fn work_singly(&mut self, workload: &Workload) -> Result<WorkloadResult, Gone> {
        self.send(&Job::Workload(workload.clone()))?;
        let answer = self.work(&Job::Finish);
        self.steps(workload, answer)
    }

    /// Has it look for a crash state while no other worker works under this kernel.
    pub(crate) fn search(
        &mut self,
        workload: &Workload,
        search: &Search,
    ) -> Result<WorkloadResult, Gone> {
        let answer = self.work(&Job::Search(workload.clone(), search.clone()));
        self.steps(workload, answer)
    }

    /// Has a job about a workload done in a guest of its own, which knows all that it will do when
    /// it starts.
    ///
    /// # Errors
    /// If the guest cannot be started; what becomes of the worker later is the inner result.
    pub(crate) fn work_once(
        machine: &Machine,
        start: &Start,
        workload: &Workload,
        job: Job,
        interrupt: &Interrupt,
    ) -> Result<Result<WorkloadResult, Gone>> {
        let mut this = Self::start_with(machine, start, &[job])?;
        this.obey(interrupt);
        let answer = this.receive();
        Ok(this.steps(workload, answer))
    }

    /// Listens to the steps of a workload until it is done.
    fn steps(
        &mut self,
        workload: &Workload,
        mut answer: Result<Answer, Gone>,
    ) -> Result<WorkloadResult, Gone> {
        let mut during = "starting".to_owned();
        while let Ok(Answer::Step(step)) = answer {
            during = step;
            answer = self.receive();
        }
        match answer {
            Ok(Answer::Result(result)) => Ok(*result),
            Ok(other) => Err(Gone::Other(format!(
                "the worker answered {other:?} to a workload"
            ))),
            Err(Gone::Kernel { what, log }) => {
                let death = Death { during, what, log };
                Ok(WorkloadResult {
                    death: Some(death),
                    ..WorkloadResult::new(workload.name.clone())
                })
            }
            Err(other) => Err(other),
        }
    }
}
