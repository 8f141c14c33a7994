//! The files of a directory as they are: what a recording begins with, and what it must have come
//! to at its end.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use local_fs::with_data;
use machine::Spool;
use rustix::fs::{AtFlags, CWD, FileType, Stat, readlinkat, statat};
use trace::{Data, FileId, FileKind, InitialFile, Name};

use super::tree::{self, Tree, inode};
use super::xattrs;

/// How much of a file is read at once.
const PIECE_BYTES: usize = 1 << 20;

/// What a file of this kind is; `target` is asked for that of a link.
pub(super) fn kind_of(stat: &Stat, target: impl FnOnce() -> Data) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink { target: target() },
        FileType::Fifo => FileKind::Fifo,
        _ => FileKind::Special,
    }
}

/// Adds bytes to the recorded ones.
pub(super) fn add(data: &mut Spool, bytes: &[u8]) -> Data {
    let at = data.len() as u64;
    data.extend_from_slice(bytes);
    Data {
        at,
        len: bytes.len() as u64,
    }
}

/// What of a file is no hole, in order.
pub(super) fn content(file: &File, size: u64, data: &mut Spool) -> io::Result<Vec<(u64, Data)>> {
    let (mut pieces, mut bytes) = (Vec::new(), Vec::new());
    for range in with_data(file, size, iter::empty())? {
        for (at, len) in cut(range, PIECE_BYTES) {
            bytes.resize(len, 0);
            file.read_exact_at(&mut bytes, at)?;
            pieces.push((at, add(data, &bytes)));
        }
    }
    Ok(pieces)
}

/// A range of a file in pieces of so many bytes, but the last: where each is, and its length.
pub(super) fn cut(range: Range<u64>, bytes: usize) -> impl Iterator<Item = (u64, usize)> {
    let Range { start, end } = range;
    let starts = (start..end).step_by(bytes);
    starts.map(move |at| (at, bytes.min((end - at) as usize)))
}

/// The target of a symbolic link.
pub(super) fn target(directory: impl AsFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(readlinkat(directory, OsStr::from_bytes(name), Vec::new())?.into_bytes())
}

/// What there is when a recording begins.
pub(super) struct Begun {
    /// All files below the directory, the directory itself first.
    pub initial: Vec<InitialFile>,
    /// It knows them.
    pub tree: Tree,
    /// How many of them have extended attributes that crash states would need.
    pub with_xattrs: u64,
}

/// Looks at all files below a directory.
///
/// # Errors
/// With the path that could not be read.
pub(super) fn begin(directory: &Path, data: &mut Spool) -> Result<Begun, (PathBuf, io::Error)> {
    let mut initial = Vec::new();
    let mut with_xattrs = 0;
    let mut tree = Tree::default();
    let mut left = vec![(directory.to_owned(), None, Name::from(&b""[..]))];
    while let Some((path, parent, name)) = left.pop() {
        let file =
            one(&path, parent, name, data, &mut tree).map_err(|error| (path.clone(), error))?;
        tree.begin_with(&file);
        with_xattrs += u64::from(xattrs::has_kept(&path));
        if file.kind == FileKind::Directory {
            let mut names = names_in(&path).map_err(|error| (path.clone(), error))?;
            // What is pushed last is next.
            names.reverse();
            left.extend(
                names
                    .into_iter()
                    .map(|name| (path.join(OsStr::from_bytes(&name)), Some(file.file), name)),
            );
        }
        initial.push(file);
    }
    if let Ok(above) = statat(CWD, directory.join(".."), AtFlags::empty()) {
        tree.begin_below(&above);
    }
    Ok(Begun {
        initial,
        tree,
        with_xattrs,
    })
}

