//! Groups: what persists as a whole.

use std::ops::Range;

use trace::{FileId, FileOp};

use crate::nodes::Effect;
use crate::nodes::narrow::{Narrow, Span};

/// What persists as a whole.
#[derive(Debug, Clone)]
pub(in crate::nodes) struct Group {
    pub(super) operation: Narrow,
    pub(super) micros: Span,
    pub(super) cover: Narrow,
    /// It is kept only if all groups of names before this number are.
    pub(super) after: Narrow,
    /// The event from which on it may be kept without them: a sync that keeps its file for itself.
    pub(super) logged: Narrow,
    pub(super) file: FileId,
    /// Whether it is one of the groups of names itself.
    pub(super) is_named: bool,
    /// What it does to a name.
    pub(super) naming: Naming,
    /// Whether it goes where nothing of the file has a place on the disk.
    pub(super) is_new: bool,
    /// Whether it only sets a size.
    pub(super) is_size: bool,
    pub(super) rare: Option<Box<Rare>>,
}

/// What a group does to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Naming {
    Nothing,
    /// It gives one to the file that its operation is about.
    Gives,
    /// It takes one from that file.
    Takes,
    /// It gives one to another file, or takes it.
    OfOther,
}

impl Naming {
    /// Of the first effect of a group of an operation.
    pub(super) fn of(op: &FileOp, effect: &Effect) -> Self {
        let (file, own) = match effect {
            Effect::SetEntry { file, .. } => (*file, Self::Gives),
            Effect::RemoveEntry { of: Some(file), .. } => (*file, Self::Takes),
            _ => return Self::Nothing,
        };
        if file == op.subject() {
            own
        } else {
            Self::OfOther
        }
    }
}

/// Since when a log tree has a file, and so what becomes of its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Follows {
    /// If a transaction was committed after this event, the log does not have it.
    pub(super) logged: Narrow,
    /// If none was committed after this one, the log has it for certain. [`Narrow::NEVER`] if it is
    /// never certain.
    pub(super) changed: Narrow,
    /// The directory within which this is a rename.
    pub(super) renamed_in: Option<FileId>,
    /// Whether the log has this only with all that was renamed within that directory before.
    pub(super) has_others: bool,
    /// The first sync after it that wrote the log: if the log has it, the disk has it then.
    pub(super) written: Narrow,
}

impl Follows {
    /// The log has it if nothing was committed after an event, and only then.
    pub(super) fn since(event: usize) -> Self {
        Self {
            logged: Narrow::new(event),
            changed: Narrow::new(event),
            renamed_in: None,
            has_others: false,
            written: Narrow::NEVER,
        }
    }

    /// Whether a crash after so many events finds it on the disk if nothing was committed after
    /// [`Self::changed`].
    pub(super) fn is_written(&self, events: usize) -> bool {
        self.is_certain() && self.written.get() < events
    }

    /// Whether the log has it for certain, if nothing was committed after [`Self::changed`].
    pub(super) fn is_certain(&self) -> bool {
        self.changed < Narrow::NEVER
    }

    /// The same if that is certain only if nothing was committed after another event either.
    pub(super) fn only_if(self, changed: Narrow) -> Self {
        let is_certain = self.is_certain() && changed < Narrow::NEVER;
        let earlier = self.changed.min(changed);
        Self {
            changed: if is_certain { earlier } else { Narrow::NEVER },
            ..self
        }
    }

    /// The log has it for one of two reasons.
    pub(super) fn or(self, other: Self) -> Self {
        let known = [self.changed, other.changed];
        let known = known.into_iter().filter(|changed| *changed < Narrow::NEVER);
        Self {
            logged: self.logged.max(other.logged),
            changed: known.max().unwrap_or(Narrow::NEVER),
            ..self
        }
    }
}

/// An operation without whose names a group is not kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Need {
    operation: Narrow,
    /// Whether that is so too where a sync of its file has made it durable, and not only where it came
    /// into the log by itself or was committed.
    is_synced: bool,
}

