//! What a finding depends on: which models allow it, and which call would have forbidden it.
//!
//! Both are asked of the rules themselves: a space of another model, or of the run with one more
//! event, has the state or it has not.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use brief::without_numbers;
use campaign::Interrupt;
use pace_rules::nodes::{Loss, MODELS, Relaxation, Relaxations, Request, Space, Spaces, State};
use trace::{Action, Event, FileId, FileOp, Run, SyncScope};

use crate::finding::{Finding, NodeStory, Sync};
use crate::findings::Findings;
use crate::states::States;
use crate::text::searched_words;
use crate::tree::Fingerprint;

/// A space that is larger is not searched: the sweep itself takes long enough.
const SEARCHED_MAX: u64 = 200_000;

/// So many findings, the smallest, are looked into for what would have prevented them, as long as
/// no more states than these are searched for that.
const PREVENTED_MAX: usize = 20;
const PREVENTION_STATES_MAX: u64 = 200_000;

/// How long somebody waits for an explanation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience<'a> {
    /// Somebody may want no more of it.
    pub(crate) interrupt: Option<&'a Interrupt>,
    /// Or have no more time.
    pub(crate) deadline: Option<Instant>,
}

impl Patience<'_> {
    fn is_over(&self) -> bool {
        self.interrupt.is_some_and(Interrupt::requested)
            || self.deadline.is_some_and(|end| Instant::now() >= end)
    }
}

impl<'a> Findings<'a> {
    /// The same for somebody who does not wait for ever: what is not found in time is not known.
    pub(crate) fn in_time(mut self, patience: Patience<'a>) -> Self {
        self.patience = patience;
        self
    }
}

