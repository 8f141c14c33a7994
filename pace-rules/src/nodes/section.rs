//! The states of one rule and relaxation: counted for each tuple of places, and made from a number.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use itertools::Itertools;

use super::at_once::Form;
use super::operations::Operations;
use super::places::Place;
use super::rules::{How, Rule};
use super::space::{NodeRules, Relaxation, Relaxations, Space};
use super::sums::Sums;
use super::synced;

/// Among more states of a place it is not looked for those that lack less than another one.
const LOOKED_THROUGH_MAX: u64 = 2000;

/// What a node loses at its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// Operations, and what cannot be kept without them.
    Operations {
        /// Which ones, ascending.
        lost: Vec<usize>,
        /// What is durable after so many events is not lost with them, whether those have happened
        /// or not.
        synced: usize,
    },
    /// The bytes of an operation, of which the size is there.
    Bytes {
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
    pub(super) const NOTHING: Self = Self::Operations {
        lost: Vec::new(),
        synced: 0,
    };

    /// After how many events what is durable is not lost, in a crash after `events` events.
    pub(super) fn moment(&self, events: usize) -> usize {
        match self {
            Self::Operations { synced, .. }
            | Self::Bytes { synced, .. }
            | Self::Tear { synced, .. }
            | Self::AtOnce { synced, .. } => events.max(*synced),
            Self::Group(_) => events,
        }
    }

    /// What is meant, and not what is lost with it, at a place of a node in a crash after `events`
    /// events.
    fn parts(&self, rules: &NodeRules, place: &Place, events: usize) -> Vec<Part> {
        let whole = |lost: &[usize]| lost.iter().copied().map(Part::Operation).collect();
        match self {
            Self::Operations { lost, .. } => whole(lost),
            Self::Bytes { operation, .. } => vec![Part::Bytes(*operation)],
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
    pub(super) fn operations(&self, rules: &NodeRules, place: &Place, events: usize) -> Vec<usize> {
        let parts = self.parts(rules, place, events).into_iter();
        let operation = |part| match part {
            Part::Operation(operation) | Part::Bytes(operation) | Part::Tear(operation, _) => {
                operation
            }
            Part::Group(group) => rules.operations.groups[group].operation(),
        };
        parts.map(operation).sorted_unstable().dedup().collect()
    }

    /// The same, but that no more than these operations are lost; nothing if none of them is.
    pub(super) fn only(&self, lost: Vec<usize>) -> Self {
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
    pub(super) fn groups(
        &self,
        operations: &Operations,
        micros: usize,
        events: usize,
    ) -> Vec<usize> {
        match self {
            Self::Operations { lost, synced } => {
                lost_of(operations, lost, (micros, events.max(*synced)))
            }
            Self::Bytes { operation, synced } => {
                let events = events.max(*synced);
                let bytes: Vec<_> = operations.open_bytes(*operation, events).collect();
                operations.lost_with(&bytes, micros, events)
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
pub(super) enum Part {
    Operation(usize),
    Bytes(usize),
    Tear(usize, usize),
    Group(usize),
}

impl Part {
    /// Whether it is one of these, or of an operation that is.
    fn is_in(&self, others: &[Self]) -> bool {
        let of_operation = |operation| others.contains(&Self::Operation(operation));
        others.contains(self)
            || match self {
                Self::Bytes(operation) | Self::Tear(operation, _) => of_operation(*operation),
                Self::Operation(_) | Self::Group(_) => false,
            }
    }
}

/// Some states, each with a number.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) rule: usize,
    pub(super) relaxation: Relaxation,
    /// The first tuple of places.
    first: usize,
    /// How many states there are of each tuple from there on.
    states: Sums,
    /// What a node can lose while at no place another one can lose the like of it: it is lost alone.
    alone: HashSet<(usize, Choice)>,
}

impl Section {
    /// The sections of a rule, the likeliest bugs first.
    pub(super) fn all(space: &Space, rule: usize, wanted: Relaxations) -> Vec<Self> {
        let tuples = &space.rule(rule).1;
        let (whole, all) = (tuples.whole, tuples.len());
        let prefix = wanted.prefix && space.rule(rule).0.prefix;
        let all = [
            (Relaxation::Prefix, prefix, 0..whole),
            (Relaxation::Lost, wanted.lost, 0..whole),
            (Relaxation::Cut, wanted.cut, 0..whole),
            (Relaxation::Torn, wanted.torn, 0..whole),
            (Relaxation::Stopped, wanted.stopped, whole..all),
        ];
        Self::each(space, rule, all)
    }

    /// Those in which all is lost at once that nothing had made durable, or some of each of that.
    pub(super) fn at_once(space: &Space, rule: usize, wanted: Relaxations) -> Vec<Self> {
        let whole = space.rule(rule).1.whole;
        let all = [
            (Relaxation::Synced, wanted.synced, 0..whole),
            (Relaxation::NamesOnly, wanted.names_only, 0..whole),
            (Relaxation::AllTorn, wanted.all_torn, 0..whole),
        ];
        Self::each(space, rule, all)
    }

    /// Those that are wanted of these, each of some tuples, and have states.
    fn each(
        space: &Space,
        rule: usize,
        all: impl IntoIterator<Item = (Relaxation, bool, Range<usize>)>,
    ) -> Vec<Self> {
        let mut sections = Vec::new();
        for (relaxation, is_wanted, range) in all {
            let mut section = Self {
                rule,
                relaxation,
                first: range.start,
                states: Sums::Ones(0),
                alone: HashSet::new(),
            };
            if !is_wanted {
                continue;
            }
            section.alone = section.unpaired(space, range.clone());
            section.states = Sums::of(range.map(|tuple| section.count(space, tuple)));
            if section.len() > 0 {
                sections.push(section);
            }
        }
        sections
    }

    pub(super) fn len(&self) -> u64 {
        self.states.total()
    }

    /// The tuple of state number `index`, and what each node of the rule loses.
    pub(super) fn choice(&self, space: &Space, index: u64) -> (usize, Vec<Choice>) {
        let place = self.states.find(index);
        let rest = index - self.states.of_first(place);
        let tuple = self.first + place;
        let nodes = space.rule(self.rule).0.nodes.len();
        let choices = self.ways(space, tuple).pick(rest, nodes);
        (tuple, choices)
    }

    /// The numbers of the states of a tuple; none if it is not one of this section.
    pub(super) fn of_tuple(&self, tuple: usize) -> Option<Range<u64>> {
        let place = tuple.checked_sub(self.first)?;
        let is_one = place < self.states.len();
        is_one.then(|| self.states.of_first(place)..self.states.of_first(place + 1))
    }

    /// The states of a tuple in which some of that is missing which is missing with these choices,
    /// and nothing else: by their numbers.
    pub(super) fn with_less_lost(
        &self,
        space: &Space,
        tuple: usize,
        choices: &[Choice],
    ) -> Vec<u64> {
        let lost = self.parts(space, tuple, choices);
        let most = match space.rule(self.rule).0.how {
            How::Alike => lost.iter().map(Vec::len).max(),
            How::Each => Some(lost.iter().map(Vec::len).sum()),
        };
        // To look at all that is lost at a place takes time.
        let is_worth_it =
            |range: &Range<u64>| most > Some(1) && range.end - range.start <= LOOKED_THROUGH_MAX;
        let Some(range) = self.of_tuple(tuple).filter(is_worth_it) else {
            return Vec::new();
        };
        let ways = self.ways(space, tuple);
        let is_less = |number: &u64| {
            let other = ways.pick(number - range.start, choices.len());
            let other = self.parts(space, tuple, &other);
            let mut nodes = other.iter().zip(&lost);
            other != lost && nodes.all(|(other, own)| other.iter().all(|part| part.is_in(own)))
        };
        range.clone().filter(is_less).collect()
    }

    /// What each node of a tuple loses by choice.
    fn parts(&self, space: &Space, tuple: usize, choices: &[Choice]) -> Vec<Vec<Part>> {
        let (rule, tuples) = space.rule(self.rule);
        let base = tuples.base(space.nodes(), space.clocks(), rule, tuple);
        let nodes = rule.nodes.iter().zip(tuples.places(tuple)).zip(choices);
        let of_node = |((node, place), choice): ((&usize, &u32), &Choice)| {
            let rules = &space.nodes()[*node];
            choice.parts(rules, &rules.places.at(*place as usize), base[*node])
        };
        nodes.map(of_node).collect()
    }

    fn count(&self, space: &Space, tuple: usize) -> u64 {
        match self.ways(space, tuple) {
            Ways::One => 1,
            Ways::Listed(ways) => ways.len() as u64,
            Ways::Each {
                choices,
                nothing_too,
            } => product(choices.iter().map(|node| 1 + node.len())) - u64::from(!nothing_too),
            Ways::Alike(alike) => alike.iter().fold(0, |sum, nodes| {
                sum.saturating_add(product(nodes.iter().map(|node| node.len() as u64)))
            }),
        }
    }

    fn ways<'a>(&self, space: &'a Space, tuple: usize) -> Ways<'a> {
        let (rule, tuples) = space.rule(self.rule);
        if self.relaxation.is_at_once() {
            let forms = Form::all(self.relaxation);
            return Ways::Listed(synced::choices(space, rule, (tuples, tuple), forms));
        }
        let stopped = self.relaxation == Relaxation::Stopped;
        if self.relaxation == Relaxation::Prefix || (stopped && rule.how == How::Alike) {
            return Ways::One;
        }
        let choices = self.choices(space, tuple);
        // One alone loses the same as itself.
        if rule.how == How::Each || rule.relaxed.len() == 1 {
            return Ways::Each {
                choices,
                nothing_too: stopped,
            };
        }
        let choices: Vec<Vec<Choice>> = choices.iter().map(Choices::list).collect();
        let mut ways: Vec<_> = alike(space, rule, &choices).collect();
        ways.extend(self.losers(space, &choices).map(|(place, choice)| {
            let mut one = vec![vec![Choice::NOTHING]; choices.len()];
            one[place] = vec![choice.clone()];
            one
        }));
        Ways::Alike(ways)
    }

    /// What the nodes of a tuple lose alone, each with the place of the node in the rule.
    fn losers<'a>(
        &'a self,
        space: &'a Space,
        choices: &'a [Vec<Choice>],
    ) -> impl Iterator<Item = (usize, &'a Choice)> {
        let nodes = space.rule(self.rule).0.nodes.iter();
        let of_node = |((place, choices), node): ((usize, &'a Vec<Choice>), &'a usize)| {
            let is_alone = |choice: &&Choice| self.alone.contains(&(*node, (*choice).clone()));
            choices
                .iter()
                .filter(is_alone)
                .map(move |choice| (place, choice))
        };
        choices.iter().enumerate().zip(nodes).flat_map(of_node)
    }

    /// What nodes that are relaxed together can lose, but in none of these tuples all of them.
    fn unpaired(&self, space: &Space, tuples: Range<usize>) -> HashSet<(usize, Choice)> {
        let rule = &space.rule(self.rule).0;
        let is_loss = !self.relaxation.is_at_once()
            && !matches!(self.relaxation, Relaxation::Prefix | Relaxation::Stopped);
        if !is_loss || rule.how == How::Each || rule.alone.is_empty() {
            return HashSet::new();
        }
        let (mut seen, mut paired) = (HashSet::new(), HashSet::new());
        for tuple in tuples {
            let choices: Vec<_> = self
                .choices(space, tuple)
                .iter()
                .map(Choices::list)
                .collect();
            let all = |choices: Vec<Vec<Choice>>| {
                let of_node = |(node, choices): (&usize, Vec<Choice>)| {
                    let node = *node;
                    choices.into_iter().map(move |choice| (node, choice))
                };
                rule.nodes
                    .iter()
                    .zip(choices)
                    .flat_map(of_node)
                    .collect::<Vec<_>>()
            };
            paired.extend(alike(space, rule, &choices).flat_map(&all));
            seen.extend(all(choices));
        }
        seen.retain(|loss| rule.alone.contains(&loss.0) && !paired.contains(loss));
        seen
    }

    /// What each node of a tuple can lose.
    fn choices<'a>(&self, space: &'a Space, tuple: usize) -> Vec<Choices<'a>> {
        let (rule, tuples) = space.rule(self.rule);
        let base = tuples.base(space.nodes(), space.clocks(), rule, tuple);
        let of_node = |(node, place): (&usize, &u32)| {
            if !rule.relaxed.contains(node) {
                return Choices::Listed(Vec::new());
            }
            let rules = &space.nodes()[*node];
            let place = rules.places.at(*place as usize);
            self.choices_at(rule, space.lost(), (rules, place, base[*node]))
        };
        let places = rule.nodes.iter().zip(tuples.places(tuple));
        places.map(of_node).collect()
    }

    /// What a node can lose at a place after so many events, of so many operations.
    fn choices_at<'a>(
        &self,
        rule: &Rule,
        lost: usize,
        (node, place, events): (&'a NodeRules, Place, usize),
    ) -> Choices<'a> {
        // What each of several loses is compared with what the others can: that takes a look at each.
        let is_alone = rule.how == How::Each || rule.relaxed.len() == 1;
        let is_counted = lost == 1 && !node.has_synced(&place, events);
        match self.relaxation {
            Relaxation::Cut => Choices::Listed(node.cuts(&place, events)),
            Relaxation::Torn if is_counted => Choices::Torn(Tears::new(node, place, events)),
            Relaxation::Torn => Choices::Listed(node.tears(&place, events, lost)),
            _ if is_counted && is_alone => Choices::One(One::new(node, place, events)),
            _ => Choices::Listed(node.losses(&place, events, lost)),
        }
    }
}

/// In which ways the nodes of a tuple lose something.
enum Ways<'a> {
    One,
    /// What each node loses, for each way.
    Listed(Vec<Vec<Choice>>),
    /// Each loses something or nothing; not all of them nothing, if that is not said.
    Each {
        choices: Vec<Choices<'a>>,
        nothing_too: bool,
    },
    /// Sets of choices, of which each node takes one.
    Alike(Vec<Vec<Vec<Choice>>>),
}

