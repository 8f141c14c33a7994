//! What the nodes of a run did, as rows of facts.

use std::collections::BTreeSet;

use datalog::Value;
use specification::rows::{Fact, text};
use trace::{Action, Event, FileId, FileKind, FileOp, Message, Node, Run, SyncScope};
use trace_store::{Past, Trace};

use super::Specs;
use crate::operations::Operations;

/// What is of a run, and of each recovery from a crash of it.
#[derive(Debug)]
pub(crate) struct Runs {
    /// The run first, then the recoveries in order, up to one of which nobody knows what came before.
    all: Vec<Events>,
}

/// What is of a run whatever crash it has: what each event is as a fact, and who is there.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Of nodes and clients.
    pub(super) names: BTreeSet<Fact>,
    /// The names of all nodes, clients among them.
    pub(super) nodes: Vec<String>,
    /// The nodes that have a directory, by their places.
    pub(super) with_files: Vec<usize>,
    /// By node and event.
    pub(super) of: Vec<Vec<Told>>,
    /// What was printed, in order: the node, and its event.
    pub(super) printed: Vec<(usize, usize)>,
    /// Not all that the nodes did is known.
    pub(super) is_partial: bool,
    /// What came before it.
    pub(super) before: Before,
}

/// What came before a run that recovers from a crash, as the crash left it. Nothing of another run.
#[derive(Debug, Clone, Default)]
pub(super) struct Before {
    /// Events.
    pub(super) events: Vec<Fact>,
    /// Relations that are told anew of each state: who had printed lines, and the crashes.
    pub(super) of_states: Vec<Fact>,
    /// So many lines had been printed.
    pub(super) lines: i64,
    /// When the last thing happened.
    pub(super) time: i64,
    /// The first numbers of the run's own.
    first: Numbers,
}

/// What facts number. After a crash, files and streams are others than before.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    event: i64,
    file: i64,
    stream: i64,
}

/// An event.
#[derive(Debug)]
pub(super) struct Told {
    /// Its number among those of all nodes.
    pub(super) number: i64,
    pub(super) time: i64,
    /// What it is as a fact, if it is one that somebody asks for.
    pub(super) fact: Option<Fact>,
}

impl Runs {
    /// Those that these specifications ask for.
    pub(super) fn of(trace: &Trace, specs: &Specs) -> Self {
        let mut all = vec![Events::of(trace, specs, Before::default())];
        let mut ends = vec![Numbers::default().after(&trace.run)];
        for recovery in trace.recoveries(false) {
            let recovers = recovery.about.recovers.as_ref();
            let Some(crash) = recovers.and_then(|recovers| recovers.before.as_ref()) else {
                break;
            };
            let parent = place(&crash.past);
            let before = Before::of(&all[parent], &crash.past, ends[parent]);
            ends.push(before.first.after(&recovery.run));
            let events = Events::of(recovery, specs, before);
            let (names, is_partial) = (all[parent].names.clone(), all[parent].is_partial);
            all.push(Events {
                names: &events.names | &names,
                is_partial: events.is_partial || is_partial,
                ..events
            });
        }
        Self { all }
    }

    /// Those of the run in which the power failed, of which this is the past: none is of the first.
    pub(super) fn of_past(&self, past: Option<&Past>) -> &Events {
        &self.all[past.map_or(0, place)]
    }
}

/// Which of the runs it is that a crash was in.
fn place(past: &Past) -> usize {
    past.recovery.map_or(0, |recovery| recovery + 1)
}

impl Numbers {
    /// Those that come after all of a run of which these are the first.
    fn after(self, run: &Run) -> Self {
        let mut after = self;
        let of = |number: u32| i64::from(number) + 1;
        for node in &run.nodes {
            after.event += node.events.len() as i64;
            for initial in &node.initial {
                after.file = after.file.max(self.file + of(initial.file.0));
            }
            for event in &node.events {
                match &event.action {
                    Action::File(op) => {
                        after.file = after.file.max(self.file + of(op.subject().0));
                    }
                    Action::Send(message) | Action::Receive(message) => {
                        after.stream = after.stream.max(self.stream + of(message.stream));
                    }
                    Action::Mark { .. } => {}
                }
            }
        }
        after
    }
}

