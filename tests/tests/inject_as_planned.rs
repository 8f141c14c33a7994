//! What a run says is what was done: a fault lasts as long as its plan says, one that hits nobody is none,
//! and what our own machinery does to a node is not held against it. Needs root and Python.

use end_to_end::{Folder, objects, printed, require_root, said};
use serde_json::Value;

/// Tells every 10 ms how long its machine is up, and every two seconds that it ticks.
const TICKS: &str = r#"
import time
print("ready", flush=True)
count = 0
while True:
    print("at", time.monotonic(), flush=True)
    if count % 200 == 0:
        print("tick", flush=True)
    count += 1
    time.sleep(0.01)
"#;

/// One node that ticks, and another one.
const TWO: &str = r#"
[[nodes]]
name = "a"
command = "python3 {here}/ticks.py"
ready = { log = "ready" }
stop = "SIGKILL"

[[nodes]]
name = "b"
command = "sh -c 'echo ready; exec sleep 1000'"
ready = { log = "ready" }
stop = "SIGKILL"

[client]
command = "sh -c 'echo one; exec sleep 3'"

[check]
command = "echo ok"
"#;

fn fault(at: &str, fault: &str, more: &str) -> String {
    format!("[[faults]]\nat = {at}\nfault = \"{fault}\"\n{more}\n")
}

/// The folder of a cluster, and what one run of a plan there came to.
fn run(cluster: &str, plan: &str, files: &[(&str, &str)]) -> (Folder, Value) {
    require_root();
    let folder = Folder::new(&[("cluster.toml", cluster), ("plan.toml", plan)]);
    for (name, text) in files {
        folder.write(name, text);
    }
    let words = ["inject", "cluster.toml", "--plan", "plan.toml"];
    let output = folder.run(&[&words[..], &["--format", "json", "--out", "out"]].concat());
    let results = objects(&printed(&output));
    assert!(!results.is_empty(), "{}", said(&output));
    let left = folder.left();
    assert!(left.is_empty(), "{left:?}");
    (folder, results[0].clone())
}

fn of_two(plan: &str) -> (Folder, Value) {
    run(TWO, plan, &[("ticks.py", TICKS)])
}

/// How long a fault lasted, in seconds.
fn lasted(result: &Value, fault: usize) -> f64 {
    let fault = &result["faults"][fault];
    let at = |when: &str| fault[when].as_f64().unwrap_or_else(|| panic!("{result:#}"));
    (at("undone_ns") - at("placed_ns")) / 1e9
}

/// The longest time in which the node that ticks said nothing, in seconds.
fn gap(folder: &Folder) -> f64 {
    let log = folder.read("out/runs/1/logs/a.log");
    let times = log.lines().filter_map(|line| line.strip_prefix("at "));
    let times: Vec<f64> = times
        .map(|time| time.parse().unwrap_or_else(|_| panic!("{log}")))
        .collect();
    let gaps = times.windows(2).map(|two| two[1] - two[0]);
    gaps.fold(0.0, f64::max)
}

#[test]
fn a_line_that_began_a_fault_does_not_end_it() {
    let tick = "{ log = \"tick\", node = \"a\" }";
    let plan = fault(tick, "partition", &format!("on = \"a\"\nuntil = {tick}"));
    let (_, result) = of_two(&plan);
    assert_eq!(result["verdict"], "ok", "{result:#}");
    assert!(lasted(&result, 0) > 0.5, "{result:#}");
}

#[test]
fn a_fault_that_hits_nobody_was_not_put_in_place() {
    let plan = fault(
        "{ lines = 1 }",
        "kill",
        "on = \"minority\"\nuntil = { after_s = 0.1 }",
    );
    let (_, result) = of_two(&plan);
    assert_eq!(result["verdict"], "inconclusive", "{result:#}");
    assert_eq!(result["faults"][0]["state"], "not-injected", "{result:#}");
    let why = result["why"].as_str().expect("words");
    assert!(why.contains("it would hit nobody"), "{why}");
}

