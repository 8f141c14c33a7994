//! Disks: what a kill leaves and a power failure takes, and disks that lie, lag and fail.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use block_dev::{Answer, Behaviour, Completion, DiskRequest, Faulty};
use cluster::{Disk, Error, Spawn};
use local_fs::{Scratch, enter_mount_namespace};
use pace_rules::disk::{Disk as Keeping, Log, Relaxation};

use crate::Test;
use crate::lab::{Ends, Lab, PATIENCE};

pub(crate) const TESTS: &[Test] = &[
    (
        "stores_lose_in_a_power_failure_what_they_forgot_to_sync",
        forgotten,
    ),
    ("a_disk_that_drops_flushes_loses_what_was_synced", lying),
    ("a_lazy_disk_keeps_what_was_synced", lazy),
    ("failed_requests_are_errors_of_the_store", failing),
    ("power_failures_lose_what_is_selected_and_no_more", selected),
    ("a_slow_disk_delays_no_power_failure_and_no_end", slow),
    ("a_pause_waits_for_who_waits_for_the_disk", pause),
    (
        "one_nodes_power_failure_leaves_the_others_as_they_are",
        others,
    ),
];

/// Where disks are made: they go after the cluster that uses them.
struct Place {
    lab: Lab,
    scratch: Scratch,
}

impl Place {
    /// A store on each of two nodes, on ext4 of its own.
    fn new<B: Behaviour + 'static>(mode: &str, behaviour: impl Fn() -> B) -> Self {
        let text = r#"
            [[nodes]]
            names = ["a", "b"]
            command = "python3 {tests}/store.py {dir}/values MODE"
            ready = { log = "ready" }
        "#;
        let lab = Lab::new(&text.replace("MODE", mode));
        // The thread ends with the test.
        enter_mount_namespace().expect("root");
        let scratch = Scratch::new().expect("a directory");
        let mut place = Self { lab, scratch };
        for node in 0..2 {
            let directory = place
                .scratch
                .directory(&format!("disk-{node}"))
                .expect("made");
            let disk = Disk::new("ext4", &directory, behaviour()).expect("a disk");
            place.lab.directories[node] = disk.data();
            assert!(place.lab.cluster.node(node).set_disk(Some(disk)).is_none());
        }
        place.lab.start(true);
        for node in 0..2 {
            place.disk(node).begin().expect("durable");
        }
        place
    }

    fn disk(&mut self, node: usize) -> &mut Disk {
        self.lab.cluster.node(node).disk().expect("it has one")
    }

    /// What asks a node's store, and prints its answer.
    fn question(&self, node: usize, question: &str) -> Command {
        let script = "import socket, sys
c = socket.create_connection((sys.argv[1], 9000), 20)
c.sendall(sys.argv[2].encode() + b'\\n')
print(c.makefile().readline().strip())";
        let address = format!("10.77.0.{}", node + 1);
        let words = ["python3", "-c", script, &address, question].map(str::to_owned);
        self.lab.cluster.client(0).command(&words)
    }

    /// What a node's store answers.
    fn ask(&self, node: usize, question: &str) -> String {
        let mut command = self.question(node, question);
        let output = command.stderr(Stdio::inherit()).output().expect("asked");
        String::from_utf8(output.stdout)
            .expect("text")
            .trim()
            .to_owned()
    }

    fn restart(&mut self, node: usize) {
        let node = self.lab.cluster.node(node);
        node.restart(&mut Spawn).expect("started");
        node.wait_until_ready(&|| false).expect("ready");
    }

    /// What a store has after a kill.
    fn after_kill(&mut self, node: usize) -> String {
        self.lab.cluster.node(node).kill();
        self.restart(node);
        self.ask(node, "all")
    }

    /// What it has after a power failure.
    fn after_power_cut(&mut self, node: usize, select: fn(&Log) -> Relaxation) -> String {
        let cut = self.lab.cluster.node(node).power_cut(select).expect("cut");
        assert_eq!(cut.unmountable, None);
        self.restart(node);
        self.ask(node, "all")
    }
}

/// The disk loses all that no flush covered.
fn cache(_: &Log) -> Relaxation {
    Relaxation::Flushed
}

fn forgotten() {
    for (mode, left) in [("forget", ""), ("sync", "one two")] {
        let mut place = Place::new(mode, || Keeping::Honest);
        assert_eq!(place.ask(0, "put one"), "ok");
        assert_eq!(place.ask(0, "put two"), "ok");
        assert_eq!(
            place.after_kill(0),
            "one two",
            "{mode}: a kill takes nothing"
        );
        assert_eq!(place.after_power_cut(0, cache), left, "{mode}");
        // And once more, on what the first one left.
        assert_eq!(place.ask(0, "put three"), "ok");
        let left = format!("{left} three");
        assert_eq!(place.after_kill(0), left.trim());
        let expected = if mode == "sync" { left.trim() } else { "" };
        assert_eq!(place.after_power_cut(0, cache), expected, "{mode}");
    }
}

fn lying() {
    let mut place = Place::new("sync", || Keeping::DropFlush);
    assert_eq!(place.ask(0, "put one"), "ok");
    assert_eq!(place.after_kill(0), "one");
    assert_eq!(place.after_power_cut(0, cache), "");
    // From now on it is honest.
    place
        .disk(0)
        .set_behaviour(Keeping::Honest)
        .expect("changed");
    assert_eq!(place.ask(0, "put two"), "ok");
    assert_eq!(place.after_power_cut(0, cache), "two");
}

