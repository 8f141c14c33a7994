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

/// A warning, if a program acknowledged several things only when all was done.
pub fn late_acks(run: &Run) -> Option<String> {
    let places = run.nodes.first().map(Places::of)?;
    let (first, count) = (places.acks.first()?, places.acks.len());
    let after = |all: &[usize]| all.last().is_some_and(|last| last < first);
    let what = if count > 1 && places.changes.len() > 1 && after(&places.changes) {
        "all changes of its files"
    } else if count > 1 && places.syncs.len() > 1 && after(&places.syncs) {
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
