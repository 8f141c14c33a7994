//! Names that go back to who had them before, where the log of btrfs has lost them.

use std::collections::HashSet;

use pace_rules::nodes::{Effect, Explore, Relaxation, Space, State, micros};
use trace::{ChangeOfName, FileId, FileKind, FileOp, SyncScope};

use super::support::{
    BAR, DIRECTORY, FOO, NOBODY, OTHER, Script, Tree, has, is_all_durable, marks, model, name,
    new_in, request, size, told, who, who_at_all, with_directory,
};

/// A second name that is not the last one, which another file had before.
#[test]
fn a_name_between_the_first_and_the_last_may_be_left_to_who_had_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, BAR, "bar")
        .rename(0, BAR, "bar", "foo", Some(FOO))
        .rename(0, BAR, "foo", "new", None)
        .sync(0, BAR)
        .mark(0);
    let both = |tree: &Tree| size(tree, "foo") == Some(8) && size(tree, "new") == Some(0);
    assert_eq!(who(&script, 1, both), ["btrfs"]);
    let is_twice = |tree: &Tree| has(tree, "bar") || size(tree, "foo") == Some(0);
    assert_eq!(who(&script, 1, is_twice), NOBODY);
}

/// A file has a name in another directory, with which it was synced, and loses the first one. The
/// directory of that was logged with what was new in it (`link a d/b; fsync d/b; unlink a; fsync d/b`
/// on a recorded disk, with a new file beside a); it is not logged again.
#[test]
fn a_name_may_be_there_again_if_its_directory_was_logged_before_on_btrfs() {
    let (directory, b) = (FileId(8), name("b"));
    let script = |is_new_beside: bool, synced: FileId| {
        let mut script = Script::new(1, &[(FOO, "a", 8)]);
        let mkdir = FileOp::Create {
            parent: FileId::ROOT,
            name: name("d"),
            file: directory,
            kind: FileKind::Directory,
            mode: 0o755,
        };
        script.file(0, mkdir).file(0, FileOp::SyncAll);
        if is_new_beside {
            script.create(0, BAR, "c");
        }
        let (parent, name) = (directory, b.clone());
        let link = FileOp::Link {
            parent,
            name,
            file: FOO,
        };
        script.file(0, link).sync(0, FOO).unlink(0, FOO, "a");
        script.sync(0, synced).mark(0);
        script
    };
    let both = |tree: &Tree| has(tree, "a") && tree.contains_key(&(directory, b.clone()));
    assert_eq!(who(&script(true, FOO), 1, both), ["btrfs"]);
    assert_eq!(who(&script(false, FOO), 1, both), NOBODY);
    assert_eq!(who(&script(true, FileId::ROOT), 1, both), NOBODY);
    // The sync may have kept that it is gone, without the file beside it.
    let is_gone = |tree: &Tree| !has(tree, "a") && !has(tree, "c");
    assert_eq!(who(&script(true, FOO), 1, is_gone), ["btrfs"]);
}

/// The same where the file was synced under the name that another one had before, and again under
/// its last one: that takes the place of the other in the log.
#[test]
fn a_name_that_was_synced_and_passed_on_may_be_left_to_who_had_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let unlink = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("foo"),
        file: FOO,
    };
    script
        .file(0, unlink)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .mark(0)
        .rename(0, BAR, "foo", "new", None)
        .mark(0)
        .sync(0, BAR)
        .mark(0);
    let is_old = |tree: &Tree| size(tree, "foo") == Some(8);
    assert_eq!(who(&script, 1, is_old), NOBODY);
    assert_eq!(who(&script, 2, is_old), NOBODY);
    let both = |tree: &Tree| is_old(tree) && has(tree, "new");
    assert_eq!(who(&script, 3, both), ["btrfs"]);
    let mut further = script.clone();
    further.create(0, OTHER, "other").mark(0);
    assert!(told(&further, "btrfs", 2, 4).iter().any(both));
    script.sync(0, BAR).mark(0);
    assert_eq!(who_at_all(&script, |tree| !has(tree, "new")), NOBODY);
    script.file(0, FileOp::SyncAll).sync(0, BAR).mark(0);
    assert!(is_all_durable(&script));
    // A name that was passed on before all was synced does not come back with a sync after that.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .rename(0, FOO, "foo", "old", None)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .rename(0, BAR, "foo", "new", None)
        .file(0, FileOp::SyncAll)
        .sync(0, BAR)
        .mark(0);
    assert!(is_all_durable(&script));
}

