//! What is printed, and how.

use std::io::{self, Write};
use std::os::fd::AsFd;

use clap::ValueEnum;
use nix::poll::{PollFd, PollFlags, PollTimeout};

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// Findings and a table, for people.
    #[default]
    Text,
    /// One JSON object a line; see docs/json.md.
    Json,
}

/// Prints a line for people to standard error. If nobody reads it, it is not said.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whether an output is a pipe whose reader has gone.
pub fn is_closed(output: impl AsFd) -> bool {
    let mut poll = [PollFd::new(output.as_fd(), PollFlags::empty())];
    let polled = nix::poll::poll(&mut poll, PollTimeout::ZERO);
    polled.is_ok()
        && poll[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLERR))
}
