//! Random programs and facts, against an evaluator that does the simplest thing: apply every rule to
//! everything until nothing changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use datalog::{Database, Extended, InputRelation, Kind, Program, Source, Value};
use proptest::prelude::*;

const CASES: u32 = 256;

/// Constants and values of facts are below this.
const VALUES: i64 = 5;

/// Two input relations, and the time of each fact.
const INPUTS: &[InputRelation] = &[
    InputRelation {
        name: "e",
        columns: &[
            ("a", Kind::Integer),
            ("b", Kind::Integer),
            ("time", Kind::Integer),
        ],
        time: Some("time"),
        is_watched: false,
        beside: None,
        about: "",
    },
    InputRelation {
        name: "f",
        columns: &[("a", Kind::Integer)],
        time: None,
        is_watched: false,
        beside: None,
        about: "",
    },
];

/// Of each relation of rules how many columns it has, and its level: it may need the absence of, and
/// count, what is of a lower one.
const DERIVED: [(usize, usize); 5] = [(2, 0), (1, 0), (2, 1), (1, 1), (2, 2)];

#[derive(Debug, Clone)]
enum Slot {
    Variable(usize),
    Constant(i64),
    Any,
}

#[derive(Debug, Clone)]
struct Call {
    /// Of [`DERIVED`]; the two after these are `e` and `f`.
    relation: usize,
    slots: Vec<Slot>,
}

#[derive(Debug, Clone)]
enum Test {
    Less(usize, usize),
    Different(usize, i64),
    /// A new variable, which is the sum of two, in a circle.
    Sum(usize, usize),
}

#[derive(Debug, Clone)]
struct Made {
    head: usize,
    /// Which of the bound variables stand in the head.
    picks: Vec<usize>,
    /// For the last place of the head.
    aggregate: Option<&'static str>,
    atoms: Vec<Call>,
    absent: Vec<Call>,
    tests: Vec<Test>,
}

type Facts = BTreeMap<usize, BTreeMap<Vec<i64>, i64>>;

fn arity(relation: usize) -> usize {
    match relation {
        5 => 3,
        6 => 1,
        derived => DERIVED[derived].0,
    }
}

fn level(relation: usize) -> i64 {
    DERIVED.get(relation).map_or(-1, |(_, level)| *level as i64)
}

fn slot() -> impl Strategy<Value = Slot> {
    prop_oneof![
        8 => (0..4_usize).prop_map(Slot::Variable),
        1 => (0..VALUES).prop_map(Slot::Constant),
        1 => Just(Slot::Any),
    ]
}

/// A call of a relation of at most this level.
fn call(most: i64) -> impl Strategy<Value = Call> {
    let all: Vec<_> = (0..7_usize).filter(|one| level(*one) <= most).collect();
    let relation = proptest::sample::select(all);
    relation.prop_flat_map(|relation| {
        let slots = proptest::collection::vec(slot(), arity(relation));
        slots.prop_map(move |slots| Call { relation, slots })
    })
}

fn condition() -> impl Strategy<Value = Test> {
    prop_oneof![
        (0..4_usize, 0..4_usize).prop_map(|(one, other)| Test::Less(one, other)),
        (0..4_usize, 0..VALUES).prop_map(|(one, value)| Test::Different(one, value)),
        (0..4_usize, 0..4_usize).prop_map(|(one, other)| Test::Sum(one, other)),
    ]
}

fn rule(heads: &'static [usize]) -> impl Strategy<Value = Made> {
    let aggregate = prop_oneof![
        2 => Just(None),
        1 => proptest::sample::select(vec!["count", "min", "max", "sum"]).prop_map(Some),
    ];
    let head = (proptest::sample::select(heads), aggregate);
    head.prop_flat_map(|(head, aggregate)| {
        let own = level(head);
        // There is nothing lower that is of rules.
        let aggregate = aggregate.filter(|_| own > 0);
        let most = if aggregate.is_some() { own - 1 } else { own };
        (
            proptest::collection::vec(call(most), 1..4),
            proptest::collection::vec(call(own - 1), 0..2),
            proptest::collection::vec(condition(), 0..3),
            proptest::collection::vec(0..8_usize, 2),
        )
            .prop_map(move |(atoms, absent, tests, picks)| Made {
                head,
                picks,
                aggregate,
                atoms,
                absent,
                tests,
            })
    })
    .prop_filter_map("a rule binds something", settled)
}

