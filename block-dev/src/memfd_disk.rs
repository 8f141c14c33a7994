use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use itertools::Itertools;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::base::{Base, DataExtents, ZERO_PAGE};
use crate::error::Context;
use crate::loop_device::LoopDevice;
use crate::page_writer::GAP_PAGES_MAX;
use crate::{FrontEnd, Image, NAME_MARK, PAGE_SIZE, Page, Result};

/// How many pages `load` looks at with one system call.
const PAGES_AT_ONCE: u32 = 64;

/// memfd + loop: the disk's content is memory of ours that the kernel writes to directly. It
/// sees no request, so it can't record, but nothing is faster to mount.
pub struct MemfdDisk {
    file: File,
    device: LoopDevice,
    size_bytes: u64,
    /// A path to the memfd that other processes can open.
    content_path: PathBuf,
    /// Whether the file has data at page N (scratch of `load`).
    seen: Vec<bool>,
    /// What is there now (scratch of `load`).
    buffer: Vec<u8>,
}

/// The numbers of the first page of some, and of the first one after them.
type Pages = (u32, u32);

/// What is read at once of two pieces of data. What lies between them reads as zeros, and to read a
/// little of that takes less than another system call.
fn near(one: Pages, next: Pages) -> std::result::Result<Pages, (Pages, Pages)> {
    if next.0 - one.1 <= GAP_PAGES_MAX {
        Ok((one.0, next.1))
    } else {
        Err((one, next))
    }
}

/// Makes an image hold these pages.
fn hold(image: &mut Image, numbers: Range<u32>, pages: &[u8]) {
    for (number, page) in numbers.zip(pages.chunks_exact(PAGE_SIZE)) {
        if page != image.page(number) {
            image.write(u64::from(number) * PAGE_SIZE as u64, page);
        }
    }
}

impl MemfdDisk {
    /// A disk that holds `base`.
    ///
    /// # Errors
    /// If memory or a loop device cannot be had.
    pub fn new(base: &Arc<Base>) -> Result<Self> {
        let file = memfd_create(NAME_MARK, MFdFlags::MFD_CLOEXEC).doing(|| "create a memfd")?;
        let file = File::from(file);
        file.set_len(base.size_bytes()).doing(|| "size a memfd")?;
        for number in base.used() {
            write_page(&file, number, base.page(number).unwrap_or(&ZERO_PAGE))?;
        }
        let device = LoopDevice::attach(file.as_fd(), false)?;
        let content_path = PathBuf::from(format!(
            "/proc/{}/fd/{}",
            std::process::id(),
            file.as_raw_fd()
        ));
        let page_count = (base.size_bytes() / PAGE_SIZE as u64) as usize;
        Ok(Self {
            file,
            device,
            size_bytes: base.size_bytes(),
            content_path,
            seen: vec![false; page_count],
            buffer: vec![0; PAGES_AT_ONCE as usize * PAGE_SIZE],
        })
    }

    /// The content as an image over `base`: what the kernel has made of it. What is mounted from it
    /// must be at rest.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn content(&mut self, base: &Arc<Base>) -> Result<Image> {
        let mut image = Image::new(Arc::clone(base));
        let mut seen = std::mem::take(&mut self.seen);
        let mut buffer = std::mem::take(&mut self.buffer);
        seen.fill(false);
        let extents: Vec<_> = DataExtents::of(&self.file, self.size_bytes)
            .try_collect()
            .doing(|| "find the disk's data")?;
        for (first, end) in extents.into_iter().coalesce(near) {
            seen[first as usize..end as usize].fill(true);
            for start in (first..end).step_by(PAGES_AT_ONCE as usize) {
                let numbers = start..end.min(start + PAGES_AT_ONCE);
                let pages = &mut buffer[..numbers.len() * PAGE_SIZE];
                self.file
                    .read_exact_at(pages, u64::from(start) * PAGE_SIZE as u64)
                    .doing(|| "read the disk's memory")?;
                hold(&mut image, numbers, pages);
            }
        }
        for number in base.used().filter(|number| !seen[*number as usize]) {
            image.discard(u64::from(number) * PAGE_SIZE as u64, PAGE_SIZE as u64);
        }
        self.seen = seen;
        self.buffer = buffer;
        Ok(image)
    }

    /// Makes a run of pages that the file has hold what `image` holds.
    fn make_equal(&self, image: &Image, first: u32, end: u32, buffer: &mut [u8]) -> Result<()> {
        let buffer = &mut buffer[..(end - first) as usize * PAGE_SIZE];
        self.file
            .read_exact_at(buffer, u64::from(first) * PAGE_SIZE as u64)
            .doing(|| "read the disk's memory")?;
        // Pages of zeros go back to the system, or the file would fill up over a sweep.
        let mut zeros = first..first;
        for (number, present) in (first..end).zip(buffer.chunks_exact(PAGE_SIZE)) {
            let wanted = image.page(number);
            if wanted == &ZERO_PAGE {
                if zeros.end != number {
                    self.punch(zeros.start, zeros.end)?;
                    zeros.start = number;
                }
                zeros.end = number + 1;
            } else if wanted != present {
                write_page(&self.file, number, wanted)?;
            }
        }
        self.punch(zeros.start, zeros.end)
    }

    fn punch(&self, first: u32, end: u32) -> Result<()> {
        if first == end {
            return Ok(());
        }
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let bytes = |pages: u32| i64::from(pages) * PAGE_SIZE as i64;
        fallocate(&self.file, flags, bytes(first), bytes(end - first))
            .doing(|| "give back the disk's memory")
    }
}

impl FrontEnd for MemfdDisk {
    fn device(&self) -> &Path {
        self.device.path()
    }

    fn device_name(&self) -> &str {
        self.device.name()
    }

    fn load(&mut self, image: &Image) -> Result<()> {
        self.device.drop_cache()?;
        let mut seen = std::mem::take(&mut self.seen);
        let mut buffer = std::mem::take(&mut self.buffer);
        seen.fill(false);
        for extent in DataExtents::of(&self.file, self.size_bytes) {
            let (first, end) = extent.doing(|| "find the disk's data")?;
            seen[first as usize..end as usize].fill(true);
            for start in (first..end).step_by(PAGES_AT_ONCE as usize) {
                self.make_equal(image, start, end.min(start + PAGES_AT_ONCE), &mut buffer)?;
            }
        }
        let base = Arc::clone(image.base());
        for number in base
            .used()
            .chain(image.written())
            .filter(|number| !seen[*number as usize])
        {
            let wanted = image.page(number);
            if wanted != &ZERO_PAGE {
                write_page(&self.file, number, wanted)?;
            }
        }
        self.seen = seen;
        self.buffer = buffer;
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        self.device.drop_cache()
    }

    fn content_path(&self) -> PathBuf {
        self.content_path.clone()
    }
}

fn write_page(file: &File, number: u32, page: &Page) -> Result<()> {
    file.write_all_at(page, u64::from(number) * PAGE_SIZE as u64)
        .doing(|| "write the disk's memory")
}
