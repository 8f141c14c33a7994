//! All processes of a node but its first one, which does this: they are stopped, go on, or end, at
//! once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

/// How long processes may take to stop: one that waits for a disk stops when that has answered.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The number of the first process.
const OWN_PID: u32 = 1;

/// Where `stat` of a process has its flags, after its name (proc(5)), and that of a thread of the
/// kernel's.
const FLAGS: usize = 6;
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Stops all where they are, but for `tracers`: a process that is traced stops only when its tracer
/// lets it.
///
/// # Errors
/// If one does not stop in its time.
pub(crate) fn stop(tracers: &[u32]) -> io::Result<()> {
    send(Signal::SIGSTOP)?;
    for tracer in tracers {
        // Whether it has stopped by now or not. One that has ended traces nobody.
        let _ = kill(Pid::from_raw(tracer.cast_signed()), Signal::SIGCONT);
    }
    await_stop(tracers)
}

/// Has all go on.
///
/// # Errors
/// If they cannot be told.
pub(crate) fn go_on() -> io::Result<()> {
    send(Signal::SIGCONT)
}

/// Kills all, and waits until they are gone: whoever loses its parent becomes a child of ours.
///
/// # Errors
/// If they cannot be killed.
pub(crate) fn end() -> io::Result<()> {
    send(Signal::SIGKILL)?;
    loop {
        match waitpid(None, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends a signal to all of them at once. Who is about to fork gets it with the child (`copy_process`
/// in kernel/fork.c), so none escapes.
fn send(signal: Signal) -> io::Result<()> {
    match kill(Pid::from_raw(-1), signal) {
        // There is nobody.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until none but `tracers` runs any more.
fn await_stop(tracers: &[u32]) -> io::Result<()> {
    let deadline = Instant::now() + STOP_WITHIN;
    // One that is traced stands still between two of its calls too: it does so twice by chance.
    let mut stood_still = false;
    loop {
        match running_thread(tracers)? {
            None if stood_still => return Ok(()),
            None => stood_still = true,
            Some(name) if Instant::now() > deadline => {
                return Err(io::Error::other(format!(
                    "{name} does not stop within {STOP_WITHIN:?}"
                )));
            }
            Some(_) => stood_still = false,
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The name of a thread of another process, which is none of `tracers`, that neither stands still nor has
/// ended.
fn running_thread(tracers: &[u32]) -> io::Result<Option<String>> {
    let mut processes = numbered(Path::new("/proc"))?;
    processes.retain(|(process, _)| !tracers.contains(process));
    for (_, process) in processes {
        // Whoever is gone by now does not run.
        for (_, thread) in numbered(&process.join("task")).unwrap_or_default() {
            let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
            // The name may have anything in it (proc(5)).
            let Some((name, rest)) = stat.rsplit_once(')') else {
                continue;
            };
            let flags = rest.split_whitespace().nth(FLAGS);
            let flags = flags.and_then(|flags| flags.parse::<u32>().ok());
            let is_kernels = flags.is_some_and(|flags| flags & KERNEL_THREAD != 0);
            if !is_kernels && !rest.trim_start().starts_with(['T', 't', 'Z', 'X']) {
                return Ok(Some(format!("{name})")));
            }
        }
    }
    Ok(None)
}

/// What a directory has of processes or threads, without the first one: their numbers and directories.
fn numbered(directory: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let entries: io::Result<Vec<_>> = fs::read_dir(directory)?.collect();
    let number = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number = name.parse().ok().filter(|number| *number != OWN_PID)?;
        Some((number, path))
    };
    let paths = entries?.into_iter().map(|entry| entry.path());
    Ok(paths.filter_map(number).collect())
}
