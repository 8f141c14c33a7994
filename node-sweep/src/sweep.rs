//! Many crash states, made one after the other and looked at side by side.

mod blame;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use campaign::{Interrupt, Shard};
use pace_rules::nodes::{Loss, Spaces, State};
use trace::Run;
use trace_store::Trace;

use crate::check::{Complaint, Verdict};
use crate::coverage::{Coverage, Crashes};
use crate::error::{Error, Result};
use crate::judged::Verdicts;
use crate::starts::Turns;
use crate::states::{CrashState, States};
use crate::tree::{Fingerprint, Impossible};
use crate::undamaged::{Asked, Asker, Undamaged};

/// States that are made and wait for someone to look at them, for each who does.
const WAITING_MAX: usize = 4;

/// A state that is not broken each time is so often enough once it was so as often as this, in so
/// many tries. Beside a check that was always ok of the state that no crash has touched, each of
/// these is a chance of less than two in a thousand (Fisher's exact test).
pub(crate) const OFTEN_ENOUGH: [(u32, u32); 3] = [(2, 3), (3, 7), (4, 12)];

/// Among so many states those with the same disks are found.
const LOOKED_AHEAD: usize = 10_000;

/// So long after its time a sweep goes on with what its findings need to be told rightly.
pub(crate) const EXPLAINED_FOR: Duration = Duration::from_secs(10);

/// If nothing comes of states for so long, it may be that nobody looks at them any more.
const PANIC_SEEN_AFTER: Duration = Duration::from_secs(1);

/// So many reasons why states were inconclusive are kept.
const REASONS_MAX: usize = 1000;

/// What looks at crash states: a program's check, or a cluster with its own.
pub trait Subject: Send {
    /// Looks at a state. It is asked a second time of one that is broken, with `again`, and must
    /// owe nothing to the first time then.
    ///
    /// # Errors
    /// If nothing can be looked at here at all.
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict>;

    /// Whether it had better look once at what the disks hold in several states, with all that was
    /// acknowledged in these, because that costs it less.
    fn is_slow(&self) -> bool {
        false
    }

    /// Looks at what the disks hold in a state, for each of these files of acknowledgements.
    ///
    /// # Errors
    /// If nothing can be looked at here at all.
    fn judge_each(
        &mut self,
        state: &CrashState,
        acknowledged: &[Arc<[u8]>],
    ) -> Result<Vec<Verdict>> {
        let alone = |lines: &Arc<[u8]>| {
            self.judge(
                &CrashState {
                    acknowledged: lines.clone(),
                    ..state.clone()
                },
                false,
            )
        };
        acknowledged.iter().map(alone).collect()
    }
}

impl<S: Subject + ?Sized> Subject for &mut S {
    fn judge(&mut self, state: &CrashState, again: bool) -> Result<Verdict> {
        (**self).judge(state, again)
    }

    fn is_slow(&self) -> bool {
        (**self).is_slow()
    }

    fn judge_each(
        &mut self,
        state: &CrashState,
        acknowledged: &[Arc<[u8]>],
    ) -> Result<Vec<Verdict>> {
        (**self).judge_each(state, acknowledged)
    }
}

/// Which states of those that are made are looked at, and until when.
#[derive(Debug, Default)]
pub struct Plan {
    /// Only those of this part. What is equal is of one part.
    pub shard: Option<Shard>,
    /// Those that somebody has looked at before, with what came of that.
    pub known: Verdicts,
    /// Nobody looks at any other.
    pub only_known: bool,
    /// Nothing new is begun after this.
    pub deadline: Option<Instant>,
    /// With what a check is compared before anything is taken for broken.
    pub undamaged: Option<Arc<Undamaged>>,
    /// Only some of the states are asked for. Nor are all visited if the time is up.
    pub is_sample: bool,
}

impl Plan {
    fn is_ours(&self, key: &Fingerprint) -> bool {
        self.shard
            .is_none_or(|shard| shard.contains(number_of(key)))
    }
}

/// By what a key is of one shard or another.
pub(crate) fn number_of(key: &Fingerprint) -> u64 {
    let first = key.first_chunk().expect("a key has that many bytes");
    u64::from_le_bytes(*first)
}

/// How far a sweep is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Different states that were looked at, those that were known before included.
    pub checked: u64,
    /// Those of them that are broken.
    pub broken: u64,
    /// Those that nothing can be said of.
    pub open: u64,
    /// Different states among those that were made so far.
    pub different: u64,
    /// How many were made so far, to know which are different.
    pub made: u64,
}

