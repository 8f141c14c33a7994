use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pace_rules::nodes::{Content as Bytes, Effect};
use trace::{FileId, FileKind, InitialFile, Name};
use trace_store::Trace;

use crate::content::Content;

/// Everything that is in a node's directory of data. Copies share what they have in common, so that
/// one of each state that is looked at costs little.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    files: BTreeMap<FileId, Arc<File>>,
}

#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) mode: u32,
    /// Extended attributes.
    pub(crate) xattrs: BTreeMap<Name, Arc<[u8]>>,
    pub(crate) holds: Holds,
}

#[derive(Debug, Clone)]
pub(crate) enum Holds {
    Bytes(Content),
    Entries(BTreeMap<Name, FileId>),
    Target(Arc<[u8]>),
    Pipe,
    Nothing,
}

/// What tells trees apart: names, kinds, modes, contents, and which names are those of one file.
pub type Fingerprint = [u8; 32];

/// What no file system would show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// A directory that can be reached by two names.
    #[error("a directory has two names")]
    DirectoryWithTwoNames,
}

/// Where they end is told by how many they are.
fn hash_bytes(bytes: &[u8], hasher: &mut blake3::Hasher) {
    let len = bytes.len() as u64;
    hasher.update(&len.to_le_bytes()).update(bytes);
}

impl Tree {
    /// What was there at the beginning.
    pub fn initial(files: &[InitialFile], trace: &Trace) -> Self {
        let mut tree = Self::default();
        if !files.iter().any(|file| file.file == FileId::ROOT) {
            tree.create(FileId::ROOT, FileKind::Directory, 0o755, trace);
        }
        for file in files {
            if !tree.files.contains_key(&file.file) {
                tree.create(file.file, file.kind, file.mode, trace);
                if let Some(content) = tree.content(file.file) {
                    for (offset, data) in &file.content {
                        content.write(*offset, trace.bytes(*data));
                    }
                    content.set_size(file.size);
                }
            }
            if let Some(parent) = file.parent {
                tree.set_entry(parent, &file.name, Some(file.file));
            }
        }
        tree
    }

    /// Lets something reach the disk. What is done to a file that is not there is of no
    /// consequence.
    pub fn apply(&mut self, effect: &Effect, trace: &Trace) {
        match effect {
            Effect::NewFile { file, kind, mode } => self.create(*file, *kind, *mode, trace),
            Effect::SetEntry { parent, name, file } => self.set_entry(*parent, name, Some(*file)),
            Effect::AddEntry { parent, name, file } => self.add_entry(*parent, name, *file),
            Effect::RemoveEntry { parent, name, of } => self.remove_entry(*parent, name, *of),
            Effect::Write {
                file,
                offset,
                content,
            } => self.write(*file, *offset, content, trace),
            Effect::Overwrite {
                file,
                offset,
                content,
            } => self.overwrite(*file, *offset, content, trace),
            Effect::Grow { file, size } => self.grow(*file, *size),
            Effect::SetSize { file, size } => self.set_size(*file, *size),
            Effect::SetMode { file, mode } => self.set_mode(*file, *mode),
            Effect::SetXattr { file, name, value } => {
                let value = value.map(|value| trace.bytes(value));
                self.set_xattr(*file, name, value);
            }
        }
    }

    /// Gives a file a name that is nobody's.
    fn add_entry(&mut self, parent: FileId, name: &Name, file: FileId) {
        if self.entry(parent, name).is_none() {
            self.set_entry(parent, name, Some(file));
        }
    }

    /// Takes a name away, if it is one of this file; of whatever it is if none is said.
    fn remove_entry(&mut self, parent: FileId, name: &Name, of: Option<FileId>) {
        if of.is_none() || of == self.entry(parent, name) {
            self.set_entry(parent, name, None);
        }
    }

    fn grow(&mut self, file: FileId, size: u64) {
        if let Some(content) = self.content(file) {
            content.grow(size);
        }
    }

    fn set_size(&mut self, file: FileId, size: u64) {
        if let Some(content) = self.content(file) {
            content.set_size(size);
        }
    }

    fn set_mode(&mut self, file: FileId, mode: u32) {
        if let Some(file) = self.files.get_mut(&file) {
            Arc::make_mut(file).mode = mode;
        }
    }

    /// Gives a file an extended attribute, or takes it away.
    fn set_xattr(&mut self, file: FileId, name: &[u8], value: Option<&[u8]>) {
        if let Some(file) = self.files.get_mut(&file) {
            let xattrs = &mut Arc::make_mut(file).xattrs;
            match value {
                Some(value) => xattrs.insert(name.into(), value.into()),
                None => xattrs.remove(name),
            };
        }
    }

