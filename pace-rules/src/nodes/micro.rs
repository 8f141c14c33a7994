//! Operations cut into what can persist alone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use itertools::Itertools;

use super::model::{DataOrder, Growth, Log, Model};
use super::{Content, Effect};
use crate::Sector;
use trace::{Action, Data, FileId, FileKind, FileOp, Name, Node, SyncScope};

/// Something that is on a node's disk or not, if a crash comes in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Micro {
    /// The event it is part of, as an index into the node's events.
    pub event: usize,
    /// What it does.
    pub effect: Effect,
}

/// Into how many pieces a write is cut that can persist by half.
///
/// With a model of a file system the pieces are whole pages. What goes to a place that the file has
/// already is also torn within a page, between sectors: a write to one page is cut into so many
/// pieces as any other, and of one to several pages the first and the last sector are pieces too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// So many, equal but for rounding. One is never torn.
    Count(u64),
    /// At multiples of so many bytes of the file.
    Aligned(u64),
}

impl Default for Split {
    /// As PACE cuts.
    fn default() -> Self {
        Self::Count(3)
    }
}

/// `3` or `aligned:4096`, as it is read.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(pieces) => write!(f, "{pieces}"),
            Self::Aligned(bytes) => write!(f, "aligned:{bytes}"),
        }
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(words: &str) -> Result<Self, String> {
        let number = |words: &str| words.parse().ok().filter(|number| *number > 0);
        let split = match words.strip_prefix("aligned:") {
            Some(bytes) => number(bytes).map(Self::Aligned),
            None => number(words).map(Self::Count),
        };
        split.ok_or_else(|| "a number of pieces, or aligned:BYTES".to_owned())
    }
}

/// What the page cache keeps, and writes as a whole.
pub(super) const PAGE_BYTES: u64 = 4096;

/// What nothing is known of where it lies is not made of more bytes than this: a file that is grown
/// by more is zeros there, as it should.
const GARBAGE_BYTES_MAX: u64 = 1 << 20;

/// Micros that persist as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    /// Which ones.
    pub(super) micros: Range<usize>,
    pub(super) order: Order,
    /// The group of the same operation without which this one is not kept either.
    pub(super) requires: Option<Neighbour>,
    /// Micros of the groups that it repeats: it is lost if one of them is, and never else. Nothing if
    /// it is something of its own.
    pub(super) repeats: Vec<usize>,
}

/// What a group waits for, of what was done before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// It is kept in the order of names and sizes.
    Named,
    /// It can be kept whatever else is: it takes the place of bytes that have one on the disk.
    InPlace,
    /// It is kept only if all names and sizes are of events before this one.
    After(usize),
}

/// Another group of the same operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbour {
    Previous,
    Next,
    /// The next one, and that one not without this one: until a sync keeps one of them, they are
    /// one.
    Paired,
}

/// A node's operations as micros.
#[derive(Debug, Clone)]
pub(super) struct Micros {
    pub(super) all: Arc<[Micro]>,
    /// For each event: how many micros there are up to it.
    pub(super) ends: Vec<usize>,
}

/// A node's operations, cut into what can persist alone, in order.
pub fn micros(node: &Node, model: &Model) -> Vec<Micro> {
    let sector_bytes = Sector::default().bytes();
    let cutter = Cutter::cut_all(node, model, Split::default(), sector_bytes);
    cutter.micros
}

impl Micros {
    /// Those of a node, and for each event the groups that can persist without one another, as
    /// ranges of all micros, in order. A group persists as a whole. An event that leaves nothing to
    /// lose has none.
    pub(super) fn of(
        node: &Node,
        model: &Model,
        split: Split,
        sector_bytes: u64,
    ) -> (Self, Vec<Vec<Cut>>) {
        let cutter = Cutter::cut_all(node, model, split, sector_bytes);
        let micros = Self {
            all: cutter.micros.into(),
            ends: cutter.ends,
        };
        (micros, cutter.groups)
    }

    /// How many micros the first so many events have.
    pub(super) fn until(&self, events: usize) -> usize {
        if events == 0 {
            0
        } else {
            self.ends[events - 1]
        }
    }
}

