use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use brief::counted;
use campaign::{Interrupt, one_line, say};
use local_fs::{FileSystem, Scratch, Variant, enter_mount_namespace};
use machine::Machine;
use pace_rules::disk::States;
use specification::{Specification, Unlooked};
use workloads::Workload;

use crate::crash_again::CrashAgain;
use crate::disk_kind::DiskKind;
use crate::drain::{ResultSender, Source, drain};
use crate::engine::search::Search;
use crate::error::{During as _, Error, Result};
use crate::import::Import;
use crate::pool::{Gone, Worker};
use crate::result::{AgainCounts, Death, Timing, Verdict, WorkloadResult};
use crate::worker::{Answer, Job, Start};

/// Workloads that a worker may have been given without having answered: one that it works on,
/// one that waits for the file system's checker, and the next.
const WAITING_MAX: usize = 3;

/// Workers that may die one after the other, without a result in between, before the sweep gives
/// up.
const DEATHS_MAX: u32 = 5;

/// How often it is tried to start a worker in the place of another.
const STARTS_MAX: u32 = 3;

/// How a sweep is done.
#[derive(Debug, Clone)]
pub struct SweepOptions {
    /// How the disk keeps its word, and when it answers.
    pub disk: DiskKind,
    /// Which states to visit at each crash point.
    pub states: States,
    /// Whether the power fails again in recoveries.
    pub again: CrashAgain,
    /// Whose promises count, if not those of the file system itself.
    pub contract: Option<Variant>,
    /// What a sample of them is drawn with.
    pub seed: u64,
    /// How long a workload may visit crash states.
    pub share: Option<Duration>,
    /// How many workers.
    pub jobs: usize,
    /// Where they run.
    pub machine: Machine,
    /// The log of a run that was done elsewhere, if workloads are not to be run.
    pub import: Option<Import>,
    /// What crash states are held against besides.
    pub specifications: Vec<Specification>,
}

impl Default for SweepOptions {
    fn default() -> Self {
        let (contract, states, seed, jobs) = (None, States::default(), 0, 1);
        Self {
            disk: DiskKind::default(),
            contract,
            states,
            again: CrashAgain::default(),
            seed,
            share: None,
            jobs,
            machine: Machine::Host,
            import: None,
            specifications: Vec::new(),
        }
    }
}

/// What a sweep of one file system came to.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Workloads done.
    pub workloads: u64,
    /// Crash states mounted and checked.
    pub states_checked: u64,
    /// Crash states that equalled one visited before.
    pub states_equal: u64,
    /// Crash states for which the time was too short.
    pub states_left: u64,
    /// What came of crashes in recoveries; none if they were not asked for.
    pub again: Option<AgainCounts>,
    /// Workloads with a finding.
    pub findings: u64,
    /// Workloads that could not be measured, wholly or in part.
    pub inconclusive: u64,
    /// Workloads that the file system has no place for, or no way to do.
    pub not_applicable: u64,
    /// How long it took, without making the base image and starting the workers.
    pub elapsed: Duration,
    /// Where the workers' time went.
    pub timing: Timing,
    /// Whether the user stopped it before its end.
    pub interrupted: bool,
    /// Whether FUA could be told from flushes. If not, the disk seemed to keep more than it must.
    pub fua_recognised: bool,
    /// The violations of rules that had nothing to look at in any workload; none if no rule was
    /// asked.
    pub unlooked: Option<Vec<Unlooked>>,
}

impl Summary {
    /// Counts a result in.
    pub fn add(&mut self, result: &WorkloadResult) {
        self.workloads += 1;
        self.states_checked += u64::from(result.states_checked);
        self.states_equal += u64::from(result.states_equal);
        self.states_left = self.states_left.saturating_add(result.states_left);
        if let Some(again) = result.again {
            self.again.get_or_insert_default().add(again);
        }
        self.findings += u64::from(result.verdict() == Verdict::Finding);
        self.inconclusive += u64::from(result.inconclusive.is_some());
        self.not_applicable += u64::from(result.not_applicable.is_some());
        self.timing.add(result.timing);
        self.add_unlooked(result.unlooked.as_deref());
    }

    /// Counts in what had nothing to look at in a workload of which rules were asked.
    pub(crate) fn add_unlooked(&mut self, unlooked: Option<&[Unlooked]>) {
        match (&mut self.unlooked, unlooked) {
            (Some(all), Some(here)) => Unlooked::narrow(all, here),
            (all @ None, Some(here)) => *all = Some(here.to_vec()),
            (_, None) => {}
        }
    }

