use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::error::Context;
use crate::page_writer::PageWriter;
use crate::{Base, Image, Result};

/// A file that holds an image. To hold another one, only the pages that differ are written.
pub struct ImageFile {
    file: File,
    holds: Arc<Image>,
    writer: PageWriter,
}

impl ImageFile {
    /// A new file that holds `base`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, base: &Arc<Base>) -> Result<Self> {
        let doing = || format!("create {}", path.display());
        let file = File::create_new(path).doing(doing)?;
        file.set_len(base.size_bytes()).doing(doing)?;
        let mut this = Self { file, holds: Arc::new(Image::new(Arc::clone(base))), writer: PageWriter::default() };
        let base = Arc::clone(base);
        this.write(base.used())?;
        Ok(this)
    }

    /// Makes it hold `image`, for whoever opens the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn hold(&mut self, image: Arc<Image>) -> Result<()> {
        let old = std::mem::replace(&mut self.holds, image);
        let mut numbers: Vec<u32> = old.written().chain(self.holds.written()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|number| old.page(*number) != self.holds.page(*number));
        self.write(numbers.into_iter())
    }

    /// Writes pages of what it is to hold; `numbers` are in order.
    fn write(&mut self, numbers: impl Iterator<Item = u32>) -> Result<()> {
        let written = self.writer.write(&self.file, &self.holds, numbers);
        written.and_then(|()| self.file.sync_data()).doing(|| "write an image")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;

    #[test]
    fn a_file_holds_what_the_image_holds() {
        let mut base = Base::empty(8 * PAGE_SIZE as u64);
        base.set(1, &[1; PAGE_SIZE]);
        base.set(2, &[2; PAGE_SIZE]);
        base.set(6, &[6; PAGE_SIZE]);
        let base = Arc::new(base);
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        let mut file = ImageFile::create(&path, &base).expect("created");
        let firsts = || std::fs::read(&path).expect("read").iter().copied().step_by(PAGE_SIZE).collect::<Vec<_>>();
        assert_eq!(firsts(), [0, 1, 2, 0, 0, 0, 6, 0]);
        let mut image = Image::new(Arc::clone(&base));
        image.write(2 * PAGE_SIZE as u64, &[7; 2 * PAGE_SIZE]);
        image.write(7 * PAGE_SIZE as u64, &[8; PAGE_SIZE]);
        file.hold(Arc::new(image)).expect("written");
        assert_eq!(firsts(), [0, 1, 7, 7, 0, 0, 6, 8]);
        file.hold(Arc::new(Image::new(base))).expect("written");
        assert_eq!(firsts(), [0, 1, 2, 0, 0, 0, 6, 0]);
    }
}
