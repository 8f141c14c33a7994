use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::{BlockCount, BlockRequest, BlockSpace, BlockState, RecordedDisk};
use crate::disk::{self, Disk, Log, Request, Write};
use crate::nodes::Explore;
use trace::{Action, Data, Event, Message, Node, Run};

/// What a node does, one after the other. The time of each is its place in the list of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Write,
    /// With FUA.
    Fua,
    Flush,
    /// To a node.
    Send(usize),
    /// The same in a thread of its own, which began to send so many steps earlier.
    SendAside(usize, u64),
    /// All that was sent to it and not received yet, from a node.
    Receive(usize),
    Mark,
}

const NODES: usize = 3;

/// The last node has no disk.
fn made(done: &[(usize, Done)]) -> (Run, Vec<Option<RecordedDisk>>) {
    let mut nodes = vec![Node::default(); NODES];
    let mut requests: Vec<(Vec<Request>, Vec<u64>)> = vec![Default::default(); NODES];
    let (mut sent, mut received) = ([[0; NODES]; NODES], [[0; NODES]; NODES]);
    for (time, (node, done)) in done.iter().enumerate() {
        let (node, time_ns) = (*node, 10 * time as u64);
        let message = |from: usize, to: usize, first, after| Message {
            stream: (from * NODES + to) as u32,
            from: first,
            to: after,
        };
        let action = match *done {
            Done::Write | Done::Fua | Done::Flush if node == NODES - 1 => continue,
            Done::Write | Done::Fua => {
                let place = requests[node].0.len();
                let offset = 1024 * place as u64;
                let write = Write {
                    fua: *done == Done::Fua,
                    offset,
                    length: 1024,
                    completed: place + 1,
                    priority: 0,
                };
                requests[node].0.push(Request::Write(write));
                requests[node].1.push(time_ns);
                continue;
            }
            Done::Flush => {
                requests[node].0.push(Request::Flush);
                requests[node].1.push(time_ns);
                continue;
            }
            Done::Send(to) | Done::SendAside(to, _) => {
                sent[node][to] += 1;
                Action::Send(message(node, to, sent[node][to] - 1, sent[node][to]))
            }
            Done::Receive(from) if received[from][node] < sent[from][node] => {
                let first = std::mem::replace(&mut received[from][node], sent[from][node]);
                Action::Receive(message(from, node, first, sent[from][node]))
            }
            Done::Receive(_) => continue,
            Done::Mark => Action::Mark {
                line: Data::default(),
            },
        };
        let (started, thread, call) = match *done {
            Done::SendAside(_, steps) => (10 * steps, 1 + time as u32, "sendmsg"),
            _ => (0, 0, ""),
        };
        nodes[node].events.push(Event {
            start_ns: time_ns.saturating_sub(started),
            end_ns: time_ns,
            process: 0,
            thread,
            call: Arc::from(call),
            stack: 0,
            action,
        });
    }
    let disk = |(node, (requests, times_ns)): (usize, (Vec<Request>, Vec<u64>))| {
        let log = Log::new(&requests, 0, Disk::Honest);
        (node < NODES - 1).then_some(RecordedDisk {
            log,
            times_ns,
            durable: 0,
        })
    };
    (
        Run { nodes },
        requests.into_iter().enumerate().map(disk).collect(),
    )
}

fn done() -> impl Strategy<Value = Vec<(usize, Done)>> {
    let kind = prop_oneof![
        4 => Just(Done::Write),
        2 => Just(Done::Fua),
        2 => Just(Done::Flush),
        2 => (0..NODES).prop_map(Done::Send),
        1 => (0..NODES, 1..8_u64).prop_map(|(to, steps)| Done::SendAside(to, steps)),
        2 => (0..NODES).prop_map(Done::Receive),
        1 => Just(Done::Mark),
    ];
    prop::collection::vec((0..NODES, kind), 0..24)
}

fn space(
    done: &[(usize, Done)],
    explore: Explore,
    states: &str,
) -> (Run, Vec<Option<RecordedDisk>>, BlockSpace) {
    let (run, disks) = made(done);
    let request = BlockRequest {
        explore,
        states: states.parse().expect("they are states"),
    };
    let space = BlockSpace::new(&run, disks.clone(), &request).expect("a space");
    (run, disks, space)
}