/// btrfs_log_new_name: of an exchange the log tree has what comes from a directory that was synced,
/// whichever of the two that is.
#[test]
fn what_an_exchange_takes_from_a_synced_directory_is_in_the_log_of_btrfs() {
    let there = (DIRECTORY, name("bar"));
    for is_first in [false, true] {
        let mut script = with_directory(&[]);
        script
            .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
            .sync(0, DIRECTORY)
            .create(0, FOO, "foo");
        let (here, in_there) = ((FileId::ROOT, name("foo")), there.clone());
        let (file, other, from, to) = if is_first {
            (BAR, FOO, in_there, here)
        } else {
            (FOO, BAR, here, in_there)
        };
        let exchange = FileOp::Rename {
            file,
            names: ChangeOfName { from, to },
            replaced: Some(other),
            exchange: true,
        };
        script.file(0, exchange).mark(0);
        let is_moved = |tree: &Tree| has(tree, "foo") && !tree.contains_key(&there);
        assert_eq!(who_at_all(&script, is_moved), ["btrfs"], "{is_first}");
    }
}

/// A name of what was synced goes from the log (btrfs_del_inode_ref_in_log): who had it before, and
/// lost it in no log, has it again.
#[test]
fn a_name_that_leaves_the_log_goes_back_to_who_had_it_before_on_btrfs() {
    let begun = |files: &[(FileId, &str, u64)]| {
        let mut script = Script::new(1, files);
        script
            .create(0, OTHER, "other")
            .unlink(0, FOO, "foo")
            .create(0, BAR, "foo")
            .datasync(0, BAR);
        script
    };
    let is_old = |tree: &Tree| size(tree, "foo") == Some(8);
    // It goes to another name, to nobody, or to another file.
    let mut renamed = begun(&[(FOO, "foo", 8)]);
    renamed.rename(0, BAR, "foo", "new", None).mark(0);
    let mut removed = begun(&[(FOO, "foo", 8)]);
    removed.unlink(0, BAR, "foo").mark(0);
    let third = FileId(9);
    let mut replaced = begun(&[(FOO, "foo", 8), (third, "third", 8)]);
    replaced.rename(0, third, "third", "foo", Some(BAR)).mark(0);
    let in_renamed = |tree: &Tree| is_old(tree) && has(tree, "new");
    assert_eq!(who(&renamed, 1, in_renamed), ["btrfs"]);
    let without_other = |tree: &Tree| is_old(tree) && !has(tree, "other");
    assert_eq!(who_at_all(&removed, without_other), ["btrfs"]);
    let by_half = |tree: &Tree| is_old(tree) && has(tree, "third");
    assert_eq!(who_at_all(&replaced, by_half), ["btrfs"]);
    // Where the new name is there, so is all that was before it, or the old file.
    for events in [renamed.run.nodes[0].events.len(), 5] {
        let mut script = renamed.clone();
        script.run.nodes[0].events.truncate(events);
        let is_nobodys = |tree: &Tree| has(tree, "new") && !has(tree, "foo") && !has(tree, "other");
        assert_eq!(who(&script, 1, is_nobodys), NOBODY);
        assert_eq!(who(&script, 0, is_nobodys), NOBODY);
        assert_eq!(who_at_all(&script, is_nobodys), NOBODY);
    }
    let is_lost = |tree: &Tree| !has(tree, "foo") && !has(tree, "new");
    assert_eq!(who_at_all(&renamed, is_lost), NOBODY);
    // A rename that is lost is not there in part.
    let request = request(model("btrfs"), Explore::BruteForce, 1);
    let space = Space::new(&renamed.run, &request).expect("there are states");
    let of_rename = |micro: &usize| space.micros(0)[*micro].event == 4;
    let all: Vec<_> = (0..space.micros(0).len()).filter(of_rename).collect();
    let states = (0..space.len()).map(|index| space.state(index));
    let lost: HashSet<_> = states
        .map(|state| state.nodes[0].lost.clone())
        .filter(|lost| !lost.is_empty() && lost.iter().all(of_rename))
        .collect();
    assert_eq!(lost, HashSet::from([all]));
}

