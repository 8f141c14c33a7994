//! One crash state again, or one like it, in a new recording of its workload.
//!
//! Two recordings of a workload by a live kernel need not be the same byte for byte, so the state
//! of the same name is only the first to be tried; then come all others, the most similar first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use block_dev::Image;
use campaign::ddmin;
use checker::Promise;
use crash_images::{rebuild, rebuild_after};
use pace_rules::disk::{Log, Relaxation, Space, State, States};
use serde::{Deserialize, Serialize};
use workloads::Workload;

use super::again::Recovered as Recovery;
use super::judge::StateId;
use super::states::Recording;
use super::{Engine, Result, Tell, Unfinished, inconclusive};
use crate::moment::Progress;
use crate::result::{RunLog, StateFindings, WorkloadResult};

/// A search looks at no more states than this: what is that far from the state wanted is another
/// finding.
const STATES_MAX: usize = 4_000;

/// What a search looks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Search {
    /// The promise that must be broken.
    pub promise: Promise,
    /// Where; anywhere if there is no path.
    pub path: Option<String>,
    /// The state to try first.
    pub state: State,
    /// And, where the power failed again in recoveries, the state of each of them to try first.
    pub again: Vec<State>,
    /// How many operations had returned in it.
    pub operations_done: u32,
    /// Whether the next one had been begun.
    pub under_way: bool,
    /// Which others to try.
    pub states: States,
    /// Lose as few writes as will do, once a state is found.
    pub fewest: bool,
}

impl Search {
    fn is_answered_by(&self, found: &StateFindings) -> bool {
        let is_it = |path: &str| self.path.as_deref().is_none_or(|wanted| wanted == path);
        found
            .findings
            .iter()
            .any(|finding| finding.promise == self.promise && is_it(&finding.path))
    }

    /// How much another state differs, what matters most first.
    fn distance(&self, state: &State, progress: Progress) -> impl Ord + use<> {
        let done = progress
            .operations_done
            .abs_diff(self.operations_done as usize);
        (
            unlike(&self.state, state),
            done,
            progress.under_way != self.under_way,
            state.position.abs_diff(self.state.position),
        )
    }
}

/// The one that is wanted, if a disk may show it, and those of a space, but not too many.
fn first_of(wanted: &State, rules: &Log, space: &Space<'_>) -> Vec<State> {
    let same = Some(wanted.clone()).filter(|state| rules.check(state).is_ok());
    same.into_iter()
        .chain(space.iter())
        .take(STATES_MAX)
        .collect()
}

/// How much a state differs from the one that is wanted, but for its position.
fn unlike(wanted: &State, other: &State) -> impl Ord + use<> {
    let kind = |relaxation: &Relaxation| match relaxation {
        Relaxation::Prefix => (0, 0),
        Relaxation::Flushed => (1, 0),
        Relaxation::Lost(lost) => (2, lost.len()),
        Relaxation::Torn { lost, .. } => (3, lost.len()),
    };
    let (is_other, wanted, other) = (
        wanted != other,
        kind(&wanted.relaxation),
        kind(&other.relaxation),
    );
    (is_other, wanted.0 != other.0, wanted.1.abs_diff(other.1))
}

/// The content that a finding recovers from, and what it breaks.
struct Hit {
    image: Image,
    state: StateFindings,
}

/// A crash state to look at.
#[derive(Debug, Clone, Copy)]
pub struct Recovered<'a> {
    /// Where it is mounted; none if it cannot be mounted.
    pub directory: Option<&'a Path>,
    /// The block device that it is on.
    pub device: &'a Path,
    /// What is wrong with it.
    pub state: &'a StateFindings,
    /// What the kernel warned of while it was mounted.
    pub kernel: &'a [String],
}