    /// The violations that had nothing to look at: of these it says nothing.
    pub fn never_looked(&self) -> &[Unlooked] {
        self.unlooked.as_deref().unwrap_or_default()
    }

    /// What the time was too short for, in words; none if it was long enough.
    pub fn left(&self) -> Option<String> {
        let again = self.again.unwrap_or_default();
        let left = [
            (self.states_left, "crash state", ""),
            (again.states_left, "crash state", " in recoveries"),
            (again.recoveries_left, "recovery", ""),
        ];
        let left = left.into_iter().filter(|(count, ..)| *count > 0);
        let words = left.map(|(count, what, place)| counted(count, what) + place);
        let words: Vec<_> = words.collect();
        (!words.is_empty()).then(|| format!("the time was too short for {}", words.join(", ")))
    }

    /// Whether everything was visited that there was: nobody stopped it, and no time was too short.
    pub(crate) fn is_whole(&self) -> bool {
        let is_complete = self.again.is_none_or(|again| again.is_complete());
        !self.interrupted && self.states_left == 0 && is_complete
    }

    /// Whether there is something of which it says nothing.
    pub(crate) fn is_open(&self) -> bool {
        self.inconclusive > 0 || !self.is_whole() || !self.never_looked().is_empty()
    }

    /// Cycles done: one to record each workload and one for each crash state.
    pub fn cycles(&self) -> u64 {
        self.workloads + self.states_checked
    }
}

/// A running set of workers for one file system.
pub struct Workers {
    // Dropped in this order: the workers let go of the directory, then it goes.
    /// None where each workload has a guest of its own.
    pub(crate) processes: Vec<Worker>,
    pub(crate) start: Start,
    pub(crate) machine: Machine,
    jobs: usize,
    recognise_fua: bool,
    /// What workers under this kernel share.
    scratch: Option<Scratch>,
    started: usize,
    /// Workloads have been held against the rules before.
    are_rules_tried: bool,
}

impl Workers {
    /// Starts the workers. Where they run under this kernel, the calling thread gets a mount
    /// namespace of its own.
    ///
    /// # Errors
    /// Without root or a guest, mkfs, FUSE or loop devices.
    pub fn start(variant: &Variant, options: &SweepOptions) -> Result<Self> {
        let SweepOptions {
            disk,
            contract,
            states,
            again,
            seed,
            share,
            jobs,
            machine,
            import,
            specifications,
        } = options.clone();
        let FileSystem { name, modules, .. } = *variant.file_system;
        let files = import
            .iter()
            .flat_map(|import| [import.log.as_path(), &import.base]);
        let machine = machine
            .with_modules(modules)
            .with_modules(&[name])
            .with_files(&files.collect::<Vec<_>>());
        let alone = jobs <= 1 || machine.is_guest();
        // What the host does comes when the host likes, which has no place in virtual time.
        let host_helps = machine.is_guest() && !machine.has_virtual_time() && import.is_none();
        let hash_log = machine.has_virtual_time();
        let mut scratch = None;
        if matches!(machine, Machine::Host) {
            enter_mount_namespace()?;
            scratch = Some(Scratch::new()?);
        }
        let start = Start {
            variant: variant.clone(),
            disk,
            contract,
            states,
            again,
            seed,
            share,
            alone,
            directory: None,
            host_helps,
            hash_log,
            import,
            specifications,
        };
        let jobs = jobs.max(1);
        let mut this = Self {
            processes: Vec::new(),
            start,
            machine,
            jobs,
            recognise_fua: true,
            scratch,
            started: 0,
            are_rules_tried: false,
        };
        this.start_workers()?;
        Ok(this)
    }

    fn start_workers(&mut self) -> Result<()> {
        if self.machine.has_virtual_time() {
            self.recognise_fua = self.try_virtual_time()?;
            return Ok(());
        }
        for _ in 0..self.jobs {
            let worker = self.another()?;
            self.recognise_fua &= worker.recognises_fua();
            self.processes.push(worker);
        }
        Ok(())
    }

    fn another(&mut self) -> Result<Worker> {
        self.started += 1;
        let name = format!("worker-{}", self.started);
        let directory = self
            .scratch
            .as_ref()
            .map(|scratch| scratch.directory(&name))
            .transpose()?;
        Worker::start(
            &self.machine,
            &Start {
                directory,
                ..self.start.clone()
            },
        )
    }

    /// Starts a worker in the place of one that is gone. What ended that one, such as somebody who
    /// is short of memory, may end a new one before it works.
    fn replacement(&mut self) -> Result<Worker> {
        for _ in 1..STARTS_MAX {
            match self.another() {
                Ok(worker) => return Ok(worker),
                Err(error) => say(&format!("{}; it is tried once more", one_line(&error))),
            }
        }
        self.another().during(|| "replace a worker".into())
    }

