//! What a finding depends on: which models allow it, and which call would have forbidden it.
//!
//! Both are asked of the rules themselves: a space of another model, or of the run with one more
//! event, has the state or it has not.

use std::collections::HashSet;
use std::sync::Arc;

use pace_rules::nodes::{Action, Event, FileId, FileOp, MODELS, Request, Run, Space, SyncScope};

use crate::findings::{Finding, Findings, Sync};
use crate::states::States;
use crate::tree::Fingerprint;

/// A space that is larger is not searched: the sweep itself takes long enough.
const SEARCHED_MAX: u64 = 200_000;

impl Findings<'_> {
    /// Looks for what would have prevented a finding, and where else it is possible. `alike` are all
    /// states of it, `shown` the one that is told about.
    pub fn explain(&self, finding: &mut Finding, alike: &HashSet<Fingerprint>, request: &Request) {
        let models = MODELS.iter().filter(|model| model.name != self.model);
        for model in models {
            let request = Request { model, ..*request };
            let found = self.search(&self.trace.run, &request, alike);
            finding.models.extend(found.map(|found| (model.name.to_owned(), found)));
        }
        let shown = HashSet::from([finding.key]);
        let candidates = self.candidates(finding);
        // One call if that is enough, else all.
        let alone = candidates.iter().map(std::slice::from_ref);
        let all = (candidates.len() > 1).then_some(candidates.as_slice());
        for syncs in alone.chain(all) {
            let run = with(&self.trace.run, syncs);
            if self.search(&run, request, &shown) == Some(false) {
                finding.prevented_by = syncs.iter().map(|sync| self.words(sync)).collect();
                return;
            }
        }
    }

    /// Whether a space of this run has one of the states; none if it is too large to tell.
    fn search(&self, run: &Run, request: &Request, wanted: &HashSet<Fingerprint>) -> Option<bool> {
        let space = Space::new(run, request).ok()?;
        if space.len() > SEARCHED_MAX {
            return None;
        }
        let mut states = States::new(run, &space, self.trace);
        let has = |index| states.make(&space.state(index)).is_ok_and(|made| wanted.contains(&made.key));
        Some((0..space.len()).any(has))
    }

    /// The calls that could have made durable what was lost, each before anybody else could know of it.
    fn candidates(&self, finding: &Finding) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for (node, story) in finding.nodes.iter().enumerate() {
            for lost in story.lost.iter().chain(&story.midway) {
                let events = &self.trace.run.nodes[node].events;
                let tells = |event: &Event| matches!(event.action, Action::Mark { .. } | Action::Send(_));
                let told = events.iter().enumerate().skip(lost.event).find(|(_, event)| tells(event));
                let Some((before, _)) = told else { continue };
                let Some(operation) = self.operation(node, lost.event) else { continue };
                for (file, path) in &operation.syncs {
                    let candidate = Candidate { node, before, file: *file, path: path.clone() };
                    if !candidates.contains(&candidate) {
                        candidates.push(candidate);
                    }
                }
            }
        }
        candidates
    }

    fn words(&self, candidate: &Candidate) -> Sync {
        let Candidate { node, before, path, .. } = candidate;
        let path = if path == "." { "its directory".to_owned() } else { path.clone() };
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
        let began = sync.before.checked_sub(1).map_or(0, |last| events[last].end_ns + 1);
        let at = began.min(before.end_ns);
        let event = Event {
            start_ns: at,
            end_ns: at,
            process: before.process,
            thread: before.thread,
            call: Arc::from("fsync"),
            stack: 0,
            action: Action::File(FileOp::Sync { file: sync.file, scope: SyncScope::File }),
        };
        events.insert(sync.before, event);
    }
    run
}
