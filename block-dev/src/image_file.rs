use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::error::Context;
use crate::page_writer::PageWriter;
use crate::{Base, Image, NAME_MARK, PAGE_SIZE, Result};

/// A page that was changed: its number, and what it holds now.
pub type ChangedPage = (u32, Vec<u8>);

/// A file that holds an image. To hold another one, only the pages that differ are written.
pub struct ImageFile {
    file: File,
    base: Arc<Base>,
    /// None where it is not known.
    holds: Option<Arc<Image>>,
    writer: PageWriter,
}

impl ImageFile {
    /// A new file that holds `base`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, base: &Arc<Base>) -> Result<Self> {
        let file = File::create_new(path).doing(|| format!("create {}", path.display()))?;
        Self::of(file, base)
    }

    /// A new file in memory that holds `base`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn in_memory(base: &Arc<Base>) -> Result<Self> {
        let file = memfd_create(NAME_MARK, MFdFlags::MFD_CLOEXEC).doing(|| "create a memfd")?;
        Self::of(file.into(), base)
    }

    fn of(file: File, base: &Arc<Base>) -> Result<Self> {
        let mut this = Self {
            file,
            base: Arc::clone(base),
            holds: None,
            writer: PageWriter::default(),
        };
        this.hold(Arc::new(Image::new(Arc::clone(base))))?;
        Ok(this)
    }

    /// A path at which a program can open it as long as it is there.
    pub fn path(&self) -> PathBuf {
        let (process, descriptor) = (std::process::id(), self.file.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{descriptor}"))
    }

    /// Makes it hold `image`, for whoever opens the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn hold(&mut self, image: Arc<Image>) -> Result<()> {
        // Not known again until all is written.
        let mut numbers: Vec<u32> = if let Some(old) = self.holds.take() {
            let written = old.written().chain(image.written());
            written
                .filter(|number| old.page(*number) != image.page(*number))
                .collect()
        } else {
            let size_bytes = self.base.size_bytes();
            [0, size_bytes]
                .into_iter()
                .try_for_each(|size| self.file.set_len(size))
                .doing(|| "size an image")?;
            self.base.used().chain(image.written()).collect()
        };
        numbers.sort_unstable();
        numbers.dedup();
        self.write(&image, &numbers)?;
        self.holds = Some(image);
        Ok(())
    }

    /// Has somebody else write to the file, who returns the pages that he changed. What it holds
    /// then is returned. If he fails, the next `hold` writes everything.
    ///
    /// # Errors
    /// If he does.
    ///
    /// # Panics
    /// If the file could not be written before, or a page does not lie within the image.
    pub fn change<E>(
        &mut self,
        by: impl FnOnce() -> Result<Vec<ChangedPage>, E>,
    ) -> Result<Arc<Image>, E> {
        let before = self
            .holds
            .take()
            .expect("whoever has it changed has it hold something first");
        let changed = by()?;
        let mut image = Arc::unwrap_or_clone(before);
        for (number, page) in changed {
            image.write(u64::from(number) * PAGE_SIZE as u64, &page);
        }
        Ok(Arc::clone(self.holds.insert(Arc::new(image))))
    }

    /// Writes these pages of an image; `numbers` are in order.
    fn write(&mut self, image: &Image, numbers: &[u32]) -> Result<()> {
        let written = self
            .writer
            .write(&self.file, image, numbers.iter().copied());
        written
            .and_then(|()| self.file.sync_data())
            .doing(|| "write an image")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Eight pages, of which three hold something, and a file with them.
    fn file() -> (tempfile::TempDir, Arc<Base>, ImageFile) {
        let mut base = Base::empty(8 * PAGE_SIZE as u64);
        for number in [1, 2, 6] {
            base.set(number, &[number as u8; PAGE_SIZE]);
        }
        let base = Arc::new(base);
        let directory = tempfile::tempdir().expect("a directory");
        let file = ImageFile::create(&directory.path().join("image"), &base).expect("created");
        (directory, base, file)
    }

    fn firsts(directory: &tempfile::TempDir) -> Vec<u8> {
        let content = std::fs::read(directory.path().join("image")).expect("read");
        content.iter().copied().step_by(PAGE_SIZE).collect()
    }

    /// Writes to a file that another has open; says which pages that changed.
    fn write_from_outside(directory: &tempfile::TempDir, page: u64, value: u8) -> Vec<ChangedPage> {
        let file = File::options()
            .read(true)
            .write(true)
            .open(directory.path().join("image"))
            .expect("opened");
        let before = Base::from_file(&file).expect("read");
        file.write_all_at(&[value; PAGE_SIZE], page * PAGE_SIZE as u64)
            .expect("written");
        let after = Base::from_file(&file).expect("read");
        before
            .differing(&after)
            .map(|(number, page)| (number, page.to_vec()))
            .collect()
    }

    #[test]
    fn a_file_holds_what_the_image_holds() {
        let (directory, base, mut file) = file();
        assert_eq!(firsts(&directory), [0, 1, 2, 0, 0, 0, 6, 0]);
        let mut image = Image::new(Arc::clone(&base));
        image.write(2 * PAGE_SIZE as u64, &[7; 2 * PAGE_SIZE]);
        image.write(7 * PAGE_SIZE as u64, &[8; PAGE_SIZE]);
        file.hold(Arc::new(image)).expect("written");
        assert_eq!(firsts(&directory), [0, 1, 7, 7, 0, 0, 6, 8]);
        file.hold(Arc::new(Image::new(base))).expect("written");
        assert_eq!(firsts(&directory), [0, 1, 2, 0, 0, 0, 6, 0]);
    }

    #[test]
    fn what_somebody_else_wrote_to_a_file_is_known() {
        let (directory, base, mut file) = file();
        for (page, value) in [(3, 9), (6, 0), (2, 2)] {
            let known = file
                .change(|| Ok::<_, ()>(write_from_outside(&directory, page, value)))
                .expect("changed");
            let known: Vec<_> = (0..8).map(|number| known.page(number)[0]).collect();
            assert_eq!(known, firsts(&directory));
        }
        assert_eq!(firsts(&directory), [0, 1, 2, 9, 0, 0, 0, 0]);
        file.hold(Arc::new(Image::new(base))).expect("written");
        assert_eq!(firsts(&directory), [0, 1, 2, 0, 0, 0, 6, 0]);
    }

    #[test]
    fn a_file_of_which_nothing_is_known_is_written_anew() {
        let (directory, base, mut file) = file();
        let failed = file.change(|| {
            write_from_outside(&directory, 1, 5);
            write_from_outside(&directory, 3, 5);
            Err("he does not say")
        });
        assert!(failed.is_err());
        file.hold(Arc::new(Image::new(base))).expect("written");
        assert_eq!(firsts(&directory), [0, 1, 2, 0, 0, 0, 6, 0]);
    }
}
