mod again;
mod judge;
mod naming;
mod refusal;
mod rules;
pub(crate) mod search;
mod states;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block_dev::{Base, BlockLog, Image};
use checker::Contract;
use crash_images::{rebuild, requests};
use local_fs::{Tree, Variant};
use pace_rules::disk::{Disk, Log, Relaxation, State, States};
use recorder::Recorded;
use specification::Specification;
use workloads::Workload;

use self::refusal::{Refusal, Refused, kept_after_removal, refusals};
use self::states::Recording;
use crate::crash_again::CrashAgain;
use crate::disk_kind::DiskKind;
use crate::fsck::FsckPlace;
use crate::import::{Import, Imported, has_operations, something_in};
use crate::moment::{Progress, disagreement, place_of_start};
use crate::result::{RunLog, StateFindings, WorkloadResult};
use crate::specs::Rules;
use crate::stopwatch::Stopwatch;
use crate::test_bed::{Complaint, KernelBed, TestBed, Ticket};

/// An error that says nothing of the file system under test.
pub type EngineError = Box<dyn std::error::Error + Send + Sync>;

type Result<T, E = EngineError> = std::result::Result<T, E>;

/// Takes workloads through record, crash, recover and check, one at a time, on a test bed of its
/// own.
pub struct Engine {
    variant: Variant,
    contract: Contract,
    disk: Disk,
    bed: Box<dyn TestBed>,
    image: Image,
    alone: bool,
    states: States,
    again: CrashAgain,
    seed: u64,
    share: Option<Duration>,
    hash_log: bool,
    name_blocks: bool,
    /// Where workloads are not run, because that was done elsewhere.
    import: Option<Import>,
    /// What crash states are held against besides the contract.
    rules: Rules,
    watch: Stopwatch,
    /// A stack trace in the kernel's log that may be about the present workload, or another
    /// engine's.
    whose: Option<String>,
}

/// Is told each step before it is taken.
pub type Tell<'a> = &'a mut dyn FnMut(&str);

/// What is done to a recovered file system before it is checked.
pub type RecoveredHook = Box<dyn FnMut(&Path)>;

/// A workload that is done but for what the file system's own checkers will say.
pub struct Unfinished {
    result: WorkloadResult,
    /// The checks, and the crash states that each is about.
    checks: BTreeMap<Ticket, Vec<StateFindings>>,
}

impl Engine {
    /// An engine for one file system under this kernel; `directory` is an empty one of ours, in a
    /// mount namespace of our own.
    ///
    /// # Errors
    /// If disks, mount points or the kernel's log cannot be had.
    pub fn new(
        variant: &Variant,
        base: &Arc<Base>,
        disk: impl Into<DiskKind>,
        directory: &Path,
    ) -> Result<Self> {
        let disk = disk.into();
        let fsck = FsckPlace::default();
        let bed = KernelBed::new(variant, base, disk.completion, directory, &fsck)?;
        Self::on(Box::new(bed), variant, base, disk.honesty)
    }

    /// An engine on a test bed whose disks hold `base` at first and keep their word in this way.
    ///
    /// # Errors
    /// If there is no contract for the file system.
    pub(crate) fn on(
        bed: Box<dyn TestBed>,
        variant: &Variant,
        base: &Arc<Base>,
        disk: Disk,
    ) -> Result<Self> {
        Ok(Self {
            variant: variant.clone(),
            contract: Contract::for_variant(variant)?,
            disk,
            bed,
            image: Image::new(Arc::clone(base)),
            alone: true,
            states: States::default(),
            again: CrashAgain::default(),
            seed: 0,
            share: None,
            hash_log: false,
            name_blocks: false,
            import: None,
            rules: Rules::default(),
            watch: Stopwatch::start(),
            whose: None,
        })
    }

    /// Whether writes with FUA are told from others. Otherwise the disk seems to keep more than it
    /// must, and `drop-fua` does nothing.
    pub fn recognises_fua(&self) -> bool {
        self.import.is_some() || self.bed.recognises_fua()
    }

    /// Has workloads not be run, but their log be read. One without operations stands for
    /// whatever was done.
    pub fn set_import(&mut self, import: Import) {
        self.import = Some(import);
    }

    /// Says whether other engines work at the same time: then a stack trace in the kernel's log
    /// may be theirs, and what it belongs to is inconclusive.
    pub fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    /// Chooses the states to visit, and what a sample of them is drawn with.
    pub fn set_states(&mut self, states: States, seed: u64) {
        (self.states, self.seed) = (states, seed);
    }

