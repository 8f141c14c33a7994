//! Queues: first in, first out; or in any order.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::{Interner, Refused};
use crate::linear::{Sequential, Timed};
use crate::{Operation, Outcome, Value};

/// Elements that wait to be taken.
pub(crate) struct Queue {
    /// Whether the first one in is the first one out.
    is_fifo: bool,
    values: RefCell<Interner>,
}

/// What waits, and which of the operations that took something unknown have been placed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    elements: Vec<u32>,
    spent: Vec<usize>,
}

/// What was done with it. Elements are numbers of the interner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// This came in.
    Enqueue(u32),
    /// This was taken.
    Dequeue(u32),
    /// Something was taken: nobody knows what.
    DequeueAny,
    /// This was taken by the operation at this place, which took at most one thing.
    DequeueOnce(usize, u32),
    /// There was nothing.
    Empty,
}

pub(crate) const WORDS: &[&str] = &["enqueue", "send", "push", "dequeue", "receive", "pop"];
/// Those that put something in.
pub(crate) const IN: &[&str] = &["enqueue", "send", "push"];

impl Queue {
    pub(crate) fn new(is_fifo: bool) -> Self {
        let values = RefCell::default();
        Self { is_fifo, values }
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
        if !WORDS.contains(&f.as_str()) {
            return Err(Refused::unknown(operation, WORDS));
        }
        let number = |value| self.values.borrow_mut().number(value);
        Ok(match (IN.contains(&f.as_str()), outcome) {
            (_, Outcome::Fail) => None,
            // A dequeue that found nothing is answered with it.
            (true, _) if argument.is_null() => {
                return Err(Refused::argument(operation, "an element"));
            }
            (true, _) => Some(Call::Enqueue(number(argument))),
            (false, Outcome::Unknown) => Some(Call::DequeueAny),
            (false, Outcome::Ok) if result.is_null() => Some(Call::Empty),
            (false, Outcome::Ok) => Some(Call::Dequeue(number(result))),
        })
    }

    /// What may have taken any element of a bag, as operations that took a certain one. One that others are
    /// known to have taken as often as it can have been put in was not it.
    pub(crate) fn spread(&self, operations: Vec<Timed<Call>>) -> Vec<Timed<Call>> {
        if self.is_fifo {
            return operations;
        }
        let mut left: BTreeMap<u32, isize> = BTreeMap::new();
        for one in &operations {
            match one.call {
                Call::Enqueue(element) => *left.entry(element).or_default() += 1,
                Call::Dequeue(element) => *left.entry(element).or_default() -= 1,
                _ => {}
            }
        }
        left.retain(|_, count| *count > 0);
        let mut spread = Vec::with_capacity(operations.len());
        for one in operations {
            if one.call == Call::DequeueAny {
                spread.extend(left.keys().map(|&element| Timed {
                    call: Call::DequeueOnce(one.operation, element),
                    ..one
                }));
            } else {
                spread.push(one);
            }
        }
        spread
    }
}

impl Sequential for Queue {
    type State = Waiting;
    type Call = Call;

    fn initial(&self) -> Waiting {
        Waiting {
            elements: Vec::new(),
            spent: Vec::new(),
        }
    }

    fn step(&self, state: &Waiting, call: &Call) -> Option<Waiting> {
        let elements = &state.elements;
        let take = |element: u32| {
            let place = elements.iter().position(|&other| other == element)?;
            (place == 0 || !self.is_fifo).then_some(place)
        };
        let taken = match *call {
            Call::Enqueue(element) => {
                let mut state = state.clone();
                let place = if self.is_fifo {
                    elements.len()
                } else {
                    elements.partition_point(|&other| other <= element)
                };
                state.elements.insert(place, element);
                return Some(state);
            }
            Call::Empty => return elements.is_empty().then(|| state.clone()),
            Call::Dequeue(element) => take(element)?,
            Call::DequeueAny if elements.is_empty() => return None,
            Call::DequeueAny => 0,
            Call::DequeueOnce(operation, element) => {
                if state.spent.contains(&operation) {
                    return None;
                }
                take(element)?
            }
        };
        let mut state = state.clone();
        state.elements.remove(taken);
        if let Call::DequeueOnce(operation, _) = *call {
            let place = state.spent.partition_point(|&other| other < operation);
            state.spent.insert(place, operation);
        }
        Some(state)
    }

    fn is_read(call: &Call) -> bool {
        *call == Call::Empty
    }

    fn heap_bytes(state: &Waiting) -> usize {
        size_of_val(state.elements.as_slice()) + size_of_val(state.spent.as_slice())
    }

    fn words(&self, state: &Waiting) -> String {
        let values = self.values.borrow();
        let elements = state.elements.iter().map(|&one| values.value(one).clone());
        Value::List(elements.collect()).to_string()
    }
}
