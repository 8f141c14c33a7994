//! What a crash must leave, whatever else it may leave: what a test that knows no model can check.

use std::collections::BTreeSet;

use crate::history::{Bound, History, Time};
use crate::model::{InodeId, Kind, ROOT, Rename};
use crate::{Model, Promise};

/// Something that is so in every state that a crash may leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Where, relative to the root of the file system.
    pub path: String,
    /// What is so there.
    pub kind: FactKind,
}

/// What is so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactKind {
    /// There is something, and what: it may be one of several.
    Exists(Noun),
    /// There is nothing.
    Gone,
    /// It is what is there now, and has the bytes and the size that it has now.
    SameContent,
    /// It has the mode and the owner that it has now.
    SameAttributes,
    /// It has the extended attributes that it has now.
    SameXattrs,
    /// It is a symbolic link to where it leads now.
    SameTarget,
    /// It is there, or else at this path, where it was before it was renamed; not at both.
    OrAt(String),
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noun {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A character or block device.
    Device,
}

impl Noun {
    fn of(kind: &Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Symlink(_) => Self::Symlink,
            Kind::Fifo => Self::Fifo,
            Kind::Device { .. } => Self::Device,
        }
    }
}

/// The facts about a crash at the end of what the model knows, by path. They are fewer than the
/// oracle checks: where a crash may leave several things, nothing is said.
pub fn certain(model: &Model) -> Vec<Fact> {
    let mut facts = Facts {
        model,
        found: Vec::new(),
    };
    facts.directory(ROOT, "");
    for rename in &model.renames {
        facts.rename(rename);
    }
    facts.found
}

struct Facts<'a> {
    model: &'a Model,
    found: Vec<Fact>,
}

impl Facts<'_> {
    fn add(&mut self, path: &str, kind: FactKind) {
        self.found.push(Fact {
            path: path.into(),
            kind,
        });
    }

    /// The only version that a crash may show, if that is promised.
    fn only<'a, T>(&self, history: &'a History<T>) -> Option<&'a T> {
        match history.allowed(self.model.prefix) {
            [(_, version)] if self.is_promised(history.bound()) => Some(version),
            _ => None,
        }
    }

    fn is_promised(&self, bound: Bound) -> bool {
        let contract = &self.model.contract;
        bound == Bound::START || contract.promises(contract.by(bound.promise))
    }

    fn directory(&mut self, directory: InodeId, path: &str) {
        let model = self.model;
        for (name, history) in &model.inodes[directory].entries {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}/{name}")
            };
            self.entry(history, &path);
        }
    }

    fn entry(&mut self, history: &History<Option<InodeId>>, path: &str) {
        let allowed = history.allowed(self.model.prefix);
        // Where operations are not whole, of a name that changed anything may have become.
        let is_whole = self.model.contract.promises(Promise::AtomicMetadata);
        if !self.is_promised(history.bound()) || (allowed.len() > 1 && !is_whole) {
            return;
        }
        let ids: BTreeSet<Option<InodeId>> = allowed.iter().map(|(_, value)| *value).collect();
        let Some(ids) = ids.into_iter().collect::<Option<Vec<_>>>() else {
            // Of a name that was never durable there is nothing to say: it may not have been made
            // yet.
            if allowed.iter().all(|(_, value)| value.is_none()) {
                self.add(path, FactKind::Gone);
            }
            return;
        };
        if ids.len() == 1 || !self.may_be_missing(allowed) {
            self.one_of(&ids, path);
        }
    }

    /// One of these inodes is there.
    fn one_of(&mut self, ids: &[InodeId], path: &str) {
        let nouns = ids.iter().map(|id| Noun::of(&self.model.inodes[*id].kind));
        let nouns: BTreeSet<_> = nouns.collect();
        if let (Some(noun), 1) = (nouns.first(), nouns.len()) {
            self.add(path, FactKind::Exists(*noun));
        }
        if let [id] = ids {
            self.inode(*id, path);
        }
    }

    /// What took the place of something that was never durable may be missing with it.
    fn may_be_missing(&self, allowed: &[(Time, Option<InodeId>)]) -> bool {
        let oldest = allowed.first().and_then(|(_, value)| *value);
        let unpromised = oldest.is_some_and(|id| self.model.inodes[id].exists.is_none());
        unpromised && !self.model.contract.promises(Promise::OrderedMetadata)
    }

    fn inode(&mut self, id: InodeId, path: &str) {
        let inode = &self.model.inodes[id];
        if inode.kind == Kind::Directory {
            self.directory(id, path);
        }
        if inode.kind == Kind::File && self.only(&inode.content).is_some() {
            self.add(path, FactKind::SameContent);
        }
        if matches!(inode.kind, Kind::Symlink(_))
            && self.model.contract.promises(Promise::SymlinkComplete)
        {
            self.add(path, FactKind::SameTarget);
        }
        if self.only(&inode.mode).is_some() && self.only(&inode.owner).is_some() {
            self.add(path, FactKind::SameAttributes);
        }
        if !inode.xattrs.is_empty()
            && inode
                .xattrs
                .values()
                .all(|history| self.only(history).is_some())
        {
            self.add(path, FactKind::SameXattrs);
        }
    }

    /// Only where nothing else was ever at the new name, and nothing at the old one again.
    fn rename(&mut self, rename: &Rename) {
        let model = self.model;
        let history = |place: &(InodeId, String)| &model.inodes[place.0].entries[&place.1];
        let (source, dest) = (history(&rename.source), history(&rename.dest));
        let new = dest.spans().all(|(start, _, value)| {
            start == rename.time || start < rename.time && value.is_none()
        });
        let left = source.current().is_none() && source.changed() == rename.time;
        let moved = &model.inodes[rename.moved];
        let durable = moved.exists.is_some() && moved.unlinked <= rename.time;
        let promised = durable && model.contract.promises(Promise::RenameAtomic);
        // By its names it is known to be where it is.
        let open = [source, dest]
            .iter()
            .any(|name| name.allowed(model.prefix).len() > 1);
        if !(new && left && promised && open) {
            return;
        }
        if let (Some(from), Some(to)) = (self.path(&rename.source), self.path(&rename.dest)) {
            self.add(&to, FactKind::OrAt(from));
        }
    }

    /// The path of a name in a directory that is nowhere else after a crash.
    fn path(&self, (directory, name): &(InodeId, String)) -> Option<String> {
        if *directory == ROOT {
            return Some(name.clone());
        }
        let is_it = |entry| self.only(entry) == Some(&Some(*directory));
        let mut inodes = self.model.inodes.iter().enumerate();
        let place = inodes.find_map(|(above, inode)| {
            let mut entries = inode.entries.iter();
            let (name, _) = entries.find(|(_, entry)| is_it(entry))?;
            Some((above, name.clone()))
        })?;
        Some(format!("{}/{name}", self.path(&place)?))
    }
}

