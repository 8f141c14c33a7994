//! All crash states of nodes whose disks were recorded, each with a number.
//!
//! The requests to a node's disk are events of the node too, by the same clock. So a consistent cut
//! says for each node what it had done, and what its disk had been sent: a receive is after the
//! send, and after everything that the sender's disk was asked for before it. What the disk may
//! have lost of that is what [`disk::Space`] says of one disk.

mod earlier;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use super::Explore;
use super::cuts::{Clocks, Cut, join};
use super::rules::majority_of;
use super::starts::StartOrder;
use crate::disk;
use trace::{Action, Event, FileOp, Node, Run};

/// More cuts than this are not listed.
const CUTS_MAX: usize = 1_000_000;

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

/// A consistent cut.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moment {
    events: Vec<usize>,
    /// Of nodes with disks.
    positions: Vec<usize>,
    /// Whether the next thing that a node does is a write that its disk may tear while it is in
    /// flight, and keeps from then on.
    in_flight: Vec<bool>,
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

    fn sum(&self) -> usize {
        self.events.iter().chain(&self.positions).sum()
    }
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
            let majority = majority_of(with_disk.len(), majority);
            let set = with_disk.get(..majority);
            let refused = BlockError::Majority(majority, with_disk.len());
            vec![set.ok_or(refused)?.to_vec()]
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

/// The run with the requests to disks among the events.
struct Merged {
    run: Run,
    /// For each node and number of merged events: how many of its own events, and the position of
    /// its disk's log.
    at: Vec<Vec<(usize, usize)>>,
}

/// The events of a node with the requests to its disk among them; and for each number of these, how
/// many of its own events, and the position of the disk's log.
fn merged_events(node: &Node, disk: Option<&RecordedDisk>) -> (Vec<Event>, Vec<(usize, usize)>) {
    let (durable, times) = disk.map_or((0, &[][..]), |disk| (disk.durable, &disk.times_ns[..]));
    let mut requests = times.iter().enumerate().skip(durable).peekable();
    let (mut events, mut at) = (Vec::new(), vec![(0, durable)]);
    for (place, event) in node.events.iter().enumerate() {
        while let Some((request, time_ns)) =
            requests.next_if(|(_, time_ns)| **time_ns <= event.end_ns)
        {
            events.push(request_event(*time_ns));
            at.push((place, request + 1));
        }
        events.push(event.clone());
        at.push((place + 1, at.last().expect("it has the first").1));
    }
    for (request, time_ns) in requests {
        events.push(request_event(*time_ns));
        at.push((node.events.len(), request + 1));
    }
    (events, at)
}

impl Merged {
    fn of(run: &Run, disks: &[Option<RecordedDisk>]) -> Self {
        let mut merged = Self {
            run: Run::default(),
            at: Vec::new(),
        };
        for (node, disk) in run.nodes.iter().zip(disks) {
            let (events, at) = merged_events(node, disk.as_ref());
            merged.run.nodes.push(Node {
                name: node.name.clone(),
                initial: Vec::new(),
                events,
            });
            merged.at.push(at);
        }
        merged
    }

    /// Whether the first so many merged events of a node end with a request to its disk.
    fn is_request(&self, node: usize, events: usize) -> bool {
        self.at[node][events].1 > self.at[node][events - 1].1
    }

    /// Whether the next merged event of a node is a write that its disk may tear in flight.
    fn is_in_flight(&self, disks: &[Option<RecordedDisk>], node: usize, events: usize) -> bool {
        let is_next = events + 1 < self.at[node].len() && self.is_request(node, events + 1);
        let position = self.at[node][events].1;
        let disk = disks[node].as_ref();
        is_next && disk.is_some_and(|disk| disk.log.is_in_flight(position))
    }

    fn moment(&self, cut: &Cut, in_flight: Vec<bool>) -> Moment {
        let (events, positions) = cut
            .iter()
            .zip(&self.at)
            .map(|(events, at)| at[*events])
            .unzip();
        Moment {
            events,
            positions,
            in_flight,
        }
    }
}

/// What stands for a request: nobody receives it.
fn request_event(time_ns: u64) -> Event {
    Event {
        start_ns: time_ns,
        end_ns: time_ns,
        process: 0,
        thread: 0,
        call: Arc::from(""),
        stack: 0,
        action: Action::File(FileOp::SyncAll),
    }
}

/// The moments at which the power fails, in order; no two of them are the same to all disks and to
/// who was told what.
fn moments(
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

#[cfg(test)]
mod tests;
