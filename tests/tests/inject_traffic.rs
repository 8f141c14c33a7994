//! Plans that wait for bytes and messages, or cut a network after so many: what arrives tells whether it
//! was so. On both grounds, which needs root and Python.

use std::net::UdpSocket;
use std::process::Output;

use end_to_end::{Folder, Ordinary, printed, said};
use machine::{FRAME_BYTES_MAX, PacketSocket};
use serde_json::Value;

/// A node that tells how much has arrived there so far, with each datagram and each piece of a stream,
/// and tells a client how many of its datagrams have. When both clients are there it makes a call, and
/// then tells them to send: a fault whose trigger is that call is in place by then. It closes what a client
/// has closed. There is another node for there to be two sides.
const NODES: &str = r#"
[[nodes]]
name = "a"
kind = "counting"
command = """python3 -c "
import os, select, socket
listener = socket.create_server(('', 9001))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(('', 9000))
mark = os.open('mark', os.O_CREAT | os.O_WRONLY)
print('ready', flush=True)
open, counts = [listener, datagrams], [0, 0]
def told():
    print('arrived', *counts, flush=True)
while True:
    for one in select.select(open, [], [])[0]:
        if one is listener:
            open.append(listener.accept()[0])
            if len(open) == 4:
                os.fsync(mark)
                for client in open[2:]:
                    client.send(b'go')
        elif one is datagrams:
            read, who = one.recvfrom(100000)
            counts[0] += len(read)
            told()
            one.sendto(read[:4], who)
        else:
            try:
                read = one.recv(100000)
            except OSError:
                read = b''
            counts[1] += len(read)
            told()
            if not read:
                open.remove(one)
                one.close()
" """
ready = { log = "ready" }
stop = "SIGKILL"

[[nodes]]
name = "b"
command = "sh -c 'echo ready; exec sleep 1000'"
ready = { log = "ready" }
stop = "SIGKILL"

[check]
command = "echo ok"
"#;

/// Connects to the node, and waits until it says that it is time to send.
const CONNECTS: &str = r"
import socket, struct, time
stream = socket.create_connection(('a', 9001))
stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
peer.connect(('a', 9000))
stream.recv(2)
";

/// Sends forty messages of a hundred bytes.
const STREAM: &str = r"
for number in range(40):
    stream.send(bytes(100))
    time.sleep(0.02)
";
const DATAGRAMS: &str = r"
for number in range(40):
    peer.send(struct.pack('!i', number) + bytes(96))
    time.sleep(0.02)
";

/// What comes then: it waits until all has arrived.
const ALL_OF_STREAM: &str = r"
stream.shutdown(socket.SHUT_WR)
stream.recv(1)
";
const ALL_DATAGRAMS: &str = r"
while struct.unpack('!i', peer.recv(100)) != (39,):
    pass
";

/// Sends datagrams until one has arrived after others that have not, and tells how many these were, and
/// how many came before them. Those that arrive do so in their order.
const UNTIL_SOME_ARE_LOST: &str = r"
number, expected, is_over = 0, 0, False
while not is_over and number < 2000:
    peer.send(struct.pack('!i', number) + bytes(96))
    number += 1
    time.sleep(0.02)
    try:
        while not is_over:
            arrived, = struct.unpack('!i', peer.recv(100, socket.MSG_DONTWAIT))
            is_over = arrived != expected
            if is_over:
                print('lost', arrived - expected, 'after', expected, flush=True)
            expected += 1
    except BlockingIOError:
        pass
";

/// The cluster, with two clients that do so, beyond the partition.
fn cluster(clients: [&str; 2]) -> String {
    let client = |(place, program): (usize, &str)| {
        format!(
            "[[clients]]\nname = \"{place}\"\nside = \"others\"\ncommand = '''python3 -c \"{CONNECTS}{program}\"'''\n"
        )
    };
    let clients = clients.into_iter().enumerate().map(client);
    NODES.to_owned() + &clients.collect::<String>()
}

/// What clients send altogether.
const BYTES: u64 = 8000;

/// Both grounds.
const GROUNDS: [Ground; 2] = [Ground::Namespaces, Ground::Simulated];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ground {
    Namespaces,
    Simulated,
}

/// A run: what it came to, what `a` has said, and what clients have.
struct Run {
    status: i32,
    result: Value,
    log: String,
    lines: String,
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

