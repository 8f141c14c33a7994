//! States of clusters, once for each order in which nodes are started.

use std::sync::Arc;

use pace_rules::Sector;
use pace_rules::disk::{self, Disk, Log, Write};
use pace_rules::nodes::{
    BlockRequest, BlockSpace, Explore, LINUX, Model, RecordedDisk, Relaxation, Relaxations,
    Request, Spaces, Split, StartOrder,
};
use trace::{Action, Data, Event, FileId, FileKind, FileOp, InitialFile, Node, Run};

const OTHERS: [StartOrder; 2] = [StartOrder::LostFirst, StartOrder::LostLast];

/// Nodes that write a file each and create another, and one that has no files.
fn run(nodes: usize) -> Run {
    let create = |name: &[u8], file| FileOp::Create {
        parent: FileId::ROOT,
        name: Arc::from(name),
        file: FileId(file),
        kind: FileKind::Regular,
        mode: 0o644,
    };
    let write = FileOp::Write {
        file: FileId(1),
        offset: 0,
        data: Data { at: 0, len: 9000 },
        size_before: 0,
    };
    let ops = [create(b"foo", 1), write, create(b"bar", 2)];
    let event = |(place, op): (usize, &FileOp)| Event {
        start_ns: 10 * place as u64,
        end_ns: 10 * place as u64 + 1,
        process: 1,
        thread: 1,
        call: Arc::from("call"),
        stack: 0,
        action: Action::File(op.clone()),
    };
    let node = |place| Node {
        name: format!("node{place}"),
        initial: vec![InitialFile::empty_root()],
        events: ops.iter().enumerate().map(event).collect(),
    };
    let mut nodes: Vec<_> = (0..nodes).map(node).collect();
    nodes.push(Node::default());
    Run { nodes }
}

fn spaces(run: &Run, explore: Explore) -> Spaces {
    let request = |model| Request {
        model,
        explore,
        lost: 2,
        split: Split::default(),
        sector: Sector::default(),
        relaxations: Relaxations::ALL,
    };
    let requests: Vec<_> = Model::all_named(LINUX).into_iter().map(request).collect();
    Spaces::new(run, &requests).expect("spaces")
}

#[test]
fn what_starts_together_keeps_its_number_and_what_lost_something_is_there_for_each_order() {
    let run = run(3);
    for explore in [
        Explore::BruteForce,
        Explore::SameOnAll,
        Explore::ReplicatedStateMachine { majority: 0 },
    ] {
        let usual = spaces(&run, explore);
        let all = usual.clone().with_starts(&StartOrder::ALL);
        let states: Vec<_> = (0..usual.len()).map(|index| usual.state(index)).collect();
        assert_eq!(
            states,
            (0..usual.len())
                .map(|index| all.state(index))
                .collect::<Vec<_>>(),
            "{explore:?}"
        );
        assert!(
            states
                .iter()
                .all(|(_, state)| state.start == StartOrder::Together)
        );
        // What lost something comes once more for each of the other orders, and nothing else.
        let lost = states
            .iter()
            .filter(|(_, state)| state.relaxation != Relaxation::Prefix);
        let expected: Vec<_> = OTHERS
            .iter()
            .flat_map(|start| {
                lost.clone().cloned().map(|(member, mut state)| {
                    state.start = *start;
                    (member, state)
                })
            })
            .collect();
        assert!(!expected.is_empty(), "{explore:?}");
        let more: Vec<_> = (usual.len()..all.len())
            .map(|index| all.state(index))
            .collect();
        assert_eq!(more, expected, "{explore:?}");
        let counted: u64 = all.counts().iter().map(|(_, count)| count.states).sum();
        assert_eq!(counted, all.len());
    }
}

#[test]
fn without_the_usual_order_what_lost_nothing_is_still_there_once() {
    let run = run(2);
    let usual = spaces(&run, Explore::BruteForce);
    let first = usual.clone().with_starts(&[StartOrder::LostFirst]);
    assert_eq!(first.len(), usual.len());
    for index in 0..first.len() {
        let (member, state) = first.state(index);
        let has_lost = state.relaxation != Relaxation::Prefix;
        assert_eq!(state.start == StartOrder::LostFirst, has_lost);
        let (of, mut same) = usual.state(index);
        same.start = state.start;
        assert_eq!((member, state), (of, same));
    }
}

#[test]
fn one_node_has_no_order() {
    let usual = spaces(&run(1), Explore::BruteForce);
    let all = usual.clone().with_starts(&StartOrder::ALL);
    assert!(!usual.is_empty());
    assert_eq!(all.len(), usual.len());
}