fn lazy() {
    let lazy = Completion::Lazy { seed: 1 };
    let mut place = Place::new("sync", || lazy);
    for value in 0..5 {
        assert_eq!(place.ask(0, &format!("put {value}")), "ok");
    }
    assert_eq!(place.after_power_cut(0, cache), "0 1 2 3 4");
    let at_once = Place::new("sync", || Keeping::Honest)
        .disk(0)
        .set_behaviour(lazy);
    let error = at_once.expect_err("it was not made for that").to_string();
    assert!(error.contains("answer late"), "{error}");
}

fn failing() {
    const EIO: &str = "error 5";
    let is_flush = |request| request == DiskRequest::Flush;
    let is_write = |request| matches!(request, DiskRequest::Write { .. });
    let is_read = |request| matches!(request, DiskRequest::Read { .. });
    // One flush: the file system takes no more, as its journal is not known any more to be there.
    let mut place = Place::new("sync", || Keeping::Honest);
    assert_eq!(place.ask(0, "put one"), "ok");
    let once = Faulty::new(Answer::Fail, 1, Keeping::Honest, Box::new(is_flush));
    place.disk(0).set_behaviour(once).expect("changed");
    assert_eq!(place.ask(0, "put two"), EIO, "the flush");
    assert_eq!(place.ask(1, "put one"), "ok", "the other disk is another");
    let left = place.after_power_cut(0, |_| Relaxation::Flushed);
    assert!(left.starts_with("one"), "{left}");
    // It was for once.
    assert_eq!(place.ask(0, "put three"), "ok");

    let failing = Faulty::failing(Keeping::Honest, is_write);
    place.disk(1).set_behaviour(failing).expect("changed");
    for _ in 0..2 {
        assert_ne!(place.ask(1, "put two"), "ok", "each write");
    }
    place
        .disk(1)
        .set_behaviour(Keeping::Honest)
        .expect("changed");
    assert_eq!(place.after_power_cut(1, |_| Relaxation::Prefix), "one");
    let failing = Faulty::failing(Keeping::Honest, is_read);
    place.disk(1).set_behaviour(failing).expect("changed");
    assert_eq!(
        place.ask(1, "all"),
        EIO,
        "a read of what is not in the cache"
    );
}

/// A store with a disk that takes so long for a flush, and somebody who waits for one.
fn waiting(time: Duration) -> (Place, Ends) {
    let mut place = Place::new("sync", || Keeping::Honest);
    let is_flush = |request| request == DiskRequest::Flush;
    let slow = place
        .disk(0)
        .answer_some(Answer::Slow(time), u64::MAX, Box::new(is_flush));
    slow.expect("changed");
    let mut asked = place.question(0, "put one");
    let asked = Ends(asked.stdout(Stdio::null()).spawn().expect("asked"));
    let deadline = Instant::now() + PATIENCE;
    while place.lab.states(0) != "D" {
        assert!(Instant::now() < deadline, "it waits for its fsync");
    }
    (place, asked)
}

fn slow() {
    let time = Duration::from_secs(600);
    let begun = Instant::now();
    let (mut place, _asked) = waiting(time);
    assert_eq!(place.after_power_cut(0, |_| Relaxation::Flushed), "");
    assert!(begun.elapsed() < time, "it waited for its disk");
    assert_eq!(place.ask(0, "put two"), "ok", "it is slow no more");
    let (place, _asked) = waiting(time);
    drop(place);
    assert!(begun.elapsed() < time, "the end waited for the disk");
}

fn pause() {
    let (mut place, mut asked) = waiting(Duration::from_millis(1500));
    place.lab.cluster.node(0).pause().expect("paused");
    assert_eq!(place.lab.states(0), "T");
    place.lab.cluster.node(0).resume().expect("it goes on");
    assert!(asked.0.wait().expect("answered").success());
    assert_eq!(place.ask(0, "all"), "one");
}

fn selected() {
    let mut place = Place::new("forget", || Keeping::Honest);
    assert_eq!(place.ask(0, "put one"), "ok");
    // What the disk was sent, it may keep.
    place.disk(0).begin().expect("durable");
    assert_eq!(place.ask(0, "put two"), "ok");
    let cut = place
        .lab
        .cluster
        .node(0)
        .power_cut(|_| Relaxation::Prefix)
        .expect("cut");
    assert!(cut.lost.is_empty() && cut.log.len() == cut.state.position);
    assert_eq!(cut.unmountable, None);
    place.restart(0);
    assert_eq!(
        place.ask(0, "all"),
        "one",
        "the kernel had not sent the other"
    );
    let error = place
        .lab
        .cluster
        .node(0)
        .power_cut(|_| Relaxation::Lost(vec![100_000]));
    assert!(matches!(error, Err(Error::Selection(_))));
    let mut plain = Lab::new("[[nodes]]\nname = \"a\"\ncommand = \"true\"");
    let error = plain
        .cluster
        .node(0)
        .power_cut(cache)
        .err()
        .expect("it has none");
    assert_eq!(error.to_string(), "node a has no disk of its own");
}

fn others() {
    let mut place = Place::new("forget", || Keeping::Honest);
    let pid = place.lab.cluster.node(1).pid();
    assert_eq!(
        [place.ask(0, "put one"), place.ask(1, "put one")],
        ["ok", "ok"]
    );
    assert_eq!(place.after_power_cut(0, cache), "");
    assert_eq!(place.ask(1, "all"), "one");
    assert_eq!(place.lab.cluster.node(1).pid(), pid);
    place.lab.cluster.refuse_end().expect("both run");
}
