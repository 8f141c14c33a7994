//! How many states there are, and some of them.

use std::cell::Cell;
use std::collections::HashSet;

use pace_rules::nodes::{Error, Explore, LINUX, MODELS, Model, Space, Spaces};
use trace::Node;

use super::support::{FOO, Script, model, replicated, request};

#[test]
fn a_sample_is_drawn_of_all_and_is_the_same_for_the_same_seed() {
    let script = replicated(false);
    let space = Space::new(
        &script.run,
        &request(model("posix"), Explore::BruteForce, 1),
    )
    .expect("there are states");
    let (one, again, other) = (
        space.sample(20, 1),
        space.sample(20, 1),
        space.sample(20, 2),
    );
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert_eq!(one.len(), 20);
    assert!(one.iter().chain(&other).all(|index| *index < space.len()));
}

#[test]
fn each_name_of_models_has_those_that_are_meant() {
    let names: Vec<_> = Model::names().collect();
    let different: HashSet<_> = names.iter().collect();
    assert_eq!(
        (names.len(), different.len()),
        (MODELS.len() + 1, names.len())
    );
    for name in &names {
        let models = Model::all_named(name);
        let own: Vec<_> = models.iter().map(|model| model.name).collect();
        if *name == LINUX {
            assert!(
                own.len() + 1 == MODELS.len() && !own.contains(&"posix"),
                "{own:?}"
            );
        } else {
            assert_eq!(own, [*name]);
        }
    }
    assert!(Model::all_named("ntfs").is_empty());
}

#[test]
fn a_state_has_its_place_in_the_space_of_its_model() {
    let script = replicated(false);
    let of_model = |model| request(model, Explore::BruteForce, 1);
    let requests: Vec<_> = Model::all_named(LINUX).into_iter().map(of_model).collect();
    let all = Spaces::new(&script.run, &requests).expect("there are states");
    let mut places = HashSet::new();
    for index in 0..all.len() {
        let (member, place) = all.place(index);
        let (of, state) = all.state(index);
        assert_eq!(
            (member, all.members()[member].space.state(place)),
            (of, state)
        );
        assert!(places.insert((member, place)), "{index} is another one too");
    }
}

/// Three nodes that do two thousand events each, in rounds, as a replicated log does.
#[test]
fn a_long_run_can_be_counted() {
    let mut script = Script::new(3, &[(FOO, "foo", 0)]);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for round in 0..200 {
        script
            .message(3, 0)
            .write(0, FOO, round * 60, 60, round * 60);
        script.message(0, 1).message(0, 2).sync(0, FOO);
        for node in [1, 2] {
            script
                .write(node, FOO, round * 60, 60, round * 60)
                .sync(node, FOO)
                .message(node, 0);
        }
        script.message(0, 3).mark(3);
    }
    for explore in [
        Explore::ReplicatedStateMachine { majority: 0 },
        Explore::BruteForce,
    ] {
        let started = std::time::Instant::now();
        let space = Space::new(&script.run, &request(model("posix"), explore, 1))
            .expect("there are states");
        let counted = started.elapsed();
        let last = space.state(space.len() - 1);
        assert!(last.cut[0] > 0);
        println!(
            "{explore:?}: {} states in {counted:?}, {:?}",
            space.len(),
            space.counts()
        );
    }
}

/// A look at each state, or at each pair of calls, would take hours here.
#[test]
fn states_of_a_run_of_many_calls_can_be_counted() {
    const CALLS: u64 = 10_000;
    for (syncs, states) in [(0, 40_000_000), (CALLS / 10, 10_000)] {
        let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
        for call in 0..CALLS {
            script.write(0, FOO, call % 4096, 1, 4096);
            if syncs > 0 && call % (CALLS / syncs) == 0 {
                script.sync(0, FOO).mark(0);
            }
        }
        for model in MODELS {
            let explore = Explore::ReplicatedStateMachine { majority: 0 };
            let space =
                Space::new(&script.run, &request(model, explore, 1)).expect("there are states");
            assert!(space.len() > states, "{}: {}", model.name, space.len());
            let state = space.state(space.len() / 2);
            assert!(space.allows(&state), "{}", model.name);
        }
    }
}

/// With four writes that nothing has made durable, the loss of two of them is no state if one is lost
/// at most: one is lost, all are, or all but one.
#[test]
fn moments_with_more_at_risk_than_is_lost_are_counted() {
    let count = |writes: u64, lost: usize, syncs: bool| {
        let mut script = Script::new(1, &[(FOO, "foo", 8 * 4096)]);
        for page in 0..writes {
            script.write(0, FOO, page * 4096, 8, 8 * 4096);
            if syncs {
                script.sync(0, FOO);
            }
        }
        script.mark(0);
        let request = request(model("ext4-ordered"), Explore::BruteForce, lost);
        let spaces = Spaces::new(&script.run, &[request]).expect("there are states");
        let crowded = spaces.crowded(&script.run);
        assert_eq!(crowded.of, script.run.nodes[0].events.len() as u64 + 1);
        crowded.moments
    };
    assert_eq!(count(3, 1, false), 0);
    // After the fourth write, and after the line that follows it.
    assert_eq!(count(4, 1, false), 2);
    assert_eq!(count(4, 2, false), 0);
    assert_eq!(count(5, 1, false), 3);
    assert_eq!(count(8, 1, true), 0);
}

/// With several losses there are very many sets at one place.
#[test]
fn sets_of_losses_that_nobody_wants_are_not_listed_to_the_end() {
    let writes = 40;
    let mut script = Script::new(1, &[(FOO, "foo", writes * 4096)]);
    for page in 0..writes {
        script.write(0, FOO, page * 4096, 8, writes * 4096);
    }
    let request = request(model("ext4-ordered"), Explore::BruteForce, 8);
    let (asked, last) = (Cell::new(0), 400);
    let is_unwanted = || {
        asked.set(asked.get() + 1);
        asked.get() > last
    };
    let ended = Spaces::unless(&script.run, &[request], &is_unwanted).err();
    assert_eq!(ended, Some(Error::Unwanted));
    assert_eq!(asked.get(), last + 1);
}

/// It is asked at each call and at each place whether they are wanted, and the first no ends it.
#[test]
fn states_that_nobody_wants_are_not_computed_to_the_end() {
    let calls = 1500;
    let mut script = Script::new(3, &[(FOO, "foo", calls)]);
    for call in 0..calls {
        script.write(0, FOO, call, 1, calls);
        if call % 8 == 7 {
            script.sync(0, FOO);
        }
    }
    for explore in [
        Explore::BruteForce,
        Explore::ReplicatedStateMachine { majority: 0 },
    ] {
        let request = request(model("ext4-ordered"), explore, 1);
        let asked = Cell::new(0);
        let ends_at = |last: u64| {
            asked.set(0);
            let is_unwanted = || {
                asked.set(asked.get() + 1);
                asked.get() > last
            };
            Spaces::unless(&script.run, &[request], &is_unwanted).err()
        };
        assert_eq!(ends_at(u64::MAX), None);
        // The events are read, places are looked for, and each kind of states is counted at each place.
        let all = asked.get();
        assert!(all >= 11 * calls, "{all}");
        for last in (0..all).step_by(3001).chain([all - 1]) {
            assert_eq!(ends_at(last), Some(Error::Unwanted), "{last} of {all}");
            assert!(asked.get() <= last + 2, "{last} of {all}");
        }
    }
}
