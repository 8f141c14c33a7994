//! `crashpoint app` on programs of which the answers are known.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use end_to_end::{
    Ordinary, Running, app, app_in_text, findings_and_summary, objects, program, require_root,
    said, wait_until,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// What a sweep printed.
struct Swept {
    status: i32,
    findings: Vec<Value>,
    summary: Value,
    said: String,
}

/// Sweeps a program; `words` are those of the program.
fn sweep(options: &[&str], words: &[&str]) -> Swept {
    let output = app(options, words);
    let (findings, summary) = findings_and_summary(&output);
    let said = said(&output);
    let status = output.status.code();
    let status = status.unwrap_or_else(|| panic!("{}: {said}", output.status));
    Swept {
        status,
        findings,
        summary,
        said,
    }
}

/// With two transactions: there is a checkpoint of the log between them, and a commit after it.
fn sqlite(mode: &str, synchronous: &str, options: &[&str]) -> Swept {
    let check = "/usr/bin/python3 tests/fixtures/sqlite/check.py --serve";
    let client = [
        "/usr/bin/python3",
        "tests/fixtures/sqlite/client.py",
        "{dir}",
        mode,
        synchronous,
        "2",
    ];
    let swept = sweep(&[&["--check-server", check], options].concat(), &client);
    assert!(
        swept.summary["checked"].as_u64() > Some(20),
        "{}",
        swept.said
    );
    assert_eq!(swept.summary["inconclusive"], 0, "{:#}", swept.summary);
    swept
}

impl Swept {
    fn assert_clean(&self) {
        assert_eq!(self.status, 0, "{}\n{:#?}", self.said, self.findings);
        assert_eq!(self.findings.len(), 0);
    }

    fn assert_found(&self) {
        assert_eq!(self.status, 1, "{}\n{:#}", self.said, self.summary);
        assert!(!self.findings.is_empty());
    }

    /// What is missing in each finding, as call and words.
    fn missing(&self) -> Vec<(String, String)> {
        let nodes = self
            .findings
            .iter()
            .flat_map(|finding| finding["nodes"].as_array().expect("nodes"));
        let lost = nodes.flat_map(|node| {
            node["lost"]
                .as_array()
                .into_iter()
                .flatten()
                .chain(Some(&node["midway"]))
        });
        let text = |value: &Value| value.as_str().map(str::to_owned);
        lost.filter_map(|lost| Some((text(&lost["call"])?, text(&lost["words"])?)))
            .collect()
    }

    fn broken(&self) -> Vec<&str> {
        let broken = self
            .findings
            .iter()
            .flat_map(|finding| finding["broken"].as_array().expect("words"));
        broken.filter_map(Value::as_str).collect()
    }
}

#[test]
fn a_sample_blames_nothing_without_which_it_is_broken_as_well() {
    let script = "cd {dir} && echo saved && for each in a b c d e f g h; do \
                  dd if=/dev/zero of=noise.$each bs=5000 count=1 2>/dev/null; done; \
                  echo new > file && sync file && sync .";
    let check = "if ! grep -q saved {acks} || test -e {dir}/file; then echo ok; else echo broken the file is lost; fi";
    let swept = sweep(
        &["--sample", "60", "--seed", "1", "--check", check],
        &["/bin/sh", "-c", script],
    );
    assert!(!swept.findings.is_empty(), "{}", swept.said);
    for finding in &swept.findings {
        assert_eq!(finding["relaxation"], "in order", "{finding:#}");
    }
    assert!(
        swept.summary["besides"].as_u64() > Some(0) && swept.summary["states"].as_u64() > Some(60),
        "{}",
        swept.summary
    );
}

