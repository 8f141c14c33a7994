//! One run of a plan, with a place of its own for the cluster.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use campaign::Interrupt;
use cluster::{Cluster, ClusterFile, SimulatedCluster, SimulationSettings};
use injector::online::{
    ACKNOWLEDGEMENTS, FaultPlan, HISTORY, InjectManifest, LOG_TIMES, LOGS, LOOKS, Namespaces,
    OnMachines, Place, Ran, RunFiles, Simulated, SimulatedRun, run, wanted_reading, workload,
};
use injector::{Error, Result, kernel_hash};
use machine::OwnDirectory;

use super::specs::examine;
use crate::cluster::{MachinesArgs, Surroundings, Workspace, settings};

/// What says on which ground a campaign is, if that is simulated machines.
///
/// # Errors
/// If there is no kernel for them.
pub(super) fn on_machines(
    arguments: &MachinesArgs,
    file: &ClusterFile,
    seed: u64,
) -> anyhow::Result<Option<OnMachines>> {
    if !arguments.simulate {
        return Ok(None);
    }
    let kernel = arguments
        .settings(file, seed)?
        .kernel
        .kernel
        .canonicalize()?;
    Ok(Some(OnMachines {
        seed,
        kernel_hash: kernel_hash(&kernel).context("read the kernel")?,
        kernel: kernel.display().to_string(),
        surrounded: arguments.surroundings().kept(),
    }))
}

/// Fails if the kernel of a campaign that was begun is another one now.
///
/// # Errors
/// If so, or if it is not there.
pub(super) fn refuse_other_kernel(
    manifest: &InjectManifest,
    directory: &Path,
) -> anyhow::Result<()> {
    if let Some(on) = &manifest.simulated
        && kernel_hash(Path::new(&on.kernel)).with_context(|| format!("read {}", on.kernel))?
            != on.kernel_hash
    {
        return Err(Error::OtherSweep {
            path: directory.into(),
            what: "kernel",
        }
        .into());
    }
    Ok(())
}

/// What surrounds the machines of a campaign.
pub(super) fn surroundings_of(on: &OnMachines) -> anyhow::Result<Surroundings> {
    Surroundings::recorded(&on.surrounded).map_err(|what| anyhow!("{what}"))
}

/// How the machines of a run are simulated, if they are.
pub(super) fn settings_of(
    file: &ClusterFile,
    manifest: &InjectManifest,
    index: u64,
) -> anyhow::Result<Option<SimulationSettings>> {
    let Some(on) = &manifest.simulated else {
        return Ok(None);
    };
    let surroundings = surroundings_of(on)?;
    settings(
        file,
        Some(Path::new(&on.kernel)),
        seed_of(on, manifest, index),
        &surroundings,
    )
    .map(Some)
}

/// The seed of the machines of a run. Each has the next, but for failures at failure points: these are
/// points of the run in which they were collected, and come up where all is as it was there.
fn seed_of(on: &OnMachines, manifest: &InjectManifest, index: u64) -> u64 {
    if manifest.counts().is_some() {
        return on.seed;
    }
    on.seed.wrapping_add(index)
}

