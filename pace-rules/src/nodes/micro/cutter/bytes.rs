//! Bytes that files get and lose.

use std::ops::Range;

use trace::{Data, FileId};

use super::Cutter;
use super::known::{Page, pages};
use crate::nodes::micro::{Neighbour, Order, PAGE_BYTES, Split};
use crate::nodes::model::{DataOrder, Growth, Log};
use crate::nodes::narrow::Narrow;
use crate::nodes::{Content, Effect};

/// Bytes, and where in a file they were written.
pub(super) type Write = (u64, Data);

/// All that was written.
pub(super) fn whole((offset, data): Write) -> Range<u64> {
    offset..offset + data.len
}

/// The bytes of a range of a write.
pub(super) fn written((offset, data): Write, range: &Range<u64>) -> Content {
    Content::Written(Data {
        at: data.at + (range.start - offset),
        len: range.end - range.start,
    })
}

impl Cutter<'_> {
    pub(super) fn write(&mut self, file: FileId, offset: u64, data: Data, size_before: u64) {
        let end = offset + data.len;
        let (old, new) = (offset..end.min(size_before), offset.max(size_before)..end);
        if self.model.log == Log::None {
            self.write_alone(file, (offset, data), old, new);
        } else {
            self.zero_stale(file, offset..end, size_before);
            self.write_to_zeroed(file, (offset, data));
            for range in self.pieces(file, old) {
                self.write_over(file, (offset, data), range, size_before);
            }
            self.fill_last_page(file, offset, size_before);
            // What is new in the last page of before, and after that.
            let page_end = (size_before / PAGE_BYTES + 1) * PAGE_BYTES;
            let last = new.start..new.end.min(page_end).max(new.start);
            let rest = last.end..new.end;
            for range in [last, rest] {
                for range in self.pieces(file, range) {
                    self.append(file, &range, (offset, data));
                }
            }
        }
        self.note_written(file, &(offset..end), size_before);
    }

    /// Where there is no log: bytes that can be kept whatever else is, and where they are new also
    /// zeros, or garbage, in their place. Those of before give way sector by sector, too.
    fn write_alone(&mut self, file: FileId, write: Write, old: Range<u64>, new: Range<u64>) {
        for slice in self.slices(old) {
            for range in self.sectors(slice, &whole(write)) {
                self.bytes_alone(file, range.start, written(write, &range));
            }
        }
        for range in self.slices(new) {
            let len = range.end - range.start;
            self.bytes_alone(file, range.start, Content::Zeros(len));
            self.bytes_alone(file, range.start, Content::Garbage(len));
            self.bytes_alone(file, range.start, written(write, &range));
        }
    }

    /// A piece of a write, in place of bytes that there were.
    fn write_over(&mut self, file: FileId, write: Write, range: Range<u64>, size_before: u64) {
        let own = self.own();
        let order = self.order(file, range.start);
        // With these bytes the page can be what makes the file as large as it is.
        let page_end = range.end.next_multiple_of(PAGE_BYTES);
        let size = page_end.min(size_before);
        let mut is_size_with_bytes = false;
        let known = self.file(file);
        let grows_too = known.grown_whole > known.least && size < size_before;
        if range.end > known.least {
            is_size_with_bytes = self.model.growth == Growth::WithData;
            let requires = is_size_with_bytes.then_some(Neighbour::Next);
            self.group_in(own, requires, [Effect::Grow { file, size }]);
            self.grow_to_folio(file, page_end, size_before);
        }
        if grows_too {
            // The size on the disk becomes that in memory, whatever is written of the rest.
            let size = size_before;
            self.group_in(own, None, [Effect::Grow { file, size }]);
        }
        // A size that waits for its bytes waits for all of the page.
        let torn = if is_size_with_bytes {
            vec![range]
        } else {
            self.torn(file, range, &whole(write))
        };
        for range in torn {
            self.overwrite(file, order, None, range.start, written(write, &range));
        }
    }

    /// If the last page of before is written now, it reaches as far as it can.
    fn fill_last_page(&mut self, file: FileId, offset: u64, size_before: u64) {
        let size = size_before.next_multiple_of(PAGE_BYTES).min(offset);
        if size > size_before {
            let grow = Effect::Grow { file, size };
            self.group_in(self.own(), None, [grow]);
            self.grow_to_folio(file, size, offset);
        }
    }

    /// Notes which pages of a file have bytes, and how large it is.
    fn note_written(&mut self, file: FileId, range: &Range<u64>, size_before: u64) {
        let (event, by, (_, end_ns)) = (self.event, self.by, self.times);
        let known = self.file(file);
        known.is_resized |= range.end > size_before;
        known.size = range.end.max(size_before);
        for page in pages(range) {
            let new = Page {
                event,
                by,
                end_ns,
                last_by: by,
                last_ns: end_ns,
                is_placed: false,
            };
            let last = known.pages.entry(page).or_insert(new);
            (last.last_by, last.last_ns) = (by, end_ns);
            known.dirty.insert(page);
        }
        if known.is_renamed && range.end > size_before {
            self.size_with_name(file);
        }
    }

    /// Bytes that can be kept whatever else is.
    pub(super) fn bytes_alone(&mut self, file: FileId, offset: u64, content: Content) {
        let write = Effect::Write {
            file,
            offset,
            content,
        };
        self.group_in(Order::InPlace, None, [write]);
    }

    pub(super) fn overwrite(
        &mut self,
        file: FileId,
        order: Order,
        requires: Option<Neighbour>,
        offset: u64,
        content: Content,
    ) {
        let overwrite = Effect::Overwrite {
            file,
            offset,
            content,
        };
        self.group_in(order, requires, [overwrite]);
    }

    /// The page of a byte, if it may have its place on the disk, and still has it when it is written.
    pub(super) fn page(&self, file: FileId, offset: u64) -> Option<Page> {
        let pages = self.files.get(&file).map(|known| &known.pages);
        let page = pages.and_then(|pages| pages.get(&(offset / PAGE_BYTES)));
        page.copied().filter(|_| self.model.data != DataOrder::All)
    }

    /// What waits for what was done before the event.
    pub(super) fn own(&self) -> Order {
        Order::After(Narrow::new(self.event))
    }

    /// What the bytes of a page wait for. In place of those of before they can be on the disk at any
    /// time, and a new page may have its place since its first bytes came.
    pub(super) fn order(&self, file: FileId, offset: u64) -> Order {
        match self.page(file, offset) {
            Some(page) if page.is_placed => Order::InPlace,
            Some(page) => Order::After(Narrow::new(page.event)),
            None => self.own(),
        }
    }

    /// A piece of what a write makes a file grow by: the size, and the bytes.
    fn append(&mut self, file: FileId, range: &Range<u64>, write: Write) {
        match self.model.growth {
            Growth::WithData if self.page(file, range.start).is_none() => {
                self.append_whole(file, range, write);
            }
            Growth::WithData => {
                let bytes = self.order(file, range.start);
                let grow = Effect::Grow {
                    file,
                    size: range.end,
                };
                self.group_in(self.own(), Some(Neighbour::Next), [grow]);
                self.overwrite(file, bytes, None, range.start, written(write, range));
            }
            // A size for which no page has to be found its place is kept like a name.
            _ if self.is_rest_of_page(file, range, &whole(write)) => {
                self.append_whole(file, range, write);
                self.file(file).grown_whole = range.end;
            }
            Growth::Zeros | Growth::ZerosAndGarbage => self.append_apart(file, range, write),
        }
    }

    /// A piece of which the size may be kept without the bytes, which may be torn.
    fn append_apart(&mut self, file: FileId, range: &Range<u64>, write: Write) {
        let whole = whole(write);
        let page = self.page(file, range.start);
        let bytes = self.order(file, range.start);
        let is_in_place = page.is_some_and(|page| page.is_placed)
            && whole.end.div_ceil(PAGE_BYTES) == range.start / PAGE_BYTES + 1;
        let own = if is_in_place {
            Order::Named
        } else {
            self.own()
        };
        let grow = Effect::Grow {
            file,
            size: range.end,
        };
        self.group_in(own, None, [grow]);
        let requires = page.is_none().then_some(Neighbour::Previous);
        for range in self.torn(file, range.clone(), &whole) {
            self.overwrite(file, bytes, requires, range.start, written(write, &range));
        }
    }

    /// A piece of which size and bytes are kept together.
    fn append_whole(&mut self, file: FileId, range: &Range<u64>, write: Write) {
        let size = Effect::Grow {
            file,
            size: range.end,
        };
        let bytes = Effect::Overwrite {
            file,
            offset: range.start,
            content: written(write, range),
        };
        self.group_in(self.own(), None, [size, bytes]);
    }

    /// Whether a piece of a write of `whole` is what a log tree keeps with its size: it continues a
    /// page that was written before, and nothing else of the file is to be written, so that the size
    /// becomes that in memory when this page is on the disk.
    fn is_rest_of_page(&self, file: FileId, range: &Range<u64>, whole: &Range<u64>) -> bool {
        let page = range.start / PAGE_BYTES;
        let is_within = range == whole && (range.end - 1) / PAGE_BYTES == page;
        let known = self.files.get(&file).filter(|_| is_within);
        self.model.log == Log::LogTree
            && !self.with_size_logged.contains(&file)
            && known.is_some_and(|known| {
                known.pages.contains_key(&page)
                    && known.size == range.start
                    && !known.is_odd
                    && known.dirty.iter().all(|dirty| *dirty == page)
            })
    }

    /// Bytes of a file cut as [`Self::slices`] does, and where what they wait for changes.
    fn pieces(&self, file: FileId, range: Range<u64>) -> Vec<Range<u64>> {
        let mut pieces: Vec<Range<u64>> = Vec::new();
        for slice in self.slices(range) {
            let mut start = slice.start;
            while start < slice.end {
                let end = (start / PAGE_BYTES + 1) * PAGE_BYTES;
                let end = end.min(slice.end);
                match pieces.last_mut() {
                    Some(last)
                        if start > slice.start
                            && self.order(file, last.start) == self.order(file, start) =>
                    {
                        last.end = end;
                    }
                    _ => pieces.push(start..end),
                }
                start = end;
            }
        }
        pieces
    }

    /// A piece of a write of `whole`, cut where a disk may tear it. What goes to a new place is
    /// seen whole or not at all, page by page: the file system takes it for written only once the
    /// disk has it all. Every other page may be on its way to the disk when the power fails, and the
    /// disk keeps any of its sectors.
    ///
    /// Each cut within a page is within a piece that is one page: a sync of some pages covers a
    /// piece or does not.
    fn torn(&self, file: FileId, piece: Range<u64>, whole: &Range<u64>) -> Vec<Range<u64>> {
        if self.page(file, piece.start).is_none() {
            return vec![piece];
        }
        self.sectors(piece, whole)
    }

    /// A piece of a write of `whole` cut where the split cuts it between sectors.
    fn sectors(&self, piece: Range<u64>, whole: &Range<u64>) -> Vec<Range<u64>> {
        if self.sector_bytes >= PAGE_BYTES {
            return vec![piece];
        }
        let mut cuts = self.cuts(&piece, whole);
        cuts.retain(|cut| piece.start < *cut && *cut < piece.end);
        cuts.extend([piece.start, piece.end]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|ends| ends[0]..ends[1]).collect()
    }

    /// Where the split cuts a piece of a write of `whole`, and perhaps outside of it, between sectors.
    fn cuts(&self, piece: &Range<u64>, whole: &Range<u64>) -> Vec<u64> {
        let sector = self.sector_bytes;
        let ends_of =
            |unit: u64| [whole.start / unit + 1, (whole.end - 1) / unit].map(|end| end * unit);
        match self.split {
            Split::Aligned(bytes) => {
                let step = bytes.max(1).next_multiple_of(sector);
                let is_finer = step < PAGE_BYTES;
                let multiples = (piece.start / step + 1..).map(|number| number * step);
                let inside = multiples.take_while(|cut| *cut < piece.end);
                inside.filter(|_| is_finer).collect()
            }
            Split::Count(0 | 1) => Vec::new(),
            Split::Count(count) if pages(whole).count() == 1 => {
                let step = (piece.end - piece.start).div_ceil(count);
                let ends = (1..count).map(|number| piece.start + number * step);
                // The nearest one: what lies across one border of sectors is cut there.
                let thirds = ends.map(|end| (end + sector / 2) / sector * sector);
                thirds.chain(ends_of(sector)).collect()
            }
            Split::Count(_) => [ends_of(PAGE_BYTES), ends_of(sector)].concat(),
        }
    }

    /// Bytes of a file cut where the split and the model say; none that is empty.
    pub(super) fn slices(&self, range: Range<u64>) -> Vec<Range<u64>> {
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
