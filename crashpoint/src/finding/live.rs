//! A finding of a live sweep: the same run again.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use brief::counted;
use campaign::{Interrupt, Outcome, say};
use injector::{
    Laboratory, LiveManifest, LiveResult, Minimized, OPERATIONS, Rules, SeedPlan, finding,
    finding_in_full, findings, manifest, never_looked, plans, results,
};
use node_sweep::FACTS_FOLDER;

use super::look::{self, LookArgs};
use crate::cluster::{laboratory_of, listed, live_table, replay_row};

/// Lists the findings of a live sweep, or shows one; nothing if the directory is none of one.
pub(super) fn show(directory: &Path, number: Option<usize>) -> anyhow::Result<Option<Outcome>> {
    let Some(manifest) = manifest(directory)? else {
        return Ok(None);
    };
    let results = results(directory)?;
    let text = match number {
        None => {
            listed(&results, &manifest, Some(directory))
                + &live_table(directory, &manifest, &results)?
        }
        Some(number) => {
            let found = findings(&results, &manifest);
            let (result, alike) = numbered(&found, number)?;
            finding_in_full(number, result, alike, &manifest) + &replay_row(directory, number)
        }
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    let is_found = results.iter().any(|result| result.broken().is_some());
    let is_open = injector::summary(directory).is_none_or(|summary| summary["is_cut_off"] == true)
        || !never_looked(&results).is_empty()
        || results
            .iter()
            .any(|result| matches!(result.judged, injector::Judged::Inconclusive { .. }));
    Ok(Some(match (is_found, is_open) {
        (true, _) => Outcome::Findings,
        (false, true) => Outcome::Incomplete,
        (false, false) => Outcome::Clean,
    }))
}

/// Makes a directory, if it is not there and empty.
pub(crate) fn make_empty(directory: &Path) -> anyhow::Result<()> {
    let made = std::fs::create_dir_all(directory);
    made.with_context(|| format!("create {}", directory.display()))?;
    if std::fs::read_dir(directory)?.next().is_some() {
        bail!(
            "{} is not empty: choose another directory",
            directory.display()
        );
    }
    Ok(())
}

/// Looks for less that breaks the same.
pub(super) fn minimize(
    directory: &Path,
    number: usize,
    keep: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let manifest = manifest(directory)?.context("it was there a moment ago")?;
    let results = results(directory)?;
    let found = findings(&results, &manifest);
    let (result, alike) = numbered(&found, number)?;
    let plan = plan_of(result.address.seed, directory)?;
    let laboratory = laboratory_of(&manifest, directory, plan.seed, interrupt)?;
    keep.map_or(Ok(()), make_empty)?;
    say_whether_victims_stay(&plan);
    let cancelled = || interrupt.requested();
    let minimized = injector::minimize(&laboratory, &plan, result, &mut told, &cancelled);
    if is_interrupted(&minimized) {
        return Ok(interrupted());
    }
    let Some(minimized) = minimized? else {
        say(&format!("finding {number} did not come again"));
        return Ok(Outcome::Incomplete);
    };
    let text = smaller_words(result, &minimized)
        + &finding_in_full(number, &minimized.result, alike, &manifest);
    io::stdout().lock().write_all(text.as_bytes())?;
    if let Some(keep) = keep {
        run_kept(laboratory, &minimized, keep)?;
    }
    if minimized.interrupted {
        say("interrupted: there may be something smaller");
        return Ok(Outcome::Incomplete);
    }
    Ok(Outcome::Findings)
}

fn say_whether_victims_stay(plan: &SeedPlan) {
    if let Some(why) = plan.not_alone.as_ref().or(plan.not_several.as_ref()) {
        say(&format!(
            "the victims stay: restarted while others go on, with nothing lost, {why}"
        ));
    }
}

/// Runs what a finding was made once more, and keeps what the machines say: also if somebody has asked for the
/// end, for there is nothing to keep before that.
fn run_kept(laboratory: Laboratory, minimized: &Minimized, keep: &Path) -> anyhow::Result<()> {
    // They ask whether somebody has.
    let laboratory = laboratory.held_against(Rules::default());
    let shorter = minimized.operations.map(|most| laboratory.shorter(most));
    let laboratory = shorter.as_ref().unwrap_or(&laboratory);
    laboratory.run(&minimized.result.failure(), Some(keep), &|| false)?;
    say(&kept_words(keep));
    Ok(())
}

fn plan_of(seed: u64, directory: &Path) -> anyhow::Result<SeedPlan> {
    let plan = plans(directory)?.into_iter().find(|plan| plan.seed == seed);
    plan.with_context(|| format!("{} has no plan of seed {seed}", directory.display()))
}

fn kept_words(keep: &Path) -> String {
    format!("what the machines said and sent is in {}", keep.display())
}

/// How much smaller it has become.
fn smaller_words(before: &LiveResult, minimized: &Minimized) -> String {
    let (before, after) = (shape(before), shape(&minimized.result));
    let runs = counted(minimized.runs as usize, "run");
    let mut text = format!("{before} down to {after} ({runs})\n");
    if let Some(operations) = minimized.operations {
        text += &format!("with {OPERATIONS}={operations} for the client\n");
    }
    text
}

/// How much there is of a result.
fn shape(result: &LiveResult) -> String {
    let victims = result
        .faults
        .iter()
        .map(|happened| happened.fault.victims.len());
    format!(
        "{}, {}, {}, {}",
        counted(result.faults.len(), "failure"),
        counted(victims.sum::<usize>(), "victim"),
        counted(result.lost(), "lost write"),
        counted(result.acknowledged, "acknowledgement")
    )
}

/// Says what it was made.
fn told(result: &LiveResult) {
    let lost = counted(result.lost(), "lost write");
    let acknowledged = counted(result.acknowledged, "acknowledgement");
    say(&format!("{lost}, {acknowledged}"));
}

fn numbered<T>(found: &[(T, usize)], number: usize) -> anyhow::Result<(&T, usize)> {
    let at = number.checked_sub(1).and_then(|place| found.get(place));
    let Some((result, alike)) = at else {
        let there = counted(found.len(), "finding");
        bail!("there is no finding {number}: the sweep has {there}");
    };
    Ok((result, *alike))
}

/// Has the failure of a finding happen again, and compares.
pub(super) fn replay(
    directory: &Path,
    number: usize,
    keep: Option<&Path>,
    (command, look): (Option<&str>, &LookArgs),
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    let Some(manifest) = manifest(directory)? else {
        return Ok(None);
    };
    let results = results(directory)?;
    let found = findings(&results, &manifest);
    let (result, alike) = numbered(&found, number)?;
    let laboratory = laboratory_of(&manifest, directory, result.address.seed, interrupt)?;
    if command.is_some() && look.until.is_none() {
        bail!("--command takes --until TIME here: the run has to stand still for a look");
    }
    let wanted = look.wanted(command, &laboratory)?;
    keep.map_or(Ok(()), make_empty)?;
    if let Some(until_ns) = look.until {
        let failure = result.failure();
        return match look::look(&laboratory, &failure, until_ns, &wanted, keep, interrupt) {
            Err(_) if interrupt.requested() => Ok(Some(interrupted())),
            other => other.map(Some),
        };
    }
    let text = finding(number, result, alike, &manifest);
    io::stdout().lock().write_all(text.as_bytes())?;
    run_again(&laboratory, result, keep, interrupt).map(Some)
}

/// Has the failure of a run happen again, and says whether it comes to the same.
fn run_again(
    laboratory: &Laboratory,
    before: &LiveResult,
    keep: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Outcome> {
    let ran = laboratory.run(&before.failure(), keep, &|| interrupt.requested());
    if is_interrupted(&ran) {
        return Ok(interrupted());
    }
    let run = ran?;
    let mut out = io::stdout().lock();
    if run.history != before.history || run.judged != before.judged {
        writeln!(out, "it came to something else: history {}", run.history)?;
        return Ok(Outcome::Incomplete);
    }
    writeln!(out, "it came to the same again, to the byte")?;
    if let Some(keep) = keep {
        writeln!(out, "{}", kept_words(keep))?;
    }
    Ok(Outcome::Findings)
}

/// The facts of a finding, in a file in a directory of results: made by its run, which is made again, if
/// they are not there. Nothing if it does not come again, or somebody interrupts.
pub(crate) fn facts_of(
    directory: &Path,
    manifest: &LiveManifest,
    number: usize,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<PathBuf>> {
    let results = results(directory)?;
    let found = findings(&results, manifest);
    let (result, _) = numbered(&found, number)?;
    let folder = directory.join(FACTS_FOLDER);
    let address = result.address.to_string().replace('/', "-");
    let path = folder.join(format!("{}-{address}.sqlite", result.address.seed));
    if path.exists() {
        return Ok(Some(path));
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    say(&format!("making the run of finding {number} again"));
    let laboratory = laboratory_of(manifest, directory, result.address.seed, interrupt)?;
    let laboratory = laboratory.keeping_facts(path.clone());
    let ran = laboratory.run(&result.failure(), None, &|| interrupt.requested());
    if is_interrupted(&ran) {
        interrupted();
        return Ok(None);
    }
    let run = ran?;
    if run.history != result.history {
        let _ = std::fs::remove_file(&path);
        say(&format!(
            "the run of finding {number} came to something else: history {}, not {}",
            run.history, result.history
        ));
        return Ok(None);
    }
    Ok(Some(path))
}

fn is_interrupted<T>(result: &injector::Result<T>) -> bool {
    matches!(
        result,
        Err(injector::Error::Cluster(cluster::Error::Interrupted))
    )
}

fn interrupted() -> Outcome {
    say("interrupted: everything is stopped");
    Outcome::Incomplete
}
