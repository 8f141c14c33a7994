//! Which calls would have forbidden a finding, and where the program should make them.
//!
//! A call is named only at a place where it can be made, by the name that its file has there, and
//! where the rules confirmed that it helps: no state of the finding is left in the run with the call.
//! "Before" something is the last of such places. The call then helps at each one from what was lost
//! on: who reads it may make it at any of them.

mod candidates;
mod confirm;

use std::collections::{BTreeSet, HashSet};

use pace_rules::nodes::{Loss, Relaxation, Relaxations, Request, Spaces};

use crate::finding::{Finding, Sync};
use crate::findings::{AlikeStates, Findings};
use crate::states::States;
use crate::tree::Fingerprint;

use candidates::{Candidate, Others, Place, When};
pub(crate) use confirm::Confirmer;

impl Findings<'_> {
    /// What would have forbidden a finding on each model: one call if that is enough, else no more
    /// than it takes; nothing if they do not. What several nodes do alike counts as one. Of losses
    /// that break something only together none is to be left: who keeps something twice wants it so.
    /// It is confirmed that no state that is alike is left once the call is made wherever the program
    /// does the same: what is made at one of several times leaves the others.
    pub(crate) fn prevention(
        &self,
        finding: &Finding,
        alike: &AlikeStates,
        requests: &[Request],
        confirmer: &mut Confirmer<'_>,
    ) -> Vec<Sync> {
        let candidates = self.candidates(finding);
        if candidates.is_empty() {
            return Vec::new();
        }
        let is_together = finding.is_of_several_losses();
        let requests = due(requests, finding, is_together);
        let Some(mut left) = confirmer.left_of(alike) else {
            return Vec::new();
        };
        left.keys.extend(self.each_alone(finding));
        let mut forbids = |syncs: &[Candidate]| {
            let everywhere = self.everywhere(syncs);
            let mut requests = requests.iter();
            requests.all(|request| confirmer.forbids(&everywhere, request, &left))
        };
        // Another node may be right as it is, although it does the same.
        let mut enough_of = |candidates: &[Vec<Candidate>]| {
            enough(candidates, &mut forbids)
                .or_else(|| enough(&self.on_more_nodes(candidates)?, &mut forbids))
        };
        // What a node told nobody of may be lost: a call for that is named where no other helps.
        let told = self.of_told(finding, &candidates);
        let syncs = told.and_then(|told| enough_of(&told));
        let syncs = syncs.or_else(|| enough_of(&candidates)).unwrap_or_default();
        self.in_words(if is_together {
            self.with_others(syncs, &candidates)
        } else {
            syncs
        })
    }

    /// Those for losses of which the node had told somebody, unless all are.
    fn of_told(
        &self,
        finding: &Finding,
        candidates: &[Vec<Candidate>],
    ) -> Option<Vec<Vec<Candidate>>> {
        let is_told =
            |candidate: &&Candidate| self.has_told(finding, candidate.node, candidate.of.event);
        let of_told =
            |syncs: &Vec<Candidate>| -> Vec<_> { syncs.iter().filter(is_told).cloned().collect() };
        let told = candidates.iter().map(of_told);
        let told: Vec<_> = told.filter(|syncs| !syncs.is_empty()).collect();
        (told != candidates).then_some(told)
    }

    /// Whether a node told somebody of something after an event, before the crash.
    fn has_told(&self, finding: &Finding, node: usize, event: usize) -> bool {
        (event..finding.nodes[node].events).any(|event| self.tells(node, event))
    }

    /// The same calls on all nodes that do the same, if there are more of them.
    fn on_more_nodes(&self, candidates: &[Vec<Candidate>]) -> Option<Vec<Vec<Candidate>>> {
        let on_all = |syncs: &Vec<Candidate>| -> Vec<_> {
            syncs.iter().map(Candidate::on_all_nodes).collect()
        };
        let more: Vec<_> = candidates.iter().map(on_all).collect();
        let count = |all: &[Vec<Candidate>]| -> usize {
            all.iter().map(|syncs| self.everywhere(syncs).len()).sum()
        };
        (count(&more) > count(candidates)).then_some(more)
    }

    /// Calls in words. Several places of the program may need the same one. What several nodes do
    /// alike is said once.
    fn in_words(&self, syncs: Vec<Candidate>) -> Vec<Sync> {
        let mut words: Vec<(Sync, Vec<Candidate>)> = Vec::new();
        for candidate in syncs {
            let is_said = |(_, known): &(Sync, Vec<Candidate>)| {
                let is_of_others = known.iter().all(|one| one.node != candidate.node);
                is_of_others && is_in(&self.everywhere(known), &candidate)
            };
            if words.iter().any(is_said) {
                continue;
            }
            let sync = self.words(&candidate);
            let is_same = |(known, _): &&mut (Sync, Vec<Candidate>)| {
                (&known.node, &known.path) == (&sync.node, &sync.path)
                    && (&known.before, &known.after) == (&sync.before, &sync.after)
            };
            if let Some((known, candidates)) = words.iter_mut().find(is_same) {
                candidates.push(candidate);
                self.count(known, candidates);
            } else {
                words.push((sync, vec![candidate]));
            }
        }
        words.into_iter().map(|(sync, _)| sync).collect()
    }

    /// Some calls, with those for other losses that are made too where the program does the same.
    fn with_others(&self, syncs: Vec<Candidate>, others: &[Vec<Candidate>]) -> Vec<Candidate> {
        let everywhere = self.everywhere(&syncs);
        let is_made = |other: &&Candidate| !is_in(&syncs, other) && is_in(&everywhere, other);
        let of = syncs.first().map_or(Others::Alike, |sync| sync.of.others);
        let more = others.iter().flatten().filter(is_made);
        let more: Vec<_> = more.map(|sync| sync.of_others(of)).collect();
        [syncs, more].concat()
    }

    /// Where several losses break something only together: what the states hold with one of them. What
    /// a node was at when it crashed, and told nobody of, may be lost; unless all is such.
    fn each_alone(&self, finding: &Finding) -> Vec<Fingerprint> {
        let losses = finding.losses().unwrap_or_default();
        // Any write can be torn while it is made, whatever is synced. And what was kept alone does harm
        // only where all of that is lost.
        let is_due = |spaces: &&Spaces| {
            let relaxation = spaces.relaxation(finding.state);
            losses.len() > 1 && !matches!(relaxation, Relaxation::AllTorn | Relaxation::OneKept)
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
        let is_told = |loss: &Loss| self.has_told(finding, loss.node, loss.event);
        let (told, untold): (Vec<_>, Vec<_>) = losses.into_iter().partition(is_told);
        let due = if told.is_empty() { untold } else { told };
        due.into_iter().filter_map(alone).collect()
    }

    fn words(&self, candidate: &Candidate) -> Sync {
        let Candidate { node, path, of, .. } = candidate;
        let path = if path == "." {
            "{dir}".to_owned()
        } else {
            path.clone()
        };
        let run = &self.trace.run;
        let before = candidate.before();
        let words = |event| self.event_words(run, *node, event);
        let mut sync = Sync {
            node: run.nodes[*node].name.clone(),
            path,
            before: if before < run.nodes[*node].events.len() {
                words(before)
            } else {
                "the end of the run".to_owned()
            },
            after: (of.when == When::After).then(|| words(of.event)),
            also_on: Vec::new(),
            times: 1,
            files: 1,
        };
        self.count(&mut sync, std::slice::from_ref(candidate));
        sync
    }

    /// Counts at how many places calls are made, of how many files, and names the other nodes.
    fn count(&self, sync: &mut Sync, candidates: &[Candidate]) {
        let everywhere = self.everywhere(candidates);
        let nodes: BTreeSet<_> = everywhere.iter().map(|call| call.node).collect();
        let names = nodes.iter().map(|node| &self.trace.run.nodes[*node].name);
        sync.also_on = names.filter(|name| **name != sync.node).cloned().collect();
        let places = everywhere.iter().map(|call| (call.node, call.before()));
        let files = everywhere.iter().map(|call| (call.node, call.file));
        sync.times = places.collect::<HashSet<_>>().len();
        sync.files = files.collect::<HashSet<_>>().len();
    }
}

