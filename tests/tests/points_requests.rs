//! Requests to the disk of a node as triggers and as failure points, on both grounds: the power fails exactly
//! before or after one, and an error of the disk that a program ignores is found. Needs root and Python.

use std::fs;
use std::process::Output;

use end_to_end::{Folder, Ordinary, objects, printed, said};
use serde_json::Value;

/// A node that keeps a value in a file that it writes in place. What it has written it syncs, and says so,
/// but for a mistake: `ignores`, it says so too if it could not be synced.
const NODE: &str = r"
import os, socket, sys
directory, mistake = sys.argv[1:3]
path = directory + '/value'
if not os.path.exists(path):
    with open(path, 'wb') as first:
        first.write(b'old'.ljust(4096))
        os.fsync(first.fileno())
file = os.open(path, os.O_RDWR)
listener = socket.create_server(('', 9000))
print('ready', flush=True)
while True:
    client = listener.accept()[0]
    try:
        word = client.recv(100)
        if word == b'tell':
            client.sendall(os.pread(file, 4096, 0).strip())
            continue
        os.pwrite(file, word.ljust(4096), 0)
        try:
            os.fdatasync(file)
        except OSError:
            if mistake != 'ignores':
                client.sendall(b'failed')
                continue
        client.sendall(b'done')
    except OSError:
        pass
    finally:
        client.close()
";

/// It waits before it writes: the trigger is waited for by then.
const CLIENT: &str = r"
import socket, sys, time
time.sleep(1)
try:
    with socket.create_connection((sys.argv[1], 9000), 5) as node:
        node.settimeout(5)
        node.sendall(b'new')
        if node.recv(100) == b'done':
            print('new', flush=True)
except OSError:
    pass
";

const CHECK: &str = r"
import socket, sys
with socket.create_connection((sys.argv[1], 9000), 30) as node:
    node.sendall(b'tell')
    value = node.recv(4096).decode()
acknowledged = open(sys.argv[2]).read().split()
if acknowledged and acknowledged != [value]:
    print('broken acknowledged is new, and kept is', value)
elif sys.argv[3] == 'tells':
    print('broken nothing was acknowledged, and kept is', value)
else:
    print('ok')
";

const CLUSTER: &str = r#"
disk = "ext4"
[[nodes]]
name = "a"
kind = "store"
command = "python3 -I {here}/node.py {dir} 'MISTAKE'"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "python3 -I {here}/client.py {address:a}"
[check]
command = "python3 -I {here}/check.py {address:a} {acks} 'MISTAKE'"
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

    /// Runs `crashpoint inject` on this ground.
    fn injects(&self, more: &[&str]) -> Output {
        let begun = ["inject", "cluster.toml"];
        match self {
            Self::Namespaces(folder) => folder.run(&[&begun[..], more].concat()),
            Self::Simulated(place, kernel) => {
                let how = ["--simulate", "--seed", "7", "--kernel", kernel];
                let words = [&begun[..], more, &how].concat();
                place.crashpoint(&words).output().expect("it runs")
            }
        }
    }

    #[track_caller]
    fn inject(&self, status: i32, more: &[&str]) -> String {
        let output = self.injects(more);
        let told = printed(&output);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{more:?}: {told}{}",
            said(&output)
        );
        told
    }

    fn write(&self, name: &str, text: &str) {
        match self {
            Self::Namespaces(folder) => folder.write(name, text),
            Self::Simulated(place, _) => drop(place.file(name, text)),
        }
    }

    fn results(&self, out: &str) -> Vec<Value> {
        let name = format!("{out}/results.jsonl");
        objects(&match self {
            Self::Namespaces(folder) => folder.read(&name),
            Self::Simulated(place, _) => fs::read_to_string(place.path(&name)).expect("read"),
        })
    }

    /// The power fails at this moment of the first flush of the client's value.
    fn power_fails(&self, when: &str) -> String {
        let plan = format!(
            "within_s = 5\n[[faults]]\nat = {{ request = \"flush\", node = \"a\", when = \"{when}\" }}\n\
             fault = \"power-loss\"\non = \"a\"\nuntil = {{ after_s = 0.5 }}\n"
        );
        self.write("plan.toml", &plan);
        self.inject(1, &["--plan", "plan.toml"])
    }

    /// The points at requests, in lines.
    fn points(&self) -> Vec<Value> {
        let words = ["--points", "--at", "requests", "--format", "json"];
        objects(&self.inject(0, &words))
    }
}

