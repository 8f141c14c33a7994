//! Reads the operations of a node, one after the other.

mod files;
mod in_the_way;
mod log_tree;
mod syncs;
mod words;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::followers::Lists;
use super::group::{Follows, Naming};
use super::{Group, Operation, Operations};
use crate::nodes::alike::Words;
use crate::nodes::cuts::{begun, is_over};
use crate::nodes::micro::{Cut, Cuts, Micro, Micros, Neighbour, Order, PAGE_BYTES};
use crate::nodes::model::{Growth, Log};
use crate::nodes::narrow::{Narrow, Span};
use crate::nodes::space::{Error, IsUnwanted, go_on};
use crate::nodes::{Content, Effect};
use files::Known;
use log_tree::LoggedWithNames;
use trace::{Action, ChangeOfName, Event, FileId, FileKind, FileOp, Name, Node};
use words::kind_of_call;

pub(super) struct Reader<'a> {
    node: &'a Node,
    micros: &'a Micros,
    cuts: &'a Cuts,
    sector_bytes: u64,
    words: Vec<Words>,
    /// The names in them.
    names: HashSet<Arc<str>>,
    this: Operations,
    /// For each group, what is lost with it.
    followers: Lists,
    /// For each group, those that wrote to its pages next, to whichever sectors: a sync writes whole
    /// pages.
    page_mates: Lists,
    /// Groups that nothing has made durable yet, ascending.
    open: Vec<usize>,
    /// Those of them that the disk has in its cache, until something empties that. Ascending.
    unflushed: Vec<usize>,
    /// The operations that rename a file over another one, with the file.
    replacing: Vec<(usize, FileId)>,
    /// The groups that are sizes for which no space has to be found.
    reserved: HashSet<usize>,
    /// The sizes that a rename waits for, each with the first group of that: where the rename is durable, so
    /// is the size.
    awaited: HashMap<usize, usize>,
    /// Operations that have changed nothing that fdatasync waits for.
    idle: HashSet<usize>,
    /// How many groups there are before each event.
    groups_before: Vec<Narrow>,
    /// By file or directory, the operations that change its inode.
    touching: HashMap<FileId, Vec<Narrow>>,
    /// By file, the events that gave it space: they change its inode, whatever they leave to lose.
    allocating: HashMap<FileId, Vec<Narrow>>,
    /// Where a log tree is kept: by file or directory, what these are about, and those of them that
    /// are about its own names.
    subjects: HashMap<FileId, HashSet<FileId>>,
    naming: HashMap<FileId, Vec<Narrow>>,
    /// By file, the operations that gave it the name of another one, which they are about.
    exchanged: HashMap<FileId, Vec<Narrow>>,
    /// By a directory, the last operation that moved a file from it to another one.
    moved_from: HashMap<FileId, usize>,
    /// By a name that was left by a rename, the last one that did.
    made_room: HashMap<(FileId, Name), usize>,
    /// Where a log tree is kept: by a name, the files that left it since all was synced and have another.
    left: HashMap<(FileId, Name), HashSet<FileId>>,
    /// What was logged since all was synced: the last event that did that, and since when it is in
    /// the log.
    logged: HashMap<FileId, (usize, Follows)>,
    /// Directories that were logged with the names in them since all was synced.
    logged_with_names: HashMap<FileId, LoggedWithNames>,
    /// Names that were removed from a directory which a log tree had already: the sync of a file
    /// that had one of them does not log that.
    left_out: HashSet<usize>,
    /// What came into the log since it was written last, by its place among all that did.
    unwritten: Vec<usize>,
    /// The last event that synced a file or directory.
    synced: HashMap<FileId, usize>,
    /// The first operation that may have come since then.
    first_since: usize,
    files: HashMap<FileId, Known>,
}

/// A group that is not kept without the next one.
#[derive(Clone, Copy)]
struct Waiting {
    group: usize,
    /// Whether that one is not kept without it either.
    is_paired: bool,
    is_size: bool,
}

/// What was read.
pub(super) struct Read {
    pub(super) operations: Operations,
    /// For each group, what is lost with it.
    pub(super) followers: Lists,
    pub(super) words: Vec<Words>,
    /// The operations that rename a file over another one, with the file.
    pub(super) replacing: Vec<(usize, FileId)>,
    /// The groups that are sizes for which no space has to be found.
    pub(super) reserved: HashSet<usize>,
}

