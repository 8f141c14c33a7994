//! Lists: one that was read has the order of all that was appended before.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::graph::{Because, Graph};
use super::{Inferred, Part, Transaction, Writers, Wrong, anomaly, words};
use crate::kinds::Told;
use crate::model::Refused;
use crate::{Anomaly, Consistency, Failure, History, Outcome, Value};

/// A list that a transaction read.
struct Read<'a> {
    by: usize,
    list: &'a [Value],
}

pub(super) fn infer(
    history: &History,
    transactions: &[Transaction<'_>],
    consistency: Consistency,
) -> Result<Inferred, Refused> {
    // Below that, what a transaction sees of its own is not yet at its place among others.
    let is_own_placed = consistency.forbids(Failure::Internal);
    let writers = super::writers(transactions, "elements that nobody else appends")?;
    let mut anomalies = Vec::new();
    let mut wrong = Wrong(Told::new());
    let mut reads: BTreeMap<&Value, Vec<Read<'_>>> = BTreeMap::new();
    let numbered = transactions.iter().enumerate();
    for (at, one) in numbered.filter(|(_, one)| one.is_ok()) {
        anomalies.extend(internal(history, one)?);
        for (key, list, is_of_others) in lists(one)? {
            let found = wrong_elements(history, transactions, &writers, one, key, list);
            wrong.tell(one, key, found);
            if is_of_others || is_own_placed {
                reads.entry(key).or_default().push(Read { by: at, list });
            }
        }
    }
    anomalies.extend(wrong.0.finish());
    let mut graph = Graph::new(transactions.len());
    for (key, reads) in &reads {
        let found = order(history, transactions, &writers, key, reads, &mut graph);
        anomalies.extend(found);
    }
    Ok(Inferred { anomalies, graph })
}

/// A list that was read: its key, what it was, and whether the transaction had not appended to it.
type ReadList<'a> = (&'a Value, &'a [Value], bool);

/// The lists that a transaction read.
fn lists<'a>(one: &Transaction<'a>) -> Result<Vec<ReadList<'a>>, Refused> {
    let mut appended = HashSet::new();
    let mut lists = Vec::new();
    for part in &one.parts {
        match *part {
            Part::Write(key, _) => {
                appended.insert(key);
            }
            Part::Read(key, Some(list)) => {
                lists.push((key, as_list(one, list)?, !appended.contains(key)));
            }
            Part::Read(..) => {}
        }
    }
    Ok(lists)
}

fn as_list<'a>(one: &Transaction<'_>, list: &'a Value) -> Result<&'a [Value], Refused> {
    match list {
        Value::Null => Ok(&[]),
        _ => list
            .as_list()
            .ok_or_else(|| Refused::value(one.operation, "lists that were read")),
    }
}

/// What a transaction reads must be what it read before, and what it appended since.
fn internal(history: &History, one: &Transaction<'_>) -> Result<Vec<Anomaly>, Refused> {
    let mut known: HashMap<&Value, (bool, Vec<&Value>)> = HashMap::new();
    let mut found = Vec::new();
    for part in &one.parts {
        match part {
            Part::Write(key, value) => known.entry(key).or_default().1.push(value),
            Part::Read(key, Some(list)) => {
                let list: Vec<_> = as_list(one, list)?.iter().collect();
                let (is_whole, expected) = known.entry(key).or_default();
                let fits = if *is_whole {
                    list == *expected
                } else {
                    list.ends_with(expected)
                };
                if !fits {
                    let what = format!(
                        "{} does not see what it had read and appended itself",
                        words(history, one)
                    );
                    found.push(anomaly(Failure::Internal, key, what, &[one]));
                }
                (*is_whole, *expected) = (true, list);
            }
            Part::Read(..) => {}
        }
    }
    Ok(found)
}

