//! The facts of a run, as rows.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use datalog::{Database, Value};
use history::{History, Operation, Outcome, ReadError};
use specification::About;

use super::logs::{each_line, log_of, read_times};
use super::{KnownCalls, MADE, MADE_MESSAGE, RunFacts, refused_file};
use crate::error::Result;
use crate::laboratory::Judged;
use crate::online::ran::{FaultCame, Happening, State};

/// So many lines are put in at once.
const LINES_AT_ONCE: usize = 10_000;

type Rows = Vec<Vec<Value>>;

/// Puts everything into a new database, but for logs.
pub(super) fn fill(database: &mut Database, run: &RunFacts<'_>) -> Result<()> {
    let names = |names: &[String]| -> Rows {
        let rows = names.iter().map(|name| vec![name.as_str().into()]);
        rows.collect()
    };
    database.add("node", names(run.nodes))?;
    database.add("client", names(run.clients))?;
    operations(database, run)?;
    printed(database, run)?;
    faults(database, run)?;
    happened(database, run)?;
    if run.about == About::Run {
        database.add(MADE, run.calls.made(&run.ran.points))?;
        database.add(MADE_MESSAGE, run.calls.made_messages(&run.ran.points))?;
    }
    let end_ns = run.end_ns();
    database.add("over", [vec![end_ns.into()]])?;
    if let Judged::Broken { broken } = &run.ran.judged {
        let rows = broken
            .iter()
            .map(|words| vec![words.as_str().into(), end_ns.into()]);
        database.add("found", rows)?;
    }
    Ok(())
}

/// Puts in what nodes logged.
pub(super) fn fill_logs(database: &mut Database, run: &RunFacts<'_>) -> Result<()> {
    let times = read_times(&run.files.log_times)?;
    for node in run.nodes {
        let of_node = times.iter().filter(|time| time.node == *node).cloned();
        let of_node: Vec<_> = of_node.collect();
        let log = log_of(run.files, node);
        let (mut rows, mut number) = (Rows::new(), 0_i64);
        let mut take = |line: String, time_ns: u64| {
            number += 1;
            rows.push(vec![
                node.as_str().into(),
                number.into(),
                line.into(),
                ns(time_ns),
            ]);
            if rows.len() == LINES_AT_ONCE {
                database.add("logged", std::mem::take(&mut rows))?;
            }
            Ok(())
        };
        each_line(&log, &of_node, run.end_ns() as u64, &mut take)?;
        database.add("logged", rows)?;
    }
    Ok(())
}

fn ns(time_ns: u64) -> Value {
    Value::Integer(i64::try_from(time_ns).unwrap_or(i64::MAX))
}

/// A value of a history: its text, if it is one, else what it is in JSON.
fn text(value: &history::Value) -> Value {
    let text = match value {
        history::Value::Text(text) => text.clone(),
        other => other.to_json().to_string(),
    };
    Value::Text(text.replace('\0', ""))
}

fn key(operation: &Operation) -> Value {
    operation.key.as_ref().map_or_else(|| "".into(), text)
}

/// What clients did, if they print that.
fn read_history(path: &Path) -> Result<History> {
    let Ok(file) = File::open(path) else {
        return Ok(History::default());
    };
    match history::read(BufReader::new(file)) {
        Err(ReadError::Empty) => Ok(History::default()),
        other => other.map_err(|error| refused_file(path, &error)),
    }
}

/// The first columns of an operation: what is known of it when it is called.
fn beginning(run: &RunFacts<'_>, place: usize, operation: &Operation) -> Vec<Value> {
    let client = run.ran.processes.get(operation.process as usize);
    vec![
        Value::Integer(place as i64),
        client.map_or("", String::as_str).into(),
        Value::Integer(operation.process as i64),
        operation.f.as_str().into(),
        key(operation),
        text(&operation.argument),
    ]
}

