//! The search for an order: Wing and Gong's, with Lowe's memory of what led nowhere.
//!
//! What is left out of it, because something that is looked at is as good:
//! - A read that fits is placed at once, and nothing else is tried there. It changes nothing, so it
//!   is not in the way of what follows.
//! - Of equal operations, one that was called and ended earlier is placed first: they can change
//!   places.
//! - An operation with an unknown outcome is placed only directly before one that would do
//!   something else without it. One that is overwritten, or could as well come later, is left out,
//!   or comes later.
//! - A state after which one of the next reads can never fit is left at once (`ahead.rs`).
//! - What led nowhere leads nowhere with fewer unknown outcomes left.

use std::collections::HashMap;
use std::hash::Hash;

use super::ahead::Ahead;
use super::hash::Fast;
use super::list::List;
use super::{Limits, Linear, Sequential, Timed};

/// How many steps are between two looks at the clock.
const STEPS_PER_LOOK: u64 = 1 << 10;

/// So many moves with unknown operations are gathered at one point. Where there are more, the search
/// ends.
const MOVES_MAX: usize = 1 << 20;

/// Of each class of unknown operations that were used, how many were.
type Used = Vec<(u32, u32)>;

/// What decides what can follow, but for the unknown operations that are left.
#[derive(PartialEq, Eq, Hash)]
struct Key<S> {
    /// All known operations below this are placed, but for [`Key::holes`].
    high: u32,
    holes: Box<[u32]>,
    state: S,
}

/// Unknown operations, and then a known one, to be placed.
struct Move<S> {
    unknown: Vec<u32>,
    known: u32,
    state: S,
}

/// Unknown operations that follow each other, while moves are made of them.
struct Chain<S> {
    classes: Vec<u32>,
    /// The first return of those that are left: nothing that was called later can be here.
    end: usize,
    candidates: Vec<u32>,
    moves: Vec<Move<S>>,
}

/// A point of the search.
struct Frame<S> {
    state: S,
    high: u32,
    /// What is left to be tried, the next one last.
    moves: Vec<Move<S>>,
    /// Whether the moves with unknown operations are among them.
    is_complete: bool,
    /// What it took when it was made, about.
    bytes: usize,
    /// What was placed to get here.
    placed: Option<Placed>,
}

struct Placed {
    unknown: Vec<u32>,
    known: u32,
    /// The same as places of operations.
    operations: Vec<usize>,
}

/// Operations that are equal.
pub(super) struct Class<'a, S: Sequential> {
    pub(super) call: &'a S::Call,
    /// Those whose end is known, by their calls.
    known: Vec<u32>,
    /// The first of these that is not placed.
    first: usize,
    /// Those whose end is not known, by their calls.
    unknown: Vec<&'a Timed<S::Call>>,
    /// So many of these are placed.
    used: usize,
    /// The call of the first known one that is not placed.
    next_call_at: usize,
}

impl<'a, S: Sequential> Class<'a, S> {
    fn new(call: &'a S::Call) -> Self {
        Self {
            call,
            known: Vec::new(),
            first: 0,
            unknown: Vec::new(),
            used: 0,
            next_call_at: usize::MAX,
        }
    }

    /// Whether one of them is not placed and was called before this event.
    pub(super) fn is_left_before(&self, event: usize) -> bool {
        let unknown = self.unknown.get(self.used);
        self.next_call_at < event || unknown.is_some_and(|one| one.call_at < event)
    }
}

/// The operations by what they are equal to.
struct Classified<'a, S: Sequential> {
    classes: Vec<Class<'a, S>>,
    known: Vec<&'a Timed<S::Call>>,
    known_class: Vec<u32>,
}

impl<'a, S: Sequential> Classified<'a, S> {
    fn of(operations: &'a [Timed<S::Call>]) -> Self {
        let mut numbers: HashMap<&S::Call, usize> = HashMap::new();
        let mut all = Self {
            classes: Vec::new(),
            known: Vec::new(),
            known_class: Vec::new(),
        };
        for one in operations {
            let number = *numbers.entry(&one.call).or_insert(all.classes.len());
            if number == all.classes.len() {
                all.classes.push(Class::new(&one.call));
            }
            let class = &mut all.classes[number];
            if one.is_known() {
                class.next_call_at = class.next_call_at.min(one.call_at);
                class.known.push(all.known.len() as u32);
                all.known.push(one);
                all.known_class.push(number as u32);
            } else {
                class.unknown.push(one);
            }
        }
        all
    }
}

