//! One run of a cluster on simulated machines, with a failure or without.

use std::ops::Range;
use std::path::{Path, PathBuf};

use cluster::{
    ClusterFile, Driven, Error as ClusterError, RunningClient, SimulatedCluster,
    SimulationSettings, Verdict,
};
use machine::OwnDirectory;
use pace_rules::disk::{Log, Relaxation, State};
use serde::{Deserialize, Serialize};
use simulation::{Chance, Point};

use crate::error::{Error, Result};
use crate::plan::{At, Failure, Fault, ForkPoint, Moment, Plan, PointRange};

/// At how many times a run can be forked. What is between one and the point is run each time.
const FORKS: u64 = 64;

/// How long machines are without power.
const DOWN_NS: u64 = 1_000_000_000;

/// Tells a client how many operations it is to do at most.
pub const OPERATIONS: &str = "CRASHPOINT_OPERATIONS";

/// How many lines of the console of a kernel that gave up are shown.
const CONSOLE_LINES: usize = 12;

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
}

/// A run without a failure, from which runs with one are forked.
pub struct Prefix<'a> {
    run: Run<'a>,
    // It holds the logs of the run.
    _logs: Logs,
}

/// What is known of a cluster before anything fails.
#[derive(Debug)]
pub struct Reference {
    /// When power can fail. Of whom, and what is kept, is still to be said.
    pub plan: Plan,
    /// Why nothing can be said of a failure of one node, if that is so.
    pub not_alone: Option<String>,
}

/// A cluster, and how it is simulated: runs of it.
#[derive(Clone)]
pub struct Laboratory {
    file: ClusterFile,
    settings: SimulationSettings,
    /// How many operations the client is told to do at most.
    operations: Option<u64>,
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

/// A run, and what was learned of it so far.
struct Run<'a> {
    cluster: SimulatedCluster,
    client: RunningClient,
    settings: &'a SimulationSettings,
    /// What the client printed.
    lines: Vec<u8>,
    driven: Driven,
    happened: Vec<Happened>,
    cancelled: &'a dyn Fn() -> bool,
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
}

