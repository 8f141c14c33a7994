//! What can be lost at a place, each set once: a search.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::choice::Choice;
use crate::nodes::places::Place;
use crate::nodes::space::{Error, IsUnwanted, NodeRules, go_on};

/// More sets of operations are not listed at a place.
const SETS_MAX: usize = if cfg!(test) { 1000 } else { 1 << 22 };

/// After so many sets that were looked at it is asked whether they are wanted.
const ASKED_AFTER: u64 = 64;

impl NodeRules {
    /// Up to so many operations that can be lost at a place, each set once: none of them goes with
    /// the others. What leaves the node where it was before is left out, unless somebody can know
    /// better.
    ///
    /// # Errors
    /// If they are too many, or not wanted any more.
    pub(super) fn losses(
        &self,
        place: &Place,
        events: usize,
        most: usize,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Vec<Choice>, Error> {
        let mut losses = Losses::new(self, place, events, is_unwanted);
        losses.add_all(most)?;
        Ok(losses.found)
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
    ///
    /// # Errors
    /// Like [`Self::losses`].
    pub(super) fn tears(
        &self,
        place: &Place,
        events: usize,
        most: usize,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Vec<Choice>, Error> {
        let mut losses = Losses::new(self, place, events, is_unwanted);
        losses.add_all(most)?;
        let cuts = self.cuts(place, events);
        for cut in &cuts {
            let lost = cut.groups(&self.operations, place.micros, events);
            losses.seen.insert(&lost);
        }
        losses.found.clear();
        let synced = self.operations.synced(events, place.most);
        for synced in std::iter::once(0).chain(synced) {
            losses.synced = synced;
            losses.add_torn(most, &mut Vec::new())?;
        }
        Ok(losses.found)
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
    is_unwanted: IsUnwanted<'a>,
    /// How many sets were looked at.
    looked: u64,
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
    fn new(
        node: &'a NodeRules,
        place: &'a Place,
        events: usize,
        is_unwanted: IsUnwanted<'a>,
    ) -> Self {
        Self {
            node,
            place,
            events,
            synced: 0,
            found: Vec::new(),
            seen: Seen::default(),
            is_unwanted,
            looked: 0,
        }
    }

    /// Ends the search if it has found too much, or nobody wants it.
    fn go_on(&mut self) -> Result<(), Error> {
        if self.found.len() > SETS_MAX {
            return Err(Error::TooManyLosses(SETS_MAX));
        }
        self.looked += 1;
        if self.looked.is_multiple_of(ASKED_AFTER) {
            go_on(self.is_unwanted)?;
        }
        Ok(())
    }

    /// Adds all sets of up to so many operations.
    fn add_all(&mut self, most: usize) -> Result<(), Error> {
        let synced = self.node.operations.synced(self.events, self.place.most);
        for synced in std::iter::once(0).chain(synced) {
            self.synced = synced;
            self.add(most, 0, &mut Vec::new())?;
            self.add_halves(most);
        }
        Ok(())
    }

    /// Adds the ways to tear each write while these operations are lost, and up to so many less one
    /// of them.
    fn add_torn(&mut self, most: usize, beside: &mut Vec<usize>) -> Result<(), Error> {
        if most == 0 {
            return Ok(());
        }
        let operations = &self.node.operations;
        let events = self.events.max(self.synced);
        let losable: Vec<_> = operations.losable(self.place.operations, events).collect();
        for operation in losable.iter().filter(|one| !beside.contains(one)) {
            self.go_on()?;
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
            self.add_torn(most - 1, beside)?;
            beside.pop();
        }
        Ok(())
    }

    /// Adds sets that have these operations and up to so many more, from `first` on.
    fn add(&mut self, most: usize, first: usize, chosen: &mut Vec<usize>) -> Result<(), Error> {
        if most == 0 {
            return Ok(());
        }
        let losable: Vec<_> = self
            .node
            .operations
            .losable(self.place.operations, self.events.max(self.synced))
            .collect();
        for operation in losable.into_iter().filter(|operation| *operation >= first) {
            self.go_on()?;
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
                self.add(most - 1, operation + 1, chosen)?;
            }
            chosen.pop();
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use trace::{Action, Data, Event, FileId, FileKind, FileOp, InitialFile, Node, Run};

    use super::*;
    use crate::Sector;
    use crate::nodes::{Explore, MODELS, Relaxations, Request, Space, Split};

    /// A program that writes to so many pages of a file, each in place.
    fn run(pages: u64) -> Run {
        let (file, all) = (
            FileId(1),
            Data {
                at: 0,
                len: pages * 4096,
            },
        );
        let foo = InitialFile {
            file,
            parent: Some(FileId::ROOT),
            name: b"foo"[..].into(),
            kind: FileKind::Regular,
            mode: 0o644,
            size: all.len,
            content: vec![(0, all)],
        };
        let event = |page: u64| Event {
            start_ns: 10 * page,
            end_ns: 10 * page + 5,
            process: 1,
            thread: 1,
            call: "pwrite64".into(),
            stack: 0,
            action: Action::File(FileOp::Write {
                file,
                offset: page * 4096,
                data: Data { at: 0, len: 8 },
                size_before: all.len,
            }),
        };
        let node = Node {
            name: "program".into(),
            initial: vec![InitialFile::empty_root(), foo],
            events: (0..pages).map(event).collect(),
        };
        Run { nodes: vec![node] }
    }

    #[test]
    fn sets_that_are_too_many_to_be_listed_are_refused() {
        let space = |pages, lost| {
            let request = Request {
                model: &MODELS[1],
                explore: Explore::BruteForce,
                lost,
                split: Split::default(),
                sector: Sector::default(),
                relaxations: Relaxations::ALL,
            };
            Space::new(&run(pages), &request).map(|space| space.len())
        };
        let refused = Some(Error::TooManyLosses(SETS_MAX));
        // Sets with the last write leave the program where it was: up to two of 39 are 780, all of 11
        // 2047.
        assert!(space(40, 2).is_ok());
        assert_eq!(space(40, 3).err(), refused);
        assert_eq!(space(40, 40).err(), refused);
        assert_eq!(space(12, 12).err(), refused);
    }
}
