//! What is known of a file while operations are read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use trace::{FileId, Name};

use crate::nodes::micro::PAGE_BYTES;

/// Zeros in more whole pages than these, such as a large hole, are noted as one.
const PAGES_MAX: u64 = 64;

/// What is known of a file while operations are read.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) name: Option<Name>,
    pub(super) parent: Option<FileId>,
    /// All directories that ever had a name of it.
    pub(super) parents: BTreeSet<FileId>,
    /// The names that it has.
    pub(super) names: BTreeSet<(FileId, Name)>,
    pub(super) is_directory: bool,
    /// The pages that got their space before their bytes.
    pub(super) reserved: BTreeSet<u64>,
    /// Those that groups wrote to.
    pages: BTreeMap<u64, Page>,
    /// Pages that are zeros at once, each with the group that made them that, in order. Of those that
    /// nothing else was written to nothing more is known.
    zeros: Vec<(Range<u64>, usize)>,
}

impl Known {
    /// The pages of a range to each of which it is to be noted that a group writes. Where it makes very
    /// many of them zeros, those are noted here to which nobody had written.
    pub(super) fn pages_of(
        &mut self,
        group: usize,
        range: &Range<u64>,
        is_zeros: bool,
    ) -> Vec<u64> {
        let all = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
        let whole = range.start.div_ceil(PAGE_BYTES)..range.end / PAGE_BYTES;
        if !is_zeros || whole.end.saturating_sub(whole.start) <= PAGES_MAX {
            return all.collect();
        }
        let known = self.pages.range(whole.clone()).map(|(number, _)| *number);
        let pages = (all.start..whole.start).chain(known);
        let pages = pages.chain(whole.end..all.end).collect();
        let is_within = |old: &Range<u64>| whole.start <= old.start && old.end <= whole.end;
        self.zeros.retain(|(old, _)| !is_within(old));
        self.zeros.push((whole, group));
        pages
    }

    /// What is known of a page.
    pub(super) fn page(&mut self, number: u64) -> &mut Page {
        let zeros = self.zeros.iter().rev();
        let mut zeros = zeros.filter(|(pages, _)| pages.contains(&number));
        self.pages.entry(number).or_insert_with(|| {
            let group = zeros.next().map(|(_, group)| *group);
            Page {
                last: group,
                whole: group,
                ..Page::default()
            }
        })
    }

    /// There is nothing from this page on.
    pub(super) fn cut(&mut self, from: u64) {
        self.pages.split_off(&from);
        self.reserved.split_off(&from);
        for (pages, _) in &mut self.zeros {
            pages.end = pages.end.min(from);
        }
        self.zeros.retain(|(pages, _)| !pages.is_empty());
    }
}

/// Which groups wrote to a page last.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    pub(super) last: Option<usize>,
    /// To all of it, or when it had no place: nothing later is there without that.
    pub(super) whole: Option<usize>,
    /// To its sectors since then.
    pub(super) sectors: BTreeMap<u64, usize>,
}

impl Page {
    /// Notes that a group writes to these sectors, or to the whole page. Returns those that it
    /// follows: the last that wrote to the same sectors, or with `waits` to any.
    pub(super) fn write(
        &mut self,
        group: usize,
        sectors: &Range<u64>,
        is_whole: bool,
        waits: bool,
    ) -> Vec<usize> {
        let is_met = |sector: &u64| is_whole || waits || sectors.contains(sector);
        let own = self.sectors.iter().filter(|(sector, _)| is_met(sector));
        let mut before: Vec<usize> = own.map(|(_, group)| *group).collect();
        // Who wrote to a sector since follows that one.
        let is_covered = !waits && !is_whole && before.len() as u64 == sectors.end - sectors.start;
        before.extend(self.whole.filter(|_| !is_covered));
        self.last = Some(group);
        if is_whole {
            self.whole = Some(group);
            self.sectors.clear();
        } else {
            let sectors = sectors.clone().map(|sector| (sector, group));
            self.sectors.extend(sectors);
        }
        before
    }
}