    /// Says whether the power fails again while crash states recover.
    pub fn set_again(&mut self, again: CrashAgain) {
        self.again = again;
    }

    /// Says how long a workload may visit crash states, if not as long as it takes.
    pub fn set_share(&mut self, share: Option<Duration>) {
        self.share = share;
    }

    /// Has the promises of another file system count, or of this one with other options.
    ///
    /// # Errors
    /// If there is no contract for it.
    pub fn judge_by(&mut self, variant: &Variant) -> Result<()> {
        self.contract = Contract::for_variant(variant)?;
        Ok(())
    }

    /// Has crash states be held against specifications besides.
    ///
    /// # Errors
    /// The first mistake in one.
    pub fn hold_against(&mut self, specifications: &[Specification]) -> Result<()> {
        self.rules = Rules::of(specifications).map_err(|problem| problem.to_string())?;
        Ok(())
    }

    /// Says whether results are to have a hash of the block log.
    pub fn set_hash_log(&mut self, hash_log: bool) {
        self.hash_log = hash_log;
    }

    /// Calls `hook` with the mount point of every crash state, between its recovery and its
    /// check: to look at it, or to tamper with it and see whether that is noticed.
    pub fn on_recovered(&mut self, hook: RecoveredHook) {
        self.bed.on_recovered(hook);
    }

    /// Records a workload and checks all its crash states.
    pub fn run(&mut self, workload: &Workload) -> WorkloadResult {
        let unfinished = self.start(workload, &mut |_| {});
        self.finish(unfinished)
    }

    /// Does a workload but for the file system's own checkers, which go on by themselves. `tell`
    /// is called before each step with what it is: whoever dies of it cannot say so.
    pub fn start(&mut self, workload: &Workload, tell: Tell<'_>) -> Unfinished {
        let mut unfinished = Unfinished {
            result: WorkloadResult::new(workload.name.clone()),
            checks: BTreeMap::new(),
        };
        self.whose = None;
        // What was found before something failed stays found.
        if let Err(error) = self.record_and_check(workload, &mut unfinished, tell) {
            inconclusive(&mut unfinished.result, &error);
        }
        if let Some(text) = self.whose.take() {
            let why = format!("the kernel says '{text}', here or in another worker");
            unfinished.result.inconclusive.get_or_insert(why);
            unfinished.result.retry_alone = true;
        }
        unfinished
    }

    /// Waits for the checkers of a workload.
    pub fn finish(&mut self, unfinished: Unfinished) -> WorkloadResult {
        let Unfinished { mut result, checks } = unfinished;
        self.report_on(checks, &mut result);
        result.cut_log();
        result
    }

    fn record_and_check(
        &mut self,
        workload: &Workload,
        unfinished: &mut Unfinished,
        tell: Tell<'_>,
    ) -> Result<()> {
        if let Some(import) = self.import.clone() {
            return self.import_and_check(&import, workload, unfinished, tell);
        }
        let trace = self.record(workload, &mut unfinished.result, tell)?;
        let Some(last) = self.last_position(workload, &trace, &mut unfinished.result) else {
            self.bed.recycle(trace);
            return Ok(());
        };
        let recording = self.recording(workload, &trace, last);
        self.hold_run(&recording, &mut unfinished.result)?;
        let visited = if unfinished.result.violated_without_crash.is_some() {
            Ok(())
        } else {
            self.visit_states(&recording, unfinished, tell)
        };
        self.name_what_was_written(&trace, &mut unfinished.result);
        self.bed.recycle(trace);
        visited
    }

