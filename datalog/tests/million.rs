//! A million facts and twenty rules: what they come to, how long that takes, and how much memory:
//! `cargo test --release -p datalog --test million -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use datalog::{Database, Extended, InputRelation, Kind, Program, Source, Value};

const OPERATIONS: i64 = 480_000;
const LINES: i64 = 480_000;
const CLIENTS: i64 = 10;
const KEYS: i64 = 20_000;
const CHAINS: i64 = 4_000;

const INPUTS: &[InputRelation] = &[
    InputRelation {
        name: "acknowledged",
        columns: &[
            ("op", Kind::Integer),
            ("client", Kind::Text),
            ("f", Kind::Text),
            ("key", Kind::Text),
            ("value", Kind::Text),
            ("called", Kind::Integer),
            ("time", Kind::Integer),
        ],
        time: Some("time"),
        is_watched: false,
        beside: None,
        about: "an operation that was acknowledged",
    },
    InputRelation {
        name: "logged",
        columns: &[
            ("node", Kind::Text),
            ("line", Kind::Text),
            ("time", Kind::Integer),
        ],
        time: Some("time"),
        is_watched: false,
        beside: None,
        about: "a line of a log",
    },
    InputRelation {
        name: "sent",
        columns: &[
            ("from", Kind::Integer),
            ("to", Kind::Integer),
            ("time", Kind::Integer),
        ],
        time: Some("time"),
        is_watched: false,
        beside: None,
        about: "a message",
    },
];

const RULES: &str = r#"
    written(K, V, Op, T) :- acknowledged(op: Op, f: "write", key: K, value: V, time: T).
    read(K, V, Op, C) :- acknowledged(op: Op, f: "read", key: K, value: V, called: C).
    last(K, max(Op)) :- written(K, _, Op, _).
    first(K, min(Op)) :- written(K, _, Op, _).
    lasting(K, V, T) :- last(K, Op), written(K, V, Op, T).
    served(K) :- lasting(K, V, T), read(K, V, _, C), C > T.
    violation lost(K, V) :- lasting(K, V, T), read(K, Other, _, C), C > T, Other != V, !served(K).
    busy(Client, count(Op)) :- acknowledged(op: Op, client: Client).
    busiest(max(N)) :- busy(_, N).
    idle(Client) :- busy(Client, N), busiest(Most), N * 2 < Most.
    elected(Node, Term, T) :- logged(Node, L, T), Term = number(capture(L, "leader in term ([0-9]+)")).
    violation two_leaders(A, B, Term) :- elected(A, Term, _), elected(B, Term, _), A < B.
    failed(Node, T) :- logged(Node, L, T), L ~ "fsync.*failed".
    violation acked_after_failure(Op, Node) :- failed(Node, T), acknowledged(op: Op, called: C), C > T.
    caused(M, N) :- sent(M, N, _).
    caused(M, O) :- caused(M, N), sent(N, O, _).
    root(M) :- sent(M, _, _), !sent(_, M, _).
    reach(M, count(N)) :- caused(M, N), root(M).
    widest(max(N)) :- reach(_, N).
    slow(Client, count(Op)) :- acknowledged(op: Op, client: Client, called: C, time: T), T - C > 5ms.
"#;

fn operation(op: i64) -> Vec<Value> {
    let f = if op % 2 == 0 { "write" } else { "read" };
    let called = op * 1_000_000;
    vec![
        op.into(),
        format!("client {}", op % CLIENTS).into(),
        f.into(),
        format!("key {}", (op / 2 * 7919) % KEYS).into(),
        (op / 2).to_string().into(),
        called.into(),
        (called + (op % 11) * 1_000_000).into(),
    ]
}

fn line(number: i64) -> Vec<Value> {
    let text = match number % 50 {
        0 => format!("became leader in term {number}"),
        _ => format!(
            "applied entry {number} of the log, which took {} us",
            number % 1000
        ),
    };
    vec![
        format!("node {}", number % 3).into(),
        text.into(),
        (number * 1_000_000).into(),
    ]
}

/// Chains of ten messages.
fn messages() -> impl Iterator<Item = Vec<Value>> {
    let pairs = (0..CHAINS).flat_map(|chain| (0..10).map(move |link| chain * 11 + link));
    pairs.map(|from| vec![from.into(), (from + 1).into(), (from * 1_000).into()])
}

