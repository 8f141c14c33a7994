//! The content of a file as the operations made it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use brief::{Brief, BriefList};
use workloads::pattern;

const CHUNK_BYTES: u64 = 4096;

pub(crate) type Chunk = [u8; CHUNK_BYTES as usize];

static ZERO_CHUNK: Chunk = [0; CHUNK_BYTES as usize];

/// Size, bytes and allocation of a file at one time. Versions share what they have in common.
#[derive(Clone, Default)]
pub(crate) struct FileContent {
    size_bytes: u64,
    /// By number; one that is not there is zeros, as is everything past the end.
    chunks: BTreeMap<u64, Arc<Chunk>>,
    /// Byte ranges that hold or reserve space, in order, apart.
    allocated: Vec<(u64, u64)>,
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = self
            .chunks
            .iter()
            .map(|(number, chunk)| (number, Brief(chunk.as_slice())));
        f.debug_struct("FileContent")
            .field("size_bytes", &self.size_bytes)
            .field("chunks", &BriefList(chunks))
            .field("allocated", &self.allocated)
            .finish()
    }
}

impl FileContent {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The bytes of chunk number `index`, zeros past the end.
    pub(crate) fn chunk(&self, index: u64) -> &Chunk {
        self.chunks.get(&index).map_or(&ZERO_CHUNK, Arc::as_ref)
    }

    /// The numbers of the chunks that may be other than zeros.
    pub(crate) fn chunk_numbers(&self) -> impl Iterator<Item = u64> {
        self.chunks.keys().copied()
    }

    /// How many whole blocks of `block_bytes` lie in space that the file holds or reserves.
    pub(crate) fn allocated_blocks(&self, block_bytes: u64) -> u64 {
        let whole = |(start, end): &(u64, u64)| {
            (end / block_bytes).saturating_sub(start.div_ceil(block_bytes))
        };
        self.allocated.iter().map(whole).sum()
    }

    fn chunk_mut(&mut self, index: u64) -> &mut Chunk {
        Arc::make_mut(
            self.chunks
                .entry(index)
                .or_insert_with(|| Arc::new(ZERO_CHUNK)),
        )
    }

    /// What operation number `operation` writes. Nothing written changes nothing, the size neither.
    pub(crate) fn write(&mut self, operation: usize, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let end = offset + length;
        for (index, start, stop) in pieces(offset, end) {
            let from = chunk_start(index);
            let bytes = &mut self.chunk_mut(index)[start..stop];
            (from + start as u64..)
                .zip(bytes)
                .for_each(|(at, byte)| *byte = pattern::byte(operation, at));
        }
        self.allocate(offset, end);
        self.extend(end);
    }

    /// Makes a range read as zeros.
    pub(crate) fn zero(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (first, last) = (start / CHUNK_BYTES, (end - 1) / CHUNK_BYTES);
        let there: Vec<_> = self
            .chunks
            .range(first..=last)
            .map(|(index, _)| *index)
            .collect();
        for index in there {
            let chunk_from = chunk_start(index);
            let (from, to) = (
                start.saturating_sub(chunk_from),
                (end - chunk_from).min(CHUNK_BYTES),
            );
            if (from, to) == (0, CHUNK_BYTES) {
                self.chunks.remove(&index);
            } else {
                self.chunk_mut(index)[from as usize..to as usize].fill(0);
            }
        }
    }

