//! A sweep that is stopped at any moment, by any signal, and continued ends with the results of
//! one that was not; its shards, merged, too. Needs root.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use end_to_end::{Family, Random, Running, printed, program, require_root, said, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Where a test keeps its sweeps. They stay there if it fails.
struct Place(tempfile::TempDir);

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("its sweeps are kept in {}", self.0.path().display());
        }
    }
}

impl Place {
    fn new() -> Self {
        require_root();
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `crashpoint` with these arguments; paths are relative to the place.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("TMPDIR", self.0.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    /// Runs it to its end, which must have this status.
    #[track_caller]
    fn ends(&self, status: i32, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {}",
            said(&output)
        );
        output
    }

    /// Runs what must be refused with one line that says these things.
    #[track_caller]
    fn refuses(&self, arguments: &[&str], expected: &[&str]) {
        let output = self.ends(2, arguments);
        let said = said(&output);
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(
            expected.iter().all(|part| said.contains(part)),
            "{arguments:?}: {said} lacks one of {expected:?}"
        );
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(arguments);
        Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// The lines of its results, in order, without what another run of the same may ask of the disk
    /// in another order.
    fn results(&self, name: &str) -> Vec<String> {
        let text =
            std::fs::read_to_string(self.path(name).join("results.jsonl")).unwrap_or_default();
        let without_log = |line: &str| {
            let Ok(mut result) = serde_json::from_str::<Value>(line) else {
                return line.to_owned();
            };
            result.as_object_mut().expect("an object").remove("log");
            add_up_states(&mut result);
            for state in result["broken"].as_array_mut().expect("an array") {
                for field in ["position", "pending", "lost"] {
                    assert!(
                        state
                            .as_object_mut()
                            .expect("an object")
                            .remove(field)
                            .is_some(),
                        "{field}"
                    );
                }
            }
            result.to_string()
        };
        let mut lines: Vec<_> = text.lines().map(without_log).collect();
        lines.sort();
        lines
    }

    /// Has the few workloads whose results differ be tested once more, in both sweeps. sync(2) reaches
    /// every disk, so also one under test when anybody on the machine calls it: then the file
    /// system writes at other moments, and of a disk that drops flushes something else is left.
    #[track_caller]
    fn test_differing_again(&self, undisturbed: &str, other: &str) {
        let again = to_test_again(&self.results(undisturbed), &self.results(other));
        let differing = again.unwrap_or_else(|why| panic!("{other}: {why}"));
        if differing.is_empty() {
            return;
        }
        for name in [undisturbed, other] {
            let path = self.path(name).join("results.jsonl");
            let text = std::fs::read_to_string(&path).expect("read");
            let (again, rest): (Vec<_>, Vec<_>) = text
                .split_inclusive('\n')
                .partition(|line| differing.contains(&workload_of(line)));
            println!("tested again in {name}: {again:#?}");
            std::fs::write(&path, rest.concat()).expect("written");
            let output = self.run(&["fs", "--resume", name]);
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{}",
                said(&output)
            );
        }
    }

    /// The two directories hold the same sweep, finished. Nothing happened to the first.
    #[track_caller]
    fn assert_equal(&self, undisturbed: &str, other: &str) {
        self.test_differing_again(undisturbed, other);
        let lines = [undisturbed, other].map(|name| {
            let lines = self.results(name);
            assert!(!lines.is_empty());
            lines
        });
        let sets = lines
            .each_ref()
            .map(|lines| lines.iter().collect::<BTreeSet<_>>());
        let differing: Vec<_> = sets[0].symmetric_difference(&sets[1]).collect();
        assert!(
            differing.is_empty(),
            "{} and {} lines: {differing:#?}",
            lines[0].len(),
            lines[1].len()
        );
        assert_eq!(
            lines[0].len(),
            lines[1].len(),
            "a workload was tested twice"
        );
        assert_eq!(self.summaries(undisturbed), self.summaries(other));
        assert_eq!(self.manifest(undisturbed), self.manifest(other));
    }

    /// The summaries without times.
    fn summaries(&self, name: &str) -> Vec<Value> {
        let text =
            std::fs::read_to_string(self.path(name).join("summary.jsonl")).expect("a summary");
        let without_times = |line: &str| {
            let mut value: Value = serde_json::from_str(line).expect("JSON");
            let fields = value.as_object_mut().expect("an object");
            assert!(
                fields
                    .remove("seconds")
                    .is_some_and(|seconds| seconds.as_f64() > Some(0.0))
            );
            assert!(fields.remove("time_us").is_some());
            add_up_states(&mut value);
            value
        };
        text.lines().map(without_times).collect()
    }

    /// The manifest without information.
    fn manifest(&self, name: &str) -> Value {
        let text = std::fs::read(self.path(name).join("manifest.json")).expect("a manifest");
        let mut manifest: Value = serde_json::from_slice(&text).expect("JSON");
        for name in ["command_line", "jobs", "workloads"] {
            assert!(
                manifest
                    .as_object_mut()
                    .expect("an object")
                    .remove(name)
                    .is_some(),
                "{name}"
            );
        }
        manifest
    }
}

/// The file system and the number of the workload of a line of results.
fn workload_of(line: &str) -> (String, u64) {
    let result: Value = serde_json::from_str(line).expect("JSON");
    (
        result["variant"].to_string(),
        result["number"].as_u64().expect("a number"),
    )
}

/// How many workloads may differ because somebody on the machine called sync(2) while they were under
/// test. A kill that breaks something breaks more, or what was under test with each kill.
const DIFFERING_MAX: usize = 2;

/// The workloads of which the results of two sweeps differ, as they may for somebody else's sake: what
/// a sweep itself does wrong, it does again. With what it left out or did twice it is not helped.
///
/// # Errors
/// If more differ, or one was only measured in the sweep that nobody disturbed.
fn to_test_again(
    undisturbed: &[String],
    other: &[String],
) -> Result<BTreeSet<(String, u64)>, String> {
    let keys = |lines: &[String]| {
        let mut keys: Vec<_> = lines.iter().map(|line| workload_of(line)).collect();
        keys.sort();
        keys
    };
    if keys(undisturbed) != keys(other) {
        return Ok(BTreeSet::new());
    }
    let measured = |lines: &[String]| {
        let measured = lines.iter().filter(|line| is_measured(line));
        measured
            .map(|line| workload_of(line))
            .collect::<BTreeSet<_>>()
    };
    let [before, after] = [undisturbed, other].map(measured);
    let unmeasured: Vec<_> = before.difference(&after).collect();
    if !unmeasured.is_empty() {
        return Err(format!(
            "inconclusive, and not by themselves: {unmeasured:?}"
        ));
    }
    let [before, after] = [undisturbed, other].map(|lines| lines.iter().collect::<BTreeSet<_>>());
    let differing = before.symmetric_difference(&after);
    let differing: BTreeSet<_> = differing.map(|line| workload_of(line)).collect();
    if differing.len() > DIFFERING_MAX {
        return Err(format!("too many differ: {differing:?}"));
    }
    Ok(differing)
}

/// Whether the result of this line is not inconclusive.
fn is_measured(line: &str) -> bool {
    let result: Value = serde_json::from_str(line).expect("JSON");
    result["inconclusive"].is_null()
}

/// Which states are equal to others depends on what the kernel had written by then: their sum does
/// not.
fn add_up_states(value: &mut Value) {
    let fields = value.as_object_mut().expect("an object");
    let mut take = |name| {
        fields
            .remove(name)
            .and_then(|number| number.as_u64())
            .expect("a number")
    };
    let states = take("states_checked") + take("states_equal");
    fields.insert("states".into(), states.into());
}

/// Arguments and more of them.
fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

/// Sweeps into `killed` with a SIGKILL after each of these times, and then to its end. Every other
/// time counts from the first new result, so that there is some work between the kills however
/// slow the machine is. What was killed before it had begun is begun again. Returns how often it
/// was killed at work.
fn sweep_killed(place: &Place, sweep: &[&str], moments_ms: impl Iterator<Item = u64>) -> usize {
    let begin = with(sweep, &["--out", "killed"]);
    let resume = ["fs", "--resume", "killed"];
    let next = || {
        if place.path("killed/manifest.json").exists() {
            resume.to_vec()
        } else {
            begin.clone()
        }
    };
    let mut kills = 0;
    for (number, moment) in moments_ms.enumerate() {
        let before = place.results("killed").len();
        let mut process = place.start(&next());
        wait_until("it goes on", PATIENCE, || {
            number % 2 == 0 || place.results("killed").len() > before || process.has_ended()
        });
        std::thread::sleep(Duration::from_millis(moment));
        let ended = process.has_ended();
        process.kill().expect("killed");
        process.end();
        let after = place.results("killed").len();
        println!(
            "killed after {moment} ms: {before} -> {after} results{}",
            if ended { ", ended" } else { "" }
        );
        kills += usize::from(!ended && after > before);
    }
    place.ends(1, &next());
    kills
}

const LYING: [&str; 5] = ["fs", "--disk", "drop-flush", "--jobs", "2"];

#[test]
fn killed_at_random_moments() {
    let place = Place::new();
    let sweep = with(
        &LYING,
        &[
            "--fs", "ext4,xfs", "--preset", "seq-2", "--sample", "24", "--seed", "7",
        ],
    );
    place.ends(1, &with(&sweep, &["--out", "whole"]));
    let mut random = Random::new();
    let kills = sweep_killed(&place, &sweep, (0..3).map(|_| random.below(400)));
    assert!(kills > 0, "no kill came while it was at work");
    place.assert_equal("whole", "killed");
}

/// `make test-kills`
#[test]
#[ignore = "takes minutes: make test-kills"]
fn killed_twenty_times() {
    let place = Place::new();
    let sweep = with(
        &LYING,
        &[
            "--fs", "ext4,xfs", "--preset", "seq-2", "--sample", "300", "--seed", "7",
        ],
    );
    place.ends(1, &with(&sweep, &["--out", "whole"]));
    let mut random = Random::new();
    let kills = sweep_killed(&place, &sweep, (0..20).map(|_| random.below(800)));
    assert!(
        kills >= 5,
        "only {kills} of 20 kills came while it was at work"
    );
    place.assert_equal("whole", "killed");
}

#[test]
fn killed_at_the_very_start() {
    let place = Place::new();
    let sweep = with(&LYING, &["--fs", "ext4", "--ops", "1", "--range", "0..8"]);
    place.ends(1, &with(&sweep, &["--out", "whole"]));
    sweep_killed(&place, &sweep, (0..8).map(|number| number * 6));
    place.assert_equal("whole", "killed");
}

/// What a kill leaves between two steps.
#[test]
fn killed_between_two_steps() {
    let place = Place::new();
    let sweep = with(&LYING, &["--fs", "ext4", "--ops", "1", "--range", "0..6"]);
    place.ends(1, &with(&sweep, &["--out", "whole"]));
    place.ends(1, &with(&sweep, &["--out", "left"]));
    let results = place.path("left/results.jsonl");
    let text = std::fs::read_to_string(&results).expect("read");
    let put = |name: &str, content: &str| {
        std::fs::write(place.path("left").join(name), content).expect("written");
    };
    let remove = |name: &str| std::fs::remove_file(place.path("left").join(name)).expect("removed");
    let steps: [(&str, &dyn Fn()); 8] = [
        ("a torn line", &|| {
            put("results.jsonl", &text[..text.len() - 9]);
        }),
        ("a line without its end", &|| {
            put("results.jsonl", &text[..text.len() - 1]);
        }),
        ("zeros where a line was", &|| {
            put(
                "results.jsonl",
                &format!("{}\0\0\0", &text[..=text.find('\n').unwrap()]),
            );
        }),
        ("no results yet", &|| {
            for name in [
                "results.jsonl",
                "times.jsonl",
                "summary.jsonl",
                "summary.txt",
            ] {
                remove(name);
            }
        }),
        ("half a summary", &|| {
            remove("summary.jsonl");
            put("summary.jsonl.tmp", "{\"type\":\"summ");
        }),
        ("a torn time", &|| {
            remove("summary.jsonl");
            put("times.jsonl", "{\"type\":\"time\",\"file_sy");
            put("results.jsonl", &text[..=text.find('\n').unwrap()]);
        }),
        ("a table without summary", &|| remove("summary.jsonl")),
        ("one result is missing", &|| {
            put("results.jsonl", &text[text.find('\n').unwrap() + 1..]);
        }),
    ];
    for (what, step) in steps {
        println!("{what}");
        step();
        place.ends(1, &["fs", "--resume", "left"]);
        if what != "half a summary" && what != "a table without summary" {
            place.assert_equal("whole", "left");
        }
        assert_eq!(place.results("whole"), place.results("left"), "{what}");
    }
    // Before the manifest is there nothing has begun.
    for name in [
        "manifest.json",
        "results.jsonl",
        "summary.jsonl",
        "summary.txt",
    ] {
        remove(name);
    }
    put("manifest.json.tmp", "{");
    place.refuses(
        &["fs", "--resume", "left"],
        &["no sweep was begun in left", "--out left"],
    );
    place.ends(1, &with(&sweep, &["--out", "left"]));
    place.assert_equal("whole", "left");
}

#[test]
fn what_differs_is_tested_again_and_what_is_missing_is_not() {
    let place = Place::new();
    let sweep = with(&LYING, &["--fs", "ext4", "--ops", "1", "--range", "0..4"]);
    place.ends(1, &with(&sweep, &["--out", "whole"]));
    place.ends(1, &with(&sweep, &["--out", "other"]));
    let path = place.path("other/results.jsonl");
    let text = std::fs::read_to_string(&path).expect("read");
    let first = text.lines().next().expect("a line");
    let mut result: Value = serde_json::from_str(first).expect("JSON");
    result["broken"] = Value::Array(Vec::new());
    std::fs::write(&path, text.replacen(first, &result.to_string(), 1)).expect("written");
    assert_ne!(place.results("whole"), place.results("other"));
    place.assert_equal("whole", "other");
    let text = std::fs::read_to_string(&path).expect("read");
    for wrong in [
        text.replacen(text.lines().next().expect("a line"), "", 1)
            .trim_start(),
        &format!("{text}{first}\n"),
    ] {
        std::fs::write(&path, wrong).expect("written");
        place.test_differing_again("whole", "other");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), wrong);
    }
}

