//! How many operations a crash can cost, by the number of events before it.

use itertools::Itertools;

use super::{Group, Operations};
use crate::nodes::narrow::Narrow;

/// How many operations a crash can cost.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::nodes) struct Losable {
    /// All that have something that is not durable.
    pub(in crate::nodes) all: u32,
    /// Those of which a name, a size or a mode is not durable.
    pub(in crate::nodes) named: u32,
    /// Those of which the bytes can be lost, and the size be there.
    pub(in crate::nodes) bytes: u32,
    /// The ways to tear one of them.
    pub(in crate::nodes) tears: u32,
    /// Those of which something is not durable that is neither a name nor a mode.
    pub(in crate::nodes) data: u32,
    /// Those that can be torn.
    pub(in crate::nodes) torn: u32,
    /// Those of which the disk has something in a log tree, if nothing was committed meanwhile.
    pub(in crate::nodes) logged: u32,
    /// None of those before this one.
    pub(in crate::nodes) first: u32,
}

/// By how much each of the numbers of [`Losable`] but the last changes with an event.
type Change = [i32; 7];

impl Operations {
    /// Counts the operations at risk, by number of events.
    pub(super) fn count(&mut self, events: usize) {
        let mut changes = vec![Change::default(); events + 2];
        for number in 0..self.all.len() {
            self.all[number].bytes_until = self.cover_of_bytes(number);
            self.add_changes(number, events, &mut changes);
        }
        self.at_risk.reserve_exact(changes.len());
        let (mut sums, mut first) = (Change::default(), 0);
        for (events, change) in changes.iter().enumerate() {
            for (sum, change) in sums.iter_mut().zip(change) {
                *sum += change;
            }
            while first < self.all.len() && self.is_over(first, events) {
                first += 1;
            }
            let [all, named, bytes, tears, data, torn, logged] = sums.map(|count| count as u32);
            self.at_risk.push(Losable {
                all,
                named,
                bytes,
                tears,
                data,
                torn,
                logged,
                first: first as u32,
            });
        }
    }

    /// Adds when an operation comes to be at risk, and when it ceases to be, to what each number of
    /// events changes.
    fn add_changes(&self, number: usize, events: usize, changes: &mut [Change]) {
        let operation = &self.all[number];
        let event = operation.event();
        let until = |until: Narrow| (event, until.get());
        let tears = self.tears_of(operation);
        let torn_until = tears.iter().map(|tear| tear.until).max();
        let times = [
            self.times(number, |_| true),
            self.times(number, |group| group.is_named),
            operation.bytes_until.into_iter().map(until).collect(),
            tears.iter().map(|tear| until(tear.until)).collect(),
            self.times(number, |group| !group.is_named),
            torn_until.into_iter().map(until).collect(),
            self.times_in_log(number),
        ];
        for (class, times) in times.into_iter().enumerate() {
            for (from, until) in times {
                changes[from + 1][class] += 1;
                changes[until.min(events) + 1][class] -= 1;
            }
        }
    }

    /// Whether no crash after so many events, or more, can cost anything of an operation.
    fn is_over(&self, operation: usize, events: usize) -> bool {
        let times = self.times(operation, |_| true);
        times.last().is_none_or(|(_, until)| *until < events)
    }

    /// When a crash can cost some of an operation's groups, as stretches of events that do not
    /// overlap, in order.
    fn times(&self, operation: usize, is_meant: impl Fn(&Group) -> bool) -> Vec<(usize, usize)> {
        let operation = &self.all[operation];
        let own = self.groups[operation.groups()].iter();
        let meant = own.filter(|group| !group.is_repetition() && is_meant(group));
        let times = meant.flat_map(|group| group.at_risk(operation.event()));
        let join = |before: (usize, usize), next: (usize, usize)| {
            if next.0 <= before.1 {
                Ok((before.0, before.1.max(next.1)))
            } else {
                Err((before, next))
            }
        };
        times.sorted().coalesce(join).collect()
    }

    /// When a crash can cost something of an operation that the disk has if a log tree has it.
    fn times_in_log(&self, operation: usize) -> Vec<(usize, usize)> {
        let follows = |group| self.follows(group);
        let all = self.all[operation].groups().filter_map(follows);
        let written = all.filter(|follows| follows.is_written(usize::MAX));
        let Some(from) = written.map(|follows| follows.written.get()).min() else {
            return Vec::new();
        };
        let times = self.times(operation, |group| group.is_named).into_iter();
        let times = times.map(|(first, until)| (first.max(from), until));
        times.filter(|(first, until)| first < until).collect()
    }

    /// The event after whose return some of an operation's groups are durable; nothing if there are
    /// none of those.
    fn cover_of(&self, operation: usize, is_meant: impl Fn(usize) -> bool) -> Option<Narrow> {
        let groups = self.all[operation].groups();
        let meant = groups.filter(|group| is_meant(*group));
        meant.map(|group| self.groups[group].cover).max()
    }

    /// The last event after which its bytes can be lost and its size be there: both are at risk,
    /// and the size does not go with the bytes.
    fn cover_of_bytes(&self, operation: usize) -> Option<Narrow> {
        if !self.has_size_alone(operation) {
            return None;
        }
        let (event, groups) = (self.all[operation].event(), self.all[operation].groups());
        let is_bytes = |group: usize| self.is_bytes(group);
        let bytes: Vec<_> = groups.clone().filter(|group| is_bytes(*group)).collect();
        let end = self.groups[groups.end - 1].micros().end;
        let goes_too = self.lost_with(&bytes, end, event + 1).len() == groups.len();
        let of_bytes = self.cover_of(operation, is_bytes)?;
        let of_others = self.cover_of(operation, |group| !is_bytes(group))?;
        (!goes_too).then_some(of_bytes.min(of_others))
    }

    /// Whether a crash after so many events can cost the bytes of an operation, and leave its size.
    pub(in crate::nodes) fn risks_bytes(&self, operation: usize, events: usize) -> bool {
        let operation = &self.all[operation];
        let is_ahead = |until: Narrow| operation.event() < events && events <= until.get();
        operation.bytes_until.is_some_and(is_ahead)
    }

    /// How many operations a crash after so many events can cost.
    pub(in crate::nodes) fn at_risk(&self, events: usize) -> Losable {
        self.at_risk[events]
    }
}
