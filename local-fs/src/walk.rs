use std::collections::BTreeMap;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{
    Advice, AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, fadvise, fstat, openat, readlinkat,
    statat,
};
use rustix::io::Errno;

use crate::FileSystem;
use crate::error::is_about_machine;
use crate::holes::data_extents;
use crate::shown_name::{raw_path, shown_name};
use crate::tree::{Content, Inode, InodeKind, Segment, Tree, WalkError};

/// A walk reads at most this much of a file's data; workloads write less by far.
const CONTENT_BYTES_MAX: u64 = 64 << 20;

/// The longest value, and the longest list of names, that the kernel gives (XATTR_SIZE_MAX and
/// XATTR_LIST_MAX).
const XATTR_BYTES_MAX: usize = 65536;

/// How much of a directory is read with one system call: all of it, in a workload.
const LIST_BYTES: usize = 4096;

/// How directories are opened.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What a walk may leave out.
#[derive(Debug, Clone, Copy)]
pub struct WalkOptions {
    /// Names in the root that are not looked at.
    pub skip: &'static [&'static str],
    /// How the names of its attributes start that are not.
    pub skip_attributes: &'static [&'static str],
}

impl WalkOptions {
    /// Leaves out what a file system of this kind has from the beginning.
    pub fn of(file_system: &FileSystem) -> Self {
        Self {
            skip: file_system.own_names,
            skip_attributes: file_system.own_attributes,
        }
    }
}

/// Reads everything that a file system mounted on `path` shows.
///
/// Holes are found first and never read, so that a walk of a live file system leaves no pages
/// of zeros in its cache. What cannot be read is noted in the tree; that is a result.
///
/// It takes as few system calls as it can: they are what is slow in a guest.
pub fn walk(path: &Path, options: WalkOptions) -> Tree {
    let mut walk = Walk {
        tree: Tree::default(),
        path,
        options,
    };
    walk.root();
    walk.tree
}

struct Walk<'a> {
    tree: Tree,
    path: &'a Path,
    options: WalkOptions,
}

