//! Sweeps in virtual time: each workload has a guest of its own, which knows all that it will do
//! when it starts. What came before it, and on which worker, makes no difference, and its result
//! repeats to the byte.

use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

use anyhow::bail;
use workloads::Workload;

use crate::pool::{Interrupt, Worker};
use crate::report::say;
use crate::result::WorkloadResult;
use crate::sweep::{RESULTS_QUEUED_MAX, Source, StopOnPanic, Summary, Workers};
use crate::worker::{Answer, Job};

impl Workers {
    /// Has a guest mount a new file system, to see whether it can work; says whether it can tell FUA
    /// from flushes.
    pub(crate) fn try_virtual_time(&self) -> anyhow::Result<bool> {
        let floor = Job::Floor { cycles: 1, recovering: false };
        let mut worker = Worker::start_with(&self.machine, &self.start, &[floor])?;
        match worker.receive() {
            Ok(Answer::Floor(_)) => Ok(worker.recognises_fua()),
            Ok(Answer::Failed(why)) => bail!("{why}"),
            Ok(other) => bail!("a worker answered {other:?} to a floor"),
            Err(gone) => bail!("{}", gone.words()),
        }
    }

    /// See [`Workers::run`].
    pub(crate) fn run_virtual(
        &self,
        workloads: &mut (dyn Iterator<Item = anyhow::Result<Workload>> + Send),
        interrupt: &Interrupt,
        done: &mut dyn FnMut(&Workload, WorkloadResult) -> anyhow::Result<()>,
    ) -> anyhow::Result<Summary> {
        let started = Instant::now();
        let mut summary = Summary { fua_recognised: self.recognise_fua(), ..Summary::default() };
        let source = Mutex::new(workloads);
        let outcome = std::thread::scope(|scope| {
            let (results, incoming) = sync_channel(RESULTS_QUEUED_MAX);
            let feeders: Vec<_> = (0..self.jobs)
                .map(|_| {
                    let (results, source) = (results.clone(), &source);
                    scope.spawn(move || self.feed_virtual(source, interrupt, &results))
                })
                .collect();
            drop(results);
            let mut outcome = Ok(());
            let _stop_on_panic = StopOnPanic(interrupt);
            for (workload, result) in incoming {
                summary.add(&result);
                if outcome.is_ok()
                    && let Err(error) = done(&workload, result)
                {
                    // The rest is drained, so that no feeder waits for ever.
                    interrupt.request();
                    outcome = Err(error);
                }
            }
            for feeder in feeders {
                outcome = outcome.and(feeder.join().expect("the thread does not panic"));
            }
            outcome
        });
        outcome?;
        summary.elapsed = started.elapsed();
        summary.interrupted = interrupt.requested();
        Ok(summary)
    }

    fn feed_virtual(
        &self,
        source: &Source<'_>,
        interrupt: &Interrupt,
        results: &SyncSender<(Workload, WorkloadResult)>,
    ) -> anyhow::Result<()> {
        while !interrupt.requested() {
            let Some(workload) = source.lock().expect("no holder panics").next() else { break };
            let result = workload.and_then(|workload| Ok((self.in_its_guest(&workload, interrupt)?, workload)));
            let (result, workload) = result.inspect_err(|_| interrupt.request())?;
            // Nobody receives once the sweep has failed; then nothing is lost.
            let _ = results.send((workload, result));
        }
        Ok(())
    }

    /// Does a workload, and once more if the guest does not survive it.
    fn in_its_guest(&self, workload: &Workload, interrupt: &Interrupt) -> anyhow::Result<WorkloadResult> {
        let gone = match Worker::work_once(&self.machine, &self.start, workload, interrupt) {
            Ok(Ok(result)) if result.death.is_none() => return Ok(result),
            Ok(Ok(result)) => result.death.map(|death| death.what).unwrap_or_default(),
            Ok(Err(gone)) => gone.words().to_owned(),
            Err(error) => format!("{error:#}"),
        };
        say(&format!("{gone}; what it was doing is tried once more"));
        Ok(Worker::work_once(&self.machine, &self.start, workload, interrupt)?
            .unwrap_or_else(|gone| WorkloadResult::not_measured(workload.name.clone(), gone.words().to_owned())))
    }
}
