mod naming;
pub(crate) mod search;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_dev::{Base, BlockLog, FrontEnd, Image, ImageHash, Kind, Mark, Unordered};
use checker::{Contract, Finding, Model, Promise, oracle, write_check};
use crash_images::{rebuild, rebuild_swapped, requests};
use local_fs::{
    FileSystem, FsckReport, KernelLog, KernelMessage, Lack, Mounted, Tree, Variant, WalkOptions,
    walk,
};
use pace_rules::disk::{Disk, Log, Relaxation, Space, State, States};
use recorder::{CrashPoint, Outcome, Recorder, Trace};
use workloads::{FallocMode, Op, RenameFlag, Workload};

use crate::crashed_disks::{CrashedDisks, Ticket};
use crate::disk_kind::DiskKind;
use crate::fsck::FsckPlace;
use crate::import::{Import, Imported, Places, has_operations, something_in};
use crate::moment::{Progress, disagreement};
use crate::result::{LostBytes, RunLog, StateFindings, Timing, WorkloadResult};

/// So many crash states of one workload are visited without a limit of time: hours.
const STATES_MAX: u128 = 10_000_000;

/// An error that says nothing of the file system under test.
pub type EngineError = Box<dyn std::error::Error + Send + Sync>;

type Result<T, E = EngineError> = std::result::Result<T, E>;

/// So many pairs of writes whose order is open are tried in every order. With more of them, what is
/// found is not counted.
const OPEN_MAX: usize = 4;

/// Takes workloads through record, crash, recover and check, one at a time, on disks of its
/// own. It runs in a mount namespace of its own.
pub struct Engine {
    variant: Variant,
    contract: Contract,
    disk: Disk,
    recorder: Recorder,
    crashed: CrashedDisks,
    image: Image,
    mount_point: PathBuf,
    kernel_log: KernelLog,
    recovered: Option<RecoveredHook>,
    alone: bool,
    states: States,
    seed: u64,
    share: Option<Duration>,
    hash_log: bool,
    name_blocks: bool,
    /// Where workloads are not run, because that was done elsewhere.
    import: Option<Import>,
    watch: Stopwatch,
    /// A stack trace in the kernel's log that may be about the present workload, or another
    /// engine's.
    whose: Option<String>,
}

/// Is told each step before it is taken.
pub type Tell<'a> = &'a mut dyn FnMut(&str);

/// What is done to a recovered file system before it is checked.
pub type RecoveredHook = Box<dyn FnMut(&Path)>;

/// What was found on one crash state that does not depend on the crash point it stands for.
struct Visited {
    tree: Option<Tree>,
    findings: Vec<Finding>,
    /// What the file system's own checker will have said of it.
    check: Option<Ticket>,
}

impl Visited {
    /// A crash state of which this is all that can be said.
    fn nothing(finding: Finding) -> Self {
        Self {
            tree: None,
            findings: vec![finding],
            check: None,
        }
    }
}

/// A workload that is done but for what the file system's own checkers will say.
pub struct Unfinished {
    result: WorkloadResult,
    /// The checks, and the crash states that each is about.
    checks: BTreeMap<Ticket, Vec<StateFindings>>,
}

/// How much of a log there is to visit.
struct Extent<'a> {
    /// The last position.
    last: usize,
    /// Where its places are, in a log that was imported.
    imported: Option<&'a Places>,
}

impl Extent<'_> {
    /// The pairs of writes in a state whose order is not known.
    fn open(&self, rules: &Log, state: &State) -> Vec<Unordered> {
        let unordered = self.imported.map(Places::unordered).unwrap_or_default();
        let lost = rules.lost(state);
        let there = |place: usize| place < state.position && !lost.contains(&place);
        unordered
            .iter()
            .filter(|pair| there(pair.place) && there(pair.fua_place))
            .copied()
            .collect()
    }
}

/// Which crash state of a workload.
struct StateId<'a> {
    progress: Progress,
    /// What the file system showed at that moment, where it was looked at.
    live: Option<&'a Tree>,
    /// Without findings.
    state: StateFindings,
    /// The pairs of its writes whose order is not known.
    open: Vec<Unordered>,
    /// What it is made of, if it was imported.
    source: Option<(&'a Log, &'a BlockLog, &'a Places)>,
}

