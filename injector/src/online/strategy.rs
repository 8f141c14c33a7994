//! Which plan is tried next.

use super::directory::InjectResult;
use super::plan::FaultPlan;
use super::ran::Ran;

/// Proposes plans, one after the other. What it proposed stays what it was: a plan has an index,
/// and with it is proposed again after the same results.
pub trait Strategy {
    /// How many plans there are, if there is an end.
    fn count(&self) -> Option<u64>;

    /// The plan with this index; nothing if there are no more. `so_far` is what came of those that
    /// were tried, which a strategy that learns looks at.
    fn propose(&mut self, index: u64, so_far: &[InjectResult]) -> Option<FaultPlan>;

    /// The indices below `end` in the order in which the plans are tried, as far as it is known after
    /// these results.
    fn order<'a>(
        &'a self,
        _so_far: &'a [InjectResult],
        end: u64,
    ) -> Box<dyn Iterator<Item = u64> + 'a> {
        Box::new(0..self.count().map_or(end, |count| count.min(end)))
    }

    /// The plan whose shard makes this one too: what it proposes there depends on what came of that.
    fn root(&self, index: u64) -> u64 {
        index
    }

    /// What there is to say of what was tried and what is left.
    fn tells(&self, _so_far: &[InjectResult]) -> Vec<String> {
        Vec::new()
    }

    /// Whether a plan is to be tried again once, since what it waits for did not come.
    fn tries_again(&self, _ran: &Ran) -> bool {
        false
    }

    /// Whether a run is what the campaign is made for, and may end for.
    fn is_what_is_sought(&self, ran: &Ran) -> bool {
        ran.broken().is_some()
    }

    /// The role that a plan of it needs, and that no node had, if it is not to be tried for that.
    fn lacks_role(&self, _plan: &FaultPlan, _so_far: &[InjectResult]) -> Option<String> {
        None
    }
}

/// The same plan, so many times.
#[derive(Debug, Clone)]
pub struct Repeated {
    /// The plan.
    pub plan: FaultPlan,
    /// How often.
    pub times: u64,
}

impl Strategy for Repeated {
    fn count(&self) -> Option<u64> {
        Some(self.times)
    }

    fn propose(&mut self, index: u64, _: &[InjectResult]) -> Option<FaultPlan> {
        (index < self.times).then(|| self.plan.clone())
    }
}
