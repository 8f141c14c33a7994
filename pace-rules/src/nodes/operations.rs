//! A node's operations as the rules see them: what can be lost of each, until which call, and what
//! goes with it.

mod followers;
mod group;
mod losses;
mod reader;
mod risk;
mod tears;

use std::ops::Range;

use super::alike::Words;
use super::micro::{Cuts, Micros};
use super::model::{DataOrder, Log, Model};
use super::narrow::{Narrow, Span, within};
use super::space::{Error, IsUnwanted};
use followers::Followers;
pub(super) use group::Group;
use group::{Follows, Naming};
use reader::{Read, Reader};
pub(super) use risk::Losable;
pub(super) use tears::TEARS_MAX;
use tears::Tear;
use trace::Node;

/// Something that was done, and can be lost.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    event: Narrow,
    groups: Span,
    /// Operations of several nodes that do the same have the same number (`alike.rs`).
    pub(super) likeness: u32,
    /// Whether it appends or changes a size: the last one of those is also cut.
    pub(super) grows: bool,
    /// The last event after which a crash can cost a half of it, and leave the other one; none if
    /// that is possible at no time.
    half_until: Option<Narrow>,
    /// The ways to tear it.
    tears: Span,
}

impl Operation {
    /// Its event, as an index into the node's.
    pub(super) fn event(&self) -> usize {
        self.event.get()
    }

    /// Its groups.
    pub(super) fn groups(&self) -> Range<usize> {
        self.groups.range()
    }
}

/// A node's operations, in the order in which they returned. One that leaves nothing to lose is
/// none.
#[derive(Debug, Clone)]
pub(super) struct Operations {
    pub(super) all: Vec<Operation>,
    pub(super) groups: Vec<Group>,
    followers: Followers,
    /// The ways to tear all of them.
    tears: Vec<Tear>,
    /// The numbers of events that somebody else can know of, ascending.
    told: Vec<Narrow>,
    /// Those that wait for another node.
    heard: Vec<Narrow>,
    /// Those that may make something durable without all that was before.
    syncs: Vec<Narrow>,
    /// Those after whose return something is durable that was not, or not any more.
    changes: Vec<Narrow>,
    /// Those that say that something was done.
    acknowledgements: Vec<Narrow>,
    /// By number of events: what a crash after them can cost.
    at_risk: Vec<Losable>,
    /// The groups that are the size of a file with a new name.
    sizes_with_names: Vec<Narrow>,
    /// The groups that are in the log because of what that had, ascending, and since when.
    follows: Vec<(Narrow, Follows)>,
    model: &'static Model,
}

