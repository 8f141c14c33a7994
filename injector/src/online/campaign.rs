//! Many plans, each in a run of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use campaign::Shard;

use super::directory::InjectResult;
use super::plan::FaultPlan;
use super::ran::Ran;
use super::strategy::Strategy;
use crate::error::{Error, Result};
use crate::laboratory::Judged;
use specification::Unlooked;

/// Which plans are tried, and how long.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The first so many of the strategy's.
    pub first: Option<u64>,
    /// The part that is this campaign's.
    pub shard: Option<Shard>,
    /// Until then.
    pub deadline: Option<Instant>,
    /// Until so many have broken something, or shown what is sought.
    pub stop_after: Option<u64>,
}

impl Selection {
    /// The indices of what is meant, in the order in which it is tried.
    fn order<'a>(
        &'a self,
        strategy: &'a dyn Strategy,
        so_far: &[InjectResult],
    ) -> impl Iterator<Item = u64> + use<'a> {
        let all = strategy.order(so_far, self.first.unwrap_or(u64::MAX));
        all.filter(|index| {
            let root = strategy.root(*index);
            self.shard.is_none_or(|shard| shard.contains(root))
        })
    }

    /// The first of them that was not tried.
    fn next(
        &self,
        strategy: &dyn Strategy,
        so_far: &[InjectResult],
        tried: &BTreeSet<u64>,
    ) -> Option<u64> {
        let mut order = self.order(strategy, so_far);
        order.find(|index| !tried.contains(index))
    }

    /// How many that are, if it has an end.
    fn wanted(&self, strategy: &dyn Strategy, so_far: &[InjectResult]) -> Option<u64> {
        strategy.count().or(self.first)?;
        Some(self.order(strategy, so_far).count() as u64)
    }

    /// Whether its time is over, or enough was found.
    fn is_over(&self, strategy: &dyn Strategy, so_far: &[InjectResult]) -> bool {
        let is_late = self.deadline.is_some_and(|at| Instant::now() >= at);
        let sought = so_far
            .iter()
            .filter(|result| strategy.is_what_is_sought(&result.ran));
        is_late
            || self
                .stop_after
                .is_some_and(|most| sought.count() as u64 >= most)
    }
}

/// What a campaign came to.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// How many plans were to be tried, if that has an end.
    pub wanted: Option<u64>,
    /// What came of those that were, by index.
    pub results: Vec<InjectResult>,
    /// How many were left out because no node has such a role, by the role.
    pub left_out: BTreeMap<String, u64>,
    /// Whether it ended before all that were wanted were tried.
    pub is_cut_off: bool,
    /// What its strategy says of what was tried.
    pub tells: Vec<String>,
}

impl Summary {
    /// What runs came to that were made before, as the parts of a campaign.
    pub fn of(results: Vec<InjectResult>, strategy: &dyn Strategy, selection: &Selection) -> Self {
        let mut summary = Self {
            results,
            ..Self::default()
        };
        summary.conclude(strategy, selection);
        summary
    }

