//! All crash states of nodes whose disks were recorded, each with a number.
//!
//! The requests to a node's disk are events of the node too, by the same clock. So a consistent cut
//! says for each node what it had done, and what its disk had been sent: a receive is after the
//! send, and after everything that the sender's disk was asked for before it. What the disk may
//! have lost of that is what [`disk::Space`] says of one disk.

mod earlier;
mod merged;
mod moments;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use super::Explore;
use super::cuts::Cut;
use super::rules::majorities;
use super::starts::StartOrder;
use crate::disk;
use moments::{Moment, moments};
use trace::Run;

/// A node's disk: what it was asked to do, and when.
#[derive(Debug, Clone)]
pub struct RecordedDisk {
    /// What a crash may cost of it.
    pub log: disk::Log,
    /// When each request arrived, by the clock of the run's events, ascending.
    pub times_ns: Vec<u64>,
    /// So many of the first requests were durable before the run.
    pub durable: usize,
}

impl RecordedDisk {
    /// What tells moments apart: how many writes had arrived, and how many no crash can cost.
    fn writes(&self, position: usize) -> (usize, usize) {
        (
            self.log.submitted(position),
            self.log.durable_writes(position),
        )
    }

    /// When the next request arrived that changes what a crash may leave, if there was one.
    fn next_change(&self, position: usize) -> Option<u64> {
        let here = self.writes(position);
        let later = self.times_ns.iter().enumerate().skip(position);
        let mut changes = later.filter(|(place, _)| self.writes(place + 1) != here);
        changes.next().map(|(_, time_ns)| *time_ns)
    }
}

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub struct BlockRequest {
    /// Which nodes are relaxed, and together with which.
    pub explore: Explore,
    /// Which states of each disk. A sample is not looked at.
    pub states: disk::States,
}

/// What is on the nodes' disks after a crash of all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlockState {
    /// For each node: so many of its events had happened.
    pub cut: Vec<usize>,
    /// For each node that has a disk: the state of that.
    pub disks: Vec<Option<disk::State>>,
    /// The most that was done to one of them.
    pub kind: disk::Kind,
    /// In which order the nodes are started on it.
    pub start: StartOrder,
}

/// How many states there are of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockCount {
    /// The nodes that were relaxed, as indices into the run's.
    pub relaxed: Vec<usize>,
    /// How; where each has lost anything, the least that there is.
    pub kind: disk::Kind,
    /// In which order the nodes are started.
    pub start: StartOrder,
    /// How many states; `u64::MAX` stands for that many or more.
    pub states: u64,
}

/// Why there are no states to visit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// Nothing to crash.
    #[error("no node has a disk that was recorded: record it with one, such as ext4")]
    NoDisk,
    /// A primary without one.
    #[error("node {0} has no disk that was recorded: name one that has as the primary")]
    Primary(usize),
    /// A majority that there is not.
    #[error("a majority of {0} nodes, where {1} have disks: ask for fewer")]
    Majority(usize, usize),
    /// Too many to be listed.
    #[error(
        "there are more than a million cuts of all nodes: use --explore pace, or states without every-write"
    )]
    Cuts,
}

/// The crash states of a run whose nodes' disks were recorded.
///
/// **Where the power fails.** Where something was promised: after every acknowledgement and every
/// sync, and before the next acknowledgement. Where the most can be lost: before every flush. With
/// `every-write` after every request to a disk too. Where writes are torn, also before every write
/// with FUA, which is in flight there.
/// The other nodes have done what must have come before then; what they had done by the same time;
/// and all that may have come before. With [`Explore::BruteForce`] they are at any such moment of
/// their own.
///
/// **What is lost.** Nothing; or on all nodes of a set that [`Explore`] names something of the same
/// kind at once: the writes of the same rank, and on those that have none of that rank, nothing.
/// With [`Explore::BruteForce`] each of them has lost anything.
#[derive(Debug)]
pub struct BlockSpace {
    disks: Vec<Option<RecordedDisk>>,
    states: disk::States,
    moments: Vec<Moment>,
    sets: Vec<Vec<usize>>,
    /// Whether each node has a state of its own.
    is_free: bool,
    blocks: Vec<Block>,
    /// In which orders nodes are started: each state is there once for each.
    starts: Vec<StartOrder>,
    /// What a disk may have lost at a position, with a write in flight or not, of those that were
    /// looked at.
    known: Mutex<HashMap<(usize, usize, bool), Options>>,
}

