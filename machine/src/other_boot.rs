//! Namespaces as of a machine that was started anew after the power had failed: with other process
//! ids, a boot id of its own, and an uptime of seconds. What runs there takes nothing that an earlier
//! run left for its own: no lock whose owner it can see, no time since a start that was another one.

#![allow(unsafe_code)]

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{chdir, chroot, fchdir};

use crate::error::{Context as _, Error, Result};
use crate::logged::Logged;
use crate::mounts::{follow_mounts, have_other_boot_id, let_others_follow};

/// The argument by which the program is told to be the first process of another boot. The directory
/// for its boot id and the process id after which its numbers begin follow.
pub(crate) const BOOT_COMMAND: &str = "__boot";

/// What it says when everything is there.
const IS_MADE: &str = "made";

/// How long the machine has been up, in seconds, when the first process runs.
const UPTIME_S: i64 = 20;

/// What the kernel of a small machine counts process ids to.
const PIDS: u32 = 1 << 15;

/// The kernel starts over at this number (RESERVED_PIDS).
const FIRST_PID: u32 = 300;

/// After which number the next process of this process namespace is looked for.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

/// How many times fewer numbers are skipped where each takes a thread.
const FEWER_NUMBERS: u32 = 30;

/// nix does not know it.
const CLONE_NEWTIME: CloneFlags = CloneFlags::from_bits_retain(libc::CLONE_NEWTIME);

/// Another boot of this machine, which sees the mounts of the thread that made it. What runs in it
/// ends when this is dropped, or its process is killed.
#[derive(Debug)]
pub struct OtherBoot {
    first: Child,
    /// Ours, in which the thread starts what is not of this boot.
    own_pids: File,
    pids: File,
    mounts: File,
    /// None if the kernel has no namespaces for time.
    time: Option<File>,
    root: File,
}

/// Waits until the first process of a boot says that all is made. If it is not, the process is
/// ended.
fn wait_until_made(first: &mut Child) -> io::Result<()> {
    let mut said = String::new();
    let out = first.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut said)?;
    if said.trim_end() == IS_MADE {
        return Ok(());
    }
    let _ = first.kill();
    let _ = first.wait();
    Err(io::Error::other(match said.trim_end() {
        "" => "its first process ended",
        why => why,
    }))
}

impl OtherBoot {
    /// Makes one. The calling thread must have mounts of its own
    /// ([`have_own_mounts`](crate::have_own_mounts)): those that it makes from now on are seen there.
    /// `directory` must be writable, and nothing is left in it.
    ///
    /// # Errors
    /// Without root, or `/proc`, or if no process can be had.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let own_pids = File::open("/proc/thread-self/ns/pid")?;
        let_others_follow()?;
        // Far from all that was given lately.
        let last_pid = FIRST_PID.max((std::process::id() + PIDS / 2) % PIDS);
        let mut command = Command::new(crate::own_program());
        command
            .arg(BOOT_COMMAND)
            .arg(directory)
            .arg(last_pid.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        unshare(CloneFlags::CLONE_NEWPID)?;
        let started = command.spawn_logged();
        setns(&own_pids, CloneFlags::CLONE_NEWPID)?;
        let mut first = started?;
        wait_until_made(&mut first)?;
        let of_first = |name: &str| File::open(format!("/proc/{}/{name}", first.id()));
        Ok(Self {
            own_pids,
            pids: of_first("ns/pid")?,
            mounts: of_first("ns/mnt")?,
            time: of_first("ns/time_for_children").ok(),
            root: of_first("root")?,
            first,
        })
    }

    /// Starts a command in it, from the thread that made it. It need not be asked to die with the
    /// thread: it ends with this.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let directory = match command.get_current_dir() {
            Some(directory) => directory.to_owned(),
            None => std::env::current_dir()?,
        };
        let directory = CString::new(directory.as_os_str().as_bytes())?;
        let (mounts, root) = (self.mounts.try_clone()?, self.root.try_clone()?);
        let time = self.time.as_ref().map(File::try_clone).transpose()?;
        let enter = move || {
            if let Some(time) = &time {
                setns(time, CLONE_NEWTIME)?;
            }
            setns(&mounts, CloneFlags::CLONE_NEWNS)?;
            // It leads to the root of the namespace now, which in a chroot is not ours.
            fchdir(&root)?;
            chroot(".")?;
            Ok(chdir(directory.as_c_str())?)
        };
        // SAFETY: between fork and exec it makes system calls, with what was made before, and takes
        // no lock and no memory.
        unsafe { command.pre_exec(enter) };
        setns(&self.pids, CloneFlags::CLONE_NEWPID)?;
        let child = command.spawn_logged();
        setns(&self.own_pids, CloneFlags::CLONE_NEWPID)?;
        child
    }

    /// Whether clocks that count from the start of the machine are those of another start.
    pub fn has_own_clocks(&self) -> bool {
        self.time.is_some()
    }
}

impl Drop for OtherBoot {
    fn drop(&mut self) {
        // The kernel kills all others.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}

/// Is the first process of another boot: makes what is its own, says so, and takes the place of
/// parents that end, until whoever started it ends.
pub(crate) fn be_first(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let directory = PathBuf::from(arguments.next().ok_or(Error::NotNamed("directory"))?);
    let last_pid = arguments
        .next()
        .and_then(|number| number.into_string().ok());
    let last_pid = last_pid.and_then(|number| number.parse().ok());
    let made = make(&directory, last_pid.ok_or(Error::NotNamed("process id"))?);
    let said = made.map_or_else(|error| error.to_string(), |()| IS_MADE.to_owned());
    writeln!(io::stdout(), "{said}").doing(|| "say what was made".into())?;
    // SAFETY: no handler runs. The kernel then waits for those that are left to us.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }
        .doing(|| "leave those that end to the kernel".into())?;
    io::stdin()
        .read_to_end(&mut Vec::new())
        .doing(|| "wait for the end".into())?;
    Ok(ExitCode::SUCCESS)
}

fn make(directory: &Path, last_pid: u32) -> io::Result<()> {
    follow_mounts()?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(
        Some("crashpoint"),
        "/proc",
        Some("proc"),
        flags,
        None::<&str>,
    )?;
    have_other_boot_id(directory)?;
    skip_numbers(last_pid);
    // A kernel without namespaces for time has no file of them either.
    if unshare(CLONE_NEWTIME).is_ok() {
        set_uptime()?;
    }
    Ok(())
}

/// Has the clocks of those that are started from now on, which are not of this time namespace yet,
/// count from a moment ago.
fn set_uptime() -> io::Result<()> {
    let offset = |name: &str, clock| -> io::Result<String> {
        let now = clock_gettime(clock)?;
        Ok(format!("{name} {} 0\n", UPTIME_S - now.tv_sec()))
    };
    let monotonic = offset("monotonic", ClockId::CLOCK_MONOTONIC)?;
    let boot = offset("boottime", ClockId::CLOCK_BOOTTIME)?;
    fs::write("/proc/self/timens_offsets", monotonic + &boot)
}

/// Has the processes of this namespace numbered from elsewhere. Where the kernel has no file for
/// that (CONFIG_CHECKPOINT_RESTORE) threads use numbers up, so it is fewer of them.
pub fn skip_numbers(last_pid: u32) {
    if fs::write(LAST_PID, last_pid.to_string()).is_err() {
        for _ in 0..last_pid / FEWER_NUMBERS {
            // A number that is not used up is none that matters.
            let _ = std::thread::Builder::new()
                .spawn(|| ())
                .map(std::thread::JoinHandle::join);
        }
    }
}
