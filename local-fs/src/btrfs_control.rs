//! `/dev/btrfs-control`: what the kernel remembers of devices with btrfs.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `struct btrfs_ioctl_vol_args` of linux/btrfs.h.
#[repr(C)]
struct VolumeArguments {
    fd: i64,
    name: [u8; 4088],
}

/// `BTRFS_IOC_FORGET_DEV`, _IOW(0x94, 5, struct btrfs_ioctl_vol_args).
const FORGET_DEVICE: libc::c_ulong = 0x5000_9405;

/// Has the kernel forget a device, if there is one, as soon as this is dropped.
#[derive(Debug)]
pub(crate) struct Remembered(pub(crate) Option<PathBuf>);

impl Drop for Remembered {
    fn drop(&mut self) {
        self.0.iter().for_each(|device| forget_device(device));
    }
}

/// Has the kernel forget an unmounted device. Kernels up to 6.7 remember the identity and the
/// generation of what was on it, and refuse another device with an older copy of the same. That
/// one has nothing to forget, or no btrfs, is no failure.
#[allow(unsafe_code)]
fn forget_device(device: &Path) {
    let Ok(control) = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/btrfs-control")
    else {
        return;
    };
    let mut arguments = VolumeArguments {
        fd: 0,
        name: [0; 4088],
    };
    let name = device.as_os_str().as_bytes();
    if name.len() >= arguments.name.len() {
        return;
    }
    arguments.name[..name.len()].copy_from_slice(name);
    // SAFETY: the kernel reads one `struct btrfs_ioctl_vol_args`, which `VolumeArguments` lays out.
    unsafe {
        libc::ioctl(
            control.as_raw_fd(),
            FORGET_DEVICE,
            std::ptr::from_ref(&arguments),
        )
    };
}
