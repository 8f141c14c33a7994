//! Says early, and with what to do, what would fail late.

use anyhow::{Context, bail};
use local_fs::{Error, Variant};

/// Whether file systems could be tested on this machine, as far as that can be told at once.
///
/// # Errors
/// Without root, a program or a file system of the kernel, or with too small a disk.
pub fn prepare(variants: &[Variant]) -> anyhow::Result<()> {
    for variant in variants {
        let row = variant.file_system;
        let given_mib = variant.size_bytes >> 20;
        if given_mib < row.size_min_mib {
            return Err(Error::TooSmall { name: row.name, given_mib, needed_mib: row.size_min_mib }.into());
        }
    }
    if !nix::unistd::geteuid().is_root() {
        bail!("root is needed to mount file systems: run it with sudo");
    }
    for variant in variants {
        let row = variant.file_system;
        row.mkfs.find()?;
        row.fsck.find()?;
        if !kernel_has(row.name)? {
            return Err(Error::NotInKernel { name: row.name }.into());
        }
    }
    Ok(())
}

/// Whether the kernel has a file system, after loading its module if there is one.
///
/// # Errors
/// If the kernel does not say.
pub fn kernel_has(name: &str) -> anyhow::Result<bool> {
    if listed(name)? {
        return Ok(true);
    }
    // mount(2) does not load modules by itself for a process that names the type.
    let _ = std::process::Command::new("modprobe").arg(name).output();
    listed(name)
}

fn listed(name: &str) -> anyhow::Result<bool> {
    let list = std::fs::read_to_string("/proc/filesystems").context("read /proc/filesystems")?;
    Ok(list.lines().any(|line| line.split_whitespace().last() == Some(name)))
}
