//! Each failure that has a name is found where it is, and nowhere else.

use std::time::Duration;

use history::{Event, Failure, History, Kind, Model, Process, Settings, Value, Verdict, check};

/// A history of words: `0+write:1` calls, `0=` is answered with what was called, `0=5` with 5, `0!`
/// failed, `0?` is unknown, and `n+heal` is the nemesis's.
fn history(words: &str) -> History {
    let mut history = History::default();
    let mut open = std::collections::BTreeMap::new();
    for (at, word) in words.split_whitespace().enumerate() {
        let (who, rest) = word.split_at(1);
        let (kind, rest) = match rest.split_at(1) {
            ("+", rest) => (Kind::Invoke, rest),
            ("=", rest) => (Kind::Ok, rest),
            ("!", rest) => (Kind::Fail, rest),
            (_, rest) => (Kind::Info, rest),
        };
        let value = |text: &str| match text {
            "" => Value::Null,
            text => history::parse_value(text).expect("JSON"),
        };
        let (f, value) = match (kind, rest.split_once(':')) {
            (Kind::Invoke, Some((f, argument))) => (f.to_owned(), value(argument)),
            (Kind::Invoke, None) => (rest.to_owned(), Value::Null),
            _ => {
                let (f, argument): (String, Value) = open.get(who).cloned().expect("a call");
                (
                    f,
                    if rest.is_empty() {
                        argument
                    } else {
                        value(rest)
                    },
                )
            }
        };
        open.insert(who, (f.clone(), value.clone()));
        let process = who.parse().map_or(Process::Nemesis, Process::Client);
        let kind = if process == Process::Nemesis {
            Kind::Info
        } else {
            kind
        };
        history
            .push(Event {
                index: at as u64,
                time_ns: at as u64 * 1_000_000_000,
                process,
                kind,
                f,
                key: None,
                value,
                error: None,
            })
            .unwrap_or_else(|wrong| panic!("{word}: {wrong}"));
    }
    history
}

/// The named failures of a history, each once.
fn failures(model: Model, words: &str) -> Vec<Failure> {
    let settings = Settings {
        recover_within: Duration::from_secs(3),
        ..Settings::new(model)
    };
    let report = check(&history(words), &settings).expect("it is of the model");
    let named = report.anomalies.iter().map(|anomaly| anomaly.kind);
    let mut named: Vec<_> = named
        .filter(|kind| *kind != Failure::NotLinearizable)
        .collect();
    named.dedup();
    if !named.is_empty() {
        assert_eq!(report.verdict(), Verdict::Anomalous);
    }
    named
}

#[test]
fn registers() {
    let model = Model::Register;
    for (words, expected) in [
        ("0+write:1 0= 1+read 1=1", None),
        // While both writes are open, any of them may be seen.
        ("0+write:1 1+write:2 0= 1= 2+read 2=1", None),
        (
            "0+write:1 0= 1+write:2 1= 2+read 2=1 2+read 2=2",
            Some(Failure::StaleRead),
        ),
        (
            "0+write:1 0= 1+write:2 1= 2+read 2=1 2+read 2=1",
            Some(Failure::WriteLost),
        ),
        ("0+write:1 0= 2+read 2=null", Some(Failure::WriteLost)),
        (
            "0+write:1 0= 1+delete 1= 2+read 2=1",
            Some(Failure::DeletedBack),
        ),
        ("0+write:1 0! 2+read 2=1", Some(Failure::DirtyRead)),
        ("0+write:1 0= 2+read 2=7", Some(Failure::NeverWritten)),
        ("2+read 2=1 0+write:1 0=", Some(Failure::NeverWritten)),
        // What is unknown may come late.
        ("0+write:1 0? 1+write:2 1= 2+read 2=1", None),
        (
            "0+write:1 0= 1+cas:[1,2] 1= 2+read 2=1",
            Some(Failure::WriteLost),
        ),
        ("0+write:1 0= 1+cas:[1,2] 1=false 2+read 2=1", None),
    ] {
        assert_eq!(failures(model, words), Vec::from_iter(expected), "{words}");
    }
}

#[test]
fn locks_and_semaphores() {
    for (model, words, expected) in [
        (Model::Lock, "0+acquire 0= 0+release 0= 1+acquire 1=", None),
        (
            Model::Lock,
            "0+acquire 0= 1+acquire 1=",
            Some(Failure::DoubleLock),
        ),
        (Model::Lock, "0+acquire 0= 1+acquire 1=false", None),
        // From the call of the release on nobody knows.
        (Model::Lock, "0+acquire 0= 0+release 1+acquire 1= 0=", None),
        (Model::Lock, "0+acquire 0? 1+acquire 1=", None),
        (Model::Semaphore(2), "0+acquire 0= 1+acquire 1=", None),
        (
            Model::Semaphore(2),
            "0+acquire 0= 1+acquire 1= 2+acquire 2=",
            Some(Failure::DoubleLock),
        ),
    ] {
        assert_eq!(failures(model, words), Vec::from_iter(expected), "{words}");
    }
}

