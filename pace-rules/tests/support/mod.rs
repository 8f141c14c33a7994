//! Runs that are written down call by call, and what is on a disk in their crash states.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pace_rules::Sector;
use pace_rules::nodes::{
    Content, Effect, Explore, Log, MODELS, Model, Relaxation, Relaxations, Request, Space, Split,
    State,
};
use trace::{
    Action, ChangeOfName, Data, Event, FileId, FileKind, FileOp, InitialFile, Message, Name, Node,
    Run, SyncScope,
};

/// A run that is written down call by call, on one clock.
#[derive(Default, Clone)]
pub struct Script {
    pub run: Run,
    pub clock: u64,
    pub bytes: u64,
}

pub fn name(text: &str) -> Name {
    Arc::from(text.as_bytes())
}

pub const FOO: FileId = FileId(1);

pub const BAR: FileId = FileId(2);

impl Script {
    /// Nodes that have a directory with these files, of so many bytes.
    pub fn new(nodes: usize, files: &[(FileId, &str, u64)]) -> Self {
        let mut this = Self::default();
        for number in 0..nodes {
            let mut node = Node {
                name: format!("node{number}"),
                ..Node::default()
            };
            let of = |file, parent, name, kind, size, content| InitialFile {
                file,
                parent,
                name,
                kind,
                mode: 0o644,
                size,
                content,
            };
            node.initial.push(of(
                FileId::ROOT,
                None,
                name(""),
                FileKind::Directory,
                0,
                vec![],
            ));
            for (file, text, size) in files {
                let content = vec![(0, this.data(*size))];
                node.initial.push(of(
                    *file,
                    Some(FileId::ROOT),
                    name(text),
                    FileKind::Regular,
                    *size,
                    content,
                ));
            }
            this.run.nodes.push(node);
        }
        this
    }

    pub fn data(&mut self, len: u64) -> Data {
        let at = self.bytes;
        self.bytes += len;
        Data { at, len }
    }

    pub fn act(&mut self, node: usize, action: Action) -> &mut Self {
        let start_ns = self.clock;
        self.clock += 2;
        let (process, thread) = (node as u32, node as u32);
        let event = Event {
            start_ns,
            end_ns: start_ns + 1,
            process,
            thread,
            call: "call".into(),
            stack: 0,
            action,
        };
        self.run.nodes[node].events.push(event);
        self
    }

    pub fn file(&mut self, node: usize, op: FileOp) -> &mut Self {
        self.act(node, Action::File(op))
    }

    pub fn create(&mut self, node: usize, file: FileId, text: &str) -> &mut Self {
        let (parent, kind) = (FileId::ROOT, FileKind::Regular);
        self.file(
            node,
            FileOp::Create {
                parent,
                name: name(text),
                file,
                kind,
                mode: 0o644,
            },
        )
    }

    pub fn write(
        &mut self,
        node: usize,
        file: FileId,
        offset: u64,
        len: u64,
        size_before: u64,
    ) -> &mut Self {
        let data = self.data(len);
        self.file(
            node,
            FileOp::Write {
                file,
                offset,
                data,
                size_before,
            },
        )
    }

    pub fn rename(
        &mut self,
        node: usize,
        file: FileId,
        from: &str,
        to: &str,
        replaced: Option<FileId>,
    ) -> &mut Self {
        let place = |text| (FileId::ROOT, name(text));
        let names = ChangeOfName {
            from: place(from),
            to: place(to),
        };
        self.file(
            node,
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange: false,
            },
        )
    }

    pub fn unlink(&mut self, node: usize, file: FileId, text: &str) -> &mut Self {
        self.file(
            node,
            FileOp::Unlink {
                parent: FileId::ROOT,
                name: name(text),
                file,
            },
        )
    }

    pub fn sync(&mut self, node: usize, file: FileId) -> &mut Self {
        self.file(
            node,
            FileOp::Sync {
                file,
                scope: SyncScope::File,
            },
        )
    }

    pub fn datasync(&mut self, node: usize, file: FileId) -> &mut Self {
        self.file(
            node,
            FileOp::Sync {
                file,
                scope: SyncScope::Data,
            },
        )
    }

    pub fn mark(&mut self, node: usize) -> &mut Self {
        let line = self.data(1);
        self.act(node, Action::Mark { line })
    }

    pub fn message(&mut self, from: usize, to: usize) -> &mut Self {
        let stream = (from * 10 + to) as u32;
        let message = Message {
            stream,
            from: self.clock,
            to: self.clock + 1,
        };
        self.act(from, Action::Send(message))
            .act(to, Action::Receive(message))
    }

    /// Has the last event of a node be a send by a thread of its own, which began it when the node did so
    /// many things before.
    pub fn send_aside(&mut self, node: usize, during: usize) -> &mut Self {
        let events = &mut self.run.nodes[node].events;
        let last = events.len() - 1;
        let start_ns = events[last.saturating_sub(during)].start_ns;
        let send = &mut events[last];
        (send.start_ns, send.thread, send.call) = (start_ns, ASIDE + last as u32, "sendmsg".into());
        self
    }
}

