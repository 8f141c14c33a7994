use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::Image;

/// Something noted in the log that is not I/O, so that I/O can be placed among the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Operation number N is about to be issued.
    OperationStart(u32),
    /// Operation number N has returned.
    OperationEnd(u32),
}

/// What a disk was asked to do. Offsets and lengths are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A write. With `fua` it was to be on stable storage before it was answered; that covers
    /// this write and no other.
    Write {
        /// Where on the disk.
        offset: u64,
        /// How much.
        length: u32,
        /// Forced unit access.
        fua: bool,
    },
    /// A flush: every write answered before it is to be on stable storage.
    Flush,
    /// The flush that the kernel sends behind a FUA write where the disk has no FUA. What it
    /// promises is said by the write's `fua` already: it covers nothing else.
    FuaFlush,
    /// A discard, or a write of zeros: the range reads as zeros afterwards.
    Discard {
        /// Where on the disk.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Not I/O.
    Mark(Mark),
}

/// One entry of a [`BlockLog`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked.
    pub kind: Kind,
    /// When, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Where the written bytes lie in the log's data.
    data_start: usize,
}

impl Entry {
    /// Where on the disk it writes or discards, and how much, in bytes.
    pub fn range(&self) -> (u64, u64) {
        match self.kind {
            Kind::Write { offset, length, .. } => (offset, length.into()),
            Kind::Discard { offset, length } => (offset, length),
            Kind::Flush | Kind::FuaFlush | Kind::Mark(_) => (0, 0),
        }
    }
}

/// Everything a disk was asked to do, in the order in which it answered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BlockLog {
    entries: Vec<Entry>,
    data: Vec<u8>,
}

impl BlockLog {
    /// How many entries there are; also the position behind the last one.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was logged.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// A hash of what was asked, in which order, and of the bytes that were written, in hexadecimal.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (index, entry) in self.entries.iter().enumerate() {
            // Its text has every field, and ends where the next begins.
            hasher.update(format!("{:?};", entry.kind).as_bytes());
            hasher.update(self.data(index));
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The bytes that entry `index` wrote; empty unless it is a write.
    pub fn data(&self, index: usize) -> &[u8] {
        let entry = &self.entries[index];
        match entry.kind {
            Kind::Write { length, .. } => &self.data[entry.data_start..][..length as usize],
            _ => &[],
        }
    }

    /// Adds a write.
    pub fn push_write(&mut self, offset: u64, data: &[u8], time_ns: u64) {
        let data_start = self.data.len();
        self.data.extend_from_slice(data);
        let kind = Kind::Write { offset, length: data.len() as u32, fua: false };
        self.entries.push(Entry { kind, time_ns, data_start });
    }

    /// Adds anything else.
    ///
    /// # Panics
    /// If it is a write.
    pub fn push(&mut self, kind: Kind, time_ns: u64) {
        assert!(!matches!(kind, Kind::Write { .. }), "a write is logged with its data");
        self.entries.push(Entry { kind, time_ns, data_start: self.data.len() });
    }

    /// Corrects what entry `index` is taken for, once it is known: see [`Kind::FuaFlush`].
    pub fn reclassify(&mut self, index: usize, kind: Kind) {
        self.entries[index].kind = kind;
    }

    /// Forgets everything but keeps the memory, unless a large run needed much of it.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.data.clear();
        self.data.shrink_to(4 << 20);
    }

    /// Carries out entry `index` on an image.
    pub fn apply(&self, index: usize, image: &mut Image) {
        self.apply_part(index, 0..u64::MAX, image);
    }

    /// Carries out a part of entry `index` on an image: those of the bytes it writes, counted from
    /// its first, that it has.
    pub fn apply_part(&self, index: usize, bytes: Range<u64>, image: &mut Image) {
        match self.entries[index].kind {
            Kind::Write { offset, length, .. } => {
                let end = bytes.end.min(length.into());
                image.write(offset + bytes.start, &self.data(index)[bytes.start as usize..end as usize]);
            }
            Kind::Discard { offset, length } => {
                let end = bytes.end.min(length);
                image.discard(offset + bytes.start, end - bytes.start);
            }
            Kind::Flush | Kind::FuaFlush | Kind::Mark(_) => {}
        }
    }
}
