//! Loop devices: attach, find by mark, detach. Follows `drivers/block/loop.c` and
//! `include/uapi/linux/loop.h`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Context;
use crate::{Error, NAME_MARK, Result};

const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
const ATTACH_ATTEMPTS_MAX: u32 = 200;

/// How often it is looked whether a device is still in use.
const BUSY_PAUSE: Duration = Duration::from_micros(500);

/// Waits until nothing is mounted from a device, in any mount namespace. Whether that is so
/// `within` a time.
pub fn is_unmounted(device: &Path, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    loop {
        // A mount has it for itself (open(2), O_EXCL without O_CREAT).
        match File::options()
            .read(true)
            .custom_flags(libc::O_EXCL)
            .open(device)
        {
            Ok(_) => return true,
            Err(_) if Instant::now() < deadline => std::thread::sleep(BUSY_PAUSE),
            Err(_) => return false,
        }
    }
}

/// A loop device that is ours. It is detached when this is dropped, or by the kernel when the
/// process dies (`LO_FLAGS_AUTOCLEAR`: it goes with its last opener).
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    device: File,
}

/// Opens a device that nobody has at the moment.
fn open_free(control: &File) -> io::Result<(PathBuf, File)> {
    let number = sys::get_free(control.as_fd())?;
    let path = PathBuf::from(format!("/dev/loop{number}"));
    // O_EXCL would be refused while a probing daemon has the device open.
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_CLOEXEC);
    let device = options.open(&path)?;
    Ok((path, device))
}

impl LoopDevice {
    /// Attaches a free loop device to a file; `direct` passes requests on as they are, past
    /// the page cache of the file.
    ///
    /// # Errors
    /// Without the right to, without loop devices, or when none is free.
    pub fn attach(backing: BorrowedFd<'_>, direct: bool) -> Result<Self> {
        let control_path = Path::new("/dev/loop-control");
        let control = OpenOptions::new().read(true).write(true).open(control_path).map_err(|source| Error::Device {
            path: control_path.into(),
            hint: "root and the loop driver are needed; try `modprobe loop`; a container must be given the device",
            source,
        })?;
        let config = sys::Config::new(
            backing,
            direct,
            &format!("{NAME_MARK}:{}", std::process::id()),
        );
        let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
        for attempt in 0..ATTACH_ATTEMPTS_MAX {
            let (path, device) =
                open_free(&control).map_err(|source| Error::NoLoopDevice { source })?;
            match sys::configure(device.as_fd(), &config) {
                Ok(()) => return Ok(Self { path, device }),
                // Another process took it between the two calls.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    last = error;
                    std::thread::sleep(std::time::Duration::from_micros(50 * u64::from(attempt)));
                }
                Err(source) => return Err(Error::NoLoopDevice { source }),
            }
        }
        Err(Error::NoLoopDevice { source: last })
    }

    /// `/dev/loopN`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `loopN`, as the kernel's log names it.
    pub fn name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("named by us")
    }

    /// The device's number, as traces show it.
    ///
    /// # Errors
    /// If it cannot be stat'ed.
    pub fn number(&self) -> Result<u64> {
        let stat = nix::sys::stat::fstat(&self.device)
            .doing(|| format!("stat {}", self.path.display()))?;
        Ok(stat.st_rdev)
    }

    /// Drops what the kernel has cached of the device, after its backing file was changed behind
    /// it.
    ///
    /// # Errors
    /// If the ioctl fails.
    pub fn drop_cache(&self) -> Result<()> {
        sys::flush_buffers(self.device.as_fd())
            .doing(|| format!("drop the cache of {}", self.path.display()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // With AUTOCLEAR the close of the last opener detaches it as well; this says it now.
        let _ = sys::clear(self.device.as_fd());
    }
}

/// A loop device with our mark that some process attached. It is open, so that it stays what it is:
/// once it were detached its number could be that of a device of anybody.
#[derive(Debug)]
pub struct Marked {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// The process that attached it.
    pub owner_pid: i32,
    device: File,
}

impl Marked {
    /// The device with this path, if it carries our mark.
    fn open(path: PathBuf) -> Option<Self> {
        let device = File::open(&path).ok()?;
        let file_name = sys::file_name(device.as_fd()).ok()?;
        let owner_pid = file_name
            .strip_prefix(NAME_MARK)?
            .strip_prefix(':')?
            .parse()
            .ok()?;
        Some(Self {
            path,
            owner_pid,
            device,
        })
    }

    /// Has it go with whoever has it open last.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn detach(self) -> io::Result<()> {
        sys::clear(self.device.as_fd())
    }
}

