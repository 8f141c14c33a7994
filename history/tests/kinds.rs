//! Each failure that has a name is found where it is, and nowhere else.

use std::time::Duration;

use proptest::prelude::*;

use history::{
    Consistency, Contract, Event, Failure, History, Kind, Model, Operation, Outcome, Process,
    Report, Rule, Settings, Value, Verdict, check, guess,
};

/// A history of words: `0+write:1` calls, `0=` is answered with what was called, `0=5` with 5, `0!`
/// failed, `0?` is unknown, and `n+heal` is the nemesis's. `0+k/write:1` calls it of key k.
fn history(words: &str) -> History {
    let mut history = History::default();
    let mut open = std::collections::BTreeMap::new();
    for (at, word) in words.split_whitespace().enumerate() {
        let (who, rest) = word.split_at(word.find(['+', '=', '!', '?']).unwrap_or(1));
        let (kind, rest) = match rest.split_at(1) {
            ("+", rest) => (Kind::Invoke, rest),
            ("=", rest) => (Kind::Ok, rest),
            ("!", rest) => (Kind::Fail, rest),
            (_, rest) => (Kind::Info, rest),
        };
        let value = |text: &str| history::parse_value(text).expect("JSON");
        if kind == Kind::Invoke {
            let (call, argument) = rest.split_once(':').unwrap_or((rest, "null"));
            let (key, f) = match call.split_once('/') {
                Some((key, f)) => (Some(Value::from(key)), f),
                None => (None, call),
            };
            open.insert(who, (f.to_owned(), key, value(argument)));
        }
        let (f, key, argument): (String, Option<Value>, Value) =
            open.get(who).cloned().expect("a call");
        let is_answer = kind != Kind::Invoke && !rest.is_empty();
        let process = who.parse().map_or(Process::Nemesis, Process::Client);
        let is_nemesis = process == Process::Nemesis;
        history
            .push(Event {
                index: at as u64,
                time_ns: at as u64 * 1_000_000_000,
                process,
                kind: if is_nemesis { Kind::Info } else { kind },
                f,
                key,
                value: if is_answer { value(rest) } else { argument },
                error: None,
            })
            .unwrap_or_else(|wrong| panic!("{word}: {wrong}"));
    }
    history
}

/// The named failures of a history, each once.
fn failures(model: Model, words: &str) -> Vec<Failure> {
    let settings = Settings {
        recover_within: Some(Duration::from_secs(3)),
        ..Settings::of_all(Contract::new(model))
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
        // It stays deleted: the read was old.
        (
            "0+write:1 0= 1+delete 1= 2+read 2=1 2+read 2=null",
            Some(Failure::StaleRead),
        ),
        (
            "0+write:1 0= 1+delete 1= 2+read 2=null 2+read 2=1",
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
        ("0+cas:[7,2] 0=", Some(Failure::NeverWritten)),
        ("0+append:1 0! 2+read 2=7", Some(Failure::NeverWritten)),
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
        // A release that failed released nothing.
        (
            Model::Lock,
            "0+acquire 0= 0+release 1+acquire 1= 0!",
            Some(Failure::DoubleLock),
        ),
        (Model::Lock, "0+acquire 0? 1+acquire 1=", None),
        // A release takes effect late: somebody else gave back what is acquired meanwhile.
        (
            Model::Lock,
            r#"0+acquire:"A" 0? 5+release:"A" 5? 6+acquire:"A" 6= 7+acquire:"B" 7="#,
            None,
        ),
        (
            Model::Lock,
            r#"0+acquire:"A" 1+release:"A" 0= 1= 2+acquire:"B" 2="#,
            None,
        ),
        // Of two releases either may be the one that is late.
        (
            Model::Lock,
            r#"0+acquire:"A" 0= 1+release:"A" 2+release:"A" 2= 3+acquire:"A" 3= 4+acquire:"B" 4= 1="#,
            None,
        ),
        // One that had ended before gave something else back, and one gives back once.
        (
            Model::Lock,
            r#"0+acquire:"A" 0? 5+release:"A" 5= 6+acquire:"A" 6= 7+acquire:"B" 7="#,
            Some(Failure::DoubleLock),
        ),
        (
            Model::Lock,
            r#"5+release:"A" 6+acquire:"A" 6= 6+acquire:"A" 6= 7+acquire:"B" 7= 5="#,
            Some(Failure::DoubleLock),
        ),
        (
            Model::Lock,
            r#"0+acquire:"A" 0? 5+release:"C" 5? 6+acquire:"A" 6= 7+acquire:"B" 7="#,
            Some(Failure::DoubleLock),
        ),
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
        // What failed took nothing away.
        (
            "2+dec 2! 0+inc 1+read 1=1 1+read 1=0 0=",
            Some(Failure::CounterBack),
        ),
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
    let of = |words: &str| {
        let settings = Settings::of_all(Contract::new(Model::Counter));
        check(&history(words), &settings).expect("a counter")
    };
    let found = of("0+inc 0=1 0+inc 1+inc 0=2 1=2").anomalies;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, Failure::NotLinearizable);
    // These may be numbers, or marks that it was done; those of another key say nothing of them.
    for words in [
        "0+inc 1+inc 0=1 1=1",
        "0+inc 0=0",
        "0+add:5 0=1 0+add:5 0=5",
    ] {
        let other = "2+k/inc 2=1 2+k/inc 2=2 ";
        let report = of(&(other.to_owned() + words));
        assert_eq!(report.verdict(), Verdict::Undecided, "{words}");
        assert!(
            report.undecided[0].contains("let the client answer null"),
            "{report:?}"
        );
    }
    // Whatever the answers are, this was never there.
    assert_eq!(
        of("0+inc 0=1 0+inc 0=1 1+read 1=3").verdict(),
        Verdict::Anomalous
    );
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
        let report =
            check(&history(words), &Settings::of_all(Contract::new(model))).expect("a queue");
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
        (
            "0+add:1 0= 0+remove:1 0= 1+read 1=[1] 1+read 1=[]",
            Some(Failure::StaleRead),
        ),
        (
            "0+add:1 0= 0+remove:1 0= 1+read 1=[] 1+read 1=[1]",
            Some(Failure::DeletedBack),
        ),
        ("0+add:1 0= 0+remove:1 1+read 1=[] 0=", None),
        ("0+add:1 0! 1+read 1=[1]", Some(Failure::DirtyRead)),
        ("1+read 1=[1]", Some(Failure::NeverWritten)),
        ("1+contains:1 1=true", Some(Failure::NeverWritten)),
        (
            "0+add:1 0= 1+contains:1 1=false",
            Some(Failure::ElementLost),
        ),
        ("0+add:1 0= 1+contains:2 1=false", None),
    ] {
        assert_eq!(
            failures(Model::Set, words),
            Vec::from_iter(expected),
            "{words}"
        );
    }
}

