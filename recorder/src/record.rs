use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use block_dev::{
    Base, BlockLog, Completion, FrontEnd, FuseDisk, Image, Mark, RequestTrace, recognise_fua,
};
use local_fs::{Mounted, Variant, WalkOptions, walk};
use workloads::{Op, Step, Workload};

use crate::execute::Executor;
use crate::recorded::{CrashPoint, Outcome, Recorded};

/// Why a workload could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recorded disk failed.
    #[error(transparent)]
    Disk(#[from] block_dev::Error),
    /// The file system could not be mounted, or the like.
    #[error(transparent)]
    FileSystem(#[from] local_fs::Error),
    /// The setup could not be made durable.
    #[error("make the setup durable: {0}")]
    Setup(io::Error),
    /// What the setup left open cannot be kept open while it is made durable by unmounting.
    #[error(
        "the setup leaves @{0} open, and has to be unmounted to be durable: open it in the run"
    )]
    OpenInSetup(String),
    /// The driver of the file system, a process, said that something was wrong.
    #[error("the driver complained before any crash: {0}")]
    Driver(String),
    /// The root of the mounted file system could not be looked at.
    #[error("look at the root of the file system: {0}")]
    Root(io::Error),
    /// The kernel's trace of the disk's requests could not be read.
    #[error("read the trace of the disk's requests: {0}")]
    Requests(io::Error),
    /// The file system of the last recording stayed: its disk was given up, and a new one made.
    #[error("unmount the last recording: {0}")]
    Unmount(local_fs::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Records workloads on a disk of its own.
pub struct Recorder {
    disk: FuseDisk,
    base: Arc<Base>,
    /// Where disks and mount points are made.
    directory: PathBuf,
    /// How many disks were given up.
    given_up: u32,
    mount_point: PathBuf,
    variant: Variant,
    completion: Completion,
    /// None where the kernel has no tracefs: then every flush is taken for one of its own.
    requests: Option<RequestTrace>,
    /// Of what can be shut down little is left to do, and on the only processor nothing can be
    /// done after anything else.
    unmounts_later: bool,
    /// The last run's file system on its way out.
    leaving: Option<Leaving>,
    /// Why the file system of the last run is still on the disk.
    stuck: Option<local_fs::Error>,
}

impl Recorder {
    /// A recorder for one file system, on a disk that answers in this way; `directory` is an empty
    /// one of ours, in a mount namespace of our own.
    ///
    /// # Errors
    /// If the disk cannot be made.
    pub fn new(
        variant: &Variant,
        base: &Arc<Base>,
        completion: Completion,
        directory: &Path,
    ) -> Result<Self> {
        let mount_point = directory.join("recorded");
        std::fs::create_dir(&mount_point).map_err(|source| local_fs::Error::Io {
            doing: format!("create {}", mount_point.display()),
            source,
        })?;
        // Files get the modes that the workload says.
        rustix::process::umask(rustix::fs::Mode::empty());
        let disk = FuseDisk::new(base, directory, completion)?;
        let requests = RequestTrace::start(disk.device_number()?, directory).ok();
        Ok(Self {
            disk,
            base: Arc::clone(base),
            directory: directory.into(),
            given_up: 0,
            mount_point,
            variant: variant.clone(),
            completion,
            requests,
            // One that is waited for at once is not shut down: from Linux 6.19 on btrfs can be, and
            // says so in words that would be taken for a complaint of this run's.
            unmounts_later: !variant.file_system.remembered_by_identity
                && std::thread::available_parallelism().is_ok_and(|count| count.get() == 1),
            leaving: None,
            stuck: None,
        })
    }

    /// The recorded disk, as the kernel's log names it.
    pub fn device_name(&self) -> &str {
        self.disk.device_name()
    }

    /// Whether writes with FUA are told from others, which takes tracefs. Of a single log it says
    /// itself ([`BlockLog::recognises_fua`]): the kernel may have lost a part of the trace.
    pub fn recognises_fua(&self) -> bool {
        self.requests.is_some()
    }

    /// Runs a workload on a fresh copy of the base and records it.
    ///
    /// # Errors
    /// If the disk or the mount fails; what the file system refuses is in the trace. If the last
    /// run's file system cannot be unmounted nothing is run; the next call has another disk.
    pub fn record(&mut self, workload: &Workload) -> Result<Recorded> {
        self.finish_unmounting();
        self.give_up_stuck_disk()?;
        self.disk.start_recording()?;
        let start_ns = FuseDisk::now_ns();
        let mut mounted = Mounted::new(&self.variant, self.disk.device(), &self.mount_point)?;
        let trace = self.record_mounted(workload, &mut mounted, start_ns);
        if self.variant.file_system.driver.is_some() && !trace.as_ref().is_ok_and(was_answered) {
            // If the driver has died, that is why.
            mounted.unmount()?;
        }
        self.leave(mounted)?;
        trace
    }

    /// Mounts what an image holds, and records what its recovery asks of the disk: the mount, and
    /// writing down whatever that has left in memory, such as what became of files without a name.
    /// What unmounting writes is not part of it.
    ///
    /// # Errors
    /// If the disk fails, or the file system cannot be mounted.
    pub fn record_recovery(&mut self, image: &Image) -> Result<BlockLog> {
        self.finish_unmounting();
        self.give_up_stuck_disk()?;
        self.disk.start_recording_from(image)?;
        let start_ns = FuseDisk::now_ns();
        let mounted = Mounted::new(&self.variant, self.disk.device(), &self.mount_point);
        // One that cannot be written to says so to whoever looks at what has recovered.
        let _ = mounted.as_ref().is_ok_and(Mounted::sync);
        let log = self.stop_recording(start_ns);
        self.leave(mounted?)?;
        log
    }

    /// Ends a recording that was started at a time, and says which of its writes had FUA.
    fn stop_recording(&mut self, start_ns: u64) -> Result<BlockLog> {
        let mut log = self.disk.stop_recording();
        recognise_fua(&mut log, self.requests.as_mut(), start_ns).map_err(Error::Requests)?;
        Ok(log)
    }

    /// Has a file system leave the recorded disk.
    fn leave(&mut self, mut mounted: Mounted) -> Result<()> {
        // Whatever it still writes is thrown away, and so is what it says about it: nobody has
        // to wait for that before the next run.
        self.leaving = Some(if self.unmounts_later {
            Leaving::Later(mounted)
        } else {
            Leaving::Now(std::thread::spawn(move || mounted.unmount()))
        });
        if self.variant.file_system.remembered_by_identity {
            self.finish_unmounting();
            // While it stays no copy of it can be mounted.
            self.give_up_stuck_disk()?;
        }
        Ok(())
    }

    fn record_mounted(
        &mut self,
        workload: &Workload,
        mounted: &mut Mounted,
        start_ns: u64,
    ) -> Result<Recorded> {
        let root = mounted.root()?;
        let data = rustix::fs::fstat(&root).map_err(|errno| Error::Root(errno.into()))?;
        let (root_mode, root_owner) = (data.st_mode & 0o7777, (data.st_uid, data.st_gid));
        let mut run = Run {
            disk: &self.disk,
            mounted,
            variant: &self.variant,
            executor: Some(Executor::new(root)),
            outcomes: Vec::with_capacity(workload.setup.len() + workload.run.len()),
            crash_points: Vec::new(),
        };
        let durable_position = run.setup(&workload.setup)?;
        run.run(workload);
        let Run {
            outcomes,
            crash_points,
            executor,
            ..
        } = run;
        drop(executor);
        if let Some(complaint) = mounted.complaint() {
            return Err(Error::Driver(complaint));
        }
        let log = self.stop_recording(start_ns)?;
        let setup_operations = workload.setup.len();
        Ok(Recorded {
            outcomes,
            setup_operations,
            durable_position,
            root_mode,
            root_owner,
            crash_points,
            log,
        })
    }

    /// Whether the last run's file system is being unmounted, and the kernel may still say something
    /// about it.
    pub fn is_unmounting(&self) -> bool {
        matches!(&self.leaving, Some(Leaving::Now(thread)) if !thread.is_finished())
    }

    /// Waits until the last run's file system is unmounted, which may go on after the return of
    /// [`Self::record`]: from then on the recorded disk is idle, and the kernel has said what it
    /// had to say about it. If it cannot be unmounted the next [`Self::record`] fails.
    pub fn finish_unmounting(&mut self) {
        let unmounted = match self.leaving.take() {
            None => return,
            Some(Leaving::Later(mut mounted)) => {
                self.unmounts_later = mounted.shut_down();
                mounted.unmount()
            }
            Some(Leaving::Now(thread)) => {
                let died = |_| {
                    Err(local_fs::Error::Unmount(io::Error::other(
                        "the thread that unmounts it died",
                    )))
                };
                thread.join().unwrap_or_else(died)
            }
        };
        // A driver that is gone is not on the disk any more. What came of it while the workload ran
        // is in its trace.
        self.stuck = unmounted
            .err()
            .filter(|error| matches!(error, local_fs::Error::Unmount(_)));
    }

    /// A disk with a live file system must not change under it. It stays as it is, and another
    /// takes its place.
    fn give_up_stuck_disk(&mut self) -> Result<()> {
        let Some(why) = self.stuck.take() else {
            return Ok(());
        };
        if let Err(error) = self.replace_disk() {
            self.stuck = Some(why);
            return Err(error);
        }
        Err(Error::Unmount(why))
    }

    fn replace_disk(&mut self) -> Result<()> {
        self.given_up += 1;
        let directory = self.directory.join(format!("recorder-{}", self.given_up));
        std::fs::create_dir(&directory).map_err(|source| local_fs::Error::Io {
            doing: format!("create {}", directory.display()),
            source,
        })?;
        let disk = FuseDisk::new(&self.base, &directory, self.completion)?;
        if let Some(requests) = &self.requests {
            requests
                .watch(disk.device_number()?)
                .map_err(Error::Requests)?;
        }
        let old = std::mem::replace(&mut self.disk, disk);
        // It is served until the kernel has let go of it, however long that takes.
        std::thread::spawn(move || drop(old));
        Ok(())
    }

    /// Gives a trace's memory back.
    pub fn recycle(&self, trace: Recorded) {
        self.disk.recycle(trace.log);
    }

    /// Gives the memory of the log of a recovery back.
    pub fn recycle_log(&self, log: BlockLog) {
        self.disk.recycle(log);
    }
}

/// Whether nothing shows that nobody answered any more.
fn was_answered(trace: &Recorded) -> bool {
    let cut = |outcome: &Outcome| {
        matches!(
            outcome,
            Outcome::Refused(libc::ENOTCONN | libc::ECONNABORTED)
        )
    };
    let whole = |point: &CrashPoint| {
        point
            .live
            .as_ref()
            .is_none_or(|live| live.errors.is_empty())
    };
    !trace.outcomes.iter().any(cut) && trace.crash_points.iter().all(whole)
}

/// A file system whose recording has ended.
enum Leaving {
    /// It is unmounted after everything else.
    Now(JoinHandle<local_fs::Result<()>>),
    /// It is unmounted before the next run.
    Later(Mounted),
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish_unmounting();
        if self.stuck.is_some() {
            // Dropped here, the disk would be waited for.
            let _ = self.replace_disk();
        }
    }
}

