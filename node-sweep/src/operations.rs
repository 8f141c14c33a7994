use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brief::counted;
use trace::{Action, ChangeOfName, Event, FileId, FileKind, FileOp, Name, Node, SyncScope};

/// What a node did to its files, in words.
#[derive(Debug)]
pub(crate) struct Operations {
    /// By event; none for those that do nothing to a file.
    of: Vec<Option<Operation>>,
    /// By file: the path that it was given last.
    last_paths: BTreeMap<FileId, String>,
    /// The events that changed names, ascending.
    changes: Vec<usize>,
    /// By file that had a name: after how many events it got its first one, or lost its last one.
    is_there: BTreeMap<FileId, Vec<(usize, bool)>>,
}

/// A name of a file, and where it has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The path, from the node's directory on.
    pub(crate) path: String,
    /// After so many events, as [`Operations::places`] says.
    pub(crate) places: Vec<usize>,
}

/// Something done to a file, for people.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// The system call.
    pub(crate) call: Arc<str>,
    /// Where in the program it came from, 0 if that is not known.
    pub(crate) stack: u64,
    /// The file it was done to.
    pub(crate) file: FileId,
    /// The file it was done to, as it was called then, from the node's directory on.
    pub(crate) path: String,
    /// The path that it gave a file, if it gave it one.
    pub(crate) names: Option<String>,
    /// The path that it took away, if it did: one of several names of the file.
    pub(crate) removes: Option<String>,
    /// What was done.
    pub(crate) words: String,
    /// A sync of any of these is what could make it durable: the file, and directories that have
    /// its names. Each with its path then.
    pub(crate) syncs: Vec<(FileId, String)>,
}

impl Operation {
    /// What an event did, which changes names.
    fn of(event: &Event, op: &FileOp, names: &mut Names) -> Self {
        let before = names.path(op.subject());
        let parents_before = names.parents(op.subject());
        names.apply(op);
        let is_nameless = before.is_empty();
        let path = if is_nameless {
            names.path(op.subject())
        } else {
            before
        };
        // A link gives such a file its first name.
        let shown = if path.is_empty() || (is_nameless && matches!(op, FileOp::Link { .. })) {
            NAMELESS
        } else {
            &path
        };
        let syncs = syncs(op, parents_before);
        let syncs = syncs
            .into_iter()
            .map(|file| (file, names.path_or_root(file)));
        Self {
            call: event.call.clone(),
            stack: event.stack,
            file: op.subject(),
            names: given_name(op, names),
            removes: removed_name(op, names),
            words: words(op, shown, names),
            syncs: syncs.collect(),
            path,
        }
    }
}

/// The path that an operation gives a file, if it gives it one.
fn given_name(op: &FileOp, names: &Names) -> Option<String> {
    match op {
        FileOp::Create { parent, name, .. } | FileOp::Link { parent, name, .. } => {
            Some(names.entry(*parent, name))
        }
        FileOp::Rename {
            names: ChangeOfName { to, .. },
            ..
        } => Some(names.entry(to.0, &to.1)),
        _ => None,
    }
}

/// The path that an operation takes away, if it does.
fn removed_name(op: &FileOp, names: &Names) -> Option<String> {
    match op {
        FileOp::Unlink { parent, name, .. } => Some(names.entry(*parent, name)),
        FileOp::Rename {
            names: ChangeOfName { from, .. },
            ..
        } => Some(names.entry(from.0, &from.1)),
        _ => None,
    }
}

/// What a sync could make an operation durable of, each once; `parents` are the directories that had
/// names of its file before.
fn syncs(op: &FileOp, parents: Vec<FileId>) -> Vec<FileId> {
    let mut syncs: Vec<FileId> = match op {
        FileOp::Write { .. }
        | FileOp::Resize { .. }
        | FileOp::Zero { .. }
        | FileOp::ZeroBlocks { .. }
        | FileOp::Allocate { .. }
        | FileOp::SetMode { .. }
        | FileOp::SetXattr { .. } => Vec::new(),
        // Of a name that is gone only its directory knows.
        FileOp::Unlink { parent, .. }
        | FileOp::Create { parent, .. }
        | FileOp::Link { parent, .. } => vec![*parent],
        FileOp::Rename { names, .. } => vec![names.to.0, names.from.0],
        _ => parents,
    };
    let is_of_itself = match op {
        FileOp::Unlink { .. } | FileOp::Rename { .. } | FileOp::SyncAll => false,
        // A symbolic link, a pipe or a device is not what fsync gets when its name is opened.
        FileOp::Create { kind, .. } => matches!(kind, FileKind::Regular | FileKind::Directory),
        _ => true,
    };
    if is_of_itself {
        syncs.insert(0, op.subject());
    }
    let mut seen = BTreeSet::new();
    syncs.retain(|file| seen.insert(*file));
    syncs
}

