//! A finding made small: as little missing as will do, on as few nodes, in a crash that comes as
//! early as can be. States are checked for that which the sweep did not visit, or had no reason to;
//! each is one that a crash can leave.

mod calls;
mod disks;

use std::collections::HashSet;

use campaign::{Interrupt, ddmin};
use trace_store::Trace;

use crate::again::Address;
use crate::check::{Complaint, Verdict};
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::findings::{Findings, Kinds};
use crate::judged::Verdicts;
use crate::recoveries::Recoveries;
use crate::request::{Level, Request};
use crate::specs::explain_state;
use crate::starts::Turns;
use crate::states::CrashState;
use crate::sweep::{Broken, Subject};
use crate::tree::{Fingerprint, Impossible};
use crate::undamaged::Undamaged;

use calls::Calls;
use disks::Disks;

/// A crash that is earlier by so many moments than the last one that will do is tried as well: what
/// is broken from some moment on may not be so at each one after it.
const STEPS_MAX: usize = 8;

/// How much there is to a crash state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Operations that are missing, wholly or in part; at the block level, writes.
    pub missing: usize,
    /// Nodes of which something is missing.
    pub nodes: usize,
    /// Events before the crash, on all nodes.
    pub events: usize,
}

/// What is left of a finding.
#[derive(Debug)]
pub struct Minimized {
    /// What there is to tell of it. Its state need not be one of the sweep.
    pub finding: Finding,
    /// The state.
    pub state: CrashState,
    /// What it was.
    pub before: Shape,
    /// What it is.
    pub after: Shape,
    /// How many states were checked.
    pub checked: u64,
    /// The user stopped it: smaller ones may be there.
    pub interrupted: bool,
}

/// A finding of a sweep, and what is known of that.
#[derive(Debug, Clone, Copy)]
pub struct Minimization<'a> {
    /// What was recorded.
    pub trace: &'a Trace,
    /// What the sweep was asked for.
    pub request: &'a Request,
    /// The finding.
    pub finding: &'a Finding,
    /// The verdicts of its level: what is not broken, or in other words, is not checked again.
    pub known: &'a Verdicts,
    /// Ends it.
    pub interrupt: &'a Interrupt,
}

/// Crash states of a level, in order to make them less.
trait Lessen {
    type State: Clone;

    /// What is missing in a state, node by node.
    fn missing(&self, state: &Self::State) -> Vec<Missing>;

    /// The state in which no more than these is missing; none if no crash leaves that.
    fn with_missing(&self, state: &Self::State, missing: &[Missing]) -> Option<Self::State>;

    /// How many events had happened, on all nodes.
    fn events(&self, state: &Self::State) -> usize;

    /// At how many moments before the crash the power could have failed.
    fn moments(&self, state: &Self::State) -> usize;

    /// The state if it had failed at one of these; none if no crash leaves that.
    fn earlier(&self, state: &Self::State, moment: usize) -> Option<Self::State>;

    /// Crashes within the first operation that is missing, or the last one, and before it.
    fn in_flight(&self, state: &Self::State) -> Vec<Self::State>;

    /// Makes a state.
    fn make(&mut self, state: &Self::State) -> Result<CrashState, Impossible>;

    /// What there is to tell of a state of which this was said.
    fn story(
        &mut self,
        state: &Self::State,
        complaint: Complaint,
        crash_state: &CrashState,
    ) -> Result<Finding>;
}

/// Something that is missing in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Missing {
    node: usize,
    /// An operation, by its event; at the block level a write, by its index in the log.
    what: usize,
    /// It is there in part: the operation was in flight, or the write is torn.
    in_part: bool,
}

/// Looks for less that is broken in like words. None if the finding does not come again. `tell` is
/// told of each success.
///
/// # Errors
/// If the sweep has no such state, or nothing can be checked.
pub fn minimize(
    of: &Minimization<'_>,
    subject: &mut dyn Subject,
    tell: &mut dyn FnMut(Shape),
) -> Result<Option<Minimized>> {
    let mut minimized = minimize_state(of, subject, tell)?;
    if let Some(Minimized { finding, state, .. }) = &mut minimized {
        // A state of a recovery rests on what came before that, too.
        finding.derivations = explain_state(of.trace, of.request, state, &finding.complaint)?;
    }
    Ok(minimized)
}

/// The same without why rules say of it what they say.
fn minimize_state(
    of: &Minimization<'_>,
    subject: &mut dyn Subject,
    tell: &mut dyn FnMut(Shape),
) -> Result<Option<Minimized>> {
    let (trace, state) = (of.trace, of.finding.state);
    if of.finding.level().is_of_disks() {
        let explore = of.request.explore_of(trace)?;
        let recordings = of.request.disks_at(of.finding.level(), explore, trace)?;
        of.finding.address().refuse(recordings.len())?;
        let (recording, state) = recordings.find(state);
        let (trace, space) = (recording.trace, &recording.space);
        let disks = Disks::new(trace, space)?;
        let of = Minimization { trace, ..*of };
        return run(&of, disks, space.state(state), subject, tell);
    }
    if of.finding.level() == Level::Recovery {
        let recoveries = Recoveries::new(trace, of.request)?;
        of.finding.address().refuse(recoveries.len())?;
        let (recovery, state) = recoveries.find(state);
        let trace = recovery.trace;
        let of = Minimization { trace, ..*of };
        return minimize_calls(&of, state, subject, tell);
    }
    minimize_calls(of, state, subject, tell)
}

