//! A worker: a process with an engine of its own, which does what it reads from its standard
//! input and answers on its standard output. It is this same program, started again. In tests it
//! may be a thread.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use block_dev::Base;
use local_fs::{Scratch, Variant, enter_mount_namespace, format};
use machine::{CHANNEL_BYTES_MAX, GUEST_SHARED};
use pace_rules::disk::States;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use signal_hook::consts::SIGXFSZ;
use specification::Specification;
use workloads::Workload;

use crate::crash_again::CrashAgain;
use crate::disk_kind::DiskKind;
use crate::engine::search::{Recovered, Search};
use crate::engine::{Engine, EngineError, Floor, Tell, Unfinished};
use crate::fsck::{self, FsckPlace, HostAnswers, Slot, Task};
use crate::guest_look::{GuestLook, Keyboard, Seen, Stream};
use crate::import::Import;
use crate::prepare::prepare_kernel;
use crate::result::WorkloadResult;
use crate::test_bed::{KernelBed, TestBed};

/// The argument by which a program is told to be a worker.
pub(crate) const WORKER_COMMAND: &str = "__worker";

/// The name of the file with the formatted disk.
pub(crate) const BASE_NAME: &str = "base";

/// Jobs that may wait: more than are ever given without an answer.
const JOBS_MAX: usize = 8;

/// How often a worker that is not alone says what it does.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// Messages that may be on their way into a worker: as many workloads as it may have, one to have
/// it finish, and what the host did with two slots.
const MESSAGES_MAX: usize = 6;

/// A message may not be longer than this.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

/// What a worker is told first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) variant: Variant,
    pub(crate) disk: DiskKind,
    /// Whose promises count, if not those of the file system itself.
    pub(crate) contract: Option<Variant>,
    pub(crate) states: States,
    pub(crate) again: CrashAgain,
    pub(crate) seed: u64,
    /// How long a workload may visit crash states.
    pub(crate) share: Option<Duration>,
    /// No other worker works at the same time under this kernel.
    pub(crate) alone: bool,
    /// An empty directory; without one the worker makes one.
    pub(crate) directory: Option<PathBuf>,
    /// It is in a guest whose host made the base and runs the file system's checker and repair.
    pub(crate) host_helps: bool,
    /// Results have a hash of the block log.
    pub(crate) hash_log: bool,
    /// Workloads are not run: this is the log of their run.
    pub(crate) import: Option<Import>,
    /// What crash states are held against besides.
    pub(crate) specifications: Vec<Specification>,
}

/// What a worker is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Job {
    /// A workload. Its answer may come only after the next job. Now and then a step is told.
    Workload(Workload),
    /// The answers of all workloads so far are wanted now.
    Finish,
    /// A workload, while no other worker works under this kernel. Its steps are told as they are
    /// taken, and it is answered before anything else is done.
    Alone(Workload),
    /// One crash state of a workload, or one like it, while no other worker works under this
    /// kernel. Its steps are told.
    Search(Workload, Search),
    /// The same, and once it is found it is mounted and shown; nothing comes after that. Its steps
    /// are told.
    Look(Workload, Search, GuestLook),
    /// The user has typed this at the terminal of what is shown.
    Typed(Vec<u8>),
    /// What the host did with a slot. It has no answer.
    Helped(Slot, fsck::Answer),
    /// So many cycles of the floor, on the image of a crash or on the clean base.
    Floor { cycles: u32, recovering: bool },
}

/// What a worker answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is ready for jobs.
    Ready {
        /// Whether it can tell FUA from flushes.
        recognises_fua: bool,
    },
    /// It cannot work at all.
    Failed(String),
    /// Wants the host to do something with what is in the file of a slot.
    Help(Slot, Task),
    /// What is done next, in words.
    Step(String),
    Result(Box<WorkloadResult>),
    /// A crash state was found and mounted, and is shown next.
    Seen(Box<Seen>),
    /// What shows it printed this.
    Printed(Stream, Vec<u8>),
    /// What was typed was taken.
    Typed,
    /// What shows it has ended; how, if there is something to say of that.
    Ended(Option<String>),
    /// The time that the floor took, in microseconds.
    Floor(u64),
}

