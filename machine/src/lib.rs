//! Where the program runs: a process under this kernel, or a User-Mode Linux guest of which the
//! program is the init.
//!
//! Whoever starts one gets a [`Running`] in either case: a stream in, a stream out, whether it
//! still does anything, and how it ended. What is said over the streams this crate does not know.

#![deny(unsafe_code)]

mod activity;
mod console;
mod guest;
mod held;
mod modules;
mod parent_death;
mod running;
mod uml;

use std::path::Path;

pub use activity::Activity;
pub use guest::{CHANNEL_BYTES_MAX, GUEST_COMMAND, GUEST_SHARED, run_guest};
pub use running::{End, Running};
pub use uml::Uml;

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
}

impl Machine {
    /// Starts this program with `arguments` in it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&self, arguments: &[&str]) -> anyhow::Result<Running> {
        match self {
            Self::Host => Running::process(arguments),
            Self::Uml(uml) => uml.start(arguments),
        }
    }

    /// Whether each start has a kernel of its own.
    pub fn is_guest(&self) -> bool {
        matches!(self, Self::Uml(_))
    }
}

/// This program; it may have been replaced by a newer build since it was started.
fn own_program() -> std::path::PathBuf {
    let program = std::env::current_exe().ok().filter(|program| program.exists());
    program.unwrap_or_else(|| Path::new("/proc/self/exe").into())
}
