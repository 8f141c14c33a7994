//! Calls that could have made durable what was lost.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use trace::{Action, FileId, FileOp};

use crate::finding::{Finding, NodeStory};
use crate::findings::Findings;

/// "Before" something stands for all places since what was lost. If there are more of them that may
/// differ, the first one is named instead.
const PLACES_MAX: usize = 8;

/// An fsync that was not called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) node: usize,
    pub(super) file: FileId,
    /// What the file is called at the last of the places.
    pub(super) path: String,
    /// The events before which it could have been, ascending: right after what was lost, after each
    /// later change of names, and the last one that will do.
    pub(super) places: Vec<usize>,
    pub(super) of: Place,
}

impl Candidate {
    /// The last of the events before which it would have been.
    pub(super) fn before(&self) -> usize {
        *self.places.last().expect("there is one")
    }

    /// The same call for others of the operations that are like its own.
    pub(super) fn of_others(&self, others: Others) -> Self {
        let of = Place { others, ..self.of };
        Self { of, ..self.clone() }
    }

    /// The same call on all nodes that do the same.
    pub(super) fn on_all_nodes(&self) -> Self {
        let of = Place {
            is_on_all: true,
            ..self.of
        };
        Self { of, ..self.clone() }
    }

    /// It is the same call, whatever it is for, if this is the same.
    pub(super) fn key(&self) -> (usize, usize, FileId) {
        (self.node, self.before(), self.file)
    }
}

/// What a call would have followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) event: usize,
    /// Which of the files it is that the operation needs synced.
    pub(super) role: usize,
    pub(super) when: When,
    pub(super) others: Others,
    /// Whether other nodes make such calls, too.
    pub(super) is_on_all: bool,
}

/// Which other operations of the program such calls are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Those with the same words: it does the same over and over.
    Same,
    /// Those with another place in the file, or another number in its name, too.
    Alike,
}

/// When something could have been synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Before anybody was told.
    Told,
    /// Before what came after it and was kept.
    Kept,
    /// Right after it was done.
    After,
}

