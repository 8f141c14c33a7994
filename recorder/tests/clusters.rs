//! What several nodes say to each other: the bytes that one sends are those that the other
//! receives.

mod support;

use std::collections::BTreeMap;
use std::process::Command;

use recorder::process::{NodeOptions, about_now, join, start};
use support::python_command;
use trace::{Action, Event, Message, Node};
use trace_store::Trace;

/// A connection to this machine, as soon as somebody listens. The ports in this file are none that Linux
/// gives by itself (32768 to 60999): who calls such a one again and again may reach itself.
const CONNECT: &str = r#"
import socket, time
def connect(port):
    while True:
        try: return socket.create_connection(("127.0.0.1", port))
        except OSError: time.sleep(0.05)
"#;

/// Records all of these at once, as nodes 0, 1 and so on.
fn together(commands: Vec<Command>) -> Trace {
    let start = |(number, command): (usize, Command)| {
        let options = NodeOptions {
            name: number.to_string(),
            directory: None,
            marks: true,
            ..NodeOptions::default()
        };
        start(options, command).expect("started")
    };
    let traced: Vec<_> = commands.into_iter().enumerate().map(start).collect();
    let nodes = traced.into_iter().map(|traced| {
        let node = traced.wait().expect("recorded");
        assert!(node.status.success(), "{:?} of {}", node.status, node.name);
        node
    });
    join(nodes.collect(), about_now())
}

fn messages(node: &Node, sent: bool) -> Vec<(Message, &Event)> {
    let of = |event: &Event| match event.action {
        Action::Send(message) if sent => Some(message),
        Action::Receive(message) if !sent => Some(message),
        _ => None,
    };
    node.events
        .iter()
        .filter_map(|event| Some((of(event)?, event)))
        .collect()
}

/// How many bytes of each stream a node sent or received, without gaps.
fn totals(node: &Node, sent: bool) -> BTreeMap<u32, u64> {
    let mut totals = BTreeMap::new();
    for (message, _) in messages(node, sent) {
        let total = totals.entry(message.stream).or_insert(0);
        // Who peeks receives the same again.
        assert!(
            message.from == *total || !sent && message.to >= *total,
            "{message:?} after {total}"
        );
        *total = message.to.max(*total);
    }
    totals
}

/// Whatever is received was sent before, by the clock that all share.
fn assert_caused(trace: &Trace) {
    for node in &trace.run.nodes {
        for (received, event) in messages(node, false) {
            let senders = trace.run.nodes.iter().flat_map(|node| messages(node, true));
            let covering = senders.filter(|(sent, _)| {
                sent.stream == received.stream && sent.from < received.to && received.from < sent.to
            });
            let mut bytes = 0;
            for (sent, sending) in covering {
                assert!(
                    sending.start_ns <= event.end_ns,
                    "{sending:?} is after {event:?}"
                );
                bytes += sent.to.min(received.to) - sent.from.max(received.from);
            }
            assert_eq!(bytes, received.to - received.from, "{event:?} was not sent");
        }
    }
}

const ECHO: &str = r#"
import socket, sys, threading
kind, where = sys.argv[1], sys.argv[2]
family = {"4": socket.AF_INET, "6": socket.AF_INET6, "mixed": socket.AF_INET6, "unix": socket.AF_UNIX}[kind]
s = socket.socket(family, socket.SOCK_STREAM)
if kind == "mixed": s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
if kind != "unix": s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(where if kind == "unix" else ({"4": "127.0.0.1", "6": "::1", "mixed": "::"}[kind], int(where)))
s.listen()
def serve(c):
    while True:
        c.recv(1, socket.MSG_PEEK)
        data = c.recv(1000)
        if not data: break
        c.sendmsg([data, b"!"])
    c.close()
threads = []
for _ in range(int(sys.argv[3])):
    c, _ = s.accept()
    t = threading.Thread(target=serve, args=(c,)); t.start(); threads.append(t)
[t.join() for t in threads]
"#;

const ASK: &str = r#"
import socket, sys, os, time
kind, where = sys.argv[1], sys.argv[2]
for i in range(int(sys.argv[3])):
    while True:
        c = socket.socket(socket.AF_UNIX) if kind == "unix" else socket.socket(socket.AF_INET6 if kind == "6" else socket.AF_INET)
        try: c.connect(where if kind == "unix" else ("::1" if kind == "6" else "127.0.0.1", int(where))); break
        except OSError: time.sleep(0.05)
    d = c.dup()
    for j in range(10):
        c.sendall(b"x" * (1 + 900 * j)); want = 2 + 900 * j; got = 0
        while got < 1 + 900 * j: got += len(os.read(d.fileno(), 500))
    c.close(); d.shutdown(socket.SHUT_WR)
    while d.recv(100): pass
    print("asked", i, flush=True); d.close()
