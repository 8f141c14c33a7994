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
    key: &'a Value,
    /// Which of its parts it is.
    part: usize,
    /// Whether it had not appended to the list.
    is_of_others: bool,
}

pub(super) fn infer(
    history: &History,
    transactions: &[Transaction<'_>],
    consistency: Consistency,
) -> Result<Inferred, Refused> {
    // Below that, what a transaction sees of its own is not yet at its place among others.
    let is_own_placed = consistency.forbids(Failure::Internal);
    let writers = super::writers(transactions, "elements that nobody else appends")?;
    let (reads, mut anomalies) = looked_at(history, transactions, &writers, is_own_placed)?;
    let mut graph = Graph::new(transactions.len());
    let written = super::written(transactions, &writers, elements);
    for (key, reads) in &reads {
        let written = written.get(key).map_or(&[][..], Vec::as_slice);
        let list = List::of(transactions, &writers, key, reads, written);
        anomalies.extend(list.order(history, reads, &mut graph));
    }
    Ok(Inferred {
        anomalies,
        graph,
        by_clock: Vec::new(),
    })
}

/// Reads by key.
type Reads<'a> = BTreeMap<&'a Value, Vec<Read<'a>>>;

/// The reads, and what is wrong with each by itself.
fn looked_at<'a>(
    history: &History,
    transactions: &'a [Transaction<'_>],
    writers: &Writers<'_>,
    is_own_placed: bool,
) -> Result<(Reads<'a>, Vec<Anomaly>), Refused> {
    let mut anomalies = Vec::new();
    let mut wrong = Wrong(Told::new());
    let mut reads = Reads::new();
    let numbered = transactions.iter().enumerate();
    for (at, one) in numbered.filter(|(_, one)| one.is_ok()) {
        anomalies.extend(internal(history, one)?);
        for read in lists(at, one)? {
            let found = wrong_elements(history, transactions, writers, &read);
            wrong.tell(one, read.key, found);
            if read.is_of_others || is_own_placed {
                reads.entry(read.key).or_default().push(read);
            }
        }
    }
    anomalies.extend(wrong.0.finish());
    Ok((reads, anomalies))
}

fn elements(list: &Value) -> &[Value] {
    list.as_list().unwrap_or_default()
}

/// The lists that a transaction read.
fn lists<'a>(by: usize, one: &Transaction<'a>) -> Result<Vec<Read<'a>>, Refused> {
    let mut appended = HashSet::new();
    let mut lists = Vec::new();
    for (at, part) in one.parts.iter().enumerate() {
        match *part {
            Part::Write(key, _) => {
                appended.insert(key);
            }
            Part::Read(key, Some(list)) => {
                lists.push(Read {
                    by,
                    list: as_list(one, list)?,
                    key,
                    part: at,
                    is_of_others: !appended.contains(key),
                });
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
    read: &Read<'a>,
) -> Vec<(&'a Value, Anomaly)> {
    let (one, key, list) = (&transactions[read.by], read.key, read.list);
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
        if writer == read.by {
            if !one.has_written(read.part, key, element) {
                let what = format!("{who} read {element}, which it appended only later itself");
                found.push((element, anomaly(Failure::NeverWritten, key, what, &[one])));
            }
            continue;
        }
        let is_last = list.last() == Some(element);
        let wrong = wrongly_seen(history, one, &transactions[writer], key, element, is_last);
        found.extend(wrong.map(|wrong| (element, wrong)));
    }
    found
}

/// What is wrong with an element of another transaction in a list that one read.
fn wrongly_seen(
    history: &History,
    one: &Transaction<'_>,
    writer: &Transaction<'_>,
    key: &Value,
    element: &Value,
    is_last: bool,
) -> Option<Anomaly> {
    let (who, whose) = (words(history, one), words(history, writer));
    if writer.operation.outcome == Outcome::Fail {
        let what = format!("{who} read {element} of a transaction that failed: {whose}");
        return Some(anomaly(Failure::G1a, key, what, &[one, writer]));
    }
    let is_between = is_last && writer.writes_to(key).next_back() != Some(element);
    is_between.then(|| {
        let what = format!("{who} read a list up to {element}, in the middle of {whose}");
        anomaly(Failure::G1b, key, what, &[one, writer])
    })
}

/// One list, in the order in which it grew.
struct List<'a> {
    transactions: &'a [Transaction<'a>],
    writers: &'a Writers<'a>,
    key: &'a Value,
    longest: &'a [Value],
    /// Who read that.
    longest_by: usize,
    /// What was certainly appended and is in no list: it came after all lists that were read. Of each
    /// transaction the first.
    unread: Vec<(usize, &'a Value)>,
}

impl<'a> List<'a> {
    fn of(
        transactions: &'a [Transaction<'a>],
        writers: &'a Writers<'a>,
        key: &'a Value,
        reads: &[Read<'a>],
        written: &[(usize, &'a Value)],
    ) -> Self {
        let longest = reads.iter().max_by_key(|read| read.list.len());
        let (longest, longest_by) = longest.map_or((&[][..], 0), |read| (read.list, read.by));
        let in_longest: HashSet<&Value> = longest.iter().collect();
        let unread = written.iter().copied();
        let mut unread: Vec<_> = unread
            .filter(|(_, value)| !in_longest.contains(value))
            .collect();
        unread.dedup_by_key(|(at, _)| *at);
        Self {
            transactions,
            writers,
            key,
            longest,
            longest_by,
            unread,
        }
    }

    /// Puts the dependencies into the graph: all lists that were read are beginnings of the longest one.
    fn order(&self, history: &History, reads: &[Read<'_>], graph: &mut Graph) -> Vec<Anomaly> {
        self.add_writes(graph);
        let (mut found, mut of_longest) = (Vec::new(), Vec::new());
        for read in reads {
            if self.longest.starts_with(read.list) {
                self.add_read(read, graph);
                if self.longest.len() == read.list.len() {
                    of_longest.push(read.by);
                }
                continue;
            }
            let (one, other) = (
                &self.transactions[read.by],
                &self.transactions[self.longest_by],
            );
            let what = format!(
                "{} and {} read lists of which none is the beginning of the other",
                words(history, one),
                words(history, other)
            );
            let kind = Failure::IncompatibleOrder;
            found.push(anomaly(kind, self.key, what, &[one, other]));
        }
        of_longest.dedup();
        graph.add_unseen(self.key, &of_longest, &self.unread);
        found
    }

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
        if let Some(next) = self.longest.get(read.list.len())
            && let Some(writer) = self.writer(next)
        {
            graph.add(read.by, writer, Because::ReadWrite, Some((key, last, next)));
        }
    }
}
