//! A position in the enumeration: goes to any workload, and cheaply to one of the next.

use crate::choice::Choice;
use crate::graph::{Graph, StateId, Weights};
use crate::index::Index;
use crate::menu::{Persist, bits};
use crate::paths::PathId;

/// How many sets of parameters are stepped over before the position is computed anew.
const STEPS_MAX: usize = 64;

/// A position in the enumeration. A *block* is the workloads that differ only in their
/// persistence operations.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    index: &'a Index,
    skeleton: usize,
    operations: Vec<usize>,
    choices: Vec<usize>,
    /// The state before each operation, and after the last.
    states: Vec<StateId>,
    /// Of this skeleton.
    weights: Weights,
    names: Vec<PathId>,
    block_start: u64,
    block_end: u64,
    persists: Vec<Persist>,
}

impl<'a> Cursor<'a> {
    /// At the first workload.
    pub(crate) fn new(index: &'a Index) -> Self {
        let mut cursor = Cursor {
            index,
            skeleton: 0,
            operations: vec![0; index.ops],
            choices: vec![0; index.ops],
            states: vec![Graph::START; index.ops + 1],
            weights: Weights::new(),
            names: Vec::new(),
            block_start: 0,
            block_end: 0,
            persists: Vec::new(),
        };
        cursor.address(0);
        cursor
    }

    /// Goes to workload `index`, which must exist.
    pub(crate) fn go_to(&mut self, index: u64) {
        assert!(
            index < self.index.len(),
            "workload {index} of {}",
            self.index.len()
        );
        let mut steps = 0;
        while index >= self.block_end && steps < STEPS_MAX && self.next_block() {
            steps += 1;
        }
        if index < self.block_start || index >= self.block_end {
            self.address(index);
        }
        self.index
            .menu
            .permutation(&self.names, index - self.block_start, &mut self.persists);
    }

    /// The operations of the workload, each with what persists after it.
    pub(crate) fn plan(&self) -> impl Iterator<Item = (&'a Choice, Persist)> {
        let choices = self.operations.iter().zip(&self.choices);
        let choices = choices.map(|(&operation, &choice)| &self.index.choices[operation][choice]);
        choices.zip(self.persists.iter().copied())
    }

    fn address(&mut self, index: u64) {
        let skeleton = self.index.skeleton_of(index);
        if skeleton != self.skeleton || self.weights.is_empty() {
            self.skeleton = skeleton;
            self.index.operations_of(skeleton, &mut self.operations);
            self.weights = self.index.graph.weights(&self.operations);
        }
        let mut rest = index - self.index.start_of(skeleton);
        for position in 0..self.operations.len() {
            rest = self.choose(position, rest);
        }
        self.enter_block(index - rest);
    }

    /// Finds the parameter of the operation at `position` that workload `rest` of the
    /// remaining ones has, and how far after the first with that parameter it is.
    fn choose(&mut self, position: usize, mut rest: u64) -> u64 {
        for choice in 0..self.choices_at(position) {
            let Some(next) = self.step(position, choice) else {
                continue;
            };
            let count = self.weights[position + 1][next as usize];
            if rest < count {
                self.choices[position] = choice;
                self.states[position + 1] = next;
                return rest;
            }
            rest -= count;
        }
        unreachable!("the table of skeletons counts what the parameters allow")
    }

    fn choices_at(&self, position: usize) -> usize {
        self.index.choices[self.operations[position]].len()
    }

    fn step(&self, position: usize, choice: usize) -> Option<StateId> {
        self.index.graph.step(
            position,
            self.states[position],
            self.operations[position],
            choice,
        )
    }

    fn enter_block(&mut self, start: u64) {
        let last = self.states[self.operations.len()];
        self.names.clear();
        self.names
            .extend(bits(self.index.menu.names(self.index.graph.used(last))));
        self.block_start = start;
        self.block_end = start + self.index.graph.permutations(last);
    }

    /// Goes to the first workload of the next block, if there is one.
    fn next_block(&mut self) -> bool {
        let start = self.block_end;
        if start >= self.index.len() {
            return false;
        }
        if start >= self.index.start_of(self.skeleton + 1) {
            self.address(start);
        } else {
            self.next_choices();
            self.enter_block(start);
        }
        true
    }

    /// Goes to the next parameters of the same skeleton, of which there are some.
    fn next_choices(&mut self) {
        let mut position = self.operations.len() - 1;
        let mut choice = self.choices[position] + 1;
        loop {
            if choice == self.choices_at(position) {
                position -= 1;
                choice = self.choices[position] + 1;
                continue;
            }
            let Some(next) = self.step(position, choice) else {
                choice += 1;
                continue;
            };
            self.choices[position] = choice;
            self.states[position + 1] = next;
            position += 1;
            if position == self.operations.len() {
                return;
            }
            choice = 0;
        }
    }
}