impl Engine {
    /// An engine for one file system; `directory` is an empty one of ours.
    ///
    /// # Errors
    /// If disks, mount points or the kernel's log cannot be had.
    pub fn new(
        variant: &Variant,
        base: &Arc<Base>,
        disk: impl Into<DiskKind>,
        directory: &Path,
    ) -> Result<Self> {
        Self::with_fsck(variant, base, disk.into(), directory, &FsckPlace::default())
    }

    /// An engine that has the file system's own checker and repair run in some place.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub(crate) fn with_fsck(
        variant: &Variant,
        base: &Arc<Base>,
        disk: DiskKind,
        directory: &Path,
        fsck: &FsckPlace,
    ) -> Result<Self> {
        let contract = Contract::for_variant(variant)?;
        let mount_point = directory.join("crashed");
        std::fs::create_dir(&mount_point)?;
        Ok(Self {
            variant: variant.clone(),
            contract,
            disk: disk.honesty,
            recorder: Recorder::new(variant, base, disk.completion, directory)?,
            crashed: CrashedDisks::new(base, fsck)?,
            image: Image::new(Arc::clone(base)),
            mount_point,
            kernel_log: KernelLog::open()?,
            recovered: None,
            alone: true,
            states: States::default(),
            seed: 0,
            share: None,
            hash_log: false,
            name_blocks: false,
            import: None,
            watch: Stopwatch(Instant::now()),
            whose: None,
        })
    }

    /// Whether writes with FUA are told from others. Otherwise the disk seems to keep more than it
    /// must, and `drop-fua` does nothing.
    pub fn recognises_fua(&self) -> bool {
        self.import.is_some() || self.recorder.recognises_fua()
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

    /// Says whether results are to have a hash of the block log.
    pub fn set_hash_log(&mut self, hash_log: bool) {
        self.hash_log = hash_log;
    }

    /// Calls `hook` with the mount point of every crash state, between its recovery and its
    /// check: to look at it, or to tamper with it and see whether that is noticed.
    pub fn on_recovered(&mut self, hook: RecoveredHook) {
        self.recovered = Some(hook);
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
        self.watch.restart();
        for (ticket, states) in checks
            .into_iter()
            .filter(|_| self.contract.promises(Promise::FsckClean))
        {
            let report = self.crashed.report(ticket);
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
                }
                Err(error) => inconclusive(&mut result, &error),
            }
        }
        result.cut_log();
        result
    }

    /// What is wrong by a report of the file system's own checker.
    fn dissatisfaction(&self, report: &FsckReport) -> Option<Finding> {
        let name = self
            .variant
            .file_system
            .fsck
            .map_or("fsck", |fsck| fsck.program.name);
        let what = || format!("{name} is not satisfied: {}", summary(&report.output));
        let wrong = !report.clean && self.contract.promises(Promise::FsckClean);
        wrong.then(|| Finding::new(Promise::FsckClean, "", what()))
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
        let whole = Extent {
            last: self.last_position(workload, &trace, &mut unfinished.result),
            imported: None,
        };
        let visited = self.visit_states(workload, &trace, &whole, unfinished, tell);
        self.name_what_was_written(&trace, &mut unfinished.result);
        self.recorder.recycle(trace);
        visited
    }

    /// Runs a workload, and notes in its result what of it was not done.
    fn record(
        &mut self,
        workload: &Workload,
        result: &mut WorkloadResult,
        tell: Tell<'_>,
    ) -> Result<Trace> {
        tell("running the workload");
        // What the last one still had to say is not about this one.
        self.watch.restart();
        self.recorder.finish_unmounting();
        self.kernel_log.skip()?;
        let trace = self.recorder.record(workload);
        self.watch.lap(&mut result.timing.record_us);
        let trace = trace?;
        match complaint(
            &mut self.kernel_log,
            self.recorder.device_name(),
            self.alone,
        )? {
            Complaint::None => {}
            Complaint::Ours(text) => {
                return Err(format!("the kernel complained before any crash: {text}").into());
            }
            Complaint::Somebodys(text) => self.whose = Some(text),
        }
        if self.hash_log {
            result.block_log = Some(trace.log.hash());
        }
        match refusal(&self.variant, workload, &trace.outcomes) {
            Some(Refusal::NotApplicable(why)) => result.not_applicable = Some(why),
            Some(Refusal::Unexpected(why)) => result.inconclusive = Some(why),
            None => {}
        }
        if trace.crash_points.is_empty() {
            let why = "the workload has no persistence operation and no crash point";
            result.inconclusive.get_or_insert(why.into());
        }
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
        let last = trace
            .crash_points
            .last()
            .map_or(trace.durable_position, |point| point.log_position);
        self.visit_states(
            workload,
            &trace,
            &Extent {
                last,
                imported: Some(&places),
            },
            unfinished,
            tell,
        )
    }

    /// What the disk shows before any crash. What is wrong with it then, crashes have not done.
    fn look_before(&mut self, imported: &Imported, unfinished: &mut Unfinished) -> Result<Tree> {
        let log = imported.log();
        let rules = Log::new(&requests(log), imported.from, self.disk);
        let state = State {
            position: imported.from,
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

    fn visit_states(
        &mut self,
        workload: &Workload,
        trace: &Trace,
        extent: &Extent<'_>,
        unfinished: &mut Unfinished,
        tell: Tell<'_>,
    ) -> Result<()> {
        let last = extent.last;
        // A sample is to be of what can be visited.
        let rules = Log::new(
            &requests(&trace.log)[..last],
            trace.durable_position,
            self.disk,
        );
        // Where nothing is known of what was done, a state is judged by itself.
        let has_model = extent.imported.is_none() || has_operations(workload);
        let progress = if has_model {
            Progress::of(trace)
        } else {
            Progress::unknown(trace)
        };
        let promised = promised_positions(workload, trace, &self.states);
        let promised: Vec<_> = promised
            .into_iter()
            .filter(|position| *position <= last)
            .collect();
        let space = Space::new(
            &rules,
            &promised,
            &self.states,
            self.seed ^ seed_of(workload),
        );
        let mut models: HashMap<Progress, Result<Option<Model>, String>> = HashMap::new();
        let mut visited = HashMap::new();
        let mut judged = HashSet::new();
        if self.share.is_none() && space.len() > STATES_MAX {
            let why = format!(
                "there are {} crash states: give --budget, or sample:N as one of --states",
                space.len()
            );
            unfinished.result.inconclusive.get_or_insert(why);
            return Ok(());
        }
        let end = self.share.map(|share| self.watch.0 + share);
        for (number, state) in space.iter().enumerate() {
            // The first one is worth its time.
            if number > 0 && end.is_some_and(|end| self.watch.0 >= end) {
                unfinished.result.states_left =
                    u64::try_from(space.len() - number as u128).unwrap_or(u64::MAX);
                break;
            }
            rebuild(&mut self.image, &trace.log, &rules, &state);
            let (progress, hash) = (progress[state.position], self.image.hash());
            // The same content at the same moment gives the same findings.
            if !judged.insert((progress, hash)) {
                unfinished.result.states_equal += 1;
                continue;
            }
            let make = || {
                has_model
                    .then(|| progress.model(&self.contract, workload, trace))
                    .transpose()
            };
            match models.entry(progress).or_insert_with(make) {
                Ok(model) => {
                    let live = live_at(trace, &state, progress);
                    let place = extent
                        .imported
                        .map(|imported| imported.place(state.position));
                    let open = extent.open(&rules, &state);
                    let source = extent
                        .imported
                        .map(|imported| (&rules, &trace.log, imported));
                    let state = StateFindings {
                        place,
                        ..lost(&rules, trace, progress, state)
                    };
                    let id = StateId {
                        progress,
                        live,
                        state,
                        open,
                        source,
                    };
                    self.judge(model.as_ref(), hash, id, &mut visited, unfinished, tell)?;
                }
                Err(why) => {
                    unfinished
                        .result
                        .inconclusive
                        .get_or_insert_with(|| why.clone());
                }
            }
        }
        Ok(())
    }

    /// The last position of the log of whose states anything can be said.
    fn last_position(
        &self,
        workload: &Workload,
        trace: &Trace,
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
                Err(why) => Some(why.clone()),
            };
            if let Some(why) = disagreement {
                result.inconclusive.get_or_insert(why);
                return last;
            }
            last = point.log_position;
        }
        last
    }

    /// Has a crash state that is in the image recover, unless that was done, and compares it with
    /// what may be there, or without a model with itself.
    fn judge(
        &mut self,
        model: Option<&Model>,
        hash: ImageHash,
        id: StateId<'_>,
        visited: &mut HashMap<ImageHash, Visited>,
        unfinished: &mut Unfinished,
        tell: Tell<'_>,
    ) -> Result<()> {
        let Unfinished { result, checks } = unfinished;
        if let Entry::Vacant(place) = visited.entry(hash) {
            // The position of the crash need not be the same in another run.
            let (done, state) = (id.progress.operations_done, &id.state.state.relaxation);
            tell(&format!(
                "recovering from a crash after {done} operations ({state})"
            ));
            let timing = &mut result.timing;
            let seen = if id.open.is_empty() {
                self.visit(timing)?
            } else {
                self.visit_and_check(timing)?
            };
            result.states_checked += 1;
            place.insert(seen);
        } else {
            self.watch.lap(&mut result.timing.enumerate_us);
            result.states_equal += 1;
        }
        let seen = &visited[&hash];
        let compared = self.compare(model, id.live, seen);
        self.watch.lap(&mut result.timing.oracle_us);
        let mut findings = compared.unwrap_or_else(|undecided| {
            result.inconclusive.get_or_insert(undecided);
            Vec::new()
        });
        if !findings.is_empty()
            && let Some(why) = self.depends_on_order(model, hash, &id, result)?
        {
            result.inconclusive.get_or_insert(why);
            findings.clear();
        }
        let state = id.state;
        if let Some(ticket) = seen.check {
            checks.entry(ticket).or_default().push(state.clone());
        }
        if !findings.is_empty() {
            result.add_findings(StateFindings { findings, ..state });
        }
        Ok(())
    }

    /// What is wrong with a state that was visited: with a model compared with what may be there,
    /// else with itself.
    ///
    /// # Errors
    /// Why it could not be decided.
    fn compare(
        &self,
        model: Option<&Model>,
        live: Option<&Tree>,
        seen: &Visited,
    ) -> Result<Vec<Finding>, String> {
        let mut findings = match (&seen.tree, model) {
            (None, _) => Vec::new(),
            (Some(tree), Some(model)) => oracle::check(model, live, tree)?,
            (Some(tree), None) => oracle::check_itself(&self.contract, tree),
        };
        findings.extend(seen.findings.iter().cloned());
        Ok(findings)
    }

    /// Whether nothing is wrong with a state in another order of the writes whose order is open:
    /// then that is why nobody can be accused of what is in the order of the log.
    fn depends_on_order(
        &mut self,
        model: Option<&Model>,
        hash: ImageHash,
        id: &StateId<'_>,
        result: &mut WorkloadResult,
    ) -> Result<Option<String>> {
        let Some((rules, log, places)) = id.source else {
            return Ok(None);
        };
        let state = &id.state.state;
        let mut differing = Vec::new();
        for pair in &id.open {
            rebuild_swapped(&mut self.image, log, rules, state, &[*pair]);
            // Most have been written over since.
            if self.image.hash() != hash {
                differing.push(*pair);
            }
        }
        if differing.len() > OPEN_MAX {
            return Ok(Some(places.why_open(&differing[0])));
        }
        for subset in 1..1_u32 << differing.len() {
            let chosen = (0..differing.len()).filter(|bit| subset & (1 << bit) != 0);
            let swapped: Vec<_> = chosen.map(|bit| differing[bit]).collect();
            rebuild_swapped(&mut self.image, log, rules, state, &swapped);
            let seen = self.visit_and_check(&mut result.timing)?;
            if self
                .compare(model, id.live, &seen)
                .is_ok_and(|findings| findings.is_empty())
            {
                return Ok(Some(places.why_open(&swapped[0])));
            }
        }
        Ok(None)
    }

    /// The same as [`Self::visit`], and waits for the file system's own checker.
    fn visit_and_check(&mut self, timing: &mut Timing) -> Result<Visited> {
        let mut seen = self.visit(timing)?;
        if let Some(ticket) = seen.check.take() {
            let report = self.crashed.report(ticket)?;
            self.watch.lap(&mut timing.fsck_us);
            seen.findings.extend(self.dissatisfaction(&report));
        }
        Ok(seen)
    }

    /// Mounts the image so that it recovers, walks it, writes to it and checks it.
    fn visit(&mut self, timing: &mut Timing) -> Result<Visited> {
        self.watch.lap(&mut timing.enumerate_us);
        self.crashed.turn();
        self.watch.lap(&mut timing.fsck_us);
        let loaded = self
            .crashed
            .load(&self.variant, &self.image, &mut self.watch, timing)?;
        // What other disks had to say before this one was mounted is not about it.
        self.kernel_log.skip()?;
        let mut findings = Vec::new();
        if let Err(why) = loaded {
            return Ok(Visited::nothing(Finding::new(
                Promise::Repairable,
                "",
                format!("its repair fails: {why}"),
            )));
        }
        let mounted = Mounted::new(
            &self.variant,
            self.crashed.current().device(),
            &self.mount_point,
        );
        self.watch.lap(&mut timing.mount_us);
        let mut mounted = match mounted {
            Ok(mounted) => mounted,
            Err(error) => return self.unmountable(error),
        };
        if let Some(hook) = &mut self.recovered {
            hook(mounted.path());
        }
        let own_names = self.variant.file_system.own_names;
        let skip = self.variant.file_system.names_not_walked();
        let tree = walk(
            mounted.path(),
            WalkOptions {
                skip,
                ..WalkOptions::of(self.variant.file_system)
            },
        );
        self.watch.lap(&mut timing.compare_us);
        let written = mounted
            .root()
            .map(|root| write_check(root, &tree, own_names));
        self.watch.lap(&mut timing.write_us);
        let unmounted = mounted.unmount();
        self.watch.lap(&mut timing.mount_us);
        // Where the driver is gone, whatever else was seen is a consequence.
        let failed = match unmounted {
            Ok(()) => None,
            Err(died @ local_fs::Error::DriverDied { .. }) => {
                return Ok(Visited::nothing(Finding::new(
                    Promise::DriverAlive,
                    "",
                    died.to_string(),
                )));
            }
            Err(local_fs::Error::Unmount(error)) => {
                Some(format!("unmounting fails after recovery: {error}"))
            }
            Err(other) => return Err(other.into()),
        };
        findings.extend(written?);
        findings.extend(failed.map(|what| Finding::new(Promise::Usable, "", what)));
        if let Some(said) = mounted.complaint() {
            findings.push(Finding::new(
                Promise::DriverQuiet,
                "",
                format!("the driver says: {said}"),
            ));
        }
        match complaint(
            &mut self.kernel_log,
            self.crashed.current().device_name(),
            self.alone,
        )? {
            Complaint::None => {}
            Complaint::Ours(text) => {
                findings.push(Finding::new(
                    Promise::KernelQuiet,
                    "",
                    format!("the kernel says: {text}"),
                ));
            }
            Complaint::Somebodys(text) => self.whose = Some(text),
        }
        let check = self.crashed.check(&self.variant)?;
        self.watch.lap(&mut timing.fsck_us);
        findings.retain(|finding| self.contract.promises(finding.promise));
        Ok(Visited {
            tree: Some(tree),
            findings,
            check,
        })
    }

    fn unmountable(&mut self, error: local_fs::Error) -> Result<Visited> {
        if let local_fs::Error::DriverDied { .. } = error {
            return Ok(Visited::nothing(Finding::new(
                Promise::DriverAlive,
                "",
                error.to_string(),
            )));
        }
        let Some(why) = error.unmountable() else {
            return Err(error.into());
        };
        let messages = self.kernel_log.read()?;
        let device = self.crashed.current().device_name();
        let said = errors_about(&messages, device).last();
        let said =
            said.map(|message| format!("; the kernel says: {}", message.text_without(device)));
        let said = said.unwrap_or_default();
        Ok(Visited::nothing(Finding::new(
            Promise::Mountable,
            "",
            format!("mount fails: {why}{said}"),
        )))
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
            let trace = self.recorder.record(&workload)?;
            let position = trace
                .crash_points
                .last()
                .map_or(0, |point| point.log_position);
            let rules = Log::new(&requests(&trace.log), 0, Disk::Honest);
            rebuild(
                &mut self.image,
                &trace.log,
                &rules,
                &State {
                    position,
                    relaxation: Relaxation::Prefix,
                },
            );
            self.recorder.recycle(trace);
        }
        self.crashed.turn();
        let started = Instant::now();
        for _ in 0..cycles {
            self.crashed.load(
                &self.variant,
                &self.image,
                &mut self.watch,
                &mut Timing::default(),
            )??;
            let device = self.crashed.current().device();
            let mut mounted = Mounted::new(&self.variant, device, &self.mount_point)?;
            walk(mounted.path(), WalkOptions::of(self.variant.file_system));
            mounted.unmount()?;
        }
        Ok(Floor {
            cycles,
            elapsed: started.elapsed(),
        })
    }
}