#[test]
fn sqlite_with_a_rollback_journal_loses_a_commit_when_the_unlink_of_the_journal_is_lost() {
    let swept = sqlite("delete", "full", &[]);
    swept.assert_found();
    let unlink = |(call, words): &(String, String)| {
        call.starts_with("unlink") && words == "unlink db-journal"
    };
    assert!(swept.missing().iter().all(unlink), "{:#?}", swept.findings);
    assert!(
        swept
            .broken()
            .iter()
            .all(|words| words.starts_with("acknowledged commit") && words.ends_with("is lost"))
    );
    for finding in &swept.findings {
        assert_eq!(finding["prevented_by"][0]["path"], "{dir}", "{finding:#}");
    }
}

fn sqlite_that_syncs_is_clean(options: &[&str]) {
    for (mode, synchronous) in [("delete", "extra"), ("wal", "full")] {
        sqlite(mode, synchronous, options).assert_clean();
    }
}

#[test]
fn sqlite_that_syncs_the_directory_or_the_log_is_clean() {
    sqlite_that_syncs_is_clean(&["--sample", "120", "--seed", "1"]);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn sqlite_that_syncs_the_directory_or_the_log_is_clean_in_all_states() {
    sqlite_that_syncs_is_clean(&[]);
}

/// What a sync would help takes most of the time, on each model.
#[test]
fn sqlite_with_a_log_that_is_synced_now_and_then_loses_the_last_commits_only() {
    loses_the_last_commits_only(&["--model", "xfs", "--sample", "50", "--seed", "1"]);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn sqlite_with_a_log_that_is_synced_now_and_then_loses_the_last_commits_only_in_all_states() {
    loses_the_last_commits_only(&[]);
}

fn loses_the_last_commits_only(options: &[&str]) {
    let swept = sqlite("wal", "normal", options);
    swept.assert_found();
    assert!(
        swept
            .broken()
            .iter()
            .all(|words| words.ends_with("is lost")),
        "{:?}",
        swept.broken()
    );
    assert!(
        swept
            .missing()
            .iter()
            .any(|(_, words)| words.contains("db-wal")),
        "{:#?}",
        swept.findings
    );
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn sqlite_without_any_sync_has_a_malformed_database() {
    // Nothing is durable: there are many states of each transaction.
    let check = "/usr/bin/python3 tests/fixtures/sqlite/check.py --serve";
    let client = [
        "/usr/bin/python3",
        "tests/fixtures/sqlite/client.py",
        "{dir}",
        "delete",
        "off",
        "1",
    ];
    let swept = sweep(
        &["--check-server", check, "--sample", "400", "--seed", "3"],
        &client,
    );
    swept.assert_found();
    assert!(
        swept
            .broken()
            .iter()
            .any(|words| words.contains("malformed")),
        "{:?}",
        swept.broken()
    );
}

/// A shell program that replaces a file, and says so.
fn replace(sync: &str) -> String {
    format!("cd {{dir}} && echo new > file.tmp {sync} && mv file.tmp file && echo replaced")
}

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

const REPLACED: &str = "if ! grep -q replaced {acks} || test \"$(cat {dir}/file)\" = new; then echo ok; else echo broken the new file is lost; fi";

#[test]
fn a_file_that_is_replaced_without_a_sync_is_lost() {
    for model in ["ext4-ordered", "btrfs"] {
        let swept = sweep(
            &["--check", REPLACED, "--model", model],
            &["/bin/sh", "-c", &replace("")],
        );
        swept.assert_found();
        assert!(
            swept
                .broken()
                .iter()
                .all(|words| *words == "the new file is lost")
        );
    }
}

#[test]
fn a_file_that_is_replaced_and_synced_with_everything_is_there() {
    let script = "cd {dir} && echo new > file.tmp && sync file.tmp && mv file.tmp file && sync . && echo replaced";
    for model in ["posix", "ext4-ordered", "ext4-writeback", "xfs", "btrfs"] {
        sweep(
            &["--check", REPLACED, "--model", model],
            &["/bin/sh", "-c", script],
        )
        .assert_clean();
    }
}

/// The check of a program of `tests/fixtures/correct`, and the program.
fn of_correct(name: &str) -> [String; 2] {
    ["-check", ""].map(|part| format!("tests/fixtures/correct/{name}{part}.py"))
}

/// Sweeps a program of `tests/fixtures/correct`, which leaves these out of what it should do.
fn correct(name: &str, left_out: &[&str], options: &[&str]) -> Swept {
    let [check, client] = of_correct(name);
    let check = format!("/usr/bin/python3 {check}");
    let words = ["/usr/bin/python3", &client, "{dir}"];
    let swept = sweep(
        &[&["--check-server", &check], options].concat(),
        &[&words, left_out].concat(),
    );
    assert_eq!(swept.summary["inconclusive"], 0, "{:#}", swept.summary);
    assert!(swept.summary["checked"].as_u64() > Some(10));
    swept
}

#[test]
fn programs_that_are_right_are_clean_by_default() {
    for name in ["replace", "log"] {
        let swept = correct(name, &[], &[]);
        swept.assert_clean();
        assert_eq!(swept.summary["model"], "linux");
    }
}

#[test]
fn what_only_the_letter_of_the_standard_allows_is_told_last_and_apart() {
    let swept = correct("replace", &[], &["--model", "posix"]);
    // It was asked for.
    swept.assert_found();
    let ranks = |findings: &[Value]| -> Vec<String> {
        let ranks = findings.iter().map(|finding| &finding["rank"]);
        ranks
            .map(|rank| rank.as_str().expect("one").to_owned())
            .collect()
    };
    assert!(
        ranks(&swept.findings)
            .iter()
            .all(|rank| rank == "letter-only"),
        "{:#?}",
        swept.findings
    );
    // What file systems do as well is none of that.
    let place = tempfile::tempdir().expect("a directory");
    let results = place.path().join("results");
    let out = results.to_str().expect("text");
    let [check, client] = of_correct("replace");
    let check = format!("/usr/bin/python3 {check}");
    let options = ["--model", "posix", "--out", out, "--check-server", &check];
    let words = ["/usr/bin/python3", &client, "{dir}", "file"];
    let output = app_in_text(&options, &words);
    let text = String::from_utf8(output.stdout).expect("text");
    let findings = std::fs::read_to_string(results.join("findings.jsonl")).expect("read");
    let ranks = ranks(&objects(&findings));
    assert_eq!(
        ranks.first().map(String::as_str),
        Some("acknowledged-everywhere")
    );
    assert_eq!(ranks.last().map(String::as_str), Some("letter-only"));
    let (others, by_letter) = text
        .split_once("BY THE LETTER OF POSIX ONLY")
        .expect("a heading");
    let findings = |text: &str| text.matches("FINDING ").count();
    let letter_only = ranks.iter().filter(|rank| *rank == "letter-only").count();
    assert_eq!(findings(by_letter), letter_only, "{text}");
    assert_eq!(findings(others), ranks.len() - letter_only, "{text}");
    assert!(!by_letter.contains("BY THE LETTER"), "{text}");
}

#[test]
fn a_sync_that_is_left_out_is_found_by_default() {
    for (name, sync) in [
        ("replace", "file"),
        ("replace", "directory"),
        ("log", "sync"),
    ] {
        let swept = correct(name, &[sync], &[]);
        swept.assert_found();
        // There may be others after it, which only one of the file systems shows.
        let finding = &swept.findings[0];
        assert_eq!(finding["model"], "linux", "{finding:#}");
        assert_eq!(finding["rank"], "acknowledged-everywhere", "{finding:#}");
        assert_eq!(finding["models"]["xfs"], true, "{finding:#}");
    }
}

#[test]
fn a_path_that_the_program_kept_leads_into_the_state_and_not_to_what_came_of_the_run() {
    require_root();
    let script = "echo one > {dir}/a && ln -s {dir}/a {dir}/link && sync {dir}/a && sync {dir} && echo there && \
                  echo two > {dir}/b && sync {dir}/b {dir} && echo all";
    let check = "if test -e {dir}/b && ! grep -q there {acks}; then echo broken from later; \
                 elif grep -q there {acks} && test \"$(cat {dir}/link)\" != one; then echo broken the link leads nowhere; \
                 elif test -e \"$(dirname $(readlink {dir}/link || echo /x))/b\" && test ! -e {dir}/b; then echo broken the link leads elsewhere; \
                 else echo ok; fi";
    let swept = sweep(&["--check", check], &["/bin/sh", "-c", script]);
    swept.assert_clean();
    assert!(swept.summary["checked"].as_u64() > Some(4));
}

#[test]
fn what_a_sweep_found_is_shown_again() {
    let temporary = tempfile::tempdir().expect("a directory");
    let results = temporary.path().join("results");
    let out = results.to_str().expect("text");
    let swept = sweep(
        &["--check", REPLACED, "--out", out],
        &["/bin/sh", "-c", &replace("")],
    );
    swept.assert_found();
    let show = |arguments: &[&str]| {
        let output = Command::new(program("crashpoint"))
            .arg("show")
            .arg(&results)
            .args(arguments)
            .output();
        let output = output.expect("it runs");
        assert_eq!(
            output.status.code(),
            Some(1),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(show(&[]).contains("the new file is lost"));
    assert!(
        show(&["1"]).contains("  acknowledged  `replaced`, printed by program"),
        "{}",
        show(&["1"])
    );
    assert!(show(&["1"]).lines().count() <= 24, "{}", show(&["1"]));
    let all = show(&["1", "--all"]);
    assert!(
        show(&["1"])
            .lines()
            .filter(|line| !line.contains('…'))
            .all(|line| all.contains(line)),
        "{all}"
    );
    assert!(Path::new(out).join("trace/trace.json").exists());
}

/// Saves messages in files with names that mktemp draws, and says which.
const DRAWN: &str = "cd {dir} && for number in 1 2 3 4 5; do \
                     file=$(mktemp message.XXXXXXXXXXXX) && echo whole > $file && echo $file; done";

#[test]
fn files_that_mktemp_named_are_two_findings_the_name_and_the_data() {
    let check = "for file in $(cat {acks}); do \
                 if ! test -e {dir}/$file; then echo broken message $file is gone; exit; fi; \
                 if ! grep -qx whole {dir}/$file; then echo broken message $file is damaged; exit; fi; done; echo ok";
    let swept = sweep(&["--check", check], &["/bin/sh", "-c", DRAWN]);
    swept.assert_found();
    let calls: Vec<_> = swept.missing().into_iter().map(|(call, _)| call).collect();
    assert_eq!(swept.findings.len(), 2, "{:#?}", swept.findings);
    // On no file system is the data there without its name.
    assert_eq!(calls, ["write", "openat", "write"], "{:#?}", swept.findings);
    for finding in &swept.findings {
        assert_eq!(
            finding["patterns"],
            serde_json::json!({ "message.*": 5 }),
            "{finding:#}"
        );
    }
    let states: u64 = swept
        .findings
        .iter()
        .filter_map(|finding| finding["states"].as_u64())
        .sum();
    assert!(
        Some(states) >= swept.summary["broken"].as_u64() && states > 100,
        "{states}"
    );
}

#[test]
fn two_files_that_one_program_loses_in_the_same_words_are_not_one_finding() {
    let script = "cd {dir} && echo whole > customers.db && sync . && echo customers.db && \
                  echo whole > purchases.db && sync . && echo purchases.db";
    let check = "for file in $(cat {acks}); do \
                 if ! grep -qx whole {dir}/$file; then echo broken something is lost; exit; fi; done; echo ok";
    let swept = sweep(&["--check", check], &["/bin/sh", "-c", script]);
    let missing: Vec<_> = swept
        .missing()
        .into_iter()
        .map(|(_, words)| words)
        .collect();
    assert_eq!(
        missing,
        [
            "append customers.db, 6 bytes at 0",
            "append purchases.db, 6 bytes at 0"
        ]
    );
}

#[test]
fn what_cannot_run_is_said_in_one_line() {
    let refused = |options: &[&str], words: &[&str], part: &str| {
        let swept = sweep(options, words);
        let errors: Vec<_> = swept
            .said
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        assert_eq!((swept.status, errors.len()), (2, 1), "{}", swept.said);
        assert!(errors[0].contains(part), "{}", swept.said);
    };
    refused(
        &["--check", "true"],
        &["/does/not/exist", "{dir}"],
        "/does/not/exist",
    );
    refused(&["--check", "true"], &["true"], "{dir}");
    refused(
        &["--check", "true"],
        &["sh", "-c", "touch {dir}/a; exit 5"],
        "5",
    );
    refused(
        &["--check", "true", "--dir", "/does/not/exist"],
        &["ls", "{dir}"],
        "/does/not/exist",
    );
    refused(
        &["--check", "true"],
        &["rm", "-r", "{dir}"],
        "removed its directory",
    );
    refused(
        &["--check", "true", "--sample", "0"],
        &["ls", "{dir}"],
        "--sample",
    );
    refused(
        &["--check", "true"],
        &["no-such-program", "{dir}"],
        "no-such-program in PATH",
    );
    refused(&["--check", "true"], &["/tmp", "{dir}"], "no regular file");
    // What would be refused later is before anything runs.
    let ran = Path::new("/dev/shm").join(format!("ran-{}", std::process::id()));
    let leaves = ["touch", ran.to_str().expect("text"), "{dir}/a"];
    refused(
        &["--check", "true", "--out", "/tmp"],
        &leaves,
        "/tmp has other files in it",
    );
    refused(
        &["--check", "true", "--states", "reorder:1"],
        &leaves,
        "--level block",
    );
    assert!(!ran.exists());
}

#[test]
fn a_file_that_is_no_program_is_told_as_what_it_is() {
    let folder = tempfile::tempdir().expect("a directory");
    let refused = |content: &[u8], mode: u32, part: &str| {
        let file = folder.path().join("file");
        std::fs::write(&file, content).expect("written");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("changed");
        let swept = sweep(
            &["--check", "true"],
            &[file.to_str().expect("text"), "{dir}"],
        );
        assert_eq!(
            (swept.status, swept.said.lines().count()),
            (2, 1),
            "{}",
            swept.said
        );
        assert!(
            swept.said.starts_with("error: ") && swept.said.contains(part),
            "{}",
            swept.said
        );
    };
    let program = std::fs::read("/bin/true").expect("read");
    refused(b"#!/bin/sh\n", 0o644, "not executable");
    refused(b"#!/no/such/interpreter\n", 0o755, "interpreter");
    refused(&program[..program.len() / 16], 0o755, "damaged");
    refused(&program, 0o4755, "set-uid");
}

#[test]
fn a_program_without_libraries_and_a_script_without_a_first_line_are_recorded() {
    let folder = tempfile::tempdir().expect("a directory");
    let source = folder.path().join("write.rs");
    std::fs::write(
        &source,
        "fn main() { std::fs::write(std::env::args().nth(1).unwrap() + \"/file\", \"x\").unwrap() }",
    )
    .expect("written");
    let program = folder.path().join("write");
    let mut build = Command::new("rustc");
    build
        .args(["-C", "target-feature=+crt-static", "-o"])
        .arg(&program)
        .arg(&source);
    assert!(build.status().expect("it runs").success());
    let script = folder.path().join("script");
    std::fs::write(&script, "echo x > $1/file\n").expect("written");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("changed");
    for program in [program, script] {
        // What is written is there at first without its bytes.
        let check = "if test -s {dir}/file; then echo ok; else echo broken it is not there; fi";
        sweep(
            &["--check", check],
            &[program.to_str().expect("text"), "{dir}"],
        )
        .assert_found();
    }
}

#[test]
fn a_finding_names_the_functions_that_made_the_call() {
    let folder = tempfile::tempdir().expect("a directory");
    let source = folder.path().join("save.rs");
    let text = "use std::{env::args, fs::File, io::Write};

#[inline(never)]
fn append(file: &mut File) {
    file.write_all(b\"one\").unwrap();
    println!(\"stored\");
}

fn main() {
    append(&mut File::create(args().nth(1).unwrap() + \"/file\").unwrap());
}
";
    std::fs::write(&source, text).expect("written");
    let program = folder.path().join("save");
    let mut build = Command::new("rustc");
    build.args(["-g", "-o"]).arg(&program).arg(&source);
    assert!(build.status().expect("it runs").success());
    let check = "if test -s {dir}/file || ! test -s {acks}; then echo ok; else echo broken; fi";
    let swept = sweep(
        &["--check", check],
        &[program.to_str().expect("text"), "{dir}"],
    );
    swept.assert_found();
    let callers: Vec<Vec<&str>> = swept
        .findings
        .iter()
        .flat_map(|finding| finding["nodes"][0]["lost"].as_array().expect("an array"))
        .filter(|lost| lost["call"] == "write")
        .map(|lost| {
            let called_by = lost["called_by"].as_array().expect("it is known");
            called_by
                .iter()
                .filter_map(|caller| caller.as_str())
                .collect()
        })
        .collect();
    assert!(!callers.is_empty(), "{:#?}", swept.findings);
    for callers in callers {
        let own = ["save::append (save.rs:5)", "save::main (save.rs:10)"];
        assert!(callers.starts_with(&own), "{callers:?}");
    }
}

#[test]
fn an_interrupt_ends_a_program_that_is_recorded_and_all_that_it_started() {
    for options in [&[][..], &["--disk", "ext4"]] {
        let temporary = tempfile::tempdir().expect("a directory");
        let numbers = temporary.path().join("numbers");
        let script = format!(
            "trap '' INT TERM; sleep 600 & echo $$ $! > {0}.new; mv {0}.new {0}; echo x > {{dir}}/a; wait",
            numbers.display()
        );
        let mut command = Command::new(program("crashpoint"));
        command
            .arg("app")
            .args(options)
            .args(["--check", "echo ok", "--", "/bin/sh", "-c", &script]);
        command.env("TMPDIR", temporary.path());
        let running = Running::start(command.stderr(Stdio::piped()));
        wait_until("the program has begun", PATIENCE, || numbers.exists());
        running.send(Signal::SIGTERM);
        let output = running.output();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains("interrupted: the program was ended"),
            "{said}"
        );
        for pid in std::fs::read_to_string(&numbers)
            .expect("it had begun")
            .split_whitespace()
        {
            // Whose child it is by now may not have waited for it.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            assert!(
                stat.is_empty() || stat.contains(") Z "),
                "{pid} lives: {stat}"
            );
        }
        std::fs::remove_file(&numbers).expect("removed");
        assert_eq!(temporary.path().read_dir().expect("read").count(), 0);
    }
}

#[test]
fn a_program_that_leaves_another_one_running_is_waited_for_with_a_word() {
    for (leaves, is_told) in [("sleep 5 &", true), ("sleep 0.1 &", false)] {
        let script = format!("{} && {leaves}", replace("&& sync -d file.tmp"));
        let swept = sweep(
            &["--check", "echo ok", "--model", "xfs"],
            &["/bin/sh", "-c", &script],
        );
        swept.assert_clean();
        let words = "the program has ended, and a process that it started has not";
        assert_eq!(
            swept.said.matches(words).count(),
            usize::from(is_told),
            "{}",
            swept.said
        );
    }
}

#[test]
fn a_check_that_decides_nothing_passes_nothing() {
    let cases = [
        ("true", "no verdict", "600"),
        ("kill -9 $$", "SIGKILL", "600"),
        ("sleep 3000", "longer than", "1"),
        ("sleep 3000", "longer than", "1s"),
    ];
    for (check, why, limit) in cases {
        // Of what the run left it says that it is ok.
        let check = format!("if test -s {{dir}}/file; then echo ok; else {check}; fi");
        let options = ["--check", &check, "--check-limit", limit];
        let swept = sweep(&options, &["/bin/sh", "-c", "echo new > {dir}/file"]);
        assert_eq!(swept.status, 3, "{}", swept.said);
        assert_ne!(swept.summary["inconclusive"], 0);
        assert!(
            swept.summary["reasons"].to_string().contains(why),
            "{:#}",
            swept.summary
        );
    }
}

#[test]
fn a_check_that_a_state_kills_has_decided() {
    let check = "if test -s {dir}/file; then echo ok; else echo no page 0 >&2; kill -BUS $$; fi";
    let swept = sweep(
        &["--check", check],
        &["/bin/sh", "-c", "echo new > {dir}/file"],
    );
    assert_eq!(swept.status, 1, "{}", swept.said);
    assert_eq!(swept.summary["inconclusive"], 0, "{:#}", swept.summary);
    let finding = &swept.findings[0];
    assert_eq!(
        finding["broken"][0], "the check died of SIGBUS",
        "{finding:#}"
    );
    assert!(finding.to_string().contains("no page 0"), "{finding:#}");
}

#[test]
fn a_check_that_is_no_judge_of_the_whole_run_is_refused_with_how_often() {
    let program = ["/bin/sh", "-c", "echo new > {dir}/file"];
    let folder = tempfile::tempdir().expect("a directory");
    let asked = folder.path().join("asked").display().to_string();
    let sometimes = format!("if mkdir {asked} 2>/dev/null; then echo broken x; else echo ok; fi");
    for (check, part) in [
        (
            "echo broken it is not there",
            "3 of 3 times it did not: broken it is not there",
        ),
        (&*sometimes, "1 of 3 times it did not: broken x"),
        ("true", "3 of 3 times it did not: the check gave no verdict"),
    ] {
        let swept = sweep(&["--check", check], &program);
        assert_eq!(swept.status, 2, "{}", swept.said);
        assert!(swept.said.contains(part), "{}", swept.said);
    }
}

/// Begins a sweep whose check takes its time, and sends it a signal in the middle: when it looks at a
/// crash state, after three times at what the program left.
fn signalled(temporary: &Path, signal: Signal) -> Output {
    let alive = temporary.join("alive");
    let check = format!(
        "echo >> {0}; [ $(wc -l < {0}) -lt 4 ] || sleep 1; echo ok",
        alive.display()
    );
    let mut command = Command::new(program("crashpoint"));
    command.args([
        "app",
        "--format",
        "json",
        "--jobs",
        "1",
        "--check",
        &check,
        "--",
        "/bin/sh",
        "-c",
        &replace(""),
    ]);
    command
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let running = Running::start(&mut command);
    let times = || std::fs::read(&alive).map_or(0, |lines| lines.len());
    wait_until("the check goes on", PATIENCE, || times() >= 4);
    running.send(signal);
    let output = running.output();
    std::fs::remove_file(&alive).expect("the check had begun");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!alive.exists(), "the check goes on");
    output
}

#[test]
fn an_interrupt_ends_a_sweep_with_what_there_is_and_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let temporary = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let output = signalled(temporary.path(), signal);
        assert_eq!(output.status.code(), Some(3));
        assert!(String::from_utf8_lossy(&output.stdout).contains("\"interrupted\":true"));
        assert_eq!(temporary.path().read_dir().expect("read").count(), 0);
    }
}

/// The check was asked three times of what the program left, and it is found out what may be on the
/// disk after each of its many calls.
#[test]
fn an_interrupt_is_heard_while_the_states_are_computed_and_the_sweep_can_be_continued() {
    let temporary = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let in_it = |name: &str| temporary.path().join(name);
    let (asked, states, results) = (in_it("asked"), in_it("states"), in_it("results"));
    std::fs::create_dir(&states).expect("made");
    let script = "import os\nlog = os.open('{dir}/log', os.O_CREAT | os.O_WRONLY)\n\
         for call in range(20000): os.write(log, b'x' * 40) and call % 4 or os.fsync(log)\n\
         print('written', flush=True)\n";
    let check = format!("echo x >> {}; echo ok", asked.display());
    let command = |arguments: &[&std::ffi::OsStr]| {
        let mut command = Command::new(program("crashpoint"));
        command.arg("app").args(arguments).env("TMPDIR", &states);
        command
    };
    let begun = ["--sample", "1", "--check", &check, "--out"].map(AsRef::as_ref);
    let tested = ["--", "/usr/bin/python3", "-c", script].map(AsRef::as_ref);
    let arguments = [&begun[..], &[results.as_os_str()], &tested[..]].concat();
    let mut begun = command(&arguments);
    let running = Running::start(begun.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let times = || std::fs::read(&asked).map_or(0, |lines| lines.len() / 2);
    wait_until("the check was asked", PATIENCE, || times() >= 3);
    // Now it is past what asks before the first call is looked at.
    std::thread::sleep(Duration::from_millis(300));
    running.send(Signal::SIGTERM);
    let output = running.output();
    let said_first = said(&output);
    assert_eq!(output.status.code(), Some(3), "{said_first}");
    assert!(
        said_first.contains("interrupted before the first crash state: nothing was tested")
            && said_first.contains("continue with: "),
        "{said_first}"
    );
    assert!(output.stdout.is_empty(), "{said_first}");
    assert_eq!(states.read_dir().expect("read").count(), 0, "{said_first}");

    let resumed = command(&["--resume".as_ref(), results.as_os_str()]).output();
    let resumed = resumed.expect("it runs");
    assert_eq!(resumed.status.code(), Some(0), "{}", said(&resumed));
    let table = String::from_utf8_lossy(&resumed.stdout);
    assert!(table.contains("of 5000 syncs"), "{table}");
}

#[test]
fn what_a_kill_leaves_is_a_directory_that_clean_removes() {
    let temporary = tempfile::tempdir().expect("a directory");
    signalled(temporary.path(), Signal::SIGKILL);
    assert_eq!(temporary.path().read_dir().expect("read").count(), 1);
    let mut clean = Command::new(program("crashpoint"));
    clean.arg("clean").env("TMPDIR", temporary.path());
    let output = clean.output().expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(temporary.path().read_dir().expect("read").count(), 0);
}

#[test]
fn an_ordinary_user_may_test_a_program_unless_it_keeps_the_path_of_its_directory() {
    let ordinary = Ordinary::new();
    let run = |script: &str| {
        let arguments = ["app", "--check", REPLACED, "--", "/bin/sh", "-c", script];
        let output = ordinary.crashpoint(&arguments).output().expect("it runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (status, said) = run(&replace("&& sync file.tmp && sync ."));
    // Nothing syncs the new name.
    assert_eq!(status, Some(1), "{said}");
    let (status, said) = run("ln -s {dir}/a {dir}/b");
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("run this as root"), "{said}");
    assert_eq!(ordinary.temporary().read_dir().expect("read").count(), 0);
}

/// Its owner must not write in it, and removes it all the same.
#[test]
fn an_ordinary_user_leaves_no_directory_behind_that_must_not_be_written() {
    let user = Ordinary::new();
    let script = "mkdir {dir}/d && echo x >{dir}/d/file && chmod 555 {dir}/d && echo done";
    let sweep = ["app", "--model", "posix", "--check", "echo ok", "--"];
    let program = ["/bin/sh", "-c", script];
    let output = user.crashpoint(&[&sweep[..], &program].concat()).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let left = user.temporary().read_dir().expect("read").count();
    assert_eq!(left, 0, "{}", said(&output));
}
