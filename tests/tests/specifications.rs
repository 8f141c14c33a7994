//! Specifications: questions to runs that are over, and what campaigns are held against. Needs root.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use end_to_end::{
    Folder, Ordinary, Running, elects_cluster, printed, program, require_root, said, store_of_two,
    wait_until,
};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// Ready at once; its client tells a story.
const CLUSTER: &str = r#"
[[nodes]]
names = ["a", "b"]
command = "sh -c 'echo ready; echo elected in term 7; exec sleep 600'"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sh -c 'cat {here}/story; sleep 0.3'"
"#;

const STORY: &str = r#"{"type":"invoke","process":0,"f":"write","key":"k1","value":3}
{"type":"ok","process":0,"f":"write","key":"k1","value":3}
{"type":"invoke","process":0,"f":"write","key":"k2","value":4}
{"type":"info","process":0,"f":"write","key":"k2","value":4}
{"type":"invoke","process":1,"f":"read","key":"k1","value":null}
{"type":"ok","process":1,"f":"read","key":"k1","value":null}
"#;

const PLAN: &str = "[[faults]]\nat = { acknowledged = 1 }\nfault = \"kill\"\non = \"a\"\n";

const LOST: &str = "violation lost(K) :- acked(K), !served(K).\n";

/// A folder with the cluster, the plan, and a specification.
fn folder(specification: &str) -> Folder {
    Folder::new(&[
        ("cluster.toml", CLUSTER),
        ("story", STORY),
        ("plan.toml", PLAN),
        ("lost.dl", specification),
    ])
}

/// Runs the plan once, held against the specification.
const INJECT: [&str; 8] = [
    "inject",
    "cluster.toml",
    "--plan",
    "plan.toml",
    "--spec",
    "lost.dl",
    "--out",
    "out",
];

/// What a run that is over answers to rules.
#[track_caller]
fn asked(folder: &Folder, status: i32, rules: &str) -> String {
    printed(&folder.ends(status, &["rules", "out", "1", rules]))
}

#[test]
fn a_violation_is_a_finding_with_what_it_rests_on_in_show_and_report() {
    let folder = folder(LOST);
    let told = printed(&folder.ends(1, &INJECT));
    assert!(
        told.contains("broken        lost: lost(\"k1\") from "),
        "{told}"
    );
    let parts = [
        "by violation lost(K) :- acked(K), !served(K).",
        "acknowledged(op: 0, client: \"",
        "f: \"write\", key: \"k1\", value: \"3\"",
        "no served(\"k1\")",
    ];
    let shown = printed(&folder.ends(1, &["show", "out", "1"]));
    folder.ends(0, &["report", "out", "--html", "report.html"]);
    let page = folder.read("report.html");
    let page = page.replace("&#34;", "\"").replace("&quot;", "\"");
    for part in parts {
        assert!(
            told.contains(part) && shown.contains(part),
            "{part}: {told}{shown}"
        );
        assert!(page.contains(part), "{part}: {page}");
    }
    let results = folder.read("out/results.jsonl");
    let result: Value = serde_json::from_str(results.lines().next().expect("a run")).expect("JSON");
    assert_eq!(result["violations"][0]["specification"], "lost");
    assert_eq!(result["violations"][0]["fact"], "lost(\"k1\")");
    assert!(folder.path("out/runs/1/facts.sqlite").exists());
    // It goes by the specification that it was begun with.
    fs::remove_file(folder.path("lost.dl")).expect("removed");
    let again = folder.ends(1, &["replay", "out", "1"]);
    assert!(printed(&again).contains("it broke the same again"));
}

