//! Runs that are forked while the clients work, shortly before their first fault: a run without faults goes on up
//! to there once.
//!
//! The run of a plan waits for its first fault from the start of the clients on. What it would have counted by now
//! is known of a run without faults as well: which messages have passed, and what disks were asked for. So a fork
//! waits for the rest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use cluster::{Error as ClusterError, Member};
use simulation::{OfPorts, Passed, Until};

use super::super::calls::Calls;
use super::super::clients::Clients;
use super::super::facts::LogTime;
use super::super::ground::Ground;
use super::super::logs::LogTail;
use super::super::messages::Messages;
use super::super::plan::{Awaited, Begins, FaultPlan, Selector, What};
use super::super::points::At;
use super::super::ran::{FaultCame, Ran, RunEvent};
use super::super::requests::Requests;
use super::super::restarts::Restarts;
use super::super::roles::{Probe, Roles};
use super::super::simulated::Simulated;
use super::super::sometimes::Reached;
use super::super::strategies::endless_for;
use super::super::triggers::{ROLE_IS_FRESH, Seen, Waiting};
use super::begin::begin;
use super::faults::Next;
use super::heal::Healing;
use super::unexpected::Unexpected;
use super::{COUNTED_AFTER, Future, Last, Place, Runner};
use crate::error::{Error, Result};

/// A run without faults whose clients work.
pub struct Trunk<'a> {
    ground: Simulated<'a>,
    /// Nothing only while it goes on.
    known: Option<Known>,
    /// What it has in common with the plans whose runs are forked from it.
    plan: FaultPlan,
    place: Place,
    armed: Armed,
}

/// What a run knows as long as there was no fault.
struct Known {
    clients: Clients,
    calls: Rc<Calls>,
    messages: Messages,
    disk_requests: Requests,
    roles: Option<Roles>,
    probe: Option<Probe>,
    logs: Vec<LogTail>,
    logged: Vec<(usize, String)>,
    looks: u64,
    log_times: Vec<LogTime>,
    events: Vec<RunEvent>,
    restarts: Restarts,
    sometimes: Option<Reached>,
    problems: Vec<String>,
    doubts: Vec<String>,
    unexpected: Unexpected,
    clients_ended: Option<Duration>,
}

/// What was known when the first fault began to be waited for.
#[derive(Clone)]
struct Armed {
    now: Duration,
    looks: u64,
    roles: Option<Roles>,
    /// When one that waits for nothing but a message did so, and who was what then.
    fired: Duration,
    fired_roles: Option<Roles>,
    /// Since when messages count, and what had passed by then.
    since: Duration,
    passed: Vec<Passed>,
}

/// What the first fault of a plan begins with: the messages that count, and which of them it is.
struct WantedMessage {
    counted: Vec<(Member, Member)>,
    nth: u64,
    of: OfPorts,
}

impl Known {
    fn of(runner: Runner, clients_ended: Option<Duration>) -> Self {
        Self {
            clients: runner.clients,
            calls: runner.calls,
            messages: runner.messages,
            disk_requests: runner.disk_requests,
            roles: runner.roles,
            probe: runner.probe,
            logs: runner.logs,
            logged: runner.logged,
            looks: runner.looks,
            log_times: runner.log_times,
            events: runner.events,
            restarts: runner.restarts,
            sometimes: runner.sometimes,
            problems: runner.problems,
            doubts: runner.doubts,
            unexpected: runner.unexpected,
            clients_ended,
        }
    }

    /// The run goes on with a plan. When the clients have ended comes second.
    fn go_on<'b>(
        self,
        ground: &'b mut dyn Ground,
        plan: &'b FaultPlan,
        cancelled: &'b dyn Fn() -> bool,
    ) -> (Runner<'b>, Option<Duration>) {
        let runner = Runner {
            ground,
            plan,
            clients: self.clients,
            calls: self.calls,
            messages: self.messages,
            disk_requests: self.disk_requests,
            requests: BTreeMap::new(),
            unusable: None,
            roles: self.roles,
            active: Vec::new(),
            probe: self.probe,
            logs: self.logs,
            logged: self.logged,
            looks: self.looks,
            log_times: self.log_times,
            events: self.events,
            came: vec![FaultCame::not_yet(); plan.faults.len()],
            returning: Vec::new(),
            restarts: self.restarts,
            healing: Healing::default(),
            last: Last::default(),
            sometimes: self.sometimes,
            is_quiet: false,
            is_over: false,
            problems: self.problems,
            doubts: self.doubts,
            unexpected: self.unexpected,
            cancelled,
        };
        (runner, self.clients_ended)
    }

    /// The logs there, as far as they were read here.
    fn logs_in(&self, ground: &dyn Ground) -> Vec<LogTail> {
        let logs = self.logs.iter().enumerate();
        logs.map(|(node, log)| log.of_copy(ground.log(node)))
            .collect()
    }

    /// The same on a ground that was forked, with files of its own; nothing, if something cannot be there twice.
    fn forked(&self, ground: &mut Simulated, from: &Place, to: &Place) -> Result<Option<Self>> {
        let sometimes = self.sometimes.as_ref().map(Reached::forked);
        if sometimes.as_ref().is_some_and(Option::is_none) {
            return Ok(None);
        }
        Ok(Some(Self {
            clients: self.clients.forked(files_of(from), files_of(to))?,
            calls: Rc::clone(ground.calls()),
            messages: self.messages.clone(),
            disk_requests: self.disk_requests.forked(ground)?,
            roles: self.roles.clone(),
            probe: self.probe.as_ref().map(|probe| probe.forked(ground)),
            logs: self.logs_in(ground),
            logged: self.logged.clone(),
            looks: self.looks,
            log_times: self.log_times.clone(),
            events: self.events.clone(),
            restarts: self.restarts.clone(),
            sometimes: sometimes.flatten(),
            problems: self.problems.clone(),
            doubts: self.doubts.clone(),
            unexpected: self.unexpected.clone(),
            clients_ended: self.clients_ended,
        }))
    }
}

