//! What a recovered file system must still be able to do: files can be made, written, renamed
//! and deleted in every directory, and everything can be removed.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use local_fs::{InodeKind, Tree, raw_path};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::{Errno, write};

use crate::{Finding, Promise};

const MADE: &str = ".crashpoint-made";
const MOVED: &str = ".crashpoint-moved";

/// Writes in every directory of the recovered tree below `root`, then removes everything but
/// the names of the file system's own. Stops at the first failure, whose consequences the
/// later ones would be; a full disk is none. Where that keeps something from being removed, nothing
/// more can be said.
pub fn write_check(root: impl AsFd, tree: &Tree, own_names: &[&str]) -> Option<Finding> {
    let root = root.as_fd();
    for path in directories(tree) {
        match use_directory(root, &path) {
            Ok(Left::Nothing) => {}
            Ok(Left::File) => return None,
            Err((doing, errno)) => return Some(failure(&path, doing, errno)),
        }
    }
    let mut removal = Removal {
        root,
        tree,
        seen: HashSet::new(),
    };
    removal
        .empty(tree.root, "", own_names)
        .err()
        .filter(|(_, _, errno)| *errno != Errno::NOSPC)
        .map(|(path, doing, errno)| failure(&path, doing, errno))
}

fn failure(path: &str, doing: &str, errno: Errno) -> Finding {
    let what = format!(
        "{doing} fails after recovery: {}",
        std::io::Error::from(errno)
    );
    Finding::new(Promise::Usable, path, what)
}

/// The paths of all directories, `.` for the root.
fn directories(tree: &Tree) -> Vec<String> {
    let mut found = vec![".".to_owned()];
    let mut pending = vec![(tree.root, String::new())];
    let mut seen = HashSet::from([tree.root]);
    while let Some((directory, path)) = pending.pop() {
        for (name, number) in tree.entries(directory) {
            if is_directory(tree, number) && seen.insert(number) {
                let path = if path.is_empty() {
                    name.to_owned()
                } else {
                    format!("{path}/{name}")
                };
                found.push(path.clone());
                pending.push((number, path));
            }
        }
    }
    found
}

/// What a directory has after it was used that it had not before.
enum Left {
    Nothing,
    /// The disk was too full to delete the new file.
    File,
}

/// A full disk is no error.
fn use_directory(root: impl AsFd, path: &str) -> Result<Left, (&'static str, Errno)> {
    let path = raw_path(path);
    let [made, moved] = [MADE, MOVED].map(|name| Path::new(&path).join(name));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = match openat(root.as_fd(), &made, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => file,
        Err(Errno::NOSPC) => return Ok(Left::Nothing),
        Err(errno) => return Err(("making a file", errno)),
    };
    let written = write(&file, b"crashpoint").map_err(|errno| ("writing a new file", errno));
    drop(file);
    let renamed = renameat(root.as_fd(), &made, root.as_fd(), &moved)
        .map_err(|errno| ("renaming a new file", errno));
    let name = if renamed.is_ok() { &moved } else { &made };
    let removed = unlinkat(root.as_fd(), name, AtFlags::empty())
        .map_err(|errno| ("deleting a new file", errno));
    outcome([written.map(drop), renamed, removed])
}

/// What it comes to that a new file was written, renamed and deleted.
fn outcome(done: [Result<(), (&'static str, Errno)>; 3]) -> Result<Left, (&'static str, Errno)> {
    let left = done[2].map_or(Left::File, |()| Left::Nothing);
    let mut failures = done.into_iter().filter_map(Result::err);
    let failure = failures.find(|(_, errno)| *errno != Errno::NOSPC);
    failure.map_or(Ok(left), Err)
}

type Failure = (String, &'static str, Errno);

/// Removes what the walk has seen, by path and without listing anything again. What the walk did
/// not see keeps its directory from being removed.
struct Removal<'a> {
    root: BorrowedFd<'a>,
    tree: &'a Tree,
    /// A directory that holds itself is emptied once.
    seen: HashSet<u64>,
}

impl Removal<'_> {
    fn empty(&mut self, directory: u64, path: &str, skip: &[&str]) -> Result<(), Failure> {
        if !self.seen.insert(directory) {
            return Ok(());
        }
        let tree = self.tree;
        for (name, number) in tree
            .entries(directory)
            .filter(|(name, _)| !skip.contains(name))
        {
            let path = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}/{name}")
            };
            let (flags, doing) = if is_directory(tree, number) {
                self.empty(number, &path, &[])?;
                (AtFlags::REMOVEDIR, "removing the emptied directory")
            } else {
                (AtFlags::empty(), "deleting")
            };
            unlinkat(self.root, &*raw_path(&path), flags).map_err(|errno| (path, doing, errno))?;
        }
        Ok(())
    }
}

fn is_directory(tree: &Tree, number: u64) -> bool {
    tree.inode(number)
        .is_some_and(|inode| matches!(inode.kind, InodeKind::Directory(_)))
}