fn one(
    path: &Path,
    parent: Option<FileId>,
    name: Name,
    data: &mut Spool,
    tree: &mut Tree,
) -> io::Result<InitialFile> {
    // The directory itself may be named by a link.
    let flags = if parent.is_none() {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    let stat = statat(CWD, path, flags)?;
    let mut link = Ok(Vec::new());
    let kind = kind_of(&stat, || {
        link = target(CWD, path.as_os_str().as_bytes());
        add(data, link.as_deref().unwrap_or_default())
    });
    link?;
    let mode = stat.st_mode & 0o7777;
    let known = tree.find(&stat);
    let file = known.unwrap_or_else(|| tree.add(inode(&stat), kind, mode));
    let size = if kind == FileKind::Regular {
        stat.st_size as u64
    } else {
        0
    };
    let content = match (kind, known) {
        (FileKind::Regular, None) => content(&File::open(path)?, size, data)?,
        _ => Vec::new(),
    };
    Ok(InitialFile {
        file,
        parent,
        name,
        kind,
        mode,
        size,
        content,
    })
}

fn names_in(path: &Path) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(Arc::from(entry?.file_name().as_bytes()));
    }
    names.sort_unstable();
    Ok(names)
}

/// Where the files of a directory are not what the tree says they are: the first such path, and
/// what differs there.
///
/// # Errors
/// If something cannot be read.
pub(super) fn difference(
    directory: &Path,
    tree: &Tree,
    data: &[u8],
) -> io::Result<Option<(PathBuf, &'static str)>> {
    let mut left = vec![(directory.to_owned(), FileId::ROOT)];
    let mut seen = BTreeSet::new();
    while let Some((path, id)) = left.pop() {
        let file = tree.file(id);
        let kind = match known_kind(&path, id, tree, data)? {
            Ok(kind) => kind,
            Err(what) => return Ok(Some((path, what))),
        };
        match kind {
            FileKind::Directory => {
                let names = names_in(&path)?;
                if let Some((name, what)) = other_name(&names, file) {
                    return Ok(Some((path.join(OsStr::from_bytes(name)), what)));
                }
                let children = file.entries.iter();
                left.extend(children.map(|(name, id)| (path.join(OsStr::from_bytes(name)), *id)));
            }
            FileKind::Regular
                if seen.insert(id) && has_other_content(&File::open(&path)?, file, data)? =>
            {
                return Ok(Some((path, "content")));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The kind of what is at a path, if that is the known file with its mode and size; else what is
/// different.
fn known_kind(
    path: &Path,
    id: FileId,
    tree: &Tree,
    data: &[u8],
) -> io::Result<Result<FileKind, &'static str>> {
    let flags = match id {
        FileId::ROOT => AtFlags::empty(),
        _ => AtFlags::SYMLINK_NOFOLLOW,
    };
    let stat = statat(CWD, path, flags)?;
    let file = tree.file(id);
    let mut link = Vec::new();
    let kind = kind_of(&stat, || {
        link = target(CWD, path.as_os_str().as_bytes()).unwrap_or_default();
        Data::default()
    });
    let is_known = match (file.kind, kind) {
        (FileKind::Symlink { target }, FileKind::Symlink { .. }) => {
            data[target.at as usize..(target.at + target.len) as usize] == link
        }
        (known, found) => known == found,
    };
    let has_mode = !matches!(kind, FileKind::Symlink { .. });
    Ok(if !is_known || tree.find(&stat) != Some(id) {
        Err("another file")
    } else if has_mode && file.mode != stat.st_mode & 0o7777 {
        Err("mode")
    } else if kind == FileKind::Regular && file.size != stat.st_size as u64 {
        Err("size")
    } else {
        Ok(kind)
    })
}

/// The first name that only one of the two has, a directory and what is known of it. `names` are
/// in order.
fn other_name<'a>(names: &'a [Name], known: &'a tree::File) -> Option<(&'a Name, &'static str)> {
    let made = names.iter().find(|name| !known.entries.contains_key(*name));
    let gone = || {
        known
            .entries
            .keys()
            .find(|name| names.binary_search(name).is_err())
    };
    let made = made.map(|name| (name, "a name that nobody made"));
    made.or_else(|| gone().map(|name| (name, "a name that nobody removed")))
}

/// Whether a file of this size does not hold what is known of it.
fn has_other_content(real: &File, known: &tree::File, data: &[u8]) -> io::Result<bool> {
    let (mut found, mut expected) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    for range in with_data(real, known.size, known.content.ranges())? {
        for (at, len) in cut(range, PIECE_BYTES) {
            real.read_exact_at(&mut found[..len], at)?;
            known.content.read(at, data, &mut expected[..len]);
            if found[..len] != expected[..len] {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
