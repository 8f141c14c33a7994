//! Programs on a disk that is recorded, and what its file system makes of each crash.

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block_dev::{
    Base, BlockLog, Completion, FrontEnd, FuseDisk, Image, ImageHash, MemfdDisk, RequestTrace,
    annotate,
};
use crash_images::{rebuild, requests};
use end_to_end::Random;
use local_fs::{Mounted, Scratch, Variant, format};
use nix::fcntl::{FallocateFlags, RenameFlags, fallocate, renameat2};
use pace_rules::disk::{self, Log, Relaxation, States};
use trace::{
    Action, ChangeOfName, Data, Event, FileId, FileKind, FileOp, InitialFile, Name, Node, Run,
    SyncScope,
};

use super::calls::{push, store, sync_mapped};
use super::program::{Allocation, How, Op, Program};
use super::tree::{DATA_PER_CALL, Found, Grid, PAGE};

/// Where btrfs has its first superblock, in pages.
const BTRFS_SUPERBLOCK_PAGE: u32 = 16;

/// Set where there is nothing that says which writes have FUA.
pub const WITHOUT_FUA: &str = "CRASHPOINT_MODELS_WITHOUT_FUA";

/// So many disks of a program are recovered, and those in which no single write was lost.
const DISKS_MAX: usize = 25;

/// A disk with a file system, and where to work on copies of it.
pub struct Laboratory {
    variant: Variant,
    base: Arc<Base>,
    scratch: Scratch,
    front_end: FuseDisk,
    requests: Option<RequestTrace>,
    crashed: Option<MemfdDisk>,
    /// How many of the recordings before had an own disk for what is recovered.
    mounts: u64,
}

/// A program that was run.
pub struct Recording {
    pub run: Run,
    log: BlockLog,
    rules: Log,
    durable: usize,
}

impl Recording {
    /// What the program did and what its disk was asked for, by time.
    pub fn told(&self) -> String {
        let entries = self.log.entries().iter().enumerate().skip(self.durable);
        let requests = entries.map(|(place, entry)| {
            (
                entry.time_ns,
                format!("  request {place}: {:?}", entry.kind),
            )
        });
        let events = self.run.nodes[0]
            .events
            .iter()
            .map(|event| (event.end_ns, format!("{:?}", event.action)));
        let mut lines: Vec<_> = requests.chain(events).collect();
        lines.sort();
        lines.into_iter().map(|(_, line)| line + "\n").collect()
    }
}

/// A crash.
pub struct Crash {
    pub state: disk::State,
    /// So many of the events had returned before the next request came to the disk, and so many had
    /// begun before the last one.
    pub returned: usize,
    pub begun: usize,
}

impl Laboratory {
    /// One for a file system as `Variant` reads it; the thread is in a mount namespace of its own.
    pub fn new(file_system: &str) -> Self {
        let variant = Variant::parse_list(file_system)
            .expect("it is known")
            .remove(0);
        let scratch = Scratch::new().expect("a directory");
        let file = format(&variant, &scratch.path().join("base")).expect("formatted");
        let base = Arc::new(Base::from_file(&file).expect("read"));
        let directory = scratch.directory("recorded").expect("a directory");
        let front_end = FuseDisk::new(&base, &directory, Completion::AtOnce).expect("a disk");
        let number = front_end.device_number().expect("a number");
        let requests = RequestTrace::start(number, &directory);
        // A guest has no tracefs: its disks seem to keep more than they must.
        let requests = if env::var_os(WITHOUT_FUA).is_some() {
            requests.ok()
        } else {
            Some(requests.expect("FUA needs tracefs"))
        };
        Self {
            variant,
            base,
            scratch,
            front_end,
            requests,
            crashed: None,
            mounts: 0,
        }
    }

    fn path(&mut self) -> PathBuf {
        self.mounts += 1;
        self.scratch
            .directory(&format!("mount-{}", self.mounts))
            .expect("a directory")
    }

    /// Runs a program.
    pub fn record(&mut self, program: &Program) -> Recording {
        let path = self.path();
        self.front_end
            .start_recording_on(&self.base)
            .expect("a recording");
        let start_ns = FuseDisk::now_ns();
        let mut mounted =
            Mounted::new(&self.variant, self.front_end.device(), &path).expect("mounted");
        let mut machine = Machine::new(&path, program).expect("set up");
        nix::unistd::syncfs(mounted.root().expect("open")).expect("durable");
        let durable = self.front_end.log_position();
        for (number, op) in program.ops.iter().enumerate() {
            // What is not possible is not done.
            let _ = machine.perform(number, op);
        }
        // In the end somebody else has everything written, in some order.
        nix::unistd::syncfs(mounted.root().expect("open")).expect("written");
        let mut log = self.front_end.stop_recording();
        let node = machine.end();
        mounted.shut_down();
        mounted.unmount().expect("unmounted");
        if let Some(requests) = &mut self.requests {
            let seen = requests.read_since(start_ns).expect("traced");
            annotate(&mut log, &seen);
        }
        let rules = Log::new(&requests(&log), durable, disk::Disk::Honest);
        Recording {
            run: Run { nodes: vec![node] },
            log,
            rules,
            durable,
        }
    }

