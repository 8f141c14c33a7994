//! What objects are, and what is promised of each: said, or told from its operations.

use std::fmt;

use crate::model::{Refused, counter, lock, queue, register, set};
use crate::{Consistency, Failure, Model, Operation, Outcome, Value};

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

    /// Whether the promise is one that can be made of the model, and the model can be that at first.
    ///
    /// # Errors
    /// If the promise is of objects, and the model of transactions, or the other way round; or the model
    /// begins with something else.
    pub fn fits(&self) -> Result<(), Refused> {
        self.begins()?;
        if self.model.is_transactional() == self.consistency.is_transactional() {
            return Ok(());
        }
        Err(Refused::Consistency {
            model: self.model.row().name,
            consistency: self.consistency.name(),
        })
    }

    /// Whether the operations are in one order, and no read is old.
    pub(crate) fn is_ordered(&self) -> bool {
        self.consistency.forbids(Failure::NotLinearizable)
    }

    /// Whether something was read of an object of these operations and could be wrong, but nobody looks:
    /// what is appended makes values that nobody wrote as they are, and only in an order they are known.
    pub(crate) fn is_unseen(&self, operations: &[&Operation]) -> bool {
        !self.is_ordered()
            && self.model.is_told_by(operations, true)
            && register::is_longer(operations.iter().copied())
    }

    /// Whether the model can be that at first.
    pub(crate) fn begins(&self) -> Result<(), Refused> {
        let initial = &self.initial;
        let (begins, expected) = match self.model {
            Model::Register | Model::Map | Model::RwRegister => return Ok(()),
            Model::Counter => (initial.as_int().is_some(), "a whole number"),
            Model::Set => (initial.is_null() || initial.as_list().is_some(), "a list"),
            _ => (initial.is_null(), "nothing"),
        };
        if begins {
            return Ok(());
        }
        Err(Refused::Initial {
            model: self.model.row().name,
            initial: initial.to_string(),
            expected,
        })
    }
}

/// The model, and the keys of its objects.
impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.contract.model.row().name)?;
        match &self.keys {
            Some(keys) => write!(formatter, " {keys}"),
            None => Ok(()),
        }
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
    let words = Words::of(operations);
    if words.all.is_empty() {
        return Err(Refused::Unclear("there are none".to_owned()));
    }
    let unclear = || Refused::Unclear(words.all.join(", "));
    let model = if words.only(READS) && !was_read(operations, |value| !value.is_null()) {
        // Whatever it is, nothing was there.
        Model::Map
    } else if words.only(&["read", "get", "remove"]) {
        return Err(unclear());
    } else {
        model_of_words(&words, operations).ok_or_else(unclear)?
    };
    let may_be = (model == Model::Lock).then_some("a semaphore");
    Ok(Guess { model, may_be })
}

const READS: &[&str] = &["read", "get"];

/// What operations are called, each word once.
struct Words<'a> {
    all: Vec<&'a str>,
}

impl<'a> Words<'a> {
    fn of(operations: &[&'a Operation]) -> Self {
        let mut all: Vec<_> = operations.iter().map(|one| one.f.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        Self { all }
    }

    fn has(&self, some: &[&str]) -> bool {
        self.all.iter().any(|word| some.contains(word))
    }

    fn only(&self, some: &[&str]) -> bool {
        self.all.iter().all(|word| some.contains(word))
    }
}

fn model_of_words(words: &Words<'_>, operations: &[&Operation]) -> Option<Model> {
    let was_read = |is| was_read(operations, is);
    Some(if words.only(&["txn"]) {
        let told = operations.iter().find_map(|one| writes_or_appends(one));
        told.unwrap_or(Model::ListAppend)
    } else if words.only(register::WORDS) {
        if operations.iter().any(|one| one.key.is_some()) {
            Model::Map
        } else {
            Model::Register
        }
    } else if words.only(lock::WORDS) {
        Model::Lock
    } else if words.only(queue::WORDS) {
        // What a bag may not do, no queue may.
        Model::Bag
    } else if words.only(counter::WORDS)
        && (words.has(&["inc", "increment", "dec", "decrement"])
            || was_read(|value| value.as_int().is_some()))
    {
        Model::Counter
    } else if words.only(set::WORDS)
        && (words.has(&["remove", "contains"]) || was_read(|value| value.as_list().is_some()))
    {
        Model::Set
    } else {
        return None;
    })
}

/// Whether a read has seen something that is so. Only reads count: many clients answer other
/// operations with what they were called with.
fn was_read(operations: &[&Operation], is: fn(&Value) -> bool) -> bool {
    operations
        .iter()
        .filter(|one| READS.contains(&one.f.as_str()) && one.outcome == Outcome::Ok)
        .any(|one| is(&one.result))
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
