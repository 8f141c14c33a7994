//! Faults while a plan runs: when each has its turn, that it is put in place, and its end.

use std::fmt::Display;
use std::time::Duration;

use cluster::Error as ClusterError;

use super::super::act::{Hit, Said, Undo, Why, ends_the_run};
use super::super::act_limits::Limited;
use super::super::plan::{Awaited, Selector, What};
use super::super::ran::{Happening, State};
use super::super::roles::Roles;
use super::super::triggers::{ROLE_IS_FRESH, Waiting};
use super::{Active, Runner};
use crate::error::Result;

/// How long a fault waits for a node to have the role that it asks for.
const ROLE_WITHIN: Duration = Duration::from_secs(30);

/// What a file system becomes whose disk failed or corrupted requests says nothing of the node.
pub(super) fn after_disk_errors(node: String, why: &impl Display) -> ClusterError {
    let what = format!("after its disk failed or corrupted requests: {why}");
    ClusterError::Unable { node, what }
}

/// The fault whose turn it is.
pub(super) struct Next {
    pub(super) fault: usize,
    pub(super) trigger: Waiting,
    pub(super) fired: Option<Duration>,
    /// Of a partition whose trigger fired, and that begins after so much.
    pub(super) limited: Option<Limited>,
}

impl Next {
    /// Whether it is worth to go on waiting for it, as of [`Waiting::may_fire`].
    pub(super) fn may_happen(
        &self,
        (ended, now): (Duration, Duration),
        within: Duration,
        is_one_running: bool,
    ) -> bool {
        match &self.limited {
            Some(limited) => now < ended.max(limited.since) + within,
            None => self.trigger.may_fire((ended, now), within, is_one_running),
        }
    }
}

