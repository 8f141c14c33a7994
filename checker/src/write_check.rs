//! What a recovered file system must still be able to do: files can be made, written, renamed
//! and deleted in every directory, and everything can be removed.

use std::os::fd::{AsFd, OwnedFd};

use local_fs::{InodeKind, Tree};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, write};

use crate::{Finding, Promise};

const MADE: &str = ".crashpoint-made";
const MOVED: &str = ".crashpoint-moved";

/// Writes in every directory of the recovered tree below `root`, then removes everything but
/// the names of the file system's own. Stops at the first failure, whose consequences the
/// later ones would be; a full disk is none.
pub fn write_check(root: impl AsFd, tree: &Tree, own_names: &[&str]) -> Option<Finding> {
    let root = root.as_fd();
    for path in directories(tree) {
        if let Err((doing, errno)) = use_directory(root, &path)
            && errno != Errno::NOSPC
        {
            return Some(failure(&path, doing, errno));
        }
    }
    let opened = openat(root, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    match opened.map_err(|errno| (String::new(), "open", errno)).and_then(|root| remove_all(&root, "", own_names)) {
        Ok(()) => None,
        Err((path, doing, errno)) => Some(failure(&path, doing, errno)),
    }
}

fn failure(path: &str, doing: &str, errno: Errno) -> Finding {
    let what = format!("{doing} fails after recovery: {}", std::io::Error::from(errno));
    Finding::new(Promise::Usable, path, what)
}

/// The paths of all directories, `.` for the root.
fn directories(tree: &Tree) -> Vec<String> {
    let mut found = vec![".".to_owned()];
    let mut pending = vec![(tree.root, String::new())];
    let mut seen = std::collections::HashSet::from([tree.root]);
    while let Some((directory, path)) = pending.pop() {
        for (name, number) in tree.entries(directory) {
            let is_directory = tree.inode(number).is_some_and(|inode| matches!(inode.kind, InodeKind::Directory(_)));
            if is_directory && seen.insert(number) {
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                found.push(path.clone());
                pending.push((number, path));
            }
        }
    }
    found
}

fn use_directory(root: impl AsFd, path: &str) -> Result<(), (&'static str, Errno)> {
    let (made, moved) = (format!("{path}/{MADE}"), format!("{path}/{MOVED}"));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file =
        openat(root.as_fd(), &made, flags, Mode::from_raw_mode(0o600)).map_err(|errno| ("making a file", errno))?;
    let written = write(&file, b"crashpoint").map_err(|errno| ("writing a new file", errno));
    drop(file);
    let renamed = renameat(root.as_fd(), &made, root.as_fd(), &moved).map_err(|errno| ("renaming a new file", errno));
    let name = if renamed.is_ok() { &moved } else { &made };
    let removed = unlinkat(root.as_fd(), name, AtFlags::empty()).map_err(|errno| ("deleting a new file", errno));
    written.map(drop).and(renamed).and(removed)
}

type Failure = (String, &'static str, Errno);

fn remove_all(directory: &OwnedFd, path: &str, skip: &[&str]) -> Result<(), Failure> {
    let fail = |doing: &'static str| move |errno: Errno| (path.to_owned(), doing, errno);
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(fail("listing"))? {
        let entry = entry.map_err(fail("listing"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." && !skip.contains(&name.as_str()) {
            // Not every file system keeps the type in the directory.
            let kind = match entry.file_type() {
                FileType::Unknown => statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| FileType::from_raw_mode(stat.st_mode))
                    .map_err(fail("looking at an entry"))?,
                kind => kind,
            };
            names.push((name, kind));
        }
    }
    for (name, kind) in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
        let fail = |doing: &'static str| {
            let path = path.clone();
            move |errno: Errno| (path, doing, errno)
        };
        if kind == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let child = openat(directory, &name, flags, Mode::empty()).map_err(fail("opening"))?;
            remove_all(&child, &path, &[])?;
            unlinkat(directory, &name, AtFlags::REMOVEDIR).map_err(fail("removing the emptied directory"))?;
        } else {
            unlinkat(directory, &name, AtFlags::empty()).map_err(fail("deleting"))?;
        }
    }
    Ok(())
}
