//! Programs and clusters with a recorded disk of their own: what is found at both levels, and what
//! the disk does not show. Needs root.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use block_dev::loop_device::marked;
use end_to_end::{
    Running, app, findings_and_summary, program, require_root, said, search_path, store_cluster,
    wait_until,
};
use serde_json::Value;
use tempfile::TempDir;

/// How long it may take until nothing of a killed sweep is left but its directory.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a sweep printed.
struct Swept {
    status: i32,
    findings: Vec<Value>,
    summary: Value,
    said: String,
}

fn printed(output: &Output) -> Swept {
    let (findings, summary) = findings_and_summary(output);
    let said = said(output);
    let status = output.status.code();
    let status = status.unwrap_or_else(|| panic!("{}: {said}", output.status));
    Swept {
        status,
        findings,
        summary,
        said,
    }
}

/// Sweeps a program; `words` are those of the program.
fn sweep(options: &[&str], words: &[&str]) -> Swept {
    require_root();
    printed(&app(options, words))
}

impl Swept {
    fn assert_judged(&self) {
        assert_eq!(
            self.summary["inconclusive"], 0,
            "{}\n{:#}",
            self.said, self.summary
        );
    }

    /// The findings of a level, by how its file systems are named.
    fn of(&self, model: &str) -> Vec<&Value> {
        self.findings
            .iter()
            .filter(|finding| finding["model"] == model)
            .collect()
    }

