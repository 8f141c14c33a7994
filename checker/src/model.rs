//! What the operations of a workload did, in memory: every version of every name and of every
//! aspect of every file, by POSIX's rules.

use std::collections::{BTreeMap, HashMap};

use workloads::{DeviceKind, FallocMode, Op, RenameFlag, Target, WriteSync};

use crate::content::FileContent;
use crate::history::{Bound, History, Time};
use crate::shifts::{Direction, Shift};
use crate::{Contract, Undecided};

/// The place of an inode in [`Model::inodes`].
pub(crate) type InodeId = usize;

/// The root directory.
pub(crate) const ROOT: InodeId = 0;

/// The type of an inode, and what never changes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Symlink(String),
    Fifo,
    Device {
        kind: DeviceKind,
        major: u32,
        minor: u32,
    },
}

impl Kind {
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink(_) => "symlink",
            Self::Fifo => "fifo",
            Self::Device {
                kind: DeviceKind::Char,
                ..
            } => "character device",
            Self::Device {
                kind: DeviceKind::Block,
                ..
            } => "block device",
        }
    }
}

/// A range of a file that was made durable on its own (msync, O_SYNC).
#[derive(Debug, Clone, Copy)]
pub(crate) struct DurableRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bound: Bound,
}

/// An inode and all its versions.
#[derive(Debug, Clone)]
pub(crate) struct ModelInode {
    pub(crate) kind: Kind,
    pub(crate) created: Time,
    /// The last operation that changed its names or attributes: the `t(X)` of an ordered log.
    pub(crate) touched: Time,
    /// Whether it ever had a name, which what `O_TMPFILE` makes has not.
    pub(crate) named_once: bool,
    /// When it last lost a name by unlink, as rename does not take one.
    pub(crate) unlinked: Time,
    /// From when on it may not vanish.
    pub(crate) exists: Option<Bound>,
    pub(crate) mode: History<u32>,
    pub(crate) owner: History<(u32, u32)>,
    pub(crate) xattrs: BTreeMap<String, History<Option<Vec<u8>>>>,
    pub(crate) content: History<FileContent>,
    pub(crate) durable_ranges: Vec<DurableRange>,
    /// The operations that moved bytes within it, in order.
    pub(crate) shifts: Vec<Shift>,
    /// Space of it is, or was, shared with another file: what it holds can't be counted.
    pub(crate) shared: bool,
    /// Of a directory: what each name that ever stood in it led to.
    pub(crate) entries: BTreeMap<String, History<Option<InodeId>>>,
}

impl ModelInode {
    fn new(kind: Kind, mode: u32, created: Time) -> Self {
        Self {
            kind,
            created,
            touched: created,
            named_once: false,
            unlinked: 0,
            exists: None,
            mode: History::new(created, mode),
            owner: History::new(created, (0, 0)),
            xattrs: BTreeMap::new(),
            content: History::new(created, FileContent::default()),
            durable_ranges: Vec::new(),
            shifts: Vec::new(),
            shared: false,
            entries: BTreeMap::new(),
        }
    }
}

/// The model of a file system under a workload. See [`Model::apply`].
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) contract: Contract,
    pub(crate) inodes: Vec<ModelInode>,
    /// How many operations were done.
    pub(crate) time: Time,
    /// When everything was last made durable.
    pub(crate) committed: Time,
    /// When anything was last made durable.
    pub(crate) called: Time,
    /// Of a file system whose metadata is ordered: nothing older than this may be seen.
    pub(crate) prefix: Bound,
    /// When a call last wrote data of any file.
    pub(crate) written_out: Time,
    /// Whether names were taken, or space given back, since everything was last made durable.
    pub(crate) removed: bool,
    /// The renames: time, and the two entries that must change together.
    pub(crate) renames: Vec<Rename>,
    handles: HashMap<String, InodeId>,
}

/// Two entries that one rename changed.
#[derive(Debug, Clone)]
pub(crate) struct Rename {
    pub(crate) time: Time,
    pub(crate) moved: InodeId,
    pub(crate) source: (InodeId, String),
    pub(crate) dest: (InodeId, String),
    /// A file was renamed over another one.
    pub(crate) replaces: bool,
}

