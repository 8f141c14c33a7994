//! The logs of nodes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// How much of the end is looked at for its last lines.
const TAIL_BYTES: u64 = 4096;

/// How many lines are shown of it.
const TAIL_LINES: usize = 4;

/// How much of a line is.
const LINE_CHARACTERS_MAX: usize = 200;

/// Opens a log, to go on with it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Opens a log that is of this time only.
pub(crate) fn open_anew(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(true).open(path)
}

/// Whether there is a text in what was logged from a place on.
pub(crate) fn has_since(path: &Path, from: u64, text: &str) -> io::Result<bool> {
    Ok(String::from_utf8_lossy(&read_from(path, from)?).contains(text))
}

/// The last lines.
pub(crate) fn tail(path: &Path) -> Vec<String> {
    let from = path.metadata().map_or(0, |data| data.len().saturating_sub(TAIL_BYTES));
    let bytes = read_from(path, from).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    last.iter().map(|line| line.chars().take(LINE_CHARACTERS_MAX).collect()).collect()
}

fn read_from(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