/// The named failures of a history, and how many more answers show each.
fn told(model: Model, words: &str) -> Vec<(Failure, usize)> {
    let report = check(&history(words), &Settings::of_all(Contract::new(model)));
    let found = report.expect("it is of the model").anomalies.into_iter();
    let named = found.filter(|one| one.kind != Failure::NotLinearizable);
    named.map(|one| (one.kind, one.more.len())).collect()
}

/// What is wrong with a history of which no more is promised than that it is eventually so.
fn in_the_end(model: Model, words: &str) -> Vec<Failure> {
    let contract = Contract {
        consistency: Consistency::Eventual,
        ..Contract::new(model)
    };
    let report = check(&history(words), &Settings::of_all(contract)).expect("it is of the model");
    assert_eq!(report.undecided, [""; 0], "{words}");
    report.anomalies.iter().map(|one| one.kind).collect()
}

#[test]
fn a_read_may_be_old_where_no_more_than_the_end_is_promised() {
    for (model, words) in [
        // What was not seen at once was overwritten before anybody saw it.
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 1+read 1=1 0+write:3 0= 1+read 1=3",
        ),
        (
            Model::Register,
            "0+write:1 0= 0+delete 0= 1+read 1=1 0+write:3 0= 1+read 1=3",
        ),
        // The write that is seen may be the later one.
        (
            Model::Register,
            "0+write:1 2+write:2 0= 2= 1+read 1=null 1+read 1=1",
        ),
        (
            Model::Register,
            "0+write:1 0= 0+delete 0= 1+read 1=1 1+read 1=null",
        ),
        (Model::Counter, "0+inc 0= 1+read 1=0 1+read 1=1"),
        (Model::Counter, "0+inc 0= 1+read 1=0 0+dec 0= 1+read 1=0"),
        (Model::Counter, "0+inc 0= 0+dec 0= 1+read 1=1 1+read 1=0"),
        // The second addition need not have taken effect.
        (Model::Counter, "0+inc 0= 1+read 1=0 0+inc 0? 1+read 1=1"),
        (Model::Counter, "0+inc 1+read 1=1 1+read 1=0 0= 1+read 1=1"),
        (
            Model::Set,
            "0+add:1 0= 1+read 1=[] 0+remove:1 0= 1+read 1=[]",
        ),
        (Model::Set, "0+add:1 0= 1+read 1=[] 1+contains:1 1=true"),
        (
            Model::Set,
            "0+add:1 0= 0+remove:1 0= 1+read 1=[1] 0+add:1 0= 1+read 1=[1]",
        ),
        // Of reads that are open at once either may be the later one, whichever was called first.
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 2+read 1+read 1=1 2=2",
        ),
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 2+read 1+read 2=2 1=1",
        ),
        (
            Model::Register,
            "0+write:1 0= 0+delete 0= 2+read 1+read 1=1 2=null",
        ),
        (Model::Set, "0+add:1 0= 2+read 1+read 1=[] 2=[1]"),
        (
            Model::Set,
            "0+add:1 0= 0+remove:1 0= 2+contains:1 1+read 1=[1] 2=false",
        ),
        (Model::Counter, "0+inc 0= 2+read 1+read 1=0 2=1"),
        (Model::Counter, "0+inc 3+read 3=1 2+read 1+read 1=0 2=1 0="),
    ] {
        assert_eq!(in_the_end(model, words), [], "{words}");
    }
}