#[test]
fn counters() {
    for (words, expected) in [
        ("0+inc 0= 1+read 1=1", None),
        ("0+inc 1+read 1=1 0=", None),
        ("0+inc 0= 1+read 1=0", Some(Failure::CounterWrong)),
        ("0+inc 0= 1+read 1=2", Some(Failure::CounterWrong)),
        ("0+inc 1+read 1=1 1+read 1=0 0=", Some(Failure::CounterBack)),
        ("0+inc 0! 1+read 1=1", Some(Failure::CounterWrong)),
        ("0+inc 0? 1+read 1=1 1+read 1=1", None),
        // Two got the same number.
        ("0+inc 1+inc 0=1 1=1", None),
    ] {
        assert_eq!(
            failures(Model::Counter, words),
            Vec::from_iter(expected),
            "{words}"
        );
    }
    let report = check(
        &history("0+inc 1+inc 0=1 1=1"),
        &Settings::new(Model::Counter),
    );
    let found = report.expect("a counter").anomalies;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, Failure::NotLinearizable);
}

#[test]
fn queues() {
    for (words, expected) in [
        ("0+enqueue:1 0= 1+dequeue 1=1 1+dequeue 1=null", None),
        (
            "0+enqueue:1 0= 1+dequeue 1=1 2+dequeue 2=1",
            Some(Failure::DoubleDequeue),
        ),
        (
            "0+enqueue:1 0= 1+dequeue 1=null",
            Some(Failure::ElementLost),
        ),
        (
            "0+enqueue:1 0= 1+dequeue 1=null 1+dequeue 1=1",
            Some(Failure::StaleRead),
        ),
        ("0+enqueue:1 0= 1+dequeue 1? 2+dequeue 2=null", None),
        ("0+enqueue:1 0! 1+dequeue 1=1", Some(Failure::DirtyRead)),
        ("1+dequeue 1=1", Some(Failure::NeverWritten)),
    ] {
        for model in [Model::Queue, Model::Bag] {
            assert_eq!(failures(model, words), Vec::from_iter(expected), "{words}");
        }
    }
    // Only the order is wrong, and a bag has none.
    let words = "0+enqueue:1 0= 0+enqueue:2 0= 1+dequeue 1=2 1+dequeue 1=1";
    for (model, count) in [(Model::Queue, 1), (Model::Bag, 0)] {
        let report = check(&history(words), &Settings::new(model)).expect("a queue");
        assert_eq!(report.anomalies.len(), count, "{:?}", report.anomalies);
    }
}

#[test]
fn sets() {
    for (words, expected) in [
        ("0+add:1 0= 1+read 1=[1]", None),
        ("0+add:1 0= 1+read 1=[]", Some(Failure::ElementLost)),
        (
            "0+add:1 0= 1+read 1=[] 1+read 1=[1]",
            Some(Failure::StaleRead),
        ),
        (
            "0+add:1 0= 0+remove:1 0= 1+read 1=[1]",
            Some(Failure::DeletedBack),
        ),
        ("0+add:1 0= 0+remove:1 1+read 1=[] 0=", None),
        ("0+add:1 0! 1+read 1=[1]", Some(Failure::DirtyRead)),
        ("1+read 1=[1]", Some(Failure::NeverWritten)),
    ] {
        assert_eq!(
            failures(Model::Set, words),
            Vec::from_iter(expected),
            "{words}"
        );
    }
}

#[test]
fn a_system_that_does_not_answer_after_the_heal_is_unavailable() {
    for (words, expected) in [
        ("0+read 0? n+heal 1+read 1=null", None),
        (
            "n+heal 1+read 1? 2+read 2? 3+read 3?",
            Some(Failure::Unavailable),
        ),
        // Too late.
        (
            "n+heal 1+read 2+read 3+read 4+read 1=null",
            Some(Failure::Unavailable),
        ),
        ("n+heal 1+read 1! 2+read 2? n+heal", None),
    ] {
        assert_eq!(
            failures(Model::Register, words),
            Vec::from_iter(expected),
            "{words}"
        );
    }
    let short = history("n+heal 1+read 1!");
    let report = check(&short, &Settings::new(Model::Register)).expect("a register");
    assert_eq!(report.verdict(), Verdict::Undecided);
    assert!(report.undecided[0].contains("the history ends before 60s are over"));
}

#[test]
fn what_is_not_of_the_model_is_refused() {
    for (model, words, said) in [
        (
            Model::Lock,
            "0+read 0=",
            "event 0: a lock has no operation read (it has acquire, lock, release, unlock)",
        ),
        (
            Model::Register,
            "0+cas:1 0=",
            "event 0: cas carries 1, not [old, new]",
        ),
        (
            Model::Counter,
            "0+read 0=\"a\"",
            "event 0: read carries a, not a whole number",
        ),
    ] {
        let refused = check(&history(words), &Settings::new(model)).expect_err("another model");
        assert_eq!(refused.to_string(), said);
    }
    let guess = |words| Model::guess(&history(words)).map_err(|refused| refused.to_string());
    assert_eq!(guess("0+read 0= 0+cas:[1,2] 0!"), Ok(Model::Register));
    assert_eq!(guess("0+lock 0="), Ok(Model::Lock));
    assert_eq!(guess("0+inc 0= 0+read 0=1"), Ok(Model::Counter));
    assert_eq!(guess("0+txn:[[\"w\",1,2]] 0="), Ok(Model::RwRegister));
    let unclear = guess("0+add:1 0= 0+read 0=1").expect_err("a counter or a set");
    assert!(
        unclear.contains("(add, read) do not say what the object is"),
        "{unclear}"
    );
}
