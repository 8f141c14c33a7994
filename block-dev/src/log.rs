use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use brief::{Brief, BriefList};
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
    /// A write. With `fua` it was to be on stable storage before it was completed; that covers
    /// this write and no other.
    Write {
        /// Where on the disk.
        offset: u64,
        /// How much.
        length: u32,
        /// Forced unit access.
        fua: bool,
    },
    /// A flush: every write that had completed when it was submitted is to be on stable storage,
    /// and no other: see [`BlockLog::covered_by`].
    Flush,
    /// The flush that the kernel sends after a FUA write where the disk has no FUA. What it
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

/// The [`Entry::completed`] of a request that was not completed by the end of the log.
pub const NEVER: usize = usize::MAX;

/// One entry of a [`BlockLog`]. Its place is when it was submitted: when it arrived at the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked.
    pub kind: Kind,
    /// When it arrived, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// When it was completed: after all entries before this position of the log, and before the one
    /// there. Right after itself if it was completed at once, [`NEVER`] if it was not completed.
    pub completed: usize,
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

/// Everything a disk was asked to do, in the order in which it was asked.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockLog {
    entries: Vec<Entry>,
    data: Vec<u8>,
    /// The positions at which flushes came that failed, in order. They cover nothing, and only
    /// [`crate::annotate`] asks for them, so they are not kept.
    #[serde(skip)]
    failed_flushes: Vec<usize>,
    /// How much the writes were to write of which not all was written. Only [`crate::annotate`] asks for that.
    #[serde(skip)]
    asked_bytes: BTreeMap<usize, u64>,
    /// It is not known which flushes stand for FUA.
    #[serde(skip)]
    fua_unknown: bool,
}

impl fmt::Debug for BlockLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockLog")
            .field(
                "entries",
                &BriefList(
                    self.entries
                        .iter()
                        .map(|entry| (entry, self.written(entry).map(Brief))),
                ),
            )
            .field("data", &Brief(&self.data))
            .field("failed_flushes", &BriefList(self.failed_flushes.iter()))
            .field("asked_bytes", &self.asked_bytes)
            .field("fua_unknown", &self.fua_unknown)
            .finish()
    }
}

impl BlockLog {
    /// How many entries there are; also the position after the last one.
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

    /// Whether the flushes that stand for FUA are told from others. If not, the disk seems to keep
    /// more than it must. Whoever keeps a log keeps this beside it.
    pub fn recognises_fua(&self) -> bool {
        !self.fua_unknown
    }

    /// Says whether they are told from others.
    pub fn set_recognises_fua(&mut self, recognised: bool) {
        self.fua_unknown = !recognised;
    }

    /// Notes that a flush came and failed.
    pub(crate) fn note_failed_flush(&mut self) {
        self.failed_flushes.push(self.len());
    }

    /// Notes that the write at `place` was to write so much, and has not: the disk has torn it.
    pub(crate) fn note_asked(&mut self, place: usize, asked_bytes: u64) {
        self.asked_bytes.insert(place, asked_bytes);
    }

    /// Where the entry at `place` was to write or discard, and how much: see [`Entry::range`].
    pub(crate) fn asked_range(&self, place: usize) -> (u64, u64) {
        let (offset, length) = self.entries[place].range();
        let asked = self.asked_bytes.get(&place).copied();
        (offset, asked.unwrap_or(length))
    }

    /// Whether the first flush after the completion of the write at `write` failed.
    pub(crate) fn next_flush_failed(&self, write: usize) -> bool {
        let completed = self.entries[write].completed;
        let mut failed = self.failed_flushes.iter();
        failed
            .find(|position| **position >= completed)
            .is_some_and(|failed| {
                let mut before = self.entries[completed..*failed].iter();
                !before.any(|entry| entry.kind == Kind::Flush)
            })
    }

