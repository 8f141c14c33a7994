//! What a run of ours shows of itself to the machine.

use std::collections::BTreeSet;
use std::fs::{read, read_dir, read_link, read_to_string};
use std::path::Path;

/// A process and all that it started.
#[derive(Debug, Default)]
pub struct Family(BTreeSet<i32>);

impl Family {
    /// The process with this id, and those that descend from it now.
    pub fn of(parent: u32) -> Self {
        let mut members = BTreeSet::from([parent as i32]);
        loop {
            let children: Vec<_> =
                processes().filter(|(pid, parent)| members.contains(parent) && !members.contains(pid)).collect();
            if children.is_empty() {
                return Self(members);
            }
            members.extend(children.iter().map(|(pid, _)| *pid));
        }
    }

    /// Their ids, the oldest first.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.0.iter().copied()
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

/// Every process with its parent.
fn processes() -> impl Iterator<Item = (i32, i32)> {
    let entries = read_dir("/proc").expect("there is /proc").flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = read_to_string(entry.path().join("stat")).ok()?;
        // Behind the name, which may hold anything: the state, and the parent.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
}

/// The drivers in user space that work in a directory of ours.
pub fn drivers(temporary: &Path) -> Vec<i32> {
    let program = |pid: i32| read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let is_driver = |pid: &i32| ["fuse2fs", "ntfs-3g"].iter().any(|name| program(*pid).ends_with(name));
    let works_there = |pid: &i32| {
        let line = read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        temporary.to_str().is_some_and(|path| String::from_utf8_lossy(&line).contains(path))
    };
    processes().map(|(pid, _)| pid).filter(is_driver).filter(works_there).collect()
}

/// What is left of a run: processes of the family, drivers that work for it, loop devices that they attached, mounts below
/// the directory for temporary files that it was given, and what is in that.
pub fn leftovers(family: &Family, temporary: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for pid in &family.0 {
        // A number may have been given to another process since.
        let program = read_link(format!("/proc/{pid}/exe"));
        if let Some(program) =
            program.ok().filter(|path| ["crashpoint", "replay"].iter().any(|name| path.ends_with(name)))
        {
            found.push(format!("process {pid} ({})", program.display()));
        }
    }
    found.extend(drivers(temporary).into_iter().map(|pid| format!("process {pid}, a driver")));
    for device in block_dev::loop_device::list_marked().expect("loop devices can be listed") {
        if family.0.contains(&device.owner_pid) {
            found.push(format!("loop device {}", device.path.display()));
        }
    }
    let mounts = read_to_string("/proc/self/mountinfo").expect("there is /proc");
    let below = |line: &&str| temporary.to_str().is_some_and(|path| line.contains(path));
    found.extend(mounts.lines().filter(below).map(|line| format!("mount {line}")));
    found
        .extend(read_dir(temporary).expect("it is there").flatten().map(|entry| format!("{}", entry.path().display())));
    found
}
