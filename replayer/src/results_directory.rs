//! The results of a sweep of workloads, in its [`Directory`].

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use campaign::{
    Directory, MANIFEST, Outcome, OutputFormat, RESULTS, Record, Records, SUMMARY, TABLE, TIMES,
    read_lines, write_whole,
};
use local_fs::Variant;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use specification::Unlooked;
use workloads::Workload;

use crate::command::outcome;
use crate::error::{Context as _, During as _, Error, Result};
use crate::manifest::Manifest;
use crate::report::{print_summary, print_table, summary_json, summary_text};
use crate::result::{AgainCounts, Timing, Verdict, WorkloadResult};
use crate::sweep::Summary;

/// The workloads that must be kept, because they cannot be generated again.
const WORKLOADS: &str = "workloads.wl";
const KEPT: [&str; 1] = [WORKLOADS];

/// A directory that results are appended to, and what is in it.
#[derive(Debug)]
pub struct Results {
    directory: Directory,
    manifest: Manifest,
    records: Records,
    /// For each file system of the manifest.
    recorded: Vec<Recorded>,
    finished: bool,
    /// Where the time went that is not written down yet.
    timing: Timing,
}

/// What is recorded of one file system.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// The numbers of the workloads that are done.
    pub(crate) done: HashSet<u64>,
    /// What they amount to.
    pub(crate) summary: Summary,
}

impl Recorded {
    /// Nothing so far: each line that is read may say that FUA was not recognised.
    pub(crate) fn nothing() -> Self {
        let mut nothing = Self::default();
        nothing.summary.fua_recognised = true;
        nothing
    }
}

/// What must be known of a result.
#[derive(Deserialize)]
pub(crate) struct ResultLine {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    file_system: String,
    #[serde(default)]
    mount_options: Vec<String>,
    #[serde(default)]
    mkfs_options: Vec<String>,
    #[serde(default)]
    pub(crate) number: Option<u64>,
    #[serde(default)]
    pub(crate) verdict: Option<Verdict>,
    #[serde(default)]
    states_checked: u64,
    #[serde(default)]
    states_equal: u64,
    #[serde(default)]
    states_left: u64,
    #[serde(default)]
    again: Option<AgainCounts>,
    #[serde(default)]
    unlooked: Option<Vec<Unlooked>>,
    #[serde(default, alias = "not_measured")]
    pub(crate) inconclusive: Option<String>,
    #[serde(default)]
    pub(crate) not_applicable: Option<String>,
    #[serde(default)]
    pub(crate) workload: String,
    #[serde(default)]
    pub(crate) text: Option<String>,
}

impl ResultLine {
    /// Which file system of a manifest it is about.
    pub(crate) fn place(&self, variants: &[Variant]) -> Result<usize> {
        place_of(
            variants,
            &self.file_system,
            &self.mount_options,
            &self.mkfs_options,
        )
    }
}

/// Time spent on a file system, without that of earlier lines.
#[derive(Serialize, Deserialize)]
pub(crate) struct TimeLine {
    #[serde(rename = "type")]
    kind: String,
    file_system: String,
    mount_options: Vec<String>,
    mkfs_options: Vec<String>,
    seconds: f64,
    time_us: Timing,
    fua_recognised: bool,
}

/// What is in the files of a sweep.
struct Contents {
    records: Records,
    recorded: Vec<Recorded>,
    finished: bool,
}

impl Contents {
    fn load(directory: &Directory, manifest: &Manifest) -> Result<Self> {
        let variants = manifest.file_systems.as_slice();
        let mut recorded = vec![Recorded::nothing(); variants.len()];
        let records = Records::open(directory, |record| match record {
            Record::Result(line) => read_result(variants, &mut recorded, &line),
            Record::Time(line) => read_time(variants, &mut recorded, &line),
        })?;
        let finished = is_finished(directory.path(), variants, &recorded)?;
        Ok(Self {
            records,
            recorded,
            finished,
        })
    }
}

impl Results {
    /// Makes the directory of a new sweep; `workloads` are those that must be kept, because they
    /// cannot be generated again.
    ///
    /// # Errors
    /// If results are there already, another process is at work there, or it cannot be written.
    pub fn create(
        directory: &Path,
        mut manifest: Manifest,
        workloads: Option<&[Workload]>,
    ) -> Result<Self> {
        let variants = &manifest.file_systems;
        if let Some(twice) =
            (1..variants.len()).find(|&place| variants[..place].contains(&variants[place]))
        {
            return Err(Error::NamedTwice(variants[twice].clone()));
        }
        let kept = workloads.map(kept_text).transpose()?;
        manifest.workloads_hash = kept
            .as_ref()
            .map(|text| blake3::hash(text.as_bytes()).to_hex().to_string());
        let directory = Directory::create(directory, &KEPT)?;
        let write = || {
            if let Some(text) = &kept {
                write_whole(&directory.join(WORKLOADS), text)?;
            }
            write_whole(&directory.join(MANIFEST), &manifest.text())?;
            Contents::load(&directory, &manifest)
        };
        match write() {
            Ok(contents) => Ok(Self::of_contents(directory, manifest, contents)),
            Err(error) => {
                directory.remove_if_new();
                Err(error)
            }
        }
    }

