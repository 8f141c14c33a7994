//! Runs of a campaign that have their beginning in common: on simulated machines the cluster is made ready once,
//! and forked for each run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use campaign::{Interrupt, say};
use cluster::{ClusterFile, SimulatedCluster, SimulationSettings};
use injector::Result;
use injector::online::{At, FaultPlan, InjectManifest, Prefix, Ran, Runs, Simulated, Trunk};
use machine::OwnDirectory;

use super::ground::{Left, not_prepared, own_directory, run_once, settings_of};
use super::want::confirmed;

/// So often in a row a cluster is made ready that cannot be forked, or a fork comes to nothing.
const FAILURES_MAX: u32 = 3;

/// How many runs are forked before the clients are started until it is worth while to look how far they have the
/// rest in common: most campaigns that have made so many make many more.
const RUNS_BEFORE_LADDER: u64 = 2;

/// So many runs wait at most. Each has the memory of all machines.
const RUNGS_MAX: usize = 6;

/// How far they are apart at first. What clients do in less is soon done again, and each fork takes time as well.
const FIRST_STEP: Duration = Duration::from_millis(400);

/// What is run, and how.
type Of<'a> = (&'a ClusterFile, &'a InjectManifest);

/// The directory that keeps what the run with an index leaves, if there is one.
pub(super) type Kept<'a> = dyn Fn(u64) -> Result<Option<PathBuf>> + Sync + 'a;

/// Whether runs of a campaign can be forked from one: on simulated machines that have the same seed in all. Says
/// so if only their kernel cannot.
pub(super) fn can_be_forked(of: Of<'_>) -> Result<bool> {
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
    /// Whether a fork has come to the same as a run that was not forked: one that was forked before the clients
    /// were started, and a later one.
    are_proven: [bool; 2],
    ready: Option<Cluster<'a>>,
    /// How many runs were made.
    runs: u64,
    /// Runs without faults that wait at later and later times, once they were made.
    ladder: Option<Vec<Rung<'a>>>,
}

