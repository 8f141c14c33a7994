//! Elements of sets that are gone, or were never there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Anomaly, Failure, Seen, Told, before, may_be_before};
use crate::{Operation, Outcome, Value};

type Placed<'a> = (usize, &'a Operation);

/// Who added an element, and who removed it.
#[derive(Default)]
struct Element<'a> {
    /// Whether it was there at first.
    is_initial: bool,
    added: Vec<Placed<'a>>,
    removed: Vec<Placed<'a>>,
}

/// Of each element who added and who removed it.
fn elements<'a>(seen: &Seen<'a>) -> BTreeMap<&'a Value, Element<'a>> {
    let mut elements: BTreeMap<&Value, Element<'_>> = BTreeMap::new();
    for value in seen.initial.as_list().unwrap_or_default() {
        elements.entry(value).or_default().is_initial = true;
    }
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

/// What one set's reads are held against.
struct Known<'a> {
    elements: BTreeMap<&'a Value, Element<'a>>,
    /// Of each element where the last read of it ended.
    last_seen: HashMap<&'a Value, usize>,
    /// Of each element that was removed where the last read without it ended.
    last_missed: HashMap<&'a Value, usize>,
    /// Whether a read may be old.
    may_be_old: bool,
}

impl<'a> Known<'a> {
    /// Takes in what a read, which come in the order of their ends, says of what it has and has not.
    fn add(&mut self, read: &'a Operation) {
        let end = read.returned().unwrap_or(read.call);
        if let Value::Bool(is_there) = read.result {
            // Who asked for one element saw that one only.
            let last = if is_there {
                &mut self.last_seen
            } else {
                &mut self.last_missed
            };
            last.insert(&read.argument, end);
            return;
        }
        let all: BTreeSet<_> = read.result.as_list().unwrap_or_default().iter().collect();
        let removed = self
            .elements
            .iter()
            .filter(|(_, one)| !one.removed.is_empty());
        let missed = removed
            .map(|(value, _)| *value)
            .filter(|value| !all.contains(value));
        self.last_missed.extend(missed.map(|value| (value, end)));
        self.last_seen
            .extend(all.into_iter().map(|value| (value, end)));
    }

    /// What it is that a read has an element that was removed. A removal that was seen after it, or may have
    /// been, has not been undone: the read was old.
    fn of_removed(&self, value: &Value, read: &Operation) -> Failure {
        let last_missed = self.last_missed.get(value);
        let added = self.elements.get(value).map(|element| &element.added);
        if last_missed.is_some_and(|&last| last > read.call)
            || self.may_be_undone(read, added.map_or(&[], Vec::as_slice))
        {
            Failure::StaleRead
        } else {
            Failure::DeletedBack
        }
    }

    /// What it is that a read has not an element that was added.
    fn of_added(&self, value: &Value, read: &Operation) -> Failure {
        let last_seen = self.last_seen.get(value);
        let removed = self.elements.get(value).map(|element| &element.removed);
        if last_seen.is_some_and(|&last| last > read.call)
            || self.may_be_undone(read, removed.map_or(&[], Vec::as_slice))
        {
            Failure::StaleRead
        } else {
            Failure::ElementLost
        }
    }

    /// Whether one of these may have undone, before anybody saw it, what an old read does not see.
    fn may_be_undone(&self, read: &Operation, others: &[Placed<'_>]) -> bool {
        let may_be_later =
            |(_, other): &Placed<'_>| other.outcome != Outcome::Fail && other.call > read.call;
        self.may_be_old && others.iter().any(may_be_later)
    }
}

/// What reads that show one failure have in common: which failure, the other operation that shows it, and
/// the element.
type Same<'a> = (Failure, Option<usize>, &'a Value);

pub(super) fn failures(seen: &Seen<'_>) -> Vec<Anomaly> {
    let looks = seen.called(&["read", "contains"]);
    let looks: Vec<_> = looks
        .filter(|(_, one)| one.outcome == Outcome::Ok)
        .collect();
    let mut known = Known {
        elements: elements(seen),
        last_seen: HashMap::new(),
        last_missed: HashMap::new(),
        may_be_old: seen.may_be_old,
    };
    let mut by_end = looks.clone();
    by_end.sort_by_key(|(_, look)| look.returned());
    for (_, look) in by_end {
        known.add(look);
    }
    let mut told = Told::new();
    for look in looks {
        look_at(seen, look, &known, &mut told);
    }
    told.finish()
}

