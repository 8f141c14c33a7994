//! One run of a plan, with a place of its own for the cluster.

use std::fs;
use std::path::Path;

use campaign::Interrupt;
use cluster::{Cluster, ClusterFile};
use injector::online::{FaultPlan, HISTORY, Namespaces, Place, Ran, run};
use injector::{Error, Result};

use crate::cluster::Workspace;

/// What the file with every line of the clients is called.
const ACKNOWLEDGEMENTS: &str = "acknowledgements";

/// The directory of logs.
const LOGS: &str = "logs";

/// Makes a cluster, runs a plan on it, and takes everything down, whatever happens. What clients
/// said and nodes logged is left in `kept`.
pub(crate) fn run_once(
    file: &ClusterFile,
    plan: &FaultPlan,
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> Result<Ran> {
    let prepare = |error: anyhow::Error| Error::System {
        doing: "prepare a place for the cluster".into(),
        error: std::io::Error::other(format!("{error:#}")),
    };
    let mut workspace = Workspace::new(file, None).map_err(prepare)?;
    // Before the disks: what is there before them does not hold them.
    let mut cluster = Cluster::new(file, &workspace.logs)?;
    let disks = workspace.make_disks(file).map_err(prepare)?;
    for (node, disk) in cluster.nodes().iter_mut().zip(disks) {
        node.set_disk(disk);
    }
    let place = Place {
        acknowledgements: workspace.temporary(ACKNOWLEDGEMENTS),
        history: workspace.temporary(HISTORY),
    };
    let cancelled = || interrupt.requested();
    let mut ground = Namespaces::new(&mut cluster, &workspace.directories, &cancelled);
    let ran = run(&mut ground, plan, &place, &cancelled);
    if let Some(kept) = kept {
        keep(&workspace, &place, kept)?;
    }
    ran
}

/// Copies what a run leaves.
fn keep(workspace: &Workspace, place: &Place, kept: &Path) -> Result<()> {
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
    let logs = &workspace.logs;
    fs::create_dir_all(kept.join(LOGS)).map_err(doing(logs))?;
    for entry in fs::read_dir(logs).map_err(doing(logs))?.flatten() {
        copy(&entry.path(), &Path::new(LOGS).join(entry.file_name()))?;
    }
    Ok(())
}