impl Operations {
    pub(crate) fn of(node: &Node) -> Self {
        let mut names = Names::of_initial(node);
        let (mut last_paths, mut is_there) = (BTreeMap::new(), BTreeMap::new());
        for file in &node.initial {
            last_paths.insert(file.file, names.path(file.file));
            is_there.insert(file.file, vec![(0, true)]);
        }
        let mut this = Self {
            of: Vec::new(),
            last_paths,
            changes: Vec::new(),
            is_there,
        };
        for event in &node.events {
            let operation = match &event.action {
                Action::File(op) => Some(this.add(event, op, &mut names)),
                _ => None,
            };
            this.of.push(operation);
        }
        this
    }

    /// What the next event did.
    fn add(&mut self, event: &Event, op: &FileOp, names: &mut Names) -> Operation {
        let operation = Operation::of(event, op, names);
        let given = operation.names.clone();
        self.last_paths
            .extend(given.map(|path| (operation.file, path)));
        if changes_names(op) {
            self.changes.push(self.of.len());
            let replaced = match op {
                FileOp::Rename { replaced, .. } => *replaced,
                _ => None,
            };
            for file in std::iter::once(operation.file).chain(replaced) {
                let history = self.is_there.entry(file).or_default();
                let is_there = names.is_there(file);
                if history.last().is_none_or(|(_, last)| *last != is_there) {
                    history.push((self.of.len() + 1, is_there));
                }
            }
        }
        operation
    }

    /// Whether a file has a name after so many events, or is one that got none until then.
    fn is_there(&self, file: FileId, events: usize) -> bool {
        let history = self.is_there.get(&file).map_or(&[][..], Vec::as_slice);
        let until = history.partition_point(|(change, _)| *change <= events);
        until == 0 || history[until - 1].1
    }

    /// Where a sync of a file can be made so that it comes after the first and before the last of
    /// these events, as far as that may differ: after so many events. Those are the first and the
    /// last place, and those after a change of names, if the file is there from then on.
    pub(crate) fn places(&self, file: FileId, (from, to): (usize, usize)) -> Vec<usize> {
        let after = |events: usize| self.changes.partition_point(|change| *change < events);
        let changes = &self.changes[after(from)..after(to).max(after(from))];
        let all = std::iter::once(from).chain(changes.iter().map(|change| change + 1));
        let all: BTreeSet<_> = all.chain([to]).collect();
        let last = all.into_iter().rev();
        let mut places: Vec<_> = last.take_while(|at| self.is_there(file, *at)).collect();
        places.reverse();
        places
    }

    /// What a file is called at the last of these places, and those from which on it is called so:
    /// by the wanted path if it is one of its names. None if it has no name any more.
    pub(crate) fn named(
        &self,
        node: &Node,
        file: FileId,
        wanted: &str,
        range: (usize, usize),
    ) -> Option<Named> {
        let places = self.places(file, range);
        let paths = paths(node, file, &places);
        let last = paths.last()?;
        if last.is_empty() {
            let path = NAMELESS.to_owned();
            return Some(Named { path, places });
        }
        let path = last.get(wanted).or(last.first())?.clone();
        let others = paths.iter().rposition(|names| !names.contains(&path));
        let first = others.map_or(0, |other| other + 1);
        let places = places[first..].to_vec();
        Some(Named { path, places })
    }

    /// The path that a file was given last, as it was then.
    pub(crate) fn last_path(&self, file: FileId) -> Option<&str> {
        self.last_paths.get(&file).map(String::as_str)
    }

    /// The one of an event.
    pub(crate) fn get(&self, event: usize) -> Option<&Operation> {
        self.of.get(event)?.as_ref()
    }
}

/// What a file without a name is called.
const NAMELESS: &str = "a file without a name";

fn changes_names(op: &FileOp) -> bool {
    matches!(
        op,
        FileOp::Create { .. } | FileOp::Link { .. } | FileOp::Unlink { .. } | FileOp::Rename { .. }
    )
}

/// All paths that a file has after so many events of a node, for each of these, ascending.
fn paths(node: &Node, file: FileId, events: &[usize]) -> Vec<BTreeSet<String>> {
    let mut names = Names::of_initial(node);
    let mut done = 0;
    let at = |events: &usize| {
        for event in &node.events[done..*events] {
            if let Action::File(op) = &event.action {
                names.apply(op);
            }
        }
        done = *events;
        names.paths(file)
    };
    events.iter().map(at).collect()
}

