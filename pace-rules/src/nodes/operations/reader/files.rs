//! What is known of a file while operations are read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use trace::{FileId, Name};

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
    pub(super) pages: BTreeMap<u64, Page>,
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
