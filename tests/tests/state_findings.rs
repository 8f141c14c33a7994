//! What can be done with the findings of `crashpoint app`, however its sweep ended. Needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use end_to_end::{Ordinary, Running, objects, printed, program, require_root, said, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Saves that are not synced, of which crash states lose some.
const SAVES: &str =
    "for i in 1 2 3 4 5 6; do echo $i > {dir}/tmp && mv {dir}/tmp {dir}/file$i && echo $i; done";

/// Looks at each state for so long that there is something to kill.
const CHECK: &str = "while IFS='\t' read -r dir acks; do sleep 0.005; verdict=ok; \
    while read -r number; do test -s \"$dir/file$number\" || verdict='broken a file that was saved is empty or missing'; \
    done < \"$acks\"; echo \"$verdict\"; echo end; done";

/// A disk of which there is a recording. More take longer, and are no different.
const ONE_RECORDING: [&str; 4] = ["--disk", "ext4", "--schedules", "1"];

/// A directory in which crashpoint runs.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        require_root();
        Self(tempfile::tempdir_in("/dev/shm").expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What a killed one leaves goes with the place.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("TMPDIR", self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// Sweeps a shell program, and expects this status.
    fn sweep(&self, options: &[&str], words: &str, status: i32) {
        let output = self.run(&[&["app"], options, &["--", "sh", "-c", words]].concat());
        assert_eq!(
            output.status.code(),
            Some(status),
            "{}{}",
            printed(&output),
            said(&output)
        );
    }

    /// What `show` prints, which ends with this status.
    fn show(&self, words: &[&str], status: i32) -> String {
        let output = self.run(&[&["show"], words].concat());
        assert_eq!(
            output.status.code(),
            Some(status),
            "{}{}",
            printed(&output),
            said(&output)
        );
        printed(&output)
    }

    /// How many lines a file has.
    fn lines(&self, name: &str) -> usize {
        fs::read_to_string(self.path(name)).map_or(0, |text| text.lines().count())
    }
}

/// Every file below a directory, with what is in it and when that was changed.
fn content(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("read") {
        let path = entry.expect("an entry").path();
        let changed = path
            .metadata()
            .and_then(|data| data.modified())
            .expect("looked");
        if path.is_dir() {
            all.extend(content(&path));
            all.insert(path, (Vec::new(), changed));
        } else {
            let bytes = fs::read(&path).expect("read");
            all.insert(path, (bytes, changed));
        }
    }
    all
}

/// The rows of a table below the one that begins with a word, up to an empty line.
fn rows<'a>(text: &'a str, head: &str) -> Vec<&'a str> {
    let rows = text.lines().skip_while(|line| !line.starts_with(head));
    rows.skip(1).take_while(|line| !line.is_empty()).collect()
}

/// Takes what a sweep writes at its end from its directory.
fn as_if_killed(directory: &Path) {
    for name in ["findings.jsonl", "summary.jsonl", "summary.txt"] {
        fs::remove_file(directory.join(name)).expect("removed");
    }
}

const UNENDED: &str = "the sweep has not ended";

