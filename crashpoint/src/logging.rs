//! What is logged on standard error: nothing, unless `-v` or `RUST_LOG` asks for it.

use std::io::{self, IsTerminal};

use anyhow::{Context, anyhow};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// What is read where no `-v` was given.
const VARIABLE: &str = "RUST_LOG";

/// Begins to log what the number of `-v` says, or without one what the environment says. Workers
/// log the same.
///
/// # Errors
/// If the environment does not say it in a way that is understood.
pub(crate) fn start(verbose: u8) -> anyhow::Result<()> {
    let filter = match verbose {
        0 => match from_environment()? {
            Some(filter) => filter,
            None => return Ok(()),
        },
        1 => "info".to_owned(),
        2 => "debug".to_owned(),
        _ => "trace".to_owned(),
    };
    log(&filter).with_context(|| {
        format!("{VARIABLE}={filter} is not understood: try info, or local_fs=debug,cluster=info")
    })?;
    ::machine::have_workers_log(filter);
    Ok(())
}

/// Begins to log what the process logs that has started this one, if that was to be inherited.
pub(crate) fn inherit() {
    if let Ok(filter) = std::env::var(::machine::LOG_FILTER) {
        // It was understood there.
        let _ = log(&filter);
    }
}

fn from_environment() -> anyhow::Result<Option<String>> {
    let given = std::env::var_os(VARIABLE).filter(|text| !text.is_empty());
    let text = given.map(std::ffi::OsString::into_string).transpose();
    text.map_err(|text| anyhow!("{VARIABLE}={} is not text", text.display()))
}

fn log(filter: &str) -> Result<(), ParseError> {
    let filter = EnvFilter::builder().parse(filter)?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // It would complain on standard error that standard error is closed.
        .log_internal_errors(false)
        .init();
    Ok(())
}
