//! Names that files take and leave one after the other, and what the log of btrfs has of them: each was
//! shown by a disk. Every file that was there first has a size of its own.

use trace::{ChangeOfName, FileId, FileKind, FileOp, SyncScope};

use super::support::{
    BAR, DIRECTORY, FOO, NOBODY, OTHER, Script, Tree, exchanged, has, is_nowhere, moved_over,
    moved_to, name, new_in, size, told, who_at_all, with_directory,
};

const NEW: FileId = FileId(8);

/// A file is synced that has got the name of another one, which is logged with its name of now
/// (btrfs_check_ref_name_override): nothing is said of the name that this one took on the way.
#[test]
fn a_name_taken_on_the_way_stays_with_who_had_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "a", 8), (BAR, "b", 16)]);
    script
        .rename(0, FOO, "a", "b", Some(BAR))
        .rename(0, FOO, "b", "c", None)
        .create(0, NEW, "a")
        .sync(0, NEW)
        .mark(0);
    let is_back = |tree: &Tree| size(tree, "b") == Some(16) && size(tree, "c") == Some(8);
    assert_eq!(who_at_all(&script, is_back), ["btrfs"]);
    let is_lost = is_nowhere(8);
    assert_eq!(who_at_all(&script, is_lost), NOBODY);
}

/// The same where the file is in the log already when it takes the name of another one.
#[test]
fn who_has_a_name_when_it_is_logged_is_not_lost_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "a", 8), (BAR, "b", 16)]);
    script
        .create(0, NEW, "t")
        .write(0, NEW, 0, 24, 0)
        .sync(0, NEW)
        .rename(0, NEW, "t", "a", Some(FOO))
        .rename(0, BAR, "b", "c", None)
        .rename(0, NEW, "a", "b", None)
        .mark(0);
    let is_lost = is_nowhere(16);
    assert_eq!(who_at_all(&script, is_lost), NOBODY);
}

/// A file goes to another directory, and its old name to a new file, which is synced. The log has the
/// first one with its new name: that is lost with a directory that is new, and with no other.
#[test]
fn a_file_whose_name_is_synced_for_another_is_lost_only_with_its_directory_on_btrfs() {
    for is_there in [true, false] {
        let files = [(FOO, "a", 8)];
        let mut script = if is_there {
            with_directory(&files)
        } else {
            let mut script = Script::new(1, &files);
            let directory = new_in(FileId::ROOT, "directory", DIRECTORY, FileKind::Directory);
            script.file(0, directory);
            script
        };
        let rename = moved_to(FOO, (FileId::ROOT, "a"), (DIRECTORY, "a"));
        script
            .file(0, rename)
            .create(0, NEW, "a")
            .sync(0, NEW)
            .mark(0);
        let is_lost = |tree: &Tree| {
            let is_kept = tree.contains_key(&(DIRECTORY, name("a"))) && has(tree, "directory");
            !is_kept && size(tree, "a") != Some(8)
        };
        let models = if is_there { &[][..] } else { &["btrfs"] };
        assert_eq!(who_at_all(&script, is_lost), models, "{is_there}");
    }
}

/// It is logged with its names, and not with the bytes that were appended to it, nor their size
/// (`has d/; has d/a 12288; append d/a 5000; link d/a a; rename d/a b; rewrite d/a 2500;
/// fdatasync d/a` on a recorded disk).
#[test]
fn a_file_whose_name_is_synced_for_another_may_lack_what_was_appended_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "a", 8)]);
    let (parent, file) = (FileId::ROOT, FOO);
    let name = name("b");
    script
        .write(0, FOO, 8, 5000, 8)
        .file(0, FileOp::Link { parent, name, file })
        .rename(0, FOO, "a", "c", None)
        .create(0, NEW, "a")
        .sync(0, NEW)
        .mark(0);
    let shows = |tree: &Tree| ["b", "c"].iter().all(|name| size(tree, name) == Some(8));
    let models = ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"];
    assert_eq!(who_at_all(&script, shows), models);
}

