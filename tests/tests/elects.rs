//! The store that elects its leader, as a cluster. Needs root.

use std::process::{Command, Output, Stdio};

use end_to_end::{elects_cluster, printed, program, require_root, said, search_path};

/// Each mistake, and the plan that shows it.
const SHOWN: [(&str, &str); 11] = [
    ("deposed-reads", "leader"),
    ("minority-writes", "leader"),
    ("last-writer-wins", "leader"),
    ("local-locks", "leader"),
    ("longest-log", "brief"),
    ("deleted-returns", "follower"),
    ("early-reads", "follower"),
    ("runs-twice", "short"),
    ("kept-lease", "kill"),
    ("ignored-fsync", "fsync"),
    ("ignored-fsync", "disk"),
];

const PLANS: [&str; 8] = [
    "leader",
    "brief",
    "follower",
    "short",
    "kill",
    "fsync",
    "held-fsync",
    "disk",
];

/// Which processor is free, and when, is a matter of chance.
const RUNS_MAX: u32 = 10;

/// How often a store without a mistake is tried.
const CLEAN_RUNS: u32 = 5;

/// Runs a cluster file with these files beside it.
fn run(text: &str, arguments: &[&str], files: &[(&str, &str)]) -> Output {
    crashpoint(&["cluster", "run"], text, arguments, files)
}

/// Injects the faults of a plan, so many times at most, into a store with a mistake, or none.
fn inject(mistake: &str, plan: &str, runs: u32) -> Output {
    inject_into(&elects_cluster(mistake), plan, runs)
}

/// The same of this cluster file.
fn inject_into(text: &str, plan: &str, runs: u32) -> Output {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/elects/plans");
    let plan = format!("{fixture}/{plan}.toml");
    let runs = runs.to_string();
    let arguments = ["--plan", &plan, "--repeat", &runs, "--stop-after", "1"];
    // Power losses are for nodes with disks.
    let text = format!("disk = \"ext4\"\n{text}");
    crashpoint(&["inject"], &text, &arguments, &[])
}

/// What is told of a run that passes, of a few: on a machine that stands still for a moment a fault may miss
/// what it is to hit, and that is no pass. Nothing is broken in any.
fn passes(text: &str, plan: &str) -> String {
    let mut told = Vec::new();
    for _ in 0..CLEAN_RUNS {
        let output = inject_into(text, plan, 1);
        told.push(printed(&output));
        assert_ne!(output.status.code(), Some(1), "{told:?}");
        if output.status.code() == Some(0) {
            return told.pop().expect("it is there");
        }
    }
    panic!("{told:?}");
}

fn crashpoint(words: &[&str], text: &str, arguments: &[&str], files: &[(&str, &str)]) -> Output {
    require_root();
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("cluster.toml");
    for (name, content) in [("cluster.toml", text)].iter().chain(files) {
        std::fs::write(folder.path().join(name), content).expect("written");
    }
    let temporary = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(program("crashpoint"));
    command.args(words).arg(path).args(arguments);
    command.env("PATH", search_path()).stdin(Stdio::null());
    let output = command.env("TMPDIR", temporary.path()).output();
    let left = std::fs::read_dir(temporary.path()).expect("it is there");
    assert_eq!(left.count(), 0);
    output.expect("it runs")
}

