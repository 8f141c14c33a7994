//! Triggers and faults at system calls on simulated machines, where a node is traced in its machine. A
//! plan does not know where: the same ones are run in namespaces. Needs root, to be somebody else and
//! for namespaces, and Python.

use std::process::Output;

use end_to_end::{Ordinary, crashpoint, elects_cluster, printed, said};
use serde_json::Value;

/// Disks of a majority fail every fsync of their logs, and then they lose their power.
const FSYNC: &str = include_str!("../fixtures/elects/plans/fsync.toml");

/// An fsync of a follower waits, and fails then.
const HELD_FSYNC: &str = include_str!("../fixtures/elects/plans/held-fsync.toml");

/// Counts in a file, syncs each number, and says what it finds when it starts, and how long each call
/// took that took long.
const COUNTS: &str = r#"
disk = "ext4"
[[nodes]]
name = "a"
command = "python3 {here}/node.py {dir}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sleep 4"
[check]
command = "echo ok"
"#;

const PROGRAM: &str = r"
import os, sys, time
os.chdir(sys.argv[1])
file = os.open('log', os.O_CREAT | os.O_RDWR)
number = int(os.pread(file, 9, 0) or 0)
print('found', number, flush=True)
print('ready', flush=True)
def told(what, call):
    begun = time.monotonic()
    try:
        call()
    except OSError as error:
        print(what, error.strerror, flush=True)
    took = time.monotonic() - begun
    if took > 0.3:
        print(f'{what} took {took:.1f}', flush=True)
while True:
    number += 1
    told('write', lambda: os.pwrite(file, b'%09d' % number, 0))
    told('fsync', lambda: os.fsync(file))
    print('read', int(os.pread(file, 9, 0)), 'of', number, flush=True)
    time.sleep(0.05)
";

/// What comes before it in a program of three threads that sends its group a signal.
const THREADS: &str = r"
import os, signal, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.kill(0, signal.SIGTERM)
def rests():
    while True:
        time.sleep(0.01)
for _ in range(2):
    threading.Thread(target=rests, daemon=True).start()
";

/// A place of an ordinary user's with a cluster.
struct Laid {
    place: Ordinary,
    path: String,
    kernel: String,
}

impl Laid {
    fn new(cluster: &str, program: &str) -> Self {
        let place = Ordinary::new();
        place.file("cluster.toml", cluster);
        place.file("node.py", PROGRAM);
        place.shared("out");
        let path = place.on_path(program);
        let kernel = place.simulation_kernel();
        Self {
            place,
            path,
            kernel,
        }
    }

    fn counts() -> Self {
        Self::new(COUNTS, "elects")
    }

    /// With a client that works for so long instead of four seconds.
    fn counts_for(seconds: u32) -> Self {
        let client = format!("\"sleep {seconds}\"");
        Self::new(&COUNTS.replace("\"sleep 4\"", &client), "elects")
    }

    fn crashpoint(&self, arguments: &[&str]) -> Output {
        let mut command = self.place.crashpoint(arguments);
        let output = command.env("PATH", &self.path).output().expect("it runs");
        let left = std::fs::read_dir(self.place.temporary()).expect("it is there");
        assert_eq!(left.count(), 0);
        output
    }

    /// Runs a plan, keeps what is left in `out/NAME`, and expects an exit status. What is told.
    fn inject(&self, name: &str, plan: &str, status: i32) -> String {
        self.place.file("plan.toml", plan);
        let out = format!("out/{name}");
        let words = ["inject", "cluster.toml", "--plan", "plan.toml", "--out"];
        let how = [&out, "--simulate", "--kernel", &self.kernel];
        let output = self.crashpoint(&[&words[..], &how].concat());
        let told = printed(&output);
        let words = format!("{told}{}", said(&output));
        assert_eq!(output.status.code(), Some(status), "{words}");
        told
    }

    /// Runs the last plan in namespaces. What is told, and the log of the node.
    fn in_namespaces(&self) -> (String, String) {
        let place = tempfile::tempdir().expect("a directory");
        let mut command = crashpoint();
        command.arg("inject").arg(self.place.path("cluster.toml"));
        command.arg("--plan").arg(self.place.path("plan.toml"));
        command.arg("--out").arg(place.path().join("out"));
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let log = std::fs::read_to_string(place.path().join("out/runs/1/logs/a.log"));
        (printed(&output), log.expect("kept"))
    }

    fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.place.path(name)).expect("read")
    }

    fn log(&self, name: &str) -> String {
        self.file(&format!("out/{name}/runs/1/logs/a.log"))
    }

    fn result(&self, name: &str) -> Value {
        let result = self.file(&format!("out/{name}/results.jsonl"));
        serde_json::from_str(&result).expect("one run")
    }

    /// The run is made again, to the byte.
    fn comes_to_the_same(&self, name: &str) {
        let again = printed(&self.crashpoint(&["replay", &format!("out/{name}"), "1"]));
        let same = "it came to the same again, to the byte\n";
        assert!(again.ends_with(same), "{again}");
    }
}

/// A fault of calls of a node.
fn fault(at: &str, keys: &str, until: &str) -> String {
    format!("[[faults]]\nat = {at}\nfault = \"call\"\non = \"a\"\n{keys}\nuntil = {until}\n")
}

/// Another fault of it.
fn node(at: &str, what: &str, until: &str) -> String {
    format!("[[faults]]\nat = {at}\nfault = \"{what}\"\non = \"a\"\n{until}\n")
}

/// The power of a node fails at its third fsync.
fn third(when: &str) -> String {
    format!(
        "[[faults]]\nat = {{ call = \"fsync\", path = \"log\", node = \"a\", nth = 3, when = \"{when}\" }}
fault = \"power-loss\"\non = \"a\"\nuntil = {{ after_s = 0.5 }}\n"
    )
}

/// What a node found when it started again, less the last number of which it had told before that all of
/// it was done.
fn found_more(log: &str) -> i64 {
    let (before, after) = log.split_once("\nfound ").expect("it started again");
    let number = |text: Option<&str>| {
        let text = text.expect("a number");
        text.trim().parse::<i64>().expect("a number")
    };
    number(after.lines().next()) - number(before.rsplit(" of ").next())
}

/// What was synced is there, and what was about to be is not, on both grounds.
#[test]
fn the_power_fails_exactly_before_or_after_the_call() {
    let laid = Laid::counts();
    for (when, words, more) in [
        ("before", "a is about to fsync log", 0),
        ("after", "a has made fsync log", 1),
    ] {
        let told = laid.inject(when, &third(when), 0);
        assert!(told.contains(words), "{told}");
        assert_eq!(found_more(&laid.log(when)), more, "{told}");
        let (told, log) = laid.in_namespaces();
        assert!(told.contains(words), "{told}");
        assert_eq!(found_more(&log), more, "in namespaces");
    }
}

/// What holds a call meanwhile loses nobody who waits for its return: the desk is the same on both grounds.
#[test]
fn a_call_that_a_fault_or_a_trigger_holds_is_seen_to_return() {
    let laid = Laid::counts();
    let slow = "call = \"fsync\"\nslow_s = 0.2";
    let slow = fault("{ time_s = 0.1 }", slow, "{ time_s = 3 }");
    laid.place.file("plan.toml", &(slow + &third("after")));
    let (told, log) = laid.in_namespaces();
    // The third, and not the first that is not slow any more.
    let (before, _) = told.split_once("fault 1 has ended").expect("it has");
    assert!(before.contains("a has made fsync log"), "{told}");
    assert_eq!(found_more(&log), 1, "{told}");
}

/// Who traces a node in its machine may fail: that is nothing of the node's. How the node ends is.
#[test]
fn a_tracer_that_ends_is_not_the_end_of_its_node() {
    let laid = Laid::counts_for(2);
    let hold = fault(
        "{ time_s = 0.1 }",
        "call = \"fsync\"\nslow_s = 0.01",
        "{ time_s = 1 }",
    );
    let kills = |whom: &str| {
        let kills = format!("if number == 9: os.kill(os.get{whom}(), 9)\n    print('read'");
        let program = PROGRAM.replace("print('read'", &kills);
        laid.place.file("node.py", &program);
    };
    kills("ppid");
    laid.inject("tracer", &hold, 3);
    let why = laid.result("tracer")["why"].to_string();
    assert!(
        why.contains("the tracer of its command was ended by"),
        "{why}"
    );
    kills("pid");
    let told = laid.inject("node", &hold, 0);
    assert!(told.contains("was ended by SIGKILL by itself"), "{told}");
}