    /// The fault was put in place.
    fn in_place(&self) -> &Value {
        let events = self.result["events"].as_array().expect("events");
        let event = events.iter().find(|event| event["event"] == "in-place");
        event.unwrap_or_else(|| panic!("{}", self.result))
    }

    /// How much had passed by then, as those words say: bytes, and messages.
    fn passed(&self) -> (u64, u64) {
        let words = self.in_place()["words"].as_str().expect("words");
        let (_, passed) = words.split_once(": ").expect(words);
        let numbers = passed.split(' ').filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        (numbers[0], numbers[1])
    }
}

fn run(ground: Ground, cluster: &str, plan: &str) -> Run {
    let (output, read) = match ground {
        Ground::Namespaces => in_namespaces(cluster, plan),
        Ground::Simulated => on_machines(cluster, plan),
    };
    let status = output.status.code().expect("it ends by itself");
    let words = printed(&output) + &said(&output);
    assert_ne!(status, 2, "{words}");
    let first = words.lines().next().expect("a line");
    let [log, lines] = read;
    Run {
        status,
        result: serde_json::from_str(first).unwrap_or_else(|_| panic!("{words}")),
        log,
        lines,
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
const LEFT: [&str; 2] = [
    "out/kept/runs/1/logs/a.log",
    "out/kept/runs/1/acknowledgements",
];

fn in_namespaces(cluster: &str, plan: &str) -> (Output, [String; 2]) {
    let folder = Folder::new(&[("cluster.toml", cluster), ("plan.toml", plan)]);
    let output = folder.run(&WORDS);
    (output, LEFT.map(|name| folder.read(name)))
}

fn on_machines(cluster: &str, plan: &str) -> (Output, [String; 2]) {
    let place = Ordinary::new();
    place.file("cluster.toml", cluster);
    place.file("plan.toml", plan);
    place.shared("out");
    let kernel = place.simulation_kernel();
    let how = ["--simulate", "--seed", "3", "--kernel", &kernel];
    let mut command = place.crashpoint(&[&WORDS[..], &how].concat());
    let output = command.output().expect("it runs");
    let read = |name| std::fs::read_to_string(place.path(name)).expect("read");
    (output, LEFT.map(read))
}

/// The node waits for its call, and sends nothing before that goes on.
fn partition(key: &str, count: u64) -> String {
    format!(
        "[[faults]]\nat = {{ call = \"fsync\", node = \"a\" }}\nfault = \"partition\"\non = \"a\"\nflow = \"in\"\n{key} = {count}\n"
    )
}

/// What two clients send counts together, and a message is what they have sent at once. A stream may be
/// sent again on a busy host, which counts.
#[test]
#[ignore = "clients have to keep time: make test-clusters"]
fn a_partition_begins_with_the_message_after_the_one_that_reaches_its_limit() {
    for (ground, first) in [(Ground::Namespaces, DATAGRAMS), (Ground::Simulated, STREAM)] {
        let cluster = cluster([first, DATAGRAMS]);
        for (key, count, expected) in [
            ("after_messages", 7, 700),
            ("after_messages", 1, 100),
            ("after_bytes", 1000, 1000),
            ("after_bytes", 901, 1000),
        ] {
            let run = run(ground, &cluster, &partition(key, count));
            let (datagrams, stream) = run.arrived();
            let all = format!("{ground:?} {key} {count}: {}", run.result);
            assert_eq!(run.status, 0, "{all}");
            assert_eq!(run.fault()["state"], "undone", "{all}");
            assert_eq!(run.passed(), (expected, expected / 100), "{all}");
            assert_eq!(datagrams + stream, expected, "{all}");
            let placed_ns = run.fault()["placed_ns"].as_u64();
            let told_ns = run.in_place()["time_ns"].as_u64();
            assert!(placed_ns.is_some() && placed_ns < told_ns, "{all}");
            if ground == Ground::Simulated && count > 1 {
                assert!(datagrams > 0 && stream > 0, "both have sent: {all}");
            }
        }
    }
}

#[test]
fn a_partition_by_its_limit_ends_as_others_do_and_is_the_same_again_for_the_same_seed() {
    let plan = partition("after_bytes", 1500) + "until = { after_s = 0.3 }\n";
    let stream = STREAM.to_owned() + ALL_OF_STREAM;
    let cluster = cluster([&stream, DATAGRAMS]);
    let runs = GROUNDS.map(|ground| (ground, run(ground, &cluster, &plan)));
    for (ground, run) in &runs {
        let (datagrams, stream) = run.arrived();
        let all = format!("{ground:?}: {datagrams} {stream} {}", run.result);
        assert_eq!(run.status, 0, "{all}");
        // What was lost of the stream is sent again, and datagrams are not.
        assert_eq!(stream, 4000, "{all}");
        let at = |when: &str| run.fault()[when].as_u64().expect("a time");
        assert!(at("undone_ns") - at("placed_ns") >= 300_000_000, "{all}");
        if *ground == Ground::Simulated {
            assert_eq!(run.passed(), (1500, 15), "{all}");
            assert!((700..4000).contains(&datagrams), "{all}");
        }
    }
    let [_, (_, one)] = runs;
    let other = run(Ground::Simulated, &cluster, &plan);
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
    let (stream, datagrams) = (
        STREAM.to_owned() + ALL_OF_STREAM,
        DATAGRAMS.to_owned() + ALL_DATAGRAMS,
    );
    let cluster = cluster([&stream, &datagrams]);
    for ground in GROUNDS {
        let plan = partition("after_bytes", 10 * BYTES);
        let run = run(ground, &cluster, &format!("within_s = 0.5\n{plan}"));
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
within_s = 0.5

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
    let cluster = cluster([UNTIL_SOME_ARE_LOST, ""]);
    for ground in GROUNDS {
        let run = run(ground, &cluster, plan);
        let all = format!("{ground:?}: {} {}", run.lines, run.result);
        assert_eq!(run.status, 3, "{all}");
        let why = run.result["why"].as_str().expect("words");
        let expected = "fault 2 never happened: at { messages = 1, from = \"b\", to = \"a\" }";
        assert_eq!(why, expected, "{all}");
        assert_eq!(run.fault()["state"], "undone", "{all}");
        let numbers = run.lines.split_whitespace();
        let numbers: Vec<u64> = numbers.filter_map(|word| word.parse().ok()).collect();
        let [lost, before] = numbers[..] else {
            panic!("{all}");
        };
        assert!(lost >= 8 && before >= 10, "{all}");
        if ground == Ground::Simulated {
            // At most a look later, which is before the next message.
            assert_eq!((lost, before), (8, 10), "{all}");
        }
    }
}

#[test]
fn a_trigger_says_that_nothing_could_be_sent() {
    let plan = r#"
within_s = 0.1

[[faults]]
at = { time_s = 0 }
fault = "link"
on = "a"
latency_s = 0.001
until = { messages = 1, from = "counting", to = "a" }

[[faults]]
at = { messages = 1, from = "a", to = "counting" }
fault = "kill"
on = "b"
"#;
    let run = run(Ground::Namespaces, &cluster(["", ""]), plan);
    assert_eq!(run.status, 3, "{}", run.result);
    let why = run.result["why"].as_str().expect("words");
    let unknown = "who sends it is who would receive it";
    let end = "until { messages = 1, from = \"counting\", to = \"a\" }";
    let at = "fault 2 never happened: at { messages = 1, from = \"a\", to = \"counting\" }";
    assert!(why.contains(&format!("{end}: {unknown}")), "{why}");
    assert!(why.contains(&format!("{at}: {unknown}")), "{why}");
}

/// Frames that wait to be received are lost beyond 32 MiB.
#[test]
fn a_socket_tells_how_many_frames_it_has_lost_and_one_to_send_keeps_none() {
    end_to_end::require_root();
    let socket = PacketSocket::open("lo").expect("a socket");
    let to_send = PacketSocket::open_to_send("lo").expect("a socket");
    assert_eq!(socket.lost().expect("told"), 0);
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let to = receiver.local_addr().expect("it has one");
    let datagram = vec![0; 60_000];
    for _ in 0..3000 {
        sender.send_to(&datagram, to).expect("sent");
    }
    assert!(socket.lost().expect("told") > 0);
    let mut buffer = vec![0; FRAME_BYTES_MAX];
    assert!(socket.receive(&mut buffer).expect("received").is_some());
    assert!(to_send.receive(&mut buffer).expect("received").is_none());
}
