//! Crash states of programs and clusters held against specifications, of which the answers are known.
//! The check always says `ok`. Needs root.

use std::fs;
use std::process::Output;

use end_to_end::{Folder, findings_and_summary, printed, said, store_cluster};
use serde_json::Value;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/snapshots/program.py");

/// The specification of the project.
const LOG: &str = include_str!("../../specs/log-and-snapshot.dl");

const NAMES: &str = include_str!("../../specs/names-are-there.dl");

/// About what is left alone.
const FILES: &str = "violation lost_both(P) :- entry(path: P, size: 0), P = \"log\", \
                     printed(_, \"stored a\"), !entry(path: \"snapshot\").\n";

/// About what was acknowledged.
const ACKNOWLEDGED: &str = r#"
kept(K) :- line(path: "log", line: L), K = capture(L, "^put ([a-z]+) ").
kept(K) :- line(path: "snapshot", line: L), K = capture(L, "^([a-z]+) ").
violation gone(K) :- printed(_, L), K = capture(L, "^stored (.+)$"), !kept(K).
"#;

/// Sweeps the program; `options` come before it.
fn swept(folder: &Folder, status: i32, mode: &str, options: &[&str]) -> Output {
    let common = [
        "app", "--model", "posix", "--jobs", "2", "--check", "echo ok",
    ];
    let program = ["--", "/usr/bin/python3", PROGRAM, "{dir}", mode];
    folder.ends(status, &[&common[..], options, &program].concat())
}

/// What all three find.
fn found(folder: &Folder, mode: &str) -> Vec<Value> {
    let status = i32::from(mode != "right");
    let specs = ["--spec", "files.dl", "acknowledged.dl", "log.dl"];
    let options = [&specs[..], &["--format", "json"]].concat();
    let output = swept(folder, status, mode, &options);
    let (findings, summary) = findings_and_summary(&output);
    assert!(summary["checked"].as_u64() > Some(20), "{summary}");
    assert!(summary.get("unlooked").is_none(), "{summary}");
    findings
}

/// What a finding says is broken.
fn broken(finding: &Value) -> impl Iterator<Item = &str> {
    let words = finding["broken"].as_array().expect("words").iter();
    words.map(|words| words.as_str().expect("words"))
}

fn folder() -> Folder {
    Folder::new(&[
        ("log.dl", LOG),
        ("files.dl", FILES),
        ("acknowledged.dl", ACKNOWLEDGED),
    ])
}

#[test]
fn a_log_that_is_emptied_too_early_is_found_by_rules_about_files_lines_or_calls() {
    let folder = folder();
    assert!(found(&folder, "right").is_empty());
    let findings = found(&folder, "wrong");
    for words in ["files: lost_both(\"log\")", "acknowledged: gone(\"a\")"] {
        let mut says = findings.iter();
        let says = says.find(|finding| broken(finding).any(|said| said == words));
        let finding = says.unwrap_or_else(|| panic!("{words}: {findings:#?}"));
        let lost = &finding["nodes"][0]["lost"][0]["words"];
        assert_eq!(lost, "rename snapshot.new to snapshot", "{finding:#}");
        assert_eq!(finding["prevented_by"][0]["path"], "{dir}");
    }
    let said: Vec<_> = findings.iter().flat_map(broken).collect();
    let says = |words: &str| said.iter().any(|said| said.starts_with(words));
    assert!(says("log: emptied_too_early("), "{said:?}");
    assert!(says("log: lost_both(\"program\")"), "{said:?}");
    // What it rests on is told, and nothing need be lost for it.
    let of_order = findings.iter().find(|finding| {
        let mut said = broken(finding);
        said.any(|said| said.starts_with("log: emptied_too_early("))
            && finding["relaxation"] == "in order"
    });
    let derivation = &of_order.expect("one in order")["derivations"][0];
    let derivation = derivation.as_str().expect("a tree");
    for part in ["op: \"rename\"", "op: \"truncate\"", "no durable("] {
        assert!(derivation.contains(part), "{derivation}");
    }
}

