//! A run with a failure: its faults happen, one after the other.

use std::path::Path;

use cluster::{
    Driven, Error as ClusterError, RunningClient, SimulatedCluster, SimulationSettings, Verdict,
};
use pace_rules::disk::{Log, Relaxation};
use simulation::{Chance, Point};

use super::{DOWN_NS, DiskLeft, Happened, Judged, LiveRun, Logs, StandStill, add_line};
use crate::error::Result;
use crate::plan::{At, Failure, Fault, Moment, PointRange};

/// How many lines of the console of a kernel that gave up are shown.
const CONSOLE_LINES: usize = 12;

/// A run, and what was learned of it so far.
pub(super) struct Run<'a> {
    pub(super) cluster: SimulatedCluster,
    pub(super) client: RunningClient,
    pub(super) settings: &'a SimulationSettings,
    /// What the client printed.
    pub(super) lines: Vec<u8>,
    pub(super) driven: Driven,
    pub(super) happened: Vec<Happened>,
    pub(super) cancelled: &'a dyn Fn() -> bool,
}

impl Run<'_> {
    /// Another run, which goes on from here as this one does.
    pub(super) fn fork(&mut self, logs: &Path) -> Result<Self> {
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
    pub(super) fn end_with(mut self, failure: &Failure, kept: Option<&Path>) -> Result<LiveRun> {
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
    pub(super) fn fail(&mut self, failure: &Failure) -> Result<(Judged, Vec<PointRange>)> {
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
    pub(super) fn stand_still(mut self, logs: Logs) -> StandStill {
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
    pub(super) fn drive(&mut self, until_ns: u64) -> Result<()> {
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
        let (node, what, tail) = match error {
            ClusterError::NotReady { node, what, tail } => (node, what, tail),
            // It would be so each time: the other failures are looked at.
            ClusterError::Unable { .. } => {
                let why = error.to_string();
                return Ok(Judged::Inconclusive { why });
            }
            error => return Err(error.into()),
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

fn judged(verdict: Verdict) -> Judged {
    match verdict {
        Verdict::Ok => Judged::Ok,
        Verdict::Broken(broken) => Judged::Broken { broken },
        Verdict::Inconclusive(why) => Judged::Inconclusive { why },
    }
}
