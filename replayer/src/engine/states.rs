//! Which crash states of a recording there are, and the visit to each of them.

use std::collections::HashMap;

use block_dev::{BlockLog, ImageHash, Kind, Mark, Unordered};
use checker::{Contract, Model, Undecided};
use crash_images::{rebuild, requests};
use local_fs::Tree;
use pace_rules::disk::{Disk, Log, Relaxation, Space, State, States};
use recorder::{CrashPoint, Recorded};
use workloads::Workload;

use super::again::{First, Tour};
use super::judge::StateId;
use super::{Engine, Result, Tell, Unfinished};
use crate::import::{Places, has_operations};
use crate::moment::Progress;
use crate::result::{AgainCounts, LostBytes, StateFindings};
use crate::specs::Done;

/// So many crash states of one workload are visited without a limit of time: hours.
pub(super) const STATES_MAX: u128 = 10_000_000;

/// A recording whose crash states are visited.
pub(super) struct Recording<'a> {
    workload: &'a Workload,
    pub(super) trace: &'a Recorded,
    /// Of the log as far as anything can be said of its states.
    pub(super) rules: Log,
    /// At each position of the log.
    pub(super) progress: Vec<Progress>,
    /// Where nothing is known of what was done, a state is judged by itself.
    has_model: bool,
    /// Where its places are, in a log that was imported.
    imported: Option<&'a Places>,
    /// What was done, for rules; nothing if none is asked.
    pub(super) done: Done,
}

impl<'a> Recording<'a> {
    /// One on a disk that keeps its word in this way. Of what is after position `last` nothing can
    /// be said: a sample is to be of what can be visited.
    pub(super) fn new(
        workload: &'a Workload,
        trace: &'a Recorded,
        last: usize,
        imported: Option<&'a Places>,
        disk: Disk,
    ) -> Self {
        let has_model = imported.is_none() || has_operations(workload);
        let progress = if has_model {
            Progress::of(trace, imported.map_or(0, |places| places.from))
        } else {
            Progress::unknown(trace)
        };
        Self {
            workload,
            trace,
            rules: Log::new(&requests(&trace.log)[..last], trace.durable_position, disk),
            progress,
            has_model,
            imported,
            done: Done::default(),
        }
    }

    /// The same with what was done to a file system of this name, on a disk of this kind.
    pub(super) fn with_done(self, name: &str, disk: Disk) -> Self {
        let done = Done::of(name, self.workload, (self.trace, disk));
        Self { done, ..self }
    }

    /// The crash states that are asked for. `seed` is that of the sweep.
    pub(super) fn space(&self, states: &States, seed: u64) -> Space<'_> {
        let promised = promised_positions(self.workload, self.trace, states);
        let there = |position: &usize| *position <= self.rules.len();
        let promised: Vec<_> = promised.into_iter().filter(there).collect();
        Space::new(
            &self.rules,
            &promised,
            states,
            seed ^ seed_of(self.workload),
        )
    }

    /// The model of what had been done; none where that is not known.
    ///
    /// # Errors
    /// If the model cannot follow the run.
    pub(super) fn model(
        &self,
        contract: &Contract,
        progress: Progress,
    ) -> Result<Option<Model>, Undecided> {
        let model = || progress.model(contract, self.workload, self.trace);
        self.has_model.then(model).transpose()
    }

    /// All that must be known of a state to judge it.
    pub(super) fn id(&self, state: State) -> StateId<'_> {
        let progress = self.progress[state.position];
        let (imported, position) = (self.imported, state.position);
        StateId {
            progress,
            live: live_at(self.trace, &state, progress),
            open: self.open(&state),
            source: imported.map(|places| (&self.rules, &self.trace.log, places)),
            of_rules: (&self.done, &self.progress),
            is_known: false,
            state: StateFindings {
                place: imported.map(|places| places.place(position)),
                ..lost(&self.rules, self.trace, progress, state)
            },
        }
    }

    /// The pairs of writes in a state whose order is not known.
    fn open(&self, state: &State) -> Vec<Unordered> {
        let unordered = self.imported.map(Places::unordered).unwrap_or_default();
        let lost = self.rules.lost(state);
        let there = |place: usize| place < state.position && !lost.contains(&place);
        unordered
            .iter()
            .filter(|pair| there(pair.place) && there(pair.fua_place))
            .copied()
            .collect()
    }
}

impl Engine {
    /// Has every crash state recover, or as many as there is time for, and judges it.
    pub(super) fn visit_states(
        &mut self,
        recording: &Recording<'_>,
        unfinished: &mut Unfinished,
        tell: Tell<'_>,
    ) -> Result<()> {
        let space = recording.space(&self.states, self.seed);
        if self.again.times > 0 {
            unfinished.result.again = Some(AgainCounts::default());
        }
        if self.share.is_none() && space.len() > STATES_MAX {
            let why = too_many(space.len());
            unfinished.result.inconclusive.get_or_insert(why);
            return Ok(());
        }
        let end = self.share.map(|share| self.watch.last() + share);
        let mut tour = Tour::new(recording, unfinished, tell, end);
        let mut firsts = Firsts::default();
        for (number, state) in space.iter().enumerate() {
            // The first one is worth its time.
            if number > 0 && self.is_time_up(&tour) {
                tour.unfinished.result.states_left = left(space.len(), number);
                break;
            }
            self.visit_state(&mut tour, number, state, &mut firsts)?;
        }
        if self.again.times > 0 {
            self.visit_recoveries(&mut tour, firsts.of_each)?;
        }
        Ok(())
    }

