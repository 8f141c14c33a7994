//! What findings that are alike have in common.

use std::collections::BTreeSet;

use pace_rules::nodes::State;
use trace::Action;

use super::{Findings, is_of_name};
use crate::sweep::Broken;

/// What findings that are alike have in common: their cause, as far as it can be told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Cause {
    /// The operations that are missing. No sync after one helps against a crash in the midst of
    /// it, so it counts whether it had returned.
    missing: Vec<(bool, Site)>,
    /// Where nothing is missing: the last operation of each node, and the next one if the last
    /// thing that it did was to acknowledge something.
    around: Vec<(bool, Site)>,
    words: Vec<String>,
}

/// Where a program does something, and to what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Site {
    call: String,
    /// Where in the program the call is.
    stack: u64,
    /// What the file is called, but for what is random.
    file: String,
    /// And what it is called in the end: who writes two files through one function, under a name
    /// for the time being, gives them other names.
    last: Option<String>,
    /// What the name is like that it gave.
    to: Option<String>,
}

impl Findings<'_> {
    pub(super) fn cause(&self, state: &State, broken: &Broken) -> Cause {
        // Of all that is missing nobody knows what matters.
        if state.relaxation.is_at_once() {
            return Cause {
                missing: Vec::new(),
                around: Vec::new(),
                words: self.plain(broken),
            };
        }
        let stories = self.nodes(state);
        let mut missing = BTreeSet::new();
        for (node, story) in stories.iter().enumerate() {
            let events = story
                .lost
                .iter()
                .map(|lost| (true, lost))
                .chain(story.midway.iter().map(|lost| (false, lost)));
            missing.extend(
                events.filter_map(|(is_lost, lost)| Some((is_lost, self.site(node, lost.event)?))),
            );
        }
        let mut around = BTreeSet::new();
        if missing.is_empty() {
            // If what is broken names nodes, the others may be anywhere.
            let is_any_named = stories
                .iter()
                .any(|story| is_named(&story.node, &broken.complaint.words));
            for (node, story) in stories.iter().enumerate() {
                if !is_any_named || is_named(&story.node, &broken.complaint.words) {
                    around.extend(self.around(state, node));
                }
            }
        }
        Cause {
            missing: Vec::from_iter(missing),
            around: Vec::from_iter(around),
            words: self.plain(broken),
        }
    }

    /// The operation before a crash, and the one after it if that should have come before what was
    /// acknowledged.
    fn around(&self, state: &State, node: usize) -> impl Iterator<Item = (bool, Site)> {
        let (events, cut) = (&self.trace.run.nodes[node].events, state.cut[node]);
        let is_told = cut
            .checked_sub(1)
            .is_some_and(|last| matches!(events[last].action, Action::Mark { .. }));
        let next = (cut..events.len())
            .find_map(|event| self.site(node, event))
            .filter(|_| is_told);
        let last = self
            .parts(state, node)
            .pop_last()
            .and_then(|(event, _)| self.site(node, event));
        last.map(|site| (false, site))
            .into_iter()
            .chain(next.map(|site| (true, site)))
    }

    /// Where in the program an event comes from, and to what it was done.
    fn site(&self, node: usize, event: usize) -> Option<Site> {
        let operation = self.operations[node].get(event)?;
        let like = |path: &str| self.likeness.pattern(path);
        let last = self.operations[node].last_path(operation.file).map(like);
        Some(Site {
            call: operation.call.to_string(),
            stack: operation.stack,
            file: like(&operation.path),
            last,
            to: operation.names.as_deref().map(like),
        })
    }
}

/// Whether a node's name is one of the words.
fn is_named(node: &str, broken: &[String]) -> bool {
    broken
        .iter()
        .flat_map(|words| words.split(|letter| !is_of_name(letter)))
        .any(|word| word == node)
}
