//! Nodes that end by themselves, and are started again as a service manager would.

use std::collections::BTreeMap;
use std::time::Duration;

/// A node is started again so often at most: one that ends at once each time has to be told.
const TIMES_MAX: u32 = 3;

/// Which nodes are to be started again, and when.
#[derive(Debug, Clone, Default)]
pub(super) struct Restarts {
    /// So long after their end, if the plan says so.
    after: Option<Duration>,
    due: BTreeMap<usize, Duration>,
    times: BTreeMap<usize, u32>,
}

impl Restarts {
    pub(super) fn new(after: Option<Duration>) -> Self {
        Self {
            after,
            ..Self::default()
        }
    }

    /// A node has ended by itself.
    pub(super) fn ended(&mut self, node: usize, now: Duration) {
        let times = self.times.entry(node).or_default();
        if let Some(after) = self.after
            && *times < TIMES_MAX
        {
            *times += 1;
            self.due.insert(node, now + after);
        }
    }

    /// Whether one is to be started again.
    pub(super) fn is_one_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Those whose time has come.
    pub(super) fn take(&mut self, now: Duration) -> Vec<usize> {
        let all = std::mem::take(&mut self.due).into_iter();
        let (due, later): (BTreeMap<_, _>, _) = all.partition(|(_, at)| *at <= now);
        self.due = later;
        due.into_keys().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_ends_is_started_again_a_while_later_and_not_for_ever() {
        let second = Duration::from_secs;
        let mut restarts = Restarts::new(Some(second(1)));
        for time in [10, 20, 30] {
            restarts.ended(2, second(time));
            assert!(restarts.is_one_due() && restarts.take(second(time)).is_empty());
            assert_eq!(restarts.take(second(time + 1)), [2]);
        }
        restarts.ended(2, second(40));
        assert!(!restarts.is_one_due());
        let mut never = Restarts::new(None);
        never.ended(2, second(1));
        assert!(!never.is_one_due());
    }
}