#[test]
fn a_run_that_is_over_answers_questions() {
    let folder = folder("violation no(K) :- acked(K), served(K), !acked(K).\n");
    // Nobody read after the heal, so it had nothing that it could have looked at? It had: reads.
    folder.ends(0, &INJECT);
    let asked = |status, rules: &str| asked(&folder, status, rules);
    assert_eq!(
        asked(0, "lost(K) :- acked(K), !served(K)."),
        "lost(\"k1\")\nlost: 1 fact\n"
    );
    assert_eq!(
        asked(
            0,
            "open(K, E) :- unknown(key: K, f: F, error: E), changes(F)."
        ),
        "open(\"k2\", \"\")\nopen: 1 fact\n"
    );
    let terms = asked(
        0,
        "t(N, T) :- logged(node: N, line: L), T = number(capture(L, \"elected in term ([0-9]+)\")).",
    );
    assert!(terms.starts_with("t(\"a\", 7)\nt(\"b\", 7)\n"), "{terms}");
    assert_eq!(
        asked(
            0,
            "hit(N, K) :- fault_on(fault: F, node: N), fault(fault: F, kind: K)."
        ),
        "hit(\"a\", \"kill\")\nhit: 1 fact\n"
    );
    // The node was started at first, and when everything was healed.
    let told = asked(0, "starts(N, count(T)) :- started(N, T).");
    assert!(
        told.contains("starts(\"a\", 2)") && told.contains("starts(\"b\", 1)"),
        "{told}"
    );
    let told = asked(1, "violation lost(K) :- acked(K), !served(K).");
    assert!(told.contains("no served(\"k1\")"), "{told}");
    let told = asked(3, "violation v(N) :- call_hit(node: N).");
    let words = "v never had a fact to look at: there is no call_hit";
    assert!(told.contains(words), "{told}");
    let listed = printed(&folder.ends(0, &["rules", "out", "1", "--facts"]));
    assert!(listed.contains("       2  node(node)\n"), "{listed}");
    let json = ["rules", "out", "1", "--format", "json", "a(K) :- acked(K)."];
    let json = printed(&folder.ends(0, &json));
    let first: Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["values"]["k"], "k1");
}

#[test]
fn a_node_that_ended_by_itself_was_started_when_everything_was_healed() {
    let folder = folder(LOST);
    // While the client works: all nodes have been ready by then.
    let once = "touch {dir}/again; sleep 4; exit 1";
    let ends = format!("echo ready; [ -e {{dir}}/again ] && exec sleep 600; {once}");
    let cluster = CLUSTER.replace("names = [\"a\", \"b\"]", "name = \"a\"");
    let cluster = cluster.replace("echo ready; echo elected in term 7; exec sleep 600", &ends);
    let cluster = cluster.replace("sleep 0.3", "sleep 9");
    let other = concat!(
        "[[nodes]]\nname = \"b\"\ncommand = \"sh -c 'echo ready; exec sleep 600'\"\n",
        "ready = { log = \"ready\" }\nstop = \"SIGKILL\"\n"
    );
    folder.write("cluster.toml", &format!("{cluster}{other}"));
    folder.write("plan.toml", &PLAN.replace("\"a\"", "\"b\""));
    let output = folder.run(&INJECT);
    let text = printed(&output);
    assert!(
        text.contains("a ended with status 1 by itself\n"),
        "{text}{}",
        said(&output)
    );
    assert!(text.contains("a is ready\n"), "{text}");
    let words = "a node ended by itself in 1 run, and no fault explains that: `may_end`";
    assert!(text.contains(words), "{text}");
    let told = asked(&folder, 0, "starts(N, count(T)) :- started(N, T).");
    assert!(told.contains("starts(\"a\", 2)"), "{told}");
}

#[test]
fn what_cannot_be_asked_is_said_in_a_line() {
    let folder = folder("violation never(N) :- call_hit(node: N).\n");
    // It had nothing to look at, so it is no pass.
    let told = printed(&folder.ends(3, &INJECT));
    let words = "lost: never never had a fact to look at: there is no call_hit";
    assert!(told.contains(words), "{told}");
    let refused = |arguments: &[&str], words: &str| {
        let said = said(&folder.ends(2, arguments));
        assert!(
            said.lines().count() == 1 && said.contains(words),
            "{arguments:?}: {said}"
        );
    };
    let unknown = "RULES:1:9: in the rule of a: nothing is known of ackd: it has no rule, and is no \
                   fact; did you mean acked?";
    refused(&["rules", "out", "1", "a(K) :- ackd(K)."], unknown);
    refused(
        &["rules", "out", "7", "a(K) :- acked(K)."],
        "there is no run 7: the last is 1",
    );
    refused(
        &["rules", "tmp", "1", "a(K) :- acked(K)."],
        "has no results of `crashpoint inject`",
    );
    refused(&["rules", "out", "1", "--spec", "none.dl"], "none.dl");
    folder.write("ask.dl", "a(K) :- acked(K).\n");
    let inject = ["inject", "cluster.toml", "--plan", "plan.toml", "--spec"];
    refused(
        &[&inject[..], &["ask.dl"]].concat(),
        "ask.dl has no violation",
    );
    folder.write("bad.dl", "\nviolation a(K) :- acked(L).\n");
    refused(
        &[&inject[..], &["bad.dl"]].concat(),
        "bad.dl:2:13: in the rule of a: nothing binds K",
    );
    folder.write("out/runs/1/facts.sqlite", "something else");
    refused(
        &["rules", "out", "1", "a(K) :- acked(K)."],
        "facts.sqlite is no database of facts",
    );
    let facts = folder.path("out/runs/1/facts.sqlite");
    fs::remove_file(&facts).expect("removed");
    let answers = || {
        let answer = asked(&folder, 0, "a(K) :- acked(K).");
        assert_eq!(answer, "a(\"k1\")\na: 1 fact\n");
    };
    answers();
    // Facts of another version are made anew.
    let mut bytes = fs::read(&facts).expect("read");
    bytes[USER_VERSION_LAST] = 1;
    fs::write(&facts, bytes).expect("written");
    answers();
    let version = fs::read(&facts).expect("read")[USER_VERSION_LAST];
    assert!(version > 1, "{version}");
}

