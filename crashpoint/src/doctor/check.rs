//! Looks at the machine.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use block_dev::loop_device::LoopDevice;
use brief::counted;
use itertools::Itertools;
use local_fs::{FileSystem, KernelLog, Program, enter_mount_namespace, find_program};
use machine::{GUEST_STATE_BYTES, GuestCommand, OtherBoot, Uml, host_state_bytes};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statvfs::{FsFlags, statvfs};
use recorder::process::{NodeOptions, record};
use replayer::{DEVICES, check_device};

/// A worker with its two disks, the largest of the table, and what mkfs and fsck take.
const MEMORY_MIB: u64 = 512;

/// What a guest's memory takes.
const GUEST_MIB: u64 = 512;

/// What the kernel has unless somebody changed it.
const MAPPINGS_MIN: u64 = 65530;

/// close_range(2) with CLOSE_RANGE_UNSHARE is of this release.
const KERNEL_MIN: (u32, u32) = (5, 9);

const OPEN_FILES_MIN: u64 = 64;
const PROCESSES_MIN: u64 = 100;
const SIGNALS_MIN: u64 = 64;
const FILE_BYTES_MIN: u64 = 2 << 30;
const ADDRESS_BYTES_MIN: u64 = 4 << 30;

/// The size of the disk that is attached to try it.
const TRIAL_BYTES: u64 = 1 << 20;

/// What a check finds: what there is, or what to do.
pub(super) type Found = Result<String, String>;

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
    pub(super) fn new(name: impl Into<String>, found: Found) -> Self {
        let (state, detail) = match found {
            Ok(detail) => (State::Ok, detail),
            Err(advice) => (State::Missing, advice.replace('\n', " ")),
        };
        Self {
            name: name.into(),
            state,
            detail,
        }
    }

    pub(super) fn optional(self) -> Self {
        let state = if self.state == State::Missing {
            State::Optional
        } else {
            self.state
        };
        Self { state, ..self }
    }
}

/// What a file system needs: programs, and a kernel that has it.
pub(super) fn file_system(row: &FileSystem) -> (Vec<Check>, Check) {
    let name = row.kernel_name();
    let kernel = match replayer::kernel_has(name) {
        Ok(true) => Ok(String::new()),
        Ok(false) => Err(local_fs::Error::NotInKernel { name }.to_string()),
        Err(error) => Err(campaign::one_line(&error)),
    };
    let programs = row.programs().unique_by(|program| program.name);
    let programs = programs
        .map(|needed| Check::new(needed.name, program(&needed)))
        .collect();
    (
        programs,
        Check::new(format!("{name} in the kernel"), kernel),
    )
}

fn program(program: &Program) -> Found {
    program
        .find()
        .map(|path| path.display().to_string())
        .map_err(|error| error.to_string())
}

pub(super) fn root() -> Found {
    if nix::unistd::geteuid().is_root() {
        Ok(String::new())
    } else {
        Err("run it with sudo, or test a kernel that needs no root: --kernel uml; clusters run under `unshare -Ur` too"
            .into())
    }
}

fn device((path, module): (&str, &str)) -> Found {
    check_device(Path::new(path), module)
        .map(|()| String::new())
        .map_err(|error| format!("{error:#}"))
}

pub(super) fn fuse_device() -> Found {
    device(DEVICES[0])
}

pub(super) fn loop_control() -> Found {
    device(DEVICES[1])
}

pub(super) fn kernel_log() -> Found {
    KernelLog::open()
        .map(|_| String::new())
        .map_err(|error| format!("{error}: run it as root"))
}

pub(super) fn loop_device() -> Found {
    let attach = || -> Result<String, Box<dyn std::error::Error>> {
        let backing = File::from(
            memfd_create("crashpoint-doctor", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from)?,
        );
        backing.set_len(TRIAL_BYTES)?;
        let device = LoopDevice::attach(backing.as_fd(), false)?;
        Ok(format!("attached and detached {}", device.path().display()))
    };
    attach().map_err(|error| error.to_string())
}

pub(super) fn mount_namespace() -> Found {
    // In a thread of its own: this one stays where it is.
    let entered = std::thread::spawn(enter_mount_namespace)
        .join()
        .expect("it does not panic");
    entered
        .map(|()| String::new())
        .map_err(|error| error.to_string())
}

pub(super) fn other_boot() -> Found {
    let boot = || -> anyhow::Result<String> {
        let directory = tempfile::tempdir()?;
        enter_mount_namespace()?;
        let boot = OtherBoot::new(directory.path())?;
        if boot.has_own_clocks() {
            Ok(String::new())
        } else {
            bail!("this kernel has no time namespaces (CONFIG_TIME_NS)")
        }
    };
    // In a thread of its own, as above.
    let made = std::thread::spawn(boot).join().expect("it does not panic");
    made.map_err(|error| format!("{error:#}"))
}

