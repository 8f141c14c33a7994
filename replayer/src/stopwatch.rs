//! Where the time goes.

use std::time::Instant;

/// Tells where time goes. It looks at the clock once for each step, since in a guest that is a
/// system call; what lies between two steps counts for the second one.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn restart(&mut self) {
        self.0 = Instant::now();
    }

    /// When it was last looked at.
    pub(crate) fn last(&self) -> Instant {
        self.0
    }

    /// Adds the microseconds since it was last looked at.
    pub(crate) fn lap(&mut self, total_us: &mut u64) {
        let now = Instant::now();
        *total_us += (now - self.0).as_micros() as u64;
        self.0 = now;
    }
}
