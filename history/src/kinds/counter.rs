//! Counters that are what they cannot be.

use super::{Anomaly, Failure, Seen, Told, before};
use crate::model::{Refused, counter};
use crate::{Operation, Outcome};

pub(super) fn failures(seen: &Seen<'_>) -> Result<Vec<Anomaly>, Refused> {
    let mut added: Vec<(&Operation, i64)> = Vec::new();
    let mut values: Vec<(usize, &Operation, i64)> = Vec::new();
    for (place, one) in seen.operations() {
        // One that failed adds nothing, and takes nothing away.
        if let Some(amount) = counter::added(one)?
            && one.outcome != Outcome::Fail
        {
            added.push((one, amount));
        }
        if let Some(counter::Call::Read(value) | counter::Call::AddAndGet(_, value)) =
            counter::call(one)?
        {
            values.push((place, one, value));
        }
    }
    let mut wrong = values.clone();
    if seen.may_be_old {
        wrong = lasting(seen, &added, wrong);
    }
    let mut found = out_of_bounds(seen, &added, &wrong);
    if added.iter().all(|(_, amount)| *amount >= 0) {
        found.extend(goes_back(seen, &mut values));
    }
    Ok(found)
}

/// Values that a counter cannot have. Those that lack, or have too much of, the same amount, with none
/// between them that does not, are one failure.
fn out_of_bounds(
    seen: &Seen<'_>,
    added: &[(&Operation, i64)],
    values: &[(usize, &Operation, i64)],
) -> Vec<Anomaly> {
    let sums = Sums::of(seen, added);
    let mut told = Told::new();
    let mut failure = 0;
    // From what to what has to be added to make all wrong values right.
    let mut lacking: Option<(i64, i64)> = None;
    for &(place, one, value) in values {
        let (least, most) = sums.bounds(one, one.call);
        let now = (least.saturating_sub(value), most.saturating_sub(value));
        let both = lacking.map(|(from, to)| (from.max(now.0), to.min(now.1)));
        let both = both.filter(|(from, to)| from <= to);
        if (least..=most).contains(&value) {
            lacking = both;
            continue;
        }
        failure += u64::from(both.is_none());
        lacking = both.or(Some(now));
        told.tell(failure, place, || {
            let what = format!(
                "{} saw a value that is not from {least} to {most}",
                seen.words(place)
            );
            seen.anomaly(Failure::CounterWrong, what, [place])
        });
    }
    told.finish()
}

/// Without the values that are only old: they lack what was certainly added before, or still have
/// what was taken away, and a later one may lack, or have, less of it.
fn lasting<'a>(
    seen: &Seen<'_>,
    added: &[(&Operation, i64)],
    mut values: Vec<(usize, &'a Operation, i64)>,
) -> Vec<(usize, &'a Operation, i64)> {
    let sums = Sums::of(seen, added);
    let mut least = least_wrong(&sums, &values);
    let mut open: Vec<(&Operation, i64)> = Vec::new();
    values.retain(|&(_, one, value)| {
        open.retain(|(earlier, _)| !before(earlier, one));
        // One that was called earlier and is still open may be the later one. Nobody asks it for what had
        // ended since its own call, so here it has to be right.
        let is_right = |&(other, value): &(_, _)| sums.wrong(other, value, one.call) == (0, 0);
        let later = least.pop().filter(|_| !open.iter().any(is_right));
        open.push((one, value));
        let (lack, excess) = sums.wrong(one, value, one.call);
        let (least_lack, least_excess) = later.unwrap_or_default();
        let is_made_up = lack > least_lack || excess > least_excess;
        !(is_made_up && sums.wrong(one, value, 0) == (0, 0))
    });
    values
}

/// The least that each value and those that were called later lack, and have too much of. That of the first
/// one is last.
fn least_wrong(sums: &Sums, values: &[(usize, &Operation, i64)]) -> Vec<(i64, i64)> {
    let mut least = (i64::MAX, i64::MAX);
    let all = values.iter().rev().map(|(_, one, value)| {
        let (lack, excess) = sums.wrong(one, *value, one.call);
        least = (least.0.min(lack), least.1.min(excess));
        least
    });
    all.collect()
}

/// So much was taken away, and so much added.
type Sum = (i128, i128);

/// What was added until when.
struct Sums {
    initial: i64,
    /// By all that certainly was before what is called after this event.
    ended: Vec<(usize, Sum)>,
    /// By all that may be before what ends after this event.
    called: Vec<(usize, Sum)>,
}

impl Sums {
    fn of(seen: &Seen<'_>, added: &[(&Operation, i64)]) -> Self {
        let ended = added.iter().filter_map(|(one, amount)| {
            (one.outcome == Outcome::Ok).then_some((one.returned()?, *amount))
        });
        let called = added.iter().map(|(one, amount)| (one.call, *amount));
        Self {
            initial: seen.initial.as_int().unwrap_or(0),
            ended: summed(ended.collect()),
            called: summed(called.collect()),
        }
    }

