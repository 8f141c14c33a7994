//! Healthy disks: nothing is found on ext4, xfs and btrfs, but for what this kernel is known to
//! do wrong. Needs root.

use std::path::PathBuf;

use end_to_end::{
    FILE_SYSTEMS, Report, crashpoint, is_known_kernel, program, replay, require_root,
};

/// What btrfs of the known kernel breaks, with the promise; docs/results.md explains each.
const KNOWN_ON_BTRFS: [(&str, &str); 9] = [
    // Of B3. fsync of the directory that a file was moved to: the file is in both.
    ("generic_321", "rename-atomic"),
    // Of B3. A durable file was replaced by a rename; fsync of its neighbour: neither is there.
    ("new_1", "fsync-names"),
    // Found by us.
    ("btrfs_cut_off_data_back", "fsync-data"),
    ("btrfs_moved_file_lost", "name-conflict"),
    ("btrfs_preallocation_lost", "preallocation"),
    ("btrfs_removed_name_back", "fsync-names"),
    ("btrfs_replaced_file_back", "fsync-data"),
    ("btrfs_replaced_file_lost", "fsync-names"),
    ("btrfs_tmpfile_lost", "fsync-names"),
];

/// The collected workloads: those of B3, what we found, what brings old bugs to light, and what
/// goes on around files that are unlinked while open.
fn collected() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (folder, least) in [("b3", 50), ("found", 5), ("recall", 11), ("unlinked", 1)] {
        let folder = format!("{}/../workloads/{folder}", env!("CARGO_MANIFEST_DIR"));
        let entries = std::fs::read_dir(&folder).expect("the workloads are there");
        let paths: Vec<_> = entries.map(|entry| entry.expect("read").path()).collect();
        assert!(paths.len() >= least, "{} files in {folder}", paths.len());
        files.extend(paths);
    }
    files.sort();
    files
}

/// Sweeps seq-1, in which nothing is found.
fn clean_seq_1(file_system: &str, options: &[&str]) -> Report {
    require_root();
    let report = Report::of(
        crashpoint()
            .args(["fs", "--preset", "seq-1", "--jobs", "2", "--format", "json"])
            .args(["--fs", file_system])
            .args(options),
    );
    report.assert_clean();
    report
}

/// A part of seq-1; all of it is in make test-long.
fn part_of_seq_1(file_system: &str) {
    let report = clean_seq_1(file_system, &["--sample", "40", "--seed", "1"]);
    assert_eq!(report.total("workloads"), 40, "{:?}", report.summaries);
}

/// The collected workloads, of which each is so many after another.
fn collection(file_system: &str, step: usize) -> Report {
    require_root();
    Report::of(
        replay()
            .args(["--jobs", "2", "--format", "json", "--fs", file_system])
            .args(collected().iter().step_by(step)),
    )
}

/// Nothing is found in what can be done; the rest cannot.
fn seq_1_where_it_applies(file_system: &str, options: &[&str], not_applicable: u64) {
    let report = clean_seq_1(file_system, options);
    assert_eq!(
        report.total("not_applicable"),
        not_applicable,
        "{:?}",
        report.summaries
    );
    assert_eq!(
        report.with_verdict("not-applicable").len() as u64,
        not_applicable
    );
}

