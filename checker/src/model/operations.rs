//! What each operation does to the names and inodes of the model.

use workloads::{DeviceKind, FallocMode, Op, RenameFlag, Target};

use super::{InodeId, Kind, Model, ModelInode, ROOT, Rename};
use crate::content::FileContent;
use crate::history::History;
use crate::shifts::{Direction, Shift};

impl Model {
    /// What an operation that succeeded leaves; none if it could not have been done.
    pub(super) fn effect(&mut self, operation: usize, op: &Op) -> Option<()> {
        match op {
            Op::SetXattr { .. } | Op::RemoveXattr { .. } | Op::Chmod { .. } | Op::Chown { .. } => {
                self.attributes(op)
            }
            Op::Write { .. }
            | Op::Append { .. }
            | Op::DirectWrite { .. }
            | Op::MmapWrite { .. }
            | Op::Truncate { .. }
            | Op::Falloc { .. }
            | Op::Reflink { .. } => self.data(operation, op),
            Op::DropCaches { .. } | Op::SyncFileRange { .. } => Some(()),
            Op::Open { .. } | Op::Tmpfile { .. } | Op::Close { .. } => self.handles(op),
            _ if op.is_persistence() => Some(()),
            _ => self.names(op),
        }
    }

    /// The directory that a path's last name is in, and the name.
    fn place(&self, path: &str) -> Option<(InodeId, String)> {
        match path.trim_end_matches('/').rsplit_once('/') {
            Some((directory, name)) => Some((self.lookup(directory)?, name.to_owned())),
            None => Some((ROOT, path.to_owned())),
        }
    }

    fn current(&self, place: &(InodeId, String)) -> Option<InodeId> {
        self.inodes[place.0]
            .entries
            .get(&place.1)
            .and_then(|history| *history.current())
    }

    fn set_entry(&mut self, place: &(InodeId, String), inode: Option<InodeId>) {
        let time = self.time;
        let directory = &mut self.inodes[place.0];
        directory.touched = time;
        let history = directory
            .entries
            .entry(place.1.clone())
            .or_insert_with(|| History::new(0, None));
        history.set(time, inode);
        if let Some(inode) = inode {
            self.inodes[inode].named_once = true;
        }
    }

    fn touch(&mut self, inode: InodeId) {
        self.inodes[inode].touched = self.time;
    }

    fn add_inode(&mut self, kind: Kind, mode: u32) -> InodeId {
        // mkdir(2) gives no set-ID bits.
        let kept = match kind {
            Kind::Directory => 0o1777,
            _ => 0o7777,
        };
        self.inodes
            .push(ModelInode::new(kind, mode & kept, self.time));
        self.inodes.len() - 1
    }

    fn make(&mut self, path: &str, kind: Kind, mode: u32) -> Option<()> {
        let place = self.place(path)?;
        let inode = self.add_inode(kind, mode);
        self.set_entry(&place, Some(inode));
        Some(())
    }

