//! Facts that are added to those that rules were evaluated with.

use datalog::{Database, Error, Extended, InputRelation, Kind, Program, Source, Value};

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
];

const LOST: &str = r#"
    acked(K, T) :- event("acked", K, T).
    served(K) :- event("served", K, _).
    violation lost(K) :- acked(K, _), !served(K).
    late(count(K)) :- lost(K).
"#;

fn named(text: &str, prefix: &str) -> Program {
    let source = Source::new("test.dl", text);
    let program = Program::new(&source, INPUTS, &Source::default(), prefix);
    program.unwrap_or_else(|problem| panic!("{problem}"))
}

fn program(text: &str) -> Program {
    named(text, "")
}

fn happened(database: &mut Database, what: &str, key: &str, time: i64) {
    let row = vec![what.into(), key.into(), time.into()];
    database.add("event", [row]).expect("added");
}

fn add_edges(database: &mut Database, edges: &[(i64, i64)]) {
    let rows = edges
        .iter()
        .map(|(from, to)| vec![Value::from(*from), Value::from(*to)]);
    database.add("edge", rows).expect("added");
}

/// What holds, with the moments.
fn facts(database: &Database, program: &Program, relation: &str) -> Vec<String> {
    let (facts, _) = database.facts(program, relation, 100).expect("read");
    let checked = database.check_derivations(program).expect("read");
    assert!(checked.is_ok(), "{checked:?}");
    let told = facts
        .iter()
        .map(|fact| format!("{fact} @ {}", fact.since_ns));
    told.collect()
}

fn by(derived: u64, retracted: u64) -> Extended {
    Extended::By { derived, retracted }
}

#[test]
fn what_was_lost_is_taken_back_when_it_is_served_and_its_count_changes() {
    let (program, mut database) = (program(LOST), Database::in_memory(INPUTS).expect("made"));
    happened(&mut database, "acked", "a", 1);
    happened(&mut database, "acked", "b", 2);
    assert_eq!(database.extend(&program).expect("extended"), Extended::Anew);
    assert_eq!(facts(&database, &program, "late"), ["late(2) @ 2"]);
    happened(&mut database, "served", "b", 3);
    // What is served; what was lost, and how many were; how many are.
    assert_eq!(database.extend(&program).expect("extended"), by(2, 2));
    assert_eq!(facts(&database, &program, "lost"), ["lost(\"a\") @ 1"]);
    assert_eq!(facts(&database, &program, "late"), ["late(1) @ 1"]);
    // Nothing new, and something that nothing rests on.
    assert_eq!(database.extend(&program).expect("extended"), by(0, 0));
    happened(&mut database, "started", "b", 4);
    assert_eq!(database.extend(&program).expect("extended"), by(0, 0));
}

#[test]
fn a_derivation_is_shown_as_it_is_after_an_extension() {
    let (program, mut database) = (program(LOST), Database::in_memory(INPUTS).expect("made"));
    happened(&mut database, "acked", "a", 5_000_000_000);
    database.evaluate(&program).expect("evaluated");
    happened(&mut database, "acked", "a", 1_000_000_000);
    database.extend(&program).expect("extended");
    let (found, _) = database.facts(&program, "lost", 9).expect("read");
    let derivation = database.derivation(&program, &found[0]).expect("read");
    let text = derivation.to_string();
    // The first moment is that of what was added last.
    assert!(text.starts_with("    1.000 s  lost(\"a\")"), "{text}");
    assert!(
        text.contains("1.000 s    acked(\"a\", 1000000000)"),
        "{text}"
    );
    assert!(!text.contains("5.000 s"), "{text}");
}

#[test]
fn what_follows_in_another_way_stays_and_so_does_what_rests_on_it() {
    let text = r#"
        open(K) :- event("open", K, _), !event("shut", K, _).
        open(K) :- event("forced", K, _).
        reached(N) :- open(_), edge(0, N).
        reached(N) :- reached(M), edge(M, N).
    "#;
    let (program, mut database) = (program(text), Database::in_memory(INPUTS).expect("made"));
    add_edges(&mut database, &[(0, 1), (1, 2), (2, 1)]);
    happened(&mut database, "open", "a", 1);
    happened(&mut database, "forced", "a", 7);
    database.evaluate(&program).expect("evaluated");
    assert_eq!(
        facts(&database, &program, "reached"),
        ["reached(1) @ 1", "reached(2) @ 1"]
    );
    happened(&mut database, "shut", "a", 3);
    // One door, and two places that are reached through it, later.
    assert_eq!(database.extend(&program).expect("extended"), by(3, 3));
    assert_eq!(facts(&database, &program, "open"), ["open(\"a\") @ 7"]);
    assert_eq!(
        facts(&database, &program, "reached"),
        ["reached(1) @ 7", "reached(2) @ 7"]
    );
}

