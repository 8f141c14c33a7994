//! Sweeps with a directory for their results: killed at any moment, resumed, in parts, put
//! together, and told.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use campaign::{Interrupt, Outcome, OutputFormat, RESULTS, SUMMARY, Shard, TABLE, TIMES, one_line};
use checker::{Contract, Promise};
use clap::Parser;
use pace_rules::disk::Disk;
use serde_json::Value;
use tempfile::TempDir;
use workloads::Workload;

use super::toy_bed::Bug;
use super::{machine, workload};
use crate::args::{FileSystemArgs, NumberedWorkloads};
use crate::command::SweepCommand;
use crate::error::Result;
use crate::evidence::Evidence;
use crate::findings::{Findings, FoundWhat};
use crate::manifest::{Kernel, Manifest, Options};
use crate::merge::merge;
use crate::overview::Overview;
use crate::results_directory::Results;
use crate::story::Story;

/// A finding with [`Bug::RenamesInTwo`] in the third and the fifth, and one that is inconclusive.
const TEXTS: [&str; 6] = [
    "creat a; fsync a",
    "creat b; creat b; fsync b",
    "setup; creat c; run; rename c d; fsync d",
    "setup; creat e; run; write e 0 8K; fdatasync e",
    "setup; mkdir A; creat f; run; rename f A/f; fsync A/f",
    "mkdir B; creat B/g; fsync B/g",
];

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    file_system: FileSystemArgs,
}

pub(super) fn arguments(words: &str) -> FileSystemArgs {
    let words = ["test"].into_iter().chain(words.split(' '));
    Arguments::try_parse_from(words).expect("flags").file_system
}

/// A sweep of all texts, or a part of it.
struct Sweep {
    arguments: FileSystemArgs,
    shard: Option<Shard>,
    bug: Bug,
    workloads: Vec<Workload>,
}

impl Sweep {
    fn new(words: &str) -> Self {
        Self {
            arguments: arguments(words),
            shard: None,
            bug: Bug::RenamesInTwo,
            workloads: TEXTS.map(workload).into(),
        }
    }

    fn usual() -> Self {
        Self::new("--fs ext4 --states prefix,every-write --jobs 2")
    }

    fn part(text: &str) -> Self {
        let shard = Some(text.parse().expect("a shard"));
        Self {
            shard,
            ..Self::usual()
        }
    }

    fn numbered(&self) -> impl Iterator<Item = (u64, Workload)> + Send + '_ {
        let all = (0..).zip(self.workloads.iter().cloned());
        all.filter(|(number, _)| self.shard.is_none_or(|shard| shard.contains(*number)))
    }

    fn create(&self, directory: &Path) -> Result<Results> {
        let kernel = Kernel {
            release: "6.0-toy".into(),
            version: "#1".into(),
        };
        let shard = self.shard.map(|shard| shard.to_string());
        let words = "files: test".to_owned();
        let manifest = Manifest::new(&self.arguments, kernel, Options::new(), shard, words)?;
        Results::create(directory, manifest, Some(&self.workloads))
    }

    /// Goes on until it is done, or `given` workloads were given out.
    fn go_on(&self, results: Results, given: usize) -> Result<Outcome> {
        let interrupt = Interrupt::default();
        let source = || -> NumberedWorkloads<'_> {
            let workloads = self.numbered().enumerate();
            let stop = interrupt.clone();
            Box::new(workloads.map(move |(place, numbered)| {
                if place + 1 >= given {
                    stop.request();
                }
                Ok(numbered)
            }))
        };
        let total = self.numbered().count() as u64;
        let machine = machine(self.bug);
        SweepCommand::new(&self.arguments, machine, OutputFormat::Json).run(
            &source,
            total,
            Some(results),
            &interrupt,
        )
    }

    /// Does all that is left in a directory.
    fn resume(&self, directory: &Path) -> Result<Outcome> {
        self.go_on(Results::open(directory)?, usize::MAX)
    }

    fn whole(&self, directory: &Path) -> Outcome {
        let results = self.create(directory).expect("begun");
        self.go_on(results, usize::MAX).expect("swept")
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("read")
}