/// A run without faults that waits.
struct Rung<'a> {
    trunk: Trunk<'a>,
    /// The last to go.
    _own: OwnDirectory,
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
            are_proven: [false; 2],
            ready: None,
            runs: 0,
            ladder: None,
        }
    }

    /// One who makes runs, confirms what they show of what is wanted, and leaves what is to be kept of each in a
    /// directory of its own, if there are any.
    pub(super) fn keeping(mut self, directory: &'a Kept<'a>) -> Box<dyn Runs + 'a> {
        Box::new(move |index: u64, plan: &FaultPlan| {
            let kept = directory(index)?;
            let ran = self.run((index, plan), kept.as_deref())?;
            confirmed(ran, self.of, (index, plan), self.interrupt)
        })
    }

    /// Runs a plan once, as [`run_once`] does.
    pub(super) fn run(&mut self, plan: (u64, &FaultPlan), kept: Option<&Path>) -> Result<Ran> {
        if !self.are_on {
            return run_once(self.of, plan, kept, self.interrupt);
        }
        match self.forked(plan.1, kept) {
            Ok(Some((ran, is_late))) if !ran.is_cut_short => {
                self.failures = 0;
                self.runs += 1;
                return self.proven((ran, is_late), plan, kept);
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
        (self.ready, self.ladder) = (None, None);
        self.failures += 1;
        self.are_on = self.failures < FAILURES_MAX;
        let on = if self.are_on { "this run" } else { "each run" };
        say(&format!("without a fork: {why}; {on} begins with the boot"));
    }

    /// The first run is made once more without a fork, and so is the first one that is forked later: it has to
    /// come to the same, or none is forked.
    fn proven(
        &mut self,
        (ran, is_late): (Ran, bool),
        plan: (u64, &FaultPlan),
        kept: Option<&Path>,
    ) -> Result<Ran> {
        let is_proven = &mut self.are_proven[usize::from(is_late)];
        if *is_proven {
            return Ok(ran);
        }
        let own = run_once(self.of, plan, None, self.interrupt)?;
        if own.simulated == ran.simulated {
            *is_proven = true;
            return Ok(ran);
        }
        (self.are_on, self.ready, self.ladder) = (false, None, None);
        say("without forks: a run that was forked did not come to the same as one that was not");
        empty(kept)?;
        run_once(self.of, plan, kept, self.interrupt)
    }

    /// A run that is forked, and whether that was after the clients were started; nothing if it does not begin as
    /// others do.
    fn forked(&mut self, plan: &FaultPlan, kept: Option<&Path>) -> Result<Option<(Ran, bool)>> {
        if self.ready.is_none() {
            self.ready = self.made_ready(kept.is_some())?;
        }
        let own = own_directory()?;
        let left = Left::inside(own.path(), self.of.1);
        let late = self.late_run(plan, &own)?;
        let is_late = late.is_some();
        let Some(ready) = &mut self.ready else {
            return Ok(None);
        };
        let (mut ground, ran) = match late {
            Some(trunk) => trunk.run(plan, self.cancelled),
            None => match ready.prefix.future(plan, &left.logs)? {
                Some(future) => future.run(plan, &left.place, self.cancelled),
                None => return Ok(None),
            },
        };
        let seed = ready.seed;
        let ran = (&mut ground, ran);
        let ran = left.of_machines(self.of, (plan, seed), ran, kept, self.interrupt)?;
        Ok(Some((ran, is_late)))
    }

    /// A fork of the latest run that waits at a time before the first fault of a plan, with its files in a
    /// directory; nothing, if none does.
    fn late_run(&mut self, plan: &FaultPlan, own: &OwnDirectory) -> Result<Option<Trunk<'a>>> {
        if self.ladder.is_none() && self.runs >= RUNS_BEFORE_LADDER {
            self.ladder = Some(self.made_ladder(plan)?);
        }
        let mut rungs = self.ladder.iter_mut().flatten().rev();
        let cancelled = self.cancelled;
        let serves = |rung: &'_ mut Rung<'a>| rung.trunk.serves(plan, cancelled);
        let Some(rung) = rungs.find_map(|rung| serves(rung).then_some(rung)) else {
            return Ok(None);
        };
        let at = rung.trunk.now();
        tracing::debug!(?at, "forked while the clients work");
        let left = Left::inside(own.path(), self.of.1);
        rung.trunk.fork(plan, &left.logs, left.place)
    }

    /// Runs without faults that wait, evenly spread over the time in which the clients work: a longer step than
    /// the first one leaves each second of them. None, if no first fault can wait for something meanwhile.
    fn made_ladder(&mut self, plan: &FaultPlan) -> Result<Vec<Rung<'a>>> {
        let (mut rungs, manifest) = (Vec::new(), self.of.1);
        let Some(ready) = self.ready.as_mut().filter(|_| manifest.at != At::Calls) else {
            return Ok(rungs);
        };
        let own = own_directory()?;
        let left = Left::inside(own.path(), manifest);
        let Some(future) = ready.prefix.future(plan, &left.logs)? else {
            return Ok(rungs);
        };
        let mut trunk = Trunk::new(future, plan, left.place, self.cancelled)?;
        let (mut step, mut last) = (FIRST_STEP, trunk.now());
        while trunk.step(self.cancelled)? {
            if trunk.now() < last + step {
                continue;
            }
            last = trunk.now();
            rungs.extend(rung(&mut trunk, plan, manifest)?);
            if rungs.len() == RUNGS_MAX {
                step *= 2;
                let mut number = 0;
                rungs.retain(|_| {
                    number += 1;
                    number % 2 == 0
                });
            }
        }
        Ok(rungs)
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

/// A fork of a run without faults, which waits.
fn rung<'a>(
    trunk: &mut Trunk<'a>,
    plan: &FaultPlan,
    manifest: &InjectManifest,
) -> Result<Option<Rung<'a>>> {
    let own = own_directory()?;
    let left = Left::inside(own.path(), manifest);
    let fork = trunk.fork(plan, &left.logs, left.place)?;
    Ok(fork.map(|trunk| Rung { trunk, _own: own }))
}

/// Takes away what a run has left.
fn empty(kept: Option<&Path>) -> Result<()> {
    let Some(kept) = kept else { return Ok(()) };
    let emptied = fs::remove_dir_all(kept).and_then(|()| fs::create_dir(kept));
    emptied.map_err(|error| not_prepared(&error.into()))
}
