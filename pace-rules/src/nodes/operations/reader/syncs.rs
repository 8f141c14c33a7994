//! What a sync makes durable.

use std::collections::{HashMap, HashSet};

use itertools::Itertools as _;
use trace::{Event, FileId, FileOp, SyncScope};

use super::files::Known;
use super::{Reader, is_size};
use crate::nodes::Effect;
use crate::nodes::micro::{Micro, PAGE_BYTES};
use crate::nodes::model::{DataSync, Exchange, Growth, Log};
use crate::nodes::narrow::Narrow;
use crate::nodes::operations::Group;

/// The size of a file before and after a write that makes it larger.
fn grown(op: &FileOp) -> Option<(u64, u64)> {
    let FileOp::Write {
        offset,
        data,
        size_before,
        ..
    } = op
    else {
        return None;
    };
    let size = offset + data.len;
    (size > *size_before).then_some((*size_before, size))
}

/// Growth of a file that was taken back.
#[derive(Default)]
struct TakenBack {
    /// The writes, and the truncation.
    operations: Vec<usize>,
    /// The size that the file had before, and has again.
    size: u64,
}

impl Reader<'_> {
    pub(super) fn sync_all(&mut self, number: usize, event: &Event) {
        let flushes = self.this.model.sync_flushes;
        // A page with which a file has grown has its bytes with the size, whenever that is committed:
        // the journal flushes the disk for it.
        let grown = if flushes {
            HashMap::new()
        } else {
            self.grown_pages()
        };
        self.cover(number, event, |this, group| {
            let of_group = &this.this.groups[group];
            flushes || of_group.is_named || of_group.is_new || this.is_of_grown_page(group, &grown)
        });
        let is_written = |group: &usize| {
            let operation = self.this.groups[*group].operation();
            self.is_before(operation, number, event)
        };
        let written = self.open.iter().copied().filter(is_written);
        self.unflushed = written.collect();
        self.logged.clear();
        self.logged_with_names.clear();
        self.unwritten.clear();
        let mut since = self.first_since..self.this.all.len();
        let first = since.find(|operation| !self.is_before(*operation, number, event));
        self.first_since = first.unwrap_or(self.this.all.len());
        self.left.clear();
        for operation in self.first_since..self.this.all.len() {
            self.note_left(operation);
        }
    }

    /// By file of which something is not durable, the page with which the last of its changes made it
    /// larger, if that size is not on the disk yet.
    fn grown_pages(&self) -> HashMap<FileId, u64> {
        let files = self.open.iter().map(|group| self.this.groups[*group].file);
        let grown = files.unique().filter_map(|file| {
            let last = self.touching(file).rev().find(|operation| self.is_of_bytes(*operation))?;
            let (size_before, size) = grown(self.op(last))?;
            let is_size = |micro: &Micro| matches!(&micro.effect, Effect::Grow { size: to, .. } if *to == size);
            let mut groups = self.this.groups[self.this.all[last].groups()].iter();
            let is_open = |group: &Group| {
                let mut micros = self.micros.all[group.micros()].iter();
                group.cover == Narrow::NEVER && micros.any(is_size)
            };
            groups.any(is_open).then_some((file, size_before - size_before % PAGE_BYTES))
        });
        grown.collect()
    }

    /// Whether an operation changes the bytes of a file, or its size.
    fn is_of_bytes(&self, operation: usize) -> bool {
        let mut groups = self.this.groups[self.this.all[operation].groups()].iter();
        groups.any(|group| !group.is_named)
    }

    /// Whether a group is bytes that were appended to that page, or to a later one. What is written
    /// in place, or made zeros or a hole, may find the page and its size on the disk.
    fn is_of_grown_page(&self, group: usize, pages: &HashMap<FileId, u64>) -> bool {
        let group = &self.this.groups[group];
        let has_grown = grown(self.op(group.operation())).is_some();
        let Some(page) = pages.get(&group.file).filter(|_| has_grown) else {
            return false;
        };
        let mut micros = self.micros.all[group.micros()].iter();
        micros.all(|micro| match &micro.effect {
            Effect::Overwrite { offset, .. } | Effect::Write { offset, .. } => offset >= page,
            effect => is_size(effect),
        })
    }

    pub(super) fn sync(&mut self, number: usize, event: &Event, file: FileId, scope: SyncScope) {
        match self.this.model.log {
            Log::None => {
                self.cover(number, event, |this, group| {
                    let all = &this.micros.all[this.this.groups[group].micros()];
                    all.iter().all(|micro| is_of(&micro.effect, file, scope))
                });
                // Of a rename to another directory the sync of one of the two keeps a part.
                if self.has_split(number) {
                    self.this.syncs.push(Narrow::new(number));
                }
            }
            Log::Journal => self.sync_in_journal(number, event, file, scope),
            Log::LogTree => self.sync_in_log_tree(number, event, file, scope),
        }
    }

    fn sync_in_journal(&mut self, number: usize, event: &Event, file: FileId, scope: SyncScope) {
        let taken_back = self.growth_taken_back(number, event, file, scope);
        if !taken_back.operations.is_empty() {
            self.this.syncs.push(Narrow::new(number));
        }
        self.idle.extend(&taken_back.operations);
        let names = self.committed(number, event, (file, scope));
        let unflushed = if self.is_flush(file, names) {
            std::mem::take(&mut self.unflushed)
        } else {
            Vec::new()
        };
        self.cover(number, event, |this, group| {
            let of_group = &this.this.groups[group];
            // To lose what has changed nothing would be to lose a part of it.
            (of_group.is_named && group < names)
                || this.is_taken_back(group, &taken_back)
                || this.is_data_of(group, file, scope)
                || unflushed.binary_search(&group).is_ok()
        });
    }

    /// Whether a sync of a file or directory empties the disk's cache: that of a directory of which
    /// the log has all already sends nothing (xfs_dir_fsync). `names` is what it commits up to.
    fn is_flush(&self, file: FileId, names: usize) -> bool {
        let is_directory = |known: &Known| known.is_directory;
        let mut open = self.open.iter();
        !self.files.get(&file).is_some_and(is_directory)
            || open.any(|group| *group < names && self.this.groups[*group].is_named)
    }

    /// The first of the groups of names that a sync of a file does not find committed, if all before
    /// the last of its changes are.
    fn committed(&self, number: usize, sync: &Event, (file, scope): (FileId, SyncScope)) -> usize {
        let is_directory = self
            .files
            .get(&file)
            .is_some_and(|known| known.is_directory);
        if is_directory && self.this.model.data_sync == DataSync::Sizes {
            return self.groups_before[number].get();
        }
        let mut committed = self.committed_with_space(number, sync, file);
        for operation in self.touching(file).rev() {
            let groups = self.this.all[operation].groups();
            if groups.end <= committed {
                break;
            }
            let is_idle = is_data(scope) && self.idle.contains(&operation);
            if !self.is_before(operation, number, sync) || is_idle {
                continue;
            }
            for group in groups {
                committed = committed.max(self.committed_with(group, (file, scope)));
            }
        }
        committed
    }

    /// The same, for the last time that the file was given space: that changes its inode for fdatasync
    /// too, even if it had all of it (`ext4_alloc_file_blocks`, `xfs_alloc_file_space`).
    fn committed_with_space(&self, number: usize, sync: &Event, file: FileId) -> usize {
        let allocating = self.allocating.get(&file).into_iter().flatten();
        let mut allocating = allocating.rev().map(|event| event.get());
        let last = allocating.find(|event| self.is_over(*event, number, sync));
        last.map_or(0, |last| self.groups_before[last].get())
    }

    /// The same, for one of the groups that changed the file.
    fn committed_with(&self, group: usize, (file, scope): (FileId, SyncScope)) -> usize {
        let of_group = &self.this.groups[group];
        let op = self.op(of_group.operation());
        let is_exchange = matches!(op, FileOp::Rename { exchange: true, .. });
        let by_directory = self.this.model.exchange == Exchange::Directories;
        if is_exchange && by_directory && !Self::is_in(op, file) {
            0
        } else if of_group.is_named && self.waits_for_names(op, (file, scope)) {
            group + 1
        } else if self.is_data_of(group, file, scope) && !self.may_be_none(group, op) {
            of_group.after.get()
        } else {
            0
        }
    }

    /// Whether a sync of a file waits for the names that an operation has changed.
    fn waits_for_names(&self, op: &FileOp, (file, scope): (FileId, SyncScope)) -> bool {
        match (scope, op) {
            (SyncScope::File | SyncScope::FileRange { .. }, _)
            | (
                _,
                FileOp::Write { .. }
                | FileOp::Resize { .. }
                | FileOp::Zero { .. }
                | FileOp::ZeroBlocks { .. }
                | FileOp::Allocate { .. },
            ) => true,
            (_, FileOp::Create { file: new, .. }) if *new == file => true,
            _ => self.this.model.data_sync == DataSync::Names,
        }
    }

    /// The operations that change the inode of a file, ascending.
    pub(super) fn touching(&self, file: FileId) -> impl DoubleEndedIterator<Item = usize> {
        let touching = self.touching.get(&file).into_iter().flatten();
        touching.map(|operation| operation.get())
    }

    /// Writes of which nothing is left of what the file grew by, with the truncation that took it
    /// back, where the file may have had the same size on the disk all the time: nobody has waited
    /// for what it grew by, which had no place there yet. That is nothing that fdatasync waits for.
    fn growth_taken_back(
        &self,
        number: usize,
        sync: &Event,
        file: FileId,
        scope: SyncScope,
    ) -> TakenBack {
        if !is_data(scope) || self.this.model.data_sync != DataSync::Sizes {
            return TakenBack::default();
        }
        let mut operations = Vec::new();
        let mut size = None;
        for operation in self.open_changes(number, sync, file) {
            match (self.op(operation), size) {
                (FileOp::Resize { from, to, .. }, None) if to < from => size = Some(*to),
                (
                    FileOp::Resize { .. }
                    | FileOp::Zero { .. }
                    | FileOp::ZeroBlocks { .. }
                    | FileOp::Allocate { .. }
                    | FileOp::Create { .. },
                    _,
                ) => break,
                (FileOp::Write { offset, .. }, Some(to)) if grows_at_once(to, *offset) => break,
                (FileOp::Write { size_before, .. }, Some(to)) if *size_before == to => {
                    operations.push(operation);
                    return TakenBack {
                        operations,
                        size: to,
                    };
                }
                (FileOp::Write { .. }, Some(_)) => {}
                _ => continue,
            }
            operations.push(operation);
        }
        TakenBack::default()
    }

    /// Whether a group is of growth that was taken back: not what a write has put in place of bytes
    /// before the end.
    fn is_taken_back(&self, group: usize, taken_back: &TakenBack) -> bool {
        let group = &self.this.groups[group];
        let is_left = |micro: &Micro| {
            let Effect::Overwrite { offset, .. } = micro.effect else {
                return false;
            };
            offset < taken_back.size
        };
        taken_back.operations.contains(&group.operation())
            && !self.micros.all[group.micros()].iter().any(is_left)
    }

    /// The operations that changed a file before a sync begins and that fdatasync waits for, the
    /// last first, up to one of which something is durable.
    fn open_changes(
        &self,
        number: usize,
        sync: &Event,
        file: FileId,
    ) -> impl Iterator<Item = usize> {
        let is_open = |operation: &usize| {
            let groups = &self.this.groups[self.this.all[*operation].groups()];
            groups.iter().all(|group| group.cover == Narrow::NEVER)
        };
        self.touching(file)
            .rev()
            .filter(move |operation| self.is_before(*operation, number, sync))
            .filter(|operation| !self.idle.contains(operation))
            .take_while(is_open)
    }

    /// Whether a group is a size that the file may have had before on the disk.
    fn may_be_none(&self, group: usize, op: &FileOp) -> bool {
        let micros = self.this.groups[group].micros();
        match (&self.micros.all[micros.start].effect, op) {
            (
                Effect::Grow { size, .. },
                FileOp::Write {
                    offset,
                    size_before,
                    ..
                },
            ) => {
                let mut after = self.this.groups[group + 1..].iter();
                let bytes = after.find(|group| !group.is_size);
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

    pub(super) fn is_data_of(&self, group: usize, file: FileId, scope: SyncScope) -> bool {
        let Group {
            is_named, micros, ..
        } = &self.this.groups[group];
        let is_part = matches!(scope, SyncScope::Range { .. } | SyncScope::FileRange { .. });
        let is_in_doubt =
            is_part && self.may_be_none(group, self.op(self.this.groups[group].operation()));
        !is_named
            && !is_in_doubt
            && self.micros.all[micros.range()]
                .iter()
                .all(|micro| is_of(&micro.effect, file, scope))
    }

    /// Whether a sync has made a part of an operation durable, and left another part.
    fn has_split(&self, sync: usize) -> bool {
        self.open.iter().any(|group| {
            let operation = &self.this.all[self.this.groups[*group].operation()];
            let mut parts = self.this.groups[operation.groups()].iter();
            parts.any(|part| part.cover() == sync)
        })
    }

    /// Whether one of these groups, descending, is not there without another one.
    fn is_needed_by(&self, group: usize, covered: &[usize]) -> bool {
        let (followers, page_mates) = (&self.followers, &self.page_mates);
        let rename = self.awaited.get(&group).copied();
        let mut later = followers
            .get(group)
            .chain(page_mates.get(group))
            .chain(rename);
        later.any(|later| covered.binary_search_by(|one| later.cmp(one)).is_ok())
    }

    /// Has a sync make what is meant durable, of what was done before it, and what that needs. Whether
    /// there is any of that.
    pub(super) fn cover(
        &mut self,
        number: usize,
        sync: &Event,
        is_covered: impl Fn(&Self, usize) -> bool,
    ) -> bool {
        let open = std::mem::take(&mut self.open);
        // Descending.
        let (mut covered, mut left): (Vec<usize>, Vec<usize>) = Default::default();
        // Operations without whose names what is covered is not there.
        let mut needed: HashSet<usize> = HashSet::new();
        // The last first: what is covered is not there without what it needs.
        for group in open.into_iter().rev() {
            let is_before = self.is_before(self.this.groups[group].operation(), number, sync);
            let operation = self.this.groups[group].operation();
            let is_needed_name = || needed.contains(&operation) && self.is_in_log_with_file(group);
            let is_needed = || self.is_needed_by(group, &covered) || is_needed_name();
            if is_before && (is_covered(self, group) || is_needed()) {
                needed.extend(self.needed_with(group));
                covered.push(group);
            } else {
                left.push(group);
            }
        }
        left.reverse();
        self.open = left;
        for group in &covered {
            self.this.groups[*group].cover_with(number);
        }
        !covered.is_empty()
    }
}

/// Whether a write where a file was cut off makes it grow on the disk at once: in the last block,
/// which has its place, and not if it has filled that.
fn grows_at_once(size: u64, offset: u64) -> bool {
    let end_of_block = size.next_multiple_of(PAGE_BYTES);
    size < end_of_block && offset < end_of_block
}

/// Whether a sync waits for no more than what is needed to read the bytes.
fn is_data(scope: SyncScope) -> bool {
    matches!(scope, SyncScope::Data | SyncScope::Range { .. })
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
