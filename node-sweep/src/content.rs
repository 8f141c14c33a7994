use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use brief::{Brief, BriefList};

use crate::chunks::Chunks;

/// Contents are kept, hashed and shared in pieces of this size, in bytes.
pub(crate) const CHUNK: u64 = 4096;

/// So many chunks are changed before their hashes are added to that of the content.
const CHANGED_MAX: usize = if cfg!(test) { 2 } else { 32 };

/// What stands where a crash left bytes that nobody wrote.
const GARBAGE: &[u8] = b"~GARBAGE-LEFT-BY-THE-CRASH~\xff\xa5\x5a\x00\xff";

/// The bytes of a regular file. Copies share what they have in common, and a hash of all bytes is
/// at hand at any time.
#[derive(Clone, Default)]
pub(crate) struct Content {
    size: u64,
    /// By number. What is in none is zeros.
    chunks: Chunks<Chunk>,
    /// The hashes in one of all chunks but those that were changed of late: most of these change
    /// again before anybody asks. Each covers the number of its chunk, so that their order here is
    /// of no consequence, and one can be taken out again.
    hash: [u64; 4],
    /// The numbers of those, some of which may be zeros.
    changed: BTreeSet<u64>,
    /// What the last page has past the end, and shows if the file grows.
    hidden: Vec<u8>,
}

#[derive(Clone)]
struct Chunk {
    bytes: [u8; CHUNK as usize],
    /// Once somebody has asked.
    hash: OnceLock<[u64; 4]>,
}

impl Chunk {
    /// That of the chunk of this number.
    fn hash(&self, number: u64) -> [u64; 4] {
        *self.hash.get_or_init(|| hash(number, &self.bytes))
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks: Vec<_> = self
            .chunks
            .iter()
            .map(|(number, chunk)| (number, Brief(chunk.bytes)))
            .collect();
        f.debug_struct("Content")
            .field("size", &self.size)
            .field("chunks", &BriefList(chunks.iter()))
            .finish_non_exhaustive()
    }
}

/// The byte of it at a place of a file.
pub(crate) fn garbage_at(at: u64) -> u8 {
    GARBAGE[at as usize % GARBAGE.len()]
}

impl Content {
    /// In bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// What tells contents of one size apart.
    pub(crate) fn hash(&self) -> [u64; 4] {
        let changed = self.changed.iter();
        let changed = changed.filter_map(|number| Some((number, self.chunks.get(*number)?)));
        let mut all = self.hash;
        for (number, chunk) in changed {
            toggle(&mut all, chunk.hash(*number));
        }
        all
    }

    /// Takes the hash of a chunk out, before the chunk changes.
    fn change(&mut self, number: u64) {
        if self.changed.len() >= CHANGED_MAX {
            self.hash = self.hash();
            self.changed.clear();
        }
        if self.changed.insert(number)
            && let Some(chunk) = self.chunks.get(number)
        {
            toggle(&mut self.hash, chunk.hash(number));
        }
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        if size < self.size {
            let page_end = size.next_multiple_of(CHUNK).min(self.size);
            self.hidden = self.read(size, page_end - size);
            self.clear(size, self.size);
        } else if size > self.size {
            self.hidden.clear();
        }
        self.size = size;
    }

    /// Has it be at least so large, with zeros.
    fn reach(&mut self, size: u64) {
        if size > self.size {
            self.hidden.clear();
            self.size = size;
        }
    }

    /// Has it be at least so large: with what was hidden past its end, and zeros.
    pub(crate) fn grow(&mut self, size: u64) {
        if size <= self.size {
            return;
        }
        let mut shown = std::mem::take(&mut self.hidden);
        let old = self.size;
        self.hidden = shown.split_off(shown.len().min((size - old) as usize));
        self.size = size;
        self.write(old, &shown);
    }

    /// Bytes that do not make it larger. What is past the end is hidden there.
    pub(crate) fn overwrite(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let seen = end.min(self.size).saturating_sub(offset) as usize;
        if seen > 0 {
            self.write(offset, &bytes[..seen]);
        }
        let page_end = self.size.next_multiple_of(CHUNK);
        let hidden = offset.max(self.size)..end.min(page_end);
        if !hidden.is_empty() {
            let (from, to) = (hidden.start - self.size, hidden.end - self.size);
            let len = self.hidden.len().max(to as usize);
            self.hidden.resize(len, 0);
            let source = (hidden.start - offset) as usize..(hidden.end - offset) as usize;
            self.hidden[from as usize..to as usize].copy_from_slice(&bytes[source]);
        }
    }

    /// The same, of zeros: a hole may be far larger than what the file has.
    pub(crate) fn overwrite_zeros(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        self.clear(offset.min(self.size), end.min(self.size));
        let place = |at: u64| at.saturating_sub(self.size).min(self.hidden.len() as u64) as usize;
        let hidden = place(offset)..place(end);
        self.hidden[hidden].fill(0);
    }