impl Operations {
    /// Those of a node, and what there is to know of each to find the like of it on other nodes.
    ///
    /// # Errors
    /// If they are not wanted any more.
    pub(super) fn of(
        node: &Node,
        micros: &Micros,
        cuts: Cuts,
        (model, sector_bytes): (&'static Model, u64),
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<(Self, Vec<Words>), Error> {
        let Read {
            operations: mut this,
            followers,
            words,
            replacing,
            reserved,
        } = Reader::new(node, micros, &cuts, Self::none(model), sector_bytes)
            .read_all(is_unwanted)?;
        drop(cuts);
        this.followers = Followers::of(&followers);
        drop(followers);
        this.changes = this.changes_of_groups();
        this.wait(&replacing, &reserved);
        this.tear(micros);
        this.count(node.events.len());
        Ok((this, words))
    }

    /// No operations yet.
    fn none(model: &'static Model) -> Self {
        Self {
            all: Vec::new(),
            groups: Vec::new(),
            followers: Followers::default(),
            tears: Vec::new(),
            told: Vec::new(),
            heard: Vec::new(),
            syncs: Vec::new(),
            changes: Vec::new(),
            acknowledgements: Vec::new(),
            at_risk: Vec::new(),
            sizes_with_names: Vec::new(),
            follows: Vec::new(),
            model,
        }
    }

    /// The events with which something becomes durable, or ceases to be so.
    fn changes_of_groups(&self) -> Vec<Narrow> {
        let own = self.groups.iter().filter(|group| !group.is_repetition());
        let mut changes: Vec<_> = own.flat_map(Group::changes).collect();
        changes.sort_unstable();
        changes.dedup();
        changes.shrink_to_fit();
        changes
    }

    /// Those of some events after whose return something else is durable, ascending.
    pub(super) fn changes(&self, events: Range<usize>) -> impl Iterator<Item = usize> {
        within(&self.changes, events)
    }

    /// After how many events, of so many, what is durable last changed.
    pub(super) fn last_change(&self, events: usize) -> usize {
        let before = self.changes.partition_point(|change| change.get() < events);
        let last = before.checked_sub(1);
        last.map_or(0, |last| self.changes[last].get() + 1)
    }

    /// Whether one of some events says that something was done.
    pub(super) fn acknowledges(&self, events: Range<usize>) -> bool {
        within(&self.acknowledgements, events).next().is_some()
    }

    /// The groups that a crash after so many events can cost, of those whose micros come before
    /// `micros`. Ascending.
    pub(super) fn all_open(&self, micros: usize, events: usize) -> Vec<usize> {
        let first = self.at_risk(events).first as usize;
        let first = self.all.get(first).map_or(0, |first| first.groups().start);
        let end = self.groups_until(micros);
        let is_lost = |number: &usize| {
            let group = &self.groups[*number];
            !group.is_repetition() && group.is_open(events)
        };
        (first..end).filter(is_lost).collect()
    }

    /// Whether a crash after so many events can cost what an operation did to names, sizes and
    /// modes.
    pub(super) fn risks_names(&self, operation: usize, events: usize) -> bool {
        let groups = &self.groups[self.all[operation].groups()];
        groups
            .iter()
            .any(|group| group.is_named && group.is_open(events))
    }

    /// Whether an operation does something to names, or sizes and modes that are kept like these.
    pub(super) fn has_names(&self, operation: usize) -> bool {
        let mut groups = self.groups[self.all[operation].groups()].iter();
        groups.any(|group| group.is_named)
    }

    /// Whether some groups go whenever something that was done to names before does.
    pub(super) fn go_with_names(&self, groups: Range<usize>, events: usize) -> bool {
        let first = groups.start;
        let goes = |group: &Group| {
            (group.is_named || group.after.get() >= first)
                && group.logged.get() >= events
                && group.is_open(events)
        };
        let mut own = self.groups[groups]
            .iter()
            .filter(|group| !group.is_repetition());
        self.model.log != Log::None && own.all(goes)
    }

    /// Whether somebody else can know that `from` events had happened, or more, if no more than `to` had.
    pub(super) fn tells(&self, from: usize, to: usize) -> bool {
        within(&self.told, from..to + 1).next().is_some()
    }

    /// Numbers of events after `events` and up to `most` with which more is durable, and other
    /// things are lost together: where a sync keeps something without all that was before. Its call
    /// has begun, as nothing before it waits for others; what it keeps can be on the disk before it
    /// returns.
    pub(super) fn synced(&self, events: usize, most: usize) -> impl Iterator<Item = usize> {
        let heard = within(&self.heard, events..most).next();
        let until = heard.map_or(most, |heard| most.min(heard + 1));
        within(&self.syncs, events..until).map(|sync| sync + 1)
    }

    /// Of the operations before number `place`, those of which a crash after `events` events can
    /// cost something, ascending.
    pub(super) fn losable(&self, place: usize, events: usize) -> impl Iterator<Item = usize> {
        (self.at_risk(events).first as usize..place)
            .filter(move |number| self.is_losable(*number, events))
    }

    /// Whether all names are kept in order.
    pub(super) fn has_journal(&self) -> bool {
        self.model.log == Log::Journal
    }

    /// One of those: how many there are after it is given.
    pub(super) fn losable_from_last(
        &self,
        place: usize,
        events: usize,
        after: usize,
    ) -> Option<usize> {
        let first = self.at_risk(events).first as usize;
        let all = (first..place).rev();
        all.filter(|number| self.is_losable(*number, events))
            .nth(after)
    }

    /// Whether a crash after so many events can cost something of an operation.
    pub(super) fn is_losable(&self, operation: usize, events: usize) -> bool {
        self.open_groups(operation, events).next().is_some()
    }

    /// The groups of an operation that a crash after so many events can cost.
    pub(super) fn open_groups(
        &self,
        operation: usize,
        events: usize,
    ) -> impl Iterator<Item = usize> {
        self.all[operation].groups().filter(move |group| {
            let group = &self.groups[*group];
            !group.is_repetition() && group.is_open(events)
        })
    }

    /// Whether nothing is between a group and the next one of its operation: the disk has both or
    /// neither, but for what is lost.
    pub(super) fn is_one_with_next(&self, group: usize) -> bool {
        let is_own = |group: &usize| !self.groups[*group].is_repetition();
        let last = (0..=group).rev().find(is_own);
        !is_own(&(group + 1)) || last.is_some_and(|last| self.is_lost_with(last, group + 1))
    }

    /// Whether a group is lost with another one of the same file.
    fn is_lost_with(&self, group: usize, other: usize) -> bool {
        self.followers.get(other).any(|follower| follower == group)
    }

    /// Whether a crash can leave the size of an operation, or a hole that it makes, without its bytes.
    pub(super) fn has_size_alone(&self, operation: usize) -> bool {
        let mut groups = self.groups[self.all[operation].groups()].iter();
        self.model.log != Log::None
            && groups.any(|group| group.is_size || (group.is_named && self.keeps_old_bytes()))
    }

    /// Whether the page in which a file ends or a hole begins can have its old bytes. Where its zeros
    /// wait for nothing, and nothing waits for them.
    fn keeps_old_bytes(&self) -> bool {
        matches!(self.model.data, DataOrder::Allocating | DataOrder::All)
    }

    /// Of those the groups that are the half of it that can be lost alone.
    pub(super) fn open_half(&self, operation: usize, events: usize) -> impl Iterator<Item = usize> {
        let has_size = self.has_size_alone(operation);
        self.open_groups(operation, events)
            .filter(move |group| self.is_of_half(*group, has_size))
    }

    /// Whether a group is of the half of its operation that can be lost alone: bytes, where the size
    /// is something of its own, or that a rename took its name from a file, if that can be seen later.
    fn is_of_half(&self, group: usize, has_size: bool) -> bool {
        if has_size && self.is_bytes(group) {
            return true;
        }
        let is_repetition = |follower: usize| self.groups[follower].is_repetition();
        let operation = &self.all[self.groups[group].operation()];
        operation.groups().start == group
            && self.groups[group].naming == Naming::OfOther
            && self.followers.get(group).any(is_repetition)
    }

    /// Whether a group is bytes, and no size or name.
    pub(super) fn is_bytes(&self, group: usize) -> bool {
        !self.groups[group].is_size && !self.groups[group].is_named
    }
}
