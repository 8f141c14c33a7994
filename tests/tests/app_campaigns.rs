//! `crashpoint app` that is killed, continued, divided and put together. Needs root.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use end_to_end::{Random, objects, printed, program, require_root, said};
use serde_json::Value;
use tempfile::TempDir;

/// Saves of files with these numbers that are not synced, of which crash states lose some.
fn saves(numbers: &str) -> String {
    format!(
        "for i in {numbers}; do echo $i > {{dir}}/tmp && mv {{dir}}/tmp {{dir}}/file$i && echo $i; done"
    )
}

/// Looks at each state for so long that there is something to kill.
const CHECK: &str = "while IFS='\t' read -r dir acks; do sleep 0.005; verdict=ok; \
    while read -r number; do test -s \"$dir/file$number\" || verdict='broken a file that was saved is empty or missing'; \
    done < \"$acks\"; echo \"$verdict\"; echo end; done";

/// More recordings than these take longer, and are no different.
const TWO_RECORDINGS: [&str; 4] = ["--disk", "ext4", "--schedules", "2"];

/// A directory for results, with those of a whole sweep in `whole`.
struct Place {
    directory: TempDir,
}

impl Place {
    fn empty() -> Self {
        require_root();
        Self {
            directory: tempfile::tempdir_in("/dev/shm").expect("a directory"),
        }
    }

    fn new() -> Self {
        Self::of(&[], "1 2 3 4 5 6")
    }

    /// Of fewer files: there are more states of each.
    fn of_two_recordings() -> Self {
        Self::of(&TWO_RECORDINGS, "1 2 3")
    }

    fn of(options: &[&str], numbers: &str) -> Self {
        let (this, saves) = (Self::empty(), saves(numbers));
        let begin = [
            &["app", "--check-server", CHECK, "--out", "whole"],
            options,
            &["--", "sh", "-c", &saves],
        ]
        .concat();
        let output = this.run(&begin);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("crashpoint"));
        command.args(arguments).current_dir(self.directory.path());
        // What a killed one leaves goes with the place.
        command.env("TMPDIR", self.directory.path());
        // Bash and dash disagree about tabs in words.
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// Sweeps what was recorded once more.
    fn again(&self, out: &str, options: &[&str]) -> Output {
        let sweep = [
            "app",
            "--trace",
            "whole/trace",
            "--check-server",
            CHECK,
            "--out",
            out,
        ];
        self.run(&[&sweep, options].concat())
    }

