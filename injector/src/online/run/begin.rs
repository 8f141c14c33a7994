//! The start of a run: the nodes, the probe, and then the clients.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use cluster::Error as ClusterError;

use super::super::calls::Calls;
use super::super::clients::Clients;
use super::super::facts::LogTime;
use super::super::ground::Ground;
use super::super::logs::LogTail;
use super::super::messages::Messages;
use super::super::plan::FaultPlan;
use super::super::points::At;
use super::super::ran::FaultCame;
use super::super::requests::Requests;
use super::super::restarts::Restarts;
use super::super::roles::{Probe, Roles};
use super::heal::Healing;
use super::unexpected::Unexpected;
use super::{Last, Place, Runner};
use crate::error::Result;

/// How long the probe may take for its first answer, whatever it may take for others: it starts.
const PROBE_STARTS_WITHIN: Duration = Duration::from_secs(60);

/// What is known of a cluster that is ready, before its clients are started.
pub(super) struct Ready {
    pub(super) calls: Rc<Calls>,
    disk_requests: Requests,
    probe: Option<Probe>,
    roles: Option<Roles>,
}

impl Ready {
    /// Starts the nodes, and waits until they are ready and the probe has answered.
    pub(super) fn new(
        ground: &mut dyn Ground,
        plan: &FaultPlan,
        place: &Place,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self> {
        if let Some(reading) = place.reading {
            ground.look_at_data(reading);
        }
        let mut probe = wanted_probe(ground, plan, place);
        let calls = followed_calls(ground, plan, place)?;
        start_nodes(ground, probe.as_ref())?;
        if plan.needs_counts() || place.points.is_some_and(At::has_messages) {
            ground.count_sent()?;
        }
        let disk_requests = watched_requests(ground, plan, place)?;
        let roles = first_roles(probe.as_mut(), ground, cancelled)?;
        Ok(Self {
            calls,
            disk_requests,
            probe,
            roles,
        })
    }

    /// The same of a ground that was forked there, which has such calls.
    pub(super) fn forked(&self, ground: &mut dyn Ground, calls: Rc<Calls>) -> Result<Self> {
        Ok(Self {
            calls,
            disk_requests: self.disk_requests.forked(ground)?,
            probe: self.probe.as_ref().map(|probe| probe.forked(ground)),
            roles: self.roles.clone(),
        })
    }

    /// Whether a run with a plan would have come here in the same way as far as the disks are concerned.
    pub(super) fn has_requests_for(&self, plan: &FaultPlan) -> bool {
        self.disk_requests.counts() || !plan.needs_requests()
    }
}

/// Starts the clients of a cluster that is ready.
pub(super) fn begin<'a>(
    ground: &'a mut dyn Ground,
    ready: Ready,
    plan: &'a FaultPlan,
    place: &Place,
    cancelled: &'a dyn Fn() -> bool,
) -> Result<Runner<'a>> {
    let Ready {
        calls,
        disk_requests,
        probe,
        roles,
    } = ready;
    // What nodes log until the probe has answered is of before the clients.
    let logs = logs(ground);
    let log_times = first_log_times(ground, &logs);
    Ok(Runner {
        clients: Clients::start(ground, plan, &place.acknowledgements, &place.history)?,
        ground,
        plan,
        calls,
        messages: Messages::new(place.points.is_some_and(At::has_messages)),
        disk_requests,
        requests: BTreeMap::new(),
        unusable: None,
        roles,
        active: Vec::new(),
        probe,
        logs,
        logged: Vec::new(),
        looks: 0,
        healing: Healing::default(),
        log_times,
        events: Vec::new(),
        came: vec![FaultCame::not_yet(); plan.faults.len()],
        returning: Vec::new(),
        restarts: Restarts::new(plan.restart_after),
        last: Last::default(),
        sometimes: None,
        is_quiet: false,
        is_over: false,
        problems: Vec::new(),
        doubts: Vec::new(),
        unexpected: Unexpected::default(),
        cancelled,
    })
}

/// Who tells roles, if anybody is to know them.
fn wanted_probe(ground: &dyn Ground, plan: &FaultPlan, place: &Place) -> Option<Probe> {
    probe_for(ground).filter(|_| place.points.is_some() || !plan.faults.is_empty())
}

/// Starts the nodes, with places for the clients and a probe that is asked.
fn start_nodes(ground: &mut dyn Ground, probe: Option<&Probe>) -> Result<()> {
    let asks_probe = probe.is_some_and(Probe::needs_place);
    let clients = ground.file().all_clients().len();
    Ok(ground.start(clients + usize::from(asks_probe))?)
}

/// The requests to disks that are failure points, or that the plan waits for. They are looked at from now on.
fn watched_requests(ground: &mut dyn Ground, plan: &FaultPlan, place: &Place) -> Result<Requests> {
    let counts = place.points.is_some_and(At::has_requests);
    Ok(Requests::begin(ground, plan, counts)?)
}

/// What is decided about system calls; the nodes that are traced for that are known to the ground.
fn followed_calls(ground: &mut dyn Ground, plan: &FaultPlan, place: &Place) -> Result<Rc<Calls>> {
    let counts = place.points.is_some_and(At::has_calls);
    let inside = ground.traces_inside();
    let calls = Rc::new(Calls::new(plan, ground.file(), counts, inside));
    if plan.needs_calls() || counts {
        ground.follow_calls(&calls)?;
    }
    Ok(calls)
}

fn logs(ground: &dyn Ground) -> Vec<LogTail> {
    let nodes = 0..ground.file().nodes.len();
    nodes.map(|node| LogTail::new(ground.log(node))).collect()
}

/// How long logs are when the clients start.
fn first_log_times(ground: &dyn Ground, logs: &[LogTail]) -> Vec<LogTime> {
    let nodes = ground.file().nodes.iter().zip(logs);
    let times = nodes.map(|(node, log)| LogTime {
        node: node.name.clone(),
        time: 0,
        to: log.read_to(),
    });
    times.collect()
}

/// The probe of the cluster. It sees all nodes, whatever is cut off from whom: it has a place of its
/// own, after those of the clients.
fn probe_for(ground: &dyn Ground) -> Option<Probe> {
    let file = ground.file();
    let config = file.probe.as_ref()?;
    Some(Probe::new(config, file.all_clients().len()))
}

/// What the probe says before the clients start, if there is one, or why it says nothing: then it would
/// not say it later either. No fault makes a node answer wrongly yet, so all have to be right.
fn first_roles(
    probe: Option<&mut Probe>,
    ground: &mut dyn Ground,
    cancelled: &dyn Fn() -> bool,
) -> Result<Option<Roles>> {
    let Some(probe) = probe else {
        return Ok(None);
    };
    let begun = ground.now();
    loop {
        if cancelled() {
            return Err(ClusterError::Interrupted.into());
        }
        let looked = probe.look(ground, Duration::ZERO);
        let whole = looked.map(|said| said.and_then(Roles::whole));
        match whole {
            Some(Ok(roles)) => return Ok(Some(roles)),
            Some(Err(what)) if ground.now() > begun + PROBE_STARTS_WITHIN => {
                let whose = "the probe".to_owned();
                let what = format!("gives no answer: {what}");
                return Err(ClusterError::Command { whose, what }.into());
            }
            _ => ground.pass()?,
        }
    }
}