/// The same of a state of what programs asked of their file systems.
fn minimize_calls(
    of: &Minimization<'_>,
    state: u64,
    subject: &mut dyn Subject,
    tell: &mut dyn FnMut(Shape),
) -> Result<Option<Minimized>> {
    let explore = of.request.explore_of(of.trace)?;
    let requests = of.request.of_calls(explore)?;
    let spaces = of.request.spaces(explore, of.trace)?;
    let level = Level::Syscalls;
    Address { level, state }.refuse(spaces.len())?;
    let (model, state) = match of.finding.losses() {
        Some(losses) => spaces.with_losses(state, &losses),
        None => spaces.state(state),
    };
    let findings = Findings::new(of.trace, &spaces, &of.request.model).of_model(model);
    let calls = Calls::new(findings, &spaces.members()[model].space, requests);
    run(of, calls, state, subject, tell)
}

fn run<L: Lessen>(
    of: &Minimization<'_>,
    mut level: L,
    state: L::State,
    subject: &mut dyn Subject,
    tell: &mut dyn FnMut(Shape),
) -> Result<Option<Minimized>> {
    let kinds = Kinds::new(of.trace);
    let mut judge = Judge {
        words: kinds.of(&of.finding.complaint),
        kinds,
        subject,
        checked: 0,
    };
    let Ok(crash_state) = level.make(&state) else {
        return Err(Error::NotShown(of.finding.state));
    };
    let before = shape(&level, &state);
    let Some(complaint) = judge.look_again(&crash_state, of)? else {
        return Ok(None);
    };
    let turns = crash_state.turns.clone();
    let best = Best {
        state,
        crash_state,
        complaint,
    };
    let mut laboratory = Laboratory {
        of,
        turns,
        undamaged: None,
        level,
        judge,
        tell,
        best,
        failed: HashSet::new(),
    };
    laboratory.lessen()?;
    laboratory.conclude(before).map(Some)
}

fn shape<L: Lessen>(level: &L, state: &L::State) -> Shape {
    let missing = level.missing(state);
    let nodes: HashSet<_> = missing.iter().map(|missing| missing.node).collect();
    Shape {
        missing: missing.len(),
        nodes: nodes.len(),
        events: level.events(state),
    }
}

/// Who says whether a state is broken as the finding is.
struct Judge<'a> {
    subject: &'a mut dyn Subject,
    kinds: Kinds<'a>,
    /// What the check said of the finding, but for what differs among states that are alike.
    words: Vec<String>,
    checked: u64,
}

impl Judge<'_> {
    fn is_alike(&self, verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Broken(complaint) if self.kinds.of(complaint) == self.words)
    }

    /// What the check says of the state of the finding.
    fn look_again(
        &mut self,
        crash_state: &CrashState,
        of: &Minimization<'_>,
    ) -> Result<Option<Complaint>> {
        // One that was not broken each time needs more than one chance.
        for _ in 0..of.finding.complaint.tries.unwrap_or(1).max(1) {
            let complaint = self.look(crash_state)?;
            if complaint.is_some() || of.interrupt.requested() {
                return Ok(complaint);
            }
        }
        Ok(None)
    }

    /// What the check says of a state that is broken twice, in the words of the finding.
    fn look(&mut self, crash_state: &CrashState) -> Result<Option<Complaint>> {
        self.checked += 1;
        let first = self.subject.judge(crash_state, false)?;
        if !self.is_alike(&first) {
            return Ok(None);
        }
        let second = self.subject.judge(crash_state, true)?;
        let is_alike = self.is_alike(&second);
        Ok(match second {
            Verdict::Broken(complaint) if is_alike => Some(complaint),
            _ => None,
        })
    }
}

/// The smallest state so far.
struct Best<S> {
    state: S,
    crash_state: CrashState,
    complaint: Complaint,
}

struct Laboratory<'a, L: Lessen> {
    of: &'a Minimization<'a>,
    /// Which nodes were started first.
    turns: Option<Turns>,
    /// What says whether the cluster survives other orders, once that was asked.
    undamaged: Option<Undamaged>,
    level: L,
    judge: Judge<'a>,
    tell: &'a mut dyn FnMut(Shape),
    best: Best<L::State>,
    /// States that are not broken, or in other words.
    failed: HashSet<Fingerprint>,
}

