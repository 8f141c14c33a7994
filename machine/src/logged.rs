//! Commands whose start and end are logged, and workers that log what their parent does.

use std::io;
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::OnceLock;
use std::time::Instant;

/// The environment variable by which workers under this kernel learn what to log. It is not
/// `RUST_LOG`, since a program under test may listen to that.
pub const LOG_FILTER: &str = "CRASHPOINT_LOG";

static FILTER: OnceLock<String> = OnceLock::new();

/// Has workers that are started from now on log what this filter lets through.
pub fn have_workers_log(filter: String) {
    // Whoever came first has said it for this process.
    let _ = FILTER.set(filter);
}

/// Tells a worker what to log.
pub(crate) fn hand_on(command: &mut Command) {
    match FILTER.get() {
        Some(filter) => command.env(LOG_FILTER, filter),
        None => command.env_remove(LOG_FILTER),
    };
}

/// Commands that are logged when they are started or have ended.
pub trait Logged {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    fn spawn_logged(&mut self) -> io::Result<Child>;

    /// Runs it to its end, and collects what it prints.
    ///
    /// # Errors
    /// If it cannot be started.
    fn output_logged(&mut self) -> io::Result<Output>;

    /// Runs it to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    fn status_logged(&mut self) -> io::Result<ExitStatus>;
}

impl Logged for Command {
    fn spawn_logged(&mut self) -> io::Result<Child> {
        let child = self.spawn().inspect_err(|error| log_failure(self, error))?;
        tracing::info!(pid = child.id(), command = words_of(self), "started");
        Ok(child)
    }

    fn output_logged(&mut self) -> io::Result<Output> {
        let begun = Instant::now();
        let output = self
            .output()
            .inspect_err(|error| log_failure(self, error))?;
        log_end(self, output.status, begun);
        Ok(output)
    }

    fn status_logged(&mut self) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        let status = self
            .status()
            .inspect_err(|error| log_failure(self, error))?;
        log_end(self, status, begun);
        Ok(status)
    }
}

/// Logs that a command has ended.
pub fn log_end(command: &Command, status: ExitStatus, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    tracing::info!(command = words_of(command), %status, seconds, "ran");
}

fn log_failure(command: &Command, error: &io::Error) {
    tracing::info!(command = words_of(command), %error, "could not run");
}

/// The words of a command.
pub fn words_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
