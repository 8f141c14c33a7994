//! The campaign: many failures, each in a run of its own.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use campaign::Shard;
use specification::Unlooked;

use crate::error::{Error, Result};
use crate::laboratory::{Judged, Laboratory, LiveRun, Prefix};
use crate::plan::{Address, Failure, Plan};
use crate::results::{LiveResult, SeedPlan};
use crate::text::likeness;

/// Of so many failures that break nothing one is tried again, to see that it comes to the same. All
/// that break something are.
const REPEATED_OF: usize = 16;

/// So many failures at most have a run in common from which they are forked. More would be faster by
/// little, and tried further out of their order.
pub const TOGETHER_MAX: usize = 32;

/// So often a failure is tried again at most, if kernels are lost each time.
const AGAIN_MAX: usize = 2;

/// What is said of one that came to nothing each time that it was tried again.
const NOT_REPEATED: &str = "it was tried again, and a kernel was gone for no reason of its own each time: nothing says that it repeats";

/// How often an interrupt is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Which failures are tried, and how long.
#[derive(Debug, Clone)]
pub struct Selection {
    /// So many at most, spread over all; and so many in recoveries, each time.
    pub sample: Option<u64>,
    /// The part that is this sweep's.
    pub shard: Option<Shard>,
    /// How often the power fails again.
    pub again: u64,
    /// In how many recoveries, each time.
    pub recoveries: u64,
    /// Until then.
    pub deadline: Option<Instant>,
    /// Until so many different violations have been found.
    pub stop_after: Option<u64>,
    /// Those that count and were found before: of other seeds.
    pub found: BTreeSet<String>,
    /// So many at a time.
    pub jobs: usize,
    /// Whether runs are forked, where they can be, and not each begun anew.
    pub fork: bool,
}

impl Selection {
    /// Whether its time is over.
    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether as many different violations have been found as were wanted.
    pub fn is_enough(&self, summary: &Summary) -> bool {
        let found = self.found.union(&summary.found).count() as u64;
        self.stop_after.is_some_and(|most| found >= most)
    }
}

/// What a sweep came to.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// How many seeds were begun with.
    pub seeds: u64,
    /// How many failures there are, as far as that is known: those in a recovery are known when it
    /// has been seen.
    pub all: u64,
    /// How many were to be tried.
    pub wanted: u64,
    /// What came of those that were, by address.
    pub results: Vec<LiveResult>,
    /// The different violations of those that were tried now.
    pub found: BTreeSet<String>,
    /// How many of those that were to be tried, as far as that is known, were not.
    pub left: u64,
    /// Whether it ended before all that were wanted were tried.
    pub is_cut_off: bool,
}

impl Summary {
    /// What came of seeds that were not gone on with.
    pub fn of_known(results: Vec<LiveResult>) -> Self {
        let tried = results.len() as u64;
        Self {
            all: tried,
            wanted: tried,
            results,
            ..Self::default()
        }
    }

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

    /// What of the specifications had nothing to look at in any run.
    pub fn never_looked(&self) -> Vec<&Unlooked> {
        never_looked(&self.results)
    }

    /// Takes what came of a failure that was tried.
    fn take(&mut self, result: LiveResult) {
        self.found
            .extend(likeness(&result.judged, &result.held.violations));
        self.results.push(result);
    }

    /// Adds what came of another seed.
    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.all += other.all;
        self.wanted += other.wanted;
        self.found.extend(other.found);
        self.results.extend(other.results);
        self.results.sort_by(|a, b| a.address.cmp(&b.address));
        self.left += other.left;
        self.is_cut_off |= other.is_cut_off;
    }
}

/// What of the specifications had nothing to look at in any of these runs, as far as they came to their
/// end.
pub fn never_looked(results: &[LiveResult]) -> Vec<&Unlooked> {
    let examined = results.iter().filter(|result| !result.held.is_cut_short);
    Unlooked::in_all(examined.map(|result| &result.held.unlooked[..]))
}