impl Before {
    /// What came before the recovery from this crash in a run that has these events, after which
    /// these are the next numbers. What the crash has lost is not there, and what is there is durable
    /// now, as after a `sync`.
    fn of(run: &Events, past: &Past, next: Numbers) -> Self {
        let time = run.end(Some(past));
        let mut events = run.before.events.clone();
        events.extend(run.left_by(past));
        let mut first = next;
        for node in &run.with_files {
            events.push(durable(&run.nodes[*node], first.event, time));
            first.event += 1;
        }
        let before = run.printed_before(past).count();
        let mut of_states = run.before.of_states.clone();
        of_states.extend(run.crashed(past));
        of_states.extend(run.printed_by(past));
        Self {
            events,
            of_states,
            lines: run.before.lines + before as i64,
            time,
            first,
        }
    }
}

/// What is left of a node's files by a crash stays.
fn durable(node: &str, number: i64, time: i64) -> Fact {
    let row = vec![
        number.into(),
        node.into(),
        "sync".into(),
        ".".into(),
        "".into(),
        i64::from(FileId::ROOT.0).into(),
        0.into(),
        0.into(),
        POWER_FAILURE.into(),
        time.into(),
    ];
    ("file_op", row)
}

impl Events {
    /// Those that these specifications ask for, after this.
    fn of(trace: &Trace, specs: &Specs, before: Before) -> Self {
        let run = &trace.run;
        let starts = run.nodes.iter().flat_map(|node| &node.events);
        let first_ns = starts.map(|event| event.start_ns).min().unwrap_or_default();
        let context = Context {
            trace,
            specs,
            before: &before,
            first_ns,
        };
        let nodes = run.nodes.iter().zip(numbers(trace));
        let of = nodes.map(|(node, numbers)| context.of_node(node, &numbers));
        let of = of.collect();
        let with_files = run.nodes.iter().enumerate();
        let with_files = with_files.filter(|(_, node)| !node.initial.is_empty());
        Self {
            names: names(&run.nodes),
            nodes: run.nodes.iter().map(|node| node.name.clone()).collect(),
            with_files: with_files.map(|(place, _)| place).collect(),
            of,
            printed: printed(trace),
            is_partial: !trace.about.not_recorded.is_empty(),
            before,
        }
    }

    /// When the last thing happened before a crash.
    pub(super) fn end(&self, past: Option<&Past>) -> i64 {
        let cut = past.map_or(&[][..], |past| &past.cut);
        let last = self.of.iter().zip(cut);
        let times = last.filter_map(|(told, cut)| Some(told.get(cut.checked_sub(1)?)?.time));
        times.max().unwrap_or(self.before.time)
    }

    /// The last event of each node before a crash.
    pub(super) fn crashed(&self, past: &Past) -> impl Iterator<Item = Fact> {
        past.cut.iter().enumerate().map(|(place, cut)| {
            let last = cut.checked_sub(1).map(|last| &self.of[place][last]);
            let none = (-1, self.before.time);
            let (number, time) = last.map_or(none, |last| (last.number, last.time));
            let node = Value::from(&*self.nodes[place]);
            ("crashed", vec![node, number.into(), time.into()])
        })
    }

    /// The lines that had come before a crash, in order.
    fn printed_before(&self, past: &Past) -> impl Iterator<Item = &(usize, usize)> {
        let printed = self.printed.iter();
        printed.filter(|(node, event)| *event < past.cut[*node])
    }

    /// Who printed them.
    pub(super) fn printed_by(&self, past: &Past) -> impl Iterator<Item = Fact> {
        let printed = (self.before.lines + 1..).zip(self.printed_before(past));
        printed.map(|(number, (place, event))| {
            let told = &self.of[*place][*event];
            let row = vec![
                number.into(),
                Value::from(&*self.nodes[*place]),
                told.number.into(),
                told.time.into(),
            ];
            ("printed_by", row)
        })
    }

