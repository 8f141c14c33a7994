//! Writes operations as the text of `docs/workloads.md`, as `Workload::to_line` does but without
//! allocating.

use workloads::RenameFlag;

use crate::action::{Action, CHMOD_MODE, CHOWN_IDS, Sink, XATTR_NAME, XATTR_VALUE};
use crate::operation::falloc_mode_name;
use crate::paths::{PathId, PathTable};

/// Appends `; operation` to a line.
pub(crate) struct TextSink<'a> {
    pub(crate) paths: &'a PathTable,
    pub(crate) line: &'a mut Vec<u8>,
}

impl Sink for TextSink<'_> {
    fn act(&mut self, action: Action) {
        match action {
            Action::Creat(path) => self.on("creat", path),
            Action::Mkdir(path) => self.on("mkdir", path),
            Action::Mkfifo(path) => self.on("mkfifo", path),
            Action::Mknod(path) => self.on("mknod", path),
            Action::Symlink { target, path } => self.symlink(target, path),
            Action::Link { source, dest } => self.on_both("link", source, dest),
            Action::Unlink(path) => self.on("unlink", path),
            Action::Rmdir(path) => self.on("rmdir", path),
            Action::Remove(path) => self.on("remove", path),
            Action::Rename { source, dest, flag } => {
                self.on_both("rename", source, dest);
                self.word(rename_word(flag));
            }
            Action::Write {
                path,
                offset,
                length,
            } => self.on_range("write", path, offset, length),
            Action::DirectWrite {
                path,
                offset,
                length,
            } => self.on_range("dwrite", path, offset, length),
            Action::MmapWrite {
                path,
                offset,
                length,
            } => self.on_range("mmapwrite", path, offset, length),
            Action::Msync {
                path,
                offset,
                length,
            } => self.on_range("msync", path, offset, length),
            Action::Truncate { path, size } => {
                self.on("truncate", path);
                self.bytes(size);
            }
            Action::Falloc {
                path,
                mode,
                offset,
                length,
            } => {
                self.on("falloc", path);
                self.word(falloc_mode_name(mode));
                self.bytes(offset);
                self.bytes(length);
            }
            Action::SetXattr(path) => {
                self.on("setxattr", path);
                self.word(XATTR_NAME);
                self.word(XATTR_VALUE);
            }
            Action::RemoveXattr(path) => {
                self.on("removexattr", path);
                self.word(XATTR_NAME);
            }
            Action::Chmod(path) => {
                self.on("chmod", path);
                self.word(&format!("{CHMOD_MODE:04o}"));
            }
            Action::Chown(path) => {
                self.on("chown", path);
                self.number(CHOWN_IDS.0.into());
                self.number(CHOWN_IDS.1.into());
            }
            Action::Reflink { source, dest } => self.on_both("reflink", source, dest),
            Action::Fsync(path) => self.on("fsync", path),
            Action::Fdatasync(path) => self.on("fdatasync", path),
            Action::Syncfs => self.operation("syncfs"),
            Action::Sync => self.operation("sync"),
        }
    }
}

impl TextSink<'_> {
    fn operation(&mut self, name: &str) {
        self.line.extend_from_slice(b"; ");
        self.line.extend_from_slice(name.as_bytes());
    }

    fn word(&mut self, word: &str) {
        if !word.is_empty() {
            self.line.push(b' ');
            self.line.extend_from_slice(word.as_bytes());
        }
    }

    fn number(&mut self, number: u64) {
        self.line.push(b' ');
        push_number(self.line, number);
    }

    /// A number of bytes, in K where nothing is lost by it.
    fn bytes(&mut self, bytes: u64) {
        match bytes {
            0 => self.number(0),
            _ if bytes.is_multiple_of(1024 * 1024) => self.unit(bytes / (1024 * 1024), b'M'),
            _ if bytes.is_multiple_of(1024) => self.unit(bytes / 1024, b'K'),
            _ => self.number(bytes),
        }
    }

    fn unit(&mut self, number: u64, unit: u8) {
        self.number(number);
        self.line.push(unit);
    }

    fn on(&mut self, name: &str, path: PathId) {
        self.operation(name);
        self.word(self.paths.text(path));
    }

    fn on_both(&mut self, name: &str, source: PathId, dest: PathId) {
        self.on(name, source);
        self.word(self.paths.text(dest));
    }

    fn on_range(&mut self, name: &str, path: PathId, offset: u64, length: u64) {
        self.on(name, path);
        self.bytes(offset);
        self.bytes(length);
    }

    fn symlink(&mut self, target: PathId, path: PathId) {
        self.operation("symlink");
        self.word(&symlink_target(self.paths, target, path));
        self.word(self.paths.text(path));
    }
}

/// The target as seen from the directory that holds the link.
pub(crate) fn symlink_target(paths: &PathTable, target: PathId, path: PathId) -> String {
    "../".repeat(paths.depth(path)) + paths.text(target)
}

fn rename_word(flag: RenameFlag) -> &'static str {
    match flag {
        RenameFlag::Replace => "",
        RenameFlag::NoReplace => "noreplace",
        RenameFlag::Exchange => "exchange",
        RenameFlag::Whiteout => "whiteout",
    }
}

/// Appends a number in decimal.
pub(crate) fn push_number(line: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 9, 10, 32768, u64::MAX] {
            let mut line = Vec::new();
            push_number(&mut line, number);
            assert_eq!(line, number.to_string().as_bytes());
        }
    }
}