/// A rename that is durable costs nothing, also where a name goes back with another loss.
#[test]
fn what_is_given_back_is_lost_with_others_only() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (DIRECTORY, "early", 8)]);
    script
        .write(0, DIRECTORY, 8, 8, 8)
        .unlink(0, FOO, "foo")
        .create(0, BAR, "foo")
        .rename(0, BAR, "foo", "new", None)
        .sync(0, BAR)
        .create(0, OTHER, "other")
        .mark(0);
    let trees = told(&script, "btrfs", 1, 1);
    let is_early = |tree: &&Tree| size(tree, "early") == Some(8) && has(tree, "other");
    assert_eq!(trees.iter().filter(is_early).count(), 1);
    let is_old = |tree: &&Tree| has(tree, "foo");
    // With what was done before, and at once with all else.
    assert_eq!(trees.iter().filter(is_old).count(), 2);
    // With the bytes that were written to another file, or without.
    let is_without = |tree: &&Tree| !has(tree, "other") && !has(tree, "foo");
    assert_eq!(trees.iter().filter(is_without).count(), 2);
    let request = request(model("btrfs"), Explore::BruteForce, 1);
    let space = Space::new(&script.run, &request).expect("there are states");
    let is_lost =
        |state: &State| state.relaxation == Relaxation::Lost && marks(&script.run, state) == 1;
    let states = (0..space.len()).map(|index| space.state(index));
    let states: Vec<_> = states.filter(is_lost).collect();
    let of_rename = |micro: &usize| space.micros(0)[*micro].event == 3;
    let mut given_back = 0;
    for mut state in states {
        let lost = &mut state.nodes[0].lost;
        assert!(!lost.is_empty());
        lost.retain(of_rename);
        given_back += lost.len();
        assert_eq!(space.allows(&state), state.nodes[0].lost.is_empty());
    }
    assert_eq!(given_back, 1);
}

/// How often it is said that the first file has lost a name.
fn removals(script: &Script) -> usize {
    let all = micros(&script.run.nodes[0], model("btrfs")).expect("few");
    all.iter()
        .filter(|micro| matches!(micro.effect, Effect::RemoveEntry { of: Some(FOO), .. }))
        .count()
}

/// Two took the name one after the other, and moved on or were replaced: it is the first one's again,
/// where only that one's loss of it is not there (`has d/; has a 100; rewrite t 100; fsync t;
/// rename t a; rename a b; rewrite a 5000; fsync a; rename a b; rewrite d/a 4096; fsync d/a` on a
/// recorded disk).
#[test]
fn a_name_that_two_took_may_be_the_first_ones_again_on_btrfs() {
    let second = FileId(8);
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, second, "t")
        .write(0, second, 0, 5, 0)
        .sync(0, second)
        .rename(0, second, "t", "foo", Some(FOO))
        .rename(0, second, "foo", "new", None)
        .create(0, BAR, "foo")
        .write(0, BAR, 0, 3, 0)
        .sync(0, BAR)
        .rename(0, BAR, "foo", "new", Some(second))
        .mark(0);
    let shows = |wanted| {
        move |tree: &Tree| {
            !has(tree, "t") && size(tree, "new") == Some(3) && size(tree, "foo") == wanted
        }
    };
    assert_eq!(who_at_all(&script, shows(Some(8))), ["btrfs"]);
    assert_eq!(who_at_all(&script, shows(Some(3))), NOBODY);
}

