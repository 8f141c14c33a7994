//! A run of a campaign: told, made again, made smaller. Its number is that in `runs/`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use brief::counted;
use campaign::{Interrupt, Outcome, own_call, quoted, say};
use injector::Judged;
use injector::online::{
    FaultPlan, InjectManifest, InjectResult, Minimized, Summary, alike, findings, headline,
    manifest, nearest_recovered, results, summary, table, timeline,
};
use itertools::Itertools as _;

use super::ground::run_once;
use super::want::run_confirmed;
use super::{file_of, lanes_of, outcome, resume_words, story};
use crate::finding::make_empty;

/// The results in a directory; nothing if it is none of injected faults.
fn read(directory: &Path) -> anyhow::Result<Option<(InjectManifest, Vec<InjectResult>)>> {
    let Some(manifest) = manifest(directory)? else {
        return Ok(None);
    };
    Ok(Some((manifest, results(directory)?)))
}

/// The plans that were left out, by the role that they need.
fn left_out(summary: Option<&serde_json::Value>) -> std::collections::BTreeMap<String, u64> {
    let left_out = summary.map(|summary| summary["left_out"].clone());
    left_out
        .and_then(|left_out| serde_json::from_value(left_out).ok())
        .unwrap_or_default()
}

/// What its strategy said of it.
fn tells(summary: Option<&serde_json::Value>) -> Vec<String> {
    let tells = summary.map(|summary| summary["tells"].clone());
    tells
        .and_then(|tells| serde_json::from_value(tells).ok())
        .unwrap_or_default()
}

/// What the campaign in a directory came to, so far, with these results.
pub(crate) fn summary_of(directory: &Path, results: Vec<InjectResult>) -> Summary {
    let written = summary(directory);
    let written = written.as_ref();
    Summary {
        wanted: written.and_then(|written| written["wanted"].as_u64()),
        results,
        is_cut_off: written.is_none_or(|written| written["is_cut_off"] != false),
        left_out: left_out(written),
        tells: tells(written),
    }
}

pub(super) fn numbered(results: &[InjectResult], number: usize) -> anyhow::Result<&InjectResult> {
    let found = results
        .iter()
        .find(|result| result.index + 1 == number as u64);
    found.with_context(|| {
        let last = results.last().map_or(0, |result| result.index + 1);
        format!("there is no run {number}: the last is {last}")
    })
}

/// Lists what was broken, or tells of one run.
pub(crate) fn show(directory: &Path, number: Option<usize>) -> anyhow::Result<Option<Outcome>> {
    let Some((manifest, results)) = read(directory)? else {
        return Ok(None);
    };
    let shown = match number {
        Some(number) => tell(directory, manifest, numbered(&results, number)?, &results),
        None => list(directory, &manifest, results),
    };
    shown.map(Some)
}

/// Tells of one run.
fn tell(
    directory: &Path,
    manifest: InjectManifest,
    result: &InjectResult,
    results: &[InjectResult],
) -> anyhow::Result<Outcome> {
    let mut out = io::stdout().lock();
    let (lanes, why) = lanes_of(directory, &manifest, result);
    write!(out, "{}", story(result, &manifest))?;
    writeln!(out, "{}", recovery(&manifest, result, results))?;
    writeln!(out, "{}", lanes.picture())?;
    if let Some(why) = why {
        writeln!(out, "{why}\n")?;
    }
    write!(out, "{}", result.plan)?;
    let one = Summary {
        results: vec![result.clone()],
        ..Summary::default()
    };
    let strategy = None;
    Ok(outcome(
        &one,
        &InjectManifest {
            strategy,
            ..manifest
        },
    ))
}

/// What recovery did differently from the nearest run that recovered, in lines; nothing if the calls of
/// the runs were not noted.
fn recovery(manifest: &InjectManifest, broken: &InjectResult, results: &[InjectResult]) -> String {
    let recovered = manifest.collected.as_ref();
    let recovered = recovered.and_then(|_| nearest_recovered(broken, results));
    recovered.map_or_else(String::new, |recovered| recovered.told())
}

/// Lists what was broken.
fn list(
    directory: &Path,
    manifest: &InjectManifest,
    results: Vec<InjectResult>,
) -> anyhow::Result<Outcome> {
    let mut out = io::stdout().lock();
    let name = quoted(&directory.to_string_lossy()).into_owned();
    for (result, numbers) in findings(&results) {
        let likewise = match &numbers[..] {
            [_] => "no other run".to_owned(),
            all => format!("runs {}", all.iter().format(", ")),
        };
        write!(
            out,
            "{}{}",
            headline(result),
            timeline(&result.ran, manifest.simulated.as_ref())
        )?;
        write!(out, "{}", recovery(manifest, result, &results))?;
        writeln!(out, "  alike         {likewise}")?;
        writeln!(
            out,
            "  replay        {} replay {name} {}\n",
            own_call(),
            result.index + 1
        )?;
    }
    let all = summary_of(directory, results);
    write!(out, "{}", table(&all, manifest))?;
    if all.is_cut_off {
        let words = resume_words(directory);
        writeln!(out, "it has not ended: continue with: {words}")?;
    }
    Ok(outcome(&all, manifest))
}

