//! Why something cannot run in a machine.

use std::io;
use std::path::PathBuf;

/// The result of what is done with machines.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a machine cannot be found or started, or what went wrong in a guest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel of the host, or that of the guest, refuses something. The cause is in the words.
    #[error("{doing}: {error}")]
    System {
        /// What was to be done, and to what.
        doing: String,
        /// Why it is not.
        error: io::Error,
    },
    /// This processor has no User-Mode Linux.
    #[error("User-Mode Linux runs on x86-64 only: do without --kernel uml on this processor")]
    NoGuests,
    /// No kernel is installed.
    #[error(
        "there is no User-Mode Linux kernel: `apt-get install {package}`, or build one with \
         scripts/build-uml.sh and name it with --kernel uml:PATH"
    )]
    NoKernel {
        /// The package that has one.
        package: &'static str,
    },
    /// No kernel with virtual time was built.
    #[error(
        "there is no kernel with virtual time, which --virtual-time and --simulate need: build it \
         with scripts/build-uml.sh (some minutes, once), or name one with --kernel"
    )]
    NoVirtualKernel,
    /// There is no place for kernels that were built.
    #[error(
        "neither XDG_CACHE_HOME nor HOME says where kernels are kept: name one with \
         --kernel uml:PATH"
    )]
    NoCache,
    /// What was named as a kernel is no program.
    #[error("{0} is not a program: --kernel uml:PATH takes the `linux` that `make ARCH=um` built")]
    NotAProgram(PathBuf),
    /// What was named as a kernel is a program of another kind.
    #[error("{path} is not a User-Mode Linux kernel: {why}")]
    NotAKernel {
        /// The program.
        path: PathBuf,
        /// How that shows.
        why: String,
    },
    /// What was named as the directory of modules is none.
    #[error("{0} is not a directory: --modules takes one")]
    NotADirectory(PathBuf),
    /// A kernel is not for this processor.
    #[error(
        "{path} is built for another architecture (ELF machine {machine}): User-Mode Linux takes \
         x86-64"
    )]
    Architecture {
        /// The kernel.
        path: PathBuf,
        /// What it is built for, as ELF numbers it.
        machine: u16,
    },
    /// A kernel knows of less processor state than there is, and no library can help it.
    #[error(
        "{path} cannot run a program on this processor, whose state has {host_bytes} bytes where \
         that kernel knows of {known_bytes} (AMX), and as it is linked statically no library can help \
         it: build it without CONFIG_STATIC_LINK, or with scripts/uml/6-whole-xstate.patch"
    )]
    TooMuchState {
        /// The kernel.
        path: PathBuf,
        /// The bytes of state that there are.
        host_bytes: usize,
        /// The bytes that it knows of.
        known_bytes: usize,
    },
    /// A kernel was built without something that is asked for.
    #[error("{path} has no {what}: build one that has with scripts/build-uml.sh")]
    Lacks {
        /// The kernel.
        path: PathBuf,
        /// What it does not have.
        what: String,
    },
    /// A kernel was built without devices of simulated machines.
    #[error(
        "{path} cannot be the kernel of a simulated machine, since it was built without {what}: \
         build one with scripts/build-uml.sh"
    )]
    NotForMachines {
        /// The kernel.
        path: PathBuf,
        /// What its configuration does not have.
        what: String,
    },
    /// A kernel cannot fork itself.
    #[error("{0} cannot be forked: build a kernel that can with scripts/build-uml.sh")]
    Unforkable(PathBuf),
    /// A path that no kernel can be given.
    #[error("the path of this program is not text: {0}")]
    PathNotText(PathBuf),
    /// A path that no kernel can be given.
    #[error("a guest cannot be started from a path with spaces{}", named(.0.as_ref()))]
    PathWithSpaces(Option<PathBuf>),
    /// A path that no list of libraries can have.
    #[error("a guest on this processor cannot be started from a TMPDIR with a colon in its path")]
    PathWithColon,
    /// A guest gave up before it was ready.
    #[error("the guest {kernel} does not start: {why}")]
    NotStarted {
        /// Its kernel.
        kernel: PathBuf,
        /// What is known of the cause.
        why: String,
    },
    /// There are no modules for the kernel of a guest.
    #[error("no modules of Linux {release} in {directory} (it has no modules.dep: run depmod)")]
    NoModules {
        /// The kernel's release.
        release: String,
        /// Where they were looked for.
        directory: PathBuf,
    },
    /// A directory of the guest's own hides a file.
    #[error(
        "it has a {directory} of its own and does not see {file}: move that to a directory in \
         {directory}, or elsewhere"
    )]
    Hidden {
        /// The directory.
        directory: PathBuf,
        /// The file.
        file: PathBuf,
    },
    /// What a guest is told to do cannot be read or written.
    #[error("the orders of a guest: {0}")]
    Orders(serde_json::Error),
    /// A guest was started for a command, and there is none.
    #[error("there is no command")]
    NoCommand,
    /// A program in a guest failed.
    #[error("the program in the guest {0}")]
    GuestProgram(String),
    /// The guest has a network and cannot use it.
    #[error("the loopback device cannot be switched on")]
    NoLoopback,
    /// One of our own processes was not told what it needs.
    #[error("no {0} is named")]
    NotNamed(&'static str),
    /// A process that traced another did not say what it saw.
    #[error("{0}")]
    NotTraced(String),
}

fn named(path: Option<&PathBuf>) -> String {
    path.map_or_else(String::new, |path| format!(": {}", path.display()))
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