/// Notes why not everything could be measured.
fn inconclusive(result: &mut WorkloadResult, error: &EngineError) {
    result.inconclusive.get_or_insert(error.to_string());
    result.retry_alone |= matches!(error.downcast_ref(), Some(local_fs::Error::Killed { .. }));
}

/// What the kernel complained about.
enum Complaint {
    None,
    /// About a device of ours, or while nobody else was at work.
    Ours(String),
    /// A stack trace, which names no device, while other engines were at work.
    Somebodys(String),
}

/// What the kernel complained about since its log was last read.
fn complaint(log: &mut KernelLog, device: &str, alone: bool) -> Result<Complaint> {
    let messages = log.read()?;
    if let Some(message) = errors_about(&messages, device).next() {
        return Ok(Complaint::Ours(message.text_without(device)));
    }
    Ok(
        match messages.iter().find(|message| message.is_stack_trace()) {
            Some(message) if alone => Complaint::Ours(message.text.clone()),
            Some(message) => Complaint::Somebodys(message.text.clone()),
            None => Complaint::None,
        },
    )
}

/// How long so many mounts, walks and unmounts took.
#[derive(Debug, Clone, Copy)]
pub struct Floor {
    /// How many.
    pub cycles: u32,
    /// How long.
    pub elapsed: Duration,
}