/// The last byte of the version of what is in a file of SQLite, in its header.
const USER_VERSION_LAST: usize = 63;

/// A run in which a client waits for what it wrote and reads this, held against `specs/*.dl`.
#[track_caller]
fn with_all_of_the_project(read: &str, status: i32) -> Output {
    let folder = folder(LOST);
    let later = "cat {here}/story; sleep 0.1; tail -2 {here}/story; sleep 0.2";
    let cluster = CLUSTER.replace("cat {here}/story; sleep 0.3", later);
    folder.write("cluster.toml", &cluster);
    let read = format!("\"value\":{read}");
    folder.write("story", &STORY.replace("\"value\":null", &read));
    let entries = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../specs")).expect("read");
    let paths = entries.map(|entry| entry.expect("read").path());
    let rules = paths.filter(|path| path.extension().is_some_and(|ending| ending == "dl"));
    let mut all: Vec<_> = rules.map(|path| path.display().to_string()).collect();
    all.sort();
    let all = all.iter().map(String::as_str).collect();
    folder.ends(status, &[INJECT[..5].to_vec(), all].concat())
}

#[test]
fn all_specifications_together_find_what_one_finds() {
    let told = printed(&with_all_of_the_project("null", 1));
    let found = "  broken        acknowledged-is-served: not_served(\"k1\", \"3\", \"null\", ";
    assert!(told.contains(found), "{told}");
}

/// One has looked, and found nothing: what was acknowledged is served.
#[test]
fn of_all_specifications_those_of_crash_states_are_left_out_and_some_have_no_fact_to_look_at() {
    let output = with_all_of_the_project("3", 3);
    let words = said(&output);
    let is_left_out = |name: &str| words.contains(&format!("/{name}.dl is left out: it is about "));
    for name in [
        "etcd",
        "hdfs-name-node",
        "log-and-snapshot",
        "names-are-there",
        "zookeeper",
    ] {
        assert!(is_left_out(name), "{name}: {words}");
    }
    for name in [
        "acknowledged-is-served",
        "counters",
        "fsync-error",
        "hdfs",
        "mutual-exclusion",
    ] {
        assert!(!is_left_out(name), "{name}: {words}");
    }
    let told = printed(&output);
    assert!(
        told.contains("0 broken of 1 run, 0 inconclusive\n"),
        "{told}"
    );
    for (specification, lacks) in [
        ("counters: ", "there is no called(f: one of adds)"),
        ("fsync-error: ", "there is no call_hit(call: one of syncs)"),
        (
            "mutual-exclusion: ",
            "there is no acknowledged(f: one of takes)",
        ),
        ("one-leader-a-term: ", "there is no role(role: \"leader\")"),
        (
            "names-are-there-at-starts: ",
            "there is no line_at(path: one of pointer)",
        ),
    ] {
        let is_told = |line: &str| line.starts_with(specification) && line.contains(lacks);
        assert!(told.lines().any(is_told), "{specification}{lacks}: {told}");
    }
    assert!(!told.contains("\nacknowledged-is-served: "), "{told}");
}

