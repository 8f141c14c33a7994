//! The program `ace-gen`.

use std::io::{BufRead, BufReader};
use std::process::{Command as Process, Stdio};

use assert_cmd::Command;
use predicates::prelude::*;

fn ace_gen(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("ace-gen").unwrap();
    command.args(arguments);
    command
}

fn stdout(arguments: &[&str]) -> String {
    let output = ace_gen(arguments)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn the_demo_is_nine_workloads() {
    insta::assert_snapshot!(stdout(&["--preset", "demo"]));
}

#[test]
fn the_first_workload_of_a_mapped_write_as_j_lang() {
    insta::assert_snapshot!(stdout(&[
        "--ops",
        "1",
        "--operations",
        "dwrite,mmapwrite",
        "--sample",
        "2",
        "--format",
        "jlang"
    ]));
}

#[test]
fn json_is_one_object_a_line() {
    insta::assert_snapshot!(stdout(&[
        "--preset", "demo", "--index", "0", "--format", "json"
    ]));
}

#[test]
fn count_prints_the_number_alone() {
    for (arguments, count) in [
        (vec!["--preset", "seq-3-metadata"], "1539180\n"),
        (vec!["--ops", "1"], "336\n"),
        (vec!["--ops", "2", "--as-shipped"], "241720\n"),
        (vec!["--preset", "seq-2", "--shard", "2/5"], "50807\n"),
        (vec!["--preset", "seq-2", "--range", "10..20"], "10\n"),
        (vec!["--preset", "seq-2", "--sample", "12"], "12\n"),
    ] {
        assert_eq!(
            stdout(&[&arguments[..], &["--count"]].concat()),
            count,
            "{arguments:?}"
        );
    }
}

#[test]
fn count_of_unique_says_what_was_removed_on_standard_error() {
    let expected = "removed 34 of 336: 18 equal, 16 that say remove for unlink\n";
    ace_gen(&["--preset", "seq-1", "--unique", "--count"])
        .assert()
        .success()
        .stdout("302\n")
        .stderr(expected);
    ace_gen(&["--preset", "seq-1", "--unique", "--index", "3"])
        .assert()
        .success()
        .stderr(expected);
}

#[test]
fn one_workload_keeps_its_number() {
    let all = stdout(&["--preset", "seq-1"]);
    let one = stdout(&["--preset", "seq-1", "--index", "17"]);
    assert_eq!(Some(one.trim_end()), all.lines().nth(17));
    assert!(one.starts_with("workload seq-1/17; "), "{one}");
}

#[test]
fn changed_bounds_do_not_keep_the_name_of_a_preset() {
    assert!(stdout(&["--ops", "1", "--index", "0"]).starts_with("workload seq-1/0; "));
    assert!(stdout(&["--ops", "1", "--nested", "--index", "0"]).starts_with("workload custom-1-"));
}

#[test]
fn a_wrong_argument_is_one_line_and_status_2() {
    for (arguments, says) in [
        (vec!["--preset", "seq-9"], "known: seq-1, seq-2, seq-3-data"),
        (
            vec!["--ops", "1", "--operations", "creat,fly"],
            "unknown operation 'fly'; known: creat, mkdir",
        ),
        (
            vec!["--ops", "1", "--falloc-modes", "big"],
            "unknown falloc mode 'big'",
        ),
        (vec!["--ops", "0"], "workloads of 0 operations"),
        (vec!["--ops", "99"], "1 to 8"),
        (vec!["--ops", "8"], "too many workloads"),
        (
            vec!["--ops", "1", "--files", "A"],
            "'A' would be a file and a directory",
        ),
        (
            vec!["--ops", "1", "--files", "/etc/passwd"],
            "'/etc/passwd' is not a relative path",
        ),
        (
            vec!["--ops", "1", "--persistence", "none"],
            "needs a persistence operation",
        ),
        (vec!["--preset", "seq-1", "--shard", "0/4"], "I from 1 to N"),
        (
            vec!["--preset", "seq-1", "--range", "9..3"],
            "A not above B",
        ),
        (
            vec!["--preset", "seq-1", "--ops", "1"],
            "cannot be used with",
        ),
        (
            vec!["--preset", "seq-1", "--frobnicate"],
            "unexpected argument",
        ),
        (
            vec!["--preset", "seq-1", "--index", "336"],
            "no workload 336; the last is 335",
        ),
        (
            vec!["--ops", "1", "--operations", "symlink", "--format", "jlang"],
            "as J-lang",
        ),
        (vec![], "give a preset or a number of operations"),
    ] {
        let one_line = predicate::function(|text: &str| {
            text.lines().count() == 1 && text.starts_with("ace-gen: ")
        });
        let says = predicate::str::contains(says);
        ace_gen(&arguments)
            .assert()
            .code(2)
            .stdout("")
            .stderr(one_line.and(says));
    }
}

#[test]
fn help_lists_the_presets() {
    assert!(stdout(&["--help"]).contains("seq-3-metadata"));
}

#[test]
fn a_closed_pipe_ends_with_status_0() {
    let program = assert_cmd::cargo::cargo_bin("ace-gen");
    for format in ["text", "json"] {
        let mut child = Process::new(&program)
            .args(["--preset", "seq-3-metadata", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{format}: {}", output.status);
        assert!(output.stderr.is_empty(), "{format}");
    }
}
