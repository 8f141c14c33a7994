//! A node's operations as the rules see them: what can be lost of each, until which call, and what
//! goes with it.

mod log_tree;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

use itertools::Itertools;

use super::Effect;
use super::alike::Words;
use super::micro::{Cut, Micros, Neighbour, Order, PAGE_BYTES};
use super::model::{DataSync, Exchange, Growth, Log, Model};
use trace::{Action, Event, FileId, FileKind, FileOp, Name, Node, SyncScope};

/// What persists as a whole.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// The operation it is part of, as an index.
    pub(super) operation: usize,
    /// Its micros.
    pub(super) micros: Range<usize>,
    /// The event after whose return it is durable; `usize::MAX` if nothing made it so.
    pub(super) cover: usize,
    /// The event after whose return it is not durable any more, and the one that makes it so
    /// again; `usize::MAX` if there is none.
    reopened: usize,
    covered_again: usize,
    /// It is kept only if all groups of names before this number are.
    after: usize,
    /// Whether it is one of those itself.
    is_named: bool,
    /// Whether it goes where nothing of the file has a place on the disk.
    is_new: bool,
    /// The event from which on it may be kept without them: a sync that keeps its file for itself.
    logged: usize,
    file: FileId,
    /// Whether it only sets a size.
    is_size: bool,
    /// The group without which it is not lost, nor that one without it; `usize::MAX` if there is
    /// none.
    pair: usize,
    /// The first group of names that is kept only if the data of this one is; `usize::MAX` if there
    /// is none.
    awaited_by: usize,
    /// The groups that it repeats: it is lost if one of them is, and never else. Nothing if it is
    /// something of its own.
    pub(super) repeats: Box<[usize]>,
}

impl Group {
    /// The event after whose return it is durable, for a crash after so many events.
    pub(super) fn cover_at(&self, events: usize) -> usize {
        if events > self.reopened {
            self.covered_again
        } else {
            self.cover
        }
    }

    /// Whether a crash after so many events can cost it.
    pub(super) fn is_open(&self, events: usize) -> bool {
        self.cover_at(events) >= events
    }

    /// Whether it is nothing of its own.
    pub(super) fn is_repetition(&self) -> bool {
        !self.repeats.is_empty()
    }

    /// When a crash can cost it: after more events than the first number, and up to the second.
    fn at_risk(&self, event: usize) -> impl Iterator<Item = (usize, usize)> {
        let again = (self.reopened < usize::MAX).then_some((self.reopened, self.covered_again));
        [(event, self.cover)].into_iter().chain(again)
    }
}

/// Some groups of a range. It takes no more room than the last of them needs: of a long run few are
/// lost.
struct Marks {
    start: usize,
    end: usize,
    is_set: Vec<bool>,
}

impl Marks {
    fn new(start: usize, end: usize) -> Self {
        Self {
            start,
            end,
            is_set: Vec::new(),
        }
    }

    /// Returns whether it was not there.
    fn add(&mut self, group: usize) -> bool {
        let place = group - self.start;
        if place >= self.is_set.len() {
            self.is_set.resize(place + 1, false);
        }
        !std::mem::replace(&mut self.is_set[place], true)
    }

    fn contains(&self, group: usize) -> bool {
        self.is_set
            .get(group - self.start)
            .is_some_and(|mark| *mark)
    }

    /// The first one from a group on; `usize::MAX` if there is none.
    fn next(&self, group: usize) -> usize {
        let after = self.is_set.get(group - self.start..).unwrap_or_default();
        let place = after.iter().position(|mark| *mark);
        place.map_or(usize::MAX, |place| group + place)
    }

    /// All of them, ascending.
    fn all(&self) -> Vec<usize> {
        let marked = self.is_set.iter().positions(|mark| *mark);
        marked.map(|place| self.start + place).collect()
    }
}

/// Something that was done, and can be lost.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    /// Its event, as an index into the node's.
    pub(super) event: usize,
    /// Its groups.
    pub(super) groups: Range<usize>,
    /// Operations of several nodes that do the same have the same number (`alike.rs`).
    pub(super) likeness: u32,
    /// Whether it appends or changes a size: the last one of those is also cut.
    pub(super) grows: bool,
    /// A file that it renamed over another one.
    replaces_with: Option<FileId>,
    /// The last event after which a crash can cost its bytes, and leave its size.
    bytes_until: Option<usize>,
    /// The ways to tear it.
    tears: Box<[Tear]>,
}

/// A part of the bytes of a write that a crash can cost while it leaves the rest.
#[derive(Debug, Clone)]
struct Tear {
    /// The groups that are lost, ascending.
    groups: Vec<usize>,
    /// The last event after which that can be: what is lost is not durable, and neither is all of
    /// what is left.
    until: usize,
}

/// A node's operations, in the order in which they returned. One that leaves nothing to lose is
/// none.
#[derive(Debug, Clone)]
pub(super) struct Operations {
    pub(super) all: Vec<Operation>,
    pub(super) groups: Vec<Group>,
    followers: Followers,
    /// Of the events, those that somebody else can know of: as `told[n]`, how many of the first
    /// `n`.
    told: Vec<u32>,
    /// The same of those that wait for another node.
    heard: Vec<u32>,
    /// The events that may make something durable without all that was before.
    syncs: Vec<usize>,
    /// The events after whose return something is durable that was not, or not any more: ascending.
    changes: Vec<usize>,
    /// The events that say that something was done, ascending.
    acknowledgements: Vec<usize>,
    /// By number of events: what a crash after them can cost.
    at_risk: Vec<Losable>,
    /// The groups that are the size of a file with a new name.
    sizes_with_names: Vec<usize>,
    model: &'static Model,
}

/// How many operations a crash can cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losable {
    /// All that have something that is not durable.
    pub(super) all: u32,
    /// Those of which a name, a size or a mode is not durable.
    pub(super) named: u32,
    /// Those of which the bytes can be lost, and the size be there.
    pub(super) bytes: u32,
    /// The ways to tear one of them.
    pub(super) tears: u32,
    /// None of those before this one.
    pub(super) first: u32,
}

/// For each group, what is lost with it: those that wrote to its pages of the file next, and what
/// its operation cannot do without it.
#[derive(Debug, Clone, Default)]
struct Followers {
    /// Those of all groups, one after the other.
    all: Vec<u32>,
    /// Where those of each group end.
    ends: Vec<u32>,
}

