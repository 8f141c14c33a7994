//! What a run of ours shows of itself to the machine.

use std::collections::BTreeMap;
use std::fs::{read, read_dir, read_link, read_to_string};
use std::path::Path;
use std::time::{Duration, Instant};

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// A process and all that it started: their numbers, and when each was started. On a busy machine a
/// number is soon given to another process, which may be of a run of ours, too.
#[derive(Debug, Default)]
pub struct Family(BTreeMap<i32, u64>);

impl Family {
    /// The process with this id, and those that descend from it now.
    pub fn of(parent: u32) -> Self {
        let all: Vec<_> = processes().collect();
        let mut members: BTreeMap<_, _> = all
            .iter()
            .filter(|process| process.pid == parent as i32)
            .map(Process::named)
            .collect();
        loop {
            let is_new = |process: &&Process| {
                members.contains_key(&process.parent) && !members.contains_key(&process.pid)
            };
            let children: Vec<_> = all.iter().filter(is_new).map(Process::named).collect();
            if children.is_empty() {
                return Self(members);
            }
            members.extend(children);
        }
    }

    /// Whether a process is one of them.
    fn has(&self, process: &Process) -> bool {
        self.0.get(&process.pid) == Some(&process.started)
    }

    /// Whether one of them was, or still is, the process of this number.
    fn had(&self, pid: i32) -> bool {
        self.0.contains_key(&pid) && Process::of(pid).is_none_or(|now| self.has(&now))
    }

    /// Their ids, the oldest first.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.0.keys().copied()
    }

    /// Whether one of them still runs. One that has ended, and that nobody waited for, does not.
    pub fn runs(&self) -> bool {
        self.pids().any(|pid| {
            let is_there = read_link(format!("/proc/{pid}/exe")).is_ok();
            is_there && Process::of(pid).is_some_and(|now| self.has(&now))
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A process as proc_pid_stat(5) has it.
struct Process {
    pid: i32,
    parent: i32,
    /// In clock ticks after the machine.
    started: u64,
}

impl Process {
    fn of(pid: i32) -> Option<Self> {
        let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which may hold anything: the state, and then numbers.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    fn named(&self) -> (i32, u64) {
        (self.pid, self.started)
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = read_dir("/proc").expect("there is /proc").flatten();
    entries.filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?))
}

/// The drivers of FUSE file systems that work in a directory of ours.
pub fn drivers(temporary: &Path) -> Vec<i32> {
    let program = |pid: i32| read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let is_driver = |pid: &i32| {
        ["fuse2fs", "ntfs-3g"]
            .iter()
            .any(|name| program(*pid).ends_with(name))
    };
    let works_there = |pid: &i32| {
        let line = read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        temporary
            .to_str()
            .is_some_and(|path| String::from_utf8_lossy(&line).contains(path))
    };
    processes()
        .map(|process| process.pid)
        .filter(is_driver)
        .filter(works_there)
        .collect()
}

/// What is left of a run: processes of the family, drivers that work for it, loop devices that they
/// attached, mounts below the directory for temporary files that it was given, and what is in that.
pub fn leftovers(family: &Family, temporary: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for pid in family.pids().filter(|pid| family.had(*pid)) {
        let program = read_link(format!("/proc/{pid}/exe"));
        if let Some(program) = program.ok().filter(|path| {
            ["crashpoint", "replay"]
                .iter()
                .any(|name| path.ends_with(name))
        }) {
            found.push(format!("process {pid} ({})", program.display()));
        }
    }
    found.extend(
        drivers(temporary)
            .into_iter()
            .map(|pid| format!("process {pid}, a driver")),
    );
    for device in block_dev::loop_device::marked().expect("loop devices can be listed") {
        if family.had(device.owner_pid) {
            found.push(format!("loop device {}", device.path.display()));
        }
    }
    let mounts = read_to_string("/proc/self/mountinfo").expect("there is /proc");
    let below = |line: &&str| temporary.to_str().is_some_and(|path| line.contains(path));
    found.extend(
        mounts
            .lines()
            .filter(below)
            .map(|line| format!("mount {line}")),
    );
    found.extend(
        read_dir(temporary)
            .expect("it is there")
            .flatten()
            .map(|entry| format!("{}", entry.path().display())),
    );
    found
}

/// What is left of a run when that has settled, or does not. The kernel takes some time to end the
/// processes of a killed parent, and to let go of devices; whoever looks at all loop devices keeps one
/// for a moment.
pub fn settle(
    family: &Family,
    temporary: &Path,
    settled: impl Fn(&[String]) -> bool,
) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = leftovers(family, temporary);
        if settled(&left) || Instant::now() > deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
