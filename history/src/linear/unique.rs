//! Registers to which no value is written twice: what is read says which write it saw, so the
//! operations of one value are together in every order. They are a *cluster*, which must be before
//! another one if any of its operations had ended before one of the other was called. There is an
//! order if nothing must be before itself (Gibbons and Korach, "Testing shared memories", 1997,
//! where clusters are zones).
//!
//! What is compared and set ties the cluster of the old value to that of the new one: a *chain*,
//! which is placed as a whole.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::hash::Fast;
use super::{Linear, NEVER, Timed, is_valid};
use crate::model::register::{Call, Register};

/// An answer for the operations, which are given by their calls; or nothing, if a value is written
/// twice, or it takes a search to find out.
pub(crate) fn unique(register: &Register, operations: &[Timed<Call>]) -> Option<Linear> {
    let initial = register.initial_number();
    let all = Values::of(operations, initial)?;
    if let Some(order) = all.order(operations) {
        // A comparison that failed is not in the clusters. Where it fits nowhere, others may have
        // to be ordered otherwise.
        return with_failed_comparisons(operations, order, initial)
            .filter(|order| is_valid(register, operations, order))
            .map(|order| Linear::Linearizable(places(operations, &order)));
    }
    let cut_short = CutShort::of(operations, initial);
    let good = cut_short.longest();
    let stuck = operations
        .iter()
        .find(|one| one.return_at == cut_short.returns[good])?;
    // What is open at that moment may be in it; so may be the one that cannot be there with its end.
    Some(Linear::Not {
        longest: places(operations, &cut_short.order(good)?),
        stuck: stuck.operation,
    })
}

/// Operations that have no order, and where they may be cut to have one.
struct CutShort<'a> {
    operations: &'a [Timed<Call>],
    initial: u32,
    /// When operations ended, in order.
    returns: Vec<usize>,
}

impl<'a> CutShort<'a> {
    fn of(operations: &'a [Timed<Call>], initial: u32) -> Self {
        let mut returns: Vec<_> = operations
            .iter()
            .map(|one| one.return_at)
            .filter(|&at| at != NEVER)
            .collect();
        returns.sort_unstable();
        Self {
            operations,
            initial,
            returns,
        }
    }

    /// An order of what was there before this return.
    fn order(&self, count: usize) -> Option<Vec<usize>> {
        let until = self.returns.get(count).copied().unwrap_or(NEVER);
        let (cut, kept) = cut(self.operations, until);
        let order = Values::of(&cut, self.initial)?.order(&cut)?;
        Some(order.into_iter().map(|at| kept[at]).collect())
    }

    /// The first return without which there is an order. Whatever begins an order has one.
    fn longest(&self) -> usize {
        let (mut good, mut bad) = (0, self.returns.len());
        while good + 1 < bad {
            let middle = usize::midpoint(good, bad);
            if self.order(middle).is_some() {
                good = middle;
            } else {
                bad = middle;
            }
        }
        good
    }
}

fn places(operations: &[Timed<Call>], order: &[usize]) -> Vec<usize> {
    order.iter().map(|&at| operations[at].operation).collect()
}

/// The operations as they were just before a moment, and which ones they are.
fn cut(operations: &[Timed<Call>], until: usize) -> (Vec<Timed<Call>>, Vec<usize>) {
    let mut kept = Vec::new();
    let cut = operations
        .iter()
        .enumerate()
        .filter(|(_, one)| one.call_at < until)
        .filter(|(_, one)| {
            one.return_at < until || !matches!(one.call, Call::Read(_) | Call::ReadNot(_))
        })
        .map(|(at, one)| {
            kept.push(at);
            let return_at = if one.return_at < until {
                one.return_at
            } else {
                NEVER
            };
            Timed {
                return_at,
                ..one.clone()
            }
        })
        .collect();
    (cut, kept)
}

/// Which operations are of which value.
struct Values {
    initial: u32,
    /// Who wrote it.
    writer: HashMap<u32, usize, Fast>,
    /// Who read it.
    readers: HashMap<u32, Vec<usize>, Fast>,
    /// Who compared it and set another one, and certainly did.
    swaps: HashMap<u32, Vec<usize>, Fast>,
    /// Those that are in no order: nobody knows whether they took effect, and nobody saw it.
    left_out: Vec<bool>,
}

impl Values {
    /// Nothing, if a value is written twice, or appended.
    fn of(operations: &[Timed<Call>], initial: u32) -> Option<Self> {
        let mut values = Self {
            initial,
            writer: HashMap::default(),
            readers: HashMap::default(),
            swaps: HashMap::default(),
            left_out: vec![false; operations.len()],
        };
        for (at, one) in operations.iter().enumerate() {
            match one.call {
                Call::Read(value) => values.readers.entry(value).or_default().push(at),
                Call::ReadNot(_) => {}
                Call::Write(value) | Call::Swap(_, value) => {
                    if value == initial || values.writer.insert(value, at).is_some() {
                        return None;
                    }
                }
                Call::Append(_) => return None,
            }
        }
        values.see_unknown(operations);
        Some(values)
    }