/// Tells where time goes. It looks at the clock once for each step, since in a guest that is a
/// system call; what lies between two steps counts for the second one.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    fn restart(&mut self) {
        self.0 = Instant::now();
    }

    /// Adds the microseconds since it was last looked at.
    pub(crate) fn lap(&mut self, total_us: &mut u64) {
        let now = Instant::now();
        *total_us += (now - self.0).as_micros() as u64;
        self.0 = now;
    }
}

/// Why what was run is not what was written.
enum Refusal {
    /// The file system has no such thing.
    NotApplicable(String),
    /// It should have been done.
    Unexpected(String),
}

/// Names the first operation that the file system refused.
fn refusal(variant: &Variant, workload: &Workload, outcomes: &[Outcome]) -> Option<Refusal> {
    workload.operations().zip(outcomes).enumerate().find_map(
        |(number, (op, outcome))| match outcome {
            Outcome::Done => None,
            Outcome::Refused(errno) => {
                let reason = std::io::Error::from_raw_os_error(*errno);
                let why = format!("operation {number}, {op}, was refused: {reason}");
                let lacking = *errno == libc::EOPNOTSUPP || is_lacking(variant.file_system, op);
                Some(if lacking {
                    Refusal::NotApplicable(why)
                } else {
                    Refusal::Unexpected(why)
                })
            }
        },
    )
}

