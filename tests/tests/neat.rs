//! Systems of the paper on network partitions that describes NEAT (OSDI 2018): the strategy `partitions`
//! finds their failures, with nothing made for them but a cluster file and a door; those of Elasticsearch are
//! found by a plan. And Cassandra, Kafka, MooseFS and RabbitMQ, of about the same time. Needs root, Python and
//! `make setup-neat`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use end_to_end::{Folder, objects, printed, said};
use serde_json::Value;

/// A failure by its name, and what objects it is of.
type Kind<'a> = (&'a str, &'a str);

/// A system, and what is found in it.
struct Known {
    /// Its cluster file, in `workloads/clusters`.
    cluster: &'static str,
    /// Within so many runs.
    runs: usize,
    /// By this plan, in `workloads/plans`; by the strategy without one.
    plan: Option<&'static str>,
    failures: &'static [Kind<'static>],
}

/// What all campaigns draw with.
const SEED: &str = "1";

/// What `client.py check` says of nodes that stay apart after the heal.
const APART: &str = "the nodes do not come together";

/// What Cassandra's client says of them.
const NO_SCHEMA: &str = "the nodes do not come to one schema";

impl Known {
    /// The arguments that begin its campaign.
    fn begins(&self) -> Vec<String> {
        let clusters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/clusters");
        let neat = clusters.join("../../target/neat");
        let classes = neat.join(self.cluster).join("classes");
        assert!(classes.exists(), "{}: make setup-neat", classes.display());
        let file = clusters.join(self.cluster).join("cluster.toml");
        let (file, runs) = (file.display(), self.runs);
        let how = match self.plan {
            None => format!("--strategy partitions --seed {SEED} --sample {runs}"),
            Some(plan) => {
                let plan = clusters.join("../plans").join(plan);
                format!("--plan {} --repeat {runs}", plan.display())
            }
        };
        let words = format!("inject {file} --out out {how}");
        words.split(' ').map(str::to_owned).collect()
    }

    /// Runs the campaign until all is found, and no longer than its runs.
    fn is_found(&self) {
        let folder = Folder::new(&[]);
        let began = Instant::now();
        let mut words = self.begins();
        let mut missing = self.failures.to_vec();
        let mut broken = 0;
        while !missing.is_empty() && results(&folder).len() < self.runs {
            // Until one more is broken.
            broken += 1;
            words.extend(["--stop-after".into(), broken.to_string()]);
            let output = folder.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert_ne!(output.status.code(), Some(2), "{}", said(&output));
            println!("{}", printed(&output));
            words = ["inject", "--resume", "out"].map(str::to_owned).to_vec();
            for (number, result) in (1..).zip(&results(&folder)) {
                let found = found(&folder, number, result);
                let is_found = |(kind, of): &Kind<'_>| found.contains(&format!("{kind} of {of}"));
                let took = began.elapsed().as_secs();
                for kind in missing.extract_if(.., |kind| is_found(kind)) {
                    println!("{}: {kind:?} in run {number}, by {took} s", self.cluster);
                }
            }
        }
        let words = format!(
            "{}: {missing:?} in none of {} runs",
            self.cluster, self.runs
        );
        assert!(missing.is_empty(), "{words}");
        assert!(folder.left().is_empty(), "{:?}", folder.left());
    }
}

/// What the runs came to, if one was made.
fn results(folder: &Folder) -> Vec<Value> {
    let lines = fs::read_to_string(folder.path("out/results.jsonl")).unwrap_or_default();
    objects(&lines)
}

/// What a broken run shows, of which objects: the part of their names before the number.
fn found(folder: &Folder, number: usize, result: &Value) -> BTreeSet<String> {
    if result["verdict"] != "broken" {
        return BTreeSet::new();
    }
    let number = number.to_string();
    let output = folder.run(&["history", "check", "out", &number, "--format", "json"]);
    let told = objects(&printed(&output)).into_iter();
    let anomalies = told.filter(|one| one["type"] == "anomaly");
    let kind = |one: Value| {
        let of = one["key"].as_str()?.split('-').next()?;
        Some(format!("{} of {of}", one["kind"].as_str()?))
    };
    let mut found: BTreeSet<String> = anomalies.filter_map(kind).collect();
    let broken = result["broken"].to_string();
    if broken.contains(APART) || broken.contains(NO_SCHEMA) {
        found.insert("apart of nodes".to_owned());
    }
    found
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
        plan: None,
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
        plan: None,
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
        plan: None,
        failures,
    }
    .is_found();
}

