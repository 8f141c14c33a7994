//! Plans that wait for bytes and messages, or cut a network after so many: what arrives tells whether it
//! was so. On both grounds, which needs root and Python.

use std::process::Output;

use end_to_end::{Folder, Ordinary, printed, said};
use serde_json::Value;

/// A node that tells how much has arrived there so far, with each datagram and each piece of a stream;
/// another one for there to be two sides; and two clients, beyond the partition, that send a hundred bytes
/// at a time, one datagrams and one a stream. They begin a second after they have said
/// that they are ready.
const COUNTS: &str = r#"
[[nodes]]
name = "a"
command = """python3 -c "
import select, socket, time
listener = socket.create_server(('', 9001))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('', 9000))
print('ready', flush=True)
open = [listener, datagrams]
counts = dict(datagrams=0, stream=0)
while True:
    for one in select.select(open, [], [])[0]:
        if one is listener:
            open.append(listener.accept()[0])
        elif one is datagrams:
            counts['datagrams'] += len(one.recv(100000))
        else:
            read = one.recv(100000)
            if not read:
                open.remove(one)
            counts['stream'] += len(read)
    print('arrived', counts['datagrams'], counts['stream'], flush=True)
" """
ready = { log = "ready" }
stop = "SIGKILL"

[[nodes]]
name = "b"
command = "sh -c 'echo ready; exec sleep 1000'"
ready = { log = "ready" }
stop = "SIGKILL"

[[clients]]
name = "datagrams"
side = "others"
command = """python3 -c "
import socket, time
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print('is ready', flush=True)
time.sleep(1)
for number in range(40):
    peer.sendto(bytes(100), ('a', 9000))
    print('sent', number, flush=True)
    time.sleep(0.02)
" """

[[clients]]
name = "stream"
side = "others"
command = """python3 -c "
import socket, time
peer = socket.create_connection(('a', 9001))
peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print('is ready', flush=True)
time.sleep(1.005)
for number in range(40):
    peer.send(bytes(100))
    print('sent', number, flush=True)
    time.sleep(0.02)
" """

[check]
command = "echo ok"
"#;

/// What clients send altogether.
const BYTES: u64 = 8000;

/// Both grounds.
const GROUNDS: [Ground; 2] = [Ground::Namespaces, Ground::Simulated];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Namespaces,
    Simulated,
}

/// A run: what it came to, its fault, and what `a` has said.
struct Run {
    status: i32,
    result: Value,
    log: String,
}

impl Run {
    /// How many bytes have arrived at `a` when it last said so: in datagrams, and in a stream.
    fn arrived(&self) -> (u64, u64) {
        let last = self.log.lines().rfind(|line| line.starts_with("arrived"));
        let mut words = last.unwrap_or("arrived 0 0").split(' ').skip(1);
        let mut number = || words.next()?.parse().ok();
        (number().expect("a number"), number().expect("a number"))
    }

    fn fault(&self) -> &Value {
        &self.result["faults"][0]
    }

    /// The words with which the fault was put in place.
    fn in_place(&self) -> &str {
        let events = self.result["events"].as_array().expect("events");
        let event = events.iter().find(|event| event["event"] == "in-place");
        let words = event.and_then(|event| event["words"].as_str());
        words.unwrap_or_else(|| panic!("{}", self.result))
    }

    /// How much had passed by then, as those words say: bytes, and messages.
    fn passed(&self) -> (u64, u64) {
        let words = self.in_place();
        let (_, passed) = words.split_once(": ").expect(words);
        let numbers = passed.split(' ').filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        (numbers[0], numbers[1])
    }
}

fn run(ground: Ground, plan: &str) -> Run {
    let (output, log) = match ground {
        Ground::Namespaces => in_namespaces(plan),
        Ground::Simulated => on_machines(plan),
    };
    let status = output.status.code().expect("it ends by itself");
    let words = printed(&output) + &said(&output);
    assert_ne!(status, 2, "{words}");
    let first = words.lines().next().expect("a line");
    Run {
        status,
        result: serde_json::from_str(first).unwrap_or_else(|_| panic!("{words}")),
        log,
    }
}

const WORDS: [&str; 8] = [
    "inject",
    "cluster.toml",
    "--plan",
    "plan.toml",
    "--out",
    "out/kept",
    "--format",
    "json",
];
const LOG: &str = "out/kept/runs/1/logs/a.log";

fn in_namespaces(plan: &str) -> (Output, String) {
    let folder = Folder::new(&[("cluster.toml", COUNTS), ("plan.toml", plan)]);
    let output = folder.run(&WORDS);
    (output, folder.read(LOG))
}

fn on_machines(plan: &str) -> (Output, String) {
    let place = Ordinary::new();
    place.file("cluster.toml", COUNTS);
    place.file("plan.toml", plan);
    place.shared("out");
    let kernel = place.simulation_kernel();
    let how = ["--simulate", "--seed", "3", "--kernel", &kernel];
    let mut command = place.crashpoint(&[&WORDS[..], &how].concat());
    let output = command.output().expect("it runs");
    let log = std::fs::read_to_string(place.path(LOG)).expect("read");
    (output, log)
}

fn partition(key: &str, count: u64) -> String {
    format!(
        "[[faults]]\nat = {{ lines = 2 }}\nfault = \"partition\"\non = \"a\"\nflow = \"in\"\n{key} = {count}\n"
    )
}