struct Run<'a> {
    disk: &'a FuseDisk,
    mounted: &'a mut Mounted,
    variant: &'a Variant,
    /// None only while the file system is mounted anew.
    executor: Option<Executor>,
    outcomes: Vec<Outcome>,
    crash_points: Vec<CrashPoint>,
}

impl Run<'_> {
    fn operation(&mut self, op: &Op) {
        let number = self.outcomes.len();
        self.disk.mark(Mark::OperationStart(number as u32));
        let executor = self.executor.as_mut().expect("it is mounted");
        let outcome = match executor.run(number, op) {
            Ok(()) => Outcome::Done,
            Err(errno) => Outcome::Refused(errno.raw_os_error()),
        };
        self.disk.mark(Mark::OperationEnd(number as u32));
        self.outcomes.push(outcome);
    }

    /// Runs the setup and makes it durable; returns the log position after it.
    fn setup(&mut self, setup: &[Op]) -> Result<usize> {
        if setup.is_empty() {
            return Ok(0);
        }
        for op in setup {
            self.operation(op);
        }
        if self.variant.file_system.driver.is_some() {
            return self.remount();
        }
        let root = self.mounted.root()?;
        rustix::fs::syncfs(&root).map_err(|errno| Error::Setup(errno.into()))?;
        Ok(self.disk.log_position())
    }

    /// Makes everything durable where sync does not reach whoever has it: by unmounting it.
    fn remount(&mut self) -> Result<usize> {
        if let Some(handle) = self.executor.as_ref().and_then(Executor::open_handle) {
            return Err(Error::OpenInSetup(handle.to_owned()));
        }
        self.executor = None;
        self.mounted.unmount()?;
        self.disk.settle()?;
        let position = self.disk.log_position();
        let path = self.mounted.path().to_owned();
        *self.mounted = Mounted::new(self.variant, self.disk.device(), &path)?;
        self.executor = Some(Executor::new(self.mounted.root()?));
        Ok(position)
    }

    fn run(&mut self, workload: &Workload) {
        let explicit = workload.run.contains(&Step::CrashPoint);
        for step in &workload.run {
            match step {
                Step::Op(op) => {
                    self.operation(op);
                    if !explicit && op.is_persistence() {
                        self.crash_point();
                    }
                }
                Step::CrashPoint => self.crash_point(),
            }
        }
    }

    fn crash_point(&mut self) {
        let log_position = self.disk.log_position();
        let live = Some(walk(
            self.mounted.path(),
            WalkOptions::of(self.variant.file_system),
        ));
        self.crash_points.push(CrashPoint {
            operations_done: self.outcomes.len(),
            log_position,
            live,
        });
    }
}