impl Ways<'_> {
    /// Way number `number`: what each of so many nodes loses.
    fn pick(&self, number: u64, nodes: usize) -> Vec<Choice> {
        match self {
            Self::One => vec![Choice::NOTHING; nodes],
            Self::Listed(ways) => ways[number as usize].clone(),
            Self::Each {
                choices,
                nothing_too,
            } => each(choices, number + u64::from(!nothing_too)),
            Self::Alike(alike) => pick(alike, number),
        }
    }
}

/// What a node can lose at a place.
enum Choices<'a> {
    /// One operation.
    One(One<'a>),
    /// A part of one write.
    Torn(Tears<'a>),
    /// Any of these.
    Listed(Vec<Choice>),
}

impl Choices<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::One(one) => one.len(),
            Self::Torn(tears) => tears.len(),
            Self::Listed(choices) => choices.len() as u64,
        }
    }

    fn nth(&self, number: u64) -> Choice {
        match self {
            Self::One(one) => one.all().nth(number as usize).expect("there are so many"),
            Self::Torn(tears) => tears.all().nth(number as usize).expect("there are so many"),
            Self::Listed(choices) => choices[number as usize].clone(),
        }
    }

    fn list(&self) -> Vec<Choice> {
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
struct One<'a> {
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
    fn new(node: &'a NodeRules, place: Place, events: usize) -> Self {
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

    fn len(&self) -> u64 {
        let at_risk = self.node.operations.at_risk(self.events);
        let named = if self.without_names { at_risk.named } else { 0 };
        let silent = self.silent.is_some_and(|last| self.is_at_risk(last));
        u64::from(at_risk.all - named - u32::from(silent)) + u64::from(at_risk.bytes)
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
        let bytes = (first..self.place.operations)
            .filter(|operation| operations.risks_bytes(*operation, self.events));
        whole.chain(bytes.map(|operation| Choice::Bytes {
            operation,
            synced: 0,
        }))
    }
}

/// The ways in which one write can be torn of those that a node can lose at a place. They are
/// counted without a look at each, but for those of the last operation.
#[derive(Debug, Clone, Copy)]
struct Tears<'a> {
    node: &'a NodeRules,
    place: Place,
    events: usize,
}

