//! Why file systems cannot be swept, or what a sweep left cannot be read.

use std::io;
use std::path::PathBuf;

use local_fs::Variant;

use crate::worker::Answer;

/// The result of what is done with sweeps.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something cannot be swept, or what a sweep left cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refuses something. The cause is in the words, and is no source: a pipe that was
    /// closed is one of standard output only in [`Error::Output`].
    #[error("{doing}: {error}")]
    System {
        /// What was to be done, and to what.
        doing: String,
        /// Why it is not.
        error: io::Error,
    },
    /// Nothing can be printed.
    #[error("{0}")]
    Output(#[source] io::Error),
    /// Something larger was under way when it failed.
    #[error("{doing}")]
    During {
        /// What.
        doing: String,
        /// Why it failed.
        #[source]
        why: Box<Error>,
    },
    /// The results cannot be read or kept.
    #[error(transparent)]
    Campaign(#[from] campaign::Error),
    /// No machine can be started.
    #[error(transparent)]
    Machine(#[from] machine::Error),
    /// A file system cannot be made, mounted or read.
    #[error(transparent)]
    FileSystem(#[from] local_fs::Error),
    /// A disk cannot be made, or a log of one be read.
    #[error(transparent)]
    Disk(#[from] block_dev::Error),
    /// A log to import cannot be read.
    #[error(transparent)]
    Import(#[from] block_dev::LogWritesError),
    /// A file system promises nothing.
    #[error(transparent)]
    NoContract(#[from] checker::NoContract),
    /// A text is no workload.
    #[error(transparent)]
    Workload(#[from] workloads::ParseError),
    /// A line of results cannot be read or written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),

    /// FUSE file systems are not tested in guests.
    #[error(
        "{0} is a FUSE file system, which is tested under the running kernel: leave out --kernel"
    )]
    FuseInGuest(&'static str),
    /// Only root mounts.
    #[error("root is needed to mount file systems: run it with sudo, or with --kernel uml")]
    NoRoot,
    /// The node of a device is something else.
    #[error(
        "open {device} (try `modprobe {module}`; a container must be given the device): it is not \
         a device"
    )]
    NoDevice {
        /// Its path.
        device: PathBuf,
        /// The module that makes it.
        module: String,
    },
    /// An option of kernels of our own is given for the running kernel.
    #[error("{option} is for --kernel uml: {why}")]
    ForGuests {
        /// The option.
        option: &'static str,
        /// Why it means nothing here.
        why: &'static str,
    },
    /// States of recoveries are chosen, and no recovery is crashed.
    #[error("--again-states is about crashes in recoveries: give --again 1 with it")]
    AgainStatesAlone,
    /// A file system that is repaired by a program cannot be crashed while it recovers.
    #[error(
        "{variant} does not recover by itself: {repairer} does, which promises nothing if the power \
         fails meanwhile; leave out --again, or {variant}"
    )]
    NoRecovery {
        /// The file system.
        variant: Variant,
        /// What repairs it.
        repairer: String,
    },
    /// One file system is named twice.
    #[error("{0} is named twice: with --out, name it once")]
    NamedTwice(Variant),
    /// There are files with workloads, and no workloads in them.
    #[error("no workload in {0}")]
    NoWorkload(String),
    /// Standard input would be read twice.
    #[error(
        "standard input can be read once: name one file system, or give the workloads as files"
    )]
    ReadOnce,
    /// A budget for nobody knows how many workloads.
    #[error("--budget is shared by the workloads, which must be known: give files, not -")]
    BudgetOfStream,
    /// A disk that lies about FUA cannot be told from an honest one.
    #[error("--disk drop-fua needs tracefs, to tell FUA from flushes: see `crashpoint doctor`")]
    NoTracefs,
    /// A file system that is new cannot be mounted.
    #[error("mount a new {variant}: {why}{}", advice(variant, why))]
    NotMounted {
        /// The file system.
        variant: Variant,
        /// What the worker says.
        why: String,
    },

    /// The facts of a crash state cannot be kept.
    #[error(transparent)]
    Facts(#[from] datalog::Error),
    /// Rules whose evaluation does not end.
    #[error("{0}")]
    EndlessRules(String),
    /// Rules are violated by what no crash has touched.
    #[error(
        "{workload} violates a rule while nothing has crashed, so the rule says nothing about crashes: \
         {what}; what is so only after a crash is known by `crashed`"
    )]
    ViolatedWithoutCrash {
        /// The workload.
        workload: String,
        /// What is violated.
        what: String,
    },

    /// A worker cannot do what it is told, or is gone; with its words.
    #[error("{0}")]
    Worker(String),
    /// A worker answered something else than what it was asked for.
    #[error("a worker answered {answer} {to}")]
    Answer {
        /// What it answered.
        answer: String,
        /// To what.
        to: &'static str,
    },
    /// One worker after the other is gone.
    #[error("workers keep dying: {0}")]
    WorkersDie(String),
    /// All workers are gone.
    #[error("no worker is left")]
    NoWorker,

    /// A directory holds no results.
    #[error("{0} holds no results: name a directory that --out made")]
    NoResults(PathBuf),
    /// A file is no manifest, or none of this version.
    #[error("{path} is not a manifest{of}")]
    NoManifest {
        /// The file.
        path: PathBuf,
        /// Of what it is none.
        of: &'static str,
        /// Why.
        #[source]
        why: Option<serde_json::Error>,
    },
    /// A directory of another kind of sweep.
    #[error(
        "{0} is of a program or a cluster: continue it with crashpoint app --resume or crashpoint \
         cluster sweep --resume; `show`, `replay`, `minimize`, `report` and `merge` take it as \
         they are"
    )]
    OfStates(PathBuf),
    /// The workloads of a sweep are not those that it began with.
    #[error("{0} was changed since the sweep began: put it back, or begin anew")]
    Changed(PathBuf),
    /// Workloads are not the same when they are read again.
    #[error(
        "these workloads cannot be kept for --resume: please report it as a bug, and sweep without \
         --out"
    )]
    NotKept,
    /// There are more or fewer results than workloads.
    #[error("{path} holds {count} results of {variant}, and the sweep has {total} workloads")]
    OtherCount {
        /// The directory.
        path: PathBuf,
        /// How many results it holds.
        count: u64,
        /// Of which file system.
        variant: Variant,
        /// How many workloads there are.
        total: u64,
    },
    /// A result of a file system that the manifest does not name.
    #[error("{0} with these options is not part of this sweep")]
    NotSwept(String),
    /// A result that is none of a numbered workload.
    #[error("a result without the number of its workload")]
    NoNumber,
    /// A workload has two results.
    #[error("workload number {0} is there a second time: remove one of the two lines")]
    NumberTwice(u64),
    /// A time that is negative, or longer than time is counted.
    #[error("a time that is none")]
    NoTime,
    /// A result whose workload cannot be told.
    #[error("the result of {workload} {what}")]
    ResultWithout {
        /// The name of the workload.
        workload: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The log of a run that was kept with a result makes no sense.
    #[error("{0}")]
    RunLog(String),

    /// There is no finding of that number.
    #[error("there is no finding {number}: {}", numbered(*last))]
    NoFinding {
        /// The number.
        number: usize,
        /// The last one that there is; 0 without findings.
        last: usize,
    },
    /// A finding is of the kernel that we run under.
    #[error(
        "finding {0} is a task that the running kernel did not let go of: only those of --kernel \
         uml are made small"
    )]
    HeldByRunningKernel(usize),
    /// A finding has no crash state.
    #[error("finding {0} is a kernel that died, not a crash state: replay it with crashpoint fs")]
    KernelDied(usize),
    /// A finding says nothing.
    #[error("finding {0} names no promise")]
    NoPromise(usize),

    /// A disk to import is none.
    #[error("{path} {what}")]
    ImportedDisk {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A log to import does not have the mark from which on it counts.
    #[error("{path} has no mark '{wanted}'; it has {marks}")]
    NoSuchMark {
        /// Its file.
        path: PathBuf,
        /// The mark.
        wanted: String,
        /// Those that it has.
        marks: String,
    },
    /// A log to import ends before the marks of all operations.
    #[error("there is no mark '{0}'")]
    NoMark(String),
    /// The marks of a log to import are not those of its workload.
    #[error("the mark '{found}' stands where '{expected}' should")]
    OtherMark {
        /// The mark that is there.
        found: String,
        /// The one that should be.
        expected: String,
    },
}

impl Error {
    /// A worker answered something else than what it was asked for.
    pub(crate) fn unexpected(answer: &Answer, to: &'static str) -> Self {
        let answer = format!("{answer:?}");
        Self::Answer { answer, to }
    }
}

fn numbered(last: usize) -> String {
    match last {
        0 => "there are none at all".into(),
        last => format!("they are numbered from 1 to {last}"),
    }
}

/// What may help where a mount is refused with EINVAL. It comes from another process, as words.
fn advice(variant: &Variant, why: &str) -> String {
    if !why.contains("(os error 22)") {
        return String::new();
    }
    format!(
        "; an option may be wrong, or the kernel older than {}: its log names the feature that it \
         does not know, and --mkfs-options leaves it out",
        variant.file_system.mkfs.name
    )
}

/// Says what was being done when something failed.
pub(crate) trait Context<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::System {
            doing: doing(),
            error: error.into(),
        })
    }
}

/// Says what larger thing was under way when something failed.
pub(crate) trait During<T> {
    fn during(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Error>> During<T> for Result<T, E> {
    fn during(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::During {
            doing: doing(),
            why: Box::new(error.into()),
        })
    }
}
