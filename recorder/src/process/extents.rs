//! What a file holds: pieces of the recorded data, and zeros between them.

use std::collections::BTreeMap;
use std::ops::Range;

use trace::Data;

/// The content of a file as pieces that do not overlap. What is in none of them is zeros.
#[derive(Debug, Clone, Default)]
pub(super) struct Extents {
    pieces: BTreeMap<u64, Data>,
}

impl Extents {
    /// These bytes are there from now on.
    pub(super) fn write(&mut self, offset: u64, data: Data) {
        if data.len == 0 {
            return;
        }
        self.zero(offset, data.len);
        // A log that grows by records whose bytes were recorded one after the other is one piece.
        if let Some((&before, piece)) = self.pieces.range_mut(..offset).next_back()
            && before + piece.len == offset
            && piece.at + piece.len == data.at
        {
            piece.len += data.len;
            return;
        }
        self.pieces.insert(offset, data);
    }

    /// There are zeros from now on.
    pub(super) fn zero(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        let first = self
            .pieces
            .range(..offset)
            .next_back()
            .map_or(offset, |(&at, _)| at);
        let hit: Vec<(u64, Data)> = self
            .pieces
            .range(first..end)
            .map(|(&at, &data)| (at, data))
            .collect();
        for (at, data) in hit {
            let piece_end = at + data.len;
            if piece_end <= offset {
                continue;
            }
            self.pieces.remove(&at);
            if at < offset {
                self.pieces.insert(
                    at,
                    Data {
                        at: data.at,
                        len: offset - at,
                    },
                );
            }
            if piece_end > end {
                self.pieces.insert(
                    end,
                    Data {
                        at: data.at + (end - at),
                        len: piece_end - end,
                    },
                );
            }
        }
    }

    /// Nothing is left behind here.
    pub(super) fn cut(&mut self, size: u64) {
        self.zero(size, u64::MAX - size);
    }

    /// Where there may be other bytes than zeros.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.pieces.iter().map(|(at, data)| *at..at + data.len)
    }

    /// The bytes from `offset` on; `data` is what the pieces speak of.
    pub(super) fn read(&self, offset: u64, data: &[u8], into: &mut [u8]) {
        into.fill(0);
        let end = offset + into.len() as u64;
        let first = self
            .pieces
            .range(..offset)
            .next_back()
            .map_or(offset, |(&at, _)| at);
        for (&at, piece) in self.pieces.range(first..end) {
            let (from, to) = (at.max(offset), (at + piece.len).min(end));
            if from < to {
                let source = (piece.at + (from - at)) as usize;
                let target = (from - offset) as usize;
                let len = (to - from) as usize;
                into[target..target + len].copy_from_slice(&data[source..source + len]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against an array, with numbers that a seed gives.
    #[test]
    fn pieces_are_what_an_array_would_be() {
        let data: Vec<u8> = (0..10_000_u32).map(|at| (at % 251 + 1) as u8).collect();
        let mut seed = 1_u64;
        let mut next = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut extents, mut array) = (Extents::default(), vec![0_u8; 1000]);
        for step in 0..3000 {
            let (offset, len, at) = (next(900), next(100), next(9_900));
            match next(5) {
                0 => {
                    extents.zero(offset, len);
                    array[offset as usize..(offset + len) as usize].fill(0);
                }
                1 => {
                    extents.cut(900 + len);
                    array[(900 + len) as usize..].fill(0);
                }
                _ => {
                    extents.write(offset, Data { at, len });
                    array[offset as usize..(offset + len) as usize]
                        .copy_from_slice(&data[at as usize..(at + len) as usize]);
                }
            }
            let mut read = vec![1; 1000];
            extents.read(0, &data, &mut read);
            assert_eq!(read, array, "step {step}");
        }
    }
}
