//! The states of random runs against what the definitions say.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use pace_rules::nodes::{
    Effect, Explore, MODELS, Relaxation, Relaxations, Request, Space, Spaces, State,
};
use proptest::prelude::*;
use trace::{Action, Event, FileId, FileOp, Message, Node, Run};

use super::support::{ASIDE, FOO, Script, Tree, marks, model, request, states, tree};

/// What a state is: the disks, and what was told. Two that agree in both are one.
fn identity(state: &State) -> (Vec<(usize, Vec<usize>)>, Vec<usize>) {
    (
        state
            .nodes
            .iter()
            .map(|node| (node.micros, node.lost.clone()))
            .collect(),
        state.cut.clone(),
    )
}

fn is_consistent(run: &Run, cut: &[usize]) -> bool {
    let sent = |message: &Message| {
        run.nodes.iter().zip(cut).all(|(node, cut)| {
            let overlaps = |event: &&Event| {
                matches!(&event.action, Action::Send(send) if send.stream == message.stream && send.from < message.to && message.from < send.to)
            };
            let mut sends = node.events.iter().filter(overlaps);
            sends.all(|send| node.events[*cut..].iter().all(|event| !is_needed(event, send)))
        })
    };
    run.nodes.iter().zip(cut).all(|(node, events)| {
        node.events[..*events]
            .iter()
            .all(|event| match &event.action {
                Action::Receive(message) => sent(message),
                _ => true,
            })
    })
}

/// Whether an event of a node has come before what that sends can be received.
fn is_needed(event: &Event, send: &Event) -> bool {
    if is_aside(send) {
        event.end_ns <= send.start_ns
    } else {
        event.end_ns <= send.end_ns
    }
}

/// Whether something is sent in a thread of its own, while the node does other things.
fn is_aside(send: &Event) -> bool {
    send.thread >= ASIDE
}

/// Whether posix lets a node have lost this: nothing that a sync within the cut was about. Written
/// from the definition, for events of one thread.
fn posix_allows(run: &Run, space: &Space, state: &State, node: usize) -> bool {
    let events = &run.nodes[node].events;
    state.nodes[node].lost.iter().all(|micro| {
        let micro = &space.micros(node)[*micro];
        !events[..state.cut[node]]
            .iter()
            .skip(micro.event)
            .any(|event| match (&event.action, &micro.effect) {
                (Action::File(FileOp::SyncAll), _) => true,
                (
                    Action::File(FileOp::Sync { file: synced, .. }),
                    Effect::Write { file, .. }
                    | Effect::Overwrite { file, .. }
                    | Effect::Grow { file, .. }
                    | Effect::SetSize { file, .. },
                ) => synced == file,
                (
                    Action::File(FileOp::Sync { file: synced, .. }),
                    Effect::SetEntry { parent, .. } | Effect::RemoveEntry { parent, .. },
                ) => synced == parent,
                _ => false,
            })
    })
}

#[derive(Debug, Clone)]
enum Step {
    Append(usize, u64),
    Overwrite(usize),
    Rename(usize),
    Sync(usize, bool),
    SyncDirectory(usize),
    Message(usize, usize),
    /// One that was begun to be sent while the node did so many things before.
    Aside(usize, usize, usize),
    Mark,
}

fn step(nodes: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..nodes, 1..5_u64).prop_map(|(node, len)| Step::Append(node, len)),
        (0..nodes).prop_map(Step::Overwrite),
        (0..nodes).prop_map(Step::Rename),
        (0..nodes, any::<bool>()).prop_map(|(node, data)| Step::Sync(node, data)),
        (0..nodes).prop_map(Step::SyncDirectory),
        (0..=nodes, 0..=nodes).prop_map(|(from, to)| Step::Message(from, to)),
        (0..=nodes, 0..=nodes, 1..4_usize)
            .prop_map(|(from, to, during)| Step::Aside(from, to, during)),
        Just(Step::Mark),
    ]
}

/// Two sectors, so that a write to both can be torn.
const FOO_BYTES: u64 = 1024;

