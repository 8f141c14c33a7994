//! How many operations a crash can cost, by the number of events before it.

use itertools::Itertools;

use super::Operations;
use crate::nodes::narrow::Narrow;

/// How many operations a crash can cost.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::nodes) struct Losable {
    /// All that have something that is not durable.
    pub(in crate::nodes) all: u32,
    /// Those of which a name, a size or a mode is not durable.
    pub(in crate::nodes) named: u32,
    /// Those of which a half can be lost, and the other one be there.
    pub(in crate::nodes) halves: u32,
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
            self.all[number].half_until = self.cover_of_half(number);
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
            let [all, named, halves, tears, data, torn, logged] = sums.map(|count| count as u32);
            self.at_risk.push(Losable {
                all,
                named,
                halves,
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
        let is_named = |group: usize| self.groups[group].is_named;
        let torn_until = tears.iter().map(|tear| tear.until).max();
        let times = [
            self.times(number, |_| true),
            self.times(number, is_named),
            self.times_of_half(number),
            tears.iter().map(|tear| until(tear.until)).collect(),
            self.times(number, |group| !is_named(group)),
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
    fn times(&self, operation: usize, is_meant: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
        let operation = &self.all[operation];
        let own = |group: &usize| !self.groups[*group].is_repetition();
        let own = operation.groups().filter(own);
        let meant = own.filter(|group| is_meant(*group));
        let times = meant.flat_map(|group| self.groups[group].at_risk(operation.event()));
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
        let is_named = |group: usize| self.groups[group].is_named;
        let all = self.all[operation].groups().filter_map(follows);
        let written = all.filter(|follows| follows.is_written(usize::MAX));
        let Some(from) = written.map(|follows| follows.written.get()).min() else {
            return Vec::new();
        };
        let times = self.times(operation, is_named).into_iter();
        let times = times.map(|(first, until)| (first.max(from), until));
        times.filter(|(first, until)| first < until).collect()
    }

    /// The event after whose return some of these groups are durable; nothing if there are none.
    fn cover_of<'a>(&self, groups: impl IntoIterator<Item = &'a usize>) -> Option<Narrow> {
        let covers = groups.into_iter().map(|group| self.groups[*group].cover);
        covers.max()
    }

    /// The last event after which a half of an operation can be lost, and the other one be there:
    /// both are at risk, and the other one does not go with it.
    fn cover_of_half(&self, operation: usize) -> Option<Narrow> {
        let has_size = self.has_size_alone(operation);
        let groups = self.all[operation].groups();
        let own = groups.filter(|group| !self.groups[*group].is_repetition());
        let (half, others): (Vec<_>, Vec<_>) =
            own.partition(|group| self.is_of_half(*group, has_size));
        let of_half = self.cover_of(&half)?.min(self.cover_of(&others)?);
        let end = self.groups[half.iter().chain(&others).copied().max()?]
            .micros()
            .end;
        let lost = self.lost_with(&half, end, self.all[operation].event() + 1);
        let goes_too = others.iter().all(|group| lost.contains(group));
        (!goes_too).then_some(of_half)
    }

    /// When a crash can cost a half of an operation, and leave the other one.
    fn times_of_half(&self, number: usize) -> Vec<(usize, usize)> {
        let Some(end) = self.all[number].half_until else {
            return Vec::new();
        };
        let has_size = self.has_size_alone(number);
        let times = self.times(number, |group| self.is_of_half(group, has_size));
        let times = times.into_iter();
        let times = times.map(|(first, until)| (first, until.min(end.get())));
        times.filter(|(first, until)| first < until).collect()
    }

    /// Whether a crash after so many events can cost a half of an operation, and leave the other one.
    pub(in crate::nodes) fn risks_half(&self, operation: usize, events: usize) -> bool {
        let until = self.all[operation].half_until;
        until.is_some_and(|until| events <= until.get())
            && self.open_half(operation, events).next().is_some()
    }

    /// How many operations a crash after so many events can cost.
    pub(in crate::nodes) fn at_risk(&self, events: usize) -> Losable {
        self.at_risk[events]
    }
}