impl<'a> Tears<'a> {
    fn new(node: &'a NodeRules, place: Place, events: usize) -> Self {
        Self {
            node,
            place,
            events,
        }
    }

    fn len(&self) -> u64 {
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

/// In which ways the nodes of a rule lose the same, all that are relaxed.
fn alike<'a>(
    space: &'a Space,
    rule: &'a Rule,
    choices: &[Vec<Choice>],
) -> impl Iterator<Item = Vec<Vec<Choice>>> + 'a {
    let mut kinds: BTreeMap<Vec<u32>, Vec<Vec<Choice>>> = BTreeMap::new();
    for (place, of_node) in choices.iter().enumerate() {
        let operations = &space.nodes()[rule.nodes[place]].operations;
        for choice in of_node {
            kinds
                .entry(kind(operations, choice))
                .or_insert_with(|| vec![Vec::new(); rule.nodes.len()])[place]
                .push(choice.clone());
        }
    }
    kinds.into_values().filter_map(|mut choices| {
        for (of_node, node) in choices.iter_mut().zip(&rule.nodes) {
            if !rule.relaxed.contains(node) {
                of_node.push(Choice::NOTHING);
            }
        }
        let of_all = choices.iter().all(|of_node| !of_node.is_empty());
        of_all.then_some(choices)
    })
}

