//! What a search is for: `--want`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use campaign::Interrupt;
use cluster::ClusterFile;
use injector::Error;
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

/// Runs a plan as [`run_once`] does, and confirms what the run shows of what is wanted.
pub(super) fn run_confirmed(
    of: (&ClusterFile, &InjectManifest),
    plan: (u64, &FaultPlan),
    kept: Option<&Path>,
    interrupt: &Interrupt,
) -> injector::Result<Ran> {
    confirmed(run_once(of, plan, kept, interrupt)?, of, plan, interrupt)
}

/// Confirms what the run of a plan shows of what is wanted.
pub(super) fn confirmed(
    mut ran: Ran,
    of: (&ClusterFile, &InjectManifest),
    (index, plan): (u64, &FaultPlan),
    interrupt: &Interrupt,
) -> injector::Result<Ran> {
    confirm(&mut ran, of, (index, plan), &|manifest, plan| {
        run_once((of.0, manifest), (index, plan), None, interrupt)
    })?;
    Ok(ran)
}

/// Looks whether what a run shows is shown by the same failures once more, and not by a run without
/// any: what comes by chance has no failure that makes it. A run in which no failure was in place shows
/// nothing.
///
/// It is not if one of these runs cannot be made; what else it came to stands.
fn confirm(
    ran: &mut Ran,
    of: (&ClusterFile, &InjectManifest),
    plan: (u64, &FaultPlan),
    run: &dyn Fn(&InjectManifest, &FaultPlan) -> injector::Result<Ran>,
) -> injector::Result<()> {
    if !ran.shows_wanted() {
        return Ok(());
    }
    match unconfirmed(ran, of, plan, run) {
        Ok(None) => {}
        Ok(Some(why)) => ran.take_back_wanted(&format!("what is wanted was shown, {why}")),
        Err(error @ Error::Cluster(cluster::Error::Interrupted)) => return Err(error),
        Err(error) => ran.take_back_wanted(&format!(
            "what is wanted was shown, and a run that was to confirm it could not be made: {error}"
        )),
    }
    Ok(())
}

/// Why what a run shows is not what its failures make, if it is not.
///
/// On simulated machines the same run would come to the same, and so would the run without failures in
/// which failure points were collected. So only the latter is made, with another seed.
fn unconfirmed(
    ran: &Ran,
    (file, manifest): (&ClusterFile, &InjectManifest),
    (index, plan): (u64, &FaultPlan),
    run: &dyn Fn(&InjectManifest, &FaultPlan) -> injector::Result<Ran>,
) -> injector::Result<Option<&'static str>> {
    if ran.broken().is_none() {
        return Ok(Some("although no failure was in place"));
    }
    let is_shown = |ran: &Ran| ran.shows_wanted() && ran.broken().is_some();
    let other = other_machines(manifest, index);
    if other.is_none() && !is_shown(&run(manifest, plan)?) {
        return Ok(Some("and was not when the same failure came again"));
    }
    let without = without_faults(file, manifest.seed);
    let is_chance = run(other.as_ref().unwrap_or(manifest), &without)?.shows_wanted();
    Ok(is_chance.then_some("and by a run without failures as well"))
}