impl<'a> Reader<'a> {
    /// One that adds a node's operations to these, which are none yet.
    pub(super) fn new(
        node: &'a Node,
        micros: &'a Micros,
        cuts: &'a Cuts,
        mut operations: Operations,
        sector_bytes: u64,
    ) -> Self {
        operations.all.reserve_exact(cuts.operations());
        operations.groups.reserve_exact(cuts.len());
        Self {
            node,
            micros,
            cuts,
            sector_bytes,
            words: Vec::with_capacity(cuts.operations()),
            names: HashSet::new(),
            this: operations,
            followers: Lists::with_capacity(cuts.len()),
            page_mates: Lists::with_capacity(cuts.len()),
            open: Vec::new(),
            unflushed: Vec::new(),
            replacing: Vec::new(),
            reserved: HashSet::new(),
            awaited: HashMap::new(),
            idle: HashSet::new(),
            groups_before: Vec::new(),
            touching: HashMap::new(),
            allocating: HashMap::new(),
            subjects: HashMap::new(),
            naming: HashMap::new(),
            exchanged: HashMap::new(),
            moved_from: HashMap::new(),
            made_room: HashMap::new(),
            left: HashMap::new(),
            logged: HashMap::new(),
            logged_with_names: HashMap::new(),
            left_out: HashSet::new(),
            unwritten: Vec::new(),
            synced: HashMap::new(),
            first_since: 0,
            files: HashMap::new(),
        }
    }

    /// Reads all events of the node.
    ///
    /// # Errors
    /// If they are not wanted any more.
    pub(super) fn read_all(mut self, is_unwanted: IsUnwanted<'_>) -> Result<Read, Error> {
        self.read_initial();
        for (number, event) in self.node.events.iter().enumerate() {
            go_on(is_unwanted)?;
            self.note(number, &event.action);
            self.note_told(number, &event.action);
            self.groups_before.push(Narrow::new(self.this.groups.len()));
            if let Action::File(op) = &event.action {
                self.read(number, event, op);
            }
        }
        // Of two sends the one that returns first may have begun last.
        self.this.told.sort_unstable();
        Ok(Read {
            operations: self.this,
            followers: self.followers,
            words: self.words,
            replacing: self.replacing,
            reserved: self.reserved,
        })
    }

    /// Notes what an event is to others than the disk.
    fn note(&mut self, number: usize, action: &Action) {
        let (this, number) = (&mut self.this, Narrow::new(number));
        if matches!(action, Action::Receive(_)) {
            this.heard.push(number);
        }
        if action.is_sync() && this.model.log == Log::LogTree {
            this.syncs.push(number);
        }
        if matches!(action, Action::Mark { .. }) {
            this.acknowledgements.push(number);
        }
    }
}

