//! What can be wrong with something that is read and written.

use std::collections::HashMap;

use super::{Anomaly, Failure, Seen, Told, before};
use crate::model::register;
use crate::{Operation, Outcome, Value};

const READS: &[&str] = &["read", "get", "r"];

/// A write: its place, and what it leaves.
struct Write<'a> {
    place: usize,
    operation: &'a Operation,
    value: &'a Value,
}

impl Write<'_> {
    fn is_deletion(&self) -> bool {
        self.value.is_null() && self.operation.f != "cas"
    }
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

fn writes<'a>(seen: &Seen<'a>) -> Vec<Write<'a>> {
    let all = seen.operations().filter_map(|(place, operation)| {
        let value = written(operation)?;
        Some(Write {
            place,
            operation,
            value,
        })
    });
    all.collect()
}

pub(super) fn failures(seen: &Seen<'_>) -> Vec<Anomaly> {
    // What is appended makes values that nobody wrote as they are.
    if register::is_longer(seen.operations().map(|(_, one)| one)) {
        return Vec::new();
    }
    let writes = writes(seen);
    let mut writers: HashMap<&Value, Vec<&Write<'_>>> = HashMap::new();
    for write in &writes {
        writers.entry(write.value).or_default().push(write);
    }
    let overwriting = Overwriting::of(&writes);
    let later = Later::of(seen, &writers);
    let mut told = Told::new();
    for (place, one) in seen.operations() {
        let Some(value) = observed(one) else { continue };
        let of_value = writers.get(value).map_or(&[][..], Vec::as_slice);
        // One that wrote itself may have overwritten what it did not see.
        let is_read = READS.contains(&one.f.as_str());
        let found = never_written(seen, (place, one), value, of_value).or_else(|| {
            is_read.then(|| overwritten(seen, (place, one), of_value, &overwriting, &later))?
        });
        if let Some((same, anomaly)) = found {
            told.tell(same, place, || anomaly);
        }
    }
    told.finish()
}

/// What reads that show one failure have in common: which failure, the other operation that shows it,
/// and what they saw, if several values are several failures.
type Same<'a> = (Failure, Option<usize>, Option<&'a Value>);

/// What an operation certainly saw.
fn observed(operation: &Operation) -> Option<&Value> {
    match operation.f.as_str() {
        _ if operation.outcome != Outcome::Ok => None,
        "cas" if operation.result != Value::Bool(false) => operation.argument.as_list()?.first(),
        word => READS.contains(&word).then_some(&operation.result),
    }
}