/// What is done with a crash state once it is found.
pub type LookHook<'a> = &'a mut dyn FnMut(Recovered<'_>) -> Result<()>;

impl Engine {
    /// Records a workload and looks for one crash state: its result has that state alone, or none.
    pub fn search(
        &mut self,
        workload: &Workload,
        search: &Search,
        tell: Tell<'_>,
    ) -> WorkloadResult {
        self.search_and(workload, search, tell, None)
    }

    /// The same; once the state is found it is mounted, and `look` is called.
    pub fn look(
        &mut self,
        workload: &Workload,
        search: &Search,
        tell: Tell<'_>,
        look: LookHook<'_>,
    ) -> WorkloadResult {
        self.search_and(workload, search, tell, Some(look))
    }

    fn search_and(
        &mut self,
        workload: &Workload,
        search: &Search,
        tell: Tell<'_>,
        look: Option<LookHook<'_>>,
    ) -> WorkloadResult {
        let mut result = WorkloadResult::new(workload.name.clone());
        self.whose = None;
        if let Err(error) = self.try_search(workload, search, &mut result, tell, look) {
            inconclusive(&mut result, &error);
        }
        result.cut_log();
        result
    }

    fn try_search(
        &mut self,
        workload: &Workload,
        search: &Search,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
        look: Option<LookHook<'_>>,
    ) -> Result<()> {
        let trace = self.record(workload, result, tell)?;
        let last = self.last_position(workload, &trace, result);
        let recording = Recording::new(workload, &trace, last, None, self.disk);
        let found = self.find(&recording, search, result, tell)?;
        if let Some(Hit { image, state }) = found {
            if let Some(look) = look {
                tell("mounting the state for a look");
                self.mount_and(&image, &state, look)?;
            }
            result.broken.push(state);
            self.name_what_was_written(&trace, result);
        }
        self.bed.recycle(trace);
        Ok(())
    }

    fn find(
        &mut self,
        recording: &Recording<'_>,
        search: &Search,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<Option<Hit>> {
        let Recording {
            trace,
            rules,
            progress,
            ..
        } = recording;
        let space = recording.space(&search.states, self.seed);
        let mut states = first_of(&search.state, rules, &space);
        states.sort_by_cached_key(|state| search.distance(state, progress[state.position]));
        let mut judged = HashSet::new();
        for state in states {
            rebuild(&mut self.image, &trace.log, rules, &state);
            if !judged.insert((progress[state.position], self.image.hash())) {
                continue;
            }
            let id = recording.id(state.clone());
            if !search.again.is_empty() {
                // With --again 2 a recovery of a recovery has as many states again.
                if result.states_checked as usize > STATES_MAX {
                    break;
                }
                let found = self.find_again(recording, search, &id.state, 0, result, tell)?;
                if found.is_some() {
                    return Ok(found);
                }
                continue;
            }
            let Some(found) = self.breaks(recording, search, id, result, tell)? else {
                continue;
            };
            let found = if search.fewest {
                self.fewest(recording, search, found, result, tell)?
            } else {
                found
            };
            rebuild(&mut self.image, &trace.log, rules, &found.state);
            return Ok(Some(Hit {
                image: self.image.clone(),
                state: found,
            }));
        }
        Ok(None)
    }

    /// Looks for it in the recovery, the `depth`-th, of a crash state that is in the image.
    fn find_again(
        &mut self,
        recording: &Recording<'_>,
        search: &Search,
        crashed: &StateFindings,
        depth: usize,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<Option<Hit>> {
        let image = self.image.clone();
        let address = crashed.address();
        let with = |state: &StateFindings| StateId {
            state: state.clone(),
            ..recording.id(state.state.clone())
        };
        // Whether it takes a crash in the recovery is a part of what is told.
        let whole = self.look_at(recording, with(crashed), result, tell)?;
        let clean = whole.broken.is_empty() && whole.inconclusive.is_none();
        let Ok(recovered) = self.record_recovery(&image, result)? else {
            // What cannot be mounted has no recovery.
            return Ok(None);
        };
        let Recovery { log, rules, .. } = &recovered;
        let wanted = &search.again[depth];
        let space = self.recovery_space(rules, &address);
        let mut states = first_of(wanted, rules, &space);
        states.sort_by_cached_key(|state| {
            let position = state.position.abs_diff(wanted.position);
            (unlike(wanted, state), position)
        });
        let mut judged = HashSet::new();
        for state in states {
            rebuild_after(&mut self.image, &image, log, rules, &state);
            if !judged.insert(self.image.hash()) || result.states_checked as usize > STATES_MAX {
                continue;
            }
            let mut crashed = crashed.clone();
            crashed.again.push(recovered.crash(state, clean));
            if crashed.again.len() < search.again.len() {
                let found =
                    self.find_again(recording, search, &crashed, depth + 1, result, tell)?;
                if let Some(mut hit) = found {
                    hit.state.again[depth].log = RunLog::of_recovery(log);
                    return Ok(Some(hit));
                }
                continue;
            }
            let Some(found) = self.breaks(recording, search, with(&crashed), result, tell)? else {
                continue;
            };
            let mut found = if search.fewest {
                self.fewest_again(recording, search, found, (&image, &recovered), result, tell)?
            } else {
                found
            };
            if let Some(last) = found.again.last_mut() {
                last.log = RunLog::of_recovery(log);
                rebuild_after(&mut self.image, &image, log, rules, &last.state);
            }
            return Ok(Some(Hit {
                image: self.image.clone(),
                state: found,
            }));
        }
        self.bed.recycle_recovery(recovered.log);
        Ok(None)
    }

    /// What a state breaks that is in the image, if that is what is looked for.
    fn breaks(
        &mut self,
        recording: &Recording<'_>,
        search: &Search,
        id: StateId<'_>,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<Option<StateFindings>> {
        let done = self.look_at(recording, id, result, tell)?;
        if let Some(why) = done.inconclusive {
            result.inconclusive.get_or_insert(why);
        }
        Ok(done
            .broken
            .into_iter()
            .find(|found| search.is_answered_by(found)))
    }

    /// What comes of a state that is in the image.
    fn look_at(
        &mut self,
        recording: &Recording<'_>,
        id: StateId<'_>,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<WorkloadResult> {
        let model = match recording.model(&self.contract, id.progress) {
            Ok(model) => model,
            Err(why) => return Ok(WorkloadResult::inconclusive(String::new(), why.to_string())),
        };
        // What was checked of one state says nothing about another one of the same content here:
        // each is looked at anew, so that whatever comes of it can be seen again.
        let mut unfinished = Unfinished {
            result: WorkloadResult::new(String::new()),
            checks: BTreeMap::new(),
        };
        let hash = self.image.hash();
        self.judge(
            model.as_ref(),
            hash,
            id,
            &mut HashMap::new(),
            &mut unfinished,
            tell,
        )?;
        let done = self.finish(unfinished);
        result.states_checked += 1;
        result.timing.add(done.timing);
        Ok(done)
    }

    /// The same crash with as few lost writes as will do.
    fn fewest(
        &mut self,
        recording: &Recording<'_>,
        search: &Search,
        found: StateFindings,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<StateFindings> {
        let Recording { trace, rules, .. } = recording;
        let wanted = found.state.clone();
        fewest(rules, &wanted, found, |state| {
            rebuild(&mut self.image, &trace.log, rules, &state);
            self.breaks(recording, search, recording.id(state), result, tell)
        })
    }

    /// The same of the last crash, in a recovery of what an image holds.
    fn fewest_again(
        &mut self,
        recording: &Recording<'_>,
        search: &Search,
        found: StateFindings,
        (image, recovered): (&Image, &Recovery),
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<StateFindings> {
        let mut crashed = StateFindings {
            findings: Vec::new(),
            ..found.clone()
        };
        let Some(last) = crashed.again.pop() else {
            return Ok(found);
        };
        let Recovery { log, rules, .. } = recovered;
        let first = crashed.state.clone();
        fewest(rules, &last.state, found, |state| {
            rebuild_after(&mut self.image, image, log, rules, &state);
            let mut crashed = crashed.clone();
            crashed.again.push(recovered.crash(state, last.clean));
            let id = StateId {
                state: crashed,
                ..recording.id(first.clone())
            };
            self.breaks(recording, search, id, result, tell)
        })
    }

    fn mount_and(
        &mut self,
        image: &Image,
        state: &StateFindings,
        look: LookHook<'_>,
    ) -> Result<()> {
        self.bed.show(image, &mut |shown| {
            look(Recovered {
                directory: shown.directory,
                device: shown.device,
                state,
                kernel: shown.kernel,
            })
        })
    }
}

/// What a state breaks, with as few lost writes as will do; `breaks` tries another one.
fn fewest(
    rules: &Log,
    wanted: &State,
    found: StateFindings,
    mut breaks: impl FnMut(State) -> Result<Option<StateFindings>>,
) -> Result<StateFindings> {
    let lost = rules.lost(wanted);
    let State {
        position,
        relaxation,
    } = wanted.clone();
    let mut fewest = found;
    // What the torn one is among those that are left, if one is.
    let mut left = lost.clone();
    let mut is_enough = |part: &[usize]| -> Result<bool> {
        let state = match relaxation.clone() {
            Relaxation::Torn {
                place, from, to, ..
            } => State {
                position,
                relaxation: Relaxation::Torn {
                    lost: part.to_vec(),
                    place,
                    from,
                    to,
                },
            },
            _ => rules.state(position, part)?,
        };
        let found = breaks(state)?;
        if found.is_some() {
            left = part.to_vec();
        }
        Ok(found.map(|found| fewest = found).is_some())
    };
    ddmin(&lost, &mut is_enough)?;
    // It may do without the torn write.
    if matches!(relaxation, Relaxation::Torn { .. }) {
        let whole = rules.state(position, &left)?;
        if let Some(found) = breaks(whole)? {
            fewest = found;
        }
    }
    Ok(fewest)
}
