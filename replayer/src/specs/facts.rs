//! What was done before a crash, and what the disk lost in it, as rows of facts.

use crash_images::requests;
use datalog::Value;
use local_fs::Tree;
use pace_rules::disk::{Disk, Relaxation, Request, State};
use recorder::{Outcome, Recorded};
use specification::rows::Fact;
use workloads::{Op, Workload};

use super::leftover::Leftover;
use super::names::{Change, Names};
use super::{Rules, Told};
use crate::moment::Progress;
use crate::result::{LostBytes, StateFindings};

/// What a sync is called that comes after the setup.
const END_OF_SETUP: &str = "setup";

/// What a workload did, whatever crash it has.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The name of the file system.
    node: String,
    /// How the disk kept its word.
    disk: Disk,
    /// What it said that it had written, and never had.
    never_written: Option<LostBytes>,
    operations: Vec<Operation>,
    /// The sync after the setup, and after how many operations it came.
    after_setup: Option<(usize, (i64, Vec<Value>))>,
}

/// An operation, and its events.
#[derive(Debug)]
struct Operation {
    number: i64,
    part: &'static str,
    words: String,
    /// Why it was refused.
    refused: Option<String>,
    /// The numbers of its events, and each as a row of `file_op`.
    events: Vec<(i64, Vec<Value>)>,
}

impl Done {
    /// What a recorded workload did to a file system of this name, on a disk of this kind.
    pub(crate) fn of(node: &str, workload: &Workload, (trace, disk): (&Recorded, Disk)) -> Self {
        let mut this = Self {
            node: node.to_owned(),
            disk,
            never_written: never_written(trace, disk),
            ..Self::default()
        };
        let mut names = Names::default();
        let mut next = 0;
        let setup = workload.setup.len();
        for (number, (op, outcome)) in workload.operations().zip(&trace.outcomes).enumerate() {
            if number == setup && setup > 0 {
                this.end_setup(setup, &mut next);
            }
            let refused = why_refused(*outcome);
            let changes = if refused.is_none() {
                names.apply(op)
            } else {
                Vec::new()
            };
            let (words, call) = (op.to_string(), call(op));
            let part = if number < setup { "setup" } else { "run" };
            this.operations.push(Operation {
                number: number as i64,
                part,
                words: words.replace('\0', ""),
                refused,
                events: this.numbered(changes, &call, &mut next),
            });
        }
        if setup > 0 && this.after_setup.is_none() {
            this.end_setup(setup, &mut next);
        }
        this
    }

    fn end_setup(&mut self, setup: usize, next: &mut i64) {
        let events = self.numbered(vec![Names::sync_all()], END_OF_SETUP, next);
        let mut events = events.into_iter();
        self.after_setup = events.next().map(|event| (setup, event));
    }

    fn numbered(&self, changes: Vec<Change>, call: &str, next: &mut i64) -> Vec<(i64, Vec<Value>)> {
        let number = |change| {
            let event = *next;
            *next += 1;
            (event, file_op(event, &self.node, change, call))
        };
        changes.into_iter().map(number).collect()
    }

    /// The events before a moment, in their order: each with its row of `file_op`.
    fn events(&self, progress: Progress) -> Vec<&(i64, Vec<Value>)> {
        let done = progress.operations_done;
        let operations = self.operations.iter().take(done);
        let events = operations.flat_map(|operation| &operation.events);
        let after_setup = self.after_setup.iter();
        let after_setup = after_setup.filter(|(setup, _)| *setup <= done);
        let mut events: Vec<_> = events.chain(after_setup.map(|(_, event)| event)).collect();
        events.sort_by_key(|(event, _)| *event);
        events
    }

    /// What had been done at a moment.
    fn facts(&self, progress: Progress) -> Vec<Fact> {
        let done = progress.operations_done;
        let disk = self.disk.to_string();
        let mut facts = vec![
            ("node", vec![self.node.as_str().into()]),
            ("disk", vec![disk.into()]),
        ];
        for operation in self.operations.iter().take(done) {
            let outcome = operation.refused.as_deref().unwrap_or("done");
            facts.push(operation.fact(outcome));
        }
        let events = self.events(progress).into_iter();
        facts.extend(events.map(|(_, row)| ("file_op", row.clone())));
        if let Some(operation) = self.operations.get(done).filter(|_| progress.under_way) {
            facts.push(operation.fact("in flight"));
            let rows = operation.events.iter().map(|(_, row)| row.clone());
            facts.extend(rows.map(|row| ("in_flight", row)));
        }
        facts
    }

    /// The last event before a moment, -1 if there is none.
    fn last_event(&self, progress: Progress) -> i64 {
        let events = self.events(progress);
        events.last().map_or(-1, |(event, _)| *event)
    }
}

impl Operation {
    fn fact(&self, outcome: &str) -> Fact {
        let first = self.events.first().map_or(-1, |(event, _)| *event);
        let row = vec![
            self.number.into(),
            first.into(),
            self.part.into(),
            self.words.as_str().into(),
            outcome.into(),
        ];
        ("operation", row)
    }
}