/// So many nodes with disks that were sent two writes each, which nothing covers.
fn disks(nodes: usize, explore: Explore) -> BlockSpace {
    let write = |place: usize| {
        disk::Request::Write(Write {
            fua: false,
            offset: 4096 * place as u64,
            length: 4096,
            completed: place + 1,
            priority: 0,
        })
    };
    let disk = |node: usize| RecordedDisk {
        log: Log::new(&[write(0), write(1)], 0, Disk::Honest),
        times_ns: vec![10 * node as u64 + 3, 10 * node as u64 + 4],
        durable: 0,
    };
    let run = run(nodes);
    let recorded = (0..nodes).map(|node| Some(disk(node))).chain([None]);
    let states = "every-write,flushed,reorder:1".parse().expect("states");
    let request = BlockRequest { explore, states };
    BlockSpace::new(&run, recorded.collect(), &request).expect("a space")
}

#[test]
fn disks_are_there_for_each_order_and_the_usual_keeps_its_numbers() {
    for explore in [Explore::BruteForce, Explore::SameOnAll] {
        let usual = disks(2, explore);
        let all = disks(2, explore).with_starts(&StartOrder::ALL);
        let states: Vec<_> = (0..usual.len()).map(|index| usual.state(index)).collect();
        let mut expected = states.clone();
        for start in OTHERS {
            expected.extend(states.iter().cloned().map(|mut state| {
                state.start = start;
                state
            }));
        }
        assert!(expected.len() > states.len(), "{explore:?}");
        let found: Vec<_> = (0..all.len()).map(|index| all.state(index)).collect();
        assert_eq!(found, expected, "{explore:?}");
        let counted: u64 = all.counts().iter().map(|count| count.states).sum();
        assert_eq!(counted, all.len());
    }
    let one = disks(1, Explore::BruteForce);
    let len = one.len();
    assert_eq!(one.with_starts(&StartOrder::ALL).len(), len);
}

#[test]
fn states_with_less_missing_are_those_of_the_same_crash_or_before_the_loss() {
    let run = run(2);
    for explore in [
        Explore::BruteForce,
        Explore::SameOnAll,
        Explore::ReplicatedStateMachine { majority: 0 },
        Explore::PrimaryReplicas { primary: 1 },
    ] {
        let all = spaces(&run, explore).with_starts(&StartOrder::ALL);
        let missing = |state: &pace_rules::nodes::State| -> usize {
            state.nodes.iter().map(|node| node.lost.len()).sum()
        };
        let mut fewer = 0;
        for index in 0..all.len() {
            let (member, state) = all.state(index);
            let less: Vec<_> = all.with_less_missing(index);
            if state.relaxation == Relaxation::Prefix {
                assert!(less.is_empty(), "{state:?}");
                continue;
            }
            let less = less.into_iter().map(|index| all.state(index));
            let less: Vec<_> = less.collect();
            let is_whole = |other: &pace_rules::nodes::State| missing(other) == 0;
            assert!(
                less.iter()
                    .any(|(_, other)| is_whole(other) && other.cut >= state.cut),
                "{explore:?}: {state:?} {less:?}"
            );
            for (of, other) in &less {
                assert_eq!(*of, member);
                let starts = [state.start, StartOrder::Together];
                assert!(starts.contains(&other.start), "{other:?}");
                if is_whole(other) {
                    assert_eq!(other.relaxation, Relaxation::Prefix, "{other:?}");
                    continue;
                }
                fewer += 1;
                assert_eq!(other.start, state.start);
                let mut nodes = other.nodes.iter().zip(&state.nodes);
                assert!(
                    nodes.all(|(other, own)| other.micros == own.micros
                        && other.lost.iter().all(|micro| own.lost.contains(micro))),
                    "{explore:?}: {state:?} {other:?}"
                );
            }
        }
        assert!(fewer > 0, "{explore:?}");
    }
}

#[test]
fn the_state_in_which_no_disk_lost_anything_is_of_the_same_moment_and_order() {
    for explore in [Explore::BruteForce, Explore::SameOnAll] {
        let all = disks(2, explore).with_starts(&StartOrder::ALL);
        let mut lossy = 0;
        for index in 0..all.len() {
            let state = all.state(index);
            let positions = |state: &pace_rules::nodes::BlockState| -> Vec<_> {
                let positions = state.disks.iter().flatten();
                positions.map(|disk| disk.position).collect()
            };
            let Some(in_order) = all.in_order(index) else {
                assert_eq!(state.kind, disk::Kind::Prefix);
                continue;
            };
            lossy += 1;
            let in_order = all.state(in_order);
            assert_eq!(in_order.kind, disk::Kind::Prefix);
            assert_eq!((&in_order.cut, in_order.start), (&state.cut, state.start));
            assert_eq!(positions(&in_order), positions(&state));
        }
        assert!(lossy > 0, "{explore:?}");
    }
}
