//! Says early, and with what to do, what would fail late.

use std::fs::OpenOptions;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::Command;

use checker::Contract;
use local_fs::Variant;
use machine::{Logged, Machine};

use crate::error::{Context as _, Error, Result};

/// The device nodes that disks in user space need, and the modules that make them.
pub const DEVICES: [(&str, &str); 2] = [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")];

/// Whether file systems could be tested on this machine, as far as that can be told at once.
///
/// # Errors
/// Without root, a device, a program or a file system of the kernel, or with too small a disk.
pub fn prepare(variants: &[Variant], machine: &Machine) -> Result<()> {
    for variant in variants {
        let row = variant.file_system;
        let given_mib = variant.size_bytes >> 20;
        if given_mib < row.size_min_mib {
            return Err(local_fs::Error::TooSmall {
                name: row.name,
                given_mib,
                needed_mib: row.size_min_mib,
            }
            .into());
        }
        Contract::for_variant(variant)?;
    }
    if let Machine::Thread(_) = machine {
        // It mounts nothing and starts no program.
        return Ok(());
    }
    for variant in variants {
        let row = variant.file_system;
        if row.driver.is_some() && machine.is_guest() {
            return Err(Error::FuseInGuest(row.name));
        }
        row.programs()
            .try_for_each(|program| program.find().map(drop))?;
    }
    if machine.is_guest() {
        // What its kernel has is seen when it runs.
        return Ok(());
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NoRoot);
    }
    variants.iter().try_for_each(prepare_kernel)
}

/// Whether the kernel that we run under has what it takes to test a file system.
///
/// # Errors
/// If a device or the file system is missing.
pub(crate) fn prepare_kernel(variant: &Variant) -> Result<()> {
    for (device, module) in DEVICES {
        check_device(Path::new(device), module)?;
    }
    let name = variant.file_system.kernel_name();
    for module in variant.file_system.modules {
        load(module);
    }
    if !kernel_has(name)? {
        return Err(local_fs::Error::NotInKernel { name }.into());
    }
    Ok(())
}

/// Whether a device can be used, after loading its module if it is not there.
///
/// # Errors
/// If it cannot; with what to do.
pub fn check_device(path: &Path, module: &str) -> Result<()> {
    if !path.exists() {
        load(module);
    }
    let advice = || {
        format!(
            "open {} (try `modprobe {module}`; a container must be given the device)",
            path.display()
        )
    };
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .doing(advice)?;
    if !device
        .metadata()
        .doing(advice)?
        .file_type()
        .is_char_device()
    {
        return Err(Error::NoDevice {
            device: path.into(),
            module: module.into(),
        });
    }
    Ok(())
}

/// Whether the kernel has a file system, after loading its module if there is one.
///
/// # Errors
/// If the kernel does not say.
pub fn kernel_has(name: &str) -> Result<bool> {
    if listed(name)? {
        return Ok(true);
    }
    // mount(2) does not load modules by itself for a process that names the type.
    load(name);
    listed(name)
}

/// What comes of it shows in what was missing.
fn load(module: &str) {
    let _ = Command::new("modprobe").arg(module).output_logged();
}

fn listed(name: &str) -> Result<bool> {
    let list =
        std::fs::read_to_string("/proc/filesystems").doing(|| "read /proc/filesystems".into())?;
    Ok(list
        .lines()
        .any(|line| line.split_whitespace().last() == Some(name)))
}
