//! What the kernel makes of flagged requests on a disk without FUA, in any order of events: after
//! block/blk-flush.c, with a loop device's worker and the log behind it. One flush may
//! stand for any number of PREFLUSH and FUA of any requests.

use std::collections::BTreeSet;

use crate::{BlockLog, Kind, NEVER};
use proptest::prelude::*;

use super::{FlaggedRequest, annotate};

const PAGE: u64 = 4096;

/// No answer reaches whoever waits for it, and has it send something new, in less than this.
const ROUND_TRIP_NS: u64 = 1_000;

const REQUESTS_MAX: usize = 14;

/// The steps of block/blk-flush.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The request is in the trace. Whoever sent it may be held up before it goes on.
    Traced,
    Preflush,
    Data,
    Postflush,
    Done,
}

#[derive(Debug, Clone)]
struct Sent {
    preflush: bool,
    fua: bool,
    /// Its page, if it writes one.
    page: Option<u64>,
    step: Step,
    traced_ns: u64,
    /// The requests that were done when it was sent: their writes are what its PREFLUSH is for.
    before: Vec<usize>,
    /// The places of its write in the log: two, where FUSE splits it.
    places: Vec<usize>,
    /// Where the log ended when it was done.
    done_at: usize,
}

/// What is on its way to the disk or back.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Command {
    Data(usize),
    /// For these requests.
    Flush(Vec<usize>),
}

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Event {
    Send {
        preflush: bool,
        fua: bool,
        page: Option<u64>,
    },
    Insert(usize),
    Arrive(usize),
    Answer(usize),
    Complete(usize),
}

#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    /// A lazy disk has writes wait for their answers.
    lazy: bool,
    /// Condition C2 is not heeded: a flush has waited for longer than `FLUSH_PENDING_TIMEOUT`.
    impatient: bool,
    /// Some writes are more than FUSE takes at a time.
    splits: bool,
}

/// One device's queue, its flush machinery, and the disk.
#[derive(Default)]
struct BlockLayer {
    manner: Manner,
    now_ns: u64,
    sent: Vec<Sent>,
    pending: Vec<usize>,
    flush_runs: bool,
    /// Sent to the loop device's worker.
    under_way: Vec<Command>,
    /// Held back by the disk.
    held: Vec<usize>,
    /// Completed by the disk, and when; the block layer does not know yet.
    completed: Vec<(Command, u64)>,
    log: BlockLog,
}

impl BlockLayer {
    fn in_flight(&self, page: u64) -> bool {
        self.sent
            .iter()
            .any(|sent| sent.page == Some(page) && sent.step != Step::Done)
    }

    fn events(&self) -> Vec<Event> {
        let traced = self
            .sent
            .iter()
            .enumerate()
            .filter(|(_, sent)| sent.step == Step::Traced);
        let mut events: Vec<_> = traced.map(|(number, _)| Event::Insert(number)).collect();
        events.extend((0..self.under_way.len()).map(Event::Arrive));
        events.extend((0..self.held.len()).map(Event::Answer));
        events.extend((0..self.completed.len()).map(Event::Complete));
        events
    }

