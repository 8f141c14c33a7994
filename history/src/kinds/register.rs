//! What can be wrong with something that is read and written.

use std::collections::HashMap;

use super::{Anomaly, Failure, Seen, before};
use crate::{Operation, Outcome, Value};

const READS: &[&str] = &["read", "get", "r"];

/// A write: its place, and what it leaves.
struct Write<'a> {
    place: usize,
    operation: &'a Operation,
    value: &'a Value,
}

const NOTHING: &Value = &Value::Null;

/// What an operation writes, if it does.
fn written(operation: &Operation) -> Option<&Value> {
    match operation.f.as_str() {
        "write" | "put" | "set" | "w" => Some(&operation.argument),
        "delete" | "remove" => Some(NOTHING),
        "cas" if operation.result != Value::Bool(false) => operation.argument.as_list()?.get(1),
        _ => None,
    }
}

pub(super) fn failures(seen: &Seen<'_>) -> Vec<Anomaly> {
    // What is appended makes values that nobody wrote as they are.
    if seen.operations().any(|(_, one)| one.f == "append") {
        return Vec::new();
    }
    let writes: Vec<_> = seen
        .operations()
        .filter_map(|(place, operation)| {
            let value = written(operation)?;
            Some(Write {
                place,
                operation,
                value,
            })
        })
        .collect();
    let mut writers: HashMap<&Value, Vec<&Write<'_>>> = HashMap::new();
    for write in &writes {
        writers.entry(write.value).or_default().push(write);
    }
    let overwriting = Overwriting::of(&writes);
    let reads = seen
        .called(READS)
        .filter(|(_, one)| one.outcome == Outcome::Ok);
    reads
        .filter_map(|(place, read)| {
            let of_value = writers.get(&read.result).map_or(&[][..], Vec::as_slice);
            never_written(seen, place, read, of_value)
                .or_else(|| overwritten(seen, place, read, of_value, &overwriting))
        })
        .collect()
}

/// The read of a value that no write can have left.
fn never_written(
    seen: &Seen<'_>,
    place: usize,
    read: &Operation,
    writers: &[&Write<'_>],
) -> Option<Anomaly> {
    if read.result == *seen.initial {
        return None;
    }
    let returned = read.returned()?;
    let called: Vec<_> = writers
        .iter()
        .filter(|write| write.operation.call < returned)
        .collect();
    if called
        .iter()
        .any(|write| write.operation.outcome != Outcome::Fail)
    {
        return None;
    }
    let who = seen.words(place);
    Some(match (called.first(), writers.first()) {
        (Some(failed), _) => seen.anomaly(
            Failure::DirtyRead,
            format!(
                "{who} saw a value whose write failed: {}",
                seen.words(failed.place)
            ),
            [place, failed.place],
        ),
        (None, Some(later)) => seen.anomaly(
            Failure::NeverWritten,
            format!(
                "{who} saw a value that was written only later: {}",
                seen.words(later.place)
            ),
            [place, later.place],
        ),
        (None, None) => seen.anomaly(
            Failure::NeverWritten,
            format!("{who} saw a value that nobody wrote"),
            [place],
        ),
    })
}

/// The writes that certainly took effect, by their ends, each with the one among those before it
/// that was called last.
struct Overwriting<'a> {
    by_end: Vec<(usize, &'a Write<'a>)>,
}

impl<'a> Overwriting<'a> {
    fn of(writes: &'a [Write<'a>]) -> Self {
        let mut by_end: Vec<_> = writes
            .iter()
            .filter(|write| write.operation.outcome == Outcome::Ok)
            .filter_map(|write| Some((write.operation.returned()?, write)))
            .collect();
        by_end.sort_by_key(|(end, _)| *end);
        let mut last: Option<&Write<'_>> = None;
        for (_, write) in &mut by_end {
            let latest = last.filter(|last| last.operation.call > write.operation.call);
            *write = latest.unwrap_or(write);
            last = Some(write);
        }
        Self { by_end }
    }

    /// Of those that had ended before an event, the one that was called last.
    fn before(&self, event: usize) -> Option<&'a Write<'a>> {
        let count = self.by_end.partition_point(|(end, _)| *end < event);
        Some(self.by_end[count.checked_sub(1)?].1)
    }
}

/// The read of a value that had certainly been overwritten.
fn overwritten(
    seen: &Seen<'_>,
    place: usize,
    read: &Operation,
    writers: &[&Write<'_>],
    overwriting: &Overwriting<'_>,
) -> Option<Anomaly> {
    let newer = overwriting.before(read.call)?;
    let returned = read.returned()?;
    // Whoever may have written it had done so before the newer write was called.
    let mut possible = writers.iter().filter(|write| {
        write.operation.outcome != Outcome::Fail && write.operation.call < returned
    });
    if !possible.all(|write| before(write.operation, newer.operation))
        || newer.value == &read.result
    {
        return None;
    }
    let who = seen.words(place);
    let older = writers
        .iter()
        .rfind(|write| write.operation.outcome == Outcome::Ok);
    let shown: Vec<_> = [place, newer.place]
        .into_iter()
        .chain(older.map(|older| older.place))
        .collect();
    if newer.value.is_null() && newer.operation.f != "cas" {
        let what = format!(
            "{who} saw what had been deleted: {}",
            seen.words(newer.place)
        );
        return Some(seen.anomaly(Failure::DeletedBack, what, shown));
    }
    Some(stale_or_lost(seen, place, read, newer, shown))
}

/// A read that lacks an acknowledged write, by whether anybody saw that write after it.
fn stale_or_lost(
    seen: &Seen<'_>,
    place: usize,
    read: &Operation,
    newer: &Write<'_>,
    shown: Vec<usize>,
) -> Anomaly {
    let (who, newer_words) = (seen.words(place), seen.words(newer.place));
    let seen_later = seen.called(READS).find(|(_, other)| {
        other.outcome == Outcome::Ok && other.result == *newer.value && other.call > read.call
    });
    match seen_later {
        Some((later, _)) => seen.anomaly(
            Failure::StaleRead,
            format!(
                "{who} saw an older value than the one acknowledged before: {newer_words}; later it was there: {}",
                seen.words(later)
            ),
            shown,
        ),
        None => seen.anomaly(
            Failure::WriteLost,
            format!("{who} did not see what was acknowledged before, and nobody did after it: {newer_words}"),
            shown,
        ),
    }
}
