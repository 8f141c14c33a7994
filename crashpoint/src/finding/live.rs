//! A finding of a live sweep: the same run again.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, bail};
use campaign::{Interrupt, Outcome, say};
use injector::{finding, findings, manifest, results};

use crate::cluster::{laboratory_of, listed};

/// Lists the findings of a live sweep, or shows one; nothing if the directory is none of one.
pub(super) fn show(directory: &Path, number: Option<usize>) -> anyhow::Result<Option<Outcome>> {
    let Some(manifest) = manifest(directory)? else {
        return Ok(None);
    };
    let results = results(directory)?;
    let text = match number {
        None => listed(&results, &manifest, Some(directory)),
        Some(number) => {
            let found = findings(&results, &manifest);
            let (result, alike) = numbered(&found, number)?;
            let mut text = finding(number, result, alike, &manifest);
            for line in result.broken().unwrap_or_default() {
                text += &format!("  {line}\n");
            }
            text
        }
    };
    if text.is_empty() {
        say(&format!("no findings in {} results", results.len()));
    }
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Some(Outcome::Clean))
}

fn numbered<T>(found: &[(T, usize)], number: usize) -> anyhow::Result<(&T, usize)> {
    let at = number.checked_sub(1).and_then(|place| found.get(place));
    let Some((result, alike)) = at else {
        bail!("there is no finding {number}: there are {}", found.len());
    };
    Ok((result, *alike))
}

/// Has the failure of a finding happen again, and compares.
pub(super) fn replay(
    directory: &Path,
    number: usize,
    keep: Option<&Path>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    let Some(manifest) = manifest(directory)? else {
        return Ok(None);
    };
    let results = results(directory)?;
    let found = findings(&results, &manifest);
    let (result, alike) = numbered(&found, number)?;
    let laboratory = laboratory_of(&manifest, directory, result.address.seed)?;
    if let Some(keep) = keep {
        let made = std::fs::create_dir_all(keep);
        made.with_context(|| format!("create {}", keep.display()))?;
        if std::fs::read_dir(keep)?.next().is_some() {
            bail!("{} is not empty", keep.display());
        }
    }
    let text = finding(number, result, alike, &manifest);
    io::stdout().lock().write_all(text.as_bytes())?;
    let ran = laboratory.run(&result.failure(), keep, &|| interrupt.requested());
    let run = match ran {
        Err(injector::Error::Cluster(cluster::Error::Interrupted)) => {
            say("interrupted: everything is stopped");
            return Ok(Some(Outcome::Incomplete));
        }
        other => other?,
    };
    let mut out = io::stdout().lock();
    if run.history != result.history || run.judged != result.judged {
        writeln!(out, "it came to something else: history {}", run.history)?;
        return Ok(Some(Outcome::Incomplete));
    }
    writeln!(out, "it came to the same again, to the byte")?;
    if let Some(keep) = keep {
        writeln!(
            out,
            "what the machines said and sent is in {}",
            keep.display()
        )?;
    }
    Ok(Some(Outcome::Findings))
}