/// Who watches a sweep.
pub trait Watch {
    /// A state that was not known before was looked at.
    ///
    /// # Errors
    /// If the verdict cannot be kept. That ends the sweep.
    fn judged(&mut self, _state: u64, _key: &Fingerprint, _verdict: &Verdict) -> Result<()> {
        Ok(())
    }

    /// It is so far.
    fn progress(&mut self, _at: Progress) {}

    /// Before something broken is believed, the check is asked of what the run left: it was so
    /// often. `is_over` says whether the time is up.
    fn asked(&mut self, _asked: Asked, _is_over: bool) {}
}

/// Who does not look.
impl Watch for () {}

/// What came of a sweep.
#[derive(Debug, Default)]
pub struct Swept {
    /// States that were visited: looked at, the same as one that was, or left out.
    pub states: u64,
    /// Those of them that no file system would show, and that were left out.
    pub impossible: u64,
    /// Different states that were looked at.
    pub checked: u64,
    /// The broken ones, and what the check said of them.
    pub broken: HashMap<Fingerprint, Broken>,
    /// Of those of them that lost all at once: broken ones that show why, with fewer losses. The
    /// first shows what others do not, if there is such a thing.
    pub blamed: HashMap<Fingerprint, Vec<Fingerprint>>,
    /// Why states were inconclusive, with how many of them there are and one of them.
    pub inconclusive: HashMap<String, (u64, u64)>,
    /// States of other shards.
    pub others: u64,
    /// States that were visited though nobody had asked for them: with less missing than in a broken
    /// one.
    pub besides: u64,
    /// After what of the run crashes were tried.
    pub coverage: Coverage,
    /// All states were visited, here.
    pub is_whole: bool,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// Its time was up before its end.
    pub is_over: bool,
}

impl Swept {
    /// What is broken among these states, by their numbers from the first of them on: where a sweep
    /// is of several spaces, one after the other.
    pub(crate) fn part(&self, states: Range<u64>) -> Self {
        let own = self.broken.iter();
        let own = own.filter(|(_, broken)| states.contains(&broken.smallest));
        let own = own.map(|(key, broken)| {
            let smallest = broken.smallest - states.start;
            let broken = broken.clone();
            (*key, Broken { smallest, ..broken })
        });
        Self {
            broken: own.collect(),
            blamed: self.blamed.clone(),
            ..Self::default()
        }
    }
}

/// States that are the same to any check, and are broken.
#[derive(Debug, Clone)]
pub struct Broken {
    /// How many they are.
    pub states: u64,
    /// Which of them is the easiest to understand.
    pub smallest: u64,
    /// What is.
    pub complaint: Complaint,
    /// On which models one of them is possible; of states of disks, the recordings that have one.
    pub models: ModelSet,
    /// If it is not the state of that number, which lost all at once: all that is lost of that.
    pub with_losses: Option<Arc<[Loss]>>,
}

impl Broken {
    /// One state of which this was said.
    pub(crate) fn one(state: u64, complaint: Complaint) -> Self {
        Self {
            states: 1,
            smallest: state,
            complaint,
            models: ModelSet::default(),
            with_losses: None,
        }
    }

    /// The state that is the easiest to understand, and which of the models it is of.
    pub(crate) fn state(&self, spaces: &Spaces) -> (usize, State) {
        match &self.with_losses {
            Some(losses) => spaces.with_losses(self.smallest, losses),
            None => spaces.state(self.smallest),
        }
    }
}

/// Some of the models of a sweep: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModelSet(u64);

impl ModelSet {
    /// The one at a place.
    ///
    /// # Panics
    /// If there are more than anybody knows.
    pub fn of(place: usize) -> Self {
        assert!(place < u64::BITS as usize, "so many models");
        Self(1 << place)
    }

    /// Adds others.
    pub fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }

    /// Whether the one at a place is among them.
    pub fn contains(self, place: usize) -> bool {
        self.0 & Self::of(place).0 != 0
    }
}

/// States that are the same.
#[derive(Debug, Clone, Copy)]
struct Same {
    states: u64,
    smallest: (Size, u64),
    models: ModelSet,
}

/// How much there is to understand in a state: what was lost, what came before the crash, and how
/// much of that reached the disks.
pub type Size = (usize, usize, usize);

