use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nix::unistd::{Whence, lseek};

use crate::image::{ImageHash, page_hash};
use crate::{Image, PAGE_SIZE, Page};

/// A page that holds nothing.
pub(crate) static ZERO_PAGE: Page = [0; PAGE_SIZE];

/// The size of the largest disk that is unpacked, in bytes. What claims to be larger is damaged:
/// even to make an empty one would take gigabytes.
const PACKED_MAX: u64 = 1 << 40;

/// A formatted disk that many images share. It never changes, and pages of zeros cost nothing.
pub struct Base {
    size_bytes: u64,
    /// For each page of the disk its place in `pages` plus one, or 0 for a page of zeros.
    slots: Vec<u32>,
    pages: Vec<Page>,
    hash: ImageHash,
}

impl Base {
    /// A disk of zeros.
    ///
    /// # Panics
    /// If the size is not a multiple of the page size.
    pub fn empty(size_bytes: u64) -> Self {
        assert_eq!(
            size_bytes % PAGE_SIZE as u64,
            0,
            "a disk's size is a multiple of {PAGE_SIZE}"
        );
        let page_count = (size_bytes / PAGE_SIZE as u64) as usize;
        Self {
            size_bytes,
            slots: vec![0; page_count],
            pages: Vec::new(),
            hash: ImageHash::default(),
        }
    }

    /// Reads a disk from a file; holes are skipped.
    ///
    /// # Errors
    /// If the file cannot be read, or its size is not a multiple of the page size.
    pub fn from_file(file: &File) -> io::Result<Self> {
        let size_bytes = file.metadata()?.len();
        if size_bytes % PAGE_SIZE as u64 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its size is not a multiple of 4096",
            ));
        }
        let mut base = Self::empty(size_bytes);
        for extent in DataExtents::of(file, size_bytes) {
            let (first, end) = extent?;
            for number in first..end {
                let mut page = ZERO_PAGE;
                file.read_exact_at(&mut page, u64::from(number) * PAGE_SIZE as u64)?;
                base.set(number, &page);
            }
        }
        Ok(base)
    }

    /// Its size and every page that is not zeros, for [`Self::unpack`]: where holes cannot be seen,
    /// in a guest that looks at its host's files, that is much less to read than the whole disk.
    pub fn pack(&self) -> Vec<u8> {
        let mut packed = self.size_bytes.to_le_bytes().to_vec();
        for number in self.used() {
            packed.extend(number.to_le_bytes());
            packed.extend(self.page(number).unwrap_or(&ZERO_PAGE));
        }
        packed
    }

    /// What was packed.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn unpack(packed: &[u8]) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a packed disk is damaged");
        let (size, rest) = packed.split_first_chunk().ok_or_else(damaged)?;
        let size_bytes = u64::from_le_bytes(*size);
        if size_bytes > PACKED_MAX
            || size_bytes % PAGE_SIZE as u64 != 0
            || rest.len() % (4 + PAGE_SIZE) != 0
        {
            return Err(damaged());
        }
        let mut base = Self::empty(size_bytes);
        for record in rest.chunks_exact(4 + PAGE_SIZE) {
            let (number, page) = record.split_first_chunk().ok_or_else(damaged)?;
            let number = u32::from_le_bytes(*number);
            if number as usize >= base.slots.len() {
                return Err(damaged());
            }
            base.set(number, page.try_into().map_err(|_| damaged())?);
        }
        Ok(base)
    }

    /// The disk that an image is.
    pub fn from_image(image: &Image) -> Self {
        let mut base = Self::empty(image.size_bytes());
        let mut numbers: Vec<u32> = image.base().used().chain(image.written()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            base.set(number, image.page(number));
        }
        base
    }

    /// Has a page hold this. It may have been set before: data of a file may begin within a page, and
    /// what was packed may be damaged.
    pub(crate) fn set(&mut self, number: u32, page: &Page) {
        let slot = std::mem::take(&mut self.slots[number as usize]);
        if let Some(place) = slot.checked_sub(1) {
            let old = page_hash(number, &self.pages[place as usize]);
            self.hash.subtract(old);
        }
        if page == &ZERO_PAGE {
            return;
        }
        self.hash.add(page_hash(number, page));
        self.pages.push(*page);
        self.slots[number as usize] = self.pages.len() as u32;
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The hash of an image that is nothing but this base.
    pub fn hash(&self) -> ImageHash {
        self.hash
    }

    /// The page with this number; `None` is a page of zeros.
    pub fn page(&self, number: u32) -> Option<&Page> {
        match self.slots[number as usize] {
            0 => None,
            slot => Some(&self.pages[slot as usize - 1]),
        }
    }

    /// The pages of `other`, a disk of the same size, that differ from this one's, in order.
    pub fn differing<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u32, &'a Page)> + 'a {
        let places = self.slots.iter().zip(&other.slots).enumerate();
        // Most pages are of zeros in both.
        let used = places
            .filter(|(_, slots)| *slots != (&0, &0))
            .map(|(number, _)| number as u32);
        let differing = used.filter(|number| self.page(*number) != other.page(*number));
        differing.map(|number| (number, other.page(number).unwrap_or(&ZERO_PAGE)))
    }

    /// The numbers of the pages that hold something other than zeros, in order.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| **slot != 0)
            .map(|(number, _)| number as u32)
    }
}

