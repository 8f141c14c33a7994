//! Anomalies of transactions: the examples that Elle's own tests publish, in its notation, and
//! histories of databases that keep what they promise.

use history::{
    Consistency, Contract, Event, Failure, History, Kind, Model, Operation, Outcome, Process,
    Settings, Value, Verdict, check,
};
use proptest::prelude::*;

/// Transactions in Elle's notation, each of a client of its own, and all at once: `ax1` appends 1 to
/// x, `ry12` read [1, 2] of y, `wx1` writes. One that begins with `!` failed, with `?` is unknown; a
/// `|` is between those that had ended and those that were called then; `N:` says which client.
fn history(model: Model, words: &str) -> History {
    let mut events = Vec::new();
    for group in words.split('|') {
        let (mut calls, mut ends) = (Vec::new(), Vec::new());
        for word in group.split_whitespace() {
            let (process, word) = match word.split_once(':') {
                Some((process, word)) => (process.parse().expect("a number"), word),
                None => (100 + events.len() as u64 + calls.len() as u64, word),
            };
            let (kind, word) = match word.strip_prefix(['!', '?']) {
                Some(rest) if word.starts_with('!') => (Kind::Fail, rest),
                Some(rest) => (Kind::Info, rest),
                None => (Kind::Ok, word),
            };
            let (asked, seen) = transaction(model, word);
            calls.push((process, Kind::Invoke, asked));
            ends.push((process, kind, seen));
        }
        events.extend(calls);
        events.extend(ends);
    }
    let events = events
        .into_iter()
        .enumerate()
        .map(|(at, (process, kind, value))| Event {
            index: at as u64,
            time_ns: at as u64,
            process: Process::Client(process),
            kind,
            f: "txn".to_owned(),
            key: None,
            value,
            error: None,
        });
    History::new(events).expect("it is well formed")
}

/// What is asked, and what is seen.
fn transaction(model: Model, word: &str) -> (Value, Value) {
    let is_list = model == Model::ListAppend;
    let (mut asked, mut seen) = (Vec::new(), Vec::new());
    let mut letters = word.chars().peekable();
    while let Some(f) = letters.next() {
        let key: Value = letters.next().expect("a key").to_string().as_str().into();
        let mut digits = Vec::new();
        while let Some(digit) = letters.next_if(|next| next.is_ascii_digit() || *next == '_') {
            digits.extend(digit.to_digit(10).map(|digit| Value::Int(digit.into())));
        }
        let one = digits.first().cloned().unwrap_or_default();
        let read = if is_list {
            Value::List(digits)
        } else {
            one.clone()
        };
        let part = |f: &str, value| Value::List(vec![f.into(), key.clone(), value]);
        match f {
            'a' => (
                asked.push(part("append", one.clone())),
                seen.push(part("append", one)),
            ),
            'w' => (
                asked.push(part("w", one.clone())),
                seen.push(part("w", one)),
            ),
            _ => (
                asked.push(part("r", Value::Null)),
                seen.push(part("r", read)),
            ),
        };
    }
    (asked.into(), seen.into())
}

