//! The specifications of the project about ZooKeeper, etcd and the name node of HDFS: with programs that keep
//! files as they do, and with the first two themselves. Needs root.

use std::path::Path;

use end_to_end::{Folder, findings_and_summary, printed, said};
use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/epochs/program.py");
const CHECKPOINTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/fixtures/checkpoints/program.py"
);
const VALUES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/values/program.py");
const QUORUM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/quorum/program.py");
const SPECS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../specs");
const CLUSTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/clusters");

/// What findings say is broken.
fn all_broken(findings: &[Value]) -> impl Iterator<Item = &str> {
    let words = findings
        .iter()
        .filter_map(|finding| finding["broken"].as_array());
    words.flatten().map(|words| words.as_str().expect("words"))
}

/// The violations that a program shows which keeps the files of this system, and leaves these syncs out.
fn violated(system: &str, without: &str) -> Vec<String> {
    violated_in(PROGRAM, system, &[system, without])
}

/// The violations of a specification that a program shows, called with these words; the last is `right`, or
/// what is wrong.
fn violated_in(program: &str, spec: &str, words: &[&str]) -> Vec<String> {
    violated_on("posix", program, spec, words)
}

/// The same in what a model allows.
fn violated_on(model: &str, program: &str, spec: &str, words: &[&str]) -> Vec<String> {
    let folder = Folder::new(&[]);
    let spec = format!("{SPECS}/{spec}.dl");
    let status = i32::from(!words.ends_with(&["right"]));
    let sweep = [
        "app",
        "--model",
        model,
        "--jobs",
        "2",
        "--check",
        "echo ok",
        "--format",
        "json",
        "--spec",
        &spec,
        "--",
        "/usr/bin/python3",
        program,
        "{dir}",
    ];
    let output = folder.ends(status, &[&sweep[..], words].concat());
    let (findings, summary) = findings_and_summary(&output);
    assert!(summary["checked"].as_u64() > Some(10), "{summary}");
    assert!(summary.get("unlooked").is_none(), "{summary}");
    let words = all_broken(&findings);
    let name = |words: &str| words.split_once('(').expect("a fact").0.to_owned();
    let mut names: Vec<_> = words.map(name).collect();
    names.sort();
    names.dedup();
    names
}

fn a_sync_that_zookeeper_needs_is_missed(without: &str, name: &str) {
    let name = format!("zookeeper: {name}");
    assert_eq!(violated("zookeeper", without), [name], "{without}");
}