fn operations(database: &mut Database, run: &RunFacts<'_>) -> Result<()> {
    let history = read_history(&run.files.history)?;
    let (mut called, mut acknowledged) = (Rows::new(), Rows::new());
    let (mut refused, mut unknown) = (Rows::new(), Rows::new());
    for (place, operation) in history.operations().iter().enumerate() {
        let begin = beginning(run, place, operation);
        called.push([begin.clone(), vec![ns(operation.call_ns)]].concat());
        let end_ns = operation.return_ns.map_or(Value::Integer(run.end_ns()), ns);
        let (rows, what) = match operation.outcome {
            Outcome::Ok => (&mut acknowledged, text(&operation.result)),
            Outcome::Fail => (&mut refused, error(operation)),
            Outcome::Unknown => (&mut unknown, error(operation)),
        };
        rows.push([begin, vec![what, ns(operation.call_ns), end_ns]].concat());
    }
    database.add("called", called)?;
    database.add("acknowledged", acknowledged)?;
    database.add("refused", refused)?;
    database.add("unknown", unknown)?;
    Ok(())
}

fn error(operation: &Operation) -> Value {
    operation.error.as_ref().map_or_else(|| "".into(), text)
}

/// What clients printed that is of no history.
fn printed(database: &mut Database, run: &RunFacts<'_>) -> Result<()> {
    let Ok(bytes) = std::fs::read(&run.files.acknowledgements) else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&bytes);
    let is_of_history = |line: &str| {
        let parsed: Option<serde_json::Map<_, _>> = serde_json::from_str(line).ok();
        parsed.is_some_and(|object| object.contains_key("type"))
    };
    let lines = text.lines().enumerate();
    let lines: Vec<_> = lines.filter(|(_, line)| !is_of_history(line)).collect();
    let rows = lines.iter().enumerate();
    let rows = rows.map(|(place, (_, line))| vec![count(place), line.replace('\0', "").into()]);
    database.add("printed", rows)?;
    let places: Vec<_> = lines.iter().map(|(place, _)| *place).collect();
    printed_at(database, run, &places)
}

fn count(place: usize) -> Value {
    Value::Integer(place as i64 + 1)
}

/// When that was, of a live run; the lines are at these places among all.
fn printed_at(database: &mut Database, run: &RunFacts<'_>, places: &[usize]) -> Result<()> {
    let Some(client) = run.clients.first().filter(|_| run.about == About::LiveRun) else {
        return Ok(());
    };
    let rows = places.iter().enumerate().filter_map(|(place, line)| {
        let time_ns = run.lines_ns.get(*line)?;
        Some(vec![count(place), client.as_str().into(), ns(*time_ns)])
    });
    Ok(database.add("printed_at", rows)?)
}

fn faults(database: &mut Database, run: &RunFacts<'_>) -> Result<()> {
    let (mut on, mut cut, mut missed) = (Rows::new(), Rows::new(), Rows::new());
    for (place, came) in run.ran.faults.iter().enumerate() {
        let number = Value::Integer(place as i64 + 1);
        if let Some(why) = missed_why(came) {
            missed.push(vec![number.clone(), why.into()]);
        }
        let Some(placed_ns) = came.placed_ns else {
            continue;
        };
        for node in &came.on {
            on.push(vec![number.clone(), node.as_str().into(), ns(placed_ns)]);
        }
        let sides = came
            .sides
            .iter()
            .flat_map(|(one, other)| [(1_i64, one), (2, other)]);
        for (side, all) in sides {
            for who in all {
                cut.push(vec![
                    number.clone(),
                    side.into(),
                    who.as_str().into(),
                    ns(placed_ns),
                ]);
            }
        }
    }
    database.add("fault_on", on)?;
    database.add("cut", cut)?;
    Ok(database.add("fault_missed", missed)?)
}

/// Why a fault did not happen as planned, if it did not.
fn missed_why(came: &FaultCame) -> Option<String> {
    match came.state {
        State::NeverFired => {
            let why = came.why.clone();
            Some(why.unwrap_or_else(|| "its trigger never fired".into()))
        }
        State::NotInjected => Some(came.why.clone().unwrap_or_default()),
        _ if came.calls == Some(0) => Some("it hit nothing".into()),
        _ => None,
    }
}

