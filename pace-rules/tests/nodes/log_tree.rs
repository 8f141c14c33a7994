//! The log of btrfs: names that a sync keeps for itself, and what goes with them.

use pace_rules::nodes::{Explore, Log, MODELS, Relaxation, Space, State};
use trace::{ChangeOfName, FileId, FileKind, FileOp, Name};

use super::support::{
    BAR, Byte, DIRECTORY, FOO, NOBODY, OTHER, Script, Tree, content, has, is_zeros, moved_over,
    moved_to, name, new_in, request, size, told, tree, who, who_at_all, with_directory,
};

/// btrfs_log_new_name: what the log tree has it follows, and the next sync of anybody keeps it.
#[test]
fn a_new_name_of_what_was_synced_can_be_kept_without_what_was_before_it_on_btrfs() {
    let mut script = Script::new(1, &[(BAR, "bar", 8)]);
    let (from, to) = (8, 0);
    let emptied = FileOp::Resize {
        file: BAR,
        from,
        to,
    };
    script
        .create(0, FOO, "foo")
        .sync(0, FOO)
        .file(0, emptied.clone())
        .rename(0, FOO, "foo", "new", None)
        .mark(0);
    let alone = |tree: &Tree| has(tree, "new") && size(tree, "bar") == Some(8);
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
    // A file that was not synced is not in the log.
    let mut script = Script::new(1, &[(BAR, "bar", 8)]);
    script
        .create(0, FOO, "foo")
        .file(0, emptied)
        .rename(0, FOO, "foo", "new", None)
        .mark(0);
    let none: [&str; 0] = [];
    assert_eq!(who(&script, 1, alone), none);
}

/// A commit has what came before the first new file, and a log tree the second one. That a write to another
/// file came before the sync of that changes nothing.
#[test]
fn what_a_sync_logs_is_there_without_what_was_made_before_it_on_btrfs() {
    let second = FileId(40);
    for appends in [false, true] {
        let mut script = Script::new(1, &[(FOO, "log", 8)]);
        script
            .create(0, BAR, "earlier")
            .write(0, BAR, 0, 8, 0)
            .create(0, OTHER, "first")
            .create(0, second, "second")
            .write(0, second, 0, 8, 0);
        if appends {
            script.write(0, FOO, 8, 8, 8);
        }
        script.sync(0, second).sync(0, OTHER).mark(0);
        let without = |tree: &Tree| {
            let is_whole = size(tree, "earlier") == Some(8) && !is_zeros(&content(tree, "earlier"));
            is_whole && has(tree, "second") && !has(tree, "first")
        };
        let trees = told(&script, "btrfs", 1, 0);
        assert!(trees.iter().any(without), "{appends}");
    }
}

/// The models that may lose one operation of a run and nothing else.
fn who_loses_only(script: &Script, event: usize) -> Vec<&'static str> {
    let shown = MODELS.iter().filter(|model| {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("there are states");
        let micros = space.micros(0);
        let mut all = (0..space.len()).map(|index| space.state(index));
        all.any(|state| {
            let lost = &state.nodes[0].lost;
            state.nodes[0].micros == micros.len()
                && !lost.is_empty()
                && lost.iter().all(|lost| micros[*lost].event == event)
        })
    });
    shown.map(|model| model.name).collect()
}

/// With the new name the directories above it are logged that are new.
#[test]
fn a_new_name_of_what_was_synced_comes_with_the_directory_that_it_is_in_on_btrfs() {
    for (synced, models) in [(FOO, &["btrfs"][..]), (OTHER, &[])] {
        let mut script = Script::new(1, &[(BAR, "bar", 8), (OTHER, "other", 8)]);
        let link = FileOp::Link {
            parent: DIRECTORY,
            name: name("link"),
            file: FOO,
        };
        let made = new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
        script
            .create(0, FOO, "foo")
            .write(0, FOO, 0, 8, 0)
            .sync(0, synced)
            .rename(0, BAR, "bar", "new", None)
            .file(0, made)
            .file(0, link)
            .mark(0);
        let is_alone = |tree: &Tree| {
            let is_linked = tree.contains_key(&(DIRECTORY, name("link")));
            has(tree, "directory") && is_linked && has(tree, "bar")
        };
        assert_eq!(who_at_all(&script, is_alone), models, "{synced:?}");
    }
}

/// The log is written as a whole: what comes to it later is not there without what came before. So it
/// is where something is committed before the second file is logged: the name of the first follows
/// the directory then.
#[test]
fn a_removal_that_the_log_has_is_not_kept_without_an_earlier_new_name_there_on_btrfs() {
    for is_last in [true, false] {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        let bar = |script: &mut Script| {
            script
                .create(0, BAR, "bar")
                .write(0, BAR, 0, 8, 0)
                .sync(0, BAR);
        };
        if !is_last {
            bar(&mut script);
        }
        script.create(0, OTHER, "other").sync(0, FileId::ROOT);
        if is_last {
            bar(&mut script);
        }
        script
            .rename(0, BAR, "bar", "new", None)
            .unlink(0, OTHER, "other")
            .mark(0);
        let is_alone = |tree: &Tree| has(tree, "bar") && !has(tree, "other");
        let none: [&str; 0] = [];
        assert_eq!(who_at_all(&script, is_alone), none, "{is_last}");
    }
}