/// The results in a directory, by file system and number; fails if one is there twice.
fn results(directory: &Path) -> BTreeMap<(String, u64), String> {
    let mut all = BTreeMap::new();
    for line in read(&directory.join(RESULTS)).lines() {
        let value: Value = serde_json::from_str(line).expect("an object");
        let key = (
            value["variant"].to_string(),
            value["number"].as_u64().expect("a number"),
        );
        assert_eq!(all.insert(key, line.to_owned()), None, "{line}");
    }
    all
}

/// The summary of a directory, without times.
fn summary(directory: &Path) -> Vec<Value> {
    let without_times = |line: &str| {
        let mut value: Value = serde_json::from_str(line).expect("an object");
        let fields = value.as_object_mut().expect("an object");
        for name in ["seconds", "time_us"] {
            fields.remove(name).expect("it has times");
        }
        value
    };
    read(&directory.join(SUMMARY))
        .lines()
        .map(without_times)
        .collect()
}

#[track_caller]
fn assert_same(directory: &Path, whole: &Path) {
    assert_eq!(results(directory), results(whole));
    assert_eq!(summary(directory), summary(whole));
    assert!(Results::open(directory).expect("opened").is_finished());
}

fn place() -> (TempDir, impl Fn(&str) -> PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_owned();
    (directory, move |name: &str| path.join(name))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("read") {
        let entry = entry.expect("read");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

fn shorten(path: &Path, length: usize) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("open");
    file.set_len(length as u64).expect("shortened");
}

#[test]
fn a_sweep_says_what_it_came_to() {
    let (_kept, path) = place();
    let sweep = Sweep::usual();
    assert_eq!(sweep.whole(&path("out")), Outcome::Findings);
    assert_eq!(results(&path("out")).len(), TEXTS.len());
    let summary = &summary(&path("out"))[0];
    assert_eq!(summary["workloads"], 6);
    assert_eq!(summary["findings"], 2);
    assert_eq!(summary["inconclusive"], 1);
    assert_eq!(summary["interrupted"], false);
    assert!(read(&path("out").join(TABLE)).contains("ext4"));
    // There is nothing left to do.
    let before = read(&path("out").join(RESULTS));
    assert_eq!(sweep.resume(&path("out")).expect("done"), Outcome::Findings);
    assert_eq!(read(&path("out").join(RESULTS)), before);
}

#[test]
fn a_sweep_whose_time_was_too_short_is_not_clean() {
    let (_kept, path) = place();
    let swept = |states: &str, words: &str, name: &str| {
        let sweep = Sweep {
            bug: Bug::None,
            workloads: vec![workload(TEXTS[0])],
            ..Sweep::new(&format!("--fs ext4 --states {states} --jobs 1{words}"))
        };
        let outcome = sweep.whole(&path(name));
        // Whoever asks again is told the same.
        assert_eq!(sweep.resume(&path(name)).expect("done"), outcome);
        let summary = summary(&path(name)).remove(0);
        assert_eq!(summary["interrupted"], false);
        let states_left = summary["states_left"].as_u64().expect("a number");
        let recoveries_left = summary["again"]["recoveries_left"].as_u64();
        let overview = Overview::read(&path(name)).expect("read");
        (outcome, states_left, recoveries_left, overview.left())
    };
    let many = "prefix,every-write";
    let clean = (Outcome::Clean, 0, None, Vec::new());
    assert_eq!(swept(many, "", "whole"), clean);
    let (outcome, states_left, _, left) = swept(many, " --budget 0s", "short");
    assert_eq!(outcome, Outcome::Incomplete);
    assert!(states_left > 1);
    let words = format!("ext4: the time was too short for {states_left} crash states");
    assert_eq!(left, [words]);
    let (outcome, ..) = swept(many, " --again 1", "again");
    assert_eq!(outcome, Outcome::Clean);
    // Of the one state that there is, the recovery is left.
    let one = swept("prefix", " --again 1 --budget 0s", "one");
    let (outcome, states_left, recoveries_left, left) = one;
    assert_eq!((outcome, states_left), (Outcome::Incomplete, 0));
    assert_eq!(recoveries_left, Some(1));
    assert_eq!(left, ["ext4: the time was too short for 1 recovery"]);
}

/// Where in a file of lines a kill may leave its end: before and behind every line, and at some
/// places within it.
fn ends(text: &str) -> Vec<usize> {
    let mut start = 0;
    let mut ends = Vec::new();
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        ends.extend([start, start + 1, usize::midpoint(start, end), end - 1]);
        start = end;
    }
    ends.push(start);
    ends
}