    /// Copies what is not zero of a range of `source` to `offset`, where zeros are.
    fn copy(&mut self, source: &Self, start: u64, end: u64, offset: u64) {
        if start >= end {
            return;
        }
        for (index, chunk) in source
            .chunks
            .range(start / CHUNK_BYTES..=(end - 1) / CHUNK_BYTES)
        {
            let chunk_from = chunk_start(*index);
            let (from, to) = (start.max(chunk_from), end.min(chunk_from + CHUNK_BYTES));
            let dest = from - start + offset;
            if to - from == CHUNK_BYTES && dest.is_multiple_of(CHUNK_BYTES) {
                self.chunks.insert(dest / CHUNK_BYTES, Arc::clone(chunk));
                continue;
            }
            let mut bytes = &chunk[(from - chunk_from) as usize..(to - chunk_from) as usize];
            for (index, start, stop) in pieces(dest, dest + (to - from)) {
                let (now, later) = bytes.split_at(stop - start);
                self.chunk_mut(index)[start..stop].copy_from_slice(now);
                bytes = later;
            }
        }
    }

    pub(crate) fn truncate(&mut self, size_bytes: u64) {
        self.zero(size_bytes, u64::MAX);
        // Space past the end goes, reserved or not.
        self.free(size_bytes, u64::MAX);
        self.size_bytes = size_bytes;
    }

    pub(crate) fn extend(&mut self, size_bytes: u64) {
        self.size_bytes = self.size_bytes.max(size_bytes);
    }

    /// Notes that a range holds or reserves space.
    pub(crate) fn allocate(&mut self, start: u64, end: u64) {
        let touches = |range: &(u64, u64)| range.0 <= end && start <= range.1;
        let merged = self
            .allocated
            .iter()
            .filter(|range| touches(range))
            .fold((start, end), |merged, range| {
                (merged.0.min(range.0), merged.1.max(range.1))
            });
        self.allocated.retain(|range| !touches(range));
        self.allocated.push(merged);
        self.allocated.sort_unstable();
    }

    /// Notes that a range holds no space any more.
    pub(crate) fn free(&mut self, start: u64, end: u64) {
        let pieces = self
            .allocated
            .iter()
            .flat_map(|range| [(range.0, range.1.min(start)), (range.0.max(end), range.1)]);
        self.allocated = pieces.filter(|(from, to)| from < to).collect();
    }

    /// `FALLOC_FL_COLLAPSE_RANGE`.
    pub(crate) fn collapse(&mut self, offset: u64, length: u64) {
        let old = self.clone();
        self.truncate(offset.min(old.size_bytes));
        self.copy(&old, offset + length, old.size_bytes, offset);
        self.size_bytes = old.size_bytes.saturating_sub(length);
        self.allocated.clear();
    }

    /// `FALLOC_FL_INSERT_RANGE`.
    pub(crate) fn insert(&mut self, offset: u64, length: u64) {
        let old = self.clone();
        self.truncate(offset.min(old.size_bytes));
        self.copy(&old, offset, old.size_bytes, offset + length);
        self.size_bytes = old.size_bytes + length;
        self.allocated.clear();
    }

    /// Takes a range of another file over (reflink).
    pub(crate) fn clone_from(
        &mut self,
        source: &Self,
        source_offset: u64,
        length: u64,
        offset: u64,
    ) {
        self.zero(offset, offset + length);
        self.copy(source, source_offset, source_offset + length, offset);
        self.extend(offset + length);
    }

    /// One byte, zero past the end.
    pub(crate) fn byte(&self, offset: u64) -> u8 {
        self.chunk(offset / CHUNK_BYTES)[(offset % CHUNK_BYTES) as usize]
    }
}

