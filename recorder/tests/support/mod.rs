//! What was recorded, carried out by something simpler than the recorder: files are arrays, and the
//! result is compared with the directory that is really there.

// Not every test needs all of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

use brief::Brief;
use recorder::process::{NodeOptions, describe, record};
use tempfile::TempDir;
use trace::{Action, Event, FileId, FileKind, FileOp, Name, Node};
use trace_store::Trace;

#[derive(Clone, Default, PartialEq, Eq)]
pub struct File {
    kind: String,
    mode: u32,
    bytes: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:o} {:?}", self.kind, self.mode, Brief(&self.bytes))
    }
}

/// Path to file, and the paths that are names of the same one.
type Files = BTreeMap<Vec<u8>, File>;
type Groups = Vec<Vec<Vec<u8>>>;

#[derive(Default)]
struct Redone {
    files: BTreeMap<FileId, File>,
    entries: BTreeMap<(FileId, Name), FileId>,
}

fn kind(trace: &Trace, kind: &FileKind) -> String {
    match kind {
        FileKind::Symlink { target } => {
            format!("link to {}", String::from_utf8_lossy(trace.bytes(*target)))
        }
        other => format!("{other:?}"),
    }
}

impl Redone {
    fn begin(trace: &Trace, node: &Node) -> Self {
        let mut redone = Self::default();
        for initial in &node.initial {
            if let Some(parent) = initial.parent {
                redone
                    .entries
                    .insert((parent, initial.name.clone()), initial.file);
            }
            let mut bytes = vec![0; initial.size as usize];
            for (offset, data) in &initial.content {
                bytes[*offset as usize..(offset + data.len) as usize]
                    .copy_from_slice(trace.bytes(*data));
            }
            let file = File {
                kind: kind(trace, &initial.kind),
                mode: initial.mode,
                bytes,
                ..File::default()
            };
            redone.files.entry(initial.file).or_insert(file);
        }
        redone
    }

    fn bytes(&mut self, file: FileId) -> &mut Vec<u8> {
        &mut self.files.get_mut(&file).expect("it was made").bytes
    }

    fn redo(&mut self, trace: &Trace, op: &FileOp) {
        match op {
            FileOp::Create {
                parent,
                name,
                file,
                kind: of,
                mode,
            } => {
                let new = File {
                    kind: kind(trace, of),
                    mode: *mode,
                    ..File::default()
                };
                assert!(
                    self.files.insert(*file, new).is_none(),
                    "{op:?}: it was there"
                );
                assert!(
                    self.entries
                        .insert((*parent, name.clone()), *file)
                        .is_none(),
                    "{op:?}: the name was there"
                );
            }
            FileOp::CreateNameless { file, mode } => {
                let new = File {
                    kind: "Regular".into(),
                    mode: *mode,
                    ..File::default()
                };
                assert!(
                    self.files.insert(*file, new).is_none(),
                    "{op:?}: it was there"
                );
            }
            FileOp::Link { parent, name, file } => {
                assert!(
                    self.entries
                        .insert((*parent, name.clone()), *file)
                        .is_none(),
                    "{op:?}: the name was there"
                );
            }
            FileOp::Unlink { parent, name, file } => {
                assert_eq!(
                    self.entries.remove(&(*parent, name.clone())),
                    Some(*file),
                    "{op:?}"
                );
            }
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange,
            } => {
                assert_eq!(self.entries.remove(&names.from), Some(*file), "{op:?}");
                assert_eq!(
                    self.entries.insert(names.to.clone(), *file),
                    *replaced,
                    "{op:?}"
                );
                if *exchange {
                    self.entries
                        .insert(names.from.clone(), replaced.expect("it was exchanged"));
                }
            }
            FileOp::Write {
                file,
                offset,
                data,
                size_before,
            } => {
                let bytes = self.bytes(*file);
                assert_eq!(bytes.len() as u64, *size_before, "{op:?}");
                let end = (offset + data.len) as usize;
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset as usize..end].copy_from_slice(trace.bytes(*data));
            }
            FileOp::Resize { file, from, to } => {
                assert_eq!(self.bytes(*file).len() as u64, *from, "{op:?}");
                self.bytes(*file).resize(*to as usize, 0);
            }
            FileOp::Zero { file, offset, len } | FileOp::ZeroBlocks { file, offset, len } => {
                let bytes = self.bytes(*file);
                let end = (offset + len).min(bytes.len() as u64);
                bytes[*offset as usize..end as usize].fill(0);
            }
            FileOp::SetMode { file, mode } => {
                self.files.get_mut(file).expect("it was made").mode = *mode;
            }
            FileOp::SetXattr { file, name, value } => {
                let xattrs = &mut self.files.get_mut(file).expect("it was made").xattrs;
                match value {
                    Some(value) => xattrs.insert(name.to_vec(), trace.bytes(*value).to_vec()),
                    None => xattrs.remove(&**name),
                };
            }
            FileOp::Allocate { .. } | FileOp::Sync { .. } | FileOp::SyncAll => {}
        }
    }

    fn result(&self) -> (Files, Groups) {
        let (mut files, mut groups) = (Files::new(), BTreeMap::<FileId, Vec<Vec<u8>>>::new());
        let mut left = vec![(FileId::ROOT, Vec::new())];
        while let Some((id, path)) = left.pop() {
            files.insert(path.clone(), self.files[&id].clone());
            groups.entry(id).or_default().push(path.clone());
            for ((parent, name), file) in &self.entries {
                if *parent == id {
                    left.push((*file, [&path[..], b"/", name].concat()));
                }
            }
        }
        (files, groups_of(groups.into_values()))
    }
}

