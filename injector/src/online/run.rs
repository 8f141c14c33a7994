//! One run of a plan: the cluster starts, the clients work, the faults happen, everything is healed,
//! and the check is asked.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use cluster::{Error as ClusterError, Verdict};

use super::act::{Hit, Undo};
use super::calls::Calls;
use super::clients::Clients;
use super::facts::{LogTime, write_times};
use super::ground::Ground;
use super::logs::LogTail;
use super::plan::FaultPlan;
use super::points::SeenPoint;
use super::ran::{FaultCame, Happening, Ran, RunEvent, State};
use super::restarts::Restarts;
use super::roles::{Probe, Roles};
use super::sometimes::Reached;
use super::triggers::{ROLE_IS_FRESH, Seen, Waiting};
use super::witness;
use crate::error::Result;
use crate::laboratory::Judged;

/// What the file with the operations of the clients is called.
pub const HISTORY: &str = "history.jsonl";

/// How long a fault waits for a node to have the role that it asks for.
const ROLE_WITHIN: Duration = Duration::from_secs(30);

/// How long the probe may take for its first answer, whatever it may take for others: it starts.
const PROBE_STARTS_WITHIN: Duration = Duration::from_secs(60);

/// So long after the clients have ended calls of nodes are counted: they do what they do later.
const COUNTED_AFTER: Duration = Duration::from_millis(300);

/// How long after what has happened last it is quiet, if nothing is waited for.
const QUIET_AFTER: Duration = Duration::from_secs(5);

/// How long a client may take that was asked to end.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Where a run has its files.
pub struct Place {
    /// Gets every line that clients print.
    pub acknowledgements: PathBuf,
    /// Gets the operations among them, with their times.
    pub history: PathBuf,
    /// Gets the times at which logs grew.
    pub log_times: PathBuf,
    /// Whether the calls of nodes are counted ([`Ran::points`]).
    pub points: bool,
}

/// A cluster among faults.
pub(super) struct Runner<'a> {
    pub(super) ground: &'a mut dyn Ground,
    pub(super) plan: &'a FaultPlan,
    pub(super) clients: Clients,
    pub(super) calls: Rc<Calls>,
    pub(super) roles: Option<Roles>,
    /// The faults that are in place.
    pub(super) active: Vec<Active>,
    probe: Option<Probe>,
    logs: Vec<LogTail>,
    logged: Vec<(usize, String)>,
    log_times: Vec<LogTime>,
    events: Vec<RunEvent>,
    came: Vec<FaultCame>,
    /// Nodes that were started again and are not ready yet, with the fault whose end that is, if they
    /// had not ended by themselves.
    returning: Vec<(usize, Option<usize>)>,
    restarts: Restarts,
    last_placed: Option<Duration>,
    /// Whom the last fault has hit.
    pub(super) last_hit: Option<Vec<usize>>,
    last_ended: bool,
    sometimes: Option<Reached>,
    /// Whether the probe may be asked less often.
    is_quiet: bool,
    /// Whether clients that end now were asked to.
    is_over: bool,
    problems: Vec<String>,
    cancelled: &'a dyn Fn() -> bool,
}

/// A fault that is in place.
pub(super) struct Active {
    fault: usize,
    pub(super) undo: Undo,
    until: Option<Waiting>,
}

/// The fault whose turn it is.
struct Next {
    fault: usize,
    trigger: Waiting,
    fired: Option<Duration>,
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
    let mut runner = begin(ground, plan, place, cancelled)?;
    runner.tell_roles(None);
    let ran = runner.all_of_it(place);
    let calls = Rc::clone(&runner.calls);
    runner.ground.end();
    // What the functions are called is known when the nodes have ended.
    let points = SeenPoint::all(&calls);
    ran.map(|ran| Ran { points, ..ran })
}