    /// Counts a state whose content was judged at the same moment.
    fn count_equal(&mut self, tour: &mut Tour<'_>) {
        tour.unfinished.result.states_equal += 1;
        self.look_at_the_clock(tour);
    }

    /// Has a crash state recover, and judges it.
    fn visit_state(
        &mut self,
        tour: &mut Tour<'_>,
        number: usize,
        state: State,
        firsts: &mut Firsts,
    ) -> Result<()> {
        let recording = tour.recording;
        let Recording { trace, rules, .. } = recording;
        rebuild(&mut self.image, &trace.log, rules, &state);
        let (progress, hash) = (recording.progress[state.position], self.image.hash());
        let Some(is_known) = tour.is_known(progress, hash, &self.rules) else {
            self.count_equal(tour);
            return Ok(());
        };
        tracing::trace!(number, position = state.position, "checks a crash state");
        let make = || recording.model(&self.contract, progress);
        match tour.models.entry(progress).or_insert_with(make) {
            Ok(model) => {
                if self.again.times > 0 && !is_known {
                    firsts.add(hash, &state);
                }
                let (model, mut id) = (model.as_ref(), recording.id(state));
                id.is_known = is_known;
                let (visited, unfinished) = (&mut tour.visited, &mut *tour.unfinished);
                self.judge(model, hash, id, visited, unfinished, tour.tell)
            }
            Err(why) => {
                let inconclusive = &mut tour.unfinished.result.inconclusive;
                inconclusive.get_or_insert_with(|| why.to_string());
                Ok(())
            }
        }
    }
}

fn too_many(states: u128) -> String {
    format!("there are {states} crash states: give --budget, or sample:N as one of --states")
}

/// How many of so many states are left when the time is up before the one of this number.
pub(super) fn left(states: u128, number: usize) -> u64 {
    u64::try_from(states - number as u128).unwrap_or(u64::MAX)
}

/// The crash states that were visited, by their content.
#[derive(Default)]
struct Firsts {
    of_each: Vec<First>,
    places: HashMap<ImageHash, usize>,
}

impl Firsts {
    fn add(&mut self, hash: ImageHash, state: &State) {
        let place = *self.places.entry(hash).or_insert_with(|| {
            self.of_each.push((hash, Vec::new()));
            self.of_each.len() - 1
        });
        self.of_each[place].1.push(state.clone());
    }
}

/// The positions at which something is promised that was not promised before: where the run says
/// that the power fails, and after each persistence operation, if it may fail at other places as
/// well.
fn promised_positions(workload: &Workload, trace: &Recorded, states: &States) -> Vec<usize> {
    let operations: Vec<_> = workload.operations().collect();
    let returned = |entry: &block_dev::Entry| match entry.kind {
        Kind::Mark(Mark::OperationEnd(number)) => operations
            .get(number as usize)
            .is_some_and(|op| op.is_persistence()),
        _ => false,
    };
    let run = trace
        .log
        .entries()
        .iter()
        .enumerate()
        .skip(trace.durable_position);
    let after = run
        .filter(|(_, entry)| states.every_write() && returned(entry))
        .map(|(place, _)| place + 1);
    let mut positions: Vec<_> = trace
        .crash_points
        .iter()
        .map(|point| point.log_position)
        .chain(after)
        .collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// What the file system showed at the moment of a state.
fn live_at<'a>(trace: &'a Recorded, state: &State, progress: Progress) -> Option<&'a Tree> {
    let is_it = |point: &&CrashPoint| {
        point.log_position == state.position && point.operations_done == progress.operations_done
    };
    trace
        .crash_points
        .iter()
        .find(is_it)
        .and_then(|point| point.live.as_ref())
}

/// A workload has a sample of its own.
fn seed_of(workload: &Workload) -> u64 {
    seed_of_text(&workload.to_line())
}

pub(super) fn seed_of_text(text: &str) -> u64 {
    let hash = blake3::hash(text.as_bytes());
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("8 of 32 bytes"))
}

/// A state, without findings, with what the disk lost in it.
fn lost(rules: &Log, trace: &Recorded, progress: Progress, state: State) -> StateFindings {
    StateFindings {
        operations_done: progress.operations_done as u32,
        under_way: progress.under_way,
        pending: rules.pending(state.position).len() as u32,
        lost: lost_bytes(rules, &trace.log, &state),
        state,
        place: None,
        again: Vec::new(),
        findings: Vec::new(),
        more: 0,
    }
}

/// What a disk lost of a log in a state.
pub(super) fn lost_bytes(rules: &Log, log: &BlockLog, state: &State) -> Vec<LostBytes> {
    let bytes = |place: usize, from: u64, to: Option<u64>| {
        let (offset, length) = log.entries()[place].range();
        LostBytes {
            place: place as u32,
            offset: offset + from,
            length: to.unwrap_or(length) - from,
        }
    };
    let mut lost: Vec<_> = rules
        .lost(state)
        .into_iter()
        .map(|place| bytes(place, 0, None))
        .collect();
    if let Relaxation::Torn {
        place, from, to, ..
    } = state.relaxation
    {
        lost.push(bytes(place, from, Some(to)));
        lost.sort_unstable_by_key(|lost| lost.place);
    }
    lost
}
