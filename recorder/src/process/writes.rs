//! Calls that change what is in a file.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, OFlags, fcntl_getfl, tell};
use trace::{Data, FileId, FileKind, FileOp, SyncScope};

use super::changes::Change;
use super::files::{FileCall, to_exit};
use super::gate::Changes;
use super::mappings::PAGE_BYTES;
use super::recording::{Entered, Next, Recording};
use super::snapshot;
use tracer::Origin;
use tracer::calls::{Bytes, Call, Write};
use tracer::lookup::readable;
use tracer::{Entry, read_memory};

/// Flags of pwritev2(2): linux/fs.h.
const RWF_DSYNC: u64 = 2;
const RWF_SYNC: u64 = 4;
const RWF_APPEND: u64 = 16;
const RWF_NOAPPEND: u64 = 32;

/// Of linux/falloc.h.
const FALLOC_FL_WRITE_ZEROES: i32 = 0x80;

impl Recording {
    pub(super) fn enter_write(&mut self, origin: &Origin, entry: &Entry) -> Next {
        let number = entry.arguments[0] as i32;
        let Some(descriptor) = origin.descriptor(number) else {
            return Next::GoOn;
        };
        if descriptor.is(FileType::Socket) {
            return self.enter_send(origin, entry, descriptor);
        }
        if let Some(file) = self
            .tree
            .as_ref()
            .and_then(|tree| tree.find(&descriptor.stat))
        {
            if !descriptor.is(FileType::RegularFile) {
                return Next::GoOn;
            }
            return self.change(origin, Some(file), |file| Change::Write {
                file,
                copy: descriptor.copy,
            });
        }
        if self.marks.are_written_to(number, &descriptor) {
            Next::ToExit(Entered::Mark(self.events()))
        } else {
            Next::GoOn
        }
    }

