//! The campaign: many failures, each in a run of its own.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use campaign::Shard;

use crate::error::{Error, Result};
use crate::laboratory::{Judged, Laboratory};
use crate::plan::Plan;
use crate::results::LiveResult;

/// Of so many failures that break nothing one is tried again, to see that it comes to the same. All
/// that break something are.
const REPEATED_OF: usize = 16;

/// How often an interrupt is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Which failures are tried, and how long.
#[derive(Debug, Clone)]
pub struct Selection {
    /// So many at most, spread over all.
    pub sample: Option<u64>,
    /// The part that is this sweep's.
    pub shard: Option<Shard>,
    /// For so long.
    pub budget: Option<Duration>,
    /// Until so many have broken something.
    pub stop_after: Option<u64>,
    /// So many at a time.
    pub jobs: usize,
}

/// What a sweep came to.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// How many failures there are.
    pub all: u64,
    /// How many were to be tried.
    pub wanted: u64,
    /// What came of those that were, by index.
    pub results: Vec<LiveResult>,
    /// Whether it ended before all that were wanted were tried.
    pub is_cut_off: bool,
}

impl Summary {
    /// How many broke something.
    pub fn broken(&self) -> u64 {
        let broken = self
            .results
            .iter()
            .filter(|result| result.broken().is_some());
        broken.count() as u64
    }

    /// How many could not be judged.
    pub fn inconclusive(&self) -> u64 {
        let is_open = |result: &&LiveResult| matches!(result.judged, Judged::Inconclusive { .. });
        self.results.iter().filter(is_open).count() as u64
    }
}

/// The indices of the failures that are wanted, in the order in which they are tried.
fn wanted(plan: &Plan, selection: &Selection) -> Vec<u64> {
    let all = plan.order();
    let sample = selection.sample.unwrap_or(u64::MAX) as usize;
    let sampled = all.take(sample);
    let is_ours = |index: &u64| selection.shard.is_none_or(|shard| shard.contains(*index));
    sampled.filter(is_ours).collect()
}

/// Tries failures. What is `known` is not tried again; every new result is given to `found` as it
/// comes, with how many are done of how many.
///
/// # Errors
/// If a run cannot go on, or one of them does not come to the same when it is made again.
pub fn sweep(
    laboratory: &Laboratory,
    plan: &Plan,
    selection: &Selection,
    known: Vec<LiveResult>,
    found: &mut dyn FnMut(&LiveResult, u64, u64) -> Result<()>,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Summary> {
    let wanted = wanted(plan, selection);
    let done: BTreeSet<_> = known.iter().map(|result| result.index).collect();
    // By their place in the order, since indices of a sample may have a common divisor.
    let places = wanted.iter().copied().enumerate();
    let left: Vec<_> = places.filter(|(_, index)| !done.contains(index)).collect();
    let mut summary = Summary {
        all: plan.len(),
        wanted: wanted.len() as u64,
        results: known,
        is_cut_off: false,
    };
    let deadline = selection.budget.map(|budget| Instant::now() + budget);
    let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let enough = Mutex::new(false);
    let is_over = || cancelled() || is_late() || *enough.lock().expect("no holder panics");
    let queue = Mutex::new(left.into_iter());
    let next = || queue.lock().expect("no holder panics").next();
    let outcome = std::thread::scope(|scope| {
        let (send, results) = mpsc::channel();
        for _ in 0..selection.jobs.max(1) {
            let send = send.clone();
            scope.spawn(move || {
                while !is_over() {
                    let Some((place, index)) = next() else {
                        return;
                    };
                    let is_twice = place % REPEATED_OF == 0;
                    let tried = attempt(laboratory, plan, index, is_twice, &is_over);
                    // Nobody takes it once something went wrong.
                    if send.send(tried).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        loop {
            let result = match results.recv_timeout(LOOK_EVERY) {
                Ok(Ok(result)) => result,
                Ok(Err(Error::Cluster(cluster::Error::Interrupted)))
                | Err(RecvTimeoutError::Timeout) => continue,
                Ok(Err(error)) => {
                    *enough.lock().expect("no holder panics") = true;
                    return Err(error);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            summary.results.push(result);
            let result = summary.results.last().expect("it was pushed");
            if let Err(error) = found(result, summary.results.len() as u64, summary.wanted) {
                *enough.lock().expect("no holder panics") = true;
                return Err(error);
            }
            if selection
                .stop_after
                .is_some_and(|most| summary.broken() >= most)
            {
                *enough.lock().expect("no holder panics") = true;
            }
        }
    });
    outcome?;
    summary.results.sort_by_key(|result| result.index);
    summary.is_cut_off = (summary.results.len() as u64) < summary.wanted;
    Ok(summary)
}

/// Tries one failure; twice if `twice`, or if it breaks something.
fn attempt(
    laboratory: &Laboratory,
    plan: &Plan,
    index: u64,
    twice: bool,
    cancelled: &dyn Fn() -> bool,
) -> Result<LiveResult> {
    let count = plan.len();
    let failure = plan
        .failure(index)
        .ok_or(Error::NoFailure { index, count })?;
    tracing::debug!(index, ?failure, "tries a failure");
    let run = laboratory.run(&failure, None, cancelled)?;
    let is_repeated = twice || run.judged != Judged::Ok;
    if is_repeated {
        let again = laboratory.run(&failure, None, cancelled)?;
        if again != run {
            return Err(Error::NotDeterministic {
                index,
                first: run.history,
                second: again.history,
            });
        }
    }
    Ok(LiveResult::new(index, failure, &run, is_repeated))
}
