//! A trace in words, for people: a line for each event.

use std::collections::HashMap;

use block_dev::Kind;
use brief::counted;
use trace::{
    Action, ChangeOfName, Event, FileId, FileKind, FileOp, Message, Name, Node, SyncScope,
};
use trace_store::Trace;

/// A line for each event of a trace, in the order in which they ended: when, in milliseconds since
/// the first one, which node, which thread, which call, what it did to which file. Between them
/// what the nodes' disks were asked to do since.
pub fn describe(trace: &Trace) -> impl Iterator<Item = String> + '_ {
    let mut lines = Lines::of(trace);
    in_order(trace)
        .into_iter()
        .map(move |place| lines.line(place))
}

/// What is known when a line is written.
struct Lines<'a> {
    trace: &'a Trace,
    /// When the first event began, in nanoseconds.
    begin: u64,
    /// Of the longest name of a node.
    width: usize,
    /// Of the files of each node, after what was told so far.
    names: Vec<Names>,
    peers: Peers<'a>,
}

impl<'a> Lines<'a> {
    fn of(trace: &'a Trace) -> Self {
        let nodes = &trace.run.nodes;
        let events = nodes.iter().flat_map(|node| &node.events);
        Self {
            trace,
            begin: events.map(|event| event.start_ns).min().unwrap_or(0),
            width: nodes.iter().map(|node| node.name.len()).max().unwrap_or(0),
            names: nodes.iter().map(Names::new).collect(),
            peers: Peers::of(nodes),
        }
    }

    fn line(&mut self, (time_ns, what, number, place): (u64, What, usize, usize)) -> String {
        let node = &self.trace.run.nodes[number];
        let (thread, call, what) = match what {
            What::Request => {
                let request = request(self.trace.disks[&node.name].log.entries()[place].kind);
                ("disk".to_owned(), place.to_string(), request)
            }
            What::Event => {
                let Event {
                    thread,
                    call,
                    action,
                    ..
                } = &node.events[place];
                (
                    thread.to_string(),
                    call.to_string(),
                    self.action(number, action),
                )
            }
        };
        let at_ms = time_ns.saturating_sub(self.begin) as f64 / 1e6;
        let (node, width) = (&node.name, self.width);
        format!("{at_ms:12.3}  {node:width$}  {thread:>7}  {call:<15} {what}")
    }

    fn action(&mut self, node: usize, action: &Action) -> String {
        match action {
            Action::File(op) => self.names[node].tell(op),
            Action::Send(message) => format!("to {}", self.peers.words(node, message)),
            Action::Receive(message) => format!("from {}", self.peers.words(node, message)),
            Action::Mark { line } => {
                format!(
                    "says {:?}",
                    String::from_utf8_lossy(self.trace.bytes(*line))
                )
            }
        }
    }
}

/// When each request of a disk came and each event ended, with the number of the node and its place
/// there. Requests stand before the events that ended at the same time.
fn in_order(trace: &Trace) -> Vec<(u64, What, usize, usize)> {
    let mut order = Vec::new();
    for (number, node) in trace.run.nodes.iter().enumerate() {
        let events = node.events.iter().enumerate();
        order.extend(events.map(|(place, event)| (event.end_ns, What::Event, number, place)));
        let disk = trace.disks.get(&node.name).into_iter();
        let requests =
            disk.flat_map(|disk| disk.log.entries().iter().enumerate().skip(disk.durable));
        order.extend(
            requests.map(|(place, request)| (request.time_ns, What::Request, number, place)),
        );
    }
    order.sort_unstable();
    order
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Request,
    Event,
}

/// What a disk was asked to do.
fn request(kind: Kind) -> String {
    match kind {
        Kind::Write {
            offset,
            length,
            fua,
        } => {
            format!(
                "write of {} at {offset}{}",
                counted(length, "byte"),
                if fua { ", FUA" } else { "" }
            )
        }
        Kind::Flush => "flush".into(),
        Kind::FuaFlush => "flush that stands for FUA".into(),
        Kind::Discard { offset, length } => {
            format!("discard of {} at {offset}", counted(length, "byte"))
        }
        Kind::Mark(_) => "mark".into(),
    }
}

fn kind_words(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink { .. } => "symbolic link",
        FileKind::Fifo => "named pipe",
        FileKind::Special => "socket or the like",
    }
}

/// Which nodes have something to do with each stream.
struct Peers<'a> {
    nodes: &'a [Node],
    by_stream: HashMap<u32, Vec<usize>>,
}

impl<'a> Peers<'a> {
    fn of(nodes: &'a [Node]) -> Self {
        let mut by_stream: HashMap<u32, Vec<usize>> = HashMap::new();
        for (number, node) in nodes.iter().enumerate() {
            for event in &node.events {
                if let Action::Send(message) | Action::Receive(message) = &event.action {
                    let known = by_stream.entry(message.stream).or_default();
                    if !known.contains(&number) {
                        known.push(number);
                    }
                }
            }
        }
        Self { nodes, by_stream }
    }

    /// Whom a node talks to with a message, and which bytes of the stream it is.
    fn words(&self, own: usize, message: &Message) -> String {
        let Message { stream, from, to } = message;
        let other = self.by_stream[stream].iter().find(|number| **number != own);
        let other = other.map_or("somebody", |other| self.nodes[*other].name.as_str());
        format!("{other} stream {stream} bytes {from}..{to}")
    }
}

