use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Base, ZERO_PAGE};
use crate::{PAGE_SIZE, Page};

/// A hash of an image's content: equal images have equal hashes, whatever way they were written.
///
/// It is the sum over all pages of blake3(number, content), a page of zeros counting nothing,
/// so that a changed page is taken out and put in without looking at the others.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
pub struct ImageHash(pub u128);

impl ImageHash {
    pub(crate) fn add(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    pub(crate) fn subtract(&mut self, other: Self) {
        self.0 = self.0.wrapping_sub(other.0);
    }
}

pub(crate) fn page_hash(number: u32, page: &Page) -> ImageHash {
    if page == &ZERO_PAGE {
        return ImageHash::default();
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(page);
    hasher.update(&number.to_le_bytes());
    let bytes: [u8; 32] = hasher.finalize().into();
    ImageHash(u128::from_le_bytes(
        bytes[..16].try_into().expect("16 of 32 bytes"),
    ))
}

#[derive(Clone)]
struct Overlaid {
    page: Box<Page>,
    /// What this page adds to the image's hash; `None` while it was written but not hashed yet.
    hash: Option<ImageHash>,
}

/// A copy-on-write image: a [`Base`], and the pages that differ from it.
pub struct Image {
    base: Arc<Base>,
    overlay: BTreeMap<u32, Overlaid>,
    /// The hash of all pages but those of the overlay that wait to be hashed.
    hash: ImageHash,
    unhashed: Vec<u32>,
    spare: Vec<Box<Page>>,
}

impl Image {
    /// An image that is nothing but its base.
    pub fn new(base: Arc<Base>) -> Self {
        let hash = base.hash();
        Self {
            base,
            overlay: BTreeMap::new(),
            hash,
            unhashed: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// What it is an overlay of.
    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }

    /// Back to the base.
    pub fn reset(&mut self) {
        let pages = std::mem::take(&mut self.overlay)
            .into_values()
            .map(|overlaid| overlaid.page);
        // Enough for a workload; what a large one needed goes back to the system.
        self.spare
            .extend(pages.take(1024_usize.saturating_sub(self.spare.len())));
        self.unhashed.clear();
        self.hash = self.base.hash();
    }

    /// The page with this number.
    pub fn page(&self, number: u32) -> &Page {
        match self.overlay.get(&number) {
            Some(overlaid) => &overlaid.page,
            None => self.base.page(number).unwrap_or(&ZERO_PAGE),
        }
    }

    /// The numbers of the pages that were written since the base, in order.
    pub fn written(&self) -> impl Iterator<Item = u32> + '_ {
        self.overlay.keys().copied()
    }

    /// Reads from a byte offset.
    ///
    /// # Panics
    /// If the range does not lie within the image.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let (number, at, length) = piece(offset + done as u64, buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&self.page(number)[at..at + length]);
            done += length;
        }
    }

    /// Writes at a byte offset.
    ///
    /// # Panics
    /// If the range does not lie within the image.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let (number, at, length) = piece(offset + done as u64, data.len() - done);
            self.page_mut(number)[at..at + length].copy_from_slice(&data[done..done + length]);
            done += length;
        }
    }

    /// Makes a range read as zeros, as a discard on a disk that zeroes does.
    pub fn discard(&mut self, offset: u64, length: u64) {
        let mut done = 0;
        while done < length {
            let (number, at, piece_length) =
                piece(offset + done, (length - done).min(1 << 30) as usize);
            // mkfs discards whole disks on which there is nothing.
            let is_known_zero =
                !self.overlay.contains_key(&number) && self.base.page(number).is_none();
            let is_zero = |bytes: &Page| bytes[at..at + piece_length].iter().all(|byte| *byte == 0);
            if !is_known_zero && !is_zero(self.page(number)) {
                self.page_mut(number)[at..at + piece_length].fill(0);
            }
            done += piece_length as u64;
        }
    }

    fn page_mut(&mut self, number: u32) -> &mut Page {
        let Self {
            base,
            overlay,
            hash,
            unhashed,
            spare,
        } = self;
        let overlaid = overlay.entry(number).or_insert_with(|| {
            let content = base.page(number);
            let mut page = spare.pop().unwrap_or_else(|| Box::new(ZERO_PAGE));
            page.copy_from_slice(content.unwrap_or(&ZERO_PAGE));
            Overlaid {
                hash: Some(
                    content.map_or(ImageHash::default(), |content| page_hash(number, content)),
                ),
                page,
            }
        });
        if let Some(old) = overlaid.hash.take() {
            hash.subtract(old);
            unhashed.push(number);
        }
        &mut overlaid.page
    }

    /// The hash of the content. Only pages written since the last call are hashed.
    pub fn hash(&mut self) -> ImageHash {
        for number in std::mem::take(&mut self.unhashed) {
            let overlaid = self
                .overlay
                .get_mut(&number)
                .expect("an unhashed page is in the overlay");
            let hash = page_hash(number, &overlaid.page);
            overlaid.hash = Some(hash);
            self.hash.add(hash);
        }
        self.hash
    }
}

