//! Tasks that the kernel does not let go of.

use std::collections::HashMap;
use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::time::Duration;

/// How often a guest's init looks.
const LOOK_EVERY: Duration = Duration::from_secs(4);

/// A task that is held at so many looks in a row is held for good.
const LOOKS: u32 = 5;

/// The file in which a guest says which task is held.
const FILE: &str = "held";

/// Looks at the tasks of this kernel for ever, and writes to `directory` which are held.
pub(crate) fn watch(directory: &Path) {
    let mut seen = HashMap::new();
    loop {
        std::thread::sleep(LOOK_EVERY);
        let held = all_held();
        seen.retain(|pid, _| held.contains(pid));
        for pid in held {
            let looks: &mut u32 = seen.entry(pid).or_default();
            *looks += 1;
            if *looks == LOOKS {
                // Nobody is there to tell if this fails.
                let _ = std::fs::write(directory.join(FILE), describe(pid));
            }
        }
    }
}

/// What a guest said of a task that is held.
pub(crate) fn said(directory: &Path) -> Option<String> {
    read_to_string(directory.join(FILE)).ok()
}

/// The first thread of a process and what it started that is held.
pub(crate) fn of_family(pid: u32) -> Option<String> {
    threads(pid).find_map(|thread| {
        let children =
            read_to_string(format!("/proc/{pid}/task/{thread}/children")).unwrap_or_default();
        let child = || {
            children
                .split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .find_map(of_family)
        };
        if is_held(thread) {
            Some(describe(thread))
        } else {
            child()
        }
    })
}

fn threads(pid: u32) -> impl Iterator<Item = u32> {
    numbers(format!("/proc/{pid}/task"))
}

fn numbers(directory: String) -> impl Iterator<Item = u32> {
    let entries = read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn all_held() -> Vec<u32> {
    numbers("/proc".to_owned())
        .flat_map(threads)
        .filter(|thread| is_held(*thread))
        .collect()
}

/// Whether a task waits in the kernel and cannot even be killed (proc_pid_stat(5): state D).
fn is_held(thread: u32) -> bool {
    let stat = read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('D'))
}

/// Its name, and where in the kernel it is, as far as that can be seen.
fn describe(thread: u32) -> String {
    let file = |name: &str| read_to_string(format!("/proc/{thread}/{name}")).unwrap_or_default();
    let stack = file("stack");
    let frames: Vec<_> = stack
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .take(8)
        .collect();
    let place = if frames.is_empty() {
        file("wchan")
    } else {
        frames.join(" < ")
    };
    format!(
        "task {} does not come back from the kernel (in {place})",
        file("comm").trim()
    )
}
