//! Campaigns of injected faults in parts, with a budget, and killed: the results are those of one that
//! went through. Needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use end_to_end::{Family, crashpoint, printed, program, require_root, said};
use serde_json::Value;
use tempfile::TempDir;

/// How long something may take on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ready at once, and broken whatever happens.
const CLUSTER: &str = r#"
[[nodes]]
names = ["a", "b"]
command = "sh -c 'echo ready; exec sleep 600'"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sleep 0.1"
[check]
command = "echo broken it is"
"#;

const PLAN: &str = "[[faults]]\nat = { time_s = 0 }\nfault = \"kill\"\non = \"a\"\n";

struct Laid(TempDir);

impl Laid {
    fn new() -> Self {
        require_root();
        let folder = tempfile::tempdir().expect("a directory");
        fs::write(folder.path().join("cluster.toml"), CLUSTER).expect("written");
        fs::write(folder.path().join("plan.toml"), PLAN).expect("written");
        fs::create_dir(folder.path().join("tmp")).expect("made");
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = crashpoint();
        command.args(arguments).current_dir(self.0.path());
        command.env("TMPDIR", self.path("tmp"));
        command.output().expect("it runs")
    }

    /// The plan and the first line that is broken of each run, by its index.
    fn results(&self, out: &str) -> BTreeMap<u64, (String, String)> {
        let text = fs::read_to_string(self.path(out).join("results.jsonl")).expect("read");
        let mut all = BTreeMap::new();
        for line in text.lines() {
            // What was half written when it was killed is none.
            let Ok(result) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let index = result["index"].as_u64().expect("a number");
            let came = (text(&result["plan"]), text(&result["broken"][0]));
            assert_eq!(all.insert(index, came), None, "run {index} is there twice");
        }
        all
    }
}