/// The size of a state.
pub(crate) fn size(state: &State) -> Size {
    let lost = state.nodes.iter().map(|node| node.lost.len()).sum();
    let kept = state.nodes.iter().map(|node| node.micros).sum();
    (lost, state.cut.iter().sum(), kept)
}

/// A crash state that was made.
pub struct Made {
    /// How much there is to understand in it.
    pub size: Size,
    /// The run that it is of, if there are several: its place among them.
    pub run: usize,
    /// For each node of it: so many of its events had happened.
    pub cut: Vec<usize>,
    /// The state, unless no file system would show such a directory.
    pub state: Result<CrashState, Impossible>,
}

/// Crash states that are made, each by its number.
pub trait Source: Send {
    /// What was recorded.
    fn runs(&self) -> Vec<&Run>;

    /// Makes one.
    fn make(&mut self, index: u64) -> Made;

    /// The run that it is of, if there are several: its place among them.
    fn run(&self, _index: u64) -> usize {
        0
    }

    /// The model that it is of, if they are of several: its place among them.
    fn model(&self, _index: u64) -> usize {
        0
    }

    /// Those that have less missing than this one, and are else the same; none if that is not known.
    fn with_less_missing(&self, _index: u64) -> Vec<u64> {
        Vec::new()
    }

    /// Whether it is one that lost all at once that nothing had made durable, of which fewer losses
    /// can be made.
    fn is_synced(&self, _index: u64) -> bool {
        false
    }

    /// What it lost.
    fn losses(&self, _index: u64) -> Vec<Loss> {
        Vec::new()
    }

    /// Those that lost some of that, and nothing else, with what they lost.
    fn with_fewer_lost(&self, _index: u64) -> Vec<(u64, Vec<Loss>)> {
        Vec::new()
    }

    /// Makes the state in which no more than these is lost.
    fn make_with(&mut self, index: u64, _losses: &[Loss]) -> Made {
        self.make(index)
    }
}

/// The states of models, as trees.
pub(crate) struct Trees<'a> {
    /// Of each model.
    states: Vec<States<'a>>,
    spaces: &'a Spaces,
    run: &'a Run,
}

impl<'a> Trees<'a> {
    pub(crate) fn new(trace: &'a Trace, spaces: &'a Spaces) -> Self {
        Self {
            states: States::each(&trace.run, spaces, trace),
            spaces,
            run: &trace.run,
        }
    }

    fn made(&mut self, (model, state): (usize, State)) -> Made {
        Made {
            size: size(&state),
            state: self.states[model].make(&state),
            run: 0,
            cut: state.cut,
        }
    }
}

impl Source for Trees<'_> {
    fn runs(&self) -> Vec<&Run> {
        vec![self.run]
    }

    fn make(&mut self, index: u64) -> Made {
        self.made(self.spaces.state(index))
    }

    fn model(&self, index: u64) -> usize {
        self.spaces.place(index).0
    }

    fn with_less_missing(&self, index: u64) -> Vec<u64> {
        self.spaces.with_less_missing(index)
    }

    fn is_synced(&self, index: u64) -> bool {
        self.spaces.is_synced(index)
    }

    fn losses(&self, index: u64) -> Vec<Loss> {
        self.spaces.losses(index)
    }

    fn with_fewer_lost(&self, index: u64) -> Vec<(u64, Vec<Loss>)> {
        self.spaces.with_fewer_lost(index)
    }

    fn make_with(&mut self, index: u64, losses: &[Loss]) -> Made {
        self.made(self.spaces.with_losses(index, losses))
    }
}

