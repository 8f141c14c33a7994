//! One run of a cluster on simulated machines, with a failure or without.

use std::path::{Path, PathBuf};

use cluster::{
    ClusterFile, Driven, Error as ClusterError, SimulatedCluster, SimulationSettings, Verdict,
};
use machine::OwnDirectory;
use pace_rules::disk::{Log, Relaxation};
use serde::{Deserialize, Serialize};
use simulation::{Chance, Point};

use crate::error::{Error, Result};
use crate::plan::{Failure, Keeps, Plan, PointRange, Victims};

/// How long machines are without power.
const DOWN_NS: u64 = 1_000_000_000;

/// One case of two, in parts of a million.
const HALF: u32 = 500_000;

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

/// A run with a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRun {
    /// When the power failed, in nanoseconds of the simulation's time.
    pub failed_ns: u64,
    /// How many acknowledgements there were by then.
    pub acknowledged_before: usize,
    /// All acknowledgements.
    pub acknowledged: Vec<String>,
    /// How many writes each victim's disk lost.
    pub lost: Vec<(usize, usize)>,
    /// What came of it.
    pub judged: Judged,
    /// What two equal runs have in common ([`simulation::Simulation::history`]).
    pub history: String,
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
pub struct Laboratory {
    file: ClusterFile,
    settings: SimulationSettings,
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
        Self { file, settings }
    }

    /// What is run.
    pub fn file(&self) -> &ClusterFile {
        &self.file
    }

    /// How.
    pub fn settings(&self) -> &SimulationSettings {
        &self.settings
    }

    fn prepared(&self, logs: &Logs, cancelled: &dyn Fn() -> bool) -> Result<SimulatedCluster> {
        let mut cluster = SimulatedCluster::new(&self.file, logs.path(), &self.settings)?;
        cluster.start(cancelled)?;
        cluster.prepare(cancelled)?;
        Ok(cluster)
    }

    /// The lengths of the logs of all disks.
    fn positions(&self, cluster: &mut SimulatedCluster) -> Vec<Option<usize>> {
        let nodes = self.file.nodes.iter().enumerate();
        let position =
            |cluster: &mut SimulatedCluster, node| cluster.simulation().disk(node, 0).log().len();
        nodes
            .map(|(index, node)| node.has_data.then(|| position(cluster, index)))
            .collect()
    }

    /// Runs it without a failure, and asks the check: then, and once more after a restart of all
    /// nodes for which everything had been written. Returns at which points power can fail, and of
    /// whom: where a node does not come up when it is restarted alone, with nothing lost, nothing
    /// can be said of a failure of one.
    ///
    /// # Errors
    /// If the client fails, or the check is not content: then nothing can be said of failures.
    pub fn reference(&self, cancelled: &dyn Fn() -> bool) -> Result<Reference> {
        let logs = Logs::new(None)?;
        let mut cluster = self.prepared(&logs, cancelled)?;
        let before = self.positions(&mut cluster);
        let (mut lines, mut times_ns) = (Vec::new(), Vec::new());
        let mut acknowledged = |time_ns: u64, line: &[u8]| {
            add_line(&mut lines, line);
            times_ns.push(time_ns);
        };
        cluster.run_client(&mut acknowledged, cancelled)?;
        cluster.refuse_end()?;
        let after = self.positions(&mut cluster);
        let ranges = before.iter().zip(&after).enumerate();
        let ranges = ranges.filter_map(|(node, (before, after))| {
            let positions = (*before)?..(*after)?;
            let node = Some(node);
            (!positions.is_empty()).then_some(PointRange { node, positions })
        });
        let acknowledgements = PointRange {
            node: None,
            positions: 1..times_ns.len() + 1,
        };
        let mut plan = Plan {
            points: ranges.chain([acknowledgements]).collect(),
            first: Vec::new(),
            victims: Vec::new(),
            keeps: Vec::new(),
        };
        if plan.is_without_points() {
            return Err(Error::NoPoints);
        }
        plan.first = first_after(&mut cluster, &plan, &times_ns);
        let ask =
            |cluster: &mut SimulatedCluster, when| match cluster.run_check(&lines, cancelled)? {
                Verdict::Ok => Ok(()),
                Verdict::Broken(broken) => Err(Error::NotOk {
                    when,
                    what: broken.join("; "),
                }),
                Verdict::Inconclusive(what) => Err(Error::NotOk { when, what }),
            };
        ask(&mut cluster, "after the client")?;
        cluster.sync(cancelled)?;
        let nodes: Vec<_> = (0..self.file.nodes.len()).collect();
        cluster.power_off(&nodes, |_, _| Relaxation::Prefix)?;
        cluster.idle(DOWN_NS, cancelled)?;
        cluster.start(cancelled)?;
        ask(&mut cluster, "after a restart of all nodes")?;
        let mut not_alone = None;
        for node in nodes {
            cluster.sync(cancelled)?;
            cluster.power_off(&[node], |_, _| Relaxation::Prefix)?;
            cluster.idle(DOWN_NS, cancelled)?;
            match cluster.start(cancelled) {
                Ok(()) => {}
                Err(error @ ClusterError::NotReady { .. }) => {
                    not_alone = Some(error.to_string());
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Reference { plan, not_alone })
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
        let logs = Logs::new(kept)?;
        let mut cluster = self.prepared(&logs, cancelled)?;
        if kept.is_some() {
            cluster.simulation().switch().keep_frames();
        }
        let run = self.fail(&mut cluster, failure, cancelled);
        if let Some(kept) = kept {
            cluster.write_frames(kept)?;
        }
        run
    }

    /// Of what no flush had covered, each write is lost in one of two cases.
    fn some(&self, failure: &Failure, node: usize, log: &Log) -> Relaxation {
        let name = format!("lost {node} at {:?} {}", failure.node, failure.position);
        let mut chance = Chance::new(self.settings.seed, &name);
        let pending = log.pending(log.len()).into_iter();
        let lost: Vec<_> = pending.filter(|_| chance.happens(HALF)).collect();
        if lost.is_empty() {
            Relaxation::Prefix
        } else {
            Relaxation::Lost(lost)
        }
    }

    fn fail(
        &self,
        cluster: &mut SimulatedCluster,
        failure: &Failure,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<LiveRun> {
        let mut lines = Vec::new();
        let client = cluster.begin_client()?;
        // Otherwise machines would lose their power up to a link's latency apart.
        cluster
            .simulation()
            .keep_in_step(failure.victims == Victims::All);
        cluster.stop_at(failure.node.map(|machine| Point::Disk {
            machine,
            disk: 0,
            position: failure.position,
        }));
        let mut count = 0;
        let mut driven = cluster.drive_client(
            &client,
            client.end_ns,
            &mut |_, line| {
                add_line(&mut lines, line);
                count += 1;
                failure.node.is_some() || count < failure.position
            },
            cancelled,
        )?;
        let is_there = matches!(driven, Driven::Point | Driven::Stopped);
        cluster.stop_at(None);
        cluster.simulation().keep_in_step(false);
        let failed_ns = cluster.simulation().now_ns();
        let acknowledged_before = count_lines(&lines);
        let victims = failure.victims(self.file.nodes.len());
        let cuts = cluster.power_off(&victims, |node, log| match failure.keeps {
            Keeps::Flushed => Relaxation::Flushed,
            Keeps::Prefix => Relaxation::Prefix,
            Keeps::Some => self.some(failure, node, log),
        })?;
        let lost = cuts.iter().map(|(node, cut)| (*node, cut.lost.len()));
        let lost = lost.collect();
        let up_ns = failed_ns + DOWN_NS;
        if !matches!(driven, Driven::Ended(_)) {
            driven = cluster.drive_client(
                &client,
                up_ns,
                &mut |_, line| {
                    add_line(&mut lines, line);
                    true
                },
                cancelled,
            )?;
        }
        let now_ns = cluster.simulation().now_ns();
        cluster.idle(up_ns.saturating_sub(now_ns), cancelled)?;
        let started = cluster.start(cancelled);
        if started.is_ok() && !matches!(driven, Driven::Ended(_)) {
            // What it says after the failure counts as well.
            driven = cluster.drive_client(
                &client,
                client.end_ns,
                &mut |_, line| {
                    add_line(&mut lines, line);
                    true
                },
                cancelled,
            )?;
            if !matches!(driven, Driven::Ended(_)) {
                cluster.end_client(&client);
            }
        }
        let judged = match started {
            _ if !is_there => Judged::Inconclusive {
                why: "the run did not come to that request".into(),
            },
            Ok(()) => judged(cluster.run_check(&lines, cancelled)?),
            Err(ClusterError::NotReady { node, what, tail }) => {
                let first = format!("node {node} does not come up: it {what}");
                let log = tail.iter().map(|line| format!("its log: {line}"));
                let broken = [first].into_iter().chain(log).collect();
                Judged::Broken { broken }
            }
            Err(error) => return Err(error.into()),
        };
        let text = String::from_utf8_lossy(&lines);
        Ok(LiveRun {
            failed_ns,
            acknowledged_before,
            acknowledged: text.lines().map(str::to_owned).collect(),
            lost,
            judged,
            history: cluster.simulation().history(),
        })
    }
}

/// The numbers of acknowledgements, which were at these times, and of the first request after each.
fn first_after(cluster: &mut SimulatedCluster, plan: &Plan, times_ns: &[u64]) -> Vec<u64> {
    let mut points = Vec::new();
    for range in &plan.points {
        let log = range
            .node
            .map(|node| cluster.simulation().disk(node, 0).log());
        for position in range.positions.clone() {
            let time_ns = match log {
                Some(log) => log.entries()[position].time_ns,
                None => times_ns[position - 1],
            };
            let number = plan.number(range.node, position);
            points.extend(number.map(|number| (time_ns, range.node, number)));
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

fn count_lines(lines: &[u8]) -> usize {
    lines.split_inclusive(|byte| *byte == b'\n').count()
}
