//! One run of a plan: the cluster starts, the clients work, the faults happen, everything is healed,
//! and the check is asked.

mod begin;
mod faults;
mod fork;
mod heal;
mod hear;
mod judge;
mod late;
#[cfg(test)]
mod tests;
mod unexpected;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use cluster::{Error as ClusterError, Reading};

use super::act::Undo;
use super::calls::Calls;
use super::clients::Clients;
use super::facts::{LogTime, write_times};
use super::ground::Ground;
use super::logs::LogTail;
use super::messages::Messages;
use super::plan::FaultPlan;
use super::points::{At, SeenPoint};
use super::ran::{FaultCame, Happening, Ran, RunEvent};
use super::requests::Requests;
use super::restarts::Restarts;
use super::roles::{Probe, Roles};
use super::sometimes::Reached;
use super::triggers::{Seen, Waiting};
use crate::error::{Error, Result};
use crate::laboratory::Judged;
use begin::{Ready, begin};
use faults::Next;
pub use fork::{Future, Prefix};
use heal::Healing;
pub use late::Trunk;
use unexpected::Unexpected;
pub(super) use unexpected::without_line;

/// What the file with the operations of the clients is called.
pub const HISTORY: &str = "history.jsonl";

/// So long after the clients have ended calls of nodes are counted: they do what they do later.
const COUNTED_AFTER: Duration = Duration::from_millis(300);

/// How long after what has happened last it is quiet, if nothing is waited for.
const QUIET_AFTER: Duration = Duration::from_secs(5);

/// Where a run has its files.
pub struct Place {
    /// Gets every line that clients print.
    pub acknowledgements: PathBuf,
    /// Gets the operations among them, with their times.
    pub history: PathBuf,
    /// Gets the times at which logs grew.
    pub log_times: PathBuf,
    /// What of nodes is counted ([`Ran::points`]), if anything is.
    pub points: Option<At>,
    /// Which files of directories of data are read, if these are looked at.
    pub reading: Option<Reading>,
    /// Gets what was seen there then.
    pub looks: PathBuf,
}

/// A cluster among faults.
pub(super) struct Runner<'a> {
    pub(super) ground: &'a mut dyn Ground,
    pub(super) plan: &'a FaultPlan,
    pub(super) clients: Clients,
    pub(super) calls: Rc<Calls>,
    messages: Messages,
    disk_requests: Requests,
    /// How many requests each fault has hit on the disk of each node.
    pub(super) requests: BTreeMap<(usize, usize), Arc<AtomicU64>>,
    /// Why nothing that is seen from then on says anything of the programs: a disk cannot be used after its
    /// requests failed, or the ground has failed.
    unusable: Option<ClusterError>,
    pub(super) roles: Option<Roles>,
    /// The faults that are in place.
    pub(super) active: Vec<Active>,
    probe: Option<Probe>,
    logs: Vec<LogTail>,
    logged: Vec<(usize, String)>,
    looks: u64,
    log_times: Vec<LogTime>,
    events: Vec<RunEvent>,
    pub(super) came: Vec<FaultCame>,
    /// Nodes that were started again and are not ready yet, with the fault whose end that is, if they
    /// had not ended by themselves.
    returning: Vec<(usize, Option<usize>)>,
    restarts: Restarts,
    pub(super) healing: Healing,
    pub(super) last: Last,
    sometimes: Option<Reached>,
    /// Whether the probe may be asked less often.
    is_quiet: bool,
    /// Whether clients that end now were asked to.
    is_over: bool,
    pub(super) problems: Vec<String>,
    /// What was done to nodes, and by no fault of the plan: what is broken may come of that.
    doubts: Vec<String>,
    /// What nodes did that they should not do by themselves.
    unexpected: Unexpected,
    cancelled: &'a dyn Fn() -> bool,
}