/// Set in the length of a message whose content is in a file.
const IN_FILE: u32 = 1 << 31;

/// Writes one message.
pub(crate) fn send<T: Serialize>(out: &mut impl Write, message: &T) -> io::Result<()> {
    let content = postcard::to_stdvec(message).map_err(io::Error::other)?;
    // In one piece: a system call is slow in a guest.
    let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
    bytes.extend(content);
    out.write_all(&bytes)?;
    out.flush()
}

/// Writes one message into a guest. Its channel takes only so much at a time, so the content of a
/// longer one goes into a file of the directory that the guest shares with us.
pub(crate) fn send_to_guest<T: Serialize>(
    out: &mut impl Write,
    message: &T,
    shared: &Path,
    number: u32,
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    if bytes.len() <= CHANNEL_BYTES_MAX / MESSAGES_MAX {
        return send(out, message);
    }
    std::fs::write(shared.join(file_name(number)), bytes)?;
    out.write_all(&(number | IN_FILE).to_le_bytes())?;
    out.flush()
}

fn file_name(number: u32) -> String {
    format!("message-{number}")
}

/// Reads one message; none at the end.
pub(crate) fn receive<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length);
    let bytes = if length & IN_FILE != 0 {
        let path = Path::new(GUEST_SHARED).join(file_name(length & !IN_FILE));
        let bytes = std::fs::read(&path)?;
        std::fs::remove_file(&path)?;
        bytes
    } else if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message is too long",
        ));
    } else {
        let mut bytes = vec![0; length as usize];
        input.read_exact(&mut bytes)?;
        bytes
    };
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(io::Error::other)
}

/// Does what the program was started for by ourselves, if it was: to be a worker, or what a
/// machine needs. Every program that sweeps must call this first.
pub fn run_hidden() -> Option<ExitCode> {
    // A write beyond `ulimit -f` is to fail with words, and not to end us without any. A program
    // that we start has the signal as it always is: what catches it does not outlive exec.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == WORKER_COMMAND)
    {
        // Whoever gave us work is gone if this fails.
        return Some(run_worker().map_or(ExitCode::from(2), |()| ExitCode::SUCCESS));
    }
    machine::run_hidden()
}

/// Works for whoever started this program, on standard input and output.
///
/// # Errors
/// If the messages break off.
fn run_worker() -> io::Result<()> {
    STARTED_AS.get_or_init(std::process::id);
    serve(io::stdin(), Arc::new(answer), kernel_ground)
}

/// Where answers go.
pub(crate) type Answerer = Arc<dyn Fn(&Answer) -> io::Result<()> + Send + Sync>;

/// What a worker works on.
pub(crate) struct Ground {
    pub(crate) bed: Box<dyn TestBed>,
    /// What the disks hold at first.
    pub(crate) base: Arc<Base>,
    /// Where its files are, if it has some.
    pub(crate) place: Option<Place>,
}

/// Works until its input ends, which it does as well when the parent is killed: then it takes its
/// mounts and disks down like at any other end.
///
/// # Errors
/// If the messages break off.
pub(crate) fn serve(
    input: impl Read + Send + 'static,
    answer: Answerer,
    ground: impl FnOnce(&Start, &HostAnswers) -> Result<Ground, EngineError>,
) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let Some(start) = receive::<Start>(&mut input)? else {
        return Ok(());
    };
    let answers = HostAnswers::default();
    let keyboard = Keyboard::default();
    let made = ground(&start, &answers).and_then(|Ground { bed, base, place }| {
        // The engine goes before the place where it is.
        Ok((make_engine(&start, bed, &base)?, place))
    });
    let mut worker = match made {
        Ok((engine, place)) => Worker {
            engine,
            unfinished: None,
            alone: start.alone,
            keyboard: keyboard.clone(),
            answer,
            _place: place,
        },
        Err(error) => return answer(&Answer::Failed(error.to_string())),
    };
    (worker.answer)(&Answer::Ready {
        recognises_fua: worker.engine.recognises_fua(),
    })?;
    jobs(input, answers, keyboard).try_for_each(|job| worker.work(job?))
}

