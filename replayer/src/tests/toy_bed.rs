//! A test bed in memory: a toy file system whose disk is a log of operations, and a home to which
//! recovery moves them. It is sound unless it is given a bug.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_dev::{Base, BlockLog, Image, Kind, Mark, PAGE_SIZE};
use checker::{Finding, Promise};
use local_fs::FsckReport;
use recorder::{CrashPoint, Outcome, Recorded};
use serde::{Deserialize, Serialize};
use toy_fs::Toy;
use workloads::{FallocMode, Op, RenameFlag, Step, Target, Workload};

use crate::engine::{EngineError, RecoveredHook};
use crate::result::Timing;
use crate::stopwatch::Stopwatch;
use crate::test_bed::{Complaint, Recovery, Seen, Shown, TestBed, Ticket};
use crate::worker::{Ground, Start};

type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Room for so many entries of the log.
const LOG_PAGES: u64 = 256;

/// The log, as much room for the home, and a page that counts recoveries.
pub(super) const PAGES: u64 = 2 * LOG_PAGES + 1;

/// The page that counts recoveries that did not end, with [`Bug::GivesUp`].
const COUNT_PAGE: u64 = 2 * LOG_PAGES;

/// After so many recoveries that did not end it gives up.
const GIVES_UP_AFTER: u8 = 2;

/// What recovers with it is hit by the bugs that are not about all file systems.
const BAD: &str = "bad";

/// So often the log is written with [`Bug::WritesAgain`].
const WRITTEN_AGAIN: usize = 16;

/// The last byte of an entry.
const END: u8 = 1;

/// What is wrong with a toy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// Nothing.
    None,
    /// The log has what is written at the end of a file, but not its new size.
    ForgetsSize,
    /// A rename is two entries of the log: the new name, and the end of the old one.
    RenamesInTwo,
    /// The log is written, and never flushed.
    ForgetsFlush,
    /// The log is written again and again, and never flushed.
    WritesAgain,
    /// Of what is added to a file one half is done, and then there is no room.
    AppendsHalf,
    /// The log is written with FUA, and an entry whose first sector is there is taken for whole.
    TrustsHeads,
    /// Recovery adds the log to what is at home already, whatever that is.
    RecoversTwice,
    /// Recovery clears the log before it has moved it home.
    ClearsFirst,
    /// Recovery clears the log without a flush after it has moved it home.
    ClearsUnflushed,
    /// After two recoveries that did not end the log is not read any more.
    GivesUp,
    /// What it shows while it runs lacks the name `bad`.
    HidesNames,
    /// What has recovered with the name `bad` cannot be repaired.
    CannotRepair,
    /// It cannot be mounted.
    CannotMount,
    /// It cannot be unmounted.
    CannotUnmount,
    /// Nothing can be written to it.
    CannotWrite,
    /// Its driver does not survive it.
    DriverDies,
    /// Its driver reports something.
    DriverSays,
    /// The kernel complains about its disk.
    KernelSays,
    /// The kernel prints a stack trace.
    KernelWarns,
    /// The kernel prints a stack trace, once.
    KernelWarnsOnce,
    /// Its checker finds something.
    FsckComplains,
    /// Somebody kills its checker, once.
    FsckIsKilled,
    /// Nothing can be written to it, until somebody kills its checker. After that the worker does
    /// not survive it.
    DiesInSecondTry,
    /// The same, but after that nothing is wrong any more.
    HealsInSecondTry,
    /// The worker does not survive it.
    WorkerDies,
    /// There is none to begin with.
    CannotStart,
}

/// What a worker that was started in this way works on.
///
/// # Errors
/// With [`Bug::CannotStart`].
pub(super) fn toy(start: &Start, bug: Bug) -> Result<Ground> {
    if bug == Bug::CannotStart {
        return Err("there is no toy to be had".into());
    }
    let base = Arc::new(Base::empty(PAGES * PAGE_SIZE as u64));
    let bed = ToyBed::new(start.variant.file_system.name, bug);
    Ok(Ground {
        bed: Box::new(bed),
        base,
        place: None,
    })
}

/// An entry of the log: a page of the disk.
#[derive(Serialize, Deserialize)]
struct Entry {
    number: usize,
    op: Op,
    keeps_size: bool,
}

impl Entry {
    fn page(&self) -> Vec<u8> {
        let content = postcard::to_stdvec(self).expect("it can be written down");
        let mut page = (content.len() as u32).to_le_bytes().to_vec();
        page.extend(content);
        page.resize(PAGE_SIZE - 1, 0);
        page.push(END);
        page
    }