/// The same with a link in another directory, and the old name removed.
#[test]
fn a_linked_file_whose_name_is_synced_for_another_is_not_lost_on_btrfs() {
    let mut script = with_directory(&[(FOO, "a", 8)]);
    let (parent, file) = (DIRECTORY, FOO);
    let name = name("b");
    script
        .file(0, FileOp::Link { parent, name, file })
        .unlink(0, FOO, "a")
        .create(0, NEW, "a")
        .sync(0, NEW)
        .mark(0);
    let is_lost = is_nowhere(8);
    assert_eq!(who_at_all(&script, is_lost), NOBODY);
}

/// A new file with two names is synced: the directory is not logged with it, and what is renamed there
/// later is lost with what is new.
#[test]
fn the_directory_of_a_new_file_is_not_logged_with_it_on_btrfs() {
    for is_new in [true, false] {
        let mut script = with_directory(&[(FOO, "a", 8)]);
        let file = if is_new { NEW } else { FOO };
        let (parent, link) = (FileId::ROOT, name("link"));
        if is_new {
            script.create(0, NEW, "new");
        }
        script
            .file(
                0,
                FileOp::Link {
                    parent,
                    name: link,
                    file,
                },
            )
            .create(0, BAR, "b")
            .sync(0, file)
            .rename(0, DIRECTORY, "directory", "moved", None)
            .create(0, OTHER, "t")
            .sync(0, OTHER)
            .mark(0);
        let is_lost = |tree: &Tree| !has(tree, "b") && !has(tree, "moved") && has(tree, "t");
        let lost = told(&script, "btrfs", 2, 1);
        assert_eq!(lost.iter().any(is_lost), is_new);
    }
}

/// Two files are exchanged, and one of them is synced: the other one had its name, and is logged with
/// its new one.
#[test]
fn a_file_that_was_exchanged_is_not_lost_where_the_other_one_is_synced_on_btrfs() {
    for synced in [FOO, BAR] {
        let mut script = Script::new(1, &[(FOO, "a", 8), (BAR, "b", 5)]);
        let exchange = exchanged(FOO, (FileId::ROOT, "a"), (FileId::ROOT, "b"), BAR);
        script.file(0, exchange).sync(0, synced).mark(0);
        let is_exchanged = |tree: &Tree| size(tree, "a") == Some(5) && size(tree, "b") == Some(8);
        assert_eq!(who_at_all(&script, |tree| !is_exchanged(tree)), ["xfs"]);
    }
}

/// A file gets its name by an exchange, moves on, and a third one with that name is synced: who had it
/// when all was committed is logged, and the second one is not.
#[test]
fn who_got_a_name_by_an_exchange_is_not_logged_for_it_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "a", 8)]);
    let exchange = exchanged(FOO, (FileId::ROOT, "a"), (FileId::ROOT, "b"), BAR);
    script
        .create(0, BAR, "b")
        .file(0, exchange)
        .rename(0, BAR, "a", "c", None)
        .create(0, NEW, "a")
        .sync(0, NEW)
        .mark(0);
    let is_without = |tree: &Tree| size(tree, "b") == Some(8) && !has(tree, "c") && has(tree, "a");
    assert!(told(&script, "btrfs", 2, 1).iter().any(is_without));
}

/// Who made room for a name in the log has none any more: it goes back to where it was.
#[test]
fn who_made_room_and_was_replaced_is_where_it_was_on_btrfs() {
    let mut script = Script::new(1, &[(FOO, "b", 8)]);
    script
        .rename(0, FOO, "b", "c", None)
        .create(0, BAR, "a")
        .write(0, BAR, 0, 16, 0)
        .sync(0, BAR)
        .rename(0, BAR, "a", "b", None)
        .rename(0, BAR, "b", "c", Some(FOO))
        .create(0, NEW, "t")
        .sync(0, NEW)
        .mark(0);
    let is_back = |tree: &Tree| size(tree, "b") == Some(8) && size(tree, "c") == Some(16);
    assert_eq!(who_at_all(&script, is_back), ["btrfs"]);
}