#[test]
fn what_is_gone_in_the_end_is_lost_whatever_is_promised() {
    use Failure as F;
    for (model, words, expected) in [
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 1+read 1=1 1+read 1=1",
            F::WriteLost,
        ),
        // What is there later was there before.
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 0+write:3 0= 1+read 1=1 1+read 1=2",
            F::WriteLost,
        ),
        (
            Model::Register,
            "0+write:1 0= 0+delete 0= 1+read 1=1 1+read 1=1",
            F::DeletedBack,
        ),
        // A write that failed overwrote nothing.
        (
            Model::Register,
            "0+write:1 0= 1+read 1=null 0+write:2 0! 1+read 1=null",
            F::WriteLost,
        ),
        (
            Model::Counter,
            "0+inc 0= 1+read 1=0 1+read 1=0",
            F::CounterWrong,
        ),
        // Nobody ever added that much.
        (
            Model::Counter,
            "0+inc 0= 1+read 1=2 1+read 1=1",
            F::CounterWrong,
        ),
        (
            Model::Counter,
            "0+inc 0= 0+inc 0= 1+read 1=0 1+read 1=1",
            F::CounterWrong,
        ),
        (
            Model::Counter,
            "0+add:5 1+read 1=5 1+read 1=3 1+read 1=4 0?",
            F::CounterBack,
        ),
        (
            Model::Set,
            "0+add:1 0= 1+read 1=[] 1+read 1=[]",
            F::ElementLost,
        ),
        (
            Model::Set,
            "0+add:1 0= 1+read 1=[] 0+remove:1 0! 1+read 1=[]",
            F::ElementLost,
        ),
        (
            Model::Set,
            "0+add:1 0= 0+remove:1 0= 0+add:1 0= 1+read 1=[] 1+read 1=[]",
            F::ElementLost,
        ),
        (
            Model::Set,
            "0+add:1 0= 0+remove:1 0= 1+read 1=[1] 1+read 1=[1]",
            F::DeletedBack,
        ),
        // One that had ended before the other was called is no later one.
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 2+read 2=2 1+read 1=1",
            F::WriteLost,
        ),
        (
            Model::Set,
            "0+add:1 0= 2+read 2=[1] 1+read 1=[]",
            F::ElementLost,
        ),
        (
            Model::Counter,
            "0+inc 0= 2+read 2=1 1+read 1=0",
            F::CounterWrong,
        ),
        // One that was called before the addition, and is still open, does not see it either.
        (
            Model::Register,
            "2+read 0+write:1 0= 1+read 1=null 2=null",
            F::WriteLost,
        ),
        (
            Model::Set,
            "2+read 0+add:1 0= 1+read 1=[] 2=[]",
            F::ElementLost,
        ),
    ] {
        let found = in_the_end(model, words);
        assert_eq!(found.first(), Some(&expected), "{words}");
    }
}

#[test]
fn what_no_read_sees_is_lost_though_a_read_of_before_is_still_open() {
    for words in [
        "2+read 0+inc 0= 1+read 1=0 2=0",
        "2+read 0+dec 0= 1+read 1=0 2=0",
        "2+read 0+inc 0= 0+inc 0= 1+read 1=0 2=1",
        "2+read 0+inc 0= 0+dec 0= 1+read 1=-1 2=1",
    ] {
        let found = in_the_end(Model::Counter, words);
        assert_eq!(found.first(), Some(&Failure::CounterWrong), "{words}");
    }
}

/// A store whose reads may be of any earlier moment, until the last one. Others are open while that is.
fn eventual(model: Model) -> impl Strategy<Value = String> {
    let seen = any::<prop::sample::Index>;
    let step = (0..4u8, 1..4i64, 0..8u8, seen());
    let steps = prop::collection::vec(step, 1..25);
    (steps, seen()).prop_map(move |(steps, seen_at_last)| {
        let mut moments: Vec<Vec<i64>> = vec![vec![]];
        let read = |moment: &[i64]| match model {
            Model::Register => moment.last().map_or("null".to_owned(), i64::to_string),
            Model::Counter => moment.iter().sum::<i64>().to_string(),
            _ => format!("{moment:?}").replace(' ', ""),
        };
        let mut words = String::new();
        let mut is_open = false;
        for (f, value, outcome, seen) in steps {
            let mut next = moments.last().expect("the first one").clone();
            let call = match (model, f) {
                (_, 0 | 1) => {
                    let seen = read(&moments[seen.index(moments.len())]);
                    words += &match (f, is_open) {
                        (0, _) => format!("1+read 1={seen} "),
                        (_, false) => "2+read ".to_owned(),
                        (_, true) => format!("2={seen} "),
                    };
                    is_open ^= f == 1;
                    continue;
                }
                (Model::Register, 2) => format!("write:{value}"),
                (Model::Register, _) => "delete".to_owned(),
                (_, 2) => format!("add:{value}"),
                (Model::Counter, _) => "dec".to_owned(),
                _ => format!("remove:{value}"),
            };
            match (model, f) {
                (Model::Register, 3) => next.clear(),
                (Model::Counter, 3) => next.push(-1),
                (Model::Set, _) => next.retain(|other| *other != value),
                _ => {}
            }
            if f == 2 {
                next.push(value);
            }
            // An outcome that is unknown may have been an effect.
            let end = match outcome {
                0 | 1 => "?",
                3 => "!",
                _ => "=",
            };
            if outcome != 1 && outcome != 3 {
                moments.push(next);
            }
            let process = words.len() + 10;
            words += &format!("{process}+{call} {process}{end} ");
        }
        if !is_open {
            words += "2+read ";
        }
        let seen = read(&moments[seen_at_last.index(moments.len())]);
        let last = read(moments.last().expect("the first one"));
        words + &format!("1+read 1={seen} 2={last}")
    })
}

proptest! {
    #[test]
    fn a_store_whose_reads_are_old_is_not_accused(
        register in eventual(Model::Register),
        counter in eventual(Model::Counter),
        set in eventual(Model::Set),
    ) {
        for (model, words) in [
            (Model::Register, register),
            (Model::Counter, counter),
            (Model::Set, set),
        ] {
            prop_assert_eq!(in_the_end(model, &words), [], "{}", words);
        }
    }
}

