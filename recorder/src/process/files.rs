//! Calls that change a node's files or make them durable: what they are found to be about where they
//! are entered, and what is recorded where they return.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use pace_rules::nodes::{ChangeOfName, Data, FileId, FileKind, FileOp, Name, SyncScope};
use rustix::fs::{FileType, Mode, OFlags, Stat, fcntl_getfl, fstat, openat, tell};

use super::calls::{Bytes, Call, OpenFlags, Write};
use super::gate::Changes;
use super::lookup::{Base, Descriptor, Place, readable, text};
use super::recording::{Entered, Next, Origin, Recording};
use super::snapshot;
use super::system::{Entry, read_memory};
use super::tree::inode;

/// A name in a directory of the node's.
#[derive(Debug)]
pub(super) struct Located {
    parent: FileId,
    name: Name,
    place: Place,
    /// What has it.
    file: Option<FileId>,
}

/// What is known of a call before it is made.
#[derive(Debug)]
pub(super) enum FileCall {
    /// A file is opened: by this name, or without one in this directory of the node's.
    Open {
        located: Option<Located>,
        nameless: bool,
    },
    /// A name more.
    Make(Located),
    Remove(Located),
    /// From and to, where they are in the node's directory.
    Rename {
        from: Option<Located>,
        to: Option<Located>,
        exchange: bool,
    },
    Write {
        file: FileId,
        copy: OwnedFd,
    },
    /// Bytes from elsewhere.
    Fill {
        file: FileId,
        copy: OwnedFd,
        offset: Option<u64>,
    },
    Resize {
        file: FileId,
        to: u64,
    },
    Allocate {
        file: FileId,
        copy: OwnedFd,
    },
    SetMode {
        file: FileId,
        mode: u32,
    },
    /// Something that is not followed; the file is looked at afterwards.
    Unfollowed {
        file: FileId,
        copy: OwnedFd,
        what: String,
    },
    Sync(Vec<(FileId, SyncScope)>),
    SyncAll,
    Map {
        file: FileId,
        copy: OwnedFd,
    },
    Unmap,
    Move,
}

/// Flags of pwritev2(2): linux/fs.h.
const RWF_DSYNC: u64 = 2;
const RWF_SYNC: u64 = 4;
const RWF_APPEND: u64 = 16;
const RWF_NOAPPEND: u64 = 32;

/// Of linux/falloc.h.
const FALLOC_FL_WRITE_ZEROES: i32 = 0x80;

/// Of linux/openat2.h.
const RESOLVE_IN_ROOT: u64 = 0x10;

/// Calls of ioctl(2) that change nothing of what is recorded: FIEMAP, FS_IOC_GETFLAGS,
/// FS_IOC_GETVERSION, FS_IOC_FSGETXATTR, FIDEDUPERANGE, FIFREEZE, FITHAW, FITRIM, FS_IOC_GETFSLABEL,
/// and those by which btrfs is asked for things.
const HARMLESS: [u32; 14] = [
    0xC020_660B,
    0x8008_6601,
    0x8008_7601,
    0x801C_581F,
    0xC018_9436,
    0xC004_5877,
    0xC004_5878,
    0xC018_5879,
    0x8100_9431,
    0xD000_9411,
    0xC070_9411,
    0x8400_941F,
    0xD000_941E,
    0xD000_9412,
];

/// FICLONE and FICLONERANGE.
const CLONES: [u32; 2] = [0x4004_9409, 0x4020_940D];