impl Laboratory {
    /// Runs of this cluster.
    pub fn new(file: ClusterFile, settings: SimulationSettings) -> Self {
        Self {
            file,
            settings,
            operations: None,
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

    /// A cluster whose machines are off.
    fn made(&self, logs: &Logs) -> Result<SimulatedCluster> {
        let mut cluster = SimulatedCluster::new(&self.file, logs.path(), &self.settings)?;
        if let Some(operations) = self.operations {
            cluster.tell_client(OPERATIONS, &operations.to_string());
        }
        Ok(cluster)
    }

    fn prepared(&self, logs: &Logs, cancelled: &dyn Fn() -> bool) -> Result<SimulatedCluster> {
        let mut cluster = self.made(logs)?;
        cluster.start(cancelled)?;
        cluster.prepare(cancelled)?;
        Ok(cluster)
    }

    /// All requests of nodes to their disks, and all their frames, so far.
    fn points_until_now(&self, cluster: &mut SimulatedCluster) -> Vec<PointRange> {
        let mut ranges = Vec::new();
        for (node, config) in self.file.nodes.iter().enumerate() {
            let simulation = cluster.simulation();
            let mut add = |at, end| {
                ranges.push(PointRange {
                    at,
                    node: Some(node),
                    positions: 0..end,
                });
            };
            if config.has_data {
                add(At::Requests, simulation.disk(node, 0).log().len());
            }
            add(At::Frames, simulation.frames_of(node) as usize);
        }
        ranges
    }

    /// The points that came between, and the acknowledgements, of which there are so many: those
    /// at which power is to fail.
    fn plan(
        &self,
        at: &[At],
        before: Vec<PointRange>,
        after: Vec<PointRange>,
        acknowledged: usize,
    ) -> Plan {
        let ranges = before.into_iter().zip(after);
        let ranges = ranges.map(|(before, after)| PointRange {
            positions: before.positions.end..after.positions.end,
            ..before
        });
        let acknowledgements = PointRange {
            at: At::Acks,
            node: None,
            positions: 1..acknowledged + 1,
        };
        let points = ranges.chain([acknowledgements]);
        Plan {
            points: points
                .filter(|range| at.contains(&range.at) && !range.positions.is_empty())
                .collect(),
            first: Vec::new(),
            victims: Vec::new(),
            keeps: Vec::new(),
            nodes: self.file.nodes.len(),
            forks: Vec::new(),
        }
    }

    /// Runs it without a failure, and asks the check: then, and once more after a restart of all
    /// nodes for which everything had been written. Returns at which points power can fail, and of
    /// whom: where a node does not come up when it is restarted alone, with nothing lost, nothing
    /// can be said of a failure of one.
    ///
    /// # Errors
    /// If the client fails, or the check is not content: then nothing can be said of failures.
    pub fn reference(&self, at: &[At], cancelled: &dyn Fn() -> bool) -> Result<Reference> {
        let logs = Logs::new(None)?;
        let mut cluster = self.prepared(&logs, cancelled)?;
        let (plan, lines) = self.plan_of_run(&mut cluster, at, cancelled)?;
        refuse_not_ok(cluster.run_check(&lines, cancelled)?, "after the client")?;
        let nodes: Vec<_> = (0..self.file.nodes.len()).collect();
        restart(&mut cluster, &nodes, cancelled)?;
        let verdict = cluster.run_check(&lines, cancelled)?;
        refuse_not_ok(verdict, "after a restart of all nodes")?;
        let not_alone = not_alone(&mut cluster, &nodes, cancelled)?;
        Ok(Reference { plan, not_alone })
    }

    /// Runs the client. Returns at which points of that power can fail, and what was acknowledged.
    fn plan_of_run(
        &self,
        cluster: &mut SimulatedCluster,
        at: &[At],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Plan, Vec<u8>)> {
        if at.contains(&At::Frames) {
            cluster.simulation().switch().keep_frames();
        }
        let begun_ns = cluster.simulation().now_ns();
        let before = self.points_until_now(cluster);
        let (mut lines, mut times_ns) = (Vec::new(), Vec::new());
        let mut acknowledged = |time_ns: u64, line: &[u8]| {
            add_line(&mut lines, line);
            times_ns.push(time_ns);
        };
        cluster.run_client(&mut acknowledged, cancelled)?;
        cluster.refuse_end()?;
        let after = self.points_until_now(cluster);
        let mut plan = self.plan(at, before, after, times_ns.len());
        if plan.is_without_points() {
            return Err(Error::NoPoints);
        }
        plan.first = first_after(cluster, &plan, &times_ns);
        let ended_ns = cluster.simulation().now_ns();
        plan.forks = fork_points(cluster, &plan, &times_ns, begun_ns..ended_ns);
        Ok((plan, lines))
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
        run.end_with(failure, kept)
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
        let cluster = self.prepared(logs, cancelled)?;
        self.begun(cluster, keeps_frames, cancelled)
    }

    /// The run of a cluster that is ready, whose client begins.
    fn begun<'a>(
        &'a self,
        mut cluster: SimulatedCluster,
        keeps_frames: bool,
        cancelled: &'a dyn Fn() -> bool,
    ) -> Result<Run<'a>> {
        if keeps_frames {
            cluster.simulation().switch().keep_frames();
        }
        let client = cluster.begin_client()?;
        Ok(Run {
            cluster,
            client,
            settings: &self.settings,
            lines: Vec::new(),
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
            let mut cluster = self.made(&logs)?;
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
            self.begun(cluster, kept.is_some(), cancelled)?
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
        let logs = Logs::new(kept)?;
        let run = self.run.fork(logs.path())?;
        run.end_with(failure, kept)
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

impl Run<'_> {
    /// Another run, which goes on from here as this one does.
    fn fork(&mut self, logs: &Path) -> Result<Self> {
        Ok(Self {
            cluster: self.cluster.fork(logs)?,
            client: self.client.clone(),
            settings: self.settings,
            lines: self.lines.clone(),
            driven: self.driven,
            happened: self.happened.clone(),
            cancelled: self.cancelled,
        })
    }

    /// Has the failure happen, and says what came of it.
    fn end_with(mut self, failure: &Failure, kept: Option<&Path>) -> Result<LiveRun> {
        let came = self.fail(failure);
        if let Some(kept) = kept {
            self.cluster.write_frames(kept)?;
        }
        let (judged, recovery) = came?;
        let history = self.cluster.simulation().history();
        let text = String::from_utf8_lossy(&self.lines);
        Ok(LiveRun {
            acknowledged: text.lines().map(str::to_owned).collect(),
            happened: self.happened,
            recovery,
            judged,
            history,
            forked_ns: failure.forked_ns,
        })
    }

    /// Has the faults happen, one after the other, and asks the check. Returns also when the power
    /// can fail again during the last recovery.
    fn fail(&mut self, failure: &Failure) -> Result<(Judged, Vec<PointRange>)> {
        let mut is_first = true;
        for fault in &failure.faults {
            let reached = if std::mem::take(&mut is_first) {
                self.reach(fault)
            } else {
                self.reach_in_recovery(fault)
            };
            if let Some(judged) = reached? {
                return Ok((judged, Vec::new()));
            }
            self.cut_power(fault)?;
            if let Some(judged) = self.ended() {
                return Ok((judged, Vec::new()));
            }
        }
        match self.cluster.start(self.cancelled) {
            Ok(()) => {}
            Err(error) => return Ok((self.not_up(error)?, Vec::new())),
        }
        let recovery = self.recovery(failure);
        if !matches!(self.driven, Driven::Ended(_)) {
            // What it says after the failure counts as well.
            self.drive(self.client.end_ns)?;
            if !matches!(self.driven, Driven::Ended(_)) {
                self.cluster.end_client(&self.client);
            }
        }
        if let Some(judged) = self.ended() {
            return Ok((judged, recovery));
        }
        let verdict = self.cluster.run_check(&self.lines, self.cancelled)?;
        // A kernel that gave up says more than what is missing without it.
        Ok((self.ended().unwrap_or_else(|| judged(verdict)), recovery))
    }

    /// Lets the client go on until the moment of the first fault. Something is returned if it does not
    /// come.
    fn reach(&mut self, fault: &Fault) -> Result<Option<Judged>> {
        let Moment { at, position, .. } = fault.when;
        self.stop_at(fault);
        // Those from before a fork count.
        let mut count = self.acknowledged();
        let lines = &mut self.lines;
        self.driven = self.cluster.drive_client(
            &self.client,
            self.client.end_ns,
            &mut |_, line| {
                add_line(lines, line);
                count += 1;
                at != At::Acks || count < position
            },
            self.cancelled,
        )?;
        self.stop_nowhere();
        let is_there = matches!(self.driven, Driven::Point | Driven::Stopped);
        Ok((!is_there).then(not_there))
    }

    /// Switches the machines on, until the moment of a fault in their recovery: at the latest when they
    /// are ready.
    fn reach_in_recovery(&mut self, fault: &Fault) -> Result<Option<Judged>> {
        self.stop_at(fault);
        let started = self.cluster.start(self.cancelled);
        self.stop_nowhere();
        let is_there = match started {
            Err(ClusterError::AtPoint) => true,
            Ok(()) => {
                let Moment { node, position, .. } = fault.when;
                let simulation = self.cluster.simulation();
                let log = node.map(|node| simulation.disk(node, 0).log());
                log.is_some_and(|log| log.len() == position)
            }
            Err(error) => return self.not_up(error).map(Some),
        };
        Ok((!is_there).then(not_there))
    }

    /// How many lines the client has printed.
    fn acknowledged(&self) -> usize {
        String::from_utf8_lossy(&self.lines).lines().count()
    }

    /// As it is at the time at which it was stopped.
    fn stand_still(mut self, logs: Logs) -> StandStill {
        self.cluster.stop_at_time(None);
        let text = String::from_utf8_lossy(&self.lines);
        StandStill {
            acknowledged: text.lines().map(str::to_owned).collect(),
            cluster: self.cluster,
            happened: self.happened,
            _logs: logs,
        }
    }

    fn stop_at(&mut self, fault: &Fault) {
        // Otherwise machines would lose their power up to a link's latency apart.
        let is_of_several = fault.victims.len() > 1;
        self.cluster.simulation().keep_in_step(is_of_several);
        let Moment { at, node, position } = fault.when;
        let point = node.map(|machine| match at {
            At::Frames => Point::Frame {
                machine,
                number: position as u64,
            },
            At::Requests | At::Acks => Point::Disk {
                machine,
                disk: 0,
                position,
            },
        });
        self.cluster.stop_at(point);
    }

    fn stop_nowhere(&mut self) {
        self.cluster.stop_at(None);
        self.cluster.simulation().keep_in_step(false);
    }

    /// The power of the victims fails, now, and comes back a while later. The client goes on.
    fn cut_power(&mut self, fault: &Fault) -> Result<()> {
        let (seed, place) = (self.settings.seed, self.happened.len());
        let failed_ns = self.cluster.simulation().now_ns();
        let cuts = self.cluster.power_off(&fault.victims, |victim, log| {
            what_stays(fault, victim, log, (seed, place))
        })?;
        let disks = cuts.into_iter().map(|(node, cut)| DiskLeft {
            node,
            state: cut.state,
            lost: cut.lost,
        });
        let text = String::from_utf8_lossy(&self.lines);
        self.happened.push(Happened {
            fault: fault.clone(),
            time_s: failed_ns as f64 / 1e9,
            acknowledged_before: text.lines().count(),
            last: text.lines().last().map(str::to_owned),
            disks: disks.collect(),
        });
        let up_ns = failed_ns + DOWN_NS;
        if !matches!(self.driven, Driven::Ended(_)) {
            self.drive(up_ns)?;
        }
        let now_ns = self.cluster.simulation().now_ns();
        self.cluster
            .idle(up_ns.saturating_sub(now_ns), self.cancelled)?;
        Ok(())
    }

    /// Lets the client go on.
    fn drive(&mut self, until_ns: u64) -> Result<()> {
        let lines = &mut self.lines;
        self.driven = self.cluster.drive_client(
            &self.client,
            until_ns,
            &mut |_, line| {
                add_line(lines, line);
                true
            },
            self.cancelled,
        )?;
        Ok(())
    }

    /// What there is to say of kernels that gave up, if any did.
    fn ended(&mut self) -> Option<Judged> {
        let ended = self.cluster.ended();
        let mut broken = Vec::new();
        for (machine, name, how) in ended {
            broken.push(format!("the machine of {name} {how}"));
            let console = self.cluster.simulation().console(machine);
            let lines: Vec<_> = console.lines().collect();
            let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
            broken.extend(last.iter().map(|line| format!("its console: {line}")));
        }
        (!broken.is_empty()).then_some(Judged::Broken { broken })
    }

    /// What there is to say of a node that does not come up.
    fn not_up(&mut self, error: ClusterError) -> Result<Judged> {
        if let Some(judged) = self.ended() {
            return Ok(judged);
        }
        let ClusterError::NotReady { node, what, tail } = error else {
            return Err(error.into());
        };
        let first = format!("node {node} does not come up: it {what}");
        let log = tail.iter().map(|line| format!("its log: {line}"));
        let broken = [first].into_iter().chain(log).collect();
        Ok(Judged::Broken { broken })
    }

    /// Where the machines that have booted asked their disks until they were ready.
    fn recovery(&mut self, failure: &Failure) -> Vec<PointRange> {
        let last = failure.faults.last();
        let victims = last.map_or(&[][..], |fault| &fault.victims);
        let nodes = self.cluster.file().nodes.clone();
        let ranges = victims.iter().filter(|node| nodes[**node].has_data);
        let ranges = ranges.map(|node| PointRange {
            at: At::Requests,
            node: Some(*node),
            // Before the first one its disk is as the power failure left it. After the last one the
            // cluster is ready.
            positions: 1..self.cluster.simulation().disk(*node, 0).log().len() + 1,
        });
        ranges.filter(|range| !range.positions.is_empty()).collect()
    }
}

/// Nothing can be said of failures where the check is not content without one.
fn refuse_not_ok(verdict: Verdict, when: &'static str) -> Result<()> {
    match verdict {
        Verdict::Ok => Ok(()),
        Verdict::Broken(broken) => Err(Error::NotOk {
            when,
            what: broken.join("; "),
        }),
        Verdict::Inconclusive(what) => Err(Error::NotOk { when, what }),
    }
}

/// Power of nodes fails when everything is written, and comes back.
fn restart(
    cluster: &mut SimulatedCluster,
    nodes: &[usize],
    cancelled: &dyn Fn() -> bool,
) -> cluster::Result<()> {
    cluster.sync(cancelled)?;
    cluster.power_off(nodes, |_, _| Relaxation::Prefix)?;
    cluster.idle(DOWN_NS, cancelled)?;
    cluster.start(cancelled)
}

/// Why one of the nodes does not come up when it is restarted alone, if that is so.
fn not_alone(
    cluster: &mut SimulatedCluster,
    nodes: &[usize],
    cancelled: &dyn Fn() -> bool,
) -> Result<Option<String>> {
    for node in nodes {
        match restart(cluster, &[*node], cancelled) {
            Ok(()) => {}
            Err(error @ ClusterError::NotReady { .. }) => return Ok(Some(error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// A run that was to be as another one, and is not.
fn not_there() -> Judged {
    Judged::Inconclusive {
        why: "the run did not come to that moment".into(),
    }
}

/// What a fault leaves of the disk of a victim: as it says, or drawn with a seed for the place of
/// the fault among those of the run.
fn what_stays(fault: &Fault, victim: usize, log: &Log, (seed, place): (u64, usize)) -> Relaxation {
    let said = fault.left.iter().find(|(node, _)| *node == victim);
    if let Some((_, left)) = said {
        return left.clone();
    }
    let Moment { at, node, position } = fault.when;
    let name = format!("disk {victim} at {place} {at:?} {node:?} {position}");
    fault.keeps.draw(log, &mut Chance::new(seed, &name))
}

/// Times within those of the client at which its run can be forked, evenly spread.
fn fork_points(
    cluster: &mut SimulatedCluster,
    plan: &Plan,
    times_ns: &[u64],
    within: Range<u64>,
) -> Vec<ForkPoint> {
    let times = times_of_points(cluster, plan, times_ns);
    let step_ns = (within.end - within.start) / FORKS;
    let forks = (0..FORKS).map(|number| {
        let time_ns = within.start + number * step_ns;
        let ranges = plan.points.iter().zip(&times);
        let after = ranges.map(|(range, times)| {
            range.positions.start + times.partition_point(|time| *time <= time_ns)
        });
        ForkPoint {
            time_ns,
            after: after.collect(),
        }
    });
    forks.collect()
}

/// When each point of each range was, in nanoseconds.
fn times_of_points(cluster: &mut SimulatedCluster, plan: &Plan, times_ns: &[u64]) -> Vec<Vec<u64>> {
    let simulation = cluster.simulation();
    let frames = simulation.switch().sent();
    let times = plan.points.iter().map(|range| -> Vec<u64> {
        let positions = range.positions.clone();
        match (range.at, range.node) {
            (At::Requests, Some(node)) => {
                let log = simulation.disk(node, 0).log();
                let times = positions.map(|position| log.entries()[position].time_ns);
                times.collect()
            }
            (At::Frames, node) => {
                let its = frames.iter().filter(|frame| Some(frame.from) == node);
                its.map(|frame| frame.time_ns).collect()
            }
            _ => positions.map(|position| times_ns[position - 1]).collect(),
        }
    });
    times.collect()
}

/// The numbers of acknowledgements, which were at these times, and of the first request after each.
fn first_after(cluster: &mut SimulatedCluster, plan: &Plan, times_ns: &[u64]) -> Vec<u64> {
    let mut points = Vec::new();
    for PointRange {
        at,
        node,
        positions,
    } in plan.points.iter().filter(|range| range.at != At::Frames)
    {
        let log = node.map(|node| cluster.simulation().disk(node, 0).log());
        for position in positions.clone() {
            let time_ns = match log {
                Some(log) => log.entries()[position].time_ns,
                None => times_ns[position - 1],
            };
            let number = plan.number(Moment {
                at: *at,
                node: *node,
                position,
            });
            points.extend(number.map(|number| (time_ns, *node, number)));
        }
    }
    points.sort_unstable();
    // At each of these times there is the acknowledgement itself, and then what follows.
    let mut first = Vec::new();
    let mut is_after = false;
    for (_, node, number) in points {
        if node.is_none() || is_after {
            first.push(number);
        }
        is_after = node.is_none();
    }
    first
}

fn judged(verdict: Verdict) -> Judged {
    match verdict {
        Verdict::Ok => Judged::Ok,
        Verdict::Broken(broken) => Judged::Broken { broken },
        Verdict::Inconclusive(why) => Judged::Inconclusive { why },
    }
}

fn add_line(lines: &mut Vec<u8>, line: &[u8]) {
    lines.extend_from_slice(line);
    lines.push(b'\n');
}