/// A file goes to another directory, where it replaces one, and on from there or is removed, and the
/// directory that it left is synced: the log has it with its name of now, and not that the other one
/// is gone (`has d/; has d/a 100; rewrite t 4096; fsync t; rename t d/a; rename d/a d/c; fsync .` on a
/// recorded disk). Where it stays, it has the name.
#[test]
fn what_a_file_replaced_is_back_once_that_moves_on_and_its_old_directory_is_synced_on_btrfs() {
    let [a, c] = [(DIRECTORY, name("a")), (DIRECTORY, name("c"))];
    let replacing = moved_over(NEW, (FileId::ROOT, "t"), (DIRECTORY, "a"), FOO);
    let on = moved_to(NEW, (DIRECTORY, "a"), (DIRECTORY, "c"));
    let removed = FileOp::Unlink {
        parent: DIRECTORY,
        name: name("a"),
        file: NEW,
    };
    let root = FileOp::Sync {
        file: FileId::ROOT,
        scope: SyncScope::File,
    };
    let with = |more: Option<&FileOp>| {
        let mut script = with_directory(&[]);
        script
            .file(0, new_in(DIRECTORY, "a", FOO, FileKind::Regular))
            .write(0, FOO, 0, 8, 0)
            .file(0, FileOp::SyncAll)
            .create(0, NEW, "t")
            .write(0, NEW, 0, 5, 0)
            .sync(0, NEW)
            .file(0, replacing.clone());
        if let Some(op) = more {
            script.file(0, op.clone());
        }
        script.file(0, root.clone()).mark(0);
        script
    };
    let is_back = |tree: &Tree| tree.get(&a).map(Vec::len) == Some(8) && !has(tree, "t");
    let both = |tree: &Tree| is_back(tree) && tree.get(&c).map(Vec::len) == Some(5);
    assert_eq!(who_at_all(&with(Some(&on)), both), ["btrfs"]);
    assert_eq!(who_at_all(&with(Some(&removed)), is_back), ["btrfs"]);
    assert_eq!(who_at_all(&with(None), is_back), NOBODY);
}

/// A file is synced in its new directory, which may commit all. What replaces it there and moves on is
/// in the log then, and not that the first one is gone (`has d/; has b 12288; rename b d/a;
/// fdatasync d/a; rewrite d/t 8192; fsync d/t; rename d/t d/a; rename d/a d/b; rewrite t 2500;
/// fdatasync t` on a recorded disk).
#[test]
fn what_was_replaced_is_back_once_its_name_was_committed_on_btrfs() {
    let mut script = with_directory(&[(FOO, "b", 8)]);
    script
        .file(0, moved_to(FOO, (FileId::ROOT, "b"), (DIRECTORY, "a")))
        .sync(0, FOO)
        .file(0, new_in(DIRECTORY, "t", NEW, FileKind::Regular))
        .sync(0, NEW)
        .file(0, moved_over(NEW, (DIRECTORY, "t"), (DIRECTORY, "a"), FOO))
        .file(0, moved_to(NEW, (DIRECTORY, "a"), (DIRECTORY, "b")))
        .create(0, BAR, "t")
        .sync(0, BAR)
        .mark(0);
    let places = ["a", "b", "t"].map(|text| (DIRECTORY, name(text)));
    let sizes = |tree: &Tree| places.each_ref().map(|place| tree.get(place).map(Vec::len));
    let is_back = |tree: &Tree| sizes(tree) == [Some(8), Some(0), None] && !has(tree, "b");
    assert_eq!(who_at_all(&script, is_back), ["btrfs"]);
    // Without its new name the one that it replaced is not gone.
    let is_gone = |tree: &Tree| sizes(tree) == [None, None, Some(0)];
    assert_eq!(who_at_all(&script, is_gone), NOBODY);
}

