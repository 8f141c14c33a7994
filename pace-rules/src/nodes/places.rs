//! Where in the order of their operations nodes can be, alone and together.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::cuts::{Clocks, Cut, join};
use super::micro::Micros;
use super::narrow::Narrow;
use super::operations::{Operation, Operations};
use super::rules::{How, Rule};
use super::space::{Error, IsUnwanted, NodeRules, go_on};

/// More tuples are not looked at: a few hundred megabytes.
const TUPLES_MAX: usize = 20_000_000;

/// The same of a rule that a run is swept without if it has more.
const AT_ONCE_MAX: usize = 1_000_000;

/// How far a node's disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// So many operations are on it, or lost.
    pub(super) operations: usize,
    /// And so many groups of the next one, which was stopped midway; 0 if none was.
    pub(super) partial: usize,
    /// The node's first so many micros.
    pub(super) micros: usize,
    /// So many events have happened at least.
    pub(super) least: usize,
    /// And at most so many: none of the next operation's return.
    pub(super) most: usize,
}

/// All places of a node, in order.
#[derive(Debug, Clone)]
pub(super) struct Places(Vec<Stored>);

/// A place, as it is kept.
#[derive(Debug, Clone, Copy)]
struct Stored {
    operations: Narrow,
    partial: Narrow,
    micros: Narrow,
    least: Narrow,
    most: Narrow,
}

impl From<Place> for Stored {
    fn from(place: Place) -> Self {
        Self {
            operations: Narrow::new(place.operations),
            partial: Narrow::new(place.partial),
            micros: Narrow::new(place.micros),
            least: Narrow::new(place.least),
            most: Narrow::new(place.most),
        }
    }
}

impl From<Stored> for Place {
    fn from(place: Stored) -> Self {
        Self {
            operations: place.operations.get(),
            partial: place.partial.get(),
            micros: place.micros.get(),
            least: place.least.get(),
            most: place.most.get(),
        }
    }
}

impl Places {
    pub(super) fn of(operations: &Operations, micros: &Micros, events: usize) -> Self {
        let mut places: Vec<Stored> = Vec::new();
        let whole = 0..=operations.all.len();
        let all = whole.flat_map(|number| places_from(operations, micros, events, number));
        places.extend(all.map(Stored::from));
        places.shrink_to_fit();
        Self(places)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Place number `number`.
    pub(super) fn at(&self, number: usize) -> Place {
        self.0[number].into()
    }

    /// Those from a number on.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = Place> {
        let rest = self.0.get(first..).unwrap_or_default();
        rest.iter().map(|place| Place::from(*place))
    }

    /// How many of the first places are so; all others are not.
    pub(super) fn partition_point(&self, is_so: impl Fn(Place) -> bool) -> usize {
        self.0.partition_point(|place| is_so((*place).into()))
    }
}

/// The place after so many operations, and those of the next one if it is stopped midway.
fn places_from(
    operations: &Operations,
    micros: &Micros,
    events: usize,
    number: usize,
) -> Vec<Place> {
    let next = operations.all.get(number);
    let least = number
        .checked_sub(1)
        .map_or(0, |last| operations.all[last].event() + 1);
    let whole = Place {
        operations: number,
        partial: 0,
        micros: micros.until(least),
        least,
        most: next.map_or(events, Operation::event),
    };
    let midway = next.into_iter().flat_map(|next| {
        let groups = next.groups();
        let last = groups.end.saturating_sub(1).max(groups.start);
        // Not between a size and the bytes that it comes with.
        let between = (groups.start..last).filter(|group| !operations.is_one_with_next(*group));
        between.map(move |group| Place {
            operations: number,
            partial: group + 1 - groups.start,
            micros: operations.groups[group].micros().end,
            least: next.event(),
            most: next.event(),
        })
    });
    std::iter::once(whole).chain(midway).collect()
}

/// The places of a rule's nodes that they can have at the same time.
#[derive(Debug, Clone, Default)]
pub(super) struct Tuples {
    width: usize,
    /// Indices into the places of the nodes, one after the other.
    flat: Vec<u32>,
    /// How many of them, from the first on, have no operation that was stopped midway.
    pub(super) whole: usize,
}

impl Tuples {
    pub(super) fn of(
        nodes: &[NodeRules],
        clocks: &Clocks,
        rule: &Rule,
        is_unwanted: IsUnwanted<'_>,
    ) -> Result<Self, Error> {
        let mut search = Search {
            nodes,
            clocks,
            rule,
            is_unwanted,
            midway: Midway::None,
            found: Self {
                width: rule.nodes.len(),
                ..Self::default()
            },
        };
        let nothing = vec![0; nodes.len()];
        search.extend(&mut Vec::new(), &nothing)?;
        search.found.whole = search.found.len();
        search.midway = Midway::Together;
        search.extend(&mut Vec::new(), &nothing)?;
        for (node, place) in search.unpaired() {
            search.midway = Midway::Alone(node, place);
            search.extend(&mut Vec::new(), &nothing)?;
        }
        search.found.flat.shrink_to_fit();
        Ok(search.found)
    }

    pub(super) fn len(&self) -> usize {
        self.flat.len() / self.width
    }

    /// The places of a tuple, one for each node of the rule.
    pub(super) fn places(&self, tuple: usize) -> &[u32] {
        &self.flat[tuple * self.width..(tuple + 1) * self.width]
    }

