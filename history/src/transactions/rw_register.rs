//! Registers: who read a value and then wrote another one says which of both is older, and nothing
//! is older than what was there at first.

use std::collections::{BTreeMap, HashMap};

use super::graph::{Because, Graph};
use super::{Inferred, Part, Transaction, Writers, Wrong, anomaly, words};
use crate::kinds::Told;
use crate::model::Refused;
use crate::{Anomaly, Failure, History, Outcome, Value};

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
) -> Result<Inferred, Refused> {
    let writes_initial = |one: &&Transaction<'_>| {
        one.parts.iter().any(
            |part| matches!(part, Part::Write(_, value) if value.is_null() || *value == initial),
        )
    };
    if let Some(one) = transactions.iter().find(writes_initial) {
        return Err(Refused::value(one.operation, EXPECTED));
    }
    let writers = super::writers(transactions, EXPECTED)?;
    let mut reads = Reads {
        history,
        initial,
        transactions,
        writers: &writers,
        registers: BTreeMap::new(),
        anomalies: Vec::new(),
        wrong: Wrong(Told::new()),
    };
    for (at, one) in transactions.iter().enumerate() {
        if one.is_ok() {
            reads.look_at(at, one);
        }
    }
    let Reads {
        registers,
        mut anomalies,
        wrong,
        ..
    } = reads;
    anomalies.extend(wrong.0.finish());
    let mut graph = Graph::new(transactions.len());
    for (key, register) in &registers {
        anomalies.extend(lost_updates(history, transactions, key, register));
        add(transactions, &writers, (key, initial), register, &mut graph);
    }
    Ok(Inferred { anomalies, graph })
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
        for part in &one.parts {
            match part {
                Part::Write(key, value) => {
                    now.insert(key, value);
                }
                Part::Read(key, Some(value)) => match now.insert(key, value) {
                    None => {
                        self.read_of_others(at, one, key, value);
                        read_first.insert(key, value);
                    }
                    Some(expected) if expected != *value => {
                        let what = format!(
                            "{} reads {value}, where it had read or written {expected} itself",
                            words(self.history, one)
                        );
                        self.anomalies
                            .push(anomaly(Failure::Internal, key, what, &[one]));
                    }
                    Some(_) => {}
                },
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
    let whose = words(history, writer);
    if writer.operation.outcome == Outcome::Fail {
        let what = format!("{who} read {value} of a transaction that failed: {whose}");
        return Some(anomaly(Failure::G1a, key, what, &[one, writer]));
    }
    let is_last = writer.writes_to(key).next_back() == Some(value);
    (!is_last && writer.place != one.place).then(|| {
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
    (key, initial): (&Value, &Value),
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
    for &reader in register.readers.get(initial).into_iter().flatten() {
        add_before_all(transactions, (key, initial), reader, graph);
    }
}

/// Whoever read what was there at first was before all that certainly wrote.
fn add_before_all(
    transactions: &[Transaction<'_>],
    (key, initial): (&Value, &Value),
    reader: usize,
    graph: &mut Graph,
) {
    let certain = transactions
        .iter()
        .enumerate()
        .filter(|(_, one)| one.is_ok());
    for (at, one) in certain {
        if let Some(value) = one.writes_to(key).next() {
            graph.add(reader, at, Because::ReadWrite, Some((key, initial, value)));
        }
    }
}