#[test]
fn a_heal_hits_nobody_and_is_not_the_last_hit() {
    let until = "until = { after_s = 0.1 }";
    let plan = [
        fault("{ lines = 1 }", "pause", &format!("on = \"a\"\n{until}")),
        fault("{ ended = true }", "heal", ""),
        fault(
            "{ ended = true }",
            "kill",
            &format!("on = \"hit\"\n{until}"),
        ),
    ];
    let (_, result) = of_two(&plan.concat());
    assert_eq!(result["verdict"], "ok", "{result:#}");
    assert_eq!(result["faults"][2]["on"][0], "a", "{result:#}");
}

#[test]
fn of_two_faults_that_overlap_the_end_of_one_does_not_end_the_other() {
    let longer = |what: &str| {
        fault(
            "{ after_s = 0.1 }",
            what,
            "on = \"a\"\nuntil = { after_s = 1.5 }",
        )
    };
    let shorter = |what: &str| {
        fault(
            "{ lines = 1 }",
            what,
            "on = \"a\"\nuntil = { after_s = 0.3 }",
        )
    };
    let (folder, result) = of_two(&(shorter("pause") + &longer("pause")));
    assert_eq!(result["verdict"], "ok", "{result:#}");
    assert!(gap(&folder) > 1.5, "{}: {result:#}", gap(&folder));
    let with_disk = format!("disk = \"ext4\"\n{TWO}");
    let plan = shorter("kill") + &longer("power-loss");
    let (folder, result) = run(&with_disk, &plan, &[("ticks.py", TICKS)]);
    assert_eq!(result["verdict"], "ok", "{result:#}");
    assert!(gap(&folder) > 1.5, "{}: {result:#}", gap(&folder));
}

#[test]
fn a_pause_that_was_lifted_keeps_no_later_one_from_its_end() {
    let pause = |at: &str, until: &str| fault(at, "pause", &format!("on = \"a\"\n{until}"));
    let plan = [
        pause("{ lines = 1 }", ""),
        fault("{ after_s = 0.2 }", "resume", "on = \"a\""),
        pause("{ after_s = 0.2 }", "until = { after_s = 0.5 }"),
    ];
    let (folder, result) = of_two(&plan.concat());
    assert_eq!(result["verdict"], "ok", "{result:#}");
    // Else until everything is healed.
    assert!(gap(&folder) < 2.0, "{}: {result:#}", gap(&folder));
}

/// Its probe says once who leads, and hangs from then on.
#[test]
fn who_led_before_the_last_fault_is_not_hit_as_the_one_who_leads() {
    let cluster = format!(
        "{TWO}\n[probe]\ncommand = \"sh {{here}}/probe.sh\"\nroles = [\"leader\"]\nwithin_s = 0.5\n"
    );
    let probe = "[ -e \"$0.asked\" ] && exec sleep 100\ntouch \"$0.asked\"\necho a leader\n";
    let plan = fault(
        "{ lines = 1 }",
        "pause",
        "on = \"leader\"\nuntil = { after_s = 0.5 }",
    ) + &fault(
        "{ after_s = 1.0 }",
        "kill",
        "on = \"leader\"\nuntil = { after_s = 0.1 }",
    );
    let files = [("ticks.py", TICKS), ("probe.sh", probe)];
    let cluster = cluster.replace("exec sleep 3", "exec sleep 4");
    let (_, result) = run(&cluster, &plan, &files);
    assert_eq!(result["verdict"], "inconclusive", "{result:#}");
    assert_eq!(result["faults"][0]["on"][0], "a", "{result:#}");
    assert_eq!(result["faults"][1]["state"], "not-injected", "{result:#}");
}

/// It says once who leads, and is killed whenever it is asked again, as a check is at once.
const IS_KILLED: &str = r#"
read line
if [ "$1" = probe ] && [ ! -e "$0.asked" ]; then
    touch "$0.asked"
    echo a leader
    echo end
    read line
fi
kill -9 $$
"#;