/// Our number, as the kernel gave it when we began.
static STARTED_AS: OnceLock<u32> = OnceLock::new();

/// Answers, from whatever part of the worker.
///
/// When somebody kills the kernel of a guest, its processes are let go by their tracer, and go on
/// for a moment as processes of the host, with its files and its output: what they would answer is
/// not true. Under another kernel we have another number.
pub(crate) fn answer(answer: &Answer) -> io::Result<()> {
    if std::process::id() != *STARTED_AS.get_or_init(std::process::id) {
        std::process::exit(2);
    }
    send(&mut io::stdout().lock(), answer)
}

/// An engine and what it has not answered.
struct Worker {
    engine: Engine,
    /// One workload waits for the file system's checker while the next one is recorded.
    unfinished: Option<Unfinished>,
    alone: bool,
    keyboard: Keyboard,
    answer: Answerer,
    _place: Option<Place>,
}

impl Worker {
    fn work(&mut self, job: Job) -> io::Result<()> {
        match job {
            Job::Workload(workload) => {
                let next = self.now_and_then(|engine, tell| engine.start(&workload, tell))?;
                let previous = self.unfinished.replace(next);
                self.finish(previous)
            }
            Job::Finish => {
                let last = self.unfinished.take();
                self.finish(last)
            }
            Job::Alone(workload) => {
                self.engine.set_alone(true);
                self.work_alone(&workload)?;
                self.engine.set_alone(self.alone);
                Ok(())
            }
            Job::Search(workload, search) => {
                let result =
                    self.step_by_step(|engine, tell| engine.search(&workload, &search, tell))?;
                (self.answer)(&Answer::Result(Box::new(result)))
            }
            Job::Look(workload, search, look) => self.look(&workload, &search, &look),
            Job::Floor { cycles, recovering } => {
                let floor = self.engine.floor(cycles, recovering);
                (self.answer)(&floor_answer(floor))
            }
            // Whoever waits for it has it already.
            Job::Helped(..) | Job::Typed(_) => Ok(()),
        }
    }

    /// Searches, and has what it finds looked at while it is mounted.
    fn look(&mut self, workload: &Workload, search: &Search, look: &GuestLook) -> io::Result<()> {
        let keyboard = self.keyboard.clone();
        let mut show = |recovered: Recovered<'_>| Ok(look.show(recovered, &keyboard)?);
        let result =
            self.step_by_step(|engine, tell| engine.look(workload, search, tell, &mut show))?;
        (self.answer)(&Answer::Result(Box::new(result)))
    }

    fn work_alone(&mut self, workload: &Workload) -> io::Result<()> {
        let unfinished = self.step_by_step(|engine, tell| {
            let unfinished = engine.start(workload, tell);
            tell("running the file system's checker");
            unfinished
        })?;
        self.finish(Some(unfinished))
    }