#[test]
fn rules_without_a_fact_to_look_at_are_no_pass_and_wrong_ones_run_nothing() {
    let folder = folder();
    let nothing = "violation at(L) :- line(path: \"nowhere\", line: L).\n";
    folder.write("nothing.dl", nothing);
    let output = swept(&folder, 3, "right", &["--spec", "nothing.dl"]);
    let words = "nothing: at never had a fact to look at: there is no line(path: \"nowhere\"";
    assert!(printed(&output).contains(words), "{}", printed(&output));
    for (rules, wrong) in [
        (
            "violation x(P) :-\n  entri(path: P).",
            "wrong.dl:2:3: in the rule of x: nothing is known of entri",
        ),
        (
            "violation x(L) :- printed(_, L), !served(L).",
            "nothing is known of served",
        ),
        ("x(L) :- printed(_, L).", "wrong.dl has no violation"),
    ] {
        folder.write("wrong.dl", rules);
        let output = swept(
            &folder,
            2,
            "right",
            &["--spec", "wrong.dl", "--out", "wrong"],
        );
        assert!(said(&output).contains(wrong), "{}", said(&output));
        assert!(!folder.path("wrong").exists());
    }
    let of_disks = ["app", "--check", "echo ok", "--spec", "files.dl"];
    let level = ["--level", "block", "--", "/bin/true"];
    let output = folder.ends(2, &[&of_disks[..], &level].concat());
    assert!(said(&output).contains("--spec"), "{}", said(&output));
}

/// Stores allocate files ahead, of which nobody is told the lines. That matters only where rules may ask
/// for them.
#[test]
fn a_file_that_is_too_large_to_have_lines_is_said_where_rules_may_ask_for_them() {
    let left =
        |others: &str| format!("violation left(P) :- line(path: P, line: \"a\"), P {others}.\n");
    let folder = Folder::new(&[
        ("one.dl", &left("~ \"^na\"")),
        ("any.dl", &left("!= \"b\"")),
    ]);
    let script = "cd $0; truncate -s 2M ahead; echo a > name; mv name b";
    let sweep = |spec: &str, status: i32, out: &str| {
        let common = [
            "app", "--model", "posix", "--check", "echo ok", "--out", out, "--spec", spec,
        ];
        let program = ["--", "/bin/sh", "-c", script, "{dir}"];
        printed(&folder.ends(status, &[&common[..], &program].concat()))
    };
    let text = sweep("one.dl", 1, "one");
    assert!(text.contains("one: left(\"name\")"), "{text}");
    // It is left out in some states, and these can be judged.
    let text = sweep("any.dl", 1, "any");
    let words =
        "rules may ask for the lines of ahead of program, which has more than 1048576 bytes";
    assert!(text.contains(words), "{text}");

    // So it is with questions about what was found.
    let asked = "has(P, L) :- line(path: P, line: L), P !~ \"ahead\".";
    let output = folder.ends(0, &["rules", "one", "1", asked]);
    assert!(
        printed(&output).contains("has(\"name\", \"a\")"),
        "{}",
        printed(&output)
    );
    let output = folder.ends(2, &["rules", "one", "1", "has(P) :- line(path: P)."]);
    assert!(said(&output).contains(words), "{}", said(&output));
}

/// A folder of specifications has some about runs with faults: one among others is left out, and said.
#[test]
fn a_specification_about_the_other_thing_is_left_out_among_others_and_refused_alone() {
    let folder = folder();
    let specs = concat!(env!("CARGO_MANIFEST_DIR"), "/../specs");
    let runs = std::fs::read_to_string(format!("{specs}/mutual-exclusion.dl"));
    folder.write("exclusion.dl", &runs.expect("read"));
    let both = ["--spec", "exclusion.dl", "files.dl", "--stop-after", "1"];
    let output = swept(&folder, 1, "wrong", &both);
    let left_out = "exclusion.dl is left out: it is about a run with faults";
    assert!(said(&output).contains(left_out), "{}", said(&output));
    let output = swept(&folder, 2, "right", &["--spec", "exclusion.dl"]);
    let refused = "there are such facts of runs only";
    assert!(said(&output).contains(refused), "{}", said(&output));
}

/// The lines of a file, but for one.
fn without_line(text: &str, number: usize) -> String {
    let lines = text.lines().enumerate();
    let kept = lines.filter(|(place, _)| *place != number);
    kept.map(|(_, line)| line.to_owned() + "\n").collect()
}

