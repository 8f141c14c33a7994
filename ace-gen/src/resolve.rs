//! Phase 4 of ACE: adds what operations need in order to succeed.
//!
//! ACE keeps maps of what is open and how long it is, by name. This keeps a model of the file
//! system instead, so that hard links share their data, what is below a renamed directory
//! moves with it, and a name that is made again starts empty.

use workloads::{FallocMode, RenameFlag};

use crate::action::{Action, Sink};
use crate::choice::{Argument, Choice};
use crate::menu::Persist;
use crate::namespace::{Kind, Namespace};
use crate::operation::{BLOCK_BYTES, DataRange, Operation};
use crate::paths::{PathId, PathTable};

/// Turns operations with parameters into operations that succeed.
#[derive(Debug, Clone)]
pub(crate) struct Resolver<'a> {
    paths: &'a PathTable,
    names: Namespace,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(paths: &'a PathTable) -> Self {
        Resolver {
            paths,
            names: Namespace::new(paths),
        }
    }

    /// Resolves one workload.
    pub(crate) fn run<'c, S: Sink>(
        &mut self,
        plan: impl Iterator<Item = (&'c Choice, Persist)>,
        sink: &mut S,
    ) {
        self.names.clear(self.paths.root());
        let mut run = Run {
            paths: self.paths,
            names: &mut self.names,
            sink,
        };
        for (choice, persist) in plan {
            run.operation(choice);
            if !choice.operation.persists_itself() {
                run.persist(persist);
            }
        }
    }
}

/// One workload being resolved.
struct Run<'a, S> {
    paths: &'a PathTable,
    names: &'a mut Namespace,
    sink: &'a mut S,
}