impl Followers {
    fn of(lists: Vec<Vec<u32>>) -> Self {
        let mut this = Self::default();
        for list in lists {
            this.all.extend(list);
            this.ends.push(this.all.len() as u32);
        }
        this.all.shrink_to_fit();
        this
    }

    fn get(&self, group: usize) -> impl Iterator<Item = usize> {
        let start = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        let own = &self.all[start as usize..self.ends[group] as usize];
        own.iter().map(|follower| *follower as usize)
    }
}

impl Operations {
    /// Those of a node, and what there is to know of each to find the like of it on other nodes.
    pub(super) fn of(
        node: &Node,
        micros: &Micros,
        cuts: &[Vec<Cut>],
        model: &'static Model,
        sector_bytes: u64,
    ) -> (Self, Vec<Words>) {
        let mut reader = Reader {
            node,
            micros,
            cuts,
            sector_bytes,
            words: Vec::new(),
            this: Self {
                all: Vec::new(),
                groups: Vec::new(),
                followers: Followers::default(),
                told: vec![0],
                heard: vec![0],
                syncs: Vec::new(),
                changes: Vec::new(),
                acknowledgements: Vec::new(),
                at_risk: Vec::new(),
                sizes_with_names: Vec::new(),
                model,
            },
            followers: Vec::new(),
            page_mates: Vec::new(),
            open: Vec::new(),
            unflushed: HashSet::new(),
            idle: HashSet::new(),
            groups_before: Vec::new(),
            touching: HashMap::new(),
            logged: HashSet::new(),
            left_out: HashSet::new(),
            synced: HashMap::new(),
            first_since: 0,
            files: HashMap::new(),
        };
        reader.read_initial();
        for (number, event) in node.events.iter().enumerate() {
            let tells = matches!(event.action, Action::Send(_) | Action::Mark { .. });
            let told = reader.this.told[number] + u32::from(tells);
            reader.this.told.push(told);
            let heard =
                reader.this.heard[number] + u32::from(matches!(event.action, Action::Receive(_)));
            reader.this.heard.push(heard);
            if event.action.is_sync() && model.log == Log::LogTree {
                reader.this.syncs.push(number);
            }
            if matches!(event.action, Action::Mark { .. }) {
                reader.this.acknowledgements.push(number);
            }
            reader.groups_before.push(reader.this.groups.len());
            if let Action::File(op) = &event.action {
                reader.read(number, event, op);
            }
        }
        let Reader {
            mut this,
            followers,
            words,
            ..
        } = reader;
        this.followers = Followers::of(followers);
        this.changes = this.changes_of_groups();
        this.wait();
        this.tear(micros);
        this.count(node.events.len());
        this.all.shrink_to_fit();
        this.groups.shrink_to_fit();
        (this, words)
    }