/// What a kill broke would not differ any more either.
#[test]
fn what_nobody_else_can_have_done_is_not_tested_again() {
    // Of five workloads, of which the first ones break something, and the last may be inconclusive.
    let sweep = |broken: u64, why: Option<&str>| {
        let line = |number: u64| {
            let why = why.filter(|_| number == 4);
            let finds = number < broken;
            serde_json::json!({"variant": "", "number": number, "inconclusive": why, "finds": finds})
        };
        let lines = (0..5).map(|number| line(number).to_string());
        lines.collect::<Vec<_>>()
    };
    let whole = sweep(0, None);
    let differing = |other: Vec<String>| {
        let again = to_test_again(&whole, &other);
        again.map(|workloads| workloads.len())
    };
    for may_differ in 0..=2 {
        assert_eq!(differing(sweep(may_differ, None)), Ok(may_differ as usize));
    }
    assert!(differing(sweep(3, None)).is_err());
    assert!(differing(sweep(0, Some("killed"))).is_err());
    // One that nobody disturbed, and that could not be measured, may be better the next time.
    let again = to_test_again(&sweep(0, Some("no room")), &whole);
    assert_eq!(again.map(|workloads| workloads.len()), Ok(1));
}

#[test]
fn damage_before_results_is_not_thrown_away() {
    let place = Place::new();
    place.ends(
        0,
        &[
            "fs", "--fs", "ext4", "--ops", "1", "--range", "0..4", "--out", "out",
        ],
    );
    let path = place.path("out/results.jsonl");
    let text = std::fs::read_to_string(&path).expect("read");
    let damaged = text.replacen('{', "\0\0\0", 1);
    std::fs::write(&path, &damaged).expect("written");
    place.refuses(
        &["fs", "--resume", "out"],
        &["results.jsonl:1 is damaged", "remove that line"],
    );
    assert_eq!(std::fs::read_to_string(&path).expect("read"), damaged);
}

