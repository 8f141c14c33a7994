//! A workload of which more statements may follow.

use std::collections::BTreeSet;

use crate::error::Problem;
use crate::op::{Op, Step, Workload};
use crate::parse::OPERATIONS_MAX;

/// Where in a workload its next operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    /// Neither `setup` nor `run` nor an operation was seen.
    Header,
    Setup,
    Run {
        explicit: bool,
        after_setup: bool,
    },
}

/// A workload while it is read.
#[derive(Debug)]
pub(crate) struct Draft {
    pub workload: Workload,
    /// Handles that are open here.
    pub handles: BTreeSet<String>,
    named: bool,
    section: Section,
}

impl Draft {
    pub fn new(name: String, named: bool) -> Draft {
        Draft {
            workload: Workload {
                name,
                ..Workload::default()
            },
            handles: BTreeSet::new(),
            named,
            section: Section::Header,
        }
    }

    /// `setup`: before `run` and before the first operation.
    pub fn begin_setup(&mut self) -> Result<(), Problem> {
        let reason = match self.section {
            Section::Header => {
                self.section = Section::Setup;
                return Ok(());
            }
            Section::Setup
            | Section::Run {
                after_setup: true, ..
            } => "is given twice in this workload",
            Section::Run { explicit: true, .. } => "must come before 'run'",
            Section::Run {
                explicit: false, ..
            } => "must come before the first operation",
        };
        Err(Problem::Misplaced {
            word: "setup",
            reason,
        })
    }

    /// `run`: once, after `setup` or before the first operation.
    pub fn begin_run(&mut self) -> Result<(), Problem> {
        let reason = match self.section {
            Section::Header | Section::Setup => {
                let after_setup = self.section == Section::Setup;
                self.section = Section::Run {
                    explicit: true,
                    after_setup,
                };
                return Ok(());
            }
            Section::Run { explicit: true, .. } => "is given twice in this workload",
            Section::Run {
                explicit: false, ..
            } => {
                "must come before the first operation (or put 'setup' before the operations it needs)"
            }
        };
        Err(Problem::Misplaced {
            word: "run",
            reason,
        })
    }

    /// `!`
    pub fn crash_point(&mut self) -> Result<(), Problem> {
        if self.section == Section::Setup {
            let reason = "is a crash point: none can be in 'setup', which is durable before recording starts";
            return Err(Problem::Misplaced { word: "!", reason });
        }
        self.step(Step::CrashPoint)
    }

    pub fn op(&mut self, op: Op) -> Result<(), Problem> {
        if self.section != Section::Setup {
            return self.step(Step::Op(op));
        }
        self.reserve(1)?;
        self.workload.setup.push(op);
        Ok(())
    }

    /// Whether `count` more steps fit.
    pub fn reserve(&self, count: u64) -> Result<(), Problem> {
        let steps = self.workload.setup.len() + self.workload.run.len();
        if count > (OPERATIONS_MAX - steps) as u64 {
            return Err(Problem::TooManyOperations {
                limit: OPERATIONS_MAX,
            });
        }
        Ok(())
    }

    /// The next `workload` begins, or the text ends.
    pub fn finish(self) -> Workload {
        self.workload
    }

    /// Only `source` or `expect` lines that no `workload` stands above.
    pub fn is_headless(&self) -> bool {
        !self.named && self.section == Section::Header
    }

    fn step(&mut self, step: Step) -> Result<(), Problem> {
        self.reserve(1)?;
        if self.section == Section::Header {
            self.section = Section::Run {
                explicit: false,
                after_setup: false,
            };
        }
        self.workload.run.push(step);
        Ok(())
    }
}