/// Counts go on in the desk of the command that is started again; time of a call that is slow, and of a
/// node that stands still, is that of its machine.
#[test]
fn faults_of_calls_go_on_through_restarts_and_pauses_and_end() {
    let (ended, half) = (
        "{ ended = true, delay_s = 0.1 }",
        "until = { after_s = 0.5 }",
    );
    let plan = [
        fault(
            "{ time_s = 0.1 }",
            "call = \"fsync\"\nnth = 10\nonce = true\nfails = \"EIO\"",
            "{ time_s = 3.9 }",
        ),
        node("{ time_s = 0.3 }", "restart", ""),
        node("{ call = \"fsync\" }", "kill", "until = { after_s = 0.1 }"),
        node(ended, "pause", half),
        node(ended, "freeze", half),
        fault(
            ended,
            "call = \"read\"\ncorrupt = \"bit\"\nonce = true",
            "{ after_s = 0.3 }",
        ),
        fault(
            ended,
            "call = \"write\"\nslow_s = 0.4\nonce = true",
            "{ after_s = 0.6 }",
        ),
        fault(ended, "call = \"write\"\nhold = true", "{ after_s = 0.5 }"),
    ];
    let laid = Laid::counts();
    let told = laid.inject("all", &plan.concat(), 0);
    let result = laid.result("all");
    let faults = result["faults"].as_array().expect("a list");
    for fault in faults {
        assert_eq!(fault["state"], "undone", "{told}");
    }
    let hits: Vec<_> = faults
        .iter()
        .filter_map(|fault| fault["calls"].as_u64())
        .collect();
    assert_eq!(hits, [1, 1, 1, 1], "{told}");
    let log = laid.log("all");
    let (before, after) = log.split_once("fsync Input/output error\n").expect("once");
    assert!(!after.contains("fsync Input/output error"), "{log}");
    // It is the tenth of three desks, the last of which has seen fewer.
    let starts: Vec<_> = before.split("found ").collect();
    assert_eq!(starts.len(), 4, "{log}");
    assert!(starts[3].matches("read ").count() < 8, "{log}");
    let slow: Vec<_> = log.lines().filter(|line| line.contains(" took ")).collect();
    let (paused, slow) = slow.split_at(slow.len().saturating_sub(2));
    assert_eq!(slow, ["write took 0.4", "write took 0.5"], "{paused:?}");
    laid.comes_to_the_same("all");
}

/// Threads of a node that is traced stop when its tracer lets them, which goes on, and which nobody but us
/// signals.
#[test]
fn a_node_of_three_threads_is_paused_and_its_signals_are_its_own() {
    let laid = Laid::counts();
    laid.place.file("node.py", &format!("{THREADS}{PROGRAM}"));
    let plan = [
        fault(
            "{ time_s = 0.1 }",
            "call = \"fsync\"\nslow_s = 0.4\nonce = true",
            "{ time_s = 0.3 }",
        ),
        node("{ time_s = 0.2 }", "pause", "until = { time_s = 1.2 }"),
    ];
    let told = laid.inject("paused", &plan.concat(), 0);
    let result = laid.result("paused");
    for fault in result["faults"].as_array().expect("a list") {
        assert_eq!(fault["state"], "undone", "{told}");
    }
    assert!(!told.contains("by itself"), "{told}");
    // What was held is told to go on meanwhile, and stands still with the others.
    let log = laid.log("paused");
    assert!(log.contains("fsync took 1."), "{log}");
}

/// A node whose machine stands still cannot be told to spare calls: a fault ends when it goes on.
#[test]
fn a_fault_of_calls_ends_when_its_node_does_not_stand_still_any_more() {
    let laid = Laid::counts();
    let plan = [
        fault(
            "{ time_s = 0.2 }",
            "call = \"fsync\"\nfails = \"EIO\"",
            "{ time_s = 1.0 }",
        ),
        node("{ time_s = 0.5 }", "freeze", "until = { time_s = 1.5 }"),
    ];
    let told = laid.inject("frozen", &plan.concat(), 0);
    let result = laid.result("frozen");
    let faults = &result["faults"];
    let ended = |fault: usize| faults[fault]["undone_ns"].as_u64();
    assert!(
        ended(0) >= ended(1) && ended(1) >= Some(1_500_000_000),
        "{faults} {told}"
    );
    let failed = laid
        .log("frozen")
        .matches("fsync Input/output error")
        .count();
    assert_eq!(faults[0]["calls"], failed, "{told}");
}