#[test]
fn stopped_by_a_signal_to_everybody() {
    let place = Place::new();
    let sweep = with(&LYING, &["--fs", "ext4", "--ops", "1", "--range", "0..100"]);
    place.ends(1, &with(&sweep, &["--out", "whole"]));
    let mut arguments = with(&sweep, &["--out", "stopped"]);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let before = place.results("stopped").len();
        let mut process = place.start(&arguments);
        wait_until("there are 8 more results", PATIENCE, || {
            assert!(!process.has_ended(), "it ended too early");
            place.results("stopped").len() >= before + 8
        });
        // As a service manager does it: the workers get it too, and die of it.
        let family = Family::of(process.id());
        for pid in family.pids() {
            let _ = kill(Pid::from_raw(pid), signal);
        }
        let status = process.end().code();
        println!(
            "{signal}: {status:?}, {} results",
            place.results("stopped").len()
        );
        assert!(matches!(status, Some(1..=3)), "{signal}: {status:?}");
        arguments = vec!["fs", "--resume", "stopped"];
    }
    place.ends(1, &arguments);
    place.assert_equal("whole", "stopped");
}

#[test]
fn checkers_that_somebody_kills_accuse_nobody() {
    checkers_that_end_accuse_nobody(&["kill -KILL $$"], 1..3);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn checkers_that_somebody_kills_or_asks_to_end_at_any_time_accuse_nobody() {
    checkers_that_end_accuse_nobody(&["kill -KILL $$", "exit 32", "exit 33"], 1..5);
}

/// ext2 is repaired before it is mounted, and checked afterwards: a run of e2fsck is killed, or
/// asked to end, which it does with a status of its own (e2fsck(8)); and then all of them.
fn checkers_that_end_accuse_nobody(ways: &[&str], runs: std::ops::Range<u32>) {
    let place = Place::new();
    let script = format!(
        "#!/bin/sh\nexec 9>lock; flock 9\ncount=$(cat count 2>/dev/null || echo 0)\necho $((count + 1)) >count\n\
         exec 9>&-\n\
         case \" $KILLED \" in *\" $count \"*) eval \"$HOW\";; esac\n\
         exec {} \"$@\"\n",
        local_fs::find_program("e2fsck")
            .expect("it is installed")
            .display()
    );
    for name in ["e2fsck", "e2fsck.static"] {
        std::fs::write(place.path(name), &script).expect("written");
        std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o755))
            .expect("changed");
    }
    let sweep = [
        "fs", "--fs", "ext2", "--jobs", "1", "--ops", "1", "--range", "3..7",
    ];
    let killed = |killed: &str, how: &str, status: i32, inconclusive: u64, out: &str| {
        let mut command = place.command(&with(&sweep, &["--out", out, "--format", "json"]));
        let path = format!(
            "{}:{}",
            place.path("").display(),
            std::env::var("PATH").expect("there is a PATH")
        );
        let output = command
            .env("PATH", path)
            .env("KILLED", killed)
            .env("HOW", how)
            .output()
            .expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(status),
            "{killed}: {}{}",
            printed(&output),
            said(&output)
        );
        let summary: Value = place.summaries(out).remove(0);
        assert_eq!(
            (&summary["findings"], &summary["inconclusive"]),
            (&0.into(), &inconclusive.into()),
            "{summary}"
        );
        std::fs::remove_file(place.path("count")).expect("it ran");
    };
    killed("none", "true", 0, 0, "whole");
    let always: Vec<_> = (1..1000).map(|number| number.to_string()).collect();
    for how in ways {
        // The first one repairs the disk that is mounted to see whether there is such a file
        // system.
        for first in runs.clone() {
            let out = format!("killed-{first}-{how}");
            killed(&first.to_string(), how, 0, 0, &out);
            place.assert_equal("whole", &out);
        }
        killed(&always.join(" "), how, 3, 4, &format!("never-{how}"));
    }
}