/// Has each of `subjects` look at states of `spaces`, until all that `indices` names were looked at,
/// the time of the plan is up, or somebody interrupts. States that are the same are looked at once.
/// What nobody could decide because of the interrupt counts as not visited.
///
/// # Errors
/// If a subject or the watch fails.
pub fn sweep(
    trace: &Trace,
    spaces: &Spaces,
    indices: impl Iterator<Item = u64> + Send,
    subjects: Vec<Box<dyn Subject + '_>>,
    plan: &Plan,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<Swept> {
    let trees = Trees::new(trace, spaces);
    sweep_source(trees, indices, subjects, plan, interrupt, watch)
}

/// The same, of states from anywhere.
///
/// What is missing in a broken state has broken it only if less would not have done. So where not
/// all states are visited, those with less missing than in a broken one are visited after the
/// others.
///
/// # Errors
/// If a subject or the watch fails.
pub fn sweep_source(
    source: impl Source,
    indices: impl Iterator<Item = u64> + Send,
    subjects: Vec<Box<dyn Subject + '_>>,
    plan: &Plan,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<Swept> {
    let stop = Stop {
        plan,
        deadline: Mutex::new(plan.deadline),
        interrupt,
        is_over: AtomicBool::default(),
    };
    std::thread::scope(|scope| {
        let (jobs, waiting) = sync_channel(WAITING_MAX * subjects.len());
        let (events, incoming) = sync_channel(WAITING_MAX * subjects.len().max(1));
        let waiting = Arc::new(Mutex::new(waiting));
        let stop = &stop;
        let mut rounds = Rounds {
            maker: Maker::of(source),
            judges: Vec::new(),
            are_slow: subjects.iter().all(|subject| subject.is_slow()),
            jobs,
            events: events.clone(),
            incoming,
            stop,
            watch,
            at: Progress::default(),
            judged: HashSet::new(),
            swept: Swept::default(),
        };
        // A subject has mounted things where its thread alone sees them, so it stays there.
        for subject in subjects {
            let (waiting, events) = (waiting.clone(), events.clone());
            let judge = scope.spawn(move || judge_all(subject, &waiting, &events, stop));
            rounds.judges.push(judge);
        }
        drop(waiting);
        rounds.visit(indices)?;
        rounds.swept.interrupted = interrupt.requested();
        rounds.swept.is_over = stop.is_over.load(Ordering::Relaxed);
        rounds.stop.give_time(EXPLAINED_FOR);
        if plan.is_sample || rounds.swept.is_over {
            rounds.visit_those_with_less_missing()?;
        }
        rounds.blame()?;
        rounds.swept.interrupted |= interrupt.requested();
        Ok(rounds.conclude())
    })
}

/// A sweep in several rounds: which states a round visits depends on what came of those before.
struct Rounds<'a, 'scope, S> {
    maker: Maker<S>,
    /// Those who look at states. They end when there are no more.
    judges: Vec<ScopedJoinHandle<'scope, ()>>,
    are_slow: bool,
    /// To those who look at states.
    jobs: SyncSender<Job>,
    events: SyncSender<Happened>,
    incoming: Receiver<Happened>,
    stop: &'a Stop<'a>,
    watch: &'a mut dyn Watch,
    at: Progress,
    /// The states that were looked at, or known.
    judged: HashSet<Fingerprint>,
    swept: Swept,
}

/// What somebody has done.
enum Happened {
    /// Something is known of a state.
    Judged(Answer),
    /// A state was left, because there is no time for it.
    Left,
    /// The check was asked of what the run left.
    Asked(Asked),
    /// All states of a round were made, and of so many something will be told.
    AllMade(u64),
}

impl<S: Source> Rounds<'_, '_, S> {
    /// Visits states, until all were or somebody stops it.
    fn visit(&mut self, indices: impl Iterator<Item = u64> + Send) -> Result<()> {
        let counts = Counts::of(self.at);
        let mut making = Making {
            maker: &mut self.maker,
            jobs: &self.jobs,
            events: &self.events,
            sent: 0,
            stop: self.stop,
            counts: &counts,
        };
        let are_slow = self.are_slow;
        std::thread::scope(|scope| {
            let maker = scope.spawn(move || making.make(are_slow, indices));
            let (mut due, mut told) = (None, 0);
            let mut has_ended = false;
            let mut failed = None;
            while due != Some(told) {
                match self.incoming.recv_timeout(PANIC_SEEN_AFTER) {
                    Err(_) => {
                        let is_made = due.is_some();
                        // It would have told before it ended.
                        if has_ended && !is_made {
                            return Err(Error::Panicked("makes"));
                        }
                        has_ended = maker.is_finished();
                        if has_ended_early(&self.judges) {
                            self.stop.interrupt.request();
                            if is_made {
                                return Err(Error::Panicked("looks at"));
                            }
                        }
                    }
                    Ok(Happened::AllMade(sent)) => due = Some(sent),
                    Ok(Happened::Left) => told += 1,
                    Ok(Happened::Asked(asked)) => {
                        self.watch.asked(asked, self.stop.is_time_up());
                    }
                    Ok(Happened::Judged(answer)) => {
                        told += 1;
                        let kept =
                            self.swept
                                .keep(answer, &mut self.judged, self.watch, &mut self.at);
                        if let Err(error) = kept {
                            self.stop.interrupt.request();
                            failed.get_or_insert(error);
                        }
                        counts.add_to(&mut self.at);
                        self.watch.progress(self.at);
                    }
                }
            }
            failed.map_or(Ok(()), Err)
        })
    }

    /// Keeps what is known of a state, and tells how far the sweep is.
    fn keep(&mut self, answer: Answer) -> Result<()> {
        let kept = self
            .swept
            .keep(answer, &mut self.judged, self.watch, &mut self.at);
        self.watch.progress(self.at);
        kept
    }

    /// Visits states with less missing than in a broken one, until no new one is broken. There is
    /// little time for that once the time is up.
    fn visit_those_with_less_missing(&mut self) -> Result<()> {
        self.maker.is_beside = true;
        let mut known = HashSet::new();
        while !self.stop.is_now() {
            self.maker.judged.clone_from(&self.judged);
            let Maker { seen, source, .. } = &self.maker;
            let broken = self.swept.broken.keys().filter(|key| known.insert(**key));
            let in_time = broken.take_while(|_| !self.stop.is_now());
            let less = in_time.flat_map(|key| source.with_less_missing(seen[key].smallest.1));
            let less: BTreeSet<_> = less.collect();
            if less.is_empty() {
                break;
            }
            self.visit(less.into_iter())?;
        }
        Ok(())
    }

    fn conclude(self) -> Swept {
        let Self {
            maker,
            stop,
            judged,
            mut at,
            mut swept,
            ..
        } = self;
        // One that nobody has asked for counts once.
        let states = |key: &Fingerprint, same: &Same| {
            let is_beside = maker.besides.contains(key);
            if is_beside { 1 } else { same.states }
        };
        for (key, broken) in &mut swept.broken {
            let same = maker.seen[key];
            (broken.states, broken.smallest) = (states(key, &same), same.smallest.1);
            broken.models = same.models;
            broken.with_losses = maker.with_losses.get(key).cloned();
        }
        let seen = || maker.seen.iter();
        let looked_at = seen().filter(|(key, _)| judged.contains(*key));
        let of_others = seen().filter(|(key, _)| !stop.plan.is_ours(key));
        let besides = maker.besides.iter().filter(|key| judged.contains(*key));
        swept.states =
            maker.impossible + looked_at.map(|(key, same)| states(key, same)).sum::<u64>();
        swept.others = maker.others + of_others.map(|(_, same)| same.states).sum::<u64>();
        (swept.impossible, swept.besides) = (maker.impossible, besides.count() as u64);
        // What was looked at beside those that an earlier run of the sweep had come to.
        if !swept.interrupted && !swept.is_over {
            let known = stop.plan.known.keys();
            let left = known.filter(|key| !judged.contains(*key)).count() as u64;
            swept.states += left;
            swept.besides += left;
            at.checked += left;
        }
        let is_part = stop.plan.is_sample || stop.plan.shard.is_some();
        swept.is_whole = !is_part && !swept.interrupted && !swept.is_over;
        swept.checked = at.checked;
        swept.coverage = maker.crashes.coverage(&maker.source.runs(), &judged);
        swept
    }
}

/// Whether one of those who look at states has ended before there were no more.
fn has_ended_early(judges: &[ScopedJoinHandle<'_, ()>]) -> bool {
    judges.iter().any(ScopedJoinHandle::is_finished)
}

/// What ends a round before its end.
struct Stop<'a> {
    plan: &'a Plan,
    /// Nothing new is begun after this.
    deadline: Mutex<Option<Instant>>,
    interrupt: &'a Interrupt,
    /// The time was up, and something was left for that.
    is_over: AtomicBool,
}

impl Stop<'_> {
    /// Whether nothing new is to be begun.
    fn is_now(&self) -> bool {
        let is_over = self.is_time_up();
        if is_over {
            self.is_over.store(true, Ordering::Relaxed);
        }
        is_over || self.interrupt.requested()
    }

    fn is_time_up(&self) -> bool {
        let deadline = *self.deadline.lock().expect("nobody panics with it");
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Puts off the end.
    fn give_time(&self, more: Duration) {
        let mut deadline = self.deadline.lock().expect("nobody panics with it");
        *deadline = deadline.map(|deadline| deadline.max(Instant::now()) + more);
    }
}

/// What was made so far.
struct Counts {
    made: AtomicU64,
    different: AtomicU64,
}

impl Counts {
    /// After earlier rounds.
    fn of(at: Progress) -> Self {
        Self {
            made: at.made.into(),
            different: at.different.into(),
        }
    }

    fn add_to(&self, at: &mut Progress) {
        at.made = self.made.load(Ordering::Relaxed);
        at.different = self.different.load(Ordering::Relaxed);
    }
}

/// What the disks hold in one or more states.
struct Job {
    /// The first of them.
    state: CrashState,
    /// All of them.
    members: Vec<Member>,
}

/// One of several states whose disks hold the same.
struct Member {
    index: u64,
    key: Fingerprint,
    acknowledged: Arc<[u8]>,
}

/// What is known of a state.
struct Answer {
    index: u64,
    key: Fingerprint,
    verdict: Result<Verdict>,
    /// Nobody looked at it now.
    is_known: bool,
}

/// Makes states, and knows those that it has made.
struct Maker<S> {
    source: S,
    seen: HashMap<Fingerprint, Same>,
    crashes: Crashes,
    impossible: u64,
    /// Impossible ones that other shards count.
    others: u64,
    /// Nobody has asked for what is made now.
    is_beside: bool,
    /// What was made so, and not before.
    besides: HashSet<Fingerprint>,
    /// What was looked at until then.
    judged: HashSet<Fingerprint>,
    /// All that is lost in those that have no number of their own.
    with_losses: HashMap<Fingerprint, Arc<[Loss]>>,
}

impl<S> Maker<S> {
    fn of(source: S) -> Self {
        Self {
            source,
            seen: HashMap::new(),
            crashes: Crashes::default(),
            impossible: 0,
            others: 0,
            is_beside: false,
            besides: HashSet::new(),
            judged: HashSet::new(),
            with_losses: HashMap::new(),
        }
    }
}

/// Makes states in a round, for those who look at them.
struct Making<'a, S> {
    maker: &'a mut Maker<S>,
    jobs: &'a SyncSender<Job>,
    events: &'a SyncSender<Happened>,
    /// Of so many states something is or will be told.
    sent: u64,
    stop: &'a Stop<'a>,
    counts: &'a Counts,
}

impl<S: Source> Making<'_, S> {
    fn make(&mut self, are_slow: bool, indices: impl Iterator<Item = u64>) {
        if are_slow {
            self.make_groups(indices);
        } else {
            self.make_all(indices);
        }
        // Nobody is there to be told if this fails.
        let _ = self.events.send(Happened::AllMade(self.sent));
    }

    /// Gives a job to whoever looks at it, and says whether there is somebody.
    fn give(&mut self, job: Job) -> bool {
        let states = job.members.len() as u64;
        let is_given = self.jobs.send(job).is_ok();
        self.sent += if is_given { states } else { 0 };
        is_given
    }

    /// The next state that is none of those that are known.
    fn next(&mut self, indices: &mut impl Iterator<Item = u64>) -> Option<(CrashState, Member)> {
        loop {
            if self.stop.interrupt.requested() {
                return None;
            }
            let index = indices.next()?;
            if self.stop.is_now() {
                return None;
            }
            let Made {
                size,
                run,
                cut,
                state,
            } = self.maker.source.make(index);
            self.counts.made.fetch_add(1, Ordering::Relaxed);
            let Ok(crash_state) = state else {
                self.count_impossible(index);
                continue;
            };
            // Of another shard's states nobody knows here whether they are judged.
            let is_ours = self.stop.plan.is_ours(&crash_state.key);
            if is_ours {
                self.maker.crashes.add(run, &cut, &crash_state.key);
            }
            if !self.count((size, index), &crash_state, is_ours) {
                continue;
            }
            self.counts.different.fetch_add(1, Ordering::Relaxed);
            if let Some(verdict) = self.stop.plan.known.get(&crash_state.key) {
                let answer = Answer {
                    index,
                    key: crash_state.key,
                    verdict: Ok(verdict.clone()),
                    is_known: true,
                };
                self.events.send(Happened::Judged(answer)).ok()?;
                self.sent += 1;
                continue;
            }
            if self.stop.plan.only_known {
                continue;
            }
            let member = Member {
                index,
                key: crash_state.key,
                acknowledged: crash_state.acknowledged.clone(),
            };
            return Some((crash_state, member));
        }
    }

    /// Counts a state that no file system would show. It has no key.
    fn count_impossible(&mut self, index: u64) {
        let shard = self.stop.plan.shard;
        let is_ours = shard.is_none_or(|shard| shard.contains(index));
        let Maker {
            impossible,
            others,
            is_beside,
            ..
        } = &mut *self.maker;
        match (*is_beside, is_ours) {
            (true, _) => {}
            (false, true) => *impossible += 1,
            (false, false) => *others += 1,
        }
    }

    /// Counts a state, and says whether it is new here: of those that nobody has asked for, also
    /// one that another shard looks at.
    fn count(&mut self, own: (Size, u64), state: &CrashState, is_ours: bool) -> bool {
        let model = ModelSet::of(self.maker.source.model(own.1));
        let Maker {
            seen,
            is_beside,
            besides,
            judged,
            ..
        } = &mut *self.maker;
        let is_known = seen.contains_key(&state.key);
        let same = seen.entry(state.key).or_insert(Same {
            states: 0,
            smallest: own,
            models: model,
        });
        same.smallest = same.smallest.min(own);
        same.models.add(model);
        if *is_beside {
            // It may be the very state that was counted, and looked at or not: there was no time.
            let is_asked_for = is_known && is_ours && !besides.contains(&state.key);
            return if is_asked_for {
                judged.insert(state.key)
            } else {
                besides.insert(state.key)
            };
        }
        same.states += 1;
        !is_known && is_ours
    }

    /// Makes one after the other.
    fn make_all(&mut self, mut indices: impl Iterator<Item = u64>) {
        while let Some((state, member)) = self.next(&mut indices) {
            let members = vec![member];
            if !self.give(Job { state, members }) {
                return;
            }
        }
    }

    /// Makes many in order to know which have the same disks, each of these once more, and so on.
    fn make_groups(&mut self, mut indices: impl Iterator<Item = u64>) {
        loop {
            let groups = self.groups(&mut indices);
            if groups.is_empty() {
                return;
            }
            for members in groups {
                if self.stop.is_now() {
                    return;
                }
                let made = self.maker.source.make(members[0].index);
                let state = made.state.expect("it was made before");
                if !self.give(Job { state, members }) {
                    return;
                }
            }
        }
    }

    /// The next states, those with the same disks together.
    fn groups(&mut self, indices: &mut impl Iterator<Item = u64>) -> Vec<Vec<Member>> {
        let mut groups: Vec<Vec<Member>> = Vec::new();
        let mut places = HashMap::new();
        for _ in 0..LOOKED_AHEAD {
            let Some((state, member)) = self.next(indices) else {
                break;
            };
            let place = *places.entry(state.disks_key).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(member);
        }
        groups
    }
}

