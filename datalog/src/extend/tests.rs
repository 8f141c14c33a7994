//! What an extension costs, in instructions of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::problem::Source;
use crate::program::InputRelation;
use crate::syntax::{Kind, Value};

/// So many facts there are at most.
const MANY: i64 = 100_000;

/// Clients, whose operations are counted.
const CLIENTS: i64 = 1_000;

const INPUTS: &[InputRelation] = &[
    InputRelation {
        name: "acked",
        columns: &[
            ("key", Kind::Integer),
            ("client", Kind::Integer),
            ("time", Kind::Integer),
        ],
        time: Some("time"),
        is_watched: false,
        beside: None,
        about: "",
    },
    InputRelation {
        name: "served",
        columns: &[("key", Kind::Integer), ("time", Kind::Integer)],
        time: Some("time"),
        is_watched: false,
        beside: None,
        about: "",
    },
    InputRelation {
        name: "sent",
        columns: &[("from", Kind::Integer), ("to", Kind::Integer)],
        time: None,
        is_watched: false,
        beside: None,
        about: "",
    },
];

/// With recursion, an absence, what rests on that, and a count.
const RULES: &str = "
    caused(M, N) :- sent(M, N).
    caused(M, O) :- caused(M, N), sent(N, O).
    violation lost(K) :- acked(K, _, _), !served(K, _).
    suspect(K, N) :- lost(K), caused(K, N).
    busy(C, count(K)) :- acked(K, C, _).
";

/// Facts that a program was evaluated with, and how many instructions the database needs since it was
/// asked last.
struct Counted {
    database: Database,
    program: Program,
    instructions: Arc<AtomicU64>,
}

impl Counted {
    /// So many keys, each with a chain of messages of its own.
    fn of(keys: i64) -> Self {
        let given = Source::default();
        let program = Program::new(&Source::new("a.dl", RULES), INPUTS, &given, "");
        let program = program.unwrap_or_else(|problem| panic!("{problem}"));
        let mut database = Database::in_memory(INPUTS).expect("made");
        // As many clients for each key, so that groups are of the same size.
        let clients = keys * CLIENTS / MANY;
        let acked = (0..keys).map(|key| [key, key % clients, key]);
        let rows = |row: &[i64]| row.iter().map(|one| Value::Integer(*one)).collect();
        let acked: Vec<_> = acked.map(|row| rows(&row)).collect();
        database.add("acked", acked).expect("added");
        let served: Vec<_> = (0..keys - 10).map(|key| rows(&[key, key])).collect();
        database.add("served", served).expect("added");
        let sent: Vec<_> = (0..keys).map(|key| rows(&[key, key + MANY])).collect();
        database.add("sent", sent).expect("added");
        database.evaluate(&program).expect("evaluated");
        let instructions = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&instructions);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        let asked = database.connection.progress_handler(1, Some(count));
        asked.expect("it can be asked");
        Self {
            database,
            program,
            instructions,
        }
    }

    /// Adds a fact. What that came to, and for how many instructions.
    fn add(&mut self, relation: &str, row: &[i64]) -> (Extended, u64) {
        let row = row.iter().map(|one| Value::Integer(*one)).collect();
        self.database.add(relation, [row]).expect("added");
        let before = self.instructions.load(Ordering::Relaxed);
        let extended = self.database.extend(&self.program).expect("extended");
        let after = self.instructions.load(Ordering::Relaxed);
        (extended, after - before)
    }

    /// Adds one event of each kind, and what each came to.
    fn add_events(&mut self, keys: i64) -> Vec<(Extended, u64)> {
        // One that nobody was served yet, with what it had caused.
        let late = keys - 1;
        vec![
            self.add("acked", &[keys + 7, 3, 1]),
            self.add("sent", &[late + MANY, late + 2 * MANY]),
            self.add("served", &[late, 1]),
        ]
    }
}

#[test]
fn an_event_costs_its_consequences_and_not_the_run() {
    let costs = [MANY / 100, MANY].map(|keys| {
        let mut counted = Counted::of(keys);
        // The first makes the indexes.
        counted.add_events(keys - 1);
        counted.instructions.store(0, Ordering::Relaxed);
        let events = counted.add_events(keys);
        let checked = counted.database.check_derivations(&counted.program);
        assert!(checked.expect("read").is_ok());
        (keys, events)
    });
    let of = |derived, retracted| Extended::By { derived, retracted };
    let [(_, few), (_, many)] = &costs;
    // A key is lost, and the count of its client is another. A message is caused by two others, and goes
    // to a suspect. A key is not lost any more, nor are the two that its messages went to suspects.
    let expected = [of(2, 1), of(3, 0), of(0, 3)];
    for (place, expected) in expected.into_iter().enumerate() {
        let ((extended, instructions), (of_few, fewer)) = (many[place], few[place]);
        assert_eq!(
            (extended, of_few),
            (expected, expected),
            "{place}: {costs:?}"
        );
        // A look into a table is one instruction, whatever its size.
        assert!(instructions < 10_000, "{place}: {costs:?}");
        assert!(instructions < fewer + fewer / 4, "{place}: {costs:?}");
    }
}

#[test]
fn the_instructions_of_an_evaluation_of_all_are_counted() {
    let mut counted = Counted::of(MANY / 10);
    counted
        .database
        .remove("served", &[("key", 1.into())], None)
        .expect("removed");
    let (extended, instructions) = counted.add("acked", &[1, 1, 1]);
    assert_eq!(extended, Extended::Anew);
    assert!(instructions > 100_000, "{instructions}");
}
