//! Mounts under directories of ours, in this mount namespace and in all others.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;

use super::mark::Mark;
use super::process;

/// A mount on or under a directory with our mark.
#[derive(Debug)]
pub(super) struct MarkedMount {
    pub(super) path: PathBuf,
    pub(super) mark: Mark,
    /// The number of its FUSE connection, if it is served by a process: one of ours, or a driver
    /// that one of ours started.
    connection: Option<u32>,
}

/// Those of this mount namespace, in the order in which they were mounted.
pub(super) fn own() -> io::Result<Vec<MarkedMount>> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")?;
    let mut mounts: Vec<_> = text.lines().filter_map(parse).collect();
    for mount in &mut mounts {
        // Here the directory can be looked at itself.
        let directory = mount.path.ancestors().find_map(Mark::of_directory);
        mount.mark = directory.unwrap_or_else(|| mount.mark.clone());
    }
    Ok(mounts)
}

/// The marked mounts of all other mount namespaces, each with a process in it.
#[derive(Debug)]
pub(super) struct Mounts(Vec<MountElsewhere>);

#[derive(Debug)]
struct MountElsewhere {
    mount: MarkedMount,
    pid: i32,
    /// It is in another container: process ids in its names are not ours.
    foreign: bool,
}

/// Looks into all other mount namespaces.
pub(super) fn elsewhere() -> io::Result<Mounts> {
    let own = std::process::id().cast_signed();
    let (own_mounts, own_pids) = (
        process::namespace(own, "mnt"),
        process::namespace(own, "pid"),
    );
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for pid in process::all()? {
        let Some(namespace) = process::namespace(pid, "mnt") else {
            continue;
        };
        if Some(&namespace) == own_mounts.as_ref() || !seen.insert(namespace) {
            continue;
        }
        let foreign = process::namespace(pid, "pid") != own_pids;
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")) else {
            continue;
        };
        found.extend(text.lines().filter_map(parse).map(|mount| MountElsewhere {
            mount,
            pid,
            foreign,
        }));
    }
    Ok(Mounts(found))
}

impl Mounts {
    /// A process that has something mounted there; the owner, if it is the one.
    pub(super) fn user_of(&self, mark: &Mark) -> Option<i32> {
        let users = self
            .0
            .iter()
            .filter(|found| found.mount.mark.name == mark.name);
        let mut pids: Vec<_> = users.map(|found| found.pid).collect();
        pids.sort_by_key(|pid| *pid != mark.owner_pid);
        pids.first().copied()
    }

    /// Processes of runs whose owner is gone, one for each mount namespace.
    pub(super) fn orphans(&self) -> BTreeSet<i32> {
        let abandoned = self
            .0
            .iter()
            .filter(|found| !found.foreign && found.mount.mark.is_abandoned());
        abandoned.map(|found| found.pid).collect()
    }

    /// The FUSE connections of runs whose owner is gone.
    pub(super) fn abandoned_connections(&self) -> Vec<u32> {
        let abandoned = self
            .0
            .iter()
            .filter(|found| !found.foreign && found.mount.mark.is_abandoned());
        abandoned
            .filter_map(|found| found.mount.connection)
            .collect()
    }
}

/// A line of mountinfo (proc(5)), if it is of ours.
fn parse(line: &str) -> Option<MarkedMount> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ');
    let device = fields.nth(2)?;
    let path = PathBuf::from(unescape(fields.nth(1)?));
    let file_system = kind.split(' ').next()?;
    let is_connection =
        matches!(file_system, "fuse" | "fuseblk") || file_system.starts_with("fuse.");
    let connection = is_connection.then(|| connection_number(device)).flatten();
    Some(MarkedMount {
        mark: Mark::of_path(&path)?,
        path,
        connection,
    })
}

/// The kernel names a connection by its device (fs/fuse/control.c, fuse_ctl_add_conn), with 20 bits
/// for the minor number.
fn connection_number(device: &str) -> Option<u32> {
    let (major, minor) = device.split_once(':')?;
    Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
}

/// Blanks and their like stand there as octal numbers.
fn unescape(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, character)| {
        text.replace(code, character)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_ours_is_known_by_its_directory() {
        let line = "49 30 0:57 / /tmp/crashpoint-7-x/worker-1/disk rw,nosuid - fuse crashpoint rw,user_id=0";
        let mount = parse(line).expect("ours");
        assert_eq!((mount.mark.owner_pid, mount.connection), (7, Some(57)));
        assert!(parse("49 30 0:57 / /tmp/other rw - fuse crashpoint rw").is_none());
        let connection = |line| parse(line).expect("ours").connection;
        assert_eq!(
            connection("49 30 0:39 / /tmp/crashpoint-7-x/a rw - fuse.ext4 /dev/loop1 rw"),
            Some(39)
        );
        assert_eq!(
            connection("49 30 7:3 / /tmp/crashpoint-7-x/a rw - fuseblk /dev/loop3 rw"),
            Some(7_340_035)
        );
        assert_eq!(
            parse("49 30 7:1 / /tmp/crashpoint-7-x/a rw - ext4 /dev/loop1 rw")
                .expect("ours")
                .connection,
            None
        );
    }
}