/// Has the plan of a run happen again, and compares.
pub(crate) fn replay(
    directory: &Path,
    number: usize,
    (command, keep): (Option<&str>, Option<&Path>),
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    let Some((manifest, results)) = read(directory)? else {
        return Ok(None);
    };
    if command.is_some() {
        bail!(
            "--command has nothing to look at here: the cluster goes on; --keep DIR keeps history and logs"
        );
    }
    let result = numbered(&results, number)?;
    let file = file_of(&manifest, directory)?;
    let plan = FaultPlan::parse(&result.plan, Path::new("the plan of the run"), &file)?;
    keep.map_or(Ok(()), make_empty)?;
    let of = (&file, &manifest);
    let again = InjectResult {
        // What was taken back of a search would be shown again.
        ran: match run_confirmed(of, (result.index, &plan), keep, interrupt) {
            Err(injector::Error::Cluster(cluster::Error::Interrupted)) => {
                say("interrupted: everything is stopped");
                return Ok(Some(Outcome::Incomplete));
            }
            other => other?,
        },
        ..result.clone()
    };
    let mut out = io::stdout().lock();
    write!(out, "{}", story(&again, &manifest))?;
    let (what, outcome) = compared(&again, result, manifest.simulated.is_some());
    writeln!(out, "{what}")?;
    Ok(Some(outcome))
}

/// Whether a run came to what it did before, which on simulated machines is the same to the byte.
fn compared(
    again: &InjectResult,
    before: &InjectResult,
    is_simulated: bool,
) -> (&'static str, Outcome) {
    let is_broken = again.ran.broken().is_some();
    let other = ("it came to something else", Outcome::Incomplete);
    if is_simulated {
        let same = "it came to the same again, to the byte";
        return match (again.ran == before.ran, is_broken) {
            (true, true) => (same, Outcome::Findings),
            (true, false) => (same, Outcome::Incomplete),
            (false, _) => other,
        };
    }
    if alike(again, before) {
        ("it broke the same again", Outcome::Findings)
    } else if is_broken {
        ("it broke something else", Outcome::Findings)
    } else if again.ran.judged == before.ran.judged {
        ("it came to the same again", Outcome::Incomplete)
    } else {
        other
    }
}

/// Looks for fewer faults, fewer parts of triggers and fewer operations that break the same.
pub(crate) fn minimize(
    directory: &Path,
    number: usize,
    keep: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    let Some((manifest, results)) = read(directory)? else {
        return Ok(None);
    };
    let result = numbered(&results, number)?;
    if result.ran.broken().is_none() {
        bail!("run {number} broke nothing: there is nothing to make smaller");
    }
    keep.map_or(Ok(()), make_empty)?;
    let file = file_of(&manifest, directory)?;
    let mut last = None;
    let mut run = |plan: &FaultPlan| {
        say(&format!("trying {}", counted(plan.faults.len(), "fault")));
        let ran = run_once((&file, &manifest), (result.index, plan), None, interrupt);
        ran.inspect(|ran| last = Some(ran.judged.clone()))
    };
    let found = match injector::online::minimize(&file, result, &mut run) {
        Err(injector::Error::Cluster(cluster::Error::Interrupted)) => {
            say("interrupted: there may be something smaller");
            return Ok(Some(Outcome::Incomplete));
        }
        other => other?,
    };
    let Some(found) = found else {
        return Ok(Some(not_again(number, last.as_ref(), &manifest)));
    };
    print_smaller(result, &found, &manifest)?;
    write_plan(&found.plan, keep).map(Some)
}

/// Says that a run breaks something else now, or nothing, and what to do.
fn not_again(number: usize, last: Option<&Judged>, manifest: &InjectManifest) -> Outcome {
    let came_to = match last {
        Some(Judged::Broken { broken }) => broken.first().map_or("broken", String::as_str),
        Some(Judged::Inconclusive { why }) => why,
        Some(Judged::Ok) | None => "ok",
    };
    let hint = if manifest.simulated.is_some() {
        ""
    } else {
        ". In namespaces a plan may come to something else each time: `show` lists runs that are alike, and \
         `inject --plan` with --repeat says how often which comes"
    };
    say(&format!(
        "run {number} did not break the same twice again; the last time it came to: {came_to}{hint}"
    ));
    Outcome::Incomplete
}

/// Writes what was found to the directory that keeps it, if there is one.
fn write_plan(plan: &FaultPlan, keep: Option<&Path>) -> anyhow::Result<Outcome> {
    if let Some(directory) = keep {
        let path = directory.join("plan.toml");
        let written = fs::write(&path, plan.to_string());
        written.with_context(|| format!("write {}", path.display()))?;
    }
    Ok(Outcome::Findings)
}

/// Prints how much smaller a run has become, and what it is now.
fn print_smaller(
    before: &InjectResult,
    found: &Minimized,
    manifest: &InjectManifest,
) -> io::Result<()> {
    let (had, left) = (before.ran.faults.len(), found.plan.faults.len());
    let fewer = if left < had {
        format!(
            "{} down to {}",
            counted(had, "fault"),
            counted(left, "fault")
        )
    } else {
        format!("{}, and none can be left out", counted(had, "fault"))
    };
    write!(
        io::stdout().lock(),
        "{fewer} ({})\n{}{}",
        counted(found.runs, "run"),
        story(&found.result, manifest),
        found.plan
    )
}
