//! Which states are of crashes right after a sync or an acknowledgement: most had been promised then.

use std::ops::Range;

use trace::{Action, FileOp, Node, Run};

use super::cuts::Cut;
use super::space::Space;

impl Space {
    /// The numbers of the states of crashes right after a sync or an acknowledgement of a node, ascending.
    pub(super) fn promised(&self, run: &Run) -> Vec<Range<u64>> {
        let after: Vec<_> = run.nodes.iter().map(after_promises).collect();
        let of_rule = |rule: usize| -> Vec<bool> {
            let tuples = 0..self.rule(rule).1.len();
            let is_promised = |tuple| {
                let cut = self.latest(rule, tuple);
                let mut nodes = cut.iter().zip(&after);
                nodes.any(|(events, after)| after[*events])
            };
            tuples.map(is_promised).collect()
        };
        let of_rules: Vec<_> = (0..self.rules()).map(of_rule).collect();
        let mut all: Vec<Range<u64>> = Vec::new();
        for (section, first) in self.numbered() {
            let promised = of_rules[section.rule].iter().enumerate();
            for (tuple, _) in promised.filter(|(_, is_promised)| **is_promised) {
                let Some(own) = section.of_tuple(tuple).filter(|own| !own.is_empty()) else {
                    continue;
                };
                let own = first + own.start..first + own.end;
                match all.last_mut() {
                    Some(last) if last.end == own.start => last.end = own.end,
                    _ => all.push(own),
                }
            }
        }
        all
    }

    /// The greatest cut of a tuple: all that can have happened while the nodes are there.
    fn latest(&self, rule: usize, tuple: usize) -> Cut {
        let (rule, tuples) = self.rule(rule);
        let mut most: Cut = self.nodes().iter().map(|node| node.events).collect();
        for (node, place) in rule.nodes.iter().zip(tuples.places(tuple)) {
            most[*node] = self.nodes()[*node].places.at(*place as usize).most;
        }
        self.clocks().greatest(&most)
    }
}

/// After how many events of a node the last one that is no message was a sync or an acknowledgement.
fn after_promises(node: &Node) -> Vec<bool> {
    let next = |last: &mut bool, action: &Action| {
        *last = match action {
            Action::Mark { .. } => true,
            Action::File(op) => matches!(op, FileOp::Sync { .. } | FileOp::SyncAll),
            Action::Send(_) | Action::Receive(_) => *last,
        };
        Some(*last)
    };
    let actions = node.events.iter().map(|event| &event.action);
    [false]
        .into_iter()
        .chain(actions.scan(false, next))
        .collect()
}
