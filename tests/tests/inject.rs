//! Faults from a plan, in clusters of real programs: what is lost by which fault, and what a plan that
//! cannot be is answered. Needs root, redis and Python.

use std::process::Output;

use end_to_end::{Folder, crashpoint, etcd_13766, objects, pages, printed, require_root, said};
use serde_json::Value;

/// The client and the check of all clusters.
const KV: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/clusters/kv.py");

fn folder(cluster: &str) -> Folder {
    Folder::new(&[("cluster.toml", cluster)])
}

/// Injects the faults of a plan, which leaves no temporary files.
fn inject(folder: &Folder, plan: &str, arguments: &[&str]) -> Output {
    folder.write("plan.toml", plan);
    let inject = ["inject", "cluster.toml", "--plan", "plan.toml"];
    let output = folder.run(&[&inject[..], arguments].concat());
    let left = folder.left();
    assert!(left.is_empty(), "{left:?}");
    output
}

/// What a plan that cannot be is answered, in one line, without its path.
fn refused(folder: &Folder, plan: &str) -> String {
    let output = inject(folder, plan, &[]);
    let words = said(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    let rest = words.strip_prefix("error: plan.toml:");
    rest.unwrap_or_else(|| panic!("{words}"))
        .trim_end()
        .to_owned()
}

/// The results of runs that are printed as objects.
fn runs(folder: &Folder, plan: &str, arguments: &[&str]) -> (i32, Vec<Value>) {
    let output = inject(folder, plan, &[&["--format", "json"], arguments].concat());
    let status = output.status.code().expect("it ends by itself");
    assert_ne!(status, 2, "{}", said(&output));
    (status, objects(&printed(&output)))
}

/// One redis that syncs its log as `appendfsync` says, on a recorded disk.
fn redis(appendfsync: &str) -> Folder {
    folder(&format!(
        r#"
disk = "ext4"
[[nodes]]
name = "a"
command = "redis-server {{dir}}/redis.conf"
ready = {{ log = "Ready to accept connections" }}
stop = "SIGKILL"
[nodes.files]
"redis.conf" = """
bind 0.0.0.0
protected-mode no
dir {{dir}}
appendonly yes
appendfsync {appendfsync}
save ""
"""
[client]
command = "env KV_REPLICAS=0 python3 {KV} redis write 20"
[check]
command = "env KV_REPLICAS=0 python3 {KV} redis serve"
serve = true
"#
    ))
}

/// The client prints two lines for each write: all are done then.
fn after_all_writes(fault: &str) -> String {
    format!("[[faults]]\nat = {{ lines = 40 }}\nfault = \"{fault}\"\non = \"a\"\n")
}

#[test]
fn what_was_not_synced_survives_a_kill_and_not_a_power_loss() {
    let forgets = redis("no");
    let (status, killed) = runs(&forgets, &after_all_writes("kill"), &[]);
    assert_eq!(status, 0, "{killed:?}");
    assert_eq!(killed[0]["verdict"], "ok", "{killed:?}");
    assert_eq!(killed[0]["faults"][0]["state"], "undone", "{killed:?}");
    let (status, lost) = runs(&forgets, &after_all_writes("power-loss"), &[]);
    assert_eq!(status, 1, "{lost:?}");
    let broken = lost[0]["broken"][0].as_str().expect("words");
    assert!(broken.contains("has lost it"), "{broken}");
    let syncs = redis("always");
    let (status, kept) = runs(&syncs, &after_all_writes("power-loss"), &[]);
    assert_eq!(status, 0, "{kept:?}");
}

/// Two nodes that have nothing on their disks any more as soon as they are ready, but for what their kernel
/// has in memory.
const WIPED: &str = r#"
disk = "ext4"
[[nodes]]
names = ["a", "b"]
command = "sh {here}/wipes.sh {dir}"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sleep 1"
[check]
command = "true"
"#;

const WIPES: &str = r#"
device=$(findmnt -no SOURCE --target "$1")
dd if=/dev/zero of="${device%%\[*}" bs=1M count=1 oflag=direct conv=notrunc,fsync
echo ready
exec sleep 1000
"#;

#[test]
fn a_disk_that_cannot_be_mounted_after_a_power_loss_is_a_finding_of_its_node() {
    let folder = folder(WIPED);
    folder.write("wipes.sh", WIPES);
    let plan = "[[faults]]\nat = { time_s = 0.2 }\nfault = \"power-loss\"\non = [\"a\", \"b\"]\n";
    let (status, results) = runs(&folder, plan, &[]);
    assert_eq!(status, 1, "{results:?}");
    let broken = results[0]["broken"].as_array().expect("a list");
    for (words, node) in broken.iter().zip(["a", "b"]) {
        let words = words.as_str().expect("words");
        let expected = format!("after everything was healed: node {node} cannot use its disk: ");
        assert!(words.starts_with(&expected), "{words}");
    }
    assert_eq!(broken.len(), 2, "{broken:?}");
}

#[test]
fn a_fault_that_never_happens_is_no_pass() {
    let folder = redis("always");
    let plan =
        "within_s = 0.1\n[[faults]]\nat = { log = \"never said\" }\nfault = \"kill\"\non = \"a\"\n";
    let (status, results) = runs(&folder, plan, &[]);
    assert_eq!(status, 3, "{results:?}");
    assert_eq!(results[0]["verdict"], "inconclusive");
    assert_eq!(results[0]["faults"][0]["state"], "never-fired");
    let why = results[0]["why"].as_str().expect("words");
    let expected = "fault 1 never happened: at { log = \"never said\" }";
    assert_eq!(why, expected);
    let ends = "until = { log = \"never said\" }\n";
    let plan = format!("within_s = 0.1\n{}{ends}", after_all_writes("kill"));
    let (status, results) = runs(&folder, &plan, &[]);
    assert_eq!(status, 3, "{results:?}");
    let why = results[0]["why"].as_str().expect("words");
    assert!(why.contains("its end never came: until { log = "), "{why}");
}

#[test]
fn a_heal_or_resume_has_ended_at_once() {
    let folder = redis("always");
    for ends in ["heal", "resume"] {
        let on = if ends == "resume" { "on = \"a\"\n" } else { "" };
        let next = format!(
            "[[faults]]\nat = {{ after_s = 0.1 }}\nfault = \"{ends}\"\n{on}\
             [[faults]]\nat = {{ ended = true }}\nfault = \"kill\"\non = \"a\"\n"
        );
        let (status, results) = runs(&folder, &(after_all_writes("pause") + &next), &[]);
        assert_eq!(status, 0, "{ends}: {results:?}");
        assert_eq!(results[0]["faults"][2]["state"], "undone", "{results:?}");
    }
}

#[test]
fn a_client_that_dies_before_the_first_fault_is_no_pass() {
    let folder = redis("always");
    let cluster = folder.read("cluster.toml");
    let dies = cluster.replace(&format!("python3 {KV} redis write 20"), "sh -c 'exit 7'");
    folder.write("cluster.toml", &dies);
    let (status, results) = runs(&folder, &after_all_writes("kill"), &[]);
    assert_eq!(status, 3, "{results:?}");
    let why = results[0]["why"].as_str().expect("words");
    let expected = "client client ended with status 7 before there was a fault";
    assert!(why.contains(expected), "{why}");
}

/// Its last look takes two seconds: with one it is killed before, and the check misses the line.
#[test]
fn a_client_that_is_asked_to_end_has_as_long_as_its_file_says() {
    let ends_within = |seconds: u32| {
        folder(&format!(
            r#"
[[nodes]]
name = "a"
command = "sh -c 'echo ready; exec sleep 600'"
ready = {{ log = "ready" }}
stop = "SIGKILL"
[[clients]]
name = "looks"
command = "bash {{here}}/looks"
endless = true
ends_within_s = {seconds}
[check]
command = "sh -c 'grep -q looked {{acks}} && echo ok || echo broken nobody looked'"
"#
        ))
    };
    let looks =
        "trap 'sleep 2; echo looked; exit 0' TERM\nwhile :; do echo works; sleep 0.1; done\n";
    let plan = "[[faults]]\nat = { acknowledged = 2 }\nfault = \"restart\"\non = \"a\"\n";
    for (seconds, verdict) in [(1, "broken"), (60, "ok")] {
        let folder = ends_within(seconds);
        folder.write("looks", looks);
        let (_, results) = runs(&folder, plan, &[]);
        assert_eq!(results[0]["verdict"], verdict, "{results:?}");
    }
}

#[test]
fn a_plan_that_cannot_be_is_refused_with_line_and_column() {
    let folder = redis("always");
    let with = |line: &str| {
        let plan = "[[faults]]\nat = { lines = 3 }\nfault = \"kill\"\non = \"a\"\n";
        let key = line.split(' ').next().expect("a word");
        let kept = plan.lines().filter(|old| !old.starts_with(key));
        let kept: Vec<_> = kept.collect();
        refused(&folder, &format!("{}\n{line}\n", kept.join("\n")))
    };
    let place = |words: String, place: &str, expected: &str| {
        assert!(
            words.starts_with(place) && words.contains(expected),
            "{words}"
        );
    };
    place(
        with("on = \"b\""),
        "4:6: ",
        "there is no node or role `b`: the nodes are a",
    );
    place(with("on = []"), "4:6: ", "nobody is named here");
    place(with("fault = \"kil\""), "4:9: ", "unknown variant `kil`");
    place(
        with("untill = { after_s = 1 }"),
        "5:1: ",
        "unknown field `untill`",
    );
    place(with("at = { lines = 0 }"), "4:6: ", "0 is never reached");
    place(
        with("at = { after_s = 1.0 }"),
        "4:6: ",
        "no fault before the first one",
    );
    place(
        with("at = { lines = 1, log = \"x\" }"),
        "4:6: ",
        "one thing is waited for",
    );
    place(with("at = { }"), "4:6: ", "what is waited for");
    place(
        with("at = { role = \"x\" }"),
        "4:15: ",
        "the cluster file has no [probe]",
    );
    place(
        with("at = { lines = 1, client = \"x\" }"),
        "4:28: ",
        "there is no client `x`",
    );
    place(
        with("at = { log = \"x\", node = \"z\" }"),
        "4:26: ",
        "there is no node `z`",
    );
    place(with("keeps = \"flushed\""), "5:9: ", "only for power-loss");
    place(
        with("at = { time_s = -1.0 }"),
        "4:6: ",
        "-1 is no number of seconds",
    );
    place(refused(&folder, "faults = [\n"), "1:1", "");
    let cluster = folder.read("cluster.toml");
    let without = cluster.replace("disk = \"ext4\"", "");
    folder.write("cluster.toml", &without);
    place(
        with("fault = \"power-loss\""),
        "4:9: ",
        "put disk = \"ext4\"",
    );
}

/// What shows that a campaign goes on where it was stopped, and what its findings are.
#[test]
fn a_campaign_is_continued_shown_and_its_runs_are_made_again() {
    let folder = redis("no");
    let plan = after_all_writes("power-loss");
    let (status, first) = runs(
        &folder,
        &plan,
        &["--repeat", "2", "--stop-after", "1", "--out", "out"],
    );
    assert_eq!((status, first.len()), (1, 1), "{first:?}");
    let run = |status, arguments: &[&str]| {
        let output = folder.ends(status, arguments);
        printed(&output) + &said(&output)
    };
    let told = run(1, &["show", "out"]);
    assert!(told.contains("it has not ended: continue with: "), "{told}");
    assert!(told.contains("alike         no other run"), "{told}");
    let told = run(1, &["inject", "--resume", "out"]);
    assert!(
        told.contains("2 broken of 2 runs, 0 inconclusive"),
        "{told}"
    );
    assert!(!told.contains("run 1: "), "it is known already: {told}");
    let told = run(1, &["show", "out"]);
    assert!(told.contains("alike         runs 1, 2"), "{told}");
    let told = run(1, &["show", "out", "2"]);
    assert!(told.contains("fault = \"power-loss\""), "{told}");
    let lines = folder.read("out/runs/2/acknowledgements");
    assert_eq!(lines.lines().count(), 40);
    let told = run(1, &["replay", "out", "2"]);
    assert!(told.ends_with("it broke the same again\n"), "{told}");
    let told = run(2, &["show", "out", "3"]);
    assert!(told.contains("there is no run 3: the last is 2"), "{told}");
}

/// A node that sends back what it gets, and a client that asks the other node again and again, and
/// says how many milliseconds each answer took.
const ECHO: &str = r#"
[[nodes]]
names = ["a", "b"]
command = """python3 -c "
import socket, threading
listener = socket.create_server(('', 9000))
def echo(connection):
    while data := connection.recv(100):
        connection.sendall(data)
print('ready', flush=True)
while True:
    threading.Thread(target=echo, args=listener.accept()[:1], daemon=True).start()
" """
ready = { log = "ready" }
data = false

[[clients]]
name = "asks"
side = "isolated"
command = """python3 -c "
import socket, time
peer = socket.create_connection(('b', 9000))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
end = time.monotonic() + 5
while time.monotonic() < end:
    begun = time.monotonic()
    peer.sendall(b'x')
    peer.recv(1)
    print(round((time.monotonic() - begun) * 1000), flush=True)
    time.sleep(0.01)
" """

[check]
command = "echo ok"
"#;

#[test]
fn a_link_is_slower_by_what_the_plan_says_while_the_fault_lasts() {
    let folder = folder(ECHO);
    let plan = r#"
[[faults]]
at = { acknowledged = 20 }
fault = "link"
on = "a"
latency_s = 0.25
flow = "in"
until = { after_s = 2.0 }
"#;
    let (status, results) = runs(&folder, plan, &["--out", "out"]);
    assert_eq!(status, 0, "{results:?}");
    assert_eq!(results[0]["faults"][0]["state"], "undone", "{results:?}");
    let said = folder.read("out/runs/1/acknowledgements");
    let took_ms: Vec<u64> = said
        .lines()
        .map(|ms| ms.parse().expect("a number"))
        .collect();
    // An answer may be late on a busy machine, and is never early: some are at once, then there are some
    // in a row that are late, and then others at once again.
    let is_slow: Vec<_> = took_ms.iter().map(|ms| *ms >= 250).collect();
    let slow_at = is_slow.windows(3).position(|three| three == [true; 3]);
    let slow_at = slow_at.unwrap_or_else(|| panic!("{took_ms:?}"));
    assert!(is_slow[..slow_at].contains(&false), "{took_ms:?}");
    assert!(is_slow[slow_at..].contains(&false), "{took_ms:?}");
    let fault = &results[0]["faults"][0];
    let at = |when: &str| fault[when].as_u64().expect("a time");
    assert!(
        at("undone_ns") - at("placed_ns") >= 2_000_000_000,
        "{fault}"
    );
}

#[test]
#[ignore = "it takes a minute: make test-clusters"]
fn a_finding_of_two_faults_is_made_smaller() {
    let folder = redis("no");
    let restart = after_all_writes("restart");
    let loss = after_all_writes("power-loss").replace("lines = 40", "after_s = 0.5");
    let (status, _) = runs(&folder, &(restart + &loss), &["--out", "out"]);
    assert_eq!(status, 1);
    // Without the restart there is no fault before the first one: both are needed as they are.
    let told = printed(&folder.ends(1, &["minimize", "out", "1"]));
    assert!(told.starts_with("2 faults down to "), "{told}");
}

/// The server that leads is isolated with a client: what it acknowledges from then on is lost when it
/// follows the server that the sentinels have chosen.
#[test]
#[ignore = "it takes minutes: make test-clusters"]
fn an_isolated_redis_acknowledges_what_is_lost_after_the_heal() {
    require_root();
    let here = |path: &str| format!("{}/../workloads/{path}", env!("CARGO_MANIFEST_DIR"));
    let mut command = crashpoint();
    command.args([
        "inject",
        &here("clusters/redis-sentinel/cluster.toml"),
        "--plan",
    ]);
    command.args([&here("plans/redis-split-brain.toml"), "--repeat", "10"]);
    let output = command.output().expect("it runs");
    let told = printed(&output);
    assert!(
        told.contains("\n10 broken of 10 runs, 0 inconclusive\n"),
        "{told}"
    );
}

/// What clients saw is judged: reads that ask nobody else are of the past on the cut off side, which etcd's
/// own reads are not.
#[test]
#[ignore = "it takes minutes, and etcd: make test-clusters"]
fn etcd_answers_no_stale_reads_in_a_partition_unless_it_is_asked_for_them() {
    require_root();
    let cluster = include_str!("../../workloads/clusters/etcd/cluster.toml");
    let cluster = cluster.replace("{here}/../kv.py", KV);
    let plan = include_str!("../../workloads/plans/etcd-leader.toml");
    let (_, results) = runs(&folder(&cluster), plan, &["--repeat", "5"]);
    // A busy machine may not know in time who leads: that is no pass, and no finding.
    let count = |verdict: &str| {
        let verdicts = results.iter().filter(|result| result["verdict"] == verdict);
        verdicts.count()
    };
    assert!(count("broken") == 0 && count("ok") > 0, "{results:?}");
    let asks_nobody = format!("env KV_SERIALIZABLE=1 KV_KEYS=2 python3 {KV} etcd mix");
    let cluster = cluster.replace(&format!("python3 {KV} etcd mix"), &asks_nobody);
    let stop = ["--repeat", "10", "--stop-after", "1"];
    let (status, results) = runs(&folder(&cluster), plan, &stop);
    assert_eq!(status, 1, "{results:?}");
    let broken = results.last().expect("one")["broken"].to_string();
    // Where nobody read the newer value later, nothing tells an old read from a lost write.
    let kinds = ["stale-read of ", "write-lost of "];
    let kind = kinds.iter().find(|kind| broken.contains(*kind));
    println!("{kind:?} in run {}", results.len());
    assert!(kind.is_some(), "{broken}");
}

/// ZOOKEEPER-4882: what others commit while a follower's fdatasync is held, and then fails, is in its
/// memory only when it follows again.
#[test]
#[ignore = "it takes minutes: make test-clusters"]
fn a_zookeeper_server_lacks_what_was_committed_while_its_fdatasync_was_held_and_failed() {
    require_root();
    let here = |path: &str| format!("{}/../workloads/{path}", env!("CARGO_MANIFEST_DIR"));
    let mut command = crashpoint();
    command.args(["inject", &here("clusters/zookeeper/cluster.toml"), "--plan"]);
    command.args([&here("plans/zookeeper-4882.toml"), "--repeat", "3"]);
    let output = command.output().expect("it runs");
    let told = printed(&output);
    assert!(
        told.contains("\n3 broken of 3 runs, 0 inconclusive\n"),
        "{told}"
    );
    assert!(told.contains("zk1 has lost it; "), "{told}");
}

/// A member that is cut off from the leader alone begins term after term, and what was acknowledged stays.
#[test]
#[ignore = "it takes a minute, and etcd: make test-clusters"]
fn terms_of_etcd_grow_in_a_partial_partition_and_nothing_is_lost() {
    require_root();
    let cluster = include_str!("../../workloads/clusters/etcd/cluster.toml");
    let folder = folder(&cluster.replace("{here}/../kv.py", KV));
    let plan = include_str!("../../workloads/plans/etcd-partial.toml");
    let (_, results) = runs(&folder, plan, &["--repeat", "3", "--out", "out"]);
    let mut terms = Vec::new();
    for (result, run) in results.iter().zip(1..) {
        assert_ne!(result["verdict"], "broken", "{result:#}");
        if result["verdict"] != "ok" {
            continue;
        }
        let logs = ["etcd1", "etcd2", "etcd3"].map(|node| {
            let path = folder.path(&format!("out/runs/{run}/logs/{node}.log"));
            std::fs::read_to_string(path).expect("read")
        });
        let candidates = logs
            .iter()
            .flat_map(|log| log.split("became candidate at term ").skip(1));
        let term = |text: &str| {
            text.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        };
        terms.push(candidates.filter_map(term).max().unwrap_or(0));
    }
    println!("terms: {terms:?}");
    assert!(terms.iter().any(|term| *term >= 10), "{terms:?}");
}

/// A member is killed between two commits of its database, while back-ups wait for one: its place in the
/// log is ahead of what it applied, for good.
#[test]
#[ignore = "it takes minutes, and Go: make test-clusters"]
fn a_member_of_etcd_3_5_2_that_is_killed_between_two_commits_differs_for_good() {
    require_root();
    let place = etcd_13766(&["3.5.2", "3.5.3"]);
    let told = |release: &str| {
        let mut command = crashpoint();
        command
            .arg("inject")
            .arg(place.path().join(release).join("cluster.toml"));
        let plan = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../workloads/plans/etcd-13766.toml"
        );
        command.args(["--plan", plan, "--repeat", "10"]);
        printed(&command.output().expect("it runs"))
    };
    let differs = told("3.5.2");
    let count = differs.matches("members differ: revisions ").count();
    println!("{count} of 10");
    // A put may come before all back-ups, three times in a run.
    assert!(count >= 5, "{differs}");
    let mended = told("3.5.3");
    assert!(mended.contains("\n0 broken of 10 runs, "), "{mended}");
    assert!(mended.contains(": ok\n"), "{mended}");
}