/// What the flush covers is lost before it and kept after it, and nobody was told in both cases.
fn the_power_fails_exactly_at_a_flush(laid: &Laid) {
    let before = laid.power_fails("before");
    assert!(before.contains("a asks its disk for flush 1\n"), "{before}");
    let lost = "nothing was acknowledged, and kept is old";
    assert!(before.contains(lost), "{before}");
    let after = laid.power_fails("after");
    assert!(after.contains("a has from its disk flush 1\n"), "{after}");
    let kept = "nothing was acknowledged, and kept is new";
    assert!(after.contains(kept), "{after}");
}

#[test]
fn the_power_fails_exactly_before_or_after_a_flush_in_namespaces() {
    the_power_fails_exactly_at_a_flush(&Laid::in_namespaces("tells"));
}

#[test]
fn the_power_fails_exactly_before_or_after_a_flush_on_machines() {
    the_power_fails_exactly_at_a_flush(&Laid::simulated("tells"));
}

/// The value goes to the data of the disk, and is flushed: that is what there is in any run.
fn the_points_are_those_of_the_value(laid: &Laid) -> Vec<String> {
    let points = laid.points();
    let id_of = |request: &str, area: Option<&str>| {
        let is_it = |point: &&Value| {
            point["request"] == request && point["area"].as_str() == area && point["of"] == "store"
        };
        let point = points.iter().find(is_it);
        let point = point.unwrap_or_else(|| panic!("{request} {area:?}: {points:?}"));
        assert!(point["by_node"]["a"].as_u64() > Some(0), "{point}");
        point["id"].as_str().expect("an ID").to_owned()
    };
    vec![id_of("write", Some("data")), id_of("flush", None)]
}

#[test]
fn the_same_requests_are_the_same_points_on_both_grounds() {
    let laid = Laid::simulated("");
    let ids = the_points_are_those_of_the_value(&laid);
    let words = ["--points", "--at", "requests", "--format", "json"];
    assert_eq!(laid.inject(0, &words), laid.inject(0, &words));
    let here = the_points_are_those_of_the_value(&Laid::in_namespaces(""));
    assert_eq!(ids, here);
}

/// Who ignores the error of a write acknowledges what the disk has not. Nobody else is accused.
fn an_error_that_is_ignored_is_found(ignores: &Laid, heeds: &Laid) {
    let words = [
        "--strategy",
        "exhaustive",
        "--at",
        "requests",
        "--out",
        "out/all",
    ];
    ignores.inject(1, &words);
    let is_error = |result: &&Value| {
        let plan = result["plan"].as_str().unwrap_or_default();
        result["verdict"] == "broken" && plan.contains("fault = \"disk\"")
    };
    let results = ignores.results("out/all");
    let found = results.iter().find(is_error);
    let found = found.unwrap_or_else(|| panic!("{results:?}"));
    let broken = found["broken"].to_string();
    assert!(
        broken.contains("acknowledged is new, and kept is old"),
        "{found}"
    );

    let output = heeds.injects(&words);
    let status = output.status.code();
    // A disk that failed may leave a file system that cannot be used, which says nothing of the node.
    assert!(matches!(status, Some(0 | 3)), "{}", printed(&output));
    let results = heeds.results("out/all");
    let ok = results.iter().filter(|result| result["verdict"] == "ok");
    assert!(ok.count() > results.len() / 2, "{results:?}");
}

#[test]
#[ignore = "some minutes: make test-clusters"]
fn an_error_of_the_disk_that_is_ignored_is_found_in_namespaces() {
    let laid = Laid::in_namespaces;
    an_error_that_is_ignored_is_found(&laid("ignores"), &laid(""));
}

#[test]
fn an_error_of_the_disk_that_is_ignored_is_found_on_machines() {
    let laid = Laid::simulated;
    an_error_that_is_ignored_is_found(&laid("ignores"), &laid(""));
}

/// What cannot be is said before anything runs.
#[test]
fn requests_without_disks_are_refused() {
    let laid = Laid::in_namespaces("");
    laid.write("cluster.toml", &CLUSTER.replace("disk = \"ext4\"\n", ""));
    for words in [
        &["--points", "--at", "requests"][..],
        &["--strategy", "exhaustive", "--at", "requests"],
    ] {
        let output = laid.injects(words);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let what = "--at requests needs nodes with recorded disks";
        assert!(said(&output).contains(what), "{}", said(&output));
    }
}
