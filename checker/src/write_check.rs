//! What a recovered file system must still be able to do: files can be made, written, renamed
//! and deleted in every directory, and everything can be removed.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use local_fs::{InodeKind, Tree, is_about_machine, raw_path};
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::{Errno, write};

use crate::{Finding, Promise, Undecided};

/// Writes in every directory of the recovered tree below `root`, then removes everything but
/// the names of the file system's own. Stops at the first failure, whose consequences the
/// later ones would be; a full disk is none. Where that keeps something from being removed, nothing
/// more can be said.
///
/// # Errors
/// If something failed that says nothing of the file system.
pub fn write_check(
    root: impl AsFd,
    tree: &Tree,
    own_names: &[&str],
) -> Result<Option<Finding>, Undecided> {
    // What the walk did not see would keep its directory from being removed.
    if tree.misses_names() {
        return Ok(None);
    }
    let root = root.as_fd();
    for (number, path) in directories(tree) {
        match use_directory(root, &path, free_names(tree, number)) {
            Ok(Left::Nothing) => {}
            Ok(Left::File) => return Ok(None),
            Err((doing, errno)) => return failure(&path, doing, errno).map(Some),
        }
    }
    let mut removal = Removal {
        root,
        tree,
        seen: HashSet::new(),
    };
    match removal.empty(tree.root, "", own_names) {
        Ok(()) | Err((_, _, Errno::NOSPC)) => Ok(None),
        Err((path, doing, errno)) => failure(&path, doing, errno).map(Some),
    }
}

/// What a failure says of the file system, if it says anything.
fn failure(path: &str, doing: &str, errno: Errno) -> Result<Finding, Undecided> {
    let reason = std::io::Error::from(errno);
    if is_about_machine(errno.raw_os_error()) {
        return Err(Undecided::TooMuch {
            doing: doing.to_owned(),
            path: path.to_owned(),
            reason: reason.to_string(),
        });
    }
    let what = format!("{doing} fails after recovery: {reason}");
    Ok(Finding::new(Promise::Usable, path, what))
}

/// The names that a new file gets, one after the other, in a directory: it has neither.
fn free_names(tree: &Tree, directory: u64) -> [String; 2] {
    let taken: HashSet<&str> = tree.entries(directory).map(|(name, _)| name).collect();
    let mut names = [".crashpoint-made", ".crashpoint-moved"].map(str::to_owned);
    while names.iter().any(|name| taken.contains(name.as_str())) {
        names = names.map(|name| name + "-");
    }
    names
}

/// The numbers and paths of all directories, `.` for the root.
fn directories(tree: &Tree) -> Vec<(u64, String)> {
    let mut found = vec![(tree.root, ".".to_owned())];
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
                found.push((number, path.clone()));
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
fn use_directory(
    root: impl AsFd,
    path: &str,
    names: [String; 2],
) -> Result<Left, (&'static str, Errno)> {
    let path = raw_path(path);
    let [made, moved] = names.map(|name| Path::new(&path).join(name));
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use local_fs::Inode;

    use super::*;

    fn with_names(names: &[&str]) -> Tree {
        let entries = names.iter().map(|name| ((*name).to_owned(), 2));
        let root = Inode {
            kind: InodeKind::Directory(entries.collect()),
            mode: 0o755,
            uid: 0,
            gid: 0,
            size_bytes: 4096,
            blocks: 8,
            link_count: 2,
            xattrs: BTreeMap::new(),
        };
        Tree {
            root: 1,
            inodes: BTreeMap::from([(1, root)]),
            errors: Vec::new(),
        }
    }

    #[test]
    fn a_new_file_gets_no_name_that_is_there_already() {
        let ours = free_names(&with_names(&["foo"]), 1);
        assert_eq!(ours, [".crashpoint-made", ".crashpoint-moved"]);
        let there = [".crashpoint-moved", ".crashpoint-made-"];
        let ours = free_names(&with_names(&there), 1);
        assert_eq!(ours, [".crashpoint-made--", ".crashpoint-moved--"]);
    }

    #[test]
    fn a_machine_without_room_is_no_finding() {
        let found = |errno| failure("A", "making a file", errno);
        for errno in [Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::INTR] {
            assert!(found(errno).is_err(), "{errno}");
        }
        assert!(found(Errno::IO).is_ok());
    }
}