/// Looks at states until there are no more. Of each it tells something.
fn judge_all(
    mut subject: Box<dyn Subject + '_>,
    waiting: &Mutex<Receiver<Job>>,
    events: &SyncSender<Happened>,
    stop: &Stop<'_>,
) {
    let mut is_usable = true;
    loop {
        let job = waiting.lock().expect("nobody panics with it").recv();
        let Ok(job) = job else { return };
        let mut left = job.members.len();
        if is_usable && !stop.is_now() {
            let turns = job.state.turns.clone();
            for (member, verdict) in judge(&mut *subject, job) {
                let tell = |asked| {
                    // Who does not listen any more has ended the sweep.
                    let _ = events.send(Happened::Asked(asked));
                };
                let verdict = temper(verdict, turns.as_ref(), &mut *subject, stop, &tell);
                // It may be so because of the interrupt.
                if stop.interrupt.requested() && matches!(verdict, Ok(Verdict::Inconclusive(_))) {
                    break;
                }
                tracing::trace!(state = member.index, ?verdict, "a state was checked");
                is_usable = verdict.is_ok();
                let answer = Answer {
                    index: member.index,
                    key: member.key,
                    verdict,
                    is_known: false,
                };
                left -= 1;
                if events.send(Happened::Judged(answer)).is_err() {
                    return;
                }
                if !is_usable {
                    break;
                }
            }
        }
        for _ in 0..left {
            if events.send(Happened::Left).is_err() {
                return;
            }
        }
    }
}