    fn names(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Creat { path, mode } => self.make(path, Kind::File, *mode),
            Op::Mkdir { path, mode } => self.make(path, Kind::Directory, *mode),
            Op::Mkfifo { path, mode } => self.make(path, Kind::Fifo, *mode),
            Op::Mknod {
                path,
                kind,
                major,
                minor,
            } => self.make(
                path,
                Kind::Device {
                    kind: *kind,
                    major: *major,
                    minor: *minor,
                },
                0o644,
            ),
            Op::Symlink { target, path } => self.make(path, Kind::Symlink(target.clone()), 0o777),
            Op::Link { source, dest } => self.link(source, dest),
            Op::Unlink { path } | Op::Rmdir { path } | Op::Remove { path } => {
                let place = self.place(path)?;
                self.remove(&place)
            }
            Op::Rename { source, dest, flag } => self.rename(source, dest, *flag),
            _ => None,
        }
    }

    fn link(&mut self, source: &Target, dest: &str) -> Option<()> {
        let inode = self.target(source)?;
        let place = self.place(dest)?;
        self.set_entry(&place, Some(inode));
        self.touch(inode);
        Some(())
    }

    fn remove(&mut self, place: &(InodeId, String)) -> Option<()> {
        let inode = self.current(place)?;
        self.set_entry(place, None);
        self.touch(inode);
        self.removed = true;
        self.inodes[inode].unlinked = self.time;
        Some(())
    }

    fn rename(&mut self, source: &str, dest: &str, flag: RenameFlag) -> Option<()> {
        let (source, dest) = (self.place(source)?, self.place(dest)?);
        let moved = self.current(&source)?;
        let replaced = self.current(&dest);
        // rename(2): two names of one file stay as they are.
        if replaced == Some(moved) {
            return Some(());
        }
        let left_behind = match flag {
            RenameFlag::Replace | RenameFlag::NoReplace => None,
            RenameFlag::Exchange => replaced,
            RenameFlag::Whiteout => Some(self.add_inode(
                Kind::Device {
                    kind: DeviceKind::Char,
                    major: 0,
                    minor: 0,
                },
                0,
            )),
        };
        self.set_entry(&source, left_behind);
        self.set_entry(&dest, Some(moved));
        self.touch(moved);
        if let Some(replaced) = replaced {
            self.touch(replaced);
        }
        self.removed = true;
        let replaces = flag == RenameFlag::Replace
            && replaced.is_some()
            && self.inodes[moved].kind == Kind::File;
        self.renames.push(Rename {
            time: self.time,
            moved,
            source,
            dest,
            replaces,
        });
        Some(())
    }

    /// What names of files that are open lead to.
    fn handles(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Open { path, handle } => {
                let inode = self.lookup(path)?;
                self.handles.insert(handle.clone(), inode);
                Some(())
            }
            Op::Tmpfile { handle, mode, .. } => {
                let inode = self.add_inode(Kind::File, *mode);
                self.handles.insert(handle.clone(), inode);
                Some(())
            }
            Op::Close { target } => {
                if let Target::Handle(handle) = target {
                    self.handles.remove(handle);
                }
                Some(())
            }
            _ => None,
        }
    }

    fn edit(&mut self, inode: InodeId, edit: impl FnOnce(&mut FileContent)) -> Option<()> {
        let time = self.time;
        let inode = &mut self.inodes[inode];
        if inode.kind != Kind::File {
            return None;
        }
        let mut content = inode.content.current().clone();
        edit(&mut content);
        inode.content.set(time, content);
        Some(())
    }

    fn data(&mut self, operation: usize, op: &Op) -> Option<()> {
        match op {
            Op::Write {
                target,
                offset,
                length,
                ..
            }
            | Op::DirectWrite {
                target,
                offset,
                length,
                ..
            } => self.edit(self.target(target)?, |content| {
                content.write(operation, *offset, *length);
            }),
            Op::MmapWrite {
                target,
                offset,
                length,
            } => self.write_mapped(operation, self.target(target)?, *offset, *length),
            Op::Append { target, length } => self.edit(self.target(target)?, |content| {
                content.write(operation, content.size_bytes(), *length);
            }),
            Op::Truncate { target, size } => {
                let inode = self.target(target)?;
                self.truncate(inode, *size)
            }
            Op::Falloc {
                target,
                mode,
                offset,
                length,
            } => {
                let inode = self.target(target)?;
                self.falloc(inode, *mode, *offset, *length)
            }
            Op::Reflink { .. } => self.reflink(op),
            _ => None,
        }
    }

    /// A file that is too short is made longer first, by a call of its own: a crash may show that it
    /// is longer, and nothing that was stored.
    fn write_mapped(
        &mut self,
        operation: usize,
        inode: InodeId,
        offset: u64,
        length: u64,
    ) -> Option<()> {
        let mut longer = self.inodes[inode].content.current().clone();
        let is_too_short = longer.size_bytes() < offset + length;
        self.edit(inode, |content| {
            content.write(operation, offset, length);
        })?;
        if is_too_short && length > 0 {
            longer.truncate(offset + length);
            let time = self.time;
            self.inodes[inode].content.insert_before(time, longer);
        }
        Some(())
    }

    fn reflink(&mut self, op: &Op) -> Option<()> {
        let Op::Reflink {
            source,
            source_offset,
            length,
            dest,
            dest_offset,
        } = op
        else {
            return None;
        };
        let (source, dest) = (self.target(source)?, self.target(dest)?);
        let from = self.inodes[source].content.current().clone();
        let length = if *length == 0 {
            from.size_bytes().checked_sub(*source_offset)?
        } else {
            *length
        };
        self.inodes[source].shared = true;
        self.inodes[dest].shared = true;
        self.edit(dest, |content| {
            content.clone_from(&from, *source_offset, length, *dest_offset);
        })
    }

    fn truncate(&mut self, inode: InodeId, size: u64) -> Option<()> {
        let before = self.inodes[inode].content.current().size_bytes();
        if before != size {
            self.touch(inode);
        }
        self.removed |= size < before;
        self.edit(inode, |content| content.truncate(size))
    }

    fn falloc(&mut self, inode: InodeId, mode: FallocMode, offset: u64, length: u64) -> Option<()> {
        let to = match mode {
            FallocMode::CollapseRange => Some(Direction::Left),
            FallocMode::InsertRange => Some(Direction::Right),
            _ => None,
        };
        let time = self.time;
        self.inodes[inode].shifts.extend(to.map(|to| Shift {
            time,
            to,
            offset,
            length,
        }));
        self.edit(inode, |content| falloc(content, mode, offset, length))
    }

    fn attributes(&mut self, op: &Op) -> Option<()> {
        let time = self.time;
        match op {
            Op::SetXattr {
                target,
                name,
                value,
            } => {
                self.set_xattr(self.target(target)?, name, Some(value.as_bytes().to_vec()));
            }
            Op::RemoveXattr { target, name } => self.set_xattr(self.target(target)?, name, None),
            Op::Chmod { target, mode } => {
                let inode = self.target(target)?;
                self.touch(inode);
                self.inodes[inode].mode.set(time, mode & 0o7777);
            }
            Op::Chown { target, uid, gid } => {
                let inode = self.target(target)?;
                self.touch(inode);
                let inode = &mut self.inodes[inode];
                inode.owner.set(time, (*uid, *gid));
                if inode.kind != Kind::Directory {
                    inode.mode.set(time, without_set_id(*inode.mode.current()));
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn set_xattr(&mut self, inode: InodeId, name: &str, value: Option<Vec<u8>>) {
        let time = self.time;
        let inode = &mut self.inodes[inode];
        let history = inode
            .xattrs
            .entry(name.to_owned())
            .or_insert_with(|| History::new(0, None));
        // A value that is there already may be skipped by the file system: nothing is touched.
        if *history.current() != value {
            history.set(time, value);
            inode.touched = time;
        }
    }
}

/// chown(2) takes the set-ID bits of what could be executed and is no directory, even from root.
fn without_set_id(mode: u32) -> u32 {
    let mode = mode & !0o4000;
    if mode & 0o010 == 0 {
        mode
    } else {
        mode & !0o2000
    }
}

fn falloc(content: &mut FileContent, mode: FallocMode, offset: u64, length: u64) {
    let end = offset + length;
    match mode {
        FallocMode::Allocate => {
            content.allocate(offset, end);
            content.extend(end);
        }
        FallocMode::KeepSize => content.allocate(offset, end),
        FallocMode::ZeroRange => {
            content.zero(offset, end);
            content.allocate(offset, end);
            content.extend(end);
        }
        FallocMode::ZeroRangeKeepSize => {
            content.zero(offset, end);
            content.allocate(offset, end);
        }
        FallocMode::PunchHole => {
            content.zero(offset, end);
            content.free(offset, end);
        }
        FallocMode::CollapseRange => content.collapse(offset, length),
        FallocMode::InsertRange => content.insert(offset, length),
        FallocMode::UnshareRange => content.extend(end),
    }
}