#[test]
fn a_sweep_that_was_killed_anywhere_goes_on_and_ends_as_if_it_had_not_been() {
    let (_kept, path) = place();
    let sweep = Sweep::usual();
    sweep.whole(&path("whole"));
    let text = read(&path("whole").join(RESULTS));
    for end in ends(&text) {
        let killed = path(&format!("killed at {end}"));
        copy(&path("whole"), &killed);
        shorten(&killed.join(RESULTS), end);
        for name in [SUMMARY, TABLE] {
            fs::remove_file(killed.join(name)).expect("removed");
        }
        let results = Results::open(&killed).expect("opened");
        assert!(!results.is_finished());
        let lines = text[..end].matches('\n').count() as u64;
        assert_eq!(results.count(), lines, "{end}");
        drop(results);
        sweep.resume(&killed).expect("continued");
        assert_same(&killed, &path("whole"));
    }
}

#[test]
fn times_that_were_torn_are_cut_off() {
    let (_kept, path) = place();
    let sweep = Sweep::usual();
    sweep.whole(&path("out"));
    let times = path("out").join(TIMES);
    let text = read(&times);
    assert!(text.ends_with('\n'));
    for torn in ["", "{", "\0\0"] {
        fs::write(&times, format!("{text}{torn}")).expect("written");
        assert!(Results::open(&path("out")).expect("opened").is_finished());
        assert_eq!(read(&times), text);
    }
}

#[test]
fn a_result_that_the_machine_lost_is_measured_again() {
    let (_kept, path) = place();
    let sweep = Sweep::usual();
    sweep.whole(&path("whole"));
    copy(&path("whole"), &path("lost"));
    let text = read(&path("lost").join(RESULTS));
    let last = text.trim_end().rfind('\n').expect("several lines") + 1;
    shorten(&path("lost").join(RESULTS), last);
    // Its summary is still there, and says more.
    assert!(!Results::open(&path("lost")).expect("opened").is_finished());
    sweep.resume(&path("lost")).expect("continued");
    assert_same(&path("lost"), &path("whole"));
}

#[test]
fn an_interrupted_sweep_is_incomplete_until_it_is_resumed() {
    let (_kept, path) = place();
    let sweep = Sweep::new("--fs ext4,ext4:data=journal --states prefix,every-write --jobs 1");
    sweep.whole(&path("whole"));
    assert_eq!(results(&path("whole")).len(), 2 * TEXTS.len());
    for given in [1, 2, 4] {
        let stopped = path(&format!("stopped after {given}"));
        let outcome = sweep.go_on(sweep.create(&stopped).expect("begun"), given);
        let has_finding = given > 2;
        let expected = if has_finding {
            Outcome::Findings
        } else {
            Outcome::Incomplete
        };
        assert_eq!(outcome.expect("stopped"), expected, "{given}");
        assert!(!stopped.join(SUMMARY).exists());
        // What is inconclusive may be so because it was interrupted.
        assert!((given - 1..=given).contains(&results(&stopped).len()));
        sweep.resume(&stopped).expect("continued");
        assert_same(&stopped, &path("whole"));
    }
}

#[test]
fn what_was_printed_before_an_interrupt_was_found_though_it_is_tried_again() {
    let (_kept, path) = place();
    let sweep = Sweep {
        bug: Bug::HealsInSecondTry,
        workloads: vec![workload("creat bad; fsync bad")],
        ..Sweep::new("--fs ext4 --states prefix --jobs 1")
    };
    let outcome = sweep.go_on(sweep.create(&path("out")).expect("begun"), 1);
    assert_eq!(outcome.expect("stopped"), Outcome::Findings);
    assert!(results(&path("out")).is_empty());
}

