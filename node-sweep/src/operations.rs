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
        let path = if before.is_empty() {
            names.path(op.subject())
        } else {
            before
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
            words: words(op, &path, names),
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
    if !matches!(
        op,
        FileOp::Unlink { .. } | FileOp::Rename { .. } | FileOp::SyncAll
    ) {
        syncs.insert(0, op.subject());
    }
    let mut seen = BTreeSet::new();
    syncs.retain(|file| seen.insert(*file));
    syncs
}

impl Operations {
    pub(crate) fn of(node: &Node) -> Self {
        let mut names = Names::default();
        for file in &node.initial {
            if let Some(parent) = file.parent {
                names.add(parent, &file.name, file.file);
            }
        }
        let mut last_paths = BTreeMap::new();
        for file in &node.initial {
            last_paths.insert(file.file, names.path(file.file));
        }
        let of = node.events.iter().map(|event| {
            let Action::File(op) = &event.action else {
                return None;
            };
            let operation = Operation::of(event, op, &mut names);
            last_paths.extend(operation.names.clone().map(|path| (operation.file, path)));
            Some(operation)
        });
        Self {
            of: of.collect(),
            last_paths,
        }
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
            "a file without a name".into()
        } else {
            path
        }
    }
}