    /// What a disk holds once it has recovered.
    fn recover(&mut self, image: &Image, grid: &Grid) -> Result<Found, String> {
        let path = self.path();
        let mut disk = self
            .crashed
            .take()
            .unwrap_or_else(|| MemfdDisk::new(&self.base).expect("a disk"));
        disk.load(image).expect("loaded");
        let mut mounted =
            Mounted::new(&self.variant, disk.device(), &path).map_err(|error| error.to_string())?;
        let found = Found::read(&path.join("data"), grid).map_err(|error| error.to_string());
        mounted.shut_down();
        mounted.unmount().expect("unmounted");
        drop(mounted);
        if block_dev::is_unmounted(disk.device(), std::time::Duration::from_secs(5)) {
            self.crashed = Some(disk);
        }
        fs::remove_dir(&path).expect("removed");
        found
    }

    /// The trees that crashes leave, each with the crashes that do.
    pub fn crashes(
        &mut self,
        recording: &Recording,
        states: &States,
        seed: u64,
        grid: &Grid,
    ) -> Vec<(Result<Found, String>, Vec<Crash>)> {
        let times: Vec<u64> = recording
            .log
            .entries()
            .iter()
            .map(|entry| entry.time_ns)
            .collect();
        let events = &recording.run.nodes[0].events;
        // Where something was promised.
        let mut points: Vec<usize> = events
            .iter()
            .map(|event| {
                times
                    .partition_point(|time| *time <= event.end_ns)
                    .max(recording.durable)
            })
            .collect();
        points.extend([recording.durable, recording.log.len()]);
        points.sort_unstable();
        points.dedup();
        let space = disk::Space::new(&recording.rules, &points, states, seed);
        // Those that lost nothing, or everything, first; then of the others a random part.
        let plain = |state: &disk::State| {
            matches!(state.relaxation, Relaxation::Prefix | Relaxation::Flushed)
        };
        let (mut order, mut others): (Vec<_>, Vec<_>) = space.iter().partition(plain);
        let mut random = Random::from_seed(seed);
        while !others.is_empty() {
            order.push(others.swap_remove(random.below(others.len() as u64) as usize));
        }
        let mut image = Image::new(Arc::clone(&self.base));
        let mut known: HashMap<ImageHash, usize> = HashMap::new();
        let mut superblocks: HashMap<block_dev::Page, usize> = HashMap::new();
        let mut all: Vec<(Result<Found, String>, Vec<Crash>)> = Vec::new();
        for state in order {
            rebuild(&mut image, &recording.log, &recording.rules, &state);
            let hash = image.hash();
            // Nothing is overwritten on btrfs but the superblock: where that is the same and nothing
            // was lost, so is what it recovers to.
            let superblock = (self.variant.file_system.name == "btrfs"
                && state.relaxation == Relaxation::Prefix)
                .then(|| *image.page(BTRFS_SUPERBLOCK_PAGE));
            let same = superblock.and_then(|page| superblocks.get(&page).copied());
            let place = match known.get(&hash).copied().or(same) {
                Some(place) => place,
                None if !plain(&state) && all.len() >= DISKS_MAX => continue,
                None => {
                    all.push((self.recover(&image, grid), Vec::new()));
                    all.len() - 1
                }
            };
            known.insert(hash, place);
            if let Some(page) = superblock {
                superblocks.insert(page, place);
            }
            let next_ns = times.get(state.position).copied().unwrap_or(u64::MAX);
            let last_ns = state.position.checked_sub(1).map_or(0, |last| times[last]);
            let returned = events.partition_point(|event| event.end_ns < next_ns);
            let begun = events
                .partition_point(|event| event.start_ns <= last_ns)
                .max(returned);
            all[place].1.push(Crash {
                state,
                returned,
                begun,
            });
        }
        all
    }
}

/// Does what a program does, and notes it.
struct Machine {
    root: PathBuf,
    node: Node,
    /// By path below the root; the root itself is `.`.
    ids: BTreeMap<String, FileId>,
    sizes: HashMap<FileId, u64>,
    next: u32,
    neighbours: u32,
}

