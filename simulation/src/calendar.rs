//! What is going to happen, in an order that does not depend on when anybody asked for it.

use std::collections::BTreeMap;

/// Who put an event into a calendar: first whoever drives the simulation, then the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Driver,
    Machine(usize),
}

/// Events by time, then by who put them in, then in the order in which that one did.
///
/// The order of arrival decides nothing: machines reach the same time in the order in which they
/// are served, and an event of one must not come before an event of another because of that.
#[derive(Debug, Clone)]
pub(crate) struct Calendar<E> {
    events: BTreeMap<(u64, Source, u64), E>,
    sequence: u64,
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self {
            events: BTreeMap::new(),
            sequence: 0,
        }
    }
}

impl<E> Calendar<E> {
    /// Adds an event at a time in nanoseconds.
    pub(crate) fn add(&mut self, time_ns: u64, source: Source, event: E) {
        self.events.insert((time_ns, source, self.sequence), event);
        self.sequence += 1;
    }

    /// When the next event is.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.events.first_key_value().map(|((time, ..), _)| *time)
    }

    /// Takes the next event out.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        let ((time, ..), event) = self.events.pop_first()?;
        Some((time, event))
    }

    /// Takes out all events of which `stays` is false, and returns how many.
    pub(crate) fn drop_all_but(&mut self, mut stays: impl FnMut(&E) -> bool) -> usize {
        let before = self.events.len();
        self.events.retain(|_, event| stays(event));
        before - self.events.len()
    }

    /// All events with their times, the next first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &E)> {
        self.events.iter().map(|((time, ..), event)| (*time, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_events_is_that_of_times_and_sources_whoever_came_first() {
        let mut calendar = Calendar::default();
        calendar.add(7, Source::Machine(1), "second machine");
        calendar.add(7, Source::Machine(0), "first machine");
        calendar.add(9, Source::Driver, "later");
        calendar.add(7, Source::Machine(0), "first machine again");
        calendar.add(7, Source::Driver, "driver");
        let order: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
        let names = [
            "driver",
            "first machine",
            "first machine again",
            "second machine",
        ];
        let mut expected: Vec<_> = names.map(|name| (7, name)).to_vec();
        expected.push((9, "later"));
        assert_eq!(order, expected);
        assert_eq!(calendar.next_ns(), None);
    }

    #[test]
    fn events_that_do_not_stay_are_gone_and_counted() {
        let mut calendar = Calendar::default();
        for (time_ns, name) in [(1, "a"), (2, "b"), (2, "a"), (3, "c")] {
            calendar.add(time_ns, Source::Driver, name);
        }
        assert_eq!(calendar.drop_all_but(|name| *name != "a"), 2);
        let left: Vec<_> = std::iter::from_fn(|| calendar.pop()).collect();
        assert_eq!(left, [(2, "b"), (3, "c")]);
    }
}
