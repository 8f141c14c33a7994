//! Partitions, in the order of what the study behind NEAT found (OSDI 2018, sections 4 and 5): one
//! isolated node is enough for 88 % of the failures, the leader for most of these; 69 % need a
//! complete partition and 29 % a partial one; 83 % need three or fewer events beside it; and what
//! matters of time is how long it lasts.

use std::time::Duration;

use cluster::{ClusterFile, Explore};

use super::super::directory::InjectResult;
use super::super::plan::{Awaited, FaultPlan, Flow, PlannedFault, Selector, Trigger, What};
use super::super::strategy::Strategy;

/// A group of two nodes or more is cut off only where so many are left that it is no single one.
const NODES_OF_GROUPS: usize = 5;

/// All partitions that are tried, the likeliest first.
pub(super) struct Partitions {
    plans: Vec<FaultPlan>,
}

/// Something with how unlikely it is to matter, beside others.
type Ranked<T> = (u32, T);

impl Partitions {
    pub(super) fn new(file: &ClusterFile, seed: u64) -> Self {
        let mut all = Vec::new();
        for (cut_rank, cut) in cuts(file) {
            for (when_rank, when) in whens() {
                for (end_rank, end) in ends(&cut, file) {
                    for (event_rank, event) in events(&cut, file) {
                        let mut faults = vec![PlannedFault {
                            at: when.clone(),
                            until: Some(end.clone()),
                            ..cut.clone()
                        }];
                        faults.extend(event);
                        all.push((cut_rank + when_rank + end_rank + event_rank, faults));
                    }
                }
            }
        }
        // Those of one rank stay in order.
        all.sort_by_key(|(rank, _)| *rank);
        let plan = |(index, (_, faults))| FaultPlan::new(seed + index as u64, faults);
        Self {
            plans: all.into_iter().enumerate().map(plan).collect(),
        }
    }
}

impl Strategy for Partitions {
    fn count(&self) -> Option<u64> {
        Some(self.plans.len() as u64)
    }

    fn propose(&mut self, index: u64, _: &[InjectResult]) -> Option<FaultPlan> {
        self.plans.get(usize::try_from(index).ok()?).cloned()
    }

    /// A role that nodes have for moments only, such as a candidate's, is nobody's when its turn
    /// comes. The first run says which roles are not like that.
    fn lacks_role(&self, plan: &FaultPlan, so_far: &[InjectResult]) -> Option<String> {
        let lasts = |role: &str| so_far.iter().any(|result| result.ran.began_with(role));
        let mut roles = plan.faults.iter().flat_map(PlannedFault::selectors);
        let lacking = roles.find_map(|selector| match selector {
            Selector::Role(role) | Selector::EveryRole(role) if !lasts(role) => Some(role),
            _ => None,
        });
        lacking.filter(|_| !so_far.is_empty()).cloned()
    }
}

fn partition(on: Selector, from: Selector, flow: Flow) -> PlannedFault {
    PlannedFault {
        at: Trigger::at(Awaited::Time(Duration::ZERO)),
        what: What::Partition {
            from: vec![from],
            flow,
            begins: None,
        },
        on: vec![on],
        until: None,
    }
}

/// Who may be isolated: those with a role, which is what the system says matters, then each node.
fn victims(file: &ClusterFile) -> Vec<Ranked<Selector>> {
    let roles = file.probe.iter().flat_map(|probe| &probe.roles);
    let roles = roles
        .zip(0..)
        .map(|(role, rank)| (rank, Selector::Role(role.clone())));
    let mut all: Vec<_> = roles.collect();
    let after = all.len() as u32;
    for (place, node) in file.nodes.iter().enumerate() {
        let is_primary =
            matches!(file.explore, Explore::PrimaryReplicas { primary } if primary == place);
        let rank = after + u32::from(!is_primary);
        all.push((rank, Selector::Node(node.name.clone())));
    }
    all
}

/// The partitions: complete, then partial, then simplex.
fn cuts(file: &ClusterFile) -> Vec<Ranked<PlannedFault>> {
    const PARTIAL: u32 = 2;
    const SIMPLEX: u32 = 4;
    let victims = victims(file);
    let mut all = Vec::new();
    for (rank, victim) in &victims {
        let cut = |from: &Selector, flow| partition(victim.clone(), from.clone(), flow);
        all.push((*rank, cut(&Selector::Others, Flow::Both)));
        for (_, other) in &victims {
            let is_role = |selector: &Selector| matches!(selector, Selector::Role(_));
            if other != victim && is_role(other) == is_role(victim) {
                all.push((rank + PARTIAL, cut(other, Flow::Both)));
            }
        }
        for flow in [Flow::Out, Flow::In] {
            all.push((rank + SIMPLEX, cut(&Selector::Others, flow)));
        }
    }
    if file.nodes.len() >= NODES_OF_GROUPS {
        all.push((
            PARTIAL,
            partition(Selector::Minority, Selector::Others, Flow::Both),
        ));
    }
    all
}

