//! What a fault, or its end, waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::{ClusterFile, Member};
use simulation::Carried;

use super::calls::{CallWatch, Calls};
use super::clients::Clients;
use super::ground::Ground;
use super::plan::{Awaited, CallOf, Moment, Selector, Trigger};
use super::requests::{RequestWatch, Requests};
use super::roles::Roles;
use super::select::Known;
use super::sent::Sent;

/// A trigger that is waited for.
pub(super) struct Waiting {
    trigger: Trigger,
    /// Since when, and what logs had said by then: so many looks at them.
    armed: Duration,
    looks: u64,
    after: After,
    acknowledged: u64,
    /// Who had the role then that is to change; nobody knows before the probe has answered.
    had: Option<BTreeSet<usize>>,
    /// The values that are to change, as far as the probe has said what they were then.
    values: BTreeMap<usize, String>,
    /// The call that is waited for, once it is known of whom.
    call: Option<CallWatch>,
    /// The same of a request to a disk.
    request: Option<RequestWatch>,
    /// The node that made it, and the call in words, until that is told.
    called: Option<(usize, String)>,
    /// Whether a call was let go, since what comes after it is waited for.
    has_let_go: bool,
    /// The directions in which is sent what is waited for, once they are known, and what was sent by then.
    sent: Option<(Vec<(Member, Member)>, Carried)>,
    /// Why they are not, if they are waited for.
    unknown: Option<String>,
    /// When it was reached; its delay goes on from then.
    reached: Option<Duration>,
    /// The lines of logs with which it was, among those of that look: the first of each node.
    line: Option<(u64, Vec<usize>)>,
    /// What it is made of.
    parts: Vec<Waiting>,
    /// What comes after it, once that is waited for.
    then: Option<Box<Waiting>>,
}

/// What something is waited for after.
#[derive(Clone)]
struct After {
    /// When that came. It is the last fault that was put in place by then, a later one is not meant, or the
    /// part of the trigger before; where there is none, this is since when it is waited for.
    placed: Duration,
    /// The lines of logs that it was, among those that are new: what the node of one logs after it counts.
    lines: Vec<usize>,
    /// Whether nothing more is waited for once it has come: a call is held then.
    is_last: bool,
}

/// What is known of a run.
pub(super) struct Seen<'a> {
    /// The time of the ground, as all others.
    pub(super) now: Duration,
    pub(super) file: &'a ClusterFile,
    /// It knows what was sent.
    pub(super) ground: &'a dyn Ground,
    /// What is drawn is drawn with it.
    pub(super) seed: u64,
    pub(super) calls: &'a Calls,
    pub(super) requests: &'a Requests,
    pub(super) clients: &'a Clients,
    pub(super) roles: Option<&'a Roles>,
    /// Lines that nodes have logged since it was last looked, by the node.
    pub(super) logged: &'a [(usize, String)],
    /// How often it was looked by now.
    pub(super) looks: u64,
    /// When the last fault was put in place.
    pub(super) last_placed: Option<Duration>,
    /// Whom it has hit.
    pub(super) last_hit: Option<&'a [usize]>,
    /// Whether the last fault has ended.
    pub(super) last_ended: bool,
}