/// States of one kind at one moment.
#[derive(Debug, Clone)]
struct Block {
    /// The number after the last one.
    end: u64,
    moment: usize,
    /// The set that is relaxed, as an index; none if nothing was lost.
    set: Option<usize>,
    kind: disk::Kind,
}

/// Of each kind, but for the one that lost nothing, how many, and the number of the first.
type Options = Arc<BTreeMap<disk::Kind, (u128, u128)>>;

/// How many there are, with the one that lost nothing.
fn all_of(options: &Options) -> u128 {
    1 + options.values().map(|(count, _)| count).sum::<u128>()
}

impl BlockSpace {
    /// The states of a run; `disks` are those of its nodes.
    ///
    /// # Errors
    /// If what is wanted does not fit the run.
    pub fn new(
        run: &Run,
        disks: Vec<Option<RecordedDisk>>,
        request: &BlockRequest,
    ) -> Result<Self, BlockError> {
        let with_disk: Vec<_> = (0..disks.len())
            .filter(|node| disks[*node].is_some())
            .collect();
        let Some(&first) = with_disk.first() else {
            return Err(BlockError::NoDisk);
        };
        let sets = sets(request.explore, &with_disk)?;
        debug_assert!(sets.iter().flatten().all(|node| *node >= first));
        let mut space = Self {
            moments: moments(run, &disks, request)?,
            disks,
            states: request.states,
            sets,
            is_free: request.explore == Explore::BruteForce && with_disk.len() > 1,
            blocks: Vec::new(),
            starts: vec![StartOrder::Together],
            known: Mutex::default(),
        };
        space.add_blocks(request.states.prefix());
        Ok(space)
    }

    /// How many events of each node of its run may have happened at the moment of a state: syncs may
    /// have returned since the first moment at which the disks were the same, which is the one that
    /// a state has.
    pub fn latest(&self, run: &Run, state: &BlockState) -> Cut {
        let of_node = |(node, first): (usize, &usize)| {
            let disk = self.disk(node).zip(state.disks[node].as_ref());
            let until = disk.and_then(|(disk, state)| disk.next_change(state.position));
            let events = run.nodes[node].events[*first..].iter();
            let returned = events.take_while(|event| {
                event.action.is_sync() && until.is_none_or(|until| event.end_ns <= until)
            });
            first + returned.count()
        };
        state.cut.iter().enumerate().map(of_node).collect()
    }

    fn add_blocks(&mut self, prefix: bool) {
        let mut blocks: Vec<(usize, Option<usize>, disk::Kind, u64)> = Vec::new();
        for moment in (0..self.moments.len()).filter(|_| prefix) {
            blocks.push((moment, None, disk::Kind::Prefix, 1));
        }
        let mut relaxed = Vec::new();
        for moment in (0..self.moments.len()).rev() {
            for (set, nodes) in self.sets.iter().enumerate() {
                for (kind, states) in self.kinds(moment, nodes) {
                    relaxed.push((moment, Some(set), kind, states));
                }
            }
        }
        // The likeliest first, as on one disk.
        relaxed.sort_by_key(|(_, set, kind, _)| (*kind, *set));
        blocks.extend(relaxed);
        for (moment, set, kind, states) in blocks {
            let end = self.of_one_start().saturating_add(states);
            self.blocks.push(Block {
                end,
                moment,
                set,
                kind,
            });
        }
    }

