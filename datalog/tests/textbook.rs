//! Programs of textbooks, with results that are known.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use datalog::{Database, InputRelation, Kind, Program, Source, Unseen, Value};

const INPUTS: &[InputRelation] = &[
    InputRelation {
        name: "edge",
        columns: &[("from", Kind::Integer), ("to", Kind::Integer)],
        time: None,
        is_watched: false,
        beside: None,
        about: "an edge of a graph",
    },
    InputRelation {
        name: "parent",
        columns: &[("child", Kind::Text), ("parent", Kind::Text)],
        time: None,
        is_watched: false,
        beside: None,
        about: "whose child somebody is",
    },
    InputRelation {
        name: "event",
        columns: &[
            ("what", Kind::Text),
            ("key", Kind::Text),
            ("time", Kind::Integer),
        ],
        time: Some("time"),
        is_watched: false,
        beside: None,
        about: "something that happened",
    },
    InputRelation {
        name: "alarm",
        columns: &[("what", Kind::Text)],
        time: None,
        is_watched: true,
        beside: None,
        about: "what somebody listens for",
    },
    InputRelation {
        name: "room",
        columns: &[("room", Kind::Text)],
        time: None,
        is_watched: false,
        beside: None,
        about: "where somebody listens",
    },
    InputRelation {
        name: "noise",
        columns: &[("room", Kind::Text), ("key", Kind::Text)],
        time: None,
        is_watched: true,
        beside: Some("event"),
        about: "what is heard in a room while something happens",
    },
];

fn program(text: &str) -> Program {
    let program = Program::new(
        &Source::new("test.dl", text),
        INPUTS,
        &Source::default(),
        "",
    );
    program.unwrap_or_else(|problem| panic!("{problem}"))
}

fn database(edges: &[(i64, i64)]) -> Database {
    let mut database = Database::in_memory(INPUTS).expect("made");
    let rows = edges
        .iter()
        .map(|(from, to)| vec![(*from).into(), (*to).into()]);
    database.add("edge", rows).expect("added");
    database
}

/// The facts of a relation, after their derivations were looked at.
fn facts(database: &mut Database, program: &Program, relation: &str) -> BTreeSet<Vec<Value>> {
    database.evaluate(program).expect("evaluated");
    let checked = database.check_derivations(program).expect("read");
    assert!(checked.is_ok(), "{checked:?}");
    let (facts, count) = database.facts(program, relation, 10_000).expect("read");
    let set: BTreeSet<_> = facts.into_iter().map(|fact| fact.values).collect();
    assert_eq!(set.len() as u64, count);
    set
}

fn numbers(rows: &[&[i64]]) -> BTreeSet<Vec<Value>> {
    let row = |row: &&[i64]| row.iter().map(|one| Value::Integer(*one)).collect();
    rows.iter().map(row).collect()
}

fn texts(rows: &[&[&str]]) -> BTreeSet<Vec<Value>> {
    let row = |row: &&[&str]| row.iter().map(|one| Value::from(*one)).collect();
    rows.iter().map(row).collect()
}

/// All pairs of a chain 1, 2, …, n.
fn pairs(last: i64) -> BTreeSet<Vec<Value>> {
    let of = |from: i64| (from + 1..=last).map(move |to| vec![from.into(), to.into()]);
    (1..last).flat_map(of).collect()
}

fn chain(last: i64) -> Vec<(i64, i64)> {
    (1..last).map(|from| (from, from + 1)).collect()
}

#[test]
fn what_can_be_reached_whichever_way_it_is_said() {
    let left = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).";
    let right = "path(X, Y) :- edge(X, Y). path(X, Z) :- edge(X, Y), path(Y, Z).";
    let both = "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z).";
    for text in [left, right, both] {
        let program = program(text);
        assert_eq!(
            facts(&mut database(&chain(20)), &program, "path"),
            pairs(20),
            "{text}"
        );
        // A circle reaches everything from everywhere.
        let circle = [(1, 2), (2, 3), (3, 1)];
        let all: Vec<[i64; 2]> = (1..4).flat_map(|x| (1..4).map(move |y| [x, y])).collect();
        let all: Vec<&[i64]> = all.iter().map(<[i64; 2]>::as_slice).collect();
        assert_eq!(
            facts(&mut database(&circle), &program, "path"),
            numbers(&all),
            "{text}"
        );
    }
}

