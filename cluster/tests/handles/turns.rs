//! Nodes that are started before others.

use cluster::{Result, Settings, Spawn, Turns};

use crate::Test;
use crate::lab::Lab;

pub(crate) const TESTS: &[Test] = &[
    (
        "first_nodes_are_ready_before_others_are_started",
        ready_first,
    ),
    (
        "who_cannot_be_ready_alone_is_neither_waited_for_for_ever_nor_late",
        alone,
    ),
    (
        "a_node_that_is_after_another_stays_so_whatever_the_turns",
        after,
    ),
    ("first_nodes_are_alone_as_long_as_the_file_says", as_long),
];

/// Nodes that write down when they were started, and are ready some time later.
const NODES: &str = r#"
    [[nodes]]
    names = ["a", "b", "c"]
    command = "sh -c 'date +%s%N >>starts; sleep 0.2; date +%s%N >>ends; echo ready; sleep 600'"
    ready = { log = "ready" }
"#;

impl Lab {
    fn start_in_turns(&mut self, first: &[usize], later: &[usize]) -> Result<()> {
        self.cluster.start(&mut Settings {
            directories: &self.directories,
            first: false,
            turns: Some(Turns { first, later }),
            starter: &mut Spawn,
            cancelled: &|| false,
        })
    }

    /// The time in the last line of a file of a node, in nanoseconds.
    fn time(&self, node: usize, name: &str) -> u64 {
        let text = self.read(node, name);
        let last = text.lines().last().expect("a line");
        last.parse().expect("a time")
    }
}

fn ready_first() {
    let mut lab = Lab::new(NODES);
    for (first, later) in [(vec![1], vec![0, 2]), (vec![2, 0], vec![1])] {
        lab.start_in_turns(&first, &later).expect("ready");
        let was_ready = first.iter().map(|node| lab.time(*node, "ends")).max();
        for node in &later {
            assert!(
                Some(lab.time(*node, "starts")) > was_ready,
                "{first:?} {node}"
            );
        }
    }
    // Who is neither first nor later waits for nobody.
    lab.start_in_turns(&[1], &[0]).expect("ready");
    assert!(lab.time(2, "starts") < lab.time(1, "ends"));
}

fn alone() {
    // It takes longer to be ready than it may, and than the others wait.
    let slow = NODES.replace("sleep 0.2", "sleep 1.5") + "ready_within_s = 1.4\n";
    let mut lab = Lab::new(&slow);
    let started = lab.start_in_turns(&[0], &[1, 2]);
    // The others have no more time than ever.
    let said = started.expect_err("b and c are late").to_string();
    assert!(said.contains("node b") || said.contains("node c"), "{said}");
    assert!(lab.time(1, "starts") < lab.time(0, "ends"));
}

fn after() {
    let text = NODES.replace("\"a\", \"b\", \"c\"", "\"a\", \"b\"")
        + &NODES.replace(
            "names = [\"a\", \"b\", \"c\"]",
            "name = \"c\"\n    after = [\"a\"]",
        );
    let mut lab = Lab::new(&text);
    lab.start_in_turns(&[2], &[0, 1]).expect("ready");
    assert!(lab.time(2, "starts") > lab.time(0, "ends"));
}

fn as_long() {
    let long = format!("first_alone_s = 0.9\n{NODES}");
    let mut lab = Lab::new(&long);
    lab.start_in_turns(&[1], &[0, 2]).expect("ready");
    let before = lab.time(0, "starts") - lab.time(1, "starts");
    assert!(before > 800_000_000, "{before} ns");
}
