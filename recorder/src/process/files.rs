//! Calls that change a node's files or make them durable: what they are found to be about where
//! they are entered, and what is recorded where they return.

use std::os::fd::OwnedFd;

use rustix::fs::{Stat, fstat};
use trace::{FileId, FileOp, Name, SyncScope};

use super::gate::Changes;
use super::names::{Located, Where};
use super::recording::{Entered, Next, Recording};
use tracer::Entry;
use tracer::Origin;
use tracer::calls::Call;
use tracer::lookup::Descriptor;

/// What is known of a call before it is made.
#[derive(Debug)]
pub(super) enum FileCall {
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
    Write {
        file: FileId,
        copy: OwnedFd,
    },
    /// Bytes from elsewhere.
    Fill {
        file: FileId,
        copy: OwnedFd,
        offset: Option<u64>,
    },
    Resize {
        file: FileId,
        copy: Option<OwnedFd>,
        to: u64,
    },
    Allocate {
        file: FileId,
        copy: OwnedFd,
    },
    SetMode {
        file: FileId,
        copy: Option<OwnedFd>,
        mode: u32,
    },
    SetXattr {
        file: FileId,
        copy: Option<OwnedFd>,
        name: Name,
    },
    /// Something that is not followed; the file is looked at afterwards.
    Unfollowed {
        file: FileId,
        copy: OwnedFd,
        what: String,
    },
    Sync(Vec<(FileId, SyncScope)>),
    SyncAll,
    Map {
        file: FileId,
        copy: OwnedFd,
    },
    /// These mappings go, or a part of them.
    Unmap(Vec<u64>),
    Move,
    /// A call whose path leads nowhere.
    Lost,
}

