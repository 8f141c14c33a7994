//! Elements that were taken twice, or are gone.

use std::collections::BTreeMap;

use super::{Anomaly, Failure, Seen, Told, before, may_be_before};
use crate::model::queue::IN;
use crate::{Operation, Outcome, Value};

type Placed<'a> = (usize, &'a Operation);

/// Who put an element in, and who took it.
#[derive(Default)]
struct Element<'a> {
    put: Vec<Placed<'a>>,
    taken: Vec<Placed<'a>>,
}

/// One that somebody who found the queue empty should have found, unless somebody of whom nobody knows
/// what he took had taken it.
struct Left {
    /// Who put it in.
    put: usize,
    /// Who took it later.
    taken: Option<usize>,
}

impl Element<'_> {
    /// Where it was put in first, if it certainly was, and the call after which none of it can be left.
    fn span(&self) -> Option<(usize, usize)> {
        let put = self
            .put
            .iter()
            .filter(|(_, put)| put.outcome == Outcome::Ok);
        let first = put.clone().filter_map(|(_, put)| put.returned()).min()?;
        let last = self
            .taken
            .last()
            .filter(|_| self.taken.len() >= put.count());
        Some((first, last.map_or(usize::MAX, |(_, taken)| taken.call)))
    }

    /// All that is left of it when somebody finds the queue empty. Who took one may have done so before.
    fn left(&self, empty: &Operation, returned: usize) -> Vec<Left> {
        let put = self
            .put
            .iter()
            .filter(|(_, put)| put.outcome == Outcome::Ok && before(put, empty));
        let (earlier, later): (Vec<_>, Vec<_>) = self
            .taken
            .iter()
            .partition(|(_, taken)| taken.call < returned);
        let mut later = later.into_iter().map(|(place, _)| place);
        let put = put.skip(earlier.len()).map(|(put, _)| *put);
        put.map(move |put| Left {
            put,
            taken: later.next(),
        })
        .collect()
    }
}

/// What was done with a queue.
#[derive(Default)]
struct Done<'a> {
    elements: BTreeMap<&'a Value, Element<'a>>,
    /// Those that found nothing.
    empty: Vec<Placed<'a>>,
    /// Those that may have taken something.
    unknown: Vec<&'a Operation>,
}

impl<'a> Done<'a> {
    fn of(seen: &Seen<'a>) -> Self {
        let mut done = Self::default();
        for (place, one) in seen.operations() {
            let placed = (place, one);
            match (IN.contains(&one.f.as_str()), one.outcome) {
                (true, _) => done.element(&one.argument).put.push(placed),
                (false, Outcome::Ok) if one.result.is_null() => done.empty.push(placed),
                (false, Outcome::Ok) => done.element(&one.result).taken.push(placed),
                (false, Outcome::Unknown) => done.unknown.push(one),
                (false, Outcome::Fail) => {}
            }
        }
        done
    }

    fn element(&mut self, value: &'a Value) -> &mut Element<'a> {
        self.elements.entry(value).or_default()
    }
}

/// The elements of which something may be left when somebody finds the queue empty.
struct Waiting<'a> {
    /// Those of later, the next one last: where they were put in, and until when they may be left.
    later: Vec<((usize, usize), &'a Value, &'a Element<'a>)>,
    now: BTreeMap<&'a Value, (usize, &'a Element<'a>)>,
}

impl<'a> Waiting<'a> {
    fn of(done: &'a Done<'_>) -> Self {
        let elements = done.elements.iter();
        let mut later: Vec<_> = elements
            .filter_map(|(value, element)| Some((element.span()?, *value, element)))
            .collect();
        later.sort_by_key(|(span, ..)| std::cmp::Reverse(span.0));
        let now = BTreeMap::new();
        Self { later, now }
    }

