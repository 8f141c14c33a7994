//! What objects are, and what is promised of each: said, or told from its operations.

use crate::model::{Refused, counter, lock, queue, register, set};
use crate::{Consistency, Model, Operation, Outcome, Value};

/// What an object is, and what is promised of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    /// What it is.
    pub model: Model,
    /// What it is at first.
    pub initial: Value,
    /// What is promised.
    pub consistency: Consistency,
}

/// A contract, and the objects that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// A pattern of their keys; without it, it is of all objects.
    pub keys: Option<glob::Pattern>,
    /// What they are.
    pub contract: Contract,
}

/// What the operations of an object say that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guess {
    /// The model.
    pub model: Model,
    /// What else it may be, for which other histories are right. What is wrong with the model may
    /// be right with this one.
    pub may_be: Option<&'static str>,
}

impl Contract {
    /// Of a model, as it is if nothing else is said: the strongest promise.
    pub fn new(model: Model) -> Self {
        Self {
            model,
            initial: model.default_initial(),
            consistency: model.default_consistency(),
        }
    }

    /// Whether the promise is one that can be made of the model.
    ///
    /// # Errors
    /// One is of objects, and the other of transactions.
    pub fn fits(&self) -> Result<(), Refused> {
        if self.model.is_transactional() == self.consistency.is_transactional() {
            return Ok(());
        }
        Err(Refused::Consistency {
            model: self.model.row().name,
            consistency: self.consistency.name(),
        })
    }
}

impl Rule {
    /// Of all objects.
    pub fn of_all(contract: Contract) -> Self {
        Self {
            keys: None,
            contract,
        }
    }

    /// Whether it is of this object. A key that is no text is written as JSON.
    pub fn is_of(&self, key: Option<&Value>) -> bool {
        match (&self.keys, key) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(keys), Some(Value::Text(key))) => keys.matches(key),
            (Some(keys), Some(key)) => keys.matches(&key.to_string()),
        }
    }
}

/// What the operations of one object say that it is.
///
/// # Errors
/// If they fit several models, or none.
pub fn guess(operations: &[&Operation]) -> Result<Guess, Refused> {
    let all = || operations.iter();
    let mut words: Vec<_> = all().map(|one| one.f.as_str()).collect();
    words.sort_unstable();
    words.dedup();
    let has = |some: &[&str]| words.iter().any(|word| some.contains(word));
    let only = |some: &[&str]| words.iter().all(|word| some.contains(word));
    // Many clients answer other operations with what they were called with.
    let was_read = |is: fn(&Value) -> bool| {
        let reads = all().filter(|one| ["read", "get"].contains(&one.f.as_str()));
        let mut known = reads.filter(|one| one.outcome == Outcome::Ok);
        known.any(|one| is(&one.result))
    };
    let is_keyed = all().any(|one| one.key.is_some());
    let (model, may_be) = if words.is_empty() {
        return Err(Refused::Unclear("there are none".to_owned()));
    } else if only(&["read", "get"]) && !was_read(|value| !value.is_null()) {
        // Whatever it is, nothing was there.
        (Model::Map, None)
    } else if only(&["read", "get", "remove"]) {
        return Err(Refused::Unclear(words.join(", ")));
    } else if only(&["txn"]) {
        let told = all().find_map(|one| writes_or_appends(one));
        (told.unwrap_or(Model::ListAppend), None)
    } else if only(register::WORDS) {
        let model = if is_keyed {
            Model::Map
        } else {
            Model::Register
        };
        (model, None)
    } else if only(lock::WORDS) {
        (Model::Lock, Some("a semaphore"))
    } else if only(queue::WORDS) {
        // What a bag may not do, no queue may.
        (Model::Bag, None)
    } else if only(counter::WORDS)
        && (has(&["inc", "increment", "dec", "decrement"])
            || was_read(|value| value.as_int().is_some()))
    {
        (Model::Counter, None)
    } else if only(set::WORDS)
        && (has(&["remove", "contains"]) || was_read(|value| value.as_list().is_some()))
    {
        (Model::Set, None)
    } else {
        return Err(Refused::Unclear(words.join(", ")));
    };
    Ok(Guess { model, may_be })
}

fn writes_or_appends(operation: &Operation) -> Option<Model> {
    operation.argument.as_list()?.iter().find_map(|part| {
        match part.as_list()?.first()?.as_text()? {
            "append" => Some(Model::ListAppend),
            "w" => Some(Model::RwRegister),
            _ => None,
        }
    })
}
