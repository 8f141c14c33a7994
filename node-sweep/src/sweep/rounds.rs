//! The rounds of a sweep: which states one visits depends on what came of those before.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use campaign::Interrupt;

use super::judges::{Answer, Job, judge_all};
use super::maker::{Maker, Making};
use super::{PANIC_SEEN_AFTER, Plan, Progress, Source, Subject, Swept, Watch};
use crate::error::{Error, Result};
use crate::tree::Fingerprint;
use crate::undamaged::Asked;

/// States that are made and wait for someone to look at them, for each who does.
const WAITING_MAX: usize = 4;

/// A sweep in several rounds: which states a round visits depends on what came of those before.
pub(super) struct Rounds<'a, 'scope, S> {
    pub(super) maker: Maker<S>,
    pub(super) are_slow: bool,
    /// To those who look at states.
    pub(super) jobs: SyncSender<Job>,
    pub(super) events: SyncSender<Happened>,
    pub(super) heard: Heard<'a, 'scope>,
}

/// What was told of states, and who tells it.
pub(super) struct Heard<'a, 'scope> {
    /// Those who look at states. They end when there are no more.
    pub(super) judges: Vec<ScopedJoinHandle<'scope, ()>>,
    pub(super) incoming: Receiver<Happened>,
    pub(super) stop: &'a Stop<'a>,
    pub(super) watch: &'a mut dyn Watch,
    pub(super) at: Progress,
    /// The states that were looked at, or known.
    pub(super) judged: HashSet<Fingerprint>,
    pub(super) swept: Swept,
}

/// What somebody has done.
pub(super) enum Happened {
    /// Something is known of a state.
    Judged(Answer),
    /// A state was left, because there is no time for it.
    Left,
    /// The check was asked of what the run left.
    Asked(Asked),
    /// All states of a round were made, and of so many something will be told.
    AllMade(u64),
}

impl<'a, 'scope, S: Source> Rounds<'a, 'scope, S> {
    /// Has each of `subjects` look at what will be made.
    pub(super) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        source: S,
        subjects: Vec<Box<dyn Subject + 'env>>,
        stop: &'env Stop<'env>,
        watch: &'a mut dyn Watch,
    ) -> Self
    where
        'env: 'a,
    {
        let (jobs, waiting) = sync_channel(WAITING_MAX * subjects.len());
        let (events, incoming) = sync_channel(WAITING_MAX * subjects.len().max(1));
        let waiting = Arc::new(Mutex::new(waiting));
        let are_slow = subjects.iter().all(|subject| subject.is_slow());
        // A subject has mounted things where its thread alone sees them, so it stays there.
        let judge = |subject| {
            let (waiting, events) = (waiting.clone(), events.clone());
            scope.spawn(move || judge_all(subject, &waiting, &events, stop))
        };
        let judges = subjects.into_iter().map(judge).collect();
        Self {
            maker: Maker::of(source),
            are_slow,
            jobs,
            events,
            heard: Heard {
                judges,
                incoming,
                stop,
                watch,
                at: Progress::default(),
                judged: HashSet::new(),
                swept: Swept::default(),
            },
        }
    }

    /// Visits states, until all were or somebody stops it.
    pub(super) fn visit(&mut self, indices: impl Iterator<Item = u64> + Send) -> Result<()> {
        let counts = Counts::of(self.heard.at);
        let mut making = Making {
            maker: &mut self.maker,
            jobs: &self.jobs,
            events: &self.events,
            sent: 0,
            stop: self.heard.stop,
            counts: &counts,
        };
        let (are_slow, heard) = (self.are_slow, &mut self.heard);
        std::thread::scope(|scope| {
            let maker = scope.spawn(move || making.make(are_slow, indices));
            heard.all(&maker, &counts)
        })
    }

    /// Visits states with less missing than in a broken one, until no new one is broken. There is
    /// little time for that once the time is up.
    pub(super) fn visit_those_with_less_missing(&mut self) -> Result<()> {
        self.maker.is_beside = true;
        let mut known = HashSet::new();
        while !self.heard.stop.is_now() {
            self.maker.judged.clone_from(&self.heard.judged);
            let Maker { seen, source, .. } = &self.maker;
            let broken = self
                .heard
                .swept
                .broken
                .keys()
                .filter(|key| known.insert(**key));
            let in_time = broken.take_while(|_| !self.heard.stop.is_now());
            let less = in_time.flat_map(|key| source.with_less_missing(seen[key].smallest.1));
            let less: BTreeSet<_> = less.collect();
            if less.is_empty() {
                break;
            }
            self.visit(less.into_iter())?;
        }
        Ok(())
    }

    /// What came of the sweep.
    pub(super) fn conclude(mut self) -> Swept {
        let checked = self.heard.at.checked + self.count();
        let Self { maker, heard, .. } = self;
        let Heard {
            stop,
            judged,
            mut swept,
            ..
        } = heard;
        for (key, broken) in &mut swept.broken {
            let same = maker.seen[key];
            (broken.states, broken.smallest) = (maker.states(key), same.smallest.1);
            broken.models = same.models;
            // Another state that is the same may have other losses.
            if let Some((index, losses)) = maker.with_losses.get(key) {
                broken.smallest = *index;
                broken.with_losses = Some(Arc::clone(losses));
            }
            broken.is_unproven = maker.unproven.contains(key);
        }
        let is_part = stop.plan.is_sample || stop.plan.only_known || stop.plan.shard.is_some();
        swept.is_whole = !is_part && !swept.interrupted && !swept.is_over;
        swept.checked = checked;
        swept.coverage = maker.crashes.coverage(&maker.source.runs(), &judged);
        swept.coverage.crowded = maker.source.crowded();
        swept
    }

    /// Counts the states that were visited, and returns how many more were looked at by earlier runs of
    /// the sweep than this one came to.
    fn count(&mut self) -> u64 {
        let Self { maker, heard, .. } = self;
        let Heard {
            stop,
            judged,
            swept,
            ..
        } = heard;
        let looked_at = maker.seen.keys().filter(|key| judged.contains(*key));
        let looked_at = looked_at.map(|key| maker.states(key));
        let of_others = maker.seen.iter().filter(|(key, _)| !stop.plan.is_ours(key));
        let of_others = of_others.map(|(_, same)| same.states);
        let besides = maker.besides.iter().filter(|key| judged.contains(*key));
        swept.states = maker.impossible + looked_at.sum::<u64>();
        swept.others = maker.others + of_others.sum::<u64>();
        (swept.impossible, swept.besides) = (maker.impossible, besides.count() as u64);
        if swept.interrupted || swept.is_over {
            return 0;
        }
        let known = stop.plan.known.keys();
        let left = known.filter(|key| !judged.contains(*key)).count() as u64;
        swept.states += left;
        swept.besides += left;
        left
    }
}