/// Who had a name is logged with a new file of that name if it had that when all was committed; who is in
/// the way of its other name may not have had that then (`has d/; has a 8192; has b 100; rename b c;
/// rename a b; rename c d/b; rename b c; rewrite a 5000; fsync a` on a recorded disk).
#[test]
fn who_gave_way_needs_nobody_who_had_its_name_later_on_btrfs() {
    let mut script = with_directory(&[(FOO, "a", 8), (BAR, "b", 5)]);
    script
        .rename(0, BAR, "b", "c", None)
        .rename(0, FOO, "a", "b", None)
        .file(0, moved_to(BAR, (FileId::ROOT, "c"), (DIRECTORY, "b")))
        .rename(0, FOO, "b", "c", None)
        .create(0, NEW, "a")
        .sync(0, NEW)
        .mark(0);
    let shows =
        |tree: &Tree| ["a", "b", "c"].map(|text| size(tree, text)) == [Some(0), Some(5), Some(8)];
    assert_eq!(who_at_all(&script, shows), ["btrfs"]);
}

/// A file is in another directory, and its old name was a new file's that was synced and removed: the
/// log has neither that this is gone, nor that the first one left (the first directory is not logged).
#[test]
fn a_name_that_was_left_for_another_directory_is_back_once_it_leaves_the_log_on_btrfs() {
    let root = FileId::ROOT;
    let moved = moved_to(FOO, (root, "a"), (DIRECTORY, "a"));
    let within = moved_to(FOO, (root, "a"), (root, "b"));
    for (first, models) in [(moved, &["btrfs"][..]), (within, &[])] {
        let mut script = with_directory(&[(FOO, "a", 8)]);
        script
            .file(0, first)
            .create(0, NEW, "a")
            .sync(0, NEW)
            .unlink(0, NEW, "a")
            .create(0, OTHER, "y")
            .sync(0, OTHER)
            .mark(0);
        let is_back = |tree: &Tree| size(tree, "a") == Some(8);
        assert_eq!(who_at_all(&script, is_back), models);
    }
}

/// A file has a second name, and then not the first, and the directory of that is synced: it is not
/// nowhere.
#[test]
fn a_name_is_not_removed_from_the_log_without_the_one_that_was_added_on_btrfs() {
    for parent in [FileId::ROOT, DIRECTORY] {
        let mut script = with_directory(&[]);
        let (name, file) = (name("b"), FOO);
        script
            .create(0, FOO, "a")
            .write(0, FOO, 0, 8, 0)
            .sync(0, FOO)
            .sync(0, FileId::ROOT)
            .file(0, FileOp::Link { parent, name, file })
            .unlink(0, FOO, "a")
            .mark(0);
        let is_lost = is_nowhere(8);
        assert_eq!(who_at_all(&script, is_lost), NOBODY);
        script.sync(0, FileId::ROOT).mark(0);
        assert_eq!(who_at_all(&script, is_lost), NOBODY);
    }
}

/// A file leaves its name, and another one takes that from another directory, or is moved there once
/// more: the first one is not nowhere.
#[test]
fn a_name_is_not_taken_from_elsewhere_without_who_made_room_on_btrfs() {
    for is_from_elsewhere in [true, false] {
        let mut script = with_directory(&[]);
        script
            .create(0, FOO, "a")
            .write(0, FOO, 0, 8, 0)
            .sync(0, FOO);
        let mut names = ChangeOfName {
            from: (DIRECTORY, name("b")),
            to: (FileId::ROOT, name("a")),
        };
        if is_from_elsewhere {
            script
                .file(0, new_in(DIRECTORY, "b", BAR, FileKind::Regular))
                .sync(0, BAR)
                .rename(0, FOO, "a", "c", None);
        } else {
            names.from = (FileId::ROOT, name("a"));
            names.to = (FileId::ROOT, name("b"));
            script
                .rename(0, FOO, "a", "b", None)
                .rename(0, FOO, "b", "c", None)
                .create(0, BAR, "a")
                .sync(0, BAR)
                .rename(0, FOO, "c", "d", None);
        }
        let taken = FileOp::Rename {
            file: BAR,
            names,
            replaced: None,
            exchange: false,
        };
        script.file(0, taken).mark(0);
        let is_lost = is_nowhere(8);
        assert_eq!(who_at_all(&script, is_lost), NOBODY, "{is_from_elsewhere}");
    }
}