    /// Opens the directory of a sweep that was begun.
    ///
    /// # Errors
    /// If none was begun there, it is another version's, another process is at work there, or the
    /// results are damaged.
    pub fn open(directory: &Path) -> Result<Self> {
        let directory = Directory::open(directory, &KEPT)?;
        let manifest = Manifest::read(&directory.join(MANIFEST))?;
        let contents = Contents::load(&directory, &manifest)?;
        Ok(Self::of_contents(directory, manifest, contents))
    }

    fn of_contents(directory: Directory, manifest: Manifest, contents: Contents) -> Self {
        let Contents {
            records,
            recorded,
            finished,
        } = contents;
        Self {
            directory,
            manifest,
            records,
            recorded,
            finished,
            timing: Timing::default(),
        }
    }

    /// What the sweep is.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether all of it is done.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// How many results there are.
    pub fn count(&self) -> u64 {
        self.recorded
            .iter()
            .map(|recorded| recorded.summary.workloads)
            .sum()
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The workloads that were kept; none if they are generated.
    ///
    /// # Errors
    /// If they are not what they were.
    pub fn workloads(&self) -> Result<Option<Vec<Workload>>> {
        let Some(hash) = &self.manifest.workloads_hash else {
            return Ok(None);
        };
        let path = self.directory.join(WORKLOADS);
        let text = std::fs::read_to_string(&path).doing(|| format!("read {}", path.display()))?;
        if blake3::hash(text.as_bytes()).to_hex().as_str() != hash {
            return Err(Error::Changed(path));
        }
        Ok(Some(workloads::parse(&text, &path.display().to_string())?))
    }

    /// What is recorded of a file system of the manifest.
    pub(crate) fn of(&self, variant: &Variant) -> &Recorded {
        &self.recorded[self.place(variant)]
    }

    fn place(&self, variant: &Variant) -> usize {
        let place = self
            .manifest
            .file_systems
            .iter()
            .position(|known| known == variant);
        place.expect("only what the manifest names is swept")
    }

    /// Time counts from now on.
    pub(crate) fn begin(&mut self, variant: &Variant, fua_recognised: bool) {
        let place = self.place(variant);
        self.recorded[place].summary.fua_recognised &= fua_recognised;
        self.timing = Timing::default();
        self.records.begin();
    }

    /// Appends a result.
    pub(crate) fn append(
        &mut self,
        variant: &Variant,
        line: &Value,
        result: &WorkloadResult,
    ) -> Result<()> {
        self.append_line(&line.to_string())?;
        self.timing.add(result.timing);
        if self.records.is_time_due() {
            self.note_time(variant)?;
        }
        Ok(())
    }

    fn append_line(&mut self, line: &str) -> Result<()> {
        let read = serde_json::from_str(line)?;
        read_result(&self.manifest.file_systems, &mut self.recorded, &read)?;
        Ok(self.records.append(line)?)
    }

    /// Writes down the time that has passed since it was last done.
    pub(crate) fn note_time(&mut self, variant: &Variant) -> Result<()> {
        let line = TimeLine {
            kind: "time".into(),
            file_system: variant.file_system.name.into(),
            mount_options: variant.mount_options.clone(),
            mkfs_options: variant.mkfs_options.clone(),
            seconds: self.records.take_time().as_secs_f64(),
            time_us: std::mem::take(&mut self.timing),
            fua_recognised: self.of(variant).summary.fua_recognised,
        };
        self.records.append_time(&serde_json::to_string(&line)?)?;
        read_time(&self.manifest.file_systems, &mut self.recorded, &line)
    }

    /// What every file system came to so far.
    pub(crate) fn rows(&self) -> Vec<(Variant, Summary)> {
        let summary = |of: &Recorded| Summary {
            interrupted: !self.finished,
            ..of.summary.clone()
        };
        self.manifest
            .file_systems
            .iter()
            .cloned()
            .zip(self.recorded.iter().map(summary))
            .collect()
    }

    /// Prints what there is.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print(&self, format: OutputFormat) -> Result<Outcome> {
        let rows = self.rows();
        rows.iter()
            .try_for_each(|(variant, summary)| print_summary(format, variant, summary))
            .and_then(|()| print_table(format, &rows))
            .map_err(Error::Output)?;
        Ok(outcome(rows.iter().map(|(_, summary)| summary)))
    }

