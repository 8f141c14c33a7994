//! Whether a crash can leave a state, whether it is visited or not; and what a crash would have left
//! had it come earlier.

use std::ops::Range;

use itertools::Itertools as _;

use super::places::Place;
use super::space::{NodeRules, NodeState, Relaxation, Space, State};

/// What a crash can cost a node whose disk has come so far: everything that a model allows, with
/// any number of losses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtRisk {
    /// The node's first so many micros are on its disk, or lost.
    pub micros: usize,
    /// What can be lost of them, ascending. A crash can leave all that has none of some of these
    /// parts, and none of those that are lost with one of them, but for those that exclude each
    /// other.
    pub parts: Vec<Part>,
    /// Two of these, as indices, are never lost both.
    pub exclude: Vec<(usize, usize)>,
}

/// What is lost as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its micros.
    pub micros: Range<usize>,
    /// The parts that are lost with it, as indices, ascending. It is one of them.
    pub with: Vec<usize>,
}

impl Space {
    /// What a crash after so many events of a node can cost it; several answers where it depends
    /// on how far the next call had come. What one of them allows is allowed.
    pub fn at_risk(&self, node: usize, events: usize) -> Vec<AtRisk> {
        self.nodes()[node].at_risk(events)
    }

    /// Whether a crash can leave a state: its cut is consistent, each node's disk is at a place that
    /// fits that, and the model lets the node lose what is lost, and nothing else with it. How many
    /// operations are lost, and of which nodes together, makes no difference: what the space visits
    /// is allowed, and more.
    pub fn allows(&self, state: &State) -> bool {
        let mut nodes = self.nodes().iter().zip(&state.cut).zip(&state.nodes);
        self.clocks().greatest(&state.cut) == state.cut
            && nodes.all(|((rules, events), kept)| rules.allows(*events, kept))
    }

    /// What the crash would have left had it come when no node had done more than so many events:
    /// nothing of what came later, and of the rest what the state has. Whether that is allowed is
    /// another question.
    pub fn earlier(&self, state: &State, most: &[usize]) -> State {
        let most: Vec<_> = state
            .cut
            .iter()
            .zip(most)
            .map(|(events, most)| *events.min(most))
            .collect();
        let cut = self.clocks().greatest(&most);
        let mut nodes = state.nodes.clone();
        for (node, kept) in nodes.iter_mut().enumerate() {
            if cut[node] < state.cut[node] {
                kept.micros = self.nodes()[node].micros.until(cut[node]);
                kept.lost.retain(|micro| *micro < kept.micros);
            }
        }
        self.named(State {
            cut,
            nodes,
            relaxation: state.relaxation,
            relaxed: Vec::new(),
            start: state.start,
        })
    }

    /// The state with the name of what is missing in it: `relaxation` and `relaxed` of one that was
    /// changed may be those of another.
    pub fn named(&self, state: State) -> State {
        let is_midway = |node: &usize| {
            state.nodes[*node].micros > self.nodes()[*node].micros.until(state.cut[*node])
        };
        let has_lost = |node: &usize| !state.nodes[*node].lost.is_empty();
        let all = 0..state.nodes.len();
        let relaxation = match state.relaxation {
            _ if all.clone().any(|node| is_midway(&node)) => Relaxation::Stopped,
            _ if !all.clone().any(|node| has_lost(&node)) => Relaxation::Prefix,
            Relaxation::Cut => Relaxation::Cut,
            Relaxation::Torn | Relaxation::AllTorn => Relaxation::Torn,
            _ => Relaxation::Lost,
        };
        let relaxed = all
            .filter(|node| has_lost(node) || is_midway(node))
            .collect();
        State {
            relaxation,
            relaxed,
            ..state
        }
    }
}

impl NodeRules {
    fn at_risk(&self, events: usize) -> Vec<AtRisk> {
        let fits = |place: &Place| (place.least..=place.most).contains(&events);
        let places = self.places.from(0).filter(fits);
        let moments = |place: &Place| {
            // What a sync keeps that has begun is not lost with the rest.
            let synced = self.operations.synced(events, place.most);
            let all: Vec<_> = std::iter::once(events).chain(synced).collect();
            all
        };
        places
            .flat_map(|place| {
                let of_moment = move |events| self.at_risk_at(place.micros, events);
                moments(&place).into_iter().map(of_moment)
            })
            .collect()
    }

    fn at_risk_at(&self, micros: usize, events: usize) -> AtRisk {
        let groups = &self.operations.groups;
        let is_open = |number: &usize| groups[*number].is_open(events);
        // What repeats others is lost with one of them.
        let seed = |number: usize| {
            let group = &groups[number];
            if group.is_repetition() {
                group.repeats().find(is_open)
            } else {
                Some(number).filter(is_open)
            }
        };
        let end = self.operations.groups_until(micros);
        let (open, seeds): (Vec<_>, Vec<_>) = (0..end)
            .filter_map(|number| Some((number, seed(number)?)))
            .unzip();
        let part = |(number, seed): (&usize, &usize)| {
            let with = self.operations.lost_with(&[*seed], micros, events);
            let index = |group: &usize| open.binary_search(group).expect("what is lost was open");
            Part {
                micros: self.operations.groups[*number].micros(),
                with: with.iter().map(index).collect(),
            }
        };
        AtRisk {
            micros,
            parts: open.iter().zip(&seeds).map(part).collect(),
            exclude: self.excluding(&open, events),
        }
    }

    /// The pairs of these groups that are never lost both, as indices. What repeats others is lost with
    /// any of them, and is nothing of its own.
    fn excluding(&self, groups: &[usize], events: usize) -> Vec<(usize, usize)> {
        let is_own =
            |(_, group): &(usize, &usize)| !self.operations.groups[**group].is_repetition();
        let pairs = groups
            .iter()
            .enumerate()
            .filter(is_own)
            .tuple_combinations();
        let excluding =
            pairs.filter(|((_, one), (_, other))| self.operations.exclude(**one, **other, events));
        excluding
            .map(|((one, _), (other, _))| (one, other))
            .collect()
    }

    /// Whether a crash after so many events can leave this on the disk.
    fn allows(&self, events: usize, kept: &NodeState) -> bool {
        let first = self
            .places
            .partition_point(|place| place.micros < kept.micros);
        let places = self.places.from(first);
        let mut places = places.take_while(|place| place.micros == kept.micros);
        let Some(place) = places.find(|place| (place.least..=place.most).contains(&events)) else {
            return false;
        };
        let Some(lost) = self.groups(&kept.lost) else {
            return false;
        };
        // What a sync keeps that has begun is not lost with the rest.
        let mut moments = std::iter::once(events).chain(self.operations.synced(events, place.most));
        moments.any(|events| {
            let groups = lost.iter().map(|group| &self.operations.groups[*group]);
            let is_open = groups
                .into_iter()
                .all(|group| group.is_open(events) && group.micros().end <= kept.micros);
            is_open && self.operations.lost_with(&lost, kept.micros, events) == lost
        })
    }

    /// The groups that some micros are; none if they are not whole groups.
    fn groups(&self, micros: &[usize]) -> Option<Vec<usize>> {
        let all = &self.operations.groups;
        let (mut groups, mut rest) = (Vec::new(), micros);
        while let [first, ..] = rest {
            let group = all.partition_point(|group| group.micros().end <= *first);
            let of_group = all.get(group)?.micros();
            let (own, others) = rest.split_at_checked(of_group.len())?;
            if !own.iter().copied().eq(of_group) {
                return None;
            }
            groups.push(group);
            rest = others;
        }
        Some(groups)
    }
}
