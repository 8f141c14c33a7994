//! The directory of a sweep's results. Whatever stops the sweep at whatever moment, it can be
//! gone on with:
//!
//! - The manifest is written first, whole. Before it is there, nothing has begun.
//! - Results are appended one by one; what a kill leaves of the last line is cut off.
//! - The summary is written last, whole. While it is not there, or does not agree with the
//!   results, the sweep is not finished.
//! - A lock, which the kernel takes away from a process that dies, keeps a second one out.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use local_fs::Variant;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workloads::Workload;

use crate::command::Outcome;
use crate::lines::{Lines, cannot, write_whole};
use crate::manifest::Manifest;
use crate::report::{OutputFormat, print_summary, print_table, summary_json, table};
use crate::result::{Timing, Verdict, WorkloadResult};
use crate::sweep::Summary;

const LOCK: &str = "crashpoint.lock";
pub(crate) const MANIFEST: &str = "manifest.json";
const WORKLOADS: &str = "workloads.wl";
pub(crate) const RESULTS: &str = "results.jsonl";
pub(crate) const TIMES: &str = "times.jsonl";
const SUMMARY: &str = "summary.jsonl";
const TABLE: &str = "summary.txt";

/// All files of such a directory.
const OURS: [&str; 7] = [LOCK, MANIFEST, WORKLOADS, RESULTS, TIMES, SUMMARY, TABLE];

/// A process that was just killed may still hold the lock for a moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// How often results are made to stay when the machine goes down. Against a kill of the process
/// nothing needs to be done; what a machine loses is tested once more.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// How often the time that has passed is written down. What passed since is not in the summary of
/// a sweep that is killed.
const NOTE_EVERY: Duration = Duration::from_millis(250);

/// A directory that results are appended to, and what is in it.
#[derive(Debug)]
pub struct Results {
    directory: PathBuf,
    manifest: Manifest,
    /// What was made for it, the deepest directory first, if it is new.
    made: Option<Vec<PathBuf>>,
    lines: Lines,
    times: Lines,
    /// For each file system of the manifest.
    recorded: Vec<Recorded>,
    finished: bool,
    clock: Clock,
    /// Held until the end.
    _lock: Flock<File>,
}

/// What is recorded of one file system.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// The numbers of the workloads that are done.
    pub(crate) done: HashSet<u64>,
    /// What they amount to.
    pub(crate) summary: Summary,
}

/// The time that is not written down yet.
#[derive(Debug)]
struct Clock {
    since: Instant,
    timing: Timing,
    synced: Instant,
}

impl Clock {
    fn start() -> Self {
        let now = Instant::now();
        Self { since: now, timing: Timing::default(), synced: now }
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
    pub(crate) not_measured: Option<String>,
    #[serde(default)]
    pub(crate) not_applicable: Option<String>,
    #[serde(default)]
    pub(crate) workload: String,
    #[serde(default)]
    pub(crate) text: Option<String>,
}

impl ResultLine {
    /// Which file system of a manifest it is about.
    pub(crate) fn place(&self, variants: &[Variant]) -> anyhow::Result<usize> {
        place_of(variants, &self.file_system, &self.mount_options, &self.mkfs_options)
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

impl Results {
    /// Makes the directory of a new sweep; `workloads` are those that must be kept, because they
    /// cannot be generated again.
    ///
    /// # Errors
    /// If results are there already, another process is at work there, or it cannot be written.
    pub fn create(directory: &Path, mut manifest: Manifest, workloads: Option<&[Workload]>) -> anyhow::Result<Self> {
        let variants = &manifest.file_systems;
        if let Some(twice) = (1..variants.len()).find(|&place| variants[..place].contains(&variants[place])) {
            bail!("{} is named twice: with --out, name it once", variants[twice]);
        }
        let kept = workloads.map(kept_text).transpose()?;
        manifest.workloads_hash = kept.as_ref().map(|text| blake3::hash(text.as_bytes()).to_hex().to_string());
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let made: Vec<PathBuf> = directory.ancestors().take_while(missing).map(Path::to_owned).collect();
        std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))?;
        refuse_results(directory, [MANIFEST, RESULTS, SUMMARY, TABLE].as_slice())?;
        if !directory.join(LOCK).exists() {
            // What is ours without a lock is not of a start that was killed.
            refuse_results(directory, [WORKLOADS, TIMES].as_slice())?;
        }
        refuse_others(directory)?;
        let lock = lock(directory).inspect_err(|_| remove_directories(&made))?;
        refuse_results(directory, [MANIFEST].as_slice())?;
        let write = || {
            if let Some(text) = &kept {
                write_whole(&directory.join(WORKLOADS), text)?;
            }
            write_whole(&directory.join(MANIFEST), &manifest.text())
        };
        let opened = write().and_then(|()| Self::load(directory, manifest, lock));
        match opened {
            Ok(this) => Ok(Self { made: Some(made), ..this }),
            Err(error) => {
                remove(directory, &made);
                Err(error)
            }
        }
    }

