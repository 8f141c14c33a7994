//! What a sync keeps, and what it does not.

use std::collections::BTreeMap;

use pace_rules::nodes::{Explore, Log, MODELS, Relaxation, Request, Space, Split, State};
use trace::{ChangeOfName, FileId, FileKind, FileOp, SyncScope};

use super::support::{
    BAR, Byte, EXT4, FOO, NOBODY, Script, Tree, content, has, is_zeros, marks, name, request, size,
    told, tree, who, who_at_all, who_at_all_of,
};

#[test]
fn an_acknowledgement_before_fsync_may_be_all_that_there_is() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script.write(0, FOO, 8, 8, 8).mark(0);
    for model in MODELS {
        assert!(
            told(&script, model.name, 1, 1)
                .iter()
                .any(|tree| size(tree, "foo") == Some(8)),
            "{}",
            model.name
        );
    }
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    script.write(0, FOO, 8, 8, 8).datasync(0, FOO).mark(0);
    for model in MODELS {
        assert!(
            told(&script, model.name, 1, 1)
                .iter()
                .all(|tree| size(tree, "foo") == Some(16)),
            "{}",
            model.name
        );
    }
}

/// SQLite syncs the directory of its journal so.
#[test]
fn fdatasync_of_a_directory_covers_the_names_in_it() {
    for model in MODELS {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        script
            .unlink(0, FOO, "foo")
            .datasync(0, FileId::ROOT)
            .mark(0);
        let trees = told(&script, model.name, 1, 1);
        let is_there = |tree: &Tree| size(tree, "foo").is_some();
        assert!(!trees.iter().any(is_there), "{}", model.name);
    }
}

#[test]
fn a_rename_is_not_covered_by_fsync_of_the_file_but_where_the_log_has_all() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "tmp")
        .write(0, FOO, 0, 8, 0)
        .sync(0, FOO)
        .rename(0, FOO, "tmp", "wal", None);
    script.write(0, FOO, 8, 8, 8).datasync(0, FOO).mark(0);
    assert!(
        told(&script, "posix", 1, 1)
            .iter()
            .any(|tree| !has(tree, "wal"))
    );
    // The name was not synced either.
    assert!(told(&script, "posix", 2, 1).iter().any(BTreeMap::is_empty));
    for name in ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"] {
        assert!(
            told(&script, name, 3, 1)
                .iter()
                .all(|tree| size(tree, "wal") == Some(16)),
            "{name}"
        );
    }
    script.sync(0, FileId::ROOT).mark(0);
    assert!(
        told(&script, "posix", 3, 2)
            .iter()
            .all(|tree| size(tree, "wal") == Some(16))
    );
}

/// A sync of a page writes all of it, also what an earlier call wrote that has another page as well.
#[test]
fn the_sync_of_a_page_keeps_all_that_was_written_to_it() {
    let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
    script
        .write(0, FOO, 0, 5000, 8192)
        .write(0, FOO, 6000, 100, 8192);
    let scope = SyncScope::FileRange {
        offset: 6000,
        len: 100,
    };
    script.file(0, FileOp::Sync { file: FOO, scope }).mark(0);
    let is_old = |tree: &Tree| matches!(content(tree, "foo")[4999], Byte::Written(at) if at < 8192);
    for split in [Split::Count(1), Split::Count(3), Split::Aligned(8192)] {
        for model in MODELS.iter().filter(|model| model.log != Log::None) {
            let request = Request {
                split,
                ..request(model, Explore::BruteForce, 1)
            };
            let space = Space::new(&script.run, &request).expect("there are states");
            let told = (0..space.len()).map(|index| space.state(index));
            let mut told = told.filter(|state| marks(&script.run, state) == 1);
            let lost = told.any(|state| is_old(&tree(&script.run, &space, &state, 0)));
            assert!(!lost, "{} {split}", model.name);
        }
    }
}