/// The first number of a thread that does nothing but send.
pub const ASIDE: u32 = 100;

pub fn model(name: &str) -> &'static Model {
    Model::named(name).expect("there is such a model")
}

pub fn request(model: &'static Model, explore: Explore, lost: usize) -> Request {
    Request {
        model,
        explore,
        lost,
        split: Split::Count(3),
        sector: Sector::default(),
        relaxations: Relaxations::ALL,
    }
}

pub fn states(run: &Run, request: &Request) -> Vec<State> {
    let space = Space::new(run, request).expect("there are states");
    (0..space.len()).map(|index| space.state(index)).collect()
}

/// What a node's directory has: each name with the content of its file, byte by byte.
pub type Tree = BTreeMap<(FileId, Name), Vec<Byte>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Byte {
    Zero,
    Garbage,
    Written(u64),
}

/// A file on the disk: its bytes up to the end of its last page, of which those past its size are
/// hidden.
#[derive(Debug, Clone, Default)]
struct Disk {
    bytes: Vec<Byte>,
    size: usize,
}

impl Disk {
    fn of(bytes: Vec<Byte>) -> Self {
        let size = bytes.len();
        Self { bytes, size }
    }

    fn shown(mut self) -> Vec<Byte> {
        self.bytes.resize(self.size, Byte::Zero);
        self.bytes
    }

    /// What is hidden comes back with [`Effect::Grow`] only.
    fn set_size(&mut self, size: usize) {
        self.bytes.truncate(if size < self.size {
            size.next_multiple_of(4096)
        } else {
            self.size
        });
        self.size = size;
    }

    fn write(&mut self, offset: usize, bytes: &[Byte], grows: bool) {
        let end = offset + bytes.len();
        if grows && end > self.size {
            self.bytes.resize(self.size, Byte::Zero);
            self.size = end;
        }
        let end = end.min(self.size.next_multiple_of(4096)).max(offset);
        if end > offset {
            let len = self.bytes.len().max(end);
            self.bytes.resize(len, Byte::Zero);
            self.bytes[offset..end].copy_from_slice(&bytes[..end - offset]);
        }
    }
}

