//! The moments at which the power fails.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::merged::Merged;
use super::{BlockError, BlockRequest, RecordedDisk};
use crate::nodes::Explore;
use crate::nodes::cuts::{Clocks, Cut, join};
use trace::{Action, Event, Run};

/// More cuts than this are not listed.
const CUTS_MAX: usize = 1_000_000;

/// A consistent cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) events: Vec<usize>,
    /// Of nodes with disks.
    pub(super) positions: Vec<usize>,
    /// Whether the next thing that a node does is a write that its disk may tear while it is in
    /// flight, and keeps from then on.
    pub(super) in_flight: Vec<bool>,
}

impl Moment {
    /// Adds what is in flight at another one at which disks hold the same and the same was told.
    /// What has happened at either has happened then: of two consistent cuts that is one.
    fn join(&mut self, other: &Self) {
        let both = self.in_flight.iter_mut().zip(&other.in_flight);
        let has_more = both.fold(false, |has_more, (own, other)| {
            let is_new = *other && !*own;
            *own |= *other;
            has_more || is_new
        });
        if has_more {
            join(&mut self.events, &other.events);
            join(&mut self.positions, &other.positions);
        }
    }

    pub(super) fn sum(&self) -> usize {
        self.events.iter().chain(&self.positions).sum()
    }
}

/// The moments at which the power fails, in order; no two of them are the same to all disks and to
/// who was told what.
pub(super) fn moments(
    run: &Run,
    disks: &[Option<RecordedDisk>],
    request: &BlockRequest,
) -> Result<Vec<Moment>, BlockError> {
    let search = Search::new(run, disks, request);
    let mut known: HashMap<_, usize> = HashMap::new();
    let mut moments: Vec<Moment> = Vec::new();
    let mut cuts = search.cuts()?;
    cuts.sort_by_key(|cut| (cut.iter().sum::<usize>(), cut.clone()));
    for cut in &cuts {
        let moment = search.moment(cut);
        match known.entry(search.what_tells_apart(&moment)) {
            Entry::Vacant(entry) => {
                entry.insert(moments.len());
                moments.push(moment);
            }
            Entry::Occupied(entry) => moments[*entry.get()].join(&moment),
        }
    }
    moments.sort_by_key(Moment::sum);
    Ok(moments)
}

/// Looks for the moments at which the power fails.
struct Search<'a> {
    run: &'a Run,
    disks: &'a [Option<RecordedDisk>],
    request: &'a BlockRequest,
    merged: Merged,
    clocks: Clocks,
    /// How many merged events each node has.
    all: Cut,
}

impl<'a> Search<'a> {
    fn new(run: &'a Run, disks: &'a [Option<RecordedDisk>], request: &'a BlockRequest) -> Self {
        let merged = Merged::of(run, disks);
        let nodes = merged.run.nodes.iter();
        Self {
            run,
            disks,
            request,
            clocks: Clocks::of(&merged.run),
            all: nodes.map(|node| node.events.len()).collect(),
            merged,
        }
    }

    /// Whether the first so many merged events of a node end with a flush.
    fn is_flush(&self, node: usize, events: usize) -> bool {
        let position = self.merged.at[node][events].1;
        let disk = self.disks[node].as_ref();
        self.merged.is_request(node, events)
            && disk.is_some_and(|disk| disk.log.is_behind_flush(position))
    }

    fn is_in_flight(&self, node: usize, events: usize) -> bool {
        self.request.states.tears() && self.merged.is_in_flight(self.disks, node, events)
    }

    /// Whether the power fails after so many merged events of a node.
    fn matters(&self, node: usize, events: usize) -> bool {
        // Never is more pending than when a flush arrives.
        if events < self.all[node] && self.is_flush(node, events + 1)
            || self.is_in_flight(node, events)
        {
            return true;
        }
        if self.merged.is_request(node, events) {
            return self.request.states.every_write();
        }
        match &self.merged.run.nodes[node].events[events - 1].action {
            Action::Mark { .. } => true,
            Action::File(op) if op.is_sync() => self.disks[node].is_some(),
            _ => false,
        }
    }

    /// The cuts at which the power fails, some of them more than once.
    fn cuts(&self) -> Result<Vec<Cut>, BlockError> {
        let all = self.all.iter().enumerate();
        let places = all.map(|(node, events)| {
            let places = (1..=*events).filter(|at| self.matters(node, *at));
            places.collect()
        });
        let places: Vec<Vec<usize>> = places.collect();
        let mut cuts = vec![vec![0; self.all.len()], self.clocks.greatest(&self.all)];
        for (node, places) in places.iter().enumerate() {
            for &events in places {
                cuts.extend(self.cuts_at(node, events));
            }
        }
        if self.request.explore == Explore::BruteForce {
            cuts.extend(combined(&self.clocks, &places)?);
        }
        Ok(cuts)
    }

    /// What the nodes may have done when one of them has so many merged events: the least, the most,
    /// and what they had by the same time.
    fn cuts_at(&self, node: usize, events: usize) -> Vec<Cut> {
        let most = |events| {
            let mut most = self.all.clone();
            most[node] = events;
            self.clocks.greatest(&most)
        };
        let nodes = &self.merged.run.nodes;
        let last = &nodes[node].events[events - 1];
        let mut cuts = vec![self.clocks.least(node, events).clone(), most(events)];
        if matches!(last.action, Action::Mark { .. }) {
            cuts.push(most(events - 1));
        }
        let ended = |event: &Event| event.end_ns <= last.end_ns;
        let by_then = nodes.iter().map(|node| node.events.partition_point(ended));
        cuts.push(self.clocks.greatest(&by_then.collect()));
        cuts
    }

    fn moment(&self, cut: &Cut) -> Moment {
        let in_flight = cut.iter().enumerate();
        let in_flight = in_flight.map(|(node, events)| self.is_in_flight(node, *events));
        self.merged.moment(cut, in_flight.collect())
    }

    /// What the disks hold, and how much each node was told.
    fn what_tells_apart(&self, moment: &Moment) -> (Vec<Option<(usize, usize)>>, Vec<usize>) {
        let disks = self.disks.iter().zip(&moment.positions);
        let written = disks.map(|(disk, position)| Some(disk.as_ref()?.writes(*position)));
        let is_told = |event: &&Event| matches!(event.action, Action::Mark { .. });
        let nodes = self.run.nodes.iter().zip(&moment.events);
        let told =
            nodes.map(|(node, events)| node.events[..*events].iter().filter(is_told).count());
        (written.collect(), told.collect())
    }
}

/// Each node at each place of its own: the least cuts that have all of that.
fn combined(clocks: &Clocks, places: &[Vec<usize>]) -> Result<Vec<Cut>, BlockError> {
    let count = places.iter().fold(1_usize, |count, places| {
        count.saturating_mul(places.len() + 1)
    });
    if count > CUTS_MAX {
        return Err(BlockError::Cuts);
    }
    let mut cuts: Vec<Cut> = vec![vec![0; places.len()]];
    for (node, places) in places.iter().enumerate() {
        let with = |cut: &Cut| {
            let with = |events: &usize| {
                let mut with = cut.clone();
                join(&mut with, clocks.least(node, *events));
                with
            };
            places.iter().map(with).collect::<Vec<_>>()
        };
        let more: Vec<_> = cuts.iter().flat_map(with).collect();
        cuts.extend(more);
        cuts.sort_unstable();
        cuts.dedup();
    }
    Ok(cuts)
}