impl Reader<'_> {
    /// Notes how many events somebody else knows of by an event: they had happened when it came.
    fn note_told(&mut self, number: usize, action: &Action) {
        let known = match action {
            Action::Mark { .. } => number + 1,
            Action::Send(_) => begun(&self.node.events, number),
            _ => return,
        };
        self.this.told.push(Narrow::new(known));
    }

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
        if let FileOp::Allocate { file, .. } = op {
            let allocating = self.allocating.entry(*file).or_default();
            allocating.push(Narrow::new(number));
        }
        if !self.cuts.of(number).is_empty() {
            self.add(number, event, op);
        }
        self.log_new_name(number, op);
        self.remember(op);
        match op {
            FileOp::Unlink { file, .. }
            | FileOp::Rename {
                replaced: Some(file),
                exchange: false,
                ..
            } => {
                self.reopen(number, *file);
                self.forget_names(number, *file, op);
            }
            _ => {}
        }
        for file in self.replaced_before(op) {
            self.reopen(number, file);
        }
    }

    /// Adds an operation that leaves something to lose.
    fn add(&mut self, number: usize, event: &Event, op: &FileOp) {
        let (first, operation) = (self.this.groups.len(), self.this.all.len());
        for part in 0..self.cuts.of(number).len() {
            self.group(number, op, part);
        }
        self.lose_with_new_name(first, op);
        let words = Words {
            by_name: self.name(op),
            by_site: (kind_of_call(op), event.stack),
        };
        self.words.push(words);
        if self.leaves_logged(op) {
            self.left_out.insert(operation);
        }
        self.note_inodes(operation, op);
        if let FileOp::Rename {
            file,
            replaced: Some(_),
            exchange: false,
            ..
        } = op
        {
            self.replacing.push((operation, *file));
            self.note_awaited(*file, first);
        }
        self.this.all.push(Operation {
            event: Narrow::new(number),
            groups: Span::new(first..self.this.groups.len()),
            likeness: 0,
            grows: grows(op),
            half_until: None,
            tears: Span::NONE,
        });
        self.note_left(operation);
        self.tie_in_log(first);
    }

    /// Notes that a rename, of which this is the first group, waits for the sizes of its file.
    fn note_awaited(&mut self, file: FileId, rename: usize) {
        if !self.this.model.replace_by_rename {
            return;
        }
        let operations = self.touching(file);
        let before = operations.filter(|operation| *operation < self.this.all.len());
        let groups = before.flat_map(|operation| self.this.all[operation].groups());
        let is_awaited = |number: &usize| {
            let group = &self.this.groups[*number];
            let is_size = group.is_size && !group.is_named && group.file == file;
            is_size && !self.reserved.contains(number)
        };
        for size in groups.filter(is_awaited).collect::<Vec<_>>() {
            self.awaited.entry(size).or_insert(rename);
        }
    }

    /// Notes whose inodes an operation changes, and where a log tree is kept what it is about.
    fn note_inodes(&mut self, operation: usize, op: &FileOp) {
        let has_log_tree = self.this.model.log == Log::LogTree;
        for file in touched(op) {
            let touching = self.touching.entry(file).or_default();
            if touching.last() != Some(&Narrow::new(operation)) {
                touching.push(Narrow::new(operation));
            }
            if has_log_tree {
                self.subjects.entry(file).or_default().insert(op.subject());
            }
        }
        if has_log_tree && is_of_names(op) {
            let naming = self.naming.entry(op.subject()).or_default();
            naming.push(Narrow::new(operation));
        }
        if let FileOp::Rename { names, .. } = op
            && has_log_tree
            && names.from.0 != names.to.0
        {
            self.moved_from.insert(names.from.0, operation);
        }
        match op {
            FileOp::Rename {
                names: ChangeOfName { from, .. },
                exchange: false,
                ..
            } if has_log_tree => {
                self.made_room.insert(from.clone(), operation);
            }
            FileOp::Rename {
                replaced: Some(other),
                exchange: true,
                ..
            } if has_log_tree => {
                let exchanged = self.exchanged.entry(*other).or_default();
                exchanged.push(Narrow::new(operation));
            }
            _ => {}
        }
    }

    /// Adds a part of an event's operation, the next one, as a group.
    fn group(&mut self, number: usize, op: &FileOp, part: usize) {
        let cuts = self.cuts.of(number);
        let (this, cut) = (self.this.groups.len(), &cuts[part]);
        let waiting = self.waiting(cuts, part);
        self.push_group(number, op, cut);
        self.repeat(this, cut);
        self.wait_for_growth(this, op);
        let is_new = cut.order == Order::After(Narrow::new(number));
        let has_size = waiting.is_some_and(|waiting| waiting.is_size);
        for micro in &self.micros.all[cut.micros.range()] {
            self.follow(this, &micro.effect, is_new, has_size);
        }
        if cut.requires == Some(Neighbour::Previous) {
            self.followers.push(this - 1, this);
        } else if let Some(waiting) = waiting {
            self.followers.push(this, waiting.group);
        }
        if let Some(Waiting { group: other, .. }) = waiting.filter(|waiting| waiting.is_paired) {
            self.pair(this, other);
        }
    }

    /// Adds the group of a part, which follows nothing yet.
    fn push_group(&mut self, number: usize, op: &FileOp, cut: &Cut) {
        let mut group = self.new_group(number, op, cut);
        // What repeats others is lost with these, whatever the log has.
        if cut.repeats.is_empty() {
            self.log_by_itself(number, op, &mut group);
        }
        self.note_reserved(self.this.groups.len(), &group);
        self.this.groups.push(group);
        self.followers.add();
        self.page_mates.add();
    }

    /// Two groups are lost together or not at all.
    fn pair(&mut self, one: usize, other: usize) {
        self.this.groups[one].rare_mut().pair = Narrow::new(other);
        self.this.groups[other].rare_mut().pair = Narrow::new(one);
    }

    /// Notes of a new group if it is a size within a page that got its space before.
    fn note_reserved(&mut self, number: usize, group: &Group) {
        let Effect::Grow { size, .. } = self.micros.all[group.micros().start].effect else {
            return;
        };
        let last = size.saturating_sub(1) / PAGE_BYTES;
        let known = self.files.get(&group.file);
        if group.is_size && known.is_some_and(|known| known.reserved.contains(&last)) {
            self.reserved.insert(number);
        }
    }

    /// The part of an operation before another one, the next group, if it is not kept without that.
    fn waiting(&self, cuts: &[Cut], part: usize) -> Option<Waiting> {
        let before = (0..part)
            .rev()
            .find(|part| cuts[*part].repeats.is_empty())?;
        let is_own = cuts[part].repeats.is_empty();
        let requires = cuts[before].requires.filter(|_| is_own)?;
        let effect = &self.micros.all[cuts[before].micros.range().start].effect;
        (requires != Neighbour::Previous).then(|| Waiting {
            group: self.this.groups.len() - part + before,
            is_paired: requires == Neighbour::Paired,
            is_size: is_size(effect),
        })
    }

    /// Notes that the log has a new group, the next one, if it follows what that has.
    fn log_by_itself(&mut self, number: usize, op: &FileOp, group: &mut Group) {
        let effect = &self.micros.all[group.micros().start].effect;
        let follows = self.follows_in_log(op, effect);
        if let Some((made_room, is_certain)) = self.made_room(op, effect, follows) {
            group.need(made_room, is_certain);
        }
        if let Some(follows) = follows {
            let this = Narrow::new(self.this.groups.len());
            self.unwritten.push(self.this.follows.len());
            self.this.follows.push((this, follows));
            group.log_with(number);
        }
    }

    fn new_group(&self, number: usize, op: &FileOp, cut: &Cut) -> Group {
        let micros = cut.micros.range();
        let effect = &self.micros.all[micros.start].effect;
        Group {
            operation: Narrow::new(self.this.all.len()),
            micros: cut.micros,
            cover: Narrow::NEVER,
            after: match cut.order {
                Order::Named => Narrow::new(self.this.groups.len()),
                Order::InPlace => Narrow::new(0),
                Order::After(event) => self.groups_before[event.get()],
            },
            logged: Narrow::NEVER,
            file: match effect {
                Effect::SetSize { file, .. } => *file,
                _ => op.subject(),
            },
            is_named: cut.order == Order::Named,
            naming: Naming::of(op, effect),
            is_new: cut.order == Order::After(Narrow::new(number)),
            is_size: is_size(effect) && micros.len() == 1,
            rare: None,
        }
    }

    /// Notes of a new group what it repeats, if it is nothing of its own; else that it is open.
    fn repeat(&mut self, this: usize, cut: &Cut) {
        let effect = &self.micros.all[cut.micros.range().start].effect;
        if matches!(effect, Effect::SetSize { .. }) && cut.order != Order::Named {
            self.this.sizes_with_names.push(Narrow::new(this));
        }
        if cut.repeats.is_empty() {
            self.open.push(this);
            return;
        }
        let repeats = cut.repeats.iter().map(|micro| self.group_of(*micro));
        let repeats: Vec<_> = repeats.collect();
        for repeated in &repeats {
            self.followers.push(*repeated, this);
        }
        let repeats = repeats.into_iter().map(Narrow::new).collect();
        self.this.groups[this].rare_mut().repeats = repeats;
    }

    /// Where a file grows with its bytes, a new size waits for those that the file has grown by up to
    /// there (`xfs_setattr_size`): it is not kept without them.
    fn wait_for_growth(&mut self, this: usize, op: &FileOp) {
        let FileOp::Resize { file, to, .. } = op else {
            return;
        };
        let is_size = self.this.groups[this].is_named;
        if self.this.model.growth != Growth::WithData || !is_size {
            return;
        }
        // What came before another new size was waited for then, or was cut off.
        let since = self.touching(*file).rev();
        let since = since.take_while(|one| !matches!(self.op(*one), FileOp::Resize { .. }));
        let grown: Vec<_> = since.flat_map(|one| self.grown_by(one, *to)).collect();
        for group in grown {
            self.followers.push(group, this);
        }
    }

    /// The groups of an operation with bytes by which it makes a file larger, of those before a size.
    fn grown_by(&self, operation: usize, size: u64) -> impl Iterator<Item = usize> {
        let size_before = match self.op(operation) {
            FileOp::Write { size_before, .. } => *size_before,
            _ => u64::MAX,
        };
        let is_grown = move |micro: &Micro| match &micro.effect {
            Effect::Overwrite { offset, .. } => (size_before..size).contains(offset),
            _ => false,
        };
        let groups = self.this.all[operation].groups();
        groups.filter(move |group| {
            let mut micros = self.micros.all[self.this.groups[*group].micros()].iter();
            micros.any(is_grown)
        })
    }

    /// The group of a micro that came before.
    fn group_of(&self, micro: usize) -> usize {
        let groups = &self.this.groups;
        groups.partition_point(|group| group.micros().end <= micro)
    }

    /// Has the last group follow those that wrote to the same sectors last. One that gives pages
    /// their place follows all that wrote to them, and so does one with a size that is kept only
    /// once the disk has the whole page.
    fn follow(&mut self, this: usize, effect: &Effect, is_new: bool, has_size: bool) {
        let Effect::Overwrite {
            file,
            offset,
            content,
        } = effect
        else {
            return;
        };
        let range = *offset..*offset + content.len();
        let is_zeros = matches!(content, Content::Zeros(_));
        let file = self.files.entry(*file).or_default();
        for page in file.pages_of(this, &range, is_zeros) {
            let of_page = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
            let (start, end) = (range.start.max(of_page.start), range.end.min(of_page.end));
            let sectors = start / self.sector_bytes..end.div_ceil(self.sector_bytes);
            let is_whole = is_new || sectors.end - sectors.start >= PAGE_BYTES / self.sector_bytes;
            let known = file.page(page);
            if let Some(last) = known.last.filter(|last| *last != this) {
                self.page_mates.push(last, this);
            }
            for before in known.write(this, &sectors, is_whole, has_size) {
                self.followers.push(before, this);
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
            } => self.rename(*file, names, *replaced, *exchange),
            FileOp::Allocate {
                file, offset, len, ..
            } => {
                let known = self.files.entry(*file).or_default();
                let pages = offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES);
                known.reserved.extend(pages);
            }
            FileOp::Resize { file, to, .. } => {
                let known = self.files.entry(*file).or_default();
                known.cut(to.div_ceil(PAGE_BYTES));
            }
            _ => {}
        }
    }

    /// A file has another name, and what had that before has none, or the other one's.
    fn rename(
        &mut self,
        file: FileId,
        names: &ChangeOfName,
        replaced: Option<FileId>,
        exchange: bool,
    ) {
        let (from, to) = (&names.from, &names.to);
        let (from, to) = ((from.0, &from.1), (to.0, &to.1));
        self.loses(file, from);
        if let Some(other) = replaced {
            self.loses(other, to);
        }
        self.gains(file, to);
        if let (Some(other), true) = (replaced, exchange) {
            self.gains(other, from);
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
        match &self.node.events[self.this.all[operation].event()].action {
            Action::File(op) => op,
            _ => unreachable!("operations are made of file operations"),
        }
    }

    /// Whether an operation is over when a sync begins: what overlaps it in time may not be
    /// covered.
    fn is_before(&self, operation: usize, number: usize, sync: &Event) -> bool {
        self.is_over(self.this.all[operation].event(), number, sync)
    }

    /// The same, of an event.
    fn is_over(&self, place: usize, number: usize, sync: &Event) -> bool {
        place < number && is_over(&self.node.events[place], sync)
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

/// Whether an operation changes a name.
fn is_of_names(op: &FileOp) -> bool {
    use FileOp::{Create, Link, Rename, Unlink};
    matches!(
        op,
        Create { .. } | Link { .. } | Rename { .. } | Unlink { .. }
    )
}

/// Whether an operation appends or changes a size.
fn grows(op: &FileOp) -> bool {
    match op {
        FileOp::Write {
            offset,
            data,
            size_before,
            ..
        } => offset + data.len > *size_before,
        FileOp::Resize { .. } => true,
        _ => false,
    }
}

/// Whether an effect makes a file larger, and says nothing of what is in it.
fn is_size(effect: &Effect) -> bool {
    matches!(effect, Effect::Grow { .. })
}