/// Whether a file system has no place for what an operation does, or no way to do it.
fn is_lacking(file_system: &FileSystem, op: &Op) -> bool {
    let lack = match op {
        Op::Link { .. } => Lack::HardLinks,
        Op::Symlink { .. } => Lack::Symlinks,
        Op::Mkfifo { .. } | Op::Mknod { .. } => Lack::SpecialFiles,
        Op::SetXattr { .. } | Op::RemoveXattr { .. } => Lack::Xattrs,
        Op::Chmod { .. } => Lack::Modes,
        Op::Chown { .. } => Lack::Owners,
        Op::Falloc {
            mode: FallocMode::ZeroRange | FallocMode::ZeroRangeKeepSize,
            ..
        } if file_system.lacks.contains(&Lack::ZeroRange) => Lack::ZeroRange,
        Op::Falloc { .. } => Lack::Preallocation,
        Op::Rename {
            flag: RenameFlag::Exchange | RenameFlag::Whiteout,
            ..
        } => Lack::RenameFlags,
        Op::Rename {
            flag: RenameFlag::NoReplace,
            ..
        } => Lack::RenameNoReplace,
        Op::Tmpfile { .. } => Lack::Tmpfiles,
        Op::DirectWrite { .. } => Lack::DirectIo,
        _ => return false,
    };
    file_system.lacks.contains(&lack)
}