/// The names that the files of a node have at a moment.
struct Names(HashMap<FileId, (Option<FileId>, Name)>);

impl Names {
    fn new(node: &Node) -> Self {
        Self(
            node.initial
                .iter()
                .map(|file| (file.file, (file.parent, file.name.clone())))
                .collect(),
        )
    }

    fn path(&self, file: FileId) -> String {
        let mut names = Vec::new();
        let mut at = file;
        // In a trace that somebody made up a directory may be in itself.
        while names.len() <= self.0.len() {
            match self.0.get(&at) {
                Some((Some(parent), name)) => {
                    names.push(String::from_utf8_lossy(name));
                    at = *parent;
                }
                None if at != FileId::ROOT => {
                    names.push(format!("a file without a name ({})", at.0).into());
                    break;
                }
                _ if names.is_empty() => return ".".into(),
                _ => break,
            }
        }
        names.reverse();
        names.join("/")
    }

    fn in_directory(&self, parent: FileId, name: &Name) -> String {
        let name = String::from_utf8_lossy(name);
        match self.path(parent).as_str() {
            "." => name.into_owned(),
            parent => format!("{parent}/{name}"),
        }
    }

    fn set(&mut self, file: FileId, parent: FileId, name: &Name) {
        self.0.insert(file, (Some(parent), name.clone()));
    }

    fn tell_rename(
        &mut self,
        file: FileId,
        names: &ChangeOfName,
        replaced: Option<FileId>,
        exchange: bool,
    ) -> String {
        let from = self.in_directory(names.from.0, &names.from.1);
        self.set(file, names.to.0, &names.to.1);
        if let (Some(replaced), true) = (replaced, exchange) {
            self.set(replaced, names.from.0, &names.from.1);
        }
        let how = match (replaced, exchange) {
            (_, true) => ", exchanged",
            (Some(_), _) => ", over what was there",
            _ => "",
        };
        format!("{from}: renamed to {}{how}", self.path(file))
    }

    fn tell(&mut self, op: &FileOp) -> String {
        match op {
            FileOp::Create {
                parent,
                name,
                file,
                kind,
                mode,
            } => {
                self.set(*file, *parent, name);
                let kind = kind_words(*kind);
                format!("{}: new {kind}, mode {mode:o}", self.path(*file))
            }
            FileOp::CreateNameless { file, mode } => {
                format!("{}: new file, mode {mode:o}", self.path(*file))
            }
            FileOp::Link { parent, name, file } => {
                let before = self.path(*file);
                self.set(*file, *parent, name);
                format!("{}: new name of {before}", self.path(*file))
            }
            FileOp::Unlink { parent, name, .. } => {
                format!("{}: removed", self.in_directory(*parent, name))
            }
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange,
            } => self.tell_rename(*file, names, *replaced, *exchange),
            FileOp::SyncAll => "everything synced".into(),
            of_one => format!("{}: {}", self.path(of_one.subject()), done_to(of_one)),
        }
    }
}

/// What an operation on one file does to it, but for its names.
fn done_to(op: &FileOp) -> String {
    match op {
        FileOp::Write {
            offset,
            data,
            size_before,
            ..
        } => {
            let appends = if *offset >= *size_before {
                ", appended"
            } else {
                ""
            };
            format!("bytes {}{appends}", range(*offset, data.len))
        }
        FileOp::Resize { from, to, .. } => format!("{} become {to}", counted(*from, "byte")),
        FileOp::Zero { offset, len, .. } | FileOp::ZeroBlocks { offset, len, .. } => {
            format!("zeros {}", range(*offset, *len))
        }
        FileOp::Allocate { offset, len, .. } => format!("allocated {}", range(*offset, *len)),
        FileOp::SetMode { mode, .. } => format!("mode {mode:o}"),
        FileOp::SetXattr { name, value, .. } => {
            let name = String::from_utf8_lossy(name);
            match value {
                Some(value) => format!("attribute {name}, {}", counted(value.len, "byte")),
                None => format!("attribute {name} removed"),
            }
        }
        FileOp::Sync { scope, .. } => synced(scope),
        _ => unreachable!("not an operation on one file"),
    }
}

fn synced(scope: &SyncScope) -> String {
    match scope {
        SyncScope::File => "synced".into(),
        SyncScope::Data => "data synced".into(),
        SyncScope::Range { offset, len } | SyncScope::FileRange { offset, len } => {
            format!("synced {}", range(*offset, *len))
        }
    }
}

/// From the first byte to past the last one.
fn range(offset: u64, len: u64) -> String {
    format!("{offset}..{}", offset.saturating_add(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_with_its_directories_even_where_they_are_in_themselves() {
        let name = |name: &str| Name::from(name.as_bytes());
        let mut names = Names([(FileId::ROOT, (None, name("")))].into());
        names.set(FileId(1), FileId::ROOT, &name("a"));
        names.set(FileId(2), FileId(1), &name("b"));
        let paths = |names: &Names| [0, 1, 2, 3].map(|file| names.path(FileId(file)));
        assert_eq!(
            paths(&names),
            [".", "a", "a/b", "a file without a name (3)"]
        );
        names.set(FileId(3), FileId(9), &name("c"));
        assert_eq!(names.path(FileId(3)), "a file without a name (9)/c");
        names.set(FileId(1), FileId(2), &name("a"));
        assert!(names.path(FileId(2)).ends_with("a/b"));
    }
}
