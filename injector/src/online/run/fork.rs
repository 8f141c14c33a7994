//! Runs that have their beginning in common, on simulated machines: the cluster is made ready once, and forked
//! for each.

use std::path::Path;
use std::rc::Rc;

use super::super::plan::FaultPlan;
use super::super::ran::Ran;
use super::super::simulated::Simulated;
use super::begin::Ready;
use super::{Place, run_ready};
use crate::error::Result;

/// A cluster that is ready, before its clients are started. Nothing of it depends on a plan, as far as the same
/// is counted for all.
pub struct Prefix<'a> {
    ground: Simulated<'a>,
    ready: Ready,
}

/// A fork of it, for a run of its own.
pub struct Future<'a> {
    pub(super) ground: Simulated<'a>,
    pub(super) ready: Ready,
}

impl<'a> Prefix<'a> {
    /// Starts a cluster of which no node is started. What of nodes is counted, and which files of directories of
    /// data are read, is as `place` says.
    ///
    /// # Errors
    /// As of [`run`](super::run).
    pub fn new(
        mut ground: Simulated<'a>,
        seed: u64,
        place: &Place,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let nothing = FaultPlan::new(seed, Vec::new());
        let ready = Ready::new(&mut ground, &nothing, place, cancelled)?;
        Ok(Self { ground, ready })
    }

    /// Forks it for a plan. `logs` is the directory for logs of the fork. Nothing, if the run of that plan does
    /// not begin as this one did.
    ///
    /// # Errors
    /// If the machines cannot be forked.
    pub fn future(&mut self, plan: &FaultPlan, logs: &Path) -> Result<Option<Future<'a>>> {
        if !self.ready.has_requests_for(plan) {
            return Ok(None);
        }
        let Some(mut ground) = self.ground.fork(plan, logs)? else {
            return Ok(None);
        };
        let calls = Rc::clone(ground.calls());
        let ready = self.ready.forked(&mut ground, calls)?;
        Ok(Some(Future { ground, ready }))
    }
}

impl<'a> Future<'a> {
    /// Runs a plan from there on, as [`run`](super::run) does from the start. Returns the ground as well, whose
    /// nodes are killed.
    ///
    /// # Errors
    /// As of that.
    pub fn run(
        self,
        plan: &FaultPlan,
        place: &Place,
        cancelled: &dyn Fn() -> bool,
    ) -> (Simulated<'a>, Result<Ran>) {
        let Self { mut ground, ready } = self;
        let ran = run_ready(&mut ground, ready, plan, place, cancelled);
        (ground, ran)
    }
}