    /// Zeros from `start` to `end`: chunks that are all in there are not looked into.
    fn clear(&mut self, start: u64, end: u64) {
        let (first, last) = (start.next_multiple_of(CHUNK).min(end), end / CHUNK * CHUNK);
        self.fill(start, first - start, |_, bytes| bytes.fill(0));
        if first >= last {
            return self.fill(first, end - first, |_, bytes| bytes.fill(0));
        }
        self.fill(last, end - last, |_, bytes| bytes.fill(0));
        let whole = first / CHUNK..last / CHUNK;
        let numbers: Vec<u64> = self.chunks.numbers(whole).collect();
        for number in numbers {
            self.change(number);
            self.chunks.remove(number);
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.reach(offset + bytes.len() as u64);
        self.fill(offset, bytes.len() as u64, |at, piece| {
            let from = (at - offset) as usize;
            piece.copy_from_slice(&bytes[from..from + piece.len()]);
        });
    }

    pub(crate) fn zeros(&mut self, offset: u64, len: u64) {
        self.reach(offset + len);
        self.clear(offset, offset + len);
    }

    pub(crate) fn garbage(&mut self, offset: u64, len: u64) {
        self.reach(offset + len);
        self.fill(offset, len, |at, piece| {
            for (place, byte) in piece.iter_mut().enumerate() {
                *byte = garbage_at(at + place as u64);
            }
        });
    }

    /// The pieces that are not zeros, as offset and bytes, none of them beyond the end.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.chunks.iter().map(|(number, chunk)| {
            let offset = number * CHUNK;
            (
                offset,
                &chunk.bytes[..(self.size - offset).min(CHUNK) as usize],
            )
        })
    }

    /// The bytes from a place on. Beyond the end there are zeros.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        for number in offset / CHUNK..(offset + len).div_ceil(CHUNK) {
            let Some(chunk) = self.chunks.get(number) else {
                continue;
            };
            let (from, to) = (
                offset.max(number * CHUNK),
                (offset + len).min((number + 1) * CHUNK),
            );
            let piece = &chunk.bytes[(from - number * CHUNK) as usize..][..(to - from) as usize];
            bytes[(from - offset) as usize..][..piece.len()].copy_from_slice(piece);
        }
        bytes
    }

    /// The numbers of the chunks in which two contents are not the same.
    pub(crate) fn chunks_that_differ(&self, other: &Self) -> BTreeSet<u64> {
        let hash = |content: &Self, number: u64| {
            let chunk = content.chunks.get(number);
            chunk.map(|chunk| chunk.hash(number))
        };
        let chunks = self.chunks.iter().chain(other.chunks.iter());
        let numbers = chunks.map(|(number, _)| number);
        numbers
            .filter(|number| hash(self, *number) != hash(other, *number))
            .collect()
    }

    /// Calls `with` for each part of a range that lies in one chunk, with its offset.
    fn fill(&mut self, offset: u64, len: u64, mut with: impl FnMut(u64, &mut [u8])) {
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let number = at / CHUNK;
            let until = end.min((number + 1) * CHUNK);
            self.change(number);
            let chunk = self.chunks.get_mut(number, || Chunk {
                bytes: [0; CHUNK as usize],
                hash: OnceLock::new(),
            });
            chunk.hash = OnceLock::new();
            with(
                at,
                &mut chunk.bytes[(at % CHUNK) as usize..][..(until - at) as usize],
            );
            if chunk.bytes.iter().all(|byte| *byte == 0) {
                self.chunks.remove(number);
            }
            at = until;
        }
    }
}

/// Puts a hash in, or takes it out.
fn toggle(all: &mut [u64; 4], hash: [u64; 4]) {
    for (own, other) in all.iter_mut().zip(hash) {
        *own ^= other;
    }
}