impl Findings<'_> {
    /// The calls that could have made durable what was lost: before anybody else could know of it,
    /// or before the first that persisted without it, or else at once. Those of nodes that lost the
    /// same are together.
    pub(super) fn candidates(&self, finding: &Finding) -> Vec<Vec<Candidate>> {
        let mut alike: Vec<((String, When), Vec<Candidate>)> = Vec::new();
        for (node, story) in finding.nodes.iter().enumerate() {
            let lost = story.lost.iter().chain(&story.midway);
            let candidates = lost.flat_map(|lost| self.candidates_for(node, story, lost.event));
            for candidate in candidates {
                let likeness = (self.likeness.pattern(&candidate.path), candidate.of.when);
                match alike.iter_mut().find(|(known, _)| *known == likeness) {
                    Some((_, candidates)) if candidates.contains(&candidate) => {}
                    Some((_, candidates)) => candidates.push(candidate),
                    None => alike.push((likeness, vec![candidate])),
                }
            }
        }
        // What leaves the most choice is named, if it helps.
        alike.sort_by_key(|((_, when), _)| *when == When::After);
        let groups = alike.into_iter();
        groups.map(|(_, candidates)| candidates).collect()
    }

    /// Those for one operation of a node that was lost.
    fn candidates_for(&self, node: usize, story: &NodeStory, lost: usize) -> Vec<Candidate> {
        let Some(operation) = self.operation(node, lost) else {
            return Vec::new();
        };
        let told = (lost..story.events).find(|place| self.tells(node, *place));
        let kept = story.kept_from.filter(|place| *place > lost);
        let before = [
            told.map(|before| (before, When::Told)),
            kept.map(|before| (before, When::Kept)),
            Some((lost + 1, When::After)),
        ];
        let before = before.into_iter().flatten();
        let candidates = before.flat_map(|(before, when)| {
            let roles = 0..operation.syncs.len();
            roles.filter_map(move |role| {
                let of = Place {
                    event: lost,
                    role,
                    when,
                    others: Others::Alike,
                    is_on_all: false,
                };
                self.named(node, before, of)
            })
        });
        candidates.collect()
    }

    /// A call by a name that its file has where it is made.
    fn named(&self, node: usize, before: usize, of: Place) -> Option<Candidate> {
        let (file, path) = self.operation(node, of.event)?.syncs.get(of.role)?;
        let events = &self.trace.run.nodes[node];
        let operations = self.operations_of(node);
        let named = operations.named(events, *file, path, (of.event + 1, before))?;
        (named.places.len() <= PLACES_MAX).then_some(Candidate {
            node,
            file: *file,
            path: named.path,
            places: named.places,
            of,
        })
    }

    /// Whether an event tells others something.
    pub(super) fn tells(&self, node: usize, event: usize) -> bool {
        let action = &self.trace.run.nodes[node].events[event].action;
        matches!(action, Action::Mark { .. } | Action::Send(_))
    }

    /// The same calls wherever the program does what they follow.
    pub(super) fn everywhere(&self, syncs: &[Candidate]) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = Vec::new();
        let mut known = HashMap::new();
        for sync in syncs.iter().flat_map(|sync| self.alike(sync)) {
            match known.entry(sync.key()) {
                Entry::Vacant(entry) => {
                    entry.insert(all.len());
                    all.push(sync);
                }
                // It is for the later one of what it follows, too.
                Entry::Occupied(entry) => {
                    let known = &mut all[*entry.get()];
                    if sync.places.len() < known.places.len() {
                        *known = sync;
                    }
                }
            }
        }
        all
    }

    /// A call, and those like it at the other times that the program did the same: from the same
    /// place, with the same system call, to a file that is called alike. All calls of an interpreted
    /// program come from one place.
    fn alike(&self, sync: &Candidate) -> Vec<Candidate> {
        let nodes = 0..self.trace.run.nodes.len();
        let nodes = nodes.filter(|node| sync.of.is_on_all || *node == sync.node);
        let others = nodes.flat_map(|node| self.alike_on(node, sync));
        std::iter::once(sync.clone()).chain(others).collect()
    }

    /// Those of one node, but for the call itself.
    fn alike_on(&self, node: usize, sync: &Candidate) -> Vec<Candidate> {
        let own = (sync.node, sync.of.event);
        let due = self.due(sync, node);
        let events = 0..self.trace.run.nodes[node].events.len();
        let others = events.filter(|event| (node, *event) != own);
        let others = others.filter(|event| self.are_alike(sync, own.1, (node, *event)));
        let others = others.filter(|event| !self.syncs_itself(node, *event));
        let other = |event: usize| {
            let before = match sync.of.when {
                When::After => event + 1,
                When::Told | When::Kept => *due.get(due.partition_point(|due| *due <= event))?,
            };
            self.other(sync, (node, event), before)
        };
        others.filter_map(other).collect()
    }

    /// A call like another one, for another event.
    fn other(
        &self,
        sync: &Candidate,
        (node, event): (usize, usize),
        before: usize,
    ) -> Option<Candidate> {
        let operations = self.operations_of(node);
        let operation = operations.get(event)?;
        let (file, path) = operation.syncs.get(sync.of.role)?;
        let places = operations.places(*file, (event + 1, before));
        let is_one = (1..=PLACES_MAX).contains(&places.len());
        is_one.then(|| Candidate {
            node,
            file: *file,
            path: path.clone(),
            places,
            of: Place { event, ..sync.of },
        })
    }

    /// Whether the program does at an event of some node what it does at one of the call's own node,
    /// for whom such a call is made.
    fn are_alike(&self, sync: &Candidate, one: usize, (node, other): (usize, usize)) -> bool {
        let (one, other) = (self.operation(sync.node, one), self.operation(node, other));
        let is_any = sync.of.others == Others::Alike;
        one.zip(other).is_some_and(|(one, other)| {
            let pattern = |path: &str| self.likeness.pattern(path);
            (&one.call, one.stack) == (&other.call, other.stack)
                && pattern(&one.path) == pattern(&other.path)
                && (is_any || one.words == other.words)
        })
    }

    /// Whether an event is a sync, or a write that its own call syncs, as with `O_DSYNC`: then it needs
    /// no other.
    fn syncs_itself(&self, node: usize, event: usize) -> bool {
        let events = &self.trace.run.nodes[node].events;
        let own = &events[event];
        let of_call = events[event..].iter().take_while(|other| {
            (other.thread, other.start_ns, &other.call) == (own.thread, own.start_ns, &own.call)
        });
        let mut actions = of_call.map(|event| &event.action);
        actions.any(|action| matches!(action, Action::File(FileOp::Sync { .. })))
    }

    /// All that such a call has to come before on a node.
    fn due(&self, sync: &Candidate, node: usize) -> Vec<usize> {
        let events = 0..self.trace.run.nodes[node].events.len();
        let is_due = |event: &usize| match sync.of.when {
            When::Told => self.tells(node, *event),
            When::Kept => self.are_alike(sync, sync.before(), (node, *event)),
            When::After => false,
        };
        events.filter(is_due).collect()
    }
}