"#;

fn asks(kind: &str, place: &str, times: &str) {
    let command = |script| {
        let mut command = python_command(script);
        command.args([kind, place, times]);
        command
    };
    let trace = together(vec![command(ECHO), command(ASK)]);
    let [server, client] = &trace.run.nodes[..] else {
        panic!("two nodes")
    };
    assert_eq!(totals(client, true), totals(server, false), "{kind}");
    assert_eq!(totals(server, true), totals(client, false), "{kind}");
    assert_eq!(
        totals(client, true).len(),
        times.parse::<usize>().expect("a number")
    );
    assert_caused(&trace);
    let marks = client
        .events
        .iter()
        .filter(|event| matches!(event.action, Action::Mark { .. }))
        .count();
    assert_eq!(marks.to_string(), times);
}

#[test]
fn a_client_and_a_server_over_tcp() {
    asks("4", "27311", "4");
    asks("6", "27312", "3");
    asks("mixed", "27313", "3");
}

#[test]
fn a_client_and_a_server_over_a_socket_with_a_name() {
    let directory = tempfile::tempdir().expect("a directory");
    asks(
        "unix",
        directory.path().join("socket").to_str().expect("ours"),
        "4",
    );
}

#[test]
fn who_dies_sends_an_end() {
    let server = r#"
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 27321)); s.listen()
c, _ = s.accept()
while c.recv(100): pass
print("it is gone", flush=True)
"#;
    // A child has the connection for longer than its parent.
    let client = r#"
import socket, os, time
c = connect(27321); c.sendall(b"hello")
if os.fork() == 0:
    time.sleep(0.2); os.kill(os.getpid(), 9)
c.close(); os.wait()
"#;
    let trace = together(vec![
        python_command(server),
        python_command(&format!("{CONNECT}{client}")),
    ]);
    let [server, client] = &trace.run.nodes[..] else {
        panic!("two nodes")
    };
    assert_eq!(totals(client, true), totals(server, false));
    let (end, event) = *messages(client, true).last().expect("an end");
    assert_eq!((end.from, end.to, &*event.call), (5, 6, "exit"));
    assert_caused(&trace);
}

/// Records a server that answers a client `123` until it ends, and says what the server's last message
/// came from.
fn answered(port: u16, server: &str) -> String {
    let server = format!(
        "import ctypes, os, socket, threading, time\n\
         s = socket.create_server((\"127.0.0.1\", {port}))\n{server}"
    );
    let client =
        format!("{CONNECT}c = connect({port}); c.sendall(b\"123\")\nwhile c.recv(100): pass\n");
    let trace = together(vec![python_command(&server), python_command(&client)]);
    let [server, client] = &trace.run.nodes[..] else {
        panic!("two nodes")
    };
    // The server may have other connections, and does not read the end of this one.
    for stream in totals(client, true).keys() {
        assert_eq!(totals(server, false).get(stream), Some(&3));
    }
    for (stream, bytes) in totals(client, false) {
        assert_eq!(totals(server, true).get(&stream), Some(&bytes));
    }
    let (_, last) = *messages(server, true).last().expect("an end");
    last.call.to_string()
}

/// What is on its way in a message is in no table of descriptors.
#[test]
fn a_connection_that_goes_to_another_process_is_the_same() {
    let last = answered(
        27341,
        r#"
a, b = socket.socketpair(); r, w = os.pipe()
if os.fork() == 0:
    os.read(r, 1); c = socket.socket(fileno=socket.recv_fds(b, 10, 1)[1][0])
    assert c.recv(9) == b"23"; c.sendall(b"answer"); c.close(); os._exit(0)
c, _ = s.accept(); assert c.recv(1) == b"1"
socket.send_fds(a, [b"x"], [c.fileno()]); c.close(); os.write(w, b"x"); os.wait()
"#,
    );
    assert_eq!(last, "close");
}

