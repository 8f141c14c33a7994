//! What a finding depends on: which models allow it, and which call would have forbidden it.
//!
//! Both are asked of the rules themselves: a space of another model, or of the run with one more
//! event, has the state or it has not.

use std::collections::HashSet;
use std::sync::Arc;

use pace_rules::nodes::{MODELS, Request, Space};
use trace::{Action, Event, FileId, FileOp, Run, SyncScope};

use crate::findings::{Finding, Findings, Sync};
use crate::operations::without_numbers;
use crate::states::States;
use crate::tree::Fingerprint;

/// A space that is larger is not searched: the sweep itself takes long enough.
const SEARCHED_MAX: u64 = 200_000;

/// So many findings, the smallest, are looked into for what would have prevented them, as long as
/// no more states than these are searched for that.
const PREVENTED_MAX: usize = 20;
const PREVENTION_STATES_MAX: u64 = 100_000;

impl Findings<'_> {
    /// Looks for what would have prevented each finding, and where else it is possible. Each comes
    /// with the keys of all states that are alike.
    pub fn explain(
        &self,
        findings: Vec<(Finding, HashSet<Fingerprint>)>,
        request: &Request,
    ) -> Vec<Finding> {
        let run = &self.trace.run;
        let (mut findings, alike): (Vec<_>, Vec<_>) = findings.into_iter().unzip();
        if findings.is_empty() {
            return findings;
        }
        for model in MODELS.iter().filter(|model| model.name != self.model) {
            let wanted: HashSet<_> = alike.iter().flatten().copied().collect();
            let Some(found) = self.search(run, &Request { model, ..*request }, &wanted) else {
                continue;
            };
            for (finding, alike) in findings.iter_mut().zip(&alike) {
                finding
                    .models
                    .insert(model.name.to_owned(), !alike.is_disjoint(&found));
            }
        }
        let mut left = PREVENTION_STATES_MAX;
        for finding in findings.iter_mut().take(PREVENTED_MAX) {
            finding.prevented_by = self.prevention(finding, request, &mut left);
        }
        findings
    }

    /// What would have forbidden the state of a finding: one call if that is enough, else all that
    /// could help; nothing if they do not. What several nodes do alike counts as one.
    fn prevention(&self, finding: &Finding, request: &Request, left: &mut u64) -> Vec<Sync> {
        let candidates = self.candidates(finding);
        let all = (candidates.len() > 1).then(|| candidates.concat());
        let forbids = |syncs: &Vec<Candidate>| {
            let run = with(&self.until_told(finding), syncs);
            let Ok(space) = Space::new(&run, request) else {
                return false;
            };
            let Some(enough) = left.checked_sub(space.len()) else {
                return false;
            };
            *left = enough;
            self.search_in(&space, &run, &HashSet::from([finding.key]))
                .is_empty()
        };
        let syncs = candidates
            .into_iter()
            .chain(all)
            .find(forbids)
            .unwrap_or_default();
        syncs.iter().map(|sync| self.words(sync)).collect()
    }

    /// The run up to where something is acknowledged that was not in the state: what comes after
    /// cannot make the same state. Of several nodes, the whole run.
    fn until_told(&self, finding: &Finding) -> Run {
        let mut run = self.trace.run.clone();
        if let ([node], [story]) = (run.nodes.as_mut_slice(), finding.nodes.as_slice()) {
            let later = node.events.iter().enumerate().skip(story.events);
            let next = later
                .into_iter()
                .find(|(_, event)| matches!(event.action, Action::Mark { .. }));
            if let Some((place, _)) = next {
                node.events.truncate(place);
            }
        }
        run
    }

    /// Those of the states that a space of this run has; none if it is too large to tell.
    pub(crate) fn search(
        &self,
        run: &Run,
        request: &Request,
        wanted: &HashSet<Fingerprint>,
    ) -> Option<HashSet<Fingerprint>> {
        let space = Space::new(run, request).ok()?;
        (space.len() <= SEARCHED_MAX).then(|| self.search_in(&space, run, wanted))
    }

    fn search_in(
        &self,
        space: &Space,
        run: &Run,
        wanted: &HashSet<Fingerprint>,
    ) -> HashSet<Fingerprint> {
        let mut states = States::new(run, space, self.trace);
        let mut found = HashSet::new();
        for index in 0..space.len() {
            if found.len() == wanted.len() {
                break;
            }
            let state = states.make(&space.state(index));
            found.extend(
                state
                    .ok()
                    .map(|state| state.key)
                    .filter(|key| wanted.contains(key)),
            );
        }
        found
    }

    /// The calls that could have made durable what was lost: before anybody else could know of it,
    /// or before the first that persisted without it. Those of nodes that lost the same are
    /// together.
    fn candidates(&self, finding: &Finding) -> Vec<Vec<Candidate>> {
        let mut alike: Vec<(Likeness, Vec<Candidate>)> = Vec::new();
        for (node, story) in finding.nodes.iter().enumerate() {
            let events = &self.trace.run.nodes[node].events;
            let tells = |place: &usize| {
                matches!(events[*place].action, Action::Mark { .. } | Action::Send(_))
            };
            for lost in story.lost.iter().chain(&story.midway) {
                let Some(operation) = self.operation(node, lost.event) else {
                    continue;
                };
                let told = (lost.event..story.events)
                    .find(tells)
                    .map(|before| (before, When::Told));
                let kept = story
                    .kept_from
                    .filter(|place| *place > lost.event)
                    .map(|before| (before, When::Kept));
                for (before, when) in told.into_iter().chain(kept) {
                    for (file, path) in &operation.syncs {
                        let likeness = (without_numbers(path), when);
                        let candidate = Candidate {
                            node,
                            before,
                            file: *file,
                            path: path.clone(),
                        };
                        match alike.iter_mut().find(|(known, _)| *known == likeness) {
                            Some((_, candidates)) if candidates.contains(&candidate) => {}
                            Some((_, candidates)) => candidates.push(candidate),
                            None => alike.push((likeness, vec![candidate])),
                        }
                    }
                }
            }
        }
        alike
            .into_iter()
            .map(|(_, candidates)| candidates)
            .collect()
    }

    fn words(&self, candidate: &Candidate) -> Sync {
        let Candidate {
            node, before, path, ..
        } = candidate;
        let path = if path == "." {
            "its directory".to_owned()
        } else {
            path.clone()
        };
        Sync {
            node: self.trace.run.nodes[*node].name.clone(),
            path,
            before: self.event_words(&self.trace.run, *node, *before),
        }
    }
}

