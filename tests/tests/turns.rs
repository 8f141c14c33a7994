//! Clients that take turns, on both sides of a partition: a write on one side, then a read on the other one.
//! Needs root, to be somebody else and for namespaces.

use std::process::Output;

use end_to_end::{Ordinary, crashpoint, elects_cluster, printed, require_root, said, search_path};
use serde_json::Value;

/// The leader is cut off until another one has led for a while.
const PLAN: &str = r#"
[[faults]]
at = { acknowledged = 20 }
fault = "partition"
on = "leader"
until = { changed = "leader", delay_s = 3.0 }

[[faults]]
at = { ended = true, delay_s = 1.0 }
fault = "heal"
"#;

/// The store that elects its leader, with a mistake or none, and three clients: one writes to a key where the
/// majority is, then the next one reads it on the other side, and the last one where it was written.
fn cluster(mistake: &str) -> String {
    let text = elects_cluster(mistake);
    let (nodes, rest) = text.split_once("[[clients]]").expect("it has clients");
    let (_, probe) = rest.split_once("[probe]").expect("it has a probe");
    let (probe, _) = probe.split_once("[check]").expect("it has a check");
    format!(
        r#"turns = ["writes", "reads", "looks"]
{nodes}
[[clients]]
name = "writes"
command = "elects client --turns write"
side = "others"
endless = true

[[clients]]
name = "reads"
command = "elects client --turns read --client 1"
side = "isolated"
endless = true

[[clients]]
name = "looks"
command = "elects client --turns read --client 2"
side = "others"
endless = true

[probe]{probe}
[[histories]]
model = "map"
"#
    )
}

/// Each operation comes after the one before it was answered, and all in the order of the turns.
fn assert_in_turns(history: &str) {
    let (mut open, mut order) = (None, Vec::new());
    for line in history.lines() {
        let line: Value = serde_json::from_str(line).expect("an object");
        // Soon after that clients are asked to end, in the midst of what they do.
        if line["f"] == "heal" {
            break;
        }
        if line["type"] == "history" || line["process"] == "nemesis" {
            continue;
        }
        let process = Some(line["process"].clone());
        if line["type"] == "invoke" {
            assert_eq!(open, None, "{line}: {history}");
            open = process;
            order.push(line["f"].clone());
        } else {
            assert_eq!(open.take(), process, "{line}: {history}");
        }
    }
    assert!(order.len() > 40, "{history}");
    for (place, f) in order.iter().enumerate() {
        assert_eq!(
            *f,
            ["write", "read", "read"][place % 3],
            "{place}: {history}"
        );
    }
}

fn assert_status(output: &Output, status: i32) {
    let words = format!("{}{}", printed(output), said(output));
    assert_eq!(output.status.code(), Some(status), "{words}");
}

/// What a deposed leader answers that does not ask whether it still leads.
const STALE: &str = "stale-read of k0-0";

#[test]
fn a_read_behind_a_write_on_the_other_side_shows_a_deposed_leader_in_the_first_run() {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    for (name, text) in [
        ("cluster.toml", cluster("deposed-reads").as_str()),
        ("plan.toml", PLAN),
    ] {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let mut command = crashpoint();
    command
        .current_dir(folder.path())
        .env("PATH", search_path());
    let words = [
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--out",
        "out",
    ];
    let output = command.args(words).output().expect("it runs");
    assert_status(&output, 1);
    assert!(printed(&output).contains(STALE), "{}", printed(&output));
    let history = std::fs::read_to_string(folder.path().join("out/runs/1/history.jsonl"));
    assert_in_turns(&history.expect("kept"));
}

/// Runs the plan on simulated machines, and expects an exit status. What is told, and the history.
fn simulated(mistake: &str, times: usize, status: i32) -> Vec<(String, String)> {
    let place = Ordinary::new();
    place.file("cluster.toml", &cluster(mistake));
    place.file("plan.toml", PLAN);
    place.shared("out");
    let (path, kernel) = (place.on_path("elects"), place.simulation_kernel());
    let one = |time: usize| {
        let out = format!("out/{time}");
        let words = ["inject", "cluster.toml", "--plan", "plan.toml", "--out"];
        let how = [&out, "--simulate", "--kernel", &kernel];
        let mut command = place.crashpoint(&[&words[..], &how].concat());
        let output = command.env("PATH", &path).output().expect("it runs");
        assert_status(&output, status);
        let history = std::fs::read_to_string(place.path(&format!("{out}/runs/1/history.jsonl")));
        (printed(&output), history.expect("kept"))
    };
    (0..times).map(one).collect()
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn turns_on_simulated_machines_show_it_too_and_are_the_same_again_to_the_byte() {
    let runs = simulated("deposed-reads", 2, 1);
    for (told, history) in &runs {
        assert!(told.contains(STALE), "{told}");
        assert_in_turns(history);
    }
    assert_eq!(runs[0].1, runs[1].1);
    let clean = simulated("", 1, 0);
    assert_in_turns(&clean[0].1);
}
