//! All crash states of a run that are to be visited, each with a number.

use std::sync::Arc;

use itertools::Itertools;

use super::alike::{self, Words};
use super::cuts::{Clocks, Cut};
use super::micro::{Micro, Micros, Split};
use super::model::Model;
use super::narrow::NARROW_MAX;
use super::operations::Operations;
use super::places::{Place, Places, Tuples};
use super::rules::{Rule, rules};
use super::section::{Choice, Section};
use super::spaces::Member;
use super::starts::StartOrder;
use crate::Sector;
use trace::{Node, Run};

/// Which nodes are relaxed, and together with which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explore {
    /// PACE's rule for replicated state machines: so many nodes with files are relaxed, all at once
    /// and in the same way. PACE takes one set of nodes for any; these are as many sets as there are
    /// nodes, since one that leads does not do what the others do. 0 is a majority of them, and then
    /// each node is relaxed alone, and all of them where they lose at once what was not durable:
    /// nodes that are said to do the same may not.
    ReplicatedStateMachine {
        /// How many.
        majority: usize,
    },
    /// PACE's rules for a primary with replicas: the primary alone (r3), one replica (r4), all
    /// nodes in the same way (r5).
    PrimaryReplicas {
        /// The primary, as an index into the run's nodes.
        primary: usize,
    },
    /// Every set of nodes, each with all that it could have lost.
    BruteForce,
    /// Every set of nodes, each in the same way: what PACE calls brute force.
    SameOnAll,
}

/// Which states to visit besides others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "any of them without the others"
)]
pub struct Relaxations {
    /// All that had happened.
    pub prefix: bool,
    /// Without some of the operations.
    pub lost: bool,
    /// Without a part of the last append or change of size.
    pub cut: bool,
    /// Without a part of a write.
    pub torn: bool,
    /// The last operation stopped midway.
    pub stopped: bool,
    /// Without all that nothing had made durable.
    pub synced: bool,
    /// Without all of that but names.
    pub names_only: bool,
    /// Without a part of each write that nothing had made durable.
    pub all_torn: bool,
    /// Without all that nothing had made durable but one operation, or a part of that.
    pub one_kept: bool,
}

impl Relaxations {
    /// Those of PACE, torn writes, and all losses at once.
    pub const ALL: Self = Self {
        prefix: true,
        lost: true,
        cut: true,
        torn: true,
        stopped: true,
        synced: true,
        names_only: true,
        all_torn: true,
        one_kept: true,
    };
}

impl Default for Relaxations {
    fn default() -> Self {
        Self::ALL
    }
}

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// What a node's file system may keep.
    pub model: &'static Model,
    /// Which nodes are relaxed.
    pub explore: Explore,
    /// How many operations a node loses at most; those that cannot be kept without them are not
    /// counted.
    pub lost: usize,
    /// How writes are torn.
    pub split: Split,
    /// What the disks write whole. The letter of the standard knows of no such thing.
    pub sector: Sector,
    /// Which states to visit.
    pub relaxations: Relaxations,
}

/// What a crash did to the operations of the relaxed nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relaxation {
    /// Nothing: all that had happened is there.
    Prefix,
    /// The last operation was stopped midway.
    Stopped,
    /// A part of the last append or change of size is missing.
    Cut,
    /// A part of a write is missing.
    Torn,
    /// Operations are missing.
    Lost,
    /// All that nothing had made durable is missing.
    Synced,
    /// The same, but for names, and perhaps sizes.
    NamesOnly,
    /// A part of each write is missing that nothing had made durable.
    AllTorn,
    /// All that nothing had made durable is missing, but one operation or a part of it.
    OneKept,
}

impl Relaxation {
    /// Whether something is missing of all that nothing had made durable, or can be.
    pub fn is_at_once(self) -> bool {
        matches!(
            self,
            Self::Synced | Self::NamesOnly | Self::AllTorn | Self::OneKept
        )
    }
}

/// An operation that is missing, or some of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Loss {
    /// The node.
    pub node: usize,
    /// Its event.
    pub event: usize,
}

/// How many states there are of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// Which nodes were relaxed, by whose rule.
    pub rule: String,
    /// How.
    pub relaxation: Relaxation,
    /// How many states; `u64::MAX` stands for that many or more.
    pub states: u64,
}

