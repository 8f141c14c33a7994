//! One run of a cluster on simulated machines, with a failure or without.

mod held;
mod reference;
mod run;
mod story;

use std::path::{Path, PathBuf};

use cluster::{ClusterFile, Driven, Error as ClusterError, SimulatedCluster, SimulationSettings};
use machine::OwnDirectory;
use pace_rules::disk::State;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::plan::{Failure, Fault, PointRange};
use run::Run;
use story::{Printed, Story};

pub use held::{Held, Rules};
pub use reference::Reference;

/// How long machines are without power.
const DOWN_NS: u64 = 1_000_000_000;

/// Tells a client how many operations it is to do at most.
pub const OPERATIONS: &str = "CRASHPOINT_OPERATIONS";

/// What came of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Judged {
    /// All that was acknowledged is there, and the cluster serves.
    Ok,
    /// What is not as it was promised.
    Broken {
        /// In the words of the check, or how a node does not come up.
        broken: Vec<String>,
    },
    /// The check did not decide.
    Inconclusive {
        /// Why.
        why: String,
    },
}

/// What the power failure left of the disk of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLeft {
    /// The node.
    pub node: usize,
    /// The state of its disk, of the log since its last power failure.
    pub state: State,
    /// The places in the log of the writes that are not there, or not whole.
    pub lost: Vec<usize>,
}

/// A fault that has happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    /// What was to happen.
    #[serde(flatten)]
    pub fault: Fault,
    /// When it did, in seconds of the simulation's time.
    pub time_s: f64,
    /// How many acknowledgements there were by then.
    pub acknowledged_before: usize,
    /// The last one of these.
    pub last: Option<String>,
    /// What is left of the disks of the victims.
    pub disks: Vec<DiskLeft>,
}

/// A run with a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveRun {
    /// The faults that came to happen.
    pub happened: Vec<Happened>,
    /// Those that were to happen and did not.
    pub missed: Vec<Fault>,
    /// All acknowledgements.
    pub acknowledged: Vec<String>,
    /// When the power can fail again, while the cluster recovers from the last fault: where the
    /// machines that boot are asking their disks.
    pub recovery: Vec<PointRange>,
    /// What came of it.
    pub judged: Judged,
    /// What two equal runs have in common ([`simulation::Simulation::history`]).
    pub history: String,
    /// When it was forked, if it was.
    pub forked_ns: Option<u64>,
    /// What specifications come to in it.
    pub held: Held,
    /// Whether it was cut short since a kernel was gone for no reason in its machine, which need not come again.
    pub has_lost_kernel: bool,
}

/// A run without a failure, from which runs with one are forked.
pub struct Prefix<'a> {
    run: Run<'a>,
    // It holds the logs of the run.
    _logs: Logs,
}

/// A fork of such a run, which goes on from there.
pub struct Future<'a> {
    run: Run<'a>,
    logs: Logs,
}

/// A cluster, and how it is simulated: runs of it.
#[derive(Clone)]
pub struct Laboratory {
    file: ClusterFile,
    settings: SimulationSettings,
    /// How many operations the client is told to do at most.
    operations: Option<u64>,
    /// What runs are held against.
    rules: Rules,
    /// The file that gets the facts of a run.
    facts: Option<PathBuf>,
}

/// A run that stands still at a time. What runs is killed when it is dropped.
pub struct StandStill {
    /// The machines.
    pub cluster: SimulatedCluster,
    /// The faults that have happened.
    pub happened: Vec<Happened>,
    /// What has been acknowledged.
    pub acknowledged: Vec<String>,
    /// What machines say there goes with it.
    _logs: Logs,
}

/// Where one run leaves what its machines say.
enum Logs {
    Temporary(OwnDirectory),
    Kept(PathBuf),
}

impl Logs {
    fn new(kept: Option<&Path>) -> Result<Self> {
        match kept {
            Some(path) => Ok(Self::Kept(path.to_owned())),
            None => OwnDirectory::new(&std::env::temp_dir(), "logs")
                .map(Self::Temporary)
                .map_err(|error| Error::System {
                    doing: "make a directory for the logs".into(),
                    error,
                }),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }

    /// Where they stay, if they do.
    fn kept(&self) -> Option<&Path> {
        match self {
            Self::Temporary(_) => None,
            Self::Kept(path) => Some(path),
        }
    }
}

impl Laboratory {
    /// Runs of this cluster.
    pub fn new(file: ClusterFile, settings: SimulationSettings) -> Self {
        Self {
            file,
            settings,
            operations: None,
            rules: Rules::default(),
            facts: None,
        }
    }

    /// What is run.
    pub fn file(&self) -> &ClusterFile {
        &self.file
    }

    /// How.
    pub fn settings(&self) -> &SimulationSettings {
        &self.settings
    }

    /// A cluster whose machines are off. Its frames are kept, if they are to be, from the first one on.
    fn made(&self, logs: &Logs, keeps_frames: bool) -> Result<SimulatedCluster> {
        let mut cluster = SimulatedCluster::new(&self.file, logs.path(), &self.settings)?;
        if keeps_frames {
            cluster.simulation().switch().keep_frames();
        }
        if let Some(operations) = self.operations {
            cluster.tell_client(OPERATIONS, &operations.to_string());
        }
        Ok(cluster)
    }

