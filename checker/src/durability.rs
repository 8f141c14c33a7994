//! What each persistence operation makes durable, by the contract.

use std::collections::{HashMap, HashSet};

use workloads::Op;

use crate::Promise;
use crate::content::FileContent;
use crate::history::{Bound, History, Time};
use crate::model::{DurableRange, InodeId, Kind, Model, ModelInode, ROOT, synced_range};

impl Model {
    /// Raises the bounds of everything that the return of `op` promises.
    pub(crate) fn make_durable(&mut self, operation: usize, op: &Op) -> Option<()> {
        self.raise_bounds(operation, op)?;
        if op.is_persistence() {
            self.called = self.time;
        }
        if op.is_persistence()
            || synced_range(op).is_some()
            || matches!(op, Op::SyncFileRange { .. })
        {
            self.written_out = self.time;
        }
        Some(())
    }

    fn raise_bounds(&mut self, operation: usize, op: &Op) -> Option<()> {
        match op {
            Op::Sync | Op::Syncfs if self.contract.promises(Promise::Sync) => {
                self.commit(Some(operation));
            }
            Op::Sync | Op::Syncfs => {}
            _ if self.may_share_space() => {}
            Op::Fsync { target } => self.fsync(self.target(target)?, operation),
            Op::Fdatasync { target } => {
                let inode = self.target(target)?;
                if self.inodes[inode].kind == Kind::File {
                    let bound = self.bound(operation, Promise::FdatasyncData);
                    self.inodes[inode].content.raise(bound);
                    self.file_stays(inode, bound);
                }
            }
            _ => {
                if let Some(range) = synced_range(op) {
                    let inode = self.target(range.target)?;
                    let bound = self.bound(operation, Promise::RangeData);
                    let (start, end) = (range.start, range.end);
                    self.inodes[inode]
                        .durable_ranges
                        .push(DurableRange { start, end, bound });
                    self.file_stays(inode, bound);
                    if range.metadata {
                        self.fsync_metadata(inode, operation, true);
                    }
                }
            }
        }
        Some(())
    }

    fn bound(&self, operation: usize, promise: Promise) -> Bound {
        Bound {
            time: self.time,
            by: Some(operation),
            promise,
        }
    }

    /// Everything up to now is durable: a sync, or the end of the setup, which may be an unmount.
    pub fn commit(&mut self, operation: Option<usize>) {
        let bound = Bound {
            time: self.time,
            by: operation,
            promise: Promise::Sync,
        };
        (self.committed, self.called, self.written_out) = (self.time, self.time, self.time);
        self.removed = false;
        self.prefix = self.prefix.max(bound);
        let named = self.named();
        for (id, inode) in self.inodes.iter_mut().enumerate() {
            inode.content.raise(bound);
            raise_attributes(inode, bound, bound);
            inode
                .entries
                .values_mut()
                .for_each(|entry| entry.raise(bound));
            if named.contains(&id) {
                inode.exists = Some(bound);
            }
        }
    }

    /// The inodes that some entry leads to now.
    fn named(&self) -> HashSet<InodeId> {
        self.inodes
            .iter()
            .flat_map(|inode| inode.entries.values().filter_map(|entry| *entry.current()))
            .collect()
    }

    /// Whether what is made durable now could lose it to something removed that is back.
    fn may_share_space(&self) -> bool {
        self.removed && !self.contract.promises(Promise::ReusedSpace)
    }

    fn fsync(&mut self, inode: InodeId, operation: usize) {
        // What another call wrote already may have taken this file's data along.
        let ModelInode {
            content, created, ..
        } = &self.inodes[inode];
        let writes_data = content.changed() > self.written_out.max(*created);
        if !self.is_deleted(inode) {
            let data = self.bound(operation, Promise::FsyncData);
            self.inodes[inode].content.raise(data);
        }
        self.fsync_metadata(inode, operation, writes_data);
    }

    /// The promise by which fsync makes names durable, if it does.
    fn names_promise(&self, inode: InodeId, writes_data: bool) -> Option<Promise> {
        let promises = |promise| self.contract.promises(promise);
        let directory = self.inodes[inode].kind == Kind::Directory;
        match () {
            () if promises(Promise::FsyncNames) => Some(Promise::FsyncNames),
            () if promises(Promise::FsyncNewNames) => Some(Promise::FsyncNewNames),
            () if promises(Promise::NamesWithData) && writes_data => Some(Promise::NamesWithData),
            () if promises(Promise::NamesWithData) && directory => Some(Promise::FsyncDirectory),
            () => None,
        }
    }

    /// A file that has lost its names is gone, or back as it was when they were durable.
    fn is_deleted(&self, inode: InodeId) -> bool {
        inode != ROOT && self.inodes[inode].named_once && !self.named().contains(&inode)
    }

