//! The findings of a sweep are listed and told, made small, and mounted again. Needs root.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use assert_cmd::assert::OutputAssertExt;
use end_to_end::{Family, Running, crashpoint, program, require_root, settle};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// Each with operations that nothing needs.
const WORKLOADS: &str = "
    workload data; setup; mkdir B; creat B/x; run; mkdir A; creat A/foo; write A/foo 0 16K; creat bar; fsync A/foo; unlink bar
    workload over; setup; creat foo; write foo 0 16K; run; mkdir C; creat C/z; write foo 4K 8K; fdatasync foo; mkdir D
    workload fine; mkdir A; creat A/foo; rename A/foo A/bar
";

/// What a command prints to standard output and error, with its exit status.
#[track_caller]
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = crashpoint().args(arguments).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let said = text(output.stderr);
    (
        output.status.code().unwrap_or_else(|| panic!("{said}")),
        text(output.stdout),
        said,
    )
}

/// The results of the workloads on a disk, or with states, that show something.
#[track_caller]
fn swept(flags: &[&str]) -> TempDir {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let (file, out) = (directory.path().join("w.wl"), results(&directory));
    std::fs::write(&file, WORKLOADS).expect("written");
    let sweep = [&["fs", file.to_str().expect("text"), "--out", &out], flags].concat();
    crashpoint()
        .args(sweep)
        .output()
        .expect("it runs")
        .assert()
        .code(1);
    directory
}

fn results(directory: &TempDir) -> String {
    directory
        .path()
        .join("results")
        .to_str()
        .expect("text")
        .to_owned()
}

/// The number of the finding that a list has for a workload.
#[track_caller]
fn number(list: &str, workload: &str, promise: &str) -> String {
    let line = list
        .lines()
        .find(|line| line.contains(workload) && line.contains(promise));
    let line = line.unwrap_or_else(|| panic!("no {promise} of {workload} in:\n{list}"));
    line.split_whitespace().next().expect("a number").to_owned()
}

/// The lines of a story that start with a word, without it.
fn lines<'a>(story: &'a str, head: &str) -> Vec<&'a str> {
    story
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix(head))
        .map(str::trim)
        .collect()
}

const UNORDERED: [&str; 4] = [
    "--fs",
    "ext4:nobarrier",
    "--states",
    "every-write,reorder:1",
];

#[test]
fn a_story_names_the_promise_and_the_write() {
    let directory = swept(&UNORDERED);
    let results = &results(&directory);
    let (status, list, _) = run(&["show", results]);
    assert_eq!(status, 1, "{list}");
    let (status, story, _) = run(&["show", results, &number(&list, "data", "fsync-data")]);
    assert_eq!(status, 1, "{story}");
    assert!(
        story.contains("fsync A/foo      <- the power fails here"),
        "{story}"
    );
    let lost = lines(&story, "lost ");
    assert_eq!(lost.len(), 1, "{story}");
    assert!(
        lost[0].contains("16384 bytes") && lost[0].ends_with(": data of A/foo"),
        "{story}"
    );
    assert!(
        lines(&story, "kept ")
            .iter()
            .any(|kept| kept.ends_with(": the journal")),
        "{story}"
    );
    assert!(
        lines(&story, "promised ")[0].ends_with("(fsync-data)"),
        "{story}"
    );
    assert!(
        story.contains("by operation 6, fsync A/foo") && !lines(&story, "source ").is_empty(),
        "{story}"
    );
    assert!(
        lines(&story, "prevented ")[0].contains("a flush after write"),
        "{story}"
    );
}

