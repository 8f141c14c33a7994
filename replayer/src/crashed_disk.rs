//! The disk that crash states are mounted from. The file system's own checker looks at copies of
//! it, while it is used and the next state is mounted.

use std::collections::HashMap;
use std::sync::Arc;

use block_dev::{Base, FrontEnd, Image, MemfdDisk};
use local_fs::{FsckReport, Variant};

use crate::engine::EngineError;
use crate::fsck::{Fsck, FsckPlace, RunningCheck};
use crate::result::Timing;
use crate::stopwatch::Stopwatch;
use crate::test_bed::Ticket;

/// So many checks run side by side.
const CHECKS: u32 = 2;

/// A copy for the checker, and what looks at it.
struct Copy {
    fsck: Fsck,
    check: Option<(Ticket, RunningCheck)>,
}

/// The disk, and copies of it for the checker.
pub(crate) struct CrashedDisk {
    disk: MemfdDisk,
    copies: Vec<Copy>,
    /// Which copy is the next to be checked.
    next: usize,
    tickets: u64,
    reports: HashMap<Ticket, Result<FsckReport, EngineError>>,
}

impl CrashedDisk {
    pub(crate) fn new(base: &Arc<Base>, place: &FsckPlace) -> block_dev::Result<Self> {
        let copy = |slot| -> block_dev::Result<Copy> {
            Ok(Copy {
                fsck: Fsck::new(place, slot, base)?,
                check: None,
            })
        };
        Ok(Self {
            disk: MemfdDisk::new(base)?,
            copies: (0..CHECKS).map(copy).collect::<Result<_, _>>()?,
            next: 0,
            tickets: 0,
            reports: HashMap::new(),
        })
    }

    /// The disk itself.
    pub(crate) fn disk(&self) -> &MemfdDisk {
        &self.disk
    }

    /// What a check said is kept, once it has ended.
    fn settle(&mut self, copy: usize) {
        if let Some((ticket, check)) = self.copies[copy].check.take() {
            self.reports.insert(ticket, check.finish());
        }
    }

    /// The disk, and a copy that nothing looks at.
    fn parts(&mut self) -> (&mut MemfdDisk, &mut Copy) {
        self.settle(self.next);
        (&mut self.disk, &mut self.copies[self.next])
    }

    /// Makes the disk hold `image`, repaired where that has to be done before it is mounted;
    /// otherwise says why that did not work.
    pub(crate) fn load(
        &mut self,
        variant: &Variant,
        image: &Image,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Result<(), String>, EngineError> {
        if variant.file_system.repair.is_some() {
            // A host repairs the copy.
            self.settle(self.next);
            watch.lap(&mut timing.fsck_us);
        }
        let fsck = &mut self.copies[self.next].fsck;
        fsck.load(variant, image, &mut self.disk, watch, timing)
    }

    /// What the disk holds at places, as far as that can be told.
    pub(crate) fn names(
        &mut self,
        variant: &Variant,
        places: &[(u64, u64)],
    ) -> Result<Vec<Option<String>>, EngineError> {
        let (disk, copy) = self.parts();
        copy.fsck.names(variant, disk, places)
    }

    /// Starts a check of what the disk holds now. None where there is no checker.
    pub(crate) fn check(&mut self, variant: &Variant) -> Result<Option<Ticket>, EngineError> {
        if variant.file_system.driver.is_some() {
            self.disk.settle()?;
        }
        let (disk, copy) = self.parts();
        let Some(check) = copy.fsck.start(variant, disk)? else {
            return Ok(None);
        };
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.copies[self.next].check = Some((ticket, check));
        self.next = (self.next + 1) % self.copies.len();
        Ok(Some(ticket))
    }

    /// What a check said, once it has ended.
    ///
    /// # Panics
    /// If it was asked for before, or never started.
    pub(crate) fn report(&mut self, ticket: Ticket) -> Result<FsckReport, EngineError> {
        let running = |copy: &Copy| {
            copy.check
                .as_ref()
                .is_some_and(|(other, _)| *other == ticket)
        };
        if let Some(copy) = self.copies.iter().position(running) {
            self.settle(copy);
        }
        self.reports
            .remove(&ticket)
            .expect("every check has one report")
    }
}