/// The rule with what is unbound made anything, so that it is a right one.
fn settled(mut rule: Made) -> Option<Made> {
    let mut bound = BTreeSet::new();
    for call in &rule.atoms {
        for slot in &call.slots {
            if let Slot::Variable(name) = slot {
                bound.insert(*name);
            }
        }
    }
    let mut tests = Vec::new();
    for test in std::mem::take(&mut rule.tests) {
        let (is_right, sum) = match &test {
            Test::Less(one, other) => (bound.contains(one) && bound.contains(other), None),
            Test::Different(one, _) => (bound.contains(one), None),
            Test::Sum(one, other) => {
                let is_right = bound.contains(one) && bound.contains(other);
                (is_right, is_right.then_some(4 + tests.len()))
            }
        };
        if is_right {
            bound.extend(sum);
            tests.push(test);
        }
    }
    rule.tests = tests;
    for call in &mut rule.absent {
        for slot in &mut call.slots {
            if matches!(slot, Slot::Variable(name) if !bound.contains(name)) {
                *slot = Slot::Any;
            }
        }
    }
    let bound: Vec<_> = bound.into_iter().collect();
    if bound.is_empty() {
        return None;
    }
    let picks = rule.picks.iter().map(|pick| bound[pick % bound.len()]);
    rule.picks = picks.take(DERIVED[rule.head].0).collect();
    Some(rule)
}

fn name(relation: usize) -> String {
    match relation {
        5 => "e".into(),
        6 => "f".into(),
        derived => format!("p{derived}"),
    }
}

fn call_text(call: &Call) -> String {
    let slots = call.slots.iter().map(|slot| match slot {
        Slot::Variable(name) => format!("V{name}"),
        Slot::Constant(value) => value.to_string(),
        Slot::Any => "_".into(),
    });
    format!(
        "{}({})",
        name(call.relation),
        slots.collect::<Vec<_>>().join(", ")
    )
}

fn text(rules: &[Made]) -> String {
    let mut text = String::new();
    for rule in rules {
        let mut head: Vec<_> = rule.picks.iter().map(|pick| format!("V{pick}")).collect();
        if let (Some(aggregate), Some(last)) = (rule.aggregate, head.last_mut()) {
            *last = format!("{aggregate}({last})");
        }
        let mut body: Vec<_> = rule.atoms.iter().map(call_text).collect();
        body.extend(
            rule.absent
                .iter()
                .map(|call| format!("!{}", call_text(call))),
        );
        for (place, test) in rule.tests.iter().enumerate() {
            body.push(match test {
                Test::Less(one, other) => format!("V{one} < V{other}"),
                Test::Different(one, value) => format!("V{one} != {value}"),
                Test::Sum(one, other) => format!("V{} = (V{one} + V{other}) % 7", place + 4),
            });
        }
        let (name, head) = (name(rule.head), head.join(", "));
        let _ = writeln!(text, "{name}({head}) :- {}.", body.join(", "));
    }
    text
}

type Bound = BTreeMap<usize, i64>;

fn fits(call: &Call, row: &[i64], bound: &Bound) -> Option<Bound> {
    let mut bound = bound.clone();
    for (slot, value) in call.slots.iter().zip(row) {
        let is_right = match slot {
            Slot::Any => true,
            Slot::Constant(constant) => constant == value,
            Slot::Variable(name) => bound.entry(*name).or_insert(*value) == value,
        };
        if !is_right {
            return None;
        }
    }
    Some(bound)
}

/// All ways in which the body of a rule holds, and from when on.
fn ways(rule: &Made, facts: &Facts) -> Vec<(Bound, i64)> {
    let mut ways = vec![(Bound::new(), 0)];
    for call in &rule.atoms {
        let rows = &facts[&call.relation];
        let longer = ways.iter().flat_map(|(bound, at)| {
            rows.iter()
                .filter_map(move |(row, began)| Some((fits(call, row, bound)?, (*at).max(*began))))
        });
        ways = longer.collect();
    }
    ways.retain_mut(|(bound, _)| {
        for (place, test) in rule.tests.iter().enumerate() {
            match test {
                Test::Less(one, other) if bound[one] >= bound[other] => return false,
                Test::Different(one, value) if bound[one] == *value => return false,
                Test::Sum(one, other) => {
                    let sum = (bound[one] + bound[other]) % 7;
                    bound.insert(place + 4, sum);
                }
                _ => {}
            }
        }
        let is_there = |call: &Call| {
            let mut rows = facts[&call.relation].keys();
            rows.any(|row| fits(call, row, bound).is_some())
        };
        !rule.absent.iter().any(is_there)
    });
    ways
}