pub(super) fn memory() -> Found {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|error| error.to_string())?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let host = kib.ok_or("the kernel does not say how much there is")? >> 10;
    let most = of_own_cgroup("memory.max").and_then(|text| text.parse::<u64>().ok());
    let mib = most.map_or(host, |bytes| host.min(bytes >> 20));
    if mib >= MEMORY_MIB {
        Ok(format!("{mib} MiB available"))
    } else {
        Err(format!(
            "{mib} MiB available, {MEMORY_MIB} MiB are needed for a worker"
        ))
    }
}

pub(super) fn temporary_directory() -> Found {
    let directory = std::env::temp_dir();
    let made = tempfile::tempdir_in(&directory);
    made.map(|_| directory.display().to_string())
        .map_err(|error| {
            format!(
                "cannot write to {}: {error}: set TMPDIR to another",
                directory.display()
            )
        })
}

pub(super) fn block_tracing() -> Found {
    // As a sweep does, where nobody else sees what is mounted.
    let try_it = || -> anyhow::Result<()> {
        enter_mount_namespace()?;
        let directory = tempfile::tempdir()?;
        Ok(block_dev::try_request_trace(directory.path())?)
    };
    let tried = std::thread::scope(|scope| scope.spawn(try_it).join().expect("it does not panic"));
    tried
        .map(|()| "watched block_bio_queue".into())
        .map_err(|error| format!("{error:#}: FUA is not told from flushes"))
}

pub(super) fn architecture() -> Found {
    let name = std::env::consts::ARCH;
    if name == "x86_64" {
        Ok(name.into())
    } else {
        Err(format!("{name}: guests are for x86-64 only"))
    }
}

pub(super) fn processor_state() -> Found {
    let bytes = host_state_bytes()?;
    let more = if bytes > GUEST_STATE_BYTES {
        ": a kernel before 6.13 gets a library that makes up for it"
    } else {
        ""
    };
    Ok(format!("{}{more}", counted(bytes, "byte")))
}

pub(super) fn kernel_release() -> Found {
    let text =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    let text = text.trim();
    if release(text).is_some_and(|version| version >= KERNEL_MIN) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "{text} is older than {}.{}",
            KERNEL_MIN.0, KERNEL_MIN.1
        ))
    }
}

pub(super) fn network() -> Found {
    cluster::try_network()
        .map(|()| "made and removed".into())
        .map_err(|error| error.to_string())
}

pub(super) fn links() -> Found {
    cluster::try_links()
        .map(|()| "cut one and removed it".into())
        .map_err(|error| error.to_string())
}

pub(super) fn tracing() -> Found {
    let advice = "a container needs --cap-add SYS_PTRACE or --security-opt seccomp=unconfined; \
                  kernel.yama.ptrace_scope must be 0 or 1";
    host_state_bytes()
        .map(|_| "traced a process".into())
        .map_err(|error| format!("{error}: {advice}"))
}

/// Records a program that writes to a file.
pub(super) fn recording() -> Found {
    let try_it = || -> anyhow::Result<usize> {
        let directory = tempfile::tempdir()?;
        let options = NodeOptions {
            name: "doctor".into(),
            directory: Some(directory.path().to_owned()),
            ..NodeOptions::default()
        };
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo text >file"])
            .current_dir(directory.path())
            .stdin(Stdio::null());
        let recorded = record(options, command, &|_| false)?;
        Ok(recorded.map_or(0, |(trace, _)| {
            trace.run.nodes.iter().map(|node| node.events.len()).sum()
        }))
    };
    match try_it() {
        Ok(0) => Err("of a program that wrote to a file nothing was recorded: report it".into()),
        Ok(count) => Ok(format!(
            "recorded a program: {}",
            counted(count, "operation")
        )),
        Err(error) => Err(format!("{error:#}")),
    }
}

pub(super) fn uml() -> Found {
    kernel(Uml::find(None, None).map_err(Into::into))
}

pub(super) fn virtual_kernel() -> Found {
    kernel(Uml::find_virtual(None, None, 0).map_err(Into::into))
}

/// Which kernel it is.
pub(super) fn kernel(uml: anyhow::Result<Uml>) -> Found {
    let uml = uml.map_err(|error| format!("{error:#}"))?;
    Ok(format!("{} is Linux {}", uml.kernel.display(), uml.release))
}

/// Starts a guest, and runs a program in it.
pub(super) fn guest(uml: anyhow::Result<Uml>) -> Found {
    let run = || -> anyhow::Result<String> {
        let started = Instant::now();
        let mut running = uml?.start_command(GuestCommand {
            words: vec!["uname".into(), "-r".into()],
            directory: "/".into(),
            shared: Vec::new(),
            environment: Vec::new(),
        })?;
        let mut printed = String::new();
        running
            .output()
            .read_to_string(&mut printed)
            .context("read what a program in the guest prints")?;
        running.end();
        match running.command_status() {
            Some(0) => Ok(format!(
                "Linux {} ran a program after {:.1} s",
                printed.trim(),
                started.elapsed().as_secs_f64()
            )),
            status => anyhow::bail!("the program in the guest ended with {status:?}"),
        }
    };
    run().map_err(|error| format!("{error:#}"))
}