pub fn tree(run: &Run, space: &Space, state: &State, node: usize) -> Tree {
    let mut entries: BTreeMap<(FileId, Name), FileId> = BTreeMap::new();
    let mut files: BTreeMap<FileId, Disk> = BTreeMap::new();
    for file in &run.nodes[node].initial {
        let bytes = file
            .content
            .iter()
            .flat_map(|(_, data)| (data.at..data.at + data.len).map(Byte::Written));
        files.insert(file.file, Disk::of(bytes.collect()));
        if let Some(parent) = file.parent {
            entries.insert((parent, file.name.clone()), file.file);
        }
    }
    let kept = &state.nodes[node];
    for (number, micro) in space.micros(node)[..kept.micros].iter().enumerate() {
        if kept.lost.contains(&number) {
            continue;
        }
        match &micro.effect {
            Effect::NewFile { file, .. } => drop(files.insert(*file, Disk::default())),
            Effect::SetEntry { parent, name, file } => {
                entries.insert((*parent, name.clone()), *file);
            }
            Effect::AddEntry { parent, name, file } => {
                entries.entry((*parent, name.clone())).or_insert(*file);
            }
            Effect::RemoveEntry { parent, name, of } => {
                let entry = (*parent, name.clone());
                if of.is_none() || *of == entries.get(&entry).copied() {
                    entries.remove(&entry);
                }
            }
            Effect::SetSize { file, size } => {
                files.entry(*file).or_default().set_size(*size as usize);
            }
            Effect::SetMode { .. } | Effect::SetXattr { .. } => {}
            Effect::Grow { file, size } => {
                let has = files.entry(*file).or_default();
                has.size = has.size.max(*size as usize);
            }
            Effect::Write {
                file,
                offset,
                content,
            }
            | Effect::Overwrite {
                file,
                offset,
                content,
            } => {
                let bytes: Vec<_> = match content {
                    Content::Written(data) => {
                        (data.at..data.at + data.len).map(Byte::Written).collect()
                    }
                    Content::Zeros(len) => vec![Byte::Zero; *len as usize],
                    Content::Garbage(len) => vec![Byte::Garbage; *len as usize],
                };
                let has = files.entry(*file).or_default();
                let grows = matches!(micro.effect, Effect::Write { .. });
                has.write(*offset as usize, &bytes, grows);
            }
        }
    }
    entries
        .into_iter()
        .map(|(place, file)| (place, files[&file].clone().shown()))
        .collect()
}

pub fn marks(run: &Run, state: &State) -> usize {
    let of = |(node, events): (&Node, &usize)| {
        node.events[..*events]
            .iter()
            .filter(|event| matches!(event.action, Action::Mark { .. }))
            .count()
    };
    run.nodes.iter().zip(&state.cut).map(of).sum()
}

/// The trees that one node can have when so many marks were made.
pub fn told(script: &Script, model_name: &str, lost: usize, wanted: usize) -> BTreeSet<Tree> {
    let request = request(model(model_name), Explore::BruteForce, lost);
    let space = Space::new(&script.run, &request).expect("there are states");
    let all = (0..space.len()).map(|index| space.state(index));
    all.filter(|state| marks(&script.run, state) == wanted)
        .map(|state| tree(&script.run, &space, &state, 0))
        .collect()
}

pub fn has(tree: &Tree, text: &str) -> bool {
    tree.contains_key(&(FileId::ROOT, name(text)))
}

pub fn size(tree: &Tree, text: &str) -> Option<usize> {
    tree.get(&(FileId::ROOT, name(text))).map(Vec::len)
}

/// What each model says of a tree of a script that has been told so many marks.
pub fn who(script: &Script, wanted: usize, is: impl Fn(&Tree) -> bool) -> Vec<&'static str> {
    let shows = |model: &&Model| told(script, model.name, 2, wanted).iter().any(&is);
    let models = MODELS.iter().filter(|model| model.log != Log::None);
    models.filter(shows).map(|model| model.name).collect()
}

pub const EXT4: [&str; 2] = ["ext4-ordered", "ext4-writeback"];

pub fn content(tree: &Tree, text: &str) -> Vec<Byte> {
    tree[&(FileId::ROOT, name(text))].clone()
}

pub fn is_zeros(bytes: &[Byte]) -> bool {
    bytes.iter().all(|byte| *byte == Byte::Zero)
}

/// Which file systems can show something once all is done, with any number of losses.
pub fn who_at_all(script: &Script, is: impl Fn(&Tree) -> bool) -> Vec<&'static str> {
    let [models] = who_at_all_of(script, [&is]);
    models
}

