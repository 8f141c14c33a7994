//! The space of a log's crash states against brute force.

use std::collections::{BTreeMap, BTreeSet};

use pace_rules::disk::{Disk, Log, Relaxation, Request, Space, State, States, Write};
use proptest::prelude::*;

/// The write at a place, which is completed when `late` more requests have come.
fn write(place: usize, fua: bool, late: usize, sectors: u64, priority: u8) -> Request {
    Request::Write(Write {
        fua,
        offset: 0,
        length: sectors * 512,
        completed: place + 1 + late,
        priority,
    })
}

/// One letter a request: w a write, d one of data, u one with FUA, l one that is completed when
/// two more requests have come, f a flush, - nothing. All writes have two sectors.
fn requests(letters: &str) -> Vec<Request> {
    let request = |(place, letter)| match letter {
        'w' => write(place, false, 0, 2, 0),
        'd' => write(place, false, 0, 2, 1),
        'u' => write(place, true, 0, 2, 0),
        'l' => write(place, false, 2, 2, 0),
        'f' => Request::Flush,
        _ => Request::Nothing,
    };
    letters.chars().enumerate().map(request).collect()
}

fn states(words: &str) -> States {
    words.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn visited(letters: &str, durable: usize, crash_points: &[usize], words: &str) -> Vec<String> {
    let log = Log::new(&requests(letters), durable, Disk::Honest);
    Space::new(&log, crash_points, &states(words), 0)
        .iter()
        .map(|state| state.to_string())
        .collect()
}

#[test]
fn todays_states_are_a_prefix_and_what_was_flushed() {
    assert_eq!(
        visited("wfwww", 0, &[2, 5], "prefix,flushed"),
        ["prefix@2", "prefix@5", "flushed@5"]
    );
    assert_eq!(
        visited("wfwww", 0, &[2, 5], "flushed"),
        ["flushed@5", "prefix@2"]
    );
}

#[test]
fn fewer_losses_come_first_and_then_later_crash_points() {
    assert_eq!(
        visited("wwfwww", 0, &[2, 6], "prefix,flushed,reorder:2"),
        [
            "prefix@2",
            "prefix@6",
            "flushed@6",
            "flushed@2", // the ways to lose both at 2 are one: flushed
            "lost-3@6",
            "lost-4@6",
            "lost-5@6",
            "lost-0@2",
            "lost-1@2", //
            "lost-3-4@6",
            "lost-3-5@6",
            "lost-4-5@6",
        ]
    );
}

#[test]
fn later_epochs_are_lost_first_and_data_before_metadata() {
    // The two writes at the start are completed after the flush.
    assert_eq!(
        visited("llfwwd", 0, &[6], "reorder:1"),
        ["lost-5@6", "lost-3@6", "lost-4@6", "lost-0@6", "lost-1@6"]
    );
}

#[test]
fn every_write_is_a_crash_point_and_keeps_its_newest_write() {
    // The crash at 6 is the caller's: there all may be lost. Losing 3 at 4 would be prefix@3.
    assert_eq!(
        visited("wfww-w", 2, &[6], "every-write,reorder:all"),
        [
            "prefix@6",
            "prefix@2",
            "prefix@3",
            "prefix@4", //
            "lost-2@6",
            "lost-3@6",
            "lost-5@6",
            "lost-2@4", //
            "lost-2-3@6",
            "lost-2-5@6",
            "lost-3-5@6",
            "flushed@6",
        ]
    );
    // Nothing happened between 2, the end of the setup, and 3, the caller's.
    assert_eq!(
        visited("wf-w", 2, &[3], "every-write"),
        ["prefix@3", "prefix@4"]
    );
    // After a flush there is nothing new, but what FUA kept alone is.
    assert_eq!(
        visited("wwf", 0, &[], "every-write,flushed"),
        ["prefix@0", "prefix@1", "prefix@2"]
    );
    assert_eq!(
        visited("wu", 0, &[], "every-write,flushed"),
        ["prefix@0", "prefix@1", "prefix@2", "flushed@2"]
    );
    assert_eq!(
        visited("wu", 0, &[], "every-write,reorder:1"),
        ["prefix@0", "prefix@1", "prefix@2", "flushed@2"]
    );
}

#[test]
fn a_long_write_is_torn_and_a_sector_is_not() {
    let requests = [write(0, false, 0, 8, 0), write(1, false, 0, 1, 0)];
    let log = Log::new(&requests, 0, Disk::Honest);
    let space = Space::new(&log, &[2], &states("torn:512"), 0);
    let torn: Vec<_> = space.iter().map(|state| state.to_string()).collect();
    assert_eq!(
        torn,
        [
            "torn-0:2048..4096@2",
            "torn-0:0..2048@2",
            "torn-0:3584..4096@2",
            "torn-0:0..512@2",
            "torn-0:2048..2560@2"
        ]
    );
    let middle = space.get(4).expect("five states");
    let pieces: Vec<_> = log
        .pieces(&middle)
        .map(|piece| (piece.place, piece.bytes))
        .collect();
    assert_eq!(pieces, [(0, 0..2048), (0, 2560..4096), (1, 0..512)]);
}

/// A record of a log is several sectors, and FUA promises nothing before it is completed.
#[test]
fn a_write_with_fua_is_torn_while_it_is_on_its_way_and_not_lost_after_that() {
    assert_eq!(
        visited("wu-", 0, &[3], "every-write,torn:512"),
        [
            "prefix@3",
            "prefix@0",
            "prefix@1",
            "torn-0:512..1024@3",
            "torn-0:0..512@3",
            "torn-0:512..1024@1",
            "torn-0:0..512@1",
            "torn-1:512..1024@1",
            "torn-1:0..512@1",
        ]
    );
    assert_eq!(
        visited("wu", 0, &[1], "reorder:1,torn:512,mixed")[..],
        [
            "flushed@1",
            "torn-0:512..1024@1",
            "torn-0:0..512@1",
            "torn-1:512..1024@1",
            "torn-1:0..512@1",
            "lost-0-torn-1:512..1024@1",
            "lost-0-torn-1:0..512@1",
        ]
    );
    // Without every write, the power fails at the crash points.
    assert_eq!(visited("wu", 0, &[2], "torn:512").len(), 2);
    let log = Log::new(&requests("wu"), 0, Disk::Honest);
    let kept = |state: &str| {
        let state = state.parse().expect("a state");
        assert_eq!(log.check(&state), Ok(()));
        let pieces = log.pieces(&state);
        pieces
            .map(|piece| (piece.place, piece.bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(kept("torn-1:512..1024@1"), [(0, 0..1024), (1, 0..512)]);
    assert_eq!(kept("lost-0-torn-1:0..512@1"), [(1, 512..1024)]);
    assert_eq!(kept("prefix@1"), [(0, 0..1024)]);
    for wrong in [
        "torn-1:0..512@2",
        "torn-1:0..512@0",
        "lost-1@1",
        "torn-0:0..512@0",
        "torn-1:0..1024@1",
    ] {
        assert!(
            log.check(&wrong.parse().expect("a state")).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn a_flush_that_overtook_a_write_does_not_cover_it() {
    let waited = [write(0, false, 0, 1, 0), Request::Flush, Request::Flush];
    let did_not_wait = [write(0, false, 1, 1, 0), Request::Flush, Request::Flush];
    let pending = |log: &[Request], position| Log::new(log, 0, Disk::Honest).pending(position);
    assert_eq!(pending(&waited, 2), []);
    assert_eq!(pending(&did_not_wait, 2), [0]);
    assert_eq!(pending(&did_not_wait, 3), []);
}

#[test]
fn fua_covers_itself_alone_and_once_it_is_answered() {
    let requests = [
        write(0, false, 0, 1, 0),
        write(1, true, 1, 1, 0),
        Request::Nothing,
    ];
    let log = Log::new(&requests, 0, Disk::Honest);
    assert_eq!(log.pending(2), [0, 1]);
    assert_eq!(log.pending(3), [0]);
    assert_eq!(Log::new(&requests, 0, Disk::DropFua).pending(3), [0, 1]);
}

#[test]
fn an_ignored_flush_leaves_all_to_be_lost() {
    let requests = requests("wfwufw");
    assert_eq!(
        Log::new(&requests, 0, Disk::DropFlush).pending(6),
        [0, 2, 5]
    );
    assert_eq!(Log::new(&requests, 2, Disk::DropFlush).pending(6), [2, 5]);
    let lost = Log::new(&requests, 2, Disk::LoseWrite(1));
    assert_eq!(lost.pending(6), [5]);
    let kept: Vec<_> = lost
        .pieces(&"prefix@6".parse().unwrap())
        .map(|piece| piece.place)
        .collect();
    assert_eq!(kept, [0, 3, 5]);
}

#[test]
fn a_space_too_large_to_walk_is_counted_and_addressed() {
    let writes = |count| {
        (0..count)
            .map(|place| write(place, false, 0, 2, 0))
            .collect::<Vec<_>>()
    };
    let log = Log::new(&writes(60), 0, Disk::Honest);
    let space = Space::new(&log, &[60], &states("prefix,reorder:all"), 0);
    assert_eq!(space.len(), 1 << 60);
    assert_eq!(
        space.get((1 << 60) - 1).map(|state| state.to_string()),
        Some("flushed@60".into())
    );
    assert_eq!(space.get(1 << 60), None);
    // The states after each write add up to each set of writes once.
    assert_eq!(
        Space::new(&log, &[], &states("every-write,reorder:all"), 0).len(),
        1 << 60
    );

    let log = Log::new(&writes(300), 0, Disk::Honest);
    let space = Space::new(&log, &[300], &states("all,sample:50"), 3);
    assert_eq!((space.spanned(), space.len()), (u128::MAX, 50));
    assert_eq!(
        space
            .iter()
            .filter(|state| log.check(state).is_ok())
            .count(),
        50
    );
}

#[test]
fn what_a_disk_may_not_lose_is_refused() {
    let log = Log::new(&requests("wfw-"), 0, Disk::Honest);
    for (state, why) in [
        ("prefix@5", "no crash at 5: the log has 4 requests"),
        (
            "lost-0@4",
            "a crash at 4 cannot lose the write at 0: it was durable by then",
        ),
        (
            "lost-2@2",
            "a crash at 2 cannot lose 2: it is not the place of a write before it",
        ),
        (
            "lost-1@4",
            "a crash at 4 cannot lose 1: it is not the place of a write before it",
        ),
        (
            "torn-2:0..1024@4",
            "bytes 0..1024 are not a part of the write at 2, which has 1024",
        ),
        (
            "lost-0-torn-2:512..1024@4",
            "a crash at 4 cannot lose the write at 0: it was durable by then",
        ),
        (
            "torn-2:512..2048@4",
            "bytes 512..2048 are not a part of the write at 2, which has 1024",
        ),
    ] {
        assert_eq!(
            log.check(&state.parse().unwrap())
                .expect_err(state)
                .to_string(),
            why
        );
    }
    assert_eq!(
        log.state(3, &[2]).map(|state| state.to_string()),
        Ok("flushed@3".into())
    );
    assert_eq!(
        log.state(3, &[]).map(|state| state.to_string()),
        Ok("prefix@3".into())
    );
    assert!(log.state(3, &[0]).is_err());
}

/// A log and its crash points, and what is true of them, told by looking for the flush that
/// covers a write.
#[derive(Debug, Clone)]
struct Case {
    requests: Vec<Request>,
    durable: usize,
    crash_points: Vec<usize>,
    disk: Disk,
}

/// The crash point at which something was promised last, and the places of the writes kept.
type Left = (Option<usize>, Vec<usize>);

impl Case {
    fn log(&self) -> Log {
        Log::new(&self.requests, self.durable, self.disk)
    }

    /// The places of the writes before a position that happened at all.
    fn submitted(&self, position: usize) -> Vec<usize> {
        let mut run_writes = 0;
        let happened = |place: &usize| {
            let is_write = matches!(self.requests[*place], Request::Write(_));
            run_writes += u32::from(is_write && *place >= self.durable);
            is_write && (*place < self.durable || self.disk != Disk::LoseWrite(run_writes))
        };
        (0..position).filter(happened).collect()
    }

    fn must_keep(&self, place: usize, position: usize) -> bool {
        let Request::Write(write) = self.requests[place] else {
            panic!("no write")
        };
        let flushed =
            (write.completed..position).any(|place| self.requests[place] == Request::Flush);
        let by_itself = write.fua && write.completed <= position;
        place < self.durable
            || flushed && self.disk != Disk::DropFlush
            || by_itself && self.disk != Disk::DropFua
    }

    /// The write with FUA after a position that would be durable as soon as it is completed.
    fn in_flight(&self, position: usize) -> Option<usize> {
        let is_write = self.submitted((position + 1).min(self.requests.len()));
        let is_next = is_write.last() == Some(&position) && position >= self.durable;
        is_next
            .then_some(position)
            .filter(|place| self.must_keep(*place, place + 1))
    }

    fn pending(&self, position: usize) -> Vec<usize> {
        self.submitted(position)
            .into_iter()
            .filter(|place| !self.must_keep(*place, position))
            .collect()
    }

    fn promised_at(&self, position: usize) -> Option<usize> {
        if self.crash_points.contains(&position) {
            return Some(position);
        }
        let what = |position| (self.submitted(position), self.pending(position));
        let points = self.crash_points.iter().copied();
        let equal = points
            .clone()
            .filter(|point| what(*point) == what(position))
            .max();
        equal.or(points.filter(|point| *point <= position).max())
    }

    fn left(&self, position: usize, lost: &[usize]) -> Left {
        let kept = self
            .submitted(position)
            .into_iter()
            .filter(|place| !lost.contains(place))
            .collect();
        (self.promised_at(position), kept)
    }

    /// What is left after a crash at each of the positions if up to `most` writes are lost.
    fn reordered(&self, positions: impl Iterator<Item = usize>, most: usize) -> BTreeSet<Left> {
        let mut left = BTreeSet::new();
        for position in positions {
            let pending = self.pending(position);
            for bits in
                (0..1_u32 << pending.len()).filter(|bits| bits.count_ones() as usize <= most)
            {
                let lost = (0..pending.len())
                    .filter(|index| bits >> index & 1 == 1)
                    .map(|index| pending[index]);
                left.insert(self.left(position, &lost.collect::<Vec<_>>()));
            }
        }
        left
    }

    /// What is left if one write is torn at sectors and up to `most` others are lost.
    fn torn(&self, positions: impl Iterator<Item = usize>, most: usize) -> BTreeSet<(Left, Tear)> {
        let mut left = BTreeSet::new();
        for position in positions {
            let pending = self.pending(position);
            for place in pending.iter().chain(&self.in_flight(position)) {
                let Request::Write(write) = self.requests[*place] else {
                    panic!("no write")
                };
                let others: Vec<_> = pending.iter().filter(|other| *other != place).collect();
                for bits in
                    (0..1_u32 << others.len()).filter(|bits| bits.count_ones() as usize <= most)
                {
                    let lost = (0..others.len())
                        .filter(|index| bits >> index & 1 == 1)
                        .map(|index| *others[index]);
                    let kept = self.left(position, &lost.collect::<Vec<_>>());
                    left.extend(
                        parts(write.length / 512)
                            .map(|(from, to)| (kept.clone(), (*place, from * 512, to * 512))),
                    );
                }
            }
        }
        left
    }

    fn every_position(&self) -> impl Iterator<Item = usize> {
        self.crash_points
            .clone()
            .into_iter()
            .chain(self.durable..=self.requests.len())
    }

    /// What was flushed by then, at the crash points and after each write and flush.
    fn flushed(&self) -> BTreeSet<Left> {
        let asked = |place: &usize| {
            self.requests[*place] == Request::Flush || self.submitted(place + 1).contains(place)
        };
        let after = (self.durable..self.requests.len())
            .filter(asked)
            .map(|place| place + 1);
        let positions = self.crash_points.iter().copied().chain(after);
        positions
            .map(|position| self.left(position, &self.pending(position)))
            .collect()
    }

    /// What the states of a space leave; each once, or the test fails.
    fn visited(&self, words: &str) -> BTreeSet<Left> {
        let log = self.log();
        let space = Space::new(&log, &self.crash_points, &states(words), 0);
        let left: Vec<_> = space
            .iter()
            .map(|state| self.left(state.position, &log.lost(&state)))
            .collect();
        let set: BTreeSet<_> = left.iter().cloned().collect();
        assert_eq!(
            set.len(),
            left.len(),
            "visited twice: {:?}",
            space.iter().collect::<Vec<_>>()
        );
        set
    }
}

/// A write that is torn, and which of its bytes are lost.
type Tear = (usize, u64, u64);

fn tear(relaxation: &Relaxation) -> Option<Tear> {
    if let Relaxation::Torn {
        place, from, to, ..
    } = relaxation
    {
        Some((*place, *from, *to))
    } else {
        None
    }
}

/// What may be missing of a write of some sectors: the halves, the ends, one in the middle.
fn parts(sectors: u64) -> impl Iterator<Item = (u64, u64)> {
    let half = sectors / 2;
    let parts = BTreeSet::from([
        (0, half),
        (half, sectors),
        (0, 1),
        (sectors.saturating_sub(1), sectors),
        (half, half + 1),
    ]);
    // Of two sectors and of three, some of these are the same.
    parts.into_iter().filter(move |_| sectors > 1)
}

fn case(writes_most: usize) -> impl Strategy<Value = Case> {
    let late = prop_oneof![3 => Just(0), 1 => 0..5_usize];
    let write = (prop::bool::weighted(0.25), late, 0..10_u64, 0..2_u8);
    let request = prop_oneof![5 => write.prop_map(Some), 2 => Just(None)];
    let nothing = prop::collection::vec(prop::bool::weighted(0.2), writes_most);
    let disk = prop_oneof![
        6 => Just(Disk::Honest),
        1 => Just(Disk::DropFlush),
        1 => Just(Disk::DropFua),
        1 => (1..4_u32).prop_map(Disk::LoseWrite),
    ];
    let log = prop::collection::vec(request, 0..=writes_most);
    let points = prop::collection::vec(any::<prop::sample::Index>(), 0..4);
    (log, nothing, 0..3_usize, points, disk).prop_map(|(log, nothing, durable, points, disk)| {
        let mut requests = Vec::new();
        for (request, nothing) in log.into_iter().zip(nothing) {
            let place = requests.len();
            requests.push(match request {
                Some((fua, late, sectors, priority)) => {
                    self::write(place, fua, late, sectors, priority)
                }
                None => Request::Flush,
            });
            requests.extend(nothing.then_some(Request::Nothing));
        }
        let mut crash_points: Vec<_> = points
            .iter()
            .map(|point| point.index(requests.len() + 1))
            .collect();
        crash_points.sort_unstable();
        crash_points.dedup();
        let durable = durable.min(requests.len());
        Case {
            requests,
            durable,
            crash_points,
            disk,
        }
    })
}

const WORDS: [&str; 10] = [
    "prefix",
    "flushed",
    "prefix,flushed",
    "every-write",
    "every-write,flushed",
    "prefix,flushed,reorder:2,torn:512",
    "flushed,every-write,reorder:1,torn:1024",
    "reorder:all",
    "flushed,every-write,reorder:2,torn:512,mixed",
    "all",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn all_reorderings_are_those_of_brute_force(case in case(8)) {
        let points = || case.crash_points.iter().copied();
        prop_assert_eq!(case.visited("prefix,reorder:all"), case.reordered(points(), usize::MAX));
        prop_assert_eq!(case.visited("prefix,flushed,reorder:all"), case.reordered(points(), usize::MAX));
        prop_assert_eq!(case.visited("every-write,reorder:all"), case.reordered(case.every_position(), usize::MAX));
    }

    #[test]
    fn some_reorderings_are_those_of_brute_force(case in case(8), most in 1..4_usize) {
        let points = || case.crash_points.iter().copied();
        prop_assert_eq!(case.visited(&format!("prefix,reorder:{most}")), case.reordered(points(), most));
        let mut expected = case.reordered(case.every_position(), most);
        prop_assert_eq!(&case.visited(&format!("every-write,reorder:{most}")), &expected);
        expected.extend(case.flushed());
        prop_assert_eq!(&case.visited(&format!("every-write,flushed,reorder:{most}")), &expected);
    }

    #[test]
    fn every_write_and_flushed_are_those_of_brute_force(case in case(12)) {
        let mut expected: BTreeSet<_> = case.every_position().map(|position| case.left(position, &[])).collect();
        prop_assert_eq!(&case.visited("every-write"), &expected);
        expected.extend(case.flushed());
        prop_assert_eq!(&case.visited("every-write,flushed"), &expected);
    }

    #[test]
    fn no_state_breaks_a_barrier(case in case(8), words in prop::sample::select(&WORDS[..])) {
        let log = case.log();
        for state in Space::new(&log, &case.crash_points, &states(words), 0).iter() {
            prop_assert_eq!(log.check(&state), Ok(()));
            prop_assert_eq!(log.pending(state.position), case.pending(state.position));
            let pieces: Vec<_> = log.pieces(&state).collect();
            prop_assert!(pieces.is_sorted_by(|a, b| (a.place, a.bytes.end) < (b.place, b.bytes.start + 1)));
            let whole = |place: usize| {
                let Request::Write(write) = case.requests[place] else { panic!("no write") };
                pieces.iter().any(|piece| piece.place == place && piece.bytes == (0..write.length))
            };
            let submitted = case.submitted(state.position);
            let in_flight = tear(&state.relaxation).map(|(place, ..)| place).filter(|place| *place == state.position);
            prop_assert!(in_flight.is_none() || in_flight == case.in_flight(state.position));
            prop_assert!(pieces.iter().all(|piece| submitted.contains(&piece.place) || in_flight == Some(piece.place)));
            prop_assert!(submitted.iter().all(|place| whole(*place) || !case.must_keep(*place, state.position)));
        }
    }

    #[test]
    fn a_torn_state_loses_a_part_of_one_pending_write(case in case(8), unit_bytes in prop::sample::select(vec![512, 1024])) {
        let log = case.log();
        let words = states(&format!("every-write,torn:{unit_bytes}"));
        let mut torn_places = BTreeMap::<_, usize>::new();
        for state in Space::new(&log, &case.crash_points, &words, 0).iter() {
            let Relaxation::Torn { place, .. } = state.relaxation else { continue };
            *torn_places.entry((state.position, place)).or_default() += 1;
            let in_flight = case.in_flight(state.position).filter(|in_flight| *in_flight == place);
            prop_assert!(in_flight.is_some() || case.pending(state.position).contains(&place));
            for written in case.submitted(state.position).into_iter().chain(in_flight) {
                let Request::Write(Write { length, .. }) = case.requests[written] else { panic!("no write") };
                let kept = log.pieces(&state).filter(|piece| piece.place == written);
                let kept: u64 = kept.map(|piece| piece.bytes.end - piece.bytes.start).sum();
                prop_assert_eq!(written == place, kept < length);
                prop_assert!(written != place || kept > 0);
            }
        }
        // Each that is long enough, at each crash point of the caller.
        for position in &case.crash_points {
            for place in case.pending(*position).into_iter().chain(case.in_flight(*position)) {
                let Request::Write(Write { length, .. }) = case.requests[place] else { panic!("no write") };
                let ways = match length.div_ceil(unit_bytes) { 0 | 1 => 0, 2 => 2, 3 => 4, _ => 5 };
                prop_assert_eq!(torn_places.get(&(*position, place)).copied().unwrap_or(0), ways);
            }
        }
    }

    #[test]
    fn a_tear_beside_lost_writes_is_one_of_brute_force(case in case(7), most in 1..4_usize, every_write: bool) {
        let log = case.log();
        let visited = |words: &str| {
            let space = Space::new(&log, &case.crash_points, &states(words), 0);
            let torn = |state: State| Some((case.left(state.position, &log.lost(&state)), tear(&state.relaxation)?));
            let torn: Vec<_> = space.iter().filter_map(torn).collect();
            let set: BTreeSet<_> = torn.iter().cloned().collect();
            assert_eq!(set.len(), torn.len(), "visited twice");
            set
        };
        let expected = |most| {
            let inside = case.every_position().filter(|position| every_write || case.crash_points.contains(position));
            case.torn(inside, most)
        };
        let words = format!("{},reorder:{most},torn:512", if every_write { "every-write" } else { "prefix" });
        prop_assert_eq!(visited(&format!("{words},mixed")), expected(most));
        prop_assert_eq!(visited(&words), expected(0));
    }

    #[test]
    fn each_state_has_one_number_and_one_name(case in case(8), words in prop::sample::select(&WORDS[..])) {
        let log = case.log();
        let space = Space::new(&log, &case.crash_points, &states(words), 0);
        let all: Vec<_> = space.iter().collect();
        prop_assert_eq!(all.len() as u128, space.len());
        prop_assert_eq!(space.get(space.len()), None);
        let mut seen = BTreeSet::new();
        for (index, state) in all.iter().enumerate() {
            prop_assert_eq!(space.get(index as u128), Some(state.clone()));
            prop_assert_eq!(&state.to_string().parse::<State>().unwrap(), state);
            let tear = tear(&state.relaxation);
            prop_assert!(seen.insert((case.left(state.position, &log.lost(state)), tear)), "{} is visited twice", state);
            if tear.is_none() {
                prop_assert_eq!(log.state(state.position, &log.lost(state)), Ok(state.clone()));
            }
        }
    }

    #[test]
    fn the_likelier_bugs_come_first(case in case(8)) {
        let log = case.log();
        let space = Space::new(&log, &case.crash_points, &states("every-write,flushed,reorder:3,torn:512,mixed"), 0);
        let order = space.iter().map(|state| {
            let class = match &state.relaxation {
                Relaxation::Prefix => 0,
                Relaxation::Flushed if case.crash_points.contains(&state.position) => 1,
                // At another crash point it may be one of either kind.
                Relaxation::Flushed => return None,
                Relaxation::Lost(lost) => 2 * lost.len(),
                Relaxation::Torn { lost, .. } => 2 * lost.len() + 3,
            };
            let inner = !case.crash_points.contains(&state.position);
            let position = if class == 0 { state.position } else { usize::MAX - state.position };
            Some((class, inner, position))
        });
        prop_assert!(order.flatten().is_sorted());
    }

    #[test]
    fn a_sample_is_of_the_space_and_the_seed_says_which(case in case(8), size in 1..20_u32, seed: u64) {
        let log = case.log();
        let of = |words: &str| Space::new(&log, &case.crash_points, &states(words), seed);
        let all: Vec<_> = of("all").iter().collect();
        let drawn: Vec<_> = of(&format!("sample:{size}")).iter().collect();
        prop_assert_eq!(drawn.len(), all.len().min(size as usize));
        // In the same order, so none is there twice.
        let mut rest = all.iter();
        prop_assert!(drawn.iter().all(|state| rest.any(|other| other == state)));
        prop_assert_eq!(&of(&format!("all,sample:{size}")).iter().collect::<Vec<_>>(), &drawn);
        prop_assert_eq!(of(&format!("sample:{size}")).spanned(), all.len() as u128);
    }
}
