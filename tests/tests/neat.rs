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
        let clusters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/clusters");
        let classes = clusters
            .join("../../target/neat")
            .join(self.cluster)
            .join("classes");
        assert!(classes.exists(), "{}: make setup-neat", classes.display());
        let file = clusters.join(self.cluster).join("cluster.toml");
        let file = file.display().to_string();
        let runs = self.runs.to_string();
        let campaign = [
            "--strategy",
            "partitions",
            "--seed",
            SEED,
            "--sample",
            &runs,
        ];
        let begin = [&["inject", &file, "--out", "out"], &campaign[..]].concat();
        let folder = Folder::new(&[]);
        let began = Instant::now();
        let mut missing = self.failures.to_vec();
        // Each time one more that is broken, or all runs.
        for broken in 1..=self.runs {
            let words = match broken {
                1 => &begin[..],
                _ => &["inject", "--resume", "out"],
            };
            let output = folder.run(&[words, &["--stop-after", &broken.to_string()]].concat());
            assert_ne!(output.status.code(), Some(2), "{}", said(&output));
            println!("{}", printed(&output));
            let results = results(&folder);
            for (number, result) in (1..).zip(&results) {
                let found = found(&folder, number, result);
                let is_missing =
                    |(kind, of): &Kind<'_>| !found.contains(&format!("{kind} of {of}"));
                let new = missing.extract_if(.., |kind| !is_missing(kind));
                let took = began.elapsed().as_secs();
                new.for_each(|kind| {
                    println!("{}: {kind:?} in run {number}, by {took} s", self.cluster)
                });
            }
            if missing.is_empty() || results.len() == self.runs {
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
fn found(folder: &Folder, number: usize, result: &Value) -> BTreeSet<String> {
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
        let of = one["key"].as_str()?.split('-').next()?;
        Some(format!("{} of {of}", one["kind"].as_str()?))
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
