//! Clusters on simulated machines, by somebody who is not root. Root is needed to be somebody else.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use end_to_end::simulated::{Store, came, frames, results};
use end_to_end::{
    Ordinary, Running, printed, program, said, search_path, store_cluster, store_of_two, words,
};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use serde_json::Value;

fn history(output: &Output) -> String {
    let text = said(output);
    let line = text.lines().find_map(|line| line.strip_prefix("history "));
    line.unwrap_or_else(|| panic!("no history: {text}"))
        .split(':')
        .next()
        .expect("a part")
        .to_owned()
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn steps_run_once_and_in_their_order() {
    let client = "[client]\ncommand = \"true\"";
    let steps = Store::other("steps", client, client);
    let output = steps.run("7", &["--restart", "--check"]);
    assert!(
        printed(&output).lines().any(|line| line == "ok"),
        "{}",
        printed(&output)
    );
}

/// The setup of the node fails on a disk of the usual size, and the client says what it has of memory.
#[test]
fn machines_are_as_large_as_the_file_says() {
    let setup = "sh -c 'test $(df -BM --output=size . | tail -n 1 | tr -dc 0-9) -gt 1500'";
    let of = |simulated: &str| {
        let place = Ordinary::new();
        let text = format!(
            "[[nodes]]\nname = \"n\"\ncommand = \"sleep 1000\"\nstop = \"SIGKILL\"\n\
             setup = [\"{setup}\"]\n[client]\ncommand = \"grep MemTotal /proc/meminfo\"\n\
             [simulated]\n{simulated}\n"
        );
        place.file("cluster.toml", &text);
        Store::of(place)
    };
    let large = of("disk_mib = 2048\nmemory_mib = 128").run("7", &["--client"]);
    let text = printed(&large);
    let words: Vec<_> = text.split_whitespace().collect();
    let kib: u64 = words[1]
        .parse()
        .unwrap_or_else(|_| panic!("{}", said(&large)));
    assert!((100 << 10..128 << 10).contains(&kib), "{text}");
    let small = of("");
    let words = ["cluster", "run", "cluster.toml", "--client", "--simulate"];
    let small = small.crashpoint(&[&words[..], &["--kernel", &small.kernel]].concat());
    assert_eq!(small.status.code(), Some(2), "{}", said(&small));
    assert!(
        said(&small).contains("cannot be set up"),
        "{}",
        said(&small)
    );
}

/// The cluster file of one node with this command, which logs `up`, and something more.
fn of_one_node(command: &str, more: &str) -> Store {
    let place = Ordinary::new();
    let node = "[[nodes]]\nname = \"n\"\nready = { log = \"up\" }\nready_within_s = 5\n";
    let text = format!("{node}command = \"{command}\"\n{more}\n");
    place.file("cluster.toml", &text);
    Store::of(place)
}

/// A shell waits for its children with a signal that was blocked once. The node's user makes files in
/// directories that came with its files.
#[test]
fn commands_begin_without_blocked_signals_and_directories_of_files_are_the_user_s_of_the_node() {
    let waits = |words: &str| format!("sh -c 'sleep 0.1 & wait; {words}'");
    let client = waits("grep SigBlk /proc/self/status; echo waited");
    let more = format!(
        "user = \"nobody\"\nfiles = {{ \"conf/own/x\" = \"x\" }}\n\
         setup = [\"touch conf/new conf/own/new\"]\n\
         [client]\ncommand = \"{client}\"\nwithin_s = 5"
    );
    let store = of_one_node(&waits("echo up; exec sleep 1000"), &more);
    let text = printed(&store.run("7", &["--client"]));
    let words: Vec<_> = text.split_whitespace().collect();
    assert_eq!(words, ["SigBlk:", "0000000000000000", "waited"]);
    // What is recorded is started by a recorder.
    store.record("out/1");
}

#[test]
fn a_run_is_the_same_to_the_byte_on_another_day_and_another_with_another_seed() {
    let store = Store::of_two("");
    let options = |data: &'static str| ["--client", "--restart", "--check", "--data", data];
    let first = store.run("7", &options("out/first"));
    // Nor does it change anything what the caller has open.
    let open = File::open("/dev/null").expect("it is there");
    fcntl(&open, FcntlArg::F_SETFD(FdFlag::empty())).expect("it is open");
    let mut again = store.run_command("7", &options("out/again"));
    store.place.on_another_day(&mut again);
    let again = again.output().expect("it runs");
    drop(open);
    assert_eq!(printed(&first), printed(&again), "{}", said(&again));
    assert!(printed(&first).ends_with("ok\n"), "{}", printed(&first));
    assert_eq!(history(&first), history(&again));
    let files = store.files("out/first");
    for name in ["net.pcap", "a.console", "client.console", "a.log"] {
        assert!(files[name].len() > 100 || name == "a.log", "{name}");
    }
    assert_same_files(&files, &store.files("out/again"));
    assert_another_day(&store.place);
    let other = store.run("8", &["--client", "--check"]);
    assert_ne!(history(&first), history(&other));
}

fn assert_same_files(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>) {
    for (name, content) in one {
        assert!(other.get(name) == Some(content), "{name}");
    }
    assert_eq!(one.len(), other.len());
}

/// A guest that is no simulated machine has the clock of its host.
fn assert_another_day(place: &Ordinary) {
    let kernel = place.own_kernel();
    let words = [
        &["machine"],
        words(&kernel).as_slice(),
        &["--", "date", "+%s"],
    ]
    .concat();
    let mut date = place.crashpoint(&words);
    place.on_another_day(&mut date);
    let date = date.output().expect("it runs");
    let shown: u64 = printed(&date).trim().parse().expect("seconds");
    let now = std::time::UNIX_EPOCH.elapsed().expect("a time").as_secs();
    assert!(shown > now + 99 * 86_400, "{shown} {now}");
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn a_recording_is_the_same_to_the_byte_each_time() {
    let store = Store::recorded("early-acknowledgement");
    store.record("out/2");
    let (first, second) = (store.files("out/1"), store.files("out/2"));
    assert_same_files(&first, &second);
    assert!(first.contains_key("disk-2-log.zst"));
}

#[test]
fn what_was_recorded_on_machines_is_shown_and_its_states_are_counted() {
    let place = Ordinary::new();
    place.file("cluster.toml", &store_of_two("early-acknowledgement"));
    let store = Store::of(place);
    store.record("out/1");
    assert!(store.files("out/1").contains_key("disk-1-log.zst"));
    let shown = store.crashpoint(&["show", "out/1", "--pcap", "out/frames"]);
    assert_eq!(shown.status.code(), Some(0), "{}", said(&shown));
    let copied = std::fs::read(store.place.path("out/frames")).expect("read");
    assert!(frames(&copied).len() > 50);
    let shown = printed(&store.crashpoint(&["show", "out/1"]));
    // Who receives does so after it was sent, on the clock that all machines share.
    let time_of = |what: &str| {
        let line = shown.lines().find(|line| line.contains(what));
        let line = line.unwrap_or_else(|| panic!("no {what} in {shown}"));
        let ms: f64 = line
            .split_whitespace()
            .next()
            .expect("a time")
            .parse()
            .expect("one");
        ms
    };
    assert!(
        time_of("put key-1 value-1") < time_of("put key-2 value-2"),
        "{shown}"
    );
    // The nodes of a crash state are started in namespaces, which takes root.
    let (status, words) = came(&store.crashpoint(&["cluster", "sweep", "out/1"]));
    assert_eq!(status, Some(2), "{words}");
    assert!(
        words.contains("in a guest with `crashpoint machine`"),
        "{words}"
    );
    let counted = store.crashpoint(&["cluster", "states", "out/1", "--count"]);
    assert_eq!(counted.status.code(), Some(0), "{}", said(&counted));
    assert!(
        printed(&counted).contains("operations lost"),
        "{}",
        printed(&counted)
    );
}

/// The crash states of a recording are looked at in a guest, by somebody who can make no namespaces: with
/// the results on the host, where a sweep that was stopped is continued and a finished one only printed.
#[test]
#[ignore = "takes minutes: make test-clusters"]
fn what_was_recorded_without_root_is_swept_without_root() {
    let store = Store::with("early-acknowledgement");
    store.record("out/1");
    let sweep = |words: &[&str]| {
        let mut command = store.place.crashpoint_for_a_guest(words, &["store"]);
        came(&command.output().expect("it runs"))
    };
    let begin = ["cluster", "sweep", "out/1", "--out", "out/swept"];
    let (status, words) = sweep(&[&begin[..], &["--stop-after", "1"]].concat());
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("not root: this runs in a guest"), "{words}");
    assert!(words.contains("is lost"), "{words}");
    let tried = || results(&store.place.path("out/swept/results.jsonl")).len();
    let before = tried();
    let resume = ["cluster", "sweep", "--resume", "out/swept"];
    let (status, words) = sweep(&[&resume[..], &["--budget", "20s"]].concat());
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("not root: this runs in a guest"), "{words}");
    assert!(tried() > before, "{words}");
    let mut interrupted = store.place.crashpoint_for_a_guest(&resume, &["store"]);
    interrupted.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::start(&mut interrupted);
    std::thread::sleep(Duration::from_secs(15));
    running.send(Signal::SIGINT);
    let (status, words) = came(&running.output());
    assert_eq!(status, Some(1), "something was found before: {words}");
    assert!(words.contains("continue with"), "{words}");
    let (status, words) = sweep(&["show", "out/swept", "1"]);
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("is lost"), "{words}");
    a_finding_is_looked_at_without_root(&store);
    assert_eq!(store.place.processes(), Vec::<i32>::new());
    // What is refused is refused in the words of a sweep that needs no guest.
    let (status, words) = sweep(&begin);
    assert_eq!(status, Some(2), "{words}");
    assert!(words.contains("out/swept holds results already"), "{words}");
}

