//! States in which all is lost at once that nothing had made durable.

use std::collections::BTreeSet;

use pace_rules::nodes::{Explore, Growth, MODELS, Relaxation, Space, State};
use trace::{FileId, Node, Run};

use super::support::{
    BAR, Byte, FOO, OTHER, Script, Tree, content, has, is_zeros, marks, model, name, request, size,
    told, tree,
};

/// Whether a file begins with the bytes that it had before the run.
fn is_old(run: &Run, tree: &Tree, text: &str) -> bool {
    let file = run.nodes[0]
        .initial
        .iter()
        .find(|file| file.name == name(text));
    let (_, data) = &file.expect("it was there").content[0];
    content(tree, text)[0] == Byte::Written(data.at)
}

/// The states of a run that lost all at once, with their numbers.
fn synced(space: &Space) -> Vec<(u64, State)> {
    let all = (0..space.len()).map(|index| (index, space.state(index)));
    all.filter(|(_, state)| state.relaxation == Relaxation::Synced)
        .collect()
}

const THREE: [(FileId, &str, u64); 3] = [(FOO, "foo", 8), (BAR, "bar", 8), (OTHER, "other", 8)];

/// Three files are overwritten; what is synced before an acknowledgement is there, and nothing else
/// need be.
#[test]
fn all_that_nothing_made_durable_is_lost_at_once() {
    for kept in 0..1 << THREE.len() {
        let is_kept = |place: usize| kept >> place & 1 == 1;
        let mut script = Script::new(1, &THREE);
        for (file, ..) in THREE {
            script.write(0, file, 0, 8, 8);
        }
        for (place, (file, ..)) in THREE.into_iter().enumerate() {
            if is_kept(place) {
                script.sync(0, file);
            }
        }
        script.mark(0);
        let is_meant = |tree: &Tree| {
            let mut files = THREE.iter().enumerate();
            files.all(|(place, (_, text, _))| is_old(&script.run, tree, text) != is_kept(place))
        };
        for model in MODELS {
            let told = told(&script, model.name, 1, 1);
            assert!(told.iter().any(is_meant), "{} {kept}", model.name);
        }
    }
}

/// The program may have been anywhere between two syncs: what it acknowledges there decides, and how
/// far it had come at the end.
#[test]
fn a_state_that_lost_all_at_once_is_of_the_last_moment_before_more_is_durable() {
    for (acknowledges, states) in [(false, 2), (true, 7)] {
        let mut script = Script::new(1, &THREE);
        for _ in 0..2 {
            script.write(0, FOO, 0, 8, 8);
            for _ in 0..3 {
                script.write(0, BAR, 0, 8, 8);
                if acknowledges {
                    script.mark(0);
                }
            }
            script.write(0, OTHER, 0, 8, 8).sync(0, OTHER);
        }
        for model in MODELS {
            let request = request(model, Explore::BruteForce, 1);
            let space = Space::new(&script.run, &request).expect("there are states");
            assert_eq!(synced(&space).len(), states, "{}", model.name);
        }
    }
}

/// All bytes are lost and all names kept also before a name that comes later.
#[test]
fn bytes_are_lost_at_once_before_a_later_name_and_after_it() {
    let (new, later) = (FileId(7), FileId(8));
    let mut script = Script::new(1, &THREE);
    script
        .write(0, FOO, 0, 8, 8)
        .write(0, BAR, 0, 8, 8)
        .unlink(0, OTHER, "other")
        .create(0, new, "new")
        .create(0, later, "later");
    for model in MODELS {
        let told = told(&script, model.name, 1, 0);
        for has_later in [false, true] {
            let is_meant = |tree: &Tree| {
                let is_old = |text| is_old(&script.run, tree, text);
                let has_names = !has(tree, "other") && has(tree, "new");
                has_names && is_old("foo") && is_old("bar") && has(tree, "later") == has_later
            };
            assert!(told.iter().any(is_meant), "{} {has_later}", model.name);
        }
    }
}

#[test]
fn who_syncs_each_thing_before_the_next_loses_nothing_at_once() {
    let mut script = Script::new(1, &THREE);
    for (file, ..) in THREE.into_iter().cycle().take(30) {
        script.write(0, file, 0, 8, 8).sync(0, file).mark(0);
    }
    for model in MODELS {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        assert_eq!(synced(&space), [], "{}", model.name);
    }
}

