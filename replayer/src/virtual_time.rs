//! Sweeps in virtual time: each workload has a guest of its own, which knows all that it will do
//! when it starts. What came before it, and on which worker, makes no difference, and its result
//! repeats to the byte.

use campaign::{Interrupt, one_line, say};
use workloads::Workload;

use crate::drain::{ResultSender, Source};
use crate::error::{Error, Result};
use crate::pool::Worker;
use crate::result::WorkloadResult;
use crate::sweep::Workers;
use crate::worker::{Answer, Job};

impl Workers {
    /// Has a guest mount a new file system, to see whether it can work; says whether it can tell
    /// FUA from flushes.
    pub(crate) fn try_virtual_time(&self) -> Result<bool> {
        let floor = Job::Floor {
            cycles: 1,
            recovering: false,
        };
        let mut worker = Worker::start_with(&self.machine, &self.start, &[floor])?;
        match worker.receive() {
            Ok(Answer::Floor(_)) => Ok(worker.recognises_fua()),
            Ok(Answer::Failed(why)) => Err(Error::Worker(why)),
            Ok(other) => Err(Error::unexpected(&other, "to a floor")),
            Err(gone) => Err(gone.into()),
        }
    }

    /// Has workloads done, each in a guest of its own, until there are no more.
    pub(crate) fn feed_virtual(
        &self,
        source: &Source<'_>,
        interrupt: &Interrupt,
        results: &ResultSender,
    ) -> Result<()> {
        while !interrupt.requested() {
            let Some(workload) = source.lock().expect("no holder panics").next() else {
                break;
            };
            let result = workload
                .and_then(|workload| Ok((self.in_its_guest(&workload, interrupt)?, workload)));
            let (result, workload) = result.inspect_err(|_| interrupt.request())?;
            let _ = results.send((workload, result));
        }
        Ok(())
    }

    /// Does a workload, and once more if the guest does not survive it.
    fn in_its_guest(&self, workload: &Workload, interrupt: &Interrupt) -> Result<WorkloadResult> {
        // With whether it is to be tried once more.
        let run = || -> Result<(WorkloadResult, bool)> {
            let job = Job::Alone(workload.clone());
            let done = Worker::work_once(&self.machine, &self.start, workload, job, interrupt)?;
            Ok(match done {
                Ok(result) => {
                    let is_open = result.death.is_some() || result.retry_alone;
                    (result, is_open)
                }
                Err(gone) => (lost(workload, gone.words()), true),
            })
        };
        let first = match run() {
            Ok((result, false)) => return Ok(result),
            Ok((result, true)) => result,
            Err(error) => lost(workload, &one_line(&error)),
        };
        // Who wants to stop waits for no other guest.
        if interrupt.requested() {
            return Ok(first);
        }
        let death = first.death.as_ref().map(|death| &death.what);
        let why = death.or(first.inconclusive.as_ref());
        let why = why.map(String::as_str).unwrap_or_default();
        say(&format!("{why}; what it was doing is tried once more"));
        let (again, _) = run()?;
        // It was alone both times.
        Ok(WorkloadResult {
            retry_alone: false,
            ..again.after(first)
        })
    }
}

/// The result of a workload that no guest has measured.
fn lost(workload: &Workload, why: &str) -> WorkloadResult {
    WorkloadResult::inconclusive(workload.name.clone(), why.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use local_fs::Variant;
    use machine::{Machine, ThreadBody};

    use super::*;
    use crate::sweep::SweepOptions;
    use crate::worker::{Start, receive, send};

    #[test]
    fn who_interrupts_waits_for_no_second_guest() {
        let started = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&started);
        // They are ready, and gone.
        let machine = Machine::Thread(ThreadBody::new(move |mut input, mut output| {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = receive::<Start>(&mut input);
            let recognises_fua = true;
            let _ = send(&mut output, &Answer::Ready { recognises_fua });
        }));
        let options = SweepOptions {
            machine,
            ..SweepOptions::default()
        };
        let variant = Variant::parse_list("ext4").expect("it is known").remove(0);
        let workers = Workers::start(&variant, &options).expect("workers");
        let workload = workloads::parse("creat foo; fsync foo", "test");
        let workload = workload.expect("a workload").remove(0);
        let interrupt = Interrupt::default();
        let guests = || {
            let before = started.load(Ordering::Relaxed);
            let result = workers.in_its_guest(&workload, &interrupt).expect("done");
            assert!(result.inconclusive.is_some(), "{result:?}");
            started.load(Ordering::Relaxed) - before
        };
        assert_eq!(guests(), 2);
        interrupt.request();
        assert_eq!(guests(), 1);
    }
}