/// A name under which a driver keeps a file that was removed while open.
fn kept_after_removal<'a>(file_system: &FileSystem, live: &'a Tree) -> Option<&'a str> {
    let starts = file_system.driver?.removed_starts;
    let mut names = live
        .inodes
        .keys()
        .flat_map(|number| live.entries(*number).map(|(name, _)| name));
    names.find(|name| starts.iter().any(|start| name.starts_with(start)))
}

/// The positions at which something is promised that was not promised before: where the run says
/// that the power fails, and behind each persistence operation, if it may fail at other places as
/// well.
fn promised_positions(workload: &Workload, trace: &Trace, states: &States) -> Vec<usize> {
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
    let behind = run
        .filter(|(_, entry)| states.every_write() && returned(entry))
        .map(|(place, _)| place + 1);
    let mut positions: Vec<_> = trace
        .crash_points
        .iter()
        .map(|point| point.log_position)
        .chain(behind)
        .collect();
    positions.sort_unstable();
    positions.dedup();
    positions
}

/// What the file system showed at the moment of a state.
fn live_at<'a>(trace: &'a Trace, state: &State, progress: Progress) -> Option<&'a Tree> {
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
    let hash = blake3::hash(workload.to_line().as_bytes());
    u64::from_le_bytes(hash.as_bytes()[..8].try_into().expect("8 of 32 bytes"))
}