/// The same of a file that had the name for a time, and of those before.
#[test]
fn a_name_goes_back_to_the_first_and_to_the_last_of_those_who_had_it_on_btrfs() {
    let (second, third) = (FileId(8), FileId(9));
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .unlink(0, FOO, "foo")
        .create(0, second, "foo")
        .write(0, second, 0, 5, 0)
        .rename(0, second, "foo", "second", None)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .rename(0, BAR, "foo", "new", None)
        .mark(0);
    let shows = |wanted| move |tree: &Tree| has(tree, "new") && size(tree, "foo") == wanted;
    // The bytes of the second were not written. If it had the name when all was committed, the sync
    // logged it with its new one: no disk of 855 had it there, with commits and syncs of others between
    // any two of the calls.
    for (wanted, models) in [
        (Some(8), &["btrfs"][..]),
        (Some(0), &[]),
        (None, &["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]),
    ] {
        assert_eq!(who_at_all(&script, shows(wanted)), models, "{wanted:?}");
    }
    let twice = |tree: &Tree| shows(Some(0))(tree) && has(tree, "second");
    assert_eq!(who_at_all(&script, twice), NOBODY);
    // More of them between the two make no difference.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script.unlink(0, FOO, "foo");
    for file in [second, third] {
        script.create(0, file, "foo").unlink(0, file, "foo");
    }
    script
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .rename(0, BAR, "foo", "new", None)
        .mark(0);
    for wanted in [8, 0] {
        assert_eq!(who_at_all(&script, shows(Some(wanted))), ["btrfs"]);
    }
    // A sync of the directory keeps that they lost it, and so does one of all.
    for sync in [
        FileOp::SyncAll,
        FileOp::Sync {
            file: FileId::ROOT,
            scope: SyncScope::File,
        },
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        script
            .unlink(0, FOO, "foo")
            .file(0, sync)
            .create(0, third, "foo")
            .sync(0, third)
            .rename(0, third, "foo", "new", None);
        let is_old = |tree: &Tree| size(tree, "foo") == Some(8);
        assert_eq!(who_at_all(&script, is_old), NOBODY);
        assert_eq!(removals(&script), 1);
    }
    // Without a log there is nothing to give back.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .unlink(0, FOO, "foo")
        .create(0, third, "foo")
        .rename(0, third, "foo", "new", None)
        .file(0, FileOp::SyncAll)
        .sync(0, third);
    assert_eq!(removals(&script), 1);
}

/// btrfs_del_inode_ref_in_log: the log tree has the file, and no name of it. So it has the one that
/// is on the disk.
#[test]
fn a_file_without_its_last_name_has_those_of_before_on_btrfs() {
    let renamed = |synced: &[FileId]| {
        let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "bar", 8)]);
        script.rename(0, FOO, "foo", "new", None);
        for file in synced {
            script.sync(0, *file);
        }
        script
    };
    let is_old = |tree: &Tree| has(tree, "foo");
    // It is removed, or replaced; with something else after that.
    for (synced, models) in [
        (&[FOO][..], &["btrfs"][..]),
        (&[FileId::ROOT], &[]),
        (&[FOO, FileId::ROOT], &[]),
    ] {
        let mut script = renamed(synced);
        script.unlink(0, FOO, "new").mark(0);
        assert_eq!(who(&script, 1, is_old), models, "{synced:?}");
        script.create(0, OTHER, "other").mark(0);
        assert_eq!(who(&script, 2, is_old), models, "{synced:?}");
        assert_eq!(who_at_all(&script, is_old), models, "{synced:?}");
        let mut script = renamed(synced);
        script.rename(0, BAR, "bar", "new", Some(FOO)).mark(0);
        assert_eq!(who(&script, 1, is_old), models, "{synced:?}");
    }
    // What was synced is not lost with what was done before it.
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .create(0, OTHER, "other")
        .rename(0, FOO, "foo", "new", None)
        .sync(0, FOO)
        .unlink(0, FOO, "new")
        .mark(0);
    let alone = |tree: &Tree| has(tree, "new") && !has(tree, "other");
    assert_eq!(who_at_all(&script, alone), ["btrfs"]);
    // It has another name, or was never in a log, or all is synced, before or after.
    let mut linked = renamed(&[]);
    let link = FileOp::Link {
        parent: FileId::ROOT,
        name: name("link"),
        file: FOO,
    };
    linked.file(0, link).sync(0, FOO).unlink(0, FOO, "new");
    let mut before = renamed(&[FOO]);
    before.file(0, FileOp::SyncAll).unlink(0, FOO, "new");
    let mut after = renamed(&[FOO]);
    after.unlink(0, FOO, "new").file(0, FileOp::SyncAll);
    for script in [linked, before, after] {
        assert_eq!(who_at_all(&script, is_old), NOBODY);
    }
}