const EXPLORES: [Explore; 4] = [
    Explore::ReplicatedStateMachine { majority: 0 },
    Explore::PrimaryReplicas { primary: 1 },
    Explore::BruteForce,
    Explore::SameOnAll,
];

/// Whether all was over in a state that came before what a receive got was sent.
fn is_sent(
    run: &Run,
    disks: &[Option<RecordedDisk>],
    state: &BlockState,
    message: Message,
) -> Result<(), TestCaseError> {
    for (node, Node { events, .. }) in run.nodes.iter().enumerate() {
        for (number, send) in events.iter().enumerate() {
            let is_it = |sent: Message| {
                sent.stream == message.stream && sent.from < message.to && message.from < sent.to
            };
            if !matches!(send.action, Action::Send(sent) if is_it(sent)) {
                continue;
            }
            let over = events[..number]
                .iter()
                .filter(|event| event.end_ns <= send.start_ns);
            let is_aside = send.thread > 0;
            let least = if is_aside { over.count() } else { number + 1 };
            prop_assert!(
                least <= state.cut[node],
                "{state:?} receives what was not sent"
            );
            if let (Some(disk), Some(at)) = (&disks[node], &state.disks[node]) {
                let arrived = disk
                    .times_ns
                    .iter()
                    .filter(|time_ns| **time_ns <= send.start_ns);
                prop_assert!(
                    arrived.count() <= at.position,
                    "{state:?} was sent too early"
                );
            }
        }
    }
    Ok(())
}