    /// Unknown writes took effect if somebody saw it.
    fn see_unknown(&mut self, operations: &[Timed<Call>]) {
        let mut seen: Vec<u32> = self.readers.keys().copied().collect();
        for (at, one) in operations.iter().enumerate() {
            match one.call {
                Call::Swap(old, _) if one.is_known() => {
                    self.swaps.entry(old).or_default().push(at);
                    seen.push(old);
                }
                Call::Write(_) | Call::Swap(..) => self.left_out[at] = !one.is_known(),
                _ => {}
            }
        }
        while let Some(value) = seen.pop() {
            let Some(&writer) = self.writer.get(&value) else {
                continue;
            };
            if !std::mem::take(&mut self.left_out[writer]) {
                continue;
            }
            if let Call::Swap(old, _) = operations[writer].call {
                self.swaps.entry(old).or_default().push(writer);
                seen.push(old);
            }
        }
    }

    /// All operations in an order, but for comparisons that failed; nothing if there is none.
    fn order(&self, operations: &[Timed<Call>]) -> Option<Vec<usize>> {
        let is_written = |value: &u32| *value == self.initial || self.writer.contains_key(value);
        if !self.readers.keys().chain(self.swaps.keys()).all(is_written) {
            return None;
        }
        // The beginnings of chains: values that were written whatever was there.
        let begin = |(&value, &writer): (&u32, &usize)| {
            let is_write = matches!(operations[writer].call, Call::Write(_));
            (is_write && !self.left_out[writer]).then_some((value, Some(writer)))
        };
        let beginnings = self.writer.iter().filter_map(begin);
        let mut chains = Vec::new();
        let mut placed = 0;
        for (value, writer) in beginnings.chain([(self.initial, None)]) {
            let chain = self.chain(operations, value, writer)?;
            placed += chain.order.len();
            chains.push(chain);
        }
        // What is in no chain: values that were set in a circle.
        if placed != self.count_for_chains(operations) {
            return None;
        }
        arrange(chains)
    }

    /// How many operations should be in a chain.
    fn count_for_chains(&self, operations: &[Timed<Call>]) -> usize {
        let all = operations.iter().zip(&self.left_out);
        all.filter(|(one, left_out)| !**left_out && !matches!(one.call, Call::ReadNot(_)))
            .count()
    }

    /// What follows the write of a value without any other write between.
    fn chain(
        &self,
        operations: &[Timed<Call>],
        value: u32,
        writer: Option<usize>,
    ) -> Option<Chain> {
        let mut order: Vec<_> = writer.into_iter().collect();
        let mut value = value;
        loop {
            // Already by their calls.
            order.extend(self.readers.get(&value).into_iter().flatten());
            match self.swaps.get(&value).map(Vec::as_slice) {
                None => break,
                Some(&[swap]) => {
                    order.push(swap);
                    let Call::Swap(_, new) = operations[swap].call else {
                        unreachable!("it is a swap");
                    };
                    value = new;
                }
                // Only one of them can have found it.
                Some(_) => return None,
            }
        }
        let mut chain = Chain {
            // Nothing was before the initial value.
            first_return: if writer.is_none() { 0 } else { NEVER },
            last_call: 0,
            is_first: writer.is_none(),
            order,
        };
        for &at in &chain.order {
            let one = &operations[at];
            // The first moment is before all events.
            let (call_at, return_at) = (one.call_at + 1, one.return_at.saturating_add(1));
            if return_at < chain.last_call {
                return None;
            }
            chain.last_call = chain.last_call.max(call_at);
            chain.first_return = chain.first_return.min(return_at);
        }
        Some(chain)
    }
}

/// Operations that are together in every order.
struct Chain {
    order: Vec<usize>,
    first_return: usize,
    last_call: usize,
    is_first: bool,
}