/// Of what is lost at once any part can be lost alone, with what cannot be kept without it.
#[test]
fn of_all_that_is_lost_at_once_some_is_lost() {
    let mut script = Script::new(1, &THREE);
    for (file, ..) in THREE {
        script.write(0, file, 0, 8, 8);
    }
    script.mark(0);
    for model in MODELS {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        let [(index, _)] = synced(&space)[..] else {
            panic!("one state, on {}", model.name);
        };
        let all = space.losses(index);
        assert_eq!(all.len(), 3);
        for lost in 0..1 << all.len() {
            let is_lost = |place: usize| lost >> place & 1 == 1;
            let some = all.iter().enumerate().filter(|(place, _)| is_lost(*place));
            let some: Vec<_> = some.map(|(_, loss)| *loss).collect();
            let state = space.with_losses(index, &some);
            assert!(space.allows(&state), "{} {state:?}", model.name);
            let tree = tree(&script.run, &space, &state, 0);
            let is_old = THREE.map(|(_, text, _)| is_old(&script.run, &tree, text));
            assert_eq!(is_old, [0, 1, 2].map(is_lost), "{}", model.name);
            assert_eq!(marks(&script.run, &state), 1);
        }
        // Those with a number lack some of it, and nothing else.
        let fewer = space.with_fewer_lost(index);
        assert!(fewer.len() >= 3, "{}", model.name);
        let is_part = |number: &u64| space.losses(*number).iter().all(|loss| all.contains(loss));
        assert!(fewer.iter().all(is_part), "{}", model.name);
        assert!(space.with_fewer_lost(0).is_empty());
    }
}

