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
    /// Where a directory is not what this says.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn differences(&self, directory: &Path) -> io::Result<Vec<Damage>> {
        let mut told = Vec::new();
        let mut left: Files = vec![(FileId::ROOT, PathBuf::new())];
        while let Some((id, path)) = left.pop() {
            let Some(file) = self.file(id) else { continue };
            let real = directory.join(&path);
            match &file.holds {
                Holds::Entries(entries) => {
                    let (different, there) = compare_names(entries, &path, &real)?;
                    told.extend(different);
                    left.extend(there);
                }
                Holds::Bytes(content) => {
                    told.extend(different_content(content, &path, &real)?);
                }
                Holds::Target(_) | Holds::Pipe | Holds::Nothing => {}
            }
        }
        Ok(first_of(told))
    }
}

/// What names of a directory are there that should not be, and the other way round; and the files
/// that are there, with their paths.
fn compare_names(
    entries: &BTreeMap<Name, FileId>,
    path: &Path,
    real: &Path,
) -> io::Result<(Vec<Damage>, Files)> {
    let names = fs::read_dir(real)?.map(|entry| Ok(Name::from(entry?.file_name().into_vec())));
    let found: BTreeSet<Name> = names.collect::<io::Result<_>>()?;
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

fn different_content(content: &Content, path: &Path, real: &Path) -> io::Result<Option<Damage>> {
    let path = path.display().to_string();
    if !real.symlink_metadata()?.is_file() {
        return Ok(Some(Damage::of(&path, "is another file")));
    }
    let bytes = fs::read(real)?;
    let mut held = Content::default();
    held.write(0, &bytes);
    Ok(damage(&path, &held, content))
}
