//! A run without a failure: when power can fail.

use std::ops::Range;

use cluster::{Ending, Error as ClusterError, SimulatedCluster, Verdict};

use super::held::Over;
use super::story::{Printed, Story};
use super::{DOWN_NS, Judged, Laboratory, Logs};
use crate::error::{Error, Result};
use crate::plan::{At, ForkPoint, Moment, Plan, PointRange};

/// At how many times a run can be forked. What is between one and the point is run each time.
const FORKS: u64 = 64;

/// How long a node that was restarted has to stay up.
const STAYS_NS: u64 = 1_000_000_000;

/// What is known of a cluster before anything fails.
#[derive(Debug)]
pub struct Reference {
    /// When power can fail. Of whom, and what is kept, is still to be said.
    pub plan: Plan,
    /// Why nothing can be said of a failure of some nodes and not all, if that is so.
    pub not_alone: Option<String>,
    /// Why nothing can be said of one of several and not all, if it was looked at and that is so.
    pub not_several: Option<String>,
}

impl Laboratory {
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
    /// nodes for which everything had been written. What it did until the check was asked first is held
    /// against the rules. Returns at which points power can fail, and of
    /// whom: where a node does not come up when it is restarted alone, with nothing lost, nothing
    /// can be said of a failure of some. With `several` all nodes but one are restarted, too, each time
    /// without another.
    ///
    /// # Errors
    /// If the client fails, or the check is not content, or rules are violated: then nothing can be said
    /// of failures.
    pub fn reference(
        &self,
        at: &[At],
        several: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Reference> {
        let logs = Logs::new(None)?;
        let mut cluster = self.prepared(&logs, false, cancelled)?;
        let (plan, lines) = self.plan_and_lines(&mut cluster, at, &logs, cancelled)?;
        let nodes: Vec<_> = (0..self.file.nodes.len()).collect();
        restart(&mut cluster, &nodes, cancelled)?;
        let verdict = cluster.run_check(&lines, cancelled)?;
        refuse_not_ok(verdict, "after a restart of all nodes")?;
        // One that does not stay up then says nothing about failures after which it does not.
        cluster.refuse_end()?;
        let alone = nodes.iter().map(|node| vec![*node]);
        let not_alone = not_up_again(&mut cluster, alone, cancelled)?;
        let without = |one: &usize| nodes.iter().copied().filter(|node| node != one).collect();
        let not_several = if several && not_alone.is_none() {
            not_up_again(&mut cluster, nodes.iter().map(without), cancelled)?
        } else {
            None
        };
        Ok(Reference {
            plan,
            not_alone,
            not_several,
        })
    }

    /// The same as [`Self::plan_of_run`], of a run of which the check and the rules say nothing.
    fn plan_and_lines(
        &self,
        cluster: &mut SimulatedCluster,
        at: &[At],
        logs: &Logs,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Plan, Vec<u8>)> {
        let mut story = Story::new(cluster);
        let (plan, printed) = self.plan_of_run(cluster, at, cancelled)?;
        story.client_ended(cluster.now_ns(), Ending::Status(0));
        let verdict = cluster.run_check(&printed.bytes, cancelled)?;
        refuse_not_ok(verdict, "after the client")?;
        self.refuse_violated(&mut Over {
            cluster,
            story: &mut story,
            printed: &printed,
            logs: logs.path(),
        })?;
        Ok((plan, printed.bytes))
    }

    /// Runs the client. Returns at which points of that power can fail, and what was acknowledged.
    fn plan_of_run(
        &self,
        cluster: &mut SimulatedCluster,
        at: &[At],
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Plan, Printed)> {
        if at.contains(&At::Frames) {
            cluster.simulation().switch().keep_frames();
        }
        let begun_ns = cluster.simulation().now_ns();
        let before = self.points_until_now(cluster);
        let mut printed = Printed::default();
        let mut acknowledged = |time_ns: u64, line: &[u8]| printed.add(time_ns, line);
        cluster.run_client(&mut acknowledged, cancelled)?;
        cluster.refuse_end()?;
        let after = self.points_until_now(cluster);
        let times_ns = &printed.times_ns;
        let mut plan = self.plan(at, before, after, times_ns.len());
        if plan.is_without_points() {
            return Err(Error::NoPoints);
        }
        plan.first = first_after(cluster, &plan, times_ns);
        let ended_ns = cluster.simulation().now_ns();
        plan.forks = fork_points(cluster, &plan, times_ns, begun_ns..ended_ns);
        Ok((plan, printed))
    }

    /// Fails if rules are violated without a failure: they say nothing about failures then.
    fn refuse_violated(&self, over: &mut Over<'_>) -> Result<()> {
        let (judged, _) = self.hold(over, Judged::Ok)?;
        let what = match judged {
            Judged::Ok => return Ok(()),
            Judged::Broken { broken } => broken.join("; "),
            Judged::Inconclusive { why } => why,
        };
        Err(Error::NotHeld { what })
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
    cluster.rest_without_power(nodes, DOWN_NS, cancelled)?;
    cluster.start(cancelled)
}

/// The same, and they are still there a while later.
fn restart_for_good(
    cluster: &mut SimulatedCluster,
    nodes: &[usize],
    cancelled: &dyn Fn() -> bool,
) -> cluster::Result<()> {
    restart(cluster, nodes, cancelled)?;
    cluster.idle(STAYS_NS, cancelled)?;
    nodes
        .iter()
        .try_for_each(|node| cluster.refuse_end_of(*node))
}

/// Why some of these nodes do not come up, or stay up, when they are restarted and the others go on, if that
/// is so.
fn not_up_again(
    cluster: &mut SimulatedCluster,
    sets: impl Iterator<Item = Vec<usize>>,
    cancelled: &dyn Fn() -> bool,
) -> Result<Option<String>> {
    for nodes in sets {
        match restart_for_good(cluster, &nodes, cancelled) {
            Ok(()) => {}
            Err(error @ ClusterError::NotReady { .. }) => return Ok(Some(error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
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
