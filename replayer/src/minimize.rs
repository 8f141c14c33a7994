//! A finding made small: fewer operations and fewer lost writes that break the same promise, or
//! fewer operations that the same kernel dies of in the same way.

use std::collections::{BTreeSet, HashSet};

use campaign::{Interrupt, ddmin};
use pace_rules::disk::{Relaxation, State, States};
use workloads::{Op, Step, Workload};

use crate::engine::search::Search;
use crate::error::{Error, Result};
use crate::findings::{Found, FoundWhat};
use crate::result::{Death, RunLog, StateFindings};
use crate::sweep::Workers;

/// What most file systems write at once, in bytes: smaller is not simpler.
const SMALL_BYTES: u64 = 4096;

/// Which words of `--states` have states that lost several writes spelled out. More at a time
/// are looked for as what no flush covered, all of it: they are too many.
const LOST_TOGETHER_MAX: usize = 2;

/// What is left of a finding.
#[derive(Debug, Clone)]
pub struct Minimized {
    /// The workload.
    pub workload: Workload,
    /// Its crash state, or how the kernel died of it.
    pub what: FoundWhat,
    /// What the disk was asked.
    pub log: Option<RunLog>,
    /// With these states a sweep of the workload has it.
    pub states: States,
    /// How many lost writes the finding had when it came again.
    pub lost_before: usize,
    /// How many workloads were run.
    pub tried: usize,
    /// The user stopped it: smaller ones may be there.
    pub interrupted: bool,
}

/// Looks for less that breaks the same promise, the first one of the finding, or that the kernel
/// dies of in the same kind of step with the same words. None if the finding does not come again.
/// `asked` is what the sweep visited; `tell` is told of each success.
///
/// # Errors
/// If the kernel that died is the one that we run under, or workers cannot be had.
pub fn minimize(
    found: &Found,
    asked: &States,
    workers: &mut Workers,
    interrupt: &Interrupt,
    tell: &mut dyn FnMut(&Workload, &FoundWhat),
) -> Result<Option<Minimized>> {
    let best = (found.workload.clone(), (None, found.what.clone()));
    let mut laboratory = Laboratory {
        asked,
        kept: Kept::of(found, asked, workers)?,
        workers,
        interrupt,
        tell,
        best,
        tried: 1,
        failed: HashSet::new(),
    };
    let Some(first) = laboratory.again(&found.workload)? else {
        return Ok(None);
    };
    let lost_before = lost_writes(&first.1);
    laboratory.best.1 = first;
    laboratory.lose_less()?;
    laboratory.drop_operations()?;
    laboratory.shrink_sizes()?;
    laboratory.lose_less()?;
    let states = match &laboratory.best.1.1 {
        FoundWhat::State(state) => states_with(state, asked),
        FoundWhat::Death(_) => asked.to_owned(),
    };
    let Laboratory {
        best: (workload, (log, what)),
        tried,
        ..
    } = laboratory;
    Ok(Some(Minimized {
        workload,
        what,
        log,
        states,
        lost_before,
        tried,
        interrupted: interrupt.requested(),
    }))
}

fn lost_writes(what: &FoundWhat) -> usize {
    match what {
        FoundWhat::State(state) => state.lost_writes(),
        FoundWhat::Death(_) => 0,
    }
}

/// What to look for to see a finding again: its state, or one that breaks the same promise at the
/// same path, or violates the same rule with the same facts.
///
/// # Errors
/// If the kernel died of it.
pub fn search_for(found: &Found, asked: &States) -> Result<Search> {
    let FoundWhat::State(state) = &found.what else {
        return Err(Error::KernelDied(found.number));
    };
    let Some(first) = state.findings.first() else {
        return Err(Error::NoPromise(found.number));
    };
    Ok(Search {
        promise: first.promise,
        path: Some(first.path.clone()),
        rule: first.rule_name().map(str::to_owned),
        rule_facts: first.rule_facts(),
        state: state.state.clone(),
        again: places_again(state),
        operations_done: state.operations_done,
        under_way: state.under_way,
        states: without_sample(asked),
        fewest: false,
        facts: false,
    })
}

/// What was found, with what the disk was asked.
type Again = (Option<RunLog>, FoundWhat);

/// What must stay so while everything else goes.
enum Kept {
    /// The promise that is broken.
    Promise(Search),
    /// What kind of death it is.
    Death(String),
}

impl Kept {
    fn of(found: &Found, asked: &States, workers: &Workers) -> Result<Self> {
        match &found.what {
            FoundWhat::State(_) => Ok(Self::Promise(Search {
                path: None,
                rule_facts: BTreeSet::new(),
                ..search_for(found, asked)?
            })),
            // What it holds stays held: this one would have more of that with each try.
            FoundWhat::Death(_) if !workers.are_in_guests() => {
                Err(Error::HeldByRunningKernel(found.number))
            }
            FoundWhat::Death(death) => Ok(Self::Death(death.kind())),
        }
    }
}

