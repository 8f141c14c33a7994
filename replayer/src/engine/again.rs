//! The power fails again while the file system recovers from a crash.
//!
//! What the disk is asked during a recovery is recorded, upon the content of the crash state. From
//! that log come crash states like those of a run: they are mounted, and judged by what had been
//! promised at the first crash, since a recovery may not lose what was durable.
//!
//! All states of the run come first: they take less to understand, and tell of each recovery
//! whether it breaks something without a second failure. Then recovery follows recovery.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use block_dev::{BlockLog, Image, ImageHash, Kind};
use brief::counted;
use checker::{Finding, Model, Promise, Undecided};
use crash_images::{rebuild, rebuild_after, requests};
use local_fs::Tree;
use pace_rules::disk::{Disk, Log, Space, State};

use super::judge::{StateId, Visited};
use super::states::{Recording, STATES_MAX, left, lost_bytes, seed_of_text};
use super::{Engine, Result, Tell, Unfinished, inconclusive};
use crate::moment::Progress;
use crate::result::{Again, AgainCounts, RunLog, StateFindings, WorkloadResult};
use crate::specs::Rules;
use crate::test_bed::Ticket;

/// What has been visited is forgotten after a recovery, once it is so much.
const VISITED_MAX: usize = 4096;

/// The model of each moment of a run, or why there is none.
pub(super) type Models = HashMap<Progress, Result<Option<Model>, Undecided>>;

/// What the crash states of a workload share.
pub(super) struct Tour<'a> {
    pub(super) recording: &'a Recording<'a>,
    pub(super) models: Models,
    pub(super) visited: HashMap<ImageHash, Visited>,
    /// What needs no second look: the same content at the same moment gives the same findings.
    pub(super) judged: HashSet<(Progress, ImageHash)>,
    pub(super) unfinished: &'a mut Unfinished,
    pub(super) tell: Tell<'a>,
    /// How many crash states the recoveries have that were recorded so far.
    pub(super) in_recoveries: u128,
    /// When the workload's time is up.
    pub(super) end: Option<Instant>,
}

impl<'a> Tour<'a> {
    /// One on which nothing was visited; `end` is when the workload's time is up.
    pub(super) fn new(
        recording: &'a Recording<'a>,
        unfinished: &'a mut Unfinished,
        tell: Tell<'a>,
        end: Option<Instant>,
    ) -> Self {
        Self {
            recording,
            models: HashMap::new(),
            visited: HashMap::new(),
            judged: HashSet::new(),
            unfinished,
            tell,
            in_recoveries: 0,
            end,
        }
    }

    /// Whether a content was judged at a moment before; nothing if it has no second look. The same
    /// gives the same findings, but for rules about the disk.
    pub(super) fn is_known(
        &mut self,
        progress: Progress,
        hash: ImageHash,
        rules: &Rules,
    ) -> Option<bool> {
        let is_known = !self.judged.insert((progress, hash));
        (!is_known || rules.tell_disks_apart()).then_some(is_known)
    }
}

/// A crash state of the run that was visited: its content, and all states that have it, at
/// different moments.
pub(super) type First = (ImageHash, Vec<State>);

/// A crash state whose recovery the power interrupts.
struct Crashed {
    image: Image,
    /// What it recovers to when nothing interrupts it; none if it cannot be mounted.
    tree: Option<Tree>,
    /// The moments of the run that it stands for.
    moments: Vec<Moment>,
}

/// A moment of a run at which the power failed at first, and where it has failed in recoveries
/// since.
#[derive(Clone)]
struct Moment {
    first: State,
    again: Vec<Again>,
    /// Nothing is broken once this has recovered.
    clean: bool,
}

/// A crash state in a recovery, what it recovers to, and the moments that it stands for.
type Next = (State, Option<Tree>, Vec<Moment>);

/// What a disk was asked during a recovery.
pub(super) struct Recovered {
    pub(super) log: BlockLog,
    pub(super) rules: Log,
    /// How many writes that were.
    writes: usize,
}

impl Moment {
    /// All that must be known of what has been visited at that moment.
    fn id<'r>(&self, recording: &'r Recording<'_>) -> StateId<'r> {
        let mut id = recording.id(self.first.clone());
        id.state.again.clone_from(&self.again);
        id
    }
}

impl Recovered {
    pub(super) fn new(log: BlockLog, disk: Disk) -> Self {
        // The one write that such a disk loses is one of the run.
        let disk = match disk {
            Disk::LoseWrite(_) => Disk::Honest,
            other => other,
        };
        let rules = Log::new(&requests(&log), 0, disk);
        let writes = writes_in(&log, log.len());
        Self { log, rules, writes }
    }

