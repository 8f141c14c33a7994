//! Processes that were started, and who else is waited for.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use campaign::say;

/// After so long without its program, a recording says what it waits for.
const SILENCE: Duration = Duration::from_secs(3);

/// Whether a process is gone, or waits to be waited for.
pub(crate) fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may have anything in it (proc(5)).
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

/// A program whose recording ends with the last process that it started.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    ended: Cell<Option<Instant>>,
    is_told: Cell<bool>,
}

impl Waiting {
    /// Says, once, that the program has ended and something that it started runs on.
    pub(crate) fn look_at(&self, pid: u32) {
        if self.is_told.get() || !has_ended(pid) {
            return;
        }
        let ended = self.ended.get().unwrap_or_else(Instant::now);
        self.ended.set(Some(ended));
        if ended.elapsed() >= SILENCE {
            self.is_told.set(true);
            say(
                "the program has ended, and a process that it started has not: the recording waits \
                 for it (Ctrl-C ends it)",
            );
        }
    }
}
