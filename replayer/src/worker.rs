//! A worker: a process with an engine of its own, which does what it reads from its standard
//! input and answers on its standard output. It is this same program, started again.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use block_dev::Base;
use local_fs::{Variant, enter_mount_namespace};
use pace_rules::disk::{Disk, Selection};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use workloads::Workload;

use crate::Engine;
use crate::result::WorkloadResult;

/// The argument by which a program is told to be a worker. Every program that sweeps must
/// call [`run_worker`] when it is its first one.
pub const WORKER_COMMAND: &str = "__worker";

/// Jobs that may wait: more than are ever given without an answer.
const JOBS_MAX: usize = 8;

/// A message may not be longer than this.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

/// What a worker is told first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) variant: Variant,
    pub(crate) disk: Disk,
    pub(crate) states: Vec<Selection>,
    /// No other worker works at the same time.
    pub(crate) alone: bool,
    /// The formatted disk.
    pub(crate) base: PathBuf,
    /// An empty directory.
    pub(crate) directory: PathBuf,
}

/// What a worker is asked to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Job {
    /// A workload. Its answer may come only after the next job.
    Workload(Workload),
    /// The answers of all workloads so far are wanted now.
    Finish,
    /// Whether other workers work at the same time. It has no answer.
    SetAlone(bool),
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
    Result(Box<WorkloadResult>),
    /// The time that the floor took, in microseconds.
    Floor(u64),
}

/// Writes one message.
pub(crate) fn send<T: Serialize>(out: &mut impl Write, message: &T) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    out.write_all(&(bytes.len() as u32).to_le_bytes())?;
    out.write_all(&bytes)?;
    out.flush()
}

/// Reads one message; none at the end.
pub(crate) fn receive<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length);
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let mut bytes = vec![0; length as usize];
    input.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}

/// Works until standard input ends, which it does as well when the parent is killed: then it
/// takes its mounts and disks down like at any other end.
///
/// # Errors
/// If the messages break off.
pub fn run_worker() -> io::Result<()> {
    let mut input = BufReader::new(io::stdin());
    let mut output = BufWriter::new(io::stdout().lock());
    let Some(start) = receive::<Start>(&mut input)? else { return Ok(()) };
    let mut engine = match make_engine(&start) {
        Ok(engine) => engine,
        Err(error) => return send(&mut output, &Answer::Failed(error.to_string())),
    };
    send(&mut output, &Answer::Ready { recognises_fua: engine.recognises_fua() })?;
    // One workload waits for the file system's checker while the next one is recorded.
    let mut unfinished = None;
    for job in jobs(input) {
        let next = match job? {
            Job::Workload(workload) => Some(engine.start(&workload)),
            Job::Finish => None,
            Job::SetAlone(alone) => {
                engine.set_alone(alone);
                continue;
            }
            Job::Floor { cycles, recovering } => {
                let answer = match engine.floor(cycles, recovering) {
                    Ok(floor) => Answer::Floor(floor.elapsed.as_micros() as u64),
                    Err(error) => Answer::Failed(error.to_string()),
                };
                send(&mut output, &answer)?;
                continue;
            }
        };
        if let Some(previous) = std::mem::replace(&mut unfinished, next) {
            send(&mut output, &Answer::Result(Box::new(engine.finish(previous))))?;
        }
    }
    Ok(())
}

/// Reads jobs in a thread of its own, so that whoever gives them never waits for us to read
/// while we wait for them to read our answer.
fn jobs(mut input: BufReader<io::Stdin>) -> impl Iterator<Item = io::Result<Job>> {
    let (read, jobs) = sync_channel(JOBS_MAX);
    std::thread::spawn(move || {
        while let Some(job) = receive(&mut input).transpose() {
            let broken = job.is_err();
            if read.send(job).is_err() || broken {
                break;
            }
        }
    });
    jobs.into_iter()
}

fn make_engine(start: &Start) -> Result<Engine, crate::engine::EngineError> {
    enter_mount_namespace()?;
    let file = std::fs::File::open(&start.base)?;
    let base = Arc::new(Base::from_file(&file)?);
    let mut engine = Engine::new(&start.variant, &base, start.disk, &start.directory)?;
    engine.set_alone(start.alone);
    engine.set_states(&start.states);
    Ok(engine)
}