    /// The events before a crash of which the disks have something, or that change nothing on them.
    fn left_by(&self, past: &Past) -> impl Iterator<Item = Fact> {
        let is_lost = |node: usize, event: usize| {
            let mut lost = past.lost.iter();
            lost.any(|lost| lost.is_whole && (lost.node, lost.event) == (node, event))
        };
        let nodes = past.cut.iter().enumerate();
        let done = nodes.flat_map(|(node, cut)| (0..*cut).map(move |event| (node, event)));
        let left = done.filter(move |(node, event)| !is_lost(*node, *event));
        let left = left.chain(past.in_flight.iter().copied());
        left.filter_map(|(node, event)| self.of[node][event].fact.clone())
    }
}

/// What the facts of a run's events are made with.
struct Context<'a> {
    trace: &'a Trace,
    specs: &'a Specs,
    before: &'a Before,
    first_ns: u64,
}

impl Context<'_> {
    /// What a node did, of which these are the numbers.
    fn of_node(&self, node: &Node, numbers: &[i64]) -> Vec<Told> {
        let operations = Operations::of(node);
        let told = node.events.iter().zip(numbers).enumerate();
        let told = told.map(|(event, (done, number))| {
            let first = self.before.first;
            let number = first.event + *number;
            let time = self.before.time + time(done, self.first_ns);
            let told = Telling {
                trace: self.trace,
                node: &node.name,
                operations: &operations,
                first,
                event,
                number,
                time,
            };
            let fact = told.fact(done);
            let fact = fact.filter(|(relation, _)| is_asked_for(self.specs, relation));
            Told { number, time, fact }
        });
        told.collect()
    }
}

/// What did not return is told of as what is in flight.
fn is_asked_for(specs: &Specs, relation: &str) -> bool {
    specs.mention(relation) || (relation == "file_op" && specs.mention("in_flight"))
}

fn names(nodes: &[Node]) -> BTreeSet<Fact> {
    let name = |node: &Node| vec![Value::from(&*node.name)];
    let has_files = |node: &&Node| !node.initial.is_empty();
    let prints = |node: &&Node| {
        let mut events = node.events.iter();
        node.initial.is_empty() || events.any(|event| matches!(event.action, Action::Mark { .. }))
    };
    let of_nodes = nodes
        .iter()
        .filter(has_files)
        .map(|node| ("node", name(node)));
    let of_clients = nodes
        .iter()
        .filter(prints)
        .map(|node| ("client", name(node)));
    of_nodes.chain(of_clients).collect()
}

/// From the first thing on that was recorded.
fn time(event: &Event, first_ns: u64) -> i64 {
    // One that never returned began at some time.
    let at = if event.end_ns == u64::MAX {
        event.start_ns
    } else {
        event.end_ns
    };
    at.saturating_sub(first_ns) as i64
}

/// The events of all nodes in one order, by node and event: as they returned.
fn numbers(trace: &Trace) -> Vec<Vec<i64>> {
    let nodes = &trace.run.nodes;
    let mut all = Vec::new();
    for (node, done) in nodes.iter().enumerate() {
        let events = done.events.iter().enumerate();
        all.extend(events.map(|(event, done)| (done.end_ns, node, event)));
    }
    all.sort_unstable();
    let mut numbers: Vec<Vec<i64>> = nodes
        .iter()
        .map(|node| vec![0; node.events.len()])
        .collect();
    for (number, (_, node, event)) in (0..).zip(all) {
        numbers[node][event] = number;
    }
    numbers
}

/// What was printed, in the order of time: the node, and its event.
fn printed(trace: &Trace) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for (node, done) in trace.run.nodes.iter().enumerate() {
        let events = done.events.iter().enumerate();
        let marks = events.filter(|(_, event)| matches!(event.action, Action::Mark { .. }));
        all.extend(marks.map(|(event, done)| (done.end_ns, node, event)));
    }
    all.sort_unstable();
    all.into_iter()
        .map(|(_, node, event)| (node, event))
        .collect()
}