struct Search<'a, S: Sequential> {
    object: &'a S,
    limits: &'a Limits,
    steps: u64,
    remembered_bytes: usize,
    /// Of the points that were not left, and of moves that are being gathered.
    open_bytes: usize,
    is_over: bool,
    /// Those whose end is known, by their calls.
    known: Vec<&'a Timed<S::Call>>,
    known_class: Vec<u32>,
    classes: Vec<Class<'a, S>>,
    /// The classes in which the end of one is unknown.
    unknown: Vec<u32>,
    placed: Vec<bool>,
    ahead: Ahead,
    list: List,
    cache: Cache<S::State>,
    candidates: Vec<u32>,
    /// Of each class, the earliest end of those looked at; for [`Search::direct`].
    earliest: HashMap<u32, usize, Fast>,
}

/// For each point the smallest sets of unknown operations that were used to get there.
type Cache<S> = HashMap<Key<S>, Vec<Used>, Fast>;

/// Looks for an order of the operations, which are given by their calls.
pub(crate) fn search<S: Sequential>(
    object: &S,
    operations: &[Timed<S::Call>],
    limits: &Limits,
) -> Linear {
    Search::new(object, operations, limits).run()
}

impl<'a, S: Sequential> Search<'a, S> {
    fn new(object: &'a S, operations: &'a [Timed<S::Call>], limits: &'a Limits) -> Self {
        let Classified {
            classes,
            known,
            known_class,
        } = Classified::of(operations);
        let with_unknown = (0..)
            .zip(&classes)
            .filter(|(_, class)| !class.unknown.is_empty());
        let times: Vec<_> = known
            .iter()
            .map(|one| (one.call_at, one.return_at))
            .collect();
        Self {
            object,
            limits,
            steps: 0,
            remembered_bytes: 0,
            open_bytes: 0,
            is_over: false,
            unknown: with_unknown.map(|(class, _)| class).collect(),
            placed: vec![false; known.len()],
            ahead: Ahead::new(object, &known_class, &classes),
            list: List::new(&times),
            known,
            known_class,
            classes,
            cache: HashMap::default(),
            candidates: Vec::new(),
            earliest: HashMap::default(),
        }
    }

    fn run(mut self) -> Linear {
        if self.known.is_empty() {
            return Linear::Linearizable(Vec::new());
        }
        let mut frames = vec![self.enter(self.object.initial(), 0, None)];
        let mut longest = Longest::default();
        while let Some(frame) = frames.last_mut() {
            let next = self.next_move(frame);
            if self.is_over {
                longest.see(&frames, &self);
                return Linear::Undecided {
                    longest: longest.order,
                };
            }
            let Some(next) = next else {
                self.leave(&mut frames, &mut longest);
                continue;
            };
            let high = frame.high.max(next.known + 1);
            let placed = self.place(next.unknown, next.known);
            if frames.len() == self.known.len() {
                return Linear::Linearizable(whole_order(&frames, &placed));
            }
            frames.extend(self.go_on(next.state, high, placed));
        }
        Linear::Not {
            longest: longest.order,
            stuck: longest.stuck,
        }
    }

    /// The point after what was just placed; where it leads nowhere, that is taken back.
    fn go_on(&mut self, state: S::State, high: u32, placed: Placed) -> Option<Frame<S::State>> {
        if !self.is_hopeless(&state)
            && let Some(bytes) = self.remember(&state, high)
        {
            self.remembered_bytes += bytes;
            return Some(self.enter(state, high, Some(placed)));
        }
        self.take_back(&placed);
        None
    }

    /// Goes back from the last point.
    fn leave(&mut self, frames: &mut Vec<Frame<S::State>>, longest: &mut Longest) {
        longest.see(frames, self);
        let left = frames.pop().expect("there is a last one");
        self.open_bytes -= left.bytes;
        longest.shared = longest.shared.min(frames.len());
        if let Some(placed) = left.placed {
            self.take_back(&placed);
        }
    }

    /// Looks at the limits now and then.
    fn step(&mut self) {
        self.steps += 1;
        let look = self.steps.is_multiple_of(STEPS_PER_LOOK);
        self.is_over |= look && self.limits.is_over();
        self.is_over |= self.remembered_bytes + self.open_bytes > self.limits.memory_bytes;
    }

