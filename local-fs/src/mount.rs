use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::unistd::syncfs;

use crate::btrfs_control::Remembered;
use crate::driver::Serving;
use crate::error::Context;
use crate::shutdown::shutdown;
use crate::{Error, Rest, Result, Variant};

/// How long a device or a mount may stay busy without being in use by us. Who looks at it needs a
/// moment of the processor to let go, and gets that late on a machine with much to do.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
const BUSY_PAUSE: Duration = Duration::from_micros(200);

/// A mounted file system; unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    active: bool,
    /// Who serves it, where that is a process. Dropped once it is unmounted.
    driver: Option<Box<Serving>>,
    /// What the driver said to be wrong that it had before it was mounted again.
    complained: Option<String>,
    /// Forgets the device, however the mount ends: dropped after it is unmounted.
    _remembered: Remembered,
}

impl Mounted {
    /// Mounts `device` on `path`, read-write. Access times are off: reading the tree must not
    /// write. What a workload makes of a name is not run with more rights, and device files can be
    /// made but not opened: they would lead to the devices of the host.
    ///
    /// # Errors
    /// If the kernel refuses, or the driver does.
    pub fn new(variant: &Variant, device: &Path, path: &Path) -> Result<Self> {
        if let Some(driver) = variant.file_system.driver {
            let serving = Serving::start(driver, variant, device, path)?;
            log_mounted(variant, device, path);
            return Ok(Self {
                path: path.into(),
                active: true,
                driver: Some(Box::new(serving)),
                complained: None,
                _remembered: Remembered(None),
            });
        }
        let name = variant.file_system.name;
        let (flags, options) = arguments(variant);
        // A mount that fails may have got as far as to be remembered.
        let remembered = Remembered(
            variant
                .file_system
                .remembered_by_identity
                .then(|| device.into()),
        );
        // Whoever looks for a free loop device has it open for a moment.
        let mounted = unless_busy(|| {
            mount(
                Some(device),
                path,
                Some(name),
                flags,
                Some(options.as_str()),
            )
        });
        mounted.map_err(|errno| match errno {
            Errno::ENODEV => Error::NotInKernel { name },
            _ => Error::Mount {
                name,
                device: device.into(),
                options,
                source: errno.into(),
            },
        })?;
        log_mounted(variant, device, path);
        Ok(Self {
            path: path.into(),
            active: true,
            driver: None,
            complained: None,
            _remembered: remembered,
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens its root, for `openat` and syncfs.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn root(&self) -> Result<File> {
        let root = open(
            &self.path,
            OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        );
        Ok(root
            .doing(|| format!("open {}", self.path.display()))?
            .into())
    }

    /// Has the file system write nothing more: then it is unmounted without what it would have to
    /// write for that. Whether it can do so.
    pub fn shut_down(&self) -> bool {
        self.root().is_ok_and(|root| shutdown(&root).is_ok())
    }

    /// The first thing that its driver, if it is a process, has said to be wrong with it; also once
    /// it is unmounted.
    pub fn complaint(&self) -> Option<String> {
        let said = || self.driver.as_ref().and_then(|driver| driver.complaint());
        self.complained.clone().or_else(said)
    }

    /// Writes everything that is not on the device yet. Whether that worked.
    pub fn sync(&self) -> bool {
        self.root().is_ok_and(|root| syncfs(root).is_ok())
    }

    /// Has the device hold what it does once this is unmounted, until [`Self::resume`]. For that it
    /// is made read-only, or unmounted.
    ///
    /// # Errors
    /// [`Error::Rest`] if the kernel cannot make it read-only; those of [`Self::unmount`].
    pub fn pause(&mut self, variant: &Variant) -> Result<()> {
        match variant.file_system.rest {
            Rest::ReadOnly | Rest::Mounted => {
                self.remount(variant, MsFlags::MS_RDONLY, "making it read-only")
            }
            Rest::Unmounted | Rest::Synced => self.unmount(),
        }
    }

    /// Can be written to again after [`Self::pause`].
    ///
    /// # Errors
    /// [`Error::Rest`] if that is refused; others if that says nothing of what is on the device.
    pub fn resume(&mut self, variant: &Variant, device: &Path) -> Result<()> {
        if self.active {
            return self.remount(variant, MsFlags::empty(), "making it writable again");
        }
        let complained = self.complaint();
        let again = Self::new(variant, device, &self.path);
        *self = again.map_err(|error| match error.unmountable() {
            Some(why) => Error::Rest {
                doing: "mounting it again",
                source: std::io::Error::other(why),
            },
            None => error,
        })?;
        self.complained = complained;
        Ok(())
    }

    fn remount(&self, variant: &Variant, flag: MsFlags, doing: &'static str) -> Result<()> {
        let (flags, options) = arguments(variant);
        let flags = flags | flag | MsFlags::MS_REMOUNT;
        let none = None::<&str>;
        unless_busy(|| mount(none, &self.path, none, flags, Some(options.as_str()))).map_err(
            |errno| Error::Rest {
                doing,
                source: errno.into(),
            },
        )
    }

    /// Unmounts it now, and says whether that worked. A driver has written everything, and has
    /// ended, when this returns. What is unmounted already stays so.
    ///
    /// # Errors
    /// [`Error::Unmount`] if it is busy, or the file system failed on the way out;
    /// [`Error::DriverDied`] or [`Error::DriverLost`] if the driver did, which then is gone as
    /// well.
    pub fn unmount(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.active) {
            return Ok(());
        }
        // Whoever looks through /proc holds what it looks at for a moment.
        unless_busy(|| umount2(&self.path, MntFlags::empty())).map_err(|errno| {
            // Out of the way at least; the caller learns what was wrong.
            let _ = umount2(&self.path, MntFlags::MNT_DETACH);
            Error::Unmount(errno.into())
        })?;
        tracing::info!(path = %self.path.display(), "unmounted");
        self.driver
            .as_mut()
            .map_or(Ok(()), |driver| driver.finish())
    }
}

/// The flags and options of every mount of ours.
fn arguments(variant: &Variant) -> (MsFlags, String) {
    let (flags, options) = variant.mount_arguments();
    let ours = MsFlags::MS_NOATIME | MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    (flags | ours, options)
}

/// Tries again while something is busy, which others may have made it for a moment.
fn unless_busy(mut act: impl FnMut() -> nix::Result<()>) -> nix::Result<()> {
    // The clock is looked at only when it matters.
    let mut deadline = None;
    loop {
        match act() {
            Err(Errno::EBUSY)
                if Instant::now()
                    < *deadline.get_or_insert_with(|| Instant::now() + BUSY_PATIENCE) =>
            {
                std::thread::sleep(BUSY_PAUSE);
            }
            answer => return answer,
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.active {
            let _ = umount2(&self.path, MntFlags::MNT_DETACH);
            tracing::info!(path = %self.path.display(), "detached");
        }
    }
}

fn log_mounted(variant: &Variant, device: &Path, path: &Path) {
    let (device, path) = (device.display(), path.display());
    tracing::info!(file_system = %variant, %device, %path, "mounted");
}
