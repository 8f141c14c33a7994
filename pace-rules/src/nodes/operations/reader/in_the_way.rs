//! Who is in the way of a name: a file that had it when all was committed last, or is in the log with
//! it, is logged with the file that has it now. What becomes of its own names with that. This is btrfs.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use itertools::Itertools;

use super::log_tree::{is_attribute, new_name, new_names};
use super::{Reader, is_of_names};
use crate::nodes::Effect;
use crate::nodes::model::Log;
use crate::nodes::narrow::Narrow;
use crate::nodes::operations::group::{Follows, Naming};
use trace::{ChangeOfName, FileId, FileOp, Name};

impl Reader<'_> {
    /// The files that left the new names of a file, or of the new directories above it: whoever has such
    /// a name when it is committed last is logged with the file, with the names that it has now, and so
    /// on (btrfs_check_ref_name_override, log_conflicting_inodes), or is in a directory that is logged
    /// as well, if all is not committed. Those that certainly had the name then, or are in the log with
    /// it, each with the operation that had it leave. If something was committed since then, that is on
    /// the disk too, and what came later may not be.
    pub(super) fn gave_way(&self, file: FileId, above: &[FileId]) -> HashMap<FileId, usize> {
        let mut taken = self.new_names_with(file, above);
        let mut gave_way = HashMap::new();
        if taken.is_empty() {
            return gave_way;
        }
        let open = self.open.iter().rev();
        let operations = open.map(|group| self.this.groups[*group].operation());
        for operation in operations.dedup() {
            let mut left = left(self.op(operation));
            let is_meant = |taken: &HashSet<_>, left: &(FileId, (FileId, Name))| {
                taken.contains(&left.1) && left.0 != file && self.left_for_certain(left, operation)
            };
            while let Some(place) = left.iter().position(|left| is_meant(&taken, left)) {
                let (other, _) = left.swap_remove(place);
                gave_way.entry(other).or_insert(operation);
                taken.extend(self.names_of(other));
            }
        }
        gave_way
    }

    /// Who may have had one of the new names when all was committed, and left it with a rename, is
    /// logged then with its name of now: that it got that name is not kept without this rename.
    pub(super) fn note_undone(&mut self, number: usize, file: FileId, above: &[FileId]) {
        let new = self.new_names_with(file, above);
        let renames = self.open.iter().filter_map(|group| {
            let operation = self.this.groups[*group].operation();
            match self.op(operation) {
                FileOp::Rename {
                    file: other,
                    names: ChangeOfName { from, to },
                    exchange: false,
                    ..
                } if *other != file && new.contains(from) => Some((operation, *other, from, to)),
                _ => None,
            }
        });
        let undone = renames.dedup().filter_map(|(operation, other, from, to)| {
            let gained = self.gained(other, (from.0, &from.1), operation)?;
            let got = self.giving(gained, other, from)?;
            let left = self.giving(operation, other, to)?;
            (!self.is_nameless(other)).then_some((left, got))
        });
        for (left, got) in undone.collect::<Vec<_>>() {
            let undone = (Narrow::new(number), Narrow::new(got));
            self.this.groups[left].rare_mut().undoes.push(undone);
        }
    }

    /// The names that a file and the new directories above it got since all was synced, and have.
    fn new_names_with(&self, file: FileId, above: &[FileId]) -> HashSet<(FileId, Name)> {
        let made = above.iter().copied().filter(|above| self.is_made(*above));
        let logged = made.chain([file]);
        logged.flat_map(|file| self.new_names_of(file)).collect()
    }

    /// Whether an operation certainly takes a name from a file that has others now.
    fn left_for_certain(&self, left: &(FileId, (FileId, Name)), operation: usize) -> bool {
        let (file, name) = left;
        !self.is_nameless(*file) && self.had_for_certain(*file, name, operation)
    }

    /// Whether a group is a name of a file that gave way, which it got or left until then. The log has
    /// its names of now: if it has moved on from one, the log says nothing of who had that before it, nor
    /// that it has left a directory in which it has none (unlink_old_inode_refs). That is committed with
    /// a file that is not new, whose directories are logged.
    pub(super) fn is_of_who_gave_way(
        &self,
        group: usize,
        op: &FileOp,
        file: FileId,
        gave_way: &HashMap<FileId, usize>,
    ) -> bool {
        let of_group = &self.this.groups[group];
        let is_meant = |file: FileId| {
            let last = gave_way.get(&file);
            last.is_some_and(|last| of_group.operation() <= *last)
        };
        match op {
            FileOp::Rename {
                file,
                names,
                exchange: false,
                ..
            } if of_group.is_of_other() => is_meant(*file) && self.has_name(*file, &names.to),
            // One that somebody took is in the log no more, and may be on the disk.
            FileOp::Link { parent, name, file } => {
                let has_name = || self.has_name(*file, &(*parent, name.clone()));
                of_group.is_named && is_meant(*file) && has_name()
            }
            _ => {
                let mut both = [op.subject()].into_iter().chain(exchanged(op));
                both.any(|other| {
                    let is_committed = || !self.is_made(file) && self.is_name_of(group, other);
                    is_meant(other) && (self.is_in_log_of(group, other) || is_committed())
                })
            }
        }
    }

    /// Whether a group is a name of a file, got, or left for another one in its directory.
    fn is_in_log_of(&self, group: usize, file: FileId) -> bool {
        let has_another = |parent: FileId| {
            let known = self.files.get(&file);
            known.is_some_and(|known| known.names.iter().any(|(of, _)| *of == parent))
        };
        let mut micros = self.micros.all[self.this.groups[group].micros()].iter();
        micros.any(|micro| match &micro.effect {
            Effect::SetEntry { file: named, .. } => *named == file,
            Effect::RemoveEntry { of, parent, .. } => *of == Some(file) && has_another(*parent),
            _ => false,
        })
    }

    /// The operations without whose names the log does not have a name that a file has got, or that one
    /// is removed. One that it left is not in there.
    pub(super) fn needed_with(&self, group: usize) -> impl Iterator<Item = usize> {
        let of_group = &self.this.groups[group];
        let mut micros = self.micros.all[of_group.micros()].iter();
        let has = micros.any(|micro| {
            matches!(&micro.effect, Effect::SetEntry { parent, name, file }
                if self.has_name(*file, &(*parent, name.clone())))
        });
        let is_removed = matches!(self.op(of_group.operation()), FileOp::Unlink { .. });
        let is_own = is_removed || (has && of_group.naming == Naming::Gives);
        of_group.synced_needs().filter(move |_| is_own)
    }

    /// Whether the log has a group if it has the file that its operation is about, with its names of now.
    pub(super) fn is_in_log_with_file(&self, group: usize) -> bool {
        let file = self.op(self.this.groups[group].operation()).subject();
        !self.is_nameless(file) && self.is_in_log_of(group, file)
    }

    /// Notes whose names an operation takes.
    pub(super) fn note_left(&mut self, operation: usize) {
        if self.this.model.log != Log::LogTree {
            return;
        }
        for (file, name) in left(self.op(operation)) {
            self.left.entry(name).or_default().insert(file);
        }
    }

    /// Forgets which names a file left that has none any more after an operation, and notes that of its
    /// groups: it is in the log without a name, and has those that are on the disk.
    pub(super) fn forget_names(&mut self, number: usize, file: FileId, last: &FileOp) {
        if self.this.model.log != Log::LogTree || !self.is_nameless(file) {
            return;
        }
        let naming: Vec<_> = self.since(self.naming.get(&file)).collect();
        let ops = naming.iter().map(|operation| self.op(*operation));
        let own: Vec<_> = ops
            .chain([last])
            .flat_map(left)
            .filter(|(of, _)| *of == file)
            .collect();
        for (_, name) in own {
            self.left.get_mut(&name).map(|files| files.remove(&file));
        }
        for operation in naming {
            for group in self.this.all[operation].groups() {
                if self.open.binary_search(&group).is_ok() {
                    self.this.groups[group].rare_mut().nameless = Narrow::new(number);
                }
            }
        }
    }

    /// With names of a file the log may have those that had them when all was committed last, with the
    /// names that they have now, and so on.
    pub(super) fn log_in_the_way(&mut self, number: usize, names: Vec<(FileId, Name)>) {
        let in_the_way = self.in_the_way(names);
        if in_the_way.is_empty() {
            return;
        }
        let is_name = |group: usize| {
            let of_group = &self.this.groups[group];
            let op = self.op(of_group.operation());
            let mut both = [op.subject()].into_iter().chain(exchanged(op));
            of_group.is_named && is_of_names(op) && both.any(|file| in_the_way.contains_key(&file))
        };
        let names: Vec<_> = self.open_that(is_name).collect();
        self.tie(names.iter().copied());
        for group in &names {
            let later = self.needs_of_later(*group, &in_the_way);
            self.this.groups[*group].need_no_more(&later);
            self.need_the_name_in_the_way(*group, &in_the_way);
            let rare = self.this.groups[*group].rare_mut();
            rare.in_the_way = rare.in_the_way.min(Narrow::new(number));
        }
        self.log_groups(number, names);
        for file in in_the_way.into_keys() {
            let logged = Follows::since(number).only_if(Narrow::NEVER);
            self.note_logged(number, file, logged);
        }
    }

    /// The operations that a group needs only if all was committed after the file had the name that is
    /// in the way: who made room for another name of it had got that after this.
    fn needs_of_later(
        &self,
        group: usize,
        in_the_way: &HashMap<FileId, Option<usize>>,
    ) -> Vec<usize> {
        let of_group = &self.this.groups[group];
        let op = self.op(of_group.operation());
        let (Some(gained), Some(name)) = (in_the_way.get(&op.subject()), new_name(op)) else {
            return Vec::new();
        };
        let is_later = |leaving: &usize| {
            let other = self.op(*leaving).subject();
            let had = self.gained(other, name, *leaving);
            other != op.subject() && had.is_some_and(|had| Some(had) > *gained)
        };
        let needs = of_group.unsynced_needs().filter(is_later);
        needs.collect()
    }

    /// What became later of a file that is not in the log by itself is there only if it had the name
    /// that is in the way when all was committed. An exchange between directories may bring the new name
    /// into the log with its directory, whatever the file is there.
    fn need_the_name_in_the_way(
        &mut self,
        group: usize,
        in_the_way: &HashMap<FileId, Option<usize>>,
    ) {
        let operation = self.this.groups[group].operation();
        let file = self.op(operation).subject();
        let gained = in_the_way.get(&file).copied().flatten();
        let is_own = !self.this.groups[group].is_of_other() && self.in_log(file).is_none();
        let is_by_directory = is_exchange_between(self.op(operation));
        let gained = gained.filter(|gained| is_own && !is_by_directory && *gained < operation);
        if let Some(gained) = gained {
            self.this.groups[group].need(gained, false);
        }
    }

    /// The files that left one of these names since all was synced, and those that left theirs; each with
    /// the operation that gave it the earliest of those, or nothing if it had that before.
    fn in_the_way(&self, names: Vec<(FileId, Name)>) -> HashMap<FileId, Option<usize>> {
        let mut all: HashMap<FileId, Option<usize>> = HashMap::new();
        let mut next = names;
        while let Some(name) = next.pop() {
            for other in self.left.get(&name).into_iter().flatten() {
                let gained = self.gained(*other, (name.0, &name.1), self.this.all.len());
                match all.entry(*other) {
                    Entry::Occupied(mut known) => {
                        let earliest = *known.get().min(&gained);
                        known.insert(earliest);
                    }
                    Entry::Vacant(new) => {
                        new.insert(gained);
                        next.extend(self.names_of_file(*other));
                    }
                }
            }
        }
        all
    }

    /// The names of a file or directory.
    fn names_of(&self, file: FileId) -> impl Iterator<Item = (FileId, Name)> {
        let known = self.files.get(&file).into_iter();
        known.flat_map(|known| known.names.iter().cloned())
    }

    /// The names of what is no directory.
    pub(super) fn names_of_file(&self, file: FileId) -> impl Iterator<Item = (FileId, Name)> {
        let names = self.names_of(file);
        names.filter(move |_| !self.is_directory(file))
    }

    /// Ties names that are in the log with their files: none that a file left is gone without those that
    /// it has, and within a directory it has only the last one.
    fn tie(&mut self, names: impl IntoIterator<Item = usize>) {
        for group in names {
            if !self.this.groups[group].is_of_other() {
                for needed in self.needed_by(group) {
                    self.this.groups[group].need(needed, true);
                }
            }
        }
    }

    /// The same for the groups from one on that the log has by themselves.
    pub(super) fn tie_in_log(&mut self, first: usize) {
        let all = first..self.this.groups.len();
        let in_log = all.filter(|group| self.this.follows(*group).is_some());
        let in_log: Vec<_> = in_log.collect();
        self.tie(in_log);
    }

    /// The operations without whose names a file is not logged with one of its names, or its loss.
    fn needed_by(&self, group: usize) -> Vec<usize> {
        let operation = self.this.groups[group].operation();
        match self.op(operation) {
            FileOp::Rename {
                file,
                names: ChangeOfName { from, to },
                exchange: false,
                ..
            } if from.0 == to.0 => {
                let gained = self.gained(*file, (from.0, &from.1), operation);
                let is_within = |gained: &usize| {
                    let op = self.op(*gained);
                    matches!(op, FileOp::Rename { names, exchange: false, .. } if names.from.0 == names.to.0)
                };
                gained.into_iter().filter(is_within).collect()
            }
            FileOp::Rename {
                exchange: false, ..
            } => {
                let is_removal = self.this.groups[group].naming == Naming::Takes;
                is_removal.then_some(operation).into_iter().collect()
            }
            FileOp::Unlink { file, .. } => self.gave_names(*file, operation),
            _ => Vec::new(),
        }
    }

    /// The operations before one that gave a file names that it has.
    fn gave_names(&self, file: FileId, before: usize) -> Vec<usize> {
        let naming = self.since(self.naming.get(&file));
        let has = |naming: &usize| {
            let new = new_name(self.op(*naming));
            new.is_some_and(|(parent, name)| self.has_name(file, &(parent, name.clone())))
        };
        let earlier = naming.take_while(|naming| *naming < before);
        earlier.filter(has).collect()
    }

    /// Those that gave way are logged with their sizes and attributes as they are, whatever was done
    /// before that.
    pub(super) fn log_inodes(&mut self, number: usize, gave_way: &HashMap<FileId, usize>) {
        let is_of_inode = |group: usize| {
            let op = self.op(self.this.groups[group].operation());
            let is_meant = is_attribute(op) || matches!(op, FileOp::Resize { .. });
            is_meant && gave_way.contains_key(&op.subject())
        };
        let of_inodes: Vec<_> = self.open_that(is_of_inode).collect();
        self.log_groups(number, of_inodes);
    }

    /// The names that a file got for itself since all was synced, and has.
    fn new_names_of(&self, file: FileId) -> impl Iterator<Item = (FileId, Name)> {
        let naming = self.since(self.naming.get(&file));
        let naming = naming.filter_map(|operation| new_name(self.op(operation)));
        let named = naming.map(|(parent, name)| (parent, name.clone()));
        let exchanges = self.since(self.exchanged.get(&file));
        let exchanges = exchanges.flat_map(|operation| new_names(self.op(operation)));
        let own = exchanges.filter(move |(of, _)| *of == file);
        let new = named.chain(own.map(|(_, name)| name.clone()));
        new.filter(move |name| self.has_name(file, name))
    }

    /// Whether a file or directory has a name.
    pub(super) fn has_name(&self, file: FileId, name: &(FileId, Name)) -> bool {
        let known = self.files.get(&file);
        known.is_some_and(|known| known.names.contains(name))
    }

    /// The rename with which somebody left the name last that an operation gives to a file. Where the
    /// name comes into the log, so does what had it when all was committed last, with the name that it
    /// has now (btrfs_check_ref_name_override); a file that is older than that is logged with all of the
    /// directory (btrfs_log_all_parents). None if that may not have had the name then and is not in the
    /// log either. And whether it had the name for certain, or only if the old name of a renamed file was
    /// committed.
    pub(super) fn made_room(
        &self,
        op: &FileOp,
        effect: &Effect,
        follows: Option<Follows>,
    ) -> Option<(usize, bool)> {
        let naming = Naming::of(op, effect);
        if naming == Naming::OfOther || self.this.model.log != Log::LogTree {
            return None;
        }
        let is_set = naming == Naming::Gives;
        let (to, renamed) = match op {
            FileOp::Rename {
                file,
                names: ChangeOfName { from, to },
                exchange: false,
                ..
            } if is_set || from.0 == to.0 => (to.clone(), Some((*file, from))),
            FileOp::Create { parent, name, .. } | FileOp::Link { parent, name, .. } if is_set => {
                ((*parent, name.clone()), None)
            }
            _ => return None,
        };
        let operation = *self.made_room.get(&to)?;
        let other = self.op(operation).subject();
        let had_for_certain = self.had_for_certain(other, &to, operation);
        let had_before = |renamed| self.had_before((other, &to), operation, renamed, follows);
        let had = had_for_certain || renamed.is_some_and(had_before);
        (had && !self.is_nameless(other)).then_some((operation, had_for_certain))
    }

    /// Whether somebody had a name, which he left with a rename, when all was committed last, or is in
    /// the log, wherever that has a rename of a file. It has that because the old name of the file was
    /// committed, and everything before that with it; or by itself, which `follows` says.
    fn had_before(
        &self,
        (other, left): (FileId, &(FileId, Name)),
        leaving: usize,
        (file, old): (FileId, &(FileId, Name)),
        follows: Option<Follows>,
    ) -> bool {
        let had = self.gained(other, (left.0, &left.1), leaving);
        let gained = self.gained(file, (old.0, &old.1), self.this.all.len());
        let is_earlier = had.zip(gained).is_some_and(|(had, gained)| had < gained);
        let Some(follows) = follows.filter(|_| is_earlier) else {
            return is_earlier;
        };
        // A directory that was not changed since all was committed is not logged.
        let is_of_directory = self.in_log(file).is_none() && follows.is_certain();
        let begins = if is_of_directory {
            follows.changed
        } else {
            follows.logged
        };
        let mut groups = self.this.all[leaving].groups();
        groups.any(|group| {
            let is_own = !self.this.groups[group].is_of_other();
            let left = self.this.follows(group).filter(|_| is_own);
            left.is_some_and(|left| left.is_certain() && left.changed >= begins)
        })
    }
}

/// The file that an exchange is about beside its subject.
fn exchanged(op: &FileOp) -> Option<FileId> {
    match op {
        FileOp::Rename {
            replaced,
            exchange: true,
            ..
        } => *replaced,
        _ => None,
    }
}

/// Whether an operation exchanges files of two directories.
fn is_exchange_between(op: &FileOp) -> bool {
    matches!(op, FileOp::Rename { names, exchange: true, .. } if names.from.0 != names.to.0)
}

/// The names that an operation takes from files.
fn left(op: &FileOp) -> Vec<(FileId, (FileId, Name))> {
    match op {
        FileOp::Unlink { parent, name, file } => vec![(*file, (*parent, name.clone()))],
        FileOp::Rename {
            file,
            names: ChangeOfName { from, to },
            replaced,
            ..
        } => {
            let replaced = replaced.map(|other| (other, to.clone()));
            let own = [(*file, from.clone())];
            own.into_iter().chain(replaced).collect()
        }
        _ => Vec::new(),
    }
}
