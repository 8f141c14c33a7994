//! What had been done when the power failed.

use block_dev::{Kind, Mark};
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
    /// At each position of a trace's log, the one after the last entry included.
    pub(crate) fn of(trace: &Recorded) -> Vec<Self> {
        let mut now = Self {
            operations_done: 0,
            under_way: false,
        };
        let mut all = vec![now];
        for entry in trace.log.entries() {
            match entry.kind {
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

/// Why nothing can be said of the crashes of a run whose file system, while it ran, did not show
/// what the model says was done.
pub(crate) fn disagreement(model: &Model, live: &Tree) -> Option<String> {
    oracle::check_live(model, live).err().map(|difference| {
        format!("the running file system does not show what was done: {difference}")
    })
}
