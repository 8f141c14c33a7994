//! Transactions: whether what they saw can be that of a database with the isolation that it promises
//! (Adya 1999; Kingsbury and Alvaro, "Elle", 2020). What they read says in which order others wrote;
//! who depends on whom is a graph; and a circle in it is an anomaly.

mod cycles;
mod graph;
mod list_append;
mod rw_register;

use std::collections::HashMap;

use crate::kinds::Told;
use crate::model::Refused;
use crate::{Anomaly, Contract, Failure, History, Model, Operation, Outcome, Value};

use self::graph::{Edge, Graph};

/// A transaction that took effect, or may have.
struct Transaction<'a> {
    /// Its place in [`History::operations`].
    place: usize,
    operation: &'a Operation,
    parts: Vec<Part<'a>>,
}

/// What a transaction does with one object.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// It read this; nothing if nobody knows what.
    Read(&'a Value, Option<&'a Value>),
    /// It wrote, or appended, this.
    Write(&'a Value, &'a Value),
}

/// Who wrote, or appended, each value of each object.
type Writers<'a> = HashMap<(&'a Value, &'a Value), usize>;

/// What was certainly written, or appended, to each object, and by whom.
type Written<'a> = HashMap<&'a Value, Vec<(usize, &'a Value)>>;

/// What was found out of the objects: anomalies, and who depends on whom.
struct Inferred {
    anomalies: Vec<Anomaly>,
    graph: Graph,
    /// Who else does, if the order is that of the clock.
    by_clock: Vec<(usize, Edge)>,
}

/// Reads of what nobody can have left, each failure once.
struct Wrong<'a>(Told<(Failure, &'a Value, &'a Value, Option<usize>)>);

impl<'a> Wrong<'a> {
    /// A transaction read these of an object, where they should not be.
    fn tell(
        &mut self,
        one: &Transaction<'_>,
        key: &'a Value,
        found: impl IntoIterator<Item = (&'a Value, Anomaly)>,
    ) {
        for (value, anomaly) in found {
            // What is there is there for all who read it. Who reads in the middle of a transaction may be
            // the only one.
            let by = (anomaly.kind == Failure::G1b).then_some(one.place);
            let same = (anomaly.kind, key, value, by);
            self.0.tell(same, one.place, || anomaly);
        }
    }
}

/// The anomalies of these transactions that their contract forbids, and what could not be looked at.
pub(crate) fn check(
    history: &History,
    places: &[usize],
    contract: &Contract,
) -> Result<(Vec<Anomaly>, Vec<String>), Refused> {
    let (model, consistency) = (contract.model, contract.consistency);
    let mut transactions = Vec::new();
    for &place in places {
        let operation = &history.operations()[place];
        transactions.push(Transaction {
            place,
            operation,
            parts: parts(operation, model)?,
        });
    }
    let mut inferred = match model {
        Model::RwRegister => {
            rw_register::infer(history, &transactions, &contract.initial, consistency)?
        }
        _ => list_append::infer(history, &transactions, consistency)?,
    };
    let (found, undecided) = cycles::find(history, &transactions, &mut inferred, consistency);
    let mut anomalies = inferred.anomalies;
    anomalies.extend(found);
    anomalies.retain(|anomaly| consistency.forbids(anomaly.kind));
    Ok((anomalies, undecided))
}

/// Who wrote what.
///
/// # Errors
/// If two wrote the same: then nobody knows whose a read saw.
fn writers<'a>(
    transactions: &'a [Transaction<'_>],
    expected: &'static str,
) -> Result<Writers<'a>, Refused> {
    let mut writers = Writers::new();
    for (at, one) in transactions.iter().enumerate() {
        for part in &one.parts {
            if let Part::Write(key, value) = part
                && writers.insert((key, value), at).is_some()
            {
                return Err(Refused::value(one.operation, expected));
            }
        }
    }
    Ok(writers)
}

/// What certainly was written to each object, in the order of the transactions. `seen` says what a value
/// that was read has of others.
fn written<'a>(
    transactions: &'a [Transaction<'_>],
    writers: &Writers<'_>,
    seen: fn(&Value) -> &[Value],
) -> Written<'a> {
    let certain = certain(transactions, writers, seen);
    let mut written = Written::new();
    for (at, one) in transactions.iter().enumerate() {
        for part in &one.parts {
            if let Part::Write(key, value) = *part
                && certain[at]
            {
                written.entry(key).or_default().push((at, value));
            }
        }
    }
    written
}