/// A directory is logged again with the one above it, and its names not if they were committed: so the
/// log that has one of them has what the directory above got later.
#[test]
fn a_removal_is_not_kept_without_an_earlier_new_name_in_the_directory_above_on_btrfs() {
    let made = |parent, text, file| new_in(parent, text, file, FileKind::Directory);
    for (synced, models) in [(FileId::ROOT, &[][..]), (DIRECTORY, &["btrfs"])] {
        let mut script = Script::new(1, &[(BAR, "bar", 8)]);
        script
            .file(0, made(FileId::ROOT, "old", DIRECTORY))
            .file(0, new_in(DIRECTORY, "foo", FOO, FileKind::Regular))
            .sync(0, FOO)
            .sync(0, FileId::ROOT)
            .file(0, made(FileId::ROOT, "new", OTHER))
            .sync(0, synced)
            .rename(0, BAR, "bar", "current", None)
            .file(
                0,
                FileOp::Unlink {
                    parent: DIRECTORY,
                    name: name("foo"),
                    file: FOO,
                },
            )
            .unlink(0, DIRECTORY, "old")
            .mark(0);
        let is_removed =
            |tree: &Tree| !tree.contains_key(&(DIRECTORY, name("foo"))) || !has(tree, "old");
        let is_alone = |tree: &Tree| has(tree, "bar") && is_removed(tree);
        assert_eq!(who_at_all(&script, is_alone), models, "{synced:?}");
    }
}

/// A new file that is synced under a name that another one had: the new name of that one is logged
/// with it, and of the one whose name that took, too (fstests generic/342).
#[test]
fn the_sync_of_a_new_file_keeps_the_renames_that_made_room_for_it_on_btrfs() {
    for (made, models) in [("foo", &[][..]), ("new", &["btrfs"])] {
        let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "foo.1", 8)]);
        script
            .rename(0, BAR, "foo.1", "foo.2", None)
            .rename(0, FOO, "foo", "foo.1", None)
            .create(0, OTHER, made)
            .sync(0, OTHER)
            .mark(0);
        let is_lost = |tree: &Tree| has(tree, made) && !has(tree, "foo.2");
        assert_eq!(who(&script, 1, is_lost), models, "{made}");
    }
    // One that had its name after all was committed last may be gone altogether.
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "foo")
        .rename(0, FOO, "foo", "foo.1", None)
        .create(0, OTHER, "foo")
        .sync(0, OTHER)
        .mark(0);
    let is_gone = |tree: &Tree| has(tree, "foo") && !has(tree, "foo.1");
    assert_eq!(who(&script, 1, is_gone), ["btrfs"]);
}

/// What is renamed in a directory that the log has, or in which the renamed file had its name when
/// all was committed last, is there with all that was renamed there before. Else it is there with the
/// rename that made room for it.
#[test]
fn a_new_name_is_not_kept_without_an_earlier_one_in_the_same_directory_on_btrfs() {
    for (synced, new, models) in [
        (FileId::ROOT, "other", &[][..]),
        (FileId::ROOT, "log.1", &[]),
        (BAR, "other", &["btrfs"]),
        (BAR, "log.1", &[]),
    ] {
        let mut script = Script::new(1, &[(FOO, "log.1", 8)]);
        script
            .create(0, BAR, "log.0")
            .write(0, BAR, 0, 8, 0)
            .sync(0, BAR)
            .sync(0, synced)
            .rename(0, FOO, "log.1", "log.2", None)
            .rename(0, BAR, "log.0", new, None)
            .mark(0);
        let is_alone = |tree: &Tree| !has(tree, "log.2") && !has(tree, "log.0");
        assert_eq!(who_at_all(&script, is_alone), models, "{synced:?} {new}");
    }
}

/// A file replaces a new one of another directory, is synced and removed. If the removal is lost it is
/// there as it was synced (differential test, seed 9100000).
#[test]
fn what_replaced_another_file_and_was_synced_is_there_if_its_removal_is_lost_on_btrfs() {
    let mut script = with_directory(&[(FOO, "foo", 100)]);
    let replaces = moved_over(FOO, (FileId::ROOT, "foo"), (DIRECTORY, "bar"), BAR);
    let removed = FileOp::Unlink {
        parent: DIRECTORY,
        name: name("bar"),
        file: FOO,
    };
    script
        .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
        .write(0, BAR, 0, 2500, 0)
        .file(0, replaces)
        .write(0, FOO, 12288, 5000, 100)
        .sync(0, FOO)
        .file(0, removed);
    let is_there = |tree: &Tree| {
        let bar = tree.get(&(DIRECTORY, name("bar")));
        bar.is_some_and(|bar| bar.len() == 17288) && !has(tree, "foo")
    };
    assert!(who_at_all(&script, is_there).contains(&"btrfs"));
}