/// What is broken is so only if the check says less often that of what no crash has touched.
fn temper(
    verdict: Result<Verdict>,
    turns: Option<&Turns>,
    subject: &mut dyn Subject,
    stop: &Stop<'_>,
    tell: &dyn Fn(Asked),
) -> Result<Verdict> {
    let verdict = verdict?;
    let Some(undamaged) = &stop.plan.undamaged else {
        return Ok(verdict);
    };
    undamaged.count(turns);
    // A rule says the same of a state each time.
    if !matches!(&verdict, Verdict::Broken(complaint) if !complaint.is_of_rules()) {
        return Ok(verdict);
    }
    let asker = Asker {
        interrupt: stop.interrupt,
        is_over: &|| stop.is_time_up(),
        tell,
    };
    if !undamaged.ask_more(subject, &asker)? {
        return Ok(Verdict::Inconclusive("interrupted".into()));
    }
    let verdict = undamaged.temper(verdict);
    match (&verdict, turns) {
        (Verdict::Broken(_), Some(turns)) => {
            undamaged.temper_in_turns(verdict, turns, subject, &asker)
        }
        _ => Ok(verdict),
    }
}

/// What is to be said of each of the states of a job; of the first if nothing can be looked at.
fn judge(subject: &mut dyn Subject, job: Job) -> Vec<(Member, Result<Verdict>)> {
    let Job { state, members } = job;
    let lines: Vec<_> = members
        .iter()
        .map(|member| member.acknowledged.clone())
        .collect();
    let first = match subject.judge_each(&state, &lines) {
        Ok(verdicts) => verdicts,
        Err(error) => return members.into_iter().take(1).zip([Err(error)]).collect(),
    };
    let mut twice = |(member, first): (Member, Verdict)| {
        let acknowledged = member.acknowledged.clone();
        let verdict = confirm(
            subject,
            &CrashState {
                key: member.key,
                acknowledged,
                ..state.clone()
            },
            first,
        );
        (member, verdict)
    };
    members.into_iter().zip(first).map(&mut twice).collect()
}

