//! What can be lost at a place, each set once: a search.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::choice::Choice;
use crate::nodes::places::Place;
use crate::nodes::space::NodeRules;

impl NodeRules {
    /// Up to so many operations that can be lost at a place, each set once: none of them goes with
    /// the others. What leaves the node where it was before is left out, unless somebody can know
    /// better.
    pub(super) fn losses(&self, place: &Place, events: usize, most: usize) -> Vec<Choice> {
        let mut losses = Losses::new(self, place, events);
        losses.add_all(most);
        losses.found
    }

    /// Whether something may be durable already of what comes after so many events at a place, so
    /// that the same is lost with other things.
    pub(super) fn has_synced(&self, place: &Place, events: usize) -> bool {
        self.operations.synced(events, place.most).next().is_some()
    }

    /// The groups of the last operation of a place, or those of the one that was stopped midway.
    pub(super) fn last_groups(&self, place: &Place) -> Option<Range<usize>> {
        match (place.partial, place.operations.checked_sub(1)) {
            (0, last) => Some(self.operations.all[last?].groups()),
            (partial, _) => {
                let start = self.operations.all[place.operations].groups().start;
                Some(start..start + partial)
            }
        }
    }

    /// Whether all of the last operation is lost and nobody can know that it was there. What is lost
    /// was not durable after `moment` events.
    fn is_where_it_was(&self, place: &Place, lost: &[usize], moment: usize) -> bool {
        let Some(mut last) = self.last_groups(place) else {
            return false;
        };
        let most = lost
            .iter()
            .map(|group| self.operations.groups[*group].cover_at(moment))
            .fold(place.most, usize::min);
        last.all(|group| lost.contains(&group))
            && (place.partial > 0 || !self.operations.tells(place.least, most))
    }

    /// The last operation without one of its parts, if it is one that grows a file.
    pub(super) fn cuts(&self, place: &Place, events: usize) -> Vec<Choice> {
        let Some(last) = place
            .operations
            .checked_sub(1)
            .filter(|_| place.partial == 0)
        else {
            return Vec::new();
        };
        self.operations
            .open_groups(last, events)
            .filter(|group| self.is_cut(place, *group, events))
            .map(Choice::Group)
            .collect()
    }

    /// Whether the last operation can be cut so that it lacks one of its groups: if it grows a file,
    /// and does not lack its last part with it. Then it is one that was stopped midway, or lost.
    pub(super) fn is_cut(&self, place: &Place, group: usize, events: usize) -> bool {
        let operation = &self.operations.all[self.operations.groups[group].operation()];
        let lost = || self.operations.lost_with(&[group], place.micros, events);
        let groups = operation.groups();
        operation.grows && groups.len() > 1 && !lost().contains(&(groups.end - 1))
    }

    /// The ways to tear one write at a place, alone and while other operations are lost: with it up
    /// to `most` of them. None leaves what another relaxation does.
    pub(super) fn tears(&self, place: &Place, events: usize, most: usize) -> Vec<Choice> {
        let mut losses = Losses::new(self, place, events);
        losses.add_all(most);
        let cuts = self.cuts(place, events);
        for cut in &cuts {
            let lost = cut.groups(&self.operations, place.micros, events);
            losses.seen.insert(&lost);
        }
        losses.found.clear();
        let synced = self.operations.synced(events, place.most);
        for synced in std::iter::once(0).chain(synced) {
            losses.synced = synced;
            losses.add_torn(most, &mut Vec::new());
        }
        losses.found
    }
}

/// A search for what can be lost at a place.
struct Losses<'a> {
    node: &'a NodeRules,
    place: &'a Place,
    events: usize,
    synced: usize,
    found: Vec<Choice>,
    seen: Seen,
}

/// Sets of groups that were found, by a hash: those of a long run have very many groups.
#[derive(Default)]
struct Seen(HashSet<[u64; 2]>);

impl Seen {
    /// Returns whether it was not there.
    fn insert(&mut self, groups: &[usize]) -> bool {
        let half = |number: u64| {
            let mut hasher = DefaultHasher::new();
            (number, groups).hash(&mut hasher);
            hasher.finish()
        };
        self.0.insert([half(0), half(1)])
    }
}

