//! A toy file system in memory that knows when POSIX makes an operation fail. It shares
//! nothing with the generator's own model.

use std::collections::HashMap;

use workloads::{FallocMode, Op, RenameFlag, Step, Target, Workload};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Dir,
    Symlink,
    Special,
}

#[derive(Debug)]
struct Inode {
    kind: Kind,
    size: u64,
    xattr: bool,
}

/// The error that POSIX gives.
pub type Errno = &'static str;

/// Names to inodes. The root is always there.
#[derive(Debug)]
pub struct Toy {
    names: HashMap<String, usize>,
    inodes: Vec<Inode>,
}

const BLOCK: u64 = 4096;

impl Toy {
    pub fn new() -> Self {
        let root = Inode {
            kind: Kind::Dir,
            size: 0,
            xattr: false,
        };
        Toy {
            names: HashMap::from([(".".to_owned(), 0)]),
            inodes: vec![root],
        }
    }

    /// Runs a workload up to the first operation that fails.
    pub fn run(workload: &Workload) -> Result<(), String> {
        let mut toy = Toy::new();
        for step in &workload.run {
            let Step::Op(op) = step else { continue };
            toy.apply(op)
                .map_err(|errno| format!("{}: {op}: {errno} in '{workload}'", workload.name))?;
        }
        Ok(())
    }

