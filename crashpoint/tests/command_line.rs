//! What the command line promises without touching a file system.

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};

fn crashpoint() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crashpoint"));
    command.timeout(std::time::Duration::from_secs(600));
    command
}

/// It ends with 2, and with one line that says so.
fn refused(arguments: &[&str]) -> String {
    let output = crashpoint()
        .args(arguments)
        .assert()
        .code(2)
        .stdout(is_empty());
    let said = String::from_utf8(output.get_output().stderr.clone()).expect("text");
    assert_eq!(said.lines().count(), 1, "{arguments:?} says:\n{said}");
    assert!(said.starts_with("error: "), "{arguments:?} says: {said}");
    said
}

fn help(arguments: &[&str]) -> String {
    let output = crashpoint()
        .args(arguments)
        .arg("--help")
        .env("COLUMNS", "100")
        .assert()
        .success();
    String::from_utf8(output.get_output().stdout.clone()).expect("text")
}

#[test]
fn help_is_what_it_was() {
    insta::assert_snapshot!("help", help(&[]));
    for command in [
        "fs",
        "merge",
        "show",
        "minimize",
        "replay",
        "report",
        "doctor",
        "clean",
        "bench",
        "completions",
        "man",
    ] {
        insta::assert_snapshot!(format!("help_{command}"), help(&[command]));
    }
}

#[test]
fn a_wrong_filter_of_the_log_is_answered_in_one_line() {
    let shell = |filter: &str, verbose: &[&str]| {
        let mut command = crashpoint();
        command
            .env("RUST_LOG", filter)
            .args(["show", "/nowhere/results"]);
        let output = command.args(verbose).assert().code(2);
        let said = String::from_utf8(output.get_output().stderr.clone()).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let wrong = shell("local_fs=loud", &[]);
    assert!(
        wrong.starts_with("error: RUST_LOG=local_fs=loud is not understood: try info"),
        "{wrong}"
    );
    // It is not read where -v says what to log, and has nothing to say about this command.
    for (filter, verbose) in [("local_fs=loud", &["-vv"][..]), ("", &[]), ("trace", &[])] {
        let said = shell(filter, verbose);
        assert!(said.contains("/nowhere/results"), "{filter}: {said}");
    }
}

#[test]
fn wrong_arguments_are_answered_in_one_line_with_status_2() {
    let cases: [(&[&str], &str); 20] = [
        (&["fs"], "--fs <FS[:OPTIONS][,FS…]>"),
        (&["fs", "--fs", "ext4"], "no workloads: name files"),
        (
            &["fs", "--fs", "ext4", "--ops", "1", "a.wl"],
            "cannot be mixed",
        ),
        (
            &["fs", "--fs", "ext5", "--ops", "1"],
            "unknown file system 'ext5' (known: ext4, xfs, btrfs, ext3, ext2, f2fs,",
        ),
        (
            &[
                "fs",
                "--fs",
                "ext4:data=journal,xsf",
                "--ops",
                "1",
                "--size",
                "4",
            ],
            "too small for ext4",
        ),
        (
            &["fs", "--fs", "ext4,xsf", "--ops", "1"],
            "unknown file system 'xsf'",
        ),
        (
            &["fs", "--fs", "ext4:noload", "--ops", "1"],
            "promises nothing: it does not recover",
        ),
        (
            &["fs", "--fs", "ext4", "--preset", "seq-9"],
            "unknown preset 'seq-9'; known: seq-1",
        ),
        (
            &["fs", "--fs", "ext4", "--ops", "1", "--operations", "creta"],
            "creta",
        ),
        (
            &["fs", "--fs", "ext4", "--ops", "1", "--disk", "bad"],
            "unknown disk 'bad': expected honest",
        ),
        (
            &["fs", "--fs", "ext4", "--ops", "1", "--shard", "3/2"],
            "a shard is I/N",
        ),
        (
            &["fs", "--fs", "ext4", "--ops", "1", "--size", "4"],
            "too small for ext4: it needs at least 8 MiB",
        ),
        (
            &["fs", "--fs", "ext4", "/nowhere/x.wl"],
            "read /nowhere/x.wl: No such file",
        ),
        (
            &["fs", "--fs", "ext4", "--range", "0..2", "/dev/null"],
            "choose among generated workloads",
        ),
        (
            &["fs", "--fs", "ext4", "--ops", "1", "--index", "336"],
            "there is no workload 336: the last is 335",
        ),
        (
            &["fs", "--resume", "/nowhere"],
            "open /nowhere: No such file",
        ),
        (&["merge", "/nowhere"], "--out <DIR>"),
        (
            &["merge", "/proc", "--out", "/nowhere"],
            "no sweep was begun in /proc",
        ),
        (&["bench", "--fs", "ext5"], "unknown file system 'ext5'"),
        (&["clean", "--dry"], "'--dry-run'"),
    ];
    for (arguments, expected) in cases {
        let said = refused(arguments);
        assert!(said.contains(expected), "{arguments:?} says: {said}");
    }
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let import = [
        "import",
        "--fs",
        "ext4",
        "--log-writes",
        "log",
        "--base",
        "image",
    ];
    let cases: [(&[&str], &str); 5] = [
        (
            &["fs", "--fs", "ext4", "--all", "/dev/null"],
            "--all chooses among generated workloads",
        ),
        (
            &["rules", "/nowhere", "1", "--facts", "--most", "3"],
            "'--facts' cannot be used with '--most <N>'",
        ),
        (
            &[&import[..], &["--jobs", "2"]].concat(),
            "cannot be used with",
        ),
        (
            &[&import[..], &["--size", "64"]].concat(),
            "cannot be used with",
        ),
        (
            &[
                "history", "convert", "/nowhere", "--to", "jsonl", "--model", "map",
            ],
            "--model and --initial are for --to porcupine",
        ),
    ];
    for (arguments, expected) in cases {
        let said = refused(arguments);
        assert!(said.contains(expected), "{arguments:?} says: {said}");
    }
}

#[test]
fn a_file_without_a_workload_is_an_error() {
    assert!(refused(&["fs", "--fs", "ext4", "/dev/null"]).contains("no workload in /dev/null"));
}

#[test]
fn a_bad_workload_is_answered_with_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("bad.wl");
    std::fs::write(&file, "creat foo\nfsnc foo\n").expect("written");
    let said = refused(&["fs", "--fs", "ext4", file.to_str().expect("text")]);
    assert!(
        said.contains("bad.wl:2:1") && said.contains("fsync"),
        "{said}"
    );
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let program = env!("CARGO_BIN_EXE_crashpoint");
    let line = format!("{program} fs --help | true; exit ${{PIPESTATUS[0]}}");
    Command::new("bash")
        .args(["-c", &line])
        .assert()
        .success()
        .stderr(is_empty());
}