/// A failure that is to be tried.
#[derive(Debug, Clone)]
struct Item {
    address: Address,
    failure: Failure,
}

impl Item {
    /// The same with one fault of a recovery after it.
    fn with_one_more(&self, plan: &Plan, index: u64) -> Self {
        let mut next = self.clone();
        next.address.again.push(index);
        next.failure.faults.extend(plan.fault(index));
        next
    }
}

/// Those with one fault, in the order in which they are tried.
fn wanted(plan: &SeedPlan, selection: &Selection) -> Vec<Item> {
    let sample = selection.sample.unwrap_or(u64::MAX) as usize;
    let sampled = plan.plan.order().take(sample);
    let is_ours = |index: &u64| selection.shard.is_none_or(|shard| shard.contains(*index));
    let item = |index| {
        let faults: Vec<_> = plan.plan.fault(index).into_iter().collect();
        let first = faults.first().filter(|_| selection.fork);
        Item {
            address: Address {
                seed: plan.seed,
                index,
                again: Vec::new(),
            },
            failure: Failure {
                forked_ns: first.and_then(|fault| plan.plan.fork_before(fault.when)),
                faults,
            },
        }
    };
    sampled.filter(is_ours).map(item).collect()
}

/// Those with one fault more than the `tried` ones, whose results are known: the power fails again
/// where nothing was broken until then. The recoveries take turns. Returns also how many there are
/// in these recoveries.
fn in_recoveries(
    plan: &Plan,
    tried: &[Item],
    results: &[LiveResult],
    selection: &Selection,
) -> (Vec<Item>, u64) {
    let recovered = tried.iter().filter_map(|item| {
        let mut results = results.iter();
        let result = results.find(|result| result.address == item.address)?;
        let is_open = result.judged == Judged::Ok && !result.recovery.is_empty();
        is_open.then(|| (item, plan.of_recovery(&result.recovery)))
    });
    let recovered: Vec<_> = recovered.take(selection.recoveries as usize).collect();
    let count = recovered.iter().map(|(_, plan)| plan.len()).sum();
    let mut orders: Vec<_> = recovered
        .iter()
        .map(|(item, plan)| (item, plan, plan.order()))
        .collect();
    let sample = selection.sample.unwrap_or(count).min(count) as usize;
    let mut items = Vec::new();
    while items.len() < sample {
        for (item, plan, order) in &mut orders {
            if let Some(index) = order.next().filter(|_| items.len() < sample) {
                items.push(item.with_one_more(plan, index));
            }
        }
    }
    (items, count)
}

/// How many failures there are of these seeds, as far as results tell: in recoveries, of those in which one
/// of them is.
pub fn all_failures(plans: &[SeedPlan], results: &[LiveResult]) -> u64 {
    let before = |result: &LiveResult| {
        let mut address = result.address.clone();
        address.again.pop().map(|_| address)
    };
    let recovered: BTreeSet<_> = results.iter().filter_map(before).collect();
    let in_recovery = |result: &LiveResult| {
        let mut plans = plans.iter();
        let of_seed = plans.find(|plan| plan.seed == result.address.seed)?;
        Some(of_seed.plan.of_recovery(&result.recovery).len())
    };
    let results = results.iter();
    let recoveries = results.filter(|result| recovered.contains(&result.address));
    let first: u64 = plans.iter().map(|plan| plan.plan.len()).sum();
    first + recoveries.filter_map(in_recovery).sum::<u64>()
}