/// A state is broken if it is so twice. One that is not so the second time gets more chances: a
/// cluster may do this or that with it, depending on who is there first. So may a check of any
/// state: what is broken now and then must be so more often than that.
fn confirm(subject: &mut dyn Subject, crash_state: &CrashState, first: Verdict) -> Result<Verdict> {
    let Verdict::Broken(Complaint { words, .. }) = first else {
        return Ok(first);
    };
    let (mut seen, mut tries) = (1, 1);
    for (wanted, most) in OFTEN_ENOUGH {
        while tries < most {
            tries += 1;
            match subject.judge(crash_state, true)? {
                Verdict::Broken(complaint) => {
                    seen += 1;
                    if seen >= wanted {
                        let is_always = seen == tries;
                        return Ok(Verdict::Broken(Complaint {
                            tries: (!is_always).then_some(tries),
                            seen: (!is_always).then_some(seen),
                            ..complaint
                        }));
                    }
                }
                Verdict::Ok => {}
                Verdict::Inconclusive(why) => return Ok(not_repeatable(&words, &why)),
            }
        }
    }
    let ok = tries - seen;
    Ok(not_repeatable(
        &words,
        &format!("ok, {ok} of {tries} times"),
    ))
}

fn not_repeatable(first: &[String], second: &str) -> Verdict {
    let first = first.join("; ");
    Verdict::Inconclusive(format!(
        "not repeatable: the check said first `{first}`, and then of the same `{second}`"
    ))
}

