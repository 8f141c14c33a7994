//! Writes that were carried out but not completed yet.

use std::collections::VecDeque;
use std::time::Duration;

/// Writes that may wait for their answer at the same time. Fewer than the requests that the kernel
/// sends in the background (`max_background`, 16 with fuser): with all of them waiting, the loop
/// device would stand before FUSE with the file's lock in its hand, and no flush would come by.
pub(crate) const HELD_MAX: usize = 8;

/// How long a write may wait. Long enough for a file system that does not wait to send its flush,
/// on a busy machine too; those that wait lose it with every write.
pub(crate) const HOLD_MAX: Duration = Duration::from_millis(2);

/// Writes that wait, the oldest first.
pub(crate) struct HeldWrites<T> {
    waiting: VecDeque<Waiting<T>>,
}

struct Waiting<T> {
    write: T,
    /// How many requests it still waits for.
    requests: u8,
    deadline_ns: u64,
}

impl<T> HeldWrites<T> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: VecDeque::with_capacity(HELD_MAX),
        }
    }

    /// Has a write that came at `now_ns` wait for so many requests after it. Returns the oldest
    /// one, if there is no place for both.
    pub(crate) fn hold(&mut self, write: T, requests: u8, now_ns: u64) -> Option<T> {
        let oldest = if self.waiting.len() < HELD_MAX {
            None
        } else {
            self.waiting.pop_front()
        };
        let deadline_ns = now_ns + HOLD_MAX.as_nanos() as u64;
        self.waiting.push_back(Waiting {
            write,
            requests,
            deadline_ns,
        });
        oldest.map(|oldest| oldest.write)
    }

    /// Another request has come: returns the writes that waited for it.
    pub(crate) fn request_came(&mut self) -> Vec<T> {
        self.waiting
            .iter_mut()
            .for_each(|waiting| waiting.requests -= 1);
        self.take(|waiting| waiting.requests == 0)
    }

    /// The writes that have waited long enough at `now_ns`.
    pub(crate) fn take_late(&mut self, now_ns: u64) -> Vec<T> {
        self.take(|waiting| waiting.deadline_ns <= now_ns)
    }

    /// When the next has waited long enough.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.waiting.front().map(|oldest| oldest.deadline_ns)
    }

    fn take(&mut self, is_due: impl Fn(&Waiting<T>) -> bool) -> Vec<T> {
        let (due, waiting) = self.waiting.drain(..).partition::<Vec<_>, _>(is_due);
        self.waiting.extend(waiting);
        due.into_iter().map(|due| due.write).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_for_its_number_of_requests() {
        let mut held = HeldWrites::new();
        assert_eq!(held.hold('a', 2, 0), None);
        assert_eq!(held.hold('b', 1, 0), None);
        assert_eq!(held.request_came(), ['b']);
        assert_eq!(held.request_came(), ['a']);
        assert!(held.request_came().is_empty());
    }

    #[test]
    fn no_write_waits_longer_than_the_bound() {
        let mut held = HeldWrites::new();
        assert_eq!(held.deadline_ns(), None);
        held.hold('a', 9, 100);
        held.hold('b', 9, 200);
        let deadline_ns = held.deadline_ns().expect("one waits");
        assert_eq!(deadline_ns, 100 + HOLD_MAX.as_nanos() as u64);
        assert!(held.take_late(deadline_ns - 1).is_empty());
        assert_eq!(held.take_late(deadline_ns), ['a']);
        assert_eq!(held.take_late(u64::MAX), ['b']);
    }

    #[test]
    fn no_more_writes_wait_than_the_bound() {
        let mut held = HeldWrites::new();
        for number in 0..HELD_MAX {
            assert_eq!(held.hold(number, 9, 0), None);
        }
        assert_eq!(held.hold(HELD_MAX, 9, 0), Some(0));
        assert_eq!(held.take_late(u64::MAX), (1..=HELD_MAX).collect::<Vec<_>>());
    }
}
