//! Many plans, each in a run of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};
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
    /// Until so many more than were known have broken something, or shown what is sought. Runs that have
    /// begun by then are finished and kept.
    pub stop_after: Option<u64>,
    /// How many runs are made side by side; 0 is as 1.
    pub jobs: usize,
}

impl Selection {
    /// The indices of what is meant, in the order in which it is tried.
    fn order<'a>(
        &'a self,
        strategy: &'a dyn Strategy,
        so_far: &'a [InjectResult],
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

    /// Whether its time is over, or so many that were found are enough.
    fn is_over(&self, found: u64) -> bool {
        let is_late = self.deadline.is_some_and(|at| Instant::now() >= at);
        is_late || self.stop_after.is_some_and(|most| found >= most)
    }
}

/// How many of these are what is sought.
fn sought(strategy: &dyn Strategy, results: &[InjectResult]) -> u64 {
    let is_sought = |result: &&InjectResult| strategy.is_what_is_sought(&result.ran);
    results.iter().filter(is_sought).count() as u64
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
        let results = self.results.iter();
        let examined = results.filter(|result| !result.ran.is_cut_short);
        Unlooked::in_all(examined.map(|result| &result.ran.unlooked[..]))
    }

    /// Which rules of `[[histories]]` could judge nothing in any run, each in a sentence.
    pub fn never_judged(&self) -> Vec<String> {
        let results = self.results.iter();
        let mut judged = results.filter(|result| !result.ran.is_cut_short);
        let Some(first) = judged.next() else {
            return Vec::new();
        };
        let in_all = |rule: &&String| {
            judged
                .clone()
                .all(|result| result.ran.unjudged.contains(rule))
        };
        let never = first.ran.unjudged.iter().filter(in_all);
        let words = |rule: &String| {
            format!(
                "[[histories]] of {rule}: no operation was answered with anything that can be wrong"
            )
        };
        never.map(words).collect()
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

    /// How many came to nothing as they waited for a failure point that did not come up, though tried twice
    /// where it could have.
    pub fn missed(&self) -> u64 {
        let missed =
            |result: &&InjectResult| result.ran.missed_its_point() && !result.ran.is_something();
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

/// Whoever makes runs, one after the other, in a thread of its own.
pub trait Runs {
    /// Makes the run of a plan, which has an index.
    ///
    /// # Errors
    /// If the run cannot be made.
    fn run(&mut self, index: u64, plan: &FaultPlan) -> Result<Ran>;
}

impl<F: FnMut(u64, &FaultPlan) -> Result<Ran>> Runs for F {
    fn run(&mut self, index: u64, plan: &FaultPlan) -> Result<Ran> {
        self(index, plan)
    }
}

/// Makes one who makes runs, in the thread in which it is to make them.
pub type MakeRuns<'a> = dyn Fn() -> Box<dyn Runs + 'a> + Sync + 'a;

/// Tries the plans that a strategy proposes, several side by side if the selection says so. `known`
/// is what came of some of them before; each result is told to `keep` when it is known. A strategy
/// that learns proposes the next plan after those. `make` is called once for each of those that make runs.
///
/// # Errors
/// If the first run of all cannot be made, or a result not be kept: once the runs have ended that were
/// made beside it. A later run that cannot be made is inconclusive.
pub fn campaign<'env>(
    strategy: &mut dyn Strategy,
    selection: &Selection,
    known: Vec<InjectResult>,
    make: &'env MakeRuns<'env>,
    keep: &mut dyn FnMut(&InjectResult) -> Result<()>,
) -> Result<Summary> {
    let indices = known.iter().map(|result| result.index);
    let mut going = Going {
        tried: indices.collect(),
        sought_before: sought(strategy, &known),
        summary: Summary {
            results: known,
            ..Summary::default()
        },
        strategy,
        selection,
    };
    going.go_on(make, keep)?;
    let Going {
        mut summary,
        strategy,
        ..
    } = going;
    summary.conclude(strategy, selection);
    Ok(summary)
}

/// A plan that is tried.
#[derive(Debug)]
struct Attempt {
    index: u64,
    plan: FaultPlan,
    /// Whether it was tried just before, and what it waits for did not come.
    is_second: bool,
}

/// What a thread that makes runs says of one: also that it has panicked.
type Made = thread::Result<(usize, Attempt, Result<Ran>)>;

/// Threads that make runs. Each stays for all of its runs, which may have something in common there.
struct Workers<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    make: &'env MakeRuns<'env>,
    all: Vec<Sender<Attempt>>,
    idle: Vec<usize>,
    made: (Sender<Made>, Receiver<Made>),
}