/// Of its modes it has punch_hole alone.
#[test]
fn a_part_of_seq_1_is_clean_on_ext2_once_it_is_repaired_but_for_fallocate_which_it_has_not() {
    seq_1_where_it_applies("ext2", &["--sample", "40", "--seed", "2"], 12);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn all_of_seq_1_is_clean() {
    for file_system in FILE_SYSTEMS {
        let report = clean_seq_1(file_system, &[]);
        assert!(report.total("workloads") > 200, "{:?}", report.summaries);
    }
    for file_system in ["ext3", "ext2"] {
        seq_1_where_it_applies(file_system, &[], 96);
    }
}

#[test]
fn variants_are_swept_one_after_the_other_and_are_clean() {
    require_root();
    // e2fsck takes a mounted disk with an orphan file for damaged.
    let variants = "ext4:data=journal,nodelalloc,ext4:-O ^metadata_csum,^64bit,ext4:-O orphan_file,fast_commit,btrfs:compress=zstd";
    let sample = [
        "fs", "--preset", "seq-1", "--sample", "6", "--jobs", "2", "--format", "json", "--fs",
        variants,
    ];
    let report = Report::of(crashpoint().args(sample));
    report.assert_clean();
    let names: Vec<_> = report
        .summaries
        .iter()
        .filter_map(|summary| summary["variant"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "ext4:data=journal,nodelalloc",
            "ext4:-O ^metadata_csum,^64bit",
            "ext4:-O orphan_file,fast_commit",
            "btrfs:compress=zstd"
        ]
    );
    assert_eq!(report.total("workloads"), 24, "{:?}", report.summaries);
}

/// A sample of seq-1 on disks that answer late, which differ by their seeds.
fn lazy_is_clean(seeds: u64, file_systems: &[&str], sample: u64) {
    let (names, count) = (file_systems.join(","), sample.to_string());
    for seed in 0..seeds {
        let disk = format!("lazy:{seed}");
        let options = ["--sample", &count, "--seed", "1", "--disk", &disk];
        let report = clean_seq_1(&names, &options);
        let workloads = sample * file_systems.len() as u64;
        assert_eq!(
            report.total("workloads"),
            workloads,
            "{:?}",
            report.summaries
        );
    }
}

/// They wait for their writes before they send a flush.
#[test]
fn seq_1_is_clean_on_a_lazy_disk() {
    lazy_is_clean(1, &["ext4", "btrfs"], 15);
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn more_of_seq_1_is_clean_on_lazy_disks() {
    lazy_is_clean(3, &FILE_SYSTEMS, 60);
}

#[test]
fn a_part_of_seq_1_is_clean_on_ext4() {
    part_of_seq_1("ext4");
}

#[test]
fn a_part_of_seq_1_is_clean_on_xfs() {
    part_of_seq_1("xfs");
}

#[test]
fn a_part_of_seq_1_is_clean_on_btrfs() {
    part_of_seq_1("btrfs");
}

#[test]
fn the_collected_workloads_are_clean_on_ext4() {
    collection("ext4", 1).assert_clean();
}

#[test]
fn every_second_of_the_collected_workloads_is_clean_on_xfs() {
    collection("xfs", 2).assert_clean();
}

#[test]
#[ignore = "takes a minute: make test-long"]
fn the_collected_workloads_are_clean_on_xfs() {
    collection("xfs", 1).assert_clean();
}

#[test]
fn btrfs_breaks_the_workloads_it_is_known_to_break_and_no_other() {
    let report = collection("btrfs", 1);
    assert_eq!(
        report.total("inconclusive"),
        0,
        "{:?}",
        report.with_verdict("inconclusive")
    );
    let broken = report.broken();
    for (workload, promise) in &broken {
        let known = KNOWN_ON_BTRFS.contains(&(workload.as_str(), promise.as_str()));
        assert!(
            known,
            "{workload} breaks {promise}, which is new: {broken:?}"
        );
    }
    let is_clean = |(workload, _): &&(&str, &str)| broken.iter().all(|(name, _)| name != workload);
    let clean: Vec<_> = KNOWN_ON_BTRFS.iter().filter(is_clean).collect();
    assert!(
        clean.is_empty() || !is_known_kernel(),
        "not found: {clean:?}"
    );
    if !clean.is_empty() {
        println!("this kernel breaks these no more: {clean:?}");
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
    let output = assert_cmd::Command::new("bash")
        .args(["-c", &line])
        .assert()
        .success();
    let table = String::from_utf8_lossy(&output.get_output().stdout).into_owned();
    assert!(table.contains("ext4") && table.contains(" 20 "), "{table}");
}
