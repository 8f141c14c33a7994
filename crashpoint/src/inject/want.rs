//! What a search is for: `--want`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use campaign::Interrupt;
use cluster::ClusterFile;
use injector::online::{EXHAUSTIVE, FaultPlan, InjectManifest, Ran, WANTED, Want, without_faults};
use specification::About;

use super::InjectArgs;
use super::ground::run_once;

/// Notes in a manifest what is wanted, and the specification that looks for it. Returns the log in which
/// it was seen, if one is given.
pub(super) fn prepare(
    arguments: &InjectArgs,
    manifest: &mut InjectManifest,
) -> anyhow::Result<Option<String>> {
    let Some(text) = &arguments.want else {
        return Ok(None);
    };
    if arguments
        .strategy
        .as_deref()
        .is_some_and(|name| name != EXHAUSTIVE)
    {
        bail!("--want tries the failures of --strategy {EXHAUSTIVE}: leave out --strategy");
    }
    let mut specifications = manifest.specifications.iter();
    if specifications.any(|specification| specification.name == WANTED) {
        bail!("one of the specifications is called {WANTED}, as that of --want: rename its file");
    }
    let (want, specification) = Want::parse(text).map_err(|why| anyhow!("--want: {why}"))?;
    let program = specification.program("--want", About::Run);
    program.map_err(|problem| anyhow!("{problem}"))?;
    manifest.want = Some(want);
    manifest.specifications.push(specification);
    let read = |path: &PathBuf| {
        let read = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&read).into_owned())
    };
    arguments.seen_in.as_ref().map(read).transpose()
}

/// Looks whether what a run shows is shown by the same failures once more, and not by a run without
/// any: what comes by chance has no failure that makes it.
///
/// On simulated machines the same run would come to the same, and so would the run without failures in
/// which failure points were collected. So only the latter is made, with another seed.
pub(super) fn confirm(
    ran: &mut Ran,
    of: (&ClusterFile, &InjectManifest),
    (index, plan): (u64, &FaultPlan),
    interrupt: &Interrupt,
) -> injector::Result<()> {
    if !ran.shows_wanted() {
        return Ok(());
    }
    let (file, manifest) = of;
    let other = other_machines(manifest, index);
    if other.is_none() && !run_once(of, (index, plan), None, interrupt)?.shows_wanted() {
        ran.take_back_wanted(
            "what is wanted was shown, and was not when the same failure came again",
        );
        return Ok(());
    }
    let of = (file, other.as_ref().unwrap_or(manifest));
    if run_once(of, (index, &without_faults(file)), None, interrupt)?.shows_wanted() {
        ran.take_back_wanted("what is wanted was shown, and by a run without failures as well");
    }
    Ok(())
}

/// The same campaign on machines with another seed than that of all its runs, if it is on machines: each
/// run has one of its own.
fn other_machines(manifest: &InjectManifest, index: u64) -> Option<InjectManifest> {
    let mut other = manifest.clone();
    let on = other.simulated.as_mut()?;
    on.seed = on.seed.wrapping_add(index).wrapping_add(1);
    Some(other)
}
