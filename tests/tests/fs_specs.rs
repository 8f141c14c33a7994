//! Crash states of real file systems held against rules, of which the answers are known. Needs root.

use std::process::Output;

use end_to_end::{Folder, Ordinary, findings_and_summary, objects, printed, require_root, said};
use serde_json::Value;

/// Nobody promises that a file is there which was never synced.
const GONE: &str = "violation gone(P) :- file_op(op: \"creat\", path: P), !entry(path: P).\n";

/// What was fsynced is there under the name that it has, as ext4 promises.
const KEPT: &str = r#"
fsynced(F, P, E) :- file_op(event: E, op: "fsync", file: F, path: P), P != ".", P != "".
renames("rename"). renames("exchange"). renames("unlink"). renames("link").
changed(P) :- file_op(op: O, path: P), renames(O).
changed(P) :- file_op(op: O, to: P), renames(O).
changed(P) :- in_flight(op: O, path: P), renames(O).
below_changed(P) :- fsynced(_, P, _), changed(D), D = capture(P, "^([^/]+)/").
violation lost(P) :- fsynced(_, P, _), !changed(P), !below_changed(P), !entry(path: P).
"#;

const WORKLOADS: &str = "workload two; creat a; creat b; write b 0 4K; fsync b; creat c; write c 0 4K; fsync c\n\
                         workload other; mkdir A; creat A/x; fsync A/x; creat A/y; write A/y 0 4K; fsync A\n";

fn folder() -> Folder {
    Folder::new(&[("gone.dl", GONE), ("kept.dl", KEPT), ("w.wl", WORKLOADS)])
}

/// Sweeps ext4; `options` come before the rest.
#[track_caller]
fn swept(folder: &Folder, status: i32, options: &[&str]) -> Output {
    let states = ["--states", "every-write,reorder:1", "--jobs", "2"];
    let common = ["fs", "w.wl", "--fs", "ext4"];
    folder.ends(status, &[&common[..], options, &states].concat())
}

/// The results with their findings.
fn results(output: &Output) -> Vec<Value> {
    let lines = objects(&printed(output)).into_iter();
    lines.filter(|line| line["type"] == "result").collect()
}

