//! What a thread means by a descriptor or a path: looked up where it lives, at the moment of the
//! call, so that dup, exec, passing, namespaces and links need no care.

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use libc::pid_t;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::fs::{fstat, openat, openat2, readlinkat, statat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::system::read_memory;

/// `PIDFD_THREAD`: a descriptor of a thread, which may have a table of descriptors of its own.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(OFlags::EXCL.bits());

/// How many links are followed before a path is taken for a circle, as in the kernel.
const LINKS_MAX: u32 = 40;

/// A copy of somebody's descriptor, and what it is of.
#[derive(Debug)]
pub struct Descriptor {
    /// The copy.
    pub copy: OwnedFd,
    /// What fstat(2) says of it.
    pub stat: Stat,
}

impl Descriptor {
    /// Whether it is of a file of this type.
    pub fn is(&self, kind: FileType) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == kind
    }
}

/// A name in a directory.
#[derive(Debug)]
pub struct Place {
    /// The directory.
    pub directory: OwnedFd,
    /// What fstat(2) says of the directory.
    pub stat: Stat,
    /// The name, which may be nobody's.
    pub name: Vec<u8>,
}

impl Place {
    fn new(directory: OwnedFd, name: Vec<u8>) -> Result<Self, Errno> {
        let stat = fstat(&directory)?;
        Ok(Self {
            directory,
            stat,
            name,
        })
    }
}

/// What has a name in a directory, if anything has.
pub fn look(directory: impl AsFd, name: &[u8]) -> Option<Stat> {
    statat(
        directory,
        OsStr::from_bytes(name),
        AtFlags::SYMLINK_NOFOLLOW,
    )
    .ok()
}

/// Something by which the descriptors of a thread can be copied. Before Linux 6.9 there is none for
/// a thread, and that of its process stands for it.
pub(crate) fn handle_of(thread: pid_t, process: pid_t) -> io::Result<OwnedFd> {
    let open = |number, flags| pidfd_open(Pid::from_raw(number).ok_or(Errno::SRCH)?, flags);
    Ok(open(thread, PIDFD_THREAD).or_else(|_| open(process, PidfdFlags::empty()))?)
}

/// A copy of descriptor `number`.
pub fn descriptor(handle: impl AsFd, number: i32) -> Option<Descriptor> {
    if number < 0 {
        return None;
    }
    let copied = pidfd_getfd(handle, number, PidfdGetfdFlags::empty());
    let copied = copied.and_then(|copy| {
        let stat = fstat(&copy)?;
        Ok(Descriptor { copy, stat })
    });
    match copied {
        Ok(descriptor) => Some(descriptor),
        // It is closed, or its process is gone.
        Err(Errno::BADF | Errno::SRCH) => None,
        Err(error) => {
            NOT_COPIED.set(Some(error.into()));
            None
        }
    }
}

thread_local! {
    /// Why a descriptor was not copied last that is open.
    static NOT_COPIED: Cell<Option<io::Error>> = const { Cell::new(None) };
}

/// Why this thread could not copy a descriptor that is open, since it was asked last: what was done with
/// that is not known.
pub fn not_copied() -> Option<io::Error> {
    NOT_COPIED.take()
}

/// The same file again, to be read.
///
/// # Errors
/// If it may not be read.
pub fn readable(copy: BorrowedFd<'_>) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))
}

/// A path, or another text that ends with a zero.
pub fn text(thread: pid_t, address: u64) -> Option<Vec<u8>> {
    let (mut all, mut at) = (Vec::new(), address);
    while all.len() < libc::PATH_MAX as usize {
        // Not beyond the page, since there may be nothing after it.
        let len = 256.min(4096 - (at & 4095)) as usize;
        let mut piece = [0; 256];
        read_memory(thread, at, &mut piece[..len]).ok()?;
        if let Ok(text) = CStr::from_bytes_until_nul(&piece[..len]) {
            all.extend_from_slice(text.to_bytes());
            return Some(all);
        }
        all.extend_from_slice(&piece[..len]);
        at += len as u64;
    }
    None
}

/// Where relative paths of a call begin.
#[derive(Debug, Clone, Copy)]
pub struct Base {
    /// The thread whose path it is.
    pub thread: pid_t,
    /// A descriptor of it, or `AT_FDCWD`.
    pub descriptor: i32,
}

/// Looks up paths as others see them.
#[derive(Debug)]
pub struct Paths {
    /// `/proc` as the tracer sees it.
    proc: OwnedFd,
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn c_string(text: impl Into<Vec<u8>>) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::INVAL)
}

impl Paths {
    /// With the `/proc` of the tracer ([`crate::proc`]).
    pub fn new(proc: OwnedFd) -> Self {
        Self { proc }
    }