/// What is on the nodes' disks after a crash of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// For each node: so many of its events had happened.
    pub cut: Vec<usize>,
    /// What of them is on its disk.
    pub nodes: Vec<NodeState>,
    /// What was done to them.
    pub relaxation: Relaxation,
    /// The nodes to which it was done, ascending.
    pub relaxed: Vec<usize>,
    /// In which order they are started on it.
    pub start: StartOrder,
}

/// What is on one node's disk: its initial files, and the effects of micros on them, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeState {
    /// The first so many micros of the node…
    pub micros: usize,
    /// …but for these, ascending.
    pub lost: Vec<usize>,
}

/// Why there are no states to visit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A node that does not exist or has no files.
    #[error("node {0} has no files: name one with a data directory as the primary")]
    Primary(usize),
    /// More nodes than there are.
    #[error("a majority of {0} nodes, where {1} have files: ask for fewer")]
    Majority(usize, usize),
    /// Nothing to crash.
    #[error("no node has files: record at least one with a data directory")]
    NoFiles,
    /// Cuts that are too many to be looked at.
    #[error("there are more than {0} cuts: explore fewer nodes at once, or record a shorter run")]
    TooMany(usize),
    /// A node that did more than can be numbered.
    #[error(
        "node {0} has more calls, with the parts that a crash can leave of them, than {NARROW_MAX}: record a shorter run"
    )]
    TooLong(usize),
    /// Sets of operations that are too many to be listed.
    #[error(
        "at one place more than {0} sets of operations can be lost: lose fewer at once (--lost), or record a shorter run"
    )]
    TooManyLosses(usize),
    /// States that nobody wants any more.
    #[error("interrupted while the crash states were computed")]
    Unwanted,
}

/// Whether somebody has said that nobody wants what is computed. Who has said so once stays with it.
pub(super) type IsUnwanted<'a> = &'a dyn Fn() -> bool;

/// Ends what is computed if nobody wants it.
pub(super) fn go_on(is_unwanted: IsUnwanted<'_>) -> Result<(), Error> {
    if is_unwanted() {
        Err(Error::Unwanted)
    } else {
        Ok(())
    }
}

/// The crash states of a run.
///
/// A node's disk has a *place* in the order of its operations, and lacks some of those before. Both
/// bound which events can have happened: those of the place and no later operation, and no call
/// that made durable what is lost. Of the consistent cuts within these bounds a state has the
/// greatest, with the most acknowledgements; it is visited if there is one. For given places that
/// can be told of each node alone, since the least consistent cut of them is within every other.
#[derive(Debug, Clone)]
pub struct Space {
    nodes: Vec<NodeRules>,
    clocks: Arc<Clocks>,
    rules: Vec<(Rule, Tuples)>,
    sections: Vec<Section>,
    lost: usize,
    /// There are too many combinations of places for what all nodes lose at once.
    is_without_all: bool,
}

/// What the rules know of a node.
#[derive(Debug, Clone)]
pub(super) struct NodeRules {
    pub(super) micros: Micros,
    pub(super) operations: Operations,
    pub(super) places: Places,
    /// How many events it has.
    pub(super) events: usize,
}

impl NodeRules {
    /// Those of a node, and the words for its operations; nothing if more than `most` things would
    /// have to be numbered. Others are what the rules of other models know of the node.
    fn of(
        node: &Node,
        request: &Request,
        most: usize,
        others: &[&Micros],
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Option<(Self, Vec<Words>)>, Error> {
        let (model, sector_bytes) = (request.model, request.sector.bytes());
        go_on(is_unwanted)?;
        let Some((micros, cuts)) = Micros::of(node, request, most, others) else {
            return Ok(None);
        };
        let of = (model, sector_bytes);
        let (operations, words) = Operations::of(node, &micros, cuts, of, is_unwanted)?;
        let this = Self {
            places: Places::of(&operations, &micros, node.events.len()),
            micros,
            operations,
            events: node.events.len(),
        };
        Ok(Some((this, words)))
    }

    /// What is on the disk at a place without what is lost by choice, in a crash after `events`
    /// events, and how many events can have happened then at most.
    fn without(&self, place: &Place, choice: &Choice, events: usize) -> (NodeState, usize) {
        let groups = &self.operations.groups;
        let lost = choice.groups(&self.operations, place.micros, events);
        let moment = choice.moment(events);
        let until = lost.iter().map(|group| groups[*group].cover_at(moment));
        let most = until.fold(place.most, usize::min);
        debug_assert!(most >= events, "what is on the disk has happened");
        let lost = lost.iter().flat_map(|group| groups[*group].micros());
        let state = NodeState {
            micros: place.micros,
            lost: lost.sorted_unstable().collect(),
        };
        (state, most)
    }

    /// Says which of its operations other nodes have as well.
    fn number(&mut self, numbers: &[u32]) {
        for (operation, number) in self.operations.all.iter_mut().zip(numbers) {
            operation.likeness = *number;
        }
    }
}

impl Space {
    /// The states of a run.
    ///
    /// # Errors
    /// If what is wanted does not fit the run.
    pub fn new(run: &Run, request: &Request) -> Result<Self, Error> {
        Self::unless(run, request, &|| false)
    }