impl Recording {
    pub(super) fn enter_file_call(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        if self.tree.is_none() {
            return Next::GoOn;
        }
        let arguments = &entry.arguments;
        match call {
            Call::Open { base, path, flags } => self.enter_open(origin, entry, base, path, flags),
            Call::Make { base, path, .. } | Call::Link { base, path } => {
                self.enter_name_call(origin, entry, base, path, FileCall::Make)
            }
            Call::Bind => {
                let Some(path) = Self::socket_path(origin, entry) else { return Next::GoOn };
                let located = self.locate_path(Self::base(origin, entry, None), &path, false);
                self.enter_located(origin, located, FileCall::Make)
            }
            Call::Remove { base, path } => self.enter_name_call(origin, entry, base, path, FileCall::Remove),
            Call::Rename { bases, paths, flags } => self.enter_rename(origin, entry, bases, paths, flags),
            Call::SetMode { base, path, flags } => self.enter_set_mode(origin, entry, base, path, flags),
            Call::Truncate => {
                let located = self.locate(origin, entry, None, 0, true);
                self.change_located(origin, located, |file| FileCall::Resize { file, to: arguments[1] })
            }
            Call::Sync { data_only } => {
                let Some((file, _)) = self.own(origin, arguments[0]) else { return Next::GoOn };
                self.settle_mapped(origin, file);
                let scope = if data_only { SyncScope::Data } else { SyncScope::File };
                Next::ToExit(Entered::File(FileCall::Sync(vec![(file, scope)])))
            }
            Call::SyncAll => self.sync_all(origin),
            Call::SyncFileSystem => match self.descriptor(origin.thread, arguments[0] as i32) {
                Some(descriptor) if self.is_on_our_disk(&descriptor.stat) => self.sync_all(origin),
                _ => Next::GoOn,
            },
            Call::Map => self.enter_map(entry, origin),
            Call::Unmap | Call::Protect | Call::Move | Call::SyncMapping | Call::UnfollowedMapping => {
                self.enter_mapping_call(origin, entry, call)
            }
            Call::SetModeOf | Call::TruncateOf | Call::Allocate | Call::Copy { .. } => {
                self.enter_descriptor_call(origin, entry, call)
            }
            Call::Unfollowed { .. } | Call::Control | Call::Submit => self.enter_unfollowed(origin, entry, call),
            Call::UnfollowedPath { base, path } => {
                let what = || Next::ToExit(Entered::Unfollowed(origin.row.name.into()));
                if self.is_ours(origin, entry, base, path) { what() } else { Next::GoOn }
            }
            Call::SetOwner { descriptor, base, path, owner, flags } => {
                let stat = if descriptor {
                    self.own(origin, arguments[0]).map(|(_, descriptor)| descriptor.stat)
                } else {
                    let follow = flags.is_none_or(|flags| arguments[flags] & libc::AT_SYMLINK_NOFOLLOW as u64 == 0);
                    self.locate(origin, entry, base, path, follow).and_then(|located| located.place.look())
                };
                let same = |wanted: u64, is: u32| wanted as u32 == u32::MAX || wanted as u32 == is;
                match stat {
                    Some(stat) if !(same(arguments[owner], stat.st_uid) && same(arguments[owner + 1], stat.st_gid)) => {
                        Next::ToExit(Entered::Unfollowed(origin.row.name.into()))
                    }
                    _ => Next::GoOn,
                }
            }
            _ => Next::GoOn,
        }
    }

    /// A call that changes a file of the node's, if it does.
    fn change(&mut self, origin: &Origin, file: Option<FileId>, call: impl FnOnce(FileId) -> FileCall) -> Next {
        let Some(file) = file else { return Next::GoOn };
        if !self.may(Changes::Files, origin.thread) {
            return Next::Wait;
        }
        self.settle_mapped(origin, file);
        Next::ToExit(Entered::File(call(file)))
    }

    /// The file of a descriptor, if it is one of the node's.
    fn own(&self, origin: &Origin, number: u64) -> Option<(FileId, Descriptor)> {
        let tree = self.tree.as_ref()?;
        let descriptor = self.descriptor(origin.thread, number as i32)?;
        Some((tree.find(&descriptor.stat)?, descriptor))
    }