/// A directory leaves its name, which a new one has then, with a file that is synced: the first one is
/// not nowhere.
#[test]
fn a_directory_is_not_made_again_without_the_rename_of_the_old_one_on_btrfs() {
    let mut script = with_directory(&[]);
    script
        .file(0, new_in(DIRECTORY, "a", FOO, FileKind::Regular))
        .write(0, FOO, 0, 8, 0)
        .sync(0, FOO)
        .rename(0, DIRECTORY, "directory", "moved", None)
        .file(
            0,
            new_in(FileId::ROOT, "directory", OTHER, FileKind::Directory),
        )
        .file(0, new_in(OTHER, "a", BAR, FileKind::Regular))
        .sync(0, BAR)
        .mark(0);
    let is_lost = |tree: &Tree| !has(tree, "moved");
    assert_eq!(who_at_all(&script, is_lost), NOBODY);
}

/// A file is renamed twice, and a new one takes the name between: if the first rename was committed, the
/// sync of the new one logged the file with its last name. The same with a link, and where the new one
/// came by a rename.
#[test]
fn a_name_between_is_not_kept_without_the_last_one_once_a_new_file_has_it_on_btrfs() {
    let link = FileOp::Link {
        parent: FileId::ROOT,
        name: name("b"),
        file: FOO,
    };
    let synced = |script: &mut Script, file: FileId, text: &str| {
        script.create(0, file, text).sync(0, file);
    };
    let is_lost = is_nowhere(8);
    for is_linked in [false, true] {
        for is_renamed in [false, true] {
            let mut script = Script::new(1, &[(FOO, "a", 8), (OTHER, "b", 5)]);
            script.unlink(0, OTHER, "b");
            if is_linked {
                script.file(0, link.clone()).unlink(0, FOO, "a");
            } else {
                script.rename(0, FOO, "a", "b", None);
            }
            script.rename(0, FOO, "b", "c", None);
            if is_renamed {
                synced(&mut script, BAR, "t");
                script.rename(0, BAR, "t", "b", None).sync(0, BAR);
            } else {
                synced(&mut script, BAR, "b");
            }
            script.mark(0);
            let models = who_at_all(&script, is_lost);
            assert_eq!(models, NOBODY, "{is_linked} {is_renamed}");
        }
    }
    // Without the sync of the new one the name between may be kept, by a commit; and so it may if one
    // of another name is synced.
    for (new, is_synced) in [("b", false), ("d", true)] {
        let mut script = Script::new(1, &[(FOO, "a", 8)]);
        script
            .rename(0, FOO, "a", "b", None)
            .rename(0, FOO, "b", "c", None)
            .create(0, BAR, new);
        if is_synced {
            script.sync(0, BAR);
        }
        script.mark(0);
        let is_between = |tree: &Tree| size(tree, "b") == Some(8);
        assert!(who_at_all(&script, is_between).contains(&"btrfs"), "{new}");
    }
}

/// What the log has for certain is kept, whatever is not kept without what came later: to look for what
/// is lost comes to an end (`rename t a; commit; rename a b` with the rest overflowed the stack).
#[test]
fn what_is_lost_ends_where_the_log_has_what_it_undoes_on_btrfs() {
    let mut script = with_directory(&[(FOO, "b", 8)]);
    script
        .file(0, new_in(DIRECTORY, "a", OTHER, FileKind::Regular))
        .file(0, FileOp::SyncAll);
    let over = moved_over(FOO, (FileId::ROOT, "b"), (DIRECTORY, "a"), OTHER);
    script
        .file(0, over)
        .create(0, NEW, "t")
        .sync(0, NEW)
        .rename(0, NEW, "t", "a", None)
        .rename(0, NEW, "a", "b", None)
        .create(0, BAR, "a")
        .sync(0, BAR)
        .file(0, moved_to(FOO, (DIRECTORY, "a"), (DIRECTORY, "b")))
        .mark(0);
    let is_new = |tree: &Tree| has(tree, "b") && has(tree, "a");
    assert!(told(&script, "btrfs", 2, 1).iter().any(is_new));
}