impl<'a> Losses<'a> {
    fn new(node: &'a NodeRules, place: &'a Place, events: usize) -> Self {
        Self {
            node,
            place,
            events,
            synced: 0,
            found: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Adds all sets of up to so many operations.
    fn add_all(&mut self, most: usize) {
        let synced = self.node.operations.synced(self.events, self.place.most);
        for synced in std::iter::once(0).chain(synced) {
            self.synced = synced;
            self.add(most, 0, &mut Vec::new());
            self.add_halves(most);
        }
    }

    /// Adds the ways to tear each write while these operations are lost, and up to so many less one
    /// of them.
    fn add_torn(&mut self, most: usize, beside: &mut Vec<usize>) {
        if most == 0 {
            return;
        }
        let operations = &self.node.operations;
        let events = self.events.max(self.synced);
        let losable: Vec<_> = operations.losable(self.place.operations, events).collect();
        for operation in losable.iter().filter(|one| !beside.contains(one)) {
            for tear in operations.tears(*operation, events) {
                let choice = Choice::Tear {
                    operation: *operation,
                    tear,
                    lost: beside.clone(),
                    synced: self.synced,
                };
                let lost = choice.groups(operations, self.place.micros, self.events);
                if self.seen.insert(&lost) {
                    self.found.push(choice);
                }
            }
        }
        let next = beside.last().map_or(0, |last| last + 1);
        for operation in losable.into_iter().filter(|operation| *operation >= next) {
            beside.push(operation);
            self.add_torn(most - 1, beside);
            beside.pop();
        }
    }

    /// Adds sets that have these operations and up to so many more, from `first` on.
    fn add(&mut self, most: usize, first: usize, chosen: &mut Vec<usize>) {
        if most == 0 {
            return;
        }
        let losable: Vec<_> = self
            .node
            .operations
            .losable(self.place.operations, self.events.max(self.synced))
            .collect();
        for operation in losable.into_iter().filter(|operation| *operation >= first) {
            chosen.push(operation);
            if !self.goes_with_others(chosen) {
                let lost = self.lost(chosen);
                let moment = self.events.max(self.synced);
                // The place before ends with the last operation: it has no state with what was synced
                // later.
                let had_that = self.place.partial > 0 || self.synced <= self.place.least;
                let is_where_it_was =
                    had_that && self.node.is_where_it_was(self.place, &lost, moment);
                if !is_where_it_was && self.seen.insert(&lost) {
                    self.found.push(Choice::Operations {
                        lost: chosen.clone(),
                        synced: self.synced,
                    });
                }
                self.add(most - 1, operation + 1, chosen);
            }
            chosen.pop();
        }
    }

    /// Adds the half of each operation whose other half can be there without it.
    fn add_halves(&mut self, most: usize) {
        let operations = &self.node.operations;
        let events = self.events.max(self.synced);
        let losable = operations.losable(self.place.operations, events);
        for operation in losable.filter(|_| most > 0) {
            if !operations.risks_half(operation, events) {
                continue;
            }
            let choice = Choice::Half {
                operation,
                synced: self.synced,
            };
            let lost = choice.groups(operations, self.place.micros, self.events);
            if self.seen.insert(&lost) {
                self.found.push(choice);
            }
        }
    }

    /// Whether one of some operations is lost with the others anyway.
    fn goes_with_others(&self, chosen: &[usize]) -> bool {
        let events = self.events.max(self.synced);
        chosen.len() > 1
            && chosen.iter().any(|one| {
                let others: Vec<_> = chosen
                    .iter()
                    .copied()
                    .filter(|other| other != one)
                    .collect();
                let lost = self.lost(&others);
                self.node
                    .operations
                    .open_groups(*one, events)
                    .all(|group| lost.contains(&group))
            })
    }

    fn lost(&self, chosen: &[usize]) -> Vec<usize> {
        let choice = Choice::Operations {
            lost: chosen.into(),
            synced: self.synced,
        };
        choice.groups(&self.node.operations, self.place.micros, self.events)
    }
}
