//! A node's operations as the rules see them: what can be lost of each, until which call, and what
//! goes with it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::Effect;
use super::alike::Words;
use super::micro::Micros;
use super::model::{DataOrder, Growth, Log, Model};
use trace::{Action, Event, FileId, FileOp, Name, Node, SyncScope};

/// msync and what the page cache keeps are whole pages.
const PAGE_BYTES: u64 = 4096;

/// What persists as a whole.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// The operation it is part of, as an index.
    pub(super) operation: usize,
    /// Its micros.
    pub(super) micros: Range<usize>,
    /// The event behind whose return it is durable; `usize::MAX` if nothing made it so.
    pub(super) cover: usize,
    kind: Kind,
    file: FileId,
    /// The next ones that wrote to its pages of the file.
    followers: Vec<usize>,
}

/// What a group is to the order in which a file system keeps things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Names, sizes and modes, of which a journal keeps the order.
    Named,
    /// Data in new blocks, which wait for what was done to names before.
    Placed,
    /// Data that can be kept whatever else is.
    Free,
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
    /// Whether it follows the emptying of the file that it appends to.
    refills: bool,
}

/// A node's operations, in the order in which they returned. One that leaves nothing to lose is
/// none.
#[derive(Debug, Clone)]
pub(super) struct Operations {
    pub(super) all: Vec<Operation>,
    pub(super) groups: Vec<Group>,
    /// Of the events, those that somebody else can know of: as `told[n]`, how many of the first
    /// `n`.
    told: Vec<usize>,
    /// The same of those that wait for another node.
    heard: Vec<usize>,
    /// The events that make something durable.
    syncs: Vec<usize>,
    model: &'static Model,
}

impl Operations {
    /// Those of a node, and what there is to know of each to find the like of it on other nodes.
    pub(super) fn of(node: &Node, micros: &Micros, model: &'static Model) -> (Self, Vec<Words>) {
        let mut reader = Reader {
            node,
            micros,
            words: Vec::new(),
            this: Self {
                all: Vec::new(),
                groups: Vec::new(),
                told: vec![0],
                heard: vec![0],
                syncs: Vec::new(),
                model,
            },
            open: Vec::new(),
            files: HashMap::new(),
        };
        reader.read_initial();
        for (number, event) in node.events.iter().enumerate() {
            let tells = matches!(event.action, Action::Send(_) | Action::Mark { .. });
            let told = reader.this.told[number] + usize::from(tells);
            reader.this.told.push(told);
            let heard =
                reader.this.heard[number] + usize::from(matches!(event.action, Action::Receive(_)));
            reader.this.heard.push(heard);
            if matches!(
                event.action,
                Action::File(FileOp::Sync { .. } | FileOp::SyncAll)
            ) {
                reader.this.syncs.push(number);
            }
            if let Action::File(op) = &event.action {
                reader.read(number, event, op);
            }
        }
        (reader.this, reader.words)
    }

    /// Whether somebody else can know of an event from `from` on and before `to`.
    pub(super) fn tells(&self, from: usize, to: usize) -> bool {
        from < to && self.told[to] > self.told[from]
    }

    /// Numbers of events behind `events` and up to `most` with which more is durable, and other
    /// things are lost together: where a sync keeps something without all that was before. Its call
    /// has begun, as nothing before it waits for others; what it keeps can be on the disk before it
    /// returns.
    pub(super) fn synced(&self, events: usize, most: usize) -> impl Iterator<Item = usize> {
        let syncs = if self.model.log == Log::LogTree {
            self.syncs.as_slice()
        } else {
            &[]
        };
        let first = syncs.partition_point(|sync| *sync < events);
        let behind = syncs[first..]
            .iter()
            .take_while(move |sync| **sync < most && self.heard[**sync] == self.heard[events]);
        behind.map(|sync| sync + 1)
    }

