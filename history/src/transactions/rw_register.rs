//! Registers: who read a value and then wrote another one says which of both is older, and nothing
//! is older than what was there at first.

use std::collections::{BTreeMap, HashMap};

use super::graph::{Because, Edge, Graph};
use super::{Inferred, Part, Transaction, Writers, Wrong, anomaly, words};
use crate::kinds::Told;
use crate::model::Refused;
use crate::{Anomaly, Consistency, Failure, History, Outcome, Value};

/// What is known of one register.
#[derive(Default)]
struct Register<'a> {
    /// Who read a value that others wrote.
    readers: BTreeMap<&'a Value, Vec<usize>>,
    /// Values, and a later one that the same transaction wrote.
    newer: Vec<(&'a Value, usize, &'a Value)>,
}

const EXPECTED: &str = "values that nobody else writes";

pub(super) fn infer(
    history: &History,
    transactions: &[Transaction<'_>],
    initial: &Value,
    consistency: Consistency,
) -> Result<Inferred, Refused> {
    refuse_initial(transactions, initial)?;
    let writers = super::writers(transactions, EXPECTED)?;
    let (registers, mut anomalies) = looked_at(history, transactions, &writers, initial);
    let mut graph = Graph::new(transactions.len());
    let mut by_clock = Vec::new();
    let written = super::written(transactions, &writers, std::slice::from_ref);
    for (key, register) in &registers {
        anomalies.extend(lost_updates(history, transactions, key, register));
        add(transactions, &writers, key, register, &mut graph);
        let mut written = written.get(key).cloned().unwrap_or_default();
        written.dedup_by_key(|(at, _)| *at);
        let first = register.readers.get(initial);
        graph.add_unseen(key, first.map_or(&[], Vec::as_slice), &written);
        if consistency == Consistency::StrictSerializable {
            let later = Later::of(transactions, written);
            by_clock.extend(later.unseen(&writers, key, register));
        }
    }
    Ok(Inferred {
        anomalies,
        graph,
        by_clock,
    })
}

/// What is known of the registers, and what is wrong with each read by itself.
fn looked_at<'a>(
    history: &'a History,
    transactions: &'a [Transaction<'a>],
    writers: &'a Writers<'a>,
    initial: &'a Value,
) -> (BTreeMap<&'a Value, Register<'a>>, Vec<Anomaly>) {
    let mut reads = Reads {
        history,
        initial,
        transactions,
        writers,
        registers: BTreeMap::new(),
        anomalies: Vec::new(),
        wrong: Wrong(Told::new()),
    };
    let numbered = transactions.iter().enumerate();
    for (at, one) in numbered.filter(|(_, one)| one.is_ok()) {
        reads.look_at(at, one);
    }
    let Reads {
        registers,
        mut anomalies,
        wrong,
        ..
    } = reads;
    anomalies.extend(wrong.0.finish());
    (registers, anomalies)
}

/// Nobody writes what is there at first: it would not be known who read that.
fn refuse_initial(transactions: &[Transaction<'_>], initial: &Value) -> Result<(), Refused> {
    let writes_initial = |one: &&Transaction<'_>| {
        one.parts.iter().any(
            |part| matches!(part, Part::Write(_, value) if value.is_null() || *value == initial),
        )
    };
    transactions
        .iter()
        .find(writes_initial)
        .map_or(Ok(()), |one| Err(Refused::value(one.operation, EXPECTED)))
}

/// What the reads of transactions say, while these are looked at.
struct Reads<'a> {
    history: &'a History,
    /// What each register is at first.
    initial: &'a Value,
    transactions: &'a [Transaction<'a>],
    writers: &'a Writers<'a>,
    registers: BTreeMap<&'a Value, Register<'a>>,
    anomalies: Vec<Anomaly>,
    wrong: Wrong<'a>,
}

impl<'a> Reads<'a> {
    fn look_at(&mut self, at: usize, one: &'a Transaction<'a>) {
        let mut now: HashMap<&Value, &Value> = HashMap::new();
        let mut read_first: HashMap<&Value, &Value> = HashMap::new();
        for (number, part) in one.parts.iter().enumerate() {
            match *part {
                Part::Write(key, value) => {
                    now.insert(key, value);
                }
                Part::Read(key, Some(value)) => {
                    match now.insert(key, value) {
                        None => {
                            read_first.insert(key, value);
                        }
                        Some(expected) if expected == value => continue,
                        Some(expected) => {
                            let what = format!(
                                "{} reads {value}, where it had read or written {expected} itself",
                                words(self.history, one)
                            );
                            self.anomalies
                                .push(anomaly(Failure::Internal, key, what, &[one]));
                        }
                    }
                    if !one.has_written(number, key, value) {
                        self.read_of_others(at, one, key, value);
                    }
                }
                Part::Read(..) => {}
            }
        }
        for (key, old) in read_first {
            if let Some(new) = one.writes_to(key).next_back() {
                let register = self.registers.entry(key).or_default();
                register.newer.push((old, at, new));
            }
        }
    }

    /// A transaction reads what was there before it.
    fn read_of_others(
        &mut self,
        at: usize,
        one: &Transaction<'_>,
        key: &'a Value,
        value: &'a Value,
    ) {
        let (history, transactions) = (self.history, self.transactions);
        let found = (value != self.initial)
            .then(|| wrong_read(history, transactions, self.writers, one, key, value))
            .flatten();
        self.wrong
            .tell(one, key, found.map(|anomaly| (value, anomaly)));
        let register = self.registers.entry(key).or_default();
        register.readers.entry(value).or_default().push(at);
    }
}

