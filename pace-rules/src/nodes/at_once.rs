//! What of all that nothing had made durable is lost at once: all of it, all but the names, a part of
//! each write, or all but one operation. Who keeps something twice is harmed by none of the losses
//! alone.

use itertools::Itertools;

use super::operations::{Losable, Operations, TEARS_MAX};
use super::section::Part;
use super::space::Relaxation;

/// What is lost of all that was not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// All.
    All,
    /// All but the names that are on the disk if something was committed so late that a log tree has
    /// not what would follow them.
    SinceCommit,
    /// All but what was done to names and modes.
    ButNames,
    /// The same, but that sizes are kept that can be there without bytes.
    ButSizes,
    /// A part of each write, in this one of the ways to tear it; in the last one of a write that has
    /// fewer. What cannot be torn is kept.
    Torn(usize),
    /// All but one operation.
    ButOne(Kept),
}

/// What is kept where all else is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    /// Which operation of those that are not durable, counted from the last one.
    from_last: u32,
    /// In which of its ways it is torn; not, if nothing is said.
    tear: Option<usize>,
}

/// So many of the last operations that are not durable are kept alone, each in its turn: of a run
/// without syncs the others are as many as it has calls.
const KEPT_MAX: u32 = 32;

/// Those, each torn in each way and whole.
const BUT_ONE: [Form; KEPT_MAX as usize * (1 + TEARS_MAX)] = {
    let mut all = [Form::All; KEPT_MAX as usize * (1 + TEARS_MAX)];
    let mut place = 0;
    while place < all.len() {
        let way = place % (1 + TEARS_MAX);
        all[place] = Form::ButOne(Kept {
            from_last: (place / (1 + TEARS_MAX)) as u32,
            tear: if way == TEARS_MAX { None } else { Some(way) },
        });
        place += 1;
    }
    all
};

