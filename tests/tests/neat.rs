//! Systems of the paper on network partitions that describes NEAT (OSDI 2018): the strategy `partitions`
//! finds their failures, with nothing made for them but a cluster file and a door. Needs root, Python and
//! `make setup-neat`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use end_to_end::{Folder, printed, said};
use serde_json::Value;

/// A failure by its name, and what objects it is of.
type Kind<'a> = (&'a str, &'a str);

/// A system, and what is found in it.
struct Known {
    /// Its cluster file, in `workloads/clusters`.
    cluster: &'static str,
    /// Within so many runs.
    runs: usize,
    failures: &'static [Kind<'static>],
}

/// What all campaigns draw with.
const SEED: &str = "1";

impl Known {
    /// Runs the campaign until all is found, and no longer than its runs.
    fn is_found(&self) {
        let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/clusters");
        let file = format!("{here}/{}/cluster.toml", self.cluster);
        assert!(
            Path::new(here)
                .join("../../target/neat")
                .join(self.cluster)
                .join("classes")
                .exists(),
            "{} is not there: make setup-neat",
            self.cluster
        );
        let folder = Folder::new(&[]);
        let runs = self.runs.to_string();
        let began = Instant::now();
        let campaign = [
            "--strategy",
            "partitions",
            "--seed",
            SEED,
            "--sample",
            &runs,
        ];
        let mut missing: BTreeSet<Kind<'_>> = self.failures.iter().copied().collect();
        let mut begin = vec!["inject", &file, "--out", "out"];
        begin.extend(campaign);
        for broken in 1..=self.runs {
            // Each time one more that is broken, or all runs.
            let broken = broken.to_string();
            let words = ["--stop-after", &broken];
            let output = folder.run(&[&begin[..], &words].concat());
            assert_ne!(output.status.code(), Some(2), "{}", said(&output));
            print!("{}", printed(&output));
            begin = vec!["inject", "--resume", "out"];
            for (number, result) in (1..).zip(results(&folder)) {
                for kind in found(&folder, number, &result) {
                    if missing.remove(&(&*kind.0, &*kind.1)) {
                        let seconds = began.elapsed().as_secs();
                        println!("{}: {kind:?} in run {number}, by {seconds} s", self.cluster);
                    }
                }
            }
            if missing.is_empty() || results(&folder).len() == self.runs {
                break;
            }
        }
        assert!(
            missing.is_empty(),
            "{}: {missing:?} in none of {runs} runs",
            self.cluster
        );
        assert!(folder.left().is_empty(), "{:?}", folder.left());
    }
}

/// What the runs came to.
fn results(folder: &Folder) -> Vec<Value> {
    let lines = folder.read("out/results.jsonl");
    let result = |line| serde_json::from_str(line).expect("an object");
    lines.lines().map(result).collect()
}

/// What a broken run shows, of which objects: the part of their names before the number.
fn found(folder: &Folder, number: usize, result: &Value) -> BTreeSet<(String, String)> {
    if result["verdict"] != "broken" {
        return BTreeSet::new();
    }
    let number = number.to_string();
    let output = folder.run(&["history", "check", "out", &number, "--format", "json"]);
    let told = printed(&output);
    let told = told
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"));
    let anomalies = told.filter(|one: &Value| one["type"] == "anomaly");
    let kind = |one: Value| {
        let key = one["key"].as_str()?.split('-').next()?.to_owned();
        Some((one["kind"].as_str()?.to_owned(), key))
    };
    anomalies.filter_map(kind).collect()
}

/// It never comes together again, so what was acknowledged on one side is not there on the other.
#[test]
#[ignore = "it takes minutes, and Ignite: make test-neat"]
fn what_ignite_grants_on_both_sides_of_a_partition_is_found() {
    let failures = &[
        ("double-lock", "lock"),
        ("double-lock", "semaphore"),
        ("counter-wrong", "counter"),
        ("double-dequeue", "queue"),
        ("stale-read", "map"),
        ("write-lost", "map"),
    ];
    Known {
        cluster: "ignite",
        runs: 7,
        failures,
    }
    .is_found();
}

/// The manual promises no more than best effort: what one side acknowledged is dropped when they merge.
#[test]
#[ignore = "it takes minutes, and Hazelcast: make test-neat"]
fn what_hazelcast_grants_on_both_sides_of_a_partition_is_found() {
    let failures = &[
        ("double-lock", "lock"),
        ("double-lock", "semaphore"),
        ("counter-wrong", "counter"),
        ("counter-back", "counter"),
        ("double-dequeue", "queue"),
        ("write-lost", "kept"),
    ];
    Known {
        cluster: "hazelcast",
        runs: 7,
        failures,
    }
    .is_found();
}

/// Locks are to be with the majority only.
#[test]
#[ignore = "it takes minutes, and Infinispan: make test-neat"]
fn what_infinispan_grants_on_both_sides_of_a_partition_is_found() {
    let failures = &[
        ("double-lock", "lock"),
        ("counter-wrong", "counter"),
        ("counter-back", "counter"),
        ("write-lost", "kept"),
    ];
    Known {
        cluster: "infinispan",
        runs: 7,
        failures,
    }
    .is_found();
}
