//! What had happened before a crash, in order, in words.

use brief::counted;
use pace_rules::nodes::State;
use trace::{Action, Event, Message, Run};

use super::Findings;
use super::nodes::Parts;
use crate::finding::{Fate, Line, Moment};

/// So many things that had happened before the crash are kept with a finding.
const MOMENTS_MAX: usize = 40;

impl Findings<'_> {
    /// When the events before the crash ended, with node and place.
    fn in_order_of_time(&self, state: &State) -> Vec<(u64, usize, usize)> {
        let mut all = Vec::new();
        for (node, cut) in state.cut.iter().enumerate() {
            let until = self.begun(state, node).map_or(*cut, |event| event + 1);
            let events = self.trace.run.nodes[node].events[..until]
                .iter()
                .enumerate();
            all.extend(events.map(|(place, event)| (event.end_ns, node, place)));
        }
        all.sort_unstable();
        all
    }

    /// What came last, what is missing whenever it was, and the last acknowledgement.
    pub(crate) fn timeline(&self, state: &State) -> Vec<Moment> {
        let run = &self.trace.run;
        let all = self.in_order_of_time(state);
        let parts: Vec<_> = (0..run.nodes.len())
            .map(|node| self.parts(state, node))
            .collect();
        let late = all.len().saturating_sub(MOMENTS_MAX);
        let mut moments: Vec<Moment> = Vec::new();
        let is_mark = |(_, node, event): &(u64, usize, usize)| {
            matches!(run.nodes[*node].events[*event].action, Action::Mark { .. })
        };
        let acknowledged = all.iter().rposition(is_mark);
        for (place, (_, node, event)) in all.into_iter().enumerate() {
            let fate = parts[node].get(&event).map(Parts::fate);
            let is_due = Some(place) == acknowledged || fate.is_some_and(|fate| fate != Fate::Kept);
            if place < late && !is_due {
                continue;
            }
            moments.push(Moment {
                node,
                event,
                words: self.event_words(run, node, event),
                fate,
                from: None,
            });
        }
        self.connect(&mut moments);
        moments
    }

    /// Says of what was received where it was sent.
    fn connect(&self, moments: &mut [Moment]) {
        // A send may have returned after the receive.
        let sent_to = |to: &Moment| {
            let mut sent = moments.iter();
            sent.rposition(|sent| self.is_sent(sent, to.node, to.event))
        };
        let from: Vec<_> = moments.iter().map(sent_to).collect();
        for (moment, from) in moments.iter_mut().zip(from) {
            moment.from = from;
        }
    }

    /// Whether an event received something that was sent there.
    fn is_sent(&self, sent: &Moment, node: usize, event: usize) -> bool {
        let nodes = &self.trace.run.nodes;
        match (
            &nodes[sent.node].events[sent.event].action,
            &nodes[node].events[event].action,
        ) {
            (Action::Send(sent), Action::Receive(received)) => {
                sent.stream == received.stream && sent.from < received.to && received.from < sent.to
            }
            _ => false,
        }
    }

    pub(crate) fn event_words(&self, run: &Run, node: usize, event: usize) -> String {
        if let Some(op) = self.operations[node].get(event) {
            return op.words.clone();
        }
        match &run.nodes[node].events[event].action {
            Action::Mark { line } => format!("the line `{}`", self.line(*line)),
            Action::Send(message) => {
                let to = self
                    .peer(message, false)
                    .map_or(String::new(), |node| format!(" to {node}"));
                if is_end(&run.nodes[node].events[event]) {
                    return format!("end of the connection{to}");
                }
                format!("send of {}{to}", counted(message.to - message.from, "byte"))
            }
            Action::Receive(message) => {
                let from = self
                    .peer(message, true)
                    .map_or(String::new(), |node| format!(" from {node}"));
                let bytes = counted(message.to - message.from, "byte");
                format!("receive of {bytes}{from}")
            }
            Action::File(_) => unreachable!("operations on files have words"),
        }
    }

    /// Who sent, or receives, at the other end.
    fn peer(&self, message: &Message, sender: bool) -> Option<&str> {
        let (sends, receives) = self.ends.get(&message.stream)?;
        let node = if sender { *sends } else { *receives };
        Some(&self.trace.run.nodes[node?].name)
    }

    /// The words for an event after or before which a node crashed.
    pub(super) fn moment_words(&self, node: usize, event: usize, is_past: bool) -> String {
        let run = &self.trace.run;
        let Action::Receive(message) = &run.nodes[node].events[event].action else {
            return self.event_words(run, node, event);
        };
        let from = self
            .peer(message, true)
            .map_or("a".into(), |name| format!("{name}'s"));
        let arrives = if is_past { "arrived" } else { "arrives" };
        if self.is_end_of_stream(message) {
            return format!("{from} end of the connection {arrives}");
        }
        format!(
            "{from} message ({}) {arrives}",
            counted(message.to - message.from, "byte")
        )
    }

    /// Whether what arrives is that the other end was closed, and nothing else.
    fn is_end_of_stream(&self, message: &Message) -> bool {
        let events = self.trace.run.nodes.iter().flat_map(|node| &node.events);
        let mut sent = events.filter(|event| match &event.action {
            Action::Send(sent) => sent.stream == message.stream && sent.to > message.from,
            _ => false,
        });
        message.to - message.from == 1 && sent.next().is_some_and(is_end)
    }

    fn line(&self, line: trace::Data) -> String {
        String::from_utf8_lossy(self.trace.bytes(line)).into_owned()
    }

    pub(crate) fn acknowledged(&self, state: &State) -> Option<Line> {
        let Some((_, node, line)) = self.last_mark(state) else {
            return self.acknowledged_before();
        };
        Some(Line {
            node: self.trace.run.nodes[node].name.clone(),
            line: self.line(line),
        })
    }

    /// The last line that had been printed before a crash from which a program recovers.
    fn acknowledged_before(&self) -> Option<Line> {
        let recovers = self.trace.about.recovers.as_ref()?;
        let lines = self.line(recovers.acknowledged);
        Some(Line {
            node: recovers.acknowledged_by.clone(),
            line: lines.lines().last()?.to_owned(),
        })
    }

    /// The last line that had been printed: when, and by which node.
    fn last_mark(&self, state: &State) -> Option<(u64, usize, trace::Data)> {
        let nodes = self.trace.run.nodes.iter().zip(&state.cut).enumerate();
        let marks = nodes.flat_map(|(place, (node, cut))| {
            node.events[..*cut]
                .iter()
                .filter_map(move |event| match event.action {
                    Action::Mark { line } => Some((event.end_ns, place, line)),
                    _ => None,
                })
        });
        marks.max_by_key(|(end_ns, ..)| *end_ns)
    }

    /// Whether something had been acknowledged after what is missing was done.
    pub(super) fn is_told(&self, state: &State) -> bool {
        let Some((told_ns, ..)) = self.last_mark(state) else {
            return false;
        };
        let nodes = self.trace.run.nodes.iter().enumerate();
        let mut first_missing = nodes.filter_map(|(place, node)| {
            let event = *self.missing_events(state, place).first()?;
            Some(node.events[event].end_ns)
        });
        first_missing.any(|done_ns| done_ns <= told_ns)
    }
}

/// Whether an event that sends closes the connection, which the other end reads as a byte of its own.
fn is_end(event: &Event) -> bool {
    const SENDING: [&str; 3] = ["send", "write", "splice"];
    !SENDING.iter().any(|call| event.call.starts_with(call))
}
