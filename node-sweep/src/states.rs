use std::fmt;
use std::sync::Arc;

use brief::Brief;
use pace_rules::nodes::{Histories, Member, NodeState, Space, Spaces, State};
use trace::{Action, Data, Run};
use trace_store::Trace;

use crate::disks::Disks;
use crate::mount_slot::DiskState;
use crate::past::{self, Past};
use crate::starts::{Afters, Turns};
use crate::tree::{Fingerprint, Impossible, Tree};

/// Makes what the disks hold, and what had been acknowledged, in the states of a space.
#[derive(Debug)]
pub struct States<'a> {
    trace: &'a Trace,
    /// Of the nodes that have a directory, with their places in the run.
    disks: Vec<(usize, Disks)>,
    acknowledgements: Acknowledgements,
    afters: Afters,
    /// What is to be known of pasts.
    histories: Histories,
}

/// A crash state, ready to be looked at.
#[derive(Clone)]
pub struct CrashState {
    /// What the nodes' disks hold, of those nodes that have one, in the order of the run.
    pub disks: Vec<DiskState>,
    /// What had been acknowledged, a line each.
    pub acknowledged: Arc<[u8]>,
    /// Which nodes are started before others, if they are not started together.
    pub turns: Option<Turns>,
    /// What had happened before the crash, if somebody looks at that.
    pub past: Option<Arc<Past>>,
    /// States of the same key are the same to any check.
    pub key: Fingerprint,
    /// Their disks hold the same, and they are started in the same order, if these are the same.
    pub disks_key: Fingerprint,
    /// What its disks hold, in a hash, however that came to be and is started.
    pub left_key: Fingerprint,
    /// The key that it has if all nodes are started together, whatever its past is.
    pub content: Fingerprint,
}

impl CrashState {
    /// One of disks with this hash.
    pub(crate) fn new(
        disks: Vec<DiskState>,
        mut hasher: blake3::Hasher,
        acknowledged: Arc<[u8]>,
        turns: Option<Turns>,
    ) -> Self {
        let disks_key = *hasher.finalize().as_bytes();
        hasher.update(&acknowledged);
        let content = *hasher.finalize().as_bytes();
        let own = |key| turns.as_ref().map_or(key, |turns| turns.key(key));
        Self {
            key: own(content),
            disks_key: own(disks_key),
            content,
            left_key: disks_key,
            disks,
            acknowledged,
            turns,
            past: None,
        }
    }

    /// The same for those who know what came before the crash. To them another past may be another
    /// state.
    fn with_past(self, past: Past, is_apart: bool) -> Self {
        let own = |key| if is_apart { past::key(&past, key) } else { key };
        Self {
            key: own(self.key),
            disks_key: own(self.disks_key),
            past: Some(Arc::new(past)),
            ..self
        }
    }

    /// The key that it has whatever its past is, if this had been acknowledged.
    pub(crate) fn of_content(&self, acknowledged: &[u8]) -> Fingerprint {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.left_key).update(acknowledged);
        let key = *hasher.finalize().as_bytes();
        self.turns.as_ref().map_or(key, |turns| turns.key(key))
    }
}

impl fmt::Debug for CrashState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashState")
            .field("disks", &self.disks)
            .field("acknowledged", &Brief(&self.acknowledged))
            .field("turns", &self.turns)
            .field("past", &self.past)
            .field("key", &self.key)
            .field("disks_key", &self.disks_key)
            .field("left_key", &self.left_key)
            .field("content", &self.content)
            .finish()
    }
}