/// A real system, with the commands as they are shown, by an ordinary user: two recordings are the same to
/// the byte, and some crash states of one are looked at in a guest.
#[test]
#[ignore = "takes ten minutes, and etcd: make test-clusters"]
fn etcd_is_recorded_and_swept_without_root_as_it_is_shown() {
    let place = Ordinary::new();
    place.shared("etcd");
    for name in ["etcd/cluster.toml", "kv.py"] {
        let text = std::fs::read_to_string(clusters().join(name)).expect("read");
        place.file(name, &text);
    }
    let store = Store::of(place);
    let run = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let mut command = store.place.crashpoint_for_a_guest(&words, &[]);
        came(&command.output().expect("it runs"))
    };
    for out in ["run/", "again/"] {
        let line = format!("cluster record etcd/cluster.toml --simulate --seed 7 -o {out}");
        let (status, words) = run(&line);
        assert_eq!(status, Some(0), "{words}");
    }
    let (first, again) = (store.files("run"), store.files("again"));
    assert_same_files(&first, &again);
    assert!(first["net.pcap"].len() > 100);
    let (status, words) = run("cluster sweep run/ --sample 6 --out swept");
    // What it keeps is not what is tested here.
    assert!(matches!(status, Some(0 | 1)), "{status:?} {words}");
    assert!(words.contains("not root: this runs in a guest"), "{words}");
    let tried = results(&store.place.path("swept/results.jsonl"));
    let is_judged = |result: &&Value| result["verdict"] == "ok" || result["verdict"] == "broken";
    // Of six some may be equal.
    let judged = tried.iter().filter(is_judged).count();
    assert!(judged > 1, "{tried:?} {words}");
}

