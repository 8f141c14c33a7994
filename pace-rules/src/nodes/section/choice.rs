//! What a node loses at its place.

use itertools::Itertools;

use crate::nodes::at_once::Form;
use crate::nodes::operations::Operations;
use crate::nodes::places::Place;
use crate::nodes::space::NodeRules;

/// What a node loses at its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::nodes) enum Choice {
    /// Operations, and what cannot be kept without them.
    Operations {
        /// Which ones, ascending.
        lost: Vec<usize>,
        /// What is durable after so many events is not lost with them, whether those have happened
        /// or not.
        synced: usize,
    },
    /// A half of an operation, of which the other one is there: the bytes without the size, or that
    /// a rename took its name from another file.
    Half {
        /// Which one.
        operation: usize,
        /// As above.
        synced: usize,
    },
    /// A part of a write.
    Tear {
        /// The write.
        operation: usize,
        /// In which of its ways it is torn.
        tear: usize,
        /// Operations that are lost whole beside that.
        lost: Vec<usize>,
        /// As above.
        synced: usize,
    },
    /// One group of the last operation.
    Group(usize),
    /// All that was not durable after so many events, or some of each of that.
    AtOnce {
        /// What of it.
        form: Form,
        /// Of these operations only, ascending; of all, if nothing is said.
        only: Option<Box<[usize]>>,
        /// After how many events.
        synced: usize,
    },
}

impl Choice {
    pub(in crate::nodes) const NOTHING: Self = Self::Operations {
        lost: Vec::new(),
        synced: 0,
    };

    /// After how many events what is durable is not lost, in a crash after `events` events.
    pub(in crate::nodes) fn moment(&self, events: usize) -> usize {
        match self {
            Self::Operations { synced, .. }
            | Self::Half { synced, .. }
            | Self::Tear { synced, .. }
            | Self::AtOnce { synced, .. } => events.max(*synced),
            Self::Group(_) => events,
        }
    }

    /// After how many events what is durable is kept while all else is lost; none if it is not.
    pub(in crate::nodes) fn kept_by(&self) -> Option<usize> {
        match self {
            Self::AtOnce { synced, .. } => Some(*synced),
            _ => None,
        }
    }

    /// What is meant, and not what is lost with it, at a place of a node in a crash after `events`
    /// events.
    pub(super) fn parts(&self, rules: &NodeRules, place: &Place, events: usize) -> Vec<Part> {
        let whole = |lost: &[usize]| lost.iter().copied().map(Part::Operation).collect();
        match self {
            Self::Operations { lost, .. } => whole(lost),
            Self::Half { operation, .. } => vec![Part::Half(*operation)],
            Self::Tear {
                operation,
                tear,
                lost,
                ..
            } => {
                let mut parts: Vec<_> = whole(lost);
                parts.push(Part::Tear(*operation, *tear));
                parts
            }
            Self::Group(group) => vec![Part::Group(*group)],
            Self::AtOnce { form, only, .. } => {
                let at = (place.micros, self.moment(events));
                form.parts(&rules.operations, only.as_deref(), at)
            }
        }
    }

    /// The operations of which something is lost by choice. Ascending.
    pub(in crate::nodes) fn operations(
        &self,
        rules: &NodeRules,
        place: &Place,
        events: usize,
    ) -> Vec<usize> {
        let parts = self.parts(rules, place, events).into_iter();
        let operation = |part| match part {
            Part::Operation(operation) | Part::Half(operation) | Part::Tear(operation, _) => {
                operation
            }
            Part::Group(group) => rules.operations.groups[group].operation(),
        };
        parts.map(operation).sorted_unstable().dedup().collect()
    }

    /// The same, but that no more than these operations are lost; nothing if none of them is.
    pub(in crate::nodes) fn only(&self, lost: Vec<usize>) -> Self {
        let synced = self.moment(0);
        match self {
            _ if lost.is_empty() => Self::NOTHING,
            Self::AtOnce { form, .. } if *form != Form::All => Self::AtOnce {
                form: *form,
                only: Some(lost.into()),
                synced,
            },
            _ => Self::Operations { lost, synced },
        }
    }

    /// The groups that are lost of the first so many micros, in a crash after `events` events.
    /// Ascending.
    pub(in crate::nodes) fn groups(
        &self,
        operations: &Operations,
        micros: usize,
        events: usize,
    ) -> Vec<usize> {
        match self {
            Self::Operations { lost, synced } => {
                lost_of(operations, lost, (micros, events.max(*synced)))
            }
            Self::Half { operation, synced } => {
                let events = events.max(*synced);
                let half: Vec<_> = operations.open_half(*operation, events).collect();
                operations.lost_with(&half, micros, events)
            }
            Self::Tear {
                operation,
                tear,
                lost,
                synced,
            } => {
                let events = events.max(*synced);
                let mut seeds = lost_of(operations, lost, (micros, events));
                seeds.extend(operations.torn(*operation, *tear));
                operations.lost_with(&seeds, micros, events)
            }
            Self::Group(group) => operations.lost_with(&[*group], micros, events),
            Self::AtOnce { form, only, .. } => {
                let at = (micros, self.moment(events));
                let seeds = form.groups(operations, only.as_deref(), at);
                operations.lost_with(&seeds, at.0, at.1)
            }
        }
    }
}

/// The groups that go with these operations, of the first so many micros, in a crash after so many
/// events.
fn lost_of(
    operations: &Operations,
    lost: &[usize],
    (micros, events): (usize, usize),
) -> Vec<usize> {
    let seeds: Vec<_> = lost
        .iter()
        .flat_map(|lost| operations.open_groups(*lost, events))
        .collect();
    operations.lost_with_sizes(&seeds, micros, events)
}

/// Something that a choice takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nodes) enum Part {
    Operation(usize),
    Half(usize),
    Tear(usize, usize),
    Group(usize),
}

impl Part {
    /// Whether it is one of these, or of an operation that is.
    pub(super) fn is_in(&self, others: &[Self]) -> bool {
        let of_operation = |operation| others.contains(&Self::Operation(operation));
        others.contains(self)
            || match self {
                Self::Half(operation) | Self::Tear(operation, _) => of_operation(*operation),
                Self::Operation(_) | Self::Group(_) => false,
            }
    }
}
