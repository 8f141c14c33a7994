//! What is logged on standard error, and that nothing is unless somebody asks for it.

use std::process::Output;

use end_to_end::{crashpoint, require_root, said};
use tempfile::TempDir;

/// A sweep of one workload on ext4, with these arguments and this `RUST_LOG`.
fn sweep(directory: &TempDir, arguments: &[&str], filter: Option<&str>) -> Output {
    require_root();
    let workload = directory.path().join("one.wl");
    std::fs::write(&workload, "creat foo; fsync foo; !").expect("written");
    let mut command = crashpoint();
    command.env_remove("RUST_LOG");
    if let Some(filter) = filter {
        command.env("RUST_LOG", filter);
    }
    command
        .args(["fs", "--fs", "ext4", "--jobs", "1"])
        .arg(&workload)
        .args(arguments);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    output
}

/// Whether a line has all of these.
fn has_line(text: &str, parts: &[&str]) -> bool {
    text.lines()
        .any(|line| parts.iter().all(|part| line.contains(part)))
}

#[test]
fn a_sweep_logs_what_it_runs_and_mounts_only_if_it_is_asked_to() {
    let directory = TempDir::new().expect("made");
    let quiet = sweep(&directory, &[], None);
    let out = directory.path().join("out");
    let logged = sweep(
        &directory,
        &["-v", "--out", out.to_str().expect("text")],
        None,
    );
    let log = said(&logged);
    for parts in [
        &["INFO", "ran", "mkfs.ext4", "exit status: 0", "seconds="][..],
        &["INFO", "mounted", "file_system=ext4", "/dev/loop"],
        &["INFO", "unmounted"],
        &["INFO", "e2fsck"],
        &["INFO", "started a worker", "pid="],
        &["INFO", "a worker has ended"],
        &["INFO", "results go here", "out"],
    ] {
        assert!(has_line(&log, parts), "{parts:?} is not in\n{log}");
    }
    assert!(!log.contains("DEBUG") && !log.contains("TRACE"), "{log}");
    // Without a terminal there are no colours.
    assert!(!log.contains('\u{1b}'), "{log}");
    assert_eq!(said(&quiet), "", "standard error without -v");
    assert_eq!(quiet.stdout.is_empty(), logged.stdout.is_empty());
}

#[test]
fn each_v_and_each_filter_shows_its_part() {
    let directory = TempDir::new().expect("made");
    let states = sweep(&directory, &["-vvv"], None);
    assert!(
        has_line(&said(&states), &["TRACE", "checks a crash state"]),
        "{}",
        said(&states)
    );
    // Workers have the same filter.
    let mounts = said(&sweep(&directory, &[], Some("local_fs::mount=info")));
    assert!(has_line(&mounts, &["mounted", "ext4"]), "{mounts}");
    assert!(
        mounts.lines().all(|line| line.contains("local_fs::mount")),
        "{mounts}"
    );
    let off = sweep(&directory, &[], Some("off"));
    assert_eq!(said(&off), "");
}
