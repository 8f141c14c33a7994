//! Calls that give, take or change names.

use libc::{AT_EMPTY_PATH, AT_SYMLINK_FOLLOW};
use rustix::fs::{AtFlags, statat};
use trace::{ChangeOfName, FileId, FileOp};
use tracer::calls::Call;
use tracer::lookup::text;
use tracer::{Entry, Origin, read_memory};

use super::files::{FileCall, to_exit};
use super::gate::Changes;
use super::names::{Located, Where};
use super::recording::{Next, Recording};

/// What a call does to names.
#[derive(Debug)]
pub(super) enum NameCall {
    /// A file is opened: by this name, or without one in this directory of the node's.
    Open {
        located: Option<Located>,
        nameless: bool,
    },
    /// A name more.
    Make(Located),
    /// A name more for something that had none.
    Name(Located, FileId),
    Remove(Located),
    /// From and to, where they are in the node's directory.
    Rename {
        from: Option<Located>,
        to: Option<Located>,
        exchange: bool,
    },
    /// A call whose path leads nowhere.
    Lost,
}

impl NameCall {
    /// The thread makes the call, which is recorded when it returns.
    pub(super) fn into_next(self) -> Next {
        to_exit(FileCall::Names(self))
    }
}

impl Recording {
    pub(super) fn enter_name_call(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        match call {
            Call::Open { base, path, flags } => self.enter_open(origin, entry, base, path, flags),
            Call::Make { base, path, .. } => {
                self.enter_name(origin, entry, base, path, NameCall::Make)
            }
            Call::Bind => {
                let Some(path) = socket_path(origin, entry) else {
                    return Next::GoOn;
                };
                let found = self.locate_path(Self::base(origin, entry, None), &path, false);
                self.enter_located(origin, found, NameCall::Make)
            }
            Call::Remove { base, path } => {
                self.enter_name(origin, entry, base, path, NameCall::Remove)
            }
            Call::Rename {
                bases,
                paths,
                flags,
            } => self.enter_rename(origin, entry, bases, paths, flags),
            _ => self.enter_link(origin, entry, call),
        }
    }

    fn enter_name(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        call: impl FnOnce(Located) -> NameCall,
    ) -> Next {
        let found = self.locate(origin, entry, base, path, false);
        self.enter_located(origin, found, call)
    }

    fn enter_located(
        &mut self,
        origin: &Origin,
        found: Where,
        call: impl FnOnce(Located) -> NameCall,
    ) -> Next {
        self.arrive(origin, found, |_, located| call(located).into_next())
    }

    pub(super) fn leave_name_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: NameCall,
        result: u64,
    ) {
        match call {
            NameCall::Open { located, nameless } => {
                self.leave_open(origin, entry, located, nameless, result);
            }
            NameCall::Make(mut located) => {
                self.outside.arrives = matches!(origin.row.call, Call::Link { .. });
                self.take_over(origin, &mut located);
                self.outside.arrives = false;
            }
            NameCall::Name(located, file) => self.named(origin, located, file),
            NameCall::Remove(Located {
                parent,
                name,
                file: Some(file),
                ..
            }) => {
                self.operation(origin, FileOp::Unlink { parent, name, file });
            }
            NameCall::Remove(_) => self.count("removal of a file that is not known"),
            NameCall::Rename { from, to, exchange } => {
                self.leave_rename(origin, from, to, exchange);
            }
            NameCall::Lost => self.count(format!(
                "{} of a path that cannot be followed",
                origin.row.name
            )),
        }
    }

    /// Whoever changed names was killed in it.
    pub(super) fn abandon_name_call(&mut self, origin: &Origin, call: NameCall) {
        match call {
            NameCall::Open {
                located: Some(located),
                ..
            } => self.abandon_open(origin, located),
            NameCall::Name(located, file) if located.look().is_some() => {
                self.named(origin, located, file);
            }
            NameCall::Make(located) | NameCall::Remove(located) => self.relocate(origin, located),
            NameCall::Rename { from, to, exchange }
                if self.has_renamed(from.as_ref(), to.as_ref()) =>
            {
                self.leave_rename(origin, from, to, exchange);
            }
            _ => {}
        }
    }

    /// A file that had no name has one.
    fn named(&mut self, origin: &Origin, located: Located, file: FileId) {
        let (parent, name) = (located.parent, located.name);
        self.operation(origin, FileOp::Link { parent, name, file });
    }

    fn enter_rename(
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
            return NameCall::Lost.into_next();
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
        NameCall::Rename { from, to, exchange }.into_next()
    }

    /// What a name stands for now, with what was stored to it seen.
    fn settled(&mut self, origin: &Origin, mut located: Located) -> Located {
        self.confirm(origin, &mut located);
        if let Some(file) = located.file {
            self.settle_mapped(origin, file);
        }
        located
    }

    fn leave_rename(
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
            (Some(inside), None) => self.leave_rename_across(origin, inside, true),
            (None, Some(inside)) => self.leave_rename_across(origin, inside, exchange),
            (None, None) => {}
        }
    }

    /// A rename between a name inside and one elsewhere, which what was inside may have now.
    fn leave_rename_across(&mut self, origin: &Origin, mut inside: Located, leaves: bool) {
        if let (true, Some(file), Some(tree)) = (leaves, inside.file, &mut self.tree) {
            tree.give_name_outside(file);
        }
        self.outside.arrives = true;
        self.take_over(origin, &mut inside);
        self.outside.arrives = false;
    }

    /// Whether a rename that was interrupted was done. What was named elsewhere is taken for that.
    fn has_renamed(&self, from: Option<&Located>, to: Option<&Located>) -> bool {
        let (Some(from), Some(to)) = (from, to) else {
            return true;
        };
        let now = to.look().and_then(|stat| self.tree.as_ref()?.find(&stat));
        from.file.is_some() && now == from.file && from.file != to.file
    }

    /// A name more for a file, which may have had none.
    fn enter_link(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
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
        let found = self.locate(origin, entry, base, path, false);
        if matches!(found, Where::Elsewhere) {
            self.enter_link_outside(origin, entry, from);
        }
        self.enter_located(origin, found, |located| match nameless {
            Some(file) => NameCall::Name(located, file),
            None => NameCall::Make(located),
        })
    }

    /// A file may come back by a name that it gets elsewhere.
    fn enter_link_outside(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        (base, path): (Option<usize>, usize),
    ) {
        let found = self.locate(origin, entry, base, path, false);
        if let (
            Where::Ours(Located {
                file: Some(file), ..
            }),
            Some(tree),
        ) = (found, &mut self.tree)
        {
            tree.give_name_outside(file);
        }
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
        let stat = if path.is_empty() && flags & AT_EMPTY_PATH != 0 {
            origin.descriptor(entry.arguments[from.0?] as i32)?.stat
        } else if flags & AT_SYMLINK_FOLLOW != 0 {
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

/// The name that bind(2) gives to a socket: in `struct sockaddr_un`, after the family.
fn socket_path(origin: &Origin, entry: &Entry) -> Option<Vec<u8>> {
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