    /// The same, unless it is said meanwhile that nobody wants them. Once it is said that has to stay.
    ///
    /// # Errors
    /// If what is wanted does not fit the run, or they are not wanted any more.
    pub fn unless(
        run: &Run,
        request: &Request,
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<Self, Error> {
        Self::beside(run, request, Arc::new(Clocks::of(run)), &[], is_unwanted)
    }

    /// The same beside the states of other models, with the clocks of the run. The clocks are the
    /// same for all of them, and so is what nodes did, where they cut it into the same parts.
    pub(super) fn beside(
        run: &Run,
        request: &Request,
        clocks: Arc<Clocks>,
        others: &[Member],
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Self, Error> {
        let nodes = Self::nodes_of(run, request, others, is_unwanted)?;
        let with_files: Vec<_> = (0..nodes.len())
            .filter(|node| !run.nodes[*node].initial.is_empty())
            .collect();
        let mut this = Self {
            nodes,
            clocks,
            rules: Vec::new(),
            sections: Vec::new(),
            lost: request.lost,
            is_without_all: false,
        };
        for rule in rules(request.explore, &run.nodes, &with_files)? {
            match Tuples::of(&this.nodes, &this.clocks, &rule, is_unwanted) {
                // Of all nodes there may be far more than of a majority, which is swept all the same.
                Err(Error::TooMany(_)) if rule.only_at_once => this.is_without_all = true,
                tuples => this.rules.push((rule, tuples?)),
            }
        }
        for number in 0..this.rules.len() {
            if this.rules[number].0.only_at_once {
                continue;
            }
            let sections = Section::all(&this, number, request.relaxations, is_unwanted)?;
            this.sections.extend(sections);
        }
        // Behind all others, which keep their numbers.
        for number in 0..this.rules.len() {
            let sections = Section::at_once(&this, number, request.relaxations, is_unwanted)?;
            this.sections.extend(sections);
        }
        Ok(this)
    }

    /// The nodes of a run. What several of them do has the same number.
    fn nodes_of(
        run: &Run,
        request: &Request,
        others: &[Member],
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Vec<NodeRules>, Error> {
        let of_node = |(number, node): (usize, &Node)| {
            let others = others.iter().map(|other| &other.space);
            let others: Vec<_> = others.map(|space| &space.nodes[number].micros).collect();
            let rules = NodeRules::of(node, request, NARROW_MAX, &others, is_unwanted)?;
            rules.ok_or(Error::TooLong(number))
        };
        let nodes = run.nodes.iter().enumerate().map(of_node);
        let (mut nodes, words): (Vec<_>, Vec<_>) =
            nodes.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        for (node, numbers) in nodes.iter_mut().zip(alike::number(&words)) {
            node.number(&numbers);
        }
        Ok(nodes)
    }

    /// How many there are; `u64::MAX` stands for that many or more.
    pub fn len(&self) -> u64 {
        self.sections
            .iter()
            .fold(0, |sum, section| sum.saturating_add(section.len()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are of each kind, in the order of the states.
    pub fn counts(&self) -> Vec<Count> {
        let count = |section: &Section| Count {
            rule: self.rules[section.rule].0.name.clone(),
            relaxation: section.relaxation,
            states: section.len(),
        };
        self.sections.iter().map(count).collect()
    }

    /// State number `index`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn state(&self, index: u64) -> State {
        let (section, first) = self.section_of(index);
        let (tuple, choices) = section.choice(self, index - first);
        self.make(section, tuple, &choices)
    }

    /// The section that has a state, and the number of the first of its states.
    fn section_of(&self, index: u64) -> (&Section, u64) {
        let mut sections = self.numbered();
        let is_meant = |(section, first): &(&Section, u64)| index - first < section.len();
        sections.find(is_meant).expect("there are so many states")
    }

    /// The sections, each with the number of the first of its states.
    fn numbered(&self) -> impl Iterator<Item = (&Section, u64)> {
        numbered(&self.sections, Section::len)
    }

    /// States like state number `index` in which less is missing: nothing of what it lacks; nothing,
    /// since the crash came before the first of that; and some of the operations that it lacks. If
    /// one of them is broken as it is, the rest of what is missing in it breaks nothing.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_less_missing(&self, index: u64) -> Vec<u64> {
        let (section, first) = self.section_of(index);
        if section.relaxation == Relaxation::Prefix {
            return Vec::new();
        }
        let (tuple, choices) = section.choice(self, index - first);
        let state = self.make(section, tuple, &choices);
        let before = self.before_what_is_lost(&state);
        let in_order = std::iter::once(&state.cut)
            .chain(before.as_ref())
            .flat_map(|cut| self.in_order(cut));
        // Of what is lost at once there may be very much.
        let fewer = (!section.relaxation.is_at_once())
            .then(|| self.with_less_lost(section, tuple, &choices));
        in_order.chain(fewer.into_iter().flatten()).collect()
    }

    /// The states of the tuple of a rule that lack some of what is lost with these choices, and
    /// nothing else.
    fn with_less_lost(&self, section: &Section, tuple: usize, choices: &[Choice]) -> Vec<u64> {
        // What lacks some of each thing lacks less, and is no easier to understand.
        let others = self
            .numbered()
            .filter(|(other, _)| other.rule == section.rule && !other.relaxation.is_at_once());
        let less = others.flat_map(|(other, first)| {
            let less = other.with_less_lost(self, tuple, choices);
            less.into_iter().map(move |number| first + number)
        });
        less.collect()
    }

    /// The states with losses that state number `index` has as well, and nothing else, in which the
    /// disks have come as far; none if it is not one that lost all at once.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_fewer_lost(&self, index: u64) -> Vec<u64> {
        let (section, first) = self.section_of(index);
        if !section.relaxation.is_at_once() {
            return Vec::new();
        }
        let (tuple, choices) = section.choice(self, index - first);
        self.with_less_lost(section, tuple, &choices)
    }

    /// What is lost in state number `index`, but for what cannot be kept without that. Ascending.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn losses(&self, index: u64) -> Vec<Loss> {
        let (section, first) = self.section_of(index);
        let (tuple, choices) = section.choice(self, index - first);
        let of_node = |(node, lost): (usize, Vec<usize>)| {
            let operations = &self.nodes[node].operations.all;
            let event = move |operation: usize| operations[operation].event();
            lost.into_iter().map(move |operation| Loss {
                node,
                event: event(operation),
            })
        };
        let mut losses: Vec<_> = self
            .lost_operations(section, tuple, &choices)
            .into_iter()
            .flat_map(of_node)
            .collect();
        losses.sort_unstable();
        losses
    }

    /// State number `index`, if no more is lost in it than these, and what cannot be kept without
    /// them. What is not lost in it is kept.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_losses(&self, index: u64, losses: &[Loss]) -> State {
        let (section, first) = self.section_of(index);
        let (tuple, choices) = section.choice(self, index - first);
        let is_due = |node: usize, operation: &usize| {
            let event = self.nodes[node].operations.all[*operation].event();
            losses.contains(&Loss { node, event })
        };
        let lost = self.lost_operations(section, tuple, &choices).into_iter();
        let only = lost.zip(&choices).map(|((node, mut lost), choice)| {
            lost.retain(|operation| is_due(node, operation));
            choice.only(lost)
        });
        let only: Vec<_> = only.collect();
        self.named(self.make(section, tuple, &only))
    }

    /// A state in which all is lost with the same being durable as in state number `index`; none if
    /// that is not one which has kept one operation alone.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn with_all_lost(&self, index: u64) -> Option<u64> {
        let (section, first) = self.section_of(index);
        if section.relaxation != Relaxation::OneKept {
            return None;
        }
        let nodes = &self.rules[section.rule].0.nodes;
        // After which event of each node that loses something the same is durable.
        let durable = |choices: &[Choice]| {
            let since = |(node, choice): (&usize, &Choice)| {
                let moment = choice.kept_by()?;
                Some(self.nodes[*node].operations.last_change(moment))
            };
            nodes.iter().zip(choices).map(since).collect::<Vec<_>>()
        };
        let own = durable(&section.choice(self, index - first).1);
        let mut sections = numbered(&self.sections, Section::len);
        let (all, first) = sections.find(|(other, _)| {
            other.rule == section.rule && other.relaxation == Relaxation::Synced
        })?;
        let is_same = |number: &u64| durable(&all.choice(self, *number).1) == own;
        (0..all.len()).rfind(is_same).map(|number| first + number)
    }

