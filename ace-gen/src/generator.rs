//! The enumeration as a whole: what is within the bounds, by number.

use std::ops::Range;

use workloads::{Step, Workload};

use crate::action::Sink;
use crate::bounds::{Bounds, BoundsError};
use crate::choice::{Choices, directory_pairs};
use crate::convert::OpSink;
use crate::cursor::Cursor;
use crate::index::Index;
use crate::paths::PathTable;
use crate::resolve::Resolver;
use crate::text::{TextSink, push_number};
use crate::unique::Unique;

/// The most operations that a workload can have.
pub const MAX_OPS: usize = 8;

/// All workloads within bounds, in a fixed order. Workload `i` is computed without the others.
#[derive(Debug, Clone)]
pub struct Generator {
    bounds: Bounds,
    paths: PathTable,
    index: Index,
}

impl Generator {
    /// Counts what is within `bounds`.
    ///
    /// # Errors
    /// If nothing is, or more than can be addressed, or a name is not usable.
    pub fn new(bounds: Bounds) -> Result<Self, BoundsError> {
        if !(1..=MAX_OPS).contains(&bounds.ops) {
            return Err(BoundsError::Ops(bounds.ops));
        }
        if bounds.operations.is_empty() {
            return Err(BoundsError::Empty("there are no operations"));
        }
        let mut paths = PathTable::new(
            &[&bounds.first_files, &bounds.second_files],
            &[&bounds.first_dirs, &bounds.second_dirs],
        )?;
        let lister = Choices::new(&bounds, &paths);
        let choices: Vec<_> = bounds
            .operations
            .iter()
            .map(|&operation| lister.of(operation))
            .collect();
        let pairs = directory_pairs(&choices.concat(), &paths);
        let index = Index::new(&bounds, &paths, choices)?;
        paths.close_over(&pairs, bounds.ops)?;
        Ok(Generator {
            bounds,
            paths,
            index,
        })
    }

    /// The bounds.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// How many workloads there are; never 0.
    #[allow(clippy::len_without_is_empty)] // a generator is never empty
    pub fn len(&self) -> u64 {
        self.index.len()
    }

    /// Workload `index`, named `PRESET/INDEX`, or `None` after the last.
    pub fn get(&self, index: u64) -> Option<Workload> {
        (index < self.len()).then(|| self.walk().workload(index))
    }

    /// Appends the text of workload `index`, one line.
    ///
    /// # Panics
    /// If there is no such workload.
    pub fn write_text(&self, index: u64, line: &mut Vec<u8>) {
        self.walk().write_text(index, line);
    }

    /// All workloads in order.
    pub fn iter(&self) -> Workloads<'_> {
        self.range(0..self.len())
    }

    /// The workloads of a range of numbers, as far as they exist.
    pub fn range(&self, range: Range<u64>) -> Workloads<'_> {
        Workloads {
            walk: self.walk(),
            range: range.start..range.end.min(self.len()),
        }
    }

    /// The workloads that a file system can tell from all earlier ones, with their numbers.
    pub fn unique(&self) -> Unique<'_> {
        Unique::new(self, &self.paths)
    }

    /// A walker, with which it is cheap to go on to one of the next workloads.
    pub fn walk(&self) -> Walker<'_> {
        Walker {
            name: &self.bounds.name,
            paths: &self.paths,
            cursor: Cursor::new(&self.index),
            resolver: Resolver::new(&self.paths),
        }
    }
}

impl<'a> IntoIterator for &'a Generator {
    type Item = Workload;
    type IntoIter = Workloads<'a>;

    fn into_iter(self) -> Workloads<'a> {
        self.iter()
    }
}

/// Goes from workload to workload, in any order; forwards in small steps is the fastest.
#[derive(Debug, Clone)]
pub struct Walker<'a> {
    name: &'a str,
    paths: &'a PathTable,
    cursor: Cursor<'a>,
    resolver: Resolver<'a>,
}

impl Walker<'_> {
    /// Resolves workload `index` into `sink`.
    pub(crate) fn resolve<S: Sink>(&mut self, index: u64, sink: &mut S) {
        self.cursor.go_to(index);
        self.resolver.run(self.cursor.plan(), sink);
    }

    /// Workload `index`.
    ///
    /// # Panics
    /// If there is no such workload.
    pub fn workload(&mut self, index: u64) -> Workload {
        let mut sink = OpSink {
            paths: self.paths,
            ops: Vec::new(),
        };
        self.resolve(index, &mut sink);
        Workload {
            name: format!("{}/{index}", self.name),
            run: sink.ops.into_iter().map(Step::Op).collect(),
            ..Workload::default()
        }
    }

    /// Appends the text of workload `index`, one line.
    ///
    /// # Panics
    /// If there is no such workload.
    pub fn write_text(&mut self, index: u64, line: &mut Vec<u8>) {
        line.extend_from_slice(b"workload ");
        line.extend_from_slice(self.name.as_bytes());
        line.push(b'/');
        push_number(line, index);
        let paths = self.paths;
        self.resolve(index, &mut TextSink { paths, line });
        line.push(b'\n');
    }
}

/// Workloads in order. See [`Generator::range`].
#[derive(Debug, Clone)]
pub struct Workloads<'a> {
    walk: Walker<'a>,
    range: Range<u64>,
}

impl Iterator for Workloads<'_> {
    type Item = Workload;

    fn next(&mut self) -> Option<Workload> {
        self.range.next().map(|index| self.walk.workload(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<Workload> {
        self.range.nth(n).map(|index| self.walk.workload(index))
    }
}
