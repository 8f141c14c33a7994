//! The checker of linearizability agrees with one that tries all orders.

use history::{
    Contract, Event, History, Kind, Linear, Model, Operation, Outcome, Process, Settings, Value,
    check,
};
use proptest::prelude::*;

/// An object of the brute-force checker: what an operation leaves, in all ways that are possible.
type Rule = fn(&Value, &Operation) -> Vec<Value>;

fn list(state: &Value) -> Vec<Value> {
    state.as_list().map(<[Value]>::to_vec).unwrap_or_default()
}

fn register(state: &Value, one: &Operation) -> Vec<Value> {
    let known = one.outcome == Outcome::Ok;
    match one.f.as_str() {
        "read" if !known || one.result == *state => vec![state.clone()],
        "read" => vec![],
        "write" => vec![one.argument.clone()],
        _ => {
            let pair = list(&one.argument);
            let failed = known && one.result == Value::Bool(false);
            match (pair[0] == *state, failed) {
                (true, false) => vec![pair[1].clone()],
                (false, true) => vec![state.clone()],
                (false, false) if !known => vec![state.clone()],
                _ => vec![],
            }
        }
    }
}

fn semaphore(state: &Value, one: &Operation) -> Vec<Value> {
    let mut held = list(state);
    let who = match &one.argument {
        Value::Null => Value::Int(one.process as i64),
        named => named.clone(),
    };
    if one.f == "acquire" {
        if held.len() == 2 {
            return vec![];
        }
        held.push(who);
        held.sort();
        return vec![held.into()];
    }
    match held.iter().position(|other| *other == who) {
        Some(place) => {
            held.remove(place);
            vec![held.into()]
        }
        None => vec![],
    }
}

fn counter(state: &Value, one: &Operation) -> Vec<Value> {
    let now = state.as_int().unwrap_or(0);
    let known = one.outcome == Outcome::Ok;
    if one.f == "read" {
        let fits = !known || one.result == Value::Int(now);
        return if fits { vec![Value::Int(now)] } else { vec![] };
    }
    vec![Value::Int(now + one.argument.as_int().expect("a number"))]
}

fn queue(state: &Value, one: &Operation, fifo: bool) -> Vec<Value> {
    let mut waiting = list(state);
    if one.f == "enqueue" {
        waiting.push(one.argument.clone());
        if !fifo {
            waiting.sort();
        }
        return vec![waiting.into()];
    }
    let known = one.outcome == Outcome::Ok;
    if known && one.result.is_null() {
        return if waiting.is_empty() {
            vec![state.clone()]
        } else {
            vec![]
        };
    }
    (0..waiting.len())
        .filter(|&place| place == 0 || !fifo)
        .filter(|&place| !known || waiting[place] == one.result)
        .map(|place| {
            let mut rest = waiting.clone();
            rest.remove(place);
            rest.into()
        })
        .collect()
}

fn fifo(state: &Value, one: &Operation) -> Vec<Value> {
    queue(state, one, true)
}

fn bag(state: &Value, one: &Operation) -> Vec<Value> {
    queue(state, one, false)
}

fn set(state: &Value, one: &Operation) -> Vec<Value> {
    let mut elements = list(state);
    match one.f.as_str() {
        "read" => {
            let mut read = list(&one.result);
            read.sort();
            read.dedup();
            let fits = one.outcome != Outcome::Ok || read == elements;
            return if fits { vec![state.clone()] } else { vec![] };
        }
        "contains" => {
            let is_there = Value::Bool(elements.contains(&one.argument));
            let fits = one.outcome != Outcome::Ok || one.result == is_there;
            return if fits { vec![state.clone()] } else { vec![] };
        }
        "add" => elements.push(one.argument.clone()),
        _ => elements.retain(|other| *other != one.argument),
    }
    elements.sort();
    elements.dedup();
    vec![elements.into()]
}

/// Whether any order of what is left, after this state, is possible.
fn brute(rule: Rule, state: &Value, left: &mut Vec<&Operation>) -> bool {
    if left.iter().all(|one| one.outcome != Outcome::Ok) {
        return true;
    }
    let first_return = left.iter().filter_map(|one| one.returned()).min();
    for at in 0..left.len() {
        if first_return.is_some_and(|first| left[at].call > first) {
            continue;
        }
        let one = left.remove(at);
        let fits = rule(state, one).iter().any(|next| brute(rule, next, left));
        left.insert(at, one);
        if fits {
            return true;
        }
    }
    false
}