/// Whether a crash can leave a state, written from the definition.
fn is_legal(
    run: &Run,
    disks: &[Option<RecordedDisk>],
    state: &BlockState,
) -> Result<(), TestCaseError> {
    for (node, cut) in state.cut.iter().enumerate() {
        let events = &run.nodes[node].events;
        for event in &events[..*cut] {
            let Action::Receive(message) = event.action else {
                continue;
            };
            is_sent(run, disks, state, message)?;
        }
        let (Some(disk), Some(at)) = (&disks[node], &state.disks[node]) else {
            continue;
        };
        prop_assert_eq!(disk.log.check(at), Ok(()));
        // What was asked for before the last event had arrived; what came after the next had not.
        let before = |time_ns: u64| disk.times_ns.partition_point(|time| *time <= time_ns);
        let least = cut
            .checked_sub(1)
            .map_or(0, |last| before(events[last].end_ns));
        let next = events.get(*cut);
        let most = next.map_or(disk.times_ns.len(), |next| before(next.end_ns));
        prop_assert!((least..=most).contains(&at.position), "{state:?}");
        // What is in flight was sent before the node did anything else.
        let torn = match at.relaxation {
            disk::Relaxation::Torn { place, .. } => Some(place),
            _ => None,
        };
        let is_sent = |next: &Event| disk.times_ns[at.position] <= next.end_ns;
        prop_assert!(
            torn != Some(at.position) || next.is_none_or(is_sent),
            "{state:?}"
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_state_is_one_that_a_crash_could_leave(
        done in done(), explore in prop::sample::select(EXPLORES.to_vec()),
        states in prop::sample::select(vec!["prefix", "flushed", "every-write,reorder:1", "every-write,flushed,reorder:2,torn:512"]),
    ) {
        let (run, disks, space) = space(&done, explore, states);
        let counted: u64 = space.counts().iter().map(|BlockCount { states, .. }| states).sum();
        prop_assert_eq!(counted, space.len());
        let mut known = HashSet::new();
        for index in 0..space.len() {
            let state = space.state(index);
            prop_assert!(known.insert(state.clone()), "{state:?} comes twice");
            is_legal(&run, &disks, &state)?;
        }
    }

    #[test]
    fn what_lacks_less_or_is_earlier_is_what_a_crash_could_leave_too(
        done in done(), explore in prop::sample::select(EXPLORES.to_vec()), spared in any::<u32>(),
        states in prop::sample::select(vec!["flushed", "every-write,reorder:2,torn:512,mixed"]),
    ) {
        let (run, disks, space) = space(&done, explore, states);
        let lost_of = |state: &BlockState, node: usize| -> Vec<usize> {
            let disk = disks[node].as_ref().zip(state.disks[node].as_ref());
            disk.map_or(Vec::new(), |(recorded, disk)| recorded.log.lost(disk))
        };
        for index in 0..space.len().min(200) {
            let state = space.state(index);
            let is_due = |node: usize, place: usize| spared >> ((place + node) % 32) & 1 == 0;
            let fewer = space.with_lost(&state, is_due, |_, _| false).expect("one may lose less");
            is_legal(&run, &disks, &fewer)?;
            for node in 0..NODES {
                let due = lost_of(&state, node).into_iter().filter(|place| is_due(node, *place));
                prop_assert_eq!(lost_of(&fewer, node), due.collect::<Vec<_>>());
                let is_torn = fewer.disks[node].as_ref().is_some_and(|disk| matches!(disk.relaxation, disk::Relaxation::Torn { .. }));
                prop_assert!(!is_torn, "{:?}", fewer);
            }
            prop_assert_eq!(space.with_lost(&state, |_, _| true, |_, _| true), Some(state.clone()));
            for moment in 0..space.moments_before(&state) {
                let Some(earlier) = space.earlier(&state, moment) else { continue };
                is_legal(&run, &disks, &earlier)?;
                for node in 0..NODES {
                    prop_assert!(earlier.cut[node] <= state.cut[node]);
                    let position = |state: &BlockState| state.disks[node].as_ref().map(|disk| disk.position);
                    prop_assert!(position(&earlier) <= position(&state));
                    // What was sent by then and is lost later is lost then, and nothing else.
                    let sent = position(&earlier).unwrap_or_default();
                    let lost: Vec<_> = lost_of(&state, node).into_iter().filter(|place| *place < sent).collect();
                    prop_assert_eq!(lost_of(&earlier, node), lost);
                }
            }
        }
    }

    #[test]
    fn of_one_program_no_content_is_missed(shape in "[WFUM]{0,9}") {
        no_content_is_missed(&shape)?;
    }
}

/// What is torn while it is in flight leaves what else was pending torn as well.
#[test]
fn what_is_pending_beside_a_write_in_flight_is_not_missed() {
    for shape in ["WWWWU", "WMU", "WWMUM"] {
        no_content_is_missed(shape).expect(shape);
    }
}

/// Looks for all ways to lose or tear what was pending, of a program whose disk is sent this.
fn no_content_is_missed(shape: &str) -> Result<(), TestCaseError> {
    let one = |letter| match letter {
        'W' => (0, Done::Write),
        'U' => (0, Done::Fua),
        'F' => (0, Done::Flush),
        _ => (0, Done::Mark),
    };
    let done: Vec<_> = shape.chars().map(one).collect();
    let (_, disks, space) = space(&done, Explore::BruteForce, "all");
    let log = &disks[0].as_ref().expect("it has one").log;
    let kept = |state: &disk::State| {
        log.pieces(state)
            .map(|piece| (piece.place, piece.bytes))
            .collect::<Vec<_>>()
    };
    let found: HashSet<_> = (0..space.len())
        .map(|index| space.state(index))
        .map(|state| {
            (
                state.cut[0],
                kept(state.disks[0].as_ref().expect("it has one")),
            )
        })
        .collect();
    // A crash after any of the letters, with all ways to lose what was pending.
    let (mut told, mut position) = (0, 0);
    for letter in std::iter::once('-').chain(shape.chars()) {
        told += usize::from(letter == 'M');
        // What is on its way, and no line comes before it.
        if letter == 'U' {
            for (from, to) in [(0, 512), (512, 1024)] {
                let relaxation = disk::Relaxation::Torn {
                    lost: Vec::new(),
                    place: position,
                    from,
                    to,
                };
                let state = disk::State {
                    position,
                    relaxation,
                };
                prop_assert!(
                    found.contains(&(told, kept(&state))),
                    "{} at {}",
                    state,
                    told
                );
            }
        }
        position += usize::from("WUF".contains(letter));
        let pending = log.pending(position);
        for choice in 0..1_u32 << pending.len() {
            let chosen = |index: &usize| choice & (1 << index) != 0;
            let lost: Vec<_> = (0..pending.len())
                .filter(chosen)
                .map(|index| pending[index])
                .collect();
            let state = log.state(position, &lost).expect("they are pending");
            prop_assert!(
                found.contains(&(told, kept(&state))),
                "{} at {}",
                state,
                told
            );
        }
        // Where a line comes next, nothing else does before it.
        for &place in &pending {
            let relaxation = disk::Relaxation::Torn {
                lost: Vec::new(),
                place,
                from: 0,
                to: 512,
            };
            let state = disk::State {
                position,
                relaxation,
            };
            prop_assert!(
                found.contains(&(told, kept(&state))),
                "{} at {}",
                state,
                told
            );
        }
    }
    Ok(())
}

/// What a disk is sent once a node has heard of something is not there before that was said.
#[test]
fn a_write_in_flight_is_torn_only_when_it_is_the_next_thing_that_a_node_does() {
    let done = [
        (0, Done::Write),
        (0, Done::Send(1)),
        (1, Done::Receive(0)),
        (1, Done::Fua),
        (1, Done::Mark),
    ];
    let (_, _, space) = space(&done, Explore::BruteForce, "every-write,torn:512");
    let torn = (0..space.len()).map(|index| space.state(index));
    let torn: Vec<_> = torn
        .filter_map(|state| {
            let disk = state.disks[1].as_ref()?;
            let text = disk.to_string();
            text.starts_with("torn-0")
                .then_some((text, state.cut[0], state.cut[1]))
        })
        .collect();
    let texts: HashSet<_> = torn.iter().map(|(text, ..)| text.as_str()).collect();
    assert_eq!(texts, ["torn-0:512..1024@0", "torn-0:0..512@0"].into());
    let is_heard = |(_, sent, received): &(String, usize, usize)| (*sent, *received) == (1, 1);
    assert!(torn.iter().all(is_heard), "{torn:?}");
}

/// Both write, one tells the client, which prints a line.
#[test]
fn writes_that_are_in_flight_on_two_disks_at_once_are_torn_together() {
    // Each node's send brings it to its write. No cut that a single node asks for has both there.
    let done = [
        (0, Done::Send(2)),
        (0, Done::Fua),
        (1, Done::Send(2)),
        (1, Done::Fua),
    ];
    let majority = Explore::ReplicatedStateMachine { majority: 2 };
    let (_, _, space) = space(&done, majority, "every-write,torn:512");
    let is_torn = |state: &Option<disk::State>| {
        let state = state.as_ref().expect("it has a disk");
        matches!(&state.relaxation, disk::Relaxation::Torn { place: 0, .. }) && state.position == 0
    };
    let both = (0..space.len())
        .map(|index| space.state(index))
        .filter(|state| state.disks[..2].iter().all(is_torn));
    assert_eq!(
        both.count(),
        2,
        "the first half of each, and the second one"
    );
}

/// The power can fail when the message has arrived, and the call that sends it has not returned.
#[test]
fn what_a_disk_was_sent_while_a_message_was_may_not_have_come_when_that_is_received() {
    for (steps, flushed) in [(2, false), (1, true)] {
        let done = [
            (0, Done::Write),
            (0, Done::Flush),
            (0, Done::SendAside(2, steps)),
            (2, Done::Receive(0)),
            (2, Done::Mark),
        ];
        let (_, _, space) = space(&done, Explore::BruteForce, "prefix");
        let told = (0..space.len()).map(|index| space.state(index));
        let told = told.filter(|state| state.cut[2] == 2);
        let positions = told.filter_map(|state| Some(state.disks[0].as_ref()?.position));
        assert_eq!(positions.min(), Some(if flushed { 2 } else { 1 }));
    }
}

#[test]
fn a_write_that_was_told_of_and_not_flushed_is_lost_behind_the_line() {
    let done = [
        (0, Done::Write),
        (1, Done::Write),
        (0, Done::Send(2)),
        (2, Done::Receive(0)),
        (2, Done::Mark),
        (0, Done::Flush),
    ];
    let (_, _, space) = space(
        &done,
        Explore::ReplicatedStateMachine { majority: 2 },
        "prefix,flushed",
    );
    let told: Vec<_> = (0..space.len())
        .map(|index| space.state(index))
        .filter(|state| state.cut[2] == 2)
        .collect();
    let texts: HashSet<Vec<_>> = told
        .iter()
        .map(|state| {
            state
                .disks
                .iter()
                .flatten()
                .map(ToString::to_string)
                .collect()
        })
        .collect();
    assert!(
        texts.contains(&vec!["flushed@1".to_owned(), "flushed@1".to_owned()]),
        "{texts:?}"
    );
    // The other one had not begun: nobody waited for it.
    assert!(
        texts.contains(&vec!["flushed@1".to_owned(), "prefix@0".to_owned()]),
        "{texts:?}"
    );
    assert!(told.iter().all(|state| {
        state.disks[0]
            .as_ref()
            .is_some_and(|disk| disk.position >= 1)
    }));
}
