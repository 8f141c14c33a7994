//! All crash states of a log that are to be visited, each with a number.

use std::cmp::Reverse;
use std::ops::Range;

use super::{Log, Relaxation, State, States, tear};
use crate::{combinations, sample};

/// The crash states of a log: counted before any is made, and number i of them found without
/// looking at the others. So a part of them, or one of them, is visited as easily as all.
///
/// **Which.** The caller's crash points are where a promise comes into force. There every state
/// is visited that [`States`] asks for, because the promise may be new even where the content is
/// not. `every-write` adds a point at the end of the setup and one after each write and flush,
/// and there nothing has been promised since the point before. So a content that the point
/// before could have had is not visited again: after a write all states keep that write, and
/// after a flush only `flushed` can be new. No two states from one of the caller's points up to
/// the next have kept the same.
///
/// **In which order.** `prefix` in the order of the log; `flushed`; one write lost; one torn; two
/// lost; one lost and another torn; three lost, and so on. In each of these the caller's crash
/// points come before the others and, but for `prefix`, the later before the earlier. At one point
/// the writes after the last flush are lost first, then those before it and so on; of these the
/// ones with the greatest priority; of these the oldest, on which the most may rest.
///
/// **In flight.** A write with FUA is durable when it is completed, so no crash after it loses it.
/// Before that it is torn like any other, where `every-write` has the power fail at each write, or
/// a crash point lies right before it.
#[derive(Debug, Clone)]
pub struct Space<'a> {
    log: &'a Log,
    torn_unit_bytes: u64,
    blocks: Vec<Block>,
    /// The numbers of the states to be visited, if not of all.
    drawn: Option<Vec<u128>>,
}

/// States of one kind at one crash point.
#[derive(Debug, Clone)]
struct Block {
    /// The number after the last one.
    end: u128,
    position: usize,
    kind: Choice,
}

#[derive(Debug, Clone, Copy)]
enum Choice {
    Prefix,
    Flushed,
    /// So many writes lost; with `but`, never the one at this place.
    Lost {
        count: usize,
        but: Option<usize>,
    },
    /// One write torn, and of the others so many lost; with `but`, never the one at this place.
    Torn {
        count: usize,
        but: Option<usize>,
    },
    /// The write in flight torn, and so many lost of those before it.
    TornInFlight {
        count: usize,
    },
}

/// What a disk did to the writes before a crash, without saying to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// It kept all of them.
    Prefix,
    /// It kept none that it did not have to.
    Flushed,
    /// It lost so many.
    Lost(usize),
    /// It lost a part of one, and so many others.
    Torn(usize),
}

/// Where the power may fail.
#[derive(Debug, Clone, Copy)]
struct Point {
    position: usize,
    origin: Origin,
    /// How many writes may be lost.
    pending: usize,
    /// Whether `flushed` is a state of its own.
    flushed_is_new: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// One of the caller's.
    Promise,
    /// The end of the setup, or after the write at the place, which is kept.
    Write(Option<usize>),
    Flush,
}

impl<'a> Space<'a> {
    /// The states of a log, with the crash points at `crash_points`: every position at which
    /// something that was promised must be kept from then on. `seed` is what a sample is drawn
    /// with; nothing else depends on it.
    ///
    /// # Panics
    /// If a crash point lies past the end of the log.
    pub fn new(log: &'a Log, crash_points: &[usize], states: &States, seed: u64) -> Self {
        let points = points(log, crash_points, states);
        let torn_unit_bytes = states.torn_unit_bytes.unwrap_or(u64::MAX);
        let mut space = Self {
            log,
            torn_unit_bytes,
            blocks: Vec::new(),
            drawn: None,
        };
        space.add_blocks(&points, states);
        space.drawn = states
            .sample
            .map(|size| sample::draw(size, space.spanned(), seed));
        space
    }

    fn add_blocks(&mut self, points: &[Point], states: &States) {
        let (promised, others): (Vec<&Point>, Vec<&Point>) = points
            .iter()
            .partition(|point| point.origin == Origin::Promise);
        if states.prefix {
            for point in promised
                .iter()
                .chain(&others)
                .filter(|point| point.origin != Origin::Flush)
            {
                self.add(point.position, Choice::Prefix, 1);
            }
        }
        let latest_first: Vec<&Point> = promised
            .into_iter()
            .rev()
            .chain(others.into_iter().rev())
            .collect();
        for point in latest_first
            .iter()
            .filter(|point| states.flushed && point.flushed_is_new)
        {
            self.add(point.position, Choice::Flushed, 1);
        }
        let inside: Vec<&Point> = latest_first
            .into_iter()
            .filter(|point| point.origin != Origin::Flush)
            .collect();
        self.add_relaxed(&inside, states);
    }

