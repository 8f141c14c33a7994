//! Where what a disk holds in a crash state becomes a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use block_dev::{FrontEnd, Image, MemfdDisk, is_unmounted};
use local_fs::{Mounted, Variant};

use crate::error::{Context as _, Result};
use crate::tree::Tree;

/// How long a disk may stay in use after the end of a state: whoever saw it mounted is being
/// ended.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);

/// What a node's disk holds in a crash state.
#[derive(Debug, Clone)]
pub enum DiskState {
    /// The directory itself.
    Tree(Tree),
    /// The disk under the file system that the directory is on.
    Disk(Arc<DiskImage>),
}

/// A disk as a crash left it.
pub struct DiskImage {
    /// Its content.
    pub content: Image,
    /// The file system on it.
    pub variant: Variant,
    /// The path of the node's directory in that.
    pub directory: String,
}

impl std::fmt::Debug for DiskImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "DiskImage({}, {} pages)",
            self.variant,
            self.content.written().count()
        )
    }
}

/// A place for one node: a directory in memory, or a disk that is mounted. What is there is gone
/// when it is put away, or dropped.
#[derive(Default)]
pub(crate) struct MountSlot {
    // Dropped in this order.
    mounted: Option<Mounted>,
    disk: Option<MemfdDisk>,
}

impl MountSlot {
    /// Puts a crash state there. Returns the node's directory, or why its file system cannot be
    /// mounted. `path` is a new one; a disk is mounted on it in the mount namespace of this thread.
    pub(crate) fn put(
        &mut self,
        state: &DiskState,
        path: &Path,
    ) -> Result<Result<PathBuf, String>> {
        let image = match state {
            DiskState::Tree(tree) => {
                tree.write_to(path)
                    .doing(|| format!("make a crash state in {}", path.display()))?;
                return Ok(Ok(path.to_owned()));
            }
            DiskState::Disk(image) => image,
        };
        self.put_away();
        fs::create_dir(path).doing(|| format!("create {}", path.display()))?;
        if self.disk.is_none() {
            self.disk = Some(MemfdDisk::new(image.content.base())?);
        }
        let disk = self.disk.as_mut().expect("it was made");
        disk.load(&image.content)?;
        match Mounted::new(&image.variant, disk.device(), path) {
            Ok(mounted) => self.mounted = Some(mounted),
            Err(error) => {
                let Some(why) = error.unmountable() else {
                    return Err(error.into());
                };
                return Ok(Err(format!(
                    "its {} cannot be mounted: {why}",
                    image.variant.file_system.name
                )));
            }
        }
        let data = path.join(&image.directory);
        Ok(if data.is_dir() {
            Ok(data)
        } else {
            Err(format!("its {} has lost its directory", image.variant))
        })
    }

    /// Unmounts what is there.
    pub(crate) fn put_away(&mut self) {
        if self.mounted.take().is_none() {
            return;
        }
        // A check that keeps running may still be in it, and the namespaces of nodes end a little
        // after the nodes. What is in use must not change: then another disk takes its place.
        let disk = self
            .disk
            .take()
            .filter(|disk| is_unmounted(disk.device(), BUSY_PATIENCE));
        self.disk = disk;
    }
}

impl Drop for MountSlot {
    fn drop(&mut self) {
        self.put_away();
    }
}
