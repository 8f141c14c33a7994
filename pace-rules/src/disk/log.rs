//! What a disk was asked to do, and since when each write of it is safe.

use std::cmp::Reverse;
use std::ops::Range;

use super::{Disk, Relaxation, State};

/// What matters of a request to a disk. A request's index in the log is its *place*; a *position*
/// lies between two requests and is the number of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A write, or a discard, which is one of zeros.
    Write(Write),
    /// Every write that was completed before it was submitted is durable when it is completed,
    /// which counts as right after itself; no other is.
    Flush,
    /// No effect on what is durable.
    Nothing,
}

/// A write to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Forced unit access: durable, and nothing else with it, when it is completed.
    pub fua: bool,
    /// Where on the disk, in bytes.
    pub offset: u64,
    /// How much, in bytes.
    pub length: u64,
    /// The position at which it was completed: one more than its own place for a disk that
    /// answers at once, `usize::MAX` if it never was.
    pub completed: usize,
    /// Among equals, those with the greater number are lost first: data before metadata is where
    /// bugs are. 0 where nothing is known.
    pub priority: u8,
}

/// A log as one disk keeps it: which writes a crash at a position may cost, and which none may.
#[derive(Debug, Clone)]
pub struct Log {
    requests: usize,
    pub(super) durable: usize,
    /// In log order, without the one that never happened.
    pub(super) writes: Vec<KnownWrite>,
    /// The positions after the flushes.
    pub(super) flushed: Vec<usize>,
    /// Each write's `durable_from`, ascending.
    durable_from: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct KnownWrite {
    pub(super) place: usize,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The first position at which no crash may cost it.
    pub(super) durable_from: usize,
    /// The first position at which that is so of all writes up to here.
    settled_from: usize,
    /// In which order the writes are lost.
    rank: usize,
}

/// Some bytes of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The write's place in the log.
    pub place: usize,
    /// Which of its bytes, counted from its start.
    pub bytes: Range<u64>,
}

/// Why a log has no such crash state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchState {
    /// The crash lies past the end.
    #[error("no crash at {position}: the log has {requests} requests")]
    BehindTheEnd {
        /// Where the crash was to be.
        position: usize,
        /// How long the log is.
        requests: usize,
    },
    /// There is nothing there that can be lost.
    #[error("a crash at {position} cannot lose {place}: it is not the place of a write before it")]
    NoWrite {
        /// Where the crash was to be.
        position: usize,
        /// What was to be lost.
        place: usize,
    },
    /// A flush or FUA had covered it.
    #[error("a crash at {position} cannot lose the write at {place}: it was durable by then")]
    Durable {
        /// Where the crash was to be.
        position: usize,
        /// What was to be lost.
        place: usize,
    },
    /// Not a part of the write.
    #[error("bytes {from}..{to} are not a part of the write at {place}, which has {length}")]
    NoPart {
        /// What was to be torn.
        place: usize,
        /// The first byte to be lost.
        from: u64,
        /// The first one after them.
        to: u64,
        /// How long the write is.
        length: u64,
    },
}

/// The writes of a log that a disk does not lose at once: when each is durable, and in which order
/// they are lost.
fn known_writes(
    requests: &[Request],
    durable: usize,
    disk: Disk,
    flushes: &[usize],
) -> Vec<KnownWrite> {
    let mut writes = Vec::new();
    let mut order = Vec::new();
    let (mut run_writes, mut settled_from) = (0, 0);
    for (place, request) in requests.iter().enumerate() {
        let Request::Write(write) = *request else {
            continue;
        };
        assert!(
            write.completed > place,
            "the write at {place} was completed before it was submitted"
        );
        run_writes += u32::from(place >= durable);
        if place >= durable && disk == Disk::LoseWrite(run_writes) {
            continue;
        }
        let durable_from = if place < durable {
            place + 1
        } else {
            durable_from(write.fua, write.completed, flushes, disk)
        };
        settled_from = settled_from.max(durable_from);
        let epoch = flushes.partition_point(|flush| *flush < place);
        order.push((Reverse(epoch), Reverse(write.priority), writes.len()));
        let Write { offset, length, .. } = write;
        writes.push(KnownWrite {
            place,
            offset,
            length,
            durable_from,
            settled_from,
            rank: 0,
        });
    }
    order.sort_unstable();
    for (rank, (_, _, write)) in order.into_iter().enumerate() {
        writes[write].rank = rank;
    }
    writes
}