/// Whether a call is one of these, for the same reason.
fn is_in(all: &[Candidate], call: &Candidate) -> bool {
    let mut all = all.iter();
    all.any(|other| (other.key(), other.of.when) == (call.key(), call.of.when))
}

/// The models that a finding may be possible on: no call makes a state possible where it was not.
fn due(requests: &[Request], finding: &Finding, is_together: bool) -> Vec<Request> {
    let is_due = |request: &&Request| finding.models.get(request.model.name) != Some(&false);
    let requests = requests.iter().filter(is_due);
    requests
        .map(|request| with_synced(request, is_together))
        .collect()
}

/// The same with the states that lost all at once, or without.
fn with_synced(request: &Request, is_wanted: bool) -> Request {
    let wanted = request.relaxations;
    let relaxations = Relaxations {
        synced: wanted.synced && is_wanted,
        names_only: wanted.names_only && is_wanted,
        all_torn: wanted.all_torn && is_wanted,
        one_kept: wanted.one_kept && is_wanted,
        ..wanted
    };
    Request {
        relaxations,
        ..*request
    }
}

/// The first of the groups of calls that forbids alone, made where the program does the very same if
/// that will do; else no more of them than it takes together, if all do.
fn enough(
    candidates: &[Vec<Candidate>],
    mut forbids: impl FnMut(&[Candidate]) -> bool,
) -> Option<Vec<Candidate>> {
    let of_others = |syncs: &[Candidate], others| -> Vec<_> {
        syncs.iter().map(|sync| sync.of_others(others)).collect()
    };
    let alone = candidates
        .iter()
        .flat_map(|syncs| [Others::Same, Others::Alike].map(|others| of_others(syncs, others)));
    let mut alone: Vec<_> = alone.collect();
    alone.sort_by_key(|syncs| syncs.first().map(|sync| last_resort(&sync.of)));
    let first = alone.into_iter().find(|syncs| forbids(syncs));
    let groups = match first {
        Some(syncs) => for_each_file(syncs),
        None if candidates.len() > 1 && forbids(&candidates.concat()) => candidates.to_vec(),
        None => return None,
    };
    Some(fewest(groups, forbids))
}

