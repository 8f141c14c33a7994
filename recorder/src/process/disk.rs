//! A recorded disk of its own for the directory of a node.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block_dev::{Base, Completion, FrontEnd, FuseDisk};
use local_fs::{Mounted, Variant};
use trace::Disk;

use crate::fua::{RequestTrace, annotate};
use crate::record::{Error, Result};

/// The node's directory in the root of the file system, which has names of its own there.
const DIRECTORY: &str = "data";

/// A disk that is mounted, and whose requests are logged. It is unmounted when dropped.
pub struct RecordedDisk {
    // Dropped in this order.
    mounted: Mounted,
    requests: Option<RequestTrace>,
    disk: FuseDisk,
    base: Arc<Base>,
    file_system: String,
    start_ns: u64,
    durable: usize,
    data: PathBuf,
}

impl RecordedDisk {
    /// Formats a disk with `file_system`, as [`Variant::for_programs`] reads it, and mounts it in
    /// `directory`: an empty one of ours, in a mount namespace of our own.
    ///
    /// # Errors
    /// If the file system cannot be made or mounted here.
    pub fn new(file_system: &str, directory: &Path) -> Result<Self> {
        let variant = Variant::for_programs(file_system)?;
        let io = |doing: String| move |source| Error::from(local_fs::Error::Io { doing, source });
        let formatted = directory.join("formatted");
        let file = local_fs::format(&variant, &formatted)?;
        let base = Base::from_file(&file).map_err(io(format!("read {}", formatted.display())))?;
        fs::remove_file(&formatted).map_err(io(format!("remove {}", formatted.display())))?;
        let base = Arc::new(base);
        let mut disk = FuseDisk::new(&base, directory, Completion::AtOnce)?;
        let requests = RequestTrace::start(disk.device_number()?, directory).ok();
        disk.start_recording()?;
        let start_ns = FuseDisk::now_ns();
        let mount_point = directory.join("mounted");
        fs::create_dir(&mount_point).map_err(io(format!("create {}", mount_point.display())))?;
        let mounted = Mounted::new(&variant, disk.device(), &mount_point)?;
        let data = mount_point.join(DIRECTORY);
        DirBuilder::new()
            .mode(0o755)
            .create(&data)
            .map_err(io(format!("create {}", data.display())))?;
        Ok(Self {
            mounted,
            requests,
            disk,
            base,
            file_system: file_system.to_owned(),
            start_ns,
            durable: 0,
            data,
        })
    }

    /// The node's directory on it.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Makes everything durable that is in the directory: what the node begins with.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(&mut self) -> Result<()> {
        let root = self.mounted.root()?;
        rustix::fs::syncfs(&root).map_err(|errno| Error::Setup(errno.into()))?;
        self.durable = self.disk.log_position();
        Ok(())
    }

    /// Ends the recording: what the node did up to now is in the log. The node's processes have
    /// ended.
    ///
    /// # Errors
    /// If the file system cannot be unmounted, or it cannot be said which writes had FUA.
    pub fn finish(mut self) -> Result<Disk> {
        let mut log = self.disk.stop_recording();
        if let Some(requests) = &mut self.requests {
            annotate(
                &mut log,
                &requests
                    .read_since(self.start_ns)
                    .map_err(Error::Requests)?,
            );
        }
        self.mounted.unmount().map_err(Error::Unmount)?;
        Ok(Disk {
            file_system: self.file_system,
            directory: DIRECTORY.to_owned(),
            base: self.base,
            log,
            durable: self.durable,
        })
    }
}
