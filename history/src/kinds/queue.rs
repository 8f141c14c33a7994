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
        let all: Vec<_> = element
            .taken
            .iter()
            .map(|(place, _)| seen.words(*place))
            .collect();
        let times = if possible == 1 {
            "once".to_owned()
        } else {
            format!("{possible} times")
        };
        let what = format!(
            "put in {times}, and taken {} times: {}",
            element.taken.len(),
            all.join(", ")
        );
        let operations: Vec<_> = element
            .put
            .iter()
            .chain(&element.taken)
            .map(|(place, _)| *place)
            .collect();
        return Some(seen.anomaly(Failure::DoubleDequeue, what, operations));
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

/// What a client that found nothing should have found.
fn lost(
    seen: &Seen<'_>,
    (place, empty): Placed<'_>,
    elements: &BTreeMap<&Value, Element<'_>>,
    unknown: &[&Operation],
) -> Option<Anomaly> {
    let returned = empty.returned()?;
    // Of each element the ones that are certainly in it. Who took one may have done so before.
    let there: Vec<_> = elements
        .values()
        .filter_map(|element| {
            let mut put = element
                .put
                .iter()
                .filter(|(_, put)| put.outcome == Outcome::Ok && before(put, empty));
            let taken = element
                .taken
                .iter()
                .filter(|(_, taken)| taken.call < returned)
                .count();
            let left = put.clone().count().saturating_sub(taken);
            Some((element, put.next_back()?.0, left)).filter(|(_, _, left)| *left > 0)
        })
        .collect();
    let count: usize = there.iter().map(|(_, _, left)| left).sum();
    // Each of these may have taken one.
    let may_be_taken = unknown.iter().filter(|one| one.call < returned).count();
    if count <= may_be_taken {
        return None;
    }
    let &(element, put, _) = there.first()?;
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
