use serde::{Deserialize, Serialize};

/// One write of so many is completed at once by a lazy disk.
const AT_ONCE_ONE_OF: u8 = 4;

/// A write waits for so many requests after it at most.
const REQUESTS_MAX: u8 = 6;

/// When a disk answers a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Completion {
    /// Before it looks at the next request, so that a flush comes after the answers to all writes
    /// before it, even if nobody waited for them.
    #[default]
    AtOnce,
    /// Some of them only after later requests have come, or none has for a few milliseconds: a
    /// flush that was sent without waiting for them does not cover them. What was written can be
    /// read at once: the disk has a volatile cache, and only says late that it is there.
    Lazy {
        /// Which writes, and for how many requests, follows from this and the place in the log.
        seed: u64,
    },
}

impl Completion {
    /// For how many later requests the write at `place` of the log waits; none if it is completed at
    /// once.
    pub(crate) fn requests_to_wait(self, place: usize) -> Option<u8> {
        let Self::Lazy { seed } = self else {
            return None;
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(&(place as u64).to_le_bytes());
        let hash = hasher.finalize();
        let [first, second, ..] = *hash.as_bytes();
        (first % AT_ONCE_ONE_OF > 0).then_some(second % REQUESTS_MAX + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(seed: u64) -> Vec<Option<u8>> {
        (0..1000)
            .map(|place| Completion::Lazy { seed }.requests_to_wait(place))
            .collect()
    }

    #[test]
    fn which_writes_wait_and_how_long_follows_the_seed_and_is_bounded() {
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        let at_once = waits(1).iter().filter(|wait| wait.is_none()).count();
        assert!((200..300).contains(&at_once), "{at_once}");
        for requests in 1..=REQUESTS_MAX {
            assert!(waits(1).contains(&Some(requests)), "{requests}");
        }
        assert!(
            waits(1)
                .iter()
                .flatten()
                .all(|requests| (1..=REQUESTS_MAX).contains(requests))
        );
        assert_eq!(Completion::AtOnce.requests_to_wait(5), None);
    }
}
