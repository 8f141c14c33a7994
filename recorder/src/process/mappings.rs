//! Files that are mapped so that stores change them. A store is no call: what it did is seen by
//! comparing the file with what is known of it, before every call that is recorded, and when the
//! mapping goes. So a store is recorded after the last call before which its page was unchanged:
//! from there on it can be on the disk. Stores between two calls have no order among themselves,
//! and of several to one place only the last is seen.

use std::collections::{HashMap, hash_map};
use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use libc::pid_t;
use local_fs::with_data;
use rustix::fs::{OFlags, fcntl_getfl};
use trace::{FileId, FileOp, SyncScope};

use super::files::{FileCall, to_exit};
use super::gate::Changes;
use super::recording::{Entered, Next, Recording};
use super::snapshot;
use tracer::Entry;
use tracer::Origin;
use tracer::calls::{Call, Numbers, Row, When};
use tracer::lookup::{Descriptor, readable};
use tracer::now_ns;

/// A part of a file in the memory of a process.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    start: u64,
    len: u64,
    file: FileId,
    offset: u64,
    writable: bool,
    /// No other one has it: when a mapping goes another thread may get its place at once.
    number: u64,
}

impl Mapping {
    fn overlaps(&self, start: u64, len: u64) -> bool {
        self.start < start.saturating_add(len) && start < self.start.saturating_add(self.len)
    }

    /// What is left of it once a range of memory is another's: a sync of that is none of it.
    fn without(&self, start: u64, len: u64) -> Vec<Self> {
        let (own_end, end) = (self.start + self.len, start.saturating_add(len));
        let before = self.start..start.clamp(self.start, own_end);
        let after = end.clamp(self.start, own_end)..own_end;
        let part = |range: Range<u64>| Self {
            start: range.start,
            len: range.end - range.start,
            offset: self.offset + (range.start - self.start),
            ..self.clone()
        };
        let left = [before, after].into_iter();
        left.filter(|range| !range.is_empty()).map(part).collect()
    }

    /// Which part of which file is synced by a sync of a range of memory that overlaps it.
    fn synced(&self, start: u64, len: u64) -> (FileId, SyncScope) {
        let from = start.max(self.start);
        let to = start.saturating_add(len).min(self.start + self.len);
        let scope = SyncScope::Range {
            offset: self.offset + (from - self.start),
            len: to - from,
        };
        (self.file, scope)
    }
}

/// The files that are mapped, open to be read.
pub(super) type Mapped = HashMap<FileId, File>;

/// What the disk has of a file in one piece, and the unit of writeback.
pub(super) const PAGE_BYTES: u64 = 4096;

/// How much is compared at once, in pages.
const PIECE_BYTES: usize = 64 << 10;

/// Files with more data than this are compared only before they are synced or changed: it would
/// take longer than a call. Of stores to them it is not known between which calls they were made.
const LOOK_BYTES_MAX: u64 = 16 << 20;

/// How events are named that are stores.
const STORE: Row = Row {
    numbers: Numbers::NONE,
    name: "store",
    call: Call::Foreign,
    when: When::Always,
};

impl Recording {
    pub(super) fn enter_map(&mut self, entry: &Entry, origin: &Origin) -> Next {
        let going = self.replaced(origin, entry, Call::Map);
        let own = self.own(origin, entry.arguments[4]);
        // Nobody can ever store to what is not open for writing.
        let is_writable = |copy: &OwnedFd| {
            fcntl_getfl(copy).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
        };
        match own.filter(|(_, descriptor)| is_writable(&descriptor.copy)) {
            Some((file, Descriptor { copy, .. })) => to_exit(FileCall::Map { file, copy, going }),
            None if going.is_empty() => Next::GoOn,
            None => to_exit(FileCall::Unmap(going)),
        }
    }

    /// The mappings of which another one is to take the place, in whole or in part.
    fn replaced(&self, origin: &Origin, entry: &Entry, call: Call) -> Vec<u64> {
        let [start, len, _, flags, ..] = entry.arguments;
        let ((start, len), fixed) = match call {
            Call::Map => ((start, len), libc::MAP_FIXED),
            Call::Move => (moved_to(entry), libc::MREMAP_FIXED),
            _ => return Vec::new(),
        };
        if flags & fixed as u64 == 0 {
            return Vec::new();
        }
        let hit = self.hit(origin.process, start, len);
        hit.map(|mapping| mapping.number).collect()
    }

    pub(super) fn leave_map(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        file: FileId,
        (copy, going): (&OwnedFd, &[u64]),
        start: u64,
    ) {
        if !going.is_empty() {
            self.leave_unmap(origin, entry, going);
        }
        let [_, len, protection, _, _, offset] = entry.arguments;
        let Some(mappings) = self.mappings.get_mut(&origin.process) else {
            return;
        };
        let writable = protection & libc::PROT_WRITE as u64 != 0;
        mappings.push(Mapping {
            start,
            len,
            file,
            offset,
            writable,
            number: now_ns(),
        });
        let hash_map::Entry::Vacant(vacant) = self.mapped.entry(file) else {
            return;
        };
        match readable(copy.as_fd()) {
            Ok(readable) => drop(vacant.insert(readable)),
            Err(_) => self.count("mmap of a file that cannot be read"),
        }
    }