fn words(op: &FileOp, path: &str, names: &Names) -> String {
    match op {
        FileOp::Create { kind, .. } => match kind {
            FileKind::Directory => format!("mkdir {path}"),
            FileKind::Symlink { .. } => format!("symlink {path}"),
            _ => format!("creat {path}"),
        },
        FileOp::CreateNameless { .. } => "creat of a file without a name".into(),
        FileOp::Link { parent, name, .. } => {
            format!("link {path} to {}", names.entry(*parent, name))
        }
        FileOp::Unlink { parent, name, .. } => format!("unlink {}", names.entry(*parent, name)),
        FileOp::Rename {
            names: ChangeOfName { from, to },
            exchange,
            ..
        } => {
            let (from, to) = (names.entry(from.0, &from.1), names.entry(to.0, &to.1));
            if *exchange {
                format!("exchange {from} and {to}")
            } else {
                format!("rename {from} to {to}")
            }
        }
        FileOp::Write {
            offset,
            data,
            size_before,
            ..
        } if offset == size_before => {
            format!("append {path}, {} at {offset}", counted(data.len, "byte"))
        }
        FileOp::Write { offset, data, .. } => {
            format!("write {path}, {} at {offset}", counted(data.len, "byte"))
        }
        FileOp::Resize { from, to, .. } => {
            format!("truncate {path} from {from} to {}", counted(*to, "byte"))
        }
        FileOp::Zero { offset, len, .. } | FileOp::ZeroBlocks { offset, len, .. } => {
            format!("zero {path}, {} at {offset}", counted(*len, "byte"))
        }
        FileOp::Allocate { offset, len, .. } => {
            format!("allocate {path}, {} at {offset}", counted(*len, "byte"))
        }
        FileOp::SetMode { mode, .. } => format!("chmod {path} to {mode:o}"),
        FileOp::SetXattr { name, value, .. } => {
            let what = if value.is_some() {
                "setxattr"
            } else {
                "removexattr"
            };
            format!("{what} {path} {}", String::from_utf8_lossy(name))
        }
        FileOp::Sync {
            scope: SyncScope::File,
            ..
        } => format!("fsync {path}"),
        FileOp::Sync {
            scope: SyncScope::Data,
            ..
        } => format!("fdatasync {path}"),
        FileOp::Sync {
            scope: SyncScope::Range { offset, len } | SyncScope::FileRange { offset, len },
            ..
        } => {
            format!("sync {path}, {} at {offset}", counted(*len, "byte"))
        }
        FileOp::SyncAll => "sync".into(),
    }
}

/// What every file is called.
#[derive(Debug, Default)]
struct Names {
    of: BTreeMap<FileId, BTreeSet<(FileId, Name)>>,
}

impl Names {
    /// Those before the first event.
    fn of_initial(node: &Node) -> Self {
        let mut names = Self::default();
        for file in &node.initial {
            if let Some(parent) = file.parent {
                names.add(parent, &file.name, file.file);
            }
        }
        names
    }

    fn is_there(&self, file: FileId) -> bool {
        self.of.get(&file).is_some_and(|names| !names.is_empty())
    }

    /// All paths of a file.
    fn paths(&self, file: FileId) -> BTreeSet<String> {
        if file == FileId::ROOT {
            return BTreeSet::from([".".to_owned()]);
        }
        let names = self.of.get(&file).into_iter().flatten();
        names
            .map(|(parent, name)| self.entry(*parent, name))
            .collect()
    }

    fn add(&mut self, parent: FileId, name: &Name, file: FileId) {
        self.of
            .entry(file)
            .or_default()
            .insert((parent, name.clone()));
    }

    fn remove(&mut self, parent: FileId, name: &Name, file: FileId) {
        if let Some(names) = self.of.get_mut(&file) {
            names.remove(&(parent, name.clone()));
        }
    }

    fn apply(&mut self, op: &FileOp) {
        match op {
            FileOp::Create {
                parent, name, file, ..
            }
            | FileOp::Link { parent, name, file } => {
                self.add(*parent, name, *file);
            }
            FileOp::Unlink { parent, name, file } => self.remove(*parent, name, *file),
            FileOp::Rename {
                file,
                names: ChangeOfName { from, to },
                replaced,
                exchange,
            } => {
                self.remove(from.0, &from.1, *file);
                if let Some(replaced) = replaced {
                    self.remove(to.0, &to.1, *replaced);
                    if *exchange {
                        self.add(from.0, &from.1, *replaced);
                    }
                }
                self.add(to.0, &to.1, *file);
            }
            _ => {}
        }
    }

