//! In which order nodes are started decides what a cluster makes of a crash state. The answers for
//! the cluster in `fixtures/first-up` are known. Needs root.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use end_to_end::{findings_and_summary, printed, program, require_root, said};
use serde_json::Value;
use tempfile::TempDir;

/// One model is enough, and takes less time.
const OPTIONS: [&str; 4] = ["--model", "ext4-ordered", "--jobs", "3"];

/// The first finding is enough.
const ONE: [&str; 4] = ["--sample", "40", "--stop-after", "1"];

/// How many sweeps may be made until one is conclusive, on a machine that has much else to do.
const CONCLUSIVE_WITHIN: u32 = 3;

/// One test at a time: nodes that are started together are not to come up one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// A recorded run.
struct Recorded(TempDir);

/// What a sweep found.
struct Swept {
    status: Option<i32>,
    findings: Vec<Value>,
    summary: Value,
    said: String,
}

impl Recorded {
    /// Of nodes that do this with one that comes later.
    fn of(first_up: &str, change: impl Fn(&str) -> String) -> Self {
        require_root();
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/first-up"));
        let recorded = Self(tempfile::tempdir().expect("a directory"));
        let copied = std::fs::copy(folder.join("node.py"), recorded.path("node.py"));
        copied.expect("copied");
        let text = std::fs::read_to_string(folder.join("cluster.toml")).expect("read");
        let usual = "FIRST_UP = \"copies\"";
        assert!(text.contains(usual), "{text}");
        let text = change(&text.replace(usual, &format!("FIRST_UP = \"{first_up}\"")));
        std::fs::write(recorded.path("cluster.toml"), text).expect("written");
        let output = recorded.crashpoint(&["cluster", "record", "cluster.toml", "-o", "trace"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        recorded
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn crashpoint(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(program("crashpoint"));
        command.args(arguments).current_dir(self.0.path());
        command.output().expect("it runs")
    }

    /// A script starts the cluster without Crashpoint, in the order of the finding, and its check
    /// decides: where nobody was told of the entries, all is well.
    fn assert_script_shows(&self, number: &str, broken: &str) {
        let exported = self.crashpoint(&["export", "out", number, "--as", "script"]);
        let script = printed(&exported);
        let sh = |script: &str| {
            let path = self.path("script.sh");
            std::fs::write(&path, script).expect("written");
            let output = Command::new("sh").arg(path).output().expect("it runs");
            (output.status.code(), printed(&output))
        };
        assert_eq!(sh(&script), (Some(1), broken.to_owned()), "{script}");
        let (before, after) = script
            .split_once("/acknowledged\" <<'END'\n")
            .expect("it is there");
        let (_, after) = after.split_once("END\n").expect("it ends");
        let untold = format!("{before}/acknowledged\" <<'END'\nEND\n{after}");
        assert_eq!(sh(&untold), (Some(0), "ok\n".to_owned()), "{untold}");
        let missing = script.replace("node.py node c", "nobody.py node c");
        let (status, told) = sh(&missing);
        assert_eq!(status, Some(1), "{told}");
        assert!(told.starts_with("broken node c does not come up"), "{told}");
        let checked = Command::new("shellcheck")
            .arg(self.path("script.sh"))
            .output();
        let checked = checked.expect("it runs");
        assert!(checked.status.success(), "{}", printed(&checked));
    }

    fn sweep(&self, options: &[&str]) -> Swept {
        let sweep = ["cluster", "sweep", "trace", "--format", "json"];
        let output = self.crashpoint(&[&sweep, &OPTIONS[..], options].concat());
        let (findings, summary) = findings_and_summary(&output);
        let said = said(&output);
        assert!(!summary.is_null(), "{said}");
        Swept {
            status: output.status.code(),
            findings,
            summary,
            said,
        }
    }
}

fn with_election(text: &str, seconds: &str) -> String {
    let usual = "ELECTION_S = \"0.7\"";
    assert!(text.contains(usual), "{text}");
    text.replace(usual, &format!("ELECTION_S = \"{seconds}\""))
}

/// Those that are started first elect one long before the others are started, on a busy machine, too.
fn elects_soon(text: &str) -> String {
    with_election(text, "0.3")
}

/// The same where all that are started together are there by then.
fn elects_late(text: &str) -> String {
    format!("first_alone_s = 3\n{}", with_election(text, "1.5"))
}

/// a, then b, then c.
fn one_after_the_other(text: &str) -> String {
    let parts: Vec<_> = text.split("[[nodes]]\n").collect();
    let [before, both, a] = parts[..] else {
        panic!("two tables of nodes: {text}")
    };
    let names = "names = [\"b\", \"c\"]";
    assert!(both.contains(names), "{both}");
    let one = |name: &str, after: &str| {
        both.replace(names, &format!("name = \"{name}\"\nafter = [\"{after}\"]"))
    };
    [before, &one("b", "a"), &one("c", "b"), a].join("[[nodes]]\n")
}

/// One of these entries is found to be lost in an order of starts.
fn assert_found_in_order(recorded: &Recorded, order: &str, entries: &[&str]) {
    let options = ["--starts", order, "--out", "out"];
    let options = [&ONE[..], &options].concat();
    let mut swept = recorded.sweep(&options);
    // Where other work makes nodes come up late, a state is broken once and then is not: nobody is
    // accused of that, and nothing is found.
    for _ in 1..CONCLUSIVE_WITHIN {
        if swept.status != Some(3) {
            break;
        }
        std::fs::remove_dir_all(recorded.path("out")).expect("removed");
        swept = recorded.sweep(&options);
    }
    assert_eq!(swept.status, Some(1), "{}", swept.said);
    let finding = &swept.findings[0];
    let broken = finding["broken"][0].as_str().expect("words");
    let is_lost = |entry: &&str| broken == format!("acknowledged entry {entry} is lost");
    assert!(entries.iter().any(is_lost), "{finding}");
    assert_eq!(finding["start"]["order"], order, "{finding}");
    recorded.assert_script_shows(
        &finding["number"].to_string(),
        &format!("broken {broken}\n"),
    );
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn what_is_lost_if_those_that_lost_it_are_first_is_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = Recorded::of("copies", elects_soon);
    assert_found_in_order(&recorded, "lost-first", &["two"]);
}

#[test]
#[ignore = "takes a minute: make test-clusters"]
fn what_is_lost_if_those_that_lost_it_are_last_is_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = Recorded::of("pushes", elects_soon);
    assert_found_in_order(&recorded, "lost-last", &["one", "two"]);
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_cluster_that_believes_who_is_first_loses_what_it_acknowledged() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = Recorded::of("copies", elects_late);
    let swept = recorded.sweep(&["--out", "out"]);
    assert_eq!(swept.status, Some(1), "{}", swept.said);
    let lost = |finding: &&Value| finding["broken"][0] == "acknowledged entry two is lost";
    let finding = swept.findings.iter().find(lost);
    let finding = finding.unwrap_or_else(|| panic!("{:?}", swept.findings));
    assert_eq!(finding["start"]["order"], "lost-first", "{finding}");
    // One of the two is enough, and of several states any may be shown.
    let names = |key: &str| {
        let names = finding["start"][key].as_array().expect("a list");
        let names: Vec<_> = names.iter().filter_map(Value::as_str).collect();
        names.join(" and ")
    };
    let first = names("first");
    assert!(["b", "c", "b and c"].contains(&&*first), "{finding}");
    let later = names("later");
    assert!(later.ends_with('a') && !later.contains(&first), "{finding}");
    assert_eq!(finding["starts"]["lost-first"], finding["states"]);
    let number = finding["number"].to_string();
    let shown = printed(&recorded.crashpoint(&["show", "out", &number]));
    let started = format!("started       {first}, which lost something, before {later}");
    assert!(shown.contains(&started), "{shown}");
    // The state is the same when it is made again, and is started in the same order.
    let replayed = recorded.crashpoint(&["replay", "out", &number, "--command", "true"]);
    assert_eq!(replayed.status.code(), Some(1), "{}", said(&replayed));
    assert!(
        said(&replayed).contains("acknowledged entry two is lost"),
        "{}",
        said(&replayed)
    );
    let minimized = recorded.crashpoint(&["minimize", "out", &number]);
    let text = printed(&minimized);
    assert_eq!(minimized.status.code(), Some(1), "{}", said(&minimized));
    assert!(
        text.contains("started       c, which lost something, before b and a")
            || text.contains("started       b, which lost something, before c and a"),
        "{text}"
    );
    // What the models allow does not depend on the order.
    assert_eq!(finding["models"]["posix"], true, "{finding}");

    let together = recorded.sweep(&["--starts", "together"]);
    assert_eq!(together.status, Some(0), "{:?}", together.findings);
    assert!(
        together.summary["checked"].as_u64() > Some(10),
        "{}",
        together.summary
    );
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn a_cluster_that_compares_what_its_nodes_have_is_clean_in_every_order() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = Recorded::of("compares", elects_late);
    let swept = recorded.sweep(&["--starts", "lost-first,lost-last"]);
    assert_eq!(swept.status, Some(0), "{}{:?}", swept.said, swept.findings);
    assert!(
        swept.summary["checked"].as_u64() > Some(20),
        "{}",
        swept.summary
    );

    // Orders are a part of what is drawn, divided, continued and put together.
    let drawn = ["--starts", "lost-first", "--sample", "16", "--seed", "1"];
    let sweep = |options: &[&str]| recorded.sweep(&[&drawn, options].concat());
    let left = |name: &str| {
        let text = std::fs::read_to_string(recorded.path(name).join("summary.jsonl"));
        let mut summary: Value = serde_json::from_str(&text.expect("read")).expect("an object");
        summary["seconds"] = Value::Null;
        summary
    };
    sweep(&["--out", "whole"]);
    assert!(left("whole")["checked"].as_u64() > Some(4));
    sweep(&["--out", "over", "--budget", "1ms"]);
    recorded.crashpoint(&["cluster", "sweep", "--resume", "over"]);
    assert_eq!(left("over"), left("whole"));
    for (shard, name) in [("1/2", "one"), ("2/2", "two")] {
        sweep(&["--out", name, "--shard", shard]);
    }
    recorded.crashpoint(&["merge", "one", "two", "--out", "merged"]);
    assert_eq!(left("merged"), left("whole"));
}

#[test]
#[ignore = "takes minutes: make test-clusters"]
fn an_order_in_which_a_cluster_never_comes_up_accuses_nobody() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = Recorded::of("leaves", |text| {
        let patient = with_election(text, "2");
        format!("first_alone_s = 4\n{patient}")
    });
    let swept = recorded.sweep(&["--starts", "together,lost-first"]);
    assert_eq!(swept.findings, Vec::<Value>::new());
    assert_eq!(swept.status, Some(3), "{}", swept.said);
    let why = swept.summary["reasons"].to_string();
    assert!(
        why.contains("does not say `ok` even where nothing was lost")
            && why.contains("--starts together"),
        "{}",
        swept.summary
    );
    // The order of the cluster file is kept, and what it leaves no choice about is not looked at
    // again.
    let recorded = Recorded::of("compares", one_after_the_other);
    let swept = recorded.sweep(&["--starts", "together,lost-first"]);
    let together = recorded.sweep(&["--starts", "together"]);
    assert_eq!((swept.status, together.status), (Some(0), Some(0)));
    assert_eq!(swept.summary["checked"], together.summary["checked"]);
    assert!(swept.summary["states"].as_u64() > together.summary["states"].as_u64());
}