/// What clients have said, and what of that is a history.
fn files_of(place: &Place) -> [&Path; 2] {
    [&place.acknowledgements, &place.history].map(PathBuf::as_path)
}

impl<'a> Trunk<'a> {
    /// Starts the clients of a fork of a cluster that is ready. What it leaves is in `place`.
    ///
    /// # Errors
    /// As of [`run`](super::run).
    pub fn new(
        future: Future<'a>,
        plan: &FaultPlan,
        place: Place,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let Future { mut ground, ready } = future;
        let plan = without_faults(plan);
        let mut runner = begin(&mut ground, ready, &plan, &place, cancelled)?;
        runner.tell_roles(None);
        runner.watch();
        let (armed, known) = runner.first_look(&place)?;
        let mut trunk = Self {
            ground,
            known: Some(known),
            plan,
            place,
            armed,
        };
        trunk.armed.passed = trunk.ground.passed();
        trunk.ground.pass()?;
        Ok(trunk)
    }

    /// The time.
    pub fn now(&self) -> Duration {
        self.ground.now()
    }

    /// Lets the run go on for some milliseconds. Whether runs can be forked from it then.
    ///
    /// # Errors
    /// As of [`run`](super::run).
    pub fn step(&mut self, cancelled: &dyn Fn() -> bool) -> Result<bool> {
        let lasts = endless_for(self.ground.file()).unwrap_or(COUNTED_AFTER);
        let known = self.known.take().expect("it does not go on");
        let (mut runner, mut clients_ended) = known.go_on(&mut self.ground, &self.plan, cancelled);
        let is_over = |now| clients_ended.is_some_and(|ended| now >= ended + lasts);
        if is_over(runner.ground.now()) {
            self.known = Some(Known::of(runner, clients_ended));
            return Ok(false);
        }
        runner.is_quiet = runner.is_quiet_until(None);
        runner.hear()?;
        runner.look_after_nodes(&mut clients_ended)?;
        let is_whole = runner.unusable.is_none()
            && runner.returning.is_empty()
            && !runner.restarts.is_one_due();
        runner.ground.pass()?;
        self.known = Some(Known::of(runner, clients_ended));
        Ok(is_whole)
    }

    /// Another one that goes on from here. `logs` is the directory for its logs, `place` has its other files.
    ///
    /// # Errors
    /// If the machines cannot be forked, or files not be copied.
    pub fn fork(&mut self, plan: &FaultPlan, logs: &Path, place: Place) -> Result<Option<Self>> {
        let Some(mut ground) = self.ground.fork(plan, logs)? else {
            return Ok(None);
        };
        let known = self.known.as_ref().expect("it does not go on");
        let known = known.forked(&mut ground, &self.place, &place)?;
        Ok(known.map(|known| Self {
            ground,
            known: Some(known),
            plan: self.plan.clone(),
            place,
            armed: self.armed.clone(),
        }))
    }

    /// Whether the run of a plan is as this one up to here, as what its first fault waits for has not come.
    pub fn serves(&mut self, plan: &FaultPlan, cancelled: &dyn Fn() -> bool) -> bool {
        if without_faults(plan) != self.plan || plan.faults.is_empty() {
            return false;
        }
        let known = self.known.take().expect("it does not go on");
        let (mut runner, clients_ended) = known.go_on(&mut self.ground, plan, cancelled);
        let has_request = runner.waiting_since(&self.armed).is_some();
        let message = runner.wanted_message(&self.armed);
        self.known = Some(Known::of(runner, clients_ended));
        has_request
            || message.is_some_and(|WantedMessage { counted, nth, of }| {
                self.ground.messages_since(&counted, of, &self.armed.passed) < nth
            })
    }

