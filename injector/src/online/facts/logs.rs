//! What nodes logged, and when.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RunFiles;
use crate::error::{Error, Result};

/// A log had grown so far at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTime {
    /// The node.
    pub node: String,
    /// The time, in nanoseconds.
    pub time: u64,
    /// The bytes of its log.
    pub to: u64,
}

pub(super) fn doing(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let doing = format!("{what} {}", path.display());
    |error| Error::System { doing, error }
}

/// Keeps how logs grew.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_times(path: &Path, times: &[LogTime]) -> Result<()> {
    let mut text = String::new();
    for time in times {
        text += &serde_json::to_string(time).expect("it has only text and numbers");
        text.push('\n');
    }
    let written = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(doing("write", path))
}

/// Where the log of a node is.
pub(in crate::online) fn log_of(files: &RunFiles, node: &str) -> PathBuf {
    files.logs.join(format!("{node}.log"))
}

/// What a node logged in a run that ended at `end_ns`: lines with their times, in nanoseconds from the
/// start of the clients on.
///
/// # Errors
/// If that cannot be read.
pub(in crate::online) fn log_times(
    files: &RunFiles,
    node: &str,
    end_ns: u64,
) -> Result<Vec<(String, u64)>> {
    let times = read_times(&files.log_times)?;
    let of_node: Vec<_> = times.into_iter().filter(|time| time.node == node).collect();
    let mut lines = Vec::new();
    let mut take = |line, time| {
        lines.push((line, time));
        Ok(())
    };
    each_line(&log_of(files, node), &of_node, end_ns, &mut take)?;
    Ok(lines)
}

/// How logs grew; nothing of a run that did not keep it.
pub(super) fn read_times(path: &Path) -> Result<Vec<LogTime>> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Ok(Vec::new());
    };
    let times = text.lines().map(serde_json::from_str);
    let times: serde_json::Result<Vec<_>> = times.collect();
    times.map_err(|error| doing("read", path)(error.into()))
}

/// Calls `take` for each line of a log, with the time at which it was there.
pub(super) fn each_line(
    log: &Path,
    times: &[LogTime],
    end_ns: u64,
    take: &mut dyn FnMut(String, u64) -> Result<()>,
) -> Result<()> {
    let Ok(file) = File::open(log) else {
        return Ok(());
    };
    let mut file = BufReader::new(file);
    let mut times = times.iter().peekable();
    let (mut place, mut line) = (0, Vec::new());
    loop {
        line.clear();
        let read = file.read_until(b'\n', &mut line);
        let read = read.map_err(doing("read", log))? as u64;
        if read == 0 {
            return Ok(());
        }
        place += read;
        while times.peek().is_some_and(|time| time.to < place) {
            times.next();
        }
        let time = times.peek().map_or(end_ns, |time| time.time);
        let text = String::from_utf8_lossy(&line);
        // A database takes no zero bytes in texts for what they are.
        take(text.trim_end_matches(['\n', '\r']).replace('\0', ""), time)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_time_at_which_all_of_it_was_there() {
        let folder = tempfile::tempdir().expect("a directory");
        let log = folder.path().join("a.log");
        std::fs::write(&log, "one\ntwo\nthree\nfour").expect("written");
        let time = |time, to| LogTime {
            node: "a".into(),
            time,
            to,
        };
        let times = folder.path().join("times");
        write_times(&times, &[time(0, 4), time(7, 6), time(9, 14)]).expect("written");
        let times = read_times(&times).expect("read");
        let mut lines = Vec::new();
        let mut take = |line, time| {
            lines.push((line, time));
            Ok(())
        };
        each_line(&log, &times, 99, &mut take).expect("read");
        let expected = [("one", 0), ("two", 9), ("three", 9), ("four", 99)];
        assert_eq!(lines, expected.map(|(line, time)| (line.to_owned(), time)));
    }
}
