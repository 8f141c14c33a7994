//! The power fails again while a real file system recovers. Needs root.

use std::path::Path;

use end_to_end::{
    FILE_SYSTEMS, Ordinary, Report, crashpoint, printed, replay_with, require_root, said,
};
use serde_json::Value;
use tempfile::TempDir;

/// What a recovery has to do something for: a journal that is not empty, of more than one
/// transaction where the file system has those.
const WORKLOADS: &str = "
    workload data; creat foo; write foo 0 16K; fsync foo
    workload append; setup; mkdir A; creat A/foo; write A/foo 0 8K; run; write A/foo 4K 8K; fsync A/foo; \
        rename A/foo A/bar; creat A/baz; fsync A/baz
    workload unlinked; setup; creat foo; write foo 0 64K; creat bar; run; open foo as @h; unlink foo; fsync bar
    workload everything; mkdir A; creat A/foo; link A/foo A/bar; sync; unlink A/foo; creat B; fsync B
";

const RENAME: &str = "workload append; setup; mkdir A; creat A/foo; write A/foo 0 8K; run; write A/foo 4K 8K; \
                      fsync A/foo; rename A/foo A/bar; creat A/baz; fsync A/baz\n";

/// A number of what came of crashes in recoveries.
fn count(summary: &Value, field: &str) -> u64 {
    summary["again"][field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is not in {summary}"))
}

/// So many workloads are clean, wherever their recoveries are interrupted.
#[track_caller]
fn may_be_interrupted(file_system: &str, workloads: &str, number: u64) {
    require_root();
    let report = replay_with(file_system, &["--jobs", "2", "--again", "1"], workloads);
    report.assert_clean();
    let [summary] = &report.summaries[..] else {
        panic!("one file system: {:?}", report.summaries);
    };
    assert!(count(summary, "recoveries") >= number, "{summary}");
    // Not only what nothing and all of the recovery leaves.
    let visited = count(summary, "states_checked");
    assert!(visited > 2 * count(summary, "recoveries"), "{summary}");
    assert_eq!(count(summary, "states_left"), 0, "{summary}");
}

#[test]
fn a_recovery_of_an_honest_disk_may_be_interrupted_after_any_write() {
    may_be_interrupted("ext4", WORKLOADS, 4);
    // Of the others those that do most.
    let (_, everything) = WORKLOADS.rsplit_once("workload ").expect("the last one");
    let two = format!("{RENAME}workload {everything}");
    for file_system in ["xfs", "btrfs"] {
        may_be_interrupted(file_system, &two, 2);
    }
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn so_may_the_recoveries_of_all_workloads_on_each_file_system() {
    for file_system in FILE_SYSTEMS.into_iter().chain(["ext3"]) {
        may_be_interrupted(file_system, WORKLOADS, 4);
    }
}

#[test]
fn recoveries_of_recoveries_are_interrupted_too() {
    require_root();
    let counts = |times: &str| {
        let report = replay_with("ext4", &["--jobs", "1", "--again", times], RENAME);
        report.assert_clean();
        let summary = &report.summaries[0];
        (
            count(summary, "recoveries"),
            count(summary, "states_checked"),
        )
    };
    let (once, twice) = (counts("1"), counts("2"));
    assert!(twice.0 > once.0 && twice.1 > once.1, "{once:?} {twice:?}");
}

/// A sweep in which nothing is lost of the run, and one write at a time of recoveries.
#[track_caller]
fn caught_in_recoveries(file_system: &str, lie: &[&str]) {
    let prefix = [&["--jobs", "2", "--states", "prefix"], lie].concat();
    replay_with(file_system, &prefix, WORKLOADS).assert_clean();
    let again = ["--again", "1", "--again-states", "every-write,reorder:1"];
    let report = replay_with(file_system, &[&prefix, &again[..]].concat(), WORKLOADS);
    assert_eq!(report.status, 1, "{file_system}: {:?}", report.summaries);
    let states = report
        .results
        .iter()
        .flat_map(|result| result["broken"].as_array().expect("states"));
    for state in states {
        let [again] = &state["again"].as_array().expect("a recovery")[..] else {
            panic!("the power failed once in recoveries: {state}");
        };
        assert_eq!(again["clean"], true, "{state}");
        let address = state["address"].as_str().expect("an address");
        assert!(
            address.starts_with("prefix@") && address.contains("/again/lost-"),
            "{address}"
        );
        let entries = again["log"]["entries"].as_array().expect("entries");
        let writes = entries
            .iter()
            .filter(|entry| entry[1] == "W" || entry[1] == "U");
        assert_eq!(again["writes"], writes.count(), "{again}");
    }
}

#[test]
fn a_disk_that_ignores_the_flushes_of_a_recovery_is_caught() {
    require_root();
    for file_system in ["ext4", "btrfs"] {
        caught_in_recoveries(file_system, &["--disk", "drop-flush"]);
    }
}

/// On the second it is the recovery that sends none.
#[test]
#[ignore = "takes a minute: make test-long"]
fn ext3_on_such_a_disk_and_a_recovery_that_sends_no_flushes_are_caught() {
    require_root();
    caught_in_recoveries("ext3", &["--disk", "drop-flush"]);
    caught_in_recoveries("ext4:barrier=0", &[]);
}

/// Results of a sweep that has findings in recoveries.
fn results() -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("out");
    let workload = directory.path().join("w.wl");
    std::fs::write(&workload, RENAME).expect("written");
    let mut sweep = crashpoint();
    sweep.args([
        "fs",
        "--fs",
        "ext4:barrier=0",
        "--jobs",
        "1",
        "--states",
        "prefix",
    ]);
    sweep.args([
        "--again",
        "1",
        "--again-states",
        "every-write,reorder:1",
        "--out",
    ]);
    let output = sweep.arg(&path).arg(&workload).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = printed(&output);
    assert!(text.contains("\next4:barrier=0: crashes in "), "{text}");
    let path = path.to_str().expect("text").to_owned();
    (directory, path)
}

/// What a command prints and says that ends with this status.
#[track_caller]
fn ends(status: i32, arguments: &[&str]) -> (String, String) {
    let output = crashpoint().args(arguments).output().expect("it runs");
    let both = (printed(&output), said(&output));
    assert_eq!(
        output.status.code(),
        Some(status),
        "{arguments:?}: {both:?}"
    );
    both
}

#[test]
fn a_finding_in_a_recovery_is_told_mounted_made_small_and_reported() {
    require_root();
    let (kept, results) = results();
    let (story, _) = ends(1, &["show", &results, "1"]);
    let line = |head: &str| {
        let mut lines = story.lines().map(str::trim_start);
        let line = lines.find_map(|line| line.strip_prefix(head));
        line.unwrap_or_else(|| panic!("{head} is not in\n{story}"))
    };
    let told = "     the power failed again while the file system recovered: after write ";
    assert!(line("again").starts_with(told), "{story}");
    line("the first recovery, without this failure, breaks nothing");
    let address = line("state     ");
    let (_, looked) = ends(
        1,
        &[
            "replay",
            &results,
            "1",
            "--command",
            "test -d {}/A || echo no A",
        ],
    );
    // Where writes stand depends on when the journal commits: a replay may find the like state.
    let masked = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
    assert!(
        masked(&looked).contains(&masked(&format!("the state {address} again, after "))),
        "{address}: {looked}"
    );
    assert!(looked.contains("\nbroken: "), "{looked}");
    let (small, _) = ends(1, &["minimize", &results, "1"]);
    assert!(small.contains("8 operations down to "), "{small}");
    assert!(small.contains(" --again 1 --again-states "), "{small}");
    let (_, refused) = ends(2, &["export", &results, "1", "--as", "script"]);
    assert!(refused.contains("the power fails again"), "{refused}");
    let page = kept.path().join("page.html");
    let junit = kept.path().join("junit.xml");
    let [html, xml] = [&page, &junit].map(|path| path.to_str().expect("text"));
    ends(0, &["report", &results, "--html", html, "--junit", xml]);
    let read = |path: &Path| std::fs::read_to_string(path).expect("read");
    for text in [read(&page), read(&junit)] {
        assert!(text.contains("the power failed again while the file system recovered"));
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_one_line() {
    let refused = |arguments: &[&str]| {
        let (_, said) = ends(2, &[&["fs", "--preset", "demo"], arguments].concat());
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let repaired = refused(&["--fs", "ext4,vfat", "--again", "1"]);
    assert!(
        repaired.contains("vfat does not recover by itself"),
        "{repaired}"
    );
    let alone = refused(&["--fs", "ext4", "--again-states", "prefix"]);
    assert!(alone.contains("give --again 1 with it"), "{alone}");
    let import = [
        "import",
        "--log-writes",
        "log",
        "--base",
        "base",
        "--fs",
        "ext4",
        "--again",
        "1",
    ];
    let (_, imported) = ends(2, &import);
    assert!(
        imported.contains("--again is for workloads that are run here"),
        "{imported}"
    );
}

#[test]
fn a_kernel_of_its_own_recovers_again_too() {
    let place = Ordinary::new();
    place.file("w.wl", RENAME);
    let of = |file_system: &str| {
        let mut command = place.crashpoint(&["fs", "w.wl", "--kernel", "uml", "--format", "json"]);
        command.args(["--jobs", "1", "--again", "1", "--fs", file_system]);
        Report::of_process(command)
    };
    let ext4 = of("ext4");
    ext4.assert_clean();
    assert!(count(&ext4.summaries[0], "states_checked") > 2);
    // f2fs begins to write its nodes where the fsynced ones are that it recovers from: see
    // docs/findings/f2fs.md.
    let f2fs = of("f2fs");
    assert_eq!(f2fs.status, 1, "{:?}", f2fs.summaries);
    let broken = f2fs.results[0]["broken"].as_array().expect("states");
    assert!(!broken.is_empty());
    for state in broken {
        assert_eq!(state["again"][0]["clean"], true, "{state}");
        assert_eq!(state["again"][0]["state"], "prefix", "{state}");
    }
}
