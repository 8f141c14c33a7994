//! Something that is read and written: a register, one with compare-and-set, a key of a map.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};

use super::{Interner, Refused, argument_pair};
use crate::linear::Sequential;
use crate::{Operation, Outcome, Value};

/// A register of values.
pub(crate) struct Register {
    values: RefCell<Interner>,
    appended: RefCell<HashMap<(u32, u32), u32>>,
    /// Whether anything is appended.
    is_longer: Cell<bool>,
    /// What was read or compared.
    observed: RefCell<BTreeSet<Value>>,
    initial: u32,
}

/// What was done with it. Values are numbers of the interner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// It was this.
    Read(u32),
    /// It was not this: a comparison failed.
    ReadNot(u32),
    /// It becomes this.
    Write(u32),
    /// It was the first, and becomes the second.
    Swap(u32, u32),
    /// This is added at its end.
    Append(u32),
}

/// A state that is none of the observed values, and that no appended value makes one of these.
const UNSEEN: u32 = u32::MAX;

/// Whether something appended to the beginning can make the whole.
fn starts_with(whole: &Value, beginning: &Value) -> bool {
    match (whole, beginning) {
        (Value::Text(whole), Value::Text(beginning)) => whole.starts_with(beginning.as_str()),
        (Value::List(whole), Value::List(beginning)) => whole.starts_with(beginning),
        (whole, beginning) => beginning.is_null() || whole == beginning,
    }
}

/// The operations that a register has.
pub(crate) const WORDS: &[&str] = &[
    "read", "get", "r", "write", "put", "set", "w", "cas", "append", "delete", "remove",
];

/// Those whose answers say what it was.
pub(crate) const OBSERVES: &[&str] = &["read", "get", "r", "cas"];

/// Whether anything was appended, or may have been.
pub(crate) fn is_longer<'a>(mut operations: impl Iterator<Item = &'a Operation>) -> bool {
    operations.any(|one| one.f == "append" && one.outcome != Outcome::Fail)
}

/// What a comparison did that was to set `new` where `old` is.
fn compared(operation: &Operation, old: u32, new: u32) -> Call {
    match (&operation.result, old == new) {
        (Value::Bool(false), _) => Call::ReadNot(old),
        (_, true) if operation.outcome == Outcome::Ok => Call::Read(old),
        _ => Call::Swap(old, new),
    }
}

impl Register {
    pub(crate) fn new(initial: &Value) -> Self {
        let mut values = Interner::default();
        let initial = values.number(initial);
        Self {
            values: RefCell::new(values),
            appended: RefCell::default(),
            is_longer: Cell::new(false),
            observed: RefCell::default(),
            initial,
        }
    }

    /// What an operation did, if it did or saw anything.
    pub(crate) fn call(&self, operation: &Operation) -> Result<Option<Call>, Refused> {
        let Operation {
            outcome,
            argument,
            result,
            ..
        } = operation;
        if *outcome == Outcome::Fail {
            return Ok(None);
        }
        let number = |value: &Value| self.values.borrow_mut().number(value);
        let observed = |value: &Value| {
            self.observed.borrow_mut().insert(value.clone());
            number(value)
        };
        Ok(match operation.f.as_str() {
            "read" | "get" | "r" => (*outcome == Outcome::Ok).then(|| Call::Read(observed(result))),
            "write" | "put" | "set" | "w" => Some(Call::Write(number(argument))),
            "delete" | "remove" => Some(Call::Write(number(&Value::Null))),
            "append" => {
                self.is_longer.set(true);
                Some(Call::Append(number(argument)))
            }
            "cas" => {
                let (old, new) = argument_pair(operation)?;
                Some(compared(operation, observed(old), number(new)))
            }
            _ => return Err(Refused::unknown(operation, WORDS)),
        })
    }

    /// Whether the initial value is this.
    pub(crate) fn initial_number(&self) -> u32 {
        self.initial
    }

    /// Whether something appended to the first can make the second.
    fn begins(&self, first: u32, second: u32) -> bool {
        if !self.is_longer.get() {
            return false;
        }
        let values = self.values.borrow();
        first != UNSEEN && starts_with(values.value(second), values.value(first))
    }

    /// What is appended to; [`UNSEEN`] if nobody saw it, nor anything that can become of it. One such
    /// value is as good as any other.
    fn append(&self, state: u32, more: u32) -> Option<u32> {
        if state == UNSEEN {
            return Some(UNSEEN);
        }
        if let Some(&known) = self.appended.borrow().get(&(state, more)) {
            return Some(known);
        }
        let mut values = self.values.borrow_mut();
        let together = match (values.value(state), values.value(more)) {
            (Value::Text(text), Value::Text(more)) => Value::Text(format!("{text}{more}")),
            (Value::List(elements), more) => {
                let mut elements = elements.clone();
                elements.push(more.clone());
                Value::List(elements)
            }
            (Value::Null, more) => self.first(more),
            _ => return None,
        };
        let together = if self.is_beginning(&together) {
            values.number(&together)
        } else {
            UNSEEN
        };
        self.appended.borrow_mut().insert((state, more), together);
        Some(together)
    }

    /// What is there after something was appended to nothing. A text makes a list only if such a list was
    /// observed, and no such text.
    fn first(&self, more: &Value) -> Value {
        let list = Value::List(vec![more.clone()]);
        let is_text = matches!(more, Value::Text(_));
        if is_text && (self.is_beginning(more) || !self.is_beginning(&list)) {
            return more.clone();
        }
        list
    }

    /// Whether something was observed that it is, or that can become of it.
    fn is_beginning(&self, value: &Value) -> bool {
        let observed = self.observed.borrow();
        let next = observed.range(value..).next();
        next.is_some_and(|next| starts_with(next, value))
    }
}

impl Sequential for Register {
    type State = u32;
    type Call = Call;

    fn initial(&self) -> u32 {
        self.initial
    }

    fn step(&self, state: &u32, call: &Call) -> Option<u32> {
        match *call {
            Call::Read(value) => (*state == value).then_some(value),
            Call::ReadNot(value) => (*state != value).then_some(*state),
            Call::Write(value) => Some(value),
            Call::Swap(old, new) => (*state == old).then_some(new),
            Call::Append(more) => self.append(*state, more),
        }
    }

    fn reaches(&self, state: &u32, read: &Call) -> bool {
        match *read {
            Call::Read(value) => *state == value || self.begins(*state, value),
            _ => true,
        }
    }

    fn produces(&self, call: &Call, read: &Call) -> bool {
        let (Call::Write(left) | Call::Swap(_, left), Call::Read(value)) = (*call, *read) else {
            return false;
        };
        left == value || self.begins(left, value)
    }

    fn is_read(call: &Call) -> bool {
        matches!(call, Call::Read(_) | Call::ReadNot(_))
    }

    fn words(&self, state: &u32) -> String {
        if *state == UNSEEN {
            return "what nobody saw".to_owned();
        }
        self.values.borrow().value(*state).to_string()
    }
}