#[test]
fn a_log_tree_keeps_what_was_synced_and_what_is_above_it_and_a_journal_all() {
    let (directory, inside) = (FileId(3), FileId(4));
    let mut script = Script::new(1, &[]);
    script.create(0, FOO, "foo");
    let (parent, kind) = (FileId::ROOT, FileKind::Directory);
    script.file(
        0,
        FileOp::Create {
            parent,
            name: name("directory"),
            file: directory,
            kind,
            mode: 0o755,
        },
    );
    let (parent, kind) = (directory, FileKind::Regular);
    script.file(
        0,
        FileOp::Create {
            parent,
            name: name("inside"),
            file: inside,
            kind,
            mode: 0o644,
        },
    );
    script.sync(0, inside).mark(0);
    for model in MODELS.iter().filter(|model| model.name != "posix") {
        let trees = told(&script, model.name, 3, 1);
        assert!(
            trees
                .iter()
                .all(|tree| has(tree, "directory")
                    && tree.contains_key(&(directory, name("inside"))))
        );
        assert_eq!(
            trees.iter().any(|tree| !has(tree, "foo")),
            model.name == "btrfs",
            "{}",
            model.name
        );
    }
    // A name that was moved is synced with its file, and is no commit of everything.
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "foo")
        .create(0, BAR, "tmp")
        .rename(0, BAR, "tmp", "bar", None)
        .sync(0, BAR)
        .mark(0);
    assert!(
        told(&script, "btrfs", 3, 1)
            .iter()
            .all(|tree| has(tree, "bar"))
    );
    assert!(
        told(&script, "btrfs", 3, 1)
            .iter()
            .any(|tree| !has(tree, "foo"))
    );
}

#[test]
fn fdatasync_of_a_file_that_was_renamed_has_nothing_to_commit_on_ext4() {
    let mut script = Script::new(1, &[]);
    script
        .create(0, FOO, "tmp")
        .write(0, FOO, 0, 8, 0)
        .datasync(0, FOO)
        .rename(0, FOO, "tmp", "foo", None)
        .datasync(0, FOO)
        .mark(0);
    assert_eq!(who(&script, 1, |tree| has(tree, "tmp")), EXT4);
    // fsync has, and so has any sync of a directory.
    let none: [&str; 0] = [];
    for sync in [(FOO, SyncScope::File), (FileId::ROOT, SyncScope::Data)] {
        let mut script = script.clone();
        let (file, scope) = sync;
        script.file(0, FileOp::Sync { file, scope }).mark(0);
        assert_eq!(who(&script, 2, |tree| has(tree, "tmp")), none);
    }
}

/// xfs_fs_sync_fs forces the log, and sends nothing to the disk where that is clean.
#[test]
fn sync_of_all_does_not_keep_what_xfs_wrote_in_place() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "bar", 8)]);
    script.write(0, FOO, 0, 8, 8);
    script.file(0, FileOp::SyncAll).mark(0);
    let old = |tree: &Tree| matches!(content(tree, "foo")[0], Byte::Written(at) if at < 8);
    assert_eq!(who(&script, 1, old), ["xfs"]);
    // The next sync of a file empties the disk's cache.
    script.sync(0, BAR).mark(0);
    let none: [&str; 0] = [];
    assert_eq!(who(&script, 2, old), none);
}

/// The size of what grew within a block is committed when its bytes are written, and the log
/// flushes the disk for it.
#[test]
fn sync_of_all_keeps_what_xfs_appended_to_a_block() {
    let mut script = Script::new(1, &[(FOO, "foo", 10)]);
    script.write(0, FOO, 10, 5, 10);
    script.file(0, FileOp::SyncAll).mark(0);
    let lacks =
        |tree: &Tree| size(tree, "foo") != Some(15) || is_zeros(&content(tree, "foo")[10..]);
    assert_eq!(who_at_all(&script, lacks), NOBODY);
    // Pages before that are written in place, each on its own.
    let mut script = Script::new(1, &[(FOO, "foo", 4106)]);
    script.write(0, FOO, 0, 4111, 4106);
    script.file(0, FileOp::SyncAll).mark(0);
    let is_old = |byte: &Byte| matches!(byte, Byte::Written(at) if *at < 4106);
    let lacks_first = |tree: &Tree| {
        let content = content(tree, "foo");
        content.len() == 4111 && is_old(&content[0]) && !is_old(&content[4110])
    };
    assert_eq!(who_at_all(&script, lacks_first), ["xfs"]);
    // So is the last one, if a larger size is on the disk before its bytes are.
    let scope = SyncScope::FileRange {
        offset: 11840,
        len: 12288,
    };
    let mut script = Script::new(1, &[(FOO, "foo", 5000)]);
    script
        .write(0, FOO, 3648, 4096, 5000)
        .write(0, FOO, 11840, 12288, 7744)
        .file(0, FileOp::Sync { file: FOO, scope })
        .file(0, FileOp::SyncAll)
        .mark(0);
    let is_old = |byte: &Byte| matches!(byte, Byte::Written(at) if *at < 5000);
    let lacks_second = |tree: &Tree| is_old(&content(tree, "foo")[4096]);
    assert_eq!(who_at_all(&script, lacks_second), ["xfs"]);
    // And what is written in place after it had grown.
    let mut script = Script::new(1, &[(FOO, "foo", 100)]);
    script
        .write(0, FOO, 100, 4096, 100)
        .write(0, FOO, 0, 4096, 4196)
        .file(0, FileOp::SyncAll)
        .mark(0);
    let is_old = |byte: &Byte| matches!(byte, Byte::Written(at) if *at < 100);
    let lacks_page = |tree: &Tree| {
        let content = content(tree, "foo");
        content.len() == 4196 && is_old(&content[0])
    };
    assert_eq!(who_at_all(&script, lacks_page), ["xfs"]);
    // And zeros within it: the page was written before, with its size.
    let mut script = Script::new(1, &[]);
    script.create(0, FOO, "foo").write(0, FOO, 0, 4096, 0);
    let (offset, len) = (2063, 2033);
    script
        .file(
            0,
            FileOp::Zero {
                file: FOO,
                offset,
                len,
            },
        )
        .file(0, FileOp::SyncAll)
        .mark(0);
    let lacks_zeros = |tree: &Tree| {
        let content = content(tree, "foo");
        content.len() == 4096 && !is_zeros(&content[2063..])
    };
    assert_eq!(who_at_all(&script, lacks_zeros), ["xfs"]);
}