/// Finding 1 of `out/swept` is made again, kept and made smaller, each in a guest.
fn a_finding_is_looked_at_without_root(store: &Store) {
    let again = |words: &[&str]| {
        let mut command = store.place.crashpoint_for_a_guest(words, &["store"]);
        command.env("OF_THE_USER", "is passed on");
        came(&command.output().expect("it runs"))
    };
    let replay = ["replay", "out/swept", "1"];
    let look = ["--command", "echo $OF_THE_USER"];
    let (status, words) = again(&[&replay[..], &look].concat());
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("is lost"), "{words}");
    assert!(words.contains("is passed on\n"), "{words}");
    let (status, words) = again(&[&replay[..], &["--keep", "out/kept"]].concat());
    assert_eq!(status, Some(0), "{words}");
    assert!(
        store.place.path("out/kept/acknowledged").exists(),
        "{words}"
    );
    let (status, words) = again(&["minimize", "out/swept", "1", "--keep", "out/smaller"]);
    assert_eq!(status, Some(1), "{words}");
    assert!(words.contains("FINDING 1"), "{words}");
    assert!(store.place.path("out/smaller/acknowledged").exists());
    // There is nobody who could look.
    let (status, words) = again(&replay);
    assert_eq!(status, Some(2), "{words}");
    assert!(words.contains("give --command or --keep"), "{words}");
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn the_states_of_a_recording_show_what_was_planted() {
    let store = Store::recorded("early-acknowledgement");
    let sweep = |level: &str, options: &[&str]| {
        let trace = store.place.path("out/1");
        let mut command = std::process::Command::new(program("crashpoint"));
        command
            .env("PATH", &store.path)
            .args(["cluster", "sweep"])
            .arg(trace);
        command
            .args(["--level", level, "--stop-after", "1"])
            .args(options);
        command.output().expect("it runs")
    };
    // One state of twenty shows it, and the first of them is enough.
    let found = sweep("syscalls", &["--model", "ext4-ordered", "--sample", "200"]);
    assert_eq!(
        found.status.code(),
        Some(1),
        "{}{}",
        printed(&found),
        said(&found)
    );
    let text = printed(&found);
    assert!(text.contains("is lost"), "{text}");
    // Its disks are mounted as others are.
    let looked = sweep("block", &["--sample", "2", "--states", "prefix"]);
    assert_eq!(
        looked.status.code(),
        Some(0),
        "{}{}",
        printed(&looked),
        said(&looked)
    );
}