#[test]
fn a_sweep_that_could_not_begin_leaves_nothing() {
    let (_kept, path) = place();
    let twice = Sweep::new("--fs ext4,ext4").create(&path("out"));
    let said = twice.expect_err("refused").to_string();
    assert!(said.contains("ext4 is named twice"), "{said}");
    assert!(!path("out").exists());
    let sweep = Sweep {
        bug: Bug::CannotStart,
        ..Sweep::usual()
    };
    let results = sweep.create(&path("out")).expect("begun");
    let stopped = sweep.go_on(results, usize::MAX).expect_err("no worker");
    let said = one_line(&stopped);
    assert_eq!(said, "prepare ext4: there is no toy to be had");
    assert!(!path("out").exists());
}

#[test]
fn results_that_were_tampered_with_are_refused() {
    let (_kept, path) = place();
    Sweep::usual().whole(&path("out"));
    let refused = |name: &str, change: &dyn Fn(&str) -> String| {
        let changed = path(&format!("{name}, changed"));
        copy(&path("out"), &changed);
        let text = read(&changed.join(name));
        fs::write(changed.join(name), change(&text)).expect("written");
        let opened = Results::open(&changed).and_then(|results| results.workloads());
        fs::remove_dir_all(&changed).expect("removed");
        one_line(&opened.expect_err(name))
    };
    let first = |text: &str| text.lines().next().expect("a line").to_owned();
    let twice = refused(RESULTS, &|text| format!("{text}{}\n", first(text)));
    assert!(twice.contains("is there a second time"), "{twice}");
    let damaged = refused(RESULTS, &|text| text.replacen("{\"", "\0", 1));
    assert!(damaged.contains("results.jsonl:1 is damaged"), "{damaged}");
    let other = refused(RESULTS, &|text| text.replace("ext4", "xfs"));
    assert!(other.contains("is not part of this sweep"), "{other}");
    let workloads = refused("workloads.wl", &|text| text.replace("creat a", "creat z"));
    assert!(workloads.contains("was changed since"), "{workloads}");
}

#[test]
fn parts_that_are_put_together_are_the_whole_sweep() {
    let (_kept, path) = place();
    Sweep::usual().whole(&path("whole"));
    let parts: Vec<_> = (1..=3).map(|number| path(&number.to_string())).collect();
    for (number, part) in (1..).zip(&parts) {
        Sweep::part(&format!("{number}/3")).whole(part);
    }
    let backwards: Vec<_> = parts.iter().rev().cloned().collect();
    let merged = merge(&backwards, &path("merged"), false, OutputFormat::Json);
    assert_eq!(merged.expect("merged"), Outcome::Findings);
    assert_same(&path("merged"), &path("whole"));
    let numbers = |name: &str| {
        let found = Findings::read(&path(name)).expect("read").all;
        let number = |found: &crate::findings::Found| (found.number, found.workload_number);
        found.iter().map(number).collect::<Vec<_>>()
    };
    assert_eq!(numbers("merged"), numbers("whole"));
}