    /// A point, with the moves that need no unknown operation.
    fn enter(&mut self, state: S::State, high: u32, placed: Option<Placed>) -> Frame<S::State> {
        let mut candidates = std::mem::take(&mut self.candidates);
        self.list.candidates(&mut candidates);
        let (moves, is_complete) = self.direct(&state, &candidates);
        self.candidates = candidates;
        let of_moves: usize = moves.iter().map(move_bytes::<S>).sum();
        let bytes = size_of::<Frame<S::State>>() + S::heap_bytes(&state) + of_moves;
        self.open_bytes += bytes;
        Frame {
            state,
            high,
            moves,
            is_complete: is_complete || self.unknown.is_empty(),
            bytes,
            placed,
        }
    }

    /// The moves of one known operation, and whether nothing else has to be tried.
    fn direct(&mut self, state: &S::State, candidates: &[u32]) -> (Vec<Move<S::State>>, bool) {
        let mut moves = Vec::new();
        self.earliest.clear();
        for &known in candidates {
            let one = self.known[known as usize];
            let class = self.known_class[known as usize];
            if !self.is_first_of_class(class, one.return_at) {
                continue;
            }
            let Some(next) = self.object.step(state, &one.call) else {
                continue;
            };
            let unknown = Vec::new();
            let next = Move {
                unknown,
                known,
                state: next,
            };
            if S::is_read(&one.call) {
                return (vec![next], true);
            }
            moves.push(next);
        }
        // What ends first is tried first.
        moves.sort_by_key(|next| std::cmp::Reverse(self.known[next.known as usize].return_at));
        (moves, false)
    }

    /// Whether none that is equal was called earlier and ended earlier. To be asked in the order of
    /// the calls.
    fn is_first_of_class(&mut self, class: u32, return_at: usize) -> bool {
        let earliest = self.earliest.entry(class).or_insert(usize::MAX);
        let first = return_at < *earliest;
        *earliest = return_at.min(*earliest);
        first
    }

    fn next_move(&mut self, frame: &mut Frame<S::State>) -> Option<Move<S::State>> {
        self.step();
        if frame.moves.is_empty() && !frame.is_complete {
            frame.is_complete = true;
            let before = self.open_bytes;
            frame.moves = self.with_unknown(&frame.state);
            frame.bytes += self.open_bytes - before;
        }
        frame.moves.pop()
    }