#[test]
fn a_sync_of_a_range_keeps_no_more_of_the_bytes_than_that() {
    let mut script = Script::new(1, &[(FOO, "foo", 8192)]);
    let scope = SyncScope::Range {
        offset: 4096,
        len: 8,
    };
    script
        .write(0, FOO, 0, 8, 8192)
        .write(0, FOO, 4096, 8, 8192)
        .file(0, FileOp::Sync { file: FOO, scope })
        .mark(0);
    let old = |at: usize| move |tree: &Tree| matches!(content(tree, "foo")[at], Byte::Written(at) if at < 8192);
    assert_eq!(
        who(&script, 1, old(0)),
        ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]
    );
    let none: [&str; 0] = [];
    assert_eq!(who(&script, 1, old(4096)), none);
}

/// xfs_dir_exchange_children logs the directories, and nothing of regular files.
#[test]
fn fsync_of_a_file_does_not_keep_an_exchange_of_its_name_on_xfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8), (BAR, "bar", 8)]);
    let names = ChangeOfName {
        from: (FileId::ROOT, name("foo")),
        to: (FileId::ROOT, name("bar")),
    };
    let exchange = FileOp::Rename {
        file: FOO,
        names,
        replaced: Some(BAR),
        exchange: true,
    };
    script.file(0, exchange).sync(0, FOO).mark(0);
    let before = |tree: &Tree| {
        has(tree, "bar") && has(tree, "foo") && content(tree, "foo")[0] == Byte::Written(0)
    };
    assert_eq!(who(&script, 1, before), ["xfs"]);
    let none: [&str; 0] = [];
    script.sync(0, FileId::ROOT).mark(0);
    assert_eq!(who(&script, 2, before), none);
}

/// A page that has its place already says nothing of the size.
#[test]
fn the_sync_of_a_page_that_may_have_its_place_does_not_keep_the_size() {
    let mut script = Script::new(1, &[]);
    let scope = SyncScope::FileRange {
        offset: 0,
        len: 100,
    };
    script
        .create(0, FOO, "foo")
        .write(0, FOO, 0, 100, 0)
        .write(0, FOO, 4096, 100, 100)
        .write(0, FOO, 0, 100, 4196)
        .file(0, FileOp::Sync { file: FOO, scope })
        .mark(0);
    // All that can be lost after the sync is lost.
    for model in MODELS.iter().filter(|model| model.log != Log::None) {
        let request = request(model, Explore::BruteForce, 1);
        let space = Space::new(&script.run, &request).expect("a space");
        let events = script.run.nodes[0].events.len();
        let sizes = space.at_risk(0, events).into_iter().map(|at_risk| {
            let lost = at_risk.parts.iter().flat_map(|part| part.micros.clone());
            let kept = pace_rules::nodes::NodeState {
                micros: at_risk.micros,
                lost: lost.collect(),
            };
            let state = State {
                cut: vec![events],
                nodes: vec![kept],
                relaxation: Relaxation::Lost,
                relaxed: vec![0],
                start: pace_rules::nodes::StartOrder::Together,
            };
            assert!(space.allows(&state), "{}", model.name);
            size(&tree(&script.run, &space, &state, 0), "foo")
        });
        // On btrfs it has another place, and with that the size; on xfs it had the end of the file,
        // after which it was made zeros.
        let expected = if EXT4.contains(&model.name) {
            100
        } else {
            4096
        };
        assert_eq!(
            sizes.collect::<Vec<_>>(),
            [Some(expected)],
            "{}",
            model.name
        );
    }
}

