//! What happened before what, and the cuts that follow from it.
//!
//! A cut has the first so many events of each node, in the order in which they returned. It is
//! consistent if for every receive in it the sends whose bytes it got had begun: what had returned
//! before that is in it. Others may know of a message before the call that sends it returns. Of all
//! consistent cuts that have some events there is a least one, so each event of a node has a clock:
//! the least cut with it and everything before it on its node.

use std::collections::HashMap;

use trace::{Action, Event, Run};

/// How the names of the calls begin that send bytes. What ends a connection may have another name, and
/// no entry of its own: a process that ends.
const SENDING: [&str; 3] = ["send", "write", "splice"];

/// For each node, how many of its events have happened.
pub(super) type Cut = Vec<usize>;

/// The least cuts of a run.
#[derive(Debug, Clone)]
pub(super) struct Clocks {
    /// By node and number of events: the least consistent cut that has so many of that node.
    least: Vec<Vec<Cut>>,
}

impl Clocks {
    pub(super) fn of(run: &Run) -> Self {
        let nodes = run.nodes.len();
        let sends = Sends::of(run);
        let mut clocks = Self { least: Vec::new() };
        for (number, node) in run.nodes.iter().enumerate() {
            let alone = |events| {
                (0..nodes)
                    .map(|other| if other == number { events } else { 0 })
                    .collect()
            };
            clocks
                .least
                .push((0..=node.events.len()).map(alone).collect());
        }
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (number, node) in run.nodes.iter().enumerate() {
            order.extend((0..node.events.len()).map(|event| (number, event)));
        }
        order.sort_by_key(|(node, event)| run.nodes[*node].events[*event].end_ns);
        // What ends a connection may be seen before it is noted, so that one pass may come too early
        // for some: until nothing changes. Cuts only grow, and not for ever.
        while order.iter().fold(false, |changed, (node, event)| {
            clocks.grow(run, &sends, *node, *event) || changed
        }) {}
        clocks
    }

    /// Adds to the clock of an event what it comes after. Returns whether there was more.
    fn grow(&mut self, run: &Run, sends: &Sends, node: usize, event: usize) -> bool {
        let mut cut = self.least[node][event + 1].clone();
        join(&mut cut, &self.least[node][event]);
        if let Action::Receive(message) = &run.nodes[node].events[event].action {
            for (sender, begun) in sends.overlapping(message.stream, message.from, message.to) {
                join(&mut cut, &self.least[sender][begun]);
            }
        }
        // It may have to have more of its own node than was asked for.
        let own = cut[node];
        join(&mut cut, &self.least[node][own]);
        let changed = cut != self.least[node][event + 1];
        self.least[node][event + 1] = cut;
        changed
    }

    /// The least consistent cut that has so many events of a node.
    pub(super) fn least(&self, node: usize, events: usize) -> &Cut {
        &self.least[node][events]
    }

    /// The greatest consistent cut with at most so many events of each node.
    pub(super) fn greatest(&self, most: &Cut) -> Cut {
        let mut cut = most.clone();
        while let Some((node, events)) = self.too_far(&cut) {
            cut[node] = events;
        }
        cut
    }

    /// A node of which a cut has too many events to be consistent, and how many it may have.
    fn too_far(&self, cut: &Cut) -> Option<(usize, usize)> {
        (0..cut.len()).find_map(|node| {
            // Clocks grow with the number of events.
            let fits = |least: &Cut| least.iter().zip(cut).all(|(least, has)| least <= has);
            let events = self.least[node][..=cut[node]].partition_point(fits) - 1;
            (events < cut[node]).then_some((node, events))
        })
    }
}

/// The greater of two cuts, node for node.
pub(super) fn join(cut: &mut Cut, other: &Cut) {
    for (events, more) in cut.iter_mut().zip(other) {
        *events = (*events).max(*more);
    }
}

/// Whether one of a node's events that returned first was over when another one began.
pub(super) fn is_over(first: &Event, other: &Event) -> bool {
    let same_thread = (first.process, first.thread) == (other.process, other.thread);
    same_thread || first.end_ns <= other.start_ns
}

/// How many of a node's events must have happened for somebody else to have what one of them sends:
/// those that were over when it began. What returned while it went on may have come after it had sent
/// everything.
pub(super) fn begun(events: &[Event], send: usize) -> usize {
    let event = &events[send];
    if !SENDING.iter().any(|call| event.call.starts_with(call)) {
        return send + 1;
    }
    let last = events[..send].iter().rposition(|one| is_over(one, event));
    last.map_or(0, |last| last + 1)
}

/// All sends, by stream, in the order of their first bytes.
struct Sends(HashMap<u32, Vec<Sent>>);

#[derive(Debug, Clone, Copy)]
struct Sent {
    from: u64,
    to: u64,
    /// The last byte of this one and of those before it.
    reach: u64,
    node: usize,
    /// So many events of the node must have happened.
    begun: usize,
}

impl Sends {
    fn of(run: &Run) -> Self {
        let mut streams: HashMap<u32, Vec<Sent>> = HashMap::new();
        for (number, node) in run.nodes.iter().enumerate() {
            for (event, action) in node.events.iter().map(|event| &event.action).enumerate() {
                if let Action::Send(message) = action {
                    let sent = Sent {
                        from: message.from,
                        to: message.to,
                        reach: 0,
                        node: number,
                        begun: begun(&node.events, event),
                    };
                    streams.entry(message.stream).or_default().push(sent);
                }
            }
        }
        for sends in streams.values_mut() {
            sends.sort_by_key(|sent| sent.from);
            let mut reach = 0;
            for sent in sends {
                reach = sent.to.max(reach);
                sent.reach = reach;
            }
        }
        Self(streams)
    }

    /// Who sent bytes of a range, each with how many events of it must have happened for that.
    fn overlapping(&self, stream: u32, from: u64, to: u64) -> impl Iterator<Item = (usize, usize)> {
        let sends = self.0.get(&stream).map_or(&[][..], Vec::as_slice);
        let first = sends.partition_point(|sent| sent.reach <= from);
        let after = sends.partition_point(|sent| sent.from < to);
        let near = &sends[first.min(after)..after];
        near.iter()
            .filter(move |sent| sent.to > from)
            .map(|sent| (sent.node, sent.begun))
    }
}
