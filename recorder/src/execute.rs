//! Carries out operations on a mounted file system, as ACE's workloads mean them: a path's
//! descriptor stays open until the path is unlinked, renamed or closed.
//!
//! No path leads out of the file system: symbolic links are made, but never followed.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Uid,
    XattrFlags, chmod, chownat, fallocate, fchmod, fchown, fdatasync, fremovexattr, fsetxattr,
    fstat, fsync, ftruncate, linkat, makedev, mkdirat, mknodat, openat2, renameat_with, statat,
    symlinkat, syncfs, unlinkat,
};
use rustix::io::{Errno, pwrite};
use workloads::{DeviceKind, FallocMode, Op, RenameFlag, Target, WriteSync, pattern};

use crate::{memory::Mapping, raw};

type Result<T, E = Errno> = std::result::Result<T, E>;

/// Mapped memory starts at a page of this machine's, of which some have larger ones.
fn page_with(offset: u64) -> u64 {
    let size_bytes = rustix::param::page_size() as u64;
    offset / size_bytes * size_bytes
}

/// How every path is resolved: beneath the root, with no symbolic link on the way.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

fn file_type(kind: DeviceKind) -> FileType {
    match kind {
        DeviceKind::Char => FileType::CharacterDevice,
        DeviceKind::Block => FileType::BlockDevice,
    }
}

fn rename_flags(flag: RenameFlag) -> RenameFlags {
    match flag {
        RenameFlag::Replace => RenameFlags::empty(),
        RenameFlag::NoReplace => RenameFlags::NOREPLACE,
        RenameFlag::Exchange => RenameFlags::EXCHANGE,
        RenameFlag::Whiteout => RenameFlags::WHITEOUT,
    }
}

/// The directory that holds a name.
enum Parent<'a> {
    Root(BorrowedFd<'a>),
    Other(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(root) => *root,
            Self::Other(directory) => directory.as_fd(),
        }
    }
}

/// The descriptors of a running workload.
pub(crate) struct Executor {
    root: OwnedFd,
    open: HashMap<Target, OwnedFd>,
}

impl Executor {
    /// Operates below `root`, a directory.
    pub(crate) fn new(root: impl Into<OwnedFd>) -> Self {
        Self {
            root: root.into(),
            open: HashMap::new(),
        }
    }

    /// The name of a handle that is open.
    pub(crate) fn open_handle(&self) -> Option<&str> {
        self.open.keys().find_map(|target| match target {
            Target::Handle(name) => Some(name.as_str()),
            Target::Path(_) => None,
        })
    }

    /// Carries out operation number `number`; the number chooses the bytes it writes.
    pub(crate) fn run(&mut self, number: usize, op: &Op) -> Result<()> {
        match op {
            Op::Creat { .. }
            | Op::Mkdir { .. }
            | Op::Mkfifo { .. }
            | Op::Mknod { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Open { .. }
            | Op::Tmpfile { .. } => self.make(op),
            Op::Unlink { .. }
            | Op::Rmdir { .. }
            | Op::Remove { .. }
            | Op::Rename { .. }
            | Op::Close { .. } => self.unmake(op),
            Op::Write { .. }
            | Op::Append { .. }
            | Op::DirectWrite { .. }
            | Op::MmapWrite { .. } => self.write(number, op),
            Op::Truncate { .. } | Op::Falloc { .. } | Op::Reflink { .. } => self.change_data(op),
            Op::SetXattr { .. } | Op::RemoveXattr { .. } | Op::Chmod { .. } | Op::Chown { .. } => {
                self.change_attributes(op)
            }
            Op::DropCaches { .. }
            | Op::Fsync { .. }
            | Op::Fdatasync { .. }
            | Op::Msync { .. }
            | Op::SyncFileRange { .. }
            | Op::Syncfs
            | Op::Sync => self.persist(op),
        }
    }

    fn make(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Creat { path, mode } => {
                let flags = OFlags::CREATE | OFlags::EXCL;
                self.create(path, flags, *mode, Target::Path(path.clone()))
            }
            Op::Mkdir { path, mode } => {
                let (parent, name) = self.parent(path)?;
                mkdirat(parent, name, Mode::from_raw_mode(*mode))
            }
            Op::Mkfifo { path, mode } => self.make_special(path, FileType::Fifo, *mode, 0),
            Op::Mknod {
                path,
                kind,
                major,
                minor,
            } => self.make_special(path, file_type(*kind), 0o644, makedev(*major, *minor)),
            Op::Symlink { target, path } => {
                let (parent, name) = self.parent(path)?;
                symlinkat(target, parent, name)
            }
            Op::Link { source, dest } => self.link(source, dest),
            Op::Open { path, handle } => self.open(path, Target::Handle(handle.clone())),
            Op::Tmpfile { dir, handle, mode } => {
                self.create(dir, OFlags::TMPFILE, *mode, Target::Handle(handle.clone()))
            }
            _ => unreachable!("not an operation that makes something"),
        }
    }

