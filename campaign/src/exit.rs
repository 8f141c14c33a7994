//! Exit statuses, and errors in one line.

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;

use crate::error::Cause;
use crate::output::say;

/// How a command went; the exit status says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was found.
    Clean,
    /// A promise was broken.
    Findings,
    /// Something could not be measured, or the user stopped it.
    Incomplete,
    /// Something that is needed is missing, and that was printed.
    CouldNotRun,
    /// Whoever read our output has had enough.
    OutputClosed,
    /// A command was run, and ended so.
    Command(u8),
}

impl Outcome {
    /// The same, but nothing that was broken off is clean.
    #[must_use]
    pub fn or_incomplete(self) -> Self {
        if self == Self::Clean {
            Self::Incomplete
        } else {
            self
        }
    }
}

/// Findings.
const FINDINGS: u8 = 1;
/// Usage, a missing program, no permission.
const COULD_NOT_RUN: u8 = 2;
/// Not everything was measured.
pub(crate) const INCOMPLETE: u8 = 3;

/// What the C library says of EMFILE, with what stands before the number.
const TOO_MANY_FILES: &str = "Too many open files (";

/// The exit status of a command, with its error printed in one line.
pub fn exit(result: Result<Outcome, impl Into<Cause>>) -> ExitCode {
    match result.map_err(Into::into) {
        Ok(Outcome::Clean | Outcome::OutputClosed) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(FINDINGS),
        Ok(Outcome::Incomplete) => ExitCode::from(INCOMPLETE),
        Ok(Outcome::Command(status)) => ExitCode::from(status),
        Ok(Outcome::CouldNotRun) => ExitCode::from(COULD_NOT_RUN),
        Err(error) if is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => fail(&one_line(error.as_ref())),
    }
}

/// The exit status for arguments that could not be parsed; prints help where that was asked
/// for, and otherwise what was wrong in one line.
pub fn exit_usage(error: &clap::Error) -> ExitCode {
    let kind = error.kind();
    if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // The reader may be gone.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(COULD_NOT_RUN);
    }
    fail(&usage_line(&error.to_string()))
}

fn fail(message: &str) -> ExitCode {
    say(&format!("error: {message}"));
    ExitCode::from(COULD_NOT_RUN)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    causes(error)
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// An error with its causes on one line, each of which is left out where the one before says it
/// already.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = String::new();
    for cause in causes(error).map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.contains(&cause) {
            write!(line, ": {cause}").expect("a string takes it");
        }
    }
    let is_short_of_files = line.contains(TOO_MANY_FILES) && !line.contains("ulimit");
    line += if is_short_of_files {
        "; raise the limit on open files (`ulimit -n`)"
    } else {
        ""
    };
    line.replace('\n', " ")
}

/// What clap says, without the usage and on one line.
fn usage_line(text: &str) -> String {
    let said = text.lines().map(str::trim);
    let said = said.take_while(|line| {
        !line.starts_with("Usage:") && !line.starts_with("For more information")
    });
    let mut message = String::new();
    for line in said.filter(|line| !line.is_empty()) {
        let separator = match message.chars().last() {
            None => "",
            Some(':') => " ",
            Some(_) if line.starts_with('[') || line.starts_with('<') => " ",
            Some(_) => "; ",
        };
        message += separator;
        message += line;
    }
    message.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words with the error that they are about.
    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str, #[source] Cause);

    #[test]
    fn a_usage_error_is_one_line_without_the_usage() {
        let text = "error: unexpected argument '--job' found\n\n  tip: a similar argument exists: '--jobs'\n\nUsage: x\n";
        assert_eq!(
            usage_line(text),
            "unexpected argument '--job' found; tip: a similar argument exists: '--jobs'"
        );
        let text = "error: the following required arguments were not provided:\n  --fs <FS>\n\nUsage: x --fs\n";
        assert_eq!(
            usage_line(text),
            "the following required arguments were not provided: --fs <FS>"
        );
        let text = "error: invalid value 'x' for '--format <F>'\n  [possible values: text]\n\nFor more information, try\n";
        assert_eq!(
            usage_line(text),
            "invalid value 'x' for '--format <F>' [possible values: text]"
        );
    }

    #[test]
    fn who_may_open_no_more_files_is_told_what_to_raise() {
        let error = Said("open x", io::Error::from_raw_os_error(24).into());
        let expected = "open x: Too many open files (os error 24); raise the limit on open files (`ulimit -n`)";
        assert_eq!(one_line(&error), expected);
    }

    #[test]
    fn a_cause_is_not_said_twice() {
        let cause = Said("open x: no such file", "no such file".into());
        let error = Said("sweep", cause.into());
        assert_eq!(one_line(&error), "sweep: open x: no such file");
    }
}
