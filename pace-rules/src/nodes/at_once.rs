//! What of all that nothing had made durable is lost at once: all of it, all but the names, or a part
//! of each write. Who keeps something twice is harmed by none of the losses alone.

use itertools::Itertools;

use super::operations::{Losable, Operations};
use super::section::Part;
use super::space::Relaxation;

/// What is lost of all that was not durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// All.
    All,
    /// All but what was done to names and modes.
    ButNames,
    /// The same, but that sizes are kept that can be there without bytes.
    ButSizes,
    /// A part of each write, in this one of the ways to tear it; in the last one of a write that has
    /// fewer. What cannot be torn is kept.
    Torn(usize),
}

impl Form {
    /// Those that states of a relaxation have.
    pub(super) fn all(relaxation: Relaxation) -> &'static [Self] {
        match relaxation {
            Relaxation::Synced => &[Self::All],
            Relaxation::NamesOnly => &[Self::ButNames, Self::ButSizes],
            Relaxation::AllTorn => &[Self::Torn(0), Self::Torn(1), Self::Torn(2)],
            _ => &[],
        }
    }

    /// How many operations lose something by it.
    pub(super) fn count(self, at_risk: Losable) -> u32 {
        match self {
            Self::All => at_risk.all,
            Self::ButNames | Self::ButSizes => at_risk.data,
            Self::Torn(_) => at_risk.torn,
        }
    }

    /// Whether something is lost by it, and something kept that is lost by a form which loses more.
    pub(super) fn keeps(self, at_risk: Losable) -> bool {
        let kept = match self {
            Self::All | Self::Torn(_) => at_risk.all,
            Self::ButNames => at_risk.named,
            Self::ButSizes => at_risk.bytes,
        };
        kept > 0 && self.count(at_risk) > 0
    }

    /// Whether it takes something of an operation, and leaves nothing of that which only another
    /// operation of the same node comes after: a disk that has come to the next place holds the same.
    pub(super) fn takes(self, operations: &Operations, operation: usize) -> bool {
        match self {
            Self::All => true,
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
        if let Some(only) = only {
            open.retain(|group| only.contains(&operation(group)));
        }
        match self {
            Self::All => {}
            Self::ButNames => open.retain(|group| !operations.groups[*group].is_named()),
            Self::ButSizes => open.retain(|group| operations.is_bytes(*group)),
            Self::Torn(_) => {
                let torn = open.iter().map(operation).dedup();
                let tears = torn.filter_map(|one| Some((one, self.tear(operations, one, events)?)));
                return tears
                    .flat_map(|(one, tear)| operations.torn(one, tear))
                    .collect();
            }
        }
        open
    }

    /// In which of its ways an operation is torn by a crash after so many events.
    fn tear(self, operations: &Operations, operation: usize, events: usize) -> Option<usize> {
        let Self::Torn(way) = self else {
            return None;
        };
        let mut tears = operations.tears(operation, events).collect_vec();
        tears.truncate(way + 1);
        tears.pop()
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
            if let Some(tear) = self.tear(operations, operation, events) {
                Part::Tear(operation, tear)
            } else if operations.open_groups(operation, events).count() == lost {
                Part::Operation(operation)
            } else {
                Part::Bytes(operation)
            }
        };
        let counted = by_operation
            .into_iter()
            .map(|(one, groups)| (one, groups.count()));
        counted.map(part).collect()
    }
}
