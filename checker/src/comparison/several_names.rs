//! What only shows in several names together: renames that were done by half, files that are lost,
//! and operations that are there without earlier ones.

use std::cell::OnceCell;
use std::collections::HashMap;

use local_fs::Inode;

use super::{Comparison, kind_matches};
use crate::aspects::Aspects;
use crate::content::FileContent;
use crate::history::{Bound, History, Time};
use crate::model::{InodeId, Kind, ModelInode, NameCounts, ROOT, Rename};
use crate::{Finding, Model, Promise};

impl Comparison<'_> {
    /// Inodes that may not vanish are somewhere, under a name of theirs, an old one or one that the
    /// file system's checker gave them. Files without data are not worth a name to it.
    pub(super) fn somewhere(&mut self) {
        if !self.findings.is_empty() || !self.model.contract.promises(Promise::FsyncExists) {
            return;
        }
        let counts = CountedNames::new(self.model);
        let mut findings = Vec::new();
        for (id, inode) in self.model.inodes.iter().enumerate() {
            let Some(exists) = inode.exists else { continue };
            let always_named = counts.always_since(id, exists.time);
            if id == ROOT || !always_named || self.found.contains_key(&id) {
                continue;
            }
            if is_without_data(inode) {
                continue;
            }
            let is_it = |(number, seen): (&u64, &Inode)| {
                kind_matches(&inode.kind, &seen.kind) && self.fits(id, *number)
            };
            if !self.tree.inodes.iter().any(is_it) {
                let name = self.model.current_path(id).unwrap_or_default();
                let noun = inode.kind.noun();
                let what = format!("the {noun} is nowhere as it was made durable, under no name");
                findings.push(self.broken(exists, name, what));
            }
        }
        self.report_all(findings);
    }

    /// The path of an entry that was compared.
    fn path_of(&self, (directory, name): &(InodeId, String)) -> String {
        match self.found.get(directory) {
            Some((_, path)) if !path.is_empty() => format!("{path}/{name}"),
            _ => name.clone(),
        }
    }

    /// A rename changes two entries at once: its file is at one of them. Of what was never
    /// durable nothing has to show, neither its old name nor its new one.
    pub(super) fn renames(&mut self) {
        let durable = |rename: &&Rename| self.model.inodes[rename.moved].exists.is_some();
        for rename in self.model.renames.iter().filter(durable) {
            if self.is_half_done(rename) {
                let (from, to) = (self.path_of(&rename.source), self.path_of(&rename.dest));
                let what = format!(
                    "'{from}' and '{to}' do not show one moment: a rename was done by half"
                );
                let promised_by = Some(rename.time - 1);
                self.report(Finding {
                    promised_by,
                    ..Finding::new(Promise::RenameAtomic, to, what)
                });
            }
        }
    }

    fn is_half_done(&self, rename: &Rename) -> bool {
        let found = |place| self.entries.get(place).copied();
        let (Some(source), Some(dest)) = (found(&rename.source), found(&rename.dest)) else {
            return false;
        };
        let history = |place: &(InodeId, String)| &self.model.inodes[place.0].entries[&place.1];
        let side_of = |place, now| side(history(place), self.model.prefix, rename.time, now);
        match (side_of(&rename.source, source), side_of(&rename.dest, dest)) {
            (Some(Side::Before), Some(Side::After)) => {
                source == Some(rename.moved) && source == dest
            }
            (Some(Side::After), Some(Side::Before)) => {
                !self.moved_on(rename) && !self.may_be_displaced(rename)
            }
            _ => false,
        }
    }

    /// Where a file was renamed over another one, and is there, it is at least as it was then. That
    /// is promised of space that waits to be allocated; what was written over in its place is not
    /// covered, so only files that were written once are looked at.
    pub(super) fn replacements(&mut self) {
        if !self.model.contract.promises(Promise::ReplaceByRename) {
            return;
        }
        let mut findings = Vec::new();
        for rename in self.model.renames.iter().filter(|rename| rename.replaces) {
            let is_there = self.entries.get(&rename.dest) == Some(&Some(rename.moved));
            let found = self.found.get(&rename.moved).filter(|_| is_there);
            let found = found.and_then(|(number, path)| Some((self.tree.inode(*number)?, path)));
            let Some((inode, path)) = found else {
                continue;
            };
            let Some(expected) = expected_after(rename, &self.model.inodes[rename.moved]) else {
                continue;
            };
            let aspects = Aspects {
                model: self.model,
                expected: &expected,
                inode,
                live: None,
                path,
            };
            findings.extend(aspects.content_findings(Promise::ReplaceByRename));
        }
        self.report_all(findings);
    }

    /// Whether what was renamed may be gone because something else was made durable at its old
    /// name, while its new one was not.
    fn may_be_displaced(&self, rename: &Rename) -> bool {
        let keeps = [Promise::OrderedMetadata, Promise::NameConflict];
        if keeps
            .into_iter()
            .any(|promise| self.model.contract.promises(promise))
        {
            return false;
        }
        let (directory, name) = &rename.source;
        let source = &self.model.inodes[*directory].entries[name];
        source.bound().time >= rename.time
            && source.current().is_some_and(|now| now != rename.moved)
    }

    /// Whether what was renamed is at another name that it was renamed to or from, or has lost
    /// one since.
    fn moved_on(&self, rename: &Rename) -> bool {
        let moved = Some(rename.moved);
        let elsewhere = |((directory, name), seen): (&(InodeId, String), &Option<InodeId>)| {
            let entry = &self.model.inodes[*directory].entries[name];
            let stays = *entry.at(rename.time - 1) == moved && *entry.at(rename.time) == moved;
            *seen == moved && !stays
        };
        self.model.inodes[rename.moved].unlinked > rename.time || self.entries.iter().any(elsewhere)
    }

    /// Inodes that may not vanish, and inodes under more names than they ever had at once.
    pub(super) fn existence(&mut self) {
        let names = self.names_found();
        let counts = CountedNames::new(self.model);
        let mut findings = Vec::new();
        for (id, inode) in self.model.inodes.iter().enumerate() {
            let names = names.get(&id).map_or(&[][..], Vec::as_slice);
            let is_at_too_many = names.len() > 1
                && !self.is_linked_and_unlinked(inode, self.model.committed)
                && names.len() > counts.most(id);
            if is_at_too_many && !self.has_half_rename(&findings) {
                findings.push(self.too_many_names(names, &inode.kind));
            }
            let is_said = !self.findings.is_empty() || !findings.is_empty();
            if names.is_empty() && !is_said {
                findings.extend(self.nameless(id, &counts));
            }
        }
        self.report_all(findings);
    }

    /// Without an order a link and an unlink are two operations, not a rename: both names may be
    /// there, and neither.
    fn is_linked_and_unlinked(&self, inode: &ModelInode, since: Time) -> bool {
        !self.model.contract.promises(Promise::OrderedMetadata) && inode.unlinked > since
    }

    /// Whether a rename of a file may have been taken back with what was there before.
    fn may_be_moved_away(&self, id: InodeId) -> bool {
        let displaced = |rename: &Rename| rename.moved == id && self.may_be_displaced(rename);
        self.model.renames.iter().any(displaced)
    }

    /// An inode without a name that has had one ever since it may not vanish.
    fn nameless(&self, id: InodeId, counts: &CountedNames) -> Option<Finding> {
        let inode = &self.model.inodes[id];
        let exists = inode.exists?;
        let may_be = id == ROOT
            || self.may_be_moved_away(id)
            || self.is_linked_and_unlinked(inode, exists.time)
            || !counts.always_since(id, exists.time);
        if may_be {
            return None;
        }
        let name = self.model.current_path(id).unwrap_or_default();
        let noun = self.noun(id);
        let what = format!("the {noun} has no name any more: it is lost");
        Some(self.broken(exists, name, what))
    }

    /// The names under which each inode is there.
    fn names_found(&self) -> HashMap<InodeId, Vec<(InodeId, String)>> {
        let mut names: HashMap<InodeId, Vec<(InodeId, String)>> = HashMap::new();
        for (place, value) in &self.entries {
            if let Some(id) = value {
                names.entry(*id).or_default().push(place.clone());
            }
        }
        names
    }

    /// Whether a rename by half, which shows as two names as well, is among the findings.
    fn has_half_rename(&self, more: &[Finding]) -> bool {
        let mut findings = self.findings.iter().chain(more);
        findings.any(|known| known.promise == Promise::RenameAtomic)
    }

    /// An inode is at more names than it ever had at once.
    fn too_many_names(&self, names: &[(InodeId, String)], kind: &Kind) -> Finding {
        let paths: Vec<_> = names
            .iter()
            .map(|place| format!("'{}'", self.path_of(place)))
            .collect();
        let list = paths.join(" and ");
        let what = format!(
            "the {} is at {list}, and was never at so many at once",
            kind.noun()
        );
        Finding::new(Promise::RenameAtomic, self.path_of(&names[0]), what)
    }

    /// The names, and the modes and owners after them, are those of one moment.
    pub(super) fn order(&mut self) {
        if !self.model.contract.promises(Promise::OrderedMetadata) || self.sides.live.is_none() {
            return;
        }
        let mut moments = Moments::new(self.model.prefix.time, self.model.time);
        for ((directory, name), seen) in &self.entries {
            moments.narrow(&self.model.inodes[*directory].entries[name], seen);
        }
        for (id, (number, _)) in &self.found {
            let expected = &self.model.inodes[*id];
            let Some(inode) = self.tree.inode(*number) else {
                continue;
            };
            if !matches!(expected.kind, Kind::Symlink(_)) {
                moments.narrow(&expected.mode, &inode.mode);
                moments.narrow(&expected.owner, &(inode.uid, inode.gid));
            }
        }
        // A directory that is there has been compared entry by entry; one that is missing now
        // but was there at that moment is an entry that differs.
        if !moments.any() {
            let what = "the names, modes and owners are those of no moment of the run: a later operation is there without an earlier one";
            self.report(Finding::new(Promise::OrderedMetadata, "", what));
        }
    }
}