/// What initial files hold: bytes that no call writes.
const INITIAL: u64 = 200;

fn name_of(path: &str) -> (&str, Name) {
    let (parent, name) = path.rsplit_once('/').unwrap_or((".", path));
    (parent, Name::from(name.as_bytes()))
}

impl Machine {
    fn new(mounted: &Path, program: &Program) -> io::Result<Self> {
        let root = mounted.join("data");
        for directory in [&root, &mounted.join("others")] {
            fs::create_dir(directory)?;
            fs::set_permissions(directory, Permissions::from_mode(0o755))?;
        }
        let mut this = Self {
            root,
            node: Node {
                name: "program".into(),
                initial: vec![InitialFile::empty_root()],
                events: Vec::new(),
            },
            ids: BTreeMap::from([(".".to_owned(), FileId::ROOT)]),
            sizes: HashMap::new(),
            next: 1,
            neighbours: 0,
        };
        for (number, (path, size)) in program.initial.iter().enumerate() {
            let (parent, name) = name_of(path);
            if !this.ids.contains_key(parent) {
                continue;
            }
            let file = this.new_id(path);
            let data = Data {
                at: (INITIAL + number as u64) * DATA_PER_CALL,
                len: size.unwrap_or_default(),
            };
            let kind = if size.is_some() {
                FileKind::Regular
            } else {
                FileKind::Directory
            };
            let mode = if size.is_some() { 0o644 } else { 0o755 };
            if let Some(size) = size {
                fs::write(
                    this.at(path),
                    vec![(INITIAL + number as u64) as u8; *size as usize],
                )?;
            } else {
                fs::create_dir(this.at(path))?;
            }
            fs::set_permissions(this.at(path), Permissions::from_mode(mode))?;
            this.sizes.insert(file, data.len);
            this.node.initial.push(InitialFile {
                file,
                parent: Some(this.ids[parent]),
                name,
                kind,
                mode,
                size: data.len,
                content: size.iter().map(|_| (0, data)).collect(),
            });
        }
        Ok(this)
    }

