//! What an object is, and what its operations mean.

pub(crate) mod counter;
pub(crate) mod lock;
pub(crate) mod queue;
pub(crate) mod register;
pub(crate) mod set;

use std::collections::HashMap;

use crate::linear::{self, Limits, Linear, Sequential, Timed};
use crate::{At, Consistency, History, Operation, Outcome, Value, transactions};

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// A register, with compare-and-set.
    Register,
    /// A map of keys, each a register to which can also be appended.
    Map,
    /// A lock.
    Lock,
    /// A semaphore of so many permits.
    Semaphore(usize),
    /// A counter.
    Counter,
    /// A queue: first in, first out.
    Queue,
    /// A queue that keeps no order.
    Bag,
    /// A set.
    Set,
    /// Transactions that append to lists and read them.
    ListAppend,
    /// Transactions that write registers and read them.
    RwRegister,
}

type Check = fn(&Objects<'_>, &Value, &Limits) -> Result<Answer, Refused>;

/// A row of the table of models.
pub struct ModelRow {
    /// Its name. A semaphore has `:N` after it.
    pub name: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Its operations.
    pub words: &'static [&'static str],
    model: Model,
    check: Option<Check>,
}

/// The operations of one object.
pub(crate) struct Objects<'a> {
    /// Their places in the history.
    pub(crate) places: &'a [usize],
    pub(crate) history: &'a History,
    pub(crate) model: Model,
    /// Whether states are wanted in words.
    pub(crate) describe: bool,
}

/// Whether there is an order, and in words what the object is after each step of the longest one.
pub(crate) struct Answer {
    pub(crate) linear: Linear,
    pub(crate) states: Vec<String>,
}

/// The models, in the order in which people read them.
pub const MODELS: [ModelRow; 10] = [
    row(
        "register",
        "a value that is read, written, and compared and set",
        register::WORDS,
        Model::Register,
        Some(register),
    ),
    row(
        "map",
        "keys with values, to which can be appended",
        register::WORDS,
        Model::Map,
        Some(register),
    ),
    row(
        "lock",
        "held by one at a time",
        lock::WORDS,
        Model::Lock,
        Some(semaphore),
    ),
    row(
        "semaphore",
        "held by N at a time (semaphore:N)",
        lock::WORDS,
        Model::Semaphore(1),
        Some(semaphore),
    ),
    row(
        "counter",
        "a number that is added to",
        counter::WORDS,
        Model::Counter,
        Some(counter),
    ),
    row(
        "queue",
        "first in, first out",
        queue::WORDS,
        Model::Queue,
        Some(queue),
    ),
    row(
        "bag",
        "a queue that keeps no order",
        queue::WORDS,
        Model::Bag,
        Some(queue),
    ),
    row(
        "set",
        "elements that are added and removed",
        set::WORDS,
        Model::Set,
        Some(set),
    ),
    row(
        "list-append",
        "transactions that append to lists and read them",
        &["txn"],
        Model::ListAppend,
        None,
    ),
    row(
        "rw-register",
        "transactions that write registers and read them",
        &["txn"],
        Model::RwRegister,
        None,
    ),
];

const fn row(
    name: &'static str,
    what: &'static str,
    words: &'static [&'static str],
    model: Model,
    check: Option<Check>,
) -> ModelRow {
    ModelRow {
        name,
        what,
        words,
        model,
        check,
    }
}

/// Why a history cannot be one of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The object has no such operation.
    #[error("{at}{of}: a {model} has no operation {f} (it has {known})", of = of_key(key.as_ref()), known = known.join(", "))]
    Operation {
        /// Where it was called.
        at: At,
        /// Of which object.
        key: Option<Value>,
        /// The operation.
        f: String,
        /// What it was looked at as.
        model: String,
        /// What the object has.
        known: &'static [&'static str],
    },
    /// An operation carries something else than it should.
    #[error("{at}{of}: {words} carries {value}, not {expected}", of = of_key(key.as_ref()))]
    Value {
        /// Where it was called.
        at: At,
        /// Of which object.
        key: Option<Value>,
        /// The operation.
        words: String,
        /// What it carries.
        value: String,
        /// What it should.
        expected: &'static str,
    },
    /// Nothing in the history says what it is of.
    #[error("its operations ({0}) do not say what it is; say it with --model")]
    Unclear(String),
    /// One is of objects, the other of transactions.
    #[error("{consistency} is not something that a {model} can be")]
    Consistency {
        /// What was looked at.
        model: &'static str,
        /// What it should be.
        consistency: &'static str,
    },
    /// It begins with something else.
    #[error("a {model} is {expected} at first, and not {initial}")]
    Initial {
        /// What was looked at.
        model: &'static str,
        /// What it should be at first.
        initial: String,
        /// What it is.
        expected: &'static str,
    },
    /// There is no such model.
    #[error("there is no model {name} (there are {known})")]
    Model {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}