/// A lock is given to others while the node that has it still says that it holds it: a node that cannot reach the
/// majority shuts itself out, but later than that. A node is asked, so what it knows to be lost counts as released.
#[test]
#[ignore = "it takes minutes, and Geode: make test-neat"]
fn what_geode_grants_on_both_sides_of_a_partition_is_found() {
    Known {
        cluster: "geode",
        runs: 7,
        plan: None,
        failures: &[("double-lock", "lease")],
    }
    .is_found();
}

/// What the old master has delivered the new one delivers again, and does not say so.
#[test]
#[ignore = "it takes minutes, and ActiveMQ: make test-neat"]
fn what_masters_of_activemq_deliver_on_both_sides_of_a_partition_is_found() {
    Known {
        cluster: "activemq",
        runs: 7,
        plan: None,
        failures: &[("double-dequeue", "queue")],
    }
    .is_found();
}

/// Both servers are active, and when they meet one of them is dropped with what it has acknowledged. The
/// partitions of the strategy are about as long as the election of a new one, so it takes more of them.
#[test]
#[ignore = "it takes minutes, and Terracotta: make test-neat"]
fn what_servers_of_terracotta_acknowledge_on_both_sides_of_a_partition_is_found() {
    Known {
        cluster: "terracotta",
        runs: 14,
        plan: None,
        failures: &[("write-lost", "map")],
    }
    .is_found();
}

/// A master that was cut off thinks, after the heal, that it has enough nodes still, and one of them changes
/// sides for it: there are two masters for good, with `minimum_master_nodes` as the manual has it.
#[test]
#[ignore = "it takes minutes, and Elasticsearch: make test-neat"]
fn that_elasticsearch_stays_apart_after_a_partition_is_found() {
    Known {
        cluster: "elasticsearch",
        runs: 10,
        plan: Some("elasticsearch.toml"),
        failures: &[("apart", "nodes")],
    }
    .is_found();
}

/// The same table, created on both sides of a partition, is two tables, and the nodes do not agree any more.
#[test]
#[ignore = "it takes minutes, and Cassandra: make test-neat"]
fn tables_that_cassandra_creates_on_both_sides_of_a_partition_cannot_be_used() {
    Known {
        cluster: "cassandra",
        runs: 4,
        plan: None,
        failures: &[("element-lost", "tables"), ("apart", "nodes")],
    }
    .is_found();
}

/// Brokers sync no log of messages by themselves.
#[test]
#[ignore = "it takes minutes, and Kafka: make test-neat"]
fn what_kafka_has_acknowledged_is_lost_with_the_power_of_all_brokers() {
    Known {
        cluster: "kafka",
        runs: 3,
        plan: Some("all-lose-power.toml"),
        failures: &[("element-lost", "messages")],
    }
    .is_found();
}

/// So many runs of a plan of `workloads/plans`: most are ok, and none is broken.
fn keeps_what_it_promised(file: &str, plan: &str, runs: &str) {
    let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads");
    let file = workloads.join("clusters").join(file);
    let plan = workloads.join("plans").join(plan);
    let [file, plan] = [&file, &plan].map(|path| path.to_str().expect("a path in UTF-8"));
    let folder = Folder::new(&[]);
    let words = ["inject", file, "--plan", plan, "--repeat", runs];
    let output = folder.run(&[&words[..], &["--out", "out"]].concat());
    println!("{}", printed(&output));
    let results = results(&folder);
    let verdicts: Vec<_> = results.iter().map(|result| &result["verdict"]).collect();
    assert!(!verdicts.iter().any(|verdict| *verdict == "broken"));
    let ok = verdicts.iter().filter(|verdict| **verdict == "ok").count();
    assert!(2 * ok > verdicts.len(), "{}", said(&output));
    assert!(folder.left().is_empty(), "{:?}", folder.left());
}

/// Kills lose nothing, and power failures nothing if each message is synced.
#[test]
#[ignore = "it takes minutes, and Kafka: make test-neat"]
fn what_kafka_has_acknowledged_survives_kills_and_if_it_is_synced_power_failures() {
    keeps_what_it_promised("kafka/cluster.toml", "all-are-killed.toml", "3");
    keeps_what_it_promised("kafka/flushed.toml", "all-lose-power.toml", "3");
}

#[test]
#[ignore = "it takes minutes, and RabbitMQ: make test-neat"]
fn what_rabbitmq_has_confirmed_survives_kills() {
    keeps_what_it_promised("rabbitmq/cluster.toml", "all-are-killed.toml", "3");
}

#[test]
#[ignore = "it takes a minute, and MooseFS: make test-neat"]
fn what_moosefs_has_synced_survives_kills() {
    keeps_what_it_promised("moosefs/cluster.toml", "all-are-killed.toml", "3");
}
