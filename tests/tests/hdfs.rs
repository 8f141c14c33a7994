//! HDFS 0.20.2, the system of the paper on FTS and DTS (2010): its data loss, and what else a crash of its name
//! node does, by the specifications of the paper. HDFS 3.3.1, whose name node has a standby. Needs root, Python and
//! `make setup-neat`.

use std::fs;
use std::path::Path;

use end_to_end::{Folder, objects, printed, said};
use serde_json::Value;

/// Something in the folder `workloads` or `specs`.
fn of_project(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    path.display().to_string()
}

/// A plan in which nothing fails.
const HEALS: &str = "[[faults]]\nat = { time_s = 0.1 }\nfault = \"heal\"\n";

/// The name node that is active is killed in the middle of the work.
const KILLS_ACTIVE: &str = "[[faults]]\nat = { acknowledged = 6 }\nfault = \"kill\"\non = \"name1\"\n\
    until = { after_s = 15.0 }\n";

/// The other one has to become active.
const TAKES_OVER: &str = "became(N) :- logged(node: N, line: L, time: T), T > 0,
    L ~ \"Starting services required for active state\".
violation nobody_took_over(T) :- fault_on(node: \"name1\", time: T), !became(\"name2\").\n";

/// So many runs of a plan, each on a new cluster, until one is broken: that one, or else the last. The cluster is
/// named by its folder and its file.
fn first_broken(cluster: &str, plan: &str, runs: &str) -> Value {
    first_broken_by(cluster, plan, runs, &[])
}

/// The same, by files with more rules.
fn first_broken_by(cluster: &str, plan: &str, runs: &str, more: &[&str]) -> Value {
    let (system, _) = cluster.split_once('/').expect("a folder");
    let jars = of_project(&format!("target/neat/{system}/jars"));
    assert!(Path::new(&jars).exists(), "{jars}: make setup-neat");
    let files = [
        ("heals.toml", HEALS),
        ("kills-active.toml", KILLS_ACTIVE),
        ("takes-over.dl", TAKES_OVER),
    ];
    let folder = Folder::new(&files);
    let cluster = of_project(&format!("workloads/clusters/{cluster}.toml"));
    let spec = of_project(&format!("specs/{system}.dl"));
    let run = ["inject", &cluster, "--plan", plan, "--spec", &spec];
    let many = ["--repeat", runs, "--stop-after", "1", "--out", "out"];
    let output = folder.run(&[&run[..], more, &many].concat());
    println!("{}", printed(&output));
    assert_ne!(output.status.code(), Some(2), "{}", said(&output));
    assert!(folder.left().is_empty(), "{:?}", folder.left());
    let runs = results(&folder);
    let is_broken = |result: &&Value| result["verdict"] == "broken";
    let broken = runs.iter().find(is_broken);
    broken.or(runs.last()).expect("a run").clone()
}

/// What the runs came to.
fn results(folder: &Folder) -> Vec<Value> {
    let lines = fs::read_to_string(folder.path("out/results.jsonl")).expect("results");
    objects(&lines)
}

/// Whether it violates this rule.
fn violates(result: &Value, rule: &str) -> bool {
    let violations = result["violations"].as_array();
    let mut facts = violations
        .into_iter()
        .flatten()
        .filter_map(|one| one["fact"].as_str());
    facts.any(|fact| fact.starts_with(&format!("{rule}(")))
}

/// Section 3.1 of the paper: the logs are emptied before the image that has merged them gets its name.
#[test]
#[ignore = "it takes a minute, and HDFS: make test-neat"]
fn files_are_lost_when_the_name_node_dies_before_its_image_has_a_name() {
    let plan = of_project("workloads/plans/hdfs-lost-log.toml");
    let result = first_broken("hdfs/reboot", &plan, "2");
    assert!(violates(&result, "lost_file"), "{result}");
    assert!(!violates(&result, "name_node_does_not_start"), "{result}");
}

/// Section 3.2 of the paper: two data nodes are good, and the name node names the third one again.
#[test]
#[ignore = "it takes minutes, and HDFS: make test-neat"]
fn writes_fail_when_one_of_three_data_nodes_takes_no_block() {
    let plan = of_project("workloads/plans/hdfs-bad-data-node.toml");
    let result = first_broken("hdfs/cluster", &plan, "2");
    assert!(violates(&result, "unavailability"), "{result}");
    assert!(violates(&result, "bad_failover"), "{result}");
    assert!(!violates(&result, "lost_file"), "{result}");
}

/// The room that was made for the first transaction is taken for one.
#[test]
#[ignore = "it takes a minute, and HDFS: make test-neat"]
fn a_name_node_that_dies_before_its_first_transaction_starts_no_more() {
    let plan = of_project("workloads/plans/hdfs-zeros-in-log.toml");
    let result = first_broken("hdfs/cluster", &plan, "2");
    assert!(violates(&result, "name_node_does_not_start"), "{result}");
}

#[test]
#[ignore = "it takes a minute, and HDFS: make test-neat"]
fn nothing_is_broken_where_nothing_fails() {
    for cluster in [
        "hdfs/cluster",
        "hdfs/append",
        "hdfs/reboot",
        "hdfs-ha/cluster",
    ] {
        let result = first_broken(cluster, "heals.toml", "2");
        assert_eq!(result["verdict"], "ok", "{cluster}: {result}");
    }
}

/// Three journal nodes have the log, so the standby continues with it.
#[test]
#[ignore = "it takes a minute, and HDFS: make test-neat"]
fn a_standby_takes_over_when_the_active_name_node_is_killed() {
    let result = first_broken_by(
        "hdfs-ha/cluster",
        "kills-active.toml",
        "1",
        &["takes-over.dl"],
    );
    assert_eq!(result["verdict"], "ok", "{result}");
    assert_eq!(result["faults"][0]["state"], "undone", "{result}");
}
