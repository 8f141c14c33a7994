//! The crash states that several models allow, one space after the other.
//!
//! What no file system shows accuses programs that are right, and so would a model that were the
//! weakest in each column of the table: a file system that breaks one promise keeps another. So
//! several models are no model of their own. What at least one of them allows is all states of the
//! first, then all of the second, and so on. Those that several allow have several numbers. What a
//! cluster makes of them may depend on the order in which its nodes are started: all of that again
//! for each order, but for what lost nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trace::Run;

use super::cuts::Clocks;
use super::model::{Log, MODELS, Model};
use super::space::{Count, Error, Loss, Relaxation, Request, Space, State, go_on, numbered};
use super::starts::StartOrder;

/// All models of real file systems, by one name.
pub const LINUX: &str = "linux";

impl Model {
    /// Whether it is that of a file system. Else it is what the standard does not forbid.
    pub fn is_real(&self) -> bool {
        self.log != Log::None
    }

    /// The names that models have, alone and together.
    pub fn names() -> impl Iterator<Item = &'static str> {
        std::iter::once(LINUX).chain(MODELS.iter().map(|model| model.name))
    }

    /// The models of a name; none if there are none.
    pub fn all_named(name: &str) -> Vec<&'static Self> {
        let is_meant = |model: &&Self| model.name == name || (name == LINUX && model.is_real());
        MODELS.iter().filter(is_meant).collect()
    }
}

/// The crash states of a run that at least one of some models allows.
#[derive(Debug, Clone)]
pub struct Spaces {
    members: Vec<Member>,
    kinds: Vec<Kind>,
    /// More than one node has files.
    is_cluster: bool,
    histories: Histories,
}

/// What those who look at states know of how they came to be: when the power failed, and what was
/// lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Histories {
    /// Nothing, as a check that looks at what is left.
    #[default]
    Unknown,
    /// Something, by which they do not tell states apart that leave the same.
    Known,
    /// All of it: where the power failed at another moment, or something else was lost, it is another
    /// state.
    Apart,
}

/// What one of them allows.
#[derive(Debug, Clone)]
pub struct Member {
    /// The model.
    pub model: &'static Model,
    /// Its states.
    pub space: Space,
}

/// Moments of a run at which there are losses that no state has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowded {
    /// How many they are.
    pub moments: u64,
    /// Of how many: each number of events of each node.
    pub of: u64,
    /// So many operations of a node a state loses at most, but where it loses all at once.
    pub lost: usize,
    /// Whether no state has all nodes lose at once what was not durable, since they can be at too many
    /// places together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_without_all: bool,
}

/// States of one model, rule and relaxation, whose nodes are started in one order.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The model: its place among the members.
    pub member: usize,
    /// How many they are, and of which rule and relaxation.
    pub count: Count,
    /// The number of the first in the space of the model.
    first: u64,
    /// In which order the nodes are started.
    pub start: StartOrder,
}

impl Spaces {
    /// The states that are asked for, of one model each. All nodes are started together.
    ///
    /// # Errors
    /// If what is wanted does not fit the run.
    pub fn new(run: &Run, requests: &[Request]) -> Result<Self, Error> {
        Self::unless(run, requests, &|| false)
    }

    /// The same, unless it is said meanwhile that nobody wants them: of a long run they take seconds.
    /// Once it is said that has to stay.
    ///
    /// # Errors
    /// If what is wanted does not fit the run, or they are not wanted any more.
    pub fn unless(
        run: &Run,
        requests: &[Request],
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        let clocks = Arc::new(Clocks::of(run));
        let mut members = Vec::new();
        for request in requests {
            go_on(is_unwanted)?;
            let clocks = Arc::clone(&clocks);
            let space = Space::beside(run, request, clocks, &members, is_unwanted)?;
            let model = request.model;
            members.push(Member { model, space });
        }
        let with_files = run.nodes.iter().filter(|node| !node.initial.is_empty());
        let this = Self {
            kinds: kinds(&members).collect(),
            members,
            is_cluster: with_files.count() > 1,
            histories: Histories::default(),
        };
        Ok(this)
    }

    /// The states with each of these orders in which nodes are started. Those of the first order
    /// come first: with [`StartOrder::Together`] among them, each state of that has the number that
    /// it has without the others. Where nothing was lost a state is there once.
    #[must_use]
    pub fn with_starts(mut self, starts: &[StartOrder]) -> Self {
        if !self.is_cluster {
            return self;
        }
        let starts = StartOrder::each(starts);
        let of_order = |(place, start): (usize, &StartOrder)| {
            let start = *start;
            let due = kinds(&self.members).filter(move |kind| place == 0 || has_order(kind));
            due.map(move |kind| Kind {
                start: if has_order(&kind) {
                    start
                } else {
                    StartOrder::Together
                },
                ..kind
            })
        };
        self.kinds = starts.iter().enumerate().flat_map(of_order).collect();
        self
    }

    /// The same for those who know this of how states came to be.
    #[must_use]
    pub fn with_histories(self, histories: Histories) -> Self {
        Self { histories, ..self }
    }

    /// What those who look at states know of how they came to be.
    pub fn histories(&self) -> Histories {
        self.histories
    }

