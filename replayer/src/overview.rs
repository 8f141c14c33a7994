//! What a directory of results says besides its findings. Like these, it is only read.

use std::path::Path;

use campaign::{MANIFEST, Outcome, RESULTS, TIMES, read_lines};
use local_fs::Variant;

use crate::command::outcome;
use crate::error::{Error, Result};
use crate::findings::Found;
use crate::manifest::Manifest;
use crate::report::{left_words, unlooked_words};
use crate::result::Verdict;
use crate::results_directory::{Recorded, ResultLine, is_finished, read_result, read_time};
use crate::sweep::Summary;

/// How a sweep went, as far as it came.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Whether all of it is done.
    pub finished: bool,
    /// One for each file system, as the manifest has them.
    pub file_systems: Vec<Swept>,
    /// Workloads of which not everything can be said, by file system and number.
    pub open: Vec<Open>,
}

/// A file system that was swept.
#[derive(Debug, Clone)]
pub struct Swept {
    /// Which.
    pub variant: Variant,
    /// Its sums.
    pub summary: Summary,
    /// Workloads of which all states that there was time for kept every promise.
    pub clean: u64,
}

impl Swept {
    fn new(variant: &Variant, summary: Summary, clean: u64) -> Self {
        Self {
            variant: variant.clone(),
            summary,
            clean,
        }
    }
}

/// A workload that was inconclusive, wholly or in part, or cannot be run there.
#[derive(Debug, Clone)]
pub struct Open {
    /// The place of its file system in the manifest.
    pub place: usize,
    /// The workload's number in the sweep.
    pub number: u64,
    /// Its name.
    pub workload: String,
    /// It on one line.
    pub text: String,
    /// Why.
    pub why: String,
    /// The file system has no such thing. That is no fault.
    pub not_applicable: bool,
    /// What could be checked breaks a promise: it has findings as well.
    pub has_findings: bool,
}

impl Overview {
    /// Reads a directory that `--out` named.
    ///
    /// # Errors
    /// If it is another version's, or damaged.
    pub fn read(directory: &Path) -> Result<Self> {
        let manifest = Manifest::read(&directory.join(MANIFEST))?;
        let variants = manifest.file_systems.as_slice();
        let mut recorded = vec![Recorded::nothing(); variants.len()];
        let (clean, open) = read_verdicts(directory, variants, &mut recorded)?;
        read_lines(&directory.join(TIMES), |_, line| {
            read_time(variants, &mut recorded, &line)
        })?;
        let finished = is_finished(directory, variants, &recorded)?;
        let swept = variants.iter().zip(recorded).zip(clean);
        let swept = swept.map(|((variant, recorded), clean)| {
            let mut summary = recorded.summary;
            summary.interrupted = !finished;
            Swept::new(variant, summary, clean)
        });
        Ok(Self {
            finished,
            file_systems: swept.collect(),
            open,
        })
    }

    /// The rules that had nothing to look at, in words, of each file system.
    pub fn unlooked(&self) -> Vec<String> {
        let of = |swept: &Swept| unlooked_words(&swept.variant, &swept.summary);
        self.file_systems.iter().flat_map(of).collect()
    }

    /// What the time was too short for, in words, of each file system.
    pub fn left(&self) -> Vec<String> {
        let of = |swept: &Swept| left_words(&swept.variant, &swept.summary);
        self.file_systems.iter().filter_map(of).collect()
    }

    /// What the sweep came to, as it says itself by its exit status.
    pub fn outcome(&self) -> Outcome {
        outcome(self.file_systems.iter().map(|swept| &swept.summary))
    }

    /// The place of a finding's file system in the manifest.
    pub fn place(&self, found: &Found) -> usize {
        let place = self
            .file_systems
            .iter()
            .position(|swept| swept.variant == found.variant);
        place.expect("findings are of the manifest's file systems")
    }
}

/// How many workloads are clean on each file system, and those that are open, in their order.
fn read_verdicts(
    directory: &Path,
    variants: &[Variant],
    recorded: &mut [Recorded],
) -> Result<(Vec<u64>, Vec<Open>)> {
    let mut clean = vec![0; variants.len()];
    let mut open = Vec::new();
    read_lines(&directory.join(RESULTS), |_, line: ResultLine| {
        read_result(variants, recorded, &line)?;
        let (Some(number), "result") = (line.number, line.kind.as_str()) else {
            return Ok(());
        };
        let place = line.place(variants)?;
        clean[place] += u64::from(line.verdict == Some(Verdict::Clean));
        open.extend(Open::of(line, place, number));
        Ok::<_, Error>(())
    })?;
    open.sort_by_key(|open| (open.place, open.number));
    Ok((clean, open))
}

impl Open {
    fn of(line: ResultLine, place: usize, number: u64) -> Option<Self> {
        let not_applicable = line.verdict == Some(Verdict::NotApplicable);
        let why = if not_applicable {
            line.not_applicable
        } else {
            line.inconclusive
        }?;
        let has_findings = line.verdict == Some(Verdict::Finding);
        let text = line.text.unwrap_or_default();
        Some(Self {
            place,
            number,
            workload: line.workload,
            text,
            why,
            not_applicable,
            has_findings,
        })
    }
}
