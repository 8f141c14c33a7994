//! A counter.

use super::Refused;
use crate::linear::Sequential;
use crate::{Operation, Outcome, Value};

/// A whole number that is added to.
pub(crate) struct Counter {
    pub(crate) initial: i64,
}

/// What was done with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// It was this.
    Read(i64),
    /// So much was added.
    Add(i64),
    /// So much was added, and then it was the second.
    AddAndGet(i64, i64),
}

pub(crate) const WORDS: &[&str] = &["read", "get", "add", "inc", "increment", "dec", "decrement"];

/// Whether it is one that adds.
pub(crate) fn is_added(operation: &Operation) -> bool {
    !["read", "get"].contains(&operation.f.as_str())
}

/// Whether the answers to what was added to one counter may all be marks that it was: 1, 0, or what was
/// added. Where one of them is another number, they are what the counter was then.
pub(crate) fn may_be_marks<'a>(operations: impl Iterator<Item = &'a Operation>) -> bool {
    let mut answered = operations
        .filter(|one| is_added(one) && one.outcome == Outcome::Ok && !one.result.is_null());
    let is_mark = |one: &Operation| match (&one.result, added(one)) {
        (Value::Int(0 | 1), _) => true,
        (result, Ok(Some(amount))) => *result == Value::Int(amount) || *result == one.argument,
        _ => false,
    };
    answered.all(is_mark)
}

/// What is added by an operation, if it is one that adds.
pub(crate) fn added(operation: &Operation) -> Result<Option<i64>, Refused> {
    let sign = match operation.f.as_str() {
        "add" | "inc" | "increment" => 1,
        "dec" | "decrement" => -1,
        "read" | "get" => return Ok(None),
        _ => return Err(Refused::unknown(operation, WORDS)),
    };
    match operation.argument {
        Value::Null => Ok(Some(sign)),
        Value::Int(amount) => Ok(Some(sign * amount)),
        _ => Err(Refused::value(operation, "a whole number")),
    }
}

/// What an operation did, if it did or saw anything.
pub(crate) fn call(operation: &Operation) -> Result<Option<Call>, Refused> {
    let added = added(operation)?;
    let Operation {
        outcome,
        result,
        argument,
        ..
    } = operation;
    Ok(match (added, outcome) {
        (_, Outcome::Fail) | (None, Outcome::Unknown) => None,
        // Jepsen's clients answer with what they were asked to add.
        (Some(added), Outcome::Ok) if !result.is_null() && result != argument => {
            let after = result
                .as_int()
                .ok_or_else(|| Refused::value(operation, "a whole number"))?;
            Some(Call::AddAndGet(added, after))
        }
        (Some(added), _) => Some(Call::Add(added)),
        (None, Outcome::Ok) => {
            let read = result
                .as_int()
                .ok_or_else(|| Refused::value(operation, "a whole number"))?;
            Some(Call::Read(read))
        }
    })
}

impl Sequential for Counter {
    type State = i64;
    type Call = Call;

    fn initial(&self) -> i64 {
        self.initial
    }

    fn step(&self, state: &i64, call: &Call) -> Option<i64> {
        match *call {
            Call::Read(value) => (*state == value).then_some(value),
            Call::Add(amount) => state.checked_add(amount),
            Call::AddAndGet(amount, after) => state.checked_add(amount).filter(|sum| *sum == after),
        }
    }

    fn is_read(call: &Call) -> bool {
        matches!(call, Call::Read(_))
    }

    fn words(&self, state: &i64) -> String {
        state.to_string()
    }
}