/// What made room for a new file that is synced is logged with it, as large as it is then
/// (differential test, seed 9200012).
#[test]
fn what_made_room_for_a_new_file_is_cut_off_without_what_was_done_before_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 5000), (OTHER, "other", 100)]);
    let cut_off = FileOp::Resize {
        file: FOO,
        from: 5000,
        to: 4096,
    };
    script
        .unlink(0, OTHER, "other")
        .rename(0, FOO, "foo", "old", None)
        .file(0, cut_off)
        .create(0, BAR, "foo")
        .datasync(0, BAR);
    let is_cut_off =
        |tree: &Tree| has(tree, "other") && has(tree, "foo") && size(tree, "old") == Some(4096);
    assert_eq!(who_at_all(&script, is_cut_off), ["btrfs"]);
}

/// A rotation in which only the new log is synced: whoever has a name then was in the log with it, or on
/// the disk, so that the next rotation is not there by half.
#[test]
fn a_rotation_is_not_there_without_the_rename_that_began_it_on_btrfs() {
    let mut script = Script::new(1, &[]);
    let files = [FOO, BAR, OTHER];
    let logs = ["log", "log.1", "log.2"];
    for (round, file) in files.into_iter().enumerate() {
        for (older, age) in files.iter().zip((0..round).rev()) {
            script.rename(0, *older, logs[age], logs[age + 1], None);
        }
        script.create(0, file, "log").write(0, file, 0, 8, 0);
        script.sync(0, file).mark(0);
    }
    let is_lost = |tree: &Tree| logs.iter().any(|log| !has(tree, log));
    assert_eq!(who_at_all(&script, is_lost), [""; 0]);
}

/// A rotation in which the middle log is not synced. Where the log has the new name of that, its old one
/// was committed, and everything before that with it; or nothing was committed since the first log was
/// synced.
#[test]
fn a_rotation_of_a_log_that_is_not_synced_is_not_there_by_half_on_btrfs() {
    let first = |script: &mut Script, name: &str| {
        script
            .create(0, FOO, name)
            .write(0, FOO, 0, 8, 0)
            .sync(0, FOO);
    };
    let rest = |script: &mut Script, is_synced: bool| {
        script
            .create(0, BAR, "log")
            .rename(0, FOO, "log.1", "log.2", None)
            .rename(0, BAR, "log", "log.1", None);
        if is_synced {
            script.create(0, OTHER, "log").sync(0, OTHER);
        }
        script.mark(0);
    };
    for is_synced in [false, true] {
        for is_rotated in [false, true] {
            for is_directory_synced in [false, true] {
                let mut script = Script::new(1, &[]);
                first(&mut script, if is_rotated { "log" } else { "log.1" });
                if is_directory_synced {
                    script.sync(0, FileId::ROOT);
                }
                if is_rotated {
                    script.rename(0, FOO, "log", "log.1", None);
                }
                rest(&mut script, is_synced);
                let is_lost = |tree: &Tree| tree.values().all(|bytes| bytes.len() != 8);
                assert_eq!(
                    who_at_all(&script, is_lost),
                    NOBODY,
                    "{is_synced} {is_rotated} {is_directory_synced}"
                );
            }
        }
    }
}

/// What was renamed twice has its first new name if something was committed in between.
#[test]
fn a_second_new_name_may_be_lost_where_a_new_file_has_the_old_one_on_btrfs() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "log")
        .sync(0, FOO)
        .rename(0, FOO, "log", "log.1", None)
        .rename(0, FOO, "log.1", "log.2", None)
        .create(0, OTHER, "log")
        .sync(0, OTHER)
        .mark(0);
    let is_between = |tree: &Tree| has(tree, "log.1") && has(tree, "log") && !has(tree, "log.2");
    assert_eq!(who_at_all(&script, is_between), ["btrfs"]);
    let is_lost = |tree: &Tree| !has(tree, "log.1") && !has(tree, "log.2");
    assert_eq!(who_at_all(&script, is_lost), NOBODY);
}

/// What made room is gone where it may not have been there yet when the old name was committed.
#[test]
fn what_made_room_later_than_the_old_name_was_there_may_be_lost_on_btrfs() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, BAR, "log")
        .create(0, FOO, "log.1")
        .rename(0, FOO, "log.1", "log.2", None)
        .rename(0, BAR, "log", "log.1", None)
        .create(0, OTHER, "log")
        .sync(0, OTHER)
        .mark(0);
    let is_lost = |tree: &Tree| has(tree, "log.1") && has(tree, "log") && !has(tree, "log.2");
    assert_eq!(who_at_all(&script, is_lost), ["btrfs"]);
}

/// Two names that nobody had synced are lost both, whatever becomes of the first one later.
#[test]
fn what_is_lost_before_a_name_is_durable_does_not_depend_on_who_replaces_it_later_on_btrfs() {
    for is_replaced in [false, true] {
        let mut script = Script::new(1, &[]);
        script
            .create(0, FOO, "first")
            .rename(0, FOO, "first", "foo", None)
            .create(0, BAR, "bar")
            .sync(0, BAR)
            .rename(0, BAR, "bar", "new", None)
            .mark(0);
        if is_replaced {
            script.sync(0, FOO).create(0, OTHER, "other").rename(
                0,
                OTHER,
                "other",
                "foo",
                Some(FOO),
            );
        }
        let is_lost = |tree: &Tree| !has(tree, "foo") && !has(tree, "new") && has(tree, "bar");
        let lost = told(&script, "btrfs", 2, 1);
        assert!(lost.iter().any(is_lost), "{is_replaced}");
    }
}

