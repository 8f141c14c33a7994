//! The lines that a client prints: what it was told by the cluster.

use std::mem;

use super::log::{Recorded, What};
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
    /// By the order in which they were written: each line, and how many of the other events came
    /// before the call that wrote its end.
    lines: Vec<(usize, Recorded)>,
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

    /// How many lines there are.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// All events of a node, its lines among them. Whoever reads them may have a line as soon as the
    /// call that writes it has begun: what others did until it returned comes after the line.
    pub(super) fn among(mut self, events: Vec<Recorded>) -> Vec<Recorded> {
        self.lines.sort_by_key(|(before, _)| *before);
        let mut lines = self.lines.into_iter().peekable();
        let mut all: Vec<Recorded> = Vec::with_capacity(events.len() + lines.len());
        let mut add_lines = |all: &mut Vec<Recorded>, number: usize| {
            while let Some((_, mut line)) = lines.next_if(|(before, _)| *before <= number) {
                let last_ns = all.last().map_or(0, |last| last.end_ns);
                line.end_ns = line.start_ns.max(last_ns);
                all.push(line);
            }
        };
        for (number, event) in events.into_iter().enumerate() {
            add_lines(&mut all, number);
            all.push(event);
        }
        add_lines(&mut all, usize::MAX);
        all
    }
}

impl Recording {
    /// So many bytes were written to the standard output, by a call that began after so many events.
    pub(super) fn leave_mark(&mut self, origin: &Origin, entry: &Entry, before: usize, len: u64) {
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
                self.marks
                    .lines
                    .push((before, Recorded::ending_now(origin, What::Mark(line))));
            }
        }
    }
}