impl Heard<'_, '_> {
    /// Hears of all states of a round, while they are made.
    fn all(&mut self, maker: &ScopedJoinHandle<'_, ()>, counts: &Counts) -> Result<()> {
        let (mut due, mut told) = (None, 0);
        let mut has_ended = false;
        let mut failed = None;
        while due != Some(told) {
            match self.incoming.recv_timeout(PANIC_SEEN_AFTER) {
                Err(_) => self.look_for_panics(maker, due.is_some(), &mut has_ended)?,
                Ok(Happened::AllMade(sent)) => due = Some(sent),
                Ok(Happened::Left) => told += 1,
                Ok(Happened::Asked(asked)) => {
                    self.watch.asked(asked, self.stop.is_time_up());
                }
                Ok(Happened::Judged(answer)) => {
                    told += 1;
                    counts.add_to(&mut self.at);
                    if let Err(error) = self.keep(answer) {
                        self.stop.interrupt.request();
                        failed.get_or_insert(error);
                    }
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Nothing was told for a while: who makes or looks at states may have panicked. `has_ended` is
    /// whether who makes them had ended the last time.
    fn look_for_panics(
        &self,
        maker: &ScopedJoinHandle<'_, ()>,
        is_made: bool,
        has_ended: &mut bool,
    ) -> Result<()> {
        // It would have told before it ended.
        if *has_ended && !is_made {
            return Err(Error::Panicked("makes"));
        }
        *has_ended = maker.is_finished();
        if has_ended_early(&self.judges) {
            self.stop.interrupt.request();
            if is_made {
                return Err(Error::Panicked("looks at"));
            }
        }
        Ok(())
    }

    /// Keeps what is known of a state, and tells how far the sweep is.
    pub(super) fn keep(&mut self, answer: Answer) -> Result<()> {
        let Answer {
            index,
            key,
            verdict,
            is_known,
        } = answer;
        let kept = verdict.and_then(|verdict| {
            if !is_known {
                self.watch.judged(index, &key, &verdict)?;
            }
            self.judged.insert(key);
            self.swept.add((index, key), verdict, &mut self.at);
            Ok(())
        });
        self.watch.progress(self.at);
        kept
    }
}

/// Whether one of those who look at states has ended before there were no more.
pub(super) fn has_ended_early(judges: &[ScopedJoinHandle<'_, ()>]) -> bool {
    judges.iter().any(ScopedJoinHandle::is_finished)
}

/// What ends a round before its end.
pub(super) struct Stop<'a> {
    pub(super) plan: &'a Plan,
    /// Nothing new is begun after this.
    pub(super) deadline: Mutex<Option<Instant>>,
    pub(super) interrupt: &'a Interrupt,
    /// The time was up, and something was left for that.
    pub(super) is_over: AtomicBool,
}

impl<'a> Stop<'a> {
    pub(super) fn of(plan: &'a Plan, interrupt: &'a Interrupt) -> Self {
        Self {
            plan,
            deadline: Mutex::new(plan.deadline),
            interrupt,
            is_over: AtomicBool::default(),
        }
    }

    /// Whether the time was up before all was done.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether nothing new is to be begun.
    pub(super) fn is_now(&self) -> bool {
        let is_over = self.is_time_up();
        if is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        is_over || self.interrupt.requested()
    }

    pub(super) fn is_time_up(&self) -> bool {
        let deadline = *self.deadline.lock().expect("nobody panics with it");
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Puts off the end.
    pub(super) fn give_time(&self, more: Duration) {
        let mut deadline = self.deadline.lock().expect("nobody panics with it");
        *deadline = deadline.map(|deadline| deadline.max(Instant::now()) + more);
    }
}

/// What was made so far.
pub(super) struct Counts {
    pub(super) made: AtomicU64,
    pub(super) different: AtomicU64,
}

impl Counts {
    /// After earlier rounds.
    pub(super) fn of(at: Progress) -> Self {
        Self {
            made: at.made.into(),
            different: at.different.into(),
        }
    }

    pub(super) fn add_to(&self, at: &mut Progress) {
        at.made = self.made.load(Ordering::Relaxed);
        at.different = self.different.load(Ordering::Relaxed);
    }
}