#[test]
fn what_cannot_be_simulated_is_said_in_one_line() {
    let store = Store::with("");
    let cases = [
        (
            &["--client", "--data", "."][..],
            "is not empty: a simulated run begins with new disks",
        ),
        (&[][..], "give --client or --check"),
    ];
    for (options, expected) in cases {
        let words = [
            "cluster",
            "run",
            "cluster.toml",
            "--simulate",
            "--kernel",
            &store.kernel,
        ];
        let output = store.crashpoint(&[&words[..], options].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
    }
    let words = [
        "cluster",
        "run",
        "cluster.toml",
        "--client",
        "--simulate",
        "--kernel",
        "/bin/true",
    ];
    let output = store.crashpoint(&words);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    // A sweep of its trace would have to repair each state of a disk.
    let text = format!("disk = \"minix\"\n{}", store_cluster(""));
    store.place.file("cluster.toml", &text);
    let words = [
        "cluster",
        "record",
        "cluster.toml",
        "--simulate",
        "-o",
        "out/r",
    ];
    let output = store.crashpoint(&[&words[..], &["--kernel", &store.kernel]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let refused = "programs cannot have a disk with minix";
    assert!(said(&output).contains(refused), "{}", said(&output));
    let again = store.sweep(&["--again", "1"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    let refused = "--again: nobody promises what is left if the power fails during a repair";
    assert!(said(&again).contains(refused), "{}", said(&again));
}

#[test]
#[ignore = "takes half a minute: make test-repeats"]
fn five_runs_through_a_power_failure_are_equal_on_simulated_machines() {
    let store = Store::with("");
    let options = [
        "--client",
        "--restart",
        "--check",
        "--clocks",
        "100ms,50ppm",
    ];
    let run = || {
        let output = store.run("7", &options);
        assert!(printed(&output).ends_with("ok\n"), "{}", printed(&output));
        history(&output)
    };
    let histories: Vec<_> = (0..5).map(|_| run()).collect();
    assert!(
        histories.iter().all(|history| *history == histories[0]),
        "{histories:?}"
    );
}

/// A leader of the store with so many followers.
fn with_followers(followers: usize) -> String {
    let names: Vec<_> = (1..=followers).map(|number| format!("f{number}")).collect();
    let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let led: Vec<_> = names
        .iter()
        .map(|name| format!("{{address:{name}}}"))
        .collect();
    let text = store_cluster("");
    let text = text.replace("[\"b\", \"c\"]", &format!("[{}]", quoted.join(", ")));
    text.replace("{address:b},{address:c}", &led.join(","))
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn fifty_machines_are_one_simulation_which_is_the_same_twice() {
    let place = Ordinary::new();
    place.file("cluster.toml", &with_followers(49));
    let store = Store::of(place);
    let options = ["--client", "--restart", "--check"];
    let (first, again) = (store.run("7", &options), store.run("7", &options));
    assert!(printed(&first).ends_with("ok\n"), "{}", printed(&first));
    assert!(
        said(&first).contains("50 nodes are ready"),
        "{}",
        said(&first)
    );
    assert_eq!(printed(&first), printed(&again));
    assert_eq!(history(&first), history(&again));
}

/// The folder of the systems.
fn clusters() -> &'static Path {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../workloads/clusters"
    ))
}

/// The cluster file of a system of `workloads/clusters`.
fn file_of(system: &str) -> PathBuf {
    clusters().join(system).join("cluster.toml")
}

fn a_system_repeats(name: &str, ends: &str) {
    repeats(name, &file_of(name), ends);
}

/// The client runs, the power of all nodes fails, they boot, and the check is asked. What comes of it is
/// the same twice.
fn repeats(name: &str, file: &Path, ends: &str) {
    let run = || {
        let mut command = std::process::Command::new(program("crashpoint"));
        command.args(["cluster", "run"]).arg(file);
        command.args([
            "--simulate",
            "--seed",
            "7",
            "--client",
            "--restart",
            "--check",
        ]);
        let output = command.output().expect("it runs");
        let last = said(&output).lines().last().unwrap_or_default().to_owned();
        println!("{name}: {last}");
        (output.status.code(), printed(&output), last)
    };
    let (first, again) = (run(), run());
    let line = |last: &str| {
        last.split(" frames, ")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!((&first.0, &first.1), (&again.0, &again.1));
    assert_eq!(line(&first.2), line(&again.2));
    assert!(
        format!("{}{}", first.1, first.2).contains(ends),
        "{}{}",
        first.1,
        first.2
    );
}

#[test]
#[ignore = "takes minutes, and the systems: make test-clusters"]
fn redis_and_its_sentinels_repeat() {
    a_system_repeats("redis", "ok\n");
    a_system_repeats("redis-sentinel", "ok\n");
}

#[test]
#[ignore = "takes minutes, and the systems: make test-clusters"]
fn etcd_and_postgresql_repeat() {
    a_system_repeats("etcd", "ok\n");
    a_system_repeats("postgresql", "ok\n");
}

/// Both lose what they promised where the power of all nodes fails: NATS by design, with its default
/// sync interval; ZooKeeper 3.8 does not start on a log without its first snapshot, which it does not
/// sync. After `prepare` that is durable.
#[test]
#[ignore = "takes minutes, and the systems: make test-clusters"]
fn nats_and_zookeeper_repeat_what_they_lose() {
    a_system_repeats("nats-jetstream", "broken ");
    a_system_repeats("zookeeper", "ok\n");
    let file = file_of("zookeeper");
    let text = std::fs::read_to_string(&file).expect("read");
    let here = file.parent().and_then(Path::to_str).expect("a folder");
    let is_kept = |line: &&str| !line.starts_with("prepare = ");
    let lines: Vec<_> = text.lines().filter(is_kept).collect();
    // Machines see no file directly in /tmp.
    let own = tempfile::tempdir().expect("a directory");
    let file = own.path().join("cluster.toml");
    std::fs::write(&file, lines.join("\n").replace("{here}", here)).expect("written");
    repeats("zookeeper, not prepared", &file, "No snapshot found");
}

/// Keeps as many processors busy as it is asked to, until it is dropped.
struct Busy {
    is_over: Arc<AtomicBool>,
}

impl Busy {
    fn of(threads: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self { is_over }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// How many runs of a system are compared, and how many of them are made beside others who keep all
/// processors busy.
const RUNS: usize = 10;
const RUNS_BESIDE_OTHERS: usize = 3;

/// What a run came to: its status, what was printed, and what its nodes logged and its kernels said.
struct Outcome {
    status: Option<i32>,
    text: String,
    logs: BTreeMap<String, Vec<u8>>,
}

/// A run of a cluster through the faults of a plan, which has a directory of its own.
fn run_through(file: &Path, plan: &Path, seed: &str) -> Outcome {
    let place = plan.parent().expect("a directory");
    let mut command = std::process::Command::new(program("crashpoint"));
    command.env("PATH", search_path()).current_dir(place);
    command.arg("inject").arg(file).arg("--plan").arg(plan);
    command.args(["--simulate", "--seed", seed, "--out", "out"]);
    let output = command.output().expect("it runs");
    let text = printed(&output);
    assert!(text.contains("  history       "), "{text}{}", said(&output));
    for number in 1..=2 {
        let ended = format!("fault {number} has ended\n");
        assert!(text.contains(&ended), "{text}");
    }
    let left = place.join("out");
    let logs = logs_of(&left);
    std::fs::remove_dir_all(&left).expect("removed");
    Outcome {
        status: output.status.code(),
        text,
        logs,
    }
}

/// What nodes logged and kernels said in the one run of a campaign.
fn logs_of(results: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = |path: &Path| {
        let entries = std::fs::read_dir(path).expect("it is there");
        let paths = entries.map(|entry| entry.expect("read").path());
        paths.collect::<Vec<_>>()
    };
    let runs = files(&results.join("runs"));
    assert_eq!(runs.len(), 1, "{runs:?}");
    let read = |path: PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let content = std::fs::read(&path).expect("read");
        (name.expect("text").to_owned(), content)
    };
    files(&runs[0].join("logs")).into_iter().map(read).collect()
}

/// What keeps all that it acknowledged comes to `ok`.
const KEEPS: &[i32] = &[0];
/// What does not wait for its replicas or its disks may lose some of it: the same each time.
const MAY_LOSE: &[i32] = &[0, 1];

/// The power of one node fails and it boots; then one is cut off, and the links are healed. Ten runs come to
/// the same, to the byte, and so do those on a busy machine. Another seed is another run. A node is named, or
/// the role that it has then.
///
/// `system` is the folder of its cluster file, from that of the project.
fn runs_are_equal(system: &str, [fails, cut_off]: [&str; 2], statuses: &[i32]) {
    let place = tempfile::tempdir().expect("a directory");
    let plan = place.path().join("plan.toml");
    let text = include_str!("../fixtures/plans/power-and-partition.toml");
    let text = text.replace("FAILS", fails).replace("CUT_OFF", cut_off);
    std::fs::write(&plan, text).expect("written");
    let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let file = file.join(system).join("cluster.toml");
    let run = |seed: &str| run_through(&file, &plan, seed);
    let first = run("7");
    let status = first.status.expect("it ended");
    assert!(statuses.contains(&status), "{status}: {}", first.text);
    let is_console = |name: &&String| name.ends_with(".console");
    let consoles = first.logs.keys().filter(is_console).count();
    assert!(consoles > 2, "of two nodes and a client: {consoles}");
    let history = first.text.lines().find(|line| line.contains("history"));
    println!("{system}: status {status}, {}", history.unwrap_or_default());
    for number in 1..RUNS {
        let _busy = (number >= RUNS - RUNS_BESIDE_OTHERS).then(|| Busy::of(8));
        let again = run("7");
        let said = (again.status, &again.text);
        assert_eq!(said, (first.status, &first.text), "{system}, run {number}");
        assert_same_files(&first.logs, &again.logs);
    }
    assert_ne!(run("8").text, first.text);
}

/// The node that leads when its power fails, and one that follows when the first one is ready again.
const LEADER_AND_FOLLOWER: [&str; 2] = ["leader", "follower"];

#[test]
#[ignore = "takes minutes: make test-repeats"]
fn ten_runs_of_the_store_that_elects_through_faults_are_equal() {
    runs_are_equal("tests/fixtures/elects", LEADER_AND_FOLLOWER, KEEPS);
}

#[test]
#[ignore = "takes ten minutes: make test-repeats"]
fn ten_runs_of_etcd_and_of_redis_through_faults_are_equal() {
    runs_are_equal("workloads/clusters/etcd", LEADER_AND_FOLLOWER, KEEPS);
    let redis = "workloads/clusters/redis-sentinel";
    runs_are_equal(redis, ["leader", "replica"], MAY_LOSE);
}

#[test]
#[ignore = "takes ten minutes, and the systems: make test-clusters"]
fn nats_and_zookeeper_repeat_through_faults_ten_times() {
    let nats = "workloads/clusters/nats-jetstream";
    runs_are_equal(nats, LEADER_AND_FOLLOWER, MAY_LOSE);
    runs_are_equal("workloads/clusters/zookeeper", LEADER_AND_FOLLOWER, KEEPS);
}

/// It has no probe, since the one that leads is always the same.
#[test]
#[ignore = "takes half an hour, and the system: make test-clusters"]
fn postgresql_repeats_through_faults_ten_times() {
    let nodes = ["primary", "standby"];
    runs_are_equal("workloads/clusters/postgresql", nodes, KEEPS);
}

#[test]
fn what_machines_cost_is_measured() {
    let place = Ordinary::new();
    let kernel = format!("uml:{}", place.simulation_kernel());
    let words = ["bench", "--machines", "--seconds", "1", "--format", "json"];
    let mut command = place.crashpoint(&[&words[..], &["--kernel", &kernel]].concat());
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let measured: Value = serde_json::from_str(&printed(&output)).expect("one object");
    assert_eq!(measured["type"], "bench-machines");
    // Wide enough for any host: these are about what is counted, and not about how fast it is.
    let figures = [
        ("rounds", 1.0, 1.0),
        ("machine_s", 0.01, 60.0),
        ("machine_cpu_s", 0.01, 60.0),
        ("idle_mib", 1.0, 80.0),
        ("idle_of_five_mib", 1.0, 80.0),
        ("messages_per_s", 100.0, 1e7),
        ("floor_messages_per_s", 100.0, 1e8),
        ("messages_ratio", 0.001, 10.0),
        ("frame_ms", 0.001, 100.0),
        ("five_s", 0.05, 300.0),
    ];
    for (name, least, most) in figures {
        let value = measured[name].as_f64();
        let plausible = value.is_some_and(|value| (least..=most).contains(&value));
        assert!(plausible, "{name}: {measured}");
    }
    // There are none of these with one processor.
    for name in ["two_ratio", "floor_two_ratio"] {
        let value = &measured[name];
        let plausible = value
            .as_f64()
            .is_none_or(|ratio| (0.1..20.0).contains(&ratio));
        assert!(plausible && !value.is_string(), "{name}: {measured}");
    }
}
