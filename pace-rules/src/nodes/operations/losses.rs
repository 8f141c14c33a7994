//! What is lost with some groups: all that the file system keeps only together with one of them.

use std::collections::{HashMap, HashSet};

use itertools::Itertools;
use trace::FileId;

use super::Operations;
use super::group::Follows;
use crate::nodes::model::Log;
use crate::nodes::narrow::Narrow;

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

/// Groups that are lost, while those are looked for that are lost with them.
struct Losing<'a> {
    operations: &'a Operations,
    /// Of the groups before this one each is on the disk, or lost.
    end: usize,
    events: usize,
    is_lost: Marks,
    /// The files of which something is lost.
    files: HashSet<FileId>,
    /// What the log has of what is lost.
    log: LostOfLog,
    /// The first group of names that is lost, or has to wait for what is; `usize::MAX` if there is
    /// none.
    names_from: usize,
}

/// What is lost of what a log tree would have, by the order of operations. The log is written as a
/// whole: what it has is not on the disk without what it had before. If it has a group, nothing was
/// committed since its file was logged, so that a file that changed after that and was logged is in
/// there too.
#[derive(Default)]
struct LostOfLog {
    /// The operation of the last group that was added, and the latest change after which a file of
    /// its groups was logged.
    operation: usize,
    changed: Option<Narrow>,
    /// The same of all operations before it.
    changed_before: Option<Narrow>,
    /// The directories within which something was renamed, with the first operation that did so.
    renamed_in: HashMap<FileId, usize>,
    /// The operations of which the names are lost that they gave.
    named: HashSet<usize>,
}

impl LostOfLog {
    /// Adds a group that is lost. They come in the order of operations.
    fn add(&mut self, operation: usize, follows: Follows) {
        if operation != self.operation {
            self.operation = operation;
            self.changed_before = self.changed_before.max(self.changed.take());
        }
        let changed = Some(follows.changed).filter(|changed| *changed < Narrow::NEVER);
        self.changed = self.changed.max(changed);
        if let Some(directory) = follows.renamed_in {
            self.renamed_in.entry(directory).or_insert(operation);
        }
    }

    /// Whether an operation, the last one or a later one, goes with what is lost before it.
    fn takes(&self, operation: usize, follows: Follows) -> bool {
        let is_before = |renamed: &usize| *renamed < operation;
        let directory = follows.renamed_in.filter(|_| follows.has_others);
        let renamed = directory.and_then(|directory| self.renamed_in.get(&directory));
        let changed = self.changed_before(operation);
        changed.is_some_and(|changed| changed >= follows.logged) || renamed.is_some_and(is_before)
    }

    /// The latest change of what is lost before an operation, the last one or a later one.
    fn changed_before(&self, operation: usize) -> Option<Narrow> {
        if operation == self.operation {
            self.changed_before
        } else {
            self.changed_before.max(self.changed)
        }
    }
}

impl<'a> Losing<'a> {
    /// Of some groups, at least one of them, ascending.
    fn new(operations: &'a Operations, seeds: &[usize], micros: usize, events: usize) -> Self {
        let (first, last) = (seeds[0], seeds[seeds.len() - 1]);
        // What is lost takes nothing with it that was done by earlier operations.
        let operation = operations.groups[first].operation();
        let start = operations.all[operation].groups().start;
        let end = operations.groups_until(micros);
        let mut is_lost = Marks::new(start, end.max(last + 1));
        for seed in seeds {
            is_lost.add(*seed);
        }
        Self {
            operations,
            end,
            events,
            is_lost,
            files: HashSet::new(),
            log: LostOfLog::default(),
            names_from: usize::MAX,
        }
    }

    /// All that are lost, ascending.
    fn all(mut self) -> Vec<usize> {
        let mut number = self.is_lost.next(self.is_lost.start);
        while number < self.is_lost.end {
            if self.goes(number) && self.is_there(number) {
                self.is_lost.add(number);
            }
            let next = if self.is_lost.contains(number) {
                self.take_with(number)
            } else {
                number + 1
            };
            // Of a run of many calls most are neither lost nor wait for anything that is.
            let size = self.operations.next_size_with_name(next);
            let names = self.names_from.max(next);
            number = self.is_lost.next(next).min(size).min(names);
        }
        self.is_lost.all()
    }

    /// Whether a group has come to the disk, and can be lost.
    fn is_there(&self, number: usize) -> bool {
        number < self.end && self.operations.groups[number].is_open(self.events)
    }

    /// Whether a group goes with what is lost before it, without being said to follow that.
    fn goes(&self, number: usize) -> bool {
        let group = &self.operations.groups[number];
        let is_logged = group.logged.get() < self.events;
        let is_behind = group.is_named || group.after.get() > self.names_from;
        let waits = is_behind && (number == self.names_from || !is_logged);
        // Only a log tree has a size with a name and not what it is the size of.
        let goes_with_file = self.operations.is_size_with_name(number)
            && !is_logged
            && self.files.contains(&group.file);
        (number >= self.names_from && waits) || goes_with_file || self.log_takes(number)
    }