struct Laboratory<'a> {
    asked: &'a States,
    kept: Kept,
    workers: &'a mut Workers,
    interrupt: &'a Interrupt,
    tell: &'a mut dyn FnMut(&Workload, &FoundWhat),
    /// The smallest so far.
    best: (Workload, Again),
    tried: usize,
    /// Workloads that break nothing.
    failed: HashSet<String>,
}

impl Laboratory<'_> {
    /// Has the finding come again, of the same workload.
    fn again(&mut self, workload: &Workload) -> Result<Option<Again>> {
        match &self.kept {
            Kept::Promise(search) => self.search(workload, &search.clone()),
            Kept::Death(_) => self.die(workload),
        }
    }

    fn search(&mut self, workload: &Workload, search: &Search) -> Result<Option<Again>> {
        let mut result = self.workers.search(workload, search, self.interrupt)?;
        Ok(result
            .broken
            .pop()
            .map(|state| (result.log, FoundWhat::State(state))))
    }

    fn die(&mut self, workload: &Workload) -> Result<Option<Again>> {
        let Kept::Death(kind) = &self.kept else {
            return Ok(None);
        };
        let death = self
            .workers
            .death_of(workload, self.interrupt)?
            .filter(|death: &Death| death.kind() == *kind);
        Ok(death.map(|death| (None, FoundWhat::Death(death))))
    }

    /// Has the disk lose as few writes as will do.
    fn lose_less(&mut self) -> Result<()> {
        let (Kept::Promise(search), (workload, (_, FoundWhat::State(state)))) =
            (&self.kept, &self.best)
        else {
            return Ok(());
        };
        if state.lost_writes() == 0 || self.interrupt.requested() {
            return Ok(());
        }
        let search = Search {
            fewest: true,
            ..like(search, state, without_sample(self.asked))
        };
        let (workload, lost) = (workload.clone(), state.lost_writes());
        self.tried += 1;
        if let Some(fewer) = self.search(&workload, &search)?
            && lost_writes(&fewer.1) <= lost
        {
            (self.tell)(&workload, &fewer.1);
            self.best.1 = fewer;
        }
        Ok(())
    }

    fn drop_operations(&mut self) -> Result<()> {
        let whole = self.best.0.clone();
        let places: Vec<usize> = (0..whole.setup.len() + whole.run.len()).collect();
        ddmin(&places, |places| self.is_enough(&part(&whole, places))).map(drop)
    }

    fn shrink_sizes(&mut self) -> Result<()> {
        for place in 0..self.best.0.setup.len() + self.best.0.run.len() {
            for change in [small_length, no_offset] {
                let mut smaller = self.best.0.clone();
                if op_at(&mut smaller, place).is_some_and(change) {
                    self.is_enough(&smaller)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a workload still breaks the promise, or kills the kernel; then it is the best so
    /// far.
    fn is_enough(&mut self, workload: &Workload) -> Result<bool> {
        if self.interrupt.requested()
            || !is_whole(workload)
            || self.failed.contains(&workload.to_line())
        {
            return Ok(false);
        }
        self.tried += 1;
        let again = match (&self.kept, &self.best.1.1) {
            (Kept::Promise(search), FoundWhat::State(state)) => {
                let search = like(search, state, states_with(state, self.asked));
                let result = self.workers.search(workload, &search, self.interrupt)?;
                // What was not done as it is written shows something else, if anything.
                let measured = result.inconclusive.is_none() && result.not_applicable.is_none();
                let state = result.broken.into_iter().next().filter(|_| measured);
                state.map(|state| (result.log, FoundWhat::State(state)))
            }
            _ => self.die(workload)?,
        };
        let Some(again) = again else {
            self.failed.insert(workload.to_line());
            return Ok(false);
        };
        (self.tell)(workload, &again.1);
        self.best = (workload.clone(), again);
        Ok(true)
    }
}

/// A search for a state like this one.
fn like(search: &Search, state: &StateFindings, states: States) -> Search {
    let (operations_done, under_way) = (state.operations_done, state.under_way);
    Search {
        state: state.state.clone(),
        again: places_again(state),
        operations_done,
        under_way,
        states,
        ..search.clone()
    }
}

/// Where the power failed in each recovery.
fn places_again(state: &StateFindings) -> Vec<State> {
    state
        .again
        .iter()
        .map(|again| again.state.clone())
        .collect()
}

/// A workload with these of its steps, setup first, and nothing of what was said about all of it.
fn part(workload: &Workload, places: &[usize]) -> Workload {
    let setup = workload.setup.len();
    let (before, after): (Vec<usize>, Vec<usize>) =
        places.iter().partition(|place| **place < setup);
    Workload {
        name: workload.name.clone(),
        setup: before
            .into_iter()
            .map(|place| workload.setup[place].clone())
            .collect(),
        run: after
            .into_iter()
            .map(|place| workload.run[place - setup].clone())
            .collect(),
        ..Workload::default()
    }
}

/// Whether it can be written down and read again: nothing uses a handle that nothing opened.
fn is_whole(workload: &Workload) -> bool {
    workloads::parse(&workload.to_line(), "")
        .is_ok_and(|read| read.as_slice() == std::slice::from_ref(workload))
}

fn op_at(workload: &mut Workload, place: usize) -> Option<&mut Op> {
    let setup = workload.setup.len();
    if place < setup {
        return workload.setup.get_mut(place);
    }
    match workload.run.get_mut(place - setup) {
        Some(Step::Op(op)) => Some(op),
        _ => None,
    }
}

/// Has an operation write no more than is small; whether it did.
fn small_length(op: &mut Op) -> bool {
    let (Op::Write { length, .. }
    | Op::Append { length, .. }
    | Op::DirectWrite { length, .. }
    | Op::MmapWrite { length, .. }
    | Op::Falloc { length, .. }
    | Op::Truncate { size: length, .. }) = op
    else {
        return false;
    };
    let is_long = *length > SMALL_BYTES;
    *length = (*length).min(SMALL_BYTES);
    is_long
}

/// Has an operation begin at the start of its file; whether it did not.
fn no_offset(op: &mut Op) -> bool {
    let (Op::Write { offset, .. }
    | Op::DirectWrite { offset, .. }
    | Op::MmapWrite { offset, .. }
    | Op::Falloc { offset, .. }) = op
    else {
        return false;
    };
    std::mem::take(offset) > 0
}

/// Words of `--states`, which must be some.
fn read_states(words: &[String]) -> States {
    words.join(",").parse().expect("they are words of --states")
}

/// All states that a sample was drawn from.
fn without_sample(asked: &States) -> States {
    let text = asked.to_string();
    let words: Vec<String> = text
        .split(',')
        .filter(|word| !word.starts_with("sample:"))
        .map(str::to_owned)
        .collect();
    read_states(&words)
}

/// The smallest words for `--states` with which a state of this kind is visited.
fn states_with(state: &StateFindings, asked: &States) -> States {
    let mut words: Vec<String> = Vec::new();
    if asked.every_write() {
        words.push("every-write".into());
    }
    words.push(match &state.state.relaxation {
        Relaxation::Prefix => "prefix".into(),
        Relaxation::Flushed => "flushed".into(),
        Relaxation::Lost(lost) if lost.len() > LOST_TOGETHER_MAX => {
            format!("flushed,reorder:{}", lost.len())
        }
        Relaxation::Lost(lost) => format!("reorder:{}", lost.len()),
        Relaxation::Torn { lost, .. } => {
            let asked = asked.to_string();
            let torn = asked
                .split(',')
                .find(|word| word.starts_with("torn:"))
                .unwrap_or("torn:512");
            if lost.is_empty() {
                torn.to_owned()
            } else {
                format!("reorder:{},{torn},mixed", lost.len())
            }
        }
    });
    read_states(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Workload {
        workloads::parse(text, "test").expect("it is one").remove(0)
    }

    #[test]
    fn parts_of_a_workload_keep_its_setup_apart() {
        let whole =
            one("setup; mkdir A; creat A/foo; run; open A/foo as @h; write @h 0 16K; fsync @h; !");
        let line = |places: &[usize]| part(&whole, places).to_line();
        assert_eq!(one(&line(&[1, 2, 3, 4])), part(&whole, &[1, 2, 3, 4]));
        assert!(is_whole(&part(&whole, &[2, 4])));
        assert!(!is_whole(&part(&whole, &[0, 1, 3, 4])), "nothing opens @h");
    }

    #[test]
    fn sizes_shrink_once() {
        let mut workload = one("creat foo; write foo 8K 64K; fsync foo");
        let op = op_at(&mut workload, 1).expect("it is there");
        assert!(small_length(op) && no_offset(op));
        assert!(!small_length(op) && !no_offset(op));
        assert_eq!(
            workload.operations().nth(1),
            one("write foo 0 4K; fsync foo").operations().next()
        );
    }

    #[test]
    fn a_sample_is_of_what_it_was_drawn_from() {
        let read = |text: &str| -> States { text.parse().expect("states") };
        assert_eq!(without_sample(&read("sample:3")), read("all"));
        assert_eq!(
            without_sample(&read("every-write,reorder:2,sample:9")),
            read("every-write,reorder:2")
        );
        assert_eq!(
            without_sample(&read("prefix,flushed")),
            read("prefix,flushed")
        );
    }
}