#[test]
fn a_check_or_a_probe_that_is_killed_accuses_nobody_and_is_no_pass() {
    let kill = "on = \"a\"\nuntil = { after_s = 0.2 }";
    let changed = fault("{ changed = \"leader\" }", "kill", kill);
    let (kill, changed) = (
        fault("{ lines = 1 }", "kill", kill),
        format!("within_s = 0.5\n{changed}"),
    );
    let killed = "command = \"sh {here}/killed.sh";
    let check = TWO.replace("command = \"echo ok", killed);
    let serve = check.replace("killed.sh\"", "killed.sh\"\nserve = true");
    let probe = format!("{TWO}\n[probe]\n{killed} probe\"\nroles = [\"leader\"]\nserve = true\n");
    let never = "fault 1 never happened: at { changed = \"leader\" }";
    let cases = [
        (check, &kill, "the check was ended by SIGKILL"),
        (serve, &kill, "the check was ended by SIGKILL"),
        (probe, &changed, never),
    ];
    for (cluster, plan, why) in cases {
        let cluster = cluster.replace("exec sleep 3", "exec sleep 1");
        let files = [("ticks.py", TICKS), ("killed.sh", IS_KILLED)];
        let (_, result) = run(&cluster, plan, &files);
        assert_eq!(result["verdict"], "inconclusive", "{result:#}");
        let told = result["why"].as_str().expect("words");
        assert!(told.starts_with(why), "{told}");
        let events = result["events"].to_string();
        let is_told = events.contains("it was ended by SIGKILL");
        assert_eq!(is_told, why == never, "{events}");
    }
}

/// Endless clients of which one does many operations at once and later ends, and another does few.
fn clients(first: &str, second: &str) -> String {
    let client = |name: &str, words: &str| {
        format!("[[clients]]\nname = \"{name}\"\ncommand = \"sh -c '{words}'\"\nendless = true\n")
    };
    let without = TWO.replace(
        "[client]\ncommand = \"sh -c 'echo one; exec sleep 3'\"\n",
        "",
    );
    format!(
        "{without}\n{}{}",
        client("first", first),
        client("second", second)
    )
}

const KILL: &str = "progress_within_s = 6\n[[faults]]\nat = { lines = 1 }\nfault = \"kill\"\non = \"b\"\nuntil = { after_s = 0.3 }\n";

#[test]
fn a_client_that_ends_takes_nothing_from_what_others_have_done() {
    let cluster = clients(
        "seq 1000; exec sleep 2",
        "while :; do sleep 3; echo one; done",
    );
    let (_, result) = run(&cluster, KILL, &[("ticks.py", TICKS)]);
    assert_eq!(result["verdict"], "ok", "{result:#}");
}

#[test]
fn where_no_endless_client_is_left_nobody_says_that_operations_are_acknowledged_again() {
    let cluster = clients("echo one; sleep 2; exit 1", "sleep 2");
    let (_, result) = run(&cluster, KILL, &[("ticks.py", TICKS)]);
    assert_eq!(result["verdict"], "inconclusive", "{result:#}");
    let why = result["why"].as_str().expect("words");
    assert!(why.contains("all endless clients had ended"), "{why}");
}

/// Ends a while after an fsync of it failed, and says to who asks that it is there.
const DIES: &str = r#"
import os, socket, threading, time
log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
listener = socket.create_server(("", 9000))
def serve():
    while True:
        listener.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
while True:
    os.write(log, b"a line\n")
    try:
        os.fsync(log)
    except OSError:
        time.sleep(0.4)
        os._exit(1)
    time.sleep(0.01)
"#;

/// Asks whether a node is there, when the node has had time to die.
const IS_THERE: &str = r#"
import socket, time
time.sleep(2)
try:
    socket.create_connection(("a", 9000), timeout=5).close()
    print("ok")
except OSError:
    print("broken a is not there")
"#;

#[test]
fn a_node_that_dies_of_a_fault_after_the_heal_is_started_again() {
    let cluster = TWO
        .replace("ticks.py", "dies.py")
        .replace("\"echo ok\"", "\"python3 {here}/is_there.py\"");
    let plan = fault(
        "{ lines = 1 }",
        "call",
        "on = \"a\"\ncall = \"fsync\"\nhold = true\nfails = \"EIO\"",
    );
    let files = [("dies.py", DIES), ("is_there.py", IS_THERE)];
    let (folder, result) = run(&cluster, &plan, &files);
    assert_ne!(result["verdict"], "broken", "{result:#}");
    let log = folder.read("out/runs/1/logs/a.log");
    assert_eq!(log.matches("ready").count(), 2, "{log}");
}