    /// Goes on with a plan that it [serves](Self::serves), to the end. Returns where it ran as well.
    ///
    /// # Errors
    /// As of [`run`](super::run).
    pub fn run(
        self,
        plan: &FaultPlan,
        cancelled: &dyn Fn() -> bool,
    ) -> (Simulated<'a>, Result<Ran>) {
        let Self {
            mut ground,
            known,
            place,
            armed,
            ..
        } = self;
        ground.count_since(armed.passed.clone());
        let known = known.expect("it does not go on");
        let (mut runner, clients_ended) = known.go_on(&mut ground, plan, cancelled);
        let ran = match runner.arm_late(&armed) {
            Some(next) => runner.finish(&place, Some((Some(next), clients_ended))),
            None => Err(Error::Cluster(ClusterError::Command {
                whose: "a fork".into(),
                what: "was made too late".into(),
            })),
        };
        (ground, ran)
    }
}

/// What runs have in common, whatever happens in them.
fn without_faults(plan: &FaultPlan) -> FaultPlan {
    FaultPlan {
        faults: Vec::new(),
        ..plan.clone()
    }
}

impl Runner<'_> {
    /// The first look of a run at what there is, when the first fault begins to be waited for. Where plans wait
    /// for messages none is ahead of the others from then on, as in the run of each of them.
    fn first_look(mut self, place: &Place) -> Result<(Armed, Known)> {
        let (now, looks, roles) = (self.ground.now(), self.looks, self.roles.clone());
        self.is_quiet = self.is_quiet_until(None);
        self.hear()?;
        let (fired, fired_roles) = (self.ground.now(), self.roles.clone());
        if place.points.is_some_and(At::has_messages) {
            let never = Until::With(u64::MAX, OfPorts::default());
            self.ground.cut_once(&[], &[], never)?;
        }
        let since = self.ground.now();
        let mut clients_ended = None;
        self.look_after_nodes(&mut clients_ended)?;
        let armed = Armed {
            now,
            looks,
            roles,
            fired,
            fired_roles,
            since,
            passed: Vec::new(),
        };
        Ok((armed, Known::of(self, clients_ended)))
    }

    /// What was known then.
    fn seen_then<'b>(&'b self, armed: &'b Armed) -> Seen<'b> {
        Seen {
            now: armed.now,
            roles: armed.roles.as_ref(),
            looks: armed.looks,
            logged: &[],
            ..self.seen()
        }
    }

    /// The first fault, if it waits for a request since then that has not come.
    fn waiting_since(&self, armed: &Armed) -> Option<Waiting> {
        let at = &self.plan.faults.first()?.at;
        if at.is_combined() || !matches!(at.awaited, Awaited::Request { .. }) {
            return None;
        }
        let waiting = Waiting::new(at, &self.seen_then(armed));
        waiting.catches_up().then_some(waiting)
    }

    /// The message with which the first fault begins, if it waits for nothing but that.
    fn wanted_message(&mut self, armed: &Armed) -> Option<WantedMessage> {
        let planned = self.plan.faults.first()?;
        let What::Partition {
            from,
            flow,
            begins: Some(begins @ Begins::With(message)),
        } = &planned.what
        else {
            return None;
        };
        let is_at_once = planned.at.awaited == Awaited::Time(Duration::ZERO)
            && planned.at.delay.is_zero()
            && !planned.at.is_combined();
        if !is_at_once || !self.knew_roles(armed) {
            return None;
        }
        let counted = self.as_of(armed, |this| {
            let (on, from) = this.sides(&planned.on, from)?;
            let cut = this.between(&on, &from, *flow)?;
            this.counted(begins, &cut.directions)
        });
        Some(WantedMessage {
            counted: counted.ok()?,
            nth: message.nth,
            of: message.ports,
        })
    }

    /// Does something with the roles that were known when messages began to count.
    fn as_of<T>(&mut self, armed: &Armed, what: impl FnOnce(&mut Self) -> T) -> T {
        let now = std::mem::replace(&mut self.roles, armed.fired_roles.clone());
        let done = what(self);
        self.roles = now;
        done
    }

    /// Whether it was known then whom the first fault hits.
    fn knew_roles(&self, armed: &Armed) -> bool {
        let roles = armed.fired_roles.as_ref();
        let roles = roles.filter(|roles| armed.fired < roles.asked + ROLE_IS_FRESH);
        self.plan.faults[0]
            .selectors()
            .all(|selector| match selector {
                Selector::Role(role) | Selector::EveryRole(role) => {
                    roles.is_some_and(|roles| !roles.having(role).is_empty())
                }
                other => !other.needs_roles() || roles.is_some(),
            })
    }

    /// Waits for the first fault as if that had been done since then.
    fn arm_late(&mut self, armed: &Armed) -> Option<Next> {
        if let Some(trigger) = self.waiting_since(armed) {
            return Some(Next {
                fault: 0,
                trigger,
                fired: None,
                limited: None,
            });
        }
        self.wanted_message(armed)?;
        self.came[0].fired_ns = Some(self.since_begin(armed.fired));
        let mut limited = self.as_of(armed, |this| this.limit(0))?.ok()?;
        limited.since = armed.since;
        Some(Next {
            fault: 0,
            trigger: Waiting::new(&self.plan.faults[0].at, &self.seen_then(armed)),
            fired: Some(armed.fired),
            limited: Some(limited),
        })
    }
}