    /// What the disks show, once they have recovered.
    fn recovered(&self) -> String {
        let nodes = self
            .findings
            .iter()
            .flat_map(|finding| finding["nodes"].as_array().expect("nodes"));
        nodes
            .map(|node| node["disk"]["differs"].to_string())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

const ON_EXT4: &str = "ext4 on disk";

/// What was said to be saved is in the file.
const SAVED: &str = "if ! grep -q saved {acks} || test \"$(cat {dir}/file)\" = new; then echo ok; else echo broken the new file is lost; fi";

/// What is said to be saved is there.
const THERE: &str = "if ! grep -q saved {acks} || test -e {dir}/file; then echo ok; else echo broken the file is lost; fi";

#[test]
fn a_disk_that_kept_everything_names_the_call_within_which_the_promise_ended() {
    let of = |script: &str| {
        let options = ["--disk", "ext4", "--level", "block", "--schedules", "1"];
        let swept = sweep(
            &[&options[..], &["--check", THERE]].concat(),
            &["/bin/sh", "-c", script],
        );
        let in_order = swept.findings.iter();
        let in_order = in_order.filter(|finding| finding["relaxation"] == "in order");
        let told = in_order.map(|finding| finding["nodes"][0]["disk"]["held_until"].clone());
        let told: Vec<_> = told.collect();
        assert!(!told.is_empty(), "{}\n{:#?}", swept.said, swept.findings);
        told
    };
    let removed = "cd {dir} && echo new > file && sync file && sync . && echo saved && rm file && sync . \
                   && echo again > file && sync file";
    assert_eq!(of(removed), ["fsync ."]);
    // Nothing ended: when it was promised it was not so.
    let too_early = "cd {dir} && echo new > file && echo saved && sync file && sync .";
    assert_eq!(of(too_early), [Value::Null]);
}

#[test]
fn an_acknowledgement_before_the_fsync_is_found_at_both_levels() {
    let script = "cd {dir} && echo new > file && echo saved && sync file";
    let swept = sweep(
        &["--disk", "ext4", "--schedules", "1", "--check", SAVED],
        &["/bin/sh", "-c", script],
    );
    swept.assert_judged();
    assert_eq!(swept.status, 1, "{}", swept.said);
    let (by_calls, on_disk) = (swept.of("linux"), swept.of(ON_EXT4));
    assert!(
        !by_calls.is_empty() && !on_disk.is_empty(),
        "{:#?}",
        swept.findings
    );
    assert!(
        by_calls
            .iter()
            .all(|finding| finding["models"][ON_EXT4] == true),
        "{by_calls:#?}"
    );
    assert!(
        on_disk
            .iter()
            .all(|finding| finding["models"]["linux"] == true),
        "{on_disk:#?}"
    );
    assert!(
        on_disk
            .iter()
            .all(|finding| finding["acknowledged"]["line"] == "saved"),
        "{on_disk:#?}"
    );
    assert!(
        swept.recovered().contains("file is not there"),
        "{}",
        swept.recovered()
    );
}

#[test]
fn a_rename_without_an_fsync_of_the_directory_is_covered_by_that_of_the_file_on_ext4() {
    let script = "cd {dir} && echo new > tmp && sync tmp && mv tmp file && sync file && echo saved";
    let both = ["--disk", "ext4", "--model", "posix", "--schedules", "1"];
    let swept = sweep(
        &[&both[..], &["--check", SAVED]].concat(),
        &["/bin/sh", "-c", script],
    );
    swept.assert_judged();
    assert_eq!(swept.of(ON_EXT4).len(), 0, "{:#?}", swept.findings);
    let by_calls = swept.of("posix");
    assert!(!by_calls.is_empty(), "{}", swept.said);
    for finding in by_calls {
        assert_eq!(
            finding["nodes"][0]["lost"][0]["words"], "rename tmp to file",
            "{finding:#}"
        );
        assert_eq!(finding["models"][ON_EXT4], false, "{finding:#}");
        assert_eq!(finding["models"]["ext4-ordered"], false, "{finding:#}");
        assert_eq!(finding["prevented_by"][0]["path"], "{dir}");
    }
    let levels = swept.summary["levels"].as_array().expect("two levels");
    assert!(
        levels[1]["model"] == ON_EXT4 && levels[1]["checked"].as_u64() > Some(4),
        "{:#}",
        swept.summary
    );
}

/// A program of `tests/silent`, or its right twin, on ext4.
fn sweep_planted(name: &str, twin: &str, options: &[&str]) -> Swept {
    let script = format!("tests/silent/{name}.py");
    let check = format!("/usr/bin/python3 -SB {script} {twin}");
    let disk = ["--disk", "ext4", "--check-server", &check];
    let swept = sweep(
        &[&disk, options].concat(),
        &["/usr/bin/python3", "-SB", &script, twin, "{dir}"],
    );
    swept.assert_judged();
    swept
}

/// A program whose mistake a quiet disk does not show: it is found under a schedule that begins with
/// this.
fn assert_needs(name: &str, schedule: &str, options: &[&str]) {
    let swept = sweep_planted(name, "wrong", &[&["--level", "block"], options].concat());
    assert_eq!(swept.status, 1, "{name}: {:#}", swept.summary);
    for finding in &swept.findings {
        let seen = finding["seen_under"].as_array().expect("schedules");
        let is_it = |seen: &Value| seen.as_str().is_some_and(|seen| seen.starts_with(schedule));
        assert!(seen.iter().any(is_it), "{name}: {finding:#}");
        assert!(!seen.contains(&"quiet".into()), "{name}: {finding:#}");
        assert_eq!(finding["recorded_under"], swept.summary["schedules"]);
    }
}

/// The right twin, which is clean under all schedules.
fn assert_right(name: &str, options: &[&str]) {
    let right = sweep_planted(name, "right", &[&["--level", "block"], options].concat());
    assert_eq!(right.status, 0, "{name}: {:#?}", right.findings);
    let schedules = right.summary["schedules"].as_array().expect("schedules");
    assert_eq!(schedules.len(), 4, "{:#}", right.summary);
}

#[test]
fn what_a_quiet_disk_does_not_show_is_found_under_other_schedules_and_the_right_program_is_clean() {
    let schedules = ["--schedules", "quiet,writeback,writeback:2"];
    assert_needs("pages-in-place", "writeback", &schedules);
    let sample = ["--sample", "60", "--seed", "1"];
    assert_right("emptied-and-rewritten", &sample);
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn each_mistake_needs_its_schedule() {
    let quiet = ["--level", "block", "--schedules", "1"];
    for (name, schedule) in [
        // Needs a commit between the truncation and the data.
        ("emptied-and-rewritten", "neighbour"),
        // Data written back before the log that undoes it.
        ("undo-log-after-data", "writeback"),
        ("undo-log-after-mapped-data", "writeback"),
        // Pages of one write, one of them on the disk.
        ("pages-in-place", "writeback"),
    ] {
        let on_quiet = sweep_planted(name, "wrong", &quiet);
        assert_eq!(on_quiet.status, 0, "{name}: {:#?}", on_quiet.findings);
        assert_eq!(on_quiet.summary["schedules"], serde_json::json!(["quiet"]));
        assert_needs(name, schedule, &[]);
        assert_right(name, &[]);
    }
}

#[test]
fn what_no_recording_shows_is_said_to_be_not_seen_in_so_many() {
    // The journal of ext4 commits both files.
    let swept = sweep_planted("another-file-synced", "wrong", &["--model", "btrfs"]);
    assert_eq!(swept.of(ON_EXT4).len(), 0, "{:#?}", swept.findings);
    let by_calls = swept.of("btrfs");
    assert!(!by_calls.is_empty(), "{}", swept.said);
    let all = serde_json::json!(["quiet", "neighbour", "writeback", "writeback:2"]);
    for finding in by_calls {
        assert_eq!(finding["models"][ON_EXT4], false, "{finding:#}");
        assert_eq!(finding["recorded_under"], all, "{finding:#}");
    }
    assert_eq!(swept.summary["levels"][1]["schedules"], all);
}

#[test]
fn the_state_of_a_later_recording_is_shown_built_again_and_minimized() {
    require_root();
    let temporary = tempfile::tempdir().expect("a directory");
    let out = temporary.path().join("out");
    let out = out.to_str().expect("text");
    let options = [
        "--level",
        "block",
        "--schedules",
        "quiet,neighbour",
        "--out",
        out,
    ];
    let swept = sweep_planted("emptied-and-rewritten", "wrong", &options);
    assert_eq!(swept.status, 1);
    assert_eq!(
        swept.findings[0]["seen_under"],
        serde_json::json!(["neighbour"])
    );
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(arguments)
            .stdin(Stdio::null())
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let output = command.output().expect("it runs");
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let (status, said) = run(&["show", out, "1"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("seen in 1 of 2: neighbour"), "{said}");
    let (status, said) = run(&["replay", out, "1"]);
    assert_eq!(status, Some(1), "{said}");
    let (status, said) = run(&["minimize", out, "1"]);
    assert_eq!(status, Some(1), "{said}");
    // The path at which the program was recorded is gone again, with what is above it.
    let about = std::fs::read_to_string(format!("{out}/trace/trace.json")).expect("a trace");
    let (_, recorded) = about.split_once("\"/dev/shm/").expect("a path");
    let (top, _) = recorded.split_once('/').expect("a path in there");
    assert!(!Path::new("/dev/shm").join(top).exists(), "{top}");
    let (status, said) = run(&["show", &format!("{out}/trace")]);
    assert_eq!(status, Some(0), "{said}");
    let again = format!("schedule neighbour: {out}/trace/recording-2\n");
    assert!(said.contains(&again), "{said}");
    let swept_again = [
        "app",
        "--trace",
        &format!("{out}/trace"),
        "--level",
        "block",
    ];
    let check = "/usr/bin/python3 -SB tests/silent/emptied-and-rewritten.py wrong";
    let (status, said) = run(&[&swept_again[..], &["--check-server", check]].concat());
    assert_eq!(status, Some(1), "{said}");
    assert!(
        said.contains("2 recordings on ext4 (schedules: quiet, neighbour)"),
        "{said}"
    );
}

#[test]
fn schedules_that_there_are_not_are_refused() {
    let refused = |options: &[&str], part: &str| {
        let options = [&["--check", "true"], options].concat();
        let swept = sweep(&options, &["/bin/sh", "-c", "echo new > {dir}/file"]);
        assert_eq!(swept.status, 2, "{}", swept.said);
        assert!(swept.said.contains(part), "{}", swept.said);
    };
    refused(&["--schedules", "2"], "--disk");
    refused(
        &["--disk", "ext4", "--schedules", "loud"],
        "no schedule 'loud'",
    );
    refused(&["--disk", "ext4", "--schedules", "0"], "1 to 64");
    refused(
        &["--disk", "ext4", "--schedules", "quiet,quiet"],
        "named twice",
    );
    refused(
        &["--disk", "ext4", "--level", "syscalls", "--schedules", "2"],
        "--schedules is for disks",
    );
}

#[test]
fn a_program_that_cannot_be_recorded_again_is_told_of() {
    let once = tempfile::tempdir().expect("a directory");
    let lock = once.path().join("lock");
    let script = format!(
        "mkdir {} && echo new > {{dir}}/file && echo done",
        lock.display()
    );
    let swept = sweep(
        &["--disk", "ext4", "--level", "block", "--check", "echo ok"],
        &["/bin/sh", "-c", &script],
    );
    assert_eq!(swept.status, 2, "{}", swept.said);
    assert!(
        swept.said.contains("--schedules 1 records it once"),
        "{}",
        swept.said
    );
}

#[test]
fn a_rename_that_no_fsync_follows_is_lost_on_ext4_too() {
    let script = "cd {dir} && echo new > tmp && sync tmp && mv tmp file && echo saved";
    let disk = ["--disk", "ext4", "--level", "block", "--schedules", "1"];
    let swept = sweep(
        &[&disk[..], &["--check", SAVED]].concat(),
        &["/bin/sh", "-c", script],
    );
    swept.assert_judged();
    assert_eq!(swept.status, 1);
    let recovered = swept.recovered();
    assert!(
        recovered.contains("tmp is there") && recovered.contains("file is not there"),
        "{recovered}"
    );
}

/// With two transactions: there is a checkpoint of the log between them, and a commit after it.
fn sqlite(file_system: &str, mode: &str, synchronous: &str, options: &[&str]) -> Swept {
    let check = "/usr/bin/python3 tests/fixtures/sqlite/check.py --serve";
    let client = [
        "/usr/bin/python3",
        "tests/fixtures/sqlite/client.py",
        "{dir}",
        mode,
        synchronous,
        "2",
    ];
    let disk = ["--disk", file_system, "--level", "block"];
    let swept = sweep(
        &[&disk[..], &["--check-server", check], options].concat(),
        &client,
    );
    swept.assert_judged();
    assert!(
        swept.summary["checked"].as_u64() > Some(20),
        "{}",
        swept.said
    );
    swept
}

/// Its directory is not synced: what unlinked the journal is lost, and with it the commit.
fn assert_journal_is_back(file_system: &str, options: &[&str]) {
    let swept = sqlite(file_system, "delete", "full", options);
    assert_eq!(swept.status, 1, "{}", swept.said);
    for finding in &swept.findings {
        let broken = finding["broken"][0].as_str().expect("words");
        assert!(
            broken.starts_with("acknowledged commit") && broken.ends_with("is lost"),
            "{broken}"
        );
    }
    assert!(
        swept.recovered().contains("db-journal is there"),
        "{}",
        swept.recovered()
    );
}

#[test]
fn sqlite_with_a_rollback_journal_finds_the_journal_again_on_ext4() {
    assert_journal_is_back("ext4", &["--schedules", "1"]);
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn sqlite_with_a_rollback_journal_finds_the_journal_again_on_every_file_system() {
    for file_system in ["ext4", "xfs"] {
        assert_journal_is_back(file_system, &[]);
    }
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn sqlite_that_syncs_the_directory_or_the_log_is_clean_on_ext4() {
    for (mode, synchronous) in [("delete", "extra"), ("wal", "full")] {
        let swept = sqlite("ext4", mode, synchronous, &[]);
        assert_eq!(
            (swept.status, swept.findings.len()),
            (0, 0),
            "{:#?}",
            swept.findings
        );
    }
}

#[test]
fn btrfs_is_mounted_in_its_states_one_after_the_other() {
    let script = "cd {dir} && echo new > file && sync file && echo saved";
    let swept = sweep(
        &[
            "--disk",
            "btrfs",
            "--level",
            "block",
            "--schedules",
            "1",
            "--jobs",
            "4",
            "--check",
            SAVED,
        ],
        &["/bin/sh", "-c", script],
    );
    swept.assert_judged();
    assert_eq!(
        (swept.status, swept.findings.len()),
        (0, 0),
        "{:#?}",
        swept.findings
    );
    assert!(
        swept.summary["checked"].as_u64() > Some(10),
        "{:#}",
        swept.summary
    );
}

#[test]
fn what_cannot_run_is_said_in_one_line() {
    let refused = |options: &[&str], part: &str| {
        let swept = sweep(
            &[&["--check", "true"], options].concat(),
            &["/bin/sh", "-c", "echo new > {dir}/file"],
        );
        let errors: Vec<_> = swept
            .said
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        assert_eq!((swept.status, errors.len()), (2, 1), "{}", swept.said);
        assert!(errors[0].contains(part), "{}", swept.said);
    };
    refused(&["--level", "block"], "--disk");
    refused(&["--states", "prefix"], "--level block");
    for option in ["--model=ext4", "--lost=2", "--split=4"] {
        let (option_name, _) = option.split_once('=').expect("a value");
        refused(&["--disk", "ext4", "--level", "block", option], option_name);
    }
    refused(&["--disk", "ext2"], "ext4");
    refused(&["--disk", "nonsense"], "unknown file system 'nonsense'");
    refused(&["--disk", "ext4:data=nonsense"], "data=nonsense");
}

/// Kills a sweep of a disk in the middle of a state.
#[test]
fn of_a_sweep_that_is_killed_nothing_stays_but_a_directory_that_is_cleaned() {
    require_root();
    let temporary = tempfile::tempdir().expect("a directory");
    let alive = temporary.path().join("alive");
    // It is asked of the undamaged directory first.
    let asked = temporary.path().join("asked").display().to_string();
    let check = format!(
        "echo >>{asked}; test $(wc -l <{asked}) -gt 3 || {{ echo ok; exit; }}; touch {}; exec sleep 3000",
        alive.display()
    );
    let mut command = Command::new(program("crashpoint"));
    let disk = ["--disk", "ext4", "--level", "block", "--schedules", "1"];
    command.arg("app").args(disk).args(["--check", &check]);
    command.args([
        "--",
        "/bin/sh",
        "-c",
        "echo new > {dir}/file; sync {dir}/file",
    ]);
    command
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = Running::start(&mut command);
    wait_until("the check is asked", PATIENCE, || alive.exists());
    let pid = running.id() as i32;
    let ours = || {
        marked()
            .expect("read")
            .filter(|device| device.owner_pid == pid)
            .count()
    };
    assert!(ours() > 0, "the sweep has not begun");
    running.kill().expect("killed");
    running.end();
    wait_until("no loop device stays", PATIENCE, || ours() == 0);
    for of_ours in [alive, asked.into()] {
        std::fs::remove_file(of_ours).expect("it is there");
    }
    let left = || temporary.path().read_dir().expect("read").count();
    assert_eq!(left(), 1);
    let mut command = Command::new(program("crashpoint"));
    let cleaned = command
        .arg("clean")
        .env("TMPDIR", temporary.path())
        .output()
        .expect("it runs");
    assert_eq!(
        (cleaned.status.code(), left()),
        (Some(0), 0),
        "{}",
        String::from_utf8_lossy(&cleaned.stderr)
    );
}

/// A recorded run of the store in `fixtures`, whose nodes have disks.
fn store(mistake: &str) -> TempDir {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let planted = store_cluster(mistake);
    std::fs::write(
        directory.path().join("cluster.toml"),
        format!("disk = \"ext4\"\n{planted}"),
    )
    .expect("written");
    let output = cluster(&["record", "cluster.toml", "-o", "trace"], directory.path());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    directory
}

fn cluster(arguments: &[&str], path: &Path) -> Output {
    let mut command = Command::new(program("crashpoint"));
    command
        .arg("cluster")
        .args(arguments)
        .env("PATH", search_path())
        .current_dir(path)
        .output()
        .expect("it runs")
}

fn sweep_store(directory: &TempDir, options: &[&str]) -> Swept {
    let swept = cluster(
        &[
            &["sweep", "trace", "--format", "json", "--level", "block"][..],
            &["--starts", "together"],
            options,
        ]
        .concat(),
        directory.path(),
    );
    let swept = printed(&swept);
    swept.assert_judged();
    swept
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_store_that_acknowledges_before_its_fsync_loses_puts_on_ext4() {
    let directory = store("early-acknowledgement");
    let swept = sweep_store(
        &directory,
        &["--states", "prefix", "--sample", "40", "--seed", "1"],
    );
    assert_eq!(swept.status, 1, "{}", swept.said);
    let broken = swept.findings[0]["broken"].to_string();
    assert!(
        broken.contains("acknowledged put") && broken.contains("is lost"),
        "{broken}"
    );
    assert!(
        swept.recovered().contains("log/wal-"),
        "{}",
        swept.recovered()
    );
    // Every node has a disk, and the client none.
    let nodes = swept.findings[0]["nodes"].as_array().expect("nodes");
    assert_eq!(
        nodes
            .iter()
            .filter(|node| node["disk"]["file_system"] == "ext4")
            .count(),
        3,
        "{nodes:#?}"
    );
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_store_without_a_mistake_or_with_one_that_ext4_does_not_show_is_clean_on_it() {
    for mistake in ["", "segment-rename"] {
        let directory = store(mistake);
        let swept = sweep_store(
            &directory,
            &[
                "--states",
                "prefix,flushed,reorder:1",
                "--sample",
                "60",
                "--seed",
                "3",
            ],
        );
        assert_eq!(
            (swept.status, swept.findings.len()),
            (0, 0),
            "{mistake}: {:#?}",
            swept.findings
        );
        assert!(
            swept.summary["checked"].as_u64() > Some(40),
            "{:#}",
            swept.summary
        );
    }
}

/// Whatever is asked of one recording.
#[test]
fn states_of_disks_are_counted_and_named_if_there_are_disks_and_a_damaged_log_is_refused() {
    let directory = store("");
    states_are_counted_and_named(&directory);
    a_damaged_log_is_refused(&directory);
    without_disks_there_are_no_states_of_them(&directory);
}

fn states_are_counted_and_named(directory: &TempDir) {
    let count = |states| {
        let output = cluster(
            &[
                "states", "trace", "--count", "--level", "block", "--states", states,
            ],
            directory.path(),
        );
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(output.status.code(), Some(0), "{text}");
        let all = text
            .lines()
            .find_map(|line| line.strip_prefix("all "))
            .expect("a sum");
        all.trim().parse::<usize>().expect("a number")
    };
    assert!(
        count("prefix") < count("every-write")
            && count("every-write") < count("every-write,reorder:1")
    );
    let listed = cluster(
        &["states", "trace", "--level", "block", "--states", "prefix"],
        directory.path(),
    );
    assert_eq!(
        String::from_utf8_lossy(&listed.stdout).lines().count(),
        count("prefix")
    );
}

fn a_damaged_log_is_refused(directory: &TempDir) {
    let path = directory.path().join("trace/disk-1-log.zst");
    let bytes = std::fs::read(&path).expect("read");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    let output = cluster(&["sweep", "trace", "--level", "block"], directory.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("disk-1-log.zst is damaged"), "{said}");
}

fn without_disks_there_are_no_states_of_them(directory: &TempDir) {
    let file = directory.path().join("cluster.toml");
    let text = std::fs::read_to_string(&file)
        .expect("read")
        .replace("disk = \"ext4\"\n", "");
    std::fs::write(&file, &text).expect("written");
    let output = cluster(&["record", "cluster.toml", "-o", "plain"], directory.path());
    assert_eq!(output.status.code(), Some(0));
    let output = cluster(&["states", "plain", "--level", "block"], directory.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no node has a disk"));
    std::fs::write(&file, format!("disk = \"nonsense\"\n{text}")).expect("written");
    let output = cluster(&["record", "cluster.toml", "-o", "none"], directory.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown file system 'nonsense'"));
}