    /// A mapping of this process that overlaps a range.
    fn hit(&self, process: pid_t, start: u64, len: u64) -> impl Iterator<Item = &Mapping> {
        let mappings = self.mappings.get(&process).into_iter().flatten();
        mappings.filter(move |mapping| mapping.overlaps(start, len))
    }

    pub(super) fn enter_mapping_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: Call,
    ) -> Next {
        let [start, len, third, ..] = entry.arguments;
        let replaced = self.replaced(origin, entry, call);
        let is_hit = self.hit(origin.process, start, len.max(1)).next().is_some();
        if !is_hit && replaced.is_empty() {
            return Next::GoOn;
        }
        match call {
            Call::Protect => {
                let mappings = self.mappings.get_mut(&origin.process);
                let mappings = mappings.expect("it has a mapping").iter_mut();
                for mapping in mappings.filter(|mapping| mapping.overlaps(start, len)) {
                    mapping.writable = true;
                }
                Next::GoOn
            }
            Call::SyncMapping => self.enter_msync(origin, start, len, third),
            Call::Unmap | Call::Move => {
                let hit = self.hit(origin.process, start, len.max(1));
                let going = hit.map(|mapping| mapping.number).collect();
                to_exit(if call == Call::Move {
                    FileCall::Move { going, replaced }
                } else {
                    FileCall::Unmap(going)
                })
            }
            _ => Next::ToExit(Entered::Unfollowed(format!(
                "{} of a mapped file",
                origin.row.name
            ))),
        }
    }

    /// What was stored before a sync comes before it.
    fn enter_msync(&mut self, origin: &Origin, start: u64, len: u64, flags: u64) -> Next {
        let hit = self.hit(origin.process, start, len);
        let ranges: Vec<_> = hit.map(|mapping| mapping.synced(start, len)).collect();
        let waits = flags & libc::MS_SYNC as u64 != 0;
        for (file, _) in &ranges {
            self.settle_mapped(origin, *file);
            if !waits {
                self.promises_nothing(*file, "msync(MS_ASYNC)");
            }
        }
        if waits {
            to_exit(FileCall::Sync(ranges))
        } else {
            Next::GoOn
        }
    }

    pub(super) fn leave_unmap(&mut self, origin: &Origin, entry: &Entry, going: &[u64]) {
        let [start, len, ..] = entry.arguments;
        self.end_range(origin, (start, len), going);
    }

    /// These mappings have a range of memory no more.
    fn end_range(&mut self, origin: &Origin, (start, len): (u64, u64), going: &[u64]) {
        let len = len.next_multiple_of(PAGE_BYTES);
        let hit = self
            .hit(origin.process, start, len)
            .filter(|mapping| going.contains(&mapping.number));
        let hit: Vec<FileId> = hit.map(|mapping| mapping.file).collect();
        for file in hit {
            self.settle_mapped(origin, file);
        }
        let Some(mappings) = self.mappings.get_mut(&origin.process) else {
            return;
        };
        let is_going = |mapping: &Mapping| going.contains(&mapping.number);
        let kept = mappings.drain(..).flat_map(|mapping| {
            if is_going(&mapping) {
                mapping.without(start, len)
            } else {
                vec![mapping]
            }
        });
        *mappings = kept.collect();
        self.forget_unmapped();
    }

    /// What is outside of the range that moves stays, and all of it where the kernel makes another view
    /// of the file. What it takes the place of goes.
    pub(super) fn leave_move(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        (going, replaced): (&[u64], &[u64]),
        to: u64,
    ) {
        if !replaced.is_empty() {
            self.end_range(origin, moved_to(entry), replaced);
        }
        let [start, old_len, len, flags, ..] = entry.arguments;
        let Some(mappings) = self.mappings.get_mut(&origin.process) else {
            return;
        };
        let stays = flags & libc::MREMAP_DONTUNMAP as u64 != 0 || old_len == 0;
        let is_going = |mapping: &Mapping| going.contains(&mapping.number);
        let (going, kept): (Vec<_>, Vec<_>) = mappings.drain(..).partition(is_going);
        mappings.extend(kept);
        for mapping in going {
            if mapping.overlaps(start, 1) {
                mappings.push(Mapping {
                    start: to,
                    len,
                    offset: mapping.offset + (start - mapping.start),
                    ..mapping.clone()
                });
            }
            if stays {
                mappings.push(mapping);
            } else {
                mappings.extend(mapping.without(start, old_len.next_multiple_of(PAGE_BYTES)));
            }
        }
    }

    /// A process has no memory any more, or another.
    pub(super) fn end_mappings(&mut self, origin: &Origin, process: pid_t) {
        let Some(known) = self.mappings.get(&process) else {
            return;
        };
        let mut files: Vec<FileId> = known.iter().map(|mapping| mapping.file).collect();
        files.sort_unstable();
        files.dedup();
        for file in files {
            self.settle_mapped(origin, file);
        }
        if let Some(known) = self.mappings.get_mut(&process) {
            known.clear();
        }
        self.forget_unmapped();
    }

    fn forget_unmapped(&mut self) {
        let mappings = self.mappings.values().flatten();
        let is_mapped = |file: FileId| mappings.clone().any(|mapping| mapping.file == file);
        self.mapped.retain(|file, _| is_mapped(*file));
    }

    /// Records what was stored until now, after the last call that was recorded. Not while
    /// somebody else changes files: what he does would be taken for a store.
    pub(super) fn look_at_mapped(&mut self, origin: &Origin) {
        if self.mapped.is_empty() || self.gate.is_busy(Changes::Files, origin.thread) {
            return;
        }
        let small = self
            .mapped
            .iter()
            .filter(|(_, readable)| !is_large(readable));
        let mut files: Vec<FileId> = small.map(|(file, _)| *file).collect();
        files.sort_unstable();
        for file in files {
            self.settle_mapped(origin, file);
        }
    }

    /// Records what was stored to a file, if somebody can have.
    pub(super) fn settle_mapped(&mut self, origin: &Origin, file: FileId) {
        let mut mappings = self.mappings.values().flatten();
        if !mappings.any(|mapping| mapping.file == file && mapping.writable) {
            return;
        }
        let Some(readable) = self.mapped.remove(&file) else {
            return;
        };
        let before = self.events();
        self.settle(&origin.as_row(STORE), file, &readable);
        if self.events() > before && is_large(&readable) {
            self.count("a store to a mapped file of more than 16 MiB, at a time that is not known");
        }
        self.mapped.insert(file, readable);
    }

    pub(super) fn settle_all_mapped(&mut self, origin: &Origin) {
        let files: Vec<FileId> = self.mapped.keys().copied().collect();
        for file in files {
            self.settle_mapped(origin, file);
        }
    }

    /// Records where a file is not what is known of it, as writes.
    pub(super) fn settle(&mut self, origin: &Origin, file: FileId, real: &File) {
        if self.try_settle(origin, file, real).is_err() {
            self.count(format!("{} of a file that cannot be read", origin.row.name));
        }
    }

    fn try_settle(&mut self, origin: &Origin, file: FileId, real: &File) -> io::Result<()> {
        let Some(tree) = &self.tree else {
            return Ok(());
        };
        let (from, to) = (tree.file(file).size, real.metadata()?.len());
        if from != to {
            self.operation(origin, FileOp::Resize { file, from, to });
        }
        let Some(tree) = &self.tree else {
            return Ok(());
        };
        let ranges = with_data(real, to, tree.file(file).content.ranges())?;
        let (mut found, mut known) = (Vec::new(), Vec::new());
        for range in ranges {
            let pages = range.start / PAGE_BYTES * PAGE_BYTES..range.end;
            for (at, len) in snapshot::cut(pages, PIECE_BYTES) {
                found.resize(len, 0);
                known.resize(len, 0);
                real.read_exact_at(&mut found, at)?;
                if let Some(tree) = &self.tree {
                    tree.file(file).content.read(at, &self.data, &mut known);
                }
                if found != known {
                    self.stored(origin, file, at, (&found, &known));
                }
            }
        }
        Ok(())
    }

    /// Records what was stored to a piece of a file, from where it is and was.
    fn stored(&mut self, origin: &Origin, file: FileId, at: u64, (now, before): (&[u8], &[u8])) {
        let size_before = self.tree.as_ref().map_or(0, |tree| tree.file(file).size);
        for (page, len) in snapshot::cut(0..now.len() as u64, PAGE_BYTES as usize) {
            let start = page as usize;
            let (now, before) = (&now[start..start + len], &before[start..start + len]);
            if let Some(range) = difference(now, before) {
                let write = FileOp::Write {
                    file,
                    offset: at + page + range.start as u64,
                    data: snapshot::add(&mut self.data, &now[range]),
                    size_before,
                };
                self.operation(origin, write);
            }
        }
    }
}

/// The range of memory to which a call moves another one, if it says which.
fn moved_to(entry: &Entry) -> (u64, u64) {
    let [_, _, len, _, start, _] = entry.arguments;
    (start, len)
}

/// Whether a file has too much data to be compared at every call.
fn is_large(file: &File) -> bool {
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size <= LOOK_BYTES_MAX {
        return false;
    }
    let data = with_data(file, size, iter::empty()).unwrap_or_default();
    data.iter()
        .map(|range| range.end - range.start)
        .sum::<u64>()
        > LOOK_BYTES_MAX
}

/// From the first byte that differs to past the last one. A page goes to the disk as a whole, and
/// so does what was stored to it since it was looked at.
fn difference(left: &[u8], right: &[u8]) -> Option<Range<usize>> {
    let differs = |(left, right): (&u8, &u8)| left != right;
    let first = left.iter().zip(right).position(differs)?;
    let last = left.iter().zip(right).rposition(differs)?;
    Some(first..last + 1)
}
