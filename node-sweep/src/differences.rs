//! Where a directory is not what a tree says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use trace::{FileId, Name};

use crate::content::Content;
use crate::damage::{Damage, damage, first_of};
use crate::tree::{Holds, Tree};

impl Tree {
    /// Where a directory is not what this says.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn differences(&self, directory: &Path) -> io::Result<Vec<Damage>> {
        let mut told = Vec::new();
        let mut left = vec![(FileId::ROOT, PathBuf::new())];
        while let Some((id, path)) = left.pop() {
            let Some(file) = self.file(id) else { continue };
            let real = directory.join(&path);
            match &file.holds {
                Holds::Entries(entries) => {
                    let names = fs::read_dir(&real)?
                        .map(|entry| Ok(Name::from(entry?.file_name().into_vec())));
                    let found: BTreeSet<Name> = names.collect::<io::Result<_>>()?;
                    let words =
                        |name: &Name| path.join(OsStr::from_bytes(name)).display().to_string();
                    told.extend(
                        found
                            .iter()
                            .filter(|name| !entries.contains_key(*name))
                            .map(|name| Damage {
                                path: words(name),
                                words: "is there, although that name was removed".into(),
                                dump: Vec::new(),
                            }),
                    );
                    for (name, file) in entries {
                        if found.contains(name) {
                            left.push((*file, path.join(OsStr::from_bytes(name))));
                        } else {
                            told.push(Damage {
                                path: words(name),
                                words: "is not there".into(),
                                dump: Vec::new(),
                            });
                        }
                    }
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

fn different_content(content: &Content, path: &Path, real: &Path) -> io::Result<Option<Damage>> {
    let path = path.display().to_string();
    if !real.symlink_metadata()?.is_file() {
        return Ok(Some(Damage {
            path,
            words: "is another file".into(),
            dump: Vec::new(),
        }));
    }
    let bytes = fs::read(real)?;
    let mut held = Content::default();
    held.write(0, &bytes);
    Ok(damage(&path, &held, content))
}
