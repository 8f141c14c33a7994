//! Processes, by `/proc`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The kernel counts times in `/proc` in hundredths of a second, on every architecture.
const TICKS_PER_S: u64 = 100;

/// Start times are this exact at worst.
const START_MARGIN: Duration = Duration::from_secs(10);

/// The place of the start time in `/proc/PID/stat`, counted after the name (proc(5): field 22).
const START_FIELD: usize = 19;

/// Whether a process is there, and was when something was made at `created`.
pub(super) fn is_alive_since(pid: i32, created: Option<SystemTime>) -> bool {
    let Some(started) = started(pid) else {
        return false;
    };
    match (started, created) {
        (Started::At(started), Some(created)) => started <= created + START_MARGIN,
        _ => true,
    }
}

enum Started {
    At(SystemTime),
    Unknown,
}

/// When a process was started; none if it is not there, or has ended and waits to be reaped.
fn started(pid: i32) -> Option<Started> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let ticks: Option<u64> = fields.get(START_FIELD).and_then(|ticks| ticks.parse().ok());
    let started = ticks
        .zip(boot_time())
        .map(|(ticks, boot)| boot + Duration::from_secs(ticks / TICKS_PER_S));
    Some(started.map_or(Started::Unknown, Started::At))
}

fn boot_time() -> Option<SystemTime> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Whether any thread of any other process has a file open. One that may not be looked at has.
pub(super) fn anyone_else_has_open(path: &Path) -> io::Result<bool> {
    let own = std::process::id().cast_signed();
    Ok(all()?
        .into_iter()
        .any(|pid| pid != own && has_open(pid, path)))
}

fn has_open(pid: i32, path: &Path) -> bool {
    // Threads may have tables of descriptors of their own; ours have.
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    tasks
        .flatten()
        .any(|task| match std::fs::read_dir(task.path().join("fd")) {
            Ok(files) => files
                .flatten()
                .any(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == path)),
            // It has ended meanwhile, or it is not ours to look at.
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
        })
}

/// The number of every process.
pub(super) fn all() -> io::Result<Vec<i32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// Which namespace of a kind (`mnt`, `pid`) a process is in.
pub(super) fn namespace(pid: i32, kind: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()
}
