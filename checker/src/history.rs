//! The versions of one thing over the operations, and the oldest that a crash may show.

use crate::Promise;

/// How many operations were done: the state before the first is time 0.
pub(crate) type Time = usize;

/// From when on a thing is durable, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// The state at this time, or a later one, is what a crash may show.
    pub(crate) time: Time,
    /// The operation whose return promised that; none for the state that was there from the start.
    pub(crate) by: Option<usize>,
    /// The promise.
    pub(crate) promise: Promise,
}

impl Bound {
    /// The same of another time.
    pub(crate) fn at(self, time: Time) -> Self {
        Self { time, ..self }
    }

    /// Nothing was promised yet but the state from the start.
    pub(crate) const START: Self = Self {
        time: 0,
        by: None,
        promise: Promise::Sync,
    };

    /// The later of two; of equals the first.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.time > self.time { other } else { self }
    }
}

/// The versions of one thing, each with the time from which it was the current one.
#[derive(Debug, Clone)]
pub(crate) struct History<T> {
    versions: Vec<(Time, T)>,
    bound: Bound,
}

impl<T> History<T> {
    /// A thing that was `first` from `time` on.
    pub(crate) fn new(time: Time, first: T) -> Self {
        Self {
            versions: vec![(time, first)],
            bound: Bound::START,
        }
    }

    /// The current version.
    pub(crate) fn current(&self) -> &T {
        &self.versions.last().expect("there is a first version").1
    }

    /// When the current version came to be.
    pub(crate) fn changed(&self) -> Time {
        self.versions.last().expect("there is a first version").0
    }

    /// The version at a time, the first one if it is earlier than that.
    pub(crate) fn at(&self, time: Time) -> &T {
        let after = self.versions.partition_point(|(since, _)| *since <= time);
        &self.versions[after.saturating_sub(1)].1
    }

    /// A new version.
    pub(crate) fn set(&mut self, time: Time, version: T) {
        match self.versions.last_mut() {
            Some((since, current)) if *since == time => *current = version,
            _ => self.versions.push((time, version)),
        }
    }

    /// The same with another version in the place of each.
    pub(crate) fn map(&self, other: impl Fn(Time, &T) -> T) -> Self {
        let versions = self.versions.iter();
        Self {
            versions: versions
                .map(|(since, version)| (*since, other(*since, version)))
                .collect(),
            bound: self.bound,
        }
    }

    /// One more version right before the one of a time.
    pub(crate) fn insert_before(&mut self, time: Time, version: T) {
        let place = self.versions.partition_point(|(since, _)| *since < time);
        self.versions.insert(place, (time, version));
    }

    /// Makes older versions than that at `bound.time` impossible.
    pub(crate) fn raise(&mut self, bound: Bound) {
        self.bound = self.bound.max(bound);
    }

    /// The bound as raised so far.
    pub(crate) fn bound(&self) -> Bound {
        self.bound
    }

    /// Whether any version, however old, is so.
    pub(crate) fn at_any(&self, is_so: impl Fn(&T) -> bool) -> bool {
        self.versions.iter().any(|(_, version)| is_so(version))
    }

    /// The versions, each with the time from which and that up to which it was the current one.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (Time, Time, &T)> {
        let starts =
            std::iter::once(0).chain(self.versions.iter().skip(1).map(|(since, _)| *since));
        let ends = self
            .versions
            .iter()
            .skip(1)
            .map(|(since, _)| *since)
            .chain([Time::MAX]);
        starts
            .zip(ends)
            .zip(&self.versions)
            .map(|((start, end), (_, version))| (start, end, version))
    }

    /// The versions that a crash may show, given that nothing is older than `floor` either.
    pub(crate) fn allowed(&self, floor: Bound) -> &[(Time, T)] {
        let time = self.bound.max(floor).time;
        let after = self.versions.partition_point(|(since, _)| *since <= time);
        &self.versions[after.saturating_sub(1)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_leaves_the_version_of_its_time_and_all_later_ones() {
        let mut history = History::new(0, "a");
        history.set(2, "b");
        history.set(5, "c");
        let seen = |history: &History<&'static str>| {
            history
                .allowed(Bound::START)
                .iter()
                .map(|v| v.1)
                .collect::<String>()
        };
        assert_eq!(seen(&history), "abc");
        history.raise(Bound {
            time: 1,
            ..Bound::START
        });
        assert_eq!(seen(&history), "abc");
        history.raise(Bound {
            time: 4,
            ..Bound::START
        });
        assert_eq!(seen(&history), "bc");
        assert_eq!(
            history
                .allowed(Bound {
                    time: 5,
                    ..Bound::START
                })
                .len(),
            1
        );
        assert_eq!((history.at(1), history.at(4)), (&"a", &"b"));
        assert_eq!(
            history.spans().collect::<Vec<_>>(),
            [(0, 2, &"a"), (2, 5, &"b"), (5, Time::MAX, &"c")]
        );
    }
}
