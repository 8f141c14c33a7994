//! The content of a file as the operations made it.

use std::sync::Arc;

use workloads::pattern;

const CHUNK_BYTES: u64 = 4096;

type Chunk = [u8; CHUNK_BYTES as usize];

static ZERO_CHUNK: Chunk = [0; CHUNK_BYTES as usize];

/// Size, bytes and allocation of a file at one time. Versions share what they have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileContent {
    size_bytes: u64,
    /// `None` is zeros.
    chunks: Vec<Option<Arc<Chunk>>>,
    /// Byte ranges that hold or reserve space, in order, apart.
    allocated: Vec<(u64, u64)>,
}

impl FileContent {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The bytes of chunk number `index`, zeros behind the end.
    pub(crate) fn chunk(&self, index: usize) -> &Chunk {
        self.chunks.get(index).and_then(Option::as_deref).unwrap_or(&ZERO_CHUNK)
    }

    /// How many whole blocks of `block_bytes` lie in space that the file holds or reserves.
    pub(crate) fn allocated_blocks(&self, block_bytes: u64) -> u64 {
        let whole = |(start, end): &(u64, u64)| (end / block_bytes).saturating_sub(start.div_ceil(block_bytes));
        self.allocated.iter().map(whole).sum()
    }

    fn chunk_mut(&mut self, index: usize) -> &mut Chunk {
        if self.chunks.len() <= index {
            self.chunks.resize(index + 1, None);
        }
        Arc::make_mut(self.chunks[index].get_or_insert_with(|| Arc::new(ZERO_CHUNK)))
    }

    fn edit(&mut self, start: u64, end: u64, mut byte: impl FnMut(u64) -> u8) {
        let mut at = start;
        while at < end {
            let index = at / CHUNK_BYTES;
            let stop = end.min((index + 1) * CHUNK_BYTES);
            let chunk = self.chunk_mut(index as usize);
            for offset in at..stop {
                chunk[(offset % CHUNK_BYTES) as usize] = byte(offset);
            }
            at = stop;
        }
    }

    /// What operation number `operation` writes.
    pub(crate) fn write(&mut self, operation: usize, offset: u64, length: u64) {
        self.edit(offset, offset + length, |at| pattern::byte(operation, at));
        self.allocate(offset, offset + length);
        self.size_bytes = self.size_bytes.max(offset + length);
    }

    /// Makes a range read as zeros, as far as the file has bytes there.
    pub(crate) fn zero(&mut self, start: u64, end: u64) {
        let end = end.min(self.chunks.len() as u64 * CHUNK_BYTES);
        self.edit(start.min(end), end, |_| 0);
    }

    pub(crate) fn truncate(&mut self, size_bytes: u64) {
        if size_bytes < self.size_bytes {
            self.zero(size_bytes, u64::MAX);
            self.chunks.truncate(size_bytes.div_ceil(CHUNK_BYTES) as usize);
        }
        // Space behind the end goes, reserved or not.
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
            .fold((start, end), |merged, range| (merged.0.min(range.0), merged.1.max(range.1)));
        self.allocated.retain(|range| !touches(range));
        self.allocated.push(merged);
        self.allocated.sort_unstable();
    }

    /// Notes that a range holds no space any more.
    pub(crate) fn free(&mut self, start: u64, end: u64) {
        let pieces =
            self.allocated.iter().flat_map(|range| [(range.0, range.1.min(start)), (range.0.max(end), range.1)]);
        self.allocated = pieces.filter(|(from, to)| from < to).collect();
    }

    /// `FALLOC_FL_COLLAPSE_RANGE`.
    pub(crate) fn collapse(&mut self, offset: u64, length: u64) {
        let (old, size_bytes) = (self.clone(), self.size_bytes);
        self.edit(offset, size_bytes.saturating_sub(length), |at| old.byte(at + length));
        self.truncate(size_bytes.saturating_sub(length));
        self.allocated.clear();
    }

    /// `FALLOC_FL_INSERT_RANGE`.
    pub(crate) fn insert(&mut self, offset: u64, length: u64) {
        let old = self.clone();
        let moved = |at: u64| if at < offset + length { 0 } else { old.byte(at - length) };
        self.edit(offset, old.size_bytes + length, moved);
        self.size_bytes += length;
        self.allocated.clear();
    }

