//! `crashpoint app --again`: the power fails again while a program recovers.

use std::path::Path;
use std::process::{Command, Output};

use end_to_end::{Ordinary, objects, printed, program, require_root};
use serde_json::Value;
use tempfile::TempDir;

const STORE: &str = "tests/fixtures/recovers/store.py";

fn check(how: &str) -> String {
    format!("/usr/bin/python3 {STORE} check {{dir}} {{acks}} {how}")
}

fn crashpoint(words: &[&str]) -> Output {
    let output = Command::new(program("crashpoint"))
        .args(words)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output();
    output.expect("it runs")
}

fn app(options: &[&str], how: &str) -> Output {
    let check = check(how);
    let words = [
        &["app", "--format", "json", "--check", &check],
        options,
        &["--", "/usr/bin/python3", STORE, "put", "{dir}"],
    ];
    crashpoint(&words.concat())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The findings and the summary that were printed.
fn swept(output: &Output) -> (Vec<Value>, Value) {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = objects(&text);
    let summary = lines
        .pop()
        .unwrap_or_else(|| panic!("nothing was printed: {}", said(output)));
    (lines, summary)
}

fn assert_clean(output: &Output) {
    let (findings, summary) = swept(output);
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
    assert!(findings.is_empty(), "{findings:#?}");
    assert_eq!(summary["inconclusive"], 0, "{summary:#}");
}

/// Of a summary with several levels, that of the crashes during recovery.
fn again(summary: &Value) -> &Value {
    let levels = summary["levels"].as_array().expect("several levels");
    levels.last().expect("the last one")
}

/// A sweep with a finding of a recovery, whose results are kept.
struct Kept {
    place: TempDir,
    out: String,
    output: Output,
}

impl Kept {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let out = place.path().join("out").to_string_lossy().into_owned();
        let output = app(&["--again", "1", "--out", &out], "unsynced");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        Self { place, out, output }
    }

    fn path(&self, name: &str) -> String {
        self.place.path().join(name).to_string_lossy().into_owned()
    }
}

/// It is a finding as any other.
#[test]
fn a_log_that_is_emptied_too_early_in_recovery_is_found_only_if_the_power_fails_again() {
    require_root();
    assert_clean(&app(&[], "unsynced"));
    let kept = Kept::new();
    is_found(&kept.output);
    parts_are_put_together(&kept);
    is_shown_replayed_and_kept(&kept);
    is_made_smaller(&kept);
}

fn is_found(output: &Output) {
    let (findings, summary) = swept(output);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = &findings[0];
    let broken = finding["broken"][0].as_str().expect("words");
    assert!(broken.contains("was acknowledged and is lost"), "{broken}");
    let crashes = finding["crashes"].as_array().expect("the first crash");
    assert_eq!(crashes.len(), 1, "{finding:#}");
    let lost = &finding["nodes"][0]["lost"][0];
    assert_eq!(lost["path"], "data", "{finding:#}");
    let prevented = &finding["prevented_by"][0];
    assert_eq!(prevented["path"], "data", "{finding:#}");
    let again = again(&summary);
    assert!(again["broken"].as_u64() > Some(0), "{summary:#}");
    assert!(
        again["recoveries"]["recorded"].as_u64() > Some(1),
        "{summary:#}"
    );
    assert!(
        again["recoveries"]["unchanged"].as_u64() > Some(0),
        "{summary:#}"
    );
    // What the first crash alone leaves is not broken.
    assert_eq!(summary["levels"][0]["broken"], 0, "{summary:#}");
}

#[test]
fn a_recovery_that_syncs_before_it_empties_the_log_is_clean() {
    require_root();
    let output = app(&["--again", "2"], "");
    assert_clean(&output);
    let (_, summary) = swept(&output);
    assert!(
        again(&summary)["checked"].as_u64() > Some(10),
        "{summary:#}"
    );
}

#[test]
fn what_only_the_recovery_from_a_recovery_gets_wrong_takes_two_more_crashes() {
    require_root();
    let some = ["--recoveries", "8", "--again"];
    let again = |times| app(&[&some[..], &[times]].concat(), "twice");
    assert_clean(&again("1"));
    let output = again("2");
    let (findings, _) = swept(&output);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let crashes = findings
        .iter()
        .map(|finding| finding["crashes"].as_array().expect("both"));
    let mut lens = crashes.map(Vec::len);
    assert!(
        !findings.is_empty() && lens.all(|len| len == 2),
        "{findings:#?}"
    );
}

