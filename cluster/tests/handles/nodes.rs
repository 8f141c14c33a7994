//! Nodes: start, kill, power off, pause, restart, and their ends.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::{Ending, Spawn};
use nix::sys::signal::Signal;

use crate::Test;
use crate::lab::{Ends, Lab, PATIENCE, await_that, tests};

pub(crate) const TESTS: &[Test] = &[
    ("kill_of_one_node_leaves_the_others_as_they_are", kill),
    ("ends_are_told_with_their_status_and_once", ends),
    ("paused_nodes_do_nothing_and_go_on", pause),
    ("power_off_is_silent_and_a_kill_is_not", power_off),
];

/// Nodes that write what they do, and have a child that does too.
const TICKERS: &str = r#"
    [[nodes]]
    names = ["a", "b", "c"]
    command = """sh -c 'echo start $$ >>starts; (while :; do echo >>child; sleep 0.01; done) &
        echo ready; while :; do echo >>ticks; sleep 0.01; done'"""
    ready = { log = "ready" }
"#;

fn kill() {
    let mut lab = Lab::started(TICKERS);
    let ends = lab.cluster.ends();
    lab.start(false);
    let pids: Vec<_> = lab.cluster.nodes().iter().map(cluster::Node::pid).collect();
    lab.cluster.node(1).kill();
    let end = ends.recv_timeout(PATIENCE).expect("it ended");
    assert_eq!(
        (end.node, end.how, end.asked),
        (1, Ending::Signal(Signal::SIGKILL), true)
    );
    assert_eq!(
        lab.cluster.node(1).ended().expect("known"),
        None,
        "it was killed"
    );
    assert!(!lab.cluster.node(1).is_running().expect("known"));
    let left = [lab.read(1, "ticks"), lab.read(1, "child")];
    for other in [0, 2] {
        lab.await_growth(other, "ticks");
        lab.await_growth(other, "child");
        assert_eq!(lab.cluster.node(other).pid(), pids[other]);
    }
    lab.cluster.refuse_end().expect("no other has ended");
    assert_eq!([lab.read(1, "ticks"), lab.read(1, "child")], left);
    let starts = lab.read(1, "starts");

    lab.cluster.node(1).restart(&mut Spawn).expect("started");
    lab.cluster
        .node(1)
        .wait_until_ready(&|| false)
        .expect("ready");
    lab.await_growth(1, "child");
    let [ticks, _] = &left;
    assert!(
        lab.read(1, "ticks").starts_with(ticks),
        "its directory is as it was"
    );
    let again = lab.read(1, "starts");
    assert!(
        again.starts_with(&starts) && again.lines().count() == 3,
        "{again}"
    );
    let pids: Vec<_> = again.lines().collect();
    assert_ne!(
        pids[1], pids[2],
        "a number in a file of an earlier start is nobody's"
    );
    assert!(ends.try_recv().is_err(), "no other end was told");
}

fn ends() {
    let mut lab = Lab::new(
        r#"
        [[nodes]]
        name = "status"
        command = "sh -c 'echo ready; until test -e end; do sleep 0.01; done; exit 7'"
        ready = { log = "ready" }
        [[nodes]]
        name = "signal"
        command = "sh -c 'echo ready; until test -e end; do sleep 0.01; done; kill -SEGV $$'"
        ready = { log = "ready" }
        [[nodes]]
        name = "stopped"
        command = "sh -c 'echo ready; exec sleep 1000'"
        ready = { log = "ready" }
        "#,
    );
    let ends = lab.cluster.ends();
    lab.start(true);
    assert!(ends.try_recv().is_err(), "all run");
    let ways = [Ending::Status(7), Ending::Signal(Signal::SIGSEGV)];
    for (node, how) in ways.into_iter().enumerate() {
        fs::write(lab.directories[node].join("end"), "").expect("written");
        let end = ends.recv_timeout(PATIENCE).expect("it ended");
        assert_eq!((end.node, end.how, end.asked), (node, how, false));
        assert_eq!(lab.cluster.node(node).ended().expect("known"), Some(how));
    }
    let error = lab
        .cluster
        .refuse_end()
        .expect_err("two have ended")
        .to_string();
    assert!(
        error.contains("node status ended with status 7 by itself"),
        "{error}"
    );
    assert!(lab.cluster.stop(&|| false).expect("stopped").is_empty());
    let end = ends.recv_timeout(PATIENCE).expect("it ended");
    assert_eq!(
        (end.node, end.how, end.asked),
        (2, Ending::Signal(Signal::SIGTERM), true)
    );
    assert!(ends.try_recv().is_err(), "each end is told once");
}

