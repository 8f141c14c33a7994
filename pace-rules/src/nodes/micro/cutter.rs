//! Cuts the operations of a node, one after the other.

mod bytes;
mod known;
mod names;
mod sizes;
mod zeros;

use std::collections::{HashMap, HashSet};

use itertools::Itertools;
use trace::{Action, FileId, FileKind, FileOp, Name, Node, SyncScope};

use super::{Cut, Cuts, Micro, Neighbour, Order, PAGE_BYTES, Split};
use crate::nodes::Effect;
use crate::nodes::model::Model;
use crate::nodes::narrow::{Narrow, Span};
use known::{Known, pages};
use names::{Holder, entry};

pub(super) struct Cutter<'a> {
    model: &'a Model,
    split: Split,
    /// What a disk writes whole.
    sector_bytes: u64,
    event: usize,
    /// When it began, and when it returned.
    times: (u64, u64),
    /// The process and thread that made the call.
    by: (u32, u32),
    pub(super) micros: Vec<Micro>,
    /// The groups of each event so far.
    pub(super) groups: Cuts,
    /// For each event so far: how many micros there are up to it.
    pub(super) ends: Vec<Narrow>,
    files: HashMap<FileId, Known>,
    /// By directory and name, who had it since the directory was synced, in order: the first, the
    /// last, and the one before that.
    holders: HashMap<(FileId, Name), Vec<Holder>>,
    /// By directory, the names that were taken away since then.
    removed: HashMap<FileId, HashSet<Name>>,
    /// The events that sync a file.
    syncs: Vec<usize>,
    /// Those that sync all.
    syncs_of_all: Vec<usize>,
    /// The files of which a log tree may have the size alone.
    with_size_logged: HashSet<FileId>,
}

/// The events of a node that do something.
fn events_of(node: &Node, does: impl Fn(&FileOp) -> bool) -> Vec<usize> {
    let events = node.events.iter();
    events
        .positions(|event| matches!(&event.action, Action::File(op) if does(op)))
        .collect()
}

/// The files that are synced in part somewhere, or get another name: a log tree can have the size of
/// these, and not their bytes.
fn with_size_logged(node: &Node) -> HashSet<FileId> {
    let mut all = HashSet::new();
    for event in &node.events {
        match &event.action {
            Action::File(
                FileOp::Sync {
                    file,
                    scope: SyncScope::Range { .. } | SyncScope::FileRange { .. },
                }
                | FileOp::Link { file, .. },
            ) => drop(all.insert(*file)),
            Action::File(FileOp::Rename { file, replaced, .. }) => {
                all.insert(*file);
                all.extend(replaced);
            }
            _ => {}
        }
    }
    all
}

impl<'a> Cutter<'a> {
    fn new(node: &Node, model: &'a Model, split: Split, sector_bytes: u64) -> Self {
        let mut files: HashMap<FileId, Known> = HashMap::new();
        let mut holders: HashMap<_, Vec<Holder>> = HashMap::new();
        for file in &node.initial {
            if let Some(parent) = file.parent {
                let all = holders.entry((parent, file.name.clone())).or_default();
                all.push(Holder {
                    file: file.file,
                    set: None,
                    removed: None,
                });
            }
            let known = files.entry(file.file).or_default();
            *known = Known::initial(file, known.names);
        }
        Self {
            model,
            split,
            sector_bytes,
            event: 0,
            times: (0, 0),
            by: (0, 0),
            micros: Vec::new(),
            groups: Cuts::default(),
            ends: Vec::new(),
            files,
            holders,
            removed: HashMap::new(),
            syncs: events_of(node, |op| matches!(op, FileOp::Sync { .. })),
            syncs_of_all: events_of(node, |op| matches!(op, FileOp::SyncAll)),
            with_size_logged: with_size_logged(node),
        }
    }

    /// All operations of a node; nothing if the events and micros are more than `most`.
    pub(super) fn cut_all(
        node: &Node,
        model: &'a Model,
        split: Split,
        sector_bytes: u64,
        most: usize,
    ) -> Option<Self> {
        let mut this = Self::new(node, model, split, sector_bytes);
        for (number, event) in node.events.iter().enumerate() {
            this.event = number;
            this.times = (event.start_ns, event.end_ns);
            this.by = (event.process, event.thread);
            if let Action::File(op) = &event.action {
                this.cut(op);
            }
            // A node has no more places than this.
            let places = node.events.len() + this.micros.len() + 1;
            if places > most {
                return None;
            }
            this.groups.end_event();
            this.ends.push(Narrow::new(this.micros.len()));
        }
        this.groups.shrink_to_fit();
        Some(this)
    }

