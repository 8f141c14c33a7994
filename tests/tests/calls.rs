//! Triggers and faults at system calls: exactly there, in clusters of small programs. Needs root and
//! Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use end_to_end::{crashpoint, printed, require_root, said};
use serde_json::Value;
use tempfile::TempDir;

/// Writes a draft again and again, and gives it the name of the value.
const RENAMES: &str = r"
import os, sys, time
os.chdir(sys.argv[1])
print('found a draft' if os.path.exists('draft') else 'found no draft')
print('ready', flush=True)
while True:
    with open('draft', 'w') as draft:
        draft.write('x')
    os.rename('draft', 'value')
    time.sleep(0.01)
";

/// Writes five bytes, reads them and syncs, again and again, and says what came of it. The bytes are
/// there before it is ready. A whole line is printed at once: there are two threads.
const WRITES: &str = r"
import os, sys, threading, time
os.chdir(sys.argv[1])
file = os.open('log', os.O_CREAT | os.O_RDWR)
os.pwrite(file, b'hello', 0)
def say(line):
    print(line + '\n', end='', flush=True)
say('ready')
def beat():
    while True:
        time.sleep(0.1)
        say('beat')
threading.Thread(target=beat, daemon=True).start()
def tell(what, do):
    begun = time.monotonic()
    try:
        came = do()
    except OSError as error:
        came = error.strerror
    slow = ', slowly' if time.monotonic() - begun > 1.0 else ''
    say(f'{what}: {came}{slow}')
while True:
    tell('write', lambda: os.pwrite(file, b'hello', 0))
    tell('read', lambda: os.pread(file, 5, 0))
    tell('fsync', lambda: os.fsync(file))
    time.sleep(0.02)
";

/// A node that runs a program, a client that waits, and results. What a node syncs is in memory: a
/// disk that others use may be slow by itself.
struct Laid {
    folder: TempDir,
    temporary: TempDir,
}