    /// The tracer's `/proc`.
    pub fn proc(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }

    fn start(&self, base: Base, absolute: bool) -> Result<OwnedFd, Errno> {
        let thread = base.thread;
        let path = match base.descriptor {
            _ if absolute => format!("{thread}/root"),
            libc::AT_FDCWD => format!("{thread}/cwd"),
            descriptor => format!("{thread}/fd/{descriptor}"),
        };
        openat(&self.proc, path, DIRECTORY, Mode::empty())
    }

    /// The directory and name that a path ends with. `follow` says whether the name is followed if
    /// it is a link. None if the path cannot be followed, or ends with no name, such as `..`.
    pub fn place(&self, base: Base, path: &[u8], follow: bool) -> Option<Place> {
        self.try_place(base, path, follow).ok().flatten()
    }

    fn try_place(&self, base: Base, path: &[u8], follow: bool) -> Result<Option<Place>, Errno> {
        let end = path
            .iter()
            .rposition(|byte| *byte != b'/')
            .map_or(0, |last| last + 1);
        let path = &path[..end];
        let begin = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1);
        let (parent, name) = path.split_at(begin);
        if name.is_empty() || name == b"." || name == b".." {
            return Ok(None);
        }
        let directory = self.directory(base, parent)?;
        let place = Place::new(directory, name.into())?;
        if !follow || !look(&place.directory, &place.name).is_some_and(is_link) {
            return Ok(Some(place));
        }
        self.walk(base, path, true)
    }

    /// A directory.
    ///
    /// # Errors
    /// If it is none, or the path cannot be followed.
    pub fn directory(&self, base: Base, path: &[u8]) -> Result<OwnedFd, Errno> {
        let start = self.start(base, path.first() == Some(&b'/'))?;
        let end = path
            .iter()
            .rposition(|byte| *byte != b'/')
            .map_or(0, |last| last + 1);
        let begin = path.iter().position(|byte| *byte != b'/').unwrap_or(end);
        if begin == end {
            return Ok(start);
        }
        let relative = c_string(&path[begin..end])?;
        match openat2(
            &start,
            &relative,
            DIRECTORY,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        ) {
            Err(Errno::LOOP) => {
                // As if a name followed, which is not looked at.
                let path = [&path[..end], b"/x"].concat();
                Ok(self
                    .walk(base, &path, false)?
                    .ok_or(Errno::NOENT)?
                    .directory)
            }
            found => found,
        }
    }

    /// Goes through a path name by name: a link that begins with a slash begins at the root of the
    /// one who goes, which may not be ours.
    fn walk(&self, base: Base, path: &[u8], follow: bool) -> Result<Option<Place>, Errno> {
        let mut here = self.start(base, path.first() == Some(&b'/'))?;
        // The next one last.
        let mut left = names_reversed(path);
        let mut links = 0;
        while let Some(name) = left.pop() {
            let entry = openat(&here, c_string(name.clone())?, NAMED, Mode::empty());
            let stat = entry.as_ref().ok().map(fstat).transpose()?;
            let is_link = stat.is_some_and(is_link);
            if is_link && (follow || !left.is_empty()) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                if let Some(own) = self.own_directory(&here, &name, base)? {
                    here = own;
                    continue;
                }
                let target = readlinkat(entry?, c"", Vec::new())?.into_bytes();
                if target.first() == Some(&b'/') {
                    here = self.start(base, true)?;
                }
                left.extend(names_reversed(&target));
            } else if left.is_empty() {
                if name == b".." {
                    return Ok(None);
                }
                return Place::new(here, name).map(Some);
            } else {
                here = entry?;
            }
        }
        Ok(None)
    }

    /// What `/proc/self` and `/proc/thread-self` are for the one who goes, if that is what the name stands
    /// for.
    fn own_directory(
        &self,
        here: &OwnedFd,
        name: &[u8],
        base: Base,
    ) -> Result<Option<OwnedFd>, Errno> {
        let thread = base.thread;
        let own = match name {
            b"self" => thread.to_string(),
            b"thread-self" => format!("{thread}/task/{thread}"),
            _ => return Ok(None),
        };
        if rustix::fs::fstatfs(here)?.f_type != PROC_SUPER_MAGIC {
            return Ok(None);
        }
        openat(&self.proc, own, DIRECTORY, Mode::empty()).map(Some)
    }
}

/// Of linux/magic.h.
const PROC_SUPER_MAGIC: rustix::fs::FsWord = 0x9fa0;

/// How what has a name is opened, be it a link.
const NAMED: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn is_link(stat: Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// The names in a path, the first one last.
fn names_reversed(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    let names = names.filter(|name| !name.is_empty() && *name != b".");
    names.rev().map(<[u8]>::to_vec).collect()
}
