//! Files that a kill at any moment leaves usable: one that is appended to, and one that is whole.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::error::{Cause, Error, Result, cannot};

/// A file of JSON objects, one a line. A line counts when its line feed is there.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: File,
    /// In bytes.
    length: u64,
}

impl Lines {
    /// Opens the file, or makes it, and calls `read` with every line and its number, counted from
    /// 1. What a kill, or a machine that went down, left of the last lines is cut off.
    ///
    /// # Errors
    /// If it cannot be read, `read` fails, or something that is no object comes before one.
    pub fn open<T: DeserializeOwned, E: Into<Cause>>(
        path: &Path,
        read: impl FnMut(usize, T) -> std::result::Result<(), E>,
    ) -> Result<Self> {
        let opened = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path);
        let file = opened.map_err(|error| cannot("open", path, error))?;
        let Read { length, read_to } = read_all(path, &file, read)?;
        if length < read_to {
            file.set_len(length)
                .map_err(|error| cannot("shorten", path, error))?;
        }
        tracing::debug!(path = %path.display(), bytes = length, "opened");
        Ok(Self {
            path: path.into(),
            file,
            length,
        })
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends a line, so that it stays when the process is killed. If it cannot be written
    /// whole, what was written of it is taken back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(&mut self, line: &str) -> Result<()> {
        let line = format!("{line}\n");
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            let _ = self.file.set_len(self.length);
            return Err(cannot("write", &self.path, error));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    /// Makes what is in it stay when the machine goes down.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|error| cannot("write", &self.path, error))
    }
}

/// Reads the same without changing anything: calls `read` with every line and its number. A file
/// that is not there has none.
///
/// # Errors
/// Like [`Lines::open`].
pub fn read_lines<T: DeserializeOwned, E: Into<Cause>>(
    path: &Path,
    read: impl FnMut(usize, T) -> std::result::Result<(), E>,
) -> Result<()> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => read_all(
            path,
            &opened.map_err(|error| cannot("open", path, error))?,
            read,
        )
        .map(drop),
    }
}

/// How far a file was read.
struct Read {
    /// The end of the last line that counts.
    length: u64,
    /// The end of the file.
    read_to: u64,
}

fn read_all<T: DeserializeOwned, E: Into<Cause>>(
    path: &Path,
    file: &File,
    mut read: impl FnMut(usize, T) -> std::result::Result<(), E>,
) -> Result<Read> {
    let mut reader = BufReader::new(file);
    let (mut line, mut number, mut length, mut read_to) = (Vec::new(), 0, 0, 0);
    let mut damaged = None;
    loop {
        line.clear();
        let bytes = reader
            .read_until(b'\n', &mut line)
            .map_err(|error| cannot("read", path, error))?;
        if bytes == 0 {
            return Ok(Read { length, read_to });
        }
        (number, read_to) = (number + 1, read_to + bytes as u64);
        let whole = line.ends_with(b"\n");
        match serde_json::from_slice(&line) {
            Ok(_) if damaged.is_some() => {
                return Err(Error::Damaged {
                    path: path.into(),
                    line: damaged.unwrap_or_default(),
                });
            }
            Ok(value) if whole => {
                read(number, value).map_err(|why| Error::Line {
                    path: path.into(),
                    line: number,
                    why: why.into(),
                })?;
                length = read_to;
            }
            _ => {
                damaged.get_or_insert(number);
            }
        }
    }
}

/// Writes a file that is there whole or not at all, whatever happens, in place of one that may be
/// there.
///
/// # Errors
/// If it cannot be written. What was there stays as it was.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)?;
        sync_directory(path.parent())
    });
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        cannot("write", path, error)
    })
}

fn sync_directory(path: Option<&Path>) -> io::Result<()> {
    let path = path
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that are read from a file with this content, and what it holds afterwards.
    fn read(content: &str) -> (Result<Vec<u64>>, String) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lines");
        std::fs::write(&path, content).expect("written");
        let mut found = Vec::new();
        let opened = Lines::open(&path, |_, number: u64| {
            found.push(number);
            Ok::<_, Error>(())
        });
        let appended = opened.and_then(|mut lines| lines.append("9"));
        (
            appended.map(|()| found),
            std::fs::read_to_string(&path).expect("read"),
        )
    }

    #[test]
    fn what_a_kill_left_of_the_last_lines_is_cut_off() {
        for torn in ["", "{", "3", "\0\0\0\0", "\0\0\n\0", "{\"a\":\n"] {
            let (found, content) = read(&format!("1\n2\n{torn}"));
            assert_eq!(
                (found.expect("read"), content.as_str()),
                (vec![1, 2], "1\n2\n9\n"),
                "{torn:?}"
            );
        }
    }

    #[test]
    fn results_after_damage_are_not_thrown_away() {
        let (found, content) = read("1\n{\n3\n");
        let said = found.expect_err("it is damaged").to_string();
        assert!(said.contains("lines:2 is damaged"), "{said}");
        assert_eq!(content, "1\n{\n3\n");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("whole.txt");
        for text in ["first", "second"] {
            write_whole(&path, text).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
        }
        assert_eq!(
            std::fs::read_dir(directory.path()).expect("read").count(),
            1
        );
    }
}