#[test]
fn a_finished_sweep_says_so_and_changes_nothing() {
    let place = Place::new();
    let shown = place.ends(
        1,
        &with(
            &LYING,
            &[
                "--fs", "ext4", "--ops", "1", "--range", "0..5", "--out", "out",
            ],
        ),
    );
    let before = snapshot(&place.path("out"));
    let again = place.ends(1, &["fs", "--resume", "out", "--jobs", "1"]);
    assert!(
        said(&again).contains("is finished: 5 results"),
        "{}",
        said(&again)
    );
    assert!(
        printed(&shown).ends_with(&printed(&again)) && printed(&again).contains("ext4"),
        "{}",
        printed(&again)
    );
    let json = place.ends(1, &["fs", "--resume", "out", "--format", "json"]);
    let summary: Value = serde_json::from_slice(&json.stdout).expect("one object");
    assert_eq!(
        (&summary["workloads"], &summary["interrupted"]),
        (&5.into(), &false.into())
    );
    assert_eq!(snapshot(&place.path("out")), before);
}

/// The files of a directory and what is in them.
fn snapshot(directory: &Path) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).expect("read").flatten();
    entries
        .map(|entry| (entry.path(), std::fs::read(entry.path()).expect("read")))
        .collect()
}

#[test]
fn shards_are_disjoint_and_complete_and_merge_to_the_whole() {
    let place = Place::new();
    let file = "workload a; creat foo; fsync foo\nworkload a; creat foo; fsync foo\nmkdir A; sync\nworkload \"x y\"\n  \
                setup\n  mkdir A\n  run\n  creat A/foo\n  fsync A/foo\n";
    std::fs::write(place.path("files.wl"), file).expect("written");
    let selections: [&[&str]; 4] = [
        &["--ops", "1", "--range", "3..15"],
        &["--preset", "seq-2", "--sample", "12", "--seed", "5"],
        &["--ops", "1", "--all", "--range", "0..15", "--sample", "9"],
        &["files.wl"],
    ];
    for (number, selection) in selections.into_iter().enumerate() {
        let sweep = [LYING.as_slice(), &["--fs", "ext4"], selection].concat();
        let name = |part: &str| format!("{part}-{number}");
        let (whole, merged) = (name("whole"), name("merged"));
        place.ends(1, &with(&sweep, &["--out", &whole]));
        let parts = [1, 2, 3].map(|shard| name(&format!("part{shard}")));
        for (shard, part) in ["1/3", "2/3", "3/3"].iter().zip(&parts) {
            // What a part holds is decided by its number; one of files may hold nothing.
            let output = place.run(&with(&sweep, &["--shard", shard, "--out", part]));
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{}",
                said(&output)
            );
        }
        let in_parts: Vec<_> = parts.iter().map(|part| place.results(part).len()).collect();
        assert_eq!(
            in_parts.iter().sum::<usize>(),
            place.results(&whole).len(),
            "{in_parts:?}"
        );
        assert!(in_parts.iter().all(|count| *count > 0), "{in_parts:?}");
        let [one, two, three] = parts.each_ref().map(String::as_str);
        let output = place.ends(1, &["merge", three, one, two, "--out", &merged]);
        assert!(printed(&output).contains("ext4"), "{}", printed(&output));
        place.assert_equal(&whole, &merged);
        assert!(place.path(&merged).join("summary.txt").exists());
    }
}