/// A file is replaced by rename twice, and synced each time before the rename and after it. If the log
/// has lost the name of the first one, it has that of the second.
#[test]
fn a_name_that_was_replaced_is_not_lost_with_that_of_who_replaced_it_on_btrfs() {
    for (is_synced, models) in [(true, &[][..]), (false, &["btrfs"])] {
        let mut script = Script::new(1, &[]);
        script
            .create(0, FOO, "first")
            .write(0, FOO, 0, 8, 0)
            .sync(0, FOO)
            .rename(0, FOO, "first", "foo", None)
            .sync(0, FOO)
            .mark(0);
        script.create(0, BAR, "second").write(0, BAR, 0, 8, 0);
        if is_synced {
            script.sync(0, BAR);
        }
        script.rename(0, BAR, "second", "foo", Some(FOO)).mark(0);
        let is_gone = |tree: &Tree| !has(tree, "foo");
        assert_eq!(who_at_all(&script, is_gone), models, "{is_synced}");
    }
}

/// With the new name the inode is logged as it is: its mode is there, and what came before that not.
#[test]
fn a_new_name_of_what_was_synced_comes_with_the_mode_on_btrfs() {
    let mut script = Script::new(1, &[]);
    let (file, mode) = (FOO, 0o600);
    script
        .create(0, FOO, "foo")
        .sync(0, FOO)
        .create(0, BAR, "bar")
        .file(0, FileOp::SetMode { file, mode })
        .rename(0, FOO, "foo", "new", None)
        .mark(0);
    assert_eq!(who_loses_only(&script, 2), ["posix", "btrfs"]);
}

/// With a directory the new files in it are logged as they are, but for their sizes: such a file has
/// its mode and is empty.
#[test]
fn a_new_file_is_empty_with_its_mode_after_the_sync_of_its_directory_on_btrfs() {
    for synced in [FileId::ROOT, BAR] {
        let mut script = Script::new(1, &[(BAR, "bar", 8)]);
        let (file, mode) = (FOO, 0o600);
        let grown = FileOp::Resize {
            file,
            from: 0,
            to: 3,
        };
        script
            .create(0, file, "foo")
            .file(0, grown)
            .file(0, FileOp::SetMode { file, mode })
            .sync(0, synced)
            .mark(0);
        let is_logged = synced == FileId::ROOT;
        let models = if is_logged {
            &["posix", "btrfs"][..]
        } else {
            &["posix"]
        };
        assert_eq!(who_loses_only(&script, 1), models, "{synced:?}");
    }
}

#[test]
fn a_name_in_the_log_of_btrfs_can_have_the_size_of_bytes_that_are_not_there() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let (from, to) = (8, 0);
    script
        .file(
            0,
            FileOp::Resize {
                file: FOO,
                from,
                to,
            },
        )
        .write(0, FOO, 0, 3, 0)
        .rename(0, FOO, "foo", "new", None)
        .mark(0);
    let mut states = Vec::new();
    for syncs in [false, true] {
        if syncs {
            script.sync(0, FileId::ROOT);
        }
        for model in MODELS.iter().filter(|model| model.log != Log::None) {
            // The emptying and the bytes are lost, and all names are there.
            let request = request(model, Explore::BruteForce, 1);
            let space = Space::new(&script.run, &request).expect("a space");
            let micros = space.micros(0);
            let lost = (0..micros.len()).filter(|micro| micros[*micro].event < 2);
            let kept = pace_rules::nodes::NodeState {
                micros: micros.len(),
                lost: lost.collect(),
            };
            let state = State {
                cut: vec![script.run.nodes[0].events.len()],
                nodes: vec![kept],
                relaxation: Relaxation::Lost,
                relaxed: vec![0],
                start: pace_rules::nodes::StartOrder::Together,
            };
            let tree = tree(&script.run, &space, &state, 0);
            let is_old = |byte: &Byte| matches!(byte, Byte::Written(at) if *at < 8);
            let is_cut = size(&tree, "new") == Some(3) && content(&tree, "new").iter().all(is_old);
            if is_cut && space.allows(&state) {
                states.push((model.name, syncs));
            }
        }
    }
    assert_eq!(states, [("btrfs", true)]);
}

/// The size that is logged with a name is that of the file if it is smaller than on the disk.
#[test]
fn a_new_name_in_the_log_of_btrfs_can_have_the_size_to_which_the_file_shrank_later() {
    let resize = |file, to| FileOp::Resize { file, from: 8, to };
    let alone = |tree: &Tree| size(tree, "new") == Some(4) && size(tree, "bar") == Some(8);
    for (is_renamed, models) in [(true, &["btrfs"][..]), (false, &[])] {
        let text = if is_renamed { "foo" } else { "new" };
        let mut script = Script::new(1, &[(FOO, text, 8), (BAR, "bar", 8)]);
        if is_renamed {
            script.rename(0, FOO, "foo", "new", None);
        }
        script
            .file(0, resize(BAR, 0))
            .file(0, resize(FOO, 4))
            .sync(0, FileId::ROOT)
            .mark(0);
        assert_eq!(who_at_all(&script, alone), models, "{is_renamed}");
    }
    // It had its only name when it was logged.
    let mut script = Script::new(1, &[(BAR, "bar", 8)]);
    script
        .create(0, FOO, "new")
        .write(0, FOO, 0, 8, 0)
        .sync(0, FOO)
        .file(0, resize(BAR, 0))
        .file(0, resize(FOO, 4))
        .sync(0, FileId::ROOT)
        .mark(0);
    assert_eq!(who_at_all(&script, alone), NOBODY);
}

