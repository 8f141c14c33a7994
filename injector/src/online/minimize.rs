//! Fewer faults that break the same.

use std::path::Path;

use cluster::ClusterFile;

use super::directory::InjectResult;
use super::plan::{FaultPlan, PlannedFault, Trigger};
use super::ran::Ran;
use super::text::alike;
use crate::error::Result;

/// A smaller plan counts if so many runs of it one after the other break the same, where the same plan
/// may come to something else.
const RUNS: usize = 2;

/// What is left of a plan.
#[derive(Debug, Clone)]
pub struct Minimized {
    /// The plan.
    pub plan: FaultPlan,
    /// The last run of it, which broke the same.
    pub result: InjectResult,
    /// How many runs that took.
    pub runs: usize,
}

/// Looks for the fewest faults of the plan of a run that break the same, then for triggers of the fewest
/// parts, and then for the fewest operations, by halves. Nothing if the plan does not break it again.
///
/// # Errors
/// If a run cannot be made.
pub fn minimize(
    file: &ClusterFile,
    result: &InjectResult,
    run: &mut dyn FnMut(&FaultPlan) -> Result<Ran>,
) -> Result<Option<Minimized>> {
    let plan = FaultPlan::parse(&result.plan, Path::new("the plan of the run"), file)?;
    let mut trials = Trials {
        wanted: result,
        run,
        runs: 0,
        last: None,
    };
    if !trials.breaks(&plan)? {
        return Ok(None);
    }
    let with = |faults: &[PlannedFault]| FaultPlan {
        faults: faults.to_vec(),
        ..plan.clone()
    };
    let faults = campaign::ddmin(&plan.faults, |faults| {
        // A fault is needed.
        let plan = with(faults);
        let may_be = !faults.is_empty() && is_plan(&plan, file);
        Ok::<_, crate::Error>(may_be && trials.breaks(&plan)?)
    })?;
    let smallest = trials.with_smaller_triggers(with(&faults), file)?;
    let clients = file.all_clients().len() as u64;
    let smallest = trials.with_fewer_operations(smallest, clients)?;
    Ok(Some(Minimized {
        plan: smallest,
        result: trials.last.expect("it broke the same"),
        runs: trials.runs,
    }))
}

/// Whether it can be read: the first fault of a plan has no fault before it.
fn is_plan(plan: &FaultPlan, file: &ClusterFile) -> bool {
    FaultPlan::parse(&plan.to_string(), Path::new("plan"), file).is_ok()
}

/// The plans in which one trigger has one part less.
fn with_a_smaller_trigger(plan: &FaultPlan) -> Vec<FaultPlan> {
    let mut all = Vec::new();
    let mut put = |place: usize, fault: PlannedFault| {
        let mut smaller = plan.clone();
        smaller.faults[place] = fault;
        all.push(smaller);
    };
    for (place, fault) in plan.faults.iter().enumerate() {
        for at in fault.at.smaller() {
            put(
                place,
                PlannedFault {
                    at,
                    ..fault.clone()
                },
            );
        }
        for until in fault.until.iter().flat_map(Trigger::smaller) {
            let until = Some(until);
            put(
                place,
                PlannedFault {
                    until,
                    ..fault.clone()
                },
            );
        }
    }
    all
}

/// Runs of plans, which are compared with what was found.
struct Trials<'a> {
    wanted: &'a InjectResult,
    run: &'a mut dyn FnMut(&FaultPlan) -> Result<Ran>,
    /// How many were made.
    runs: usize,
    /// The last that broke the same.
    last: Option<InjectResult>,
}