#[test]
fn specifications_whose_tables_would_be_the_same_are_refused() {
    let folder = folder(LOST);
    folder.write("LOST.dl", LOST);
    folder.ends(1, &INJECT);
    let inject = ["inject", "cluster.toml", "--plan", "plan.toml"];
    for command in [&inject[..], &["rules", "out", "1"]] {
        let alike = ["--spec", "lost.dl", "LOST.dl"];
        let output = folder.ends(2, &[command, &alike].concat());
        let words = "two of the specifications are called LOST";
        assert!(said(&output).contains(words), "{}", said(&output));
    }
}

#[test]
fn ctrl_c_is_heard_while_one_rule_takes_for_ever() {
    let folder = folder("violation no(K) :- acked(K), served(K), !acked(K).\n");
    folder.ends(0, &INJECT);
    // Three operations each with each, forty times: more than 10^19 rows.
    let operations: Vec<_> = (0..40).map(|place| format!("O{place}")).collect();
    let body: Vec<_> = operations
        .iter()
        .map(|op| format!("called(op: {op})"))
        .collect();
    let sum = operations.join(" + ");
    let rules = format!("n(count(O0)) :- {}, {sum} < 0.", body.join(", "));
    let mut command = Command::new(program("crashpoint"));
    command.args(["rules", "out", "1", &rules]);
    command.current_dir(&folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start(&mut command);
    // Once it listens, it is given time to begin.
    let listens = || {
        let status = fs::read_to_string(format!("/proc/{}/status", running.id())).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.expect("it is there").trim(), 16);
        caught.expect("a mask") & 1 << (Signal::SIGINT as i32 - 1) != 0
    };
    wait_until("it listens", PATIENCE, listens);
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    running.send(Signal::SIGINT);
    let output = running.output();
    assert!(begun.elapsed() < PATIENCE, "{begun:?}");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let words = "interrupted: not all rules were evaluated";
    assert!(said(&output).contains(words), "{}", said(&output));
    assert_eq!(
        asked(&folder, 0, "lost(K) :- acked(K), !served(K)."),
        "lost(\"k1\")\nlost: 1 fact\n"
    );
}

/// Each specification of the project, a mistake of the store that elects its leader, and the plan that
/// shows it.
const FOUND: [(&str, &str, &str); 10] = [
    ("acknowledged-is-served", "minority-writes", "leader"),
    ("one-leader-a-term", "deposed-reads", "leader"),
    ("mutual-exclusion", "local-locks", "leader"),
    ("counters", "runs-twice", "short"),
    ("fsync-error", "ignored-fsync", "fsync"),
    ("acknowledged-is-served", "deposed-reads", "leader"),
    ("acknowledged-is-served", "last-writer-wins", "leader"),
    ("acknowledged-is-served", "early-reads", "follower"),
    ("acknowledged-is-served", "deleted-returns", "follower"),
    ("counters", "longest-log", "brief"),
];

/// Which processor is free, and when, is a matter of chance.
const RUNS_MAX: u32 = 10;

fn specification(name: &str) -> String {
    format!("{}/../specs/{name}.dl", env!("CARGO_MANIFEST_DIR"))
}

/// Injects the faults of a plan into a store with a mistake, or none, that is judged by specifications
/// alone.
fn inject(mistake: &str, plan: &str, specifications: &[&str], runs: u32) -> Output {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("cluster.toml");
    let text = elects_cluster(mistake);
    let (text, _) = text.split_once("[check]").expect("it has a check");
    fs::write(&path, format!("disk = \"ext4\"\n{text}")).expect("written");
    let temporary = tempfile::tempdir().expect("a directory");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/elects/plans");
    let mut command = Command::new(program("crashpoint"));
    command.arg("inject").arg(path);
    command.args(["--plan", &format!("{fixture}/{plan}.toml")]);
    command.args(["--repeat", &runs.to_string(), "--stop-after", "1", "--spec"]);
    command.args(specifications.iter().map(|name| specification(name)));
    let elects = program("elects");
    let folder = elects.parent().unwrap_or(Path::new("/"));
    let others = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{others}", folder.display()));
    command.env("TMPDIR", temporary.path()).stdin(Stdio::null());
    command.output().expect("it runs")
}

fn is_found((name, mistake, plan): (&str, &str, &str)) {
    let output = inject(mistake, plan, &[name], RUNS_MAX);
    let told = printed(&output);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{mistake}: {told}{}",
        said(&output)
    );
    assert!(
        told.contains(&format!("  broken        {name}: ")),
        "{told}"
    );
    let broken = told.lines().find(|line| line.starts_with("  broken "));
    println!(
        "{name} {mistake} {plan} {}",
        broken.unwrap_or_default().trim()
    );
}