/// How many names an inode had, and from when on.
#[derive(Debug, Default)]
pub(crate) struct NameCounts {
    steps: Vec<(Time, usize)>,
}

impl NameCounts {
    /// The largest number of names it ever had at once.
    pub(crate) fn most(&self) -> usize {
        self.steps
            .iter()
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
    }

    /// Whether it has had a name from some time on.
    pub(crate) fn always_since(&self, time: Time) -> bool {
        let after = self.steps.partition_point(|(since, _)| *since <= time);
        after > 0 && self.steps[after - 1..].iter().all(|(_, count)| *count > 0)
    }
}

impl Model {
    /// An empty file system with the given contract.
    pub fn new(contract: &Contract) -> Self {
        let mut root = ModelInode::new(Kind::Directory, 0o755, 0);
        root.exists = Some(Bound::START);
        Self {
            contract: *contract,
            inodes: vec![root],
            time: 0,
            committed: 0,
            called: 0,
            prefix: Bound::START,
            written_out: 0,
            removed: false,
            renames: Vec::new(),
            handles: HashMap::new(),
        }
    }

    /// The mode and the owner of the root, which mkfs chose.
    #[must_use]
    pub fn with_root(mut self, mode: u32, owner: (u32, u32)) -> Self {
        self.inodes[ROOT].mode = History::new(0, mode);
        self.inodes[ROOT].owner = History::new(0, owner);
        self
    }

    /// The next operation was done. Where `refused`, it had no effect.
    ///
    /// # Errors
    /// If the operation could not have been done: the model has lost track.
    pub fn apply(&mut self, op: &Op, refused: bool) -> Result<(), Undecided> {
        let operation = self.time;
        self.begin(op, refused)?;
        if refused {
            return Ok(());
        }
        self.make_durable(operation, op)
            .ok_or_else(|| Undecided::DurabilityNotFollowed {
                number: operation,
                op: op.to_string(),
            })
    }

    /// The next operation was begun, and the power failed before it returned. What it does may show
    /// or not; what its return promises was not promised. Nothing can be applied after it.
    ///
    /// # Errors
    /// Like [`Self::apply`].
    pub fn begin(&mut self, op: &Op, refused: bool) -> Result<(), Undecided> {
        let operation = self.time;
        self.time += 1;
        if refused {
            return Ok(());
        }
        let done = match op {
            Op::SetXattr { .. } | Op::RemoveXattr { .. } | Op::Chmod { .. } | Op::Chown { .. } => {
                self.attributes(op)
            }
            Op::Write { .. }
            | Op::Append { .. }
            | Op::DirectWrite { .. }
            | Op::MmapWrite { .. }
            | Op::Truncate { .. }
            | Op::Falloc { .. }
            | Op::Reflink { .. } => self.data(operation, op),
            Op::DropCaches { .. } | Op::SyncFileRange { .. } => Some(()),
            _ if op.is_persistence() => Some(()),
            _ => self.names(op),
        };
        done.ok_or_else(|| Undecided::NotFollowed {
            number: operation,
            op: op.to_string(),
        })
    }

    /// The inode that a path leads to now.
    pub(crate) fn lookup(&self, path: &str) -> Option<InodeId> {
        path.split('/')
            .filter(|name| !name.is_empty() && *name != ".")
            .try_fold(ROOT, |directory, name| {
                *self.inodes[directory].entries.get(name)?.current()
            })
    }

    pub(crate) fn target(&self, target: &Target) -> Option<InodeId> {
        match target {
            Target::Path(path) => self.lookup(path),
            Target::Handle(handle) => self.handles.get(handle).copied(),
        }
    }

    /// How many names an inode had at a time.
    pub(crate) fn name_count(&self, id: InodeId, time: Time) -> usize {
        let entries = self.inodes.iter().flat_map(|inode| inode.entries.values());
        entries.filter(|entry| *entry.at(time) == Some(id)).count()
    }