/// What few groups have. [`Narrow::NEVER`] stands for what there is not.
#[derive(Debug, Clone)]
pub(super) struct Rare {
    /// The event after whose return it is not durable any more, and the one that makes it so
    /// again.
    pub(super) reopened: Narrow,
    pub(super) covered_again: Narrow,
    /// The group without which it is not lost, nor that one without it.
    pub(super) pair: Narrow,
    /// Whether it is not kept without the group that it goes with, even if the log has it.
    pub(super) goes_along: bool,
    /// The first group of names that is kept only if the data of this one is.
    pub(super) awaited_by: Narrow,
    /// The sync from which on the log may have it because of somebody else's name, whatever the log had
    /// before.
    pub(super) in_the_way: Narrow,
    /// The operations without whose names it is not kept: a log tree that has this has those, too.
    pub(super) needs: Vec<Need>,
    /// Groups that are not kept without it, though they came before it: after these events.
    pub(super) undoes: Vec<(Narrow, Narrow)>,
    /// The event since which the file that its operation is about has no name any more.
    pub(super) nameless: Narrow,
    /// The groups that it repeats: it is lost if one of them is, and never else. Nothing if it is
    /// something of its own.
    pub(super) repeats: Box<[Narrow]>,
}

impl Default for Rare {
    fn default() -> Self {
        Self {
            reopened: Narrow::NEVER,
            covered_again: Narrow::NEVER,
            pair: Narrow::NEVER,
            goes_along: false,
            awaited_by: Narrow::NEVER,
            in_the_way: Narrow::NEVER,
            needs: Vec::new(),
            undoes: Vec::new(),
            nameless: Narrow::NEVER,
            repeats: Box::default(),
        }
    }
}

impl Group {
    /// The operation it is part of, as an index.
    pub(in crate::nodes) fn operation(&self) -> usize {
        self.operation.get()
    }

    /// Its micros.
    pub(in crate::nodes) fn micros(&self) -> Range<usize> {
        self.micros.range()
    }

    /// Whether it is kept in the order of names.
    pub(in crate::nodes) fn is_named(&self) -> bool {
        self.is_named
    }

    /// The event after whose return it is durable for the first time; `usize::MAX` if nothing made
    /// it so.
    pub(in crate::nodes) fn cover(&self) -> usize {
        self.cover.get()
    }

    /// The event after whose return it is durable, for a crash after so many events.
    pub(in crate::nodes) fn cover_at(&self, events: usize) -> usize {
        match &self.rare {
            Some(rare) if events > rare.reopened.get() => rare.covered_again.get(),
            _ => self.cover.get(),
        }
    }

    /// Whether a crash after so many events can cost it.
    pub(in crate::nodes) fn is_open(&self, events: usize) -> bool {
        self.cover_at(events) >= events
    }

    /// The groups before it that a crash after so many events does not keep without it.
    pub(super) fn undoes(&self, events: usize) -> impl Iterator<Item = usize> {
        let undoes = self.rare.iter().flat_map(|rare| &rare.undoes);
        let undoes = undoes.filter(move |(sync, _)| sync.get() < events);
        undoes.map(|(_, group)| group.get())
    }

