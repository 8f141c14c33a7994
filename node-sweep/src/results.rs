//! The results of a sweep of crash states, in its [`Directory`]: the trace beside the manifest, the
//! verdict on each different state as it comes, and in the end the findings and the summary.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use campaign::{
    Directory, MANIFEST, RESULTS, Record, Records, SUMMARY, TABLE, read_lines, write_whole,
};
use trace_store::Trace;

use crate::check::Verdict;
use crate::error::{Context as _, During as _, Error, Result};
use crate::finding::Finding;
use crate::judged::{Judged, Verdicts};
use crate::lines::{Line, LookedLine, StateLine, TimeLine};
use crate::manifest::Manifest;
use crate::request::Level;
use crate::summary::Summary;
use crate::sweep::number_of;
use crate::tree::Fingerprint;
use crate::undamaged::Sound;

const TRACE: &str = "trace";
/// What was found.
pub(crate) const FINDINGS: &str = "findings.jsonl";

/// What a sweep of crash states keeps beside what every sweep does.
const KEPT: [&str; 2] = [TRACE, FINDINGS];

/// A directory that verdicts are appended to, and what is in it.
#[derive(Debug)]
pub struct Results {
    directory: Directory,
    manifest: Manifest,
    records: Records,
    verdicts: HashMap<Level, Verdicts>,
    /// The violations of specifications that had something to look at.
    looked: BTreeSet<LookedLine>,
    /// What the check said of what the run left.
    sound: Sound,
    seconds: HashMap<Level, f64>,
    finished: bool,
}

impl Results {
    /// Says whether [`Results::create`] would refuse a directory because of what is in it.
    ///
    /// # Errors
    /// If it would.
    pub fn refuse(directory: &Path) -> Result<()> {
        Ok(Directory::refuse(directory, &KEPT)?)
    }