fn of_key(key: Option<&Value>) -> String {
    key.map_or_else(String::new, |key| format!(" (key {key})"))
}

impl Refused {
    pub(crate) fn unknown(operation: &Operation, known: &'static [&'static str]) -> Self {
        Self::Operation {
            at: At::Event(operation.call as u64),
            key: operation.key.clone(),
            f: Value::from(operation.f.as_str()).to_string(),
            model: String::new(),
            known,
        }
    }

    pub(crate) fn value(operation: &Operation, expected: &'static str) -> Self {
        let value = match operation.outcome {
            Outcome::Ok => &operation.result,
            _ => &operation.argument,
        };
        Self::carries(operation, value, expected)
    }

    /// What it was called with is something else than it should be.
    pub(crate) fn argument(operation: &Operation, expected: &'static str) -> Self {
        Self::carries(operation, &operation.argument, expected)
    }

    fn carries(operation: &Operation, value: &Value, expected: &'static str) -> Self {
        Self::Value {
            at: At::Event(operation.call as u64),
            key: operation.key.clone(),
            words: operation.f.clone(),
            value: value.to_string(),
            expected,
        }
    }

    /// With where it is in its history. Whoever refuses an operation knows its place in
    /// [`History::events`] only.
    pub(crate) fn found_in(mut self, history: &History) -> Self {
        if let Self::Operation { at, .. } | Self::Value { at, .. } = &mut self
            && let At::Event(place) = *at
        {
            *at = history.at(place as usize);
        }
        self
    }

    fn of(self, name: &str) -> Self {
        match self {
            Self::Operation {
                at, key, f, known, ..
            } => Self::Operation {
                at,
                key,
                f,
                model: name.to_owned(),
                known,
            },
            other => other,
        }
    }
}

/// The two elements that a compare-and-set carries.
pub(crate) fn argument_pair(operation: &Operation) -> Result<(&Value, &Value), Refused> {
    match operation.argument.as_list() {
        Some([old, new]) => Ok((old, new)),
        _ => Err(Refused::argument(operation, "[old, new]")),
    }
}

/// Values as numbers.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    numbers: HashMap<Value, u32>,
    values: Vec<Value>,
}

impl Interner {
    pub(crate) fn number(&mut self, value: &Value) -> u32 {
        if let Some(&number) = self.numbers.get(value) {
            return number;
        }
        let number = self.values.len() as u32;
        self.numbers.insert(value.clone(), number);
        self.values.push(value.clone());
        number
    }

    pub(crate) fn value(&self, number: u32) -> &Value {
        &self.values[number as usize]
    }
}

impl Model {
    /// The model of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(name: &str) -> Result<Self, Refused> {
        let unknown = || Refused::Model {
            name: name.to_owned(),
            known: MODELS.map(|row| row.name).join(", "),
        };
        if let Some(permits) = name.strip_prefix("semaphore:") {
            let permits: usize = permits.parse().map_err(|_| unknown())?;
            return Ok(Self::Semaphore(permits));
        }
        let row = MODELS.iter().find(|row| row.name == name);
        row.map(|row| row.model).ok_or_else(unknown)
    }

    /// Its row.
    pub fn row(self) -> &'static ModelRow {
        let same =
            |row: &&ModelRow| std::mem::discriminant(&row.model) == std::mem::discriminant(&self);
        MODELS.iter().find(same).expect("each model has a row")
    }

    /// Whether its operations are transactions.
    pub fn is_transactional(self) -> bool {
        matches!(self, Self::ListAppend | Self::RwRegister)
    }

    /// What an object is if nobody said so.
    pub fn default_initial(self) -> Value {
        match self {
            Self::Counter => Value::Int(0),
            _ => Value::Null,
        }
    }

    /// What is promised if nobody said so: the most.
    pub fn default_consistency(self) -> Consistency {
        if self.is_transactional() {
            Consistency::StrictSerializable
        } else {
            Consistency::Linearizable
        }
    }

    /// Whether some of these operations, which are all of one object, was answered with something that can
    /// be wrong: otherwise nothing can be told of the object, whatever became of it. Where operations are not
    /// `ordered` less of it can.
    pub(crate) fn is_told_by(self, operations: &[&Operation], ordered: bool) -> bool {
        let mut answered = operations.iter().filter(|one| one.outcome == Outcome::Ok);
        match self {
            Self::Register | Self::Map
                if !ordered && register::is_longer(operations.iter().copied()) =>
            {
                false
            }
            Self::Register | Self::Map => answered.any(|one| {
                register::OBSERVES.contains(&one.f.as_str())
                    && (ordered || one.result != Value::Bool(false) || one.f != "cas")
            }),
            Self::Lock | Self::Semaphore(_) => answered.any(|one| one.result != Value::Bool(false)),
            Self::Counter => {
                let may_be_marks = counter::may_be_marks(operations.iter().copied());
                answered.any(|one| tells_count(one, may_be_marks))
            }
            Self::Queue | Self::Bag => answered.any(|one| !queue::IN.contains(&one.f.as_str())),
            Self::Set => answered.any(|one| set::OBSERVES.contains(&one.f.as_str())),
            Self::ListAppend | Self::RwRegister => answered.any(|one| transactions::has_read(one)),
        }
    }

    /// Whether there is an order for the operations of one object.
    pub(crate) fn linear(
        self,
        objects: &Objects<'_>,
        initial: &Value,
        limits: &Limits,
    ) -> Result<Answer, Refused> {
        let row = self.row();
        let Some(check) = row.check else {
            // Transactions are looked at together, and nobody looks for an order of them.
            let linear = Linear::Linearizable(Vec::new());
            let states = Vec::new();
            return Ok(Answer { linear, states });
        };
        check(objects, initial, limits).map_err(|refused| refused.of(row.name))
    }
}

