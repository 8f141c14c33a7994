//! Linearizability: whether each operation can be taken as done at one moment between its call and
//! its return, such that together they do what one object would do (Herlihy and Wing 1990).
//!
//! Each object is looked at alone, which is enough (locality). Two ways lead to an answer:
//! [`unique`], for registers to which no value is written twice, which takes about as long as
//! sorting, and [`search`], for everything.

mod ahead;
mod hash;
mod list;
pub(crate) mod search;
mod unique;

use std::hash::Hash;
use std::time::Instant;

pub(crate) use self::unique::unique;
use crate::Operation;

/// An object that does one thing after the other.
pub(crate) trait Sequential {
    /// What it is between two operations.
    type State: Clone + Eq + Hash;
    /// An operation with its result. Equal ones can stand for each other.
    type Call: Clone + Eq + Hash;

    /// What it is at first.
    fn initial(&self) -> Self::State;
    /// What the operation leaves, or nothing if it cannot have had its result here.
    fn step(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;
    /// Whether the operation never leaves anything else than was there.
    fn is_read(call: &Self::Call) -> bool;
    /// Whether a read can fit after this state without any other operation that
    /// [`Sequential::produces`] for it. Only operations of which [`Sequential::is_read`] are asked
    /// for.
    fn reaches(&self, _state: &Self::State, _read: &Self::Call) -> bool {
        true
    }
    /// Whether an operation can leave something from which a read is reached, whatever was there.
    fn produces(&self, _call: &Self::Call, _read: &Self::Call) -> bool {
        true
    }
    /// How many bytes a state takes besides its own size, about.
    fn heap_bytes(_state: &Self::State) -> usize {
        0
    }
    /// The state in words.
    fn words(&self, state: &Self::State) -> String;
}

/// An operation as the search sees it.
#[derive(Debug, Clone)]
pub(crate) struct Timed<C> {
    /// Its place in [`crate::History::operations`].
    pub(crate) operation: usize,
    /// Where it was called.
    pub(crate) call_at: usize,
    /// Where it had ended, or [`NEVER`].
    pub(crate) return_at: usize,
    /// What it did.
    pub(crate) call: C,
}

/// Where an operation ends whose outcome is unknown. It may be left out of an order.
pub(crate) const NEVER: usize = usize::MAX;

impl<C> Timed<C> {
    pub(crate) fn new(place: usize, operation: &Operation, call: C) -> Self {
        Self {
            operation: place,
            call_at: operation.call,
            return_at: operation.returned().unwrap_or(NEVER),
            call,
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.return_at != NEVER
    }
}

/// What came of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linear {
    /// This order of its operations explains what all clients saw.
    Linearizable(Vec<usize>),
    /// No order does.
    Not {
        /// An order of as many operations as could be placed.
        longest: Vec<usize>,
        /// After these, the operation that returned next, and cannot be placed.
        stuck: usize,
    },
    /// Time or memory was over.
    Undecided {
        /// An order of as many operations as were placed.
        longest: Vec<usize>,
    },
}

impl Linear {
    /// The longest order that was found.
    pub fn order(&self) -> &[usize] {
        match self {
            Self::Linearizable(order) => order,
            Self::Not { longest, .. } | Self::Undecided { longest } => longest,
        }
    }
}

/// How long a search may take, and how much it may remember.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// When it ends. Never, if it is nothing.
    pub deadline: Option<Instant>,
    /// The bytes of the states that it remembers, about.
    pub memory_bytes: usize,
}

impl Limits {
    /// Of memory, if nothing else is said.
    pub const MEMORY_BYTES: usize = 1 << 30;

    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|end| Instant::now() >= end)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline: None,
            memory_bytes: Self::MEMORY_BYTES,
        }
    }
}

/// Whether an order is one that the object and the clock allow: each step is possible, everything
/// whose end is known is in it, and nothing is before what had ended before its call.
pub(crate) fn is_valid<S: Sequential>(
    object: &S,
    operations: &[Timed<S::Call>],
    order: &[usize],
) -> bool {
    let mut state = object.initial();
    let mut placed = vec![false; operations.len()];
    let mut latest_call = 0;
    for &at in order {
        let operation = &operations[at];
        let Some(next) = object.step(&state, &operation.call) else {
            return false;
        };
        if placed[at] || operation.return_at < latest_call {
            return false;
        }
        placed[at] = true;
        latest_call = latest_call.max(operation.call_at);
        state = next;
    }
    let missing = |at: usize| !placed[at] && operations[at].is_known();
    !(0..operations.len()).any(missing)
}