/// The sync of a file that another one replaced, and that has a name in another directory, does not say
/// who has the name that was taken: only of the directories that it has names in the log has its names.
#[test]
fn a_link_that_was_replaced_is_back_with_its_file_in_another_directory_on_btrfs() {
    let linked_in = |parent: FileId, is_back: bool| {
        let link = FileOp::Link {
            parent,
            name: name("c"),
            file: FOO,
        };
        let mut script = with_directory(&[(FOO, "b", 5), (BAR, "a", 8)]);
        let over = moved_over(BAR, (FileId::ROOT, "a"), (FileId::ROOT, "b"), FOO);
        script
            .file(0, link)
            .file(0, FileOp::SyncAll)
            .file(0, over)
            .sync(0, FOO)
            .mark(0);
        let is_first = |tree: &Tree| size(tree, "a") == Some(8) && size(tree, "b") == Some(5);
        let models = who_at_all(&script, is_first);
        assert_eq!(models.contains(&"btrfs"), is_back, "{models:?}");
    };
    linked_in(DIRECTORY, true);
    linked_in(FileId::ROOT, false);
}

/// An exchange between directories may bring a new name into the log with its directory, where the file
/// has the name that it had when all was committed, too.
#[test]
fn an_exchanged_file_has_its_first_name_too_on_btrfs() {
    let mut script = with_directory(&[(FOO, "b", 12)]);
    script
        .file(0, new_in(DIRECTORY, "a", OTHER, FileKind::Regular))
        .file(0, FileOp::SyncAll)
        .rename(0, FOO, "b", "c", None)
        .file(0, moved_to(OTHER, (DIRECTORY, "a"), (DIRECTORY, "b")))
        .file(0, new_in(DIRECTORY, "a", NEW, FileKind::Regular))
        .sync(0, NEW)
        .file(
            0,
            exchanged(FOO, (FileId::ROOT, "c"), (DIRECTORY, "b"), OTHER),
        )
        .create(0, BAR, "t")
        .sync(0, BAR)
        .mark(0);
    let has_both = |tree: &Tree| {
        let new = tree.get(&(DIRECTORY, name("b")));
        size(tree, "b") == Some(12) && new.is_some_and(|content| content.len() == 12)
    };
    assert!(who_at_all(&script, has_both).contains(&"btrfs"));
}

/// A directory that is synced is in the log with what is new in it: a new name that is removed then is
/// back only if all was committed in between.
#[test]
fn a_name_of_a_logged_directory_is_back_only_with_all_before_it_on_btrfs() {
    let removed = FileOp::Unlink {
        parent: DIRECTORY,
        name: name("x"),
        file: FOO,
    };
    let mut script = with_directory(&[]);
    script
        .create(0, BAR, "q")
        .file(0, new_in(DIRECTORY, "x", FOO, FileKind::Regular))
        .sync(0, DIRECTORY)
        .file(0, removed)
        .create(0, NEW, "t")
        .sync(0, NEW)
        .mark(0);
    let is_back = |tree: &Tree| tree.contains_key(&(DIRECTORY, name("x")));
    let with_all = |tree: &Tree| is_back(tree) && has(tree, "q");
    assert!(who_at_all(&script, with_all).contains(&"btrfs"));
    let without = |tree: &Tree| is_back(tree) && !has(tree, "q");
    assert!(!who_at_all(&script, without).contains(&"btrfs"));
}