/// The name goes from the log tree at once, and the file that has it now is not in there. Where the
/// name was on the disk before, it stays.
#[test]
fn a_name_that_was_synced_and_replaced_can_be_nobodys_on_btrfs() {
    let bar = (DIRECTORY, name("bar"));
    let neither = |tree: &Tree| !has(tree, "foo") && !tree.contains_key(&bar);
    let from_directory = FileOp::Rename {
        file: BAR,
        names: ChangeOfName {
            from: bar.clone(),
            to: (FileId::ROOT, name("foo")),
        },
        replaced: Some(FOO),
        exchange: false,
    };
    // What was synced: with its old directory the log tree has the new name too.
    for (is_new, synced, models) in [
        (true, vec![FOO], &["btrfs"][..]),
        (true, vec![FileId::ROOT], &["btrfs"]),
        (true, vec![FileId::ROOT, DIRECTORY], &[]),
        (false, vec![FOO], &[]),
        (false, vec![FileId::ROOT], &[]),
        (false, vec![], &[]),
    ] {
        let files = [(FOO, "foo", 8)];
        let mut script = with_directory(if is_new { &[] } else { &files });
        if is_new {
            script.create(0, FOO, "foo");
        }
        for synced in &synced {
            script.sync(0, *synced);
        }
        script
            .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
            .file(0, from_directory.clone())
            .mark(0);
        assert_eq!(who(&script, 1, neither), models, "{is_new} {synced:?}");
    }
}

/// btrfs_del_inode_ref_in_log, btrfs_del_dir_entries_in_log: what the log has of names is gone from
/// it at once. The log of a directory has only new names, and that of a file has none of a directory
/// in which the last one was removed: what is on the disk stays then. So recorded disks show it.
#[test]
fn a_name_that_was_synced_can_go_before_what_was_done_before_on_btrfs() {
    let alone = |tree: &Tree| !has(tree, "foo") && !has(tree, "bar") && has(tree, "other");
    for (is_new, has_another, synced, models) in [
        (true, false, FOO, &["btrfs"][..]),
        (true, false, FileId::ROOT, &["btrfs"]),
        (false, false, FOO, &[]),
        (false, false, FileId::ROOT, &[]),
        (false, true, FOO, &["btrfs"]),
    ] {
        let mut script = Script::new(1, &[]);
        let link = FileOp::Link {
            parent: FileId::ROOT,
            name: name("another"),
            file: FOO,
        };
        script.create(0, OTHER, "other").create(0, FOO, "foo");
        if has_another {
            script.file(0, link);
        }
        if !is_new {
            script.file(0, FileOp::SyncAll);
        }
        script
            .write(0, FOO, 0, 8, 0)
            .sync(0, OTHER)
            .sync(0, synced)
            .create(0, BAR, "bar")
            .unlink(0, FOO, "foo")
            .mark(0);
        let words = format!("{is_new} {has_another} {synced:?}");
        assert_eq!(who(&script, 1, alone), models, "{words}");
    }
}