    /// Makes an image hold a crash state of it; `begun` is what recovered.
    pub(super) fn crash_into(&self, image: &mut Image, begun: &Image, state: &State) {
        rebuild_after(image, begun, &self.log, &self.rules, state);
    }

    /// All that is told of a crash in it.
    pub(super) fn crash(&self, state: State, clean: bool) -> Again {
        Again {
            written: writes_in(&self.log, state.position) as u32,
            writes: self.writes as u32,
            pending: self.rules.pending(state.position).len() as u32,
            lost: lost_bytes(&self.rules, &self.log, &state),
            state,
            clean,
            log: RunLog::default(),
        }
    }
}

impl Crashed {
    /// The name of the state, of the first moment that it stands for.
    fn address(&self, tour: &Tour<'_>) -> String {
        self.moments[0].id(tour.recording).state.address()
    }
}

fn too_many(address: &str, states: u128) -> String {
    format!(
        "up to the recovery from {address}, recoveries have {states} crash states: \
         give --budget, or sample:N as one of --again-states"
    )
}

/// How many writes come before a position of a log.
fn writes_in(log: &BlockLog, position: usize) -> usize {
    let is_write = |kind: Kind| matches!(kind, Kind::Write { .. } | Kind::Discard { .. });
    let before = log.entries()[..position].iter();
    before.filter(|entry| is_write(entry.kind)).count()
}

impl Engine {
    /// Has the power fail in the recovery of each of these states, or of as many as there is time
    /// for.
    pub(super) fn visit_recoveries(
        &mut self,
        tour: &mut Tour<'_>,
        firsts: Vec<First>,
    ) -> Result<()> {
        self.settle(tour);
        // What has been visited may be forgotten after the first recovery.
        let mut crashed = Vec::new();
        for (hash, states) in firsts {
            let mut moments = Vec::new();
            for first in states {
                let again = Vec::new();
                let mut moment = Moment {
                    first,
                    again,
                    clean: false,
                };
                moment.clean = self.is_clean(tour, &moment, hash)?;
                moments.push(moment);
            }
            let tree = tour.visited[&hash].tree.as_ref().map(comparable);
            crashed.push((moments, tree));
        }
        let count = crashed.len();
        for (number, (moments, tree)) in crashed.into_iter().enumerate() {
            if self.is_time_up(tour) {
                counts(tour).recoveries_left += (count - number) as u64;
                break;
            }
            let Recording { trace, rules, .. } = tour.recording;
            rebuild(&mut self.image, &trace.log, rules, &moments[0].first);
            let crashed = Crashed {
                image: self.image.clone(),
                tree,
                moments,
            };
            self.crash_in_recovery(tour, &crashed)?;
        }
        Ok(())
    }

    /// Visits the crash states of one recovery, and of the recoveries from these.
    fn crash_in_recovery(&mut self, tour: &mut Tour<'_>, crashed: &Crashed) -> Result<()> {
        // What cannot be mounted has no recovery, and there may be too many states already.
        if crashed.tree.is_none() || self.are_too_many(tour) {
            return Ok(());
        }
        let address = crashed.address(tour);
        let Some(recovered) = self.recovery_of(tour, crashed, &address)? else {
            return Ok(());
        };
        let visited = self.visit_crashes(tour, crashed, &recovered, &address)?;
        self.settle(tour);
        let next = self.those_that_crash_again(tour, crashed, &recovered, visited)?;
        if tour.visited.len() > VISITED_MAX {
            tour.visited.clear();
        }
        self.crash_again(tour, crashed, &recovered, next)?;
        for moment in &crashed.moments {
            let address = moment.id(tour.recording).state.address();
            let result = &mut tour.unfinished.result;
            result.keep_recovery(&address, &recovered.log);
        }
        self.bed.recycle_recovery(recovered.log);
        Ok(())
    }

    /// Records the recovery from a crash; without one, the result says why.
    fn recovery_of(
        &mut self,
        tour: &mut Tour<'_>,
        crashed: &Crashed,
        address: &str,
    ) -> Result<Option<Recovered>> {
        let position = crashed.moments[0].first.position;
        let done = tour.recording.progress[position].operations_done;
        (tour.tell)(&format!(
            "recording the recovery from a crash after {} ({address})",
            counted(done, "operation")
        ));
        let recovered = self.record_recovery(&crashed.image, &mut tour.unfinished.result)?;
        match &recovered {
            Ok(recovered) => {
                let counts = counts(tour);
                counts.recoveries += 1;
                counts.silent += u64::from(recovered.writes == 0);
            }
            Err(why) => {
                let why = format!("the recovery from {address} could not be recorded: {why}");
                tour.unfinished.result.inconclusive.get_or_insert(why);
            }
        }
        Ok(recovered.ok())
    }

