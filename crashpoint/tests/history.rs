//! `crashpoint history`: verdicts, exit statuses, forms, and answers to wrong files.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use predicates::str::contains;

const CLEAN: &str = r#"{"type":"history","version":1}
{"process":0,"type":"invoke","f":"write","value":1}
{"process":1,"type":"invoke","f":"read","value":null}
{"process":1,"type":"ok","f":"read","value":1}
{"process":0,"type":"ok","f":"write","value":1}
"#;
const LOST: &str = r#"{"process":0,"type":"invoke","f":"write","key":"k","value":1}
{"process":0,"type":"ok","f":"write","value":1}
{"process":1,"type":"invoke","f":"read","key":"k"}
{"process":1,"type":"ok","f":"read","value":null}
"#;

fn crashpoint(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crashpoint"));
    command.arg("history").args(arguments);
    command
}

struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    }
}

#[test]
fn a_history_is_clean_or_has_anomalies() {
    let directory = Directory::new();
    let clean = directory.file("clean.jsonl", CLEAN);
    crashpoint(&["check", &clean])
        .assert()
        .code(0)
        .stdout("2 operations (2 ok, 0 failed, 0 unknown) on 1 object: 1 register by its operations: clean\n");
    crashpoint(&["check", "-"])
        .write_stdin(CLEAN)
        .assert()
        .code(0);
    let lost = directory.file("lost.jsonl", LOST);
    let said = crashpoint(&["check", &lost]).assert().code(1);
    insta::assert_snapshot!(
        "history_lost",
        String::from_utf8_lossy(&said.get_output().stdout)
    );
    let said = crashpoint(&["check", &lost, "--format", "json"])
        .assert()
        .code(1);
    let lines = String::from_utf8(said.get_output().stdout.clone()).expect("text");
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["kind"], "write-lost");
    assert_eq!(lines[0]["events"], serde_json::json!([0, 2]));
    assert_eq!(lines[1]["kind"], "not-linearizable");
    assert_eq!(lines[2]["model"], "map");
    assert_eq!(lines[2]["guessed"], true);
    assert_eq!(lines[3]["verdict"], "anomalies");
    // What it is at first can be said.
    crashpoint(&["check", &lost, "--model", "map", "--initial", "7"])
        .assert()
        .code(1)
        .stdout(contains("never-written"));
}