#[test]
fn a_lost_write_is_a_violation() {
    is_found(FOUND[0]);
}

#[test]
fn a_late_leader_is_a_violation() {
    is_found(FOUND[1]);
}

#[test]
#[ignore = "takes half a minute: make test-long"]
fn a_lock_with_two_holders_is_a_violation() {
    is_found(FOUND[2]);
}

#[test]
fn an_operation_that_ran_twice_is_a_violation() {
    is_found(FOUND[3]);
}

#[test]
fn an_ignored_error_is_a_violation() {
    is_found(FOUND[4]);
}

#[test]
fn a_correct_store_violates_nothing() {
    let objects = [
        "acknowledged-is-served",
        "one-leader-a-term",
        "mutual-exclusion",
        "counters",
    ];
    // A run on a busy machine may not have come to what the plan waits for.
    let nothing = |plan: &str, specifications: &[&str]| {
        let is_one_ok = (0..3).any(|_| {
            let output = inject("", plan, specifications, 2);
            let text = printed(&output);
            assert!(text.contains("\n0 broken of "), "{text}{}", said(&output));
            println!("{text}");
            text.lines()
                .any(|line| line.starts_with("run ") && line.ends_with(": ok"))
        });
        assert!(is_one_ok, "{plan}: no run is ok");
    };
    nothing("leader", &objects);
    nothing("fsync", &["fsync-error"]);
}

#[test]
#[ignore = "takes minutes"]
fn each_mistake_is_a_violation_and_none_is_without_one() {
    for found in FOUND {
        is_found(found);
    }
    let objects = [
        "acknowledged-is-served",
        "one-leader-a-term",
        "mutual-exclusion",
        "counters",
    ];
    for plan in ["leader", "brief", "follower", "short", "kill", "held-fsync"] {
        let output = inject("", plan, &objects, RUNS_MAX / 2);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{plan}: {}",
            printed(&output)
        );
    }
    let output = inject("", "fsync", &["fsync-error"], RUNS_MAX / 2);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

/// It has synced what it wrote at first, and not what it writes when it is started again.
const KEEPS: &str = r#"
cd "$1"
if [ -e kept ]; then
    echo again > again
else
    echo first > kept
    sync kept .
fi
echo ready
exec sleep 600
"#;

const KEEPING: &str = r#"
disk = "ext4"
[[nodes]]
name = "a"
command = "sh {here}/keeps.sh {dir}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sleep 4"
[check]
command = "echo ok"
"#;

const KILLED_AND_OFF: &str = r#"
[[faults]]
at = { time_s = 0.5 }
fault = "kill"
on = "a"
until = { after_s = 0.1 }

[[faults]]
at = { ended = true, delay_s = 0.2 }
fault = "power-loss"
on = "a"
until = { after_s = 0.1 }
"#;

/// What is synced is there whenever it starts, and in the end.
const KEPT: &str = "violation gone(A) :- looked_at(look: L, after: A), !has_kept(L).\n\
                    has_kept(L) :- line_at(look: L, path: \"kept\", number: 1, line: \"first\").\n";

/// What the run says of its looks: all of them, and of which moments something is there that was never synced.
#[track_caller]
fn assert_looks(asked: impl Fn(&str) -> String) {
    assert_eq!(
        asked("all(L, N, A) :- looked_at(look: L, node: N, after: A)."),
        "all(1, \"a\", \"stop\")\nall(2, \"a\", \"power loss\")\nall(3, \"a\", \"run\")\nall: 3 facts\n"
    );
    let kept = asked(
        "kept(A) :- looked_at(look: L, after: A), entry_at(look: L, path: \"kept\", size: 6).",
    );
    assert!(kept.ends_with("kept: 3 facts\n"), "{kept}");
    let again = asked("again(L) :- entry_at(look: L, path: \"again\").");
    assert!(again.contains("again(3)\n"), "{again}");
    assert!(!again.contains("again(1)\n"), "{again}");
    // It was seen while faults were in place, and after the end of the run.
    let order = asked(
        "o(A) :- looked_at(after: A, time: T), fault(fault: 1, time: F), fault_ended(fault: 2, time: E), T > F, T < E.",
    );
    let both = ["o(\"stop\")\n", "o(\"power loss\")\n", "o: 2 facts\n"];
    assert!(both.iter().all(|line| order.contains(line)), "{order}");
}