#[test]
fn parts_that_are_not_all_there_are_merged_only_when_asked_and_can_be_gone_on_with() {
    let (_kept, path) = place();
    let whole = Sweep::usual();
    whole.whole(&path("whole"));
    Sweep::part("1/3").whole(&path("one"));
    let killed = Sweep::part("3/3");
    drop(killed.create(&path("killed")).expect("begun"));
    let refused = |parts: &[&str]| {
        let parts: Vec<_> = parts.iter().map(|name| path(name)).collect();
        let merged = merge(&parts, &path("no"), false, OutputFormat::Json);
        assert!(!path("no").exists());
        merged.expect_err("refused").to_string()
    };
    let missing = refused(&["one"]);
    assert!(missing.contains("shard 2/3, 3/3 is missing"), "{missing}");
    let unfinished = refused(&["one", "killed"]);
    assert!(unfinished.contains("shard 3/3"), "{unfinished}");
    assert!(unfinished.contains("is not finished"), "{unfinished}");
    let all = refused(&["one", "whole"]);
    assert!(all.contains("is not a shard of a sweep"), "{all}");
    copy(&path("one"), &path("again"));
    let same = refused(&["one", "again"]);
    assert!(same.contains("are the same shard, 1/3"), "{same}");
    let mut other = Sweep::part("2/3");
    other.arguments = arguments("--fs ext4 --states prefix --jobs 2");
    other.whole(&path("other states"));
    let other = refused(&["one", "other states"]);
    assert!(
        other.contains("are not shards of one sweep: states"),
        "{other}"
    );
    Sweep::part("2/4").whole(&path("of four"));
    let number = refused(&["one", "of four"]);
    assert!(number.contains("another number of shards"), "{number}");

    let merged = merge(
        &[path("one"), path("killed")],
        &path("merged"),
        true,
        OutputFormat::Json,
    );
    assert_eq!(merged.expect("merged"), Outcome::Incomplete);
    assert_eq!(results(&path("merged")), results(&path("one")));
    whole.resume(&path("merged")).expect("continued");
    assert_same(&path("merged"), &path("whole"));
}