    /// Opens what a path names, which stays open as `target`.
    fn open(&mut self, path: &str, target: Target) -> Result<()> {
        let file = self.open_path(path)?;
        self.open.insert(target, file);
        Ok(())
    }

    /// Makes a fifo or a device file. `device` is the number of a device.
    fn make_special(&self, path: &str, kind: FileType, mode: u32, device: u64) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        mknodat(parent, name, kind, Mode::from_raw_mode(mode), device)
    }

    /// Makes a file, which stays open as `target`.
    fn create(&mut self, path: &str, flags: OFlags, mode: u32, target: Target) -> Result<()> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | flags;
        let file = openat2(&self.root, path, flags, Mode::from_raw_mode(mode), BENEATH)?;
        self.open.insert(target, file);
        Ok(())
    }

    fn link(&self, source: &Target, dest: &str) -> Result<()> {
        match source {
            Target::Path(source) => {
                let (from, source) = self.parent(source)?;
                let (to, dest) = self.parent(dest)?;
                linkat(from, source, to, dest, AtFlags::empty())
            }
            Target::Handle(_) => {
                let file = self.open.get(source).ok_or(Errno::BADF)?;
                let (to, dest) = self.parent(dest)?;
                linkat(file, "", to, dest, AtFlags::EMPTY_PATH)
            }
        }
    }

    fn unmake(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Unlink { path } => {
                self.close_path(path);
                let (parent, name) = self.parent(path)?;
                unlinkat(parent, name, AtFlags::empty())
            }
            Op::Rmdir { path } => {
                self.close_path(path);
                let (parent, name) = self.parent(path)?;
                unlinkat(parent, name, AtFlags::REMOVEDIR)
            }
            Op::Remove { path } => {
                self.close_path(path);
                let (parent, name) = self.parent(path)?;
                let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
                let flags = match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => AtFlags::REMOVEDIR,
                    _ => AtFlags::empty(),
                };
                unlinkat(parent, name, flags)
            }
            Op::Rename { source, dest, flag } => {
                self.close_path(source);
                self.close_path(dest);
                let (from, source) = self.parent(source)?;
                let (to, dest) = self.parent(dest)?;
                renameat_with(from, source, to, dest, rename_flags(*flag))
            }
            Op::Close { target } => {
                self.open.remove(target);
                Ok(())
            }
            _ => unreachable!("not an operation that removes something"),
        }
    }

    fn write(&mut self, number: usize, op: &Op) -> Result<()> {
        match op {
            Op::Write {
                target,
                offset,
                length,
                sync,
            } => {
                let bytes = pattern::bytes(number, *offset, *length);
                if *sync == WriteSync::None {
                    return write_all(self.file(target)?, *offset, &bytes);
                }
                let file = self.reopen(target, sync_flags(*sync))?;
                write_all(&file, *offset, &bytes)
            }
            Op::Append { target, length } => {
                let file = self.file(target)?;
                let offset = fstat(file)?.st_size as u64;
                let appending = self.reopen(target, OFlags::APPEND)?;
                write_all(&appending, offset, &pattern::bytes(number, offset, *length))
            }
            Op::DirectWrite {
                target,
                offset,
                length,
                sync,
            } => {
                let bytes = pattern::bytes(number, *offset, *length);
                self.write_directly(target, *offset, &bytes, sync_flags(*sync))
            }
            Op::MmapWrite {
                target,
                offset,
                length,
            } => {
                let bytes = pattern::bytes(number, *offset, *length);
                self.write_mapped(target, *offset, &bytes)
            }
            _ => unreachable!("not an operation that writes"),
        }
    }

    /// Changes the data of a file without bytes of the workload.
    fn change_data(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Truncate { target, size } => ftruncate(self.file(target)?, *size),
            Op::Falloc {
                target,
                mode,
                offset,
                length,
            } => fallocate(self.file(target)?, falloc_flags(*mode), *offset, *length),
            Op::Reflink {
                source,
                source_offset,
                length,
                dest,
                dest_offset,
            } => {
                let source = self.file(source)?.try_clone().map_err(errno)?;
                let dest = self.file(dest)?;
                raw::clone_range(&source, *source_offset, *length, dest, *dest_offset)
            }
            _ => unreachable!("not an operation on data"),
        }
    }

    /// Writes past the page cache.
    fn write_directly(
        &mut self,
        target: &Target,
        offset: u64,
        bytes: &[u8],
        sync: OFlags,
    ) -> Result<()> {
        let file = self.reopen(target, OFlags::DIRECT | sync)?;
        let mut buffer = Mapping::anonymous(bytes.len()).map_err(errno)?;
        let buffer = &mut buffer.bytes_mut()[..bytes.len()];
        buffer.copy_from_slice(bytes);
        let written = write_all(&file, offset, buffer);
        if let Target::Path(path) = target {
            self.close_path(path);
        }
        written
    }

    /// Writes through shared memory; a file that is too short is made longer first.
    fn write_mapped(&mut self, target: &Target, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file(target)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = offset + bytes.len() as u64;
        if (fstat(file)?.st_size as u64) < end {
            ftruncate(file, end)?;
        }
        let start = page_with(offset);
        let skip = (offset - start) as usize;
        let mut mapping = Mapping::shared(file, start, skip + bytes.len()).map_err(errno)?;
        mapping.store(skip, bytes)
    }

    fn change_attributes(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::SetXattr {
                target,
                name,
                value,
            } => fsetxattr(
                self.file(target)?,
                name,
                value.as_bytes(),
                XattrFlags::empty(),
            ),
            Op::RemoveXattr { target, name } => fremovexattr(self.file(target)?, name),
            Op::Chmod { target, mode } => self.change_mode(target, Mode::from_raw_mode(*mode)),
            Op::Chown { target, uid, gid } => {
                self.change_owner(target, Uid::from_raw(*uid), Gid::from_raw(*gid))
            }
            _ => unreachable!("not an operation on attributes"),
        }
    }

    /// By path, so that what cannot be opened (a fifo, a device) can be changed too.
    fn change_mode(&mut self, target: &Target, mode: Mode) -> Result<()> {
        let Target::Path(path) = target else {
            return fchmod(self.file(target)?, mode);
        };
        let file = self.open_name(path)?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Symlink {
            return Err(Errno::OPNOTSUPP);
        }
        chmod(path_of(&file), mode)
    }

    /// By path, as [`Self::change_mode`].
    fn change_owner(&mut self, target: &Target, user: Uid, group: Gid) -> Result<()> {
        let (user, group) = (Some(user), Some(group));
        match target {
            Target::Path(path) => {
                chownat(self.open_name(path)?, "", user, group, AtFlags::EMPTY_PATH)
            }
            Target::Handle(_) => fchown(self.file(target)?, user, group),
        }
    }

    fn persist(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::DropCaches { what } => {
                std::fs::write("/proc/sys/vm/drop_caches", what.to_string()).map_err(errno)
            }
            Op::Fsync { target } => fsync(self.file(target)?),
            Op::Fdatasync { target } => fdatasync(self.file(target)?),
            Op::Msync {
                target,
                offset,
                length,
            } => {
                let start = page_with(*offset);
                let mapping = Mapping::shared(
                    self.file(target)?,
                    start,
                    (offset - start + length) as usize,
                );
                mapping.and_then(|mapping| mapping.sync()).map_err(errno)
            }
            Op::SyncFileRange {
                target,
                offset,
                length,
            } => raw::sync_file_range(self.file(target)?, *offset, *length),
            // sync(2) would write the disks of the other workers, and of the host, as well:
            // theirs would be durable before their time, and ours would wait for it.
            Op::Syncfs | Op::Sync => syncfs(&self.root),
            _ => unreachable!("not an operation that makes something durable"),
        }
    }

    /// The open descriptor of a target; a path is opened if it is not.
    fn file(&mut self, target: &Target) -> Result<&OwnedFd> {
        if let Target::Path(path) = target
            && !self.open.contains_key(target)
        {
            self.open(path, target.clone())?;
        }
        self.open.get(target).ok_or(Errno::BADF)
    }

    /// Opens a path for writing, or for reading where it is a directory.
    fn open_path(&self, path: &str) -> Result<OwnedFd> {
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = |flags| openat2(&self.root, path, flags, Mode::empty(), BENEATH);
        match open(OFlags::RDWR | flags) {
            Err(Errno::ISDIR) => open(OFlags::RDONLY | OFlags::DIRECTORY | flags),
            opened => opened,
        }
    }

    /// A descriptor that stands for what a path names, be it a symbolic link, a fifo or a device.
    fn open_name(&self, path: &str) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(&self.root, path, flags, Mode::empty(), BENEATH)
    }

    /// Takes a path apart into the directory that holds it and its name there.
    fn parent<'a>(&self, path: &'a str) -> Result<(Parent<'_>, &'a str)> {
        let (parent, name) = match path.rsplit_once('/') {
            None => (Parent::Root(self.root.as_fd()), path),
            Some((directory, name)) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                (
                    Parent::Other(openat2(
                        &self.root,
                        directory,
                        flags,
                        Mode::empty(),
                        BENEATH,
                    )?),
                    name,
                )
            }
        };
        // The only name that leads out of the directory it is looked up in.
        if name == ".." {
            return Err(Errno::XDEV);
        }
        Ok((parent, name))
    }

    /// A second descriptor of the same file with other flags.
    fn reopen(&mut self, target: &Target, flags: OFlags) -> Result<OwnedFd> {
        let path = path_of(self.file(target)?);
        rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | flags, Mode::empty())
    }

    fn close_path(&mut self, path: &str) {
        // A directory that goes or moves takes the descriptors below it along.
        self.open.retain(|target, _| match target {
            Target::Path(open) => {
                open != path
                    && !open
                        .strip_prefix(path)
                        .is_some_and(|rest| rest.starts_with('/'))
            }
            Target::Handle(_) => true,
        });
    }
}

/// A path that leads to what a descriptor stands for.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn write_all(file: &OwnedFd, mut offset: u64, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        let written = pwrite(file, data, offset)?;
        offset += written as u64;
        data = &data[written..];
    }
    Ok(())
}

fn sync_flags(sync: WriteSync) -> OFlags {
    match sync {
        WriteSync::None => OFlags::empty(),
        WriteSync::Dsync => OFlags::DSYNC,
        WriteSync::Sync => OFlags::SYNC,
    }
}

fn falloc_flags(mode: FallocMode) -> FallocateFlags {
    match mode {
        FallocMode::Allocate => FallocateFlags::empty(),
        FallocMode::KeepSize => FallocateFlags::KEEP_SIZE,
        FallocMode::ZeroRange => FallocateFlags::ZERO_RANGE,
        FallocMode::ZeroRangeKeepSize => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        FallocMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        FallocMode::CollapseRange => FallocateFlags::COLLAPSE_RANGE,
        FallocMode::InsertRange => FallocateFlags::INSERT_RANGE,
        FallocMode::UnshareRange => FallocateFlags::UNSHARE_RANGE,
    }
}

/// Takes the error by value so that it fits after `map_err`.
#[allow(clippy::needless_pass_by_value)]
fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
