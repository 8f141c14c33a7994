//! Healthy disks: nothing is found on ext4, xfs and btrfs, but for what this kernel is known to
//! do wrong. Needs root.

use std::path::PathBuf;

use end_to_end::{Report, crashpoint, program, replay, require_root};

/// What btrfs breaks in workloads of B3, with the promise. The workload is as old as the bug;
/// docs/results.md explains both.
const KNOWN_ON_BTRFS: [(&str, &str); 2] = [
    // fsync of the directory that a file was moved to: the file is in both.
    ("generic_321", "rename-atomic"),
    // A durable file was replaced by a rename; fsync of its neighbour: neither is there.
    ("new_1", "fsync-names"),
];

fn b3_files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/b3");
    let entries = std::fs::read_dir(folder).expect("the workloads of B3 are there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("read").path()).collect();
    files.sort();
    assert!(files.len() > 50, "{} files", files.len());
    files
}

fn seq_1(file_system: &str) {
    require_root();
    let report = Report::of(crashpoint().args([
        "fs",
        "--preset",
        "seq-1",
        "--jobs",
        "2",
        "--format",
        "json",
        "--fs",
        file_system,
    ]));
    report.assert_clean();
    assert!(report.total("workloads") > 200, "{:?}", report.summaries);
}

fn b3(file_system: &str) -> Report {
    require_root();
    Report::of(replay().args(["--jobs", "2", "--format", "json", "--fs", file_system]).args(b3_files()))
}

#[test]
fn seq_1_is_clean_on_ext4() {
    seq_1("ext4");
}

#[test]
fn seq_1_is_clean_on_xfs() {
    seq_1("xfs");
}

#[test]
fn seq_1_is_clean_on_btrfs() {
    seq_1("btrfs");
}

#[test]
fn the_workloads_of_b3_are_clean_on_ext4() {
    b3("ext4").assert_clean();
}

#[test]
fn the_workloads_of_b3_are_clean_on_xfs() {
    b3("xfs").assert_clean();
}

#[test]
fn btrfs_breaks_two_workloads_of_b3_and_no_other() {
    let report = b3("btrfs");
    assert_eq!(report.total("not_measured"), 0, "{:?}", report.with_verdict("not-measured"));
    let broken = report.broken();
    for (workload, promise) in &broken {
        let known = KNOWN_ON_BTRFS.contains(&(workload.as_str(), promise.as_str()));
        assert!(known, "{workload} breaks {promise}, which is new: {broken:?}");
    }
    for (workload, promise) in KNOWN_ON_BTRFS {
        if !broken.iter().any(|(name, _)| name == workload) {
            println!("this kernel does not break {promise} in {workload} any more: take it off the list");
        }
    }
}

#[test]
fn what_ace_gen_writes_replay_reads() {
    require_root();
    let line = format!(
        "set -o pipefail; {} --ops 1 --sample 20 --seed 1 | {} --fs ext4 --jobs 2",
        program("ace-gen").display(),
        program("replay").display()
    );
    let output = assert_cmd::Command::new("bash").args(["-c", &line]).assert().success();
    let table = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(table.contains("ext4") && table.contains(" 20 "), "{table}");
}