#[test]
fn rules_ask_what_a_directory_had_when_its_node_was_started_and_in_the_end() {
    let folder = Folder::new(&[
        ("cluster.toml", KEEPING),
        ("keeps.sh", KEEPS),
        ("plan.toml", KILLED_AND_OFF),
        ("kept.dl", KEPT),
        ("other.dl", "violation other(N) :- node(N), !node(N).\n"),
    ]);
    let inject = ["inject", "cluster.toml", "--plan", "plan.toml", "--spec"];
    folder.ends(0, &[&inject[..], &["kept.dl", "--out", "out"]].concat());
    assert_looks(|rules| asked(&folder, 0, rules));
    // What nobody looked at is not absent.
    folder.ends(0, &[&inject[..], &["other.dl", "--out", "other"]].concat());
    let refused = folder.ends(2, &["rules", "other", "1", "e(P) :- entry_at(path: P)."]);
    let words = "nobody looked at the directories of data in this run";
    assert!(said(&refused).contains(words), "{}", said(&refused));
}

/// The init of the machine looks before its node's command is run: what was not on the disk is gone then.
#[test]
fn directories_of_simulated_machines_are_looked_at_inside() {
    let place = Ordinary::new();
    place.file("cluster.toml", KEEPING);
    place.file("keeps.sh", KEEPS);
    place.file("plan.toml", KILLED_AND_OFF);
    place.file("kept.dl", KEPT);
    place.shared("out");
    let kernel = place.simulation_kernel();
    let ends = |status: i32, words: &[&str]| {
        let output = place.crashpoint(words).output().expect("it runs");
        let told = printed(&output);
        let is = output.status.code();
        assert_eq!(is, Some(status), "{words:?}: {told}{}", said(&output));
        told
    };
    let inject = [
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--spec",
        "kept.dl",
        "--simulate",
        "--kernel",
        &kernel,
        "--out",
        "out/run",
    ];
    ends(0, &inject);
    let asked = |rules: &str| ends(0, &["rules", "out/run", "1", rules]);
    assert_looks(asked);
    let again = asked("again(L) :- entry_at(look: L, path: \"again\").");
    assert_eq!(again, "again(3)\nagain: 1 fact\n");
    // Nothing was found that could be seen again, so it ends with 3.
    let replayed = ends(3, &["replay", "out/run", "1"]);
    assert!(replayed.contains("to the byte"), "{replayed}");
}

/// The leader is killed between a record and its mark, and then in the recovery that this takes.
const KILLED_IN_RECOVERY: &str = r#"
[[faults]]
at = { call = "write", path = "log/wal-*", node = "a", nth = 6 }
fault = "kill"
on = "a"
until = { after_s = 0.1 }

[[faults]]
at = { call = "rename", path = "log/rewrite-*", node = "a" }
fault = "kill"
on = "a"
until = { after_s = 0.1 }
"#;

#[test]
fn a_log_that_is_emptied_before_there_is_another_is_seen_when_its_recovery_is_killed() {
    let name = "names-are-there-at-starts";
    let path = specification(name);
    for (mistake, status) in [("emptied-log", 1), ("", 0)] {
        let folder = Folder::new(&[
            ("cluster.toml", &store_of_two(mistake)),
            ("plan.toml", KILLED_IN_RECOVERY),
        ]);
        let inject = [
            "inject",
            "cluster.toml",
            "--plan",
            "plan.toml",
            "--spec",
            &path,
        ];
        let output = folder.run(&[&inject[..], &["--out", "out"]].concat());
        let told = printed(&output);
        let found = "dangling(\"a\", \"CURRENT\", \"wal-00000001\", \"stop\")";
        let is_found = told.contains(&format!("{name}: {found}"));
        assert_eq!(is_found, status == 1, "{mistake}: {told}{}", said(&output));
        // It had something to look at, in both starts.
        folder.ends(status, &["rules", "out", "1", "--spec", &path]);
        let looks = asked(
            &folder,
            0,
            "l(L) :- looked_at(look: L, node: \"a\", after: \"stop\").",
        );
        let count = looks.lines().filter(|line| line.starts_with("l(")).count();
        assert!(count >= 2, "{looks}{told}");
    }
}
