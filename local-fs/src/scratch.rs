use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use tempfile::TempDir;

use crate::Result;
use crate::error::Context;

/// How the names of our directories start; the process id of their owner follows.
pub const NAME_PREFIX: &str = "crashpoint-";

/// Gives the calling thread, and those it starts, a mount namespace of their own: nothing
/// mounted from now on shows up on the host.
///
/// # Errors
/// Without root.
pub fn enter_mount_namespace() -> Result<()> {
    let needed = || {
        let is_root = nix::unistd::geteuid().is_root();
        let needed = if is_root {
            "a container must be privileged: docker run --privileged"
        } else {
            "root is needed: run it with sudo, or in a guest with `crashpoint machine`"
        };
        format!("make a mount namespace ({needed})")
    };
    machine::have_own_mounts().doing(needed)
}

/// A directory for mount points and files in memory, gone when dropped.
///
/// In the host's tree it is an empty directory that carries our mark and our process id; its
/// content is a tmpfs that only this mount namespace sees.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
}

impl Scratch {
    /// Makes one. The caller must be in a mount namespace of its own.
    ///
    /// # Errors
    /// If it cannot be made or mounted.
    pub fn new() -> Result<Self> {
        let prefix = format!("{NAME_PREFIX}{}-", std::process::id());
        let directory = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir()
            .doing(|| "make a temporary directory")?;
        mount(
            Some("crashpoint"),
            directory.path(),
            Some("tmpfs"),
            MsFlags::empty(),
            Some("mode=0700"),
        )
        .doing(|| format!("mount a tmpfs on {}", directory.path().display()))?;
        Ok(Self { directory })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        std::fs::create_dir(&path).doing(|| format!("create {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(self.directory.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}