    /// Adds what lost or tore writes at these points: where less is lost first.
    fn add_relaxed(&mut self, inside: &[&Point], states: &States) {
        let tears = if states.torn_unit_bytes.is_some() {
            tear_points(self.log, inside, states)
        } else {
            Vec::new()
        };
        self.add_lost(inside, 1, states);
        self.add_torn(&tears, 0);
        let in_flight = tears.iter().filter(|point| point.of == Tears::InFlight);
        let most = inside
            .iter()
            .map(|point| point.pending)
            .chain(in_flight.map(|point| self.log.pending(point.position).len()))
            .max()
            .unwrap_or(0)
            .min(states.reorder);
        for count in 1..=most {
            // What no number is left for cannot be addressed.
            if self.spanned() == u128::MAX {
                break;
            }
            self.add_lost(inside, count + 1, states);
            if states.mixed {
                self.add_torn(&tears, count);
            }
        }
    }

    fn add_lost(&mut self, points: &[&Point], count: usize, states: &States) {
        for point in points.iter().filter(|_| count <= states.reorder) {
            let but = if let Origin::Write(place) = point.origin {
                place
            } else {
                None
            };
            // All of them lost is what `flushed` is.
            let visited = states.flushed && but.is_none() && count == point.pending;
            if count <= point.pending && !visited {
                self.add(
                    point.position,
                    Choice::Lost { count, but },
                    combinations::count(point.pending, count),
                );
            }
        }
    }

    fn add_torn(&mut self, points: &[TearPoint], count: usize) {
        for TearPoint { position, of, .. } in points {
            match *of {
                Tears::Pending { but } => {
                    let ways = TornWays::new(self.log, *position, count, but);
                    let states = self
                        .tears(*position)
                        .map(|(place, _)| ways.of(place))
                        .fold(0, u128::saturating_add);
                    self.add(*position, Choice::Torn { count, but }, states);
                }
                Tears::InFlight => {
                    let pending = self.log.pending(*position).len();
                    let cuts = self.cuts_in_flight(*position).count() as u128;
                    let states = combinations::count(pending, count).saturating_mul(cuts);
                    self.add(*position, Choice::TornInFlight { count }, states);
                }
            }
        }
    }

    fn add(&mut self, position: usize, kind: Choice, states: u128) {
        if states > 0 {
            let end = self.spanned().saturating_add(states);
            self.blocks.push(Block {
                end,
                position,
                kind,
            });
        }
    }

    /// How many states there are to draw from; as many as [`Space::len`] without `sample`.
    /// `u128::MAX` stands for that many or more: those after cannot be visited.
    pub fn spanned(&self) -> u128 {
        self.blocks.last().map_or(0, |block| block.end)
    }

    /// How many states are to be visited.
    pub fn len(&self) -> u128 {
        self.drawn
            .as_ref()
            .map_or(self.spanned(), |drawn| drawn.len() as u128)
    }

    /// Whether there is nothing to visit.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// State number `index`, if there is one.
    pub fn get(&self, index: u128) -> Option<State> {
        let number = match &self.drawn {
            Some(drawn) => *drawn.get(usize::try_from(index).ok()?)?,
            None => index,
        };
        let after = self.blocks.partition_point(|block| block.end <= number);
        let Block { position, kind, .. } = *self.blocks.get(after)?;
        let number = number
            - if after == 0 {
                0
            } else {
                self.blocks[after - 1].end
            };
        let relaxation = match kind {
            Choice::Prefix => Relaxation::Prefix,
            Choice::Flushed => Relaxation::Flushed,
            Choice::Lost { count, but } => {
                Relaxation::Lost(self.lost(position, count, &[but], number))
            }
            Choice::Torn { count, but } => self.torn(position, count, but, number)?,
            Choice::TornInFlight { count } => self.torn_in_flight(position, count, number)?,
        };
        Some(self.log.named(State {
            position,
            relaxation,
        }))
    }

