//! What the operations of a workload did, in memory: every version of every name and of every
//! aspect of every file, by POSIX's rules.

mod operations;

use std::collections::{BTreeMap, HashMap};

use workloads::{DeviceKind, Op, Target, WriteSync};

use crate::content::FileContent;
use crate::history::{Bound, History, Time};
use crate::shifts::Shift;
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
        let done = self.effect(operation, op);
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

    /// Whether two paths lead to one inode now.
    pub fn are_one_file(&self, first: &str, second: &str) -> bool {
        let inode = self.lookup(first);
        inode.is_some() && inode == self.lookup(second)
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
