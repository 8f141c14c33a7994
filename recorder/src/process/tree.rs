//! What the recorder knows of a node's files: names, sizes and contents, as what it has recorded
//! made them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rustix::fs::Stat;
use trace::{ChangeOfName, Data, FileId, FileKind, FileOp, InitialFile, Name};

use super::extents::Extents;

/// Which file the kernel means. The number of one that is gone is used again.
pub(super) type Inode = (u64, u64);

/// The inode of what was looked at.
pub(super) fn inode(stat: &Stat) -> Inode {
    (stat.st_dev, stat.st_ino)
}

/// One file.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub kind: FileKind,
    pub mode: u32,
    pub size: u64,
    pub content: Extents,
    /// How many names it has.
    pub names: u32,
    /// Whether some of it was durable.
    synced: bool,
    /// Whether it was given a name elsewhere.
    was_outside: bool,
    /// What is in it, if it is a directory.
    pub entries: BTreeMap<Name, FileId>,
}

impl File {
    fn write(&mut self, offset: u64, data: Data) {
        self.content.write(offset, data);
        self.size = self.size.max(offset + data.len);
    }

    fn resize(&mut self, size: u64) {
        self.content.cut(size);
        self.size = size;
    }
}

/// All files of a node, also those that are gone.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: Vec<File>,
    inodes: HashMap<Inode, FileId>,
    device: u64,
    /// The directory in which the node's own is.
    above: Option<Inode>,
}

impl Tree {
    /// The number of a file that was not there before.
    pub(super) fn add(&mut self, inode: Inode, kind: FileKind, mode: u32) -> FileId {
        let file = FileId(u32::try_from(self.files.len()).expect("memory ends before"));
        let (content, entries) = (Extents::default(), BTreeMap::new());
        self.files.push(File {
            kind,
            mode,
            size: 0,
            content,
            names: 0,
            synced: false,
            was_outside: false,
            entries,
        });
        self.inodes.insert(inode, file);
        if file == FileId::ROOT {
            self.device = inode.0;
        }
        file
    }

    /// One that was there at the beginning.
    pub(super) fn begin_with(&mut self, initial: &InitialFile) {
        let file = &mut self.files[initial.file.0 as usize];
        file.size = initial.size;
        file.synced = true;
        if file.names == 0 {
            for (offset, data) in &initial.content {
                file.content.write(*offset, *data);
            }
        }
        file.names += 1;
        if let Some(parent) = initial.parent {
            self.files[parent.0 as usize]
                .entries
                .insert(Arc::clone(&initial.name), initial.file);
        }
    }

    pub(super) fn file(&self, file: FileId) -> &File {
        &self.files[file.0 as usize]
    }

    /// The file that somebody has looked at, if it is one of the node's.
    pub(super) fn find(&self, stat: &Stat) -> Option<FileId> {
        let file = *self.inodes.get(&inode(stat))?;
        // One without a name here that has one on the disk is another.
        (self.file(file).names > 0 || stat.st_nlink == 0).then_some(file)
    }

    /// A file has a name elsewhere now.
    pub(super) fn give_name_outside(&mut self, file: FileId) {
        self.file_mut(file).was_outside = true;
    }

    /// Whether something that comes into the directory was in it before, and was synced there.
    pub(super) fn returns_synced(&self, stat: &Stat) -> bool {
        let file = self.inodes.get(&inode(stat)).map(|file| self.file(*file));
        file.is_some_and(|file| file.was_outside && file.synced)
    }

    /// Whether this is the directory in which the node's own is.
    pub(super) fn is_above(&self, stat: &Stat) -> bool {
        self.above == Some(inode(stat)) && self.device == stat.st_dev
    }

    /// The directory itself is in this one.
    pub(super) fn begin_below(&mut self, directory: &Stat) {
        self.above = Some(inode(directory));
    }

    /// What has this name.
    pub(super) fn entry(&self, parent: FileId, name: &[u8]) -> Option<FileId> {
        self.file(parent).entries.get(name).copied()
    }

    fn file_mut(&mut self, file: FileId) -> &mut File {
        &mut self.files[file.0 as usize]
    }

    fn set_entry(&mut self, parent: FileId, name: &Name, file: FileId) {
        self.file_mut(file).names += 1;
        if let Some(before) = self.file_mut(parent).entries.insert(Arc::clone(name), file) {
            self.file_mut(before).names -= 1;
        }
    }

    fn remove_entry(&mut self, parent: FileId, name: &Name) {
        if let Some(before) = self.file_mut(parent).entries.remove(name) {
            self.file_mut(before).names -= 1;
        }
    }

    /// `exchanged` gets the old name.
    fn rename(&mut self, file: FileId, names: &ChangeOfName, exchanged: Option<FileId>) {
        let ((old_parent, old_name), (parent, name)) = (&names.from, &names.to);
        self.remove_entry(*old_parent, old_name);
        self.set_entry(*parent, name, file);
        if let Some(exchanged) = exchanged {
            self.set_entry(*old_parent, old_name, exchanged);
        }
    }

    /// Does what was done.
    pub(super) fn apply(&mut self, op: &FileOp) {
        match op {
            FileOp::Create {
                parent, name, file, ..
            }
            | FileOp::Link { parent, name, file } => {
                self.set_entry(*parent, name, *file);
            }
            FileOp::Unlink { parent, name, .. } => self.remove_entry(*parent, name),
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange,
            } => self.rename(*file, names, replaced.filter(|_| *exchange)),
            FileOp::SyncAll => self.files.iter_mut().for_each(|file| file.synced = true),
            of_file => self.apply_to_file(of_file),
        }
    }

    /// What an operation does to one file, whatever its names are.
    fn apply_to_file(&mut self, op: &FileOp) {
        match op {
            FileOp::Write {
                file, offset, data, ..
            } => self.file_mut(*file).write(*offset, *data),
            FileOp::Resize { file, to, .. } => self.file_mut(*file).resize(*to),
            FileOp::Zero { file, offset, len } | FileOp::ZeroBlocks { file, offset, len } => {
                self.file_mut(*file).content.zero(*offset, *len);
            }
            FileOp::SetMode { file, mode } => self.file_mut(*file).mode = *mode,
            FileOp::Sync { file, .. } => self.file_mut(*file).synced = true,
            _ => {}
        }
    }
}
