//! What of a run crashes were tried around.

use std::collections::{HashMap, HashSet};

use brief::counted;
use pace_rules::nodes::Crowded;
use serde::{Deserialize, Serialize};
use trace::{Action, FileOp, Node, Run};

use crate::tree::Fingerprint;

/// So many states of each crash are remembered: it was tried if one of them was judged.
const REMEMBERED: usize = 4;

/// How often the run did something, and how often a crash was tried right after it: before the next
/// change of a file of the node, or the next acknowledgement if it has no files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// How often it is in the run.
    pub of: u64,
    /// After how many of these a crash was tried.
    pub after: u64,
}

impl Tried {
    fn words(self, what: &str) -> String {
        format!("{} of {}", self.after, counted(self.of, what))
    }
}

/// After what of a run crashes were tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Calls that make something durable.
    pub syncs: Tried,
    /// Lines that say that something was done.
    pub acknowledgements: Tried,
    /// Writes into files.
    pub writes: Tried,
    /// Renames.
    pub renames: Tried,
    /// Where there were more losses than were tried; nothing if that is not known, as on a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowded: Option<Crowded>,
}

impl Coverage {
    fn count(&mut self, action: &Action, is_tried: bool) {
        let tried = match action {
            Action::Mark { .. } => &mut self.acknowledgements,
            Action::File(op) if op.is_sync() => &mut self.syncs,
            Action::File(FileOp::Write { .. }) => &mut self.writes,
            Action::File(FileOp::Rename { .. }) => &mut self.renames,
            _ => return,
        };
        tried.of += 1;
        tried.after += u64::from(is_tried);
    }

    /// Adds what a node did; `was_tried` says whether there was a crash after so many of its events.
    fn add(&mut self, node: &Node, was_tried: impl Fn(usize) -> bool) {
        let ends = ends(node);
        // The nearest crash after each event, from the last on.
        let mut nearest = None;
        for (place, event) in node.events.iter().enumerate().rev() {
            if was_tried(place + 1) {
                nearest = Some(place + 1);
            }
            let is_tried = nearest.is_some_and(|crash| crash <= ends[place]);
            self.count(&event.action, is_tried);
        }
    }

    /// In a line.
    pub(crate) fn line(&self) -> String {
        let Self {
            syncs,
            acknowledgements,
            writes,
            renames,
            crowded: _,
        } = self;
        let each = [
            syncs.words("sync"),
            acknowledgements.words("acknowledgement"),
            writes.words("write"),
            renames.words("rename"),
        ];
        format!("crashes right after {}", each.join(", "))
    }

    /// What was not tried, in lines.
    pub(crate) fn untried_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let Some(crowded) = self.crowded else {
            return lines;
        };
        let Crowded {
            moments, of, lost, ..
        } = crowded;
        if moments > 0 {
            let more = lost + 1;
            lines.push(format!(
                "not tried: {more} or more operations lost and others kept, at {moments} of {of} \
                 moments ({} or more were not durable there; --lost {more} tries {more})",
                lost + 3
            ));
        }
        if crowded.is_without_all {
            let most = "not tried: all nodes lose at once what was not durable, since the places \
                        at which they can stop have more than a million combinations (a shorter \
                        run has fewer)";
            lines.push(most.into());
        }
        lines
    }
}

/// Where the crashes of a sweep were.
#[derive(Debug, Default)]
pub(crate) struct Crashes {
    /// States of each: so many events of a node of a run had happened.
    states: HashMap<(usize, usize, usize), Vec<Fingerprint>>,
}

impl Crashes {
    /// Adds a state of a run.
    pub(crate) fn add(&mut self, run: usize, cut: &[usize], key: &Fingerprint) {
        for (node, events) in cut.iter().enumerate() {
            let states = self.states.entry((run, node, *events)).or_default();
            if states.len() < REMEMBERED && !states.contains(key) {
                states.push(*key);
            }
        }
    }