    /// Whether every worker can tell FUA from flushes, which takes tracefs.
    pub fn recognise_fua(&self) -> bool {
        self.recognise_fua
    }

    /// Says that rules have been tried on other workloads: one that violates them without a crash is
    /// inconclusive then, and no reason to refuse them.
    pub fn trust_rules(&mut self) {
        self.are_rules_tried = true;
    }

    /// Has every worker do `cycles` cycles of the floor at the same time, on the image of a crash
    /// or on the clean base; returns how many cycles a second that were in all.
    ///
    /// # Errors
    /// If a worker fails.
    pub fn floor(&mut self, cycles: u32, recovering: bool) -> Result<f64> {
        let job = Job::Floor { cycles, recovering };
        let started = Instant::now();
        let count = self.processes.len();
        std::thread::scope(|scope| {
            let running: Vec<_> = self
                .processes
                .iter_mut()
                .map(|worker| scope.spawn(|| worker.work(&job)))
                .collect();
            for thread in running {
                match thread.join().expect("the thread does not panic") {
                    Ok(Answer::Floor(_)) => {}
                    Ok(Answer::Failed(why)) => return Err(Error::Worker(why)),
                    Ok(other) => return Err(Error::unexpected(&other, "to a floor")),
                    Err(gone) => return Err(gone.into()),
                }
            }
            Ok(())
        })?;
        Ok(f64::from(cycles) * count as f64 / started.elapsed().as_secs_f64())
    }

    /// Has the workers do all workloads; `done` is called with each result as it comes.
    ///
    /// # Errors
    /// If the source or `done` fails, or workers keep dying.
    pub fn run(
        &mut self,
        workloads: &mut (dyn Iterator<Item = Result<Workload>> + Send),
        interrupt: &Interrupt,
        done: &mut dyn FnMut(&Workload, WorkloadResult) -> Result<()>,
    ) -> Result<Summary> {
        let started = Instant::now();
        let mut summary = Summary {
            fua_recognised: self.recognise_fua(),
            ..Summary::default()
        };
        let mut retries = Vec::new();
        let mut are_rules_tried = self.are_rules_tried;
        let mut take = |workload: Workload, result: WorkloadResult| {
            if result.retry_alone {
                retries.push((workload, result));
                return Ok(());
            }
            are_rules_tried = accept(&result, are_rules_tried)?;
            summary.add(&result);
            done(&workload, result)
        };
        self.feed_all(workloads, interrupt, &mut take)?;
        for (workload, first) in retries {
            let result = self.retried(&workload, first, interrupt)?;
            are_rules_tried = accept(&result, are_rules_tried)?;
            summary.add(&result);
            done(&workload, result)?;
        }
        self.are_rules_tried = are_rules_tried;
        summary.elapsed = started.elapsed();
        summary.interrupted = interrupt.requested();
        Ok(summary)
    }

    /// Has the workers do all workloads, side by side; `take` is called with each result.
    fn feed_all(
        &mut self,
        workloads: &mut (dyn Iterator<Item = Result<Workload>> + Send),
        interrupt: &Interrupt,
        take: &mut dyn FnMut(Workload, WorkloadResult) -> Result<()>,
    ) -> Result<()> {
        if self.machine.has_virtual_time() {
            let feed = |_, source: &Source<'_>, results: &ResultSender| {
                self.feed_virtual(source, interrupt, results)
            };
            drain(0..self.jobs, feed, workloads, interrupt, take)?;
            return Ok(());
        }
        let workers = std::mem::take(&mut self.processes);
        let this = Mutex::new(&mut *self);
        let feed = |worker, source: &Source<'_>, results: &ResultSender| {
            feed(worker, source, &this, interrupt, results)
        };
        let workers = drain(workers, feed, workloads, interrupt, take)?;
        self.processes = workers;
        Ok(())
    }

    /// What comes of a workload with no other worker at work, and what the first try found.
    fn retried(
        &mut self,
        workload: &Workload,
        first: WorkloadResult,
        interrupt: &Interrupt,
    ) -> Result<WorkloadResult> {
        if interrupt.requested() {
            return Ok(first);
        }
        if let Some(worker) = self.processes.first_mut() {
            worker.obey(interrupt);
        }
        Ok(self.alone(workload, interrupt)?.after(first))
    }
}

