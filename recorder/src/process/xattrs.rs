//! Extended attributes: what a file has of them is looked up after the calls that change them.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{getxattr, llistxattr};
use rustix::io::Errno;
use trace::{FileId, FileOp, Name};
use tracer::calls::{Follows, XattrOf};
use tracer::lookup::text;
use tracer::{Entry, Origin};

use super::changes::Change;
use super::recording::{Next, Recording};
use super::snapshot;

/// The largest value, and the longest list of names (xattr(7)).
const BYTES_MAX: usize = 1 << 16;

/// Of linux/fcntl.h: AT_SYMLINK_NOFOLLOW is the only flag of these calls that leads elsewhere.
const NO_FOLLOW: i32 = libc::AT_SYMLINK_NOFOLLOW;

/// The access control list of a file. One that says no more than a mode does is kept as that: who
/// copies a file with its mode (`sed -i`, `cp -p`) may set it so.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// The mode of a file, if it has no access control list that says more.
fn mode_without_list(copy: &OwnedFd) -> Option<u32> {
    let has_none = matches!(value(copy, ACCESS_LIST), Ok(None));
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let mode = || Some(fs::metadata(path).ok()?.mode() & 0o7777);
    has_none.then(mode).flatten()
}

/// Whether crash states have attributes of this name: what programs keep in them. Others are of the
/// kernel and its security modules, and access control lists change the mode as well.
fn is_kept(name: &[u8]) -> bool {
    [&b"user."[..], b"trusted.", b"security.capability"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Whether a file has attributes that crash states are to have.
pub(super) fn has_kept(path: &Path) -> bool {
    let mut names = vec![0; BYTES_MAX];
    let listed = llistxattr(path, &mut names[..]).unwrap_or(0);
    names[..listed].split(|byte| *byte == 0).any(is_kept)
}

/// The value of an attribute of a file, if it has it.
fn value(copy: &OwnedFd, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
    let mut value = vec![0; BYTES_MAX];
    match getxattr(path, OsStr::from_bytes(name), &mut value[..]) {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Recording {
    pub(super) fn enter_set_xattr(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        of: XattrOf,
        name: usize,
    ) -> Next {
        let Some(name) = text(origin.thread, entry.arguments[name]) else {
            return Next::GoOn;
        };
        let name = Name::from(name);
        let set = |file, copy| Change::SetXattr { file, copy, name };
        match of {
            XattrOf::Descriptor => {
                let Some((file, descriptor)) = self.own(origin, entry.arguments[0]) else {
                    return Next::GoOn;
                };
                self.change(origin, Some(file), |file| set(file, Some(descriptor.copy)))
            }
            XattrOf::Path {
                base,
                path,
                follows,
            } => {
                let flags = match follows {
                    Follows::Always => 0,
                    Follows::Never => NO_FOLLOW,
                    Follows::Flags(argument) => entry.arguments[argument] as i32,
                };
                self.change_path(origin, entry, (base, path), flags, set)
            }
        }
    }

    pub(super) fn leave_set_xattr(
        &mut self,
        origin: &Origin,
        file: FileId,
        copy: Option<OwnedFd>,
        name: Name,
    ) {
        if &*name == ACCESS_LIST
            && let Some(mode) = copy.as_ref().and_then(mode_without_list)
        {
            return self.operation(origin, FileOp::SetMode { file, mode });
        }
        if !is_kept(&name) {
            return self.count(format!(
                "{} of {}",
                origin.row.name,
                String::from_utf8_lossy(&name)
            ));
        }
        match copy.map(|copy| value(&copy, &name)) {
            Some(Ok(value)) => {
                let value = value.map(|value| snapshot::add(&mut self.data, &value));
                self.operation(origin, FileOp::SetXattr { file, name, value });
            }
            _ => self.count(format!("{} of what cannot be read", origin.row.name)),
        }
    }
}
