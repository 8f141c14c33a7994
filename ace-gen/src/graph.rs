//! What the parameters chosen so far mean for those that follow, as a graph: one level for
//! each position in a workload, one node for each set of used names that is possible there.
//! Parameters that lead from everywhere to the same node are one *class*.

use std::collections::HashMap;

use crate::bounds::{Bounds, BoundsError, Reuse};
use crate::choice::Choice;
use crate::menu::Menu;
use crate::paths::PathTable;

/// More edges than this are not stored.
const EDGES_MAX: usize = 1 << 23;

/// The parameters up to a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    used: u64,
    /// Only of interest where the bounds are.
    all_append: bool,
}

/// Parameters that the bounds do not tell apart.
#[derive(Debug, Clone, Copy)]
struct Class {
    operation: usize,
    names: u64,
    on_dir: bool,
    appends: bool,
    choices: u64,
}

/// The number of a state in its level.
pub(crate) type StateId = u32;

const NO_STATE: StateId = StateId::MAX;

#[derive(Debug, Clone)]
struct Level {
    states: Vec<State>,
    /// The state in the next level, by state and class.
    next: Vec<StateId>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    rules: Rules,
    classes: Vec<Class>,
    /// The class of each parameter of each operation.
    class_of: Vec<Vec<usize>>,
    levels: Vec<Level>,
    /// How many permutations of persistence operations each state of the last level has.
    permutations: Vec<u64>,
}

/// How many workloads continue each state of each level, for the operations of one skeleton.
pub(crate) type Weights = Vec<Vec<u64>>;

impl Graph {
    /// The state of a workload without operations.
    pub(crate) const START: StateId = 0;

    pub(crate) fn new(
        bounds: &Bounds,
        paths: &PathTable,
        menu: &Menu,
        choices: &[Vec<Choice>],
    ) -> Result<Self, BoundsError> {
        let start = Level {
            states: vec![State {
                used: 0,
                all_append: bounds.append_first,
            }],
            next: Vec::new(),
        };
        let mut graph = Graph {
            rules: Rules::new(bounds, paths),
            classes: Vec::new(),
            class_of: Vec::new(),
            levels: vec![start],
            permutations: Vec::new(),
        };
        for (operation, list) in choices.iter().enumerate() {
            let classes = list
                .iter()
                .map(|choice| graph.classify(operation, choice))
                .collect();
            graph.class_of.push(classes);
        }
        for position in 0..bounds.ops {
            graph.add_level(position)?;
        }
        let last = graph.levels[bounds.ops].states.iter();
        let permutations: Result<_, _> = last
            .map(|state| u64::try_from(menu.permutations(state.used)))
            .collect();
        graph.permutations = permutations.map_err(|_| BoundsError::TooMany)?;
        Ok(graph)
    }

    fn classify(&mut self, operation: usize, choice: &Choice) -> usize {
        let (names, appends) = (choice.names(), self.rules.append_first && choice.appends());
        let same = |class: &Class| {
            (class.operation, class.names, class.appends) == (operation, names, appends)
        };
        let class = self.classes.iter().position(same).unwrap_or_else(|| {
            let on_dir = names & self.rules.dirs != 0;
            self.classes.push(Class {
                operation,
                names,
                on_dir,
                appends,
                choices: 0,
            });
            self.classes.len() - 1
        });
        self.classes[class].choices += 1;
        class
    }

    fn add_level(&mut self, position: usize) -> Result<(), BoundsError> {
        let level = &mut self.levels[position];
        if level.states.len() * self.classes.len() > EDGES_MAX {
            return Err(BoundsError::TooMany);
        }
        let mut ids = HashMap::new();
        let mut states = Vec::new();
        for &state in &level.states {
            for class in &self.classes {
                let next = self.rules.step(position, state, class).map(|next| {
                    *ids.entry(next).or_insert_with(|| {
                        states.push(next);
                        states.len() as StateId - 1
                    })
                });
                level.next.push(next.unwrap_or(NO_STATE));
            }
        }
        self.levels.push(Level {
            states,
            next: Vec::new(),
        });
        Ok(())
    }

