//! The engine in this process, to lay hands on what it recovers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use block_dev::{Base, Completion, FrontEnd, Image, MemfdDisk};
use local_fs::{Mounted, Scratch, Variant, enter_mount_namespace, find, format};
use pace_rules::disk::Disk;
use recorder::Recorder;
use replayer::{DiskKind, Engine, WorkloadResult};
use workloads::Workload;

/// A formatted disk, and where to work on copies of it.
pub struct Laboratory {
    variant: Variant,
    base: Arc<Base>,
    scratch: Scratch,
    engines: usize,
}

/// Does something in a thread with a mount namespace of its own, which ends with it.
///
/// # Panics
/// If it does.
pub fn in_own_namespace<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let entered = || {
            enter_mount_namespace().expect("root makes mount namespaces");
            work()
        };
        scope
            .spawn(entered)
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Laboratory {
    /// One for a file system with its defaults; the calling thread is in a mount namespace of
    /// its own.
    ///
    /// # Panics
    /// If it can't be had.
    pub fn new(file_system: &str) -> Self {
        static BASES: Mutex<Option<HashMap<String, Arc<Base>>>> = Mutex::new(None);
        let variant = Variant::plain(find(file_system).expect("it is known"));
        let scratch = Scratch::new().expect("a directory");
        let mut bases = BASES.lock().expect("no test fails in here");
        let base = bases
            .get_or_insert_default()
            .entry(file_system.to_owned())
            .or_insert_with(|| {
                let file = format(&variant, &scratch.path().join("base")).expect("formatted");
                Arc::new(Base::from_file(&file).expect("read"))
            });
        Self {
            base: Arc::clone(base),
            variant,
            scratch,
            engines: 0,
        }
    }

    /// Where everything is mounted: what the first engine recovers on `engine-1/crashed`.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// The formatted disk.
    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }

    fn directory(&mut self) -> std::path::PathBuf {
        self.engines += 1;
        self.scratch
            .directory(&format!("engine-{}", self.engines))
            .expect("a directory")
    }

    /// An engine on a disk that keeps its word, and answers, in this way.
    ///
    /// # Panics
    /// If it can't be had.
    pub fn engine(&mut self, disk: impl Into<DiskKind>) -> Engine {
        let directory = self.directory();
        Engine::new(&self.variant, &self.base, disk, &directory).expect("an engine")
    }

    /// What a disk holds after `crashed` was mounted from it, so that it recovered, and
    /// unmounted; none if it cannot be mounted.
    ///
    /// # Panics
    /// If there is no disk to be had.
    pub fn recover(&mut self, crashed: &Image) -> Option<Image> {
        let directory = self.directory();
        let mut disk = MemfdDisk::new(&self.base).expect("a disk");
        disk.load(crashed).expect("loaded");
        let mut mounted = Mounted::new(&self.variant, disk.device(), &directory).ok()?;
        mounted.unmount().expect("unmounted");
        Some(disk.content(&self.base).expect("read"))
    }

    /// A recorder.
    ///
    /// # Panics
    /// If it can't be had.
    pub fn recorder(&mut self) -> Recorder {
        let directory = self.directory();
        Recorder::new(&self.variant, &self.base, Completion::AtOnce, &directory)
            .expect("a recorder")
    }

    /// Runs a workload on an honest disk and does something to every recovered file system.
    pub fn tamper(
        &mut self,
        workload: &Workload,
        tamper: impl FnMut(&Path) + 'static,
    ) -> WorkloadResult {
        let mut engine = self.engine(Disk::Honest);
        engine.on_recovered(Box::new(tamper));
        engine.run(workload)
    }
}