impl Seen<'_> {
    /// Which nodes a trigger may mean.
    fn known(&self) -> Known<'_> {
        let roles = self.roles.filter(|roles| roles.are_since(self.last_placed));
        Known {
            file: self.file,
            roles,
            seed: self.seed,
            hit: self.last_hit,
        }
    }

    /// Whether a node has this name, if one is said.
    fn is_named(&self, name: Option<&str>, node: usize) -> bool {
        name.is_none_or(|name| self.file.nodes[node].name == name)
    }

    /// The place of the first line of each node with this text that is new, and was not there when it was
    /// looked so often, or comes after one at these places.
    fn logged(
        &self,
        (looks, after): (u64, &[usize]),
        name: Option<&str>,
        text: &str,
    ) -> Vec<usize> {
        let node = |place: usize| self.logged[place].0;
        let is_after = |place: usize| {
            let mut after = after.iter();
            after.any(|after| place > *after && node(place) == node(*after))
        };
        let logged = self.logged.iter().enumerate();
        let found = logged.filter(|(place, (node, line))| {
            let is_new = self.looks > looks || is_after(*place);
            is_new && self.is_named(name, *node) && line.contains(text)
        });
        let mut firsts = BTreeMap::new();
        for (place, (node, _)) in found {
            firsts.entry(*node).or_insert(place);
        }
        firsts.into_values().collect()
    }

    /// The values with a name that the probe says, of all nodes or this one.
    fn values<'a>(
        &self,
        (node, name): (Option<&str>, &'a str),
        roles: &'a Roles,
    ) -> BTreeMap<usize, &'a str> {
        let all = roles.values(name);
        all.filter(|(of, _)| self.is_named(node, *of)).collect()
    }

    fn has_role(&self, name: Option<&str>, role: &str, roles: &Roles) -> bool {
        let mut having = roles.having(role).into_iter();
        having.any(|node| self.is_named(name, node))
    }
}

impl Waiting {
    /// From now on.
    pub(super) fn new(trigger: &Trigger, seen: &Seen) -> Self {
        let after = After {
            placed: seen.last_placed.unwrap_or(seen.now),
            lines: Vec::new(),
            is_last: true,
        };
        Self::since(trigger, seen, after)
    }

    fn since(trigger: &Trigger, seen: &Seen, after: After) -> Self {
        let acknowledged = match &trigger.awaited {
            Awaited::AcknowledgedMore(client, _) => {
                seen.clients.counts(client.as_deref()).acknowledged
            }
            _ => 0,
        };
        let had = match (&trigger.awaited, seen.roles) {
            (Awaited::Changed(role), Some(roles)) => having(role, roles, seen.now),
            _ => None,
        };
        let parts = trigger.awaited.parts().iter();
        let of_parts = After {
            is_last: matches!(trigger.awaited, Awaited::Any(_)) && holds(trigger, &after),
            ..after.clone()
        };
        let mut waiting = Self {
            trigger: trigger.clone(),
            armed: seen.now,
            looks: seen.looks,
            after,
            acknowledged,
            had,
            values: BTreeMap::new(),
            call: None,
            request: None,
            called: None,
            has_let_go: false,
            sent: None,
            unknown: None,
            reached: None,
            line: None,
            parts: parts
                .map(|part| Self::since(part, seen, of_parts.clone()))
                .collect(),
            then: None,
        };
        waiting.look_for_values(seen);
        waiting.look_for_call(seen);
        waiting.look_for_request(seen);
        waiting.look_for_senders(seen);
        waiting
    }

    /// The same in a fork; nothing if it waits for a call or a request: whose that is there is another.
    pub(super) fn forked(&self) -> Option<Self> {
        if self.call.is_some() || self.request.is_some() {
            return None;
        }
        let then = self.then.as_ref();
        Some(Self {
            trigger: self.trigger.clone(),
            armed: self.armed,
            looks: self.looks,
            after: self.after.clone(),
            acknowledged: self.acknowledged,
            had: self.had.clone(),
            values: self.values.clone(),
            call: None,
            request: None,
            called: self.called.clone(),
            has_let_go: self.has_let_go,
            sent: self.sent.clone(),
            unknown: self.unknown.clone(),
            reached: self.reached,
            line: self.line.clone(),
            parts: self.parts.iter().map(Self::forked).collect::<Option<_>>()?,
            then: match then {
                Some(then) => Some(Box::new(then.forked()?)),
                None => None,
            },
        })
    }

    /// Waits for its request since requests are counted, and not only since now. Whether it has not come by now.
    pub(super) fn catches_up(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(RequestWatch::catch_up)
    }

