//! What is lost with some groups: all that the file system keeps only together with one of them.

use std::collections::{HashMap, HashSet};

use itertools::Itertools;
use trace::FileId;

use super::{Group, Operations};
use crate::nodes::model::Log;

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

/// For each group, what is lost with it: those that wrote to its pages of the file next, and what
/// its operation cannot do without it.
#[derive(Debug, Clone, Default)]
pub(super) struct Followers {
    /// Those of all groups, one after the other.
    all: Vec<u32>,
    /// Where those of each group end.
    ends: Vec<u32>,
}

impl Followers {
    pub(super) fn of(lists: Vec<Vec<u32>>) -> Self {
        let mut this = Self::default();
        for list in lists {
            this.all.extend(list);
            this.ends.push(this.all.len() as u32);
        }
        this.all.shrink_to_fit();
        this
    }

    pub(super) fn get(&self, group: usize) -> impl Iterator<Item = usize> {
        let start = group.checked_sub(1).map_or(0, |before| self.ends[before]);
        let own = &self.all[start as usize..self.ends[group] as usize];
        own.iter().map(|follower| *follower as usize)
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
        let sizes = &sizes[sizes.partition_point(|size| *size < first)..];
        let is_with = |size: &usize| {
            let of_size = &self.groups[*size];
            let mut before = lost.iter().take_while(|group| *group < size);
            let is_open = of_size.micros.end <= micros && of_size.is_open(events);
            is_open && before.any(|group| self.groups[*group].file == of_size.file)
        };
        sizes.iter().copied().filter(is_with).collect()
    }

    /// The first group from a number on that is the size of a file with a new name; `usize::MAX` if
    /// there is none.
    fn next_size_with_name(&self, number: usize) -> usize {
        let sizes = &self.sizes_with_names;
        let first = sizes.partition_point(|size| *size < number);
        sizes.get(first).copied().unwrap_or(usize::MAX)
    }

    /// Whether a group is the size of a file with a new name.
    pub(super) fn is_size_with_name(&self, group: usize) -> bool {
        self.sizes_with_names.binary_search(&group).is_ok()
    }

    /// Says of each group which names wait for it: the rename that gives its file the name of
    /// another one waits for what the file has grown by.
    pub(super) fn wait(&mut self) {
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
