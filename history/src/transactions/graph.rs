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
    /// Another way to the same: it goes on from a helper, to which [`Because::ReadWrite`] leads.
    Unseen,
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

/// Of each transaction the ones that are after it; then helpers, which stand for many of these.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) edges: Vec<Vec<Edge>>,
    /// So many are transactions.
    pub(super) transactions: usize,
}

impl Graph {
    pub(super) fn new(count: usize) -> Self {
        Self {
            edges: vec![Vec::new(); count],
            transactions: count,
        }
    }

    /// Whoever of these read an object did not see what anybody of these wrote, who are in order and each
    /// there once. A reader that wrote itself is before all but itself, so the helpers are two chains: one
    /// of them leads to a writer and those before it, the other to a writer and those after it.
    pub(super) fn add_unseen(
        &mut self,
        key: &Value,
        readers: &[usize],
        writers: &[(usize, &Value)],
    ) {
        if readers.is_empty() || writers.is_empty() {
            return;
        }
        let (down, count) = (self.edges.len(), writers.len());
        let up = down + count;
        self.edges.resize_with(up + count, Vec::new);
        for (number, &(writer, value)) in writers.iter().enumerate() {
            for helper in [down + number, up + number] {
                self.add(helper, writer, Because::Unseen, Some((key, value, value)));
            }
            if number > 0 {
                self.add(down + number, down + number - 1, Because::Unseen, None);
                self.add(up + number - 1, up + number, Because::Unseen, None);
            }
        }
        for &reader in readers {
            let place = writers.partition_point(|(writer, _)| *writer < reader);
            if place > 0 {
                self.add(reader, down + place - 1, Because::ReadWrite, None);
            }
            let is_own = writers.get(place).is_some_and(|own| own.0 == reader);
            let next = place + usize::from(is_own);
            if next < count {
                self.add(reader, up + next, Because::ReadWrite, None);
            }
        }
    }

    /// The steps of a way: transactions, each with why it is before the next.
    pub(super) fn steps(&self, way: &[(usize, usize)]) -> Vec<(usize, &Edge)> {
        let mut steps: Vec<(usize, &Edge)> = Vec::new();
        for &(at, edge) in way {
            let edge = &self.edges[at][edge];
            match steps.last_mut() {
                Some(last) if at >= self.transactions => last.1 = edge,
                _ => steps.push((at, edge)),
            }
        }
        steps
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

    /// Adds dependencies of these.
    pub(super) fn add_all(&mut self, edges: Vec<(usize, Edge)>) {
        for (from, edge) in edges {
            self.edges[from].push(edge);
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
        if real_time {
            self.add_real_time(transactions);
        }
    }

    fn add_real_time(&mut self, transactions: &[Transaction<'_>]) {
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
        let mut components = Components::new(self.edges.len());
        for root in 0..self.edges.len() {
            if components.number[root] == usize::MAX {
                components.walk(self, reasons, root);
            }
        }
        components.found
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
        let mut came = vec![None; self.edges.len() * 2];
        let start = state(from, true);
        let mut queue = VecDeque::from([start]);
        let goal = state(to, false);
        while let Some(now) = queue.pop_front() {
            if now == goal && now != start {
                return Some(way_back(&came, start, now));
            }
            for (number, edge) in self.edges[now / 2].iter().enumerate() {
                let because = edge.because;
                let (goes_on, is_read) =
                    (because == Because::Unseen, because == Because::ReadWrite);
                let twice = apart && is_read && now % 2 == 1;
                let next = state(edge.to, is_read || goes_on);
                let seen = came[next].is_some() || next == start;
                if !reasons.contains(&because) || !within[edge.to] || twice || seen {
                    continue;
                }
                came[next] = Some((now, number));
                // Helpers make a way no longer.
                if goes_on {
                    queue.push_front(next);
                } else {
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// From the start to a goal, given from where each state was reached.
fn way_back(came: &[Option<(usize, usize)>], start: usize, goal: usize) -> Vec<(usize, usize)> {
    let mut way = Vec::new();
    let mut at = goal;
    while let Some((earlier, edge)) = came[at] {
        way.push((earlier / 2, edge));
        at = earlier;
        if at == start {
            break;
        }
    }
    way.reverse();
    way
}

/// Tarjan's search for the sets of transactions that depend on each other, without recursion.
struct Components {
    /// In which order transactions were reached; `usize::MAX` if not yet.
    number: Vec<usize>,
    /// The earliest one on the stack that each leads to, by its number.
    low: Vec<usize>,
    stack: Vec<usize>,
    on_stack: Vec<bool>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Components {
    fn new(count: usize) -> Self {
        Self {
            number: vec![usize::MAX; count],
            low: vec![0; count],
            stack: Vec::new(),
            on_stack: vec![false; count],
            next: 0,
            found: Vec::new(),
        }
    }

    /// Looks at everything that one leads to.
    fn walk(&mut self, graph: &Graph, reasons: &[Because], root: usize) {
        let mut calls = vec![(root, 0)];
        while let Some((at, edge)) = calls.pop() {
            if edge == 0 {
                self.reach(at);
            }
            if let Some(one) = graph.edges[at].get(edge) {
                calls.push((at, edge + 1));
                if !reasons.contains(&one.because) {
                    continue;
                }
                if self.number[one.to] == usize::MAX {
                    calls.push((one.to, 0));
                } else if self.on_stack[one.to] {
                    self.low[at] = self.low[at].min(self.number[one.to]);
                }
                continue;
            }
            if let Some(&(parent, _)) = calls.last() {
                self.low[parent] = self.low[parent].min(self.low[at]);
            }
            if self.low[at] == self.number[at] {
                self.take_from_stack(at);
            }
        }
    }

    fn reach(&mut self, at: usize) {
        (self.number[at], self.low[at]) = (self.next, self.next);
        self.next += 1;
        self.stack.push(at);
        self.on_stack[at] = true;
    }

    /// All on the stack from this one on are a set.
    fn take_from_stack(&mut self, at: usize) {
        let begin = self
            .stack
            .iter()
            .rposition(|&one| one == at)
            .expect("it is on it");
        let component = self.stack.split_off(begin);
        for &one in &component {
            self.on_stack[one] = false;
        }
        if component.len() > 1 {
            self.found.push(component);
        }
    }
}