    /// Whether a group goes with what is lost of the log.
    fn log_takes(&self, number: usize) -> bool {
        let group = &self.operations.groups[number];
        // What a sync brought into the log is there whatever else is, and with somebody else's name
        // comes no more than what that needs.
        if group.reopened().is_some_and(|event| event < self.events) {
            return false;
        }
        let follows = self.operations.follows(number);
        let follows = follows.filter(|_| !group.is_in_the_way(self.events));
        let mut needs = group.needs();
        needs.any(|operation| self.log.named.contains(&operation))
            || follows.is_some_and(|follows| self.log.takes(group.operation(), follows))
    }

    /// Has go with a group that is lost what follows it. Returns the group to be looked at next.
    fn take_with(&mut self, number: usize) -> usize {
        let group = &self.operations.groups[number];
        let mut next = number + 1;
        let operations = self.operations;
        let followers = operations.followers.get(number);
        for follower in followers.chain(group.pair()) {
            let is_half = self.is_half(follower) && Some(follower) != group.pair();
            // One that comes before it has followers of its own.
            if !is_half && self.is_there(follower) && self.is_lost.add(follower) {
                next = next.min(follower);
            }
        }
        // A file without a name is in the log as such, and nothing there goes with its former names.
        if !group.is_nameless(self.events) {
            if group.gives_name() {
                self.log.named.insert(group.operation());
            }
            if let Some(follows) = operations.follows(number) {
                self.log.add(group.operation(), follows);
            }
        }
        let named = if group.is_named { number } else { usize::MAX };
        self.names_from = self.names_from.min(group.awaited_by()).min(named);
        self.files.insert(group.file);
        next
    }

    /// Whether a group is a name in the log of its own: such a one may be kept by half.
    fn is_half(&self, number: usize) -> bool {
        let group = &self.operations.groups[number];
        group.is_named && group.logged.get() < self.events && !group.goes_along()
    }
}

impl Operations {
    /// What is lost with these groups, of those whose micros come before `micros`: all that the
    /// file system keeps only together with one of them, but what is durable. Ascending.
    pub(in crate::nodes) fn lost_with(
        &self,
        seeds: &[usize],
        micros: usize,
        events: usize,
    ) -> Vec<usize> {
        let mut lost = self.lost_after(seeds, micros, events);
        loop {
            let undone = self.undone(&lost, micros, events);
            if undone.is_empty() {
                return lost;
            }
            let more = self.lost_after(&[&lost[..], &undone].concat(), micros, events);
            // What the log has for certain is kept all the same.
            if more.len() <= lost.len() {
                return lost;
            }
            lost = more;
        }
    }

    /// What is not kept without these groups though it came before them, and is not among them.
    fn undone(&self, lost: &[usize], micros: usize, events: usize) -> Vec<usize> {
        let is_there = |group: &usize| {
            let of_group = &self.groups[*group];
            of_group.is_open(events) && of_group.micros().end <= micros
        };
        let undone = lost.iter();
        let undone = undone.flat_map(|group| self.groups[*group].undoes(events));
        let undone = undone.filter(|group| is_there(group) && lost.binary_search(group).is_err());
        undone.collect()
    }

    /// The same, of what came after them.
    fn lost_after(&self, seeds: &[usize], micros: usize, events: usize) -> Vec<usize> {
        let own = seeds
            .iter()
            .copied()
            .filter(|seed| !self.groups[*seed].is_repetition());
        let seeds: Vec<_> = own.sorted().dedup().collect();
        if self.model.log == Log::None || seeds.is_empty() {
            return seeds;
        }
        let lost = Losing::new(self, &seeds, micros, events).all();
        let kept = self.kept_by_log(&lost, events);
        let left: Vec<_> = seeds
            .iter()
            .copied()
            .filter(|seed| kept.binary_search(seed).is_err())
            .collect();
        if left.len() == seeds.len() || left.is_empty() {
            return lost;
        }
        self.lost_after(&left, micros, events)
    }

    /// Those of these groups that are not lost with all the others: a name that was not committed
    /// is lost with those, so nothing was since then, and the log has what follows what changed in
    /// it after that and was logged.
    fn kept_by_log(&self, lost: &[usize], events: usize) -> Vec<usize> {
        // A name that was durable and is not any more was lost with the log that was written after it
        // ceased to be.
        let is_name =
            |group: &&usize| self.groups[**group].is_named && !self.is_size_with_name(**group);
        let names = lost.iter().filter(is_name);
        let Some(first) = names.map(|group| self.event_of(*group)).min() else {
            return Vec::new();
        };
        let reopened = lost
            .iter()
            .filter_map(|group| self.groups[*group].reopened());
        let written = reopened.filter(|reopened| *reopened < events).max();
        let is_kept = |group: &&usize| {
            // The size that comes with a name can be that of bytes that were logged before.
            let follows = self.follows(**group);
            let is_written_later = written.is_some_and(|event| self.event_of(**group) <= event);
            let is_logged = |follows: Follows| {
                (follows.is_written(events) || (is_written_later && follows.is_certain()))
                    && first <= follows.changed.get()
            };
            !self.is_size_with_name(**group) && follows.is_some_and(is_logged)
        };
        lost.iter().filter(is_kept).copied().collect()
    }