/// The read of a value that no write can have left.
fn never_written<'a>(
    seen: &Seen<'_>,
    (place, read): (usize, &'a Operation),
    value: &'a Value,
    writers: &[&Write<'_>],
) -> Option<(Same<'a>, Anomaly)> {
    if value == seen.initial {
        return None;
    }
    let returned = read.returned()?;
    let called = writers
        .iter()
        .filter(|write| write.operation.call < returned);
    // Nobody can see what it wrote itself only then.
    let called = called.filter(|write| write.place != place);
    let mut called = called.peekable();
    let failed = called.peek().map(|failed| failed.place);
    if called.any(|write| write.operation.outcome != Outcome::Fail) {
        return None;
    }
    let who = seen.words(place);
    let mut others = writers.iter().map(|other| other.place);
    let write = failed.or_else(|| others.find(|&other| other != place));
    let kind = match failed {
        Some(_) => Failure::DirtyRead,
        None => Failure::NeverWritten,
    };
    let what = format!("{who} saw a value {}", unwritten(seen, kind, write));
    let shown: Vec<_> = [place].into_iter().chain(write).collect();
    let same = (kind, write, Some(value));
    Some((same, seen.anomaly(kind, what, shown)))
}

/// Why a value cannot have been there, with the write of it that is nearest to an explanation.
fn unwritten(seen: &Seen<'_>, kind: Failure, write: Option<usize>) -> String {
    match write.map(|write| seen.words(write)) {
        Some(words) if kind == Failure::DirtyRead => format!("whose write failed: {words}"),
        Some(words) => format!("that was written only later: {words}"),
        None => "that nobody wrote".to_owned(),
    }
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
fn overwritten<'a>(
    seen: &Seen<'_>,
    (place, read): (usize, &'a Operation),
    writers: &[&Write<'_>],
    overwriting: &Overwriting<'_>,
    later: &Later<'_>,
) -> Option<(Same<'a>, Anomaly)> {
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
    // A deletion that was seen after it has not been undone: the read was old.
    let later = later.seen_after(read, newer);
    if newer.is_deletion() && later.is_none() {
        let what = format!(
            "{who} saw what had been deleted: {}",
            seen.words(newer.place)
        );
        let kind = Failure::DeletedBack;
        let same = (kind, Some(newer.place), Some(&read.result));
        return Some((same, seen.anomaly(kind, what, shown)));
    }
    Some(stale_or_lost(seen, place, newer, later, shown))
}

/// What was read, by the ends of the reads.
struct Later<'a> {
    may_be_old: bool,
    /// Each with when the last of those had ended that may have written it; never, if nobody knows.
    reads: Vec<(usize, &'a Operation, Option<usize>)>,
}

impl<'a> Later<'a> {
    fn of(seen: &Seen<'a>, writers: &HashMap<&Value, Vec<&Write<'_>>>) -> Self {
        let ends: HashMap<_, _> = writers
            .iter()
            .filter(|_| seen.may_be_old)
            .map(|(value, writers)| (*value, last_ends(writers)))
            .collect();
        let reads = seen.called(READS);
        let reads = reads.filter(|(_, read)| read.outcome == Outcome::Ok);
        let reads = reads.map(|(place, read)| {
            let of_value = ends.get(&read.result).map_or(&[][..], Vec::as_slice);
            let returned = read.returned().unwrap_or(usize::MAX);
            let count = of_value.partition_point(|(call, _)| *call < returned);
            let last = count.checked_sub(1).map(|last| of_value[last].1);
            (place, read, last)
        });
        let mut reads: Vec<_> = reads.collect();
        reads.sort_by_key(|(_, read, _)| read.returned());
        Self {
            may_be_old: seen.may_be_old,
            reads,
        }
    }

    /// The first read that may be after another one, as it had not ended when that was called, and that saw
    /// a write; or, where a read may be old, what may have overwritten it.
    fn seen_after(&self, read: &Operation, newer: &Write<'_>) -> Option<(usize, bool)> {
        let first = self
            .reads
            .partition_point(|(_, other, _)| before(other, read));
        let mut later = self.reads[first..].iter().filter(|(_, other, last)| {
            other.result == *newer.value
                || self.may_be_old && last.is_some_and(|last| last > newer.operation.call)
        });
        let (place, later, _) = later.next()?;
        Some((*place, later.result == *newer.value))
    }
}

/// Of each write that may have taken effect its call, and the last end of it and those before it.
fn last_ends(writers: &[&Write<'_>]) -> Vec<(usize, usize)> {
    let possible = writers
        .iter()
        .map(|write| write.operation)
        .filter(|write| write.outcome != Outcome::Fail);
    let ends = possible.scan(0, |last, write| {
        *last = write.returned().unwrap_or(usize::MAX).max(*last);
        Some((write.call, *last))
    });
    ends.collect()
}

/// A read that lacks an acknowledged write, by whether anybody saw that write after it.
fn stale_or_lost<'a>(
    seen: &Seen<'_>,
    place: usize,
    newer: &Write<'_>,
    later: Option<(usize, bool)>,
    shown: Vec<usize>,
) -> (Same<'a>, Anomaly) {
    let (who, newer_words) = (seen.words(place), seen.words(newer.place));
    let (kind, same, what) = match later {
        // Each of these may be of a reason of its own.
        Some((later, is_same)) => (
            Failure::StaleRead,
            place,
            format!(
                "{who} saw an older value than the one acknowledged before: {newer_words}; later {} was there: {}",
                if is_same {
                    "it"
                } else {
                    "what may have overwritten it"
                },
                seen.words(later)
            ),
        ),
        // What is lost is lost once, whatever is there instead.
        None => (
            Failure::WriteLost,
            newer.place,
            format!(
                "{who} did not see what was acknowledged before, and nobody did after it: {newer_words}"
            ),
        ),
    };
    ((kind, Some(same), None), seen.anomaly(kind, what, shown))
}
