//! States in which all is lost at once that nothing had made durable, or some of each of that: what a
//! program gets that keeps something twice, and syncs neither.
//!
//! What is durable changes with few events only. Between two of these a disk that has lost everything
//! else holds the same, so a state is of the latest places there, with the most that was promised, and
//! of each place after which the node itself acknowledges something.

use std::ops::Range;

use itertools::Itertools;

use super::at_once::Form;
use super::cuts::{Cut, join};
use super::places::{Place, Tuples};
use super::rules::{How, Rule};
use super::section::Choice;
use super::space::{NodeRules, Space};

/// So many operations are lost at least, on all nodes together: another relaxation has the loss of one.
const LOST_MIN: u32 = 2;

/// What each node of a rule loses in the states of a tuple, in each of these forms.
pub(super) fn choices(
    space: &Space,
    rule: &Rule,
    (tuples, tuple): (&Tuples, usize),
    forms: &[Form],
) -> Vec<Vec<Choice>> {
    let base = tuples.base(space.nodes(), space.clocks(), rule, tuple);
    let at_risk = |node: &usize| space.nodes()[*node].operations.at_risk(base[*node]).all;
    let most = rule.relaxed.iter().map(at_risk).max();
    let mut found = Vec::new();
    for form in forms
        .iter()
        .filter(|form| most.is_some_and(|most| form.is_among(most)))
    {
        let nodes = rule.nodes.iter().zip(tuples.places(tuple));
        let nodes = nodes.map(|(node, place)| Losing::new(*node, space, *place, *form));
        let tuple = Tuple {
            space,
            form: *form,
            base: base.clone(),
            nodes: nodes.collect(),
        };
        let sets: Vec<_> = tuple.sets(rule).collect();
        // The first of those that keep one operation loses the most: at most places none has states.
        if form.is_first_of_many() && sets.is_empty() {
            break;
        }
        let kept = sets
            .iter()
            .filter(|(losers, moments)| tuple.is_kept(losers, moments));
        found.extend(kept.map(|(losers, moments)| tuple.choice(losers, moments)));
    }
    found
}

/// A node at its place.
struct Losing<'a> {
    node: usize,
    rules: &'a NodeRules,
    number: usize,
    place: Place,
    form: Form,
}

impl<'a> Losing<'a> {
    fn new(node: usize, space: &'a Space, number: u32, form: Form) -> Self {
        let (rules, number) = (&space.nodes()[node], number as usize);
        let place = rules.places.at(number);
        Self {
            node,
            rules,
            number,
            place,
            form,
        }
    }

    /// The numbers of events at this place with which something else is durable each, from the first
    /// one on that have happened.
    fn moments(&self, first: usize) -> impl Iterator<Item = usize> {
        let changes = self.rules.operations.changes(first..self.place.most);
        std::iter::once(first).chain(changes.map(|change| change + 1))
    }

    /// How many operations are lost if nothing is there but what is durable after so many events.
    fn lost(&self, moment: usize) -> u32 {
        self.form.count(self.rules.operations.at_risk(moment))
    }

    /// Whether something is lost, and something kept that a form which loses more does not keep.
    fn keeps(&self, moment: usize) -> bool {
        self.form.keeps(self.rules.operations.at_risk(moment))
    }

    /// Whether the same is durable after any of these numbers of events.
    fn is_same(&self, events: Range<usize>) -> bool {
        self.rules.operations.changes(events).next().is_none()
    }

    /// The next place at which no operation was stopped midway, if the operation before it leaves
    /// nothing on the disk.
    fn next(&self) -> Option<Place> {
        let mut after = self.rules.places.from(self.number + 1);
        let next = after.find(|place| place.partial == 0)?;
        let operations = &self.rules.operations;
        self.form
            .takes(operations, next.operations - 1)
            .then_some(next)
    }
}

/// The nodes of a rule at their places.
struct Tuple<'a> {
    space: &'a Space,
    form: Form,
    base: Cut,
    nodes: Vec<Losing<'a>>,
}

