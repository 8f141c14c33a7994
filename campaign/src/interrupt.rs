//! Being asked to stop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::INCOMPLETE;

/// A signal that comes this long after the first one means that patience is at its end.
const SECOND_THOUGHT: Duration = Duration::from_secs(1);

/// How long after an interrupt a worker may take for what it has begun.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(20);

/// Whether the user asked to stop (Ctrl-C, SIGTERM). From then on nothing new is begun.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<(AtomicBool, OnceLock<Instant>)>);

impl Interrupt {
    /// Watches for SIGINT, SIGTERM and SIGHUP. Asked again after a while, the process does not
    /// wait for anything any more: the workers end by themselves.
    ///
    /// # Errors
    /// If they cannot be caught.
    pub fn watch() -> io::Result<Self> {
        let this = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let requested = this.clone();
        std::thread::spawn(move || {
            let mut first = None;
            for _ in signals.forever() {
                requested.request();
                // Whoever signals a whole group may reach us twice at once.
                if first.get_or_insert_with(Instant::now).elapsed() > SECOND_THOUGHT {
                    std::process::exit(INCOMPLETE.into());
                }
            }
        });
        Ok(this)
    }

    /// Whether it was asked for.
    pub fn requested(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// Whether it was asked for so long ago that what is being done is not waited for any more.
    pub fn is_out_of_patience(&self) -> bool {
        self.requested() && self.0.1.get_or_init(Instant::now).elapsed() > INTERRUPT_PATIENCE
    }

    /// Asks for it from within: the output is closed, or the disk is full.
    pub fn request(&self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}