impl<L: Lessen> Laboratory<'_, L> {
    /// What is left when nothing more can be taken away.
    fn conclude(self, before: Shape) -> Result<Minimized> {
        let Self {
            of,
            mut level,
            judge,
            best,
            ..
        } = self;
        let story = level.story(&best.state, best.complaint, &best.crash_state)?;
        Ok(Minimized {
            finding: Finding {
                number: of.finding.number,
                seen_under: of.finding.seen_under.clone(),
                recorded_under: of.finding.recorded_under.clone(),
                ..story
            },
            before,
            after: shape(&level, &best.state),
            state: best.crash_state,
            checked: judge.checked,
            interrupted: of.interrupt.requested(),
        })
    }

    fn lessen(&mut self) -> Result<()> {
        loop {
            let before = self.shape();
            self.spare_nodes()?;
            self.lose_less()?;
            self.come_earlier()?;
            self.put_in_flight()?;
            if self.shape() == before || self.of.interrupt.requested() {
                return Ok(());
            }
        }
    }

    fn shape(&self) -> Shape {
        shape(&self.level, &self.best.state)
    }

    /// Takes all away at once that a node has lost.
    fn spare_nodes(&mut self) -> Result<()> {
        for node in 0.. {
            let missing = self.level.missing(&self.best.state);
            let others: Vec<_> = missing
                .iter()
                .copied()
                .filter(|one| one.node != node)
                .collect();
            if missing.iter().all(|one| one.node < node) {
                return Ok(());
            }
            if others.len() < missing.len() && !others.is_empty() {
                let state = self.level.with_missing(&self.best.state, &others);
                self.is_enough(state)?;
            }
        }
        Ok(())
    }

    /// Takes away what is missing, in pieces and then one by one.
    fn lose_less(&mut self) -> Result<()> {
        let whole = self.best.state.clone();
        let missing = self.level.missing(&whole);
        let test = |missing: &[Missing]| {
            let state = self.level.with_missing(&whole, missing);
            self.is_enough(state)
        };
        ddmin(&missing, test).map(drop)
    }

    /// Has the power fail earlier: first by halves, then step by step.
    fn come_earlier(&mut self) -> Result<()> {
        let whole = self.best.state.clone();
        let (mut first, mut last) = (0, self.level.moments(&whole));
        while first < last {
            let middle = usize::midpoint(first, last);
            let state = self.level.earlier(&whole, middle);
            if self.is_enough(state)? {
                last = middle;
            } else {
                first = middle + 1;
            }
        }
        for moment in (last.saturating_sub(STEPS_MAX)..last).rev() {
            let state = self.level.earlier(&whole, moment);
            self.is_enough(state)?;
        }
        Ok(())
    }

    /// Has the power fail within an operation, as long as that will do.
    fn put_in_flight(&mut self) -> Result<()> {
        loop {
            let mut found = false;
            for state in self.level.in_flight(&self.best.state) {
                if self.is_enough(Some(state))? {
                    found = true;
                    break;
                }
            }
            if !found {
                return Ok(());
            }
        }
    }

    /// Whether a state is broken as the finding is; then it is the best so far.
    fn is_enough(&mut self, state: Option<L::State>) -> Result<bool> {
        let Some(state) = state.filter(|_| !self.of.interrupt.requested()) else {
            return Ok(false);
        };
        let Ok(crash_state) = self.level.make(&state) else {
            return Ok(false);
        };
        let complaint = if crash_state.key == self.best.crash_state.key {
            self.best.complaint.clone()
        } else if let Some(complaint) = self.look(&crash_state)?
            && self.survives(crash_state.turns.as_ref())?
        {
            complaint
        } else {
            return Ok(false);
        };
        let before = self.shape();
        self.best = Best {
            state,
            crash_state,
            complaint,
        };
        let after = self.shape();
        if after != before {
            (self.tell)(after);
        }
        Ok(true)
    }

    /// Whether the cluster survives this order if nothing is lost. The sweep has asked that of the
    /// order of the finding.
    fn survives(&mut self, turns: Option<&Turns>) -> Result<bool> {
        let Some(turns) = turns.filter(|turns| self.turns.as_ref() != Some(turns)) else {
            return Ok(true);
        };
        let undamaged = match self.undamaged.take() {
            Some(undamaged) => undamaged,
            None => Undamaged::of(self.of.trace, &self.of.request.model)?,
        };
        let (subject, interrupt) = (&mut *self.judge.subject, self.of.interrupt);
        let survives = undamaged.survives(turns, subject, interrupt);
        self.undamaged = Some(undamaged);
        survives
    }

    fn look(&mut self, crash_state: &CrashState) -> Result<Option<Complaint>> {
        let is_known = |verdict| !self.judge.is_alike(verdict);
        if self.failed.contains(&crash_state.key)
            || self.of.known.get(&crash_state.key).is_some_and(is_known)
        {
            return Ok(None);
        }
        let complaint = self.judge.look(crash_state)?;
        if complaint.is_none() {
            self.failed.insert(crash_state.key);
        }
        Ok(complaint)
    }
}

/// A state that stands for itself alone.
fn alone(complaint: Complaint) -> Broken {
    Broken::one(0, complaint)
}
