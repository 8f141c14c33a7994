//! Specifications: questions to runs that are over, and what campaigns are held against. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use end_to_end::{crashpoint, elects_cluster, printed, program, require_root, said};
use serde_json::Value;
use tempfile::TempDir;

/// Ready at once; its client tells a story.
const CLUSTER: &str = r#"
[[nodes]]
names = ["a", "b"]
command = "sh -c 'echo ready; echo elected in term 7; exec sleep 600'"
ready = { log = "ready" }
stop = "SIGKILL"
[client]
command = "sh -c 'cat {here}/story; sleep 0.3'"
"#;

const STORY: &str = r#"{"type":"invoke","process":0,"f":"write","key":"k1","value":3}
{"type":"ok","process":0,"f":"write","key":"k1","value":3}
{"type":"invoke","process":0,"f":"write","key":"k2","value":4}
{"type":"info","process":0,"f":"write","key":"k2","value":4}
{"type":"invoke","process":1,"f":"read","key":"k1","value":null}
{"type":"ok","process":1,"f":"read","key":"k1","value":null}
"#;

const PLAN: &str = "[[faults]]\nat = { acknowledged = 1 }\nfault = \"kill\"\non = \"a\"\n";

const LOST: &str = "violation lost(K) :- acked(K), !served(K).\n";

struct Laid(TempDir);