/// Of each transaction whether it certainly took effect: it was answered so, or what it wrote was read.
fn certain(
    transactions: &[Transaction<'_>],
    writers: &Writers<'_>,
    seen: fn(&Value) -> &[Value],
) -> Vec<bool> {
    let mut certain: Vec<_> = transactions.iter().map(Transaction::is_ok).collect();
    for part in transactions.iter().flat_map(|one| &one.parts) {
        let Part::Read(key, Some(value)) = *part else {
            continue;
        };
        for value in seen(value) {
            if let Some(&writer) = writers.get(&(key, value)) {
                certain[writer] |= transactions[writer].operation.outcome != Outcome::Fail;
            }
        }
    }
    certain
}

/// What a transaction does. Of one that was not answered nobody knows what it read.
fn parts(operation: &Operation, model: Model) -> Result<Vec<Part<'_>>, Refused> {
    let is_known = operation.outcome == Outcome::Ok && !operation.result.is_null();
    let all = if is_known {
        &operation.result
    } else {
        &operation.argument
    };
    let wrong = || {
        Refused::value(
            operation,
            match model {
                Model::RwRegister => "[[\"r\" or \"w\", key, value], …]",
                _ => "[[\"r\" or \"append\", key, value], …]",
            },
        )
    };
    let all = all.as_list().ok_or_else(wrong)?;
    let mut parts = Vec::with_capacity(all.len());
    for part in all {
        let (f, key, value) = match part.as_list() {
            Some([f, key, value]) => (f, key, value),
            Some([f, key]) => (f, key, NOTHING),
            _ => return Err(wrong()),
        };
        parts.push(match (f.as_text(), model) {
            (Some(word), _) if READS.contains(&word) => Part::Read(key, is_known.then_some(value)),
            (Some("w" | "write"), Model::RwRegister) | (Some("append"), Model::ListAppend) => {
                Part::Write(key, value)
            }
            _ => return Err(wrong()),
        });
    }
    Ok(parts)
}

/// Whether a transaction was answered with what it read.
pub(crate) fn has_read(operation: &Operation) -> bool {
    let parts = operation.result.as_list().unwrap_or_default();
    let mut words = parts
        .iter()
        .filter_map(|part| part.as_list()?.first()?.as_text());
    operation.outcome == Outcome::Ok && words.any(|word| READS.contains(&word))
}

/// What reads in a transaction are called.
const READS: [&str; 2] = ["r", "read"];

const NOTHING: &Value = &Value::Null;

impl Transaction<'_> {
    /// Whether it certainly took effect.
    fn is_ok(&self) -> bool {
        self.operation.outcome == Outcome::Ok
    }

    /// Whether it wrote this to an object before this one of its parts.
    fn has_written(&self, before: usize, key: &Value, value: &Value) -> bool {
        let is_it = |part: &Part<'_>| matches!(part, Part::Write(other, written) if *other == key && *written == value);
        self.parts[..before].iter().any(is_it)
    }

    /// What it writes to an object, in its order.
    fn writes_to<'a>(&'a self, key: &'a Value) -> impl DoubleEndedIterator<Item = &'a Value> {
        self.parts.iter().filter_map(move |part| match part {
            Part::Write(other, value) if *other == key => Some(*value),
            _ => None,
        })
    }
}

/// A transaction in a sentence.
fn words(history: &History, transaction: &Transaction<'_>) -> String {
    let operation = transaction.operation;
    let value = if transaction.is_ok() && !operation.result.is_null() {
        &operation.result
    } else {
        &operation.argument
    };
    let index = history.events()[operation.call].index;
    format!("{value} (event {index}, process {})", operation.process)
}

fn anomaly(kind: Failure, key: &Value, what: String, transactions: &[&Transaction<'_>]) -> Anomaly {
    let mut operations: Vec<_> = transactions.iter().map(|one| one.place).collect();
    operations.sort_unstable();
    operations.dedup();
    Anomaly::new(kind, Some(key), what, operations)
}