#[test]
fn a_command_of_its_own_recovers_beside_a_check_that_keeps_running() {
    require_root();
    let serve = "/usr/bin/python3 tests/fixtures/sqlite/check.py --serve";
    let recover = "/usr/bin/python3 tests/fixtures/sqlite/check.py {dir} {acks}";
    let client = "tests/fixtures/sqlite/client.py";
    let words = [
        "app",
        "--format",
        "json",
        "--check-server",
        serve,
        "--again",
        "1",
        "--recover",
        recover,
        "--recoveries",
        "2",
        "--sample",
        "60",
        "--",
        "/usr/bin/python3",
        client,
        "{dir}",
        "delete",
        "extra",
    ];
    let output = crashpoint(&words);
    assert_clean(&output);
    let (_, summary) = swept(&output);
    // A journal that is found is rolled back, and removed.
    assert_eq!(again(&summary)["recoveries"]["recorded"], 2, "{summary:#}");
}

/// A recording of the store as a cluster.
fn recorded_cluster(place: &TempDir, how: &str) -> String {
    require_root();
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/recovers"));
    for file in ["node.py", "store.py"] {
        std::fs::copy(folder.join(file), place.path().join(file)).expect("copied");
    }
    let text = std::fs::read_to_string(folder.join("cluster.toml")).expect("read");
    let usual = "HOW = \"unsynced\"";
    assert!(text.contains(usual), "{text}");
    let path = |name: &str| place.path().join(name).to_string_lossy().into_owned();
    let (file, trace) = (path("cluster.toml"), path("trace"));
    std::fs::write(&file, text.replace(usual, &format!("HOW = \"{how}\""))).expect("written");
    let recorded = crashpoint(&["cluster", "record", &file, "-o", &trace]);
    assert_eq!(recorded.status.code(), Some(0), "{}", said(&recorded));
    trace
}

fn sweep_cluster(trace: &str, options: &[&str]) -> Output {
    let sweep = [
        "cluster",
        "sweep",
        trace,
        "--model",
        "ext4-ordered",
        "--format",
        "json",
    ];
    crashpoint(&[&sweep, options].concat())
}

const THREE_RECOVERIES: [&str; 4] = ["--again", "1", "--recoveries", "3"];

#[test]
fn a_cluster_is_crashed_again_while_it_is_started() {
    let place = tempfile::tempdir().expect("a directory");
    let trace = recorded_cluster(&place, "unsynced");
    assert_clean(&sweep_cluster(&trace, &["--sample", "30", "--seed", "1"]));
    let output = sweep_cluster(&trace, &THREE_RECOVERIES);
    let (findings, summary) = swept(&output);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0]["acknowledged"]["node"], "client");
    assert_eq!(findings[0]["prevented_by"][0]["path"], "data");
    assert_eq!(again(&summary)["recoveries"]["recorded"], 3, "{summary:#}");
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn a_cluster_that_syncs_before_it_empties_its_log_is_clean() {
    let place = tempfile::tempdir().expect("a directory");
    let trace = recorded_cluster(&place, "");
    assert_clean(&sweep_cluster(&trace, &[]));
    assert_clean(&sweep_cluster(&trace, &THREE_RECOVERIES));
}

/// What a recovery has to do in order. Beside a check that always says `ok`, nothing else tells.
const IN_ORDER: &str = r#"
written(W) :- file_op(event: W, op: "write", path: "data", length: L), L > 0.
synced(S) :- file_op(event: S, op: "fsync", path: "data").
synced(S) :- file_op(event: S, op: "sync").
emptied(E) :- file_op(event: E, op: "truncate", path: "log", offset: 0).
durable(W, E) :- written(W), emptied(E), synced(S), W < S, S < E.
violation emptied_too_early(E) :- written(W), emptied(E), W < E, !durable(W, E).
"#;