/// All loop devices that carry our mark, one after the other.
///
/// # Errors
/// If `/sys/block` cannot be read.
pub fn marked() -> io::Result<impl Iterator<Item = Marked>> {
    let names = std::fs::read_dir("/sys/block")?
        .flatten()
        .map(|entry| entry.file_name());
    Ok(names.filter_map(|name| {
        let attached = name.to_str()?.starts_with("loop")
            && Path::new("/sys/block").join(&name).join("loop").exists();
        attached
            .then(|| Marked::open(Path::new("/dev").join(&name)))
            .flatten()
    }))
}

/// The ioctls, and the structures of `linux/loop.h`.
mod sys {
    use super::{AsRawFd, BorrowedFd, LO_FLAGS_AUTOCLEAR, LO_FLAGS_DIRECT_IO, io};

    const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
    const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
    const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
    const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;
    const BLKFLSBUF: libc::c_ulong = 0x1261;

    #[repr(C)]
    struct Info64 {
        device: u64,
        inode: u64,
        rdevice: u64,
        offset: u64,
        size_limit: u64,
        number: u32,
        encrypt_type: u32,
        encrypt_key_size: u32,
        flags: u32,
        file_name: [u8; 64],
        crypt_name: [u8; 64],
        encrypt_key: [u8; 32],
        init: [u64; 2],
    }

    #[repr(C)]
    pub(super) struct Config {
        fd: u32,
        block_size: u32,
        info: Info64,
        reserved: [u64; 8],
    }

    fn empty_info() -> Info64 {
        Info64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }

    impl Config {
        pub(super) fn new(backing: BorrowedFd<'_>, direct: bool, file_name: &str) -> Self {
            let mut info = empty_info();
            info.flags = LO_FLAGS_AUTOCLEAR | if direct { LO_FLAGS_DIRECT_IO } else { 0 };
            let length = file_name.len().min(63);
            info.file_name[..length].copy_from_slice(&file_name.as_bytes()[..length]);
            Self {
                fd: backing.as_raw_fd() as u32,
                block_size: 0,
                info,
                reserved: [0; 8],
            }
        }
    }

    fn answer(result: libc::c_int) -> io::Result<i32> {
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(result)
        }
    }

    pub(super) fn get_free(control: BorrowedFd<'_>) -> io::Result<i32> {
        // SAFETY: LOOP_CTL_GET_FREE takes no argument.
        answer(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })
    }

    pub(super) fn configure(device: BorrowedFd<'_>, config: &Config) -> io::Result<()> {
        // SAFETY: the kernel reads one `struct loop_config`, which `Config` lays out.
        answer(unsafe {
            libc::ioctl(
                device.as_raw_fd(),
                LOOP_CONFIGURE,
                std::ptr::from_ref(config),
            )
        })
        .map(drop)
    }

    pub(super) fn clear(device: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: LOOP_CLR_FD takes no argument.
        answer(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD, 0) }).map(drop)
    }

    pub(super) fn flush_buffers(device: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: BLKFLSBUF takes no argument.
        answer(unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF, 0) }).map(drop)
    }

    pub(super) fn file_name(device: BorrowedFd<'_>) -> io::Result<String> {
        let mut info = empty_info();
        // SAFETY: the kernel writes one `struct loop_info64`, which `Info64` lays out.
        answer(unsafe {
            libc::ioctl(
                device.as_raw_fd(),
                LOOP_GET_STATUS64,
                std::ptr::from_mut(&mut info),
            )
        })?;
        let end = info
            .file_name
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(64);
        Ok(String::from_utf8_lossy(&info.file_name[..end]).into_owned())
    }
}