impl Recording {
    pub(super) fn enter_file_call(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        if self.tree.is_none() {
            return Next::GoOn;
        }
        // What a path means is known only while nobody is changing that.
        if call.has_path() && self.gate.waits(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        let arguments = &entry.arguments;
        match call {
            Call::Open { base, path, flags } => self.enter_open(origin, entry, base, path, flags),
            Call::Make { base, path, .. } => {
                self.enter_name_call(origin, entry, base, path, FileCall::Make)
            }
            Call::Link { .. } => self.enter_link(origin, entry, call),
            Call::Bind => {
                let Some(path) = Self::socket_path(origin, entry) else {
                    return Next::GoOn;
                };
                let found = self.locate_path(Self::base(origin, entry, None), &path, false);
                self.enter_located(origin, found, FileCall::Make)
            }
            Call::Remove { base, path } => {
                self.enter_name_call(origin, entry, base, path, FileCall::Remove)
            }
            Call::Rename {
                bases,
                paths,
                flags,
            } => self.enter_rename(origin, entry, bases, paths, flags),
            Call::SetMode { base, path, flags } => {
                self.enter_set_mode(origin, entry, base, path, flags)
            }
            Call::SetXattr { of, name } => self.enter_set_xattr(origin, entry, of, name),
            Call::Truncate => {
                let found = self.locate(origin, entry, None, 0, true);
                self.change_located(origin, found, |file, copy| FileCall::Resize {
                    file,
                    copy,
                    to: arguments[1],
                })
            }
            Call::Sync { data_only } => self.enter_sync(origin, arguments[0], data_only),
            Call::BeginSync => {
                if let Some((file, _)) = self.own(origin, arguments[0]) {
                    self.promises_nothing(file, origin.row.name);
                }
                Next::GoOn
            }
            Call::SyncAll => self.sync_all(origin),
            Call::SyncFileSystem => match origin.descriptor(arguments[0] as i32) {
                Some(descriptor) if self.is_around_us(&descriptor.stat) => self.sync_all(origin),
                _ => Next::GoOn,
            },
            Call::Map => self.enter_map(entry, origin),
            Call::Unmap
            | Call::Protect
            | Call::Move
            | Call::SyncMapping
            | Call::UnfollowedMapping => self.enter_mapping_call(origin, entry, call),
            Call::SetModeOf | Call::TruncateOf | Call::Allocate | Call::Copy { .. } => {
                self.enter_descriptor_call(origin, entry, call)
            }
            Call::Control => self.enter_control(origin, entry),
            Call::UnfollowedPath { base, path } => {
                let what = || Next::ToExit(Entered::Unfollowed(origin.row.name.into()));
                if self.is_ours(origin, entry, base, path) {
                    what()
                } else {
                    Next::GoOn
                }
            }
            Call::SetOwner { .. } => self.enter_set_owner(origin, entry, call),
            _ => Next::GoOn,
        }
    }

    fn enter_sync(&mut self, origin: &Origin, descriptor: u64, data_only: bool) -> Next {
        let Some((file, _)) = self.own(origin, descriptor) else {
            return Next::GoOn;
        };
        self.settle_mapped(origin, file);
        let scope = if data_only {
            SyncScope::Data
        } else {
            SyncScope::File
        };
        Next::ToExit(Entered::File(FileCall::Sync(vec![(file, scope)])))
    }

    /// Owners are not recorded: a call that changes one is counted.
    fn enter_set_owner(&self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        let Call::SetOwner {
            descriptor,
            base,
            path,
            owner,
            flags,
        } = call
        else {
            return Next::GoOn;
        };
        let arguments = &entry.arguments;
        let no_follow = libc::AT_SYMLINK_NOFOLLOW as u64;
        let follow = flags.is_none_or(|flags| arguments[flags] & no_follow == 0);
        let stat = if descriptor {
            self.own(origin, arguments[0])
                .map(|(_, descriptor)| descriptor.stat)
        } else {
            match self.locate(origin, entry, base, path, follow) {
                Where::Ours(located) => located.look(),
                _ => None,
            }
        };
        let changes = |wanted: u64, is: u32| wanted as u32 != u32::MAX && wanted as u32 != is;
        let changes = stat.is_some_and(|stat| {
            changes(arguments[owner], stat.st_uid) || changes(arguments[owner + 1], stat.st_gid)
        });
        if changes {
            Next::ToExit(Entered::Unfollowed(origin.row.name.into()))
        } else {
            Next::GoOn
        }
    }

    /// A call that changes a file of the node's, if it does.
    pub(super) fn change(
        &mut self,
        origin: &Origin,
        file: Option<FileId>,
        call: impl FnOnce(FileId) -> FileCall,
    ) -> Next {
        let Some(file) = file else { return Next::GoOn };
        if !self.may(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        self.settle_mapped(origin, file);
        Next::ToExit(Entered::File(call(file)))
    }

    /// The file of a descriptor, if it is one of the node's.
    pub(super) fn own(&self, origin: &Origin, number: u64) -> Option<(FileId, Descriptor)> {
        let tree = self.tree.as_ref()?;
        let descriptor = origin.descriptor(number as i32)?;
        Some((tree.find(&descriptor.stat)?, descriptor))
    }

    /// Whether a sync of the file system of a file is one of ours: the file is one of the node's,
    /// or the directory above them on the same device. What else is on that device is elsewhere for
    /// the program, such as `/dev/shm`, where directories of programs are while they are recorded.
    fn is_around_us(&self, stat: &Stat) -> bool {
        self.tree
            .as_ref()
            .is_some_and(|tree| tree.find(stat).is_some() || tree.is_above(stat))
    }

    pub(super) fn sync_all(&mut self, origin: &Origin) -> Next {
        self.settle_all_mapped(origin);
        Next::ToExit(Entered::File(FileCall::SyncAll))
    }

    pub(super) fn leave_file_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: FileCall,
        result: u64,
    ) {
        match call {
            FileCall::Open { located, nameless } => {
                self.leave_open(origin, entry, located, nameless, result);
            }
            FileCall::Make(mut located) => self.take_over(origin, &mut located),
            FileCall::Name(located, file) => {
                let (parent, name) = (located.parent, located.name);
                self.operation(origin, FileOp::Link { parent, name, file });
            }
            FileCall::Remove(Located {
                parent,
                name,
                file: Some(file),
                ..
            }) => {
                self.operation(origin, FileOp::Unlink { parent, name, file });
            }
            FileCall::Remove(_) => self.count("removal of a file that is not known"),
            FileCall::Rename { from, to, exchange } => {
                self.leave_rename(origin, from, to, exchange);
            }
            FileCall::Write { file, copy } => self.leave_write(origin, entry, file, &copy, result),
            FileCall::Fill { file, copy, offset } => {
                self.leave_fill(origin, file, &copy, offset, result);
            }
            FileCall::Resize { file, to, .. } => {
                let from = self.tree.as_ref().map_or(to, |tree| tree.file(file).size);
                if from != to {
                    self.operation(origin, FileOp::Resize { file, from, to });
                }
            }
            FileCall::Allocate { file, copy } => self.leave_allocate(origin, entry, file, &copy),
            FileCall::SetMode { file, mode, .. } => {
                self.operation(origin, FileOp::SetMode { file, mode });
            }
            FileCall::SetXattr { file, copy, name } => {
                self.leave_set_xattr(origin, file, copy, name);
            }
            FileCall::Unfollowed { file, copy, what } => {
                self.count(what);
                self.look_again(origin, file, &copy);
            }
            FileCall::Sync(ranges) => {
                for (file, scope) in ranges {
                    self.operation(origin, FileOp::Sync { file, scope });
                }
            }
            FileCall::SyncAll => self.operation(origin, FileOp::SyncAll),
            FileCall::Map { file, copy } => self.leave_map(origin, entry, file, &copy, result),
            FileCall::Lost => self.count(format!(
                "{} of a path that cannot be followed",
                origin.row.name
            )),
            FileCall::Unmap(going) => self.leave_unmap(origin, entry, &going),
            FileCall::Move => self.leave_move(origin, entry, result),
        }
    }

    /// Whoever made a call was killed in it: what it did is looked up.
    pub(super) fn abandon_file_call(&mut self, origin: &Origin, call: FileCall) {
        match call {
            FileCall::Open {
                located: Some(located),
                ..
            } => self.abandon_open(origin, located),
            FileCall::Name(located, file) if located.look().is_some() => {
                let (parent, name) = (located.parent, located.name);
                self.operation(origin, FileOp::Link { parent, name, file });
            }
            FileCall::Make(located) | FileCall::Remove(located) => self.relocate(origin, located),
            FileCall::SetXattr { file, copy, name } => {
                self.leave_set_xattr(origin, file, copy, name);
            }
            FileCall::Rename { from, to, exchange }
                if self.has_renamed(from.as_ref(), to.as_ref()) =>
            {
                self.leave_rename(origin, from, to, exchange);
            }
            FileCall::Write { file, copy }
            | FileCall::Fill { file, copy, .. }
            | FileCall::Allocate { file, copy }
            | FileCall::Resize {
                file,
                copy: Some(copy),
                ..
            }
            | FileCall::Unfollowed { file, copy, .. } => self.look_again(origin, file, &copy),
            FileCall::SetMode {
                file,
                copy: Some(copy),
                mode,
            } if fstat(&copy).is_ok_and(|stat| stat.st_mode & 0o7777 == mode) => {
                self.operation(origin, FileOp::SetMode { file, mode });
            }
            FileCall::Resize { copy: None, .. } | FileCall::SetMode { copy: None, .. } => {
                self.count(format!("{} that was interrupted", origin.row.name));
            }
            _ => {}
        }
    }

    fn abandon_open(&mut self, origin: &Origin, located: Located) {
        let (file, copy) = (located.file, located.open());
        self.relocate(origin, located);
        // It may have been cut off.
        if let (Some(file), Some(copy)) = (file, copy) {
            self.look_again(origin, file, &copy);
        }
    }

    /// Whether a rename that was interrupted was done. What was named elsewhere is taken for that.
    fn has_renamed(&self, from: Option<&Located>, to: Option<&Located>) -> bool {
        let (Some(from), Some(to)) = (from, to) else {
            return true;
        };
        let now = to.look().and_then(|stat| self.tree.as_ref()?.find(&stat));
        from.file.is_some() && now == from.file && from.file != to.file
    }
}