    /// The moves that begin with unknown operations.
    fn with_unknown(&mut self, state: &S::State) -> Vec<Move<S::State>> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let first = self.list.candidates(&mut candidates);
        self.earliest.clear();
        candidates.retain(|&known| {
            let class = self.known_class[known as usize];
            self.is_first_of_class(class, self.known[known as usize].return_at)
        });
        let mut chain = Chain {
            classes: Vec::new(),
            end: first.map_or(usize::MAX, |first| self.known[first].return_at),
            candidates,
            moves: Vec::new(),
        };
        self.open_bytes += level_bytes::<S>(state);
        self.extend(&mut chain, state);
        self.candidates = chain.candidates;
        // Short ones first.
        let mut moves = chain.moves;
        moves.sort_by_key(|next| std::cmp::Reverse(next.unknown.len()));
        moves
    }

    /// Adds to an empty chain of unknown operations each that may follow `state`, and each other; and after
    /// each, each known one that needs it. It may be as long as there are unknown operations.
    fn extend(&mut self, chain: &mut Chain<S::State>, state: &S::State) {
        // What is after each of the chain, and which class is tried next there.
        let mut levels = vec![(state.clone(), 0)];
        while let Some((state, place)) = levels.last_mut() {
            let Some(&number) = self.unknown.get(*place) else {
                self.open_bytes -= level_bytes::<S>(state);
                levels.pop();
                self.give_back(chain.classes.pop());
                continue;
            };
            *place += 1;
            self.step();
            self.is_over |= chain.moves.len() > MOVES_MAX;
            if self.is_over {
                self.give_back(chain.classes.drain(..));
                return;
            }
            let earlier = levels
                .len()
                .checked_sub(2)
                .map(|earlier| &levels[earlier].0);
            let state = &levels[levels.len() - 1].0;
            let Some((call, after)) = self.next_unknown(chain, number, state, earlier) else {
                continue;
            };
            chain.classes.push(number);
            self.classes[number as usize].used += 1;
            self.add_moves(chain, state, call, &after);
            self.open_bytes += level_bytes::<S>(&after);
            levels.push((after, 0));
        }
    }

    /// An unknown operation of a class that may follow a chain, which left `state`, and what it leaves.
    /// `earlier` is the state before the last of the chain.
    fn next_unknown(
        &self,
        chain: &Chain<S::State>,
        number: u32,
        state: &S::State,
        earlier: Option<&S::State>,
    ) -> Option<(&'a S::Call, S::State)> {
        let class = &self.classes[number as usize];
        let one = *class.unknown.get(class.used)?;
        let after = (one.call_at < chain.end).then(|| self.object.step(state, &one.call))?;
        let after = after.filter(|after| after != state)?;
        if let (Some(&last), Some(earlier)) = (chain.classes.last(), earlier) {
            let last_call = self.classes[last as usize].call;
            let sorted = last <= number;
            if self.is_redundant(earlier, last_call, &one.call, &after, sorted) {
                return None;
            }
        }
        Some((&one.call, after))
    }

    /// Operations of these classes are not used any more.
    fn give_back(&mut self, classes: impl IntoIterator<Item = u32>) {
        for class in classes {
            self.classes[class as usize].used -= 1;
        }
    }

    /// After a chain whose last operation, `unknown`, was called in `state` and left `after`: each
    /// known operation that needs it.
    fn add_moves(
        &mut self,
        chain: &mut Chain<S::State>,
        state: &S::State,
        unknown: &S::Call,
        after: &S::State,
    ) {
        for &known in &chain.candidates {
            let call = &self.known[known as usize].call;
            let Some(last) = self.object.step(after, call) else {
                continue;
            };
            if !self.is_redundant(state, unknown, call, &last, false) {
                let next = Move {
                    unknown: chain.classes.clone(),
                    known,
                    state: last,
                };
                self.open_bytes += move_bytes::<S>(&next);
                chain.moves.push(next);
            }
        }
    }

    /// Whether an unknown operation, which with the one after it leaves `last`, is not needed there:
    /// it could as well be left out, or come second, unless they are `sorted` as they are.
    fn is_redundant(
        &self,
        before: &S::State,
        unknown: &S::Call,
        second: &S::Call,
        last: &S::State,
        sorted: bool,
    ) -> bool {
        let Some(without) = self.object.step(before, second) else {
            return false;
        };
        without == *last || !sorted && self.object.step(&without, unknown).as_ref() == Some(last)
    }

    fn place(&mut self, unknown: Vec<u32>, known: u32) -> Placed {
        let mut operations = Vec::with_capacity(unknown.len() + 1);
        for &class in &unknown {
            let class = &mut self.classes[class as usize];
            operations.push(class.unknown[class.used].operation);
            class.used += 1;
        }
        self.placed[known as usize] = true;
        self.settle_class(known);
        operations.push(self.known[known as usize].operation);
        self.list.take(known as usize);
        Placed {
            unknown,
            known,
            operations,
        }
    }

    fn take_back(&mut self, placed: &Placed) {
        for &class in &placed.unknown {
            self.classes[class as usize].used -= 1;
        }
        let known = placed.known;
        self.placed[known as usize] = false;
        self.ahead.take_back(known);
        let class = &mut self.classes[self.known_class[known as usize] as usize];
        class.first = class
            .first
            .min(class.known.partition_point(|&other| other < known));
        self.settle_class(known);
        self.list.put_back(known as usize);
    }

    /// Finds the first one that is not placed in the class of one.
    fn settle_class(&mut self, known: u32) {
        let class = &mut self.classes[self.known_class[known as usize] as usize];
        while class
            .known
            .get(class.first)
            .is_some_and(|&first| self.placed[first as usize])
        {
            class.first += 1;
        }
        let first = class.known.get(class.first);
        class.next_call_at = first.map_or(usize::MAX, |&first| self.known[first as usize].call_at);
    }

    /// Whether one of the next reads cannot fit any more after this state.
    fn is_hopeless(&mut self, state: &S::State) -> bool {
        self.ahead.is_hopeless(
            self.object,
            state,
            &self.placed,
            &self.known_class,
            &self.classes,
            |read| self.known[read as usize].return_at,
        )
    }

    /// Remembers this point, and says how many bytes that takes; nothing if it was reached before
    /// with no more unknown operations used.
    fn remember(&mut self, state: &S::State, high: u32) -> Option<usize> {
        self.list.candidates(&mut self.candidates);
        let mut holes: Vec<_> = self
            .candidates
            .iter()
            .copied()
            .filter(|&known| known < high)
            .collect();
        holes.sort_unstable();
        let key = Key {
            high,
            holes: holes.into(),
            state: state.clone(),
        };
        let used = self.unknown.iter().filter_map(|&class| {
            let used = self.classes[class as usize].used as u32;
            (used > 0).then_some((class, used))
        });
        let used: Used = used.collect();
        let bytes = size_of::<Key<S::State>>()
            + S::heap_bytes(&key.state)
            + size_of::<Vec<Used>>()
            + 4 * key.holes.len()
            + 8 * used.len()
            + 64;
        let seen = self.cache.entry(key).or_default();
        if seen.iter().any(|seen| is_within(seen, &used)) {
            return None;
        }
        seen.retain(|seen| !is_within(&used, seen));
        seen.push(used);
        Some(bytes)
    }
}