/// The fault that was put in place last.
#[derive(Default)]
pub(super) struct Last {
    /// When that was.
    placed: Option<Duration>,
    /// Whom it has hit.
    pub(super) hit: Option<Vec<usize>>,
    /// Which one it is, and whether it has ended.
    fault: Option<usize>,
    ended: bool,
}

/// A fault that is in place.
pub(super) struct Active {
    pub(super) fault: usize,
    pub(super) undo: Undo,
    until: Option<Waiting>,
}

/// Runs a plan once, on a cluster of which no node is started. Its nodes are killed in the end.
///
/// # Errors
/// If the cluster does not start, is not ready, or cannot be prepared; if the check cannot be run;
/// [`ClusterError::Interrupted`].
pub fn run(
    ground: &mut dyn Ground,
    plan: &FaultPlan,
    place: &Place,
    cancelled: &dyn Fn() -> bool,
) -> Result<Ran> {
    let ready = Ready::new(ground, plan, place, cancelled)?;
    run_ready(ground, ready, plan, place, cancelled)
}

/// The same of a cluster that is ready.
fn run_ready(
    ground: &mut dyn Ground,
    ready: Ready,
    plan: &FaultPlan,
    place: &Place,
    cancelled: &dyn Fn() -> bool,
) -> Result<Ran> {
    let mut runner = begin(ground, ready, plan, place, cancelled)?;
    runner.tell_roles(None);
    runner.finish(place, None)
}

/// How far a run is that goes on: the fault whose turn it is, and when the clients had ended, if they have.
type Begun = (Option<Next>, Option<Duration>);