/// How many names each inode had, counted when it is first asked for: few workloads need to know.
struct CountedNames<'a> {
    model: &'a Model,
    counts: OnceCell<HashMap<InodeId, NameCounts>>,
}

impl<'a> CountedNames<'a> {
    fn new(model: &'a Model) -> Self {
        Self {
            model,
            counts: OnceCell::new(),
        }
    }

    fn of(&self, id: InodeId) -> Option<&NameCounts> {
        self.counts
            .get_or_init(|| self.model.name_counts())
            .get(&id)
    }

    /// The largest number of names an inode ever had at once.
    fn most(&self, id: InodeId) -> usize {
        self.of(id).map_or(0, NameCounts::most)
    }

    /// Whether an inode has had a name from some time on.
    fn always_since(&self, id: InodeId, time: Time) -> bool {
        self.of(id).is_some_and(|counts| counts.always_since(time))
    }
}

/// Which moments of the run everything that was seen is of.
struct Moments {
    first: Time,
    /// By how much the number of things seen that are of a moment differs from that before.
    changes: Vec<isize>,
    things: isize,
}

impl Moments {
    fn new(first: Time, last: Time) -> Self {
        Self {
            first,
            changes: vec![0; last - first + 2],
            things: 0,
        }
    }

    /// One more thing was seen, which had these versions.
    fn narrow<T: PartialEq>(&mut self, history: &History<T>, seen: &T) {
        self.things += 1;
        let end = self.first + self.changes.len() - 1;
        for (from, to, _) in history.spans().filter(|(_, _, version)| *version == seen) {
            let (from, to) = (from.max(self.first), to.min(end));
            if from < to {
                self.changes[from - self.first] += 1;
                self.changes[to - self.first] -= 1;
            }
        }
    }