/// Some nodes with one file each, and a client that talks to them.
fn script(nodes: usize, steps: &[Step]) -> Script {
    let mut script = Script::new(nodes, &[(FOO, "foo", FOO_BYTES)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    let mut sizes = vec![FOO_BYTES; nodes];
    let mut renamed = vec![false; nodes];
    for step in steps {
        match step {
            Step::Append(node, len) => {
                script.write(*node, FOO, sizes[*node], *len, sizes[*node]);
                sizes[*node] += len;
            }
            Step::Overwrite(node) => drop(script.write(*node, FOO, 0, FOO_BYTES, sizes[*node])),
            Step::Rename(node) => {
                let (from, to) = if renamed[*node] {
                    ("bar", "foo")
                } else {
                    ("foo", "bar")
                };
                script.rename(*node, FOO, from, to, None);
                renamed[*node] ^= true;
            }
            Step::Sync(node, false) => drop(script.sync(*node, FOO)),
            Step::Sync(node, true) => drop(script.datasync(*node, FOO)),
            Step::SyncDirectory(node) => drop(script.sync(*node, FileId::ROOT)),
            Step::Message(from, to) if from != to => drop(script.message(*from, *to)),
            Step::Aside(from, to, during) if from != to => {
                script.message(*from, *to).send_aside(*from, *during);
            }
            Step::Message(..) | Step::Aside(..) => {}
            Step::Mark => drop(script.mark(nodes)),
        }
    }
    script
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_state_is_a_consistent_and_legal_one_and_none_comes_twice(
        steps in prop::collection::vec(step(2), 1..9), explore in 0..4_usize, lost in 1..3_usize, of in 0..MODELS.len(),
    ) {
        let script = script(2, &steps);
        let explore = [Explore::ReplicatedStateMachine { majority: 0 }, Explore::PrimaryReplicas { primary: 1 }, Explore::SameOnAll, Explore::BruteForce][explore];
        let request = request(&MODELS[of], explore, lost);
        let space = Space::new(&script.run, &request).expect("there are states");
        prop_assert_eq!(space.counts().iter().map(|count| count.states).sum::<u64>(), space.len());
        let (mut seen, mut synced) = (HashSet::new(), HashSet::new());
        for index in 0..space.len() {
            let state = space.state(index);
            prop_assert!(is_consistent(&script.run, &state.cut), "{:?}", state);
            for node in 0..2 {
                // What posix forbids, nobody allows.
                prop_assert!(posix_allows(&script.run, &space, &state, node), "{:?}", state);
                let done = space.micros(node)[..state.nodes[node].micros].iter().map(|micro| micro.event).max();
                let midway = state.relaxation == Relaxation::Stopped;
                prop_assert!(done.is_none_or(|last| last < state.cut[node] || (midway && last == state.cut[node])), "{:?}", state);
                let whole = space.micros(node).iter().filter(|micro| micro.event < state.cut[node]).count();
                prop_assert!(whole <= state.nodes[node].micros, "{:?}", state);
            }
            prop_assert!(space.allows(&state), "not allowed: {:?}", state);
            if state.relaxation.is_at_once() {
                let is_new = state.relaxation != Relaxation::Synced || synced.insert(identity(&state));
                prop_assert!(is_new, "twice: {:?}", state);
                prop_assert_eq!(space.with_losses(index, &space.losses(index)).nodes, state.nodes);
                continue;
            }
            prop_assert!(seen.insert(identity(&state)), "twice: {:?}", state);
            prop_assert_eq!(space.named(state.clone()), state);
        }
    }

    /// What is allowed besides is no more than a space has that may lose as much as it likes.
    #[test]
    fn a_state_that_lacks_less_is_allowed_only_if_some_space_has_it(
        steps in prop::collection::vec(step(1), 1..8), lost in 1..4_usize, of in 0..MODELS.len(), spared in any::<u64>(),
    ) {
        let script = script(1, &steps);
        let run = &script.run;
        let request_of = |lost| request(&MODELS[of], Explore::BruteForce, lost);
        let (space, all) = (Space::new(run, &request_of(lost)).expect("states"), Space::new(run, &request_of(99)).expect("states"));
        let trees: HashSet<Tree> = (0..all.len()).map(|index| tree(run, &all, &all.state(index), 0)).collect();
        for index in 0..space.len() {
            let mut state = space.state(index);
            // After more events, more is durable.
            for events in 0..=run.nodes[0].events.len() {
                let later = State { cut: vec![events, 0], ..state.clone() };
                prop_assert!(!space.allows(&later) || posix_allows(run, &space, &later, 0), "{:?}", later);
            }
            let micros = space.micros(0);
            // Some of the operations are there after all.
            let is_spared = |micro: &usize| spared >> (micros[*micro].event % 64) & 1 == 1;
            state.nodes[0].lost.retain(|micro| !is_spared(micro));
            if space.allows(&state) {
                prop_assert!(posix_allows(run, &space, &state, 0), "{:?}", state);
                // Spaces lose whole operations, but for the last one.
                let lost = |micro: &usize| state.nodes[0].lost.contains(micro);
                let of = |event: usize| (0..state.nodes[0].micros).filter(move |micro| micros[*micro].event == event);
                let is_whole = (0..run.nodes[0].events.len()).all(|event| of(event).all(|micro| lost(&micro)) || !of(event).any(|micro| lost(&micro)));
                prop_assert!(!is_whole || trees.contains(&tree(run, &space, &state, 0)), "{:?}", state);
            } else {
                prop_assert!(MODELS[of].name != "posix", "posix keeps and loses each for itself: {:?}", state);
            }
        }
    }

    #[test]
    fn an_earlier_crash_has_no_more_of_anything(
        steps in prop::collection::vec(step(2), 1..9), of in 0..MODELS.len(), most in prop::collection::vec(0..12_usize, 3),
    ) {
        let script = script(2, &steps);
        let space = Space::new(&script.run, &request(&MODELS[of], Explore::BruteForce, 1)).expect("there are states");
        for index in 0..space.len() {
            let state = space.state(index);
            let earlier = space.earlier(&state, &most);
            prop_assert!(is_consistent(&script.run, &earlier.cut), "{:?}", earlier);
            for (node, events) in earlier.cut.iter().enumerate() {
                prop_assert!(*events <= most[node].min(state.cut[node]));
                prop_assert!(earlier.nodes[node].micros <= state.nodes[node].micros);
                prop_assert!(earlier.nodes[node].lost.iter().all(|micro| state.nodes[node].lost.contains(micro)));
            }
            let has_lost = earlier.nodes.iter().any(|node| !node.lost.is_empty());
            prop_assert!(space.allows(&earlier) || (has_lost && MODELS[of].name != "posix"), "{:?}", earlier);
        }
    }

    #[test]
    fn each_cut_that_differs_on_a_disk_is_visited(steps in prop::collection::vec(step(2), 1..9)) {
        let script = script(2, &steps);
        let run = &script.run;
        let request = request(model("posix"), Explore::BruteForce, 0);
        let space = Space::new(run, &request).expect("there are states");
        let all: HashSet<Vec<usize>> = (0..space.len())
            .map(|index| space.state(index))
            .filter(|state| state.relaxation == Relaxation::Prefix)
            .map(|state| state.nodes.iter().map(|node| node.micros).collect())
            .collect();
        let mut expected = HashSet::new();
        let events: Vec<_> = run.nodes.iter().map(|node| node.events.len()).collect();
        for first in 0..=events[0] {
            for second in 0..=events[1] {
                for third in 0..=events[2] {
                    let cut = [first, second, third];
                    if is_consistent(run, &cut) {
                        let micros = |node: usize| space.micros(node).iter().filter(|micro| micro.event < cut[node]).count();
                        expected.insert(vec![micros(0), micros(1), 0]);
                    }
                }
            }
        }
        prop_assert_eq!(all, expected);
    }

    /// With as many lost as there are operations: every set of operations that no sync is about.
    #[test]
    fn on_one_node_all_that_posix_allows_is_visited(steps in prop::collection::vec(step(1), 1..7)) {
        let script = script(1, &steps);
        let run = &script.run;
        let relaxations = Relaxations { prefix: true, lost: true, cut: false, torn: false, stopped: false, synced: false, names_only: false, all_torn: false, one_kept: false };
        let request = Request { relaxations, ..request(model("posix"), Explore::BruteForce, 99) };
        let space = Space::new(run, &request).expect("there are states");
        let mut visited: BTreeMap<Tree, usize> = BTreeMap::new();
        for state in (0..space.len()).map(|index| space.state(index)) {
            let told = visited.entry(tree(run, &space, &state, 0)).or_default();
            *told = marks(run, &state).max(*told);
        }
        let (node, client) = (run.nodes[0].events.len(), run.nodes[1].events.len());
        for events in 0..=node {
            for of_client in (0..=client).filter(|of_client| is_consistent(run, &[events, *of_client])) {
                let micros = space.micros(0).iter().filter(|micro| micro.event < events).count();
                let operations: BTreeSet<_> = space.micros(0)[..micros].iter().map(|micro| micro.event).collect();
                let operations: Vec<_> = operations.into_iter().collect();
                for set in 0..1_u32 << operations.len() {
                    let lost = |micro: usize| operations.iter().enumerate().any(|(bit, event)| set >> bit & 1 == 1 && space.micros(0)[micro].event == *event);
                    let all_lost: Vec<_> = (0..micros).filter(|micro| lost(*micro)).collect();
                    let mut state = space.state(0);
                    state.cut = vec![events, of_client];
                    // What was synced of an operation stays.
                    state.nodes[0] = pace_rules::nodes::NodeState { micros, lost: vec![] };
                    for micro in all_lost {
                        let mut one = state.clone();
                        one.nodes[0].lost = vec![micro];
                        if posix_allows(run, &space, &one, 0) {
                            state.nodes[0].lost.push(micro);
                        }
                    }
                    let found = visited.get(&tree(run, &space, &state, 0));
                    prop_assert!(found.is_some_and(|told| *told >= marks(run, &state)), "{:?} {:?}", state, found);
                }
            }
        }
    }

    /// Models share what they make the same of.
    #[test]
    fn beside_others_a_model_allows_what_it_allows_alone(steps in prop::collection::vec(step(2), 1..8)) {
        let script = script(2, &steps);
        let run = &script.run;
        let requests: Vec<_> = MODELS.iter().map(|model| request(model, Explore::SameOnAll, 1)).collect();
        let spaces = Spaces::new(run, &requests).expect("there are states");
        for (member, request) in spaces.members().iter().zip(&requests) {
            let (beside, alone) = (&member.space, Space::new(run, request).expect("there are states"));
            prop_assert_eq!(beside.counts(), alone.counts());
            for node in 0..run.nodes.len() {
                prop_assert_eq!(beside.micros(node), alone.micros(node), "{}", member.model.name);
            }
            for index in alone.sample(20, 0) {
                prop_assert_eq!(beside.state(index), alone.state(index));
            }
        }
    }

    #[test]
    fn brute_force_visits_all_that_other_rules_do(steps in prop::collection::vec(step(2), 1..8), of in 0..MODELS.len()) {
        let script = script(2, &steps);
        let disks = |explore| -> HashSet<_> {
            states(&script.run, &request(&MODELS[of], explore, 1)).iter().map(|state| identity(state).0).collect()
        };
        let all = disks(Explore::BruteForce);
        for explore in [Explore::ReplicatedStateMachine { majority: 0 }, Explore::PrimaryReplicas { primary: 0 }, Explore::SameOnAll] {
            let disks = disks(explore);
            prop_assert!(disks.is_subset(&all), "{:?} {:?}", explore, disks.difference(&all).next());
        }
    }
}
