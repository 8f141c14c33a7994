//! A run with the requests to its nodes' disks among the events.

use std::sync::Arc;

use super::RecordedDisk;
use super::moments::Moment;
use crate::nodes::cuts::Cut;
use trace::{Action, Event, FileOp, Node, Run};

/// The run with the requests to disks among the events.
pub(super) struct Merged {
    pub(super) run: Run,
    /// For each node and number of merged events: how many of its own events, and the position of
    /// its disk's log.
    pub(super) at: Vec<Vec<(usize, usize)>>,
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
    pub(super) fn of(run: &Run, disks: &[Option<RecordedDisk>]) -> Self {
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
    pub(super) fn is_request(&self, node: usize, events: usize) -> bool {
        self.at[node][events].1 > self.at[node][events - 1].1
    }

    /// Whether the next merged event of a node is a write that its disk may tear in flight.
    pub(super) fn is_in_flight(
        &self,
        disks: &[Option<RecordedDisk>],
        node: usize,
        events: usize,
    ) -> bool {
        let is_next = events + 1 < self.at[node].len() && self.is_request(node, events + 1);
        let position = self.at[node][events].1;
        let disk = disks[node].as_ref();
        is_next && disk.is_some_and(|disk| disk.log.is_in_flight(position))
    }

    pub(super) fn moment(&self, cut: &Cut, in_flight: Vec<bool>) -> Moment {
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
