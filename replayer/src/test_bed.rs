//! What an engine works on: all that happens on disks and in a kernel, and nothing of how it is
//! judged. There is the real one, and tests have a toy in memory.

mod kernel;

use std::path::Path;
use std::time::Duration;

use block_dev::{BlockLog, Image};
use checker::Finding;
use local_fs::{FsckReport, Tree};
use recorder::Recorded;
use workloads::Workload;

pub(crate) use kernel::KernelBed;

use crate::engine::{EngineError, RecoveredHook};
use crate::result::Timing;
use crate::stopwatch::Stopwatch;

type Result<T, E = EngineError> = std::result::Result<T, E>;

/// A disk that workloads are recorded on, and disks that crash states recover on. Its errors say
/// nothing of the file system under test.
pub(crate) trait TestBed {
    /// Whether writes with FUA are told from others.
    fn recognises_fua(&self) -> bool;

    /// Runs a workload on a new file system and records it; says what the kernel complained about
    /// meanwhile.
    fn record(&mut self, workload: &Workload) -> Result<(Recorded, Complaint)>;

    /// Gives a trace's memory back.
    fn recycle(&mut self, trace: Recorded);

    /// Has the content of a disk recover, and looks at what comes of it.
    fn recover(
        &mut self,
        image: &Image,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Recovery>;

    /// Has the content of a disk recover on one that is recorded, and hands the log over; otherwise
    /// says why it cannot be mounted.
    fn record_recovery(&mut self, image: &Image) -> Result<Result<BlockLog, String>>;

    /// Gives the memory of such a log back.
    fn recycle_recovery(&mut self, log: BlockLog);

    /// Waits for what a check says that [`Self::recover`] started.
    fn report(&mut self, check: Ticket) -> Result<FsckReport>;

    /// What a disk holds at places, offsets and lengths in bytes, once it has recovered. None if
    /// that cannot be told.
    fn names(&mut self, image: &Image, places: &[(u64, u64)]) -> Option<Vec<Option<String>>>;

    /// Has the content of a disk recover, and has it looked at as long as it is mounted.
    fn show(&mut self, image: &Image, look: &mut dyn FnMut(Shown<'_>) -> Result<()>) -> Result<()>;

    /// Recovers, walks and unmounts so often, with nothing else; says how long that took.
    fn floor(&mut self, image: &Image, cycles: u32) -> Result<Duration>;

    /// Calls a hook with every recovered file system before it is looked at.
    fn on_recovered(&mut self, hook: RecoveredHook);
}

/// What the kernel complained about.
#[derive(Debug)]
pub(crate) enum Complaint {
    None,
    /// A disk of ours.
    OfDisk(String),
    /// A stack trace, which names no disk.
    StackTrace(String),
}

/// Stands for a check that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

/// What came of the content of a disk.
#[derive(Debug)]
pub(crate) enum Recovery {
    /// It has to be repaired before it is mounted, and that fails.
    RepairFails(String),
    /// It cannot be mounted.
    MountFails(String),
    /// The driver, a process, does not survive it. Whatever else was seen is a consequence.
    DriverDies(String),
    /// It was mounted, walked, written to and unmounted.
    Mounted(Box<Seen>),
}

/// What was seen of a file system that has recovered.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) tree: Tree,
    /// Where it could not be used any more.
    pub(crate) unusable: Option<Finding>,
    /// Why unmounting fails.
    pub(crate) stays_mounted: Option<String>,
    /// What its driver, a process, reports.
    pub(crate) driver_says: Option<String>,
    pub(crate) kernel_says: Complaint,
    /// The check that its own checker is at work on.
    pub(crate) check: Option<Ticket>,
}

/// A disk that has recovered and is mounted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown<'a> {
    /// None if it cannot be mounted.
    pub(crate) directory: Option<&'a Path>,
    /// The block device.
    pub(crate) device: &'a Path,
    /// What the kernel warned of.
    pub(crate) kernel: &'a [String],
}