    /// The operations that the nodes of a tuple lose by choice, each with the node.
    fn lost_operations(
        &self,
        section: &Section,
        tuple: usize,
        choices: &[Choice],
    ) -> Vec<(usize, Vec<usize>)> {
        let (rule, tuples) = &self.rules[section.rule];
        let base = tuples.base(self.nodes(), &self.clocks, rule, tuple);
        let nodes = rule.nodes.iter().zip(tuples.places(tuple)).zip(choices);
        let of_node = |((node, place), choice): ((&usize, &u32), &Choice)| {
            let rules = &self.nodes[*node];
            let place = rules.places.at(*place as usize);
            (*node, choice.operations(rules, &place, base[*node]))
        };
        nodes.map(of_node).collect()
    }

    /// The latest cut of those before a state's in which each node is about to do the first of what
    /// it lost; none if none has lost anything.
    fn before_what_is_lost(&self, state: &State) -> Option<Cut> {
        let mut most = state.cut.clone();
        for ((most, kept), rules) in most.iter_mut().zip(&state.nodes).zip(&self.nodes) {
            if let Some(first) = kept.lost.first() {
                *most = rules.micros.all[*first].event.min(*most);
            }
        }
        (most != state.cut).then(|| self.clocks.greatest(&most))
    }

    /// The states that lack nothing of what had happened at a cut, or until the next operation.
    fn in_order(&self, cut: &[usize]) -> impl Iterator<Item = u64> {
        let sections = self.numbered();
        let prefixes = sections.filter(|(section, _)| section.relaxation == Relaxation::Prefix);
        prefixes.filter_map(|(section, first)| {
            let tuple = self.whole_tuple(section.rule, cut)?;
            Some(first + section.of_tuple(tuple)?.start)
        })
    }

