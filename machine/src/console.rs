use std::collections::VecDeque;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use crate::guest::STARTED;

/// Lines that are kept: more than any report of a panic has.
const LINES_MAX: usize = 400;

/// Bytes of a line that are kept.
const LINE_BYTES_MAX: u64 = 2048;

/// The last lines of a guest's console since it has started, or of its start if it has not, which a
/// thread collects.
#[derive(Debug)]
pub(crate) struct Console {
    said: Arc<Mutex<Said>>,
    reader: Option<JoinHandle<()>>,
}

/// What was said on a console.
#[derive(Debug, Default)]
struct Said {
    lines: VecDeque<Vec<u8>>,
    /// Whether these are lines since the start.
    has_started: bool,
    /// Whether they are shown on standard error as well.
    is_shown: bool,
    /// A kernel ends with an empty line or two: empty lines are shown when something follows.
    blank: Vec<u8>,
}

impl Console {
    /// Collects from a stream until its end.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(crate) fn collect(stream: PipeReader) -> std::io::Result<Self> {
        let said = Arc::default();
        let of_reader = Arc::clone(&said);
        let reader = Builder::new().spawn(move || {
            read_lines(BufReader::new(stream), &of_reader, &mut std::io::stderr());
        })?;
        Ok(Self {
            said,
            reader: Some(reader),
        })
    }

    /// Shows what was said since the start, and what is said from now on.
    pub(crate) fn show(&self) {
        show(&self.said, &mut std::io::stderr());
    }

    /// What it said, once nobody can say more: only to be called when the guest has ended.
    pub(crate) fn finish(&mut self) -> Vec<String> {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        self.so_far()
    }

    /// What it said until now.
    pub(crate) fn so_far(&self) -> Vec<String> {
        let said = lock(&self.said);
        let text = |line: &Vec<u8>| String::from_utf8_lossy(line).trim_end().to_owned();
        said.lines.iter().map(text).collect()
    }
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reader may be ahead: what a command said while nobody showed it yet is shown now.
fn show(said: &Mutex<Said>, to: &mut impl Write) {
    let mut said = lock(said);
    said.is_shown = true;
    if said.has_started {
        for line in said.lines.clone() {
            said.show(&line, to);
        }
    }
}

impl Said {
    fn add(&mut self, line: &[u8], to: &mut impl Write) {
        // The kernel may have begun a line.
        if line.trim_ascii().ends_with(STARTED.trim_ascii()) {
            self.has_started = true;
            return self.lines.clear();
        }
        if self.is_shown && self.has_started {
            self.show(line, to);
        }
        if self.lines.len() >= LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line.to_owned());
    }

    fn show(&mut self, line: &[u8], to: &mut impl Write) {
        self.blank.extend_from_slice(line);
        if !line.trim_ascii().is_empty() {
            // If nobody reads it, it is not said.
            let _ = to.write_all(&self.blank);
            self.blank.clear();
        }
    }
}

fn read_lines(mut stream: impl BufRead, said: &Mutex<Said>, to: &mut impl Write) {
    let mut line = Vec::new();
    while stream
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .is_ok_and(|length| length > 0)
    {
        lock(said).add(&line, to);
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown if somebody begins to show it after so many lines.
    fn shown(lines: &[&str], shown_after: usize) -> String {
        let (said, mut to) = (Mutex::default(), Vec::new());
        let (before, after) = lines.split_at(shown_after);
        read_lines(before.concat().as_bytes(), &said, &mut to);
        assert!(to.is_empty(), "nobody shows it yet");
        show(&said, &mut to);
        read_lines(after.concat().as_bytes(), &said, &mut to);
        String::from_utf8(to).expect("text")
    }

    #[test]
    fn what_is_said_since_the_start_is_shown_whenever_somebody_begins_to() {
        let started = std::str::from_utf8(STARTED).expect("text");
        let begun = format!("[    0.5] a line begun {}", started.trim_start());
        for started in [started, &begun] {
            let lines = ["boot\n", started, "said\n", "\n", "more\n", "\n"];
            for shown_after in 0..=lines.len() {
                assert_eq!(
                    shown(&lines, shown_after),
                    "said\n\nmore\n",
                    "{shown_after}"
                );
            }
        }
        assert_eq!(shown(&["boot\n", "panic\n"], 1), "");
    }
}
