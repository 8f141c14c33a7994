//! Calls that make files durable.

use rustix::fs::Stat;
use trace::SyncScope;
use tracer::calls::Call;
use tracer::{Entry, Origin};

use super::files::{FileCall, to_exit};
use super::recording::{Next, Recording};

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