/// Tries failures of a seed. What is `known` is not tried again; every new result is given to `found`
/// as it comes, with how many are done of how many.
///
/// # Errors
/// If a run cannot go on, or one of them does not come to the same when it is made again.
pub fn sweep(
    laboratory: &Laboratory,
    plan: &SeedPlan,
    selection: &Selection,
    known: Vec<LiveResult>,
    found: &mut dyn FnMut(&LiveResult, u64, u64) -> Result<()>,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Summary> {
    let mut visit = |items: &[Item], tried_before: usize, summary: &mut Summary| {
        let level = Level {
            laboratory,
            selection,
            tried_before,
        };
        level.visit(items, summary, found, cancelled)
    };
    level_by_level((plan, selection), known, &mut visit)
}

/// Tries those of some failures that are not known; so many have fewer faults.
type Visit<'a> = dyn FnMut(&[Item], usize, &mut Summary) -> Result<()> + 'a;

/// Has those with one fault be tried, then those with one more, as long as all were.
fn level_by_level(
    (plan, selection): (&SeedPlan, &Selection),
    known: Vec<LiveResult>,
    visit: &mut Visit,
) -> Result<Summary> {
    let mut items = wanted(plan, selection);
    let mut summary = Summary {
        seeds: 1,
        all: plan.plan.len(),
        wanted: items.len() as u64,
        results: known,
        ..Summary::default()
    };
    let mut tried_before = 0;
    for depth in 0..=selection.again {
        // The last one of a level may have been enough.
        if !selection.is_enough(&summary) {
            visit(&items, tried_before, &mut summary)?;
        }
        // What is known may be of other recoveries: those of a shard are not those of all.
        summary.left = not_known(&items, &summary.results).len() as u64;
        summary.is_cut_off = summary.left > 0;
        if summary.is_cut_off || depth == selection.again {
            break;
        }
        tried_before += items.len();
        let (next, count) = in_recoveries(&plan.plan, &items, &summary.results, selection);
        items = next;
        summary.all += count;
        summary.wanted += items.len() as u64;
    }
    summary.results.sort_by(|a, b| a.address.cmp(&b.address));
    Ok(summary)
}

/// Those that are not known, by their place in the order, since indices of a sample may have a
/// common divisor.
fn not_known<'a>(items: &'a [Item], known: &[LiveResult]) -> Vec<(usize, &'a Item)> {
    let known: BTreeSet<_> = known.iter().map(|result| &result.address).collect();
    let places = items.iter().enumerate();
    places
        .filter(|(_, item)| !known.contains(&item.address))
        .collect()
}

/// How failures are tried that have as many faults.
struct Level<'a> {
    laboratory: &'a Laboratory,
    selection: &'a Selection,
    /// How many have fewer faults.
    tried_before: usize,
}