    /// Whether all that it asks for lies on a disk of this size, and all that it wrote is there:
    /// one that was read from a file may be damaged.
    pub fn is_within(&self, size_bytes: u64) -> bool {
        self.entries.iter().enumerate().all(|(place, entry)| {
            let (offset, length) = entry.range();
            let data = if matches!(entry.kind, Kind::Write { .. }) {
                length
            } else {
                0
            };
            offset
                .checked_add(length)
                .is_some_and(|end| end <= size_bytes)
                && (entry.data_start as u64)
                    .checked_add(data)
                    .is_some_and(|end| end <= self.data.len() as u64)
                && entry.completed > place
        })
    }

    /// A hash of what was asked, in which order, of the bytes that were written, and of what was
    /// completed late, in hexadecimal.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (index, entry) in self.entries.iter().enumerate() {
            // Its text has every field, and ends where the next begins.
            hasher.update(format!("{:?};", entry.kind).as_bytes());
            hasher.update(self.data(index));
            if entry.completed != index + 1 {
                hasher.update(format!("completed {};", entry.completed).as_bytes());
            }
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

    /// What a write of this log wrote. It may be damaged: see [`Self::is_within`].
    fn written(&self, entry: &Entry) -> Option<&[u8]> {
        let Kind::Write { length, .. } = entry.kind else {
            return None;
        };
        self.data.get(entry.data_start..)?.get(..length as usize)
    }

    /// The writes and discards that the flush at `index` covers: those that had completed when it
    /// was submitted. What is not a flush covers none.
    pub fn covered_by(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let reach = if self.entries[index].kind == Kind::Flush {
            index
        } else {
            0
        };
        let is_covered = move |entry: &Entry| {
            matches!(entry.kind, Kind::Write { .. } | Kind::Discard { .. })
                && entry.completed <= reach
        };
        self.entries[..reach]
            .iter()
            .enumerate()
            .filter(move |(_, entry)| is_covered(entry))
            .map(|(place, _)| place)
    }

    /// Adds a write that is completed at once.
    pub fn push_write(&mut self, offset: u64, data: &[u8], time_ns: u64) {
        let data_start = self.data.len();
        self.data.extend_from_slice(data);
        let kind = Kind::Write {
            offset,
            length: data.len() as u32,
            fua: false,
        };
        self.entries.push(Entry {
            kind,
            time_ns,
            completed: self.entries.len() + 1,
            data_start,
        });
    }

    /// Adds a write that is not completed yet; returns its place, for [`Self::complete`].
    pub fn push_held_write(&mut self, offset: u64, data: &[u8], time_ns: u64) -> usize {
        let place = self.len();
        self.push_write(offset, data, time_ns);
        self.entries[place].completed = NEVER;
        place
    }

    /// Adds anything else that is not completed yet; returns its place, for [`Self::complete`].
    ///
    /// # Panics
    /// If it is a write.
    pub fn push_held(&mut self, kind: Kind, time_ns: u64) -> usize {
        let place = self.len();
        self.push(kind, time_ns);
        self.entries[place].completed = NEVER;
        place
    }

    /// Notes that a held request is completed now, after everything that is in the log.
    pub fn complete(&mut self, place: usize) {
        self.entries[place].completed = self.len();
    }

    /// Adds anything else, which is completed at once.
    ///
    /// # Panics
    /// If it is a write.
    pub fn push(&mut self, kind: Kind, time_ns: u64) {
        assert!(
            !matches!(kind, Kind::Write { .. }),
            "a write is logged with its data"
        );
        let completed = self.entries.len() + 1;
        self.entries.push(Entry {
            kind,
            time_ns,
            completed,
            data_start: self.data.len(),
        });
    }

    /// Corrects what entry `index` is taken for, once it is known: see [`Kind::FuaFlush`].
    pub fn reclassify(&mut self, index: usize, kind: Kind) {
        self.entries[index].kind = kind;
    }