    /// Has the engine do something, and says each of its steps.
    fn step_by_step<T>(&mut self, doing: impl FnOnce(&mut Engine, Tell<'_>) -> T) -> io::Result<T> {
        let mut told = Ok(());
        let answer = Arc::clone(&self.answer);
        let mut tell = |step: &str| told = answer(&Answer::Step(step.to_owned()));
        let done = doing(&mut self.engine, &mut tell);
        told.map(|()| done)
    }

    /// Has the engine do something, and says a step of it whenever nothing was said for a while:
    /// whoever waits sees that it goes on, and each message costs time.
    fn now_and_then<T>(&mut self, doing: impl FnOnce(&mut Engine, Tell<'_>) -> T) -> io::Result<T> {
        let mut said: Option<Instant> = None;
        self.step_by_step(|engine, tell| {
            let mut seldom = |step: &str| {
                if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
                    said = Some(Instant::now());
                    tell(step);
                }
            };
            doing(engine, &mut seldom)
        })
    }

    fn finish(&mut self, unfinished: Option<Unfinished>) -> io::Result<()> {
        let Some(unfinished) = unfinished else {
            return Ok(());
        };
        let result = self.engine.finish(unfinished);
        (self.answer)(&Answer::Result(Box::new(result)))
    }
}

fn floor_answer(floor: Result<Floor, EngineError>) -> Answer {
    match floor {
        Ok(floor) => Answer::Floor(floor.elapsed.as_micros() as u64),
        Err(error) => Answer::Failed(error.to_string()),
    }
}

/// Reads jobs in a thread of its own, so that whoever gives them never waits for us to read
/// while we wait for them to read our answer.
fn jobs(
    mut input: impl Read + Send + 'static,
    answers: HostAnswers,
    keyboard: Keyboard,
) -> impl Iterator<Item = io::Result<Job>> {
    let (read, jobs) = sync_channel(JOBS_MAX);
    std::thread::spawn(move || {
        while let Some(job) = receive(&mut input).transpose() {
            if let Ok(Job::Helped(slot, done)) = job {
                answers.put(slot, done);
                continue;
            }
            let job = match job {
                Ok(Job::Typed(typed)) => match keyboard.put(&typed) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                job => job,
            };
            let broken = job.is_err();
            if read.send(job).is_err() || broken {
                break;
            }
        }
    });
    jobs.into_iter()
}

/// Where a worker has its files.
pub(crate) enum Place {
    /// In a directory that goes with whoever gave it.
    Given(PathBuf),
    Own(Scratch),
}

impl Place {
    fn new(start: &Start) -> Result<Self, EngineError> {
        enter_mount_namespace()?;
        Ok(match &start.directory {
            Some(directory) => Self::Given(directory.clone()),
            None => Self::Own(Scratch::new()?),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Own(scratch) => scratch.path(),
        }
    }
}

/// Disks under this kernel.
fn kernel_ground(start: &Start, answers: &HostAnswers) -> Result<Ground, EngineError> {
    let place = Place::new(start)?;
    prepare_kernel(&start.variant)?;
    let (base, fsck) = make_base(start, place.path(), answers)?;
    let base = Arc::new(base);
    let completion = start.disk.completion;
    let bed = KernelBed::new(&start.variant, &base, completion, place.path(), &fsck)?;
    Ok(Ground {
        bed: Box::new(bed),
        base,
        place: Some(place),
    })
}

/// What the disks hold at first, and where the file system's own programs run.
fn make_base(
    start: &Start,
    directory: &Path,
    answers: &HostAnswers,
) -> Result<(Base, FsckPlace), EngineError> {
    if let Some(import) = &start.import {
        let file = File::open(&import.base)
            .map_err(|error| format!("open {}: {error}", import.base.display()))?;
        return Ok((Base::from_file(&file)?, FsckPlace::default()));
    }
    let here = directory.join(BASE_NAME);
    // Every worker's disk has an identity of its own: there are kernels that take two disks with
    // the same one for the same.
    let format_here =
        || -> Result<Base, EngineError> { Ok(Base::from_file(&format(&start.variant, &here)?)?) };
    if !start.host_helps {
        return Ok((format_here()?, FsckPlace::default()));
    }
    let shared = Path::new(GUEST_SHARED);
    let base = match std::fs::read(shared.join(BASE_NAME)) {
        Ok(packed) => Base::unpack(&packed)?,
        // The host could not make it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => format_here()?,
        Err(error) => return Err(error.into()),
    };
    let ask = |slot, task| answer(&Answer::Help(slot, task));
    let fsck = FsckPlace::host(shared.to_owned(), ask, answers.clone());
    Ok((base, fsck))
}

fn make_engine(
    start: &Start,
    bed: Box<dyn TestBed>,
    base: &Arc<Base>,
) -> Result<Engine, EngineError> {
    let mut engine = Engine::on(bed, &start.variant, base, start.disk.honesty)?;
    if let Some(contract) = &start.contract {
        engine.judge_by(contract)?;
    }
    engine.set_alone(start.alone);
    engine.set_states(start.states, start.seed);
    engine.set_again(start.again);
    engine.set_share(start.share);
    engine.set_hash_log(start.hash_log);
    // Programs are slow to start in a guest, and these are for people: only a host can do that for
    // it.
    engine.set_name_blocks(!start.hash_log);
    engine.hold_against(&start.specifications)?;
    if let Some(import) = &start.import {
        engine.set_import(import.clone());
    }
    Ok(engine)
}
