//! Names that files get and lose.

use trace::{FileId, Name};

use super::Cutter;
use crate::nodes::Effect;
use crate::nodes::micro::{Neighbour, Order};
use crate::nodes::model::Log;

/// A directory, and a name in it.
pub(super) type Place<'a> = (FileId, &'a Name);

/// A file gets a name.
pub(super) fn entry((parent, name): Place<'_>, file: FileId) -> Effect {
    Effect::SetEntry {
        parent,
        name: name.clone(),
        file,
    }
}

/// A file that has a name, or had it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    pub(super) file: FileId,
    /// The micro that gave it the name; nothing if it had it at the beginning.
    pub(super) set: Option<usize>,
    /// The one that took it away; nothing if it has it.
    pub(super) removed: Option<usize>,
}

impl Cutter<'_> {
    /// The next micro gives a file a name.
    pub(super) fn gains(&mut self, file: FileId, (parent, name): Place<'_>) {
        let holders = self.holders.entry((parent, name.clone())).or_default();
        holders.retain(|holder| holder.file != file);
        holders.push(Holder {
            file,
            set: Some(self.micros.len()),
            removed: None,
        });
        if holders.len() > 3 {
            holders.remove(1);
        }
    }

    /// The next micro takes a name away from a file.
    pub(super) fn loses(&mut self, file: FileId, (parent, name): Place<'_>) {
        let holders = self.holders.get_mut(&(parent, name.clone()));
        for holder in holders.into_iter().flatten() {
            if holder.file == file {
                holder.removed = Some(self.micros.len());
            }
        }
        self.removed.entry(parent).or_default().insert(name.clone());
    }

    /// Forgets who had names in a directory and has them no more: that is durable.
    pub(super) fn forget_holders(&mut self, parent: FileId) {
        for name in self.removed.remove(&parent).into_iter().flatten() {
            let place = (parent, name);
            if let Some(holders) = self.holders.get_mut(&place) {
                holders.retain(|holder| holder.removed.is_none());
            }
        }
    }

    /// Whether a file is synced after a micro before all is, or was since all was: without that nothing
    /// is kept without what was before.
    fn has_sync(&self, micro: usize) -> bool {
        let event = self.micros[micro].event;
        let after = |all: &[usize], event| {
            let first = all.partition_point(|sync| *sync < event);
            all.get(first).copied().unwrap_or(usize::MAX)
        };
        let last = |all: &[usize]| {
            let end = all.partition_point(|sync| *sync < event);
            all[..end].last().copied()
        };
        last(&self.syncs) > last(&self.syncs_of_all)
            || after(&self.syncs, event) < after(&self.syncs_of_all, self.event)
    }

    /// After the removal of a file's name: who had that before has it again where its own removal
    /// is not there, as with a log tree that has the file, and nothing of what was before. Of
    /// several who had it this is said of the first and of those who had it last, and the latest of
    /// them whose removal is not there has it.
    fn give_back(&mut self, file: FileId, (parent, name): Place<'_>) {
        let holders = self.holders.get(&(parent, name.clone()));
        let Some([others @ .., last]) = holders.map(Vec::as_slice) else {
            return;
        };
        let Some(removal) = last.removed.filter(|_| last.file == file) else {
            return;
        };
        if self.model.log != Log::LogTree {
            return;
        }
        let due = others.iter().rev().filter_map(|other| {
            let removed = other.removed.filter(|removed| self.has_sync(*removed))?;
            Some((*other, removed))
        });
        for (other, removed) in due.collect::<Vec<_>>() {
            let had = Effect::AddEntry {
                parent,
                name: name.clone(),
                file: other.file,
            };
            let given = other.set.into_iter().chain([removal]).collect();
            self.repetition(given, had);
            let gone = self.removal((parent, name), other.file);
            self.repetition(vec![removed, removal], gone);
        }
    }

    /// A name less. PACE and ALICE empty a file before its last name goes. No file system does it
    /// in that order, and a program cannot help it: SQLite, for one, counts on it that nobody does.
    pub(super) fn remove(&mut self, parent: FileId, name: &Name, file: FileId) {
        let names = &mut self.file(file).names;
        *names = names.saturating_sub(1);
        let gone = self.removal((parent, name), file);
        self.loses(file, (parent, name));
        self.group([gone]);
        self.give_back(file, (parent, name));
    }

    /// That a file does not have a name any more. A log tree notes names with their file, and the
    /// name may be another one's if not all before is there.
    fn removal(&self, (parent, name): Place<'_>, file: FileId) -> Effect {
        Effect::RemoveEntry {
            parent,
            name: name.clone(),
            of: (self.model.log == Log::LogTree).then_some(file),
        }
    }

    pub(super) fn rename(
        &mut self,
        file: FileId,
        from: &(FileId, Name),
        to: &(FileId, Name),
        replaced: Option<FileId>,
        exchange: bool,
    ) {
        if from == to || replaced == Some(file) {
            return;
        }
        let (from, to) = ((from.0, &from.1), (to.0, &to.1));
        match (replaced, exchange, self.model.atomic_names) {
            (Some(other), true, true) => self.exchange((file, from), (other, to)),
            (Some(other), true, false) => {
                self.group([entry(to, file)]);
                self.group([entry(from, other)]);
            }
            (replaced, _, true) => self.rename_at_once(file, from, to, replaced),
            (replaced, _, false) => {
                let gone = self.removal(from, file);
                if let Some(replaced) = replaced {
                    self.remove(to.0, to.1, replaced);
                }
                self.group([gone]);
                self.group([entry(to, file)]);
            }
        }
    }

    /// Two files get each other's names, at once.
    fn exchange(&mut self, (file, from): (FileId, Place<'_>), (other, to): (FileId, Place<'_>)) {
        if self.model.log != Log::LogTree {
            self.group([entry(to, file), entry(from, other)]);
            return;
        }
        // A sync of one of the two may keep its part for itself: where its name is, and where it is
        // not any more.
        let (gone, taken) = (self.removal(from, file), self.removal(to, other));
        let next = Some(Neighbour::Next);
        self.loses(file, from);
        self.group_in(Order::Named, next, [gone]);
        self.give_back(file, from);
        self.loses(other, to);
        self.group_in(Order::Named, next, [taken]);
        self.give_back(other, to);
        self.gains(file, to);
        self.group_in(Order::Named, next, [entry(to, file)]);
        self.gains(other, from);
        self.group([entry(from, other)]);
        self.size_with_name(file);
        self.size_with_name(other);
    }

    /// A file has its new name when it has its old one no more, and what had that is gone.
    fn rename_at_once(
        &mut self,
        file: FileId,
        from: Place<'_>,
        to: Place<'_>,
        replaced: Option<FileId>,
    ) {
        let gone = self.removal(from, file);
        if let Some(replaced) = replaced {
            let names = &mut self.file(replaced).names;
            *names = names.saturating_sub(1);
        }
        if self.model.log == Log::LogTree {
            if let Some(replaced) = replaced {
                // A log tree that has the file of before loses its name, and may not get the new
                // one.
                let taken = self.removal(to, replaced);
                self.loses(replaced, to);
                self.group_in(Order::Named, Some(Neighbour::Next), [taken]);
                self.give_back(replaced, to);
            }
            // A sync of one of two directories may keep its part for itself.
            let is_within = from.0 == to.0;
            let gone_too = if is_within {
                Neighbour::Paired
            } else {
                Neighbour::Next
            };
            self.gains(file, to);
            self.group_in(Order::Named, Some(gone_too), [entry(to, file)]);
            self.loses(file, from);
            self.group([gone]);
            self.give_back(file, from);
        } else {
            self.group([entry(to, file), gone]);
        }
        self.size_with_name(file);
    }

    /// With a new name a log tree notes that there is such a file, and how large it is: that can be
    /// the size of bytes that it does not have yet, or of those of before.
    pub(super) fn size_with_name(&mut self, file: FileId) {
        let known = self.file(file);
        known.is_renamed = true;
        let (size, is_resized) = (known.size, known.is_resized);
        if self.model.log == Log::LogTree && is_resized {
            self.group_in(self.own(), None, [Effect::SetSize { file, size }]);
        }
    }
}
