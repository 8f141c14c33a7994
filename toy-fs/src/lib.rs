//! A file system in a few lines: what the operations do, written again without looking at the model
//! of the checker.
//!
//! Only tests use it: those of the checker, which damage it and look whether that is noticed, and
//! those of the replayer, which run whole sweeps on it.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use local_fs::{Content, Inode, InodeKind, Segment, Tree};
use nix::sys::stat::makedev;
use workloads::{DeviceKind, FallocMode, Op, RenameFlag, Target, pattern};

const BLOCK: u64 = 4096;

/// What an inode is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, with its target.
    Symlink(String),
    /// A named pipe.
    Fifo,
    /// A device file, with its number.
    Device(DeviceKind, u64),
}

/// An inode.
#[derive(Debug, Clone)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its permission bits.
    pub mode: u32,
    /// The user and the group that own it.
    pub owner: (u32, u32),
    /// Its extended attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// What a file holds.
    pub data: Vec<u8>,
    /// Blocks that hold data.
    pub written: BTreeSet<u64>,
    /// Blocks that hold data or are reserved.
    pub allocated: BTreeSet<u64>,
    /// The names in a directory, with the numbers of their nodes.
    pub entries: BTreeMap<String, usize>,
    /// Added to the true number of names.
    pub link_count_error: i64,
    /// How many operations had been done when it was last touched.
    pub touched: usize,
    /// How many had been done when it was made.
    pub created: usize,
}

/// A file system. The numbers of its nodes are those of the order in which they were made.
#[derive(Debug, Clone)]
pub struct Toy {
    /// Its inodes, the root first; those without a name are kept.
    pub nodes: Vec<Node>,
    handles: HashMap<String, usize>,
    time: usize,
}

impl Default for Toy {
    fn default() -> Self {
        Self::new()
    }
}

impl Toy {
    /// A new file system: nothing but its root.
    pub fn new() -> Self {
        let mut this = Self {
            nodes: Vec::new(),
            handles: HashMap::new(),
            time: 0,
        };
        this.add(Kind::Directory, 0o755);
        this
    }

    /// Makes an inode without a name; returns its number.
    pub fn add(&mut self, kind: Kind, mode: u32) -> usize {
        self.nodes.push(Node {
            kind,
            mode,
            owner: (0, 0),
            xattrs: BTreeMap::new(),
            data: Vec::new(),
            written: BTreeSet::new(),
            allocated: BTreeSet::new(),
            entries: BTreeMap::new(),
            link_count_error: 0,
            touched: self.time,
            created: self.time,
        });
        self.nodes.len() - 1
    }

    /// The node at a path, if there is one.
    pub fn find(&self, path: &str) -> Option<usize> {
        let mut names = path
            .split('/')
            .filter(|name| !name.is_empty() && *name != ".");
        names.try_fold(0, |node: usize, name| {
            self.nodes[node].entries.get(name).copied()
        })
    }

    /// The node at a path.
    ///
    /// # Panics
    /// If there is none.
    pub fn node(&mut self, path: &str) -> &mut Node {
        let number = self
            .find(path)
            .unwrap_or_else(|| panic!("there is no {path}"));
        &mut self.nodes[number]
    }