    /// Whether it begins, and does not end.
    fn is_torn(page: &[u8]) -> bool {
        page[0] != 0 && page[PAGE_SIZE - 1] != END
    }

    /// None where the log ends.
    fn read(page: &[u8]) -> Option<Self> {
        let (length, content) = page.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        postcard::from_bytes(content.get(..length)?)
            .ok()
            .filter(|_| length > 0)
    }

    /// Does again what it says.
    fn recover(&self, toy: &mut Toy) {
        let node = self.op.target().and_then(|target| toy.target(target));
        let size = node.map(|node| toy.nodes[node].data.len() as u64);
        toy.apply(self.number, &self.op);
        if let (Some(node), Some(size), true) = (node, size, self.keeps_size) {
            toy.nodes[node].truncate(size);
        }
    }
}

/// Toys on disks in memory.
pub(super) struct ToyBed {
    file_system: &'static str,
    bug: Bug,
    reports: BTreeMap<Ticket, Result<FsckReport>>,
    started: u64,
    was_killed: bool,
    has_warned: bool,
}

impl ToyBed {
    pub(super) fn new(file_system: &'static str, bug: Bug) -> Self {
        Self {
            file_system,
            bug,
            reports: BTreeMap::new(),
            started: 0,
            was_killed: false,
            has_warned: false,
        }
    }

    fn check(&mut self, is_bad: bool) -> Ticket {
        self.started += 1;
        let ticket = Ticket(self.started);
        let clean = !(is_bad && self.bug == Bug::FsckComplains);
        let is_killed = matches!(
            self.bug,
            Bug::FsckIsKilled | Bug::DiesInSecondTry | Bug::HealsInSecondTry
        );
        let report = if is_bad && is_killed && !self.was_killed {
            self.was_killed = true;
            let what = "a checker was killed".to_owned();
            Err(local_fs::Error::Killed { what }.into())
        } else {
            let output = "Pass 1\nthe name bad is bad\n".to_owned();
            Ok(FsckReport { clean, output })
        };
        self.reports.insert(ticket, report);
        ticket
    }
}

/// An entry of the log on its way home.
fn home(number: u64) -> u64 {
    LOG_PAGES + number
}

fn entry_at(image: &Image, page: u64) -> Option<Entry> {
    Entry::read(image.page(page as u32))
}

/// How many entries there are from a page on.
fn entries_from(image: &Image, first: u64) -> u64 {
    (0..LOG_PAGES)
        .take_while(|number| entry_at(image, first + number).is_some())
        .count() as u64
}

impl ToyBed {
    fn recovered(&self, image: &Image) -> Toy {
        let mut toy = Toy::new();
        let gave_up =
            self.bug == Bug::GivesUp && image.page(COUNT_PAGE as u32)[0] >= GIVES_UP_AFTER;
        let is_moved = |number: &u64| entry_at(image, home(*number)).is_some();
        let pages: Vec<u64> = if self.bug == Bug::RecoversTwice {
            let moved = (0..entries_from(image, home(0))).map(home);
            moved.chain(0..entries_from(image, 0)).collect()
        } else {
            let page = |number| {
                if is_moved(&number) {
                    home(number)
                } else {
                    number
                }
            };
            (0..LOG_PAGES)
                .filter(|number| !gave_up || is_moved(number))
                .map(page)
                .collect()
        };
        for page in pages {
            let Some(entry) = entry_at(image, page) else {
                break;
            };
            entry.recover(&mut toy);
        }
        toy
    }

    /// What recovery asks of the disk: it moves the log home.
    fn recovery_of(&self, image: &Image) -> BlockLog {
        let mut log = BlockLog::default();
        let entries = entries_from(image, 0);
        if entries == 0 {
            return log;
        }
        if self.bug == Bug::GivesUp {
            let mut count = *image.page(COUNT_PAGE as u32);
            count[0] += 1;
            log.push_write(COUNT_PAGE * PAGE_SIZE as u64, &count, 0);
            log.push(Kind::Flush, 0);
        }
        let clear = Kind::Discard {
            offset: 0,
            length: entries * PAGE_SIZE as u64,
        };
        if self.bug == Bug::ClearsFirst {
            log.push(clear, 0);
            log.push(Kind::Flush, 0);
        }
        let first = match self.bug {
            Bug::RecoversTwice => entries_from(image, home(0)),
            _ => 0,
        };
        for number in 0..entries {
            let page = image.page(number as u32);
            log.push_write(home(first + number) * PAGE_SIZE as u64, page, 0);
        }
        if self.bug != Bug::ClearsUnflushed {
            log.push(Kind::Flush, 0);
        }
        if self.bug != Bug::ClearsFirst {
            log.push(clear, 0);
        }
        log.push(Kind::Flush, 0);
        log
    }
}