    /// The events with which something becomes durable, or ceases to be so.
    fn changes_of_groups(&self) -> Vec<usize> {
        let own = self.groups.iter().filter(|group| !group.is_repetition());
        let events = own.flat_map(|group| [group.cover, group.reopened, group.covered_again]);
        let mut changes: Vec<_> = events.filter(|event| *event < usize::MAX).collect();
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// Those of some events after whose return something else is durable, ascending.
    pub(super) fn changes(&self, events: Range<usize>) -> impl Iterator<Item = usize> {
        within(&self.changes, events)
    }

    /// After how many events, of so many, what is durable last changed.
    pub(super) fn last_change(&self, events: usize) -> usize {
        let before = self.changes.partition_point(|change| *change < events);
        let last = before.checked_sub(1);
        last.map_or(0, |last| self.changes[last] + 1)
    }

    /// Whether one of some events says that something was done.
    pub(super) fn acknowledges(&self, events: Range<usize>) -> bool {
        within(&self.acknowledgements, events).next().is_some()
    }

    /// The groups that a crash after so many events can cost, of those whose micros come before
    /// `micros`. Ascending.
    pub(super) fn all_open(&self, micros: usize, events: usize) -> Vec<usize> {
        let first = self.at_risk(events).first as usize;
        let first = self.all.get(first).map_or(0, |first| first.groups.start);
        let end = self
            .groups
            .partition_point(|group| group.micros.end <= micros);
        let is_lost = |number: &usize| {
            let group = &self.groups[*number];
            !group.is_repetition() && group.is_open(events)
        };
        (first..end).filter(is_lost).collect()
    }

    /// Counts the operations at risk, by number of events.
    fn count(&mut self, events: usize) {
        let mut changes = vec![[0_i32; 4]; events + 2];
        for number in 0..self.all.len() {
            self.all[number].bytes_until = self.cover_of_bytes(number);
            let operation = &self.all[number];
            let bytes_until = operation.bytes_until.map(|until| (operation.event, until));
            let times = [
                self.times(number, |_| true),
                self.times(number, |group| group.is_named),
                bytes_until.into_iter().collect(),
            ];
            for (class, times) in times.into_iter().enumerate() {
                for (from, until) in times {
                    changes[from + 1][class] += 1;
                    changes[until.min(events) + 1][class] -= 1;
                }
            }
            for tear in &operation.tears {
                changes[operation.event + 1][3] += 1;
                changes[tear.until.min(events) + 1][3] -= 1;
            }
        }
        let (mut sums, mut first) = ([0_i32; 4], 0);
        self.at_risk.reserve_exact(changes.len());
        for (events, change) in changes.iter().enumerate() {
            for (sum, change) in sums.iter_mut().zip(change) {
                *sum += change;
            }
            let [all, named, bytes, tears] = sums.map(|count| count as u32);
            let is_over = |operation| {
                let times = self.times(operation, |_| true);
                times.last().is_none_or(|(_, until)| *until < events)
            };
            while first < self.all.len() && is_over(first) {
                first += 1;
            }
            self.at_risk.push(Losable {
                all,
                named,
                bytes,
                tears,
                first: first as u32,
            });
        }
    }

    /// When a crash can cost some of an operation's groups, as stretches of events that do not
    /// overlap, in order.
    fn times(&self, operation: usize, is_meant: impl Fn(&Group) -> bool) -> Vec<(usize, usize)> {
        let Operation { event, groups, .. } = &self.all[operation];
        let own = self.groups[groups.clone()].iter();
        let meant = own.filter(|group| !group.is_repetition() && is_meant(group));
        let times = meant.flat_map(|group| group.at_risk(*event)).sorted();
        let join = |before: (usize, usize), next: (usize, usize)| {
            if next.0 <= before.1 {
                Ok((before.0, before.1.max(next.1)))
            } else {
                Err((before, next))
            }
        };
        times.coalesce(join).collect()
    }

    /// The event after whose return some of an operation's groups are durable; nothing if there are
    /// none of those.
    fn cover_of(&self, operation: usize, is_meant: impl Fn(usize) -> bool) -> Option<usize> {
        let groups = self.all[operation].groups.clone();
        let meant = groups.filter(|group| is_meant(*group));
        meant.map(|group| self.groups[group].cover).max()
    }

    /// The last event after which its bytes can be lost and its size be there: both are at risk,
    /// and the size does not go with the bytes.
    fn cover_of_bytes(&self, operation: usize) -> Option<usize> {
        if !self.has_size_alone(operation) {
            return None;
        }
        let Operation { event, groups, .. } = &self.all[operation];
        let is_bytes = |group: usize| self.is_bytes(group);
        let bytes: Vec<_> = groups.clone().filter(|group| is_bytes(*group)).collect();
        let end = self.groups[groups.end - 1].micros.end;
        let goes_too = self.lost_with(&bytes, end, event + 1).len() == groups.len();
        let of_bytes = self.cover_of(operation, is_bytes)?;
        let of_others = self.cover_of(operation, |group| !is_bytes(group))?;
        (!goes_too).then_some(of_bytes.min(of_others))
    }

    /// Whether a crash after so many events can cost the bytes of an operation, and leave its size.
    pub(super) fn risks_bytes(&self, operation: usize, events: usize) -> bool {
        let is_ahead = |until: usize| self.all[operation].event < events && events <= until;
        self.all[operation].bytes_until.is_some_and(is_ahead)
    }

    /// The ways to tear an operation that a crash after so many events can take, as numbers.
    pub(super) fn tears(&self, operation: usize, events: usize) -> impl Iterator<Item = usize> {
        let Operation { event, tears, .. } = &self.all[operation];
        let is_ahead = move |tear: &Tear| *event < events && events <= tear.until;
        let tears = tears.iter().enumerate();
        tears
            .filter(move |(_, tear)| is_ahead(tear))
            .map(|(number, _)| number)
    }

    /// The groups that are lost if an operation is torn in one of its ways.
    pub(super) fn torn(&self, operation: usize, tear: usize) -> &[usize] {
        &self.all[operation].tears[tear].groups
    }

    /// How many operations a crash after so many events can cost.
    pub(super) fn at_risk(&self, events: usize) -> Losable {
        self.at_risk[events]
    }

    /// Whether a crash after so many events can cost what an operation did to names, sizes and
    /// modes.
    pub(super) fn risks_names(&self, operation: usize, events: usize) -> bool {
        let groups = &self.groups[self.all[operation].groups.clone()];
        groups
            .iter()
            .any(|group| group.is_named && group.is_open(events))
    }

    /// Whether some groups go whenever something that was done to names before does.
    pub(super) fn go_with_names(&self, groups: Range<usize>, events: usize) -> bool {
        let first = groups.start;
        let goes = |group: &Group| {
            (group.is_named || group.after >= first)
                && group.logged >= events
                && group.is_open(events)
        };
        let mut own = self.groups[groups]
            .iter()
            .filter(|group| !group.is_repetition());
        self.model.log != Log::None && own.all(goes)
    }

    /// Whether somebody else can know of an event from `from` on and before `to`.
    pub(super) fn tells(&self, from: usize, to: usize) -> bool {
        from < to && self.told[to] > self.told[from]
    }

    /// Numbers of events after `events` and up to `most` with which more is durable, and other
    /// things are lost together: where a sync keeps something without all that was before. Its call
    /// has begun, as nothing before it waits for others; what it keeps can be on the disk before it
    /// returns.
    pub(super) fn synced(&self, events: usize, most: usize) -> impl Iterator<Item = usize> {
        let syncs = &self.syncs;
        let first = syncs.partition_point(|sync| *sync < events);
        let after = syncs[first..]
            .iter()
            .take_while(move |sync| **sync < most && self.heard[**sync] == self.heard[events]);
        after.map(|sync| sync + 1)
    }

    /// Of the operations before number `place`, those of which a crash after `events` events can
    /// cost something, ascending.
    pub(super) fn losable(&self, place: usize, events: usize) -> impl Iterator<Item = usize> {
        (self.at_risk(events).first as usize..place)
            .filter(move |number| self.is_losable(*number, events))
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
        self.all[operation].groups.clone().filter(move |group| {
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

    /// Whether a crash can leave the size of an operation without its bytes.
    pub(super) fn has_size_alone(&self, operation: usize) -> bool {
        let mut groups = self.groups[self.all[operation].groups.clone()].iter();
        self.model.log != Log::None && groups.any(|group| group.is_size)
    }

    /// Of those the groups that are bytes, and no size or name.
    pub(super) fn open_bytes(
        &self,
        operation: usize,
        events: usize,
    ) -> impl Iterator<Item = usize> {
        self.open_groups(operation, events)
            .filter(move |group| self.is_bytes(*group))
    }

    fn is_bytes(&self, group: usize) -> bool {
        !self.groups[group].is_size && !self.groups[group].is_named
    }

    /// Whether a group is the size of a file with a new name.
    fn is_size_with_name(&self, group: usize) -> bool {
        self.sizes_with_names.binary_search(&group).is_ok()
    }

    /// What is lost with these groups, of those whose micros come before `micros`: all that the
    /// file system keeps only together with one of them, but what is durable. Ascending.
    pub(super) fn lost_with(&self, seeds: &[usize], micros: usize, events: usize) -> Vec<usize> {
        let own = seeds
            .iter()
            .copied()
            .filter(|seed| !self.groups[*seed].is_repetition());
        let seeds: Vec<_> = own.sorted().dedup().collect();
        let (false, [first, .., last] | [first @ last]) = (self.model.log == Log::None, &*seeds)
        else {
            return seeds;
        };
        // What is lost takes nothing with it that was done by earlier operations.
        let start = self.all[self.groups[*first].operation].groups.start;
        let end = self
            .groups
            .partition_point(|group| group.micros.end <= micros);
        let mut is_lost = Marks::new(start, end.max(last + 1));
        for seed in &seeds {
            is_lost.add(*seed);
        }
        let is_there = |number: usize| number < end && self.groups[number].is_open(events);
        // A name in the log of its own may be kept by half.
        let goes_after = |number: &usize| {
            let Group {
                is_named, logged, ..
            } = self.groups[*number];
            is_there(*number) && !(is_named && logged < events)
        };
        let mut files = HashSet::new();
        let mut names_from = usize::MAX;
        let mut number = *first;
        while number < is_lost.end {
            let group = &self.groups[number];
            let is_behind = group.is_named || group.after > names_from;
            let waits = is_behind && (number == names_from || group.logged >= events);
            // Only a log tree has a size with a name and not what it is the size of.
            let goes_with_file = self.is_size_with_name(number)
                && group.logged >= events
                && files.contains(&group.file);
            let goes = (number >= names_from && waits) || goes_with_file;
            if goes && is_there(number) {
                is_lost.add(number);
            }
            let mut next = number + 1;
            if is_lost.contains(number) {
                let pair = Some(group.pair).filter(|pair| is_there(*pair));
                let followers = self.followers.get(number).filter(goes_after);
                for follower in followers.chain(pair) {
                    // One that comes before it has followers of its own.
                    if is_lost.add(follower) {
                        next = next.min(follower);
                    }
                }
                let named = if group.is_named { number } else { usize::MAX };
                names_from = names_from.min(group.awaited_by).min(named);
                files.insert(group.file);
            }
            // Of a run of many calls most are neither lost nor wait for anything that is.
            let size = self.next_size_with_name(next);
            number = is_lost.next(next).min(size).min(names_from.max(next));
        }
        is_lost.all()
    }

    /// The first group from a number on that is the size of a file with a new name; `usize::MAX` if
    /// there is none.
    fn next_size_with_name(&self, number: usize) -> usize {
        let sizes = &self.sizes_with_names;
        let first = sizes.partition_point(|size| *size < number);
        sizes.get(first).copied().unwrap_or(usize::MAX)
    }

    /// The sizes with names of files of which some of these groups are lost before, of those that a
    /// crash can cost.
    fn sizes_with(&self, lost: &[usize], micros: usize, events: usize) -> Vec<usize> {
        let sizes = &self.sizes_with_names;
        let first = lost.first().copied().unwrap_or(usize::MAX);
        let sizes = &sizes[sizes.partition_point(|size| *size < first)..];
        let is_with = |size: &usize| {
            let of_size = &self.groups[*size];
            let mut before = lost.iter().take_while(|group| *group < size);
            let is_open = of_size.micros.end <= micros && of_size.is_open(events);
            is_open && before.any(|group| self.groups[*group].file == of_size.file)
        };
        sizes.iter().copied().filter(is_with).collect()
    }

    /// The same as [`Self::lost_with`], with the sizes that came with later names of the same files,
    /// whether they have to be lost or not.
    pub(super) fn lost_with_sizes(
        &self,
        seeds: &[usize],
        micros: usize,
        events: usize,
    ) -> Vec<usize> {
        let lost = self.lost_with(seeds, micros, events);
        let sizes = self.sizes_with(&lost, micros, events);
        if sizes.is_empty() {
            return lost;
        }
        self.lost_with(&[lost, sizes].concat(), micros, events)
    }

    /// Finds the ways to tear each operation: without its last piece, the first one, or all between
    /// them. A few are enough: a record that is torn lacks its head, its end, or its middle.
    fn tear(&mut self, micros: &Micros) {
        for operation in 0..self.all.len() {
            let pieces = self.pieces(operation, micros);
            let [first, middle @ .., last] = &*pieces else {
                continue;
            };
            let parts = [
                std::slice::from_ref(last),
                std::slice::from_ref(first),
                middle,
            ];
            let cover = |group: &usize| self.groups[*group].cover;
            let all = self.all[operation].groups.clone();
            let of_part = |part: &[Range<usize>]| {
                let groups: Vec<_> = part.iter().cloned().flatten().collect();
                let lost = groups.iter().map(cover).min()?;
                let rest = all.clone().filter(|group| !groups.contains(group));
                let until = lost.min(rest.map(|group| cover(&group)).max()?);
                Some(Tear { groups, until })
            };
            self.all[operation].tears = parts.into_iter().filter_map(of_part).collect();
        }
    }

    /// The pieces into which the bytes of an operation are cut, as groups. Those in which the same
    /// bytes become one thing after the other are one piece.
    fn pieces(&self, operation: usize, micros: &Micros) -> Vec<Range<usize>> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut last_place = None;
        for group in self.all[operation].groups.clone() {
            let place = place_of(&micros.all[self.groups[group].micros.end - 1].effect);
            let is_bytes = place.is_some() && self.is_bytes(group);
            match pieces.last_mut() {
                _ if !is_bytes => {}
                Some(last) if place == last_place => last.end = group + 1,
                _ => pieces.push(group..group + 1),
            }
            if is_bytes {
                last_place = place;
            }
        }
        pieces
    }

    /// Says of each group which names wait for it: the rename that gives its file the name of
    /// another one waits for what the file has grown by.
    fn wait(&mut self) {
        let mut replaces: HashMap<FileId, usize> = HashMap::new();
        for operation in self
            .all
            .iter()
            .rev()
            .filter(|_| self.model.replace_by_rename)
        {
            let own = &mut self.groups[operation.groups.clone()];
            for group in own.iter_mut().filter(|group| group.is_size) {
                let replaced = replaces.get(&group.file).filter(|_| !group.is_named);
                group.awaited_by = replaced.copied().unwrap_or(usize::MAX);
            }
            let first = operation.groups.start;
            replaces.extend(operation.replaces_with.map(|file| (file, first)));
        }
    }
}

/// What is known of a file while operations are read.
#[derive(Debug, Clone, Default)]
struct Known {
    name: Option<Name>,
    parent: Option<FileId>,
    /// All directories that ever had a name of it.
    parents: BTreeSet<FileId>,
    /// The names that it has.
    names: BTreeSet<(FileId, Name)>,
    is_directory: bool,
    pages: BTreeMap<u64, Page>,
}

/// Which groups wrote to a page last.
#[derive(Debug, Clone, Default)]
struct Page {
    last: Option<usize>,
    /// To all of it, or when it had no place: nothing later is there without that.
    whole: Option<usize>,
    /// To its sectors since then.
    sectors: BTreeMap<u64, usize>,
}

impl Page {
    /// Notes that a group writes to these sectors, or to the whole page. Returns those that it
    /// follows: the last that wrote to the same sectors, or with `waits` to any.
    fn write(
        &mut self,
        group: usize,
        sectors: &Range<u64>,
        is_whole: bool,
        waits: bool,
    ) -> Vec<usize> {
        let is_met = |sector: &u64| is_whole || waits || sectors.contains(sector);
        let own = self.sectors.iter().filter(|(sector, _)| is_met(sector));
        let mut before: Vec<usize> = own.map(|(_, group)| *group).collect();
        // Who wrote to a sector since follows that one.
        let is_covered = !waits && !is_whole && before.len() as u64 == sectors.end - sectors.start;
        before.extend(self.whole.filter(|_| !is_covered));
        self.last = Some(group);
        if is_whole {
            self.whole = Some(group);
            self.sectors.clear();
        } else {
            let sectors = sectors.clone().map(|sector| (sector, group));
            self.sectors.extend(sectors);
        }
        before
    }
}

struct Reader<'a> {
    node: &'a Node,
    micros: &'a Micros,
    /// For each event, its groups.
    cuts: &'a [Vec<Cut>],
    sector_bytes: u64,
    words: Vec<Words>,
    this: Operations,
    /// For each group, what is lost with it.
    followers: Vec<Vec<u32>>,
    /// For each group, those that wrote to its pages next, to whichever sectors: a sync writes whole
    /// pages.
    page_mates: Vec<Vec<u32>>,
    /// Groups that nothing has made durable yet.
    open: Vec<usize>,
    /// Those of them that the disk has in its cache, until something empties that.
    unflushed: HashSet<usize>,
    /// Operations that have changed nothing that fdatasync waits for.
    idle: HashSet<usize>,
    /// How many groups there are before each event.
    groups_before: Vec<usize>,
    /// By file or directory, the operations that change its inode.
    touching: HashMap<FileId, Vec<usize>>,
    /// What was synced since all was.
    logged: HashSet<FileId>,
    /// Names that were removed from a directory which a log tree had already: the sync of a file
    /// that had one of them does not log that.
    left_out: HashSet<usize>,
    /// The last event that synced a file or directory.
    synced: HashMap<FileId, usize>,
    /// The first operation that may have come since then.
    first_since: usize,
    files: HashMap<FileId, Known>,
}

impl Reader<'_> {
    fn read_initial(&mut self) {
        for file in &self.node.initial {
            let known = self.files.entry(file.file).or_default();
            known.name = Some(file.name.clone());
            known.parent = file.parent;
            known.parents.extend(file.parent);
            known.is_directory = file.kind == FileKind::Directory;
            if let Some(parent) = file.parent {
                self.gains(file.file, (parent, &file.name));
            }
        }
    }

    fn read(&mut self, number: usize, event: &Event, op: &FileOp) {
        match op {
            FileOp::Sync { file, scope } => return self.sync(number, event, *file, *scope),
            FileOp::SyncAll => return self.sync_all(number, event),
            _ => {}
        }
        let parts = &self.cuts[number];
        if !parts.is_empty() {
            let first = self.this.groups.len();
            let operation = self.this.all.len();
            for part in 0..parts.len() {
                self.group(number, op, part);
            }
            self.words.push(Words {
                by_name: self.words(op),
                by_site: (kind_of_call(op), event.stack),
            });
            let replaces_with = match op {
                FileOp::Rename {
                    file,
                    replaced: Some(_),
                    exchange: false,
                    ..
                } => Some(*file),
                _ => None,
            };
            let grows = match op {
                FileOp::Write {
                    offset,
                    data,
                    size_before,
                    ..
                } => offset + data.len > *size_before,
                FileOp::Resize { .. } => true,
                _ => false,
            };
            let groups = first..self.this.groups.len();
            if self.leaves_logged(op) {
                self.left_out.insert(operation);
            }
            for file in touched(op) {
                let touching = self.touching.entry(file).or_default();
                if touching.last() != Some(&operation) {
                    touching.push(operation);
                }
            }
            self.this.all.push(Operation {
                event: number,
                groups,
                likeness: 0,
                grows,
                replaces_with,
                bytes_until: None,
                tears: Box::default(),
            });
        }
        self.log_new_name(number, op);
        self.remember(op);
        match op {
            FileOp::Unlink { file, .. }
            | FileOp::Rename {
                replaced: Some(file),
                exchange: false,
                ..
            } => self.reopen(number, *file),
            _ => {}
        }
    }

    /// Adds a part of an event's operation, the next one, as a group.
    fn group(&mut self, number: usize, op: &FileOp, part: usize) {
        let micros = self.micros;
        let cuts = &self.cuts[number];
        let (this, cut) = (self.this.groups.len(), &cuts[part]);
        let effect = &micros.all[cut.micros.start].effect;
        let before = (0..part).rev().find(|part| cuts[*part].repeats.is_empty());
        // Its number, and what it is.
        let before = before.map(|before| (this - part + before, &cuts[before]));
        let is_own = cut.repeats.is_empty();
        let requires_this = before.filter(|(_, cut)| {
            is_own && matches!(cut.requires, Some(Neighbour::Next | Neighbour::Paired))
        });
        let paired = requires_this.filter(|(_, cut)| cut.requires == Some(Neighbour::Paired));
        if is_own {
            self.open.push(this);
        }
        let repeats: Box<[usize]> = cut
            .repeats
            .iter()
            .map(|micro| self.group_of(*micro))
            .collect();
        for repeated in &repeats {
            self.followers[*repeated].push(this as u32);
        }
        let has_size =
            requires_this.is_some_and(|(_, cut)| is_size(&micros.all[cut.micros.start].effect));
        let is_new = cut.order == Order::After(number);
        for micro in &micros.all[cut.micros.clone()] {
            self.follow(&micro.effect, is_new, has_size);
        }
        if matches!(effect, Effect::SetSize { .. }) && cut.order != Order::Named {
            self.this.sizes_with_names.push(this);
        }
        if let Some((other, _)) = paired {
            self.this.groups[other].pair = this;
        }
        if cut.requires == Some(Neighbour::Previous) {
            self.followers[this - 1].push(this as u32);
        }
        let follower = requires_this.filter(|_| cut.requires != Some(Neighbour::Previous));
        let follower = follower.map(|(before, _)| before as u32);
        self.followers.push(Vec::from_iter(follower));
        self.page_mates.push(Vec::new());
        self.this.groups.push(Group {
            operation: self.this.all.len(),
            micros: cut.micros.clone(),
            cover: usize::MAX,
            reopened: usize::MAX,
            covered_again: usize::MAX,
            after: match cut.order {
                Order::Named => this,
                Order::InPlace => 0,
                Order::After(event) => self.groups_before[event],
            },
            is_new,
            is_named: cut.order == Order::Named,
            logged: if self.is_logged(op, effect) {
                number
            } else {
                usize::MAX
            },
            file: match effect {
                Effect::SetSize { file, .. } => *file,
                _ => op.subject(),
            },
            is_size: is_size(effect) && cut.micros.len() == 1,
            pair: paired.map_or(usize::MAX, |(before, _)| before),
            awaited_by: usize::MAX,
            repeats,
        });
    }

    /// The group of a micro that came before.
    fn group_of(&self, micro: usize) -> usize {
        let groups = &self.this.groups;
        groups.partition_point(|group| group.micros.end <= micro)
    }

    /// Has the next group follow those that wrote to the same sectors last. One that gives pages
    /// their place follows all that wrote to them, and so does one with a size that is kept only
    /// once the disk has the whole page.
    fn follow(&mut self, effect: &Effect, is_new: bool, has_size: bool) {
        let Effect::Overwrite {
            file,
            offset,
            content,
        } = effect
        else {
            return;
        };
        let range = *offset..*offset + content.len();
        let next = self.this.groups.len();
        let pages = &mut self.files.entry(*file).or_default().pages;
        for page in range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) {
            let of_page = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
            let (start, end) = (range.start.max(of_page.start), range.end.min(of_page.end));
            let sectors = start / self.sector_bytes..end.div_ceil(self.sector_bytes);
            let is_whole = is_new || sectors.end - sectors.start >= PAGE_BYTES / self.sector_bytes;
            let known = pages.entry(page).or_default();
            if let Some(last) = known.last.filter(|last| *last != next) {
                self.page_mates[last].push(next as u32);
            }
            for before in known.write(next, &sectors, is_whole, has_size) {
                let followers = &mut self.followers[before];
                if followers.last() != Some(&(next as u32)) {
                    followers.push(next as u32);
                }
            }
        }
    }