/// The log tree has the file too whose name another one took (log_conflicting_inodes).
#[test]
fn the_sync_of_a_file_may_keep_the_new_name_of_the_one_whose_name_it_took_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let other = FileId(3);
    script
        .create(0, other, "other")
        .rename(0, FOO, "foo", "old", None)
        .create(0, BAR, "foo")
        .sync(0, BAR)
        .mark(0);
    let alone = |tree: &Tree| has(tree, "old") && !has(tree, "other");
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
}

/// The log tree has the last names of a file, and knows nothing of those before: where another file
/// had them it still has.
#[test]
fn a_new_file_is_kept_without_the_rename_that_made_room_for_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script
        .rename(0, FOO, "foo", "bar", None)
        .create(0, BAR, "foo")
        .rename(0, BAR, "foo", "bar", Some(FOO))
        .sync(0, BAR)
        .mark(0);
    let both = |tree: &Tree| size(tree, "foo") == Some(8) && size(tree, "bar") == Some(0);
    assert_eq!(who(&script, 1, both), ["btrfs"]);
    let is_twice = |tree: &Tree| size(tree, "foo") == Some(0);
    assert_eq!(who(&script, 1, is_twice), NOBODY);
    let is_lost = |tree: &Tree| size(tree, "bar") != Some(0);
    assert_eq!(who(&script, 1, is_lost), NOBODY);
}

/// A file that was synced gets a name in another directory. With it the directory that it left is
/// logged, with what is new there and nothing of the other one; the sync of anybody keeps that
/// (`unlink d/b; rewrite c; append a dsync; rename a d/a; neighbour` on a recorded disk).
#[test]
fn a_new_name_is_logged_with_what_is_new_where_the_file_was_on_btrfs() {
    let (directory, old, new) = (FileId(8), name("b"), name("a"));
    let script = |is_synced: bool| {
        let mut script = Script::new(1, &[(FOO, "a", 8)]);
        let mkdir = FileOp::Create {
            parent: FileId::ROOT,
            name: name("d"),
            file: directory,
            kind: FileKind::Directory,
            mode: 0o755,
        };
        let create = FileOp::Create {
            parent: directory,
            name: old.clone(),
            file: FileId(9),
            kind: FileKind::Regular,
            mode: 0o644,
        };
        let unlink = FileOp::Unlink {
            parent: directory,
            name: old.clone(),
            file: FileId(9),
        };
        let rename = FileOp::Rename {
            file: FOO,
            names: ChangeOfName {
                from: (FileId::ROOT, name("a")),
                to: (directory, new.clone()),
            },
            replaced: None,
            exchange: false,
        };
        script.file(0, mkdir).file(0, create);
        script.file(0, FileOp::SyncAll);
        script.file(0, unlink).create(0, BAR, "c");
        if is_synced {
            script.sync(0, FOO);
        }
        script.file(0, rename).mark(0);
        script
    };
    let there = |name: &Name| {
        let entry = (directory, name.clone());
        move |tree: &Tree| tree.contains_key(&entry)
    };
    let is_back = |tree: &Tree| there(&old)(tree) && there(&new)(tree) && has(tree, "c");
    assert_eq!(who(&script(true), 1, is_back), ["btrfs"]);
    assert_eq!(who(&script(false), 1, is_back), NOBODY);
}

/// With a name in a directory that is synced, a file is logged with all that it has, and with none
/// that it had.
#[test]
fn the_sync_of_a_directory_may_keep_half_a_rename_elsewhere_on_btrfs() {
    let mut script = with_directory(&[(FOO, "foo", 8)]);
    let third = FileId(9);
    let link = FileOp::Link {
        parent: third,
        name: name("link"),
        file: FOO,
    };
    let rename = moved_to(FOO, (FileId::ROOT, "foo"), (DIRECTORY, "foo"));
    script
        .file(0, new_in(FileId::ROOT, "third", third, FileKind::Directory))
        .file(0, FileOp::SyncAll)
        .file(0, rename)
        .file(0, link)
        .sync(0, third)
        .mark(0);
    let is_there = |tree: &Tree| tree.contains_key(&(DIRECTORY, name("foo")));
    let both = |tree: &Tree| has(tree, "foo") && is_there(tree);
    assert_eq!(who_at_all(&script, both), ["btrfs"]);
}

/// The sync of a file with several names covers that another file took one of them.
#[test]
fn the_sync_of_a_file_keeps_that_it_lost_a_name_to_another_one() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let link = FileOp::Link {
        parent: FileId::ROOT,
        name: name("link"),
        file: FOO,
    };
    script
        .file(0, link)
        .create(0, BAR, "bar")
        .rename(0, BAR, "bar", "foo", Some(FOO))
        .sync(0, FOO)
        .mark(0);
    assert_eq!(
        who_at_all(&script, |tree| size(tree, "foo") == Some(8)),
        NOBODY
    );
}