impl<'a> States<'a> {
    /// Those of a space of `run`, which is the run of `trace`, or one that differs in events that
    /// have no data.
    pub fn new(run: &Run, space: &Space, trace: &'a Trace) -> Self {
        let with_disk = run
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| !node.initial.is_empty());
        let disks = with_disk.map(|(place, node)| {
            let initial = Tree::initial(&node.initial, trace);
            (place, Disks::new(initial, space.shared_micros(place)))
        });
        Self {
            trace,
            disks: disks.collect(),
            acknowledgements: Acknowledgements::of(run, trace),
            afters: Afters::of(trace),
            histories: Histories::Unknown,
        }
    }

    /// Those of each model.
    pub(crate) fn each(run: &Run, spaces: &Spaces, trace: &'a Trace) -> Vec<Self> {
        let of_member = |member: &Member| Self {
            histories: spaces.histories(),
            ..Self::new(run, &member.space, trace)
        };
        spaces.members().iter().map(of_member).collect()
    }

    /// The same, of whose pasts this is to be known.
    pub(crate) fn with_histories(self, histories: Histories) -> Self {
        Self { histories, ..self }
    }

    /// What a node's directory holds in a state, and what it would hold with all of the first
    /// `micros` on its disk; none if it has no directory.
    pub(crate) fn held_and_whole(
        &mut self,
        node: usize,
        kept: &NodeState,
        micros: usize,
    ) -> Option<(Tree, Tree)> {
        let (_, disks) = self.disks.iter_mut().find(|(place, _)| *place == node)?;
        Some((
            disks.tree(kept.micros, &kept.lost, self.trace),
            disks.tree(micros, &[], self.trace),
        ))
    }

    /// Which nodes are started first: a node lost something if it is not there, or not all of it.
    pub(crate) fn turns(&self, state: &State) -> Option<Turns> {
        let with_lost = self.disks.iter().map(|(node, disks)| {
            let kept = &state.nodes[*node];
            let last = disks.last_event(kept.micros);
            let is_midway = last.is_some_and(|last| last >= state.cut[*node]);
            (*node, !kept.lost.is_empty() || is_midway)
        });
        self.afters.turns(state.start, with_lost)
    }

    /// Makes one.
    ///
    /// # Errors
    /// If no file system would show such a directory.
    pub fn make(&mut self, state: &State) -> Result<CrashState, Impossible> {
        let mut hasher = blake3::Hasher::new();
        let mut states = Vec::with_capacity(self.disks.len());
        for (node, disks) in &mut self.disks {
            let kept = &state.nodes[*node];
            let tree = disks.tree(kept.micros, &kept.lost, self.trace);
            hasher.update(&tree.fingerprint()?);
            states.push(DiskState::Tree(tree));
        }
        let acknowledged = self.acknowledgements.before(&state.cut, self.trace);
        let turns = self.turns(state);
        let made = CrashState::new(states, hasher, acknowledged, turns);
        if self.histories == Histories::Unknown {
            return Ok(made);
        }
        let is_apart = self.histories == Histories::Apart;
        Ok(match self.past(state) {
            Some(past) => made.with_past(past, is_apart),
            None => made,
        })
    }

    /// What came before the crash, if that is known.
    fn past(&self, state: &State) -> Option<Past> {
        let mut past = past::past(self.trace, state.cut.clone())?;
        for (node, disks) in &self.disks {
            past::add(&mut past, *node, disks.micros(), &state.nodes[*node]);
        }
        Some(past)
    }
}

/// A cut, and the lines that had been printed by then.
type Acknowledged = (Vec<usize>, Brief<Arc<[u8]>>);

/// The lines that clients have printed.
#[derive(Debug)]
pub(crate) struct Acknowledgements {
    /// Those before the run: of one that recovers from a crash.
    first: Brief<Arc<[u8]>>,
    /// By time: the node, the event, and the line.
    all: Vec<(usize, usize, Data)>,
    /// Those of the cut that was asked for last.
    last: Option<Acknowledged>,
}

impl Acknowledgements {
    /// Those of a run, which may be that of the trace with more events.
    pub(crate) fn of(run: &Run, trace: &Trace) -> Self {
        let mut all = Vec::new();
        let nodes = run.nodes.iter();
        for (node, events) in nodes.map(|node| &node.events).enumerate() {
            for (place, event) in events.iter().enumerate() {
                if let Action::Mark { line } = event.action {
                    all.push((event.end_ns, node, place, line));
                }
            }
        }
        all.sort_by_key(|(end_ns, node, place, _)| (*end_ns, *node, *place));
        let recovers = trace.about.recovers.as_ref();
        let first = recovers.map_or(&[][..], |recovers| trace.bytes(recovers.acknowledged));
        Self {
            first: Brief(first.into()),
            all: all
                .into_iter()
                .map(|(_, node, place, line)| (node, place, line))
                .collect(),
            last: None,
        }
    }

    pub(crate) fn before(&mut self, cut: &[usize], trace: &Trace) -> Arc<[u8]> {
        if let Some((last, Brief(lines))) = &self.last
            && last == cut
        {
            return lines.clone();
        }
        let mut lines = self.first.0.to_vec();
        for (_, _, line) in self
            .all
            .iter()
            .filter(|(node, place, _)| *place < cut[*node])
        {
            lines.extend_from_slice(trace.bytes(*line));
            lines.push(b'\n');
        }
        let lines: Arc<[u8]> = lines.into();
        self.last = Some((cut.to_vec(), Brief(lines.clone())));
        lines
    }
}