/// What two clients send counts together, and a message is what they have sent at once.
#[test]
#[ignore = "clients have to keep time: make test-clusters"]
fn a_partition_begins_with_the_message_after_the_one_that_reaches_its_limit() {
    for ground in GROUNDS {
        for (key, count, expected) in [
            ("after_messages", 7, 700),
            ("after_messages", 1, 100),
            ("after_bytes", 1000, 1000),
            ("after_bytes", 901, 1000),
        ] {
            let run = run(ground, &partition(key, count));
            let (datagrams, stream) = run.arrived();
            let (bytes, messages) = run.passed();
            let all = format!("{ground:?} {key} {count}: {}", run.result);
            assert_eq!(run.status, 0, "{all}");
            assert_eq!(run.fault()["state"], "undone", "{all}");
            assert_eq!(bytes, expected, "{all}");
            assert_eq!(messages, expected / 100, "{all}");
            assert_eq!(datagrams + stream, expected, "{all}");
            if ground == Ground::Simulated && count > 1 {
                assert!(datagrams > 0 && stream > 0, "both have sent: {all}");
            }
        }
    }
}

#[test]
fn a_partition_by_its_limit_ends_as_others_do_and_is_the_same_again_for_the_same_seed() {
    let plan = partition("after_bytes", 1500) + "until = { after_s = 0.3 }\n";
    for ground in GROUNDS {
        let run = run(ground, &plan);
        let (datagrams, stream) = run.arrived();
        let all = format!("{ground:?}: {datagrams} {stream} {}", run.result);
        assert_eq!(run.status, 0, "{all}");
        let at = |when: &str| run.fault()[when].as_u64().expect("a time");
        assert!(at("undone_ns") - at("placed_ns") >= 300_000_000, "{all}");
        if ground == Ground::Namespaces {
            // When clients send, and how much in one message, is a matter of this machine.
            assert!(run.passed().0 >= 1500, "{all}");
            continue;
        }
        assert_eq!(run.passed(), (1500, 15), "{all}");
        // What was lost of the stream is sent again, and datagrams are not.
        assert_eq!(stream, 4000, "{all}");
        assert!((1000..4000).contains(&datagrams), "{all}");
        assert!(at("placed_ns") - at("fired_ns") >= 900_000_000, "{all}");
    }
    let (one, other) = (run(Ground::Simulated, &plan), run(Ground::Simulated, &plan));
    assert_eq!(one.result["simulated"], other.result["simulated"]);
    assert!(
        one.result["simulated"]["history"].is_string(),
        "{}",
        one.result
    );
    assert_eq!(one.log, other.log);
}

#[test]
#[ignore = "clients have to keep time: make test-clusters"]
fn a_limit_that_is_never_reached_is_no_pass_and_loses_nothing() {
    for ground in GROUNDS {
        let plan = partition("after_bytes", 10 * BYTES);
        let run = run(ground, &format!("within_s = 0.5\n{plan}"));
        let all = format!("{ground:?}: {}", run.result);
        assert_eq!(run.status, 3, "{all}");
        assert_eq!(run.result["verdict"], "inconclusive", "{all}");
        assert_eq!(run.fault()["state"], "never-fired", "{all}");
        let why = run.result["why"].as_str().expect("words");
        let expected = format!(
            "fault 1 never happened: it begins after 80000 bytes, and {BYTES} bytes in 80 messages had \
             passed"
        );
        // A busy host may have something sent again.
        let begins = expected.split(" and").next().expect("words");
        assert!(why.starts_with(begins), "{all}");
        if ground == Ground::Simulated {
            assert_eq!(why, expected, "{all}");
        }
        assert_eq!(run.arrived(), (4000, 4000), "{all}");
    }
}

/// The end waits for what is sent while the fault is in place; what is lost was sent, too.
#[test]
#[ignore = "clients have to keep time: make test-clusters"]
fn triggers_wait_for_what_was_sent_since_they_were_waited_for() {
    let plan = r#"
[[faults]]
at = { messages = 10, to = "a" }
fault = "partition"
on = "a"
flow = "in"
until = { bytes = 800, to = "a" }

[[faults]]
at = { messages = 1, from = "b", to = "a" }
fault = "kill"
on = "b"
"#;
    for ground in GROUNDS {
        let run = run(ground, &format!("within_s = 0.5\n{plan}"));
        let (datagrams, stream) = run.arrived();
        let all = format!("{ground:?}: {datagrams} {stream} {}", run.result);
        assert_eq!(run.status, 3, "{all}");
        let why = run.result["why"].as_str().expect("words");
        let expected = "fault 2 never happened: at { messages = 1, from = \"b\", to = \"a\" }";
        assert_eq!(why, expected, "{all}");
        let at = |when: &str| run.fault()[when].as_u64().expect("a time");
        // Ten messages take ninety milliseconds, as two clients send one each in twenty.
        assert!(at("fired_ns") >= 1_080_000_000, "{all}");
        assert!(at("undone_ns") - at("placed_ns") >= 50_000_000, "{all}");
        assert_eq!(stream, 4000, "{all}");
        let lost = 4000 - datagrams;
        assert!(lost > 0, "{all}");
        if ground == Ground::Simulated {
            // At most a look later, which is before the next message.
            assert!(at("fired_ns") < 1_300_000_000, "{all}");
            assert!(lost <= 800, "{all}");
        }
    }
}