    /// Whether it is not kept without the group that it goes with, even if the log has it.
    pub(super) fn goes_along(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.goes_along)
    }

    /// The groups that it repeats.
    pub(in crate::nodes) fn repeats(&self) -> impl Iterator<Item = usize> {
        let repeats = self.rare.iter().flat_map(|rare| &rare.repeats);
        repeats.map(|group| group.get())
    }

    /// Whether it is nothing of its own.
    pub(in crate::nodes) fn is_repetition(&self) -> bool {
        self.rare
            .as_ref()
            .is_some_and(|rare| !rare.repeats.is_empty())
    }

    /// When a crash can cost it: after more events than the first number, and up to the second.
    pub(super) fn at_risk(&self, event: usize) -> impl Iterator<Item = (usize, usize)> {
        let again = |rare: &Rare| (rare.reopened.get(), rare.covered_again.get());
        let again = self.rare.as_deref().map(again);
        let again = again.filter(|(reopened, _)| *reopened < usize::MAX);
        [(event, self.cover())].into_iter().chain(again)
    }

    /// The events with which it becomes durable, or ceases to be so.
    pub(super) fn changes(&self) -> impl Iterator<Item = Narrow> {
        let again = |rare: &Rare| [rare.reopened, rare.covered_again];
        let again = self.rare.as_deref().map(again);
        let all = [self.cover].into_iter().chain(again.into_iter().flatten());
        all.filter(|event| *event < Narrow::NEVER)
    }

    /// Whether it was durable, and is not any more since then.
    pub(super) fn is_reopened(&self) -> bool {
        self.reopened().is_some()
    }

    /// The event since which it is not durable any more.
    pub(super) fn reopened(&self) -> Option<usize> {
        let reopened = self.rare.as_ref().map(|rare| rare.reopened);
        let reopened = reopened.filter(|reopened| *reopened < Narrow::NEVER);
        reopened.map(Narrow::get)
    }

    pub(super) fn pair(&self) -> Option<usize> {
        let pair = self.rare.as_ref().map(|rare| rare.pair);
        pair.filter(|pair| *pair < Narrow::NEVER).map(Narrow::get)
    }

    pub(super) fn awaited_by(&self) -> usize {
        self.rare
            .as_ref()
            .map_or(usize::MAX, |rare| rare.awaited_by.get())
    }

    /// The operations without whose names it is not kept.
    pub(super) fn needs(&self) -> impl Iterator<Item = usize> {
        let needs = self.rare.iter().flat_map(|rare| &rare.needs);
        needs.map(|need| need.operation.get())
    }

    /// Those of them that are durable where a sync of its file has made it so.
    pub(super) fn synced_needs(&self) -> impl Iterator<Item = usize> {
        let needs = self.rare.iter().flat_map(|rare| &rare.needs);
        let synced = needs.filter(|need| need.is_synced);
        synced.map(|need| need.operation.get())
    }

    /// Whether it gives a name to another file than the one that its operation is about, or takes one
    /// from it.
    pub(super) fn is_of_other(&self) -> bool {
        self.naming == Naming::OfOther
    }

    /// Whether it gives a name to the file that its operation is about.
    pub(super) fn gives_name(&self) -> bool {
        self.naming == Naming::Gives
    }

    /// Whether a crash after so many events may find it in the log because of somebody else's name.
    pub(super) fn is_in_the_way(&self, events: usize) -> bool {
        let in_the_way = self.rare.as_ref().map(|rare| rare.in_the_way);
        in_the_way.is_some_and(|event| event.get() < events)
    }

    /// Whether the file that its operation is about has no name any more before a crash after so many
    /// events.
    pub(super) fn is_nameless(&self, events: usize) -> bool {
        let nameless = self.rare.as_ref().map(|rare| rare.nameless);
        nameless.is_some_and(|event| event.get() < events)
    }

    /// It is not kept without the names of an operation. Is that so too where a sync of its file has made
    /// it durable?
    pub(super) fn need(&mut self, operation: usize, is_synced: bool) {
        let (needs, operation) = (&mut self.rare_mut().needs, Narrow::new(operation));
        let known = needs.iter_mut().find(|need| need.operation == operation);
        match known {
            Some(need) => need.is_synced |= is_synced,
            None => needs.push(Need {
                operation,
                is_synced,
            }),
        }
    }

    /// The operations without whose names it is not kept, but where a sync of its file has made it
    /// durable.
    pub(super) fn unsynced_needs(&self) -> impl Iterator<Item = usize> {
        let needs = self.rare.iter().flat_map(|rare| &rare.needs);
        let needs = needs.filter(|need| !need.is_synced);
        needs.map(|need| need.operation.get())
    }

    /// It may be kept without the names of these operations.
    pub(super) fn need_no_more(&mut self, operations: &[usize]) {
        if let Some(rare) = &mut self.rare {
            let is_meant = |need: &Need| operations.contains(&need.operation.get());
            rare.needs.retain(|need| !is_meant(need));
        }
    }

    /// What it has that few have, to be changed.
    pub(super) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// An event has made it durable, for the first time or again.
    pub(super) fn cover_with(&mut self, event: usize) {
        let event = Narrow::new(event);
        if self.is_reopened() {
            self.rare_mut().covered_again = event;
        } else {
            self.cover = event;
        }
    }

    /// A sync at this event, or an earlier one, may have kept it without what was before.
    pub(super) fn log_with(&mut self, event: usize) {
        self.logged = self.logged.min(Narrow::new(event));
    }
}