#[test]
fn what_was_acknowledged_survives_a_kill_of_all_nodes() {
    let text = elects_cluster("").replace("elects client", "elects client --seconds 2");
    let output = run(&text, &["--client", "--restart", "--check"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let lines = printed(&output);
    let written = |line: &&str| line.contains(r#""type":"ok""#) && line.contains(r#""f":"write""#);
    assert!(lines.lines().filter(written).count() > 0, "{lines}");
    assert!(lines.lines().any(|line| line == "ok"), "{lines}");
}

#[test]
fn the_check_asks_all_nodes_and_misses_what_they_do_not_have() {
    let lies = r#"{"type":"invoke","process":0,"f":"write","key":"k","value":1}
{"type":"ok","process":0,"f":"write","key":"k","value":1}
"#;
    let text = elects_cluster("").replace("elects client", "cat {here}/lies");
    let output = run(&text, &["--client", "--check"], &[("lies", lies)]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let words = "acknowledged write 1 of k is lost: a later read finds nothing";
    assert!(printed(&output).contains(words), "{}", printed(&output));
}

#[test]
fn a_lock_that_both_sides_of_a_partition_grant_is_found() {
    let output = inject("local-locks", "leader", RUNS_MAX);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let words = "is held twice, by ";
    assert!(printed(&output).contains(words), "{}", printed(&output));
}

/// Both are needed: an error that only an injected fault brings about, and a loss of power.
#[test]
fn an_fsync_whose_error_is_ignored_is_found_and_one_that_is_heeded_is_not() {
    let output = inject("ignored-fsync", "fsync", RUNS_MAX);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = printed(&output);
    let hit = "fsync log: fails with EIO (fault 2)";
    assert!(
        told.contains(hit) && told.contains("acknowledged"),
        "{told}"
    );
    assert!(passes(&elects_cluster(""), "fsync").contains(hit));
}

#[test]
fn others_go_on_while_an_fsync_is_held_and_its_error_ends_the_node() {
    let told = passes(&elects_cluster(""), "held-fsync");
    let at = |words: &str| {
        told.find(words)
            .unwrap_or_else(|| panic!("{words}: {told}"))
    };
    let held = at("fsync log: is held (fault 1)");
    let ended = at("fault 1 has ended");
    // The node that is held is the one that ends, and not before.
    assert!(
        held < ended && ended < at("ended with status 2 by itself"),
        "{told}"
    );
}

/// The cluster file with a mistake, or none, which has no check: what clients saw judges it.
fn judged_by_clients(mistake: &str) -> String {
    let text = elects_cluster(mistake);
    let (text, _) = text.split_once("[check]").expect("it has a check");
    format!(
        r#"{text}
[[histories]]
keys = "l*"
model = "lock"

[[histories]]
keys = "c*"
model = "counter"

[[histories]]
model = "map"
"#
    )
}

#[test]
fn what_clients_saw_is_enough_to_judge() {
    passes(&judged_by_clients(""), "leader");
    let output = inject_into(&judged_by_clients("local-locks"), "leader", RUNS_MAX);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}{}", said(&output));
    let words = "  broken        double-lock of l";
    assert!(text.contains(words), "{text}");
}

#[test]
fn what_clients_did_nothing_with_is_not_judged() {
    // No client does anything with such a key.
    let other = judged_by_clients("").replace("l*", "x*");
    let one = other.replace("model = \"map\"", "model = \"map\"\nkeys = \"k*\"");
    let output = inject_into(&one, "leader", 1);
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    let words =
        "[[histories]] of lock x*: no operation was answered with anything that can be wrong";
    assert!(printed(&output).contains(words), "{}", printed(&output));
    let other = other
        .replace("c*", "y*")
        .replace("model = \"map\"", "model = \"map\"\nkeys = \"z*\"");
    let output = inject_into(&other, "leader", 1);
    assert_eq!(output.status.code(), Some(3), "{}", printed(&output));
    assert!(printed(&output).contains("no client did anything with a key"));
}

#[test]
#[ignore = "takes minutes"]
fn what_clients_saw_shows_each_mistake() {
    for (mistake, plan) in SHOWN {
        let output = inject_into(&judged_by_clients(mistake), plan, RUNS_MAX);
        let text = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{mistake}: {text}");
        let broken = text.lines().find(|line| line.starts_with("  broken "));
        println!("{mistake} {plan} {}", broken.unwrap_or_default().trim());
    }
    for plan in PLANS {
        let output = inject_into(&judged_by_clients(""), plan, CLEAN_RUNS);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{plan}: {}",
            printed(&output)
        );
    }
}

#[test]
#[ignore = "takes minutes"]
fn each_mistake_is_found_by_its_plan() {
    for (mistake, plan) in SHOWN {
        let output = inject(mistake, plan, RUNS_MAX);
        let text = printed(&output);
        assert_eq!(
            output.status.code(),
            Some(1),
            "{mistake}: {text}{}",
            said(&output)
        );
        let runs = text.lines().filter(|line| line.starts_with("run ")).count();
        let broken = text.lines().find(|line| line.starts_with("  broken "));
        println!(
            "{mistake} {plan} {runs} {}",
            broken.unwrap_or_default().trim()
        );
    }
}

#[test]
#[ignore = "takes minutes"]
fn nothing_is_broken_without_a_mistake() {
    for plan in PLANS {
        let output = inject("", plan, CLEAN_RUNS);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{plan}: {}",
            printed(&output)
        );
    }
}