    /// So many bytes that a call wrote.
    pub(super) fn written(
        &mut self,
        thread: libc::pid_t,
        entry: &Entry,
        write: Write,
        len: u64,
    ) -> io::Result<Data> {
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
            self.memory(
                thread,
                u64::from_le_bytes(place.try_into().expect("eight bytes")),
                size,
            )?;
            left -= size;
        }
        Ok(Data {
            at,
            len: len - left,
        })
    }

    pub(super) fn leave_write(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        file: FileId,
        copy: &OwnedFd,
        len: u64,
    ) {
        let Call::Write(write) = origin.row.call else {
            return;
        };
        if len == 0 {
            return;
        }
        let size_before = self.tree.as_ref().map_or(0, |tree| tree.file(file).size);
        let flags = fcntl_getfl(copy).unwrap_or(OFlags::empty());
        let call_flags = write.flags.map_or(0, |argument| entry.arguments[argument]);
        let appends = call_flags & RWF_APPEND != 0
            || flags.contains(OFlags::APPEND) && call_flags & RWF_NOAPPEND == 0;
        let offset = match write.offset.map(|argument| entry.arguments[argument]) {
            _ if appends => size_before,
            Some(offset) if offset != u64::MAX => offset,
            _ => tell(copy).unwrap_or(0).saturating_sub(len),
        };
        match self.written(origin.thread, entry, write, len) {
            Ok(data) => self.operation(
                origin,
                FileOp::Write {
                    file,
                    offset,
                    data,
                    size_before,
                },
            ),
            Err(_) => self.look_again(origin, file, copy),
        }
        self.sync_behind_write(origin, file, (offset, len), flags, call_flags);
    }

    /// The kernel syncs what was written, and no more of the file's data (generic_write_sync).
    pub(super) fn sync_behind_write(
        &mut self,
        origin: &Origin,
        file: FileId,
        (offset, len): (u64, u64),
        flags: OFlags,
        call_flags: u64,
    ) {
        let flags = flags.bits() as i32;
        // O_SYNC has the bit of O_DSYNC as well.
        let scope = if flags & libc::O_SYNC == libc::O_SYNC || call_flags & RWF_SYNC != 0 {
            SyncScope::FileRange { offset, len }
        } else if flags & libc::O_DSYNC != 0 || call_flags & RWF_DSYNC != 0 {
            SyncScope::Range { offset, len }
        } else {
            return;
        };
        self.operation(origin, FileOp::Sync { file, scope });
    }

    pub(super) fn enter_descriptor_call(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: Call,
    ) -> Next {
        let arguments = &entry.arguments;
        if let Call::Copy { to, to_offset, .. } = call {
            return self.enter_copy(origin, entry, call, to, to_offset);
        }
        let Some((file, descriptor)) = self.own(origin, arguments[0]) else {
            return Next::GoOn;
        };
        self.change(origin, Some(file), |file| match call {
            Call::SetModeOf => Change::SetMode {
                file,
                copy: Some(descriptor.copy),
                mode: arguments[1] as u32 & 0o7777,
            },
            Call::TruncateOf => Change::Resize {
                file,
                copy: Some(descriptor.copy),
                to: arguments[1],
            },
            _ => Change::Allocate {
                file,
                copy: descriptor.copy,
            },
        })
    }

    /// Bytes of one descriptor into another.
    pub(super) fn enter_copy(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        call: Call,
        to: usize,
        to_offset: Option<usize>,
    ) -> Next {
        let own = self.own(origin, entry.arguments[to]);
        // A pipe waits for its reader.
        let file = own.filter(|(_, descriptor)| descriptor.is(FileType::RegularFile));
        let Some((file, descriptor)) = file else {
            return self.enter_copy_to_socket(origin, entry, call);
        };
        let mut offset = None;
        if let Some(place) = to_offset
            .map(|argument| entry.arguments[argument])
            .filter(|place| *place != 0)
        {
            let mut bytes = [0; 8];
            if read_memory(origin.thread, place, &mut bytes).is_ok() {
                offset = Some(u64::from_le_bytes(bytes));
            }
        }
        // It may wait for a pipe to be filled.
        let may_wait = origin.row.name == "splice";
        if !may_wait && !self.may(Changes::Files, origin.thread) {
            return Next::Hold;
        }
        self.settle_mapped(origin, file);
        to_exit(FileCall::Change(Change::Fill {
            file,
            copy: descriptor.copy,
            offset,
        }))
    }

    /// Bytes that did not come from memory are read where they went.
    pub(super) fn leave_fill(
        &mut self,
        origin: &Origin,
        file: FileId,
        copy: &OwnedFd,
        offset: Option<u64>,
        len: u64,
    ) {
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
        let mut bytes = vec![0; len as usize];
        let read = readable(copy.as_fd()).and_then(|file| file.read_exact_at(&mut bytes, offset));
        if read.is_ok() {
            let data = snapshot::add(&mut self.data, &bytes);
            self.operation(
                origin,
                FileOp::Write {
                    file,
                    offset,
                    data,
                    size_before,
                },
            );
        } else {
            self.look_again(origin, file, copy);
        }
        self.sync_behind_write(origin, file, (offset, len), flags, 0);
    }

    pub(super) fn leave_allocate(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        file: FileId,
        copy: &OwnedFd,
    ) {
        let [_, mode, offset, len, ..] = entry.arguments;
        let mode = mode as i32;
        let size = self.tree.as_ref().map_or(0, |tree| tree.file(file).size);
        if mode & (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) != 0 {
            self.count(trace_store::MOVES_BYTES);
            return self.look_again(origin, file, copy);
        }
        let is_hole = mode & libc::FALLOC_FL_PUNCH_HOLE != 0;
        let is_zeros = mode & (libc::FALLOC_FL_ZERO_RANGE | FALLOC_FL_WRITE_ZEROES) != 0;
        if (is_hole || is_zeros) && offset < size {
            // What is past the end of the file tells whether its last page is zeroed whole.
            let len = len.min(size.next_multiple_of(PAGE_BYTES) - offset);
            let op = if is_hole {
                FileOp::Zero { file, offset, len }
            } else {
                FileOp::ZeroBlocks { file, offset, len }
            };
            self.operation(origin, op);
        }
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let is_larger = !keeps_size && offset + len > size;
        if !is_larger && (is_hole || is_zeros) {
            return;
        }
        let op = if is_larger {
            FileOp::Resize {
                file,
                from: size,
                to: offset + len,
            }
        } else {
            FileOp::Allocate {
                file,
                offset,
                len,
                keeps_size,
            }
        };
        self.operation(origin, op);
    }

    /// Records what a call that is not known to the end did to a file.
    pub(super) fn look_again(&mut self, origin: &Origin, file: FileId, copy: &OwnedFd) {
        if self
            .tree
            .as_ref()
            .is_none_or(|tree| tree.file(file).kind != FileKind::Regular)
        {
            return;
        }
        match readable(copy.as_fd()) {
            Ok(real) => self.settle(origin, file, &real),
            Err(_) => self.count(format!("{} of a file that cannot be read", origin.row.name)),
        }
    }
}
