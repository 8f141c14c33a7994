use std::collections::HashSet;

use block_dev::{Base, BlockLog};
use pace_rules::disk::{Kind, Request, Write};
use pace_rules::nodes::{BlockRequest, Explore, StartOrder};
use trace::{Data, Event, FileId, FileOp, InitialFile, Node};

use super::*;
use crate::finding::DiskStory;
use crate::findings::Findings;
use crate::sweep::{Broken, Swept};
use crate::{CheckCommand, Judge, Level, Rule, make_again};

/// One node, whose disk was sent two writes that nothing covers.
fn two_writes() -> (Trace, BlockSpace) {
    let node = Node {
        name: "program".into(),
        initial: vec![InitialFile::empty_root()],
        events: Vec::new(),
    };
    let mut trace = Trace::default();
    trace.run.nodes.push(node);
    let write = |place: usize| {
        let offset = 4096 * place as u64;
        Request::Write(Write {
            fua: false,
            offset,
            length: 4096,
            completed: place + 1,
            priority: 0,
        })
    };
    let log = disk::Log::new(&[write(0), write(1)], 0, Keeping::Honest);
    let disks = vec![Some(RecordedDisk {
        log,
        times_ns: vec![10, 20],
        durable: 0,
    })];
    let states = "every-write,reorder:1".parse().expect("states");
    let request = BlockRequest {
        explore: Explore::BruteForce,
        states,
    };
    let space = BlockSpace::new(&trace.run, disks, &request).expect("a space");
    (trace, space)
}

/// The findings, if this is said of states; each of them stands for two.
fn groups(words: impl Fn(u64, &BlockState) -> Option<String>) -> Vec<Group> {
    let (trace, space) = two_writes();
    let mut swept = Swept::default();
    for index in 0..space.len() {
        let Some(words) = words(index, &space.state(index)) else {
            continue;
        };
        let key = *blake3::hash(&index.to_le_bytes()).as_bytes();
        swept.broken.insert(
            key,
            Broken {
                states: 2,
                smallest: index,
                complaint: vec![words].into(),
                models: crate::ModelSet::default(),
                with_losses: None,
                is_unproven: false,
            },
        );
    }
    BlockFindings {
        trace: &trace,
        space: &space,
        mounts: false,
        decided: Some(&swept),
    }
    .groups(&swept)
}

/// The kinds of the findings, if these states are broken in the same words.
fn kinds(is_broken: impl Fn(&BlockState) -> bool) -> Vec<(Kind, u64)> {
    let groups = groups(|index, state| is_broken(state).then(|| format!("key {index} is lost")));
    groups
        .into_iter()
        .map(|group| (group.kind, group.broken.states / 2))
        .collect()
}

fn is_at(state: &BlockState, position: usize) -> bool {
    state.disks[0]
        .as_ref()
        .is_some_and(|disk| disk.position == position)
}

#[test]
fn what_is_lost_is_not_the_cause_where_the_same_is_broken_without_it() {
    let (_, space) = two_writes();
    let all: Vec<_> = (0..space.len()).map(|index| space.state(index)).collect();
    let count = |kind: Kind, position| {
        all.iter()
            .filter(|state| state.kind == kind && is_at(state, position))
            .count() as u64
    };
    assert!(
        count(Kind::Lost(1), 2) > 0 && count(Kind::Prefix, 2) > 0,
        "{all:?}"
    );
    // Every state of the last moment is broken: one finding.
    let together = count(Kind::Lost(1), 2) + count(Kind::Prefix, 2);
    assert_eq!(kinds(|state| is_at(state, 2)), [(Kind::Prefix, together)]);
    // Only those in which something was lost: that is what does it.
    let lost = count(Kind::Lost(1), 2);
    assert_eq!(
        kinds(|state| is_at(state, 2) && state.kind != Kind::Prefix),
        [(Kind::Lost(1), lost)]
    );
    // What is broken in order at another moment says nothing of this one.
    let other = kinds(|state| {
        (is_at(state, 2) && state.kind != Kind::Prefix)
            || (is_at(state, 1) && state.kind == Kind::Prefix)
    });
    assert_eq!(other.len(), 2, "{other:?}");
}

#[test]
fn what_is_broken_in_other_words_is_another_finding() {
    let (_, space) = two_writes();
    let is_odd = |index: u64| {
        if index % 2 == 1 {
            "an odd one"
        } else {
            "an even one"
        }
    };
    let found = groups(|index, _| Some(is_odd(index).to_owned()));
    let words: HashSet<_> = found.iter().map(|group| group.plain.clone()).collect();
    assert_eq!(words.len(), 2);
    assert_eq!(
        found.iter().map(|group| group.broken.states).sum::<u64>(),
        2 * space.len()
    );
    for group in &found {
        assert_eq!(group.plain, [is_odd(group.broken.smallest)]);
        assert_eq!(group.broken.complaint.words, group.plain);
    }
}

#[test]
fn a_finding_shows_its_smallest_state() {
    let (_, space) = two_writes();
    let found = groups(|_, state| (state.kind == Kind::Prefix).then(|| "lost".to_owned()));
    let all = (0..space.len()).filter(|index| space.state(*index).kind == Kind::Prefix);
    let smallest = all
        .map(|index| (size(&space, &space.state(index)), index))
        .min()
        .expect("one");
    assert!(found[0].broken.states > 2, "there is one to choose");
    assert_eq!((found[0].size, found[0].broken.smallest), smallest);
}