    /// The tuple of a rule in which nothing was stopped midway when so many events had happened.
    fn whole_tuple(&self, rule: usize, cut: &[usize]) -> Option<usize> {
        let (rule, tuples) = &self.rules[rule];
        let place = |node: &usize| {
            let places = &self.nodes[*node].places;
            let after = places.partition_point(|place| place.least <= cut[*node]);
            let operations = places.at(after - 1).operations;
            places.partition_point(|place| place.operations < operations) as u32
        };
        tuples.find(rule.nodes.iter().map(place))
    }

    /// The state of some places with what each node loses there.
    fn make(&self, section: &Section, tuple: usize, choices: &[Choice]) -> State {
        let (rule, tuples) = &self.rules[section.rule];
        let base = tuples.base(self.nodes(), &self.clocks, rule, tuple);
        let mut most: Cut = self.nodes.iter().map(|node| node.events).collect();
        let mut kept = vec![None; self.nodes.len()];
        let mut relaxed = Vec::new();
        for ((node, place), choice) in rule.nodes.iter().zip(tuples.places(tuple)).zip(choices) {
            let rules = &self.nodes[*node];
            let place = rules.places.at(*place as usize);
            let (state, until) = rules.without(&place, choice, base[*node]);
            if !state.lost.is_empty() || place.partial > 0 {
                relaxed.push(*node);
            }
            most[*node] = until;
            kept[*node] = Some(state);
        }
        let cut = self.clocks.greatest(&most);
        State {
            nodes: self.with_others(kept, &cut),
            cut,
            relaxation: section.relaxation,
            relaxed,
            start: StartOrder::Together,
        }
    }

