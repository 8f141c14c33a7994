//! Where a journal of jbd2 says whether there is something in it.

use block_dev::{Base, Image, PAGE_SIZE};

/// `JBD2_MAGIC_NUMBER` and `JBD2_SUPERBLOCK_V2` of linux/jbd2.h, big-endian.
const SUPERBLOCK: [u8; 8] = [0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 4];

/// `s_start` of `journal_superblock_t`: the block at which the log begins, 0 where it is empty. The
/// kernel writes it before the first commit after a mount (`jbd2_journal_commit_transaction`).
const START: std::ops::Range<usize> = 0x1c..0x20;

/// The superblock of the journal of a formatted disk, which stays where mkfs put it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Journal {
    page: u32,
}

impl Journal {
    /// That of a disk, if it has one, in blocks of the size of a page.
    pub(crate) fn of(base: &Base) -> Option<Self> {
        let pages = (base.size_bytes() / PAGE_SIZE as u64) as u32;
        let is_one = |number: &u32| {
            base.page(*number)
                .is_some_and(|page| page.starts_with(&SUPERBLOCK))
        };
        let mut found = (0..pages).filter(is_one);
        let page = found.next()?;
        found.next().is_none().then_some(Self { page })
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(self, image: &Image) -> bool {
        let page = image.page(self.page);
        page.starts_with(&SUPERBLOCK) && page[START] == [0; 4]
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};
    use std::sync::Arc;

    use super::*;

    /// A disk of eight pages with superblocks of journals in some.
    fn base(pages: &[u64]) -> Arc<Base> {
        let mut file = tempfile::tempfile().expect("a file");
        file.set_len(8 * PAGE_SIZE as u64).expect("sized");
        for page in pages {
            let place = SeekFrom::Start(page * PAGE_SIZE as u64);
            file.seek(place).expect("there");
            file.write_all(&SUPERBLOCK).expect("written");
        }
        Arc::new(Base::from_file(&file).expect("read"))
    }

    #[test]
    fn a_journal_is_empty_until_its_superblock_says_where_it_begins() {
        let base = base(&[3]);
        let journal = Journal::of(&base).expect("it has one");
        let mut image = Image::new(base);
        assert!(journal.is_empty(&image));
        image.write(3 * PAGE_SIZE as u64 + 0x1f, &[1]);
        assert!(!journal.is_empty(&image));
        image.write(3 * PAGE_SIZE as u64 + 0x1f, &[0]);
        assert!(journal.is_empty(&image));
        image.write(3 * PAGE_SIZE as u64, &[0]);
        assert!(!journal.is_empty(&image), "that is no superblock");
    }

    #[test]
    fn a_disk_without_a_journal_or_with_two_has_none_that_is_known() {
        assert!(Journal::of(&base(&[])).is_none());
        assert!(Journal::of(&base(&[2, 5])).is_none());
    }
}