    fn end(self) -> Node {
        self.node
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn new_id(&mut self, path: &str) -> FileId {
        let file = FileId(self.next);
        self.next += 1;
        self.ids.insert(path.to_owned(), file);
        file
    }

    fn id(&self, path: &str) -> io::Result<FileId> {
        self.ids
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The id of a file or directory that may have been moved with its directory.
    fn open(&self, path: &str, flags: i32) -> io::Result<(FileId, File)> {
        let file = OpenOptions::new()
            .read(true)
            .write(!self.at(path).is_dir())
            .custom_flags(flags)
            .open(self.at(path))?;
        Ok((self.id(path)?, file))
    }

    /// A call, and what it was.
    fn call<T>(
        &mut self,
        call: impl FnOnce() -> io::Result<T>,
        ops: impl FnOnce(&mut Self) -> Vec<FileOp>,
    ) -> io::Result<T> {
        let start_ns = FuseDisk::now_ns();
        let result = call()?;
        let end_ns = FuseDisk::now_ns();
        for op in ops(self) {
            self.node.events.push(Event {
                start_ns,
                end_ns,
                process: 1,
                thread: 1,
                call: Arc::from("call"),
                stack: 0,
                action: Action::File(op),
            });
        }
        Ok(result)
    }

    fn write(
        &mut self,
        number: usize,
        path: &str,
        offset: u64,
        len: u64,
        how: How,
    ) -> io::Result<()> {
        let flags = match how {
            How::Plain => 0,
            How::Sync => libc::O_SYNC,
            How::Dsync => libc::O_DSYNC,
            How::Direct => libc::O_DIRECT,
        };
        let (id, file) = self.open(path, flags)?;
        let (byte, size_before) = (number as u8 + 1, self.sizes[&id]);
        let buffer = Aligned::new(byte, len);
        let data = Data {
            at: u64::from(byte) * DATA_PER_CALL,
            len,
        };
        self.call(
            || file.write_all_at(buffer.bytes(), offset),
            |this| {
                this.sizes.insert(id, size_before.max(offset + len));
                let mut ops = vec![FileOp::Write {
                    file: id,
                    offset,
                    data,
                    size_before,
                }];
                let scope = match how {
                    How::Sync => Some(SyncScope::FileRange { offset, len }),
                    How::Dsync => Some(SyncScope::Range { offset, len }),
                    How::Plain | How::Direct => None,
                };
                ops.extend(scope.map(|scope| FileOp::Sync { file: id, scope }));
                ops
            },
        )
    }

    fn sync(
        &mut self,
        path: &str,
        scope: SyncScope,
        sync: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let (file, open) = self.open(path, 0)?;
        self.call(|| sync(&open), |_| vec![FileOp::Sync { file, scope }])
    }

    fn create(&mut self, path: &str, kind: FileKind) -> io::Result<()> {
        let (parent, name) = name_of(path);
        let (at, parent) = (self.at(path), self.id(parent)?);
        let make = || match kind {
            FileKind::Directory => fs::create_dir(&at),
            _ => OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&at)
                .map(drop),
        };
        let mode = if kind == FileKind::Directory {
            0o755
        } else {
            0o644
        };
        self.call(make, |this| {
            let file = this.new_id(path);
            this.sizes.insert(file, 0);
            vec![FileOp::Create {
                parent,
                name,
                file,
                kind,
                mode,
            }]
        })
    }

    fn resize(
        &mut self,
        path: &str,
        file: FileId,
        to: u64,
        resize: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let _ = path;
        let from = self.sizes[&file];
        self.call(resize, |this| {
            this.sizes.insert(file, to);
            vec![FileOp::Resize { file, from, to }]
        })
    }

    fn allocate(&mut self, path: &str, offset: u64, len: u64, how: Allocation) -> io::Result<()> {
        let (file, open) = self.open(path, 0)?;
        let size = self.sizes[&file];
        let keep_size = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let flags = match how {
            Allocation::Grown => FallocateFlags::empty(),
            Allocation::Reserved => keep_size,
            Allocation::Zeros => keep_size | FallocateFlags::FALLOC_FL_ZERO_RANGE,
            Allocation::Hole => keep_size | FallocateFlags::FALLOC_FL_PUNCH_HOLE,
        };
        let in_pages = len.min(size.next_multiple_of(PAGE).saturating_sub(offset));
        let op = match how {
            Allocation::Grown if offset + len > size => Some(FileOp::Resize {
                file,
                from: size,
                to: offset + len,
            }),
            Allocation::Grown | Allocation::Reserved => Some(FileOp::Allocate {
                file,
                offset,
                len,
                keeps_size: how == Allocation::Reserved,
            }),
            _ if offset >= size => None,
            Allocation::Zeros => Some(FileOp::ZeroBlocks {
                file,
                offset,
                len: in_pages,
            }),
            Allocation::Hole => Some(FileOp::Zero {
                file,
                offset,
                len: in_pages,
            }),
        };
        let (start, count) = (offset as i64, len as i64);
        self.call(
            || Ok(fallocate(&open, flags, start, count)?),
            |this| {
                if let Some(FileOp::Resize { to, .. }) = op {
                    this.sizes.insert(file, to);
                }
                op.into_iter().collect()
            },
        )
    }

    fn rename(&mut self, from: &str, to: &str, exchange: bool) -> io::Result<()> {
        let (file, replaced) = (self.id(from)?, self.ids.get(to).copied());
        let ((from_parent, from_name), (to_parent, to_name)) = (name_of(from), name_of(to));
        let names = ChangeOfName {
            from: (self.id(from_parent)?, from_name),
            to: (self.id(to_parent)?, to_name),
        };
        if replaced == Some(file) {
            return Ok(());
        }
        let flags = if exchange {
            RenameFlags::RENAME_EXCHANGE
        } else {
            RenameFlags::empty()
        };
        let (from_at, to_at) = (self.at(from), self.at(to));
        let rename = || {
            renameat2(
                nix::fcntl::AT_FDCWD,
                &from_at,
                nix::fcntl::AT_FDCWD,
                &to_at,
                flags,
            )
            .map_err(io::Error::from)
        };
        self.call(rename, |this| {
            this.ids.insert(to.to_owned(), file);
            match replaced.filter(|_| exchange) {
                Some(other) => this.ids.insert(from.to_owned(), other),
                None => this.ids.remove(from),
            };
            // What is in a directory comes with it.
            let inside = format!("{from}/");
            let paths: Vec<_> = this
                .ids
                .keys()
                .filter_map(|path| path.strip_prefix(&inside).map(str::to_owned))
                .collect();
            for rest in paths {
                let file = this.ids.remove(&format!("{inside}{rest}"));
                let file = file.expect("it was there");
                this.ids.insert(format!("{to}/{rest}"), file);
            }
            vec![FileOp::Rename {
                file,
                names,
                replaced,
                exchange,
            }]
        })
    }

    fn unlink(&mut self, path: &str, unlink: fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let (parent, name) = name_of(path);
        let (parent, file, at) = (self.id(parent)?, self.id(path)?, self.at(path));
        self.call(
            || unlink(&at),
            |this| {
                this.ids.remove(path);
                vec![FileOp::Unlink { parent, name, file }]
            },
        )
    }

    fn perform(&mut self, number: usize, op: &Op) -> io::Result<()> {
        match op {
            Op::Create(path) => self.create(path, FileKind::Regular),
            Op::Mkdir(path) => self.create(path, FileKind::Directory),
            Op::Write(path, offset, len, how) => self.write(number, path, *offset, *len, *how),
            Op::Append(path, len, how) => {
                let size = self.sizes[&self.id(path)?];
                self.write(number, path, size, *len, *how)
            }
            Op::Rewrite(path, len) => {
                if self.id(path).is_err() {
                    self.create(path, FileKind::Regular)?;
                } else {
                    let (file, at) = (self.id(path)?, self.at(path));
                    let open = || {
                        OpenOptions::new()
                            .write(true)
                            .truncate(true)
                            .open(&at)
                            .map(drop)
                    };
                    self.resize(path, file, 0, open)?;
                }
                self.write(number, path, 0, *len, How::Plain)
            }
            Op::Truncate(path, size) => {
                let (file, open) = self.open(path, 0)?;
                self.resize(path, file, *size, || open.set_len(*size))
            }
            Op::Allocate(path, offset, len, how) => self.allocate(path, *offset, *len, *how),
            Op::Store(path, offset, len) => {
                let (file, open) = self.open(path, 0)?;
                let (byte, size_before) = (number as u8 + 1, self.sizes[&file]);
                if offset + len > size_before {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                let data = Data {
                    at: u64::from(byte) * DATA_PER_CALL,
                    len: *len,
                };
                let write = FileOp::Write {
                    file,
                    offset: *offset,
                    data,
                    size_before,
                };
                self.call(|| store(&open, *offset, *len, byte), |_| vec![write])
            }
            Op::Msync(path, offset, len) => {
                if offset + len > self.sizes[&self.id(path)?] {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                let scope = SyncScope::Range {
                    offset: *offset,
                    len: *len,
                };
                self.sync(path, scope, |file| sync_mapped(file, *offset, *len))
            }
            Op::Rename(from, to) => self.rename(from, to, false),
            Op::Exchange(from, to) => self.rename(from, to, true),
            Op::Link(from, to) => {
                let (parent, name) = name_of(to);
                let (parent, file) = (self.id(parent)?, self.id(from)?);
                let (from, at) = (self.at(from), self.at(to));
                self.call(
                    || fs::hard_link(&from, &at),
                    |this| {
                        this.ids.insert(to.clone(), file);
                        vec![FileOp::Link { parent, name, file }]
                    },
                )
            }
            Op::Unlink(path) => self.unlink(path, |path| fs::remove_file(path)),
            Op::Rmdir(path) => self.unlink(path, |path| fs::remove_dir(path)),
            Op::Mode(path, mode) => {
                let (file, at) = (self.id(path)?, self.at(path));
                let set = || fs::set_permissions(&at, Permissions::from_mode(*mode));
                self.call(set, |_| vec![FileOp::SetMode { file, mode: *mode }])
            }
            Op::Fsync(path) => self.sync(path, SyncScope::File, File::sync_all),
            Op::Fdatasync(path) => self.sync(path, SyncScope::Data, File::sync_data),
            Op::Syncfs => {
                let (_, root) = self.open(".", 0)?;
                self.call(
                    || Ok(nix::unistd::syncfs(&root)?),
                    |_| vec![FileOp::SyncAll],
                )
            }
            Op::Push(path) => push(&self.open(path, 0)?.1),
            Op::Neighbour | Op::Commit => {
                self.neighbours += 1;
                let own = self.root.join(format!("../others/{}", self.neighbours));
                neighbour(&own, *op == Op::Commit)
            }
        }
    }
}

/// What somebody else does, who makes files of his own: to sync one, or a directory from which one
/// was moved to another, at which the log tree of btrfs gives up.
fn neighbour(own: &Path, moves: bool) -> io::Result<()> {
    if !moves {
        let file = File::create(own)?;
        file.write_all_at(b"neighbour", 0)?;
        return file.sync_all();
    }
    fs::create_dir(own)?;
    File::create(own.join("file"))?;
    fs::rename(own.join("file"), own.with_extension("moved"))?;
    File::open(own)?.sync_all()
}

/// Bytes at an address that `O_DIRECT` takes.
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(byte: u8, len: u64) -> Self {
        let bytes = vec![byte; len as usize + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        Self {
            bytes,
            start,
            len: len as usize,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}