fn groups_of(groups: impl Iterator<Item = Vec<Vec<u8>>>) -> Groups {
    let mut groups: Groups = groups.filter(|names| names.len() > 1).collect();
    for names in &mut groups {
        names.sort();
    }
    groups.sort();
    groups
}

/// The attributes that a program can have set.
fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = [0; 4096];
    let listed = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..listed].split(|byte| *byte == 0);
    let kept = names.filter(|name| name.starts_with(b"user."));
    kept.map(|name| {
        let mut value = [0; 4096];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("it was listed");
        (name.to_vec(), value[..len].to_vec())
    })
    .collect()
}

fn real(directory: &Path) -> (Files, Groups) {
    let (mut files, mut groups) = (Files::new(), BTreeMap::<u64, Vec<Vec<u8>>>::new());
    let mut left = vec![Vec::new()];
    while let Some(path) = left.pop() {
        let relative = path.strip_prefix(b"/").unwrap_or(&path);
        let full = directory.join(OsStr::from_bytes(relative));
        let metadata = full.symlink_metadata().expect("it is there");
        let of = metadata.file_type();
        let mut file = File {
            mode: metadata.mode() & 0o7777,
            xattrs: xattrs(&full),
            ..File::default()
        };
        file.kind = if of.is_dir() {
            for entry in full.read_dir().expect("read") {
                left.push([&path[..], b"/", entry.expect("read").file_name().as_bytes()].concat());
            }
            "Directory".into()
        } else if of.is_symlink() {
            format!("link to {}", full.read_link().expect("read").display())
        } else if of.is_file() {
            file.bytes = std::fs::read(&full).expect("read");
            "Regular".into()
        } else if of.is_fifo() {
            "Fifo".into()
        } else {
            "Special".into()
        };
        groups.entry(metadata.ino()).or_default().push(path.clone());
        files.insert(path, file);
    }
    (files, groups_of(groups.into_values()))
}

/// What a program did to a directory.
pub struct Recorded {
    pub trace: Trace,
    pub status: ExitStatus,
    pub directory: TempDir,
}

impl Recorded {
    pub fn events(&self) -> &[Event] {
        &self.trace.run.nodes[0].events
    }

    /// The operations on files, in order.
    pub fn operations(&self) -> Vec<&FileOp> {
        let of = |event: &'_ Event| matches!(event.action, Action::File(_));
        let files = self.events().iter().filter(|event| of(event));
        files
            .map(|event| {
                if let Action::File(op) = &event.action {
                    op
                } else {
                    unreachable!()
                }
            })
            .collect()
    }

    /// The lines that describe it.
    pub fn text(&self) -> String {
        describe(&self.trace).fold(String::new(), |all, line| all + &line + "\n")
    }

    /// Why what was recorded is not what is there.
    pub fn difference(&self) -> Option<String> {
        let node = &self.trace.run.nodes[0];
        let mut redone = Redone::begin(&self.trace, node);
        for op in self.operations() {
            redone.redo(&self.trace, op);
        }
        let ((files, groups), (real_files, real_groups)) =
            (redone.result(), real(self.directory.path()));
        for (path, file) in &real_files {
            let shown = String::from_utf8_lossy(path);
            match files.get(path) {
                None => return Some(format!("{shown} was not recorded")),
                Some(known) if known != file => {
                    return Some(format!(
                        "{shown} is {} {:o} with {} bytes, and was recorded as {} {:o} with {}",
                        file.kind,
                        file.mode,
                        file.bytes.len(),
                        known.kind,
                        known.mode,
                        known.bytes.len()
                    ));
                }
                Some(_) => {}
            }
        }
        let gone = files.keys().find(|path| !real_files.contains_key(*path));
        let gone = gone.map(|path| {
            format!(
                "{} was recorded and is not there",
                String::from_utf8_lossy(path)
            )
        });
        gone.or_else(|| {
            (groups != real_groups)
                .then(|| format!("{groups:?} and not {real_groups:?} are the same files"))
        })
    }

    /// What was recorded is exactly what is there, and nothing was missed.
    pub fn assert_exact(&self) {
        assert!(self.status.success(), "{:?}\n{}", self.status, self.text());
        assert!(
            self.trace.about.not_recorded.is_empty(),
            "{:?}\n{}",
            self.trace.about.not_recorded,
            self.text()
        );
        if let Some(difference) = self.difference() {
            panic!("{difference}\n{}", self.text());
        }
    }
}

/// Records a command on a new directory, which is the one where it starts.
pub fn record_command(prepare: impl FnOnce(&Path), mut command: Command) -> Recorded {
    let directory = tempfile::tempdir().expect("a directory");
    prepare(directory.path());
    command.current_dir(directory.path());
    let options = NodeOptions {
        name: "node".into(),
        directory: Some(directory.path().into()),
        marks: true,
        ..NodeOptions::default()
    };
    let (trace, status) = record(options, command, &|_| false)
        .expect("recorded")
        .expect("to its end");
    Recorded {
        trace,
        status,
        directory,
    }
}

/// Records a script of the shell.
pub fn shell(script: &str) -> Recorded {
    let mut command = Command::new("sh");
    command.args(["-ec", script]);
    record_command(|_| (), command)
}

/// Records a script of Python.
pub fn python(script: &str) -> Recorded {
    record_command(|_| (), python_command(script))
}

/// The command that runs a script of Python.
pub fn python_command(script: &str) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-B", "-c", script]);
    command
}