/// Runs a plan once, as the run with an index of a campaign, and takes everything down, whatever
/// happens. What clients said and nodes logged is left in `kept`.
pub(super) fn run_once(
    (file, manifest): (&ClusterFile, &InjectManifest),
    (index, plan): (u64, &FaultPlan),
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Ran> {
    let of = (file, manifest);
    match settings_of(file, manifest, index).map_err(|error| not_prepared(&error))? {
        Some(settings) => on_simulated(of, plan, &settings, kept, interrupt),
        None => in_namespaces(of, plan, kept, interrupt),
    }
}

pub(super) fn not_prepared(error: &anyhow::Error) -> Error {
    Error::System {
        doing: "prepare a place for the cluster".into(),
        error: std::io::Error::other(format!("{error:#}")),
    }
}

fn in_namespaces(
    of: (&ClusterFile, &InjectManifest),
    plan: &FaultPlan,
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Ran> {
    let cancelled = || interrupt.requested();
    with_namespaces(of, plan.seed, &cancelled, |ground, left| {
        let ran = run(ground, plan, &left.place, &cancelled);
        left.examined(of, plan, ran, kept, interrupt)
    })
}

/// Does something on a cluster in namespaces, of which no node is started.
fn with_namespaces<T>(
    (file, manifest): (&ClusterFile, &InjectManifest),
    seed: u64,
    cancelled: &dyn Fn() -> bool,
    work: impl FnOnce(&mut Namespaces, &Left) -> Result<T>,
) -> Result<T> {
    let mut workspace = Workspace::new(file, None).map_err(|error| not_prepared(&error))?;
    // Before the disks: what is there before them does not hold them.
    let mut cluster = Cluster::new(file, &workspace.logs)?;
    let disks = workspace
        .make_disks(file)
        .map_err(|error| not_prepared(&error))?;
    for (node, disk) in cluster.nodes().iter_mut().zip(disks) {
        node.set_disk(disk);
    }
    let left = Left::new(workspace.logs.clone(), manifest, |name| {
        workspace.temporary(name)
    });
    let mut ground = Namespaces::new(&mut cluster, &workspace.directories, seed, cancelled);
    work(&mut ground, &left)
}

/// With what is kept are the frames, if something is broken.
fn on_simulated(
    of: (&ClusterFile, &InjectManifest),
    plan: &FaultPlan,
    settings: &SimulationSettings,
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Ran> {
    let cancelled = || interrupt.requested();
    with_machines(of, settings, &cancelled, |ground, left| {
        if kept.is_some() {
            ground.cluster().simulation().switch().keep_frames();
        }
        let ran = run(ground, plan, &left.place, &cancelled);
        left.of_machines(of, (plan, settings.seed), (ground, ran), kept, interrupt)
    })
}

/// Does something on a cluster of simulated machines, of which no node is started.
fn with_machines<T>(
    (file, manifest): (&ClusterFile, &InjectManifest),
    settings: &SimulationSettings,
    cancelled: &dyn Fn() -> bool,
    work: impl FnOnce(&mut Simulated, &Left) -> Result<T>,
) -> Result<T> {
    let own = own_directory()?;
    let left = Left::inside(own.path(), manifest);
    let cluster = SimulatedCluster::new(file, &left.logs, settings)?;
    work(&mut Simulated::new(cluster, cancelled), &left)
}

/// A directory for what a run leaves.
pub(super) fn own_directory() -> Result<OwnDirectory> {
    let own = OwnDirectory::new(&std::env::temp_dir(), "run");
    own.map_err(|error| not_prepared(&error.into()))
}

/// What a cluster and its clients take, with nobody who injects or checks anything: the floor of a run.
pub(super) fn workload_once(
    of: (&ClusterFile, &InjectManifest),
    (index, plan): (u64, &FaultPlan),
    interrupt: &Interrupt,
) -> Result<()> {
    let cancelled = || interrupt.requested();
    let settings = settings_of(of.0, of.1, index).map_err(|error| not_prepared(&error))?;
    match settings {
        Some(settings) => with_machines(of, &settings, &cancelled, |ground, left| {
            workload(ground, plan, &left.place, &cancelled)
        }),
        None => with_namespaces(of, plan.seed, &cancelled, |ground, left| {
            workload(ground, plan, &left.place, &cancelled)
        }),
    }
}

/// Where a run leaves what clients said and nodes logged.
pub(super) struct Left {
    pub(super) logs: PathBuf,
    pub(super) place: Place,
}

impl Left {
    /// In this directory.
    pub(super) fn inside(directory: &Path, manifest: &InjectManifest) -> Self {
        Self::new(directory.join(LOGS), manifest, |name| directory.join(name))
    }

    fn new(logs: PathBuf, manifest: &InjectManifest, file: impl Fn(&str) -> PathBuf) -> Self {
        let place = Place {
            acknowledgements: file(ACKNOWLEDGEMENTS),
            history: file(HISTORY),
            log_times: file(LOG_TIMES),
            points: manifest.counts(),
            reading: wanted_reading(&manifest.specifications),
            looks: file(LOOKS),
        };
        Self { logs, place }
    }

    /// The same as [`Self::examined`] of a run on simulated machines with a seed. If something is broken, the
    /// frames are left as well.
    pub(super) fn of_machines(
        &self,
        of: (&ClusterFile, &InjectManifest),
        (plan, seed): (&FaultPlan, u64),
        (ground, ran): (&mut Simulated, Result<Ran>),
        kept: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Ran> {
        let cluster = ground.cluster();
        let mut ran = self.examined(of, plan, ran, kept, interrupt)?;
        if let Some(kept) = kept.filter(|_| ran.broken().is_some())
            && let Err(error) = cluster.write_frames(kept)
        {
            ran.not_kept(&error);
        }
        let history = cluster.simulation().history();
        ran.simulated = Some(SimulatedRun { seed, history });
        Ok(ran)
    }

    /// Copies all of it as far as that can be, and holds specifications against a run that came to its end.
    fn examined(
        &self,
        of: (&ClusterFile, &InjectManifest),
        plan: &FaultPlan,
        ran: Result<Ran>,
        kept: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Ran> {
        let is_kept = kept.map_or(Ok(()), |kept| self.keep(kept));
        let mut ran = ran?;
        if let Err(error) = is_kept {
            ran.not_kept(&error);
        }
        if ran.is_cut_short {
            return Ok(ran);
        }
        let files = RunFiles {
            history: self.place.history.clone(),
            acknowledgements: self.place.acknowledgements.clone(),
            logs: self.logs.clone(),
            log_times: self.place.log_times.clone(),
            looks: self.place.looks.clone(),
        };
        examine(of, plan, &mut ran, &files, kept, interrupt)?;
        if let Some(want) = &of.1.want {
            ran.agreement = Some(want.agreement(&of.1.nodes, &ran, &files));
        }
        Ok(ran)
    }

    fn keep(&self, kept: &Path) -> Result<()> {
        let doing = |path: &Path| {
            let doing = format!("copy {} to {}", path.display(), kept.display());
            move |error| Error::System { doing, error }
        };
        let copy = |path: &Path, name: &Path| {
            if path.exists() {
                fs::copy(path, kept.join(name)).map_err(doing(path))?;
            }
            Ok::<(), Error>(())
        };
        copy(&self.place.acknowledgements, Path::new(ACKNOWLEDGEMENTS))?;
        copy(&self.place.history, Path::new(HISTORY))?;
        copy(&self.place.log_times, Path::new(LOG_TIMES))?;
        copy(&self.place.looks, Path::new(LOOKS))?;
        let logs = &self.logs;
        fs::create_dir_all(kept.join(LOGS)).map_err(doing(logs))?;
        for entry in fs::read_dir(logs).map_err(doing(logs))?.flatten() {
            copy(&entry.path(), &Path::new(LOGS).join(entry.file_name()))?;
        }
        Ok(())
    }
}
