//! Where a directory is not what a tree says.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use trace::{FileId, Name};

use crate::content::Content;
use crate::damage::{Damage, damage, first_of};
use crate::tree::{Holds, Tree};

/// Files with their paths.
type Files = Vec<(FileId, PathBuf)>;

impl Tree {
    /// Where a directory is not what this says. What cannot be read is damaged.
    pub(crate) fn differences(&self, directory: &Path) -> Vec<Damage> {
        let mut told = Vec::new();
        let mut left: Files = vec![(FileId::ROOT, PathBuf::new())];
        while let Some((id, path)) = left.pop() {
            let Some(file) = self.file(id) else { continue };
            let real = directory.join(&path);
            let compared = match &file.holds {
                Holds::Entries(entries) => {
                    compare_names(entries, &path, &real).map(|(different, there)| {
                        left.extend(there);
                        different
                    })
                }
                Holds::Bytes(content) => different_content(content, &path, &real),
                Holds::Target(_) | Holds::Pipe | Holds::Nothing => Ok(Vec::new()),
            };
            told.extend(compared.unwrap_or_else(|error| vec![unreadable(&path, &error)]));
        }
        first_of(told)
    }
}

/// What names of a directory are there that should not be, and the other way round; and the files
/// that are there, with their paths.
fn compare_names(
    entries: &BTreeMap<Name, FileId>,
    path: &Path,
    real: &Path,
) -> io::Result<(Vec<Damage>, Files)> {
    if !real.symlink_metadata()?.is_dir() {
        let other = Damage::of(&shown(path), "is no directory");
        return Ok((vec![other], Vec::new()));
    }
    let found = names_in(real)?;
    let told = |name: &Name, words| {
        let path = path.join(OsStr::from_bytes(name));
        Damage::of(&path.display().to_string(), words)
    };
    let more = found.iter().filter(|name| !entries.contains_key(*name));
    let more = more.map(|name| told(name, "is there, although that name was removed"));
    let (there, missing): (Vec<_>, Vec<_>) =
        entries.iter().partition(|(name, _)| found.contains(*name));
    let missing = missing.iter().map(|(name, _)| told(name, "is not there"));
    let there = there
        .iter()
        .map(|(name, file)| (**file, path.join(OsStr::from_bytes(name))));
    Ok((more.chain(missing).collect(), there.collect()))
}

fn names_in(directory: &Path) -> io::Result<BTreeSet<Name>> {
    let names = fs::read_dir(directory)?;
    names
        .map(|entry| Ok(Name::from(entry?.file_name().into_vec())))
        .collect()
}

fn different_content(content: &Content, path: &Path, real: &Path) -> io::Result<Vec<Damage>> {
    let path = shown(path);
    if !real.symlink_metadata()?.is_file() {
        return Ok(vec![Damage::of(&path, "is another file")]);
    }
    let bytes = fs::read(real)?;
    let mut held = Content::default();
    held.write(0, &bytes);
    Ok(damage(&path, &held, content).into_iter().collect())
}

/// What a file system does not show, although it has its name.
fn unreadable(path: &Path, error: &io::Error) -> Damage {
    Damage::of(&shown(path), format!("cannot be read: {error}"))
}

/// A path in words. That of the directory itself is empty.
fn shown(path: &Path) -> String {
    if path == Path::new("") {
        "the directory".into()
    } else {
        path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use trace::{FileKind, InitialFile};
    use trace_store::Trace;

    use super::*;

    /// A tree with a directory `x` and, in that, a file.
    fn tree() -> Tree {
        let mut files = vec![InitialFile::empty_root()];
        for (number, parent, name, kind) in [
            (1, 0, "x", FileKind::Directory),
            (2, 1, "file", FileKind::Regular),
        ] {
            files.push(InitialFile {
                parent: Some(FileId(parent)),
                name: Name::from(name.as_bytes()),
                file: FileId(number),
                kind,
                ..InitialFile::empty_root()
            });
        }
        Tree::initial(&files, &Trace::default())
    }

    #[test]
    fn what_is_another_file_or_cannot_be_read_is_told_as_damage() {
        let directory = tempfile::tempdir().expect("a directory");
        let lines = |directory: &Path| -> Vec<_> {
            let damages = tree().differences(directory);
            damages.iter().map(Damage::line).collect()
        };
        let x = directory.path().join("x");
        fs::write(&x, "a file").expect("written");
        assert_eq!(lines(directory.path()), ["x is no directory"]);
        fs::remove_file(&x).expect("removed");
        fs::create_dir(&x).expect("made");
        fs::create_dir(x.join("file")).expect("made");
        assert_eq!(lines(directory.path()), ["x/file is another file"]);
        fs::remove_dir(x.join("file")).expect("removed");
        fs::write(x.join("file"), "").expect("written");
        assert_eq!(lines(directory.path()), Vec::<String>::new());
        // Nobody has such a directory.
        let gone = lines(&directory.path().join("gone"));
        assert!(gone[0].contains("cannot be read: "), "{gone:?}");
    }
}
