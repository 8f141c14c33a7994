//! What a log tree keeps: the sync of a file puts it into a log of its own, with its names and what
//! belongs to them, and leaves all else to the next transaction. What is in the log follows the names
//! of its files, and the next sync of anything keeps that. This is btrfs.

use std::collections::BTreeSet;

use super::files::Known;
use super::{Reader, touched};
use crate::nodes::Effect;
use crate::nodes::micro::Micro;
use crate::nodes::model::Log;
use crate::nodes::narrow::Narrow;
use crate::nodes::operations::Group;
use crate::nodes::operations::group::{Follows, Naming};
use trace::{ChangeOfName, Event, FileId, FileOp, Name, SyncScope};

/// When a directory was logged with the names in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LoggedWithNames {
    /// The last event that may have done that.
    last: usize,
    /// The last one that did if nothing was committed after another one, which is the second.
    certain: Option<(usize, Narrow)>,
}

impl LoggedWithNames {
    /// An event did that, unless something was committed after another one.
    fn note(&mut self, number: usize, changed: Narrow) {
        self.last = number;
        if changed < Narrow::NEVER {
            self.certain = Some((number, changed));
        }
    }

    /// Since when the log has the file that got a name in it with an event.
    fn has(self, event: usize) -> Option<Follows> {
        let since = Follows::since(event);
        match self.certain {
            Some((certain, changed)) if event < certain => Some(since.only_if(changed)),
            _ if event < self.last => Some(since.only_if(Narrow::NEVER)),
            _ => None,
        }
    }
}