impl Runner<'_> {
    /// Waits for the trigger of a fault, if there is one with this number.
    pub(super) fn arm(&self, fault: usize) -> Option<Next> {
        let planned = self.plan.faults.get(fault)?;
        Some(Next {
            fault,
            trigger: Waiting::new(&planned.at, &self.seen()),
            fired: None,
            limited: None,
        })
    }

    /// Puts the next fault in place if it is time to, and those that follow at once: who sends a message is
    /// not to go on for long before it is killed, and messages count from then on.
    pub(super) fn fire_all(&mut self, next: &mut Option<Next>) {
        let mut is_one_over = false;
        while self.fire(next) {
            is_one_over = true;
            if !next.as_ref().is_some_and(|next| self.follows_at_once(next)) {
                break;
            }
        }
        // A call that was waited for goes on only when what is next is waited for, by all nodes. That takes
        // time.
        if is_one_over && let Err(error) = self.ground.agree_on_calls() {
            self.failed(error);
        }
    }

    fn follows_at_once(&self, next: &Next) -> bool {
        self.plan.faults[next.fault].at.awaited == Awaited::After(Duration::ZERO)
    }

    /// Puts the next fault in place if it is time to, or says why it cannot be.
    fn fire(&mut self, next: &mut Option<Next>) -> bool {
        let Some(waiting) = next else { return false };
        if waiting.fired.is_none() && self.fires(&mut waiting.trigger) {
            waiting.fired = Some(self.ground.now());
        }
        for (node, words) in waiting.trigger.take_called() {
            let node = self.name(node);
            self.happened(Happening::Call { node, words });
        }
        let Some(hit) = self.hit_in_time(waiting) else {
            return false;
        };
        let fault = waiting.fault;
        self.inject(fault, hit);
        *next = self.arm(fault + 1);
        true
    }

    /// Whether a trigger fires now. If it goes on with its next part, a call that was held at the one before
    /// goes on only when that is waited for, by all nodes.
    fn fires(&mut self, trigger: &mut Waiting) -> bool {
        let fires = trigger.fires(&self.seen());
        if trigger.has_let_go()
            && !fires
            && let Err(error) = self.ground.agree_on_calls()
        {
            self.failed(error);
        }
        fires
    }

    /// Puts a fault in place whose trigger fired, when it is known whom it hits, and has passed what is to
    /// pass before.
    fn hit_in_time(&mut self, next: &mut Next) -> Option<Said<Hit>> {
        let (fault, fired) = (next.fault, next.fired?);
        if let Some(limited) = next.limited.take_if(|_| self.is_limit_reached()) {
            return Some(self.cut_limited(limited));
        }
        if next.limited.is_some() || !self.knows_roles(fault, fired) {
            return None;
        }
        self.came[fault].fired_ns = Some(self.since_begin(fired));
        if self.plan.faults[fault]
            .selectors()
            .any(Selector::needs_roles)
            && !self.are_roles_of_now()
        {
            let within = ROLE_WITHIN.as_secs();
            let why = format!(
                "the probe has not said within {within} s who is what since the last fault"
            );
            return Some(Err(why.into()));
        }
        match self.limit(fault) {
            None => Some(self.hit(fault)),
            Some(Err(why)) => Some(Err(why)),
            Some(Ok(limited)) => {
                next.limited = Some(limited);
                self.let_call_go(&mut next.trigger);
                None
            }
        }
    }

    /// A call that was waited for is not held until so much has passed: a node that waits for it may be the
    /// one who is to send.
    fn let_call_go(&mut self, trigger: &mut Waiting) {
        if !trigger.let_call_go() {
            return;
        }
        if let Err(error) = self.ground.agree_on_calls() {
            self.failed(error);
        }
    }

    /// Nobody waits any more for the next fault: what it waited for is said, if that is not in the plan.
    pub(super) fn give_up_next(&mut self, next: Option<Next>) -> Result<()> {
        let Some(next) = next else { return Ok(()) };
        let fault = next.fault;
        match next.limited {
            // It was reached since it was last looked.
            Some(limited) if self.is_limit_reached() => {
                let hit = self.cut_limited(limited);
                self.inject(fault, hit);
            }
            Some(limited) => self.give_up(fault, &limited)?,
            None => {
                let at = &self.plan.faults[fault].at;
                let lacking = next.trigger.lacking(self.ground.now());
                self.came[fault].why = lacking.map(|why| format!("at {at}: {why}"));
            }
        }
        Ok(())
    }

    /// Whether the probe was asked for the roles that are known since the last fault.
    fn are_roles_of_now(&self) -> bool {
        let roles = self.roles.as_ref();
        roles.is_some_and(|roles| roles.are_since(self.last.placed))
    }

    /// Whether it is known whom a fault hits, or has been waited for that long enough.
    fn knows_roles(&self, fault: usize, fired: Duration) -> bool {
        let planned = &self.plan.faults[fault];
        if !planned.selectors().any(Selector::needs_roles) {
            return true;
        }
        let now = self.ground.now();
        let is_fresh =
            |roles: &&Roles| now < roles.asked + ROLE_IS_FRESH && self.are_roles_of_now();
        let roles = self.roles.as_ref().filter(is_fresh);
        let has = |selector: &Selector| match selector {
            Selector::Role(role) | Selector::EveryRole(role) => {
                roles.is_some_and(|roles| !roles.having(role).is_empty())
            }
            _ => true,
        };
        planned.selectors().all(has) || now > fired + ROLE_WITHIN
    }

    fn inject(&mut self, fault: usize, hit: Said<Hit>) {
        match hit {
            Ok(hit) => self.in_place(fault, hit),
            Err(why) => {
                let why = self.words(why);
                let came = &mut self.came[fault];
                came.state = State::NotInjected;
                came.why = Some(why.clone());
                // Whoever is named by it is not one that an earlier fault has hit.
                self.last.hit = None;
                self.happened(Happening::NotInjected {
                    fault: fault + 1,
                    why,
                });
            }
        }
    }

    /// A fault was put in place: it is ended some time, or at once.
    fn in_place(&mut self, fault: usize, hit: Hit) {
        let since = hit.since.unwrap_or_else(|| self.ground.now());
        let names = hit.on.iter().map(|node| self.name(*node)).collect();
        let placed_ns = self.since_begin(since);
        let came = &mut self.came[fault];
        came.on = names;
        came.sides = hit.sides;
        came.state = State::InPlace;
        came.placed_ns = Some(placed_ns);
        self.last.placed = Some(since);
        if self.plan.faults[fault].what != What::Heal {
            self.last.hit = Some(hit.on);
        }
        (self.last.fault, self.last.ended) = (Some(fault), false);
        self.happened(Happening::InPlace {
            fault: fault + 1,
            words: hit.words,
        });
        self.count_from(fault);
        self.await_end(fault, hit.undo);
    }

    /// Ends a fault that has no time of its own, and waits for the end of others.
    fn await_end(&mut self, fault: usize, undo: Undo) {
        let planned = &self.plan.faults[fault];
        let until = planned.until.as_ref();
        let until = until.map(|until| Waiting::new(until, &self.seen()));
        let active = Active { fault, undo, until };
        match planned.what {
            What::Restart => self.undo(&active),
            What::Resume | What::Heal => {
                self.came[fault].undone_ns = self.came[fault].placed_ns;
                self.came[fault].state = State::Undone;
                self.last.ended = true;
            }
            _ => self.active.push(active),
        }
    }

    /// Counts calls and messages after a fault; where everything is healed nothing begins.
    fn count_from(&mut self, fault: usize) {
        if self.plan.faults[fault].what != What::Heal {
            self.begin_tally();
        }
    }

    /// Ends the faults whose time is over.
    ///
    /// # Errors
    /// As of [`Self::look_after_returning`].
    pub(super) fn look_for_ends(&mut self) -> Result<()> {
        let mut place = 0;
        while place < self.active.len() {
            let mut until = self.active[place].until.take();
            let is_over = until.as_mut().is_some_and(|until| self.fires(until));
            self.active[place].until = until;
            if is_over && !self.stands_still(&self.active[place]) {
                let active = self.active.remove(place);
                self.undo(&active);
                continue;
            }
            if is_over {
                self.hold_no_longer(place);
            }
            place += 1;
        }
        self.look_after_returning()
    }

    /// A call or request that the end of a fault waited for goes on, since the fault cannot end yet: the node
    /// that stands still may go on only when others do something, and these may need it. If it is that node's
    /// own, nobody does.
    fn hold_no_longer(&mut self, place: usize) {
        let Some(mut until) = self.active[place].until.take() else {
            return;
        };
        let of = until.holds_of();
        if of.is_some_and(|node| !self.is_frozen(node)) {
            let number = self.active[place].fault + 1;
            self.problems.push(format!(
                "what the end of fault {number} waited for was not held until then: it cannot end while its \
                 node is frozen"
            ));
            self.let_call_go(&mut until);
        }
        self.active[place].until = Some(until);
    }

    /// Whether the time of a fault is over, and nothing but a node that stands still keeps it in place.
    pub(super) fn is_kept(&self, active: &Active) -> bool {
        let until = active.until.as_ref();
        until.is_some_and(|until| until.has_fired(self.ground.now())) && self.stands_still(active)
    }

    /// Whether a fault cannot be ended, as a node stands still that would have to be told.
    fn stands_still(&self, active: &Active) -> bool {
        match &active.undo {
            Undo::Calls(fault) => self.calls.stand_still(*fault),
            Undo::Clocks(nodes, _) => nodes.iter().any(|node| self.is_frozen(*node)),
            _ => false,
        }
    }

    /// Whether a fault that is in place has the machine of a node stand still.
    fn is_frozen(&self, node: usize) -> bool {
        let mut active = self.active.iter();
        active.any(|active| {
            self.plan.faults[active.fault].what == What::Freeze
                && matches!(&active.undo, Undo::Resume(nodes) if nodes.contains(&node))
        })
    }

    /// Starts nodes again that have ended by themselves, if the plan says so. Those that a fault keeps
    /// down are started at its end.
    pub(super) fn start_again(&mut self) {
        let due = self.restarts.take(self.ground.now());
        for node in self.not_kept_down(&due) {
            // The end of a fault may have started it before.
            let restarted = match self.ground.is_running(node) {
                Ok(true) => continue,
                Ok(false) => self.ground.restart(node),
                Err(error) => Err(error),
            };
            match restarted {
                Ok(()) => self.returning.push((node, None)),
                Err(error) => self.failed(error),
            }
        }
    }

    /// Ends a fault that is not in place any more.
    fn undo(&mut self, active: &Active) {
        let fault = active.fault;
        if let Err(why) = self.end(&active.undo) {
            return self.not_undone(active, why);
        }
        if self.stays_cut(&active.undo) {
            return self.healing.cut_still.push(fault);
        }
        let started = match &active.undo {
            Undo::Start(nodes) | Undo::Disks(nodes) => self.not_kept_down(nodes),
            _ => Vec::new(),
        };
        if started.is_empty() {
            return self.undone(fault);
        }
        if self.healing.is_on {
            self.healing
                .down
                .extend(started.into_iter().map(|node| (node, fault)));
            return;
        }
        let returning = started.into_iter().map(|node| (node, Some(fault)));
        self.returning.extend(returning);
    }

    /// Ends all faults, those of disks first: a node that is started needs its disk. Those of calls and
    /// clocks are last: a node that stands still cannot be told.
    pub(in super::super) fn undo_all(&mut self) {
        self.active.sort_by_key(|active| match active.undo {
            Undo::Disks(_) | Undo::SpareDisks(_) => 2,
            Undo::Calls(_) | Undo::Clocks(..) | Undo::Drifts(_) => 0,
            _ => 1,
        });
        self.healing.undoes_all = true;
        while let Some(active) = self.active.pop() {
            self.undo(&active);
        }
        self.healing.undoes_all = false;
    }

    pub(super) fn undone(&mut self, fault: usize) {
        let now = self.since_begin(self.ground.now());
        let came = &mut self.came[fault];
        came.undone_ns = Some(now);
        came.state = State::Undone;
        self.last.ended |= self.last.fault == Some(fault);
        self.happened(Happening::Undone { fault: fault + 1 });
    }

    fn not_undone(&mut self, active: &Active, why: Why) {
        let (fault, why) = (active.fault, self.words(why));
        let words = format!("the end of fault {} failed: {why}", fault + 1);
        match &active.undo {
            Undo::Disks(nodes) => {
                let node = self.names(nodes);
                self.unusable = Some(after_disk_errors(node, &why));
            }
            // When everything is healed nobody makes up for it.
            Undo::Calls(_) | Undo::Clocks(..) | Undo::Drifts(_) | Undo::SpareDisks(_) => {
                self.doubts.push(words.clone());
            }
            // Links are healed then, but not when a majority is restored.
            Undo::Heal(_) | Undo::Links(..) if self.plan.restores_majority => {
                self.doubts.push(words.clone());
            }
            _ => {}
        }
        self.problems.push(words);
        self.came[fault].why = Some(why);
    }

    /// Why something could not be done, in words. If the run is over with that, it is kept.
    fn words(&mut self, why: Why) -> String {
        let words = why.to_string();
        if let Why::Ground(error) = why
            && ends_the_run(&error)
        {
            self.unusable.get_or_insert(error);
        }
        words
    }

    /// The ground did not do something that no fault is, or is the end of.
    pub(in super::super) fn failed(&mut self, error: ClusterError) {
        let words = self.words(Why::Ground(error));
        self.problems.push(words);
    }

    /// Fails if the end of a fault of disks has failed, or the ground: whatever is seen then says nothing
    /// of the programs.
    pub(super) fn refuse_unusable(&mut self) -> Result<()> {
        match self.unusable.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Looks which nodes are ready that were started again.
    ///
    /// # Errors
    /// If one is not, and that says nothing of it.
    pub(super) fn look_after_returning(&mut self) -> Result<()> {
        self.refuse_unusable()?;
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
                Err(error) if ends_the_run(&error) => return Err(error.into()),
                // It may need others that are not there: in the end it is asked once more.
                Err(error) => self.happened(Happening::NotReady {
                    node: name,
                    why: error.to_string(),
                }),
            }
            self.returning.remove(place);
            if let Some(fault) = fault
                && !self.is_anybody_down_by(fault)
            {
                self.undone(fault);
            }
        }
        Ok(())
    }

    /// Whether a node that a fault took down is not up yet.
    fn is_anybody_down_by(&self, fault: usize) -> bool {
        let mut returning = self.returning.iter();
        let mut down = self.healing.down.iter();
        returning.any(|(_, other)| *other == Some(fault)) || down.any(|(_, other)| *other == fault)
    }
}