    /// Forgets everything but keeps the memory, unless a large run needed much of it.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.data.clear();
        self.failed_flushes.clear();
        self.asked_bytes.clear();
        self.fua_unknown = false;
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
                image.write(
                    offset + bytes.start,
                    &self.data(index)[bytes.start as usize..end as usize],
                );
            }
            Kind::Discard { offset, length } => {
                let end = bytes.end.min(length);
                image.discard(offset + bytes.start, end - bytes.start);
            }
            Kind::Flush | Kind::FuaFlush | Kind::Mark(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(log: &BlockLog, flush: usize) -> Vec<usize> {
        log.covered_by(flush).collect()
    }

    #[test]
    fn a_flush_covers_what_had_completed_when_it_was_submitted_and_no_other() {
        let mut log = BlockLog::default();
        log.push_write(0, &[1; 512], 1);
        let held = log.push_held_write(512, &[2; 512], 2);
        log.push(
            Kind::Discard {
                offset: 0,
                length: 512,
            },
            3,
        );
        log.push(Kind::Mark(Mark::OperationStart(0)), 3);
        log.push(Kind::Flush, 4);
        // However soon it followed.
        log.complete(held);
        let never = log.push_held_write(1024, &[3; 512], 5);
        log.push(Kind::Flush, 6);
        log.push(Kind::FuaFlush, 7);
        assert_eq!(covered(&log, 4), [0, 2]);
        assert_eq!(covered(&log, 6), [0, held, 2]);
        assert_eq!(
            covered(&log, 7),
            [0; 0],
            "it says what the write's own FUA says already"
        );
        assert_eq!(covered(&log, 0), [0; 0], "no flush");
        assert_eq!(log.entries()[held].completed, 5);
        assert_eq!(log.entries()[never].completed, NEVER);
    }

    #[test]
    fn what_is_printed_of_a_log_is_short_and_shows_how_it_begins() {
        let mut log = BlockLog::default();
        log.push(Kind::Flush, 1);
        for byte in 0..2000_u32 {
            log.push_write(0, &byte.to_ne_bytes().repeat(1024), 2);
        }
        let printed = format!("{log:?}");
        assert!(printed.len() < 20_000, "{} bytes", printed.len());
        for part in [
            "kind: Flush",
            "offset: 0, length: 4096",
            r"\x01\x00\x00\x00",
            "and 1937 more",
            "8192000 bytes",
        ] {
            assert!(printed.contains(part), "{part} is not in {printed}");
        }
        // One that was read from a damaged file is printed, too.
        log.data.clear();
        assert!(format!("{log:?}").contains("None"));
    }

    #[test]
    fn a_write_that_completed_right_before_a_flush_is_covered() {
        let mut log = BlockLog::default();
        let held = log.push_held_write(0, &[1; 512], 1);
        log.complete(held);
        log.push(Kind::Flush, 2);
        assert_eq!(covered(&log, 1), [held]);
    }

    #[test]
    fn the_hash_tells_late_answers_apart_and_does_not_mind_those_at_once() {
        let log = |complete_at: [usize; 2]| {
            let mut log = BlockLog::default();
            let held = log.push_held_write(0, &[1; 512], 1);
            for place in 1..=2 {
                if complete_at.contains(&place) {
                    log.complete(held);
                }
                log.push(Kind::Flush, 2);
            }
            log
        };
        let mut at_once = BlockLog::default();
        at_once.push_write(0, &[1; 512], 7);
        at_once.push(Kind::Flush, 8);
        at_once.push(Kind::Flush, 9);
        assert_eq!(
            log([1, 1]).hash(),
            at_once.hash(),
            "held, but completed before anything else came"
        );
        assert_ne!(log([2, 2]).hash(), at_once.hash());
        assert_ne!(log([0, 0]).hash(), log([2, 2]).hash());
        // Recordings in virtual time are compared by it: an ordinary one adds nothing.
        let text = [
            b"Write { offset: 0, length: 512, fua: false };".as_slice(),
            &[1; 512],
            b"Flush;Flush;",
        ]
        .concat();
        assert_eq!(at_once.hash(), blake3::hash(&text).to_hex().to_string());
    }
}
