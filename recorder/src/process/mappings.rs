//! Files that are mapped so that stores change them. A store is no call: what it did is seen by
//! comparing the file with what is known of it, before a sync and when the mapping goes.

use std::collections::{HashMap, hash_map};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use libc::pid_t;
use rustix::fs::{OFlags, fcntl_getfl};
use trace::{Data, FileId, FileOp, SyncScope};

use super::files::FileCall;
use super::recording::{Entered, Next, Recording};
use super::snapshot;
use tracer::Entry;
use tracer::Origin;
use tracer::calls::{Call, Numbers, Row, When};
use tracer::lookup::readable;
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
}

/// The files that are mapped, open to be read.
pub(super) type Mapped = HashMap<FileId, File>;

/// What the disk has of a file in one piece.
const PAGE_BYTES: usize = 4096;

/// Bytes that differ and are not further apart were stored together.
const GAP_BYTES: usize = 64;

/// How events are named that are stores.
const STORE: Row = Row {
    numbers: Numbers::NONE,
    name: "store",
    call: Call::Foreign,
    when: When::Always,
};

impl Recording {
    pub(super) fn enter_map(&mut self, entry: &Entry, origin: &Origin) -> Next {
        let Some(tree) = &self.tree else {
            return Next::GoOn;
        };
        let descriptor = origin.descriptor(entry.arguments[4] as i32);
        let Some(descriptor) = descriptor else {
            return Next::GoOn;
        };
        let Some(file) = tree.find(&descriptor.stat) else {
            return Next::GoOn;
        };
        // Nobody can ever store to what is not open for writing.
        if fcntl_getfl(&descriptor.copy).is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::RDWR) {
            return Next::GoOn;
        }
        Next::ToExit(Entered::File(FileCall::Map {
            file,
            copy: descriptor.copy,
        }))
    }

    pub(super) fn leave_map(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        file: FileId,
        copy: &OwnedFd,
        start: u64,
    ) {
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
        if self.hit(origin.process, start, len.max(1)).next().is_none() {
            return Next::GoOn;
        }
        match call {
            Call::Protect => {
                let mappings = self.mappings.get_mut(&origin.process);
                for mapping in mappings
                    .expect("it has a mapping")
                    .iter_mut()
                    .filter(|mapping| mapping.overlaps(start, len))
                {
                    mapping.writable = true;
                }
                Next::GoOn
            }
            Call::SyncMapping if third & libc::MS_SYNC as u64 != 0 => {
                let mut ranges = Vec::new();
                for mapping in self.hit(origin.process, start, len) {
                    let from = start.max(mapping.start);
                    let to = start.saturating_add(len).min(mapping.start + mapping.len);
                    let scope = SyncScope::Range {
                        offset: mapping.offset + (from - mapping.start),
                        len: to - from,
                    };
                    ranges.push((mapping.file, scope));
                }
                for (file, _) in &ranges {
                    self.settle_mapped(origin, *file);
                }
                Next::ToExit(Entered::File(FileCall::Sync(ranges)))
            }
            Call::SyncMapping => Next::GoOn,
            Call::Unmap => {
                let going = self
                    .hit(origin.process, start, len)
                    .map(|mapping| mapping.number)
                    .collect();
                Next::ToExit(Entered::File(FileCall::Unmap(going)))
            }
            Call::Move => Next::ToExit(Entered::File(FileCall::Move)),
            _ => Next::ToExit(Entered::Unfollowed(format!(
                "{} of a mapped file",
                origin.row.name
            ))),
        }
    }

    pub(super) fn leave_unmap(&mut self, origin: &Origin, entry: &Entry, going: &[u64]) {
        let [start, len, ..] = entry.arguments;
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
        let end = start.saturating_add(len);
        // What is left of a mapping of which a part went is kept as a whole: to look at more is no
        // harm.
        mappings.retain(|mapping| {
            !going.contains(&mapping.number)
                || mapping.start < start
                || mapping.start + mapping.len > end
        });
        self.forget_unmapped();
    }

    pub(super) fn leave_move(&mut self, origin: &Origin, entry: &Entry, to: u64) {
        let [start, _, len, ..] = entry.arguments;
        let Some(mappings) = self.mappings.get_mut(&origin.process) else {
            return;
        };
        for mapping in mappings
            .iter_mut()
            .filter(|mapping| mapping.overlaps(start, 1))
        {
            mapping.offset += start.saturating_sub(mapping.start);
            (mapping.start, mapping.len) = (to, len);
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

    /// Records what was stored to a file, if somebody can have.
    pub(super) fn settle_mapped(&mut self, origin: &Origin, file: FileId) {
        let mut mappings = self.mappings.values().flatten();
        if !mappings.any(|mapping| mapping.file == file && mapping.writable) {
            return;
        }
        let Some(readable) = self.mapped.remove(&file) else {
            return;
        };
        self.settle(&origin.as_row(STORE), file, &readable);
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
        let (mut found, mut known) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        for at in (0..to).step_by(PAGE_BYTES) {
            let len = PAGE_BYTES.min((to - at) as usize);
            real.read_exact_at(&mut found[..len], at)?;
            let Some(tree) = &self.tree else {
                return Ok(());
            };
            tree.file(file)
                .content
                .read(at, &self.data, &mut known[..len]);
            for (first, end) in differences(&found[..len], &known[..len]) {
                let data: Data = snapshot::add(&mut self.data, &found[first..end]);
                self.operation(
                    origin,
                    FileOp::Write {
                        file,
                        offset: at + first as u64,
                        data,
                        size_before: to,
                    },
                );
            }
        }
        Ok(())
    }
}

/// The runs of bytes that differ, as first and end.
fn differences(left: &[u8], right: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    if left == right {
        return runs;
    }
    for (at, _) in left
        .iter()
        .zip(right)
        .enumerate()
        .filter(|(_, (left, right))| left != right)
    {
        match runs.last_mut() {
            Some((_, end)) if at - *end <= GAP_BYTES => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}