    /// Opens the directory of a sweep that was begun.
    ///
    /// # Errors
    /// If none was begun there, it is another version's, another process is at work there, or the
    /// results are damaged.
    pub fn open(directory: &Path) -> anyhow::Result<Self> {
        let manifest = directory.join(MANIFEST);
        std::fs::metadata(directory).with_context(|| format!("open {}", directory.display()))?;
        if !manifest.exists() {
            bail!("no sweep was begun in {}: begin one with --out {0}", directory.display());
        }
        let lock = lock(directory)?;
        Self::load(directory, Manifest::read(&manifest)?, lock)
    }

    fn load(directory: &Path, manifest: Manifest, lock: Flock<File>) -> anyhow::Result<Self> {
        let variants = manifest.file_systems.as_slice();
        let mut recorded = vec![Recorded::default(); variants.len()];
        for record in &mut recorded {
            record.summary.fua_recognised = true;
        }
        let lines = Lines::open(&directory.join(RESULTS), |_, line| read_result(variants, &mut recorded, &line))?;
        let times = Lines::open(&directory.join(TIMES), |_, line| read_time(variants, &mut recorded, &line))?;
        let finished = is_finished(directory, variants, &recorded)?;
        let clock = Clock::start();
        let directory = directory.to_owned();
        Ok(Self { directory, manifest, made: None, lines, times, recorded, finished, clock, _lock: lock })
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
        self.recorded.iter().map(|recorded| recorded.summary.workloads).sum()
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The workloads that were kept; none if they are generated.
    ///
    /// # Errors
    /// If they are not what they were.
    pub fn workloads(&self) -> anyhow::Result<Option<Vec<Workload>>> {
        let Some(hash) = &self.manifest.workloads_hash else { return Ok(None) };
        let path = self.directory.join(WORKLOADS);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        if blake3::hash(text.as_bytes()).to_hex().as_str() != hash {
            bail!("{} was changed since the sweep began: put it back, or begin anew", path.display());
        }
        Ok(Some(workloads::parse(&text, &path.display().to_string())?))
    }

    /// What is recorded of a file system of the manifest.
    pub(crate) fn of(&self, variant: &Variant) -> &Recorded {
        &self.recorded[self.place(variant)]
    }

    fn place(&self, variant: &Variant) -> usize {
        let place = self.manifest.file_systems.iter().position(|known| known == variant);
        place.expect("only what the manifest names is swept")
    }

    /// Time counts from now on.
    pub(crate) fn begin(&mut self, variant: &Variant, fua_recognised: bool) {
        let place = self.place(variant);
        self.recorded[place].summary.fua_recognised &= fua_recognised;
        self.clock = Clock::start();
    }

    /// Appends a result.
    pub(crate) fn append(&mut self, variant: &Variant, line: &Value, result: &WorkloadResult) -> anyhow::Result<()> {
        self.append_line(&line.to_string())?;
        self.clock.timing.add(result.timing);
        if self.clock.since.elapsed() >= NOTE_EVERY {
            self.note_time(variant)?;
        }
        if self.clock.synced.elapsed() >= SYNC_EVERY {
            self.sync()?;
        }
        Ok(())
    }

    fn append_line(&mut self, line: &str) -> anyhow::Result<()> {
        let read = serde_json::from_str(line)?;
        read_result(&self.manifest.file_systems, &mut self.recorded, &read)?;
        self.lines.append(line)
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.clock.synced = Instant::now();
        self.lines.sync()?;
        self.times.sync()
    }

    /// Writes down the time that has passed since it was last done.
    pub(crate) fn note_time(&mut self, variant: &Variant) -> anyhow::Result<()> {
        let now = Instant::now();
        let line = TimeLine {
            kind: "time".into(),
            file_system: variant.file_system.name.into(),
            mount_options: variant.mount_options.clone(),
            mkfs_options: variant.mkfs_options.clone(),
            seconds: (now - self.clock.since).as_secs_f64(),
            time_us: self.clock.timing,
            fua_recognised: self.of(variant).summary.fua_recognised,
        };
        self.clock = Clock { since: now, timing: Timing::default(), ..self.clock };
        self.times.append(&serde_json::to_string(&line)?)?;
        read_time(&self.manifest.file_systems, &mut self.recorded, &line)
    }

    /// What every file system came to so far.
    pub(crate) fn rows(&self) -> Vec<(Variant, Summary)> {
        let summary = |of: &Recorded| Summary { interrupted: !self.finished, ..of.summary.clone() };
        self.manifest.file_systems.iter().cloned().zip(self.recorded.iter().map(summary)).collect()
    }

    /// Prints what there is.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn print(&self, format: OutputFormat) -> anyhow::Result<Outcome> {
        let rows = self.rows();
        rows.iter().try_for_each(|(variant, summary)| print_summary(format, variant, summary))?;
        print_table(format, &rows)?;
        Ok(Outcome::of(&rows))
    }