    pub fn apply(&mut self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Creat { path, .. } => self.make(path, Kind::File),
            Op::Mkdir { path, .. } => self.make(path, Kind::Dir),
            Op::Mkfifo { path, .. } | Op::Mknod { path, .. } => self.make(path, Kind::Special),
            Op::Symlink { target, path } => {
                let up = target.matches("../").count();
                assert_eq!(
                    up,
                    path.matches('/').count(),
                    "{target} as seen from {path}"
                );
                self.make(path, Kind::Symlink)
            }
            Op::Link { source, dest } => self.link(path_of(source), dest),
            Op::Unlink { path } | Op::Remove { path } => self.unlink(path),
            Op::Rmdir { path } => self.rmdir(path),
            Op::Rename { source, dest, flag } => self.rename(source, dest, *flag),
            Op::Fsync { target } | Op::Fdatasync { target } => self.open(path_of(target)).map(drop),
            Op::Sync | Op::Syncfs => Ok(()),
            other => self.on_file(other),
        }
    }

    fn on_file(&mut self, op: &Op) -> Result<(), Errno> {
        match op {
            Op::Write {
                target,
                offset,
                length,
                ..
            } => {
                let file = self.file(path_of(target))?;
                assert!(
                    *offset <= file.size,
                    "{op} leaves a hole in a file of {}",
                    file.size
                );
                file.size = file.size.max(offset + length);
            }
            Op::DirectWrite {
                target,
                offset,
                length,
                ..
            }
            | Op::MmapWrite {
                target,
                offset,
                length,
            } => {
                let file = self.file(path_of(target))?;
                if offset % BLOCK != 0 || length % BLOCK != 0 {
                    return Err("EINVAL");
                }
                assert!(
                    *offset < file.size + BLOCK,
                    "{op} leaves a block out of a file of {}",
                    file.size
                );
                file.size = file.size.max(offset + length);
            }
            Op::Msync {
                target,
                offset,
                length,
            } => {
                if offset + length > self.file(path_of(target))?.size {
                    return Err("ENOMEM");
                }
            }
            Op::Truncate { target, size } => self.file(path_of(target))?.size = *size,
            Op::Falloc {
                target,
                mode,
                offset,
                length,
            } => self.falloc(path_of(target), *mode, *offset, *length)?,
            Op::SetXattr { target, .. } => self.file(path_of(target))?.xattr = true,
            Op::RemoveXattr { target, .. } => {
                let file = self.file(path_of(target))?;
                if !std::mem::take(&mut file.xattr) {
                    return Err("ENODATA");
                }
            }
            Op::Chmod { target, .. } | Op::Chown { target, .. } => {
                self.file(path_of(target))?;
            }
            Op::Reflink { source, dest, .. } => {
                let size = self.file(path_of(source))?.size;
                if self.same(path_of(source), path_of(dest)) {
                    return Err("EINVAL");
                }
                let file = self.file(path_of(dest))?;
                file.size = file.size.max(size);
            }
            other => panic!("{other} is not generated"),
        }
        Ok(())
    }

    fn falloc(
        &mut self,
        path: &str,
        mode: FallocMode,
        offset: u64,
        length: u64,
    ) -> Result<(), Errno> {
        let file = self.file(path)?;
        let aligned = offset.is_multiple_of(BLOCK) && length.is_multiple_of(BLOCK);
        match mode {
            _ if length == 0 => return Err("EINVAL"),
            FallocMode::Allocate | FallocMode::ZeroRange | FallocMode::UnshareRange => {
                file.size = file.size.max(offset + length);
            }
            FallocMode::KeepSize | FallocMode::ZeroRangeKeepSize | FallocMode::PunchHole => {}
            FallocMode::CollapseRange if aligned && offset + length < file.size => {
                file.size -= length;
            }
            FallocMode::InsertRange if aligned && offset < file.size => file.size += length,
            FallocMode::CollapseRange | FallocMode::InsertRange => return Err("EINVAL"),
        }
        Ok(())
    }

    fn inode(&self, path: &str) -> Result<usize, Errno> {
        self.names.get(path).copied().ok_or("ENOENT")
    }

    fn same(&self, one: &str, other: &str) -> bool {
        self.inode(one)
            .is_ok_and(|inode| self.inode(other) == Ok(inode))
    }

    fn kind(&self, path: &str) -> Result<Kind, Errno> {
        self.inode(path).map(|inode| self.inodes[inode].kind)
    }

    /// What can be opened without following a link or meeting a device.
    fn open(&mut self, path: &str) -> Result<&mut Inode, Errno> {
        let inode = self.inode(path)?;
        match self.inodes[inode].kind {
            Kind::File | Kind::Dir => Ok(&mut self.inodes[inode]),
            Kind::Symlink => Err("ELOOP"),
            Kind::Special => Err("ENXIO"),
        }
    }

    fn file(&mut self, path: &str) -> Result<&mut Inode, Errno> {
        let inode = self.open(path)?;
        if inode.kind == Kind::Dir {
            Err("EISDIR")
        } else {
            Ok(inode)
        }
    }

    fn parent(&self, path: &str) -> Result<(), Errno> {
        let parent = path.rsplit_once('/').map_or(".", |(parent, _)| parent);
        if self.kind(parent)? == Kind::Dir {
            Ok(())
        } else {
            Err("ENOTDIR")
        }
    }

    fn is_empty(&self, dir: &str) -> bool {
        !self.names.keys().any(|name| is_below(name, dir))
    }

    fn make(&mut self, path: &str, kind: Kind) -> Result<(), Errno> {
        self.parent(path)?;
        if self.names.contains_key(path) {
            return Err("EEXIST");
        }
        self.names.insert(path.to_owned(), self.inodes.len());
        self.inodes.push(Inode {
            kind,
            size: 0,
            xattr: false,
        });
        Ok(())
    }

    fn link(&mut self, source: &str, dest: &str) -> Result<(), Errno> {
        let inode = self.inode(source)?;
        if self.inodes[inode].kind == Kind::Dir {
            return Err("EPERM");
        }
        self.parent(dest)?;
        if self.names.contains_key(dest) {
            return Err("EEXIST");
        }
        self.names.insert(dest.to_owned(), inode);
        Ok(())
    }

    fn unlink(&mut self, path: &str) -> Result<(), Errno> {
        if self.kind(path)? == Kind::Dir {
            return Err("EISDIR");
        }
        self.names.remove(path);
        Ok(())
    }

    fn rmdir(&mut self, path: &str) -> Result<(), Errno> {
        if self.kind(path)? != Kind::Dir {
            return Err("ENOTDIR");
        }
        if !self.is_empty(path) {
            return Err("ENOTEMPTY");
        }
        self.names.remove(path);
        Ok(())
    }

    fn rename(&mut self, source: &str, dest: &str, flag: RenameFlag) -> Result<(), Errno> {
        let source_kind = self.kind(source)?;
        self.parent(dest)?;
        if is_below(dest, source) || (flag == RenameFlag::Exchange && is_below(source, dest)) {
            return Err("EINVAL");
        }
        match (self.kind(dest), flag) {
            (Ok(_), RenameFlag::NoReplace) => return Err("EEXIST"),
            (Err(errno), RenameFlag::Exchange) => return Err(errno),
            (Ok(_), RenameFlag::Exchange) | (Err(_), _) => {}
            (Ok(Kind::Dir), _) if source_kind != Kind::Dir => return Err("EISDIR"),
            (Ok(Kind::Dir), _) if !self.is_empty(dest) => return Err("ENOTEMPTY"),
            (Ok(kind), _) if kind != Kind::Dir && source_kind == Kind::Dir => {
                return Err("ENOTDIR");
            }
            (Ok(_), _) => {}
        }
        if self.same(source, dest) {
            return Ok(());
        }
        let there = self.take(source);
        let back = self.take(dest);
        self.put(dest, there);
        match flag {
            RenameFlag::Exchange => self.put(source, back),
            RenameFlag::Whiteout => self.make(source, Kind::Special)?,
            RenameFlag::Replace | RenameFlag::NoReplace => {}
        }
        Ok(())
    }

    /// Takes a name and all below it away: what follows the name, and what it was.
    fn take(&mut self, path: &str) -> Vec<(String, usize)> {
        let names: Vec<String> = self
            .names
            .keys()
            .filter(|name| *name == path || is_below(name, path))
            .cloned()
            .collect();
        names
            .into_iter()
            .map(|name| {
                (
                    name[path.len()..].to_owned(),
                    self.names.remove(&name).unwrap(),
                )
            })
            .collect()
    }

    fn put(&mut self, path: &str, names: Vec<(String, usize)>) {
        self.names.extend(
            names
                .into_iter()
                .map(|(rest, inode)| (format!("{path}{rest}"), inode)),
        );
    }
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn path_of(target: &Target) -> &str {
    match target {
        Target::Path(path) => path,
        Target::Handle(handle) => panic!("@{handle} is not generated"),
    }
}