fn hash(number: u64, bytes: &[u8]) -> [u64; 4] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytes).update(&number.to_le_bytes());
    let hash = *hasher.finalize().as_bytes();
    let word = |place: usize| {
        u64::from_le_bytes(hash[place * 8..][..8].try_into().expect("they are eight"))
    };
    [word(0), word(1), word(2), word(3)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Something done to a content.
    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Brief<Vec<u8>>),
        Zeros(u64, u64),
        Garbage(u64, u64),
        SetSize(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let place = 0..3 * CHUNK;
        prop_oneof![
            (place.clone(), prop::collection::vec(0..3_u8, 1..5000))
                .prop_map(|(at, bytes)| Step::Write(at, Brief(bytes))),
            (place.clone(), 1..2 * CHUNK).prop_map(|(at, len)| Step::Zeros(at, len)),
            (place.clone(), 1..2 * CHUNK).prop_map(|(at, len)| Step::Garbage(at, len)),
            place.prop_map(Step::SetSize),
        ]
    }

    fn plain(bytes: &mut Vec<u8>, step: &Step) {
        let mut grow = |end: u64| bytes.resize(bytes.len().max(end as usize), 0);
        match step {
            Step::Write(at, Brief(new)) => {
                grow(at + new.len() as u64);
                bytes[*at as usize..][..new.len()].copy_from_slice(new);
            }
            Step::Zeros(at, len) => {
                grow(at + len);
                bytes[*at as usize..][..*len as usize].fill(0);
            }
            Step::Garbage(at, len) => {
                grow(at + len);
                for place in *at..at + len {
                    bytes[place as usize] = GARBAGE[place as usize % GARBAGE.len()];
                }
            }
            Step::SetSize(size) => bytes.resize(*size as usize, 0),
        }
    }

    fn read(content: &Content) -> Vec<u8> {
        let mut bytes = vec![0; content.size() as usize];
        for (offset, piece) in content.pieces() {
            bytes[offset as usize..][..piece.len()].copy_from_slice(piece);
        }
        bytes
    }

    /// However it came about, equal bytes have one hash.
    fn same_as_new(content: &Content, bytes: &[u8]) -> Result<(), TestCaseError> {
        let mut new = Content::default();
        new.write(0, bytes);
        prop_assert_eq!((new.hash(), new.size()), (content.hash(), content.size()));
        Ok(())
    }

    proptest! {
        #[test]
        fn it_holds_what_a_plain_array_would(
            steps in prop::collection::vec((step(), any::<bool>()), 1..12),
        ) {
            let (mut content, mut bytes) = (Content::default(), Vec::new());
            for (step, asks) in &steps {
                match step {
                    Step::Write(at, Brief(new)) => content.write(*at, new),
                    Step::Zeros(at, len) => content.zeros(*at, *len),
                    Step::Garbage(at, len) => content.garbage(*at, *len),
                    Step::SetSize(size) => content.set_size(*size),
                }
                plain(&mut bytes, step);
                prop_assert_eq!(Brief(read(&content)), Brief(bytes.clone()));
                if *asks {
                    same_as_new(&content, &bytes)?;
                }
            }
            same_as_new(&content, &bytes)?;
        }
    }

    proptest! {
        #[test]
        fn zeros_are_put_over_it_as_their_bytes_would_be(
            steps in prop::collection::vec(step(), 1..6),
            at in 0..4 * CHUNK,
            len in 0..3 * CHUNK,
            more in 0..2 * CHUNK,
        ) {
            let mut content = Content::default();
            for step in &steps {
                match step {
                    Step::Write(at, Brief(new)) => content.write(*at, new),
                    Step::Zeros(at, len) => content.zeros(*at, *len),
                    Step::Garbage(at, len) => content.garbage(*at, *len),
                    Step::SetSize(size) => content.set_size(*size),
                }
            }
            let mut plain = content.clone();
            content.overwrite_zeros(at, len);
            plain.overwrite(at, &vec![0; len as usize]);
            let grown = content.size() + more;
            for size in [content.size(), grown] {
                content.grow(size);
                plain.grow(size);
                prop_assert_eq!(Brief(read(&content)), Brief(read(&plain)));
                prop_assert_eq!((content.hash(), content.size()), (plain.hash(), plain.size()));
            }
        }
    }

    #[test]
    fn other_bytes_and_other_places_have_another_hash() {
        let hash = |offset: u64, bytes: &[u8]| {
            let mut content = Content::default();
            content.set_size(4 * CHUNK);
            content.write(offset, bytes);
            content.hash()
        };
        assert_ne!(hash(0, b"a"), hash(0, b"b"));
        assert_ne!(hash(0, b"a"), hash(CHUNK, b"a"));
        assert_eq!(hash(0, b"\0\0"), hash(CHUNK, b"\0"));
    }

    #[test]
    fn what_was_behind_the_end_is_seen_again_when_a_page_brings_its_size() {
        let mut content = Content::default();
        content.write(0, &[1; 5000]);
        content.set_size(100);
        assert_eq!(content.read(0, 5000)[100..], [0; 4900]);
        let same = {
            let mut other = Content::default();
            other.write(0, &[1; 100]);
            other.hash()
        };
        assert_eq!(content.hash(), same, "what is hidden is not seen");
        let mut grown = content.clone();
        grown.grow(6000);
        let bytes = grown.read(0, 6000);
        // Only that of the last page.
        assert!(
            bytes[..4096].iter().all(|byte| *byte == 1)
                && bytes[4096..].iter().all(|byte| *byte == 0)
        );
        // Zeros over it, and bytes, which make the file no larger.
        let mut zeroed = content.clone();
        zeroed.overwrite(100, &[0; 3996]);
        zeroed.overwrite(90, &[2; 20]);
        assert_eq!(zeroed.size(), 100);
        zeroed.grow(200);
        let bytes = zeroed.read(0, 200);
        assert_eq!(bytes[90..110], [2; 20]);
        assert_eq!(bytes[110..], [0; 90]);
        // A write of which nothing is known but what it wrote leaves zeros.
        content.write(150, &[3; 10]);
        assert_eq!(content.read(100, 50), [0; 50]);
    }
}