#[test]
fn a_process_without_its_first_thread_has_its_connections() {
    let last = answered(
        27342,
        r#"
c, _ = s.accept()
def serve():
    while "Z (zombie)" not in open("/proc/self/status").read(): time.sleep(0.01)
    assert c.recv(9) == b"123"
    c.sendall(b"answer"); os.dup2(1, 50); os._exit(0)
threading.Thread(target=serve).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"#,
    );
    assert_eq!(last, "exit");
}

#[test]
fn an_end_that_nobody_recorded_has_a_stream_of_its_own() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let accepting = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().expect("a connection");
            std::io::Write::write_all(&mut stream, b"hello").expect("sent");
        }
    });
    let ask = |_| {
        python_command(&format!(
            "import socket; c = socket.create_connection((\"127.0.0.1\", {port})); c.recv(10); c.recv(10)"
        ))
    };
    let trace = together((0..2).map(ask).collect());
    accepting.join().expect("no panic");
    let streams = trace.run.nodes.iter().map(|node| totals(node, false));
    let mut all: Vec<(u32, u64)> = streams.flatten().collect();
    assert!(all.iter().all(|(_, bytes)| *bytes == 6), "{all:?}");
    all.dedup_by_key(|(stream, _)| *stream);
    assert_eq!(all.len(), 2);
}

#[test]
fn threads_that_send_over_one_connection_take_turns() {
    let server = r#"
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 27331)); s.listen()
c, _ = s.accept()
while c.recv(100): pass
"#;
    let client = r"
import socket, threading
c = connect(27331)
def work(me):
    for i in range(50): c.send(bytes([me]) * 100)
t = [threading.Thread(target=work, args=(me,)) for me in range(3)]
[x.start() for x in t]; [x.join() for x in t]
";
    let trace = together(vec![
        python_command(server),
        python_command(&format!("{CONNECT}{client}")),
    ]);
    assert_eq!(
        totals(&trace.run.nodes[1], true),
        totals(&trace.run.nodes[0], false)
    );
    assert_caused(&trace);
}

#[test]
fn datagrams_are_counted_by_where_they_went_and_what_stays_in_the_node_is_not() {
    let script = r#"
import ctypes, os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", 0)); there = s.getsockname()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.sendto(b"one", there); u.sendto(b"", there)
u.sendmsg([b"two"], [], 0, there)
u.connect(there); u.send(b"three"); os.write(u.fileno(), b"four"); u.sendmsg([b"five"])
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.sendto(b"six", ("::1", there[1])); six.sendto(b"seven", ("::ffff:127.0.0.2", there[1]))
try: u.sendto(b"nowhere", ("0.0.0.1", 9))
except OSError: pass
class Iovec(ctypes.Structure): _fields_ = [("base", ctypes.c_char_p), ("len", ctypes.c_size_t)]
class Msghdr(ctypes.Structure): _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("iov", ctypes.c_void_p), ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int)]
class Many(ctypes.Structure): _fields_ = [("header", Msghdr), ("len", ctypes.c_uint)]
iov = Iovec(b"x", 1)
name = ctypes.create_string_buffer(socket.AF_INET.to_bytes(2, "little") + there[1].to_bytes(2, "big") + socket.inet_aton("127.0.0.3") + bytes(8), 16)
header = Msghdr(None, 0, ctypes.addressof(iov), 1, None, 0, 0)
other = Msghdr(ctypes.addressof(name), 16, ctypes.addressof(iov), 1, None, 0, 0)
many = (Many * 2)(Many(header, 0), Many(other, 0))
assert ctypes.CDLL(None).sendmmsg(u.fileno(), many, 2, 0) == 2
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); a.send(b"x"); b.recv(9)
socket.if_nameindex()
"#;
    let options = NodeOptions {
        name: "node".into(),
        ..NodeOptions::default()
    };
    let node = start(options, python_command(script))
        .expect("started")
        .wait()
        .expect("recorded");
    assert!(node.status.success());
    let counted: Vec<_> = node
        .datagrams
        .iter()
        .map(|((call, to), times)| format!("{call} {to} {times}"))
        .collect();
    let expected = [
        "sendmmsg 127.0.0.1 1",
        "sendmmsg 127.0.0.3 1",
        "sendmsg 127.0.0.1 2",
        "sendto 127.0.0.1 3",
        "sendto 127.0.0.2 1",
        "sendto ::1 1",
        "write 127.0.0.1 1",
    ];
    assert_eq!(counted, expected);
    assert!(node.not_recorded.is_empty(), "{:?}", node.not_recorded);
}
