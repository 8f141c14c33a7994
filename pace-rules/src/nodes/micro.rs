//! Operations cut into what can persist alone.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::model::{Growth, Model};
use super::{Content, Effect};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// So many, equal but for rounding.
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

/// What nothing is known of where it lies is not made of more bytes than this: a file that is grown
/// by more is zeros there, as it should.
const GARBAGE_BYTES_MAX: u64 = 1 << 20;

/// A node's operations as micros.
#[derive(Debug, Clone, Default)]
pub(super) struct Micros {
    pub(super) all: Vec<Micro>,
    /// For each event: the groups that can persist without one another, as ranges of `all`, in
    /// order. A group persists as a whole. Empty for an event that leaves nothing to lose.
    pub(super) groups: Vec<Vec<Range<usize>>>,
    /// For each event: how many micros there are up to it.
    pub(super) ends: Vec<usize>,
}

/// A node's operations, cut into what can persist alone, in order.
pub fn micros(node: &Node, model: &Model) -> Vec<Micro> {
    Micros::of(node, model, Split::default()).all
}

impl Micros {
    pub(super) fn of(node: &Node, model: &Model, split: Split) -> Self {
        let mut cutter = Cutter::new(node, model, split);
        for (number, event) in node.events.iter().enumerate() {
            cutter.event = number;
            cutter.times = (event.start_ns, event.end_ns);
            cutter.micros.groups.push(Vec::new());
            if let Action::File(op) = &event.action {
                cutter.cut(op);
            }
            cutter.micros.ends.push(cutter.micros.all.len());
        }
        cutter.micros
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
    event: usize,
    /// When it began, and when it returned.
    times: (u64, u64),
    micros: Micros,
    files: HashMap<FileId, Known>,
}

/// What is known of a file at a moment of the run.
#[derive(Debug, Clone, Default)]
struct Known {
    names: u32,
    size: u64,
    /// Up to here it was written and synced: the block before this has its place on the disk.
    placed: u64,
    /// Ends of what was written since, and when that returned.
    written: Vec<(u64, u64)>,
}

impl Known {
    /// A sync that began then has given a place to all that had been written.
    fn sync(&mut self, start_ns: u64) {
        let before = self
            .written
            .extract_if(.., |(_, end_ns)| *end_ns <= start_ns);
        self.placed = before.map(|(end, _)| end).fold(self.placed, u64::max);
    }

    /// There may be nothing from there on.
    fn cut(&mut self, from: u64) {
        self.placed = self.placed.min(from);
        self.written
            .iter_mut()
            .for_each(|(end, _)| *end = from.min(*end));
    }
}

impl<'a> Cutter<'a> {
    fn new(node: &Node, model: &'a Model, split: Split) -> Self {
        let mut files: HashMap<FileId, Known> = HashMap::new();
        for file in &node.initial {
            let known = files.entry(file.file).or_default();
            let names = known.names + u32::from(file.parent.is_some());
            let placed = file
                .content
                .iter()
                .map(|(offset, data)| offset + data.len)
                .max()
                .unwrap_or_default();
            *known = Known {
                names,
                size: file.size,
                placed,
                written: Vec::new(),
            };
        }
        Self {
            model,
            split,
            event: 0,
            times: (0, 0),
            micros: Micros::default(),
            files,
        }
    }

    fn file(&mut self, file: FileId) -> &mut Known {
        self.files.entry(file).or_default()
    }

    /// Effects that persist together.
    fn group(&mut self, effects: impl IntoIterator<Item = Effect>) {
        let start = self.micros.all.len();
        let event = self.event;
        self.micros
            .all
            .extend(effects.into_iter().map(|effect| Micro { event, effect }));
        let end = self.micros.all.len();
        self.micros.groups[event].push(start..end);
    }