    /// Writes the summary: all of it is done.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.records.sync()?;
        self.finished = true;
        let rows = self.rows();
        let line = |(variant, summary): &(Variant, Summary)| {
            summary_json(variant, summary).to_string() + "\n"
        };
        let lines: String = rows.iter().map(line).collect();
        write_whole(&self.directory.join(TABLE), &summary_text(&rows))?;
        Ok(write_whole(&self.directory.join(SUMMARY), &lines)?)
    }

    /// Appends everything that is recorded in `part`, a part of this sweep.
    pub(crate) fn append_all(&mut self, part: &Results) -> Result<()> {
        let mut lines = Vec::new();
        read_lines(&part.directory.join(RESULTS), |_, line: Value| {
            lines.push(line);
            Ok::<_, Error>(())
        })?;
        for line in lines {
            self.append_line(&line.to_string())
                .during(|| format!("merge {}", part.directory.path().display()))?;
        }
        read_lines(&part.directory.join(TIMES), |_, line: TimeLine| {
            self.records.append_time(&serde_json::to_string(&line)?)?;
            read_time(&self.manifest.file_systems, &mut self.recorded, &line)
        })?;
        Ok(())
    }

    /// Takes everything back if it is new and there is no result in it.
    pub(crate) fn remove_if_empty(self) {
        if self.records.is_empty() {
            self.directory.remove_if_new();
        }
    }
}

/// The workloads as the text that is kept of them.
fn kept_text(workloads: &[Workload]) -> Result<String> {
    let text: String = workloads
        .iter()
        .map(|workload| workload.to_line() + "\n")
        .collect();
    if workloads::parse(&text, WORKLOADS)? != workloads {
        return Err(Error::NotKept);
    }
    Ok(text)
}

/// Which file system of a manifest is meant.
pub(crate) fn place_of(
    variants: &[Variant],
    name: &str,
    mount: &[String],
    mkfs: &[String],
) -> Result<usize> {
    let is_it = |variant: &Variant| {
        variant.file_system.name == name
            && variant.mount_options == mount
            && variant.mkfs_options == mkfs
    };
    variants
        .iter()
        .position(is_it)
        .ok_or_else(|| Error::NotSwept(name.into()))
}

/// Counts a result in.
pub(crate) fn read_result(
    variants: &[Variant],
    recorded: &mut [Recorded],
    line: &ResultLine,
) -> Result<()> {
    if line.kind != "result" {
        return Ok(());
    }
    let place = line.place(variants)?;
    let Recorded { done, summary } = &mut recorded[place];
    let number = line.number.ok_or(Error::NoNumber)?;
    if !done.insert(number) {
        return Err(Error::NumberTwice(number));
    }
    summary.workloads += 1;
    summary.states_checked += line.states_checked;
    summary.states_equal += line.states_equal;
    summary.states_left = summary.states_left.saturating_add(line.states_left);
    if let Some(again) = line.again {
        summary.again.get_or_insert_default().add(again);
    }
    summary.add_unlooked(line.unlooked.as_deref());
    summary.findings += u64::from(line.verdict == Some(Verdict::Finding));
    summary.inconclusive += u64::from(line.inconclusive.is_some());
    summary.not_applicable += u64::from(line.not_applicable.is_some());
    Ok(())
}

/// Counts a piece of time in.
pub(crate) fn read_time(
    variants: &[Variant],
    recorded: &mut [Recorded],
    line: &TimeLine,
) -> Result<()> {
    let place = place_of(
        variants,
        &line.file_system,
        &line.mount_options,
        &line.mkfs_options,
    )?;
    let summary = &mut recorded[place].summary;
    summary.elapsed += Duration::try_from_secs_f64(line.seconds).map_err(|_| Error::NoTime)?;
    summary.timing.add(line.time_us);
    summary.fua_recognised &= line.fua_recognised;
    Ok(())
}

/// Whether the summary is there and agrees with the results.
pub(crate) fn is_finished(
    directory: &Path,
    variants: &[Variant],
    recorded: &[Recorded],
) -> Result<bool> {
    let path = directory.join(SUMMARY);
    if !path.exists() {
        return Ok(false);
    }
    let text = std::fs::read_to_string(&path).doing(|| format!("read {}", path.display()))?;
    let said: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let agrees = said.len() == variants.len()
        && said
            .iter()
            .zip(recorded)
            .all(|(said, is)| said["workloads"].as_u64() == Some(is.summary.workloads));
    Ok(agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_name_of_inconclusive_is_read() {
        let old = r#"{"type":"workload","verdict":"not-measured","not_measured":"no room"}"#;
        let line: ResultLine = serde_json::from_str(old).expect("an old line");
        assert_eq!(line.verdict, Some(Verdict::Inconclusive));
        assert_eq!(line.inconclusive.as_deref(), Some("no room"));
    }
}
