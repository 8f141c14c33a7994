//! One fault of one node at each time of a grid, the nearest time first: what others are compared
//! with.

use std::time::Duration;

use cluster::ClusterFile;

use super::super::directory::InjectResult;
use super::super::plan::{Awaited, FaultPlan, Flow, PlannedFault, Selector, Trigger, What};
use super::super::strategy::Strategy;

/// How far two times are apart.
const STEP: Duration = Duration::from_millis(250);

/// How many times there are.
const STEPS: u32 = 40;

/// How long a fault lasts.
const LASTS: Duration = Duration::from_secs(3);

pub(super) struct Time {
    plans: Vec<FaultPlan>,
}

impl Time {
    pub(super) fn new(file: &ClusterFile, seed: u64) -> Self {
        let mut plans = Vec::new();
        for step in 0..STEPS {
            for node in &file.nodes {
                let isolated = What::Partition {
                    from: vec![Selector::Others],
                    flow: Flow::Both,
                    begins: None,
                };
                for what in [What::Kill, What::Pause, isolated] {
                    let fault = PlannedFault {
                        at: Trigger::at(Awaited::Time(STEP * step)),
                        what,
                        on: vec![Selector::Node(node.name.clone())],
                        until: Some(Trigger::at(Awaited::After(LASTS))),
                    };
                    let index = plans.len() as u64;
                    plans.push(FaultPlan::new(seed + index, vec![fault]));
                }
            }
        }
        Self { plans }
    }
}

impl Strategy for Time {
    fn count(&self) -> Option<u64> {
        Some(self.plans.len() as u64)
    }

    fn propose(&mut self, index: u64, _: &[InjectResult]) -> Option<FaultPlan> {
        self.plans.get(usize::try_from(index).ok()?).cloned()
    }
}