    /// What is known of a run that was recorded, on the disk that this engine has.
    fn recording<'r>(
        &self,
        workload: &'r Workload,
        trace: &'r Recorded,
        last: usize,
    ) -> Recording<'r> {
        let recording = Recording::new(workload, trace, last, None, self.disk);
        if self.rules.are_asked() {
            recording.with_done(self.variant.file_system.name, self.disk)
        } else {
            recording
        }
    }

    /// Runs a workload, and notes in its result what of it was not done.
    fn record(
        &mut self,
        workload: &Workload,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<Recorded> {
        tell("running the workload");
        self.watch.restart();
        let recorded = self.bed.record(workload);
        self.watch.lap(&mut result.timing.record_us);
        let (trace, said) = recorded?;
        if let Some(text) = self.about_us(said) {
            return Err(format!("the kernel complained before any crash: {text}").into());
        }
        if self.hash_log {
            result.block_log = Some(trace.log.hash());
        }
        self.note_gaps(workload, &trace, result);
        self.note_lost_trace(&trace.log, result);
        result.log = Some(RunLog::of(&trace.log, trace.durable_position));
        Ok(trace)
    }

    /// The same of a log that was made elsewhere.
    fn import_and_check(
        &mut self,
        import: &Import,
        workload: &Workload,
        unfinished: &mut Unfinished,
        tell: Tell<'_>,
    ) -> Result<()> {
        tell("mounting the disk as it was before the log");
        let imported = import
            .read(workload)
            .map_err(|error| format!("{error:#}"))?;
        let before = self.look_before(&imported, unfinished)?;
        if let Some(name) =
            something_in(&before, self.variant.file_system).filter(|_| has_operations(workload))
        {
            let why = format!(
                "there was {name} before the first operation: a workload starts on a new file system"
            );
            return Err(why.into());
        }
        let (trace, places) = imported.into_trace(workload, &before);
        let result = &mut unfinished.result;
        let Some(last) = self.last_imported(workload, (&trace, places.from), result) else {
            return Ok(());
        };
        let recording = Recording::new(workload, &trace, last, Some(&places), self.disk);
        self.visit_states(&recording, unfinished, tell)
    }

    /// Notes in a result the first operation that was refused, and that the power fails nowhere.
    fn note_gaps(&self, workload: &Workload, trace: &Recorded, result: &mut WorkloadResult) {
        let first = refusals(&self.variant, workload, &trace.outcomes).next();
        match first.map(|refused| refused.refusal) {
            Some(Refusal::NotApplicable(why)) => result.not_applicable = Some(why),
            Some(Refusal::Unexpected(why)) => result.inconclusive = Some(why),
            None => {}
        }
        if trace.crash_points.is_empty() {
            let why = "the workload has no persistence operation and no crash point";
            result.inconclusive.get_or_insert(why.into());
        }
    }

    /// Notes in a result that FUA was not told from flushes in a log although it is in others.
    fn note_lost_trace(&self, log: &BlockLog, result: &mut WorkloadResult) {
        if let Some(why) = lost_trace(log, self.bed.recognises_fua()) {
            result.inconclusive.get_or_insert(why.into());
        }
    }

    /// The last position of an imported log, which counts from a position on, of whose states
    /// anything can be said; none if there is none. Nobody looked at the running file system, so it
    /// is not known which part an operation has done that was refused.
    fn last_imported(
        &self,
        workload: &Workload,
        (trace, from): (&Recorded, usize),
        result: &mut WorkloadResult,
    ) -> Option<usize> {
        self.note_gaps(workload, trace, result);
        let last = trace.crash_points.last();
        let end = last.map_or(trace.durable_position, |point| point.log_position);
        self.known_until(end, workload, (trace, from), |_| true, result)
    }

    /// The last position up to `end` of whose states anything can be said; none if there is none. It
    /// is not known which part an operation has done that was refused and `may_be_begun`.
    fn known_until(
        &self,
        end: usize,
        workload: &Workload,
        (trace, from): (&Recorded, usize),
        may_be_begun: impl Fn(&Refused<'_>) -> bool,
        result: &mut WorkloadResult,
    ) -> Option<usize> {
        let unknown = refusals(&self.variant, workload, &trace.outcomes)
            .filter(may_be_begun)
            .find_map(|refused| match refused.refusal {
                Refusal::Unexpected(why) => Some((refused.number, why)),
                Refusal::NotApplicable(_) => None,
            });
        let Some((number, why)) = unknown else {
            return Some(end);
        };
        result.inconclusive.get_or_insert(why);
        let last = place_of_start(&trace.log, from, number)?;
        (last >= trace.durable_position).then(|| last.min(end))
    }

    /// What the disk shows before any crash. What is wrong with it then, crashes have not done.
    fn look_before(&mut self, imported: &Imported, unfinished: &mut Unfinished) -> Result<Tree> {
        let log = imported.log();
        let from = imported.places.from;
        let rules = Log::new(&requests(log), from, self.disk);
        let state = State {
            position: from,
            relaxation: Relaxation::Prefix,
        };
        rebuild(&mut self.image, log, &rules, &state);
        let seen = self.visit_and_check(&mut unfinished.result.timing)?;
        let findings = self.compare(None, None, &seen)?;
        let tree = seen.tree.unwrap_or_default();
        match findings.first() {
            None => Ok(tree),
            Some(finding) => Err(format!(
                "the disk is not sound before any crash: {}{}{}",
                finding.path,
                if finding.path.is_empty() { "" } else { ": " },
                finding.what
            )
            .into()),
        }
    }

    /// The last position of the log of whose states anything can be said; none if there is none. What
    /// an operation has done in part may be gone again when the file system is looked at.
    fn last_position(
        &self,
        workload: &Workload,
        trace: &Recorded,
        result: &mut WorkloadResult,
    ) -> Option<usize> {
        let end = self.last_agreed(workload, trace, result);
        self.known_until(end, workload, (trace, 0), refusal::may_be_begun, result)
    }

    /// The last position up to which the running file system showed what was done.
    fn last_agreed(
        &self,
        workload: &Workload,
        trace: &Recorded,
        result: &mut WorkloadResult,
    ) -> usize {
        let mut last = trace.durable_position;
        for point in &trace.crash_points {
            let Some(live) = &point.live else { continue };
            if let Some(name) = kept_after_removal(self.variant.file_system, live) {
                let why = format!("a file was removed while open, and is kept as {name}");
                result.not_applicable.get_or_insert(why);
                return last;
            }
            let progress = Progress {
                operations_done: point.operations_done,
                under_way: false,
            };
            let model = progress.model(&self.contract, workload, trace);
            let disagreement = match &model {
                Ok(model) => disagreement(model, live),
                Err(why) => Some(why.to_string()),
            };
            if let Some(why) = disagreement {
                result.inconclusive.get_or_insert(why);
                return last;
            }
            last = point.log_position;
        }
        last
    }

    /// What the kernel complained about, unless another engine may have been the reason: then the
    /// workload is inconclusive.
    fn about_us(&mut self, said: Complaint) -> Option<String> {
        match said {
            Complaint::None => None,
            Complaint::OfDisk(text) => Some(text),
            Complaint::StackTrace(text) if self.alone => Some(text),
            Complaint::StackTrace(text) => {
                self.whose = Some(text);
                None
            }
        }
    }

    /// Mounts, walks and unmounts one image by raw system calls, `cycles` times: the floor under
    /// everything that this engine does. `recovering` takes the image of a crash, such as a
    /// sweep mounts, and not the clean base.
    ///
    /// # Errors
    /// If that fails.
    pub fn floor(&mut self, cycles: u32, recovering: bool) -> Result<Floor> {
        self.image.reset();
        if recovering {
            let workload =
                workloads::parse("creat foo; write foo 0 4K; fsync foo", "floor")?.remove(0);
            let (trace, _) = self.bed.record(&workload)?;
            let position = trace
                .crash_points
                .last()
                .map_or(0, |point| point.log_position);
            let rules = Log::new(&requests(&trace.log), 0, Disk::Honest);
            let relaxation = Relaxation::Prefix;
            let state = State {
                position,
                relaxation,
            };
            rebuild(&mut self.image, &trace.log, &rules, &state);
            self.bed.recycle(trace);
        }
        let elapsed = self.bed.floor(&self.image, cycles)?;
        Ok(Floor { cycles, elapsed })
    }
}

/// Why a log says less than others do: where FUA cannot be recognised at all, that is said of all of
/// them together.
fn lost_trace(log: &BlockLog, recognises_fua: bool) -> Option<&'static str> {
    (recognises_fua && !log.recognises_fua()).then_some(
        "the kernel had no room for the trace of all requests: FUA cannot be told from a flush, and the disk \
         seems to keep more than it must",
    )
}

/// Notes why not everything could be measured.
fn inconclusive(result: &mut WorkloadResult, error: &EngineError) {
    result.inconclusive.get_or_insert(error.to_string());
    result.retry_alone |= matches!(error.downcast_ref(), Some(local_fs::Error::Killed { .. }));
}

/// How long so many mounts, walks and unmounts took.
#[derive(Debug, Clone, Copy)]
pub struct Floor {
    /// How many.
    pub cycles: u32,
    /// How long.
    pub elapsed: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_whose_trace_was_lost_says_less_than_the_others() {
        let mut log = BlockLog::default();
        assert_eq!(lost_trace(&log, true), None);
        log.set_recognises_fua(false);
        assert!(lost_trace(&log, true).is_some_and(|why| why.contains("FUA")));
        assert_eq!(lost_trace(&log, false), None, "it is said of all of them");
    }
}