#[test]
fn what_a_crash_may_take_is_found_with_what_it_follows_from() {
    require_root();
    let folder = folder();
    let output = swept(
        &folder,
        1,
        &["--spec", "gone.dl", "--format", "json", "--out", "results"],
    );
    let results = results(&output);
    assert_eq!(results.len(), 2);
    for result in &results {
        assert_eq!(result["verdict"], "finding", "{result:#}");
        assert_eq!(result["unlooked"], Value::Array(Vec::new()));
        let broken = result["broken"].as_array().expect("states");
        for finding in broken
            .iter()
            .flat_map(|state| state["findings"].as_array().expect("findings"))
        {
            assert_eq!(
                (&finding["promise"], &finding["rule"]["name"]),
                (&Value::from("rule"), &Value::from("gone: gone")),
                "{finding:#}"
            );
            let derivation = finding["rule"]["derivation"].as_str().expect("a tree");
            for part in ["by violation gone(P)", "file_op(event: ", "no entry(path: "] {
                assert!(derivation.contains(part), "{derivation}");
            }
        }
    }
    let list = printed(&folder.ends(1, &["show", "results"]));
    assert!(
        list.contains("rule") && list.contains("gone: gone"),
        "{list}"
    );
    let story = printed(&folder.ends(1, &["show", "results", "1"]));
    for part in [
        "broken    gone: gone(\"a\")",
        "  because\n",
        "no entry(path: \"a\")",
        "fs --spec gone.dl --fs ext4",
    ] {
        assert!(story.contains(part), "{story}");
    }
    assert!(!story.contains("promised"), "{story}");
    let replayed = folder.ends(1, &["replay", "results", "1", "--command", "ls {}"]);
    assert!(!printed(&replayed).contains('a'), "{}", printed(&replayed));
    assert!(said(&replayed).contains("broken: gone: gone(\"a\")"));
    let small = printed(&folder.ends(1, &["minimize", "results", "1"]));
    assert!(small.contains("7 operations down to 2"), "{small}");
    assert!(small.contains("broken    gone: gone("), "{small}");
    assert_eq!(folder.left(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_ext4_promises_is_kept_in_all_states_of_a_sweep() {
    require_root();
    let folder = folder();
    let sweep = [
        "fs",
        "--fs",
        "ext4",
        "--preset",
        "seq-1",
        "--sample",
        "15",
        "--seed",
        "3",
        "--states",
        "every-write,reorder:1",
        "--jobs",
        "2",
        "--spec",
        "kept.dl",
        "--format",
        "json",
    ];
    let output = folder.ends(0, &sweep);
    let (_, summary) = findings_and_summary(&output);
    assert!(summary["states_checked"].as_u64() > Some(60), "{summary}");
    assert!(summary.get("unlooked").is_none(), "{summary}");
    // The same rule where the disk forgets what it was told to flush.
    let lies = swept(
        &folder,
        1,
        &[
            "--spec",
            "kept.dl",
            "--disk",
            "drop-flush",
            "--format",
            "json",
        ],
    );
    let results = results(&lies);
    let rules = results.iter().flat_map(|result| {
        let states = result["broken"].as_array().expect("states").iter();
        states.flat_map(|state| state["findings"].as_array().expect("findings").iter())
    });
    let of_rules = rules
        .clone()
        .filter(|finding| finding["rule"]["name"] == "kept: lost");
    // Beside what the contract says.
    let of_contract = rules.filter(|finding| finding["promise"] == "fsync-names");
    assert!(
        of_rules.count() > 0 && of_contract.count() > 0,
        "{results:#?}"
    );
}

/// The rule of the page about file systems.
fn rule_of_the_page() -> &'static str {
    let page = include_str!("../../docs/file-systems.md");
    let from = page.find("# fsynced-is-there.dl: ").expect("its rule");
    let (rule, _) = page[from..].split_once("```").expect("its end");
    rule
}

/// Files in directories in directories, of which one gets another name, or is exchanged.
const NESTED: &str = "\
workload renamed; setup; mkdir A; mkdir A/C; run; creat A/C/foo; write A/C/foo 0 4K; fsync A/C/foo; rename A/C B; fsync B/foo
workload exchanged; setup; mkdir A; mkdir A/C; mkdir B; run; creat B/foo; fsync B/foo; creat A/C/foo; fsync A/C/foo; unlink B/foo; rename A/C B exchange; fsync B/foo; sync
workload kept; setup; mkdir A; mkdir A/C; run; creat A/C/foo; write A/C/foo 0 4K; fsync A/C/foo; creat A/bar; fsync A/bar
";

#[test]
fn the_rule_of_the_page_is_silent_about_what_is_below_another_name_and_finds_what_is_lost() {
    require_root();
    let files = [("w.wl", NESTED), ("there.dl", rule_of_the_page())];
    let folder = Folder::new(&files);
    let output = swept(&folder, 0, &["--spec", "there.dl", "--format", "json"]);
    let (_, summary) = findings_and_summary(&output);
    assert!(summary["states_checked"].as_u64() > Some(10), "{summary}");
    assert!(summary.get("unlooked").is_none(), "{summary}");
    let lying = ["--spec", "there.dl", "--disk", "drop-flush"];
    let text = printed(&swept(&folder, 1, &lying));
    let lost = "broken    there: lost(\"A/C/foo\")";
    assert!(text.contains(lost), "{text}");
}

/// That of the documentation, and its workload.
const REPLACED: &str = include_str!("../../specs/replaced-is-not-empty.dl");
const REPLACE: &str = "workload replace; setup; creat conf; write conf 0 4K; creat other; run; creat conf.new; \
                       write conf.new 0 4K; rename conf.new conf; write other 0 4K; fsync other\n";

#[test]
fn what_no_contract_promises_is_found_where_a_program_relies_on_it() {
    require_root();
    let folder = Folder::new(&[("replaced.dl", REPLACED), ("replace.wl", REPLACE)]);
    let of = |file_system: &str, status: i32| {
        let sweep = [
            "fs",
            "replace.wl",
            "--spec",
            "replaced.dl",
            "--fs",
            file_system,
        ];
        let format = ["--states", "every-write,reorder:1", "--format", "json"];
        results(&folder.ends(status, &[&sweep[..], &format].concat())).remove(0)
    };
    let sound = of("ext4", 0);
    assert_eq!(sound["unlooked"], Value::Array(Vec::new()), "{sound:#}");
    for file_system in ["xfs", "ext4:noauto_da_alloc"] {
        let result = of(file_system, 1);
        for state in result["broken"].as_array().expect("states") {
            let finding = &state["findings"][0];
            assert_eq!(finding["what"], "replaced: empty(\"conf\")", "{state:#}");
        }
    }
}

/// Of each, an empty file may be there for another reason: what was replaced was never written, or not
/// synced, or cut, or the name is that of a third file, also because a directory above it is another.
const REPLACED_AND_MORE: &str = "\
workload never-written; setup; creat conf; creat other; run; creat n; write n 0 4K; rename n conf; write other 0 4K; fsync other
workload not-synced; setup; creat conf; creat other; run; write conf 0 4K; creat n; write n 0 4K; rename n conf; write other 0 4K; fsync other
workload cut; setup; creat conf; write conf 0 4K; run; truncate conf 0; creat n; write n 0 4K; rename n conf; creat other; fsync other
workload made-again; setup; creat conf; write conf 0 4K; run; creat n; write n 0 4K; rename n conf; unlink conf; creat conf; fsync conf
workload replaced-again; setup; creat conf; write conf 0 4K; creat empty; run; creat n; write n 0 4K; rename n conf; rename empty conf; fsync conf
workload exchanged; setup; creat conf; write conf 0 4K; creat empty; run; creat n; write n 0 4K; rename n conf; rename conf empty exchange; fsync .
workload above; setup; mkdir A; mkdir B; creat B/conf; creat A/conf; write A/conf 0 4K; run; creat n; write n 0 4K; rename n A/conf; rename A B exchange; fsync .
";

#[test]
fn what_may_be_empty_for_another_reason_is_not_said_to_have_been_replaced() {
    require_root();
    let folder = Folder::new(&[("replaced.dl", REPLACED)]);
    for workload in REPLACED_AND_MORE.lines() {
        folder.write("one.wl", workload);
        // Beside the finding of another workload, so that it has looked at something.
        folder.write("replace.wl", REPLACE);
        let files = ["fs", "one.wl", "replace.wl", "--spec", "replaced.dl"];
        let how = ["--fs", "xfs", "--states", "every-write,reorder:1"];
        let output = folder.ends(1, &[&files[..], &how, &["--format", "json"]].concat());
        let results = results(&output);
        assert_eq!(results.len(), 2, "{workload}");
        for result in results {
            let is_other = result["workload"] != "replace";
            let broken = result["broken"].as_array().expect("states").iter();
            let mut findings =
                broken.flat_map(|state| state["findings"].as_array().expect("findings"));
            let is_said = findings.any(|finding| finding["promise"] == "rule");
            assert_eq!(is_said, !is_other, "{workload}: {result:#}");
        }
    }
}

#[test]
fn rules_can_be_asked_of_a_finding() {
    require_root();
    let folder = folder();
    swept(&folder, 1, &["--spec", "gone.dl", "--out", "results"]);
    let facts = printed(&folder.ends(0, &["rules", "results", "1", "--facts"]));
    for line in [
        "file_op(event, node,",
        "attributes(node, path,",
        "disk_state(crash, kind,",
    ] {
        let of = facts.lines().find(|facts| facts.contains(line));
        let count = of.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        assert!(count > Some(0), "{facts}");
    }
    let rule = "moment(W, E, K) :- operation(words: W, outcome: \"in flight\"), crashed(event: E), \
                disk_state(crash: 0, kind: K).";
    let asked = printed(&folder.ends(0, &["rules", "results", "1", rule]));
    assert!(asked.contains("moment(\"fsync b\", 2, "), "{asked}");
    let kept = folder.path("results/facts").read_dir().expect("a folder");
    assert_eq!(kept.count(), 1);
    // What is there is asked again.
    let output = folder.ends(1, &["rules", "results", "1", "--spec", "gone.dl"]);
    assert!(!said(&output).contains("again"), "{}", said(&output));
    assert!(printed(&output).contains("violation gone(\"a\")"));
    let wrong = folder.ends(2, &["rules", "results", "1", "x(P) :- printed(_, P)."]);
    let why = "nothing is known of printed of a crash state of a file system";
    assert!(said(&wrong).contains(why), "{}", said(&wrong));
}

#[test]
fn wrong_rules_run_nothing_and_those_without_a_fact_are_no_pass() {
    require_root();
    let folder = folder();
    for (rules, why) in [
        (
            "violation x(P) :-\n  entri(path: P).",
            "wrong.dl:2:3: in the rule of x: nothing is known of entri",
        ),
        (
            "violation x(E) :-\n  sent(event: E).",
            "wrong.dl:2:3: in the rule of x: nothing is known of sent of a crash state of a file system: there are \
             such facts of crash states of programs only",
        ),
        ("x(P) :- entry(path: P).", "wrong.dl has no violation"),
    ] {
        folder.write("wrong.dl", rules);
        let output = swept(&folder, 2, &["--spec", "wrong.dl", "--out", "wrong"]);
        assert!(said(&output).contains(why), "{}", said(&output));
        assert!(!folder.path("wrong").exists());
    }
    let there = "violation there(P) :- file_op(op: \"creat\", path: P), entry(path: P).";
    folder.write("there.dl", there);
    // One by one, the first workload is the first that is looked at.
    let alone = [
        "fs", "w.wl", "--fs", "ext4", "--jobs", "1", "--spec", "there.dl", "--out", "there",
    ];
    let output = folder.ends(2, &alone);
    let why = "two violates a rule while nothing has crashed, so the rule says nothing about crashes: there: \
               there(\"a\"), there(\"b\")";
    assert!(said(&output).contains(why), "{}", said(&output));
    assert!(!folder.path("there").exists());
    folder.write("nothing.dl", "violation named(N) :- xattr(name: N).");
    let nothing = ["--spec", "kept.dl", "nothing.dl", "--out", "nothing"];
    let output = swept(&folder, 3, &nothing);
    let why = "ext4: nothing: named never had a fact to look at: there is no xattr\n";
    assert!(printed(&output).contains(why), "{}", printed(&output));
    let again = folder.ends(3, &["fs", "--resume", "nothing"]);
    assert!(printed(&again).contains(why), "{}", printed(&again));
    let report = [
        "report",
        "nothing",
        "--junit",
        "junit.xml",
        "--html",
        "page.html",
    ];
    folder.ends(0, &report);
    for file in ["junit.xml", "page.html"] {
        let text = folder.read(file);
        assert!(text.contains("named never had a fact to look at"), "{file}");
    }
}

#[test]
fn the_texts_are_kept_and_parts_with_other_rules_are_not_put_together() {
    require_root();
    let folder = folder();
    let part = |shard: &str, out: &str, spec: &str| {
        swept_as(&folder, &["--shard", shard, "--out", out, "--spec", spec]);
    };
    part("1/2", "one", "gone.dl");
    // Stopped before its end, it goes on without the file.
    let stopped = [
        "--shard",
        "2/2",
        "--out",
        "two",
        "--spec",
        "gone.dl",
        "--stop-after",
        "1",
    ];
    swept_as(&folder, &stopped);
    part("2/2", "three", "kept.dl");
    std::fs::remove_file(folder.path("gone.dl")).expect("removed");
    folder.ends(2, &["fs", "--resume", "two", "--spec", "kept.dl"]);
    let resumed = folder.run(&["fs", "--resume", "two"]);
    assert!(resumed.status.code() == Some(1), "{}", said(&resumed));
    let merged = folder.ends(1, &["merge", "one", "two", "--out", "whole"]);
    assert!(printed(&merged).contains("ext4"), "{}", printed(&merged));
    let list = printed(&folder.ends(1, &["show", "whole", "--all"]));
    // In each workload both files are lost, or the second alone.
    assert_eq!(list.matches("gone: gone").count(), 4, "{list}");
    // Others are those of another text, and those of another name, which findings have.
    folder.write("renamed.dl", GONE);
    part("2/2", "four", "renamed.dl");
    for other in ["three", "four"] {
        let output = folder.ends(2, &["merge", "one", other, "--out", "other"]);
        let why = "the specifications (--spec) are others";
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}

/// The same with any status.
fn swept_as(folder: &Folder, options: &[&str]) {
    let states = ["--states", "every-write", "--jobs", "1"];
    let sweep = [&["fs", "w.wl", "--fs", "ext4"][..], options, &states].concat();
    folder.run(&sweep);
}

#[test]
fn a_crash_in_a_recovery_is_held_against_rules() {
    require_root();
    let folder = folder();
    let of_second = "violation second(K) :- disk_state(crash: 1, kind: K), lost_write(crash: 1).\n";
    folder.write("second.dl", of_second);
    folder.write("one.wl", "workload one; creat a; write a 0 4K; fsync a\n");
    let sweep = [
        "fs", "one.wl", "--fs", "ext4", "--jobs", "1", "--states", "prefix",
    ];
    let again = ["--again", "1", "--again-states", "every-write,reorder:1"];
    let rules = ["--spec", "second.dl", "kept.dl", "--format", "json"];
    let output = folder.ends(1, &[&sweep[..], &again, &rules].concat());
    let results = results(&output);
    let states: Vec<_> = results
        .iter()
        .flat_map(|result| result["broken"].as_array().expect("states"))
        .collect();
    assert!(!states.is_empty());
    for state in states {
        let again = &state["again"][0];
        assert!(
            !again["lost"].as_array().expect("lost").is_empty(),
            "{state:#}"
        );
        assert_eq!(state["findings"][0]["rule"]["name"], "second: second");
    }
}

/// Who runs it: nobody of Debian.
const USER: u32 = 65534;

#[test]
fn rules_are_asked_in_a_guest_too() {
    let place = Ordinary::new();
    place.file("gone.dl", GONE);
    place.file("w.wl", WORKLOADS);
    // The user makes files himself.
    std::os::unix::fs::chown(place.path(""), Some(USER), Some(USER)).expect("given away");
    let ends = |arguments: &[&str]| {
        let output = place.crashpoint(arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        printed(&output)
    };
    let guest = ["--kernel", "uml", "--spec", "gone.dl", "--out", "results"];
    let sweep = [
        "fs",
        "w.wl",
        "--fs",
        "ext4",
        "--states",
        "every-write",
        "--jobs",
        "1",
    ];
    let text = ends(&[&sweep[..], &guest].concat());
    assert!(text.contains("broken    gone: gone(\"a\")"), "{text}");
    let text = ends(&["rules", "results", "1", "--spec", "gone.dl"]);
    assert!(text.contains("violation gone(\"a\")"), "{text}");
}