/// A state, without findings, with what the disk lost in it.
fn lost(rules: &Log, trace: &Trace, progress: Progress, state: State) -> StateFindings {
    let bytes = |place: usize, from: u64, to: Option<u64>| {
        let (offset, length) = trace.log.entries()[place].range();
        LostBytes {
            place: place as u32,
            offset: offset + from,
            length: to.unwrap_or(length) - from,
        }
    };
    let mut lost: Vec<_> = rules
        .lost(&state)
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
    StateFindings {
        operations_done: progress.operations_done as u32,
        under_way: progress.under_way,
        pending: rules.pending(state.position).len() as u32,
        state,
        lost,
        place: None,
        findings: Vec::new(),
        more: 0,
    }
}

fn errors_about<'a>(
    messages: &'a [KernelMessage],
    device: &str,
) -> impl Iterator<Item = &'a KernelMessage> {
    messages
        .iter()
        .filter(move |message| message.level <= KernelMessage::ERROR && message.is_about(device))
}

/// The lines of a checker's output that say something, few enough to read.
fn summary(output: &str) -> String {
    const LINES_MAX: usize = 4;
    let boring = |line: &&str| {
        let line = line.trim();
        !line.is_empty()
            && !line.starts_with("Phase")
            && !line.starts_with("Pass")
            && !line.starts_with("        -")
    };
    let lines: Vec<_> = output.lines().filter(boring).map(str::trim).collect();
    lines[..lines.len().min(LINES_MAX)].join("; ")
}