impl Tuple<'_> {
    /// Which nodes lose something, by their places in the rule, each with the number of events after
    /// which what is durable is not lost.
    fn sets(&self, rule: &Rule) -> impl Iterator<Item = (Vec<usize>, Vec<usize>)> {
        let relaxed = self
            .nodes
            .iter()
            .positions(|one| rule.relaxed.contains(&one.node));
        let relaxed: Vec<_> = relaxed.collect();
        let mut sets = vec![relaxed.clone()];
        if rule.how == How::Each && relaxed.len() > 1 {
            sets.extend(relaxed.into_iter().map(|place| vec![place]));
        }
        let of_set = move |losers: Vec<usize>| {
            let moments = self.of_set(rule, &losers).into_iter();
            moments.map(move |moments| (losers.clone(), moments))
        };
        sets.into_iter().flat_map(of_set)
    }

    /// Those in which these nodes lose something.
    fn of_set(&self, rule: &Rule, losers: &[usize]) -> Vec<Vec<usize>> {
        let moments = |place: &usize| {
            let one = &self.nodes[*place];
            let moments: Vec<_> = one.moments(self.base[one.node]).collect();
            moments
        };
        // With each event less is lost.
        let lost = |place: &usize| {
            let one = &self.nodes[*place];
            one.lost(self.base[one.node])
        };
        let is_much = losers.iter().map(lost).sum::<u32>() >= LOST_MIN;
        let each: Vec<_> = losers.iter().filter(|_| is_much).map(moments).collect();
        let all = each.into_iter().multi_cartesian_product();
        let is_one =
            |moments: &Vec<usize>| !moments.is_empty() && self.is_one(rule, losers, moments);
        all.filter(is_one).collect()
    }

    fn choice(&self, losers: &[usize], moments: &[usize]) -> Vec<Choice> {
        let mut choice = vec![Choice::NOTHING; self.nodes.len()];
        for (place, moment) in losers.iter().zip(moments) {
            choice[*place] = Choice::AtOnce {
                form: self.form,
                only: None,
                synced: *moment,
            };
        }
        choice
    }

    /// Whether there is a state in which each of these nodes has what is durable after so many
    /// events, and no later one that makes it superfluous.
    fn is_one(&self, rule: &Rule, losers: &[usize], moments: &[usize]) -> bool {
        let moments: Vec<_> = losers
            .iter()
            .copied()
            .zip(moments.iter().copied())
            .collect();
        let lost = moments
            .iter()
            .map(|(place, moment)| self.nodes[*place].lost(*moment));
        let keeps = |(place, moment): &(usize, usize)| self.nodes[*place].keeps(*moment);
        let is_too_little = lost.sum::<u32>() < LOST_MIN || !moments.iter().any(keeps);
        if is_too_little || (losers.len() > 1 && self.is_anothers(rule, &moments)) {
            return false;
        }
        let mut base = self.base.clone();
        for (place, moment) in &moments {
            let node = self.nodes[*place].node;
            join(&mut base, self.space.clocks().least(node, *moment));
        }
        self.fits(&base, &moments)
            && !self.is_earlier(&moments)
            && (moments
                .iter()
                .any(|one| self.tells(*one) && !self.form.is_of_the_last())
                || !moments
                    .iter()
                    .any(|one| self.goes_on(*one, &base, &moments)))
    }

    /// Whether only one of these nodes loses anything, and alone: that is another rule's, if it is
    /// not said that there is none.
    fn is_anothers(&self, rule: &Rule, moments: &[(usize, usize)]) -> bool {
        let lost = |(place, moment): &(usize, usize)| self.nodes[*place].lost(*moment);
        let mut losing = moments.iter().filter(|one| lost(one) > 0);
        match (losing.next(), losing.next()) {
            (Some((place, _)), None) => !rule.alone.contains(&self.nodes[*place].node),
            _ => false,
        }
    }

    /// Whether all this can have happened while the nodes are at their places, and what is durable is
    /// what it was.
    fn fits(&self, base: &Cut, moments: &[(usize, usize)]) -> bool {
        let is_same = |(place, moment): &(usize, usize)| {
            let one = &self.nodes[*place];
            one.is_same(*moment..base[one.node])
        };
        let mut nodes = self.nodes.iter();
        nodes.all(|one| base[one.node] <= one.place.most) && moments.iter().all(is_same)
    }

    /// Whether the only node was in the same state before. Either nothing that it has kept came after
    /// what is lost, and nothing was acknowledged since then; or nothing since something that was
    /// acknowledged, when the same was durable.
    fn is_earlier(&self, moments: &[(usize, usize)]) -> bool {
        let (Form::All, 1, [(place, moment)]) = (self.form, self.space.nodes().len(), moments)
        else {
            return false;
        };
        let operations = &self.nodes[*place].rules.operations;
        let first = operations.at_risk(*moment).first as usize;
        let began = operations.all[first].event();
        let since = operations.last_change(*moment);
        !self.tells((*place, *moment))
            && (operations.acknowledges(since..*moment)
                || (since <= began && !operations.acknowledges(began..*moment)))
    }

    /// Whether what is kept of all can be there without the rest, on each of these nodes.
    fn is_kept(&self, losers: &[usize], moments: &[usize]) -> bool {
        losers.iter().zip(moments).all(|(place, moment)| {
            let Losing { rules, place, .. } = &self.nodes[*place];
            self.form
                .is_kept(&rules.operations, (place.micros, *moment))
        })
    }

    /// Whether a node acknowledges something before more is durable.
    fn tells(&self, (place, moment): (usize, usize)) -> bool {
        let Losing { rules, place, .. } = &self.nodes[place];
        let mut changes = rules.operations.changes(moment..place.most);
        let until = changes.next().unwrap_or(place.most);
        rules.operations.acknowledges(moment..until)
    }

    /// Whether a node can do its next operation while the others stay where they are, and the same is
    /// durable.
    fn goes_on(
        &self,
        (place, moment): (usize, usize),
        base: &Cut,
        moments: &[(usize, usize)],
    ) -> bool {
        let one = &self.nodes[place];
        let Some(next) = one.next() else {
            return false;
        };
        let mut base = base.clone();
        join(&mut base, self.space.clocks().least(one.node, next.least));
        let others = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place);
        let is_same = |(other, moment): &(usize, usize)| {
            let other = &self.nodes[*other];
            other.is_same(*moment..base[other.node])
        };
        let fits = |(_, other): (usize, &Losing<'_>)| base[other.node] <= other.place.most;
        base[one.node] <= next.most
            && one.is_same(moment..next.least)
            && others.into_iter().all(fits)
            && moments.iter().all(is_same)
    }
}
