//! A call, as it is held against what the desk was told.

use std::path::{Path, PathBuf};

use brief::mask;
use tracer::{Entry, Origin};

use super::super::corrupt::Buffer;
use super::super::kinds::{ADDRESS, LENGTH, has_length, is_one, kind, paths};
use super::super::pattern::matches;
use super::super::tally::Made as Counted;
use crate::online::plan::CallOf;

/// A call that is about to be made, or was.
pub(super) struct Made<'a> {
    pub(super) origin: &'a Origin,
    pub(super) entry: &'a Entry,
    paths: Vec<PathBuf>,
    data: Option<&'a Path>,
}

impl<'a> Made<'a> {
    pub(super) fn new(origin: &'a Origin, entry: &'a Entry, data: Option<&'a Path>) -> Self {
        Self {
            origin,
            entry,
            paths: paths(origin, entry),
            data,
        }
    }

    pub(super) fn is(&self, of: &CallOf) -> bool {
        let path = of.path.as_deref();
        is_one(self.origin.row.name, &of.call)
            && of.site.is_none_or(|site| site == self.origin.stack)
            && self.paths.iter().any(|one| matches(path, one, self.data))
    }

    /// What it counts as, if it is of a file of the node's data. A file that is renamed counts by
    /// its new name.
    pub(super) fn counted(&self, role: Option<&String>) -> Option<Counted> {
        let inside = |path: &PathBuf| path.strip_prefix(self.data?).ok().map(Path::to_path_buf);
        let file = self.paths.iter().rev().find_map(inside)?;
        Some(Counted {
            call: kind(self.origin.row.name)?.to_owned(),
            file: mask(&file.to_string_lossy()),
            site: self.origin.stack,
            role: role.cloned(),
        })
    }

    /// So many bytes of its buffer, if it has one.
    pub(super) fn buffer(&self, len: usize) -> Option<Buffer> {
        has_length(&self.origin.row).then(|| Buffer {
            thread: self.origin.thread,
            address: self.entry.arguments[ADDRESS],
            len,
        })
    }

    /// How many bytes it is asked to do, if they are in one buffer.
    pub(super) fn bytes(&self) -> Option<u64> {
        has_length(&self.origin.row).then(|| self.entry.arguments[LENGTH])
    }

    pub(super) fn words(&self) -> String {
        let inside = |path: &PathBuf| {
            let data = self.data.unwrap_or(Path::new("/"));
            let inside = path.strip_prefix(data).unwrap_or(path);
            if inside.as_os_str().is_empty() {
                return ".".to_owned();
            }
            inside.display().to_string()
        };
        let paths: Vec<_> = self.paths.iter().map(inside).collect();
        format!("{} {}", self.origin.row.name, paths.join(" "))
    }
}
