//! What becomes of bytes that are corrupted, and nobody says so.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{DiskRequest, Image};

/// What a disk writes at once or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

/// What becomes of the bytes of a request to a disk, or of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Corruption {
    /// The lowest bit of the byte in the middle is flipped.
    Bit,
    /// All are zero.
    Zeros,
    /// They are zero from the middle on, in whole sectors of 512 bytes. Of what is written to a disk these
    /// sectors are not written.
    Torn,
}

impl Corruption {
    /// As a plan calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bit => "bit",
            Self::Zeros => "zeros",
            Self::Torn => "torn",
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Bit => "a bit is flipped",
            Self::Zeros => "all bytes are zero",
            Self::Torn => "bytes are zero from the middle on",
        }
    }

    /// Which of so many bytes it is about.
    pub fn range(self, len: usize) -> Range<usize> {
        match self {
            Self::Bit => len / 2..(len / 2 + 1).min(len),
            Self::Zeros => 0..len,
            Self::Torn if len <= SECTOR_BYTES => len..len,
            // At least one sector is as it should be, and at least one byte is not.
            Self::Torn => {
                let middle = (len / 2).next_multiple_of(SECTOR_BYTES).min(len - 1);
                middle / SECTOR_BYTES * SECTOR_BYTES..len
            }
        }
    }

    /// What becomes of the bytes that it is about.
    pub fn apply(self, bytes: &mut [u8]) {
        match self {
            Self::Bit => bytes.iter_mut().for_each(|byte| *byte ^= 1),
            Self::Zeros | Self::Torn => bytes.fill(0),
        }
    }

    /// What becomes of the bytes of a request to a disk that holds `image`: those that are read, or those
    /// that get onto it. None if that changes nothing. What has no bytes is not corrupted.
    pub(crate) fn of_request(
        self,
        request: DiskRequest,
        bytes: &[u8],
        image: &Image,
    ) -> Option<Vec<u8>> {
        let range = self.range(bytes.len());
        match request {
            DiskRequest::Write { offset, .. } if self == Self::Torn => {
                let mut held = vec![0; range.len()];
                image.read(offset + range.start as u64, &mut held);
                (held != bytes[range.clone()]).then(|| bytes[..range.start].to_vec())
            }
            DiskRequest::Read { .. } | DiskRequest::Write { .. } => {
                let mut corrupted = bytes.to_vec();
                self.apply(&mut corrupted[range]);
                (corrupted != bytes).then_some(corrupted)
            }
            DiskRequest::Flush | DiskRequest::Discard { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Base;

    #[test]
    fn a_corruption_is_of_bytes_that_there_are() {
        for len in 0..3000 {
            for what in [Corruption::Bit, Corruption::Zeros, Corruption::Torn] {
                let range = what.range(len);
                assert!(
                    range.start <= range.end && range.end <= len,
                    "{what:?} {len}"
                );
                let is_nothing = len == 0 || (what == Corruption::Torn && len <= SECTOR_BYTES);
                assert_eq!(range.is_empty(), is_nothing, "{what:?} {len}");
            }
        }
        assert_eq!(Corruption::Bit.range(4096), 2048..2049);
        assert_eq!(Corruption::Zeros.range(4096), 0..4096);
        let torn = [513, 600, 1024, 1025, 1600, 4096];
        let torn = torn.map(|len| Corruption::Torn.range(len).start);
        assert_eq!(torn, [512, 512, 512, 512, 1024, 2048]);
    }

    /// What becomes of a page of a disk that holds this byte, or of one that is to be written.
    fn of_page(what: Corruption, writes: Option<u8>, held: u8) -> Option<Vec<u8>> {
        let length = crate::PAGE_SIZE as u64;
        let mut image = Image::new(Arc::new(Base::empty(2 * length)));
        image.write(length, &[held; crate::PAGE_SIZE]);
        let (offset, bytes) = (length, [writes.unwrap_or(held); crate::PAGE_SIZE]);
        let request = match writes {
            Some(_) => DiskRequest::Write { offset, length },
            None => DiskRequest::Read { offset, length },
        };
        what.of_request(request, &bytes, &image)
    }

    #[test]
    fn what_is_read_or_written_is_wrong_where_it_should_be_or_nothing_is_said() {
        let half = crate::PAGE_SIZE / 2;
        for writes in [None, Some(7)] {
            let flipped = of_page(Corruption::Bit, writes, 7).expect("a bit is another");
            let wrong: Vec<_> = (0..flipped.len()).filter(|at| flipped[*at] != 7).collect();
            assert_eq!((wrong, flipped[half]), (vec![half], 6));
            let zeros = of_page(Corruption::Zeros, writes, 7).expect("they were no zeros");
            assert_eq!(zeros, vec![0; crate::PAGE_SIZE]);
        }
        assert_eq!(of_page(Corruption::Zeros, Some(0), 7), None);
        assert_eq!(of_page(Corruption::Zeros, None, 0), None);
        // The rest of what is read is zero, that of what is written stays what it was.
        let read = of_page(Corruption::Torn, None, 7).expect("they were no zeros");
        assert_eq!(read, [vec![7; half], vec![0; half]].concat());
        assert_eq!(of_page(Corruption::Torn, None, 0), None);
        let written = of_page(Corruption::Torn, Some(7), 3);
        assert_eq!(written, Some(vec![7; half]));
        assert_eq!(of_page(Corruption::Torn, Some(7), 7), None);
    }

    #[test]
    fn what_has_no_bytes_is_not_corrupted() {
        let image = Image::new(Arc::new(Base::empty(1 << 20)));
        let (offset, length) = (0, 512);
        for request in [DiskRequest::Flush, DiskRequest::Discard { offset, length }] {
            assert_eq!(Corruption::Bit.of_request(request, &[], &image), None);
        }
    }
}
