//! What a sweep needs of the machine.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use block_dev::loop_device::LoopDevice;
use local_fs::{FileSystem, KernelLog, Program, enter_mount_namespace};
use nix::sys::memfd::{MFdFlags, memfd_create};
use replayer::{DEVICES, check_device};

/// A worker with its two disks, the largest of the table, and what mkfs and fsck take.
const MEMORY_MIB: u64 = 512;

/// The size of the disk that is attached to try it.
const TRIAL_BYTES: u64 = 1 << 20;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is there.
    Ok,
    /// It is not, and nothing works without it.
    Missing,
    /// It is not, and something is less exact without it.
    Optional,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Optional => "optional",
        }
    }
}

/// One line of the doctor's.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) state: State,
    /// What was found, or what to do.
    pub(super) detail: String,
}

impl Check {
    pub(super) fn new(name: impl Into<String>, found: Result<String, String>) -> Self {
        let (state, detail) = match found {
            Ok(detail) => (State::Ok, detail),
            Err(advice) => (State::Missing, advice.replace('\n', " ")),
        };
        Self { name: name.into(), state, detail }
    }

    fn optional(self) -> Self {
        let state = if self.state == State::Missing { State::Optional } else { self.state };
        Self { state, ..self }
    }
}

/// What every sweep needs.
pub(super) fn machine() -> Vec<Check> {
    let mut checks = vec![Check::new("root", root())];
    checks.extend(DEVICES.iter().map(|(path, module)| Check::new(*path, device(path, module))));
    checks.extend([
        Check::new("loop device", loop_device()),
        Check::new("mount namespace", mount_namespace()),
        Check::new("kernel log", kernel_log()),
        Check::new("memory", memory()),
        Check::new("temporary directory", temporary_directory()),
        Check::new("block tracing", block_tracing()).optional(),
    ]);
    checks
}

/// What a file system needs.
pub(super) fn file_system(row: &FileSystem) -> Vec<Check> {
    let name = row.kernel_name();
    let kernel = match replayer::kernel_has(name) {
        Ok(true) => Ok(String::new()),
        Ok(false) => Err(local_fs::Error::NotInKernel { name }.to_string()),
        Err(error) => Err(format!("{error:#}")),
    };
    let mut checks = vec![Check::new(format!("{name} in the kernel"), kernel)];
    let mut programs: Vec<Program> = Vec::new();
    for needed in row.programs() {
        if !programs.iter().any(|known| known.name == needed.name) {
            programs.push(needed);
        }
    }
    checks.extend(programs.iter().map(|needed| Check::new(needed.name, program(needed))));
    checks
}

fn program(program: &Program) -> Result<String, String> {
    program.find().map(|path| path.display().to_string()).map_err(|error| error.to_string())
}

fn root() -> Result<String, String> {
    if nix::unistd::geteuid().is_root() { Ok(String::new()) } else { Err("run it with sudo".into()) }
}

fn device(path: &str, module: &str) -> Result<String, String> {
    check_device(Path::new(path), module).map(|()| String::new()).map_err(|error| format!("{error:#}"))
}

fn kernel_log() -> Result<String, String> {
    KernelLog::open().map(|_| String::new()).map_err(|error| format!("{error}: run it as root"))
}

fn loop_device() -> Result<String, String> {
    let attach = || -> Result<String, Box<dyn std::error::Error>> {
        let backing = File::from(memfd_create("crashpoint-doctor", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?);
        backing.set_len(TRIAL_BYTES)?;
        let device = LoopDevice::attach(backing.as_fd(), false)?;
        Ok(format!("attached and detached {}", device.path().display()))
    };
    attach().map_err(|error| error.to_string())
}

fn mount_namespace() -> Result<String, String> {
    // In a thread of its own: this one stays where it is.
    let entered = std::thread::spawn(enter_mount_namespace).join().expect("it does not panic");
    entered.map(|()| String::new()).map_err(|error| format!("{error}: a container needs the right to mount"))
}

fn memory() -> Result<String, String> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|error| error.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let mib = kib.ok_or("the kernel does not say how much there is")? >> 10;
    if mib >= MEMORY_MIB {
        Ok(format!("{mib} MiB available"))
    } else {
        Err(format!("{mib} MiB available, {MEMORY_MIB} MiB are needed for a worker"))
    }
}

fn temporary_directory() -> Result<String, String> {
    let directory = std::env::temp_dir();
    let made = tempfile::tempdir_in(&directory);
    made.map(|_| directory.display().to_string())
        .map_err(|error| format!("cannot write to {}: {error}: set TMPDIR to another", directory.display()))
}

fn block_tracing() -> Result<String, String> {
    let at = |root: &str| Path::new(root).join("events/block/block_bio_queue").exists();
    if at("/sys/kernel/tracing") || at("/sys/kernel/debug/tracing") {
        return Ok(String::new());
    }
    Err("`mount -t tracefs none /sys/kernel/tracing`, if the kernel has it: FUA writes are told from others with it"
        .into())
}