/// Whether an answer says what a counter has, which a mark does not.
fn tells_count(one: &Operation, may_be_marks: bool) -> bool {
    match counter::call(one) {
        Ok(Some(counter::Call::AddAndGet(..))) => !may_be_marks,
        Ok(Some(counter::Call::Read(_))) => true,
        _ => false,
    }
}

/// The operations as the search has them.
fn timed<C>(
    objects: &Objects<'_>,
    call: impl Fn(&Operation) -> Result<Option<C>, Refused>,
) -> Result<Vec<Timed<C>>, Refused> {
    let mut timed = Vec::with_capacity(objects.places.len());
    for &place in objects.places {
        let operation = &objects.history.operations()[place];
        if let Some(call) = call(operation)? {
            timed.push(Timed::new(place, operation, call));
        }
    }
    Ok(timed)
}

fn register(objects: &Objects<'_>, initial: &Value, limits: &Limits) -> Result<Answer, Refused> {
    let register = register::Register::new(initial);
    let operations = timed(objects, |operation| register.call(operation))?;
    if let Some(linear) = linear::unique(&register, &operations) {
        return Ok(answer(objects, &register, &operations, linear));
    }
    Ok(search(objects, &register, &operations, limits))
}

fn semaphore(objects: &Objects<'_>, _: &Value, limits: &Limits) -> Result<Answer, Refused> {
    let permits = match objects.model {
        Model::Semaphore(permits) => permits,
        _ => 1,
    };
    let operations = timed(objects, lock::call)?;
    Ok(search(
        objects,
        &lock::Semaphore { permits },
        &operations,
        limits,
    ))
}

fn counter(objects: &Objects<'_>, initial: &Value, limits: &Limits) -> Result<Answer, Refused> {
    let initial = initial.as_int().unwrap_or(0);
    let operations = timed(objects, counter::call)?;
    Ok(search(
        objects,
        &counter::Counter { initial },
        &operations,
        limits,
    ))
}

fn queue(objects: &Objects<'_>, _: &Value, limits: &Limits) -> Result<Answer, Refused> {
    let queue = queue::Queue::new(objects.model == Model::Queue);
    let operations = queue.spread(timed(objects, |operation| queue.call(operation))?);
    Ok(search(objects, &queue, &operations, limits))
}

fn set(objects: &Objects<'_>, initial: &Value, limits: &Limits) -> Result<Answer, Refused> {
    let set = set::Set::new(initial);
    let operations = timed(objects, |operation| set.call(operation))?;
    Ok(search(objects, &set, &operations, limits))
}

fn search<S: Sequential>(
    objects: &Objects<'_>,
    object: &S,
    operations: &[Timed<S::Call>],
    limits: &Limits,
) -> Answer {
    let linear = linear::search::search(object, operations, limits);
    answer(objects, object, operations, linear)
}

/// With the states in words, if they are wanted.
fn answer<S: Sequential>(
    objects: &Objects<'_>,
    object: &S,
    operations: &[Timed<S::Call>],
    linear: Linear,
) -> Answer {
    let mut states = Vec::new();
    if objects.describe {
        let mut state = object.initial();
        for &place in linear.order() {
            // What may have taken any of several elements is there once for each of them.
            let mut same = operations.iter().filter(|one| one.operation == place);
            if let Some(next) = same.find_map(|one| object.step(&state, &one.call)) {
                state = next;
            }
            states.push(object.words(&state));
        }
    }
    Answer { linear, states }
}
