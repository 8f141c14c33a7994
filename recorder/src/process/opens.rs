//! Calls that open a file and may make it, or cut it off.

use rustix::fs::{FileType, OFlags, Stat, fstat};
use trace::{FileKind, FileOp};

use super::files::FileCall;
use super::gate::Changes;
use super::names::{Located, Where};
use super::recording::{Entered, Next, Recording};
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

fn opened(located: Option<Located>) -> Entered {
    Entered::File(FileCall::Open {
        located,
        nameless: false,
    })
}

/// The flags of a call that opens a file, and whether its path stays below where it begins. What
/// cannot be read is taken for no flags: the call will fail.
fn asked(origin: &Origin, entry: &Entry, flags: OpenFlags) -> (OFlags, bool) {
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
    (OFlags::from_bits_retain(bits as u32), in_root)
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
        let (flags, in_root) = asked(origin, entry, flags);
        if !flags.intersects(OFlags::CREATE | OFlags::TRUNC) && !flags.contains(OFlags::TMPFILE) {
            return Next::GoOn;
        }
        let Some(mut path) = text(origin.thread, entry.arguments[path]) else {
            return Next::GoOn;
        };
        if in_root {
            path.drain(..path.iter().take_while(|byte| **byte == b'/').count());
        }
        let base = Self::base(origin, entry, base);
        if flags.contains(OFlags::TMPFILE) {
            return self.enter_tmpfile(origin, base, &path);
        }
        let exclusive = flags.contains(OFlags::CREATE | OFlags::EXCL);
        let follow = !exclusive && !flags.contains(OFlags::NOFOLLOW);
        let found = self.locate_path(base, &path, follow);
        match found {
            // What the path means may not be seen through, such as `/dev/stdout`: it may be ours.
            Where::Elsewhere if flags.contains(OFlags::TRUNC) => Next::ToExit(opened(None)),
            // To open a pipe can take for ever.
            Where::Ours(located)
                if !flags.contains(OFlags::NONBLOCK) && located.look().is_some_and(is_pipe) =>
            {
                Next::ToExit(opened(Some(located)))
            }
            found => self.arrive(origin, found, |_, located| {
                Next::ToExit(opened(Some(located)))
            }),
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
        Next::ToExit(Entered::File(FileCall::Open {
            located: None,
            nameless: true,
        }))
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
}