    /// Takes a directory for a sweep that begins under another kernel, whose locks this one does not
    /// see.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn reserve(directory: &Path) -> Result<Directory> {
        Ok(Directory::create(directory, &KEPT)?)
    }

    /// Begins a sweep of a trace.
    ///
    /// # Errors
    /// If there is something in the directory already, or it cannot be written.
    pub fn create(directory: &Path, mut manifest: Manifest, trace: &Trace) -> Result<Self> {
        let directory = Directory::create(directory, &KEPT)?;
        let mut write = || {
            let kept = directory.join(TRACE);
            if kept.exists() {
                // Of a start that was killed.
                fs::remove_dir_all(&kept).doing(|| format!("remove {}", kept.display()))?;
            }
            trace.save(&kept)?;
            manifest.trace = trace_hash(&kept)?;
            let text =
                serde_json::to_string_pretty(&manifest).expect("it holds nothing that JSON cannot");
            Ok::<_, Error>(write_whole(&directory.join(MANIFEST), &(text + "\n"))?)
        };
        match write() {
            Ok(()) => Self::load(directory, manifest),
            Err(error) => {
                directory.remove_if_new();
                Err(error)
            }
        }
    }

    /// Opens the directory of a sweep that was begun, with its trace.
    ///
    /// # Errors
    /// If none was begun there, it is another kind of sweep or another version's, another process
    /// is at work there, or it is damaged.
    pub fn open(path: &Path) -> Result<(Self, Trace)> {
        let directory = Directory::open(path, &KEPT)?;
        let Some(manifest) = Manifest::read(path)? else {
            return Err(Error::OfFileSystems(path.into()));
        };
        let trace = load_trace(path, &manifest)?;
        Ok((Self::load(directory, manifest)?, trace))
    }

    fn load(directory: Directory, manifest: Manifest) -> Result<Self> {
        let mut judged = Judged::default();
        let mut seconds: HashMap<Level, f64> = HashMap::new();
        let records = Records::open(&directory, |record| {
            match record {
                Record::Result(line) => judged.add(line)?,
                Record::Time(TimeLine {
                    level,
                    seconds: spent,
                }) => *seconds.entry(level).or_default() += spent,
            }
            Ok::<_, Error>(())
        })?;
        // A verdict that is not there any more is to be found again.
        let count = judged.count() as u64;
        let mut finished = false;
        read_lines(&directory.join(SUMMARY), |_, line: Line| {
            finished = matches!(line, Line::Summary(summary) if summary.is_whole() && summary.checked == count);
            Ok::<_, Error>(())
        })?;
        Ok(Self {
            directory,
            manifest,
            records,
            verdicts: judged.of,
            looked: judged.looked,
            sound: judged.sound,
            seconds,
            finished,
        })
    }

    /// What the sweep is.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Whether all of it is done.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// How many different states have a verdict.
    pub fn count(&self) -> usize {
        self.verdicts.values().map(HashMap::len).sum()
    }

    /// What is known of the states of a level. Time counts from now on.
    pub fn begin(&mut self, level: Level) -> Verdicts {
        self.records.begin();
        self.verdicts.get(&level).cloned().unwrap_or_default()
    }

    /// The violations of specifications that had something to look at.
    pub(crate) fn looked(&self) -> &BTreeSet<LookedLine> {
        &self.looked
    }

    /// Appends that a violation had something to look at, if that is not known.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn append_looked(&mut self, looked: LookedLine) -> Result<()> {
        if self.looked.insert(looked.clone()) {
            let line = serde_json::to_string(&Line::Looked(looked))?;
            self.records.append(&line)?;
        }
        Ok(())
    }

    /// What the check said of what the run left.
    pub(crate) fn sound(&self) -> &Sound {
        &self.sound
    }

    /// Appends what the check said of what the run left, as far as that is not known.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn append_sound(&mut self, sound: &Sound) -> Result<()> {
        for (turns, times) in sound.iter() {
            if self.sound.know(turns.clone(), times) {
                let turns = turns.clone();
                let line = serde_json::to_string(&Line::Asked { times, turns })?;
                self.records.append(&line)?;
            }
        }
        Ok(())
    }

    /// Appends a verdict.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn append(
        &mut self,
        level: Level,
        state: u64,
        key: &Fingerprint,
        verdict: &Verdict,
    ) -> Result<()> {
        self.verdicts
            .entry(level)
            .or_default()
            .insert(*key, verdict.clone());
        let line = Line::State(StateLine::new(level, state, key, verdict));
        self.records.append(&serde_json::to_string(&line)?)?;
        if self.records.is_time_due() {
            self.note_time(level)?;
        }
        Ok(())
    }

    /// Writes down the time that has passed since it was last done; returns all that was spent on a
    /// level.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note_time(&mut self, level: Level) -> Result<f64> {
        let seconds = self.records.take_time().as_secs_f64();
        self.records
            .append_time(&serde_json::to_string(&TimeLine { level, seconds })?)?;
        let all = self.seconds.entry(level).or_default();
        *all += seconds;
        Ok(*all)
    }

    /// Writes what came of it so far, the summary last.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(&mut self, findings: &[Finding], summary: &Summary, table: &str) -> Result<()> {
        self.records.sync()?;
        let lines: String = findings
            .iter()
            .map(|finding| finding.json() + "\n")
            .collect();
        write_whole(&self.directory.join(FINDINGS), &lines)?;
        write_whole(&self.directory.join(TABLE), table)?;
        Ok(write_whole(
            &self.directory.join(SUMMARY),
            &(summary.json() + "\n"),
        )?)
    }

    /// Takes everything back if it is new and there is no verdict in it.
    pub fn remove_if_empty(self) {
        if self.records.is_empty() {
            self.directory.remove_if_new();
        }
    }

    /// Appends what is recorded in a part of this sweep of its own states, or of those of others: a
    /// part also looks at states of others that have less missing than a broken one. What is known of
    /// these is left out.
    fn append_states(&mut self, part: &Self, are_own: bool) -> Result<()> {
        let shard = part.manifest.shard()?;
        let mut lines = Vec::new();
        read_lines(&part.directory.join(RESULTS), |_, line: Line| {
            if let Line::State(state) = &line {
                let (level, key) = (state.level, state.key()?);
                let is_own = shard.is_none_or(|shard| shard.contains(number_of(&key)));
                let own = self.verdicts.entry(level).or_default();
                if is_own != are_own || own.contains_key(&key) {
                    return Ok::<_, Error>(());
                }
                let verdict = part.verdicts[&level][&key].clone();
                own.insert(key, verdict);
                lines.push(serde_json::to_string(&line)?);
            }
            Ok::<_, Error>(())
        })?;
        Ok(lines
            .iter()
            .try_for_each(|line| self.records.append(line))?)
    }

    /// Appends everything that is recorded in the parts of this sweep. Where several looked at a
    /// state, the verdict of the one that it is of counts.
    pub(crate) fn append_all(&mut self, parts: &[&Self]) -> Result<()> {
        for are_own in [true, false] {
            for part in parts {
                let merged = self.append_states(part, are_own);
                merged.during(|| format!("merge {}", part.directory().display()))?;
            }
        }
        for looked in parts.iter().flat_map(|part| &part.looked) {
            self.append_looked(looked.clone())?;
        }
        for part in parts {
            self.append_sound(&part.sound)?;
        }
        parts.iter().try_for_each(|part| self.append_times(part))
    }

    fn append_times(&mut self, part: &Self) -> Result<()> {
        for (level, seconds) in &part.seconds {
            *self.seconds.entry(*level).or_default() += seconds;
            self.records.append_time(&serde_json::to_string(&TimeLine {
                level: *level,
                seconds: *seconds,
            })?)?;
        }
        Ok(())
    }
}

