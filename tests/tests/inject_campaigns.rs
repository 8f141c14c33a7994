//! Campaigns of injected faults in parts, with a budget, and killed: the results are those of one that
//! went through. Needs root.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use end_to_end::{Family, Folder, Running, printed, program, said, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

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

fn folder() -> Folder {
    Folder::new(&[("cluster.toml", CLUSTER), ("plan.toml", PLAN)])
}

/// Runs the plan once.
const ONCE: [&str; 6] = [
    "inject",
    "cluster.toml",
    "--plan",
    "plan.toml",
    "--out",
    "out",
];

/// The plan and the first line that is broken of each run, by its index.
fn results(folder: &Folder, out: &str) -> BTreeMap<u64, (String, String)> {
    let text = folder.read(&format!("{out}/results.jsonl"));
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

#[test]
fn shards_put_together_are_the_campaign() {
    let folder = folder();
    let campaign = [
        "inject",
        "cluster.toml",
        "--strategy",
        "time",
        "--sample",
        "2",
    ];
    let run = |more: &[&str]| folder.ends(1, &[&campaign[..], more].concat());
    run(&["--out", "whole"]);
    run(&["--shard", "1/2", "--out", "one"]);
    run(&["--shard", "2/2", "--out", "two"]);
    let results = |out: &str| results(&folder, out);
    assert_eq!((results("one").len(), results("two").len()), (1, 1));
    let merge = printed(&folder.ends(1, &["merge", "one", "two", "--out", "merged"]));
    assert!(merge.contains("2 broken of 2 runs"), "{merge}");
    assert_eq!(results("merged"), results("whole"));
    for run in 1..=2 {
        let log = folder.path(&format!("merged/runs/{run}/logs/a.log"));
        assert!(log.exists());
    }
    for refused in [
        &["show", "whole", "--all"][..],
        &["minimize", "whole", "1", "--shorter", "short"],
    ] {
        let said = said(&folder.ends(2, refused));
        assert!(
            said.starts_with("error: ") && said.lines().count() == 1,
            "{said}"
        );
    }
    folder.ends(2, &["merge", "one", "--out", "half"]);
    folder.ends(1, &["merge", "one", "--incomplete", "--out", "half"]);
    // What was there is printed with what is new.
    let resume = ["inject", "--resume", "half", "--format", "json"];
    assert_eq!(printed(&folder.ends(1, &resume)).lines().count(), 2);
    assert_eq!(results("half"), results("whole"));
    let merge = ["merge", "two", "one", "--out", "json", "--format", "json"];
    assert_eq!(printed(&folder.ends(1, &merge)).lines().count(), 2);
}

#[test]
fn runs_side_by_side_are_the_campaign() {
    let folder = folder();
    let campaign = [&ONCE[..4], &["--repeat"]].concat();
    let run = |more: &[&str]| folder.ends(1, &[&campaign[..], more].concat());
    run(&["6", "--out", "one"]);
    let output = run(&["6", "--jobs", "3", "--out", "three"]);
    let text = printed(&output);
    assert!(
        text.contains("6 broken of 6 runs, 0 inconclusive"),
        "{text}"
    );
    assert_eq!(results(&folder, "three"), results(&folder, "one"));
    for run in 1..=6 {
        assert!(
            folder
                .path(&format!("three/runs/{run}/logs/a.log"))
                .exists()
        );
    }
    // Those that have begun are ended.
    let output = run(&["6", "--jobs", "3", "--stop-after", "2", "--out", "few"]);
    let count = results(&folder, "few").len();
    assert!((2..=5).contains(&count), "{}", printed(&output));
    folder.ends(1, &["inject", "--resume", "few", "--jobs", "2"]);
    assert_eq!(results(&folder, "few"), results(&folder, "one"));
    let left = folder.left();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_budget_ends_a_campaign_that_can_be_continued() {
    let folder = folder();
    let begun = [
        "inject",
        "cluster.toml",
        "--plan",
        "plan.toml",
        "--repeat",
        "3",
    ];
    // Not even the first one is made.
    let output = folder.ends(
        3,
        &[&begun[..], &["--budget", "0", "--out", "out"]].concat(),
    );
    let words = "stopped before all runs were made: continue with: ";
    assert!(said(&output).contains(words), "{}", said(&output));
    assert_eq!(results(&folder, "out").len(), 0);
    folder.ends(3, &["show", "out"]);
    folder.run(&["inject", "--resume", "out", "--budget", "1ms"]);
    assert!(results(&folder, "out").len() < 3);
    folder.ends(1, &["inject", "--resume", "out"]);
    assert_eq!(results(&folder, "out").len(), 3);
    let shown = printed(&folder.ends(1, &["show", "out"]));
    assert!(shown.contains("3 broken of 3 runs"), "{shown}");
}

#[test]
fn a_campaign_that_is_killed_goes_on_where_it_was() {
    const RUNS: usize = 5;
    let folder = folder();
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
    for (kills, arguments) in [&begin[..], &resume, &resume].into_iter().enumerate() {
        let mut command = Command::new(program("crashpoint"));
        command.args(arguments).current_dir(&folder);
        command.env("TMPDIR", folder.path("tmp"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running::start(&mut command);
        let done = || {
            let text = fs::read_to_string(folder.path("out/results.jsonl")).unwrap_or_default();
            text.matches('\n').count()
        };
        // In the midst of the run after this one.
        wait_until("a run is made", PATIENCE, || done() > kills);
        std::thread::sleep(Duration::from_millis(50));
        let family = Family::of(running.id());
        running.kill().expect("killed");
        running.end();
        wait_until("nothing outlives it", PATIENCE, || !family.runs());
    }
    let told = printed(&folder.ends(1, &resume));
    assert_eq!(results(&folder, "out").len(), RUNS);
    assert!(told.contains("5 broken of 5 runs"), "{told}");
    // Empty directories are left, which have its mark.
    for left in folder.left() {
        let name = left.file_name().unwrap_or_default().to_string_lossy();
        assert!(name.starts_with("crashpoint-"), "{name}");
        fs::remove_dir(&left).expect("it is empty");
    }
    let looked = said(&folder.ends(2, &["replay", "out", "1", "--command", "ls"]));
    let words = "--command has nothing to look at here";
    assert!(looked.contains(words), "{looked}");
}

/// Ready at once, and never broken; what its nodes log should happen sometimes.
fn eventful(logs: &[&str]) -> Folder {
    let cluster = CLUSTER.replace("echo broken it is", "echo ok");
    // Longer than a fault of the strategy lasts.
    let cluster = cluster.replace("sleep 0.1", "sleep 4");
    let sometimes = logs
        .iter()
        .map(|log| format!("[[sometimes]]\nname = \"it says {log}\"\nlog = \"{log}\"\n"));
    let cluster = format!("{cluster}{}", sometimes.collect::<String>());
    Folder::new(&[("cluster.toml", &cluster)])
}

/// A node that is killed is ready once more.
#[test]
fn a_campaign_that_reached_nothing_is_inconclusive_and_one_that_reached_something_says_what_not() {
    let campaign = |status: i32, logs: &[&str]| {
        let folder = eventful(logs);
        let words = ["inject", "cluster.toml", "--strategy", "time"];
        let one = ["--sample", "1", "--out", "out"];
        let told = printed(&folder.ends(status, &[&words[..], &one].concat()));
        assert!(told.contains("0 broken of 1 run, 0 inconclusive"), "{told}");
        folder.ends(0, &["report", "out", "--junit", "junit.xml"]);
        let result: Value = serde_json::from_str(&folder.read("out/results.jsonl")).expect("a run");
        (told, folder.read("junit.xml"), result["reached"].clone())
    };
    std::thread::scope(|scope| {
        // They mostly wait.
        let some = scope.spawn(|| campaign(0, &["ready", "snapshot"]));
        let (told, junit, reached) = campaign(3, &["election", "snapshot"]);
        let never = "never reached: it says election\nnever reached: it says snapshot\n";
        assert!(told.contains(never), "{told}");
        assert!(junit.contains("never reached: it says election"), "{junit}");
        assert_eq!(reached, serde_json::json!([]));
        let (told, junit, reached) = some.join().expect("it passes");
        assert!(told.contains("never reached: it says snapshot\n"), "{told}");
        assert!(!told.contains("never reached: it says ready"), "{told}");
        assert!(!junit.contains("<error"), "{junit}");
        assert_eq!(reached, serde_json::json!(["it says ready"]));
    });
}

/// A check that is broken off has not failed to end in time: the run is made again.
#[test]
fn a_run_that_is_broken_off_while_its_check_looks_is_made_again() {
    let cluster = CLUSTER.replace(
        "echo broken it is",
        "sh -c '[ -e go ] || { touch begun; sleep 60; }; echo ok'",
    );
    let cluster = cluster.replace("'[ -e go", "'cd {here}; [ -e go");
    let folder = Folder::new(&[("cluster.toml", &cluster), ("plan.toml", PLAN)]);
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut command = Command::new(program("crashpoint"));
        let out = format!("{signal}");
        command.args(&ONCE[..5]).arg(&out).current_dir(&folder);
        command.env("TMPDIR", folder.path("tmp"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running::start(&mut command);
        wait_until("its check is asked", PATIENCE, || {
            folder.path("begun").exists()
        });
        running.send(signal);
        assert_eq!(running.end().code(), Some(3));
        fs::write(folder.path("go"), "").expect("written");
        let told = printed(&folder.ends(0, &["inject", "--resume", &out]));
        assert!(told.contains("0 broken of 1 run, 0 inconclusive"), "{told}");
        for file in ["go", "begun"] {
            fs::remove_file(folder.path(file)).expect("it is there");
        }
    }
    assert!(folder.left().is_empty(), "{:?}", folder.left());
}

/// What a run's client prints: a lock that is held twice, and which only the cluster file says is one.
const HELD_TWICE: &str = r#"{"type":"invoke","process":0,"f":"acquire","key":"l"}
{"type":"ok","process":0,"f":"acquire","key":"l"}
{"type":"invoke","process":1,"f":"acquire","key":"l"}
{"type":"ok","process":1,"f":"acquire","key":"l"}
"#;

#[test]
fn what_the_clients_of_a_run_saw_is_written_in_other_forms() {
    let folder = folder();
    folder.write("said", HELD_TWICE);
    let cluster = CLUSTER.replace("sleep 0.1", "sh -c 'sleep 0.5; cat {here}/said'");
    let cluster = cluster + "[[histories]]\nkeys = \"l\"\nmodel = \"lock\"\n";
    folder.write("cluster.toml", &cluster);
    folder.ends(1, &ONCE);
    let export = |status, number: &str, form: &str| {
        folder.ends(status, &["history", "out", number, "--export", form])
    };
    let told = printed(&export(0, "1", "jepsen"));
    assert!(told.contains(":process :nemesis, :f :fault"), "{told}");
    assert!(
        told.contains(":type :ok, :process 1, :f :acquire, :key \"l\""),
        "{told}"
    );
    let told = printed(&export(0, "1", "porcupine"));
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
    let shown = printed(&folder.ends(1, &["show", "out", "1"]));
    assert!(shown.contains("! shows what is broken"), "{shown}");
    assert!(
        shown
            .lines()
            .all(|line| !line.starts_with("client client") || line.len() <= 80)
    );
    let report = ["report", "out", "--html", "page.html"];
    folder.ends(0, &[&report[..], &["--junit", "junit.xml"]].concat());
    let page = folder.read("page.html");
    for part in ["kill a", "acquire l", "double-lock of l"] {
        assert!(page.contains(part), "{part} is missing");
    }
    let junit = folder.read("junit.xml");
    assert!(junit.contains("failures=\"1\""), "{junit}");
    let told = said(&export(2, "2", "jepsen"));
    assert!(told.contains("there is no run 2 in out"), "{told}");
    let other = said(&folder.run(&["history", "tmp", "1", "--export", "jepsen"]));
    let words = "tmp has no results of `crashpoint inject`";
    assert!(other.contains(words), "{other}");
}

#[test]
fn a_run_is_checked_again_by_what_its_cluster_file_said() {
    let folder = folder();
    folder.write("said", HELD_TWICE);
    let cluster = CLUSTER.replace("sleep 0.1", "sh -c 'sleep 0.5; cat {here}/said'");
    let histories = "[[histories]]\nkeys = \"l\"\nmodel = \"lock\"\n";
    folder.write("cluster.toml", &(cluster.clone() + histories));
    let campaign = printed(&folder.ends(1, &ONCE));
    // It goes by what the campaign went by, and not by what the file says now.
    folder.write("cluster.toml", &cluster);
    let check = |status, arguments: &[&str]| {
        folder.ends(status, &[&["history", "check"], arguments].concat())
    };
    let told = printed(&check(1, &["out", "1"]));
    let found = told
        .lines()
        .find_map(|line| line.strip_prefix("  key l: held by 2"));
    let found = found.expect("what was found");
    assert!(
        campaign.contains(&format!("double-lock of l: held by 2{found}")),
        "{campaign}"
    );
    assert!(told.contains("on 1 object: 1 lock: anomalies"), "{told}");
    let json = printed(&check(1, &["out", "1", "--format", "json"]));
    assert!(json.contains(r#""kind":"double-lock""#), "{json}");
    let full = format!(
        "{} history check out 1 >/dev/full",
        program("crashpoint").display()
    );
    let output = Command::new("sh")
        .args(["-c", &full])
        .current_dir(&folder)
        .output();
    let output = output.expect("it runs");
    let told = said(&output);
    assert_eq!(
        (output.status.code(), told.lines().count()),
        (Some(2), 1),
        "{told}"
    );
    // As a file it may be of a semaphore; and where there is more to go by is said.
    let file = check(3, &["out/runs/1/history.jsonl"]);
    assert!(
        printed(&file).contains("it may be a semaphore"),
        "{}",
        printed(&file)
    );
    assert!(
        said(&file).contains("history check out 1` goes by them"),
        "{}",
        said(&file)
    );
    let told = check(1, &["out/runs/1/history.jsonl", "--model", "lock"]);
    assert!(!said(&told).contains("goes by them"), "{}", said(&told));
    for (arguments, words) in [
        (&["out", "2"][..], "there is no run 2 in out"),
        (&["out"], "`crashpoint history check out N`"),
        (&["tmp", "1"], "tmp has no results of `crashpoint inject`"),
        (&["out", "1", "--model", "lock"], "cannot be used with"),
    ] {
        let told = said(&check(2, arguments));
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
}

#[test]
fn clients_that_print_no_history_have_none_to_export() {
    let folder = folder();
    folder.ends(1, &ONCE);
    let told = said(&folder.ends(2, &["history", "out", "1", "--export", "jsonl"]));
    assert!(told.contains("run 1 has no history"), "{told}");
    let told = said(&folder.ends(2, &["history", "check", "out", "1"]));
    assert!(told.contains("has no [[histories]]"), "{told}");
}

const ENDS: &str = "[[clients]]\nname = \"x\"\ncommand = \"true\"\nendless = true";

#[test]
fn how_many_runs_an_hour_are_made_is_measured_and_how_many_were_not_right() {
    let sound = CLUSTER.replace("echo broken it is", "echo ok");
    // It was to go on for ever, and ends at once.
    let ends = sound.replace("[client]\ncommand = \"sleep 0.1\"", ENDS);
    let files = [
        ("cluster.toml", CLUSTER),
        ("sound.toml", &sound),
        ("ends.toml", &ends),
    ];
    let folder = Folder::new(&files);
    let measured = |file: &str, status: i32| {
        let options = ["--seconds", "1", "--jobs", "2", "--format", "json"];
        let output = folder.ends(
            status,
            &[&["bench", "--inject", file][..], &options].concat(),
        );
        serde_json::from_str::<Value>(&printed(&output)).expect("one object")
    };
    let sound = measured("sound.toml", 0);
    assert_eq!(
        (&sound["type"], &sound["jobs"]),
        (&"bench-inject".into(), &2.into())
    );
    assert_eq!(sound["unsound"], 0);
    // Wide enough for any host. A client takes a tenth of a second, and two are at work.
    for (name, least, most) in [
        ("floor_per_hour", 10.0, 72_000.0),
        ("idle_per_hour", 10.0, 72_000.0),
        ("faults_per_hour", 10.0, 72_000.0),
        ("idle_ratio", 0.01, 10.0),
        ("faults_ratio", 0.001, 10.0),
    ] {
        let value = sound[name].as_f64();
        let plausible = value.is_some_and(|value| (least..=most).contains(&value));
        assert!(plausible, "{name}: {sound}");
    }
    // Without a fault, at least one of each worker in each round.
    for file in ["cluster.toml", "ends.toml"] {
        let unsound = measured(file, 3);
        assert!(unsound["unsound"].as_u64() >= Some(6), "{unsound}");
    }
}