/// Rows by their relation.
#[derive(Default)]
struct Told(std::collections::BTreeMap<&'static str, Rows>);

impl Told {
    fn add(&mut self, relation: &'static str, row: Vec<Value>) {
        self.0.entry(relation).or_default().push(row);
    }
}

fn happened(database: &mut Database, run: &RunFacts<'_>) -> Result<()> {
    let mut told = Told::default();
    for node in run.nodes {
        told.add("started", vec![node.as_str().into(), 0.into()]);
    }
    for event in &run.ran.events {
        let time = ns(event.time_ns);
        if let Happening::Call { node, words } = &event.what
            && let Some(hit) = hit(words, &run.calls)
        {
            let node = vec![node.as_str().into()];
            told.add("call_hit", [node, hit, vec![time.clone()]].concat());
        }
        if let Happening::Restored { nodes } = &event.what {
            for node in run.nodes.iter().filter(|node| !nodes.contains(node)) {
                told.add("cut_off", vec![node.as_str().into(), time.clone()]);
            }
        }
        if let Some((relation, mut row)) = fact(run, &event.what) {
            row.push(time);
            told.add(relation, row);
        }
    }
    for (relation, rows) in told.0 {
        database.add(relation, rows)?;
    }
    Ok(())
}

/// What happened as a row of a relation, but for the time, which is its last column.
fn fact(run: &RunFacts<'_>, what: &Happening) -> Option<(&'static str, Vec<Value>)> {
    let value = |text: &String| Value::from(text.as_str());
    let number = |fault: &usize| Value::Integer(*fault as i64);
    Some(match what {
        Happening::InPlace { fault, words } => {
            let kind = run.kinds.get(fault - 1).copied().unwrap_or_default();
            ("fault", vec![number(fault), kind.into(), value(words)])
        }
        Happening::Undone { fault } => ("fault_ended", vec![number(fault)]),
        Happening::Call { node, words } => ("call", vec![value(node), value(words)]),
        Happening::Role { node, role, more } => {
            let row = vec![value(node), value(role), term(more), value(more)];
            ("role", row)
        }
        Happening::NodeEnded { node, how } => ("ended", vec![value(node), value(how)]),
        Happening::Ready { node } => ("started", vec![value(node)]),
        Happening::NotReady { node, why } => ("not_ready", vec![value(node), value(why)]),
        Happening::ClientEnded { client, how } => ("client_ended", vec![value(client), value(how)]),
        Happening::ProbeFailed { why } => ("probe_failed", vec![value(why)]),
        Happening::Healed => ("healed", Vec::new()),
        Happening::Progress => ("progress", Vec::new()),
        // The run is over then, or the fault is told of as one that was missed, or it is a row for each node.
        Happening::Checked | Happening::NotInjected { .. } | Happening::Restored { .. } => {
            return None;
        }
    })
}

/// The term that a probe says: the number behind the role.
fn term(more: &str) -> Value {
    let first = more.split_whitespace().next();
    Value::Integer(first.and_then(|first| first.parse().ok()).unwrap_or(0))
}

/// What `fsync log: fails with EIO (fault 2)` says, as columns of `call_hit`: fault, call, path, what comes
/// of it, and where in the program the call is made, as far as that is known.
fn hit(words: &str, calls: &KnownCalls) -> Option<Vec<Value>> {
    let (rest, fault) = words.strip_suffix(')')?.rsplit_once(" (fault ")?;
    let (made, comes) = rest.rsplit_once(": ")?;
    let (call, path) = made.split_once(' ').unwrap_or((made, ""));
    let fault: usize = fault.parse().ok()?;
    let number = Value::Integer(i64::try_from(fault).ok()?);
    let [site, called_by] = calls.place_of_hit(fault);
    Some(vec![
        number,
        call.into(),
        path.into(),
        comes.into(),
        site,
        called_by,
    ])
}

impl RunFacts<'_> {
    /// When the run was over.
    fn end_ns(&self) -> i64 {
        (self.ran.seconds * 1e9) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_hit_is_taken_apart() {
        let calls = KnownCalls::default();
        let row = hit("fsync wal/log: fails with EIO (fault 12)", &calls).expect("it was hit");
        let expected: Vec<Value> = vec![
            12.into(),
            "fsync".into(),
            "wal/log".into(),
            "fails with EIO".into(),
            "".into(),
            "".into(),
        ];
        assert_eq!(row, expected);
        assert!(hit("is about to fsync log", &calls).is_none());
        assert_eq!(term("7 since a while"), Value::Integer(7));
        assert_eq!(term("x"), Value::Integer(0));
    }
}