/// Serves a second after it was started; the other one ends at once if it does not.
#[test]
fn after_the_heal_a_node_is_started_when_those_are_ready_that_it_comes_after() {
    let cluster = r#"
[[nodes]]
name = "a"
command = "python3 {here}/late.py"
ready = { log = "ready" }
stop = "SIGKILL"

[[nodes]]
name = "b"
after = ["a"]
command = "python3 {here}/needs.py"
ready = { log = "ready" }
stop = "SIGKILL"

[client]
command = "sh -c 'echo one; exec sleep 1'"

[check]
command = "echo ok"
"#;
    let late = r#"
import socket, time
time.sleep(1)
listener = socket.create_server(("", 9000))
print("ready", flush=True)
while True:
    listener.accept()[0].close()
"#;
    let needs = r#"
import socket, time
socket.create_connection(("a", 9000), timeout=1).close()
print("ready", flush=True)
time.sleep(1000)
"#;
    let plan = fault("{ lines = 1 }", "kill", "on = \"all\"");
    let files = [("late.py", late), ("needs.py", needs)];
    let (_, result) = run(cluster, &plan, &files);
    assert_eq!(result["verdict"], "ok", "{result:#}");
}

/// Begins and ends operations as fast as it can, and says with each line when that began, and when the line
/// before it was out.
const WORKS: &str = r#"
import json, time
end = time.monotonic() + 4
before = 0.0
while time.monotonic() < end:
    for kind in ["invoke", "ok"]:
        line = {"type": kind, "process": 0, "f": "read", "key": "k", "value": None}
        print(json.dumps(line | {"at": time.monotonic(), "before": before}), flush=True)
        before = time.monotonic()
        time.sleep(0.001)
"#;

/// By how much, in seconds, an answer seems to have come before a call that was out before the answer
/// began, and of how many lines; and whether times go back.
fn misplaced(history: &str) -> (f64, usize, bool) {
    let lines = history
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"));
    let lines: Vec<Value> = lines.collect();
    let goes_back = |two: &[Value]| two[0]["time"].as_u64() > two[1]["time"].as_u64();
    let goes_back = lines[1..].windows(2).any(goes_back);
    let lines: Vec<_> = lines.iter().filter(|line| line["at"].is_f64()).collect();
    let seconds = |line: &Value, what: &str| line[what].as_f64().expect("seconds");
    let (mut answered, mut early) = (0.0_f64, 0.0_f64);
    for (place, line) in lines.iter().enumerate() {
        if line["type"] == "ok" {
            answered = answered.max(seconds(line, "at"));
            continue;
        }
        let mut later = lines[place + 1..].iter();
        if let Some(next) = later.find(|next| next["process"] == line["process"]) {
            early = early.max(answered - seconds(next, "before"));
        }
    }
    (early, lines.len(), goes_back)
}

/// A power loss takes longer than many operations of these clients.
#[test]
fn what_clients_do_while_a_fault_is_put_in_place_is_in_its_order() {
    let client = |name: &str| {
        format!("[[clients]]\nname = \"{name}\"\ncommand = \"python3 {{here}}/works.py\"\n")
    };
    let cluster = TWO.replace(
        "[client]\ncommand = \"sh -c 'echo one; exec sleep 3'\"\n",
        &format!("{}{}", client("first"), client("second")),
    );
    let loss = "on = \"all\"\nuntil = { after_s = 0.3 }";
    let plan = ["{ time_s = 0.5 }", "{ time_s = 1.5 }", "{ time_s = 2.5 }"]
        .map(|at| fault(at, "power-loss", loss));
    let files = [("ticks.py", TICKS), ("works.py", WORKS)];
    let with_disk = format!("disk = \"ext4\"\n{cluster}");
    // What is wrong with the order is so in each run. A processor that the host takes away for a while,
    // from whoever reads and not from who writes, is not.
    let ran = || {
        let (folder, result) = run(&with_disk, &plan.concat(), &files);
        assert_eq!(result["verdict"], "ok", "{result:#}");
        let (early, count, goes_back) = misplaced(&folder.read("out/runs/1/history.jsonl"));
        println!("{count} lines, {:.1} ms", early * 1e3);
        assert!(count > 100 && !goes_back, "{count} lines");
        early
    };
    // Two clients, and the time of a look at their lines.
    assert!((0..3).any(|_| ran() < 0.005));
}
