//! What can be done with the findings of `crashpoint app`, however its sweep ended. Needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use end_to_end::{Ordinary, printed, program, require_root, said};
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

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(arguments)
            .current_dir(self.0.path())
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
    let mut child = place
        .command(&begin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    let begun = Instant::now();
    while place.lines("killed/results.jsonl") < 60 {
        assert!(begun.elapsed() < PATIENCE, "it does nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    // It has the directory locked, and is not disturbed.
    let running = place.show(&["killed"], 1);
    assert!(running.contains(UNENDED), "{running}");
    child.kill().expect("killed");
    child.wait().expect("it ends");
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
        &["--check-server", CHECK, "--out", "out", "--disk", "ext4"],
        SAVES,
        1,
    );
    let known = |text: &str| {
        let first_words = |row: &str| row.split_whitespace().take(7).collect::<Vec<_>>().join(" ");
        let is_of_level =
            |row: &&str| row.starts_with("posix ") || row.starts_with("ext4 on disk ");
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

/// Decides nothing of states with four and more acknowledgements, before there is a file `decide`.
const UNSURE: &str = "count=$(wc -l < {acks}); if ! test -e decide; then \
    test $count -lt 5 || { echo cannot read record $count >&2; exit 4; }; \
    test $count -ne 4 || kill -SEGV $$; fi; \
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
fn states_that_nobody_could_judge_are_listed_and_told_by_number() {
    let place = Place::new();
    place.sweep(
        &["--check", UNSURE, "--out", "out", "--disk", "ext4"],
        SAVES,
        1,
    );
    let listed = place.show(&["out"], 1);
    let findings = rows(&listed, "finding").len();
    let reasons = reasons(&listed);
    let [(first, states, why), (second, others, other)] = &*reasons else {
        panic!("{listed}")
    };
    let (signal, status) = (
        "the check was ended by SIGSEGV",
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
    let results = results
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
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
    let (behind, first) = ((last + 1).to_string(), first.to_string());
    for (arguments, part) in [
        (
            ["show", "out", &behind].as_slice(),
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

#[test]
fn states_that_nobody_could_judge_are_made_again() {
    let place = Place::new();
    place.sweep(
        &["--check", UNSURE, "--out", "out", "--disk", "ext4"],
        SAVES,
        1,
    );
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
