//! Which calls a node makes, counted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

/// What tells one of them from others: the same code on a like node makes the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::online) struct Made {
    /// What a plan calls it.
    pub(in crate::online) call: String,
    /// Of which file of the node's data, masked.
    pub(in crate::online) file: String,
    /// The number of its stack; 0 if that is not known.
    pub(in crate::online) site: u64,
    /// What the node was then, if the probe said so.
    pub(in crate::online) role: Option<String>,
}

/// How often it was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::online) struct Times {
    /// So often.
    pub(in crate::online) count: u64,
    /// So often it failed.
    pub(in crate::online) failed: u64,
    /// First then, in nanoseconds of `CLOCK_MONOTONIC`. Of a node on a simulated machine in those of
    /// the simulation.
    pub(in crate::online) first_ns: u64,
    /// The fewest bytes that were asked for in one buffer, if it has bytes.
    pub(in crate::online) bytes_min: Option<u64>,
    /// Which of them was the last that did any bytes, from 1 on; 0 if none did.
    pub(in crate::online) last_of_bytes: u64,
}

impl Times {
    /// Those of the same call that were made later.
    fn add(&mut self, later: &Self) {
        // Machines may say any number.
        if later.last_of_bytes > 0 {
            self.last_of_bytes = self.count.saturating_add(later.last_of_bytes);
        }
        self.count = self.count.saturating_add(later.count);
        self.failed = self.failed.saturating_add(later.failed);
        self.bytes_min = self.bytes_min.min(later.bytes_min);
    }
}

/// The calls of a node since the last fault was put in place, or since counting began.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) is_counting: bool,
    pub(super) made: BTreeMap<Made, Times>,
}

impl Tally {
    /// From now on calls count, and none before.
    pub(super) fn begin(&mut self) {
        self.is_counting = true;
        self.made.clear();
    }

    /// A call that was counted has returned this.
    pub(super) fn returned(&mut self, made: &Made, result: i64) {
        let Some(times) = self.made.get_mut(made) else {
            return;
        };
        match result {
            ..0 => times.failed += 1,
            0 => {}
            1.. => times.last_of_bytes = times.count,
        }
    }

    pub(super) fn count(&mut self, made: Made, at_ns: u64, bytes: Option<u64>) {
        let times = Times {
            count: 1,
            failed: 0,
            first_ns: at_ns,
            bytes_min: bytes,
            last_of_bytes: 0,
        };
        self.add(made, times);
    }

    /// Counts a call that was made so often, and not before those of it that were counted.
    pub(super) fn add(&mut self, made: Made, times: Times) {
        match self.made.entry(made) {
            Entry::Vacant(entry) => drop(entry.insert(times)),
            Entry::Occupied(mut entry) => entry.get_mut().add(&times),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_before_a_fault_do_not_count_after_it() {
        let made = |file: &str| Made {
            call: "write".into(),
            file: file.into(),
            site: 7,
            role: None,
        };
        let mut tally = Tally::default();
        tally.begin();
        tally.count(made("log"), 3, Some(20));
        tally.count(made("log"), 5, Some(4));
        let times = &tally.made[&made("log")];
        assert_eq!(
            (times.count, times.first_ns, times.bytes_min),
            (2, 3, Some(4))
        );
        tally.begin();
        tally.count(made("snapshot"), 9, None);
        assert!(!tally.made.contains_key(&made("log")));
    }

    #[test]
    fn it_is_known_which_call_was_the_last_that_did_any_bytes() {
        let made = Made {
            call: "read".into(),
            file: "log".into(),
            site: 7,
            role: None,
        };
        let tally = |results: &[i64]| {
            let mut tally = Tally::default();
            for result in results {
                tally.count(made.clone(), 3, Some(20));
                tally.returned(&made, *result);
            }
            tally
        };
        let last_of = |tally: &Tally| tally.made[&made].last_of_bytes;
        for (results, last) in [
            (&[0][..], 0),
            (&[0, -5], 0),
            (&[20, 4, 0], 2),
            (&[0, 20, 0, 0], 2),
            (&[20, 0, 4, -5], 3),
        ] {
            assert_eq!(last_of(&tally(results)), last, "{results:?}");
            // The same node, when it was started again.
            let mut both = tally(&[4, 0]);
            both.add(made.clone(), tally(results).made[&made].clone());
            let last = if last == 0 { 1 } else { 2 + last };
            assert_eq!(last_of(&both), last, "{results:?}");
        }
    }
}
