use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::base::ZERO_PAGE;
use crate::{Image, PAGE_SIZE};

/// So many pages that need not be read or written may lie between two that are, with one system
/// call: to copy a page takes less than a call, in a guest far less.
pub(crate) const GAP_PAGES_MAX: u32 = 8;

/// Writes pages of images to files that hold their other pages already, with few system calls.
#[derive(Default)]
pub(crate) struct PageWriter {
    /// The pages of one call.
    buffer: Vec<u8>,
}

impl PageWriter {
    /// Writes the pages `numbers` of `image`, which are in order.
    pub(crate) fn write(
        &mut self,
        file: &File,
        image: &Image,
        numbers: impl Iterator<Item = u32>,
    ) -> io::Result<()> {
        let mut start = 0;
        for number in numbers {
            let next = start + (self.buffer.len() / PAGE_SIZE) as u32;
            // A page of zeros may be a hole, and stays one.
            let near = number - next <= GAP_PAGES_MAX
                && (next..number).all(|gap| image.page(gap) != &ZERO_PAGE);
            if self.buffer.is_empty() || !near {
                self.flush(file, start)?;
                start = number;
            } else {
                (next..number).for_each(|gap| self.buffer.extend_from_slice(image.page(gap)));
            }
            self.buffer.extend_from_slice(image.page(number));
        }
        self.flush(file, start)
    }

    fn flush(&mut self, file: &File, start: u32) -> io::Result<()> {
        let written = file.write_all_at(&self.buffer, u64::from(start) * PAGE_SIZE as u64);
        // Also where it failed: what comes next is written somewhere else.
        self.buffer.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Base;

    #[test]
    fn what_could_not_be_written_is_not_written_later() {
        let mut base = Base::empty(8 * PAGE_SIZE as u64);
        (0..8).for_each(|number| base.set(number, &[number as u8 + 1; PAGE_SIZE]));
        let image = Image::new(Arc::new(base));
        let mut writer = PageWriter::default();
        let unwritable = File::open("/dev/null").expect("opened");
        writer
            .write(&unwritable, &image, [6, 7].into_iter())
            .expect_err("it is not open for writing");
        let file = tempfile::tempfile().expect("a file");
        writer
            .write(&file, &image, [2].into_iter())
            .expect("written");
        let mut bytes = [0; 3 * PAGE_SIZE];
        file.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(
            [bytes[0], bytes[PAGE_SIZE], bytes[2 * PAGE_SIZE]],
            [0, 0, 3]
        );
    }

    #[test]
    fn small_gaps_are_written_but_no_hole_is_filled() {
        const COUNT: u32 = 40;
        let mut base = Base::empty(u64::from(COUNT) * PAGE_SIZE as u64);
        let used = |number: &u32| ![5, 6].contains(number);
        (0..COUNT)
            .filter(used)
            .for_each(|number| base.set(number, &[number as u8 + 1; PAGE_SIZE]));
        let image = Image::new(Arc::new(base));
        let file = tempfile::tempfile().expect("a file");
        file.set_len(image.size_bytes()).expect("sized");
        PageWriter::default()
            .write(&file, &image, [1, 4, 7, 8, 30].into_iter())
            .expect("written");
        let first_of = |number: u32| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, u64::from(number) * PAGE_SIZE as u64)
                .expect("read");
            byte[0]
        };
        let written: Vec<u32> = (0..COUNT).filter(|number| first_of(*number) != 0).collect();
        assert_eq!(written, [1, 2, 3, 4, 7, 8, 30]);
        assert!(
            written
                .iter()
                .all(|number| first_of(*number) == *number as u8 + 1)
        );
    }
}