    fn file(&mut self, file: FileId) -> &mut Known {
        self.files.entry(file).or_default()
    }

    /// Effects that persist together, in the order of names and sizes.
    fn group(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.group_in(Order::Named, None, effects);
    }

    /// Effects that persist together.
    fn group_in(
        &mut self,
        order: Order,
        requires: Option<Neighbour>,
        effects: impl IntoIterator<Item = Effect>,
    ) {
        let start = self.micros.len();
        let event = self.event;
        self.micros
            .extend(effects.into_iter().map(|effect| Micro { event, effect }));
        let end = self.micros.len();
        self.groups.push(Cut {
            micros: Span::new(start..end),
            order,
            requires,
            repeats: Box::default(),
        });
    }

    /// An effect that repeats those of earlier groups.
    fn repetition(&mut self, repeats: Vec<usize>, effect: Effect) {
        let start = self.micros.len();
        let event = self.event;
        self.micros.push(Micro { event, effect });
        self.groups.push(Cut {
            micros: Span::new(start..start + 1),
            order: Order::InPlace,
            requires: None,
            repeats: repeats.into(),
        });
    }

    /// A new file: nothing that could be lost, as nobody sees it without a name.
    fn new_file(&mut self, file: FileId, kind: FileKind, mode: u32, names: u32) {
        self.micros.push(Micro {
            event: self.event,
            effect: Effect::NewFile { file, kind, mode },
        });
        *self.file(file) = Known {
            names,
            is_odd: true,
            ..Known::default()
        };
    }

    /// Another name for a file.
    fn name(&mut self, file: FileId, name: (FileId, &Name)) {
        self.gains(file, name);
        self.group([entry(name, file)]);
    }

    fn cut(&mut self, op: &FileOp) {
        match op {
            FileOp::Create {
                parent,
                name,
                file,
                kind,
                mode,
            } => {
                self.new_file(*file, *kind, *mode, 1);
                self.name(*file, (*parent, name));
            }
            FileOp::CreateNameless { file, mode } => {
                self.new_file(*file, FileKind::Regular, *mode, 0);
            }
            FileOp::Link { parent, name, file } => {
                self.file(*file).names += 1;
                self.name(*file, (*parent, name));
                self.size_with_name(*file);
            }
            FileOp::Unlink { parent, name, file } => self.remove(*parent, name, *file),
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange,
            } => {
                self.rename(*file, &names.from, &names.to, *replaced, *exchange);
            }
            FileOp::Write {
                file,
                offset,
                data,
                size_before,
            } => self.write(*file, *offset, *data, *size_before),
            FileOp::Resize { file, from, to } => self.resize(*file, *from, *to),
            FileOp::Zero { file, offset, len } => self.zero(*file, *offset, *len, false),
            FileOp::Allocate {
                file,
                offset,
                len,
                keeps_size,
            } => {
                if !keeps_size {
                    self.allocate(*file, *offset, *len);
                }
            }
            FileOp::ZeroBlocks { file, offset, len } => self.zero(*file, *offset, *len, true),
            FileOp::SetMode { file, mode } => self.group([Effect::SetMode {
                file: *file,
                mode: *mode,
            }]),
            FileOp::SetXattr { file, name, value } => self.group([Effect::SetXattr {
                file: *file,
                name: name.clone(),
                value: *value,
            }]),
            FileOp::Sync { file, scope } => self.sync(*file, *scope),
            FileOp::SyncAll => self.sync_all(),
        }
    }

    fn sync(&mut self, file: FileId, scope: SyncScope) {
        let ((start_ns, _), by) = (self.times, self.by);
        let synced = match scope {
            SyncScope::File | SyncScope::Data => 0..u64::MAX,
            SyncScope::Range { offset, len } | SyncScope::FileRange { offset, len } => {
                pages(&(offset..offset + len))
            }
        };
        let known = self.file(file);
        if matches!(scope, SyncScope::Range { .. }) && synced.end * PAGE_BYTES >= known.size {
            known.least_in_range = known.size;
        }
        known.sync(synced, by, start_ns);
        self.forget_holders(file);
    }

    fn sync_all(&mut self) {
        let ((start_ns, _), by) = (self.times, self.by);
        self.files.values_mut().for_each(|known| {
            known.sync(0..u64::MAX, by, start_ns);
            known.is_renamed = false;
        });
        let directories: Vec<_> = self.removed.keys().copied().collect();
        for directory in directories {
            self.forget_holders(directory);
        }
    }
}
