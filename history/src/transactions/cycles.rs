//! Circles in the graph of dependencies, by what they are made of.

use std::fmt::Write as _;

use super::graph::{Because, Graph};
use super::{Transaction, words};
use crate::{Anomaly, Consistency, Failure, History};

use Because::{Process, ReadWrite, RealTime, WriteRead, WriteWrite};

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
    graph: &mut Graph,
    consistency: Consistency,
) -> (Vec<Anomaly>, Vec<String>) {
    let layers: &[&[Because]] = match consistency {
        Consistency::StrictSerializable => &[&[], &[Process], &[Process, RealTime]],
        Consistency::StrongSessionSerializable => &[&[], &[Process]],
        _ => &[&[]],
    };
    if layers.len() > 1 {
        graph.add_times(transactions, layers.len() > 2);
    }
    let (mut found, mut undecided) = (Vec::new(), Vec::new());
    let mut is_told = vec![false; transactions.len()];
    for (layer, times) in layers.iter().enumerate() {
        for sort in &SORTS {
            let others: Vec<_> = sort.others.iter().chain(*times).copied().collect();
            let all: Vec<_> = others.iter().copied().chain([sort.step]).collect();
            for component in graph.components(&all) {
                let is_new = component.iter().all(|&at| !is_told[at]);
                if !is_new {
                    continue;
                }
                match circle(graph, &component, sort, &others) {
                    Ok(Some(way)) => {
                        found.push(anomaly(history, transactions, graph, sort.failure, layer, &way));
                        // Worse ones were looked for first; the same ones are not told again.
                        for (at, _) in way {
                            is_told[at] = true;
                        }
                    }
                    Ok(None) => {}
                    Err(tries) => undecided.push(format!(
                        "whether {} transactions that depend on each other show {}: {tries} dependencies were tried",
                        component.len(), sort.failure.name()
                    )),
                }
            }
        }
    }
    (found, undecided)
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
            if best.as_ref().is_none_or(|best| way.len() < best.len()) {
                best = Some(way);
            }
            if best.as_ref().is_some_and(|best| best.len() == 2) {
                return Ok(best);
            }
        }
    }
    Ok(best)
}

fn anomaly(
    history: &History,
    transactions: &[Transaction<'_>],
    graph: &Graph,
    failure: Failure,
    layer: usize,
    way: &[(usize, usize)],
) -> Anomaly {
    let mut what = String::new();
    for (number, (at, _)) in way.iter().enumerate() {
        let _ = write!(
            what,
            "T{} = {}; ",
            number + 1,
            words(history, &transactions[*at])
        );
    }
    let steps: Vec<_> = way
        .iter()
        .enumerate()
        .map(|(number, &(at, edge))| {
            let (first, second) = (number + 1, (number + 1) % way.len() + 1);
            let edge = &graph.edges[at][edge];
            let why = match (edge.because, &edge.of) {
                (WriteWrite, Some((key, old, new))) => {
                    format!("T{second} wrote {new} to {key} after T{first}'s {old}")
                }
                (WriteRead, Some((key, value, _))) => {
                    format!("T{second} read T{first}'s {value} of {key}")
                }
                (ReadWrite, Some((key, _, new))) => {
                    format!("T{first} did not see T{second}'s {new} of {key}")
                }
                (Process, _) => format!("one client did T{first}, then T{second}"),
                _ => format!("T{first} had ended before T{second} was called"),
            };
            format!("T{first} is before T{second}: {why}")
        })
        .collect();
    what += &steps.join("; ");
    what += ", which is a contradiction";
    let mut operations: Vec<_> = way.iter().map(|(at, _)| transactions[*at].place).collect();
    operations.sort_unstable();
    let kind = match layer {
        0 => failure,
        1 => Failure::Sessions,
        _ => Failure::RealTime,
    };
    if layer > 0 {
        what = format!("{} with it: {what}", failure.name());
    }
    Anomaly {
        kind,
        key: None,
        what,
        operations,
    }
}