impl<'scope, 'env> Workers<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>, make: &'env MakeRuns<'env>) -> Self {
        Self {
            scope,
            make,
            all: Vec::new(),
            idle: Vec::new(),
            made: mpsc::channel(),
        }
    }

    /// How many runs are made now.
    fn busy(&self) -> usize {
        self.all.len() - self.idle.len()
    }

    fn begin(&mut self, attempt: Attempt) {
        let worker = self.idle.pop().unwrap_or_else(|| self.add());
        let sent = self.all[worker].send(attempt);
        sent.expect("it waits for one");
    }

    /// Starts one more thread. It ends when nobody can give it anything any more.
    fn add(&mut self) -> usize {
        let (send, attempts) = mpsc::channel::<Attempt>();
        let (worker, make, made) = (self.all.len(), self.make, self.made.0.clone());
        self.scope.spawn(move || {
            let mut runs = make();
            for attempt in attempts {
                let run = || runs.run(attempt.index, &attempt.plan);
                let ran = catch_unwind(AssertUnwindSafe(run));
                if made.send(ran.map(|ran| (worker, attempt, ran))).is_err() {
                    return;
                }
            }
        });
        self.all.push(send);
        worker
    }

    /// Waits until one of the runs has ended.
    fn wait_for_one(&mut self) -> (Attempt, Result<Ran>) {
        let made = self.made.1.recv().expect("it is open");
        let (worker, attempt, ran) = made.unwrap_or_else(|panic| resume_unwind(panic));
        self.idle.push(worker);
        (attempt, ran)
    }
}

/// A campaign on its way.
struct Going<'a> {
    strategy: &'a mut dyn Strategy,
    selection: &'a Selection,
    tried: BTreeSet<u64>,
    /// How many of those that were known are what is sought.
    sought_before: u64,
    summary: Summary,
}

impl Going<'_> {
    fn go_on<'env>(
        &mut self,
        make: &'env MakeRuns<'env>,
        keep: &mut dyn FnMut(&InjectResult) -> Result<()>,
    ) -> Result<()> {
        thread::scope(|scope| {
            let mut workers = Workers::new(scope, make);
            loop {
                // The first run of all must be possible: the others wait for it.
                let is_first = self.summary.results.is_empty();
                let most = if is_first { 1 } else { self.selection.jobs };
                while workers.busy() < most.max(1)
                    && let Some(attempt) = self.next()
                {
                    workers.begin(attempt);
                }
                if workers.busy() == 0 {
                    return Ok(());
                }
                let (attempt, ran) = workers.wait_for_one();
                if let Some(again) = self.take(attempt, ran, keep)? {
                    workers.begin(again);
                }
            }
        })
    }

    /// What is tried next; nothing if there is nothing more, as far as it is known by now.
    fn next(&mut self) -> Option<Attempt> {
        let (selection, summary) = (self.selection, &mut self.summary);
        while !summary.is_cut_off {
            let index = selection.next(self.strategy, &summary.results, &self.tried)?;
            let found = sought(self.strategy, &summary.results) - self.sought_before;
            if selection.is_over(found) {
                summary.is_cut_off = true;
                break;
            }
            self.tried.insert(index);
            let plan = self.strategy.propose(index, &summary.results)?;
            let Some(role) = self.strategy.lacks_role(&plan, &summary.results) else {
                return Some(Attempt {
                    index,
                    plan,
                    is_second: false,
                });
            };
            *summary.left_out.entry(role).or_default() += 1;
        }
        None
    }

    /// Keeps what came of a run, or says what is to be tried once more.
    fn take(
        &mut self,
        attempt: Attempt,
        ran: Result<Ran>,
        keep: &mut dyn FnMut(&InjectResult) -> Result<()>,
    ) -> Result<Option<Attempt>> {
        let Some(mut ran) = unless_interrupted(ran, self.summary.results.is_empty())? else {
            self.summary.is_cut_off = true;
            return Ok(None);
        };
        if !ran.is_something() && self.strategy.tries_again(&ran) {
            if !attempt.is_second {
                return Ok(Some(Attempt {
                    is_second: true,
                    ..attempt
                }));
            }
            ran.missed_again();
        }
        let (index, plan) = (attempt.index, attempt.plan.to_string());
        let result = InjectResult { index, plan, ran };
        keep(&result)?;
        self.summary.results.push(result);
        Ok(None)
    }
}

