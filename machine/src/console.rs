use std::collections::VecDeque;
use std::io::{BufRead, BufReader, PipeReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Whether it is shown on standard error as well.
    shown: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Console {
    /// Collects from a stream until its end.
    ///
    /// # Errors
    /// If there can be no more threads.
    pub(crate) fn collect(stream: PipeReader) -> std::io::Result<Self> {
        let (lines, shown) = (Arc::default(), Arc::default());
        let (kept, show) = (Arc::clone(&lines), Arc::clone(&shown));
        let reader =
            Builder::new().spawn(move || read_lines(BufReader::new(stream), &kept, &show))?;
        Ok(Self {
            lines,
            shown,
            reader: Some(reader),
        })
    }

    /// Shows what is said from now on.
    pub(crate) fn show(&self) {
        self.shown.store(true, Ordering::Relaxed);
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
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }
}

fn read_lines(mut stream: impl BufRead, kept: &Mutex<VecDeque<String>>, show: &AtomicBool) {
    let mut bytes = Vec::new();
    // A kernel ends with an empty line or two: empty lines are shown when something follows.
    let mut blank = Vec::new();
    while stream
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|length| length > 0)
    {
        // The kernel may have begun a line.
        if bytes.trim_ascii().ends_with(STARTED.trim_ascii()) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
            bytes.clear();
            continue;
        }
        if show.load(Ordering::Relaxed) {
            blank.extend_from_slice(&bytes);
            if !bytes.trim_ascii().is_empty() {
                // If nobody reads it, it is not said.
                let _ = std::io::stderr().write_all(&blank);
                blank.clear();
            }
        }
        let line = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= LINES_MAX {
            kept.pop_front();
        }
        kept.push_back(line);
        bytes.clear();
    }
}