struct Cutter<'a> {
    model: &'a Model,
    split: Split,
    /// What a disk writes whole.
    sector_bytes: u64,
    event: usize,
    /// When it began, and when it returned.
    times: (u64, u64),
    /// The process and thread that made the call.
    by: (u32, u32),
    micros: Vec<Micro>,
    /// For each event so far, its groups.
    groups: Vec<Vec<Cut>>,
    /// For each event so far: how many micros there are up to it.
    ends: Vec<usize>,
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

/// A file that has a name, or had it.
#[derive(Debug, Clone, Copy)]
struct Holder {
    file: FileId,
    /// The micro that gave it the name; nothing if it had it at the beginning.
    set: Option<usize>,
    /// The one that took it away; nothing if it has it.
    removed: Option<usize>,
}

/// What is known of a file at a moment of the run.
#[derive(Debug, Clone, Default)]
struct Known {
    names: u32,
    size: u64,
    /// Whether it may have another one on the disk.
    is_resized: bool,
    /// On the disk it has no smaller one.
    least: u64,
    /// Whether it has another name since all was synced.
    is_renamed: bool,
    /// Whether it is new, or was cut off or punched, since it was synced.
    is_odd: bool,
    /// The pages that were written to since then.
    dirty: BTreeSet<u64>,
    /// What it grew to with bytes that are kept with the size.
    grown_whole: u64,
    /// The pages that have bytes. Others are holes.
    pages: BTreeMap<u64, Page>,
}

/// Since when a page may have its place on the disk.
#[derive(Debug, Clone, Copy)]
struct Page {
    /// The event that gave it its first bytes, who did that, and when it returned.
    event: usize,
    by: (u32, u32),
    end_ns: u64,
    /// The same of its last bytes.
    last_by: (u32, u32),
    last_ns: u64,
    /// Whether it has its place for certain, since it was synced.
    is_placed: bool,
}

impl Known {
    /// A sync of these pages that began then has given a place to all that had been written.
    fn sync(&mut self, pages: Range<u64>, by: (u32, u32), start_ns: u64) {
        // Where others write meanwhile it may.
        if pages.end == u64::MAX {
            self.is_resized = false;
            self.least = self.size;
            self.is_odd = false;
            let is_over = |page: &u64| {
                let page = self.pages.get(page);
                page.is_none_or(|page| page.last_by == by || page.last_ns <= start_ns)
            };
            self.dirty.retain(|page| !is_over(page));
        }
        for (_, page) in self.pages.range_mut(pages) {
            page.is_placed |= page.by == by || page.end_ns <= start_ns;
        }
    }