impl Log {
    /// Reads a log, in the order of submission, as `disk` keeps it. The first `durable` requests
    /// belong to the setup, which every disk kept.
    ///
    /// # Panics
    /// If a write was completed before it was submitted.
    pub fn new(requests: &[Request], durable: usize, disk: Disk) -> Self {
        let is_flush = |place: &usize| requests[*place] == Request::Flush;
        let flushes: Vec<_> = (0..requests.len()).filter(is_flush).collect();
        let writes = known_writes(requests, durable, disk, &flushes);
        let mut durable_from: Vec<_> = writes.iter().map(|write| write.durable_from).collect();
        durable_from.sort_unstable();
        let flushed = flushes.iter().map(|place| place + 1).collect();
        Self {
            requests: requests.len(),
            durable,
            writes,
            flushed,
            durable_from,
        }
    }

    /// How many requests it has: also the position after the last one.
    pub fn len(&self) -> usize {
        self.requests
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.requests == 0
    }

    /// The places of the writes that a crash at `position` may keep, lose or tear: those
    /// submitted before it that neither a flush nor FUA had covered.
    pub fn pending(&self, position: usize) -> Vec<usize> {
        let window = self.window(position).iter();
        window
            .filter(|write| write.durable_from > position)
            .map(|write| write.place)
            .collect()
    }

    /// The same, those first that are to be lost first.
    pub(super) fn pending_by_rank(&self, position: usize) -> Vec<KnownWrite> {
        let window = self.window(position).iter();
        let mut pending: Vec<_> = window
            .filter(|write| write.durable_from > position)
            .copied()
            .collect();
        pending.sort_unstable_by_key(|write| write.rank);
        pending
    }

    /// From the oldest pending write to the newest one.
    fn window(&self, position: usize) -> &[KnownWrite] {
        let first = self
            .writes
            .partition_point(|write| write.settled_from <= position);
        // After the first, which is pending, come only writes submitted later.
        self.writes
            .get(first..self.submitted(position))
            .unwrap_or_default()
    }

    /// Whether a crash at a position may cost the write at a place.
    pub(super) fn is_pending(&self, place: usize, position: usize) -> bool {
        self.may_lose(position, place).is_ok()
    }

    /// The write that was on its way when the power failed at a position, and that would have been
    /// durable as soon as it was completed: one with FUA, right after the position. The disk may
    /// have written a part of it. Of other writes a crash after them may cost as much.
    pub(super) fn in_flight(&self, position: usize) -> Option<&KnownWrite> {
        let next = self.writes.get(self.submitted(position))?;
        let is_in_flight =
            next.place == position && position >= self.durable && next.durable_from == position + 1;
        is_in_flight.then_some(next)
    }

    /// Whether there is one.
    pub(crate) fn is_in_flight(&self, position: usize) -> bool {
        self.in_flight(position).is_some()
    }

    /// The places of all writes of the run that can be so.
    pub(super) fn all_in_flight(&self) -> impl Iterator<Item = usize> {
        let places = self.writes.iter().map(|write| write.place);
        places.filter(|place| self.in_flight(*place).is_some())
    }

    /// How many writes were submitted before a position.
    pub(crate) fn submitted(&self, position: usize) -> usize {
        self.writes.partition_point(|write| write.place < position)
    }

    /// Whether the last request before a position is a flush.
    pub(crate) fn is_behind_flush(&self, position: usize) -> bool {
        self.flushed.binary_search(&position).is_ok()
    }

    /// How many writes no crash at a position may cost.
    pub(crate) fn durable_writes(&self, position: usize) -> usize {
        self.durable_from.partition_point(|from| *from <= position)
    }

    /// The crash state at `position` that lost the writes at the places `lost` and no others.
    ///
    /// # Errors
    /// If the disk may not lose one of them.
    pub fn state(&self, position: usize, lost: &[usize]) -> Result<State, NoSuchState> {
        let mut lost = lost.to_vec();
        lost.sort_unstable();
        lost.dedup();
        let state = State {
            position,
            relaxation: Relaxation::Lost(lost),
        };
        self.check(&state)?;
        Ok(self.named(state))
    }