impl Reader<'_> {
    /// The sync of a file.
    pub(super) fn sync_in_log_tree(
        &mut self,
        number: usize,
        event: &Event,
        file: FileId,
        scope: SyncScope,
    ) {
        if self.is_nameless(file) {
            self.cover(number, event, |this, group| {
                this.is_data_of(group, file, scope)
            });
            return;
        }
        let logged_whole = self.logged_whole(file);
        let certain = self.certain_with(number, &logged_whole);
        let logged = self.logged_at(file, number).only_if(certain);
        self.note_logged(number, file, logged);
        self.synced.insert(file, number);
        let above = self.above(file);
        let gave_way = self.gave_way(file, &above);
        let is_written = self.cover(number, event, |this, group| {
            let op = this.op(this.this.groups[group].operation());
            this.is_logged_with(group, op, file, &above)
                || this.is_of_who_gave_way(group, op, file, &gave_way)
                || this.is_data_of(group, file, scope)
        });
        // One of what the log has already writes nothing.
        if is_written {
            self.write_log(number, event);
        }
        self.log_inodes(number, &gave_way);
        for (file, operation) in gave_way {
            let since = Follows::since(self.this.all[operation].event());
            self.note_logged(number, file, since.only_if(certain));
        }
        self.log_beside(number, file, above, logged_whole, certain);
    }

    /// Whether the log has a group of names with a file. That a directory above was made goes into the
    /// log, and not that one that was there before has another name.
    fn is_logged_with(&self, group: usize, op: &FileOp, file: FileId, above: &[FileId]) -> bool {
        let is_above = matches!(op, FileOp::Create { .. }) && above.contains(&op.subject());
        self.this.groups[group].is_named && (is_above || self.is_of_sync(group, op, file))
    }

    /// The sync of a file logs what belongs to it, for certain if nothing was committed after an event.
    fn log_beside(
        &mut self,
        number: usize,
        file: FileId,
        above: Vec<FileId>,
        logged_whole: BTreeSet<FileId>,
        certain: Narrow,
    ) {
        self.note_undone(number, file, &above);
        self.log_in_the_way(number, self.names_of_file(file).collect());
        self.log_with(number, file, &above, &logged_whole);
        self.note_new(number, above);
        // Of a file that was made since something was committed no directory is logged.
        let is_new_file = self.is_made(file) && !self.is_directory(file);
        let changed = if is_new_file { Narrow::NEVER } else { certain };
        self.note_logged_whole(number, file, changed, logged_whole);
    }

    /// What is logged at a sync with these directories is so if nothing was committed after this event;
    /// never for certain if the sync may have all committed, after which nothing is in the log.
    fn certain_with(&self, number: usize, directories: &BTreeSet<FileId>) -> Narrow {
        let may_commit = directories.iter().any(|one| self.was_left(*one));
        if may_commit {
            Narrow::NEVER
        } else {
            Narrow::new(number)
        }
    }

    /// Whether a file may have gone from a directory to another one since all was synced: where that is
    /// logged, all is committed instead (btrfs_record_unlink_dir).
    fn was_left(&self, directory: FileId) -> bool {
        let last = self.moved_from.get(&directory);
        last.is_some_and(|last| *last >= self.first_since)
    }

    /// Notes that a sync wrote the log, with all that had come into it before.
    fn write_log(&mut self, number: usize, sync: &Event) {
        let mut unwritten = std::mem::take(&mut self.unwritten);
        unwritten.retain(|place| {
            let group = self.this.follows[*place].0.get();
            let is_before = self.is_before(self.this.groups[group].operation(), number, sync);
            if is_before {
                self.this.follows[*place].1.written = Narrow::new(number);
            }
            !is_before
        });
        self.unwritten = unwritten;
    }

    /// Whether a file that an operation renames certainly had its name when all was committed last,
    /// or is in the log with it: that it got the name was made durable.
    pub(super) fn had_for_certain(
        &self,
        file: FileId,
        name: &(FileId, Name),
        operation: usize,
    ) -> bool {
        let gained = self.gained(file, (name.0, &name.1), operation);
        gained.is_none_or(|gained| self.giving(gained, file, name).is_none())
    }

    /// The group with which an operation gives a file a name, if it is not durable.
    pub(super) fn giving(
        &self,
        operation: usize,
        file: FileId,
        name: &(FileId, Name),
    ) -> Option<usize> {
        let gives = |group: &usize| {
            let mut micros = self.micros.all[self.this.groups[*group].micros()].iter();
            micros.any(|micro| {
                matches!(&micro.effect, Effect::SetEntry { parent, name: given, file: named }
                    if (*parent, given) == (name.0, &name.1) && *named == file)
            })
        };
        let is_open = |group: &usize| self.open.binary_search(group).is_ok();
        let mut groups = self.this.all[operation].groups();
        groups.find(|group| gives(group) && is_open(group))
    }

    /// The last operation before one that gave a file a name; nothing if it has had that since all was
    /// synced.
    pub(super) fn gained(
        &self,
        file: FileId,
        name: (FileId, &Name),
        before: usize,
    ) -> Option<usize> {
        let naming = self.since(self.naming.get(&file));
        let exchanged = self.since(self.exchanged.get(&file));
        let both = naming.chain(exchanged).filter(|naming| *naming < before);
        both.filter(|naming| {
            let mut given = new_names(self.op(*naming));
            new_name(self.op(*naming)) == Some(name)
                || given.any(|(of, (parent, new))| of == file && (*parent, new) == name)
        })
        .max()
    }

    /// Notes that the log has a file or directory, and since when.
    pub(super) fn note_logged(&mut self, number: usize, file: FileId, follows: Follows) {
        let logged = self.logged.entry(file).or_insert((number, follows));
        *logged = (number, logged.1.or(follows));
    }

    /// Notes that those of some directories were logged that are new.
    fn note_new(&mut self, number: usize, mut directories: Vec<FileId>) {
        directories.retain(|directory| self.is_made(*directory));
        for directory in directories {
            self.note_logged_for_name(number, directory);
        }
    }

    /// Notes that a directory was logged since its name is new.
    fn note_logged_for_name(&mut self, number: usize, directory: FileId) {
        let named = self.since(self.naming.get(&directory)).last();
        let event = named.map_or(number, |named| self.this.all[named].event());
        self.note_logged(number, directory, Follows::since(event));
    }

    /// Notes that directories were logged with what is new in them, for a file that was synced or has
    /// a new name: those where that has its names, and for their own names the others. If something
    /// was committed after `changed`, this may not have been so.
    fn note_logged_whole(
        &mut self,
        number: usize,
        file: FileId,
        changed: Narrow,
        directories: BTreeSet<FileId>,
    ) {
        let parents = self.files.get(&file).map(|known| known.parents.clone());
        let parents = parents.unwrap_or_default();
        for directory in directories {
            let logged = self.logged_with_names.entry(directory).or_default();
            logged.note(number, changed);
            if directory == file || parents.contains(&directory) {
                let logged = self.logged_at(directory, number);
                self.note_logged(number, directory, logged.only_if(changed));
            } else {
                self.note_logged_for_name(number, directory);
            }
        }
    }

    /// Whether a file or directory was logged after an event.
    fn is_logged_since(&self, file: FileId, event: usize) -> bool {
        let logged = self.logged.get(&file);
        logged.is_some_and(|(logged, _)| *logged > event)
    }

    /// The directories above a file, the nearest first.
    fn above(&self, file: FileId) -> Vec<FileId> {
        let mut above = Vec::new();
        let parent = |file: FileId| self.files.get(&file).and_then(|file| file.parent);
        let mut next = parent(file);
        while let Some(directory) = next.filter(|directory| !above.contains(directory)) {
            above.push(directory);
            next = parent(directory);
        }
        above
    }

    /// What the sync of a file does not cover may be logged with it: of the file, and what changed
    /// its name with that, and the sizes of those.
    fn log_with(
        &mut self,
        number: usize,
        file: FileId,
        above: &[FileId],
        logged_whole: &BTreeSet<FileId>,
    ) {
        let subjects = self.subjects.get(&file);
        let is_related =
            |other| other == file || subjects.is_some_and(|subjects| subjects.contains(&other));
        let is_of_it = |group: usize| {
            let of_group = &self.this.groups[group];
            let op = self.op(of_group.operation());
            let is_name = matches!(
                op,
                FileOp::Create { .. } | FileOp::Rename { .. } | FileOp::Link { .. }
            );
            let of_related = is_related(op.subject()) || above.contains(&op.subject());
            (is_name && (of_related || self.took_its_name(op, file)))
                || self.is_entry_of(group, logged_whole)
                || self.is_left_out(group, op, file)
                || (!of_group.is_named && of_group.file == file)
                || (self.this.is_size_with_name(group) && is_related(of_group.file))
                || ((self.this.is_size_with_name(group) || is_attribute(op))
                    && self.is_new_in(of_group.file, logged_whole))
        };
        let of_it: Vec<_> = self.open_that(is_of_it).collect();
        self.log_groups(number, of_it);
    }

    /// Those of the groups that nothing has made durable that are meant.
    pub(super) fn open_that(
        &self,
        is_meant: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = usize> {
        let open = self.open.iter().copied();
        open.filter(move |group| is_meant(*group))
    }

    /// The log may have some groups since an event.
    pub(super) fn log_groups(&mut self, number: usize, groups: Vec<usize>) {
        for group in groups {
            self.this.groups[group].log_with(number);
        }
    }

    /// Whether a file has got a name in one of these directories since all was synced.
    fn is_new_in(&self, file: FileId, directories: &BTreeSet<FileId>) -> bool {
        self.has_new_names(file, |op| {
            new_name(op).is_some_and(|(parent, _)| directories.contains(&parent))
        })
    }

    /// Whether nothing has the name of a file: it is not logged then.
    pub(super) fn is_nameless(&self, file: FileId) -> bool {
        let is_named = |known: &Known| {
            let is_root = known.is_directory && known.parent.is_none();
            is_root || !known.names.is_empty()
        };
        !self.files.get(&file).is_some_and(is_named)
    }

    /// Has the former names of a file that has none any more be at risk again: the log tree that it
    /// is in has no name of it now (btrfs_del_inode_ref_in_log), and leaves it with those that are
    /// on the disk. What the sync of a directory keeps is that the name is not in there.
    pub(super) fn reopen(&mut self, number: usize, file: FileId) {
        let is_meant = self.this.model.log == Log::LogTree && self.is_nameless(file);
        if !is_meant {
            return;
        }
        let mut reopened = Vec::new();
        for operation in self.touching_since(file) {
            let groups = self.this.all[operation].groups();
            if groups
                .clone()
                .any(|group| self.is_kept_by_file(group, file))
            {
                let of_file = groups.filter(|group| self.is_name_of(*group, file));
                reopened.extend(of_file);
            }
        }
        for number_of_group in reopened {
            let group = &mut self.this.groups[number_of_group];
            if group.cover() < number && !group.is_reopened() {
                group.rare_mut().reopened = Narrow::new(number);
                group.log_with(number);
                self.open.push(number_of_group);
            }
        }
        self.open.sort_unstable();
    }

    /// The files whose names were taken since all was synced by a file that now loses them: the log
    /// has nothing under such a name then, and leaves it with who has it on the disk.
    pub(super) fn replaced_before(&self, op: &FileOp) -> Vec<FileId> {
        let lost = match op {
            FileOp::Unlink { parent, name, file } => vec![(*file, (*parent, name))],
            FileOp::Rename {
                file,
                names,
                replaced,
                exchange: false,
            } => {
                let replaced = replaced.map(|other| (other, (names.to.0, &names.to.1)));
                let old = (*file, (names.from.0, &names.from.1));
                replaced.into_iter().chain([old]).collect()
            }
            _ => return Vec::new(),
        };
        let taken_from = |operation: usize, place| match self.op(operation) {
            FileOp::Rename {
                names,
                replaced,
                exchange: false,
                ..
            } if (names.to.0, &names.to.1) == place => *replaced,
            _ => None,
        };
        let taken = lost.into_iter().flat_map(|(file, place)| {
            let naming = self.since(self.naming.get(&file));
            naming.filter_map(move |operation| taken_from(operation, place))
        });
        taken.collect()
    }

    /// Whether a group takes a name away from a file, and its directory was not synced since.
    fn is_kept_by_file(&self, group: usize, file: FileId) -> bool {
        let group = &self.this.groups[group];
        let event = self.this.all[group.operation()].event();
        let is_synced = |parent| self.synced.get(parent).is_some_and(|sync| *sync > event);
        self.micros.all[group.micros()].iter().any(|micro| {
            matches!(&micro.effect, Effect::RemoveEntry { parent, of, .. }
                if *of == Some(file) && !is_synced(parent))
        })
    }

    /// Whether a group of names gives a file a name or takes one from it.
    pub(super) fn is_name_of(&self, group: usize, file: FileId) -> bool {
        let Group {
            micros, is_named, ..
        } = self.this.groups[group];
        let is_of_it = |micro: &Micro| match &micro.effect {
            Effect::SetEntry { file: named, .. } => *named == file,
            Effect::RemoveEntry { of, .. } => *of == Some(file),
            _ => false,
        };
        is_named && self.micros.all[micros.range()].iter().any(is_of_it)
    }

    /// Whether a file is what an operation on names is about that may have come since all was synced.
    fn has_new_names(&self, file: FileId, is_meant: impl Fn(&FileOp) -> bool) -> bool {
        let mut naming = self.since(self.naming.get(&file));
        naming.any(|operation| is_meant(self.op(operation)))
    }

    /// The operations that change the inode of a file, and may have come since all was synced.
    fn touching_since(&self, file: FileId) -> impl Iterator<Item = usize> {
        self.since(self.touching.get(&file))
    }

    /// Those of these operations that may have come since all was synced.
    pub(super) fn since<'o>(
        &self,
        operations: Option<&'o Vec<Narrow>>,
    ) -> impl Iterator<Item = usize> + use<'o> {
        let all = operations.map_or(&[][..], Vec::as_slice);
        let is_before = |operation: &Narrow| operation.get() < self.first_since;
        let since = all.partition_point(is_before);
        all[since..].iter().map(|operation| operation.get())
    }

    /// The directories that are logged with what is new in them where a file or directory is: all
    /// that a file has or had names in, if its names changed since all was synced
    /// (btrfs_log_all_parents), and in all of these and a directory that is synced those with new
    /// names (log_new_dir_dentries).
    fn logged_whole(&self, file: FileId) -> BTreeSet<FileId> {
        use FileOp::{Link, Rename, Unlink};
        let Some(known) = self.files.get(&file) else {
            return BTreeSet::new();
        };
        let is_change = |op: &FileOp| matches!(op, Link { .. } | Rename { .. } | Unlink { .. });
        let mut all = if known.is_directory {
            BTreeSet::from([file])
        } else if self.has_new_names(file, is_change) {
            known.parents.clone()
        } else {
            return BTreeSet::new();
        };
        let mut named = self.with_new_names();
        loop {
            let below = |(_, parent): &mut (FileId, FileId)| all.contains(parent);
            let below: Vec<_> = named.extract_if(.., below).collect();
            if below.is_empty() {
                return all;
            }
            all.extend(below.into_iter().map(|(directory, _)| directory));
        }
    }

    /// The directories that are new or have a new name since all was synced, each with the one that
    /// it is in.
    fn with_new_names(&self) -> Vec<(FileId, FileId)> {
        let is_new = |op: &FileOp| matches!(op, FileOp::Create { .. } | FileOp::Rename { .. });
        self.files
            .iter()
            .filter(|(_, known)| known.is_directory)
            .filter_map(|(directory, known)| Some((*directory, known.parent?)))
            .filter(|(directory, _)| self.has_new_names(*directory, is_new))
            .collect()
    }

    /// Whether an operation takes a name from a file that has others, in other directories, and the log
    /// does not say so with that file. A name that is removed goes with its directory, unless a log tree
    /// has that already, with what had changed in it before: it is not logged once more. For a name that
    /// another file took no directory is logged (btrfs_rename does not call btrfs_record_unlink_dir).
    pub(super) fn leaves_logged(&self, op: &FileOp) -> bool {
        let Some((file, parent)) = loses_name(op) else {
            return false;
        };
        let known = self.files.get(&file);
        let names = || known.into_iter().flat_map(|known| &known.names);
        let is_elsewhere = names().any(|(other, _)| *other != parent);
        let is_last_here = || names().filter(|(other, _)| *other == parent).count() == 1;
        let is_replaced = matches!(op, FileOp::Rename { .. }) && is_last_here();
        let touching = self.touching.get(&parent).and_then(|all| all.last());
        let is_logged = self.logged.contains_key(&parent)
            && touching.is_some_and(|last| last.get() >= self.first_since);
        self.this.model.log == Log::LogTree && is_elsewhere && (is_replaced || is_logged)
    }

    /// Whether a group is such a removal of a name of a file.
    fn is_left_out(&self, group: usize, op: &FileOp, file: FileId) -> bool {
        let of_group = &self.this.groups[group];
        let mut micros = self.micros.all[of_group.micros()].iter();
        loses_name(op).is_some_and(|(loser, _)| loser == file)
            && self.left_out.contains(&of_group.operation())
            && micros.any(|micro| matches!(&micro.effect, Effect::RemoveEntry { of, .. } if *of == Some(file)))
    }

    /// Whether a group is a name in one of these directories, new or removed. A name that goes to
    /// another directory is not removed for itself: the next sync commits all then
    /// (btrfs_record_unlink_dir).
    fn is_entry_of(&self, group: usize, directories: &BTreeSet<FileId>) -> bool {
        let op = self.op(self.this.groups[group].operation());
        let stays = match op {
            FileOp::Rename { names, .. } => names.from.0 == names.to.0,
            _ => true,
        };
        let micros = self.this.groups[group].micros();
        self.micros.all[micros]
            .iter()
            .any(|micro| match &micro.effect {
                Effect::SetEntry { parent, .. } => directories.contains(parent),
                Effect::RemoveEntry { parent, of, .. } => {
                    let is_own = *of == Some(op.subject());
                    stays && is_own && directories.contains(parent)
                }
                _ => false,
            })
    }

    /// Logs the new name of a file that a log tree has, and with it what is new in the directories
    /// where the file had a name when all was synced last (btrfs_log_new_name,
    /// btrfs_log_all_parents): the sync of any file may keep that.
    pub(super) fn log_new_name(&mut self, number: usize, op: &FileOp) {
        let renamed = self.renamed_in_log(op);
        if let Some((parent, _)) = new_name(op).filter(|_| !renamed.is_empty()) {
            self.log_new_directories(number, parent);
        }
        let names = new_names(op).filter(|(file, _)| renamed.contains(file));
        self.log_in_the_way(number, names.map(|(_, name)| name.clone()).collect());
        for file in renamed {
            self.log_attributes(number, file);
            if self.is_directory(file) || self.is_made(file) {
                continue;
            }
            let logged_whole = self.logged_whole(file);
            let is_entry = |group| self.is_entry_of(group, &logged_whole);
            let entries: Vec<_> = self.open_that(is_entry).collect();
            self.log_groups(number, entries);
            let follows = self.renamed_follows(file);
            let changed = follows.map_or(Narrow::NEVER, |follows| follows.changed);
            self.note_logged_whole(number, file, changed, logged_whole);
        }
    }

    /// The files that get a new name and that a log tree has. Of a link only the file counts, of a
    /// rename the directory that it comes from too.
    fn renamed_in_log(&self, op: &FileOp) -> Vec<FileId> {
        let (file, other, is_link) = match op {
            FileOp::Rename {
                file,
                replaced,
                exchange,
                ..
            } => (*file, replaced.filter(|_| *exchange), false),
            FileOp::Link { file, .. } => (*file, None, true),
            _ => return Vec::new(),
        };
        if self.this.model.log != Log::LogTree {
            return Vec::new();
        }
        let is_in_log = |file: &FileId| {
            let of_directory = || !is_link && self.parent_in_log(*file).is_some();
            self.in_log(*file).is_some() || of_directory()
        };
        [file].into_iter().chain(other).filter(is_in_log).collect()
    }

    pub(super) fn is_directory(&self, file: FileId) -> bool {
        let known = self.files.get(&file);
        known.is_some_and(|known| known.is_directory)
    }

    /// Whether a file or directory was made since all was synced.
    pub(super) fn is_made(&self, file: FileId) -> bool {
        self.has_new_names(file, |op| matches!(op, FileOp::Create { .. }))
    }

    /// Logs that a directory and those above it were made, as far as they are new
    /// (log_all_new_ancestors).
    fn log_new_directories(&mut self, number: usize, directory: FileId) {
        let mut new = self.above(directory);
        new.push(directory);
        new.retain(|directory| self.is_made(*directory));
        if new.is_empty() {
            return;
        }
        let makes_one = |group: usize| {
            let op = self.op(self.this.groups[group].operation());
            matches!(op, FileOp::Create { .. }) && new.contains(&op.subject())
        };
        let made: Vec<_> = self.open_that(makes_one).collect();
        self.log_groups(number, made);
        for directory in new {
            self.note_logged_for_name(number, directory);
        }
    }

    /// Logs the mode and the attributes of a file of which a new name is logged: with that the inode
    /// is logged as it is, but for its size and its bytes (LOG_INODE_EXISTS).
    fn log_attributes(&mut self, number: usize, file: FileId) {
        let is_its_own = |group: usize| {
            let op = self.op(self.this.groups[group].operation());
            is_attribute(op) && op.subject() == file
        };
        let attributes: Vec<_> = self.open_that(is_its_own).collect();
        self.log_groups(number, attributes);
    }

    /// Since when a log tree has a file: it was synced, or a directory was logged in which it had got
    /// a new name. A name that was committed is not logged with its directory again.
    pub(super) fn in_log(&self, file: FileId) -> Option<Follows> {
        let with_name = self.since(self.naming.get(&file)).filter_map(|operation| {
            let event = self.this.all[operation].event();
            let (parent, _) = new_name(self.op(operation))?;
            self.logged_with_names.get(&parent)?.has(event)
        });
        let logged = self.logged.get(&file);
        let logged = logged.map(|(_, follows)| *follows);
        with_name.chain(logged).reduce(Follows::or)
    }

    /// Since when a log tree has the directory that a file is in.
    fn parent_in_log(&self, file: FileId) -> Option<Follows> {
        let parent = self.files.get(&file)?.parent?;
        self.logged.get(&parent).map(|(_, follows)| *follows)
    }

    /// What was logged at an event, and changed before that.
    fn logged_at(&self, file: FileId, logged: usize) -> Follows {
        let event = |operation: &Narrow| self.this.all[operation.get()].event();
        let touching = self.touching.get(&file).map_or(&[][..], Vec::as_slice);
        let before = touching.partition_point(|operation| event(operation) < logged);
        let changed = touching[..before].last().map(event);
        Follows {
            logged: Narrow::new(logged),
            changed: changed.map_or(Narrow::NEVER, Narrow::new),
            ..Follows::since(logged)
        }
    }

    /// The same of a file that gets another name within a directory. If the log has the new name, it
    /// has those that others got there by a rename before: if something was committed since the file
    /// had its old name, the whole directory is logged with the new one (btrfs_log_all_parents), and
    /// else the directory was logged since then, and what is renamed in it follows.
    fn with_others(&self, follows: Follows, op: &FileOp) -> Follows {
        let FileOp::Rename {
            file,
            names: ChangeOfName { from, to },
            exchange: false,
            ..
        } = op
        else {
            return follows;
        };
        if from.0 != to.0 {
            return follows;
        }
        let is_directory = self.is_directory(*file);
        let gained = self.gained(*file, (from.0, &from.1), self.this.all.len());
        let is_logged = gained.is_none_or(|gained| {
            let event = self.this.all[gained].event();
            self.is_logged_since(from.0, event)
        });
        Follows {
            renamed_in: Some(from.0),
            has_others: !is_directory && is_logged,
            ..follows
        }
    }

    /// Since when a log tree has a name that is removed, and so loses it and keeps the removal. A
    /// directory in the log has only the names that are new since all was synced, and a file in it
    /// has its names of a directory in one item, which stands for all of them: where none is left
    /// there is no item, and the names that are on the disk stay (btrfs_del_inode_ref_in_log,
    /// btrfs_del_dir_entries_in_log; unlink_old_inode_refs).
    fn loses_in_log(&self, file: FileId, parent: FileId, name: &Name) -> Option<Follows> {
        let is_new = self.has_new_names(file, |op| new_name(op) == Some((parent, name)));
        let has_another = || {
            let mut names = self.files.get(&file).into_iter().flat_map(|it| &it.names);
            names.any(|(of, other)| *of == parent && other != name)
        };
        self.in_log(file).filter(|_| is_new || has_another())
    }

    /// Since when a log tree has a file or its directory.
    fn renamed_follows(&self, file: FileId) -> Option<Follows> {
        let both = self
            .in_log(file)
            .into_iter()
            .chain(self.parent_in_log(file));
        both.reduce(Follows::or)
    }

    /// The same of one of two files that are exchanged. Each goes into the log by itself.
    fn follows_by_itself(
        &self,
        op: &FileOp,
        effect: &Effect,
        (file, replaced): (FileId, FileId),
    ) -> Option<Follows> {
        let (own, other) = match Naming::of(op, effect) {
            Naming::OfOther => (replaced, file),
            _ => (file, replaced),
        };
        let beside = self.renamed_follows(other);
        let beside = beside.map(|follows| follows.only_if(Narrow::NEVER));
        let own = self.renamed_follows(own);
        own.into_iter().chain(beside).reduce(Follows::or)
    }

    /// Since when a log tree has a file whose names change: then it has the change too, and the sync
    /// of any file, also of somebody else's, may keep it (btrfs_log_new_name).
    pub(super) fn follows_in_log(&self, op: &FileOp, effect: &Effect) -> Option<Follows> {
        if self.this.model.log != Log::LogTree {
            return None;
        }
        let renamed = |file: FileId| self.renamed_follows(file);
        match op {
            FileOp::Rename {
                file,
                replaced: Some(replaced),
                exchange: true,
                ..
            } => self.follows_by_itself(op, effect, (*file, *replaced)),
            FileOp::Rename {
                file,
                replaced,
                names,
                ..
            } => match effect {
                // What it replaces goes from the log at once (btrfs_del_inode_ref_in_log,
                // btrfs_del_dir_entries_in_log), and the new name may not come.
                Effect::RemoveEntry { of, .. } if of == replaced => {
                    self.loses_in_log((*replaced)?, names.to.0, &names.to.1)
                }
                _ => renamed(*file).map(|follows| self.with_others(follows, op)),
            },
            FileOp::Link { file, .. } => self.in_log(*file),
            // So does a name that is removed.
            FileOp::Unlink { file, parent, name } => self.loses_in_log(*file, *parent, name),
            _ => None,
        }
    }

    /// The first group from one on whose effect is meant.
    fn first_that(&self, first: usize, is_meant: impl Fn(&Effect) -> bool) -> Option<usize> {
        (first..self.this.groups.len()).find(|group| {
            let micros = self.this.groups[*group].micros();
            is_meant(&self.micros.all[micros.start].effect)
        })
    }

    /// The last groups, from one on, are those of an operation. If it replaces a file whose name the log
    /// loses, and the log has the file that gets the name whenever it has the other one, the name is not
    /// lost without the new one coming. The log can have the new one alone: if all was committed since it
    /// had the other file.
    pub(super) fn lose_with_new_name(&mut self, first: usize, op: &FileOp) {
        let FileOp::Rename {
            replaced: Some(replaced),
            exchange: false,
            ..
        } = op
        else {
            return;
        };
        let is_taken = |effect: &Effect| matches!(effect, Effect::RemoveEntry { of, .. } if *of == Some(*replaced));
        let taken = self.first_that(first, is_taken);
        let named = self.first_that(first, |effect| matches!(effect, Effect::SetEntry { .. }));
        let (Some(taken), Some(named)) = (taken, named) else {
            return;
        };
        let follows = self.this.follows(taken).zip(self.this.follows(named));
        let has_both = follows
            .is_some_and(|(taken, named)| named.is_certain() && named.changed >= taken.logged);
        if has_both {
            self.this.groups[taken].rare_mut().goes_along = true;
        }
    }

    /// Whether a sync of a file, and of no other one, keeps a group of names: of a rename between
    /// directories that of the new one is only its own part.
    fn is_of_sync(&self, group: usize, op: &FileOp, file: FileId) -> bool {
        let FileOp::Rename {
            file: renamed,
            names,
            replaced,
            exchange,
        } = op
        else {
            return touched(op).contains(&file) && !self.is_left_out(group, op, file);
        };
        let is_of_it = |effect: &Effect| match effect {
            Effect::SetEntry {
                parent,
                file: named,
                ..
            } => [*parent, *named].contains(&file),
            Effect::RemoveEntry { parent, name, .. } => {
                let is_old = (*parent, name) == (names.from.0, &names.from.1);
                let is_taken = *replaced == Some(file) && !self.is_left_out(group, op, file);
                // Where one has its new name, the other one has it no more.
                let is_given = !exchange && *renamed == file;
                let is_new = is_taken || (is_given && self.has_name(file, &names.to));
                *parent == file || (if is_old { *renamed == file } else { is_new })
            }
            _ => *renamed == file,
        };
        let micros = &self.micros.all[self.this.groups[group].micros()];
        (is_left(op, file) && self.says_of(group, *renamed, &names.to))
            || micros.iter().any(|micro| is_of_it(&micro.effect))
    }

    /// Whether the log that has a renamed file says this of the rename: if the file has moved on or is
    /// removed, it does not say who had the new name before it.
    fn says_of(&self, group: usize, renamed: FileId, to: &(FileId, Name)) -> bool {
        !self.this.groups[group].is_of_other() || self.has_name(renamed, to)
    }

    /// Whether a file has the name that a rename took from another one: with it that is logged too.
    fn took_its_name(&self, op: &FileOp, file: FileId) -> bool {
        let (FileOp::Rename { names, .. }, Some(known)) = (op, self.files.get(&file)) else {
            return false;
        };
        known.parent == Some(names.from.0) && known.name.as_ref() == Some(&names.from.1)
    }
}