    /// What each of them allows.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// How many states there are, those of several models counted for each; `u64::MAX` stands for
    /// that many or more.
    pub fn len(&self) -> u64 {
        self.kinds
            .iter()
            .fold(0, |sum: u64, kind| sum.saturating_add(kind.count.states))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The kinds that there are, in the order of the states.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// How many there are of each kind, by the name of the model, in the order of the states.
    pub fn counts(&self) -> Vec<(&'static str, Count)> {
        let of_kind = |kind: &Kind| (self.members[kind.member].model.name, kind.count.clone());
        self.kinds.iter().map(of_kind).collect()
    }

    /// At how many moments of the run there are losses that no state has, since so many operations are
    /// at risk.
    pub fn crowded(&self, run: &Run) -> Crowded {
        let mut all = Crowded {
            moments: 0,
            of: 0,
            lost: self.members.first().map_or(0, |member| member.space.lost()),
            is_without_all: self
                .members
                .iter()
                .any(|member| member.space.is_without_all()),
        };
        for (number, node) in run.nodes.iter().enumerate() {
            if node.initial.is_empty() {
                continue;
            }
            for events in 0..=node.events.len() {
                let is_crowded = |member: &Member| member.space.is_crowded(number, events);
                all.moments += u64::from(self.members.iter().any(is_crowded));
                all.of += 1;
            }
        }
        all
    }

    /// Of which kind a state is, and its number in the space of the model.
    fn find(&self, index: u64) -> (&Kind, u64) {
        let mut kinds = self.numbered();
        let is_meant = |(kind, first): &(&Kind, u64)| index - first < kind.count.states;
        let found = kinds.find(is_meant);
        let (kind, first) = found.unwrap_or_else(|| panic!("there is no state {index}"));
        (kind, kind.first + (index - first))
    }

    /// The kinds, each with the number of the first of its states.
    fn numbered(&self) -> impl Iterator<Item = (&Kind, u64)> {
        numbered(&self.kinds, |kind| kind.count.states)
    }

    /// The states in which the disks are as far as in state number `index`, and less is missing
    /// ([`Space::with_less_missing`]); in the same order of starts, where there are several.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_less_missing(&self, index: u64) -> Vec<u64> {
        let (kind, own) = self.find(index);
        let less = self.members[kind.member].space.with_less_missing(own);
        self.numbers(kind, less)
    }

    /// The states with losses that state number `index` has as well, and nothing else, with their
    /// losses ([`Space::with_fewer_lost`]); in the same order of starts.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_fewer_lost(&self, index: u64) -> Vec<(u64, Vec<Loss>)> {
        let (kind, own) = self.find(index);
        let space = &self.members[kind.member].space;
        let fewer = self.numbers(kind, space.with_fewer_lost(own));
        let with_losses = fewer
            .into_iter()
            .map(|number| (number, self.losses(number)));
        with_losses.collect()
    }

    /// A state in which all is lost with the same being durable as in state number `index`
    /// ([`Space::with_all_lost`]); in the same order of starts.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_all_lost(&self, index: u64) -> Option<u64> {
        let (kind, own) = self.find(index);
        let all = self.members[kind.member].space.with_all_lost(own);
        self.numbers(kind, all.into_iter().collect()).pop()
    }

    /// What is lost in state number `index` ([`Space::losses`]).
    ///
    /// # Panics
    /// If there are not so many.
    pub fn losses(&self, index: u64) -> Vec<Loss> {
        let (kind, own) = self.find(index);
        self.members[kind.member].space.losses(own)
    }

    /// What was done to state number `index`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn relaxation(&self, index: u64) -> Relaxation {
        self.find(index).0.count.relaxation
    }

    /// State number `index`, if no more is lost in it than these ([`Space::with_losses`]), and which
    /// member it is of.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_losses(&self, index: u64, losses: &[Loss]) -> (usize, State) {
        let (kind, own) = self.find(index);
        let state = State {
            start: kind.start,
            ..self.members[kind.member].space.with_losses(own, losses)
        };
        (kind.member, state)
    }

    /// The numbers that states of a member have among all: those that are started like those of a
    /// kind.
    fn numbers(&self, kind: &Kind, own: Vec<u64>) -> Vec<u64> {
        let number = |less: u64| {
            let mut kinds = self.numbered().filter(|(other, _)| {
                let is_alike = other.start == kind.start || !has_order(other);
                is_alike && other.member == kind.member
            });
            kinds.find_map(|(other, first)| {
                let place = less.checked_sub(other.first)?;
                (place < other.count.states).then(|| first + place)
            })
        };
        own.into_iter().filter_map(number).collect()
    }

    /// Which member a state is of, and which of its states it is.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn place(&self, index: u64) -> (usize, u64) {
        let (kind, index) = self.find(index);
        (kind.member, index)
    }

    /// State number `index`, and which member it is of: what is on disks is told by that one's
    /// operations.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn state(&self, index: u64) -> (usize, State) {
        let (kind, index) = self.find(index);
        let state = State {
            start: kind.start,
            ..self.members[kind.member].space.state(index)
        };
        (kind.member, state)
    }
}

/// Whether the order in which nodes are started can make a difference: something was lost.
fn has_order(kind: &Kind) -> bool {
    kind.count.relaxation != Relaxation::Prefix
}

/// The states of all models, one after the other.
fn kinds(members: &[Member]) -> impl Iterator<Item = Kind> {
    let of_member = |(member, of): (usize, &Member)| {
        let next = move |first: &mut u64, count: Count| {
            let kind = Kind {
                member,
                first: *first,
                start: StartOrder::Together,
                count,
            };
            *first = first.saturating_add(kind.count.states);
            Some(kind)
        };
        of.space.counts().into_iter().scan(0, next)
    };
    members.iter().enumerate().flat_map(of_member)
}