#[test]
fn what_rules_say_is_kept_and_found_again() {
    let folder = folder();
    let specs = ["--spec", "files.dl", "log.dl", "--out", "out"];
    swept(&folder, 1, "wrong", &specs);
    let whole = folder.read("out/findings.jsonl");
    let results = folder.read("out/results.jsonl");
    assert!(results.contains("\"type\":\"looked\""), "{results}");

    // Killed in the middle: what is left is looked at again, and says the same.
    let place = results.lines().count() / 2;
    folder.write("out/results.jsonl", &without_line(&results, place));
    fs::remove_file(folder.path("out/summary.jsonl")).expect("removed");
    folder.ends(1, &["app", "--resume", "out"]);
    assert_eq!(folder.read("out/findings.jsonl"), whole);
    let output = folder.ends(2, &["app", "--resume", "out", "--spec", "files.dl"]);
    assert!(said(&output).contains("--spec"), "{}", said(&output));

    // In parts, which are held against the same.
    let common = [
        "app",
        "--model",
        "posix",
        "--check",
        "echo ok",
        "--trace",
        "out/trace",
    ];
    let part = |part: &str, out: &str, specs: &[&str]| {
        let own = ["--shard", part, "--out", out, "--spec"];
        folder.run(&[&common[..], &own, specs].concat());
    };
    part("1/2", "one", &["files.dl", "log.dl"]);
    part("2/2", "two", &["files.dl", "log.dl"]);
    // Others are refused before they are asked whether they have ended.
    part("2/2", "other", &["files.dl", "--stop-after", "1"]);
    let merged = folder.ends(1, &["merge", "one", "two", "--out", "merged"]);
    let count = |text: &str| text.matches("FINDING ").count();
    assert_eq!(count(&printed(&merged)), whole.lines().count());
    let output = folder.ends(2, &["merge", "one", "other", "--out", "refused"]);
    assert!(said(&output).contains("other options"), "{}", said(&output));

    // One by one: shown, asked, made again, made small.
    let first: Value = serde_json::from_str(whole.lines().next().expect("one")).expect("JSON");
    let words = first["broken"][0].as_str().expect("words");
    let shown = folder.ends(1, &["show", "out", "1"]);
    assert!(
        printed(&shown).contains("  because\n"),
        "{}",
        printed(&shown)
    );
    let asked = folder.ends(1, &["rules", "out", "1", "--spec", "files.dl", "log.dl"]);
    let fact = words.split_once(": ").expect("a name before it").1;
    let violation = format!("violation {fact}\n");
    assert!(printed(&asked).contains(&violation), "{}", printed(&asked));
    let small = folder.ends(1, &["minimize", "out", "1"]);
    assert!(printed(&small).contains(words), "{}", printed(&small));
    let again = folder.ends(1, &["replay", "out", "1", "--command", "true"]);
    assert!(
        said(&again).contains(&format!("broken: {words}")),
        "{}",
        said(&again)
    );
}

/// A sample of the crash states of the store with a mistake, held against the specification about
/// pointers.
fn store(mistake: &str, sample: &str, status: i32) -> Vec<Value> {
    let folder = Folder::new(&[
        ("cluster.toml", &store_cluster(mistake)),
        ("names.dl", NAMES),
    ]);
    folder.ends(0, &["cluster", "record", "cluster.toml", "-o", "trace"]);
    let sweep = [
        "cluster", "sweep", "trace", "--model", "posix", "--sample", sample, "--seed", "1",
    ];
    let options = [
        "--starts", "together", "--spec", "names.dl", "--format", "json",
    ];
    let output = folder.ends(status, &[sweep.as_slice(), &options].concat());
    findings_and_summary(&output).0
}

#[test]
fn a_pointer_of_a_node_to_a_file_that_is_not_there_is_found() {
    assert!(store("", "10", 0).is_empty());
    let findings = store("segment-rename", "24", 1);
    let is_dangling = |finding: &&Value| {
        let words = finding["broken"][0].as_str().expect("words");
        words.starts_with("names: dangling(") && finding["derivations"][0].is_string()
    };
    assert!(
        findings.iter().any(|finding| is_dangling(&finding)),
        "{findings:#?}"
    );
}