impl Walk<'_> {
    fn error(&mut self, path: &str, doing: &'static str, errno: Errno) {
        self.tree.errors.push(WalkError {
            path: path.to_owned(),
            doing,
            errno: errno.raw_os_error(),
            is_ours: is_about_machine(errno.raw_os_error()),
        });
    }

    /// Notes what is more than a walk reads.
    fn too_much(&mut self, path: &str, doing: &'static str, errno: Errno) {
        self.tree.errors.push(WalkError {
            path: path.to_owned(),
            doing,
            errno: errno.raw_os_error(),
            is_ours: true,
        });
    }

    fn or_error<T>(
        &mut self,
        path: &str,
        doing: &'static str,
        result: Result<T, Errno>,
    ) -> Option<T> {
        result.map_err(|errno| self.error(path, doing, errno)).ok()
    }

    fn root(&mut self) {
        let opened = openat(CWD, self.path, DIRECTORY, Mode::empty());
        let Some(root) = self.or_error("", "open", opened) else {
            return;
        };
        let Some(stat) = self.or_error("", "stat", fstat(&root)) else {
            return;
        };
        self.tree.root = stat.st_ino;
        self.add("", &stat, InodeKind::Directory(BTreeMap::new()));
        self.entries(&root, "", &stat);
    }

    fn directory(&mut self, parent: &OwnedFd, name: &str, path: &str, stat: &Stat) {
        // Entered before its children, so that a directory that holds itself is walked once.
        self.add(path, stat, InodeKind::Directory(BTreeMap::new()));
        let opened = openat(parent, &*raw_path(name), DIRECTORY, Mode::empty());
        let Some(directory) = self.or_error(path, "open", opened) else {
            return;
        };
        self.entries(&directory, path, stat);
    }

    fn entries(&mut self, directory: &OwnedFd, path: &str, stat: &Stat) {
        let listed = list(directory);
        let Some(names) = self.or_error(path, "list", listed) else {
            return;
        };
        let mut entries = BTreeMap::new();
        for name in names {
            if path.is_empty() && self.options.skip.contains(&name.as_str()) {
                continue;
            }
            let child_path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}/{name}")
            };
            if let Some(number) = self.entry(directory, &name, &child_path) {
                entries.insert(name, number);
            }
        }
        if let Some(inode) = self.tree.inodes.get_mut(&stat.st_ino) {
            inode.kind = InodeKind::Directory(entries);
        }
    }

    fn entry(&mut self, directory: &OwnedFd, name: &str, path: &str) -> Option<u64> {
        let stat = statat(directory, &*raw_path(name), AtFlags::SYMLINK_NOFOLLOW);
        let stat = self.or_error(path, "stat", stat)?;
        if self.tree.inodes.contains_key(&stat.st_ino) {
            return Some(stat.st_ino);
        }
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                self.directory(directory, name, path, &stat);
                return Some(stat.st_ino);
            }
            FileType::RegularFile => {
                InodeKind::File(self.content(directory, name, path, stat.st_size as u64))
            }
            FileType::Symlink => {
                let target = readlinkat(directory, &*raw_path(name), Vec::new());
                let target = self.or_error(path, "readlink", target).unwrap_or_default();
                InodeKind::Symlink(target.to_string_lossy().into_owned())
            }
            FileType::Fifo => InodeKind::Fifo,
            FileType::Socket => InodeKind::Socket,
            FileType::CharacterDevice => InodeKind::CharDevice(stat.st_rdev),
            _ => InodeKind::BlockDevice(stat.st_rdev),
        };
        self.add(path, &stat, kind);
        Some(stat.st_ino)
    }

    fn add(&mut self, path: &str, stat: &Stat, kind: InodeKind) {
        let xattrs = self.xattrs(path, &kind);
        let inode = Inode {
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size_bytes: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            link_count: link_count(stat),
            xattrs,
        };
        self.tree.inodes.insert(stat.st_ino, inode);
    }

    fn xattrs(&mut self, path: &str, kind: &InodeKind) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        if matches!(kind, InodeKind::Symlink(_)) {
            return found;
        }
        let full = self.path.join(&*raw_path(path));
        let names = self.xattr_names(&full, path);
        for name in names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            // Labels that a security module writes are nobody's promise.
            if name.starts_with(b"security.") {
                continue;
            }
            let own = |start: &&str| name.starts_with(start.as_bytes());
            if path.is_empty() && self.options.skip_attributes.iter().any(own) {
                continue;
            }
            let mut value = Vec::with_capacity(XATTR_BYTES_MAX);
            let room = rustix::buffer::spare_capacity(&mut value);
            let got = rustix::fs::lgetxattr(&full, std::ffi::OsStr::from_bytes(name), room);
            if self.or_error(path, "getxattr", got).is_some() {
                found.insert(String::from_utf8_lossy(name).into_owned(), value);
            }
        }
        found
    }

    /// The names of the attributes of what is at `full`, each with a zero byte after it.
    fn xattr_names(&mut self, full: &Path, path: &str) -> Vec<u8> {
        let mut names = Vec::with_capacity(XATTR_BYTES_MAX);
        let room = rustix::buffer::spare_capacity(&mut names);
        match rustix::fs::llistxattr(full, room) {
            Ok(_) => {}
            // The kernel hands on no longer list, whatever the file system has.
            Err(errno @ Errno::TOOBIG) => self.too_much(path, "listxattr", errno),
            Err(errno) => self.error(path, "listxattr", errno),
        }
        names
    }

    fn content(&mut self, directory: &OwnedFd, name: &str, path: &str, size_bytes: u64) -> Content {
        if size_bytes == 0 {
            return Content::default();
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(directory, &*raw_path(name), flags, Mode::empty());
        let Some(file) = self.or_error(path, "open", opened) else {
            return Content::default();
        };
        let file = File::from(file);
        let extents = self.or_error(path, "read", data_extents(&file, size_bytes));
        let extents = extents.unwrap_or_default();
        if extents.iter().map(|(start, end)| end - start).sum::<u64>() > CONTENT_BYTES_MAX {
            self.too_much(path, "read", Errno::FBIG);
            return Content::default();
        }
        let read = segments(&file, extents);
        Content {
            segments: self.or_error(path, "read", read).unwrap_or_default(),
        }
    }
}