/// Whether an operation takes a file out of a directory, or gives it another name there. The sync of
/// that directory commits everything, or the log has the new name (btrfs_record_unlink_dir,
/// btrfs_log_new_name).
fn is_left(op: &FileOp, directory: FileId) -> bool {
    matches!(op, FileOp::Rename { names, exchange: false, .. } if names.from.0 == directory)
}

/// The file that an operation takes a name from for good, and the directory of that.
fn loses_name(op: &FileOp) -> Option<(FileId, FileId)> {
    match op {
        FileOp::Unlink { file, parent, .. } => Some((*file, *parent)),
        FileOp::Rename {
            replaced: Some(file),
            names,
            exchange: false,
            ..
        } => Some((*file, names.to.0)),
        _ => None,
    }
}

/// The names that an operation gives to files.
pub(super) fn new_names(op: &FileOp) -> impl Iterator<Item = (FileId, &(FileId, Name))> {
    let names = match op {
        FileOp::Rename {
            file,
            replaced,
            names,
            exchange,
        } => {
            let other = replaced.filter(|_| *exchange);
            [
                Some((*file, &names.to)),
                other.map(|other| (other, &names.from)),
            ]
        }
        _ => [None, None],
    };
    names.into_iter().flatten()
}

/// The name that an operation gives to the file that it is about, and the directory of that.
pub(super) fn new_name(op: &FileOp) -> Option<(FileId, &Name)> {
    match op {
        FileOp::Create { parent, name, .. } | FileOp::Link { parent, name, .. } => {
            Some((*parent, name))
        }
        FileOp::Rename { names, .. } => Some((names.to.0, &names.to.1)),
        _ => None,
    }
}

/// Whether an operation changes what a file is like, and neither names nor bytes.
pub(super) fn is_attribute(op: &FileOp) -> bool {
    matches!(op, FileOp::SetMode { .. } | FileOp::SetXattr { .. })
}
