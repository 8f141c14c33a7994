//! Ranges of a file that are zeros at once: holes that are punched, and zeros in blocks that the file
//! keeps.

use std::ops::Range;

use trace::FileId;

use super::Cutter;
use super::bytes::{Write, whole, written};
use super::known::pages;
use crate::nodes::micro::{Neighbour, Order, PAGE_BYTES};
use crate::nodes::model::{Allocation, DataOrder, Growth, Log};
use crate::nodes::{Content, Effect};

/// So many writes to a page that was zeroed are looked for in the block that it has kept.
const WRITES_MAX: usize = 8;

/// A page whose block was kept when it was zeroed. Until the disk knows of the zeros the block is the
/// old page, and what is written to it then is seen there.
#[derive(Debug, Clone)]
pub(super) struct Zeroed {
    /// The micro that is the zeros.
    zeros: usize,
    /// What bytes in the old page wait for.
    order: Order,
    /// How far the file reached on the disk at that time, at least.
    size: u64,
    /// What was written to the page since then.
    writes: Vec<(u64, Content)>,
}

impl Zeroed {
    /// The file has nothing from there on.
    pub(super) fn cut(&mut self, from: u64) {
        self.size = self.size.min(from);
    }
}

impl Cutter<'_> {
    /// A range of zeros. The size is as it was. With `keeps_blocks` it is no hole: the file keeps its
    /// blocks, as unwritten ones.
    pub(super) fn zero(&mut self, file: FileId, offset: u64, len: u64, keeps_blocks: bool) {
        self.allocate(file, offset, len);
        let known = self.file(file);
        known.is_odd = true;
        let size = known.size;
        let end = (offset + len).min(size);
        if self.model.log == Log::None {
            self.forget_pages(file, &whole_pages(offset, offset + len));
            return self.zeros_with_names(file, offset..end);
        }
        let is_past = self.allocates_in_place() && !keeps_blocks && offset + len > size;
        let hole_end = if is_past {
            (offset + len).next_multiple_of(PAGE_BYTES)
        } else {
            offset + len
        };
        let hole = whole_pages(offset, hole_end);
        let start = (hole.start * PAGE_BYTES).min(end);
        let inner = start..(hole.end * PAGE_BYTES).clamp(start, end);
        self.zeros_in_page(file, offset..inner.start);
        if keeps_blocks {
            self.keep_blocks(file, &hole);
        }
        self.forget_pages(file, &hole);
        self.zeros_with_names(file, inner.clone());
        self.zeros_in_page(file, inner.end..end);
    }

    /// The pages of a range keep their blocks while the next micro makes them zeros.
    fn keep_blocks(&mut self, file: FileId, range: &Range<u64>) {
        if !self.allocates_in_place() {
            return;
        }
        let zeros = self.micros.len();
        let places = self.places(file, range);
        let known = self.file(file);
        let size = known.least.max(known.least_in_range);
        for (page, order) in places {
            let zeroed = Zeroed {
                zeros,
                order,
                size,
                writes: Vec::new(),
            };
            known.zeroed.insert(page, zeroed);
        }
    }

    fn allocates_in_place(&self) -> bool {
        self.model.allocation == Allocation::InPlace
    }

    /// A range gets its space.
    pub(super) fn allocate(&mut self, file: FileId, offset: u64, len: u64) {
        let known = self.file(file);
        let size = (offset + len).min(known.size);
        if size > known.least && self.allocates_in_place() {
            self.group([Effect::Grow { file, size }]);
        }
    }

    /// The pages of a hole that have bytes, and what these wait for.
    fn places(&self, file: FileId, hole: &Range<u64>) -> Vec<(u64, Order)> {
        let known = self.files.get(&file).into_iter();
        let pages = known.flat_map(|known| known.pages.range(hole.clone()));
        let order = |page: &u64| self.order(file, page * PAGE_BYTES);
        pages.map(|(page, _)| (*page, order(page))).collect()
    }

    /// The pages of a hole have no bytes any more.
    fn forget_pages(&mut self, file: FileId, hole: &Range<u64>) {
        let known = self.file(file);
        known.pages.retain(|page, _| !hole.contains(page));
    }

    /// Zeros that are kept in the order of names. Where a file grows with its bytes they make it no
    /// larger: xfs_flush_unmap_range writes what of the range is in memory, and the size is what it was.
    fn zeros_with_names(&mut self, file: FileId, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let offset = range.start;
        let content = zeros(&range);
        self.group([if self.model.growth == Growth::WithData {
            Effect::Overwrite {
                file,
                offset,
                content,
            }
        } else {
            zeros_at(file, &range)
        }]);
    }

    /// Zeros in a part of a page, which go to the disk as bytes do where that has its place. Ordered
    /// data are there before what comes after.
    fn zeros_in_page(&mut self, file: FileId, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let known = self.file(file);
        if !known.pages.contains_key(&(range.start / PAGE_BYTES)) {
            return self.zeros_with_names(file, range);
        }
        let order = self.order(file, range.start);
        self.overwrite(file, order, None, range.start, zeros(&range));
        if self.model.data == DataOrder::Ordered && order == Order::InPlace {
            let size = range.end;
            let inode = Effect::Grow { file, size };
            self.group_in(Order::Named, Some(Neighbour::Previous), [inode]);
        }
    }

    /// What a write does to blocks that have kept their old bytes under zeros which the disk may not
    /// know of. If it does, the zeros hide it: there the bytes wait for more.
    pub(super) fn write_to_zeroed(&mut self, file: FileId, write: Write) {
        let range = whole(write);
        for page in pages(&range) {
            let known = self.file(file);
            let (start, end) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
            let Some(zeroed) = known.zeroed.get_mut(&page) else {
                continue;
            };
            let seen = start..end.min(zeroed.size);
            let own = range.start.max(start).min(seen.end)..range.end.min(seen.end);
            if zeroed.writes.len() == WRITES_MAX || seen.is_empty() {
                known.zeroed.remove(&page);
                continue;
            }
            let is_first = zeroed.writes.is_empty();
            if !own.is_empty() {
                zeroed.writes.push((own.start, written(write, &own)));
            } else if !is_first {
                continue;
            }
            let zeroed = zeroed.clone();
            let hidden = if is_first { seen.clone() } else { own };
            self.group_in(
                zeroed.order,
                None,
                page_as_written(file, &seen, zeroed.writes),
            );
            self.repetition(vec![zeroed.zeros], zeros_at(file, &hidden));
        }
    }
}

/// A page of zeros, and what was written to it.
fn page_as_written(
    file: FileId,
    page: &Range<u64>,
    writes: Vec<(u64, Content)>,
) -> impl Iterator<Item = Effect> {
    let writes = writes
        .into_iter()
        .map(move |(offset, content)| Effect::Write {
            file,
            offset,
            content,
        });
    [zeros_at(file, page)].into_iter().chain(writes)
}

/// A range that is zeros.
fn zeros_at(file: FileId, range: &Range<u64>) -> Effect {
    Effect::Write {
        file,
        offset: range.start,
        content: zeros(range),
    }
}

/// As many zeros as a range has bytes.
pub(super) fn zeros(range: &Range<u64>) -> Content {
    Content::Zeros(range.end - range.start)
}

/// The pages that are within a range of bytes.
fn whole_pages(start: u64, end: u64) -> Range<u64> {
    let first = start.div_ceil(PAGE_BYTES);
    first..(end / PAGE_BYTES).max(first)
}
