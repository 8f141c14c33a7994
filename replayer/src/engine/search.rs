//! One crash state again, or one like it, in a new recording of its workload.
//!
//! Two recordings of a workload by a live kernel need not be the same byte for byte, so the state
//! of the same name is only the first to be tried; then come all others, the most similar first.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use block_dev::Image;
use campaign::ddmin;
use checker::Promise;
use crash_images::rebuild;
use pace_rules::disk::{Log, Relaxation, Space, State, States};
use serde::{Deserialize, Serialize};
use workloads::Workload;

use super::again::Recovered as Recovery;
use super::judge::StateId;
use super::states::Recording;
use super::{Engine, Result, Tell, Unfinished, inconclusive};
use crate::moment::Progress;
use crate::result::{RunLog, StateFindings, WorkloadResult};

/// A search looks at no more states than this, the nearest ones: what is that far from the state
/// wanted is another finding.
const STATES_MAX: usize = 4_000;

/// What a search looks for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Search {
    /// The promise that must be broken.
    pub promise: Promise,
    /// Where; anywhere if there is no path.
    pub path: Option<String>,
    /// The name of the rule that must be violated, if it is one of a specification.
    pub rule: Option<String>,
    /// The facts of the violation ([`checker::Finding::rule_facts`]); any will do if there are none.
    pub rule_facts: BTreeSet<String>,
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
    /// Keep all that rules can be about of the state that is found.
    pub facts: bool,
}