#[test]
fn relations_that_need_each_other() {
    let text = "even(X) :- edge(X, _), X = 0. odd(Y) :- even(X), edge(X, Y). \
                even(Y) :- odd(X), edge(X, Y).";
    let edges: Vec<_> = (0..9).map(|from| (from, from + 1)).collect();
    let program = program(text);
    let mut database = database(&edges);
    assert_eq!(
        facts(&mut database, &program, "even"),
        numbers(&[&[0], &[2], &[4], &[6], &[8]])
    );
    assert_eq!(
        facts(&mut database, &program, "odd"),
        numbers(&[&[1], &[3], &[5], &[7], &[9]])
    );
}

/// What is known early meets what becomes known late, on both sides of a rule.
#[test]
fn what_is_new_on_either_side_is_looked_at() {
    for both in [
        "p(X), q(X)",
        "q(X), p(X)",
        "p(X), q(X), p(X)",
        "q(X), p(X), q(X)",
    ] {
        let text = format!(
            "p(X) :- edge(X, _). q(0). q(Y) :- r(X), edge(X, Y). p(X) :- r(X). r(X) :- {both}."
        );
        let edges: Vec<_> = (0..30).map(|from| (from, from + 1)).collect();
        let found = facts(&mut database(&edges), &program(&text), "r");
        assert_eq!(found.len(), 30, "{text}");
    }
}

#[test]
fn those_of_the_same_generation() {
    let text = "person(X) :- parent(X, _). person(X) :- parent(_, X). \
                same(X, X) :- person(X). \
                same(X, Y) :- parent(X, P), same(P, Q), parent(Y, Q). \
                cousins(X, Y) :- same(X, Y), X < Y.";
    let mut database = database(&[]);
    let family = [("b", "a"), ("c", "a"), ("d", "b"), ("e", "b"), ("f", "c")];
    let rows = family
        .iter()
        .map(|(child, parent)| vec![(*child).into(), (*parent).into()]);
    database.add("parent", rows).expect("added");
    let found = facts(&mut database, &program(text), "cousins");
    let known: [&[&str]; 4] = [&["b", "c"], &["d", "e"], &["d", "f"], &["e", "f"]];
    assert_eq!(found, texts(&known));
}

#[test]
fn what_is_absent_is_known_before() {
    let text = "node(X) :- edge(X, _). node(X) :- edge(_, X). \
                reached(1) . reached(Y) :- reached(X), edge(X, Y). \
                cut_off(X) :- node(X), !reached(X). sink(X) :- node(X), !edge(X, _).";
    let program = program(text);
    let mut database = database(&[(1, 2), (2, 3), (4, 5), (5, 4), (5, 6)]);
    assert_eq!(
        facts(&mut database, &program, "cut_off"),
        numbers(&[&[4], &[5], &[6]])
    );
    assert_eq!(
        facts(&mut database, &program, "sink"),
        numbers(&[&[3], &[6]])
    );
}

#[test]
fn aggregates_are_over_different_ways_and_groups() {
    let text = "out(X, count(Y)) :- edge(X, Y). all(sum(Y)) :- edge(_, Y). \
                per_edge(sum(Y)) :- edge(X, Y), X > 0. bounds(min(X), max(Y)) :- edge(X, Y). \
                targets(count(Y)) :- edge(X, Y), X > 0. \
                none(count(X)) :- edge(X, 99). \
                tens(X / 10, count(X)) :- edge(X, _).";
    let program = program(text);
    // (1, 5) is there twice: a fact is there or not.
    let mut database = database(&[(1, 5), (1, 5), (1, 6), (2, 5), (12, 6)]);
    assert_eq!(
        facts(&mut database, &program, "out"),
        numbers(&[&[1, 2], &[2, 1], &[12, 1]])
    );
    // `_` tells no ways apart: 5 + 6.
    assert_eq!(facts(&mut database, &program, "all"), numbers(&[&[11]]));
    // With X there are four: 5 + 6 + 5 + 6.
    assert_eq!(
        facts(&mut database, &program, "per_edge"),
        numbers(&[&[22]])
    );
    // A value is counted once, in however many ways it is there.
    assert_eq!(facts(&mut database, &program, "targets"), numbers(&[&[2]]));
    assert_eq!(
        facts(&mut database, &program, "bounds"),
        numbers(&[&[1, 6]])
    );
    assert!(facts(&mut database, &program, "none").is_empty());
    assert_eq!(
        facts(&mut database, &program, "tens"),
        numbers(&[&[0, 2], &[1, 1]])
    );
}