/// The same campaign on machines with another seed than that of all its runs, if it is on machines: each
/// run has one of its own.
fn other_machines(manifest: &InjectManifest, index: u64) -> Option<InjectManifest> {
    let mut other = manifest.clone();
    let on = other.simulated.as_mut()?;
    on.seed = on.seed.wrapping_add(index).wrapping_add(1);
    Some(other)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use injector::Judged;
    use serde_json::json;

    use super::*;

    /// A run that shows what is wanted, and was judged so.
    fn ran(verdict: &str) -> Ran {
        let shown = json!({
            "specification": WANTED, "fact": "shown(a)", "since_ns": 1, "of": 1, "derivation": ""
        });
        let ran = json!({
            "events": [], "faults": [], "acknowledged": 0, "acknowledged_before_heal": 0,
            "seconds": 1.0, "verdict": verdict, "broken": ["wanted: shown(a) from 0.000 s on"], "why": "it is open",
            "violations": [shown]
        });
        serde_json::from_value(ran).expect("a run")
    }

    /// How many of this run show what is wanted once it is confirmed, where runs with a failure and those
    /// without come to these, and how many runs that took.
    fn confirmed(first: Ran, again: &Ran, without: &Ran) -> (u64, u32) {
        let (ran, runs) = with_runs(first, &|is_without| {
            Ok(if is_without { without } else { again }.clone())
        });
        let ran = ran.expect("all were made");
        (u64::from(ran.shows_wanted()), runs)
    }

    /// What becomes of this run when it is confirmed, and how many runs that took, where runs come to this;
    /// whether they are without failures is told.
    fn with_runs(
        mut first: Ran,
        run: &dyn Fn(bool) -> injector::Result<Ran>,
    ) -> (injector::Result<Ran>, u32) {
        let text = "[[nodes]]\nname = \"a\"\ncommand = \"sh\"\n[client]\ncommand = \"sh\"\n";
        let file = ClusterFile::parse(text, Path::new("c.toml"), Path::new("/"));
        let file = file.expect("a cluster");
        let mut manifest = InjectManifest::new(&file, Path::new("/c.toml"));
        manifest.seed = 7;
        let fault = "[[faults]]\nat = { time_s = 1 }\nfault = \"kill\"\non = \"a\"\n";
        let plan = FaultPlan::parse(fault, Path::new("p.toml"), &file).expect("a plan");
        let runs = Cell::new(0);
        let of = (&file, &manifest);
        let came = confirm(&mut first, of, (0, &plan), &|_, plan| {
            runs.set(runs.get() + 1);
            assert_eq!(
                plan.seed == 7,
                plan.faults.is_empty(),
                "clients do the same"
            );
            run(plan.faults.is_empty())
        });
        (came.map(|()| first), runs.get())
    }

    #[test]
    fn what_a_run_has_broken_stands_if_no_run_can_confirm_what_is_wanted() {
        let fails = |error: fn() -> cluster::Error, when: bool| {
            let mut first = ran("broken");
            let Judged::Broken { broken } = &mut first.judged else {
                panic!("{first:?}");
            };
            broken.push("k1 is lost".into());
            let (came, _) = with_runs(first, &|is_without| {
                if is_without == when {
                    return Err(error().into());
                }
                Ok(ran("broken"))
            });
            came
        };
        for when in [false, true] {
            let came = fails(|| cluster::Error::NoDisk("a".into()), when).expect("it was made");
            assert_eq!(came.broken(), Some(&["k1 is lost".to_owned()][..]));
            let why = "could not be made: node a has no disk";
            assert!(
                !came.shows_wanted() && came.notes[0].contains(why),
                "{came:?}"
            );
            // It is made again if somebody asked for the end.
            assert!(fails(|| cluster::Error::Interrupted, when).is_err());
        }
    }

    /// A run that violates nothing.
    fn nothing() -> Ran {
        let mut nothing = ran("ok");
        nothing.violations.clear();
        nothing
    }

    #[test]
    fn what_is_wanted_is_shown_by_a_failure_each_time_and_by_nothing_else() {
        let broken = || ran("broken");
        assert_eq!(confirmed(broken(), &broken(), &nothing()), (1, 2));
        assert_eq!(confirmed(broken(), &nothing(), &nothing()), (0, 1));
        assert_eq!(confirmed(broken(), &broken(), &broken()), (0, 2));
        // Also if it is no failure's: a plan without faults has none in place.
        assert_eq!(confirmed(broken(), &broken(), &ran("inconclusive")), (0, 2));
        assert_eq!(confirmed(nothing(), &broken(), &nothing()), (0, 0));
    }

    #[test]
    fn a_run_without_a_failure_in_place_shows_nothing_that_is_wanted() {
        let broken = ran("broken");
        let nothing = nothing();
        let open = ran("inconclusive");
        assert_eq!(confirmed(open.clone(), &broken, &nothing), (0, 0));
        assert_eq!(confirmed(broken, &open, &nothing), (0, 1));
    }
}
