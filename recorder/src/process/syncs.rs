//! Calls that make files durable.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use rustix::fs::Stat;
use trace::SyncScope;
use tracer::calls::Call;
use tracer::{Entry, Origin};

use super::files::{FileCall, to_exit};
use super::recording::{Next, Recording};
use super::tree::{Inode, inode};

/// What is said of a file that may have been synced elsewhere, or here before it left: it would be lost
/// in states in which it cannot be.
pub(super) const FROM_OUTSIDE: &str =
    "a file that was synced before it came into the directory from outside";

/// What is known of files that are not in the directory.
#[derive(Debug)]
pub(super) struct Outside {
    /// Those that were synced.
    synced: HashSet<Inode>,
    /// All that had not changed since then was there before the run, or was synced with everything.
    all_synced: SystemTime,
    /// Whether what gets a name in the directory now comes from there.
    pub arrives: bool,
}

impl Outside {
    /// That of a run which begins now.
    pub(super) fn new() -> Self {
        Self {
            synced: HashSet::new(),
            all_synced: SystemTime::now(),
            arrives: false,
        }
    }

    /// Everything has been synced.
    pub(super) fn sync_all(&mut self) {
        self.all_synced = SystemTime::now();
    }

    /// Whether a file arrives of which something may be durable already.
    pub(super) fn is_synced(&self, stat: &Stat) -> bool {
        let changed = u64::try_from(stat.st_mtime).unwrap_or_default();
        let changed = Duration::new(changed, stat.st_mtime_nsec as u32);
        let is_old = SystemTime::UNIX_EPOCH + changed <= self.all_synced;
        self.arrives && (is_old || self.synced.contains(&inode(stat)))
    }
}

impl Recording {
    pub(super) fn enter_sync_call(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        let [number, ..] = entry.arguments;
        match call {
            Call::Sync { data_only } => self.enter_sync(origin, number, data_only),
            Call::BeginSync => {
                if let Some((file, _)) = self.own(origin, number) {
                    self.promises_nothing(file, origin.row.name);
                }
                Next::GoOn
            }
            Call::SyncFileSystem => match origin.descriptor(number as i32) {
                Some(descriptor) if self.is_around_us(&descriptor.stat) => self.sync_all(origin),
                _ => Next::GoOn,
            },
            _ => self.sync_all(origin),
        }
    }

    fn enter_sync(&mut self, origin: &Origin, descriptor: u64, data_only: bool) -> Next {
        let Some((file, _)) = self.own(origin, descriptor) else {
            self.note_sync_outside(origin, descriptor);
            return Next::GoOn;
        };
        self.settle_mapped(origin, file);
        let scope = if data_only {
            SyncScope::Data
        } else {
            SyncScope::File
        };
        to_exit(FileCall::Sync(vec![(file, scope)]))
    }

    /// What is synced elsewhere may come into the directory later.
    fn note_sync_outside(&mut self, origin: &Origin, number: u64) {
        if self.tree.is_some()
            && let Some(descriptor) = origin.descriptor(number as i32)
        {
            self.outside.synced.insert(inode(&descriptor.stat));
        }
    }

    /// Whether a sync of the file system of a file is one of ours: the file is one of the node's,
    /// or the directory above them on the same device. What else is on that device is elsewhere for
    /// the program, such as `/dev/shm`, where directories of programs are while they are recorded.
    fn is_around_us(&self, stat: &Stat) -> bool {
        self.tree
            .as_ref()
            .is_some_and(|tree| tree.find(stat).is_some() || tree.is_above(stat))
    }

    fn sync_all(&mut self, origin: &Origin) -> Next {
        self.settle_all_mapped(origin);
        to_exit(FileCall::SyncAll)
    }
}
