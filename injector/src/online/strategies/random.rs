//! Faults that the seed draws, at times that it draws: what others are compared with.

use std::time::Duration;

use cluster::ClusterFile;
use simulation::Chance;

use super::super::directory::InjectResult;
use super::super::plan::{Awaited, FaultPlan, Flow, PlannedFault, Selector, Trigger, What};
use super::super::strategy::Strategy;
use crate::disks::Keeps;

/// A plan has so many faults at most.
const FAULTS_MAX: u64 = 3;

/// So long may pass before each, and so long may each last.
const BEFORE_MS: u64 = 3000;
const LASTS_MS: u64 = 6000;

/// So long a node that was started again is taken for one that does not run yet.
const STARTS: Duration = Duration::from_secs(3);

/// Without an end.
pub(super) struct Random {
    nodes: Vec<String>,
    has_disks: bool,
    seed: u64,
}

impl Random {
    pub(super) fn new(file: &ClusterFile, seed: u64) -> Self {
        Self {
            nodes: file.nodes.iter().map(|node| node.name.clone()).collect(),
            has_disks: file.disk.is_some() && file.nodes.iter().all(|node| node.has_data),
            seed,
        }
    }

    fn node(&self, chance: &mut Chance) -> String {
        self.nodes[chance.below(self.nodes.len() as u64) as usize].clone()
    }

    /// A fault `before` from the last one, on a node that runs then. Later, if none does.
    fn fault(&self, chance: &mut Chance, up: &mut Up) -> PlannedFault {
        let millis = |chance: &mut Chance, most| Duration::from_millis(chance.below(most));
        let before = millis(chance, BEFORE_MS);
        let drawn = self.node(chance);
        let flow = [Flow::Both, Flow::Out, Flow::In][chance.below(3) as usize];
        let other = self.node(chance);
        let kind = chance.below(6 + u64::from(self.has_disks));
        let lasts = millis(chance, LASTS_MS);
        let (victim, before) = up.running(&drawn, before);
        let from = if other == victim {
            Selector::Others
        } else {
            Selector::Node(other)
        };
        let what = what(kind, from, flow);
        let is_first = up.is_first;
        up.hit(&victim, before, (&what, lasts));
        PlannedFault {
            at: Trigger::at(if is_first {
                Awaited::Time(before)
            } else {
                Awaited::After(before)
            }),
            until: (what != What::Restart).then(|| Trigger::at(Awaited::After(lasts))),
            what,
            on: vec![Selector::Node(victim)],
        }
    }
}

/// What happens to the victim; some partitions are from one other node, or of one direction.
fn what(kind: u64, from: Selector, flow: Flow) -> What {
    let partition = |from, flow| What::Partition {
        from: vec![from],
        flow,
        begins: None,
    };
    match kind {
        0 => What::Kill,
        1 => What::Pause,
        2 => What::Restart,
        3 => partition(Selector::Others, Flow::Both),
        4 => partition(from, Flow::Both),
        5 => partition(Selector::Others, flow),
        _ => What::PowerLoss(Keeps::Flushed),
    }
}

/// From when on each node of a plan runs, as far as that can be known before.
struct Up<'a> {
    nodes: &'a [String],
    at: Vec<Duration>,
    now: Duration,
    is_first: bool,
}

impl<'a> Up<'a> {
    fn new(nodes: &'a [String]) -> Self {
        Self {
            nodes,
            at: vec![Duration::ZERO; nodes.len()],
            now: Duration::ZERO,
            is_first: true,
        }
    }

    /// The node that was drawn if it runs so long after the last fault, else the next one that does;
    /// if none does, the first one that will, and when.
    fn running(&self, drawn: &str, before: Duration) -> (String, Duration) {
        let first = self.nodes.iter().position(|node| node == drawn);
        let order =
            (0..self.nodes.len()).map(|step| (first.unwrap_or(0) + step) % self.nodes.len());
        let then = self.now + before;
        let best = order.min_by_key(|node| self.at[*node].max(then));
        let best = best.expect("a cluster has nodes");
        (
            self.nodes[best].clone(),
            self.at[best].max(then).saturating_sub(self.now),
        )
    }

    fn hit(&mut self, victim: &str, before: Duration, (what, lasts): (&What, Duration)) {
        self.now += before;
        self.is_first = false;
        let until = match what {
            What::Kill | What::PowerLoss(_) => lasts + STARTS,
            What::Pause => lasts,
            What::Restart => STARTS,
            _ => return,
        };
        let victim = self.nodes.iter().position(|node| node == victim);
        self.at[victim.expect("it is one of them")] = self.now + until;
    }
}

impl Strategy for Random {
    fn count(&self) -> Option<u64> {
        None
    }

    fn propose(&mut self, index: u64, _: &[InjectResult]) -> Option<FaultPlan> {
        let mut chance = Chance::new(self.seed, &format!("plan {index}"));
        let count = 1 + chance.below(FAULTS_MAX);
        let mut up = Up::new(&self.nodes);
        let faults = (0..count).map(|_| self.fault(&mut chance, &mut up));
        let faults = faults.collect();
        // TOML has no larger numbers.
        Some(FaultPlan::new(chance.number() >> 1, faults))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_down_is_not_hit_and_if_all_are_it_is_waited_for() {
        let nodes = ["a", "b"].map(str::to_owned);
        let seconds = Duration::from_secs;
        let mut up = Up::new(&nodes);
        assert_eq!(up.running("b", seconds(1)), ("b".to_owned(), seconds(1)));
        up.hit("b", seconds(1), (&What::Kill, seconds(4)));
        assert_eq!(up.running("b", seconds(2)), ("a".to_owned(), seconds(2)));
        up.hit("a", seconds(2), (&What::Pause, seconds(9)));
        // It is 3 now; b is up again at 1 + 4 + 3, and a at 3 + 9.
        assert_eq!(up.running("a", seconds(1)), ("b".to_owned(), seconds(5)));
        assert_eq!(up.running("a", seconds(9)), ("a".to_owned(), seconds(9)));
    }

    #[test]
    fn a_partition_keeps_no_node_from_running() {
        let nodes = ["a", "b"].map(str::to_owned);
        let mut up = Up::new(&nodes);
        let what = What::Partition {
            from: vec![Selector::Others],
            flow: Flow::Both,
            begins: None,
        };
        up.hit("a", Duration::ZERO, (&what, Duration::from_secs(9)));
        assert_eq!(up.running("a", Duration::ZERO).0, "a");
    }
}