/// What a client of a model may do: an operation, what it is called with, and what it returns.
fn called(model: Model, choice: u8, value: i64, other: i64) -> (&'static str, Value, Value) {
    let null = Value::Null;
    let named = ["A", "B"].get(value as usize).map(|&name| name.into());
    let named = named.unwrap_or_default();
    let pair: Value = vec![Value::Int(value), Value::Int(other)].into();
    match (model, choice % 4) {
        (Model::Register, 0 | 1) if value == 0 => ("read", null.clone(), null),
        (Model::Register | Model::Counter, 0 | 1) => ("read", null, value.into()),
        (Model::Register, 2) => ("write", value.into(), value.into()),
        (Model::Register, _) => (
            "cas",
            pair.clone(),
            if choice < 128 { pair } else { false.into() },
        ),
        (Model::Counter, _) => ("add", (value - 1).into(), null),
        (Model::Semaphore(_), 0 | 1) => ("acquire", named, null),
        (Model::Semaphore(_), _) => ("release", named, null),
        (Model::Set, 0) => ("read", null, pair),
        (Model::Set, 1) if choice < 128 => ("contains", value.into(), (other == 0).into()),
        (Model::Set, 1) => ("read", null, vec![Value::Int(value)].into()),
        (Model::Set, 2) => ("add", value.into(), null),
        (Model::Set, _) => ("remove", value.into(), null),
        (_, 0 | 1) => ("enqueue", value.into(), null),
        (_, 2) if value == 0 => ("dequeue", null.clone(), null),
        _ => ("dequeue", null, other.into()),
    }
}

/// Clients that are busy in any order. Most choices of `unique` write a value of their own.
fn history(
    model: Model,
    clients: u64,
    length: usize,
    unique: bool,
) -> impl Strategy<Value = History> {
    let step = (0..clients, any::<u8>(), 0..3i64, 0..3i64, 0..12u8);
    prop::collection::vec(step, 1..length).prop_map(move |steps| {
        let mut history = History::default();
        let mut numbers: Vec<u64> = (0..clients).collect();
        let mut written = vec![Value::Null];
        let mut open: Vec<Option<(&str, Value)>> = vec![None; clients as usize];
        for (at, (client, choice, value, other, outcome)) in steps.into_iter().enumerate() {
            let place = client as usize;
            let event = |kind, f: &str, value| Event {
                index: at as u64,
                time_ns: at as u64,
                process: Process::Client(numbers[place]),
                kind,
                f: f.to_owned(),
                key: None,
                value,
                error: None,
            };
            let event = match open[place].take() {
                None => {
                    let (f, mut argument, mut result) = called(model, choice, value, other);
                    let seen = written[(choice / 4) as usize % written.len()].clone();
                    let fresh = Value::Int(at as i64 + 100);
                    match f {
                        "write" | "enqueue" if unique => argument = fresh.clone(),
                        "cas" if unique => argument = vec![seen, fresh.clone()].into(),
                        "read" | "dequeue" if unique => result = seen,
                        _ => {}
                    }
                    if unique && !argument.is_null() {
                        written.push(fresh);
                    }
                    open[place] = Some((f, result));
                    event(Kind::Invoke, f, argument)
                }
                Some((f, result)) => match outcome {
                    0 => event(Kind::Fail, f, Value::Null),
                    1 | 2 => event(Kind::Info, f, Value::Null),
                    _ => event(Kind::Ok, f, result),
                },
            };
            if event.kind == Kind::Info {
                numbers[place] += clients;
            }
            history.push(event).expect("clients take turns");
        }
        history
    })
}

fn agrees(model: Model, rule: Rule, history: &History) -> Result<bool, TestCaseError> {
    let report =
        check(history, &Settings::of_all(Contract::new(model))).expect("it is of the model");
    let mut all: Vec<_> = history
        .operations()
        .iter()
        .filter(|one| one.outcome != Outcome::Fail)
        .collect();
    // A lock that is refused, or a read that was not answered, is nothing.
    all.retain(|one| one.outcome == Outcome::Ok || one.f != "read");
    let initial = model.default_initial();
    let expected = brute(rule, &initial, &mut all);
    let words: Vec<_> = history
        .operations()
        .iter()
        .map(|one| {
            format!(
                "{:?}..{:?} {} {}",
                one.call,
                one.end,
                one.process,
                one.words()
            )
        })
        .collect();
    let Some(object) = report.objects.first() else {
        return Ok(true);
    };
    match &object.linear {
        Linear::Linearizable(order) => {
            prop_assert!(
                expected,
                "linearizable as {order:?}, but no order is possible: {words:#?}"
            );
        }
        Linear::Not { longest, stuck } => {
            prop_assert!(
                !expected,
                "not linearizable, stuck at {stuck} after {longest:?}, but it is: {words:#?}"
            );
            prop_assert_eq!(history.operations()[*stuck].outcome, Outcome::Ok);
        }
        Linear::Undecided { .. } => prop_assert!(false, "without a limit everything is decided"),
    }
    let named: Vec<_> = report
        .anomalies
        .iter()
        .filter(|anomaly| anomaly.kind != history::Failure::NotLinearizable)
        .collect();
    prop_assert!(
        named.is_empty() || !expected,
        "{named:#?}, but an order is possible: {words:#?}"
    );
    Ok(expected)
}

macro_rules! agree {
    ($($name:ident: $model:expr, $rule:expr, $unique:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(CASES))]
            $(#[test]
            fn $name(history in history($model, 4, 22, $unique)) {
                agrees($model, $rule, &history)?;
            })*
        }
    };
}

/// `PROPTEST_CASES` says otherwise.
const CASES: u32 = 400;

agree! {
    registers_of_few_values: Model::Register, register, false;
    registers_of_unique_values: Model::Register, register, true;
    semaphores: Model::Semaphore(2), semaphore, false;
    counters: Model::Counter, counter, false;
    queues: Model::Queue, fifo, true;
    bags: Model::Bag, bag, false;
    sets: Model::Set, set, false;
}
