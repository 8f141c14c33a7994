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
pub const GO_STATUS: i32 = 2;

/// What Go's runtime says if it got no memory, thread or descriptor: for want of these it ends on any
/// state.
pub const GO_WANTS: [&str; 5] = [
    "out of memory",
    "cannot allocate",
    "newosproc",
    "netpollinit failed",
    "eventfd failed",
];

/// What killed a check, if that was something that it did itself. `errors` is what it printed on
/// standard error.
pub fn died_of(status: ExitStatus, errors: &str) -> Option<&'static str> {
    match Ending::from(status) {
        Ending::Signal(signal) if FATAL.contains(&signal) => Some(signal.as_str()),
        Ending::Status(GO_STATUS) if errors.lines().any(is_fault_of_go) => Some("a fault in Go"),
        _ => None,
    }
}

fn is_fault_of_go(line: &str) -> bool {
    match line.strip_prefix("fatal error: ") {
        Some(why) => !GO_WANTS.iter().any(|wants| why.contains(wants)),
        None => line.starts_with("[signal SIG"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_go_lacks_is_no_fault_of_the_state() {
        for (line, is_fault) in [
            ("fatal error: fault", true),
            ("fatal error: concurrent map writes", true),
            ("[signal SIGSEGV: segmentation violation code=0x1]", true),
            ("fatal error: newosproc", false),
            ("fatal error: out of memory (stackalloc)", false),
            ("fatal error: runtime: out of memory", false),
            ("fatal error: runtime: cannot allocate memory", false),
            ("fatal error: runtime: netpollinit failed", false),
            ("panic: no such row", false),
        ] {
            let errors = format!("runtime: something\n{line}\n\ngoroutine 1 [running]:\n");
            let died = died_of(ExitStatus::from_raw(GO_STATUS << 8), &errors);
            assert_eq!(died, is_fault.then_some("a fault in Go"), "{line}");
        }
    }
}
