//! Calls that give, take or change names, and what is known of a name before.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, openat, statat};
use trace::{ChangeOfName, FileId, FileKind, FileOp, Name};

use super::files::FileCall;
use super::gate::Changes;
use super::recording::{Entered, Next, Recording};
use super::snapshot;
use super::tree::inode;
use tracer::Origin;
use tracer::calls::Call;
use tracer::lookup::{Base, look, text};
use tracer::{Entry, read_memory};

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
            return Next::ToExit(Entered::File(FileCall::Lost));
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

    /// A call by path that changes a file of the node's, if it does.
    pub(super) fn change_located(
        &mut self,
        origin: &Origin,
        found: Where,
        call: impl FnOnce(FileId, Option<OwnedFd>) -> FileCall,
    ) -> Next {
        self.arrive(origin, found, |this, located| {
            if located.file.is_none() {
                // It must not get there before the call is made.
                return Next::ToExit(Entered::File(FileCall::Lost));
            }
            let copy = located.open();
            this.change(origin, located.file, |file| call(file, copy))
        })
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
        let tree = self.tree.as_mut().expect("it has the parent");
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

    pub(super) fn enter_name_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        call: impl FnOnce(Located) -> FileCall,
    ) -> Next {
        let found = self.locate(origin, entry, base, path, false);
        self.enter_located(origin, found, call)
    }

    pub(super) fn enter_located(
        &mut self,
        origin: &Origin,
        found: Where,
        call: impl FnOnce(Located) -> FileCall,
    ) -> Next {
        self.arrive(origin, found, |_, located| {
            Next::ToExit(Entered::File(call(located)))
        })
    }

    /// The name that bind(2) gives to a socket: in `struct sockaddr_un`, after the family.
    pub(super) fn socket_path(origin: &Origin, entry: &Entry) -> Option<Vec<u8>> {
        let mut address =
            vec![0; entry.arguments[2].min(size_of::<libc::sockaddr_un>() as u64) as usize];
        read_memory(origin.thread, entry.arguments[1], &mut address).ok()?;
        let path = address
            .get(2..)
            .filter(|_| address[..2] == (libc::AF_UNIX as u16).to_ne_bytes())?;
        let end = path
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(path.len());
        Some(path[..end].to_vec()).filter(|path| !path.is_empty())
    }

    pub(super) fn enter_rename(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        bases: Option<(usize, usize)>,
        paths: (usize, usize),
        flags: Option<usize>,
    ) -> Next {
        let found = [
            (bases.map(|bases| bases.0), paths.0),
            (bases.map(|bases| bases.1), paths.1),
        ];
        let found = found.map(|(base, path)| self.locate(origin, entry, base, path, false));
        if found.iter().all(|found| matches!(found, Where::Elsewhere)) {
            return Next::GoOn;
        }
        if !self.may(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        if found.iter().any(|found| matches!(found, Where::Nowhere)) {
            return Next::ToExit(Entered::File(FileCall::Lost));
        }
        let [from, to] = found.map(|found| match found {
            Where::Ours(located) => Some(self.settled(origin, located)),
            _ => None,
        });
        let flags = flags.map_or(0, |flags| entry.arguments[flags]);
        if flags & u64::from(libc::RENAME_WHITEOUT) != 0 {
            self.count("rename that leaves a whiteout");
        }
        let exchange = flags & u64::from(libc::RENAME_EXCHANGE) != 0;
        Next::ToExit(Entered::File(FileCall::Rename { from, to, exchange }))
    }

    /// What a name stands for now, with what was stored to it seen.
    fn settled(&mut self, origin: &Origin, mut located: Located) -> Located {
        self.confirm(origin, &mut located);
        if let Some(file) = located.file {
            self.settle_mapped(origin, file);
        }
        located
    }

    pub(super) fn leave_rename(
        &mut self,
        origin: &Origin,
        from: Option<Located>,
        to: Option<Located>,
        exchange: bool,
    ) {
        match (from, to) {
            (Some(from), Some(to)) => {
                let Some(file) = from.file else {
                    return self.count("rename of a file that is not known");
                };
                // Two names of one file: nothing is done (rename(2)).
                if from.file == to.file {
                    return;
                }
                let replaced = to.file;
                let names = ChangeOfName {
                    from: (from.parent, from.name),
                    to: (to.parent, to.name),
                };
                self.operation(
                    origin,
                    FileOp::Rename {
                        file,
                        names,
                        replaced,
                        exchange,
                    },
                );
            }
            (Some(mut inside), None) | (None, Some(mut inside)) => {
                self.take_over(origin, &mut inside);
            }
            (None, None) => {}
        }
    }

    pub(super) fn enter_set_mode(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        flags: Option<usize>,
    ) -> Next {
        let flags = flags.map_or(0, |flags| entry.arguments[flags] as i32);
        let mode = entry.arguments[path + 1] as u32 & 0o7777;
        let set = |file, copy| FileCall::SetMode { file, copy, mode };
        self.change_path(origin, entry, (base, path), flags, set)
    }

    /// A call by path, with flags as those of fchmodat(2), that changes a file of the node's, if it
    /// does: also the directory itself.
    pub(super) fn change_path(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        (base, path): (Option<usize>, usize),
        flags: i32,
        call: impl FnOnce(FileId, Option<OwnedFd>) -> FileCall,
    ) -> Next {
        let path = text(origin.thread, entry.arguments[path]).unwrap_or_default();
        if flags & libc::AT_EMPTY_PATH != 0 && path.is_empty() {
            let Some((file, descriptor)) =
                base.and_then(|base| self.own(origin, entry.arguments[base]))
            else {
                return Next::GoOn;
            };
            return self.change(origin, Some(file), |file| call(file, Some(descriptor.copy)));
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let base = Self::base(origin, entry, base);
        let found = self.locate_path(base, &path, follow);
        if !matches!(found, Where::Nowhere) {
            return self.change_located(origin, found, call);
        }
        // The directory itself, or a path that ends with a dot.
        let Ok(directory) = self.paths.directory(base, &path) else {
            return self.change_located(origin, found, call);
        };
        let file = fstat(&directory)
            .ok()
            .and_then(|stat| self.tree.as_ref()?.find(&stat));
        self.change(origin, file, |file| call(file, Some(directory)))
    }

    /// A name more for a file, which may have had none.
    pub(super) fn enter_link(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        let Call::Link {
            from,
            flags,
            base,
            path,
        } = call
        else {
            return Next::GoOn;
        };
        let nameless = self.nameless(origin, entry, from, flags);
        self.enter_name_call(origin, entry, base, path, |located| match nameless {
            Some(file) => FileCall::Name(located, file),
            None => FileCall::Make(located),
        })
    }

    /// The file without a name (`O_TMPFILE`) that linkat(2) is to give one. Only now it is known
    /// which one it is: a file that has a name and was recorded without one is another, whose inode
    /// has the number of one that is gone.
    fn nameless(
        &self,
        origin: &Origin,
        entry: &Entry,
        from: (Option<usize>, usize),
        flags: Option<usize>,
    ) -> Option<FileId> {
        let tree = self.tree.as_ref()?;
        let flags = flags.map_or(0, |flags| entry.arguments[flags] as i32);
        let path = text(origin.thread, entry.arguments[from.1])?;
        let stat = if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
            origin.descriptor(entry.arguments[from.0?] as i32)?.stat
        } else if flags & libc::AT_SYMLINK_FOLLOW != 0 {
            // A link of /proc to a descriptor, which leads where no path does.
            let place = self
                .paths
                .place(Self::base(origin, entry, from.0), &path, false)?;
            statat(place.directory, place.name.as_slice(), AtFlags::empty()).ok()?
        } else {
            return None;
        };
        tree.find(&stat).filter(|_| stat.st_nlink == 0)
    }
}