impl Clone for Image {
    fn clone(&self) -> Self {
        Self {
            base: Arc::clone(&self.base),
            overlay: self.overlay.clone(),
            hash: self.hash,
            unhashed: self.unhashed.clone(),
            spare: Vec::new(),
        }
    }

    /// Its own pages are used again: crash states are made one after the other.
    fn clone_from(&mut self, source: &Self) {
        self.reset();
        self.base = Arc::clone(&source.base);
        self.overlay = source
            .overlay
            .iter()
            .map(|(number, overlaid)| {
                let mut page = self.spare.pop().unwrap_or_else(|| Box::new(ZERO_PAGE));
                page.copy_from_slice(&*overlaid.page);
                let hash = overlaid.hash;
                (*number, Overlaid { page, hash })
            })
            .collect();
        self.hash = source.hash;
        self.unhashed.clone_from(&source.unhashed);
    }
}

/// The part of a range that lies in the page it starts in: page number, offset in it, length.
fn piece(offset: u64, length: usize) -> (u32, usize, usize) {
    let at = (offset % PAGE_SIZE as u64) as usize;
    (
        (offset / PAGE_SIZE as u64) as u32,
        at,
        length.min(PAGE_SIZE - at),
    )
}

#[cfg(test)]
mod tests {
    use brief::Brief;
    use proptest::prelude::*;

    use super::*;

    const SIZE_BYTES: u64 = 16 * PAGE_SIZE as u64;

    #[derive(Debug, Clone)]
    enum Change {
        Write(u64, Brief<Vec<u8>>),
        Discard(u64, u64),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let offset = 0..SIZE_BYTES - 9000;
        let write = (offset.clone(), prop::collection::vec(any::<u8>(), 1..9000))
            .prop_map(|(at, data)| Change::Write(at, Brief(data)));
        let discard = (offset, 1..9000_u64).prop_map(|(at, length)| Change::Discard(at, length));
        prop::collection::vec(prop_oneof![3 => write, 1 => discard], 0..12)
    }

    fn apply(image: &mut Image, flat: &mut [u8], change: &Change) {
        match change {
            Change::Write(at, Brief(data)) => {
                image.write(*at, data);
                flat[*at as usize..][..data.len()].copy_from_slice(data);
            }
            Change::Discard(at, length) => {
                image.discard(*at, *length);
                flat[*at as usize..][..*length as usize].fill(0);
            }
        }
    }

    proptest! {
        #[test]
        fn an_image_reads_what_a_flat_disk_would_read_and_hashes_by_content(changes in changes(), hash_at in 0..12_usize) {
            let base = Arc::new(Base::empty(SIZE_BYTES));
            let mut image = Image::new(Arc::clone(&base));
            let mut flat = vec![0; SIZE_BYTES as usize];
            for (index, change) in changes.iter().enumerate() {
                apply(&mut image, &mut flat, change);
                if index == hash_at {
                    image.hash();
                }
            }
            let mut read = vec![1; SIZE_BYTES as usize];
            image.read(0, &mut read);
            prop_assert_eq!(Brief(&read), Brief(&flat));

            let mut rewritten = Image::new(Arc::clone(&base));
            rewritten.write(0, &flat);
            prop_assert_eq!(image.hash(), rewritten.hash());
            image.write(5, &[flat[5] ^ 1]);
            prop_assert_ne!(image.hash(), rewritten.hash());
            let mut copy = Image::new(Arc::clone(&base));
            copy.write(7, &[1; 9000]);
            copy.clone_from(&image);
            prop_assert_eq!(copy.hash(), image.hash());
            copy.read(0, &mut read);
            prop_assert!((0..flat.len()).all(|at| read[at] == flat[at] ^ u8::from(at == 5)));
            image.reset();
            prop_assert_eq!(image.hash(), base.hash());
        }
    }
}
