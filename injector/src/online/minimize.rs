//! Fewer faults that break the same.

use std::path::Path;

use cluster::ClusterFile;

use super::directory::InjectResult;
use super::plan::FaultPlan;
use super::ran::Ran;
use super::text::alike;
use crate::error::Result;

/// A smaller plan counts if so many runs of it one after the other break the same.
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

/// Looks for the fewest faults of the plan of a run that break the same, and then for the fewest
/// operations, by halves. Nothing if the plan does not break it again.
///
/// # Errors
/// If a run cannot be made.
pub fn minimize(
    file: &ClusterFile,
    result: &InjectResult,
    run: &mut dyn FnMut(&FaultPlan) -> Result<Ran>,
) -> Result<Option<Minimized>> {
    let plan = FaultPlan::parse(&result.plan, Path::new("the plan of the run"), file)?;
    let (mut runs, mut last) = (0, None);
    let mut breaks = |plan: &FaultPlan| -> Result<bool> {
        let mut broke = None;
        for _ in 0..RUNS {
            runs += 1;
            let again = InjectResult {
                index: result.index,
                plan: plan.to_string(),
                ran: run(plan)?,
            };
            if !alike(&again, result) {
                return Ok(false);
            }
            broke = Some(again);
        }
        last = broke;
        Ok(true)
    };
    if !breaks(&plan)? {
        return Ok(None);
    }
    let with = |faults: &[super::PlannedFault]| FaultPlan {
        faults: faults.to_vec(),
        ..plan.clone()
    };
    let faults = campaign::ddmin(&plan.faults, |faults| {
        // The first of a plan has no fault before it, and a fault is needed.
        let plan = with(faults);
        let is_plan = FaultPlan::parse(&plan.to_string(), Path::new("plan"), file).is_ok();
        Ok::<_, crate::Error>(!faults.is_empty() && is_plan && breaks(&plan)?)
    })?;
    let mut smallest = with(&faults);
    let mut operations = result.ran.acknowledged / 2;
    while operations > 0 {
        let fewer = FaultPlan {
            operations: Some(operations),
            ..smallest.clone()
        };
        if !breaks(&fewer)? {
            break;
        }
        smallest = fewer;
        operations /= 2;
    }
    let result = last.expect("it broke the same");
    Ok(Some(Minimized {
        plan: smallest,
        result,
        runs,
    }))
}
