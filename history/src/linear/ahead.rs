//! What the next reads need: a state after which one of them can never fit is not worth a look.

use std::collections::HashMap;

use super::Sequential;
use super::search::Class;

/// So many reads are looked at, those that were called first.
const READS_MAX: usize = 16;
/// So many pairs of a read and something else are compared; where there are more, nothing is looked
/// at.
const PAIRS_MAX: usize = 1 << 22;

/// The reads of a search.
pub(super) struct Ahead {
    /// The known reads, by their calls.
    reads: Vec<u32>,
    /// The first of these that is not placed.
    first: usize,
    /// Of each class of reads the classes that produce for it.
    producers: HashMap<u32, Vec<u32>>,
}

impl Ahead {
    pub(super) fn new<S: Sequential>(
        object: &S,
        known_class: &[u32],
        classes: &[Class<'_, S>],
    ) -> Self {
        let is_read = |class: u32| S::is_read(classes[class as usize].call);
        let mut read_classes: Vec<_> = known_class
            .iter()
            .copied()
            .filter(|class| is_read(*class))
            .collect();
        read_classes.sort_unstable();
        read_classes.dedup();
        let is_possible = read_classes.len().saturating_mul(classes.len()) <= PAIRS_MAX;
        let reads = (0..)
            .zip(known_class)
            .filter(|(_, class)| is_possible && is_read(**class));
        let reads = reads.map(|(known, _)| known).collect();
        let producers = |&read: &u32| {
            let call = classes[read as usize].call;
            let all = (0..)
                .zip(classes)
                .filter(|(_, class)| !S::is_read(class.call) && object.produces(class.call, call));
            (read, all.map(|(class, _)| class).collect())
        };
        let read_classes = read_classes.iter().filter(|_| is_possible);
        Self {
            reads,
            first: 0,
            producers: read_classes.map(producers).collect(),
        }
    }

    /// Whether one of the next reads cannot fit any more after this state.
    pub(super) fn is_hopeless<S: Sequential>(
        &mut self,
        object: &S,
        state: &S::State,
        placed: &[bool],
        known_class: &[u32],
        classes: &[Class<'_, S>],
        return_at: impl Fn(u32) -> usize,
    ) -> bool {
        while self
            .reads
            .get(self.first)
            .is_some_and(|&read| placed[read as usize])
        {
            self.first += 1;
        }
        let left = self.reads[self.first..]
            .iter()
            .filter(|read| !placed[**read as usize]);
        left.take(READS_MAX).any(|&read| {
            let class = known_class[read as usize];
            let reached = object.reaches(state, classes[class as usize].call);
            let before = return_at(read);
            !reached
                && !self.producers[&class]
                    .iter()
                    .any(|&producer| classes[producer as usize].is_left_before(before))
        })
    }

    /// A known operation is not placed any more.
    pub(super) fn take_back(&mut self, known: u32) {
        let place = self.reads.partition_point(|&read| read < known);
        self.first = self.first.min(place);
    }
}