/// The chains one after the other, if that can be: each before those of which an operation was
/// called after one of its own had ended.
fn arrange(mut chains: Vec<Chain>) -> Option<Vec<usize>> {
    // One that ended before its last call must be alone in between. The others need one moment
    // outside of these.
    let mut alone: Vec<_> = chains
        .iter()
        .filter(|chain| chain.first_return < chain.last_call)
        .map(|chain| (chain.first_return, chain.last_call))
        .collect();
    alone.sort_unstable();
    if alone.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        return None;
    }
    for chain in &chains {
        if chain.first_return >= chain.last_call {
            let before = alone.partition_point(|one| one.0 < chain.last_call);
            let around = before.checked_sub(1).map(|at| alone[at]);
            if around.is_some_and(|(_, end)| chain.first_return < end) {
                return None;
            }
        }
    }
    let moment = |chain: &Chain| {
        if chain.is_first {
            return 0;
        }
        if chain.first_return < chain.last_call {
            return chain.first_return;
        }
        let before = alone.partition_point(|one| one.0 < chain.last_call);
        let end = before.checked_sub(1).map_or(0, |at| alone[at].1);
        chain.last_call.max(end)
    };
    chains.sort_by_key(|chain| (!chain.is_first, moment(chain)));
    Some(chains.into_iter().flat_map(|chain| chain.order).collect())
}

/// The order with the comparisons that failed, each where another value is; nothing if one of them
/// fits nowhere.
fn with_failed_comparisons(
    operations: &[Timed<Call>],
    order: Vec<usize>,
    initial: u32,
) -> Option<Vec<usize>> {
    let failed: Vec<_> = (0..operations.len())
        .filter(|&at| matches!(operations[at].call, Call::ReadNot(_)))
        .collect();
    if failed.is_empty() {
        return Some(order);
    }
    let inserts = places_of_failed(operations, &order, &failed, initial)?;
    Some(with_inserts(&order, inserts))
}

/// For each comparison that failed the gap in which it fits, in the order of these; nothing if one
/// of them fits nowhere. `failed` has them by their calls.
fn places_of_failed(
    operations: &[Timed<Call>],
    order: &[usize],
    failed: &[usize],
    initial: u32,
) -> Option<Vec<(usize, usize)>> {
    let values = values_of_gaps(operations, order, initial);
    let gaps = Gaps::of(operations, order);
    let mut inserts: Vec<(usize, usize)> = Vec::new();
    // Those that are placed, by their ends, and the last gap of those that had ended.
    let mut open = BinaryHeap::new();
    let mut ended_gap = 0;
    for &at in failed {
        let one = &operations[at];
        let Call::ReadNot(value) = one.call else {
            unreachable!("they are filtered");
        };
        while let Some(&Reverse((end, gap))) = open.peek()
            && end < one.call_at
        {
            ended_gap = ended_gap.max(gap);
            open.pop();
        }
        let (first, last) = gaps.between(one.call_at, one.return_at);
        let gap = (first.max(ended_gap)..=last).find(|&gap| values[gap] != value)?;
        open.push(Reverse((one.return_at, gap)));
        inserts.push((gap, at));
    }
    inserts.sort_by_key(|&(gap, at)| (gap, operations[at].call_at));
    Some(inserts)
}

/// The value before, between and after the operations of an order.
fn values_of_gaps(operations: &[Timed<Call>], order: &[usize], initial: u32) -> Vec<u32> {
    let mut values = vec![initial];
    for &at in order {
        values.push(match operations[at].call {
            Call::Write(value) | Call::Swap(_, value) => value,
            _ => *values.last().expect("the initial one"),
        });
    }
    values
}

/// An order with others in its gaps.
fn with_inserts(order: &[usize], inserts: Vec<(usize, usize)>) -> Vec<usize> {
    let mut whole = Vec::with_capacity(order.len() + inserts.len());
    let mut inserts = inserts.into_iter().peekable();
    for gap in 0..=order.len() {
        while let Some((_, at)) = inserts.next_if(|(at, _)| *at == gap) {
            whole.push(at);
        }
        whole.extend(order.get(gap));
    }
    whole
}

/// Where in an order something else can be put in.
struct Gaps {
    /// From each place on, the first return.
    first_returns: Vec<usize>,
    /// Up to each place, the last call.
    last_calls: Vec<usize>,
}

impl Gaps {
    fn of(operations: &[Timed<Call>], order: &[usize]) -> Self {
        let mut first_returns: Vec<_> = order.iter().map(|&at| operations[at].return_at).collect();
        for at in (1..first_returns.len()).rev() {
            first_returns[at - 1] = first_returns[at - 1].min(first_returns[at]);
        }
        let mut last_calls: Vec<_> = order.iter().map(|&at| operations[at].call_at).collect();
        for at in 1..last_calls.len() {
            last_calls[at] = last_calls[at].max(last_calls[at - 1]);
        }
        Self {
            first_returns,
            last_calls,
        }
    }

    /// The first and the last gap for what was called and ended then: after everything that had
    /// ended, and before everything that was called later.
    fn between(&self, call_at: usize, return_at: usize) -> (usize, usize) {
        let first = self.first_returns.partition_point(|&end| end < call_at);
        let last = self.last_calls.partition_point(|&call| call < return_at);
        (first, last)
    }
}