impl Findings<'_> {
    /// Looks for what would have prevented each finding, and where else it is possible. Each comes
    /// with the keys of what is in all states that are alike, in whatever order the nodes are started:
    /// that is not for models to say. `requests` are those of the sweep, and
    /// `is_whole` says whether it has looked at all that they ask for.
    ///
    /// # Panics
    /// If there is no request.
    pub fn explain(
        &self,
        findings: Vec<(Finding, HashSet<Fingerprint>)>,
        requests: &[Request],
        is_whole: bool,
    ) -> Vec<Finding> {
        let (mut findings, alike): (Vec<_>, Vec<_>) = findings.into_iter().unzip();
        if findings.is_empty() {
            return findings;
        }
        self.find_models(&mut findings, &alike, requests, is_whole);
        let asked = &requests[0];
        for finding in &mut findings {
            finding.searched = searched_words(asked.lost, asked.split, asked.sector);
        }
        let mut left = PREVENTION_STATES_MAX;
        for (finding, alike) in findings.iter_mut().zip(&alike).take(PREVENTED_MAX) {
            finding.prevented_by = self.prevention(finding, alike, requests, &mut left);
        }
        findings
    }

    /// Says of each finding on which models it is possible, as [`Findings::explain`] does.
    fn find_models(
        &self,
        findings: &mut [Finding],
        alike: &[HashSet<Fingerprint>],
        requests: &[Request],
        is_whole: bool,
    ) {
        let sets: Vec<_> = findings.iter().map(Finding::losses).collect();
        let wanted = alike.iter().flatten().copied().collect();
        for model in MODELS {
            let is_own = requests.iter().any(|request| request.model == model);
            if is_own && requests.len() == 1 {
                continue;
            }
            // What a whole sweep has not found there it has told already; but the same disks may
            // have lost something on one model, and nothing on another one, so that other nodes were
            // first.
            let found = if is_own && is_whole && !self.has_starts() {
                Some(HashSet::new())
            } else {
                let request = Request {
                    model,
                    ..requests[0]
                };
                self.search(&self.trace.run, &request, &wanted, &sets)
            };
            let Some(found) = found else {
                continue;
            };
            for (finding, alike) in findings.iter_mut().zip(alike) {
                let is_possible = finding.models.entry(model.name.to_owned()).or_default();
                *is_possible |= !alike.is_disjoint(&found);
            }
        }
    }

    /// What would have forbidden a finding on each model: one call if that is enough, else all that
    /// could help; nothing if they do not. What several nodes do alike counts as one. Of losses that
    /// break something only together none is to be left: who keeps something twice wants it so. It is
    /// confirmed that no state that is alike is left once the call is made wherever the program does
    /// the same: what is made at one of several times leaves the others.
    fn prevention(
        &self,
        finding: &Finding,
        alike: &HashSet<Fingerprint>,
        requests: &[Request],
        left: &mut u64,
    ) -> Vec<Sync> {
        let candidates = self.candidates(finding);
        // No call makes a state possible where it was not.
        let is_due = |request: &&Request| finding.models.get(request.model.name) != Some(&false);
        let requests = requests.iter().filter(is_due);
        let is_together = finding.is_of_several_losses();
        let requests: Vec<_> = requests
            .map(|request| with_synced(request, is_together))
            .collect();
        let mut states = alike.clone();
        states.extend(self.each_alone(finding));
        let forbids = |syncs: &[Candidate]| {
            let run = with(&self.trace.run, &self.everywhere(syncs));
            let mut requests = requests.iter();
            requests.all(|request| self.has_none(&run, request, &states, left))
        };
        let syncs = enough(&candidates, is_together, forbids).unwrap_or_default();
        self.in_words(if is_together {
            self.with_others(syncs, &candidates)
        } else {
            syncs
        })
    }

    /// Calls in words. Several places of the program may need the same one.
    fn in_words(&self, syncs: Vec<Candidate>) -> Vec<Sync> {
        let mut words: Vec<(Sync, Vec<Candidate>)> = Vec::new();
        for candidate in syncs {
            let sync = self.words(&candidate);
            let is_same = |(known, _): &&mut (Sync, Vec<Candidate>)| {
                (&known.node, &known.path, &known.before) == (&sync.node, &sync.path, &sync.before)
            };
            if let Some((known, candidates)) = words.iter_mut().find(is_same) {
                candidates.push(candidate);
                known.times = self.everywhere(candidates).len();
            } else {
                words.push((sync, vec![candidate]));
            }
        }
        words.into_iter().map(|(sync, _)| sync).collect()
    }

    /// Some calls, with those for other losses that are made too where the program does the same.
    fn with_others(&self, syncs: Vec<Candidate>, others: &[Vec<Candidate>]) -> Vec<Candidate> {
        let everywhere = self.everywhere(&syncs);
        let is_made = |other: &&Candidate| {
            !syncs.contains(other) && everywhere.iter().any(|made| made.is_same(other))
        };
        let more: Vec<_> = others.iter().flatten().filter(is_made).cloned().collect();
        [syncs, more].concat()
    }

    /// Where several losses break something only together: what the states hold with one of them.
    fn each_alone(&self, finding: &Finding) -> Vec<Fingerprint> {
        let losses = finding.losses();
        // Any write can be torn while it is made, whatever is synced.
        let is_due = |spaces: &&Spaces| {
            losses.len() > 1 && spaces.relaxation(finding.state) != Relaxation::AllTorn
        };
        let Some(spaces) = self.spaces().filter(is_due) else {
            return Vec::new();
        };
        let alone = |loss: Loss| {
            let (member, state) = spaces.with_losses(finding.state, &[loss]);
            let space = &spaces.members()[member].space;
            let made = States::new(&self.trace.run, space, self.trace).make(&state);
            Some(made.ok()?.content)
        };
        losses.into_iter().filter_map(alone).collect()
    }

    /// Whether none of the states is left in a run; no if it would take too many states to tell.
    fn has_none(
        &self,
        run: &Run,
        request: &Request,
        states: &HashSet<Fingerprint>,
        left: &mut u64,
    ) -> bool {
        let Ok(space) = Space::new(run, request) else {
            return false;
        };
        let Some(enough) = left.checked_sub(space.len()) else {
            return false;
        };
        *left = enough;
        let mut made = States::new(run, &space, self.trace);
        (0..space.len()).all(|index| {
            let state = made.make(&space.state(index));
            let is_left = state.is_ok_and(|state| states.contains(&state.key));
            !is_left && !self.patience.is_over()
        })
    }

    /// Those of the states that a space of this run has, or are in it with these losses alone of all
    /// at once; none if it is too large to tell, or nobody waits for it.
    pub(crate) fn search(
        &self,
        run: &Run,
        request: &Request,
        wanted: &HashSet<Fingerprint>,
        sets: &[Vec<Loss>],
    ) -> Option<HashSet<Fingerprint>> {
        if self.patience.is_over() {
            return None;
        }
        let space = Space::new(run, request).ok()?;
        let found =
            (space.len() <= SEARCHED_MAX).then(|| self.search_in(&space, run, wanted, sets));
        found.filter(|_| !self.patience.is_over())
    }

    fn search_in(
        &self,
        space: &Space,
        run: &Run,
        wanted: &HashSet<Fingerprint>,
        sets: &[Vec<Loss>],
    ) -> HashSet<Fingerprint> {
        let mut states = States::new(run, space, self.trace);
        let mut found = HashSet::new();
        let all = (0..space.len()).map(|index| space.state(index));
        for state in all.chain(with_losses(space, sets)) {
            if found.len() == wanted.len() || self.patience.is_over() {
                break;
            }
            let state = states.make(&state);
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
            let lost = story.lost.iter().chain(&story.midway);
            let candidates = lost.flat_map(|lost| self.candidates_for(node, story, lost.event));
            for candidate in candidates {
                let likeness = (without_numbers(&candidate.path), candidate.of.when);
                match alike.iter_mut().find(|(known, _)| *known == likeness) {
                    Some((_, candidates)) if candidates.contains(&candidate) => {}
                    Some((_, candidates)) => candidates.push(candidate),
                    None => alike.push((likeness, vec![candidate])),
                }
            }
        }
        alike
            .into_iter()
            .map(|(_, candidates)| candidates)
            .collect()
    }

    /// Those for one operation of a node that was lost.
    fn candidates_for(&self, node: usize, story: &NodeStory, lost: usize) -> Vec<Candidate> {
        let Some(operation) = self.operation(node, lost) else {
            return Vec::new();
        };
        let events = &self.trace.run.nodes[node].events;
        let tells =
            |place: &usize| matches!(events[*place].action, Action::Mark { .. } | Action::Send(_));
        let told = (lost..story.events).find(tells);
        let kept = story.kept_from.filter(|place| *place > lost);
        let before = told.map(|before| (before, When::Told)).into_iter();
        let before = before.chain(kept.map(|before| (before, When::Kept)));
        let candidates = before.flat_map(|(before, when)| {
            let syncs = operation.syncs.iter().enumerate();
            syncs.map(move |(role, (file, path))| Candidate {
                node,
                before,
                file: *file,
                path: path.clone(),
                of: Place {
                    event: lost,
                    role,
                    when,
                },
            })
        });
        candidates.collect()
    }

    /// The same calls wherever the program does what they follow: from the same place, with the same
    /// system call, whatever the file.
    fn everywhere(&self, syncs: &[Candidate]) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = Vec::new();
        for sync in syncs {
            for candidate in self.alike(sync) {
                if !all.iter().any(|other| other.is_same(&candidate)) {
                    all.push(candidate);
                }
            }
        }
        all
    }

    /// A call, and those like it at the other times that the program did the same.
    fn alike(&self, sync: &Candidate) -> Vec<Candidate> {
        let events = &self.trace.run.nodes[sync.node].events;
        let Some(own) = self.operation(sync.node, sync.of.event) else {
            return Vec::new();
        };
        let like = |event: usize| {
            let operation = self.operation(sync.node, event)?;
            let is_same = operation.call == own.call && operation.stack == own.stack;
            let (file, path) = operation.syncs.get(sync.of.role).filter(|_| is_same)?;
            let before = if event == sync.of.event {
                sync.before
            } else {
                self.next_due(sync, event)?
            };
            Some(Candidate {
                node: sync.node,
                before,
                file: *file,
                path: path.clone(),
                of: Place { event, ..sync.of },
            })
        };
        (0..events.len()).filter_map(like).collect()
    }

    /// What such a call has to come before, after an event.
    fn next_due(&self, sync: &Candidate, event: usize) -> Option<usize> {
        let events = &self.trace.run.nodes[sync.node].events;
        let is_due = |place: &usize| match sync.of.when {
            When::Told => matches!(events[*place].action, Action::Mark { .. } | Action::Send(_)),
            When::Kept => self.operation(sync.node, *place).is_some(),
        };
        (event + 1..events.len()).find(is_due)
    }

    fn words(&self, candidate: &Candidate) -> Sync {
        let times = self.everywhere(std::slice::from_ref(candidate)).len();
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
            times,
        }
    }
}

