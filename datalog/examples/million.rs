//! How long a million facts and twenty rules take:
//! `cargo run --release -p datalog --example million`.

use std::time::Instant;

use datalog::{Database, InputRelation, Kind, Program, Source, Value};

const OPERATIONS: i64 = 480_000;
const LINES: i64 = 480_000;
const CLIENTS: i64 = 10;
const KEYS: i64 = 20_000;

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
    let pairs = (0..4_000_i64).flat_map(|chain| (0..10).map(move |link| chain * 11 + link));
    pairs.map(|from| vec![from.into(), (from + 1).into(), (from * 1_000).into()])
}

/// How many facts the rules derive, each relation on a line.
fn count_derived(database: &Database, program: &Program) -> datalog::Result<u64> {
    let mut derived = 0;
    for relation in program.relations().filter(|relation| !relation.is_input()) {
        let (_, count) = database.facts(program, &relation.name, 1)?;
        println!("{count:9} {}", relation.name);
        derived += count;
    }
    Ok(derived)
}

/// The most memory that this process has had.
fn memory() -> std::io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let line = lines.find(|line| line.starts_with("VmHWM"));
    Ok(line.unwrap_or_default().to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir();
    let path = folder.join(format!("million-{}.sqlite", std::process::id()));
    let source = Source::new("million.dl", RULES);
    let program = Program::new(&source, INPUTS, &Source::default(), "")?;
    let begun = Instant::now();
    let mut database = Database::create(&path, INPUTS, 1, |database| {
        database.add("acknowledged", (0..OPERATIONS).map(operation))?;
        database.add("logged", (0..LINES).map(line))?;
        database.add("sent", messages())
    })?;
    let filled = begun.elapsed();
    let begun = Instant::now();
    database.evaluate(&program)?;
    let evaluated = begun.elapsed();
    let facts = OPERATIONS + LINES + messages().count() as i64;
    println!(
        "{facts} facts in {:.2} s, {} derived in {:.2} s",
        filled.as_secs_f64(),
        count_derived(&database, &program)?,
        evaluated.as_secs_f64()
    );
    let size = std::fs::metadata(&path)?.len() / 1024 / 1024;
    println!("file {size} MiB, {}", memory()?);
    std::fs::remove_file(&path)?;
    Ok(())
}