/// btrfs_log_inode_parent: with no name a file is not logged, and neither is that it lost them. An
/// ordered journal has that before the sync.
#[test]
fn the_sync_of_a_file_without_a_name_keeps_nothing_of_its_names_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let unlink = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("foo"),
        file: FOO,
    };
    script.file(0, unlink).sync(0, FOO).mark(0);
    assert_eq!(who(&script, 1, |tree| has(tree, "foo")), ["btrfs"]);
}

/// btrfs_log_inode_parent stops at a directory that is on the disk already.
#[test]
fn the_sync_of_a_file_does_not_keep_the_new_name_of_an_old_directory_on_btrfs() {
    let is_in =
        |tree: &Tree, text| tree.contains_key(&(DIRECTORY, name("file"))) && has(tree, text);
    let mut script = with_directory(&[]);
    script
        .rename(0, DIRECTORY, "directory", "new", None)
        .file(0, new_in(DIRECTORY, "file", FOO, FileKind::Regular))
        .sync(0, FOO)
        .mark(0);
    assert_eq!(who(&script, 1, |tree| is_in(tree, "directory")), ["btrfs"]);
    let is_lost = |tree: &Tree| !is_in(tree, "directory") && !is_in(tree, "new");
    assert_eq!(who(&script, 1, is_lost), NOBODY);
}

/// The sync of the directory that a file leaves commits everything (btrfs_record_unlink_dir), or the log
/// has the new name already (btrfs_log_new_name).
#[test]
fn the_sync_of_the_directory_that_a_file_leaves_keeps_its_new_name_on_btrfs() {
    let create = new_in(DIRECTORY, "file", FOO, FileKind::Regular);
    let names = ChangeOfName {
        from: (DIRECTORY, name("file")),
        to: (FileId::ROOT, name("moved")),
    };
    let rename = FileOp::Rename {
        file: FOO,
        names,
        replaced: None,
        exchange: false,
    };
    let is_lost = |tree: &Tree| !has(tree, "moved");
    let committed = |script: &mut Script| {
        script.file(0, FileOp::SyncAll);
    };
    let logged = |script: &mut Script| {
        script.sync(0, FOO).sync(0, DIRECTORY);
    };
    for before in [&committed as &dyn Fn(&mut Script), &logged] {
        let mut script = with_directory(&[]);
        script.file(0, create.clone());
        before(&mut script);
        script.file(0, rename.clone()).sync(0, DIRECTORY).mark(0);
        assert_eq!(who(&script, 1, is_lost), NOBODY);
    }
}

/// One that is new is logged with the name that it has, and nothing else that was done before.
#[test]
fn the_sync_of_a_file_keeps_the_new_directory_above_it_and_its_name_on_btrfs() {
    let mut script = Script::new(1, &[]);
    let directory = new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
    script
        .file(0, directory)
        .create(0, OTHER, "other")
        .rename(0, DIRECTORY, "directory", "new", None)
        .file(0, new_in(DIRECTORY, "file", FOO, FileKind::Regular))
        .sync(0, FOO)
        .mark(0);
    let is_there =
        |tree: &Tree, text| tree.contains_key(&(DIRECTORY, name("file"))) && has(tree, text);
    let alone = |tree: &Tree| is_there(tree, "new") && !has(tree, "other");
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
    let is_lost = |tree: &Tree| !is_there(tree, "new") && !is_there(tree, "directory");
    assert_eq!(who(&script, 1, is_lost), NOBODY);
}

/// btrfs_log_all_parents: what is new in them can be there without what was done before.
#[test]
fn the_sync_of_a_file_with_a_new_name_may_keep_what_else_its_directories_have_on_btrfs() {
    let inside = |tree: &Tree, text| tree.contains_key(&(DIRECTORY, name(text)));
    let link = |parent, text, file| FileOp::Link {
        parent,
        name: name(text),
        file,
    };
    let unlink = FileOp::Unlink {
        parent: DIRECTORY,
        name: name("other"),
        file: OTHER,
    };
    let renamed = moved_to(BAR, (DIRECTORY, "file"), (DIRECTORY, "bar"));
    let second_gone = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("second"),
        file: BAR,
    };
    let synced = || {
        let mut script = with_directory(&[(FOO, "foo", 8)]);
        script
            .file(0, new_in(DIRECTORY, "file", BAR, FileKind::Regular))
            .file(0, new_in(DIRECTORY, "other", OTHER, FileKind::Regular))
            .file(0, link(FileId::ROOT, "second", BAR))
            .file(0, FileOp::SyncAll)
            .rename(0, FOO, "foo", "old", None);
        script
    };
    // What else is done in the directory, and the name that is there then, or is not.
    let new = new_in(DIRECTORY, "new", FileId(9), FileKind::Regular);
    for (op, text, is_new) in [
        (new, "new", true),
        (link(DIRECTORY, "new", OTHER), "new", true),
        (unlink, "other", false),
    ] {
        // The file has a new name, or not.
        let ways = [
            (Some(link(FileId::ROOT, "link", BAR)), &["btrfs"][..]),
            (Some(renamed.clone()), &["btrfs"]),
            (Some(second_gone.clone()), &["btrfs"]),
            (None, &[]),
        ];
        for (naming, models) in ways {
            let mut script = synced();
            if let Some(naming) = &naming {
                script.file(0, naming.clone());
            }
            script.file(0, op.clone()).sync(0, BAR).mark(0);
            let alone = |tree: &Tree| inside(tree, text) == is_new && has(tree, "foo");
            assert_eq!(who(&script, 1, alone), models, "{op:?} {naming:?}");
        }
    }
}