#[test]
fn merging_refuses_what_is_not_all_of_one_sweep() {
    let place = Place::new();
    let sweep = ["fs", "--fs", "ext4", "--ops", "1", "--range", "0..6"];
    let shard = |number: &str, out: &str, more: &[&str]| {
        place.ends(
            0,
            &[sweep.as_slice(), &["--shard", number, "--out", out], more].concat(),
        );
    };
    shard("1/2", "one", &[]);
    shard("2/2", "two", &[]);
    shard("1/2", "again", &[]);
    shard("1/3", "other", &[]);
    shard("2/2", "prefix", &["--states", "prefix"]);
    place.ends(0, &with(&sweep, &["--out", "whole"]));
    let cases: [(&[&str], &[&str]); 7] = [
        (&["one"], &["shard 2/2 is missing"]),
        (
            &["one", "again", "two"],
            &["one and again are the same shard, 1/2", "again"][1..],
        ),
        (&["one", "other"], &["another number of shards"]),
        (
            &["one", "prefix"],
            &["not shards of one sweep", "options", "prefix"],
        ),
        (&["one", "whole"], &["whole is not a shard"]),
        (&["one", "nowhere"], &["nowhere"]),
        (&["one", "."], &["no sweep was begun in ."]),
    ];
    for (parts, expected) in cases {
        place.refuses(&[&["merge"], parts, &["--out", "all"]].concat(), expected);
        assert!(!place.path("all").exists(), "{parts:?} left something");
    }
    // Another kernel.
    let manifest = place.path("two/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("read");
    let mut other: Value = serde_json::from_str(&text).expect("JSON");
    other["kernel_release"] = "9.9.9".into();
    std::fs::write(&manifest, other.to_string()).expect("written");
    place.refuses(
        &["merge", "one", "two", "--out", "all"],
        &["kernel_release", "9.9.9"],
    );
    std::fs::write(&manifest, &text).expect("written");
    // An unfinished one: a sweep that can be continued, if it is asked for.
    std::fs::write(place.path("two/results.jsonl"), "").expect("written");
    place.refuses(
        &["merge", "one", "two", "--out", "all"],
        &["shard 2/2 in two is not finished", "--resume two"],
    );
    place.ends(3, &["merge", "one", "two", "--incomplete", "--out", "all"]);
    place.ends(0, &["fs", "--resume", "all"]);
    place.assert_equal("whole", "all");
    place.refuses(
        &["merge", "one", "two", "--incomplete", "--out", "all"],
        &["all holds results already"],
    );
}

#[test]
fn workloads_are_kept() {
    let place = Place::new();
    let text = "workload a; creat foo; fsync foo\nmkdir A; creat A/foo; fsync A\n! \ncreat bar\nworkload b; creat b; sync\n";
    let text = text.replace("! \n", "");
    std::fs::write(place.path("gone.wl"), &text).expect("written");
    let sweep = with(&LYING, &["--fs", "ext4"]);
    place.ends(1, &with(&sweep, &["gone.wl", "--out", "whole"]));
    place.ends(1, &with(&sweep, &["gone.wl", "--out", "out"]));
    std::fs::remove_file(place.path("gone.wl")).expect("removed");
    // Standard input is read to its end first.
    let mut piped = place.command(&with(&sweep, &["-", "--out", "piped"]));
    let mut piped = Running::start(piped.stdin(Stdio::piped()));
    std::io::Write::write_all(&mut piped.stdin.take().expect("piped"), text.as_bytes())
        .expect("written");
    assert_eq!(piped.end().code(), Some(1));
    for out in ["out", "piped"] {
        for name in ["results.jsonl", "summary.jsonl"] {
            std::fs::remove_file(place.path(out).join(name)).expect("removed");
        }
        place.ends(1, &["fs", "--resume", out]);
        place.test_differing_again("whole", out);
        assert_eq!(place.results("whole"), place.results(out));
        assert_eq!(
            place.manifest("whole")["workloads_hash"],
            place.manifest(out)["workloads_hash"]
        );
    }
    std::fs::remove_file(place.path("out/summary.jsonl")).expect("removed");
    std::fs::write(place.path("out/workloads.wl"), "creat foo; sync\n").expect("written");
    place.refuses(&["fs", "--resume", "out"], &["workloads.wl was changed"]);
}

#[test]
fn options_that_contradict_are_refused() {
    let place = Place::new();
    let sweep = [
        "fs", "--fs", "ext4", "--ops", "1", "--range", "0..6", "--shard", "1/2",
    ];
    place.ends(0, &with(&sweep, &["--out", "out"]));
    let before = snapshot(&place.path("out"));
    let cases: [(&[&str], &[&str]); 9] = [
        (&["--fs", "xfs"], &["--fs xfs", "with --fs ext4"]),
        (&["--range", "0..7"], &["--range 0..7", "--range 0..6"]),
        (&["--shard", "2/2"], &["--shard 2/2", "--shard 1/2"]),
        (&["--all"], &["--all", "without it"]),
        (
            &["--disk", "drop-fua"],
            &["--disk drop-fua", "--disk honest"],
        ),
        (
            &["--states", "flushed"],
            &["--states flushed", "--states prefix,flushed"],
        ),
        (
            &["--mount-options", "barrier=0"],
            &["--mount-options barrier=0", "without it"],
        ),
        (&["file.wl"], &["--resume"]),
        (&["--out", "other"], &["--resume", "--out"]),
    ];
    for (more, expected) in cases {
        place.refuses(&with(&["fs", "--resume", "out"], more), expected);
    }
    // What says the same is none.
    place.ends(
        0,
        &with(
            &sweep,
            &[
                "--resume",
                "out",
                "--disk",
                "honest",
                "--states",
                "prefix,flushed",
                "--jobs",
                "1",
            ],
        ),
    );
    place.refuses(
        &with(&sweep, &["--out", "out"]),
        &["out holds results already", "--resume out"],
    );
    place.refuses(&["fs", "--resume", "nowhere"], &["nowhere"]);
    assert_eq!(snapshot(&place.path("out")), before);
    assert!(!place.path("nowhere").exists());
}

#[test]
fn other_versions_and_kernels_are_refused() {
    let place = Place::new();
    place.ends(
        0,
        &[
            "fs", "--fs", "ext4", "--ops", "1", "--range", "0..3", "--out", "out",
        ],
    );
    std::fs::remove_file(place.path("out/summary.jsonl")).expect("removed");
    let path = place.path("out/manifest.json");
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
    let cases: [(&str, Value, &str); 6] = [
        ("version", "0.0.1".into(), "written by Crashpoint 0.0.1"),
        ("format", 99.into(), "format 99"),
        (
            "kernel_release",
            "9.9.9".into(),
            "cannot go on here: kernel_release is \"9.9.9\"",
        ),
        ("kernel_version", "#2".into(), "kernel_version is \"#2\""),
        ("unheard_of", true.into(), "unheard_of"),
        ("type", "result".into(), "is not a manifest"),
    ];
    for (field, value, expected) in cases {
        let mut changed = manifest.clone();
        changed[field] = value;
        std::fs::write(&path, changed.to_string()).expect("written");
        place.refuses(&["fs", "--resume", "out"], &[expected]);
    }
    std::fs::write(&path, manifest.to_string()).expect("written");
    place.ends(0, &["fs", "--resume", "out"]);
}

#[test]
fn two_at_once_are_one_too_many() {
    let place = Place::new();
    let sweep = ["fs", "--fs", "ext4", "--preset", "seq-2", "--out", "out"];
    let mut first = place.start(&sweep);
    wait_until("it begins", PATIENCE, || !place.results("out").is_empty());
    place.refuses(
        &["fs", "--resume", "out"],
        &["another crashpoint is at work in out"],
    );
    place.refuses(&sweep, &["out holds results already"]);
    first.send(Signal::SIGINT);
    assert_eq!(first.end().code(), Some(3));
}
