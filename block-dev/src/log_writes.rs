//! Logs of the kernel's device-mapper target log-writes (drivers/md/dm-log-writes.c).
//!
//! A log is a sector with a header, then entries: a sector that says what was asked, with the text
//! of a mark after it, and the sectors that were written. All numbers are little-endian. It holds
//! what the disk was asked for in an order of its own:
//!
//! - A write is logged when the first flush that was submitted after its completion is done, right
//!   before that flush: what stands before a flush is what it covered.
//! - A write with FUA is logged when it is done, so before writes that were done earlier.
//! - A mark is logged at once: no write stands before a mark that was set before it was submitted.
//!
//! So every beginning of a log is what a disk may hold after a power failure, but for one thing:
//! which of two writes to one place came last is not known if only one of them had FUA.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};

use brief::BriefList;

use crate::{BlockLog, Kind, Mark};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;

/// How much of a header or of an entry says something.
const HEADER_BYTES: usize = 28;
const ENTRY_BYTES: usize = 32;

const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const METADATA: u64 = 16;

/// Sectors larger than this no disk has.
const SECTOR_BYTES_MAX: u64 = 1 << 16;

/// A log is held in memory. One that holds more than this is refused.
const DATA_BYTES_MAX: u64 = 8 << 30;

/// So much is read at a time: a length in a damaged log reserves no memory.
const PIECE_BYTES: usize = 1 << 20;

/// The mark that the target sets when it is taken down in order.
const END_MARK: &str = "dm-log-writes-end";

/// A log that was read.
#[derive(Clone, Default)]
pub struct LogWrites {
    /// What the disk was asked for. Marks that say where an operation begins or ends
    /// ([`OperationMark`]) are entries of it.
    pub log: BlockLog,
    /// Of each entry of `log` the number, counted from 0, of the one in the file that it is of.
    pub entry_numbers: Vec<u64>,
    /// All marks in order.
    pub marks: Vec<LogMark>,
    /// Whether the target was taken down in order. Otherwise it may have run out of space for its
    /// log, and nothing is known of what came after it.
    pub ended: bool,
    /// The writes that may have come before one that stands before them.
    pub unordered: Vec<Unordered>,
}

impl fmt::Debug for LogWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWrites")
            .field("log", &self.log)
            .field("entry_numbers", &BriefList(self.entry_numbers.iter()))
            .field("marks", &BriefList(self.marks.iter()))
            .field("ended", &self.ended)
            .field("unordered", &BriefList(self.unordered.iter()))
            .finish()
    }
}

/// Two writes of other bytes to one place of which the log does not tell which came last: at most
/// one flush lies between them, and only the one that stands first had FUA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unordered {
    /// The place in the log of the one without FUA.
    pub place: usize,
    /// The place in the log of the one with FUA.
    pub fua_place: usize,
    /// Where on the disk they overlap, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u64,
}

/// A mark in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMark {
    /// The position in the log after everything that was logged before it, and after its own
    /// entry if it has one.
    pub position: usize,
    /// Its text; what is not UTF-8 is replaced.
    pub text: String,
}

/// A mark that says what is done to the file system: `op-N-start`, `op-N-end`, `op-N-refused-E`
/// with an error number, or `setup-end`; with spaces instead of hyphens too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationMark {
    /// Operation N, counted from 0, is about to be issued.
    Start(u32),
    /// It has returned.
    End(u32),
    /// It has returned with an error number, and had no effect.
    Refused(u32, i32),
    /// What the setup did is durable.
    SetupEnd,
}

impl OperationMark {
    /// What the text of a mark says, if it is of an operation.
    pub fn of(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split([' ', '-']).collect();
        let number = |text: &str| {
            text.parse::<u32>()
                .ok()
                .filter(|number| number.to_string() == text)
        };
        Some(match words.as_slice() {
            ["setup", "end"] => Self::SetupEnd,
            ["op", place, "start"] => Self::Start(number(place)?),
            ["op", place, "end"] => Self::End(number(place)?),
            ["op", place, "refused", errno] => {
                Self::Refused(number(place)?, number(errno)?.try_into().ok()?)
            }
            _ => return None,
        })
    }

