//! Reads the operations of a node, one after the other.

mod files;
mod log_tree;
mod syncs;
mod words;

use std::collections::{HashMap, HashSet};

use super::{Group, Operation, Operations};
use crate::nodes::Effect;
use crate::nodes::alike::Words;
use crate::nodes::micro::{Cut, Micros, Neighbour, Order, PAGE_BYTES};
use crate::nodes::model::Log;
use files::Known;
use trace::{Action, Event, FileId, FileKind, FileOp, Name, Node};
use words::kind_of_call;

pub(super) struct Reader<'a> {
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

/// What was read.
pub(super) struct Read {
    pub(super) operations: Operations,
    /// For each group, what is lost with it.
    pub(super) followers: Vec<Vec<u32>>,
    pub(super) words: Vec<Words>,
}

impl<'a> Reader<'a> {
    /// One that adds a node's operations to these, which are none yet.
    pub(super) fn new(
        node: &'a Node,
        micros: &'a Micros,
        cuts: &'a [Vec<Cut>],
        operations: Operations,
        sector_bytes: u64,
    ) -> Self {
        Self {
            node,
            micros,
            cuts,
            sector_bytes,
            words: Vec::new(),
            this: operations,
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
        }
    }

    /// Reads all events of the node.
    pub(super) fn read_all(mut self) -> Read {
        self.read_initial();
        for (number, event) in self.node.events.iter().enumerate() {
            self.note(number, &event.action);
            self.groups_before.push(self.this.groups.len());
            if let Action::File(op) = &event.action {
                self.read(number, event, op);
            }
        }
        Read {
            operations: self.this,
            followers: self.followers,
            words: self.words,
        }
    }

    /// Notes what an event is to others than the disk.
    fn note(&mut self, number: usize, action: &Action) {
        let this = &mut self.this;
        let tells = matches!(action, Action::Send(_) | Action::Mark { .. });
        this.told.push(this.told[number] + u32::from(tells));
        let hears = matches!(action, Action::Receive(_));
        this.heard.push(this.heard[number] + u32::from(hears));
        if action.is_sync() && this.model.log == Log::LogTree {
            this.syncs.push(number);
        }
        if matches!(action, Action::Mark { .. }) {
            this.acknowledgements.push(number);
        }
    }
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

    fn op(&self, operation: usize) -> &FileOp {
        match &self.node.events[self.this.all[operation].event].action {
            Action::File(op) => op,
            _ => unreachable!("operations are made of file operations"),
        }
    }

    /// Whether an operation is over when a sync begins: what overlaps it in time may not be
    /// covered.
    fn is_before(&self, operation: usize, number: usize, sync: &Event) -> bool {
        let place = self.this.all[operation].event;
        let event = &self.node.events[place];
        let same_thread = (event.process, event.thread) == (sync.process, sync.thread);
        place < number && (same_thread || event.end_ns <= sync.start_ns)
    }
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

/// Whether an effect makes a file larger, and says nothing of what is in it.
fn is_size(effect: &Effect) -> bool {
    matches!(effect, Effect::Grow { .. })
}