/// What came of a run; nothing if it was interrupted. Only the first one must be possible.
fn unless_interrupted(ran: Result<Ran>, is_first: bool) -> Result<Option<Ran>> {
    match ran {
        Err(Error::Cluster(cluster::Error::Interrupted)) => Ok(None),
        Err(Error::Cluster(error)) if !is_first => Ok(Some(Ran::without(&error))),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::super::given::{cluster_of, violated};
    use super::super::ran::FaultCame;
    use super::super::strategy::Repeated;
    use super::super::want::WANTED;
    use super::*;

    /// How often it is looked who is there.
    const LOOK_EVERY: Duration = Duration::from_millis(5);

    /// A plan, six times, by so many side by side; what was kept, and what it came to.
    fn six(jobs: usize, run: &(dyn Fn(u64) -> Result<Ran> + Sync)) -> (Vec<u64>, Result<Summary>) {
        let here = Path::new("/");
        let text = "[[nodes]]\nname = \"a\"\ncommand = \"true\"\n[client]\ncommand = \"true\"\n";
        let file = cluster_of(text);
        let text = "[[faults]]\nat = { time_s = 1 }\nfault = \"kill\"\non = \"a\"\n";
        let plan = FaultPlan::parse(text, here, &file).expect("a plan");
        let selection = Selection {
            jobs,
            ..Selection::default()
        };
        let mut kept = Vec::new();
        let summary = campaign(
            &mut Repeated { plan, times: 6 },
            &selection,
            Vec::new(),
            &|| Box::new(|index: u64, _: &FaultPlan| run(index)),
            &mut |result| {
                kept.push(result.index);
                Ok(())
            },
        );
        (kept, summary)
    }

    fn ran() -> Ran {
        Ran::without(&cluster::Error::Interrupted)
    }

    /// One plan, which is tried again whatever comes of it.
    struct Insistent(FaultPlan);

    impl Strategy for Insistent {
        fn count(&self) -> Option<u64> {
            Some(1)
        }

        fn propose(&mut self, _: u64, _: &[InjectResult]) -> Option<FaultPlan> {
            Some(self.0.clone())
        }

        fn tries_again(&self, _: &Ran) -> bool {
            true
        }
    }

    /// How often such a plan is run that comes to this, and what is kept.
    fn insisted(came: &Ran) -> (usize, Vec<Ran>) {
        let runs = AtomicUsize::new(0);
        let mut kept = Vec::new();
        let summary = campaign(
            &mut Insistent(FaultPlan::new(0, Vec::new())),
            &Selection::default(),
            Vec::new(),
            &|| {
                Box::new(|_: u64, _: &FaultPlan| {
                    runs.fetch_add(1, Ordering::SeqCst);
                    Ok(came.clone())
                })
            },
            &mut |result| {
                kept.push(result.ran.clone());
                Ok(())
            },
        );
        summary.expect("it was run");
        (runs.into_inner(), kept)
    }

    #[test]
    fn a_run_is_made_again_only_if_it_came_to_nothing() {
        let broken = Ran {
            faults: vec![FaultCame::not_yet()],
            ..Ran::of(Judged::Broken {
                broken: vec!["k1 is lost".into()],
            })
        };
        assert!(broken.missed_its_point());
        assert_eq!(insisted(&broken), (1, vec![broken.clone()]));
        let missed = |ran: Ran| {
            let result = InjectResult {
                index: 0,
                plan: String::new(),
                ran,
            };
            let results = vec![result];
            Summary {
                results,
                ..Summary::default()
            }
            .missed()
        };
        assert_eq!(missed(broken.clone()), 0, "it was not made twice");
        let judged = Judged::Ok;
        assert_eq!(missed(Ran { judged, ..broken }), 1);
        let wanted = Ran {
            violations: vec![violated(WANTED)],
            ..Ran::of(Judged::Ok)
        };
        assert_eq!(insisted(&wanted), (1, vec![wanted.clone()]));
        let (runs, kept) = insisted(&Ran::of(Judged::Ok));
        assert_eq!((runs, kept[0].notes.len()), (2, 1), "in two runs");
    }

    /// Whoever has begun waits, for ten seconds at most, until so many are there.
    fn meets(here: &AtomicUsize, count: usize) -> bool {
        here.fetch_add(1, Ordering::SeqCst);
        let deadline = Instant::now() + Duration::from_secs(10);
        while here.load(Ordering::SeqCst) < count && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
        }
        here.load(Ordering::SeqCst) >= count
    }

    #[test]
    fn runs_are_made_side_by_side_once_the_first_has_ended() {
        let (begun, met) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (kept, summary) = six(5, &|index| {
            if index == 0 {
                thread::sleep(Duration::from_millis(100));
                assert_eq!(begun.load(Ordering::SeqCst), 0, "it is alone");
            } else if meets(&begun, 5) {
                met.fetch_add(1, Ordering::SeqCst);
            }
            Ok(ran())
        });
        assert_eq!(met.into_inner(), 5);
        assert_eq!((kept.len(), kept[0]), (6, 0));
        let summary = summary.expect("all were made");
        let indices = summary.results.iter().map(|result| result.index);
        assert_eq!(indices.collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert!(!summary.is_cut_off);
    }

    #[test]
    fn after_an_interrupt_none_begins_and_those_that_end_are_kept() {
        let here = AtomicUsize::new(0);
        let (kept, summary) = six(2, &|index| match index {
            0 => Ok(ran()),
            1 => {
                assert!(meets(&here, 2));
                Err(Error::Cluster(cluster::Error::Interrupted))
            }
            _ => {
                assert!(meets(&here, 2));
                thread::sleep(Duration::from_secs(2));
                Ok(ran())
            }
        });
        assert_eq!(kept, [0, 2]);
        assert!(summary.expect("some were made").is_cut_off);
    }

    #[test]
    fn a_campaign_that_goes_on_stops_after_so_many_more() {
        let broken = Ran::of(Judged::Broken {
            broken: vec!["k1 is lost".into()],
        });
        let known = InjectResult {
            index: 0,
            plan: String::new(),
            ran: broken.clone(),
        };
        let selection = Selection {
            stop_after: Some(2),
            ..Selection::default()
        };
        let mut kept = Vec::new();
        let plan = FaultPlan::new(0, Vec::new());
        let summary = campaign(
            &mut Repeated { plan, times: 6 },
            &selection,
            vec![known],
            &|| Box::new(|_: u64, _: &FaultPlan| Ok(broken.clone())),
            &mut |result| {
                kept.push(result.index);
                Ok(())
            },
        );
        assert!(summary.expect("they were made").is_cut_off);
        assert_eq!(kept, [1, 2]);
    }

    #[test]
    fn the_first_run_must_be_possible_and_no_other() {
        let error = || Error::Cluster(cluster::Error::NoDisk("a".into()));
        let (kept, summary) = six(3, &|_| Err(error()));
        assert!(kept.is_empty() && summary.is_err());
        let (kept, summary) = six(3, &|index| {
            if index == 0 { Ok(ran()) } else { Err(error()) }
        });
        assert_eq!(
            (kept.len(), summary.expect("it went on").inconclusive()),
            (6, 6)
        );
    }
}