/// What a rule derives.
fn derived(rule: &Made, facts: &Facts) -> Vec<(Vec<i64>, i64)> {
    let ways = ways(rule, facts);
    let values = |bound: &Bound| {
        rule.picks
            .iter()
            .map(|pick| bound[pick])
            .collect::<Vec<_>>()
    };
    let Some(aggregate) = rule.aggregate else {
        return ways
            .into_iter()
            .map(|(bound, at)| (values(&bound), at))
            .collect();
    };
    let mut first: BTreeMap<Bound, i64> = BTreeMap::new();
    for (bound, at) in ways {
        let known = first.entry(bound).or_insert(at);
        *known = at.min(*known);
    }
    let mut groups: BTreeMap<Vec<i64>, Vec<(i64, i64)>> = BTreeMap::new();
    for (bound, at) in first {
        let mut key = values(&bound);
        let last = key.pop().expect("a head has a place");
        groups.entry(key).or_default().push((last, at));
    }
    let one = |(mut key, members): (Vec<i64>, Vec<(i64, i64)>)| {
        let values = members.iter().map(|(value, _)| *value);
        let all_began = members.iter().map(|(_, at)| *at).max().expect("one");
        let (value, at) = match aggregate {
            "count" => (values.collect::<BTreeSet<_>>().len() as i64, all_began),
            "sum" => (values.sum(), all_began),
            // The one that is least or most, from when on there is one.
            "min" => *members.iter().min().expect("one"),
            _ => {
                let most = values.max().expect("one");
                *members
                    .iter()
                    .filter(|(value, _)| *value == most)
                    .min()
                    .expect("one")
            }
        };
        key.push(value);
        (key, at)
    };
    groups.into_iter().map(one).collect()
}

/// Everything that follows, and from when on.
fn naive(rules: &[Made], inputs: &Facts) -> Facts {
    let mut facts = inputs.clone();
    for relation in 0..DERIVED.len() {
        facts.entry(relation).or_default();
    }
    for stage in 0..3 {
        loop {
            let mut is_new = false;
            for rule in rules.iter().filter(|rule| level(rule.head) == stage) {
                for (row, at) in derived(rule, &facts) {
                    let known = facts.get_mut(&rule.head).expect("it is there");
                    let before = known.get(&row).copied();
                    if before.is_none_or(|before| at < before) {
                        known.insert(row, at);
                        is_new = true;
                    }
                }
            }
            if !is_new {
                break;
            }
        }
    }
    facts
}

fn inputs() -> impl Strategy<Value = Facts> {
    let edges = proptest::collection::btree_set((0..VALUES, 0..VALUES, 0..9_i64), 0..12);
    let marks = proptest::collection::btree_set(0..VALUES, 0..4);
    (edges, marks).prop_map(|(edges, marks)| {
        let edges = edges
            .into_iter()
            .map(|(a, b, time)| (vec![a, b, time], time));
        let marks = marks.into_iter().map(|mark| (vec![mark], 0));
        Facts::from([(5, edges.collect()), (6, marks.collect())])
    })
}

fn program(rules: &str) -> Result<Program, TestCaseError> {
    let program = Program::new(
        &Source::new("random.dl", rules),
        INPUTS,
        &Source::default(),
        "x",
    );
    program.map_err(|problem| TestCaseError::fail(format!("{problem}\n{rules}")))
}

fn add(database: &mut Database, inputs: &Facts) {
    for relation in [5, 6] {
        let rows = inputs[&relation].keys();
        let rows = rows.map(|row| row.iter().map(|one| Value::Integer(*one)).collect());
        database.add(&name(relation), rows).expect("added");
    }
}

/// A single fact.
fn one_fact() -> impl Strategy<Value = Facts> {
    let edge = (0..VALUES, 0..VALUES, 0..9_i64);
    let edge = edge.prop_map(|(a, b, time)| (vec![(vec![a, b, time], time)], Vec::new()));
    let mark = (0..VALUES).prop_map(|mark| (Vec::new(), vec![(vec![mark], 0)]));
    prop_oneof![3 => edge, 1 => mark].prop_map(|(edges, marks)| {
        Facts::from([
            (5, edges.into_iter().collect()),
            (6, marks.into_iter().collect()),
        ])
    })
}