    /// Those of this call. Calls come in order.
    fn at(&mut self, call: usize) -> impl Iterator<Item = &'a Element<'a>> {
        while let Some(((_, last), value, element)) =
            self.later.pop_if(|((first, _), ..)| *first < call)
        {
            self.now.insert(value, (last, element));
        }
        self.now.retain(|_, (last, _)| *last >= call);
        self.now.values().map(|(_, element)| *element)
    }
}

pub(super) fn failures(seen: &Seen<'_>) -> Vec<Anomaly> {
    let done = Done::of(seen);
    let elements = done.elements.values();
    let mut found: Vec<_> = elements
        .filter_map(|element| taken_too_often(seen, element))
        .collect();
    let mut told = Told::new();
    let mut waiting = Waiting::of(&done);
    for &(place, empty) in &done.empty {
        let Some(missed) = missed(empty, waiting.at(empty.call), &done.unknown) else {
            continue;
        };
        for (kind, left) in missed.failures() {
            told.tell((kind, left.put), place, || {
                missed.anomaly(seen, place, kind, left)
            });
        }
    }
    found.extend(told.finish());
    found
}

fn taken_too_often(seen: &Seen<'_>, element: &Element<'_>) -> Option<Anomaly> {
    let &(last, taken) = element.taken.last()?;
    let possible = element
        .put
        .iter()
        .filter(|(_, put)| put.outcome != Outcome::Fail)
        .count();
    if element.taken.len() > possible && possible > 0 {
        return Some(double_dequeue(seen, element, possible));
    }
    let returned = taken.returned()?;
    if element
        .put
        .iter()
        .any(|(_, put)| may_be_before(put, returned))
    {
        return None;
    }
    let who = seen.words(last);
    Some(
        match element.put.iter().find(|(_, put)| put.call < returned) {
            Some((failed, _)) => seen.anomaly(
                Failure::DirtyRead,
                format!("{who} took what was refused: {}", seen.words(*failed)),
                [last, *failed],
            ),
            None => seen.anomaly(
                Failure::NeverWritten,
                format!("{who} took what nobody had put in"),
                [last],
            ),
        },
    )
}

/// An element that was taken more often than it can have been put in.
fn double_dequeue(seen: &Seen<'_>, element: &Element<'_>, possible: usize) -> Anomaly {
    let places =
        |placed: &[Placed<'_>]| -> Vec<usize> { placed.iter().map(|(place, _)| *place).collect() };
    let taken = places(&element.taken);
    let all: Vec<_> = taken.iter().map(|&place| seen.words(place)).collect();
    let times = if possible == 1 {
        "once".to_owned()
    } else {
        format!("{possible} times")
    };
    let what = format!(
        "put in {times}, and taken {} times: {}",
        taken.len(),
        all.join(", ")
    );
    let operations = [places(&element.put), taken].concat();
    seen.anomaly(Failure::DoubleDequeue, what, operations)
}

/// What a client that found nothing should have found.
struct Missed {
    /// What was left and taken later, then what nobody is known to have taken.
    left: Vec<Left>,
    /// How many of these certainly were there.
    count: usize,
    /// How many of them are certainly lost: of those that nobody took, more than may have been taken.
    lost: usize,
    /// How many operations may have taken any of them.
    unknown: usize,
}

/// What a client that found nothing should have found, if anything.
fn missed<'a>(
    empty: &Operation,
    elements: impl Iterator<Item = &'a Element<'a>>,
    unknown: &[&Operation],
) -> Option<Missed> {
    let returned = empty.returned()?;
    let all = elements.flat_map(|element| element.left(empty, returned));
    let (mut left, never): (Vec<_>, Vec<_>) = all.partition(|left| left.taken.is_some());
    if left.is_empty() && never.is_empty() {
        return None;
    }
    // Each of these may have taken one.
    let may_be_taken = unknown.iter().filter(|one| one.call < returned).count();
    let lost = never.len().saturating_sub(unknown.len());
    left.extend(never);
    let count = left.len().saturating_sub(may_be_taken);
    (count > 0).then_some(Missed {
        left,
        count,
        lost,
        unknown: unknown.len(),
    })
}

impl Missed {
    /// As many as certainly were there, each with what became of it. Of those that may have been taken
    /// nobody knows which they are: the first are named.
    fn failures(&self) -> impl Iterator<Item = (Failure, &Left)> {
        let never = self.left.iter().filter(|left| left.taken.is_none());
        let lost = never.clone().take(self.lost);
        let taken = self.left.iter().filter(|left| left.taken.is_some());
        let stale = taken.chain(never.skip(self.lost));
        let stale = stale.take(self.count - self.lost);
        let lost = lost.map(|left| (Failure::ElementLost, left));
        lost.chain(stale.map(|left| (Failure::StaleRead, left)))
    }

    fn anomaly(&self, seen: &Seen<'_>, place: usize, kind: Failure, left: &Left) -> Anomaly {
        let who = seen.words(place);
        let words = seen.words(left.put);
        let found_nothing = format!("{who} found nothing, where this was acknowledged before");
        let of_unknown = self.unknown;
        let what = match (kind, left.taken) {
            (Failure::ElementLost, _) if of_unknown == 0 => {
                format!("{found_nothing}, and nobody took it: {words}")
            }
            (Failure::ElementLost, _) => format!(
                "{found_nothing}, and of those that nobody is known to have taken, more than the {of_unknown} operations of unknown outcome can have taken: {words}"
            ),
            (_, Some(later)) => format!(
                "{found_nothing}: {words}; later it was there: {}",
                seen.words(later)
            ),
            (_, None) => format!(
                "{found_nothing}: {words}; later an operation of unknown outcome may have taken it"
            ),
        };
        let shown: Vec<_> = [place, left.put].into_iter().chain(left.taken).collect();
        seen.anomaly(kind, what, shown)
    }
}
