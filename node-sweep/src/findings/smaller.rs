//! Which of the states that are alike is shown: the one in which the least is missing.

use std::collections::HashMap;

use pace_rules::nodes::{Relaxation, Spaces, State};
use trace::{Action, Event};

use super::Findings;
use crate::states::States;
use crate::sweep::{Broken, Size, Swept, size};
use crate::tree::Fingerprint;

impl Findings<'_> {
    /// The state in which as little is missing as still breaks the same, of those that were looked
    /// at. `known` has what one leads to.
    pub(super) fn smallest(
        &self,
        spaces: &Spaces,
        key: Fingerprint,
        swept: &Swept,
        states: &mut [States<'_>],
        known: &mut HashMap<Fingerprint, Fingerprint>,
    ) -> Fingerprint {
        let mut way = Vec::new();
        let mut at = key;
        let smallest = loop {
            if let Some(known) = known.get(&at) {
                break *known;
            }
            // Ways that go round lead to the same one, wherever they begin.
            if let Some(first) = way.iter().position(|on_way| *on_way == at) {
                let rank = |key: &Fingerprint| {
                    let broken = &swept.broken[key];
                    (order(&broken.state(spaces).1, broken), *key)
                };
                let round = way[first..].iter().copied();
                break round.min_by_key(rank).expect("it has this one");
            }
            way.push(at);
            match self.smaller(spaces, at, swept, states) {
                Some(smaller) => at = smaller,
                None => break at,
            }
        };
        known.extend(way.into_iter().map(|key| (key, smallest)));
        smallest
    }

    /// A broken state that is easier to understand than this one and shows why it is broken, if there
    /// is such a one. It depends on nothing but these two, so that every way to a state goes on the
    /// same.
    fn smaller(
        &self,
        spaces: &Spaces,
        key: Fingerprint,
        swept: &Swept,
        states: &mut [States<'_>],
    ) -> Option<Fingerprint> {
        let broken = &swept.broken[&key];
        let words = self.plain(broken);
        let (member, state) = broken.state(spaces);
        let of_this = order(&state, broken);
        let is_smaller = |other: &Broken| order(&other.state(spaces).1, other) < of_this;
        let blamed = self.blamed(key, &words, swept);
        // What is kept alone is no reason to show a state if it is broken without that too.
        let is_due = |blamed: &Fingerprint| {
            state.relaxation == Relaxation::OneKept || is_smaller(&swept.broken[blamed])
        };
        if let Some(blamed) = blamed.filter(is_due) {
            return Some(blamed);
        }
        let of_model = self.of_model(member);
        let less = of_model.with_less_missing(&state).into_iter();
        less.chain(of_model.earlier(&state)).find_map(|less| {
            let made = states[member].make(&less).ok()?.key;
            let found = swept.broken.get(&made)?;
            // What was drawn may lack the very state, and have one that is the same to any check.
            (is_smaller(found) && self.plain(found) == words).then_some(made)
        })
    }

    /// The state that shows why one is broken that lost all at once: the first that shows it in the
    /// same words, or the first one; none if that is not known.
    fn blamed(&self, key: Fingerprint, words: &[String], swept: &Swept) -> Option<Fingerprint> {
        let blamed = swept.blamed.get(&key)?;
        let mut known = blamed.iter().filter_map(|key| {
            let broken = swept.broken.get(key)?;
            Some((*key, broken))
        });
        let alike = known
            .clone()
            .find(|(_, broken)| self.plain(broken) == words);
        alike.or_else(|| known.next()).map(|(key, _)| key)
    }

    /// The same state with nothing missing, then with one of the operations whole that it lacks, or
    /// without one that it has a part of.
    fn with_less_missing(&self, state: &State) -> Vec<State> {
        let mut whole = state.clone();
        for node in 0..state.nodes.len() {
            whole.nodes[node].lost.clear();
            if let Some(begun) = self.begun(state, node) {
                whole = self.crashed_at(&whole, node, begun, 0);
            }
        }
        let mut all = vec![whole];
        for node in 0..state.nodes.len() {
            let micros = self.micros(node);
            let missing = self.missing_events(state, node);
            let mut retain = |lost: &dyn Fn(usize) -> bool| {
                let mut less = state.clone();
                less.nodes[node]
                    .lost
                    .retain(|place| lost(micros[*place].event));
                all.push(less);
            };
            // All but one, or one alone where a model takes others with it.
            for event in &missing {
                retain(&|other| other != *event);
                if missing.len() > 2 {
                    retain(&|other| other == *event);
                }
            }
            if let Some(begun) = self.begun(state, node) {
                all.push(self.crashed_at(state, node, begun, 0));
            }
        }
        all
    }

    /// Crashes that are earlier by one operation of a node. What is broken from some moment on,
    /// until something mends it, is broken for one reason.
    pub(crate) fn earlier(&self, state: &State) -> Vec<State> {
        let mut all = Vec::new();
        for node in 0..state.nodes.len() {
            let events = &self.trace.run.nodes[node].events;
            let first_lost = self.missing_events(state, node).first().copied();
            let last_kept = state.nodes[node]
                .micros
                .checked_sub(1)
                .map(|last| self.micros(node)[last].event);
            let last = first_lost.or(last_kept);
            let Some(last) = last.filter(|last| *last < state.cut[node]) else {
                continue;
            };
            // If the end of an operation is lost and nobody was told, it can as well have been in
            // flight. If somebody was, a sync would have helped.
            let is_told =
                |event: &Event| matches!(event.action, Action::Mark { .. } | Action::Send(_));
            let is_due = first_lost.is_some() && events[last..state.cut[node]].iter().any(is_told);
            if is_due || self.begun(state, node).is_some() {
                continue;
            }
            let of_event = self
                .micros(node)
                .iter()
                .filter(|micro| micro.event == last)
                .count();
            all.extend((0..=of_event).map(|parts| self.crashed_at(state, node, last, parts)));
        }
        all
    }

    /// The state if a node had crashed before it made a call, or within that, when so many of its
    /// parts had reached the disk.
    pub(crate) fn crashed_at(
        &self,
        state: &State,
        node: usize,
        event: usize,
        parts: usize,
    ) -> State {
        let mut earlier = state.clone();
        earlier.cut[node] = earlier.cut[node].min(event);
        let of_node = &mut earlier.nodes[node];
        of_node.micros = self
            .micros(node)
            .partition_point(|micro| micro.event < event)
            + parts;
        of_node.lost.retain(|place| *place < of_node.micros);
        earlier
    }
}

/// What there is to understand in a state, and which it is.
pub(super) fn order(state: &State, broken: &Broken) -> (Size, u64) {
    (size(state), broken.smallest)
}