    fn parents(&self, file: FileId) -> Vec<FileId> {
        self.of
            .get(&file)
            .into_iter()
            .flatten()
            .map(|(parent, _)| *parent)
            .collect()
    }

    fn entry(&self, parent: FileId, name: &Name) -> String {
        let directory = self.path(parent);
        let name = String::from_utf8_lossy(name);
        if directory.is_empty() || directory == "." {
            name.into_owned()
        } else {
            format!("{directory}/{name}")
        }
    }

    /// Empty if it has no name.
    fn path(&self, file: FileId) -> String {
        self.path_within(file, 64)
    }

    fn path_within(&self, file: FileId, depth: u32) -> String {
        if file == FileId::ROOT {
            return ".".into();
        }
        let Some((parent, name)) = self
            .of
            .get(&file)
            .and_then(BTreeSet::first)
            .filter(|_| depth > 0)
        else {
            return String::new();
        };
        let directory = self.path_within(*parent, depth - 1);
        let name = String::from_utf8_lossy(name);
        if directory == "." || directory.is_empty() {
            name.into_owned()
        } else {
            format!("{directory}/{name}")
        }
    }

    fn path_or_root(&self, file: FileId) -> String {
        let path = self.path(file);
        if path.is_empty() {
            NAMELESS.into()
        } else {
            path
        }
    }
}

#[cfg(test)]
mod tests {
    use trace::InitialFile;

    use super::*;

    const FILE: FileId = FileId(1);
    const OTHER: FileId = FileId(2);

    fn node(ops: Vec<FileOp>) -> Node {
        let event = |op| Event {
            start_ns: 0,
            end_ns: 0,
            process: 1,
            thread: 1,
            call: "call".into(),
            stack: 0,
            action: Action::File(op),
        };
        Node {
            name: "node".into(),
            initial: vec![InitialFile::empty_root()],
            events: ops.into_iter().map(event).collect(),
        }
    }

    fn name(of: &str) -> Name {
        Arc::from(of.as_bytes())
    }

    fn create(of: &str, file: FileId) -> FileOp {
        FileOp::Create {
            parent: FileId::ROOT,
            name: name(of),
            file,
            kind: FileKind::Regular,
            mode: 0o644,
        }
    }

    /// A file is created, gets a second name, loses the first, and is replaced.
    fn renamed() -> Node {
        node(vec![
            create("a", FILE),
            FileOp::Link {
                parent: FileId::ROOT,
                name: name("b"),
                file: FILE,
            },
            FileOp::Unlink {
                parent: FileId::ROOT,
                name: name("a"),
                file: FILE,
            },
            create("c", OTHER),
            FileOp::Rename {
                file: OTHER,
                names: ChangeOfName {
                    from: (FileId::ROOT, name("c")),
                    to: (FileId::ROOT, name("b")),
                },
                replaced: Some(FILE),
                exchange: false,
            },
        ])
    }

    #[test]
    fn a_file_without_a_name_is_called_so_until_it_has_one() {
        let append = FileOp::Write {
            file: FILE,
            offset: 0,
            data: trace::Data { at: 0, len: 3 },
            size_before: 0,
        };
        let link = FileOp::Link {
            parent: FileId::ROOT,
            name: name("a"),
            file: FILE,
        };
        let nameless = FileOp::CreateNameless {
            file: FILE,
            mode: 0o644,
        };
        let operations = Operations::of(&node(vec![nameless, append.clone(), link, append]));
        let words: Vec<_> = (0..4)
            .map(|event| &*operations.get(event).expect("one").words)
            .collect();
        let expected = [
            "creat of a file without a name",
            "append a file without a name, 3 bytes at 0",
            "link a file without a name to a",
            "append a, 3 bytes at 0",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_file_is_called_by_a_name_that_it_has_and_where_it_has_it() {
        let node = renamed();
        let operations = Operations::of(&node);
        let named = |range| {
            let named = operations.named(&node, FILE, "a", range)?;
            Some((named.path, named.places))
        };
        let is = |path: &str, places: &[usize]| Some((path.to_owned(), places.to_vec()));
        assert_eq!(named((1, 1)), is("a", &[1]));
        assert_eq!(named((1, 2)), is("a", &[1, 2]));
        // It was not called `b` before it was linked.
        assert_eq!(named((1, 4)), is("b", &[2, 3, 4]));
        assert_eq!(named((1, 5)), None, "it is gone");
        let root = operations.named(&node, FileId::ROOT, ".", (3, 5));
        assert_eq!(root.map(|root| root.path).as_deref(), Some("."));
    }
}