/// What the rules derive of these facts.
const DERIVED: [(&str, u64); 19] = [
    ("written", OPERATIONS as u64 / 2),
    ("read", OPERATIONS as u64 / 2),
    // An odd number of keys, taken in steps that have no factor in common with it, are all taken.
    ("last", KEYS as u64),
    ("first", KEYS as u64),
    ("lasting", KEYS as u64),
    ("served", 1_819),
    ("lost", 0),
    ("busy", CLIENTS as u64),
    ("busiest", 1),
    ("idle", 0),
    ("elected", LINES as u64 / 50),
    ("two_leaders", 0),
    ("failed", 0),
    ("acked_after_failure", 0),
    // Of a chain of ten links: ten of one, nine of two, and so on.
    ("caused", CHAINS as u64 * 55),
    ("root", CHAINS as u64),
    ("reach", CHAINS as u64),
    ("widest", 1),
    ("slow", CLIENTS as u64),
];

/// The most memory that this process has had, in bytes.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let words = line.expect("Linux says that").split_whitespace();
    let kib: u64 = words
        .rev()
        .nth(1)
        .expect("a number")
        .parse()
        .expect("a number");
    kib << 10
}

/// How long processors have worked for this process: on a machine with other work that says more than a clock.
fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("it is there");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    let fields: Vec<_> = rest.split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
    // In hundredths of a second, in user space and in the kernel.
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

/// How many facts of each relation there are.
fn counted(database: &Database, program: &Program) -> [(&'static str, u64); DERIVED.len()] {
    DERIVED.map(|(name, _)| {
        let (_, count) = database.facts(program, name, 1).expect("they are there");
        (name, count)
    })
}

/// What makes an event of its number.
type Event<'e> = &'e dyn Fn(i64) -> Vec<Value>;

/// Adds events to the run, one after the other: what each of them comes to, and how long that takes.
fn extend(database: &mut Database, program: &Program) {
    let end = CHAINS * 11;
    // A line of a leader; a message that nobody caused, with how far it reached; a write, which is the
    // last of its key and changes how many its client had.
    let leader = |term: i64| line(LINES + term * 50);
    let message = |number: i64| {
        vec![
            (end + 2 * number).into(),
            (end + 2 * number + 1).into(),
            0.into(),
        ]
    };
    let write = |number: i64| operation(OPERATIONS + number * 2 * CLIENTS);
    let events: [(&str, Event<'_>, _); 3] = [
        ("logged", &leader, 1),
        ("sent", &message, 3),
        // What was written, the last write of the key and what it wrote, how many operations the client
        // had, and the most that one had.
        ("acknowledged", &write, 5),
    ];
    for (relation, event, expected) in events {
        // The first makes indexes.
        for number in 0..3 {
            database.add(relation, [event(number)]).expect("added");
            let begun = Instant::now();
            let extended = database.extend(program).expect("extended");
            let took_ms = begun.elapsed().as_secs_f64() * 1e3;
            println!("{relation}: {extended:?} in {took_ms:.1} ms");
            let Extended::By { derived, .. } = extended else {
                panic!("{relation} {number}: all was evaluated");
            };
            assert_eq!(derived, expected, "{relation} {number}");
        }
    }
    let extended = counted(database, program);
    database.evaluate(program).expect("evaluated");
    assert_eq!(extended, counted(database, program));
}

#[test]
#[ignore = "takes half a minute unless it is optimised: make test-long"]
fn a_million_facts_and_twenty_rules_come_to_what_they_must_in_the_memory_of_their_file() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("million.sqlite");
    let source = Source::new("million.dl", RULES);
    let program = Program::new(&source, INPUTS, &Source::default(), "").expect("a program");
    let begun = Instant::now();
    let database = Database::create(&path, INPUTS, 1, |database| {
        database.add("acknowledged", (0..OPERATIONS).map(operation))?;
        database.add("logged", (0..LINES).map(line))?;
        database.add("sent", messages())
    });
    let (mut database, filled) = (database.expect("made"), begun.elapsed());
    let begun = Instant::now();
    database.evaluate(&program).expect("evaluated");
    let (evaluated, worked) = (begun.elapsed(), worked());
    let counted = counted(&database, &program);
    assert_eq!(counted, DERIVED);
    let facts = OPERATIONS + LINES + messages().count() as i64;
    assert_eq!(facts, 1_000_000);
    let file_bytes = std::fs::metadata(&path).expect("it is there").len();
    println!(
        "{facts} facts in {:.2} s, {} derived in {:.2} s, {:.2} s of a processor, file {} MiB, memory {} MiB",
        filled.as_secs_f64(),
        counted.iter().map(|(_, count)| count).sum::<u64>(),
        evaluated.as_secs_f64(),
        worked.as_secs_f64(),
        file_bytes >> 20,
        memory_bytes() >> 20
    );
    assert!(memory_bytes() < 2 * file_bytes);
    extend(&mut database, &program);
    assert!(cfg!(debug_assertions) || worked < Duration::from_secs(10));
}