    /// After what of some runs there was one in a state that was judged.
    pub(crate) fn coverage(&self, runs: &[&Run], judged: &HashSet<Fingerprint>) -> Coverage {
        let mut coverage = Coverage::default();
        for (run, recorded) in runs.iter().enumerate() {
            for (number, node) in recorded.nodes.iter().enumerate() {
                let was_tried = |events: usize| {
                    let states = self.states.get(&(run, number, events));
                    states.is_some_and(|states| states.iter().any(|key| judged.contains(key)))
                };
                coverage.add(node, was_tried);
            }
        }
        coverage
    }
}

/// For each event of a node the place of the one that ends the time right after it.
fn ends(node: &Node) -> Vec<usize> {
    let has_files = !node.initial.is_empty();
    let is_end = |action: &Action| match action {
        // A file without a name is in no crash state.
        Action::File(op) => !op.is_sync() && !matches!(op, FileOp::CreateNameless { .. }),
        Action::Send(_) | Action::Receive(_) => false,
        Action::Mark { .. } => !has_files,
    };
    let mut next = node.events.len();
    let mut ends = vec![next; node.events.len()];
    for (place, event) in node.events.iter().enumerate().rev() {
        ends[place] = next;
        if is_end(&event.action) {
            next = place;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trace::{Data, Event, FileId, InitialFile, SyncScope};

    use super::*;

    fn event(action: Action) -> Event {
        Event {
            start_ns: 0,
            end_ns: 0,
            process: 1,
            thread: 1,
            call: Arc::from("call"),
            stack: 0,
            action,
        }
    }

    /// Twice a write, a sync and an acknowledgement.
    fn run() -> Run {
        let data = Data { at: 0, len: 1 };
        let write = Action::File(FileOp::Write {
            file: FileId(1),
            offset: 0,
            data,
            size_before: 0,
        });
        let sync = Action::File(FileOp::Sync {
            file: FileId(1),
            scope: SyncScope::File,
        });
        let once = [write, sync, Action::Mark { line: data }];
        Run {
            nodes: vec![Node {
                name: "program".into(),
                initial: vec![InitialFile::empty_root()],
                events: once.iter().cycle().take(6).cloned().map(event).collect(),
            }],
        }
    }

    #[test]
    fn a_crash_is_after_all_that_was_done_since_the_last_change() {
        let mut crashes = Crashes::default();
        crashes.add(0, &[3], &[1; 32]);
        crashes.add(0, &[4], &[2; 32]);
        let coverage = |keys: &[Fingerprint]| {
            let Coverage {
                syncs,
                acknowledgements,
                writes,
                ..
            } = crashes.coverage(&[&run()], &keys.iter().copied().collect());
            [syncs, acknowledgements, writes].map(|tried| (tried.after, tried.of))
        };
        assert_eq!(coverage(&[]), [(0, 2); 3]);
        assert_eq!(coverage(&[[1; 32]]), [(1, 2); 3]);
        assert_eq!(coverage(&[[2; 32]]), [(0, 2), (0, 2), (1, 2)]);
        assert_eq!(coverage(&[[1; 32], [2; 32]]), [(1, 2), (1, 2), (2, 2)]);
    }

    /// Before it gets a name it is in no state, so a crash after it is one after what came before.
    #[test]
    fn a_file_without_a_name_is_no_change() {
        let mut run = run();
        let nameless = FileOp::CreateNameless {
            file: FileId(2),
            mode: 0o600,
        };
        run.nodes[0].events.insert(3, event(Action::File(nameless)));
        let mut crashes = Crashes::default();
        crashes.add(0, &[4], &[1; 32]);
        let coverage = crashes.coverage(&[&run], &HashSet::from([[1; 32]]));
        assert_eq!(coverage.acknowledgements, Tried { of: 2, after: 1 });
    }

    #[test]
    fn what_was_not_tried_is_told_with_the_option_that_tries_more() {
        let line = |moments| {
            let crowded = Some(Crowded {
                moments,
                of: 41,
                lost: 1,
                is_without_all: false,
            });
            let coverage = Coverage {
                crowded,
                ..Coverage::default()
            };
            coverage.untried_lines().pop()
        };
        assert_eq!(line(0), None);
        assert_eq!(
            line(30).as_deref(),
            Some(
                "not tried: 2 or more operations lost and others kept, at 30 of 41 moments \
                 (4 or more were not durable there; --lost 2 tries 2)"
            )
        );
    }
}