/// What is wrong with what somebody saw.
fn look_at<'a>(
    seen: &Seen<'a>,
    (place, read): Placed<'a>,
    known: &Known<'a>,
    told: &mut Told<Same<'a>>,
) {
    let is_one = matches!(read.result, Value::Bool(_));
    let read_elements: BTreeSet<&Value> = match &read.result {
        Value::Bool(true) => [&read.argument].into(),
        result => result.as_list().unwrap_or_default().iter().collect(),
    };
    for &value in &read_elements {
        let found = wrongly_there(seen, (place, read), value, known);
        if let Some((other, anomaly)) = found {
            told.tell((anomaly.kind, other, value), place, || anomaly);
        }
    }
    // Who asked for one element saw that one only.
    let missing = known.elements.iter();
    let missing = missing.filter(|(value, _)| {
        !read_elements.contains(*value) && (!is_one || **value == &read.argument)
    });
    for (&value, element) in missing {
        let Some(since) = lacking(read, element) else {
            continue;
        };
        let kind = known.of_added(value, read);
        told.tell((kind, since.add(), value), place, || {
            wrongly_gone(seen, (place, read), value, since, kind)
        });
    }
}

/// An element that was seen where it cannot have been; and the other operation that shows it.
fn wrongly_there(
    seen: &Seen<'_>,
    (place, read): Placed<'_>,
    value: &Value,
    known: &Known<'_>,
) -> Option<(Option<usize>, Anomaly)> {
    let element = known.elements.get(value);
    let is_initial = element.is_some_and(|element| element.is_initial);
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
    let anomaly = seen.anomaly(known.of_removed(value, read), what, [place, *remove]);
    Some((Some(*remove), anomaly))
}

/// An element that was seen before anybody can have added it.
fn never_added(
    seen: &Seen<'_>,
    place: usize,
    who: &str,
    added: &[Placed<'_>],
    returned: usize,
) -> (Option<usize>, Anomaly) {
    if let Some((add, _)) = added.iter().find(|(_, add)| add.call < returned) {
        let what = format!("{who}, which was refused: {}", seen.words(*add));
        let anomaly = seen.anomaly(Failure::DirtyRead, what, [place, *add]);
        return (Some(*add), anomaly);
    }
    let what = format!("{who}, which nobody had added");
    (None, seen.anomaly(Failure::NeverWritten, what, [place]))
}

/// Since when an element certainly is in a set.
#[derive(Clone, Copy)]
enum Since {
    First,
    Added(usize),
}

impl Since {
    /// Who added it.
    fn add(self) -> Option<usize> {
        match self {
            Self::First => None,
            Self::Added(add) => Some(add),
        }
    }
}

/// Since when an element certainly is there that a read should have seen.
fn lacking(read: &Operation, element: &Element<'_>) -> Option<Since> {
    let returned = read.returned()?;
    let acknowledged = |&&(_, add): &&Placed<'_>| add.outcome == Outcome::Ok && before(add, read);
    let last = element.added.iter().rfind(acknowledged);
    // One that had ended before it was added is in nobody's way.
    let in_the_way = |(_, remove): &Placed<'_>| {
        may_be_before(remove, returned) && !last.is_some_and(|(_, add)| before(remove, add))
    };
    let is_there =
        (last.is_some() || element.is_initial) && !element.removed.iter().any(in_the_way);
    is_there.then_some(last.map_or(Since::First, |(add, _)| Since::Added(*add)))
}

/// A read that should have seen an element.
fn wrongly_gone(
    seen: &Seen<'_>,
    (place, read): Placed<'_>,
    value: &Value,
    since: Since,
    kind: Failure,
) -> Anomaly {
    let returned = read.returned().unwrap_or(read.call);
    let who = format!(
        "process {} did not see {value} in event {}",
        read.process,
        seen.history.events()[returned].index
    );
    let (was, words) = match since {
        Since::First => ("there at first", String::new()),
        Since::Added(add) => ("acknowledged before", format!(": {}", seen.words(add))),
    };
    let shown = [place].into_iter().chain(since.add());
    if kind == Failure::ElementLost {
        let what = format!("{who}, which was {was}, and nobody did after it{words}");
        return seen.anomaly(kind, what, shown.collect::<Vec<_>>());
    }
    let later = seen
        .called(&["read", "contains"])
        .find(|(_, other)| other.returned() > Some(read.call) && saw(other, value));
    let shown: Vec<_> = shown.chain(later.map(|(later, _)| later)).collect();
    let later = match later {
        Some(_) => "it was there",
        None => "it may have been removed",
    };
    let what = format!("{who}, which was {was}{words}; later {later}");
    seen.anomaly(kind, what, shown)
}

/// Whether an operation saw an element.
fn saw(one: &Operation, element: &Value) -> bool {
    let elements = one.result.as_list().unwrap_or_default();
    let is_there = one.result == Value::Bool(true) && one.argument == *element;
    is_there || elements.contains(element)
}