    /// What the nodes of a set may have lost at a moment, by kind, and how many states that is.
    fn kinds(&self, moment: usize, nodes: &[usize]) -> Vec<(disk::Kind, u64)> {
        let options: Vec<_> = nodes
            .iter()
            .map(|node| self.options(*node, moment))
            .collect();
        if self.is_free {
            let all = options.iter().map(all_of).fold(1, u128::saturating_mul) - 1;
            let kind = options.iter().flat_map(|options| options.keys()).min();
            return kind
                .map(|kind| (*kind, u64::try_from(all).unwrap_or(u64::MAX)))
                .into_iter()
                .collect();
        }
        let kinds: BTreeSet<_> = options
            .iter()
            .flat_map(|options| options.keys().copied())
            .collect();
        let with_count = |kind| {
            let counts: Vec<_> = options
                .iter()
                .map(|options| options.get(&kind).map_or(0, |(count, _)| *count))
                .collect();
            (
                kind,
                u64::try_from(self.own_ranks(nodes, &counts)).unwrap_or(u64::MAX),
            )
        };
        kinds
            .into_iter()
            .map(with_count)
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// How many ranks there are at which the nodes of a set lose something together, each of them
    /// as many as `counts` says. Where only the nodes of another set have that rank it is that
    /// one's.
    fn own_ranks(&self, nodes: &[usize], counts: &[u128]) -> u128 {
        let mut most = counts.iter().copied().max().unwrap_or(0);
        loop {
            let lose = nodes
                .iter()
                .zip(counts)
                .filter(|(_, count)| **count >= most)
                .map(|(node, _)| *node);
            let lose: Vec<_> = lose.collect();
            if most == 0 || lose == nodes || !self.sets.contains(&lose) {
                return most;
            }
            most = counts
                .iter()
                .copied()
                .filter(|count| *count < most)
                .max()
                .unwrap_or(0);
        }
    }

    /// What a node's disk may have lost at a moment.
    fn options(&self, node: usize, moment: usize) -> Options {
        let Moment {
            positions,
            in_flight,
            ..
        } = &self.moments[moment];
        let mut known = self.known.lock().expect("nobody panics with it");
        let of_disk = || {
            let space = self.of_disk(node, moment);
            let mut first = 0;
            let mut options = BTreeMap::new();
            for (kind, count) in space.kinds() {
                if kind != disk::Kind::Prefix {
                    // What is torn in flight comes right after what is torn and pending.
                    let (states, _) = options.entry(kind).or_insert((0, first));
                    *states += count;
                }
                first += count;
            }
            Arc::new(options)
        };
        known
            .entry((node, positions[node], in_flight[node]))
            .or_insert_with(of_disk)
            .clone()
    }

    fn of_disk(&self, node: usize, moment: usize) -> disk::Space<'_> {
        let recorded = self.disks[node].as_ref().expect("it has a disk");
        let Moment {
            positions,
            in_flight,
            ..
        } = &self.moments[moment];
        let states = self.states.at_one_point(in_flight[node]);
        disk::Space::new(&recorded.log, &[positions[node]], &states, 0)
    }

    /// The disk of a node, if it has one.
    pub fn disk(&self, node: usize) -> Option<&RecordedDisk> {
        self.disks[node].as_ref()
    }

    /// The states once for each of these orders in which nodes are started. Those of the first order
    /// come first: with [`StartOrder::Together`] among them, each state of one order has the number
    /// that it had. A disk that kept all that it was sent may lack what its node did: also then there
    /// is more than one order.
    #[must_use]
    pub fn with_starts(mut self, starts: &[StartOrder]) -> Self {
        if self.disks.iter().flatten().count() > 1 {
            self.starts = StartOrder::each(starts);
        }
        self
    }

    /// How many states there are of one order.
    fn of_one_start(&self) -> u64 {
        self.blocks.last().map_or(0, |block| block.end)
    }

    /// How many there are; `u64::MAX` stands for that many or more.
    pub fn len(&self) -> u64 {
        let orders = self.starts.len() as u64;
        self.of_one_start().saturating_mul(orders)
    }

    /// In which order the nodes are started on a state, and its number among those of one order.
    fn start(&self, index: u64) -> (StartOrder, u64) {
        let states = self.of_one_start();
        (self.starts[(index / states) as usize], index % states)
    }

    /// The place of the block that has a state of one order.
    fn block_of(&self, index: u64) -> usize {
        self.blocks.partition_point(|block| block.end <= index)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there are of each kind, in the order of the states.
    pub fn counts(&self) -> Vec<BlockCount> {
        let mut counts: Vec<BlockCount> = Vec::new();
        let mut start = 0;
        for block in &self.blocks {
            let states = block.end - start;
            start = block.end;
            let relaxed = block.set.map_or(Vec::new(), |set| self.sets[set].clone());
            match counts
                .iter_mut()
                .find(|count| count.kind == block.kind && count.relaxed == relaxed)
            {
                Some(count) => count.states = count.states.saturating_add(states),
                None => counts.push(BlockCount {
                    relaxed,
                    kind: block.kind,
                    start: StartOrder::Together,
                    states,
                }),
            }
        }
        let of_order = |start: &StartOrder| {
            let start = *start;
            let counts = counts.iter().cloned();
            counts.map(move |count| BlockCount { start, ..count })
        };
        self.starts.iter().flat_map(of_order).collect()
    }

    /// The state of the same moment as state number `index` in which no disk has lost anything, in the
    /// same order of starts; none if it is that one, or such states are not among these.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn in_order(&self, index: u64) -> Option<u64> {
        let (_, own) = self.start(index);
        let Block { moment, kind, .. } = self.blocks[self.block_of(own)];
        // They come first, one of each moment.
        let has_prefix = self.blocks[0].kind == disk::Kind::Prefix;
        (kind != disk::Kind::Prefix && has_prefix).then(|| index - own + moment as u64)
    }

