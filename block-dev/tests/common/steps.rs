//! Random things to do with a disk, and what it must hold and have been asked for afterwards: the
//! same for the disks of this crate and for those of simulated machines, whose tests have this file
//! too.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use block_dev::{BlockLog, Image, Kind, PAGE_SIZE};
use nix::libc::O_DIRECT;

pub const SIZE_BYTES: u64 = 8 << 20;
const SECTOR_BYTES: u64 = 512;
const COUNT: usize = 80;

/// Something that is done with a disk, and where.
///
/// After a discard the disk reads zeros, from its first byte to its last: Linux promises no such
/// thing, but images do (`Image::discard`), and so do the holes of tmpfs below `MemfdDisk`. All of
/// them do so for whole sectors, which need be no whole pages; the kernel passes on nothing smaller.
pub enum Step {
    /// A write through the kernel's cache, which need not begin or end at a sector.
    Cached(u64, Vec<u8>),
    /// A write of whole sectors past the cache.
    Direct(u64, Vec<u8>),
    /// A discard of so many bytes, which are whole sectors.
    Discard(u64, u64),
    /// The same, but zeros are asked for.
    Zeros(u64, u64),
    /// What was done so far is to survive.
    Sync,
}

/// SplitMix64: the disks of two crates, and a machine, must draw the same from a seed.
struct Generator(u64);

impl Generator {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// Offset and length of a range of whole units: up to 32 KiB, which no kernel sends in parts. They
    /// are all in the first and the last MiB, so that many overlap, and some end with the disk.
    fn range(&mut self, unit: u64) -> (u64, u64) {
        let first = self.below(2) * (SIZE_BYTES - (1 << 20));
        let at = (first + self.below(1 << 20)) / unit * unit;
        let units_max = 1 << self.below((65536 / unit).ilog2().into());
        let length = (1 + self.below(units_max)) * unit;
        (at, length.min(SIZE_BYTES - at))
    }

    fn write(&mut self, unit: u64, step: fn(u64, Vec<u8>) -> Step) -> Step {
        let (at, length) = self.range(unit);
        step(at, (0..length).map(|_| self.number() as u8).collect())
    }

    fn zeros(&mut self, step: fn(u64, u64) -> Step) -> Step {
        let (at, length) = self.range(SECTOR_BYTES);
        step(at, length)
    }

    fn step(&mut self) -> Step {
        match self.below(10) {
            0..4 => self.write(1, Step::Cached),
            4..7 => self.write(SECTOR_BYTES, Step::Direct),
            7 => self.zeros(Step::Discard),
            8 => self.zeros(Step::Zeros),
            _ => Step::Sync,
        }
    }
}

impl Step {
    /// What the disk is asked for when it is done, and the bytes that are written. Of a write to the
    /// cache the kernel decides when that is, and in what parts.
    fn request(&self) -> Option<(Kind, &[u8])> {
        match self {
            Self::Cached(..) => None,
            Self::Direct(offset, data) => {
                let kind = Kind::Write {
                    offset: *offset,
                    length: data.len() as u32,
                    fua: false,
                };
                Some((kind, data))
            }
            Self::Discard(offset, length) | Self::Zeros(offset, length) => {
                let (offset, length) = (*offset, *length);
                Some((Kind::Discard { offset, length }, &[]))
            }
            Self::Sync => Some((Kind::Flush, &[])),
        }
    }

    fn model(&self, disk: &mut [u8]) {
        match self {
            Self::Cached(at, data) | Self::Direct(at, data) => {
                disk[*at as usize..][..data.len()].copy_from_slice(data);
            }
            Self::Discard(at, length) | Self::Zeros(at, length) => {
                disk[*at as usize..][..*length as usize].fill(0);
            }
            Self::Sync => {}
        }
    }
}

/// The steps of a seed. No sync covers the last ones.
pub fn steps(seed: u64) -> Vec<Step> {
    let mut generator = Generator(seed);
    let mut steps: Vec<_> = (0..COUNT).map(|_| generator.step()).collect();
    while matches!(steps.last(), Some(Step::Sync)) {
        steps.pop();
    }
    steps
}

/// What of these steps, the first ones, a sync covers.
pub fn synced(steps: &[Step]) -> &[Step] {
    let is_sync = |step: &Step| matches!(step, Step::Sync);
    &steps[..steps.iter().rposition(is_sync).map_or(0, |last| last + 1)]
}

/// What a disk that held this holds after these steps.
pub fn model(before: &[u8], steps: &[Step]) -> Vec<u8> {
    let mut disk = before.to_vec();
    for step in steps {
        step.model(&mut disk);
    }
    disk
}

