//! Records what processes do to a directory of files, and what they say to each other: every system
//! call that matters, of all threads and children, in any language.
//!
//! The recorder is an observer of the crate `tracer`, which stops the threads of a node at their
//! calls. What is not followed is counted in [`trace_store::About::not_recorded`], and at the end the
//! directory is compared with what was recorded: if they differ, that is counted as well.
//!
//! What it does to those who are recorded: `io_uring_setup` and `io_setup` fail with ENOSYS, since
//! what goes through a ring or a queue makes no calls that could be looked at; calls that change the directory's files are made one at a time,
//! so that their order is known; and they all end when the recorder does.

mod changes;
mod describe;
mod error;
mod extents;
mod files;
mod gate;
mod join;
mod log;
mod mappings;
mod marks;
mod name_calls;
mod names;
mod opens;
mod recording;
mod schedule;
mod snapshot;
mod sockets;
mod syncs;
mod tree;
mod unfollowed;
mod writes;
mod xattrs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::SystemTime;

use machine::Spool;
use trace::InitialFile;
use trace_store::{About, Trace};
use tracer::{Options, Table};

use recording::Recording;

pub use describe::describe;
pub use error::{Error, Result};
pub use join::join;
pub use log::NodeTrace;
pub use schedule::Schedule;

/// What is recorded of a node.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// The node's name.
    pub name: String,
    /// Its directory of data, which must be there: operations on files below it are recorded. It is
    /// known by its inode, so that it may have another path for the node.
    pub directory: Option<PathBuf>,
    /// Whether the lines that its processes write to the standard output of the first one are
    /// acknowledgements.
    pub marks: bool,
    /// On which of the processors that this process may use it runs, with its tracer; on any of
    /// them if that is not said. The two take turns, and to wake each other on another processor
    /// takes longer than most turns. So it is for nodes of which there are as many as processors,
    /// or more.
    pub processor: Option<usize>,
    /// Whether only the node's disk will be looked at: then no call is refused. Those that cannot be
    /// followed are counted.
    pub disk_only: bool,
    /// What is done on its disk between its calls.
    pub schedule: Schedule,
    /// The directory on its disk, outside of its own, in which that is done; without one nothing is.
    pub bystander: Option<PathBuf>,
}

/// A node that is recorded. Its processes are killed when it is dropped, or this program ends.
pub type Traced = tracer::Traced<NodeTrace, Error>;

/// Takes a snapshot of the node's directory, starts the program, and records it and all that it
/// starts. `command` may have hooks of its own to be run before its program is; they are not
/// recorded.
///
/// # Errors
/// If the directory cannot be read, or the program not be started.
pub fn start(options: NodeOptions, command: Command) -> Result<Traced> {
    let how = Options {
        name: options.name.clone(),
        processor: options.processor,
    };
    let table = Table {
        rows: rows(&command),
    };
    tracer::start(how, table, command, move || Recording::new(options))
}

/// The files of a directory as they are, and the bytes that are said to be in them.
///
/// # Errors
/// If one of them cannot be read.
pub fn files_in(directory: &Path) -> Result<(Vec<InitialFile>, Spool)> {
    let mut data = Spool::default();
    let begun = snapshot::begin(directory, &mut data);
    let begun = begun.map_err(|(path, error)| Error::Directory { path, error })?;
    Ok((begun.initial, data))
}

/// The calls that are looked at.
#[cfg(not(test))]
fn rows(_: &Command) -> Vec<tracer::calls::Row> {
    tracer::calls::ROWS.to_vec()
}

/// What there is to say of a recording that begins now: the version, the kernel, the time.
pub fn about_now() -> About {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    About {
        crashpoint: env!("CARGO_PKG_VERSION").into(),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        begun_s: since_1970.map_or(0, |since| since.as_secs()),
        ..About::default()
    }
}

/// Records one program, which is a cluster of one, until it and all that it started have ended.
/// Somebody may want no more of it before that, and is asked with the program's process id: then they
/// are killed, and there is nothing.
///
/// # Errors
/// If it cannot be started or recorded.
pub fn record(
    options: NodeOptions,
    command: Command,
    cancelled: &dyn Fn(u32) -> bool,
) -> Result<Option<(Trace, ExitStatus)>> {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    let mut about = about_now();
    about.commands.insert(options.name.clone(), words);
    about.schedule = options
        .bystander
        .is_some()
        .then(|| options.schedule.to_string());
    let started = start(options, command)?;
    let pid = started.pid();
    let Some(node) = started.wait_unless(&|| cancelled(pid))? else {
        return Ok(None);
    };
    let status = node.status;
    Ok(Some((join(vec![node], about), status)))
}

#[cfg(test)]
use tests::rows;

#[cfg(test)]
mod tests;
