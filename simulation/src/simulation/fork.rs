//! Two simulations of one.

use std::path::PathBuf;

use super::{Settings, Simulation, own_directory};
use crate::error::{Error, Result};

impl Simulation {
    /// Another simulation of the same machines, with everything that is in flight: both go on from here,
    /// and what happens in one is nothing to the other. `consoles` is the directory for what its kernels
    /// say, and gets what they said before. This thread drives both.
    ///
    /// Only what is a machine's own is there twice. A file of the host that a machine has open stays one
    /// file.
    ///
    /// # Errors
    /// [`Error::InTheMiddle`] if the simulation stands still at a [point](super::Point), where a kernel
    /// waits for the answer of a device. If the kernel cannot be forked, or a disk has a behaviour of which
    /// there cannot be two.
    pub fn fork(&mut self, consoles: PathBuf) -> Result<Self> {
        if self.unanswered.is_some() || self.is_at_point {
            return Err(Error::InTheMiddle);
        }
        let directory = own_directory()?;
        let mut machines = Vec::new();
        for machine in &mut self.machines {
            machines.push(machine.forked(directory.path(), &consoles)?);
        }
        Ok(Self {
            machines,
            switch: self.switch.clone(),
            calendar: self.calendar.clone(),
            settings: Settings {
                consoles,
                ..self.settings.clone()
            },
            now_ns: self.now_ns,
            is_lock_step: self.is_lock_step,
            point: self.point,
            unanswered: None,
            is_at_point: false,
            messages: self.messages,
            directory,
        })
    }
}
