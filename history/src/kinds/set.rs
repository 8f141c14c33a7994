//! Elements of sets that are gone, or were never there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Anomaly, Failure, Seen, before, may_be_before};
use crate::{Operation, Outcome, Value};

type Placed<'a> = (usize, &'a Operation);

/// Who added an element, and who removed it.
#[derive(Default)]
struct Element<'a> {
    added: Vec<Placed<'a>>,
    removed: Vec<Placed<'a>>,
}

/// Of each element who added and who removed it.
fn elements<'a>(seen: &Seen<'a>) -> BTreeMap<&'a Value, Element<'a>> {
    let mut elements: BTreeMap<&Value, Element<'_>> = BTreeMap::new();
    for (place, one) in seen.operations() {
        match one.f.as_str() {
            "add" => elements
                .entry(&one.argument)
                .or_default()
                .added
                .push((place, one)),
            "remove" => elements
                .entry(&one.argument)
                .or_default()
                .removed
                .push((place, one)),
            _ => {}
        }
    }
    elements
}

pub(super) fn failures(seen: &Seen<'_>) -> Vec<Anomaly> {
    let elements = elements(seen);
    let initial: BTreeSet<&Value> = seen.initial.as_list().unwrap_or_default().iter().collect();
    let mut found = Vec::new();
    let mut told = BTreeSet::new();
    for (place, read) in seen
        .called(&["read"])
        .filter(|(_, one)| one.outcome == Outcome::Ok)
    {
        let read_elements: BTreeSet<&Value> =
            read.result.as_list().unwrap_or_default().iter().collect();
        for &value in &read_elements {
            let element = elements.get(value);
            found.extend(
                wrongly_there(seen, place, read, value, element, initial.contains(value))
                    .filter(|found| told.insert((found.kind, value))),
            );
        }
        for (value, element) in &elements {
            if !read_elements.contains(value) {
                found.extend(
                    wrongly_gone(seen, place, read, value, element)
                        .filter(|found| told.insert((found.kind, value))),
                );
            }
        }
    }
    found
}

fn wrongly_there(
    seen: &Seen<'_>,
    place: usize,
    read: &Operation,
    value: &Value,
    element: Option<&Element<'_>>,
    is_initial: bool,
) -> Option<Anomaly> {
    let returned = read.returned()?;
    let who = format!(
        "process {} saw {value} in event {}",
        read.process,
        seen.history.events()[returned].index
    );
    let added = element.map_or(&[][..], |element| &element.added);
    let mut possible = added
        .iter()
        .filter(|(_, add)| may_be_before(add, returned))
        .peekable();
    if possible.peek().is_none() && !is_initial {
        return Some(never_added(seen, place, &who, added, returned));
    }
    let removed = &element?.removed;
    let (remove, _) = removed.iter().find(|(_, remove)| {
        remove.outcome == Outcome::Ok
            && before(remove, read)
            && possible.clone().all(|(_, add)| before(add, remove))
    })?;
    let what = format!("{who}, which had been removed: {}", seen.words(*remove));
    Some(seen.anomaly(Failure::DeletedBack, what, [place, *remove]))
}

/// An element that was seen before anybody can have added it.
fn never_added(
    seen: &Seen<'_>,
    place: usize,
    who: &str,
    added: &[Placed<'_>],
    returned: usize,
) -> Anomaly {
    match added.iter().find(|(_, add)| add.call < returned) {
        Some((add, _)) => seen.anomaly(
            Failure::DirtyRead,
            format!("{who}, which was refused: {}", seen.words(*add)),
            [place, *add],
        ),
        None => seen.anomaly(
            Failure::NeverWritten,
            format!("{who}, which nobody had added"),
            [place],
        ),
    }
}

fn wrongly_gone(
    seen: &Seen<'_>,
    place: usize,
    read: &Operation,
    value: &Value,
    element: &Element<'_>,
) -> Option<Anomaly> {
    let returned = read.returned()?;
    let acknowledged = |&&(_, add): &&Placed<'_>| add.outcome == Outcome::Ok && before(add, read);
    let (add, operation) = element.added.iter().rfind(acknowledged)?;
    // One that had ended before it was added is in nobody's way.
    let in_the_way =
        |(_, remove): &Placed<'_>| may_be_before(remove, returned) && !before(remove, operation);
    if element.removed.iter().any(in_the_way) {
        return None;
    }
    let later = seen.called(&["read"]).find(|(_, other)| {
        let elements = other.result.as_list().unwrap_or_default();
        other.call > read.call && elements.contains(value)
    });
    let who = format!(
        "process {} did not see {value} in event {}",
        read.process,
        seen.history.events()[returned].index
    );
    let words = seen.words(*add);
    Some(match later {
        Some((later, _)) => seen.anomaly(
            Failure::StaleRead,
            format!("{who}, which was acknowledged before: {words}; later it was there"),
            [place, *add, later],
        ),
        None => seen.anomaly(
            Failure::ElementLost,
            format!("{who}, which was acknowledged before, and nobody did after it: {words}"),
            [place, *add],
        ),
    })
}