    /// What makes operations of several nodes alike: what was done, and the last names of the
    /// files, in which numbers stand for any.
    fn words(&self, op: &FileOp) -> String {
        let plain = |name: &[u8]| {
            let mut words = String::new();
            for byte in name {
                match byte {
                    b'0'..=b'9' if words.ends_with('#') => {}
                    b'0'..=b'9' => words.push('#'),
                    _ => words.push(*byte as char),
                }
            }
            words
        };
        let of = |file: &FileId| {
            self.files
                .get(file)
                .and_then(|file| file.name.as_ref())
                .map_or("?".into(), |name| plain(name))
        };
        match op {
            FileOp::Create { name, .. }
            | FileOp::Link { name, .. }
            | FileOp::Unlink { name, .. } => format!("{} {}", kind_of_call(op), plain(name)),
            FileOp::Rename { names, .. } => {
                format!("rename {} {}", plain(&names.from.1), plain(&names.to.1))
            }
            FileOp::SetXattr { file, name, .. } => {
                format!("setxattr {} {}", of(file), plain(name))
            }
            op => format!("{} {}", kind_of_call(op), of(&op.subject())),
        }
    }

    fn remember(&mut self, op: &FileOp) {
        if let FileOp::Create { file, kind, .. } = op {
            let known = self.files.entry(*file).or_default();
            known.is_directory = *kind == FileKind::Directory;
        }
        match op {
            FileOp::Create {
                parent,
                name: word,
                file,
                ..
            }
            | FileOp::Link {
                parent,
                name: word,
                file,
            } => self.gains(*file, (*parent, word)),
            FileOp::Unlink { parent, name, file } => self.loses(*file, (*parent, name)),
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange,
            } => {
                let (from, to) = (&names.from, &names.to);
                let (from, to) = ((from.0, &from.1), (to.0, &to.1));
                self.loses(*file, from);
                if let Some(other) = replaced {
                    self.loses(*other, to);
                }
                self.gains(*file, to);
                if let (Some(other), true) = (replaced, exchange) {
                    self.gains(*other, from);
                }
            }
            FileOp::Resize { file, to, .. } => {
                let known = self.files.entry(*file).or_default();
                known.pages.split_off(&to.div_ceil(PAGE_BYTES));
            }
            _ => {}
        }
    }

    /// A file has one more name.
    fn gains(&mut self, file: FileId, (parent, name): (FileId, &Name)) {
        let known = self.files.entry(file).or_default();
        (known.name, known.parent) = (Some(name.clone()), Some(parent));
        known.parents.insert(parent);
        known.names.insert((parent, name.clone()));
    }

    /// A file has a name less.
    fn loses(&mut self, file: FileId, (parent, name): (FileId, &Name)) {
        let known = self.files.entry(file).or_default();
        known.names.remove(&(parent, name.clone()));
    }

    fn sync_all(&mut self, number: usize, event: &Event) {
        let flushes = self.this.model.sync_flushes;
        self.cover(number, event, |this, group| {
            let group = &this.this.groups[group];
            flushes || group.is_named || group.is_new
        });
        let open = self.open.iter().copied();
        let written =
            open.filter(|group| self.is_before(self.this.groups[*group].operation, number, event));
        self.unflushed = written.collect();
        self.logged.clear();
        let mut since = self.first_since..self.this.all.len();
        let first = since.find(|operation| !self.is_before(*operation, number, event));
        self.first_since = first.unwrap_or(self.this.all.len());
    }

    fn sync(&mut self, number: usize, event: &Event, file: FileId, scope: SyncScope) {
        match self.this.model.log {
            Log::None => {
                self.cover(number, event, |this, group| {
                    let all = &this.micros.all[this.this.groups[group].micros.clone()];
                    all.iter().all(|micro| is_of(&micro.effect, file, scope))
                });
                // Of a rename to another directory the sync of one of the two keeps a part.
                if self.has_split(number) {
                    self.this.syncs.push(number);
                }
            }
            Log::Journal => {
                let idle = self.growth_taken_back(number, event, file, scope);
                if !idle.is_empty() {
                    self.this.syncs.push(number);
                }
                self.idle.extend(&idle);
                let names = self.committed(number, event, (file, scope));
                let unflushed = std::mem::take(&mut self.unflushed);
                self.cover(number, event, |this, group| {
                    let Group {
                        operation,
                        is_named,
                        ..
                    } = this.this.groups[group];
                    // To lose what has changed nothing would be to lose a part of it.
                    (is_named && group < names)
                        || idle.contains(&operation)
                        || this.is_data_of(group, file, scope)
                        || unflushed.contains(&group)
                });
            }
            Log::LogTree => self.sync_in_log_tree(number, event, file, scope),
        }
    }

    fn op(&self, operation: usize) -> &FileOp {
        match &self.node.events[self.this.all[operation].event].action {
            Action::File(op) => op,
            _ => unreachable!("operations are made of file operations"),
        }
    }

    /// The first of the groups of names that a sync of a file does not find committed, if all before
    /// the last of its changes are.
    fn committed(&self, number: usize, sync: &Event, (file, scope): (FileId, SyncScope)) -> usize {
        let is_directory = self
            .files
            .get(&file)
            .is_some_and(|known| known.is_directory);
        if is_directory && self.this.model.data_sync == DataSync::Sizes {
            return self.groups_before[number];
        }
        let mut committed = 0;
        let touching = self.touching.get(&file).into_iter().flatten();
        for operation in touching.rev().copied() {
            let (op, groups) = (self.op(operation), self.this.all[operation].groups.clone());
            if groups.end <= committed {
                break;
            }
            let is_idle = is_data(scope) && self.idle.contains(&operation);
            if !self.is_before(operation, number, sync) || is_idle {
                continue;
            }
            let is_exchange = matches!(op, FileOp::Rename { exchange: true, .. });
            let by_directory = self.this.model.exchange == Exchange::Directories;
            if is_exchange && by_directory && !Self::is_in(op, file) {
                continue;
            }
            let names = match scope {
                SyncScope::File | SyncScope::FileRange { .. } => true,
                SyncScope::Data | SyncScope::Range { .. } => match op {
                    FileOp::SetXattr { .. } => false,
                    FileOp::Create { file: new, .. } if *new == file => true,
                    FileOp::Write { .. } | FileOp::Resize { .. } | FileOp::Zero { .. } => true,
                    _ => self.this.model.data_sync == DataSync::Names,
                },
            };
            for group in groups {
                let Group {
                    is_named, after, ..
                } = self.this.groups[group];
                if is_named && names {
                    committed = committed.max(group + 1);
                } else if self.is_data_of(group, file, scope) && !self.may_be_none(group, op) {
                    committed = committed.max(after);
                }
            }
        }
        committed
    }

    /// Writes of which nothing is left, with the truncation that took them back, where the file may
    /// have had the same size on the disk all the time: nobody has waited for what it grew by, which
    /// had no place there yet. They are nothing that fdatasync waits for.
    fn growth_taken_back(
        &self,
        number: usize,
        sync: &Event,
        file: FileId,
        scope: SyncScope,
    ) -> Vec<usize> {
        if !is_data(scope) || self.this.model.data_sync != DataSync::Sizes {
            return Vec::new();
        }
        let is_open = |operation: usize| {
            let mut groups = self.this.all[operation].groups.clone();
            groups.all(|group| self.this.groups[group].cover == usize::MAX)
        };
        let touching = self
            .touching
            .get(&file)
            .into_iter()
            .flatten()
            .rev()
            .copied();
        let open = touching
            .filter(|operation| self.is_before(*operation, number, sync))
            .filter(|operation| !self.idle.contains(operation))
            .take_while(|operation| is_open(*operation));
        let mut taken_back = Vec::new();
        let mut size = None;
        for operation in open {
            match (self.op(operation), size) {
                (FileOp::Resize { from, to, .. }, None) if to < from => {
                    size = Some(*to);
                    taken_back.push(operation);
                }
                (FileOp::Resize { .. } | FileOp::Zero { .. } | FileOp::Create { .. }, _) => break,
                (
                    FileOp::Write {
                        offset,
                        size_before,
                        ..
                    },
                    Some(to),
                ) => {
                    // In the last block, which has its place, the file grows on the disk at once;
                    // it does not if it has filled that.
                    let end_of_block = to.next_multiple_of(PAGE_BYTES);
                    if to < end_of_block && *offset < end_of_block {
                        break;
                    }
                    taken_back.push(operation);
                    if *size_before == to {
                        return taken_back;
                    }
                }
                _ => {}
            }
        }
        Vec::new()
    }

    /// Whether a group is a size that the file may have had before on the disk.
    fn may_be_none(&self, group: usize, op: &FileOp) -> bool {
        let micros = &self.this.groups[group].micros;
        match (&self.micros.all[micros.start].effect, op) {
            (
                Effect::Grow { size, .. },
                FileOp::Write {
                    offset,
                    size_before,
                    ..
                },
            ) => {
                let bytes = self.this.groups.get(group + 1);
                let is_new = bytes.is_some_and(|bytes| bytes.is_new);
                // Only xfs makes zeros of the rest of the last page, and writes it for that.
                let is_gap = size <= offset && self.this.model.growth != Growth::WithData;
                (!is_new || is_gap) && *size <= *size_before.max(offset)
            }
            _ => false,
        }
    }

    /// Whether a rename is from or to a directory.
    fn is_in(op: &FileOp, directory: FileId) -> bool {
        let FileOp::Rename { names, .. } = op else {
            return false;
        };
        [names.from.0, names.to.0].contains(&directory)
    }

    fn is_data_of(&self, group: usize, file: FileId, scope: SyncScope) -> bool {
        let Group {
            is_named, micros, ..
        } = &self.this.groups[group];
        let is_part = matches!(scope, SyncScope::Range { .. } | SyncScope::FileRange { .. });
        let is_in_doubt =
            is_part && self.may_be_none(group, self.op(self.this.groups[group].operation));
        !is_named
            && !is_in_doubt
            && self.micros.all[micros.clone()]
                .iter()
                .all(|micro| is_of(&micro.effect, file, scope))
    }

    /// Whether an operation is over when a sync begins: what overlaps it in time may not be
    /// covered.
    fn is_before(&self, operation: usize, number: usize, sync: &Event) -> bool {
        let place = self.this.all[operation].event;
        let event = &self.node.events[place];
        let same_thread = (event.process, event.thread) == (sync.process, sync.thread);
        place < number && (same_thread || event.end_ns <= sync.start_ns)
    }

    /// Whether a sync has made a part of an operation durable, and left another part.
    fn has_split(&self, sync: usize) -> bool {
        self.open.iter().any(|group| {
            let operation = &self.this.all[self.this.groups[*group].operation];
            let mut parts = self.this.groups[operation.groups.clone()].iter();
            parts.any(|part| part.cover == sync)
        })
    }

    fn cover(&mut self, number: usize, sync: &Event, is_covered: impl Fn(&Self, usize) -> bool) {
        let open = std::mem::take(&mut self.open);
        let (mut covered, mut left): (HashSet<usize>, Vec<usize>) = Default::default();
        // The last first: what is covered is not there without what it needs.
        for group in open.into_iter().rev() {
            let is_before = self.is_before(self.this.groups[group].operation, number, sync);
            let is_needed = || {
                let (followers, page_mates) = (&self.followers[group], &self.page_mates[group]);
                let mut later = followers.iter().chain(page_mates);
                later.any(|later| covered.contains(&(*later as usize)))
            };
            if is_before && (is_covered(self, group) || is_needed()) {
                covered.insert(group);
            } else {
                left.push(group);
            }
        }
        left.reverse();
        self.open = left;
        for group in covered {
            let group = &mut self.this.groups[group];
            if group.reopened == usize::MAX {
                group.cover = number;
            } else {
                group.covered_again = number;
            }
        }
    }
}