    /// The crash states of a recovery whose own recoveries are to be crashed, and what is in them.
    fn those_that_crash_again(
        &mut self,
        tour: &mut Tour<'_>,
        crashed: &Crashed,
        recovered: &Recovered,
        visited: Vec<(State, ImageHash)>,
    ) -> Result<Vec<Next>> {
        let mut next = Vec::new();
        for (state, hash) in visited {
            let of = |moment: &Moment| {
                let mut moment = moment.clone();
                moment
                    .again
                    .push(recovered.crash(state.clone(), moment.clean));
                moment
            };
            let mut moments: Vec<_> = crashed.moments.iter().map(of).collect();
            for moment in &mut moments {
                moment.clean = self.is_clean(tour, moment, hash)?;
            }
            let tree = tour.visited[&hash].tree.as_ref().map(comparable);
            let clean = moments.iter().all(|moment| moment.clean);
            counts(tour).differing += u64::from(clean && tree != crashed.tree);
            if moments[0].again.len() < self.again.times as usize {
                next.push((state, tree, moments));
            }
        }
        Ok(next)
    }

    /// Visits the crash states of the recoveries from these, as long as there is time.
    fn crash_again(
        &mut self,
        tour: &mut Tour<'_>,
        crashed: &Crashed,
        recovered: &Recovered,
        next: Vec<Next>,
    ) -> Result<()> {
        let count = next.len();
        for (number, (state, tree, moments)) in next.into_iter().enumerate() {
            if self.is_time_up(tour) {
                counts(tour).recoveries_left += (count - number) as u64;
                break;
            }
            recovered.crash_into(&mut self.image, &crashed.image, &state);
            let image = self.image.clone();
            let crashed = Crashed {
                image,
                tree,
                moments,
            };
            self.crash_in_recovery(tour, &crashed)?;
        }
        Ok(())
    }

    /// Visits the crash states of one recovery; returns those that had not been visited before.
    fn visit_crashes(
        &mut self,
        tour: &mut Tour<'_>,
        crashed: &Crashed,
        recovered: &Recovered,
        address: &str,
    ) -> Result<Vec<(State, ImageHash)>> {
        let space = self.recovery_space(&recovered.rules, address);
        tour.in_recoveries = tour.in_recoveries.saturating_add(space.len());
        if self.are_too_many(tour) {
            let why = too_many(address, tour.in_recoveries);
            tour.unfinished.result.inconclusive.get_or_insert(why);
            return Ok(Vec::new());
        }
        let mut visited = Vec::new();
        for (number, state) in space.iter().enumerate() {
            if self.is_time_up(tour) {
                let left = left(space.len(), number);
                let counts = counts(tour);
                counts.states_left = counts.states_left.saturating_add(left);
                break;
            }
            recovered.crash_into(&mut self.image, &crashed.image, &state);
            let hash = self.image.hash();
            self.look_at_the_clock(tour);
            let checked = counts(tour).states_checked;
            let is_new = self.judge_moments(tour, crashed, recovered, &state, hash)?;
            let counts = counts(tour);
            counts.states_equal += u64::from(counts.states_checked == checked);
            if is_new && tour.visited.contains_key(&hash) {
                visited.push((state, hash));
            }
        }
        Ok(visited)
    }

    /// Judges a crash state of a recovery, which is in the image, at each moment at which its
    /// content was not judged before. Says whether there is such a moment.
    fn judge_moments(
        &mut self,
        tour: &mut Tour<'_>,
        crashed: &Crashed,
        recovered: &Recovered,
        state: &State,
        hash: ImageHash,
    ) -> Result<bool> {
        let mut is_new = false;
        for moment in &crashed.moments {
            let progress = tour.recording.progress[moment.first.position];
            let Some(is_known) = tour.is_known(progress, hash, &self.rules) else {
                continue;
            };
            is_new |= !is_known;
            let mut id = StateId {
                is_known,
                ..moment.id(tour.recording)
            };
            let again = recovered.crash(state.clone(), moment.clean);
            id.state.again.push(again);
            // Of a moment without a model no state of the run was visited either.
            let Some(Ok(model)) = tour.models.get(&progress) else {
                continue;
            };
            self.judge(
                model.as_ref(),
                hash,
                id,
                &mut tour.visited,
                tour.unfinished,
                tour.tell,
            )?;
        }
        Ok(is_new)
    }

