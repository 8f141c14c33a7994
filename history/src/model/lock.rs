//! A lock, and a semaphore, which several may hold.

use super::Refused;
use crate::linear::Sequential;
use crate::{Operation, Outcome, Value};

/// Who holds it, sorted, and each as often as it does.
pub(crate) struct Semaphore {
    /// So many can.
    pub(crate) permits: usize,
}

/// What was done with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// It is held by this one as well.
    Acquire(Value),
    /// This one held it, and does no more.
    Release(Value),
}

pub(crate) const WORDS: &[&str] = &["acquire", "lock", "release", "unlock"];
/// Those that take it.
pub(crate) const ACQUIRE: &[&str] = &["acquire", "lock"];

/// Who acquires or releases: whom the client names, or the client itself.
pub(crate) fn holder(operation: &Operation) -> Value {
    if operation.argument.is_null() {
        Value::Int(operation.process as i64)
    } else {
        operation.argument.clone()
    }
}

/// What an operation did, if it did anything: an answer of `false` is a refusal.
pub(crate) fn call(operation: &Operation) -> Result<Option<Call>, Refused> {
    if operation.outcome == Outcome::Fail || operation.result == Value::Bool(false) {
        return Ok(None);
    }
    match operation.f.as_str() {
        "acquire" | "lock" => Ok(Some(Call::Acquire(holder(operation)))),
        "release" | "unlock" => Ok(Some(Call::Release(holder(operation)))),
        _ => Err(Refused::unknown(operation, WORDS)),
    }
}

impl Sequential for Semaphore {
    type State = Vec<Value>;
    type Call = Call;

    fn initial(&self) -> Vec<Value> {
        Vec::new()
    }

    fn step(&self, state: &Vec<Value>, call: &Call) -> Option<Vec<Value>> {
        match call {
            Call::Acquire(who) => (state.len() < self.permits).then(|| {
                let mut state = state.clone();
                let place = state.binary_search(who).unwrap_or_else(|place| place);
                state.insert(place, who.clone());
                state
            }),
            Call::Release(who) => state.binary_search(who).ok().map(|place| {
                let mut state = state.clone();
                state.remove(place);
                state
            }),
        }
    }

    fn is_read(_: &Call) -> bool {
        false
    }

    fn heap_bytes(state: &Vec<Value>) -> usize {
        size_of_val(state.as_slice())
    }

    fn words(&self, state: &Vec<Value>) -> String {
        if state.is_empty() {
            return "free".to_owned();
        }
        let holders: Vec<_> = state.iter().map(ToString::to_string).collect();
        format!("held by {}", holders.join(", "))
    }
}