/// The chunks that a range touches, each with the part of it that lies in the range.
fn pieces(start: u64, end: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    (start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(move |index| {
        let from = start.saturating_sub(chunk_start(index));
        let to = (end - chunk_start(index)).min(CHUNK_BYTES);
        (index, from as usize, to as usize)
    })
}

/// The bytes of a recovered file, chunk by chunk as [`FileContent`] keeps them.
pub(crate) fn tree_chunk(content: &local_fs::Content, index: u64, chunk: &mut Chunk) {
    chunk.fill(0);
    let start = chunk_start(index);
    let end = start + CHUNK_BYTES;
    let before = content
        .segments
        .partition_point(|segment| segment_end(segment) <= start);
    for segment in content.segments[before..]
        .iter()
        .take_while(|segment| segment.offset < end)
    {
        let (from, to) = (segment.offset.max(start), segment_end(segment).min(end));
        if from < to {
            let bytes =
                &segment.data[(from - segment.offset) as usize..(to - segment.offset) as usize];
            chunk[(from - start) as usize..(to - start) as usize].copy_from_slice(bytes);
        }
    }
}

/// The numbers of the chunks of a recovered file that may be other than zeros.
pub(crate) fn tree_chunk_numbers(content: &local_fs::Content) -> impl Iterator<Item = u64> {
    content.segments.iter().flat_map(|segment| {
        segment.offset / CHUNK_BYTES..segment_end(segment).div_ceil(CHUNK_BYTES)
    })
}

/// Where in a recovered file zeros may begin that follow another byte.
pub(crate) fn zeros_from(content: &local_fs::Content) -> impl Iterator<Item = u64> {
    content.segments.iter().flat_map(|segment| {
        let bytes = segment.data.iter().zip(1..);
        let last = |at: usize| segment.data.get(at).is_none_or(|next| *next == 0);
        let ends = bytes.filter(move |(byte, next)| **byte != 0 && last(*next));
        ends.map(|(_, next)| segment.offset + next as u64)
    })
}

/// Whether a range of a recovered file reads as zeros.
pub(crate) fn is_zero(content: &local_fs::Content, range: Range<u64>) -> bool {
    content.segments.iter().all(|segment| {
        let from = range.start.clamp(segment.offset, segment_end(segment));
        let to = range.end.clamp(from, segment_end(segment));
        let place = |at: u64| (at - segment.offset) as usize;
        segment.data[place(from)..place(to)]
            .iter()
            .all(|byte| *byte == 0)
    })
}

fn segment_end(segment: &local_fs::Segment) -> u64 {
    segment.offset + segment.data.len() as u64
}

/// A chunk of zeros to read into.
pub(crate) fn empty_chunk() -> Chunk {
    ZERO_CHUNK
}

/// Where in the file chunk number `index` starts.
pub(crate) fn chunk_start(index: u64) -> u64 {
    index * CHUNK_BYTES
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Change {
        Write(u64, u64),
        Truncate(u64),
        Zero(u64, u64),
        Collapse(u64, u64),
        Insert(u64, u64),
        /// Moves everything, by inserting in the hole at the beginning or taking a part of it out.
        Move(u64, bool),
        /// A range of what there is now, to somewhere else.
        Clone(u64, u64, u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        let range = || (0..12_000_u64, 0..6000_u64);
        prop_oneof![
            range().prop_map(|(offset, length)| Change::Write(offset, length)),
            (0..12_000_u64).prop_map(Change::Truncate),
            range().prop_map(|(offset, length)| Change::Zero(offset, length)),
            range().prop_map(|(offset, length)| Change::Collapse(offset, length)),
            range().prop_map(|(offset, length)| Change::Insert(offset, length)),
            (prop_oneof![1..6000_u64, Just(4096)], any::<bool>())
                .prop_map(|(length, down)| Change::Move(length, down)),
            (0..8u64, 0..3u64, 0..8u64).prop_map(|(from, length, to)| Change::Clone(
                from * 2048,
                length * 2048,
                to * 2048
            )),
        ]
    }

    proptest! {
        #[test]
        fn content_is_what_a_flat_file_would_hold(
            hole in prop_oneof![Just(0_u64), Just(100_000), Just(1 << 40), Just((1 << 43) + 1234)],
            changes in prop::collection::vec(change(), 0..10),
        ) {
            let mut content = FileContent::default();
            content.truncate(hole);
            // The flat file is what lies past a hole, however large.
            let mut base = hole;
            let mut flat: Vec<u8> = Vec::new();
            for (operation, change) in changes.iter().enumerate() {
                let size = flat.len();
                match *change {
                    Change::Write(offset, length) => {
                        content.write(operation, base + offset, length);
                        if length > 0 {
                            flat.resize(size.max((offset + length) as usize), 0);
                            let bytes = pattern::bytes(operation, base + offset, length);
                            flat[offset as usize..][..length as usize].copy_from_slice(&bytes);
                        }
                    }
                    Change::Truncate(to) => {
                        content.truncate(base + to);
                        flat.resize(to as usize, 0);
                    }
                    Change::Zero(offset, length) => {
                        content.zero(base + offset, base + offset + length);
                        let (from, to) = ((offset as usize).min(size), ((offset + length) as usize).min(size));
                        flat[from..to].fill(0);
                    }
                    // The kernel refuses to collapse up to or past the end, and to insert past
                    // it.
                    Change::Collapse(offset, length) if ((offset + length) as usize) < size => {
                        content.collapse(base + offset, length);
                        flat.drain(offset as usize..(offset + length) as usize);
                    }
                    Change::Insert(offset, length) if (offset as usize) < size => {
                        content.insert(base + offset, length);
                        let zeros = std::iter::repeat_n(0, length as usize);
                        flat.splice(offset as usize..offset as usize, zeros);
                    }
                    Change::Move(length, false) if base > 0 => {
                        content.insert(7, length);
                        base += length;
                    }
                    Change::Move(length, true) if base > length + 7 => {
                        content.collapse(7, length);
                        base -= length;
                    }
                    Change::Clone(from, length, to) => {
                        let source = content.clone();
                        content.clone_from(&source, base + from, length, base + to);
                        let (from, length, to) = (from as usize, length as usize, to as usize);
                        let bytes: Vec<_> = (from..from + length).map(|at| flat.get(at).copied().unwrap_or(0)).collect();
                        flat.resize(size.max(to + length), 0);
                        flat[to..to + length].copy_from_slice(&bytes);
                    }
                    Change::Collapse(..) | Change::Insert(..) | Change::Move(..) => {}
                }
            }
            prop_assert_eq!(content.size_bytes(), base + flat.len() as u64);
            let read: Vec<u8> = (0..flat.len() as u64).map(|offset| content.byte(base + offset)).collect();
            prop_assert_eq!(read, flat);
            // What is kept is in proportion to what was written, and zeros around it.
            prop_assert!(content.chunks.len() <= 200);
            for (index, chunk) in &content.chunks {
                let outside = |at: u64| at < base || at >= content.size_bytes;
                let zeros = (chunk_start(*index)..).zip(chunk.iter()).all(|(at, byte)| *byte == 0 || !outside(at));
                prop_assert!(zeros);
            }
        }
    }

    #[test]
    fn large_holes_cost_nothing() {
        let mut content = FileContent::default();
        content.write(0, 1 << 40, 4096);
        content.truncate(8_000_000 << 20);
        content.zero(0, 1 << 39);
        content.insert(4096, 1 << 40);
        content.collapse(1 << 20, 1 << 30);
        assert_eq!(
            content.size_bytes(),
            (8_000_000 << 20) + (1 << 40) - (1 << 30)
        );
        assert_eq!(
            content.chunk_numbers().collect::<Vec<_>>(),
            [((2 << 40) - (1 << 30)) / CHUNK_BYTES]
        );
    }

    #[test]
    fn only_whole_blocks_of_allocated_space_count() {
        let mut content = FileContent::default();
        content.allocate(0, 5000);
        content.allocate(8192, 16384);
        assert_eq!(content.allocated_blocks(4096), 3);
        content.allocate(5000, 8192);
        assert_eq!(content.allocated_blocks(4096), 4);
        content.free(4096, 8192);
        assert_eq!(content.allocated_blocks(4096), 3);
        content.truncate(4096);
        assert_eq!(content.allocated_blocks(4096), 1);
    }
}
