//! Where a directory is not what a tree says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pace_rules::nodes::{FileId, Name};

use crate::compare::first_difference;
use crate::content::Content;
use crate::tree::{Holds, Tree};

/// So many differences are told.
const TOLD_MAX: usize = 8;

impl Tree {
    /// Where a directory differs from this, in words.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn differences(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut told = Vec::new();
        let mut left = vec![(FileId::ROOT, PathBuf::new())];
        while let Some((id, path)) = left.pop() {
            let Some(file) = self.file(id) else { continue };
            let real = directory.join(&path);
            match &file.holds {
                Holds::Entries(entries) => {
                    let names = fs::read_dir(&real)?.map(|entry| Ok(Name::from(entry?.file_name().into_vec())));
                    let found: BTreeSet<Name> = names.collect::<io::Result<_>>()?;
                    let words = |name: &Name| path.join(OsStr::from_bytes(name)).display().to_string();
                    told.extend(
                        found
                            .iter()
                            .filter(|name| !entries.contains_key(*name))
                            .map(|name| format!("{} is there", words(name))),
                    );
                    for (name, file) in entries {
                        if found.contains(name) {
                            left.push((*file, path.join(OsStr::from_bytes(name))));
                        } else {
                            told.push(format!("{} is not there", words(name)));
                        }
                    }
                }
                Holds::Bytes(content) => {
                    let differs = different_content(content, &real)?;
                    told.extend(differs.map(|what| format!("{} {what}", path.display())));
                }
                Holds::Target(_) | Holds::Nothing => {}
            }
        }
        let more = told.len().saturating_sub(TOLD_MAX);
        told.truncate(TOLD_MAX);
        told.extend((more > 0).then(|| format!("and {more} more")));
        Ok(told)
    }
}

fn different_content(content: &Content, path: &Path) -> io::Result<Option<String>> {
    if !path.symlink_metadata()?.is_file() {
        return Ok(Some("is another file".into()));
    }
    let bytes = fs::read(path)?;
    let (size, wanted) = (bytes.len(), content.size());
    Ok(if size as u64 == wanted {
        first_difference(content, &bytes).map(|from| format!("has other bytes from {from} on"))
    } else {
        Some(format!("has {size} bytes, and not {wanted}"))
    })
}