    fn any(&self) -> bool {
        let moments = &self.changes[..self.changes.len() - 1];
        let counts = moments.iter().scan(0, |count, change| {
            *count += change;
            Some(*count)
        });
        counts.into_iter().any(|count| count == self.things)
    }
}

/// On which side of an operation something is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// On which side of the operation that ended at `time` an entry leads to what was seen; none if
/// it does on both, or on neither: what is wrong with one entry alone has been said.
fn side(
    entry: &History<Option<InodeId>>,
    floor: Bound,
    time: Time,
    seen: Option<InodeId>,
) -> Option<Side> {
    let mut sides = entry
        .allowed(floor)
        .iter()
        .filter(|(_, value)| *value == seen)
        .map(|(since, _)| {
            if *since < time {
                Side::Before
            } else {
                Side::After
            }
        });
    let first = sides.next()?;
    sides.all(|side| side == first).then_some(first)
}

/// A file as it is at least after a rename over another one, if it was written once.
fn expected_after(rename: &Rename, moved: &ModelInode) -> Option<ModelInode> {
    let filled = |(since, _, content): &(Time, Time, &FileContent)| {
        *since <= rename.time && content.size_bytes() > 0
    };
    if moved.content.spans().filter(filled).count() != 1 {
        return None;
    }
    // What has its space already does not wait for it.
    let is_preallocated = |(since, _, content): (Time, Time, &FileContent)| {
        since <= rename.time && content.size_bytes() == 0 && content.allocated_blocks(1) > 0
    };
    if moved.content.spans().any(is_preallocated) {
        return None;
    }
    let mut expected = moved.clone();
    expected.content.raise(Bound {
        time: rename.time,
        by: Some(rename.time - 1),
        promise: Promise::ReplaceByRename,
    });
    Some(expected)
}

/// Whether a file may have had no data.
fn is_without_data(inode: &ModelInode) -> bool {
    let mut versions = inode.content.allowed(Bound::START).iter();
    inode.kind == Kind::File && versions.any(|(_, version)| version.allocated_blocks(1) == 0)
}