/// Sweeps the store against these rules alone.
fn ruled(place: &TempDir, rules: &str, how: &str, options: &[&str]) -> Output {
    let spec = place.path().join("order.dl");
    std::fs::write(&spec, rules).expect("written");
    let spec = spec.to_string_lossy().into_owned();
    let recover = format!("/usr/bin/python3 {STORE} open {{dir}} {how}");
    let words = [
        &[
            "app",
            "--format",
            "json",
            "--check",
            "echo ok",
            "--recover",
            &recover,
        ],
        &["--spec", &spec][..],
        options,
        &["--", "/usr/bin/python3", STORE, "put", "{dir}"],
    ];
    crashpoint(&words.concat())
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn rules_hold_of_recoveries_and_of_what_came_before_them() {
    require_root();
    let place = tempfile::tempdir().expect("a directory");
    // What a crash has left is durable: the second recovery need not sync what it finds.
    for (how, again) in [("", "2"), ("twice", "1")] {
        assert_clean(&ruled(&place, IN_ORDER, how, &["--again", again]));
    }
    for (how, again) in [("unsynced", 1), ("twice", 2)] {
        let output = ruled(&place, IN_ORDER, how, &["--again", &again.to_string()]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let (findings, _) = swept(&output);
        let [finding] = &*findings else {
            panic!("{how}: {findings:#?}");
        };
        let broken = finding["broken"][0].as_str().expect("words");
        assert!(broken.starts_with("order: emptied_too_early("), "{broken}");
        let crashes = finding["crashes"].as_array().expect("some");
        assert_eq!(crashes.len(), again, "{finding:#}");
        let derivation = finding["derivations"][0].as_str().expect("a tree");
        assert!(derivation.contains("no durable("), "{derivation}");
    }
}

#[test]
fn a_finding_of_rules_about_a_recovery_is_asked_replayed_and_made_smaller() {
    require_root();
    let place = tempfile::tempdir().expect("a directory");
    let some = ["--again", "1", "--recoveries", "4"];
    assert_clean(&ruled(&place, IN_ORDER, "", &some));
    let out = place.path().join("out").to_string_lossy().into_owned();
    let options = ["--again", "1", "--out", &out];
    let output = ruled(&place, IN_ORDER, "unsynced", &options);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // What was acknowledged before the first crash, by whom, and who synced it then.
    let told = r#"violation told(N, L) :- printed(N, L), printed_by(number: N, event: E),
        file_op(event: S, op: "fsync", path: "log"), S < E,
        file_op(event: C, call: "power failure"), E < C."#;
    let asked = crashpoint(&["rules", &out, "1", told]);
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert_eq!(asked.status.code(), Some(1), "{}", said(&asked));
    assert!(text.contains("told(1, \"0\")"), "{text}");
    let replayed = crashpoint(&["replay", &out, "1"]);
    assert_eq!(replayed.status.code(), Some(1), "{}", said(&replayed));
    assert!(
        said(&replayed).contains("order: emptied_too_early("),
        "{}",
        said(&replayed)
    );
    let smaller = crashpoint(&["minimize", &out, "1"]);
    assert_eq!(smaller.status.code(), Some(1), "{}", said(&smaller));
    let text = String::from_utf8_lossy(&smaller.stdout).into_owned();
    assert!(text.contains("no durable("), "{text}");
}

fn is_shown_replayed_and_kept(results: &Kept) {
    let out = &results.out;
    let shown = crashpoint(&["show", out, "1"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    for words in [
        "first crash   after",
        "then          the power failed again during the recovery",
        "prevented by  fsync of data before truncate log",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let kept = results.path("kept");
    let replayed = crashpoint(&["replay", out, "1", "--keep", &kept]);
    assert_eq!(replayed.status.code(), Some(0), "{}", said(&replayed));
    let kept = Path::new(&kept);
    let acks = std::fs::read_to_string(kept.join("acknowledged")).expect("kept");
    assert!(
        acks.starts_with("0\n"),
        "those before the first crash: {acks}"
    );
    let log = kept.join("program/log").metadata().expect("kept");
    assert_eq!(log.len(), 0, "the recovery emptied it");
}

fn is_made_smaller(results: &Kept) {
    let smaller = crashpoint(&["minimize", &results.out, "1"]);
    let text = String::from_utf8_lossy(&smaller.stdout).into_owned();
    assert_eq!(smaller.status.code(), Some(1), "{}", said(&smaller));
    assert!(
        text.contains("then          the power failed again"),
        "{text}"
    );
}

fn parts_are_put_together(results: &Kept) {
    let whole = &results.out;
    let trace = format!("{whole}/trace");
    let path = |name: &str| results.path(name);
    let check = check("unsynced");
    for part in ["1/2", "2/2"] {
        let out = path(&part.replace('/', "-of-"));
        let words = [
            "app", "--trace", &trace, "--check", &check, "--shard", part, "--out", &out,
        ];
        let output = crashpoint(&words);
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{}",
            said(&output)
        );
    }
    let (first, second, all) = (path("1-of-2"), path("2-of-2"), path("all"));
    let merged = crashpoint(&["merge", &first, &second, "-o", &all]);
    assert_eq!(merged.status.code(), Some(1), "{}", said(&merged));
    let read = |directory: &str, name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(Path::new(directory).join(name)).expect("written");
        objects(&text)
    };
    let findings = read(&all, "findings.jsonl");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings, read(whole, "findings.jsonl"));
    let summary = &read(&all, "summary.jsonl")[0];
    let of_whole = &read(whole, "summary.jsonl")[0];
    for field in ["states", "checked", "broken", "findings", "inconclusive"] {
        assert_eq!(summary[field], of_whole[field], "{field}");
    }
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    require_root();
    let serve = [
        "app",
        "--again",
        "1",
        "--check-server",
        "true",
        "--",
        "true",
        "{dir}",
    ];
    let block = [
        "app",
        "--again",
        "1",
        "--check",
        "true",
        "--recover",
        "true",
        "--disk",
        "ext4",
        "--level",
        "block",
        "--",
        "true",
        "{dir}",
    ];
    for (words, why) in [(&serve[..], "--recover"), (&block[..], "--level block")] {
        let output = crashpoint(words);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}

/// The store on a disk with this file system, of which only the disk is looked at.
fn app_on(file_system: &str, options: &[&str]) -> Output {
    let disk = [
        "--disk",
        file_system,
        "--level",
        "block",
        "--schedules",
        "1",
        "--states",
        "every-write,reorder:1",
        "--again",
        "1",
        "--recoveries",
        "6",
        "--sample",
        "60",
    ];
    app(&[&disk, options].concat(), "")
}

/// A sweep with a file system that recovers without flushes, what it came to, and the first finding of a
/// recovery.
fn without_flushes(out: &str) -> (Value, Value) {
    require_root();
    let output = app_on("ext4:barrier=0", &["--out", out]);
    let (findings, summary) = swept(&output);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // The first crash had lost nothing: what was on the disk was enough, until it was mounted.
    let is_again = |finding: &&Value| finding["crashes"].is_array();
    let finding = findings.iter().find(is_again);
    let finding = finding.unwrap_or_else(|| panic!("{findings:#?}"));
    (finding.clone(), summary)
}

#[test]
fn a_file_system_that_recovers_without_flushes_is_found_if_the_power_fails_again() {
    let directory = TempDir::new().expect("a directory");
    let out = directory.path().join("out");
    let out = out.to_str().expect("text");
    let (finding, summary) = without_flushes(out);
    let broken = finding["broken"][0].as_str().expect("words");
    assert!(broken.contains("was acknowledged and is lost"), "{broken}");
    let level = again(&summary);
    assert_eq!(level["model"], "ext4:barrier=0 on disk, again");
    assert_eq!(level["recoveries"]["recorded"], 6, "{summary:#}");
    // Its number is that of a state which can be made again.
    let number = finding["number"].to_string();
    let replayed = crashpoint(&["replay", "--command", "true", out, &number]);
    assert_eq!(replayed.status.code(), Some(1), "{}", said(&replayed));
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_finding_of_a_file_system_that_recovers_without_flushes_is_made_smaller() {
    let directory = TempDir::new().expect("a directory");
    let out = directory.path().join("out");
    let out = out.to_str().expect("text");
    let (finding, _) = without_flushes(out);
    let number = finding["number"].to_string();
    let minimized = crashpoint(&["minimize", out, &number]);
    assert_eq!(minimized.status.code(), Some(1), "{}", said(&minimized));
}

#[test]
fn a_file_system_that_flushes_while_it_recovers_keeps_everything() {
    require_root();
    let output = app_on("ext4", &[]);
    assert_clean(&output);
    let (_, summary) = swept(&output);
    let level = again(&summary);
    assert_eq!(level["model"], "ext4 on disk, again");
    assert!(level["checked"].as_u64() > Some(10), "{summary:#}");
}

/// Root sees a crash state at a mount, which nobody removes.
#[test]
fn a_check_that_removes_its_directory_is_no_recovery() {
    let user = Ordinary::new();
    let check = "rm -r {dir}; echo ok";
    let again = ["app", "--again", "1", "--recoveries", "2", "--check", check];
    let program = "echo 1 >{dir}/f && sync {dir}/f && echo done";
    let words = [&again[..], &["--", "/bin/sh", "-c", program]].concat();
    let output = user.crashpoint(&words).output().expect("it runs");
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{}",
        said(&output)
    );
    // Whatever came of them, the recoveries are counted.
    assert!(
        printed(&output).contains("linux, again"),
        "{}",
        said(&output)
    );
    let left = user.temporary().read_dir().expect("read").count();
    assert_eq!(left, 0, "{}", said(&output));
}
