//! What had been done when the power failed.

use block_dev::{BlockLog, Kind, Mark};
use checker::{Contract, Model, Undecided, oracle};
use local_fs::Tree;
use recorder::{Outcome, Recorded};
use workloads::Workload;

/// How far a run had come at a position of its block log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Progress {
    /// How many operations had returned; setup and run are counted together.
    pub(crate) operations_done: usize,
    /// Whether the next one had been begun.
    pub(crate) under_way: bool,
}

impl Progress {
    /// At each position of a trace's log, the one after the last entry included. What stands before
    /// `from` is of another run: that is no progress of this one.
    pub(crate) fn of(trace: &Recorded, from: usize) -> Vec<Self> {
        let mut now = Self {
            operations_done: 0,
            under_way: false,
        };
        let mut all = vec![now];
        for (place, entry) in trace.log.entries().iter().enumerate() {
            match entry.kind {
                _ if place < from => {}
                Kind::Mark(Mark::OperationStart(_)) => now.under_way = true,
                Kind::Mark(Mark::OperationEnd(number)) => {
                    now = Self {
                        operations_done: number as usize + 1,
                        under_way: false,
                    };
                }
                _ => {}
            }
            all.push(now);
        }
        all
    }

    /// The same of a run of which no operation is known.
    pub(crate) fn unknown(trace: &Recorded) -> Vec<Self> {
        vec![
            Self {
                operations_done: 0,
                under_way: false
            };
            trace.log.len() + 1
        ]
    }

    /// The model of what the run had done.
    ///
    /// # Errors
    /// If the model cannot follow the run.
    pub(crate) fn model(
        self,
        contract: &Contract,
        workload: &Workload,
        trace: &Recorded,
    ) -> Result<Model, Undecided> {
        let mut model = Model::new(contract).with_root(trace.root_mode, trace.root_owner);
        let refused = |number: usize| trace.outcomes[number] != Outcome::Done;
        let mut operations = workload.operations().enumerate();
        for (number, op) in operations.by_ref().take(self.operations_done) {
            if number == trace.setup_operations {
                model.commit(None);
            }
            model.apply(op, refused(number))?;
        }
        if trace.setup_operations > 0 && self.operations_done == trace.setup_operations {
            model.commit(None);
        }
        if self.under_way
            && let Some((number, op)) = operations.next()
        {
            model.begin(op, refused(number))?;
        }
        Ok(model)
    }
}

/// The place at which an operation begins in a log, of which what stands before `from` is of another
/// run.
pub(crate) fn place_of_start(log: &BlockLog, from: usize, operation: usize) -> Option<usize> {
    let begins = Kind::Mark(Mark::OperationStart(operation as u32));
    let mut entries = log.entries().iter().enumerate().skip(from);
    let found = entries.find(|(_, entry)| entry.kind == begins);
    found.map(|(place, _)| place)
}

/// Why nothing can be said of the crashes of a run whose file system, while it ran, did not show
/// what the model says was done.
pub(crate) fn disagreement(model: &Model, live: &Tree) -> Option<String> {
    oracle::check_live(model, live).err().map(|difference| {
        format!("the running file system does not show what was done: {difference}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log of a run of two operations, a write, and the start of another run.
    fn log() -> BlockLog {
        let mut log = BlockLog::default();
        for mark in [
            Mark::OperationStart(0),
            Mark::OperationEnd(0),
            Mark::OperationStart(1),
            Mark::OperationEnd(1),
        ] {
            log.push(Kind::Mark(mark), 0);
        }
        log.push_write(0, &[1; 512], 0);
        log.push(Kind::Mark(Mark::OperationStart(0)), 0);
        log
    }

    #[test]
    fn what_another_run_has_done_before_is_no_progress() {
        let trace = Recorded {
            outcomes: Vec::new(),
            setup_operations: 0,
            durable_position: 5,
            root_mode: 0o755,
            root_owner: (0, 0),
            crash_points: Vec::new(),
            log: log(),
        };
        let progress = |from| {
            let all = Progress::of(&trace, from).into_iter();
            let words = all.map(|now| (now.operations_done, now.under_way));
            words.collect::<Vec<_>>()
        };
        let none = (0, false);
        assert_eq!(progress(5), [none, none, none, none, none, none, (0, true)]);
        assert_eq!(
            progress(0)[..5],
            [none, (0, true), (1, false), (1, true), (2, false)]
        );
    }

    #[test]
    fn an_operation_begins_where_it_begins_in_this_run() {
        let log = log();
        for (from, operation, place) in [
            (0, 0, Some(0)),
            (0, 1, Some(2)),
            (5, 0, Some(5)),
            (5, 1, None),
        ] {
            assert_eq!(place_of_start(&log, from, operation), place);
        }
    }
}