    /// Waits for the call from now on, if it is known of whom.
    fn look_for_call(&mut self, seen: &Seen) {
        if let Awaited::Call { of, on, when } = &self.trigger.awaited
            && self.call.is_none()
        {
            let holds = holds(&self.trigger, &self.after);
            self.call = watch(seen, of, on.as_ref(), *when, holds);
        }
    }

    /// Waits for the request from now on, if it is known to whose disk.
    fn look_for_request(&mut self, seen: &Seen) {
        if let Awaited::Request { of, on, when } = &self.trigger.awaited
            && self.request.is_none()
        {
            let holds = holds(&self.trigger, &self.after);
            let nodes = meant(seen, on.as_ref());
            self.request = nodes.map(|nodes| seen.requests.watch(&nodes, of, *when, holds));
        }
    }

    /// Takes what the probe has said not long ago of values that are to change.
    fn look_for_values(&mut self, seen: &Seen) {
        if let Awaited::Value(node, name) = &self.trigger.awaited
            && let Some(roles) = seen.roles.filter(|roles| is_fresh(roles, seen.now))
        {
            let now = seen.values((node.as_deref(), name), roles);
            are_others(&mut self.values, now);
        }
    }

    /// Whether the probe says another value than before.
    fn is_value_changed(&mut self, seen: &Seen) -> bool {
        let (Awaited::Value(node, name), Some(roles)) = (&self.trigger.awaited, self.fresh(seen))
        else {
            return false;
        };
        let now = seen.values((node.as_deref(), name), roles);
        let is_changed = are_others(&mut self.values, now);
        let is_unknown = self.values.is_empty();
        self.unknown = is_unknown.then(|| format!("the probe said no value `{name}`"));
        is_changed
    }

    /// Counts what is sent from now on, if it is known by whom.
    fn look_for_senders(&mut self, seen: &Seen) {
        if let Awaited::Sent(sent) = &self.trigger.awaited
            && self.sent.is_none()
        {
            match sent.directions(&seen.known(), seen.clients.all.len()) {
                Ok(all) => {
                    let before = seen.ground.carried(&all);
                    self.sent = Some((all, before));
                    self.unknown = None;
                }
                Err(why) => self.unknown = Some(why),
            }
        }
    }

    /// What there is to say of it beside what the plan says, if it has not fired: which part did not come, and
    /// why nothing could come, if it was not even known whose that is.
    pub(super) fn lacking(&self, now: Duration) -> Option<String> {
        if !self.trigger.is_combined() {
            return self.unknown.clone();
        }
        Some(format!("what did not come: {}", self.missing(now)?))
    }

    /// The parts that have not fired.
    fn missing(&self, now: Duration) -> Option<String> {
        if let Some(then) = &self.then {
            return then.missing(now);
        }
        if self.is_over(now) {
            return None;
        }
        let missing = self.parts.iter().filter(|_| self.reached.is_none());
        let missing: Vec<_> = missing.filter_map(|part| part.missing(now)).collect();
        Some(match (&self.trigger.awaited, &self.unknown) {
            (Awaited::Any(_), _) if !missing.is_empty() => {
                format!("one of {}", missing.join(", "))
            }
            (_, None) if !missing.is_empty() => missing.join(" and "),
            (_, None) => self.trigger.alone().to_string(),
            (_, Some(why)) => format!("{} ({why})", self.trigger.alone()),
        })
    }

    /// What it is made of, as far as that is waited for.
    fn inner(&mut self) -> impl Iterator<Item = &mut Self> {
        let then = self.then.as_deref_mut();
        self.parts.iter_mut().chain(then)
    }

    /// Whether so much was sent.
    fn is_sent(&self, sent: &Sent, seen: &Seen) -> bool {
        self.sent.as_ref().is_some_and(|(directions, before)| {
            let now = seen.ground.carried(directions);
            sent.amount.is_reached_by(now.since(*before))
        })
    }