#[test]
fn what_was_guessed_is_said_with_the_keys() {
    let line = |key: u32| {
        let both = |f| {
            let process = format!(r#""process":{key},"f":"{f}","key":"k{key}","value":1"#);
            format!("{{\"type\":\"invoke\",{process}}}\n{{\"type\":\"ok\",{process}}}\n")
        };
        both("write") + &both("read")
    };
    let lines: String = (0..7).map(line).collect();
    let lines = lines + r#"{"type":"invoke","process":9,"f":"acquire","key":1}"# + "\n";
    crashpoint(&["check", "-", "--model", "k0=register"])
        .write_stdin(lines)
        .assert()
        .code(0)
        .stdout(contains(
            "on 8 objects: 1 lock by its operations (1), 6 map by their operations \
             (k1, k2, k3, k4, and 2 more), 1 register; 1 without an answer that can be wrong: clean",
        ));
}

#[test]
fn what_was_not_looked_at_is_not_clean() {
    let line =
        |kind: &str, f: &str| format!("{{\"type\":\"{kind}\",\"process\":0,\"f\":\"{f}\"}}\n");
    let answered = |kind, f| line("invoke", f) + &line(kind, f);
    let nemesis = "{\"type\":\"info\",\"process\":\"nemesis\",\"f\":\"kill\"}\n".to_owned();
    for (arguments, text, why) in [
        (
            &["check", "-"][..],
            nemesis.clone(),
            "there are no operations",
        ),
        (
            &["check", "-", "--model", "map"],
            nemesis,
            "there are no operations",
        ),
        (
            &["check", "-"],
            answered("ok", "write").repeat(2),
            "none of 2 operations was answered with anything that can be wrong",
        ),
        (
            &["check", "-"],
            answered("ok", "write") + &answered("info", "read"),
            "none of 2 operations was answered with anything that can be wrong",
        ),
        (
            &["check", "-", "--model", "lock"],
            line("invoke", "acquire"),
            "the only operation was not answered with anything that can be wrong",
        ),
        (
            &["check", "-", "--model", "x*=map"],
            answered("fail", "write"),
            "the only operation was not answered with anything that can be wrong",
        ),
    ] {
        crashpoint(arguments)
            .write_stdin(text.clone())
            .assert()
            .code(3)
            .stdout(contains(format!(
                "UNDECIDED  no object could be judged: {why}"
            )))
            .stdout(contains(": undecided\n"));
    }
    let said = crashpoint(&["check", "-", "--format", "json"])
        .write_stdin(answered("ok", "write"))
        .assert()
        .code(3);
    let said = String::from_utf8_lossy(&said.get_output().stdout).into_owned();
    assert!(said.contains(r#""judged":false"#), "{said}");
    assert!(said.contains(r#""verdict":"undecided""#), "{said}");
}

#[test]
fn what_is_promised_decides() {
    let skew = r"{:type :invoke, :process 0, :value [[:append :x 1] [:r :y nil]]}
{:type :invoke, :process 1, :value [[:append :y 1] [:r :x nil]]}
{:type :ok, :process 0, :value [[:append :x 1] [:r :y []]]}
{:type :ok, :process 1, :value [[:append :y 1] [:r :x []]]}
";
    for (consistency, code) in [("snapshot-isolation", 0), ("serializable", 1)] {
        crashpoint(&["check", "-", "--consistency", consistency])
            .write_stdin(skew)
            .assert()
            .code(code);
    }
    crashpoint(&["check", "-"])
        .write_stdin(skew)
        .assert()
        .code(1)
        .stdout(contains("T1 did not see T2's 1 of y"));
    crashpoint(&["check", "-", "--consistency", "linearizable"])
        .write_stdin(skew)
        .assert()
        .code(2)
        .stderr(contains(
            "linearizable is not something that a list-append can be",
        ));
    // A stale read is one that a system may promise to have.
    let stale = LOST.to_owned()
        + r#"{"process":1,"type":"invoke","f":"read","key":"k"}
{"process":1,"type":"ok","f":"read","value":1}
"#;
    for (consistency, code) in [("linearizable", 1), ("eventual", 0)] {
        crashpoint(&["check", "-", "--consistency", consistency])
            .write_stdin(stale.clone())
            .assert()
            .code(code);
    }
}

#[test]
fn what_cannot_be_decided_is_neither() {
    // Forty that are not answered take part in everything or nothing, and no sum is right.
    let mut text = String::new();
    for process in 0..40 {
        let amount = 3_i64 << process;
        text += &format!(
            "{{\"process\":{process},\"type\":\"invoke\",\"f\":\"inc\",\"value\":{amount}}}\n"
        );
    }
    text += "{\"process\":99,\"type\":\"invoke\",\"f\":\"read\"}\n";
    text += "{\"process\":99,\"type\":\"ok\",\"f\":\"read\",\"value\":1000001}\n";
    crashpoint(&["check", "-", "--time-limit", "100ms"])
        .write_stdin(text)
        .assert()
        .code(3)
        .stdout(contains(
            "UNDECIDED  whether there is an order for the operations",
        ));
}

#[test]
fn wrong_files_and_arguments_are_answered_in_one_line() {
    let directory = Directory::new();
    let torn = directory.file("torn.jsonl", &format!("{CLEAN}{{\"process\":0,\"ty"));
    let other = directory.file("other.log", "2026-11-24 started\n");
    let empty = directory.file("empty.jsonl", "");
    let trash = directory.file("trash.jsonl", "");
    fs::write(&trash, b"\x7fELF\xff\x00\n\x80").expect("a file");
    let call = r#"{"process":1,"type":"invoke","f":"read"}"#;
    let two = directory.file("two.jsonl", &format!("{CLEAN}{call}\n{call}\n"));
    let unasked = r#"{"process":7,"type":"ok","f":"read"}"#;
    let unasked = directory.file("unasked.jsonl", &format!("{CLEAN}{unasked}\n"));
    // The index of an event is not its line.
    let transactions = directory.file(
        "transactions.edn",
        "; one vector\n[{:index 7, :type :invoke, :process 0, :value [[:append :x 1]]}\n\
         {:index 9, :type :invoke, :process 1, :value [[:jump :x 1]]}]\n",
    );
    let folder = directory.0.path().to_str().expect("text").to_owned();
    let queue = directory.file("queue.jsonl", &CLEAN.replace("write", "push"));
    let lost = directory.file("lost.jsonl", LOST);
    let nothing = LOST
        .replace("write", "enqueue")
        .replace("\"value\":1", "\"value\":null");
    let nothing = directory.file("nothing.jsonl", &nothing);
    for (arguments, said) in [
        (
            &["check", "/nowhere/h"][..],
            "read /nowhere/h: No such file",
        ),
        (&["check", &torn], "torn.jsonl: line 6 is torn"),
        (
            &["check", &other],
            "other.log: line 1: it is no history: expected JSON lines",
        ),
        (&["check", &empty], "empty.jsonl: there are no events in it"),
        (
            &["check", &trash],
            "trash.jsonl: line 1: it is not text in UTF-8 at column 5",
        ),
        (
            &["check", &two],
            "two.jsonl: line 7: process 1 calls read, but its read (line 6) has not been answered",
        ),
        (
            &["check", &unasked],
            "unasked.jsonl: line 6: process 7 is answered ok to read, but it has called nothing",
        ),
        (
            &["check", &transactions],
            "transactions.edn: line 3: txn carries [[\"jump\",\"x\",1]], not",
        ),
        (&["check", &folder], "is a directory"),
        (
            &["check", &queue],
            "(push, read) do not say what it is; say it with --model",
        ),
        (
            &["check", &queue, "--model", "queue"],
            "queue.jsonl: line 3: a queue has no operation read",
        ),
        (
            &["check", &lost, "--model", "queue"],
            "lost.jsonl: line 1 (key k): a queue has no operation write",
        ),
        (
            &["check", &nothing, "--model", "queue"],
            "nothing.jsonl: line 1 (key k): enqueue carries null, not an element",
        ),
        (
            &["check", &lost, "--model", "quue"],
            "--model: there is no model quue (there are register, map,",
        ),
        (
            &["check", &lost, "--model", "[=map"],
            "--model: Pattern syntax error",
        ),
        (&["check", &lost, "--initial", "{"], "--initial {: EOF"),
        (
            &["check", &lost, "--independent"],
            "with --independent: line 1: write carries 1, not [key, value]",
        ),
        (
            &["convert", &lost, "--to", "jsonl", "-o", "/nowhere/o"],
            "write /nowhere/o: No such file",
        ),
    ] {
        let output = crashpoint(arguments).assert().code(2);
        let error = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(error.contains(said), "{arguments:?} says: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn a_history_is_converted_there_and_back() {
    let directory = Directory::new();
    let lost = directory.file("lost.jsonl", LOST);
    let edn = directory.0.path().join("lost.edn");
    let edn = edn.to_str().expect("text");
    crashpoint(&["convert", &lost, "--to", "jepsen", "-o", edn])
        .assert()
        .code(0)
        .stdout("");
    let text = fs::read_to_string(edn).expect("EDN");
    assert!(text.starts_with(
        "{:index 0, :time 0, :type :invoke, :process 0, :f :write, :key \"k\", :value 1}\n"
    ));
    let back = crashpoint(&["convert", edn, "--to", "jsonl"])
        .assert()
        .code(0);
    let direct = crashpoint(&["convert", &lost, "--to", "jsonl"])
        .assert()
        .code(0);
    assert_eq!(back.get_output().stdout, direct.get_output().stdout);
    let drawn = crashpoint(&["convert", edn, "--to", "porcupine"])
        .assert()
        .code(0);
    let drawn: serde_json::Value =
        serde_json::from_slice(&drawn.get_output().stdout).expect("JSON");
    let partition = &drawn["Partitions"][0];
    assert_eq!(partition["History"][1]["Description"], "read k -> null");
    assert_eq!(
        partition["PartialLinearizations"][0][0]["StateDescription"],
        "1"
    );
    assert_eq!(partition["Largest"]["0"], 0);
}