    /// Gives the states that lost nothing, or all they could, their one name.
    pub(super) fn named(&self, state: State) -> State {
        let State {
            position,
            relaxation,
        } = state;
        let pending = || self.submitted(position) - self.durable_writes(position);
        let relaxation = match relaxation {
            Relaxation::Lost(lost) if lost.is_empty() => Relaxation::Prefix,
            Relaxation::Lost(lost) if lost.len() == pending() => Relaxation::Flushed,
            Relaxation::Flushed if pending() == 0 => Relaxation::Prefix,
            other => other,
        };
        State {
            position,
            relaxation,
        }
    }

    /// Whether the disk may be left in a state, which may come from another log.
    ///
    /// # Errors
    /// If it may not, or if the log has nothing of the kind.
    pub fn check(&self, state: &State) -> Result<(), NoSuchState> {
        let position = state.position;
        if position > self.requests {
            return Err(NoSuchState::BehindTheEnd {
                position,
                requests: self.requests,
            });
        }
        match &state.relaxation {
            Relaxation::Prefix | Relaxation::Flushed => Ok(()),
            Relaxation::Lost(lost) => lost
                .iter()
                .try_for_each(|place| self.may_lose(position, *place).map(drop)),
            Relaxation::Torn {
                lost,
                place,
                from,
                to,
            } => {
                let (place, from, to) = (*place, *from, *to);
                lost.iter()
                    .try_for_each(|place| self.may_lose(position, *place).map(drop))?;
                let in_flight = self.in_flight(position);
                let length = match in_flight.filter(|write| write.place == place) {
                    Some(write) => write.length,
                    None => self.may_lose(position, place)?.length,
                };
                let part = from < to && to <= length && to - from < length;
                part.then_some(()).ok_or(NoSuchState::NoPart {
                    place,
                    from,
                    to,
                    length,
                })
            }
        }
    }

    fn may_lose(&self, position: usize, place: usize) -> Result<&KnownWrite, NoSuchState> {
        let write = self
            .writes
            .binary_search_by_key(&place, |write| write.place)
            .ok()
            .map(|index| &self.writes[index]);
        match write.filter(|_| place < position) {
            None => Err(NoSuchState::NoWrite { position, place }),
            Some(write) if write.durable_from <= position => {
                Err(NoSuchState::Durable { position, place })
            }
            Some(write) => Ok(write),
        }
    }

    /// The places of the writes that a state lost altogether, in log order.
    pub fn lost(&self, state: &State) -> Vec<usize> {
        match &state.relaxation {
            Relaxation::Prefix => Vec::new(),
            Relaxation::Flushed => self.pending(state.position),
            Relaxation::Lost(lost) | Relaxation::Torn { lost, .. } => lost.clone(),
        }
    }

    /// What a state is made of, in log order: the bytes of each write that is still there. A
    /// torn write comes as the one or two pieces that are left of it.
    pub fn pieces<'a>(&'a self, state: &'a State) -> impl Iterator<Item = Piece> + 'a {
        let writes = self.writes[..self.submitted(state.position)].iter();
        let in_flight = self.in_flight(state.position).filter(|write| {
            matches!(&state.relaxation, Relaxation::Torn { place, .. } if *place == write.place)
        });
        writes.chain(in_flight).flat_map(move |write| {
            let (place, length) = (write.place, write.length);
            let [head, tail] = match &state.relaxation {
                Relaxation::Flushed if write.durable_from > state.position => [None, None],
                Relaxation::Lost(lost) | Relaxation::Torn { lost, .. }
                    if lost.binary_search(&place).is_ok() =>
                {
                    [None, None]
                }
                Relaxation::Torn {
                    place: torn,
                    from,
                    to,
                    ..
                } if *torn == place => [Some(0..*from), Some(*to..length)]
                    .map(|bytes| bytes.filter(|bytes| !bytes.is_empty())),
                _ => [Some(0..length), None],
            };
            head.into_iter()
                .chain(tail)
                .map(move |bytes| Piece { place, bytes })
        })
    }
}

/// The first position at which no crash may cost a write.
fn durable_from(fua: bool, completed: usize, flushes: &[usize], disk: Disk) -> usize {
    let by_itself = if fua && disk != Disk::DropFua {
        completed
    } else {
        usize::MAX
    };
    let flush = flushes.get(flushes.partition_point(|flush| *flush < completed));
    let by_flush = flush
        .filter(|_| disk != Disk::DropFlush)
        .map_or(usize::MAX, |flush| flush + 1);
    by_itself.min(by_flush)
}
