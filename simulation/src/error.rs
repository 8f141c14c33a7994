use std::io;
use std::path::PathBuf;

/// The result of what is done with simulated machines.
pub type Result<T> = std::result::Result<T, Error>;

/// Why machines cannot be simulated, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This host refuses something.
    #[error("{doing}: {error}")]
    System {
        /// What was to be done.
        doing: String,
        /// Why it is not.
        error: io::Error,
    },
    /// A machine's kernel does not do what a kernel on a calendar does.
    #[error("the kernel of {machine} {what}{}", last_words(.console))]
    Kernel {
        /// The machine.
        machine: String,
        /// What it does instead.
        what: String,
        /// The last lines of its console.
        console: Vec<String>,
    },
    /// There is no room for the memory of a machine.
    #[error(
        "there is no room for the memory of {machine}, {memory_mib} MiB, in {}, where {free_mib} MiB are free: \
         free some, or set TMPDIR to a directory with more", .directory.display()
    )]
    NoMemory {
        /// The machine.
        machine: String,
        /// Its memory, in MiB.
        memory_mib: u64,
        /// Where the file with it was to be.
        directory: PathBuf,
        /// What is free there, in MiB.
        free_mib: u64,
    },
    /// A power failure was to cost what no power failure may.
    #[error(transparent)]
    Selection(#[from] pace_rules::disk::NoSuchState),
    /// It was to be forked where a kernel waits for the answer of a device.
    #[error("machines cannot be forked in the middle of a request")]
    InTheMiddle,
    /// Somebody asked for the end.
    #[error("it was interrupted")]
    Interrupted,
}

fn last_words(console: &[String]) -> String {
    if console.is_empty() {
        "; its console says nothing".into()
    } else {
        format!("; its console ends: {}", console.join(" | "))
    }
}

/// Says what was being done when something failed.
pub(crate) trait Context<T> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::System {
            doing: doing(),
            error: error.into(),
        })
    }
}