#[test]
fn findings_are_numbered_grouped_and_told() {
    let (_kept, path) = place();
    Sweep::usual().whole(&path("out"));
    let findings = Findings::read(&path("out")).expect("read");
    let numbers: Vec<_> = findings
        .all
        .iter()
        .map(|found| (found.number, found.workload_number))
        .collect();
    assert_eq!(numbers, [(1, 2), (2, 4)]);
    assert!(findings.get(0).is_err() && findings.get(3).is_err());
    let found = findings.get(1).expect("the first");
    assert_eq!(found.findings()[0].promise, Promise::RenameAtomic);
    let FoundWhat::State(state) = &found.what else {
        panic!("no kernel died");
    };
    let contract = Contract::for_variant(&found.variant).ok();
    let story = Story {
        variant: &found.variant,
        contract,
        workload: &found.workload,
        state,
    };
    let text = story.text();
    for part in [
        "  setup       0  creat c\n",
        "  run         2  fsync d      <- the power fails while this is done\n",
        "(rename-atomic)",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let log = found.log.as_ref().expect("it is kept");
    let full = story.in_full(&Evidence::new(log, Disk::Honest));
    for part in ["                 1 write\n", "  prevented "] {
        assert!(full.contains(part), "{part} is not in\n{full}");
    }
}

#[test]
fn an_overview_says_what_is_open() {
    let (_kept, path) = place();
    let sweep = Sweep::usual();
    sweep
        .go_on(sweep.create(&path("out")).expect("begun"), 3)
        .expect("stopped");
    let overview = Overview::read(&path("out")).expect("read");
    assert!(!overview.finished && overview.file_systems[0].summary.interrupted);
    sweep.resume(&path("out")).expect("continued");
    let overview = Overview::read(&path("out")).expect("read");
    assert!(overview.finished);
    let swept = &overview.file_systems[0];
    assert_eq!(
        (swept.clean, swept.summary.findings, swept.summary.workloads),
        (3, 2, 6)
    );
    let open: Vec<_> = overview
        .open
        .iter()
        .map(|open| (open.number, open.has_findings))
        .collect();
    assert_eq!(open, [(1, false)]);
    assert!(overview.open[0].why.contains("creat b, was refused"));
}

/// A sweep with crashes in recoveries of a toy that does again what is done.
fn again() -> Sweep {
    Sweep {
        bug: Bug::RecoversTwice,
        workloads: [
            "creat a; fsync a",
            "creat b; append b 5000; append b 3000; fsync b",
            "creat c; write c 0 4K; fsync c",
        ]
        .map(workload)
        .into(),
        ..Sweep::new("--fs ext4 --states prefix --again 1 --jobs 2")
    }
}

#[test]
fn crashes_in_recoveries_survive_kills_and_parts() {
    let (_kept, path) = place();
    again().whole(&path("whole"));
    let counts = summary(&path("whole"))[0]["again"].clone();
    assert_eq!(counts["recoveries"], 3, "{counts}");
    assert!(counts["states_checked"].as_u64() > Some(6), "{counts}");
    let table = read(&path("whole").join(TABLE));
    let line = table.lines().last().expect("a line");
    let starts = "ext4: crashes in 3 recorded recoveries (0 of them wrote nothing): ";
    assert!(line.starts_with(starts), "{line}");
    let text = read(&path("whole").join(RESULTS));
    for end in ends(&text) {
        let killed = path(&format!("killed at {end}"));
        copy(&path("whole"), &killed);
        shorten(&killed.join(RESULTS), end);
        for name in [SUMMARY, TABLE] {
            fs::remove_file(killed.join(name)).expect("removed");
        }
        again().resume(&killed).expect("continued");
        assert_same(&killed, &path("whole"));
    }
    let parts = ["1/2", "2/2"].map(|text| {
        let part = path(&text.replace('/', " of "));
        let shard = Some(text.parse().expect("a shard"));
        Sweep { shard, ..again() }.whole(&part);
        part
    });
    merge(&parts, &path("merged"), false, OutputFormat::Json).expect("merged");
    assert_same(&path("merged"), &path("whole"));
}

#[test]
fn a_crash_in_a_recovery_is_told() {
    let (_kept, path) = place();
    assert_eq!(again().whole(&path("out")), Outcome::Findings);
    let findings = Findings::read(&path("out")).expect("read");
    let found = findings.get(1).expect("the first");
    let FoundWhat::State(state) = &found.what else {
        panic!("no kernel died");
    };
    assert_eq!(state.address(), "prefix@12/again/prefix@2");
    let (variant, workload) = (&found.variant, &found.workload);
    let story = Story {
        variant,
        contract: None,
        workload,
        state,
    };
    let log = found.log.as_ref().expect("it is kept");
    let full = story.in_full(&Evidence::new(log, Disk::Honest));
    for part in [
        "  again     the power failed again while the file system recovered: after write 2 of 4 of the recovery\n",
        "            the recovery has 3 writes, 1 flush, 1 discard, 1 flush\n",
        "            the first recovery, without this failure, breaks nothing\n",
        "  state     prefix@12/again/prefix@2\n",
        "  prevented a recovery that can begin anew after each of its writes",
    ] {
        assert!(full.contains(part), "{part} is not in\n{full}");
    }
    let line: Value = results(&path("out"))
        .values()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .find(|line: &Value| line["verdict"] == "finding")
        .expect("one");
    let state = &line["broken"][0];
    assert_eq!(state["address"], "prefix@12/again/prefix@2");
    assert_eq!(state["again"][0]["written"], 2);
    assert_eq!(state["again"][0]["clean"], true);
}

#[test]
fn older_programs_do_not_take_crashes_in_recoveries_for_others() {
    let format = |words: &str| -> Value {
        let (_kept, path) = place();
        Sweep::new(words).whole(&path("out"));
        // Without it nothing of it is said.
        let text = read(&path("out").join(RESULTS)) + &read(&path("out").join(SUMMARY));
        assert_eq!(text.contains("\"again\""), !words.ends_with('0'), "{text}");
        let manifest = read(&path("out").join("manifest.json"));
        let manifest: Value = serde_json::from_str(&manifest).expect("an object");
        manifest["format"].clone()
    };
    assert_eq!(format("--fs ext4 --again 1"), 3);
    assert_eq!(format("--fs ext4 --again 0"), 2);
}

#[test]
fn what_has_no_recovery_of_its_own_is_refused_before_anything_is_made() {
    let (_kept, path) = place();
    let refused = |words: &str| {
        let created = Sweep::new(words).create(&path("out"));
        assert!(!path("out").exists());
        created.expect_err("refused").to_string()
    };
    let repaired = refused("--fs ext4,ext2 --again 1");
    assert!(
        repaired.starts_with("ext2 does not recover by itself: e2fsck -f -y does"),
        "{repaired}"
    );
    let alone = refused("--fs ext4 --again-states prefix");
    assert!(alone.contains("give --again 1 with it"), "{alone}");
}