/// An fsync that was not called.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    node: usize,
    /// The event before which it would have been.
    before: usize,
    file: FileId,
    path: String,
}

/// What is synced, and when.
type Likeness = (String, When);

/// When something could have been synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// Before anybody was told.
    Told,
    /// Before what came after it and was kept.
    Kept,
}

/// The run as it would have been with these calls.
fn with(run: &Run, syncs: &[Candidate]) -> Run {
    let mut run = run.clone();
    let mut syncs: Vec<_> = syncs.iter().collect();
    // From the last, so that the places of the others stay what they are.
    syncs.sort_by_key(|sync| std::cmp::Reverse((sync.node, sync.before)));
    for sync in syncs {
        let events = &mut run.nodes[sync.node].events;
        let before = &events[sync.before];
        // Between the one before and this one, in the thread that tells.
        let began = sync
            .before
            .checked_sub(1)
            .map_or(0, |last| events[last].end_ns + 1);
        let at = began.min(before.end_ns);
        let event = Event {
            start_ns: at,
            end_ns: at,
            process: before.process,
            thread: before.thread,
            call: Arc::from("fsync"),
            stack: 0,
            action: Action::File(FileOp::Sync {
                file: sync.file,
                scope: SyncScope::File,
            }),
        };
        events.insert(sync.before, event);
    }
    run
}
