//! The states of one rule and relaxation: counted for each tuple of places, and made from a number.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::operations::Operations;
use super::places::Place;
use super::rules::{How, Rule};
use super::space::{NodeRules, Relaxation, Relaxations, Space};

/// What a node loses at its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Choice {
    /// Operations, and what cannot be kept without them.
    Operations {
        /// Which ones, ascending.
        lost: Vec<usize>,
        /// What is durable behind so many events is not lost with them, whether those have happened
        /// or not.
        synced: usize,
    },
    /// One group of the last operation.
    Group(usize),
}

impl Choice {
    const NOTHING: Self = Self::Operations {
        lost: Vec::new(),
        synced: 0,
    };

    /// The groups that are lost of the first so many micros, in a crash behind `events` events.
    /// Ascending.
    pub(super) fn groups(
        &self,
        operations: &Operations,
        micros: usize,
        events: usize,
    ) -> Vec<usize> {
        match self {
            Self::Operations { lost, synced } => {
                let events = events.max(*synced);
                let seeds: Vec<_> = lost
                    .iter()
                    .flat_map(|lost| operations.open_groups(*lost, events))
                    .collect();
                operations.lost_with(&seeds, micros, events)
            }
            Self::Group(group) => operations.lost_with(&[*group], micros, events),
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
    /// Behind each tuple from there on, how many states there are up to it.
    ends: Vec<u64>,
    /// What a node can lose while at no place another one can lose the like of it: it is lost alone.
    alone: HashSet<(usize, Choice)>,
}

impl Section {
    /// The sections of a rule, the likeliest bugs first.
    pub(super) fn all(space: &Space, rule: usize, wanted: Relaxations) -> Vec<Self> {
        let tuples = &space.rule(rule).1;
        let (whole, all) = (tuples.whole, tuples.len());
        let prefix = wanted.prefix && space.rule(rule).0.prefix;
        let mut sections = Vec::new();
        for (relaxation, is_wanted, range) in [
            (Relaxation::Prefix, prefix, 0..whole),
            (Relaxation::Lost, wanted.lost, 0..whole),
            (Relaxation::Cut, wanted.cut, 0..whole),
            (Relaxation::Stopped, wanted.stopped, whole..all),
        ] {
            let mut section = Self {
                rule,
                relaxation,
                first: range.start,
                ends: Vec::new(),
                alone: HashSet::new(),
            };
            if !is_wanted {
                continue;
            }
            section.alone = section.unpaired(space, range.clone());
            let mut end = 0_u64;
            for tuple in range {
                end = end.saturating_add(section.count(space, tuple));
                section.ends.push(end);
            }
            if section.len() > 0 {
                sections.push(section);
            }
        }
        sections
    }

    pub(super) fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default()
    }

    /// The tuple of state number `index`, and what each node of the rule loses.
    pub(super) fn choice(&self, space: &Space, index: u64) -> (usize, Vec<Choice>) {
        let place = self.ends.partition_point(|end| *end <= index);
        let rest = index - place.checked_sub(1).map_or(0, |before| self.ends[before]);
        let tuple = self.first + place;
        let choices = match self.ways(space, tuple) {
            Ways::One => vec![Choice::NOTHING; space.rule(self.rule).0.nodes.len()],
            Ways::Each {
                choices,
                nothing_too,
            } => each(&choices, rest + u64::from(!nothing_too)),
            Ways::Alike(alike) => pick(&alike, rest),
        };
        (tuple, choices)
    }

    fn count(&self, space: &Space, tuple: usize) -> u64 {
        match self.ways(space, tuple) {
            Ways::One => 1,
            Ways::Each {
                choices,
                nothing_too,
            } => {
                product(choices.iter().map(|node| 1 + node.len() as u64)) - u64::from(!nothing_too)
            }
            Ways::Alike(alike) => alike.iter().fold(0, |sum, nodes| {
                sum.saturating_add(product(nodes.iter().map(|node| node.len() as u64)))
            }),
        }
    }

    fn ways(&self, space: &Space, tuple: usize) -> Ways {
        let rule = &space.rule(self.rule).0;
        let stopped = self.relaxation == Relaxation::Stopped;
        if self.relaxation == Relaxation::Prefix || (stopped && rule.how == How::Alike) {
            return Ways::One;
        }
        let choices = self.choices(space, tuple);
        match rule.how {
            How::Each => Ways::Each {
                choices,
                nothing_too: stopped,
            },
            How::Alike => {
                let mut ways: Vec<_> = alike(space, rule, &choices).collect();
                ways.extend(self.losers(space, &choices).map(|(place, choice)| {
                    let mut one = vec![vec![Choice::NOTHING]; choices.len()];
                    one[place] = vec![choice.clone()];
                    one
                }));
                Ways::Alike(ways)
            }
        }
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
        let is_loss = matches!(self.relaxation, Relaxation::Lost | Relaxation::Cut);
        if !is_loss || rule.how == How::Each || rule.alone.is_empty() {
            return HashSet::new();
        }
        let (mut seen, mut paired) = (HashSet::new(), HashSet::new());
        for tuple in tuples {
            let choices = self.choices(space, tuple);
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
    fn choices(&self, space: &Space, tuple: usize) -> Vec<Vec<Choice>> {
        let (rule, tuples) = space.rule(self.rule);
        let base = tuples.base(space.nodes(), space.clocks(), rule, tuple);
        let of_node = |(node, place): (&usize, &u32)| {
            if !rule.relaxed.contains(node) {
                return Vec::new();
            }
            let rules = &space.nodes()[*node];
            let place = rules.places[*place as usize];
            match (rule.how, self.relaxation) {
                (_, Relaxation::Cut) => rules.cuts(&place, base[*node]),
                _ => rules.losses(&place, base[*node], space.lost()),
            }
        };
        let places = rule.nodes.iter().zip(tuples.places(tuple));
        places.map(of_node).collect()
    }
}

/// In which ways the nodes of a tuple lose something.
enum Ways {
    One,
    /// Each loses something or nothing; not all of them nothing, if that is not said.
    Each {
        choices: Vec<Vec<Choice>>,
        nothing_too: bool,
    },
    /// Sets of choices, of which each node takes one.
    Alike(Vec<Vec<Vec<Choice>>>),
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
    match choice {
        Choice::Operations { lost, .. } => {
            let mut kind: Vec<_> = lost
                .iter()
                .map(|lost| operations.all[*lost].likeness)
                .collect();
            kind.sort_unstable();
            kind
        }
        Choice::Group(group) => {
            let operation = &operations.all[operations.groups[*group].operation];
            vec![operation.likeness, (group - operation.groups.start) as u32]
        }
    }
}

impl NodeRules {
    /// Up to so many operations that can be lost at a place, each set once: none of them goes with
    /// the others. What leaves the node where it was before is left out, unless somebody can know
    /// better.
    fn losses(&self, place: &Place, events: usize, most: usize) -> Vec<Choice> {
        let mut losses = Losses {
            node: self,
            place,
            events,
            synced: 0,
            found: Vec::new(),
            seen: HashSet::new(),
        };
        losses.add(most, 0, &mut Vec::new());
        for synced in self.operations.synced(events, place.most) {
            losses.synced = synced;
            losses.add(most, 0, &mut Vec::new());
        }
        losses.found
    }

    /// Whether all of the last operation is lost and nobody can know that it was there.
    fn is_where_it_was(&self, place: &Place, lost: &[usize]) -> bool {
        let last = match (place.partial, place.operations.checked_sub(1)) {
            (0, Some(last)) => self.operations.all[last].groups.clone(),
            (0, None) => return false,
            (partial, _) => {
                let start = self.operations.all[place.operations].groups.start;
                start..start + partial
            }
        };
        let most = lost
            .iter()
            .map(|group| self.operations.groups[*group].cover)
            .fold(place.most, usize::min);
        last.clone().all(|group| lost.contains(&group))
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
        let operation = &self.operations.all[last];
        let parts = operation.groups.len();
        if !operation.grows || parts < 2 {
            return Vec::new();
        }
        // Without the last part it is one that was stopped midway, or lost.
        let lasts = |group: &usize| {
            let lost = self.operations.lost_with(&[*group], place.micros, events);
            lost.contains(&(operation.groups.end - 1))
        };
        self.operations
            .open_groups(last, events)
            .filter(|group| !lasts(group))
            .map(Choice::Group)
            .collect()
    }
}

/// A search for what can be lost at a place.
struct Losses<'a> {
    node: &'a NodeRules,
    place: &'a Place,
    events: usize,
    synced: usize,
    found: Vec<Choice>,
    /// The groups of those.
    seen: HashSet<Vec<usize>>,
}

impl Losses<'_> {
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
                if !self.node.is_where_it_was(self.place, &lost) && self.seen.insert(lost) {
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
fn each(choices: &[Vec<Choice>], number: u64) -> Vec<Choice> {
    let mut rest = number;
    let mut of_node = |of_node: &Vec<Choice>| {
        let radix = 1 + of_node.len() as u64;
        let digit = rest % radix;
        rest /= radix;
        digit
            .checked_sub(1)
            .map_or(Choice::NOTHING, |place| of_node[place as usize].clone())
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