/// The trace of a sweep, from its directory of results.
///
/// # Errors
/// If it cannot be read, or is another one.
pub fn load_trace(directory: &Path, manifest: &Manifest) -> Result<Trace> {
    let kept = directory.join(TRACE);
    let trace = Trace::load(&kept).during(|| format!("load {}", kept.display()))?;
    if trace_hash(&kept)? != manifest.trace {
        return Err(Error::OtherTrace(kept));
    }
    Ok(trace)
}

/// What tells a trace from others.
fn trace_hash(directory: &Path) -> Result<String> {
    // It has the hashes of all the rest.
    let path = directory.join("trace.json");
    let text = fs::read(&path).doing(|| format!("read {}", path.display()))?;
    Ok(blake3::hash(&text).to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::{CheckCommand, Complaint, Judge, Request, Rule, Turns, merge};

    struct Place(TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Begins a sweep of part `shard` of a trace in which `line` is all data.
        fn begin(&self, name: &str, shard: Option<&str>, line: &str) -> Results {
            let judge = Judge::Program {
                check: CheckCommand::Once("true".into()),
                limit_s: 30,
                allow_no_acks: true,
            };
            let request = Request {
                level: Level::Both,
                model: "posix".into(),
                explore: Rule::BruteForce,
                lost: 1,
                split: "3".parse().expect("a split"),
                sector: pace_rules::Sector::default(),
                states: "every-write".parse().expect("states"),
                sample: None,
                seed: 0,
                starts: crate::Start::usual(),
                judge,
                specifications: Vec::new(),
            };
            let shard = shard.map(|shard| shard.parse().expect("a shard"));
            let manifest = Manifest::new("program".into(), "posix".into(), request, shard, 1);
            let mut trace = Trace::default();
            trace.add(line.as_bytes());
            Results::create(&self.path(name), manifest, &trace).expect("begun")
        }

        fn open(&self, name: &str) -> Results {
            Results::open(&self.path(name)).expect("opened").0
        }

        /// What was said when these were to be put together.
        fn refused(&self, parts: &[&str]) -> String {
            let parts: Vec<_> = parts.iter().map(|name| self.path(name)).collect();
            let said = merge(&parts, &self.path("merged"), false)
                .expect_err("they do not belong together");
            assert!(!self.path("merged").exists());
            campaign::one_line(&said)
        }
    }

    const LEVELS: [Level; 2] = [Level::Syscalls, Level::Block];

    fn key(number: u8) -> Fingerprint {
        [number; 32]
    }

    /// One of each kind.
    fn verdicts() -> Vec<Verdict> {
        let words = vec!["the first".to_owned(), "the \"second\"".to_owned()];
        let complaint = Complaint {
            words,
            log: Some("panic".into()),
            tries: Some(3),
            seen: Some(2),
            ok_without_crash: Some(60),
            of_rules: 1,
        };
        vec![
            Verdict::Ok,
            Verdict::Broken(complaint),
            Verdict::Inconclusive("nobody knows".into()),
        ]
    }

    fn append(results: &mut Results, level: Level, number: u8, verdict: &Verdict) {
        results
            .append(level, number.into(), &key(number), verdict)
            .expect("appended");
    }

    /// Ends a sweep in which so many different states were looked at.
    fn finish(mut results: Results, checked: u64, change: impl FnOnce(&mut Summary)) {
        let mut summary = Summary {
            checked,
            states: checked,
            ..Summary::default()
        };
        change(&mut summary);
        results
            .finish(&[], &summary, "a table\n")
            .expect("finished");
    }

    #[test]
    fn each_verdict_comes_back_as_it_was_and_at_its_level() {
        let place = Place::new();
        let mut results = place.begin("out", None, "x");
        let mut number = 0;
        for level in LEVELS {
            for verdict in verdicts() {
                append(&mut results, level, number, &verdict);
                number += 1;
            }
        }
        // What is the same at both levels need not be judged the same.
        append(&mut results, Level::Syscalls, 99, &Verdict::Ok);
        append(
            &mut results,
            Level::Block,
            99,
            &Verdict::Inconclusive("no disk".into()),
        );
        drop(results);
        let mut results = place.open("out");
        assert_eq!(results.count(), 8);
        for (level, first) in LEVELS.into_iter().zip([0, 3]) {
            let mut known = results.begin(level);
            let last = known.remove(&key(99));
            assert_eq!(last == Some(Verdict::Ok), level == Level::Syscalls);
            let expected: Verdicts = (first..).map(key).zip(verdicts()).collect();
            assert_eq!(known, expected, "{level:?}");
        }
        assert!(results.begin(Level::Both).is_empty());
    }

    #[test]
    fn what_the_check_said_without_a_crash_comes_back_and_the_most_of_it_is_kept() {
        let turns = Turns {
            first: vec![1],
            later: vec![0, 2],
        };
        let place = Place::new();
        for (shard, name, times) in [("1/2", "one", 60), ("2/2", "two", 7)] {
            let mut sound = Sound::default();
            sound.know(None, times);
            sound.know(Some(turns.clone()), 67 - times);
            let mut results = place.begin(name, Some(shard), "x");
            append(&mut results, Level::Syscalls, 1, &Verdict::Ok);
            results.append_sound(&sound).expect("appended");
            finish(results, 1, |_| {});
            assert_eq!(place.open(name).sound, sound);
        }
        let parts = [place.path("two"), place.path("one")];
        let merged = merge(&parts, &place.path("merged"), false).expect("merged");
        let mut most = Sound::default();
        most.know(None, 60);
        most.know(Some(turns), 60);
        assert_eq!(merged.results.sound, most);
    }

    #[test]
    fn the_old_name_of_inconclusive_is_read() {
        let line = StateLine::new(
            Level::Block,
            1,
            &key(1),
            &Verdict::Inconclusive("no disk".into()),
        );
        let line = serde_json::to_string(&line).expect("a line");
        let old = line.replace("\"inconclusive\"", "\"not-measured\"");
        assert_ne!(old, line);
        let read: StateLine = serde_json::from_str(&old).expect("an old line");
        assert_eq!(read.verdict(), Verdict::Inconclusive("no disk".into()));

        let summary = Summary {
            inconclusive: 7,
            ..Summary::default()
        };
        let old = serde_json::to_string(&summary)
            .expect("a summary")
            .replace("\"inconclusive\"", "\"not_measured\"");
        let read: Summary = serde_json::from_str(&old).expect("an old summary");
        assert_eq!(read.inconclusive, 7);
    }

    #[test]
    fn the_time_of_each_level_goes_on_where_it_was() {
        let place = Place::new();
        let mut results = place.begin("out", None, "x");
        results.begin(Level::Block);
        std::thread::sleep(Duration::from_millis(20));
        let before = results.note_time(Level::Block).expect("noted");
        assert!(before >= 0.02, "{before}");
        drop(results);
        let mut results = place.open("out");
        let begun = std::time::Instant::now();
        results.begin(Level::Syscalls);
        let other = results.note_time(Level::Syscalls).expect("noted");
        assert!(other <= begun.elapsed().as_secs_f64(), "{other}");
        results.begin(Level::Block);
        let after = results.note_time(Level::Block).expect("noted");
        assert!(after > before, "{before} {after}");
    }

    #[test]
    fn what_a_kill_left_of_the_last_verdict_is_no_verdict() {
        let place = Place::new();
        let mut results = place.begin("out", None, "x");
        append(&mut results, Level::Syscalls, 1, &Verdict::Ok);
        append(&mut results, Level::Syscalls, 2, &Verdict::Ok);
        drop(results);
        let path = place.path("out").join(RESULTS);
        let whole = fs::read(&path).expect("read");
        let first = whole
            .iter()
            .position(|byte| *byte == b'\n')
            .expect("a line")
            + 1;
        // Even where only the line feed is not there: who knows whether it was the whole line.
        for length in first..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            assert_eq!(
                place.open("out").begin(Level::Syscalls).len(),
                1,
                "{length}"
            );
            assert_eq!(fs::read(&path).expect("read"), whole[..first]);
        }
    }

    #[test]
    fn a_state_with_two_verdicts_is_refused() {
        let place = Place::new();
        let mut results = place.begin("out", None, "x");
        append(&mut results, Level::Syscalls, 1, &Verdict::Ok);
        drop(results);
        let path = place.path("out").join(RESULTS);
        let line = fs::read_to_string(&path).expect("read");
        fs::write(
            &path,
            [&*line, &line.replace("\"ok\"", "\"inconclusive\"")].concat(),
        )
        .expect("written");
        let said = Results::open(&place.path("out")).expect_err("which one is it");
        let said = campaign::one_line(&said);
        assert!(
            said.contains("results.jsonl:2: a state that is there a second time"),
            "{said}"
        );
    }

    #[test]
    fn disks_are_not_looked_at_under_another_kernel() {
        let place = Place::new();
        drop(place.begin("out", None, "x"));
        assert_eq!(place.open("out").manifest.other_kernel(), None);
        let path = place.path("out").join(MANIFEST);
        let text = fs::read_to_string(&path).expect("read");
        let mut manifest: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        manifest["kernel_release"] = "9.9.9".into();
        for (level, is_refused) in [("both", true), ("block", true), ("syscalls", false)] {
            manifest["request"]["level"] = level.into();
            fs::write(&path, manifest.to_string()).expect("written");
            let said = place.open("out").manifest.other_kernel();
            assert_eq!(said.is_some(), is_refused, "{level}");
            assert!(said.is_none_or(|said| said.contains("the kernel was 9.9.9 in one")));
        }
    }

    #[test]
    fn what_was_stopped_is_not_finished() {
        let is_finished = |checked, change: fn(&mut Summary)| {
            let place = Place::new();
            let mut results = place.begin("out", None, "x");
            append(&mut results, Level::Syscalls, 1, &Verdict::Ok);
            append(&mut results, Level::Block, 1, &Verdict::Ok);
            assert!(!results.is_finished());
            finish(results, checked, change);
            place.open("out").is_finished()
        };
        assert!(is_finished(2, |_| {}));
        assert!(!is_finished(2, |summary| summary.interrupted = true));
        assert!(!is_finished(2, |summary| summary.left = 1));
        assert!(!is_finished(2, |summary| summary.left = u64::MAX));
        // A line was removed, or is not there any more since the machine went down.
        assert!(!is_finished(3, |_| {}));
        let levels = |one: u64, other: u64| {
            let level = |left| Summary {
                left,
                ..Summary::default()
            };
            Summary::of_levels(vec![level(one), level(other)])
        };
        assert!(levels(0, 0).is_whole());
        assert!(!levels(0, 1).is_whole() && !levels(1, 0).is_whole());
        assert_eq!(levels(u64::MAX, 1).left, u64::MAX);
    }

    #[test]
    fn parts_that_are_put_together_are_the_whole_sweep() {
        let place = Place::new();
        let mut expected: HashMap<Level, Verdicts> = HashMap::new();
        for (shard, name, first) in [("1/2", "one", 0), ("2/2", "two", 10)] {
            let mut results = place.begin(name, Some(shard), "x");
            for level in LEVELS {
                for (number, verdict) in (first..).zip(verdicts()) {
                    append(&mut results, level, number, &verdict);
                    expected
                        .entry(level)
                        .or_default()
                        .insert(key(number), verdict);
                }
                results.begin(level);
                std::thread::sleep(Duration::from_millis(20));
                results.note_time(level).expect("noted");
            }
            finish(results, 6, |_| {});
        }
        let parts = [place.path("two"), place.path("one")];
        let merged = merge(&parts, &place.path("merged"), false).expect("merged");
        assert!(merged.is_whole && !merged.results.is_finished());
        assert_eq!(merged.results.manifest().shard().expect("none"), None);
        let mut results = merged.results;
        for level in LEVELS {
            assert_eq!(results.begin(level), expected[&level], "{level:?}");
            let seconds = results.note_time(level).expect("noted");
            assert!(seconds >= 0.04, "{seconds}");
        }
        drop(results);
        // What is read later is the same.
        let mut merged = place.open("merged");
        for level in LEVELS {
            assert_eq!(merged.begin(level), expected[&level], "{level:?}");
            let seconds = merged.note_time(level).expect("noted");
            assert!(seconds >= 0.04, "{seconds}");
        }
    }

    #[test]
    fn parts_that_do_not_belong_together_are_refused() {
        let place = Place::new();
        finish(place.begin("one", Some("1/2"), "x"), 0, |_| {});
        finish(place.begin("of another trace", Some("2/2"), "y"), 0, |_| {});
        finish(
            place.begin("of another number", Some("2/3"), "x"),
            0,
            |_| {},
        );
        finish(place.begin("stopped", Some("2/2"), "x"), 0, |summary| {
            summary.left = 1;
        });
        drop(place.begin("killed", Some("2/2"), "x"));
        assert!(
            place
                .refused(&["one", "of another trace"])
                .contains("each has a trace of its own")
        );
        assert!(
            place
                .refused(&["one", "of another number"])
                .contains("another number of shards")
        );
        for name in ["stopped", "killed"] {
            assert!(place.refused(&["one", name]).contains("is not finished"));
            let parts = [place.path("one"), place.path(name)];
            let merged =
                merge(&parts, &place.path(&format!("{name}, merged")), true).expect("merged");
            assert!(!merged.is_whole);
        }
        assert!(place.refused(&["one"]).contains("shard 2/2 is missing"));
    }
}