impl Swept {
    /// Keeps what is known of a state.
    fn keep(
        &mut self,
        answer: Answer,
        judged: &mut HashSet<Fingerprint>,
        watch: &mut dyn Watch,
        at: &mut Progress,
    ) -> Result<()> {
        let Answer {
            index,
            key,
            verdict,
            is_known,
        } = answer;
        let verdict = verdict?;
        if !is_known {
            watch.judged(index, &key, &verdict)?;
        }
        judged.insert(key);
        self.add((index, key), verdict, at);
        Ok(())
    }

    fn add(&mut self, (index, key): (u64, Fingerprint), verdict: Verdict, at: &mut Progress) {
        at.checked += 1;
        match verdict {
            Verdict::Ok => {}
            Verdict::Broken(complaint) => {
                at.broken += 1;
                self.broken.insert(key, Broken::one(index, complaint));
            }
            Verdict::Inconclusive(why) => {
                at.open += 1;
                let why = if self.inconclusive.len() < REASONS_MAX {
                    why
                } else {
                    "other reasons".into()
                };
                self.inconclusive.entry(why).or_insert((0, index)).0 += 1;
            }
        }
    }

    /// Different states that were inconclusive.
    pub fn open(&self) -> u64 {
        self.inconclusive.values().map(|(count, _)| count).sum()
    }
}
