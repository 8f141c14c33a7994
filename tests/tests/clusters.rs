//! Clusters of real programs: they start, work and stop, several side by side, and whatever goes
//! wrong is one line, and leaves nothing. Needs root, redis and Python.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use end_to_end::{
    Family, Running, crashpoint, printed, program, require_root, said, settle, wait_until,
};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(600);

/// A folder with a cluster file, and one for temporary files. What the nodes run has a mark of its
/// own in its command line.
struct Laid {
    folder: TempDir,
    temporary: TempDir,
    mark: String,
}

impl Laid {
    /// `MARK` in the text becomes a number that nobody else uses.
    fn new(text: &str) -> Self {
        require_root();
        let folder = tempfile::tempdir().expect("a directory");
        let mark = format!(
            "31536{}",
            folder
                .path()
                .display()
                .to_string()
                .bytes()
                .fold(0_u32, |sum, byte| {
                    sum.wrapping_mul(31).wrapping_add(byte.into())
                })
        );
        fs::write(
            folder.path().join("cluster.toml"),
            text.replace("MARK", &mark),
        )
        .expect("written");
        Self {
            folder,
            temporary: tempfile::tempdir().expect("a directory"),
            mark,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("crashpoint"));
        command
            .args(["cluster", "run"])
            .arg(self.folder.path().join("cluster.toml"))
            .args(arguments);
        command
            .env("TMPDIR", self.temporary.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = self.command(arguments).output().expect("it runs");
        self.assert_nothing_is_left();
        output
    }

    /// It ends with a status, and with one line that says why.
    fn fails(&self, arguments: &[&str], status: i32) -> String {
        let output = self.run(arguments);
        let words = said(&output);
        assert_eq!(output.status.code(), Some(status), "{words}");
        let errors: Vec<_> = words.lines().filter(|line| !line.ends_with(" s")).collect();
        assert_eq!(errors.len(), 1, "{words}");
        errors[0].to_owned()
    }

    /// What runs in nodes of this cluster.
    fn processes(&self) -> Vec<String> {
        let entries = fs::read_dir("/proc").expect("there is /proc").flatten();
        let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| line.contains(&self.mark)).collect()
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.processes(), [""; 0]);
        let left: Vec<_> = fs::read_dir(self.temporary.path())
            .expect("it is there")
            .flatten()
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Starts it, and waits until it says that it is ready.
    fn start(&self) -> Running {
        let mut command = self.command(&[]);
        let mut started = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(started.stdout.as_mut().expect("piped")),
            &mut line,
        )
        .expect("a line");
        assert!(line.contains("nsenter"), "{line}");
        // Each is started by one of ours, which takes a moment.
        wait_until("two nodes run", PATIENCE, || {
            self.processes().len() >= 2 * 2
        });
        started
    }
}

/// Two nodes that do nothing, and do not mind to be told to stop.
const IDLE: &str = r#"
[[nodes]]
names = ["one", "two"]
command = "sleep MARK"
"#;

#[test]
fn redis_keeps_what_it_acknowledged_when_all_its_nodes_are_killed() {
    require_root();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/clusters/redis/cluster.toml"
    );
    let output = crashpoint()
        .args(["cluster", "run", file, "--client", "--restart", "--check"])
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let printed = printed(&output);
    assert!(
        printed.contains("set k4 v20\n") && printed.ends_with("\nok\n"),
        "{printed}"
    );
}

