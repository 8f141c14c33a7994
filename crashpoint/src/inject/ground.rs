//! One run of a plan, with a place of its own for the cluster.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use campaign::Interrupt;
use cluster::{Cluster, ClusterFile, SimulatedCluster, SimulationSettings};
use injector::online::{
    ACKNOWLEDGEMENTS, FaultPlan, HISTORY, InjectManifest, LOG_TIMES, LOGS, Namespaces, OnMachines,
    Place, Ran, RunFiles, Simulated, SimulatedRun, run,
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

/// How the machines of a run are simulated, if they are.
fn settings_of(
    file: &ClusterFile,
    manifest: &InjectManifest,
    index: u64,
) -> anyhow::Result<Option<SimulationSettings>> {
    let Some(on) = &manifest.simulated else {
        return Ok(None);
    };
    let surroundings = Surroundings::recorded(&on.surrounded);
    let surroundings = surroundings.map_err(|what| anyhow!("{what}"))?;
    let (kernel, seed) = (Path::new(&on.kernel), on.seed.wrapping_add(index));
    settings(file, Some(kernel), seed, &surroundings).map(Some)
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

fn not_prepared(error: &anyhow::Error) -> Error {
    Error::System {
        doing: "prepare a place for the cluster".into(),
        error: std::io::Error::other(format!("{error:#}")),
    }
}

fn in_namespaces(
    (file, manifest): (&ClusterFile, &InjectManifest),
    plan: &FaultPlan,
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Ran> {
    let mut workspace = Workspace::new(file, None).map_err(|error| not_prepared(&error))?;
    // Before the disks: what is there before them does not hold them.
    let mut cluster = Cluster::new(file, &workspace.logs)?;
    let disks = workspace
        .make_disks(file)
        .map_err(|error| not_prepared(&error))?;
    for (node, disk) in cluster.nodes().iter_mut().zip(disks) {
        node.set_disk(disk);
    }
    let place = Place {
        acknowledgements: workspace.temporary(ACKNOWLEDGEMENTS),
        history: workspace.temporary(HISTORY),
        log_times: workspace.temporary(LOG_TIMES),
        points: manifest.counts_calls(),
    };
    let cancelled = || interrupt.requested();
    let mut ground = Namespaces::new(&mut cluster, &workspace.directories, plan.seed, &cancelled);
    let ran = run(&mut ground, plan, &place, &cancelled);
    if let Some(kept) = kept {
        keep(&workspace.logs, &place, kept)?;
    }
    let mut ran = ran?;
    let files = files(&workspace.logs, &place);
    examine((file, manifest), plan, &mut ran, &files, kept, interrupt)?;
    Ok(ran)
}

/// Where a run has what rules are about.
fn files(logs: &Path, place: &Place) -> RunFiles {
    RunFiles {
        history: place.history.clone(),
        acknowledgements: place.acknowledgements.clone(),
        logs: logs.to_owned(),
        log_times: place.log_times.clone(),
    }
}

/// With what is kept are the frames, if something is broken.
fn on_simulated(
    (file, manifest): (&ClusterFile, &InjectManifest),
    plan: &FaultPlan,
    settings: &SimulationSettings,
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Ran> {
    let own = OwnDirectory::new(&std::env::temp_dir(), "run");
    let own = own.map_err(|error| not_prepared(&error.into()))?;
    let logs = own.path().join(LOGS);
    let mut cluster = SimulatedCluster::new(file, &logs, settings)?;
    if kept.is_some() {
        cluster.simulation().switch().keep_frames();
    }
    let place = Place {
        acknowledgements: own.path().join(ACKNOWLEDGEMENTS),
        history: own.path().join(HISTORY),
        log_times: own.path().join(LOG_TIMES),
        points: false,
    };
    let cancelled = || interrupt.requested();
    let mut ground = Simulated::new(cluster, &cancelled);
    let ran = run(&mut ground, plan, &place, &cancelled);
    let cluster = ground.cluster();
    if let Some(kept) = kept {
        keep(&logs, &place, kept)?;
    }
    let mut ran = ran?;
    let files = files(&logs, &place);
    examine((file, manifest), plan, &mut ran, &files, kept, interrupt)?;
    if let Some(kept) = kept.filter(|_| ran.broken().is_some()) {
        cluster.write_frames(kept)?;
    }
    ran.simulated = Some(SimulatedRun {
        seed: settings.seed,
        history: cluster.simulation().history(),
    });
    Ok(ran)
}

/// Copies what a run leaves.
fn keep(logs: &Path, place: &Place, kept: &Path) -> Result<()> {
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
    copy(&place.acknowledgements, Path::new(ACKNOWLEDGEMENTS))?;
    copy(&place.history, Path::new(HISTORY))?;
    copy(&place.log_times, Path::new(LOG_TIMES))?;
    fs::create_dir_all(kept.join(LOGS)).map_err(doing(logs))?;
    for entry in fs::read_dir(logs).map_err(doing(logs))?.flatten() {
        copy(&entry.path(), &Path::new(LOGS).join(entry.file_name()))?;
    }
    Ok(())
}
