//! What a node can lose at a place: counted where it need not be listed.

use super::choice::Choice;
use crate::nodes::places::Place;
use crate::nodes::space::NodeRules;

/// What a node can lose at a place.
pub(super) enum Choices<'a> {
    /// One operation.
    One(One<'a>),
    /// A part of one write.
    Torn(Tears<'a>),
    /// Any of these.
    Listed(Vec<Choice>),
}

impl Choices<'_> {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::One(one) => one.len(),
            Self::Torn(tears) => tears.len(),
            Self::Listed(choices) => choices.len() as u64,
        }
    }

    pub(super) fn nth(&self, number: u64) -> Choice {
        match self {
            Self::One(one) => one.all().nth(number as usize).expect("there are so many"),
            Self::Torn(tears) => tears.all().nth(number as usize).expect("there are so many"),
            Self::Listed(choices) => choices[number as usize].clone(),
        }
    }

    pub(super) fn list(&self) -> Vec<Choice> {
        match self {
            Self::One(one) => one.all().collect(),
            Self::Torn(tears) => tears.all().collect(),
            Self::Listed(choices) => choices.clone(),
        }
    }
}

/// The operations of which a node can lose one at a place. They are counted without a look at each:
/// what goes with an operation is seen only where a state is made. So of those that leave the node
/// where it was before, which the space has already, some are among them.
#[derive(Debug, Clone, Copy)]
pub(super) struct One<'a> {
    node: &'a NodeRules,
    place: Place,
    events: usize,
    /// The last operation, if nobody can know that it was there: to lose it is to be where the node
    /// was before.
    silent: Option<usize>,
    /// Whether whatever loses a name leaves the node where it was before.
    without_names: bool,
}

impl<'a> One<'a> {
    pub(super) fn new(node: &'a NodeRules, place: Place, events: usize) -> Self {
        let operations = &node.operations;
        let is_silent = place.partial > 0 || !operations.tells(place.least, place.most);
        let last = node.last_groups(&place).filter(|_| is_silent);
        Self {
            node,
            place,
            events,
            silent: place
                .operations
                .checked_sub(1)
                .filter(|_| is_silent && place.partial == 0),
            without_names: last.is_some_and(|groups| operations.go_with_names(groups, events)),
        }
    }

    pub(super) fn len(&self) -> u64 {
        let at_risk = self.node.operations.at_risk(self.events);
        let named = if self.without_names { at_risk.named } else { 0 };
        let silent = self.silent.is_some_and(|last| self.is_at_risk(last));
        u64::from(at_risk.all - named - u32::from(silent)) + u64::from(at_risk.halves)
    }

    fn is_at_risk(&self, operation: usize) -> bool {
        let operations = &self.node.operations;
        operations.is_losable(operation, self.events)
            && !(self.without_names && operations.risks_names(operation, self.events))
    }

    fn all(&self) -> impl Iterator<Item = Choice> {
        let operations = &self.node.operations;
        let first = operations.at_risk(self.events).first as usize;
        let whole = (first..self.place.operations)
            .filter(|operation| Some(*operation) != self.silent && self.is_at_risk(*operation));
        let whole = whole.map(|operation| Choice::Operations {
            lost: vec![operation],
            synced: 0,
        });
        let halves = (first..self.place.operations)
            .filter(|operation| operations.risks_half(*operation, self.events));
        whole.chain(halves.map(|operation| Choice::Half {
            operation,
            synced: 0,
        }))
    }
}

/// The ways in which one write can be torn of those that a node can lose at a place. They are
/// counted without a look at each, but for those of the last operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tears<'a> {
    node: &'a NodeRules,
    place: Place,
    events: usize,
}

impl<'a> Tears<'a> {
    pub(super) fn new(node: &'a NodeRules, place: Place, events: usize) -> Self {
        Self {
            node,
            place,
            events,
        }
    }

    pub(super) fn len(&self) -> u64 {
        let operations = &self.node.operations;
        let last = self.place.operations.checked_sub(1);
        let of_last = last.into_iter().flat_map(|last| {
            let tears = operations.tears(last, self.events);
            tears.filter(move |tear| self.is_cut(last, *tear))
        });
        u64::from(operations.at_risk(self.events).tears) - of_last.count() as u64
    }

    /// Whether to tear the last operation so is to cut it, which is another relaxation.
    fn is_cut(&self, operation: usize, tear: usize) -> bool {
        let groups = self.node.operations.torn(operation, tear);
        operation + 1 == self.place.operations
            && groups.len() == 1
            && self.node.is_cut(&self.place, groups[0], self.events)
    }

    fn all(&self) -> impl Iterator<Item = Choice> {
        let operations = &self.node.operations;
        let first = operations.at_risk(self.events).first as usize;
        (first..self.place.operations).flat_map(move |operation| {
            let tears = operations.tears(operation, self.events);
            let others = tears.filter(move |tear| !self.is_cut(operation, *tear));
            others.map(move |tear| Choice::Tear {
                operation,
                tear,
                lost: Vec::new(),
                synced: 0,
            })
        })
    }
}