    /// What of that which should happen in some run did in none.
    pub fn never_reached<'a>(&self, sometimes: &'a [String]) -> Vec<&'a str> {
        let is_reached = |name: &String| {
            let mut all = self.results.iter();
            all.any(|result| result.ran.reached.contains(name))
        };
        let never = sometimes.iter().filter(|name| !is_reached(name));
        never.map(String::as_str).collect()
    }

    /// What of the specifications had nothing to look at in any run.
    pub fn never_looked(&self) -> Vec<&Unlooked> {
        let is_same = |one: &Unlooked, other: &Unlooked| {
            (&one.specification, &one.violation) == (&other.specification, &other.violation)
        };
        let mut examined = self
            .results
            .iter()
            .filter(|result| !result.ran.is_cut_short);
        let Some(first) = examined.next() else {
            return Vec::new();
        };
        let is_in_all = |one: &&Unlooked| {
            let mut others = examined.clone();
            others.all(|result| result.ran.unlooked.iter().any(|other| is_same(one, other)))
        };
        first.ran.unlooked.iter().filter(is_in_all).collect()
    }

    /// Whether nothing of that happened, though something should.
    pub fn is_uneventful(&self, sometimes: &[String]) -> bool {
        !sometimes.is_empty() && self.never_reached(sometimes).len() == sometimes.len()
    }

    /// How many broke something.
    pub fn broken(&self) -> u64 {
        let broken = |result: &&InjectResult| result.ran.broken().is_some();
        self.results.iter().filter(broken).count() as u64
    }

    /// How many show what a search is for.
    pub fn shown(&self) -> u64 {
        let shown = |result: &&InjectResult| result.ran.shows_wanted();
        self.results.iter().filter(shown).count() as u64
    }

    /// How many waited for a failure point that did not come up, though tried twice.
    pub fn missed(&self) -> u64 {
        let missed = |result: &&InjectResult| result.ran.missed_its_point();
        self.results.iter().filter(missed).count() as u64
    }

    /// Puts the results in the order of their indices, and says what they are of all.
    fn conclude(&mut self, strategy: &dyn Strategy, selection: &Selection) {
        self.results.sort_by_key(|result| result.index);
        self.wanted = selection.wanted(strategy, &self.results);
        self.tells = strategy.tells(&self.results);
    }

    /// How many could not be judged.
    pub fn inconclusive(&self) -> u64 {
        let is_open =
            |result: &&InjectResult| matches!(result.ran.judged, Judged::Inconclusive { .. });
        self.results.iter().filter(is_open).count() as u64
    }
}

/// Tries the plans that a strategy proposes. `known` is what came of some of them before; each
/// result is told to `keep` before the next run begins.
///
/// # Errors
/// If the first run of all cannot be made, or a result not be kept. A later run that cannot be made
/// is inconclusive.
pub fn campaign(
    strategy: &mut dyn Strategy,
    selection: &Selection,
    known: Vec<InjectResult>,
    run: &mut dyn FnMut(u64, &FaultPlan) -> Result<Ran>,
    keep: &mut dyn FnMut(&InjectResult) -> Result<()>,
) -> Result<Summary> {
    let mut summary = Summary {
        results: known,
        ..Summary::default()
    };
    let indices = summary.results.iter().map(|result| result.index);
    let mut tried: BTreeSet<u64> = indices.collect();
    while let Some(index) = selection.next(strategy, &summary.results, &tried) {
        if selection.is_over(strategy, &summary.results) {
            summary.is_cut_off = true;
            break;
        }
        tried.insert(index);
        let Some(plan) = strategy.propose(index, &summary.results) else {
            break;
        };
        if let Some(role) = strategy.lacks_role(&plan, &summary.results) {
            *summary.left_out.entry(role).or_default() += 1;
            continue;
        }
        let mut once = || unless_interrupted(run(index, &plan), summary.results.is_empty());
        let Some(ran) = perhaps_again(strategy, &mut once)? else {
            summary.is_cut_off = true;
            break;
        };
        let plan = plan.to_string();
        let result = InjectResult { index, plan, ran };
        keep(&result)?;
        summary.results.push(result);
    }
    summary.conclude(strategy, selection);
    Ok(summary)
}

/// What came of a plan: of a second run, if the first one is to be made again.
fn perhaps_again(
    strategy: &dyn Strategy,
    run: &mut dyn FnMut() -> Result<Option<Ran>>,
) -> Result<Option<Ran>> {
    let first = run()?;
    if !first.as_ref().is_some_and(|ran| strategy.tries_again(ran)) {
        return Ok(first);
    }
    let mut second = run()?;
    if let Some(ran) = &mut second
        && strategy.tries_again(ran)
    {
        ran.missed_again();
    }
    Ok(second)
}

/// What came of a run; nothing if it was interrupted. Only the first one must be possible.
fn unless_interrupted(ran: Result<Ran>, is_first: bool) -> Result<Option<Ran>> {
    match ran {
        Err(Error::Cluster(cluster::Error::Interrupted)) => Ok(None),
        Err(Error::Cluster(error)) if !is_first => Ok(Some(Ran::without(&error))),
        other => other.map(Some),
    }
}
