//! The power fails while an operation is in flight: what it does may show, what its return would
//! have promised is not promised yet.

mod support;

use checker::{Contract, Model, Promise, oracle};
use support::{ALL, Toy, operations, workload};

/// The last operation of `text` was begun. `lose` are operations that left nothing behind. Returns
/// what is broken on each file system.
fn broken_while(text: &str, lose: &[&str]) -> Vec<(&'static str, Vec<Promise>)> {
    let workload = workload(text);
    let operations = operations(&workload);
    let (last, before) = operations.split_last().expect("operations");
    ALL.into_iter()
        .map(|file_system| {
            let mut model = Model::new(Contract::of(file_system).expect("it has a contract"));
            for op in before {
                model.apply(op, false).expect("the model follows");
            }
            model.begin(last, false).expect("the model follows");
            let mut toy = Toy::new();
            for (number, op) in operations.iter().enumerate() {
                if !lose.contains(&op.to_string().as_str()) {
                    toy.apply(number, op);
                }
            }
            let findings =
                oracle::check(&model, None, &toy.tree(file_system)).expect("it can be decided");
            (
                file_system,
                findings
                    .into_iter()
                    .map(|finding| finding.promise)
                    .collect(),
            )
        })
        .collect()
}

#[track_caller]
fn legal(text: &str, lose: &[&str]) {
    for (file_system, broken) in broken_while(text, lose) {
        assert!(
            broken.is_empty(),
            "{file_system}: {text} without {lose:?} breaks {broken:?}"
        );
    }
}

#[track_caller]
fn breaks(text: &str, lose: &[&str], promise: Promise) {
    for (file_system, broken) in broken_while(text, lose) {
        assert!(
            broken.contains(&promise),
            "{file_system}: {text} without {lose:?} breaks {broken:?}"
        );
    }
}

#[test]
fn a_persistence_operation_promises_nothing_before_it_returns() {
    for call in ["fsync foo", "fdatasync foo", "sync"] {
        legal(
            &format!("creat foo; write foo 0 4K; {call}"),
            &["creat foo", "write foo 0 4K"],
        );
        legal(
            &format!("creat foo; write foo 0 4K; {call}"),
            &["write foo 0 4K"],
        );
        legal(&format!("creat foo; write foo 0 4K; {call}"), &[]);
    }
    legal("creat foo; write foo 0 4K sync", &["write foo 0 4K sync"]);
}

#[test]
fn what_was_promised_before_holds_meanwhile() {
    breaks("creat foo; sync; creat bar", &["creat foo"], Promise::Sync);
    breaks(
        "creat foo; fsync foo; sync",
        &["creat foo"],
        Promise::FsyncNames,
    );
    breaks(
        "creat foo; write foo 0 4K; fsync foo; write foo 4K 4K",
        &["write foo 0 4K"],
        Promise::FsyncData,
    );
}

#[test]
fn what_is_being_done_may_show_or_not() {
    for (text, last) in [
        ("creat foo; sync; rename foo bar", "rename foo bar"),
        ("creat foo; sync; unlink foo", "unlink foo"),
        ("creat foo; sync; link foo bar", "link foo bar"),
        ("creat foo; sync; write foo 0 4K", "write foo 0 4K"),
        (
            "creat foo; write foo 0 8K; sync; truncate foo 4K",
            "truncate foo 4K",
        ),
        ("sync; mkdir A", "mkdir A"),
    ] {
        legal(text, &[]);
        legal(text, &[last]);
    }
}

#[test]
fn a_rename_under_way_leaves_one_name_or_the_other() {
    let text = "creat foo; write foo 0 4K; creat bar; sync; rename foo bar";
    legal(text, &[]);
    legal(text, &["rename foo bar"]);
    // Gone from its old name, and not at the new one.
    breaks(
        text,
        &["creat foo", "write foo 0 4K", "rename foo bar"],
        Promise::RenameAtomic,
    );
}
