//! A set.

use std::cell::RefCell;

use super::{Interner, Refused};
use crate::linear::Sequential;
use crate::{Operation, Outcome, Value};

/// Elements, each of them once.
pub(crate) struct Set {
    values: RefCell<Interner>,
    initial: Vec<u32>,
}

/// What was done with it. Elements are numbers of the interner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// This is in it.
    Add(u32),
    /// This is in it no more.
    Remove(u32),
    /// It held these, sorted.
    Read(Vec<u32>),
    /// Whether it held this.
    Contains(u32, bool),
}

pub(crate) const WORDS: &[&str] = &["add", "remove", "read", "contains"];
/// Those whose answers say what is in it.
pub(crate) const OBSERVES: &[&str] = &["read", "contains"];

impl Set {
    pub(crate) fn new(initial: &Value) -> Self {
        let mut values = Interner::default();
        let initial = set(&mut values, initial.as_list().unwrap_or_default());
        let values = RefCell::new(values);
        Self { values, initial }
    }

    /// What an operation did, if it did or saw anything.
    pub(crate) fn call(&self, operation: &Operation) -> Result<Option<Call>, Refused> {
        let Operation {
            f,
            outcome,
            argument,
            result,
            ..
        } = operation;
        let number = |value| self.values.borrow_mut().number(value);
        Ok(match (f.as_str(), outcome) {
            ("add", Outcome::Ok | Outcome::Unknown) => Some(Call::Add(number(argument))),
            ("remove", Outcome::Ok | Outcome::Unknown) => Some(Call::Remove(number(argument))),
            ("read", Outcome::Ok) => {
                let elements = match result {
                    Value::Null => &[],
                    _ => result
                        .as_list()
                        .ok_or_else(|| Refused::value(operation, "a list"))?,
                };
                Some(Call::Read(set(&mut self.values.borrow_mut(), elements)))
            }
            ("contains", Outcome::Ok) => match result {
                Value::Bool(is) => Some(Call::Contains(number(argument), *is)),
                _ => return Err(Refused::value(operation, "true or false")),
            },
            (word, _) if WORDS.contains(&word) => None,
            _ => return Err(Refused::unknown(operation, WORDS)),
        })
    }
}

/// Elements as their numbers, sorted, each of them once.
fn set(values: &mut Interner, elements: &[Value]) -> Vec<u32> {
    let mut numbers: Vec<_> = elements.iter().map(|one| values.number(one)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

impl Sequential for Set {
    type State = Vec<u32>;
    type Call = Call;

    fn initial(&self) -> Vec<u32> {
        self.initial.clone()
    }

    fn step(&self, state: &Vec<u32>, call: &Call) -> Option<Vec<u32>> {
        match call {
            Call::Read(elements) => (state == elements).then(|| state.clone()),
            Call::Contains(element, is) => {
                (state.binary_search(element).is_ok() == *is).then(|| state.clone())
            }
            Call::Add(element) => {
                let mut state = state.clone();
                if let Err(place) = state.binary_search(element) {
                    state.insert(place, *element);
                }
                Some(state)
            }
            Call::Remove(element) => {
                let mut state = state.clone();
                if let Ok(place) = state.binary_search(element) {
                    state.remove(place);
                }
                Some(state)
            }
        }
    }

    fn is_read(call: &Call) -> bool {
        matches!(call, Call::Read(_) | Call::Contains(..))
    }

    fn heap_bytes(state: &Vec<u32>) -> usize {
        size_of_val(state.as_slice())
    }

    fn words(&self, state: &Vec<u32>) -> String {
        let values = self.values.borrow();
        let elements = state.iter().map(|&one| values.value(one).clone());
        Value::List(elements.collect()).to_string()
    }
}