/// What a few clients did with a counter, each operation of a process of its own. In the end one reads, and
/// all reads that are still open are answered.
fn counted() -> impl Strategy<Value = String> {
    let step = (0..10u8, any::<prop::sample::Index>(), -1..=2i64);
    (prop::collection::vec(step, 1..10), -1..=2i64).prop_map(|(steps, last)| {
        let mut words = String::new();
        let mut open: Vec<(usize, &str, i64)> = Vec::new();
        for (number, (what, which, value)) in steps.into_iter().enumerate() {
            let f = match what {
                0 | 1 => "read",
                2 | 3 => "inc",
                4 => "dec",
                _ if open.is_empty() => continue,
                _ => {
                    let (process, f, value) = open.swap_remove(which.index(open.len()));
                    words += &match (f, what) {
                        (_, 5) => format!("{process}? "),
                        ("read", _) => format!("{process}={value} "),
                        (_, 6) => format!("{process}! "),
                        _ => format!("{process}= "),
                    };
                    continue;
                }
            };
            open.push((number, f, value));
            words += &format!("{number}+{f} ");
        }
        words += "99+read ";
        for (process, _, value) in open.iter().filter(|(_, f, _)| *f == "read") {
            words += &format!("{process}={value} ");
        }
        words + &format!("99={last}")
    })
}

/// What an operation adds to a counter.
fn amount(one: &Operation) -> i64 {
    match one.f.as_str() {
        "inc" => 1,
        "dec" => -1,
        _ => 0,
    }
}