    /// The nodes that made calls that were waited for, and the calls in words, each once.
    pub(super) fn take_called(&mut self) -> Vec<(usize, String)> {
        let own = self.called.take();
        let inner = self.inner().flat_map(Self::take_called);
        own.into_iter().chain(inner).collect()
    }

    /// The node whose call or request has come and is held.
    pub(super) fn holds_of(&self) -> Option<usize> {
        let call = self.call.as_ref().and_then(CallWatch::fired);
        let request = || self.request.as_ref().and_then(RequestWatch::fired);
        let own = call
            .or_else(request)
            .filter(|_| holds(&self.trigger, &self.after));
        let mut inner = self.parts.iter().chain(self.then.as_deref());
        own.map(|(node, _)| node)
            .or_else(|| inner.find_map(Self::holds_of))
    }

    /// Lets calls go that were waited for, if there are any.
    pub(super) fn let_call_go(&mut self) -> bool {
        let (call, request) = (self.call.take(), self.request.take());
        let own = call.is_some() || request.is_some();
        let inner = self.inner();
        inner.fold(own, |any, part| part.let_call_go() || any)
    }

    /// Whether a call was let go since this was asked last, as what comes after it is waited for now.
    pub(super) fn has_let_go(&mut self) -> bool {
        let own = std::mem::take(&mut self.has_let_go);
        let inner = self.inner();
        inner.fold(own, |any, part| part.has_let_go() || any)
    }

    /// Whether the probe has to say it.
    pub(super) fn needs_roles(&self) -> bool {
        self.trigger.single().into_iter().any(Awaited::needs_roles)
    }

    /// Whether it fires now.
    pub(super) fn fires(&mut self, seen: &Seen) -> bool {
        if self.reached.is_none() && self.is_reached(seen) {
            self.reached = Some(seen.now);
        }
        if self.is_over(seen.now) {
            self.go_on(seen);
        }
        let then = self.then.as_mut();
        let is_then = then.is_none_or(|then| then.fires(seen));
        is_then && self.has_fired(seen.now)
    }

    /// Waits for what comes after it, if there is more.
    fn go_on(&mut self, seen: &Seen) {
        let Some(next) = self.trigger.then.as_ref().filter(|_| self.then.is_none()) else {
            return;
        };
        let after = After {
            placed: seen.now,
            lines: self.lines(seen),
            is_last: self.after.is_last,
        };
        let next = Self::since(next, seen, after);
        // A call is held until the next one is waited for.
        self.has_let_go = self.let_call_go();
        self.then = Some(Box::new(next));
    }

    /// The places of the lines of logs with which it has just fired: each was enough.
    fn lines(&self, seen: &Seen) -> Vec<usize> {
        if let Some(then) = &self.then {
            return then.lines(seen);
        }
        let is_any = matches!(self.trigger.awaited, Awaited::Any(_));
        let fired = |part: &&Self| is_any && part.has_fired(seen.now);
        let parts = self.parts.iter().filter(fired);
        let of_parts = parts.flat_map(|part| part.lines(seen));
        let own = self.line.iter().filter(|(looks, _)| *looks == seen.looks);
        let own = own.flat_map(|(_, places)| places.iter().copied());
        own.chain(of_parts).collect()
    }

    /// Whether it fires, as far as it was looked.
    pub(super) fn has_fired(&self, now: Duration) -> bool {
        match &self.then {
            Some(then) => then.has_fired(now),
            None => self.trigger.then.is_none() && self.is_over(now),
        }
    }

    /// Whether its time has come, whatever comes after it.
    fn is_over(&self, now: Duration) -> bool {
        let delay = self.trigger.delay;
        self.reached.is_some_and(|at| now >= at + delay)
    }

