use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, SFlag, mknod};
use rustix::fs::{XattrFlags, lsetxattr};
use trace::FileId;

use crate::content::Content;
use crate::tree::{Holds, Tree};

/// Bytes that are written at once.
const BUFFER: usize = 256 << 10;

impl Tree {
    /// Makes a new directory that holds exactly this. What a check does to it is of no consequence
    /// for the next one: nothing of it is shared.
    ///
    /// # Errors
    /// If it is there already, or something cannot be made.
    pub fn write_to(&self, path: &Path) -> io::Result<()> {
        self.write_file(FileId::ROOT, path, &mut HashMap::new())
    }

    fn write_file(
        &self,
        id: FileId,
        path: &Path,
        written: &mut HashMap<FileId, PathBuf>,
    ) -> io::Result<()> {
        let Some(file) = self.file(id) else {
            return Ok(());
        };
        if let Some(first) = written.get(&id) {
            return fs::hard_link(first, path);
        }
        match &file.holds {
            Holds::Bytes(content) => write_content(content, path)?,
            Holds::Entries(entries) => {
                fs::create_dir(path)?;
                for (name, file) in entries {
                    self.write_file(*file, &path.join(OsStr::from_bytes(name)), written)?;
                }
            }
            Holds::Target(target) => symlink(OsStr::from_bytes(target), path)?,
            Holds::Pipe => mknod(path, SFlag::S_IFIFO, Mode::empty(), 0)?,
            // Also in place of a device, which a check had better not open.
            Holds::Nothing => mknod(path, SFlag::S_IFSOCK, Mode::empty(), 0)?,
        }
        for (name, value) in &file.xattrs {
            set_xattr(path, name, value)?;
        }
        // An ordinary user gives attributes only to what he may write.
        if !matches!(file.holds, Holds::Target(_)) {
            fs::set_permissions(path, Permissions::from_mode(file.mode & 0o7777))?;
        }
        written.insert(id, path.to_owned());
        Ok(())
    }
}

fn set_xattr(path: &Path, name: &[u8], value: &[u8]) -> io::Result<()> {
    let name = OsStr::from_bytes(name);
    lsetxattr(path, name, value, XattrFlags::empty()).map_err(|error| {
        let (name, error) = (name.display(), io::Error::from(error));
        let words = format!("set the attribute {name}: {error}; TMPDIR names another file system");
        io::Error::new(error.kind(), words)
    })
}

fn write_content(content: &Content, path: &Path) -> io::Result<()> {
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut buffer: Vec<u8> = Vec::new();
    let mut from = 0;
    for (offset, piece) in content.pieces() {
        if offset != from + buffer.len() as u64 || buffer.len() >= BUFFER {
            file.write_all_at(&buffer, from)?;
            buffer.clear();
            from = offset;
        }
        buffer.extend_from_slice(piece);
    }
    if !buffer.is_empty() {
        file.write_all_at(&buffer, from)?;
    }
    if content.size() > from + buffer.len() as u64 {
        file.set_len(content.size())?;
    }
    Ok(())
}