impl TestBed for ToyBed {
    fn recognises_fua(&self) -> bool {
        true
    }

    fn record(&mut self, workload: &Workload) -> Result<(Recorded, Complaint)> {
        let mut run = Run::new(self.file_system, self.bug);
        workload.setup.iter().for_each(|op| run.operation(op));
        if !workload.setup.is_empty() {
            run.commit();
        }
        let durable_position = run.log.len();
        let explicit = workload.run.contains(&Step::CrashPoint);
        for step in &workload.run {
            if let Step::Op(op) = step {
                run.operation(op);
            }
            if step == &Step::CrashPoint
                || matches!(step, Step::Op(op) if !explicit && op.is_persistence())
            {
                run.crash_point();
            }
        }
        let trace = Recorded {
            outcomes: run.outcomes,
            setup_operations: workload.setup.len(),
            durable_position,
            root_mode: 0o755,
            root_owner: (0, 0),
            crash_points: run.crash_points,
            log: run.log,
        };
        Ok((trace, Complaint::None))
    }

    fn recycle(&mut self, _: Recorded) {}

    fn recover(
        &mut self,
        image: &Image,
        watch: &mut Stopwatch,
        timing: &mut Timing,
    ) -> Result<Recovery> {
        let toy = self.recovered(image);
        watch.lap(&mut timing.mount_us);
        let is_bad = toy.find(BAD).is_some();
        let has = |bug| is_bad && self.bug == bug;
        let because = || "of the name bad".to_owned();
        assert!(!has(Bug::WorkerDies), "the worker dies");
        let is_second = self.was_killed;
        assert!(!(has(Bug::DiesInSecondTry) && is_second), "the worker dies");
        if has(Bug::CannotRepair) {
            return Ok(Recovery::RepairFails(because()));
        } else if self.bug == Bug::TrustsHeads
            && (0..LOG_PAGES as u32).any(|number| Entry::is_torn(image.page(number)))
        {
            return Ok(Recovery::MountFails("an entry has no end".into()));
        } else if has(Bug::CannotMount) {
            return Ok(Recovery::MountFails(because()));
        } else if has(Bug::DriverDies) {
            return Ok(Recovery::DriverDies(because()));
        }
        let is_unusable = has(Bug::CannotWrite)
            || !is_second && (has(Bug::DiesInSecondTry) || has(Bug::HealsInSecondTry));
        let unusable = is_unusable.then(|| Finding::new(Promise::Usable, BAD, "deleting fails"));
        let kernel_says = match self.bug {
            Bug::KernelSays if is_bad => Complaint::OfDisk(because()),
            Bug::KernelWarns if is_bad => Complaint::StackTrace(because()),
            Bug::KernelWarnsOnce if is_bad && !std::mem::replace(&mut self.has_warned, true) => {
                Complaint::StackTrace(because())
            }
            _ => Complaint::None,
        };
        Ok(Recovery::Mounted(Box::new(Seen {
            tree: toy.tree(self.file_system),
            unusable,
            stays_mounted: has(Bug::CannotUnmount).then(because),
            driver_says: has(Bug::DriverSays).then(because),
            kernel_says,
            check: Some(self.check(is_bad)),
        })))
    }

    fn record_recovery(&mut self, image: &Image) -> Result<Result<BlockLog, String>> {
        Ok(Ok(self.recovery_of(image)))
    }

    fn recycle_recovery(&mut self, _: BlockLog) {}

    fn report(&mut self, check: Ticket) -> Result<FsckReport> {
        self.reports
            .remove(&check)
            .expect("every check has one report")
    }

    fn names(&mut self, _: &Image, _: &[(u64, u64)]) -> Option<Vec<Option<String>>> {
        None
    }