/// The same of several things: who looks at all states does it once.
pub fn who_at_all_of<const N: usize>(
    script: &Script,
    are: [&dyn Fn(&Tree) -> bool; N],
) -> [Vec<&'static str>; N] {
    let events = script.run.nodes[0].events.len();
    let shows = |model: &'static Model| {
        let mut shown = [false; N];
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("a space");
        space.at_risk(0, events).into_iter().any(|at_risk| {
            let parts = &at_risk.parts;
            // What is lost with one part is not said to be never lost together.
            for part in parts {
                let is_in = |one: &usize| part.with.contains(one);
                let mut pairs = at_risk.exclude.iter();
                assert!(!pairs.any(|(one, other)| is_in(one) && is_in(other)));
            }
            (0..1_u32 << parts.len()).any(|seeds| {
                let seeds = (0..parts.len()).filter(|part| seeds >> part & 1 == 1);
                let lost: BTreeSet<usize> =
                    seeds.flat_map(|part| parts[part].with.clone()).collect();
                let micros = lost.iter().flat_map(|part| parts[*part].micros.clone());
                let kept = pace_rules::nodes::NodeState {
                    micros: at_risk.micros,
                    lost: micros.collect(),
                };
                let state = State {
                    cut: vec![events],
                    nodes: vec![kept],
                    relaxation: Relaxation::Lost,
                    relaxed: vec![0],
                    start: pace_rules::nodes::StartOrder::Together,
                };
                let tree = tree(&script.run, &space, &state, 0);
                for (is_shown, is) in shown.iter_mut().zip(are) {
                    *is_shown = *is_shown || is(&tree) && space.allows(&state);
                }
                shown.iter().all(|is_shown| *is_shown)
            })
        });
        shown
    };
    let mut of_each = [(); N].map(|()| Vec::new());
    for model in MODELS.iter().filter(|model| model.log != Log::None) {
        let shown = of_each.iter_mut().zip(shows(model));
        let names = shown.filter_map(|(names, is_shown)| is_shown.then_some(names));
        names.for_each(|names| names.push(model.name));
    }
    of_each
}

pub const DIRECTORY: FileId = FileId(3);

pub const OTHER: FileId = FileId(4);

pub const NOBODY: [&str; 0] = [];

/// A file goes from a directory to another one, or to another name.
pub fn moved_to(file: FileId, from: (FileId, &str), to: (FileId, &str)) -> FileOp {
    let place = |(parent, text)| (parent, name(text));
    let (from, to) = (place(from), place(to));
    FileOp::Rename {
        file,
        names: ChangeOfName { from, to },
        replaced: None,
        exchange: false,
    }
}

/// The same, of one that replaces another.
pub fn moved_over(
    file: FileId,
    from: (FileId, &str),
    to: (FileId, &str),
    replaced: FileId,
) -> FileOp {
    with_other(moved_to(file, from, to), replaced, false)
}

/// Two files that are exchanged.
pub fn exchanged(file: FileId, from: (FileId, &str), to: (FileId, &str), other: FileId) -> FileOp {
    with_other(moved_to(file, from, to), other, true)
}

fn with_other(mut op: FileOp, other: FileId, is_exchange: bool) -> FileOp {
    if let FileOp::Rename {
        replaced, exchange, ..
    } = &mut op
    {
        (*replaced, *exchange) = (Some(other), is_exchange);
    }
    op
}

/// Whether a tree has no file of so many bytes.
pub fn is_nowhere(bytes: usize) -> impl Fn(&Tree) -> bool + Copy {
    move |tree| !tree.values().any(|content| content.len() == bytes)
}

/// A new file or directory somewhere.
pub fn new_in(parent: FileId, text: &str, file: FileId, kind: FileKind) -> FileOp {
    FileOp::Create {
        parent,
        name: name(text),
        file,
        kind,
        mode: 0o755,
    }
}

/// One that is durable, with a directory in it.
pub fn with_directory(files: &[(FileId, &str, u64)]) -> Script {
    let mut script = Script::new(1, files);
    let directory = new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
    script.file(0, directory).file(0, FileOp::SyncAll);
    script
}

/// Whether nothing is left on btrfs that a crash can cost once all is done.
pub fn is_all_durable(script: &Script) -> bool {
    let request = request(model("btrfs"), Explore::BruteForce, 1);
    let space = Space::new(&script.run, &request).expect("a space");
    let at_risk = space.at_risk(0, script.run.nodes[0].events.len());
    at_risk.iter().all(|at_risk| at_risk.parts.is_empty())
}

/// Two replicas that write, sync and answer; the client has its acknowledgement of both.
pub fn replicated(syncs: bool) -> Script {
    let mut script = Script::new(2, &[(FOO, "foo", 0)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for round in 0..2 {
        for node in 0..2 {
            script
                .message(2, node)
                .write(node, FOO, round * 8, 8, round * 8);
            if syncs {
                script.sync(node, FOO);
            }
            script.message(node, 2);
        }
        script.mark(2);
    }
    script
}