#[cfg(test)]
mod tests {
    use workloads::Op;

    use super::*;
    use crate::Contract;

    /// What is certain on btrfs after a workload, in which `setup` is durable.
    fn facts(setup: &str, run: &str) -> Vec<String> {
        let text = if setup.is_empty() {
            run.to_owned()
        } else {
            format!("setup\n{setup}\nrun\n{run}")
        };
        let workload = workloads::parse(&text, "test").expect("one").remove(0);
        let variant = local_fs::Variant::plain(local_fs::find("btrfs").expect("known"));
        let mut model = Model::new(&Contract::for_variant(&variant).expect("there is one"));
        let operations: Vec<&Op> = workload.operations().collect();
        for (number, op) in operations.into_iter().enumerate() {
            if number == workload.setup.len() && number > 0 {
                model.commit(None);
            }
            model.apply(op, false).expect("it can follow");
        }
        let text = |fact: Fact| match fact.kind {
            FactKind::Exists(noun) => format!("{}: {noun:?}", fact.path),
            FactKind::OrAt(other) => format!("{} or {other}", fact.path),
            other => format!("{}: {other:?}", fact.path),
        };
        let named = |fact: &Fact| fact.kind != FactKind::SameAttributes;
        certain(&model)
            .into_iter()
            .filter(named)
            .map(text)
            .collect()
    }

    #[test]
    fn what_fsync_covers_is_certain_and_what_came_later_is_not() {
        let fsynced = ["foo: File", "foo: SameContent"];
        assert_eq!(facts("", "creat foo; write foo 0 4K; fsync foo"), fsynced);
        assert_eq!(
            facts(
                "",
                "creat foo; write foo 0 4K; fsync foo; creat bar; write bar 0 1"
            ),
            fsynced
        );
        assert_eq!(
            facts("", "creat foo; fsync foo; write foo 0 4K"),
            ["foo: File"]
        );
        assert_eq!(facts("", "creat foo; write foo 0 4K"), [""; 0]);
    }

    #[test]
    fn a_name_that_is_certainly_gone_is_named() {
        assert_eq!(facts("creat foo", "unlink foo; fsync ."), ["foo: Gone"]);
        assert_eq!(facts("creat foo", "unlink foo"), [""; 0]);
    }

    #[test]
    fn what_may_be_one_of_two_files_exists() {
        let found = facts(
            "",
            "creat c; creat b; fsync c; rename b c; creat d; fsync d",
        );
        assert!(
            found.contains(&"c: File".to_owned()) && !found.contains(&"c: SameContent".to_owned()),
            "{found:?}"
        );
    }

    #[test]
    fn a_renamed_file_is_at_one_of_its_names() {
        assert_eq!(
            facts("creat foo; mkdir A", "rename foo A/foo"),
            ["A: Directory", "A/foo or foo"]
        );
        assert_eq!(
            facts("creat foo; creat bar", "rename foo bar"),
            ["bar: File"]
        );
        let synced = facts("creat foo; mkdir A", "rename foo A/foo; fsync A");
        assert!(synced.contains(&"A/foo or foo".to_owned()), "{synced:?}");
        // The directory may be back at its old name.
        assert_eq!(
            facts(
                "creat foo; mkdir A",
                "rename foo A/foo; fsync A; rename A B; creat x; fsync x"
            ),
            ["x: File", "x: SameContent", "B or A"]
        );
        // Gone for good from both.
        assert!(
            !facts("creat foo; link foo b", "rename foo bar; unlink b")
                .contains(&"bar or foo".to_owned())
        );
    }
}