/// Each node alone, and all of them, with the most that clients had been told.
#[test]
fn nodes_lose_all_at_once_alone_and_together() {
    let mut script = Script::new(2, &THREE);
    script.run.nodes.push(Node {
        name: "client".into(),
        ..Node::default()
    });
    for node in [0, 1] {
        script.write(node, FOO, 0, 8, 8).write(node, BAR, 0, 8, 8);
    }
    script.message(0, 2).message(1, 2).mark(2);
    let losers = |explore| -> BTreeSet<Vec<usize>> {
        let request = request(model("posix"), explore, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        let told = synced(&space).into_iter().filter(|(_, state)| {
            let lost = state
                .nodes
                .iter()
                .map(|node| node.lost.len())
                .sum::<usize>();
            marks(&script.run, state) == 1 && lost >= 2
        });
        told.map(|(_, state)| state.relaxed).collect()
    };
    let all = [vec![0], vec![0, 1], vec![1]];
    assert_eq!(losers(Explore::BruteForce), all.clone().into());
    assert_eq!(losers(Explore::SameOnAll), all.clone().into());
    assert_eq!(
        losers(Explore::PrimaryReplicas { primary: 1 }),
        all.clone().into()
    );
    let majority = |majority| losers(Explore::ReplicatedStateMachine { majority });
    assert_eq!(majority(0), all.into());
    assert_eq!(majority(2), [vec![0, 1]].into());
}

/// Two copies are overwritten in place, and the log that could mend them is removed: no single loss
/// harms, and if all is lost at once the log is there.
#[test]
fn names_are_kept_without_any_of_the_bytes() {
    for synced in [None, Some(FOO)] {
        let mut script = Script::new(1, &THREE);
        for (file, ..) in &THREE[..2] {
            script.write(0, *file, 0, 8, 8);
        }
        if let Some(file) = synced {
            script.sync(0, file);
        }
        script.unlink(0, OTHER, "other").mark(0);
        let is_harmed = |tree: &Tree| {
            let mut copies = THREE[..2].iter();
            !has(tree, "other") && copies.all(|(_, text, _)| is_old(&script.run, tree, text))
        };
        for model in MODELS {
            let told = told(&script, model.name, 1, 1);
            let shows = told.iter().any(is_harmed);
            assert_eq!(shows, synced.is_none(), "{}", model.name);
        }
    }
}

/// Two new files have their names and sizes, and are zeros, where a size is kept alone.
#[test]
fn names_and_sizes_are_kept_without_any_of_the_bytes() {
    let mut script = Script::new(1, &[]);
    for (file, text, _) in THREE {
        script.create(0, file, text);
    }
    for (file, ..) in &THREE[..2] {
        script.write(0, *file, 0, 4096, 0);
    }
    script.mark(0);
    let texts = || THREE[..2].iter().map(|(_, text, _)| *text);
    let are_of_size = |wanted: usize| {
        move |tree: &Tree| {
            let is_one = |text| size(tree, text) == Some(wanted) && is_zeros(&content(tree, text));
            has(tree, "other") && texts().all(is_one)
        }
    };
    for model in MODELS {
        let told = told(&script, model.name, 1, 1);
        let are_zeros = told.iter().any(are_of_size(4096));
        assert_eq!(are_zeros, model.growth == Growth::Zeros, "{}", model.name);
        assert!(told.iter().any(are_of_size(0)), "{}", model.name);
    }
}

/// Two slots are written without a sync between them, and the disk has a part of each.
#[test]
fn all_writes_are_torn_at_once() {
    for is_synced in [false, true] {
        let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
        script.write(0, FOO, 0, 4096, 8192);
        if is_synced {
            script.sync(0, FOO);
        }
        script.write(0, FOO, 4096, 4096, 8192).mark(0);
        let are_torn = |tree: &Tree| {
            let content = content(tree, "foo");
            let is_new = |byte: &Byte| matches!(byte, Byte::Written(at) if *at >= 8192);
            let slots = [&content[..4096], &content[4096..]];
            slots.iter().all(|slot| {
                let new = slot.iter().filter(|byte| is_new(byte)).count();
                (1..4096).contains(&new)
            })
        };
        for model in MODELS {
            let told = told(&script, model.name, 1, 1);
            let is_possible = !is_synced && model.name != "btrfs";
            let shows = told.iter().any(are_torn);
            assert_eq!(shows, is_possible, "{} {is_synced}", model.name);
        }
    }
}

/// All is lost but one write, as where the kernel has written back one page.
#[test]
fn one_write_is_there_without_all_others() {
    let mut script = Script::new(1, &THREE);
    for file in [FOO, BAR, OTHER] {
        script.write(0, file, 0, 8, 8);
    }
    script.mark(0);
    let new = |tree: &Tree, script: &Script| {
        let names = ["foo", "bar", "other"].into_iter();
        let new: Vec<_> = names
            .filter(|name| !is_old(&script.run, tree, name))
            .collect();
        new
    };
    let shown = |script: &Script, model: &str| -> BTreeSet<Vec<&str>> {
        let told = told(script, model, 1, 1);
        told.iter().map(|tree| new(tree, script)).collect()
    };
    for model in MODELS {
        let shown = shown(&script, model.name);
        for one in ["foo", "bar", "other"] {
            assert!(shown.contains(&vec![one]), "{} {one}", model.name);
        }
    }
    // What is synced is there with each.
    let mut script = Script::new(1, &THREE);
    script.write(0, FOO, 0, 8, 8).write(0, BAR, 0, 8, 8);
    script.sync(0, FOO).write(0, OTHER, 0, 8, 8).mark(0);
    for model in MODELS {
        let shown = shown(&script, model.name);
        assert!(
            shown.iter().all(|new| new.contains(&"foo")),
            "{}",
            model.name
        );
    }
}

/// Of a write that is there alone, the disk may have a part.
#[test]
fn a_part_of_one_write_is_there_without_all_others() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "bar", 1024)]);
    script
        .write(0, FOO, 0, 8, 8)
        .write(0, BAR, 0, 1024, 1024)
        .mark(0);
    let is_new = |tree: &Tree, at: usize| matches!(content(tree, "bar")[at], Byte::Written(byte) if byte >= 1032);
    for second in [false, true] {
        let is_half = |tree: &Tree| {
            is_old(&script.run, tree, "foo")
                && is_new(tree, 0) != second
                && is_new(tree, 600) == second
        };
        for model in MODELS {
            let shows = told(&script, model.name, 1, 1).iter().any(is_half);
            assert_eq!(shows, model.name != "btrfs", "{}", model.name);
        }
    }
}