/// The name with which such a file was made is one of them.
#[test]
fn the_sync_of_a_directory_may_keep_the_first_name_of_a_file_that_is_linked_in_it_on_btrfs() {
    let unlink = FileOp::Unlink {
        parent: FileId::ROOT,
        name: name("foo"),
        file: FOO,
    };
    let link = FileOp::Link {
        parent: DIRECTORY,
        name: name("link"),
        file: BAR,
    };
    for (is_linked, models) in [(true, &["btrfs"][..]), (false, &[])] {
        let mut script = with_directory(&[(FOO, "foo", 8)]);
        script.file(0, unlink.clone()).create(0, BAR, "bar");
        if is_linked {
            script.file(0, link.clone());
        }
        script.sync(0, DIRECTORY).mark(0);
        let alone = |tree: &Tree| has(tree, "foo") && has(tree, "bar");
        assert_eq!(who(&script, 1, alone), models, "{is_linked}");
    }
}

/// log_new_dir_dentries: a directory that has a new name in one that is logged is logged too, with
/// what is new in it, and so on below it.
#[test]
fn the_sync_of_a_directory_may_keep_what_is_in_those_with_new_names_in_it_on_btrfs() {
    let inner = FileId(9);
    let inside =
        |parent, text: &'static str| move |tree: &Tree| tree.contains_key(&(parent, name(text)));
    let moved = moved_to(
        DIRECTORY,
        (FileId::ROOT, "directory"),
        (FileId::ROOT, "moved"),
    );
    let create = new_in(DIRECTORY, "new", FileId(10), FileKind::Regular);
    let in_new = [
        new_in(DIRECTORY, "inner", inner, FileKind::Directory),
        new_in(inner, "new", FileId(10), FileKind::Regular),
    ];
    let within = moved_to(BAR, (DIRECTORY, "bar"), (DIRECTORY, "new"));
    let third = FileId(11);
    let into = moved_to(FOO, (third, "foo"), (DIRECTORY, "new"));
    // What is done in the directory, and where something new is there then.
    for (ops, parent) in [
        (vec![create], DIRECTORY),
        (in_new.to_vec(), inner),
        (vec![within], DIRECTORY),
        (vec![into], DIRECTORY),
    ] {
        for (is_moved, models) in [(true, &["btrfs"][..]), (false, &[])] {
            let mut script = with_directory(&[(OTHER, "other", 8)]);
            script
                .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
                .file(0, new_in(FileId::ROOT, "third", third, FileKind::Directory))
                .file(0, new_in(third, "foo", FOO, FileKind::Regular))
                .file(0, FileOp::SyncAll);
            let emptied = FileOp::Resize {
                file: OTHER,
                from: 8,
                to: 0,
            };
            script.file(0, emptied);
            for op in &ops {
                script.file(0, op.clone());
            }
            if is_moved {
                script.file(0, moved.clone());
            }
            script.sync(0, FileId::ROOT).mark(0);
            let is_there = inside(parent, "new");
            let alone = |tree: &Tree| is_there(tree) && size(tree, "other") == Some(8);
            assert_eq!(who_at_all(&script, alone), models, "{ops:?}");
        }
    }
}

/// What goes from such a directory to another one, or takes the name of something in it, is not
/// removed for itself.
#[test]
fn nothing_is_lost_with_a_directory_that_has_a_new_name_on_btrfs() {
    let third = FileId(9);
    let rename = |file, from: (FileId, &str), to: (FileId, &str), replaced| FileOp::Rename {
        file,
        names: ChangeOfName {
            from: (from.0, name(from.1)),
            to: (to.0, name(to.1)),
        },
        replaced,
        exchange: false,
    };
    let root = FileId::ROOT;
    for (to, replaced) in [((third, "new"), None), ((DIRECTORY, "bar"), Some(BAR))] {
        let mut script = with_directory(&[]);
        script
            .file(0, new_in(DIRECTORY, "foo", FOO, FileKind::Regular))
            .file(0, new_in(DIRECTORY, "bar", BAR, FileKind::Regular))
            .file(0, new_in(root, "third", third, FileKind::Directory))
            .file(0, FileOp::SyncAll)
            .file(0, rename(FOO, (DIRECTORY, "foo"), to, replaced))
            .file(
                0,
                rename(DIRECTORY, (root, "directory"), (root, "moved"), None),
            )
            .sync(0, root)
            .mark(0);
        let is_there = |tree: &Tree, (parent, text)| tree.contains_key(&(parent, name(text)));
        let is_lost = |tree: &Tree| {
            let is_old = is_there(tree, (DIRECTORY, "foo"));
            !is_there(tree, to) && (!is_old || replaced.is_some())
        };
        assert_eq!(who_at_all(&script, is_lost), NOBODY, "{to:?}");
    }
}