    /// There is nothing from there on.
    fn cut(&mut self, from: u64) {
        self.pages.split_off(&from.div_ceil(PAGE_BYTES));
    }
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

/// The pages of a range of bytes.
fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
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
            let names = known.names + u32::from(file.parent.is_some());
            let page = Page {
                event: 0,
                by: (0, 0),
                end_ns: 0,
                last_by: (0, 0),
                last_ns: 0,
                is_placed: true,
            };
            let pieces = file
                .content
                .iter()
                .map(|(offset, data)| *offset..offset + data.len);
            *known = Known {
                names,
                size: file.size,
                least: file.size,
                pages: pieces
                    .flat_map(|piece| pages(&piece))
                    .map(|number| (number, page))
                    .collect(),
                ..Known::default()
            };
        }
        Self {
            model,
            split,
            sector_bytes,
            event: 0,
            times: (0, 0),
            by: (0, 0),
            micros: Vec::new(),
            groups: Vec::new(),
            ends: Vec::new(),
            files,
            holders,
            removed: HashMap::new(),
            syncs: events_of(node, |op| matches!(op, FileOp::Sync { .. })),
            syncs_of_all: events_of(node, |op| matches!(op, FileOp::SyncAll)),
            with_size_logged: with_size_logged(node),
        }
    }

    /// All operations of a node.
    fn cut_all(node: &Node, model: &'a Model, split: Split, sector_bytes: u64) -> Self {
        let mut this = Self::new(node, model, split, sector_bytes);
        for (number, event) in node.events.iter().enumerate() {
            this.event = number;
            this.times = (event.start_ns, event.end_ns);
            this.by = (event.process, event.thread);
            this.groups.push(Vec::new());
            if let Action::File(op) = &event.action {
                this.cut(op);
            }
            this.ends.push(this.micros.len());
        }
        this
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
        self.groups[event].push(Cut {
            micros: start..end,
            order,
            requires,
            repeats: Vec::new(),
        });
    }

    /// An effect that repeats those of earlier groups.
    fn repetition(&mut self, repeats: Vec<usize>, effect: Effect) {
        let start = self.micros.len();
        let event = self.event;
        self.micros.push(Micro { event, effect });
        self.groups[event].push(Cut {
            micros: start..start + 1,
            order: Order::InPlace,
            requires: None,
            repeats,
        });
    }

    /// The next micro gives a file a name.
    fn gains(&mut self, file: FileId, (parent, name): (FileId, &Name)) {
        let holders = self.holders.entry((parent, name.clone())).or_default();
        holders.retain(|holder| holder.file != file);
        holders.push(Holder {
            file,
            set: Some(self.micros.len()),
            removed: None,
        });
        if holders.len() > 3 {
            holders.remove(1);
        }
    }

    /// The next micro takes a name away from a file.
    fn loses(&mut self, file: FileId, (parent, name): (FileId, &Name)) {
        let holders = self.holders.get_mut(&(parent, name.clone()));
        for holder in holders.into_iter().flatten() {
            if holder.file == file {
                holder.removed = Some(self.micros.len());
            }
        }
        self.removed.entry(parent).or_default().insert(name.clone());
    }

    /// Forgets who had names in a directory and has them no more: that is durable.
    fn forget_holders(&mut self, parent: FileId) {
        for name in self.removed.remove(&parent).into_iter().flatten() {
            let place = (parent, name);
            if let Some(holders) = self.holders.get_mut(&place) {
                holders.retain(|holder| holder.removed.is_none());
            }
        }
    }

    /// Whether a file is synced after a micro before all is: without that nothing is kept without
    /// what was before.
    fn has_sync(&self, micro: usize) -> bool {
        let next = |all: &[usize], event| {
            let first = all.partition_point(|sync| *sync < event);
            all.get(first).copied().unwrap_or(usize::MAX)
        };
        let sync = next(&self.syncs, self.micros[micro].event);
        sync < next(&self.syncs_of_all, self.event)
    }

    /// After the removal of a file's name: who had that before has it again where its own removal
    /// is not there, as with a log tree that has the file, and nothing of what was before. Of
    /// several who had it this is said of the first and the last.
    fn give_back(&mut self, file: FileId, (parent, name): (FileId, &Name)) {
        let holders = self.holders.get(&(parent, name.clone()));
        let Some([others @ .., last]) = holders.map(Vec::as_slice) else {
            return;
        };
        let Some(removal) = last.removed.filter(|_| last.file == file) else {
            return;
        };
        if self.model.log != Log::LogTree {
            return;
        }
        let due = others.iter().filter_map(|other| {
            let removed = other.removed.filter(|removed| self.has_sync(*removed))?;
            Some((*other, removed))
        });
        for (other, removed) in due.collect::<Vec<_>>() {
            let had = Effect::SetEntry {
                parent,
                name: name.clone(),
                file: other.file,
            };
            let given = other.set.into_iter().chain([removal]).collect();
            self.repetition(given, had);
            let gone = self.removal((parent, name), other.file);
            self.repetition(vec![removed, removal], gone);
        }
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
                self.gains(*file, (*parent, name));
                self.group([Effect::SetEntry {
                    parent: *parent,
                    name: name.clone(),
                    file: *file,
                }]);
            }
            FileOp::CreateNameless { file, mode } => {
                self.new_file(*file, FileKind::Regular, *mode, 0);
            }
            FileOp::Link { parent, name, file } => {
                self.file(*file).names += 1;
                self.gains(*file, (*parent, name));
                self.group([Effect::SetEntry {
                    parent: *parent,
                    name: name.clone(),
                    file: *file,
                }]);
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
            FileOp::Zero { file, offset, len } => {
                // The size is as it was, and a write would make it larger.
                let known = self.file(*file);
                known.is_odd = true;
                let hole = offset.div_ceil(PAGE_BYTES)..(offset + len) / PAGE_BYTES;
                known.pages.retain(|page, _| !hole.contains(page));
                let len = (*len).min(known.size.saturating_sub(*offset));
                if len > 0 {
                    self.group([Effect::Write {
                        file: *file,
                        offset: *offset,
                        content: Content::Zeros(len),
                    }]);
                }
            }
            FileOp::SetMode { file, mode } => self.group([Effect::SetMode {
                file: *file,
                mode: *mode,
            }]),
            FileOp::SetXattr { file, name, value } => self.group([Effect::SetXattr {
                file: *file,
                name: name.clone(),
                value: *value,
            }]),
            FileOp::Sync { file, scope } => {
                let ((start_ns, _), by) = (self.times, self.by);
                let synced = match scope {
                    SyncScope::File | SyncScope::Data => 0..u64::MAX,
                    SyncScope::Range { offset, len } | SyncScope::FileRange { offset, len } => {
                        pages(&(*offset..offset + len))
                    }
                };
                self.file(*file).sync(synced, by, start_ns);
                self.forget_holders(*file);
            }
            FileOp::SyncAll => {
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
    }

    /// A name less. PACE and ALICE empty a file before its last name goes. No file system does it
    /// in that order, and a program cannot help it: SQLite, for one, counts on it that nobody does.
    fn remove(&mut self, parent: FileId, name: &Name, file: FileId) {
        let names = &mut self.file(file).names;
        *names = names.saturating_sub(1);
        let gone = self.removal((parent, name), file);
        self.loses(file, (parent, name));
        self.group([gone]);
        self.give_back(file, (parent, name));
    }

    /// That a file does not have a name any more. A log tree notes names with their file, and the
    /// name may be another one's if not all before is there.
    fn removal(&self, (parent, name): (FileId, &Name), file: FileId) -> Effect {
        Effect::RemoveEntry {
            parent,
            name: name.clone(),
            of: (self.model.log == Log::LogTree).then_some(file),
        }
    }

    fn rename(
        &mut self,
        file: FileId,
        from: &(FileId, Name),
        to: &(FileId, Name),
        replaced: Option<FileId>,
        exchange: bool,
    ) {
        let entry = |place: &(FileId, Name), file| Effect::SetEntry {
            parent: place.0,
            name: place.1.clone(),
            file,
        };
        let gone = self.removal((from.0, &from.1), file);
        if from == to || replaced == Some(file) {
            return;
        }
        match (replaced, exchange, self.model.atomic_names) {
            (Some(other), true, true) if self.model.log == Log::LogTree => {
                // A sync of one of the two may keep its part for itself: where its name is, and where
                // it is not any more.
                let taken = self.removal((to.0, &to.1), other);
                let next = Some(Neighbour::Next);
                self.loses(file, (from.0, &from.1));
                self.group_in(Order::Named, next, [gone]);
                self.loses(other, (to.0, &to.1));
                self.group_in(Order::Named, next, [taken]);
                self.gains(file, (to.0, &to.1));
                self.group_in(Order::Named, next, [entry(to, file)]);
                self.gains(other, (from.0, &from.1));
                self.group([entry(from, other)]);
                self.size_with_name(file);
                self.size_with_name(other);
            }
            (Some(other), true, true) => self.group([entry(to, file), entry(from, other)]),
            (Some(other), true, false) => {
                self.group([entry(to, file)]);
                self.group([entry(from, other)]);
            }
            (replaced, _, true) => {
                if let Some(replaced) = replaced {
                    let names = &mut self.file(replaced).names;
                    *names = names.saturating_sub(1);
                }
                if let Some(replaced) = replaced.filter(|_| self.model.log == Log::LogTree) {
                    // A log tree that has the file of before loses its name, and may not get the
                    // new one.
                    let taken = self.removal((to.0, &to.1), replaced);
                    self.loses(replaced, (to.0, &to.1));
                    self.group_in(Order::Named, Some(Neighbour::Next), [taken]);
                    self.give_back(replaced, (to.0, &to.1));
                }
                if self.model.log == Log::LogTree {
                    // A sync of one of two directories may keep its part for itself.
                    let is_within = from.0 == to.0;
                    let gone_too = if is_within {
                        Neighbour::Paired
                    } else {
                        Neighbour::Next
                    };
                    self.gains(file, (to.0, &to.1));
                    self.group_in(Order::Named, Some(gone_too), [entry(to, file)]);
                    self.loses(file, (from.0, &from.1));
                    self.group([gone]);
                    self.give_back(file, (from.0, &from.1));
                } else {
                    self.group([entry(to, file), gone]);
                }
                self.size_with_name(file);
            }
            (replaced, _, false) => {
                if let Some(replaced) = replaced {
                    self.remove(to.0, &to.1, replaced);
                }
                self.group([gone]);
                self.group([entry(to, file)]);
            }
        }
    }

    /// With a new name a log tree notes that there is such a file, and how large it is: that can be
    /// the size of bytes that it does not have yet, or of those of before.
    fn size_with_name(&mut self, file: FileId) {
        let known = self.file(file);
        known.is_renamed = true;
        let (size, is_resized) = (known.size, known.is_resized);
        if self.model.log == Log::LogTree && is_resized {
            self.group_in(
                Order::After(self.event),
                None,
                [Effect::SetSize { file, size }],
            );
        }
    }

    fn write(&mut self, file: FileId, offset: u64, data: Data, size_before: u64) {
        let end = offset + data.len;
        let written = |range: &Range<u64>| {
            Content::Written(Data {
                at: data.at + (range.start - offset),
                len: range.end - range.start,
            })
        };
        let (old, new) = (offset..end.min(size_before), offset.max(size_before)..end);
        if self.model.log == Log::None {
            for range in self.slices(old) {
                self.bytes_alone(file, range.start, written(&range));
            }
            for range in self.slices(new) {
                let len = range.end - range.start;
                self.bytes_alone(file, range.start, Content::Zeros(len));
                self.bytes_alone(file, range.start, Content::Garbage(len));
                self.bytes_alone(file, range.start, written(&range));
            }
        } else {
            let whole = offset..end;
            for range in self.pieces(file, old) {
                let order = self.order(file, range.start);
                // With these bytes the page can be what makes the file as large as it is.
                let page_end = range.end.next_multiple_of(PAGE_BYTES);
                let size = page_end.min(size_before);
                let mut is_size_with_bytes = false;
                let known = self.file(file);
                let grows_too = known.grown_whole > known.least && size < size_before;
                if range.end > known.least {
                    is_size_with_bytes = self.model.growth == Growth::WithData;
                    let requires = is_size_with_bytes.then_some(Neighbour::Next);
                    let grow = Effect::Grow { file, size };
                    self.group_in(Order::After(self.event), requires, [grow]);
                }
                if grows_too {
                    // The size on the disk becomes that in memory, whatever is written of the rest.
                    let size = size_before;
                    self.group_in(
                        Order::After(self.event),
                        None,
                        [Effect::Grow { file, size }],
                    );
                }
                // A size that waits for its bytes waits for all of the page.
                let torn = if is_size_with_bytes {
                    vec![range]
                } else {
                    self.torn(file, range, &whole)
                };
                for range in torn {
                    self.overwrite(file, order, None, range.start, written(&range));
                }
            }
            // If the last page of before is written now, it reaches as far as it can.
            let gap_end = size_before.next_multiple_of(PAGE_BYTES).min(offset);
            if gap_end > size_before {
                let grow = Effect::Grow {
                    file,
                    size: gap_end,
                };
                self.group_in(Order::After(self.event), None, [grow]);
            }
            // What is new in the last page of before, and after that.
            let page_end = (size_before / PAGE_BYTES + 1) * PAGE_BYTES;
            let last = new.start..new.end.min(page_end).max(new.start);
            let rest = last.end..new.end;
            for range in [last, rest] {
                for range in self.pieces(file, range) {
                    self.append(file, &range, &whole, written);
                }
            }
        }
        let (event, by, (_, end_ns)) = (self.event, self.by, self.times);
        let known = self.file(file);
        known.is_resized |= end > size_before;
        known.size = end.max(size_before);
        for page in pages(&(offset..end)) {
            let new = Page {
                event,
                by,
                end_ns,
                last_by: by,
                last_ns: end_ns,
                is_placed: false,
            };
            let last = known.pages.entry(page).or_insert(new);
            (last.last_by, last.last_ns) = (by, end_ns);
            known.dirty.insert(page);
        }
        if known.is_renamed && end > size_before {
            self.size_with_name(file);
        }
    }

    /// Bytes that can be kept whatever else is.
    fn bytes_alone(&mut self, file: FileId, offset: u64, content: Content) {
        let write = Effect::Write {
            file,
            offset,
            content,
        };
        self.group_in(Order::InPlace, None, [write]);
    }

    fn overwrite(
        &mut self,
        file: FileId,
        order: Order,
        requires: Option<Neighbour>,
        offset: u64,
        content: Content,
    ) {
        let overwrite = Effect::Overwrite {
            file,
            offset,
            content,
        };
        self.group_in(order, requires, [overwrite]);
    }

    /// The page of a byte, if it may have its place on the disk, and still has it when it is written.
    fn page(&self, file: FileId, offset: u64) -> Option<Page> {
        let pages = self.files.get(&file).map(|known| &known.pages);
        let page = pages.and_then(|pages| pages.get(&(offset / PAGE_BYTES)));
        page.copied().filter(|_| self.model.data != DataOrder::All)
    }

    /// What the bytes of a page wait for. In place of those of before they can be on the disk at any
    /// time, and a new page may have its place since its first bytes came.
    fn order(&self, file: FileId, offset: u64) -> Order {
        match self.page(file, offset) {
            Some(page) if page.is_placed => Order::InPlace,
            Some(page) => Order::After(page.event),
            None => Order::After(self.event),
        }
    }

    /// A piece of what a write of `whole` makes a file grow by: the size, and the bytes.
    fn append(
        &mut self,
        file: FileId,
        range: &Range<u64>,
        whole: &Range<u64>,
        written: impl Fn(&Range<u64>) -> Content,
    ) {
        let (own, bytes) = (Order::After(self.event), self.order(file, range.start));
        let page = self.page(file, range.start);
        let is_new = page.is_none();
        let is_placed = page.is_some_and(|page| page.is_placed);
        let size = Effect::Grow {
            file,
            size: range.end,
        };
        match self.model.growth {
            Growth::WithData if is_new => {
                let bytes = Effect::Overwrite {
                    file,
                    offset: range.start,
                    content: written(range),
                };
                self.group_in(own, None, [size, bytes]);
            }
            Growth::WithData => {
                self.group_in(own, Some(Neighbour::Next), [size]);
                self.overwrite(file, bytes, None, range.start, written(range));
            }
            Growth::Zeros | Growth::ZerosAndGarbage => {
                // A size for which no page has to be found its place is kept like a name.
                if self.is_rest_of_page(file, range, whole) {
                    let bytes = Effect::Overwrite {
                        file,
                        offset: range.start,
                        content: written(range),
                    };
                    self.group_in(own, None, [size, bytes]);
                    self.file(file).grown_whole = range.end;
                    return;
                }
                let in_place =
                    is_placed && whole.end.div_ceil(PAGE_BYTES) == range.start / PAGE_BYTES + 1;
                self.group_in(if in_place { Order::Named } else { own }, None, [size]);
                let requires = is_new.then_some(Neighbour::Previous);
                for range in self.torn(file, range.clone(), whole) {
                    self.overwrite(file, bytes, requires, range.start, written(&range));
                }
            }
        }
    }

    /// Whether a piece of a write of `whole` is what a log tree keeps with its size: it continues a
    /// page that was written before, and nothing else of the file is to be written, so that the size
    /// becomes that in memory when this page is on the disk.
    fn is_rest_of_page(&self, file: FileId, range: &Range<u64>, whole: &Range<u64>) -> bool {
        let page = range.start / PAGE_BYTES;
        let is_within = range == whole && (range.end - 1) / PAGE_BYTES == page;
        let known = self.files.get(&file).filter(|_| is_within);
        self.model.log == Log::LogTree
            && !self.with_size_logged.contains(&file)
            && known.is_some_and(|known| {
                known.pages.contains_key(&page)
                    && known.size == range.start
                    && !known.is_odd
                    && known.dirty.iter().all(|dirty| *dirty == page)
            })
    }

    fn resize(&mut self, file: FileId, from: u64, to: u64) {
        if to < from {
            self.shrink(file, from, to);
        } else if self.model.growth == Growth::ZerosAndGarbage && to - from <= GARBAGE_BYTES_MAX {
            for range in self.slices(from..to) {
                let len = range.end - range.start;
                self.bytes_alone(file, range.start, Content::Garbage(len));
                self.bytes_alone(file, range.start, Content::Zeros(len));
            }
        } else if to > from && self.model.log == Log::None {
            self.group([Effect::SetSize { file, size: to }]);
        } else if to > from {
            self.group([Effect::Grow { file, size: to }]);
        }
        let known = self.file(file);
        known.cut(to);
        known.is_odd = true;
        known.least = known.least.min(to);
        known.is_resized = true;
        known.size = to;
        if known.is_renamed && to < from {
            self.size_with_name(file);
        }
    }

    fn shrink(&mut self, file: FileId, from: u64, to: u64) {
        let mut requires = None;
        if self.model.log != Log::None {
            // The rest of the last page becomes zeros, and goes to the disk as bytes do.
            let rest = to..to.next_multiple_of(PAGE_BYTES).min(from);
            let has_page = self.file(file).pages.contains_key(&(to / PAGE_BYTES));
            if !rest.is_empty() && has_page {
                let order = self.order(file, to);
                self.overwrite(file, order, None, to, Content::Zeros(rest.end - rest.start));
                // That is only done to a page that has its place.
                let is_ordered = self.model.data == DataOrder::Ordered && order == Order::InPlace;
                requires = is_ordered.then_some(Neighbour::Previous);
            }
        }
        if self.model.atomic_names {
            let size = Effect::SetSize { file, size: to };
            self.group_in(Order::Named, requires, [size]);
            return;
        }
        for range in self.slices(to..from).into_iter().rev() {
            self.group([Effect::SetSize {
                file,
                size: range.start,
            }]);
        }
    }

    /// Bytes of a file cut as [`Self::slices`] does, and where what they wait for changes.
    fn pieces(&self, file: FileId, range: Range<u64>) -> Vec<Range<u64>> {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        for slice in self.slices(range) {
            let mut start = slice.start;
            while start < slice.end {
                let end = (start / PAGE_BYTES + 1) * PAGE_BYTES;
                let end = end.min(slice.end);
                match pieces.last_mut() {
                    Some(last)
                        if start > slice.start
                            && self.order(file, last.start) == self.order(file, start) =>
                    {
                        last.end = end;
                    }
                    _ => pieces.push(start..end),
                }
                start = end;
            }
        }
        pieces
    }

    /// A piece of a write of `whole`, cut where a disk may tear it. What goes to a new place is
    /// seen whole or not at all, page by page: the file system takes it for written only once the
    /// disk has it all. Every other page may be on its way to the disk when the power fails, and the
    /// disk keeps any of its sectors.
    ///
    /// Each cut within a page is within a piece that is one page: a sync of some pages covers a
    /// piece or does not.
    fn torn(&self, file: FileId, piece: Range<u64>, whole: &Range<u64>) -> Vec<Range<u64>> {
        let sector = self.sector_bytes;
        if sector >= PAGE_BYTES || self.page(file, piece.start).is_none() {
            return vec![piece];
        }
        let pages_of = pages(whole);
        let mut cuts: Vec<u64> = match self.split {
            Split::Aligned(bytes) => {
                let step = bytes.max(1).next_multiple_of(sector);
                let is_finer = step < PAGE_BYTES;
                let multiples = (piece.start / step + 1..).map(|number| number * step);
                let inside = multiples.take_while(|cut| *cut < piece.end);
                inside.filter(|_| is_finer).collect()
            }
            Split::Count(0 | 1) => Vec::new(),
            Split::Count(count) if pages_of.end - pages_of.start == 1 => {
                let step = (piece.end - piece.start).div_ceil(count);
                let ends = (1..count).map(|number| piece.start + number * step);
                ends.map(|end| end.next_multiple_of(sector)).collect()
            }
            Split::Count(_) => {
                let (first, last) = (whole.start / sector + 1, (whole.end - 1) / sector);
                let next_page = (whole.start / PAGE_BYTES + 1) * PAGE_BYTES;
                let last_page = (whole.end - 1) / PAGE_BYTES * PAGE_BYTES;
                vec![first * sector, next_page, last_page, last * sector]
            }
        };
        cuts.retain(|cut| piece.start < *cut && *cut < piece.end);
        cuts.extend([piece.start, piece.end]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|ends| ends[0]..ends[1]).collect()
    }

    /// Bytes of a file cut where the split and the model say; none that is empty.
    fn slices(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let block = self.model.block_bytes;
        let len = range.end.saturating_sub(range.start);
        let step = match self.split {
            Split::Count(count) => len.div_ceil(count.max(1)),
            Split::Aligned(bytes) => bytes,
        };
        let mut slices = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = match self.split {
                Split::Count(_) => start + step,
                Split::Aligned(_) => (start / step.max(1) + 1) * step.max(1),
            };
            let end = end.next_multiple_of(block).min(range.end);
            slices.push(start..end);
            start = end;
        }
        slices
    }
}
