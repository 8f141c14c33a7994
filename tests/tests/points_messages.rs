//! Messages between nodes as failure points: a mistake that shows only when one exact message is lost, on
//! both grounds. Needs root and Python.

use std::fs;
use std::process::Output;

use end_to_end::{Folder, Ordinary, objects, printed, said};
use serde_json::Value;

/// A leader and a follower. A value is prepared and then committed there; what is not committed in two
/// seconds is forgotten. The leader tries again until it knows that both have arrived, but for a mistake:
///
/// - early: it acknowledges what is prepared, and sends the second message without looking after it;
/// - closed: it takes a connection that was closed for the answer that the value was committed. The follower
///   closes none while the leader waits.
const NODE: &str = r"
import os, socket, sys, threading, time
role, directory, peer, mistake = sys.argv[1:5]

def serve(port, answer):
    listener = socket.create_server(('', port))
    def accept():
        while True:
            connection = listener.accept()[0]
            threading.Thread(target=answer, args=(connection,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()

def ask(connection, what):
    connection.sendall(what)
    return connection.recv(100)

def write(value):
    with open(directory + '/new', 'wb') as new:
        new.write(value)
        os.fsync(new.fileno())
    os.rename(directory + '/new', directory + '/value')
    above = os.open(directory, os.O_RDONLY)
    os.fsync(above)
    os.close(above)

def follow(connection):
    connection.settimeout(20 if mistake == 'closed' else 2)
    try:
        prepared = connection.recv(100)
        connection.sendall(b'prepared')
        if connection.recv(100) == b'commit':
            write(prepared)
            connection.sendall(b'committed')
            connection.recv(1)
    except OSError:
        pass
    connection.close()

def tell(connection):
    try:
        value = open(directory + '/value', 'rb').read()
    except FileNotFoundError:
        value = b'nothing'
    connection.sendall(value)
    connection.close()

def replicate(client, value):
    is_done = False
    try:
        with socket.create_connection((peer, 7000), 2) as follower:
            if ask(follower, value) != b'prepared':
                return False
            if mistake == 'early':
                client.sendall(b'done')
                is_done = True
            answer = ask(follower, b'commit')
            if mistake == 'closed' and answer == b'':
                answer = b'committed'
            if answer == b'committed' and not is_done:
                client.sendall(b'done')
                is_done = True
    except OSError:
        pass
    return is_done

def lead(client):
    value = client.recv(100)
    try:
        while not replicate(client, value):
            time.sleep(0.1)
    except OSError:
        pass
    client.close()

if role == 'leader':
    serve(9000, lead)
else:
    serve(7000, follow)
    serve(7001, tell)
print('ready', flush=True)
threading.Event().wait()
";

/// It waits before it sends: the fault is in place by then.
const CLIENT: &str = r"
import socket, sys, time
time.sleep(1)
try:
    with socket.create_connection((sys.argv[1], 9000), 30) as leader:
        leader.sendall(b'seven')
        if leader.recv(100) == b'done':
            print('seven', flush=True)
except OSError:
    pass
";

const CHECK: &str = r"
import socket, sys
with socket.create_connection((sys.argv[1], 7001), 30) as follower:
    value = follower.recv(100).decode()
acknowledged = open(sys.argv[2]).read().split()
if acknowledged and acknowledged != [value]:
    print('broken the follower has', value)
else:
    print('ok')
";

const CLUSTER: &str = r#"
[[nodes]]
name = "a"
data = false
command = "python3 -I {here}/node.py leader - {address:b} 'MISTAKE'"
ready = { log = "ready" }
stop = "SIGKILL"
[[nodes]]
name = "b"
command = "python3 -I {here}/node.py follower {dir} - 'MISTAKE'"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "python3 -I {here}/client.py {address:a}"
[check]
command = "python3 -I {here}/check.py {address:b} {acks}"
"#;

/// Both grounds, with what is laid out there.
enum Laid {
    Namespaces(Folder),
    Simulated(Ordinary, String),
}

impl Laid {
    fn files(mistake: &str) -> [(&'static str, String); 4] {
        [
            ("cluster.toml", CLUSTER.replace("MISTAKE", mistake)),
            ("node.py", NODE.to_owned()),
            ("client.py", CLIENT.to_owned()),
            ("check.py", CHECK.to_owned()),
        ]
    }

    fn in_namespaces(mistake: &str) -> Self {
        let folder = Folder::new(&[]);
        for (name, text) in Self::files(mistake) {
            folder.write(name, &text);
        }
        Self::Namespaces(folder)
    }

    fn simulated(mistake: &str) -> Self {
        let place = Ordinary::new();
        for (name, text) in Self::files(mistake) {
            place.file(name, &text);
        }
        place.shared("out");
        let kernel = place.simulation_kernel();
        Self::Simulated(place, kernel)
    }

    fn run(&self, words: &[&str]) -> Output {
        match self {
            Self::Namespaces(folder) => folder.run(words),
            Self::Simulated(place, _) => {
                let mut command = place.crashpoint(words);
                command.output().expect("it runs")
            }
        }
    }

    #[track_caller]
    fn ends(&self, status: i32, words: &[&str]) -> String {
        let output = self.run(words);
        let told = printed(&output);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{words:?}: {told}{}",
            said(&output)
        );
        told
    }

    /// The words of `crashpoint inject` on this ground.
    fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let begun = ["inject", "cluster.toml"];
        let how = match self {
            Self::Namespaces(_) => Vec::new(),
            Self::Simulated(_, kernel) => vec!["--simulate", "--seed", "7", "--kernel", kernel],
        };
        [&begun[..], more, &how].concat()
    }

    #[track_caller]
    fn inject(&self, status: i32, words: &[&str]) -> String {
        self.ends(status, &self.words(words))
    }

    fn injects(&self, words: &[&str]) -> Output {
        self.run(&self.words(words))
    }

    /// What came of each run.
    fn results(&self, out: &str) -> Vec<Value> {
        objects(&self.read(&format!("{out}/results.jsonl")))
    }

    fn write(&self, name: &str, text: &str) {
        match self {
            Self::Namespaces(folder) => folder.write(name, text),
            Self::Simulated(place, _) => drop(place.file(name, text)),
        }
    }

    fn read(&self, name: &str) -> String {
        match self {
            Self::Namespaces(folder) => folder.read(name),
            Self::Simulated(place, _) => fs::read_to_string(place.path(name)).expect("read"),
        }
    }

    /// Cuts the follower off from this message of the leader on.
    fn cut_at(&self, status: i32, nth: u64) -> String {
        let plan = format!(
            "within_s = 5\n[[faults]]\nat = {{ time_s = 0 }}\nfault = \"partition\"\non = \"a\"\nfrom = \"b\"\nflow = \"out\"\nwith_message = {{ nth = {nth}, from = \"a\", to = \"b\", to_port = 7000 }}\nuntil = {{ after_s = 3 }}\n"
        );
        self.write("plan.toml", &plan);
        self.inject(status, &["--plan", "plan.toml"])
    }

    /// The points at messages, in lines.
    fn points(&self) -> Vec<Value> {
        let words = ["--points", "--at", "messages", "--format", "json"];
        objects(&self.inject(0, &words))
    }
}

/// The second message is the one; with any other cut the leader tries again.
fn only_the_second_message_shows_it(laid: &Laid) {
    let text = laid.cut_at(1, 2);
    let words =
        "partition a -x> b with message 2 from a to b:7000: 5 bytes in 1 message had passed";
    assert!(text.contains(words), "{text}");
    assert!(text.contains("the follower has nothing"), "{text}");
    let text = laid.cut_at(0, 1);
    let words = "with message 1 from a to b:7000: 0 bytes in 0 messages had passed";
    assert!(text.contains(words), "{text}");
}

#[test]
#[ignore = "a busy machine sends messages again: make test-clusters"]
fn a_mistake_at_the_second_message_shows_when_it_is_cut_off_in_namespaces() {
    only_the_second_message_shows_it(&Laid::in_namespaces("early"));
}

#[test]
fn a_mistake_at_the_second_message_shows_when_it_is_cut_off_on_machines() {
    only_the_second_message_shows_it(&Laid::simulated("early"));
}

/// A sender loses its power at once when its message is lost, the end of one fault is not that of the
/// last one, and nobody is hit in the place of somebody whom a fault could not hit.
#[test]
fn faults_that_follow_at_once_are_of_one_moment_and_of_one_node() {
    let laid = Laid::simulated("");
    laid.write(
        "plan.toml",
        r#"
within_s = 5
[[faults]]
at = { time_s = 0 }
fault = "partition"
on = "b"
from = "a"
with_message = { nth = 1, from = "b", to = "a", from_port = 7000, to_port = "chosen" }
until = { after_s = 0.5 }
[[faults]]
at = { after_s = 0 }
fault = "power-loss"
on = "hit"
until = { after_s = 2 }
[[faults]]
at = { ended = true }
fault = "kill"
on = "b"
[[faults]]
at = { after_s = 0.2 }
fault = "pause"
on = "a"
until = { after_s = 0.1 }
[[faults]]
at = { after_s = 0.2 }
fault = "pause"
on = "b"
[[faults]]
at = { after_s = 0 }
fault = "kill"
on = "hit"
"#,
    );
    laid.injects(&["--plan", "plan.toml", "--out", "out/chain"]);
    let result = laid.results("out/chain").remove(0);
    let fault = |number: usize| &result["faults"][number - 1];
    let ns = |number, key: &str| fault(number)[key].as_u64().expect("a number");
    // All machines come to one instant for that, which takes the latency of a link.
    assert!(
        ns(2, "placed_ns") - ns(1, "placed_ns") < 1_000_000,
        "{result}"
    );
    assert_eq!(fault(2)["on"], serde_json::json!(["b"]));
    assert!(ns(1, "undone_ns") < ns(2, "undone_ns"), "{result}");
    assert!(ns(3, "placed_ns") >= ns(2, "undone_ns"), "{result}");
    assert_eq!(fault(4)["state"], "undone", "{result}");
    for number in [5, 6] {
        assert_eq!(fault(number)["state"], "not-injected", "{result}");
    }
}

/// Each point has one ID, whichever ground it is on. A busy host may have messages sent again.
#[test]
#[ignore = "a busy machine sends messages again: make test-clusters"]
fn the_same_message_is_the_same_failure_point_on_both_grounds() {
    let told = |points: &[Value]| -> Vec<_> {
        let keys = ["id", "from", "to", "from_port", "to_port"];
        let told = |point: &Value| keys.map(|key| point[key].to_string());
        let mut all: Vec<_> = points.iter().map(told).collect();
        all.sort();
        all
    };
    let (one, other) = (Laid::in_namespaces(""), Laid::simulated(""));
    let (here, there) = (one.points(), other.points());
    assert_eq!(told(&here), told(&there));
    let ports = |port: &str| {
        let of = |point: &&Value| point[port] == 7000;
        let of: Vec<_> = there.iter().filter(of).collect();
        assert_eq!(of.len(), 1, "{there:?}");
        of[0].clone()
    };
    let (to, from) = (ports("to_port"), ports("from_port"));
    assert!(
        to["from"] == "a" && to["to"] == "b" && to["times"] == 2,
        "{to}"
    );
    let pair = serde_json::json!({"from": "b", "to": "a", "times": 2});
    assert_eq!(from["by_pair"][0], pair, "{from}");
    let table = other.inject(0, &["--points", "--at", "all"]);
    assert!(
        table.contains(" cut both ways") && table.contains(" called by"),
        "{table}"
    );
    let table = other.inject(0, &["--points"]);
    assert!(!table.contains(" cut both ways"), "{table}");
}

/// Every failure at every message. Of those that cut something off and kill nobody only those at the
/// second message show the mistake, and they come again.
fn it_is_found(laid: &Laid) {
    let words = [
        "--strategy",
        "exhaustive",
        "--at",
        "messages",
        "--out",
        "out/found",
    ];
    let text = laid.inject(1, &words);
    let broken = laid.results("out/found").into_iter().filter(|result| {
        let faults = result["faults"].as_array().expect("a list").len();
        result["verdict"] == "broken" && faults == 1
    });
    let broken: Vec<_> = broken.collect();
    assert_eq!(broken.len(), 2, "{text}");
    for result in &broken {
        let plan = result["plan"].as_str().expect("text");
        let message = "with_message = { nth = 2, from = \"a\", to = \"b\", from_port = \"chosen\", to_port = 7000 }";
        assert!(plan.contains(message), "{plan}");
    }
    let number = (broken[0]["index"].as_u64().expect("a number") + 1).to_string();
    let told = laid.ends(1, &["show", "out/found", &number]);
    assert!(told.contains("with message 2 from a to b:7000"), "{told}");
    laid.ends(1, &["replay", "out/found", &number]);
    let smaller = laid.ends(1, &["minimize", "out/found", &number]);
    assert!(
        smaller.contains("1 fault, and none can be left out"),
        "{smaller}"
    );
    messages_are_facts(laid, "out/found");
    // A campaign at calls has other points.
    let other = ["--strategy", "exhaustive", "--points-of", "out/found"];
    let refused = said(&laid.injects(&other));
    assert!(
        refused.contains("collected with --at messages"),
        "{refused}"
    );
}

/// Rules know how many messages of a run were counted, and that its calls were not.
fn messages_are_facts(laid: &Laid, out: &str) {
    let results = laid.results(out);
    let pair_of = |result: &Value| {
        let points = result["points"].as_array()?.clone();
        let point = points.into_iter().find(|point| point["to_port"] == 7000)?;
        Some((result["index"].as_u64()? + 1, point["by_pair"][0].clone()))
    };
    let (number, pair) = results.iter().find_map(pair_of).expect("one is counted");
    let number = number.to_string();
    let rules = "m(F, T, P, N) :- made_message(from: F, to: T, to_port: P, times: N), P = 7000.";
    let told = laid.ends(0, &["rules", out, &number, rules]);
    let expected = format!("m(\"a\", \"b\", 7000, {})\n", pair["times"]);
    assert!(told.contains(&expected), "{told}{pair}");
    let calls = "c(C) :- made(call: C).";
    let refused = said(&laid.run(&["rules", out, &number, calls]));
    let words = "the calls of this run were not counted";
    assert!(refused.contains(words), "{refused}");
}

/// All failures and all times.
fn nothing_is_found(laid: &Laid, runs: usize) {
    let words = [
        "--strategy",
        "exhaustive",
        "--at",
        "messages",
        "--out",
        "out/none",
    ];
    let text = laid.inject(0, &[&words[..], &["--all-occurrences"]].concat());
    assert_eq!(laid.results("out/none").len(), runs, "{text}");
}

#[test]
#[ignore = "it takes a minute: make test-clusters"]
fn all_failures_at_messages_find_the_mistake_in_namespaces() {
    it_is_found(&Laid::in_namespaces("early"));
}

#[test]
#[ignore = "it takes minutes: make test-clusters"]
fn all_failures_at_messages_find_the_mistake_on_machines() {
    it_is_found(&Laid::simulated("early"));
}

#[test]
#[ignore = "it takes a minute: make test-clusters"]
fn no_failure_at_a_message_breaks_what_waits_for_both_in_namespaces() {
    // There is no disk to lose.
    nothing_is_found(&Laid::in_namespaces(""), 4 * 4);
}

#[test]
#[ignore = "it takes minutes: make test-clusters"]
fn no_failure_at_a_message_breaks_what_waits_for_both_on_machines() {
    // The leader has no disk, and the follower has.
    nothing_is_found(&Laid::simulated(""), 4 * 5);
}

/// Every failure at every message: a follower that dies shows it, if it has no second message by then. What it
/// sent before, the kernel may deliver after its death.
fn a_receiver_that_dies_shows_it(laid: &Laid) {
    let words = ["--strategy", "exhaustive", "--at", "messages"];
    let text = laid.inject(1, &[&words[..], &["--out", "out/closed"]].concat());
    let mut broken = laid.results("out/closed");
    broken.retain(|result| result["verdict"] == "broken");
    for result in &broken {
        let died = &result["faults"][1]["on"];
        assert_eq!(*died, serde_json::json!(["b"]), "{text}");
    }
    broken.retain(|result| {
        let plan = result["plan"].as_str().expect("text");
        plan.contains("from = \"a\"\nflow = \"in\"\nwith_message = { nth = 2, ")
    });
    assert_eq!(broken.len(), 1, "{text}");
    let number = (broken[0]["index"].as_u64().expect("a number") + 1).to_string();
    laid.ends(1, &["replay", "out/closed", &number]);
}

#[test]
#[ignore = "it takes a minute: make test-clusters"]
fn a_mistake_that_takes_a_receiver_that_dies_is_found_in_namespaces() {
    a_receiver_that_dies_shows_it(&Laid::in_namespaces("closed"));
}

#[test]
#[ignore = "it takes minutes: make test-clusters"]
fn a_mistake_that_takes_a_receiver_that_dies_is_found_on_machines() {
    a_receiver_that_dies_shows_it(&Laid::simulated("closed"));
}

/// A second failure is at a message that came after the first one, also in parts and when it is gone on
/// with.
#[test]
#[ignore = "it takes minutes: make test-clusters"]
fn pairs_are_of_messages_after_the_first_failure_and_shards_are_put_together() {
    let laid = Laid::simulated("");
    let words = [
        "--strategy",
        "exhaustive",
        "--at",
        "all",
        "--max-failures",
        "2",
    ];
    let run = |status, more: &[&str]| laid.inject(status, &[&words[..], more].concat());
    run(0, &["--sample", "1", "--out", "out/base"]);
    for (shard, out) in [("1/2", "out/one"), ("2/2", "out/two")] {
        let part = ["--sample", "4", "--points-of", "out/base"];
        run(0, &[&part[..], &["--shard", shard, "--out", out]].concat());
    }
    let merged = laid.ends(0, &["merge", "out/one", "out/two", "--out", "out/merged"]);
    assert!(merged.contains("0 broken of 4 runs"), "{merged}");
    // Twenty single failures, and then a second one after each of the first four.
    let words = [
        "--strategy",
        "exhaustive",
        "--at",
        "messages",
        "--max-failures",
        "2",
    ];
    laid.injects(&[&words[..], &["--sample", "24", "--out", "out/pairs"]].concat());
    let mut pairs = laid.results("out/pairs").split_off(20);
    assert!(!pairs.is_empty());
    assert!(
        pairs.iter().all(|pair| pair["verdict"] != "broken"),
        "{pairs:?}"
    );
    pairs.retain(|pair| {
        let faults = pair["faults"].as_array().expect("a list");
        faults.len() == 2 && faults.iter().all(|fault| fault["state"] == "undone")
    });
    assert_eq!(pairs.len(), 4, "both happened in each");
    let plan = pairs[0]["plan"].as_str().expect("text");
    assert_eq!(plan.matches("with_message").count(), 2, "{plan}");
}
