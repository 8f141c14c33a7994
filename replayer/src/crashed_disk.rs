//! The disk that crash states are mounted from. The file system's own checker looks at copies of
//! it, while it is used and the next state is mounted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use block_dev::{Base, FrontEnd, Image, MemfdDisk, is_unmounted};
use local_fs::{FsckReport, Mounted, Rest, Variant};

use crate::engine::EngineError;
use crate::fsck::{Fsck, FsckPlace, RunningCheck};
use crate::journal::Journal;
use crate::result::Timing;
use crate::stopwatch::Stopwatch;
use crate::test_bed::Ticket;

/// So many checks run side by side.
const CHECKS: u32 = 2;

/// How long it may take until nothing is mounted from a disk any more. Who unmounted it has waited
/// already.
const LET_GO_PATIENCE: Duration = Duration::from_millis(100);

/// A copy for the checker, and what looks at it.
struct Copy {
    fsck: Fsck,
    check: Option<Check>,
}

struct Check {
    ticket: Ticket,
    running: RunningCheck,
    /// What is looked at, if it was mounted when it was copied.
    mounted: Option<Arc<Image>>,
}

/// Whether the checker can look at what the disk holds while it is mounted.
#[derive(Clone, Copy)]
enum WhileMounted {
    No,
    Always,
    /// If nothing is in its journal.
    WithoutJournal(Journal),
}

impl WhileMounted {
    fn of(rest: Rest, base: &Base) -> Self {
        match rest {
            Rest::Synced => Journal::of(base).map_or(Self::No, Self::WithoutJournal),
            Rest::Mounted => Self::Always,
            Rest::ReadOnly | Rest::Unmounted => Self::No,
        }
    }
}

/// The disk, and copies of it for the checker.
pub(crate) struct CrashedDisk {
    variant: Variant,
    base: Arc<Base>,
    /// Where to mount what is looked at once more.
    mount_point: PathBuf,
    disk: MemfdDisk,
    /// What was mounted from the disk may still be, out of sight.
    is_in_doubt: bool,
    while_mounted: WhileMounted,
    copies: Vec<Copy>,
    /// Which copy is the next to be checked.
    next: usize,
    tickets: u64,
    reports: HashMap<Ticket, Result<FsckReport, EngineError>>,
}

impl CrashedDisk {
    pub(crate) fn new(
        variant: &Variant,
        base: &Arc<Base>,
        place: &FsckPlace,
        mount_point: &Path,
    ) -> block_dev::Result<Self> {
        let copy = |slot| -> block_dev::Result<Copy> {
            Ok(Copy {
                fsck: Fsck::new(place, slot, base)?,
                check: None,
            })
        };
        Ok(Self {
            variant: variant.clone(),
            base: Arc::clone(base),
            mount_point: mount_point.into(),
            disk: MemfdDisk::new(base)?,
            is_in_doubt: false,
            while_mounted: WhileMounted::of(variant.file_system.rest, base),
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

    /// Says whether what was mounted from the disk may still be, out of sight.
    pub(crate) fn set_in_doubt(&mut self, is_in_doubt: bool) {
        self.is_in_doubt = is_in_doubt;
    }

    /// Has nothing be mounted from the disk. A disk with a live file system must not change under
    /// it, and whoever mounts it gets that one, whatever the disk holds: another takes its place.
    fn make_free(&mut self) -> Result<(), EngineError> {
        if self.is_in_doubt && !is_unmounted(self.disk.device(), LET_GO_PATIENCE) {
            if self.variant.file_system.remembered_by_identity {
                // While it stays no copy of it can be mounted.
                return Err("the file system of an earlier crash state is still mounted".into());
            }
            self.disk = MemfdDisk::new(&self.base)?;
        }
        self.is_in_doubt = false;
        Ok(())
    }

    /// What a check said is kept, once it has ended.
    fn settle(&mut self, copy: usize) {
        let Some(check) = self.copies[copy].check.take() else {
            return;
        };
        let report = match (check.running.finish(), check.mounted) {
            (Ok(report), Some(image)) if !report.clean => self.look_again(copy, &image, report),
            (report, _) => report,
        };
        self.reports.insert(check.ticket, report);
    }

    /// Checks what was mounted when it was copied once more, after it was unmounted. No checker is
    /// made for a disk that is in use: with some features it takes that for damage.
    fn look_again(
        &mut self,
        copy: usize,
        image: &Image,
        before: FsckReport,
    ) -> Result<FsckReport, EngineError> {
        let mut disk = MemfdDisk::new(&self.base)?;
        disk.load(image)?;
        let unmounted = Mounted::new(&self.variant, disk.device(), &self.mount_point)
            .and_then(|mut mounted| mounted.unmount());
        match unmounted {
            Ok(()) => {}
            Err(local_fs::Error::Unmount(_)) => return Ok(before),
            Err(error) if error.unmountable().is_some() => return Ok(before),
            Err(error) => return Err(error.into()),
        }
        let content = Arc::new(disk.content(&self.base)?);
        let fsck = &mut self.copies[copy].fsck;
        let report = match fsck.start(&self.variant, content)? {
            Some(running) => running.finish()?,
            None => before,
        };
        if report.clean {
            // So it would be each time.
            self.while_mounted = WhileMounted::No;
        }
        Ok(report)
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
        image: &Image,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Result<(), String>, EngineError> {
        self.make_free()?;
        if self.variant.file_system.repair.is_some() {
            // A host repairs the copy.
            self.settle(self.next);
            watch.lap(&mut timing.fsck_us);
        }
        let fsck = &mut self.copies[self.next].fsck;
        fsck.load(&self.variant, image, &mut self.disk, watch, timing)
    }

    /// What the disk holds at places, as far as that can be told.
    pub(crate) fn names(
        &mut self,
        places: &[(u64, u64)],
    ) -> Result<Vec<Option<String>>, EngineError> {
        let variant = self.variant.clone();
        let (disk, copy) = self.parts();
        copy.fsck.names(&variant, disk, places)
    }

    /// Starts a check of what the disk holds while it is mounted, and everything that is to be
    /// written was. None where that has to wait until it is at rest.
    pub(crate) fn check_mounted(&mut self) -> Result<Option<Ticket>, EngineError> {
        if matches!(self.while_mounted, WhileMounted::No) {
            return Ok(None);
        }
        let content = Arc::new(self.disk.content(&self.base)?);
        if let WhileMounted::WithoutJournal(journal) = self.while_mounted
            && !journal.is_empty(&content)
        {
            return Ok(None);
        }
        self.start(Arc::clone(&content), Some(content))
    }

    /// Starts a check of what the disk holds now. None where there is no checker.
    pub(crate) fn check(&mut self) -> Result<Option<Ticket>, EngineError> {
        if self.variant.file_system.driver.is_some() {
            self.disk.settle()?;
        }
        let content = Arc::new(self.disk.content(&self.base)?);
        self.start(content, None)
    }

    fn start(
        &mut self,
        content: Arc<Image>,
        mounted: Option<Arc<Image>>,
    ) -> Result<Option<Ticket>, EngineError> {
        self.settle(self.next);
        let copy = &mut self.copies[self.next];
        let Some(running) = copy.fsck.start(&self.variant, content)? else {
            return Ok(None);
        };
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        copy.check = Some(Check {
            ticket,
            running,
            mounted,
        });
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
                .is_some_and(|check| check.ticket == ticket)
        };
        if let Some(copy) = self.copies.iter().position(running) {
            self.settle(copy);
        }
        self.reports
            .remove(&ticket)
            .expect("every check has one report")
    }
}