fn why_refused(outcome: Outcome) -> Option<String> {
    match outcome {
        Outcome::Done => None,
        Outcome::Refused(errno) => Some(std::io::Error::from_raw_os_error(errno).to_string()),
    }
}

/// The word that an operation begins with.
fn call(op: &Op) -> String {
    let words = op.to_string();
    words
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Nobody took the times: they are the numbers of the events.
fn file_op(event: i64, node: &str, change: Change, call: &str) -> Vec<Value> {
    let whole = |bytes: u64| Value::Integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    vec![
        event.into(),
        node.into(),
        change.op.into(),
        change.path.into(),
        change.to.into(),
        change.file.into(),
        whole(change.offset),
        whole(change.length),
        call.into(),
        event.into(),
    ]
}

/// Which operation was in flight when a write came, by its place in the block log.
pub(crate) type WriteOrigins<'a> = &'a [Progress];

/// The facts of a crash state, which shows this tree.
pub(crate) fn of_crash(
    rules: &Rules,
    done: &Done,
    (state, origins): (&StateFindings, WriteOrigins<'_>),
    tree: &Tree,
) -> Told {
    let progress = Progress {
        operations_done: state.operations_done as usize,
        under_way: state.under_way,
    };
    let mut facts = done.facts(progress);
    let last = done.last_event(progress);
    let row = vec![
        done.node.as_str().into(),
        last.into(),
        Value::Integer(last.max(0)),
    ];
    facts.push(("crashed", row));
    add_disk(
        &mut facts,
        0,
        (&state.state, state.pending, &state.lost),
        origins,
    );
    let never = done.never_written.as_ref();
    let never = never.filter(|lost| (lost.place as usize) < state.state.position);
    facts.extend(never.map(|lost| lost_write(0, lost, origins, "never written")));
    for (crash, again) in (1..).zip(&state.again) {
        let disk = (&again.state, again.pending, again.lost.as_slice());
        add_disk(&mut facts, crash, disk, &[]);
    }
    with_leftover(facts, rules, done, tree)
}

/// The facts of a run that no crash has touched, after so many operations, when it showed this tree.
pub(crate) fn of_run(rules: &Rules, done: &Done, operations_done: usize, tree: &Tree) -> Told {
    let facts = done.facts(Progress {
        operations_done,
        under_way: false,
    });
    with_leftover(facts, rules, done, tree)
}

/// Facts with those of a tree, as far as rules mention them.
fn with_leftover(facts: Vec<Fact>, rules: &Rules, done: &Done, tree: &Tree) -> Told {
    let mut told = Leftover::told(&done.node, tree, rules);
    told.facts.splice(0..0, facts);
    told.facts.retain(|(relation, _)| rules.mention(relation));
    told
}

/// What a disk says that it has written, and never has, if it is one that does that.
fn never_written(trace: &Recorded, disk: Disk) -> Option<LostBytes> {
    let Disk::LoseWrite(number) = disk else {
        return None;
    };
    let requests = requests(&trace.log).into_iter().enumerate();
    let mut writes = requests
        .skip(trace.durable_position)
        .filter_map(|(place, request)| match request {
            Request::Write(write) => Some((place, write)),
            Request::Flush | Request::Nothing => None,
        });
    let (place, write) = writes.nth((number as usize).checked_sub(1)?)?;
    Some(LostBytes {
        place: place as u32,
        offset: write.offset,
        length: write.length,
    })
}

/// What the disk had kept when the power failed.
fn add_disk(
    facts: &mut Vec<Fact>,
    crash: i64,
    (state, pending, lost): (&State, u32, &[LostBytes]),
    origins: WriteOrigins<'_>,
) {
    let (kind, torn) = match &state.relaxation {
        Relaxation::Prefix => ("prefix", None),
        Relaxation::Flushed => ("flushed", None),
        Relaxation::Lost(_) => ("lost", None),
        Relaxation::Torn { place, .. } => ("torn", Some(*place)),
    };
    let row = vec![
        crash.into(),
        kind.into(),
        Value::Integer(state.position as i64),
        i64::from(pending).into(),
    ];
    facts.push(("disk_state", row));
    for lost in lost {
        let how = if torn == Some(lost.place as usize) {
            "in part"
        } else {
            "all"
        };
        facts.push(lost_write(crash, lost, origins, how));
    }
}

fn lost_write(crash: i64, lost: &LostBytes, origins: WriteOrigins<'_>, how: &str) -> Fact {
    let origin = origins.get(lost.place as usize);
    let origin = origin.filter(|progress| progress.under_way);
    let number = origin.map_or(-1, |progress| progress.operations_done as i64);
    let row = vec![
        crash.into(),
        i64::from(lost.place).into(),
        number.into(),
        Value::Integer(lost.offset as i64),
        Value::Integer(lost.length as i64),
        how.into(),
    ];
    ("lost_write", row)
}
