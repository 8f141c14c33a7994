//! The traces of several nodes as one: the ends of their connections found, their data together.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use trace::{Action, Data, Event, FileKind, FileOp, InitialFile, Message, Node};
use trace_store::{About, Trace};

use super::log::{NodeTrace, Recorded, Span, What};
use super::sockets::{Connection, Ends};

/// One end of a connection: the node's number, and that of the connection there.
type End = (usize, usize);

/// The numbers of the streams at one end, and how much the other one sent in all.
#[derive(Debug, Clone, Copy, Default)]
struct Streams {
    out: u32,
    back: u32,
    out_len: u64,
    back_len: u64,
}

impl Streams {
    /// As the other end has them.
    fn reversed(self) -> Self {
        Self {
            out: self.back,
            back: self.out,
            out_len: self.back_len,
            back_len: self.out_len,
        }
    }
}

/// Puts the nodes of a cluster together, in this order. The two ends of a connection are found by
/// their addresses; where those were used for several, the first of one end is that of the other.
/// An end whose other one was not recorded has streams that nobody else has.
pub fn join(nodes: Vec<NodeTrace>, mut about: About) -> Trace {
    let streams = streams(&nodes);
    let mut trace = Trace::default();
    for (number, node) in nodes.into_iter().enumerate() {
        let moved = trace.data.len() as u64;
        if trace.data.is_empty() {
            trace.data = node.data;
        } else {
            trace.data.extend_from_slice(&node.data);
        }
        let move_data = |data: &mut Data| data.at += moved;
        let stream = |connection| streams[&(number, connection)];
        let events = events(node.events, stream, move_data);
        let mut initial = node.initial;
        for file in &mut initial {
            move_initial(file, move_data);
        }
        if let Some(directory) = node.directory {
            about.directories.insert(node.name.clone(), directory);
        }
        if !node.weak_syncs.is_empty() {
            let weak_syncs = node.weak_syncs;
            about.weak_syncs.insert(node.name.clone(), weak_syncs);
        }
        add_counts(&mut about.not_recorded, node.not_recorded);
        add_counts(&mut about.refused, node.refused);
        trace.stacks.extend(node.stacks);
        trace.run.nodes.push(Node {
            name: node.name,
            initial,
            events,
        });
    }
    trace.about = about;
    trace
}

/// What a node did. `move_data` moves where its data is.
fn events(
    recorded: Vec<Recorded>,
    streams: impl Fn(usize) -> Streams + Copy,
    move_data: impl Fn(&mut Data) + Copy,
) -> Vec<Event> {
    let mut calls = BTreeMap::new();
    let moved = |recorded| {
        let mut event = event(recorded, &mut calls, streams);
        move_event(&mut event.action, move_data);
        event
    };
    recorded.into_iter().map(moved).collect()
}

fn add_counts(all: &mut BTreeMap<String, u64>, more: BTreeMap<String, u64>) {
    for (what, count) in more {
        *all.entry(what).or_default() += count;
    }
}

/// The streams of all ends.
fn streams(nodes: &[NodeTrace]) -> HashMap<End, Streams> {
    let mut by_ends: HashMap<&Ends, Vec<End>> = HashMap::new();
    for (end, connection) in ends(nodes) {
        if let Some(ends) = &connection.ends {
            by_ends.entry(ends).or_default().push(end);
        }
    }
    let mut streams: HashMap<End, Streams> = HashMap::new();
    let mut next = 0;
    for (end, here) in ends(nodes) {
        if streams.contains_key(&end) {
            continue;
        }
        let other = here.ends.as_ref().and_then(|ends| {
            let place = by_ends[ends].iter().position(|this| *this == end)?;
            by_ends.get(&ends.reversed())?.get(place).copied()
        });
        let there = other.map(|(node, place)| &nodes[node].connections[place]);
        let mine = Streams {
            out: next,
            back: next + 1,
            out_len: here.sent,
            // Of what came from somebody who was not recorded we know what arrived.
            back_len: there.map_or(here.received, |there| there.sent),
        };
        streams.extend(other.map(|other| (other, mine.reversed())));
        streams.insert(end, mine);
        next += 2;
    }
    streams
}

/// All ends of connections.
fn ends(nodes: &[NodeTrace]) -> impl Iterator<Item = (End, &Connection)> {
    nodes.iter().enumerate().flat_map(|(number, node)| {
        let connections = node.connections.iter().enumerate();
        connections.map(move |(place, connection)| ((number, place), connection))
    })
}

fn event(
    recorded: Recorded,
    calls: &mut BTreeMap<Cow<'static, str>, Arc<str>>,
    streams: impl Fn(usize) -> Streams,
) -> Event {
    let action = match recorded.what {
        What::File(op) => Action::File(op),
        What::Mark(line) => Action::Mark { line },
        What::Socket {
            connection,
            sent,
            bytes,
        } => {
            let streams = streams(connection);
            let (stream, end) = if sent {
                (streams.out, streams.out_len)
            } else {
                (streams.back, streams.back_len)
            };
            let (from, to) = match bytes {
                Span::Bytes { from, to } => (from, to),
                Span::End => (end, end + 1),
            };
            let message = Message { stream, from, to };
            if sent {
                Action::Send(message)
            } else {
                Action::Receive(message)
            }
        }
    };
    Event {
        start_ns: recorded.start_ns,
        end_ns: recorded.end_ns,
        process: recorded.process,
        thread: recorded.thread,
        call: calls
            .entry(recorded.call)
            .or_insert_with_key(|call| call.as_ref().into())
            .clone(),
        stack: recorded.stack,
        action,
    }
}

fn move_kind(kind: &mut FileKind, move_data: impl Fn(&mut Data)) {
    if let FileKind::Symlink { target } = kind {
        move_data(target);
    }
}

fn move_initial(file: &mut InitialFile, move_data: impl Fn(&mut Data)) {
    move_kind(&mut file.kind, &move_data);
    for (_, data) in &mut file.content {
        move_data(data);
    }
}

fn move_event(action: &mut Action, move_data: impl Fn(&mut Data)) {
    match action {
        Action::File(FileOp::Write { data, .. }) | Action::Mark { line: data } => move_data(data),
        Action::File(FileOp::SetXattr {
            value: Some(value), ..
        }) => move_data(value),
        Action::File(FileOp::Create { kind, .. }) => move_kind(kind, move_data),
        _ => {}
    }
}
