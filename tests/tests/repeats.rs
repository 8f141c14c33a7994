//! Virtual time, in guests of somebody who is not root: waiting costs nothing, and what runs there
//! repeats to the byte. Root is needed to be somebody else.
//!
//! A few runs of block logs and of some processes are normal tests; `make test-repeats` has as many as it
//! takes to believe it, and redis. Other clusters repeat on simulated machines: `simulated.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use end_to_end::{Ordinary, Report, printed, program, said, words};
use serde_json::Value;

#[test]
fn waiting_costs_no_time() {
    let place = Ordinary::new();
    let kernel = place.virtual_time();
    let started = Instant::now();
    let command = ["--", "sh", "-c", "date +%s; sleep 600; date +%s"];
    let arguments = [&["machine"], words(&kernel).as_slice(), &command].concat();
    let output = place.crashpoint(&arguments).output().expect("it runs");
    let took = started.elapsed();
    let times: Vec<u64> = printed(&output)
        .lines()
        .map(|line| line.parse().expect("seconds"))
        .collect();
    assert!(
        matches!(times[..], [before, after] if after - before == 600),
        "{times:?} {}",
        said(&output)
    );
    // A third of a second, if nothing else keeps the machine busy.
    println!("600 s in {took:?}");
    assert!(took < Duration::from_secs(600), "{took:?}");
}

/// So many workloads of seq-1.
fn workloads(place: &Ordinary, count: usize) {
    let output = Command::new(program("ace-gen"))
        .args(["--preset", "seq-1", "--seed", "1"])
        .args(["--sample", &count.to_string()])
        .output();
    place.file("some.wl", &printed(&output.expect("it runs")));
}

/// The hash of the block log of each of them, in virtual time.
fn block_logs(
    place: &Ordinary,
    file_system: &str,
    seed: &str,
    jobs: &str,
) -> BTreeMap<String, String> {
    let kernel = place.virtual_time();
    let sweep = [
        "fs",
        "--format",
        "json",
        "--jobs",
        jobs,
        "--fs",
        file_system,
        "--seed",
        seed,
        "some.wl",
    ];
    let report =
        Report::of_process(place.crashpoint(&[&sweep, words(&kernel).as_slice()].concat()));
    report.assert_clean();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let logs: BTreeMap<_, _> = report
        .results
        .iter()
        .map(|result| (text(&result["workload"]), text(&result["block_log"])))
        .collect();
    logs
}

/// What a disk is asked to do by so many workloads is the same in each of so many runs, and with another
/// seed another.
fn block_logs_repeat(file_system: &str, count: usize, runs: usize) {
    let place = Ordinary::new();
    workloads(&place, count);
    let first = block_logs(&place, file_system, "1", "2");
    assert_eq!(first.len(), count);
    for run in 1..runs {
        // How many work beside each other makes no difference.
        let jobs = if run % 2 == 0 { "2" } else { "1" };
        assert_eq!(
            block_logs(&place, file_system, "1", jobs),
            first,
            "run {run}"
        );
    }
    let other = block_logs(&place, file_system, "2", "2");
    assert!(
        first.iter().all(|(name, log)| other[name] != *log),
        "{first:?} {other:?}"
    );
}

#[test]
fn block_logs_of_ext4_repeat() {
    block_logs_repeat("ext4", 5, 2);
}

#[test]
#[ignore = "takes minutes: make test-repeats"]
fn block_logs_of_ext4_repeat_in_ten_runs() {
    block_logs_repeat("ext4", 10, 10);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn block_logs_of_xfs_and_btrfs_repeat() {
    block_logs_repeat("xfs", 10, 10);
    block_logs_repeat("btrfs", 10, 10);
}

/// Runs a script of tests/scripts in virtual time; what it printed, and the hash of each file that
/// it left.
fn run_script(place: &Ordinary, script: &str, seed: &str) -> BTreeMap<String, String> {
    let kernel = place.virtual_time();
    let out = place.shared("out");
    let out_text = out.to_str().expect("text");
    let command = ["--share", out_text, "--", "sh", script, out_text];
    let options = ["machine", "--seed", seed, "--memory", "2048"];
    let arguments = [&options, words(&kernel).as_slice(), &command].concat();
    let output = place.crashpoint(&arguments).output().expect("it runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        printed(&output),
        said(&output)
    );
    println!("{script}, seed {seed}: {}", printed(&output).trim());
    let mut left = BTreeMap::from([("printed".to_owned(), printed(&output))]);
    hash_files(&out, &mut left);
    std::fs::remove_dir_all(&out).expect("removed");
    left
}

fn hash_files(directory: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory)
        .expect("read")
        .map(|entry| entry.expect("read"))
    {
        let path = entry.path();
        if path.is_dir() {
            hash_files(&path, found);
        } else {
            let content = std::fs::read(&path).expect("read");
            found.insert(
                path.display().to_string(),
                blake3::hash(&content).to_string(),
            );
        }
    }
}

/// Everything that a system of several processes logs and writes is the same in each of so many
/// runs. With another seed its logs are others.
fn script_repeats(name: &str, runs: usize, expected: &str) {
    let place = Ordinary::new();
    let scripts = place.repository("tests/scripts");
    let script = scripts
        .iter()
        .find(|path| path.ends_with(name))
        .expect("it is there")
        .to_str()
        .expect("text");
    let first = run_script(&place, script, "1");
    assert!(first["printed"].contains(expected), "{first:?}");
    assert!(first.len() > 5, "{first:?}");
    for run in 1..runs {
        assert_eq!(run_script(&place, script, "1"), first, "run {run}");
    }
    let other = run_script(&place, script, "2");
    assert!(other["printed"].contains(expected), "{other:?}");
    assert_ne!(other, first);
}

#[test]
fn processes_repeat() {
    script_repeats("several.sh", 2, "the last one was killed");
}

#[test]
#[ignore = "takes minutes: make test-repeats"]
fn redis_repeats_in_five_runs() {
    script_repeats("redis.sh", 5, "the primary was killed");
}
