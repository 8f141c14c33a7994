//! What a finding depends on: which models allow it, and which call would have forbidden it (see
//! [`crate::prevention`]).
//!
//! Both are asked of the rules themselves: a space of another model, or of the run with one more
//! event, has the state or it has not.

use std::collections::HashSet;
use std::time::Instant;

use campaign::Interrupt;
use pace_rules::nodes::{Loss, MODELS, Request, Space, State};
use trace::Run;

use crate::finding::Finding;
use crate::findings::{AlikeStates, Findings};
use crate::prevention::Confirmer;
use crate::states::States;
use crate::text::searched_words;
use crate::tree::Fingerprint;

/// A space that is larger is not searched: the sweep itself takes long enough.
const SEARCHED_MAX: u64 = 200_000;

/// So many findings, the smallest, are looked into for what would have prevented them, and so many
/// states may be made for each.
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
    pub(crate) fn is_over(&self) -> bool {
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
        findings: Vec<(Finding, AlikeStates)>,
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
        let mut confirmer = Confirmer::new(self, PREVENTION_STATES_MAX);
        for (place, (finding, alike)) in findings.iter_mut().zip(&alike).enumerate() {
            let left = if place < PREVENTED_MAX {
                PREVENTION_STATES_MAX
            } else {
                0
            };
            confirmer.begin(left);
            finding.prevented_by = self.prevention(finding, alike, requests, &mut confirmer);
            let is_known = !finding.prevented_by.is_empty() || !confirmer.is_cut_short();
            finding.prevention_cut_short = !is_known;
        }
        findings
    }

    /// Says of each finding on which models it is possible, as [`Findings::explain`] does.
    fn find_models(
        &self,
        findings: &mut [Finding],
        alike: &[AlikeStates],
        requests: &[Request],
        is_whole: bool,
    ) {
        let mut sets: Vec<_> = findings.iter().filter_map(Finding::losses).collect();
        sets.sort_unstable();
        sets.dedup();
        let wanted = alike
            .iter()
            .flat_map(|alike| &alike.contents)
            .copied()
            .collect();
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
                *is_possible |= !alike.contents.is_disjoint(&found);
            }
        }
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
        let space = Space::unless(run, request, &|| self.patience.is_over()).ok()?;
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
        let is_lost = move |set: &&Vec<Loss>| set.iter().all(|loss| losses.contains(loss));
        let sets = sets.iter().filter(is_lost);
        sets.map(move |set| space.with_losses(index, set))
    })
}