    /// Writes the summary: all of it is done.
    pub(crate) fn finish(&mut self) -> anyhow::Result<()> {
        self.sync()?;
        self.finished = true;
        let rows = self.rows();
        let line = |(variant, summary): &(Variant, Summary)| summary_json(variant, summary).to_string() + "\n";
        let lines: String = rows.iter().map(line).collect();
        write_whole(&self.directory.join(TABLE), &table(&rows))?;
        write_whole(&self.directory.join(SUMMARY), &lines)
    }

    /// Appends everything that is recorded in `part`, a part of this sweep.
    pub(crate) fn append_all(&mut self, part: &Results) -> anyhow::Result<()> {
        let mut lines = Vec::new();
        Lines::open(&part.directory.join(RESULTS), |_, line: Value| {
            lines.push(line);
            Ok(())
        })?;
        for line in lines {
            self.append_line(&line.to_string()).with_context(|| format!("merge {}", part.directory.display()))?;
        }
        Lines::open(&part.directory.join(TIMES), |_, line: TimeLine| {
            self.times.append(&serde_json::to_string(&line)?)?;
            read_time(&self.manifest.file_systems, &mut self.recorded, &line)
        })?;
        Ok(())
    }

    /// Takes everything back if it is new and there is no result in it.
    pub(crate) fn remove_if_empty(self) {
        if let Some(made) = self.made.as_ref().filter(|_| self.lines.is_empty()) {
            remove(&self.directory, made);
        }
    }
}

/// The workloads as the text that is kept of them.
fn kept_text(workloads: &[Workload]) -> anyhow::Result<String> {
    let text: String = workloads.iter().map(|workload| workload.to_line() + "\n").collect();
    if workloads::parse(&text, WORKLOADS)? != workloads {
        bail!("these workloads cannot be kept for --resume: please report it as a bug, and sweep without --out");
    }
    Ok(text)
}

/// Fails if one of these files is there with something in it.
fn refuse_results(directory: &Path, names: &[&str]) -> anyhow::Result<()> {
    let holds = |name: &&str| std::fs::symlink_metadata(directory.join(name)).is_ok_and(|data| data.len() > 0);
    if names.iter().any(holds) {
        bail!(
            "{} holds results already: go on with them with --resume {0}, or choose another directory for --out",
            directory.display()
        );
    }
    Ok(())
}

/// Fails if the directory has files that are not of a sweep: the results would be lost among them.
fn refuse_others(directory: &Path) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))?;
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect();
    names.sort();
    // A file that was being written when its writer was killed has a name of ours with something behind it.
    let is_ours = |name: &OsString| OURS.iter().any(|own| name.to_string_lossy().contains(own));
    if let Some(other) = names.iter().find(|name| !is_ours(name)) {
        bail!(
            "{} has other files in it, such as {}: choose a new or an empty directory for --out",
            directory.display(),
            other.display()
        );
    }
    Ok(())
}