/// Those of some numbers, ascending, that are in a range.
fn within(numbers: &[usize], range: Range<usize>) -> impl Iterator<Item = usize> {
    let first = numbers.partition_point(|number| *number < range.start);
    let after = numbers[first..].iter().copied();
    after.take_while(move |number| *number < range.end)
}

/// What was done, in one word.
fn kind_of_call(op: &FileOp) -> &'static str {
    match op {
        FileOp::Create { .. } | FileOp::CreateNameless { .. } => "create",
        FileOp::Link { .. } => "link",
        FileOp::Unlink { .. } => "unlink",
        FileOp::Rename { .. } => "rename",
        FileOp::Write {
            offset,
            size_before,
            ..
        } if offset < size_before => "write",
        FileOp::Write { .. } => "append",
        FileOp::Resize { from, to, .. } if to < from => "truncate",
        FileOp::Resize { .. } => "grow",
        FileOp::Zero { .. } => "zero",
        FileOp::SetMode { .. } => "chmod",
        FileOp::SetXattr { .. } => "setxattr",
        FileOp::Sync { .. } | FileOp::SyncAll => "sync",
    }
}

/// Whether a sync waits for no more than what is needed to read the bytes.
fn is_data(scope: SyncScope) -> bool {
    matches!(scope, SyncScope::Data | SyncScope::Range { .. })
}