    /// Takes a range of another file over (reflink).
    pub(crate) fn clone_from(&mut self, source: &Self, source_offset: u64, length: u64, offset: u64) {
        self.edit(offset, offset + length, |at| source.byte(at - offset + source_offset));
        self.extend(offset + length);
    }

    fn byte(&self, offset: u64) -> u8 {
        self.chunk((offset / CHUNK_BYTES) as usize)[(offset % CHUNK_BYTES) as usize]
    }
}

/// The bytes of a recovered file, chunk by chunk as [`FileContent`] keeps them.
pub(crate) fn tree_chunk(content: &local_fs::Content, index: usize, chunk: &mut Chunk) {
    chunk.fill(0);
    let start = index as u64 * CHUNK_BYTES;
    let end = start + CHUNK_BYTES;
    for segment in &content.segments {
        let segment_end = segment.offset + segment.data.len() as u64;
        let (from, to) = (segment.offset.max(start), segment_end.min(end));
        if from < to {
            let bytes = &segment.data[(from - segment.offset) as usize..(to - segment.offset) as usize];
            chunk[(from - start) as usize..(to - start) as usize].copy_from_slice(bytes);
        }
    }
}

/// How many chunks a size spans.
pub(crate) fn chunk_count(size_bytes: u64) -> usize {
    size_bytes.div_ceil(CHUNK_BYTES) as usize
}

/// A chunk of zeros to read into.
pub(crate) fn empty_chunk() -> Chunk {
    ZERO_CHUNK
}

/// Where in the file chunk number `index` starts.
pub(crate) fn chunk_start(index: usize) -> u64 {
    index as u64 * CHUNK_BYTES
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
    }

    fn change() -> impl Strategy<Value = Change> {
        let range = || (0..12_000_u64, 1..6000_u64);
        prop_oneof![
            range().prop_map(|(offset, length)| Change::Write(offset, length)),
            (0..12_000_u64).prop_map(Change::Truncate),
            range().prop_map(|(offset, length)| Change::Zero(offset, length)),
            range().prop_map(|(offset, length)| Change::Collapse(offset, length)),
            range().prop_map(|(offset, length)| Change::Insert(offset, length)),
        ]
    }

    proptest! {
        #[test]
        fn content_is_what_a_flat_file_would_hold(changes in prop::collection::vec(change(), 0..10)) {
            let mut content = FileContent::default();
            let mut flat: Vec<u8> = Vec::new();
            for (operation, change) in changes.iter().enumerate() {
                let size = flat.len();
                match *change {
                    Change::Write(offset, length) => {
                        content.write(operation, offset, length);
                        flat.resize(size.max((offset + length) as usize), 0);
                        flat[offset as usize..][..length as usize].copy_from_slice(&pattern::bytes(operation, offset, length));
                    }
                    Change::Truncate(to) => {
                        content.truncate(to);
                        flat.resize(to as usize, 0);
                    }
                    Change::Zero(offset, length) => {
                        content.zero(offset, offset + length);
                        let (from, to) = ((offset as usize).min(size), ((offset + length) as usize).min(size));
                        flat[from..to].fill(0);
                    }
                    // The kernel refuses to collapse up to or behind the end, and to insert behind it.
                    Change::Collapse(offset, length) if ((offset + length) as usize) < size => {
                        content.collapse(offset, length);
                        flat.drain(offset as usize..(offset + length) as usize);
                    }
                    Change::Insert(offset, length) if (offset as usize) < size => {
                        content.insert(offset, length);
                        let zeros = std::iter::repeat_n(0, length as usize);
                        flat.splice(offset as usize..offset as usize, zeros);
                    }
                    Change::Collapse(..) | Change::Insert(..) => {}
                }
            }
            prop_assert_eq!(content.size_bytes(), flat.len() as u64);
            let read: Vec<u8> = (0..flat.len() as u64).map(|offset| content.byte(offset)).collect();
            prop_assert_eq!(read, flat);
        }
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