impl Workers {
    /// Has one worker look for a crash state while the others rest. Where the kernel dies of it,
    /// that is in the result.
    ///
    /// # Errors
    /// If a worker that died cannot be replaced.
    pub fn search(
        &mut self,
        workload: &Workload,
        search: &Search,
        interrupt: &Interrupt,
    ) -> Result<WorkloadResult> {
        let lost = |gone: &Gone| {
            WorkloadResult::inconclusive(workload.name.clone(), gone.words().to_owned())
        };
        if self.machine.has_virtual_time() {
            let job = Job::Search(workload.clone(), search.clone());
            let result = Worker::work_once(&self.machine, &self.start, workload, job, interrupt)?;
            return Ok(result.unwrap_or_else(|gone| lost(&gone)));
        }
        let worker = self.processes.first_mut().ok_or(Error::NoWorker)?;
        worker.obey(interrupt);
        let result = match worker.search(workload, search) {
            Ok(result) if result.death.is_none() => return Ok(result),
            Ok(result) => result,
            Err(gone) => lost(&gone),
        };
        if !interrupt.requested() {
            self.processes[0] = self.replacement()?;
        }
        Ok(result)
    }

    /// Whether they run under a kernel of their own, which may die.
    pub(crate) fn are_in_guests(&self) -> bool {
        self.machine.is_guest()
    }

    /// Has one worker do a workload while the others rest, and says how the kernel died of it, if
    /// it did.
    ///
    /// # Errors
    /// If a worker that died cannot be replaced.
    pub(crate) fn death_of(
        &mut self,
        workload: &Workload,
        interrupt: &Interrupt,
    ) -> Result<Option<Death>> {
        if self.machine.has_virtual_time() {
            let job = Job::Alone(workload.clone());
            let result = Worker::work_once(&self.machine, &self.start, workload, job, interrupt)?;
            return Ok(result.ok().and_then(|result| result.death));
        }
        if let Some(worker) = self.processes.first_mut() {
            worker.obey(interrupt);
        }
        Ok(self.alone(workload, interrupt)?.death)
    }

    /// Has one worker do a workload while the others rest.
    fn alone(&mut self, workload: &Workload, interrupt: &Interrupt) -> Result<WorkloadResult> {
        let worker = self.processes.first_mut().ok_or(Error::NoWorker)?;
        let result = match worker.work_alone(workload) {
            Ok(result) if result.death.is_none() => return Ok(result),
            Ok(result) => result,
            Err(gone) => {
                WorkloadResult::inconclusive(workload.name.clone(), gone.words().to_owned())
            }
        };
        // Who wants to stop needs no other, and what was found is not to be lost if there is none.
        if !interrupt.requested() {
            self.processes[0] = self.replacement()?;
        }
        Ok(result)
    }
}

/// Whether rules have been tried, now that there is this result.
///
/// # Errors
/// If rules have no end, or are violated by the first workload as long as nothing has crashed: most likely
/// they are wrong, and not this workload.
fn accept(result: &WorkloadResult, are_rules_tried: bool) -> Result<bool> {
    if let Some(why) = &result.endless_rules {
        return Err(Error::EndlessRules(why.clone()));
    }
    match &result.violated_without_crash {
        Some(what) if !are_rules_tried => Err(Error::ViolatedWithoutCrash {
            workload: result.workload.clone(),
            what: what.clone(),
        }),
        _ => Ok(are_rules_tried || result.unlooked.is_some()),
    }
}

/// Gives one worker workloads until there are no more; returns the worker.
fn feed(
    mut worker: Worker,
    source: &Source<'_>,
    workers: &Mutex<&mut Workers>,
    interrupt: &Interrupt,
    results: &ResultSender,
) -> Result<Worker> {
    worker.obey(interrupt);
    let is_in_guest = workers.lock().expect("no holder panics").are_in_guests();
    let mut feeder = Feeder {
        worker,
        workers,
        is_in_guest,
        results,
        interrupt,
        waiting: VecDeque::new(),
        deaths: 0,
    };
    let mut given = Ok(());
    while given.is_ok() && !interrupt.requested() {
        let Some(workload) = source.lock().expect("no holder panics").next() else {
            break;
        };
        given = workload.and_then(|workload| feeder.give(workload));
    }
    if given.is_err() {
        interrupt.request();
    }
    // What was given is answered, even if there is nothing more to give.
    let finished = feeder.finish();
    given.and(finished)?;
    Ok(feeder.worker)
}

/// One worker, and what it was given and has not answered.
struct Feeder<'a, 'w> {
    worker: Worker,
    workers: &'a Mutex<&'w mut Workers>,
    /// Each worker has a kernel of its own.
    is_in_guest: bool,
    results: &'a ResultSender,
    interrupt: &'a Interrupt,
    waiting: VecDeque<Workload>,
    deaths: u32,
}

