//! Calls that open a file and may make it, or cut it off.

use pace_rules::nodes::{FileKind, FileOp};
use rustix::fs::{FileType, OFlags, Stat, fstat};

use super::calls::{Call, OpenFlags};
use super::files::FileCall;
use super::gate::Changes;
use super::lookup::text;
use super::names::Located;
use super::recording::{Entered, Next, Origin, Recording};
use super::system::{Entry, read_memory};
use super::tree::inode;

/// Of linux/openat2.h.
const RESOLVE_IN_ROOT: u64 = 0x10;

impl Recording {
    pub(super) fn enter_open(
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
        if located.look().is_some_and(is_pipe) {
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

    pub(super) fn leave_open(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        located: Option<Located>,
        nameless: bool,
        number: u64,
    ) {
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
                let Located { parent, name, directory, .. } = located;
                self.appeared(origin, parent, &name, &directory, &stat);
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

    pub(super) fn truncates(origin: &Origin, entry: &Entry) -> bool {
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
}
