//! The states of one rule and relaxation: counted for each tuple of places, and made from a number.

mod choice;
mod choices;
mod losses;
mod ways;

use std::collections::HashSet;
use std::ops::Range;

use itertools::{Itertools, process_results};

use super::at_once::Form;
use super::places::Place;
use super::rules::{How, Rule};
use super::space::{Error, IsUnwanted, NodeRules, Relaxation, Relaxations, Space, go_on};
use super::sums::Sums;
use super::synced;

pub(super) use choice::{Choice, Part};
use choices::{Choices, One, Tears};
use ways::{Ways, alike, product};

/// Among more states of a place it is not looked for those that lack less than another one.
const LOOKED_THROUGH_MAX: u64 = 2000;

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
    ///
    /// # Errors
    /// If they are not wanted any more.
    pub(super) fn all(
        space: &Space,
        rule: usize,
        wanted: Relaxations,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Vec<Self>, Error> {
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
        Self::each(space, rule, all, is_unwanted)
    }

    /// Those in which all is lost at once that nothing had made durable, or some of each of that.
    ///
    /// # Errors
    /// If they are not wanted any more.
    pub(super) fn at_once(
        space: &Space,
        rule: usize,
        wanted: Relaxations,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Vec<Self>, Error> {
        let whole = space.rule(rule).1.whole;
        let all = [
            (Relaxation::Synced, wanted.synced, 0..whole),
            (Relaxation::NamesOnly, wanted.names_only, 0..whole),
            (Relaxation::AllTorn, wanted.all_torn, 0..whole),
            (Relaxation::OneKept, wanted.one_kept, 0..whole),
        ];
        Self::each(space, rule, all, is_unwanted)
    }

    /// Those that are wanted of these, each of some tuples, and have states.
    fn each(
        space: &Space,
        rule: usize,
        all: impl IntoIterator<Item = (Relaxation, bool, Range<usize>)>,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Vec<Self>, Error> {
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
            section.alone = section.unpaired(space, range.clone(), is_unwanted)?;
            // Most have states at few places, and often none at the first.
            let counts = range.map(|tuple| section.count(space, tuple, is_unwanted));
            let (empty, states) = process_results(counts, |counts| {
                let mut counts = counts.peekable();
                let empty = counts.peeking_take_while(|count| *count == 0).count();
                (empty, Sums::of(counts))
            })?;
            section.states = states;
            section.first += empty;
            if section.len() > 0 {
                sections.push(section);
            }
        }
        Ok(sections)
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
        let choices = self.counted(space, tuple).pick(rest, nodes);
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
        let ways = self.counted(space, tuple);
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

    fn count(
        &self,
        space: &Space,
        tuple: usize,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<u64, Error> {
        go_on(is_unwanted)?;
        Ok(match self.ways(space, tuple, is_unwanted)? {
            Ways::One => 1,
            Ways::Listed(ways) => ways.len() as u64,
            Ways::Each {
                choices,
                nothing_too,
            } => product(choices.iter().map(|node| 1 + node.len())) - u64::from(!nothing_too),
            Ways::Alike(alike) => alike.iter().fold(0, |sum, nodes| {
                sum.saturating_add(product(nodes.iter().map(|node| node.len() as u64)))
            }),
        })
    }

    /// The ways of a tuple of which they were counted: they are not too many.
    fn counted<'a>(&self, space: &'a Space, tuple: usize) -> Ways<'a> {
        let ways = self.ways(space, tuple, &|| false);
        ways.expect("they were counted")
    }

    fn ways<'a>(
        &self,
        space: &'a Space,
        tuple: usize,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Ways<'a>, Error> {
        let (rule, tuples) = space.rule(self.rule);
        if self.relaxation.is_at_once() {
            let forms = Form::all(self.relaxation);
            let choices = synced::choices(space, rule, (tuples, tuple), forms);
            return Ok(Ways::Listed(choices));
        }
        let stopped = self.relaxation == Relaxation::Stopped;
        if self.relaxation == Relaxation::Prefix || (stopped && rule.how == How::Alike) {
            return Ok(Ways::One);
        }
        let choices = self.choices(space, tuple, is_unwanted)?;
        // One alone loses the same as itself.
        if rule.how == How::Each || rule.relaxed.len() == 1 {
            return Ok(Ways::Each {
                choices,
                nothing_too: stopped,
            });
        }
        let choices: Vec<Vec<Choice>> = choices.iter().map(Choices::list).collect();
        Ok(Ways::Alike(self.ways_alike(space, &choices)))
    }

    /// What nodes that are relaxed together lose, and what one of them loses alone.
    fn ways_alike(&self, space: &Space, choices: &[Vec<Choice>]) -> Vec<Vec<Vec<Choice>>> {
        let mut ways: Vec<_> = alike(space, &space.rule(self.rule).0, choices).collect();
        ways.extend(self.losers(space, choices).map(|(place, choice)| {
            let mut one = vec![vec![Choice::NOTHING]; choices.len()];
            one[place] = vec![choice.clone()];
            one
        }));
        ways
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
    fn unpaired(
        &self,
        space: &Space,
        tuples: Range<usize>,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<HashSet<(usize, Choice)>, Error> {
        let rule = &space.rule(self.rule).0;
        let is_loss = !self.relaxation.is_at_once()
            && !matches!(self.relaxation, Relaxation::Prefix | Relaxation::Stopped);
        if !is_loss || rule.how == How::Each || rule.alone.is_empty() {
            return Ok(HashSet::new());
        }
        let (mut seen, mut paired) = (HashSet::new(), HashSet::new());
        for tuple in tuples {
            go_on(is_unwanted)?;
            let choices = self.choices(space, tuple, is_unwanted)?;
            let choices: Vec<_> = choices.iter().map(Choices::list).collect();
            let all = |choices| with_nodes(rule, choices);
            paired.extend(alike(space, rule, &choices).flat_map(all));
            seen.extend(all(choices));
        }
        seen.retain(|loss| rule.alone.contains(&loss.0) && !paired.contains(loss));
        Ok(seen)
    }

    /// What each node of a tuple can lose.
    fn choices<'a>(
        &self,
        space: &'a Space,
        tuple: usize,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Vec<Choices<'a>>, Error> {
        let (rule, tuples) = space.rule(self.rule);
        let base = tuples.base(space.nodes(), space.clocks(), rule, tuple);
        let of_node = |(node, place): (&usize, &u32)| {
            if !rule.relaxed.contains(node) {
                return Ok(Choices::Listed(Vec::new()));
            }
            let rules = &space.nodes()[*node];
            let place = rules.places.at(*place as usize);
            let at = (rules, place, base[*node]);
            self.choices_at(rule, space.lost(), at, is_unwanted)
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
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Choices<'a>, Error> {
        // What each of several loses is compared with what the others can: that takes a look at each.
        let is_alone = rule.how == How::Each || rule.relaxed.len() == 1;
        let is_counted = lost == 1 && !node.has_synced(&place, events);
        Ok(match self.relaxation {
            Relaxation::Cut => Choices::Listed(node.cuts(&place, events)),
            Relaxation::Torn if is_counted => Choices::Torn(Tears::new(node, place, events)),
            Relaxation::Torn => Choices::Listed(node.tears(&place, events, lost, is_unwanted)?),
            _ if is_counted && is_alone => Choices::One(One::new(node, place, events)),
            _ => Choices::Listed(node.losses(&place, events, lost, is_unwanted)?),
        })
    }
}

/// What each node of a rule can lose, with the node.
fn with_nodes(rule: &Rule, choices: Vec<Vec<Choice>>) -> Vec<(usize, Choice)> {
    let nodes = rule.nodes.iter().zip(choices);
    let of_node = |(node, choices): (&usize, Vec<Choice>)| {
        let node = *node;
        choices.into_iter().map(move |choice| (node, choice))
    };
    nodes.flat_map(of_node).collect()
}