/// Starts the nodes, and then the clients.
fn begin<'a>(
    ground: &'a mut dyn Ground,
    plan: &'a FaultPlan,
    place: &Place,
    cancelled: &'a dyn Fn() -> bool,
) -> Result<Runner<'a>> {
    let clients = ground.file().all_clients().len();
    let asks = place.points || !plan.faults.is_empty();
    let mut probe = probe_for(ground, clients).filter(|_| asks);
    let calls = followed_calls(ground, plan, place.points)?;
    ground.start(clients + usize::from(probe.is_some()))?;
    let logs = logs(ground);
    let log_times = first_log_times(ground, &logs);
    let roles = probe
        .as_mut()
        .map(|probe| first_roles(probe, ground, cancelled))
        .transpose()?;
    Ok(Runner {
        clients: Clients::start(ground, plan, &place.acknowledgements, &place.history)?,
        ground,
        plan,
        calls,
        roles,
        active: Vec::new(),
        probe,
        logs,
        logged: Vec::new(),
        log_times,
        events: Vec::new(),
        came: vec![FaultCame::not_yet(); plan.faults.len()],
        returning: Vec::new(),
        restarts: Restarts::new(plan.restart_after),
        last_placed: None,
        last_hit: None,
        last_ended: false,
        sometimes: None,
        is_quiet: false,
        is_over: false,
        problems: Vec::new(),
        cancelled,
    })
}

