//! Failures, each told once: who sees the same later is counted.

use std::collections::HashMap;
use std::hash::Hash;

use super::Anomaly;

/// Failures by what they have in common: `K` is the same for operations that show the same failure.
pub(crate) struct Told<K> {
    found: Vec<Anomaly>,
    places: HashMap<K, usize>,
}

impl<K: Eq + Hash> Told<K> {
    pub(crate) fn new() -> Self {
        Self {
            found: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Tells a failure; or of one that was told that this operation shows it as well. Operations come
    /// in the order of their calls.
    pub(crate) fn tell(&mut self, same: K, operation: usize, anomaly: impl FnOnce() -> Anomaly) {
        if let Some(&place) = self.places.get(&same) {
            let told = &mut self.found[place];
            if told.more.last() != Some(&operation) && !told.operations.contains(&operation) {
                told.more.push(operation);
            }
            return;
        }
        self.places.insert(same, self.found.len());
        self.found.push(anomaly());
    }

    /// What was told, in the order in which it was.
    pub(crate) fn finish(self) -> Vec<Anomaly> {
        self.found
    }
}
