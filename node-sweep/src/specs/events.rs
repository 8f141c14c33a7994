//! What the nodes of a run did, as rows of facts.

use datalog::Value;
use specification::rows::{Fact, text};
use trace::{Action, Event, FileKind, FileOp, Message, Node, SyncScope};
use trace_store::Trace;

use super::Specs;
use crate::operations::Operations;

/// What is of a run whatever crash it has: what each event is as a fact, and who is there.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Of nodes and clients.
    pub(super) names: Vec<Fact>,
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

impl Events {
    /// Those that these specifications ask for.
    pub(super) fn of(trace: &Trace, specs: &Specs) -> Self {
        let run = &trace.run;
        let starts = run.nodes.iter().flat_map(|node| &node.events);
        let first_ns = starts.map(|event| event.start_ns).min().unwrap_or_default();
        let nodes = run.nodes.iter().zip(numbers(trace));
        let of = nodes.map(|(node, numbers)| of_node(trace, specs, node, &numbers, first_ns));
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
        }
    }
}

/// What a node did, of which these are the numbers.
fn of_node(trace: &Trace, specs: &Specs, node: &Node, numbers: &[i64], first_ns: u64) -> Vec<Told> {
    let operations = Operations::of(node);
    let told = node.events.iter().zip(numbers).enumerate();
    let told = told.map(|(event, (done, number))| {
        let (number, time) = (*number, time(done, first_ns));
        let told = Telling {
            trace,
            node: &node.name,
            operations: &operations,
            event,
            number,
            time,
        };
        let fact = told.fact(done);
        let fact = fact.filter(|(relation, _)| is_asked_for(specs, relation));
        Told { number, time, fact }
    });
    told.collect()
}

/// What did not return is told of as what is in flight.
fn is_asked_for(specs: &Specs, relation: &str) -> bool {
    specs.mention(relation) || (relation == "file_op" && specs.mention("in_flight"))
}

fn names(nodes: &[Node]) -> Vec<Fact> {
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

    fn message(&self, message: &Message) -> Vec<Value> {
        vec![
            self.number.into(),
            self.node.into(),
            i64::from(message.stream).into(),
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
            i64::from(op.subject().0).into(),
            offset.into(),
            length.into(),
            (&*event.call).into(),
            self.time.into(),
        ])
    }
}

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