    /// Everything that a file system could send now. None writes what is being written.
    fn sendable(&self) -> Vec<Event> {
        if self.sent.len() >= REQUESTS_MAX {
            return Vec::new();
        }
        let mut events = vec![Event::Send {
            preflush: true,
            fua: false,
            page: None,
        }];
        for page in (0..4).filter(|page| !self.in_flight(*page)) {
            let flags = [(false, false), (false, true), (true, false), (true, true)];
            events.extend(flags.map(|(preflush, fua)| Event::Send {
                preflush,
                fua,
                page: Some(page),
            }));
        }
        events
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Send {
                preflush,
                fua,
                page,
            } => self.send(preflush, fua, page),
            Event::Insert(number) => self.next_step(number),
            Event::Arrive(index) => self.arrive(index),
            Event::Answer(index) => {
                let number = self.held.remove(index);
                self.sent[number]
                    .places
                    .iter()
                    .for_each(|place| self.log.complete(*place));
                self.completed.push((Command::Data(number), self.now_ns));
            }
            Event::Complete(index) => self.complete(index),
        }
    }

    fn send(&mut self, preflush: bool, fua: bool, page: Option<u64>) {
        let done = |number: &usize| self.sent[*number].step == Step::Done;
        let before = (0..self.sent.len()).filter(done).collect();
        let (step, traced_ns) = (Step::Traced, self.now_ns);
        self.sent.push(Sent {
            preflush,
            fua,
            page,
            step,
            traced_ns,
            before,
            places: Vec::new(),
            done_at: NEVER,
        });
    }

    fn complete(&mut self, index: usize) {
        let (command, answered_ns) = self.completed.remove(index);
        self.now_ns = self.now_ns.max(answered_ns + ROUND_TRIP_NS);
        let requests = match command {
            Command::Data(number) => vec![number],
            Command::Flush(requests) => {
                self.flush_runs = false;
                requests
            }
        };
        for number in requests {
            self.next_step(number);
        }
    }

    /// `blk_flush_complete_seq`
    fn next_step(&mut self, number: usize) {
        let sent = &mut self.sent[number];
        let steps = [
            (Step::Preflush, sent.preflush),
            (Step::Data, sent.page.is_some()),
            (Step::Postflush, sent.fua),
            (Step::Done, true),
        ];
        let taken = steps
            .iter()
            .position(|(step, _)| *step == sent.step)
            .map_or(0, |index| index + 1);
        sent.step = steps[taken..]
            .iter()
            .find(|(_, needed)| *needed)
            .expect("the last is needed")
            .0;
        match sent.step {
            Step::Preflush | Step::Postflush => self.pending.push(number),
            Step::Data => self.under_way.push(Command::Data(number)),
            Step::Done => sent.done_at = self.log.len(),
            Step::Traced => unreachable!("it is the first"),
        }
        self.kick_flush();
    }

    /// `blk_kick_flush`
    fn kick_flush(&mut self) {
        let in_sequence = |sent: &Sent| sent.step == Step::Data && (sent.preflush || sent.fua);
        let deferred = self.sent.iter().any(in_sequence) && !self.manner.impatient;
        if self.flush_runs || self.pending.is_empty() || deferred {
            return;
        }
        self.flush_runs = true;
        let requests = std::mem::take(&mut self.pending);
        self.under_way.push(Command::Flush(requests));
    }

    fn arrive(&mut self, index: usize) {
        let command = self.under_way.remove(index);
        match command {
            Command::Data(number) => {
                let sent = &mut self.sent[number];
                let offset = sent.page.expect("it writes") * PAGE;
                let part = if self.manner.splits && number % 3 == 0 {
                    PAGE / 2
                } else {
                    PAGE
                };
                for offset in (offset..offset + PAGE).step_by(part as usize) {
                    sent.places.push(self.log.push_held_write(
                        offset,
                        &vec![1; part as usize],
                        self.now_ns,
                    ));
                    if !self.manner.lazy {
                        self.log.complete(self.log.len() - 1);
                    }
                }
                if self.manner.lazy {
                    return self.held.push(number);
                }
            }
            Command::Flush(_) => self.log.push(Kind::Flush, self.now_ns),
        }
        self.completed.push((command, self.now_ns));
    }

    /// What the trace shows, in microseconds.
    fn trace(&self) -> Vec<FlaggedRequest> {
        let flagged = self.sent.iter().filter(|sent| sent.preflush || sent.fua);
        let request = |sent: &Sent| FlaggedRequest {
            time_ns: sent.traced_ns / 1000 * 1000,
            offset: sent.page.unwrap_or(0) * PAGE,
            length: sent.page.map_or(0, |_| PAGE),
            preflush: sent.preflush,
            fua: sent.fua,
        };
        flagged.map(request).collect()
    }

    /// Whether a write is durable at a position of the log.
    fn is_durable(&self, place: usize, position: usize) -> bool {
        let entry = self.log.entries()[place];
        let by_itself =
            matches!(entry.kind, Kind::Write { fua: true, .. }) && entry.completed <= position;
        by_itself
            || (0..position).any(|flush| self.log.covered_by(flush).any(|covered| covered == place))
    }

    /// The writes that the corrected log says can be lost, and that the disk was asked to keep.
    fn accused(&self) -> BTreeSet<String> {
        let mut accused = BTreeSet::new();
        for (number, sent) in self.sent.iter().enumerate() {
            let start = sent.places.first().copied().unwrap_or(sent.done_at);
            let before = sent
                .before
                .iter()
                .filter(|_| sent.preflush)
                .flat_map(|other| &self.sent[*other].places);
            let lost = before.filter(|place| !self.is_durable(**place, start));
            accused.extend(lost.map(|place| {
                format!("write {place} is lost after the PREFLUSH of request {number}")
            }));
            let lost = sent
                .places
                .iter()
                .filter(|place| sent.fua && !self.is_durable(**place, sent.done_at));
            accused.extend(lost.map(|place| format!("FUA write {place} is lost")));
        }
        accused
    }
}