#[test]
fn a_node_that_does_not_come_up_again_is_what_was_to_be_seen() {
    let file = r#"
[[nodes]]
names = ["one"]
command = "sh -c 'test ! -e {dir}/once || exit 7; touch {dir}/once; echo ready; exec sleep 60'"
ready = { log = "ready" }
[client]
command = "true"
[check]
command = "echo ok"
"#;
    let restarted = |text: &str, status: i32| {
        let output = Laid::new(text).run(&["--client", "--restart", "--check"]);
        assert_eq!(output.status.code(), Some(status), "{}", said(&output));
        (printed(&output), said(&output))
    };
    let (printed, _) = restarted(file, 1);
    assert!(
        printed.contains("broken node one does not come up: it ended with status 7"),
        "{printed}"
    );
    // Somebody else did that.
    let (printed, said) = restarted(&file.replace("exit 7", "kill -9 $$"), 3);
    assert!(!printed.contains("broken"), "{printed}");
    let expected = "inconclusive: node one does not come up: it was ended by SIGKILL";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn redis_that_writes_nothing_down_is_found_out() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/clusters");
    let text = fs::read_to_string(format!("{folder}/redis/cluster.toml")).expect("read");
    let forgetful = text
        .replace("appendonly yes", "appendonly no")
        .replace("{here}/..", folder);
    let output = Laid::new(&forgetful).run(&["--client", "--restart", "--check"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let printed = printed(&output);
    let broken: Vec<_> = printed
        .lines()
        .filter(|line| line.starts_with("broken "))
        .collect();
    assert_eq!(
        broken.len(),
        8 * 3,
        "each key is gone from each node: {broken:?}"
    );
    assert_eq!(
        broken[1],
        "broken k0: replica1 has lost it; v16 was acknowledged"
    );
}

#[test]
fn redis_is_recorded() {
    require_root();
    let out = tempfile::tempdir().expect("a directory");
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/clusters/redis/cluster.toml"
    );
    let output = crashpoint()
        .args(["cluster", "record", file, "-o"])
        .arg(out.path())
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let acknowledged = printed(&output)
        .lines()
        .any(|line| line.starts_with("client") && line.contains(" 40 ack"));
    assert!(acknowledged, "{}", printed(&output));
}

#[test]
fn datagrams_between_nodes_are_not_measured_and_those_within_one_are_nobodys_business() {
    let recorded = |to: &str| {
        let text = format!(
            r#"
            nodes = [{{ name = "one", command = "sleep MARK" }}, {{ name = "two", command = """python3 -c '
import socket, time
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
udp.sendto(b"x", ("{to}", 9))
print("told", flush=True)
time.sleep(600)'""", ready = {{ log = "told" }} }}]
            [client]
            command = "true"
            "#
        );
        let laid = Laid::new(&text);
        let out = tempfile::tempdir().expect("a directory");
        let file = laid.folder.path().join("cluster.toml");
        let mut command = Command::new(program("crashpoint"));
        command
            .args(["cluster", "record"])
            .arg(file)
            .arg("-o")
            .arg(out.path())
            .env("TMPDIR", laid.temporary.path());
        let output = command.output().expect("it runs");
        laid.assert_nothing_is_left();
        (output.status.code(), printed(&output), said(&output))
    };
    for to in ["127.0.0.1", "{address:two}"] {
        let (status, printed, said) = recorded(to);
        assert_eq!(status, Some(0), "{to}: {printed}{said}");
    }
    for to in ["{address:one}", "client", "10.77.255.255"] {
        let (status, printed, said) = recorded(to);
        assert_eq!(status, Some(3), "{to}: {printed}{said}");
        assert!(
            printed.contains("not recorded: sendto (a datagram to another node), 1 time"),
            "{to}: {printed}"
        );
    }
}

#[test]
fn clusters_side_by_side_have_the_same_addresses_and_do_not_see_each_other() {
    let text = r#"
        nodes = [{ name = "store", command = "redis-server --bind {address} --protected-mode no --save '' --logfile MARK", ready = { port = 6379 } }]
        [client]
        command = "sh -c 'redis-cli -h store set key MARK; sleep 1; redis-cli -h store get key; hostname; echo $CRASHPOINT_NODE_STORE'"
    "#;
    let clusters = [Laid::new(text), Laid::new(text), Laid::new(text)];
    let children: Vec<_> = clusters
        .iter()
        .map(|laid| {
            let mut command = laid.command(&["--client"]);
            Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
        })
        .collect();
    for (laid, child) in clusters.iter().zip(children) {
        let output = child.output();
        assert_eq!(
            printed(&output),
            format!("OK\n{}\nclient\n10.77.0.1\n", laid.mark),
            "{}",
            said(&output)
        );
        laid.assert_nothing_is_left();
    }
}

#[test]
fn nodes_order_nothing_through_temporary_files_and_are_no_part_of_this_boot() {
    // The folder with the script is a temporary one itself.
    let text = r#"
        [[nodes]]
        name = "first"
        command = "sh FOLDER/serve"
        ready = { log = "made" }
        [[nodes]]
        name = "second"
        command = "sh FOLDER/serve"
        ready = { log = "made" }
        after = ["first"]
        [check]
        command = "sh -c 'echo ok'"
    "#;
    let laid = Laid::new(text);
    let script = r#"
        for place in /tmp /var/tmp /dev/shm; do
            test ! -e $place/crashpoint-MARK || exit 3
            mkdir $place/crashpoint-MARK && echo $(hostname) >$place/crashpoint-MARK/file || exit 4
        done
        test "$(cat /proc/sys/kernel/random/boot_id)" != "$(cat FOLDER/boot-id)" || exit 5
        echo made
        sleep MARK
    "#;
    let file = laid.folder.path().join("cluster.toml");
    let folder = laid.folder.path().to_str().expect("text");
    let in_folder = |text: &str| text.replace("FOLDER", folder).replace("MARK", &laid.mark);
    fs::write(&file, in_folder(text)).expect("written");
    fs::write(laid.folder.path().join("serve"), in_folder(script)).expect("written");
    let boot_id = fs::read("/proc/sys/kernel/random/boot_id").expect("there is one");
    fs::write(laid.folder.path().join("boot-id"), boot_id).expect("written");
    let output = laid.run(&["--check"]);
    assert_eq!(printed(&output), "ok\n", "{}", said(&output));
    for place in ["/tmp", "/var/tmp", "/dev/shm"] {
        let left = Path::new(place).join(format!("crashpoint-{}", laid.mark));
        assert!(!left.exists(), "{}", left.display());
    }
}

#[test]
fn a_cluster_that_is_stopped_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let laid = Laid::new(IDLE);
        let mut started = laid.start();
        started.send(signal);
        assert!(started.end().success());
        laid.assert_nothing_is_left();
    }
}