/// By what they hold, which their hashes stand for.
impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        (self.size_bytes, self.hash) == (other.size_bytes, other.hash)
    }
}

impl Eq for Base {}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Base({} bytes, {:032x})", self.size_bytes, self.hash.0)
    }
}

/// The parts of a sparse file that hold data, as ranges of page numbers.
pub(crate) struct DataExtents<'a> {
    file: &'a File,
    at: i64,
    size_bytes: i64,
}

impl<'a> DataExtents<'a> {
    pub(crate) fn of(file: &'a File, size_bytes: u64) -> Self {
        Self {
            file,
            at: 0,
            size_bytes: size_bytes as i64,
        }
    }
}

impl Iterator for DataExtents<'_> {
    type Item = io::Result<(u32, u32)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.size_bytes {
            return None;
        }
        let page = |offset: i64| (offset / PAGE_SIZE as i64) as u32;
        let start = match lseek(self.file, self.at, Whence::SeekData) {
            Ok(start) => start,
            Err(nix::errno::Errno::ENXIO) => return None,
            Err(error) => return Some(Err(error.into())),
        };
        match lseek(self.file, start, Whence::SeekHole) {
            Ok(end) => {
                self.at = end;
                Some(Ok((
                    page(start),
                    page(end.min(self.size_bytes) + PAGE_SIZE as i64 - 1),
                )))
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl std::fmt::Debug for DataExtents<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "DataExtents(fd {}, at {})",
            self.file.as_raw_fd(),
            self.at
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut base = Base::empty(9 * PAGE_SIZE as u64);
        base.set(2, &[2; PAGE_SIZE]);
        base.set(8, &[8; PAGE_SIZE]);
        let packed = base.pack();
        assert!(packed.len() < 3 * PAGE_SIZE);
        let unpacked = Base::unpack(&packed).expect("whole");
        assert_eq!(
            (unpacked.size_bytes(), unpacked.hash()),
            (base.size_bytes(), base.hash())
        );
        assert!(unpacked.used().eq([2, 8]));
        assert!(Base::unpack(&packed[..packed.len() - 1]).is_err());
        assert!(Base::unpack(&packed[..7]).is_err());
        let mut huge = packed;
        huge[..8].copy_from_slice(&(!(PAGE_SIZE as u64 - 1)).to_le_bytes());
        assert!(Base::unpack(&huge).is_err());
    }

    #[test]
    fn a_page_that_is_set_again_counts_once() {
        let fresh = |pages: &[(u32, u8)]| {
            let mut base = Base::empty(9 * PAGE_SIZE as u64);
            for (number, byte) in pages {
                base.set(*number, &[*byte; PAGE_SIZE]);
            }
            base
        };
        for (again, once) in [
            (&[(2, 2), (2, 3)][..], &[(2, 3)][..]),
            (&[(2, 2), (2, 2)], &[(2, 2)]),
            (&[(2, 2), (8, 8), (2, 0)], &[(8, 8)]),
        ] {
            let (again, once) = (fresh(again), fresh(once));
            assert_eq!(again.hash(), once.hash());
            assert!(again.used().eq(once.used()));
            assert_eq!(again.differing(&once).count(), 0);
        }
    }
}