/// How late a place comes into question. What is alike is perhaps another thing, unless somebody is
/// told then.
fn last_resort(of: &Place) -> u8 {
    match (of.when, of.others) {
        (When::Told, _) | (When::Kept, Others::Same) => 0,
        (When::After, Others::Same) => 1,
        (When::Kept, Others::Alike) => 2,
        (When::After, Others::Alike) => 3,
    }
}

/// Calls of one node, those for each of its files together. Those of several nodes stay together: the
/// nodes do alike.
fn for_each_file(mut syncs: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    if syncs.iter().any(|sync| sync.node != syncs[0].node) {
        return vec![syncs];
    }
    syncs.sort_by_key(|sync| sync.file);
    let of_files = syncs.chunk_by(|one, other| one.file == other.file);
    of_files.map(<[_]>::to_vec).collect()
}

/// As few of these groups of calls as do together.
fn fewest(
    groups: Vec<Vec<Candidate>>,
    mut forbids: impl FnMut(&[Candidate]) -> bool,
) -> Vec<Candidate> {
    let mut left = groups;
    for place in (0..left.len()).rev() {
        let mut fewer = left.clone();
        fewer.remove(place);
        if !fewer.is_empty() && forbids(&fewer.concat()) {
            left = fewer;
        }
    }
    left.concat()
}