    /// The kinds of the states, in order, each with how many there are. A sample is not looked at.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, u128)> {
        let starts = std::iter::once(0).chain(self.blocks.iter().map(|block| block.end));
        self.blocks.iter().zip(starts).map(|(block, start)| {
            let kind = match block.kind {
                Choice::Prefix => Kind::Prefix,
                Choice::Flushed => Kind::Flushed,
                Choice::Lost { count, .. } => Kind::Lost(count),
                Choice::Torn { count, .. } | Choice::TornInFlight { count } => Kind::Torn(count),
            };
            (kind, block.end - start)
        })
    }

    /// The states in order.
    pub fn iter(&self) -> impl Iterator<Item = State> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// One way, of number `number`, to tear the write with FUA that is in flight at a position, and
    /// to lose `count` of the pending ones.
    fn torn_in_flight(&self, position: usize, count: usize, number: u128) -> Option<Relaxation> {
        let pending = self.log.pending(position).len();
        let ways = combinations::count(pending, count);
        let part = self
            .cuts_in_flight(position)
            .nth((number / ways) as usize)?;
        Some(Relaxation::Torn {
            lost: self.lost(position, count, &[], number % ways),
            place: position,
            from: part.start,
            to: part.end,
        })
    }

    /// One way, of number `number`, to lose `count` of the pending writes, and none of those at
    /// `but`.
    fn lost(
        &self,
        position: usize,
        count: usize,
        but: &[Option<usize>],
        number: u128,
    ) -> Vec<usize> {
        let mut pending = self.log.pending_by_rank(position);
        pending.retain(|write| !but.contains(&Some(write.place)));
        let chosen = combinations::nth(number, pending.len(), count);
        let mut lost: Vec<_> = chosen
            .into_iter()
            .map(|index| pending[index].place)
            .collect();
        lost.sort_unstable();
        lost
    }

    fn torn(
        &self,
        position: usize,
        count: usize,
        but: Option<usize>,
        mut number: u128,
    ) -> Option<Relaxation> {
        let ways = TornWays::new(self.log, position, count, but);
        for (place, part) in self.tears(position) {
            if number < ways.of(place) {
                let lost = self.lost(position, count, &[but, Some(place)], number);
                return Some(Relaxation::Torn {
                    lost,
                    place,
                    from: part.start,
                    to: part.end,
                });
            }
            number -= ways.of(place);
        }
        None
    }

    /// The parts that may be lost of the write in flight at a position.
    fn cuts_in_flight(&self, position: usize) -> impl Iterator<Item = Range<u64>> {
        let unit_bytes = self.torn_unit_bytes;
        let write = self.log.in_flight(position).into_iter();
        write.flat_map(move |write| tear::cuts(write.offset, write.length, unit_bytes))
    }

    /// The parts that may be lost of each pending write: its place, and which of its bytes.
    fn tears(&self, position: usize) -> impl Iterator<Item = (usize, Range<u64>)> {
        let unit_bytes = self.torn_unit_bytes;
        self.log
            .pending_by_rank(position)
            .into_iter()
            .flat_map(move |write| {
                tear::cuts(write.offset, write.length, unit_bytes)
                    .map(move |part| (write.place, part))
            })
    }
}

/// In how many ways so many of the pending writes can be lost beside one that is torn.
struct TornWays {
    but: Option<usize>,
    beside_but: u128,
    beside_another: u128,
}

impl TornWays {
    fn new(log: &Log, position: usize, count: usize, but: Option<usize>) -> Self {
        let others = (log.submitted(position) - log.durable_writes(position)).saturating_sub(1);
        let kept = but.is_some_and(|but| log.is_pending(but, position));
        let beside_another = combinations::count(others.saturating_sub(usize::from(kept)), count);
        Self {
            but,
            beside_but: combinations::count(others, count),
            beside_another,
        }
    }

    fn of(&self, torn: usize) -> u128 {
        if self.but == Some(torn) {
            self.beside_but
        } else {
            self.beside_another
        }
    }
}

/// Where writes are torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TearPoint {
    /// Whether it is none of the caller's.
    is_inner: bool,
    latest_first: Reverse<usize>,
    position: usize,
    of: Tears,
}

/// Which writes are torn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tears {
    /// One that is pending; none of the others at this place is lost.
    Pending {
        but: Option<usize>,
    },
    InFlight,
}

