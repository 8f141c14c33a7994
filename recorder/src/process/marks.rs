//! The lines that a client prints: what it was told by the cluster.

use std::mem;

use super::log::What;
use super::recording::Recording;
use super::snapshot;
use super::tree::{Inode, inode};
use tracer::Entry;
use tracer::Origin;
use tracer::calls::Call;
use tracer::lookup::Descriptor;

/// The standard output of a node's first process.
#[derive(Debug, Default)]
pub(super) struct Marks {
    wanted: bool,
    output: Option<Inode>,
    /// What was written of a line that has not ended.
    line: Vec<u8>,
}

impl Marks {
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            ..Self::default()
        }
    }

    /// The first program begins.
    pub(super) fn begin(&mut self, output: Option<Descriptor>) {
        self.output = output
            .filter(|_| self.wanted)
            .map(|output| inode(&output.stat));
    }

    /// Whether a descriptor is that output. Standard error often goes to the same place.
    pub(super) fn are_written_to(&self, number: i32, descriptor: &Descriptor) -> bool {
        number != libc::STDERR_FILENO && self.output == Some(inode(&descriptor.stat))
    }
}

impl Recording {
    /// So many bytes were written to the standard output.
    pub(super) fn leave_mark(&mut self, origin: &Origin, entry: &Entry, len: u64) {
        let Call::Write(write) = origin.row.call else {
            return;
        };
        let Ok(data) = self.written(origin.thread, entry, write, len) else {
            return self.count("a line on standard output");
        };
        let bytes = self.data[data.at as usize..].to_vec();
        self.data.truncate(data.at as usize);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.marks.line.extend_from_slice(piece);
            if self.marks.line.pop_if(|last| *last == b'\n').is_some() {
                let line = mem::take(&mut self.marks.line);
                let line = snapshot::add(&mut self.data, &line);
                self.event(origin, What::Mark(line));
            }
        }
    }
}
