//! What a finding advises helps: with the calls made as it says the finding is gone.

use end_to_end::{app, findings_and_summary, require_root, said};
use serde_json::Value;

/// Sweeps a program of the fixture, which takes an advice.
fn sweep(model: &str, name: &str, advice: &Value) -> Vec<Value> {
    let check = format!("/usr/bin/python3 -SE tests/fixtures/advised/check.py {name}");
    let client = "tests/fixtures/advised/program.py";
    let advice = advice.to_string();
    let words = ["/usr/bin/python3", client, "{dir}", name, &advice];
    let output = app(&["--model", model, "--check-server", &check], &words);
    let (findings, summary) = findings_and_summary(&output);
    assert!(summary["checked"].as_u64() > Some(3), "{}", said(&output));
    assert_eq!(summary["inconclusive"], 0, "{summary:#}");
    findings
}

/// Follows the advice of each finding of a program; what that is, in words.
fn follow(model: &str, name: &str) -> Vec<String> {
    require_root();
    let findings = sweep(model, name, &Value::Array(Vec::new()));
    assert!(!findings.is_empty());
    let mut advice: Vec<Value> = Vec::new();
    for finding in &findings {
        let calls = finding["prevented_by"].as_array().expect("calls");
        assert!(!calls.is_empty(), "{finding:#}");
        let others = sweep(model, name, &finding["prevented_by"]);
        assert!(
            others
                .iter()
                .all(|other| other["broken"] != finding["broken"]
                    || other["nodes"][0]["lost"][0]["call"]
                        != finding["nodes"][0]["lost"][0]["call"]),
            "{:#}\n{others:#?}",
            finding["prevented_by"]
        );
        for call in calls {
            if !advice.contains(call) {
                advice.push(call.clone());
            }
        }
    }
    if findings.len() > 1 {
        let all = Value::Array(advice.clone());
        assert_eq!(sweep(model, name, &all), Vec::<Value>::new(), "{all:#}");
    }
    let words = advice.iter().map(|call| {
        let word = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        let place = match call.get("after") {
            Some(_) => format!("right after {}", word("after")),
            None => format!("before {}", word("before")),
        };
        format!("{} {place}, {} times", word("path"), call["times"])
    });
    words.collect()
}

fn assert_all_begin(advice: &[String], words: &str) {
    let mut calls = advice.iter();
    assert!(calls.all(|call| call.starts_with(words)), "{advice:?}");
}

/// The message has its new name only once the other one is gone: a sync that comes later than that
/// leaves a moment without either.
#[test]
fn a_message_that_is_moved_is_synced_before_its_old_name_is_removed() {
    let advice = follow("btrfs", "link");
    assert_eq!(advice, ["new/m0 before unlink new/m0, 2 times"]);
}

#[test]
fn a_file_that_is_replaced_is_safe_once_its_directory_is_synced() {
    assert_all_begin(&follow("linux", "saved"), "{dir} before the line `saved ");
}

/// A record that is torn while it is written is none that was acknowledged.
#[test]
fn a_log_is_synced_before_its_records_are_acknowledged() {
    assert_all_begin(
        &follow("linux", "appended"),
        "log before the line `appended ",
    );
}

/// The page does harm where all else is lost. That it is torn while it is written no call forbids.
#[test]
fn what_protects_a_page_is_synced_before_that_is_written() {
    let advice = follow("ext4-ordered", "undone");
    assert_eq!(advice, ["undo before write page, 1024 bytes at 0, 1 times"]);
}

/// No single loss breaks anything, and the first page is one of those that were lost: a sync after it
/// is too late, though it helps wherever the crash comes later. One of the logs is enough.
#[test]
fn pages_that_several_logs_protect_are_written_after_the_sync_of_one_of_them() {
    let advice = follow("ext4-ordered", "mirrored");
    let expected = "undo1 right after write undo1, 512 bytes at 0, 1 times";
    assert_eq!(advice, [expected]);
}

/// What is lost of the first of two names changes nothing: so it is with every crash before the line.
#[test]
fn a_link_that_is_switched_is_safe_once_its_directory_is_synced() {
    let advice = follow("linux", "switched");
    let expected = "{dir} before the line `switched 0`, 2 times";
    assert_eq!(advice, [expected]);
}

/// Nobody can open a symbolic link itself to sync it.
#[test]
fn a_link_that_is_made_is_safe_once_its_directory_is_synced() {
    let advice = follow("linux", "linked");
    assert_eq!(advice, ["{dir} before the line `linked 0`, 4 times"]);
}

/// The record of each round that was synced, and that of the round before, are not what the sync is for.
#[test]
fn records_that_are_acknowledged_together_are_synced_before_the_line() {
    let advice = follow("linux", "twice");
    assert_eq!(advice, ["log before the line `both 0`, 2 times"]);
}

/// A write that its own call syncs needs no other sync, and a sync needs none.
#[test]
fn only_what_is_not_synced_yet_is_counted() {
    let advice = follow("linux", "marked");
    assert_eq!(advice, ["log before write log, 1 byte at 4096, 3 times"]);
}