/// A page goes to the disk with the folio that it is in, and the size on the disk becomes its end if
/// the file is larger in memory. Where nothing was cut off, a folio has bytes up to its end.
#[test]
fn the_size_may_be_that_of_a_folio_where_a_file_was_cut_off_on_ext4() {
    let is_at = |end: u64| move |tree: &Tree| size(tree, "foo") == usize::try_from(end).ok();
    for (is_cut, models) in [(true, &EXT4[..]), (false, &NOBODY)] {
        let mut script = Script::new(1, &[(FOO, "foo", 100)]);
        let resize = |from, to| FileOp::Resize {
            file: FOO,
            from,
            to,
        };
        let scope = SyncScope::FileRange {
            offset: 3841,
            len: 8192,
        };
        if is_cut {
            script
                .write(0, FOO, 4214, 12288, 100)
                .file(0, resize(16502, 12288));
        } else {
            script.write(0, FOO, 4214, 8074, 100);
        }
        script
            .write(0, FOO, 20598, 100, 12288)
            .write(0, FOO, 3841, 8192, 20698)
            .file(0, FileOp::Sync { file: FOO, scope })
            .mark(0);
        let [folio, whole, less] =
            who_at_all_of(&script, [&is_at(16384), &is_at(12288), &is_at(8192)]);
        assert_eq!(folio, models, "{is_cut}");
        assert_eq!(whole.len(), 4, "{is_cut}");
        assert_eq!(less, NOBODY, "{is_cut}");
    }
}

#[test]
fn an_attribute_is_no_reason_for_fdatasync_to_commit_but_on_xfs() {
    let mut script = Script::new(1, &[(FOO, "foo", 8)]);
    let value = Some(script.data(1));
    let set = FileOp::SetXattr {
        file: FOO,
        name: name("user.a"),
        value,
    };
    script
        .create(0, BAR, "bar")
        .file(0, set)
        .datasync(0, FOO)
        .mark(0);
    assert_eq!(
        who(&script, 1, |tree| !has(tree, "bar")),
        ["ext4-ordered", "ext4-writeback", "btrfs"]
    );
}

#[test]
fn a_sync_of_a_range_does_not_keep_the_bytes_in_place_of_a_write_whose_growth_is_taken_back() {
    // Shown by ext4: has b 4096; write b 0 5000; truncate b 4096; append b 4096 dsync
    let synced = |scope| {
        let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
        let (file, from, to) = (FOO, 5000, 4096);
        script
            .write(0, FOO, 0, 5000, 4096)
            .file(0, FileOp::Resize { file, from, to })
            .write(0, FOO, 4096, 4096, 4096)
            .file(0, FileOp::Sync { file, scope });
        script
    };
    let lacks =
        |tree: &Tree, place: usize, was: Byte| content(tree, "foo").get(place) == Some(&was);
    let is_old = |tree: &Tree| lacks(tree, 0, Byte::Written(0)) && size(tree, "foo") == Some(8192);
    let (offset, len) = (4096, 4096);
    let range = synced(SyncScope::Range { offset, len });
    assert_eq!(
        who_at_all(&range, is_old),
        ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"]
    );
    // A sync of the whole file keeps them.
    assert_eq!(who_at_all(&synced(SyncScope::Data), is_old), NOBODY);
}