/// What the rules derive with the database.
fn evaluated(rules: &str, inputs: &Facts) -> Result<Facts, TestCaseError> {
    let program = program(rules)?;
    let mut database = Database::in_memory(INPUTS).expect("made");
    add(&mut database, inputs);
    database.evaluate(&program).expect("evaluated");
    found((&program, rules), &database, inputs)
}

/// What is in the database, whose derivations are right.
fn found(
    (program, rules): (&Program, &str),
    database: &Database,
    inputs: &Facts,
) -> Result<Facts, TestCaseError> {
    let checked = database.check_derivations(program).expect("read");
    prop_assert!(checked.is_ok(), "{checked:?}\n{rules}");
    let mut facts = inputs.clone();
    for relation in 0..DERIVED.len() {
        let known = program
            .relations()
            .any(|known| known.name == name(relation));
        let mut all = BTreeMap::new();
        if known {
            let (found, _) = database
                .facts(program, &name(relation), 1_000_000)
                .expect("read");
            for fact in found {
                let row = fact.values.iter().map(|value| match value {
                    Value::Integer(number) => *number,
                    Value::Text(_) => unreachable!("there are only numbers"),
                });
                all.insert(row.collect(), fact.since_ns);
            }
        }
        facts.insert(relation, all);
    }
    Ok(facts)
}

/// The text of rules for each relation.
fn whole_text(rules: &[Made]) -> String {
    // What is called has a rule, and so a kind: else it would be unknown.
    let mut text = text(rules);
    for (relation, (arity, _)) in DERIVED.iter().enumerate() {
        let row = vec!["0"; *arity].join(", ");
        let _ = writeln!(text, "{}({row}) :- f(99).", name(relation));
    }
    text
}

/// Compares what rules derive.
fn compared(rules: &[Made], inputs: &Facts) -> Result<(), TestCaseError> {
    let text = whole_text(rules);
    let found = evaluated(&text, inputs)?;
    prop_assert_eq!(found, naive(rules, inputs), "{}", text);
    Ok(())
}

/// Compares what rules derive when facts are added, with what they derive of all at once.
fn extended(rules: &[Made], batches: &[Facts]) -> Result<(), TestCaseError> {
    let text = whole_text(rules);
    let program = program(&text)?;
    let mut database = Database::in_memory(INPUTS).expect("made");
    let mut known = Facts::from([(5, BTreeMap::new()), (6, BTreeMap::new())]);
    for (number, batch) in batches.iter().enumerate() {
        add(&mut database, batch);
        for (relation, rows) in batch {
            let known = known.get_mut(relation).expect("it is there");
            known.extend(rows.clone());
        }
        let extended = database.extend(&program).expect("extended");
        prop_assert_eq!(extended == Extended::Anew, number == 0);
        let found = found((&program, &text), &database, &known)?;
        prop_assert_eq!(found, naive(rules, &known), "{} after {:?}", text, batches);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn what_is_derived_is_what_follows(
        rules in proptest::collection::vec(rule(&[0, 1, 2, 3, 4]), 1..9),
        inputs in inputs(),
    ) {
        compared(&rules, &inputs)?;
    }

    /// Two relations that need each other and themselves, in several ways.
    #[test]
    fn what_is_recursive_is_what_follows(
        rules in proptest::collection::vec(rule(&[0, 1]), 4..10),
        inputs in inputs(),
    ) {
        compared(&rules, &inputs)?;
    }

    /// Facts that are added to an evaluation: some of what follows from the others does not any more.
    #[test]
    fn what_is_added_comes_to_what_follows_from_all(
        rules in proptest::collection::vec(rule(&[0, 1, 2, 3, 4]), 1..12),
        batches in proptest::collection::vec(inputs(), 2..5),
    ) {
        extended(&rules, &batches)?;
    }

    /// A few facts at a time, and few rules: what one changes is not hidden by others.
    #[test]
    fn what_is_added_one_by_one_comes_to_what_follows_from_all(
        rules in proptest::collection::vec(rule(&[0, 1, 2, 3, 4]), 2..6),
        facts in proptest::collection::vec(one_fact(), 3..9),
    ) {
        extended(&rules, &facts)?;
    }
}