    /// Whether it is worth to go on waiting for it for so long, now that the clients have ended that
    /// do by themselves; `is_one_running` if others have not.
    pub(super) fn may_fire(
        &self,
        (ended, now): (Duration, Duration),
        within: Duration,
        is_one_running: bool,
    ) -> bool {
        if let Some(then) = &self.then {
            return then.may_fire((ended, now), within, is_one_running);
        }
        let mut parts = self.parts.iter();
        let may_fire = |part: &Self| part.may_fire((ended, now), within, is_one_running);
        let is_in_time = now < ended.max(self.armed) + within;
        match self.trigger.awaited {
            _ if self.reached.is_some() => true,
            // That always comes.
            Awaited::Time(_) | Awaited::After(_) => true,
            Awaited::All(_) => parts.all(may_fire),
            Awaited::Any(_) => parts.any(may_fire),
            Awaited::Lines(..)
            | Awaited::Invoked(..)
            | Awaited::Acknowledged(..)
            | Awaited::AcknowledgedMore(..) => is_one_running && is_in_time,
            _ => is_in_time,
        }
    }

    fn is_reached(&mut self, seen: &Seen) -> bool {
        match &self.trigger.awaited {
            Awaited::Time(after) => seen.now >= seen.clients.begun() + *after,
            Awaited::After(after) => seen.now >= self.after.placed + *after,
            Awaited::Lines(..)
            | Awaited::Invoked(..)
            | Awaited::Acknowledged(..)
            | Awaited::AcknowledgedMore(..) => self.have_clients_done(seen),
            Awaited::Log(..) | Awaited::Role(..) | Awaited::Changed(_) | Awaited::Value(..) => {
                self.is_shown(seen)
            }
            Awaited::Call { .. } | Awaited::Request { .. } => self.has_come(seen),
            Awaited::Sent(sent) => {
                let sent = sent.clone();
                self.look_for_senders(seen);
                self.is_sent(&sent, seen)
            }
            Awaited::Ended => seen.last_ended,
            Awaited::All(_) | Awaited::Any(_) => self.have_parts_fired(seen),
        }
    }

    /// Whether the call or the request has come that is waited for.
    fn has_come(&mut self, seen: &Seen) -> bool {
        self.look_for_call(seen);
        self.look_for_request(seen);
        let call = self.call.as_ref().and_then(CallWatch::fired);
        let request = || self.request.as_ref().and_then(RequestWatch::fired);
        self.called = call.or_else(request);
        self.called.is_some()
    }

    /// Whether nodes log or are what is waited for.
    fn is_shown(&mut self, seen: &Seen) -> bool {
        match &self.trigger.awaited {
            Awaited::Log(name, text) => {
                let after = (self.looks, &self.after.lines[..]);
                let places = seen.logged(after, name.as_deref(), text);
                let is_logged = !places.is_empty();
                self.line = is_logged.then_some((seen.looks, places));
                is_logged
            }
            Awaited::Role(name, role) => self
                .fresh(seen)
                .is_some_and(|roles| seen.has_role(name.as_deref(), role, roles)),
            Awaited::Changed(role) => {
                let now = self.fresh(seen).map(|roles| roles.having(role));
                now.is_some_and(|now| is_changed(&mut self.had, now.into_iter().collect()))
            }
            Awaited::Value(..) => self.is_value_changed(seen),
            _ => false,
        }
    }

    /// Whether all of its parts have fired, or one of them if that is enough: then no call of the others is
    /// to be held.
    fn have_parts_fired(&mut self, seen: &Seen) -> bool {
        let is_one_enough = matches!(self.trigger.awaited, Awaited::Any(_));
        let count = self.parts.len();
        // Each is looked at: what is logged is so only now.
        let mut others = Vec::new();
        for part in &mut self.parts {
            if !part.fires(seen) {
                others.push(part);
            }
        }
        let has_fired = others.is_empty() || is_one_enough && others.len() < count;
        for part in others.into_iter().filter(|_| has_fired) {
            part.let_call_go();
        }
        has_fired
    }