    /// What a sweep left in a directory, but for how long it took.
    fn left_in(&self, name: &str) -> (String, Value) {
        let read = |file: &str| {
            let path = self.path(name).join(file);
            std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let mut summary: Value = serde_json::from_str(&read("summary.jsonl")).expect("an object");
        for level in summary["levels"].as_array_mut().into_iter().flatten() {
            level["seconds"] = Value::Null;
        }
        summary["seconds"] = Value::Null;
        (read("findings.jsonl"), summary)
    }

    fn assert_equal(&self, name: &str) {
        assert_eq!(self.left_in(name), self.left_in("whole"));
    }
}

/// Kills it some time after it was started, and says whether it was still at work.
fn killed(mut command: Command, after: Duration) -> bool {
    let began = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    while began.elapsed() < after {
        if child.try_wait().expect("looked").is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    let status = child.wait().expect("it ends");
    status.code().is_none()
}

#[test]
fn killed_at_random_moments() {
    let place = Place::new();
    let begin = [
        "app",
        "--trace",
        "whole/trace",
        "--check-server",
        CHECK,
        "--out",
        "killed",
    ];
    let mut random = Random::new();
    let mut kills = 0;
    for _ in 0..6 {
        let begun = place.path("killed/manifest.json").exists();
        let arguments: &[&str] = if begun {
            &["app", "--resume", "killed"]
        } else {
            &begin
        };
        kills += u32::from(killed(
            place.command(arguments),
            Duration::from_millis(random.below(400)),
        ));
    }
    assert!(kills > 0, "no kill came while it was at work");
    if !place.path("killed/manifest.json").exists() {
        place.run(&begin);
    }
    place.run(&["app", "--resume", "killed"]);
    place.assert_equal("killed");
}

#[test]
fn a_sweep_says_after_what_crashes_were_tried() {
    let place = Place::empty();
    let sweep = |numbers: &str, options: &[&str]| {
        let saves = format!(
            "for i in {numbers}; do echo $i > {{dir}}/tmp && sync {{dir}}/tmp && \
             mv {{dir}}/tmp {{dir}}/file$i && sync {{dir}} && echo $i; done"
        );
        let options = [&["app", "--check", "echo ok"], options].concat();
        place.run(&[&options[..], &["--", "sh", "-c", &saves]].concat())
    };
    let both = [&TWO_RECORDINGS[..], &["--level", "both"]].concat();
    let output = sweep("1 2", &both);
    // Of both recordings of the disk.
    for line in [
        "linux: crashes right after 4 of 4 syncs, 2 of 2 acknowledgements, 2 of 2 writes, 2 of 2 \
         renames",
        "ext4 on disk: crashes right after 8 of 8 syncs, 4 of 4 acknowledgements, 4 of 4 \
         writes, 4 of 4 renames",
    ] {
        assert!(
            printed(&output).lines().any(|printed| printed == line),
            "{}",
            printed(&output)
        );
    }

    // What was not looked at is not counted.
    let output = sweep("1 2 3", &["--sample", "3", "--format", "json"]);
    let printed = printed(&output);
    let summary: Value =
        serde_json::from_str(printed.lines().last().expect("a line")).expect("JSON");
    for (name, of) in [("syncs", 6), ("acknowledgements", 3), ("writes", 3)] {
        let tried = &summary["coverage"][name];
        assert_eq!(tried["of"], of, "{summary}");
        assert!(tried["after"].as_u64().expect("a number") < of, "{summary}");
    }
    assert!(summary["coverage"]["syncs"]["after"] != 0, "{summary}");
}

#[test]
fn a_sweep_of_two_recordings_is_continued_divided_and_shown_again() {
    let place = Place::of_two_recordings();
    stopped_when_its_time_is_up_and_continued(&place);
    the_state_of_a_finding_is_made_again(&place);
    shards_of_disks_are_put_together_and_nothing_is_left_mounted(&place);
}

fn stopped_when_its_time_is_up_and_continued(place: &Place) {
    let levels = ["--level", "both"];
    // The time is divided: the disk is reached. On a busy machine it takes longer to mount one.
    let output = (0..9)
        .map(|doubled| format!("{}ms", 200 << doubled))
        .find_map(|budget| {
            let _ = std::fs::remove_dir_all(place.path("over"));
            let output = place.again("over", &[&levels[..], &["--budget", &budget]].concat());
            let table = printed(&output);
            assert!(table.contains("stopped before the end: "), "{table}");
            let disk = table
                .lines()
                .find(|line| line.starts_with("ext4 on disk "))
                .expect("a row");
            let states = disk.split_whitespace().nth(3).expect("states");
            (states != "0").then_some(output)
        });
    let output = output.expect("the disk has no part of the time");
    assert!(
        said(&output).contains("app --resume over"),
        "{}",
        said(&output)
    );
    let output = place.run(&["app", "--resume", "over", "-j", "2"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    place.assert_equal("over");
    let output = place.run(&["app", "--resume", "over"]);
    assert!(said(&output).contains("is finished"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(1));
}

/// What is known is told, however early the sweep is stopped that continues with it.
#[test]
fn stopped_at_once_when_it_is_continued() {
    let place = Place::new();
    let path = place.path("whole/results.jsonl");
    let text = std::fs::read_to_string(&path).expect("read");
    let (_, others) = text.split_once('\n').expect("a line");
    std::fs::write(&path, others).expect("written");
    let (findings, _) = place.left_in("whole");
    let output = place.run(&["app", "--resume", "whole", "--budget", "1us"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let (left, summary) = place.left_in("whole");
    assert_eq!(left.lines().count(), findings.lines().count());
    let states = others
        .lines()
        .filter(|line| line.contains(r#""type":"state""#));
    let known = states.count() as u64;
    assert_eq!(summary["checked"].as_u64(), Some(known), "{summary}");
    assert_eq!(summary["interrupted"], true, "{summary}");
    let shown = place.run(&["show", "whole"]);
    assert!(
        !printed(&shown).contains("has not ended"),
        "{}",
        printed(&shown)
    );
    place.run(&["app", "--resume", "whole"]);
    let (left, _) = place.left_in("whole");
    assert_eq!(left, findings);
}

#[test]
fn a_whole_sweep_is_the_same_again_and_not_continued_where_that_would_be_another() {
    let place = Place::new();
    stopped_after_what_was_asked_for(&place);
    what_nobody_could_read_is_kept(&place);
    a_verdict_that_is_gone_is_found_again(&place);
    a_finding_that_is_none_any_more_says_so(&place);
    // It damages what was recorded.
    what_cannot_be_continued_says_why(&place);
}

fn stopped_after_what_was_asked_for(place: &Place) {
    let output = place.again("some", &["--stop-after", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let (_, summary) = place.left_in("some");
    let (_, whole) = place.left_in("whole");
    assert!(
        summary["checked"].as_u64() < whole["checked"].as_u64(),
        "{summary}"
    );
    assert!(summary["left"].as_u64() > Some(0), "{summary}");
    assert_eq!(
        summary["states"]
            .as_u64()
            .zip(summary["left"].as_u64())
            .map(|(one, other)| one + other),
        whole["states"].as_u64()
    );
}

fn what_nobody_could_read_is_kept(place: &Place) {
    let sweep = [
        "app",
        "--trace",
        "whole/trace",
        "--check-server",
        CHECK,
        "--out",
        "unread",
    ];
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("opened");
    let output = place
        .command(&sweep)
        .stdout(full)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    place.assert_equal("unread");
}

fn a_verdict_that_is_gone_is_found_again(place: &Place) {
    let path = place.path("whole/results.jsonl");
    let text = std::fs::read_to_string(&path).expect("read");
    let (first, others) = text.split_once('\n').expect("a line");
    std::fs::write(&path, others).expect("written");
    let before = place.left_in("whole");
    let output = place.run(&["app", "--resume", "whole"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(!said(&output).contains("is finished"), "{}", said(&output));
    assert_eq!(place.left_in("whole"), before);
    let text = std::fs::read_to_string(&path).expect("read");
    assert!(text.lines().any(|line| line == first), "{first}");
}

#[test]
fn divided_and_put_together() {
    let place = Place::new();
    for number in 1..=3 {
        place.again(
            &format!("part{number}"),
            &["--shard", &format!("{number}/3")],
        );
    }
    let refused = |arguments: &[&str], part: &str| {
        let output = place.run(arguments);
        assert_eq!(
            (output.status.code(), said(&output).lines().count()),
            (Some(2), 1),
            "{}",
            said(&output)
        );
        assert!(said(&output).contains(part), "{}", said(&output));
    };
    refused(
        &["merge", "part1", "part3", "--out", "merged"],
        "shard 2/3 is missing",
    );
    // A part that is stopped and continued is the same part.
    place.again("stopped", &["--shard", "2/3", "--budget", "1ms"]);
    refused(
        &["merge", "part1", "stopped", "part3", "--out", "merged"],
        "is not finished",
    );
    place.run(&["app", "--resume", "stopped"]);
    assert_eq!(place.left_in("stopped"), place.left_in("part2"));
    refused(
        &["merge", "part1", "part1", "--out", "merged"],
        "named twice",
    );
    let mut copied = Command::new("cp");
    copied
        .arg("-r")
        .args(["part1", "second"].map(|name| place.path(name)));
    assert!(copied.status().expect("cp runs").success());
    refused(
        &["merge", "part1", "second", "--out", "merged"],
        "are the same shard",
    );
    refused(
        &["merge", "part1", "whole", "--out", "merged"],
        "whole is not a shard",
    );
    let of_xfs = ["--shard", "2/3", "--model", "xfs", "--stop-after", "1"];
    place.again("other", &of_xfs);
    refused(
        &["merge", "part1", "other", "part3", "--out", "merged"],
        "are not shards of one sweep",
    );
    assert!(!place.path("merged").exists());
    let output = place.run(&["merge", "part3", "part1", "part2", "--out", "merged"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    place.assert_equal("merged");

    let output = place.run(&["merge", "part1", "--incomplete", "--out", "begun"]);
    assert!(
        said(&output).contains("app --resume begun"),
        "{}",
        said(&output)
    );
    place.run(&["app", "--resume", "begun"]);
    place.assert_equal("begun");
}

fn the_state_of_a_finding_is_made_again(place: &Place) {
    let findings = std::fs::read_to_string(place.path("whole/findings.jsonl")).expect("read");
    let findings = objects(&findings);
    let is_of_disk = |finding: &&Value| finding["nodes"][0]["disk"].is_object();
    let (on_disk, on_model) = (
        findings.iter().find(is_of_disk),
        findings.iter().find(|one| !is_of_disk(one)),
    );
    for finding in [
        on_disk.expect("the disk loses them too"),
        on_model.expect("one of the model"),
    ] {
        let number = finding["number"].to_string();
        // Whatever was acknowledged last is not there, or empty.
        let missing = "for n in $(cat {acks}); do test -s {dir}/file$n || echo missing $n; done";
        let output = place.run(&["replay", "whole", &number, "--command", missing]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(
            said(&output).contains("broken: a file that was saved is empty or missing"),
            "{}",
            said(&output)
        );
        assert!(
            printed(&output).starts_with("missing "),
            "{}",
            printed(&output)
        );

        let kept = place.path(&format!("kept-{number}"));
        let output = place.run(&[
            "replay",
            "whole",
            &number,
            "--keep",
            kept.to_str().expect("text"),
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let acknowledged = std::fs::read_to_string(kept.join("acknowledged")).expect("read");
        assert!(!acknowledged.is_empty());
        let is_there =
            |line: &str| std::fs::metadata(kept.join("program").join(format!("file{line}")));
        assert!(
            acknowledged
                .lines()
                .any(|line| is_there(line).map_or(true, |file| file.len() == 0)),
            "{acknowledged}"
        );
        let again = place.run(&[
            "replay",
            "whole",
            &number,
            "--keep",
            kept.to_str().expect("text"),
        ]);
        assert_eq!(
            (again.status.code(), said(&again).contains("is not empty")),
            (Some(2), true),
            "{}",
            said(&again)
        );
    }
    let output = place.run(&["replay", "whole", "99"]);
    assert!(
        said(&output).contains("numbered from 1 to"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_finding_is_exported_as_a_script_that_shows_it() {
    let place = Place::new();
    for (number, path) in [("1", "repro.sh"), ("2", "other.sh")] {
        let output = place.run(&["export", "whole", number, "--as", "script", "-o", path]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let mut script = Command::new(place.path(path));
        let shown = script
            .env("TMPDIR", place.directory.path())
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert!(
            printed(&shown).contains("broken a file that was saved is empty or missing"),
            "{shown:?}"
        );
        let text = std::fs::read_to_string(place.path(path)).expect("read");
        assert!(
            text.contains("#  broken ") && text.contains("#  lost "),
            "{text}"
        );
    }
    let output = place.run(&["export", "whole", "1", "--as", "jlang"]);
    assert!(said(&output).contains("--as script"), "{}", said(&output));
}

/// What the program does is no part of the script, also where it is words of several lines.
#[test]
fn a_script_does_not_run_the_program() {
    require_root();
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(arguments)
            .current_dir(directory.path())
            .env("TMPDIR", directory.path())
            .output()
            .expect("it runs")
    };
    let ran = directory.path().join("ran");
    let save = format!(
        "# {{dir}}\necho one > {{dir}}/a\necho saved\ntouch {}\n#",
        ran.display()
    );
    // Its words are those of a shell of its own: with quotes, statuses that are not 0, and files beside it.
    std::fs::write(directory.path().join("lost.sh"), "echo broken it is lost").expect("written");
    let check = "lines=$(grep -c . '{dir}/a'); saved=$(grep -c saved {acks}); \
                 [ \"$saved$unset\" = 1 ] && [ \"$lines\" != 1 ] && . ./lost.sh || echo ok";
    let swept = run(&[
        "app", "--check", check, "--out", "out", "--", "sh", "-c", &save,
    ]);
    assert_eq!(
        (swept.status.code(), ran.exists()),
        (Some(1), true),
        "{}",
        said(&swept)
    );
    std::fs::remove_file(&ran).expect("removed");
    run(&["export", "out", "1", "--as", "script", "-o", "repro.sh"]);
    let mut script = Command::new(directory.path().join("repro.sh"));
    let shown = script
        .env("TMPDIR", directory.path())
        .output()
        .expect("it runs");
    assert!(!ran.exists(), "it ran the program");
    assert!(printed(&shown).contains("broken it is lost"), "{shown:?}");
}

/// A program that keeps its path in its files: the script makes the state there.
#[test]
fn a_script_makes_the_state_where_the_program_had_it() {
    require_root();
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let save = "echo one > {dir}/a && ln -s {dir}/a {dir}/link && echo saved";
    let check = "if grep -q saved {acks} && ! test -s {dir}/link; then echo broken the link leads nowhere; else echo ok; fi";
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(arguments)
            .current_dir(directory.path())
            .env("TMPDIR", directory.path())
            .output()
            .expect("it runs")
    };
    let swept = run(&[
        "app", "--check", check, "--out", "out", "--", "sh", "-c", save,
    ]);
    assert_eq!(swept.status.code(), Some(1), "{}", said(&swept));
    run(&["export", "out", "1", "--as", "script", "-o", "repro.sh"]);
    let shown = Command::new(directory.path().join("repro.sh"))
        .env("TMPDIR", directory.path())
        .output()
        .expect("it runs");
    assert!(
        printed(&shown).contains("broken the link leads nowhere"),
        "{shown:?}"
    );
    let place = printed(&shown)
        .split("directory is ")
        .nth(1)
        .and_then(|rest| rest.split(',').next())
        .map(str::to_owned);
    let place = PathBuf::from(place.expect("it says where"));
    assert!(
        place.starts_with(directory.path()) && place.file_name().is_some_and(|name| name == "data"),
        "{place:?}"
    );
}

/// What a file has besides its bytes is in the script, too.
#[test]
fn a_script_has_extended_attributes() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let script = r#"
import os, sys
path = sys.argv[1] + "/a"
if len(sys.argv) == 2:
    open(path, "w").close()
    os.setxattr(path, "trusted.half", b"done")
    os.removexattr(path, "trusted.half")
else:
    has = os.path.exists(path) and "trusted.half" in os.listxattr(path)
    print("broken it is half done" if has else "ok")
"#;
    std::fs::write(directory.path().join("half.py"), script).expect("written");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program("crashpoint"));
        command.args(arguments).current_dir(directory.path());
        command.env("TMPDIR", directory.path());
        command.output().expect("it runs")
    };
    let path = directory.path().display();
    let check = format!("python3 {path}/half.py {{dir}} check");
    let own = format!("{path}/half.py");
    let swept = run(&[
        "app", "--check", &check, "--out", "out", "--", "python3", &own, "{dir}",
    ]);
    assert_eq!(swept.status.code(), Some(1), "{}", said(&swept));
    run(&["export", "out", "1", "--as", "script", "-o", "repro.sh"]);
    let mut script = Command::new(directory.path().join("repro.sh"));
    let shown = script.env("TMPDIR", directory.path()).output();
    let shown = shown.expect("it runs");
    assert!(
        printed(&shown).contains("broken it is half done"),
        "{shown:?}"
    );
}

fn a_finding_that_is_none_any_more_says_so(place: &Place) {
    let path = place.path("whole/manifest.json");
    let manifest = std::fs::read_to_string(&path).expect("read");
    let judged = manifest.replace("verdict='broken a file", "ignored='broken a file");
    assert_ne!(manifest, judged);
    std::fs::write(&path, judged).expect("written");
    let output = place.run(&["replay", "whole", "1", "--command", "true"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(
        said(&output).contains("did not come again"),
        "{}",
        said(&output)
    );
    std::fs::write(&path, manifest).expect("written");
}

fn shards_of_disks_are_put_together_and_nothing_is_left_mounted(place: &Place) {
    for number in 1..=2 {
        place.again(
            &format!("part{number}"),
            &["--level", "both", "--shard", &format!("{number}/2")],
        );
    }
    let mounts = || std::fs::read_to_string("/proc/self/mounts").expect("read");
    let before = mounts();
    let output = place.run(&["merge", "part1", "part2", "--out", "merged"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(mounts(), before);
    place.assert_equal("merged");
}

/// A check is named by where it lies for whoever begins.
#[test]
fn a_sweep_is_continued_from_anywhere() {
    let place = Place::new();
    std::fs::write(place.path("check.sh"), format!("#!/bin/sh\n{CHECK}\n")).expect("written");
    let begin = [
        "app",
        "--trace",
        "whole/trace",
        "--check-server",
        "sh ./check.sh",
        "--out",
        "here",
        "--budget",
        "50ms",
    ];
    place.run(&begin);
    let here = place.path("here");
    let mut elsewhere = place.command(&["app", "--resume", here.to_str().expect("text")]);
    let output = elsewhere.current_dir("/").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    place.assert_equal("here");
    let mut elsewhere = place.command(&[
        "replay",
        here.to_str().expect("text"),
        "1",
        "--command",
        "true",
    ]);
    let output = elsewhere.current_dir("/").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

fn what_cannot_be_continued_says_why(place: &Place) {
    let refused = |arguments: &[&str], part: &str| {
        let output = place.run(arguments);
        assert_eq!(
            (output.status.code(), said(&output).lines().count()),
            (Some(2), 1),
            "{}",
            said(&output)
        );
        assert!(said(&output).contains(part), "{}", said(&output));
    };
    refused(&["app", "--resume", "nowhere"], "nowhere");
    refused(
        &["app", "--resume", "whole", "--check", "true"],
        "cannot be used with",
    );
    refused(
        &["app", "--resume", "whole", "--model", "xfs"],
        "cannot be used with",
    );
    refused(
        &["cluster", "sweep", "--resume", "whole"],
        "crashpoint app --resume whole",
    );
    refused(&["fs", "--resume", "whole"], "program or a cluster");
    refused(&["app", "--trace", "nowhere", "--check", "true"], "nowhere");
    refused(
        &[
            "app",
            "--trace",
            "whole/trace",
            "--check",
            "true",
            "--level",
            "block",
        ],
        "no disk",
    );
    let path = place.path("whole/summary.jsonl");
    std::fs::remove_file(path).expect("removed");
    let path = place.path("whole/manifest.json");
    let text = std::fs::read_to_string(&path).expect("read");
    let mut other: Value = serde_json::from_str(&text).expect("JSON");
    other["kernel_release"] = "9.9.9".into();
    other["request"]["level"] = "block".into();
    std::fs::write(&path, other.to_string()).expect("written");
    refused(
        &["app", "--resume", "whole"],
        "cannot go on here: the kernel was 9.9.9",
    );
    std::fs::write(&path, text).expect("written");
    damage(&place.path("whole/trace/trace.json"));
    refused(&["app", "--resume", "whole"], "trace");
}

/// Changes a file, so that it stays what it is to a reader of JSON.
fn damage(path: &Path) {
    let text = std::fs::read_to_string(path).expect("read");
    std::fs::write(path, text + "\n").expect("written");
}