    fn place(&self, path: &str) -> Option<(usize, String)> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        Some((self.find(directory)?, name.to_owned()))
    }

    fn get(&self, place: &(usize, String)) -> Option<usize> {
        self.nodes[place.0].entries.get(&place.1).copied()
    }

    fn set(&mut self, place: &(usize, String), node: Option<usize>) {
        self.nodes[place.0].touched = self.time;
        let entries = &mut self.nodes[place.0].entries;
        match node {
            Some(node) => {
                entries.insert(place.1.clone(), node);
                self.nodes[node].touched = self.time;
            }
            None => {
                if let Some(old) = entries.remove(&place.1) {
                    self.nodes[old].touched = self.time;
                }
            }
        }
    }

    /// Gives a node another name, as damage does: without regard to what it is.
    pub fn name(&mut self, path: &str, node: usize) {
        let place = self.place(path).expect("its directory is there");
        self.set(&place, Some(node));
    }

    /// Takes a name away, whatever it leads to.
    pub fn unname(&mut self, path: &str) {
        let place = self.place(path).expect("its directory is there");
        assert!(self.get(&place).is_some(), "there is no {path}");
        self.set(&place, None);
    }

    /// The node that an operation works on, if it is there.
    pub fn target(&self, target: &Target) -> Option<usize> {
        match target {
            Target::Path(path) => self.find(path),
            Target::Handle(handle) => self.handles.get(handle).copied(),
        }
    }

    fn make(&mut self, path: &str, kind: Kind, mode: u32) -> Option<()> {
        let place = self.place(path)?;
        if self.get(&place).is_some() {
            return None;
        }
        let node = self.add(kind, mode);
        self.set(&place, Some(node));
        Some(())
    }

    /// Does operation number `number`; the time is then `number + 1`. None if it cannot be done:
    /// then nothing has changed.
    pub fn apply(&mut self, number: usize, op: &Op) -> Option<()> {
        self.time = number + 1;
        match op {
            Op::Creat { path, mode } => self.make(path, Kind::File, *mode),
            Op::Mkdir { path, mode } => self.make(path, Kind::Directory, *mode),
            Op::Mkfifo { path, mode } => self.make(path, Kind::Fifo, *mode),
            Op::Mknod {
                path,
                kind,
                major,
                minor,
            } => self.make_device(path, *kind, (*major, *minor)),
            Op::Symlink { target, path } => self.make(path, Kind::Symlink(target.clone()), 0o777),
            Op::Link { source, dest } => self.link(source, dest),
            Op::Unlink { path } | Op::Rmdir { path } | Op::Remove { path } => self.remove(path),
            Op::Rename { source, dest, flag } => self.rename(source, dest, *flag),
            Op::Open { path, handle } => self.open(path, handle),
            Op::Tmpfile { handle, mode, .. } => {
                self.make_nameless(handle, *mode);
                Some(())
            }
            _ => self.content(number, op),
        }
    }

    fn make_device(
        &mut self,
        path: &str,
        kind: DeviceKind,
        (major, minor): (u32, u32),
    ) -> Option<()> {
        let number = makedev(major.into(), minor.into());
        self.make(path, Kind::Device(kind, number), 0o644)
    }

    fn make_nameless(&mut self, handle: &str, mode: u32) {
        let node = self.add(Kind::File, mode);
        self.handles.insert(handle.to_owned(), node);
    }

    fn open(&mut self, path: &str, handle: &str) -> Option<()> {
        let node = self.find(path)?;
        self.handles.insert(handle.to_owned(), node);
        Some(())
    }

    fn link(&mut self, source: &Target, dest: &str) -> Option<()> {
        let (node, place) = (self.target(source)?, self.place(dest)?);
        self.set(&place, Some(node));
        Some(())
    }

    fn remove(&mut self, path: &str) -> Option<()> {
        let place = self.place(path)?;
        self.get(&place)?;
        self.set(&place, None);
        Some(())
    }

    fn rename(&mut self, source: &str, dest: &str, flag: RenameFlag) -> Option<()> {
        let (source, dest) = (self.place(source)?, self.place(dest)?);
        let (moved, replaced) = (self.get(&source)?, self.get(&dest));
        if replaced == Some(moved) {
            return Some(());
        }
        self.set(&source, None);
        self.set(&dest, None);
        match flag {
            RenameFlag::Exchange => self.set(&source, replaced),
            RenameFlag::Whiteout => {
                let whiteout = self.add(Kind::Device(DeviceKind::Char, 0), 0);
                self.set(&source, Some(whiteout));
            }
            RenameFlag::Replace | RenameFlag::NoReplace => {}
        }
        self.set(&dest, Some(moved));
        Some(())
    }

    fn content(&mut self, number: usize, op: &Op) -> Option<()> {
        let node = self.target(op.target()?)?;
        let time = self.time;
        let node = &mut self.nodes[node];
        match op {
            Op::Write { offset, length, .. }
            | Op::DirectWrite { offset, length, .. }
            | Op::MmapWrite { offset, length, .. } => node.write(number, *offset, *length),
            Op::Append { length, .. } => node.write(number, node.data.len() as u64, *length),
            Op::Truncate { size, .. } => node.resize(*size, time),
            Op::Falloc {
                mode,
                offset,
                length,
                ..
            } => node.falloc(*mode, *offset, *length),
            _ => node.change_attributes(op, time)?,
        }
        Some(())
    }

    /// The tree that a walk would find. The number of an inode is that of its node and one.
    pub fn tree(&self, file_system: &str) -> Tree {
        let mut tree = Tree {
            root: 1,
            ..Tree::default()
        };
        let mut pending = vec![0];
        let mut named = BTreeSet::from([0]);
        while let Some(directory) = pending.pop() {
            pending.extend(
                self.nodes[directory]
                    .entries
                    .values()
                    .filter(|child| named.insert(**child)),
            );
        }
        for number in named {
            tree.inodes
                .insert(number as u64 + 1, self.inode(number, file_system));
        }
        tree
    }

    /// How many links an inode has, if nothing is wrong.
    fn links(&self, number: usize, file_system: &str) -> usize {
        let node = &self.nodes[number];
        let is_directory = |child: &&usize| self.nodes[**child].kind == Kind::Directory;
        match node.kind {
            Kind::Directory if file_system == "btrfs" => 1,
            Kind::Directory => 2 + node.entries.values().filter(is_directory).count(),
            _ => {
                let names = self.nodes.iter().flat_map(|node| node.entries.values());
                names.filter(|child| **child == number).count()
            }
        }
    }

    fn inode(&self, number: usize, file_system: &str) -> Inode {
        let node = &self.nodes[number];
        let links = self.links(number, file_system);
        Inode {
            kind: match &node.kind {
                Kind::File => InodeKind::File(node.segments()),
                Kind::Directory => InodeKind::Directory(
                    node.entries
                        .iter()
                        .map(|(name, child)| (name.clone(), *child as u64 + 1))
                        .collect(),
                ),
                Kind::Symlink(target) => InodeKind::Symlink(target.clone()),
                Kind::Fifo => InodeKind::Fifo,
                Kind::Device(DeviceKind::Char, number) => InodeKind::CharDevice(*number),
                Kind::Device(DeviceKind::Block, number) => InodeKind::BlockDevice(*number),
            },
            mode: node.mode,
            uid: node.owner.0,
            gid: node.owner.1,
            size_bytes: node.data.len() as u64,
            blocks: node.allocated.len() as u64 * (BLOCK / 512),
            link_count: links.saturating_add_signed(node.link_count_error as isize) as u64,
            xattrs: node.xattrs.clone(),
        }
    }
}

