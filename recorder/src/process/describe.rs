//! A trace in words, for people: a line for each event.

use std::collections::HashMap;

use block_dev::Kind;
use brief::counted;
use trace::{Action, Event, FileId, FileKind, FileOp, Message, Name, Node, SyncScope};
use trace_store::Trace;

/// A line for each event of a trace, in the order in which they ended: when, in milliseconds since
/// the first one, which node, which thread, which call, what it did to which file. Between them
/// what the nodes' disks were asked to do since.
pub fn describe(trace: &Trace) -> impl Iterator<Item = String> + '_ {
    let nodes = &trace.run.nodes;
    // Requests before the events that ended at the same time.
    let mut order: Vec<(u64, What, usize, usize)> = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        order.extend(
            node.events
                .iter()
                .enumerate()
                .map(|(place, event)| (event.end_ns, What::Event, number, place)),
        );
        let disk = trace.disks.get(&node.name).into_iter();
        let requests =
            disk.flat_map(|disk| disk.log.entries().iter().enumerate().skip(disk.durable));
        order.extend(
            requests.map(|(place, request)| (request.time_ns, What::Request, number, place)),
        );
    }
    order.sort_unstable();
    let begin = nodes
        .iter()
        .flat_map(|node| &node.events)
        .map(|event| event.start_ns)
        .min()
        .unwrap_or(0);
    let width = nodes.iter().map(|node| node.name.len()).max().unwrap_or(0);
    let mut names: Vec<Names> = nodes.iter().map(Names::new).collect();
    let peers = peers(nodes);
    order
        .into_iter()
        .map(move |(time_ns, what, number, place)| {
            let node = &trace.run.nodes[number];
            if what == What::Request {
                let at_ms = time_ns.saturating_sub(begin) as f64 / 1e6;
                let request = request(trace.disks[&node.name].log.entries()[place].kind);
                return format!(
                    "{at_ms:12.3}  {:width$}  {:>7}  {place:<15} {request}",
                    node.name, "disk"
                );
            }
            let event = &node.events[place];
            let what = match &event.action {
                Action::File(op) => names[number].tell(op),
                Action::Send(message) => format!(
                    "to {} {}",
                    peer(&peers, nodes, number, message),
                    bytes(message)
                ),
                Action::Receive(message) => format!(
                    "from {} {}",
                    peer(&peers, nodes, number, message),
                    bytes(message)
                ),
                Action::Mark { line } => {
                    format!("says {:?}", String::from_utf8_lossy(trace.bytes(*line)))
                }
            };
            let Event {
                thread,
                call,
                end_ns,
                ..
            } = event;
            let at_ms = (end_ns.saturating_sub(begin)) as f64 / 1e6;
            format!(
                "{at_ms:12.3}  {:width$}  {thread:>7}  {call:<15} {what}",
                node.name
            )
        })
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

/// Which nodes have something to do with a stream.
fn peers(nodes: &[Node]) -> HashMap<u32, Vec<usize>> {
    let mut peers: HashMap<u32, Vec<usize>> = HashMap::new();
    for (number, node) in nodes.iter().enumerate() {
        for event in &node.events {
            if let Action::Send(message) | Action::Receive(message) = &event.action {
                let known = peers.entry(message.stream).or_default();
                if !known.contains(&number) {
                    known.push(number);
                }
            }
        }
    }
    peers
}

fn peer<'a>(
    peers: &HashMap<u32, Vec<usize>>,
    nodes: &'a [Node],
    own: usize,
    message: &Message,
) -> &'a str {
    let other = peers[&message.stream].iter().find(|number| **number != own);
    other.map_or("somebody", |other| nodes[*other].name.as_str())
}

fn bytes(message: &Message) -> String {
    format!(
        "stream {} bytes {}..{}",
        message.stream, message.from, message.to
    )
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
                let kind = match kind {
                    FileKind::Regular => "file",
                    FileKind::Directory => "directory",
                    FileKind::Symlink { .. } => "symbolic link",
                    FileKind::Fifo => "named pipe",
                    FileKind::Special => "socket or the like",
                };
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
            } => {
                let from = self.in_directory(names.from.0, &names.from.1);
                self.set(*file, names.to.0, &names.to.1);
                if let (Some(replaced), true) = (replaced, exchange) {
                    self.set(*replaced, names.from.0, &names.from.1);
                }
                let how = match (replaced, exchange) {
                    (_, true) => ", exchanged",
                    (Some(_), _) => ", over what was there",
                    _ => "",
                };
                format!("{from}: renamed to {}{how}", self.path(*file))
            }
            FileOp::Write {
                file,
                offset,
                data,
                size_before,
            } => {
                let appends = if *offset >= *size_before {
                    ", appended"
                } else {
                    ""
                };
                format!(
                    "{}: bytes {offset}..{}{appends}",
                    self.path(*file),
                    offset.saturating_add(data.len)
                )
            }
            FileOp::Resize { file, from, to } => {
                let bytes = counted(*from, "byte");
                format!("{}: {bytes} become {to}", self.path(*file))
            }
            FileOp::Zero { file, offset, len } => {
                format!(
                    "{}: zeros {offset}..{}",
                    self.path(*file),
                    offset.saturating_add(*len)
                )
            }
            FileOp::SetMode { file, mode } => format!("{}: mode {mode:o}", self.path(*file)),
            FileOp::SetXattr { file, name, value } => {
                let name = String::from_utf8_lossy(name);
                let path = self.path(*file);
                match value {
                    Some(value) => {
                        format!("{path}: attribute {name}, {}", counted(value.len, "byte"))
                    }
                    None => format!("{path}: attribute {name} removed"),
                }
            }
            FileOp::Sync { file, scope } => match scope {
                SyncScope::File => format!("{}: synced", self.path(*file)),
                SyncScope::Data => format!("{}: data synced", self.path(*file)),
                SyncScope::Range { offset, len } | SyncScope::FileRange { offset, len } => {
                    format!(
                        "{}: synced {offset}..{}",
                        self.path(*file),
                        offset.saturating_add(*len)
                    )
                }
            },
            FileOp::SyncAll => "everything synced".into(),
        }
    }
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