    /// Whether the recoveries have more crash states than are visited without a limit of time.
    fn are_too_many(&self, tour: &Tour<'_>) -> bool {
        self.share.is_none() && tour.in_recoveries > STATES_MAX
    }

    /// The crash states of a recovery that are asked for, by the name of the state that recovers.
    pub(super) fn recovery_space<'a>(&self, rules: &'a Log, address: &str) -> Space<'a> {
        let states = self.again.states(&self.states);
        let seed = self.seed ^ seed_of_text(address);
        // The power may fail right after it as well.
        Space::new(rules, &[rules.len()], &states, seed)
    }

    /// What the disk is asked while an image recovers; otherwise why it cannot be mounted.
    pub(super) fn record_recovery(
        &mut self,
        image: &Image,
        result: &mut WorkloadResult,
    ) -> Result<Result<Recovered, String>> {
        let timing = &mut result.timing;
        self.watch.lap(&mut timing.enumerate_us);
        let recorded = self.bed.record_recovery(image);
        self.watch.lap(&mut timing.record_us);
        let recorded = recorded?;
        if let Ok(log) = &recorded {
            self.note_lost_trace(log, result);
        }
        Ok(recorded.map(|log| Recovered::new(log, self.disk)))
    }

    /// Whether what has recovered from a content, which was visited, breaks nothing if the power
    /// failed at this moment.
    fn is_clean(&mut self, tour: &mut Tour<'_>, moment: &Moment, hash: ImageHash) -> Result<bool> {
        let id = moment.id(tour.recording);
        let Some(Ok(model)) = tour.models.get(&id.progress) else {
            return Ok(false);
        };
        let seen = &tour.visited[&hash];
        let compared = self.compare(model.as_ref(), id.live, seen);
        let keeps_promises = compared.is_ok_and(|findings| findings.is_empty());
        let result = &mut tour.unfinished.result;
        Ok(keeps_promises && self.hold(&id, seen, result)?.is_empty())
    }

    /// Whether the time was up when the clock was last looked at.
    pub(super) fn is_time_up(&self, tour: &Tour<'_>) -> bool {
        tour.end.is_some_and(|end| self.watch.last() >= end)
    }

    /// Looks at the clock, if the time may be up: states that are all equal take their time, too.
    pub(super) fn look_at_the_clock(&mut self, tour: &mut Tour<'_>) {
        if tour.end.is_some() {
            let timing = &mut tour.unfinished.result.timing;
            self.watch.lap(&mut timing.enumerate_us);
        }
    }

    /// Waits for the file system's own checkers, so that it is known of everything visited so far
    /// what is wrong with it.
    fn settle(&mut self, tour: &mut Tour<'_>) {
        let checks = std::mem::take(&mut tour.unfinished.checks);
        let mut found = self.report_on(checks, &mut tour.unfinished.result);
        for seen in tour.visited.values_mut() {
            let finding = seen.check.take().and_then(|check| found.remove(&check));
            seen.findings.extend(finding);
        }
    }

    /// Waits for checkers, and adds what they find to the states that each is about.
    pub(super) fn report_on(
        &mut self,
        checks: BTreeMap<Ticket, Vec<StateFindings>>,
        result: &mut WorkloadResult,
    ) -> HashMap<Ticket, Finding> {
        let mut found = HashMap::new();
        self.watch.restart();
        if !self.contract.promises(Promise::FsckClean) {
            return found;
        }
        for (ticket, states) in checks {
            let report = self.bed.report(ticket);
            self.watch.lap(&mut result.timing.fsck_us);
            match report {
                Ok(report) => {
                    let Some(finding) = self.dissatisfaction(&report) else {
                        continue;
                    };
                    for state in states {
                        result.add_findings(StateFindings {
                            findings: vec![finding.clone()],
                            ..state
                        });
                    }
                    found.insert(ticket, finding);
                }
                Err(error) => inconclusive(result, &error),
            }
        }
        found
    }
}

fn counts<'a>(tour: &'a mut Tour<'_>) -> &'a mut AgainCounts {
    tour.unfinished.result.again.get_or_insert_default()
}

/// What two recoveries may be compared by. How many blocks a file has may differ: what was reserved
/// and never used, one of them may have given back.
fn comparable(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    tree.inodes.values_mut().for_each(|inode| inode.blocks = 0);
    tree
}
