//! The process between us and a guest: it ends the guest when we have ended, however that came
//! about, and leaves nothing of it.
//!
//! A User-Mode Linux kernel has a process for each program in it and two for itself. They do not
//! all end with it, so they are kept in one process group, and whoever loses a parent becomes the
//! keeper's child, which waits for it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};

use crate::capabilities::{self, drop_from_bounding_set};
use crate::descriptors::keep_from_others;
use crate::error::{Context as _, Error, Result};
use crate::processor::stay_on_one_processor;

/// The argument by which the program is told to be a keeper. Its parent's process id follows, the
/// directory of the guest, the guest's number, and its command line.
pub(crate) const KEEPER_COMMAND: &str = "__keeper";

/// The argument by which it is told to become a guest's kernel; its number and its command line
/// follow.
pub(crate) const KEPT_COMMAND: &str = "__kept";

/// How often the keeper sees to whether its parent lives.
const LOOK_EVERY_MS: u16 = 250;

/// How long the kernel may take to end processes that were killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// What no guest's kernel needs, as it runs as an ordinary user. When it is killed its processes
/// are let go by their tracer, and until the keeper has ended them they go on as processes of the
/// host: what was the guest's root must not switch the host off, mount in it, or change its kernel.
const RIGHTS_GIVEN_UP: [u32; 8] = [
    capabilities::SYS_BOOT,
    capabilities::SYS_ADMIN,
    capabilities::SYS_MODULE,
    capabilities::SYS_RAWIO,
    capabilities::SYS_TIME,
    capabilities::SYS_CHROOT,
    capabilities::NET_ADMIN,
    capabilities::MKNOD,
];

/// What is added to a signal's number for an exit status, as shells do.
const SIGNALLED: u8 = 128;

/// The signal that an exit status of a keeper stands for.
pub(crate) fn signal(status: i32) -> Option<Signal> {
    status
        .checked_sub(SIGNALLED.into())
        .and_then(|number| Signal::try_from(number).ok())
}

/// Keeps a guest until it ends, we are asked to end it, or our parent has ended.
pub(crate) fn keep(mut arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let parent = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok())
        .ok_or(Error::NotNamed("parent"))?;
    let directory = PathBuf::from(arguments.next().ok_or(Error::NotNamed("directory"))?);
    let parent = Pid::from_raw(parent);
    let (kernel, signals) = start(arguments)?;
    let status = watch(&kernel, &signals, parent);
    end_group(Pid::from_raw(kernel.id() as i32));
    if getppid() != parent {
        // It is nobody's any more.
        let _ = std::fs::remove_dir_all(directory);
    }
    status
}

fn start(command_line: impl Iterator<Item = OsString>) -> Result<(Child, SignalFd)> {
    set_child_subreaper(true).doing(|| "become a reaper".into())?;
    let mut wanted = SigSet::empty();
    wanted.extend([
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
    ]);
    wanted.thread_block().doing(|| "block signals".into())?;
    let signals = SignalFd::with_flags(&wanted, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
    let kernel = Command::new("/proc/self/exe")
        .arg(KEPT_COMMAND)
        .args(command_line)
        .process_group(0)
        .spawn();
    Ok((
        kernel.doing(|| "start the guest's kernel".into())?,
        signals.doing(|| "wait for signals".into())?,
    ))
}

fn watch(kernel: &Child, signals: &SignalFd, parent: Pid) -> Result<ExitCode> {
    let kernel = Pid::from_raw(kernel.id() as i32);
    while getppid() == parent {
        let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let _ = poll(&mut fds, PollTimeout::from(LOOK_EVERY_MS));
        while let Some(signal) = signals.read_signal().doing(|| "read a signal".into())? {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                return Ok(ExitCode::SUCCESS);
            }
        }
        if let Some(status) = ended(kernel) {
            return Ok(status);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for what has ended by now; says how the kernel did, if it is among it.
fn ended(kernel: Pid) -> Option<ExitCode> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == kernel => {
                return Some(ExitCode::from(code as u8));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == kernel => {
                return Some(ExitCode::from(SIGNALLED + signal as u8));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Ends every process of a guest, and waits for them.
fn end_group(group: Pid) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // While one of them is left, or not waited for, the number is the group's.
        let _ = killpg(group, Signal::SIGKILL);
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// What is started from here on cannot have these rights. Who is not root has none to give up.
fn give_up_rights() {
    for right in RIGHTS_GIVEN_UP {
        let _ = drop_from_bounding_set(right);
    }
}

/// Becomes a guest's kernel, which ends with its keeper, and leaves no core file.
pub(crate) fn become_kept(mut command_line: impl Iterator<Item = OsString>) -> Result<Infallible> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).doing(|| "forbid core files".into())?;
    set_pdeathsig(Signal::SIGKILL).doing(|| "tie the guest to its keeper".into())?;
    SigSet::empty()
        .thread_set_mask()
        .doing(|| "unblock signals".into())?;
    give_up_rights();
    let number = command_line
        .next()
        .and_then(|text| text.to_str()?.parse().ok())
        .ok_or(Error::NotNamed("number"))?;
    let kernel = command_line.next().ok_or(Error::NotNamed("kernel"))?;
    // The kernel says the numbers of descriptors on its console, which is to be the same whatever the
    // caller has left open. Where this cannot be had, nothing else depends on it.
    let _ = keep_from_others(libc::STDERR_FILENO + 1);
    // It works on any processor, only slower.
    let _ = stay_on_one_processor(number);
    let error = Command::new(&kernel).args(command_line).exec();
    Err(error).doing(|| format!("start {}", kernel.display()))
}