#[test]
fn a_circle_does_not_hold_itself_up() {
    let text = r#"
        reached(N) :- edge(0, N), !event("shut", _, _).
        reached(N) :- reached(M), edge(M, N).
    "#;
    let (program, mut database) = (program(text), Database::in_memory(INPUTS).expect("made"));
    add_edges(&mut database, &[(0, 1), (1, 2), (2, 3), (3, 1)]);
    database.evaluate(&program).expect("evaluated");
    assert_eq!(facts(&database, &program, "reached").len(), 3);
    happened(&mut database, "shut", "a", 3);
    assert_eq!(database.extend(&program).expect("extended"), by(0, 3));
    assert!(facts(&database, &program, "reached").is_empty());
}

#[test]
fn a_group_that_comes_to_the_same_is_not_taken_back() {
    let text = "
        least(M, min(N)) :- edge(M, N).
        least_of_all(min(N)) :- least(_, N).
        far(N) :- least_of_all(N), !edge(N, _).
    ";
    let (program, mut database) = (program(text), Database::in_memory(INPUTS).expect("made"));
    add_edges(&mut database, &[(1, 5), (2, 6)]);
    database.evaluate(&program).expect("evaluated");
    add_edges(&mut database, &[(1, 8)]);
    assert_eq!(database.extend(&program).expect("extended"), by(0, 0));
    add_edges(&mut database, &[(2, 4)]);
    // The least of 2, of all, and what is far.
    assert_eq!(database.extend(&program).expect("extended"), by(3, 3));
    assert_eq!(facts(&database, &program, "far"), ["far(4) @ 0"]);
}

#[test]
fn what_an_aggregate_comes_to_as_well_is_derived_again() {
    let text = r#"
        least(M, 5) :- edge(M, _), !event("shut", _, _).
        least(M, min(N)) :- edge(M, N).
    "#;
    let (program, mut database) = (program(text), Database::in_memory(INPUTS).expect("made"));
    add_edges(&mut database, &[(1, 5), (2, 6)]);
    database.evaluate(&program).expect("evaluated");
    assert_eq!(facts(&database, &program, "least").len(), 3);
    happened(&mut database, "shut", "a", 3);
    // Its group has not changed, only the rule that derived it first does not any more.
    assert_eq!(database.extend(&program).expect("extended"), by(1, 2));
    let least = facts(&database, &program, "least");
    assert_eq!(least, ["least(2, 6) @ 0", "least(1, 5) @ 0"]);
}

#[test]
fn other_rules_and_what_was_removed_are_evaluated_anew() {
    let (first, mut database) = (program(LOST), Database::in_memory(INPUTS).expect("made"));
    happened(&mut database, "acked", "a", 1);
    happened(&mut database, "served", "a", 2);
    database.evaluate(&first).expect("evaluated");
    assert!(facts(&database, &first, "lost").is_empty());
    // The row of what is added next is that of what was removed.
    database
        .remove("event", &[("what", "served".into())], None)
        .expect("removed");
    happened(&mut database, "served", "b", 2);
    assert_eq!(database.extend(&first).expect("extended"), Extended::Anew);
    assert_eq!(facts(&database, &first, "lost"), ["lost(\"a\") @ 1"]);
    // To remove nothing changes nothing.
    database
        .remove("event", &[("what", "x".into())], None)
        .expect("removed");
    assert_eq!(database.extend(&first).expect("extended"), by(0, 0));
    let second = program(&LOST.replace("!served(K)", "served(K)"));
    assert_eq!(database.extend(&second).expect("extended"), Extended::Anew);
    assert!(facts(&database, &second, "lost").is_empty());
    // Others are kept beside them.
    let beside = named(LOST, "beside");
    assert_eq!(database.extend(&beside).expect("extended"), Extended::Anew);
    happened(&mut database, "acked", "c", 3);
    assert_eq!(database.extend(&second).expect("extended"), by(1, 0));
    assert_eq!(database.extend(&beside).expect("extended"), by(3, 1));
    assert_eq!(facts(&database, &beside, "late"), ["late(2) @ 3"]);
}

