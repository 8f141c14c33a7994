//! Failure points of a cluster, and every failure at each of them. Needs root.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use end_to_end::{
    Folder, Running, by_id, elects_cluster, objects, printed, program, said, store_cluster,
    store_of_two, wait_until,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A node that changes a file as soon as the client is there, and recovers if it was ended while it did. A
/// recovery that finds that one before it was ended gives up, if GIVES_UP is not empty.
const NODE: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
if [ -e dirty ]; then
    if [ -e recovering ] && [ -n "$GIVES_UP" ]; then
        echo 'a recovery did not end' >&2
        exit 1
    fi
    : >recovering
    rm -f value.tmp
    rm dirty recovering
fi
echo ready
[ -z "$first" ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
: >dirty
echo 1 >value.tmp
mv value.tmp value
rm dirty
exec sleep 600
"#;

const CLUSTER: &str = r#"
[environment]
GIVES_UP = "MISTAKE"
[[nodes]]
name = "a"
command = "sh {here}/node.sh {dir} {address}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "bash -c 'until : >/dev/tcp/{address:a}/7000; do sleep 0.02; done; sleep 0.6'"
[check]
command = "echo ok"
"#;

/// A node that has one failure point while the client is there. What is not made then, a recovery makes, and
/// notes before that it has begun. The third recovery that finds that those before it did not end gives up.
const TWICE: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
if [ -z "$first" ] && [ ! -e value ]; then
    if [ -e again ]; then
        echo 'two recoveries did not end' >&2
        exit 1
    fi
    if [ -e recovering ]; then mkdir again; else mkdir recovering; fi
    mkdir value
fi
echo ready
[ -z "$first" ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
[ -e value ] || mkdir value
exec sleep 600
"#;

/// A node that has few failure points.
fn small(gives_up: &str) -> Folder {
    let cluster = CLUSTER.replace("MISTAKE", gives_up);
    Folder::new(&[("cluster.toml", &cluster), ("node.sh", NODE)])
}

/// A node that has two failure points while the client is there, of which a recovery makes both again. One that
/// finds that one before it did not end gives up.
const BOTH: &str = r#"
cd "$1"
[ -e begun ] || first=yes
: >begun
if [ -z "$first" ] && [ ! -e value ]; then
    if [ -e recovering ]; then
        echo 'a recovery did not end' >&2
        exit 1
    fi
    mkdir recovering
    mkdir -p left value
fi
echo ready
[ -z "$first" ] || python3 -Ic "import socket; socket.create_server(('$2', 7000)).accept()"
[ -e value ] || mkdir -p left value
exec sleep 600
"#;

/// Two nodes of a store with disks.
fn store(mistake: &str) -> Folder {
    Folder::new(&[("cluster.toml", &store_of_two(mistake))])
}

/// A campaign of all failures.
fn exhaustive<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let begun = ["inject", "cluster.toml", "--strategy", "exhaustive"];
    [&begun[..], more].concat()
}

/// The failure points, by their IDs.
fn points(laid: &Folder) -> BTreeMap<String, Value> {
    let output = laid.ends(
        0,
        &["inject", "cluster.toml", "--points", "--format", "json"],
    );
    by_id(&printed(&output))
}

#[test]
fn the_same_code_is_the_same_failure_point_in_another_run() {
    let (one, other) = (store(""), store(""));
    let (points, again) = (points(&one), points(&other));
    let ids = |points: &BTreeMap<String, Value>| points.keys().cloned().collect::<Vec<_>>();
    assert_eq!(ids(&points), ids(&again));
    let of = |call: &str, file: &str| {
        let is_it = |point: &&Value| point["call"] == call && point["file"] == file;
        points.values().filter(is_it).collect::<Vec<_>>()
    };
    // The leader renames a segment at another place than the follower, and both when the log is
    // rewritten too.
    assert_eq!(of("rename", "log/wal-#").len(), 4);
    // The directory of data itself.
    assert_eq!(of("fsync", "").len(), 4);
    let synced = of("fdatasync", "log/wal-#");
    let is_named = |point: &&&Value| {
        let callers = point["callers"].as_array().expect("an array");
        let mut names = callers.iter().filter_map(Value::as_str);
        names.any(|name| name.starts_with("store::disk::Disk::append"))
    };
    assert_eq!(synced.iter().filter(is_named).count(), 2, "{synced:?}");
    let output = one.run(&["inject", "cluster.toml", "--points"]);
    let text = printed(&output);
    assert!(
        text.contains("not among them: what is written through mappings"),
        "{text}"
    );
    assert!(
        text.contains(" power loss, ") && text.contains(" short, "),
        "{text}"
    );
}

#[test]
fn an_interrupt_while_failure_points_are_collected_begins_nothing() {
    let laid = small("");
    let check = "command = \"sh -c 'touch {here}/looks; sleep 60'\"";
    let cluster = CLUSTER.replace("command = \"echo ok\"", check);
    laid.write("cluster.toml", &cluster);
    let mut command = Command::new(program("crashpoint"));
    command.args(exhaustive(&["--out", "out"]));
    command.current_dir(&laid).env("TMPDIR", laid.path("tmp"));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let running = Running::start(&mut command);
    let patience = Duration::from_secs(60);
    wait_until("its check is asked", patience, || {
        laid.path("looks").exists()
    });
    running.send(Signal::SIGINT);
    let output = running.output();
    let told = said(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    let words = "interrupted while failure points were collected: nothing was begun";
    assert!(told.contains(words), "{told}");
    assert!(!laid.path("out").exists());
    assert!(laid.left().is_empty(), "{:?}", laid.left());
}

#[test]
fn a_kill_between_two_calls_that_must_not_be_two_is_found_and_replayed() {
    let laid = store("version-last");
    // They mostly wait.
    let begun = ["inject", "cluster.toml", "--strategy", "exhaustive"];
    let how = ["--jobs", "3", "--stop-after", "1", "--out", "found"];
    let output = laid.ends(1, &[&begun[..], &how].concat());
    let text = printed(&output);
    assert!(
        text.contains("is about to pwrite64 log/wal-00000002"),
        "{text}"
    );
    let show = printed(&laid.run(&["show", "found"]));
    let (_, replay) = show.split_once(" replay found ").expect("it is told");
    let number = replay.split_whitespace().next().expect("a number");
    laid.ends(1, &["replay", "found", number]);
}

#[test]
fn shards_have_the_same_failure_points_and_are_put_together() {
    let laid = store("");
    let begun = [
        "inject",
        "cluster.toml",
        "--strategy",
        "exhaustive",
        "--sample",
    ];
    let refused = laid.ends(
        2,
        &[&begun[..], &["2", "--shard", "1/2", "--out", "one"]].concat(),
    );
    assert!(said(&refused).contains("--points-of"), "{}", said(&refused));
    let random = [
        "inject",
        "cluster.toml",
        "--strategy",
        "random",
        "--sample",
        "1",
    ];
    let refused = laid.ends(2, &[&random[..], &["--max-failures", "2"]].concat());
    assert!(
        said(&refused).contains("--max-failures is for --strategy exhaustive"),
        "{}",
        said(&refused)
    );
    let run = |more: &[&str]| laid.ends(0, &[&begun[..], more].concat());
    run(&["1", "--out", "base"]);
    for (shard, out) in [("1/2", "one"), ("2/2", "two")] {
        run(&["2", "--points-of", "base", "--shard", shard, "--out", out]);
    }
    let merge = laid.ends(0, &["merge", "one", "two", "--out", "merged"]);
    assert!(
        printed(&merge).contains("0 broken of 2 runs")
            && printed(&merge).contains("single failures: 2 of "),
        "{}",
        printed(&merge)
    );
}

#[test]
fn a_failure_point_that_does_not_come_up_is_tried_twice_and_is_no_clean_result() {
    let laid = store("");
    let begun = [
        "inject",
        "cluster.toml",
        "--strategy",
        "exhaustive",
        "--sample",
        "1",
    ];
    laid.ends(0, &[&begun[..], &["--out", "base"]].concat());
    // Another program has its calls at other places.
    let manifest = fs::read_to_string(laid.path("base/manifest.json")).expect("read");
    let mut manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    manifest["collected"]["points"][0]["site"] = "0000000000000001".into();
    fs::write(laid.path("base/manifest.json"), manifest.to_string()).expect("written");
    let output = laid.ends(3, &[&begun[..], &["--points-of", "base"]].concat());
    let text = printed(&output);
    assert!(
        text.contains("a failure point did not come up in two runs"),
        "{text}"
    );
    assert!(
        text.contains("the failure point of 1 run did not come up again"),
        "{text}"
    );
}

/// What a kill of the node leaves is recovered from, and what a kill in that recovery leaves is not.
#[test]
#[ignore = "it takes a minute: make test-long"]
fn a_recovery_that_gives_up_at_the_second_failure_is_found_by_a_pair() {
    let laid = small("yes");
    let begun = ["inject", "cluster.toml", "--strategy", "exhaustive"];
    let pairs = ["--max-failures", "2", "--stop-after", "1", "--out", "found"];
    let output = laid.ends(1, &[&begun[..], &pairs].concat());
    let text = printed(&output);
    assert!(text.contains("a recovery did not end"), "{text}");
    // All single failures came before, and none broke anything.
    let tried = text
        .lines()
        .find(|line| line.starts_with("single failures: "));
    let words: Vec<_> = tried.expect("it is told").split(' ').collect();
    assert_eq!(words[2], words[4], "{words:?}");
    let shown = printed(&laid.run(&["show", "found"]));
    assert!(shown.contains("\npairs: "), "{shown}");
    let (_, replay) = shown.split_once(" replay found ").expect("it is told");
    let number = replay.split_whitespace().next().expect("a number");
    let told = printed(&laid.run(&["show", "found", number]));
    assert_eq!(told.matches("[[faults]]").count(), 2, "{told}");
    // The recovery after one failure removes what it had begun with, and this one does not.
    assert!(
        told.contains("  recovery      nearest to that of run "),
        "{told}"
    );
    assert!(
        told.contains("\n  not made      unlink recovering on a"),
        "{told}"
    );
    assert!(
        told.contains(" a ended with status 1 by itself\n"),
        "{told}"
    );
    laid.ends(1, &["replay", "found", number]);
}

/// The node gives up after two recoveries that did not end: no pair of failures does that.
#[test]
#[ignore = "takes minutes: make test-long"]
fn what_only_three_failures_break_is_found_by_a_triple_and_not_by_pairs() {
    let laid = Folder::new(&[("cluster.toml", CLUSTER), ("node.sh", TWICE)]);
    let pairs = exhaustive(&["--max-failures", "2", "--out", "pairs"]);
    let text = printed(&laid.ends(0, &pairs));
    println!("{}", of_failures(&text).join("\n"));
    let triples = ["--max-failures", "3", "--stop-after", "1", "--out", "found"];
    let text = printed(&laid.ends(1, &exhaustive(&triples)));
    println!("{}", of_failures(&text).join("\n"));
    assert!(text.contains("two recoveries did not end"), "{text}");
    let lines = of_failures(&text);
    // All pairs came before.
    let words: Vec<_> = lines[1].split(' ').collect();
    assert_eq!(words[1], words[3], "{lines:?}");
    assert!(lines[2].starts_with("triples: "), "{lines:?}");
    let shown = printed(&laid.run(&["show", "found"]));
    let (_, replay) = shown.split_once(" replay found ").expect("it is told");
    let number = replay.split_whitespace().next().expect("a number");
    let told = printed(&laid.run(&["show", "found", number]));
    assert_eq!(told.matches("[[faults]]").count(), 3, "{told}");
    laid.ends(1, &["replay", "found", number]);
    // It goes on where it stopped: with the next triple.
    let more = ["inject", "--resume", "found", "--stop-after", "2"];
    let tried = |lines: &[String]| lines[2].split(' ').nth(1).map(str::parse::<u64>);
    let after = of_failures(&printed(&laid.ends(1, &more)));
    let [before, after] =
        [lines, after].map(|lines| tried(&lines).expect("a word").expect("a number"));
    assert!(after > before, "{after} triples, after {before}");
    let results = fs::read_to_string(laid.path("found/results.jsonl")).expect("read");
    let number = |result: &Value| result["index"].as_u64().expect("a number");
    let mut numbers: Vec<_> = objects(&results).iter().map(number).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "no run has the number of another one");
}

/// What is told of single failures, of pairs and so on.
fn of_failures(text: &str) -> Vec<String> {
    let starts = ["single failures: ", "pairs: ", "triples: "];
    let lines = text.lines();
    let is_one = |line: &&str| starts.iter().any(|start| line.starts_with(start));
    lines.filter(is_one).map(str::to_owned).collect()
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn no_failure_and_no_pair_breaks_a_node_that_recovers_in_one_campaign_or_in_parts() {
    let laid = small("");
    let lines = of_failures;
    laid.ends(0, &exhaustive(&["--sample", "1", "--out", "base"]));
    let pairs = ["--max-failures", "2", "--points-of", "base"];
    let with = |more| exhaustive(&[pairs, more].concat());
    // It is stopped, and goes on.
    laid.ends(3, &with(["--budget", "60s", "--out", "whole"]));
    let whole = printed(&laid.ends(0, &["inject", "--resume", "whole"]));
    println!("{}", lines(&whole).join("\n"));
    for (shard, out) in [("1/2", "one"), ("2/2", "two")] {
        laid.ends(0, &with(["--shard", shard, "--out", out]));
    }
    let merged = printed(&laid.ends(0, &["merge", "one", "two", "--out", "merged"]));
    // Which calls a recovery makes depends on when the node was ended; singles do not.
    assert_eq!(lines(&merged)[0], lines(&whole)[0]);
    for lines in [lines(&merged), lines(&whole)] {
        let words: Vec<_> = lines[1].split(' ').collect();
        assert_eq!(words[1], words[3], "{lines:?}");
    }
}

/// What `pairs: TRIED of ALL tried; after the first failures … (SOME of SINGLES): FIRST` says: how many were
/// tried, how many there are, and how many come first.
fn of_pairs(text: &str) -> [u64; 3] {
    let lines = of_failures(text);
    let words: Vec<_> = lines[1].split(' ').collect();
    let last = words.last().expect("words");
    [words[1], words[3], last].map(|word| word.parse().expect("a number"))
}

/// A kill at one of its calls is recovered from as a kill at the other.
#[test]
#[ignore = "takes a minute: make test-long"]
fn the_pruned_order_leaves_pairs_out_and_finds_what_a_pair_breaks() {
    let laid = Folder::new(&[("cluster.toml", CLUSTER), ("node.sh", BOTH)]);
    let pruned = ["--max-failures", "2", "--order", "pruned", "--jobs", "3"];
    let pruned = exhaustive(&[&pruned[..], &["--out", "pruned"]].concat());
    let text = printed(&laid.ends(1, &pruned));
    println!("{}", of_failures(&text).join("\n"));
    assert!(text.contains("a recovery did not end"), "{text}");
    let [tried, all, first] = of_pairs(&text);
    assert!(tried == first && first < all, "{text}");
    // It stays pruned when it goes on: nothing is left.
    let again = printed(&laid.ends(1, &["inject", "--resume", "pruned"]));
    assert_eq!(of_pairs(&again), [tried, all, first], "{again}");
}

/// The mistakes of the store that need two failures, and in how many experiments they are found at
/// the latest, the single failures included.
#[test]
#[ignore = "takes minutes: make test-long"]
fn an_error_that_the_store_ignores_is_found_by_a_pair() {
    let laid = store("ignored-sync");
    let text = fs::read_to_string(laid.path("cluster.toml")).expect("read");
    let text = text.replace("--patience 2", "--patience 2 --only rewrite");
    fs::write(laid.path("cluster.toml"), text).expect("written");
    found_by_a_pair(&laid, 300);
}

#[test]
#[ignore = "takes ten minutes: make test-long"]
fn a_recovery_that_cannot_be_ended_is_found_by_a_pair() {
    found_by_a_pair(&without_disks("second-failure"), 500);
}

#[test]
#[ignore = "takes ten minutes: make test-long"]
fn a_log_that_is_emptied_before_there_is_another_is_found_by_a_pair() {
    found_by_a_pair(&without_disks("emptied-log"), 700);
}

/// A lease needs a leader that is killed after it has one, and clients that read there when another leads.
#[test]
#[ignore = "takes minutes: make test-long"]
fn a_lease_that_survives_its_holder_is_found_by_one_failure() {
    found_by_chance("kept-lease", 60, &["a later read finds ", "counter "]);
}

/// A retry needs a leader that falls while a client waits for it.
#[test]
#[ignore = "takes minutes: make test-long"]
fn an_operation_that_runs_twice_is_found_by_one_failure() {
    found_by_chance("runs-twice", 90, &[" was added", "never written"]);
}

/// A mistake of the store that elects its leader is found in so many experiments, and in these words: whether
/// clients do then what shows it is a matter of chance, so there are three campaigns.
fn found_by_chance(mistake: &str, experiments: usize, words: &[&str]) {
    let text = format!("disk = \"ext4\"\n{}", elects_cluster(mistake));
    let sample = experiments.to_string();
    let found = (1..=3).any(|campaign| {
        let laid = Folder::new(&[("cluster.toml", &text)]);
        let found = ["--sample", &sample, "--stop-after", "1", "--out", "found"];
        let output = laid.run(&exhaustive(&found));
        let text = printed(&output);
        let broken = text.lines().find(|line| line.starts_with("  broken "));
        let broken = broken.unwrap_or_default();
        let results = fs::read_to_string(laid.path("found/results.jsonl")).unwrap_or_default();
        println!(
            "campaign {campaign}: {:?} after {} experiments{broken}",
            output.status.code(),
            results.lines().count()
        );
        words.iter().any(|words| broken.contains(words))
    });
    assert!(found);
}

/// What a kill leaves in memory, the machine still has: whoever forgets to sync passes `kill -9` at
/// every call. A live sweep finds it (`tests/live_sweeps.rs`).
#[test]
#[ignore = "takes minutes: make test-long"]
fn what_is_acknowledged_too_early_survives_a_kill_at_every_failure_point() {
    survives_a_kill_at_every_failure_point(&without_disks("early-acknowledgement"));
}

/// So do the other mistakes that need something to be lost. The eighth does not: `version-last` is found by a
/// kill between its two writes. What each mistake is about is in the short run.
#[test]
#[ignore = "takes half an hour: make test-long"]
fn what_only_a_loss_of_power_shows_survives_a_kill_at_every_failure_point() {
    for mistake in [
        "segment-rename",
        "trusted-mark",
        "torn-append",
        "current-rename",
        "hole",
    ] {
        survives_a_kill_at_every_failure_point(&without_disks_doing(mistake, "rotation"));
    }
    survives_a_kill_at_every_failure_point(&without_disks("rewrite-rename"));
}

fn survives_a_kill_at_every_failure_point(laid: &Folder) {
    let how = ["--all-occurrences", "--jobs", "2", "--out", "all"];
    let output = laid.ends(0, &exhaustive(&how));
    let results = fs::read_to_string(laid.path("all/results.jsonl")).expect("read");
    let results = objects(&results).into_iter();
    let is_kill = |result: &Value| result["plan"].as_str().expect("text").contains("\"kill\"");
    let kills: Vec<_> = results.filter(is_kill).collect();
    let count = kills.len();
    println!("{count} kills");
    assert!(count > KILLS_MIN, "{count} kills\n{}", printed(&output));
    assert!(kills.iter().all(|result| result["verdict"] == "ok"));
}

/// 40 to 48 were measured; a shorter run has fewer.
const KILLS_MIN: usize = 20;

/// Two nodes of a store that rewrites its log, and keeps it where no power fails.
fn without_disks(mistake: &str) -> Folder {
    without_disks_doing(mistake, "rewrite")
}

/// The same, doing something else between its two puts.
fn without_disks_doing(mistake: &str, only: &str) -> Folder {
    let text = store_cluster(mistake).replace(r#"["b", "c"]"#, r#"["b"]"#);
    let text = text.replace("--lead {address:b},{address:c}", "--lead {address:b}");
    let text = text.replace(
        "store client {address:a}",
        &format!("store client {{address:a}} --patience 2 --only {only}"),
    );
    Folder::new(&[("cluster.toml", &text)])
}

fn found_by_a_pair(laid: &Folder, experiments: usize) {
    let pairs = ["--max-failures", "2", "--stop-after", "1", "--out", "found"];
    let output = laid.ends(1, &exhaustive(&pairs));
    let text = printed(&output);
    let told = text.lines().rev().take(4).collect::<Vec<_>>();
    println!("{}", told.into_iter().rev().collect::<Vec<_>>().join("\n"));
    let results = fs::read_to_string(laid.path("found/results.jsonl")).expect("read");
    let count = results.lines().count();
    assert!(count <= experiments, "{count} experiments");
    let shown = printed(&laid.run(&["show", "found"]));
    let (_, replay) = shown.split_once(" replay found ").expect("it is told");
    let number = replay.split_whitespace().next().expect("a number");
    let told = printed(&laid.run(&["show", "found", number]));
    assert_eq!(told.matches("[[faults]]").count(), 2, "{told}");
}
