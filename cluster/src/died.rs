//! Whether a check died of what it looked at.

use std::process::ExitStatus;

use nix::sys::signal::Signal;

use crate::process::Ending;

/// Signals for what a program did itself: whoever kills it from outside (too little memory, an
/// impatient user) sends others.
const FATAL: [Signal; 5] = [
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGILL,
    Signal::SIGFPE,
    Signal::SIGABRT,
];

/// With this status Go's runtime ends, and says what happened.
const GO: i32 = 2;

/// What killed a check, if that was something that it did itself. `errors` is what it printed on
/// standard error.
pub fn died_of(status: ExitStatus, errors: &str) -> Option<&'static str> {
    let is_of_go =
        |line: &str| line.starts_with("fatal error: ") || line.starts_with("[signal SIG");
    match Ending::from(status) {
        Ending::Signal(signal) if FATAL.contains(&signal) => Some(signal.as_str()),
        Ending::Status(GO) if errors.lines().any(is_of_go) => Some("a fault in Go"),
        _ => None,
    }
}