impl Trials<'_> {
    /// Whether a plan breaks the same, each time that it is run.
    fn breaks(&mut self, plan: &FaultPlan) -> Result<bool> {
        // On simulated machines the second run would be the first one again.
        let is_simulated = self.wanted.ran.simulated.is_some();
        let times = if is_simulated { 1 } else { RUNS };
        let mut broke = None;
        for _ in 0..times {
            self.runs += 1;
            let again = InjectResult {
                index: self.wanted.index,
                plan: plan.to_string(),
                ran: (self.run)(plan)?,
            };
            if !alike(&again, self.wanted) {
                return Ok(false);
            }
            broke = Some(again);
        }
        self.last = broke;
        Ok(true)
    }

    /// The plan that breaks the same when no part of a trigger can be taken away.
    fn with_smaller_triggers(
        &mut self,
        mut smallest: FaultPlan,
        file: &ClusterFile,
    ) -> Result<FaultPlan> {
        loop {
            let mut broke = None;
            for plan in with_a_smaller_trigger(&smallest) {
                if is_plan(&plan, file) && self.breaks(&plan)? {
                    broke = Some(plan);
                    break;
                }
            }
            match broke {
                Some(plan) => smallest = plan,
                None => return Ok(smallest),
            }
        }
    }

    /// The plan with the fewest operations, by halves, that breaks the same. It says nothing of them if
    /// the clients do not heed it.
    fn with_fewer_operations(
        &mut self,
        mut smallest: FaultPlan,
        clients: u64,
    ) -> Result<FaultPlan> {
        let all = self.last.as_ref().map_or(0, |last| last.ran.acknowledged);
        let with = |operations: u64, smallest: &FaultPlan| FaultPlan {
            operations: Some(operations),
            ..smallest.clone()
        };
        if all == 0 || !self.are_heeded(&with(1, &smallest), all)? {
            return Ok(smallest);
        }
        let mut operations = all.div_ceil(clients.max(1)) / 2;
        while operations > 0 {
            let fewer = with(operations, &smallest);
            if !self.breaks(&fewer)? {
                break;
            }
            smallest = fewer;
            operations /= 2;
        }
        Ok(smallest)
    }

    /// Whether a run of a plan of one operation comes to much less than others do.
    fn are_heeded(&mut self, plan_of_one: &FaultPlan, all: u64) -> Result<bool> {
        self.runs += 1;
        let ran = (self.run)(plan_of_one)?;
        Ok(ran.acknowledged * 2 <= all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::given::cluster_of;
    use super::super::ran::SimulatedRun;
    use super::*;
    use crate::laboratory::Judged;

    const CLUSTER: &str = "[[nodes]]\nnames = [\"a\"]\ncommand = \"true\"\n";
    const CLIENT: &str = "[[clients]]\nname = \"NAME\"\ncommand = \"true\"\n";
    const PLAN: &str = "[[faults]]\nat = { time_s = 0 }\nfault = \"kill\"\non = \"a\"\n";

    fn broken(acknowledged: u64) -> Ran {
        let mut ran = Ran::without(&cluster::Error::Interrupted);
        let broken = vec!["it is".to_owned()];
        (ran.judged, ran.acknowledged) = (Judged::Broken { broken }, acknowledged);
        ran
    }

    /// What is left of a run of the plan.
    fn minimized(ran: &Ran, run: &mut dyn FnMut(&FaultPlan) -> Result<Ran>) -> Minimized {
        let clients = ["v", "w", "x", "y", "z"].map(|name| CLIENT.replace("NAME", name));
        let text = format!("{CLUSTER}{}", clients.concat());
        let file = cluster_of(&text);
        let result = InjectResult {
            index: 0,
            plan: PLAN.into(),
            ran: ran.clone(),
        };
        let found = minimize(&file, &result, run);
        found.expect("it runs").expect("it breaks the same")
    }

    #[test]
    fn what_comes_to_the_same_each_time_is_run_once() {
        for (is_simulated, wanted) in [(true, 1), (false, 2)] {
            let mut ran = broken(0);
            ran.simulated = is_simulated.then(|| SimulatedRun {
                seed: 1,
                history: String::new(),
            });
            let found = minimized(&ran, &mut |_| Ok(ran.clone()));
            assert_eq!(found.runs, wanted);
        }
    }

    #[test]
    fn a_part_of_a_trigger_that_is_not_needed_is_taken_away() {
        let at = "{ lines = 1, then = { all = [{ log = \"x\" }, { log = \"y\", then = { log = \"z\" } }] } }";
        let text = PLAN.replace("{ time_s = 0 }", at)
            + "until = { any = [{ after_s = 1 }, { log = \"w\" }] }\n";
        let result = InjectResult {
            index: 0,
            plan: text,
            ran: broken(0),
        };
        let file = cluster_of(&format!("{CLUSTER}{CLIENT}"));
        let found = minimize(&file, &result, &mut |plan| {
            let text = plan.to_string();
            let is_needed = text.contains("log = \"x\"") && text.contains("log = \"w\"");
            Ok(if is_needed {
                broken(0)
            } else {
                Ran::without(&cluster::Error::Interrupted)
            })
        });
        let found = found.expect("it runs").expect("it breaks the same");
        let expected =
            "at = { log = \"x\" }\nfault = \"kill\"\non = \"a\"\nuntil = { log = \"w\" }\n";
        let printed = found.plan.to_string();
        assert!(printed.ends_with(expected), "{printed}");
        assert_eq!(found.result.plan, printed);
    }

    #[test]
    fn operations_are_fewer_only_if_the_clients_heed_that() {
        // Two acknowledgements for each operation of five clients.
        let heeded = |plan: &FaultPlan| broken(plan.operations.map_or(200, |most| most * 10));
        let found = minimized(&broken(200), &mut |plan| Ok(heeded(plan)));
        assert_eq!(found.plan.operations, Some(1));
        assert_eq!(found.result.ran.acknowledged, 10);
        let mut count = 100;
        let found = minimized(&broken(100), &mut |_| {
            // No two runs have as many.
            count += 7;
            Ok(broken(90 + count % 20))
        });
        assert_eq!(found.plan.operations, None);
        assert!(!found.result.plan.contains("operations"));
    }
}