/// Says of each fsync what came of it.
const SYNCS: &str = r#"
import errno, os, sys
log = os.open(sys.argv[1] + "/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
print("boot", flush=True)
while True:
    os.write(log, b"a line\n")
    try:
        os.fsync(log)
        print("kept", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"#;

const SYNCING: &str = r#"
disk = "ext4"
[[nodes]]
names = ["a", "b", "c", "d"]
command = "python3 {here}/syncs.py {dir}"
ready = { log = "boot" }
stop = "SIGKILL"
[client]
command = "sleep 7"
[check]
command = "echo ok"
"#;

/// Half of the disks fail until the end of that, the others until their nodes lose their power.
const FAILING: &str = r#"
[[faults]]
at = { time_s = 0.7 }
fault = "disk"
on = ["a", "b"]
requests = ["writes", "flushes"]
until = { after_s = 1.5 }

[[faults]]
at = { after_s = 0 }
fault = "disk"
on = ["c", "d"]
requests = ["writes", "flushes"]

[[faults]]
at = { after_s = 1.5 }
fault = "power-loss"
on = ["c", "d"]
until = { after_s = 0.1 }
"#;

#[test]
fn wrong_writes_stay_on_a_disk_and_wrong_reads_leave_it_alone() {
    let folder = folder(pages::CLUSTER);
    folder.write("pages.py", pages::PROGRAM);
    let (status, results) = runs(&folder, pages::CORRUPT, &["--out", "out"]);
    assert_eq!(status, 0, "{results:?}");
    for fault in [0, 1] {
        assert_eq!(results[0]["faults"][fault]["calls"], 1, "{results:?}");
        assert_eq!(results[0]["faults"][fault]["state"], "undone");
    }
    pages::assert_corrupted(|node| folder.read(&format!("out/runs/1/logs/{node}.log")));
}

/// Neither a loss of power nor the end of the fault has a disk answer again before its node is dead: an
/// fsync that succeeds between the two keeps what is to be lost.
#[test]
fn a_disk_that_fails_does_so_until_the_power_is_off() {
    let folder = folder(SYNCING);
    folder.write("syncs.py", SYNCS);
    let (status, results) = runs(&folder, FAILING, &["--out", "out"]);
    assert_eq!(status, 0, "{results:?}");
    for node in ["a", "b", "c", "d"] {
        let log = folder.read(&format!("out/runs/1/logs/{node}.log"));
        let lives: Vec<_> = log.split("boot\n").skip(1).collect();
        let [first, second] = lives[..] else {
            panic!("{node}: {log}");
        };
        let (kept, failed) = first.split_once("EIO\n").expect("an fsync failed");
        assert!(
            kept.contains("kept\n") && second.contains("kept\n"),
            "{log}"
        );
        assert!(!failed.contains("kept\n"), "{node}: {first}");
    }
}
