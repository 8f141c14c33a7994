//! A run with a failure: its faults happen, one after the other.

use std::collections::BTreeSet;
use std::path::Path;

use cluster::{Driven, Error as ClusterError, RunningClient, SimulatedCluster, Verdict};
use pace_rules::disk::{Log, Relaxation};
use simulation::{Chance, Point};

use super::held::Over;
use super::story::{Printed, Story};
use super::{DOWN_NS, DiskLeft, Happened, Judged, Laboratory, LiveRun, Logs, StandStill};
use crate::error::Result;
use crate::online::{NO_FAULT, doubtful};
use crate::plan::{At, Failure, Fault, Moment, PointRange};

/// How many lines of the console of a kernel that gave up are shown.
const CONSOLE_LINES: usize = 12;

/// A run, and what was learned of it so far.
pub(super) struct Run<'a> {
    pub(super) cluster: SimulatedCluster,
    pub(super) client: RunningClient,
    pub(super) laboratory: &'a Laboratory,
    /// What the client printed.
    pub(super) printed: Printed,
    /// What there is to tell of it.
    pub(super) story: Story,
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
            laboratory: self.laboratory,
            printed: self.printed.clone(),
            story: self.story.clone(),
            driven: self.driven,
            happened: self.happened.clone(),
            cancelled: self.cancelled,
        })
    }

    /// Has the failure happen, and says what came of it. `logs` are those of this run.
    pub(super) fn end_with(mut self, failure: &Failure, logs: &Logs) -> Result<LiveRun> {
        let came = self.fail(failure);
        if let Some(kept) = logs.kept() {
            self.cluster.write_frames(kept)?;
        }
        let (judged, recovery) = came?;
        let mut over = Over {
            cluster: &mut self.cluster,
            story: &mut self.story,
            printed: &self.printed,
            logs: logs.path(),
        };
        let (judged, held) = self.laboratory.hold(&mut over, judged)?;
        Ok(LiveRun {
            acknowledged: self.printed.lines(),
            missed: failure.faults[self.happened.len()..].to_vec(),
            happened: self.happened,
            has_lost_kernel: self.story.has_lost_kernel,
            recovery,
            judged,
            history: self.cluster.simulation().history(),
            forked_ns: failure.forked_ns,
            held,
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
        let started = self.cluster.start(self.cancelled);
        self.take_lines();
        match started {
            Ok(()) => self.story.healed(self.cluster.now_ns()),
            Err(error) => return Ok((self.not_up(error)?, Vec::new())),
        }
        let recovery = self.recovery(failure);
        self.drive_to_end()?;
        if let Some(judged) = self.ended() {
            return Ok((judged, recovery));
        }
        Ok((self.checked(failure)?, recovery))
    }

    /// What the check says, and whether the nodes are still there whose power failed. What is broken while
    /// somebody else killed a node accuses nobody.
    fn checked(&mut self, failure: &Failure) -> Result<Judged> {
        let verdict = self.cluster.run_check(&self.printed.bytes, self.cancelled);
        let verdict = match verdict {
            Err(error) if !is_of_machine(&error) => return Err(error.into()),
            other => other,
        };
        // A kernel that gave up says more than what is missing without it.
        if let Some(judged) = self.ended() {
            return Ok(judged);
        }
        let judged = match verdict {
            Ok(verdict) => judged(verdict),
            Err(error) => {
                self.story.is_cut_short = true;
                return not_asked(error);
            }
        };
        if let Judged::Broken { broken } = judged {
            self.story.look(&mut self.cluster);
            return Ok(broken_or_in_doubt(broken, &self.story.doubts()));
        }
        let faults = failure.faults.iter();
        let victims: BTreeSet<_> = faults.flat_map(|fault| fault.victims.clone()).collect();
        let mut victims = victims.into_iter();
        // One that seemed ready may have been about to look at what it has.
        match victims.try_for_each(|node| self.stays_up(node)) {
            Ok(()) => Ok(judged),
            Err(error) => self.down("does not stay up", error),
        }
    }

    /// Lets the client go on until the moment of the first fault. Something is returned if it does not
    /// come.
    fn reach(&mut self, fault: &Fault) -> Result<Option<Judged>> {
        let Moment { at, position, .. } = fault.when;
        self.stop_at(fault);
        // Those from before a fork count.
        let printed = &mut self.printed;
        self.driven = self.cluster.drive_client(
            &self.client,
            self.client.end_ns,
            &mut |time_ns, line| {
                printed.add(time_ns, line);
                at != At::Acks || printed.count() < position
            },
            self.cancelled,
        )?;
        self.tell_end_of_client();
        self.stop_nowhere();
        let is_there = matches!(self.driven, Driven::Point | Driven::Stopped);
        Ok((!is_there).then(|| self.not_there()))
    }

    /// Switches the machines on, until the moment of a fault in their recovery: at the latest when they
    /// are ready.
    fn reach_in_recovery(&mut self, fault: &Fault) -> Result<Option<Judged>> {
        self.stop_at(fault);
        let started = self.cluster.start(self.cancelled);
        self.stop_nowhere();
        self.take_lines();
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
        Ok((!is_there).then(|| self.not_there()))
    }

    /// Takes what the client has printed while something else was waited for: it came before what comes now.
    fn take_lines(&mut self) {
        while let Some((line, time_ns)) = self.cluster.line_of_client(&self.client) {
            self.printed.add(time_ns, &line);
        }
    }

    /// As it is at the time at which it was stopped.
    pub(super) fn stand_still(mut self, logs: Logs) -> StandStill {
        self.take_lines();
        self.cluster.stop_at_time(None);
        StandStill {
            acknowledged: self.printed.lines(),
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
        let seed = self.laboratory.settings.seed;
        let place = self.happened.len();
        // What is known of the victims is forgotten with their power.
        self.story.look(&mut self.cluster);
        let failed_ns = self.cluster.simulation().now_ns();
        let cuts = self.cluster.power_off(&fault.victims, |victim, log| {
            what_stays(fault, victim, log, (seed, place))
        })?;
        let disks = cuts.into_iter().map(|(node, cut)| DiskLeft {
            node,
            state: cut.state,
            lost: cut.lost,
        });
        let mut lines = self.printed.lines();
        let happened = Happened {
            fault: fault.clone(),
            time_s: failed_ns as f64 / 1e9,
            acknowledged_before: lines.len(),
            last: lines.pop(),
            disks: disks.collect(),
        };
        self.story.power_failed(failed_ns, &happened);
        self.happened.push(happened);
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
        let printed = &mut self.printed;
        self.driven = self.cluster.drive_client(
            &self.client,
            until_ns,
            &mut |time_ns, line| {
                printed.add(time_ns, line);
                true
            },
            self.cancelled,
        )?;
        self.tell_end_of_client();
        Ok(())
    }

    /// Lets the client go on to its end: what it says after the failure counts as well.
    fn drive_to_end(&mut self) -> Result<()> {
        if !matches!(self.driven, Driven::Ended(_)) {
            self.drive(self.client.end_ns)?;
        }
        if !matches!(self.driven, Driven::Ended(_)) {
            self.cluster.end_client(&self.client);
        }
        Ok(())
    }

    fn tell_end_of_client(&mut self) {
        if let Driven::Ended(how) = self.driven {
            let ended_ns = self.cluster.client_ended_ns(&self.client);
            let ended_ns = ended_ns.unwrap_or_else(|| self.cluster.now_ns());
            self.story.client_ended(ended_ns, how);
        }
    }

    /// A run that was to be as another one, and is not.
    fn not_there(&mut self) -> Judged {
        let lost = self.lost_kernel();
        lost.unwrap_or_else(|| self.cut_short("the run did not come to that moment".into()))
    }

    /// What there is to say of kernels that are gone for no reason in their machines, if any are.
    fn lost_kernel(&mut self) -> Option<Judged> {
        let error = self.cluster.refuse_lost_kernels().err()?;
        self.story.has_lost_kernel = true;
        Some(self.cut_short(error.to_string()))
    }

    /// What there is to say of kernels that gave up, if any did.
    fn ended(&mut self) -> Option<Judged> {
        if let Some(judged) = self.lost_kernel() {
            return Some(judged);
        }
        let (ended, nodes) = (self.cluster.ended(), self.cluster.file().nodes.len());
        let simulation = self.cluster.simulation();
        let judged = of_ended(ended, nodes, |machine| simulation.console(machine))?;
        self.story.is_cut_short |= matches!(judged, Judged::Inconclusive { .. });
        Some(judged)
    }

    /// A run that cannot go on for no reason of the cluster's. It would be so each time: the other failures
    /// are looked at.
    fn cut_short(&mut self, why: String) -> Judged {
        self.story.is_cut_short = true;
        Judged::Inconclusive { why }
    }

    /// Fails if a node has ended in a way that the cluster file does not allow.
    fn stays_up(&mut self, node: usize) -> cluster::Result<()> {
        let how = self.cluster.end_of(node);
        let config = &self.cluster.file().nodes[node];
        if how.is_some_and(|how| config.may_end(&how) == Some(true)) {
            return Ok(());
        }
        self.cluster.refuse_end_of(node)
    }

    /// What there is to say of a node that does not come up.
    fn not_up(&mut self, error: ClusterError) -> Result<Judged> {
        if !is_of_machine(&error) {
            return Err(error.into());
        }
        if let Some(judged) = self.ended() {
            return Ok(judged);
        }
        if let ClusterError::NotReady { node, what, .. } = &error {
            self.story.not_ready(self.cluster.now_ns(), node, what);
        }
        self.down("does not come up", error)
    }

    /// The same of one that does not do what it should.
    fn down(&mut self, does_not: &str, error: ClusterError) -> Result<Judged> {
        self.story.look(&mut self.cluster);
        let judged = of_down(does_not, error, &self.story.doubts())?;
        self.story.is_cut_short |= matches!(judged, Judged::Inconclusive { .. });
        Ok(judged)
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

/// Whether a machine, or what runs in it, did not do something. What is left was asked for by whoever drives
/// the run, or is an error of it.
fn is_of_machine(error: &ClusterError) -> bool {
    matches!(
        error,
        ClusterError::NotReady { .. } | ClusterError::Unable { .. } | ClusterError::Command { .. }
    )
}

/// What there is to say of machines that ended, of which the first so many are nodes'. Where clients are, that is
/// nothing of the cluster.
fn of_ended(
    ended: Vec<(usize, String, String)>,
    nodes: usize,
    console: impl Fn(usize) -> String,
) -> Option<Judged> {
    let mut broken = Vec::new();
    let (of_nodes, others): (Vec<_>, Vec<_>) = ended
        .into_iter()
        .partition(|(machine, ..)| *machine < nodes);
    for (machine, name, how) in of_nodes {
        broken.push(format!("the machine of {name} {how}"));
        let console = console(machine);
        let lines: Vec<_> = console.lines().collect();
        let last = &lines[lines.len().saturating_sub(CONSOLE_LINES)..];
        broken.extend(last.iter().map(|line| format!("its console: {line}")));
    }
    if !broken.is_empty() {
        return Some(Judged::Broken { broken });
    }
    let (_, name, how) = others.into_iter().next()?;
    let why = format!("the machine of {name} {how}, which says nothing of the nodes");
    Some(Judged::Inconclusive { why })
}

/// What there is to say of a node that is down; `does_not` says how. It is inconclusive if its machine could not
/// do what it was asked for, or somebody else killed it, or another one that it may need.
fn of_down(does_not: &str, error: ClusterError, doubts: &[String]) -> Result<Judged> {
    let is_killed = error.is_killed();
    let (node, what, tail) = match error {
        ClusterError::NotReady { node, what, tail } => (node, what, tail),
        ClusterError::Unable { .. } => {
            let why = error.to_string();
            return Ok(Judged::Inconclusive { why });
        }
        error => return Err(error.into()),
    };
    let first = format!("node {node} {does_not}: it {what}");
    if is_killed {
        let why = format!("{first}; {NO_FAULT}");
        return Ok(Judged::Inconclusive { why });
    }
    let log = tail.iter().map(|line| format!("its log: {line}"));
    let broken = [first].into_iter().chain(log).collect();
    Ok(broken_or_in_doubt(broken, doubts))
}

/// What there is to say if the machine of the check does not do what it is asked for: nothing of the cluster.
fn not_asked(error: ClusterError) -> Result<Judged> {
    match error {
        ClusterError::NotReady { .. } | ClusterError::Unable { .. } => Ok(Judged::Inconclusive {
            why: format!("the check could not be asked: {error}"),
        }),
        error => Err(error.into()),
    }
}

/// What there is to say of what is broken, where something else may have done it.
fn broken_or_in_doubt(broken: Vec<String>, doubts: &[String]) -> Judged {
    if doubts.is_empty() {
        return Judged::Broken { broken };
    }
    let why = doubtful(&broken, doubts);
    Judged::Inconclusive { why }
}

fn judged(verdict: Verdict) -> Judged {
    match verdict {
        Verdict::Ok => Judged::Ok,
        Verdict::Broken(broken) => Judged::Broken { broken },
        Verdict::Inconclusive(why) => Judged::Inconclusive { why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_ready(what: &str) -> ClusterError {
        ClusterError::NotReady {
            node: "a".into(),
            what: what.into(),
            tail: vec!["a line".into()],
        }
    }

    fn unable() -> ClusterError {
        ClusterError::Unable {
            node: "a".into(),
            what: "it is short of memory".into(),
        }
    }

    #[test]
    fn a_node_that_somebody_else_killed_is_no_finding() {
        let of = |error| of_down("does not stay up", error, &[]).expect("it is of a node");
        let broken = of(not_ready("was ended by SIGSEGV by itself"));
        let words = [
            "node a does not stay up: it was ended by SIGSEGV by itself",
            "its log: a line",
        ];
        let words = words.map(str::to_owned).to_vec();
        assert_eq!(broken, Judged::Broken { broken: words });
        for (error, begins) in [
            (
                not_ready("was ended by SIGKILL by itself"),
                "node a does not stay up: it was ended by SIGKILL by itself; no fault did that, and its machine may be short of memory",
            ),
            (unable(), "the machine of a "),
        ] {
            let judged = of(error);
            let is_so = matches!(&judged, Judged::Inconclusive { why } if why.starts_with(begins));
            assert!(is_so, "{judged:?}");
        }
    }

    /// It may need the other one to come up, as a member of a cluster needs a majority.
    #[test]
    fn nor_is_one_that_is_down_beside_another_that_somebody_else_killed() {
        let error = not_ready("was not ready within 30s");
        let doubt = "b was ended by SIGKILL".to_owned();
        let judged = of_down("does not come up", error, &[doubt]).expect("it is of a node");
        let why = "node a does not come up: it was not ready within 30s; its log: a line; that may come of \
                   this: b was ended by SIGKILL";
        assert_eq!(judged, Judged::Inconclusive { why: why.into() });
    }

    #[test]
    fn a_kernel_that_gives_up_is_a_finding_only_where_a_node_is() {
        let of = |ended: &[(usize, &str)]| {
            let ended = ended.iter().map(|(machine, name)| {
                let (name, how) = ((*name).to_owned(), "has a kernel that gave up".to_owned());
                (*machine, name, how)
            });
            of_ended(ended.collect(), 2, |machine| format!("oops {machine}\n"))
        };
        let words = [
            "the machine of b has a kernel that gave up",
            "its console: oops 1",
        ];
        let broken = words.map(str::to_owned).to_vec();
        let broken = Some(Judged::Broken { broken });
        assert_eq!(of(&[(1, "b")]), broken);
        assert_eq!(of(&[(1, "b"), (2, "client")]), broken);
        let why =
            "the machine of client has a kernel that gave up, which says nothing of the nodes";
        let why = why.to_owned();
        assert_eq!(of(&[(2, "client")]), Some(Judged::Inconclusive { why }));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_is_broken_beside_a_node_that_somebody_else_killed_accuses_nobody() {
        let of = |doubts: &[String]| broken_or_in_doubt(vec!["k1 is lost".into()], doubts);
        let broken = vec!["k1 is lost".to_owned()];
        assert_eq!(of(&[]), Judged::Broken { broken });
        let why = "k1 is lost; that may come of this: a was ended by SIGKILL".into();
        let doubt = "a was ended by SIGKILL".to_owned();
        assert_eq!(of(&[doubt]), Judged::Inconclusive { why });
    }

    #[test]
    fn a_check_that_cannot_be_asked_ends_one_run_and_no_sweep() {
        for error in [not_ready("does not get ready"), unable()] {
            let judged = not_asked(error).expect("it is of the machine");
            assert!(matches!(judged, Judged::Inconclusive { .. }), "{judged:?}");
        }
        assert!(not_asked(ClusterError::Interrupted).is_err());
    }

    /// A run that was to stand still, or was interrupted, is none that came to something.
    #[test]
    fn only_what_machines_do_not_do_is_judged() {
        assert!(is_of_machine(&not_ready("was not ready")));
        for error in [
            ClusterError::AtTime,
            ClusterError::AtPoint,
            ClusterError::Interrupted,
        ] {
            assert!(!is_of_machine(&error), "{error}");
        }
    }
}
