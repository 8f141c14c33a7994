//! The disks that crash states are mounted from: while the file system's own checker looks at
//! one, the next state is mounted from the other.

use std::collections::HashMap;
use std::sync::Arc;

use block_dev::{Base, FrontEnd, Image, MemfdDisk};
use local_fs::{FsckReport, Variant};

use crate::engine::EngineError;
use crate::fsck::{Fsck, FsckPlace, RunningCheck};
use crate::result::Timing;
use crate::stopwatch::Stopwatch;
use crate::test_bed::Ticket;

struct Slot {
    disk: MemfdDisk,
    fsck: Fsck,
    check: Option<(Ticket, RunningCheck)>,
}

/// Two disks, of which one is the current one.
pub(crate) struct CrashedDisks {
    slots: [Slot; 2],
    current: usize,
    tickets: u64,
    reports: HashMap<Ticket, Result<FsckReport, EngineError>>,
}

impl CrashedDisks {
    pub(crate) fn new(base: &Arc<Base>, place: &FsckPlace) -> block_dev::Result<Self> {
        let slot = |number| -> block_dev::Result<Slot> {
            Ok(Slot {
                disk: MemfdDisk::new(base)?,
                fsck: Fsck::new(place, number, base)?,
                check: None,
            })
        };
        Ok(Self {
            slots: [slot(0)?, slot(1)?],
            current: 0,
            tickets: 0,
            reports: HashMap::new(),
        })
    }

    /// The disk to use.
    pub(crate) fn current(&mut self) -> &mut MemfdDisk {
        &mut self.slots[self.current].disk
    }

    /// Goes on to the other disk, once its check has ended.
    pub(crate) fn turn(&mut self) {
        self.current = 1 - self.current;
        self.settle(self.current);
    }

    fn settle(&mut self, slot: usize) {
        if let Some((ticket, check)) = self.slots[slot].check.take() {
            self.reports.insert(ticket, check.finish());
        }
    }

    /// Makes the current disk hold `image`, repaired where that has to be done before it is
    /// mounted; otherwise says why that did not work.
    pub(crate) fn load(
        &mut self,
        variant: &Variant,
        image: &Image,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Result<(), String>, EngineError> {
        let Slot { disk, fsck, .. } = &mut self.slots[self.current];
        fsck.load(variant, image, disk, watch, timing)
    }

    /// What the current disk holds at places, as far as that can be told.
    pub(crate) fn names(
        &mut self,
        variant: &Variant,
        places: &[(u64, u64)],
    ) -> Result<Vec<Option<String>>, EngineError> {
        let Slot { disk, fsck, .. } = &mut self.slots[self.current];
        fsck.names(variant, disk, places)
    }

    /// Starts the check of the current disk, which must not be touched before the next turn. None
    /// where there is no checker.
    pub(crate) fn check(&mut self, variant: &Variant) -> Result<Option<Ticket>, EngineError> {
        let slot = &mut self.slots[self.current];
        if variant.file_system.driver.is_some() {
            slot.disk.settle()?;
        }
        let Some(check) = slot.fsck.start(variant, &mut slot.disk)? else {
            return Ok(None);
        };
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        slot.check = Some((ticket, check));
        Ok(Some(ticket))
    }

    /// What a check said, once it has ended.
    ///
    /// # Panics
    /// If it was asked for before, or never started.
    pub(crate) fn report(&mut self, ticket: Ticket) -> Result<FsckReport, EngineError> {
        let running = |slot: &Slot| {
            slot.check
                .as_ref()
                .is_some_and(|(other, _)| *other == ticket)
        };
        if let Some(slot) = self.slots.iter().position(running) {
            self.settle(slot);
        }
        self.reports
            .remove(&ticket)
            .expect("every check has one report")
    }
}