#[test]
fn an_interrupt_of_the_check_is_no_verdict() {
    let check = "[check]\ncommand = \"sh -c 'sleep MARK; echo ok asked'\"\n";
    let laid = Laid::new(&format!("{IDLE}{check}"));
    let mut command = laid.command(&["--check"]);
    let started = Running::start(command.stderr(Stdio::piped()));
    let is_asked = || laid.processes().iter().any(|line| line.contains("asked"));
    wait_until("the check runs", PATIENCE, is_asked);
    started.send(Signal::SIGINT);
    let output = started.output();
    let words = said(&output);
    assert_eq!(output.status.code(), Some(3), "{words}");
    assert!(
        words.contains("interrupted: everything is stopped"),
        "{words}"
    );
    assert!(!words.contains("inconclusive"), "{words}");
    laid.assert_nothing_is_left();
}

#[test]
fn a_cluster_that_is_killed_leaves_an_empty_directory_that_clean_removes() {
    let laid = Laid::new(IDLE);
    let mut started = laid.start();
    let family = Family::of(started.id());
    assert!(
        family.len() >= 8,
        "us, three first processes, two that entered, two that sleep: {family:?}"
    );
    started.send(Signal::SIGKILL);
    started.end();
    let left = settle(&family, laid.temporary.path(), |left| {
        laid.processes().is_empty() && left.len() <= 1
    });
    assert!(left.len() <= 1, "{left:#?}");
    assert_eq!(laid.processes(), [""; 0]);
    let left: Vec<_> = fs::read_dir(laid.temporary.path())
        .expect("it is there")
        .flatten()
        .collect();
    assert_eq!(left.len(), 1);
    assert_eq!(
        fs::read_dir(left[0].path()).expect("it is there").count(),
        0
    );
    let cleaned = crashpoint()
        .arg("clean")
        .env("TMPDIR", laid.temporary.path())
        .output()
        .expect("it runs");
    assert!(
        printed(&cleaned).contains("removed "),
        "{}",
        printed(&cleaned)
    );
    laid.assert_nothing_is_left();
}