    /// Takes from some groups the names that are durable if something was committed after the latest
    /// change of what the log has else.
    pub(in crate::nodes) fn commit_late(&self, groups: &mut Vec<usize>, events: usize) {
        let follows = groups.iter().filter_map(|group| self.follows(*group));
        let written = follows.filter(|follows| follows.is_written(events));
        let Some(commit) = written.map(|follows| follows.changed.get()).max() else {
            return;
        };
        groups.retain(|group| !self.is_committed_name(*group) || self.event_of(*group) > commit);
    }

    /// Whether two groups are not both lost in a crash after so many events.
    pub(in crate::nodes) fn exclude(&self, one: usize, other: usize, events: usize) -> bool {
        !self.kept_by_log(&[one, other], events).is_empty()
    }

    /// Whether a commit makes a group durable, whatever was written of its file.
    fn is_committed_name(&self, group: usize) -> bool {
        let of_group = &self.groups[group];
        of_group.is_named && !of_group.is_reopened() && !self.is_size_with_name(group)
    }

    fn event_of(&self, group: usize) -> usize {
        self.all[self.groups[group].operation()].event()
    }

    /// How many groups have all their micros among the first so many.
    pub(in crate::nodes) fn groups_until(&self, micros: usize) -> usize {
        self.groups
            .partition_point(|group| group.micros().end <= micros)
    }

    /// The same as [`Self::lost_with`], with the sizes that came with later names of the same files,
    /// whether they have to be lost or not.
    pub(in crate::nodes) fn lost_with_sizes(
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

    /// The sizes with names of files of which some of these groups are lost before, of those that a
    /// crash can cost.
    fn sizes_with(&self, lost: &[usize], micros: usize, events: usize) -> Vec<usize> {
        let sizes = &self.sizes_with_names;
        let first = lost.first().copied().unwrap_or(usize::MAX);
        let sizes = &sizes[sizes.partition_point(|size| size.get() < first)..];
        let is_with = |size: &usize| {
            let of_size = &self.groups[*size];
            let mut before = lost.iter().take_while(|group| *group < size);
            let is_open = of_size.micros().end <= micros && of_size.is_open(events);
            is_open && before.any(|group| self.groups[*group].file == of_size.file)
        };
        sizes
            .iter()
            .map(|size| size.get())
            .filter(is_with)
            .collect()
    }

    /// The first group from a number on that is the size of a file with a new name; `usize::MAX` if
    /// there is none.
    fn next_size_with_name(&self, number: usize) -> usize {
        let sizes = &self.sizes_with_names;
        let first = sizes.partition_point(|size| size.get() < number);
        sizes.get(first).map_or(usize::MAX, |size| size.get())
    }

    /// Since when the log has what a group is about, if it is there because of that.
    pub(super) fn follows(&self, group: usize) -> Option<Follows> {
        let number = |(group, _): &(Narrow, Follows)| group.get();
        let place = self.follows.binary_search_by_key(&group, number).ok()?;
        Some(self.follows[place].1)
    }

    /// Whether a group is the size of a file with a new name.
    pub(super) fn is_size_with_name(&self, group: usize) -> bool {
        let number = |size: &Narrow| size.get();
        self.sizes_with_names
            .binary_search_by_key(&group, number)
            .is_ok()
    }

    /// Says of each group which names wait for it: the rename that gives its file the name of
    /// another one waits for what the file has grown by. `replacing` are the operations that do
    /// so, ascending, with the files. It does not wait for `reserved`, sizes for which no space has to
    /// be found: ext4_alloc_da_blocks looks for delayed blocks only.
    pub(super) fn wait(&mut self, replacing: &[(usize, FileId)], reserved: &HashSet<usize>) {
        if !self.model.replace_by_rename {
            return;
        }
        let mut replacing = replacing.iter().rev().peekable();
        let mut replaces: HashMap<FileId, usize> = HashMap::new();
        for (number, operation) in self.all.iter().enumerate().rev() {
            let numbers = operation.groups();
            let own = self.groups[numbers.clone()].iter_mut().zip(numbers);
            let sizes = own.filter(|(group, number)| group.is_size && !reserved.contains(number));
            for (group, _) in sizes {
                let replaced = replaces.get(&group.file).filter(|_| !group.is_named);
                if let Some(replaced) = replaced {
                    group.rare_mut().awaited_by = Narrow::new(*replaced);
                }
            }
            if let Some((_, file)) = replacing.next_if(|(replacing, _)| *replacing == number) {
                replaces.insert(*file, operation.groups().start);
            }
        }
    }
}
