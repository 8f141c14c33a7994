//! What is known of a name before a call, and what is recorded of what has it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, Stat, openat};
use trace::{FileId, FileKind, FileOp, Name};

use super::gate::Changes;
use super::name_calls::NameCall;
use super::recording::{Next, Recording};
use super::snapshot;
use super::syncs::FROM_OUTSIDE;
use super::tree::inode;
use tracer::Entry;
use tracer::Origin;
use tracer::lookup::{Base, look, text};

/// A name in a directory of the node's.
#[derive(Debug)]
pub(super) struct Located {
    pub parent: FileId,
    pub name: Name,
    pub directory: OwnedFd,
    /// What has it.
    pub file: Option<FileId>,
}

/// What a path means.
#[derive(Debug)]
pub(super) enum Where {
    Ours(Located),
    /// Something that is in no directory of the node's.
    Elsewhere,
    /// Nothing that we can find: the call will fail, if nobody changes that before it is made.
    Nowhere,
}

impl Located {
    /// What really has the name, if anything has.
    pub(super) fn look(&self) -> Option<Stat> {
        look(&self.directory, &self.name)
    }

    /// A descriptor of that, by which it can be looked at once it is changed.
    pub(super) fn open(&self) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(
            &self.directory,
            OsStr::from_bytes(&self.name),
            flags,
            Mode::empty(),
        )
        .ok()
    }
}

impl Recording {
    /// Where relative paths of a call begin.
    pub(super) fn base(origin: &Origin, entry: &Entry, base: Option<usize>) -> Base {
        let descriptor = base.map_or(libc::AT_FDCWD, |base| entry.arguments[base] as i32);
        Base {
            thread: origin.thread,
            descriptor,
        }
    }

    /// What the path in an argument names, if that is in one of the node's directories.
    pub(super) fn locate(
        &self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        follow: bool,
    ) -> Where {
        let Some(path) = text(origin.thread, entry.arguments[path]) else {
            return Where::Nowhere;
        };
        self.locate_path(Self::base(origin, entry, base), &path, follow)
    }

    pub(super) fn locate_path(&self, base: Base, path: &[u8], follow: bool) -> Where {
        let Some(place) = self.paths.place(base, path, follow) else {
            return Where::Nowhere;
        };
        let ours = self
            .tree
            .as_ref()
            .and_then(|tree| Some((tree, tree.find(&place.stat)?)));
        let Some((tree, parent)) = ours else {
            return Where::Elsewhere;
        };
        let file = tree.entry(parent, &place.name);
        Where::Ours(Located {
            parent,
            name: Name::from(place.name.as_slice()),
            directory: place.directory,
            file,
        })
    }

    /// What a call that changes names or files by their paths is about to do, where it may: what
    /// the path means stays so until it returns.
    pub(super) fn arrive(
        &mut self,
        origin: &Origin,
        found: Where,
        call: impl FnOnce(&mut Self, Located) -> Next,
    ) -> Next {
        if matches!(found, Where::Elsewhere) {
            return Next::GoOn;
        }
        if !self.may(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        let Where::Ours(mut located) = found else {
            return NameCall::Lost.into_next();
        };
        self.confirm(origin, &mut located);
        if let Some(file) = located.file {
            self.settle_mapped(origin, file);
        }
        call(self, located)
    }

    /// Makes sure that a name means what we think. Nobody else may be changing names.
    pub(super) fn confirm(&mut self, origin: &Origin, located: &mut Located) {
        if !self.is_known(located) {
            self.count("changes by others");
            self.take_over(origin, located);
        }
    }

    /// Whether a name means what we think; that is noted.
    pub(super) fn is_known(&self, located: &mut Located) -> bool {
        let Some(tree) = &self.tree else { return true };
        located.file = tree.entry(located.parent, &located.name);
        match (located.file, located.look()) {
            (None, None) => true,
            (Some(file), Some(stat)) => tree.find(&stat) == Some(file),
            _ => false,
        }
    }

    /// Records that a name means what it means.
    pub(super) fn take_over(&mut self, origin: &Origin, located: &mut Located) {
        if let Some(file) = located.file.take() {
            let (parent, name) = (located.parent, located.name.clone());
            self.operation(origin, FileOp::Unlink { parent, name, file });
        }
        if let Some(stat) = located.look() {
            located.file = Some(self.appeared(
                origin,
                located.parent,
                &located.name,
                &located.directory,
                &stat,
            ));
        }
    }

    pub(super) fn relocate(&mut self, origin: &Origin, mut located: Located) {
        if !self.is_known(&mut located) {
            self.take_over(origin, &mut located);
        }
    }

    /// Records a name that is there now, and what has it if that is new.
    pub(super) fn appeared(
        &mut self,
        origin: &Origin,
        parent: FileId,
        name: &Name,
        directory: &OwnedFd,
        stat: &Stat,
    ) -> FileId {
        let tree = self.tree.as_ref().expect("it has the parent");
        if let Some(file) = tree.find(stat) {
            self.operation(
                origin,
                FileOp::Link {
                    parent,
                    name: name.clone(),
                    file,
                },
            );
            return file;
        }
        let returns = self.outside.arrives && tree.returns_synced(stat);
        if returns || self.outside.is_synced(stat) {
            self.count(FROM_OUTSIDE);
        }
        let tree = self.tree.as_mut().expect("it has the parent");
        let mode = stat.st_mode & 0o7777;
        let data = &mut self.data;
        let kind = snapshot::kind_of(stat, || {
            let target = snapshot::target(directory, name).unwrap_or_default();
            snapshot::add(data, &target)
        });
        let file = tree.add(inode(stat), kind, mode);
        self.operation(
            origin,
            FileOp::Create {
                parent,
                name: name.clone(),
                file,
                kind,
                mode,
            },
        );
        if self.fill_new(origin, file, kind, name, directory).is_err() {
            self.count("a file that appeared and cannot be read");
        }
        file
    }

    /// Records what is in something that has just got its name.
    pub(super) fn fill_new(
        &mut self,
        origin: &Origin,
        file: FileId,
        kind: FileKind,
        name: &Name,
        directory: &OwnedFd,
    ) -> io::Result<()> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = OsStr::from_bytes(name);
        match kind {
            FileKind::Regular => {
                let opened = File::from(openat(directory, name, flags, Mode::empty())?);
                if opened.metadata()?.len() > 0 {
                    self.settle(origin, file, &opened);
                }
            }
            FileKind::Directory => {
                let opened = openat(directory, name, flags | OFlags::DIRECTORY, Mode::empty())?;
                let mut names = Vec::new();
                for entry in rustix::fs::Dir::read_from(&opened)? {
                    names.push(Name::from(entry?.file_name().to_bytes()));
                }
                names.sort_unstable();
                for name in names
                    .iter()
                    .filter(|name| ***name != *b"." && ***name != *b"..")
                {
                    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                    let stat = rustix::fs::statat(&opened, OsStr::from_bytes(name), flags)?;
                    self.appeared(origin, file, name, &opened, &stat);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