/// An event that is told of.
struct Telling<'a> {
    trace: &'a Trace,
    node: &'a str,
    operations: &'a Operations,
    first: Numbers,
    event: usize,
    number: i64,
    time: i64,
}

impl Telling<'_> {
    fn fact(&self, event: &Event) -> Option<Fact> {
        Some(match &event.action {
            Action::Send(message) => ("sent", self.message(message)),
            Action::Receive(message) => ("received", self.message(message)),
            Action::Mark { .. } => return None,
            Action::File(op) => ("file_op", self.file_op(event, op)?),
        })
    }

    /// A directory of data stays what it is.
    fn file(&self, file: FileId) -> i64 {
        let first = if file == FileId::ROOT {
            0
        } else {
            self.first.file
        };
        first + i64::from(file.0)
    }

    fn message(&self, message: &Message) -> Vec<Value> {
        vec![
            self.number.into(),
            self.node.into(),
            (self.first.stream + i64::from(message.stream)).into(),
            (message.from as i64).into(),
            (message.to as i64).into(),
            self.time.into(),
        ]
    }

    fn file_op(&self, event: &Event, op: &FileOp) -> Option<Vec<Value>> {
        let operation = self.operations.get(self.event)?;
        let path = operation.removes.as_ref().unwrap_or(&operation.path);
        let path = if operation.names.is_some() && operation.removes.is_none() && is_new(op) {
            operation.names.as_ref().unwrap_or(path)
        } else {
            path
        };
        let to = match op {
            FileOp::Create {
                kind: FileKind::Symlink { target },
                ..
            } => text(self.trace.bytes(*target)),
            FileOp::Link { .. } | FileOp::Rename { .. } => {
                operation.names.clone().unwrap_or_default()
            }
            _ => String::new(),
        };
        let (offset, length) = range(op);
        Some(vec![
            self.number.into(),
            self.node.into(),
            word(op).into(),
            path.replace('\0', "").into(),
            to.into(),
            self.file(op.subject()).into(),
            offset.into(),
            length.into(),
            (&*event.call).into(),
            self.time.into(),
        ])
    }
}

/// The call of a `sync` that no program made: what a crash has left is durable.
pub(super) const POWER_FAILURE: &str = "power failure";

fn is_new(op: &FileOp) -> bool {
    matches!(op, FileOp::Create { .. })
}

/// What the page calls it.
fn word(op: &FileOp) -> &'static str {
    match op {
        FileOp::Create { kind, .. } => match kind {
            FileKind::Directory => "mkdir",
            FileKind::Symlink { .. } => "symlink",
            _ => "creat",
        },
        FileOp::CreateNameless { .. } => "creat",
        FileOp::Link { .. } => "link",
        FileOp::Unlink { .. } => "unlink",
        FileOp::Rename { exchange: true, .. } => "exchange",
        FileOp::Rename { .. } => "rename",
        FileOp::Write { .. } => "write",
        FileOp::Resize { .. } => "truncate",
        FileOp::Zero { .. } | FileOp::ZeroBlocks { .. } => "zero",
        FileOp::Allocate { .. } => "allocate",
        FileOp::SetMode { .. } => "chmod",
        FileOp::SetXattr { .. } => "setxattr",
        FileOp::Sync { scope, .. } => match scope {
            SyncScope::File => "fsync",
            SyncScope::Data => "fdatasync",
            SyncScope::Range { .. } | SyncScope::FileRange { .. } => "fsync-range",
        },
        FileOp::SyncAll => "sync",
    }
}

/// Where it begins, and how many bytes it is of.
fn range(op: &FileOp) -> (i64, i64) {
    let (offset, length) = match op {
        FileOp::Write { offset, data, .. } => (*offset, data.len),
        FileOp::Resize { to, .. } => (*to, 0),
        FileOp::Zero { offset, len, .. }
        | FileOp::ZeroBlocks { offset, len, .. }
        | FileOp::Allocate { offset, len, .. }
        | FileOp::Sync {
            scope: SyncScope::Range { offset, len } | SyncScope::FileRange { offset, len },
            ..
        } => (*offset, *len),
        _ => (0, 0),
    };
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    (number(offset), number(length))
}
