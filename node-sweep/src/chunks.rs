use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Chunks with neighbouring numbers are shared together, so many of them.
const BLOCK: u64 = 64;

/// Pieces of a file by number. A copy shares what it has in common with the other one: it costs as
/// much as there are blocks of chunks, and not as there are chunks.
#[derive(Debug)]
pub(crate) struct Chunks<T> {
    blocks: BTreeMap<u64, Arc<BTreeMap<u64, Arc<T>>>>,
}

impl<T> Clone for Chunks<T> {
    fn clone(&self) -> Self {
        Self {
            blocks: self.blocks.clone(),
        }
    }
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self {
            blocks: BTreeMap::new(),
        }
    }
}

impl<T: Clone> Chunks<T> {
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let chunk = self.blocks.get(&(number / BLOCK))?.get(&number)?;
        Some(chunk)
    }

    /// The one of this number, to be changed; a new one if there is none.
    pub(crate) fn get_mut(&mut self, number: u64, new: impl FnOnce() -> T) -> &mut T {
        let block = Arc::make_mut(self.blocks.entry(number / BLOCK).or_default());
        Arc::make_mut(block.entry(number).or_insert_with(|| Arc::new(new())))
    }

    pub(crate) fn remove(&mut self, number: u64) {
        let Some(block) = self.blocks.get_mut(&(number / BLOCK)) else {
            return;
        };
        let own = Arc::make_mut(block);
        own.remove(&number);
        if own.is_empty() {
            self.blocks.remove(&(number / BLOCK));
        }
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let all = self.blocks.values().flat_map(|block| block.iter());
        all.map(|(number, chunk)| (*number, &**chunk))
    }

    /// The numbers of those in a range.
    pub(crate) fn numbers(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let blocks = self.blocks.range(blocks);
        blocks.flat_map(move |(_, block)| block.range(range.clone()).map(|(number, _)| *number))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_what_a_plain_map_would_be_and_a_copy_stays_what_it_was(
            steps in prop::collection::vec((0..4 * BLOCK, any::<bool>()), 0..60),
            range in (0..4 * BLOCK, 0..4 * BLOCK),
        ) {
            let (mut chunks, mut plain) = (Chunks::default(), BTreeMap::new());
            for (step, (number, is_change)) in steps.into_iter().enumerate() {
                let (copy, before) = (chunks.clone(), plain.clone());
                if is_change {
                    *chunks.get_mut(number, || 0) += step;
                    *plain.entry(number).or_insert(0) += step;
                } else {
                    chunks.remove(number);
                    plain.remove(&number);
                }
                prop_assert_eq!(chunks.get(number), plain.get(&number));
                prop_assert!(copy.iter().eq(before.iter().map(|(number, chunk)| (*number, chunk))));
            }
            prop_assert!(chunks.iter().eq(plain.iter().map(|(number, chunk)| (*number, chunk))));
            let range = range.0.min(range.1)..range.1.max(range.0);
            let numbers = plain.range(range.clone()).map(|(number, _)| *number);
            prop_assert!(chunks.numbers(range).eq(numbers));
        }
    }
}
