//! Whether a check died of what it looked at.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::Signal;

/// What killed a check, if that was something that it did itself: whoever kills it from outside
/// (too little memory, an impatient user) sends other signals. `errors` is what it printed on
/// standard error.
pub fn died_of(status: ExitStatus, errors: &str) -> Option<&'static str> {
    const FATAL: [Signal; 5] = [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGFPE,
        Signal::SIGABRT,
    ];
    // What a shell says of a command that a signal ended.
    const SHELL: i32 = 128;
    // Go's runtime ends with this status, and says what happened.
    const GO: i32 = 2;
    let of_shell = || status.code().map(|code| code - SHELL);
    let signal = status.signal().or_else(of_shell);
    let fatal = FATAL.iter().find(|fatal| signal == Some(**fatal as i32));
    let is_of_go =
        |line: &str| line.starts_with("fatal error: ") || line.starts_with("[signal SIG");
    let of_go = status.code() == Some(GO) && errors.lines().any(is_of_go);
    fatal
        .map(|signal| signal.as_str())
        .or(of_go.then_some("a fault in Go"))
}
