use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt};
use std::path::Path;

use local_fs::with_data;
use rustix::fs::lgetxattr;
use trace::{FileId, Name};

use crate::content::{CHUNK, Content};
use crate::tree::{File as Recorded, Holds, Tree};

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
        if let Some(what) = other_attributes(file, path, &data) {
            return differs(&what);
        }
        match &file.holds {
            Holds::Bytes(content) if data.is_file() => {
                match first_difference(content, &File::open(path)?)? {
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
            Holds::Pipe if data.file_type().is_fifo() => Ok(None),
            Holds::Nothing if data.file_type().is_socket() || is_device(&data) => Ok(None),
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

/// Where the mode and the extended attributes are not those that were recorded of a file, in words.
fn other_attributes(file: &Recorded, path: &Path, data: &fs::Metadata) -> Option<String> {
    let mode = data.permissions().mode() & 0o7777;
    if !data.is_symlink() && file.mode & 0o7777 != mode {
        return Some(format!(
            "its mode is {mode:o}, and {:o} was recorded",
            file.mode
        ));
    }
    let mut attributes = file.xattrs.iter();
    let (attribute, _) = attributes.find(|(attribute, value)| {
        let mut there = vec![0; value.len() + 1];
        let found = lgetxattr(path, OsStr::from_bytes(attribute), &mut there[..]);
        found.map(|len| &there[..len]) != Ok(&***value)
    })?;
    let attribute = String::from_utf8_lossy(attribute);
    Some(format!("another attribute {attribute} was recorded"))
}

fn is_device(data: &fs::Metadata) -> bool {
    data.file_type().is_char_device() || data.file_type().is_block_device()
}

/// The place of the first byte that differs, or of the end that does. Holes are not read.
fn first_difference(content: &Content, file: &File) -> io::Result<Option<u64>> {
    let size = file.metadata()?.len();
    let known = content
        .pieces()
        .map(|(at, piece)| at..at + piece.len() as u64);
    let mut there = vec![0; CHUNK as usize];
    for range in with_data(file, size, known)? {
        for at in (range.start..range.end).step_by(there.len()) {
            let there = &mut there[..CHUNK.min(range.end - at) as usize];
            file.read_exact_at(there, at)?;
            let own = content.read(at, there.len() as u64);
            if let Some(place) = own
                .iter()
                .zip(&*there)
                .position(|(own, other)| own != other)
            {
                return Ok(Some(at + place as u64));
            }
        }
    }
    Ok((content.size() != size).then(|| content.size().min(size)))
}