/// The same with the states that lost all at once, or without.
fn with_synced(request: &Request, is_wanted: bool) -> Request {
    let wanted = request.relaxations;
    let relaxations = Relaxations {
        synced: wanted.synced && is_wanted,
        names_only: wanted.names_only && is_wanted,
        all_torn: wanted.all_torn && is_wanted,
        ..wanted
    };
    Request {
        relaxations,
        ..*request
    }
}

/// The states of a space that lost all at once, if no more than one of these sets is lost in them.
fn with_losses(space: &Space, sets: &[Vec<Loss>]) -> impl Iterator<Item = State> {
    let mut first = 0;
    let ranges = space.counts().into_iter().filter_map(move |count| {
        let start = first;
        first += count.states;
        count.relaxation.is_at_once().then_some(start..first)
    });
    ranges.flatten().flat_map(move |index| {
        let losses = space.losses(index);
        let is_lost =
            move |set: &&Vec<Loss>| !set.is_empty() && set.iter().all(|loss| losses.contains(loss));
        let sets = sets.iter().filter(is_lost);
        sets.map(move |set| space.with_losses(index, set))
    })
}

/// The first of the groups of calls that forbids alone, or all of them if that does; of those for
/// losses that break something only together no more than it takes.
fn enough(
    candidates: &[Vec<Candidate>],
    is_together: bool,
    mut forbids: impl FnMut(&[Candidate]) -> bool,
) -> Option<Vec<Candidate>> {
    let alone = candidates.iter().find(|syncs| forbids(syncs));
    alone.cloned().or_else(|| {
        let all = (candidates.len() > 1).then(|| candidates.concat());
        let all = all.filter(|all| forbids(all))?;
        Some(if is_together {
            fewest(candidates, forbids)
        } else {
            all
        })
    })
}

/// As few of these calls as do together, those that are made at one place each.
fn fewest(
    candidates: &[Vec<Candidate>],
    mut forbids: impl FnMut(&[Candidate]) -> bool,
) -> Vec<Candidate> {
    let mut left = candidates.to_vec();
    for place in (0..left.len()).rev() {
        let mut fewer = left.clone();
        fewer.remove(place);
        if forbids(&fewer.concat()) {
            left = fewer;
        }
    }
    left.concat()
}

/// An fsync that was not called.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    node: usize,
    /// The event before which it would have been.
    before: usize,
    file: FileId,
    path: String,
    of: Place,
}

impl Candidate {
    /// Whether it is the same call, whatever it is for.
    fn is_same(&self, other: &Self) -> bool {
        (self.node, self.before, self.file) == (other.node, other.before, other.file)
    }
}

/// What a call would have followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    event: usize,
    /// Which of the files it is that the operation needs synced.
    role: usize,
    when: When,
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
