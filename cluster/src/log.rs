//! The logs of nodes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// How much of the end is looked at for its last lines.
const TAIL_BYTES: u64 = 16384;

/// How many lines are shown of it.
const TAIL_LINES: usize = 4;

/// So many lines before these are shown, if they complain.
const COMPLAINTS_MAX: usize = 2;

/// What complaints have in them, in small letters.
const COMPLAINTS: [&str; 6] = [
    "error",
    "exception",
    "fatal",
    "panic",
    "corrupt",
    "bad file",
];

/// How much of a line is.
const LINE_CHARACTERS_MAX: usize = 200;

/// Opens a log, to go on with it.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Opens a log that is of this time only.
pub(crate) fn open_anew(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(path)
}

/// Whether there is a text in what was logged from a place on.
pub(crate) fn has_since(path: &Path, from: u64, text: &str) -> io::Result<bool> {
    Ok(String::from_utf8_lossy(&read_from(path, from)?).contains(text))
}

/// The last lines, and before them the last that complain: programs often say a lot after their
/// reason.
pub(crate) fn tail(path: &Path) -> Vec<String> {
    tail_since(path, 0)
}

/// The same of what was logged from a place on.
pub(crate) fn tail_since(path: &Path, from: u64) -> Vec<String> {
    let from = path
        .metadata()
        .map_or(0, |data| data.len().saturating_sub(TAIL_BYTES))
        .max(from);
    let bytes = read_from(path, from).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(TAIL_LINES));
    let complains = |line: &&&str| {
        let small = line.to_lowercase();
        COMPLAINTS.iter().any(|word| small.contains(word))
    };
    let mut shown: Vec<_> = before
        .iter()
        .rev()
        .filter(complains)
        .take(COMPLAINTS_MAX)
        .collect();
    shown.reverse();
    shown
        .into_iter()
        .chain(last)
        .map(|line| line.chars().take(LINE_CHARACTERS_MAX).collect())
        .collect()
}

/// What is in a log from a place on.
pub(crate) fn read_from(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
