//! What is known of a file at a moment of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use trace::InitialFile;

use super::zeros::Zeroed;
use crate::nodes::micro::PAGE_BYTES;

/// What is known of a file at a moment of the run.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) names: u32,
    pub(super) size: u64,
    /// Whether it may have another one on the disk.
    pub(super) is_resized: bool,
    /// On the disk it has no smaller one.
    pub(super) least: u64,
    /// The same after the sync of a range that reached to its end.
    pub(super) least_in_range: u64,
    /// Whether it has another name since all was synced.
    pub(super) is_renamed: bool,
    /// Whether it is new, or was cut off or punched, since it was synced.
    pub(super) is_odd: bool,
    /// The pages that were written to since then.
    pub(super) dirty: BTreeSet<u64>,
    /// The largest size that it was cut off from. Up to there its pages may be in memory as parts of
    /// folios, larger ones, although the file has nothing there.
    pub(super) cut_from: u64,
    /// What it grew to with bytes that are kept with the size.
    pub(super) grown_whole: u64,
    /// The page that has more on the disk than the file has: what was cut off.
    pub(super) stale: Option<u64>,
    /// The pages that have bytes. Others are holes.
    pub(super) pages: BTreeMap<u64, Page>,
    /// Those that are zeros in blocks that the disk may know with the bytes of before.
    pub(super) zeroed: BTreeMap<u64, Zeroed>,
}

/// Since when a page may have its place on the disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page {
    /// The event that gave it its first bytes, who did that, and when it returned.
    pub(super) event: usize,
    pub(super) by: (u32, u32),
    pub(super) end_ns: u64,
    /// The same of its last bytes.
    pub(super) last_by: (u32, u32),
    pub(super) last_ns: u64,
    /// Whether it has its place for certain, since it was synced.
    pub(super) is_placed: bool,
}

impl Known {
    /// A file that was there at the beginning, and has so many names already.
    pub(super) fn initial(file: &InitialFile, names: u32) -> Self {
        let page = Page {
            event: 0,
            by: (0, 0),
            end_ns: 0,
            last_by: (0, 0),
            last_ns: 0,
            is_placed: true,
        };
        let pieces = file.content.iter();
        let pieces = pieces.map(|(offset, data)| *offset..offset + data.len);
        Self {
            names: names + u32::from(file.parent.is_some()),
            size: file.size,
            least: file.size,
            pages: pieces
                .flat_map(|piece| pages(&piece))
                .map(|number| (number, page))
                .collect(),
            ..Self::default()
        }
    }

    /// A sync of these pages that began then has given a place to all that had been written.
    pub(super) fn sync(&mut self, pages: Range<u64>, by: (u32, u32), start_ns: u64) {
        // Where others write meanwhile it may.
        if pages.end == u64::MAX {
            self.is_resized = false;
            self.least = self.size;
            self.is_odd = false;
            self.zeroed.clear();
            let is_over = |page: &u64| {
                let page = self.pages.get(page);
                page.is_none_or(|page| page.last_by == by || page.last_ns <= start_ns)
            };
            self.dirty.retain(|page| !is_over(page));
        }
        for (_, page) in self.pages.range_mut(pages) {
            page.is_placed |= page.by == by || page.end_ns <= start_ns;
        }
    }

    /// There is nothing from there on.
    pub(super) fn cut(&mut self, from: u64) {
        self.pages.split_off(&from.div_ceil(PAGE_BYTES));
        self.zeroed.split_off(&from.div_ceil(PAGE_BYTES));
        self.zeroed.values_mut().for_each(|page| page.cut(from));
        self.least_in_range = self.least_in_range.min(from);
    }
}

/// The pages of a range of bytes.
pub(super) fn pages(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
}
