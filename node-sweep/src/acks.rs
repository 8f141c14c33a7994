//! Whether a run says enough to be judged: what it acknowledged, and when.

use trace::{Action, Node, Run};

use crate::request::Judge;

/// Why no state of a program's run could break a promise, if that is so and not what was asked for.
pub(crate) fn untested(run: &Run, judge: &Judge) -> Option<String> {
    let Judge::Program {
        allow_no_acks: false,
        ..
    } = judge
    else {
        return None;
    };
    let places = run.nodes.iter().map(Places::of);
    let (acks, changes) = places.fold((0, 0), |(acks, changes), places| {
        (acks + places.acks.len(), changes + places.changes.len())
    });
    let what = match (changes, acks) {
        (0, _) => "the program changed nothing in its directory: there is nothing to lose",
        (_, 0) => "the program printed no line: nothing was acknowledged that could be lost",
        _ => return None,
    };
    Some(format!("{what} (--allow-no-acks passes such a run)"))
}

/// A warning, if nobody of a cluster acknowledged anything.
pub fn no_acks(run: &Run) -> Option<String> {
    let mut places = run.nodes.iter().map(Places::of);
    places.all(|places| places.acks.is_empty()).then(|| {
        "warning: the client printed no line: nothing was acknowledged that could be lost, and only          what the check says without acknowledgements is tested"
            .to_owned()
    })
}

/// A warning, if a program acknowledged several things only when all was done.
pub fn late_acks(run: &Run) -> Option<String> {
    let places = run.nodes.first().map(Places::of)?;
    let (first, last, count) = (places.acks.first()?, places.acks.last()?, places.acks.len());
    // Lines between which something changes came when they were due.
    let is_burst = !places
        .changes
        .iter()
        .any(|place| (first..last).contains(&place));
    let after = |all: &[usize]| all.last().is_some_and(|last| last < first);
    let what = if count > 1 && places.changes.len() > 1 && after(&places.changes) {
        "all changes of its files"
    } else if count > 1 && is_burst && places.syncs.len() > 1 && after(&places.syncs) {
        "its last sync"
    } else {
        return None;
    };
    Some(format!(
        "warning: the program printed all its {count} lines after {what}: what it promised before \
         is not tested. If it keeps lines in a buffer, have it write each at once"
    ))
}

/// Where in a run something is, as indices of events.
struct Places {
    acks: Vec<usize>,
    changes: Vec<usize>,
    syncs: Vec<usize>,
}

impl Places {
    fn of(node: &Node) -> Self {
        let places = |is: fn(&Action) -> bool| {
            let events = node.events.iter().enumerate();
            let those = events.filter(|(_, event)| is(&event.action));
            those.map(|(place, _)| place).collect()
        };
        Self {
            acks: places(|action| matches!(action, Action::Mark { .. })),
            changes: places(|action| matches!(action, Action::File(op) if !op.is_sync())),
            syncs: places(Action::is_sync),
        }
    }
}

#[cfg(test)]
mod tests {
    use trace::{Data, Event, FileId, FileOp, SyncScope};

    use super::*;

    #[test]
    fn a_client_that_prints_nothing_is_told_of() {
        let words = no_acks(&run_of("wsws")).expect("a warning");
        assert!(words.contains("printed no line"), "{words}");
        assert_eq!(no_acks(&run_of("wswsl")), None);
    }

    /// A program that changes something, syncs and prints lines, each a letter.
    fn run_of(letters: &str) -> Run {
        let file = FileId(1);
        let data = Data { at: 0, len: 1 };
        let event = |letter| Event {
            start_ns: 0,
            end_ns: 0,
            process: 1,
            thread: 1,
            call: "call".into(),
            stack: 0,
            action: match letter {
                'l' => Action::Mark { line: data },
                's' => Action::File(FileOp::Sync {
                    file,
                    scope: SyncScope::File,
                }),
                _ => Action::File(FileOp::Write {
                    file,
                    offset: 0,
                    data,
                    size_before: 1,
                }),
            },
        };
        let node = Node {
            name: "program".into(),
            initial: Vec::new(),
            events: letters.chars().map(event).collect(),
        };
        Run { nodes: vec![node] }
    }

    #[test]
    fn lines_are_late_if_they_come_together_after_all_changes_or_syncs() {
        for (letters, is_late) in [
            ("cscsll", true),
            ("cscscll", true),
            ("cscslcl", false),
            ("csclscl", false),
            ("csl", false),
        ] {
            assert_eq!(late_acks(&run_of(letters)).is_some(), is_late, "{letters}");
        }
    }
}