#[test]
fn the_state_of_a_disk_is_made_again_and_no_other() {
    let (mut trace, _) = two_writes();
    let mut log = BlockLog::default();
    log.push_write(0, &[1; 4096], 10);
    log.push_write(4096, &[2; 4096], 20);
    let (file_system, directory) = ("ext4".to_owned(), "data".to_owned());
    let base = Arc::new(Base::empty(1 << 20));
    trace.disks.insert(
        "program".into(),
        Disk {
            file_system,
            directory,
            base,
            log,
            durable: 0,
            after: None,
        },
    );
    let judge = Judge::Program {
        check: CheckCommand::Once("true".into()),
        limit_s: 30,
        allow_no_acks: true,
    };
    let states = "every-write,flushed,reorder:1".parse().expect("states");
    let asked = crate::Request {
        level: Level::Both,
        model: "posix".into(),
        explore: Rule::BruteForce,
        lost: 1,
        split: "3".parse().expect("a split"),
        sector: pace_rules::Sector::default(),
        states,
        sample: None,
        seed: 0,
        starts: crate::Start::usual(),
        judge,
        specifications: Vec::new(),
    };
    let request = BlockRequest {
        explore: Explore::BruteForce,
        states,
    };
    let space = BlockSpace::new(&trace.run, recorded_disks(&trace), &request).expect("a space");
    let mut blocks = Blocks::new(&trace, &space).expect("they are known");
    let mut keys = HashSet::new();
    let mut finding = Findings::told(&trace, &[0]);
    let (file_system, state) = ("ext4".into(), String::new());
    finding.nodes[0].disk = Some(DiskStory {
        file_system,
        state,
        lost: Vec::new(),
        pending: 0,
        differs: Vec::new(),
        held_until: None,
    });
    for index in 0..space.len() {
        let key = blocks.make(index).state.expect("a disk").key;
        finding.state = index;
        assert_eq!(
            make_again(&trace, &asked, finding.address())
                .expect("made")
                .key,
            key,
            "{index}"
        );
        keys.insert(key);
    }
    assert!(keys.len() > 3, "{keys:?}");
    finding.state = space.len();
    assert!(make_again(&trace, &asked, finding.address()).is_err());
}

#[test]
fn disks_are_started_in_each_order_where_some_of_them_lost_something() {
    let (mut trace, _) = two_writes();
    trace.run.nodes.push(trace.run.nodes[0].clone());
    "other".clone_into(&mut trace.run.nodes[1].name);
    for (node, first) in [("program", 10), ("other", 11)] {
        let mut log = BlockLog::default();
        log.push_write(0, &[1; 4096], first);
        log.push_write(4096, &[2; 4096], first + 10);
        let disk = Disk {
            file_system: "ext4".into(),
            directory: "data".into(),
            base: Arc::new(Base::empty(1 << 20)),
            log,
            durable: 0,
            after: None,
        };
        trace.disks.insert(node.into(), disk);
    }
    let request = BlockRequest {
        explore: Explore::BruteForce,
        states: "every-write,flushed".parse().expect("states"),
    };
    // It has changed a file before it says something, and its disk was not sent that.
    let change = FileOp::SetMode {
        file: FileId::ROOT,
        mode: 0o700,
    };
    let line = Data::default();
    for action in [Action::File(change), Action::Mark { line }] {
        trace.run.nodes[1].events.push(Event {
            start_ns: 90,
            end_ns: 90,
            process: 1,
            thread: 1,
            call: "call".into(),
            stack: 0,
            action,
        });
    }
    let space = BlockSpace::new(&trace.run, recorded_disks(&trace), &request);
    let space = space.expect("a space").with_starts(&StartOrder::ALL);
    let mut blocks = Blocks::new(&trace, &space).expect("they are known");
    let (mut divided, mut unsent) = (0, 0);
    for index in 0..space.len() {
        let state = space.state(index);
        let together = blocks.crash_state(&BlockState {
            start: StartOrder::Together,
            ..state.clone()
        });
        let crash_state = blocks.crash_state(&state);
        let disks = state.disks.iter().flatten();
        let mut lost: Vec<_> = disks
            .map(|disk| disk.relaxation != Relaxation::Prefix)
            .collect();
        unsent += usize::from(lost == [false, false] && state.cut[1] == 2);
        lost[1] |= state.cut[1] == 2;
        let first = match (state.start, &lost[..]) {
            (StartOrder::LostFirst, [true, false]) | (StartOrder::LostLast, [false, true]) => 0,
            (StartOrder::LostFirst, [false, true]) | (StartOrder::LostLast, [true, false]) => 1,
            _ => {
                assert_eq!(crash_state.turns, None, "{state:?}");
                assert_eq!(crash_state.key, together.key);
                continue;
            }
        };
        divided += 1;
        let (first, later) = (vec![first], vec![1 - first]);
        assert_eq!(crash_state.turns, Some(Turns { first, later }), "{state:?}");
        assert_ne!(crash_state.key, together.key);
        assert_ne!(crash_state.disks_key, together.disks_key);
        assert_eq!(crash_state.content, together.key);
    }
    assert!(divided > 3 && unsent > 0, "{divided}, {unsent}");
    // Who lost nothing more has no order any more, and who lost less keeps that of the rest.
    let mut states = (0..space.len()).rev().map(|index| space.state(index));
    let last = states.find(|state| state.cut[1] == 0).expect("a state");
    assert_eq!(last.start, StartOrder::LostLast);
    let whole = space.with_lost(&last, |_, _| false, |_, _| false);
    let whole = blocks.crash_state(&whole.expect("a disk can keep everything"));
    assert_eq!(whole.turns, None);
}