impl<S: Sink> Run<'_, S> {
    fn operation(&mut self, choice: &Choice) {
        let (path, other) = (choice.path, choice.other);
        match choice.operation {
            Operation::Creat => self.make(path, Kind::File, Action::Creat(path)),
            Operation::Mkdir => self.make(path, Kind::Dir, Action::Mkdir(path)),
            Operation::Mknod => self.make(path, Kind::Special, Action::Mknod(path)),
            Operation::Mkfifo => self.make(path, Kind::Special, Action::Mkfifo(path)),
            Operation::Symlink => self.make(
                other,
                Kind::Symlink,
                Action::Symlink {
                    target: path,
                    path: other,
                },
            ),
            Operation::Falloc | Operation::Write | Operation::Dwrite | Operation::MmapWrite => {
                self.data(choice);
            }
            Operation::Truncate => self.truncate(choice),
            Operation::Link => self.link(path, other),
            Operation::Reflink => self.reflink(path, other),
            Operation::Unlink => self.unlink(path, Action::Unlink(path)),
            Operation::Remove => self.unlink(path, Action::Remove(path)),
            Operation::Rmdir => {
                self.need_dir(path);
                self.need_absent(path);
            }
            Operation::Rename => self.rename(path, other, RenameFlag::Replace),
            Operation::RenameNoreplace => self.rename(path, other, RenameFlag::NoReplace),
            Operation::RenameExchange => self.rename(path, other, RenameFlag::Exchange),
            Operation::RenameWhiteout => self.rename(path, other, RenameFlag::Whiteout),
            Operation::Fsetxattr => self.set_xattr(path),
            Operation::Removexattr => self.remove_xattr(path),
            Operation::Chmod => self.on_file(path, Action::Chmod(path)),
            Operation::Chown => self.on_file(path, Action::Chown(path)),
            Operation::Fdatasync => self.persist(Persist::Fdatasync(path)),
        }
    }

    fn persist(&mut self, persist: Persist) {
        match persist {
            Persist::Fsync(path) => {
                let path = self.need_openable(path);
                self.sink.act(Action::Fsync(path));
            }
            Persist::Fdatasync(path) => {
                let path = self.need_openable(path);
                self.sink.act(Action::Fdatasync(path));
            }
            Persist::Sync => self.sink.act(Action::Sync),
            Persist::Syncfs => self.sink.act(Action::Syncfs),
            Persist::None => {}
        }
    }

    // What operations need.

    fn need_parents(&mut self, path: PathId) {
        self.need_dir(self.paths.parent(path));
    }

    fn need_dir(&mut self, path: PathId) {
        if !self.names.exists(path) {
            self.need_parents(path);
            self.names.make(path, Kind::Dir);
            self.sink.act(Action::Mkdir(path));
        }
    }

    /// A file of any kind, which `link` and `rename` can be applied to.
    fn need_any_file(&mut self, path: PathId) {
        if !self.names.exists(path) {
            self.need_parents(path);
            self.names.make(path, Kind::File);
            self.sink.act(Action::Creat(path));
        }
    }

    /// A regular file, which data can be written to.
    fn need_file(&mut self, path: PathId) {
        if self.names.kind(path).is_some_and(|kind| kind != Kind::File) {
            self.need_absent(path);
        }
        self.need_any_file(path);
    }

    fn need_absent(&mut self, path: PathId) {
        match self.names.kind(path) {
            None => return,
            Some(Kind::Dir) => {
                self.need_empty(path);
                self.sink.act(Action::Rmdir(path));
            }
            Some(_) => self.sink.act(Action::Unlink(path)),
        }
        self.names.remove(path);
    }

    fn need_empty(&mut self, dir: PathId) {
        let paths = self.paths;
        for &child in paths.children(dir) {
            self.need_absent(child);
        }
    }

    /// A regular file that was written to, so that there is something to overwrite.
    fn need_data(&mut self, path: PathId) {
        self.need_file(path);
        let node = self.names.node(path);
        if !node.written {
            self.write(path, DataRange::Append);
        }
    }

    /// Something that can be opened and made durable: the name itself, or the directory that
    /// holds it where opening it would not open a file of this file system.
    fn need_openable(&mut self, path: PathId) -> PathId {
        if self.paths.is_dir(path) {
            self.need_dir(path);
            return path;
        }
        self.need_any_file(path);
        match self.names.kind(path) {
            Some(Kind::Symlink | Kind::Special) => self.paths.parent(path),
            _ => path,
        }
    }

    // Operations.

    fn make(&mut self, path: PathId, kind: Kind, action: Action) {
        self.need_parents(path);
        self.need_absent(path);
        self.names.make(path, kind);
        self.sink.act(action);
    }

    fn on_file(&mut self, path: PathId, action: Action) {
        self.need_file(path);
        self.sink.act(action);
    }

    fn unlink(&mut self, path: PathId, action: Action) {
        self.need_any_file(path);
        self.names.remove(path);
        self.sink.act(action);
    }

    fn link(&mut self, source: PathId, dest: PathId) {
        self.need_parents(source);
        self.need_parents(dest);
        self.need_any_file(source);
        self.need_absent(dest);
        self.names.link(source, dest);
        self.sink.act(Action::Link { source, dest });
    }

    fn reflink(&mut self, source: PathId, dest: PathId) {
        self.need_data(source);
        self.need_file(dest);
        if self.names.same_file(source, dest) {
            self.need_absent(dest);
            self.need_file(dest);
        }
        let size = self.names.node(source).size;
        let node = self.names.node(dest);
        node.size = node.size.max(size);
        node.written = true;
        self.sink.act(Action::Reflink { source, dest });
    }

    fn rename(&mut self, source: PathId, dest: PathId, flag: RenameFlag) {
        let dir = self.paths.is_dir(source);
        self.need_parents(source);
        self.need_parents(dest);
        if dir {
            self.need_dir(source);
        } else {
            self.need_any_file(source);
        }
        match flag {
            RenameFlag::NoReplace => self.need_absent(dest),
            RenameFlag::Exchange if dir => self.need_dir(dest),
            RenameFlag::Exchange => self.need_any_file(dest),
            _ if dir => self.need_empty(dest),
            _ => {}
        }
        // A rename between two links of one file succeeds and does nothing.
        if !self.names.same_file(source, dest) {
            self.move_names(source, dest, flag);
        }
        self.sink.act(Action::Rename { source, dest, flag });
    }

    fn move_names(&mut self, source: PathId, dest: PathId, flag: RenameFlag) {
        let there = [(source, dest)];
        let back = [(dest, source)];
        let dir = self.paths.is_dir(source);
        let there = if dir {
            self.paths.moves(source, dest)
        } else {
            &there
        };
        let back = if dir {
            self.paths.moves(dest, source)
        } else {
            &back
        };
        if flag == RenameFlag::Exchange {
            self.names.swap(there, back);
        } else {
            self.names.move_all(there);
        }
        if flag == RenameFlag::Whiteout {
            self.names.make(source, Kind::Special);
        }
    }

    fn data(&mut self, choice: &Choice) {
        let path = choice.path;
        match choice.argument {
            Argument::Falloc(mode, range) => {
                self.need_data(path);
                self.falloc(path, mode, range);
            }
            Argument::Range(range) => {
                if range == DataRange::Append {
                    self.need_file(path);
                } else {
                    self.need_data(path);
                }
                match choice.operation {
                    Operation::Dwrite => self.direct_write(path, range),
                    Operation::MmapWrite => self.mmap_write(path, range),
                    _ => self.write(path, range),
                }
            }
            Argument::None | Argument::Size(_) => unreachable!("data operations have a range"),
        }
    }

    fn write(&mut self, path: PathId, range: DataRange) {
        let (offset, length) = range.at(self.names.node(path).size);
        self.grow(path, offset + length);
        self.sink.act(Action::Write {
            path,
            offset,
            length,
        });
    }

    fn direct_write(&mut self, path: PathId, range: DataRange) {
        let (offset, length) = range.blocks_at(self.names.node(path).size);
        self.grow(path, offset + length);
        self.sink.act(Action::DirectWrite {
            path,
            offset,
            length,
        });
    }

    fn mmap_write(&mut self, path: PathId, range: DataRange) {
        let (offset, length) = range.blocks_at(self.names.node(path).size);
        self.grow(path, offset + length);
        self.sink.act(Action::MmapWrite {
            path,
            offset,
            length,
        });
        self.sink.act(Action::Msync {
            path,
            offset,
            length,
        });
    }

    fn grow(&mut self, path: PathId, end: u64) {
        let node = self.names.node(path);
        node.size = node.size.max(end);
        node.written = true;
    }

    fn falloc(&mut self, path: PathId, mode: FallocMode, range: DataRange) {
        let (mut offset, mut length) = range.at(self.names.node(path).size);
        match mode {
            FallocMode::Allocate | FallocMode::ZeroRange | FallocMode::UnshareRange => {
                self.grow(path, offset + length);
            }
            FallocMode::KeepSize | FallocMode::ZeroRangeKeepSize | FallocMode::PunchHole => {}
            FallocMode::CollapseRange | FallocMode::InsertRange => {
                (offset, length) = self.shift(path, mode, offset);
            }
        }
        self.sink.act(Action::Falloc {
            path,
            mode,
            offset,
            length,
        });
    }

    /// One block in the middle of the file: what is after it moves, so there must be some.
    fn shift(&mut self, path: PathId, mode: FallocMode, offset: u64) -> (u64, u64) {
        if self.names.node(path).size <= 2 * BLOCK_BYTES {
            self.write(path, DataRange::Append);
        }
        let node = self.names.node(path);
        let offset = offset.min(node.size - BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        node.size = match mode {
            FallocMode::InsertRange => node.size + BLOCK_BYTES,
            _ => node.size - BLOCK_BYTES,
        };
        (offset, BLOCK_BYTES)
    }

    fn truncate(&mut self, choice: &Choice) {
        let Argument::Size(size) = choice.argument else {
            unreachable!("truncate has a size")
        };
        self.need_data(choice.path);
        self.names.node(choice.path).size = size;
        self.sink.act(Action::Truncate {
            path: choice.path,
            size,
        });
    }

    fn set_xattr(&mut self, path: PathId) {
        self.need_file(path);
        self.names.node(path).xattr = true;
        self.sink.act(Action::SetXattr(path));
    }

    fn remove_xattr(&mut self, path: PathId) {
        self.need_file(path);
        if !self.names.node(path).xattr {
            self.set_xattr(path);
        }
        self.names.node(path).xattr = false;
        self.sink.act(Action::RemoveXattr(path));
    }
}