impl Laid {
    fn new(program: &str, cluster: &str) -> Self {
        require_root();
        let folder = tempfile::tempdir().expect("a directory");
        let temporary = TempDir::new_in("/dev/shm").expect("a directory");
        let node = r#"
[[nodes]]
name = "a"
command = "python3 {here}/node.py {dir}"
ready = { log = "ready" }
stop = "SIGKILL"
[check]
command = "echo ok"
"#;
        fs::write(folder.path().join("node.py"), program).expect("written");
        let text = format!("{cluster}{node}");
        fs::write(folder.path().join("cluster.toml"), text).expect("written");
        Self { folder, temporary }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn inject(&self, plan: &str, arguments: &[&str]) -> Output {
        fs::write(self.path("plan.toml"), plan).expect("written");
        let mut command = crashpoint();
        command.arg("inject").arg(self.path("cluster.toml"));
        command.arg("--plan").arg(self.path("plan.toml"));
        command.args(["--format", "json"]).args(arguments);
        let output = command.env("TMPDIR", self.temporary.path()).output();
        let left = fs::read_dir(self.temporary.path()).expect("read").count();
        assert_eq!(left, 0);
        output.expect("it runs")
    }

    /// Results of runs, the exit status, and what the node said in each.
    fn runs(&self, plan: &str, times: usize) -> (i32, Vec<(Value, String)>) {
        let out = TempDir::new_in(self.folder.path()).expect("a directory");
        let out = out.path().join("out");
        let arguments = ["--repeat", &times.to_string(), "--out"];
        let text = out.to_str().expect("text");
        let output = self.inject(plan, &[&arguments[..], &[text]].concat());
        let status = output.status.code().expect("it ends by itself");
        assert_ne!(status, 2, "{}", said(&output));
        let lines = printed(&output);
        let lines = lines.lines().zip(1..);
        let run = |(line, number): (&str, usize)| {
            let result = serde_json::from_str(line).expect("an object");
            (result, log_of(&out, number))
        };
        (status, lines.map(run).collect())
    }

    /// A run that is as planned, of a few. If the machine stands still for a moment, that may be all of
    /// the time for which a fault lasts: then something is missing, and nothing is broken.
    fn run_as_planned(&self, plan: &str, is_as_planned: impl Fn(&str) -> bool) -> (Value, String) {
        let mut others = Vec::new();
        for _ in 0..5 {
            let (status, mut runs) = self.runs(plan, 1);
            let (result, said) = runs.remove(0);
            assert_ne!(status, 1, "{result}");
            if status == 0 && is_as_planned(&said) {
                return (result, said);
            }
            others.push((result, said));
        }
        panic!("{others:?}");
    }
}

/// How often a node said a line.
fn count(said: &str, line: &str) -> usize {
    said.lines().filter(|said| *said == line).count()
}

fn log_of(out: &Path, run: usize) -> String {
    fs::read_to_string(out.join(format!("runs/{run}/logs/a.log"))).expect("kept")
}

fn client(seconds: f64) -> String {
    format!("[client]\ncommand = \"sleep {seconds}\"\n")
}

/// A power loss keeps what was synced only: so the kill is what is told apart here.
#[test]
fn a_kill_before_a_rename_leaves_the_old_name_and_one_after_it_the_new_one() {
    const TIMES: usize = 5;
    let laid = Laid::new(RENAMES, &client(0.3));
    for (when, found) in [("before", "found a draft"), ("after", "found no draft")] {
        let plan = format!(
            "[[faults]]\nat = {{ call = \"rename\", path = \"value\", nth = 5, when = \"{when}\" }}
fault = \"kill\"\non = \"a\"\nuntil = {{ after_s = 0.05 }}\n"
        );
        let (status, runs) = laid.runs(&plan, TIMES);
        assert_eq!((status, runs.len()), (0, TIMES), "{runs:?}");
        for (result, said) in runs {
            let at_starts: Vec<_> = said
                .lines()
                .filter(|line| line.starts_with("found"))
                .collect();
            assert_eq!(at_starts, ["found no draft", found], "{when} {result}");
            assert_eq!(result["faults"][0]["state"], "undone", "{result}");
        }
    }
}

#[test]
fn calls_fail_or_are_short_or_slow_as_long_as_the_fault_lasts() {
    let laid = Laid::new(WRITES, &client(5.0));
    let fault = |keys: &str, at: f64, lasts: f64| {
        format!(
            "[[faults]]\nat = {{ time_s = {at:?} }}\nfault = \"call\"\non = \"a\"\n{keys}
until = {{ after_s = {lasts:?} }}\n"
        )
    };
    let plan = [
        fault(
            "call = \"write\"\npath = \"log\"\nfails = \"ENOSPC\"",
            0.1,
            0.7,
        ),
        fault("call = \"write\"\nshort = 2", 1.0, 0.7),
        fault("call = \"read\"\nfails = \"EIO\"\nonce = true", 1.9, 0.7),
        fault("call = \"sync\"\nslow_s = 1.2\nonce = true", 2.8, 1.5),
    ];
    let (result, said) = laid.run_as_planned(&plan.concat(), |said| {
        count(said, "write: No space left on device") > 1 && count(said, "write: 2") > 1
    });
    assert_eq!(count(&said, "read: Input/output error"), 1, "{said}");
    // Another one may be slow on a busy machine; how many were hit is asked below.
    assert!(count(&said, "fsync: None, slowly") >= 1, "{said}");
    // The bytes beyond those that were written are what they were.
    let reads = said.matches("read: ").count();
    assert_eq!(said.matches("read: b'hello'").count() + 1, reads, "{said}");
    let last: Vec<_> = said.lines().filter(|line| *line != "beat").collect();
    let last = last.rchunks(3).nth(1).expect("it went on");
    assert_eq!(last.len(), 3, "{said}");
    assert!(!last.join(" ").contains("error"), "{last:?}");
    let hits = |fault: usize| result["faults"][fault]["calls"].as_u64();
    assert_eq!((hits(2), hits(3)), (Some(1), Some(1)), "{result}");
}

/// What the program has in its memory is as ever: it writes the same object again and again.
#[test]
fn bytes_are_corrupted_on_the_way_and_nobody_says_so() {
    let laid = Laid::new(WRITES, &client(2.5));
    let fault = |call: &str, how: &str, at: f64| {
        format!(
            "[[faults]]\nat = {{ time_s = {at:?} }}\nfault = \"call\"\non = \"a\"\ncall = \"{call}\"
corrupt = \"{how}\"\nonce = true\nuntil = {{ after_s = 0.7 }}\n"
        )
    };
    let plan = [fault("read", "bit", 0.1), fault("write", "zeros", 1.0)];
    // On a machine that stands still for a second, it says so of a call that is right.
    let (result, said) = laid.run_as_planned(&plan.concat(), |said| !said.contains(", slowly"));
    let hits = |fault: usize| result["faults"][fault]["calls"].as_u64();
    assert_eq!((hits(0), hits(1)), (Some(1), Some(1)), "{result}");
    assert_eq!(count(&said, "read: b'hemlo'"), 1, "{said}");
    assert_eq!(count(&said, r"read: b'\x00\x00\x00\x00\x00'"), 1, "{said}");
    let (reads, right) = (said.matches("read: "), said.matches("read: b'hello'"));
    assert_eq!(reads.count(), right.count() + 2, "{said}");
    assert_eq!(said.matches("write: ").count(), count(&said, "write: 5"));
    // A sector is written as a whole, or not.
    let (status, runs) = laid.runs(&fault("write", "torn", 0.1), 1);
    let why = runs[0].0["why"].as_str().expect("words");
    let expected = "fault 1 hit nothing on a: there was no such call with bytes that it changes: the next \
                    write is corrupted: bytes are zero from the middle on";
    assert_eq!((status, why), (3, expected));
}

/// The program goes on with the machine it has: nothing boots.
#[test]
fn a_slow_disk_takes_its_time_as_long_as_the_fault_lasts() {
    let laid = Laid::new(WRITES, &format!("disk = \"ext4\"\n{}", client(4.0)));
    let plan =
        "[[faults]]\nat = { time_s = 0.2 }\nfault = \"disk\"\non = \"a\"\nrequests = \"flushes\"
slow_s = 1.2\nuntil = { after_s = 2.0 }\n";
    let (result, said) = laid.run_as_planned(plan, |said| {
        let last = said.rsplit("fsync: ").next();
        said.contains("fsync: None, slowly") && last.is_some_and(|last| !last.contains("slowly"))
    });
    assert!(result["faults"][0]["calls"].as_u64() >= Some(1), "{result}");
    assert_eq!(count(&said, "ready"), 1, "{said}");
    // The power fails while a flush is under way: what waits for it is dead before it succeeds.
    let loss = "[[faults]]\nat = { after_s = 0.5 }\nfault = \"power-loss\"\non = \"a\"
until = { after_s = 0.2 }\n";
    let plan = plan
        .replace("slow_s = 1.2", "slow_s = 600")
        .replace("2.0 }", "3.0 }");
    for fault in ["power-loss", "kill"] {
        let loss = loss.replace("power-loss", fault);
        let plan = format!("{plan}{loss}");
        let (result, said) = laid.run_as_planned(&plan, |said| count(said, "ready") == 2);
        // Nobody waited for it.
        let took = result["seconds"].as_f64().expect("it is said");
        assert!(took < 500.0, "{fault}: {result}{said}");
    }
}

/// The thread that is held is the one that writes; the other one goes on.
#[test]
fn a_held_call_stops_one_thread_and_a_power_loss_or_pause_of_its_node_ends_well() {
    let laid = Laid::new(WRITES, &format!("disk = \"ext4\"\n{}", client(2.5)));
    let hold = "[[faults]]\nat = { time_s = 0.2 }\nfault = \"call\"\non = \"a\"\ncall = \"fsync\"
hold = true\n";
    let beats = |held: &str| {
        let lines = held.lines().rev();
        lines.take_while(|line| *line == "beat").count()
    };
    laid.run_as_planned(&format!("{hold}until = {{ after_s = 1.5 }}\n"), |said| {
        let held = said.rsplit("fsync: None, slowly").skip(1);
        held.map(beats).max() >= Some(4)
    });
    for fault in ["power-loss", "pause", "kill"] {
        let plan = format!(
            "{hold}[[faults]]\nat = {{ after_s = 0.2 }}\nfault = \"{fault}\"\non = \"a\"
until = {{ after_s = 0.2 }}\n"
        );
        let (status, runs) = laid.runs(&plan, 1);
        assert_eq!(status, 0, "{fault}: {}", runs[0].0);
        assert_eq!(runs[0].0["faults"][1]["state"], "undone", "{}", runs[0].0);
    }
}

#[test]
fn a_call_that_never_comes_and_a_fault_that_hits_nothing_are_no_pass() {
    let laid = Laid::new(RENAMES, &client(0.3));
    let plan = "within_s = 0.1\n[[faults]]\nat = { call = \"rename\", path = \"other\" }
fault = \"kill\"\non = \"a\"\n";
    let (status, runs) = laid.runs(plan, 1);
    let why = runs[0].0["why"].as_str().expect("words");
    let expected = "fault 1 never happened: at { call = \"rename\", path = \"other\" }";
    assert_eq!((status, why), (3, expected));
    let plan = "[[faults]]\nat = { time_s = 0 }\nfault = \"call\"\non = \"a\"\ncall = \"fsync\"
fails = \"EIO\"\n";
    let (status, runs) = laid.runs(plan, 1);
    let why = runs[0].0["why"].as_str().expect("words");
    let expected = "fault 1 hit nothing on a: there was no such call: fsync fails with EIO";
    assert_eq!((status, why), (3, expected));
    assert_eq!(runs[0].0["faults"][0]["calls"], 0);
    // One of its nodes is enough.
    let idle = "[[nodes]]\nname = \"b\"\ncommand = \"sh -c 'echo ready; exec sleep 600'\"
ready = { log = \"ready\" }\nstop = \"SIGKILL\"\n";
    let laid = Laid::new(RENAMES, &format!("{}{idle}", client(2.0)));
    let plan =
        "[[faults]]\nat = { time_s = 0 }\nfault = \"call\"\non = [\"a\", \"b\"]\ncall = \"rename\"
slow_s = 0.001\n";
    let (result, _) = laid.run_as_planned(plan, |_| true);
    assert!(result["faults"][0]["calls"].as_u64() > Some(0), "{result}");
}

#[test]
fn what_cannot_be_said_of_calls_is_refused_with_line_and_column() {
    let laid = Laid::new(RENAMES, &client(0.3));
    let refused = |plan: &str, place: &str, expected: &str| {
        let output = laid.inject(plan, &[]);
        assert_eq!(output.status.code(), Some(2), "{plan}");
        let start = format!("error: {}:{place}: ", laid.path("plan.toml").display());
        let words = said(&output);
        let rest = words.strip_prefix(&start);
        let rest = rest.unwrap_or_else(|| panic!("{words}")).trim_end();
        assert!(
            rest.starts_with(expected) && !rest.contains('\n'),
            "{words}"
        );
    };
    let at = |trigger: &str, place: &str, expected: &str| {
        let plan = format!("[[faults]]\nat = {{ {trigger} }}\nfault = \"kill\"\non = \"a\"\n");
        refused(&plan, place, expected);
    };
    let fault = |keys: &str, place: &str, expected: &str| {
        let plan = format!("[[faults]]\nat = {{ time_s = 0 }}\non = \"a\"\n{keys}\n");
        refused(&plan, place, expected);
    };
    at(
        "call = \"fsnc\"",
        "2:15",
        "there is no call `fsnc`: there are fsync, ",
    );
    at(
        "call = \"fsync\", node = \"z\"",
        "2:31",
        "there is no node or role `z`",
    );
    at(
        "call = \"fsync\", nth = 0",
        "2:30",
        "it is counted from 1 on",
    );
    at(
        "call = \"fsync\", path = \"\"",
        "2:31",
        "no file has an empty path",
    );
    at(
        "call = \"fsync\", when = \"late\"",
        "2:31",
        "unknown variant `late`",
    );
    at(
        "time_s = 1, path = \"x\"",
        "2:27",
        "`path` is only for call",
    );
    at(
        "call = \"fsync\", time_s = 1",
        "2:6",
        "one thing is waited for",
    );
    fault(
        "fault = \"call\"\nfails = \"EIO\"",
        "4:9",
        "it needs `call`",
    );
    fault(
        "fault = \"call\"\ncall = \"fsync\"",
        "4:9",
        "say what comes of the call",
    );
    let both = "fault = \"call\"\ncall = \"fsync\"\nfails = \"EIO\"\nslow_s = 1";
    fault(both, "4:9", "say what comes of the call");
    let unknown = "fault = \"call\"\ncall = \"fsync\"\nfails = \"EWHAT\"";
    fault(unknown, "6:9", "there is no error `EWHAT`: there are EIO, ");
    let short = "fault = \"call\"\ncall = \"fsync\"\nshort = 3";
    fault(short, "6:9", "`short` is only for write and read");
    let corrupt = "fault = \"call\"\ncall = \"fsync\"\ncorrupt = \"bit\"";
    fault(corrupt, "6:11", "`corrupt` is only for write and read");
    let how = "fault = \"call\"\ncall = \"read\"\ncorrupt = \"all\"";
    fault(how, "6:11", "unknown variant `all`");
    fault(
        "fault = \"kill\"\nhold = true",
        "5:8",
        "`hold` is only for fault = \"call\"",
    );
}