    /// The tuple of these places, if it has no operation that was stopped midway. Those come first,
    /// in ascending order.
    pub(super) fn find(&self, places: impl Iterator<Item = u32>) -> Option<usize> {
        let places: Vec<_> = places.collect();
        let mut range = 0..self.whole;
        while !range.is_empty() {
            let middle = range.start.midpoint(range.end);
            match self.places(middle).cmp(&places) {
                Ordering::Less => range.start = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => range.end = middle,
            }
        }
        None
    }

    /// The least cut of a tuple: what must have happened for the nodes to be there.
    pub(super) fn base(
        &self,
        nodes: &[NodeRules],
        clocks: &Clocks,
        rule: &Rule,
        tuple: usize,
    ) -> Cut {
        let mut base = vec![0; nodes.len()];
        for (node, place) in rule.nodes.iter().zip(self.places(tuple)) {
            join(
                &mut base,
                clocks.least(*node, nodes[*node].places.at(*place as usize).least),
            );
        }
        base
    }
}

struct Search<'a> {
    nodes: &'a [NodeRules],
    clocks: &'a Clocks,
    rule: &'a Rule,
    is_unwanted: IsUnwanted<'a>,
    midway: Midway,
    found: Tuples,
}

/// Which operations that were stopped midway are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Midway {
    None,
    /// The same of all nodes that are relaxed.
    Together,
    /// That of one node, at this place of it.
    Alone(usize, u32),
}

impl Search<'_> {
    /// Adds places of the nodes that have none yet, in all ways that fit those that have.
    fn extend(&mut self, chosen: &mut Vec<u32>, base: &Cut) -> Result<(), Error> {
        let Some(node) = self.rule.nodes.get(chosen.len()).copied() else {
            return self.keep(chosen);
        };
        // Earlier ones lack what another node has heard of.
        let first = self.nodes[node]
            .places
            .partition_point(|place| place.most < base[node]);
        for number in first..self.nodes[node].places.len() {
            go_on(self.is_unwanted)?;
            let place = self.nodes[node].places.at(number);
            let mut more = base.clone();
            join(&mut more, self.clocks.least(node, place.least));
            // From here on they have heard of what others have not done.
            if self.is_beyond(chosen, &more) {
                break;
            }
            if more[node] <= place.most && self.fits(chosen, node, number as u32) {
                chosen.push(number as u32);
                self.extend(chosen, &more)?;
                chosen.pop();
            }
        }
        Ok(())
    }

    /// Keeps places of all nodes, if one of them is midway where that is looked for, and none where
    /// it is not.
    fn keep(&mut self, chosen: &[u32]) -> Result<(), Error> {
        let mut places = chosen.iter().zip(&self.rule.nodes);
        let is_midway = places.any(|(place, node)| self.place(*node, *place).partial > 0);
        if is_midway == (self.midway != Midway::None) {
            self.found.flat.extend_from_slice(chosen);
        }
        let most = if self.rule.only_at_once {
            AT_ONCE_MAX
        } else {
            TUPLES_MAX
        };
        if self.found.len() > most {
            return Err(Error::TooMany(most));
        }
        Ok(())
    }

    fn place(&self, node: usize, place: u32) -> Place {
        self.nodes[node].places.at(place as usize)
    }

    fn is_beyond(&self, chosen: &[u32], base: &Cut) -> bool {
        let mut chosen = chosen.iter().zip(&self.rule.nodes);
        chosen.any(|(place, node)| base[*node] > self.place(*node, *place).most)
    }

    /// The places where a node is midway, but in no tuple that was found: the others are never
    /// midway in the like of it at the same time.
    fn unpaired(&self) -> Vec<(usize, u32)> {
        let nodes = self.rule.nodes.iter().enumerate();
        let alone = nodes.filter(|(_, node)| self.rule.alone.contains(node));
        let of_node = |(column, node): (usize, &usize)| {
            let tuples = self.found.whole..self.found.len();
            let found: HashSet<u32> = tuples
                .map(|tuple| self.found.places(tuple)[column])
                .collect();
            let places = self.nodes[*node].places.from(0).zip(0..);
            let midway = places.filter(|(place, _)| place.partial > 0);
            let unpaired = midway.map(|(_, number)| (*node, number));
            unpaired
                .filter(|(_, number)| !found.contains(number))
                .collect::<Vec<_>>()
        };
        alone.flat_map(of_node).collect()
    }

    /// Whether a node may be midway there, or must be.
    fn fits(&self, chosen: &[u32], node: usize, number: u32) -> bool {
        let place = self.place(node, number);
        match self.midway {
            Midway::Alone(one, at) if node == one => return number == at,
            Midway::None | Midway::Alone(..) => return place.partial == 0,
            Midway::Together => {}
        }
        if self.rule.how == How::Alike && !self.rule.relaxed.contains(&node) {
            return place.partial == 0;
        }
        if self.rule.how == How::Each {
            return true;
        }
        let likeness = |node: usize, place: &Place| {
            (
                place.partial,
                self.nodes[node]
                    .operations
                    .all
                    .get(place.operations)
                    .map(|operation| operation.likeness),
            )
        };
        let mut relaxed = chosen
            .iter()
            .zip(&self.rule.nodes)
            .filter(|(_, node)| self.rule.relaxed.contains(node));
        place.partial > 0
            && relaxed.next().is_none_or(|(other, other_node)| {
                likeness(*other_node, &self.place(*other_node, *other)) == likeness(node, &place)
            })
    }
}