    fn is_on_our_disk(&self, stat: &Stat) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.device() == stat.st_dev)
    }

    fn sync_all(&mut self, origin: &Origin) -> Next {
        self.settle_all_mapped(origin);
        Next::ToExit(Entered::File(FileCall::SyncAll))
    }

    /// Where relative paths of a call begin.
    fn base(origin: &Origin, entry: &Entry, base: Option<usize>) -> Base {
        let descriptor = base.map_or(libc::AT_FDCWD, |base| entry.arguments[base] as i32);
        Base { thread: origin.thread, descriptor }
    }

    /// What the path in an argument names, if that is in one of the node's directories.
    fn locate(
        &self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        follow: bool,
    ) -> Option<Located> {
        let path = text(origin.thread, entry.arguments[path])?;
        self.locate_path(Self::base(origin, entry, base), &path, follow)
    }

    fn locate_path(&self, base: Base, path: &[u8], follow: bool) -> Option<Located> {
        let place = self.paths.place(base, path, follow)?;
        let tree = self.tree.as_ref()?;
        let parent = tree.find(&place.stat)?;
        let file = tree.entry(parent, &place.name);
        Some(Located { parent, name: Name::from(place.name.as_slice()), place, file })
    }

    /// Makes sure that a name means what we think. Nobody else may be changing names.
    fn confirm(&mut self, origin: &Origin, located: &mut Located) {
        if !self.is_known(located) {
            self.count("changes by others");
            self.take_over(origin, located);
        }
    }

    /// A call by path that changes a file of the node's, if it does.
    fn change_located(
        &mut self,
        origin: &Origin,
        located: Option<Located>,
        call: impl FnOnce(FileId) -> FileCall,
    ) -> Next {
        let Some(mut located) = located else { return Next::GoOn };
        if !self.may(Changes::Files, origin.thread) {
            return Next::Wait;
        }
        self.confirm(origin, &mut located);
        self.change(origin, located.file, call)
    }

    /// Whether a name means what we think; that is noted.
    fn is_known(&self, located: &mut Located) -> bool {
        let Some(tree) = &self.tree else { return true };
        located.file = tree.entry(located.parent, &located.name);
        match (located.file, located.place.look()) {
            (None, None) => true,
            (Some(file), Some(stat)) => tree.find(&stat) == Some(file),
            _ => false,
        }
    }

    /// Records that a name means what it means.
    fn take_over(&mut self, origin: &Origin, located: &mut Located) {
        if let Some(file) = located.file.take() {
            let (parent, name) = (located.parent, located.name.clone());
            self.operation(origin, FileOp::Unlink { parent, name, file });
        }
        if let Some(stat) = located.place.look() {
            located.file = Some(self.appeared(origin, located.parent, &located.name, &located.place.directory, &stat));
        }
    }

    /// Records a name that is there now, and what has it if that is new.
    fn appeared(&mut self, origin: &Origin, parent: FileId, name: &Name, directory: &OwnedFd, stat: &Stat) -> FileId {
        let tree = self.tree.as_mut().expect("it has the parent");
        if let Some(file) = tree.find(stat) {
            self.operation(origin, FileOp::Link { parent, name: name.clone(), file });
            return file;
        }
        let mode = stat.st_mode & 0o7777;
        let data = &mut self.data;
        let kind = snapshot::kind_of(stat, || {
            let target = snapshot::target(directory, name).unwrap_or_default();
            snapshot::add(data, &target)
        });
        let file = tree.add(inode(stat), kind, mode);
        self.operation(origin, FileOp::Create { parent, name: name.clone(), file, kind, mode });
        if self.fill_new(origin, file, kind, name, directory).is_err() {
            self.count("a file that appeared and cannot be read");
        }
        file
    }

    /// Records what is in something that has just got its name.
    fn fill_new(
        &mut self,
        origin: &Origin,
        file: FileId,
        kind: FileKind,
        name: &Name,
        directory: &OwnedFd,
    ) -> io::Result<()> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = OsStr::from_bytes(name);
        match kind {
            FileKind::Regular => {
                let opened = File::from(openat(directory, name, flags, Mode::empty())?);
                if opened.metadata()?.len() > 0 {
                    self.settle(origin, file, &opened);
                }
            }
            FileKind::Directory => {
                let opened = openat(directory, name, flags | OFlags::DIRECTORY, Mode::empty())?;
                let mut names = Vec::new();
                for entry in rustix::fs::Dir::read_from(&opened)? {
                    names.push(Name::from(entry?.file_name().to_bytes()));
                }
                names.sort_unstable();
                for name in names.iter().filter(|name| ***name != *b"." && ***name != *b"..") {
                    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                    let stat = rustix::fs::statat(&opened, OsStr::from_bytes(name), flags)?;
                    self.appeared(origin, file, name, &opened, &stat);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn enter_open(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        flags: OpenFlags,
    ) -> Next {
        let (mut bits, mut in_root) = (0, false);
        match flags {
            OpenFlags::Argument(argument) => bits = entry.arguments[argument],
            OpenFlags::Creat => bits = (libc::O_CREAT | libc::O_TRUNC) as u64,
            OpenFlags::Structure(argument) => {
                let mut how = [0; 24];
                if read_memory(origin.thread, entry.arguments[argument], &mut how).is_ok() {
                    let number = |at: usize| u64::from_le_bytes(how[at..at + 8].try_into().expect("eight bytes"));
                    (bits, in_root) = (number(0), number(16) & RESOLVE_IN_ROOT != 0);
                }
            }
        }
        let flags = OFlags::from_bits_retain(bits as u32);
        if !flags.intersects(OFlags::CREATE | OFlags::TRUNC) && !flags.contains(OFlags::TMPFILE) {
            return Next::GoOn;
        }
        let Some(mut path) = text(origin.thread, entry.arguments[path]) else { return Next::GoOn };
        if in_root {
            path.drain(..path.iter().take_while(|byte| **byte == b'/').count());
        }
        let base = Self::base(origin, entry, base);
        if flags.contains(OFlags::TMPFILE) {
            let directory = self.paths.directory(base, &path).and_then(fstat);
            let ours = directory.is_ok_and(|stat| self.tree.as_ref().is_some_and(|tree| tree.find(&stat).is_some()));
            if !ours {
                return Next::GoOn;
            }
            let call = FileCall::Open { located: None, nameless: true };
            return if self.may(Changes::Files, origin.thread) {
                Next::ToExit(Entered::File(call))
            } else {
                Next::Wait
            };
        }
        let exclusive = flags.contains(OFlags::CREATE | OFlags::EXCL);
        let follow = !exclusive && !flags.contains(OFlags::NOFOLLOW);
        let Some(mut located) = self.locate_path(base, &path, follow) else {
            // What the path means may not be seen through, such as `/dev/stdout`: it may be ours.
            let call = FileCall::Open { located: None, nameless: false };
            return if flags.contains(OFlags::TRUNC) { Next::ToExit(Entered::File(call)) } else { Next::GoOn };
        };
        // To open a pipe can take for ever.
        let is_pipe = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo;
        if located.place.look().is_some_and(is_pipe) {
            return Next::GoOn;
        }
        if !self.may(Changes::Files, origin.thread) {
            return Next::Wait;
        }
        self.confirm(origin, &mut located);
        if let Some(file) = located.file {
            self.settle_mapped(origin, file);
        }
        Next::ToExit(Entered::File(FileCall::Open { located: Some(located), nameless: false }))
    }

    fn leave_open(&mut self, origin: &Origin, entry: &Entry, located: Option<Located>, nameless: bool, number: u64) {
        let Some(descriptor) = self.descriptor(origin.thread, number as i32) else {
            return self.count("a file that was closed while it was opened");
        };
        let stat = descriptor.stat;
        let Some(tree) = &mut self.tree else { return };
        if nameless {
            let mode = stat.st_mode & 0o7777;
            let file = tree.add(inode(&stat), FileKind::Regular, mode);
            return self.operation(origin, FileOp::CreateNameless { file, mode });
        }
        match located {
            Some(located) if located.file.is_none() => {
                let Located { parent, name, place, .. } = located;
                self.appeared(origin, parent, &name, &place.directory, &stat);
            }
            _ => {
                let Some(file) = tree.find(&stat).filter(|_| descriptor.is(FileType::RegularFile)) else { return };
                let from = tree.file(file).size;
                if Self::truncates(origin, entry) && from > 0 {
                    self.operation(origin, FileOp::Resize { file, from, to: 0 });
                }
            }
        }
    }

    fn truncates(origin: &Origin, entry: &Entry) -> bool {
        let Call::Open { flags, .. } = origin.row.call else { return false };
        let bits = match flags {
            OpenFlags::Creat => return true,
            OpenFlags::Argument(argument) => entry.arguments[argument],
            OpenFlags::Structure(argument) => {
                let mut bits = [0; 8];
                let _ = read_memory(origin.thread, entry.arguments[argument], &mut bits);
                u64::from_le_bytes(bits)
            }
        };
        bits & libc::O_TRUNC as u64 != 0
    }

    /// The name that bind(2) gives to a socket: in `struct sockaddr_un`, behind the family.
    fn socket_path(origin: &Origin, entry: &Entry) -> Option<Vec<u8>> {
        let mut address = vec![0; entry.arguments[2].min(size_of::<libc::sockaddr_un>() as u64) as usize];
        read_memory(origin.thread, entry.arguments[1], &mut address).ok()?;
        let path = address.get(2..).filter(|_| address[..2] == (libc::AF_UNIX as u16).to_ne_bytes())?;
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        Some(path[..end].to_vec()).filter(|path| !path.is_empty())
    }

    fn enter_name_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        call: impl FnOnce(Located) -> FileCall,
    ) -> Next {
        let located = self.locate(origin, entry, base, path, false);
        self.enter_located(origin, located, call)
    }

    fn enter_located(
        &mut self,
        origin: &Origin,
        located: Option<Located>,
        call: impl FnOnce(Located) -> FileCall,
    ) -> Next {
        let Some(mut located) = located else { return Next::GoOn };
        if !self.may(Changes::Files, origin.thread) {
            return Next::Wait;
        }
        self.confirm(origin, &mut located);
        if let Some(file) = located.file {
            self.settle_mapped(origin, file);
        }
        Next::ToExit(Entered::File(call(located)))
    }

    fn enter_rename(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        bases: Option<(usize, usize)>,
        paths: (usize, usize),
        flags: Option<usize>,
    ) -> Next {
        let mut from = self.locate(origin, entry, bases.map(|bases| bases.0), paths.0, false);
        let mut to = self.locate(origin, entry, bases.map(|bases| bases.1), paths.1, false);
        if from.is_none() && to.is_none() {
            return Next::GoOn;
        }
        if !self.may(Changes::Files, origin.thread) {
            return Next::Wait;
        }
        for located in [&mut from, &mut to].into_iter().flatten() {
            self.confirm(origin, located);
            if let Some(file) = located.file {
                self.settle_mapped(origin, file);
            }
        }
        let flags = flags.map_or(0, |flags| entry.arguments[flags]);
        if flags & u64::from(libc::RENAME_WHITEOUT) != 0 {
            self.count("rename that leaves a whiteout");
        }
        let exchange = flags & u64::from(libc::RENAME_EXCHANGE) != 0;
        Next::ToExit(Entered::File(FileCall::Rename { from, to, exchange }))
    }

    fn leave_rename(&mut self, origin: &Origin, from: Option<Located>, to: Option<Located>, exchange: bool) {
        match (from, to) {
            (Some(from), Some(to)) => {
                let Some(file) = from.file else { return self.count("rename of a file that is not known") };
                // Two names of one file: nothing is done (rename(2)).
                if from.file == to.file {
                    return;
                }
                let replaced = to.file;
                let names = ChangeOfName { from: (from.parent, from.name), to: (to.parent, to.name) };
                self.operation(origin, FileOp::Rename { file, names, replaced, exchange });
            }
            (Some(mut inside), None) | (None, Some(mut inside)) => self.take_over(origin, &mut inside),
            (None, None) => {}
        }
    }

    fn enter_set_mode(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        flags: Option<usize>,
    ) -> Next {
        let flags = flags.map_or(0, |flags| entry.arguments[flags] as i32);
        let mode = entry.arguments[path + 1] as u32 & 0o7777;
        let path_text = text(origin.thread, entry.arguments[path]).unwrap_or_default();
        let set = |file| FileCall::SetMode { file, mode };
        if flags & libc::AT_EMPTY_PATH != 0 && path_text.is_empty() {
            let file = base.and_then(|base| self.own(origin, entry.arguments[base])).map(|(file, _)| file);
            return self.change(origin, file, set);
        }
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        let base = Self::base(origin, entry, base);
        if let Some(located) = self.locate_path(base, &path_text, follow) {
            return self.change_located(origin, Some(located), set);
        }
        // The directory itself, or a path that ends with a dot.
        let stat = self.paths.directory(base, &path_text).and_then(fstat);
        let file = stat.ok().and_then(|stat| self.tree.as_ref()?.find(&stat));
        self.change(origin, file, set)
    }

    fn enter_descriptor_call(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        let arguments = &entry.arguments;
        match call {
            Call::Copy { to, to_offset, .. } => {
                let Some((file, descriptor)) = self.own(origin, arguments[to]) else {
                    return self.enter_copy_to_socket(origin, entry, call);
                };
                let mut offset = None;
                if let Some(place) = to_offset.map(|argument| arguments[argument]).filter(|place| *place != 0) {
                    let mut bytes = [0; 8];
                    if read_memory(origin.thread, place, &mut bytes).is_ok() {
                        offset = Some(u64::from_le_bytes(bytes));
                    }
                }
                // It may wait for a pipe to be filled.
                let may_wait = origin.row.number == libc::SYS_splice;
                if !may_wait && !self.may(Changes::Files, origin.thread) {
                    return Next::Wait;
                }
                self.settle_mapped(origin, file);
                Next::ToExit(Entered::File(FileCall::Fill { file, copy: descriptor.copy, offset }))
            }
            _ => {
                let Some((file, descriptor)) = self.own(origin, arguments[0]) else { return Next::GoOn };
                self.change(origin, Some(file), |file| match call {
                    Call::SetModeOf => FileCall::SetMode { file, mode: arguments[1] as u32 & 0o7777 },
                    Call::TruncateOf => FileCall::Resize { file, to: arguments[1] },
                    _ => FileCall::Allocate { file, copy: descriptor.copy },
                })
            }
        }
    }

    fn enter_unfollowed(&mut self, origin: &Origin, entry: &Entry, call: Call) -> Next {
        let what = match call {
            Call::Submit => {
                let writes = self.submits_to_us(origin, entry);
                return if writes { Next::ToExit(Entered::Unfollowed("io_submit".into())) } else { Next::GoOn };
            }
            Call::Control => {
                let control = entry.arguments[1] as u32;
                if HARMLESS.contains(&control) {
                    return Next::GoOn;
                }
                if CLONES.contains(&control) { "reflink".to_owned() } else { format!("ioctl {control:#x}") }
            }
            _ => origin.row.name.to_owned(),
        };
        let Some((file, descriptor)) = self.own(origin, entry.arguments[0]) else { return Next::GoOn };
        self.change(origin, Some(file), |file| FileCall::Unfollowed { file, copy: descriptor.copy, what })
    }

    /// Whether one of the blocks of an io_submit(2) writes to a file of the node's or syncs it.
    fn submits_to_us(&self, origin: &Origin, entry: &Entry) -> bool {
        let [_, count, blocks, ..] = entry.arguments;
        (0..count.min(1024)).any(|number| {
            let (mut place, mut block) = ([0; 8], [0; 64]);
            let read = read_memory(origin.thread, blocks + number * 8, &mut place)
                .and_then(|()| read_memory(origin.thread, u64::from_le_bytes(place), &mut block));
            // `struct iocb` of linux/aio_abi.h: 0 reads, 7 reads several, 5 polls.
            let operation = u16::from_le_bytes([block[16], block[17]]);
            let file = u32::from_le_bytes([block[20], block[21], block[22], block[23]]);
            read.is_ok() && !matches!(operation, 0 | 5 | 7) && self.own(origin, u64::from(file)).is_some()
        })
    }

    fn is_ours(&mut self, origin: &Origin, entry: &Entry, base: Option<usize>, path: usize) -> bool {
        let Some(path) = text(origin.thread, entry.arguments[path]) else { return false };
        let base = Self::base(origin, entry, base);
        let Some(tree) = &self.tree else { return false };
        if let Ok(stat) = self.paths.directory(base, &path).and_then(fstat) {
            return tree.find(&stat).is_some();
        }
        self.paths.place(base, &path, true).is_some_and(|place| tree.find(&place.stat).is_some())
    }

    pub(super) fn enter_write(&mut self, origin: &Origin, entry: &Entry) -> Next {
        let number = entry.arguments[0] as i32;
        let Some(descriptor) = self.descriptor(origin.thread, number) else { return Next::GoOn };
        if descriptor.is(FileType::Socket) {
            return self.enter_send(origin, entry, &descriptor);
        }
        if let Some(file) = self.tree.as_ref().and_then(|tree| tree.find(&descriptor.stat)) {
            if !descriptor.is(FileType::RegularFile) {
                return Next::GoOn;
            }
            return self.change(origin, Some(file), |file| FileCall::Write { file, copy: descriptor.copy });
        }
        if self.marks.are_written_to(number, &descriptor) { Next::ToExit(Entered::Mark) } else { Next::GoOn }
    }

    /// So many bytes that a call wrote.
    pub(super) fn written(&mut self, thread: libc::pid_t, entry: &Entry, write: Write, len: u64) -> io::Result<Data> {
        let [_, address, count, ..] = entry.arguments;
        if write.bytes == Bytes::Buffer {
            return self.memory(thread, address, len);
        }
        // `struct iovec`: a place and a length.
        let mut vector = vec![0; 16 * count.min(1024) as usize];
        read_memory(thread, address, &mut vector)?;
        let at = self.data.len() as u64;
        let mut left = len;
        for piece in vector.chunks_exact(16) {
            let (place, size) = piece.split_at(8);
            let size = u64::from_le_bytes(size.try_into().expect("eight bytes")).min(left);
            self.memory(thread, u64::from_le_bytes(place.try_into().expect("eight bytes")), size)?;
            left -= size;
        }
        Ok(Data { at, len: len - left })
    }

    fn leave_write(&mut self, origin: &Origin, entry: &Entry, file: FileId, copy: &OwnedFd, len: u64) {
        let Call::Write(write) = origin.row.call else { return };
        if len == 0 {
            return;
        }
        let size_before = self.tree.as_ref().map_or(0, |tree| tree.file(file).size);
        let flags = fcntl_getfl(copy).unwrap_or(OFlags::empty());
        let call_flags = write.flags.map_or(0, |argument| entry.arguments[argument]);
        let appends = call_flags & RWF_APPEND != 0 || flags.contains(OFlags::APPEND) && call_flags & RWF_NOAPPEND == 0;
        let offset = match write.offset.map(|argument| entry.arguments[argument]) {
            _ if appends => size_before,
            Some(offset) if offset != u64::MAX => offset,
            _ => tell(copy).unwrap_or(0).saturating_sub(len),
        };
        match self.written(origin.thread, entry, write, len) {
            Ok(data) => self.operation(origin, FileOp::Write { file, offset, data, size_before }),
            Err(_) => self.look_again(origin, file, copy),
        }
        self.sync_behind_write(origin, file, flags, call_flags);
    }

    fn sync_behind_write(&mut self, origin: &Origin, file: FileId, flags: OFlags, call_flags: u64) {
        let flags = flags.bits() as i32;
        // O_SYNC has the bit of O_DSYNC as well.
        let scope = if flags & libc::O_SYNC == libc::O_SYNC || call_flags & RWF_SYNC != 0 {
            SyncScope::File
        } else if flags & libc::O_DSYNC != 0 || call_flags & RWF_DSYNC != 0 {
            SyncScope::Data
        } else {
            return;
        };
        self.operation(origin, FileOp::Sync { file, scope });
    }

    /// Bytes that did not come from memory are read where they went.
    fn leave_fill(&mut self, origin: &Origin, file: FileId, copy: &OwnedFd, offset: Option<u64>, len: u64) {
        if len == 0 {
            return;
        }
        let size_before = self.tree.as_ref().map_or(0, |tree| tree.file(file).size);
        let flags = fcntl_getfl(copy).unwrap_or(OFlags::empty());
        let offset = match offset {
            _ if flags.contains(OFlags::APPEND) => size_before,
            Some(offset) => offset,
            None => tell(copy).unwrap_or(0).saturating_sub(len),
        };
        let at = self.data.len();
        self.data.resize(at + len as usize, 0);
        let read = readable(copy.as_fd()).and_then(|file| file.read_exact_at(&mut self.data[at..], offset));
        if read.is_ok() {
            let data = Data { at: at as u64, len };
            self.operation(origin, FileOp::Write { file, offset, data, size_before });
        } else {
            self.data.truncate(at);
            self.look_again(origin, file, copy);
        }
        self.sync_behind_write(origin, file, flags, 0);
    }

    /// Records what a call that is not known to the end did to a file.
    fn look_again(&mut self, origin: &Origin, file: FileId, copy: &OwnedFd) {
        match readable(copy.as_fd()) {
            Ok(real) => self.settle(origin, file, &real),
            Err(_) => self.count(format!("{} of a file that cannot be read", origin.row.name)),
        }
    }

    fn leave_allocate(&mut self, origin: &Origin, entry: &Entry, file: FileId, copy: &OwnedFd) {
        let [_, mode, offset, len, ..] = entry.arguments;
        let mode = mode as i32;
        let size = self.tree.as_ref().map_or(0, |tree| tree.file(file).size);
        if mode & (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) != 0 {
            self.count("fallocate that moves what is behind a range");
            return self.look_again(origin, file, copy);
        }
        if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE | FALLOC_FL_WRITE_ZEROES) != 0
            && offset < size
        {
            self.operation(origin, FileOp::Zero { file, offset, len: len.min(size - offset) });
        }
        if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && offset + len > size {
            self.operation(origin, FileOp::Resize { file, from: size, to: offset + len });
        }
    }

    pub(super) fn leave_file_call(&mut self, origin: &Origin, entry: &Entry, call: FileCall, result: u64) {
        match call {
            FileCall::Open { located, nameless } => self.leave_open(origin, entry, located, nameless, result),
            FileCall::Make(mut located) => self.take_over(origin, &mut located),
            FileCall::Remove(Located { parent, name, file: Some(file), .. }) => {
                self.operation(origin, FileOp::Unlink { parent, name, file });
            }
            FileCall::Remove(_) => self.count("removal of a file that is not known"),
            FileCall::Rename { from, to, exchange } => self.leave_rename(origin, from, to, exchange),
            FileCall::Write { file, copy } => self.leave_write(origin, entry, file, &copy, result),
            FileCall::Fill { file, copy, offset } => self.leave_fill(origin, file, &copy, offset, result),
            FileCall::Resize { file, to } => {
                let from = self.tree.as_ref().map_or(to, |tree| tree.file(file).size);
                if from != to {
                    self.operation(origin, FileOp::Resize { file, from, to });
                }
            }
            FileCall::Allocate { file, copy } => self.leave_allocate(origin, entry, file, &copy),
            FileCall::SetMode { file, mode } => self.operation(origin, FileOp::SetMode { file, mode }),
            FileCall::Unfollowed { file, copy, what } => {
                self.count(what);
                if self.tree.as_ref().is_some_and(|tree| tree.file(file).kind == FileKind::Regular) {
                    self.look_again(origin, file, &copy);
                }
            }
            FileCall::Sync(ranges) => {
                for (file, scope) in ranges {
                    self.operation(origin, FileOp::Sync { file, scope });
                }
            }
            FileCall::SyncAll => self.operation(origin, FileOp::SyncAll),
            FileCall::Map { file, copy } => self.leave_map(origin, entry, file, &copy, result),
            FileCall::Unmap => self.leave_unmap(origin, entry),
            FileCall::Move => self.leave_move(origin, entry, result),
        }
    }

    /// Whoever made a call was killed in it: what it did is looked up.
    pub(super) fn abandon_file_call(&mut self, origin: &Origin, entry: &Entry, call: FileCall) {
        match call {
            FileCall::Open { located: Some(located), .. } => {
                let file = located.file;
                self.relocate(origin, located);
                // It may have been cut off.
                if let (Some(file), true) = (file, Self::truncates(origin, entry)) {
                    self.count_if_unsettled(origin, file);
                }
            }
            FileCall::Make(located) | FileCall::Remove(located) => self.relocate(origin, located),
            FileCall::Rename { from, to, exchange } => {
                let done = match (&from, &to) {
                    (Some(from), Some(to)) => {
                        let now = to.place.look().and_then(|stat| self.tree.as_ref()?.find(&stat));
                        from.file.is_some() && now == from.file && from.file != to.file
                    }
                    _ => true,
                };
                if done {
                    self.leave_rename(origin, from, to, exchange);
                }
            }
            FileCall::Write { file, copy }
            | FileCall::Fill { file, copy, .. }
            | FileCall::Allocate { file, copy }
            | FileCall::Unfollowed { file, copy, .. } => self.look_again(origin, file, &copy),
            FileCall::Resize { file, .. } | FileCall::SetMode { file, .. } => self.count_if_unsettled(origin, file),
            _ => {}
        }
    }

    fn relocate(&mut self, origin: &Origin, mut located: Located) {
        if !self.is_known(&mut located) {
            self.take_over(origin, &mut located);
        }
    }

    /// A file of which we have only the number: whether a call by path was made is not known.
    fn count_if_unsettled(&mut self, origin: &Origin, _file: FileId) {
        self.count(format!("{} that was interrupted", origin.row.name));
    }
}
