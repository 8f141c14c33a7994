//! Runs of a campaign that have their beginning in common: on simulated machines the cluster is made ready once,
//! and forked for each run.

use std::fs;
use std::path::Path;

use campaign::{Interrupt, say};
use cluster::{ClusterFile, SimulatedCluster, SimulationSettings};
use injector::Result;
use injector::online::{FaultPlan, Future, InjectManifest, Prefix, Ran, Simulated};
use machine::OwnDirectory;

use super::ground::{Left, not_prepared, own_directory, run_once, settings_of};

/// So often in a row a cluster is made ready that cannot be forked, or a fork comes to nothing.
const FAILURES_MAX: u32 = 3;

/// What is run, and how.
type Of<'a> = (&'a ClusterFile, &'a InjectManifest);

/// Whether runs of a campaign can be forked from one: on simulated machines that have the same seed in all. Says
/// so if only their kernel cannot.
pub(super) fn can_be(of: Of<'_>) -> Result<bool> {
    let Some(settings) = settings(of)?.filter(|_| of.1.counts().is_some()) else {
        return Ok(false);
    };
    let refused = settings.kernel.refuse_unforkable();
    if let Err(why) = &refused {
        say(&format!("without forks: {why}"));
    }
    Ok(refused.is_ok())
}

/// How machines are simulated in all runs, if they are.
fn settings(of: Of<'_>) -> Result<Option<SimulationSettings>> {
    settings_of(of.0, of.1, 0).map_err(|error| not_prepared(&error))
}

/// Makes runs one after the other, and forks them from one as long as that can be.
pub(super) struct Forks<'a> {
    of: Of<'a>,
    cancelled: &'a dyn Fn() -> bool,
    interrupt: &'a Interrupt,
    are_on: bool,
    /// How often in a row there was no run of a fork.
    failures: u32,
    /// Whether a fork has come to the same as a run that was not forked.
    are_proven: bool,
    ready: Option<Cluster<'a>>,
}

/// A cluster that is ready.
struct Cluster<'a> {
    prefix: Prefix<'a>,
    seed: u64,
    /// It has its logs. The last to go.
    _own: OwnDirectory,
}

impl<'a> Forks<'a> {
    /// For runs of this campaign.
    pub(super) fn new(
        of: Of<'a>,
        cancelled: &'a dyn Fn() -> bool,
        interrupt: &'a Interrupt,
        are_on: bool,
    ) -> Self {
        Self {
            of,
            cancelled,
            interrupt,
            are_on,
            failures: 0,
            are_proven: false,
            ready: None,
        }
    }

    /// Runs a plan once, as [`run_once`] does.
    pub(super) fn run(&mut self, plan: (u64, &FaultPlan), kept: Option<&Path>) -> Result<Ran> {
        if !self.are_on {
            return run_once(self.of, plan, kept, self.interrupt);
        }
        match self.forked(plan.1, kept) {
            Ok(Some(ran)) if !ran.is_cut_short => {
                self.failures = 0;
                return self.proven(ran, plan, kept);
            }
            // What a machine cannot do in a fork it may do in a run of its own, whose answer counts.
            Ok(Some(_)) => self.failed("a machine of a fork could not go on"),
            Ok(None) => tracing::debug!(plan = plan.0, "its run does not begin as others do"),
            Err(error) if (self.cancelled)() => return Err(error),
            Err(error) => self.failed(&error.to_string()),
        }
        empty(kept)?;
        run_once(self.of, plan, kept, self.interrupt)
    }

    /// There was no run of a fork: the next one is forked from a cluster that is made ready anew, unless that
    /// comes to nothing each time.
    fn failed(&mut self, why: &str) {
        self.ready = None;
        self.failures += 1;
        self.are_on = self.failures < FAILURES_MAX;
        let on = if self.are_on { "this run" } else { "each run" };
        say(&format!("without a fork: {why}; {on} begins with the boot"));
    }

    /// The first run is made once more without a fork: it has to come to the same, or none is forked.
    fn proven(&mut self, ran: Ran, plan: (u64, &FaultPlan), kept: Option<&Path>) -> Result<Ran> {
        if self.are_proven {
            return Ok(ran);
        }
        let own = run_once(self.of, plan, None, self.interrupt)?;
        if own.simulated == ran.simulated {
            self.are_proven = true;
            return Ok(ran);
        }
        (self.are_on, self.ready) = (false, None);
        say("without forks: a run that was forked did not come to the same as one that was not");
        empty(kept)?;
        run_once(self.of, plan, kept, self.interrupt)
    }

    /// A run that is forked; nothing if it does not begin as others do.
    fn forked(&mut self, plan: &FaultPlan, kept: Option<&Path>) -> Result<Option<Ran>> {
        if self.ready.is_none() {
            self.ready = self.made_ready(kept.is_some())?;
        }
        let Some(ready) = &mut self.ready else {
            return Ok(None);
        };
        let own = own_directory()?;
        let left = Left::inside(own.path(), self.of.1);
        let Some(future) = ready.prefix.future(plan, &left.logs)? else {
            return Ok(None);
        };
        let seed = ready.seed;
        self.ended(future, (plan, seed), &left, kept).map(Some)
    }

    /// Goes on with a fork to the end.
    fn ended(
        &self,
        future: Future<'a>,
        (plan, seed): (&FaultPlan, u64),
        left: &Left,
        kept: Option<&Path>,
    ) -> Result<Ran> {
        let (mut ground, ran) = future.run(plan, &left.place, self.cancelled);
        let ran = (&mut ground, ran);
        left.of_machines(self.of, (plan, seed), ran, kept, self.interrupt)
    }

    fn made_ready(&self, keeps_frames: bool) -> Result<Option<Cluster<'a>>> {
        let Some(settings) = settings(self.of)? else {
            return Ok(None);
        };
        let own = own_directory()?;
        let (file, manifest) = self.of;
        let left = Left::inside(own.path(), manifest);
        let mut cluster = SimulatedCluster::new(file, &left.logs, &settings)?;
        if keeps_frames {
            cluster.simulation().switch().keep_frames();
        }
        let ground = Simulated::new(cluster, self.cancelled);
        let prefix = Prefix::new(ground, manifest.seed, &left.place, self.cancelled)?;
        Ok(Some(Cluster {
            prefix,
            seed: settings.seed,
            _own: own,
        }))
    }
}

/// Takes away what a run has left.
fn empty(kept: Option<&Path>) -> Result<()> {
    let Some(kept) = kept else { return Ok(()) };
    let emptied = fs::remove_dir_all(kept).and_then(|()| fs::create_dir(kept));
    emptied.map_err(|error| not_prepared(&error.into()))
}