impl Runner<'_> {
    /// Goes on to the end, from the start of the clients, or from where the run is.
    fn finish(mut self, place: &Place, begun: Option<Begun>) -> Result<Ran> {
        let begun_ns = self.begun_ns();
        let ran = self.all_of_it(place, begun);
        let calls = Rc::clone(&self.calls);
        self.ground.end();
        // What the functions are called is known when the nodes have ended.
        let others = self.other_points(begun_ns);
        let points = SeenPoint::all(&calls, others, self.ground.file(), begun_ns);
        let has_lost_messages = self.messages.counts && self.ground.uncounted() > 0;
        match ran {
            Ok(ran) => Ok(Ran {
                points,
                has_lost_points: calls.lost_some().is_some() || has_lost_messages,
                ..ran
            }),
            Err(Error::Cluster(error @ ClusterError::Unable { .. })) => {
                self.cut_short(place, &error)
            }
            Err(error) => Err(error),
        }
    }

    /// Looks for what should happen sometimes, and counts, from now on.
    fn watch(&mut self) {
        self.sometimes = Some(Reached::new(&self.seen()));
        self.begin_tally();
    }

    fn all_of_it(&mut self, place: &Place, begun: Option<Begun>) -> Result<Ran> {
        let begun = begun.unwrap_or_else(|| {
            self.watch();
            (self.arm(0), None)
        });
        self.counted_faults(begun)?;
        let acknowledged_before_heal = self.clients.acknowledged();
        let mut broken = self.restore_majority()?;
        if broken.is_empty() {
            broken = self.heal()?;
        }
        if broken.is_empty() {
            broken.extend(self.progress()?);
        }
        self.end_clients()?;
        let (verdict, unjudged) = self.verdict(broken, place)?;
        let seconds = self.since_begin(self.ground.now()) as f64 / 1e9;
        self.close();
        write_times(&place.log_times, &self.log_times)?;
        // After what ends of nodes and logs say: now they are killed.
        self.look_at_the_end(place)?;
        let (judged, mut notes) = self.judge(verdict);
        notes.append(&mut self.unexpected.told);
        notes.extend(self.clients.turns_cut_short());
        Ok(Ran {
            acknowledged_before_heal,
            seconds,
            unjudged,
            ..self.so_far(judged, notes)
        })
    }

    /// What has happened, and what that came to.
    fn so_far(&mut self, judged: Judged, notes: Vec<String>) -> Ran {
        let sometimes = self.sometimes.take();
        Ran {
            events: std::mem::take(&mut self.events),
            processes: self.clients.processes(),
            faults: std::mem::take(&mut self.came),
            reached: sometimes.map_or_else(Vec::new, |sometimes| sometimes.reached),
            acknowledged: self.clients.acknowledged(),
            seconds: self.since_begin(self.ground.now()) as f64 / 1e9,
            notes,
            doubts: std::mem::take(&mut self.doubts),
            ..Ran::of(judged)
        }
    }

    /// What happened until a machine could not do what it has to, for no reason of its node's. It is
    /// inconclusive, and nothing else is to be held against it.
    fn cut_short(&mut self, place: &Place, error: &ClusterError) -> Result<Ran> {
        self.spare_all_calls();
        self.close();
        write_times(&place.log_times, &self.log_times)?;
        let why = error.to_string();
        let notes = std::mem::take(&mut self.problems);
        Ok(Ran {
            is_cut_short: true,
            ..self.so_far(Judged::Inconclusive { why }, notes)
        })
    }

    /// Has the faults happen; calls and messages are counted meanwhile.
    fn counted_faults(&mut self, begun: Begun) -> Result<()> {
        let ended = self.faults(begun);
        self.calls.end_tally();
        self.disk_requests.end_tally();
        self.look_at_messages();
        self.messages.end();
        ended?;
        if self.calls.counts() {
            self.know_tally();
        }
        Ok(())
    }

    fn begin_tally(&mut self) {
        self.calls.begin_tally(self.ground.now().as_nanos() as u64);
        self.disk_requests.begin_tally();
        if self.messages.counts {
            self.messages.begin(self.ground.passed_by_ports());
        }
    }

    /// Takes what nodes have sent to each other by now, if that is counted.
    pub(super) fn look_at_messages(&mut self) {
        if self.messages.is_counting() {
            let now = (self.ground.now(), self.roles.as_ref());
            let sent = self.ground.passed_by_ports();
            self.messages.look(sent, now, self.ground.file());
        }
    }

    /// What was counted beside calls, if clients were started then by the clock of these.
    fn other_points(&self, begun_ns: u64) -> Vec<SeenPoint> {
        let (file, begun) = (self.ground.file(), self.clients.begun());
        let mut all = self.messages.points(file, begun);
        all.extend(self.disk_requests.points(file, begun_ns));
        all
    }

    /// Whether anything is counted.
    fn counts(&self) -> bool {
        self.calls.counts() || self.messages.counts || self.disk_requests.counts()
    }

    /// Waits until it is known what was counted.
    fn know_tally(&mut self) {
        if let Err(error) = self.ground.agree_on_calls() {
            self.failed(error);
        }
        if let Some(node) = self.calls.lost_some() {
            let node = self.name(node);
            self.problems.push(format!(
                "the calls of {node} were not all counted: its tracer was gone before it told of them"
            ));
        }
    }

    /// Has the faults happen, while the clients work.
    fn faults(&mut self, (mut next, mut clients_ended): Begun) -> Result<()> {
        loop {
            self.is_quiet = self.is_quiet_until(next.as_ref());
            self.hear()?;
            self.fire_all(&mut next);
            self.look_after_nodes(&mut clients_ended)?;
            if let Some(ended) = clients_ended
                && !self.is_worth_waiting(next.as_ref(), ended)
                && !self.is_counted_still(ended)
            {
                self.is_quiet = false;
                return self.give_up_next(next);
            }
            self.ground.pass()?;
        }
    }

    /// Ends faults whose time is over, and starts nodes again. Notes when the clients have ended.
    fn look_after_nodes(&mut self, clients_ended: &mut Option<Duration>) -> Result<()> {
        self.look_for_ends()?;
        self.start_again();
        if self.clients.are_over() && clients_ended.is_none() {
            *clients_ended = Some(self.ground.now());
        }
        Ok(())
    }

    /// Whether nodes may still do what clients asked for, and that is to be counted.
    fn is_counted_still(&self, ended: Duration) -> bool {
        self.counts() && self.ground.now() < ended + COUNTED_AFTER
    }

    /// Whether nothing has happened for a while, and nobody waits for what the probe says. Where points are
    /// counted it is asked as often in each run, whatever that one waits for: they are compared.
    fn is_quiet_until(&self, next: Option<&Next>) -> bool {
        let waits = |next: &Next| next.fired.is_some() || next.trigger.needs_roles();
        let now_ns = self.since_begin(self.ground.now());
        let is_recent = |event: &RunEvent| now_ns < event.time_ns + QUIET_AFTER.as_nanos() as u64;
        !self.counts()
            && !next.is_some_and(waits)
            && self.active.is_empty()
            && self.returning.is_empty()
            && !self.events.last().is_some_and(is_recent)
    }

    /// Whether something can still happen by itself after the clients have ended.
    fn is_worth_waiting(&self, next: Option<&Next>, ended: Duration) -> bool {
        let active = self.active.iter();
        let mut untils = active
            .filter(|active| !self.is_kept(active))
            .filter_map(|active| active.until.as_ref());
        let (within, is_one_running) = (self.plan.within, self.clients.is_one_running());
        let now = self.ground.now();
        let is_one_down = !self.returning.is_empty() || self.restarts.is_one_due();
        let is_returning = is_one_down && now < ended + within;
        let times = (ended, now);
        is_returning
            || next.is_some_and(|next| next.may_happen(times, within, is_one_running))
            || untils.any(|until| until.may_fire(times, within, is_one_running))
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            now: self.ground.now(),
            file: self.ground.file(),
            ground: &*self.ground,
            seed: self.plan.seed,
            calls: &self.calls,
            requests: &self.disk_requests,
            clients: &self.clients,
            roles: self.roles.as_ref(),
            logged: &self.logged,
            looks: self.looks,
            last_placed: self.last.placed,
            last_hit: self.last.hit.as_deref(),
            last_ended: self.last.ended,
        }
    }

    fn happened(&mut self, what: Happening) {
        let now = self.ground.now();
        if let Some((f, words)) = nemesis(&what) {
            let caught_up = self.clients.catch_up(self.ground);
            if let Err(error) = caught_up.and_then(|()| self.clients.nemesis(now, f, &words)) {
                self.problems.push(error.to_string());
            }
        }
        self.events.push(RunEvent {
            time_ns: self.since_begin(now),
            acknowledged: self.clients.acknowledged(),
            what,
        });
    }

    /// When the clients were started, as calls are stamped: in nanoseconds of the ground where nodes are
    /// traced in their machines, and else of `CLOCK_MONOTONIC`.
    fn begun_ns(&self) -> u64 {
        if self.ground.traces_inside() {
            return self.clients.begun().as_nanos() as u64;
        }
        tracer::now_ns().saturating_sub(self.since_begin(self.ground.now()))
    }

    fn since_begin(&self, at: Duration) -> u64 {
        at.saturating_sub(self.clients.begun()).as_nanos() as u64
    }

    fn name(&self, node: usize) -> String {
        self.ground.file().nodes[node].name.clone()
    }
}

/// What of this is of the history too: its name and words.
fn nemesis(what: &Happening) -> Option<(&'static str, String)> {
    Some(match what {
        Happening::InPlace { words, .. } => ("fault", words.clone()),
        Happening::Undone { fault } => ("end", format!("fault {fault}")),
        Happening::Restored { nodes } => {
            let words = format!("all but {} are cut off until the heal", nodes.join(", "));
            ("fault", words)
        }
        Happening::Healed => ("heal", String::new()),
        _ => return None,
    })
}