/// Takes the directory for this process.
fn lock(directory: &Path) -> anyhow::Result<Flock<File>> {
    let path = directory.join(LOCK);
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        let opened = File::options().read(true).append(true).create(true).open(&path);
        let file = opened.map_err(|error| cannot("open", &path, &error))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            // Whoever had it may have removed it.
            Ok(lock) if lock.metadata().is_ok_and(|data| data.nlink() > 0) => return Ok(lock),
            Ok(_) => {}
            Err((_, Errno::EAGAIN)) if Instant::now() < deadline => std::thread::sleep(LOCK_PATIENCE / 40),
            Err((_, Errno::EAGAIN)) => {
                bail!("another crashpoint is at work in {}: wait for its end", directory.display())
            }
            Err((_, error)) => return Err(cannot("lock", &path, &error.into())),
        }
    }
}

/// Which file system of a manifest is meant.
pub(crate) fn place_of(variants: &[Variant], name: &str, mount: &[String], mkfs: &[String]) -> anyhow::Result<usize> {
    let is_it = |variant: &Variant| {
        variant.file_system.name == name && variant.mount_options == mount && variant.mkfs_options == mkfs
    };
    variants.iter().position(is_it).with_context(|| format!("{name} with these options is not part of this sweep"))
}

/// Counts a result in.
pub(crate) fn read_result(variants: &[Variant], recorded: &mut [Recorded], line: &ResultLine) -> anyhow::Result<()> {
    if line.kind != "result" {
        return Ok(());
    }
    let place = line.place(variants)?;
    let Recorded { done, summary } = &mut recorded[place];
    let number = line.number.context("a result without the number of its workload")?;
    if !done.insert(number) {
        bail!("workload number {number} is there a second time: remove one of the two lines");
    }
    summary.workloads += 1;
    summary.states_checked += line.states_checked;
    summary.states_equal += line.states_equal;
    summary.states_left = summary.states_left.saturating_add(line.states_left);
    summary.findings += u64::from(line.verdict == Some(Verdict::Finding));
    summary.not_measured += u64::from(line.not_measured.is_some());
    summary.not_applicable += u64::from(line.not_applicable.is_some());
    Ok(())
}

/// Counts a piece of time in.
pub(crate) fn read_time(variants: &[Variant], recorded: &mut [Recorded], line: &TimeLine) -> anyhow::Result<()> {
    let place = place_of(variants, &line.file_system, &line.mount_options, &line.mkfs_options)?;
    let summary = &mut recorded[place].summary;
    summary.elapsed += Duration::try_from_secs_f64(line.seconds).context("a time that is none")?;
    summary.timing.add(line.time_us);
    summary.fua_recognised &= line.fua_recognised;
    Ok(())
}

/// Whether the summary is there and agrees with the results.
pub(crate) fn is_finished(directory: &Path, variants: &[Variant], recorded: &[Recorded]) -> anyhow::Result<bool> {
    let path = directory.join(SUMMARY);
    if !path.exists() {
        return Ok(false);
    }
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let said: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let agrees = said.len() == variants.len()
        && said.iter().zip(recorded).all(|(said, is)| said["workloads"].as_u64() == Some(is.summary.workloads));
    Ok(agrees)
}

/// Removes what is ours, the manifest first: without it nothing has begun.
fn remove(directory: &Path, made: &[PathBuf]) {
    for name in [MANIFEST, RESULTS, TIMES, WORKLOADS, LOCK] {
        let _ = std::fs::remove_file(directory.join(name));
    }
    remove_directories(made);
}

/// Removes directories, the deepest first, as far as they are empty.
fn remove_directories(made: &[PathBuf]) {
    for directory in made {
        let _ = std::fs::remove_dir(directory);
    }
}