    /// How many names each inode had, over time.
    pub(crate) fn name_counts(&self) -> HashMap<InodeId, NameCounts> {
        let mut changes: HashMap<InodeId, BTreeMap<Time, isize>> = HashMap::new();
        for entry in self.inodes.iter().flat_map(|inode| inode.entries.values()) {
            for (start, end, value) in entry.spans() {
                if let Some(id) = value {
                    let changes = changes.entry(*id).or_default();
                    *changes.entry(start).or_default() += 1;
                    *changes.entry(end).or_default() -= 1;
                }
            }
        }
        let steps = |changes: BTreeMap<Time, isize>| {
            let mut count = 0;
            let step = |(time, change)| {
                count += change;
                (time, count as usize)
            };
            NameCounts {
                steps: changes
                    .into_iter()
                    .map(step)
                    .filter(|(time, _)| *time <= self.time)
                    .collect(),
            }
        };
        changes
            .into_iter()
            .map(|(id, changes)| (id, steps(changes)))
            .collect()
    }

    /// A path that leads to an inode now; empty for the root.
    pub(crate) fn current_path(&self, id: InodeId) -> Option<String> {
        if id == ROOT {
            return Some(String::new());
        }
        self.inodes
            .iter()
            .enumerate()
            .find_map(|(directory, inode)| {
                let (name, _) = inode
                    .entries
                    .iter()
                    .find(|(_, entry)| *entry.current() == Some(id))?;
                let parent = self.current_path(directory)?;
                Some(if parent.is_empty() {
                    name.clone()
                } else {
                    format!("{parent}/{name}")
                })
            })
    }

    /// The directory that a path's last name is in, and the name.
    fn place(&self, path: &str) -> Option<(InodeId, String)> {
        match path.trim_end_matches('/').rsplit_once('/') {
            Some((directory, name)) => Some((self.lookup(directory)?, name.to_owned())),
            None => Some((ROOT, path.to_owned())),
        }
    }

    fn current(&self, place: &(InodeId, String)) -> Option<InodeId> {
        self.inodes[place.0]
            .entries
            .get(&place.1)
            .and_then(|history| *history.current())
    }

    fn set_entry(&mut self, place: &(InodeId, String), inode: Option<InodeId>) {
        let time = self.time;
        let directory = &mut self.inodes[place.0];
        directory.touched = time;
        let history = directory
            .entries
            .entry(place.1.clone())
            .or_insert_with(|| History::new(0, None));
        history.set(time, inode);
        if let Some(inode) = inode {
            self.inodes[inode].named_once = true;
        }
    }

    fn touch(&mut self, inode: InodeId) {
        self.inodes[inode].touched = self.time;
    }

    fn add_inode(&mut self, kind: Kind, mode: u32) -> InodeId {
        self.inodes
            .push(ModelInode::new(kind, mode & 0o7777, self.time));
        self.inodes.len() - 1
    }

    fn make(&mut self, path: &str, kind: Kind, mode: u32) -> Option<()> {
        let place = self.place(path)?;
        let inode = self.add_inode(kind, mode);
        self.set_entry(&place, Some(inode));
        Some(())
    }