/// What makes choices of several nodes alike.
fn kind(operations: &Operations, choice: &Choice) -> Vec<u32> {
    let of_each = |lost: &[usize]| -> Vec<u32> {
        let likenesses = lost.iter().map(|lost| operations.all[*lost].likeness);
        likenesses.sorted_unstable().collect()
    };
    match choice {
        Choice::Operations { lost, .. } => of_each(lost),
        Choice::Bytes { operation, .. } => vec![operations.all[*operation].likeness, u32::MAX],
        Choice::Tear {
            operation,
            tear,
            lost,
            ..
        } => {
            let mut kind = of_each(lost);
            let own = operations.all[*operation].likeness;
            kind.extend([own, u32::MAX - 1 - *tear as u32]);
            kind
        }
        Choice::Group(group) => {
            let operation = &operations.all[operations.groups[*group].operation()];
            vec![
                operation.likeness,
                (group - operation.groups().start) as u32,
            ]
        }
        Choice::AtOnce { .. } => unreachable!("what is lost at once has a section of its own"),
    }
}

impl NodeRules {
    /// Up to so many operations that can be lost at a place, each set once: none of them goes with
    /// the others. What leaves the node where it was before is left out, unless somebody can know
    /// better.
    fn losses(&self, place: &Place, events: usize, most: usize) -> Vec<Choice> {
        let mut losses = Losses::new(self, place, events);
        losses.add_all(most);
        losses.found
    }

