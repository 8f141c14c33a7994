//! What nodes log while a plan runs.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// The log of a node, from a place on.
#[derive(Clone)]
pub(super) struct LogTail {
    path: PathBuf,
    read_to: u64,
    /// The beginning of a line whose end is not there yet.
    begun: Vec<u8>,
}

impl LogTail {
    /// From its end on, as it is now.
    pub(super) fn new(path: PathBuf) -> Self {
        let read_to = path.metadata().map_or(0, |data| data.len());
        Self::since(path, read_to)
    }

    /// From a place on.
    pub(super) fn since(path: PathBuf, read_to: u64) -> Self {
        Self {
            path,
            read_to,
            begun: Vec::new(),
        }
    }

    /// The same of a copy of it.
    pub(super) fn of_copy(&self, path: PathBuf) -> Self {
        Self {
            path,
            ..self.clone()
        }
    }

    /// How much of it has been read.
    pub(super) fn read_to(&self) -> u64 {
        self.read_to
    }

    /// The lines that have come since.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let length = self.path.metadata().map_or(0, |data| data.len());
        if length <= self.read_to {
            return Vec::new();
        }
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read_to))?;
            file.read_to_end(&mut self.begun)
        });
        self.read_to += read.unwrap_or_default() as u64;
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.begun.split_off(end + 1);
        let whole = std::mem::replace(&mut self.begun, rest);
        let text = String::from_utf8_lossy(&whole);
        text.lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_line_counts_when_it_is_whole_and_what_was_there_before_does_not() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("a.log");
        let mut file = File::create(&path).expect("created");
        file.write_all(b"before\n").expect("written");
        let mut tail = LogTail::new(path);
        file.write_all(b"one\ntw").expect("written");
        assert_eq!(tail.lines(), ["one"]);
        assert!(tail.lines().is_empty());
        file.write_all(b"o\nthree\n").expect("written");
        assert_eq!(tail.lines(), ["two", "three"]);
    }
}
