//! What is in a directory of results. It is only read, so also while a sweep is at work there.

use std::collections::HashMap;
use std::path::Path;

use campaign::{RESULTS, SUMMARY, TIMES, read_lines};

use crate::again::{Address, make_again, make_finding_again};
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::inconclusive::{Inconclusive, Reason};
use crate::judged::{Judged, Verdicts};
use crate::known::known;
use crate::lines::{Line, TimeLine};
use crate::manifest::Manifest;
use crate::request::{Level, Request};
use crate::results::{FINDINGS, load_trace};
use crate::states::CrashState;
use crate::summary::Summary;
use trace_store::Trace;

/// What is in a directory of results.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What was swept.
    pub manifest: Manifest,
    /// What was found.
    pub findings: Vec<Finding>,
    /// States that nobody could judge, numbered after the findings.
    pub inconclusive: Vec<Inconclusive>,
    /// What it came to so far.
    pub summary: Summary,
    /// Whether the sweep wrote that itself. If not, it was killed or is still at work, and findings
    /// and summary are made of the verdicts that it left.
    pub has_ended: bool,
}

impl Recorded {
    /// Reads one; none if it is one of another kind of sweep.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        let Some(manifest) = Manifest::read(directory)? else {
            return Ok(None);
        };
        let mut judged = Judged::default();
        read_lines(&directory.join(RESULTS), |_, line| judged.add(line))?;
        // What was written before the sweep was continued says less than is known by now.
        let count = judged.count() as u64;
        let written = written(directory)?.filter(|(_, summary)| summary.checked == count);
        let has_ended = written.is_some();
        let (findings, summary) = if let Some(written) = written {
            written
        } else {
            let trace = load_trace(directory, &manifest)?;
            known(&trace, &manifest, &judged, &seconds(directory)?)?
        };
        let inconclusive = Inconclusive::numbered(judged.inconclusive, findings.len());
        Ok(Some(Self {
            manifest,
            findings,
            inconclusive,
            summary,
            has_ended,
        }))
    }

    /// The finding or the state of a number.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, number: usize) -> Result<Numbered<'_>> {
        let finding = self
            .findings
            .iter()
            .find(|finding| finding.number == number);
        let state = || {
            self.inconclusive
                .iter()
                .find(|state| state.number == number)
        };
        let found = finding
            .map(Numbered::Finding)
            .or_else(|| state().map(Numbered::Inconclusive));
        let what = || match (self.findings.len(), self.inconclusive.last()) {
            (0, None) => "there are none at all".to_owned(),
            (last, None) => {
                format!("they are numbered from 1 to {last}")
            }
            (_, Some(last)) => format!(
                "findings and inconclusive states are numbered from 1 to {}",
                last.number
            ),
        };
        found.ok_or_else(|| Error::NoFinding {
            number,
            what: what(),
        })
    }

    /// Why states could not be judged.
    pub fn reasons(&self) -> Vec<Reason<'_>> {
        Inconclusive::reasons(&self.inconclusive)
    }
}

/// What has a number in a directory of results.
#[derive(Debug, Clone, Copy)]
pub enum Numbered<'a> {
    /// A finding.
    Finding(&'a Finding),
    /// A state that nobody could judge.
    Inconclusive(&'a Inconclusive),
}

impl Numbered<'_> {
    /// Which state it is of.
    pub fn address(&self) -> Address {
        match self {
            Self::Finding(finding) => finding.address(),
            Self::Inconclusive(state) => state.address,
        }
    }

    /// Makes that state again, of the sweep that was asked for by `request`.
    ///
    /// # Errors
    /// If the sweep has no such state.
    pub fn make(&self, trace: &Trace, request: &Request) -> Result<CrashState> {
        match self {
            Self::Finding(finding) => make_finding_again(trace, request, finding),
            Self::Inconclusive(state) => make_again(trace, request, state.address),
        }
    }
}

/// What the verdicts in a directory of results amount to, whatever was written of that.
///
/// # Errors
/// If they cannot be read, or the trace is not one of this sweep.
pub fn so_far(
    directory: &Path,
    manifest: &Manifest,
    trace: &Trace,
) -> Result<(Vec<Finding>, Summary)> {
    let mut judged = Judged::default();
    read_lines(&directory.join(RESULTS), |_, line| judged.add(line))?;
    known(trace, manifest, &judged, &seconds(directory)?)
}

/// The verdicts on the states of a level in a directory of results.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn verdicts(directory: &Path, level: Level) -> Result<Verdicts> {
    let mut judged = Judged::default();
    read_lines(&directory.join(RESULTS), |_, line| judged.add(line))?;
    Ok(judged.of.remove(&level).unwrap_or_default())
}

/// What a sweep wrote when it ended or was stopped; none if it was killed.
fn written(directory: &Path) -> Result<Option<(Vec<Finding>, Summary)>> {
    let (mut findings, mut summary) = (Vec::new(), None);
    for name in [FINDINGS, SUMMARY] {
        read_lines(&directory.join(name), |_, line| {
            match line {
                Line::Finding(finding) => findings.push(*finding),
                Line::Summary(read) => summary = Some(*read),
                Line::State(_) | Line::Looked(_) | Line::Asked { .. } => {
                    return Err(Error::Line("a state is no finding"));
                }
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok(summary.map(|summary| (findings, summary)))
}

/// The time that was spent on each level.
fn seconds(directory: &Path) -> Result<HashMap<Level, f64>> {
    let mut seconds: HashMap<Level, f64> = HashMap::new();
    read_lines(&directory.join(TIMES), |_, line: TimeLine| {
        *seconds.entry(line.level).or_default() += line.seconds;
        Ok::<_, Error>(())
    })?;
    Ok(seconds)
}