    /// Whether something may be durable already of what comes after so many events at a place, so
    /// that the same is lost with other things.
    fn has_synced(&self, place: &Place, events: usize) -> bool {
        self.operations.synced(events, place.most).next().is_some()
    }

    /// The groups of the last operation of a place, or those of the one that was stopped midway.
    fn last_groups(&self, place: &Place) -> Option<Range<usize>> {
        match (place.partial, place.operations.checked_sub(1)) {
            (0, last) => Some(self.operations.all[last?].groups()),
            (partial, _) => {
                let start = self.operations.all[place.operations].groups().start;
                Some(start..start + partial)
            }
        }
    }

    /// Whether all of the last operation is lost and nobody can know that it was there. What is lost
    /// was not durable after `moment` events.
    fn is_where_it_was(&self, place: &Place, lost: &[usize], moment: usize) -> bool {
        let Some(mut last) = self.last_groups(place) else {
            return false;
        };
        let most = lost
            .iter()
            .map(|group| self.operations.groups[*group].cover_at(moment))
            .fold(place.most, usize::min);
        last.all(|group| lost.contains(&group))
            && (place.partial > 0 || !self.operations.tells(place.least, most))
    }

    /// The last operation without one of its parts, if it is one that grows a file.
    fn cuts(&self, place: &Place, events: usize) -> Vec<Choice> {
        let Some(last) = place
            .operations
            .checked_sub(1)
            .filter(|_| place.partial == 0)
        else {
            return Vec::new();
        };
        self.operations
            .open_groups(last, events)
            .filter(|group| self.is_cut(place, *group, events))
            .map(Choice::Group)
            .collect()
    }