/// Has `choices` say what happens next and how long it takes, and then everything come to its end.
fn run(manner: Manner, choices: &[(prop::sample::Index, u16)]) -> BlockLayer {
    let mut layer = BlockLayer {
        manner,
        now_ns: 5_000_000,
        ..BlockLayer::default()
    };
    for (choice, pause_ns) in choices {
        layer.now_ns += u64::from(*pause_ns);
        let (running, sendable) = (layer.events(), layer.sendable());
        // As likely something new as something that goes on.
        let repeat = if sendable.is_empty() {
            1
        } else {
            sendable.len().div_ceil(running.len().max(1))
        };
        let repeated = running.iter().copied().cycle().take(running.len() * repeat);
        let events: Vec<_> = repeated.chain(sendable).collect();
        if !events.is_empty() {
            layer.happen(events[choice.index(events.len())]);
        }
    }
    while let Some(event) = layer.events().first() {
        layer.now_ns += ROUND_TRIP_NS;
        layer.happen(*event);
    }
    layer
}

/// Request by request, as a file system that waits for each.
fn one_by_one(requests: &[(bool, bool, Option<u64>)]) -> BlockLayer {
    let mut layer = BlockLayer {
        now_ns: 5_000_000,
        ..BlockLayer::default()
    };
    for (preflush, fua, page) in requests {
        layer.happen(Event::Send {
            preflush: *preflush,
            fua: *fua,
            page: *page,
        });
        while let Some(event) = layer.events().first() {
            layer.now_ns += ROUND_TRIP_NS;
            layer.happen(*event);
        }
    }
    layer
}

#[test]
fn one_by_one_every_flush_that_stands_for_fua_is_told() {
    let requests = [
        (false, false, Some(0)),
        (true, true, Some(1)),
        (false, false, Some(2)),
        (true, false, None),
        (false, true, Some(3)),
    ];
    let mut layer = one_by_one(&requests);
    let trace = layer.trace();
    annotate(&mut layer.log, &trace);
    let kinds: Vec<_> = layer.log.entries().iter().map(|entry| entry.kind).collect();
    let write = |page, fua| Kind::Write {
        offset: page * PAGE,
        length: PAGE as u32,
        fua,
    };
    let first = [write(0, false), Kind::Flush, write(1, true), Kind::FuaFlush];
    let then = [write(2, false), Kind::Flush, write(3, true), Kind::FuaFlush];
    assert_eq!(kinds, [first, then].concat());
}

#[test]
fn the_simulation_notices_a_flush_that_covers_too_little() {
    let mut layer = one_by_one(&[(false, false, Some(0)), (true, true, Some(1))]);
    layer.log.reclassify(1, Kind::FuaFlush);
    assert_eq!(layer.accused().len(), 1);
    let mut layer = one_by_one(&[(false, true, Some(0))]);
    layer.log.reclassify(1, Kind::FuaFlush);
    assert_eq!(layer.accused().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_the_disk_was_asked_to_keep_can_be_lost(
        lazy: bool,
        impatient in prop::bool::weighted(0.2),
        splits in prop::bool::weighted(0.2),
        choices in prop::collection::vec((any::<prop::sample::Index>(), 0..3000_u16), 0..120),
    ) {
        let mut layer = run(Manner { lazy, impatient, splits }, &choices);
        let trace = layer.trace();
        annotate(&mut layer.log, &trace);
        prop_assert_eq!(layer.accused(), BTreeSet::new(), "{:#?}", layer.log.entries());
    }
}
