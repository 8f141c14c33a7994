//! Workloads to several feeders side by side, and their results to one place.

use std::sync::Mutex;
use std::sync::mpsc::{SyncSender, sync_channel};

use campaign::Interrupt;
use workloads::Workload;

use crate::error::Result;
use crate::result::WorkloadResult;

/// ResultSender that may wait to be taken before the feeders wait too.
const RESULTS_QUEUED_MAX: usize = 256;

/// Where feeders get workloads.
pub(crate) type Source<'a> = Mutex<&'a mut (dyn Iterator<Item = Result<Workload>> + Send)>;

/// Where they put results. Once the sweep has failed nobody receives any more; then nothing is
/// lost.
pub(crate) type ResultSender = SyncSender<(Workload, WorkloadResult)>;

/// Runs `feed` in a thread for each of `workers`; `take` is called with each result as it comes.
/// What the threads return is returned once they all have ended.
///
/// # Errors
/// If a feeder or `take` fails; then nothing new is begun.
pub(crate) fn drain<W: Send, T: Send>(
    workers: impl IntoIterator<Item = W>,
    feed: impl Fn(W, &Source<'_>, &ResultSender) -> Result<T> + Sync,
    workloads: &mut (dyn Iterator<Item = Result<Workload>> + Send),
    interrupt: &Interrupt,
    take: &mut dyn FnMut(Workload, WorkloadResult) -> Result<()>,
) -> Result<Vec<T>> {
    let source = Mutex::new(workloads);
    std::thread::scope(|scope| {
        let (results, incoming) = sync_channel(RESULTS_QUEUED_MAX);
        let (feed, source) = (&feed, &source);
        let running: Vec<_> = workers
            .into_iter()
            .map(|worker| {
                let results = results.clone();
                scope.spawn(move || feed(worker, source, &results))
            })
            .collect();
        drop(results);
        let mut outcome = Ok(());
        let _stop_on_panic = StopOnPanic(interrupt);
        for (workload, result) in incoming {
            if outcome.is_ok()
                && let Err(error) = take(workload, result)
            {
                // The rest is drained, so that no feeder waits for ever.
                interrupt.request();
                outcome = Err(error);
            }
        }
        let mut returned = Vec::new();
        for thread in running {
            match thread.join().expect("the thread does not panic") {
                Ok(value) => returned.push(value),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome.map(|()| returned)
    })
}

/// Has the feeders stop when the one they feed for is unwound.
struct StopOnPanic<'a>(&'a Interrupt);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.request();
        }
    }
}
