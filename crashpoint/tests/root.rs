//! What needs root: the doctor, cleaning, results.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;

const PROGRAM: &str = env!("CARGO_BIN_EXE_crashpoint");

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A process id that the kernel never gives (the most is 2^22).
const NO_PID: &str = "99999999";

fn crashpoint() -> Command {
    let mut command = Command::new(PROGRAM);
    command.timeout(PATIENCE);
    command
}

/// Fails where a test cannot do its work, rather than to pass without having done it.
fn require_root() {
    let is_root = nix::unistd::geteuid().is_root();
    assert!(is_root, "run `make test`, or cargo test as root");
}

fn sweep_into(out: &Path, more: &[&str]) -> Command {
    let mut command = crashpoint();
    command
        .args(["fs", "--fs", "ext4", "--ops", "1", "--jobs", "1", "--out"])
        .arg(out)
        .args(more);
    command
}

#[test]
fn the_doctor_believes_itself_on_ext4() {
    require_root();
    let said = crashpoint()
        .args(["doctor", "--fs", "ext4"])
        .assert()
        .success();
    let said = String::from_utf8_lossy(&said.get_output().stdout).into_owned();
    let found = |name: &str| {
        said.lines()
            .find_map(|line| line.split_once(name))
            .map(|(_, found)| found.trim().to_owned())
    };
    for (disk, expected) in [
        ("ext4 on honest disk  ", "not accused"),
        ("ext4 on drop-flush disk  ", "caught"),
        (
            "ext4 on honest disk, every-write,reorder:1  ",
            "not accused",
        ),
        ("ext4 on drop-flush disk, reorder:1  ", "caught"),
    ] {
        assert_eq!(found(disk).as_deref(), Some(expected), "{said}");
    }
}

#[test]
fn results_are_a_manifest_whole_lines_and_the_table() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("out");
    let shown = sweep_into(&out, &["--range", "0..5"])
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    assert_eq!(
        std::fs::read(out.join("summary.txt")).expect("a table"),
        shown
    );
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("manifest.json")).expect("a manifest"))
            .expect("JSON");
    assert_eq!(manifest["file_systems"][0]["file_system"], "ext4");
    assert_eq!(manifest["workloads"], "generated: seq-1");
    let results = std::fs::read_to_string(out.join("results.jsonl")).expect("results");
    let types: Vec<_> = results
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["type"].clone())
        .collect();
    assert!(
        types.len() > 2 && types.iter().all(|kind| kind == "result"),
        "{types:?}"
    );
    let summary = std::fs::read(out.join("summary.jsonl")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_slice(&summary).expect("one object");
    assert_eq!(
        (&summary["type"], &summary["workloads"]),
        (&"summary".into(), &types.len().into())
    );
    // They are not overwritten.
    sweep_into(&out, &[])
        .assert()
        .code(2)
        .stderr(contains("holds results already"));
}