#[test]
fn a_killed_sweep_is_shown_as_far_as_it_came() {
    let place = Place::new();
    let begin = [
        "app",
        "--check-server",
        CHECK,
        "--out",
        "killed",
        "--",
        "sh",
        "-c",
        SAVES,
    ];
    let mut command = place.command(&begin);
    let mut running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_until("it has results", PATIENCE, || {
        place.lines("killed/results.jsonl") >= 60
    });
    // It has the directory locked, and is not disturbed.
    let shown = place.show(&["killed"], 1);
    assert!(shown.contains(UNENDED), "{shown}");
    running.kill().expect("killed");
    running.end();
    assert!(
        !place.path("killed/summary.jsonl").exists(),
        "it was not at work any more"
    );

    let before = content(&place.path("killed"));
    let shown = place.show(&["killed"], 1);
    assert!(
        shown.contains(UNENDED) && shown.contains("app --resume killed"),
        "{shown}"
    );
    assert!(shown.contains("stopped before the end: "), "{shown}");
    let checked = rows(&shown, "model")[0]
        .split_whitespace()
        .nth(3)
        .map(str::to_owned);
    assert_eq!(
        checked,
        Some(place.lines("killed/results.jsonl").to_string()),
        "{shown}"
    );
    let found = rows(&shown, "finding").len();
    assert!(found > 0, "{shown}");
    let story = place.show(&["killed", "1"], 1);
    assert!(
        story.contains("broken        a file that was saved"),
        "{story}"
    );
    let again = place.run(&["replay", "killed", "1", "--command", "true"]);
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));

    let report = [
        "report",
        "killed",
        "--html",
        "page.html",
        "--junit",
        "junit.xml",
    ];
    let output = place.run(&report);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let page = fs::read_to_string(place.path("page.html")).expect("read");
    assert!(page.contains(UNENDED) && page.contains("Finding 1: a file that was saved"));
    let junit = fs::read_to_string(place.path("junit.xml")).expect("read");
    let junit = roxmltree::Document::parse(&junit).expect("XML");
    let count = |name| {
        junit
            .descendants()
            .filter(|node| node.has_tag_name(name))
            .count()
    };
    assert_eq!((count("failure"), count("error")), (found, 1));
    assert_eq!(
        content(&place.path("killed")),
        before,
        "something was changed"
    );

    // What a kill left of the last line is no verdict.
    let path = place.path("killed/results.jsonl");
    let whole = fs::read_to_string(&path).expect("read");
    fs::write(&path, format!("{whole}{{\"type\":\"state\"")).expect("written");
    assert_eq!(place.show(&["killed"], 1), shown);
    // Nothing was known yet.
    fs::write(&path, "").expect("written");
    let nothing = place.show(&["killed"], 3);
    assert!(nothing.contains(UNENDED), "{nothing}");
    let output = place.run(&["show", "killed", "1"]);
    assert_eq!(
        (output.status.code(), said(&output).lines().count()),
        (Some(2), 1)
    );
    fs::write(&path, whole).expect("written");
    let output = place.run(&["app", "--resume", "killed"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(!place.show(&["killed"], 1).contains(UNENDED));
}

/// The sweep and its reader make the same findings of the same verdicts.
#[test]
fn a_sweep_that_was_killed_at_its_end_has_the_findings_of_one_that_was_not() {
    let place = Place::new();
    place.sweep(
        &[
            &["--check-server", CHECK, "--out", "out"],
            &ONE_RECORDING[..],
        ]
        .concat(),
        SAVES,
        1,
    );
    let known = |text: &str| {
        let first_words = |row: &str| row.split_whitespace().take(7).collect::<Vec<_>>().join(" ");
        let is_of_level =
            |row: &&str| row.starts_with("linux ") || row.starts_with("ext4 on disk ");
        let levels = text.lines().filter(is_of_level).map(first_words);
        rows(text, "finding")
            .into_iter()
            .map(str::to_owned)
            .chain(levels)
            .collect::<Vec<_>>()
    };
    let whole = place.show(&["out"], 1);
    as_if_killed(&place.path("out"));
    let killed = place.show(&["out"], 1);
    assert!(
        killed.contains(UNENDED) && !whole.contains(UNENDED),
        "{killed}"
    );
    assert_eq!(known(&killed), known(&whole));

    // Nobody needs to be root to read, also where disks would have to be mounted.
    let ordinary = Ordinary::new();
    let copy = ordinary.shared("out");
    for (path, (bytes, _)) in content(&place.path("out")) {
        let to = copy.join(path.strip_prefix(place.path("out")).expect("it is below"));
        if path.is_file() {
            fs::create_dir_all(to.parent().expect("one")).expect("made");
            fs::write(&to, bytes).expect("written");
        }
    }
    let output = ordinary
        .crashpoint(&["show", "out"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(known(&printed(&output)), known(&whole));

    // A sweep that was stopped, continued and killed knows more than it wrote when it was stopped.
    let place = Place::new();
    place.sweep(&["--check-server", CHECK, "--out", "out"], SAVES, 1);
    let all = known(&place.show(&["out"], 1));
    let path = place.path("out/summary.jsonl");
    let text = fs::read_to_string(&path).expect("read");
    let mut summary: Value = serde_json::from_str(&text).expect("an object");
    (summary["checked"], summary["left"]) = (1.into(), 100.into());
    fs::write(&path, format!("{summary}\n")).expect("written");
    fs::write(place.path("out/findings.jsonl"), "").expect("written");
    let shown = place.show(&["out"], 1);
    assert!(shown.contains(UNENDED), "{shown}");
    assert_eq!(known(&shown), all);
}

#[test]
fn a_killed_sweep_without_its_trace_says_so() {
    let place = Place::new();
    place.sweep(&["--check-server", CHECK, "--out", "out"], SAVES, 1);
    as_if_killed(&place.path("out"));
    fs::remove_dir_all(place.path("out/trace")).expect("removed");
    let output = place.run(&["show", "out"]);
    assert_eq!(
        (output.status.code(), said(&output).lines().count()),
        (Some(2), 1),
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("load out/trace"),
        "{}",
        said(&output)
    );
}

/// Decides nothing of states with four or five acknowledgements, before there is a file `decide`.
const UNSURE: &str = "count=$(wc -l < {acks}); if ! test -e decide; then \
    test $count -ne 5 || { echo cannot read record $count >&2; exit 4; }; \
    test $count -ne 4 || kill -KILL $$; fi; \
    for number in $(cat {acks}); do test -s {dir}/file$number || { echo broken a file is gone; exit 1; }; done; \
    echo ok";

/// The numbers of the first states that nobody could judge for each reason, how many they are, and
/// why, as `show` lists them.
fn reasons(listed: &str) -> Vec<(usize, usize, String)> {
    let reason = |row: &&str| {
        let words: Vec<_> = row.split_whitespace().collect();
        let number = |place: usize| words[place].parse().expect("a number");
        (number(0), number(1), words[2..].join(" "))
    };
    rows(listed, "inconclusive").iter().map(reason).collect()
}

#[test]
fn states_that_nobody_could_judge_are_listed_told_by_number_and_made_again() {
    let place = Place::new();
    place.sweep(
        &[&["--check", UNSURE, "--out", "out"], &ONE_RECORDING[..]].concat(),
        SAVES,
        1,
    );
    are_listed_and_told_by_number(&place);
    are_made_again(&place);
}

fn are_listed_and_told_by_number(place: &Place) {
    let listed = place.show(&["out"], 1);
    let findings = rows(&listed, "finding").len();
    let reasons = reasons(&listed);
    let [(first, states, why), (second, others, other)] = &*reasons else {
        panic!("{listed}")
    };
    let (signal, status) = (
        "the check was ended by SIGKILL",
        "the check ended with status 4: cannot read record",
    );
    let is_signal = why.starts_with(signal) && other.starts_with(status);
    let is_status = why.starts_with(status) && other.starts_with(signal);
    assert!(is_signal || is_status, "{listed}");
    assert_eq!(
        (*first, *second),
        (findings + 1, findings + 1 + states),
        "{listed}"
    );
    let results = fs::read_to_string(place.path("out/results.jsonl")).expect("read");
    let results = objects(&results).into_iter();
    let open: Vec<_> = results
        .filter(|line| line["verdict"] == "inconclusive")
        .collect();
    assert_eq!(open.len(), states + others);
    assert!(
        open.iter().any(|line| line["level"] == "block"),
        "the disk has some too"
    );

    // Each of them, to the last one, with its own words.
    let last = findings + states + others;
    for number in [*first, *second, last] {
        let story = place.show(&["out", &number.to_string()], 3);
        assert!(
            story.starts_with(&format!("INCONCLUSIVE {number}  ")),
            "{story}"
        );
        for part in [
            "  inconclusive  the check ",
            "  acknowledged  `",
            "  crash         after",
        ] {
            assert!(story.contains(part), "{story}");
        }
        assert!(!story.contains("broken"), "{story}");
    }
    let (after, first) = ((last + 1).to_string(), first.to_string());
    for (arguments, part) in [
        (
            ["show", "out", &after].as_slice(),
            format!("numbered from 1 to {last}"),
        ),
        (
            &["export", "out", &first, "--as", "script"],
            "inconclusive state".to_owned(),
        ),
    ] {
        let output = place.run(arguments);
        let lines = said(&output).lines().count();
        assert_eq!(
            (output.status.code(), lines),
            (Some(2), 1),
            "{}",
            said(&output)
        );
        assert!(said(&output).contains(&part), "{}", said(&output));
    }
    place.run(&["report", "out", "--junit", "junit.xml"]);
    let junit = fs::read_to_string(place.path("junit.xml")).expect("read");
    assert_eq!(junit.matches("<error").count(), 2, "{junit}");
}

fn are_made_again(place: &Place) {
    let reasons = reasons(&place.show(&["out"], 1));
    let (first, last) = (reasons[0].0, reasons[1].0 + reasons[1].1 - 1);
    let replay =
        |number: usize| place.run(&["replay", "out", &number.to_string(), "--command", "true"]);
    for number in [first, reasons[1].0, last] {
        let output = replay(number);
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        let part = format!("state {number} is inconclusive again");
        assert!(said(&output).contains(&part), "{}", said(&output));
    }
    let output = place.run(&["replay", "out", &first.to_string(), "--keep", "kept"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(place.lines("kept/acknowledged") >= 4);

    // What can be judged by now has a verdict, and the status of that.
    fs::write(place.path("decide"), "").expect("written");
    let mut statuses = BTreeMap::new();
    for number in first..=last {
        let output = replay(number);
        let said = said(&output);
        let is_ok = said.contains(&format!("the check said `ok` of state {number} this time"));
        let is_broken = said.contains("broken: a file is gone");
        assert_ne!(is_ok, is_broken, "{said}");
        assert_eq!(output.status.code(), Some(i32::from(is_broken)), "{said}");
        statuses.insert(is_broken, number);
        if statuses.len() == 2 {
            return;
        }
    }
    panic!("all of one kind: {statuses:?}");
}

/// Saves whole files that are not synced. What it says of a file that is gone depends on how many
/// are. It takes its time where there is a file `slow`, and adds a line to it.
const FILES: &str = "for i in 1 2 3 4 5 6; do echo $i > {dir}/file$i && echo $i; done";
const COUNTS: &str = "test ! -e slow || { echo >>slow; sleep 1; }; gone=0; for number in $(cat {acks}); do test -s {dir}/file$number || gone=$((gone+1)); done; \
    case $gone in 0) echo ok;; 1) echo broken one file is gone;; *) echo broken several files are gone;; esac";

/// Draws states until the check says this of a finding of them that lost so much; its number.
fn drawn(place: &Place, words: &str, lost: usize) -> String {
    let record = ["app", "--check", COUNTS, "--out", "whole", "--sample", "1"];
    place.run(&[&record[..], &["--", "sh", "-c", FILES]].concat());
    let most = lost.to_string();
    for seed in 0..100 {
        let seed = seed.to_string();
        let _ = fs::remove_dir_all(place.path("out"));
        let options = [
            "--sample", "6", "--seed", &seed, "--lost", &most, "--out", "out",
        ];
        let sweep = ["app", "--trace", "whole/trace", "--check", COUNTS];
        place.run(&[&sweep[..], &options].concat());
        let findings = fs::read_to_string(place.path("out/findings.jsonl")).expect("read");
        let findings = objects(&findings).into_iter();
        let is_it = |found: &Value| {
            let of_node = &found["nodes"][0];
            found["broken"][0] == words
                && of_node["lost"].as_array().map(Vec::len) == Some(lost)
                && of_node["midway"].is_null()
        };
        if let Some(found) = findings.into_iter().find(is_it) {
            return found["number"].to_string();
        }
    }
    panic!("none of the samples has one")
}

/// The two numbers around `words` and `down to` in the first line of what was minimized.
fn down(story: &str, words: &str) -> (usize, usize) {
    let line = story.lines().next().expect("a line");
    let (before, after) = line.split_once(&format!("{words} down to ")).expect(line);
    let first = before.rsplit(' ').find(|word| !word.is_empty());
    let last = after.split(|letter: char| !letter.is_ascii_digit()).next();
    let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).expect(line);
    (number(first), number(last))
}

#[test]
fn a_finding_that_was_drawn_is_minimized_to_one_operation_and_the_earliest_crash() {
    let place = Place::new();
    let number = drawn(&place, "one file is gone", 2);
    let before = content(&place.path("out"));
    let output = place.run(&["minimize", "out", &number, "--keep", "kept"]);
    let story = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{story}{}", said(&output));
    assert!(
        story.starts_with(&format!("FINDING {number}  linux  operations lost: ")),
        "{story}"
    );
    let (lost, left) = down(&story, "lost operations");
    assert_eq!((lost, left), (2, 1), "{story}");
    let (events, fewer) = down(&story, "events");
    assert!(fewer <= events, "{story}");
    assert_eq!(story.matches("\n  lost ").count(), 1, "{story}");
    assert!(
        story.contains("  broken        one file is gone") && story.contains("  prevented by  "),
        "{story}"
    );
    assert_eq!(
        content(&place.path("out")),
        before,
        "the results were changed"
    );

    // Only the last file that was acknowledged is gone, and nothing came after.
    let acknowledged = fs::read_to_string(place.path("kept/acknowledged")).expect("read");
    let files: Vec<_> = acknowledged.lines().collect();
    let is_whole = |name: &&&str| {
        let file = fs::metadata(place.path("kept/program").join(format!("file{name}")));
        file.is_ok_and(|file| file.len() > 0)
    };
    let whole = files.iter().filter(is_whole).count();
    assert_eq!(whole, files.len() - 1, "{acknowledged}");
    assert!(!is_whole(&files.last().expect("one")), "{story}");
    let there = fs::read_dir(place.path("kept/program"))
        .expect("read")
        .count();
    assert!(there <= files.len(), "{story}");
}

#[test]
fn what_needs_two_losses_keeps_two_and_its_words_unless_somebody_interrupts() {
    let place = Place::new();
    let number = drawn(&place, "several files are gone", 3);
    keeps_two_and_its_words(&place, &number);
    // From here on the check takes its time.
    tells_what_it_has_and_leaves_nothing(&place, &number);
}

fn keeps_two_and_its_words(place: &Place, number: &str) {
    let output = place.run(&["minimize", "out", number]);
    let story = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{story}{}", said(&output));
    assert_eq!(down(&story, "lost operations"), (3, 2), "{story}");
    assert!(
        story.contains("  broken        several files are gone"),
        "{story}"
    );
}

/// Writes whole files past the page cache, and flushes nothing.
const DIRECT: &str = "for i in 1 2 3; do head -c 4096 /dev/zero | tr '\\0' $i | \
    dd of={dir}/file$i bs=4096 iflag=fullblock oflag=direct conv=notrunc status=none && echo $i || exit 1; done";
const WRITTEN: &str = "for n in $(cat {acks}); do test \"$(head -c 1 {dir}/file$n)\" = $n || { echo broken a write is lost; exit; }; done; echo ok";

#[test]
fn a_disk_that_lost_everything_is_minimized_to_what_matters() {
    let place = Place::new();
    fs::create_dir(place.path("data")).expect("made");
    for number in 1..=3 {
        fs::write(place.path(&format!("data/file{number}")), [b'-'; 4096]).expect("written");
    }
    let flushed = ["--level", "block", "--states", "flushed", "--dir", "data"];
    place.sweep(
        &[
            &["--check", WRITTEN, "--out", "out"],
            &ONE_RECORDING[..],
            &flushed,
        ]
        .concat(),
        DIRECT,
        1,
    );
    // The largest of what was found: the first crash at which something is lost will do.
    let path = place.path("out/findings.jsonl");
    let mut found: Value =
        serde_json::from_str(&fs::read_to_string(&path).expect("read")).expect("one finding");
    let results = fs::read_to_string(place.path("out/results.jsonl")).expect("read");
    let results = objects(&results).into_iter();
    let broken = results.filter(|line| line["verdict"] == "broken");
    found["state"] = broken
        .map(|line| line["state"].as_u64())
        .max()
        .expect("one")
        .into();
    fs::write(&path, format!("{found}\n")).expect("written");
    let mut leasts = Vec::new();
    for again in ["kept", "again"] {
        let output = place.run(&["minimize", "out", "1", "--keep", again]);
        let story = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{story}{}", said(&output));
        leasts.push(down(&story, "events"));
        assert!(story.contains("  disk          ext4, "), "{story}");
        assert!(story.contains("  broken        a write is lost"), "{story}");
        let (lost, left) = down(&story, "lost writes");
        assert!(lost > 1 && left == 1, "{story}");
        // Nothing was acknowledged after what was lost.
        assert_eq!(
            fs::read_to_string(place.path(again).join("acknowledged")).expect("read"),
            "1\n"
        );
        let first = fs::read(place.path(again).join("program/file1")).expect("read");
        assert_eq!(first, [b'-'; 4096]);
    }
    assert_eq!(leasts[0], leasts[1]);
}

#[test]
fn what_cannot_be_minimized_says_why() {
    let place = Place::new();
    place.sweep(&["--check", COUNTS, "--out", "out"], FILES, 1);
    let findings = rows(&place.show(&["out"], 1), "finding").len();
    let refused = |arguments: &[&str], part: &str| {
        let output = place.run(arguments);
        let lines = said(&output).lines().count();
        assert_eq!(
            (output.status.code(), lines),
            (Some(2), 1),
            "{}",
            said(&output)
        );
        assert!(said(&output).contains(part), "{}", said(&output));
    };
    refused(
        &["minimize", "out", "99"],
        &format!("numbered from 1 to {findings}"),
    );
    refused(&["minimize", "out", "1", "--keep", "out"], "is not empty");
    // The check has changed its mind.
    let path = place.path("out/manifest.json");
    let manifest = fs::read_to_string(&path).expect("read");
    let judged = manifest.replace("echo broken", "echo ok");
    assert_ne!(manifest, judged);
    fs::write(&path, judged).expect("written");
    let output = place.run(&["minimize", "out", "1"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("finding 1 did not come again"),
        "{}",
        said(&output)
    );
    // What nobody could judge is no finding.
    let unsure = "if test -s {dir}/file6; then echo ok; else exit 7; fi";
    place.sweep(&["--check", unsure, "--out", "open"], FILES, 3);
    refused(&["minimize", "open", "1"], "inconclusive state");
}

/// Interrupts a minimization.
fn tells_what_it_has_and_leaves_nothing(place: &Place, number: &str) {
    fs::write(place.path("slow"), "").expect("written");
    let temporary = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let mut command = place.command(&["minimize", "out", number]);
    command.env("TMPDIR", temporary.path());
    let running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // The finding itself is checked twice.
    let checks = || fs::read(place.path("slow")).expect("read").len();
    wait_until("there are four checks", PATIENCE, || checks() >= 4);
    running.send(Signal::SIGINT);
    let output = running.output();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("interrupted: there may be something smaller"),
        "{}",
        said(&output)
    );
    assert!(printed(&output).starts_with(&format!("FINDING {number}  linux  ")));
    let left = temporary.path().read_dir().expect("read").count();
    assert_eq!(left, 0, "something is left");
}

/// A client that saves as often as it is told, or nine times, and forgets to sync from the third
/// time on.
const TOLD: &str = "i=0; while [ $i -lt ${CRASHPOINT_OPERATIONS:-9} ]; do i=$((i + 1)); echo $i > {dir}/file$i; \
    [ $i -ge 3 ] || sync {dir}/file$i {dir}; echo $i; done";
const SAVED: &str = "for n in $(cat {acks}); do test -s {dir}/file$n || { echo broken a saved file is empty or missing; exit; }; done; echo ok";

#[test]
fn a_client_that_can_be_told_is_recorded_again_in_the_shortest_run_that_shows_the_finding() {
    let place = Place::new();
    place.sweep(&["--check", SAVED, "--out", "out"], TOLD, 1);
    let before = content(&place.path("out"));
    let output = place.run(&["minimize", "out", "1", "--shorter", "short"]);
    let story = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{story}{}", said(&output));
    assert!(
        story.contains(": 9 acknowledgements down to 3, with CRASHPOINT_OPERATIONS=3 ("),
        "{story}"
    );
    assert!(
        said(&output).contains("1 operation: finding 1 is not there"),
        "{}",
        said(&output)
    );
    assert_eq!(
        content(&place.path("out")),
        before,
        "the results were changed"
    );
    assert!(!place.path("short-attempt").exists(), "an attempt is left");

    let again = place.run(&["minimize", "out", "1", "--shorter", "short"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    assert!(
        said(&again).contains("short is no empty directory: name a new one for --shorter"),
        "{}",
        said(&again)
    );

    // What is left is a sweep like any other.
    assert!(!rows(&place.show(&["short"], 1), "finding").is_empty());
    let again = place.run(&["replay", "short", "1", "--command", "true"]);
    assert_eq!(again.status.code(), Some(1), "{}", said(&again));
}

/// It wants two operations, or fails.
#[test]
fn a_client_that_fails_if_it_is_told_little_is_told_more() {
    let place = Place::new();
    let told = format!("[ ${{CRASHPOINT_OPERATIONS:-9}} -ge 2 ] || exit 7; {TOLD}");
    place.sweep(&["--check", SAVED, "--out", "out"], &told, 1);
    let output = place.run(&["minimize", "out", "1", "--shorter", "short"]);
    let story = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{story}{}", said(&output));
    assert!(
        said(&output).contains("1 operation: the program did not end as it should"),
        "{}",
        said(&output)
    );
    assert!(
        story.contains(": 9 acknowledgements down to 3, with CRASHPOINT_OPERATIONS=3 ("),
        "{story}"
    );
    assert!(!place.path("short-attempt").exists(), "an attempt is left");
}

#[test]
fn a_client_that_cannot_be_told_is_not_recorded_for_long() {
    let place = Place::new();
    place.sweep(&["--check", SAVED, "--out", "out"], FILES, 1);
    let output = place.run(&["minimize", "out", "1", "--shorter", "short"]);
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    let said = said(&output);
    assert!(
        said.contains("the client printed 6 lines with CRASHPOINT_OPERATIONS=1 as well"),
        "{said}"
    );
    assert_eq!(said.matches("recording with").count(), 1, "{said}");
    assert!(!place.path("short").exists() && !place.path("short-attempt").exists());
}