impl Laid {
    fn new(specification: &str) -> Self {
        require_root();
        let laid = Self(tempfile::tempdir().expect("a directory"));
        for (name, text) in [
            ("cluster.toml", CLUSTER),
            ("story", STORY),
            ("plan.toml", PLAN),
            ("lost.dl", specification),
        ] {
            fs::write(laid.path(name), text).expect("written");
        }
        fs::create_dir(laid.path("tmp")).expect("made");
        laid
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

    /// Runs the plan once, held against the specification.
    fn inject(&self) -> Output {
        let words = "inject cluster.toml --plan plan.toml --spec lost.dl --out out";
        self.run(&words.split(' ').collect::<Vec<_>>())
    }

    fn ask(&self, rules: &str) -> Output {
        self.run(&["rules", "out", "1", rules])
    }
}

#[test]
fn a_violation_is_a_finding_with_what_it_rests_on_in_show_and_report() {
    let laid = Laid::new(LOST);
    let output = laid.inject();
    let told = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{told}{}", said(&output));
    assert!(
        told.contains("broken        lost: lost(\"k1\") from "),
        "{told}"
    );
    let parts = [
        "by violation lost(K) :- acked(K), !served(K).",
        "acknowledged(op: 0, client: \"",
        "f: \"write\", key: \"k1\", value: \"3\"",
        "no served(\"k1\")",
    ];
    let shown = printed(&laid.run(&["show", "out", "1"]));
    laid.run(&["report", "out", "--html", "report.html"]);
    let page = fs::read_to_string(laid.path("report.html")).expect("written");
    let page = page.replace("&#34;", "\"").replace("&quot;", "\"");
    for part in parts {
        assert!(
            told.contains(part) && shown.contains(part),
            "{part}: {told}{shown}"
        );
        assert!(page.contains(part), "{part}: {page}");
    }
    let results = fs::read_to_string(laid.path("out/results.jsonl")).expect("read");
    let result: Value = serde_json::from_str(results.lines().next().expect("a run")).expect("JSON");
    assert_eq!(result["violations"][0]["specification"], "lost");
    assert_eq!(result["violations"][0]["fact"], "lost(\"k1\")");
    assert!(laid.path("out/runs/1/facts.sqlite").exists());
    // It goes by the specification that it was begun with.
    fs::remove_file(laid.path("lost.dl")).expect("removed");
    let again = laid.run(&["replay", "out", "1"]);
    assert_eq!(
        again.status.code(),
        Some(1),
        "{}{}",
        printed(&again),
        said(&again)
    );
    assert!(printed(&again).contains("it broke the same again"));
}

#[test]
fn a_run_that_is_over_answers_questions() {
    let laid = Laid::new("violation no(K) :- acked(K), served(K), !acked(K).\n");
    // Nobody read after the heal, so it had nothing that it could have looked at? It had: reads.
    let output = laid.inject();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let asked = laid.ask("lost(K) :- acked(K), !served(K).");
    assert_eq!(
        printed(&asked),
        "lost(\"k1\")\nlost: 1 fact\n",
        "{}",
        said(&asked)
    );
    assert_eq!(asked.status.code(), Some(0));
    let asked = laid.ask("open(K, E) :- unknown(key: K, f: F, error: E), changes(F).");
    assert_eq!(
        printed(&asked),
        "open(\"k2\", \"\")\nopen: 1 fact\n",
        "{}",
        said(&asked)
    );
    let asked = laid.ask(
        "t(N, T) :- logged(node: N, line: L), T = number(capture(L, \"elected in term ([0-9]+)\")).",
    );
    assert!(
        printed(&asked).starts_with("t(\"a\", 7)\nt(\"b\", 7)\n"),
        "{}",
        printed(&asked)
    );
    let asked = laid.ask("hit(N, K) :- fault_on(fault: F, node: N), fault(fault: F, kind: K).");
    assert_eq!(printed(&asked), "hit(\"a\", \"kill\")\nhit: 1 fact\n");
    // The node was started at first, and when everything was healed.
    let asked = laid.ask("starts(N, count(T)) :- started(N, T).");
    let told = printed(&asked);
    assert!(
        told.contains("starts(\"a\", 2)") && told.contains("starts(\"b\", 1)"),
        "{told}"
    );
    let asked = laid.ask("violation lost(K) :- acked(K), !served(K).");
    assert_eq!(asked.status.code(), Some(1));
    assert!(
        printed(&asked).contains("no served(\"k1\")"),
        "{}",
        printed(&asked)
    );
    let asked = laid.ask("violation v(N) :- call_hit(node: N).");
    assert_eq!(asked.status.code(), Some(3));
    let words = "v never had a fact to look at: there is no call_hit";
    assert!(printed(&asked).contains(words), "{}", printed(&asked));
    let listed = printed(&laid.run(&["rules", "out", "1", "--facts"]));
    assert!(listed.contains("       2  node(node)\n"), "{listed}");
    let json = laid.run(&["rules", "out", "1", "--format", "json", "a(K) :- acked(K)."]);
    let first: Value =
        serde_json::from_str(printed(&json).lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["values"]["k"], "k1");
}

#[test]
fn what_cannot_be_asked_is_said_in_a_line() {
    let laid = Laid::new("violation never(N) :- call_hit(node: N).\n");
    // It had nothing to look at, so it is no pass.
    let output = laid.inject();
    assert_eq!(
        output.status.code(),
        Some(3),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let words = "lost: never never had a fact to look at: there is no call_hit";
    assert!(printed(&output).contains(words), "{}", printed(&output));
    let refused = |arguments: &[&str], words: &str| {
        let output = laid.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {}",
            printed(&output)
        );
        let said = said(&output);
        assert!(
            said.lines().count() == 1 && said.contains(words),
            "{arguments:?}: {said}"
        );
    };
    let asked = "RULES:1:9: in the rule of a: nothing is known of ackd: it has no rule, and is no fact \
                 of a run; did you mean acked?";
    refused(&["rules", "out", "1", "a(K) :- ackd(K)."], asked);
    refused(
        &["rules", "out", "7", "a(K) :- acked(K)."],
        "there is no run 7: the last is 1",
    );
    refused(
        &["rules", "tmp", "1", "a(K) :- acked(K)."],
        "has no results of `crashpoint inject`",
    );
    refused(&["rules", "out", "1", "--spec", "none.dl"], "none.dl");
    fs::write(laid.path("ask.dl"), "a(K) :- acked(K).\n").expect("written");
    let inject = ["inject", "cluster.toml", "--plan", "plan.toml", "--spec"];
    refused(
        &[&inject[..], &["ask.dl"]].concat(),
        "ask.dl has no violation",
    );
    fs::write(laid.path("bad.dl"), "\nviolation a(K) :- acked(L).\n").expect("written");
    refused(
        &[&inject[..], &["bad.dl"]].concat(),
        "bad.dl:2:13: in the rule of a: nothing binds K",
    );
    let facts = laid.path("out/runs/1/facts.sqlite");
    fs::write(&facts, "something else").expect("written");
    refused(
        &["rules", "out", "1", "a(K) :- acked(K)."],
        "facts.sqlite is no database of facts",
    );
    fs::remove_file(&facts).expect("removed");
    let asked = laid.ask("a(K) :- acked(K).");
    assert_eq!(
        printed(&asked),
        "a(\"k1\")\na: 1 fact\n",
        "{}",
        said(&asked)
    );
}

/// Each specification of the project, a mistake of the store that elects its leader, and the plan that
/// shows it.
const FOUND: [(&str, &str, &str); 10] = [
    ("acknowledged-is-served", "minority-writes", "leader"),
    ("one-leader-a-term", "deposed-reads", "leader"),
    ("mutual-exclusion", "local-locks", "leader"),
    ("counters", "runs-twice", "short"),
    ("fsync-error", "ignored-fsync", "fsync"),
    ("acknowledged-is-served", "deposed-reads", "leader"),
    ("acknowledged-is-served", "last-writer-wins", "leader"),
    ("acknowledged-is-served", "early-reads", "follower"),
    ("acknowledged-is-served", "deleted-returns", "follower"),
    ("counters", "longest-log", "brief"),
];

/// Which processor is free, and when, is a matter of chance.
const RUNS_MAX: u32 = 10;

fn specification(name: &str) -> String {
    format!("{}/../specs/{name}.dl", env!("CARGO_MANIFEST_DIR"))
}

/// Injects the faults of a plan into a store with a mistake, or none, that is judged by specifications
/// alone.
fn inject(mistake: &str, plan: &str, specifications: &[&str], runs: u32) -> Output {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("cluster.toml");
    let text = elects_cluster(mistake);
    let (text, _) = text.split_once("[check]").expect("it has a check");
    fs::write(&path, format!("disk = \"ext4\"\n{text}")).expect("written");
    let temporary = tempfile::tempdir().expect("a directory");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/elects/plans");
    let mut command = Command::new(program("crashpoint"));
    command.arg("inject").arg(path);
    command.args(["--plan", &format!("{fixture}/{plan}.toml")]);
    command.args(["--repeat", &runs.to_string(), "--stop-after", "1", "--spec"]);
    command.args(specifications.iter().map(|name| specification(name)));
    let elects = program("elects");
    let folder = elects.parent().unwrap_or(Path::new("/"));
    let others = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{others}", folder.display()));
    command.env("TMPDIR", temporary.path()).stdin(Stdio::null());
    command.output().expect("it runs")
}

fn is_found((name, mistake, plan): (&str, &str, &str)) {
    let output = inject(mistake, plan, &[name], RUNS_MAX);
    let told = printed(&output);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{mistake}: {told}{}",
        said(&output)
    );
    assert!(
        told.contains(&format!("  broken        {name}: ")),
        "{told}"
    );
    let broken = told.lines().find(|line| line.starts_with("  broken "));
    println!(
        "{name} {mistake} {plan} {}",
        broken.unwrap_or_default().trim()
    );
}