#[test]
fn a_full_disk_leaves_whole_lines_only() {
    require_root();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display();
    // 32 KiB are full after some hundred results.
    let script = format!(
        "mount -t tmpfs -o size=32k small {path} || exit 9
         {PROGRAM} fs --fs ext4 --ops 1 --jobs 1 --out {path}/out
         status=$?; tail -c 1 {path}/out/results.jsonl | od -An -c; wc -c < {path}/out/results.jsonl; exit $status"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .assert()
        .code(2);
    output
        .stderr(contains("No space left on device").and(contains("free some space")))
        .stdout(contains("\\n"));
}

#[test]
fn a_clean_sweep_is_0_findings_are_1_and_the_unmeasurable_is_3() {
    require_root();
    let run = |disk: &str, workload: &str| {
        let mut command = crashpoint();
        command
            .args([
                "fs", "--fs", "ext4", "--disk", disk, "--format", "json", "-",
            ])
            .write_stdin(workload);
        command.assert()
    };
    run("honest", "creat foo; fsync foo").code(0);
    run("drop-flush", "creat foo; fsync foo")
        .code(1)
        .stdout(contains("\"verdict\":\"finding\""));
    run("honest", "unlink foo; sync")
        .code(3)
        .stdout(contains("\"verdict\":\"inconclusive\""));
}

#[test]
fn a_closed_pipe_ends_a_sweep_without_failure() {
    require_root();
    let line = format!(
        "{PROGRAM} fs --fs ext4 --ops 1 --format json | head -n 1; exit ${{PIPESTATUS[0]}}"
    );
    Command::new("bash")
        .args(["-c", &line])
        .assert()
        .success()
        .stdout(contains("\"type\":\"result\""));
}

#[test]
fn clean_removes_what_a_killed_run_left_and_nothing_else() {
    require_root();
    let temporary = tempfile::tempdir().expect("a directory");
    let named = |name: &str| {
        let path = temporary.path().join(name);
        std::fs::create_dir(&path).expect("created");
        path
    };
    let gone = named(&format!("crashpoint-{NO_PID}-abcdef"));
    let kept = [
        named("crashpoint-notes"),
        named(&format!("crashpoint-{NO_PID}")),
        named(&format!("other-{NO_PID}-abcdef")),
        named(&format!("crashpoint-{}-abcdef", std::process::id())),
    ];
    let killed = killed_run(temporary.path());
    let clean = || {
        let mut command = crashpoint();
        command.arg("clean").env("TMPDIR", temporary.path());
        command
    };
    clean()
        .arg("--dry-run")
        .assert()
        .success()
        .stdout(contains(format!("would remove {}", gone.display())));
    assert!(gone.exists());
    clean()
        .assert()
        .success()
        .stdout(contains(format!("removed {}", gone.display())).and(contains(&killed)));
    assert!(!gone.exists() && !Path::new(&killed).exists());
    for path in kept {
        assert!(path.exists(), "{} is gone", path.display());
    }
}

/// A worker whose parent is killed does what it has begun first.
#[test]
fn clean_waits_for_a_worker_that_does_what_it_has_begun() {
    require_root();
    let temporary = tempfile::tempdir().expect("a directory");
    let programs = tempfile::tempdir().expect("a directory");
    let slow = programs.path().join("mkfs.ext4");
    // It computes for a while before it makes the file system.
    let script = "n=0; while [ $n -lt 500000 ]; do n=$((n+1)); done";
    let mkfs = local_fs::find_program("mkfs.ext4").expect("it is installed");
    let begun = programs.path().join("begun");
    let text = format!(
        "#!/bin/sh\ntouch {}\n{script}\nexec {} \"$@\"\n",
        begun.display(),
        mkfs.display()
    );
    std::fs::write(&slow, text).expect("written");
    std::fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("changed");
    let path = format!(
        "{}:{}",
        programs.path().display(),
        std::env::var("PATH").expect("there is a PATH")
    );
    let mut sweep = start_sweep(temporary.path(), &path);
    wait_until("mkfs runs", || begun.exists());
    let left = directory_of(&sweep, temporary.path()).expect("it has one");
    sweep.kill().expect("killed");
    sweep.wait().expect("reaped");
    let mut clean = crashpoint();
    let said = clean
        .arg("clean")
        .env("TMPDIR", temporary.path())
        .assert()
        .success();
    said.stdout(contains(format!("removed {left}")));
    assert!(!Path::new(&left).exists());
}

fn start_sweep(temporary: &Path, path: &str) -> Child {
    let mut command = std::process::Command::new(PROGRAM);
    command.args(["fs", "--fs", "ext4", "--preset", "seq-2", "--jobs", "1"]);
    command
        .env("TMPDIR", temporary)
        .env("PATH", path)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("started")
}

/// The directory of a sweep, if it has made it.
fn directory_of(sweep: &Child, temporary: &Path) -> Option<String> {
    let prefix = format!("crashpoint-{}-", sweep.id());
    let mut entries = std::fs::read_dir(temporary).expect("read").flatten();
    let own = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))?;
    Some(own.path().display().to_string())
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never comes that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a sweep, which has begun; the directory that it leaves.
fn killed_run(temporary: &Path) -> String {
    let mut sweep = start_sweep(temporary, &std::env::var("PATH").expect("there is a PATH"));
    wait_until("it has a directory", || {
        directory_of(&sweep, temporary).is_some()
    });
    let left = directory_of(&sweep, temporary).expect("it has one");
    std::thread::sleep(Duration::from_millis(500));
    let running = crashpoint()
        .args(["clean", "--dry-run"])
        .env("TMPDIR", temporary)
        .assert()
        .success();
    let said = String::from_utf8_lossy(&running.get_output().stdout).into_owned();
    assert!(
        !said.contains(&left),
        "a living run would be cleaned away: {said}"
    );
    sweep.kill().expect("killed");
    sweep.wait().expect("reaped");
    left
}