    /// The text of such a mark, without spaces, which `dmsetup message` takes for more words.
    pub fn text(self) -> String {
        match self {
            Self::Start(number) => format!("op-{number}-start"),
            Self::End(number) => format!("op-{number}-end"),
            Self::Refused(number, errno) => format!("op-{number}-refused-{errno}"),
            Self::SetupEnd => "setup-end".into(),
        }
    }
}

/// Why something is not a log of log-writes, or not a whole one.
#[derive(Debug, thiserror::Error)]
pub enum LogWritesError {
    /// It could not be read.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Where, in bytes from the start.
        offset: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// It holds something else.
    #[error("at byte {offset}{}: {what}", entry.map(|entry| format!(" (entry {entry})")).unwrap_or_default())]
    Damaged {
        /// Where, in bytes from the start.
        offset: u64,
        /// In which entry, counted from 0; none in the header.
        entry: Option<u64>,
        /// What is wrong there.
        what: String,
    },
}

type Result<T, E = LogWritesError> = std::result::Result<T, E>;

impl LogWrites {
    /// Reads a log of `log_bytes` bytes that was made of a disk of `disk_bytes` bytes.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged or cut short, with the place.
    pub fn read(input: impl Read, log_bytes: u64, disk_bytes: u64) -> Result<Self> {
        let mut input = Input {
            source: input,
            at: 0,
            length: log_bytes,
            entry: None,
        };
        let header = input.header()?;
        let mut reading = Reading {
            disk_bytes,
            ..Reading::default()
        };
        for number in 0..header.entries {
            input.entry = Some(number);
            reading.entry(&mut input, header.sector_bytes)?;
            let found = &mut reading.found;
            found.entry_numbers.resize(found.log.len(), number);
        }
        let mut found = reading.found;
        found.ended = found
            .marks
            .last()
            .is_some_and(|mark| mark.text == END_MARK && mark.position == found.log.len());
        Ok(found)
    }
}

struct Header {
    entries: u64,
    sector_bytes: u64,
}

/// What is read, and how far that is.
struct Input<R> {
    source: R,
    at: u64,
    length: u64,
    entry: Option<u64>,
}

impl<R: Read> Input<R> {
    fn damaged<T>(&self, offset: u64, what: impl Into<String>) -> Result<T> {
        Err(LogWritesError::Damaged {
            offset,
            entry: self.entry,
            what: what.into(),
        })
    }

    /// Reads so many bytes after those that are in `into` already.
    fn bytes(&mut self, count: u64, into: &mut Vec<u8>, what: &str) -> Result<()> {
        let left = self.length.saturating_sub(self.at);
        if count > left {
            return self.damaged(
                self.at,
                format!("{what} has {count} bytes, and the file ends after {left}"),
            );
        }
        let mut missing = count;
        while missing > 0 {
            let piece = missing.min(PIECE_BYTES as u64) as usize;
            let start = into.len();
            into.resize(start + piece, 0);
            let offset = self.at;
            self.source
                .read_exact(&mut into[start..])
                .map_err(|source| LogWritesError::Io { offset, source })?;
            self.at += piece as u64;
            missing -= piece as u64;
        }
        Ok(())
    }

    fn header(&mut self) -> Result<Header> {
        let mut bytes = Vec::new();
        self.bytes(512, &mut bytes, "the header")?;
        let (magic, version, entries) = (number(&bytes, 0), number(&bytes, 8), number(&bytes, 16));
        let sector_bytes = u64::from(u32::from_le_bytes(
            bytes[24..HEADER_BYTES].try_into().expect("4 bytes"),
        ));
        if magic != MAGIC {
            return self.damaged(
                0,
                format!("not a log of dm-log-writes: it starts with {magic:#x}, not {MAGIC:#x}"),
            );
        }
        if version != VERSION {
            return self.damaged(
                8,
                format!("version {version} of the log; only {VERSION} is known"),
            );
        }
        if !sector_bytes.is_power_of_two() || !(512..=SECTOR_BYTES_MAX).contains(&sector_bytes) {
            return self.damaged(24, format!("a sector of {sector_bytes} bytes"));
        }
        let room = (self.length / sector_bytes).saturating_sub(1);
        if entries > room {
            return self.damaged(
                16,
                format!("{entries} entries, and the file has room for {room}"),
            );
        }
        self.bytes(sector_bytes - 512, &mut bytes, "the header")?;
        Ok(Header {
            entries,
            sector_bytes,
        })
    }
}