#[test]
fn what_an_extension_could_not_do_is_new_the_next_time() {
    let text = "
        reached(N) :- edge(0, N).
        reached(N) :- reached(M), edge(M, N).
        sum(N + M) :- edge(N, M), reached(N).
    ";
    let (program, mut database) = (program(text), Database::in_memory(INPUTS).expect("made"));
    add_edges(&mut database, &[(0, 1)]);
    database.evaluate(&program).expect("evaluated");
    let chain: Vec<_> = (1..50).map(|from| (from, from + 1)).collect();
    add_edges(&mut database, &chain);
    database.derive_at_most(10);
    let extended = database.extend(&program);
    assert!(matches!(extended, Err(Error::NoEnd { .. })), "{extended:?}");
    assert_eq!(facts(&database, &program, "reached"), ["reached(1) @ 0"]);
    database.derive_at_most(1_000);
    assert_eq!(database.extend(&program).expect("extended"), by(49 + 49, 0));
    add_edges(&mut database, &[(50, i64::MAX)]);
    let extended = database.extend(&program);
    assert!(
        matches!(extended, Err(Error::TooLarge { .. })),
        "{extended:?}"
    );
}

/// Whether rules derive too much of edges: evaluated at once, and after they were added one after the other.
fn are_too_many(text: &str, most: u64, edges: &[(i64, i64)]) -> [bool; 2] {
    let program = program(text);
    let [mut fresh, mut extended] = [(); 2].map(|()| {
        let mut database = Database::in_memory(INPUTS).expect("made");
        database.derive_at_most(most);
        database
    });
    add_edges(&mut fresh, edges);
    let at_once = fresh.evaluate(&program);
    extended.evaluate(&program).expect("there is nothing");
    let steps = edges.iter().map(|edge| {
        add_edges(&mut extended, &[*edge]);
        extended.extend(&program).map(drop)
    });
    let one_by_one = steps.collect::<Result<Vec<_>, _>>().map(drop);
    [at_once, one_by_one].map(|done| match done {
        Ok(()) => false,
        Err(Error::NoEnd { .. } | Error::TooMany { .. }) => true,
        Err(error) => panic!("{error}"),
    })
}

#[test]
fn a_database_that_was_extended_has_room_for_as_many_facts_as_a_fresh_one() {
    // Relations that rest on each other in turn, each of which may have as many.
    let chained = "
        to(N) :- edge(_, N).
        reached(N) :- edge(0, N).
        reached(N) :- reached(M), edge(M, N).
        last(N) :- reached(N), !edge(N, _).
        many(count(N)) :- to(N).
    ";
    let chain = |edges| (0..edges).map(|from| (from, from + 1)).collect::<Vec<_>>();
    let alone = "to(N) :- edge(_, N).";
    for text in [chained, alone] {
        assert_eq!(are_too_many(text, 100, &chain(100)), [false; 2], "{text}");
        assert_eq!(are_too_many(text, 100, &chain(101)), [true; 2], "{text}");
    }
    // What was taken back has made room: the leaf of the chain, each time that it has another.
    let leaves = "leaf(N) :- edge(_, N), !edge(N, _).";
    let others = (1..100).map(|leaf| (-1, -1 - leaf)).collect();
    let mut edges = [chain(1), others, chain(20)[1..].to_vec()].concat();
    assert_eq!(are_too_many(leaves, 100, &edges), [false; 2]);
    edges.push((-1, -200));
    assert_eq!(are_too_many(leaves, 100, &edges), [true; 2]);
}

#[test]
fn a_file_is_extended_where_it_was_left() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("facts.sqlite");
    let program = program(LOST);
    let made = Database::create(&path, INPUTS, 1, |database| {
        happened(database, "acked", "a", 1);
        database.evaluate(&program)
    });
    drop(made.expect("made"));
    let mut database = Database::open(&path, 1).expect("opened");
    happened(&mut database, "served", "a", 2);
    assert_eq!(database.extend(&program).expect("extended"), by(1, 2));
    drop(database);
    let mut database = Database::open(&path, 1).expect("opened");
    assert!(facts(&database, &program, "lost").is_empty());
    happened(&mut database, "acked", "b", 3);
    assert_eq!(database.extend(&program).expect("extended"), by(3, 0));
    assert_eq!(facts(&database, &program, "late"), ["late(1) @ 3"]);
}