/// The type of `st_nlink` differs between architectures.
#[allow(clippy::unnecessary_cast)]
fn link_count(stat: &Stat) -> u64 {
    stat.st_nlink as u64
}

/// The names in a directory that was just opened.
fn list(directory: impl AsFd) -> Result<Vec<String>, Errno> {
    let mut names = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); LIST_BYTES];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(shown_name(name));
        }
    }
    Ok(names)
}

/// What a file has in these stretches. Nothing is read ahead: a page of zeros that a read brings
/// into the cache would show as data from then on.
fn segments(file: &File, extents: Vec<(u64, u64)>) -> Result<Vec<Segment>, Errno> {
    if extents.is_empty() {
        return Ok(Vec::new());
    }
    fadvise(file, 0, None, Advice::Random)?;
    let read = |(start, end): (u64, u64)| {
        let mut data = vec![0; (end - start) as usize];
        file.read_exact_at(&mut data, start)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(Segment {
            offset: start,
            data,
        })
    };
    extents.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::symlink;

    use super::*;

    const OPTIONS: WalkOptions = WalkOptions {
        skip: &[],
        skip_attributes: &[],
    };

    fn walked(path: &Path) -> Tree {
        walk(path, OPTIONS)
    }

    #[test]
    fn names_need_not_be_text() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &[u8]| directory.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(path(b"D\xff")).expect("made");
        std::fs::write(path(b"D\xff/f\xfe"), "foo").expect("written");
        std::fs::write(path(b"D\xff/f\xff"), "bar").expect("written");
        symlink("nowhere", path(b"l\xff")).expect("made");
        let tree = walked(directory.path());
        assert_eq!(tree.errors, []);
        for (name, data) in [("D\\xff/f\\xfe", b"foo"), ("D\\xff/f\\xff", b"bar")] {
            let inode = tree.inode(tree.lookup(name).expect(name)).expect(name);
            let InodeKind::File(content) = &inode.kind else {
                panic!("{name} is no file");
            };
            assert_eq!(content.segments[0].data, data);
        }
    }

    #[test]
    fn a_file_that_is_too_long_for_a_walk_says_nothing_of_the_file_system() {
        let directory = tempfile::tempdir().expect("a directory");
        let bytes = vec![1; CONTENT_BYTES_MAX as usize];
        std::fs::write(directory.path().join("most"), &bytes).expect("written");
        assert_eq!(walked(directory.path()).errors, []);
        std::fs::write(directory.path().join("more"), [&bytes[..], &[1]].concat())
            .expect("written");
        let tree = walked(directory.path());
        let limit = tree.own_limit().expect("it is too long");
        assert_eq!((limit.path.as_str(), limit.doing), ("more", "read"));
        assert_eq!(tree.errors.len(), 1);
    }

    #[test]
    fn an_error_of_the_machine_is_none_of_the_file_system() {
        let directory = tempfile::tempdir().expect("a directory");
        for (doing, errno, is_ours, misses_names) in [
            ("stat", Errno::MFILE, true, true),
            ("list", Errno::NOMEM, true, true),
            ("read", Errno::INTR, true, false),
            ("list", Errno::IO, false, false),
        ] {
            let mut walk = Walk {
                tree: Tree::default(),
                path: directory.path(),
                options: OPTIONS,
            };
            walk.error("foo", doing, errno);
            let tree = walk.tree;
            assert_eq!(tree.own_limit().is_some(), is_ours, "{doing}: {errno}");
            assert_eq!(tree.misses_names(), misses_names, "{doing}: {errno}");
        }
    }

    #[test]
    fn all_names_of_attributes_are_read() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let file = directory.path().join("file");
        std::fs::write(&file, "").expect("written");
        for number in 0..30 {
            let name = format!("user.{number:0>200}");
            rustix::fs::setxattr(&file, name, b"value", rustix::fs::XattrFlags::empty())
                .expect("set");
        }
        let tree = walked(directory.path());
        assert_eq!(tree.errors, []);
        let inode = tree.inode(tree.lookup("file").expect("it is there"));
        assert_eq!(inode.expect("it is there").xattrs.len(), 30);
    }
}
