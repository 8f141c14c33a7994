//! Makes [`workloads::Op`] of operations on numbers.

use workloads::{DEFAULT_DIRECTORY_MODE, DEFAULT_FILE_MODE, DeviceKind, Op, Target, WriteSync};

use crate::action::{Action, CHMOD_MODE, CHOWN_IDS, Sink, XATTR_NAME, XATTR_VALUE};
use crate::paths::{PathId, PathTable};
use crate::text::symlink_target;

/// Collects operations.
pub(crate) struct OpSink<'a> {
    pub(crate) paths: &'a PathTable,
    pub(crate) ops: Vec<Op>,
}

impl Sink for OpSink<'_> {
    fn act(&mut self, action: Action) {
        let op = self.op(action);
        self.ops.push(op);
    }
}

impl OpSink<'_> {
    fn path(&self, path: PathId) -> String {
        self.paths.text(path).to_owned()
    }

    fn target(&self, path: PathId) -> Target {
        Target::Path(self.path(path))
    }

    #[expect(clippy::too_many_lines, reason = "a table: an operation an arm")]
    fn op(&self, action: Action) -> Op {
        let sync = WriteSync::None;
        match action {
            Action::Creat(path) => Op::Creat {
                path: self.path(path),
                mode: DEFAULT_FILE_MODE,
            },
            Action::Mkdir(path) => Op::Mkdir {
                path: self.path(path),
                mode: DEFAULT_DIRECTORY_MODE,
            },
            Action::Mkfifo(path) => Op::Mkfifo {
                path: self.path(path),
                mode: DEFAULT_FILE_MODE,
            },
            Action::Mknod(path) => Op::Mknod {
                path: self.path(path),
                kind: DeviceKind::Char,
                major: 0,
                minor: 0,
            },
            Action::Symlink { target, path } => Op::Symlink {
                target: symlink_target(self.paths, target, path),
                path: self.path(path),
            },
            Action::Link { source, dest } => Op::Link {
                source: self.target(source),
                dest: self.path(dest),
            },
            Action::Unlink(path) => Op::Unlink {
                path: self.path(path),
            },
            Action::Rmdir(path) => Op::Rmdir {
                path: self.path(path),
            },
            Action::Remove(path) => Op::Remove {
                path: self.path(path),
            },
            Action::Rename { source, dest, flag } => Op::Rename {
                source: self.path(source),
                dest: self.path(dest),
                flag,
            },
            Action::Write {
                path,
                offset,
                length,
            } => Op::Write {
                target: self.target(path),
                offset,
                length,
                sync,
            },
            Action::DirectWrite {
                path,
                offset,
                length,
            } => Op::DirectWrite {
                target: self.target(path),
                offset,
                length,
                sync,
            },
            Action::MmapWrite {
                path,
                offset,
                length,
            } => Op::MmapWrite {
                target: self.target(path),
                offset,
                length,
            },
            Action::Msync {
                path,
                offset,
                length,
            } => Op::Msync {
                target: self.target(path),
                offset,
                length,
            },
            Action::Truncate { path, size } => Op::Truncate {
                target: self.target(path),
                size,
            },
            Action::Falloc {
                path,
                mode,
                offset,
                length,
            } => Op::Falloc {
                target: self.target(path),
                mode,
                offset,
                length,
            },
            Action::SetXattr(path) => Op::SetXattr {
                target: self.target(path),
                name: XATTR_NAME.to_owned(),
                value: XATTR_VALUE.to_owned(),
            },
            Action::RemoveXattr(path) => Op::RemoveXattr {
                target: self.target(path),
                name: XATTR_NAME.to_owned(),
            },
            Action::Chmod(path) => Op::Chmod {
                target: self.target(path),
                mode: CHMOD_MODE,
            },
            Action::Chown(path) => Op::Chown {
                target: self.target(path),
                uid: CHOWN_IDS.0,
                gid: CHOWN_IDS.1,
            },
            Action::Reflink { source, dest } => Op::Reflink {
                source: self.target(source),
                source_offset: 0,
                length: 0,
                dest: self.target(dest),
                dest_offset: 0,
            },
            Action::Fsync(path) => Op::Fsync {
                target: self.target(path),
            },
            Action::Fdatasync(path) => Op::Fdatasync {
                target: self.target(path),
            },
            Action::Syncfs => Op::Syncfs,
            Action::Sync => Op::Sync,
        }
    }
}
