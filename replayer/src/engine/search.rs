//! One crash state again, or one like it, in a new recording of its workload.
//!
//! Two recordings of a workload by a live kernel need not be the same byte for byte, so the state
//! of the same name is only the first to be tried; then come all others, the most similar first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use campaign::ddmin;
use checker::Promise;
use crash_images::rebuild;
use pace_rules::disk::{Relaxation, State, States};
use serde::{Deserialize, Serialize};
use workloads::Workload;

use super::states::Recording;
use super::{Engine, Result, Tell, Unfinished, inconclusive};
use crate::moment::Progress;
use crate::result::{StateFindings, WorkloadResult};

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
        let kind = |relaxation: &Relaxation| match relaxation {
            Relaxation::Prefix => (0, 0),
            Relaxation::Flushed => (1, 0),
            Relaxation::Lost(lost) => (2, lost.len()),
            Relaxation::Torn { lost, .. } => (3, lost.len()),
        };
        let ((wanted, wanted_lost), (other, other_lost)) =
            (kind(&self.state.relaxation), kind(&state.relaxation));
        let done = progress
            .operations_done
            .abs_diff(self.operations_done as usize);
        (
            state != &self.state,
            wanted != other,
            wanted_lost.abs_diff(other_lost),
            done,
            progress.under_way != self.under_way,
            state.position.abs_diff(self.state.position),
        )
    }
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
        let mut found = self.find(&recording, search, result, tell)?;
        if search.fewest
            && let Some(state) = found.take()
        {
            found = Some(self.fewest(&recording, search, state, result, tell)?);
        }
        if let Some(state) = found {
            if let Some(look) = look {
                tell("mounting the state for a look");
                self.mount_and(&recording, &state, look)?;
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
    ) -> Result<Option<StateFindings>> {
        let Recording {
            trace,
            rules,
            progress,
            ..
        } = recording;
        let space = recording.space(&search.states, self.seed);
        let same = Some(search.state.clone()).filter(|state| rules.check(state).is_ok());
        let mut states: Vec<State> = same
            .into_iter()
            .chain(space.iter())
            .take(STATES_MAX)
            .collect();
        states.sort_by_cached_key(|state| search.distance(state, progress[state.position]));
        let mut judged = HashSet::new();
        for state in states {
            rebuild(&mut self.image, &trace.log, rules, &state);
            if judged.insert((progress[state.position], self.image.hash()))
                && let Some(found) = self.breaks(recording, search, state, result, tell)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// What a state breaks, if that is what is looked for.
    fn breaks(
        &mut self,
        recording: &Recording<'_>,
        search: &Search,
        state: State,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<Option<StateFindings>> {
        let Recording {
            trace,
            rules,
            progress,
            ..
        } = recording;
        rebuild(&mut self.image, &trace.log, rules, &state);
        let model = match recording.model(&self.contract, progress[state.position]) {
            Ok(model) => model,
            Err(why) => {
                result.inconclusive.get_or_insert(why);
                return Ok(None);
            }
        };
        let id = recording.id(state);
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
        if let Some(why) = done.inconclusive {
            result.inconclusive.get_or_insert(why);
        }
        Ok(done
            .broken
            .into_iter()
            .find(|found| search.is_answered_by(found)))
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
        let lost = recording.rules.lost(&found.state);
        let State {
            position,
            relaxation,
        } = found.state.clone();
        let mut fewest = found;
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
                _ => recording.rules.state(position, part)?,
            };
            let found = self.breaks(recording, search, state, result, tell)?;
            Ok(found.map(|found| fewest = found).is_some())
        };
        ddmin(&lost, &mut is_enough)?;
        // It may do without the torn write.
        if let Relaxation::Torn { lost, .. } = &fewest.state.relaxation {
            let whole = recording.rules.state(position, lost)?;
            if let Some(found) = self.breaks(recording, search, whole, result, tell)? {
                fewest = found;
            }
        }
        Ok(fewest)
    }

    fn mount_and(
        &mut self,
        recording: &Recording<'_>,
        state: &StateFindings,
        look: LookHook<'_>,
    ) -> Result<()> {
        rebuild(
            &mut self.image,
            &recording.trace.log,
            &recording.rules,
            &state.state,
        );
        self.bed.show(&self.image, &mut |shown| {
            look(Recovered {
                directory: shown.directory,
                device: shown.device,
                state,
                kernel: shown.kernel,
            })
        })
    }
}