/// The log has a new file of a directory that was synced, and follows when that gets another name:
/// not so a file that was there before.
#[test]
fn a_link_to_a_file_that_was_logged_with_its_directory_can_be_kept_alone_on_btrfs() {
    let alone = |tree: &Tree| has(tree, "link") && !has(tree, "bar");
    for (is_new, models) in [(true, &["btrfs"][..]), (false, &[])] {
        let files = [(FOO, "foo", 8)];
        let mut script = Script::new(1, if is_new { &[] } else { &files });
        if is_new {
            script.create(0, FOO, "foo");
        }
        let link = FileOp::Link {
            parent: FileId::ROOT,
            name: name("link"),
            file: FOO,
        };
        script
            .create(0, OTHER, "other")
            .sync(0, FileId::ROOT)
            .create(0, BAR, "bar")
            .file(0, link)
            .mark(0);
        assert_eq!(who(&script, 1, alone), models, "{is_new}");
    }
}

/// Its new name goes from the log, and what was replaced is on the disk.
#[test]
fn what_was_replaced_is_back_if_who_took_its_name_loses_that_on_btrfs() {
    let rename = |from: (FileId, &str), to: (FileId, &str), replaced| FileOp::Rename {
        file: FOO,
        names: ChangeOfName {
            from: (from.0, name(from.1)),
            to: (to.0, name(to.1)),
        },
        replaced,
        exchange: false,
    };
    let unlink = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("bar"),
        file: FOO,
    };
    let is_old = |tree: &Tree| size(tree, "bar") == Some(5);
    for (last, models) in [
        (None, &[][..]),
        (Some(unlink), &["btrfs"]),
        (
            Some(rename((FileId::ROOT, "bar"), (FileId::ROOT, "new"), None)),
            &["btrfs"],
        ),
    ] {
        let mut script = with_directory(&[(BAR, "bar", 5)]);
        script
            .file(0, new_in(DIRECTORY, "foo", FOO, FileKind::Regular))
            .file(0, FileOp::SyncAll)
            .write(0, FOO, 0, 8, 0)
            .sync(0, FOO)
            .file(
                0,
                rename((DIRECTORY, "foo"), (FileId::ROOT, "bar"), Some(BAR)),
            )
            .sync(0, FOO);
        let words = format!("{last:?}");
        if let Some(last) = last {
            script.file(0, last);
        }
        script.mark(0);
        assert_eq!(who_at_all(&script, is_old), models, "{words}");
    }
}

/// The log has a rename, and that its file was renamed again, but not that another file lost its name
/// to it. A sweep shows that: it loses the half of the first rename.
#[test]
fn a_replaced_name_alone_is_lost_on_btrfs() {
    let second = FileId(8);
    let shows = |tree: &Tree| {
        !has(tree, "t") && size(tree, "new") == Some(5) && size(tree, "foo") == Some(8)
    };
    for (is_synced, models) in [(true, &["btrfs"][..]), (false, &NOBODY)] {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        script.create(0, second, "t").write(0, second, 0, 5, 0);
        if is_synced {
            script.sync(0, second);
        }
        script
            .rename(0, second, "t", "foo", Some(FOO))
            .rename(0, second, "foo", "new", None)
            .create(0, BAR, "bar")
            .sync(0, BAR)
            .mark(0);
        assert_eq!(who(&script, 1, shows), models);
        // It is among what loses one operation.
        let single = told(&script, "btrfs", 1, 1);
        assert_eq!(single.iter().any(shows), is_synced);
    }
}