#[test]
fn a_list_says_that_the_sweep_has_not_ended() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let (file, out) = (directory.path().join("w.wl"), results(&directory));
    std::fs::write(
        &file,
        "workload a; creat a; fsync a\nworkload b; creat b; fsync b\n",
    )
    .expect("written");
    let file = file.to_str().expect("text");
    assert_eq!(run(&["fs", file, "--out", &out, "--fs", "ext4"]).0, 0);
    let (status, list, _) = run(&["show", &out]);
    assert_eq!((status, list.as_str()), (0, "no findings\n"));
    // As if it had been killed after its first workload.
    let lines = Path::new(&out).join("results.jsonl");
    let text = std::fs::read_to_string(&lines).expect("read");
    let is_second = |line: &&str| line.contains("\"workload\":\"b\"");
    let (second, others): (Vec<_>, Vec<_>) = text.lines().partition(is_second);
    assert_eq!(second.len(), 1, "{text}");
    std::fs::write(&lines, others.join("\n") + "\n").expect("written");
    let (status, list, _) = run(&["show", &out]);
    assert_eq!(status, 3, "{list}");
    let continued = format!("crashpoint fs --resume {out}\n");
    assert!(
        list.starts_with("no findings\nthe sweep has not ended"),
        "{list}"
    );
    assert!(list.ends_with(&continued), "{list}");
    assert_eq!(run(&["fs", "--resume", &out]).0, 0);
    assert_eq!(run(&["show", &out]).0, 0);
}

#[test]
fn what_is_alike_is_listed_once() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let (file, out) = (directory.path().join("w.wl"), results(&directory));
    let alike = "workload long; creat a; creat b; fsync a\nworkload short; creat foo; fsync foo\n";
    std::fs::write(&file, alike).expect("written");
    let sweep = [
        "fs",
        file.to_str().expect("text"),
        "--out",
        &out,
        "--fs",
        "ext4",
        "--disk",
        "drop-flush",
    ];
    assert_eq!(run(&sweep).0, 1);
    let (_, grouped, _) = run(&["show", &out]);
    let rows: Vec<&str> = grouped.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{grouped}");
    assert!(
        rows[0].starts_with('2') && rows[0].contains("short"),
        "{grouped}"
    );
    let (_, all, _) = run(&["show", &out, "--all"]);
    assert_eq!(all.lines().count(), 3, "{all}");
}

/// Minimises the finding, and has the command that it names find the same.
#[track_caller]
fn minimized(results: &str, workload: &str, promise: &str) -> String {
    let (_, list, _) = run(&["show", results]);
    let (status, story, said) = run(&["minimize", results, &number(&list, workload, promise)]);
    assert_eq!(status, 1, "{story}{said}");
    let replay = lines(&story, "replay ");
    let again = Command::new("sh")
        .args(["-c", replay[0]])
        .output()
        .expect("it runs");
    assert_eq!(again.status.code(), Some(1), "{story}{again:?}");
    assert!(
        String::from_utf8_lossy(&again.stdout).contains(&format!("({promise})")),
        "{story}{again:?}"
    );
    story
}

#[test]
fn what_is_needless_goes_and_the_one_lost_write_stays() {
    let directory = swept(&UNORDERED);
    let story = minimized(&results(&directory), "data", "fsync-data");
    let workload = lines(&story, "workload ")[0];
    for needless in ["B", "bar", "16K"] {
        assert!(!workload.contains(needless), "{story}");
    }
    assert!(
        workload.ends_with("write A/foo 0 4K; fsync A/foo"),
        "{story}"
    );
    let lost = lines(&story, "lost ");
    assert!(
        lost.len() == 1 && lost[0].ends_with(": data of A/foo"),
        "{story}"
    );
    assert!(lines(&story, "state ")[0].starts_with("lost-"), "{story}");
}

#[test]
fn what_a_disk_lost_is_made_small_and_mounted_again_and_what_cannot_be_is_told() {
    let directory = swept(&["--fs", "ext4", "--disk", "drop-flush"]);
    of_all_that_was_lost_one_write_is_enough(&directory);
    a_state_goes_when_the_command_ends(&directory);
    a_state_that_is_looked_at_goes_with_ctrl_c(&directory);
    what_cannot_be_shown_is_said_in_one_line(&directory);
    // It changes the results.
    a_finding_that_does_not_come_again_is_told_so(&directory);
}

fn of_all_that_was_lost_one_write_is_enough(directory: &TempDir) {
    let story = minimized(&results(directory), "over", "fdatasync-data");
    let workload = lines(&story, "workload ")[0];
    assert!(
        !workload.contains('C') && !workload.contains('D'),
        "{story}"
    );
    let lost = lines(&story, "lost ");
    assert!(
        lost.len() == 1 && lost[0].ends_with(": data of foo"),
        "{story}"
    );
    assert!(
        lines(&story, "prevented ")[0].contains("(--disk drop-flush)"),
        "{story}"
    );
}

