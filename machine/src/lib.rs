//! Where the program runs: a process under this kernel, or a User-Mode Linux guest of which the
//! program is the init.
//!
//! Whoever starts one gets a [`Running`] in either case: a stream in, a stream out, whether it
//! still does anything, and how it ended. What is said over the streams this crate does not know.

#![deny(unsafe_code)]

mod activity;
mod capabilities;
mod causes;
mod console;
mod descriptors;
mod error;
mod guest;
mod held;
mod keeper;
mod kernel_file;
mod logged;
mod modules;
mod mounts;
mod other_boot;
mod packets;
mod pidfd;
mod processor;
mod remover;
mod running;
mod spool;
mod system;
mod thread;
mod uml;
mod xstate;

use std::path::Path;
use std::process::ExitCode;

pub use activity::{Activity, waited_for_processor};
pub use causes::of_host as host_cause;
pub use error::{Error, Result};
pub use guest::{CHANNEL_BYTES_MAX, GUEST_SHARED, GuestCommand};
pub use logged::{LOG_FILTER, Logged, have_workers_log, log_end, words_of};
pub use mounts::{have_no_mounts, have_other_boot_id, have_own_mounts};
pub use other_boot::{OtherBoot, skip_numbers};
pub use packets::{FRAME_BYTES_MAX, OFFLOAD_BYTES, PacketSocket};
pub use pidfd::{open_process, signal_process};
pub use processor::{go_first, on_one_processor, stay_on_one_processor};
pub use remover::OwnDirectory;
pub use running::{End, Running, panic_line};
pub use spool::Spool;
pub use system::{cover_guest_temporary, mount_guest_system};
pub use thread::ThreadBody;
pub use uml::{MEMORY_DIRECTORY, Uml, is_guest_directory, memory_room};
pub use xstate::{GUEST_STATE_BYTES, host_state_bytes, write_shim};

/// How the names of our directories start; the process id of their owner follows.
pub const NAME_PREFIX: &str = "crashpoint-";

/// A kernel to run under.
#[derive(Debug, Clone, Default)]
pub enum Machine {
    /// The one that we run under ourselves.
    #[default]
    Host,
    /// A process of its own.
    Uml(Uml),
    /// None: a thread of this process takes the place of the program. Only tests want that.
    Thread(ThreadBody),
}

impl Machine {
    /// Starts this program with `arguments` in it. Where time is virtual `input` is all that it
    /// will get; elsewhere it is not looked at, and the stream into the program is open.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, arguments: &[&str], input: &[u8]) -> Result<Running> {
        match self {
            Self::Host => Running::process(arguments),
            Self::Uml(uml) => uml.start_program(arguments, uml.virtual_time.map(|_| input)),
            Self::Thread(body) => Running::thread(body),
        }
    }

    /// Whether time is virtual in it: then everything that it is to do must be known when it
    /// starts.
    pub fn has_virtual_time(&self) -> bool {
        matches!(
            self,
            Self::Uml(Uml {
                virtual_time: Some(_),
                ..
            })
        )
    }

    /// The same, where each kernel of its own loads modules too when it starts, if there are such.
    #[must_use]
    pub fn with_modules(mut self, names: &[&str]) -> Self {
        if let Self::Uml(uml) = &mut self {
            uml.load.extend(names.iter().map(|name| (*name).to_owned()));
        }
        self
    }

    /// The same, where each kernel of its own sees these files of the host's, also where it has
    /// directories of its own.
    #[must_use]
    pub fn with_files(mut self, paths: &[&Path]) -> Self {
        if let Self::Uml(uml) = &mut self {
            uml.files
                .extend(paths.iter().map(|path| (*path).to_owned()));
        }
        self
    }

    /// Whether each start has a kernel of its own.
    pub fn is_guest(&self) -> bool {
        matches!(self, Self::Uml(_))
    }
}

/// Does what the program was started for by this crate, if it was. Every program that starts a
/// [`Machine`] must call this first.
pub fn run_hidden() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let command = arguments.next()?;
    if command == guest::GUEST_COMMAND {
        guest::run_guest(Path::new(&arguments.next()?));
    }
    let outcome = if command == keeper::KEEPER_COMMAND {
        keeper::keep(arguments)
    } else if command == xstate::STATE_COMMAND {
        xstate::print_host_state()
    } else if command == remover::REMOVER_COMMAND {
        remover::remove_later(arguments)
    } else if command == other_boot::BOOT_COMMAND {
        other_boot::be_first(arguments)
    } else if command == keeper::KEPT_COMMAND {
        keeper::become_kept(arguments).map(|never| match never {})
    } else {
        return None;
    };
    Some(outcome.unwrap_or_else(|error| {
        // The console is all there is.
        eprintln!("crashpoint: {error}");
        ExitCode::from(2)
    }))
}

/// This program; it may have been replaced by a newer build since it was started.
fn own_program() -> std::path::PathBuf {
    let program = std::env::current_exe()
        .ok()
        .filter(|program| program.exists());
    program.unwrap_or_else(|| Path::new("/proc/self/exe").into())
}
