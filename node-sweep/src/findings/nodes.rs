//! What a crash left on the disk of each node.

use std::collections::BTreeMap;

use brief::{Called, callers};
use pace_rules::nodes::{Effect, State};
use trace::FileId;
use trace_store::Frame;

use super::Findings;
use crate::damage::{Damage, damages};
use crate::finding::{Fate, Lost, NodeStory, PromisedNothing};
use crate::states::States;

/// So many operations that persisted are listed.
const KEPT_LISTED_MAX: usize = 6;

/// Of what an operation is made, in a crash state.
#[derive(Debug, Default)]
pub(super) struct Parts {
    all: usize,
    /// Missing, though later ones may be there.
    lost: usize,
    /// After the end of what reached the disk.
    to_come: usize,
}

/// What persisted although it came after something that was lost.
struct Kept {
    words: Vec<String>,
    /// How much more of it there is.
    more: usize,
    /// The event of the first of it.
    first: Option<usize>,
}

impl Parts {
    pub(super) fn fate(&self) -> Fate {
        match self.lost + self.to_come {
            0 => Fate::Kept,
            missing if missing == self.all => Fate::Lost,
            _ => Fate::InPart,
        }
    }
}

impl Findings<'_> {
    pub(crate) fn nodes(&self, state: &State) -> Vec<NodeStory> {
        (0..self.trace.run.nodes.len())
            .map(|node| self.node(state, node))
            .collect()
    }

    /// The event that had been begun and had not returned, of which something is on the disk.
    pub(crate) fn begun(&self, state: &State, node: usize) -> Option<usize> {
        let last = state.nodes[node].micros.checked_sub(1)?;
        let event = self.micros(node)[last].event;
        (event >= state.cut[node]).then_some(event)
    }

    /// Of each event up to the cut, and one that had been begun, what is on the disk.
    pub(super) fn parts(&self, state: &State, node: usize) -> BTreeMap<usize, Parts> {
        let (cut, kept) = (state.cut[node], &state.nodes[node]);
        let begun = self.begun(state, node);
        let micros = self.micros(node).iter().enumerate();
        let mut parts: BTreeMap<usize, Parts> = BTreeMap::new();
        for (place, micro) in
            micros.take_while(|(_, micro)| micro.event < cut || Some(micro.event) == begun)
        {
            // A file without a name is nothing to anybody.
            if !matches!(micro.effect, Effect::NewFile { .. }) {
                let parts = parts.entry(micro.event).or_default();
                parts.all += 1;
                parts.to_come += usize::from(place >= kept.micros);
                parts.lost +=
                    usize::from(place < kept.micros && kept.lost.binary_search(&place).is_ok());
            }
        }
        parts
    }

    /// The operations of a node that were lost, and the one of which only the first part reached the
    /// disk.
    fn missing(&self, node: usize, parts: &BTreeMap<usize, Parts>) -> (Vec<Lost>, Option<Lost>) {
        let lost = parts.iter().filter(|(_, parts)| parts.lost > 0);
        let lost = lost.filter_map(|(event, parts)| self.lost(node, *event, parts.lost, parts.all));
        let midway = parts
            .iter()
            .find(|(_, parts)| parts.lost == 0 && parts.to_come > 0);
        let midway =
            midway.and_then(|(event, parts)| self.lost(node, *event, parts.to_come, parts.all));
        (lost.collect(), midway)
    }

    /// The events of a node of which something is lost.
    pub(crate) fn missing_events(&self, state: &State, node: usize) -> Vec<usize> {
        let micros = self.micros(node);
        let mut events: Vec<_> = state.nodes[node]
            .lost
            .iter()
            .map(|place| micros[*place].event)
            .collect();
        events.dedup();
        events
    }

    /// What somebody may have taken for a sync of what is missing.
    pub(super) fn promised_nothing(
        &self,
        state: &State,
        nodes: &[NodeStory],
    ) -> Vec<PromisedNothing> {
        let mut all = Vec::new();
        for (node, story) in nodes.iter().enumerate() {
            let calls = self.trace.about.weak_syncs.get(&story.node);
            let calls = calls.map_or(&[][..], Vec::as_slice);
            let missing = self.first_missing(node, story);
            let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
            for weak in calls {
                if let Some((event, path)) = missing.get(&weak.file)
                    && (event + 1..=state.cut[node]).contains(&weak.events)
                {
                    *times.entry((&weak.call, path)).or_default() += 1;
                }
            }
            let told = times
                .into_iter()
                .map(|((call, path), times)| PromisedNothing {
                    node: story.node.clone(),
                    call: call.to_owned(),
                    path: path.to_owned(),
                    times,
                });
            all.extend(told);
        }
        all
    }

    /// The first operation that is missing of each file of a node, with its path.
    fn first_missing<'s>(
        &self,
        node: usize,
        story: &'s NodeStory,
    ) -> BTreeMap<FileId, (usize, &'s str)> {
        let mut missing = BTreeMap::new();
        for lost in &story.lost {
            if let Some(operation) = self.operations[node].get(lost.event) {
                let first = missing.entry(operation.file);
                first.or_insert((lost.event, &*lost.path));
            }
        }
        missing
    }

    fn node(&self, state: &State, node: usize) -> NodeStory {
        let (run, cut) = (&self.trace.run, state.cut[node]);
        let parts = self.parts(state, node);
        let (lost, midway) = self.missing(node, &parts);
        let kept = self.kept(node, &parts, &lost);
        let events = cut.min(run.nodes[node].events.len());
        NodeStory {
            node: run.nodes[node].name.clone(),
            events,
            behind: events
                .checked_sub(1)
                .map(|last| self.moment_words(node, last, true)),
            before: (events < run.nodes[node].events.len())
                .then(|| self.moment_words(node, events, false)),
            is_begun: self.begun(state, node).is_some(),
            lost,
            midway,
            kept: kept.words,
            kept_more: kept.more,
            kept_from: kept.first,
            files: Vec::new(),
            disk: None,
        }
    }

    /// What persisted after the first of what was lost: in words what did so whole.
    fn kept(&self, node: usize, parts: &BTreeMap<usize, Parts>, lost: &[Lost]) -> Kept {
        let from = lost.first().map_or(usize::MAX, |first| first.event + 1);
        let missing = |parts: &Parts| parts.lost + parts.to_come;
        let persisted = parts
            .range(from..)
            .filter(|(_, parts)| missing(parts) < parts.all);
        let first = persisted.clone().next().map(|(event, _)| *event);
        let whole = persisted.filter(|(_, parts)| missing(parts) == 0);
        let words = whole.filter_map(|(event, _)| self.operations[node].get(*event));
        let mut words: Vec<_> = words.map(|operation| operation.words.clone()).collect();
        let more = words.len().saturating_sub(KEPT_LISTED_MAX);
        words.truncate(KEPT_LISTED_MAX);
        Kept { words, more, first }
    }

    fn lost(&self, node: usize, event: usize, missing: usize, all: usize) -> Option<Lost> {
        let op = self.operations[node].get(event)?;
        Some(Lost {
            call: op.call.to_string(),
            stack: (op.stack != 0).then(|| format!("{:016x}", op.stack)),
            called_by: self.called_by(op.stack),
            path: op.path.clone(),
            words: op.words.clone(),
            parts: (missing < all).then_some((missing, all)),
            event,
        })
    }

    fn called_by(&self, stack: u64) -> Vec<String> {
        let stack = self.trace.stacks.get(&stack);
        stack.map_or(Vec::new(), |stack| callers(stack.iter().map(called)))
    }

    /// Where the files of a node are not what it had made them.
    pub(super) fn damages(
        &self,
        states: &mut States<'_>,
        state: &State,
        node: usize,
    ) -> Vec<Damage> {
        let until = self
            .begun(state, node)
            .map_or(state.cut[node], |event| event + 1);
        let all = self
            .micros(node)
            .partition_point(|micro| micro.event < until);
        let trees = states.held_and_whole(node, &state.nodes[node], all);
        trees.map_or(Vec::new(), |(held, whole)| damages(&held, &whole))
    }
}

fn called(frame: &Frame) -> Called<'_> {
    Called {
        module: &frame.module,
        function: frame.function.as_deref(),
        source: frame.source.as_ref().map(|(path, line)| (&**path, *line)),
    }
}