    /// Bytes that may make the file larger.
    fn write(&mut self, file: FileId, offset: u64, content: &Bytes, trace: &Trace) {
        if let Some(own) = self.content(file) {
            match content {
                Bytes::Written(data) => own.write(offset, trace.bytes(*data)),
                Bytes::Zeros(len) => own.zeros(offset, *len),
                Bytes::Garbage(len) => own.garbage(offset, *len),
            }
        }
    }

    /// Bytes that stay within the file's size.
    fn overwrite(&mut self, file: FileId, offset: u64, content: &Bytes, trace: &Trace) {
        if let Some(own) = self.content(file) {
            match content {
                Bytes::Written(data) => own.overwrite(offset, trace.bytes(*data)),
                Bytes::Zeros(len) => own.overwrite_zeros(offset, *len),
                Bytes::Garbage(_) => unreachable!("garbage is written, and nothing is over it"),
            }
        }
    }

    /// A hash of everything that can be reached.
    ///
    /// # Errors
    /// If no file system would show such a tree.
    pub fn fingerprint(&self) -> Result<Fingerprint, Impossible> {
        let mut hasher = blake3::Hasher::new();
        // Files are numbered as they are met: their own numbers say nothing of what can be read.
        let mut met = HashMap::new();
        self.hash(FileId::ROOT, &mut hasher, &mut met)?;
        Ok(*hasher.finalize().as_bytes())
    }

    fn hash(
        &self,
        id: FileId,
        hasher: &mut blake3::Hasher,
        met: &mut HashMap<FileId, u64>,
    ) -> Result<(), Impossible> {
        let Some(file) = self.files.get(&id) else {
            hasher.update(b"missing");
            return Ok(());
        };
        if let Some(number) = met.get(&id) {
            if matches!(file.holds, Holds::Entries(_)) {
                return Err(Impossible::DirectoryWithTwoNames);
            }
            hasher.update(b"again").update(&number.to_le_bytes());
            return Ok(());
        }
        met.insert(id, met.len() as u64);
        hasher.update(&file.mode.to_le_bytes());
        for (name, value) in &file.xattrs {
            hash_bytes(name, hasher);
            hash_bytes(value, hasher);
        }
        self.hash_holds(&file.holds, hasher, met)
    }

    fn hash_holds(
        &self,
        holds: &Holds,
        hasher: &mut blake3::Hasher,
        met: &mut HashMap<FileId, u64>,
    ) -> Result<(), Impossible> {
        match holds {
            Holds::Bytes(content) => {
                hasher
                    .update(b"bytes")
                    .update(&content.size().to_le_bytes());
                for word in content.hash() {
                    hasher.update(&word.to_le_bytes());
                }
            }
            Holds::Entries(entries) => {
                hasher
                    .update(b"directory")
                    .update(&(entries.len() as u64).to_le_bytes());
                for (name, file) in entries {
                    hash_bytes(name, hasher);
                    self.hash(*file, hasher, met)?;
                }
            }
            Holds::Target(target) => {
                hash_bytes(target, hasher.update(b"link"));
            }
            Holds::Pipe => {
                hasher.update(b"pipe");
            }
            Holds::Nothing => {
                hasher.update(b"special");
            }
        }
        Ok(())
    }

    pub(crate) fn file(&self, id: FileId) -> Option<&File> {
        self.files.get(&id).map(AsRef::as_ref)
    }

    fn create(&mut self, file: FileId, kind: FileKind, mode: u32, trace: &Trace) {
        let holds = match kind {
            FileKind::Regular => Holds::Bytes(Content::default()),
            FileKind::Directory => Holds::Entries(BTreeMap::new()),
            FileKind::Symlink { target } => Holds::Target(trace.bytes(target).into()),
            FileKind::Fifo => Holds::Pipe,
            FileKind::Special => Holds::Nothing,
        };
        let xattrs = BTreeMap::new();
        let new = File {
            mode,
            xattrs,
            holds,
        };
        self.files.insert(file, Arc::new(new));
    }

    fn content(&mut self, file: FileId) -> Option<&mut Content> {
        match &mut Arc::make_mut(self.files.get_mut(&file)?).holds {
            Holds::Bytes(content) => Some(content),
            _ => None,
        }
    }

    /// Of what a directory has a name.
    fn entry(&self, parent: FileId, name: &Name) -> Option<FileId> {
        match &self.files.get(&parent)?.holds {
            Holds::Entries(entries) => entries.get(name).copied(),
            _ => None,
        }
    }

    fn set_entry(&mut self, parent: FileId, name: &Name, file: Option<FileId>) {
        if file.is_some_and(|file| !self.files.contains_key(&file)) {
            return;
        }
        let Some(parent) = self.files.get_mut(&parent) else {
            return;
        };
        if let Holds::Entries(entries) = &mut Arc::make_mut(parent).holds {
            match file {
                Some(file) => entries.insert(name.clone(), file),
                None => entries.remove(name),
            };
        }
    }
}