/// What a state in a chain takes, about.
fn level_bytes<S: Sequential>(state: &S::State) -> usize {
    size_of::<(S::State, usize)>() + S::heap_bytes(state)
}

/// What a move takes, about.
fn move_bytes<S: Sequential>(next: &Move<S::State>) -> usize {
    size_of::<Move<S::State>>() + 4 * next.unknown.len() + S::heap_bytes(&next.state)
}

/// What was placed to get to the last point, and then at it.
fn whole_order<S>(frames: &[Frame<S>], last: &Placed) -> Vec<usize> {
    let before = frames.iter().filter_map(|frame| frame.placed.as_ref());
    before
        .chain([last])
        .flat_map(|placed| placed.operations.iter().copied())
        .collect()
}

/// Whether no more of any class was used.
fn is_within(fewer: &Used, more: &Used) -> bool {
    fewer.iter().all(|(class, count)| {
        more.iter()
            .any(|(other, others)| other == class && others >= count)
    })
}

/// The longest order that was found so far.
#[derive(Default)]
struct Longest {
    order: Vec<usize>,
    /// Where in the order the operations of each frame end.
    ends: Vec<usize>,
    /// So many frames have not been left since.
    shared: usize,
    stuck: usize,
}

impl Longest {
    /// Keeps what was placed, if it is more than ever before.
    fn see<S: Sequential>(&mut self, frames: &[Frame<S::State>], search: &Search<'_, S>) {
        if frames.len() <= self.ends.len() {
            return;
        }
        self.ends.truncate(self.shared);
        self.order.truncate(self.ends.last().copied().unwrap_or(0));
        for frame in &frames[self.ends.len()..] {
            let placed = frame.placed.iter().flat_map(|placed| &placed.operations);
            self.order.extend(placed);
            self.ends.push(self.order.len());
        }
        self.shared = self.ends.len();
        let first = search.list.candidates(&mut Vec::new());
        self.stuck = first.map_or(0, |first| search.known[first].operation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::set::{Call, Set};

    /// What comes of additions to a set of a thousand elements, one after the other or all at once, within
    /// so many bytes.
    fn searched(memory_bytes: usize, is_at_once: bool) -> Linear {
        let elements: Vec<_> = (0..1000).map(crate::Value::Int).collect();
        let set = Set::new(&elements.into());
        let operations: Vec<_> = (0..100)
            .map(|at| Timed {
                operation: at,
                call_at: if is_at_once { at } else { 2 * at },
                return_at: if is_at_once { 1000 + at } else { 2 * at + 1 },
                call: Call::Add(1000 + at as u32),
            })
            .collect();
        let limits = Limits {
            deadline: None,
            memory_bytes,
        };
        search(&set, &operations, &limits)
    }

    #[test]
    fn what_states_take_counts_for_the_memory() {
        let order = Linear::Linearizable((0..100).collect());
        assert_eq!(searched(2_000_000, false), order);
        let is_undecided = |linear| matches!(linear, Linear::Undecided { .. });
        // A hundred states of 4,000 bytes are remembered, and as many are open.
        assert!(is_undecided(searched(600_000, false)));
        // Of each of these points each operation that is left may be the next.
        assert!(is_undecided(searched(2_000_000, true)));
    }
}