/// Takes the steps on a block device, one after the other.
pub fn carry_out(device: &Path, steps: &[Step]) -> io::Result<()> {
    let cached = OpenOptions::new().write(true).open(device)?;
    let direct = open_direct(device)?;
    for step in steps {
        match step {
            Step::Cached(at, data) => cached.write_all_at(data, *at)?,
            Step::Direct(at, data) => in_aligned(data.len(), |room| {
                room.copy_from_slice(data);
                direct.write_all_at(room, *at)
            })?,
            Step::Discard(at, length) => ioctl::discard(&cached, [*at, *length])?,
            Step::Zeros(at, length) => ioctl::zero_out(&cached, [*at, *length])?,
            Step::Sync => cached.sync_all()?,
        }
    }
    Ok(())
}

/// What a block device shows past the kernel's cache, which writes first what it has.
pub fn shown(device: &Path) -> io::Result<Vec<u8>> {
    let file = open_direct(device)?;
    in_aligned(SIZE_BYTES as usize, |room| {
        file.read_exact_at(room, 0).map(|()| room.to_vec())
    })
}

fn open_direct(device: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(O_DIRECT);
    options.open(device)
}

/// Does something with memory that direct I/O takes.
fn in_aligned<T>(length: usize, with: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut room = vec![0; length + PAGE_SIZE];
    let at = room.as_ptr().align_offset(PAGE_SIZE);
    with(&mut room[at..at + length])
}

pub fn content(image: &Image) -> Vec<u8> {
    let mut bytes = vec![0; image.size_bytes() as usize];
    image.read(0, &mut bytes);
    bytes
}

/// What the log of a disk with the base of this image says that it held at a position.
pub fn rebuilt(image: &Image, log: &BlockLog, position: usize) -> Vec<u8> {
    let mut image = Image::new(Arc::clone(image.base()));
    (0..position).for_each(|entry| log.apply(entry, &mut image));
    content(&image)
}

/// Whether the kernel may have asked for this when it wrote what it had in its cache, whole pages.
fn is_of_cache(kind: &Kind) -> bool {
    let is_whole = |number: u64| number.is_multiple_of(PAGE_SIZE as u64);
    matches!(kind, Kind::Write { offset, length, .. } if is_whole(*offset) && is_whole((*length).into()))
}

/// Checks the log of a disk with the base of this image: all of it rebuilds what the steps came to,
/// what came before the last flush rebuilds what they had come to at the last sync, and what was not
/// left to the cache stands in it as it was sent and in that order, with nothing else.
pub fn check_log(image: &Image, log: &BlockLog, steps: &[Step]) {
    let before = rebuilt(image, log, 0);
    let is_flush = |place: &usize| log.entries()[*place].kind == Kind::Flush;
    let flush = (0..log.len()).rfind(is_flush).expect("a flush");
    for (position, taken) in [(log.len(), steps), (flush, synced(steps))] {
        assert!(
            rebuilt(image, log, position) == model(&before, taken),
            "the first {position} entries rebuild something else"
        );
    }
    let mut requests = steps.iter().filter_map(Step::request).peekable();
    for place in 0..log.len() {
        let entry = (log.entries()[place].kind, log.data(place));
        assert!(
            requests.next_if_eq(&entry).is_some() || is_of_cache(&entry.0),
            "entry {place} is {:?}, and {:?} was due",
            entry.0,
            requests.peek().map(|request| request.0)
        );
    }
    assert!(requests.next().is_none(), "the log is too short");
    let mut pairs = log.entries().windows(2);
    assert!(pairs.all(|pair| pair[0].time_ns <= pair[1].time_ns));
}

mod ioctl {
    use super::{AsRawFd, File, io};

    // linux/fs.h: _IO(0x12, 119) and _IO(0x12, 127).
    nix::ioctl_write_ptr_bad!(blkdiscard, nix::request_code_none!(0x12, 119), [u64; 2]);
    nix::ioctl_write_ptr_bad!(blkzeroout, nix::request_code_none!(0x12, 127), [u64; 2]);

    pub fn discard(device: &File, range: [u64; 2]) -> io::Result<()> {
        // SAFETY: the kernel reads two numbers.
        unsafe { blkdiscard(device.as_raw_fd(), &raw const range) }?;
        Ok(())
    }

    pub fn zero_out(device: &File, range: [u64; 2]) -> io::Result<()> {
        // SAFETY: as above.
        unsafe { blkzeroout(device.as_raw_fd(), &raw const range) }?;
        Ok(())
    }
}