/// Eight bytes that are there.
fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The writes with FUA between two flushes: from where on the disk and how much to the place in the
/// log of the last one.
type FuaWrites = HashMap<(u64, u64), usize>;

#[derive(Default)]
struct Reading {
    found: LogWrites,
    disk_bytes: u64,
    sector: Vec<u8>,
    data: Vec<u8>,
    data_bytes: u64,
    /// Those since the last flush but one. A write that was done while that flush was in flight
    /// is logged after it.
    fua_writes: [FuaWrites; 2],
}

impl Reading {
    fn entry<R: Read>(&mut self, input: &mut Input<R>, sector_bytes: u64) -> Result<()> {
        let start = input.at;
        self.sector.clear();
        input.bytes(sector_bytes, &mut self.sector, "an entry")?;
        let [sector, sectors, flags, data_bytes] =
            [0, 8, 16, 24].map(|at| number(&self.sector, at));
        let unknown = flags & !(FLUSH | FUA | DISCARD | MARK | METADATA);
        if unknown != 0 {
            return input.damaged(start + 16, format!("unknown flags {unknown:#x}"));
        }
        if flags & MARK != 0 {
            return self.mark(input, start, [sector, sectors, flags, data_bytes]);
        }
        let range = match self.range([sector, sectors], sector_bytes) {
            Ok(range) => range,
            Err(what) => return input.damaged(start, what),
        };
        self.request(input, start, flags, range, data_bytes)
    }

    /// An entry that is a request to the disk, for these bytes of it.
    fn request<R: Read>(
        &mut self,
        input: &mut Input<R>,
        start: u64,
        flags: u64,
        (offset, length): (u64, u64),
        data_bytes: u64,
    ) -> Result<()> {
        if data_bytes > length {
            return input.damaged(
                start + 24,
                format!("{data_bytes} bytes of data for {length} bytes"),
            );
        }
        if flags & DISCARD != 0 {
            return self.discard(input, start, flags, offset, length);
        }
        if length == 0 && flags & FLUSH == 0 {
            return input.damaged(start + 8, "a write of nothing that is not a flush");
        }
        // Its data was written after the flush that it asked for.
        if flags & FLUSH != 0 {
            self.found.log.push(Kind::Flush, 0);
            self.fua_writes.swap(0, 1);
            self.fua_writes[0].clear();
        }
        if length > 0 {
            self.write(input, start, flags & FUA != 0, offset, length)
        } else {
            Ok(())
        }
    }