    /// A new file: nothing that could be lost, as nobody sees it without a name.
    fn new_file(&mut self, file: FileId, kind: FileKind, mode: u32, names: u32) {
        self.micros.all.push(Micro {
            event: self.event,
            effect: Effect::NewFile { file, kind, mode },
        });
        *self.file(file) = Known {
            names,
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
                self.group([Effect::SetEntry {
                    parent: *parent,
                    name: name.clone(),
                    file: *file,
                }]);
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
                known.cut(*offset);
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
            FileOp::Sync {
                file,
                scope: SyncScope::File | SyncScope::Data,
            } => {
                let (start_ns, _) = self.times;
                self.file(*file).sync(start_ns);
            }
            FileOp::Sync { .. } => {}
            FileOp::SyncAll => {
                let (start_ns, _) = self.times;
                self.files
                    .values_mut()
                    .for_each(|known| known.sync(start_ns));
            }
        }
    }

    /// A name less. PACE and ALICE empty a file before its last name goes. No file system does it
    /// in that order, and a program cannot help it: SQLite, for one, counts on it that nobody does.
    fn remove(&mut self, parent: FileId, name: &Name, file: FileId) {
        let names = &mut self.file(file).names;
        *names = names.saturating_sub(1);
        self.group([Effect::RemoveEntry {
            parent,
            name: name.clone(),
        }]);
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
        let gone = Effect::RemoveEntry {
            parent: from.0,
            name: from.1.clone(),
        };
        if from == to || replaced == Some(file) {
            return;
        }
        match (replaced, exchange, self.model.atomic_names) {
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
                self.group([entry(to, file), gone]);
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

    fn write(&mut self, file: FileId, offset: u64, data: Data, size_before: u64) {
        let end = offset + data.len;
        let write = |range: &Range<u64>, content| Effect::Write {
            file,
            offset: range.start,
            content,
        };
        let written = |range: &Range<u64>| {
            let data = Data {
                at: data.at + (range.start - offset),
                len: range.end - range.start,
            };
            write(range, Content::Written(data))
        };
        for range in self.slices(offset..end.min(size_before)) {
            self.group([written(&range)]);
        }
        let mut grown = offset.max(size_before)..end;
        if let Some(in_place) = self.in_place(file, &grown) {
            let zeros = in_place.end - in_place.start;
            self.group([write(&in_place, Content::Zeros(zeros))]);
            self.group([written(&in_place)]);
            grown.start = in_place.end;
        }
        for range in self.slices(grown) {
            let len = range.end - range.start;
            if self.model.growth == Growth::ZerosAndGarbage {
                self.group([write(&range, Content::Zeros(len))]);
            }
            if matches!(self.model.growth, Growth::ZerosAndGarbage | Growth::Garbage) {
                self.group([write(&range, Content::Garbage(len))]);
            }
            self.group([written(&range)]);
        }
        let (_, end_ns) = self.times;
        let known = self.file(file);
        known.size = end.max(size_before);
        known.written.push((end, end_ns));
    }

    /// What of a file's new bytes is in a block that has its place, if the model lets the file grow
    /// there before they are written.
    fn in_place(&mut self, file: FileId, grown: &Range<u64>) -> Option<Range<u64>> {
        let block = self.model.block_bytes;
        let begins = grown.start / block * block;
        let is_placed =
            self.model.growth == Growth::ZerosInPlace && begins < self.file(file).placed;
        let end = grown.end.min(begins + block);
        (is_placed && grown.start < end).then_some(grown.start..end)
    }

    fn resize(&mut self, file: FileId, from: u64, to: u64) {
        self.file(file).cut(to);
        if to < from {
            self.shrink(file, from, to);
        } else if self.model.growth == Growth::ZerosAndGarbage && to - from <= GARBAGE_BYTES_MAX {
            for range in self.slices(from..to) {
                let len = range.end - range.start;
                let write = |content| Effect::Write {
                    file,
                    offset: range.start,
                    content,
                };
                self.group([write(Content::Garbage(len))]);
                self.group([write(Content::Zeros(len))]);
            }
        } else if to > from {
            self.group([Effect::SetSize { file, size: to }]);
        }
        self.file(file).size = to;
    }

    fn shrink(&mut self, file: FileId, from: u64, to: u64) {
        if self.model.atomic_names {
            self.group([Effect::SetSize { file, size: to }]);
            return;
        }
        for range in self.slices(to..from).into_iter().rev() {
            self.group([Effect::SetSize {
                file,
                size: range.start,
            }]);
        }
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