pub(super) fn guest_memory() -> Found {
    let (directory, free_mib) = machine::memory_room(GUEST_MIB);
    let place = format!("{free_mib} MiB free in {}", directory.display());
    if free_mib < GUEST_MIB {
        return Err(format!(
            "{place}, a guest takes {GUEST_MIB}: set TMPDIR to a directory with more"
        ));
    }
    let flags = statvfs(&directory)
        .map_err(|error| error.to_string())?
        .flags();
    if flags.contains(FsFlags::ST_NOEXEC) {
        return Err(format!(
            "{} is mounted noexec: set TMPDIR to a directory that is not",
            directory.display()
        ));
    }
    Ok(place)
}

pub(super) fn mappings() -> Found {
    let path = "/proc/sys/vm/max_map_count";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let count: u64 = text.trim().parse().map_err(|_| format!("{path}: {text}"))?;
    if count >= MAPPINGS_MIN {
        Ok(format!("vm.max_map_count is {count}"))
    } else {
        Err(format!(
            "vm.max_map_count is {count}: `sysctl vm.max_map_count=262144`"
        ))
    }
}

pub(super) fn open_files() -> Found {
    limit(Resource::RLIMIT_NOFILE, OPEN_FILES_MIN, "-n", "files")
}

pub(super) fn processes() -> Found {
    let found = limit(Resource::RLIMIT_NPROC, PROCESSES_MIN, "-u", "processes")?;
    match of_own_cgroup("pids.max").and_then(|text| text.parse::<u64>().ok()) {
        Some(most) if most < PROCESSES_MIN => Err(format!(
            "the cgroup allows {most}, {PROCESSES_MIN} are needed"
        )),
        Some(most) => Ok(format!("{found}, {most} in the cgroup")),
        None => Ok(found),
    }
}

/// A file of the cgroup that this process is in (version 2).
fn of_own_cgroup(file: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))?
        .to_owned();
    let read = std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(path).join(file)).ok()?;
    Some(read.trim().to_owned())
}

pub(super) fn signals() -> Found {
    limit(Resource::RLIMIT_SIGPENDING, SIGNALS_MIN, "-i", "signals")
}

pub(super) fn own_proc() -> Found {
    let seen = std::fs::read_link("/proc/self")
        .map_err(|error| format!("/proc/self: {error}: mount it"))?;
    let pid = std::process::id().to_string();
    if seen.as_os_str() == pid.as_str() {
        Ok(String::new())
    } else {
        Err("it is that of another process namespace".into())
    }
}

pub(super) fn file_size() -> Found {
    limit(Resource::RLIMIT_FSIZE, FILE_BYTES_MIN, "-f", "bytes")
}

pub(super) fn address_space() -> Found {
    limit(Resource::RLIMIT_AS, ADDRESS_BYTES_MIN, "-v", "bytes")
}

fn limit(resource: Resource, least: u64, option: &str, unit: &str) -> Found {
    let (now, _) = getrlimit(resource).map_err(|error| error.to_string())?;
    let text = if now == RLIM_INFINITY {
        "unlimited".into()
    } else {
        format!("{now} {unit}")
    };
    if now >= least {
        Ok(text)
    } else {
        Err(format!(
            "{text}, {least} are needed: raise `ulimit {option}`"
        ))
    }
}

pub(super) fn e2fsprogs() -> Found {
    version("mkfs.ext4", "-V", (1, 47))
}

pub(super) fn xfsprogs() -> Found {
    version("mkfs.xfs", "-V", (6, 1))
}

pub(super) fn btrfs_progs() -> Found {
    version("mkfs.btrfs", "--version", (6, 2))
}

pub(super) fn f2fs_tools() -> Found {
    version("mkfs.f2fs", "-V", (1, 15))
}

/// The version of a program, which need not be there, and whether it is older than any that was
/// tried.
fn version(name: &str, option: &str, tried: (u32, u32)) -> Found {
    let path = find_program(name).ok_or_else(|| format!("{name} is not installed"))?;
    let output = Command::new(&path)
        .arg(option)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let mut words = said
        .split(|letter: char| letter.is_whitespace() || letter == 'v')
        .filter(|word| word.contains('.'));
    let found = words.find_map(|word| Some((word, release(word)?)));
    let (word, version) =
        found.ok_or_else(|| format!("{} does not say its version", path.display()))?;
    let note = if version < tried {
        ", older than what was tried"
    } else {
        ""
    };
    Ok(format!("{word}{note}"))
}

/// The first two numbers of a version.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text
        .split(|letter: char| !letter.is_ascii_digit())
        .map_while(|number| number.parse().ok());
    numbers.next().zip(numbers.next())
}