    /// What a value that an operation saw lacks, and has too much of, if it has to see what had certainly
    /// ended before the event `since`.
    fn wrong(&self, one: &Operation, value: i64, since: usize) -> (i64, i64) {
        let (least, most) = self.bounds(one, since);
        let (lack, excess) = (least.saturating_sub(value), value.saturating_sub(most));
        (lack.max(0), excess.max(0))
    }

    /// The least and the most that a counter can be when an operation looks at it, which has to see what
    /// had certainly ended before the event `since`, and what it did itself.
    fn bounds(&self, one: &Operation, since: usize) -> (i64, i64) {
        let own = counter::added(one).ok().flatten().unwrap_or(0).into();
        let mut certain = sum_before(&self.ended, since);
        certain.0 += 0.min(own);
        certain.1 += 0.max(own);
        let possible = sum_before(&self.called, one.returned().unwrap_or(usize::MAX));
        let bound = |sum: i128| {
            let bound = i128::from(self.initial) + sum;
            bound.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        };
        (bound(possible.0 + certain.1), bound(certain.0 + possible.1))
    }
}

/// Amounts by their events, each with those before it.
fn summed(mut amounts: Vec<(usize, i64)>) -> Vec<(usize, Sum)> {
    amounts.sort_unstable();
    let mut sum = (0, 0);
    let sums = amounts.into_iter().map(|(event, amount)| {
        sum.0 += i128::from(amount.min(0));
        sum.1 += i128::from(amount.max(0));
        (event, sum)
    });
    sums.collect()
}

/// What was added before an event.
fn sum_before(sums: &[(usize, Sum)], event: usize) -> Sum {
    let count = sums.partition_point(|(other, _)| *other < event);
    count.checked_sub(1).map_or((0, 0), |last| sums[last].1)
}

/// Values that are below one that was seen before. Only of counters from which nothing is taken. What
/// grows again after it went back, and is not yet what it was, went back once.
fn goes_back(seen: &Seen<'_>, values: &mut [(usize, &Operation, i64)]) -> Vec<Anomaly> {
    values.sort_by_key(|(_, one, _)| one.call);
    let mut told = Told::new();
    let mut failure = 0;
    let mut since: Option<i64> = None;
    let ends = values
        .iter()
        .map(|(_, one, value)| (one.returned(), *value));
    let later = Later::of(ends);
    for (&(place, one, value), highest) in values.iter().zip(highest_before(values)) {
        // One that may be old says nothing, if what was seen before is there later.
        let below = highest.filter(|(_, highest)| {
            *highest > value && !(seen.may_be_old && later.after(one) >= *highest)
        });
        let Some((earlier, _)) = below else {
            since = None;
            continue;
        };
        failure += u64::from(since.is_none_or(|since| value < since));
        since = Some(value);
        told.tell(failure, place, || back(seen, place, earlier));
    }
    told.finish()
}

/// Of each value the highest of those that had ended before it, and whose that was. They are by their
/// calls.
fn highest_before(values: &[(usize, &Operation, i64)]) -> Vec<Option<(usize, i64)>> {
    let mut by_end: Vec<_> = values.to_vec();
    by_end.sort_by_key(|(_, one, _)| one.returned());
    let mut ended = by_end.into_iter().peekable();
    let mut highest: Option<(usize, i64)> = None;
    let of = |(_, one, _): &(usize, &Operation, i64)| {
        while let Some((earlier, _, value)) = ended.next_if(|(_, earlier, _)| before(earlier, one))
        {
            if highest.is_none_or(|(_, highest)| highest < value) {
                highest = Some((earlier, value));
            }
        }
        highest
    };
    values.iter().map(of).collect()
}

/// By the ends of answers the highest of each and of those that ended later.
struct Later(Vec<(Option<usize>, i64)>);

impl Later {
    fn of(ends: impl Iterator<Item = (Option<usize>, i64)>) -> Self {
        let mut all: Vec<_> = ends.collect();
        all.sort_by_key(|(end, _)| *end);
        for place in (1..all.len()).rev() {
            all[place - 1].1 = all[place - 1].1.max(all[place].1);
        }
        Self(all)
    }

    /// The highest of one of these and of those that may be after it: they had not ended when it was called.
    fn after(&self, one: &Operation) -> i64 {
        let first = self.0.partition_point(|(end, _)| *end < Some(one.call));
        self.0[first].1
    }
}

/// A value that is below an earlier one.
fn back(seen: &Seen<'_>, place: usize, earlier: usize) -> Anomaly {
    let (who, before) = (seen.words(place), seen.words(earlier));
    let what = format!("{who} saw less than was seen before: {before}");
    seen.anomaly(Failure::CounterBack, what, [place, earlier])
}