    /// What fsync promises beside data and size.
    fn fsync_metadata(&mut self, inode: InodeId, operation: usize, writes_data: bool) {
        if !self.is_deleted(inode) {
            let attributes = self.bound(operation, Promise::FsyncAttributes);
            let xattrs = self.bound(operation, Promise::FsyncXattrs);
            raise_attributes(&mut self.inodes[inode], attributes, xattrs);
        }
        let names = self.names_promise(inode, writes_data);
        if let Some(promise) = names.filter(|_| self.contract.promises(Promise::OrderedMetadata)) {
            let names = Bound {
                time: self.inodes[inode].touched,
                by: Some(operation),
                promise,
            };
            self.prefix = self.prefix.max(names);
        }
        if self.inodes[inode].kind == Kind::Directory {
            self.entries_durable(inode, self.bound(operation, Promise::FsyncDirectory));
        }
        if self.contract.promises(Promise::EarlierRenames) {
            self.earlier_renames_durable(inode, operation);
        }
        if let Some(promise) = names {
            self.names_durable(inode, self.bound(operation, promise));
        } else if self.contract.promises(Promise::FsyncExists) && self.named().contains(&inode) {
            self.stays(inode, self.bound(operation, Promise::FsyncExists));
        }
    }

    /// Renames of the directory in which a file was made, and into it, are durable as they were
    /// then. The first fsync of the file wrote everything; later ones need not. What was done after
    /// a rename is not promised: a checkpoint in between, which fsync of a directory is too, has
    /// the kernel forget the rename, and fsync of the file write no other.
    fn earlier_renames_durable(&mut self, inode: InodeId, operation: usize) {
        let ModelInode { kind, created, .. } = &self.inodes[inode];
        if *kind != Kind::File {
            return;
        }
        let holds = |directory: InodeId| {
            let mut entries = self.inodes[directory].entries.values();
            entries.any(|entry| *entry.at(*created) == Some(inode))
        };
        let renames = self.renames.iter().filter(|rename| {
            (self.committed..*created).contains(&rename.time)
                && (holds(rename.moved) || holds(rename.dest.0))
        });
        let bound = self.bound(operation, Promise::EarlierRenames);
        for (moved, time) in renames
            .map(|rename| (rename.moved, rename.time))
            .collect::<Vec<_>>()
        {
            self.names_durable(moved, Bound { time, ..bound });
        }
    }

    /// Whether an inode is durable in itself, names aside.
    pub(crate) fn is_written(&self, inode: InodeId) -> bool {
        let inode = &self.inodes[inode];
        inode.mode.bound().time >= inode.created
    }

    /// The names in a directory are durable, and what they lead to exists.
    fn entries_durable(&mut self, directory: InodeId, bound: Bound) {
        if !self.contract.promises(Promise::AtomicMetadata) {
            return self.entries_written(directory, bound);
        }
        let mut children = Vec::new();
        for entry in self.inodes[directory].entries.values_mut() {
            children.extend(*entry.current());
            entry.raise(bound);
        }
        for child in children {
            // A directory that an earlier call may have brought into the log is not looked into
            // again.
            let new =
                self.inodes[child].created > self.called && self.inodes[child].exists.is_none();
            self.stays(child, bound);
            let recursive = self.contract.promises(Promise::FsyncNewSubdirectories);
            if recursive && new && self.inodes[child].kind == Kind::Directory {
                self.entries_durable(
                    child,
                    Bound {
                        promise: Promise::FsyncNewSubdirectories,
                        ..bound
                    },
                );
            }
        }
    }

    /// The entries of a directory are written, and nothing else: a name stays if what it leads to
    /// was written before.
    fn entries_written(&mut self, directory: InodeId, bound: Bound) {
        let entries = self.inodes[directory].entries.iter();
        let written = |(name, entry): (&String, &History<Option<InodeId>>)| {
            entry
                .current()
                .is_none_or(|child| self.is_written(child))
                .then(|| name.clone())
        };
        for name in entries.filter_map(written).collect::<Vec<_>>() {
            if let Some(entry) = self.inodes[directory].entries.get_mut(&name) {
                entry.raise(bound);
            }
        }
    }

    /// The names of an inode are durable: those it has, those it lost, the new directories on
    /// the way to it, and the new names of what its names belonged to.
    fn names_durable(&mut self, inode: InodeId, bound: Bound) {
        let mut pending = vec![(inode, bound)];
        let mut done = HashSet::new();
        while let Some((inode, bound)) = pending.pop() {
            if done.insert(inode) {
                pending.extend(self.own_names_durable(inode, bound));
            }
        }
    }

    /// The names of one inode are durable. Says whose names are then so as well.
    fn own_names_durable(&mut self, inode: InodeId, bound: Bound) -> Vec<(InodeId, Bound)> {
        let follow_conflicts = self.contract.promises(Promise::NameConflict);
        let (mut others, mut has_name) = (Vec::new(), false);
        let committed = self.committed;
        let touched = self.inodes[inode].touched;
        let losses = self.losses_with(inode, bound);
        for (directory, node) in self.inodes.iter_mut().enumerate() {
            let is_new = node.created > committed;
            for (name, entry) in &mut node.entries {
                if *entry.at(bound.time) != Some(inode) {
                    // It is gone from here; what took its place since is not promised.
                    if let Some(left) = losses.get(&(directory, name.clone())) {
                        entry.raise(bound.at(*left));
                    }
                    continue;
                }
                has_name = true;
                let previous = *entry.at(committed);
                entry.raise(bound);
                // A directory that was renamed after the file was touched may be back.
                let back = bound.at(touched.min(bound.time));
                others.extend(is_new.then_some((directory, back)));
                let other = previous.filter(|other| follow_conflicts && *other != inode);
                let promise = Promise::NameConflict;
                others.extend(other.map(|other| (other, Bound { promise, ..bound })));
            }
        }
        if has_name {
            self.stays(inode, bound);
        }
        others
    }