    /// Whether the last operation can be cut so that it lacks one of its groups: if it grows a file,
    /// and does not lack its last part with it. Then it is one that was stopped midway, or lost.
    fn is_cut(&self, place: &Place, group: usize, events: usize) -> bool {
        let operation = &self.operations.all[self.operations.groups[group].operation()];
        let lost = || self.operations.lost_with(&[group], place.micros, events);
        let groups = operation.groups();
        operation.grows && groups.len() > 1 && !lost().contains(&(groups.end - 1))
    }

    /// The ways to tear one write at a place, alone and while other operations are lost: with it up
    /// to `most` of them. None leaves what another relaxation does.
    fn tears(&self, place: &Place, events: usize, most: usize) -> Vec<Choice> {
        let mut losses = Losses::new(self, place, events);
        losses.add_all(most);
        let cuts = self.cuts(place, events);
        for cut in &cuts {
            let lost = cut.groups(&self.operations, place.micros, events);
            losses.seen.insert(&lost);
        }
        losses.found.clear();
        let synced = self.operations.synced(events, place.most);
        for synced in std::iter::once(0).chain(synced) {
            losses.synced = synced;
            losses.add_torn(most, &mut Vec::new());
        }
        losses.found
    }
}

/// A search for what can be lost at a place.
struct Losses<'a> {
    node: &'a NodeRules,
    place: &'a Place,
    events: usize,
    synced: usize,
    found: Vec<Choice>,
    seen: Seen,
}

/// Sets of groups that were found, by a hash: those of a long run have very many groups.
#[derive(Default)]
struct Seen(HashSet<[u64; 2]>);

impl Seen {
    /// Returns whether it was not there.
    fn insert(&mut self, groups: &[usize]) -> bool {
        let half = |number: u64| {
            let mut hasher = DefaultHasher::new();
            (number, groups).hash(&mut hasher);
            hasher.finish()
        };
        self.0.insert([half(0), half(1)])
    }
}