#[test]
fn shards_put_together_are_the_campaign() {
    let laid = Laid::new();
    let campaign = [
        "inject",
        "cluster.toml",
        "--strategy",
        "time",
        "--sample",
        "4",
    ];
    let run = |more: &[&str]| {
        let output = laid.run(&[&campaign[..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    };
    run(&["--out", "whole"]);
    run(&["--shard", "1/2", "--out", "one"]);
    run(&["--shard", "2/2", "--out", "two"]);
    assert_eq!(
        (laid.results("one").len(), laid.results("two").len()),
        (2, 2)
    );
    let merge = laid.run(&["merge", "one", "two", "--out", "merged"]);
    assert_eq!(merge.status.code(), Some(1), "{}", said(&merge));
    assert!(
        printed(&merge).contains("4 broken of 4 runs"),
        "{}",
        printed(&merge)
    );
    assert_eq!(laid.results("merged"), laid.results("whole"));
    for run in 1..=4 {
        assert!(laid.path(&format!("merged/runs/{run}/logs/a.log")).exists());
    }
    let half = laid.run(&["merge", "one", "--out", "half"]);
    assert_eq!(half.status.code(), Some(2), "{}", printed(&half));
    let half = laid.run(&["merge", "one", "--incomplete", "--out", "half"]);
    assert_eq!(half.status.code(), Some(1), "{}", said(&half));
    let resumed = laid.run(&["inject", "--resume", "half"]);
    assert_eq!(resumed.status.code(), Some(1), "{}", said(&resumed));
    assert_eq!(laid.results("half"), laid.results("whole"));
}

#[test]
fn a_budget_ends_a_campaign_that_can_be_continued() {
    let laid = Laid::new();
    let begun = [
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--repeat",
        "3",
    ];
    let output = laid.run(&[&begun[..], &["--budget", "1ms", "--out", "out"]].concat());
    assert!(
        said(&output).contains("continue with: "),
        "{}",
        said(&output)
    );
    assert!(laid.results("out").len() < 3);
    let output = laid.run(&["inject", "--resume", "out"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(laid.results("out").len(), 3);
    let shown = laid.run(&["show", "out"]);
    assert!(
        printed(&shown).contains("3 broken of 3 runs"),
        "{}",
        printed(&shown)
    );
}

#[test]
fn a_campaign_that_is_killed_goes_on_where_it_was() {
    const RUNS: usize = 5;
    let laid = Laid::new();
    let runs = RUNS.to_string();
    let begin = [
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--repeat",
        &runs,
        "--out",
        "out",
    ];
    let resume = ["inject", "--resume", "out"];
    for (kill, arguments) in [&begin[..], &resume, &resume].into_iter().enumerate() {
        let mut command = Command::new(program("crashpoint"));
        command.args(arguments).current_dir(laid.0.path());
        command.env("TMPDIR", laid.path("tmp"));
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it runs");
        let begun = Instant::now();
        let done = || {
            let text = fs::read_to_string(laid.path("out/results.jsonl")).unwrap_or_default();
            text.matches('\n').count()
        };
        // In the midst of the run after this one.
        while done() < kill + 1 {
            assert!(begun.elapsed() < PATIENCE, "no run is made");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50));
        let family = Family::of(child.id());
        child.kill().expect("killed");
        child.wait().expect("it ends");
        while family.runs() {
            assert!(begun.elapsed() < PATIENCE, "something outlives it");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let output = laid.run(&resume);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(laid.results("out").len(), RUNS);
    assert!(
        printed(&output).contains("5 broken of 5 runs"),
        "{}",
        printed(&output)
    );
    // Empty directories are left, which have its mark.
    let left = fs::read_dir(laid.path("tmp")).expect("read").flatten();
    for left in left {
        let name = left.file_name().to_string_lossy().into_owned();
        assert!(name.starts_with("crashpoint-"), "{name}");
        fs::remove_dir(left.path()).expect("it is empty");
    }
    let looked = laid.run(&["replay", "out", "1", "--command", "ls"]);
    assert_eq!(looked.status.code(), Some(2));
    assert!(
        said(&looked).contains("--command has nothing to look at here"),
        "{}",
        said(&looked)
    );
}

/// What a run's client prints: a lock that is held twice, and which only the cluster file says is one.
const HELD_TWICE: &str = r#"{"type":"invoke","process":0,"f":"acquire","key":"l"}
{"type":"ok","process":0,"f":"acquire","key":"l"}
{"type":"invoke","process":1,"f":"acquire","key":"l"}
{"type":"ok","process":1,"f":"acquire","key":"l"}
"#;

#[test]
fn what_the_clients_of_a_run_saw_is_written_in_other_forms() {
    let laid = Laid::new();
    fs::write(laid.path("said"), HELD_TWICE).expect("written");
    let cluster = CLUSTER.replace("sleep 0.1", "sh -c 'sleep 0.5; cat {here}/said'");
    let cluster = cluster + "[[histories]]\nkeys = \"l\"\nmodel = \"lock\"\n";
    fs::write(laid.path("cluster.toml"), cluster).expect("written");
    let output = laid.run(&[
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--out",
        "out",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let export = |number: &str, form: &str| {
        let output = laid.run(&["history", "out", number, "--export", form]);
        (output.status.code(), printed(&output) + &said(&output))
    };
    let (status, told) = export("1", "jepsen");
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains(":process :nemesis, :f :fault"), "{told}");
    assert!(
        told.contains(":type :ok, :process 1, :f :acquire, :key \"l\""),
        "{told}"
    );
    let (status, told) = export("1", "porcupine");
    assert_eq!(status, Some(0), "{told}");
    let drawn: Value = serde_json::from_str(&told).expect("JSON");
    let partition = &drawn["Partitions"][0];
    assert_eq!(partition["History"].as_array().map(Vec::len), Some(2));
    // Of a lock the second one has no place in any order.
    let orders = partition["PartialLinearizations"]
        .as_array()
        .expect("orders");
    assert!(
        orders
            .iter()
            .all(|order| order.as_array().expect("steps").len() == 1),
        "{told}"
    );
    let shown = printed(&laid.run(&["show", "out", "1"]));
    assert!(shown.contains("! shows what is broken"), "{shown}");
    assert!(
        shown
            .lines()
            .all(|line| !line.starts_with("client client") || line.len() <= 80)
    );
    let report = laid.run(&[
        "report",
        "out",
        "--html",
        "page.html",
        "--junit",
        "junit.xml",
    ]);
    assert_eq!(report.status.code(), Some(0), "{}", said(&report));
    let page = fs::read_to_string(laid.path("page.html")).expect("read");
    for part in ["kill a", "acquire l", "double-lock of l"] {
        assert!(page.contains(part), "{part} is missing");
    }
    let junit = fs::read_to_string(laid.path("junit.xml")).expect("read");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let (status, told) = export("2", "jepsen");
    assert_eq!(status, Some(2), "{told}");
    assert!(told.contains("there is no run 2 in out"), "{told}");
    let other = laid.run(&["history", "tmp", "1", "--export", "jepsen"]);
    assert!(
        said(&other).contains("tmp has no results of `crashpoint inject`"),
        "{}",
        said(&other)
    );
}

#[test]
fn clients_that_print_no_history_have_none_to_export() {
    let laid = Laid::new();
    let output = laid.run(&[
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--out",
        "out",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let output = laid.run(&["history", "out", "1", "--export", "jsonl"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(
        said(&output).contains("run 1 has no history"),
        "{}",
        said(&output)
    );
}