/// A place in a program has the number that failure points in namespaces have.
#[test]
fn a_place_in_a_program_is_the_same_on_both_grounds() {
    let laid = Laid::new(include_str!("../fixtures/store/cluster.toml"), "store");
    let mut command = crashpoint();
    command.arg("inject").arg(laid.place.path("cluster.toml"));
    let output = command.arg("--points").env("PATH", &laid.path).output();
    let table = printed(&output.expect("it runs"));
    let mut rows = table.lines().map(|line| line.split_whitespace());
    // Of the leader alone: point, call, file, times, node, times of this node, site.
    let row = rows.find(|row| row.clone().nth(1) == Some("fdatasync"));
    let row: Vec<_> = row.unwrap_or_else(|| panic!("{table}")).collect();
    let plan = |site: &str| {
        format!(
            "within_s = 1\n[[faults]]\nat = {{ call = \"fdatasync\", site = \"{site}\", nth = 2 }}
fault = \"kill\"\non = \"a\"\nuntil = {{ after_s = 0.1 }}\n"
        )
    };
    let told = laid.inject("site", &plan(row[6]), 0);
    assert!(told.contains("a is about to fdatasync log/"), "{told}");
    laid.inject("other", &plan("0123456789abcdef"), 3);
}

#[test]
fn a_fault_that_hits_no_call_is_no_pass_and_neither_is_a_call_that_never_comes() {
    let laid = Laid::counts();
    let plan = "[[faults]]\nat = { time_s = 0.1 }\nfault = \"call\"\non = \"a\"\ncall = \"rename\"
fails = \"EIO\"\nuntil = { after_s = 0.2 }\n";
    laid.inject("hits", plan, 3);
    let why = laid.result("hits")["why"].clone();
    assert_eq!(
        why,
        "fault 1 hit nothing on a: there was no such call: rename fails with EIO"
    );
    let plan =
        "within_s = 1\n[[faults]]\nat = { call = \"rename\" }\nfault = \"kill\"\non = \"a\"\n";
    laid.inject("never", plan, 3);
    let why = laid.result("never")["why"].clone();
    assert_eq!(why, "fault 1 never happened: at { call = \"rename\" }");
}

/// Runs the plan in which fsyncs of a majority fail. What is told.
fn fsyncs_fail(mistake: &str, status: i32) -> (Laid, String) {
    let laid = Laid::new(&elects_cluster(mistake), "elects");
    let told = laid.inject("fails", FSYNC, status);
    let hit = "fsync log: fails with EIO (fault 2)";
    assert!(told.contains(hit), "{told}");
    (laid, told)
}

/// Both are needed: an error that only an injected fault brings about, and a loss of power.
#[test]
fn an_fsync_whose_error_is_ignored_is_found() {
    let (_, told) = fsyncs_fail("ignored-fsync", 1);
    assert!(told.contains(" was acknowledged\n"), "{told}");
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn an_fsync_whose_error_is_ignored_is_found_again_and_one_that_is_heeded_is_not() {
    let (laid, told) = fsyncs_fail("ignored-fsync", 1);
    assert!(told.contains(" was acknowledged\n"), "{told}");
    laid.comes_to_the_same("fails");
    fsyncs_fail("", 0);
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn others_go_on_while_an_fsync_is_held_and_its_error_ends_the_node() {
    let laid = Laid::new(&elects_cluster(""), "elects");
    let told = laid.inject("held", HELD_FSYNC, 0);
    let at = |words: &str| {
        told.find(words)
            .unwrap_or_else(|| panic!("{words}: {told}"))
    };
    let held = at("fsync log: is held (fault 1)");
    let ended = at("fault 1 has ended");
    // The node that is held is the one that ends, and not before.
    assert!(
        held < ended && ended < at("ended with status 2 by itself"),
        "{told}"
    );
}