/// Whether the operations that are left can follow these values of a counter in any order. Those whose
/// outcome is unknown may be missing. The last read sees all that is there; of the others `is_old` says what
/// they may see.
fn can_follow(
    was: &mut Vec<i64>,
    left: &mut Vec<&Operation>,
    is_old: &impl Fn(&Operation, i64, &[i64]) -> bool,
) -> bool {
    let is_ok = |one: &&&Operation| one.outcome == Outcome::Ok;
    let Some(first_end) = left
        .iter()
        .filter(is_ok)
        .filter_map(|one| one.returned())
        .min()
    else {
        return true;
    };
    (0..left.len()).any(|at| {
        if left[at].call > first_end {
            return false;
        }
        let one = left.remove(at);
        let now = *was.last().expect("the first one");
        let is_last = left.iter().all(|other| other.f != "read");
        let fits = match one.result.as_int() {
            Some(read) if one.f == "read" => read == now || !is_last && is_old(one, read, was),
            _ => true,
        };
        was.push(now + amount(one));
        let is_possible = fits && can_follow(was, left, is_old);
        was.pop();
        left.insert(at, one);
        is_possible
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Nothing is found where reads can be of earlier moments of one order. Something is, where they can
    /// not even be of any set of what was called; and where there is no such order, if nothing is taken away,
    /// and all additions had ended when the last read was called.
    #[test]
    fn what_a_counter_eventually_is_agrees_with_all_orders(words in counted()) {
        let history = history(&words);
        let all = history.operations().iter();
        let is_there = |one: &&Operation| match one.outcome {
            Outcome::Ok => true,
            Outcome::Unknown => one.f != "read",
            Outcome::Fail => false,
        };
        let mut all: Vec<_> = all.filter(is_there).collect();
        let called = all.clone();
        let is_earlier = |_: &Operation, read: i64, was: &[i64]| was.contains(&read);
        let is_any_set = |one: &Operation, read: i64, _: &[i64]| {
            let before = called.iter().filter(|other| Some(other.call) < one.returned());
            let before: Vec<_> = before.map(|other| amount(other)).collect();
            let sum = |sign: i64| before.iter().filter(|one| **one == sign).sum::<i64>();
            (sum(-1)..=sum(1)).contains(&read)
        };
        let is_possible = can_follow(&mut vec![0], &mut all, &is_earlier);
        let may_be = can_follow(&mut vec![0], &mut all, &is_any_set);
        let found = in_the_end(Model::Counter, &words);
        prop_assert!(!is_possible || found.is_empty(), "{}: {:?}", words, found);
        prop_assert!(may_be || !found.is_empty(), "{}", words);
        let last = all.last().expect("the last read").call;
        let is_quiet = |one: &&Operation| one.f == "inc" && one.returned() < Some(last);
        let is_known = all.iter().all(|one| one.f == "read" || one.outcome == Outcome::Ok && is_quiet(one));
        prop_assert!(is_possible || !is_known || !found.is_empty(), "{}", words);
    }
}

#[test]
fn what_is_not_looked_at_is_undecided() {
    let contract = Contract {
        consistency: Consistency::Eventual,
        ..Contract::new(Model::Map)
    };
    for (words, said) in [
        ("0+append:1 0= 1+read 1=[7]", "something is appended"),
        (
            "0+write:1 0= 0+cas:[2,3] 0=false",
            "no object could be judged",
        ),
    ] {
        let settings = Settings::of_all(contract.clone());
        let report = check(&history(words), &settings).expect("a map");
        assert_eq!(report.verdict(), Verdict::Undecided, "{words}");
        assert!(report.undecided[0].contains(said), "{report:?}");
        assert!(!report.objects[0].is_judged);
    }
}

#[test]
fn transactions_of_several_objects_are_apart() {
    let txn = |key: &str| {
        format!(
            r#"0+{key}/txn:[["append","x",1]] 0=[["append","x",1]] 1+{key}/txn:[["r","x"]] 1=[["r","x",[1]]] "#
        )
    };
    let report = checked(&(txn("a") + &txn("b")), &[("*", Model::ListAppend)]);
    assert_eq!(report.verdict(), Verdict::Clean, "{report:?}");
    assert!(
        report
            .partitions()
            .iter()
            .all(|one| one.orders[0].is_empty())
    );
}

#[test]
fn no_order_is_searched_where_none_is_promised() {
    let contract = Contract {
        consistency: Consistency::Eventual,
        ..Contract::new(Model::Bag)
    };
    let settings = Settings {
        time_limit: Some(Duration::ZERO),
        ..Settings::of_all(contract)
    };
    let words = "0+enqueue:1 0= ".repeat(50) + &"0+enqueue:2 0= 1+dequeue 1=2 ".repeat(1000);
    let report = check(&history(&words), &settings).expect("a bag");
    assert_eq!(report.verdict(), Verdict::Clean, "{:?}", report.undecided);
    // What is not of the model is still refused.
    check(&history("0+jump 0="), &settings).expect_err("no operation of a bag");
}

#[test]
fn what_an_object_is_at_first_is_looked_at_or_refused() {
    let of = |model, initial: &str, words: &str| {
        let contract = Contract {
            initial: history::parse_value(initial).expect("JSON"),
            ..Contract::new(model)
        };
        let report = check(&history(words), &Settings::of_all(contract));
        let report = report.map_err(|refused| refused.to_string())?;
        Ok::<_, String>(
            report
                .anomalies
                .iter()
                .map(|one| one.kind)
                .collect::<Vec<_>>(),
        )
    };
    let reads = r#"0+txn:[["r","x",null]] 0=[["r","x",0]] "#;
    let writes = r#"1+txn:[["w","x",1]] 1=[["w","x",1]] "#;
    let register = Model::RwRegister;
    assert_eq!(of(register, "0", reads), Ok(vec![]));
    assert_eq!(of(register, "0", &(reads.to_owned() + writes)), Ok(vec![]));
    // It was overwritten before.
    let old = of(register, "0", &(writes.to_owned() + reads));
    assert_eq!(old, Ok(vec![Failure::RealTime]));
    let nothing = reads.replace(",0]", ",null]");
    assert_eq!(of(register, "0", &nothing), Ok(vec![Failure::NeverWritten]));
    assert_eq!(of(register, "null", reads), Ok(vec![Failure::NeverWritten]));
    // Nobody would know whose it is.
    of(register, "1", writes).expect_err("the first value is written");
    assert_eq!(of(Model::Set, "[1]", "0+read 0=[1]"), Ok(vec![]));
    let lost = Ok(vec![Failure::ElementLost, Failure::NotLinearizable]);
    assert_eq!(of(Model::Set, "[1]", "0+read 0=[]"), lost);
    assert_eq!(of(Model::Counter, "5", "0+read 0=5"), Ok(vec![]));
    for (model, initial, words, said) in [
        (
            Model::Queue,
            r#"["a"]"#,
            r#"0+dequeue 0="a""#,
            r#"a queue is nothing at first, and not ["a"]"#,
        ),
        (
            Model::Bag,
            "[]",
            "0+dequeue 0=",
            "a bag is nothing at first, and not []",
        ),
        (
            Model::Lock,
            "1",
            "0+acquire 0=",
            "a lock is nothing at first, and not 1",
        ),
        (
            Model::Semaphore(2),
            "1",
            "0+acquire 0=",
            "a semaphore is nothing at first, and not 1",
        ),
        (
            Model::ListAppend,
            "[1]",
            reads,
            "a list-append is nothing at first, and not [1]",
        ),
        (
            Model::Set,
            "1",
            "0+read 0=[1]",
            "a set is a list at first, and not 1",
        ),
        (
            Model::Counter,
            r#""5""#,
            "0+read 0=5",
            r#"a counter is a whole number at first, and not "5""#,
        ),
    ] {
        assert_eq!(of(model, initial, words), Err(said.to_owned()), "{model:?}");
    }
}

#[test]
fn a_guess_that_cannot_be_so_at_first_is_undecided() {
    let settings = Settings {
        initial: Some(Value::List(vec!["a".into()])),
        ..Settings::default()
    };
    let words = r#"0+q/enqueue:"b" 0= 0+q/dequeue 0="a" 1+r/write:1 1= 1+r/read 1=1"#;
    let report = check(&history(words), &settings).expect("it is left out");
    assert_eq!(report.verdict(), Verdict::Undecided);
    assert!(report.undecided[0].starts_with("key q: a bag is nothing at first"));
}

#[test]
fn a_text_that_is_appended_to_nothing_makes_a_text_or_a_list() {
    for (words, is_right) in [
        (r#"0+append:"a" 0= 1+read 1=["a"]"#, true),
        (
            r#"0+append:"a" 0= 0+append:"b" 0= 1+read 1=["a","b"]"#,
            true,
        ),
        (r#"0+append:"a" 0= 0+append:"b" 0= 1+read 1="ab""#, true),
        (
            r#"0+append:"a" 0= 0+append:"b" 0= 1+read 1=["b","a"]"#,
            false,
        ),
        (r#"0+append:"a" 0= 0+append:"b" 0= 1+read 1=["ab"]"#, false),
        (r#"0+append:"a" 0= 1+read 1=["a"] 1+read 1="a""#, false),
        // A list that was written makes no list of what is appended to nothing.
        (
            r#"0+write:["a"] 0= 1+read 1=["a"] 0+delete 0= 0+append:"a" 0= 1+read 1="a""#,
            true,
        ),
    ] {
        let settings = Settings::of_all(Contract::new(Model::Map));
        let report = check(&history(words), &settings).expect("a map");
        assert_eq!(report.anomalies.is_empty(), is_right, "{words}");
    }
}

#[test]
fn what_is_lost_once_is_told_once() {
    use Failure as F;
    let lost =
        |more: &[usize]| -> Vec<_> { more.iter().map(|&more| (F::WriteLost, more)).collect() };
    let gone =
        |more: &[usize]| -> Vec<_> { more.iter().map(|&more| (F::ElementLost, more)).collect() };
    let nothing = "1+read 1=null ";
    let empty = "1+read 1=[] ";
    for (model, words, expected) in [
        (
            Model::Register,
            format!("0+write:1 0= {}", nothing.repeat(10)),
            lost(&[9]),
        ),
        (
            Model::Register,
            format!("0+write:1 0= {nothing}{nothing}0+write:2 0= {nothing}"),
            lost(&[1, 0]),
        ),
        // Whatever is there instead.
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 0+write:3 0= 1+read 1=1 1+read 1=2 1+read 1=null".to_owned(),
            lost(&[2]),
        ),
        (
            Model::Set,
            format!("0+add:1 0= 0+add:2 0= {}", empty.repeat(10)),
            gone(&[9, 9]),
        ),
        (
            Model::Set,
            format!("0+add:1 0= {empty}0+add:1 0= {empty}{empty}"),
            gone(&[0, 1]),
        ),
        // One is seen later, and is lost then.
        (
            Model::Set,
            format!("0+add:1 0= {empty}{empty}1+read 1=[1] {empty}{empty}{empty}"),
            vec![(F::StaleRead, 1), (F::ElementLost, 2)],
        ),
    ] {
        assert_eq!(told(model, &words), expected, "{words}");
    }
}

#[test]
fn each_lost_element_of_a_queue_is_told_once() {
    use Failure::{ElementLost as Lost, StaleRead as Stale};
    let nothing = "1+dequeue 1=null ";
    for (words, expected) in [
        (
            format!("0+enqueue:1 0= 0+enqueue:2 0= {}", nothing.repeat(10)),
            vec![(Lost, 9), (Lost, 9)],
        ),
        (
            format!("0+enqueue:1 0= {nothing}0+enqueue:2 0= {nothing}"),
            vec![(Lost, 1), (Lost, 0)],
        ),
        (
            format!("0+enqueue:1 0= 0+enqueue:1 0= {nothing}"),
            vec![(Lost, 0), (Lost, 0)],
        ),
        (
            format!("0+enqueue:1 0= 0+enqueue:1 0= {nothing}1+dequeue 1=1 {nothing}"),
            vec![(Lost, 1), (Stale, 0)],
        ),
        // One of them may have been taken before, or later.
        (
            format!("0+enqueue:1 0= 0+enqueue:2 0= 2+dequeue 2? {nothing}{nothing}"),
            vec![(Lost, 1)],
        ),
        (
            format!("0+enqueue:1 0= {nothing}2+dequeue 2?"),
            vec![(Stale, 0)],
        ),
        (
            format!("0+enqueue:1 0= 0+enqueue:2 0= {nothing}2+dequeue 2?"),
            vec![(Lost, 0), (Stale, 0)],
        ),
        (
            format!("0+enqueue:1 0= 2+dequeue 2? 3+dequeue 3? {nothing}"),
            vec![],
        ),
    ] {
        for model in [Model::Queue, Model::Bag] {
            assert_eq!(told(model, &words), expected, "{words}");
        }
    }
}

#[test]
fn what_many_see_that_should_not_be_there_is_told_once() {
    use Failure as F;
    for (model, words, expected) in [
        (
            Model::Register,
            "1+read 1=7 1+read 1=7 1+read 1=8",
            vec![(F::NeverWritten, 1), (F::NeverWritten, 0)],
        ),
        (
            Model::Register,
            "0+write:1 0! 0+write:2 0! 1+read 1=1 1+read 1=1 1+read 1=2",
            vec![(F::DirtyRead, 1), (F::DirtyRead, 0)],
        ),
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 0+delete 0= 1+read 1=1 1+read 1=1 1+read 1=2",
            vec![(F::DeletedBack, 1), (F::DeletedBack, 0)],
        ),
        // Each of these may be of a reason of its own.
        (
            Model::Register,
            "0+write:1 0= 0+write:2 0= 1+read 1=1 1+read 1=1 1+read 1=2",
            vec![(F::StaleRead, 0), (F::StaleRead, 0)],
        ),
        (
            Model::Set,
            "1+read 1=[7] 1+read 1=[7,8]",
            vec![(F::NeverWritten, 1), (F::NeverWritten, 0)],
        ),
        (
            Model::Counter,
            "0+inc 0= 1+read 1=0 1+read 1=0 1+read 1=0",
            vec![(F::CounterWrong, 2)],
        ),
        // What was added since does not make it another loss; a further loss is one.
        (
            Model::Counter,
            "0+inc 0= 1+read 1=0 0+inc 0= 1+read 1=1 0+inc 0= 1+read 1=1 1+read 1=1",
            vec![(F::CounterWrong, 1), (F::CounterWrong, 1)],
        ),
        // While an addition is open, the value may be right and still lack the first one.
        (
            Model::Counter,
            "0+inc 0= 1+read 1=0 0+inc 1+read 1=1 0= 1+read 1=1",
            vec![(F::CounterWrong, 1)],
        ),
        // It was right between them.
        (
            Model::Counter,
            "0+inc 1+read 1=0 0= 1+read 1=0 1+read 1=1 1+read 1=0",
            vec![
                (F::CounterWrong, 0),
                (F::CounterWrong, 0),
                (F::CounterBack, 0),
            ],
        ),
        (
            Model::Counter,
            "0+add:5 1+read 1=5 1+read 1=3 1+read 1=4 1+read 1=3 1+read 1=5 1+read 1=4 0=",
            vec![
                (F::CounterBack, 1),
                (F::CounterBack, 0),
                (F::CounterBack, 0),
            ],
        ),
    ] {
        assert_eq!(told(model, words), expected, "{words}");
    }
}

#[test]
fn how_many_more_answers_show_it_is_said() {
    let nothing = "1+read 1=null ";
    for (times, said) in [
        (1, "write 1 (event 0, process 0)"),
        (2, "write 1 (event 0, process 0); 1 more answer misses it"),
        (10, "write 1 (event 0, process 0); 9 more answers miss it"),
    ] {
        let words = format!("0+write:1 0= {}", nothing.repeat(times));
        let settings = Settings::of_all(Contract::new(Model::Register));
        let report = check(&history(&words), &settings).expect("a register");
        let found = report.anomalies[0].in_words();
        // The first of them is named.
        assert!(
            found.starts_with("read -> null (event 2, process 1) did not see"),
            "{found}"
        );
        assert!(found.ends_with(said), "{found}");
    }
    let settings = Settings::of_all(Contract::new(Model::Register));
    let report = check(&history("1+read 1=7 1+read 1=7"), &settings).expect("a register");
    let found = report.anomalies[0].in_words();
    assert!(
        found.ends_with("nobody wrote; 1 more answer shows it"),
        "{found}"
    );
}

#[test]
fn what_was_answered_with_nothing_that_can_be_wrong_is_undecided() {
    for (model, unlooked, looked) in [
        (
            Model::Register,
            "0+write:1 0= 0+delete 0= 0+append:1 0=",
            "0+read 0=[1]",
        ),
        (
            Model::Register,
            "0+write:1 0= 1+read 1? 2+read 2! 3+read",
            "0+read 0=1",
        ),
        (Model::Register, "0+write:1 0=", "0+cas:[1,2] 0="),
        (
            Model::Lock,
            "0+acquire 0=false 1+acquire 1? 2+release 2!",
            "0+acquire 0=",
        ),
        (Model::Semaphore(2), "0+acquire 0=false", "0+acquire 0="),
        (Model::Counter, "0+inc 0=", "0+read 0=1"),
        // These may be marks.
        (Model::Counter, "0+inc 0=1", "0+inc 0=2"),
        (Model::Queue, "0+enqueue:1 0= 1+dequeue 1?", "0+dequeue 0=1"),
        (Model::Bag, "0+enqueue:1 0= 0+dequeue 0!", "0+dequeue 0=1"),
        (Model::Set, "0+add:1 0= 0+remove:1 0=", "0+read 0=[]"),
        (
            Model::Set,
            "0+add:1 0= 0+remove:2 0=",
            "0+contains:1 0=true",
        ),
        (
            Model::ListAppend,
            "0+txn:[[\"append\",1,1]] 0=",
            "0+txn:[[\"r\",1,null]] 0=[[\"r\",1,[1]]]",
        ),
        (
            Model::RwRegister,
            "0+txn:[[\"w\",1,1],[\"r\",1,null]] 0?",
            "1+txn:[[\"r\",2,null]] 1=",
        ),
    ] {
        let of = |words: &str| {
            let settings = Settings::of_all(Contract::new(model));
            check(&history(words), &settings).expect("it is of the model")
        };
        let report = of(unlooked);
        assert_eq!(
            report.verdict(),
            Verdict::Undecided,
            "{model:?}: {unlooked}"
        );
        assert!(report.undecided[0].starts_with("no object could be judged: "));
        assert!(!report.objects[0].is_judged);
        let report = of(&format!("{unlooked} {looked}"));
        assert_eq!(
            report.verdict(),
            Verdict::Clean,
            "{model:?}: {unlooked} {looked}: {report:?}"
        );
    }
    // One object is enough; of the other ones it is known.
    let report = checked("0+a/write:1 0= 0+b/write:1 0= 0+b/read 0=1", &[]);
    assert_eq!(report.verdict(), Verdict::Clean);
    let judged: Vec<_> = report.objects.iter().map(|one| one.is_judged).collect();
    assert_eq!(judged, [false, true]);
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
        // What was called before the heal and answered after it was answered, too.
        ("0+read n+heal 0=null 1+read 1? n+kill n+kill n+kill", None),
        (
            "0+read n+heal 1+read 1? n+kill 0=null n+kill",
            Some(Failure::Unavailable),
        ),
    ] {
        assert_eq!(
            failures(Model::Register, words),
            Vec::from_iter(expected),
            "{words}"
        );
    }
    let short = history("n+heal 1+read 1!");
    let report =
        check(&short, &Settings::of_all(Contract::new(Model::Register))).expect("a register");
    assert_eq!(report.verdict(), Verdict::Undecided);
    assert!(report.undecided[0].contains("the history ends before 60s are over"));
    // Nobody asked it since: the call may have been lost before the heal.
    for (words, said) in [
        ("1+read", "the only call that was open then"),
        ("1+read 2+read", "none of 2 calls that were open then"),
    ] {
        let words = format!("0+write:1 0= 0+read 0=1 {words} n+heal n+kill n+kill n+kill");
        let settings = Settings {
            recover_within: Some(Duration::from_secs(3)),
            ..Settings::of_all(Contract::new(Model::Register))
        };
        let report = check(&history(&words), &settings).expect("a register");
        assert_eq!(report.verdict(), Verdict::Undecided, "{words}");
        assert!(report.undecided[0].contains(said), "{report:?}");
    }
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
        let refused = check(&history(words), &Settings::of_all(Contract::new(model)))
            .expect_err("another model");
        assert_eq!(refused.to_string(), said);
    }
}

#[test]
fn operations_say_what_an_object_is() {
    let guessed = |words| {
        let history = history(words);
        guess(&history.operations().iter().collect::<Vec<_>>())
            .map_err(|refused| refused.to_string())
    };
    for (words, model) in [
        ("0+read 0= 0+cas:[1,2] 0!", Model::Register),
        ("0+k/write:1 0=", Model::Map),
        ("0+lock 0=", Model::Lock),
        ("0+inc 0= 0+read 0=1", Model::Counter),
        ("0+add:1 0= 0+read 0=1", Model::Counter),
        ("0+add:1 0= 0+read 0=[1]", Model::Set),
        ("0+push:1 0= 0+pop 0=1", Model::Bag),
        ("0+txn:[[\"w\",1,2]] 0=", Model::RwRegister),
    ] {
        assert_eq!(
            guessed(words).map(|guess| guess.model),
            Ok(model),
            "{words}"
        );
    }
    // What is there of several models, and what is of none.
    for (words, said) in [
        ("0+add:1 0= 0+read 0?", "(add, read)"),
        ("0+read 0=1", "(read)"),
        ("0+remove:1 0= 0+read 0=null", "(read, remove)"),
        ("0+jump 0=", "(jump)"),
    ] {
        let unclear = guessed(words).expect_err("it does not say");
        let expected = format!("its operations {said} do not say what it is");
        assert!(unclear.contains(&expected), "{unclear}");
    }
}

/// What comes of each key, if nobody says what it is.
fn checked(words: &str, rules: &[(&str, Model)]) -> Report {
    let rules = rules.iter().map(|&(keys, model)| Rule {
        keys: Some(glob::Pattern::new(keys).expect("a pattern")),
        contract: Contract::new(model),
    });
    let settings = Settings {
        rules: rules.collect(),
        ..Settings::default()
    };
    check(&history(words), &settings).expect("nothing is refused")
}

#[test]
fn each_object_is_what_its_own_operations_say() {
    // A counter that was only read is not a register to which nobody wrote.
    let words = "0+r/write:1 0= 0+c/inc 0= 0+c/read 0=1 0+l/lock 0= 0+l/unlock 0= 0+r/read 0=1";
    let report = checked(words, &[]);
    let models: Vec<_> = report.objects.iter().map(|object| object.model).collect();
    let expected = [Model::Counter, Model::Lock, Model::Map].map(Some);
    assert_eq!(models, expected);
    assert_eq!(report.verdict(), Verdict::Clean);
    let wrong = words.replace("0+c/read 0=1", "0+c/read 0=3");
    let report = checked(&wrong, &[]);
    assert_eq!(report.anomalies[0].kind, Failure::CounterWrong);
    assert_eq!(report.anomalies[0].key, Some("c".into()));
}

#[test]
fn what_may_be_something_else_accuses_nobody() {
    let twice = "0+l/lock 0= 1+l/lock 1=";
    let report = checked(twice, &[]);
    assert_eq!(report.verdict(), Verdict::Undecided);
    let said = &report.undecided[0];
    assert!(
        said.contains("it may be a semaphore: say what it is with --model"),
        "{said}"
    );
    let report = checked(twice, &[("l", Model::Lock)]);
    assert_eq!(report.anomalies[0].kind, Failure::DoubleLock);
    let report = checked(twice, &[("l*", Model::Semaphore(2)), ("*", Model::Lock)]);
    assert_eq!(report.verdict(), Verdict::Clean);
}

#[test]
fn no_object_is_taken_for_what_others_are() {
    // A counter and a set that were only read, a set whose additions are answered with how many they
    // were, and an object of which only a removal was seen: beside objects of one kind only.
    for (of_key, beside) in [
        ("0+c/read 0=0", "1+r/write:1 1= 1+r/read 1=1"),
        ("0+c/read 0=[]", "1+r/write:1 1= 1+r/read 1=1"),
        (
            "0+c/remove:\"x\" 0= 0+c/read 0=[]",
            "1+r/write:1 1= 1+r/read 1=1",
        ),
        ("0+c/add:5 0=1 0+c/add:5 0=0", "1+n/add:1 1= 1+n/read 1=1"),
        (
            "0+c/add:3 0=3 0+c/add:3 0=7",
            "1+s/add:\"x\" 1= 1+s/read 1=[\"x\"]",
        ),
    ] {
        let report = checked(&format!("{of_key} {beside}"), &[]);
        assert_eq!(report.anomalies, [], "{of_key}");
        assert_eq!(report.verdict(), Verdict::Undecided, "{of_key}");
        assert!(
            report.undecided[0].starts_with("key c: "),
            "{}",
            report.undecided[0]
        );
    }
    // Nobody ever wrote it, whatever it is.
    let report = checked("0+c/read 0=null 1+r/write:1 1= 1+r/read 1=1", &[]);
    assert_eq!(report.verdict(), Verdict::Clean);
}

#[test]
fn what_a_guess_refuses_hides_nothing_of_other_objects() {
    let wrong = "1+n/inc 1= 1+n/read 1=2";
    for of_key in ["0+c/inc 0= 0+c/read 0=null", "0+c/inc:\"x\" 0="] {
        let report = checked(&format!("{of_key} {wrong}"), &[]);
        assert_eq!(report.anomalies[0].kind, Failure::CounterWrong, "{of_key}");
        assert!(
            report.undecided[0].starts_with("key c: "),
            "{:?}",
            report.undecided
        );
    }
}