impl Feeder<'_, '_> {
    /// Gives the worker another workload; waits while it has enough to do.
    fn give(&mut self, workload: Workload) -> Result<()> {
        let sent = self.worker.send(&Job::Workload(workload.clone()));
        self.waiting.push_back(workload);
        if let Err(error) = sent {
            return self.replace(&error);
        }
        while self.waiting.len() >= WAITING_MAX {
            self.collect()?;
        }
        Ok(())
    }

    /// Waits until everything is answered.
    fn finish(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.worker.send(&Job::Finish) {
            return self.replace(&error);
        }
        while !self.waiting.is_empty() {
            self.collect()?;
        }
        Ok(())
    }

    /// Waits for the answer to the workload that waits longest.
    fn collect(&mut self) -> Result<()> {
        match self.worker.receive() {
            Ok(Answer::Step(_)) => Ok(()),
            Ok(answer) => {
                self.deaths = 0;
                let workload = self.waiting.pop_front().expect("an answer has a question");
                self.pass_on(workload, answer);
                Ok(())
            }
            Err(error) => self.replace(&error),
        }
    }

    fn pass_on(&self, workload: Workload, answer: Answer) {
        let result = match answer {
            Answer::Result(result) => *result,
            Answer::Failed(why) => WorkloadResult::inconclusive(workload.name.clone(), why),
            other => WorkloadResult::inconclusive(
                workload.name.clone(),
                format!("the worker answered {other:?}"),
            ),
        };
        let _ = self.results.send((workload, result));
    }

    /// The worker is gone. Each workload that waits is tried once more by itself, with a new worker:
    /// so the one that it died of is told from the others, and a finding from an accident.
    fn replace(&mut self, gone: &Gone) -> Result<()> {
        if self.interrupt.requested() {
            for workload in std::mem::take(&mut self.waiting) {
                self.pass_on(workload, Answer::Failed(gone.words().to_owned()));
            }
            return Ok(());
        }
        self.deaths += 1;
        if self.deaths > DEATHS_MAX {
            return Err(Error::WorkersDie(gone.words().to_owned()));
        }
        say(&format!(
            "{}; what it was doing is tried once more, alone",
            gone.words()
        ));
        self.renew()?;
        for workload in std::mem::take(&mut self.waiting) {
            if self.interrupt.requested() {
                self.pass_on(workload, Answer::Failed(gone.words().to_owned()));
                continue;
            }
            match self.again(&workload) {
                Ok(mut result) => {
                    let died = result.death.is_some();
                    result.retry_alone |= died && !self.is_in_guest;
                    self.pass_on(workload, Answer::Result(Box::new(result)));
                    self.deaths = 0;
                    if died {
                        self.renew_in_time()?;
                    }
                }
                Err(gone) => {
                    self.give_up(workload, &gone);
                    self.renew_in_time()?;
                }
            }
        }
        Ok(())
    }

    /// Has a new worker do nothing but a workload. In a guest it is alone under its kernel; under
    /// ours the other workers go on, and may be whom the kernel complains about.
    fn again(&mut self, workload: &Workload) -> Result<WorkloadResult, Gone> {
        if self.is_in_guest {
            self.worker.work_alone(workload)
        } else {
            self.worker.work_singly(workload)
        }
    }

    /// Two workers died of a workload. Under our kernel it has not been alone yet.
    fn give_up(&self, workload: Workload, gone: &Gone) {
        let why = gone.words().to_owned();
        let result = WorkloadResult {
            retry_alone: !self.is_in_guest,
            ..WorkloadResult::inconclusive(workload.name.clone(), why)
        };
        let _ = self.results.send((workload, result));
    }

    /// The same, but for nobody who interrupts: it may be a guest that boots.
    fn renew_in_time(&mut self) -> Result<()> {
        if self.interrupt.requested() {
            return Ok(());
        }
        self.renew()
    }

    fn renew(&mut self) -> Result<()> {
        self.worker = self
            .workers
            .lock()
            .expect("no holder panics")
            .replacement()?;
        self.worker.obey(self.interrupt);
        Ok(())
    }
}

/// Sweeps one file system with many workloads. See [`Workers::run`].
///
/// # Errors
/// If it cannot be done at all.
pub fn sweep(
    variant: &Variant,
    options: &SweepOptions,
    workloads: &mut (dyn Iterator<Item = Result<Workload>> + Send),
    interrupt: &Interrupt,
    done: &mut dyn FnMut(&Workload, WorkloadResult) -> Result<()>,
) -> Result<Summary> {
    Workers::start(variant, options)?.run(workloads, interrupt, done)
}