impl<'a> Losses<'a> {
    fn new(node: &'a NodeRules, place: &'a Place, events: usize) -> Self {
        Self {
            node,
            place,
            events,
            synced: 0,
            found: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Adds all sets of up to so many operations.
    fn add_all(&mut self, most: usize) {
        let synced = self.node.operations.synced(self.events, self.place.most);
        for synced in std::iter::once(0).chain(synced) {
            self.synced = synced;
            self.add(most, 0, &mut Vec::new());
            self.add_bytes(most);
        }
    }

    /// Adds the ways to tear each write while these operations are lost, and up to so many less one
    /// of them.
    fn add_torn(&mut self, most: usize, beside: &mut Vec<usize>) {
        if most == 0 {
            return;
        }
        let operations = &self.node.operations;
        let events = self.events.max(self.synced);
        let losable: Vec<_> = operations.losable(self.place.operations, events).collect();
        for operation in losable.iter().filter(|one| !beside.contains(one)) {
            for tear in operations.tears(*operation, events) {
                let choice = Choice::Tear {
                    operation: *operation,
                    tear,
                    lost: beside.clone(),
                    synced: self.synced,
                };
                let lost = choice.groups(operations, self.place.micros, self.events);
                if self.seen.insert(&lost) {
                    self.found.push(choice);
                }
            }
        }
        let next = beside.last().map_or(0, |last| last + 1);
        for operation in losable.into_iter().filter(|operation| *operation >= next) {
            beside.push(operation);
            self.add_torn(most - 1, beside);
            beside.pop();
        }
    }

    /// Adds sets that have these operations and up to so many more, from `first` on.
    fn add(&mut self, most: usize, first: usize, chosen: &mut Vec<usize>) {
        if most == 0 {
            return;
        }
        let losable: Vec<_> = self
            .node
            .operations
            .losable(self.place.operations, self.events.max(self.synced))
            .collect();
        for operation in losable.into_iter().filter(|operation| *operation >= first) {
            chosen.push(operation);
            if !self.goes_with_others(chosen) {
                let lost = self.lost(chosen);
                let moment = self.events.max(self.synced);
                let is_where_it_was = self.node.is_where_it_was(self.place, &lost, moment);
                if !is_where_it_was && self.seen.insert(&lost) {
                    self.found.push(Choice::Operations {
                        lost: chosen.clone(),
                        synced: self.synced,
                    });
                }
                self.add(most - 1, operation + 1, chosen);
            }
            chosen.pop();
        }
    }

    /// Adds the bytes of each operation whose size can be there without them.
    fn add_bytes(&mut self, most: usize) {
        let operations = &self.node.operations;
        let events = self.events.max(self.synced);
        let losable = operations.losable(self.place.operations, events);
        for operation in losable.filter(|_| most > 0) {
            if !operations.risks_bytes(operation, events) {
                continue;
            }
            let choice = Choice::Bytes {
                operation,
                synced: self.synced,
            };
            let lost = choice.groups(operations, self.place.micros, self.events);
            if self.seen.insert(&lost) {
                self.found.push(choice);
            }
        }
    }

    /// Whether one of some operations is lost with the others anyway.
    fn goes_with_others(&self, chosen: &[usize]) -> bool {
        let events = self.events.max(self.synced);
        chosen.len() > 1
            && chosen.iter().any(|one| {
                let others: Vec<_> = chosen
                    .iter()
                    .copied()
                    .filter(|other| other != one)
                    .collect();
                let lost = self.lost(&others);
                self.node
                    .operations
                    .open_groups(*one, events)
                    .all(|group| lost.contains(&group))
            })
    }

    fn lost(&self, chosen: &[usize]) -> Vec<usize> {
        let choice = Choice::Operations {
            lost: chosen.into(),
            synced: self.synced,
        };
        choice.groups(&self.node.operations, self.place.micros, self.events)
    }
}

fn product(factors: impl Iterator<Item = u64>) -> u64 {
    factors.fold(1, u64::saturating_mul)
}

/// Choice number `number` of all in which each node loses something or nothing.
fn each(choices: &[Choices<'_>], number: u64) -> Vec<Choice> {
    let mut rest = number;
    let mut of_node = |of_node: &Choices<'_>| {
        let radix = 1 + of_node.len();
        let digit = rest % radix;
        rest /= radix;
        digit
            .checked_sub(1)
            .map_or(Choice::NOTHING, |place| of_node.nth(place))
    };
    choices.iter().map(&mut of_node).collect()
}

/// Choice number `number` of sets of choices, of which each node takes one.
fn pick(alike: &[Vec<Vec<Choice>>], number: u64) -> Vec<Choice> {
    let mut rest = number;
    for choices in alike {
        let count = product(choices.iter().map(|of_node| of_node.len() as u64));
        if rest >= count {
            rest -= count;
            continue;
        }
        let mut of_node = |of_node: &Vec<Choice>| {
            let digit = rest % of_node.len() as u64;
            rest /= of_node.len() as u64;
            of_node[digit as usize].clone()
        };
        return choices.iter().map(&mut of_node).collect();
    }
    unreachable!("the number is less than all of them together")
}
