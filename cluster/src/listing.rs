//! What the directory of data of a node has, while nothing of the node runs.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};

/// Directories are followed so deep.
const DEPTH_MAX: usize = 256;

/// Which files are read, beside that their names are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Those of at most so many bytes.
    pub file_max: u64,
    /// As long as there are not more bytes than these in all, the smallest files first.
    pub all_max: u64,
}

impl Reading {
    /// None, but for empty ones.
    pub const NOTHING: Self = Self {
        file_max: 0,
        all_max: 0,
    };
}

/// What lies in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// From the directory on, which itself is `.`.
    pub path: String,
    /// What it is.
    pub kind: ListedKind,
    /// The bytes of a file.
    pub size: u64,
    /// The target of a symbolic link.
    pub target: String,
    /// What a file has, if it was read.
    pub bytes: Option<Vec<u8>>,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ListedKind {
    /// A file with bytes.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Special,
}

impl Listed {
    /// What lies at a path, which is called `path`.
    fn of(at: &Path, path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(at)?;
        let kind = ListedKind::of(&metadata);
        let (size, target) = match kind {
            ListedKind::File => (metadata.len(), String::new()),
            ListedKind::Symlink => (0, text(&fs::read_link(at)?)),
            _ => (0, String::new()),
        };
        Ok(Self {
            path: text(path),
            kind,
            size,
            target,
            bytes: None,
        })
    }
}

impl ListedKind {
    /// What facts call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Special => "special",
        }
    }

    fn of(metadata: &Metadata) -> Self {
        let kind = metadata.file_type();
        if kind.is_file() {
            Self::File
        } else if kind.is_dir() {
            Self::Directory
        } else if kind.is_symlink() {
            Self::Symlink
        } else {
            Self::Special
        }
    }
}

/// Everything in a directory in the order of its paths, and the bytes of files, as far as these are read.
///
/// # Errors
/// If something cannot be looked at: then nothing can be said of what is absent.
pub fn listed(directory: &Path, reading: Reading) -> Result<Vec<Listed>> {
    let mut all = Vec::new();
    add(&mut all, directory, Path::new("."), 0)?;
    all.sort_by(|(one, _), (other, _)| one.path.cmp(&other.path));
    read(&mut all, reading)?;
    Ok(all.into_iter().map(|(listed, _)| listed).collect())
}

/// Adds what lies at a path, which is called `path` from the directory on, and what is in it.
fn add(all: &mut Vec<(Listed, PathBuf)>, at: &Path, path: &Path, depth: usize) -> Result<()> {
    let looking = || format!("look at {}", at.display());
    let listed = Listed::of(at, path).doing(looking)?;
    let is_directory = listed.kind == ListedKind::Directory;
    all.push((listed, at.to_owned()));
    if !is_directory {
        return Ok(());
    }
    if depth == DEPTH_MAX {
        return Err(io::Error::from(io::ErrorKind::InvalidFilename)).doing(looking);
    }
    for entry in fs::read_dir(at).doing(looking)? {
        let name = entry.doing(looking)?.file_name();
        let below = if depth == 0 {
            PathBuf::from(&name)
        } else {
            path.join(&name)
        };
        add(all, &at.join(&name), &below, depth + 1)?;
    }
    Ok(())
}

fn text(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

/// Reads files, the smallest first.
fn read(all: &mut [(Listed, PathBuf)], reading: Reading) -> Result<()> {
    let is_read =
        |listed: &Listed| listed.kind == ListedKind::File && listed.size <= reading.file_max;
    let mut files: Vec<_> = all
        .iter_mut()
        .filter(|(listed, _)| is_read(listed))
        .collect();
    files.sort_by_key(|(listed, _)| listed.size);
    let mut bytes = 0;
    for (listed, at) in files {
        bytes += listed.size;
        if bytes > reading.all_max {
            break;
        }
        let content = fs::read(&*at).doing(|| format!("read {}", at.display()))?;
        listed.bytes = Some(content);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Three files, of which two are small, and a link in a directory.
    fn directory() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |path: &str| folder.path().join(path);
        fs::create_dir(at("log")).expect("made");
        for (path, bytes) in [
            ("log/wal-1", &b"12345"[..]),
            ("CURRENT", b"wal-1\n"),
            ("z", b"0123456789"),
        ] {
            fs::write(at(path), bytes).expect("written");
        }
        symlink("wal-1", at("log/last")).expect("made");
        folder
    }

    #[test]
    fn all_that_lies_in_a_directory_is_listed_by_its_path() {
        let folder = directory();
        let all = listed(folder.path(), Reading::NOTHING).expect("listed");
        let told = all.iter().map(|one| {
            (
                one.path.as_str(),
                one.kind.word(),
                one.size,
                one.target.as_str(),
            )
        });
        let expected = [
            (".", "directory", 0, ""),
            ("CURRENT", "file", 6, ""),
            ("log", "directory", 0, ""),
            ("log/last", "symlink", 0, "wal-1"),
            ("log/wal-1", "file", 5, ""),
            ("z", "file", 10, ""),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert!(all.iter().all(|one| one.bytes.is_none()));
    }

    #[test]
    fn files_are_read_up_to_a_size_and_the_smallest_first() {
        let folder = directory();
        let of = |file_max, all_max| {
            let all = listed(folder.path(), Reading { file_max, all_max }).expect("listed");
            let read = all.into_iter().filter(|one| one.bytes.is_some());
            read.map(|one| one.path).collect::<Vec<_>>()
        };
        assert_eq!(of(10, 100), ["CURRENT", "log/wal-1", "z"]);
        assert_eq!(of(6, 100), ["CURRENT", "log/wal-1"]);
        assert_eq!(of(10, 20), ["CURRENT", "log/wal-1"]);
        assert_eq!(of(10, 10), ["log/wal-1"]);
    }

    #[test]
    fn what_cannot_be_looked_at_is_an_error() {
        let folder = directory();
        let error =
            listed(&folder.path().join("none"), Reading::NOTHING).expect_err("it is not there");
        assert!(error.to_string().contains("none"), "{error}");
    }
}