/// What is decided about system calls; the nodes that are traced for that are known to the ground.
fn followed_calls(ground: &mut dyn Ground, plan: &FaultPlan, counts: bool) -> Result<Rc<Calls>> {
    let calls = Rc::new(Calls::new(plan, ground.file(), counts));
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
fn probe_for(ground: &dyn Ground, clients: usize) -> Option<Probe> {
    let config = ground.file().probe.as_ref()?;
    Some(Probe::new(config, clients))
}

/// What the probe says before the clients start, or why it says nothing: then it would not say it
/// later either.
fn first_roles(
    probe: &mut Probe,
    ground: &mut dyn Ground,
    cancelled: &dyn Fn() -> bool,
) -> Result<Roles> {
    let begun = ground.now();
    loop {
        if cancelled() {
            return Err(ClusterError::Interrupted.into());
        }
        match probe.look(ground, Duration::ZERO) {
            Some(Ok(roles)) => return Ok(roles),
            Some(Err(what)) if ground.now() > begun + PROBE_STARTS_WITHIN => {
                let whose = "the probe".to_owned();
                let what = format!("gives no answer: {what}");
                return Err(ClusterError::Command { whose, what }.into());
            }
            _ => ground.pass()?,
        }
    }
}

impl Runner<'_> {
    fn all_of_it(&mut self, place: &Place) -> Result<Ran> {
        self.counted_faults()?;
        let acknowledged_before_heal = self.clients.acknowledged();
        let mut broken = self.heal()?;
        if broken.is_empty() {
            broken.extend(self.progress()?);
        }
        self.end_clients()?;
        let verdict = self.verdict(broken, place)?;
        let seconds = self.since_begin(self.ground.now()) as f64 / 1e9;
        self.close();
        write_times(&place.log_times, &self.log_times)?;
        let (judged, notes) = self.judge(verdict);
        Ok(Ran {
            events: std::mem::take(&mut self.events),
            processes: self.clients.processes(),
            faults: std::mem::take(&mut self.came),
            reached: self
                .sometimes
                .take()
                .map_or_else(Vec::new, |sometimes| sometimes.reached),
            acknowledged: self.clients.acknowledged(),
            acknowledged_before_heal,
            seconds,
            judged,
            notes,
            violations: Vec::new(),
            unlooked: Vec::new(),
            points: Vec::new(),
            simulated: None,
        })
    }

    /// What is broken already, or else what the check says; with what the clients saw.
    fn verdict(&mut self, broken: Vec<String>, place: &Place) -> Result<Verdict> {
        let verdict = if broken.is_empty() {
            self.check(place)?
        } else {
            Verdict::Broken(broken)
        };
        let rules = &self.ground.file().histories;
        if rules.is_empty() {
            return Ok(verdict);
        }
        let seen = witness::verdict(rules, &place.history)?;
        Ok(witness::together(verdict, seen))
    }

    /// Asks the check, and once more if something is broken: what is broken for a while only, on a
    /// machine that has much else to do, is no finding.
    fn check(&mut self, place: &Place) -> Result<Verdict> {
        if self.ground.file().check.is_none() {
            return Ok(Verdict::Ok);
        }
        let mut ask = || self.ground.check(&place.acknowledgements);
        let verdict = match ask()? {
            Verdict::Broken(broken) => match ask()? {
                Verdict::Ok => Verdict::Inconclusive(format!(
                    "something was broken, and was not when the check was asked again: {}",
                    broken.join("; ")
                )),
                other => other,
            },
            other => other,
        };
        self.happened(Happening::Checked);
        Ok(verdict)
    }

    /// Has the faults happen, and calls counted meanwhile.
    fn counted_faults(&mut self) -> Result<()> {
        self.calls.begin_tally();
        let ended = self.faults();
        self.calls.end_tally();
        ended
    }

    /// Has the faults happen, while the clients work.
    fn faults(&mut self) -> Result<()> {
        let mut next = self.arm(0);
        let mut clients_ended = None;
        loop {
            self.is_quiet = self.is_quiet_until(next.as_ref());
            self.hear()?;
            self.fire(&mut next);
            self.look_for_ends();
            self.start_again();
            if self.clients.are_over() && clients_ended.is_none() {
                clients_ended = Some(self.ground.now());
            }
            if let Some(ended) = clients_ended
                && !self.is_worth_waiting(next.as_ref(), ended)
                && !self.is_counted_still(ended)
            {
                self.is_quiet = false;
                return Ok(());
            }
            self.ground.pass()?;
        }
    }

    /// Whether nodes may still do what clients asked for, and that is to be counted.
    fn is_counted_still(&self, ended: Duration) -> bool {
        self.calls.counts() && self.ground.now() < ended + COUNTED_AFTER
    }

    /// Whether nothing has happened for a while, and nobody waits for what the probe says.
    fn is_quiet_until(&self, next: Option<&Next>) -> bool {
        let waits = |next: &Next| next.fired.is_some() || next.trigger.needs_roles();
        let now_ns = self.since_begin(self.ground.now());
        let is_recent = |event: &RunEvent| now_ns < event.time_ns + QUIET_AFTER.as_nanos() as u64;
        !next.is_some_and(waits)
            && self.active.is_empty()
            && self.returning.is_empty()
            && !self.events.last().is_some_and(is_recent)
    }

    /// Whether something can still happen by itself after the clients have ended.
    fn is_worth_waiting(&self, next: Option<&Next>, ended: Duration) -> bool {
        let untils = self
            .active
            .iter()
            .filter_map(|active| active.until.as_ref());
        let mut waiting = next.map(|next| &next.trigger).into_iter().chain(untils);
        let (within, is_one_running) = (self.plan.within, self.clients.is_one_running());
        let now = self.ground.now();
        let is_one_down = !self.returning.is_empty() || self.restarts.is_one_due();
        let is_returning = is_one_down && now < ended + within;
        let times = (ended, now);
        is_returning || waiting.any(|waiting| waiting.may_fire(times, within, is_one_running))
    }

    /// Waits for the trigger of a fault, if there is one with this number.
    fn arm(&self, fault: usize) -> Option<Next> {
        let planned = self.plan.faults.get(fault)?;
        Some(Next {
            fault,
            trigger: Waiting::new(&planned.at, &self.seen()),
            fired: None,
        })
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            now: self.ground.now(),
            file: self.ground.file(),
            seed: self.plan.seed,
            calls: &self.calls,
            clients: &self.clients,
            roles: self.roles.as_ref(),
            logged: &self.logged,
            last_placed: self.last_placed,
            last_hit: self.last_hit.as_deref(),
            last_ended: self.last_ended,
        }
    }

    /// Puts the next fault in place if it is time to.
    fn fire(&mut self, next: &mut Option<Next>) {
        let Some(waiting) = next else { return };
        if waiting.fired.is_none() && waiting.trigger.fires(&self.seen()) {
            waiting.fired = Some(self.ground.now());
            if let Some((node, words)) = waiting.trigger.call() {
                let node = self.name(node);
                self.happened(Happening::Call { node, words });
            }
        }
        let Some(fired) = waiting.fired else { return };
        if !self.knows_roles(waiting.fault, fired) {
            return;
        }
        let fault = waiting.fault;
        self.came[fault].fired_ns = Some(self.since_begin(fired));
        self.inject(fault);
        // A call that this one has waited for goes on only when the next one is waited for.
        *next = self.arm(fault + 1);
    }

    /// Whether it is known whom a fault hits, or has been waited for that long enough.
    fn knows_roles(&self, fault: usize, fired: Duration) -> bool {
        let planned = &self.plan.faults[fault];
        if !planned.selectors().any(super::Selector::needs_roles) {
            return true;
        }
        let now = self.ground.now();
        let is_of_now = |roles: &&Roles| {
            now < roles.asked + ROLE_IS_FRESH
                && self.last_placed.is_none_or(|placed| roles.asked > placed)
        };
        let roles = self.roles.as_ref().filter(is_of_now);
        let has = |selector: &super::Selector| match selector {
            super::Selector::Role(role) | super::Selector::EveryRole(role) => {
                roles.is_some_and(|roles| !roles.having(role).is_empty())
            }
            _ => true,
        };
        planned.selectors().all(has) || now > fired + ROLE_WITHIN
    }

    fn inject(&mut self, fault: usize) {
        match self.hit(fault) {
            Ok(hit) => self.in_place(fault, hit),
            Err(why) => {
                let came = &mut self.came[fault];
                came.state = State::NotInjected;
                came.why = Some(why.clone());
                self.happened(Happening::NotInjected {
                    fault: fault + 1,
                    why,
                });
            }
        }
    }

    /// A fault was put in place: it is ended some time, or at once.
    fn in_place(&mut self, fault: usize, hit: Hit) {
        let now = self.ground.now();
        let names = hit.on.iter().map(|node| self.name(*node)).collect();
        let placed_ns = self.since_begin(now);
        let came = &mut self.came[fault];
        came.on = names;
        came.sides = hit.sides;
        came.state = State::InPlace;
        came.placed_ns = Some(placed_ns);
        self.last_placed = Some(now);
        self.last_hit = Some(hit.on);
        self.last_ended = false;
        self.happened(Happening::InPlace {
            fault: fault + 1,
            words: hit.words,
        });
        self.count_from(&self.plan.faults[fault].what);
        self.await_end(fault, hit.undo);
    }

    /// Ends a fault that has no time of its own, and waits for the end of others.
    fn await_end(&mut self, fault: usize, undo: Undo) {
        let planned = &self.plan.faults[fault];
        let until = planned.until.as_ref();
        let until = until.map(|until| Waiting::new(until, &self.seen()));
        let active = Active { fault, undo, until };
        match planned.what {
            super::What::Restart => self.undo(&active),
            super::What::Resume | super::What::Heal => {
                self.came[fault].undone_ns = self.came[fault].placed_ns;
                self.came[fault].state = State::Undone;
            }
            _ => self.active.push(active),
        }
    }

    /// Counts the calls after a fault; where everything is healed nothing begins.
    fn count_from(&self, what: &super::What) {
        if *what != super::What::Heal {
            self.calls.begin_tally();
        }
    }

    /// Ends the faults whose time is over.
    fn look_for_ends(&mut self) {
        let mut place = 0;
        while place < self.active.len() {
            let mut until = self.active[place].until.take();
            let is_over = until
                .as_mut()
                .is_some_and(|until| until.fires(&self.seen()));
            self.active[place].until = until;
            if is_over {
                let active = self.active.remove(place);
                self.undo(&active);
            } else {
                place += 1;
            }
        }
        self.look_after_returning();
    }

    /// Starts nodes again that have ended by themselves, if the plan says so. Those that a fault keeps
    /// down are started at its end.
    fn start_again(&mut self) {
        for node in self.restarts.take(self.ground.now()) {
            let keeps_down = |active: &Active| match &active.undo {
                Undo::Start(nodes) => nodes.contains(&node),
                _ => false,
            };
            if self.active.iter().any(keeps_down) {
                continue;
            }
            match self.ground.restart(node) {
                Ok(()) => self.returning.push((node, None)),
                Err(error) => self.problems.push(error.to_string()),
            }
        }
    }

    /// Ends a fault that is not in place any more.
    fn undo(&mut self, active: &Active) {
        let fault = active.fault;
        match (self.end(&active.undo), &active.undo) {
            (Err(why), _) => self.not_undone(fault, why),
            (Ok(()), Undo::Start(nodes)) => {
                self.returning
                    .extend(nodes.iter().map(|node| (*node, Some(fault))));
            }
            (Ok(()), _) => self.undone(fault),
        }
    }

    /// Ends all faults.
    pub(super) fn undo_all(&mut self) {
        while let Some(active) = self.active.pop() {
            self.undo(&active);
        }
    }

    fn undone(&mut self, fault: usize) {
        let now = self.since_begin(self.ground.now());
        let came = &mut self.came[fault];
        came.undone_ns = Some(now);
        came.state = State::Undone;
        self.last_ended = true;
        self.happened(Happening::Undone { fault: fault + 1 });
    }

    fn not_undone(&mut self, fault: usize, why: String) {
        self.problems
            .push(format!("the end of fault {} failed: {why}", fault + 1));
        self.came[fault].why = Some(why);
    }

    /// Looks which nodes are ready that were started again.
    fn look_after_returning(&mut self) {
        let mut place = 0;
        while place < self.returning.len() {
            let (node, fault) = self.returning[place];
            let name = self.name(node);
            match self.ground.is_ready(node) {
                Ok(false) => {
                    place += 1;
                    continue;
                }
                Ok(true) => self.happened(Happening::Ready { node: name }),
                // It may need others that are not there: in the end it is asked once more.
                Err(error) => self.happened(Happening::NotReady {
                    node: name,
                    why: error.to_string(),
                }),
            }
            self.returning.remove(place);
            if let Some(fault) = fault
                && !self
                    .returning
                    .iter()
                    .any(|(_, other)| *other == Some(fault))
            {
                self.undone(fault);
            }
        }
    }

    /// Ends everything, and waits until all nodes are ready. What is broken, if one is not.
    fn heal(&mut self) -> Result<Vec<String>> {
        self.note_ends_that_never_came();
        self.undo_all();
        self.ground.heal_all()?;
        let count = self.ground.file().nodes.len();
        for node in 0..count {
            self.ground.resume(&[node])?;
            if !self.ground.is_running(node)? {
                self.ground.restart(node)?;
            }
            self.ground.begin_time(node);
        }
        let broken = self.wait_for_all()?;
        if broken.is_empty() {
            self.happened(Happening::Healed);
        }
        Ok(broken)
    }

    fn note_ends_that_never_came(&mut self) {
        for active in &self.active {
            if let Some(until) = &self.plan.faults[active.fault].until {
                let number = active.fault + 1;
                self.problems.push(format!(
                    "fault {number} ended with everything else, as its end never came: until {until}"
                ));
            }
        }
    }

    /// Waits until all nodes are ready. What is broken, if one will not be.
    fn wait_for_all(&mut self) -> Result<Vec<String>> {
        let count = self.ground.file().nodes.len();
        let mut left: Vec<_> = (0..count).collect();
        let mut broken = Vec::new();
        while !left.is_empty() {
            self.hear()?;
            self.look_after_returning();
            let mut still = Vec::new();
            for node in left {
                match self.ground.is_ready(node) {
                    Ok(true) => {}
                    Ok(false) => still.push(node),
                    Err(ClusterError::NotReady { .. }) if broken.len() >= count => {}
                    Err(error @ ClusterError::NotReady { .. }) => {
                        broken.push(format!("after everything was healed: {error}"));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            left = still;
            self.ground.pass()?;
        }
        Ok(broken)
    }

    /// Waits until an operation of a client is acknowledged that goes on for ever. What is broken, if
    /// none is: one of them is enough, for another may stay with a node that does not serve any more.
    fn progress(&mut self) -> Result<Option<String>> {
        let endless = |runner: &Self| {
            let clients = runner.clients.all.iter();
            let endless = clients.filter(|client| client.config.endless && client.is_running());
            endless
                .map(|client| client.counts.acknowledged)
                .sum::<u64>()
        };
        let has_one =
            |client: &super::clients::RunningClient| client.config.endless && client.is_running();
        let before = endless(self);
        let within = self.plan.progress_within * self.ground.file().patience;
        let begun = self.ground.now();
        while self.clients.all.iter().any(has_one) {
            self.hear()?;
            if endless(self) > before {
                self.happened(Happening::Progress);
                break;
            }
            if self.ground.now() > begun + within {
                return Ok(Some(format!(
                    "nothing was acknowledged to any client within {} s after everything was healed",
                    within.as_secs_f64()
                )));
            }
            self.ground.pass()?;
        }
        Ok(None)
    }

    /// Asks those clients to end that go on for ever, and waits for all.
    fn end_clients(&mut self) -> Result<()> {
        self.is_over = true;
        for client in &self.clients.all {
            client.ask_to_end(self.ground);
        }
        let begun = self.ground.now();
        while self
            .clients
            .all
            .iter()
            .any(super::clients::RunningClient::is_running)
        {
            self.hear()?;
            if self.ground.now() > begun + END_WITHIN {
                let clients = self.clients.all.iter_mut();
                clients.for_each(|client| client.kill(self.ground));
            }
            self.ground.pass()?;
        }
        Ok(())
    }

    /// Takes what clients, nodes, logs and the probe say.
    fn hear(&mut self) -> Result<()> {
        if (self.cancelled)() {
            return Err(ClusterError::Interrupted.into());
        }
        for place in self.clients.hear(self.ground)? {
            self.client_ended(place);
        }
        self.end_late_clients();
        for (node, how) in self.ground.ends() {
            self.restarts.ended(node, self.ground.now());
            let node = self.name(node);
            self.happened(Happening::NodeEnded { node, how });
        }
        self.hear_logs();
        for (node, words) in self.calls.tick() {
            let node = self.name(node);
            self.happened(Happening::Call { node, words });
        }
        self.hear_probe();
        self.look_for_sometimes();
        Ok(())
    }

    /// Takes what nodes log, and keeps when they did.
    fn hear_logs(&mut self) {
        self.logged.clear();
        let time = self.since_begin(self.ground.now());
        for node in 0..self.logs.len() {
            let before = self.logs[node].read_to();
            let lines = self.logs[node].lines();
            self.logged
                .extend(lines.into_iter().map(|line| (node, line)));
            let to = self.logs[node].read_to();
            if to > before {
                let node = self.name(node);
                self.log_times.push(LogTime { node, time, to });
            }
        }
    }

    fn end_late_clients(&mut self) {
        for client in &mut self.clients.all {
            if client.is_late(self.ground.now()) {
                client.kill(self.ground);
                client.ended = Some(cluster::Ending::Unknown);
                let (name, within) = (&client.config.name, client.config.config.within);
                self.problems
                    .push(format!("client {name} did not end within {within:?}"));
            }
        }
    }

    fn look_for_sometimes(&mut self) {
        let kept = self.sometimes.take();
        let mut sometimes = kept.unwrap_or_else(|| Reached::new(&self.seen()));
        sometimes.look(&self.seen());
        self.sometimes = Some(sometimes);
    }

    fn client_ended(&mut self, place: usize) {
        let client = &self.clients.all[place];
        let how = client.ended.expect("it has ended").to_string();
        let name = client.config.name.clone();
        let is_bad = client.ended != Some(cluster::Ending::Status(0));
        if is_bad && self.last_placed.is_none() && !self.is_over {
            self.problems
                .push(format!("client {name} {how} before there was a fault"));
        }
        self.happened(Happening::ClientEnded { client: name, how });
    }

    fn hear_probe(&mut self) {
        let Some(probe) = &mut self.probe else { return };
        let rests = self.ground.probe_rests();
        let rests = if self.is_quiet { rests } else { Duration::ZERO };
        match probe.look(self.ground, rests) {
            None => {}
            Some(Ok(roles)) => {
                let before = self.roles.replace(roles);
                self.tell_roles(before.as_ref());
            }
            Some(Err(why)) => {
                let said = Happening::ProbeFailed { why };
                if self.events.last().is_none_or(|event| event.what != said) {
                    self.happened(said);
                }
            }
        }
    }

    /// Tells of the roles that were others before.
    fn tell_roles(&mut self, before: Option<&Roles>) {
        let roles = self.roles.clone();
        if let Some(roles) = &roles {
            self.calls.know_roles(roles);
        }
        for (node, role) in roles.iter().flat_map(|roles| &roles.of) {
            let had = before.and_then(|roles| roles.of.get(node));
            if had.is_none_or(|had| had.role != role.role) {
                self.happened(Happening::Role {
                    node: self.name(*node),
                    role: role.role.clone(),
                    more: role.more.clone(),
                });
            }
        }
    }

    fn happened(&mut self, what: Happening) {
        let now = self.ground.now();
        if let Some((f, words)) = nemesis(&what)
            && let Err(error) = self.clients.nemesis(now, f, &words)
        {
            self.problems.push(error.to_string());
        }
        self.events.push(RunEvent {
            time_ns: self.since_begin(now),
            acknowledged: self.clients.acknowledged(),
            what,
        });
    }

    fn since_begin(&self, at: Duration) -> u64 {
        at.saturating_sub(self.clients.begun()).as_nanos() as u64
    }

    fn name(&self, node: usize) -> String {
        self.ground.file().nodes[node].name.clone()
    }

    /// Says which faults did not do what they were to.
    fn close(&mut self) {
        for (place, came) in self.came.iter_mut().enumerate() {
            let number = place + 1;
            let planned = &self.plan.faults[place];
            if let super::What::Call(call) = &planned.what {
                came.calls = Some(self.calls.hits(place));
                if came.state != State::NeverFired && !came.happened() {
                    let what = call.words();
                    self.problems.push(format!(
                        "fault {number} hit nothing: there was no such call: {what}"
                    ));
                }
            }
            match came.state {
                State::NeverFired => {
                    self.problems
                        .push(format!("fault {number} never happened: at {}", planned.at));
                }
                State::NotInjected => {
                    let why = came.why.clone().unwrap_or_default();
                    self.problems
                        .push(format!("fault {number} could not be put in place: {why}"));
                }
                State::InPlace | State::Undone => {}
            }
        }
    }

    /// What the run came to: only a run in which all happened as planned may pass.
    fn judge(&mut self, verdict: Verdict) -> (Judged, Vec<String>) {
        let problems = std::mem::take(&mut self.problems);
        let was_hit = self.plan.faults.is_empty() || self.came.iter().any(FaultCame::happened);
        match verdict {
            Verdict::Broken(broken) if was_hit => (Judged::Broken { broken }, problems),
            Verdict::Broken(broken) => {
                let why = format!(
                    "the check is not `ok`, although no fault was in place: {}",
                    broken.join("; ")
                );
                (Judged::Inconclusive { why }, problems)
            }
            Verdict::Ok if problems.is_empty() => (Judged::Ok, problems),
            Verdict::Ok => {
                let why = problems.join("; ");
                (Judged::Inconclusive { why }, Vec::new())
            }
            Verdict::Inconclusive(why) => (Judged::Inconclusive { why }, problems),
        }
    }
}

/// What of this is of the history too: its name and words.
fn nemesis(what: &Happening) -> Option<(&'static str, String)> {
    Some(match what {
        Happening::InPlace { words, .. } => ("fault", words.clone()),
        Happening::Undone { fault } => ("end", format!("fault {fault}")),
        Happening::Healed => ("heal", String::new()),
        _ => return None,
    })
}
