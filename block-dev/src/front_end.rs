use std::path::{Path, PathBuf};

use crate::{Image, Result};

/// A disk that the kernel can mount.
pub trait FrontEnd {
    /// The block device.
    fn device(&self) -> &Path;

    /// The device's name as the kernel's log gives it (`loop3`).
    fn device_name(&self) -> &str;

    /// Makes the disk hold `image`. Nothing may be mounted from it.
    ///
    /// # Errors
    /// If the content cannot be changed.
    fn load(&mut self, image: &Image) -> Result<()>;

    /// Has the disk hold what was written to the device and is still in the kernel's cache of it,
    /// where what the driver of a FUSE file system writes waits for its fsync. Nothing may be mounted from
    /// it.
    ///
    /// # Errors
    /// If it cannot be written.
    fn settle(&self) -> Result<()>;

    /// A path at which a program (fsck) can open the content, past the block layer where possible.
    fn content_path(&self) -> PathBuf;
}
