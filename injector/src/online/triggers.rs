//! What a fault, or its end, waits for.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::{ClusterFile, Member};
use simulation::Carried;

use super::calls::{CallWatch, Calls};
use super::clients::Clients;
use super::ground::Ground;
use super::plan::{Awaited, CallOf, Moment, Selector, Trigger};
use super::roles::Roles;
use super::select::Known;
use super::sent::Sent;

/// A trigger that is waited for.
pub(super) struct Waiting {
    trigger: Trigger,
    /// Since when, and what logs had said by then: so many looks at them.
    armed: Duration,
    looks: u64,
    /// When the last fault was put in place by then: a later one is not meant. Where none was, since
    /// when it is waited for.
    placed: Duration,
    acknowledged: u64,
    /// Who had the role then that is to change; nobody knows before the probe has answered.
    had: Option<BTreeSet<usize>>,
    /// The call that is waited for, once it is known of whom.
    call: Option<CallWatch>,
    /// The directions in which is sent what is waited for, once they are known, and what was sent by then.
    sent: Option<(Vec<(Member, Member)>, Carried)>,
    /// Why they are not, if they are waited for.
    unknown: Option<String>,
    /// When it was reached; its delay goes on from then.
    reached: Option<Duration>,
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

    /// Whether a line with this text is new, and was not there when it was looked so often.
    fn is_logged(&self, looks: u64, name: Option<&str>, text: &str) -> bool {
        let mut logged = self.logged.iter().filter(|_| self.looks > looks);
        logged.any(|(node, line)| self.is_named(name, *node) && line.contains(text))
    }

    fn has_role(&self, name: Option<&str>, role: &str, roles: &Roles) -> bool {
        let mut having = roles.having(role).into_iter();
        having.any(|node| self.is_named(name, node))
    }
}

impl Waiting {
    /// From now on.
    pub(super) fn new(trigger: &Trigger, seen: &Seen) -> Self {
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
        let mut waiting = Self {
            trigger: trigger.clone(),
            armed: seen.now,
            looks: seen.looks,
            placed: seen.last_placed.unwrap_or(seen.now),
            acknowledged,
            had,
            call: None,
            sent: None,
            unknown: None,
            reached: None,
        };
        waiting.look_for_call(seen);
        waiting.look_for_senders(seen);
        waiting
    }

    /// Waits for the call from now on, if it is known of whom.
    fn look_for_call(&mut self, seen: &Seen) {
        if let Awaited::Call { of, on, when } = &self.trigger.awaited
            && self.call.is_none()
        {
            // A call is not held while other time passes.
            let holds = self.trigger.delay.is_zero();
            self.call = watch(seen, of, on.as_ref(), *when, holds);
        }
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

    /// Why nothing could come that is waited for, if it was not even known whose that is.
    pub(super) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// Whether so much was sent.
    fn is_sent(&self, sent: &Sent, seen: &Seen) -> bool {
        self.sent.as_ref().is_some_and(|(directions, before)| {
            let now = seen.ground.carried(directions);
            sent.amount.is_reached_by(now.since(*before))
        })
    }

    /// The node that made the call, and the call in words, if one was waited for and came.
    pub(super) fn call(&self) -> Option<(usize, String)> {
        self.call.as_ref()?.fired()
    }

    /// Lets the call go that was waited for, if one was.
    pub(super) fn let_call_go(&mut self) -> bool {
        self.call.take().is_some()
    }

    /// Whether the probe has to say it.
    pub(super) fn needs_roles(&self) -> bool {
        self.trigger.awaited.needs_roles()
    }

    /// Whether it fires now.
    pub(super) fn fires(&mut self, seen: &Seen) -> bool {
        if self.reached.is_none() && self.is_reached(seen) {
            self.reached = Some(seen.now);
        }
        self.has_fired(seen.now)
    }

    /// Whether it fires, as far as it was looked.
    pub(super) fn has_fired(&self, now: Duration) -> bool {
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
        let is_in_time = now < ended.max(self.armed) + within;
        match self.trigger.awaited {
            _ if self.reached.is_some() => true,
            // That always comes.
            Awaited::Time(_) | Awaited::After(_) => true,
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
            Awaited::After(after) => seen.now >= self.placed + *after,
            Awaited::Lines(..)
            | Awaited::Invoked(..)
            | Awaited::Acknowledged(..)
            | Awaited::AcknowledgedMore(..) => self.have_clients_done(seen),
            Awaited::Log(name, text) => seen.is_logged(self.looks, name.as_deref(), text),
            Awaited::Role(name, role) => self
                .fresh(seen)
                .is_some_and(|roles| seen.has_role(name.as_deref(), role, roles)),
            Awaited::Changed(role) => {
                let now = self.fresh(seen).map(|roles| roles.having(role));
                now.is_some_and(|now| is_changed(&mut self.had, now.into_iter().collect()))
            }
            Awaited::Call { .. } => {
                self.look_for_call(seen);
                self.call().is_some()
            }
            Awaited::Sent(sent) => {
                let sent = sent.clone();
                self.look_for_senders(seen);
                self.is_sent(&sent, seen)
            }
            Awaited::Ended => seen.last_ended,
        }
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

/// Who has a role now, if it was not long ago that the probe was asked: else others may have it by now.
fn having(role: &str, roles: &Roles, now: Duration) -> Option<BTreeSet<usize>> {
    let is_fresh = now < roles.asked + ROLE_IS_FRESH;
    is_fresh.then(|| roles.having(role).into_iter().collect())
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

/// Waits for a call of those that are meant, if it is known who that is.
fn watch(
    seen: &Seen,
    of: &CallOf,
    on: Option<&Selector>,
    when: Moment,
    holds: bool,
) -> Option<CallWatch> {
    let known = seen.known();
    let on = on.unwrap_or(&Selector::All);
    let nodes = known.all(std::slice::from_ref(on), &[]).ok()?;
    Some(seen.calls.watch(&nodes, of, when, holds))
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
