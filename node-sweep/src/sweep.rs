//! Many crash states, made one after the other and looked at side by side.

mod blame;
mod judges;
mod maker;
mod rounds;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use campaign::{Interrupt, Shard};
use pace_rules::nodes::{Crowded, Loss, Spaces, State};
use trace::Run;
use trace_store::Trace;

use crate::check::{Complaint, Verdict};
use crate::coverage::Coverage;
use crate::error::Result;
use crate::judged::Verdicts;
use crate::states::{CrashState, States};
use crate::tree::{Fingerprint, Impossible};
use crate::undamaged::{Asked, Undamaged};

use rounds::{Rounds, Stop};

/// A state that is not broken each time is so often enough once it was so as often as this, in so
/// many tries. Beside a check that was always ok of the state that no crash has touched, each of
/// these is a chance of less than two in a thousand (Fisher's exact test).
pub(crate) const OFTEN_ENOUGH: [(u32, u32); 3] = [(2, 3), (3, 7), (4, 12)];

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
    /// Whether nobody looked whether each of these is needed.
    pub is_unproven: bool,
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
            is_unproven: false,
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

    /// At how many moments of what was recorded there are losses that no state has; nothing if that
    /// is not known.
    fn crowded(&self) -> Option<Crowded> {
        None
    }

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

    /// Whether it is one that lost all at once that nothing had made durable, or some of each of that,
    /// of which fewer losses can be made.
    fn is_at_once(&self, _index: u64) -> bool {
        false
    }

    /// The one that lost all of that, where this one has kept one operation.
    fn with_all_lost(&self, _index: u64) -> Option<u64> {
        None
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

    fn crowded(&self) -> Option<Crowded> {
        Some(self.spaces.crowded(self.run))
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

    fn is_at_once(&self, index: u64) -> bool {
        self.spaces.relaxation(index).is_at_once()
    }

    fn with_all_lost(&self, index: u64) -> Option<u64> {
        self.spaces.with_all_lost(index)
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
    let stop = Stop::of(plan, interrupt);
    std::thread::scope(|scope| {
        let mut rounds = Rounds::begin(scope, source, subjects, &stop, watch);
        rounds.visit(indices)?;
        rounds.heard.swept.interrupted = interrupt.requested();
        rounds.heard.swept.is_over = stop.is_over();
        stop.give_time(EXPLAINED_FOR);
        // What was not visited is not known.
        if plan.is_sample || plan.only_known || rounds.heard.swept.is_over {
            rounds.visit_those_with_less_missing()?;
        }
        rounds.blame()?;
        rounds.heard.swept.interrupted |= interrupt.requested();
        Ok(rounds.conclude())
    })
}

impl Swept {
    /// Adds what is known of a state.
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