    fn names(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Creat { path, mode } => self.make(path, Kind::File, *mode),
            Op::Mkdir { path, mode } => self.make(path, Kind::Directory, *mode),
            Op::Mkfifo { path, mode } => self.make(path, Kind::Fifo, *mode),
            Op::Mknod {
                path,
                kind,
                major,
                minor,
            } => self.make(
                path,
                Kind::Device {
                    kind: *kind,
                    major: *major,
                    minor: *minor,
                },
                0o644,
            ),
            Op::Symlink { target, path } => self.make(path, Kind::Symlink(target.clone()), 0o777),
            Op::Link { source, dest } => {
                let inode = self.target(source)?;
                let place = self.place(dest)?;
                self.set_entry(&place, Some(inode));
                self.touch(inode);
                Some(())
            }
            Op::Unlink { path } | Op::Rmdir { path } | Op::Remove { path } => {
                let place = self.place(path)?;
                self.remove(&place)
            }
            Op::Rename { source, dest, flag } => self.rename(source, dest, *flag),
            Op::Open { path, handle } => {
                let inode = self.lookup(path)?;
                self.handles.insert(handle.clone(), inode);
                Some(())
            }
            Op::Tmpfile { handle, mode, .. } => {
                let inode = self.add_inode(Kind::File, *mode);
                self.handles.insert(handle.clone(), inode);
                Some(())
            }
            Op::Close { target } => {
                if let Target::Handle(handle) = target {
                    self.handles.remove(handle);
                }
                Some(())
            }
            _ => None,
        }
    }

    fn remove(&mut self, place: &(InodeId, String)) -> Option<()> {
        let inode = self.current(place)?;
        self.set_entry(place, None);
        self.touch(inode);
        self.removed = true;
        self.inodes[inode].unlinked = self.time;
        Some(())
    }

    fn rename(&mut self, source: &str, dest: &str, flag: RenameFlag) -> Option<()> {
        let (source, dest) = (self.place(source)?, self.place(dest)?);
        let moved = self.current(&source)?;
        let replaced = self.current(&dest);
        // rename(2): two names of one file stay as they are.
        if replaced == Some(moved) {
            return Some(());
        }
        let left_behind = match flag {
            RenameFlag::Replace | RenameFlag::NoReplace => None,
            RenameFlag::Exchange => replaced,
            RenameFlag::Whiteout => Some(self.add_inode(
                Kind::Device {
                    kind: DeviceKind::Char,
                    major: 0,
                    minor: 0,
                },
                0,
            )),
        };
        self.set_entry(&source, left_behind);
        self.set_entry(&dest, Some(moved));
        self.touch(moved);
        if let Some(replaced) = replaced {
            self.touch(replaced);
        }
        self.removed = true;
        let replaces = flag == RenameFlag::Replace
            && replaced.is_some()
            && self.inodes[moved].kind == Kind::File;
        self.renames.push(Rename {
            time: self.time,
            moved,
            source,
            dest,
            replaces,
        });
        Some(())
    }

    fn edit(&mut self, inode: InodeId, edit: impl FnOnce(&mut FileContent)) -> Option<()> {
        let time = self.time;
        let inode = &mut self.inodes[inode];
        if inode.kind != Kind::File {
            return None;
        }
        let mut content = inode.content.current().clone();
        edit(&mut content);
        inode.content.set(time, content);
        Some(())
    }

    fn data(&mut self, operation: usize, op: &Op) -> Option<()> {
        match op {
            Op::Write {
                target,
                offset,
                length,
                ..
            }
            | Op::DirectWrite {
                target,
                offset,
                length,
                ..
            } => self.edit(self.target(target)?, |content| {
                content.write(operation, *offset, *length);
            }),
            Op::MmapWrite {
                target,
                offset,
                length,
            } => self.edit(self.target(target)?, |content| {
                content.write(operation, *offset, *length);
                content.extend(offset + length);
            }),
            Op::Append { target, length } => self.edit(self.target(target)?, |content| {
                content.write(operation, content.size_bytes(), *length);
            }),
            Op::Truncate { target, size } => {
                let inode = self.target(target)?;
                self.truncate(inode, *size)
            }
            Op::Falloc {
                target,
                mode,
                offset,
                length,
            } => {
                let inode = self.target(target)?;
                self.falloc(inode, *mode, *offset, *length)
            }
            Op::Reflink {
                source,
                source_offset,
                length,
                dest,
                dest_offset,
            } => {
                let (source, dest) = (self.target(source)?, self.target(dest)?);
                let from = self.inodes[source].content.current().clone();
                let length = if *length == 0 {
                    from.size_bytes().checked_sub(*source_offset)?
                } else {
                    *length
                };
                self.inodes[source].shared = true;
                self.inodes[dest].shared = true;
                self.edit(dest, |content| {
                    content.clone_from(&from, *source_offset, length, *dest_offset);
                })
            }
            _ => None,
        }
    }

    fn truncate(&mut self, inode: InodeId, size: u64) -> Option<()> {
        let before = self.inodes[inode].content.current().size_bytes();
        if before != size {
            self.touch(inode);
        }
        self.removed |= size < before;
        self.edit(inode, |content| content.truncate(size))
    }

    fn falloc(&mut self, inode: InodeId, mode: FallocMode, offset: u64, length: u64) -> Option<()> {
        let to = match mode {
            FallocMode::CollapseRange => Some(Direction::Left),
            FallocMode::InsertRange => Some(Direction::Right),
            _ => None,
        };
        let time = self.time;
        self.inodes[inode].shifts.extend(to.map(|to| Shift {
            time,
            to,
            offset,
            length,
        }));
        self.edit(inode, |content| falloc(content, mode, offset, length))
    }

    fn attributes(&mut self, op: &Op) -> Option<()> {
        let time = self.time;
        match op {
            Op::SetXattr {
                target,
                name,
                value,
            } => {
                self.set_xattr(self.target(target)?, name, Some(value.as_bytes().to_vec()));
            }
            Op::RemoveXattr { target, name } => self.set_xattr(self.target(target)?, name, None),
            Op::Chmod { target, mode } => {
                let inode = self.target(target)?;
                self.touch(inode);
                self.inodes[inode].mode.set(time, mode & 0o7777);
            }
            Op::Chown { target, uid, gid } => {
                let inode = self.target(target)?;
                self.touch(inode);
                let inode = &mut self.inodes[inode];
                inode.owner.set(time, (*uid, *gid));
                if inode.kind == Kind::File {
                    inode.mode.set(time, without_set_id(*inode.mode.current()));
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn set_xattr(&mut self, inode: InodeId, name: &str, value: Option<Vec<u8>>) {
        let time = self.time;
        let inode = &mut self.inodes[inode];
        let history = inode
            .xattrs
            .entry(name.to_owned())
            .or_insert_with(|| History::new(0, None));
        // A value that is there already may be skipped by the file system: nothing is touched.
        if *history.current() != value {
            history.set(time, value);
            inode.touched = time;
        }
    }
}

/// chown(2) takes the set-ID bits of an executable file, even from root.
fn without_set_id(mode: u32) -> u32 {
    let mode = mode & !0o4000;
    if mode & 0o010 == 0 {
        mode
    } else {
        mode & !0o2000
    }
}

fn falloc(content: &mut FileContent, mode: FallocMode, offset: u64, length: u64) {
    let end = offset + length;
    match mode {
        FallocMode::Allocate => {
            content.allocate(offset, end);
            content.extend(end);
        }
        FallocMode::KeepSize => content.allocate(offset, end),
        FallocMode::ZeroRange => {
            content.zero(offset, end);
            content.allocate(offset, end);
            content.extend(end);
        }
        FallocMode::ZeroRangeKeepSize => {
            content.zero(offset, end);
            content.allocate(offset, end);
        }
        FallocMode::PunchHole => {
            content.zero(offset, end);
            content.free(offset, end);
        }
        FallocMode::CollapseRange => content.collapse(offset, length),
        FallocMode::InsertRange => content.insert(offset, length),
        FallocMode::UnshareRange => {}
    }
}

/// A range that the return of one operation makes durable.
pub(crate) struct SyncedRange<'a> {
    pub(crate) target: &'a Target,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// open(2): `O_SYNC` is "as though each write(2) was followed by a call to fsync(2)".
    pub(crate) metadata: bool,
}

/// What a write with `O_SYNC` or `O_DSYNC`, or an msync, makes durable; of nothing, nothing.
pub(crate) fn synced_range(op: &Op) -> Option<SyncedRange<'_>> {
    let (target, offset, length, metadata) = match op {
        Op::Write {
            target,
            offset,
            length,
            sync,
        }
        | Op::DirectWrite {
            target,
            offset,
            length,
            sync,
        } if *sync != WriteSync::None => (target, *offset, *length, *sync == WriteSync::Sync),
        Op::Msync {
            target,
            offset,
            length,
        } => (target, *offset, *length, false),
        _ => return None,
    };
    (length > 0).then(|| SyncedRange {
        target,
        start: offset,
        end: offset + length,
        metadata,
    })
}
