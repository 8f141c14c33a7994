use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use block_dev::{Base, FrontEnd, FuseDisk, Mark};
use local_fs::{Mounted, Variant, WalkOptions, walk};
use workloads::{Op, Step, Workload};

use crate::execute::Executor;
use crate::fua::{RequestTrace, annotate};
use crate::trace::{CrashPoint, Outcome, Trace};

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
    /// The kernel's trace of the disk's requests could not be read.
    #[error("read the trace of the disk's requests: {0}")]
    Requests(io::Error),
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Records workloads on a disk of its own.
pub struct Recorder {
    disk: FuseDisk,
    mount_point: PathBuf,
    variant: Variant,
    /// None where the kernel has no tracefs: then every flush is taken for one of its own.
    requests: Option<RequestTrace>,
    /// The last run's file system on its way out.
    unmounting: Option<JoinHandle<()>>,
}

impl Recorder {
    /// A recorder for one file system; `directory` is an empty one of ours, in a mount
    /// namespace of our own.
    ///
    /// # Errors
    /// If the disk cannot be made.
    pub fn new(variant: &Variant, base: &Arc<Base>, directory: &Path) -> Result<Self> {
        let mount_point = directory.join("recorded");
        std::fs::create_dir(&mount_point)
            .map_err(|source| local_fs::Error::Io { doing: format!("create {}", mount_point.display()), source })?;
        // Files get the modes that the workload says.
        rustix::process::umask(rustix::fs::Mode::empty());
        let disk = FuseDisk::new(base, directory)?;
        let requests = RequestTrace::start(disk.device_number()?, directory).ok();
        Ok(Self { disk, mount_point, variant: variant.clone(), requests, unmounting: None })
    }

    /// The recorded disk, as the kernel's log names it.
    pub fn device_name(&self) -> &str {
        self.disk.device_name()
    }

    /// Whether writes with FUA are told from others, which takes tracefs.
    pub fn recognises_fua(&self) -> bool {
        self.requests.is_some()
    }

    /// Runs a workload on a fresh copy of the base and records it.
    ///
    /// # Errors
    /// If the disk or the mount fails; what the file system refuses is in the trace.
    pub fn record(&mut self, workload: &Workload) -> Result<Trace> {
        self.finish_unmounting();
        self.disk.start_recording()?;
        let start_ns = FuseDisk::now_ns();
        let mounted = Mounted::new(&self.variant, self.disk.device(), &self.mount_point)?;
        let mut run = Run {
            disk: &self.disk,
            mounted: &mounted,
            skip: self.variant.file_system.own_names,
            executor: Executor::new(mounted.root()?),
            outcomes: Vec::with_capacity(workload.setup.len() + workload.run.len()),
            crash_points: Vec::new(),
        };
        let durable_position = run.setup(&workload.setup)?;
        run.run(workload)?;
        let Run { outcomes, crash_points, executor, .. } = run;
        drop(executor);
        let mut log = self.disk.stop_recording();
        if let Some(requests) = &mut self.requests {
            annotate(&mut log, &requests.read_since(start_ns).map_err(Error::Requests)?);
        }
        // Whatever it still writes is thrown away, and so is what it says about it: nobody has
        // to wait for that before the next run.
        self.unmounting = Some(std::thread::spawn(move || drop(mounted.unmount())));
        if self.variant.file_system.remembered_by_identity {
            self.finish_unmounting();
        }
        Ok(Trace { outcomes, setup_operations: workload.setup.len(), durable_position, crash_points, log })
    }

    fn finish_unmounting(&mut self) {
        if let Some(thread) = self.unmounting.take() {
            let _ = thread.join();
        }
    }

    /// Gives a trace's memory back.
    pub fn recycle(&self, trace: Trace) {
        self.disk.recycle(trace.log);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish_unmounting();
    }
}

struct Run<'a> {
    disk: &'a FuseDisk,
    mounted: &'a Mounted,
    skip: &'static [&'static str],
    executor: Executor,
    outcomes: Vec<Outcome>,
    crash_points: Vec<CrashPoint>,
}

impl Run<'_> {
    fn operation(&mut self, op: &Op) {
        let number = self.outcomes.len();
        self.disk.mark(Mark::OperationStart(number as u32));
        let outcome = match self.executor.run(number, op) {
            Ok(()) => Outcome::Done,
            Err(errno) => Outcome::Refused(errno.raw_os_error()),
        };
        self.disk.mark(Mark::OperationEnd(number as u32));
        self.outcomes.push(outcome);
    }

    /// Runs the setup and makes it durable; returns the log position behind it.
    fn setup(&mut self, setup: &[Op]) -> Result<usize> {
        if setup.is_empty() {
            return Ok(0);
        }
        for op in setup {
            self.operation(op);
        }
        let root = self.mounted.root()?;
        rustix::fs::syncfs(&root).map_err(|errno| Error::Setup(errno.into()))?;
        Ok(self.disk.log_position())
    }

    fn run(&mut self, workload: &Workload) -> Result<()> {
        let explicit = workload.run.contains(&Step::CrashPoint);
        for step in &workload.run {
            match step {
                Step::Op(op) => {
                    self.operation(op);
                    if !explicit && op.is_persistence() {
                        self.crash_point()?;
                    }
                }
                Step::CrashPoint => self.crash_point()?,
            }
        }
        Ok(())
    }

    fn crash_point(&mut self) -> Result<()> {
        let log_position = self.disk.log_position();
        let live = walk(self.mounted.root()?, self.mounted.path(), WalkOptions { skip: self.skip });
        self.crash_points.push(CrashPoint { operations_done: self.outcomes.len(), log_position, live });
        Ok(())
    }
}