impl Search {
    fn is_answered_by(&self, found: &StateFindings) -> bool {
        let is_it = |path: &str| self.path.as_deref().is_none_or(|wanted| wanted == path);
        found.findings.iter().any(|finding| {
            finding.promise == self.promise
                && is_it(&finding.path)
                && finding.rule_name() == self.rule.as_deref()
                && (self.rule_facts.is_empty() || finding.rule_facts() == self.rule_facts)
        })
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

/// The one that is wanted, if a disk may show it, and those of a space that are nearest by
/// `distance`, the nearest first, but not too many.
fn nearest_to<D: Ord>(
    wanted: &State,
    rules: &Log,
    space: &Space<'_>,
    distance: impl Fn(&State) -> D,
) -> Vec<State> {
    let same = Some(wanted.clone()).filter(|state| rules.check(state).is_ok());
    let mut near: Vec<_> = if space.len() < space.spanned() {
        space.iter().collect()
    } else {
        let mut stretches = stretches(space);
        let first = |stretch: &Range<u128>| space.get(stretch.start);
        stretches.sort_by_cached_key(|stretch| first(stretch).map(|state| distance(&state)));
        let all = stretches.into_iter().flatten();
        all.filter_map(|number| space.get(number))
            .take(STATES_MAX)
            .collect()
    };
    near.sort_by_cached_key(distance);
    same.into_iter().chain(near).take(STATES_MAX).collect()
}

/// The stretches of a space, which is no sample, whose states are of one kind and at one position:
/// one of them is as near as another.
fn stretches(space: &Space<'_>) -> Vec<Range<u128>> {
    let mut end = 0_u128;
    let mut stretch = |states: u128| {
        let start = end;
        end = end.saturating_add(states);
        start..end
    };
    space.kinds().map(|(_, states)| stretch(states)).collect()
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

/// One search, and what it has come to so far.
struct Hunt<'a> {
    recording: &'a Recording<'a>,
    search: &'a Search,
    result: &'a mut WorkloadResult,
    tell: Tell<'a>,
    /// There are states that were too far away to be looked at.
    is_cut: bool,
}

impl<'a> Hunt<'a> {
    /// All that must be known of a state, with what is known of it already.
    fn id(&self, state: &StateFindings) -> StateId<'a> {
        StateId {
            state: state.clone(),
            ..self.recording.id(state.state.clone())
        }
    }

    fn has_looked_at_enough(&mut self) -> bool {
        let is_enough = self.result.states_checked as usize > STATES_MAX;
        self.is_cut |= is_enough;
        is_enough
    }

    /// Notes how many states there were to choose from.
    fn chooses_from(&mut self, space: &Space<'_>) {
        self.is_cut |= space.len() > STATES_MAX as u128;
    }
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
        self.rules.keep_everything(search.facts);
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
        let Some(last) = self.last_position(workload, &trace, result) else {
            self.bed.recycle(trace);
            return Ok(());
        };
        let recording = self.recording(workload, &trace, last);
        self.hold_run(&recording, result)?;
        if result.violated_without_crash.is_some() {
            return Ok(());
        }
        let mut hunt = Hunt {
            recording: &recording,
            search,
            result,
            tell: &mut *tell,
            is_cut: false,
        };
        let found = self.find(&mut hunt)?;
        if found.is_none() && hunt.is_cut {
            let why = format!("it is in none of the {STATES_MAX} states that are most like it");
            result.inconclusive.get_or_insert(why);
        }
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

    fn find(&mut self, hunt: &mut Hunt<'_>) -> Result<Option<Hit>> {
        let Recording {
            trace,
            rules,
            progress,
            ..
        } = hunt.recording;
        let search = hunt.search;
        let states = self.states_like(hunt);
        let mut judged = HashSet::new();
        for state in states {
            rebuild(&mut self.image, &trace.log, rules, &state);
            let is_new = judged.insert((progress[state.position], self.image.hash()));
            if !is_new && !self.rules.tell_disks_apart() {
                continue;
            }
            let id = hunt.recording.id(state);
            if !search.again.is_empty() {
                // With --again 2 a recovery of a recovery has as many states again.
                if hunt.has_looked_at_enough() {
                    break;
                }
                let found = self.find_again(hunt, &id.state, 0)?;
                if found.is_some() {
                    return Ok(found);
                }
                continue;
            }
            if let Some(found) = self.breaks(hunt, id)? {
                let found = self.fewest(hunt, found)?;
                rebuild(&mut self.image, &trace.log, rules, &found.state);
                return Ok(Some(self.hit(found)));
            }
        }
        Ok(None)
    }

    /// The states that may be the wanted one, the likeliest first.
    fn states_like(&self, hunt: &mut Hunt<'_>) -> Vec<State> {
        let Hunt {
            recording, search, ..
        } = *hunt;
        let space = recording.space(&search.states, self.seed);
        hunt.chooses_from(&space);
        nearest_to(&search.state, &recording.rules, &space, |state| {
            search.distance(state, recording.progress[state.position])
        })
    }

    /// What is in the image, which is what was looked for.
    fn hit(&self, state: StateFindings) -> Hit {
        let image = self.image.clone();
        Hit { image, state }
    }

    /// Looks for it in the recovery, the `depth`-th, of a crash state that is in the image.
    fn find_again(
        &mut self,
        hunt: &mut Hunt<'_>,
        crashed: &StateFindings,
        depth: usize,
    ) -> Result<Option<Hit>> {
        let image = self.image.clone();
        // Whether it takes a crash in the recovery is a part of what is told.
        let clean = self.breaks_nothing(hunt, crashed)?;
        let Ok(recovered) = self.record_recovery(&image, hunt.result)? else {
            // What cannot be mounted has no recovery.
            return Ok(None);
        };
        let wanted = &hunt.search.again[depth];
        let mut judged = HashSet::new();
        for state in self.states_again(hunt, &recovered, wanted, &crashed.address()) {
            recovered.crash_into(&mut self.image, &image, &state);
            let is_new = judged.insert(self.image.hash());
            let is_worth_it = is_new || self.rules.tell_disks_apart();
            if !is_worth_it || hunt.has_looked_at_enough() {
                continue;
            }
            let mut crashed = crashed.clone();
            crashed.again.push(recovered.crash(state, clean));
            let found = if crashed.again.len() < hunt.search.again.len() {
                self.find_again(hunt, &crashed, depth + 1)?
            } else {
                self.hit_again(hunt, &crashed, &image, &recovered)?
            };
            if let Some(mut hit) = found {
                hit.state.again[depth].log = RunLog::of_recovery(&recovered.log);
                return Ok(Some(hit));
            }
        }
        self.bed.recycle_recovery(recovered.log);
        Ok(None)
    }

    /// Whether a crash state that is in the image breaks nothing, as far as that can be known.
    fn breaks_nothing(&mut self, hunt: &mut Hunt<'_>, crashed: &StateFindings) -> Result<bool> {
        let whole = self.look_at(hunt, hunt.id(crashed))?;
        Ok(whole.broken.is_empty() && whole.inconclusive.is_none())
    }

    /// The states of a recovery that may be the wanted one, the likeliest first. `address` is that
    /// of the state that recovers.
    fn states_again(
        &self,
        hunt: &mut Hunt<'_>,
        recovered: &Recovery,
        wanted: &State,
        address: &str,
    ) -> Vec<State> {
        let space = self.recovery_space(&recovered.rules, address);
        hunt.chooses_from(&space);
        nearest_to(wanted, &recovered.rules, &space, |state| {
            let position = state.position.abs_diff(wanted.position);
            (unlike(wanted, state), position)
        })
    }

    /// What is in the image, the last of some crashes, if it breaks what is looked for. `image` is
    /// what recovered when that crash came.
    fn hit_again(
        &mut self,
        hunt: &mut Hunt<'_>,
        crashed: &StateFindings,
        image: &Image,
        recovered: &Recovery,
    ) -> Result<Option<Hit>> {
        let Some(found) = self.breaks(hunt, hunt.id(crashed))? else {
            return Ok(None);
        };
        let found = self.fewest_again(hunt, found, image, recovered)?;
        if let Some(last) = found.again.last() {
            recovered.crash_into(&mut self.image, image, &last.state);
        }
        Ok(Some(self.hit(found)))
    }

    /// What a state breaks that is in the image, if that is what is looked for.
    fn breaks(&mut self, hunt: &mut Hunt<'_>, id: StateId<'_>) -> Result<Option<StateFindings>> {
        let done = self.look_at(hunt, id)?;
        if let Some(why) = done.inconclusive {
            hunt.result.inconclusive.get_or_insert(why);
        }
        let mut broken = done.broken.into_iter();
        let found = broken.find(|found| hunt.search.is_answered_by(found));
        if found.is_some() && hunt.search.facts {
            // Of states that are looked at later, one is found only if it is taken instead.
            hunt.result.facts = Some(self.rules.facts());
        }
        Ok(found)
    }

    /// What comes of a state that is in the image.
    fn look_at(&mut self, hunt: &mut Hunt<'_>, id: StateId<'_>) -> Result<WorkloadResult> {
        let model = match hunt.recording.model(&self.contract, id.progress) {
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
            hunt.tell,
        )?;
        let done = self.finish(unfinished);
        hunt.result.states_checked += 1;
        hunt.result.timing.add(done.timing);
        Ok(done)
    }

    /// The same crash with as few lost writes as will do, if that is wanted.
    fn fewest(&mut self, hunt: &mut Hunt<'_>, found: StateFindings) -> Result<StateFindings> {
        if !hunt.search.fewest {
            return Ok(found);
        }
        let Recording { trace, rules, .. } = hunt.recording;
        let wanted = found.state.clone();
        fewest(rules, &wanted, found, |state| {
            rebuild(&mut self.image, &trace.log, rules, &state);
            self.breaks(hunt, hunt.recording.id(state))
        })
    }

    /// The same of the last crash, in a recovery of what an image holds.
    fn fewest_again(
        &mut self,
        hunt: &mut Hunt<'_>,
        found: StateFindings,
        image: &Image,
        recovered: &Recovery,
    ) -> Result<StateFindings> {
        if !hunt.search.fewest {
            return Ok(found);
        }
        let mut crashed = StateFindings {
            findings: Vec::new(),
            ..found.clone()
        };
        let Some(last) = crashed.again.pop() else {
            return Ok(found);
        };
        fewest(&recovered.rules, &last.state, found, |state| {
            recovered.crash_into(&mut self.image, image, &state);
            let mut crashed = crashed.clone();
            crashed.again.push(recovered.crash(state, last.clean));
            self.breaks(hunt, hunt.id(&crashed))
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

#[cfg(test)]
mod tests {
    use block_dev::BlockLog;
    use crash_images::requests;
    use pace_rules::disk::Disk;

    use super::*;

    #[test]
    fn of_more_states_than_can_be_looked_at_the_nearest_are() {
        const WRITES: usize = 120;
        let mut log = BlockLog::default();
        for place in 0..WRITES as u64 {
            log.push_write(place * 4096, &[1; 4096], 0);
        }
        let rules = Log::new(&requests(&log), 0, Disk::Honest);
        let wanted: State = "lost-3-7@120".parse().expect("a state");
        let promised: Vec<_> = (0..=WRITES).collect();
        for (states, far_max) in [("all", 0), ("reorder:2,every-write,sample:20000", 20)] {
            let states: States = states.parse().expect("states");
            let space = Space::new(&rules, &promised, &states, 7);
            assert!(space.len() > 2 * STATES_MAX as u128);
            let distance = |state: &State| {
                let position = state.position.abs_diff(wanted.position);
                (unlike(&wanted, state), position)
            };
            let near = nearest_to(&wanted, &rules, &space, distance);
            assert_eq!((near.len(), &near[0]), (STATES_MAX, &wanted));
            for state in &near[1..] {
                let is_alike =
                    matches!(&state.relaxation, Relaxation::Lost(lost) if lost.len() == 2);
                let far = state.position.abs_diff(wanted.position);
                assert!(is_alike && far <= far_max, "{state}");
            }
        }
    }
}