fn pause() {
    let mut lab = Lab::started(
        r#"
        [[nodes]]
        name = "storm"
        command = "python3 {tests}/storm.py {dir}/ticks"
        ready = { log = "ready" }
        [[nodes]]
        name = "other"
        command = "sh -c 'echo ready; while :; do echo >>ticks; sleep 0.01; done'"
        ready = { log = "ready" }
        "#,
    );
    let mut times = Vec::new();
    for _ in 0..20 {
        lab.await_growth(0, "ticks");
        let begun = Instant::now();
        lab.cluster.node(0).pause().expect("paused");
        times.push(begun.elapsed());
        assert!(lab.cluster.node(0).is_paused());
        let states = lab.states(0);
        assert!(
            states.contains('T') && !states.contains(['R', 'S', 'D']),
            "{states}"
        );
        let before = lab.read(0, "ticks");
        lab.await_growth(1, "ticks");
        lab.await_growth(1, "ticks");
        assert_eq!(lab.read(0, "ticks").len(), before.len(), "nobody escaped");
        lab.cluster.node(0).resume().expect("it goes on");
    }
    lab.await_growth(0, "ticks");
    times.sort();
    println!(
        "paused within {:?}, at most {:?}",
        times[times.len() / 2],
        times[times.len() - 1]
    );
    lab.cluster.node(0).pause().expect("paused");
    lab.cluster.node(0).kill();
    lab.cluster.node(0).restart(&mut Spawn).expect("started");
    assert!(!lab.cluster.node(0).is_paused());
    lab.await_growth(0, "ticks");
}

fn power_off() {
    let mut lab = Lab::started(
        r#"
        [[nodes]]
        names = ["a", "b"]
        command = "python3 {tests}/peer.py {dir}/arrivals"
        ready = { log = "ready" }
        "#,
    );
    let talk = |lab: &Lab, node: &str, name: &str| {
        let script = tests().join("talk.py").display().to_string();
        let words = ["python3", &script, node].map(str::to_owned);
        let said = lab.folder.path().join(name);
        let mut command = lab.cluster.client(0).command(&words);
        command
            .stdout(fs::File::create(&said).expect("made"))
            .stderr(Stdio::inherit());
        (Ends(command.spawn().expect("started")), said)
    };
    let has = |path: &std::path::Path, what: &str| {
        fs::read_to_string(path)
            .expect("read")
            .lines()
            .any(|line| line.starts_with(what))
    };
    let (first, to_a) = talk(&lab, "a", "to-a");
    let (second, to_b) = talk(&lab, "b", "to-b");
    await_that("both answer", || has(&to_a, "heard") && has(&to_b, "heard"));
    lab.cluster.node(0).kill();
    await_that("whoever talked to a learns of its end", || has(&to_a, "e"));
    lab.cluster.node(1).power_off().expect("off");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!has(&to_b, "e"), "whoever talked to b waits");
    lab.cluster.node(1).restart(&mut Spawn).expect("started");
    lab.cluster
        .node(1)
        .wait_until_ready(&|| false)
        .expect("ready");
    // Whoever sends next gets to know it, and whoever listens sees an end.
    await_that("b knows nothing of it any more", || has(&to_b, "e"));
    let (third, again) = talk(&lab, "b", "again");
    await_that("b is there again", || has(&again, "heard"));
    drop([first, second, third]);
}