    /// The state of the last moment before that of state number `index` in which no disk has lost
    /// anything, if that one has lost nothing either; none if there is none.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn in_order_before(&self, index: u64) -> Option<u64> {
        let (_, own) = self.start(index);
        let Block { moment, kind, .. } = self.blocks[self.block_of(own)];
        (kind == disk::Kind::Prefix && moment > 0).then(|| index - 1)
    }

    /// State number `index`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn state(&self, index: u64) -> BlockState {
        let (start, index) = self.start(index);
        let place = self.block_of(index);
        let block = &self.blocks[place];
        let first = place
            .checked_sub(1)
            .map_or(0, |before| self.blocks[before].end);
        let Moment {
            events, positions, ..
        } = &self.moments[block.moment];
        let prefix = |(node, disk): (usize, &Option<RecordedDisk>)| {
            let position = positions[node];
            disk.as_ref().map(|_| disk::State {
                position,
                relaxation: disk::Relaxation::Prefix,
            })
        };
        let mut disks: Vec<_> = self.disks.iter().enumerate().map(prefix).collect();
        for (node, chosen) in self.chosen(block, (index - first).into()) {
            disks[node] = self.of_disk(node, block.moment).get(chosen);
        }
        let kinds = disks.iter().flatten().map(|disk| disk.relaxation.kind());
        let kind = kinds.max().unwrap_or(block.kind);
        BlockState {
            cut: events.clone(),
            disks,
            kind,
            start,
        }
    }

    /// The nodes that lose something in a state of a block, each with the number of the state of its
    /// disk.
    fn chosen(&self, block: &Block, mut number: u128) -> Vec<(usize, u128)> {
        // The first of them is the one in which no node has lost anything, which is no state of its
        // own.
        number += u128::from(self.is_free);
        let mut chosen_of = |node: &usize| {
            let options = self.options(*node, block.moment);
            let chosen = if self.is_free {
                let own = number % all_of(&options);
                number /= all_of(&options);
                // Of one crash point the first state is the one that lost nothing.
                (own > 0).then_some(own)
            } else {
                options
                    .get(&block.kind)
                    .filter(|(count, _)| number < *count)
                    .map(|(_, first)| first + number)
            };
            chosen.map(|chosen| (*node, chosen))
        };
        let nodes = block.set.into_iter().flat_map(|set| &self.sets[set]);
        nodes.filter_map(&mut chosen_of).collect()
    }
}

/// The sets of nodes that are relaxed together.
fn sets(explore: Explore, with_disk: &[usize]) -> Result<Vec<Vec<usize>>, BlockError> {
    Ok(match explore {
        Explore::ReplicatedStateMachine { majority } => {
            let sets = majorities(majority, with_disk);
            let mut sets =
                sets.map_err(|(majority, count)| BlockError::Majority(majority, count))?;
            if majority == 0 {
                let others = with_disk.iter().map(|node| vec![*node]);
                let others = others.chain([with_disk.to_vec()]);
                let others: Vec<_> = others.filter(|set| !sets.contains(set)).collect();
                sets.extend(others);
            }
            sets
        }
        Explore::PrimaryReplicas { primary } => {
            if !with_disk.contains(&primary) {
                return Err(BlockError::Primary(primary));
            }
            let replica = with_disk.iter().find(|node| **node != primary);
            let mut sets = vec![vec![primary]];
            sets.extend(replica.map(|replica| vec![*replica]));
            sets.extend(replica.map(|_| with_disk.to_vec()));
            sets
        }
        Explore::BruteForce => vec![with_disk.to_vec()],
        Explore::SameOnAll => subsets(with_disk),
    })
}

/// All sets of nodes but the empty one, smaller ones first.
fn subsets(nodes: &[usize]) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for node in nodes {
        let with: Vec<_> = sets
            .iter()
            .map(|set| [set.as_slice(), &[*node]].concat())
            .collect();
        sets.extend(with);
    }
    sets.retain(|set| !set.is_empty());
    sets.sort_by_key(|set| (set.len(), set.clone()));
    sets
}

#[cfg(test)]
mod tests;
