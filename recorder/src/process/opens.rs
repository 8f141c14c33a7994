//! Calls that open a file and may make it, or cut it off.

use rustix::fs::{FileType, OFlags, Stat, fstat};
use trace::{FileKind, FileOp};

use super::gate::Changes;
use super::name_calls::NameCall;
use super::names::{Located, Where};
use super::recording::{Next, Recording};
use super::tree::inode;
use tracer::Origin;
use tracer::calls::{Call, OpenFlags};
use tracer::lookup::{Base, text};
use tracer::{Entry, read_memory};

/// Of linux/openat2.h.
const RESOLVE_IN_ROOT: u64 = 0x10;

fn is_pipe(stat: Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Fifo
}

/// How a file is to be opened.
struct How {
    flags: OFlags,
    /// Whether the path stays below where it begins.
    in_root: bool,
}

impl How {
    /// What cannot be read is taken for no flags: the call will fail.
    fn of(origin: &Origin, entry: &Entry, flags: OpenFlags) -> Self {
        let (mut bits, mut in_root) = (0, false);
        match flags {
            OpenFlags::Argument(argument) => bits = entry.arguments[argument],
            OpenFlags::Creat => bits = (libc::O_CREAT | libc::O_TRUNC) as u64,
            OpenFlags::Structure(argument) => {
                let mut how = [0; 24];
                if read_memory(origin.thread, entry.arguments[argument], &mut how).is_ok() {
                    let number = |at: usize| {
                        u64::from_le_bytes(how[at..at + 8].try_into().expect("eight bytes"))
                    };
                    (bits, in_root) = (number(0), number(16) & RESOLVE_IN_ROOT != 0);
                }
            }
        }
        Self {
            flags: OFlags::from_bits_retain(bits as u32),
            in_root,
        }
    }

    fn may_change_files(&self) -> bool {
        self.flags.intersects(OFlags::CREATE | OFlags::TRUNC) || self.makes_nameless()
    }

    /// Whether it makes a file without a name in the directory of the path.
    fn makes_nameless(&self) -> bool {
        self.flags.contains(OFlags::TMPFILE)
    }

    /// Whether a link at the end of the path is followed.
    fn follows(&self) -> bool {
        let exclusive = self.flags.contains(OFlags::CREATE | OFlags::EXCL);
        !exclusive && !self.flags.contains(OFlags::NOFOLLOW)
    }

    /// The path at an address, as seen from where it begins.
    fn path(&self, origin: &Origin, address: u64) -> Option<Vec<u8>> {
        let mut path = text(origin.thread, address)?;
        if self.in_root {
            path.drain(..path.iter().take_while(|byte| **byte == b'/').count());
        }
        Some(path)
    }
}

fn opened(located: Option<Located>) -> Next {
    NameCall::Open {
        located,
        nameless: false,
    }
    .into_next()
}

impl Recording {
    pub(super) fn enter_open(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        base: Option<usize>,
        path: usize,
        flags: OpenFlags,
    ) -> Next {
        let how = How::of(origin, entry, flags);
        if !how.may_change_files() {
            return Next::GoOn;
        }
        let Some(path) = how.path(origin, entry.arguments[path]) else {
            return Next::GoOn;
        };
        let base = Self::base(origin, entry, base);
        if how.makes_nameless() {
            return self.enter_tmpfile(origin, base, &path);
        }
        let may_wait = !how.flags.contains(OFlags::NONBLOCK);
        match self.locate_path(base, &path, how.follows()) {
            // What the path means may not be seen through, such as `/dev/stdout`: it may be ours.
            Where::Elsewhere if how.flags.contains(OFlags::TRUNC) => opened(None),
            // To open a pipe can take for ever.
            Where::Ours(located) if may_wait && located.look().is_some_and(is_pipe) => {
                opened(Some(located))
            }
            found => self.arrive(origin, found, |_, located| opened(Some(located))),
        }
    }

    /// A call that makes a file without a name in a directory.
    fn enter_tmpfile(&mut self, origin: &Origin, base: Base, path: &[u8]) -> Next {
        let directory = self.paths.directory(base, path).and_then(fstat);
        let ours = directory.is_ok_and(|stat| {
            let tree = self.tree.as_ref();
            tree.is_some_and(|tree| tree.find(&stat).is_some())
        });
        if !ours {
            return Next::GoOn;
        }
        if !self.may(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        let (located, nameless) = (None, true);
        NameCall::Open { located, nameless }.into_next()
    }

    pub(super) fn leave_open(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        located: Option<Located>,
        nameless: bool,
        number: u64,
    ) {
        let Some(descriptor) = origin.descriptor(number as i32) else {
            return self.count("a file that was closed while it was opened");
        };
        let stat = descriptor.stat;
        let Some(tree) = &mut self.tree else { return };
        if nameless {
            let mode = stat.st_mode & 0o7777;
            let file = tree.add(inode(&stat), FileKind::Regular, mode);
            return self.operation(origin, FileOp::CreateNameless { file, mode });
        }
        if !descriptor.is(FileType::RegularFile) {
            return;
        }
        match (tree.find(&stat), located) {
            (Some(file), _) => {
                let from = tree.file(file).size;
                if Self::truncates(origin, entry) && from > 0 {
                    self.operation(origin, FileOp::Resize { file, from, to: 0 });
                }
            }
            (None, Some(located))
                if located
                    .look()
                    .is_some_and(|named| inode(&named) == inode(&stat)) =>
            {
                self.relocate(origin, located);
            }
            (None, Some(_)) => self.count("a file that was opened under another name"),
            (None, None) => {}
        }
    }

    pub(super) fn truncates(origin: &Origin, entry: &Entry) -> bool {
        let Call::Open { flags, .. } = origin.row.call else {
            return false;
        };
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

    pub(super) fn abandon_open(&mut self, origin: &Origin, located: Located) {
        let (file, copy) = (located.file, located.open());
        self.relocate(origin, located);
        // It may have been cut off.
        if let (Some(file), Some(copy)) = (file, copy) {
            self.look_again(origin, file, &copy);
        }
    }
}