#[test]
fn numbers_and_texts_are_calculated_and_compared() {
    let text = r#"
        # What a log says.
        said(K, N) :- event(what: "log", key: L), K = capture(L, "key (\\w+)"),
            N = number(capture(L, "term ([0-9]+)")).
        late(K) :- event("write", K, T), T >= 1.5s.
        quiet(K) :- event("write", K, _), K !~ "^k[0-9]$".
        next(N * 2 - 1) :- said(_, N), N % 2 = 1, (N + 1) / 2 > 3.
    "#;
    let program = program(text);
    let mut database = database(&[]);
    let rows = [
        ("log", "key a has term 7", 5),
        ("log", "key b has term many", 6),
        ("log", "nothing", 7),
        ("write", "k1", 1_499_999_999),
        ("write", "k22", 1_500_000_000),
    ];
    let rows = rows.map(|(what, key, time)| vec![what.into(), key.into(), time.into()]);
    database.add("event", rows).expect("added");
    let said = facts(&mut database, &program, "said");
    assert_eq!(said, BTreeSet::from([vec!["a".into(), 7.into()]]));
    assert_eq!(facts(&mut database, &program, "late"), texts(&[&["k22"]]));
    assert_eq!(facts(&mut database, &program, "quiet"), texts(&[&["k22"]]));
    assert_eq!(facts(&mut database, &program, "next"), numbers(&[&[13]]));
}

#[test]
fn what_has_no_value_makes_the_body_not_hold() {
    let text = r#"
        leads(L) :- event(key: L), capture(L, "role=(.*)") ~ "lead".
        follows(L) :- event(key: L), capture(L, "role=(.*)") !~ "lead".
        # Only one of the groups matches.
        either(L) :- event(key: L), capture(L, "role=follow|id=(.*)") ~ "^7".
        inner(T) :- event(key: L), T = capture(capture(L, "role=(.*)"), "(....)$").
    "#;
    let program = program(text);
    let mut database = database(&[]);
    let rows = ["role=leader", "role=follower", "nothing", "id=7"];
    let rows = rows.map(|line| vec!["log".into(), line.into(), 1.into()]);
    database.add("event", rows).expect("added");
    for (relation, expected) in [
        ("leads", ["role=leader"]),
        ("follows", ["role=follower"]),
        ("either", ["id=7"]),
    ] {
        let found = facts(&mut database, &program, relation);
        assert_eq!(found, texts(&[&expected]), "{relation}");
    }
    let inner = facts(&mut database, &program, "inner");
    assert_eq!(inner, texts(&[&["ader"], &["ower"]]));
}

/// Twice reached: late by a short way, early by a long one.
#[test]
fn a_fact_holds_from_when_it_first_held_also_if_that_was_found_later() {
    let text = r#"
        at("start") .
        at(K) :- event("jump", K, _), at("start").
        at("end") :- at("slow").
        at("end") :- at("quick").
        at("quick") :- at("middle").
        after_all(K) :- at(K), K = "end".
        violation reached(K) :- after_all(K).
    "#;
    let program = program(text);
    let mut database = database(&[]);
    let rows = [("jump", "slow", 900), ("jump", "middle", 100)];
    let rows = rows.map(|(what, key, time)| vec![what.into(), key.into(), time.into()]);
    database.add("event", rows).expect("added");
    assert_eq!(
        facts(&mut database, &program, "reached"),
        texts(&[&["end"]])
    );
    let (found, _) = database.facts(&program, "reached", 10).expect("read");
    assert_eq!(found[0].since_ns, 100);
    let tree = database
        .derivation(&program, &found[0])
        .expect("read")
        .to_string();
    assert!(
        tree.contains("jump") && tree.contains("middle") && !tree.contains("slow"),
        "{tree}"
    );
}

