//! Calls that change a file, and not its names.

use std::os::fd::OwnedFd;

use rustix::fs::fstat;
use trace::{FileId, FileOp, Name};
use tracer::calls::Call;
use tracer::lookup::text;
use tracer::{Entry, Origin};

use super::files::{FileCall, to_exit};
use super::gate::Changes;
use super::name_calls::NameCall;
use super::names::Where;
use super::recording::{Next, Recording};

/// What a call does to a file. By `copy` the file can be looked at afterwards.
#[derive(Debug)]
pub(super) enum Change {
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
    /// Something that is not followed.
    Unfollowed {
        file: FileId,
        copy: OwnedFd,
        what: String,
    },
}

impl Recording {
    pub(super) fn enter_path_change(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        match call {
            Call::SetMode { base, path, flags } => {
                self.enter_set_mode(origin, entry, base, path, flags)
            }
            Call::SetXattr { of, name } => self.enter_set_xattr(origin, entry, of, name),
            _ => {
                let to = entry.arguments[1];
                let found = self.locate(origin, entry, None, 0, true);
                self.change_located(origin, found, |file, copy| Change::Resize {
                    file,
                    copy,
                    to,
                })
            }
        }
    }

    fn enter_set_mode(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        flags: Option<usize>,
    ) -> Next {
        let flags = flags.map_or(0, |flags| entry.arguments[flags] as i32);
        let mode = entry.arguments[path + 1] as u32 & 0o7777;
        let set = |file, copy| Change::SetMode { file, copy, mode };
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
        change: impl FnOnce(FileId, Option<OwnedFd>) -> Change,
    ) -> Next {
        let path = text(origin.thread, entry.arguments[path]).unwrap_or_default();
        if flags & libc::AT_EMPTY_PATH != 0 && path.is_empty() {
            let Some((file, descriptor)) =
                base.and_then(|base| self.own(origin, entry.arguments[base]))
            else {
                return Next::GoOn;
            };
            return self.change(origin, Some(file), |file| {
                change(file, Some(descriptor.copy))
            });
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let base = Self::base(origin, entry, base);
        let found = self.locate_path(base, &path, follow);
        if !matches!(found, Where::Nowhere) {
            return self.change_located(origin, found, change);
        }
        // The directory itself, or a path that ends with a dot.
        let Ok(directory) = self.paths.directory(base, &path) else {
            return self.change_located(origin, found, change);
        };
        let file = fstat(&directory)
            .ok()
            .and_then(|stat| self.tree.as_ref()?.find(&stat));
        self.change(origin, file, |file| change(file, Some(directory)))
    }

    /// A call by path that changes a file of the node's, if it does.
    fn change_located(
        &mut self,
        origin: &Origin,
        found: Where,
        change: impl FnOnce(FileId, Option<OwnedFd>) -> Change,
    ) -> Next {
        self.arrive(origin, found, |this, located| {
            if located.file.is_none() {
                // It must not get there before the call is made.
                return NameCall::Lost.into_next();
            }
            let copy = located.open();
            this.change(origin, located.file, |file| change(file, copy))
        })
    }

    /// A call that changes a file of the node's, if it does.
    pub(super) fn change(
        &mut self,
        origin: &Origin,
        file: Option<FileId>,
        change: impl FnOnce(FileId) -> Change,
    ) -> Next {
        let Some(file) = file else { return Next::GoOn };
        if !self.may(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        self.settle_mapped(origin, file);
        to_exit(FileCall::Change(change(file)))
    }

    pub(super) fn leave_change(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        change: Change,
        result: u64,
    ) {
        match change {
            Change::Write { file, copy } => self.leave_write(origin, entry, file, &copy, result),
            Change::Fill { file, copy, offset } => {
                self.leave_fill(origin, file, &copy, offset, result);
            }
            Change::Resize { file, to, .. } => {
                let from = self.tree.as_ref().map_or(to, |tree| tree.file(file).size);
                if from != to {
                    self.operation(origin, FileOp::Resize { file, from, to });
                }
            }
            Change::Allocate { file, copy } => self.leave_allocate(origin, entry, file, &copy),
            Change::SetMode { file, mode, .. } => {
                self.operation(origin, FileOp::SetMode { file, mode });
            }
            Change::SetXattr { file, copy, name } => {
                self.leave_set_xattr(origin, file, copy, name);
            }
            Change::Unfollowed { file, copy, what } => {
                self.count(what);
                self.look_again(origin, file, &copy);
            }
        }
    }

    /// Whoever changed a file was killed in it.
    pub(super) fn abandon_change(&mut self, origin: &Origin, change: Change) {
        match change {
            Change::SetXattr { file, copy, name } => {
                self.leave_set_xattr(origin, file, copy, name);
            }
            Change::Write { file, copy }
            | Change::Fill { file, copy, .. }
            | Change::Allocate { file, copy }
            | Change::Resize {
                file,
                copy: Some(copy),
                ..
            }
            | Change::Unfollowed { file, copy, .. } => self.look_again(origin, file, &copy),
            Change::SetMode {
                file,
                copy: Some(copy),
                mode,
            } => {
                if fstat(&copy).is_ok_and(|stat| stat.st_mode & 0o7777 == mode) {
                    self.operation(origin, FileOp::SetMode { file, mode });
                }
            }
            Change::Resize { copy: None, .. } | Change::SetMode { copy: None, .. } => {
                self.count(format!("{} that was interrupted", origin.row.name));
            }
        }
    }
}