/// A directory that is in the log, since it is new or has a new name there, is one that was synced.
#[test]
fn what_was_logged_with_something_else_follows_new_names_on_btrfs() {
    let file = FileId(9);
    let directory = || new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
    let of_directory = moved_to(
        DIRECTORY,
        (FileId::ROOT, "directory"),
        (FileId::ROOT, "new"),
    );
    let of_file = moved_to(file, (DIRECTORY, "file"), (DIRECTORY, "new"));
    for (synced, is_durable, renamed, parent, models) in [
        (file, false, &of_directory, FileId::ROOT, &["btrfs"][..]),
        (file, true, &of_directory, FileId::ROOT, &[]),
        (FileId::ROOT, false, &of_file, DIRECTORY, &["btrfs"]),
        (FileId::ROOT, true, &of_file, DIRECTORY, &[]),
    ] {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        let emptied = FileOp::Resize {
            file: FOO,
            from: 8,
            to: 0,
        };
        script.file(0, directory());
        if is_durable {
            script.file(0, FileOp::SyncAll);
        }
        script
            .file(0, new_in(DIRECTORY, "file", file, FileKind::Regular))
            .sync(0, synced)
            .file(0, emptied)
            .file(0, renamed.clone())
            .mark(0);
        let is_there = |tree: &Tree| tree.contains_key(&(parent, name("new")));
        let alone = |tree: &Tree| is_there(tree) && size(tree, "foo") == Some(8);
        assert_eq!(who(&script, 1, alone), models, "{synced:?} {is_durable}");
    }
}

/// `foo` gets its name in the directory above.
fn moves_up() -> FileOp {
    let names = ChangeOfName {
        from: (DIRECTORY, name("foo")),
        to: (FileId::ROOT, name("foo")),
    };
    FileOp::Rename {
        file: FOO,
        names,
        replaced: None,
        exchange: false,
    }
}

/// With a directory the files that have a new name in it are logged, and with that how large they are.
#[test]
fn a_file_that_was_cut_off_is_logged_with_the_directory_that_has_its_new_name_on_btrfs() {
    let mut script = with_directory(&[(OTHER, "other", 8)]);
    let (from, to) = (8, 3);
    let resize = FileOp::Resize {
        file: FOO,
        from,
        to,
    };
    script
        .file(0, new_in(DIRECTORY, "foo", FOO, FileKind::Regular))
        .write(0, FOO, 0, 8, 0)
        .file(0, FileOp::SyncAll)
        .file(0, moves_up())
        .rename(0, OTHER, "other", "new", None)
        .file(0, resize)
        .sync(0, OTHER)
        .mark(0);
    let is_half =
        |tree: &Tree| size(tree, "foo") == Some(3) && tree.contains_key(&(DIRECTORY, name("foo")));
    assert_eq!(who_at_all(&script, is_half), ["btrfs"]);
}

/// So is one that was cut off and has grown since: as large as it is, with its old bytes.
#[test]
fn a_file_that_was_cut_off_and_grew_is_logged_with_the_directory_of_its_new_name_on_btrfs() {
    let mut script = with_directory(&[]);
    let resize = |from, to| FileOp::Resize {
        file: FOO,
        from,
        to,
    };
    script
        .file(0, new_in(DIRECTORY, "foo", FOO, FileKind::Regular))
        .write(0, FOO, 0, 8, 0)
        .file(0, FileOp::SyncAll)
        .file(0, resize(8, 0))
        .file(0, moves_up())
        .file(0, resize(0, 3))
        .sync(0, FileId::ROOT)
        .mark(0);
    let is_written = |byte: &Byte| matches!(byte, Byte::Written(_));
    let has_old_bytes =
        |tree: &Tree| size(tree, "foo") == Some(3) && content(tree, "foo").iter().all(is_written);
    assert_eq!(who_at_all(&script, has_old_bytes), ["btrfs"]);
}

/// With a new file in a directory that is synced all its names are logged.
#[test]
fn the_sync_of_a_directory_may_keep_other_names_of_the_files_in_it_on_btrfs() {
    let (directory, other) = (FileId(3), FileId(4));
    let mut script = Script::new(1, &[]);
    script.file(
        0,
        FileOp::Create {
            parent: FileId::ROOT,
            name: name("directory"),
            file: directory,
            kind: FileKind::Directory,
            mode: 0o755,
        },
    );
    script.file(0, FileOp::SyncAll);
    let inside = |file, text| FileOp::Create {
        parent: directory,
        name: name(text),
        file,
        kind: FileKind::Regular,
        mode: 0o644,
    };
    let link = FileOp::Link {
        parent: directory,
        name: name("link"),
        file: FOO,
    };
    script
        .file(0, inside(other, "other"))
        .create(0, FOO, "foo")
        .file(0, link)
        .sync(0, FileId::ROOT)
        .mark(0);
    let is_there = |tree: &Tree, text| tree.contains_key(&(directory, name(text)));
    let alone = |tree: &Tree| is_there(tree, "link") && !is_there(tree, "other");
    assert_eq!(who(&script, 1, alone), ["btrfs"]);
}