/// The files and directories of which an operation changes the inode.
fn touched(op: &FileOp) -> Vec<FileId> {
    let mut touched = vec![op.subject()];
    match op {
        FileOp::Create { parent, .. }
        | FileOp::Link { parent, .. }
        | FileOp::Unlink { parent, .. } => touched.push(*parent),
        FileOp::Rename {
            names, replaced, ..
        } => {
            touched.extend([names.from.0, names.to.0]);
            touched.extend(replaced);
        }
        _ => {}
    }
    touched
}

/// Whether an effect is of what a sync of a file is about, and no more.
fn is_of(effect: &Effect, synced: FileId, scope: SyncScope) -> bool {
    match (effect, scope) {
        (
            Effect::Write {
                file,
                offset,
                content,
            }
            | Effect::Overwrite {
                file,
                offset,
                content,
            },
            SyncScope::Range { offset: start, len } | SyncScope::FileRange { offset: start, len },
        ) => {
            let pages = start / PAGE_BYTES * PAGE_BYTES..(start + len).next_multiple_of(PAGE_BYTES);
            *file == synced && pages.start <= *offset && offset + content.len() <= pages.end
        }
        (
            Effect::Grow { file, size },
            SyncScope::Range { offset, len } | SyncScope::FileRange { offset, len },
        ) => {
            *file == synced
                && (offset + 1..=(offset + len).next_multiple_of(PAGE_BYTES)).contains(size)
        }
        (
            Effect::Write { file, .. }
            | Effect::Overwrite { file, .. }
            | Effect::Grow { file, .. }
            | Effect::SetSize { file, .. },
            SyncScope::File | SyncScope::Data,
        )
        | (
            Effect::SetMode { file, .. }
            | Effect::SetXattr { file, .. }
            | Effect::NewFile { file, .. },
            SyncScope::File | SyncScope::FileRange { .. },
        ) => *file == synced,
        (
            Effect::SetEntry { parent, .. } | Effect::RemoveEntry { parent, .. },
            SyncScope::File | SyncScope::Data,
        ) => *parent == synced,
        _ => false,
    }
}

/// Which bytes of a file an effect changes: the first, and how many.
fn place_of(effect: &Effect) -> Option<(u64, u64)> {
    match effect {
        Effect::Write {
            offset, content, ..
        }
        | Effect::Overwrite {
            offset, content, ..
        } => Some((*offset, content.len())),
        _ => None,
    }
}

/// Whether an effect makes a file larger, and says nothing of what is in it.
fn is_size(effect: &Effect) -> bool {
    matches!(effect, Effect::Grow { .. })
}