#[test]
fn a_derivation_is_told_down_to_what_was_given() {
    let text = "violation lost(K) :- acked(K), !served(K).
                acked(K) :- event(what: \"ack\", key: K). served(K) :- event(what: \"read\", key: K).";
    let program = program(text);
    let mut database = database(&[]);
    let rows = [
        ("ack", "k1", 1_000_000_000),
        ("ack", "k2", 2_000_000_000),
        ("read", "k1", 3),
    ];
    let rows = rows.map(|(what, key, time)| vec![what.into(), key.into(), time.into()]);
    database.add("event", rows).expect("added");
    assert_eq!(facts(&mut database, &program, "lost"), texts(&[&["k2"]]));
    let (found, _) = database.facts(&program, "lost", 10).expect("read");
    let told = database
        .derivation(&program, &found[0])
        .expect("read")
        .to_string();
    let expected = "    2.000 s  lost(\"k2\")
               by violation lost(K) :- acked(K), !served(K).
    2.000 s    acked(\"k2\")
                 by acked(K) :- event(what: \"ack\", key: K).
    2.000 s      event(what: \"ack\", key: \"k2\", time: 2000000000)
               no served(\"k2\")
";
    assert_eq!(told, expected);
}

#[test]
fn a_chain_of_facts_is_no_deeper_than_people_look() {
    let program = program("r(1). r(Y) :- r(X), edge(X, Y). n(max(X)) :- r(X).");
    let mut database = database(&chain(3000));
    database.evaluate(&program).expect("evaluated");
    let (found, count) = database.facts(&program, "r", 10_000).expect("read");
    assert_eq!(count, 3000);
    let told = database
        .derivation(&program, &found[2999])
        .expect("read")
        .to_string();
    assert!(
        told.lines().count() < 100 && told.contains("and what it rests on"),
        "{told}"
    );
    let (found, _) = database.facts(&program, "n", 10).expect("read");
    let told = database
        .derivation(&program, &found[0])
        .expect("read")
        .to_string();
    assert!(
        told.contains("r(3000)") && told.contains("and 2999 more"),
        "{told}"
    );
}

#[test]
fn a_minimum_is_told_from_the_fact_that_it_is_of_among_however_many() {
    let program = program("n(min(X)) :- edge(X, _).");
    let edges: Vec<_> = (1..=12_000).rev().map(|from| (from, 0)).collect();
    let mut database = database(&edges);
    database.evaluate(&program).expect("evaluated");
    let (found, _) = database.facts(&program, "n", 10).expect("read");
    let told = database.derivation(&program, &found[0]).expect("read");
    let told = told.to_string();
    assert!(
        told.contains("edge(from: 1, to: 0)") && told.contains("and 11999 more"),
        "{told}"
    );
}

/// What of these rules had nothing to look at, where all that happened is a read of k.
fn unseen_of_one_read(text: &str) -> Vec<Unseen> {
    let program = program(text);
    let mut database = database(&[]);
    database
        .add("event", [vec!["read".into(), "k".into(), 1.into()]])
        .expect("added");
    database.evaluate(&program).expect("evaluated");
    database.unseen(&program).expect("looked")
}

#[test]
fn what_looked_at_nothing_is_told_apart_from_what_found_nothing() {
    let text = r#"
        violation none(K) :- event(what: "ack", key: K), !event(what: "read", key: K).
        helper(K) :- event("crash", K, _).
        violation either(K) :- helper(K).
        violation heard(W) :- alarm(W).
        violation empty() :- !event(_, _, _).
        violation compared(K) :- event(what: W, key: K), W = "raed".
        violation turned(K) :- event(what: W, key: K), "read" = W.
        violation less(K) :- event(W, K, T), W = "read", T > 5.
    "#;
    let unseen = unseen_of_one_read(text);
    let told: Vec<_> = unseen
        .iter()
        .map(|one| (one.relation.as_str(), one.missing.join()))
        .collect();
    assert_eq!(
        told,
        [
            ("none", "event(what: \"ack\")".to_owned()),
            ("either", "event(what: \"crash\")".to_owned()),
            ("compared", "event(what: \"raed\")".to_owned()),
        ]
    );
}

#[test]
fn names_that_rules_list_are_looked_for() {
    let text = r#"
        takes("acquire"). takes("lock"). reads("read"). kept("a", "read"). kept("b", "raed").
        violation held(K) :- event(what: F, key: K), takes(F).
        violation read(K) :- event(what: F, key: K), reads(F).
        violation of_a(K) :- event(what: F, key: K), kept("a", F).
        violation of_b(K) :- event(what: F, key: K), kept("b", F).
        whole("x/raed").
        part(P) :- whole(W), P = capture(W, "/(.*)$").
        violation in_part(K) :- event(what: F, key: K), part(F).
    "#;
    let unseen = unseen_of_one_read(text);
    let told = unseen
        .iter()
        .map(|one| (one.relation.as_str(), one.missing.join()));
    let told: Vec<_> = told.collect();
    assert_eq!(
        told,
        [
            ("held", "event(what: one of takes)".to_owned()),
            ("of_b", "event(what: one of kept)".to_owned()),
            ("in_part", "event(what: one of part)".to_owned()),
        ]
    );
}

#[test]
fn nobody_watches_where_nobody_is_or_what_is_not_there() {
    let text = r#"
        rooms("cellar"). rooms("hall"). towers("tower").
        violation anywhere(R) :- noise(R, _).
        violation here(K) :- noise("hall", K).
        violation nowhere(K) :- noise("hell", K).
        violation compared(K) :- noise(room: R, key: K), R = "hell".
        violation listed(K) :- noise(R, K), rooms(R).
        violation not_listed(K) :- noise(R, K), towers(R).
    "#;
    let program = program(text);
    let mut database = database(&[]);
    let unseen = |database: &Database| -> Vec<_> {
        let unseen = database.unseen(&program).expect("looked").into_iter();
        let told = unseen.map(|one| (one.relation, one.missing.join()));
        told.collect()
    };
    database.add("room", [vec!["hall".into()]]).expect("added");
    database.evaluate(&program).expect("evaluated");
    let all = unseen(&database);
    assert_eq!(all.len(), 6);
    assert_eq!(all[1], ("here".to_owned(), "event".to_owned()));
    database
        .add("event", [vec!["read".into(), "k".into(), 1.into()]])
        .expect("added");
    let expected = [
        ("nowhere", "room(room: \"hell\")"),
        ("compared", "room(room: \"hell\")"),
        ("not_listed", "room(room: one of towers)"),
    ];
    let expected = expected.map(|(relation, lacks)| (relation.to_owned(), lacks.to_owned()));
    assert_eq!(unseen(&database), expected);
}

trait Join {
    fn join(&self) -> String;
}

impl Join for Vec<String> {
    fn join(&self) -> String {
        self.as_slice().join("; ")
    }
}

#[test]
fn rules_without_an_end_are_stopped_by_a_bound_or_refused() {
    let bounded = program("n(0). n(X + 1) :- n(X), X < 50.");
    assert_eq!(facts(&mut database(&[]), &bounded, "n").len(), 51);
    let large = program("n(9223372036854775807). n(X + 1) :- n(X).");
    let error = database(&[]).evaluate(&large).expect_err("too large");
    assert_eq!(
        error.to_string(),
        "in the rules of n: a number does not fit into 64 bits"
    );
    let asked = AtomicU32::new(0);
    let mut database = database(&[]);
    database
        .stop_when(move || asked.fetch_add(1, Ordering::Relaxed) > 1000)
        .expect("asked");
    let endless = program("n(0). n(X + 1) :- n(X).");
    let error = database.evaluate(&endless).expect_err("stopped");
    assert_eq!(error.to_string(), "interrupted");
}

#[test]
fn a_sum_of_many_numbers_is_checked_as_fast_as_it_is_read() {
    let sum = vec!["X"; 200].join(" + ");
    let program = program(&format!("n({sum}) :- edge(X, _)."));
    let found = facts(&mut database(&[(2, 3)]), &program, "n");
    assert_eq!(found, numbers(&[&[400]]));
}

#[test]
fn numbers_that_do_not_fit_are_not_compared() {
    let large = 6_000_000_000_000_000_000;
    let of = |text: &str, edge| database(&[edge]).evaluate(&program(text));
    for (text, edge) in [
        ("a(X) :- edge(X, Y), X * 2 = Y * 2.", (large, large + 1)),
        ("a(X) :- edge(X, Y), X + Y > 0.", (large, large)),
        ("a(X) :- edge(X, Y), X - Y < 0.", (large, -large)),
        ("a(X) :- edge(X, Y), X / Y > 0.", (i64::MIN, -1)),
    ] {
        let error = of(text, edge).expect_err(text).to_string();
        let expected = "in the rules of a: a number does not fit into 64 bits";
        assert_eq!(error, expected, "{text}");
    }
    // Nothing divides by zero.
    let program = program("a(X / Y) :- edge(X, Y). a(X % Y) :- edge(X, Y).");
    let found = facts(
        &mut database(&[(7, 0), (7, 2), (i64::MIN, 1)]),
        &program,
        "a",
    );
    assert_eq!(found, numbers(&[&[3], &[1], &[i64::MIN], &[0]]));
}

#[test]
fn rules_that_derive_too_much_at_once_are_stopped() {
    let pairs = program("pair(A, B) :- edge(A, _), edge(B, _).");
    // The second ones are more than there is room for.
    for edges in [40, 1500] {
        let mut database = database(&chain(edges));
        database.derive_at_most(1000);
        let error = database.evaluate(&pairs).expect_err("too many").to_string();
        let expected =
            "the rules of pair derive more than 1000 facts, or more than there is memory for";
        assert_eq!(error, expected);
        let few = program("first(X) :- edge(X, _), X < 9.");
        assert_eq!(facts(&mut database, &few, "first").len(), 8);
        let long = "k".repeat(4 << 20);
        let event = vec!["w".into(), long.into(), 1.into()];
        database
            .add("event", [event])
            .expect("there is room for it");
    }
}

#[test]
fn one_statement_that_takes_for_ever_is_stopped_and_what_was_there_stays() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("facts.sqlite");
    let fill = |database: &mut Database| {
        database.add("edge", (0..300).map(|one| vec![one.into(), one.into()]))
    };
    let mut database = Database::create(&path, INPUTS, 1, fill).expect("made");
    let known = program("loop(X) :- edge(X, X).");
    assert_eq!(facts(&mut database, &known, "loop").len(), 300);
    // Of 300 edges each with each, five times: 2.4 million millions of rows.
    let long = program(
        "a(count(X)) :- edge(A, _), edge(B, _), edge(C, _), edge(D, _), edge(X, _), A * B * C * D < 0.",
    );
    let begun = Instant::now();
    database
        .stop_when(move || begun.elapsed() > Duration::from_millis(200))
        .expect("asked");
    let error = database.evaluate(&long).expect_err("stopped");
    assert_eq!(error.to_string(), "interrupted");
    assert!(begun.elapsed() < Duration::from_secs(600), "{begun:?}");
    database.stop_when(|| false).expect("asked");
    assert_eq!(database.count("edge").expect("counted"), 300);
    assert_eq!(facts(&mut database, &known, "loop").len(), 300);
}

#[test]
fn given_rules_are_taken_where_they_are_needed_and_not_defined() {
    let source = |text: &str| Source::new("test.dl", text);
    let given = source("far(X) :- near(X), X > 1. near(X) :- edge(X, _). other(X) :- edge(_, X).");
    let of = |text: &str| Program::new(&source(text), INPUTS, &given, "spec").expect("right");
    let mut database = database(&[(1, 2), (2, 3)]);
    assert_eq!(
        facts(&mut database, &of("a(X) :- far(X)."), "a"),
        numbers(&[&[2]])
    );
    let own = of("a(X) :- far(X). near(X) :- edge(_, X).");
    assert_eq!(facts(&mut database, &own, "a"), numbers(&[&[2], &[3]]));
    let names: Vec<_> = own
        .relations()
        .map(|relation| relation.name.as_str())
        .collect();
    assert!(!names.contains(&"other"), "{names:?}");
}

#[test]
fn a_file_stays_and_another_version_or_file_is_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("facts.sqlite");
    let fill = |database: &mut Database| {
        database.add("edge", [vec![1.into(), 2.into()], vec![2.into(), 3.into()]])
    };
    let program = program("path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), edge(Y, Z).");
    let mut made = Database::create(&path, INPUTS, 3, fill).expect("made");
    let known = numbers(&[&[1, 2], &[2, 3], &[1, 3]]);
    assert_eq!(facts(&mut made, &program, "path"), known);
    drop(made);
    let mut again = Database::open(&path, 3).expect("opened");
    assert_eq!(facts(&mut again, &program, "path"), known);
    let refused = |opened: datalog::Result<Database>| opened.err().expect("refused").to_string();
    let path_of = path.display();
    assert_eq!(
        refused(Database::open(&path, 4)),
        format!(
            "{path_of} is a database of version 1.3, and this program reads version 1.4: remove it, \
             and it is made again"
        )
    );
    let other = folder.path().join("other");
    std::fs::write(&other, "no database").expect("written");
    assert!(refused(Database::open(&other, 3)).contains("is no database of facts"));
    // What could not be filled is not there.
    let failed = folder.path().join("failed");
    let fails = |_: &mut Database| Err(datalog::Error::Interrupted);
    assert!(Database::create(&failed, INPUTS, 3, fails).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 2);
}

/// The checker of derivations is checked: by hand, facts are made to rest on what they do not follow
/// from, and on themselves.
#[test]
fn derivations_that_are_wrong_are_found() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("facts.sqlite");
    let program = program(
        "path(X, Y) :- edge(X, Y). path(X, Z) :- path(X, Y), path(Y, Z). n(count(Y)) :- path(_, Y). \
         sink(X) :- edge(_, X), !edge(X, _).",
    );
    let mistake = |sql: &str| {
        let _ = std::fs::remove_file(&path);
        let fill = |database: &mut Database| {
            let circle = [(1, 2), (2, 3), (3, 1), (3, 4)];
            let rows = circle.map(|(from, to)| vec![Value::Integer(from), Value::Integer(to)]);
            database.add("edge", rows)
        };
        let mut made = Database::create(&path, INPUTS, 1, fill).expect("made");
        made.evaluate(&program).expect("evaluated");
        drop(made);
        let by_hand = rusqlite::Connection::open(&path).expect("opened");
        by_hand.execute_batch(sql).expect("changed");
        drop(by_hand);
        let database = Database::open(&path, 1).expect("opened");
        let checked = database.check_derivations(&program).expect("read");
        checked.map_or_else(|mistake| mistake.what, |count| format!("{count} are right"))
    };
    assert_eq!(mistake(""), "14 are right");
    // 1 to 2 by 1 to 1 and 1 to 2.
    let circle = "UPDATE path SET _rule = 1, _p1 = _id, _p0 = (SELECT _id FROM path WHERE \"x\" = 1 AND \
                  \"y\" = 1) WHERE \"x\" = 1 AND \"y\" = 2";
    assert_eq!(mistake(circle), "it rests on itself");
    let other = "UPDATE path SET _p0 = _p0 + 1 WHERE _rule = 0 AND _p0 < 3";
    assert!(mistake(other).starts_with("its rule derives another fact"));
    assert!(
        mistake("UPDATE path SET _p1 = _p0 WHERE _rule = 1").starts_with("its facts do not fit")
    );
    assert_eq!(mistake("UPDATE n SET count = 5"), "its count is not 5");
    assert!(
        mistake("INSERT INTO edge VALUES (99, 4, 1)").starts_with("what was to be absent is there")
    );
    assert!(mistake("UPDATE path SET _at = 7 WHERE _id = 2").starts_with("it does not begin"));
    assert!(mistake("UPDATE path SET _rule = 2 WHERE _id = 2").starts_with("rule 2 is not of"));
}