#[test]
fn growth_that_is_taken_back_is_no_reason_for_fdatasync_to_commit_on_ext4() {
    // Shown by a disk: has a 4096; write a 8192 12288; chmod a 600; truncate a 4096; fdatasync a
    let written = |size: u64, offset: u64, to: u64| {
        let mut script = Script::new(1, &[(FOO, "foo", size)]);
        let (file, from) = (FOO, offset + 4096);
        script
            .create(0, BAR, "bar")
            .write(0, FOO, offset, 4096, size)
            .file(0, FileOp::Resize { file, from, to })
            .datasync(0, FOO)
            .mark(0);
        script
    };
    let lacks_bar = |script: &Script| who(script, 1, |tree| !has(tree, "bar"));
    let taken_back = written(4096, 8192, 4096);
    assert_eq!(
        lacks_bar(&taken_back),
        ["ext4-ordered", "ext4-writeback", "btrfs"]
    );
    // Either the disk never had what it grew by, or that was a reason.
    let none: [&str; 0] = [];
    let is_larger = |tree: &Tree| size(tree, "foo") > Some(4096);
    assert_eq!(who(&taken_back, 1, is_larger), none);
    // Nor is it one for the next. Shown by a disk: has a 8192; rewrite c 5000; write a 12288 100;
    // truncate a 8192; fdatasync a; write a 0 50 dsync
    let mut twice = taken_back;
    twice.write(0, FOO, 0, 50, 4096).datasync(0, FOO).mark(0);
    let who_lacks_bar = who(&twice, 2, |tree| !has(tree, "bar"));
    assert_eq!(who_lacks_bar, ["ext4-ordered", "ext4-writeback", "btrfs"]);
    // The write may begin in a block that is full. Shown by a disk: has b 12288; write b 8849 5000;
    // rewrite a 8192; truncate b 12288; fdatasync b
    let from_within = written(4096, 2048, 4096);
    assert_eq!(
        lacks_bar(&from_within),
        ["ext4-ordered", "ext4-writeback", "btrfs"]
    );
    let is_old = |tree: &Tree| content(tree, "foo")[4095] == Byte::Written(4095);
    assert_eq!(who(&from_within, 1, is_old), none);
    assert_eq!(who(&from_within, 1, is_larger), none);
    // Another size than the one that the disk had is a reason, and so is growth within a block that
    // has its place: that size was known at once.
    assert_eq!(lacks_bar(&written(4096, 8192, 4000)), ["btrfs"]);
    assert_eq!(lacks_bar(&written(100, 100, 100)), ["btrfs"]);
}

/// xfs_dir_fsync forces the log, which sends nothing to the disk if it is clean.
#[test]
fn the_sync_of_a_directory_that_is_durable_leaves_the_cache_of_the_disk_on_xfs() {
    for (synced, models) in [(FileId::ROOT, &["xfs"][..]), (FOO, &[])] {
        let mut script = Script::new(1, &[(FOO, "foo", 8)]);
        script.write(0, FOO, 0, 8, 8).file(0, FileOp::SyncAll);
        script.sync(0, synced).mark(0);
        let is_old = |tree: &Tree| content(tree, "foo")[0] == Byte::Written(0);
        assert_eq!(who(&script, 1, is_old), models);
    }
}

/// It changes the inode, whether the file had that space or not.
#[test]
fn space_for_a_file_is_a_reason_for_fdatasync_to_commit() {
    for keeps_size in [true, false] {
        let allocate = FileOp::Allocate {
            file: FOO,
            offset: 0,
            len: 4096,
            keeps_size,
        };
        let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
        script.create(0, BAR, "bar").datasync(0, FOO).mark(0);
        let lacks_bar = |script: &Script| who(script, 1, |tree| !has(tree, "bar"));
        let all = ["ext4-ordered", "ext4-writeback", "xfs", "btrfs"];
        assert_eq!(lacks_bar(&script), all);
        let mut script = Script::new(1, &[(FOO, "foo", 4096)]);
        script.create(0, BAR, "bar").file(0, allocate);
        script.datasync(0, FOO).mark(0);
        assert_eq!(lacks_bar(&script), ["btrfs"]);
        // One that another thread does at the same time may come too late.
        let allocating = &mut script.run.nodes[0].events[1];
        (allocating.thread, allocating.end_ns) = (9, allocating.end_ns + 2);
        assert_eq!(lacks_bar(&script), all);
    }
}

/// Where a file has its space before its bytes, a rename finds no delayed blocks to be written.
#[test]
fn a_rename_over_a_file_does_not_wait_for_what_was_reserved_on_ext4() {
    for is_reserved in [false, true] {
        let mut script = Script::new(1, &[(FOO, "foo", 4096), (BAR, "bar", 8)]);
        if is_reserved {
            script.file(
                0,
                FileOp::Allocate {
                    file: FOO,
                    offset: 4096,
                    len: 4096,
                    keeps_size: true,
                },
            );
        }
        script
            .write(0, FOO, 4096, 4096, 4096)
            .rename(0, FOO, "foo", "bar", Some(BAR))
            .mark(0);
        let is_short = |tree: &Tree| !has(tree, "foo") && size(tree, "bar") == Some(4096);
        let shown = who(&script, 1, is_short);
        let is_shown = |model: &str| shown.contains(&model);
        assert_eq!(is_shown("ext4-ordered"), is_reserved, "{shown:?}");
        assert_eq!(is_shown("ext4-writeback"), is_reserved, "{shown:?}");
    }
}