    /// Of the operations before number `place`, those of which a crash behind `events` events can
    /// cost something, ascending.
    pub(super) fn losable(&self, place: usize, events: usize) -> impl Iterator<Item = usize> {
        let is_open = move |number: &usize| self.open_groups(*number, events).next().is_some();
        (0..place).filter(is_open)
    }

    /// The groups of an operation that a crash behind so many events can cost.
    pub(super) fn open_groups(
        &self,
        operation: usize,
        events: usize,
    ) -> impl Iterator<Item = usize> {
        self.all[operation]
            .groups
            .clone()
            .filter(move |group| self.groups[*group].cover >= events)
    }

    /// What is lost with these groups, of those whose micros come before `micros`: all that the
    /// file system keeps only together with one of them, but what is durable. Ascending.
    pub(super) fn lost_with(&self, seeds: &[usize], micros: usize, events: usize) -> Vec<usize> {
        let mut lost: BTreeSet<usize> = seeds.iter().copied().collect();
        if self.model.log == Log::None {
            return lost.into_iter().collect();
        }
        let is_there = |group: &usize| {
            self.groups[*group].micros.end <= micros && self.groups[*group].cover >= events
        };
        loop {
            let before = lost.len();
            self.lose_followers(&mut lost, is_there);
            let names_from = lost
                .iter()
                .copied()
                .find(|group| self.groups[*group].kind == Kind::Named);
            let waits = lost.iter().filter_map(|group| self.waits_for(*group)).min();
            if let Some(from) = names_from.into_iter().chain(waits).min() {
                let behind = (from..self.groups.len()).filter(is_there);
                lost.extend(behind.filter(|group| self.groups[*group].kind != Kind::Free));
            }
            if lost.len() == before {
                break;
            }
        }
        lost.into_iter().collect()
    }

    /// Adds what was written later to the pages of what is lost: a page goes to the disk with all
    /// that was written to it until then.
    fn lose_followers(&self, lost: &mut BTreeSet<usize>, is_there: impl Fn(&usize) -> bool) {
        let mut new: Vec<_> = lost.iter().copied().collect();
        while let Some(group) = new.pop() {
            let followers = self.groups[group].followers.iter().copied();
            new.extend(followers.filter(|follower| is_there(follower) && lost.insert(*follower)));
        }
    }

    /// The first group of names that is kept only if the data of this one is.
    fn waits_for(&self, group: usize) -> Option<usize> {
        let Group {
            kind,
            file,
            operation,
            ..
        } = &self.groups[group];
        if *kind == Kind::Named {
            return None;
        }
        let behind = *operation + 1..self.all.len();
        let waits = |later: &usize| {
            let refilled = self.model.replace_by_truncate && self.all[*operation].refills;
            let replaced =
                self.model.replace_by_rename && self.all[*later].replaces_with == Some(*file);
            replaced || (refilled && self.groups[self.all[*later].groups.start].kind == Kind::Named)
        };
        behind
            .filter(|later| !self.all[*later].groups.is_empty())
            .find(waits)
            .map(|later| self.all[later].groups.start)
    }
}

/// What is known of a file while operations are read.
#[derive(Debug, Clone, Default)]
struct Known {
    name: Option<Name>,
    parent: Option<FileId>,
    /// Bytes that have a place on the disk for certain.
    placed: Vec<Range<u64>>,
    /// Bytes that were written since.
    written: Vec<Range<u64>>,
    /// Which group wrote to a page last.
    pages: BTreeMap<u64, usize>,
    emptied: bool,
}

struct Reader<'a> {
    node: &'a Node,
    micros: &'a Micros,
    words: Vec<Words>,
    this: Operations,
    /// Groups that nothing has made durable yet.
    open: Vec<usize>,
    files: HashMap<FileId, Known>,
}

