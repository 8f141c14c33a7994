//! What several nodes lose together, and what one of them loses alone.

use std::collections::BTreeSet;

use pace_rules::nodes::{Count, Explore, Relaxations, Space, Spaces, State};
use trace::{Action, FileId, FileOp, Node, SyncScope};

use super::support::{
    ASIDE, BAR, FOO, NOBODY, Script, marks, model, name, replicated, request, size, states, tree,
    who,
};

#[test]
fn what_all_replicas_synced_is_there_when_it_was_acknowledged() {
    let lost = |script: &Script, explore| {
        let request = request(model("posix"), explore, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        (0..space.len())
            .map(|index| space.state(index))
            .any(|state| {
                let least = (0..2)
                    .map(|node| {
                        tree(&script.run, &space, &state, node)[&(FileId::ROOT, name("foo"))].len()
                    })
                    .min();
                least.expect("two nodes") < marks(&script.run, &state) * 8
            })
    };
    for explore in [
        Explore::ReplicatedStateMachine { majority: 0 },
        Explore::PrimaryReplicas { primary: 0 },
        Explore::SameOnAll,
        Explore::BruteForce,
    ] {
        assert!(!lost(&replicated(true), explore), "{explore:?}");
        assert!(lost(&replicated(false), explore), "{explore:?}");
    }
}

/// A message may arrive before the call that sends it returns, and before what others do meanwhile.
#[test]
fn what_is_synced_while_a_message_is_sent_may_be_lost_when_that_was_received() {
    let mut script = Script::new(1, &[(FOO, "foo", 0)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    script
        .write(0, FOO, 0, 8, 0)
        .sync(0, FOO)
        .message(0, 1)
        .mark(1);
    let lacks = |script: &Script| who(script, 1, |tree| size(tree, "foo") != Some(8));
    assert_eq!(lacks(&script), NOBODY);
    let mut aside = script.clone();
    aside.send_aside(0, 1);
    let all = ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"];
    assert_eq!(lacks(&aside), all);
    // Who sends it has done what came before. Of an end nobody knows when it began.
    for (thread, call) in [(0, "sendmsg"), (ASIDE, "exit")] {
        let mut other = aside.clone();
        let send = other.run.nodes[0].events.last_mut().expect("a send");
        (send.thread, send.call) = (thread, call.into());
        assert_eq!(lacks(&other), NOBODY, "{call}");
    }
}

/// Three nodes replace a file by a new one with the name that `named` gives, and none syncs its
/// directory; a client has that acknowledged.
fn replaced_by_rename(named: impl Fn(usize) -> &'static str) -> Script {
    let mut script = Script::new(3, &[(FOO, "data", 4)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for node in 0..3 {
        let new = named(node);
        script
            .message(3, node)
            .create(node, BAR, new)
            .write(node, BAR, 0, 8, 0)
            .sync(node, BAR)
            .rename(node, BAR, new, "data", Some(FOO))
            .message(node, 3);
    }
    script.mark(3);
    script
}

/// Of the states in which everything was acknowledged, the nodes that lack the new content.
fn lacking(script: &Script, majority: usize) -> BTreeSet<Vec<usize>> {
    let explore = Explore::ReplicatedStateMachine { majority };
    let request = request(model("posix"), explore, 1);
    let space = Space::new(&script.run, &request).expect("there are states");
    let states = (0..space.len()).map(|index| space.state(index));
    let told = states.filter(|state| marks(&script.run, state) == 1);
    let lacking = |state: State| {
        let lacks = |node: &usize| {
            let tree = tree(&script.run, &space, &state, *node);
            let content = tree.get(&(FileId::ROOT, name("data")));
            content.is_none_or(|content| content.len() != 8)
        };
        (0..3).filter(lacks).collect()
    };
    told.map(lacking).collect()
}

#[test]
fn nodes_lose_together_what_they_do_to_files_with_names_that_say_nothing() {
    const LETTERS: [&str; 3] = ["tmp.AbXqoP", "tmp.kLsWmv", "tmp.zzTrPa"];
    let numbered = replaced_by_rename(|node| ["tmp.101", "tmp.27", "tmp.3"][node]);
    let drawn = replaced_by_rename(|node| LETTERS[node]);
    let explore = Explore::ReplicatedStateMachine { majority: 0 };
    let count = |script: &Script| states(&script.run, &request(model("posix"), explore, 1)).len();
    assert_eq!(count(&numbered), count(&drawn));
    for script in [numbered, drawn] {
        // Whichever of them leads, a majority with it and one without it.
        for majority in [[0, 1], [1, 2], [0, 2]] {
            assert!(lacking(&script, 0).contains(majority.as_slice()));
        }
        assert!(lacking(&script, 3).contains(&vec![0, 1, 2]));
        // Nodes that are said to do the same may not: each alone, and all.
        let two = lacking(&script, 2);
        for others in [&[0][..], &[1], &[2], &[0, 1, 2]] {
            assert!(lacking(&script, 0).contains(others), "{others:?}");
            assert!(!two.contains(others), "{others:?}");
        }
    }
}

/// Three nodes sync a file and write to it then, which a client has acknowledged: each has one operation that
/// it can lose. Any copy is enough for such a program, so nothing but the loss of all of them shows it.
#[test]
fn all_nodes_lose_the_only_operation_that_each_can_lose() {
    let mut script = Script::new(3, &[(FOO, "data", 4)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for node in 0..3 {
        script
            .message(3, node)
            .sync(node, FOO)
            .write(node, FOO, 0, 8, 4)
            .message(node, 3);
    }
    script.mark(3);
    assert!(lacking(&script, 0).contains(&vec![0, 1, 2]));
}

/// Three nodes that each can stop at 110 places, whatever the others do, have 1.3 million combinations.
#[test]
fn what_all_nodes_lose_at_once_is_left_out_where_they_have_too_many_places_and_that_is_told() {
    for (writes, is_left_out) in [(5, false), (110, true)] {
        let mut script = Script::new(3, &[(FOO, "foo", 8)]);
        for node in [0, 1, 2] {
            for _ in 0..writes {
                script.write(node, FOO, 0, 8, 8);
            }
        }
        let explore = Explore::ReplicatedStateMachine { majority: 0 };
        let mut request = request(model("ext4-ordered"), explore, 1);
        request.relaxations = Relaxations {
            synced: true,
            prefix: false,
            lost: false,
            cut: false,
            torn: false,
            stopped: false,
            names_only: false,
            all_torn: false,
            one_kept: false,
        };
        let spaces = Spaces::new(&script.run, &[request]).expect("there are states");
        assert_eq!(spaces.crowded(&script.run).is_without_all, is_left_out);
        let has_all = |count: &(&str, Count)| count.1.rule == "all nodes";
        assert_eq!(spaces.counts().iter().any(has_all), !is_left_out);
    }
}

#[test]
fn what_only_one_node_does_is_lost_alone() {
    let mut script = replaced_by_rename(|_| "tmp");
    // The second one syncs its directory at once: it can lose nothing then.
    let events = &mut script.run.nodes[1].events;
    let mut sync = events[3].clone();
    sync.action = Action::File(FileOp::Sync {
        file: FileId::ROOT,
        scope: SyncScope::File,
    });
    events.insert(5, sync);
    let lacking = lacking(&script, 0);
    let expected = [vec![], vec![0], vec![2], vec![0, 2]];
    assert_eq!(lacking, BTreeSet::from(expected), "the others can");
}
