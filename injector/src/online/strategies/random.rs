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

    fn fault(&self, chance: &mut Chance, is_first: bool) -> PlannedFault {
        let millis = |chance: &mut Chance, most| Duration::from_millis(chance.below(most));
        let before = millis(chance, BEFORE_MS);
        let victim = self.node(chance);
        let flow = [Flow::Both, Flow::Out, Flow::In][chance.below(3) as usize];
        let other = self.node(chance);
        let from = if other == victim {
            Selector::Others
        } else {
            Selector::Node(other)
        };
        let partition = |from, flow| What::Partition {
            from: vec![from],
            flow,
        };
        let kinds = 6 + u64::from(self.has_disks);
        let what = match chance.below(kinds) {
            0 => What::Kill,
            1 => What::Pause,
            2 => What::Restart,
            3 => partition(Selector::Others, Flow::Both),
            4 => partition(from, Flow::Both),
            5 => partition(Selector::Others, flow),
            _ => What::PowerLoss(Keeps::Flushed),
        };
        let lasts = Awaited::After(millis(chance, LASTS_MS));
        let trigger = |awaited| Trigger {
            awaited,
            delay: Duration::ZERO,
        };
        PlannedFault {
            at: trigger(if is_first {
                Awaited::Time(before)
            } else {
                Awaited::After(before)
            }),
            until: (what != What::Restart).then(|| trigger(lasts)),
            what,
            on: vec![Selector::Node(victim)],
        }
    }
}

impl Strategy for Random {
    fn count(&self) -> Option<u64> {
        None
    }

    fn propose(&mut self, index: u64, _: &[InjectResult]) -> Option<FaultPlan> {
        let mut chance = Chance::new(self.seed, &format!("plan {index}"));
        let count = 1 + chance.below(FAULTS_MAX);
        let faults = (0..count).map(|place| self.fault(&mut chance, place == 0));
        let faults = faults.collect();
        // TOML has no larger numbers.
        Some(FaultPlan::new(chance.number() >> 1, faults))
    }
}