#[test]
fn the_sync_of_its_epochs_that_zookeeper_needs_is_missed() {
    assert!(violated("zookeeper", "right").is_empty());
    a_sync_that_zookeeper_needs_is_missed("epochs", "epoch_not_accepted");
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn each_other_sync_that_zookeeper_needs_is_missed() {
    a_sync_that_zookeeper_needs_is_missed("snapshot", "log_without_snapshot");
    a_sync_that_zookeeper_needs_is_missed("header", "log_without_header");
    a_sync_that_zookeeper_needs_is_missed("log", "acknowledged_early");
}

#[test]
fn the_sync_that_etcd_needs_is_missed() {
    assert!(violated("etcd", "right").is_empty());
    assert_eq!(violated("etcd", "log"), ["etcd: acknowledged_early"]);
}

#[test]
fn a_log_of_etcd_that_is_removed_before_its_snapshot_is_durable_is_found() {
    assert!(violated("etcd-snapshots", "right").is_empty());
    let found = violated("etcd-snapshots", "snapshot");
    assert_eq!(found, ["etcd-snapshots: wal_removed_too_early"]);
}

/// By the letter of POSIX a rename is not whole after a crash, and even `right` is wrong.
fn what_a_value_is_not(mode: &str) -> Vec<String> {
    violated_on("xfs", VALUES, "before-or-after", &[mode])
}

#[test]
fn a_value_is_that_before_a_change_or_after_it() {
    assert!(what_a_value_is_not("right").is_empty());
    let found = ["mixed", "neither"].map(|name| format!("before-or-after: {name}"));
    assert_eq!(what_a_value_is_not("over"), found);
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn each_sync_of_a_value_that_is_left_out_is_missed() {
    assert_eq!(what_a_value_is_not("unsynced"), ["before-or-after: gone"]);
    assert_eq!(what_a_value_is_not("early"), ["before-or-after: neither"]);
}

/// Table 2 of the paper on FTS and DTS.
#[test]
fn a_log_that_is_emptied_before_the_image_has_its_name_is_found() {
    let violated = |mistake| violated_in(CHECKPOINTS, "hdfs-name-node", &[mistake]);
    assert!(violated("right").is_empty());
    let lost = ["log_emptied_at_step_3", "user_files_lost"];
    assert_eq!(
        violated("log"),
        lost.map(|name| format!("hdfs-name-node: {name}"))
    );
    assert_eq!(violated("image"), ["hdfs-name-node: image_is_not_durable"]);
}

/// The violations of three nodes of which each syncs what it is told, or not, in so many crash states.
fn violated_by_three(modes: [&str; 3], sample: u64) -> Vec<String> {
    let node = |(name, mode): (&str, &str)| {
        format!(
            "[[nodes]]\nname = \"{name}\"\nready = {{ log = \"ready\" }}\nstop = \"SIGKILL\"\n\
             command = \"python3 {QUORUM} node {{dir}}/data {{address}} {mode}\"\n"
        )
    };
    let nodes = ["a", "b", "c"].into_iter().zip(modes).map(node);
    let addresses = "{address:a} {address:b} {address:c}";
    let file = format!(
        "explore = \"rsm\"\n{}[client]\ncommand = \"python3 {QUORUM} client {addresses}\"\n\
         [check]\ncommand = \"echo ok\"\n",
        nodes.collect::<String>()
    );
    let folder = Folder::new(&[("cluster.toml", &file)]);
    folder.ends(0, &["cluster", "record", "cluster.toml", "-o", "trace"]);
    let (spec, states) = (format!("{SPECS}/etcd.dl"), sample.to_string());
    let sweep = [
        "cluster", "sweep", "trace", "--model", "posix", "--starts", "together", "--sample",
        &states, "--seed", "1", "--jobs", "2", "--format", "json", "--spec", &spec,
    ];
    let output = folder.run(&sweep);
    let (findings, summary) = findings_and_summary(&output);
    let words = format!("{}{}", printed(&output), said(&output));
    let checked = summary["checked"].as_u64();
    assert!(checked > Some(sample * 5 / 8), "{words}");
    assert!(summary.get("unlooked").is_none(), "{words}");
    all_broken(&findings).map(str::to_owned).collect()
}

#[test]
fn one_of_three_that_has_synced_is_too_few_and_two_are_enough() {
    let two = violated_by_three(["synced", "unsynced", "synced"], 10);
    assert!(two.is_empty(), "{two:?}");
    let one = violated_by_three(["unsynced", "unsynced", "synced"], 16);
    let is_early = |words: &String| words.starts_with("etcd: acknowledged_early(");
    assert!(!one.is_empty() && one.iter().all(is_early), "{one:?}");
}

/// The violations in crash states of a cluster of `workloads/clusters`, recorded with a change to its file.
/// What else is broken does not matter here.
fn violated_by(system: &str, model: &str, change: (&str, &str)) -> Vec<String> {
    let here = Path::new(CLUSTERS).join(system);
    let file = std::fs::read_to_string(here.join("cluster.toml")).expect("a cluster file");
    assert!(file.contains(change.0), "{file}");
    let file = file.replace(change.0, change.1);
    let file = file.replace("{here}", here.to_str().expect("text"));
    let folder = Folder::new(&[("cluster.toml", &file)]);
    folder.ends(0, &["cluster", "record", "cluster.toml", "-o", "trace"]);
    let spec = format!("{SPECS}/{system}.dl");
    let sweep = [
        "cluster",
        "sweep",
        "trace",
        "--model",
        model,
        "--starts",
        "together",
        "--sample",
        "12",
        "--seed",
        "1",
        "--stop-after",
        "4",
        "--jobs",
        "2",
        "--format",
        "json",
        "--spec",
        &spec,
    ];
    let output = folder.run(&sweep);
    let (findings, summary) = findings_and_summary(&output);
    println!("{system}: {summary}");
    assert!(
        summary.get("unlooked").is_none(),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let words = all_broken(&findings);
    let of_spec = |words: &&str| words.starts_with(&format!("{system}: "));
    words.filter(of_spec).map(str::to_owned).collect()
}

#[test]
#[ignore = "it takes ZooKeeper, and minutes"]
fn zookeeper_has_synced_what_it_answers_unless_it_is_told_not_to() {
    let early = |words: &String| words.contains("acknowledged_early");
    let words = violated_by("zookeeper", "ext4-ordered", ("java ", "java "));
    assert!(!words.iter().any(early), "{words:?}");
    let not_forced = ("java ", "java -Dzookeeper.forceSync=no ");
    let words = violated_by("zookeeper", "ext4-ordered", not_forced);
    assert!(words.iter().any(early), "{words:?}");
}

#[test]
#[ignore = "it takes etcd"]
fn etcd_has_synced_what_it_answers() {
    let words = violated_by("etcd", "posix", ("etcd ", "etcd "));
    assert!(words.is_empty(), "{words:?}");
}
