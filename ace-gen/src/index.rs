//! Phases 1 to 3 of ACE counted and addressed: workload i without those before it.
//!
//! The order is that of nested loops: skeleton, parameters, persistence operations; in each of
//! them the last operation varies fastest. A table holds the number of the first workload of
//! each skeleton. It is filled from the ends of the skeletons, so that skeletons that end
//! alike share their work.

use crate::bounds::{Bounds, BoundsError};
use crate::choice::Choice;
use crate::graph::Graph;
use crate::menu::Menu;
use crate::operation::Operation;
use crate::paths::PathTable;

/// More skeletons than this are not tabulated.
const SKELETONS_MAX: u64 = 1 << 22;

/// Knows where in the enumeration each skeleton begins.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub(crate) ops: usize,
    /// The parameters of each operation.
    pub(crate) choices: Vec<Vec<Choice>>,
    pub(crate) menu: Menu,
    pub(crate) graph: Graph,
    /// The first workload of each skeleton, then the number of all.
    starts: Vec<u64>,
}

impl Index {
    pub(crate) fn new(
        bounds: &Bounds,
        paths: &PathTable,
        choices: Vec<Vec<Choice>>,
    ) -> Result<Self, BoundsError> {
        let skeletons = (choices.len() as u64).checked_pow(bounds.ops as u32);
        let skeletons = skeletons
            .filter(|&count| count <= SKELETONS_MAX)
            .ok_or(BoundsError::TooMany)?;
        let menu = Menu::new(bounds, paths)?;
        let graph = Graph::new(bounds, paths, &menu, &choices)?;
        let mut index = Index {
            ops: bounds.ops,
            choices,
            menu,
            graph,
            starts: Vec::new(),
        };
        let mut totals = vec![0; skeletons as usize];
        index.count(
            bounds.ops - 1,
            index.graph.weights_behind(),
            0,
            1,
            &mut totals,
        )?;
        if bounds.skip_all_write {
            index.skip_all_write(bounds, &mut totals);
        }
        index.starts = prefix_sums(&totals)?;
        if index.len() == 0 {
            return Err(BoundsError::Empty(
                "no parameters fit the operations and names",
            ));
        }
        Ok(index)
    }

    /// Counts the skeletons whose operations after `position` are those of `suffix`, a
    /// number in base `choices.len()` that is below `base`. `after` are their weights.
    fn count(
        &self,
        position: usize,
        after: &[u64],
        suffix: usize,
        base: usize,
        totals: &mut [u64],
    ) -> Result<(), BoundsError> {
        for operation in 0..self.choices.len() {
            let weights = self
                .graph
                .weights_before(position, operation, after)
                .ok_or(BoundsError::TooMany)?;
            let suffix = operation * base + suffix;
            if position == 0 {
                totals[suffix] = weights[Graph::START as usize];
            } else {
                self.count(
                    position - 1,
                    &weights,
                    suffix,
                    base * self.choices.len(),
                    totals,
                )?;
            }
        }
        Ok(())
    }

    fn skip_all_write(&self, bounds: &Bounds, totals: &mut [u64]) {
        let Some(write) = bounds
            .operations
            .iter()
            .position(|operation| *operation == Operation::Write)
        else {
            return;
        };
        let skeleton = (0..self.ops).fold(0, |number, _| number * self.choices.len() + write);
        totals[skeleton] = 0;
    }

    /// How many workloads there are.
    pub(crate) fn len(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// The number of the first workload of a skeleton.
    pub(crate) fn start_of(&self, skeleton: usize) -> u64 {
        self.starts[skeleton]
    }

    /// The skeleton that workload `index` has.
    pub(crate) fn skeleton_of(&self, index: u64) -> usize {
        self.starts.partition_point(|&start| start <= index) - 1
    }

    /// The operations of a skeleton, as positions in the list of operations.
    pub(crate) fn operations_of(&self, skeleton: usize, out: &mut [usize]) {
        let mut rest = skeleton;
        for slot in out.iter_mut().rev() {
            *slot = rest % self.choices.len();
            rest /= self.choices.len();
        }
    }
}

fn prefix_sums(totals: &[u64]) -> Result<Vec<u64>, BoundsError> {
    let mut sums = Vec::with_capacity(totals.len() + 1);
    let mut sum = 0_u64;
    sums.push(sum);
    for total in totals {
        sum = sum.checked_add(*total).ok_or(BoundsError::TooMany)?;
        sums.push(sum);
    }
    Ok(sums)
}
