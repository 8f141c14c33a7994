//! Circles in the graph of dependencies, by what they are made of.

use std::fmt::Write as _;

use super::graph::{Because, Edge, Graph};
use super::{Inferred, Transaction, words};
use crate::{Anomaly, Consistency, Failure, History};

use Because::{Process, ReadWrite, RealTime, Unseen, WriteRead, WriteWrite};

/// So many dependencies are tried in one set of transactions that depend on each other.
const TRIES_MAX: usize = 2_000;

/// A sort of circle: a step that is in it, the reasons of all other steps, and whether reads that did
/// not see something may be next to each other.
struct Sort {
    failure: Failure,
    step: Because,
    others: &'static [Because],
    apart: bool,
}

const SORTS: [Sort; 5] = [
    Sort {
        failure: Failure::G0,
        step: WriteWrite,
        others: &[WriteWrite],
        apart: false,
    },
    Sort {
        failure: Failure::G1c,
        step: WriteRead,
        others: &[WriteWrite, WriteRead],
        apart: false,
    },
    Sort {
        failure: Failure::GSingle,
        step: ReadWrite,
        others: &[WriteWrite, WriteRead],
        apart: false,
    },
    Sort {
        failure: Failure::GNonadjacent,
        step: ReadWrite,
        others: &[WriteWrite, WriteRead, ReadWrite],
        apart: true,
    },
    Sort {
        failure: Failure::G2,
        step: ReadWrite,
        others: &[WriteWrite, WriteRead, ReadWrite],
        apart: false,
    },
];

/// The worst circle of each set of transactions that depend on each other: without times first, then
/// with the order of each client, then with the clock.
pub(super) fn find(
    history: &History,
    transactions: &[Transaction<'_>],
    inferred: &mut Inferred,
    consistency: Consistency,
) -> (Vec<Anomaly>, Vec<String>) {
    let graph = &mut inferred.graph;
    let layers: &[&[Because]] = match consistency {
        Consistency::StrictSerializable => &[&[], &[Process], &[Process, RealTime]],
        Consistency::StrongSessionSerializable => &[&[], &[Process]],
        _ => &[&[]],
    };
    if layers.len() > 1 {
        graph.add_times(transactions, layers.len() > 2);
    }
    let mut search = Search {
        history,
        transactions,
        is_told: vec![false; graph.edges.len()],
        graph,
        found: Vec::new(),
        undecided: Vec::new(),
    };
    for (layer, times) in layers.iter().enumerate() {
        if times.contains(&RealTime) {
            search.graph.add_all(std::mem::take(&mut inferred.by_clock));
        }
        for sort in &SORTS {
            search.look_for(sort, layer, times);
        }
    }
    (search.found, search.undecided)
}

struct Search<'a> {
    history: &'a History,
    transactions: &'a [Transaction<'a>],
    graph: &'a mut Graph,
    /// The transactions that are in a circle which was found.
    is_told: Vec<bool>,
    found: Vec<Anomaly>,
    undecided: Vec<String>,
}

impl Search<'_> {
    /// The circles of a sort, in a layer, which adds these reasons.
    fn look_for(&mut self, sort: &Sort, layer: usize, times: &[Because]) {
        let others = sort.others.iter().chain(times).chain(&[Unseen]);
        let others: Vec<_> = others.copied().collect();
        let all: Vec<_> = others.iter().copied().chain([sort.step]).collect();
        for component in self.graph.components(&all) {
            // Worse ones were looked for first; the same ones are not told again.
            if component.iter().any(|&at| self.is_told[at]) {
                continue;
            }
            match circle(&*self.graph, &component, sort, &others) {
                Ok(Some(way)) => {
                    self.found.push(self.anomaly(sort.failure, layer, &way));
                    for (at, _) in way {
                        self.is_told[at] = true;
                    }
                }
                Ok(None) => {}
                Err(tries) => {
                    let is_transaction = |at: &&usize| **at < self.transactions.len();
                    let count = component.iter().filter(is_transaction).count();
                    self.undecided.push(format!(
                        "whether {count} transactions that depend on each other show {}: {tries} dependencies were tried",
                        sort.failure.name()
                    ));
                }
            }
        }
    }

    fn anomaly(&self, failure: Failure, layer: usize, way: &[(usize, usize)]) -> Anomaly {
        let mut what = String::new();
        let way = self.graph.steps(way);
        for (number, (at, _)) in way.iter().enumerate() {
            let words = words(self.history, &self.transactions[*at]);
            let _ = write!(what, "T{} = {words}; ", number + 1);
        }
        let steps: Vec<_> = way
            .iter()
            .enumerate()
            .map(|(number, (_, edge))| {
                let (first, second) = (number + 1, (number + 1) % way.len() + 1);
                let why = why(edge, first, second);
                format!("T{first} is before T{second}: {why}")
            })
            .collect();
        what += &steps.join("; ");
        what += ", which is a contradiction";
        let mut operations: Vec<_> = way
            .iter()
            .map(|(at, _)| self.transactions[*at].place)
            .collect();
        operations.sort_unstable();
        let kind = match layer {
            0 => failure,
            1 => Failure::Sessions,
            _ => Failure::RealTime,
        };
        if layer > 0 {
            what = format!("{} with it: {what}", failure.name());
        }
        Anomaly::new(kind, None, what, operations)
    }
}

/// Why the transaction with one number is before that with another, in words.
fn why(edge: &Edge, first: usize, second: usize) -> String {
    match (edge.because, &edge.of) {
        (WriteWrite, Some((key, old, new))) => {
            format!("T{second} wrote {new} to {key} after T{first}'s {old}")
        }
        (WriteRead, Some((key, value, _))) => {
            format!("T{second} read T{first}'s {value} of {key}")
        }
        (ReadWrite | Unseen, Some((key, _, new))) => {
            format!("T{first} did not see T{second}'s {new} of {key}")
        }
        (Process, _) => format!("one client did T{first}, then T{second}"),
        _ => format!("T{first} had ended before T{second} was called"),
    }
}

type Way = Vec<(usize, usize)>;

/// A circle of a sort in a set; or how many tries there were, if these were too many.
fn circle(
    graph: &Graph,
    component: &[usize],
    sort: &Sort,
    others: &[Because],
) -> Result<Option<Way>, usize> {
    let mut within = vec![false; graph.edges.len()];
    for &at in component {
        within[at] = true;
    }
    let mut tries = 0;
    let mut best: Option<Way> = None;
    for &from in component {
        for (number, edge) in graph.edges[from].iter().enumerate() {
            if edge.because != sort.step || !within[edge.to] {
                continue;
            }
            tries += 1;
            if tries > TRIES_MAX {
                return best.map(Some).ok_or(tries);
            }
            let Some(back) = graph.way(edge.to, from, &within, others, sort.apart) else {
                continue;
            };
            let way: Way = [(from, number)].into_iter().chain(back).collect();
            let length = |way: &Way| graph.steps(way).len();
            let is_two = length(&way) == 2;
            if best.as_ref().is_none_or(|best| length(&way) < length(best)) {
                best = Some(way);
            }
            if is_two {
                return Ok(best);
            }
        }
    }
    Ok(best)
}