    /// The names that are used in a state after the last operation.
    pub(crate) fn used(&self, last: StateId) -> u64 {
        self.levels[self.levels.len() - 1].states[last as usize].used
    }

    /// How many permutations of persistence operations a state after the last operation has.
    pub(crate) fn permutations(&self, last: StateId) -> u64 {
        self.permutations[last as usize]
    }

    /// The state after parameter `choice` of `operation` at `position`, if the bounds allow it.
    pub(crate) fn step(
        &self,
        position: usize,
        state: StateId,
        operation: usize,
        choice: usize,
    ) -> Option<StateId> {
        self.step_class(position, state, self.class_of[operation][choice])
    }

    fn step_class(&self, position: usize, state: StateId, class: usize) -> Option<StateId> {
        let next = self.levels[position].next[state as usize * self.classes.len() + class];
        (next != NO_STATE).then_some(next)
    }

    /// The weights of one skeleton, level by level.
    pub(crate) fn weights(&self, skeleton: &[usize]) -> Weights {
        let mut levels = vec![self.permutations.clone()];
        for (position, &operation) in skeleton.iter().enumerate().rev() {
            let before = self.weights_before(position, operation, &levels[levels.len() - 1]);
            levels.push(before.expect("the sum over all skeletons fits"));
        }
        levels.reverse();
        levels
    }

    /// The weights at `position` where `operation` is there and `after` are those after it.
    /// `None` if they do not fit.
    pub(crate) fn weights_before(
        &self,
        position: usize,
        operation: usize,
        after: &[u64],
    ) -> Option<Vec<u64>> {
        let classes: Vec<_> = (0..self.classes.len())
            .filter(|&id| self.classes[id].operation == operation)
            .collect();
        let weight = |state: StateId| {
            classes.iter().try_fold(0_u64, |sum, &class| {
                let next = self.step_class(position, state, class);
                let continuations = next.map_or(0, |next| after[next as usize]);
                sum.checked_add(self.classes[class].choices.checked_mul(continuations)?)
            })
        };
        (0..self.levels[position].states.len() as StateId)
            .map(weight)
            .collect()
    }

    /// The weights after the last operation.
    pub(crate) fn weights_behind(&self) -> &[u64] {
        &self.permutations
    }
}

/// The rules by which ACE leaves out sequences of parameters.
#[derive(Debug, Clone)]
struct Rules {
    ops: usize,
    dirs: u64,
    reuse: Reuse,
    append_first: bool,
}

impl Rules {
    fn new(bounds: &Bounds, paths: &PathTable) -> Self {
        let dirs = (0..paths.named()).filter(|&path| paths.is_dir(path));
        Rules {
            ops: bounds.ops,
            dirs: dirs.fold(0, |set, path| set | 1 << path),
            reuse: bounds.reuse,
            append_first: bounds.append_first,
        }
    }

    fn step(&self, position: usize, state: State, class: &Class) -> Option<State> {
        let all_append = state.all_append && class.appends;
        let allowed = self.overlaps(position, state, class) && self.appends(position, all_append);
        allowed.then_some(State {
            used: state.used | class.names,
            all_append,
        })
    }

    fn overlaps(&self, position: usize, state: State, class: &Class) -> bool {
        let after_two_dirs = state.used.count_ones() == 2 && state.used & !self.dirs == 0;
        position == 0
            || self.reuse == Reuse::Any
            || class.names & state.used != 0
            || class.on_dir
            || after_two_dirs
    }

    fn appends(&self, position: usize, all_append: bool) -> bool {
        let first_does_not = position == 0 && !all_append;
        let all_do = position + 1 == self.ops && all_append;
        !self.append_first || !(first_does_not || all_do)
    }
}