    /// Whether clients have done as much as is waited for.
    fn have_clients_done(&self, seen: &Seen) -> bool {
        let counts = |client: &Option<String>| seen.clients.counts(client.as_deref());
        match &self.trigger.awaited {
            Awaited::Lines(client, count) => counts(client).lines >= *count,
            Awaited::Invoked(client, count) => counts(client).invoked >= *count,
            Awaited::Acknowledged(client, count) => counts(client).acknowledged >= *count,
            Awaited::AcknowledgedMore(client, count) => {
                counts(client).acknowledged >= self.acknowledged + *count
            }
            _ => false,
        }
    }

    /// What the probe says, if it was asked since this is waited for.
    fn fresh<'a>(&self, seen: &Seen<'a>) -> Option<&'a Roles> {
        let armed = self.armed;
        seen.roles.filter(|roles| roles.asked >= armed)
    }
}

/// Whether a call is held at which a trigger fires, which comes after something: not while other time
/// passes, nor while something else may come that needs the call to go on.
fn holds(trigger: &Trigger, after: &After) -> bool {
    trigger.delay.is_zero() && (after.is_last || trigger.then.is_some())
}

/// Whether the probe was asked not long ago.
fn is_fresh(roles: &Roles, now: Duration) -> bool {
    now < roles.asked + ROLE_IS_FRESH
}

/// Who has a role now, if it was not long ago that the probe was asked: else others may have it by now.
fn having(role: &str, roles: &Roles, now: Duration) -> Option<BTreeSet<usize>> {
    is_fresh(roles, now).then(|| roles.having(role).into_iter().collect())
}

/// Whether somebody has a role who had it not. Who has the role while nobody was known to have it
/// has not changed.
fn is_changed(had: &mut Option<BTreeSet<usize>>, now: BTreeSet<usize>) -> bool {
    match had {
        Some(had) if !had.is_empty() => !now.is_subset(had),
        _ => {
            *had = Some(now);
            false
        }
    }
}

/// Whether a node has another value than it had. One that is told for the first time is no other.
fn are_others(had: &mut BTreeMap<usize, String>, now: BTreeMap<usize, &str>) -> bool {
    let mut are_others = false;
    for (node, value) in now {
        are_others |= had.entry(node).or_insert_with(|| value.to_owned()) != value;
    }
    are_others
}

/// Waits for a call of those that are meant, if it is known who that is.
fn watch(
    seen: &Seen,
    of: &CallOf,
    on: Option<&Selector>,
    when: Moment,
    holds: bool,
) -> Option<CallWatch> {
    let nodes = meant(seen, on)?;
    Some(seen.calls.watch(&nodes, of, when, holds))
}

/// Whose call or request is waited for, if that is known.
fn meant(seen: &Seen, on: Option<&Selector>) -> Option<Vec<usize>> {
    let on = on.unwrap_or(&Selector::All);
    let on = std::slice::from_ref(on);
    seen.known().all(on, &[]).ok()
}

/// How long a role is believed that the probe has told.
pub(super) const ROLE_IS_FRESH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::roles::Role;
    use super::*;

    /// Who leads, as the probe was asked so many seconds after the beginning.
    fn led_by(node: usize, asked_s: u64) -> Roles {
        let role = Role {
            role: "leader".into(),
            more: String::new(),
        };
        Roles {
            asked: Duration::from_secs(asked_s),
            of: [(node, role)].into(),
            wrong: None,
        }
    }

    /// As of a probe that rested while it was quiet.
    #[test]
    fn who_had_a_role_long_before_a_change_is_waited_for_does_not_count() {
        let changes = |before: &Roles, first: usize, then: usize| {
            let mut had = having("leader", before, Duration::from_secs(20));
            let mut is_changed = |node: usize| is_changed(&mut had, [node].into());
            (is_changed(first), is_changed(then))
        };
        assert_eq!(changes(&led_by(0, 15), 1, 1), (false, false));
        assert_eq!(changes(&led_by(0, 15), 1, 2), (false, true));
        // What it said right before may be all that it says of the time before a fault.
        assert_eq!(changes(&led_by(0, 20), 1, 1), (true, true));
        assert_eq!(changes(&led_by(0, 20), 0, 1), (false, true));
    }
}