    /// The names that an inode has lost for good if its names are durable. Of what lost a durable
    /// name to another only the names that it has are promised.
    fn losses_with(&self, inode: InodeId, bound: Bound) -> HashMap<(InodeId, String), Time> {
        let is_conflict = bound.promise == Promise::NameConflict;
        if is_conflict || self.contract.promises(Promise::FsyncNewNames) {
            return HashMap::new();
        }
        self.durable_losses(inode, bound.time)
    }

    /// The names that an inode lost by a time, and when, where fsync of it makes that durable.
    fn durable_losses(&self, inode: InodeId, time: Time) -> HashMap<(InodeId, String), Time> {
        let ordered = self.contract.promises(Promise::OrderedMetadata);
        let mut losses = HashMap::new();
        for (directory, node) in self.inodes.iter().enumerate() {
            for (name, entry) in &node.entries {
                let Some(left) = when_left(entry, inode).filter(|left| *left <= time) else {
                    continue;
                };
                let place = (directory, name.clone());
                // Without an order, what was there before the inode may be back, and that it was
                // replaced by a rename is not its own affair.
                let was_durable = *entry.at(entry.bound().time) == Some(inode);
                if ordered || (was_durable && !self.was_replaced(inode, &place, left)) {
                    losses.insert(place, left);
                }
            }
        }
        losses
    }

    /// Whether the operation that took a name from an inode renamed another one over it.
    fn was_replaced(&self, inode: InodeId, place: &(InodeId, String), left: Time) -> bool {
        let source_now =
            |(directory, name): &(InodeId, String)| *self.inodes[*directory].entries[name].at(left);
        self.renames.iter().any(|rename| {
            rename.time == left
                && rename.dest == *place
                && source_now(&rename.source) != Some(inode)
        })
    }

    /// The inode may not vanish any more, unless a later operation takes its last name.
    fn stays(&mut self, inode: InodeId, bound: Bound) {
        let exists = &mut self.inodes[inode].exists;
        *exists = Some(exists.map_or(bound, |earlier| earlier.max(bound)));
    }

    /// Data of a file that was made durable is of no use without a name: a file whose data a
    /// call made durable does not vanish, though where it is found is not promised.
    fn file_stays(&mut self, inode: InodeId, bound: Bound) {
        if self.inodes[inode].content.current().size_bytes() == 0 || !self.named().contains(&inode)
        {
            return;
        }
        let somewhere = [Promise::AtomicMetadata, Promise::FsyncExists];
        if !somewhere
            .into_iter()
            .any(|promise| self.contract.promises(promise))
        {
            return;
        }
        // The name that was given to an O_TMPFILE is no part of what its data needs.
        if self.name_count(inode, self.inodes[inode].created) == 0 {
            return;
        }
        self.stays(inode, bound);
        if self.contract.promises(Promise::OrderedMetadata) {
            let created = Bound {
                time: self.inodes[inode].created,
                ..bound
            };
            self.prefix = self.prefix.max(created);
        }
    }
}

/// When an entry stopped leading to an inode that a crash may still show there.
fn when_left(entry: &History<Option<InodeId>>, inode: InodeId) -> Option<Time> {
    let allowed = entry.allowed(Bound::START);
    let last = allowed
        .iter()
        .rposition(|(_, value)| *value == Some(inode))?;
    allowed.get(last + 1).map(|(time, _)| *time)
}

fn raise_attributes(inode: &mut ModelInode, attributes: Bound, xattrs: Bound) {
    inode.mode.raise(attributes);
    inode.owner.raise(attributes);
    inode
        .xattrs
        .values_mut()
        .for_each(|value| value.raise(xattrs));
}

/// The sizes that a crash may show of a file: smallest, largest.
pub(crate) fn allowed_sizes(content: &History<FileContent>, ranges: &[DurableRange]) -> (u64, u64) {
    let allowed = content.allowed(Bound::START);
    let sizes = || allowed.iter().map(|(_, version)| version.size_bytes());
    let (mut least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    for range in ranges {
        // The end of the range as far as the file reached it, at that time and ever since.
        let since = since(content, range.bound.time);
        let reached = since
            .iter()
            .map(|(_, version)| version.size_bytes().min(range.end))
            .min()
            .unwrap_or(0);
        least = least.max(reached);
    }
    (least, most)
}

/// The versions from the one at `time` on.
fn since<T>(history: &History<T>, time: Time) -> &[(Time, T)] {
    history.allowed(Bound {
        time,
        ..Bound::START
    })
}