impl Node {
    /// Writes what the operation of this number writes, at an offset in bytes.
    pub fn write(&mut self, operation: usize, offset: u64, length: u64) {
        let end = (offset + length) as usize;
        if length == 0 {
            return;
        }
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset as usize..end].copy_from_slice(&pattern::bytes(operation, offset, length));
        let blocks = offset / BLOCK..(offset + length).div_ceil(BLOCK);
        self.written.extend(blocks.clone());
        self.allocated.extend(blocks);
    }

    /// Gives it another size, in bytes.
    pub fn truncate(&mut self, size: u64) {
        self.data.resize(size as usize, 0);
        self.written.retain(|block| block * BLOCK < size);
        self.allocated.retain(|block| block * BLOCK < size);
    }

    /// Makes a range of bytes read as zeros; the size stays.
    pub fn zero(&mut self, start: u64, end: u64) {
        let size = self.data.len();
        self.data[(start as usize).min(size)..(end as usize).min(size)].fill(0);
    }

    fn resize(&mut self, size: u64, time: usize) {
        if self.data.len() as u64 != size {
            self.touched = time;
        }
        self.truncate(size);
    }

    fn change_attributes(&mut self, op: &Op, time: usize) -> Option<()> {
        match op {
            Op::SetXattr { name, value, .. } => self.set_xattr(name, value.as_bytes(), time),
            Op::RemoveXattr { name, .. } => {
                self.xattrs.remove(name)?;
                self.touched = time;
            }
            Op::Chmod { mode, .. } => (self.mode, self.touched) = (*mode, time),
            Op::Chown { uid, gid, .. } => (self.owner, self.touched) = ((*uid, *gid), time),
            _ => {}
        }
        Some(())
    }

    fn set_xattr(&mut self, name: &str, value: &[u8], time: usize) {
        let before = self.xattrs.insert(name.to_owned(), value.to_vec());
        if before.as_deref() != Some(value) {
            self.touched = time;
        }
    }

    fn falloc(&mut self, mode: FallocMode, offset: u64, length: u64) {
        let end = offset + length;
        let touched = offset / BLOCK..end.div_ceil(BLOCK);
        let whole = offset.div_ceil(BLOCK)..end / BLOCK;
        if matches!(
            mode,
            FallocMode::ZeroRange | FallocMode::ZeroRangeKeepSize | FallocMode::PunchHole
        ) {
            self.zero(offset, end);
            self.written.retain(|block| !whole.contains(block));
        }
        if matches!(mode, FallocMode::Allocate | FallocMode::ZeroRange)
            && self.data.len() < end as usize
        {
            self.data.resize(end as usize, 0);
        }
        match mode {
            FallocMode::PunchHole => self.allocated.retain(|block| !whole.contains(block)),
            FallocMode::CollapseRange => {
                self.data.drain(offset as usize..end as usize);
                self.fill(self.data.len() as u64 / BLOCK);
            }
            FallocMode::InsertRange => {
                let zeros = std::iter::repeat_n(0, length as usize);
                self.data.splice(offset as usize..offset as usize, zeros);
                self.fill((self.data.len() as u64).div_ceil(BLOCK));
            }
            _ => self.allocated.extend(touched),
        }
    }

    /// Has it have so many blocks, and all of them written.
    fn fill(&mut self, blocks: u64) {
        (self.written, self.allocated) = ((0..blocks).collect(), (0..blocks).collect());
    }

    fn segments(&self) -> Content {
        let mut segments: Vec<Segment> = Vec::new();
        for block in &self.written {
            let start = (block * BLOCK) as usize;
            let data = &self.data
                [start.min(self.data.len())..(start + BLOCK as usize).min(self.data.len())];
            match segments.last_mut() {
                Some(last) if last.offset + last.data.len() as u64 == block * BLOCK => {
                    last.data.extend_from_slice(data);
                }
                _ if data.is_empty() => {}
                _ => segments.push(Segment {
                    offset: block * BLOCK,
                    data: data.to_vec(),
                }),
            }
        }
        Content { segments }
    }
}