#[test]
fn a_node_that_does_not_heed_its_signal_is_killed_with_all_that_it_started() {
    let text = r#"
        [[nodes]]
        name = "deaf"
        command = "sh -c 'trap \"\" TERM; setsid sleep MARK & echo deaf; while true; do sleep 1; done'"
        ready = { log = "deaf" }
        stop_within_s = 0.3
        [client]
        command = "true"
    "#;
    let output = Laid::new(text).run(&["--client"]);
    assert!(output.status.success());
    assert!(
        said(&output).contains("killed, as it did not stop in its time: deaf"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_misspelt_key_and_a_program_that_is_not_there_are_told_before_anything_starts() {
    let error = Laid::new(&IDLE.replace("command", "comand")).fails(&[], 2);
    assert!(
        error.contains(
            "cluster.toml line 4, column 1: unknown field `comand`, expected one of `name`"
        ),
        "{error}"
    );
    let error = Laid::new(&IDLE.replace("sleep", "slepe")).fails(&[], 2);
    assert_eq!(
        error,
        "error: node one: there is no program slepe: install it, or give its path"
    );
    let error = Laid::new(&format!("{IDLE}\n[check]\ncommand = './check {{acks}}'")).fails(&[], 2);
    assert_eq!(
        error,
        "error: the check: there is no program ./check: install it, or give its path"
    );
    let error = Laid::new(IDLE).fails(&["--check"], 2);
    assert_eq!(error, "error: the check is not in the cluster file");
}

#[test]
fn nodes_in_namespaces_have_no_disks_and_that_is_said() {
    let text = format!("disk = 'DISK'\n{IDLE}\n[client]\ncommand = 'true'");
    // One that can be recorded, and one that only simulated machines have.
    for file_system in ["ext4", "vfat"] {
        let output = Laid::new(&text.replace("DISK", file_system)).run(&["--client"]);
        let expected = format!("directories, and no disks with {file_system} (`disk` in the file)");
        assert!(
            output.status.success() && said(&output).contains(&expected),
            "{}",
            said(&output)
        );
    }
    for file_system in ["ntfs-3g", "ext5"] {
        let error = Laid::new(&text.replace("DISK", file_system)).fails(&["--client"], 2);
        assert!(error.contains(file_system), "{error}");
    }
}

#[test]
fn a_node_that_is_not_ready_in_its_time_is_told_with_the_end_of_its_log() {
    let text = r#"
        [[nodes]]
        name = "well"
        command = "sleep MARK"
        [[nodes]]
        name = "slow"
        command = "sh -c 'echo looking for my disk; sleep MARK'"
        ready_within_s = SECONDS
        ready = READY
    "#;
    for ready in [
        "{ port = 7 }",
        "{ log = 'ready to serve' }",
        "{ command = 'false' }",
        "{ command = 'sleep MARK' }",
    ] {
        let text = text.replace("READY", ready);
        let fails = |seconds: &str| Laid::new(&text.replace("SECONDS", seconds)).fails(&[], 2);
        let (mut within, mut error) = ("400ms", fails("0.4"));
        // On a busy machine it may not have logged anything by then.
        if error.ends_with("; it logged nothing") {
            (within, error) = ("60s", fails("60"));
        }
        let expected = format!(
            "error: node slow was not ready within {within}; its log ends: looking for my disk"
        );
        assert_eq!(error, expected, "{ready}");
    }
}

#[test]
fn a_node_that_ends_is_told_with_the_end_of_its_log() {
    let taken = r#"
        [[nodes]]
        name = "twice"
        command = "sh -c 'redis-server --port 7000 --save \"\" --logfile /dev/null & until redis-cli -p 7000 ping >/dev/null 2>&1; do sleep 0.05; done; exec redis-server --port 7000'"
        ready = { port = 7001 }
        ready_within_s = 600
    "#;
    let error = Laid::new(taken).fails(&[], 2);
    assert!(
        error.starts_with(
            "error: node twice ended with status 1 before it was ready; its log ends: "
        ),
        "{error}"
    );
    assert!(error.contains("Address already in use"), "{error}");
    let text = "nodes = [{ name = 'ends', command = 'sh -c \"sleep 3; kill -SEGV $$\"' }]";
    let error = Laid::new(text).fails(&[], 2);
    assert!(
        error.starts_with("error: node ends was ended by SIGSEGV by itself; it logged nothing"),
        "{error}"
    );
    let text =
        "nodes = [{ name = 'a', command = 'true', setup = ['sh -c \"echo no space; exit 4\"'] }]";
    let error = Laid::new(text).fails(&[], 2);
    assert!(
        error.contains("node a cannot be set up: sh -c echo no space; exit 4 ended with status 4"),
        "{error}"
    );
    assert!(error.ends_with("; its log ends: no space"), "{error}");
}

#[test]
fn only_a_check_that_decides_is_believed() {
    let check_within = |seconds: &str, script: &str| {
        Laid::new(&format!(
            "{IDLE}\n[check]\ncommand = '''sh -c \"{script}\" '''\nwithin_s = {seconds}"
        ))
    };
    let check = |script: &str| check_within("600", script);
    assert_eq!(printed(&check("echo ok").run(&["--check"])), "ok\n");
    let output = check("echo broken two has lost it").run(&["--check"]);
    assert_eq!(
        (output.status.code(), printed(&output).as_str()),
        (Some(1), "broken two has lost it\n")
    );
    // What kills it is a violation, whatever it had said.
    let output = check("echo ok; kill -SEGV $$").run(&["--check"]);
    assert_eq!(
        (output.status.code(), printed(&output).as_str()),
        (Some(1), "broken the check died of SIGSEGV\n")
    );
    for (script, why) in [
        ("sleep MARK", "the check did not end within 500ms"),
        (
            "echo ok; setsid sleep MARK",
            "the check did not end within 500ms",
        ),
        ("echo ok; kill -TERM $$", "the check was ended by SIGTERM"),
        (
            "echo ok; no-such-command",
            "the check ended with status 127",
        ),
        (
            "echo all is well",
            "the check gave no verdict: the last that it printed is `all is well`",
        ),
    ] {
        let seconds = if script.contains("sleep") {
            "0.5"
        } else {
            "600"
        };
        let error = check_within(seconds, script).fails(&["--check"], 3);
        assert!(
            error.starts_with(&format!("inconclusive: {why}")),
            "{error}"
        );
        assert_eq!(
            error.contains("not found"),
            script.contains("no-such-command"),
            "what it said itself: {error}"
        );
    }
}

#[test]
fn a_client_that_fails_or_hangs_is_told() {
    let client = |seconds: &str, script: &str| {
        let text =
            format!("{IDLE}\n[client]\ncommand = '''sh -c \"{script}\" '''\nwithin_s = {seconds}");
        Laid::new(&text).fails(&["--client", "--check"], 2)
    };
    assert!(
        client("600", "echo it is full >&2; exit 1")
            .starts_with("error: the client ended with status 1; its log ends: it is full")
    );
    assert!(client("0.5", "sleep MARK").starts_with("error: the client did not end within 500ms"));
}

#[test]
fn data_that_is_kept_is_gone_on_with() {
    let text = r#"
        [[nodes]]
        name = "one"
        command = "sh -c 'echo $(cat {dir}/number) >>{dir}/numbers; touch {dir}/up; sleep MARK'"
        setup = ["sh -c 'echo {number} >{dir}/number'"]
        files = { "sub/file" = "{name} {address}" }
        ready = { command = "test -e {dir}/up" }
        [client]
        command = "true"
    "#;
    let laid = Laid::new(text);
    let data = tempfile::tempdir().expect("a directory");
    for round in 1..=2 {
        let output = laid.run(&["--client", "--data", data.path().to_str().expect("text")]);
        assert!(output.status.success(), "{}", said(&output));
        let read =
            |path: &str| fs::read_to_string(data.path().join(Path::new(path))).expect("read");
        assert_eq!(read("one/numbers"), "1\n".repeat(round));
        assert_eq!(read("one/sub/file"), "one 10.77.0.1");
        fs::remove_file(data.path().join("one/up")).expect("it was up");
    }
}