    /// The bytes on the disk that so many sectors from one on are; else what is wrong with them.
    fn range(&self, [sector, sectors]: [u64; 2], sector_bytes: u64) -> Result<(u64, u64), String> {
        let bytes = |sectors: u64| sectors.checked_mul(sector_bytes);
        let (Some(offset), Some(length)) = (bytes(sector), bytes(sectors)) else {
            return Err(format!("sector {sector} and {sectors} more do not exist"));
        };
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > self.disk_bytes) {
            return Err(format!(
                "{length} bytes at {offset} do not lie on the disk, which has {}",
                self.disk_bytes
            ));
        }
        Ok((offset, length))
    }

    fn mark<R: Read>(&mut self, input: &Input<R>, start: u64, fields: [u64; 4]) -> Result<()> {
        let [sector, sectors, flags, text_bytes] = fields;
        if flags != MARK || sector != 0 || sectors != 0 {
            return input.damaged(start, "a mark that is a request too");
        }
        let Some(text) =
            self.sector[ENTRY_BYTES..].get(..usize::try_from(text_bytes).unwrap_or(usize::MAX))
        else {
            return input.damaged(
                start + 24,
                format!("a mark of {text_bytes} bytes does not fit in its sector"),
            );
        };
        if text.contains(&0) {
            return input.damaged(
                start + 24,
                format!("a mark of {text_bytes} bytes, and its text is shorter"),
            );
        }
        let text = String::from_utf8_lossy(text).into_owned();
        match OperationMark::of(&text) {
            Some(OperationMark::Start(number)) => self
                .found
                .log
                .push(Kind::Mark(Mark::OperationStart(number)), 0),
            Some(OperationMark::End(number) | OperationMark::Refused(number, _)) => {
                self.found
                    .log
                    .push(Kind::Mark(Mark::OperationEnd(number)), 0);
            }
            Some(OperationMark::SetupEnd) | None => {}
        }
        self.found.marks.push(LogMark {
            position: self.found.log.len(),
            text,
        });
        Ok(())
    }

    fn discard<R: Read>(
        &mut self,
        input: &Input<R>,
        start: u64,
        flags: u64,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        if flags & (FLUSH | FUA) != 0 || length == 0 {
            return input.damaged(
                start + 16,
                "a discard that is a flush, has FUA, or is of nothing",
            );
        }
        self.look_for_fua(offset, length, None);
        self.found.log.push(Kind::Discard { offset, length }, 0);
        Ok(())
    }

    fn write<R: Read>(
        &mut self,
        input: &mut Input<R>,
        start: u64,
        fua: bool,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        self.data_bytes += length;
        if self.data_bytes > DATA_BYTES_MAX || length > u64::from(u32::MAX) {
            let gib = DATA_BYTES_MAX >> 30;
            return input.damaged(
                start,
                format!("more than {gib} GiB of writes, or 4 GiB in one, are not imported"),
            );
        }
        let mut data = std::mem::take(&mut self.data);
        data.clear();
        input.bytes(length, &mut data, "the data of a write")?;
        if fua {
            self.fua_writes[0].insert((offset, length), self.found.log.len());
        } else {
            self.look_for_fua(offset, length, Some(&data));
        }
        self.found.log.push_write(offset, &data, 0);
        if fua {
            let kind = Kind::Write {
                offset,
                length: length as u32,
                fua,
            };
            self.found.log.reclassify(self.found.log.len() - 1, kind);
        }
        self.data = data;
        Ok(())
    }

    /// Notes the last writes with FUA that may have come after this one, and are not the same
    /// where they overlap; a discard has no data.
    fn look_for_fua(&mut self, offset: u64, length: u64, data: Option<&[u8]>) {
        let log = &self.found.log;
        let overlap = |((start, size), fua_place): (&(u64, u64), &usize)| {
            let (from, to) = (offset.max(*start), (offset + length).min(start + size));
            if from >= to {
                return None;
            }
            let part = |start: u64| (from - start) as usize..(to - start) as usize;
            let same =
                data.is_some_and(|data| data[part(offset)] == log.data(*fua_place)[part(*start)]);
            let found = Unordered {
                place: log.len(),
                fua_place: *fua_place,
                offset: from,
                length: to - from,
            };
            (!same).then_some(found)
        };
        let mut found: Vec<_> = self
            .fua_writes
            .iter()
            .flatten()
            .filter_map(overlap)
            .collect();
        found.sort_unstable_by_key(|unordered| unordered.fua_place);
        self.found.unordered.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DISK_BYTES: u64 = 1 << 20;

    /// Writes a log as the kernel does.
    struct LogBuilder {
        bytes: Vec<u8>,
        entries: u64,
        sector_bytes: usize,
    }

    impl LogBuilder {
        fn new(sector_bytes: usize) -> Self {
            Self {
                bytes: vec![0; sector_bytes],
                entries: 0,
                sector_bytes,
            }
        }

        fn entry(
            mut self,
            sector: u64,
            sectors: u64,
            flags: u64,
            text: &[u8],
            data: &[u8],
        ) -> Self {
            let start = self.bytes.len();
            for number in [sector, sectors, flags, text.len() as u64] {
                self.bytes.extend(number.to_le_bytes());
            }
            self.bytes.extend(text);
            self.bytes.resize(start + self.sector_bytes, 0);
            self.bytes.extend(data);
            self.entries += 1;
            self
        }

        fn write(self, sector: u64, flags: u64, byte: u8) -> Self {
            let data = vec![byte; self.sector_bytes];
            self.entry(sector, 1, flags, &[], &data)
        }

        fn flush(self) -> Self {
            self.entry(0, 0, FLUSH, &[], &[])
        }

        fn mark(self, text: &str) -> Self {
            self.entry(0, 0, MARK, text.as_bytes(), &[])
        }

        fn finish(mut self) -> Vec<u8> {
            self.bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
            self.bytes[8..16].copy_from_slice(&VERSION.to_le_bytes());
            self.bytes[16..24].copy_from_slice(&self.entries.to_le_bytes());
            self.bytes[24..28].copy_from_slice(&(self.sector_bytes as u32).to_le_bytes());
            self.bytes
        }
    }

    fn read(bytes: &[u8]) -> Result<LogWrites> {
        LogWrites::read(bytes, bytes.len() as u64, DISK_BYTES)
    }

    fn kinds(found: &LogWrites) -> Vec<Kind> {
        found.log.entries().iter().map(|entry| entry.kind).collect()
    }

    /// Every kind of entry there is.
    fn sample(sector_bytes: usize) -> Vec<u8> {
        let made = LogBuilder::new(sector_bytes)
            .mark("op 0 start")
            .write(3, 0, 7)
            .write(4, FUA | METADATA, 8)
            .flush();
        let made = made
            .write(5, FLUSH | FUA, 9)
            .mark("op-0-end")
            .entry(8, 16, DISCARD, &[], &[]);
        made.mark("a mark").mark(END_MARK).finish()
    }

    #[test]
    fn what_the_kernel_writes_is_read() {
        for sector_bytes in [512, 4096] {
            let found = read(&sample(sector_bytes)).expect("it is whole");
            let unit = sector_bytes as u64;
            let write = |sector: u64, fua| Kind::Write {
                offset: sector * unit,
                length: sector_bytes as u32,
                fua,
            };
            let expected = [
                Kind::Mark(Mark::OperationStart(0)),
                write(3, false),
                write(4, true),
                Kind::Flush,
                Kind::Flush,
                write(5, true),
                Kind::Mark(Mark::OperationEnd(0)),
                Kind::Discard {
                    offset: 8 * unit,
                    length: 16 * unit,
                },
            ];
            assert_eq!(kinds(&found), expected);
            assert_eq!(found.log.data(5), vec![9; sector_bytes]);
            let marks: Vec<_> = found
                .marks
                .iter()
                .map(|mark| (mark.position, mark.text.as_str()))
                .collect();
            assert_eq!(
                marks,
                [
                    (1, "op 0 start"),
                    (7, "op-0-end"),
                    (8, "a mark"),
                    (8, END_MARK)
                ]
            );
            assert!(found.ended);
            assert_eq!(found.unordered, []);
            assert_eq!(found.entry_numbers, [0, 1, 2, 3, 4, 4, 5, 6]);
        }
    }

    #[test]
    fn the_place_of_damage_is_named() {
        let whole = sample(512);
        let damaged = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            read(&bytes).expect_err("it is damaged").to_string()
        };
        assert!(damaged(0, 1).starts_with("at byte 0: not a log of dm-log-writes"));
        assert_eq!(
            damaged(8, 2),
            "at byte 8: version 2 of the log; only 1 is known"
        );
        assert_eq!(damaged(24, 1), "at byte 24: a sector of 513 bytes");
        assert_eq!(
            damaged(22, 1),
            "at byte 16: 281474976710665 entries, and the file has room for 12"
        );
        // Entry 1, the first write, starts after the header and a mark.
        assert_eq!(
            damaged(1024 + 17, 1),
            "at byte 1040 (entry 1): unknown flags 0x100"
        );
        assert_eq!(
            damaged(1024 + 6, 1),
            "at byte 1024 (entry 1): 512 bytes at 144115188075857408 do not lie on the disk, which has 1048576"
        );
        assert_eq!(
            damaged(1024 + 7, 1),
            "at byte 1024 (entry 1): sector 72057594037927939 and 1 more do not exist"
        );
        assert_eq!(
            damaged(1024 + 8, 0),
            "at byte 1032 (entry 1): a write of nothing that is not a flush"
        );
        assert_eq!(
            damaged(512 + 24, 255),
            "at byte 536 (entry 0): a mark of 255 bytes, and its text is shorter"
        );
        assert_eq!(
            damaged(512 + 25, 2),
            "at byte 536 (entry 0): a mark of 522 bytes does not fit in its sector"
        );
        let cut = &whole[..whole.len() - 1];
        assert_eq!(
            read(cut).unwrap_err().to_string(),
            "at byte 6144 (entry 8): an entry has 512 bytes, and the file ends after 511"
        );
        assert_eq!(
            read(&whole[..100]).unwrap_err().to_string(),
            "at byte 0: the header has 512 bytes, and the file ends after 100"
        );
        assert!(read(&[]).is_err());
    }

    #[test]
    fn a_log_that_was_not_ended_says_so() {
        assert!(
            !read(&LogBuilder::new(512).write(1, 0, 1).finish())
                .unwrap()
                .ended
        );
        assert!(
            !read(&LogBuilder::new(512).mark(END_MARK).write(1, 0, 1).finish())
                .unwrap()
                .ended
        );
    }

    #[test]
    fn writes_whose_order_is_lost_are_found() {
        let unordered = |made: LogBuilder| {
            let found = read(&made.finish()).unwrap().unordered;
            found
                .iter()
                .map(|pair| (pair.place, pair.fua_place, pair.offset, pair.length))
                .collect::<Vec<_>>()
        };
        let fua = || LogBuilder::new(512).write(7, FUA, 1);
        assert_eq!(unordered(fua().write(7, 0, 2)), [(1, 0, 3584, 512)]);
        assert_eq!(unordered(fua().flush().write(7, 0, 2)), [(2, 0, 3584, 512)]);
        assert_eq!(
            unordered(fua().entry(0, 8, DISCARD, &[], &[])),
            [(1, 0, 3584, 512)]
        );
        // The same bytes, another place, flushes between them, or in the order in which they came.
        assert_eq!(unordered(fua().write(7, 0, 1)), []);
        assert_eq!(unordered(fua().write(8, 0, 2)), []);
        assert_eq!(unordered(fua().flush().flush().write(7, 0, 2)), []);
        assert_eq!(
            unordered(LogBuilder::new(512).write(7, 0, 2).write(7, FUA, 1)),
            []
        );
        assert_eq!(unordered(fua().write(7, FUA, 2)), []);
    }

    #[test]
    fn marks_of_operations_are_read_as_they_are_written() {
        for mark in [
            OperationMark::Start(0),
            OperationMark::End(12),
            OperationMark::Refused(3, libc::EEXIST),
            OperationMark::SetupEnd,
        ] {
            assert_eq!(OperationMark::of(&mark.text()), Some(mark));
            assert_eq!(
                OperationMark::of(&mark.text().replace('-', " ")),
                Some(mark)
            );
        }
        for other in [
            "",
            "op",
            "op-01-end",
            "op--1-end",
            "op-1-end-2",
            "op-4294967296-end",
            "mkfs",
        ] {
            assert_eq!(OperationMark::of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_damage_is_more_than_refused(
            flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            end: prop::sample::Index,
            doubled: prop::sample::Index,
            how in 0..3,
        ) {
            let mut bytes = sample(512);
            for (place, byte) in flips {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            match how {
                0 => bytes.truncate(end.index(bytes.len())),
                1 => {
                    let (from, to) = (end.index(bytes.len()), doubled.index(bytes.len()));
                    let piece = bytes[from.min(to)..from.max(to)].to_vec();
                    bytes.extend(piece);
                }
                _ => {}
            }
            match read(&bytes) {
                Err(LogWritesError::Damaged { offset, .. } | LogWritesError::Io { offset, .. }) => {
                    prop_assert!(offset <= bytes.len() as u64);
                }
                Ok(found) => {
                    let inside = |entry: &crate::Entry| entry.range().0 + entry.range().1 <= DISK_BYTES;
                    prop_assert!(found.log.entries().iter().all(inside));
                }
            }
        }
    }
}