#[test]
fn an_operation_that_ran_twice_and_a_lock_with_two_holders_are_violations() {
    is_found(FOUND[2]);
    is_found(FOUND[3]);
}

#[test]
fn a_lost_write_a_late_leader_and_an_ignored_error_are_violations() {
    is_found(FOUND[0]);
    is_found(FOUND[1]);
    is_found(FOUND[4]);
}

#[test]
fn a_correct_store_violates_nothing() {
    let objects = [
        "acknowledged-is-served",
        "one-leader-a-term",
        "mutual-exclusion",
        "counters",
    ];
    let output = inject("", "leader", &objects, 1);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        printed(&output),
        said(&output)
    );
    let output = inject("", "fsync", &["fsync-error"], 1);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        printed(&output),
        said(&output)
    );
}

#[test]
#[ignore = "takes minutes"]
fn each_mistake_is_a_violation_and_none_is_without_one() {
    for found in FOUND {
        is_found(found);
    }
    let objects = [
        "acknowledged-is-served",
        "one-leader-a-term",
        "mutual-exclusion",
        "counters",
    ];
    for plan in ["leader", "brief", "follower", "short", "kill", "held-fsync"] {
        let output = inject("", plan, &objects, RUNS_MAX / 2);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{plan}: {}",
            printed(&output)
        );
    }
    let output = inject("", "fsync", &["fsync-error"], RUNS_MAX / 2);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}