/// Elements that cannot be in a list that was read.
fn wrong_elements<'a>(
    history: &History,
    transactions: &[Transaction<'_>],
    writers: &Writers<'_>,
    one: &Transaction<'_>,
    key: &Value,
    list: &'a [Value],
) -> Vec<(&'a Value, Anomaly)> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let who = words(history, one);
    for element in list {
        if !seen.insert(element) {
            let what = format!("{who} read {element} twice in one list");
            found.push((
                element,
                anomaly(Failure::DuplicateElements, key, what, &[one]),
            ));
        }
        let Some(&writer) = writers.get(&(key, element)) else {
            let what = format!("{who} read {element}, which nobody appended");
            found.push((element, anomaly(Failure::NeverWritten, key, what, &[one])));
            continue;
        };
        let writer = &transactions[writer];
        if writer.operation.outcome == Outcome::Fail {
            let what = format!(
                "{who} read {element} of a transaction that failed: {}",
                words(history, writer)
            );
            found.push((element, anomaly(Failure::G1a, key, what, &[one, writer])));
        } else if list.last() == Some(element)
            && writer.place != one.place
            && writer.writes_to(key).next_back() != Some(element)
        {
            let what = format!(
                "{who} read a list up to {element}, in the middle of {}",
                words(history, writer)
            );
            found.push((element, anomaly(Failure::G1b, key, what, &[one, writer])));
        }
    }
    found
}

/// Puts the dependencies of one list into the graph: all lists that were read are beginnings of the
/// longest one.
fn order(
    history: &History,
    transactions: &[Transaction<'_>],
    writers: &Writers<'_>,
    key: &Value,
    reads: &[Read<'_>],
    graph: &mut Graph,
) -> Vec<Anomaly> {
    let Some(longest) = reads.iter().max_by_key(|read| read.list.len()) else {
        return Vec::new();
    };
    let in_longest: HashSet<&Value> = longest.list.iter().collect();
    let list = List {
        transactions,
        writers,
        key,
        longest: longest.list,
        unread: transactions
            .iter()
            .enumerate()
            .filter(|(_, one)| one.is_ok())
            .flat_map(|(at, one)| one.writes_to(key).map(move |value| (at, value)))
            .filter(|(_, value)| !in_longest.contains(value))
            .collect(),
    };
    list.add_writes(graph);
    let mut found = Vec::new();
    for read in reads {
        if longest.list.starts_with(read.list) {
            list.add_read(read, graph);
            continue;
        }
        let (one, other) = (&transactions[read.by], &transactions[longest.by]);
        let what = format!(
            "{} and {} read lists of which none is the beginning of the other",
            words(history, one),
            words(history, other)
        );
        found.push(anomaly(
            Failure::IncompatibleOrder,
            key,
            what,
            &[one, other],
        ));
    }
    found
}

/// One list, in the order in which it grew.
struct List<'a> {
    transactions: &'a [Transaction<'a>],
    writers: &'a Writers<'a>,
    key: &'a Value,
    longest: &'a [Value],
    /// What was certainly appended and is in no list: it came after all lists that were read.
    unread: Vec<(usize, &'a Value)>,
}

impl List<'_> {
    /// Who appended an element, unless that failed.
    fn writer(&self, element: &Value) -> Option<usize> {
        let writer = *self.writers.get(&(self.key, element))?;
        (self.transactions[writer].operation.outcome != Outcome::Fail).then_some(writer)
    }

    /// Whoever appended an element is before who appended the next one.
    fn add_writes(&self, graph: &mut Graph) {
        for pair in self.longest.windows(2) {
            if let (Some(first), Some(second)) = (self.writer(&pair[0]), self.writer(&pair[1])) {
                let of = Some((self.key, &pair[0], &pair[1]));
                graph.add(first, second, Because::WriteWrite, of);
            }
        }
    }

    /// Whoever read is after who appended the last element of others, and before who appended the next.
    fn add_read(&self, read: &Read<'_>, graph: &mut Graph) {
        let key = self.key;
        let mut others = read.list.iter().rev();
        let others = others.find(|element| self.writers.get(&(key, element)) != Some(&read.by));
        if let Some(last) = others
            && let Some(writer) = self.writer(last)
        {
            graph.add(writer, read.by, Because::WriteRead, Some((key, last, last)));
        }
        let last = read.list.last().unwrap_or(super::NOTHING);
        let mut add = |writer: usize, next: &Value| {
            graph.add(read.by, writer, Because::ReadWrite, Some((key, last, next)));
        };
        match self.longest.get(read.list.len()) {
            Some(next) => {
                if let Some(writer) = self.writer(next) {
                    add(writer, next);
                }
            }
            None => {
                for (writer, value) in &self.unread {
                    add(*writer, value);
                }
            }
        }
    }
}
