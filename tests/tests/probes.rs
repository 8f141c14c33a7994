//! Probes that need no command: nodes answer by HTTP what they are, or log it. Needs root.

use std::process::Output;

use end_to_end::{Folder, Ordinary, elects_cluster, objects, printed, require_root, said};
use serde_json::Value;

/// The leader is killed, and started again when another one has led for a while.
const KILL: &str = r#"
[[faults]]
at = { acknowledged = 20 }
fault = "kill"
on = "leader"
until = { changed = "leader", delay_s = 0.5 }

[[faults]]
at = { ended = true, delay_s = 1.0 }
fault = "heal"
"#;

/// As many values as a plan may wait for: what is committed changes with the term.
const HTTP: &str = r#"
[probe]
http = "http://{address}:7001/status"
role = "/status/role"
means = { leader = "leader", follower = "follower", candidate = "" }
term = "/status/term"
values = { committed = "/status/commit" }
roles = ["leader", "follower"]
"#;

const LOG: &str = r#"
[probe]
roles = ["leader", "follower"]

[[probe.log]]
role = "leader"
line = 'it is leader at term (?P<term>\d+)'

[[probe.log]]
role = "follower"
line = 'it is follower at term (?P<term>\d+)'

[[probe.log]]
role = ""
line = "it is candidate"
"#;

/// The store, whose nodes do this in addition, with another probe, and with this in place of how one knows that
/// a node is ready.
fn cluster(does: &str, probe: &str, ready: &str) -> String {
    let text = elects_cluster("");
    let (before, rest) = text.split_once("[probe]").expect("it has one");
    let (_, after) = rest.split_once("[check]").expect("it comes after that");
    let text = format!("{before}{probe}\n[check]{after}");
    let text = text.replace("--number {number}", &format!("--number {{number}} {does}"));
    text.replace("ready = { log = \"ready\" }", ready)
}

fn by_http() -> String {
    let ready = "ready = { http = \"http://localhost:7001/status\" }";
    cluster("--status 7001", HTTP, ready)
}

fn by_log() -> String {
    cluster("--says-roles", LOG, "ready = { log = \"ready\" }")
}

/// What is said of a run in which the leader was killed, who is hit, and who leads then in a later term.
fn assert_led(result: &Value) {
    assert_eq!(result["verdict"], "ok", "{result:#}");
    let hit = result["faults"][0]["on"][0].as_str().expect("a node");
    let events = result["events"].as_array().expect("events");
    let role = |event: &Value, role: &str| event["event"] == "role" && event["role"] == role;
    let term = |event: &Value| -> u64 {
        let more = event["more"].as_str().expect("words");
        let term = more.split(' ').next().expect("a word");
        term.parse().unwrap_or_else(|_| panic!("{event:#}"))
    };
    let led = events.iter().filter(|event| role(event, "leader"));
    let led: Vec<_> = led
        .map(|event| (event["node"].as_str().expect("a node"), term(event)))
        .collect();
    let first = led.iter().find(|(node, _)| *node == hit).expect("it led");
    let other = led
        .iter()
        .find(|(node, term)| *node != hit && *term > first.1);
    assert!(other.is_some(), "{led:?}: {result:#}");
    // Who is started again is no leader by what it has logged in its life before.
    let placed = result["faults"][0]["placed_ns"].as_u64().expect("a time");
    let is_back = |event: &&Value| {
        role(event, "follower")
            && event["node"] == hit
            && event["time_ns"].as_u64().is_some_and(|time| time > placed)
    };
    assert!(events.iter().any(|event| is_back(&event)), "{result:#}");
}

fn in_namespaces(cluster: &str) -> Value {
    require_root();
    let folder = Folder::new(&[("cluster.toml", cluster), ("plan.toml", KILL)]);
    let words = [
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--format",
        "json",
    ];
    let output = folder.run(&words);
    let results = objects(&printed(&output));
    assert!(!results.is_empty(), "{}", said(&output));
    results[0].clone()
}

#[test]
fn nodes_that_answer_by_http_are_ready_and_have_the_roles_that_they_say() {
    let result = in_namespaces(&by_http());
    assert_led(&result);
    let events = result["events"].to_string();
    assert!(events.contains(" committed="), "{events}");
}

#[test]
fn nodes_have_the_roles_that_they_log() {
    assert_led(&in_namespaces(&by_log()));
}

/// The runs of a plan on simulated machines, by somebody who is not root.
fn simulated(cluster: &str, options: &[&str]) -> Output {
    let place = Ordinary::new();
    place.file("cluster.toml", cluster);
    place.file("plan.toml", KILL);
    let (path, kernel) = (place.on_path("elects"), place.simulation_kernel());
    let words = [
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--simulate",
    ];
    let words = [&words[..], &["--kernel", &kernel], options].concat();
    let mut command = place.crashpoint(&words);
    command.env("PATH", &path).output().expect("it runs")
}

/// What two runs with one seed have come to.
fn twice(cluster: &str) -> [Value; 2] {
    [(); 2].map(|()| {
        let output = simulated(cluster, &["--seed", "3", "--format", "json"]);
        let results = objects(&printed(&output));
        assert!(!results.is_empty(), "{}", said(&output));
        results[0].clone()
    })
}

#[test]
fn on_simulated_machines_nodes_are_asked_by_http_and_say_the_same_again() {
    let [first, second] = twice(&by_http());
    assert_led(&first);
    assert_eq!(first["events"], second["events"]);
}

#[test]
fn on_simulated_machines_nodes_have_the_roles_that_they_log_and_do_so_again() {
    let [first, second] = twice(&by_log());
    assert_led(&first);
    assert_eq!(first["events"], second["events"]);
}

#[test]
fn a_pointer_to_nothing_is_told_when_no_answer_comes() {
    let wrong = by_http().replace("/status/role", "/status/rol");
    let wrong = wrong.replace("[probe]", "[probe]\nevery_s = 5");
    let output = simulated(&wrong, &[]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    let words = "the probe gives no answer: a: http://10.77.0.1:7001/status answers 200 OK with nothing at \
                 /status/rol";
    assert!(told.contains(words), "{told}");
}

#[test]
fn what_is_wrong_with_a_probe_is_told_with_line_and_column_before_anything_runs() {
    let wrong = by_log().replace("(?P<term>", "(?P<term");
    let line = wrong
        .lines()
        .position(|line| line.contains("(?P<term\\"))
        .expect("there")
        + 1;
    let folder = Folder::new(&[("cluster.toml", &wrong), ("plan.toml", KILL)]);
    let output = folder.run(&["inject", "cluster.toml", "--plan", "plan.toml"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let told = said(&output);
    let words =
        format!("cluster.toml line {line}, column 8: probe: `it is leader at term (?P<term\\d+)`");
    assert!(
        told.contains(&words) && told.contains("is no regular expression"),
        "{told}"
    );
}