fn wrong_read(
    history: &History,
    transactions: &[Transaction<'_>],
    writers: &Writers<'_>,
    one: &Transaction<'_>,
    key: &Value,
    value: &Value,
) -> Option<Anomaly> {
    let who = words(history, one);
    let Some(&writer) = writers.get(&(key, value)) else {
        let what = format!("{who} read {value}, which nobody wrote");
        return Some(anomaly(Failure::NeverWritten, key, what, &[one]));
    };
    let writer = &transactions[writer];
    if writer.place == one.place {
        let what = format!("{who} read {value}, which it wrote only later itself");
        return Some(anomaly(Failure::NeverWritten, key, what, &[one]));
    }
    let whose = words(history, writer);
    if writer.operation.outcome == Outcome::Fail {
        let what = format!("{who} read {value} of a transaction that failed: {whose}");
        return Some(anomaly(Failure::G1a, key, what, &[one, writer]));
    }
    let is_last = writer.writes_to(key).next_back() == Some(value);
    (!is_last).then(|| {
        let what = format!("{who} read {value}, in the middle of {whose}");
        anomaly(Failure::G1b, key, what, &[one, writer])
    })
}

/// Transactions that read the same value and both wrote another one.
fn lost_updates(
    history: &History,
    transactions: &[Transaction<'_>],
    key: &Value,
    register: &Register<'_>,
) -> Vec<Anomaly> {
    let mut first: HashMap<&Value, usize> = HashMap::new();
    let mut found = Vec::new();
    for &(old, at, _) in &register.newer {
        if let Some(other) = first.insert(old, at) {
            let (one, other) = (&transactions[other], &transactions[at]);
            let what = format!(
                "{} and {} both read {old} and wrote another value",
                words(history, one),
                words(history, other)
            );
            found.push(anomaly(Failure::LostUpdate, key, what, &[one, other]));
        }
    }
    found
}

fn add(
    transactions: &[Transaction<'_>],
    writers: &Writers<'_>,
    key: &Value,
    register: &Register<'_>,
    graph: &mut Graph,
) {
    let writer = |value: &Value| {
        let writer = *writers.get(&(key, value))?;
        (transactions[writer].operation.outcome != Outcome::Fail).then_some(writer)
    };
    for (value, readers) in &register.readers {
        for &reader in readers {
            if let Some(writer) = writer(value) {
                graph.add(
                    writer,
                    reader,
                    Because::WriteRead,
                    Some((key, value, value)),
                );
            }
        }
    }
    for &(old, newer, new) in &register.newer {
        if let Some(older) = writer(old) {
            graph.add(older, newer, Because::WriteWrite, Some((key, old, new)));
        }
        for &reader in register.readers.get(old).into_iter().flatten() {
            graph.add(reader, newer, Because::ReadWrite, Some((key, old, new)));
        }
    }
}

/// A write that certainly took effect: who wrote, and what.
type Write<'a> = (usize, &'a Value);

/// The writes of one register by their calls, each with the two that ended first of it and those after it.
struct Later<'a> {
    transactions: &'a [Transaction<'a>],
    first: Vec<(usize, [Option<Write<'a>>; 2])>,
}

impl<'a> Later<'a> {
    fn of(transactions: &'a [Transaction<'_>], written: Vec<Write<'a>>) -> Self {
        let end = |at: usize| transactions[at].operation.returned();
        let mut two: [Option<Write<'_>>; 2] = [None, None];
        let mut first = Vec::new();
        for write in written.into_iter().rev().filter(|one| end(one.0).is_some()) {
            two = match two {
                [Some(best), _] if end(best.0) < end(write.0) => [
                    Some(best),
                    two[1]
                        .filter(|other| end(other.0) < end(write.0))
                        .or(Some(write)),
                ],
                [best, _] => [Some(write), best],
            };
            first.push((transactions[write.0].operation.call, two));
        }
        first.reverse();
        Self {
            transactions,
            first,
        }
    }

    /// Whoever read what somebody had written did not see what was written by one that was called only after
    /// that. Of those, the one that ended first is enough: the clock has it before what is after others.
    fn unseen(
        &self,
        writers: &Writers<'_>,
        key: &Value,
        register: &Register<'_>,
    ) -> Vec<(usize, Edge)> {
        let mut found = Vec::new();
        for (value, readers) in &register.readers {
            let writer = writers.get(&(key, value));
            let writer = writer.map(|&writer| &self.transactions[writer]);
            let writer = writer.filter(|writer| writer.is_ok());
            let Some(end) = writer.and_then(|writer| writer.operation.returned()) else {
                continue;
            };
            let next = self.first.partition_point(|(call, _)| *call < end);
            let Some((_, two)) = self.first.get(next) else {
                continue;
            };
            for &reader in readers {
                let later = two.iter().flatten().find(|later| later.0 != reader);
                found.extend(later.map(|&(to, new)| {
                    let of = Some((key.clone(), (*value).clone(), new.clone()));
                    let because = Because::ReadWrite;
                    (reader, Edge { to, because, of })
                }));
            }
        }
        found
    }
}