impl Form {
    /// Those that states of a relaxation have.
    pub(super) fn all(relaxation: Relaxation) -> &'static [Self] {
        match relaxation {
            Relaxation::Synced => &[Self::All, Self::SinceCommit],
            Relaxation::NamesOnly => &[Self::ButNames, Self::ButSizes],
            Relaxation::AllTorn => &[Self::Torn(0), Self::Torn(1), Self::Torn(2)],
            Relaxation::OneKept => &BUT_ONE,
            _ => &[],
        }
    }

    /// Whether there can be states of it where so many operations are not durable.
    pub(super) fn is_among(self, operations: u32) -> bool {
        match self {
            Self::ButOne(kept) => kept.from_last < operations,
            _ => true,
        }
    }

    /// Whether it is the first of many, and loses as much as any of them.
    pub(super) fn is_first_of_many(self) -> bool {
        let first = Kept {
            from_last: 0,
            tear: Some(0),
        };
        self == Self::ButOne(first)
    }

    /// Whether only the last of the places where the same is durable have states of it. What is kept
    /// alone is so there, and more was promised.
    pub(super) fn is_of_the_last(self) -> bool {
        matches!(self, Self::ButOne(_))
    }

    /// How many operations lose something by it.
    pub(super) fn count(self, at_risk: Losable) -> u32 {
        match self {
            Self::All | Self::SinceCommit => at_risk.all,
            Self::ButNames | Self::ButSizes => at_risk.data,
            Self::Torn(_) => at_risk.torn,
            Self::ButOne(kept) => at_risk.all - u32::from(kept.tear.is_none() && at_risk.all > 0),
        }
    }

    /// Whether something is lost by it, and something kept that is lost by a form which loses more.
    pub(super) fn keeps(self, at_risk: Losable) -> bool {
        let kept = match self {
            Self::All | Self::Torn(_) => at_risk.all,
            Self::SinceCommit => at_risk.logged,
            Self::ButNames => at_risk.named,
            Self::ButSizes => at_risk.halves,
            Self::ButOne(one) => at_risk.all.saturating_sub(one.from_last),
        };
        kept > 0 && self.count(at_risk) > 0
    }

    /// Whether it takes something of an operation, and leaves nothing of that which only another
    /// operation of the same node comes after: a disk that has come to the next place holds the same.
    pub(super) fn takes(self, operations: &Operations, operation: usize) -> bool {
        match self {
            // It is one further from the last then.
            Self::All | Self::SinceCommit | Self::ButOne(_) => true,
            Self::ButNames | Self::ButSizes => !operations.has_names(operation),
            Self::Torn(_) => operations.has_tears(operation),
        }
    }

    /// The groups that are lost by it of the first so many micros, but for what goes with them: those
    /// of these operations, or of all. What is durable after so many events is not lost.
    pub(super) fn groups(
        self,
        operations: &Operations,
        only: Option<&[usize]>,
        (micros, events): (usize, usize),
    ) -> Vec<usize> {
        let mut open = operations.all_open(micros, events);
        let operation = |group: &usize| operations.groups[*group].operation();
        if let Self::ButOne(kept) = self {
            let stays = kept.groups(operations, (micros, events));
            open.retain(|group| !stays.contains(group));
        }
        if let Some(only) = only {
            open.retain(|group| only.contains(&operation(group)));
        }
        match self {
            Self::All | Self::ButOne(_) => {}
            Self::SinceCommit => operations.commit_late(&mut open, events),
            Self::ButNames => open.retain(|group| !operations.groups[*group].is_named()),
            Self::ButSizes => open.retain(|group| operations.is_bytes(*group)),
            Self::Torn(_) => {
                let torn = open.iter().map(operation).dedup();
                let tears = torn
                    .filter_map(|one| Some((one, self.tear(operations, one, (micros, events))?)));
                return tears
                    .flat_map(|(one, tear)| operations.torn(one, tear))
                    .collect();
            }
        }
        open
    }

    /// Whether there is what it keeps of the first so many micros, if that is one operation: something
    /// that the disk can have alone, and that can be torn where it is. What is durable after so many
    /// events is not lost.
    pub(super) fn is_kept(self, operations: &Operations, (micros, events): (usize, usize)) -> bool {
        let Self::ButOne(kept) = self else {
            return true;
        };
        let Some(one) = kept.operation(operations, (micros, events)) else {
            return false;
        };
        // In a journal no name is there without those before it.
        let mut open = operations.open_groups(one, events);
        let is_alone =
            !operations.has_journal() || open.any(|group| !operations.groups[group].is_named());
        is_alone && (kept.tear.is_none() || kept.way(operations, one, events).is_some())
    }

    /// In which of its ways an operation of which something is lost is torn by a crash after so many
    /// events.
    fn tear(
        self,
        operations: &Operations,
        operation: usize,
        (micros, events): (usize, usize),
    ) -> Option<usize> {
        match self {
            Self::Torn(way) => {
                let mut tears = operations.tears(operation, events).collect_vec();
                tears.truncate(way + 1);
                tears.pop()
            }
            Self::ButOne(kept) => {
                let own = kept.operation(operations, (micros, events));
                let own = own.filter(|own| *own == operation);
                own.and_then(|own| kept.way(operations, own, events))
            }
            _ => None,
        }
    }

    /// The same groups, as what is lost by choice of each operation.
    pub(super) fn parts(
        self,
        operations: &Operations,
        only: Option<&[usize]>,
        (micros, events): (usize, usize),
    ) -> Vec<Part> {
        let groups = self.groups(operations, only, (micros, events));
        let by_operation = groups
            .into_iter()
            .chunk_by(|group| operations.groups[*group].operation());
        let part = |(operation, lost): (usize, usize)| {
            if let Some(tear) = self.tear(operations, operation, (micros, events)) {
                Part::Tear(operation, tear)
            } else if operations.open_groups(operation, events).count() == lost {
                Part::Operation(operation)
            } else {
                Part::Half(operation)
            }
        };
        let counted = by_operation
            .into_iter()
            .map(|(one, groups)| (one, groups.count()));
        counted.map(part).collect()
    }
}

impl Kept {
    /// The operation, of those of the first so many micros.
    fn operation(self, operations: &Operations, (micros, events): (usize, usize)) -> Option<usize> {
        let last = operations.groups_until(micros).checked_sub(1)?;
        let place = operations.groups[last].operation() + 1;
        operations.losable_from_last(place, events, self.from_last as usize)
    }

    /// In which of its ways it is torn, if it is.
    fn way(self, operations: &Operations, operation: usize, events: usize) -> Option<usize> {
        operations.tears(operation, events).nth(self.tear?)
    }

    /// The groups that are kept.
    fn groups(self, operations: &Operations, at: (usize, usize)) -> Vec<usize> {
        let Some(own) = self.operation(operations, at) else {
            return Vec::new();
        };
        let way = self.way(operations, own, at.1);
        let lost = way.map_or(Vec::new(), |way| operations.torn(own, way));
        let mut groups: Vec<usize> = operations.all[own].groups().collect();
        groups.retain(|group| !lost.contains(group));
        groups
    }
}