/// Few operations come before it, or none.
fn whens() -> Vec<Ranked<Trigger>> {
    vec![
        (0, Trigger::at(Awaited::Acknowledged(None, 3))),
        (1, Trigger::at(Awaited::Time(Duration::ZERO))),
        (2, Trigger::at(Awaited::Acknowledged(None, 30))),
    ]
}

/// It lasts until the system has reacted, or is over before. A leader that is cut off from some nodes
/// only may go on to lead: then no change is waited for.
fn ends(cut: &PlannedFault, file: &ClusterFile) -> Vec<Ranked<Trigger>> {
    let after = |seconds| Trigger::at(Awaited::After(Duration::from_secs(seconds)));
    let mut all = vec![(0, after(5)), (2, after(1)), (3, after(15))];
    let leading = file.probe.as_ref().and_then(|probe| probe.roles.first());
    let is_from_all =
        matches!(&cut.what, What::Partition { from, .. } if from[..] == [Selector::Others]);
    let is_cut_off = |role: &&String| cut.on == [Selector::Role((*role).clone())];
    if let Some(role) = leading.filter(is_cut_off).filter(|_| is_from_all) {
        let changed = Trigger {
            delay: Duration::from_secs(1),
            ..Trigger::at(Awaited::Changed(role.clone()))
        };
        all.push((1, changed));
    }
    all
}

/// What happens while it is in place: nothing, or who was isolated is started again, or who leads is
/// killed.
fn events(cut: &PlannedFault, file: &ClusterFile) -> Vec<Ranked<Option<PlannedFault>>> {
    let at = Trigger::at(Awaited::After(Duration::from_secs(2)));
    let mut all = vec![(0, None)];
    if let [victim @ Selector::Node(_)] = &cut.on[..] {
        let restart = PlannedFault {
            at: at.clone(),
            what: What::Restart,
            on: vec![victim.clone()],
            until: None,
        };
        all.push((3, Some(restart)));
    }
    if let Some(role) = file.probe.as_ref().and_then(|probe| probe.roles.first()) {
        let kill = PlannedFault {
            at,
            what: What::Kill,
            on: vec![Selector::Role(role.clone())],
            until: Some(Trigger::at(Awaited::After(Duration::from_secs(2)))),
        };
        all.push((4, Some(kill)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::super::given::cluster_of;
    use super::super::super::ran::{Happening, Ran, RunEvent};
    use super::*;
    use crate::laboratory::Judged;

    fn event(time_ns: u64, what: Happening) -> RunEvent {
        RunEvent {
            time_ns,
            acknowledged: 0,
            what,
        }
    }

    fn role(name: &str) -> Happening {
        Happening::Role {
            node: "a".into(),
            role: name.into(),
            more: String::new(),
        }
    }

    fn of_three_nodes() -> Partitions {
        let text = "[[nodes]]\nnames = [\"a\", \"b\", \"c\"]\ncommand = \"sh\"\n[probe]\n\
                    command = \"sh\"\nroles = [\"leader\", \"follower\", \"candidate\"]\n";
        Partitions::new(&cluster_of(text), 0)
    }

    #[test]
    fn another_leader_is_waited_for_only_where_nobody_sees_the_one_that_is() {
        let plans = of_three_nodes().plans;
        let waits = |plan: &&FaultPlan| plan.to_string().contains("changed = ");
        let waiting: Vec<_> = plans
            .iter()
            .filter(waits)
            .map(FaultPlan::to_string)
            .collect();
        assert!(waiting.iter().any(|plan| plan.contains("flow = ")));
        assert!(waiting.iter().any(|plan| !plan.contains("flow = ")));
        let partial: Vec<_> = waiting
            .iter()
            .filter(|plan| plan.contains("from = "))
            .collect();
        assert!(partial.is_empty(), "{partial:?}");
    }

    #[test]
    fn a_role_that_no_node_had_before_the_first_fault_is_not_waited_for() {
        let partitions = of_three_nodes();
        let in_place = Happening::InPlace {
            fault: 1,
            words: String::new(),
        };
        let happened = [
            role("leader"),
            role("follower"),
            in_place,
            role("candidate"),
        ];
        let events = (0..).zip(happened).map(|(at, what)| event(at, what));
        let ran = Ran {
            events: events.collect(),
            judged: Judged::Ok,
            ..Ran::without(&cluster::Error::Interrupted)
        };
        let first = InjectResult {
            index: 0,
            plan: String::new(),
            ran,
        };
        let lacking = |so_far: &[InjectResult]| {
            let lacking = partitions.plans.iter();
            let lacking = lacking.filter_map(|plan| partitions.lacks_role(plan, so_far));
            lacking.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(lacking(&[first]), ["candidate".to_owned()].into());
        assert!(lacking(&[]).is_empty());
    }
}
