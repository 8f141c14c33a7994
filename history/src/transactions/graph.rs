//! Who depends on whom.

use std::collections::VecDeque;

use crate::{Outcome, Value};

use super::Transaction;

/// Why one transaction is before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Because {
    /// The other one wrote after it.
    WriteWrite,
    /// The other one read what it wrote.
    WriteRead,
    /// It did not see what the other one wrote.
    ReadWrite,
    /// The same client did one after the other.
    Process,
    /// It had ended before the other one was called.
    RealTime,
}

/// A dependency: on whom, and why.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) to: usize,
    pub(super) because: Because,
    /// The object, and what the first and the second wrote or read.
    pub(super) of: Option<(Value, Value, Value)>,
}

/// Of each transaction the ones that are after it.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) edges: Vec<Vec<Edge>>,
}

impl Graph {
    pub(super) fn new(count: usize) -> Self {
        Self {
            edges: vec![Vec::new(); count],
        }
    }

    pub(super) fn add(
        &mut self,
        from: usize,
        to: usize,
        because: Because,
        of: Option<(&Value, &Value, &Value)>,
    ) {
        if from != to {
            let of = of.map(|(key, first, second)| (key.clone(), first.clone(), second.clone()));
            self.edges[from].push(Edge { to, because, of });
        }
    }

    /// Adds the order in which clients did things, and that of the clock: of those that had ended,
    /// the ones after which nothing else had, are before what is called.
    pub(super) fn add_times(&mut self, transactions: &[Transaction<'_>], real_time: bool) {
        let mut last = std::collections::HashMap::new();
        for (at, one) in transactions.iter().enumerate() {
            if one.operation.outcome == Outcome::Fail {
                continue;
            }
            if let Some(earlier) = last.insert(one.operation.process, at) {
                self.add(earlier, at, Because::Process, None);
            }
        }
        if !real_time {
            return;
        }
        let mut moments: Vec<(usize, bool, usize)> = Vec::new();
        for (at, one) in transactions.iter().enumerate() {
            if one.operation.outcome != Outcome::Fail {
                moments.push((one.operation.call, false, at));
                moments.extend(one.operation.returned().map(|end| (end, true, at)));
            }
        }
        moments.sort_unstable();
        let mut frontier: Vec<usize> = Vec::new();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); transactions.len()];
        for (_, is_end, at) in moments {
            if is_end {
                frontier.retain(|other| !before[at].contains(other));
                frontier.push(at);
            } else {
                for &earlier in &frontier {
                    self.add(earlier, at, Because::RealTime, None);
                }
                before[at].clone_from(&frontier);
            }
        }
    }

    /// The sets of transactions each of which is after each other one of its set, by these reasons.
    pub(super) fn components(&self, reasons: &[Because]) -> Vec<Vec<usize>> {
        let count = self.edges.len();
        let (mut number, mut low) = (vec![usize::MAX; count], vec![0; count]);
        let (mut stack, mut on_stack) = (Vec::new(), vec![false; count]);
        let (mut next, mut found) = (0, Vec::new());
        for root in 0..count {
            if number[root] != usize::MAX {
                continue;
            }
            let mut calls = vec![(root, 0)];
            while let Some((at, edge)) = calls.pop() {
                if edge == 0 {
                    (number[at], low[at]) = (next, next);
                    next += 1;
                    stack.push(at);
                    on_stack[at] = true;
                }
                if let Some(one) = self.edges[at].get(edge) {
                    calls.push((at, edge + 1));
                    if !reasons.contains(&one.because) {
                        continue;
                    }
                    if number[one.to] == usize::MAX {
                        calls.push((one.to, 0));
                    } else if on_stack[one.to] {
                        low[at] = low[at].min(number[one.to]);
                    }
                    continue;
                }
                if let Some(&(parent, _)) = calls.last() {
                    low[parent] = low[parent].min(low[at]);
                }
                if low[at] == number[at] {
                    let begin = stack
                        .iter()
                        .rposition(|&one| one == at)
                        .expect("it is on it");
                    let component = stack.split_off(begin);
                    for &one in &component {
                        on_stack[one] = false;
                    }
                    if component.len() > 1 {
                        found.push(component);
                    }
                }
            }
        }
        found
    }

    /// A shortest way from one to another within a set, by these reasons; without two reads that
    /// did not see something next to each other, nor at its ends, if that is asked for. The way is
    /// of transactions with the number of the edge that leads on.
    pub(super) fn way(
        &self,
        from: usize,
        to: usize,
        within: &[bool],
        reasons: &[Because],
        apart: bool,
    ) -> Option<Vec<(usize, usize)>> {
        // A transaction, and whether the last step was such a read.
        let state = |at: usize, read: bool| at * 2 + usize::from(read && apart);
        let mut came: Vec<Option<(usize, usize)>> = vec![None; self.edges.len() * 2];
        let start = state(from, true);
        let mut queue = VecDeque::from([start]);
        let mut seen = vec![false; self.edges.len() * 2];
        seen[start] = true;
        let goal = state(to, false);
        while let Some(now) = queue.pop_front() {
            if now == goal && now != start {
                let mut way = Vec::new();
                let mut at = now;
                while let Some((earlier, edge)) = came[at] {
                    way.push((earlier / 2, edge));
                    at = earlier;
                    if at == start {
                        break;
                    }
                }
                way.reverse();
                return Some(way);
            }
            for (number, edge) in self.edges[now / 2].iter().enumerate() {
                let is_read = edge.because == Because::ReadWrite;
                let twice = apart && is_read && now % 2 == 1;
                let next = state(edge.to, is_read);
                if reasons.contains(&edge.because) && within[edge.to] && !twice && !seen[next] {
                    seen[next] = true;
                    came[next] = Some((now, number));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}