fn failures(model: Model, consistency: Consistency, history: &History) -> Vec<Failure> {
    let settings = Settings::of_all(Contract {
        consistency,
        ..Contract::new(model)
    });
    let report = check(history, &settings).expect("transactions");
    // Of transactions that read nothing, nothing can be told.
    let is_judged = report.objects.iter().any(|object| object.is_judged);
    let is_found = !report.anomalies.is_empty();
    assert_eq!(report.undecided.is_empty(), is_judged || is_found);
    let mut kinds: Vec<_> = report
        .anomalies
        .iter()
        .map(|anomaly| anomaly.kind)
        .collect();
    assert_eq!(report.verdict() == Verdict::Anomalous, is_found);
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

use Consistency::{
    ReadCommitted, ReadUncommitted, RepeatableRead, Serializable, SnapshotIsolation,
    StrictSerializable, StrongSessionSerializable,
};

/// From the weakest on.
const LEVELS: [Consistency; 7] = [
    ReadUncommitted,
    ReadCommitted,
    SnapshotIsolation,
    RepeatableRead,
    Serializable,
    StrongSessionSerializable,
    StrictSerializable,
];

/// The failure is found by the level and those above it, and nothing by those below.
fn is_found_from(model: Model, words: &str, level: Consistency, failure: Failure) {
    let history = history(model, words);
    let first = LEVELS
        .iter()
        .position(|other| *other == level)
        .expect("a level");
    for (number, other) in LEVELS.iter().enumerate() {
        let found = failures(model, *other, &history);
        if number < first {
            assert_eq!(found, [], "{words} as {other:?}");
        } else {
            assert!(found.contains(&failure), "{words} as {other:?}: {found:?}");
        }
    }
}

#[test]
fn list_append() {
    for (words, level, failure) in [
        ("ax1ay1 ax2ay2 rx12ry21", ReadUncommitted, Failure::G0),
        ("!ax1 rx1", ReadCommitted, Failure::G1a),
        ("ax1ax2 rx1", ReadCommitted, Failure::G1b),
        ("ax1ry1 ax2ay1 rx12ry1", ReadCommitted, Failure::G1c),
        ("ax1ay1 ax2ry rx12", SnapshotIsolation, Failure::GSingle),
        ("ax1ry ay1rx", RepeatableRead, Failure::G2),
        ("rxax1rx", SnapshotIsolation, Failure::Internal),
        (
            "ax1 ax2 rx12 rx21",
            ReadUncommitted,
            Failure::IncompatibleOrder,
        ),
        // What was appended itself is read at its place among others.
        (
            "ax1rx1 ax2rx2",
            SnapshotIsolation,
            Failure::IncompatibleOrder,
        ),
        (
            "ax1rx1 | ax2rx2",
            SnapshotIsolation,
            Failure::IncompatibleOrder,
        ),
        (
            "ax1 ax2 ax3rx213 rx12",
            SnapshotIsolation,
            Failure::IncompatibleOrder,
        ),
        // The same, and nobody else read it.
        ("ax1 | ax2rx2", StrictSerializable, Failure::RealTime),
        // It read what another one wrote before its own.
        ("ax1ry1 ax2rx12ay1", SnapshotIsolation, Failure::G1c),
        ("ax1 rx11", ReadUncommitted, Failure::DuplicateElements),
        ("ax1 rx7", ReadUncommitted, Failure::NeverWritten),
        ("rx1ax1", ReadUncommitted, Failure::NeverWritten),
        // Nobody knows what became of it, but one of its elements was read.
        ("?ax1ay1 rx1ry", SnapshotIsolation, Failure::GSingle),
        ("?ax1 | rx1 | rx", StrictSerializable, Failure::RealTime),
        // Of many that did not see it one appended too.
        ("rxax1ry1 ax2ay1 rx2", SnapshotIsolation, Failure::GSingle),
        // Both appended, and one did not see the other's.
        ("ax1|rx|rx1", StrictSerializable, Failure::RealTime),
        // In its own order a client reads older than it wrote.
        (
            "0:ax1 | 1:ax2 | 1:rx1 | 2:rx12",
            StrongSessionSerializable,
            Failure::Sessions,
        ),
    ] {
        is_found_from(Model::ListAppend, words, level, failure);
    }
    for words in [
        "ax1 ax2 rx12",
        "ax1 rx rx1",
        "?ax1 rx rx1",
        "ax1rx1 ax2rx12",
        "ax1rx1ax2rx12 ax3rx123ax4",
        "ax1rx1 | ax2rx12 | rx12",
        "?ax1 | rx | rx1",
    ] {
        assert_eq!(
            failures(
                Model::ListAppend,
                StrictSerializable,
                &history(Model::ListAppend, words)
            ),
            [],
            "{words}"
        );
    }
}

#[test]
fn rw_register() {
    for (words, level, failure) in [
        ("!wx1 rx1", ReadCommitted, Failure::G1a),
        ("rx2 wx2wx1", ReadCommitted, Failure::G1b),
        ("rx1wy1 ry1wx1", ReadCommitted, Failure::G1c),
        ("wx1 rx1wx2 rx1wx3", SnapshotIsolation, Failure::LostUpdate),
        ("rx_wy1 ry_wx1", RepeatableRead, Failure::G2),
        ("rx1wx2rx1 wx1", SnapshotIsolation, Failure::Internal),
        ("rx7wy1", ReadUncommitted, Failure::NeverWritten),
        ("wx1|rx_", StrictSerializable, Failure::RealTime),
        ("rx1wx1", ReadUncommitted, Failure::NeverWritten),
        ("?wx1wy1 rx1ry_", SnapshotIsolation, Failure::GSingle),
        ("?wx1|rx1|rx_", StrictSerializable, Failure::RealTime),
        // The second read is one too.
        ("!wx2 wx1 rx1rx2", ReadCommitted, Failure::G1a),
        ("wx1 rx1rx7", ReadUncommitted, Failure::NeverWritten),
        ("wx1|wx2|rx1", StrictSerializable, Failure::RealTime),
    ] {
        is_found_from(Model::RwRegister, words, level, failure);
    }
    for words in [
        "wx1 rx1wx2 rx2",
        "ry_wx2rx2wx1rx1",
        "wx1wx2 rx_rx_",
        "wx1wy2 wx2wy1",
        "?wx1|rx_|rx1wy1",
        "rx_wx1 rx1wx2 rx2wx3",
        "wx1|wx2 rx1",
        "?wx1|wx2|rx1",
        "wx1|rx1wx2|rx2",
    ] {
        assert_eq!(
            failures(
                Model::RwRegister,
                StrictSerializable,
                &history(Model::RwRegister, words)
            ),
            [],
            "{words}"
        );
    }
}

/// A circle in which several did not see what others wrote, none of these next to another (G-nonadjacent).
/// The first of each model is the example of Elle's `G-nonadjacent-test`, a long fork; the second is the
/// circle of its graph of that name: rw, ww, rw, wr.
#[test]
fn reads_that_do_not_see_others_writes_with_others_between() {
    let (lists, registers) = (Model::ListAppend, Model::RwRegister);
    for (model, words) in [
        (lists, "ax1 rx1ry ay1 ry1rx"),
        (lists, "rxrv1 ax1az1 az2ry ay1av1 rz12"),
        // Nobody read x or y later.
        (lists, "ax1av1 rv1ry ay1aw1 rw1rx"),
        (registers, "wx1 rx1ry_ wy1 ry1rx_"),
        (registers, "rx_rv1 wx1wz1 rz1wz2ry_ wy1wv1"),
        (registers, "wx1wv1 rv1ry_ wy1ww1 rw1rx_"),
        // Three of them.
        (lists, "ax1 rx1ry ay1 ry1rz az1 rz1rx"),
    ] {
        is_found_from(model, words, SnapshotIsolation, Failure::GNonadjacent);
        let found = failures(model, SnapshotIsolation, &history(model, words));
        assert_eq!(found, [Failure::GNonadjacent], "{words}");
    }
    // Where two of them are next to each other snapshots explain it.
    for (model, words) in [
        (lists, "rxrv1 ax1ry ay1av1"),
        (lists, "rxrv1 ax1ry ay1az1 az2av1 rz12"),
        (registers, "rx_rv1 wx1ry_ wy1wv1"),
        (registers, "rx_rv1 wx1ry_ wy1wz1 rz1wz2wv1"),
        // And two more are apart.
        (lists, "rxrv1 ax1ry ay1aw1 rw1rz az1av1"),
    ] {
        is_found_from(model, words, RepeatableRead, Failure::G2);
    }
    // One of the readers saw both.
    for (model, words) in [
        (lists, "ax1 rx1ry ay1 ry1rx1"),
        (lists, "rxrv1 ax1az1 az2ry1 ay1av1 rz12"),
        (registers, "wx1 rx1ry_ wy1 ry1rx1"),
    ] {
        let found = failures(model, StrictSerializable, &history(model, words));
        assert_eq!(found, [], "{words}");
    }
}

#[test]
fn a_circle_is_explained() {
    let report = check(
        &history(Model::ListAppend, "ax1ry1 ax2ay1 rx12ry1"),
        &Settings::of_all(Contract::new(Model::ListAppend)),
    );
    let found = report.expect("transactions").anomalies;
    let circle = found
        .iter()
        .find(|anomaly| anomaly.kind == Failure::G1c)
        .expect("it");
    for part in [
        "T1 read T2's 1 of y",
        "T2 wrote 2 to x after T1's 1",
        "which is a contradiction",
    ] {
        let other = part
            .replace("T1", "T3")
            .replace("T2", "T1")
            .replace("T3", "T2");
        assert!(
            circle.what.contains(part) || circle.what.contains(&other),
            "{}",
            circle.what
        );
    }
}

/// A transaction that does not see what was appended before it began, as Jepsen writes it down.
#[test]
fn a_stale_read_in_a_file_of_jepsen() {
    let words = r"{:index 0 :process 0 :type :invoke :value [[:append :x 1] [:append :y 7]]}
{:index 1 :process 0 :type :ok :value [[:append :x 1] [:append :y 7]]}
{:index 2 :process 1 :type :invoke, :value [[:append :y 8] [:r :x nil]]}
{:index 3 :process 1 :type :ok, :value [[:append :y 8] [:r :x [1]]]}
{:index 4 :process 2 :type :invoke, :value [[:r :y nil] [:append :z 3] [:r :z nil]]}
{:index 5 :process 2 :type :ok, :value [[:r :y [7 8]] [:append :z 3] [:r :z [3]]]}
{:index 6 :process 3 :type :invoke, :value [[:r :y nil] [:append :z 4]]}
{:index 7 :process 3 :type :ok :value [[:r :y [7]] [:append :z 4]]}
";
    let history = history::read(words.as_bytes()).expect("EDN");
    // The last one began after 8 was appended, and seen, and does not see it.
    let found = failures(Model::ListAppend, StrictSerializable, &history);
    // It would have to be before that; but the one before it has read z without its 4.
    assert_eq!(found, [Failure::G2]);
    // Where what was appended itself is not read, only the clock says so.
    let without = words
        .replace(" [:r :z nil]", "")
        .replace(" [:r :z [3]]", "");
    let history = history::read(without.as_bytes()).expect("EDN");
    let found = failures(Model::ListAppend, StrictSerializable, &history);
    assert_eq!(found, [Failure::RealTime]);
}

/// A database that does one transaction after the other, at a moment between call and answer.
#[allow(clippy::single_match_else)]
fn serial() -> impl Strategy<Value = (History, Model)> {
    let part = (any::<bool>(), 0..3u8);
    let step = (
        0..4usize,
        prop::collection::vec(part, 1..4),
        0..8u8,
        any::<bool>(),
    );
    (prop::collection::vec(step, 1..60), any::<bool>()).prop_map(|(steps, lists)| {
        let mut history = History::default();
        let mut numbers = [0u64, 1, 2, 3];
        let mut open: Vec<Option<(Value, Value)>> = vec![None; 4];
        let mut now: std::collections::BTreeMap<u8, Vec<Value>> = std::collections::BTreeMap::new();
        let mut next = 0;
        for (client, parts, outcome, is_done) in steps {
            let (kind, value) = match open[client].take() {
                Some((asked, seen)) => match outcome {
                    0 => (Kind::Info, asked),
                    _ => (Kind::Ok, seen),
                },
                None => {
                    let (mut asked, mut seen) = (Vec::new(), Vec::new());
                    for (is_write, key) in parts {
                        let state = now.entry(key).or_default();
                        let part = |f: &str, value| {
                            Value::List(vec![f.into(), i64::from(key).into(), value])
                        };
                        if is_write {
                            next += 1;
                            let part = part(if lists { "append" } else { "w" }, Value::Int(next));
                            asked.push(part.clone());
                            seen.push(part);
                            if outcome != 0 || is_done {
                                state.push(Value::Int(next));
                            }
                        } else {
                            let last = state.last().cloned().unwrap_or_default();
                            asked.push(part("r", Value::Null));
                            seen.push(part(
                                "r",
                                if lists {
                                    Value::List(state.clone())
                                } else {
                                    last
                                },
                            ));
                        }
                    }
                    // One that never took effect is not answered.
                    open[client] = Some((asked.clone().into(), seen.into()));
                    if outcome == 0 && !is_done {
                        open[client] = None;
                        numbers[client] += 4;
                        let process = Process::Client(numbers[client] - 4);
                        for kind in [Kind::Invoke, Kind::Info] {
                            push(&mut history, process, kind, asked.clone().into());
                        }
                        continue;
                    }
                    (Kind::Invoke, asked.into())
                }
            };
            push(&mut history, Process::Client(numbers[client]), kind, value);
            if kind == Kind::Info {
                numbers[client] += 4;
            }
        }
        (
            history,
            if lists {
                Model::ListAppend
            } else {
                Model::RwRegister
            },
        )
    })
}

fn push(history: &mut History, process: Process, kind: Kind, value: Value) {
    let index = history.next_index();
    let event = Event {
        index,
        time_ns: index,
        process,
        kind,
        f: "txn".to_owned(),
        key: None,
        value,
        error: None,
    };
    history.push(event).expect("clients take turns");
}

proptest! {
    #[test]
    fn a_serial_database_is_not_accused((history, model) in serial()) {
        let found = failures(model, StrictSerializable, &history);
        prop_assert!(found.is_empty(), "{found:?}: {:#?}", history.operations().iter().map(history::Operation::words).collect::<Vec<_>>());
    }
}

#[test]
fn what_many_transactions_read_that_should_not_be_there_is_told_once() {
    for (model, words, expected) in [
        (
            Model::ListAppend,
            "rx7 | rx7 | rx78 | ry7",
            vec![
                (Failure::NeverWritten, 2),
                (Failure::NeverWritten, 0),
                (Failure::NeverWritten, 0),
            ],
        ),
        (
            Model::ListAppend,
            "!ax1 !ax2 | rx1 | rx12 | rx12",
            vec![(Failure::G1a, 2), (Failure::G1a, 1)],
        ),
        (
            Model::ListAppend,
            "ax1 | rx11 | rx11",
            vec![(Failure::DuplicateElements, 1)],
        ),
        // Each of these read in the middle of the transaction.
        (
            Model::ListAppend,
            "ax1ax2 rx1 rx1",
            vec![(Failure::G1b, 0), (Failure::G1b, 0)],
        ),
        (
            Model::RwRegister,
            "!wx1 | rx1 | rx1 | rx7",
            vec![(Failure::G1a, 1), (Failure::NeverWritten, 0)],
        ),
    ] {
        let settings = Settings::of_all(Contract {
            consistency: ReadCommitted,
            ..Contract::new(model)
        });
        let report = check(&history(model, words), &settings).expect("transactions");
        let found = report.anomalies.iter();
        let found: Vec<_> = found.map(|one| (one.kind, one.more.len())).collect();
        assert_eq!(found, expected, "{words}");
    }
}

/// What databases hold: of each key all that was written, in its order.
type Held = std::collections::BTreeMap<Value, Vec<Value>>;

/// What a database holds after a transaction, unless it cannot have read what it did.
fn done(model: Model, held: &Held, one: &Operation) -> Option<Held> {
    let is_ok = one.outcome == Outcome::Ok;
    let parts = if is_ok { &one.result } else { &one.argument };
    let mut held = held.clone();
    for part in parts.as_list().expect("parts") {
        let [f, key, value] = part.as_list().expect("a part") else {
            panic!("{part} is no part");
        };
        let now = held.entry(key.clone()).or_default();
        let read = match model {
            Model::ListAppend => Value::List(now.clone()),
            _ => now.last().cloned().unwrap_or_default(),
        };
        if f.as_text() != Some("r") {
            now.push(value.clone());
        } else if is_ok && read != *value {
            return None;
        }
    }
    Some(held)
}

/// Whether any order of what is left is possible.
fn brute(model: Model, held: &Held, left: &mut Vec<&Operation>) -> bool {
    if left.iter().all(|one| one.outcome != Outcome::Ok) {
        return true;
    }
    let first_return = left.iter().filter_map(|one| one.returned()).min();
    for at in 0..left.len() {
        if first_return.is_some_and(|first| left[at].call > first) {
            continue;
        }
        let one = left.remove(at);
        let fits = done(model, held, one).is_some_and(|next| brute(model, &next, left));
        left.insert(at, one);
        if fits {
            return true;
        }
    }
    false
}

/// A transaction that is to be made: its parts, what becomes of it, and whether others had ended before.
type Made = (Vec<(bool, u8, u8)>, u8, bool);

/// A few transactions, and then one that reads everything. What they read is mostly what was there, and of
/// those whose outcome is unknown any part may have taken effect.
fn in_words(model: Model, made: Vec<Made>) -> String {
    let (mut held, mut next) = ([vec![], vec![]], 0);
    let mut words = String::new();
    let digits = |list: &[u8]| -> String {
        let mut all = list.iter().map(u8::to_string);
        match model {
            Model::ListAppend => all.collect(),
            _ => all.next_back().unwrap_or_else(|| "_".to_owned()),
        }
    };
    for (parts, outcome, is_later) in made {
        words += if is_later { " | " } else { " " };
        words += ["?", "!"]
            .get(outcome as usize)
            .copied()
            .unwrap_or_default();
        for (is_write, key, how) in parts {
            let (name, list) = (["x", "y"][key as usize], &mut held[key as usize]);
            if is_write {
                next += 1;
                words += if model == Model::ListAppend { "a" } else { "w" };
                words += &format!("{name}{next}");
                if outcome > 1 || outcome == 0 && how % 2 == 0 {
                    list.push(next);
                }
                continue;
            }
            let mut read = list.clone();
            match how {
                0 => drop(read.pop()),
                1 => read.push(next + 1),
                _ => {}
            }
            words += &format!("r{name}{}", digits(&read));
        }
    }
    words + &format!(" | rx{}ry{}", digits(&held[0]), digits(&held[1]))
}

fn a_few() -> impl Strategy<Value = Vec<Made>> {
    let part = (any::<bool>(), 0..2u8, 0..10u8);
    let one = (prop::collection::vec(part, 1..4), 0..6u8, any::<bool>());
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Of lists that were read in the end everything is known, so nothing is missed.
    #[test]
    fn a_few_transactions_agree_with_all_orders(made in a_few()) {
        for model in [Model::ListAppend, Model::RwRegister] {
            let words = in_words(model, made.clone());
            let history = history(model, &words);
            let all = history.operations().iter();
            let mut all: Vec<_> = all.filter(|one| one.outcome != Outcome::Fail).collect();
            let is_possible = brute(model, &Held::new(), &mut all);
            let found = failures(model, StrictSerializable, &history);
            prop_assert!(!is_possible || found.is_empty(), "{words}: {found:?}");
            let is_known = model == Model::ListAppend;
            prop_assert!(is_possible || !is_known || !found.is_empty(), "{words}");
        }
    }
}