impl Level<'_> {
    /// Tries those that are not known, several side by side.
    fn visit(
        &self,
        items: &[Item],
        summary: &mut Summary,
        found: &mut dyn FnMut(&LiveResult, u64, u64) -> Result<()>,
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<()> {
        let left = not_known(items, &summary.results);
        let jobs = self.selection.jobs.max(1);
        let most = if self.selection.fork { TOGETHER_MAX } else { 1 };
        let together = left.len().div_ceil(jobs).clamp(1, most);
        let queue = Mutex::new(left.chunks(together));
        let next = || queue.lock().expect("no holder panics").next();
        let enough = AtomicBool::new(false);
        let is_over = || cancelled() || self.selection.is_late() || enough.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            let (send, results) = mpsc::channel();
            for _ in 0..jobs {
                let (send, next, is_over) = (send.clone(), &next, &is_over);
                scope.spawn(move || {
                    while !is_over() {
                        let Some(items) = next() else {
                            return;
                        };
                        self.visit_together(items, &send, is_over);
                    }
                });
            }
            drop(send);
            let taken = self.take(&results, summary, found, &enough);
            enough.store(
                taken.is_err() || enough.load(Ordering::Relaxed),
                Ordering::Relaxed,
            );
            taken
        })
    }

    /// Tries some that have one run in common, from which each is forked: the earliest first.
    fn visit_together(
        &self,
        items: &[(usize, &Item)],
        send: &mpsc::Sender<Result<LiveResult>>,
        is_over: &dyn Fn() -> bool,
    ) {
        let mut items = items.to_vec();
        items.sort_by_key(|(place, item)| (item.failure.forked_ns, *place));
        let mut prefix = None;
        for (place, item) in items {
            if is_over() {
                return;
            }
            let is_twice = (self.tried_before + place).is_multiple_of(REPEATED_OF);
            let tried = attempt(self.laboratory, item, is_twice, &mut prefix, is_over);
            // Nobody takes it once something went wrong.
            if send.send(tried).is_err() {
                return;
            }
        }
    }

    /// Takes results as they come, until none comes any more.
    fn take(
        &self,
        results: &mpsc::Receiver<Result<LiveResult>>,
        summary: &mut Summary,
        found: &mut dyn FnMut(&LiveResult, u64, u64) -> Result<()>,
        enough: &AtomicBool,
    ) -> Result<()> {
        loop {
            match results.recv_timeout(LOOK_EVERY) {
                Ok(Ok(result)) => summary.take(result),
                Ok(Err(Error::Cluster(cluster::Error::Interrupted)))
                | Err(RecvTimeoutError::Timeout) => continue,
                Ok(Err(error)) => return Err(error),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let result = summary.results.last().expect("it was pushed");
            found(result, summary.results.len() as u64, summary.wanted)?;
            if self.selection.is_enough(summary) {
                enough.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Tries one failure. The second time is a run of its own from the boot on, also where the first one was
/// forked from the prefix of several.
fn attempt<'a>(
    laboratory: &'a Laboratory,
    item: &Item,
    twice: bool,
    prefix: &mut Option<Prefix<'a>>,
    cancelled: &'a dyn Fn() -> bool,
) -> Result<LiveResult> {
    let Item { address, failure } = item;
    tracing::debug!(?address, ?failure, "tries a failure");
    let run = if failure.forked_ns.is_none() {
        laboratory.run(failure, None, cancelled)?
    } else {
        let begin = || laboratory.prefix(false, cancelled);
        let fork = |prefix: &mut Prefix<'a>| {
            prefix.advance(failure)?;
            prefix.fork(None)
        };
        forked(prefix, begin, fork, |future| future.end_with(failure))?
    };
    compared(address, run, twice, || {
        laboratory.run(failure, None, cancelled)
    })
}

/// Has a run be forked from a prefix, which is begun if there is none. One that may have lost a kernel is not
/// forked again.
fn forked<P, F>(
    prefix: &mut Option<P>,
    begin: impl FnMut() -> Result<P>,
    fork: impl FnMut(&mut P) -> Result<F>,
    end: impl FnOnce(F) -> Result<LiveRun>,
) -> Result<LiveRun> {
    let run = end(fork_of(prefix, begin, fork)?)?;
    if run.has_lost_kernel {
        *prefix = None;
    }
    Ok(run)
}

/// A fork of a prefix. If that fails it is tried with another one, once: the host may have ended a kernel while
/// the prefix stood still.
fn fork_of<P, F>(
    prefix: &mut Option<P>,
    mut begin: impl FnMut() -> Result<P>,
    mut fork: impl FnMut(&mut P) -> Result<F>,
) -> Result<F> {
    let begun = match prefix {
        Some(begun) => begun,
        None => prefix.insert(begin()?),
    };
    match fork(begun) {
        Err(error) if !is_interrupted(&error) => {
            tracing::debug!(%error, "cannot be forked: another one is begun");
        }
        forked => return forked,
    }
    // Its machines go before there are others.
    *prefix = None;
    fork(prefix.insert(begin()?))
}

fn is_interrupted(error: &Error) -> bool {
    matches!(error, Error::Cluster(cluster::Error::Interrupted))
}

/// What comes of a failure that was tried; it is tried once more if `twice`, or if it does not say `ok`. A run
/// that has lost a kernel is like no other, and says nothing, neither of the failure nor of another run of it.
fn compared(
    address: &Address,
    mut run: LiveRun,
    twice: bool,
    mut again: impl FnMut() -> Result<LiveRun>,
) -> Result<LiveResult> {
    let is_repeated = (twice || run.judged != Judged::Ok) && !run.has_lost_kernel;
    if !is_repeated {
        return Ok(LiveResult::new(address.clone(), run, false));
    }
    for _ in 0..AGAIN_MAX {
        let again = again()?;
        if !again.has_lost_kernel {
            refuse_difference(address, &run, &again)?;
            return Ok(LiveResult::new(address.clone(), run, true));
        }
    }
    run.held.notes.push(NOT_REPEATED.into());
    Ok(LiveResult::new(address.clone(), run, false))
}

fn refuse_difference(address: &Address, run: &LiveRun, again: &LiveRun) -> Result<()> {
    if again == run {
        return Ok(());
    }
    Err(Error::NotDeterministic {
        address: address.to_string(),
        first: run.history.clone(),
        second: again.history.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::Keeps;
    use crate::laboratory::Held;
    use crate::plan::{At, PointRange, Victims};

    fn plan(positions: std::ops::Range<usize>) -> Plan {
        Plan {
            points: vec![PointRange {
                at: At::Requests,
                node: Some(0),
                positions,
            }],
            first: Vec::new(),
            victims: vec![Victims::All],
            keeps: vec![Keeps::Flushed],
            nodes: 1,
            forks: Vec::new(),
        }
    }

    fn selection(sample: Option<u64>, recoveries: u64) -> Selection {
        Selection {
            sample,
            shard: None,
            again: 2,
            recoveries,
            deadline: None,
            stop_after: None,
            found: BTreeSet::new(),
            jobs: 1,
            fork: false,
        }
    }

    /// What came of an item, whose recovery asks its disk so often.
    fn came(item: &Item, judged: Judged, requests: usize) -> LiveResult {
        LiveResult {
            address: item.address.clone(),
            faults: Vec::new(),
            missed: Vec::new(),
            acknowledged: 0,
            recovery: plan(1..requests + 1).points,
            judged,
            history: String::new(),
            repeated: false,
            forked_ns: None,
            held: Held::default(),
        }
    }

    fn seed_plan() -> SeedPlan {
        SeedPlan {
            seed: 7,
            plan: plan(0..4),
            not_alone: None,
            not_several: None,
        }
    }

    /// A sweep of which these are known, and what it tries comes to that.
    fn swept(selected: &Selection, known: Vec<LiveResult>, judged: &[Judged]) -> Summary {
        let mut judged = judged.iter().cloned();
        let seed_plan = seed_plan();
        let summary = level_by_level((&seed_plan, selected), known, &mut |items, _, summary| {
            let left = not_known(items, &summary.results).into_iter();
            let tried = left.map_while(|(_, item)| Some(came(item, judged.next()?, 1)));
            let tried: Vec<_> = tried.collect();
            for result in tried {
                summary.take(result);
            }
            Ok(())
        });
        summary.expect("nothing fails")
    }

    fn run(judged: Judged, history: &str) -> LiveRun {
        LiveRun {
            happened: Vec::new(),
            missed: Vec::new(),
            acknowledged: Vec::new(),
            recovery: Vec::new(),
            judged,
            history: history.into(),
            forked_ns: None,
            held: Held::default(),
            has_lost_kernel: false,
        }
    }

    /// One that has lost a kernel: that need not come again.
    fn lost() -> LiveRun {
        let why = "it ended".into();
        LiveRun {
            has_lost_kernel: true,
            ..run(Judged::Inconclusive { why }, "other")
        }
    }

    /// That is no reason to end a sweep, nor to forget what the first run came to.
    #[test]
    fn a_run_that_has_lost_a_kernel_is_not_compared_with_another() {
        let address = &wanted(&seed_plan(), &selection(None, 2))[0].address;
        for judged in [Judged::Ok, broken("key-1 is lost")] {
            let whole = || run(judged.clone(), "one");
            for (first, again, repeated, notes) in [
                (lost(), vec![], false, 0),
                (whole(), vec![whole()], true, 0),
                (whole(), vec![lost(), whole()], true, 0),
                (whole(), vec![lost(), lost()], false, 1),
            ] {
                let judged = first.judged.clone();
                let mut again = again.into_iter();
                let came = compared(address, first, true, || Ok(again.next().expect("one more")));
                let came = came.expect("it goes on");
                assert_eq!((came.judged, came.repeated), (judged, repeated));
                assert_eq!((came.held.notes.len(), again.len()), (notes, 0));
            }
            for lost in [vec![], vec![lost()]] {
                let mut again = lost.into_iter().chain([run(judged.clone(), "other")]);
                let refused = compared(address, whole(), true, || Ok(again.next().expect("one")));
                assert!(matches!(refused, Err(Error::NotDeterministic { .. })));
            }
        }
    }

    /// The kernel may be that of the prefix, which all later forks would be without.
    #[test]
    fn after_a_run_that_has_lost_a_kernel_another_prefix_is_begun() {
        let (mut prefix, mut begun) = (None, 0);
        let mut of_prefix = Vec::new();
        for run in [run(Judged::Ok, "one"), lost(), run(Judged::Ok, "two")] {
            let begin = || {
                begun += 1;
                Ok(begun)
            };
            let fork = |prefix: &mut i32| {
                of_prefix.push(*prefix);
                Ok(())
            };
            let came = forked(&mut prefix, begin, fork, |()| Ok(run.clone()));
            assert_eq!(came.expect("it is forked"), run);
        }
        assert_eq!(of_prefix, [1, 1, 2]);
    }

    /// The host may have ended its kernel while it stood still.
    #[test]
    fn if_a_prefix_cannot_be_forked_another_one_is_begun_once() {
        let gone = || Error::System {
            doing: "have the kernel of a fork itself".into(),
            error: std::io::ErrorKind::BrokenPipe.into(),
        };
        let interrupted = || Error::Cluster(cluster::Error::Interrupted);
        let ended = || Ok(run(Judged::Ok, "one"));
        for (came, tried, left, is_run) in [
            (vec![Ok(())], vec![1], Some(1), true),
            (vec![Err(gone()), Ok(())], vec![1, 2], Some(2), true),
            (vec![Err(gone()), Err(gone())], vec![1, 2], Some(2), false),
            (vec![Err(interrupted())], vec![1], Some(1), false),
        ] {
            let (mut prefix, mut of_prefix) = (Some(1), Vec::new());
            let mut came = came.into_iter();
            let fork = |prefix: &mut i32| {
                of_prefix.push(*prefix);
                came.next().expect("once more")
            };
            let forked = forked(&mut prefix, || Ok(2), fork, |()| ended());
            assert_eq!((forked.is_ok(), of_prefix, prefix), (is_run, tried, left));
        }
        // It is not the fork that fails.
        let (mut prefix, mut begun) = (Some(1), 0);
        let begin = || {
            begun += 1;
            Ok(2)
        };
        let forked = forked(&mut prefix, begin, |_| Ok(()), |()| Err(gone()));
        assert_eq!((forked.is_ok(), begun), (false, 0));
    }

    #[test]
    fn results_that_no_failure_of_the_sweep_has_do_not_stand_for_others() {
        let selected = selection(None, 2);
        let items = wanted(&seed_plan(), &selected);
        // A shard has looked at other recoveries.
        let in_recovery = |index| items[3].with_one_more(&plan(1..9), index);
        let known = (0..8).map(|index| came(&in_recovery(index), Judged::Ok, 0));
        let mut known: Vec<_> = known.collect();
        known.push(came(&items[3], Judged::Ok, 8));
        let summary = swept(&selected, known, &[Judged::Ok]);
        assert!(summary.is_cut_off, "{summary:?}");
        assert_eq!((summary.left, summary.results.len()), (2, 10));
    }

    #[test]
    fn after_the_last_failure_of_a_level_that_is_enough_the_next_level_is_left() {
        let broken = || broken("key-1 is lost");
        let all = [Judged::Ok, Judged::Ok, Judged::Ok, broken(), broken()];
        let selected = Selection {
            stop_after: Some(1),
            ..selection(None, 2)
        };
        let summary = swept(&selected, Vec::new(), &all);
        assert_eq!((summary.broken(), summary.results.len()), (1, 4));
        assert!(summary.is_cut_off && summary.left == 2, "{summary:?}");
        // If there is no next level, nothing is left.
        let selected = Selection {
            again: 0,
            ..selected
        };
        let summary = swept(&selected, Vec::new(), &all);
        assert!(!summary.is_cut_off && summary.left == 0, "{summary:?}");
    }

    fn broken(what: &str) -> Judged {
        Judged::Broken {
            broken: vec![what.into()],
        }
    }

    #[test]
    fn a_sweep_stops_after_so_many_different_violations() {
        let mut selected = Selection {
            stop_after: Some(2),
            ..selection(None, 2)
        };
        let items = wanted(&seed_plan(), &selected);
        let known = vec![came(&items[0], broken("node a does not come up"), 0)];
        let all = ["key-1 is lost", "key-2 is lost", "key-3 is lost"].map(broken);
        let summary = swept(&selected, known.clone(), &all);
        assert_eq!((summary.broken(), summary.found.len()), (4, 1));
        assert!(!selected.is_enough(&summary), "{summary:?}");
        // A seed before this one had the same, or another one.
        selected.found = summary.found.clone();
        assert!(!selected.is_enough(&summary));
        selected.found = BTreeSet::from(["a value is stale".to_owned()]);
        assert!(selected.is_enough(&summary));
        let other = [broken("key-1 is lost"), broken("node a does not come up")];
        let summary = swept(&selected, known, &other);
        assert_eq!(summary.found.len(), 2, "what was known is found again");
    }

    #[test]
    fn the_power_fails_again_where_nothing_was_broken_and_recoveries_take_turns() {
        let seed_plan = seed_plan();
        let selected = selection(None, 2);
        let items = wanted(&seed_plan, &selected);
        let broken = Judged::Broken { broken: vec![] };
        let judged = [broken, Judged::Ok, Judged::Ok, Judged::Ok];
        let results: Vec<_> = items
            .iter()
            .zip(judged)
            .zip(1..)
            .map(|((item, judged), requests)| came(item, judged, requests))
            .collect();
        let (again, count) = in_recoveries(&seed_plan.plan, &items, &results, &selected);
        assert_eq!(count, 5, "two and three, not the fourth");
        let from: Vec<_> = again.iter().map(|item| item.address.index).collect();
        let (one, other) = (items[1].address.index, items[2].address.index);
        assert_eq!(from, [one, other, one, other, other]);
        let addresses: BTreeSet<_> = again.iter().map(|item| &item.address).collect();
        assert_eq!(addresses.len(), 5);
        assert!(again.iter().all(|item| item.failure.faults.len() == 2));
        let (sampled, _) = in_recoveries(&seed_plan.plan, &items, &results, &selection(Some(2), 2));
        assert_eq!(sampled.len(), 2);
        assert_eq!(sampled[1].address, again[1].address);
        // Of the recoveries that nothing is known of none are counted.
        let plans = [seed_plan.clone()];
        assert_eq!(all_failures(&plans, &results), 4);
        let of_both: Vec<_> = again.iter().map(|item| came(item, Judged::Ok, 0)).collect();
        let all = [&results[..], &of_both].concat();
        assert_eq!(all_failures(&plans, &all), 4 + 5);
        let of_one = [&results[..], &of_both[..1]].concat();
        assert_eq!(all_failures(&plans, &of_one), 4 + 2);
        // And once more.
        let results = [came(&again[0], Judged::Ok, 1)];
        let (third, _) = in_recoveries(&seed_plan.plan, &again, &results, &selected);
        assert_eq!(third.len(), 1);
        assert_eq!(third[0].address.again.len(), 2);
        assert_eq!(third[0].failure.faults.len(), 3);
    }
}