fn a_state_goes_when_the_command_ends(directory: &TempDir) {
    let results = &results(directory);
    let (_, list, _) = run(&["show", results]);
    let lost = number(&list, "data", "fsync-names");
    let look = [
        "replay",
        results,
        &lost,
        "--command",
        "echo in {}; ls -F {}",
    ];
    let (status, seen, said) = run(&look);
    assert_eq!(status, 1, "{seen}{said}");
    // The name of the directory itself may end with anything.
    let has = |name: &str| seen.lines().any(|line| line == name);
    assert!(
        has("B/") && has("lost+found/") && !has("A/"),
        "{seen}{said}"
    );
    let place = lines(&seen, "in ")[0];
    assert!(!Path::new(place).exists(), "{place} is still there");
    // Without a command it waits for Enter, which the end of the input is as well.
    let (status, place, said) = run(&["replay", results, &lost]);
    assert!(status == 1 && place.starts_with("/proc/"), "{place}{said}");
}

fn a_state_that_is_looked_at_goes_with_ctrl_c(directory: &TempDir) {
    let temporary = tempfile::tempdir().expect("a directory");
    let (_, list, _) = run(&["show", &results(directory)]);
    let mut command = Command::new(program("crashpoint"));
    command
        .args([
            "replay",
            &results(directory),
            &number(&list, "data", "fsync-names"),
        ])
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut process = Running::start(&mut command);
    let mut place = String::new();
    BufReader::new(process.stdout.as_mut().expect("its output"))
        .read_line(&mut place)
        .expect("a line");
    assert!(Path::new(place.trim()).join("B/x").exists(), "{place}");
    let family = Family::of(process.id());
    process.send(Signal::SIGINT);
    assert_eq!(process.end().code(), Some(3));
    let left = settle(&family, temporary.path(), <[_]>::is_empty);
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn a_write_that_never_happened_is_told_as_the_disk_s_fault() {
    let directory = swept(&["--fs", "ext4", "--disk", "lose-write:1"]);
    let story = minimized(&results(&directory), "data", "fsync-data");
    let lost = lines(&story, "lost ");
    assert!(
        lost.len() == 1 && lost[0].ends_with(": data of A/foo, though it had completed it"),
        "{story}"
    );
    assert!(
        lines(&story, "prevented ")[0].contains("a disk that keeps write"),
        "{story}"
    );
}

fn what_cannot_be_shown_is_said_in_one_line(directory: &TempDir) {
    let results = &results(directory);
    let (missing, empty) = (
        format!("{results}/missing"),
        directory.path().to_str().expect("text").to_owned(),
    );
    for command in ["show", "minimize", "replay"] {
        for (place, number, why) in [
            (
                results,
                "99",
                "there is no finding 99: they are numbered from 1 to",
            ),
            (results, "0", "there is no finding 0"),
            (&missing, "1", "No such file"),
            (&empty, "1", "holds no results"),
        ] {
            let (status, printed, said) = run(&[command, place, number]);
            assert!(
                status == 2 && printed.is_empty(),
                "{command} {place} {number}: {printed}{said}"
            );
            assert!(
                said.starts_with("error: ") && said.contains(why),
                "{command} {place} {number}: {said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

fn a_finding_that_does_not_come_again_is_told_so(directory: &TempDir) {
    // The same results of a disk that keeps its word.
    let manifest = directory.path().join("results/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("read");
    let honest = text.replace("\"drop-flush\"", "\"honest\"");
    assert_ne!(text, honest);
    std::fs::write(&manifest, honest).expect("written");
    for command in ["minimize", "replay"] {
        let (status, printed, said) = run(&[command, &results(directory), "1"]);
        assert!(
            status == 3 && printed.is_empty(),
            "{command}: {printed}{said}"
        );
        assert!(
            said.contains("finding 1 did not come again"),
            "{command}: {said}"
        );
    }
}