    fn prepared(
        &self,
        logs: &Logs,
        keeps_frames: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<SimulatedCluster> {
        let mut cluster = self.made(logs, keeps_frames)?;
        cluster.start(cancelled)?;
        cluster.prepare(cancelled)?;
        Ok(cluster)
    }

    /// The same cluster with a client that does so many operations at most, if it looks at
    /// `CRASHPOINT_OPERATIONS`.
    #[must_use]
    pub fn shorter(&self, operations: u64) -> Self {
        Self {
            operations: Some(operations),
            ..self.clone()
        }
    }

    /// Runs it with a failure. With `kept` its logs, consoles and frames are there afterwards.
    ///
    /// # Errors
    /// If the run cannot go on.
    pub fn run(
        &self,
        failure: &Failure,
        kept: Option<&Path>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<LiveRun> {
        if failure.forked_ns.is_some() {
            let mut prefix = self.prefix(kept.is_some(), cancelled)?;
            return prefix.future(failure, kept);
        }
        let logs = Logs::new(kept)?;
        let run = self.begin(&logs, kept.is_some(), cancelled)?;
        run.end_with(failure, &logs)
    }

    /// Begins a run from which others are forked, later and later ones. Their frames are kept, for
    /// those of which something is to be kept, if it is said so now.
    ///
    /// # Errors
    /// If the cluster cannot be started.
    pub fn prefix<'a>(
        &'a self,
        keeps_frames: bool,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Prefix<'a>> {
        let logs = Logs::new(None)?;
        let run = self.begin(&logs, keeps_frames, cancelled)?;
        Ok(Prefix { run, _logs: logs })
    }

    /// Starts the cluster and its client.
    fn begin<'a>(
        &'a self,
        logs: &Logs,
        keeps_frames: bool,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Run<'a>> {
        let cluster = self.prepared(logs, keeps_frames, cancelled)?;
        self.begun(cluster, cancelled)
    }

    /// The run of a cluster that is ready, whose client begins.
    fn begun<'a>(
        &'a self,
        mut cluster: SimulatedCluster,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Run<'a>> {
        let story = Story::new(&mut cluster);
        let client = cluster.begin_client()?;
        Ok(Run {
            cluster,
            client,
            laboratory: self,
            printed: Printed::default(),
            story,
            driven: Driven::Time,
            happened: Vec::new(),
            cancelled,
        })
    }

    /// The same run up to a time, in nanoseconds, at which it stands still. With `kept` its logs and
    /// consoles are there afterwards, and its frames can be [written](SimulatedCluster::write_frames).
    ///
    /// # Errors
    /// [`Error::AfterEnd`] if it ends before, or if it cannot go on.
    pub fn run_until(
        &self,
        failure: &Failure,
        until_ns: u64,
        kept: Option<&Path>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<StandStill> {
        let logs = Logs::new(kept)?;
        // Before it is forked, it is the run that it is forked from.
        let is_fork = failure
            .forked_ns
            .is_some_and(|forked_ns| forked_ns < until_ns);
        let mut run = if is_fork {
            let mut prefix = self.prefix(kept.is_some(), cancelled)?;
            prefix.future_until(failure, until_ns, &logs)?
        } else {
            let mut cluster = self.made(&logs, kept.is_some())?;
            cluster.stop_at_time(Some(until_ns));
            let ready = cluster
                .start(cancelled)
                .and_then(|()| cluster.prepare(cancelled));
            if let Err(ClusterError::AtTime) = ready {
                cluster.stop_at_time(None);
                return Ok(StandStill {
                    cluster,
                    happened: Vec::new(),
                    acknowledged: Vec::new(),
                    _logs: logs,
                });
            }
            ready?;
            self.begun(cluster, cancelled)?
        };
        match run.fail(failure) {
            Err(Error::Cluster(ClusterError::AtTime)) => Ok(run.stand_still(logs)),
            Err(error) => Err(error),
            Ok(_) => Err(Error::AfterEnd {
                end_s: run.cluster.simulation().now_ns() as f64 / 1e9,
                until_s: until_ns as f64 / 1e9,
            }),
        }
    }
}

impl<'a> Prefix<'a> {
    /// Runs a fork with a failure, from the time that is said there; not from one that is over. With
    /// `kept` its logs, consoles and frames are there afterwards.
    ///
    /// # Errors
    /// If the run cannot go on, or its kernels cannot be forked.
    pub fn future(&mut self, failure: &Failure, kept: Option<&Path>) -> Result<LiveRun> {
        self.advance(failure)?;
        self.fork(kept)?.end_with(failure)
    }

    /// Forks it where it is.
    ///
    /// # Errors
    /// If its kernels cannot be forked.
    pub fn fork(&mut self, kept: Option<&Path>) -> Result<Future<'a>> {
        let logs = Logs::new(kept)?;
        let run = self.run.fork(logs.path())?;
        Ok(Future { run, logs })
    }

    /// A fork for a failure, which stops at a time.
    fn future_until(&mut self, failure: &Failure, until_ns: u64, logs: &Logs) -> Result<Run<'a>> {
        self.advance(failure)?;
        let mut run = self.run.fork(logs.path())?;
        run.cluster.stop_at_time(Some(until_ns));
        Ok(run)
    }

    /// Goes on to where a run with that failure is forked.
    ///
    /// # Errors
    /// If the run cannot go on.
    pub fn advance(&mut self, failure: &Failure) -> Result<()> {
        let now_ns = self.run.cluster.simulation().now_ns();
        match failure.forked_ns.filter(|until_ns| *until_ns > now_ns) {
            Some(until_ns) if !matches!(self.run.driven, Driven::Ended(_)) => {
                self.run.drive(until_ns)
            }
            _ => Ok(()),
        }
    }
}

impl Future<'_> {
    /// Goes on with a failure, to the end.
    ///
    /// # Errors
    /// If the run cannot go on.
    pub fn end_with(self, failure: &Failure) -> Result<LiveRun> {
        self.run.end_with(failure, &self.logs)
    }
}