#[test]
fn the_version_is_printed() {
    crashpoint()
        .arg("--version")
        .assert()
        .success()
        .stdout(contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_prints_the_commands() {
    crashpoint()
        .assert()
        .code(2)
        .stderr(contains("doctor").and(contains("Usage: crashpoint [OPTIONS] <COMMAND>")));
}

#[test]
fn a_worker_without_work_ends() {
    crashpoint()
        .arg("__worker")
        .write_stdin("")
        .assert()
        .success()
        .stdout(is_empty());
}

#[test]
fn shells_take_the_completions() {
    for (shell, arguments) in [
        ("bash", &["-n"][..]),
        ("zsh", &["-n"]),
        ("fish", &["--no-execute"]),
    ] {
        let output = crashpoint().args(["completions", shell]).assert().success();
        let script = String::from_utf8(output.get_output().stdout.clone()).expect("text");
        assert!(
            script.contains("crashpoint") && script.contains("resume"),
            "{shell}"
        );
        // Every Linux has bash; the others are tried where they are.
        if shell == "bash"
            || std::env::split_paths(&std::env::var_os("PATH").expect("set"))
                .any(|at| at.join(shell).exists())
        {
            Command::new(shell)
                .args(arguments)
                .write_stdin(script)
                .assert()
                .success()
                .stderr(is_empty());
        }
    }
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("crashpoint.bash");
    let completions = crashpoint()
        .args(["completions", "bash"])
        .assert()
        .success();
    std::fs::write(&script, &completions.get_output().stdout).expect("written");
    let complete = "source \"$1\"; COMP_WORDS=(crashpoint rep); COMP_CWORD=1; _crashpoint crashpoint rep crashpoint; echo \"${COMPREPLY[@]}\"";
    let completed = Command::new("bash")
        .args(["-c", complete, "bash"])
        .arg(&script)
        .assert()
        .success();
    completed.stdout(contains("report"));
    assert!(refused(&["completions", "csh"]).contains("possible values: bash, zsh, fish"));
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let directory = tempfile::tempdir().expect("a directory");
    let pages = directory.path().join("man1");
    crashpoint()
        .arg("man")
        .arg(&pages)
        .assert()
        .success()
        .stdout(is_empty());
    let commands = help(&[]);
    let commands = commands
        .lines()
        .take_while(|line| *line != "Options:")
        .filter(|line| line.starts_with("  "));
    let names = commands.filter_map(|line| line.split_whitespace().next());
    let names: Vec<_> = names.map(|name| format!("crashpoint-{name}.1")).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names.iter().map(String::as_str).chain(["crashpoint.1"]) {
        let page = std::fs::read_to_string(pages.join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            page.contains(".TH crashpoint") && page.contains(".SH DESCRIPTION"),
            "{name}: {page}"
        );
    }
    assert!(refused(&["man", "/proc/none"]).contains("write manual pages to /proc/none"));
}
