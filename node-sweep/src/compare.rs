use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use trace::{FileId, Name};

use crate::content::Content;
use crate::tree::{Holds, Tree};

impl Tree {
    /// Where a directory is not this, in words; none if it is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn difference(&self, directory: &Path) -> io::Result<Option<String>> {
        self.difference_of(FileId::ROOT, directory, Path::new("."))
    }

    fn difference_of(&self, id: FileId, path: &Path, name: &Path) -> io::Result<Option<String>> {
        let data = path.symlink_metadata()?;
        let differs = |what: &str| Ok(Some(format!("{}: {what}", name.display())));
        let Some(file) = self.file(id) else {
            return differs("is not in the recording");
        };
        if !data.is_symlink() && file.mode & 0o7777 != data.permissions().mode() & 0o7777 {
            return differs(&format!(
                "its mode is {:o}, and {:o} was recorded",
                data.permissions().mode() & 0o7777,
                file.mode
            ));
        }
        match &file.holds {
            Holds::Bytes(content) if data.is_file() => {
                match first_difference(content, &fs::read(path)?) {
                    Some(at) => differs(&format!("other bytes were recorded from {at} on")),
                    None => Ok(None),
                }
            }
            Holds::Entries(entries) if data.is_dir() => {
                self.difference_of_entries(entries, path, name)
            }
            Holds::Target(target)
                if data.is_symlink()
                    && fs::read_link(path)?.as_os_str().as_bytes() == &**target =>
            {
                Ok(None)
            }
            Holds::Nothing if data.file_type().is_socket() || data.file_type().is_fifo() => {
                Ok(None)
            }
            _ => differs("something else was recorded"),
        }
    }

    fn difference_of_entries(
        &self,
        entries: &BTreeMap<Name, FileId>,
        path: &Path,
        name: &Path,
    ) -> io::Result<Option<String>> {
        for entry in fs::read_dir(path)? {
            let entry = entry?.file_name();
            if !entries.contains_key(entry.as_bytes()) {
                return Ok(Some(format!(
                    "{}: it was not recorded",
                    name.join(entry).display()
                )));
            }
        }
        for (entry, file) in entries {
            let entry = OsStr::from_bytes(entry);
            if path.join(entry).symlink_metadata().is_err() {
                return Ok(Some(format!(
                    "{}: it was recorded, and is not there",
                    name.join(entry).display()
                )));
            }
            let difference = self.difference_of(*file, &path.join(entry), &name.join(entry))?;
            if difference.is_some() {
                return Ok(difference);
            }
        }
        Ok(None)
    }
}

/// The place of the first byte that differs, or of the end that does.
fn first_difference(content: &Content, bytes: &[u8]) -> Option<u64> {
    let mut at = 0;
    let not_zero = |range: &[u8]| range.iter().position(|byte| *byte != 0);
    for (offset, piece) in content.pieces() {
        let (from, to) = (offset as usize, offset as usize + piece.len());
        let gap = bytes.get(at..from.min(bytes.len())).unwrap_or_default();
        if let Some(place) = not_zero(gap) {
            return Some((at + place) as u64);
        }
        let there = bytes.get(from..to.min(bytes.len())).unwrap_or_default();
        if let Some(place) = piece
            .iter()
            .zip(there)
            .position(|(own, other)| own != other)
        {
            return Some((from + place) as u64);
        }
        at = to;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(place) = not_zero(rest) {
        return Some((at + place) as u64);
    }
    (content.size() != bytes.len() as u64).then(|| content.size().min(bytes.len() as u64))
}
