//! Elements that were taken twice, or are gone.

use std::collections::BTreeMap;

use super::{Anomaly, Failure, Seen, before, may_be_before};
use crate::model::queue::IN;
use crate::{Operation, Outcome, Value};

type Placed<'a> = (usize, &'a Operation);

/// Who put an element in, and who took it.
#[derive(Default)]
struct Element<'a> {
    put: Vec<Placed<'a>>,
    taken: Vec<Placed<'a>>,
}

/// An element that is certainly in the queue: so often, and who put it in last.
struct Left<'a> {
    element: &'a Element<'a>,
    put: usize,
    count: usize,
}

impl Element<'_> {
    /// What somebody who found the queue empty should have found. Who took one may have done so
    /// before.
    fn left(&self, empty: &Operation, returned: usize) -> Option<Left<'_>> {
        let mut put = self
            .put
            .iter()
            .filter(|(_, put)| put.outcome == Outcome::Ok && before(put, empty));
        let taken = self
            .taken
            .iter()
            .filter(|(_, taken)| taken.call < returned)
            .count();
        let count = put.clone().count().saturating_sub(taken);
        let put = put.next_back()?.0;
        let element = self;
        (count > 0).then_some(Left {
            element,
            put,
            count,
        })
    }
}

pub(super) fn failures(seen: &Seen<'_>) -> Vec<Anomaly> {
    let mut elements: BTreeMap<&Value, Element<'_>> = BTreeMap::new();
    let (mut empty, mut unknown) = (Vec::new(), Vec::new());
    for (place, one) in seen.operations() {
        match (IN.contains(&one.f.as_str()), one.outcome) {
            (true, _) => elements
                .entry(&one.argument)
                .or_default()
                .put
                .push((place, one)),
            (false, Outcome::Ok) if one.result.is_null() => empty.push((place, one)),
            (false, Outcome::Ok) => elements
                .entry(&one.result)
                .or_default()
                .taken
                .push((place, one)),
            (false, Outcome::Unknown) => unknown.push(one),
            (false, Outcome::Fail) => {}
        }
    }
    let mut found: Vec<_> = elements
        .values()
        .filter_map(|element| taken_too_often(seen, element))
        .collect();
    found.extend(
        empty
            .iter()
            .filter_map(|&empty| lost(seen, empty, &elements, &unknown)),
    );
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
fn lost(
    seen: &Seen<'_>,
    (place, empty): Placed<'_>,
    elements: &BTreeMap<&Value, Element<'_>>,
    unknown: &[&Operation],
) -> Option<Anomaly> {
    let returned = empty.returned()?;
    let there: Vec<_> = elements
        .values()
        .filter_map(|element| element.left(empty, returned))
        .collect();
    let count: usize = there.iter().map(|left| left.count).sum();
    // Each of these may have taken one.
    let may_be_taken = unknown.iter().filter(|one| one.call < returned).count();
    if count <= may_be_taken {
        return None;
    }
    let &Left { element, put, .. } = there.first()?;
    let who = seen.words(place);
    let words = seen.words(put);
    let later = element
        .taken
        .iter()
        .find(|(_, taken)| taken.call > returned);
    Some(match later {
        Some((later, _)) => seen.anomaly(
            Failure::StaleRead,
            format!("{who} found nothing, where this was acknowledged before: {words}; later it was there: {}", seen.words(*later)),
            [place, put, *later],
        ),
        None => seen.anomaly(
            Failure::ElementLost,
            format!("{who} found nothing, where this was acknowledged before, and nobody took it: {words}"),
            [place, put],
        ),
    })
}