    fn show(&mut self, _: &Image, _: &mut dyn FnMut(Shown<'_>) -> Result<()>) -> Result<()> {
        Err("a toy cannot be mounted".into())
    }

    fn floor(&mut self, image: &Image, cycles: u32) -> Result<Duration> {
        let started = Instant::now();
        for _ in 0..cycles {
            self.recovered(image);
        }
        Ok(started.elapsed())
    }

    fn on_recovered(&mut self, _: RecoveredHook) {
        unreachable!("a toy has no directory that a hook could look at");
    }
}

/// A run that is recorded.
struct Run {
    file_system: &'static str,
    bug: Bug,
    toy: Toy,
    log: BlockLog,
    /// Entries that were written.
    written: u64,
    /// Those that were not.
    pending: Vec<Entry>,
    outcomes: Vec<Outcome>,
    crash_points: Vec<CrashPoint>,
}

impl Run {
    fn new(file_system: &'static str, bug: Bug) -> Self {
        Self {
            file_system,
            bug,
            toy: Toy::new(),
            log: BlockLog::default(),
            written: 0,
            pending: Vec::new(),
            outcomes: Vec::new(),
            crash_points: Vec::new(),
        }
    }

    fn operation(&mut self, op: &Op) {
        let number = self.outcomes.len();
        self.log
            .push(Kind::Mark(Mark::OperationStart(number as u32)), 0);
        let outcome = match op {
            Op::Falloc {
                mode: FallocMode::InsertRange,
                ..
            } => Outcome::Refused(libc::EOPNOTSUPP),
            Op::Append { target, length } if self.bug == Bug::AppendsHalf => {
                let (target, length) = (target.clone(), length / 2);
                let half = Op::Append { target, length };
                self.toy.apply(number, &half);
                self.pending.extend(self.entries(number, &half));
                Outcome::Refused(libc::ENOSPC)
            }
            Op::Sync | Op::Syncfs => Outcome::Done,
            _ if self.toy.apply(number, op).is_some() => Outcome::Done,
            Op::Write {
                target: Target::Path(path),
                ..
            } if self.toy.find(path).is_none() => Outcome::Refused(libc::ENOENT),
            _ => Outcome::Refused(libc::EINVAL),
        };
        if outcome == Outcome::Done {
            self.pending.extend(self.entries(number, op));
            if op.is_persistence() {
                self.commit();
            }
        }
        self.log
            .push(Kind::Mark(Mark::OperationEnd(number as u32)), 0);
        self.outcomes.push(outcome);
    }

    fn entries(&self, number: usize, op: &Op) -> Vec<Entry> {
        let ops = match op {
            Op::Fsync { .. } | Op::Fdatasync { .. } | Op::Msync { .. } | Op::Sync | Op::Syncfs => {
                Vec::new()
            }
            Op::Rename {
                source,
                dest,
                flag: RenameFlag::Replace,
            } if self.bug == Bug::RenamesInTwo => vec![
                Op::Link {
                    source: Target::Path(source.clone()),
                    dest: dest.clone(),
                },
                Op::Unlink {
                    path: source.clone(),
                },
            ],
            op => vec![op.clone()],
        };
        let keeps_size =
            self.bug == Bug::ForgetsSize && matches!(op, Op::Write { .. } | Op::Append { .. });
        ops.into_iter()
            .map(|op| Entry {
                number,
                op,
                keeps_size,
            })
            .collect()
    }

    fn commit(&mut self) {
        for entry in std::mem::take(&mut self.pending) {
            let offset = self.written * PAGE_SIZE as u64;
            let place = self.log.len();
            let times = if self.bug == Bug::WritesAgain {
                WRITTEN_AGAIN
            } else {
                1
            };
            for _ in 0..times {
                self.log.push_write(offset, &entry.page(), 0);
            }
            self.written += 1;
            if self.bug == Bug::TrustsHeads {
                let length = PAGE_SIZE as u32;
                let fua = true;
                let write = Kind::Write {
                    offset,
                    length,
                    fua,
                };
                self.log.reclassify(place, write);
                self.log.push(Kind::FuaFlush, 0);
            }
        }
        let is_flushed = !matches!(
            self.bug,
            Bug::ForgetsFlush | Bug::TrustsHeads | Bug::WritesAgain
        );
        if is_flushed {
            self.log.push(Kind::Flush, 0);
        }
    }

    fn crash_point(&mut self) {
        let mut shown = self.toy.clone();
        if self.bug == Bug::HidesNames && shown.find(BAD).is_some() {
            shown.unname(BAD);
        }
        self.crash_points.push(CrashPoint {
            operations_done: self.outcomes.len(),
            log_position: self.log.len(),
            live: Some(shown.tree(self.file_system)),
        });
    }
}