/// Where writes are torn, in the order in which that is visited.
fn tear_points(log: &Log, inside: &[&Point], states: &States) -> Vec<TearPoint> {
    let at = |is_inner, position, of| TearPoint {
        is_inner,
        latest_first: Reverse(position),
        position,
        of,
    };
    let is_promise = |point: &Point| point.origin == Origin::Promise;
    let of_pending = inside.iter().map(|point| {
        let but = match point.origin {
            Origin::Write(place) => place,
            _ => None,
        };
        at(!is_promise(point), point.position, Tears::Pending { but })
    });
    let promised = || inside.iter().filter(|point| is_promise(point));
    let in_flight = log.all_in_flight().filter(|_| states.in_flight);
    let of_flight = in_flight.filter_map(|place| {
        let is_inner = promised().all(|point| point.position != place);
        (states.every_write || !is_inner).then(|| at(is_inner, place, Tears::InFlight))
    });
    let mut all: Vec<_> = of_pending.chain(of_flight).collect();
    all.sort_unstable();
    all
}

/// Where the power may fail, in the order of the log.
fn points(log: &Log, crash_points: &[usize], states: &States) -> Vec<Point> {
    let mut promised = crash_points.to_vec();
    promised.sort_unstable();
    promised.dedup();
    assert!(
        promised.last().is_none_or(|last| *last <= log.len()),
        "a crash point lies past the end of the log"
    );
    let of_promise = |position: &usize| {
        let pending = pending(log, *position);
        Point {
            position: *position,
            origin: Origin::Promise,
            pending,
            flushed_is_new: pending > 0 || !states.prefix,
        }
    };
    let mut points: Vec<_> = promised.iter().map(of_promise).collect();
    if states.every_write {
        points.extend(points_between(log, &promised));
        points.sort_unstable_by_key(|point| point.position);
        mark_new_flushed(log, &mut points, states);
    }
    points
}

/// How many writes that were submitted before a position a crash there may lose.
fn pending(log: &Log, position: usize) -> usize {
    log.submitted(position) - log.durable_writes(position)
}

/// The end of the setup, and the positions after each write and each flush of the run.
fn positions(log: &Log) -> impl Iterator<Item = (usize, Origin)> {
    let setup = (log.durable.min(log.len()), Origin::Write(None));
    let run = log.writes.iter().filter(|write| write.place >= log.durable);
    let writes = run.map(|write| (write.place + 1, Origin::Write(Some(write.place))));
    let flushes = log
        .flushed
        .iter()
        .filter(|position| **position > log.durable);
    let flushes = flushes.map(|position| (*position, Origin::Flush));
    [setup].into_iter().chain(writes).chain(flushes)
}

/// Where `every-write` has the power fail besides, where something happened that is no promise's.
fn points_between(log: &Log, promised: &[usize]) -> Vec<Point> {
    // Nothing happened between two positions if as many writes are submitted and durable there.
    let happened = |position: usize| (log.submitted(position), log.durable_writes(position));
    let before: Vec<_> = promised
        .iter()
        .map(|position| happened(*position))
        .collect();
    let new =
        positions(log).filter(|(position, _)| before.binary_search(&happened(*position)).is_err());
    let point = |(position, origin)| {
        let is_kept = match origin {
            Origin::Write(Some(_)) => {
                log.writes[log.submitted(position) - 1].durable_from > position
            }
            _ => false,
        };
        Point {
            position,
            origin,
            pending: pending(log, position) - usize::from(is_kept),
            flushed_is_new: false,
        }
    };
    new.map(point).collect()
}

/// Finds the points that `every-write` added at which `flushed` is a state of its own.
fn mark_new_flushed(log: &Log, points: &mut [Point], states: &States) {
    let (mut promised_at, mut durable_before) = (log.durable, None);
    for point in points {
        let durable = log.durable_writes(point.position);
        if point.origin == Origin::Promise {
            promised_at = point.position;
        } else if durable_before != Some(durable) {
            // The same content has an earlier name: with the crash right after the newest write
            // that it kept, or where the last promise came into force. There these are lost:
            let submitted = &log.writes[..log.submitted(point.position)];
            let newest_durable = submitted
                .iter()
                .rfind(|write| write.durable_from <= point.position);
            let earliest =
                newest_durable.map_or(promised_at, |write| promised_at.max(write.place + 1));
            point.flushed_is_new = log.submitted(earliest) - durable > states.reorder;
        }
        durable_before = Some(durable);
    }
}