    /// What is on the disks of all nodes, where those without a place have all that had happened.
    fn with_others(&self, kept: Vec<Option<NodeState>>, cut: &[usize]) -> Vec<NodeState> {
        let of_cut = |(node, kept): (usize, Option<NodeState>)| {
            kept.unwrap_or_else(|| NodeState {
                micros: self.nodes[node].micros.until(cut[node]),
                lost: Vec::new(),
            })
        };
        kept.into_iter().enumerate().map(of_cut).collect()
    }

    pub(super) fn nodes(&self) -> &[NodeRules] {
        &self.nodes
    }

    pub(super) fn rule(&self, number: usize) -> &(Rule, Tuples) {
        &self.rules[number]
    }

    pub(super) fn clocks(&self) -> &Clocks {
        &self.clocks
    }

    /// How many operations a node loses at most.
    pub(super) fn lost(&self) -> usize {
        self.lost
    }

    /// Whether no state has all nodes lose at once what was not durable, since they can be at too many
    /// places together.
    pub(super) fn is_without_all(&self) -> bool {
        self.is_without_all
    }

    /// The numbers of some of the states, ascending, none of them twice; each choice is as likely
    /// as any other.
    pub fn sample(&self, size: u64, seed: u64) -> Vec<u64> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        crate::sample::draw(size, self.len().into(), seed)
            .into_iter()
            .map(|number| number as u64)
            .collect()
    }

    /// Whether more operations of a node are at risk in a crash after so many events than its states
    /// lose, and these are not nearly all: there are losses that no state has.
    pub(super) fn is_crowded(&self, node: usize, events: usize) -> bool {
        let at_risk = self.nodes[node].operations.at_risk(events).all as usize;
        // All are lost at once too, and all but one.
        at_risk > self.lost + 2
    }

    /// A node's operations, cut into what can persist alone, in order.
    pub fn micros(&self, node: usize) -> &[Micro] {
        &self.nodes[node].micros.all
    }

    /// The same, to be kept.
    pub fn shared_micros(&self, node: usize) -> Arc<[Micro]> {
        Arc::clone(&self.nodes[node].micros.all)
    }
}

/// Parts of a space, each with the number of the first of its states. `u64::MAX` stands for more
/// than can be counted.
pub(super) fn numbered<T>(
    parts: &[T],
    states: impl Fn(&T) -> u64,
) -> impl Iterator<Item = (&T, u64)> {
    parts.iter().scan(0_u64, move |next, part| {
        let first = *next;
        *next = first.saturating_add(states(part));
        Some((part, first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::MODELS;
    use trace::{Action, Data, Event, FileId, FileOp, InitialFile};

    /// A node that appends so often to a file that it has not made.
    fn appending(calls: u64) -> Node {
        let event = |call: u64| Event {
            start_ns: 2 * call,
            end_ns: 2 * call + 1,
            process: 1,
            thread: 1,
            call: "write".into(),
            stack: 0,
            action: Action::File(FileOp::Write {
                file: FileId(1),
                offset: call,
                data: Data { at: call, len: 1 },
                size_before: call,
            }),
        };
        Node {
            name: "program".into(),
            initial: vec![InitialFile::empty_root()],
            events: (0..calls).map(event).collect(),
        }
    }

    #[test]
    fn a_run_of_which_the_parts_cannot_be_numbered_is_refused() {
        let node = appending(4);
        for model in MODELS {
            let request = Request {
                model,
                explore: Explore::ReplicatedStateMachine { majority: 0 },
                lost: 1,
                split: Split::default(),
                sector: Sector::default(),
                relaxations: Relaxations::ALL,
            };
            let of = |most| {
                NodeRules::of(&node, &request, most, &[], &|| false).expect("they are wanted")
            };
            let (rules, _) = of(NARROW_MAX).expect("there are few");
            let needed = node.events.len() + rules.micros.all.len() + 1;
            assert!(rules.places.len() <= needed);
            assert!(of(needed).is_some(), "{}", model.name);
            assert!(of(needed - 1).is_none(), "{}", model.name);
        }
        let error = Error::TooLong(2).to_string();
        assert!(error.contains("node 2 has more calls"), "{error}");
    }
}
