//! Truncations: sizes that files get, and what becomes of the bytes in the last page.

use std::ops::Range;

use itertools::Itertools;
use trace::FileId;

use super::Cutter;
use super::known::pages;
use super::zeros::zeros;
use crate::nodes::micro::{Neighbour, Order, PAGE_BYTES};
use crate::nodes::model::{DataOrder, Growth, Log};
use crate::nodes::{Content, Effect};

/// What nothing is known of where it lies is not made of more bytes than this: a file that is grown
/// by more is zeros there, as it should.
const GARBAGE_BYTES_MAX: u64 = 1 << 20;

impl Cutter<'_> {
    pub(super) fn resize(&mut self, file: FileId, from: u64, to: u64) {
        if to < from {
            self.shrink(file, from, to);
        } else if self.model.growth == Growth::ZerosAndGarbage && to - from <= GARBAGE_BYTES_MAX {
            for range in self.slices(from..to) {
                let len = range.end - range.start;
                self.bytes_alone(file, range.start, Content::Garbage(len));
                self.bytes_alone(file, range.start, Content::Zeros(len));
            }
        } else if to > from && self.model.log == Log::None {
            self.group([Effect::SetSize { file, size: to }]);
        } else if to > from {
            self.grow(file, from, to);
        }
        let known = self.file(file);
        known.cut(to);
        known.is_odd = true;
        known.least = known.least.min(to);
        known.is_resized = true;
        known.size = to;
        if known.is_renamed {
            self.size_with_name(file);
        }
    }

    /// A truncation that makes a file longer. Where a file grows with its bytes, the rest of its last
    /// page is zeros before it does.
    fn grow(&mut self, file: FileId, from: u64, to: u64) {
        let rest = from..from.next_multiple_of(PAGE_BYTES).min(to);
        let has_page = self.file(file).pages.contains_key(&(from / PAGE_BYTES));
        let mut requires = None;
        if self.model.growth == Growth::WithData && !rest.is_empty() && has_page {
            let order = self.order(file, from);
            self.overwrite(file, order, None, from, zeros(&rest));
            requires = Some(Neighbour::Previous);
        }
        self.zero_stale(file, to..to, from);
        self.group_in(Order::Named, requires, [Effect::Grow { file, size: to }]);
    }

    /// Where a page goes to the disk with its folio, the size there may become the end of that, if the
    /// file is larger. A folio is not larger than what was written, and so ends within the file but
    /// where that was cut off. `page_end` is the end of a page that is written now, and up to `size`
    /// the file reaches.
    pub(super) fn grow_to_folio(&mut self, file: FileId, page_end: u64, size: u64) {
        if self.model.growth != Growth::Zeros || self.model.log != Log::Journal {
            return;
        }
        let cut_from = self.file(file).cut_from.next_multiple_of(PAGE_BYTES);
        let folio_ends = (1..).map(|order| page_end.next_multiple_of(PAGE_BYTES << order));
        let within = folio_ends.take_while(|end| *end < size && *end <= cut_from);
        for end in within.filter(|end| *end > page_end).dedup() {
            self.group_in(self.own(), None, [Effect::Grow { file, size: end }]);
        }
    }

    fn shrink(&mut self, file: FileId, from: u64, to: u64) {
        let known = self.file(file);
        known.cut_from = known.cut_from.max(from);
        let mut requires = None;
        let rest = to..to.next_multiple_of(PAGE_BYTES).min(from);
        let has_page = self.file(file).pages.contains_key(&(to / PAGE_BYTES));
        let has_rest = !rest.is_empty() && has_page;
        if self.model.data == DataOrder::All {
            self.file(file).stale = has_rest.then_some(to / PAGE_BYTES);
        } else if has_rest && self.model.log != Log::None {
            // The rest of the last page becomes zeros, and goes to the disk as bytes do.
            let order = self.order(file, to);
            self.overwrite(file, order, None, to, zeros(&rest));
            // That is only done to a page that has its place.
            let is_ordered = self.model.data == DataOrder::Ordered && order == Order::InPlace;
            requires = is_ordered.then_some(Neighbour::Previous);
        }
        if self.model.atomic_names {
            let size = Effect::SetSize { file, size: to };
            self.group_in(Order::Named, requires, [size]);
            return;
        }
        for range in self.slices(to..from).into_iter().rev() {
            self.group([Effect::SetSize {
                file,
                size: range.start,
            }]);
        }
    }

    /// On btrfs what was cut off within a page stays on the disk until the page is written again.
    /// That is done when something is written to it, and begins when the file grows again. `range` is
    /// what is written now.
    pub(super) fn zero_stale(&mut self, file: FileId, range: Range<u64>, size: u64) {
        let page = size / PAGE_BYTES;
        let is_meant = range.end > size || pages(&range).contains(&page);
        let stale = &mut self.file(file).stale;
        if !is_meant || stale.take_if(|stale| *stale == page).is_none() {
            return;
        }
        let rest = size..size.next_multiple_of(PAGE_BYTES);
        let is_one_page = pages(&range) == (page..page + 1);
        let requires = is_one_page.then_some(Neighbour::Next);
        let own = self.own();
        self.overwrite(file, own, requires, rest.start, zeros(&rest));
    }
}
