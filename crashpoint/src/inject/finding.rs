//! A run of a campaign: told, made again, made smaller. Its number is that in `runs/`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use brief::counted;
use campaign::{Interrupt, Outcome, own_call, quoted, say};
use injector::online::{
    FaultPlan, InjectManifest, InjectResult, Summary, alike, findings, headline, manifest, results,
    summary, table, timeline,
};

use super::{file_of, lanes_of, outcome, run_once, story};
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

/// What the campaign in a directory came to, so far, with these results.
pub(crate) fn summary_of(directory: &Path, results: Vec<InjectResult>) -> Summary {
    let written = summary(directory);
    let written = written.as_ref();
    Summary {
        wanted: written.and_then(|written| written["wanted"].as_u64()),
        results,
        is_cut_off: written.is_none_or(|written| written["is_cut_off"] != false),
        left_out: left_out(written),
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
    let mut out = io::stdout().lock();
    if let Some(number) = number {
        let result = numbered(&results, number)?;
        let (lanes, why) = lanes_of(directory, &manifest, result);
        writeln!(out, "{}{}", story(result, &manifest), lanes.picture())?;
        if let Some(why) = why {
            writeln!(out, "{why}\n")?;
        }
        write!(out, "{}", result.plan)?;
        let one = Summary {
            results: vec![result.clone()],
            ..Summary::default()
        };
        return Ok(Some(outcome(
            &one,
            &InjectManifest {
                strategy: None,
                ..manifest
            },
        )));
    }
    let name = quoted(&directory.to_string_lossy()).into_owned();
    for (result, numbers) in findings(&results) {
        let all: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        write!(
            out,
            "{}{}",
            headline(result),
            timeline(&result.ran, manifest.simulated.as_ref())
        )?;
        writeln!(out, "  alike         runs {}", all.join(", "))?;
        writeln!(
            out,
            "  replay        {} replay {name} {}\n",
            own_call(),
            result.index + 1
        )?;
    }
    let all = summary_of(directory, results);
    write!(out, "{}", table(&all, &manifest))?;
    if all.is_cut_off {
        writeln!(
            out,
            "it has not ended: continue with: {} inject --resume {name}",
            own_call()
        )?;
    }
    Ok(Some(outcome(&all, &manifest)))
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
    if let Some(keep) = keep {
        make_empty(keep)?;
    }
    let again = InjectResult {
        ran: match run_once((&file, &manifest), (result.index, &plan), keep, interrupt) {
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
    if manifest.simulated.is_some() {
        let is_same = again.ran == result.ran;
        let what = if is_same {
            "the same again, to the byte"
        } else {
            "something else"
        };
        writeln!(out, "it came to {what}")?;
        let is_broken = again.ran.broken().is_some();
        return Ok(Some(if is_same && is_broken {
            Outcome::Findings
        } else {
            Outcome::Incomplete
        }));
    }
    if alike(&again, result) {
        writeln!(out, "it broke the same again")?;
        return Ok(Some(Outcome::Findings));
    }
    if again.ran.broken().is_some() {
        writeln!(out, "it broke something else")?;
        return Ok(Some(Outcome::Findings));
    }
    let is_same = again.ran.judged == result.ran.judged;
    writeln!(
        out,
        "it came to {}",
        if is_same {
            "the same again"
        } else {
            "something else"
        }
    )?;
    Ok(Some(Outcome::Incomplete))
}

/// Looks for fewer faults and fewer operations that break the same.
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
    if let Some(keep) = keep {
        make_empty(keep)?;
    }
    let file = file_of(&manifest, directory)?;
    let mut run = |plan: &FaultPlan| {
        say(&format!("trying {}", counted(plan.faults.len(), "fault")));
        run_once((&file, &manifest), (result.index, plan), None, interrupt)
    };
    let found = match injector::online::minimize(&file, result, &mut run) {
        Err(injector::Error::Cluster(cluster::Error::Interrupted)) => {
            say("interrupted: there may be something smaller");
            return Ok(Some(Outcome::Incomplete));
        }
        other => other?,
    };
    let Some(found) = found else {
        say(&format!("run {number} did not break the same twice again"));
        return Ok(Some(Outcome::Incomplete));
    };
    let text = format!(
        "{} down to {} ({})\n{}{}",
        counted(result.ran.faults.len(), "fault"),
        counted(found.plan.faults.len(), "fault"),
        counted(found.runs, "run"),
        story(&found.result, &manifest),
        found.plan
    );
    io::stdout().lock().write_all(text.as_bytes())?;
    if let Some(keep) = keep {
        let path = keep.join("plan.toml");
        let written = fs::write(&path, found.plan.to_string());
        written.with_context(|| format!("write {}", path.display()))?;
    }
    Ok(Some(Outcome::Findings))
}