impl Reader<'_> {
    fn read_initial(&mut self) {
        for file in &self.node.initial {
            let known = self.files.entry(file.file).or_default();
            known.name = Some(file.name.clone());
            known.parent = file.parent;
            known.placed = file
                .content
                .iter()
                .map(|(offset, data)| *offset..offset + data.len)
                .collect();
        }
    }

    fn read(&mut self, number: usize, event: &Event, op: &FileOp) {
        match op {
            FileOp::Sync { file, scope } => return self.sync(number, event, *file, *scope),
            FileOp::SyncAll => return self.sync_all(number, event),
            _ => {}
        }
        let parts = &self.micros.groups[number];
        if !parts.is_empty() {
            let first = self.this.groups.len();
            let operation = self.this.all.len();
            for micros in parts {
                let effect = &self.micros.all[micros.start].effect;
                let (kind, file) = (self.kind(op, effect), subject(op));
                self.open.push(self.this.groups.len());
                self.follow(effect);
                let followers = Vec::new();
                let micros = micros.clone();
                self.this.groups.push(Group {
                    operation,
                    micros,
                    cover: usize::MAX,
                    kind,
                    file,
                    followers,
                });
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
            let refills = matches!(op, FileOp::Write { file, .. } if self.files.get(file).is_some_and(|file| file.emptied));
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
            self.this.all.push(Operation {
                event: number,
                groups,
                likeness: 0,
                grows,
                replaces_with,
                refills,
            });
        }
        self.remember(op);
    }

    /// Has the next group follow those that wrote to the same pages last.
    fn follow(&mut self, effect: &Effect) {
        let Effect::Write {
            file,
            offset,
            content: super::Content::Written(data),
        } = effect
        else {
            return;
        };
        let next = self.this.groups.len();
        let pages = &mut self.files.entry(*file).or_default().pages;
        for page in offset / PAGE_BYTES..(offset + data.len).div_ceil(PAGE_BYTES) {
            if let Some(last) = pages.insert(page, next) {
                let followers = &mut self.this.groups[last].followers;
                if followers.last() != Some(&next) {
                    followers.push(next);
                }
            }
        }
    }

    fn kind(&self, op: &FileOp, effect: &Effect) -> Kind {
        let Effect::Write {
            file,
            offset,
            content,
        } = effect
        else {
            return Kind::Named;
        };
        let len = match content {
            super::Content::Written(data) => data.len,
            super::Content::Zeros(len) | super::Content::Garbage(len) => *len,
        };
        let is_growth = self.this.model.growth == Growth::ZerosInPlace
            && matches!(content, super::Content::Zeros(_));
        let has_place = || {
            self.files
                .get(file)
                .is_some_and(|file| contains(&file.placed, &(*offset..offset + len)))
        };
        match (op, self.this.model.data) {
            (_, DataOrder::Free) => Kind::Free,
            // A hole is a change of the file's blocks, not of its bytes.
            (FileOp::Zero { .. } | FileOp::Resize { .. }, _) => Kind::Named,
            // Nor is it where a file grows in a block that it has.
            (FileOp::Write { .. }, _) if is_growth => Kind::Named,
            (_, DataOrder::Allocating) if has_place() => Kind::Free,
            _ => Kind::Placed,
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
            op => format!("{} {}", kind_of_call(op), of(&subject(op))),
        }
    }

    fn remember(&mut self, op: &FileOp) {
        let mut name = |file: &FileId, parent: FileId, name: &Name| {
            let known = self.files.entry(*file).or_default();
            (known.name, known.parent) = (Some(name.clone()), Some(parent));
        };
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
            } => {
                name(file, *parent, word);
            }
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange,
            } => {
                name(file, names.to.0, &names.to.1);
                if let (Some(other), true) = (replaced, exchange) {
                    name(other, names.from.0, &names.from.1);
                }
            }
            FileOp::Write {
                file, offset, data, ..
            } => {
                self.files
                    .entry(*file)
                    .or_default()
                    .written
                    .push(*offset..offset + data.len);
            }
            FileOp::Resize { file, to, .. } => {
                let known = self.files.entry(*file).or_default();
                known.emptied |= *to == 0;
                known.pages.split_off(&to.div_ceil(PAGE_BYTES));
                for ranges in [&mut known.placed, &mut known.written] {
                    cut_out(ranges, &(*to..u64::MAX));
                }
            }
            FileOp::Zero { file, offset, len } => {
                let known = self.files.entry(*file).or_default();
                for ranges in [&mut known.placed, &mut known.written] {
                    cut_out(ranges, &(*offset..offset + len));
                }
            }
            _ => {}
        }
    }

    /// What was written of a file has its place on the disk.
    fn place(&mut self, file: FileId) {
        let known = self.files.entry(file).or_default();
        known.placed.append(&mut known.written);
        merge(&mut known.placed);
    }

    fn sync_all(&mut self, number: usize, event: &Event) {
        self.cover(number, event, |_, _| true);
        let files: Vec<_> = self.files.keys().copied().collect();
        for file in files {
            self.place(file);
        }
    }

    fn sync(&mut self, number: usize, event: &Event, file: FileId, scope: SyncScope) {
        match self.this.model.log {
            Log::None => self.cover(number, event, |this, group| {
                let all = &this.micros.all[this.this.groups[group].micros.clone()];
                all.iter().all(|micro| is_of(&micro.effect, file, scope))
            }),
            Log::Journal => {
                let last = self.last_change(number, event, file, scope);
                self.cover(number, event, |this, group| {
                    let Group {
                        kind, operation, ..
                    } = this.this.groups[group];
                    (kind == Kind::Named && last.is_some_and(|last| operation <= last))
                        || this.is_data_of(group, file, scope)
                });
            }
            Log::LogTree => {
                let mut above = Vec::new();
                let parent = |file: FileId| self.files.get(&file).and_then(|file| file.parent);
                let mut next = parent(file);
                while let Some(directory) = next.filter(|directory| !above.contains(directory)) {
                    above.push(directory);
                    next = parent(directory);
                }
                // What log trees cannot say is a commit of everything.
                let commits = self.open.iter().any(|group| {
                    let op = self.op(self.this.groups[*group].operation);
                    let moved = matches!(
                        op,
                        FileOp::Rename { .. } | FileOp::Link { .. } | FileOp::Unlink { .. }
                    );
                    moved && touches(op, file)
                });
                self.cover(number, event, |this, group| {
                    let op = this.op(this.this.groups[group].operation);
                    let named = this.this.groups[group].kind == Kind::Named;
                    let of_it = touches(op, file) || above.contains(&subject(op));
                    (named && (commits || of_it)) || this.is_data_of(group, file, scope)
                });
            }
        }
        self.place(file);
    }

    fn op(&self, operation: usize) -> &FileOp {
        match &self.node.events[self.this.all[operation].event].action {
            Action::File(op) => op,
            _ => unreachable!("operations are made of file operations"),
        }
    }

    /// The last operation that a sync of a file finds changed, and commits with all before.
    fn last_change(
        &self,
        number: usize,
        sync: &Event,
        file: FileId,
        scope: SyncScope,
    ) -> Option<usize> {
        let counts = |operation: &usize| {
            let op = self.op(*operation);
            let in_place = self.this.all[*operation]
                .groups
                .clone()
                .all(|group| self.this.groups[group].kind == Kind::Free);
            let has_to = match scope {
                SyncScope::File | SyncScope::Range { .. } => true,
                // The size, the blocks, or that there is such a file at all.
                SyncScope::Data => {
                    !in_place
                        && !matches!(
                            op,
                            FileOp::SetMode { .. }
                                | FileOp::SetXattr { .. }
                                | FileOp::Link { .. }
                                | FileOp::Unlink { .. }
                        )
                }
            };
            touches(op, file) && has_to && self.is_before(*operation, number, sync)
        };
        (0..self.this.all.len()).rev().find(counts)
    }

    fn is_data_of(&self, group: usize, file: FileId, scope: SyncScope) -> bool {
        let Group { kind, micros, .. } = &self.this.groups[group];
        *kind != Kind::Named
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

    fn cover(&mut self, number: usize, sync: &Event, is_covered: impl Fn(&Self, usize) -> bool) {
        let open = std::mem::take(&mut self.open);
        let (covered, open) = open.into_iter().partition(|group| {
            self.is_before(self.this.groups[*group].operation, number, sync)
                && is_covered(self, *group)
        });
        self.open = open;
        let covered: Vec<usize> = covered;
        for group in covered {
            self.this.groups[group].cover = number;
        }
    }
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

/// The file that an operation is about.
fn subject(op: &FileOp) -> FileId {
    match op {
        FileOp::Create { file, .. }
        | FileOp::CreateNameless { file, .. }
        | FileOp::Link { file, .. }
        | FileOp::Unlink { file, .. }
        | FileOp::Rename { file, .. }
        | FileOp::Write { file, .. }
        | FileOp::Resize { file, .. }
        | FileOp::Zero { file, .. }
        | FileOp::SetMode { file, .. }
        | FileOp::SetXattr { file, .. }
        | FileOp::Sync { file, .. } => *file,
        FileOp::SyncAll => FileId::ROOT,
    }
}

/// Whether an operation changes the inode of a file or directory.
fn touches(op: &FileOp, file: FileId) -> bool {
    let more = match op {
        FileOp::Create { parent, .. }
        | FileOp::Link { parent, .. }
        | FileOp::Unlink { parent, .. } => *parent == file,
        FileOp::Rename {
            names, replaced, ..
        } => names.from.0 == file || names.to.0 == file || *replaced == Some(file),
        _ => false,
    };
    more || subject(op) == file
}

/// Whether an effect is of what a sync of a file is about, and no more.
fn is_of(effect: &Effect, synced: FileId, scope: SyncScope) -> bool {
    match (effect, scope) {
        (
            Effect::Write {
                file,
                offset,
                content,
            },
            SyncScope::Range { offset: start, len },
        ) => {
            let bytes = match content {
                super::Content::Written(data) => data.len,
                super::Content::Zeros(bytes) | super::Content::Garbage(bytes) => *bytes,
            };
            let pages = start / PAGE_BYTES * PAGE_BYTES..(start + len).next_multiple_of(PAGE_BYTES);
            *file == synced && pages.start <= *offset && offset + bytes <= pages.end
        }
        (
            Effect::Write { file, .. } | Effect::SetSize { file, .. },
            SyncScope::File | SyncScope::Data,
        )
        | (
            Effect::SetMode { file, .. }
            | Effect::SetXattr { file, .. }
            | Effect::NewFile { file, .. },
            SyncScope::File,
        ) => *file == synced,
        (
            Effect::SetEntry { parent, .. } | Effect::RemoveEntry { parent, .. },
            SyncScope::File | SyncScope::Data,
        ) => *parent == synced,
        _ => false,
    }
}

fn merge(ranges: &mut Vec<Range<u64>>) {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|later, range| {
        let touches = later.start <= range.end;
        if touches {
            range.end = range.end.max(later.end);
        }
        touches
    });
}

/// Whether one of the ranges, which do not touch, has all of another.
fn contains(ranges: &[Range<u64>], other: &Range<u64>) -> bool {
    ranges
        .iter()
        .any(|range| range.start <= other.start && other.end <= range.end)
}

fn cut_out(ranges: &mut Vec<Range<u64>>, hole: &Range<u64>) {
    let parts = |range: Range<u64>| {
        let (before, behind) = (
            range.start..range.end.min(hole.start),
            range.start.max(hole.end)..range.end,
        );
        [before, behind].into_iter().filter(|part| !part.is_empty())
    };
    *ranges = std::mem::take(ranges).into_iter().flat_map(parts).collect();
}
