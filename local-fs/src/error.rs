use std::io;
use std::path::PathBuf;

/// What went wrong with a file system, other than what a crash did to it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not a file system of the table.
    #[error("unknown file system '{name}' (known: {known})")]
    UnknownFileSystem {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// The running kernel does not have it.
    #[error("this kernel has no {name}; try `modprobe {name}`, for a guest --modules")]
    NotInKernel {
        /// The kernel's name of it.
        name: &'static str,
    },
    /// A program that is needed is not installed.
    #[error("{program} is missing; install it with `apt-get install {package}`")]
    ProgramMissing {
        /// The program.
        program: &'static str,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// The image is smaller than the file system can be.
    #[error(
        "an image of {given_mib} MiB is too small for {name}: it needs at least {needed_mib} MiB"
    )]
    TooSmall {
        /// The file system.
        name: &'static str,
        /// The size asked for.
        given_mib: u64,
        /// The smallest that works.
        needed_mib: u64,
    },
    /// It is repaired or driven by a program, and what a crash left of it is not what programs
    /// find.
    #[error(
        "programs cannot have a disk with {name}: take one that the kernel mounts as a crash left it, such as ext4"
    )]
    NotForPrograms {
        /// The file system.
        name: &'static str,
    },
    /// A program failed.
    #[error("{command}: {status}: {output}")]
    Program {
        /// The command line.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A program was ended by a signal from outside: by somebody, or by a kernel that is short of
    /// memory. Or it ended because the machine had no room for it.
    #[error("{what}")]
    Killed {
        /// The command line, and the signal or what it said.
        what: String,
    },
    /// A mount was refused.
    #[error("mount {name} from {device} with options '{options}': {source}")]
    Mount {
        /// The file system.
        name: &'static str,
        /// The block device.
        device: PathBuf,
        /// The options.
        options: String,
        /// The system's answer.
        source: io::Error,
    },
    /// What is mounted could not be brought to rest, or back.
    #[error("{doing}: {source}")]
    Rest {
        /// What was being done.
        doing: &'static str,
        /// The answer.
        source: io::Error,
    },
    /// It could not be unmounted.
    #[error("{0}")]
    Unmount(io::Error),
    /// The driver of a FUSE file system says that what is on the disk cannot be mounted.
    #[error("{program} does not mount it: {said}")]
    Refused {
        /// The driver.
        program: &'static str,
        /// What it printed.
        said: String,
    },
    /// The program that repairs a disk before it is mounted did not.
    #[error("it is not repaired: {said}")]
    Unrepaired {
        /// The program, how it ended and what it printed.
        said: String,
    },
    /// The driver of a FUSE file system crashed, or ended with a failure.
    #[error("{program} died: {how}{}{said}", if .said.is_empty() { "" } else { ": " })]
    DriverDied {
        /// The driver.
        program: &'static str,
        /// How it ended.
        how: String,
        /// What it printed; may be empty.
        said: String,
    },
    /// The driver of a FUSE file system was killed by somebody, or by us because it took too long, or the
    /// machine had no memory for it: that says nothing of what is on the disk.
    #[error("{program} {how}")]
    DriverLost {
        /// The driver.
        program: &'static str,
        /// What became of it.
        how: String,
    },
    /// Any other system call.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done to what; fits after "failed to".
        doing: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl Error {
    /// The error numbers of a mount that are about us and the machine, and not about what is on the
    /// disk.
    pub(crate) const OURS: [i32; 7] = [
        libc::EPERM,
        libc::EACCES,
        libc::ENOMEM,
        libc::EBUSY,
        libc::EMFILE,
        libc::ENFILE,
        libc::EINTR,
    ];

    /// What could not be done with what is mounted ([`Self::Rest`], [`Self::Unmount`]), and the
    /// answer, if that says something of what is on the disk. Whoever has a file of it open keeps it
    /// busy.
    pub fn refusal(&self) -> Option<(&'static str, &io::Error)> {
        let (doing, why) = match self {
            Self::Rest { doing, source } => (*doing, source),
            Self::Unmount(source) => ("unmounting", source),
            _ => return None,
        };
        let is_ours = |errno| errno == libc::EBUSY || is_about_machine(errno);
        (!why.raw_os_error().is_some_and(is_ours)).then_some((doing, why))
    }

    /// Why what is on the disk cannot be mounted, if this is an error that says so.
    pub fn unmountable(&self) -> Option<String> {
        match self {
            Self::Mount { source, .. } => {
                let ours = source
                    .raw_os_error()
                    .is_some_and(|errno| Self::OURS.contains(&errno));
                (!ours).then(|| source.to_string())
            }
            Self::Refused { .. } | Self::Unrepaired { .. } => Some(self.to_string()),
            _ => None,
        }
    }
}

/// Whether an error number says that the machine is short of memory or of open files, or that a call
/// was interrupted: that says nothing of what is on a disk.
pub fn is_about_machine(errno: i32) -> bool {
    [
        libc::ENOMEM,
        libc::EMFILE,
        libc::ENFILE,
        libc::EINTR,
        libc::EAGAIN,
    ]
    .contains(&errno)
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was being done when a system call failed.
pub(crate) trait Context<T> {
    fn doing<D: Into<String>>(self, doing: impl FnOnce() -> D) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn doing<D: Into<String>>(self, doing: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|source| Error::Io {
            doing: doing().into(),
            source: source.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_something_mounted_busy_is_not_the_file_system() {
        let refuses = |errno| {
            let source = || io::Error::from_raw_os_error(errno);
            let (unmount, doing) = (Error::Unmount(source()), "making it read-only");
            let rest = Error::Rest {
                doing,
                source: source(),
            };
            [unmount, rest].map(|error| error.refusal().is_some())
        };
        for errno in [libc::EBUSY, libc::ENOMEM, libc::EINTR] {
            assert_eq!(refuses(errno), [false; 2], "{errno}");
        }
        assert_eq!(refuses(libc::EIO), [true; 2]);
        assert_eq!(refuses(libc::EROFS), [true; 2]);
    }
}
